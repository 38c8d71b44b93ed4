//! Of which type a request is: shares, and the service time of each type.

use crate::bits::threshold;
use crate::service::{Sampler, Service, ServiceError};
use alloc::vec::Vec;
use cavy_core::Stream;
use core::fmt;

/// One type of requests `[persephone 2.2]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Fraction of the requests that are of this type, from 0 to 1. A type of share 0 never arrives
    /// but keeps its index, so that phases of one workload can let types come and go.
    pub share: f64,
    /// How long requests of this type take.
    pub service: Service,
}

/// The types that arrive together and how often each does `[persephone 4.1]`.
///
/// Always valid: whoever holds a mix has passed [`Mix::new`].
#[derive(Clone, PartialEq, Debug)]
pub struct Mix {
    types: Vec<Type>,
    /// For each type but the last, the number that `bits >> 1` lies below when the request is of
    /// that type or of one before it. Never falls.
    thresholds: Vec<u64>,
    samplers: Vec<Sampler>,
    /// What the shares add up to: 1 but for rounding.
    sum: f64,
}

/// The most types of a mix.
pub const TYPES_MAX: usize = 64;

/// How far from 1 the shares of a mix may add up.
pub const SUM_TOLERANCE: f64 = 1e-6;

impl Mix {
    /// A mix of 1 to [`TYPES_MAX`] types, whose shares are 0 or more and add up to 1 within
    /// [`SUM_TOLERANCE`]; they are then scaled to add up to 1.
    pub fn new(types: Vec<Type>) -> Result<Mix, MixError> {
        if types.is_empty() {
            return Err(MixError::NoTypes);
        }
        if types.len() > TYPES_MAX {
            return Err(MixError::TooManyTypes { count: types.len() });
        }
        for (kind, Type { share, service }) in types.iter().enumerate() {
            if !(0.0..f64::INFINITY).contains(share) {
                return Err(MixError::Share { kind, share: *share });
            }
            service.check().map_err(|error| MixError::Service { kind, error })?;
        }
        let sum: f64 = types.iter().map(|one| one.share).sum();
        // No share is NaN by now, and an infinite sum fails here.
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(MixError::Sum { sum });
        }
        let last_seen = types.iter().rposition(|one| one.share > 0.0).unwrap_or(0);
        let mut before = 0.0;
        let thresholds = types[..types.len() - 1]
            .iter()
            .enumerate()
            .map(|(kind, one)| {
                before += one.share;
                // Rounding must not leave a sliver for the types of share 0 at the end.
                if kind >= last_seen { threshold(1.0) } else { threshold(before / sum) }
            })
            .collect();
        let samplers = types.iter().map(|one| one.service.sampler()).collect();
        Ok(Mix { types, thresholds, samplers, sum })
    }

    /// The types; the index is what requests carry as their kind.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// Mean service time over all types, in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.average(Service::mean_ns)
    }

    /// Mean squared service time over all types, in nanoseconds squared; may be infinite.
    pub fn second_moment_ns2(&self) -> f64 {
        self.average(Service::second_moment_ns2)
    }

    /// Variance of the service time over all types, divided by the squared mean: 0 when all
    /// requests take equally long, 1 for the exponential law, 138 for Extreme Bimodal `[persephone
    /// 4.1]`.
    pub fn squared_cv(&self) -> f64 {
        let mean_ns = self.mean_ns();
        self.second_moment_ns2() / (mean_ns * mean_ns) - 1.0
    }

    /// The rate at which `workers` workers are busy all the time, in requests per second: load 1
    /// `[persephone 4.2]`.
    pub fn peak_rate_per_s(&self, workers: u32) -> f64 {
        f64::from(workers) * 1e9 / self.mean_ns()
    }

    /// Draws the type of one request: an index into [`Mix::types`], from exactly one number of
    /// `stream`, however many types there are.
    #[inline]
    pub fn draw_kind(&self, stream: &mut Stream) -> u16 {
        let point = stream.bits() >> 1;
        match *self.thresholds {
            [first] => u16::from(point >= first),
            ref all => all.partition_point(|&below| point >= below) as u16,
        }
    }

    /// The sampler of each type.
    #[inline]
    pub(crate) fn samplers(&self) -> &[Sampler] {
        &self.samplers
    }

    fn average(&self, of: impl Fn(&Service) -> f64) -> f64 {
        // A share of 0 is left out: it would turn an infinite moment into NaN.
        let seen = self.types.iter().filter(|one| one.share > 0.0);
        seen.map(|one| one.share / self.sum * of(&one.service)).sum()
    }
}

/// Why types make no [`Mix`]. Types are counted from 0.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum MixError {
    /// There is no type at all.
    NoTypes,
    /// There are more than [`TYPES_MAX`] types.
    TooManyTypes {
        /// How many there are.
        count: usize,
    },
    /// A share is negative, infinite or not a number.
    Share {
        /// Index of the type.
        kind: usize,
        /// Its share.
        share: f64,
    },
    /// The shares do not add up to 1.
    Sum {
        /// What they add up to.
        sum: f64,
    },
    /// The service time of a type is no distribution.
    Service {
        /// Index of the type.
        kind: usize,
        /// What is wrong with it.
        error: ServiceError,
    },
}

impl fmt::Display for MixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            MixError::NoTypes => write!(f, "there are 0 types, must be at least 1"),
            MixError::TooManyTypes { count } => {
                write!(f, "there are {count} types, must be at most {TYPES_MAX}")
            }
            MixError::Share { kind, share } => {
                write!(f, "share of type {kind} is {share}, must be from 0 to 1")
            }
            MixError::Sum { sum } => write!(f, "sum of the shares is {sum}, must be 1"),
            MixError::Service { kind, error } => write!(f, "service of type {kind}: {error}"),
        }
    }
}

impl core::error::Error for MixError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            MixError::Service { error, .. } => Some(error),
            _ => None,
        }
    }
}
