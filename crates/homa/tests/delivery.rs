//! Every variant delivers everything in a network without faults.

use cavy_core::family::packet::Message;
use cavy_core::laws::packet::{Ledger, Network};
use cavy_core::{Instant, Purpose, Stream};
use cavy_homa::config::Granting;
use cavy_homa::{Config, Cutoffs, Homa};

fn variants() -> Vec<(&'static str, Config)> {
    let w3 = Cutoffs::new(8, &[469, 5521, 15267]).expect("ascending");
    let w4 = Cutoffs::none(8);
    vec![
        ("SIM", Config::simulator(w3, 4)),
        ("SIM W4", Config::simulator(w4, 7)),
        ("RC", Config::ramcloud(w3, 4)),
        ("RC one-way", Config::ramcloud(w3, 4).one_way()),
        ("LX", Config::linux()),
        ("cavy", Config::cavy(w3, 4, 10_000_000_000, 10_000)),
        ("Basic", Config::basic()),
        ("Basic one-way", Config::basic().one_way()),
        ("P4", Config::ramcloud(w3, 4).with_cutoffs(Cutoffs::new(4, &[469]).expect("one"))),
        ("P2", Config::ramcloud(w3, 4).with_cutoffs(Cutoffs::none(2))),
        ("P1", Config::ramcloud(w3, 4).with_cutoffs(Cutoffs::none(1))),
    ]
}

#[test]
fn every_variant_delivers_everything_once() {
    for (name, config) in variants() {
        const HOSTS: u32 = 6;
        let machines = (0..HOSTS).map(|_| Homa::new(&config).expect("legal")).collect();
        let mut network: Network<Homa, _> = Network::new(machines, Ledger::default(), 7);
        let mut draws = Stream::keyed(11, 0, Purpose::Test);
        let mut messages = Vec::new();
        for n in 0..400u64 {
            let from = draws.below(HOSTS.into()) as u32;
            let to = (from + 1 + draws.below(u64::from(HOSTS) - 1) as u32) % HOSTS;
            let size = match draws.below(4) {
                0 => 1 + draws.below(300) as u32,
                1 => 1 + draws.below(5_000) as u32,
                2 => 9_000 + draws.below(2_000) as u32,
                _ => 1 + draws.below(200_000) as u32,
            };
            let at = Instant::from_ns(draws.below(10_000_000));
            let asks = config.answers && draws.below(2) == 0;
            network.submit(at, (from, to), 2 * n, size, asks.then_some(size));
            messages.push((from, to, Message(2 * n), asks));
        }
        // [homa 2.15]: what is on its way to active messages never exceeds this.
        let most = match config.granting {
            Granting::Arrivals { overcommit, window_bytes, increment_bytes, .. } => {
                u64::from(overcommit) * u64::from(window_bytes + increment_bytes)
            }
            Granting::Spaced { overcommit, window_wire_bytes, .. } => {
                u64::from(overcommit) * u64::from(window_wire_bytes + config.scheduled_packet_bytes)
            }
            _ => u64::MAX,
        };
        let share = config.oldest_grants.map_or(0, |share| 3 * u64::from(share.increment_bytes));
        while network.step() {
            for node in 0..HOSTS {
                let active = network.machine(node).active_incoming_bytes();
                assert!(active <= most.saturating_add(share), "{name}: {active} B of {most}");
            }
        }
        for (from, to, message, asks) in messages {
            let fate = network.fate(from, to, message);
            assert_eq!(fate.delivered, 1, "{name}: {message:?} {fate:?}");
            assert_eq!(fate.released, 1, "{name}: {message:?}");
            assert_eq!(fate.failed_at_sender, 0, "{name}: {message:?}");
            if asks {
                assert_eq!(network.fate(to, from, message.answer()).delivered, 1, "{name}");
            }
        }
        for node in 0..HOSTS {
            let machine = network.machine(node);
            assert_eq!(machine.exchange_count(), 0, "{name}: exchanges left over");
            assert_eq!(machine.counters().malformed, 0, "{name}");
            assert_eq!(machine.incoming_bytes(), 0, "{name}");
        }
        assert_eq!(network.armed(), 0, "{name}: timers left over");
    }
}
