//! What the order of probes alone does to errors: the same anchors and distances, no network, and
//! another order in each run. What was measured live is held against it, so that a miss that comes
//! of the order of probes is told from one that comes of the network or of the agents.

use super::super::anchors::Anchors;
use super::super::bed::{Run, Trip};
use super::super::show::over;
use super::{flagship, known};
use cavy_coords::Config;
use cavy_coords::predictors::globe::Globe;
use cavy_coords::predictors::serf::Serf;
use cavy_coords::predictors::{Learner, Predictor, Probe};
use cavy_core::{Instant, Purpose, Span, Stream};

/// A value of an order of probes, from what stands at each mark.
pub type Value<'a> = &'a dyn Fn(&[At]) -> f64;

/// Percentiles 50 and 90 at a mark.
#[derive(Clone, Copy)]
pub struct At {
    /// Agents whose both ends learn.
    pub htrae: (f64, f64),
    /// The flagship, told the same.
    pub flagship: (f64, f64),
    /// serf's model.
    pub serf: (f64, f64),
}

impl At {
    /// Htrae's 90th percentile over that of serf.
    pub fn over_serf(&self) -> f64 {
        self.htrae.1 / self.serf.1
    }
}

/// Everybody probes in turn as agents choose: anybody half of the time, the nearest by its own
/// coordinates and one measured lately a quarter each. Htrae learns at both ends, the flagship
/// is told the same, and serf's model probes anybody as often. If the row of one anchor is
/// `wrong`, Htrae's and serf's errors are those of its pairs.
pub fn order(anchors: &Anchors, marks: &[u64], seed: u64, wrong: Option<usize>) -> Vec<At> {
    let said = |one| match wrong == Some(one) {
        true => anchors.opposite(one).degrees(),
        false => anchors.said(one).degrees(),
    };
    let mut run = Run { said: (0..anchors.count()).map(said).collect(), ..Run::default() };
    let globe = Globe::new(Config::default(), known(&run)).in_whole_numbers();
    let mut htrae = Learner::new(globe).symmetric(true);
    let mut serf = Learner::new(Serf::new(anchors.count() as u32));
    let mut rng = Stream::keyed(seed, 0, Purpose::Destinations);
    let mut draws = Stream::keyed(seed, 0, Purpose::Machine);
    let count = anchors.count();
    let (mut now, mut all) = (Instant::ZERO, Vec::new());
    let errors = |of: &dyn Predictor, now: Instant| {
        let said = |a: usize, b: usize| of.predict_ms(a as u32, b as u32, now).unwrap_or(0.0);
        anchors.errors(wrong, said)
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

/// Runs in the lab, as many orders in each as a study has repetitions.
pub struct Trials {
    repetitions: usize,
    /// By order and mark.
    orders: Vec<Vec<At>>,
}

impl Trials {
    /// So many trials on these anchors.
    pub fn new(anchors: &Anchors, marks: &[u64], trials: u64, repetitions: usize) -> Trials {
        let repetitions = repetitions.max(1);
        let orders = 0..trials * repetitions as u64;
        Trials {
            repetitions,
            orders: orders.map(|seed| order(anchors, marks, seed, None)).collect(),
        }
    }

    /// The flagship's 90th percentile over Htrae's, the worst of all marks.
    pub fn worst(order: &[At]) -> f64 {
        order.iter().map(|at| at.flagship.1 / at.htrae.1).fold(0.0, f64::max)
    }

    /// What a study would say of each trial: the median over its orders.
    pub fn each(&self, ratio: Value<'_>) -> Vec<f64> {
        let trials = self.orders.chunks(self.repetitions);
        trials
            .filter_map(|trial| over(trial.iter().map(|order| ratio(order))))
            .map(|o| o.median)
            .collect()
    }

    /// The share of trials that come out at least as high as `live`.
    pub fn share_at_least(each: &[f64], live: f64) -> f64 {
        each.iter().filter(|one| **one >= live).count() as f64 / each.len().max(1) as f64
    }
}
