//! What a Governor costs, and that it leaves nothing behind [whatif-live 12].
//!
//! `CAVY_COST=20 cargo test -p cavy-groups --test cost -- --nocapture` measures that many rounds
//! with windows of 1 s, for a quiet machine; without it there is one round of short ones, which is
//! judged loosely. Needs root, cgroup v2 and performance events; else it says SKIPPED.

mod chain;

use cavy_core::Span;
use cavy_core::family::probe::Group;
use cavy_groups::clients::{Clients, Load};
use cavy_groups::freezer::Mechanism;
use cavy_groups::guard::Guard;
use cavy_groups::rank::LOOK_MAX;
use cavy_groups::refuse::Mounts;
use cavy_groups::select::Selector;
use cavy_groups::stage::Stage;
use cavy_groups::usage::Meter;
use cavy_groups::world::{Member, Places, World};
use cavy_lab::statistics::Interval;
use cavy_live::load::wire::Http;
use cavy_whatif::{Change, Config, Governor, Limits, Reading, Target, Windows};
use chain::{Service, chain, example, free_port};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// CPU time for a request at the three services, microseconds.
const BURNS_US: [u32; 3] = [400, 900, 700];
/// The one that readings are about.
const TARGET: usize = 1;

/// Three services in a row, and where the first listens.
fn services() -> (Vec<Service>, u32) {
    let (mut all, mut behind) = (Vec::new(), None);
    for burn_us in BURNS_US.iter().rev() {
        let port = free_port();
        let words: Vec<u32> = [Some(port), Some(*burn_us), behind].into_iter().flatten().collect();
        all.push(chain(&words));
        while std::net::TcpStream::connect(("127.0.0.1", port as u16)).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        behind = Some(port);
    }
    all.reverse();
    (all, behind.expect("three services"))
}

/// What could be left behind of a process: its control groups and namespaces, and of each thread
/// its priority, policy and cores.
fn traits(pid: u32) -> BTreeMap<String, String> {
    let text = |path: String| std::fs::read_to_string(path).expect("it runs");
    let mut found = BTreeMap::new();
    found.insert("cgroup".to_string(), text(format!("/proc/{pid}/cgroup")));
    let names = |dir: String| {
        let entries = std::fs::read_dir(dir).expect("it runs").filter_map(Result::ok);
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    for name in names(format!("/proc/{pid}/ns")) {
        let to = std::fs::read_link(format!("/proc/{pid}/ns/{name}")).expect("a link");
        found.insert(format!("ns {name}"), to.display().to_string());
    }
    for thread in names(format!("/proc/{pid}/task")) {
        let stat = text(format!("/proc/{pid}/task/{thread}/stat"));
        let words: Vec<&str> =
            stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        // Priority and nice value, and the real-time priority and policy far behind them.
        let priorities = [15, 16, 37, 38].map(|at| words.get(at).copied().unwrap_or("none"));
        let status = text(format!("/proc/{pid}/task/{thread}/status"));
        let cores = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap_or("");
        found.insert(format!("thread {thread}"), format!("{priorities:?} {cores}"));
    }
    found
}

fn own_cpu() -> Span {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_ns(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// How a window goes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    /// Nobody looks on.
    Alone,
    /// Usage of the target is read at each tick of a millisecond.
    EachTick,
    /// It is read when a pause could be due, as `cavy live whatif` does.
    Ahead,
    /// Pauses, and readings at each tick.
    Paused,
    /// Pauses, and readings when one could be due.
    PausedAhead,
}

/// What a window came to.
#[derive(Clone, Copy)]
struct Seen {
    per_s: f64,
    /// CPU time of the Governor's thread, as a share of a core.
    core: f64,
    pauses_per_s: f64,
}

struct Scene {
    places: Places,
    clients: Clients,
    guard: Guard,
    window: Span,
}

impl Scene {
    fn window(&mut self, way: Way) -> Seen {
        let wall_s = self.window.as_us() / 1e6;
        if way == Way::Alone {
            let gate = self.clients.gate();
            gate.take_completed();
            std::thread::sleep(Duration::from_nanos(self.window.as_ns()));
            let per_s = f64::from(gate.take_completed()) / wall_s;
            return Seen { per_s, core: 0.0, pauses_per_s: 0.0 };
        }
        let (reading, cpu, whole) = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                cavy_clock::sharpen_timers();
                cavy_groups::go_first();
                self.governed(way)
            });
            thread.join().expect("it does not panic")
        });
        Seen {
            per_s: reading.measured_per_s(),
            core: cpu.as_us() / whole.as_us(),
            pauses_per_s: f64::from(reading.pauses) * 1e6 / reading.elapsed().as_us(),
        }
    }

    fn governed(&mut self, way: Way) -> (Reading, Span, Span) {
        let count = BURNS_US.len();
        let rest = (0..=count).filter(|place| *place != TARGET);
        // A third of the target's time or so: about a hundred pauses a second of 2 ms.
        let change = Change::Clock { share: 0.3, parallel: 1, busy: cavy_whatif::Busy::Cpu };
        let config = Config {
            targets: vec![Target { groups: vec![Group(TARGET as u32)], change }],
            rest: rest.map(|place| Group(place as u32)).collect(),
            limits: Limits {
                look_max: match way {
                    Way::Ahead | Way::PausedAhead => LOOK_MAX,
                    _ => Span::ZERO,
                },
                ..Limits::default()
            },
            windows: Windows {
                settle: Span::from_ms(50),
                length: self.window,
                pattern: vec![matches!(way, Way::Paused | Way::PausedAhead)],
            },
            hosts: 0,
        };
        let governor = Governor::new(config).expect("a legal config");
        let (begun, before) = (cavy_groups::now(), own_cpu());
        let world = World::new(governor, &mut self.places, Some(&mut self.guard));
        let run = world.run(1, &AtomicBool::new(false)).expect("groups and guard are there");
        let (cpu, whole) = (own_cpu().saturating_sub(before), cavy_groups::now().since(begun));
        (run.findings[0], cpu, whole)
    }
}

fn resident_mb(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    let kb: f64 = line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number");
    kb / 1024.0
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Windows without pauses, in this order there and back.
const WAYS: [Way; 3] = [Way::Alone, Way::EachTick, Way::Ahead];

/// What windows of all kinds came to.
struct Found {
    /// Percent of throughput that is lost in windows of [`WAYS`], by round.
    losses: [Vec<f64>; 3],
    /// Share of a core that the Governor's thread takes in these.
    cores: [f64; 3],
    /// The same with pauses, and pauses a second: readings each ms, and when one could be due.
    paused: [(f64, f64); 2],
}

fn measured(scene: &mut Scene, rounds: u32) -> Found {
    let (mut losses, mut cores) = ([const { Vec::new() }; 3], [0.0; 3]);
    let mut paused = [(0.0, 0.0); 2];
    for _ in 0..rounds {
        let mut per_s = [0.0; 3];
        for place in [0, 1, 2, 2, 1, 0] {
            let seen = scene.window(WAYS[place]);
            per_s[place] += seen.per_s / 2.0;
            cores[place] += seen.core / f64::from(2 * rounds);
        }
        for place in 0..WAYS.len() {
            losses[place].push((1.0 - per_s[place] / per_s[0]) * 100.0);
        }
        for (sums, way) in paused.iter_mut().zip([Way::Paused, Way::PausedAhead]) {
            let seen = scene.window(way);
            sums.0 += seen.core / f64::from(rounds);
            sums.1 += seen.pauses_per_s / f64::from(rounds);
        }
    }
    for (place, way) in WAYS.iter().enumerate().skip(1) {
        let interval = Interval::of_mean(&losses[place])
            .map_or(String::new(), |one| format!(" ({:.2} to {:.2})", one.low, one.high));
        println!(
            "{way:?}: {:.2} % of throughput{interval}, {:.2} % of a core",
            mean(&losses[place]),
            cores[place] * 100.0
        );
    }
    for ((core, pauses), way) in paused.iter().zip([Way::Paused, Way::PausedAhead]) {
        println!("{way:?}: {:.2} % of a core at {pauses:.0} pauses a second", core * 100.0);
    }
    Found { losses, cores, paused }
}

#[test]
fn a_governor_costs_little_and_leaves_nothing() {
    let mounts = Mounts::find();
    let missing = mounts.and_then(|mounts| {
        Meter::open(&mounts.unified).map(|_| mounts).map_err(|error| error.to_string())
    });
    let mounts = match missing {
        Ok(mounts) => mounts,
        Err(why) => {
            println!("SKIPPED: {why}");
            return;
        }
    };
    let asked = std::env::var_os("CAVY_COST").and_then(|text| text.to_str()?.parse::<u32>().ok());
    let (services, front) = services();
    let pids: Vec<u32> = services.iter().map(|service| service.0.id()).collect();
    let address = format!("127.0.0.1:{front}");
    let load = Load {
        address: address.parse().expect("an address"),
        clients: 24,
        types: 1,
        rate_per_s: None,
        think: None,
        protocol: Box::new(Http::new(&address, &["/".to_string()]).expect("a request")),
    };
    let clients = Clients::start(load).expect("clients");
    // All threads of services are there when all clients have been answered once.
    std::thread::sleep(Duration::from_millis(300));
    let before: Vec<_> = pids.iter().map(|pid| traits(*pid)).collect();

    let named = |(index, pid): (usize, &u32)| (format!("s{index}"), Selector::Pid(*pid as i32));
    let chosen: Vec<_> = pids.iter().enumerate().map(named).collect();
    let stage = Stage::set(&chosen, &mounts, Mechanism::Cgroup).expect("the stage is set");
    let file = stage.file().to_path_buf();
    let folder = stage.places()[0].dir.parent().expect("a stage").to_path_buf();
    let guard = Guard::start(Command::new(example("guard")).arg(&file)).expect("a guard");
    let guard_pid = guard.pid();
    let member = |place: &cavy_groups::stage::Place| Member::Processes {
        freezer: place.freezer(stage.mechanism()).expect("a group"),
        meter: Meter::open(&place.dir).expect("checked before"),
    };
    let mut members: Vec<Member> = stage.places().iter().map(member).collect();
    members.push(Member::Clients(clients.gate()));
    let window = Span::from_ms(if asked.is_some() { 1_000 } else { 250 });
    let mut scene = Scene { places: Places::new(members), clients, guard, window };

    let rounds = asked.unwrap_or(1);
    let Found { losses, cores, paused } = measured(&mut scene, rounds);
    let resident = (resident_mb(std::process::id()), resident_mb(guard_pid));
    println!("resident: {:.1} MB, and {:.1} MB of the guard", resident.0, resident.1);

    let (failed, why) = scene.clients.failed();
    assert_eq!(failed, 0, "{why:?}");
    let Scene { places, clients, guard, .. } = scene;
    drop(places);
    drop(stage);
    drop(guard);
    for (pid, before) in pids.iter().zip(&before) {
        assert_eq!(traits(*pid), *before, "process {pid} is as it was");
    }
    assert!(!folder.exists() && !file.exists(), "{} or {}", folder.display(), file.display());
    drop(clients);
    assert!(resident.0 + resident.1 <= 30.0, "{resident:?} MB");
    let (core, pauses) = paused[1];
    assert!(pauses > 20.0, "{pauses} pauses a second");
    // Beside other programs a wake-up takes up to twice as long.
    let most = if asked.is_some() { 0.05 } else { 0.1 };
    assert!(core <= most * f64::max(1.0, pauses / 100.0), "{core} of a core, {pauses} pauses");
    assert!(cores[2] < cores[1], "fewer readings cost less: {cores:?}");
    if asked.is_some() {
        let loss = Interval::of_mean(&losses[2]).expect("two rounds or more");
        assert!(
            loss.low <= 0.5,
            "surely more than the 0.5 % of throughput that are asked: {loss:?}"
        );
    }
}
