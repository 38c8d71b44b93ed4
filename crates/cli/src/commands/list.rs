//! `cavy list`: what there is.

use crate::args::List;
use crate::commands::plan::TEMPLATES;
use crate::faults::Fault;
use crate::{Outcome, terminal};
use cavy_study::figure::{self, About, AnyStudy, System};
use serde_json::json;
use std::fmt::Write as _;

/// Lists systems, figures and templates.
pub fn list(args: &List) -> Result<Outcome, Fault> {
    let systems = figure::systems();
    if args.json {
        terminal::print_json(&as_json(&systems))?;
    } else {
        terminal::print(&as_text(&systems))?;
    }
    Ok(Outcome::Success)
}

/// Claims of a figure.
fn claims_of(system: &System, figure: &str) -> usize {
    system.statements().iter().filter(|statement| statement.figure() == figure).count()
}

fn as_text(systems: &[System]) -> String {
    let mut out = String::new();
    for system in systems {
        let _ = writeln!(out, "{}: {}", system.id, system.title);
        let figures: Vec<About> = system.figures.iter().map(AnyStudy::about).collect();
        let names: Vec<String> =
            figures.iter().map(|figure| format!("{}.{}", system.id, figure.id)).collect();
        let width = names.iter().map(String::len).max().unwrap_or(0);
        for (name, figure) in names.iter().zip(&figures) {
            let claims = claims_of(system, figure.id);
            let plural = if claims == 1 { "" } else { "s" };
            let _ = writeln!(out, "  {name:width$}  {} ({claims} claim{plural})", figure.title);
        }
        out.push('\n');
    }
    let _ = writeln!(out, "templates for `cavy plan new --template NAME`:");
    for template in TEMPLATES {
        let _ = writeln!(out, "  {:9} {}", template.name, template.says);
    }
    let _ = writeln!(out, "  or the name of a figure, for its plan");
    out
}

fn as_json(systems: &[System]) -> serde_json::Value {
    let of_system = |system: &System| {
        let figures: Vec<_> = system
            .figures
            .iter()
            .map(AnyStudy::about)
            .map(|figure| {
                json!({
                    "id": format!("{}.{}", system.id, figure.id),
                    "title": figure.title,
                    "shows": figure.shows,
                    "claimed": figure.claimed,
                    "claims": claims_of(system, figure.id),
                })
            })
            .collect();
        let claims: Vec<String> = system.statements().into_iter().map(|s| s.id).collect();
        json!({
            "id": system.id,
            "title": system.title,
            "summary": system.summary,
            "figures": figures,
            "claims": claims,
        })
    };
    let templates: Vec<_> = TEMPLATES
        .iter()
        .map(|template| json!({ "name": template.name, "says": template.says }))
        .collect();
    json!({
        "systems": systems.iter().map(of_system).collect::<Vec<_>>(),
        "templates": templates,
    })
}
