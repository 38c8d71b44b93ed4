//! An estimate with its 95 % confidence interval.

use super::student;
use std::fmt;

/// Where a quantity lies, with 95 % confidence. The ends need not lie evenly about the estimate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The best single value.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// `estimate` plus and minus `half_width`.
    pub fn around(estimate: f64, half_width: f64) -> Self {
        Interval { estimate, low: estimate - half_width, high: estimate + half_width }
    }

    /// The interval of the mean of independent, identically distributed values, such as the means
    /// of replications; `None` for fewer than two of them, from which no spread can be seen.
    pub fn of_mean(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let mean = mean(values);
        Some(Interval::around(mean, half_width(values, mean)))
    }

    /// Half of the interval's width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Half of the width as a share of the estimate: 0.05 is "plus or minus 5 %". Infinite about
    /// zero, unless the width is zero too.
    pub fn relative(&self) -> f64 {
        let half = self.half_width();
        if half == 0.0 { 0.0 } else { half / self.estimate.abs() }
    }

    /// True when `value` lies in the interval, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// No interval can be given: the run ended before the spread of its own numbers could be judged.
/// Printed instead of a number, never beside one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooShort;

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("run too short")
    }
}

impl std::error::Error for TooShort {}

/// The arithmetic mean of `values`, which must not be empty.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// t s / sqrt(R) with the standard deviation s of `values` taken about `center`, at 95 %.
pub(super) fn half_width(values: &[f64], center: f64) -> f64 {
    spread(values, center, 0.95)
}

/// The same at any confidence.
pub(super) fn spread(values: &[f64], center: f64, confidence: f64) -> f64 {
    let (r, squares) = (values.len() as f64, values.iter().map(|v| (v - center) * (v - center)));
    let s = libm::sqrt(squares.sum::<f64>() / (r - 1.0));
    student::two_sided(values.len() as u64 - 1, confidence) * s / libm::sqrt(r)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_of_five() {
        // s^2 = 2.5, t_{4, 0.975} = 2.7764451, so the half width is 2.7764451 sqrt(2.5 / 5).
        let interval = Interval::of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((interval.estimate - 3.0).abs() < 1e-12);
        assert!((interval.half_width() - 1.963_243).abs() < 1e-5);
        assert!((interval.relative() - 0.654_414).abs() < 1e-5);
        assert!(interval.contains(1.04) && !interval.contains(1.03));
    }

    #[test]
    fn one_value_has_no_spread() {
        assert_eq!(Interval::of_mean(&[1.0]), None);
    }

    #[test]
    fn relative_width_about_zero() {
        assert_eq!(Interval::around(0.0, 0.0).relative(), 0.0);
        assert_eq!(Interval::around(0.0, 1.0).relative(), f64::INFINITY);
    }
}
