//! Replays of runs that the lab made, and what the order of probes does to claims.

use super::super::anchors::quantile;
use super::super::bed::{WRONG, at_start, of_places};
use super::orders::{At, Trials, Value, order};
use super::*;
use crate::coords::study::MARKS;

/// A run that the replay itself made.
fn made(anchors: &Anchors) -> Run {
    let said: Vec<(f64, f64)> = (0..8).map(|one| anchors.said(one).degrees()).collect();
    let mut rng = Stream::keyed(3, 0, Purpose::Test);
    let trip = |number: u64| {
        let from = (number % 8) as usize;
        let to = (from + 1 + rng.below(7) as usize) % 8;
        Trip { from, to, rtt_ms: anchors.rtt_ms(from, to), at_ns: number * 1_000_000_000 }
    };
    let measured: Vec<Trip> = (0..104).map(trip).collect();
    let places = vec![at_start(&said); 2];
    let mut run = Run { said, measured, places, ..Run::default() };
    for (mark, until) in [32, 104].into_iter().enumerate() {
        run.places[mark].iter_mut().for_each(|place| place.at_ns = until * 1_000_000_000);
    }
    run.places = replayed(anchors, &run, true);
    run
}

#[test]
fn a_run_is_replayed_up_to_each_look_and_the_flagship_learns_from_it() {
    let anchors = Anchors::draw(8, 1);
    let run = made(&anchors);
    assert_eq!(replayed(&anchors, &run, true), run.places);
    assert_ne!(replayed(&anchors, &run, false), run.places);
    let start = of_places(&anchors, None, &at_start(&run.said));
    let [four, all] = [0, 1].map(|mark| of_places(&anchors, None, &run.places[mark]));
    assert!(four != all && all.1 < start.1, "{start:?} {four:?} {all:?}");
    let flagship = flagship(&anchors, &run, &[4, 13], false);
    assert!(flagship[1].0 < start.0 && flagship[0] != flagship[1], "{flagship:?} {start:?}");
}

/// How much a test tries.
fn asked(name: &str, else_: u64) -> u64 {
    #[allow(clippy::disallowed_methods)] // that is the caller's to say
    let asked = std::env::var(name).ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(else_)
}

/// What the order of probes alone does to `live.coords.flagship` and `live.coords.serf_p90`,
/// without a network: `CAVY_ORDERS=200` prints the table of docs/performance.md.
#[test]
fn in_many_orders_of_probes_the_flagship_is_not_always_below_htrae() {
    let orders = asked("CAVY_ORDERS", 12);
    let anchors = Anchors::draw(20, 1);
    let all: Vec<Vec<At>> = (0..orders).map(|seed| order(&anchors, &MARKS, seed, None)).collect();
    let show = |what: &str, ratio: Value<'_>| {
        let mut ratios: Vec<f64> = all.iter().map(|order| ratio(order)).collect();
        let below = ratios.iter().filter(|ratio| **ratio <= 1.0).count();
        let [low, middle, high] = [0.05, 0.5, 0.95].map(|share| quantile(&mut ratios, share));
        println!("{what}: {middle:.2} ({low:.2} to {high:.2}), below 1 in {below} of {orders}");
        (low, high)
    };
    for (at, mark) in MARKS.iter().enumerate() {
        let flagship = |order: &[At]| order[at].flagship.1 / order[at].htrae.1;
        show(&format!("flagship over Htrae, p90 after {mark}"), &flagship);
        let serf = |order: &[At]| order[at].htrae.1 / order[at].serf.1;
        show(&format!("Htrae over serf, p90 after {mark}"), &serf);
        let serf = |order: &[At]| order[at].htrae.0 / order[at].serf.0;
        show(&format!("Htrae over serf, p50 after {mark}"), &serf);
    }
    let worst =
        |order: &[At]| order.iter().map(|at| at.flagship.1 / at.htrae.1).fold(0.0, f64::max);
    let (low, high) = show("flagship over Htrae, p90, the worst of all marks", &worst);
    // One order of probes decides neither way.
    assert!(low < 1.0 && high > 1.0, "{low} to {high}");
}

/// `live.coords.serf_p90_in_lab` and `flagship_in_lab` accept nineteen trials in twenty, whatever
/// anchors are drawn, and no value above all of them. `CAVY_DRAWS=20 CAVY_ORDERS=100` is what
/// their reasons say.
#[test]
fn a_trial_of_the_lab_lies_among_the_others_and_one_made_longer_does_not() {
    let (draws, count) = (asked("CAVY_DRAWS", 2), asked("CAVY_ORDERS", 12));
    const REPETITIONS: usize = 3;
    let is_accepted = |share: f64| share >= 0.05;
    let thirteen = MARKS.iter().position(|mark| *mark == 13).expect("a mark");
    let ratios: [(&str, Value<'_>); 2] =
        [("serf_p90", &|order| order[thirteen].over_serf()), ("flagship", &Trials::worst)];
    let mut accepted = [0; 2];
    for seed in 1..=draws {
        let anchors = Anchors::draw(20, seed);
        // One more trial than there are: the last one takes the place of what was measured.
        let all = Trials::new(&anchors, &MARKS, count + 1, REPETITIONS);
        for (number, (name, ratio)) in ratios.iter().enumerate() {
            let mut each = all.each(ratio);
            let live = each.pop().expect("a trial");
            let share = |live: f64| Trials::share_at_least(&each, live);
            accepted[number] += u64::from(is_accepted(share(live)));
            let longest = each.iter().copied().fold(live, f64::max);
            assert!(!is_accepted(share(1.01 * longest)), "{name}, anchors {seed}");
        }
    }
    println!("accepted of {draws}: {ratios:?} {accepted:?}", ratios = ratios.map(|(name, _)| name));
    // One may be beyond all others of a few, and nearly a third of many would be no chance.
    assert!(accepted.iter().all(|count| count + 1 + 3 * draws / 10 >= draws), "{accepted:?}");
}

/// How far a wrong row is repaired after thirteen probes a node depends on who probes whom. A live
/// run is one order of probes, so `tests/coords_study.rs` holds it against the replay of that
/// order; what learning does in many orders is held here.
#[test]
fn a_wrong_row_is_repaired_in_nearly_every_order_of_probes_and_not_by_half_in_each() {
    let orders = asked("CAVY_ORDERS", 200);
    let anchors = Anchors::draw(12, 1);
    let mut said: Vec<Point> = (0..12).map(|one| anchors.said(one)).collect();
    said[WRONG] = anchors.opposite(WRONG);
    let said: Vec<(f64, f64)> = said.into_iter().map(Point::degrees).collect();
    let before = of_places(&anchors, Some(WRONG), &at_start(&said)).0;
    let after = |seed| order(&anchors, &MARKS[..3], seed, Some(WRONG))[2].htrae.0;
    let after: Vec<f64> = (0..orders).map(after).collect();
    let below = |limit: f64| after.iter().filter(|error| **error < limit).count() as u64;
    let (better, half) = (below(before), below(before / 2.0));
    println!("of {orders} orders {better} repaired the row, {half} by half");
    assert!(100 * better >= 95 * orders && 10 * half >= 7 * orders, "{better}, {half}");
    // Why no live run may be asked for a half.
    assert!(100 * half <= 90 * orders, "{half} of {orders}");
}
