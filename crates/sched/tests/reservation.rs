//! The reservation against the vectors of [persephone 2.14], and its invariants.

use cavy_core::family::cpu::{Kind, Worker};
use cavy_sched::darc::reservation::{Demand, Table, round_demand};
use proptest::prelude::*;

const DELTA: f64 = 0.2;

fn demands(types: &[(f64, f64)]) -> Vec<Demand> {
    let of = |(index, &(mean_us, ratio)): (usize, &(f64, f64))| Demand {
        kind: Kind(index as u16 + 1),
        order_ns: mean_us * 1e3,
        hold_ns: mean_us * 1e3,
        ratio,
    };
    types.iter().enumerate().map(of).collect()
}

fn reserve(types: &[(f64, f64)], workers: u16) -> Table {
    Table::reserve(&mut demands(types), DELTA, workers)
}

const HIGH_BIMODAL: &[(f64, f64)] = &[(1.0, 0.5), (100.0, 0.5)];
const EXTREME_BIMODAL: &[(f64, f64)] = &[(0.5, 0.995), (500.0, 0.005)];
const TPC_C: &[(f64, f64)] = &[(5.7, 0.44), (6.0, 0.04), (20.0, 0.44), (88.0, 0.04), (100.0, 0.04)];
const ROCKSDB: &[(f64, f64)] = &[(1.5, 0.5), (635.0, 0.5)];
const RARE_LONG: &[(f64, f64)] = &[(1.0, 0.95), (100.0, 0.05)];
const ONE_TYPE: &[(f64, f64)] = &[(3.5, 1.0)];

#[test]
fn clause_2_14_vectors() {
    type Row<'a> = (&'a [(f64, f64)], [&'a str; 5]);
    let expected: &[Row<'_>] = &[
        (HIGH_BIMODAL, ["1/13+S", "1/15+S", "1/7+S", "1/3+S", "1/1+S"]),
        (EXTREME_BIMODAL, ["2/12", "3/13", "1/7", "1/3", "1/1+S"]),
        (TPC_C, ["2/6/6", "2/7/6, 1 free", "1/4/3", "1/2/1+S", "1/1/0+S"]),
        (ROCKSDB, ["1/13+S", "1/15+S", "1/7+S", "1/3+S", "1/1+S"]),
        (RARE_LONG, ["2/12", "3/13", "1/7", "1/3", "1/1+S"]),
        (ONE_TYPE, ["14", "16", "8", "4", "2"]),
    ];
    for (types, tables) in expected {
        for (workers, table) in [14, 16, 8, 4, 2].into_iter().zip(tables) {
            assert_eq!(reserve(types, workers).to_string(), *table, "{types:?} on {workers}");
        }
    }
}

#[test]
fn clause_2_14_demands() {
    let shares = |types, workers| {
        let table = reserve(types, workers);
        table.groups.iter().map(|group| group.demand).collect::<Vec<_>>()
    };
    let close = |found: Vec<f64>, expected: &[f64]| {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 6e-5, "{a} against {b}");
        }
    };
    close(shares(HIGH_BIMODAL, 14), &[0.1386, 13.8614]);
    close(shares(EXTREME_BIMODAL, 16), &[2.6555, 13.3445]);
    close(shares(TPC_C, 14), &[2.0176, 6.4611, 5.5213]);
    close(shares(RARE_LONG, 8), &[1.2773, 6.7227]);
}

#[test]
fn clause_2_8_the_spillway_is_the_last_worker() {
    // D3: the artifact's public branch made it worker 0, which undoes the protection of shorts.
    let table = reserve(HIGH_BIMODAL, 14);
    let long = &table.groups[1];
    assert!(long.reserved.contains(Worker(13)) && !long.reserved.contains(Worker(0)));
    assert_eq!(Table::spillway(14), Worker(13));
}

#[test]
fn clause_2_8_types_are_compared_with_the_leader() {
    // 1.0, 1.19 and 1.38 us: each within 20 % of its neighbor, the last not of the first.
    let table = reserve(&[(1.0, 0.3), (1.19, 0.3), (1.38, 0.4)], 8);
    assert_eq!(table.groups.len(), 2);
    assert_eq!(table.groups[0].members, [Kind(1), Kind(2)]);
}

#[test]
fn clause_2_8_vanished_types_keep_one_worker_or_the_spillway() {
    let mut with_room = demands(&[(1.0, 0.4), (1.05, 0.6), (1e6, 0.0)]);
    // Demands 14 leave no worker: the vanished type falls back on the spillway.
    assert_eq!(Table::reserve(&mut with_room, DELTA, 14).to_string(), "14/0+S");
    let mut phase_3 = demands(&[(1.0, 0.95), (100.0, 0.05), (1e6, 0.0)]);
    let table = Table::reserve(&mut phase_3, DELTA, 14);
    assert_eq!(table.to_string(), "2/12/0+S");
    assert!(table.groups[2].reserved.contains(Worker(13)));
}

#[test]
fn clause_2_8_one_worker_degenerates_to_fixed_priority() {
    let table = reserve(HIGH_BIMODAL, 1);
    assert_eq!(table.to_string(), "1/0+S");
    assert!(table.groups.iter().all(|group| group.reserved.contains(Worker(0))));
}

#[test]
fn clause_2_8_rounding() {
    for (demand, workers) in
        [(0.0, 1), (0.3, 1), (1.0, 1), (1.5, 1), (1.51, 2), (2.5, 2), (13.0, 13)]
    {
        assert_eq!(round_demand(demand), workers, "{demand}");
    }
}

proptest! {
    /// [persephone I6, I7, I8, I10]: reachable, within N, pure, and blind to type numbers.
    #[test]
    fn reservations_keep_their_invariants(
        types in prop::collection::vec((0.1..1e4f64, 0.0..1.0f64), 1..12),
        workers in 1u16..64,
        rotate in 0usize..12,
    ) {
        let total: f64 = types.iter().map(|t| t.1).sum();
        prop_assume!(total > 1e-3);
        let types: Vec<_> = types.iter().map(|t| (t.0, t.1 / total)).collect();
        let table = reserve(&types, workers);
        table.check();
        prop_assert_eq!(&table, &reserve(&types, workers));

        let shift = rotate % types.len();
        let mut rotated = types.clone();
        rotated.rotate_left(shift);
        let other = reserve(&rotated, workers);
        let own =
            |table: &Table| table.groups.iter().map(|g| (g.own, g.spills)).collect::<Vec<_>>();
        prop_assert_eq!(own(&table), own(&other));
    }

    /// [persephone I11]: only ratios of times matter.
    #[test]
    fn reservations_do_not_depend_on_the_unit_of_time(
        types in prop::collection::vec((0.1..1e4f64, 0.01..1.0f64), 1..8),
        workers in 1u16..32,
    ) {
        let total: f64 = types.iter().map(|t| t.1).sum();
        let types: Vec<_> = types.iter().map(|t| (t.0, t.1 / total)).collect();
        let scaled: Vec<_> = types.iter().map(|t| (t.0 * 1024.0, t.1)).collect();
        prop_assert_eq!(
            reserve(&types, workers).to_string(),
            reserve(&scaled, workers).to_string()
        );
    }
}
