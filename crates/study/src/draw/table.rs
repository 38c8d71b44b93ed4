//! Tables: points, capacities, rankings.

use super::{suffix, words};
use crate::experiment::Experiment;
use crate::outcome::{Estimate, Outcome, Standing};
use crate::rank::{self, Rank, Ranking};
use crate::subject::{Axis, Sense, Subject};
use cavy_report::model::{Cell, Table};

/// How a cell is made from a point.
pub type CellOf<S> = Box<dyn Fn(&Outcome<<S as Subject>::Data>) -> Cell>;

/// A column of the table of points.
pub struct Column<S: Subject> {
    /// Its head, with unit.
    pub head: String,
    /// The cell of a point.
    pub of: CellOf<S>,
}

impl<S: Subject> Column<S> {
    /// A column.
    pub fn new(head: impl Into<String>, of: impl Fn(&Outcome<S::Data>) -> Cell + 'static) -> Self {
        Column { head: head.into(), of: Box::new(of) }
    }
}

/// An estimate of a point with its interval, or why there is none.
pub fn cell<D>(result: &Outcome<D>, estimate: Option<&Estimate>) -> Cell {
    match (result.standing, estimate) {
        (Standing::Unstable, _) => Cell::Missing("unstable".to_string()),
        (Standing::TooShort, _) => Cell::Missing("too short".to_string()),
        (Standing::Stable, Some(e)) => Cell::Interval { value: e.value, low: e.low, high: e.high },
        (Standing::Stable, None) => Cell::Missing("n/a: too few samples".to_string()),
    }
}

/// A swept value.
pub fn setting(value: Option<&serde_json::Value>) -> Cell {
    match value {
        Some(serde_json::Value::Number(n)) => Cell::Setting(n.as_f64().unwrap_or(f64::NAN)),
        Some(serde_json::Value::String(text)) => Cell::Text(text.clone()),
        Some(other) => Cell::Text(other.to_string()),
        None => Cell::Text(String::new()),
    }
}

fn number(value: Option<f64>) -> Cell {
    value.map_or(Cell::Missing("none".to_string()), Cell::Number)
}

/// A place on an axis.
fn on_axis(value: Option<f64>) -> Cell {
    value.map_or(Cell::Missing("none".to_string()), Cell::Setting)
}

/// What is said of a point's standing.
pub fn verdict<D>(result: &Outcome<D>) -> String {
    match (result.standing, &result.unformed) {
        (Standing::Stable, None) => "keeps up".to_string(),
        (Standing::Stable, Some(why)) => why.clone(),
        (Standing::TooShort, _) => format!("too short: {}", result.note),
        (Standing::Unstable, _) => result.note.clone(),
    }
}

/// Every point of an experiment.
pub fn points<S: Subject>(experiment: &Experiment<S>) -> Table {
    let axis = experiment.plan.axis();
    let with_variants = experiment.variants().len() > 1;
    let with_axis = experiment.results.iter().any(|r| r.at.is_some());
    let doubtful = |r: &Outcome<S::Data>| !r.stable() || r.unformed.is_some();
    let with_verdict = experiment.results.iter().any(doubtful);
    let mut keys: Vec<&String> = Vec::new();
    for result in &experiment.results {
        for key in result.settings.keys() {
            if axis.is_none_or(|axis| axis.key != key) && !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let mut columns: Vec<String> = Vec::new();
    columns.extend(with_variants.then(|| "variant".to_string()));
    columns.push(S::ABOUT.contestant.one.to_string());
    columns.extend(keys.iter().map(|key| words(key)));
    columns.extend(axis.filter(|_| with_axis).map(|axis| axis.words.to_string()));
    let own = S::columns(experiment);
    columns.extend(own.iter().map(|column| column.head.clone()));
    columns.extend(with_verdict.then(|| "verdict".to_string()));
    let row = |result: &Outcome<S::Data>| {
        let mut row = Vec::new();
        row.extend(with_variants.then(|| Cell::Text(result.variant.clone())));
        row.push(Cell::Text(result.label.clone()));
        row.extend(keys.iter().map(|key| setting(result.settings.get(*key))));
        if with_axis {
            row.push(result.at.map_or(Cell::Text(String::new()), Cell::Setting));
        }
        row.extend(own.iter().map(|column| (column.of)(result)));
        row.extend(with_verdict.then(|| Cell::Text(verdict(result))));
        row
    };
    let rows = experiment.results.iter().map(row).collect();
    Table { id: "points".to_string(), title: "All points".to_string(), columns, rows }
}

/// What the last good value of the searched axis is called, such as `highest load`.
pub(super) fn last_good<S: Subject>(experiment: &Experiment<S>) -> String {
    match experiment.plan.axis() {
        Some(axis) if axis.sense == Sense::Least && axis.counted => {
            format!("fewest {}", axis.words)
        }
        Some(axis) if axis.sense == Sense::Least => format!("lowest {}", axis.words),
        Some(axis) if axis.counted => format!("most {}", axis.words),
        Some(axis) => format!("highest {}", axis.words),
        None => "last good value".to_string(),
    }
}

/// The table of capacities, when the plan has objectives.
pub fn capacities<S: Subject>(experiment: &Experiment<S>) -> Option<Table> {
    let all = &experiment.capacities;
    if all.is_empty() {
        return None;
    }
    let axis = experiment.plan.axis();
    let with_variants = experiment.variants().len() > 1;
    let with_settings = all.iter().any(|c| !c.settings.is_empty());
    let with_rate = all.iter().any(|c| c.rate_per_s.is_some());
    // In thousands where that leaves fewer digits.
    let greatest = all.iter().filter_map(|c| c.rate_per_s).fold(0.0, f64::max);
    let (rate_unit, prefix) = if greatest >= 1e4 { (1e3, "thousand ") } else { (1.0, "") };
    let last_good = last_good(experiment);
    let mut columns = Vec::new();
    columns.extend(with_variants.then(|| "variant".to_string()));
    columns.push("objective".to_string());
    columns.push(S::ABOUT.contestant.one.to_string());
    columns.extend(with_settings.then(|| "with".to_string()));
    columns.push(last_good.clone());
    columns.extend(with_rate.then(|| format!("{prefix}{}/s", S::ABOUT.work.many)));
    columns.push(match axis {
        Some(axis) if axis.counted => format!("missed with so many {}", axis.words),
        Some(axis) => format!("missed at {}", axis.words),
        None => "missed at value".to_string(),
    });
    columns.push("what gives way".to_string());
    let rows = all.iter().map(|capacity| {
        let mut row = Vec::new();
        row.extend(with_variants.then(|| Cell::Text(capacity.variant.clone())));
        row.push(Cell::Text(capacity.objective.clone()));
        row.push(Cell::Text(capacity.label.clone()));
        if with_settings {
            let settings = capacity.settings.iter();
            let each: Vec<String> =
                settings.map(|(key, value)| format!("{} = {value}", words(key))).collect();
            row.push(Cell::Text(each.join(", ")));
        }
        row.push(on_axis(capacity.at));
        row.extend(with_rate.then(|| number(capacity.rate_per_s.map(|rate| rate / rate_unit))));
        row.push(on_axis(capacity.missed_at));
        row.push(Cell::Text(capacity.limit.clone()));
        row
    });
    let rows = rows.collect();
    let verb = if axis.is_some_and(|axis| axis.counted) { "meet" } else { "meets" };
    let title = format!("{} that {verb} each objective", super::headline(&last_good));
    Some(Table { id: "capacity".to_string(), title, columns, rows })
}

/// The ranking tables: what each contestant would buy, and what it costs whom.
pub fn rankings<S: Subject>(experiment: &Experiment<S>) -> Vec<Table> {
    let all = rank::rankings(experiment);
    all.iter().enumerate().map(|(index, one)| ranking(experiment, index, one)).collect()
}

/// Where a row is compared: named where rows differ.
pub(super) fn place(axis: Option<&Axis>, at: Option<f64>) -> String {
    let of = |at| axis.map_or(format!("at value {at}"), |axis| axis.place(at));
    at.map_or(String::new(), of)
}

fn ranking<S: Subject>(experiment: &Experiment<S>, index: usize, ranking: &Ranking) -> Table {
    let axis = experiment.plan.axis();
    let axis = axis.as_ref();
    let with_capacity = ranking.objective.is_some();
    let head = |text: &str| match ranking.compared_at {
        Some(at) => format!("{text} {}", place(axis, Some(at))),
        None => text.to_string(),
    };
    let mut columns = vec![S::ABOUT.contestant.one.to_string()];
    if with_capacity {
        columns.push(last_good(experiment));
        columns.extend(["buys", "what gives way"].map(str::to_string));
    }
    columns.extend(S::marks().iter().map(|mark| head(mark.head)));
    columns.push("costs whom".to_string());
    let rows = ranking.rows.iter().map(|row| {
        let mut cells = vec![Cell::Text(row.label.clone())];
        if with_capacity {
            cells.push(on_axis(row.at));
            let gain = row.gain_ratio.map(|gain| Cell::Text(format!("{gain:.2}x")));
            cells.push(gain.unwrap_or(Cell::Missing("n/a".to_string())));
            cells.push(Cell::Text(row.limit.clone()));
        }
        cells.extend(row.marks.iter().map(|mark| match (mark, ranking.compared_at) {
            (None, _) => Cell::Missing("n/a".to_string()),
            (Some(value), Some(_)) => Cell::Number(*value),
            (Some(value), None) => Cell::Text(format!(
                "{} {}",
                cavy_report::number::significant(*value),
                place(axis, row.compared_at)
            )),
        }));
        cells.push(Cell::Text(costs(ranking, row, axis)));
        cells
    });
    let rows = rows.collect();
    let head = ranking.objective.as_deref().unwrap_or("Ranking");
    let suffix = suffix(&ranking.variant);
    Table {
        id: format!("ranking-{index}"),
        title: format!("{head}{suffix}: what each would buy, what it costs whom"),
        columns,
        rows,
    }
}

/// What a contestant costs whom, in words.
fn costs(ranking: &Ranking, row: &Rank, axis: Option<&Axis>) -> String {
    if let Some(why) = &row.unformed {
        return format!("not ranked: {why}");
    }
    if row.label == ranking.baseline {
        return "the baseline".to_string();
    }
    let at = place(axis, row.compared_at);
    match (row.effects.is_empty(), at.is_empty()) {
        (true, true) => "nowhere are both stable".to_string(),
        (true, false) => format!("{at}: not compared"),
        (false, empty) => {
            let words: Vec<String> = row.effects.iter().map(rank::Effect::words).collect();
            let at = if empty { at } else { format!("{at}: ") };
            format!("{at}{}", words.join(", "))
        }
    }
}
