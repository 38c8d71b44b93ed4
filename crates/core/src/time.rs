//! Time as machines see it: integer nanoseconds on one node's own clock.
//!
//! Integers because results must agree to the last bit between targets, and nanoseconds because a
//! microsecond is longer than the requests this project is about.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// A point in time: nanoseconds on this node's own clock since the world's epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(u64);

impl Instant {
    /// The world's epoch.
    pub const ZERO: Instant = Instant(0);
    /// Later than anything that happens.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// `ns` nanoseconds after the epoch.
    pub const fn from_ns(ns: u64) -> Self {
        Instant(ns)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: Instant) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span there is (584 years).
    pub const MAX: Span = Span(u64::MAX);

    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Span(ns)
    }

    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Span(us * 1_000)
    }

    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Span(ms * 1_000_000)
    }

    /// The nearest whole number of nanoseconds to `us` microseconds; `None` when negative, not a
    /// number, or longer than [`Span::MAX`].
    pub fn try_from_us(us: f64) -> Option<Self> {
        let ns = libm::round(us * 1e3);
        (ns >= 0.0 && ns < u64::MAX as f64).then_some(Span(ns as u64))
    }

    /// The length in nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The length in microseconds.
    pub const fn as_us(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// This span less `other`; zero when `other` is longer.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// `factor` times this span; [`Span::MAX`] when that does not fit.
    pub const fn saturating_mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }

    /// True for [`Span::ZERO`].
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<Span> for Instant {
    type Output = Instant;
    /// Saturates at [`Instant::NEVER`], so that "now plus for ever" is a legal deadline.
    fn add(self, span: Span) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    /// # Panics
    /// When `other` is longer: a span is never negative, and a caller who expects that it may be
    /// uses [`Span::saturating_sub`].
    fn sub(self, other: Span) -> Span {
        assert!(self.0 >= other.0, "a span is never negative: {} - {} ns", self.0, other.0);
        Span(self.0 - other.0)
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, factor: u64) -> Span {
        self.saturating_mul(factor)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 1_000 => write!(f, "{ns} ns"),
            ns if ns < 1_000_000 => write!(f, "{} us", ns as f64 / 1e3),
            ns if ns < 1_000_000_000 => write!(f, "{} ms", ns as f64 / 1e6),
            ns => write!(f, "{} s", ns as f64 / 1e9),
        }
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Span(self.0))
    }
}
