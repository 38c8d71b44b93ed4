//! `cavy reproduce`: published figures, made again and judged.

use crate::args::Reproduce;
use crate::estimate::Estimate;
use crate::faults::Fault;
use crate::session::Session;
use crate::{Clock, Outcome, VERSION, document, terminal};
use cavy_report::model::{Document, Verdict};
use cavy_study::figure::{self, Chosen, Scale, System};
use cavy_study::plan::AnyPlan;
use serde_json::json;

/// Makes figures again.
pub fn reproduce(args: &Reproduce, clock: Clock) -> Result<Outcome, Fault> {
    let scale = if args.full { Scale::Full } else { Scale::Quick };
    let seed = args.manner.seed.unwrap_or(1);
    let systems = figure::systems();
    let chosen = figure::choose(&args.names)?;
    let plans = chosen
        .iter()
        .map(|one| figure::plan(&systems[one.system].figures[one.figure], scale, seed))
        .collect::<Result<Vec<_>, _>>()?;

    let session = Session::open(&args.manner, clock)?;
    let estimate = Estimate::of(&plans, &session.store)?;
    let figures = chosen.len();
    terminal::talk(&format!(
        "{figures} figure{}: {}",
        if figures == 1 { "" } else { "s" },
        estimate.words(session.jobs)
    ));
    let made = session.run(&estimate, |runner| {
        figure::reproduce(runner, &chosen, scale, seed, "cavy reproduce")
    })?;

    let (title, summary) = headline(&systems, &chosen);
    let mut document =
        document::blank(terminal::command_line(), seed, made.digest, clock.elapsed_s());
    document.title = title;
    document.summary = summary;
    let are_networks = plans.iter().all(|plan| matches!(plan, AnyPlan::Network(_)));
    document.facts = match are_networks {
        true => document::network_facts(made.requests),
        false => document::facts(made.requests),
    };
    let scale = match scale {
        Scale::Quick => "quick; `--full` runs the sample sizes of the specification",
        Scale::Full => "full: the sample sizes of the specification",
    };
    document.facts.insert(0, ("scale".to_string(), scale.to_string()));
    document.claims = made.claims;
    document.figures = made.figures;
    let report = document::write(&document, &session.folder)?;

    if args.manner.json {
        let report = report.display().to_string();
        terminal::print_json(&as_json(&document, made.requests, &report))?;
    } else {
        let width = terminal::width();
        let claims = &document.claims;
        terminal::print(&cavy_report::terminal::claims(claims, width, terminal::color()))?;
    }
    terminal::talk(&format!("report: {}", report.display()));
    let missed = document.claims.iter().any(|claim| claim.verdict == Verdict::NotReproduced);
    Ok(if missed { Outcome::Failed } else { Outcome::Success })
}

/// Title and summary of the report: the system's own when there is only one.
fn headline(systems: &[System], chosen: &[Chosen]) -> (String, String) {
    let mut indices: Vec<usize> = chosen.iter().map(|one| one.system).collect();
    indices.dedup();
    match indices[..] {
        [index] => (systems[index].title.to_string(), systems[index].summary.to_string()),
        _ => (
            "Where the tail comes from, and what helps".to_string(),
            "Published remedies for tail latency, made again from their specifications."
                .to_string(),
        ),
    }
}

fn as_json(document: &Document, requests: u64, report: &str) -> serde_json::Value {
    json!({
        "claims": document.claims,
        "digest": document.digest,
        "seed": document.seed,
        "version": VERSION,
        "elapsed_s": document.elapsed_s,
        "requests": requests,
        "report": report,
    })
}
