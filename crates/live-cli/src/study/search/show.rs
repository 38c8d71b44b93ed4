//! What the runs came to: tables, and values for claims.

use super::HEDGES;
use super::run::{Row, Run, Took};
use crate::args::SearchPart;
use cavy_lab::statistics::sectioning;
use cavy_report::model::{Cell, Figure, Table};
use cavy_trials::Finding;
use std::cmp::Ordering::Equal;

/// In words.
pub fn title(part: SearchPart) -> &'static str {
    match part {
        SearchPart::Change => "p changes",
        SearchPart::Delay => "delay by p",
        SearchPart::Tail => "a server stands still now and then",
    }
}

/// Milliseconds.
pub fn ms(us: Option<f64>) -> Cell {
    us.map_or(Cell::Missing("n/a".to_string()), |us| Cell::Number(us / 1e3))
}

/// The stretches of all runs that are called so.
fn named<'a>(runs: &'a [(u32, Run)], what: &str) -> Vec<&'a Row> {
    runs.iter().flat_map(|(_, run)| &run.rows).filter(|row| row.what == what).collect()
}

/// Faults that the checker found, and requests that were refused or got no whole answer.
pub fn counts(runs: &[(u32, Run)]) -> (u64, u64, u64) {
    let partial: u64 = runs.iter().flat_map(|(_, run)| &run.rows).map(|row| row.partial).sum();
    let checkers = || runs.iter().map(|(_, run)| run.checker);
    let refused: u64 = checkers().map(|one| one.refused + one.unanswered).sum();
    let looked = checkers().map(|one| one.answers_checked).sum();
    (checkers().map(|one| one.faults).sum(), refused + partial, looked)
}

pub fn value(id: &str, value: Option<f64>, samples: u64, note: String) -> Finding {
    Finding { value, samples, note, ..Finding::nothing(&format!("live.roar.{id}")) }
}

/// A table of what the checker looked at.
pub fn checked(runs: &[(u32, Run)], id: &str) -> Table {
    let (faults, refused, looked) = counts(runs);
    let written: u64 = runs.iter().map(|(_, run)| run.checker.writes_acknowledged).sum();
    let row = [looked, written, faults, refused].map(|count| Cell::Number(count as f64));
    Table {
        id: format!("{id}-checker"),
        title: "What the checker says".to_string(),
        columns: [
            "answers looked at",
            "writes acknowledged",
            "faults",
            "refused, without a whole answer",
        ]
        .map(str::to_string)
        .to_vec(),
        rows: vec![row.to_vec()],
    }
}

/// The stretches of `change`, in the order in which they come, without those that come again.
fn stretches(runs: &[(u32, Run)]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in runs.first().into_iter().flat_map(|(_, run)| &run.rows) {
        if !all.contains(&row.what) {
            all.push(row.what.clone());
        }
    }
    all
}

/// Changes for a lower p, and for a higher one.
const FALLS: [&str; 2] = ["8 to 3", "12 to 4"];
const RISES: [&str; 4] = ["4 to 5", "5 to 8", "3 to 12", "4 to 8"];

/// Each fall so called, with the stretch before it.
fn falls<'a>(runs: &'a [(u32, Run)], what: &str) -> Vec<[&'a Row; 2]> {
    let pairs = runs.iter().flat_map(|(_, run)| run.rows.windows(2));
    pairs.filter(|two| two[1].what == what).map(|two| [&two[0], &two[1]]).collect()
}

/// What happens while p changes.
pub fn change(runs: &[(u32, Run)], again: &str) -> Figure {
    let row = |what: &String| {
        let rows = named(runs, what);
        let settled = rows.iter().filter_map(|row| row.settled_s).reduce(f64::max);
        let took = Took::of(rows);
        vec![
            Cell::Text(what.clone()),
            Cell::Number(took.count() as f64),
            ms(took.mean()),
            ms(took.quantile(0.5)),
            ms(took.quantile(0.99)),
            settled.map_or(Cell::Missing(String::new()), Cell::Number),
        ]
    };
    let table = Table {
        id: "change-stretches".to_string(),
        title: "Queries by what happened meanwhile".to_string(),
        columns: [
            "stretch",
            "queries",
            "mean (ms)",
            "p50 (ms)",
            "p99 (ms)",
            "settled after at most (s)",
        ]
        .map(str::to_string)
        .to_vec(),
        rows: stretches(runs).iter().map(row).collect(),
    };
    Figure {
        id: "live.roar.change".to_string(),
        title: "p changes while it serves".to_string(),
        shows: "Twelve servers, two front ends and a directory as processes of this machine, 150 \
                queries and 5 writes a second; p = 4, 5, 8, 3, 12, 4, and 8, 3, 12, 4 several \
                times. Where p falls, servers copy first, and queries go on with the p before."
            .to_string(),
        claimed: "Lowering p leaves delay as it was; raising is usable at once.".to_string(),
        found: checked_words(runs),
        command: again.to_string(),
        panels: Vec::new(),
        maps: Vec::new(),
        tables: vec![table, checked(runs, "change")],
    }
}

/// In words.
pub fn checked_words(runs: &[(u32, Run)]) -> String {
    let (faults, refused, looked) = counts(runs);
    format!(
        "{looked} answers looked at, {faults} faults, {refused} requests refused or without a \
         whole answer."
    )
}

/// Values of `change`.
pub fn change_findings(runs: &[(u32, Run)]) -> Vec<Finding> {
    let ratio = |id: &str,
                 of: &dyn Fn(&Took) -> Option<f64>,
                 part: &dyn Fn(&Took) -> Option<f64>| {
        let all = FALLS.map(|what| {
            let falls = falls(runs, what);
            let side = |at: usize| Took::of(falls.iter().map(|two| two[at]));
            let (before, during) = (side(0), side(1));
            let samples = during.count().min(before.count());
            let found = Finding::ratio(id, of(&during), of(&before), samples);
            // Each fall beside the stretch just before it is a section of its own.
            let section = |two: &[&Row; 2]| {
                Some(part(&Took::of([two[1]]))? / part(&Took::of([two[0]]))?.max(1e-3))
            };
            let sections: Vec<f64> = falls.iter().filter_map(section).collect();
            let interval =
                found.value.and_then(|whole| sectioning::interval(whole, &sections, 0.95));
            let (low, high) = interval.map(|interval| (interval.low, interval.high)).unzip();
            let note = format!("{what}, {} falls: {}", falls.len(), found.note);
            Finding { low, high, note, ..found }
        });
        // The worse of both; none where one has too few queries.
        let lacks = all.iter().find(|found| found.value.is_none()).cloned();
        let worst = all.into_iter().max_by(|a, b| a.value.partial_cmp(&b.value).unwrap_or(Equal));
        lacks.or(worst).unwrap_or_else(|| Finding::nothing(id))
    };
    let (faults, refused, looked) = counts(runs);
    let settled = RISES.iter().flat_map(|what| named(runs, what)).filter_map(|row| row.settled_s);
    let settled: Vec<f64> = settled.collect();
    let count = settled.len() as u64;
    let longest = settled.into_iter().reduce(f64::max);
    vec![
        value("change_faults", Some(faults as f64), looked, String::new()),
        value("change_refused", Some(refused as f64), looked, String::new()),
        ratio("live.roar.change_mean", &Took::mean, &Took::mean).of_median(),
        ratio("live.roar.change_p99", &|took| took.quantile(0.99), &|took| took.reached(0.99)),
        value("change_usable", longest, count, String::new()),
    ]
}

fn with(runs: &[(u32, Run)], hedge_ms: u32) -> Vec<&Row> {
    runs.iter().filter(|(hedge, _)| *hedge == hedge_ms).flat_map(|(_, run)| &run.rows).collect()
}

/// Sub-queries of a query.
fn parts(rows: &[&Row]) -> Option<f64> {
    let queries = Took::of(rows.iter().copied()).count();
    let parts: u64 = rows.iter().map(|row| row.parts).sum();
    (queries > 0).then(|| parts as f64 / queries as f64)
}

/// A server that stands still.
pub fn tail(runs: &[(u32, Run)], again: &str) -> Figure {
    let row = |hedge_ms: &u32| {
        let rows = with(runs, *hedge_ms);
        let parts = parts(&rows).map_or(Cell::Missing("none".to_string()), Cell::Number);
        let took = Took::of(rows);
        let name = match hedge_ms {
            0 => "waits 300 ms".to_string(),
            after => format!("hedges after {after} ms"),
        };
        vec![
            Cell::Text(name),
            Cell::Number(took.count() as f64),
            ms(took.mean()),
            ms(took.quantile(0.99)),
            ms(took.quantile(0.999)),
            parts,
        ]
    };
    let table = Table {
        id: "tail-hedging".to_string(),
        title: "Queries with hedging and without".to_string(),
        columns: ["late parts", "queries", "mean (ms)", "p99 (ms)", "p99.9 (ms)", "sub-queries"]
            .map(str::to_string)
            .to_vec(),
        rows: HEDGES.iter().map(row).collect(),
    };
    Figure {
        id: "live.roar.tail".to_string(),
        title: "A server stands still now and then".to_string(),
        shows: "Twelve servers as processes of this machine, p = 12, so that every query asks \
                every server, 170 queries and 5 writes a second; one server stands still for a \
                second every twenty. Late parts are given to others after 300 ms, or sent to \
                others as well after 20 ms; both in turns."
            .to_string(),
        claimed: "Any part may be sent to other servers that hold the same documents; the first \
                  answer counts."
            .to_string(),
        found: checked_words(runs),
        command: again.to_string(),
        panels: Vec::new(),
        maps: Vec::new(),
        tables: vec![table, checked(runs, "tail")],
    }
}

/// Values of `tail`.
pub fn tail_findings(runs: &[(u32, Run)]) -> Vec<Finding> {
    let (without, hedged) = (with(runs, HEDGES[0]), with(runs, HEDGES[1]));
    let samples = [&hedged, &without].map(|rows| Took::of(rows.iter().copied()).count());
    let samples = samples[0].min(samples[1]);
    let ratio = |id: &str, share: f64| {
        let whole = |rows: &[&Row]| Took::of(rows.iter().copied()).quantile(share);
        let found = Finding::ratio(id, whole(&hedged), whole(&without), samples);
        // Each time that the server stood still is a section, beside that of the other run.
        let reached = |row: &Row| Took::of([row]).reached(share);
        let both = hedged.iter().zip(&without);
        let sections: Vec<f64> =
            both.filter_map(|(one, two)| Some(reached(one)? / reached(two)?.max(1e-3))).collect();
        let interval = found.value.and_then(|whole| sectioning::interval(whole, &sections, 0.95));
        let (low, high) = interval.map(|interval| (interval.low, interval.high)).unzip();
        Finding { low, high, ..found }
    };
    let extra = parts(&hedged).zip(parts(&without)).map(|(with, without)| with / without);
    let (faults, refused, looked) = counts(runs);
    vec![
        ratio("live.roar.tail_hedged", 0.999),
        ratio("live.roar.tail_p99", 0.99),
        value("tail_extra", extra, samples, String::new()),
        value("tail_faults", Some((faults + refused) as f64), looked, String::new()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::search::run::Checker;
    use cavy_trials::weather::Weather;

    fn row(what: &str, took: &[(u64, u64)], settled_s: Option<f64>) -> Row {
        Row {
            what: what.to_string(),
            p: 4,
            partial: 0,
            settled_s,
            queries_per_s: None,
            processor_ms: None,
            parts: 40,
            took: took.to_vec(),
        }
    }

    fn run(rows: Vec<Row>, faults: u64) -> Run {
        let checker = Checker { answers_checked: 10, faults, ..Checker::default() };
        Run { rows, checker, weather: Weather::default() }
    }

    fn found(findings: &[Finding], id: &str) -> Option<f64> {
        findings.iter().find(|one| one.id == format!("live.roar.{id}"))?.value
    }

    #[test]
    fn a_change_is_compared_with_what_was_just_before() {
        let rows = || {
            vec![
                row("at 8", &[(1_000, 9_900), (9_000, 100)], None),
                row("8 to 3", &[(2_000, 9_800), (9_000, 200)], Some(4.0)),
                row("at 12", &[(1_000, 10_000)], None),
                row("12 to 4", &[(1_000, 10_000)], Some(3.0)),
                row("3 to 12", &[(1_000, 5)], Some(0.7)),
            ]
        };
        let findings = change_findings(&[(0, run(rows(), 0)), (0, run(rows(), 2))]);
        assert_eq!(found(&findings, "change_faults"), Some(2.0));
        let p99 = findings.iter().find(|one| one.id.ends_with("change_p99")).expect("it");
        // Both falls have the same ratio.
        assert_eq!((p99.value, p99.low, p99.high), (Some(9.0), Some(9.0), Some(9.0)));
        assert!(p99.note.starts_with("8 to 3, 2 falls: 9.000 ms over 1.000 ms"), "{}", p99.note);
        assert_eq!(found(&findings, "change_usable"), Some(0.7));
        let mean = found(&findings, "change_mean").expect("a mean");
        assert!((mean - 2_140.0 / 1_080.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn hedging_is_compared_with_none() {
        let late = run(vec![row("", &[(1_000, 180_000), (400_000, 400)], None)], 0);
        let mut hedged = late.clone();
        hedged.rows = vec![row("", &[(1_000, 160_000), (40_000, 400)], None)];
        let findings = tail_findings(&[(0, late), (20, hedged)]);
        assert_eq!(found(&findings, "tail_hedged"), Some(0.1));
        assert_eq!(found(&findings, "tail_p99"), Some(1.0));
        let extra = found(&findings, "tail_extra").expect("a ratio");
        assert!((extra - 1_804.0 / 1_604.0).abs() < 1e-9);
        assert_eq!(found(&findings, "tail_faults"), Some(0.0));
        let few = run(vec![row("", &[(1_000, 3_500), (400_000, 4)], None)], 0);
        assert_eq!(found(&tail_findings(&[(0, few.clone()), (20, few)]), "tail_hedged"), None);
    }
}
