//! DAST in the wide-area world: closed forms, failures, and that every run is serializable.

use crate::faults;
use crate::town::{Mix, go, network, percentile};
use cavy_txn::Layout;
use cavy_txn::dast::{Config, Mode};

fn config(mode: Mode) -> Config {
    Config::new(Layout::new(3, 2), mode)
}

#[test]
fn a_quiet_run_is_serializable_in_precise_and_paper_mode() {
    for mode in [Mode::Precise, Mode::Paper] {
        let config = config(mode);
        let mut setup = network(&config);
        setup.check = true;
        let town = go(&config, &setup, Mix::all());
        let (irt, crt) = (town.latencies(false), town.latencies(true));
        // 4D + 4d, then the last of the clocks, and 2d for the decision's log: 221.9 ms.
        let median = percentile(&crt, 50.0);
        if mode == Mode::Precise {
            assert!((220.5..224.0).contains(&median), "CRT p50 {median}");
        }
        // Nothing waits for a region's values there but clocks, so IRTs see them less.
        let median = percentile(&irt, 50.0);
        assert!((10.0..14.0).contains(&median), "IRT p50 {median}");
        assert_eq!(town.judge(), Ok(()));
    }
}

/// Single-shard IRTs under free arrivals `[dast 0.2]`: P(L <= l) = ((l - 3d) / sync)^(3 (S - 1))
/// from 4d on. Think time breaks the lock of closed loops with the reports.
#[test]
fn closed_form_of_single_shard_irts() {
    for shards in [2, 4] {
        let config = Config::new(Layout::new(1, shards), Mode::Precise);
        let mut setup = network(&config);
        setup.duration = cavy_core::Span::from_ms(20_000);
        let think = cavy_core::Span::from_ms(41);
        let town = go(&config, &setup, Mix { think, clients_per_shard: 3, ..Mix::single_shard() });
        let all = town.latencies(false);
        assert!(all.len() > 2_000, "{}", all.len());
        for percent in [25.0f64, 50.0, 75.0, 90.0] {
            let exponent = f64::from(3 * (shards - 1));
            let expected = (7.5 + 5.0 * (percent / 100.0).powf(1.0 / exponent)).max(10.0);
            let found = percentile(&all, percent);
            assert!(
                (found - expected).abs() < 0.3,
                "S = {shards}, p{percent}: {found}, {expected}"
            );
        }
    }
}

#[test]
fn a_fault_leaves_every_run_serializable_and_everything_ends() {
    let test = "dast::a_fault_leaves_every_run_serializable";
    faults::try_seeds(&config(Mode::Precise), test, faults::seeds(30));
}
