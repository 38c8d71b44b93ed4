//! `cavy compare`: what differs between two reports, and whether the difference is clear.

use crate::args::Compare;
use crate::faults::Fault;
use crate::{Clock, Outcome, document, terminal};
use cavy_report::folder::Folder;
use cavy_report::model::{Axis, Cell, Figure, Panel, Point, Scale, Series, Table};
use cavy_report::number::significant;
use cavy_study::plan::files;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Compares two reports.
pub fn compare(args: &Compare, clock: Clock) -> Result<Outcome, Fault> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let found: Vec<(String, String, Vec<Difference>)> = differences(&before, &after);
    if found.is_empty() {
        return Err(Fault::new("the reports have no table and no claim in common")
            .hint("compare two runs of one plan, or of the same figures"));
    }
    let all = || found.iter().flat_map(|(_, _, each)| each);
    let clear = all().filter(|one| one.clear).count();
    let same = text(&before, "digest") == text(&after, "digest");
    let summary = match (same, clear, all().count()) {
        (true, 0, _) => "Both reports come from the same events.".to_string(),
        (_, 0, compared) => format!("None of {compared} values differs clearly."),
        (_, clear, compared) => format!(
            "{clear} of {compared} values differ clearly: their 95 % intervals do not overlap, or \
             they have none and are not equal."
        ),
    };
    if args.json {
        terminal::print_json(&as_json(&before, &after, &found, &summary))?;
    } else {
        let (width, color) = (terminal::width(), terminal::color());
        let mut parts: Vec<String> = Vec::new();
        for table in tables(&found, args.all).iter().filter(|table| !table.rows.is_empty()) {
            parts.push(cavy_report::terminal::table(table, width, color));
        }
        parts.push(format!("{}\n", terminal::wrap(&summary, width, "")));
        terminal::print(&parts.join("\n"))?;
    }
    if let Some(folder) = &args.out {
        let folder = Folder::open(folder, "compare", false)?;
        let seed = before.get("seed").and_then(Value::as_u64).unwrap_or(0);
        let mut made = document::blank(terminal::command_line(), seed, 0, clock.elapsed_s());
        made.title = format!("Before and after: {}", text(&after, "title"));
        made.summary = summary;
        made.digest = format!("{} and {}", text(&before, "digest"), text(&after, "digest"));
        made.facts = facts(&before, &after);
        made.figures = figures(&before, &after, tables(&found, true));
        let report = document::write(&made, &folder)?;
        terminal::talk(&format!("report: {}", report.display()));
    }
    Ok(if args.same && clear > 0 { Outcome::Failed } else { Outcome::Success })
}

/// The `report.json` in a folder, or the file that is named.
fn read(place: &Path) -> Result<Value, Fault> {
    let file: PathBuf =
        if place.is_dir() { place.join("report.json") } else { place.to_path_buf() };
    let shown = file.display();
    let text = files::text(&file).map_err(|error| {
        Fault::new(format!("cannot read `{shown}`: {error}"))
            .hint("name a folder that `cavy run` or `cavy reproduce` wrote with `--out`")
    })?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| Fault::new(format!("`{shown}` is no report: {error}")))?;
    match value.get("figures").is_some_and(Value::is_array) {
        true => Ok(value),
        false => Err(Fault::new(format!("`{shown}` is no report: it has no figures"))
            .hint("name the `report.json` of a report, or its folder")),
    }
}

/// A value in both reports.
struct Difference {
    /// Which row: what tells it from the others.
    whose: String,
    /// Head of the column.
    what: String,
    before: Measured,
    after: Measured,
    /// Is it more than chance?
    clear: bool,
}

#[derive(Clone, Copy)]
struct Measured {
    value: f64,
    ends: Option<(f64, f64)>,
}

impl Measured {
    fn of(cell: &Value) -> Option<Self> {
        if let Some(value) = cell.as_f64() {
            return Some(Measured { value, ends: None });
        }
        let number = |key: &str| cell.get(key)?.as_f64();
        Some(Measured { value: number("value")?, ends: number("low").zip(number("high")) })
    }

    fn cell(self) -> Cell {
        match self.ends {
            Some((low, high)) => Cell::Interval { value: self.value, low, high },
            None => Cell::Number(self.value),
        }
    }
}

impl Difference {
    fn new(whose: String, what: String, before: Measured, after: Measured) -> Self {
        let clear = match (before.ends, after.ends) {
            (Some((low, high)), Some((from, until))) => until < low || from > high,
            _ => before.value != after.value,
        };
        Difference { whose, what, before, after, clear }
    }

    /// `1.31x`, or the difference where one of them is not above zero.
    fn change(&self) -> String {
        let (before, after) = (self.before.value, self.after.value);
        match before > 0.0 && after > 0.0 {
            true => format!("{}x", significant(after / before)),
            false => format!("{:+}", after - before),
        }
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn with_id<'v>(all: &'v [Value], id: &str) -> Option<&'v Value> {
    all.iter().find(|one| text(one, "id") == id)
}

/// Of each table in both, and of the claims: its figure, its title, and the values compared.
fn differences(before: &Value, after: &Value) -> Vec<(String, String, Vec<Difference>)> {
    let mut found = Vec::new();
    let claim = |claim: &Value| {
        let value = claim.get("value")?.as_f64()?;
        let end = |key: &str| claim.get(key)?.as_f64();
        Some(Measured { value, ends: end("low").zip(end("high")) })
    };
    let both = list(before, "claims").iter().filter_map(|one| {
        let id = text(one, "id");
        let other = with_id(list(after, "claims"), id)?;
        let what = text(one, "unit").to_string();
        Some(Difference::new(id.to_string(), what, claim(one)?, claim(other)?))
    });
    let claims: Vec<Difference> = both.collect();
    if !claims.is_empty() {
        found.push((String::new(), "Claims".to_string(), claims));
    }
    for figure in list(before, "figures") {
        let id = text(figure, "id");
        let Some(other) = with_id(list(after, "figures"), id) else { continue };
        for table in list(figure, "tables") {
            let Some(theirs) = with_id(list(other, "tables"), text(table, "id")) else { continue };
            let each = of_table(table, theirs);
            if !each.is_empty() {
                found.push((id.to_string(), text(table, "title").to_string(), each));
            }
        }
    }
    found
}

/// The numbers of one table, by row and head. A row is known by its first cells.
fn of_table(before: &Value, after: &Value) -> Vec<Difference> {
    let heads = |table: &Value| -> Vec<String> {
        list(table, "columns").iter().filter_map(|one| one.as_str().map(str::to_string)).collect()
    };
    let keys = telling(before).max(telling(after));
    let name = |row: &Value| -> String {
        let cells = row.as_array().map_or(&[][..], Vec::as_slice).iter().take(keys);
        let words = cells.map(|cell| match (cell.as_str(), Measured::of(cell)) {
            (Some(text), _) => text.to_string(),
            (None, Some(number)) => significant(number.value),
            (None, None) => String::new(),
        });
        words.collect::<Vec<_>>().join(", ")
    };
    let mut all = Vec::new();
    let theirs = heads(after);
    for row in list(before, "rows") {
        let whose = name(row);
        let Some(other) = list(after, "rows").iter().find(|one| name(one) == whose) else {
            continue;
        };
        for (at, head) in heads(before).iter().enumerate().skip(keys) {
            let cell = |row: &Value, at: usize| row.get(at).and_then(Measured::of);
            let there = theirs.iter().position(|known| known == head);
            if let Some((ours, theirs)) = cell(row, at).zip(there.and_then(|at| cell(other, at))) {
                all.push(Difference::new(whose.clone(), head.clone(), ours, theirs));
            }
        }
    }
    all
}

/// How many of the first columns tell all rows apart.
fn telling(table: &Value) -> usize {
    let rows = list(table, "rows");
    let columns = list(table, "columns").len();
    let tells = |count: &usize| {
        let key = |row: &Value| -> Vec<String> {
            let cells = row.as_array().map_or(&[][..], Vec::as_slice);
            cells.iter().take(*count).map(Value::to_string).collect()
        };
        let mut keys: Vec<Vec<String>> = rows.iter().map(key).collect();
        keys.sort();
        keys.windows(2).all(|pair| pair[0] != pair[1])
    };
    (1..columns.clamp(2, 5)).find(tells).unwrap_or(1)
}

/// A table of differences for each table compared; of those that are clear unless `all`.
fn tables(found: &[(String, String, Vec<Difference>)], all: bool) -> Vec<Table> {
    let of = |(index, (_, title, each)): (usize, &(String, String, Vec<Difference>))| Table {
        id: format!("difference-{index}"),
        title: title.clone(),
        columns: ["of", "what", "before", "after", "change", ""].map(str::to_string).to_vec(),
        rows: (each.iter().filter(|one| all || one.clear))
            .map(|one| {
                vec![
                    Cell::Text(one.whose.clone()),
                    Cell::Text(one.what.clone()),
                    one.before.cell(),
                    one.after.cell(),
                    Cell::Text(one.change()),
                    Cell::Text(if one.clear { "clear" } else { "may be chance" }.to_string()),
                ]
            })
            .collect(),
    };
    found.iter().enumerate().map(of).collect()
}

fn facts(before: &Value, after: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, of) in [("before", before), ("after", after)] {
        let seed = of.get("seed").map_or(String::new(), Value::to_string);
        let says = format!("{}; seed {seed}; version {}", text(of, "command"), text(of, "version"));
        all.push((name.to_string(), says));
    }
    let plan = |of: &Value| of.get("plan").cloned().unwrap_or(Value::Null);
    let words = match plan(before) == plan(after) {
        true => "the same",
        false => "different; each report has its own",
    };
    all.push(("plans".to_string(), words.to_string()));
    all
}

/// Both reports' curves in one plot each, then the tables.
fn figures(before: &Value, after: &Value, tables: Vec<Table>) -> Vec<Figure> {
    let mut panels = Vec::new();
    for figure in list(before, "figures") {
        let Some(other) = with_id(list(after, "figures"), text(figure, "id")) else { continue };
        for panel in list(figure, "panels") {
            let theirs = with_id(list(other, "panels"), text(panel, "id"));
            panels.extend(theirs.and_then(|theirs| both(text(figure, "id"), panel, theirs)));
        }
    }
    vec![Figure {
        id: "compare".to_string(),
        title: "What differs".to_string(),
        shows: "Each value of the report before beside that of the report after.".to_string(),
        claimed: String::new(),
        found: String::new(),
        command: terminal::command_line(),
        panels,
        maps: Vec::new(),
        tables,
    }]
}

/// One plot with the curves of two.
fn both(figure: &str, before: &Value, after: &Value) -> Option<Panel> {
    let axis = |key: &str| {
        let axis = before.get(key)?;
        Some(Axis {
            label: text(axis, "label").to_string(),
            unit: text(axis, "unit").to_string(),
            scale: if text(axis, "scale") == "log" { Scale::Log } else { Scale::Linear },
            min: axis.get("min").and_then(Value::as_f64),
            max: axis.get("max").and_then(Value::as_f64),
        })
    };
    let point = |point: &Value| {
        let number = |key: &str| point.get(key)?.as_f64();
        Some(Point {
            x: number("x")?,
            y: number("y"),
            low: number("low"),
            high: number("high"),
            samples: point.get("samples").and_then(Value::as_u64).unwrap_or(0),
            stable: point.get("stable").and_then(Value::as_bool).unwrap_or(true),
        })
    };
    let mut series = Vec::new();
    for (panel, when) in [(before, "before"), (after, "after")] {
        series.extend(list(panel, "series").iter().map(|one| Series {
            label: format!("{}, {when}", text(one, "label")),
            points: list(one, "points").iter().filter_map(point).collect(),
        }));
    }
    Some(Panel {
        id: format!("{figure}-{}", text(before, "id")),
        title: text(before, "title").to_string(),
        x: axis("x")?,
        y: axis("y")?,
        series,
        rules: Vec::new(),
    })
}

fn as_json(
    before: &Value,
    after: &Value,
    found: &[(String, String, Vec<Difference>)],
    summary: &str,
) -> Value {
    let side = |measured: Measured| match measured.ends {
        Some((low, high)) => json!({ "value": measured.value, "low": low, "high": high }),
        None => json!({ "value": measured.value }),
    };
    let each = found.iter().flat_map(|(figure, table, each)| {
        each.iter().map(move |one| {
            json!({
                "figure": figure, "table": table, "of": one.whose, "what": one.what,
                "before": side(one.before), "after": side(one.after), "clear": one.clear,
            })
        })
    });
    json!({
        "before": text(before, "command"),
        "after": text(after, "command"),
        "same_events": text(before, "digest") == text(after, "digest"),
        "summary": summary,
        "differences": each.collect::<Vec<_>>(),
    })
}
