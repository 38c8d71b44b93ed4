//! Whatever the network does: every message once, nothing kept.

use crate::each_transport;
use crate::transports::{Rival, Star, assert_all_delivered, assert_nothing_remembered, star};
use cavy_core::family::Node;
use cavy_core::family::packet::{Input, Message};
use cavy_core::laws::packet::{Outage, Queue, Weather};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_homa::rivals::Why;

/// A random handful of messages among a few hosts, over a network that is bad in its own way.
fn conversation<M: Rival>(seed: u64, queue: Queue, make: impl Fn() -> M) -> Star<M> {
    let mut rng = Stream::keyed(seed, 1, Purpose::Test);
    let hosts = 2 + rng.below(3) as u32;
    let mut network = star(hosts, queue, seed, make);
    network.weather = Weather {
        lost: [0, 20, 100, 250][rng.below(4) as usize],
        doubled: [0, 50, 300][rng.below(3) as usize],
        delayed: [0, 100, 500][rng.below(3) as usize],
        delay: Span::from_us([1, 10, 200][rng.below(3) as usize]),
        ..Weather::default()
    };
    for at in 0..1 + rng.below(12) {
        let from = rng.below(u64::from(hosts)) as u32;
        let to = (from + 1 + rng.below(u64::from(hosts) - 1) as u32) % hosts;
        let length = match rng.below(6) {
            0 => 0,
            1 => 1 + rng.below(100),
            2 => 1459 + rng.below(3),
            3 => 1460 * (1 + rng.below(12)),
            4 => rng.below(20_000),
            _ => rng.below(150_000),
        } as u32;
        let name = 2 * at;
        let answer = (rng.below(3) == 0).then(|| rng.below(30_000) as u32);
        let when = Instant::from_ns(rng.below(100_000));
        network.submit(when, (from, to), name, length, answer);
    }
    network
}

fn survives<M: Rival>(name: &str, queue: Queue, seeds: u64, make: impl Fn() -> M) {
    for seed in 0..seeds {
        let context = format!("{name}, seed {seed}");
        let mut network = conversation(seed, queue, &make);
        assert!(network.run(Instant::from_ns(20_000_000_000)), "{context}: it never ends");
        assert_all_delivered(&network, &context);
    }
}

#[test]
fn every_message_is_delivered_exactly_once() {
    each_transport!(|name, queue, make| {
        survives(name, queue, 1_000, make);
    });
}

/// The same over a port that holds hardly anything.
#[test]
fn every_message_is_delivered_exactly_once_through_tiny_buffers() {
    each_transport!(|name, _queue, make| {
        survives(name, Queue::Levels { limit: 6, mark: 3 }, 200, make);
        survives(name, Queue::Trim { limit: 2 }, 100, make);
        survives(name, Queue::Rank { limit: 5 }, 100, make);
    });
}

#[test]
fn a_run_repeats() {
    each_transport!(|name, queue, make| {
        let fates = |_| {
            let mut network = conversation(11, queue, make);
            network.run(Instant::from_ns(20_000_000_000));
            (network.application.fates, network.data_packets, network.now)
        };
        assert_eq!(fates(1), fates(2), "{name}");
    });
}

/// A receiver that vanishes: the sender says so, and both sides forget.
#[test]
fn a_dead_peer_is_reported_and_forgotten() {
    each_transport!(|name, queue, make| {
        for dies_us in [0, 4, 30] {
            let context = format!("{name}, dead from {dies_us} us");
            let mut network = star(3, queue, 5, make);
            let (node, from) = (Some(Node(1)), Instant::ZERO + Span::from_us(dies_us));
            network.weather.outages = vec![Outage { node, from, to: Instant::NEVER }];
            network.submit(Instant::ZERO, (0, 1), 0, 200_000, None);
            network.submit(Instant::ZERO, (1, 2), 2, 200_000, None);
            network.submit(Instant::ZERO, (0, 2), 4, 50_000, None);
            assert!(network.run(Instant::from_ns(60_000_000_000)), "{context}: it never ends");
            for (&(from, _, message), fate) in &network.application.fates {
                let touches = message != Message(4);
                let failed = fate.failed_at_sender > 0;
                assert_eq!(failed, touches, "{context}: {message:?} {fate:?}");
                assert!(!failed || fate.why == Some(Why::Silent), "{context}");
                assert!((fate.delivered > 0) != touches, "{context}: {from:?} {fate:?}");
            }
            assert_nothing_remembered(&network, &context);
        }
    });
}

/// A cancelled message ends on both sides, once, and disturbs no other.
#[test]
fn a_cancelled_message_ends_on_both_sides() {
    each_transport!(|name, queue, make| {
        for at_us in [0, 1, 5, 20, 60, 2_000] {
            let context = format!("{name}, cancelled at {at_us} us");
            let mut network = star(2, queue, 7, make);
            network.submit(Instant::ZERO, (0, 1), 0, 100_000, None);
            network.submit(Instant::ZERO, (0, 1), 2, 100_000, None);
            let cancel = Input::Cancel { message: Message(0) };
            network.tell(Instant::ZERO + Span::from_us(at_us), 0, cancel);
            assert!(network.run(Instant::from_ns(20_000_000_000)), "{context}: it never ends");
            for (&(_, _, message), fate) in &network.application.fates {
                let cancelled = fate.why == Some(Why::Cancelled);
                assert!((fate.released > 0) != cancelled, "{context}: {message:?} {fate:?}");
                assert!(message == Message(0) || !cancelled, "{context}: the wrong one");
                let ended = fate.delivered > 0 || fate.failed_at_receiver > 0;
                assert!(ended || cancelled, "{context}: {message:?} {fate:?}");
            }
            assert_nothing_remembered(&network, &context);
        }
    });
}
