//! What is drawn, tabled and said of experiments on search.

use super::plan::SearchPlan;
use super::result::{Phase, SearchResult};
use crate::Latency;
use crate::bursts::{self, Run};
use cavy_report::model::{Cell, Scale, Table};
use cavy_study::draw::{Column, Curve, Drawn, Spread, axis, cell, headline, slug, suffix};
use cavy_study::experiment::Experiment;
use cavy_study::objective::Metric;
use cavy_study::subject::Subject as _;
use std::collections::BTreeSet;

/// Columns of the table of points.
pub fn columns(experiment: &Experiment<SearchPlan>) -> Vec<Column<SearchPlan>> {
    let number = |value: Option<f64>| value.map_or(Cell::Missing("none".to_string()), Cell::Number);
    let mut columns = vec![
        Column::new("mean (ms)", |r: &SearchResult| cell(r, r.latency.get("mean_ms"))),
        Column::new("p50 (ms)", |r: &SearchResult| cell(r, r.latency.get("p50_ms"))),
        Column::new("p99 (ms)", |r: &SearchResult| cell(r, r.latency.get("p99_ms"))),
        Column::new("p99.9 (ms)", |r: &SearchResult| cell(r, r.latency.get("p999_ms"))),
        Column::new("parts", |r: &SearchResult| Cell::Number(r.parts)),
        Column::new("busy (%)", |r: &SearchResult| Cell::Number(100.0 * r.busy_ratio)),
        Column::new("busiest (%)", |r: &SearchResult| Cell::Number(100.0 * r.busiest_ratio)),
        Column::new("copies", |r: &SearchResult| Cell::Number(r.copies)),
        Column::new("stored (GB)", |r: &SearchResult| Cell::Number(r.stored_gb)),
    ];
    let any = |of: fn(&SearchResult) -> bool| experiment.results.iter().any(of);
    if any(|r| r.theory_mean_ms.is_some()) {
        columns.push(Column::new("mean by theory (ms)", move |r: &SearchResult| {
            number(r.theory_mean_ms)
        }));
    }
    if any(|r| r.explained.is_some()) {
        columns.push(Column::new("fixed part (ms)", |r: &SearchResult| Cell::Number(r.cost_ms.0)));
        columns
            .push(Column::new("scanning all (ms)", |r: &SearchResult| Cell::Number(r.cost_ms.1)));
        columns.push(Column::new("R^2 of the line", move |r: &SearchResult| number(r.explained)));
    }
    if any(|r| r.met_ratio.value < 1.0) {
        columns.push(Column::new("not met (%)", |r: &SearchResult| {
            Cell::Number(100.0 * (1.0 - r.met_ratio.value))
        }));
    }
    if any(|r| r.timed_out_ratio > 0.0) {
        columns.push(Column::new("at the deadline (%)", |r: &SearchResult| {
            Cell::Number(100.0 * r.timed_out_ratio)
        }));
    }
    if any(|r| r.loss.is_some()) {
        let of = move |of: fn(&super::result::Loss) -> Option<f64>| {
            move |r: &SearchResult| number(r.loss.as_ref().and_then(of))
        };
        columns.push(Column::new("anything lost", of(|loss| Some(loss.any_ratio))));
        columns.push(Column::new("anything lost, exact", of(|loss| loss.any_exact)));
        columns.push(Column::new("more than an id lost", of(|loss| Some(loss.more_ratio))));
        columns.push(Column::new("more than an id lost, exact", of(|loss| loss.more_exact)));
        columns.push(Column::new("share lost", of(|loss| Some(loss.share))));
        columns.push(Column::new("share lost, exact", of(|loss| loss.share_exact)));
    }
    columns
}

/// Means and tails.
pub fn curves() -> Vec<Curve<SearchPlan>> {
    let of = |metric: &'static str, label: &str| Curve {
        id: metric.trim_end_matches("_ms").to_string(),
        y: axis(label, "ms", Scale::Log),
        of: Box::new(move |r: &SearchResult| {
            Drawn::of(r.latency.get(metric), Spread::Interval, r.latency.samples)
        }),
        metric: Some(Metric::of_all(metric)),
    };
    vec![of("mean_ms", "latency of queries, mean"), of("p99_ms", "latency of queries, p99")]
}

/// The p of a point.
fn p_of(result: &SearchResult) -> Option<f64> {
    result.setting("p")
}

/// Groups of points that differ in p alone: scheme, axis and the other swept keys.
fn groups<'a>(
    experiment: &'a Experiment<SearchPlan>,
    variant: &str,
) -> Vec<(String, f64, Vec<&'a SearchResult>)> {
    let mut groups: Vec<(String, f64, Vec<&SearchResult>)> = Vec::new();
    for result in experiment.results.iter().filter(|result| result.variant == variant) {
        if p_of(result).is_none() {
            continue;
        }
        let others = |one: &SearchResult| {
            let mut settings = one.settings.clone();
            settings.remove("p");
            settings
        };
        let same = |group: &&mut (String, f64, Vec<&SearchResult>)| {
            group.0 == result.label && others(group.2[0]) == others(result)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.2.push(result),
            None => groups.push((result.label.clone(), result.load(), vec![result])),
        }
    }
    groups.retain(|(_, _, points)| points.len() > 1);
    groups
}

/// The point of the least `metric` among those that keep up.
fn least<'a>(points: &[&'a SearchResult], metric: &str) -> Option<(&'a SearchResult, f64)> {
    let stable = points.iter().filter(|point| point.stable());
    let values = stable.filter_map(|point| Some((*point, point.latency.get(metric)?.value)));
    values.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// What a point's load is counted in.
fn load_words(experiment: &Experiment<SearchPlan>) -> &'static str {
    let rates = experiment.results.iter().any(|one| one.settings.contains_key("queries_per_s"));
    if rates { "queries/s" } else { "load" }
}

/// Which p is best at which load, where p is swept.
pub fn choices(experiment: &Experiment<SearchPlan>, variant: &str) -> Option<Table> {
    let groups = groups(experiment, variant);
    if groups.is_empty() {
        return None;
    }
    let head = load_words(experiment);
    let row = |(label, load, points): &(String, f64, Vec<&SearchResult>)| {
        let by_mean = least(points, "mean_ms");
        let by_tail = least(points, "p99_ms");
        // A percentile needs more queries than a mean.
        let why = match points.iter().any(|point| point.stable()) {
            true => "too few queries",
            false => "none keeps up",
        };
        let cell = |value: Option<f64>| value.map_or(Cell::Missing(why.to_string()), Cell::Number);
        let p = |found: Option<(&SearchResult, f64)>| cell(found.and_then(|(one, _)| p_of(one)));
        let value = |found: Option<(&SearchResult, f64)>| cell(found.map(|(_, value)| value));
        let copies = cell(by_tail.map(|(one, _)| one.copies));
        vec![
            Cell::Text(label.clone()),
            Cell::Number(*load),
            p(by_mean),
            value(by_mean),
            p(by_tail),
            value(by_tail),
            copies,
        ]
    };
    Some(Table {
        id: format!("choices-{}", slug(variant)),
        title: headline(&format!("which p at which load{}", suffix(variant))),
        columns: [
            "scheme",
            head,
            "p, least mean",
            "mean (ms)",
            "p, least p99",
            "p99 (ms)",
            "copies",
        ]
        .map(str::to_string)
        .to_vec(),
        rows: groups.iter().map(row).collect(),
    })
}

/// Says of which intervals a reader should not expect what they promise.
pub fn remark_of_bursts(experiment: &Experiment<SearchPlan>) -> Option<String> {
    let stable = experiment.results.iter().filter(|result| result.stable());
    let few: Vec<(f64, String)> = stable
        .filter_map(|result| {
            let (percentile, bursts) = result.latency.few_bursts()?;
            let axis = experiment.plan.axis();
            let at = axis.as_ref().zip(result.at).map(|(axis, at)| format!(" {}", axis.place(at)));
            let at = at.unwrap_or_default();
            Some((bursts, format!("the {percentile} under {}{at}", result.label)))
        })
        .collect();
    let points = (few.len(), experiment.results.len());
    let (least, worst) = few.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    let run = Run { work: "queries", key: "run.queries", length: experiment.plan.run.queries };
    Some(bursts::remark(points, least, &worst, &run))
}

/// When to change p, and what that moves.
pub fn remarks(experiment: &Experiment<SearchPlan>) -> Vec<String> {
    let mut sentences = Vec::new();
    let variants: BTreeSet<&str> =
        experiment.results.iter().map(|result| result.variant.as_str()).collect();
    let mut changes_with_load = false;
    for variant in variants {
        let groups = groups(experiment, variant);
        let mut told = BTreeSet::new();
        for label in groups.iter().map(|group| &group.0).filter(|label| told.insert(*label)) {
            let mut best: Vec<(f64, f64)> = groups
                .iter()
                .filter(|group| group.0 == *label)
                .filter_map(|group| Some((group.1, p_of(least(&group.2, "p99_ms")?.0)?)))
                .collect();
            best.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (Some(first), Some(last)) = (best.first(), best.last()) else { continue };
            let (of, words) = (suffix(variant), load_words(experiment));
            sentences.push(if first.1 == last.1 {
                format!("{label}{of}: p = {} has the least p99 at every load.", last.1)
            } else {
                changes_with_load |= label.starts_with("ROAR");
                format!(
                    "{label}{of}: p = {} has the least p99 at {} {words}, p = {} at {} {words}.",
                    first.1, first.0, last.1, last.0
                )
            });
        }
    }
    if changes_with_load {
        sentences.push(
            "ROAR copies nothing when p is raised; lowering it from p to q copies n (1/q - 1/p) \
             times the documents."
                .to_string(),
        );
    }
    sentences.extend(remark_of_bursts(experiment));
    sentences
}

/// The fewest live servers that had the same document after a crash, over all draws.
fn copies_left(phase: &Phase) -> Cell {
    let least = phase.draws.iter().map(|draw| draw.holders_least).min();
    least.map_or(Cell::Missing("all".to_string()), |count| Cell::Number(f64::from(count)))
}

/// What became of events.
pub fn phases(experiment: &Experiment<SearchPlan>, variant: &str) -> Option<Table> {
    let number = |found: Option<&cavy_study::outcome::Estimate>| {
        found.map_or(Cell::Missing("none".to_string()), |one| Cell::Number(one.value))
    };
    let own = experiment.results.iter().filter(|result| result.variant == variant);
    let rows = own.flat_map(|result| {
        result.phases.iter().map(move |phase| {
            vec![
                Cell::Text(result.label.clone()),
                Cell::Number(phase.at_s),
                Cell::Text(phase.what.clone()),
                number(phase.usable_s.as_ref()),
                number(phase.reached_s.as_ref()),
                Cell::Number(phase.copied.value),
                Cell::Number(phase.blocked_s),
                number(phase.before_mean_ms.as_ref()),
                number(phase.during_mean_ms.as_ref()),
                Cell::Number(phase.during_most_ms),
                number(phase.after_mean_ms.as_ref()),
                copies_left(phase),
                Cell::Number(result.wrong as f64),
                Cell::Number(result.partial as f64),
            ]
        })
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        id: format!("phases-{}", slug(variant)),
        title: headline(&format!("what became of events{}", suffix(variant))),
        columns: [
            "scheme",
            "at (s)",
            "event",
            "usable after (s)",
            "over after (s)",
            "copied (indexes)",
            "no writes (s)",
            "mean before (ms)",
            "meanwhile (ms)",
            "longest (ms)",
            "after (ms)",
            "fewest copies left",
            "wrong answers",
            "partial answers",
        ]
        .map(str::to_string)
        .to_vec(),
        rows,
    })
}

/// What became of borders that move by load.
pub fn balanced(experiment: &Experiment<SearchPlan>, variant: &str) -> Option<Table> {
    let of = |latency: &Latency, metric: &str| match latency.get(metric) {
        Some(found) => Cell::Number(found.value),
        None => Cell::Missing("too few queries".to_string()),
    };
    let own = experiment.results.iter().filter(|result| result.variant == variant);
    let row = |result: &SearchResult| {
        let found = result.balance.as_ref()?;
        let each = found.imbalance.iter().map(|one| format!("{:.2}", one.value));
        Some(vec![
            Cell::Text(result.label.clone()),
            Cell::Text(each.collect::<Vec<_>>().join(", ")),
            Cell::Number(found.steps.value),
            Cell::Number(found.copied.value),
            of(&found.moving, "mean_ms"),
            of(&found.moving, "p99_ms"),
            of(&found.after, "mean_ms"),
            of(&found.after, "p99_ms"),
            Cell::Number(result.wrong as f64),
            Cell::Number(result.partial as f64),
        ])
    };
    let rows: Vec<Vec<Cell>> = own.filter_map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: format!("balance-{}", slug(variant)),
        title: headline(&format!("what became of borders{}", suffix(variant))),
        columns: [
            "scheme",
            "greatest load over the mean, by period",
            "moves",
            "copied (indexes)",
            "mean while they move (ms)",
            "p99 (ms)",
            "mean after (ms)",
            "p99 after (ms)",
            "wrong answers",
            "partial answers",
        ]
        .map(str::to_string)
        .to_vec(),
        rows,
    })
}
