//! The rivals: unloaded latencies, and that faults leave every run serializable.

use crate::faults;
use crate::town::{Contestant, Mix, Town, go, network, percentile};
use cavy_core::Span;
use cavy_txn::{Layout, locking};

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
}
