//! DARC on real threads does what it is for. Timed slots: service is emulated by waiting;
//! scheduling, queues and threads are real. A functional test with room for any machine's noise.
#![allow(non_snake_case)]

use cavy_live::pool::{Driver, Pool};
use cavy_live::{Kind, Policy, Shutdown};
use cavy_sched::darc;
use std::time::Duration;

const SHORT: Kind = Kind(1);
const LONG: Kind = Kind(2);

/// Longs come in bursts of twice the workers; shorts trickle in between. Median latency of shorts.
fn short_p50_ms(policy: Policy, driver: Driver) -> f64 {
    let pool = Pool::builder()
        .workers(4)
        .types(["short", "long"])
        .hint("short", Duration::from_millis(1), 0.7)
        .hint("long", Duration::from_millis(40), 0.3)
        .policy(policy)
        .driver(driver)
        .build()
        .expect("a legal pool");
    for _ in 0..4 {
        for _ in 0..8 {
            drop(pool.submit(LONG, || std::thread::sleep(Duration::from_millis(40))));
        }
        for _ in 0..16 {
            drop(pool.submit(SHORT, || std::thread::sleep(Duration::from_millis(1))));
            std::thread::sleep(Duration::from_millis(4));
        }
    }
    pool.shutdown(Shutdown::Drain);
    pool.stats().types[1].latency.value_at_quantile(0.5) as f64 / 1e6
}

#[test]
fn darc__keeps_shorts_from_waiting_behind_longs() {
    let darc = Policy::Darc { config: darc::Config::default(), hinted: true };
    for driver in [Driver::Inline, Driver::Dedicated { spin: Duration::ZERO }] {
        let fcfs = short_p50_ms(Policy::CentralFcfs, driver);
        let protected = short_p50_ms(darc.clone(), driver);
        assert!(
            protected * 2.0 < fcfs,
            "median latency of shorts: DARC {protected} ms, c-FCFS {fcfs} ms ({driver:?})"
        );
    }
}

#[test]
fn darc__learns_the_types_by_itself() {
    let config = darc::Config { window: 60, by_occupancy: true, ..darc::Config::default() };
    // The names are the wrong way round: nothing but measurement tells short from long.
    let pool = Pool::builder().workers(4).types(["slow", "quick"]);
    let pool = pool.policy(Policy::Darc { config, hinted: false }).build().expect("a legal pool");
    for n in 0..200_u16 {
        let (kind, ms) = if n % 4 == 0 { (Kind(1), 8) } else { (Kind(2), 0) };
        drop(pool.submit(kind, move || std::thread::sleep(Duration::from_millis(ms))));
        std::thread::sleep(Duration::from_micros(200));
    }
    pool.shutdown(Shutdown::Drain);
    let reservation = pool.stats().reservation.expect("a full window was seen");
    let order: Vec<_> = reservation.table.groups.iter().map(|group| &group.members[..]).collect();
    assert_eq!(order, [&[Kind(2)][..], &[Kind(1)]]);
}
