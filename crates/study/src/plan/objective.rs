//! What is good enough, in words: `p999_slowdown <= 20`, `p99_us <= 500 for "get"`.

use super::error::PlanError;
use std::fmt;

/// A percentile that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Percentile {
    /// Median.
    P50,
    /// 99th.
    P99,
    /// 99.9th.
    P999,
}

impl Percentile {
    /// All of them.
    pub const ALL: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P999];

    /// As a ratio.
    pub fn ratio(self) -> f64 {
        match self {
            Percentile::P50 => 0.5,
            Percentile::P99 => 0.99,
            Percentile::P999 => 0.999,
        }
    }

    /// `p999`.
    pub fn name(self) -> &'static str {
        match self {
            Percentile::P50 => "p50",
            Percentile::P99 => "p99",
            Percentile::P999 => "p999",
        }
    }

    /// `p99.9`.
    pub fn title(self) -> &'static str {
        match self {
            Percentile::P50 => "p50",
            Percentile::P99 => "p99",
            Percentile::P999 => "p99.9",
        }
    }
}

/// Latency, or latency over the mean service time of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Microseconds.
    Us,
    /// Multiples of the type's mean service time ([persephone 4.3]).
    Slowdown,
}

impl Quantity {
    /// `us`, `slowdown`.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Us => "us",
            Quantity::Slowdown => "slowdown",
        }
    }
}

/// A bound on a percentile.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// Which percentile.
    pub percentile: Percentile,
    /// Of what.
    pub quantity: Quantity,
    /// Of which type; of all requests together when absent.
    pub kind: Option<String>,
    /// At most this.
    pub limit: f64,
}

impl Objective {
    /// Reads `PERCENTILE_QUANTITY <= LIMIT [for "TYPE"]`.
    pub fn parse(text: &str) -> Result<Objective, PlanError> {
        let wrong = |what: &str| {
            PlanError::text(format!("objective `{text}` {what}"))
                .hint("write it as `p999_slowdown <= 20` or `p99_us <= 500 for \"get\"`")
                .hint("percentiles are p50, p99, p999; quantities are us, slowdown")
        };
        let (metric, rest) =
            text.split_once("<=").ok_or_else(|| wrong("has no `<=` between metric and limit"))?;
        let (percentile, quantity) = metric
            .trim()
            .split_once('_')
            .ok_or_else(|| wrong("does not name a percentile and a quantity"))?;
        let percentile = Percentile::ALL
            .into_iter()
            .find(|p| p.name() == percentile)
            .ok_or_else(|| wrong(&format!("has the unknown percentile `{percentile}`")))?;
        let quantity = [Quantity::Us, Quantity::Slowdown]
            .into_iter()
            .find(|q| q.name() == quantity)
            .ok_or_else(|| wrong(&format!("has the unknown quantity `{quantity}`")))?;
        let (limit, kind) = match rest.split_once(" for ") {
            None => (rest, None),
            Some((limit, kind)) => (limit, Some(kind.trim().trim_matches('"').to_string())),
        };
        let limit: f64 = limit
            .trim()
            .replace('_', "")
            .parse()
            .map_err(|_| wrong(&format!("has no number but `{}`", limit.trim())))?;
        if !limit.is_finite() || limit <= 0.0 {
            return Err(wrong("must have a limit above 0"));
        }
        Ok(Objective { percentile, quantity, kind, limit })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percentile, quantity) = (self.percentile.name(), self.quantity.name());
        write!(f, "{percentile}_{quantity} <= {}", self.limit)?;
        match &self.kind {
            Some(kind) => write!(f, " for \"{kind}\""),
            None => Ok(()),
        }
    }
}
