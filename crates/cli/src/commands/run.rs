//! `cavy run`: the user's own experiment.

use crate::args::Run;
use crate::faults::Fault;
use crate::forecast::Forecast;
use crate::session::{self, Session};
use crate::{Clock, Outcome, VERSION, document, terminal};
use cavy_report::model::{Cell, Document, PlanText, Table};
use cavy_study::kind::Finished;
use cavy_study::registry::Registry;
use cavy_study::store::Store;
use serde_json::{Value, json};

/// Runs a plan.
pub fn run(args: &Run, registry: &Registry, clock: Clock) -> Result<Outcome, Fault> {
    let mut overrides = args.set.clone();
    overrides.extend(args.manner.seed.map(|seed| format!("run.seed={seed}")));
    overrides.extend(args.precision.map(|ratio| format!("run.precision_ratio={ratio:?}")));
    let text = cavy_study::plan::read::text_of(&args.plan)?;
    let plan = registry.load_text(&text, &args.plan, &overrides, args.quick)?;
    let plan = plan.as_ref();
    if let Some(command) = plan.live() {
        let file = plan.name();
        return Err(Fault::new(format!(
            "{file}: the plan is for the world `live`, not for the lab"
        ))
        .hint(format!("`{command}` runs it on this machine's threads"))
        .hint(format!("`cavy run {file} --set world=lab` runs the same in the lab")));
    }

    let jobs = session::jobs(&args.manner);
    let fresh = Forecast::of([plan], &Store::in_memory());
    terminal::talk(&format!("{}: {}", plan.name(), fresh.words(jobs)));
    if !args.accept_cost {
        fresh.refuse(plan, jobs)?;
    }
    let session = Session::open(&args.manner, &format!("run {}", plan.name()), clock)?;
    let estimate = Forecast::of([plan], &session.store);
    let results = session.run(&estimate, |runner| plan.run(runner))?;
    let results = results.as_ref();

    let command = terminal::command_line();
    let frame = results.frame();
    let mut document =
        document::blank(command.clone(), frame.run.seed, results.digest(), clock.elapsed_s());
    document.title.clone_from(&frame.title);
    document.summary.clone_from(&frame.summary);
    document.facts = vec![("plan".to_string(), plan.name().to_string())];
    document.facts.extend(document::work(&[(plan.about().work.many, results.work())]));
    let owned = |(name, says): (&str, &str)| (name.to_string(), says.to_string());
    document.facts.extend(plan.facts().into_iter().map(owned));
    document.figures = results.figures(&command);
    document.plan =
        Some(PlanText { name: plan.name().to_string(), text, overrides, files: plan.measured() });
    let report = document::write(&document, &session.folder)?;

    if args.manner.json {
        let report = report.display().to_string();
        terminal::print_json(&as_json(results, &document, &report))?;
    } else {
        terminal::print(&tables(&document))?;
    }
    terminal::talk(&format!("report: {}", report.display()));
    Ok(Outcome::Success)
}

fn as_json(results: &dyn Finished, document: &Document, report: &str) -> Value {
    let mut all = results.json();
    all.insert("title".to_string(), json!(document.title));
    all.insert("digest".to_string(), json!(document.digest));
    all.insert("seed".to_string(), json!(document.seed));
    all.insert("version".to_string(), json!(VERSION));
    all.insert("elapsed_s".to_string(), json!(document.elapsed_s));
    all.insert("report".to_string(), json!(report));
    Value::Object(all)
}

/// All tables, and what was found.
fn tables(document: &Document) -> String {
    let (width, color) = (terminal::width(), terminal::color());
    let mut parts = Vec::new();
    for figure in &document.figures {
        for table in &figure.tables {
            parts.push(fitted(table, width, color));
        }
        if !figure.found.is_empty() {
            parts.push(format!("{}\n", terminal::wrap(&figure.found, width, "")));
        }
    }
    parts.join("\n")
}

/// A table as it fits: without the ends of intervals, which the report has, where they would make
/// columns too narrow for their numbers.
fn fitted(table: &Table, width: usize, color: bool) -> String {
    let natural = cavy_report::terminal::table(table, usize::from(u16::MAX), false);
    if natural.lines().skip(1).all(|line| line.chars().count() <= width) {
        return cavy_report::terminal::table(table, width, color);
    }
    let mut short = table.clone();
    for cell in short.rows.iter_mut().flatten() {
        match cell {
            Cell::Interval { value, .. } => *cell = Cell::Number(*value),
            Cell::Missing(why) => *why = why.split(':').next().unwrap_or("").to_string(),
            Cell::Text(_) | Cell::Number(_) | Cell::Setting(_) => {}
        }
    }
    cavy_report::terminal::table(&short, width, color)
}
