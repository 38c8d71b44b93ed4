//! The files of a run: opened before it, written after it.

use crate::args::Load;
use crate::faults::{FAILED, Fault};
use crate::terminal;
use cavy_core::Span;
use cavy_live::load::{Report, Schedule, Verdict, export};
use cavy_report::file::{NewFile, replace};
use std::path::{Path, PathBuf};

/// Length of an interval of the interval log.
pub const INTERVAL: Span = Span::from_ms(1_000);

/// The files that were asked for.
pub struct Outputs {
    lines: Option<Output>,
    hlog: Option<Output>,
    html: Option<Output>,
    /// One for each type.
    percentiles: Vec<Output>,
}

struct Output {
    path: PathBuf,
    file: NewFile,
}

impl Output {
    fn open(path: &Path) -> Result<Output, Fault> {
        let file = NewFile::open(path).map_err(|error| unwritable(path, &error))?;
        Ok(Output { path: path.to_path_buf(), file })
    }

    fn finish(self, bytes: &[u8]) -> Result<(), Fault> {
        self.file.finish(bytes).map_err(|error| unwritable(&self.path, &error).code(FAILED))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Fault {
    Fault::new(format!("cannot write {}: {error}", path.display()))
}

impl Outputs {
    /// Opens all of them, for a run with these types.
    pub fn open(args: &Load, types: &[String]) -> Result<Outputs, Fault> {
        let percentiles: Vec<PathBuf> = match &args.percentiles {
            None => Vec::new(),
            Some(file) => types.iter().map(|name| of_type(file, name)).collect(),
        };
        let single = [&args.lines, &args.hlog, &args.html, &args.save_schedule];
        let mut all: Vec<&PathBuf> = single.into_iter().flatten().chain(&percentiles).collect();
        all.sort();
        if let Some(twice) = all.windows(2).find(|two| two[0] == two[1]) {
            return Err(Fault::new(format!("two options write {}", twice[0].display())));
        }
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        Ok(Outputs {
            lines: open(&args.lines)?,
            hlog: open(&args.hlog)?,
            html: open(&args.html)?,
            percentiles: percentiles
                .iter()
                .map(|path| Output::open(path))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Writes them; distributions that must not be published are not written. What fails does not
    /// keep the others from being written.
    pub fn write(self, report: &Report, page: impl FnOnce() -> String) -> Result<(), Fault> {
        let lines = self.lines.map(|file| file.finish(export::lines(report).as_bytes()));
        let mut results: Vec<Result<(), Fault>> = lines.into_iter().collect();
        results.extend(self.html.map(|file| file.finish(page().as_bytes())));
        if matches!(report.verdict, Verdict::Refused(_)) {
            if self.hlog.is_some() || !self.percentiles.is_empty() {
                terminal::talk("no distributions are written, for the reasons below");
            }
            return results.into_iter().collect();
        }
        results.extend(self.hlog.map(|file| {
            let log = export::interval_log(report, INTERVAL);
            let log = log.map_err(|error| {
                Fault::new(format!("cannot encode the interval log: {error}")).code(FAILED)
            })?;
            file.finish(&log)
        }));
        results.extend(self.percentiles.into_iter().zip(&report.accounts).map(
            |(file, account)| file.finish(export::percentile_text(&account.response).as_bytes()),
        ));
        results.into_iter().collect()
    }
}

/// `FILE.TYPE.txt`.
fn of_type(file: &Path, name: &str) -> PathBuf {
    let mut path = file.as_os_str().to_os_string();
    path.push(format!(".{name}.txt"));
    path.into()
}

/// Stores the schedule, before anything is sent.
pub fn save_schedule(args: &Load, schedule: &Schedule) -> Result<(), Fault> {
    let Some(path) = &args.save_schedule else { return Ok(()) };
    replace(path, schedule.to_text().as_bytes())
        .map_err(|error| unwritable(path, &error).code(FAILED))
}
