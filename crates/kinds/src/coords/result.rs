//! What a point of a plan for predictors came to.

use super::plan::CoordsPlan;
use super::sketch::Sketch;
use super::worst::Worst;
use cavy_study::experiment::Experiment;
use cavy_study::outcome::{Estimate, Outcome, Quantile};
use serde::{Deserialize, Serialize};

/// A plan for predictors that was run.
pub type CoordsExperiment = Experiment<CoordsPlan>;
/// One point of it.
pub type CoordsResult = Outcome<Predicted>;

/// How wrong predictions of one sort are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Predictions, all replications together.
    pub samples: u64,
    /// Share of round trips of which nothing was said.
    pub silent_ratio: f64,
    /// Median of the absolute error, milliseconds.
    pub p50_ms: Option<Quantile>,
    /// 90th percentile.
    pub p90_ms: Option<Quantile>,
    /// 95th percentile.
    pub p95_ms: Option<Quantile>,
    /// 99th percentile.
    pub p99_ms: Option<Quantile>,
    /// Median of the error over the round trip.
    pub p50_ratio: Option<Quantile>,
    /// 90th percentile.
    pub p90_ratio: Option<Quantile>,
    /// 99th percentile.
    pub p99_ratio: Option<Quantile>,
}

impl Accuracy {
    fn support(&mut self, whole: &Accuracy) {
        Quantile::support(&mut self.p50_ms, &whole.p50_ms);
        Quantile::support(&mut self.p90_ms, &whole.p90_ms);
        Quantile::support(&mut self.p95_ms, &whole.p95_ms);
        Quantile::support(&mut self.p99_ms, &whole.p99_ms);
        Quantile::support(&mut self.p50_ratio, &whole.p50_ratio);
        Quantile::support(&mut self.p90_ratio, &whole.p90_ratio);
        Quantile::support(&mut self.p99_ratio, &whole.p99_ratio);
    }

    /// A percentile of the absolute error, 50, 90, 95 or 99, if enough samples lie beyond it.
    pub fn ms(&self, percent: u32) -> Option<&Estimate> {
        let quantile = match percent {
            50 => &self.p50_ms,
            90 => &self.p90_ms,
            95 => &self.p95_ms,
            99 => &self.p99_ms,
            _ => &None,
        };
        quantile.as_ref()?.supported()
    }

    /// A percentile of the relative error, 50, 90 or 99, if enough samples lie beyond it.
    pub fn ratio(&self, percent: u32) -> Option<&Estimate> {
        let quantile = match percent {
            50 => &self.p50_ratio,
            90 => &self.p90_ratio,
            99 => &self.p99_ratio,
            _ => &None,
        };
        quantile.as_ref()?.supported()
    }
}

/// The choice among one number of candidates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pick {
    /// Candidates.
    pub candidates: u32,
    /// Choices, all replications together.
    pub choices: u64,
    /// Share of picks that are the nearest candidate.
    pub hit_ratio: Estimate,
    /// Share of picks that are near enough.
    pub below_ratio: Estimate,
    /// How much farther than the nearest candidate the pick is, 90th percentile.
    pub penalty_p90_ms: Option<Quantile>,
    /// 95th percentile.
    pub penalty_p95_ms: Option<Quantile>,
    /// Share of choices with the nearest candidate among those that were probed.
    pub probed_hit_ratio: Estimate,
    /// How much farther than the nearest candidate the best of those probed is, 95th percentile.
    pub probed_penalty_p95_ms: Option<Quantile>,
}

/// What a predictor came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Of each probe, predicted before its round trip was revealed.
    pub before: Accuracy,
    /// Absolute errors before, at each percent from 1 to 99, milliseconds.
    pub before_cdf_ms: Vec<f64>,
    /// Of all pairs, after the last probe.
    pub after: Accuracy,
    /// Of pairs of two machines that are covered, after the last probe.
    pub covered: Accuracy,
    /// Of pairs within a system that is not very large, after the last probe.
    pub same_system: Accuracy,
    /// Probes that a machine made before all others, to landmarks.
    pub landmark_probes: u32,
    /// Picks by numbers of candidates.
    pub picks: Vec<Pick>,
    /// What the worst pairs have in common, if the plan asks.
    #[serde(default)]
    pub worst: Option<Worst>,
    /// Where nodes of the first replication ended, of predictors that think of places.
    #[serde(default)]
    pub sketch: Option<Sketch>,
}

impl Predicted {
    /// Lets percentiles of a section be given where those of the `whole` are.
    pub(super) fn support(&mut self, whole: &Predicted) {
        self.before.support(&whole.before);
        self.after.support(&whole.after);
        self.covered.support(&whole.covered);
        self.same_system.support(&whole.same_system);
        for (pick, whole) in self.picks.iter_mut().zip(&whole.picks) {
            Quantile::support(&mut pick.penalty_p90_ms, &whole.penalty_p90_ms);
            Quantile::support(&mut pick.penalty_p95_ms, &whole.penalty_p95_ms);
            Quantile::support(&mut pick.probed_penalty_p95_ms, &whole.probed_penalty_p95_ms);
        }
    }

    /// The choice among `candidates`.
    pub fn pick(&self, candidates: u32) -> Option<&Pick> {
        self.picks.iter().find(|pick| pick.candidates == candidates)
    }
}
