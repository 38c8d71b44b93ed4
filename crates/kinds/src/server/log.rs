//! Recorded requests in logs: access logs of nginx and Apache, and JSON, one object a line.
//!
//! A log has its lines in the order in which requests ended, often with times to the second. What
//! is read is put in the order of arrival, and requests of one second are spread evenly over it.

use super::plan::{Stamp, TraceFormat, TracePlan};
use crate::moment::{Unit, log_ns, time_ns};
use cavy_study::plan::{Files, PlanError};
use serde_json::Value;
use std::io::{BufRead, BufReader};

/// A fault in the file called `name`.
pub(super) fn wrong(name: &str, what: &str) -> PlanError {
    PlanError::text(what).in_file(name)
}

const SECOND_NS: u64 = 1_000_000_000;

/// One request as a log has it: arrival and busy time in ns, and the name of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// When it arrived, since 1970 or since whatever the log counts from.
    pub at_ns: u64,
    /// Its type.
    pub name: String,
    /// How long it took.
    pub service_ns: u64,
}

/// The requests of a log, by arrival.
pub fn requests(plan: &TracePlan, files: &Files) -> Result<Vec<Logged>, PlanError> {
    let name = files.shown(&plan.file);
    let opened =
        files.open(&plan.file).map_err(|error| files.unreadable(&plan.file, "trace", &error))?;
    let mut all = Vec::new();
    let mut coarse = true;
    for (index, line) in BufReader::new(opened).lines().enumerate() {
        let number = index + 1;
        let line = line.map_err(|error| wrong(&name, &format!("line {number}: {error}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let read = match plan.format {
            TraceFormat::Json => json(plan, &line),
            _ => combined(plan, &line),
        };
        let mut one = read
            .map_err(|(what, cure)| wrong(&name, &format!("line {number}: {what}")).hint(cure))?;
        coarse &= one.at_ns.is_multiple_of(SECOND_NS);
        if plan.stamp == Stamp::End {
            one.at_ns = one.at_ns.saturating_sub(one.service_ns);
        }
        all.push(one);
    }
    if coarse {
        spread(&mut all, plan.stamp);
    }
    all.sort_by_key(|one| one.at_ns);
    Ok(all)
}

/// Requests whose lines name the same second are spread evenly over it, in the order of their
/// lines: a burst at the beginning of each second is nothing that happened.
fn spread(all: &mut [Logged], stamp: Stamp) {
    let second = |one: &Logged| match stamp {
        Stamp::Arrival => one.at_ns / SECOND_NS,
        // What was subtracted is added again.
        Stamp::End => (one.at_ns + one.service_ns) / SECOND_NS,
    };
    let mut from = 0;
    while from < all.len() {
        let same = second(&all[from]);
        let count = all[from..].iter().take_while(|one| second(one) == same).count();
        for (index, one) in all[from..from + count].iter_mut().enumerate() {
            one.at_ns += SECOND_NS * (2 * index as u64 + 1) / (2 * count as u64);
        }
        from += count;
    }
}

/// What is wrong with a line, and the cure.
type Fault = (String, &'static str);

/// A line of an access log with the time that the request took at its end.
fn combined(plan: &TracePlan, line: &str) -> Result<Logged, Fault> {
    const SHAPE: &str = "a line is like `10.0.0.7 - - [23/Nov/2026:19:54:46 +0000] \"GET /users/7 \
                         HTTP/1.1\" 200 512 \"-\" \"curl\" 0.012`; for other formats write a CSV \
                         file";
    let not = |what: &str| (what.to_string(), SHAPE);
    let between = |open: char, close: char, text: &'_ str| -> Option<(usize, usize)> {
        let from = text.find(open)? + 1;
        Some((from, from + text[from..].find(close)?))
    };
    let (from, until) = between('[', ']', line).ok_or_else(|| not("no time in brackets"))?;
    let moment = &line[from..until];
    let at_ns = log_ns(moment).ok_or_else(|| not(&format!("`{moment}` is no time of a log")))?;
    let rest = &line[until + 1..];
    let (from, until) = between('"', '"', rest).ok_or_else(|| not("no request in quotes"))?;
    let request = &rest[from..until];
    let mut words = request.split_whitespace();
    let (method, target) = (words.next().unwrap_or("-"), words.next().unwrap_or("-"));
    let status = rest[until + 1..].split_whitespace().next().unwrap_or("-");
    let name = match plan.kind.as_str() {
        "" | "path" => {
            let path = target.split(['?', '#']).next().unwrap_or(target);
            let first = path.split('/').find(|part| !part.is_empty()).unwrap_or("");
            format!("/{first}")
        }
        "method" => method.to_string(),
        "status" => status.to_string(),
        other => {
            let what = format!("`type = \"{other}\"` is nothing that an access log has");
            return Err((what, "write `path` (its first part), `method` or `status`"));
        }
    };
    let took = line.rsplit(char::is_whitespace).next().unwrap_or("").trim_matches('"');
    let service_ns = took_ns(took, plan.unit).map_err(|_| {
        (
            format!("`{took}` at its end is not how long the request took"),
            "let the log end with it: `$request_time` in nginx's log_format (unit = \"s\"), `%D` \
             in Apache's LogFormat (unit = \"us\")",
        )
    })?;
    Ok(Logged { at_ns, name, service_ns })
}

/// How long a request took. nginx writes thousandths, so that what is faster is `0.000`: the middle
/// of that is taken, half of the last place. Whole seconds are too coarse for it.
fn took_ns(text: &str, unit: Unit) -> Result<u64, String> {
    let places = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let is_zero = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    if is_zero && text.contains('0') && (places > 0 || unit != Unit::S) {
        return Ok((unit.ns() / 10f64.powi(places as i32) / 2.0).max(1.0) as u64);
    }
    time_ns(text, unit, 1)
}

/// A line that is a JSON object. A key may lead into objects: `http.duration_ms`.
fn json(plan: &TracePlan, line: &str) -> Result<Logged, Fault> {
    let object: Value = serde_json::from_str(line)
        .map_err(|error| (format!("no JSON: {error}"), "each line is one JSON object"))?;
    let find = |key: &str| {
        let inside = || key.split('.').try_fold(&object, |value, part| value.get(part));
        let found = object.get(key).or_else(inside).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        found.ok_or_else(|| (format!("there is no `{key}`"), "each line has all three keys"))
    };
    let time = |key: &str, least_ns: u64| {
        let cell = find(key)?;
        time_ns(&cell, plan.unit, least_ns)
            .map_err(|what| (format!("`{key}`: {what}"), "write numbers, or 2026-11-23T19:54:46Z"))
    };
    let (at_ns, service_ns) = (time(&plan.time, 0)?, time(&plan.service, 1)?);
    Ok(Logged { at_ns, name: find(&plan.kind)?, service_ns })
}
