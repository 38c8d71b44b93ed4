//! How much work one request is: the distribution of the service time of one type.
//!
//! Every law is drawn by inversion: one random number, one service time. So the n-th request uses
//! the n-th number of its stream under every law, a change of parameters moves each service time a
//! little instead of replacing it, and two laws can be compared pair by pair. The hyperexponential
//! law is inverted in each of its two parts, of which the number chooses one.
//!
//! Draws are whole nanoseconds, rounded to the nearest and never below 1 ns, since a request of no
//! work has no slowdown. Rounding moves the mean of a smooth law by far less than half a
//! nanosecond; the floor of 1 ns raises the mean of laws that often fall below half a nanosecond,
//! which only laws with a mean of a few nanoseconds do.

use crate::bits::{place, threshold, unit};
use crate::gamma::{Gamma, Quantiles};
use crate::normal;
use alloc::sync::Arc;
use cavy_core::{Span, Stream};
use core::fmt;

/// The distribution of the service time of one type.
///
/// The fields say what the user asked for; [`Service::check`] says whether that is a distribution,
/// and a [`Sampler`] is the form that draws fast.
#[derive(Clone, PartialEq, Debug)]
pub enum Service {
    /// Always the same, as the synthetic loads of `[persephone 4.1]`.
    Constant {
        /// The service time in nanoseconds, at least 1.
        ns: u64,
    },
    /// Exponential: the memoryless law of the closed forms `[persephone 5.1]`.
    Exponential {
        /// Mean in nanoseconds, from 1 to [`MEAN_NS_MAX`].
        mean_ns: f64,
    },
    /// Log-normal, parameterized by its own mean and not by that of the logarithm.
    LogNormal {
        /// Mean in nanoseconds, from 1 to [`MEAN_NS_MAX`].
        mean_ns: f64,
        /// Standard deviation of the natural logarithm, from 0 to 8. Beyond that the mean is
        /// carried by draws rarer than one in 10^15, which no run ever makes.
        sigma: f64,
    },
    /// One of two service times. For two *types* with constant times, which a policy can tell
    /// apart, use two entries of a [`crate::Mix`] instead.
    Bimodal {
        /// The shorter time in nanoseconds, at least 1.
        short_ns: u64,
        /// The longer time in nanoseconds, at least `short_ns`.
        long_ns: u64,
        /// Probability of the longer time, from 0 to 1.
        long_ratio: f64,
    },
    /// Pareto: P(S > x) = (m/x)^shape above the least time m = `mean_ns` (shape - 1) / shape.
    Pareto {
        /// Mean in nanoseconds *of the law without truncation*, from 1 to [`MEAN_NS_MAX`].
        mean_ns: f64,
        /// Tail exponent, above 1 (or the mean is infinite). At most 2: infinite second moment.
        shape: f64,
        /// Truncation in nanoseconds, above the least time m: the law *given* that S <= `max_ns`
        /// (the bounded Pareto law). It keeps m and `shape` and cuts the tail, so that the mean
        /// falls below `mean_ns`; [`Service::mean_ns`] and [`Service::second_moment_ns2`] are exact
        /// for the truncated law.
        max_ns: Option<u64>,
    },
    /// Each whole number of nanoseconds from `low_ns` to `high_ns`, both included, equally likely.
    Uniform {
        /// Least time in nanoseconds, at least 1.
        low_ns: u64,
        /// Greatest time in nanoseconds, at least `low_ns`.
        high_ns: u64,
    },
    /// Weibull: P(S > x) = exp(-(x/scale)^shape), the scale chosen so that the mean is `mean_ns`.
    Weibull {
        /// Mean in nanoseconds, from 1 to [`MEAN_NS_MAX`].
        mean_ns: f64,
        /// At least 0.1; 1 is the exponential law, below 1 the tail is heavier.
        shape: f64,
    },
    /// Gamma; Erlang where the shape is a whole number, the number of its stages.
    Gamma {
        /// Mean in nanoseconds, from 1 to [`MEAN_NS_MAX`].
        mean_ns: f64,
        /// From 0.1 to 1000; 1 is the exponential law, and the squared coefficient of variation is
        /// 1 / shape.
        shape: f64,
    },
    /// Exponential about one of two means, each of which brings half of the work (balanced means).
    Hyperexponential {
        /// Mean in nanoseconds, from 1 to [`MEAN_NS_MAX`].
        mean_ns: f64,
        /// Variance over the squared mean, from 1, the exponential law, to 10 000.
        squared_cv: f64,
    },
    /// Measured service times in nanoseconds, each at least 1, drawn with replacement.
    Empirical(Arc<[u64]>),
}

/// The longest mean a smooth law may have: 10^15 ns, 11.6 days. Longer ones are units mistaken, and
/// would reach the end of time after a few thousand requests.
pub const MEAN_NS_MAX: f64 = 1e15;

impl Service {
    /// Whether the parameters are in the ranges that the fields document.
    pub fn check(&self) -> Result<(), ServiceError> {
        let outside = |field, value, rule| Err(ServiceError::OutOfRange { field, value, rule });
        let mean = |mean_ns: f64| {
            if (1.0..=MEAN_NS_MAX).contains(&mean_ns) {
                return Ok(());
            }
            outside("mean_ns", mean_ns, "from 1 to 1e15")
        };
        let whole = |field, ns: u64| {
            if ns == 0 { Err(ServiceError::ZeroTime { field }) } else { Ok(()) }
        };
        match *self {
            Service::Constant { ns } => whole("ns", ns),
            Service::Exponential { mean_ns } => mean(mean_ns),
            Service::LogNormal { mean_ns, sigma } => {
                mean(mean_ns)?;
                if !(0.0..=8.0).contains(&sigma) {
                    return outside("sigma", sigma, "from 0 to 8");
                }
                Ok(())
            }
            Service::Bimodal { short_ns, long_ns, long_ratio } => {
                whole("short_ns", short_ns)?;
                if long_ns < short_ns {
                    return Err(ServiceError::Swapped {
                        low: ("short_ns", short_ns),
                        high: ("long_ns", long_ns),
                    });
                }
                if !(0.0..=1.0).contains(&long_ratio) {
                    return outside("long_ratio", long_ratio, "from 0 to 1");
                }
                Ok(())
            }
            Service::Pareto { mean_ns, shape, max_ns } => {
                mean(mean_ns)?;
                if !(shape > 1.0 && shape < f64::INFINITY) {
                    return outside("shape", shape, "finite and above 1");
                }
                match max_ns {
                    Some(max_ns) if max_ns as f64 <= pareto_least_ns(mean_ns, shape) => {
                        Err(ServiceError::CutsAll {
                            max_ns,
                            least_ns: pareto_least_ns(mean_ns, shape),
                        })
                    }
                    _ => Ok(()),
                }
            }
            Service::Uniform { low_ns, high_ns } => {
                whole("low_ns", low_ns)?;
                if high_ns < low_ns {
                    return Err(ServiceError::Swapped {
                        low: ("low_ns", low_ns),
                        high: ("high_ns", high_ns),
                    });
                }
                Ok(())
            }
            Service::Weibull { mean_ns, shape } => {
                mean(mean_ns)?;
                if !(0.1..f64::INFINITY).contains(&shape) {
                    return outside("shape", shape, "finite and at least 0.1");
                }
                Ok(())
            }
            Service::Gamma { mean_ns, shape } => {
                mean(mean_ns)?;
                if !(0.1..=1000.0).contains(&shape) {
                    return outside("shape", shape, "from 0.1 to 1000");
                }
                Ok(())
            }
            Service::Hyperexponential { mean_ns, squared_cv } => {
                mean(mean_ns)?;
                if !(1.0..=1e4).contains(&squared_cv) {
                    return outside("squared_cv", squared_cv, "from 1 to 10000");
                }
                Ok(())
            }
            Service::Empirical(ref times) => {
                if times.is_empty() {
                    return Err(ServiceError::NoTimes);
                }
                match times.iter().position(|&ns| ns == 0) {
                    Some(index) => Err(ServiceError::ZeroSample { index }),
                    None => Ok(()),
                }
            }
        }
    }

    /// Draws one service time, at least 1 ns, from exactly one number of `stream` under every law.
    ///
    /// Prepares the law anew each time; who draws often keeps a [`Service::sampler`]. A service
    /// that fails [`Service::check`] draws nonsense of at least 1 ns and does not panic.
    pub fn draw(&self, stream: &mut Stream) -> Span {
        self.sampler().draw(stream)
    }

    /// The form of this law that draws fast.
    pub fn sampler(&self) -> Sampler {
        Sampler(match *self {
            Service::Constant { ns } => Law::Constant { ns: ns.max(1) },
            Service::Exponential { mean_ns } => Law::Exponential { mean_ns },
            Service::LogNormal { mean_ns, sigma } => {
                Law::LogNormal { mu: libm::log(mean_ns) - sigma * sigma / 2.0, sigma }
            }
            Service::Bimodal { short_ns, long_ns, long_ratio } => Law::Bimodal {
                short_ns: short_ns.max(1),
                long_ns: long_ns.max(1),
                long_below: threshold(long_ratio),
            },
            Service::Pareto { mean_ns, shape, max_ns } => {
                let least_ns = pareto_least_ns(mean_ns, shape);
                let beyond = max_ns
                    .map_or(0.0, |max_ns| libm::exp(-shape * libm::log(max_ns as f64 / least_ns)));
                Law::Pareto {
                    least_ns,
                    inverse_shape: 1.0 / shape,
                    beyond,
                    kept: 1.0 - beyond,
                    max_ns: max_ns.unwrap_or(u64::MAX),
                }
            }
            Service::Uniform { low_ns, high_ns } => Law::Uniform {
                low_ns: low_ns.max(1),
                count: high_ns.saturating_sub(low_ns).saturating_add(1),
            },
            Service::Weibull { mean_ns, shape } => Law::Weibull {
                scale_ns: mean_ns / libm::tgamma(1.0 + 1.0 / shape),
                inverse_shape: 1.0 / shape,
            },
            // The table cannot be made for shapes that `check` refuses.
            Service::Gamma { mean_ns, shape } if (0.1..=1000.0).contains(&shape) => Law::Gamma {
                scale_ns: mean_ns / shape,
                quantiles: Arc::new(Quantiles::of(&Gamma::new(shape))),
            },
            Service::Gamma { .. } => Law::Constant { ns: 1 },
            Service::Hyperexponential { mean_ns, squared_cv } => {
                let long_ratio = rarer_share(squared_cv);
                Law::Hyperexponential {
                    long_ratio,
                    short_ns: mean_ns / 2.0 / (1.0 - long_ratio),
                    long_ns: mean_ns / 2.0 / long_ratio,
                }
            }
            Service::Empirical(ref times) => Law::Empirical(times.clone()),
        })
    }

    /// The exact mean of the law in nanoseconds (of the law, before rounding to whole nanoseconds).
    pub fn mean_ns(&self) -> f64 {
        match *self {
            Service::Constant { ns } => ns as f64,
            Service::Exponential { mean_ns }
            | Service::LogNormal { mean_ns, .. }
            | Service::Weibull { mean_ns, .. }
            | Service::Gamma { mean_ns, .. }
            | Service::Hyperexponential { mean_ns, .. }
            | Service::Pareto { mean_ns, max_ns: None, .. } => mean_ns,
            Service::Bimodal { short_ns, long_ns, long_ratio } => {
                short_ns as f64 * (1.0 - long_ratio) + long_ns as f64 * long_ratio
            }
            Service::Pareto { mean_ns, shape, max_ns: Some(max_ns) } => {
                // expm1 and not pow: a truncation far out or a shape near 1 would cancel otherwise.
                let log_reach = libm::log(max_ns as f64 / pareto_least_ns(mean_ns, shape));
                mean_ns * libm::expm1((1.0 - shape) * log_reach) / libm::expm1(-shape * log_reach)
            }
            Service::Uniform { low_ns, high_ns } => low_ns as f64 / 2.0 + high_ns as f64 / 2.0,
            Service::Empirical(ref times) => {
                let sum: u128 = times.iter().map(|&ns| u128::from(ns)).sum();
                sum as f64 / times.len() as f64
            }
        }
    }

    /// The exact mean of the squared service time, in nanoseconds squared; infinite for a Pareto
    /// law of shape 2 or less without truncation.
    pub fn second_moment_ns2(&self) -> f64 {
        match *self {
            Service::Constant { ns } => square(ns as f64),
            Service::Exponential { mean_ns } => 2.0 * square(mean_ns),
            Service::LogNormal { mean_ns, sigma } => square(mean_ns) * libm::exp(sigma * sigma),
            Service::Bimodal { short_ns, long_ns, long_ratio } => {
                square(short_ns as f64) * (1.0 - long_ratio) + square(long_ns as f64) * long_ratio
            }
            Service::Pareto { mean_ns, shape, max_ns: None } => {
                if shape <= 2.0 {
                    return f64::INFINITY;
                }
                square(pareto_least_ns(mean_ns, shape)) * shape / (shape - 2.0)
            }
            Service::Pareto { mean_ns, shape, max_ns: Some(max_ns) } => {
                let least_ns = pareto_least_ns(mean_ns, shape);
                let log_reach = libm::log(max_ns as f64 / least_ns);
                let exponent = 2.0 - shape;
                // The limit of expm1(e L) / e as e goes to 0 is L.
                let growth = if exponent == 0.0 {
                    log_reach
                } else {
                    libm::expm1(exponent * log_reach) / exponent
                };
                square(least_ns) * shape * growth / -libm::expm1(-shape * log_reach)
            }
            Service::Uniform { low_ns, high_ns } => {
                let count = high_ns as f64 - low_ns as f64 + 1.0;
                square(self.mean_ns()) + (square(count) - 1.0) / 12.0
            }
            Service::Weibull { mean_ns, shape } => {
                let scale_ns = mean_ns / libm::tgamma(1.0 + 1.0 / shape);
                square(scale_ns) * libm::tgamma(1.0 + 2.0 / shape)
            }
            Service::Gamma { mean_ns, shape } => square(mean_ns) * (1.0 + 1.0 / shape),
            Service::Hyperexponential { mean_ns, squared_cv } => {
                square(mean_ns) * (1.0 + squared_cv)
            }
            Service::Empirical(ref times) => {
                let sum: f64 = times.iter().map(|&ns| square(ns as f64)).sum();
                sum / times.len() as f64
            }
        }
    }
}

/// A [`Service`] with everything computed that does not change between draws.
#[derive(Clone, PartialEq, Debug)]
pub struct Sampler(Law);

#[derive(Clone, PartialEq, Debug)]
enum Law {
    Constant {
        ns: u64,
    },
    Exponential {
        mean_ns: f64,
    },
    LogNormal {
        mu: f64,
        sigma: f64,
    },
    Bimodal {
        short_ns: u64,
        long_ns: u64,
        long_below: u64,
    },
    /// `beyond` is the probability that truncation removes, `kept` the rest.
    Pareto {
        least_ns: f64,
        inverse_shape: f64,
        beyond: f64,
        kept: f64,
        max_ns: u64,
    },
    Uniform {
        low_ns: u64,
        count: u64,
    },
    Weibull {
        scale_ns: f64,
        inverse_shape: f64,
    },
    Gamma {
        scale_ns: f64,
        quantiles: Arc<Quantiles>,
    },
    Hyperexponential {
        long_ratio: f64,
        short_ns: f64,
        long_ns: f64,
    },
    Empirical(Arc<[u64]>),
}

impl Sampler {
    /// Draws one service time, at least 1 ns, from exactly one number of `stream`.
    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> Span {
        self.at(stream.bits())
    }

    /// The service time that 64 random bits stand for, at least 1 ns: the inverse of the
    /// distribution at the probability that the bits spell.
    #[inline]
    pub fn at(&self, bits: u64) -> Span {
        // Constant service times are the common case of this crate and must not pay for the others.
        match self.0 {
            Law::Constant { ns } => Span::from_ns(ns),
            ref law => Span::from_ns(law.at(bits)),
        }
    }

    /// Whether all draws are the same, so that the random number may be left out.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.0, Law::Constant { .. })
    }
}

impl Law {
    fn at(&self, bits: u64) -> u64 {
        match *self {
            Law::Constant { ns } => ns,
            Law::Exponential { mean_ns } => nearest(mean_ns * -libm::log(unit(bits))),
            Law::LogNormal { mu, sigma } => {
                // Minus, so that small bits mean long service under every smooth law.
                nearest(libm::exp(mu - sigma * normal::quantile(unit(bits))))
            }
            Law::Bimodal { short_ns, long_ns, long_below } => {
                if bits >> 1 < long_below {
                    long_ns
                } else {
                    short_ns
                }
            }
            Law::Pareto { least_ns, inverse_shape, beyond, kept, max_ns } => {
                let survival = beyond + kept * unit(bits);
                let ns = least_ns * libm::exp(-inverse_shape * libm::log(survival));
                // The last bit of exp may step over the truncation.
                nearest(ns).min(max_ns)
            }
            Law::Uniform { low_ns, count } => low_ns.saturating_add(place(bits, count)),
            Law::Weibull { scale_ns, inverse_shape } => {
                nearest(scale_ns * libm::pow(-libm::log(unit(bits)), inverse_shape))
            }
            Law::Gamma { scale_ns, ref quantiles } => {
                nearest(scale_ns * quantiles.exceeded(unit(bits)))
            }
            Law::Hyperexponential { long_ratio, short_ns, long_ns } => {
                let drawn = unit(bits);
                let (mean_ns, rest) = if drawn < long_ratio {
                    (long_ns, drawn / long_ratio)
                } else {
                    (short_ns, ((drawn - long_ratio) / (1.0 - long_ratio)).max(unit(0)))
                };
                nearest(mean_ns * -libm::log(rest))
            }
            Law::Empirical(ref times) => {
                let index = place(bits, times.len() as u64);
                times.get(index as usize).map_or(1, |&ns| ns.max(1))
            }
        }
    }
}

/// The least time of a Pareto law whose mean, before truncation, is `mean_ns`.
fn pareto_least_ns(mean_ns: f64, shape: f64) -> f64 {
    mean_ns * (shape - 1.0) / shape
}

/// Share of the longer of two exponential laws that bring half of the work each.
fn rarer_share(squared_cv: f64) -> f64 {
    (1.0 - libm::sqrt((squared_cv - 1.0) / (squared_cv + 1.0))) / 2.0
}

fn square(x: f64) -> f64 {
    x * x
}

/// The nearest whole number of nanoseconds, at least 1. Casts saturate, and turn NaN into 0.
#[inline]
fn nearest(ns: f64) -> u64 {
    ((ns + 0.5) as u64).max(1)
}

/// Why a [`Service`] is no distribution of service times.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// A parameter is outside its range, infinite, or not a number.
    OutOfRange {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// A time in whole nanoseconds is zero.
    ZeroTime {
        /// Name of the field.
        field: &'static str,
    },
    /// The greater of two times is the lesser.
    Swapped {
        /// Name and value of what should be the lesser.
        low: (&'static str, u64),
        /// Name and value of what should be the greater.
        high: (&'static str, u64),
    },
    /// Truncation leaves nothing of a Pareto law.
    CutsAll {
        /// The truncation.
        max_ns: u64,
        /// The least time of the law.
        least_ns: f64,
    },
    /// An empirical law has no times.
    NoTimes,
    /// A time of an empirical law is zero.
    ZeroSample {
        /// Its place, from 0.
        index: usize,
    },
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ServiceError::OutOfRange { field, value, rule } => {
                write!(f, "{field} is {value}, must be {rule}")
            }
            ServiceError::ZeroTime { field } => write!(f, "{field} is 0, must be at least 1"),
            ServiceError::Swapped { low, high } => {
                write!(f, "{} is {}, below {} {}", high.0, high.1, low.0, low.1)
            }
            ServiceError::CutsAll { max_ns, least_ns } => {
                write!(f, "max_ns is {max_ns}, not above the least service time {least_ns}")
            }
            ServiceError::NoTimes => write!(f, "there are 0 measured service times"),
            ServiceError::ZeroSample { index } => {
                write!(f, "measured service time {index} is 0, must be at least 1")
            }
        }
    }
}

impl core::error::Error for ServiceError {}
