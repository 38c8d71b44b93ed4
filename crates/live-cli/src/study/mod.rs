//! `cavy-live study`: the pool beside those a user would take instead, on this machine, with what
//! the machine was like `[persephone 7.7]`.
//!
//! Reading order: `work` (what requests do), `peers` (who is compared), `trial` (the same arrivals
//! for all, in turns), then the studies `l1` to `l4` and `costs`. `homa` is a study of its own
//! kind, on a network of hosts, and `search` one of a cluster of processes. What all have in
//! common, turns, health, kept runs and claims, is the room `trials`.

mod costs;
mod floors;
mod homa;
mod l1;
mod l2;
mod l3;
mod l4;
mod peers;
pub mod plan;
pub mod plans;
mod search;
mod tables;
mod trial;
mod work;

use crate::args::{self, HomaPart, PeerName, Study, StudyName};
use crate::faults::{FAILED, Fault};
use crate::signals::{self, Second};
use crate::terminal;
use cavy_core::{Digest, Span};
use cavy_live::load::machine::Machine;
use cavy_live::load::{Schedule, Wait, clock};
use cavy_report::folder::Folder;
use cavy_report::model::{Document, Verdict};
use cavy_study::claim::Statement;
use cavy_study::source::Source;
use cavy_trials::finding;
use cavy_workload::{Arrivals, Mix, Phase, Service, Type, Workload};
use floors::Floors;
use peers::{Bench, Go};
use std::process::ExitCode;
use trial::Session;

/// Repetitions when nothing is said `[persephone 7.7]`.
const REPETITIONS: u16 = 5;

/// Length of the longest schedule that is sent, in requests.
const REQUESTS_MAX: f64 = 5e6;

/// What was asked for.
pub struct Settings {
    args: Study,
    session: Session,
    repetitions: u16,
    peers: Vec<PeerName>,
}

impl Settings {
    /// Length of a run whose default and quick lengths are given in seconds.
    fn duration(&self, (full, quick): (f64, f64)) -> Span {
        let seconds = self.args.seconds.unwrap_or(if self.args.quick { quick } else { full });
        Span::from_ns((seconds * 1e9) as u64)
    }

    /// The seed of each repetition.
    fn seeds(&self) -> impl Iterator<Item = u64> {
        (0..u64::from(self.repetitions)).map(|repetition| self.args.seed.wrapping_add(repetition))
    }

    /// Those asked for who run jobs on threads of their own.
    fn pools(&self) -> Vec<PeerName> {
        self.peers.iter().copied().filter(|&peer| peer != PeerName::Semaphore).collect()
    }

    fn has_peers_for(&self, study: StudyName) -> bool {
        match study {
            StudyName::L2 => !l2::peers(self).is_empty(),
            StudyName::Costs | StudyName::Homa | StudyName::Search => true,
            StudyName::L1 | StudyName::L3 | StudyName::L4 => !self.pools().is_empty(),
        }
    }

    /// Types of constant service times.
    fn mix(&self, types: &[(f64, Span)]) -> Result<Mix, Fault> {
        let of = |&(share, span): &(f64, Span)| Type {
            share,
            service: Service::Constant { ns: span.as_ns() },
        };
        Mix::new(types.iter().map(of).collect()).map_err(|error| Fault::new(error.to_string()))
    }

    /// Poisson arrivals of each repetition.
    fn schedules(
        &self,
        mix: Mix,
        rate_per_s: f64,
        duration: Span,
        types: &[String],
        timed: bool,
    ) -> Result<Vec<Schedule>, Fault> {
        let count = rate_per_s * duration.as_us() / 1e6;
        if count > REQUESTS_MAX {
            let most = REQUESTS_MAX / rate_per_s;
            return Err(Fault::new(format!("--seconds makes {count:.0} requests a run")).hint(
                format!("at {rate_per_s:.0} requests a second, {most:.0} seconds are the most"),
            ));
        }
        let phase = Phase { mix, arrivals: Arrivals::Poisson, rate_per_s, duration: None };
        let workload = Workload::new(vec![phase], 0.0);
        let workload = workload.map_err(|error| Fault::new(error.to_string()))?;
        let draw = |seed| {
            let origin = format!("poisson {rate_per_s:.1} per s for {duration} with seed {seed}");
            let names = types.to_vec();
            let schedule = Schedule::draw(&workload, seed, duration, names, timed, &origin);
            let schedule = schedule.map_err(|error| Fault::new(error.to_string()))?;
            // The warm-up is a tenth of the duration, and something must come after it.
            if schedule.length().saturating_mul(10) <= duration {
                return Err(Settings::too_short());
            }
            Ok(schedule)
        };
        self.seeds().map(draw).collect()
    }

    fn too_short() -> Fault {
        Fault::new("--seconds is too short: no request falls into it").hint("take a second or more")
    }

    /// The command that runs this study again.
    fn command(&self, study: StudyName) -> String {
        self.args.again(Some(study))
    }
}

/// Fewer completions say little about a mix: those of long requests come late at first, and a
/// reservation made before them has no place for long ones.
const WINDOW_MIN: u64 = 200;

/// The window of live pools where the warm-up is long enough, else half of what completes in it, so
/// that the first reservation is made before anything is measured.
fn windows(rate_per_s: f64, warmup: Span) -> u64 {
    ((rate_per_s * warmup.as_us() / 2e6) as u64).clamp(WINDOW_MIN, 5_000)
}

/// Runs the command.
pub fn study(args: &Study) -> Result<ExitCode, Fault> {
    let mut args = args.clone();
    if let (Some(file), [], false) = (&args.plan, &args.studies[..], args.print_plan) {
        match homa::plan::study_of(file, args.quick)? {
            Some((study, repetitions)) => {
                args.studies = vec![study];
                args.repetitions = args.repetitions.or(repetitions);
            }
            None => args.studies = vec![plan::OnServer::study_of(file, args.quick)?],
        }
    }
    let args = &args;
    if args.print_plan || args.plan.is_some() {
        let option = if args.print_plan { "--print-plan" } else { "--plan" };
        let [study @ (StudyName::L1 | StudyName::L4 | StudyName::Homa)] = args.studies[..] else {
            return Err(Fault::new(format!("{option} needs one study that has a plan"))
                .hint("those are l1, l4 and homa: `cavy-live study l1 --print-plan`"));
        };
        if args.print_plan {
            let incast = args.homa.parts == [HomaPart::Incast];
            terminal::print(match study {
                StudyName::L1 => plans::L1,
                StudyName::L4 => plans::L4,
                _ if incast => plans::INCAST,
                _ => plans::HOMA,
            })?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    let started = clock::now();
    let settings = settings(args)?;
    let chosen = if args.studies.is_empty() {
        use StudyName::{Costs, Homa, L1, L2, L3, L4};
        vec![L1, L2, L3, L4, Costs, Homa]
    } else {
        args.studies.clone()
    };
    let floors = Floors::measure();
    let floors = floors.map_err(|error| Fault::new(format!("cannot start a thread: {error}")))?;
    let machine = Machine::before(args.probe);
    let mut document = blank(args, &settings, &machine);
    let mut digest = Digest::new();
    let statements = statements();
    for study in chosen {
        if !settings.has_peers_for(study) {
            terminal::talk(&format!(
                "SKIPPED: {}: no peer that was asked for takes part",
                args::name(study)
            ));
            continue;
        }
        let part = match study {
            StudyName::L1 => l1::run(&settings)?,
            StudyName::L2 => l2::run(&settings)?,
            StudyName::L3 => l3::run(&settings)?,
            StudyName::L4 => l4::run(&settings)?,
            StudyName::Costs => costs::run(&settings)?,
            StudyName::Homa => homa::run(&settings)?,
            StudyName::Search => search::run(&settings)?,
        };
        let name = args::name(study);
        let quiet = part.quiet();
        document.facts.push((format!("quiet enough ({name})"), quiet.words()));
        document.facts.push((format!("generator ({name})"), part.generator().to_string()));
        document.facts.extend(part.facts);
        let again = settings.command(study);
        document.claims.extend(finding::judge(&statements, &part.findings, quiet, &again));
        document.figures.extend(part.figures);
        for heard in &part.heard {
            digest.fold(heard.schedule);
        }
    }
    let Some(last) = document.figures.last_mut() else {
        return Err(Fault::new("no peer is left to compare").code(FAILED));
    };
    last.tables.push(floors.table());
    document.digest = format!("{:016x}", digest.value());
    document.elapsed_s = clock::now().since(started).as_us() / 1e6;
    finish(&document, &settings.session.folder, args.json)
}

/// All claims about live runs. Nothing reads them while measuring.
pub fn statements() -> Vec<Statement> {
    cavy_sources::all().iter().flat_map(Source::live_statements).collect()
}

/// Writes the report of a study and prints it; the exit code says whether a claim was missed.
pub fn finish(document: &Document, folder: &Folder, json: bool) -> Result<ExitCode, Fault> {
    let report = folder.write_document(document)?;
    if json {
        terminal::print(&cavy_report::series::json(document))?;
    } else {
        terminal::print(&render(document))?;
    }
    terminal::talk(&format!("report: {}", report.display()));
    let missed = document.claims.iter().any(|claim| claim.verdict == Verdict::NotReproduced);
    Ok(if missed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn settings(args: &Study) -> Result<Settings, Fault> {
    let studies: Vec<String> = args.studies.iter().map(|&study| args::name(study)).collect();
    let by = format!("study {}", studies.join(" "));
    let folder = Folder::open(&args.out, by.trim(), args.homa.resume)?;
    if let Some(moved) = folder.moved() {
        terminal::talk(&format!("note: {moved}"));
    }
    let mut peers: Vec<PeerName> = if args.peers.is_empty() {
        PeerName::ALL.to_vec()
    } else {
        PeerName::ALL.into_iter().filter(|peer| args.peers.contains(peer)).collect()
    };
    let pools = args.studies.is_empty() || args.studies.iter().any(|&of| of.has_pools());
    let go = if pools && peers.contains(&PeerName::Go) {
        Go::build()
    } else {
        Err("it was not asked for".to_string())
    };
    if let (Err(reason), true) = (&go, pools && peers.contains(&PeerName::Go)) {
        terminal::talk(&format!("SKIPPED: the Go runtime: {reason}"));
        peers.retain(|&peer| peer != PeerName::Go);
        if peers.is_empty() {
            return Err(Fault::new("no peer is left to compare").code(FAILED));
        }
    }
    let stop = signals::stop(Second::Ends)?;
    let wait = match args.wait {
        args::Wait::Spin => Wait::Spin,
        args::Wait::Hybrid => Wait::Hybrid,
        args::Wait::Sleep => Wait::Sleep,
    };
    Ok(Settings {
        args: args.clone(),
        session: Session { folder, probe: args.probe, wait, go, stop },
        repetitions: args.repetitions.unwrap_or(if args.quick { 1 } else { REPETITIONS }),
        peers,
    })
}

/// Title and summary of reports about scheduling.
const SCHED: (&str, &str) = (
    "Perséphone live: short requests beside long ones, on real threads",
    "The scheduling machine of the lab, deciding for the threads of this machine, beside the pools \
     a user would take instead. A virtual machine with shared cores is no place for claims about \
     microseconds; what it was like stands beside every result.",
);

/// Title and summary of reports about Homa alone.
const HOMA: (&str, &str) = (
    "Homa live: short messages beside long ones, between hosts",
    "The transport of the lab on real sockets, between network namespaces of this machine, beside \
     TCP, QUIC and gRPC with the same messages. Links are slow, so that the software of one \
     machine with shared cores weighs little; what the machine was like stands beside every \
     result.",
);

/// Title and summary of reports about search alone.
const SEARCH: (&str, &str) = (
    "Search live: a cluster whose p changes while it serves",
    "The machines of the lab as processes of this machine, with an index each and clients that \
     look at every answer: p goes up and down, queries are spread over more or fewer servers, and \
     a server stands still now and then.",
);

/// The document without results.
fn blank(args: &Study, settings: &Settings, machine: &Machine) -> Document {
    let fact = |name: &str, value: String| (name.to_string(), value);
    let mut facts = vec![
        fact(
            "machine",
            format!("Linux {}, {}, {} cores", machine.kernel, machine.processor, machine.cores),
        ),
        fact(
            "model",
            "open: requests are sent when they are due, whatever became of earlier ones".into(),
        ),
        fact(
            "latency",
            "from the intended time to the end of the job; the generator's lateness is \
             part of it, and reported"
                .into(),
        ),
        fact("order", "all peers in turns within each repetition, on the same arrivals".into()),
        fact("repetitions", format!("{}, each with a seed of its own", settings.repetitions)),
        fact("in brackets", "the smallest and greatest of one repetition".into()),
        fact("cores", "no thread is bound to one".into()),
    ];
    if args.studies.is_empty() || args.studies.iter().any(|&study| study.has_pools()) {
        facts.extend([
            fact("warm-up", "the first tenth of each run (not l4)".into()),
            fact(
                "percentiles",
                "over all repetitions together, given where 100 requests lie beyond".into(),
            ),
            fact(
                "doubts",
                "the generator was late by more than a tenth of the shortest service \
                 time, or missed the rate"
                    .into(),
            ),
            fact(
                "Go",
                match &settings.session.go {
                    Ok(go) => go.version.clone(),
                    Err(reason) => format!("skipped: {reason}"),
                },
            ),
        ]);
    }
    if let Some(floors) = &machine.floors {
        facts.push(fact(
            "clock and timers",
            format!(
                "reading the clock {:.0} ns; a sleep of 200 us ends {:.0} us late at p50 and {:.0} \
                 at p99",
                floors.clock_read_ns, floors.sleep_late_p50_us, floors.sleep_late_p99_us
            ),
        ));
    }
    let only = |one| !args.studies.is_empty() && args.studies.iter().all(|&study| study == one);
    let (title, summary) = match () {
        () if only(StudyName::Homa) => HOMA,
        () if only(StudyName::Search) => SEARCH,
        () => SCHED,
    };
    Document {
        title: title.to_string(),
        summary: summary.to_string(),
        command: args.again(None),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: args.seed,
        digest: String::new(),
        elapsed_s: 0.0,
        facts,
        plan: None,
        claims: Vec::new(),
        figures: Vec::new(),
    }
}

/// The document for a terminal.
fn render(document: &Document) -> String {
    let width = terminal::width();
    let mut out = String::new();
    for figure in &document.figures {
        out.push_str(&format!("{}\n{}\n{}\n\n", figure.title, figure.shows, figure.found));
        for table in &figure.tables {
            out.push_str(&cavy_report::terminal::table(table, width, false));
            out.push('\n');
        }
    }
    for (name, value) in &document.facts {
        out.push_str(&format!("{name}: {value}\n"));
    }
    if !document.claims.is_empty() {
        out.push('\n');
        out.push_str(&cavy_report::terminal::claims(&document.claims, width, false));
    }
    out
}
