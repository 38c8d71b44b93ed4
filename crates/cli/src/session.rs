//! One run of the lab from the command: its cores, its folder, its store, and how it is stopped.

use crate::args::Manner;
use crate::faults::{Fault, INTERRUPTED};
use crate::forecast::Forecast;
use crate::progress::Meter;
use crate::{Clock, VERSION, terminal};
use cavy_report::folder::Folder;
use cavy_study::point::{Manner as HowRun, RunError};
use cavy_study::runner::Runner;
use cavy_study::store::{Skipped, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long points in hand may take to end after a request to stop. The whole program is to be gone
/// within a second, on a busy machine as well.
const PATIENCE: Duration = Duration::from_millis(500);

/// Everything a run needs beside its plan.
pub struct Session {
    /// Where results go.
    pub folder: Folder,
    /// Finished points.
    pub store: Store,
    /// Cores used.
    pub jobs: usize,
    meter: Arc<Meter>,
    stop: Arc<AtomicBool>,
    pool: rayon::ThreadPool,
    manner: HowRun,
}

/// Cores to use.
pub fn jobs(manner: &Manner) -> usize {
    match manner.jobs {
        Some(jobs) => jobs.into(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

impl Session {
    /// Opens the folder and the store for the command `by`, and listens for Ctrl-C.
    pub fn open(manner: &Manner, by: &str, clock: Clock) -> Result<Self, Fault> {
        let folder = Folder::open(&manner.out, by, manner.resume)?;
        if let Some(moved) = folder.moved() {
            terminal::talk(&format!("note: {moved}"));
        }
        let (store, skipped) = Store::in_file(&folder.join("points.jsonl"), manner.resume, VERSION)
            .map_err(|error| Fault::from(error).hint("name another folder with `--out DIR`"))?;
        say_skipped(&folder, skipped);
        let jobs = jobs(manner);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().map_err(|error| {
            Fault::new(format!("cannot start {jobs} threads: {error}"))
                .hint("ask for fewer with `--jobs N`")
        })?;
        let meter = Arc::new(Meter::new(clock, jobs));
        Ok(Session {
            folder,
            store,
            jobs,
            stop: listen(Arc::clone(&meter))?,
            meter,
            pool,
            manner: HowRun {
                queue: manner.queue.map(Into::into),
                shuffle_ties: manner.shuffle_ties,
                twice: manner.twice,
                sectioned: false,
            },
        })
    }

    /// Does `work` on this session's cores, with progress.
    pub fn run<T: Send>(
        &self,
        estimate: &Forecast,
        work: impl FnOnce(&Runner<'_>) -> Result<T, RunError> + Send,
    ) -> Result<T, Fault> {
        let runner = Runner {
            store: &self.store,
            progress: &*self.meter,
            stop: &self.stop,
            manner: self.manner,
            version: VERSION,
        };
        if estimate.cost.kept > 0 {
            let kept = estimate.cost.kept;
            terminal::talk(&format!("resume: {kept} points are finished already"));
        }
        self.meter.begin(estimate);
        let outcome = self.pool.install(|| work(&runner));
        self.meter.end();
        outcome.map_err(|error| match error {
            RunError::Interrupted { .. } => interrupted(&self.meter),
            other => other.into(),
        })
    }
}

/// What a user reads of a run that was stopped.
fn interrupted(meter: &Meter) -> Fault {
    let (done, total) = meter.done();
    let mut command = terminal::command_line();
    if !command.split(' ').any(|word| word == "--resume") {
        command.push_str(" --resume");
    }
    Fault::new(format!("interrupted after {done} of {total} points; go on with: {command}"))
        .code(INTERRUPTED)
}

/// Names what a file of results held that could not be used.
fn say_skipped(folder: &Folder, skipped: Skipped) {
    let file = folder.join("points.jsonl");
    let lines = |count: usize| if count == 1 { "line" } else { "lines" };
    if skipped.damaged > 0 {
        let Skipped { damaged, .. } = skipped;
        let what = lines(damaged);
        let file = file.display();
        terminal::talk(&format!(
            "resume: {damaged} {what} of {file} cannot be read; those points are run again"
        ));
    }
    if skipped.of_other_versions > 0 {
        let Skipped { of_other_versions, .. } = skipped;
        let what = lines(of_other_versions);
        let file = file.display();
        terminal::talk(&format!(
            "resume: {of_other_versions} {what} of {file} come from another version of cavy; those \
             points are run again"
        ));
    }
}

/// At the first Ctrl-C (or request to terminate) no further point is begun, and after a moment the
/// program ends: finished points are in the folder, and those in hand are lost. The second ends it
/// at once.
fn listen(meter: Arc<Meter>) -> Result<Arc<AtomicBool>, Fault> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        let meter = Arc::clone(&meter);
        // The handler must stay free for a second request.
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            meter.end();
            terminal::talk(&interrupted(&meter).render());
            std::process::exit(INTERRUPTED.into());
        });
    })
    .map_err(|error| Fault::new(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(stop)
}
