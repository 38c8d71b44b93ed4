//! The pool as its users see it: every job runs once or is refused with a reason.
#![allow(non_snake_case)]

use cavy_live::pool::{Builder, Driver, JobError, OnFull, Pool};
use cavy_live::{BuildError, Kind, Policy, Shutdown};
use cavy_sched::distributed::Steering;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

const SHORT: Kind = Kind(1);
const LONG: Kind = Kind(2);

const DRIVERS: [Driver; 2] =
    [Driver::Inline, Driver::Dedicated { spin: Duration::from_micros(20) }];

fn builder(driver: Driver, workers: u16) -> Builder {
    Pool::builder().workers(workers).types(["short", "long"]).driver(driver)
}

/// Occupies `count` workers until the returned sender is dropped.
fn block(pool: &Pool, kind: Kind, count: usize) -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let running = Arc::new(Barrier::new(count + 1));
    for _ in 0..count {
        let (gate, running) = (gate.clone(), running.clone());
        drop(pool.submit(kind, move || {
            running.wait();
            // Ends when the sender is dropped.
            let _ = gate.lock().expect("nobody panics here").recv();
        }));
    }
    running.wait();
    open
}

#[test]
fn a_job_returns_its_value() {
    for driver in DRIVERS {
        let pool = builder(driver, 2).build().expect("a legal pool");
        let handles: Vec<_> = (0..100).map(|n| pool.submit(SHORT, move || n * n)).collect();
        for (n, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join(), Ok(n * n));
        }
        pool.shutdown(Shutdown::Drain);
        let stats = pool.stats();
        let short = stats.of("short").expect("a registered type");
        assert_eq!((short.arrivals, short.starts, short.finished), (100, 100, 100));
        assert_eq!(short.service.len(), 100);
        assert_eq!(short.occupancy.len(), 100);
    }
}

#[test]
fn try_join__is_empty_until_the_job_ended() {
    for driver in DRIVERS {
        let pool = builder(driver, 1).build().expect("a legal pool");
        let open = block(&pool, LONG, 1);
        let mut handle = pool.submit(SHORT, || 7);
        assert_eq!(handle.try_join(), None);
        assert_eq!(handle.join_timeout(Duration::from_millis(5)), None);
        drop(open);
        assert_eq!(handle.join_timeout(Duration::from_secs(30)), Some(Ok(7)));
    }
}

#[test]
fn a_panic_is_reported_and_frees_the_worker() {
    for driver in DRIVERS {
        let pool = builder(driver, 1).build().expect("a legal pool");
        let bad = pool.submit(SHORT, || panic!("on purpose: {}", 42));
        let message = "on purpose: 42".to_string();
        assert_eq!(bad.join(), Err::<(), _>(JobError::Panicked { message }));
        assert_eq!(pool.submit(SHORT, || 1).join(), Ok(1));
        let stats = pool.stats();
        assert_eq!(stats.types[1].panics, 1);
        assert_eq!(stats.workers_replaced, 0);
    }
}

/// Panics when dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[test]
fn a_worker_that_dies_is_replaced_and_loses_no_job() {
    for driver in DRIVERS {
        let pool = builder(driver, 1).build().expect("a legal pool");
        let open = block(&pool, LONG, 1);
        // Nobody waits for the value, so the worker drops it, with jobs queued behind.
        drop(pool.submit(SHORT, || Bomb));
        let thrown = pool.submit(SHORT, || std::panic::panic_any(Bomb));
        let after: Vec<_> =
            (0..10).map(|n| pool.submit(SHORT, move || (n, std::thread::current().id()))).collect();
        drop(open);
        assert!(matches!(thrown.join(), Err::<(), _>(JobError::Panicked { .. })));
        for (n, handle) in after.into_iter().enumerate() {
            assert_eq!(handle.join().expect("runs").0, n);
        }
        assert_eq!(pool.stats().workers_replaced, 2);
        pool.shutdown(Shutdown::Drain);
    }
}

#[test]
fn reject__refuses_at_once_what_finds_no_place() {
    for driver in DRIVERS {
        let pool = builder(driver, 1).queue_limit(3).policy(Policy::CentralFcfs).build();
        let pool = pool.expect("a legal pool");
        let open = block(&pool, LONG, 1);
        let kept: Vec<_> = (0..3).map(|n| pool.submit(SHORT, move || n)).collect();
        assert_eq!(pool.submit(SHORT, || 9).join(), Err(JobError::Rejected));
        assert_eq!(pool.stats().of("short").map(|short| short.drops), Some(1));
        drop(open);
        for (n, handle) in kept.into_iter().enumerate() {
            assert_eq!(handle.join(), Ok(n));
        }
    }
}

#[test]
fn block__waits_for_room_then_gives_up() {
    for driver in DRIVERS {
        let deadline = Duration::from_millis(30);
        let pool = builder(driver, 1).queue_limit(1).on_full(OnFull::Block { deadline });
        let pool = pool.policy(Policy::CentralFcfs).build().expect("a legal pool");
        let open = block(&pool, LONG, 1);
        let kept = pool.submit(SHORT, || 1);
        assert_eq!(pool.submit(SHORT, || 2).join(), Err(JobError::Rejected), "time is up");
        // `run` never blocks.
        assert_eq!(futures_executor::block_on(pool.run(SHORT, || 3)), Err(JobError::Rejected));
        drop(open);
        assert_eq!(kept.join(), Ok(1));
    }
}

#[test]
fn block__lets_everybody_in_when_there_is_room_in_time() {
    for driver in DRIVERS {
        for policy in [
            Policy::CentralFcfs,
            Policy::DistributedFcfs { steering: Steering::Random },
            cavy_live::darc(),
        ] {
            let deadline = Duration::from_secs(60);
            let pool = builder(driver, 2).queue_limit(1).on_full(OnFull::Block { deadline });
            let pool = pool.policy(policy).build().expect("a legal pool");
            let ran = Arc::new(AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for n in 0..8_u16 {
                    let (pool, ran) = (&pool, &ran);
                    scope.spawn(move || {
                        for _ in 0..200 {
                            let ran = ran.clone();
                            drop(pool.submit(Kind(n % 2 + 1), move || {
                                ran.fetch_add(1, Ordering::Relaxed);
                            }));
                        }
                    });
                }
            });
            pool.shutdown(Shutdown::Drain);
            assert_eq!(ran.load(Ordering::Relaxed), 1_600);
        }
    }
}

#[test]
fn shutdown__drains() {
    for driver in DRIVERS {
        let pool = builder(driver, 2).build().expect("a legal pool");
        let open = block(&pool, LONG, 2);
        let handles: Vec<_> = (0..50).map(|n| pool.submit(SHORT, move || n)).collect();
        drop(open);
        pool.shutdown(Shutdown::Drain);
        assert_eq!(pool.submit(SHORT, || 0).join(), Err(JobError::Shutdown));
        for (n, mut handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.try_join(), Some(Ok(n)), "drained before shutdown returned");
        }
        assert!(matches!(pool.resize(3), Err(BuildError::Shutdown)));
    }
}

#[test]
fn shutdown__rejects_what_waits() {
    for driver in DRIVERS {
        let pool = builder(driver, 1).build().expect("a legal pool");
        let open = block(&pool, LONG, 1);
        let ran = Arc::new(AtomicBool::new(false));
        let flag = ran.clone();
        let handle = pool.submit(SHORT, move || flag.store(true, Ordering::Relaxed));
        // The dedicated dispatcher may not have seen it yet, and then refuses it as well.
        let closing = std::thread::spawn({
            let pool = pool.clone();
            move || pool.shutdown(Shutdown::Reject)
        });
        assert_eq!(handle.join(), Err(JobError::Shutdown));
        drop(open);
        closing.join().expect("shutdown returns");
        assert!(!ran.load(Ordering::Relaxed));
        assert_eq!(pool.stats().in_system, 0);
    }
}

#[test]
fn shutdown__from_a_job_does_not_wait_for_itself() {
    for driver in DRIVERS {
        let pool = builder(driver, 1).build().expect("a legal pool");
        let inner = pool.clone();
        assert_eq!(pool.submit(LONG, move || inner.shutdown(Shutdown::Drain)).join(), Ok(()));
        pool.shutdown(Shutdown::Drain);
    }
}

#[test]
fn dropping_the_pool_lets_jobs_end() {
    for driver in DRIVERS {
        let pool = builder(driver, 1).build().expect("a legal pool");
        let handles: Vec<_> = (0..20).map(|n| pool.submit(SHORT, move || n)).collect();
        drop(pool);
        for (n, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join(), Ok(n));
        }
    }
}

#[test]
fn cancel__takes_back_what_did_not_start() {
    for driver in DRIVERS {
        let pool = builder(driver, 1).build().expect("a legal pool");
        let open = block(&pool, LONG, 1);
        let handle = pool.submit(SHORT, || 1);
        let dropped = pool.run(SHORT, || panic!("must not run"));
        drop(dropped);
        assert!(handle.cancel());
        assert!(!handle.cancel(), "once");
        assert_eq!(handle.join(), Err::<i32, _>(JobError::Cancelled));
        drop(open);
        pool.shutdown(Shutdown::Drain);
        let stats = pool.stats();
        assert_eq!((stats.types[1].cancelled, stats.types[1].panics), (2, 0));
        assert_eq!(stats.types[1].finished, 0, "what did not run says nothing of its type");
        assert_eq!(stats.in_system, 0, "no slot is lost");
    }
}

#[test]
fn run__is_awaited_on_any_executor() {
    for driver in DRIVERS {
        let pool = builder(driver, 2).build().expect("a legal pool");
        let sum = futures_executor::block_on(async {
            let (a, b) = (pool.run(SHORT, || 20), pool.run(LONG, || 22));
            a.await.expect("runs") + b.await.expect("runs")
        });
        assert_eq!(sum, 42);
    }
}

#[test]
fn resize__up_and_down_under_load() {
    for driver in DRIVERS {
        let pool = builder(driver, 2).build().expect("a legal pool");
        let ran = Arc::new(AtomicUsize::new(0));
        let (most, now) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        std::thread::scope(|scope| {
            for n in 0..3_u16 {
                let (pool, ran, most, now) = (&pool, &ran, &most, &now);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let (ran, most, now) = (ran.clone(), most.clone(), now.clone());
                        let job = move || {
                            let at_once = now.fetch_add(1, Ordering::SeqCst) + 1;
                            most.fetch_max(at_once, Ordering::SeqCst);
                            std::thread::sleep(Duration::from_micros(100));
                            now.fetch_sub(1, Ordering::SeqCst);
                            ran.fetch_add(1, Ordering::SeqCst);
                        };
                        drop(pool.submit(Kind(n % 2 + 1), job));
                    }
                });
            }
            for workers in [9, 1, 5, 2, 12, 3, 7, 1, 4] {
                pool.resize(workers).expect("a legal size");
                assert_eq!(pool.stats().workers, workers);
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        pool.shutdown(Shutdown::Drain);
        assert_eq!(ran.load(Ordering::SeqCst), 1_500);
        assert!(most.load(Ordering::SeqCst) <= 12);
        assert!(pool.resize(0).is_err());
        assert!(pool.resize(257).is_err());
    }
}

#[test]
fn stress__each_job_runs_exactly_once() {
    const JOBS: usize = 5_000;
    const SUBMITTERS: usize = 4;
    for driver in DRIVERS {
        for policy in [
            cavy_live::darc(),
            Policy::CentralFcfs,
            Policy::FixedPriority,
            Policy::Stealing { steering: Steering::RoundRobin },
            Policy::DarcStatic { groups: vec![(vec![SHORT], 1), (vec![LONG], 0)] },
        ] {
            let pool = builder(driver, 4).queue_limit(u32::MAX).policy(policy).build();
            let pool = pool.expect("a legal pool");
            let ran: Arc<Vec<AtomicU32>> =
                Arc::new((0..JOBS * SUBMITTERS).map(|_| AtomicU32::new(0)).collect());
            std::thread::scope(|scope| {
                for from in 0..SUBMITTERS {
                    let (pool, ran) = (&pool, &ran);
                    scope.spawn(move || {
                        for n in 0..JOBS {
                            let (ran, index) = (ran.clone(), from * JOBS + n);
                            // A few of no known type.
                            let kind = Kind((n % 7 % 4) as u16);
                            drop(pool.submit(kind, move || {
                                ran[index].fetch_add(1, Ordering::Relaxed);
                            }));
                        }
                    });
                }
            });
            pool.shutdown(Shutdown::Drain);
            assert!(ran.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            let stats = pool.stats();
            let finished: u64 = stats.types.iter().map(|of| of.finished).sum();
            assert_eq!(finished, (JOBS * SUBMITTERS) as u64);
        }
    }
}

#[test]
fn classified__sorts_requests_itself() {
    let pool = builder(Driver::Inline, 1).build().expect("a legal pool");
    let classify = |path: &&str| if *path == "/scan" { LONG } else { SHORT };
    let classified = pool.classified(classify);
    assert_eq!(classified.submit("/scan", |path| path.len()).join(), Ok(5));
    assert_eq!(classified.submit("/get", |path| path.len()).join(), Ok(4));
    let stats = pool.stats();
    assert_eq!((stats.types[1].finished, stats.types[2].finished), (1, 1));
}

#[test]
fn build__says_what_is_wrong() {
    let build = |builder: Builder| builder.build().expect_err("illegal").to_string();
    let preemptive = Policy::SlicedSingle { slice: cavy_core::Span::from_us(5) };
    assert!(build(Pool::builder().policy(preemptive)).contains("cannot be preempted"));
    assert!(build(Pool::builder().workers(0)).contains("workers is 0"));
    assert!(build(Pool::builder().workers(4_097)).contains("workers is 4097"));
    assert!(build(Pool::builder().types(["a", "a"])).contains("\"a\""));
    assert!(build(Pool::builder().types::<&str>([])).contains("0 types"));
    assert!(build(Pool::builder().type_count(64)).contains("64 types"));
    let hint = Duration::from_millis(1);
    assert!(build(Pool::builder().types(["a"]).hint("b", hint, 0.5)).contains("\"b\""));
    assert!(build(Pool::builder().types(["a"]).hint("a", hint, 1.5)).contains("ratio"));
    assert!(build(Pool::builder().types(["a"]).hint("a", Duration::ZERO, 1.0)).contains("mean"));
    assert!(build(Pool::builder().pin([])).contains("cores"));
    assert!(build(Pool::builder().pin([1_000])).contains("core 1000"));
    assert!(build(Pool::builder().record("no/such/folder/x.jsonl")).contains("x.jsonl"));
    let hinted = match cavy_live::darc() {
        Policy::Darc { config, .. } => Policy::Darc { config, hinted: true },
        _ => panic!("darc is DARC"),
    };
    assert!(build(Pool::builder().types(["a"]).policy(hinted)).contains("has none"));
}

#[test]
fn pin__runs_workers_where_it_says() {
    let pool = Pool::builder().workers(2).pin([0]).build().expect("core 0 is always there");
    let cores = pool.submit(Kind(1), || {
        let set = rustix::thread::sched_getaffinity(None).expect("Linux");
        (0..64).filter(|&core| set.is_set(core)).collect::<Vec<_>>()
    });
    assert_eq!(cores.join(), Ok(vec![0]));
}
