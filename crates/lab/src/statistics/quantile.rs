//! Intervals of quantiles, and which quantiles may be printed at all.

use super::interval::{Interval, half_width};

/// Observations that must lie beyond a quantile before it may be printed: of all replications
/// together. Every report, of the lab and of live runs, goes by this number.
pub const BEYOND_MIN: u64 = 100;

/// What is enough for a curve over time, whose bins are many and are looked at together: each of
/// them may be far off, and reports say so.
pub const BEYOND_MIN_IN_BIN: u64 = 10;

/// The normal quantile of 0.975.
const Z975: f64 = 1.959_963_984_540_054;

/// How many of `n` observations lie beyond their `p`-quantile.
pub fn beyond(n: u64, p: f64) -> u64 {
    // 1 - 0.9 is a little under 0.1; the slack keeps a hundred of n = 1000 beyond.
    (n as f64 * (1.0 - p) * (1.0 + 1e-9)) as u64
}

/// Whether `n` observations support their `p`-quantile: at least [`BEYOND_MIN`] lie beyond it. A
/// quantile without support is printed as "n/a".
pub fn supported(n: u64, p: f64) -> bool {
    beyond(n, p) >= BEYOND_MIN
}

/// The rank, from 1, of the `p`-quantile among `n` sorted observations: the smallest that leaves a
/// share of at most 1 - p behind it.
pub fn rank(n: u64, p: f64) -> u64 {
    // 0.07 x 100 is a little over 7; the slack keeps its rank at 7.
    let exact = p * n as f64;
    (libm::ceil(exact - 1e-9 * exact) as u64).clamp(1, n.max(1))
}

/// The sectioning interval of a quantile: `pooled` is the quantile of all replications'
/// observations taken together, `replications` has each one's own.
///
/// The spread is taken about the pooled quantile and not about the replications' mean: a short
/// replication's quantile is biased, the pooled one far less, and the interval then owns up to the
/// bias. `None` for fewer than two replications; ten or more are recommended.
pub fn sectioned(replications: &[f64], pooled: f64) -> Option<Interval> {
    if replications.len() < 2 {
        return None;
    }
    Some(Interval::around(pooled, half_width(replications, pooled)))
}

/// The ranks, from 1, between whose observations the `p`-quantile of independent, identically
/// distributed observations lies with 95 % confidence, whatever their distribution. `None` when `n`
/// is too small for either rank to exist.
///
/// Not for a simulated or measured queue's consecutive latencies, which depend on each other.
pub fn ranks(n: u64, p: f64) -> Option<(u64, u64)> {
    let mean = n as f64 * p;
    let spread = Z975 * libm::sqrt(mean * (1.0 - p));
    let (low, high) = (libm::floor(mean - spread), libm::ceil(mean + spread) + 1.0);
    (low >= 1.0 && high <= n as f64).then_some((low as u64, high as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::{Purpose, Stream};

    #[test]
    fn support_needs_a_hundred_beyond() {
        assert!(supported(1_000, 0.9) && !supported(999, 0.9));
        assert!(supported(10_000, 0.99) && !supported(9_999, 0.99));
        assert!(supported(100_000, 0.999) && !supported(99_999, 0.999));
        assert!(!supported(0, 0.5));
    }

    #[test]
    fn rank_rounds_up_but_not_by_a_float_error() {
        for (n, p, expected) in [
            (100, 0.07, 7),
            (100, 0.99, 99),
            (1_000, 0.999, 999),
            (3, 0.5, 2),
            (4, 0.5, 2),
            (7, 0.0, 1),
        ] {
            assert_eq!(rank(n, p), expected, "{n} {p}");
        }
        assert_eq!(rank(7, 1.0), 7);
    }

    #[test]
    fn sectioning_of_known_values() {
        // Squares about 3 sum to 10 over 4, as in the mean of five; about 4 to 15.
        let replications = [1.0, 2.0, 3.0, 4.0, 5.0];
        let unbiased = sectioned(&replications, 3.0).unwrap();
        assert!((unbiased.half_width() - 1.963_243).abs() < 1e-5);
        let biased = sectioned(&replications, 4.0).unwrap();
        assert!((biased.half_width() - 1.963_243 * 1.5f64.sqrt()).abs() < 1e-5);
        assert_eq!(biased.estimate, 4.0);
        assert_eq!(sectioned(&[1.0], 1.0), None);
    }

    #[test]
    fn rank_intervals_cover_whatever_the_distribution() {
        // Ranks are invariant under monotone maps, so uniform stands for every distribution.
        let mut stream = Stream::keyed(5, 0, Purpose::Test);
        for (n, p) in [(1_000u64, 0.5), (2_000, 0.95), (10_000, 0.99)] {
            let (low, high) = ranks(n, p).unwrap();
            let covered = (0..1_000)
                .filter(|_| {
                    let below = (0..n).filter(|_| stream.unit() <= p).count() as u64;
                    // The quantile lies between the observations of both ranks.
                    low <= below && below < high
                })
                .count();
            assert!((935..=985).contains(&covered), "{n} {p}: {covered}");
        }
    }

    #[test]
    fn few_observations_have_no_rank_interval() {
        assert_eq!(ranks(100, 0.99), None);
        assert_eq!(ranks(0, 0.5), None);
        assert_eq!(ranks(100, 0.5), Some((40, 61)));
    }
}
