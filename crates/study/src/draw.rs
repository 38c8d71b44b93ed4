//! From experiments to what a report draws.

use crate::compare;
use crate::experiment::{BASE, Experiment};
use crate::plan::objective::{Objective, Percentile, Quantity};
use crate::point::{Estimate, PointResult, TimelineResult};
use cavy_report::model::{Axis, Cell, Figure, Panel, Point, Rule, Scale, Series, Table};

/// Which spread is drawn around which value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The median over replications, from the smallest to the largest ([persephone 5.3]).
    Replications,
    /// The pooled value with its 95 % interval.
    Interval,
}

/// What a panel shows.
#[derive(Clone, Copy, Debug)]
pub struct Curve<'a> {
    /// Percentile.
    pub percentile: Percentile,
    /// Latency or slowdown.
    pub quantity: Quantity,
    /// Type, or all requests.
    pub kind: Option<&'a str>,
}

impl Curve<'_> {
    /// 99.9th percentile slowdown of all requests.
    pub const SLOWDOWN: Curve<'static> =
        Curve { percentile: Percentile::P999, quantity: Quantity::Slowdown, kind: None };

    fn label(&self) -> String {
        let of = self.kind.map_or(String::new(), |kind| format!(" of {kind}"));
        let what = match self.quantity {
            Quantity::Us => "latency",
            Quantity::Slowdown => "slowdown",
        };
        format!("{} {what}{of}", self.percentile.title())
    }
}

/// A number to plot against, from a swept value.
fn abscissa(result: &PointResult, key: &str) -> Option<f64> {
    match result.settings.get(key)? {
        serde_json::Value::Number(number) => number.as_f64(),
        serde_json::Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        _ => None,
    }
}

/// The swept key on the horizontal axis; `load` when nothing is swept.
pub fn horizontal(experiment: &Experiment, variant: &str) -> String {
    let swept = experiment.results.iter().find(|r| r.variant == variant).map(|r| &r.settings);
    let key = swept.and_then(|settings| {
        if settings.contains_key("load") {
            Some("load")
        } else {
            settings.keys().next().map(|k| k.as_str())
        }
    });
    key.unwrap_or("load").to_string()
}

fn x_axis(experiment: &Experiment, variant: &str, key: &str) -> Axis {
    let label = if key == "load" {
        let full = experiment
            .results
            .iter()
            .find(|r| r.variant == variant && r.load > 0.0)
            .map(|r| r.rate_per_s / r.load);
        match full {
            Some(rate) if rate >= 1e6 => {
                format!("offered load (1 = {:.2} million requests/s)", rate / 1e6)
            }
            Some(rate) if rate >= 1e3 => {
                format!("offered load (1 = {:.1} thousand requests/s)", rate / 1e3)
            }
            Some(rate) => format!("offered load (1 = {rate:.1} requests/s)"),
            None => "offered load".to_string(),
        }
    } else {
        key.rsplit('.').next().unwrap_or(key).replace('_', " ")
    };
    Axis { label, unit: String::new(), scale: Scale::Linear, min: None, max: None }
}

fn point(x: f64, result: &PointResult, estimate: Option<&Estimate>, spread: Spread) -> Point {
    let drawn = estimate.filter(|_| result.stable);
    let (y, low, high) = match (drawn, spread) {
        (None, _) => (None, None, None),
        (Some(e), Spread::Interval) => (Some(e.value), Some(e.low), Some(e.high)),
        (Some(e), Spread::Replications) => (Some(e.median), Some(e.min()), Some(e.max())),
    };
    let samples = result.overall.samples;
    Point { x, y, low, high, samples, stable: result.stable }
}

/// A panel of one curve for every policy of a variant against the first swept key. Further swept
/// keys become further series.
pub fn panel(experiment: &Experiment, variant: &str, curve: Curve<'_>, spread: Spread) -> Panel {
    let key = horizontal(experiment, variant);
    let mut series: Vec<Series> = Vec::new();
    for policy in experiment.policies(variant) {
        for result in experiment.of(variant, policy) {
            let others: Vec<String> = result
                .settings
                .iter()
                .filter(|(k, _)| **k != key)
                .map(|(k, v)| {
                    format!("{} {v}", k.rsplit('.').next().unwrap_or(k).replace('_', " "))
                })
                .collect();
            let label = if others.is_empty() {
                policy.to_string()
            } else {
                format!("{policy}, {}", others.join(", "))
            };
            let x = abscissa(result, &key).unwrap_or(result.load);
            let estimate =
                result.summary(curve.kind).and_then(|s| s.get(curve.percentile, curve.quantity));
            let drawn = point(x, result, estimate, spread);
            match series.iter_mut().find(|s| s.label == label) {
                Some(series) => series.points.push(drawn),
                None => series.push(Series { label, points: vec![drawn] }),
            }
        }
    }
    // A policy that no further key concerns gives the same curve many times; one is enough.
    series.dedup_by(|b, a| {
        let base = |label: &str| label.split(',').next().unwrap_or("").to_string();
        base(&a.label) == base(&b.label)
            && a.points.len() == b.points.len()
            && a.points.iter().zip(&b.points).all(|(p, q)| p.y == q.y && p.x == q.x)
    });
    for series in &mut series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    let rules = experiment
        .plan
        .objectives
        .iter()
        .filter_map(|text| Objective::parse(text).ok())
        .filter(|o| {
            o.percentile == curve.percentile
                && o.quantity == curve.quantity
                && o.kind.as_deref() == curve.kind
        })
        .map(|o| Rule { label: format!("objective: {}", o.limit), y: o.limit })
        .collect();
    let unit = match curve.quantity {
        Quantity::Us => "us",
        Quantity::Slowdown => "x",
    };
    let name = curve.kind.unwrap_or("all");
    let id = format!("{variant}-{}-{}-{name}", curve.percentile.name(), curve.quantity.name());
    let suffix = if variant == BASE { String::new() } else { format!(" ({variant})") };
    let mut title = curve.label();
    if let Some(first) = title.get(..1).map(str::to_uppercase) {
        title.replace_range(..1, &first);
    }
    Panel {
        id,
        title: format!("{title}{suffix}"),
        x: x_axis(experiment, variant, &key),
        y: Axis {
            label: curve.label(),
            unit: unit.to_string(),
            scale: Scale::Log,
            min: None,
            max: None,
        },
        series,
        rules,
    }
}

/// Overall slowdown and the tail of every type, for each variant.
pub fn panels(experiment: &Experiment, spread: Spread) -> Vec<Panel> {
    let mut all = Vec::new();
    for variant in experiment.variants() {
        all.extend(panels_of(experiment, variant, spread));
    }
    all
}

/// Overall slowdown and the tail of every type, for one variant.
pub fn panels_of(experiment: &Experiment, variant: &str, spread: Spread) -> Vec<Panel> {
    let mut all = Vec::new();
    let Some(first) = experiment.results.iter().find(|r| r.variant == variant) else { return all };
    if first.settings.is_empty() {
        return all;
    }
    all.push(panel(experiment, variant, Curve::SLOWDOWN, spread));
    for kind in &first.types {
        // The 99.9th percentile where any point has the samples for it, else the 99th.
        let of = |percentile| Curve { percentile, quantity: Quantity::Us, kind: Some(&kind.name) };
        let tail = panel(experiment, variant, of(Percentile::P999), spread);
        let drawn = tail.series.iter().flat_map(|s| &s.points).any(|p| p.y.is_some());
        if drawn {
            all.push(tail);
        } else {
            all.push(panel(experiment, variant, of(Percentile::P99), spread));
        }
    }
    all
}

/// Latency and reservation over time.
pub fn timeline_panels(experiment: &Experiment) -> Vec<Panel> {
    let mut all = Vec::new();
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_string(),
        unit: unit.to_string(),
        scale,
        min: None,
        max: None,
    };
    let time = || axis("time", "ms", Scale::Linear);
    for result in &experiment.results {
        let Some(timeline) = &result.timeline else { continue };
        let names: Vec<&str> = result.types.iter().map(|t| t.name.as_str()).collect();
        let policy = match result.variant.as_str() {
            BASE => result.policy.clone(),
            variant => format!("{}, {variant}", result.policy),
        };
        all.push(Panel {
            id: format!("{}-{}-latency", result.variant, slug(&result.policy)),
            title: format!("{policy}: tail latency over time"),
            x: time(),
            y: axis("p99.9 latency in each bin", "us", Scale::Log),
            series: latency_series(timeline, &names),
            rules: Vec::new(),
        });
        if !timeline.changes.is_empty() {
            all.push(Panel {
                id: format!("{}-{}-reserved", result.variant, slug(&result.policy)),
                title: format!("{policy}: reserved workers over time"),
                x: time(),
                y: axis("reserved workers", "", Scale::Linear),
                series: reserved_series(timeline, &names),
                rules: Vec::new(),
            });
        }
    }
    all
}

fn latency_series(timeline: &TimelineResult, names: &[&str]) -> Vec<Series> {
    let of = |kind: usize| {
        timeline
            .bins
            .iter()
            .map(|bin| Point {
                x: bin.from_ms,
                y: bin.tail_us[kind],
                low: None,
                high: None,
                samples: bin.finished[kind],
                stable: true,
            })
            .collect()
    };
    let series =
        |(kind, name): (usize, &&str)| Series { label: (*name).to_string(), points: of(kind) };
    names.iter().enumerate().map(series).collect()
}

/// Reserved workers as steps: a point before and after each change, and one at the end.
fn reserved_series(timeline: &TimelineResult, names: &[&str]) -> Vec<Series> {
    let end = timeline.bins.len() as f64 * timeline.bin_ms;
    let dot = |x: f64, workers: u32| Point {
        x,
        y: Some(f64::from(workers)),
        low: None,
        high: None,
        samples: 0,
        stable: true,
    };
    let of = |kind: usize| {
        let mut points = Vec::new();
        let mut before = None;
        for change in &timeline.changes {
            if let Some(workers) = before {
                points.push(dot(change.at_ms, workers));
            }
            points.push(dot(change.at_ms + 1e-6, change.reserved[kind]));
            before = Some(change.reserved[kind]);
        }
        points.extend(before.map(|workers| dot(end, workers)));
        points
    };
    let series =
        |(kind, name): (usize, &&str)| Series { label: (*name).to_string(), points: of(kind) };
    names.iter().enumerate().map(series).collect()
}

fn slug(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect()
}

fn cell(result: &PointResult, estimate: Option<&Estimate>) -> Cell {
    match estimate {
        _ if !result.stable => Cell::Missing("unstable".to_string()),
        Some(e) => Cell::Interval { value: e.value, low: e.low, high: e.high },
        None => Cell::Missing("n/a: too few samples".to_string()),
    }
}

/// Every point of an experiment.
pub fn points_table(experiment: &Experiment) -> Table {
    let mut columns: Vec<String> = Vec::new();
    let with_variants = experiment.variants().len() > 1;
    if with_variants {
        columns.push("variant".to_string());
    }
    columns.push("policy".to_string());
    let mut keys: Vec<String> = Vec::new();
    for result in &experiment.results {
        for key in result.settings.keys().filter(|key| *key != "load") {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
    }
    columns.extend(keys.iter().map(|key| key.rsplit('.').next().unwrap_or(key).replace('_', " ")));
    columns.extend(["load", "p50 slowdown", "p99 slowdown", "p99.9 slowdown"].map(str::to_string));
    let names: Vec<String> = experiment
        .results
        .first()
        .map_or(Vec::new(), |r| r.types.iter().map(|t| t.name.clone()).collect());
    columns.extend(names.iter().map(|name| format!("{name} p99.9 (us)")));
    columns.extend(["utilization", "dropped", "reservation"].map(str::to_string));
    let rows = experiment
        .results
        .iter()
        .map(|result| {
            let mut row = Vec::new();
            if with_variants {
                row.push(Cell::Text(result.variant.clone()));
            }
            row.push(Cell::Text(result.policy.clone()));
            for key in &keys {
                row.push(match result.settings.get(key) {
                    Some(serde_json::Value::Number(n)) => {
                        Cell::Number(n.as_f64().unwrap_or(f64::NAN))
                    }
                    Some(serde_json::Value::String(text)) => Cell::Text(text.clone()),
                    Some(other) => Cell::Text(other.to_string()),
                    None => Cell::Text(String::new()),
                });
            }
            row.push(Cell::Number(result.load));
            for percentile in Percentile::ALL {
                row.push(cell(result, result.overall.get(percentile, Quantity::Slowdown)));
            }
            for name in &names {
                row.push(cell(result, result.tail_us(name)));
            }
            row.push(Cell::Number(result.utilization));
            row.push(Cell::Number(result.dropped as f64));
            row.push(Cell::Text(result.reservation.clone().unwrap_or_default()));
            row
        })
        .collect();
    Table { id: "points".to_string(), title: "All points".to_string(), columns, rows }
}

/// The table of capacities, when the plan has objectives.
pub fn capacities(experiment: &Experiment) -> Option<Table> {
    if experiment.capacities.is_empty() {
        return None;
    }
    let with_variants = experiment.variants().len() > 1;
    let with_settings = experiment.capacities.iter().any(|c| !c.settings.is_empty());
    let mut columns = Vec::new();
    if with_variants {
        columns.push("variant".to_string());
    }
    columns.extend(["objective", "policy"].map(str::to_string));
    if with_settings {
        columns.push("with".to_string());
    }
    columns.extend(
        ["highest load", "thousand requests/s", "missed at load", "what gives way"]
            .map(str::to_string),
    );
    let number = |value: Option<f64>| match value {
        Some(value) => Cell::Number(value),
        None => Cell::Missing("none".to_string()),
    };
    let rows = experiment
        .capacities
        .iter()
        .map(|capacity| {
            let mut row = Vec::new();
            if with_variants {
                row.push(Cell::Text(capacity.variant.clone()));
            }
            row.push(Cell::Text(capacity.objective.clone()));
            row.push(Cell::Text(capacity.policy.clone()));
            if with_settings {
                let settings: Vec<String> = capacity
                    .settings
                    .iter()
                    .map(|(key, value)| format!("{key} = {value}"))
                    .collect();
                row.push(Cell::Text(settings.join(", ")));
            }
            row.push(number(capacity.load));
            row.push(number(capacity.rate_per_s.map(|rate| rate / 1e3)));
            row.push(number(capacity.missed_at));
            row.push(Cell::Text(capacity.limit.clone()));
            row
        })
        .collect();
    let title = "Highest load that meets each objective".to_string();
    Some(Table { id: "capacity".to_string(), title, columns, rows })
}

/// The ranking tables: what each policy would buy, and what it costs whom.
pub fn rankings(experiment: &Experiment) -> Vec<Table> {
    compare::rankings(experiment)
        .iter()
        .enumerate()
        .map(|(index, ranking)| {
            let columns = ["policy", "highest load", "buys", "what gives way", "costs whom"];
            let rows = ranking.rows.iter().map(|row| {
                let effects: Vec<String> = row
                    .effects
                    .iter()
                    .filter(|effect| effect.verdict != "unclear")
                    .map(|effect| {
                        let way = if effect.verdict == "better" { "faster" } else { "slower" };
                        let factor =
                            if effect.ratio < 1.0 { 1.0 / effect.ratio } else { effect.ratio };
                        format!("{} {} {factor:.2}x {way}", effect.kind, effect.percentile)
                    })
                    .collect();
                let costs = match row.compared_at_load {
                    _ if row.policy == ranking.baseline => "the baseline".to_string(),
                    Some(load) if !effects.is_empty() => {
                        format!("at load {load}: {}", effects.join(", "))
                    }
                    Some(load) => format!("at load {load}: no clear difference"),
                    None => "no load at which both are stable".to_string(),
                };
                vec![
                    Cell::Text(row.policy.clone()),
                    row.load.map_or(Cell::Missing("none".to_string()), Cell::Number),
                    row.gain_ratio.map_or(Cell::Missing("n/a".to_string()), |g| {
                        Cell::Text(format!("{g:.2}x"))
                    }),
                    Cell::Text(row.limit.clone()),
                    Cell::Text(costs),
                ]
            });
            let suffix = if ranking.variant == BASE {
                String::new()
            } else {
                format!(" ({})", ranking.variant)
            };
            Table {
                id: format!("ranking-{index}"),
                title: format!(
                    "{}{suffix}: what each would buy, what it costs whom",
                    ranking.objective
                ),
                columns: columns.map(str::to_string).to_vec(),
                rows: rows.collect(),
            }
        })
        .collect()
}

/// The figure of a user's own plan.
pub fn figures(experiment: &Experiment, command: &str) -> Vec<Figure> {
    let mut panels = panels(experiment, Spread::Interval);
    panels.extend(timeline_panels(experiment));
    let mut tables = rankings(experiment);
    tables.extend(capacities(experiment));
    tables.push(points_table(experiment));
    vec![Figure {
        id: "plan".to_string(),
        title: experiment.plan.title.clone(),
        shows: experiment.plan.summary.clone(),
        claimed: String::new(),
        found: findings(experiment),
        command: command.to_string(),
        panels,
        tables,
    }]
}

/// What the rankings say, in words, and where they are silent.
fn findings(experiment: &Experiment) -> String {
    let mut sentences = Vec::new();
    for ranking in compare::rankings(experiment) {
        let Some(best) = ranking.rows.first() else { continue };
        let Some(load) = best.load else {
            let short = ranking.rows.iter().any(|row| row.limit.starts_with("too few samples"));
            sentences.push(if short {
                format!(
                    "The runs are too short to judge {}; raise run.requests.",
                    ranking.objective
                )
            } else {
                format!("No policy meets {} at any load tried.", ranking.objective)
            });
            continue;
        };
        let gain = match best.gain_ratio {
            Some(gain) if best.policy != ranking.baseline => {
                format!(", {gain:.2} times what {} sustains", ranking.baseline)
            }
            _ => String::new(),
        };
        sentences.push(format!(
            "Under {} {} sustains the most: load {load:.3}{gain}.",
            ranking.objective, best.policy
        ));
    }
    let unstable = experiment.results.iter().filter(|r| !r.stable).count();
    if unstable > 0 {
        sentences.push(format!(
            "{unstable} of {} points are unstable: there the queue grows without end and no latency is given.",
            experiment.results.len()
        ));
    }
    if experiment.results.iter().any(|r| r.stable && r.overall.p999_slowdown.is_none()) {
        sentences.push(
            "Some points have fewer than 100 samples beyond a percentile in each replication; those \
             percentiles are not given. Raise run.requests to see them."
                .to_string(),
        );
    }
    if experiment.results.iter().any(|r| r.stable && r.too_short) {
        sentences.push(
            "Some runs are too short to see the end of their warm-up; raise run.requests."
                .to_string(),
        );
    }
    sentences.join(" ")
}
