//! What a point came to: the part that is the same whatever was simulated.

use crate::objective::{Percentile, Quantity};
use cavy_lab::statistics::{Interval, quantile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Deref;

/// Does a system keep up with what it is offered?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It does.
    Stable,
    /// It does not: queues grow without end, or too much is lost.
    Unstable,
    /// The run is too short to tell.
    TooShort,
}

/// The result of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome<D> {
    /// The point's key.
    pub key: String,
    /// The variant of the plan.
    pub variant: String,
    /// Label of what was run: a policy, a transport.
    pub label: String,
    /// Swept keys and their values.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Value of the axis that can be searched, such as the load; `None` where there is none.
    pub at: Option<f64>,
    /// Units of work a second: offered, or for closed clients achieved.
    pub rate_per_s: Option<f64>,
    /// Does it keep up?
    pub standing: Standing,
    /// Why it does not, or why that cannot be told.
    pub note: String,
    /// Why what was run is not yet what its label says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unformed: Option<String>,
    /// Replications.
    pub replications: u32,
    /// Units of work simulated, warm-up included, all replications together.
    pub work: u64,
    /// Under `run.precision_ratio`, the value that needed the most replications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_to_converge: Option<String>,
    /// Fingerprint of all replications, hex.
    pub digest: String,
    /// What each section of the runs says alone, in the same order for all contestants, for each
    /// way to cut the runs up: of a point whose claims are judged. Empty otherwise.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<Vec<D>>,
    /// What only this kind has.
    #[serde(flatten)]
    pub data: D,
}

/// What only a kind's outcomes have is read like what all have.
impl<D> Deref for Outcome<D> {
    type Target = D;
    fn deref(&self) -> &D {
        &self.data
    }
}

impl<D> Outcome<D> {
    /// Does it keep up, as far as can be told?
    pub fn stable(&self) -> bool {
        self.standing == Standing::Stable
    }

    /// The searched axis, which is the load in most kinds; zero where there is none.
    pub fn load(&self) -> f64 {
        self.at.unwrap_or(0.0)
    }

    /// The value of a swept key, where it is a number.
    pub fn setting(&self, key: &str) -> Option<f64> {
        self.settings.get(key)?.as_f64()
    }

    /// This outcome as one of its sections has it; whether it keeps up is said by all together.
    pub fn section(&self, way: usize, index: usize) -> Option<Outcome<D>>
    where
        D: Clone,
    {
        Some(Outcome {
            key: self.key.clone(),
            variant: self.variant.clone(),
            label: self.label.clone(),
            settings: self.settings.clone(),
            note: self.note.clone(),
            unformed: self.unformed.clone(),
            last_to_converge: None,
            digest: self.digest.clone(),
            sections: Vec::new(),
            data: self.sections.get(way)?.get(index)?.clone(),
            ..*self
        })
    }

    /// The fingerprint as a number.
    pub fn digest_value(&self) -> u64 {
        u64::from_str_radix(&self.digest, 16).unwrap_or(0)
    }
}

/// A value over replications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// From the pooled samples of all replications.
    pub value: f64,
    /// Lower end of the 95 % interval, by sectioning.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Median over replications.
    pub median: f64,
    /// Each replication's own value, in order.
    pub replications: Vec<f64>,
}

impl Estimate {
    /// From the pooled value and each replication's own.
    pub fn new(pooled: f64, replications: Vec<f64>) -> Self {
        let interval = quantile::sectioned(&replications, pooled);
        let (mut low, high) = interval.map_or((pooled, pooled), |i| (i.low, i.high));
        // A time cannot be negative, whatever the spread of a few replications says.
        if pooled >= 0.0 && replications.iter().all(|&value| value >= 0.0) {
            low = low.max(0.0);
        }
        let median = quantile::median(replications.iter().copied()).unwrap_or(pooled);
        Estimate { value: pooled, low, high, median, replications }
    }

    /// Its value with its interval.
    pub fn interval(&self) -> Interval {
        Interval { estimate: self.value, low: self.low, high: self.high }
    }

    /// Smallest replication.
    pub fn min(&self) -> f64 {
        self.replications.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Largest replication.
    pub fn max(&self) -> f64 {
        self.replications.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// A percentile over all replications together, with the spread over them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// Pooled value, its interval, and each replication's own.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Samples beyond it, all replications together.
    pub beyond: u64,
    /// About how many bursts of waiting decide it, where a kind can tell: samples beyond come in
    /// bursts, and few of these say less than their number of samples promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<f64>,
}

/// With fewer bursts an interval holds the truth less often than it says; measured on M/M/7 at
/// loads of 0.9 and 0.95 (see `docs/concepts/how-sure.md`).
pub const BURSTS_MIN: f64 = 30.0;

impl Quantile {
    /// The `p`-quantile of `count` samples: of all together, and of each replication.
    pub fn new(pooled: f64, replications: Vec<f64>, count: u64, p: f64) -> Self {
        let estimate = Estimate::new(pooled, replications);
        Quantile { estimate, beyond: quantile::beyond(count, p), bursts: None }
    }

    /// The number of bursts that decide it, where they are too few for its interval.
    pub fn few_bursts(&self) -> Option<f64> {
        self.bursts.filter(|&bursts| bursts < BURSTS_MIN)
    }

    /// Gives the percentile of a section the support of that of the `whole`.
    pub fn support(section: &mut Option<Quantile>, whole: &Option<Quantile>) {
        if let (Some(section), Some(whole)) = (section, whole) {
            section.beyond = whole.beyond;
        }
    }

    /// The estimate, if enough samples lie beyond it to know it.
    pub fn supported(&self) -> Option<&Estimate> {
        (self.beyond >= quantile::BEYOND_MIN).then_some(&self.estimate)
    }
}

/// What some requests or messages experienced. `None` where there are none; ask
/// [`Quantile::supported`] whether there were enough.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples after warm-up, all replications together.
    pub samples: u64,
    /// Mean latency, microseconds.
    pub mean_us: Option<Estimate>,
    /// Mean of what of it was waiting, microseconds, where a kind tells it apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_wait_us: Option<Estimate>,
    /// Median latency, microseconds.
    pub p50_us: Option<Quantile>,
    /// 90th percentile latency, microseconds.
    #[serde(default)]
    pub p90_us: Option<Quantile>,
    /// 95th percentile latency, microseconds.
    #[serde(default)]
    pub p95_us: Option<Quantile>,
    /// 99th percentile latency, microseconds.
    pub p99_us: Option<Quantile>,
    /// 99.9th percentile latency, microseconds.
    pub p999_us: Option<Quantile>,
    /// 99.99th percentile latency, microseconds.
    #[serde(default)]
    pub p9999_us: Option<Quantile>,
    /// Median slowdown.
    pub p50_slowdown: Option<Quantile>,
    /// 90th percentile slowdown.
    #[serde(default)]
    pub p90_slowdown: Option<Quantile>,
    /// 95th percentile slowdown.
    #[serde(default)]
    pub p95_slowdown: Option<Quantile>,
    /// 99th percentile slowdown.
    pub p99_slowdown: Option<Quantile>,
    /// 99.9th percentile slowdown.
    pub p999_slowdown: Option<Quantile>,
    /// 99.99th percentile slowdown.
    #[serde(default)]
    pub p9999_slowdown: Option<Quantile>,
}

impl Summary {
    /// Of samples, means, and each percentile that `of` gives.
    pub fn new(
        samples: u64,
        mean_us: Option<Estimate>,
        mean_wait_us: Option<Estimate>,
        of: impl Fn(Percentile, Quantity) -> Option<Quantile>,
    ) -> Self {
        let mut summary = Summary { samples, mean_us, mean_wait_us, ..Summary::default() };
        for percentile in Percentile::ALL {
            for quantity in [Quantity::Us, Quantity::Slowdown] {
                *summary.slot(percentile, quantity) = of(percentile, quantity);
            }
        }
        summary
    }

    fn slot(&mut self, percentile: Percentile, quantity: Quantity) -> &mut Option<Quantile> {
        match (percentile, quantity) {
            (Percentile::P50, Quantity::Us) => &mut self.p50_us,
            (Percentile::P90, Quantity::Us) => &mut self.p90_us,
            (Percentile::P95, Quantity::Us) => &mut self.p95_us,
            (Percentile::P99, Quantity::Us) => &mut self.p99_us,
            (Percentile::P999, Quantity::Us) => &mut self.p999_us,
            (Percentile::P9999, Quantity::Us) => &mut self.p9999_us,
            (Percentile::P50, Quantity::Slowdown) => &mut self.p50_slowdown,
            (Percentile::P90, Quantity::Slowdown) => &mut self.p90_slowdown,
            (Percentile::P95, Quantity::Slowdown) => &mut self.p95_slowdown,
            (Percentile::P99, Quantity::Slowdown) => &mut self.p99_slowdown,
            (Percentile::P999, Quantity::Slowdown) => &mut self.p999_slowdown,
            (Percentile::P9999, Quantity::Slowdown) => &mut self.p9999_slowdown,
        }
    }

    /// One of the percentiles, with or without support.
    pub fn quantile(&self, percentile: Percentile, quantity: Quantity) -> Option<&Quantile> {
        match (percentile, quantity) {
            (Percentile::P50, Quantity::Us) => self.p50_us.as_ref(),
            (Percentile::P90, Quantity::Us) => self.p90_us.as_ref(),
            (Percentile::P95, Quantity::Us) => self.p95_us.as_ref(),
            (Percentile::P99, Quantity::Us) => self.p99_us.as_ref(),
            (Percentile::P999, Quantity::Us) => self.p999_us.as_ref(),
            (Percentile::P9999, Quantity::Us) => self.p9999_us.as_ref(),
            (Percentile::P50, Quantity::Slowdown) => self.p50_slowdown.as_ref(),
            (Percentile::P90, Quantity::Slowdown) => self.p90_slowdown.as_ref(),
            (Percentile::P95, Quantity::Slowdown) => self.p95_slowdown.as_ref(),
            (Percentile::P99, Quantity::Slowdown) => self.p99_slowdown.as_ref(),
            (Percentile::P999, Quantity::Slowdown) => self.p999_slowdown.as_ref(),
            (Percentile::P9999, Quantity::Slowdown) => self.p9999_slowdown.as_ref(),
        }
    }

    /// One of the percentiles, if it is supported.
    pub fn get(&self, percentile: Percentile, quantity: Quantity) -> Option<&Estimate> {
        self.quantile(percentile, quantity)?.supported()
    }

    /// Lets percentiles of a section be given where those of the `whole` are: the value of a
    /// section is never shown, only how far sections lie apart.
    pub fn support(&mut self, whole: &Summary) {
        for percentile in Percentile::ALL {
            for quantity in [Quantity::Us, Quantity::Slowdown] {
                let beyond = whole.quantile(percentile, quantity).map(|whole| whole.beyond);
                if let (Some(own), Some(beyond)) = (self.slot(percentile, quantity), beyond) {
                    own.beyond = beyond;
                }
            }
        }
    }

    /// The percentiles of a quantity by their titles, the farthest out first, as rankings compare
    /// them.
    pub fn tails(&self, quantity: Quantity) -> Vec<(&'static str, Option<&Estimate>)> {
        let of = |p: Percentile| (p.title(), self.get(p, quantity));
        Percentile::MAIN.into_iter().rev().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 14, B8: -807.8 to 3,096 us was printed of a few replications far apart.
    #[test]
    fn the_interval_of_a_time_is_never_below_zero() {
        let each = vec![100.0, 120.0, 90.0, 4_000.0];
        let estimate = Estimate::new(1_144.0, each);
        assert_eq!(estimate.low, 0.0);
        assert!(estimate.high > 4_000.0, "it is as wide as it was: {}", estimate.high);
        let quantile = Quantile::new(1_144.0, vec![100.0, 4_000.0], 1_000_000, 0.999);
        assert_eq!(quantile.estimate.low, 0.0);
        // What may be negative keeps its interval.
        assert!(Estimate::new(0.1, vec![-1.0, 1.2]).low < -1.0);
    }
}
