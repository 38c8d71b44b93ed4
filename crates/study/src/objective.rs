//! What is good enough, in words: `p999_slowdown <= 20`, `p99_us <= 500 for "get"`, `stable`.

use crate::outcome::Outcome;
use crate::plan::PlanError;
use crate::subject::Subject;
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

/// Latency, or latency over the least or mean that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Microseconds.
    Us,
    /// Multiples of what the kind divides by.
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

    /// Its unit in tables.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::Us => "us",
            Quantity::Slowdown => "x",
        }
    }
}

/// Reads `p99_us` or `p999_slowdown`: the metrics of kinds that measure latency. What is wrong, if
/// it is none.
pub fn percentile(metric: &str) -> Result<(Percentile, Quantity), String> {
    let (percentile, quantity) =
        metric.split_once('_').ok_or("does not name a percentile and a quantity")?;
    let percentile = Percentile::ALL
        .into_iter()
        .find(|p| p.name() == percentile)
        .ok_or_else(|| format!("has the unknown percentile `{percentile}`"))?;
    let quantity = [Quantity::Us, Quantity::Slowdown]
        .into_iter()
        .find(|q| q.name() == quantity)
        .ok_or_else(|| format!("has the unknown quantity `{quantity}`"))?;
    Ok((percentile, quantity))
}

/// Which side of a limit is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At most the limit.
    AtMost,
    /// At least the limit.
    AtLeast,
}

impl Side {
    fn sign(self) -> &'static str {
        match self {
            Side::AtMost => "<=",
            Side::AtLeast => ">=",
        }
    }
}

/// A bound, or nothing but that the system keeps up.
#[derive(Clone, Debug, PartialEq)]
pub enum Objective {
    /// It keeps up.
    Stable,
    /// A metric is bounded, and it keeps up.
    Bound {
        /// The metric, in the words of the kind.
        metric: String,
        /// Which side of the limit is good.
        side: Side,
        /// The limit.
        limit: f64,
        /// Whose metric; of all together when absent.
        whose: Option<String>,
    },
}

impl Objective {
    /// Reads an objective of a plan, which must have what it names.
    pub(crate) fn read<S: Subject>(text: &str, plan: &S) -> Result<Objective, PlanError> {
        let checked = Objective::parse(text).and_then(|objective| {
            if let Objective::Bound { metric, whose, .. } = &objective {
                plan.check_metric(metric, whose.as_deref())?;
            }
            Ok(objective)
        });
        checked.map_err(|what| {
            let wrong = PlanError::text(format!("objective `{text}` {what}"));
            S::ABOUT.objectives.iter().fold(wrong, |wrong, hint| wrong.hint(*hint))
        })
    }

    /// Reads `stable` or `METRIC <= LIMIT [for WHOM]`, with `>=` for metrics of which more is
    /// better. What is wrong, if it is none.
    pub fn parse(text: &str) -> Result<Objective, String> {
        if text.trim() == "stable" {
            return Ok(Objective::Stable);
        }
        let side = if text.contains(">=") { Side::AtLeast } else { Side::AtMost };
        let (metric, rest) =
            text.split_once(side.sign()).ok_or("has no `<=` between metric and limit")?;
        let (limit, whose) = match rest.split_once(" for ") {
            None => (rest, None),
            Some((limit, whose)) => (limit, Some(whose.trim().to_string())),
        };
        let limit: f64 = limit
            .trim()
            .replace('_', "")
            .parse()
            .map_err(|_| format!("has no number but `{}`", limit.trim()))?;
        if !limit.is_finite() || limit <= 0.0 {
            return Err("must have a limit above 0".to_string());
        }
        Ok(Objective::Bound { metric: metric.trim().to_string(), side, limit, whose })
    }

    /// Is this good enough? `None` when that cannot be told.
    pub fn holds<S: Subject>(&self, outcome: &Outcome<S::Data>) -> Option<bool> {
        use crate::outcome::Standing;
        match outcome.standing {
            Standing::Unstable => return Some(false),
            Standing::TooShort => return None,
            Standing::Stable => {}
        }
        // What is not what its name says meets nothing under that name.
        if outcome.unformed.is_some() {
            return None;
        }
        match self {
            Objective::Stable => Some(true),
            Objective::Bound { side, limit, .. } => {
                let value = self.value::<S>(outcome)?;
                Some(match side {
                    Side::AtMost => value <= *limit,
                    Side::AtLeast => value >= *limit,
                })
            }
        }
    }

    /// The value that is bounded; `None` when there is none or with too few samples.
    pub fn value<S: Subject>(&self, outcome: &Outcome<S::Data>) -> Option<f64> {
        match self {
            Objective::Stable => None,
            Objective::Bound { metric, whose, .. } => S::metric(outcome, metric, whose.as_deref()),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Objective::Bound { metric, side, limit, whose } = self else {
            return f.write_str("stable");
        };
        write!(f, "{metric} {} {limit}", side.sign())?;
        match whose {
            Some(whose) => write!(f, " for {whose}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_is_said() {
        for text in [
            "stable",
            "p99_slowdown <= 4",
            "p99_slowdown <= 4.5 for smallest 50%",
            "p99_us <= 500 for \"get\"",
            "goodput_ratio >= 0.9",
        ] {
            assert_eq!(Objective::parse(text).map(|o| o.to_string()), Ok(text.to_string()));
        }
        for text in ["p99_us <= 0", "p99_us < 3", "p99_us <= many", "p99_us"] {
            assert!(Objective::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentiles_have_a_name_and_a_quantity() {
        assert_eq!(percentile("p999_us"), Ok((Percentile::P999, Quantity::Us)));
        assert!(percentile("p98_us").is_err() && percentile("p99_ms").is_err());
        assert!(percentile("p99").is_err());
    }
}
