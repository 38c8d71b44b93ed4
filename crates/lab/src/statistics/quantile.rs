//! Quantiles, their intervals, and which of them may be printed at all.
//!
//! There is one rule, [`rank`], for values in order and for histograms alike.

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

/// Whether the `p`-quantile of `n` observations may be given: one above the median must be
/// [`supported`]. A median of few says something, if how few they are stands beside it.
pub fn given(n: u64, p: f64) -> bool {
    n > 0 && (p <= 0.5 || supported(n, p))
}

/// The rank, from 1, of the `p`-quantile among `n` sorted observations: the smallest that leaves a
/// share of at most 1 - p behind it.
pub fn rank(n: u64, p: f64) -> u64 {
    // 0.07 x 100 is a little over 7; the slack keeps its rank at 7.
    let exact = p * n as f64;
    (libm::ceil(exact - 1e-9 * exact) as u64).clamp(1, n.max(1))
}

/// The `p`-quantile of values in ascending order, whether their number supports it or not (see
/// [`supported`]): the one at its [`rank`]. `None` when there are none.
pub fn of_sorted<T: Copy>(sorted: &[T], p: f64) -> Option<T> {
    sorted.get(rank(sorted.len() as u64, p) as usize - 1).copied()
}

/// The `p`-quantile of what a histogram of the library has counted, as [`of_sorted`] has it, to the
/// digits of the histogram. `None` when there is nothing.
pub fn of_histogram(values: &hdrhistogram::Histogram<u64>, p: f64) -> Option<u64> {
    at_rank(values, rank(values.len(), p))
}

/// The value of `rank`, from 1, in a histogram of the library; `None` when it has not as many.
pub fn at_rank(values: &hdrhistogram::Histogram<u64>, rank: u64) -> Option<u64> {
    // Half a rank less, so that rounding in the library does not reach the next one.
    let share = (rank as f64 - 0.5) / values.len() as f64;
    (1..=values.len()).contains(&rank).then(|| values.value_at_quantile(share))
}

/// The median of a few repetitions: the middle one, or the mean of the two in the middle. `None`
/// when there are none. Of many samples of a distribution it is `of_sorted(.., 0.5)`.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = values.into_iter().collect();
    all.sort_unstable_by(f64::total_cmp);
    let (low, high) = (all.get(all.len().checked_sub(1)? / 2)?, all.get(all.len() / 2)?);
    Some(if all.len() % 2 == 1 { *low } else { (low + high) / 2.0 })
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
    fn a_median_of_few_is_given_and_a_tail_is_not() {
        assert!(given(1, 0.5) && !given(0, 0.5));
        assert!(!given(999, 0.9) && given(1_000, 0.9));
        assert!(!given(9_999, 0.99) && given(10_000, 0.99));
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
    fn values_in_order_and_histograms_have_the_same_quantiles() {
        let sorted: Vec<u64> = (1..=200).collect();
        let mut counted = hdrhistogram::Histogram::<u64>::new(3).expect("three digits");
        sorted.iter().for_each(|&value| counted.record(value).expect("it grows"));
        for p in [0.0, 0.005, 0.07, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
            let expected = rank(200, p);
            assert_eq!(of_sorted(&sorted, p), Some(expected), "{p}");
            assert_eq!(of_histogram(&counted, p), Some(expected), "{p}");
        }
        assert_eq!(of_sorted::<u64>(&[], 0.5), None);
        counted.reset();
        assert_eq!(of_histogram(&counted, 0.5), None);
    }

    #[test]
    fn medians_of_repetitions() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
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
