//! What a run must come to, so that a script can stop on it: `--expect 'p99 <= 5ms'`.

use cavy_live::load::Report;
use cavy_live::load::report::{Percentiles, TypeReport};
use cavy_report::number::significant;
use cavy_study::objective::{Objective, Side};
use serde::Serialize;

/// What must hold.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// As it was written.
    text: String,
    of: Of,
    side: Side,
    limit: f64,
    /// The type; every type when absent.
    whose: Option<String>,
}

/// What is bounded.
#[derive(Clone, Copy, Debug)]
enum Of {
    Latency(Figure),
    /// Answered requests over sent ones.
    Answered,
    /// Requests sent in a second, all types together.
    Sent,
}

/// One of the figures of a type.
type Figure = fn(&Percentiles) -> Option<f64>;

const LATENCIES: [(&str, Figure); 7] = [
    ("mean_us", |of| of.mean),
    ("p50_us", |of| of.p50),
    ("p90_us", |of| of.p90),
    ("p99_us", |of| of.p99),
    ("p999_us", |of| of.p999),
    ("p99.9_us", |of| of.p999),
    ("max_us", |of| of.max),
];

/// Reads `METRIC <= LIMIT [for TYPE]`.
pub fn expectation(text: &str) -> Result<Expectation, String> {
    let (metric, side, limit, whose) = match Objective::parse(text)? {
        Objective::Bound { metric, side, limit, whose, .. } => (metric, side, limit, whose),
        Objective::Stable => return Err("a run has percentiles and not `stable`".to_string()),
    };
    let latency = LATENCIES.iter().find(|(name, _)| *name == metric);
    let of = match (latency, metric.as_str()) {
        (Some((_, of)), _) => Of::Latency(*of),
        (None, "answered_ratio") => Of::Answered,
        (None, "sent_per_s") => Of::Sent,
        _ => {
            return Err(format!(
                "`{metric}` is not measured; there are mean_us, p50_us, p90_us, p99_us, p999_us, \
                 max_us, answered_ratio and sent_per_s, and `p99 <= 5ms` is `p99_us <= 5000`"
            ));
        }
    };
    if matches!(of, Of::Sent) && whose.is_some() {
        return Err("`sent_per_s` is of all types together; leave out `for`".to_string());
    }
    let whose = whose.map(|name| name.trim_matches('"').to_string());
    Ok(Expectation { text: text.trim().to_string(), of, side, limit, whose })
}

/// What became of an expectation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// As it was written.
    pub expected: String,
    /// Whether it holds; `None` when that cannot be told.
    pub holds: Option<bool>,
    /// What was found, in words.
    pub found: String,
}

impl Judged {
    /// One line.
    pub fn line(&self) -> String {
        let word = match self.holds {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "CANNOT BE TOLD",
        };
        format!("expected {}: {word}, {}", self.expected, self.found)
    }
}

impl Expectation {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The type that it is about, where it says one.
    pub fn whose(&self) -> Option<&str> {
        self.whose.as_deref()
    }

    /// Is `value` good enough? A limit computed as 99.9 / 100 must not miss 0.999.
    fn allows(&self, value: f64) -> bool {
        let slack = 1e-9 * self.limit;
        match self.side {
            Side::AtMost => value <= self.limit + slack,
            Side::AtLeast => value >= self.limit - slack,
        }
    }

    /// Does it hold for `report`?
    pub fn judge(&self, report: &Report) -> Judged {
        let mut verdicts = Vec::new();
        let mut found = Vec::new();
        let mut note = |name: &str, value: Option<f64>, words: fn(f64) -> String| {
            verdicts.push(value.map(|value| self.allows(value)));
            let value = value.map_or("no figure".to_string(), words);
            found.push(format!("{name}{value}"));
        };
        let named = |kind: &&TypeReport| self.whose.as_ref().is_none_or(|name| *name == kind.name);
        let types = || report.types.iter().filter(named);
        match self.of {
            Of::Latency(of) => types().for_each(|kind| {
                let value = kind.response_us.as_ref().and_then(of);
                note(&format!("{} has ", kind.name), value, time);
            }),
            Of::Answered => types().for_each(|kind| {
                let ratio = kind.answered as f64 / kind.sent as f64;
                let ratio = (kind.sent > 0).then_some(ratio);
                note(&format!("{} has ", kind.name), ratio, percent);
            }),
            Of::Sent => note("", Some(report.sent_per_s), |rate| format!("{rate:.1} per s")),
        }
        let holds = if verdicts.contains(&Some(false)) {
            Some(false)
        } else if verdicts.contains(&None) || verdicts.is_empty() {
            None
        } else {
            Some(true)
        };
        Judged { expected: self.text.clone(), holds, found: found.join(", ") }
    }
}

/// A time in the unit that suits it.
pub fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us >= 1e6 => (us / 1e6, "s"),
        us if us >= 1e3 => (us / 1e3, "ms"),
        us => (us, "us"),
    };
    format!("{} {unit}", significant(value))
}

/// A share to the thousandth of a percent, rounded down: only all of them are 100 %.
fn percent(ratio: f64) -> String {
    let text = format!("{:.3}", (ratio * 1e5 + 1e-6).floor() / 1e3);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_read_with_units_and_types() {
        let read = |text: &str| expectation(text).expect(text);
        let one = read("p99 <= 5ms for get");
        assert!(matches!(one.of, Of::Latency(_)) && one.limit == 5_000.0);
        assert_eq!(one.whose(), Some("get"));
        let answered = read("answered_ratio >= 99.9%");
        assert!(answered.allows(0.999) && !answered.allows(0.998_999));
        assert_eq!(read("sent_per_s >= 990").side, Side::AtLeast);
        assert_eq!(read("max_us <= 1s").limit, 1e6);
        for wrong in ["p98_us <= 4", "p99_slowdown <= 4", "stable", "p99 <= 4", "p99_us < 3"] {
            assert!(expectation(wrong).is_err(), "{wrong}");
        }
        assert!(expectation("sent_per_s >= 9 for get").is_err());
        assert_eq!([time(11_400.0), time(0.5), time(2e6)], ["11.4 ms", "0.5 us", "2 s"]);
        assert_eq!([1.0, 0.999, 0.999_999_9].map(percent), ["100 %", "99.9 %", "99.999 %"]);
    }
}
