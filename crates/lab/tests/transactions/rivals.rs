//! The rivals: unloaded latencies, and that faults leave every run serializable.

use crate::faults;
use crate::town::{Contestant, Mix, Town, go, network, percentile};
use cavy_core::{Purpose, Span, Stream};
use cavy_lab::net::OutageKind;
use cavy_lab::wan::Jitter;
use cavy_txn::{Layout, Shard, janus, locking, slog, tapir};

fn layout() -> Layout {
    Layout::new(3, 2)
}

/// A run with little load: medians are what messages take.
fn unloaded<C: Contestant>(contestant: &C, crt_percent: u64) -> Town<C> {
    let setup = network(contestant);
    let mix = Mix {
        clients_per_shard: 1,
        crt_percent,
        two_shards_percent: 0,
        dependent_percent: 0,
        read_percent: 0,
        rows: 100_000,
        think: Span::from_ms(41),
        ..Mix::single_shard()
    };
    go(contestant, &setup, mix)
}

fn medians<C: Contestant>(contestant: &C) -> (f64, f64) {
    let town = unloaded(contestant, 30);
    assert_eq!(town.judge(), Ok(()));
    (percentile(&town.latencies(false), 50.0), percentile(&town.latencies(true), 50.0))
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.2, "{found} ms, not {expected}");
}

mod two_phase {
    use super::*;

    fn config() -> locking::Config {
        locking::Config::new(layout())
    }

    #[test]
    fn clause_0_12_unloaded_it_takes_four_hops_or_two_crossings_and_six() {
        let (irt, crt) = medians(&config());
        near(irt, 10.0);
        near(crt, 115.0);
    }

    #[test]
    fn contention_leaves_it_strictly_serializable() {
        let town = go(&config(), &network(&config()), Mix::all());
        assert_eq!(town.judge(), Ok(()));
    }

    #[test]
    fn a_fault_leaves_every_run_serializable_and_everything_ends() {
        let test = "rivals::two_phase::a_fault_leaves";
        faults::try_seeds(&config(), test, faults::seeds(20));
    }

    /// A coordinator asks for a part once more, while another node of its shard says how it ended:
    /// the part must not be prepared and written a second time.
    #[test]
    fn a_part_that_is_asked_for_after_its_end_is_not_written_again() {
        for seed in [265, 376, 926] {
            let test = "rivals::two_phase::a_fault_leaves";
            faults::try_seeds(&config(), test, seed..seed + 1);
        }
    }
}

mod janus_graphs {
    use super::*;

    fn config() -> janus::Config {
        janus::Config::new(layout())
    }

    #[test]
    fn clause_3_1_unloaded_it_takes_two_round_trips() {
        let (irt, crt) = medians(&config());
        near(irt, 10.0);
        near(crt, 200.0);
    }

    #[test]
    fn contention_leaves_it_strictly_serializable() {
        let town = go(&config(), &network(&config()), Mix::all());
        assert_eq!(town.judge(), Ok(()));
    }

    #[test]
    fn a_fault_leaves_every_run_serializable_and_everything_ends() {
        let test = "rivals::janus_graphs::a_fault_leaves";
        faults::try_seeds(&config(), test, faults::seeds(20));
    }
}

mod tapir_checks {
    use super::*;

    fn config() -> tapir::Config {
        tapir::Config::new(layout())
    }

    #[test]
    fn clause_3_2_unloaded_it_takes_two_round_trips() {
        for config in [config(), tapir::Config::artifact(layout())] {
            let (irt, crt) = medians(&config);
            near(irt, 10.0);
            near(crt, 200.0);
        }
    }

    #[test]
    fn contention_leaves_it_serializable_and_strictly_so_if_asked() {
        for strict in [false, true] {
            let config = tapir::Config { strict, ..config() };
            let town = go(&config, &network(&config), Mix::all());
            assert_eq!(town.judge(), Ok(()));
        }
    }

    #[test]
    fn a_fault_leaves_every_run_serializable_and_everything_ends() {
        let test = "rivals::tapir_checks::a_fault_leaves";
        faults::try_seeds(&config(), test, faults::seeds(20));
    }

    /// With backup coordinators, for fronts that fail.
    fn backed() -> tapir::Config {
        tapir::Config { backup_after: Some(Span::from_ms(1_500)), ..config() }
    }

    /// Fronts fail for ever, or are silent while backups take over, and replicas fail beside them:
    /// nothing stays prepared, everybody else goes on, and all that took place is serializable.
    fn fronts_fail(config: &tapir::Config, seed: u64) -> Result<(), String> {
        let layout = config.layout;
        let mut setup = network(config);
        setup.seed = seed;
        let mut draws = Stream::keyed(seed, 13, Purpose::Test);
        for link in &mut setup.links {
            let most = link.one_way.as_ns() * draws.below(100) / 100;
            link.jitter = Jitter::Even(Span::from_ns(most));
        }
        let first = draws.below(u64::from(layout.shards()));
        for (nth, front) in (0..2).map(|nth| (nth, (first + 2 * nth) % u64::from(layout.shards())))
        {
            let front = layout.front(Shard(front as u32)).0;
            let from = 400 + draws.below(1_500);
            let (until, kind) = match nth {
                0 => (0, OutageKind::Crash),
                _ => (from + 500 + draws.below(3_000), OutageKind::Freeze),
            };
            setup.faults.outages.push(faults::outage(front, from, until, kind));
            let replica = draws.below(u64::from(layout.replica_nodes())) as u32;
            let kind = [OutageKind::Crash, OutageKind::Freeze][draws.below(2) as usize];
            let back = from + 50 + draws.below(3_000);
            setup.faults.outages.push(faults::outage(replica, from, back, kind));
        }
        faults::verdict(|| go(config, &setup, Mix::all()).judge())
    }

    #[test]
    fn backups_end_what_failed_fronts_have_left() {
        let test = "rivals::tapir_checks::backups_end";
        let seeds = faults::seeds(12);
        let broken: Vec<u64> = seeds
            .filter(|seed| match fronts_fail(&backed(), *seed) {
                Ok(()) => false,
                Err(why) => {
                    println!("seed {seed}: {why}\n  again: {}", faults::again(test, *seed));
                    true
                }
            })
            .collect();
        assert!(broken.is_empty(), "{} seeds broke an oracle: {broken:?}", broken.len());
    }

    #[test]
    fn without_backups_something_stays_prepared() {
        let left = (0..4).filter(|seed| fronts_fail(&config(), *seed).is_err()).count();
        assert!(left > 0, "the faults are too weak to show it");
    }
}

mod slog_logs {
    use super::*;

    fn config() -> slog::Config {
        slog::Config::new(layout())
    }

    #[test]
    fn clause_3_3_unloaded_it_takes_what_its_logs_take() {
        // To a replica, to the sequencer, half a batch, 2 d, and back: 6 d and 2.5 ms.
        let (irt, crt) = medians(&config());
        assert!((irt - 17.5).abs() < 1.5, "{irt} ms");
        // To the orderer and a majority of orderers and to all regions, two logs, and back: from
        // the first region 4 D less, from others 5 D.
        assert!((205.0..285.0).contains(&crt), "{crt} ms");
        let near = slog::Config { orderer: slog::Orderer::FirstRegion, ..config() };
        let (_, nearer) = medians(&near);
        assert!(nearer < crt - 60.0, "{nearer} ms, not {crt}");
    }

    #[test]
    fn contention_leaves_it_serializable() {
        for config in [config(), slog::Config::artifact(layout())] {
            let town = go(&config, &network(&config), Mix::all());
            assert_eq!(town.judge(), Ok(()));
        }
    }

    #[test]
    fn a_fault_leaves_every_run_serializable_and_everything_ends() {
        let test = "rivals::slog_logs::a_fault_leaves";
        faults::try_seeds(&config(), test, faults::seeds(20));
    }
}
