//! Files of claims: single claims, and tables of claims that differ in a few words and numbers.
//!
//! A published table of sixty cells is sixty claims. Written as a table of claims it has a line for
//! each; what they share stands once above them. `{}` in the statement of a table takes the `words`
//! of a row, in order. A text that many claims share, such as the reason of a tolerance, stands
//! once under `[reasons]` or `[doubts]`; `"@name"` stands for it.

use super::{Plot, Statement};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    reasons: BTreeMap<String, String>,
    #[serde(default)]
    doubts: BTreeMap<String, String>,
    #[serde(default)]
    claim: Vec<Statement>,
    #[serde(default)]
    table: Vec<Table>,
}

/// Claims of one figure that differ in a few words and numbers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// `system.figure`.
    figure: String,
    source: String,
    /// With `{}` for each of the words of a row.
    statement: String,
    #[serde(default)]
    unit: String,
    /// Of rows that do not say.
    reason: Option<String>,
    doubt: Option<String>,
    explained_by: Option<String>,
    /// Where the published values stand in a plot.
    plot: Option<TablePlot>,
    rows: Vec<Row>,
}

/// Where the values of a table stand in a plot: `{0}` takes the first of the words of a row.
///
/// The value is the height unless `y` is given; then `y` is, and the value lies across.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TablePlot {
    panel: String,
    series: String,
    x: Option<String>,
    y: Option<String>,
    /// What a value is multiplied by to have the unit of the plot.
    scale: Option<f64>,
    /// What plots and curves are called that have another name in the words of rows.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl TablePlot {
    fn of(&self, row: &Row, unit: &str) -> Result<Plot, String> {
        let filled = |text: &str| {
            let fill = |text: String, (place, word): (usize, &String)| {
                text.replace(&format!("{{{place}}}"), word)
            };
            row.words.iter().enumerate().fold(text.to_string(), fill)
        };
        let place = |axis: &str, text: &str| {
            let text = filled(text);
            text.parse().map_err(|_| format!("`{}`: {axis} is `{text}` and no number", row.name))
        };
        let scale = self.scale.unwrap_or(1.0);
        let value = super::printed(&row.published, unit);
        let value = value.map(|(low, high)| (low * scale, high * scale));
        let (x, y) = match (&self.x, &self.y, value) {
            (Some(x), None, value) => (place("x", x)?, value),
            // A mark has a height that may be a range, and one place: the middle.
            (None, Some(y), Some((low, high))) => {
                let y: f64 = place("y", y)?;
                (f64::midpoint(low, high), Some((y, y)))
            }
            (None, Some(_), None) => return Err(format!("`{}`: no value to draw", row.name)),
            _ => return Err(format!("`{}`: a plot has x or y, and not both", row.name)),
        };
        let named = |text: &str| {
            let text = filled(text);
            self.labels.get(&text).cloned().unwrap_or(text)
        };
        Ok(Plot { panel: named(&self.panel), series: named(&self.series), x, y })
    }
}

/// One of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The last part of the claim's name.
    name: String,
    published: String,
    tolerance: (f64, f64),
    #[serde(default)]
    words: Vec<String>,
    reason: Option<String>,
    doubt: Option<String>,
    explained_by: Option<String>,
}

/// Reads a file of claims: by figure in the order in which figures first appear, and within a
/// figure in the order of the file.
///
/// # Panics
/// When the file, which is part of the program, is malformed.
pub fn read(text: &str) -> Vec<Statement> {
    match parse(text) {
        Ok(all) => all,
        Err(why) => panic!("the claims are part of the program and well formed: {why}"),
    }
}

fn parse(text: &str) -> Result<Vec<Statement>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let File { reasons, doubts, claim, table } = file;
    let mut all = Vec::new();
    for mut one in claim {
        one.reason = shared(&one.reason, &reasons)?;
        one.doubt = one.doubt.map(|doubt| shared(&doubt, &doubts)).transpose()?;
        all.push(one);
    }
    for table in table {
        for row in &table.rows {
            all.push(statement(&table, row, &reasons, &doubts)?);
        }
    }
    // Tables stand behind single claims in the parsed file; figures are read in one piece.
    let mut order: Vec<String> = Vec::new();
    let place = |one: &Statement| {
        let figure = format!("{}.{}", one.system(), one.figure());
        text.find(&figure).unwrap_or(usize::MAX)
    };
    for one in &all {
        if order.contains(&one.id) {
            return Err(format!("two claims are called `{}`", one.id));
        }
        order.push(one.id.clone());
    }
    all.sort_by_cached_key(place);
    Ok(all)
}

fn statement(
    table: &Table,
    row: &Row,
    reasons: &BTreeMap<String, String>,
    doubts: &BTreeMap<String, String>,
) -> Result<Statement, String> {
    let id = format!("{}.{}", table.figure, row.name);
    let reason = row.reason.as_ref().or(table.reason.as_ref());
    let reason = reason.ok_or_else(|| format!("`{id}` has no reason"))?;
    let doubt = row.doubt.as_ref().or(table.doubt.as_ref());
    let mut parts = table.statement.split("{}");
    let mut text = parts.next().unwrap_or("").to_string();
    let mut words = row.words.iter();
    for part in parts {
        text += words.next().ok_or_else(|| format!("`{id}` has too few words"))?;
        text += part;
    }
    if words.next().is_some() {
        return Err(format!("`{id}` has too many words"));
    }
    Ok(Statement {
        id,
        source: table.source.clone(),
        statement: text,
        published: row.published.clone(),
        reviewers: None,
        unit: table.unit.clone(),
        tolerance: row.tolerance,
        reason: shared(reason, reasons)?,
        doubt: doubt.map(|doubt| shared(doubt, doubts)).transpose()?,
        explained_by: row.explained_by.as_ref().or(table.explained_by.as_ref()).cloned(),
        plot: table
            .plot
            .as_ref()
            .map(|plot| plot.of(row, &table.unit))
            .transpose()?
            .into_iter()
            .collect(),
    })
}

/// The text, or what `@name` stands for.
fn shared(text: &str, texts: &BTreeMap<String, String>) -> Result<String, String> {
    match text.strip_prefix('@') {
        None => Ok(text.to_string()),
        Some(name) => texts.get(name).cloned().ok_or_else(|| format!("there is no text `@{name}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_report::model::Line;

    const TABLE: &str = r#"
        [reasons]
        noise = "seeds move it"
        [[table]]
        figure = "s.f"
        source = "Table 1"
        statement = "{} at {} % load."
        unit = "x"
        reason = "@noise"
        plot = { panel = "p", series = "{0}", x = "{1}" }
        rows = [
            { name = "a", published = "1 to 3", tolerance = [0.9, 1.1], words = ["Ours", "80"] },
            { name = "b", published = "2", tolerance = [1, inf], words = ["B", "5"], reason = "z" },
        ]
    "#;

    #[test]
    fn a_row_is_a_claim() {
        let all = read(TABLE);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].id, "s.f.a");
        assert_eq!(all[0].statement, "Ours at 80 % load.");
        assert_eq!((all[0].reason.as_str(), all[1].reason.as_str()), ("seeds move it", "z"));
        assert_eq!(all[1].tolerance, (1.0, f64::INFINITY));
        let (panel, mark) = all[0].spots().next().expect("a place in a plot");
        let at = Line::Spot { x: 80.0, low: 1.0, high: 3.0 };
        assert_eq!((panel, mark.at, mark.series.as_deref()), ("p", at, Some("Ours")));
    }

    #[test]
    fn a_value_may_lie_across_in_another_unit() {
        let across = TABLE
            .replace("x = \"{1}\"", "y = \"0.{1}\", scale = 10, labels = { B = \"Bee\" }")
            .replace("\"1 to 3\"", "\"1 to 3 x (specification)\"");
        let all = read(&across);
        let spots: Vec<_> = all.iter().flat_map(Statement::spots).collect();
        let at = |x, y| Line::Spot { x, low: y, high: y };
        assert_eq!((&spots[0].1.at, &spots[1].1.at), (&at(20.0, 0.8), &at(20.0, 0.5)));
        assert_eq!(spots[1].1.series.as_deref(), Some("Bee"));
    }

    #[test]
    fn a_claim_may_have_several_marks() {
        let text = r#"
            [[claim]]
            id = "s.f.a"
            source = "Figure 1"
            statement = "A is twice B."
            published = "4 / 2"
            unit = "x"
            tolerance = [1, 3]
            reason = "noise"
            plot = [
                { panel = "p", series = "A", x = 1, y = [4, 4] },
                { panel = "p", series = "B", x = 1, y = [2, 2] },
            ]
        "#;
        assert_eq!(read(text)[0].spots().count(), 2);
        let one = text.replace("[\n", "").replace("y = [4, 4] },", "y = [4, 4] }");
        let one = one.split_once("{ panel = \"p\", series = \"B\"").expect("two").0.to_string();
        assert_eq!(read(&one)[0].spots().count(), 1);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        for (from, to, why) in [
            ("\"80\"]", "\"80\", \"x\"]", "too many words"),
            (", \"80\"]", "]", "too few words"),
            ("x = \"{1}\"", "x = \"{0}\"", "x is `Ours` and no number"),
            ("@noise", "@nois", "no text `@nois`"),
            ("\"b\"", "\"a\"", "two claims"),
        ] {
            let error = parse(&TABLE.replacen(from, to, 1)).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }
}
