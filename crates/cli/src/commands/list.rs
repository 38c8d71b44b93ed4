//! `cavy list`: what there is.

use crate::args::List;
use crate::faults::Fault;
use crate::{Outcome, terminal};
use cavy_study::claim::Statement;
use cavy_study::registry::Registry;
use cavy_study::source::Source;
use serde_json::json;
use std::fmt::Write as _;

/// Lists kinds of plans, systems, figures and templates.
pub fn list(args: &List, registry: &Registry) -> Result<Outcome, Fault> {
    if args.json {
        terminal::print_json(&as_json(registry))?;
    } else {
        terminal::print(&as_text(registry))?;
    }
    Ok(Outcome::Success)
}

/// Claims of a figure among those of its source.
fn claims_of(all: &[Statement], figure: &str) -> usize {
    all.iter().filter(|statement| statement.figure() == figure).count()
}

fn as_text(registry: &Registry) -> String {
    let mut out = String::new();
    for source in &registry.sources {
        let _ = writeln!(out, "{}: {}", source.id, source.title);
        let claims = source.statements();
        let figures: Vec<_> = source.figures.iter().map(|figure| figure.about()).collect();
        let names: Vec<String> =
            figures.iter().map(|figure| format!("{}.{}", source.id, figure.id)).collect();
        let width = names.iter().map(String::len).max().unwrap_or(0);
        for (name, figure) in names.iter().zip(&figures) {
            let count = claims_of(&claims, figure.id);
            let plural = if count == 1 { "" } else { "s" };
            let _ = writeln!(out, "  {name:width$}  {} ({count} claim{plural})", figure.title);
        }
        let live = source.live_statements().len();
        if live > 0 {
            let study = source.live_study;
            let _ = writeln!(out, "  and {live} claims about live runs (`{study}`)");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "kinds of plans, for `kind = \"…\"` at the top of a plan:");
    for kind in &registry.kinds {
        let _ = writeln!(out, "  {:9} {}", kind.about().name, kind.about().says);
    }
    let _ = writeln!(out, "\ntemplates for `cavy plan new --template NAME`:");
    for (kind, template) in registry.templates() {
        let _ = writeln!(out, "  {:9} {} ({kind})", template.name, template.says);
    }
    let _ = writeln!(out, "  or the name of a figure, for its plan");
    out
}

fn as_json(registry: &Registry) -> serde_json::Value {
    let of_source = |source: &Source| {
        let statements = source.statements();
        let figures: Vec<_> = source
            .figures
            .iter()
            .map(|figure| figure.about())
            .map(|figure| {
                json!({
                    "id": format!("{}.{}", source.id, figure.id),
                    "title": figure.title,
                    "shows": figure.shows,
                    "claimed": figure.claimed,
                    "claims": claims_of(&statements, figure.id),
                })
            })
            .collect();
        let claims: Vec<String> = statements.into_iter().map(|s| s.id).collect();
        let live: Vec<String> = source.live_statements().into_iter().map(|s| s.id).collect();
        json!({
            "id": source.id,
            "title": source.title,
            "summary": source.summary,
            "figures": figures,
            "claims": claims,
            "live_claims": live,
        })
    };
    let kinds: Vec<_> = registry
        .kinds
        .iter()
        .map(|kind| json!({ "name": kind.about().name, "says": kind.about().says }))
        .collect();
    let templates: Vec<_> = registry
        .templates()
        .map(|(kind, one)| json!({ "name": one.name, "says": one.says, "kind": kind }))
        .collect();
    json!({
        "systems": registry.sources.iter().map(of_source).collect::<Vec<_>>(),
        "kinds": kinds,
        "templates": templates,
    })
}
