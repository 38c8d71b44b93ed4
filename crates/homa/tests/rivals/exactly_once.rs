//! Whatever the network does: every message once, nothing kept.

use crate::each_transport;
use crate::network::{Faults, Network, Queue, Rival, Topology};
use cavy_core::family::packet::Message;
use cavy_core::{Instant, Purpose, Ratio, Span, Stream};
use cavy_homa::rivals::Why;

/// A random handful of messages among a few hosts, over a network that is bad in its own way.
fn conversation<M: Rival>(seed: u64, queue: Queue, make: impl Fn() -> M) -> Network<M> {
    let mut rng = Stream::keyed(seed, 1, Purpose::Test);
    let hosts = 2 + rng.below(3) as u32;
    let mut topology = Topology::ten_gigabit(hosts, queue);
    topology.faults = Faults {
        loss: Ratio { num: [0, 2, 10, 25][rng.below(4) as usize], den: 100 },
        copies: Ratio { num: [0, 5, 30][rng.below(3) as usize], den: 100 },
        lates: Ratio { num: [0, 10, 50][rng.below(3) as usize], den: 100 },
        late: Span::from_us([1, 10, 200][rng.below(3) as usize]),
    };
    let mut network = Network::new(topology, seed, true, make);
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
        if rng.below(3) == 0 {
            network.answers.insert(Message(name), rng.below(30_000) as u32);
        }
        let when = Instant::from_ns(rng.below(100_000));
        network.submit(when, from, to, name, length);
    }
    network
}

fn survives<M: Rival>(name: &str, queue: Queue, seeds: u64, make: impl Fn() -> M) {
    for seed in 0..seeds {
        let context = format!("{name}, seed {seed}");
        let mut network = conversation(seed, queue, &make);
        assert!(network.run(Instant::from_ns(20_000_000_000)), "{context}: it never ends");
        network.assert_all_delivered(&context);
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
            (network.fates, network.data_packets, network.now)
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
            let mut network = Network::new(Topology::ten_gigabit(3, queue), 5, true, make);
            let dies = Instant::ZERO + Span::from_us(dies_us);
            network.dead = Some((cavy_core::family::Node(1), dies));
            network.submit(Instant::ZERO, 0, 1, 0, 200_000);
            network.submit(Instant::ZERO, 1, 2, 2, 200_000);
            network.submit(Instant::ZERO, 0, 2, 4, 50_000);
            assert!(network.run(Instant::from_ns(60_000_000_000)), "{context}: it never ends");
            for (&(from, _, message), fate) in &network.fates {
                let touches = message != Message(4);
                let failed = fate.failed_at_sender.is_some();
                assert_eq!(failed, touches, "{context}: {message:?} {fate:?}");
                assert!(!failed || fate.failed_at_sender == Some(Why::Silent), "{context}");
                assert!(fate.delivered.is_some() != touches, "{context}: {from:?} {fate:?}");
            }
            for host in 0..3 {
                assert_eq!(network.machine(host).remembered(), 0, "{context}, host {host}");
            }
        }
    });
}

/// A cancelled message ends on both sides, once, and disturbs no other.
#[test]
fn a_cancelled_message_ends_on_both_sides() {
    each_transport!(|name, queue, make| {
        for at_us in [0, 1, 5, 20, 60, 2_000] {
            let context = format!("{name}, cancelled at {at_us} us");
            let mut network = Network::new(Topology::ten_gigabit(2, queue), 7, true, make);
            network.submit(Instant::ZERO, 0, 1, 0, 100_000);
            network.submit(Instant::ZERO, 0, 1, 2, 100_000);
            network.cancel(Instant::ZERO + Span::from_us(at_us), 0, 0);
            assert!(network.run(Instant::from_ns(20_000_000_000)), "{context}: it never ends");
            for (&(_, _, message), fate) in &network.fates {
                let cancelled = fate.failed_at_sender == Some(Why::Cancelled);
                assert!(fate.released != cancelled, "{context}: {message:?} {fate:?}");
                assert!(message == Message(0) || !cancelled, "{context}: the wrong one");
                let ended = fate.delivered.is_some() || fate.failed_at_receiver.is_some();
                assert!(ended || cancelled, "{context}: {message:?} {fate:?}");
            }
            network.assert_nothing_remembered(&context);
        }
    });
}
