//! What is good enough on a network, in words: `p99_slowdown <= 4 for smallest 50%`, `stable`.

use super::result::{NetResult, NetSummary, Quantile};
use crate::plan::PlanError;
use crate::plan::objective::{Percentile, Quantity};
use std::fmt;

/// Whose percentile is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Whose {
    /// All messages'.
    All,
    /// This share of them, the smallest.
    Smallest(f64),
    /// This share of them, the largest.
    Largest(f64),
}

/// A bound, or nothing but that the network keeps up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NetObjective {
    /// All messages arrive and the backlog does not grow.
    Stable,
    /// A percentile is at most so much.
    Bound {
        /// Which percentile.
        percentile: Percentile,
        /// Of what.
        quantity: Quantity,
        /// Of which messages.
        whose: Whose,
        /// At most this.
        limit: f64,
    },
}

impl NetObjective {
    /// Reads `stable` or `PERCENTILE_QUANTITY <= LIMIT [for smallest|largest SHARE%]`.
    pub fn parse(text: &str) -> Result<NetObjective, PlanError> {
        if text.trim() == "stable" {
            return Ok(NetObjective::Stable);
        }
        let wrong = |what: &str| {
            PlanError::text(format!("objective `{text}` {what}"))
                .hint(
                    "write it as `p99_slowdown <= 4 for smallest 50%`, `p99_us <= 200` or `stable`",
                )
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
        let (limit, whose) = match rest.split_once(" for ") {
            None => (rest, Whose::All),
            Some((limit, whose)) => {
                (limit, whose_of(whose).ok_or_else(|| wrong(&format!("is for `{whose}`")))?)
            }
        };
        let limit: f64 = limit
            .trim()
            .replace('_', "")
            .parse()
            .map_err(|_| wrong(&format!("has no number but `{}`", limit.trim())))?;
        if !limit.is_finite() || limit <= 0.0 {
            return Err(wrong("must have a limit above 0"));
        }
        Ok(NetObjective::Bound { percentile, quantity, whose, limit })
    }

    /// The value that is bounded, and the bound; `None` with too few messages.
    pub fn bounded(&self, result: &NetResult) -> Option<(f64, f64)> {
        let NetObjective::Bound { percentile, quantity, whose, limit } = *self else {
            return Some((result.goodput_gbps, f64::INFINITY));
        };
        let summary = match whose {
            Whose::All => &result.overall,
            Whose::Smallest(share) => &result.smallest_to(share)?.summary,
            Whose::Largest(share) => {
                let near = |slice: &&super::result::SizeSlice| (slice.share - share).abs();
                &result.largest.iter().min_by(|a, b| near(a).total_cmp(&near(b)))?.summary
            }
        };
        let quantile = of(summary, percentile, quantity)?;
        Some((quantile.supported()?.value, limit))
    }
}

fn of(summary: &NetSummary, percentile: Percentile, quantity: Quantity) -> Option<&Quantile> {
    match (percentile, quantity) {
        (Percentile::P50, Quantity::Us) => summary.p50_us.as_ref(),
        (Percentile::P99, Quantity::Us) => summary.p99_us.as_ref(),
        (Percentile::P999, Quantity::Us) => summary.p999_us.as_ref(),
        (Percentile::P50, Quantity::Slowdown) => summary.p50_slowdown.as_ref(),
        (Percentile::P99, Quantity::Slowdown) => summary.p99_slowdown.as_ref(),
        (Percentile::P999, Quantity::Slowdown) => summary.p999_slowdown.as_ref(),
    }
}

/// Reads `smallest 50%` or `largest 1%`.
fn whose_of(text: &str) -> Option<Whose> {
    let (which, share) = text.trim().split_once(' ')?;
    let per_cent: f64 = share.trim().strip_suffix('%')?.trim().parse().ok()?;
    let smallest = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0];
    match which {
        "smallest" if smallest.contains(&per_cent) => Some(Whose::Smallest(per_cent / 100.0)),
        "largest" if [50.0, 10.0, 1.0].contains(&per_cent) => {
            Some(Whose::Largest(per_cent / 100.0))
        }
        _ => None,
    }
}

impl fmt::Display for NetObjective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NetObjective::Bound { percentile, quantity, whose, limit } = self else {
            return f.write_str("stable");
        };
        write!(f, "{}_{} <= {limit}", percentile.name(), quantity.name())?;
        let per_cent = |share: f64| (share * 1e4).round() / 1e2;
        match *whose {
            Whose::All => Ok(()),
            Whose::Smallest(share) => write!(f, " for smallest {}%", per_cent(share)),
            Whose::Largest(share) => write!(f, " for largest {}%", per_cent(share)),
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
            "p999_us <= 200 for largest 1%",
        ] {
            assert_eq!(NetObjective::parse(text).map(|o| o.to_string()), Ok(text.to_string()));
        }
        for text in ["p98_us <= 1", "p99_us <= 0", "p99_us < 3", "p99_us <= 3 for smallest 33%"] {
            assert!(NetObjective::parse(text).is_err(), "{text}");
        }
    }
}
