//! Why do the other tiers take less CPU time for a request once a burn in the database is gone?
//!
//! `CAVY_OTHERS=3 CAVY_PACKAGES=/a/folder cargo test -p cavy-foreign --test others -- --nocapture`
//! alone on the machine, for about two minutes; without the first it does nothing. Three manners in
//! turn, under the same clients: with the burn, without it, and without it beside threads of this
//! program that compute as much as the burn did, in pieces as long as the burn's. If the other
//! tiers take as much in the third manner as in the first, it is the company on the cores that
//! costs, and not what the database does.

use cavy_core::Span;
use cavy_foreign::packages::Tree;
use cavy_foreign::wordpress::PACKAGES;
use cavy_foreign::{Settings, Tier, Wordpress};
use cavy_groups::clients::{Clients, Headed, Load};
use cavy_groups::freezer::Mechanism;
use cavy_groups::now;
use cavy_groups::rank::{Bench, Observed};
use cavy_groups::refuse::Mounts;
use cavy_groups::select::Selector;
use cavy_groups::stage::Stage;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Clients of the study, and rounds of its burn.
const CLIENTS: u32 = 24;
const BURN: u32 = 40_000;
const WINDOW: Span = Span::from_ms(3_000);

/// Arithmetic without memory.
fn compute(rounds: u64) {
    let mut x = 1_u64;
    for round in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round));
    }
    black_box(x);
}

/// Rounds of [`compute`] in a microsecond, of an idle core.
fn rounds_per_us() -> f64 {
    let of = || {
        let begun = now();
        compute(20_000_000);
        20_000_000.0 / now().since(begun).as_us()
    };
    (0..5).map(|_| of()).fold(0.0, f64::max)
}

/// Threads that compute pieces of work which arrive by themselves, until this is dropped.
struct Company {
    stop: Option<Sender<()>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Company {
    fn begin(piece: u64, per_s: f64) -> Company {
        let (jobs, work) = channel::<u64>();
        let work = Arc::new(Mutex::new(work));
        let worker = |work: Arc<Mutex<Receiver<u64>>>| loop {
            let next = work.lock().expect("no panic").recv();
            let Ok(rounds) = next else { return };
            compute(rounds);
        };
        let mut threads: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let work = work.clone();
                std::thread::spawn(move || worker(work))
            })
            .collect();
        let (stop, stopped) = channel::<()>();
        threads.push(std::thread::spawn(move || {
            let begun = now();
            for number in 0_u32.. {
                let due = Duration::from_secs_f64(f64::from(number) / per_s);
                let passed = Duration::from_nanos(now().since(begun).as_ns());
                let wait = due.saturating_sub(passed);
                if stopped.recv_timeout(wait) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    return;
                }
                let _ = jobs.send(piece);
            }
        }));
        Company { stop: Some(stop), threads }
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        self.stop = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Switches of its own will, others, and moves between cores, of all threads of a tier.
fn switches(wordpress: &Wordpress, tier: Tier) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for pid in wordpress.processes(tier) {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        for task in tasks.filter_map(Result::ok) {
            let text =
                |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let number = |text: &str, name: &str| {
                let line = text.lines().find(|line| line.starts_with(name));
                let word = line.and_then(|line| line.split_whitespace().next_back());
                word.and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0)
            };
            let (status, sched) = (text("status"), text("sched"));
            sums[0] += number(&status, "voluntary_ctxt_switches");
            sums[1] += number(&status, "nonvoluntary_ctxt_switches");
            sums[2] += number(&sched, "se.nr_migrations");
        }
    }
    sums
}

/// A window with what it counted.
struct Seen {
    observed: Observed,
    /// By tier, for a request.
    switches: [[f64; 3]; 3],
}

fn window(bench: &mut Bench, wordpress: &Wordpress) -> Seen {
    bench.warm_up(Span::from_ms(800), 2 * CLIENTS, &AtomicBool::new(false));
    let of = || Tier::ALL.map(|tier| switches(wordpress, tier));
    let before = of();
    let observed = bench.observe(WINDOW).expect("CPU time is counted");
    let after = of();
    let each = |tier: usize, kind: usize| {
        (after[tier][kind] - before[tier][kind]) / observed.answers.max(1.0)
    };
    let switches = [0, 1, 2].map(|tier| [0, 1, 2].map(|kind| each(tier, kind)));
    Seen { observed, switches }
}

fn mean(of: &[Seen], get: impl Fn(&Seen) -> f64) -> (f64, f64) {
    let values: Vec<f64> = of.iter().map(get).collect();
    let interval = cavy_lab::statistics::Interval::of_mean(&values);
    interval.map_or((f64::NAN, f64::NAN), |one| (one.estimate, one.high - one.estimate))
}

fn show(name: &str, all: &[Seen]) {
    let text = |(value, half): (f64, f64)| format!("{value:.1} +- {half:.1}");
    println!(
        "{name}: {}/s, own {} us",
        text(mean(all, |one| one.observed.per_s)),
        text(mean(all, |one| one.observed.own_us_per_request))
    );
    for (at, tier) in Tier::ALL.iter().enumerate() {
        println!(
            "  {}: {} us a request; switches of its own will {}, others {}, moves {}",
            tier.name(),
            text(mean(all, |one| one.observed.cpu_us_per_request[at])),
            text(mean(all, |one| one.switches[at][0])),
            text(mean(all, |one| one.switches[at][1])),
            text(mean(all, |one| one.switches[at][2])),
        );
    }
}

fn measure(rounds: usize, packages: &Path) -> Result<(), String> {
    let per_us = rounds_per_us();
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).map_err(|error| error.to_string())?;
    let tree = Tree::fetch(&PACKAGES, packages)?;
    let with = Settings { database_burn: BURN, ..Settings::default() };
    let mut wordpress = Wordpress::start(&tree, &folder.path().join("measured"), with)?;
    let mounts = Mounts::find()?;
    let services: Vec<(String, Selector)> = Tier::ALL
        .iter()
        .filter_map(|tier| Some((tier.name().into(), Selector::Pid(wordpress.master(*tier)?))))
        .collect();
    let stage = Stage::set(&services, &mounts, Mechanism::Cgroup).map_err(|e| e.to_string())?;
    let address = wordpress.address();
    let gzip = ["Accept-Encoding: gzip".to_string()];
    let protocol = Headed::new(&address.to_string(), &gzip, &["/?feed=rss2".to_string()])?;
    let clients = Clients::start(Load {
        address,
        clients: CLIENTS,
        types: 1,
        rate_per_s: None,
        think: None,
        protocol: Box::new(protocol),
    })?;
    let mut bench = Bench::new(&stage, clients)?;
    bench.warm_up(Span::from_ms(1_000), 25 * CLIENTS, &AtomicBool::new(false));
    let database = Tier::ALL.iter().position(|tier| *tier == Tier::Database).expect("a database");
    let first = window(&mut bench, &wordpress);
    wordpress.apply(Settings::default())?;
    let second = window(&mut bench, &wordpress);
    let us = |seen: &Seen| seen.observed.cpu_us_per_request[database];
    let (piece_us, per_s) = (us(&first) - us(&second), first.observed.per_s);
    println!("the burn takes {piece_us:.0} us, {per_s:.1} times a second");
    let mut seen: [Vec<Seen>; 3] = [Vec::new(), Vec::new(), Vec::new()];
    for manner in [0, 1, 2, 2, 1, 0].repeat(rounds) {
        wordpress.apply(if manner == 0 { with } else { Settings::default() })?;
        let piece = (piece_us * per_us) as u64;
        let _company = (manner == 2).then(|| Company::begin(piece, per_s));
        seen[manner].push(window(&mut bench, &wordpress));
    }
    for (name, all) in ["burn", "no burn", "no burn, in company"].iter().zip(&seen) {
        show(name, all);
    }
    drop(bench);
    drop(stage);
    Ok(())
}

#[test]
fn what_others_take_without_a_burn() {
    let rounds = std::env::var_os("CAVY_OTHERS").and_then(|text| text.to_str()?.parse().ok());
    let Some(rounds) = rounds else {
        println!("SKIPPED: it measures; set CAVY_OTHERS=3 on a machine that does nothing else");
        return;
    };
    let kept = tempfile::tempdir().expect("a folder");
    let packages = std::env::var_os("CAVY_PACKAGES").map(PathBuf::from);
    let packages = packages.unwrap_or_else(|| kept.path().to_path_buf());
    measure(rounds, &packages).unwrap_or_else(|why| panic!("{why}"));
}
