//! What a ranking found, for a reader.

use super::table;
use cavy_groups::rank::{Ranking, Row};
use cavy_report::model::Cell;
use std::fmt::Write as _;

/// The two bounds of a gain.
pub fn between(bounds: Option<[f64; 2]>) -> String {
    bounds.map_or("-".to_string(), |[least, most]| format!("{least:+.1} to {most:+.1}"))
}

/// The rows of services, whose order and columns go by what was asked for.
fn rows(ranking: &Ranking) -> String {
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
        return table(&columns, ranking.rows.iter().map(row).collect());
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
    table(&columns, ranking.rows.iter().map(row).collect())
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |ms| format!("{ms:.1}"))
}

/// An answer in words.
pub fn shown(ranking: &Ranking) -> String {
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
    let mut out = format!(
        "What making each service {:.0} % faster would buy, in {what}:\n{}{meaning}\n\n",
        ranking.faster_percent,
        rows(ranking)
    );
    if let Some(base) = ranking.baseline_per_s {
        let _ = writeln!(
            out,
            "Unchanged: {:.0} requests/s ({:.0} to {:.0}), p50 {} ms, p99 {} ms. Services and \
             clients keep {:.0} % of all cores busy.",
            base.value,
            base.low,
            base.high,
            milliseconds(ranking.baseline_p50_ms),
            milliseconds(ranking.baseline_p99_ms),
            ranking.busy_ratio * 100.0
        );
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
