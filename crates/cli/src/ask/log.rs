//! What an access log says: types of requests that take ten times as long as others, stalls, and
//! how many requests are served at once.

use super::{Answers, evidence, question};
use crate::faults::Fault;
use cavy_kinds::server::plan::{Stamp, TraceFormat, TracePlan, Unit};
use cavy_kinds::server::{Logged, logged};
use cavy_lab::statistics::quantile;
use cavy_report::number::count;
use cavy_study::plan::Files;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Requests that a type must have before it is compared with others.
const FEW: usize = 20;
/// Medians that differ by as much are of mixed types.
const MIXED: f64 = 10.0;
/// Types that a plan can have.
const TYPES_MAX: usize = 63;
/// Workers of a plan that nobody gave a number for.
const WORKERS: u16 = 8;

/// What was found in a log.
#[derive(Debug)]
pub struct Log {
    trace: TracePlan,
    workers: Option<u16>,
    requests: usize,
    types: usize,
    /// Requests that are served at once, on average.
    at_once: f64,
    seconds: f64,
}

/// Is this the first line of an access log?
pub fn is_log(line: &str) -> bool {
    let brackets = line.find('[').zip(line.find(']')).is_some_and(|(from, until)| from < until);
    brackets && line.matches('"').count() >= 2
}

/// Looks at an access log whose lines end with the time that the request took.
///
/// # Errors
/// A line that cannot be read.
pub fn look(
    file: &Path,
    first_line: &str,
    unit: Option<Unit>,
    workers: Option<u16>,
    answers: &mut Answers,
) -> Result<Log, Fault> {
    let shown = file.display().to_string();
    // nginx writes seconds with three decimals when a request has ended, Apache whole microseconds
    // and when it arrived.
    let last = first_line.rsplit(char::is_whitespace).next().unwrap_or("");
    let decimals = last.contains('.');
    let unit = unit.unwrap_or(if decimals { Unit::S } else { Unit::Us });
    let stamp = if decimals { Stamp::End } else { Stamp::Arrival };
    let trace = TracePlan {
        file: shown.clone(),
        format: TraceFormat::Combined,
        stamp,
        time: String::new(),
        kind: "path".to_string(),
        service: String::new(),
        unit,
    };
    let requests = logged(&trace, &Files::Folder(PathBuf::new()))?;
    let (Some(first), Some(last)) = (requests.first(), requests.last()) else {
        return Err(Fault::new(format!("{shown}: it has no requests")));
    };
    let seconds = ((last.at_ns - first.at_ns) as f64 / 1e9).max(1e-9);
    let mut types: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for one in &requests {
        types.entry(one.name.clone()).or_default().push(one.service_ns as f64 / 1e3);
    }
    let busy_s: f64 = types.values().flatten().sum::<f64>() / 1e6;
    let at_once = busy_s / seconds;
    let busiest = busiest(&requests).unwrap_or(at_once);
    let (requests, count) = (requests.len(), types.len());
    let log = Log { trace, workers, requests, types: count, at_once, seconds };
    mixed(&types, &shown, answers);
    let columns = types.into_iter().filter(|(_, took)| took.len() >= FEW).collect();
    evidence::latencies(&columns, &shown, answers);
    if let (Some(asked), Some(workers)) = (question("busy"), workers) {
        let share = busiest / f64::from(workers);
        let says = format!(
            "{shown}: in its busiest minute {busiest:.2} of {workers} workers are busy, waiting \
             included"
        );
        answers.note(asked, share > 1.0 / 3.0, says);
    }
    Ok(log)
}

/// Requests that are served at once, on average over the minute in which that is most; `None` for a
/// log that is shorter.
fn busiest(requests: &[Logged]) -> Option<f64> {
    const MINUTE_NS: u64 = 60_000_000_000;
    let (first, last) = (requests.first()?.at_ns, requests.last()?.at_ns);
    let mut minutes: BTreeMap<u64, u64> = BTreeMap::new();
    for one in requests {
        *minutes.entry((one.at_ns - first) / MINUTE_NS).or_default() += one.service_ns;
    }
    // The last minute is cut off.
    minutes.remove(&((last - first) / MINUTE_NS));
    minutes.values().max().map(|busy_ns| *busy_ns as f64 / MINUTE_NS as f64)
}

/// Medians of types tell work from waiting better than means do.
fn mixed(types: &BTreeMap<String, Vec<f64>>, shown: &str, answers: &mut Answers) {
    let Some(asked) = question("mixed") else { return };
    let median = |took: &Vec<f64>| {
        let mut sorted = took.clone();
        sorted.sort_by(f64::total_cmp);
        quantile::of_sorted(&sorted, 0.5).unwrap_or(0.0)
    };
    let medians: Vec<(&String, f64)> = types
        .iter()
        .filter(|(_, took)| took.len() >= FEW)
        .map(|(name, took)| (name, median(took)))
        .collect();
    let by = |one: &&(&String, f64), other: &&(&String, f64)| one.1.total_cmp(&other.1);
    let (Some(least), Some(most)) = (medians.iter().min_by(by), medians.iter().max_by(by)) else {
        return;
    };
    if medians.len() < 2 {
        return;
    }
    let times = most.1 / least.1.max(1e-9);
    let says = format!(
        "{shown}: the median of `{}` takes {times:.1} times as long as the one of `{}`",
        most.0, least.0
    );
    answers.note(asked, times >= MIXED, says);
}

impl Log {
    /// What was read, as a sentence without its end.
    pub fn summary(&self) -> String {
        format!(
            "{}: {} requests of {} types in {} s, {:.2} at once on average",
            self.trace.file,
            count(self.requests as u64),
            self.types,
            count(self.seconds as u64),
            self.at_once
        )
    }

    /// A plan that plays the log, to be written to `plan`.
    ///
    /// # Errors
    /// When there is no working folder.
    pub fn plan(&self, plan: &Path) -> std::io::Result<String> {
        let log = std::path::absolute(&self.trace.file)?;
        // A plan names its data relative to itself.
        let beside = match std::path::absolute(plan) {
            Ok(plan) if plan.parent() == log.parent() => log.file_name().map(PathBuf::from),
            _ => None,
        };
        let file = beside.unwrap_or(log);
        let unit = match self.trace.unit {
            Unit::Ns => "ns",
            Unit::Us => "us",
            Unit::Ms => "ms",
            Unit::S => "s",
        };
        let kind = if self.types > TYPES_MAX { "method" } else { "path" };
        let stamp = match self.trace.stamp {
            Stamp::End => "end",
            Stamp::Arrival => "arrival",
        };
        let mut text = format!("# Written by `cavy ask` from {}.\n", self.summary());
        text.push_str("kind = \"server\"\ntitle = \"The requests of a log, played again\"\n");
        match self.workers {
            Some(workers) => {
                let _ = writeln!(text, "workers = {workers}");
            }
            None => {
                let _ = writeln!(
                    text,
                    "# Put in how many requests your server runs at once: threads, connections or \
                     cores.\nworkers = {WORKERS}"
                );
            }
        }
        let _ = write!(
            text,
            "policies = [\n  {{ policy = \"c_fcfs\" }},\n  {{ policy = \"darc\" }},\n  \
             {{ policy = \"stealing\" }},\n  {{ policy = \"srpt\" }}, # the best there is, and no \
             server can run it\n]\nrun = {{ replications = 1 }}\n\n# Times in a log have waiting in \
             them: take one from hours of low load.\n[trace]\nfile = {file:?}\nformat = \
             \"combined\"\nunit = \"{unit}\" # of the time at the end of a line\nstamp = \
             \"{stamp}\" # which moment of a request a line names: \"arrival\" or \"end\"\ntype = \
             \"{kind}\" # the first part of the path; or \"method\", \"status\"\n\n# At 1 all \
             workers are always busy. Requests are moved closer together to reach each load.\n\
             [sweep]\nload = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9]\n"
        );
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_known_by_its_first_line() {
        assert!(is_log("10.0.0.7 - - [23/Nov/2025:06:20:20 +0000] \"GET / HTTP/1.1\" 200 5 0.012"));
        assert!(!is_log("get_us,scan_us") && !is_log("] [ \"a\" \"b\""));
    }

    #[test]
    fn the_busiest_minute_counts() {
        let one = |at_s: u64, service_s: u64| Logged {
            at_ns: at_s * 1_000_000_000,
            name: String::new(),
            service_ns: service_s * 1_000_000_000,
        };
        let calm = [one(0, 6), one(61, 30), one(62, 60), one(130, 600)];
        assert_eq!(busiest(&calm), Some(1.5));
        assert_eq!(busiest(&calm[..1]), None);
    }

    #[test]
    fn types_are_compared_by_medians() {
        let types = |long: f64| {
            BTreeMap::from([
                ("/get".to_string(), vec![100.0; 50]),
                ("/report".to_string(), vec![long; 50]),
                ("/rare".to_string(), vec![1e9; 3]),
            ])
        };
        for (long, yes) in [(5_000.0, true), (300.0, false)] {
            let mut answers = Answers::default();
            mixed(&types(long), "a.log", &mut answers);
            let answer = answers.of("mixed").expect("an answer");
            assert!(answer.yes == yes && answer.says.contains("`/report`"), "{answer:?}");
        }
    }
}
