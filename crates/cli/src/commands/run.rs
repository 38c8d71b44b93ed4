//! `cavy run`: the user's own experiment.

use crate::args::Run;
use crate::estimate::Estimate;
use crate::faults::Fault;
use crate::session::{self, Session};
use crate::{Clock, Outcome, VERSION, document, terminal};
use cavy_report::model::{Cell, Document, Table};
use cavy_study::experiment::Experiment;
use cavy_study::point::PointResult;
use cavy_study::{compare, draw, plan};
use serde_json::{Value, json};

/// Runs a plan.
pub fn run(args: &Run, clock: Clock) -> Result<Outcome, Fault> {
    let mut overrides = args.set.clone();
    overrides.extend(args.manner.seed.map(|seed| format!("run.seed={seed}")));
    overrides.extend(args.precision.map(|ratio| format!("run.precision_ratio={ratio:?}")));
    let loaded = plan::load(&args.plan, &overrides, args.quick)?;

    let jobs = session::jobs(&args.manner);
    let nothing = cavy_study::store::Store::in_memory();
    let fresh = Estimate::of([&loaded], &nothing)?;
    terminal::talk(&format!("{}: {}", loaded.name, fresh.words(jobs)));
    if loaded.plan.run.precision_ratio.is_some() {
        terminal::talk("more where `precision_ratio` needs more replications");
    }
    if !args.accept_cost {
        fresh.refuse(&loaded, jobs)?;
    }
    let session = Session::open(&args.manner, clock)?;
    let estimate = Estimate::of([&loaded], &session.store)?;
    let experiment = session.run(&estimate, |runner| runner.experiment(&loaded))?;

    let command = terminal::command_line();
    let mut document = document::blank(
        command.clone(),
        loaded.plan.run.seed,
        experiment.digest(),
        clock.elapsed_s(),
    );
    document.title.clone_from(&loaded.plan.title);
    document.summary.clone_from(&loaded.plan.summary);
    document.facts = document::facts(experiment.requests());
    document.facts.insert(0, ("plan".to_string(), loaded.name.clone()));
    document.figures = draw::figures(&experiment, &command);
    let report = document::write(&document, &session.folder)?;

    if args.manner.json {
        let report = report.display().to_string();
        terminal::print_json(&as_json(&document, &experiment, &report))?;
    } else {
        terminal::print(&tables(&document))?;
    }
    terminal::talk(&format!("report: {}", report.display()));
    Ok(Outcome::Success)
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
            Cell::Text(_) | Cell::Number(_) => {}
        }
    }
    cavy_report::terminal::table(&short, width, color)
}

fn as_json(document: &Document, experiment: &Experiment, report: &str) -> Value {
    json!({
        "title": document.title,
        "points": experiment.results.iter().map(point).collect::<Vec<_>>(),
        "capacity": experiment.capacities,
        "ranking": compare::rankings(experiment),
        "digest": document.digest,
        "seed": document.seed,
        "version": VERSION,
        "elapsed_s": document.elapsed_s,
        "requests": experiment.requests(),
        "report": report,
    })
}

/// A point with its overall percentiles beside its other fields.
fn point(result: &PointResult) -> Value {
    let mut value = serde_json::to_value(result).unwrap_or_default();
    if let Some(fields) = value.as_object_mut()
        && let Some(Value::Object(overall)) = fields.remove("overall")
    {
        fields.extend(overall);
    }
    value
}
