//! A run's latencies, in constant memory.

use super::quantile::rank;
use hdrhistogram::Histogram as Hdr;
use std::fmt;

/// The largest latency told apart from a larger one: 73 minutes.
const HIGHEST_NS: u64 = 1 << 42;
const DIGITS: u8 = 3;

/// Latencies in nanoseconds. Exact up to 2 047 ns; above, buckets are at most 1/1024 of their value
/// wide, and since a bucket stands for its middle, a quantile is off by at most 0.05 %. Count, mean
/// and maximum are exact. Takes about 270 kB, all of it up front.
#[derive(Clone, PartialEq)]
pub struct Histogram {
    buckets: Hdr<u64>,
    sum: u128,
    max: u64,
    clipped: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Half the width of a bucket as a share of its value, at most.
    pub const RELATIVE_ERROR: f64 = 1.0 / 2048.0;

    /// Nothing recorded.
    pub fn new() -> Self {
        let buckets =
            Hdr::new_with_bounds(1, HIGHEST_NS, DIGITS).expect("constant bounds are valid");
        Histogram { buckets, sum: 0, max: 0, clipped: 0 }
    }

    /// Records one latency; does not allocate. One above 73 minutes is counted at 73 minutes, and
    /// in [`Histogram::clipped`].
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
        if ns > HIGHEST_NS {
            self.clipped += 1;
        }
        self.buckets.saturating_record(ns.min(HIGHEST_NS));
    }

    /// Adds everything that `other` has recorded. The result does not depend on the order of
    /// merges.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.add(&other.buckets).expect("all histograms have the same bounds");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.clipped += other.clipped;
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.reset();
        (self.sum, self.max, self.clipped) = (0, 0, 0);
    }

    /// Latencies recorded.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Latencies too large to be told apart. Quantiles that reach them are lower bounds.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// The exact mean in nanoseconds; `None` when nothing is recorded.
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The exact largest latency; `None` when nothing is recorded.
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max)
    }

    /// The `p`-quantile in nanoseconds, whether the count supports it or not (see
    /// [`super::quantile::supported`]); `None` when nothing is recorded.
    pub fn quantile(&self, p: f64) -> Option<u64> {
        self.at_rank(rank(self.count(), p))
    }

    /// The latency of `rank`, counted from 1 for the smallest; `None` when there are not as many.
    pub fn at_rank(&self, rank: u64) -> Option<u64> {
        let mut seen = 0;
        self.buckets().find_map(|(value, count)| {
            seen += count;
            (seen >= rank).then_some(value)
        })
    }

    /// The non-empty buckets as (latency in nanoseconds, count), smallest latency first.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter_recorded().map(|bucket| {
            let middle = self.buckets.median_equivalent(bucket.value_iterated_to());
            // The middle of the last bucket may lie above everything recorded in it.
            (middle.min(self.max), bucket.count_at_value())
        })
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Histogram { buckets: _, sum, max, clipped } = self;
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("sum", sum)
            .field("max", max)
            .field("clipped", clipped)
            .finish_non_exhaustive()
    }
}

/// The `p`-quantile of the union of the parts, each latency divided by its part's divisor. With
/// service times as divisors that is the quantile of slowdown over all types of requests, as exact
/// as the histograms are. `None` when nothing is recorded.
///
/// # Panics
/// When a divisor is not positive.
pub fn scaled_quantile(parts: &[(&Histogram, f64)], p: f64) -> Option<f64> {
    let count: u64 = parts.iter().map(|(histogram, _)| histogram.count()).sum();
    let rank = rank(count, p);
    let mut heads: Vec<_> = parts
        .iter()
        .map(|&(histogram, divisor)| {
            assert!(divisor > 0.0, "a latency divided by {divisor} means nothing");
            let scaled = move |(ns, count): (u64, u64)| (ns as f64 / divisor, count);
            histogram.buckets().map(scaled).peekable()
        })
        .collect();
    let mut seen = 0;
    loop {
        // A handful of types: looking at every head beats keeping them sorted.
        let mut least: Option<(f64, usize)> = None;
        for (i, head) in heads.iter_mut().enumerate() {
            if let Some(&(value, _)) = head.peek()
                && least.is_none_or(|(smallest, _)| value < smallest)
            {
                least = Some((value, i));
            }
        }
        let (value, part) = least?;
        seen += heads[part].next().map_or(0, |(_, count)| count);
        if seen >= rank {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::{Purpose, Stream};

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|ns| histogram.record(ns));
        histogram
    }

    #[test]
    fn nothing_has_no_quantile() {
        let empty = Histogram::new();
        assert_eq!((empty.quantile(0.5), empty.mean(), empty.max()), (None, None, None));
        assert_eq!(scaled_quantile(&[], 0.5), None);
        assert_eq!(scaled_quantile(&[(&empty, 1.0)], 0.5), None);
    }

    #[test]
    fn small_latencies_are_exact() {
        let histogram = histogram(0..2_048);
        for rank in 1..=2_048 {
            assert_eq!(histogram.at_rank(rank), Some(rank - 1));
        }
        assert_eq!(histogram.at_rank(2_049), None);
    }

    #[test]
    fn quantiles_stay_within_the_stated_error() {
        // Every magnitude up to the bound.
        let mut stream = Stream::keyed(1, 0, Purpose::Test);
        let mut values: Vec<u64> =
            (0..50_000).map(|_| stream.bits() >> (22 + stream.below(42))).collect();
        let histogram = histogram(values.iter().copied());
        values.sort_unstable();
        for p in [0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let exact = values[rank(50_000, p) as usize - 1] as f64;
            let got = histogram.quantile(p).unwrap() as f64;
            assert!((got - exact).abs() <= exact * Histogram::RELATIVE_ERROR, "{p}: {got} {exact}");
        }
        let sum: u128 = values.iter().map(|&v| u128::from(v)).sum();
        assert_eq!(histogram.mean(), Some(sum as f64 / 50_000.0));
        assert_eq!(histogram.max(), values.last().copied());
        assert_eq!(histogram.clipped(), 0);
    }

    #[test]
    fn merging_is_recording_it_all() {
        let mut stream = Stream::keyed(2, 0, Purpose::Test);
        let values: Vec<u64> = (0..3_000).map(|_| stream.bits() >> stream.below(64)).collect();
        let (left, right) = values.split_at(1_234);
        let whole = histogram(values.iter().copied());
        let mut one_way = histogram(left.iter().copied());
        one_way.merge(&histogram(right.iter().copied()));
        let mut other_way = histogram(right.iter().copied());
        other_way.merge(&histogram(left.iter().copied()));
        assert_eq!(one_way, whole);
        assert_eq!(other_way, whole);
        one_way.clear();
        assert_eq!(one_way, Histogram::new());
    }

    #[test]
    fn the_unbounded_is_clipped_and_counted() {
        let histogram = histogram([5, HIGHEST_NS, HIGHEST_NS + 1, u64::MAX]);
        assert_eq!((histogram.clipped(), histogram.count()), (2, 4));
        assert_eq!(histogram.max(), Some(u64::MAX));
        let top = histogram.quantile(1.0).unwrap() as f64;
        assert!((top / HIGHEST_NS as f64 - 1.0).abs() <= Histogram::RELATIVE_ERROR * 2.0);
    }

    #[test]
    fn slowdown_over_types_is_that_of_the_union() {
        let mut stream = Stream::keyed(3, 0, Purpose::Test);
        let divisors = [500.0, 1_000.0, 500_000.0];
        let mut parts = [Histogram::new(), Histogram::new(), Histogram::new()];
        let mut union = Vec::new();
        for _ in 0..30_000 {
            let kind = stream.below(3) as usize;
            let ns = (divisors[kind] * (1.0 - 3.0 * libm::log(stream.unit()))) as u64;
            parts[kind].record(ns);
            union.push(ns as f64 / divisors[kind]);
        }
        union.sort_by(f64::total_cmp);
        let scaled: Vec<_> = parts.iter().zip(divisors).collect();
        for p in [0.001, 0.5, 0.99, 0.999, 1.0] {
            let exact = union[rank(30_000, p) as usize - 1];
            let got = scaled_quantile(&scaled, p).unwrap();
            assert!((got / exact - 1.0).abs() <= Histogram::RELATIVE_ERROR, "{p}: {got} {exact}");
        }
    }

    #[test]
    fn an_unhindered_request_has_slowdown_one() {
        let exact = histogram([1_000; 10]);
        assert_eq!(scaled_quantile(&[(&exact, 1_000.0)], 0.999), Some(1.0));
    }
}
