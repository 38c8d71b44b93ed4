//! What sub-queries take: a fixed part and one in proportion to the ids scanned `[roar 2.4]`.

use crate::ring::WHOLE;
use cavy_core::Span;

/// What a server takes for sub-queries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cost {
    /// For any sub-query, however small, in nanoseconds: c0. It is not divided by speed
    /// `[roar 0.10]`.
    pub fixed_ns: u64,
    /// For scanning all objects, in nanoseconds: c1 D.
    pub scan_ns: u64,
}

impl Cost {
    /// For scanning `width` ids of the ring.
    #[inline]
    pub fn scanning(self, width: u128) -> u64 {
        // Up to 2^64 ids of 2^64 ns; a longer scan than 2^63 ns is no use to anybody.
        match u64::try_from(width) {
            Ok(ids) => ((u128::from(self.scan_ns) * u128::from(ids)) >> 64) as u64,
            Err(_) => self.scan_ns,
        }
    }

    /// For one sub-query over `width` ids.
    #[inline]
    pub fn of(self, width: u128) -> u64 {
        self.fixed_ns + self.scanning(width)
    }
}

/// What a scheduler knows, or believes, of one server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Load {
    /// From now until it could begin something new, in nanoseconds.
    pub free_ns: u64,
    /// What it takes.
    pub cost: Cost,
}

impl Load {
    /// From now until one sub-query over `width` ids would be done.
    #[inline]
    pub fn finish(&self, width: u128) -> u64 {
        self.free_ns + self.cost.of(width)
    }
}

/// Learns what a server takes from what it took: least squares that forget `[roar 2.4]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimator {
    class: Cost,
    samples: u32,
    /// Sums over samples, each weighed less the older it is: 1, x, x^2, y, xy, where x is a share
    /// of the ring and y nanoseconds.
    sums: [f64; 5],
    /// Mean absolute miss of a prediction, forgetting likewise.
    miss_ns: f64,
}

/// How much of a sample is left when the next one comes.
const KEPT: f64 = 0.98;
/// Samples before the estimate is believed and not the class.
const ENOUGH: u32 = 20;

impl Estimator {
    /// Believes `class` until it knows better.
    pub fn new(class: Cost) -> Estimator {
        Estimator { class, samples: 0, sums: [0.0; 5], miss_ns: 0.0 }
    }

    /// A sub-query over `width` ids took `took` of a processor.
    pub fn learn(&mut self, width: u128, took: Span) {
        let (x, y) = (width as f64 / WHOLE as f64, took.as_ns() as f64);
        let miss = (self.cost().of(width) as f64 - y).abs();
        self.miss_ns = KEPT * self.miss_ns + (1.0 - KEPT) * miss;
        let now = [1.0, x, x * x, y, x * y];
        for (sum, now) in self.sums.iter_mut().zip(now) {
            *sum = KEPT * *sum + now;
        }
        self.samples = self.samples.saturating_add(1);
    }

    /// How far predictions are off on average.
    pub fn deviation(&self) -> Span {
        Span::from_ns(self.miss_ns as u64)
    }

    /// What it has seen so far; `None` as long as it believes the class.
    pub fn learned(&self) -> Option<Cost> {
        (self.samples >= ENOUGH).then(|| self.cost())
    }

    /// What it believes. When all samples were of one width, only their ratio to the class can be
    /// known, and both parts are scaled alike.
    pub fn cost(&self) -> Cost {
        if self.samples < ENOUGH {
            return self.class;
        }
        let [n, x, xx, y, xy] = self.sums;
        let spread = n * xx - x * x;
        if spread > 1e-9 * n * xx {
            let slope = (n * xy - x * y) / spread;
            let fixed = (y - slope * x) / n;
            if slope > 0.0 && fixed >= 0.0 {
                return Cost { fixed_ns: fixed as u64, scan_ns: slope as u64 };
            }
        }
        let class = n * self.class.fixed_ns as f64 + x * self.class.scan_ns as f64;
        let scale = if class > 0.0 { y / class } else { 1.0 };
        Cost {
            fixed_ns: (self.class.fixed_ns as f64 * scale) as u64,
            scan_ns: (self.class.scan_ns as f64 * scale) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_everything_is_the_whole_scan() {
        let cost = Cost { fixed_ns: 5_000_000, scan_ns: 1_000_000_000 };
        assert_eq!(cost.of(WHOLE), 1_005_000_000);
        assert_eq!(cost.of(WHOLE / 8), 130_000_000);
    }

    #[test]
    fn clause_2_4_an_estimator_finds_both_parts() {
        let class = Cost { fixed_ns: 1_000_000, scan_ns: 500_000_000 };
        let truth = Cost { fixed_ns: 5_000_000, scan_ns: 1_000_000_000 };
        let mut one = Estimator::new(class);
        for step in 0..ENOUGH - 1 {
            let width = WHOLE / (4 + u128::from(step % 7));
            one.learn(width, Span::from_ns(truth.of(width)));
            assert_eq!((one.cost(), one.learned()), (class, None));
        }
        one.learn(WHOLE / 9, Span::from_ns(truth.of(WHOLE / 9)));
        let found = one.learned().expect("twenty samples");
        assert!(found.fixed_ns.abs_diff(truth.fixed_ns) < 10, "{found:?}");
        assert!(found.scan_ns.abs_diff(truth.scan_ns) < 100, "{found:?}");
    }

    #[test]
    fn one_width_alone_scales_the_class() {
        let class = Cost { fixed_ns: 1_000_000, scan_ns: 100_000_000 };
        let mut one = Estimator::new(class);
        (0..30).for_each(|_| one.learn(WHOLE / 8, Span::from_ns(2 * class.of(WHOLE / 8))));
        assert!(one.cost().of(WHOLE / 8).abs_diff(2 * class.of(WHOLE / 8)) < 10);
    }
}
