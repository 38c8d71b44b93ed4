//! Times in the unit that suits their size: 12.3 ms and not 12 300 us.
//!
//! Results are kept in one unit each (`report.json`, CSV). What people read is scaled here, a whole
//! column or plot at once, so that numbers below each other can be compared.

use crate::model::{Cell, Document, Line, Panel, Rule, Table};
use std::borrow::Cow;

/// Units of time, each a thousand times the one before it.
const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];

/// The unit for values of about `typical` in `unit`, and what to divide by. Never a smaller one:
/// who measured in microseconds has said how fine it is.
fn scaled(unit: &str, typical: f64) -> Option<(&'static str, f64)> {
    let from = UNITS.iter().position(|known| *known == unit)?;
    let (mut to, mut divisor) = (from, 1.0);
    while to + 1 < UNITS.len() && typical / divisor >= 1e3 {
        to += 1;
        divisor *= 1e3;
    }
    (to > from).then_some((UNITS[to], divisor))
}

/// The middle of the least and the greatest of `values` above zero, by factors.
fn typical(values: impl Iterator<Item = f64>) -> f64 {
    let usable = values.filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) =
        usable.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if high > 0.0 { (low.ln() / 2.0 + high.ln() / 2.0).exp() } else { 0.0 }
}

/// The unit in a head such as `p99 (us)`.
fn unit_of(head: &str) -> Option<&str> {
    head.strip_suffix(')')?.rsplit_once(" (").map(|(_, unit)| unit)
}

/// A table in which each column of times has a unit that suits it.
pub fn table(table: &Table) -> Cow<'_, Table> {
    let mut changed = Cow::Borrowed(table);
    for (at, head) in table.columns.iter().enumerate() {
        let Some(unit) = unit_of(head).filter(|unit| UNITS.contains(unit)) else { continue };
        let cells = || table.rows.iter().filter_map(|row| row.get(at));
        // Words may have numbers of their own, in the unit of the head.
        if cells().any(|cell| matches!(cell, Cell::Text(text) if !text.is_empty())) {
            continue;
        }
        let values = cells().filter_map(|cell| match cell {
            Cell::Number(value) | Cell::Setting(value) | Cell::Interval { value, .. } => {
                Some(*value)
            }
            _ => None,
        });
        let Some((name, divisor)) = scaled(unit, typical(values)) else { continue };
        let begin = head.len() - unit.len() - 1;
        let table = changed.to_mut();
        table.columns[at].replace_range(begin.., &format!("{name})"));
        for cell in table.rows.iter_mut().filter_map(|row| row.get_mut(at)) {
            match cell {
                Cell::Number(value) | Cell::Setting(value) => *value /= divisor,
                Cell::Interval { value, low, high } => {
                    for value in [value, low, high] {
                        *value /= divisor;
                    }
                }
                Cell::Text(_) | Cell::Missing(_) => {}
            }
        }
    }
    changed
}

/// A plot whose heights have a unit that suits them.
pub fn panel(panel: &Panel) -> Cow<'_, Panel> {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let values = points().filter(|point| point.stable).filter_map(|point| point.y);
    let Some((name, divisor)) = scaled(&panel.y.unit, typical(values)) else {
        return Cow::Borrowed(panel);
    };
    let mut panel = panel.clone();
    panel.y.unit = name.to_string();
    for limit in [&mut panel.y.min, &mut panel.y.max].into_iter().flatten() {
        *limit /= divisor;
    }
    for point in panel.series.iter_mut().flat_map(|series| &mut series.points) {
        for value in [&mut point.y, &mut point.low, &mut point.high].into_iter().flatten() {
            *value /= divisor;
        }
    }
    for Rule { at, .. } in &mut panel.rules {
        match at {
            Line::Y(y) => *y /= divisor,
            Line::X(_) => {}
            Line::Spot { low, high, .. } => {
                *low /= divisor;
                *high /= divisor;
            }
        }
    }
    Cow::Owned(panel)
}

/// A document as people read it.
pub fn document(document: &Document) -> Document {
    let mut document = document.clone();
    for figure in &mut document.figures {
        for one in &mut figure.panels {
            if let Cow::Owned(scaled) = panel(one) {
                *one = scaled;
            }
        }
        for one in &mut figure.tables {
            if let Cow::Owned(scaled) = table(one) {
                *one = scaled;
            }
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(heads: &[&str], row: &[f64]) -> Table {
        Table {
            id: String::new(),
            title: String::new(),
            columns: heads.iter().map(|head| (*head).to_string()).collect(),
            rows: vec![row.iter().map(|value| Cell::Number(*value)).collect()],
        }
    }

    #[test]
    fn each_column_of_times_has_the_unit_that_suits_it() {
        let before = made(&["load", "mean wait (us)", "p99 (us)"], &[0.8, 20.0, 50_000.0]);
        let scaled = table(&before);
        assert_eq!(scaled.columns, ["load", "mean wait (us)", "p99 (ms)"]);
        let values: Vec<String> = scaled.rows[0].iter().map(crate::words::cell).collect();
        assert_eq!(values, ["0.8", "20", "50"]);
        assert_eq!(table(&made(&["p99 (us)"], &[3e6])).columns, ["p99 (s)"]);
        for (head, value) in [("p99 (us)", 500.0), ("p99 (us)", 0.05), ("n (kB)", 1e6)] {
            let before = made(&[head], &[value]);
            assert!(matches!(table(&before), Cow::Borrowed(_)), "{head} {value}");
        }
    }

    #[test]
    fn numbers_in_words_keep_their_unit() {
        let mut before = made(&["p99 (us)"], &[5e6]);
        before.rows.push(vec![Cell::Text("12 at load 0.5".into())]);
        assert!(matches!(table(&before), Cow::Borrowed(_)));
    }
}
