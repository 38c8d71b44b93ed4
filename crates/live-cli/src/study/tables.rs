//! Results as tables and plots.

use super::trial::{Round, Sample, Trial, lab};
use crate::args::PeerName;
use cavy_live::load::machine::Moment;
use cavy_live::load::report::Percentiles;
use cavy_report::model::{Axis, Cell, Panel, Point, Scale, Series, Table};
use cavy_report::number::count;

/// Percentiles of tables.
const COLUMNS: [(&str, f64); 4] =
    [("p50 (ms)", 0.5), ("p90 (ms)", 0.9), ("p99 (ms)", 0.99), ("p99.9 (ms)", 0.999)];

/// Percentiles of plots.
const CURVE: [f64; 10] = [0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995];

/// All who ran, and the lab where it can say something.
pub fn samples(trial: &Trial, rounds: &[Round], with_lab: bool) -> Vec<(String, Vec<Sample>)> {
    let types = trial.bench.types.len();
    let mut all: Vec<(String, Vec<Sample>)> = Vec::new();
    for &peer in &trial.peers {
        let of = (0..types).map(|kind| Sample::of(rounds, peer, kind)).collect();
        all.push((peer.label().to_string(), of));
    }
    if with_lab {
        for &peer in &trial.peers {
            if let Some(of) = lab(trial, peer) {
                all.push((format!("lab: {}", peer.label()), of));
            }
        }
    }
    all
}

/// A cell of milliseconds with the spread over repetitions.
pub fn cell(sample: &Sample, ratio: f64) -> Cell {
    match (sample.us(ratio), sample.spread_us(ratio)) {
        (None, _) => Cell::Missing("n/a".to_string()),
        (Some(us), None) => Cell::Number(us / 1e3),
        (Some(us), Some((low, high))) => {
            Cell::Interval { value: us / 1e3, low: low / 1e3, high: high / 1e3 }
        }
    }
}

/// A table for each type: percentiles by peer.
pub fn latencies(trial: &Trial, samples: &[(String, Vec<Sample>)]) -> Vec<Table> {
    let table = |(kind, name): (usize, &String)| {
        let row = |(label, of): &(String, Vec<Sample>)| {
            let sample = &of[kind];
            let mut row = vec![
                Cell::Text(label.clone()),
                Cell::Text(count(sample.times.len())),
                Cell::Text(count(sample.unanswered + sample.refused)),
            ];
            row.extend(COLUMNS.map(|(_, ratio)| cell(sample, ratio)));
            row
        };
        let heads = ["peer", "answered", "not answered"].into_iter();
        Table {
            id: format!("latency-{name}"),
            title: format!("Latency of type {name}, from the intended time"),
            columns: heads.chain(COLUMNS.map(|(head, _)| head)).map(str::to_string).collect(),
            rows: samples.iter().map(row).collect(),
        }
    };
    trial.bench.types.iter().enumerate().map(table).collect()
}

/// A plot for each type: how slow one request in so many is.
pub fn curves(trial: &Trial, samples: &[(String, Vec<Sample>)]) -> Vec<Panel> {
    let panel = |(kind, name): (usize, &String)| {
        let series = |(label, of): &(String, Vec<Sample>)| {
            let sample = &of[kind];
            let point = |ratio: f64| {
                let spread = sample.spread_us(ratio);
                Point {
                    x: 1.0 / (1.0 - ratio),
                    y: sample.us(ratio).map(|us| us / 1e3),
                    low: spread.map(|(low, _)| low / 1e3),
                    high: spread.map(|(_, high)| high / 1e3),
                    samples: sample.times.len(),
                    stable: true,
                }
            };
            Series { label: label.clone(), points: CURVE.map(point).to_vec() }
        };
        let axis = |label: &str, unit: &str| Axis {
            label: label.to_string(),
            unit: unit.to_string(),
            scale: Scale::Log,
            min: None,
            max: None,
        };
        Panel {
            id: format!("tail-{name}"),
            title: format!("Tail of type {name}"),
            x: axis("one request in this many is slower", ""),
            y: axis("latency", "ms"),
            series: samples.iter().map(series).collect(),
            rules: Vec::new(),
        }
    };
    trial.bench.types.iter().enumerate().map(panel).collect()
}

/// The machine during each run, and how late the generator was.
pub fn environment(rounds: &[Round]) -> Table {
    let columns = [
        "peer",
        "run",
        "load before, after",
        "steal (%)",
        "stall p50 (us)",
        "stall p99 (us)",
        "met p99.9 (us)",
        "late p50 (us)",
        "late p99 (us)",
        "late max (us)",
        "doubts",
    ];
    let number = |value: Option<f64>| match value {
        Some(value) => Cell::Number(value),
        None => Cell::Missing("n/a".to_string()),
    };
    let row = |round: &Round| {
        let machine = &round.report.machine;
        let one = |moment: &Moment| match moment.load_average {
            Some([one, ..]) => format!("{one:.1}"),
            None => "?".to_string(),
        };
        // The worse of the two probes.
        let probes = [machine.before.jitter, machine.after.jitter];
        let worst = |of: fn(&cavy_live::load::machine::Jitter) -> f64| {
            number(probes.iter().flatten().map(of).reduce(f64::max))
        };
        let late: &Percentiles = &round.report.lateness_us;
        let brief = |doubt: &String| if doubt.contains("late") { "late" } else { "rate" };
        let doubts: Vec<&str> = round.doubts().iter().map(brief).collect();
        vec![
            Cell::Text(round.peer.label().to_string()),
            Cell::Text((round.repetition + 1).to_string()),
            Cell::Text(format!("{}, {}", one(&machine.before), one(&machine.after))),
            number(machine.steal_ratio.map(|ratio| 100.0 * ratio)),
            worst(|probe| probe.stall_p50_us),
            worst(|probe| probe.stall_p99_us),
            worst(|probe| probe.met_p999_us),
            number(late.p50),
            number(late.p99),
            number(late.max),
            Cell::Text(doubts.join(", ")),
        ]
    };
    Table {
        id: "machine".to_string(),
        title: "The machine during each run (worse probe of two), and the generator".to_string(),
        columns: columns.map(str::to_string).to_vec(),
        rows: rounds.iter().map(row).collect(),
    }
}

/// The sample of a peer among those of [`samples`].
pub fn find(samples: &[(String, Vec<Sample>)], peer: PeerName, kind: usize) -> Option<&Sample> {
    samples.iter().find(|(label, _)| label == peer.label()).map(|(_, of)| &of[kind])
}

/// The last reservation of a DARC run, in words.
pub fn reserved(rounds: &[Round], types: &[String]) -> String {
    let stats = rounds.iter().rev().find(|round| round.peer == PeerName::Darc);
    let Some(stats) = stats.and_then(|round| round.after.stats.as_ref()) else {
        return "DARC did not run".to_string();
    };
    let Some(last) = stats.updates.last() else {
        return "DARC was still profiling at the end".to_string();
    };
    let own = |(kind, name): (u16, &String)| {
        let own = last.table.group_of(cavy_live::Kind(kind)).map_or(0, |group| group.own);
        format!("{name} {own}")
    };
    let own: Vec<String> = (1..).zip(types).map(own).collect();
    format!("DARC's own workers at the end: {}", own.join(", "))
}
