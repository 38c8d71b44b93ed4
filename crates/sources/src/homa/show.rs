//! Panels and tables that the figures of this system share.

use super::measure::{PercentileOf, p50, p99};
use cavy_kinds::network::result::NetSummary;
use cavy_kinds::network::{NetExperiment, NetResult};
use cavy_report::model::{Axis, Cell, Panel, Point, Scale, Series, Table};
use cavy_study::experiment::BASE;
use cavy_study::outcome::Quantile;
use std::collections::BTreeSet;

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.to_string(), unit: String::new(), scale, min: None, max: None }
}

/// A name for files: letters, digits and hyphens.
fn file_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).collect()
}

/// The results of a variant at a load, one for each transport.
fn at_load<'a>(e: &'a NetExperiment, variant: &'a str, load: f64) -> Vec<&'a NetResult> {
    let found = e.labels(variant).into_iter().filter_map(|label| e.at(variant, label, load));
    found.collect()
}

/// Loads of a variant, each once, ascending.
fn loads(e: &NetExperiment, variant: &str) -> Vec<f64> {
    let mut all: Vec<f64> =
        e.results.iter().filter(|r| r.variant == variant).map(|r| r.load()).collect();
    all.sort_by(f64::total_cmp);
    all.dedup_by(|a, b| (*a - *b).abs() < 1e-6);
    all
}

/// A share in words.
pub fn per_cent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Results that are shown side by side, each under its name.
pub struct Group<'a> {
    /// Name in files.
    pub id: String,
    /// Headline.
    pub title: String,
    /// Names and results.
    pub rows: Vec<(String, &'a NetResult)>,
}

/// The results of a variant, a group for each load.
pub fn groups<'a>(e: &'a NetExperiment, variant: &'a str) -> Vec<Group<'a>> {
    let group = |load: f64| {
        let load_words = format!("load {}", per_cent(load));
        Group {
            id: file_name(&format!("{variant}-{}", per_cent(load))),
            title: match variant {
                BASE => load_words,
                _ => format!("{}, {load_words}", variant.replace('_', " ")),
            },
            rows: at_load(e, variant, load).into_iter().map(|r| (r.label.clone(), r)).collect(),
        }
    };
    loads(e, variant).into_iter().map(group).collect()
}

/// P99 slowdown over the share of messages that are at most so long.
pub fn by_size(group: &Group<'_>) -> Panel {
    let row = |(label, result): &(String, &NetResult)| size_curve(label, result, p99);
    Panel {
        id: group.id.clone(),
        title: group.title.clone(),
        x: axis("share of messages that are at most so long, %", Scale::Linear),
        y: axis("99th percentile slowdown", Scale::Log),
        series: group.rows.iter().map(row).collect(),
        rules: Vec::new(),
    }
}

fn size_curve(label: &str, result: &NetResult, of: PercentileOf) -> Series {
    let point = |bin: &cavy_kinds::network::result::SizeSlice| {
        let estimate = of(&bin.summary).and_then(Quantile::supported);
        Point {
            x: bin.share * 100.0,
            y: estimate.map(|e| e.value),
            low: estimate.map(|e| e.min()),
            high: estimate.map(|e| e.max()),
            samples: bin.summary.samples,
            stable: true,
        }
    };
    Series { label: label.to_string(), points: result.bins.iter().map(point).collect() }
}

/// A cell for a percentile: the number, or why there is none.
pub fn cell(summary: &NetSummary, of: PercentileOf) -> Cell {
    match of(summary).and_then(Quantile::supported) {
        Some(estimate) => Cell::Number(estimate.value),
        None => Cell::Missing(format!("n/a ({})", summary.samples)),
    }
}

/// Slowdown by size, a row for each transport: P99, and the median.
pub fn size_tables(group: &Group<'_>) -> [Table; 2] {
    [("P99", p99 as PercentileOf), ("median", p50)].map(|kind| size_table(group, kind))
}

/// One percentile of slowdown by size.
pub fn size_table(group: &Group<'_>, (name, of): (&str, PercentileOf)) -> Table {
    let mut columns = vec!["transport".to_string(), "short half".to_string()];
    if let Some((_, first)) = group.rows.first() {
        let head = |bin: &cavy_kinds::network::result::SizeSlice| {
            format!("{} ({} B)", per_cent(bin.share), bin.bytes)
        };
        columns.extend(first.bins.iter().map(head));
    }
    let row = |(label, result): &(String, &NetResult)| {
        let mut row = vec![Cell::Text(label.clone()), cell(&result.short, of)];
        row.extend(result.bins.iter().map(|bin| cell(&bin.summary, of)));
        row
    };
    Table {
        id: file_name(&format!("{name}-{}", group.id)),
        title: format!("{name} slowdown by size, {}", group.title),
        columns,
        rows: group.rows.iter().map(row).collect(),
    }
}

/// Swept values of a result, for a cell.
fn setting(result: &NetResult) -> String {
    let name = |key: &str| key.rsplit('.').next().unwrap_or(key).replace('_', " ");
    let each = result.settings.iter().map(|(key, value)| format!("{} {value}", name(key)));
    each.collect::<Vec<_>>().join(", ")
}

/// Results of different points: variants that leave a plan as it is repeat the base.
fn different(e: &NetExperiment) -> Vec<&NetResult> {
    let mut known = BTreeSet::new();
    e.results.iter().filter(|result| known.insert((&result.key, &result.label))).collect()
}

/// One line for each point: slowdown, queues, goodput, what was lost and sent again.
pub fn points(e: &NetExperiment) -> Table {
    let columns = [
        "variant",
        "transport",
        "setting",
        "messages",
        "P50 short",
        "P99 short",
        "P99 all",
        "P99 largest",
        "goodput (Gb/s)",
        "mean queue (kB)",
        "max queue (kB)",
        "lost (%)",
        "sent again (%)",
        "note",
    ];
    let row = |result: &NetResult| {
        let port = result.port("downlink");
        let queue = port.map_or(Cell::Missing("n/a".into()), |p| Cell::Number(p.mean_bytes / 1e3));
        let lost = result.packets.dropped + result.packets.lost;
        let largest = result.largest.last().or(result.bins.last());
        vec![
            Cell::Text(result.variant.clone()),
            Cell::Text(result.label.clone()),
            Cell::Text(setting(result)),
            Cell::Number(result.work as f64),
            cell(&result.short, p50),
            cell(&result.short, p99),
            cell(&result.overall, p99),
            largest.map_or(Cell::Missing("n/a".into()), |slice| cell(&slice.summary, p99)),
            Cell::Number(result.goodput_gbps),
            queue,
            Cell::Number(result.queue_max_bytes() as f64 / 1e3),
            Cell::Number(lost as f64 * 100.0 / result.packets.sent.max(1) as f64),
            Cell::Number(result.retransmitted_ratio() * 100.0),
            Cell::Text(result.note.clone()),
        ]
    };
    Table {
        id: "points".to_string(),
        title: "All points".to_string(),
        columns: columns.map(String::from).to_vec(),
        rows: different(e).into_iter().map(row).collect(),
    }
}

/// A curve of some value of each transport over a swept key.
pub struct TransportCurve {
    /// Name in files.
    pub id: &'static str,
    /// Headline.
    pub title: &'static str,
    /// The swept key.
    pub key: &'static str,
    /// Label of the horizontal axis, and its scale.
    pub x: (&'static str, Scale),
    /// Label of the vertical axis, and its scale.
    pub y: (&'static str, Scale),
    /// The value; `None` leaves a gap.
    pub of: fn(&NetResult) -> Option<f64>,
}

/// Draws a curve for each transport of a variant.
pub fn curve(e: &NetExperiment, variant: &str, what: &TransportCurve) -> Panel {
    let series = |label: &str| {
        let point = |result: &NetResult| {
            let at = match result.settings.get(what.key)? {
                serde_json::Value::Number(number) => number.as_f64()?,
                serde_json::Value::Array(list) => list.first()?.as_f64()?,
                _ => return None,
            };
            if at <= 0.0 && matches!(what.x.1, Scale::Log) {
                return None;
            }
            let y = (what.of)(result);
            Some(Point {
                x: at,
                y,
                low: None,
                high: None,
                samples: result.overall.samples,
                stable: true,
            })
        };
        Series {
            label: label.to_string(),
            points: e.of(variant, label).filter_map(point).collect(),
        }
    };
    Panel {
        id: what.id.to_string(),
        title: what.title.to_string(),
        x: axis(what.x.0, what.x.1),
        y: axis(what.y.0, what.y.1),
        series: e.labels(variant).into_iter().map(series).collect(),
        rules: Vec::new(),
    }
}

/// Queues by class of port.
pub fn queues(e: &NetExperiment, variant: &str) -> Table {
    let mut rows = Vec::new();
    for result in e.results.iter().filter(|result| result.variant == variant) {
        for port in &result.ports {
            rows.push(vec![
                Cell::Text(result.label.clone()),
                Cell::Text(setting(result)),
                Cell::Text(port.class.clone()),
                Cell::Number(port.mean_bytes / 1e3),
                Cell::Number(port.max_bytes as f64 / 1e3),
                Cell::Number(port.utilization),
            ]);
        }
    }
    let columns = ["transport", "setting", "ports", "mean (kB)", "max (kB)", "utilization"];
    Table {
        id: "queues".to_string(),
        title: "Queues, without the packet being sent".to_string(),
        columns: columns.map(String::from).to_vec(),
        rows,
    }
}

/// Shares of wire bytes at each level, and what short messages near their 99th percentile wait for.
pub fn levels(e: &NetExperiment) -> Table {
    let row = |result: &NetResult| {
        let all: u64 = result.level_bytes.iter().sum();
        let mut row = vec![Cell::Text(result.label.clone()), Cell::Text(setting(result))];
        let share = |&bytes: &u64| Cell::Number(bytes as f64 * 100.0 / all.max(1) as f64);
        row.extend(result.level_bytes.iter().map(share));
        match &result.tail_sources {
            Some(sources) => {
                row.push(Cell::Number(sources.queueing_us));
                row.push(Cell::Number(sources.lag_us));
            }
            None => row.extend([Cell::Missing("n/a".into()), Cell::Missing("n/a".into())]),
        }
        row
    };
    let mut columns = vec!["transport".to_string(), "setting".to_string()];
    columns.extend((0..8).map(|level| format!("level {level} (%)")));
    columns.extend(["queueing (us)".to_string(), "preemption lag (us)".to_string()]);
    Table {
        id: "levels".to_string(),
        title: "Bytes by level, and what short messages at their P99 wait for".to_string(),
        columns,
        rows: e.results.iter().map(row).collect(),
    }
}
