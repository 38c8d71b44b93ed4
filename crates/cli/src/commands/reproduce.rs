//! `cavy reproduce`: published figures, made again and judged.

use super::seeds;
use crate::args::Reproduce;
use crate::faults::Fault;
use crate::forecast::Forecast;
use crate::session::Session;
use crate::{Clock, Outcome, VERSION, document, terminal};
use cavy_report::model::{Claim, Document, Verdict};
use cavy_report::words;
use cavy_study::registry::{Chosen, Registry};
use cavy_study::source::{Planned, Reproduction, Scale};
use serde_json::{Map, Value, json};

/// Makes figures again.
pub fn reproduce(args: &Reproduce, registry: &Registry, clock: Clock) -> Result<Outcome, Fault> {
    let scale = if args.full { Scale::Full } else { Scale::Quick };
    let seed = args.manner.seed.unwrap_or(1);
    let chosen = registry.choose(&args.names)?;
    // A plan is TOML, whose integers end there.
    let last = seed.saturating_add(u64::from(args.seeds.unwrap_or(1)) - 1).min(i64::MAX as u64);
    let read = |seed| Planned::read(registry, &chosen, scale, seed);
    let all: Vec<Planned> = (seed..=last).map(read).collect::<Result<_, _>>()?;
    let planned = &all[0];

    let by = format!("reproduce {}", args.names.join(" "));
    let session = Session::open(&args.manner, by.trim(), clock)?;
    let plans = all.iter().flat_map(Planned::plans).map(|(_, plan)| plan);
    let estimate = Forecast::of(plans, &session.store);
    let figures = chosen.len();
    terminal::talk(&format!(
        "{figures} figure{}: {}",
        if figures == 1 { "" } else { "s" },
        estimate.words(session.jobs)
    ));
    let mut made: Vec<Reproduction> = session.run(&estimate, |runner| {
        all.iter().map(|planned| planned.reproduce(registry, runner, "cavy reproduce")).collect()
    })?;
    let by_seed: Vec<(u64, Vec<Claim>)> =
        (seed..).zip(&made).map(|(seed, made)| (seed, made.claims.clone())).collect();
    let made = made.swap_remove(0);

    let (title, summary) = headline(registry, &chosen);
    let mut document =
        document::blank(terminal::command_line(), seed, made.digest, clock.elapsed_s());
    document.title = title;
    document.summary = summary;
    document.facts = facts(registry, planned, scale, &made.work);
    document.claims = made.claims;
    document.figures = made.figures;
    let report = document::write(&document, &session.folder)?;
    if by_seed.len() > 1 {
        let page = seeds::page(&document.title, &args.names, scale, &by_seed);
        session.folder.write("seeds.md", &page)?;
        terminal::talk(&seeds::sums(&by_seed));
    }

    if args.manner.json {
        let report = report.display().to_string();
        terminal::print_json(&as_json(&document, &made.work, &report))?;
    } else {
        let width = terminal::width();
        let claims = &document.claims;
        terminal::print(&cavy_report::terminal::claims(claims, width, terminal::color()))?;
    }
    terminal::talk(&format!("report: {}", report.display()));
    let missed = document.claims.iter().any(|claim| claim.verdict == Verdict::NotReproduced);
    Ok(if missed { Outcome::Failed } else { Outcome::Success })
}

/// What a reader must know: what is true of the plans of each system, under its name where it is
/// not true of all.
fn facts(
    registry: &Registry,
    planned: &Planned,
    scale: Scale,
    work: &[(&'static str, u64)],
) -> Vec<(String, String)> {
    let scale = match scale {
        Scale::Quick => "quick; `--full` runs the sample sizes of the specification",
        Scale::Full => "full: the sample sizes of the specification",
    };
    let mut all = vec![("scale".to_string(), scale.to_string())];
    all.extend(document::work(work));
    // Each fact with the systems of whose plans it is true.
    let mut facts: Vec<((&str, &str), Vec<&str>)> = Vec::new();
    let mut systems: Vec<&str> = Vec::new();
    for (source, plan) in planned.plans() {
        let system = registry.sources[source].id;
        for fact in plan.facts() {
            match facts.iter_mut().find(|(known, _)| *known == fact) {
                Some((_, of)) if of.contains(&system) => {}
                Some((_, of)) => of.push(system),
                None => facts.push((fact, vec![system])),
            }
        }
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    for ((name, says), of) in facts {
        let of = match of.len() == systems.len() {
            true => String::new(),
            false => format!(" ({})", of.join(", ")),
        };
        all.push((format!("{name}{of}"), says.to_string()));
    }
    all
}

/// Title and summary of the report: the system's own when there is only one.
fn headline(registry: &Registry, chosen: &[Chosen]) -> (String, String) {
    let mut indices: Vec<usize> = chosen.iter().map(|one| one.source).collect();
    indices.dedup();
    match indices[..] {
        [index] => {
            let source = &registry.sources[index];
            (source.title.to_string(), source.summary.to_string())
        }
        _ => (
            "Where the tail comes from, and what helps".to_string(),
            "Published remedies for tail latency, made again from their specifications."
                .to_string(),
        ),
    }
}

fn as_json(document: &Document, work: &[(&'static str, u64)], report: &str) -> Value {
    let tally: Map<String, Value> = words::counts(&document.claims)
        .into_iter()
        .filter_map(|(verdict, count)| Some((json!(verdict).as_str()?.to_string(), json!(count))))
        .collect();
    let mut all = json!({
        "claims": document.claims,
        "tally": tally,
        "digest": document.digest,
        "seed": document.seed,
        "version": VERSION,
        "elapsed_s": document.elapsed_s,
        "report": report,
    });
    if let Some(fields) = all.as_object_mut() {
        fields.extend(work.iter().map(|(what, amount)| (what.to_string(), json!(amount))));
    }
    all
}
