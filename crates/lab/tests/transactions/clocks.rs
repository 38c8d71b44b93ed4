//! Clocks that are wrong: nothing that holds depends on them, and nothing waits for them for long
//! `[dast 2.9]`.

use crate::faults::{again, at, seeds, verdict};
use crate::town::{Mix, go, network};
use cavy_core::family::Node;
use cavy_core::{Purpose, Span, Stream};
use cavy_lab::wan::{Clock, ClockStep, Setup};
use cavy_txn::Layout;
use cavy_txn::dast::{Config, Mode};

/// Clocks further apart than this are not followed here.
const JUMP_MAX: Span = Span::from_ms(1_000);
const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

fn config() -> Config {
    Config { jump_max: JUMP_MAX, ..Config::new(Layout::new(3, 2), Mode::Precise) }
}

/// Runs seeds of a network in which `set` makes clocks wrong.
fn stands(test: &str, few: u64, set: impl Fn(&mut Setup, &mut Stream)) {
    let config = config();
    for seed in seeds(few) {
        let mut setup = network(&config);
        setup.seed = seed;
        setup.check = true;
        setup.duration = Span::from_ms(2_000);
        set(&mut setup, &mut Stream::keyed(seed, 11, Purpose::Test));
        let judged = verdict(|| go(&config, &setup, Mix::all()).judge());
        let test = format!("clocks::{test}");
        assert_eq!(judged, Ok(()), "seed {seed}, again: {}", again(&test, seed));
    }
}

/// Every clock of a run shows so much more than time.
fn epoch(setup: &mut Setup, ns: i64) {
    let clock = Clock { offset_ns: ns, ..Clock::default() };
    setup.clocks = setup.nodes.iter().map(|_| clock.clone()).collect();
}

fn step(setup: &mut Setup, node: Node, ms: u64, by_ns: i64) {
    setup.faults.steps.push(ClockStep { node, at: at(ms), by_ns });
}

fn any(setup: &Setup, draws: &mut Stream) -> Node {
    Node(draws.below(setup.nodes.len() as u64) as u32)
}

/// The lab's clocks do not show times before the epoch: one that is set back beyond it stands.
#[test]
fn one_that_stands_still_is_not_asked_all_the_time() {
    stands("one_that_stands_still", 3, |setup, draws| {
        let node = any(setup, draws);
        step(setup, node, 500, -5 * SECOND);
    });
}

#[test]
fn steps_that_others_follow() {
    stands("steps_that_others_follow", 4, |setup, draws| {
        epoch(setup, 100 * SECOND);
        for turn in 0..6 {
            let (node, ms) = (any(setup, draws), 300 + 250 * turn + draws.below(200));
            step(setup, node, ms, draws.below(1_800) as i64 * MS - 900 * MS);
        }
    });
}

/// A clock ahead by more than others follow holds up nobody but its own clients; one behind by more
/// follows the others, or the region would wait for it for ever.
#[test]
fn steps_that_others_do_not_follow() {
    stands("steps_that_others_do_not_follow", 4, |setup, draws| {
        epoch(setup, 100 * SECOND);
        let (one, other) = (any(setup, draws), any(setup, draws));
        step(setup, one, 400 + draws.below(300), 3 * SECOND);
        step(setup, other, 900 + draws.below(300), -30 * SECOND);
    });
}

#[test]
fn drift_and_offsets() {
    stands("drift_and_offsets", 3, |setup, draws| {
        let mut clock = || Clock {
            offset_ns: 100 * SECOND + draws.below(100) as i64 * MS - 50 * MS,
            // Two parts in a hundred, which no clock in use is off by.
            drift_ppb: draws.below(40_000_000) as i64 - 20_000_000,
            ..Clock::default()
        };
        setup.clocks = setup.nodes.iter().map(|_| clock()).collect();
    });
}
