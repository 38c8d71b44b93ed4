//! `cavy ask`: which remedy to look at first.

use crate::args::{Ask, New};
use crate::ask::causes::{QUESTIONS, Question};
use crate::ask::evidence::{self, Columns};
use crate::ask::{Answers, Suspicion, question, suspect};
use crate::faults::Fault;
use crate::{Outcome, terminal};
use cavy_study::plan::nearest;
use cavy_study::registry::Registry;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

/// Answers of one round of questions.
const YOU: &str = "you said so";

/// Asks, weighs, and writes a plan if that is wanted.
pub fn ask(args: &Ask, registry: &Registry) -> Result<Outcome, Fault> {
    let mut answers = Answers::default();
    for (keys, yes) in [(&args.yes, true), (&args.no, false)] {
        for key in keys {
            answers.note(known(key)?, yes, YOU.to_string());
        }
    }
    let unit = args.unit.us();
    if let Some(file) = &args.latencies {
        evidence::latencies(&read(file, unit)?, &file.display().to_string(), &mut answers);
    }
    if let Some(file) = &args.busy_times {
        evidence::busy_times(&read(file, unit)?, &file.display().to_string(), &mut answers);
    }
    let told = !answers.is_empty() || args.latencies.is_some() || args.json;
    if !told && std::io::stdin().is_terminal() {
        interview(&mut answers)?;
    } else if !told {
        terminal::print(&questions())?;
        return Ok(Outcome::Success);
    }
    // What this program cannot run is no advice.
    let has = |one: &Suspicion| registry.templates().any(|(_, t)| t.name == one.cause.template);
    let found: Vec<Suspicion> = suspect(&answers).into_iter().filter(has).collect();
    if args.json {
        terminal::print_json(&as_json(&found))?;
    } else {
        terminal::print(&as_text(&found))?;
    }
    if let (Some(file), Some(first)) = (&args.write, found.iter().find(|one| one.points > 0)) {
        let template = first.cause.template.to_string();
        let new = New { file: file.clone(), template, force: false };
        return super::plan::new(&new, registry);
    }
    Ok(Outcome::Success)
}

fn known(key: &str) -> Result<&'static Question, Fault> {
    question(key).ok_or_else(|| {
        let keys: Vec<&str> = QUESTIONS.iter().map(|question| question.key).collect();
        let fault = Fault::new(format!("there is no question `{key}`"));
        match nearest(key, keys.iter().copied()) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault.hint(format!("questions are: {}", keys.join(", "))),
        }
    })
}

fn read(file: &Path, us_per_unit: f64) -> Result<Columns, Fault> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Fault::new(format!("cannot read `{}`: {error}", file.display()))
            .hint("name a CSV file whose first line names its columns")
    })?;
    evidence::columns(&text, us_per_unit)
        .map_err(|why| Fault::new(format!("{}: {why}", file.display())))
}

/// Questions one by one, on a terminal.
fn interview(answers: &mut Answers) -> Result<(), Fault> {
    terminal::talk("Answer y for yes, n for no, and Enter where you do not know.\n");
    let mut lines = std::io::stdin().lock().lines();
    for asked in QUESTIONS {
        terminal::talk(asked.text);
        // The end of the input leaves the rest open.
        let Some(Ok(line)) = lines.next() else { break };
        match line.trim().chars().next() {
            Some('y' | 'Y') => answers.note(asked, true, YOU.to_string()),
            Some('n' | 'N') => answers.note(asked, false, YOU.to_string()),
            _ => {}
        }
    }
    Ok(())
}

fn questions() -> String {
    let mut out =
        "Say --yes KEY,KEY and --no KEY,KEY; leave out what you do not know.\n".to_string();
    for question in QUESTIONS {
        let _ = writeln!(out, "  {:12} {}", question.key, question.text);
    }
    out
}

fn as_text(found: &[Suspicion]) -> String {
    let mut out = String::new();
    let likely: Vec<&Suspicion> = found.iter().filter(|one| one.points > 0).collect();
    if likely.is_empty() {
        out.push_str("Nothing of what you said speaks for one of the causes that cavy knows.\n\n");
        out.push_str(&questions());
        return out;
    }
    for (place, one) in likely.iter().enumerate() {
        let cause = one.cause;
        let _ = writeln!(out, "{}. {}", place + 1, cause.waits);
        for evidence in &one.evidence {
            let _ = writeln!(out, "   for it: {evidence}.");
        }
        for open in &one.open {
            let _ = writeln!(out, "   open ({}): {}", open.key, open.text);
        }
        let _ = writeln!(out, "   remedy: {}", cause.remedy);
        let _ = writeln!(
            out,
            "   try it: cavy plan new plan.toml --template {} && cavy run plan.toml",
            cause.template
        );
        let _ = writeln!(out, "   read: {}\n", cause.page);
    }
    out.push_str("This is advice from what you said, not a measurement: the plan measures.\n");
    out
}

fn as_json(found: &[Suspicion]) -> serde_json::Value {
    let one = |one: &Suspicion| {
        json!({
            "system": one.cause.system,
            "waits": one.cause.waits,
            "points": one.points,
            "points_max": one.cause.points_max(),
            "evidence": one.evidence,
            "open": one.open.iter().map(|question| question.key).collect::<Vec<_>>(),
            "remedy": one.cause.remedy,
            "template": one.cause.template,
            "page": one.cause.page,
        })
    };
    json!({ "causes": found.iter().map(one).collect::<Vec<_>>() })
}
