//! What a ranking found, for a reader.

use crate::terminal;
use cavy_groups::rank::{Ranking, Row};
use cavy_report::model::{Cell, Document, Figure, Table};
use std::fmt::Write as _;

/// The two bounds of a gain.
pub fn between(bounds: Option<[f64; 2]>) -> String {
    bounds.map_or("-".to_string(), |[least, most]| format!("{least:+.1} to {most:+.1}"))
}

/// The services, in columns that go by what was asked for.
fn services(ranking: &Ranking) -> Table {
    let ms = |value: Option<f64>| Cell::Text(milliseconds(value));
    let cost = |row: &Row| {
        [row.cpu_us_per_request, row.paused_ratio * 100.0]
            .map(|one| Cell::Text(format!("{one:.0}")))
    };
    if ranking.arriving_open {
        let row = |row: &Row| {
            let then = [row.predicted_p50_ms, row.predicted_p99_ms].map(ms);
            let wall = [row.wall_p50_ms, row.wall_p99_ms].map(ms);
            let name = [Cell::Text(row.service.clone())];
            [&name[..], &then, &wall, &cost(row)].concat()
        };
        let columns = [
            "service",
            "p50 ms then",
            "p99 ms then",
            "p50 ms on the wall",
            "p99 ms on the wall",
            "CPU us/request",
            "stopped %",
        ];
        return named(&columns, ranking.rows.iter().map(row).collect());
    }
    let row = |row: &Row| {
        let gain = match &row.gain_percent {
            Some(gain) => format!("{:+.1} ({:+.1} to {:+.1})", gain.value, gain.low, gain.high),
            None => "too few rounds".to_string(),
        };
        let [cpu, stopped] = cost(row);
        vec![
            Cell::Text(row.service.clone()),
            Cell::Text(gain),
            Cell::Text(format!("{:+.1}", row.law_percent)),
            cpu,
            ms(row.predicted_p50_ms),
            ms(row.predicted_p99_ms),
            stopped,
            Cell::Text(between(row.gain_between_percent)),
        ]
    };
    let columns = [
        "service",
        "gain %",
        "utilisation law %",
        "CPU us/request",
        "p50 ms then",
        "p99 ms then",
        "stopped %",
        "between %",
    ];
    named(&columns, ranking.rows.iter().map(row).collect())
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |ms| format!("{ms:.1}"))
}

fn named(columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    let columns = columns.iter().map(|name| (*name).to_string()).collect();
    Table { id: "services".to_string(), title: String::new(), columns, rows }
}

/// What was asked, and how to read the answer.
fn asked(ranking: &Ranking) -> (String, &'static str) {
    let (what, meaning) = match ranking.arriving_open {
        true => (
            "latency",
            "then: with the change, in time without pauses. On the wall: what clients saw \
             meanwhile, pauses included.",
        ),
        false => (
            "throughput",
            "between: the gain if pauses cost nothing, and if they cost as much as when all \
             services are stopped.",
        ),
    };
    let faster = ranking.faster_percent;
    (format!("What making each service {faster:.0} % faster would buy, in {what}"), meaning)
}

/// The unchanged system, in a sentence or two.
fn unchanged(ranking: &Ranking) -> Option<String> {
    let base = ranking.baseline_per_s?;
    Some(format!(
        "{:.0} requests/s ({:.0} to {:.0}), p50 {} ms, p99 {} ms. Services and clients keep {:.0} \
         % of all cores busy.",
        base.value,
        base.low,
        base.high,
        milliseconds(ranking.baseline_p50_ms),
        milliseconds(ranking.baseline_p99_ms),
        ranking.busy_ratio * 100.0
    ))
}

/// An answer as a report; `explained` says how it was found, where that needs words.
pub fn document(ranking: &Ranking, explained: &str, elapsed_s: f64) -> Document {
    let ((title, meaning), fact) =
        (asked(ranking), |name: &str, value: String| (name.into(), value));
    let mut facts = Vec::new();
    facts.extend(unchanged(ranking).map(|text| fact("unchanged", text)));
    facts.push(fact("shortest pause", format!("{} ms", ranking.pause_min_ms)));
    facts.push(fact("requests that failed", ranking.failed.to_string()));
    for row in &ranking.rows {
        let doubt = |doubt: &String| fact(&format!("doubt: {}", row.service), doubt.clone());
        facts.extend(row.doubts.iter().map(doubt));
    }
    if ranking.interrupted {
        facts.push(fact("interrupted", "what was measured until then".to_string()));
    }
    let first = ranking.rows.first();
    let found = first.map_or(String::new(), |row| match row.gain_percent {
        Some(gain) => format!(
            "{} buys most: {:+.1} % (95 % interval {:+.1} to {:+.1}).",
            row.service, gain.value, gain.low, gain.high
        ),
        None => format!("{} comes first.", row.service),
    });
    let command = terminal::command_line();
    Document {
        title: title.clone(),
        summary: format!("{explained}{found}"),
        command: command.clone(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: 0,
        digest: String::new(),
        elapsed_s,
        facts,
        plan: None,
        claims: Vec::new(),
        figures: vec![Figure {
            id: "live.whatif".to_string(),
            title,
            shows: format!("The running services, measured by stopping the others. {meaning}"),
            claimed: String::new(),
            found,
            command,
            panels: Vec::new(),
            maps: Vec::new(),
            tables: vec![services(ranking)],
        }],
    }
}

/// An answer in words.
pub fn shown(ranking: &Ranking) -> String {
    let (what, meaning) = asked(ranking);
    let rows = cavy_report::terminal::table(&services(ranking), terminal::width(), false);
    let mut out = format!("{what}:\n{rows}{meaning}\n\n");
    if let Some(text) = unchanged(ranking) {
        let _ = writeln!(out, "Unchanged: {text}");
    }
    for row in &ranking.rows {
        for doubt in &row.doubts {
            let _ = writeln!(out, "doubt: {}: {doubt}", row.service);
        }
    }
    if ranking.failed > 0 {
        let why = ranking.complaint.as_deref().unwrap_or("");
        let _ = writeln!(out, "doubt: {} requests failed, the first: {why}", ranking.failed);
    }
    if ranking.interrupted {
        out.push_str("interrupted: what was measured until then\n");
    }
    out
}
