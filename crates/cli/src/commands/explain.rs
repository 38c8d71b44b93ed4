//! `cavy explain`: what a claim says, where it comes from, how it is judged.

use crate::args::Explain;
use crate::faults::Fault;
use crate::{Outcome, terminal};
use cavy_report::number::significant;
use cavy_study::claim::Statement;
use cavy_study::plan::nearest;
use cavy_study::registry::Registry;
use cavy_study::source::{Scale, Source};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Explains one claim, or all of a figure or system.
pub fn explain(args: &Explain, registry: &Registry) -> Result<Outcome, Fault> {
    let all: Vec<Statement> = registry
        .sources
        .iter()
        .flat_map(|source| [source.statements(), source.live_statements()])
        .flatten()
        .collect();
    let name = args.name.as_str();
    let wanted: Vec<&Statement> = all
        .iter()
        .filter(|s| {
            s.id == name || figure_of(s) == name || s.figure() == name || s.system() == name
        })
        .collect();
    if wanted.is_empty() {
        return Err(unknown(name, &all));
    }
    let quick = quick(registry, &wanted);
    if args.json {
        let claims: Vec<_> =
            wanted.iter().map(|statement| as_json(statement, registry, &quick)).collect();
        terminal::print_json(&json!({ "claims": claims }))?;
    } else {
        let width = terminal::width().min(100);
        let texts: Vec<String> =
            wanted.iter().map(|s| as_text(s, registry, &quick, width)).collect();
        terminal::print(&texts.join("\n"))?;
    }
    Ok(Outcome::Success)
}

/// `persephone.fig3`.
fn figure_of(statement: &Statement) -> String {
    format!("{}.{}", statement.system(), statement.figure())
}

fn unknown(name: &str, all: &[Statement]) -> Fault {
    let mut fault = Fault::new(format!("there is no claim `{name}`"));
    let figures: Vec<String> = all.iter().map(figure_of).collect();
    let known = all.iter().map(|s| s.id.as_str()).chain(figures.iter().map(String::as_str));
    if let Some(near) = nearest(name, known) {
        fault = fault.hint(format!("did you mean `{near}`?"));
    }
    fault.hint("`cavy list` shows the figures, `cavy explain FIGURE` their claims")
}

/// The command that measures a claim: a quick one where the quick plan has what the claim is about.
fn repeat(statement: &Statement, registry: &Registry, quick: &Quick) -> String {
    if statement.system() == "live" {
        let has = |source: &&Source| source.live_statements().iter().any(|s| s.id == statement.id);
        let source = registry.sources.iter().find(has);
        return source.map_or(String::new(), |source| source.live_command(statement));
    }
    let figure = figure_of(statement);
    let suffix = match quick.get(&figure) {
        Some(Some(measured)) if !measured.contains(&statement.id) => " --full",
        _ => "",
    };
    format!("cavy reproduce {figure}{suffix}")
}

/// Names of the claims that quick plans measure, by figure.
type Quick = BTreeMap<String, Option<Vec<String>>>;

fn quick(registry: &Registry, wanted: &[&Statement]) -> Quick {
    let figures = registry
        .figures()
        .filter(|(name, ..)| wanted.iter().any(|statement| figure_of(statement) == *name));
    figures.map(|(name, _, figure)| (name, figure.measures(Scale::Quick))).collect()
}

/// `0.9 to 1.1 x`, `at least 3 x`.
fn accepted(statement: &Statement) -> String {
    let (low, high) = statement.tolerance;
    let range = match (low.is_finite(), high.is_finite()) {
        (true, true) if low == high => significant(low),
        (true, true) => format!("{} to {}", significant(low), significant(high)),
        (true, false) => format!("at least {}", significant(low)),
        (false, true) => format!("at most {}", significant(high)),
        (false, false) => "any value".to_string(),
    };
    format!("{range} {}", statement.unit).trim_end().to_string()
}

fn as_text(statement: &Statement, registry: &Registry, quick: &Quick, width: usize) -> String {
    let name = figure_of(statement);
    let figure = registry.figures().find(|(known, ..)| *known == name);
    let title = figure.map(|(_, _, figure)| figure.about().title);
    let accepted = format!("{}: {}", accepted(statement), statement.reason);
    let explained_by = statement.explained_by.as_ref().map(|id| {
        format!("a miss counts as explained only while `{id}` holds; see `cavy explain {id}`")
    });
    let lines = [
        ("figure", title),
        ("source", Some(statement.source.as_str())),
        ("published", Some(statement.published.as_str())),
        ("reviewers", statement.reviewers.as_deref()),
        ("accepted", Some(accepted.as_str())),
        ("doubt", statement.doubt.as_deref()),
        ("evidence", explained_by.as_deref()),
    ];
    let mut out = format!("{}\n", statement.id);
    let _ = writeln!(out, "  {}", terminal::wrap(&statement.statement, width - 2, "  "));
    let indent = " ".repeat(14);
    for (name, text) in lines {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let text = terminal::wrap(&format!("{name:11} {text}"), width - 2, &indent);
            // Wrapping takes blanks together; the name keeps its column.
            let rest = text.strip_prefix(name).map_or(text.as_str(), str::trim_start);
            let _ = writeln!(out, "  {name:11} {rest}");
        }
    }
    let _ = writeln!(out, "  {:11} {}", "measured by", repeat(statement, registry, quick));
    out
}

fn as_json(statement: &Statement, registry: &Registry, quick: &Quick) -> serde_json::Value {
    json!({
        "id": statement.id,
        "system": statement.system(),
        "figure": statement.figure(),
        "source": statement.source,
        "statement": statement.statement,
        "published": statement.published,
        "reviewers": statement.reviewers,
        "unit": statement.unit,
        "tolerance": statement.tolerance,
        "tolerance_reason": statement.reason,
        "doubt": statement.doubt,
        "explained_by": statement.explained_by,
        "repeat": repeat(statement, registry, quick),
    })
}
