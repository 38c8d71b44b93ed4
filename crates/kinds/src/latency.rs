//! What units of work took, over all replications.

use cavy_lab::statistics::histogram::Histogram;
use cavy_study::outcome::{Estimate, Quantile};
use serde::{Deserialize, Serialize};

/// Latency in milliseconds. A percentile is given, by [`Latency::percentile`], where 100 samples
/// lie beyond it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many, all replications together.
    pub samples: u64,
    /// The mean of the means of replications.
    pub mean_ms: Option<Estimate>,
    /// Median.
    pub p50_ms: Option<Quantile>,
    /// 95th percentile.
    pub p95_ms: Option<Quantile>,
    /// 99th percentile.
    pub p99_ms: Option<Quantile>,
    /// 99.9th percentile.
    pub p999_ms: Option<Quantile>,
    /// The longest.
    pub max_ms: Option<f64>,
}

impl Latency {
    /// Of the histograms of replications, nanoseconds.
    pub fn of(runs: &[&Histogram]) -> Latency {
        let mut all = Histogram::new();
        runs.iter().for_each(|run| all.merge(run));
        let at = |p: f64| {
            let pooled = all.quantile(p)? as f64 / 1e6;
            let each = runs.iter().filter_map(|run| run.quantile(p));
            let each: Vec<f64> = each.map(|ns| ns as f64 / 1e6).collect();
            Some(Quantile::new(pooled, each, all.count(), p))
        };
        let means: Vec<f64> = runs.iter().filter_map(|run| run.mean()).map(|ns| ns / 1e6).collect();
        let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
        Latency {
            samples: all.count(),
            mean_ms: (!means.is_empty()).then(|| Estimate::new(mean, means)),
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: all.max().map(|ns| ns as f64 / 1e6),
        }
    }

    /// The same, measured in so many stretches of time that know nothing of each other: a
    /// percentile rests on as many bursts as that share of them.
    pub(crate) fn in_stretches(mut self, stretches: Option<f64>) -> Latency {
        for (quantile, p) in [
            (&mut self.p50_ms, 0.5),
            (&mut self.p95_ms, 0.95),
            (&mut self.p99_ms, 0.99),
            (&mut self.p999_ms, 0.999),
        ] {
            if let Some(quantile) = quantile {
                quantile.bursts = stretches.map(|stretches| stretches * (1.0 - p));
            }
        }
        self
    }

    /// The highest percentile that is given and rests on too few bursts for its interval, and on
    /// how many.
    pub(crate) fn few_bursts(&self) -> Option<(&'static str, f64)> {
        let all = [("p99.9", &self.p999_ms), ("p99", &self.p99_ms), ("p95", &self.p95_ms)];
        let few = |quantile: &Quantile| {
            quantile.supported()?;
            quantile.few_bursts()
        };
        all.into_iter().find_map(|(name, one)| Some((name, few(one.as_ref()?)?)))
    }

    /// By the name that objectives have for it: `mean_ms`, or a percentile such as `p99_ms`.
    pub fn get(&self, metric: &str) -> Option<&Estimate> {
        let quantile = match metric {
            "mean_ms" => return self.mean_ms.as_ref(),
            "p50_ms" => &self.p50_ms,
            "p95_ms" => &self.p95_ms,
            "p99_ms" => &self.p99_ms,
            "p999_ms" => &self.p999_ms,
            _ => &None,
        };
        quantile.as_ref()?.supported()
    }

    /// A percentile, 50, 95 or 99, if enough samples lie beyond it.
    pub fn percentile(&self, percent: u32) -> Option<&Estimate> {
        self.get(&format!("p{percent}_ms"))
    }

    /// Lets percentiles of a section be given where those of the `whole` are: the value of a
    /// section is never shown, only how far sections lie apart.
    pub(crate) fn support(&mut self, whole: &Latency) {
        let own = [&mut self.p50_ms, &mut self.p95_ms, &mut self.p99_ms, &mut self.p999_ms];
        let all = [&whole.p50_ms, &whole.p95_ms, &whole.p99_ms, &whole.p999_ms];
        for (own, whole) in own.into_iter().zip(all) {
            Quantile::support(own, whole);
        }
    }
}
