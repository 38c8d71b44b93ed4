//! The interval of the mean from one long run, by batch means.
//!
//! Consecutive sojourn times resemble each other, so the spread of single requests says little
//! about the spread of their mean. Means of long enough batches are nearly independent, and their
//! spread does.

use super::interval::{Interval, TooShort};
use super::warmup::{Series, Truncation};

/// Batches that the interval is made of, and of twice the length when these prove dependent. Fewer
/// than ten would make the interval itself too uncertain.
const BATCHES: [usize; 2] = [32, 16];
/// Dependence is judged by means of this many parts of each batch.
const PARTS: usize = 4;
/// The largest lag-1 autocorrelation of the parts' means that is acceptable.
///
/// Deviation: the usual rule asks that the lag-1 autocorrelation of the batch means themselves be
/// at most 0.1. Estimated from 32 means that figure has a standard error of 0.18, so a third of all
/// perfectly good runs fail, and longer runs fail as often. In a process that forgets
/// exponentially, batches correlate by 0.1 when they last six time constants, and quarters of such
/// batches by 0.42; from 128 quarters that is seen with a standard error of 0.09.
const LAG1_MAX: f64 = 0.42;

/// The interval of the mean of the observations after `warmup`.
///
/// Too short when fewer than 64 batch means of the series remain (five observations each), or when
/// the batches that it has are so short that they depend on each other.
pub fn interval(series: &Series, warmup: Truncation) -> Result<Interval, TooShort> {
    if warmup.too_short {
        return Err(TooShort);
    }
    let kept = series.after(warmup);
    for k in BATCHES {
        let parts = grouped(kept, k * PARTS);
        if parts.is_empty() {
            continue;
        }
        if lag1(&parts) <= LAG1_MAX {
            return Interval::of_mean(&grouped(&parts, k)).ok_or(TooShort);
        }
    }
    Err(TooShort)
}

/// Means of `k` equal groups of `values`, leaving out what does not fill them at the beginning,
/// which lies nearest to the warm-up. Empty when there are fewer than `k` values.
fn grouped(values: &[f64], k: usize) -> Vec<f64> {
    let size = values.len() / k;
    if size == 0 {
        return Vec::new();
    }
    let values = &values[values.len() - size * k..];
    values.chunks_exact(size).map(super::interval::mean).collect()
}

/// The correlation between neighbors. Zero for constant values, which carry no dependence.
fn lag1(values: &[f64]) -> f64 {
    let mean = super::interval::mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let products: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    if squares == 0.0 { 0.0 } else { products / squares }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::{Purpose, Stream};

    /// A first-order autoregression about 10 with coefficient `phi`: mean 10, lag-1 correlation
    /// phi.
    fn autoregression(seed: u64, n: usize, phi: f64) -> Series {
        let mut stream = Stream::keyed(seed, 0, Purpose::Test);
        let mut series = Series::new();
        let mut x = 0.0;
        for _ in 0..n {
            x = phi * x + (stream.unit() - 0.5);
            series.record(10.0 + x);
        }
        series
    }

    #[test]
    fn independent_and_dependent_runs_are_covered_alike() {
        for phi in [0.0, 0.9, 0.99] {
            let intervals: Vec<_> = (0..300)
                .map(|seed| interval(&autoregression(seed, 100_000, phi), Truncation::NONE))
                .collect();
            let given = intervals.iter().flatten().count();
            let covered = intervals.iter().flatten().filter(|i| i.contains(10.0)).count();
            assert!(given >= 295, "phi {phi}: {given} of 300 intervals given");
            let ratio = covered as f64 / given as f64;
            assert!((0.91..=0.99).contains(&ratio), "phi {phi}: {ratio}");
        }
    }

    #[test]
    fn a_run_of_few_time_constants_is_too_short() {
        // phi = 0.9999 forgets in 10 000 steps; 20 000 steps say next to nothing.
        let given = (0..100)
            .filter(|&seed| {
                interval(&autoregression(seed, 20_000, 0.9999), Truncation::NONE).is_ok()
            })
            .count();
        assert_eq!(given, 0);
        assert_eq!(interval(&autoregression(1, 300, 0.0), Truncation::NONE), Err(TooShort));
    }

    #[test]
    fn a_run_that_never_settled_has_no_interval() {
        let never = Truncation { ratio: 0.5, too_short: true };
        assert_eq!(interval(&autoregression(1, 100_000, 0.0), never), Err(TooShort));
    }

    #[test]
    fn lag1_of_known_values() {
        assert_eq!(lag1(&[2.0; 9]), 0.0);
        // Alternating: products -(n - 1), squares n.
        let alternating: Vec<f64> = (0..100).map(|i| f64::from(i % 2 * 2 - 1)).collect();
        assert!((lag1(&alternating) + 0.99).abs() < 1e-12);
    }

    #[test]
    fn groups_leave_out_the_beginning() {
        assert_eq!(grouped(&[9.0, 1.0, 3.0, 5.0, 7.0], 2), [2.0, 6.0]);
        assert!(grouped(&[1.0], 2).is_empty());
    }
}
