//! A step of the world of services allocates nothing, and a longer run needs no more memory.

use super::stage::{closed, exponential, line};
use cavy_core::family::probe::Group;
use cavy_core::{Instant, Span};
use cavy_lab::pending::Heap4;
use cavy_lab::services::{Law, Setup, Unobserved, run};
use cavy_whatif::{Change, Config, Governor, Limits, Target, Windows};

#[test]
fn visits_and_pauses_allocate_nothing() {
    let mut network = line(
        &[(exponential(600), 2), (exponential(1_000), 2), (exponential(500), 2)],
        closed(64, None),
    );
    network.hop = Some(Law::Constant { ns: 100_000 });
    let measure = |governed: bool, seconds: u64| {
        let mut setup = Setup::new(&network, 1, Instant::from_ns(seconds * 1_000_000_000));
        setup.wiring.hears = vec![Some(0); network.groups() as usize];
        setup.wiring.edge = Some(0);
        let target = Group(1);
        let rest = (0..network.groups()).map(Group).filter(|group| *group != target).collect();
        let change = Change::Delivered { share: 0.4, parallel: 2 };
        let targets = vec![Target { groups: vec![target], change }];
        // One window for all time: what a window concludes is not what a step does.
        let windows = Windows {
            settle: Span::from_ms(100),
            length: Span::from_ms(1_000_000),
            pattern: vec![governed],
        };
        let config = Config { targets, rest, limits: Limits::default(), windows, hosts: 0 };
        let mut governor = [Governor::new(config).expect("a legal config")];
        let mut outcome = None;
        let info = allocation_counter::measure(|| {
            let ran = run(&setup, &mut governor, &mut Heap4::new(), &mut Unobserved);
            outcome = Some(ran.expect("a legal network"));
        });
        let outcome = outcome.expect("a run");
        let stops: u64 = outcome.groups.iter().map(|group| group.stops).sum();
        (info.count_total, info.bytes_max, outcome.visits, stops)
    };
    for governed in [false, true] {
        let (count, bytes, visits, stops) = measure(governed, 20);
        let (count_twice, bytes_twice, visits_twice, stops_twice) = measure(governed, 40);
        assert!(visits > 50_000 && visits_twice > visits * 3 / 2, "{visits}, {visits_twice}");
        assert_eq!((stops > 1_000, stops_twice > 2_000), (governed, governed), "{stops}");
        // A queue may find a new longest and double once or twice.
        assert!(count_twice <= count + 24, "{governed}: {count} allocations, then {count_twice}");
        assert!(bytes_twice <= bytes + 65_536, "{governed}: {bytes} bytes, then {bytes_twice}");
    }
}
