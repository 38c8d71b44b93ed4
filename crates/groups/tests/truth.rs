//! Predictions for running processes, held against the change made in truth.
//!
//! Needs root, cgroup v2 and performance events; where they are missing it says SKIPPED.

mod chain;

use cavy_core::Span;
use cavy_core::family::probe::Group;
use cavy_groups::clients::{Clients, Gate, Load};
use cavy_groups::freezer::Mechanism;
use cavy_groups::guard::Guard;
use cavy_groups::pace::Pace;
use cavy_groups::rank::{Bench, Options, Ranking, Rule};
use cavy_groups::refuse::Mounts;
use cavy_groups::select::Selector;
use cavy_groups::stage::Stage;
use cavy_groups::usage::Meter;
use cavy_groups::world::{Member, Places, World};
use cavy_live::load::wire::Http;
use cavy_whatif::{Change, Config, Governor, Limits, Target, Windows};
use chain::{chain, example, free_port};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Why this machine cannot run the test.
fn missing() -> Option<String> {
    let mounts = match Mounts::find() {
        Ok(mounts) => mounts,
        Err(why) => return Some(why),
    };
    Meter::open(&mounts.unified).err().map(|error| format!("performance events: {error}"))
}

/// Front asks back; both burn CPU time for each request, in microseconds.
fn rank(front_us: u32, back_us: u32, faster: f64, rounds: u32) -> Ranking {
    let (front, back) = (free_port(), free_port());
    let _behind = chain(&[back, back_us]);
    let before = chain(&[front, front_us, back]);
    for port in [front, back] {
        while std::net::TcpStream::connect(("127.0.0.1", port as u16)).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let mounts = Mounts::find().expect("cgroup v2");
    let services = [
        ("front".to_string(), Selector::Pid(before.0.id() as i32)),
        ("back".to_string(), Selector::Port(back as u16)),
    ];
    let stage = Stage::set(&services, &mounts, Mechanism::Cgroup).expect("the stage is set");
    let mut guard =
        Guard::start(Command::new(example("guard")).arg(stage.file())).expect("a guard");
    let address = format!("127.0.0.1:{front}");
    let load = Load {
        address: address.parse().expect("an address"),
        clients: 64,
        types: 1,
        rate_per_s: None,
        protocol: Box::new(Http::new(&address, &["/".to_string()]).expect("a request")),
    };
    let clients = Clients::start(load).expect("clients");
    let mut bench = Bench::new(&stage, clients).expect("a bench");
    let options = Options {
        faster,
        rule: Rule::Delivered,
        rounds,
        until_percent: None,
        control: true,
        pace: Pace { window: Span::from_ms(400), settle: Span::from_ms(100) },
        pause_min: None,
    };
    let stop = AtomicBool::new(false);
    let ranking =
        bench.rank(&[0, 1], &options, &mut guard, &stop, |_, _, _| {}).expect("a ranking");
    let file = stage.file().to_path_buf();
    drop(bench);
    drop(stage);
    assert!(!file.exists(), "what was kept for a recovery is removed");
    drop(guard);
    ranking
}

#[test]
fn the_dearer_service_buys_more_and_as_much_as_the_change_does() {
    if let Some(why) = missing() {
        println!("SKIPPED: {why}");
        return;
    }
    let predicted = rank(200, 600, 0.4, 3);
    assert_eq!(predicted.failed, 0, "{:?}", predicted.complaint);
    assert_eq!(predicted.rows.len(), 2);
    let of = |name: &str| predicted.rows.iter().find(|row| row.service == name).expect("a row");
    let (front, back) = (of("front"), of("back"));
    let gain = |row: &cavy_groups::rank::Row| row.gain_percent.expect("three rounds");
    // CPU time is right to what the services burn, whatever else runs on this machine.
    assert!((600.0..900.0).contains(&back.cpu_us_per_request), "{back:?}");
    assert!((200.0..500.0).contains(&front.cpu_us_per_request), "{front:?}");

    let before = predicted.baseline_per_s.expect("baselines").value;
    let truth = rank(200, 360, 0.4, 2).baseline_per_s.expect("baselines").value;
    let true_gain = (truth / before - 1.0) * 100.0;
    let said = gain(back);
    println!("predicted {said:?}, true {true_gain:.1} %");
    // Beside other programs even the order of the pauses is left to chance.
    let doubts: Vec<_> = [&back.doubts[..], &front.doubts].concat();
    if !doubts.is_empty() || said.high - said.low > 20.0 {
        println!("SKIPPED the comparison: the machine is too noisy: {said:?} {doubts:?}");
        return;
    }
    assert!(back.paused_ratio > front.paused_ratio, "more work, more pauses");
    assert!(said.value > gain(front).value, "{predicted:?}");
    assert!((said.value - true_gain).abs() < 15.0, "predicted {said:?}, true {true_gain:.1} %");
}

/// A target that always gets all of the time: what it got in pauses is how long they were. Pauses
/// are shorter than the time between two readings, so that only the readings at their ends tell.
#[test]
fn what_a_target_got_in_a_pause_is_counted_to_its_end() {
    let gate = Arc::new(Gate::default());
    let mut places = Places::new(vec![Member::Clients(gate), Member::Clock]);
    let config = Config {
        targets: vec![Target {
            groups: vec![Group(1)],
            change: Change::Delivered { share: 0.3, parallel: 1 },
        }],
        rest: vec![Group(0)],
        limits: Limits {
            pause_min: Span::from_us(500),
            pause_max: Span::from_us(600),
            ..Limits::default()
        },
        windows: Windows {
            settle: Span::from_ms(50),
            length: Span::from_ms(500),
            pattern: vec![true],
        },
        hosts: 0,
    };
    let governor = Governor::new(config).expect("a legal config");
    let run = World::new(governor, &mut places, None).run(1, &AtomicBool::new(false));
    let reading = run.expect("nothing can fail").findings[0];
    let counted = reading.cpu_inside[0].as_us() / reading.paused.as_us();
    assert!(reading.pauses >= 20, "{reading:?}");
    assert!((0.9..1.1).contains(&counted), "{counted}: {reading:?}");
    assert!(reading.idle * 10 <= reading.pauses, "it never idles: {reading:?}");
}
