//! `cavy-live whatif`: what would making each running service faster buy?

mod answer;
mod change;
mod plan;
mod source;
mod study;

use crate::faults::{FAILED, Fault, INTERRUPTED};
use crate::quantity;
use crate::signals::{self, Second};
use crate::terminal;
use cavy_core::Span;
use cavy_groups::freezer::Mechanism;
use cavy_groups::guard::{self, Guard};
use cavy_groups::pace::Pace;
use cavy_groups::rank::{self, Bench, Options, Ranking, Rule};
use cavy_groups::refuse::{self, Mounts};
use cavy_groups::select::Selector;
use cavy_groups::stage::{self, Stage, StageError};
use cavy_groups::usage::Meter;
use cavy_groups::{RUN_FOLDER, selftest};
use cavy_report::folder::Folder;
use cavy_report::model::{Cell, Table};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use source::{Asked, Less};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;

/// `cavy-live whatif`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example: two services of a running application, none of them changed.
  cavy live whatif --service web=port:8080 --service db=port:5432 \\
      --load http://127.0.0.1:8080/ --clients 64

Each service in turn is the target: all others, the clients included, are stopped for so much of
the time that the target is as much faster relative to them as `--faster` says. Throughput in the
time that is left is the throughput of the changed system. No service is restarted, and none needs
a library or a setting.

SELECTOR is pid:N, port:N (who listens there), cmd:TEXT (command lines that contain it) or
cgroup:/PATH. Descendants belong to their parents. Clients send as soon as they are answered; take
at least three times as many as requests can wait at a service.

It needs root, cgroup v2 (mounted anywhere) and performance events. If this program dies, a second
one lets everything go on at once, and a third one if both die; `cavy live whatif thaw` repairs what
all three left behind.
Do not stop what has health checks or elections shorter than 200 ms."
)]
pub struct Whatif {
    /// What else than ranking.
    #[command(subcommand)]
    command: Option<What>,
    /// A service and its processes; give one for each.
    #[arg(long = "service", value_name = "NAME=SELECTOR", value_parser = service)]
    services: Vec<(String, Selector)>,
    /// Where clients send their requests.
    #[arg(long, value_name = "http://HOST:PORT[/PATH]")]
    load: Option<String>,
    /// A generator that runs, such as wrk, instead of clients of this program. It is stopped with
    /// the rest, and its requests are counted where they come in.
    #[arg(long, value_name = "NAME=SELECTOR", value_parser = service,
        conflicts_with_all = ["load", "request", "headers", "rate", "think", "clients", "lock"])]
    driver: Option<(String, Selector)>,
    /// With --driver: the port at which its requests come in, in the network of the first
    /// --service. Each segment with data on its connections counts as a request.
    #[arg(long, value_name = "PORT", requires = "driver",
        value_parser = clap::value_parser!(u16).range(1..))]
    edge: Option<u16>,
    /// A request, `[METHOD ]PATH[ BODY]`; clients ask them in turn. The path of `--load` if absent.
    #[arg(long, value_name = "REQUEST")]
    request: Vec<String>,
    /// A header of all requests, such as `Accept-Encoding: gzip`; `Host` replaces the address.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Requests arrive by themselves, so many a second: what is predicted then is latency. Closed
    /// clients, who send as soon as they are answered, when absent.
    #[arg(long, value_name = "PER_S", value_parser = quantity::rate)]
    rate: Option<f64>,
    /// Clients think for so long on average before they send again, while nobody stands.
    #[arg(long, value_name = "SPAN", value_parser = quantity::positive_span,
        conflicts_with = "rate")]
    think: Option<Span>,
    /// Clients, each with at most one request under way.
    #[arg(long, value_name = "K", default_value = "64",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: u32,
    /// By how much each service is made faster.
    #[arg(long, value_name = "PERCENT", default_value = "25%", value_parser = percent)]
    faster: f64,
    /// Only this service; may be given again. All of them when absent.
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
    /// Save so much instead: CPU time of the service for a request of a client, or with
    /// `--rule count` time of a visit. It needs one --target. With @REQUEST only for requests of
    /// clients with this path, which a --request names.
    #[arg(long, value_name = "SPAN[@REQUEST]", value_parser = Less::read,
        conflicts_with = "faster", requires = "targets")]
    less: Option<Less>,
    /// Make all services that --target names faster at once, and not one after the other.
    #[arg(long, requires = "targets", conflicts_with_all = ["less", "plan"])]
    together: bool,
    /// Give the one --target more replicas: as with --faster of 1 - FROM/TO.
    #[arg(long, value_name = "FROM:TO", value_parser = change::Growth::read,
        conflicts_with_all = ["faster", "less", "cores", "together"], requires = "targets")]
    replicas: Option<change::Growth>,
    /// Give the one --target more cores: as with --faster of 1 - FROM/TO.
    #[arg(long, value_name = "FROM:TO", value_parser = change::Growth::read,
        conflicts_with_all = ["faster", "less", "together"], requires = "targets")]
    cores: Option<change::Growth>,
    /// Have each request hold a lock of the one --target for so much less; the lock must be what
    /// bounds the service.
    #[arg(long, value_name = "SPAN", value_parser = quantity::positive_span,
        conflicts_with_all = [
            "faster", "less", "cores", "replicas", "together", "rule", "servers", "visits",
        ],
        requires = "targets")]
    lock: Option<Span>,
    /// When the others stand.
    #[arg(long, value_enum, value_name = "RULE", default_value = "delivered")]
    rule: RuleName,
    /// With `--rule clock` or `count`: servers of what bounds the service, its cores or 1 for a
    /// lock.
    #[arg(long, value_name = "N", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    servers: u32,
    /// With `--rule count`: visits of the service for a request of a client.
    #[arg(long, value_name = "N", default_value = "1", value_parser = visits)]
    visits: f64,
    /// Stop as soon as all intervals are no wider to either side; `--rounds` is the most then.
    #[arg(long, value_name = "PERCENT", value_parser = until)]
    until: Option<f64>,
    /// Leave out the windows that show what the pauses themselves cost: answers are too low then.
    #[arg(long)]
    no_control: bool,
    /// Rounds over all services; intervals need at least two.
    #[arg(long, value_name = "N", default_value = "5",
        value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,
    /// Length of a window; a round has eight for each service, four with --no-control. When
    /// nothing is said, as long as 50 answers take, at least 1 s and at most 5 s.
    #[arg(long, value_name = "SPAN", value_parser = quantity::positive_span)]
    window: Option<Span>,
    /// Time before a window of another manner. When nothing is said, as long as an answer takes,
    /// at least 150 ms and at most 5 s.
    #[arg(long, value_name = "SPAN", value_parser = quantity::positive_span)]
    settle: Option<Span>,
    /// The shortest pause; 2 ms, or more where a service has many threads, when nothing is said.
    #[arg(long, value_name = "SPAN", value_parser = pause)]
    pause: Option<Span>,
    /// How processes are stopped.
    #[arg(long, value_enum, value_name = "HOW", default_value = "cgroup")]
    freezer: How,
    /// Write a plan of what was measured, for `cavy run`.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Record all that Governors are told, for `cavy replay`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write a report into this folder.
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a Governor says that waits for a core as the services do.
const NOT_FIRST: &str = "this program may not go before others (SCHED_FIFO), so that pauses begin \
                         and end late: run it as root, or allow `rtprio`";
/// Answers that a window holds when nobody says how long it is.
const ANSWERS_MIN: u32 = 50;
/// No window is longer then, and neither is the time before it.
const WINDOW_MAX: Span = Span::from_ms(5_000);

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum RuleName {
    /// Until the service has got its share of CPU time meanwhile: wherever cores are shared.
    Delivered,
    /// For a share of its CPU time over --servers: where it has cores of its own.
    Clock,
    /// For --less over --servers with each visit.
    Count,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// The freezer of cgroup v2.
    Cgroup,
    /// The freezer of cgroup v1; v2 is mounted beside it all the same, to count CPU time.
    CgroupV1,
    /// SIGSTOP and SIGCONT.
    Signals,
}

impl From<How> for Mechanism {
    fn from(how: How) -> Mechanism {
        match how {
            How::Cgroup => Mechanism::Cgroup,
            How::CgroupV1 => Mechanism::CgroupV1,
            How::Signals => Mechanism::Signals,
        }
    }
}

#[derive(Subcommand, Debug)]
enum What {
    /// Check that the services can be measured, and stop nothing.
    Check {
        /// A service and its processes.
        #[arg(long = "service", value_name = "NAME=SELECTOR", value_parser = service)]
        services: Vec<(String, Selector)>,
    },
    /// Let everything go on that a killed `whatif` left standing, and put it back.
    Thaw,
    /// Measure how exactly this machine stops and continues.
    Selftest {
        /// Pauses of each length.
        #[arg(long, value_name = "N", default_value = "100",
            value_parser = clap::value_parser!(u32).range(20..=10_000))]
        repeats: u32,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Predict for nginx, PHP-FPM with WordPress and MariaDB, then make the changes and look.
    Study(study::Study),
    /// The second program, which lets everything go on when the first cannot.
    #[command(hide = true)]
    Guard {
        /// What the first wrote down.
        file: PathBuf,
        /// It is the one that watches the other guard.
        #[arg(long)]
        second: bool,
    },
    /// What `selftest` stops.
    #[command(hide = true)]
    Victim,
}

fn service(text: &str) -> Result<(String, Selector), String> {
    let (name, selector) = quantity::named(text)
        .ok_or("write NAME=SELECTOR, such as web=port:8080; names have letters, digits, _ - .")?;
    Ok((name.to_string(), selector.parse()?))
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    let good = number.parse().ok().filter(|percent| (1.0..=95.0).contains(percent));
    good.map(|percent: f64| percent / 100.0).ok_or("it must be 1% to 95%".to_string())
}

fn until(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    let good = number.parse().ok().filter(|percent| (0.1..=50.0).contains(percent));
    good.ok_or("it must be 0.1% to 50%".to_string())
}

fn visits(text: &str) -> Result<f64, String> {
    let good = text.trim().parse().ok().filter(|visits| (0.001..=1_000.0).contains(visits));
    good.ok_or("it must be 0.001 to 1000".to_string())
}

/// Pauses below 0.1 ms are not held exactly, and those above 50 ms come near the lease.
fn pause(text: &str) -> Result<Span, String> {
    let span = quantity::positive_span(text)?;
    let good = span >= Span::from_us(100) && span <= Span::from_ms(50);
    good.then_some(span).ok_or("it must be 100us to 50ms".to_string())
}

/// Runs the command.
pub fn whatif(args: &Whatif) -> Result<ExitCode, Fault> {
    match &args.command {
        None => rank_all(args),
        Some(What::Check { services }) => check(services),
        Some(What::Thaw) => thaw(),
        Some(What::Selftest { repeats, json }) => self_test(*repeats, *json),
        Some(What::Study(args)) => study::study(args),
        Some(What::Guard { file, second }) => {
            let watched = if *second {
                guard::stand_in(file)
            } else {
                guard_of(file).and_then(|mut command| guard::watch(file, command.arg("--second")))
            };
            watched
                .map(|()| ExitCode::SUCCESS)
                .map_err(|error| Fault::new(format!("guard: {error}")).code(FAILED))
        }
        Some(What::Victim) => {
            let failed = |error| Fault::new(format!("victim: {error}")).code(FAILED);
            selftest::victim().map(|()| ExitCode::SUCCESS).map_err(failed)
        }
    }
}

fn fault(error: &StageError) -> Fault {
    let fault = Fault::new(error.to_string().replace('\n', "; "));
    match error {
        StageError::System { .. } => fault
            .hint("`cavy live whatif` needs root, to move processes between control groups")
            .code(FAILED),
        _ => fault,
    }
}

fn failed(why: impl std::fmt::Display) -> Fault {
    Fault::new(why.to_string()).code(FAILED)
}

fn some(services: &[(String, Selector)]) -> Result<(), Fault> {
    if services.is_empty() {
        return Err(Fault::new("no service is named")
            .hint("give --service NAME=SELECTOR for each, such as --service web=port:8080"));
    }
    for (index, (name, _)) in services.iter().enumerate() {
        if services[..index].iter().any(|(other, _)| other == name) {
            return Err(Fault::new(format!("service {name} is named twice"))
                .hint("give each service a name of its own"));
        }
    }
    Ok(())
}

fn rank_all(args: &Whatif) -> Result<ExitCode, Fault> {
    some(&args.services)?;
    let asked = Asked::of(args)?;
    let (only, rule) = (chosen_targets(args)?, rule(args)?);
    let sets = change::sets(args, &only)?;
    let folder = args.out.as_deref().map(|path| Folder::open(path, "whatif", false)).transpose()?;
    if let Some(moved) = folder.as_ref().and_then(Folder::moved) {
        terminal::talk(&format!("note: {moved}"));
    }
    let begun = cavy_groups::now();
    let mounts = Mounts::find().map_err(failed)?;
    quotas(&args.services, &mounts)?;
    let stop = signals::stop(Second::Waits)?;
    let all = asked.staged(&args.services);
    let stage = Stage::set(&all, &mounts, args.freezer.into()).map_err(|e| fault(&e))?;
    let mut guard = guard(&stage)?;
    let (source, clients) = asked.start(args, &stage)?;
    let mut bench = Bench::new(&stage, source).map_err(failed)?;
    if let Some(file) = &args.record {
        let wrong = |error| Fault::new(format!("--record {}: {error}", file.display()));
        bench.record(file).map_err(wrong)?;
    }
    let options = options(args, rule, &mut bench, (&only, clients), &stop)?;
    // Before all ordinary threads. Guard and clients were started before, and stay ordinary.
    cavy_live::load::clock::sharpen_timers();
    let first = cavy_live::load::clock::go_first();
    // Time to settle comes before each window of another manner than the last.
    let (windows, settles) =
        if args.no_control { (rank::WINDOWS_PLAIN, 3.0) } else { (rank::WINDOWS, 5.0) };
    let Pace { window, settle } = options.pace;
    let round_s = (window.as_us() * f64::from(windows) + settle.as_us() * settles) / 1e6;
    let ranking = bench.rank_each(&sets, &options, &mut guard, &stop, |done, all, name| {
        let left_s = f64::from(all - done) * round_s;
        terminal::talk(&format!("{done} of {all}: {name}, about {left_s:.0} s left"));
    });
    let recorded = bench.recorded();
    // Groups go on, the guard is told that all is well, and processes return, in this order.
    drop(bench);
    drop(stage);
    drop(guard);
    let mut ranking = ranking.map_err(|error| failed(error).hint("all services go on"))?;
    if !first {
        ranking.rows.iter_mut().for_each(|row| row.doubts.push(NOT_FIRST.to_string()));
    }
    let cores = cavy_groups::usage::cores().map_or(1, |cores| cores.len());
    if let Some(less) = args.lock {
        change::beyond_its_cores(less, &mut ranking.rows, cores);
    }
    if let Some(file) = &args.record {
        terminal::talk(&change::recorded(file, recorded));
    }
    let elapsed_s = cavy_groups::now().since(begun).as_us() / 1e6;
    tell(args, &ranking, (clients, cores), folder.as_ref(), elapsed_s)?;
    Ok(if ranking.interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Writes the plan and the report that were asked for, and prints the answer.
fn tell(
    args: &Whatif,
    ranking: &Ranking,
    (clients, cores): (u32, usize),
    folder: Option<&Folder>,
    elapsed_s: f64,
) -> Result<(), Fault> {
    if let Some(file) = &args.plan {
        let names: Vec<String> = args.services.iter().map(|(name, _)| name.clone()).collect();
        let load = plan::Load { clients, rate_per_s: args.rate, think: args.think };
        let text = plan::of(ranking, &names, &load, cores).map_err(failed)?;
        std::fs::write(file, text)
            .map_err(|error| failed(format!("{}: {error}", file.display())))?;
        let file = file.display();
        terminal::talk(&format!("written: {file}; `cavy run {file}` simulates it"));
    }
    let explained = change::explained(args, ranking);
    if let Some(folder) = folder {
        let document = answer::document(ranking, &explained, elapsed_s);
        let report = folder.write_document(&document)?;
        terminal::talk(&format!("report: {}", report.display()));
    }
    if args.json {
        terminal::print_json(ranking)?;
    } else {
        terminal::print(&format!("{explained}{}", answer::shown(ranking)))?;
    }
    Ok(())
}

/// Places of the services that are to be targets; all when none is named.
fn chosen_targets(args: &Whatif) -> Result<Vec<usize>, Fault> {
    let place = |name: &String| {
        args.services.iter().position(|(service, _)| service == name).ok_or_else(|| {
            Fault::new(format!("--target {name}: there is no such service"))
                .hint("name one that a --service gives a name to")
        })
    };
    if args.targets.is_empty() {
        return Ok((0..args.services.len()).collect());
    }
    args.targets.iter().map(place).collect()
}

fn rule(args: &Whatif) -> Result<Rule, Fault> {
    let (parallel, visits) = (args.servers, args.visits);
    let growth = change::growth(args).is_some();
    if (args.less.is_some() || args.lock.is_some() || growth) && args.targets.len() != 1 {
        let text = "--less, --lock, --replicas and --cores are about one service";
        return Err(Fault::new(text).hint("give one --target"));
    }
    if args.together && args.rule == RuleName::Count {
        return Err(Fault::new("--together: visits of one service alone are counted")
            .hint("leave --rule out"));
    }
    if let Some(rule) = change::lock(args) {
        return Ok(rule);
    }
    if let Some(less) = &args.less {
        less.share(&args.request)?;
    }
    match (args.rule, &args.less) {
        (RuleName::Delivered, _) => Ok(Rule::Delivered),
        (RuleName::Clock, _) => Ok(Rule::Clock { parallel }),
        (RuleName::Count, Some(_)) if args.driver.is_some() => Err(Fault::new(
            "--rule count: requests of a foreign generator are not heard of one by one",
        )
        .hint("leave --rule out, or send requests by --load")),
        (RuleName::Count, Some(less)) => Ok(Rule::Count { saved: less.span, visits, parallel }),
        (RuleName::Count, None) => Err(Fault::new("--rule count does not know what a visit saves")
            .hint("give --target NAME and --less, such as --less 300us")),
    }
}

/// As asked for, or by how often clients are answered now.
fn pace(args: &Whatif, bench: &mut Bench, clients: u32, stop: &AtomicBool) -> Pace {
    let window = args.window.unwrap_or(Span::from_ms(1_000));
    let settle = args.settle.unwrap_or(Span::from_ms(150));
    let least = Pace { window, settle };
    if args.window.is_some() && args.settle.is_some() {
        return least;
    }
    // Each client is answered twice, so that none of the first answers is among those counted.
    let answers = if args.rate.is_some() { ANSWERS_MIN } else { 2 * clients };
    let Some(per_s) = bench.warm_up(settle, answers, stop) else { return least };
    // Who arrives by himself waits for nobody: that says nothing of how long an answer takes.
    let clients = if args.rate.is_some() { 0 } else { clients };
    let paced = least.at_least(per_s, clients, ANSWERS_MIN, WINDOW_MAX);
    Pace {
        window: args.window.unwrap_or(paced.window),
        settle: args.settle.unwrap_or(paced.settle),
    }
}

fn options(
    args: &Whatif,
    rule: Rule,
    bench: &mut Bench,
    (only, clients): (&[usize], u32),
    stop: &AtomicBool,
) -> Result<Options, Fault> {
    let pace = pace(args, bench, clients, stop);
    let mut faster = change::growth(args).map_or(args.faster, |(_, growth)| growth.faster());
    let less = args.less.clone().or(args.lock.map(|span| Less { span, request: None }));
    if let (Some(less), [target]) = (less, only) {
        let share = less.share(&args.request)?;
        let seen = bench.observe(pace.window).map_err(failed)?;
        let all_us = seen.cpu_us_per_request[*target];
        let less_us = share
            * match rule {
                Rule::Count { visits, .. } => less.span.as_us() * visits,
                _ => less.span.as_us(),
            };
        faster = less_us / all_us.max(1e-3);
        if faster > 0.95 && !matches!(rule, Rule::Count { .. }) {
            return Err(Fault::new(format!(
                "--less {less_us:.0}us: {} takes {all_us:.0} us of CPU time for a request",
                args.services[*target].0
            ))
            .hint("ask for at most 95 % of it"));
        }
        faster = faster.min(1.0);
    }
    Ok(Options {
        faster,
        rule,
        rounds: args.rounds,
        until_percent: args.until,
        control: !args.no_control,
        pace,
        pause_min: args.pause,
    })
}

/// The second program, which watches what `file` names.
fn guard_of(file: &Path) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["whatif", "guard"]).arg(file);
    Ok(command)
}

fn guard(stage: &Stage) -> Result<Guard, Fault> {
    let started = guard_of(stage.file()).and_then(|mut command| Guard::start(&mut command));
    started.map_err(|error| failed(format!("cannot start the guard: {error}")))
}

/// Refuses services whose CPU time is rationed by the wall clock.
fn quotas(services: &[(String, Selector)], mounts: &Mounts) -> Result<(), Fault> {
    let chosen = stage::choose(services).map_err(|error| fault(&error))?;
    for ((name, _), pids) in services.iter().zip(&chosen) {
        if let Some(found) = pids.iter().find_map(|pid| refuse::quota(*pid, mounts)) {
            return Err(Fault::new(format!(
                "service {name} has a CPU quota ({found}), which refills while the service is \
                 stopped: predictions would be too high, in a test by up to 117 %"
            ))
            .hint("lift the quota for the measurement, or use a cpuset instead"));
        }
    }
    Ok(())
}

fn check(services: &[(String, Selector)]) -> Result<ExitCode, Fault> {
    some(services)?;
    let mounts = Mounts::find().map_err(failed)?;
    quotas(services, &mounts)?;
    let chosen = stage::choose(services).map_err(|error| fault(&error))?;
    let mut text = String::new();
    for ((name, selector), pids) in services.iter().zip(&chosen) {
        let count = pids.len();
        let _ = writeln!(text, "{name}: {selector} selects {count} processes, all may be stopped");
    }
    Meter::open(&mounts.unified).map_err(|error| {
        failed(format!("CPU time cannot be counted: {error}"))
            .hint("run as root, or set kernel.perf_event_paranoid to 0")
    })?;
    text.push_str("CPU time is counted by performance events. Nothing was stopped.\n");
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn thaw() -> Result<ExitCode, Fault> {
    let stale = stage::stale();
    for file in &stale {
        stage::recover(file).map_err(|error| {
            failed(format!("cannot recover what {} names: {error}", file.display()))
                .hint("are you root?")
        })?;
    }
    terminal::print(&match stale.len() {
        0 => format!("nothing was left behind in {RUN_FOLDER}\n"),
        count => format!(
            "{count} recovered: all services continue, in the control groups that they came from\n"
        ),
    })?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct SelfTest {
    cgroup: Vec<selftest::Row>,
    /// Empty where it is not mounted.
    cgroup_v1: Vec<selftest::Row>,
    signals: Vec<selftest::Row>,
    still_ratio: f64,
    longest_step_us: f64,
}

fn self_test(repeats: u32, json: bool) -> Result<ExitCode, Fault> {
    let mounts = Mounts::find().map_err(failed)?;
    let (cgroup, still_ratio, longest_step_us) = one_victim(repeats, Mechanism::Cgroup, &mounts)?;
    let (signals, ..) = one_victim(repeats, Mechanism::Signals, &mounts)?;
    let cgroup_v1 = match mounts.freezer {
        Some(_) => one_victim(repeats, Mechanism::CgroupV1, &mounts)?.0,
        None => Vec::new(),
    };
    let result = SelfTest { cgroup, cgroup_v1, signals, still_ratio, longest_step_us };
    if json {
        terminal::print_json(&result)?;
        return Ok(ExitCode::SUCCESS);
    }
    let us = |value: f64| Cell::Text(format!("{value:.0}"));
    let mut rows = Vec::new();
    let all = [
        ("cgroup", &result.cgroup),
        ("cgroup-v1", &result.cgroup_v1),
        ("signals", &result.signals),
    ];
    for (name, of) in all {
        for row in of {
            rows.push(vec![
                Cell::Text(name.to_string()),
                us(row.asked_us as f64),
                us(row.hold_p50_us),
                us(row.hold_p99_us),
                us(row.gap_p50_us),
                us(row.gap_p90_us),
            ]);
        }
    }
    let columns = ["freezer", "asked us", "held p50", "held p99", "gap p50", "gap p90"];
    let text = format!(
        "{}\nHeld is what the Governor saw, gap what a spinning victim saw.\nCPU time of the \
         victim, read each millisecond, stood still in {:.0} % of samples; its longest step was \
         {:.0} us.\n",
        table(&columns, rows),
        result.still_ratio * 100.0,
        result.longest_step_us
    );
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn one_victim(
    repeats: u32,
    mechanism: Mechanism,
    mounts: &Mounts,
) -> Result<(Vec<selftest::Row>, f64, f64), Fault> {
    let gone_wrong = |error: std::io::Error| failed(format!("selftest: {error}"));
    let program = std::env::current_exe().map_err(gone_wrong)?;
    let mut child = Command::new(program)
        .args(["whatif", "victim"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(gone_wrong)?;
    let services = [("victim".to_string(), Selector::Pid(child.id() as i32))];
    let measured: Result<_, Fault> = (|| {
        let stage = Stage::set(&services, mounts, mechanism).map_err(|error| fault(&error))?;
        let dir = &stage.places()[0].dir;
        let mut meter = Meter::open(dir).map_err(gone_wrong)?;
        let (still, longest) = selftest::steps(&mut meter, 500).map_err(gone_wrong)?;
        let freezer = stage.places()[0].freezer(mechanism).map_err(gone_wrong)?;
        let held = selftest::hold(&freezer, repeats).map_err(gone_wrong)?;
        Ok((held, still, longest))
    })();
    drop(child.stdin.take());
    let output = child.wait_with_output().map_err(gone_wrong)?;
    let (held, still, longest) = measured?;
    let gaps: Vec<_> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("gap ")?.split(' ');
            let at = words.next()?.parse().ok()?;
            let ns = words.next()?.parse().ok()?;
            Some((cavy_core::Instant::from_ns(at), Span::from_ns(ns)))
        })
        .collect();
    Ok((selftest::table(&held, &gaps), still, longest))
}

fn table(columns: &[&str], rows: Vec<Vec<Cell>>) -> String {
    let columns = columns.iter().map(|name| (*name).to_string()).collect();
    let table = Table { id: String::new(), title: String::new(), columns, rows };
    cavy_report::terminal::table(&table, terminal::width(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_shares_are_read() {
        assert_eq!(service("web=port:80"), Ok(("web".to_string(), Selector::Port(80))));
        for wrong in ["web", "=port:80", "web=80", "a b=pid:1"] {
            assert!(service(wrong).is_err(), "{wrong}");
        }
        assert_eq!((percent("25%"), percent("10")), (Ok(0.25), Ok(0.1)));
        for wrong in ["0", "100%", "x", "-5%", "nan"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
