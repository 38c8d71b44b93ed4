//! What is good enough, in words: `p999_slowdown <= 20`, `p99 <= 50ms for "get"`, `stable`.

use crate::outcome::Outcome;
use crate::plan::PlanError;
use crate::subject::Subject;
use cavy_report::model::Rule;
use cavy_report::number::significant;
use std::fmt;

/// A percentile that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Percentile {
    /// Median.
    P50,
    /// 90th.
    P90,
    /// 95th.
    P95,
    /// 99th.
    P99,
    /// 99.9th.
    P999,
    /// 99.99th.
    P9999,
}

impl Percentile {
    /// All of them.
    pub const ALL: [Percentile; 6] = [
        Percentile::P50,
        Percentile::P90,
        Percentile::P95,
        Percentile::P99,
        Percentile::P999,
        Percentile::P9999,
    ];

    /// Those that tables of points have, rankings compare, and `run.precision_ratio` is about.
    pub const MAIN: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P999];

    /// As a ratio.
    pub fn ratio(self) -> f64 {
        match self {
            Percentile::P50 => 0.5,
            Percentile::P90 => 0.9,
            Percentile::P95 => 0.95,
            Percentile::P99 => 0.99,
            Percentile::P999 => 0.999,
            Percentile::P9999 => 0.9999,
        }
    }

    /// `p999`.
    pub fn name(self) -> &'static str {
        match self {
            Percentile::P50 => "p50",
            Percentile::P90 => "p90",
            Percentile::P95 => "p95",
            Percentile::P99 => "p99",
            Percentile::P999 => "p999",
            Percentile::P9999 => "p9999",
        }
    }

    /// `p99.9`.
    pub fn title(self) -> &'static str {
        match self {
            Percentile::P999 => "p99.9",
            Percentile::P9999 => "p99.99",
            other => other.name(),
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
        .find(|p| p.name() == percentile || p.title() == percentile)
        .ok_or_else(|| format!("has the unknown percentile `{percentile}`"))?;
    let quantity = [Quantity::Us, Quantity::Slowdown]
        .into_iter()
        .find(|q| q.name() == quantity)
        .ok_or_else(|| format!("has the unknown quantity `{quantity}`"))?;
    Ok((percentile, quantity))
}

/// What an objective can bound: a metric, in the words of the kind, and whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, as in `p99_us <= 3`.
    pub name: String,
    /// Whose, as after `for`; of all together when absent.
    pub whose: Option<String>,
}

impl Metric {
    /// `name` of all together.
    pub fn of_all(name: impl Into<String>) -> Metric {
        Metric { name: name.into(), whose: None }
    }

    /// `name` of `whose`.
    pub fn of(name: impl Into<String>, whose: impl Into<String>) -> Metric {
        Metric { name: name.into(), whose: Some(whose.into()) }
    }

    /// Is it the same, however it is written? `p99.9_us` is `p999_us`, and `"get"` is `get`.
    fn is(&self, name: &str, whose: Option<&str>) -> bool {
        let bare = |whose: &str| whose.replace([' ', '"'], "");
        let percentiles = percentile(&self.name).ok();
        (self.name == name || (percentiles.is_some() && percentiles == percentile(name).ok()))
            && self.whose.as_deref().map(bare) == whose.map(bare)
    }
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
        /// The limit, in the unit of the metric.
        limit: f64,
        /// The limit as it was written, where that had a unit of its own: `50ms`.
        said: Option<String>,
        /// Whose metric; of all together when absent.
        whose: Option<String>,
    },
}

impl Objective {
    /// Reads an objective of a plan, which must have what it names.
    pub(crate) fn read<S: Subject>(text: &str, plan: &S) -> Result<Objective, PlanError> {
        let checked = Objective::parse(text).and_then(|objective| {
            if let Objective::Bound { metric, side, limit, whose, .. } = &objective {
                plan.check_metric(metric, whose.as_deref())?;
                plan.check_limit(metric, *side, *limit)?;
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
    ///
    /// A limit may have a unit of time: `p99_us <= 50ms` is `p99_us <= 50000`, and so is
    /// `p99 <= 50ms`. `p999 <= 20x` is `p999_slowdown <= 20`.
    pub fn parse(text: &str) -> Result<Objective, String> {
        if text.trim() == "stable" {
            return Ok(Objective::Stable);
        }
        let side = if text.contains(">=") { Side::AtLeast } else { Side::AtMost };
        let (metric, rest) =
            text.split_once(side.sign()).ok_or("has no `<=` between metric and limit")?;
        let (written, whose) = match rest.split_once(" for ") {
            None => (rest.trim(), None),
            Some((limit, whose)) => (limit.trim(), Some(whose.trim().to_string())),
        };
        let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+');
        let scientific = written.replace('_', "").parse::<f64>().ok();
        let (number, unit) = match scientific {
            Some(_) => (written, ""),
            None => written.split_at(written.find(|c| !digits(c)).unwrap_or(written.len())),
        };
        let number: f64 = (number.replace('_', ""))
            .parse()
            .map_err(|_| format!("has no number but `{written}`"))?;
        let (metric, limit) = in_unit(metric.trim(), number, unit.trim())?;
        if !limit.is_finite() || limit <= 0.0 {
            return Err("must have a limit above 0".to_string());
        }
        let said = (!unit.is_empty()).then(|| written.to_string());
        Ok(Objective::Bound { metric, side, limit, said, whose })
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

    /// Does it bound `metric`?
    pub fn bounds(&self, metric: &Metric) -> bool {
        match self {
            Objective::Stable => false,
            Objective::Bound { metric: name, whose, .. } => metric.is(name, whose.as_deref()),
        }
    }

    /// A line at the limit, for plots of the metric.
    pub fn rule(&self) -> Option<Rule> {
        let Objective::Bound { metric, limit, said, .. } = self else { return None };
        let words = match said {
            Some(said) => said.clone(),
            None => match unit_of(metric) {
                "" => significant(*limit),
                "x" => format!("{}x", significant(*limit)),
                unit => format!("{} {unit}", significant(*limit)),
            },
        };
        Some(Rule::across(format!("objective: {words}"), *limit))
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
        let Objective::Bound { metric, side, limit, said, whose } = self else {
            return f.write_str("stable");
        };
        match said {
            Some(said) => write!(f, "{} {} {said}", without_unit(metric), side.sign())?,
            None => write!(f, "{metric} {} {limit}", side.sign())?,
        }
        match whose {
            Some(whose) => write!(f, " for {whose}"),
            None => Ok(()),
        }
    }
}

/// `p99` of `p99_us`, beside a limit whose unit says the rest.
fn without_unit(metric: &str) -> &str {
    let bare = metric.strip_suffix("_us").or_else(|| metric.strip_suffix("_slowdown"));
    let known =
        |bare: &&str| Percentile::ALL.iter().any(|p| *bare == p.name() || *bare == p.title());
    bare.filter(known).unwrap_or(metric)
}

/// The unit of a metric, which its name says.
pub(crate) fn unit_of(metric: &str) -> &'static str {
    const SUFFIXES: [(&str, &str); 7] = [
        ("_ns", "ns"),
        ("_us", "us"),
        ("_ms", "ms"),
        ("_slowdown", "x"),
        ("_gbps", "Gb/s"),
        ("_per_s", "per s"),
        ("_s", "s"),
    ];
    SUFFIXES.iter().find(|(suffix, _)| metric.ends_with(suffix)).map_or("", |(_, unit)| unit)
}

/// The metric that a limit with a unit bounds, by its full name, and the limit in its unit.
fn in_unit(metric: &str, number: f64, unit: &str) -> Result<(String, f64), String> {
    const UNITS: [(&str, f64); 5] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let ns = |name: &str| UNITS.iter().find(|(known, _)| *known == name).map(|(_, ns)| *ns);
    // `p99` alone is one that the unit of its limit says the rest of.
    let bare = Percentile::ALL.iter().any(|p| metric == p.name() || metric == p.title());
    if unit.is_empty() {
        return match bare {
            true => Err(format!(
                "does not say of what `{metric}` is: write `{metric} <= {number}ms`, or \
                 `{metric} <= {number}x` for slowdown"
            )),
            false => Ok((metric.to_string(), number)),
        };
    }
    if let Some(unit_ns) = ns(unit) {
        let name = if bare { format!("{metric}_us") } else { metric.to_string() };
        let of = name.split('_').find_map(ns);
        let own =
            of.ok_or_else(|| format!("has a limit in `{unit}`, but `{metric}` is no time"))?;
        // Rounded, so that 0.3ms is 300 us and not 299.99999999999994.
        let limit = number * (unit_ns / own);
        return Ok((name, (limit * 1e6).round() / 1e6));
    }
    match unit {
        "x" if bare => Ok((format!("{metric}_slowdown"), number)),
        "x" if metric.ends_with("_slowdown") => Ok((metric.to_string(), number)),
        "%" if metric.ends_with("_ratio") => {
            // Read and not divided, so that 99.9 % is 0.999 and not 0.9990000000000001.
            let ratio = format!("{number}e-2").parse().unwrap_or(number / 100.0);
            Ok((metric.to_string(), ratio))
        }
        _ => Err(format!("has the unknown unit `{unit}`; known are ns, us, ms, s, x and %")),
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
            "p99 <= 50ms",
            "p99.99 <= 20x for \"get\"",
            "irt_p99_ms <= 500us",
        ] {
            assert_eq!(Objective::parse(text).map(|o| o.to_string()), Ok(text.to_string()));
        }
        for text in ["p99_us <= 0", "p99_us < 3", "p99_us <= many", "p99_us"] {
            assert!(Objective::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_may_have_a_unit() {
        for (text, name, value) in [
            ("p99 <= 50ms", "p99_us", 50_000.0),
            ("p99_us <= 50 ms for get", "p99_us", 50_000.0),
            ("p99_us <= 0.3ms", "p99_us", 300.0),
            ("p95 <= 1.5s", "p95_us", 1_500_000.0),
            ("p99.99 <= 20x", "p99.99_slowdown", 20.0),
            ("irt_p99_ms <= 500us", "irt_p99_ms", 0.5),
            ("below_75ms_of_10 >= 0.8", "below_75ms_of_10", 0.8),
            ("goodput_ratio >= 90%", "goodput_ratio", 0.9),
            ("goodput_ratio >= 99.9%", "goodput_ratio", 0.999),
            ("p99_us <= 1e3", "p99_us", 1e3),
        ] {
            let Ok(Objective::Bound { metric, limit, .. }) = Objective::parse(text) else {
                panic!("{text}: {:?}", Objective::parse(text));
            };
            assert_eq!((metric.as_str(), limit), (name, value), "{text}");
        }
        let wrong = |text: &str| Objective::parse(text).expect_err(text);
        assert!(wrong("p99 <= 50").contains("write `p99 <= 50ms`"));
        assert!(wrong("goodput_gbps >= 5ms").contains("is no time"));
        assert!(wrong("p99 <= 50 parsecs").contains("unknown unit `parsecs`"));
        assert!(wrong("p99 <= -5ms").contains("above 0"));
    }

    #[test]
    fn a_metric_is_known_however_it_is_written() {
        let bounds = |text: &str, metric: &Metric| {
            Objective::parse(text).expect("an objective").bounds(metric)
        };
        let get = Metric::of("p999_us", "get");
        for text in ["p999_us <= 3", "p99_us <= 3 for get", "p999_us <= 3 for gets", "stable"] {
            assert!(!bounds(text, &get), "{text}");
        }
        for text in ["p999_us <= 3 for \"get\"", "p99.9 <= 50ms for get"] {
            assert!(bounds(text, &get), "{text}");
        }
        assert!(bounds(
            "p99_slowdown <= 4 for smallest 50 %",
            &Metric::of("p99_slowdown", "smallest 50%")
        ));
        assert!(bounds("goodput_gbps >= 5", &Metric::of_all("goodput_gbps")));
        assert!(!bounds("goodput_ratio >= 0.5", &Metric::of_all("goodput_gbps")));
    }

    #[test]
    fn percentiles_have_a_name_and_a_quantity() {
        assert_eq!(percentile("p999_us"), Ok((Percentile::P999, Quantity::Us)));
        assert_eq!(percentile("p99.99_us"), Ok((Percentile::P9999, Quantity::Us)));
        assert!(percentile("p98_us").is_err() && percentile("p99_ms").is_err());
        assert!(percentile("p99").is_err());
    }
}
