//! `cavy-live load`.

mod outputs;
mod page;
mod server;
mod table;

use crate::args::{self, Load};
use crate::expect::{Expectation, Judged};
use crate::faults::{FAILED, Fault, INTERRUPTED};
use crate::signals::{self, Second};
use crate::terminal;
use cavy_live::load::ledger::Keep;
use cavy_live::load::report::TypeReport;
use cavy_live::load::schedule::ENTRIES_MAX;
use cavy_live::load::{
    Model, Options, Progress, Report, Schedule, Verdict, Wait, Watch, clock, run,
};
use cavy_report::number::count;
use cavy_study::plan::files;
use cavy_workload::{Arrivals, Mix, Phase, Service, Type, Workload};
use outputs::Outputs;
use server::{Server, connect};
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Exit code of a run whose percentiles must not be published.
const REFUSED: u8 = 3;

/// Runs the command.
pub fn load(args: &Load) -> Result<ExitCode, Fault> {
    let server = Server::read(args)?;
    let (schedule, texts) = prepare(args)?;
    let sends = server.sends(&texts, &args.headers)?;
    // What can be said beforehand is said before anything is sent.
    if schedule.entries().is_empty() {
        return Err(Fault::new("the schedule is empty: no request falls into --duration")
            .hint("raise --rate or --duration"));
    }
    if args.warmup >= schedule.length() {
        let (warmup, length) = (args.warmup, schedule.length());
        return Err(Fault::new(format!("--warmup {warmup} leaves nothing of {length} to measure")));
    }
    // A file that cannot be written must not be found out at the end.
    let outputs = Outputs::open(args, schedule.types())?;
    outputs::save_schedule(args, &schedule)?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::set(&stop, Second::Ends)?;
    let targets = connect(args, &server, &sends)?;
    let started = clock::now();
    terminal::talk(&format!(
        "sending {} requests in {:.1} s to {} (schedule {:016x}); Ctrl-C ends early",
        schedule.entries().len(),
        schedule.length().as_us() / 1e6,
        args.url,
        schedule.digest()
    ));
    if args.closed.is_none() {
        terminal::talk(&table::expected(&schedule, args.warmup));
    }
    let options = options(args, &schedule, stop);
    let report = run(&schedule, targets, &options)
        .map_err(|error| Fault::new(error.to_string()).code(FAILED))?;
    terminal::forget_line();
    let elapsed_s = clock::now().since(started).as_us() / 1e6;
    let judged: Vec<Judged> = args.expectations.iter().map(|one| one.judge(&report)).collect();
    // Whatever becomes of the files, the result is shown, and the reverse.
    let stored = outputs.write(&report, || {
        cavy_report::html::render(&page::document(args, &report, &judged, elapsed_s))
    });
    if args.json {
        terminal::print_json(&Printed { report: &report, expectations: &judged })?;
    } else {
        let expected: String = judged.iter().map(|one| one.line() + "\n").collect();
        terminal::print(&(table::render(&report) + &expected))?;
    }
    stored?;
    for kind in report.types.iter().filter(|kind| kind.mostly_failed()) {
        let (name, sent, answered) = (&kind.name, kind.sent, kind.answered);
        terminal::talk(&format!(
            "error: of {sent} requests of type {name} {answered} were answered"
        ));
    }
    for one in judged.iter().filter(|one| one.holds != Some(true)) {
        terminal::talk(&format!("error: {}", one.line()));
    }
    Ok(ExitCode::from(exit_code(&report, &judged)))
}

/// What `--json` prints.
#[derive(serde::Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "<[Judged]>::is_empty")]
    expectations: &'a [Judged],
}

fn exit_code(report: &Report, judged: &[Judged]) -> u8 {
    let any = |holds| judged.iter().any(|one| one.holds == holds);
    match &report.verdict {
        _ if report.interrupted => INTERRUPTED,
        _ if report.sent == 0 || report.types.iter().any(TypeReport::mostly_failed) => FAILED,
        _ if any(Some(false)) => FAILED,
        Verdict::Refused(_) => REFUSED,
        _ if any(None) => FAILED,
        _ => 0,
    }
}

/// Somebody who says every second how far the run is: a line that is kept up to date on a terminal,
/// and where `--progress` asks for it a line each.
fn watch(args: &Load, schedule: &Schedule) -> Option<Watch> {
    let in_place = std::io::stderr().is_terminal() && !args.progress;
    let whole_s = schedule.length().as_us() / 1e6;
    let planned = schedule.entries().len() as u64;
    let tell = move |progress: &Progress| {
        let passed_s = (progress.passed.as_us() / 1e6).min(whole_s);
        let Progress { sent, open, failed, .. } = *progress;
        let line = format!(
            "{passed_s:.0} of {whole_s:.0} s: {} of {} requests sent, {} under way, {} failed",
            count(sent),
            count(planned),
            count(open),
            count(failed)
        );
        if in_place { terminal::keep_line(&line) } else { terminal::talk(&line) }
    };
    let wanted = args.progress || in_place;
    wanted.then(|| Watch { every: Duration::from_secs(1), tell: Arc::new(tell) })
}

fn options(args: &Load, schedule: &Schedule, stop: Arc<AtomicBool>) -> Options {
    let by_second = args.hlog.is_some() || args.html.is_some();
    Options {
        model: args.closed.map_or(Model::Open, |clients| Model::Closed { clients }),
        wait: match args.wait {
            args::Wait::Spin => Wait::Spin,
            args::Wait::Hybrid => Wait::Hybrid,
            args::Wait::Sleep => Wait::Sleep,
        },
        first: args.first,
        warmup: args.warmup,
        patience: args.timeout,
        shortest_service: args.shortest_service,
        force: args.force_publish,
        keep: Keep {
            interval: by_second.then_some(outputs::INTERVAL),
            lines: args.lines.is_some(),
        },
        probe: args.probe,
        stop,
        watch: watch(args, schedule),
    }
}

/// The schedule, and what to send for each of its types.
fn prepare(args: &Load) -> Result<(Schedule, Vec<String>), Fault> {
    let schedule = match &args.schedule {
        Some(file) => stored(file)?,
        None => draw(args)?,
    };
    for one in &args.types {
        if args.schedule.is_some() && one.share.is_some() {
            return Err(Fault::new(format!(
                "--type {} has a share, but --schedule says how often each type comes",
                one.name
            ))
            .hint(format!("write it as {}={}", one.name, one.text)));
        }
        if !schedule.types().contains(&one.name) {
            return Err(Fault::new(format!("--type {} is not in the schedule", one.name))
                .hint(format!("it has the types {}", schedule.types().join(", "))));
        }
    }
    for name in args.expectations.iter().filter_map(Expectation::whose) {
        if !schedule.types().iter().any(|known| known == name) {
            return Err(Fault::new(format!("--expect names the unknown type `{name}`"))
                .hint(format!("there are {}", schedule.types().join(", "))));
        }
    }
    let text = |name: &String| {
        let found = args.types.iter().find(|one| one.name == *name);
        found.map(|one| one.text.clone()).ok_or_else(|| {
            Fault::new(format!("nothing says what to send for type {name} of the schedule"))
                .hint(format!("add --type {name}=REQUEST"))
        })
    };
    let texts = schedule.types().iter().map(text).collect::<Result<_, _>>()?;
    Ok((schedule, texts))
}

fn stored(file: &Path) -> Result<Schedule, Fault> {
    let text = files::text(file)
        .map_err(|error| Fault::new(format!("cannot read {}: {error}", file.display())))?;
    Schedule::from_text(&text).map_err(|error| {
        Fault::new(format!("{}: {error}", file.display()))
            .hint("`cavy load --save-schedule FILE` writes such files")
    })
}

fn draw(args: &Load) -> Result<Schedule, Fault> {
    // clap asks for a rate when there is no schedule.
    let rate_per_s = args.rate.unwrap_or(1.0);
    let count = rate_per_s * args.duration.as_us() / 1e6;
    if count > 0.95 * ENTRIES_MAX as f64 {
        return Err(Fault::new(format!(
            "--rate {rate_per_s} for --duration {} makes {count:.0} requests, and a schedule has \
             at most {ENTRIES_MAX}",
            args.duration
        ))
        .hint("lower the rate or shorten the duration"));
    }
    let sum: f64 = args.types.iter().map(|one| one.share.unwrap_or(1.0)).sum();
    let types = args.types.iter().map(|one| Type {
        share: one.share.unwrap_or(1.0) / sum,
        service: Service::Constant { ns: 1 },
    });
    let wrong = |error: String| Fault::new(format!("--type: {error}"));
    let mix = Mix::new(types.collect()).map_err(|error| wrong(error.to_string()))?;
    let (arrivals, name) = match args.arrivals {
        args::Arrivals::Poisson => (Arrivals::Poisson, "poisson"),
        args::Arrivals::Constant => (Arrivals::Constant, "constant"),
    };
    let phase = Phase { mix, arrivals, rate_per_s, duration: None };
    let workload = Workload::new(vec![phase], 0.0)
        .map_err(|error| Fault::new(format!("--rate {rate_per_s}: {error}")))?;
    let names: Vec<String> = args.types.iter().map(|one| one.name.clone()).collect();
    let origin = format!("{name} {rate_per_s} per s for {} with seed {}", args.duration, args.seed);
    Schedule::draw(&workload, args.seed, args.duration, names, false, &origin)
        .map_err(|error| wrong(error.to_string()))
}
