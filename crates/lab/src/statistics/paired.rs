//! Which of two policies is better, replication by replication.
//!
//! Under common random numbers both policies meet the same arrivals and the same service times, so
//! what one replication has by bad luck the other has too, and the difference is known far better
//! than either number.

use super::interval::Interval;

/// What may be said about the first policy compared with the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Smaller, and the interval of the difference excludes zero.
    Better,
    /// Larger, and the interval of the difference excludes zero.
    Worse,
    /// The interval of the difference holds zero.
    Unclear,
}

/// Two policies compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Paired {
    /// First less second, on average over replications.
    pub difference: Interval,
    /// What that says, small being good, as it is for latencies.
    pub verdict: Verdict,
}

/// Compares a metric of two policies over the same replications, in the same order; `None` for
/// fewer than two.
///
/// # Panics
/// When the policies have different numbers of replications, which then are no pairs.
pub fn compare(first: &[f64], second: &[f64]) -> Option<Paired> {
    assert_eq!(first.len(), second.len(), "replications come in pairs");
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    let difference = Interval::of_mean(&differences)?;
    let verdict = if difference.high < 0.0 {
        Verdict::Better
    } else if difference.low > 0.0 {
        Verdict::Worse
    } else {
        Verdict::Unclear
    };
    Some(Paired { difference, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_steady_gain_shows_through_large_shared_noise() {
        let second = [10.0, 200.0, 55.0, 140.0, 17.0];
        let first: Vec<f64> =
            second.iter().zip([1.0, 1.1, 0.9, 1.05, 0.95]).map(|(b, gain)| b - gain).collect();
        let paired = compare(&first, &second).unwrap();
        assert_eq!(paired.verdict, Verdict::Better);
        assert!((paired.difference.estimate + 1.0).abs() < 1e-9);
        assert_eq!(compare(&second, &first).unwrap().verdict, Verdict::Worse);
        // Unpaired, the same numbers say nothing.
        assert!(Interval::of_mean(&first).unwrap().half_width() > 50.0);
    }

    #[test]
    fn noise_is_unclear_and_so_is_equality() {
        let paired = compare(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0]).unwrap();
        assert_eq!(paired.verdict, Verdict::Unclear);
        assert_eq!(compare(&[1.0, 2.0], &[1.0, 2.0]).unwrap().verdict, Verdict::Unclear);
        assert_eq!(compare(&[1.0], &[2.0]), None);
    }
}
