//! When requests arrive: the gaps between them.
//!
//! Gaps are fixed-point: whole nanoseconds in the upper 64 of 128 bits and the fraction in the
//! lower. Adding them up is exact and takes two instructions, where a sum in floats would round,
//! and would make each request wait for the conversions of the one before.

use crate::bits::unit;
use cavy_core::Stream;
use core::fmt;

/// The process by which requests arrive, apart from its rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// Independent exponential gaps: many clients that know nothing of each other
    /// `[persephone 4.2]`.
    Poisson,
    /// Equal gaps; the first request comes one gap after the start.
    Constant,
    /// A Poisson process whose rate switches between two levels, each held for an exponential time
    /// (a Markov-modulated Poisson process of two states). Starts in a burst with probability
    /// `burst_share`, so that the process is stationary from the first request on.
    Bursty {
        /// Rate in bursts divided by the mean rate, above 1.
        peak_ratio: f64,
        /// Fraction of the time spent in bursts, at least 10^-6 and below 1. `peak_ratio` times
        /// `burst_share` is at most 1: at 1 all requests come in bursts and nothing in between.
        burst_share: f64,
        /// Mean length of a burst in nanoseconds, above 0 and at most 10^15; long enough that there
        /// are at most [`SWITCHES_MAX`] level switches per request.
        mean_burst_ns: f64,
    },
}

/// How many level switches a bursty process may make per request, on average.
///
/// Far more switches than requests average out to a plain Poisson process and only cost time.
pub const SWITCHES_MAX: f64 = 1000.0;

impl Arrivals {
    /// Variance of the number of arrivals in a long time over its mean, at this mean rate: 1 for a
    /// Poisson process, 0 for equal gaps.
    pub fn dispersion(&self, rate_per_s: f64) -> f64 {
        match *self {
            Arrivals::Poisson => 1.0,
            Arrivals::Constant => 0.0,
            Arrivals::Bursty { peak_ratio, burst_share, mean_burst_ns } => {
                let calm = 1.0 - burst_share;
                // Rates over the mean rate; the times in both levels are in their shares.
                let calm_ratio = (1.0 - peak_ratio * burst_share) / calm;
                let apart = peak_ratio - calm_ratio;
                let switches_per_ns = 1.0 / (mean_burst_ns * calm);
                let variance = burst_share * calm * apart * apart;
                1.0 + 2.0 * variance * rate_per_s * 1e-9 / switches_per_ns
            }
        }
    }

    /// Whether the parameters are in the ranges that the fields document.
    pub fn check(&self) -> Result<(), ArrivalsError> {
        let Arrivals::Bursty { peak_ratio, burst_share, mean_burst_ns } = *self else {
            return Ok(());
        };
        let outside = |field, value, rule| Err(ArrivalsError::OutOfRange { field, value, rule });
        if !(peak_ratio > 1.0 && peak_ratio < f64::INFINITY) {
            return outside("peak_ratio", peak_ratio, "finite and above 1");
        }
        if !(1e-6..1.0).contains(&burst_share) {
            return outside("burst_share", burst_share, "at least 1e-6 and below 1");
        }
        if !(mean_burst_ns > 0.0 && mean_burst_ns <= 1e15) {
            return outside("mean_burst_ns", mean_burst_ns, "above 0 and at most 1e15");
        }
        // 3 x 0.3333333333333334 is meant to be legal.
        if peak_ratio * burst_share > 1.0 + 1e-9 {
            return Err(ArrivalsError::OverMean { peak_ratio, burst_share });
        }
        Ok(())
    }

    /// Whether the process can run at `rate_per_s` (above 0) without switching levels more than
    /// [`SWITCHES_MAX`] times per request.
    pub(crate) fn check_rate(&self, rate_per_s: f64) -> Result<(), ArrivalsError> {
        let Arrivals::Bursty { burst_share, mean_burst_ns, .. } = *self else {
            return Ok(());
        };
        // Two switches per cycle, which is one burst and one calm.
        let least_ns = 2e9 / rate_per_s * burst_share / SWITCHES_MAX;
        if mean_burst_ns < least_ns {
            return Err(ArrivalsError::TooBrief { mean_burst_ns, least_ns });
        }
        Ok(())
    }
}

/// Draws the gaps of one process at one rate.
#[derive(Clone, Debug)]
pub(crate) enum Gaps {
    Poisson { mean_ns: f64 },
    Constant { gap: u128 },
    Bursty(Bursts),
}

impl Gaps {
    /// Gaps of `arrivals` at `rate_per_s`, as they are when a phase starts. Bursts draw two
    /// numbers.
    pub(crate) fn new(arrivals: Arrivals, rate_per_s: f64, stream: &mut Stream) -> Gaps {
        let mean_ns = 1e9 / rate_per_s;
        match arrivals {
            Arrivals::Poisson => Gaps::Poisson { mean_ns },
            Arrivals::Constant => Gaps::Constant { gap: fixed(mean_ns) },
            Arrivals::Bursty { peak_ratio, burst_share, mean_burst_ns } => {
                let calm_share = 1.0 - burst_share;
                let calm_ratio = ((1.0 - peak_ratio * burst_share) / calm_share).max(0.0);
                let mut bursts = Bursts {
                    per_ns: [calm_ratio / mean_ns, peak_ratio / mean_ns],
                    stay_ns: [mean_burst_ns * calm_share / burst_share, mean_burst_ns],
                    level: usize::from(unit(stream.bits()) < burst_share),
                    left_ns: 0.0,
                };
                bursts.left_ns = exponential(stream) * bursts.stay_ns[bursts.level];
                Gaps::Bursty(bursts)
            }
        }
    }

    /// The time to the next request in units of 2^-64 ns.
    #[inline]
    pub(crate) fn draw(&mut self, stream: &mut Stream) -> u128 {
        match self {
            Gaps::Poisson { mean_ns } => fixed(*mean_ns * exponential(stream)),
            Gaps::Constant { gap } => *gap,
            Gaps::Bursty(bursts) => fixed(bursts.draw_ns(stream)),
        }
    }
}

/// State of the two-level process. Level 0 is calm, level 1 is a burst.
#[derive(Clone, Debug)]
pub(crate) struct Bursts {
    /// Requests per nanosecond at each level; 0 is possible when calm.
    per_ns: [f64; 2],
    /// Mean time at each level in nanoseconds.
    stay_ns: [f64; 2],
    level: usize,
    /// Time until the level switches, in nanoseconds.
    left_ns: f64,
}

impl Bursts {
    /// Spends one exponential amount of expected requests at the rates that come along.
    fn draw_ns(&mut self, stream: &mut Stream) -> f64 {
        let mut due = exponential(stream);
        let mut passed_ns = 0.0;
        loop {
            let ahead = self.left_ns * self.per_ns[self.level];
            // Strictly less, so that a level without requests is always left.
            if due < ahead {
                let gap_ns = due / self.per_ns[self.level];
                self.left_ns = (self.left_ns - gap_ns).max(0.0);
                return passed_ns + gap_ns;
            }
            due -= ahead;
            passed_ns += self.left_ns;
            self.level ^= 1;
            self.left_ns = exponential(stream) * self.stay_ns[self.level];
        }
    }
}

/// `ns`, not negative, in units of 2^-64 ns. Exact from 2^-12 ns on, where 53 bits end above the
/// unit.
///
/// Shifts the mantissa into place: conversions with their checks for NaN and overflow take longer
/// than everything else about a gap but the logarithm.
#[inline]
fn fixed(ns: f64) -> u128 {
    let bits = ns.to_bits();
    let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    // The mantissa counts units of 2^-64 ns when the biased exponent is 1023 + 52 - 64.
    match (bits >> 52 & 0x7FF) as u32 {
        exponent @ 1011..=1085 => mantissa << (exponent - 1011),
        exponent @ 0..=1010 => mantissa >> (1011 - exponent).min(127),
        _ => u128::MAX,
    }
}

/// An exponential number of mean 1, above 0 and at most 36.8.
#[inline]
fn exponential(stream: &mut Stream) -> f64 {
    -libm::log(unit(stream.bits()))
}

/// Why [`Arrivals`] is no arrival process.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum ArrivalsError {
    /// A parameter is outside its range, infinite, or not a number.
    OutOfRange {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// Bursts alone would bring more than the mean rate.
    OverMean {
        /// Rate in bursts divided by the mean rate.
        peak_ratio: f64,
        /// Fraction of the time spent in bursts.
        burst_share: f64,
    },
    /// Bursts are so short against the gaps between requests that they cannot be seen.
    TooBrief {
        /// Mean length of a burst.
        mean_burst_ns: f64,
        /// The least mean length at this rate.
        least_ns: f64,
    },
}

impl fmt::Display for ArrivalsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ArrivalsError::OutOfRange { field, value, rule } => {
                write!(f, "{field} is {value}, must be {rule}")
            }
            ArrivalsError::OverMean { peak_ratio, burst_share } => write!(
                f,
                "peak_ratio {peak_ratio} times burst_share {burst_share} is {}, must be at most 1",
                peak_ratio * burst_share
            ),
            ArrivalsError::TooBrief { mean_burst_ns, least_ns } => {
                write!(
                    f,
                    "mean_burst_ns is {mean_burst_ns}, must be at least {least_ns} at this rate"
                )
            }
        }
    }
}

impl core::error::Error for ArrivalsError {}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::Purpose;

    /// Fractions of the time at which the process is in a burst, at its very start (over seeds) and
    /// in the long run (of one seed).
    #[test]
    fn bursts_take_their_share_of_the_time_from_the_start_on() {
        let arrivals =
            Arrivals::Bursty { peak_ratio: 4.0, burst_share: 0.1, mean_burst_ns: 10_000.0 };
        let started = (0..20_000).filter(|&seed| {
            let mut stream = Stream::keyed(seed, 0, Purpose::Test);
            matches!(Gaps::new(arrivals, 1e6, &mut stream), Gaps::Bursty(Bursts { level: 1, .. }))
        });
        // 4.5 standard deviations of a binomial count.
        let started = started.count() as f64;
        assert!((started - 2_000.0).abs() < 4.5 * 42.4, "{started}");

        let mut stream = Stream::keyed(1, 0, Purpose::Test);
        let Gaps::Bursty(mut bursts) = Gaps::new(arrivals, 1e6, &mut stream) else {
            panic!("not bursts");
        };
        // Requests in bursts are 4 x 0.1 of all, whatever the gaps before them were.
        let count = 2_000_000;
        let mut in_bursts = 0.0;
        for _ in 0..count {
            bursts.draw_ns(&mut stream);
            in_bursts += bursts.level as f64;
        }
        let share = in_bursts / f64::from(count);
        assert!((share / 0.4 - 1.0).abs() < 0.02, "{share}");
    }

    #[test]
    fn all_requests_come_in_bursts_when_these_use_up_the_mean_rate() {
        let arrivals =
            Arrivals::Bursty { peak_ratio: 4.0, burst_share: 0.25, mean_burst_ns: 10_000.0 };
        let mut stream = Stream::keyed(1, 0, Purpose::Test);
        let Gaps::Bursty(mut bursts) = Gaps::new(arrivals, 1e6, &mut stream) else {
            panic!("not bursts");
        };
        for _ in 0..100_000 {
            let gap_ns = bursts.draw_ns(&mut stream);
            assert!(gap_ns >= 0.0 && bursts.level == 1);
        }
    }

    #[test]
    fn fixed_point_keeps_every_bit_of_a_gap() {
        assert_eq!(fixed(0.0), 0);
        assert_eq!(fixed(-0.0), 0);
        assert_eq!(fixed(f64::MIN_POSITIVE / 8.0), 0);
        assert_eq!(fixed(f64::INFINITY), u128::MAX);
        assert_eq!(fixed(1.0), 1 << 64);
        for exponent in 1..=20 {
            // On both sides of 2^-12 ns.
            assert_eq!(fixed(1.0 / f64::from(1u32 << exponent)), 1 << (64 - exponent));
        }
        assert_eq!(fixed(0.5), 1 << 63);
        assert_eq!(fixed(214.25), 857 << 62);
        assert_eq!(fixed(1e18), 1_000_000_000_000_000_000 << 64);
        let ns = 214.130_620_985_010_7;
        assert_eq!(fixed(ns) as f64 / (1u128 << 64) as f64, ns);
    }
}
