//! Replays of runs that the lab made, and what the order of probes does to claims.

use super::super::anchors::quantile;
use super::super::bed::{at_start, of_places};
use super::*;
use cavy_coords::predictors::serf::Serf;
use cavy_coords::predictors::{Learner, Predictor};
use cavy_core::Span;

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

/// Percentiles 50 and 90 at a mark.
#[derive(Clone, Copy)]
struct At {
    htrae: (f64, f64),
    flagship: (f64, f64),
    serf: (f64, f64),
}

/// Everybody probes in turn as agents choose: anybody half of the time, the nearest by its own
/// coordinates and one measured lately a quarter each. Htrae learns at both ends, the flagship
/// is told the same, and serf's model probes anybody as often.
fn order(anchors: &Anchors, marks: &[u64], seed: u64) -> Vec<At> {
    let said = (0..anchors.count()).map(|one| anchors.said(one).degrees()).collect();
    let mut run = Run { said, ..Run::default() };
    let globe = Globe::new(Config::default(), known(&run)).in_whole_numbers();
    let mut htrae = Learner::new(globe).symmetric(true);
    let mut serf = Learner::new(Serf::new(anchors.count() as u32));
    let mut rng = Stream::keyed(seed, 0, Purpose::Destinations);
    let mut draws = Stream::keyed(seed, 0, Purpose::Machine);
    let count = anchors.count();
    let (mut now, mut all) = (Instant::ZERO, Vec::new());
    let errors = |of: &dyn Predictor, now: Instant| {
        let said = |a: usize, b: usize| of.predict_ms(a as u32, b as u32, now).unwrap_or(0.0);
        anchors.errors(None, said)
    };
    for round in 1..=marks.last().copied().unwrap_or(0) {
        for from in 0..count {
            now += Span::from_ms(15);
            let mut any = || (from + 1 + rng.below(count as u64 - 1) as usize) % count;
            let (one, two) = (any(), any());
            let ms = |to: usize| htrae.predict_ms(from as u32, to as u32, now).unwrap_or(0.0);
            let known = run.measured.iter().filter(|one| one.from == from).map(|one| one.to);
            let known: Vec<usize> = known.collect();
            let to = match rng.below(4) {
                0 => {
                    let others = (0..count).filter(|to| *to != from);
                    others.min_by(|a, b| ms(*a).total_cmp(&ms(*b))).unwrap_or(one)
                }
                1 => known.get(one % known.len().max(1)).copied().unwrap_or(one),
                _ => one,
            };
            let probe = |to: usize| {
                let rtt_ms = anchors.rtt_ms(from, to);
                Probe { from: from as u32, to: to as u32, rtt_ms, at: now }
            };
            let (rtt_ms, at_ns) = (anchors.rtt_ms(from, to), now.as_ns());
            run.measured.push(Trip { from, to, rtt_ms, at_ns });
            htrae.learn(&probe(to), &mut draws);
            serf.learn(&probe(two), &mut draws);
        }
        if marks.contains(&round) {
            all.push((errors(&htrae, now), errors(&serf, now)));
        }
    }
    let flagship = flagship(anchors, &run, marks, false);
    let at = |((htrae, serf), flagship)| At { htrae, flagship, serf };
    all.into_iter().zip(flagship).map(at).collect()
}

/// What the order of probes alone does to `live.coords.flagship` and `live.coords.serf_p90`,
/// without a network: `CAVY_ORDERS=200` prints the table of docs/performance.md.
#[test]
fn in_many_orders_of_probes_the_flagship_is_not_always_below_htrae() {
    #[allow(clippy::disallowed_methods)] // how much a test tries is the caller's to say
    let asked = std::env::var("CAVY_ORDERS").ok().and_then(|orders| orders.parse().ok());
    let orders: u64 = asked.unwrap_or(12);
    let marks = [4, 8, 13, 32];
    let anchors = Anchors::draw(20, 1);
    let all: Vec<Vec<At>> = (0..orders).map(|seed| order(&anchors, &marks, seed)).collect();
    let show = |what: &str, ratio: &dyn Fn(&[At]) -> f64| {
        let mut ratios: Vec<f64> = all.iter().map(|order| ratio(order)).collect();
        let below = ratios.iter().filter(|ratio| **ratio <= 1.0).count();
        let [low, middle, high] = [0.05, 0.5, 0.95].map(|share| quantile(&mut ratios, share));
        println!("{what}: {middle:.2} ({low:.2} to {high:.2}), below 1 in {below} of {orders}");
        (low, high)
    };
    for (at, mark) in marks.iter().enumerate() {
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
