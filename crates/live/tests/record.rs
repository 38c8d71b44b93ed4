//! Conformance: a recorded run, fed to a fresh machine, is decided in the same way
//! ([persephone 7.3]).
#![allow(non_snake_case)]

use cavy_live::pool::{Driver, OnFull, Pool};
use cavy_live::record::ReplayError;
use cavy_live::record::pool::{Reader, replay};
use cavy_live::slots::Slots;
use cavy_live::{Kind, Policy, Shutdown};
use cavy_sched::darc;
use cavy_sched::darc::rehearsal::Terms;
use cavy_sched::darc::sizing::{Objective, Sizing};
use cavy_sched::distributed::Steering;
use std::time::Duration;

/// DARC with windows so short that a test sees many reservations.
fn quick_darc() -> darc::Config {
    darc::Config { window: 50, delay_factor: 1, by_occupancy: true, ..darc::Config::default() }
}

fn policies() -> Vec<Policy> {
    let load_aware = Sizing::LoadAware(Objective::default());
    let rehearsed = Sizing::Rehearsed(Terms { trace: 1_000, ..Terms::default() });
    vec![
        Policy::Darc { config: quick_darc(), hinted: false },
        Policy::Darc { config: quick_darc(), hinted: true },
        Policy::Darc { config: darc::Config { sizing: load_aware, ..quick_darc() }, hinted: true },
        Policy::Darc { config: darc::Config { sizing: rehearsed, ..quick_darc() }, hinted: false },
        Policy::DarcStatic { groups: vec![(vec![Kind(1)], 1), (vec![Kind(2)], 0)] },
        Policy::CentralFcfs,
        Policy::FixedPriority,
        Policy::ShortestFirst,
        Policy::EarliestDeadline { deadlines: vec![cavy_core::Span::from_ms(1); 2] },
        Policy::CycleStealing { short_workers: 1 },
        Policy::DistributedFcfs { steering: Steering::Random },
        Policy::Stealing { steering: Steering::Flows(3) },
    ]
}

#[test]
fn replay__decides_as_the_pool_did_with_both_drivers() {
    let folder = tempfile::tempdir().expect("a folder");
    let drivers = [Driver::Inline, Driver::Dedicated { spin: Duration::from_micros(20) }];
    for (n, policy) in policies().into_iter().enumerate() {
        for (d, driver) in drivers.into_iter().enumerate() {
            let path = folder.path().join(format!("{n}-{d}.jsonl"));
            let pool = Pool::builder()
                .workers(3)
                .types(["short", "long"])
                .hint("short", Duration::from_micros(10), 0.75)
                .hint("long", Duration::from_micros(300), 0.25)
                .policy(policy.clone())
                .queue_limit(40)
                .driver(driver)
                .seed(7)
                .record(&path)
                .build()
                .expect("a legal pool");
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for n in 0..400_u16 {
                            let long = n % 4 == 0;
                            let us = if long { 300 } else { 10 };
                            let job = move || std::thread::sleep(Duration::from_micros(us));
                            drop(pool.submit(Kind(1 + u16::from(long)), job));
                            if n % 50 == 0 {
                                std::thread::sleep(Duration::from_millis(3));
                            }
                        }
                    });
                }
                for workers in [5, 2, 4] {
                    std::thread::sleep(Duration::from_millis(5));
                    pool.resize(workers).expect("a legal size");
                }
            });
            pool.shutdown(Shutdown::Drain);
            let stats = pool.stats();
            let summary = pool.finish_recording().expect("it records").expect("it is written");
            let mut reader = Reader::open(&path).expect("a header");
            assert_eq!(reader.header().policy, policy, "the policy comes back to the last bit");
            let replayed = replay(&mut reader).expect("a recording");
            assert!(replayed.agrees(), "{policy:?} {driver:?}: {replayed:?}");
            assert_eq!(replayed.recorded, Some(summary));
            let arrivals: u64 = stats.types.iter().map(|of| of.arrivals).sum();
            let finished: u64 = stats.types.iter().map(|of| of.finished).sum();
            assert_eq!(summary.inputs, arrivals + finished + 3);
            if n == 0 {
                assert!(!stats.updates.is_empty(), "DARC made no reservation");
                assert!(stats.reservation.is_some());
            }
        }
    }
}

#[test]
fn replay__decides_as_slots_did() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("slots.jsonl");
    let policy = Policy::Darc { config: quick_darc(), hinted: false };
    let slots = Slots::builder().slots(3).types(["short", "long"]).policy(policy).record(&path);
    let slots = slots.build().expect("legal slots");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for n in 0..100 {
                    // Some give up, most of them while they wait.
                    if n % 7 == 3 {
                        drop(slots.acquire(Kind(2)));
                    }
                    let permit = slots.acquire(Kind(1 + n % 2)).wait().expect("room for all");
                    if n % 10 == 0 {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    drop(permit);
                }
            });
        }
    });
    slots.finish_recording().expect("it records").expect("it is written");
    let replayed = replay(&mut Reader::open(&path).expect("a header")).expect("a recording");
    assert!(replayed.agrees(), "{replayed:?}");
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(text.lines().any(|line| line.contains("\"s\"")), "somebody gave up");
}

#[test]
fn replay__notices_a_changed_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.jsonl");
    let pool = Pool::builder().workers(1).types(["short", "long"]).policy(Policy::FixedPriority);
    let deadline = Duration::from_secs(10);
    let pool = pool.on_full(OnFull::Block { deadline }).record(&path).build().expect("legal");
    for n in 0..20 {
        drop(pool.submit(Kind(1 + n % 2), || std::thread::sleep(Duration::from_micros(50))));
    }
    pool.shutdown(Shutdown::Drain);
    pool.finish_recording().expect("it records").expect("it is written");
    let text = std::fs::read_to_string(&path).expect("a file");
    // One request of another type is another run.
    let line = text.lines().filter(|line| line.contains("\"a\"")).nth(15).expect("20 arrivals");
    let (head, kind) = line.trim_end_matches(']').rsplit_once(',').expect("four values");
    let other = format!("{head},{}]", 3 - kind.parse::<u16>().expect("1 or 2"));
    let changed = text.replace(line, &other);
    let read = |text: &str| replay(&mut Reader::new(text.as_bytes())?);
    assert!(read(&text).expect("a recording").agrees());
    match read(&changed) {
        Ok(replayed) => assert!(!replayed.agrees()),
        Err(error) => assert!(matches!(error, ReplayError::Line { .. }), "{error}"),
    }
}

#[test]
fn replay__reports_bad_files_by_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.jsonl");
    let pool = Pool::builder().workers(1).record(&path).build().expect("a legal pool");
    pool.submit(Kind(1), || ()).join().expect("runs");
    pool.shutdown(Shutdown::Drain);
    pool.finish_recording().expect("it records").expect("it is written");
    let header = std::fs::read_to_string(&path).expect("a file");
    let header = header.lines().next().expect("a header").to_string();
    let read = |text: String| {
        let error = Reader::new(text.as_bytes()).and_then(|mut reader| replay(&mut reader));
        error.expect_err("a bad file").to_string()
    };
    assert!(read(String::new()).contains("line 1"));
    assert!(read(header.replacen("1", "9", 1)).contains("format 9"));
    for (line, says) in [
        ("[1,\"x\",0,1]", "\"x\""),
        ("[1,\"a\",0]", "type is missing"),
        ("[1,\"a\",0,70000]", "type is 70000"),
        ("[1,\"a\",0,1,2]", "too many"),
        ("[1,\"f\",0,0,5]", "without running it"),
        ("[1,\"f\",9000,0,5]", "without running it"),
        ("[1,\"y\",0,0]", "do not yield"),
        ("[1,\"r\",0]", "0 workers"),
        ("[5,\"a\",0,1]\n[4,\"a\",1,1]", "time goes back"),
        ("nonsense", "expected"),
        ("{\"inputs\":1,\"digest\":\"zz\"}", "digest"),
    ] {
        let error = read(format!("{header}\n{line}\n"));
        assert!(error.contains(says) && error.contains("line "), "{line}: {error}");
    }
    // Cut off: no footer, no verdict.
    let text = format!("{header}\n[1,\"a\",0,1]\n");
    let replayed = replay(&mut Reader::new(text.as_bytes()).expect("a header")).expect("inputs");
    assert_eq!((replayed.recorded, replayed.agrees()), (None, false));
}
