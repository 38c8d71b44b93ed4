//! How far measured round trips lie from predicted ones: what a p90 is made of.

use serde::{Deserialize, Serialize};

/// Buckets of a doubling.
const PER_DOUBLING: f64 = 12.0;
/// Ratios from 1/8 to 8.
const DOUBLINGS: f64 = 3.0;
const BUCKETS: usize = 72;
/// Below so many measurements a share of them says nothing.
const COUNT_MIN: u64 = 30;
/// The p90 over the prediction where nothing was measured: what it was over all pairs of RIPE's
/// anchors by position alone, rounded up.
pub const UNTRAINED: f64 = 1.6;

/// Counts of measured over predicted round trips.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Ratios {
    counts: Vec<u64>,
    total: u64,
}

impl Ratios {
    /// Counts one.
    pub fn add(&mut self, ratio: f64) {
        if !(ratio > 0.0 && ratio.is_finite()) {
            return;
        }
        let place = (libm::log2(ratio) + DOUBLINGS) * PER_DOUBLING;
        let place = place.clamp(0.0, BUCKETS as f64 - 1.0) as usize;
        self.counts.resize(BUCKETS, 0);
        self.counts[place] += 1;
        self.total += 1;
        // Old ones fade: what networks were like last month says little.
        if self.total > 100_000 {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    /// The ratio below which nine tenths lie, to the edge of a bucket; `None` of too few.
    pub fn p90(&self) -> Option<f64> {
        if self.total < COUNT_MIN {
            return None;
        }
        let mut left = (self.total * 9).div_ceil(10);
        let place = self.counts.iter().position(|count| {
            left = left.saturating_sub(*count);
            left == 0
        })?;
        Some(libm::exp2((place as f64 + 1.0) / PER_DOUBLING - DOUBLINGS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_tenths_lie_below_to_the_edge_of_a_bucket() {
        let mut ratios = Ratios::default();
        (0..29).for_each(|_| ratios.add(1.0));
        assert_eq!(ratios.p90(), None);
        let mut ratios = Ratios::default();
        (1..=1_000).for_each(|n| ratios.add(f64::from(n) / 500.0));
        let p90 = ratios.p90().expect("enough");
        assert!((1.8..1.8 * 1.06).contains(&p90), "{p90}");
        for strange in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            ratios.add(strange);
        }
        assert_eq!(ratios.total, 1_000);
    }
}
