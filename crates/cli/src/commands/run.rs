//! `cavy run`: the user's own experiment.

use crate::args::Run;
use crate::estimate::Estimate;
use crate::faults::Fault;
use crate::session::{self, Session};
use crate::{Clock, Outcome, VERSION, document, terminal};
use cavy_report::model::{Cell, Document, Figure, Table};
use cavy_study::capacity::Capacity;
use cavy_study::experiment::Experiment;
use cavy_study::network::{self, NetExperiment};
use cavy_study::plan::{self, AnyPlan};
use cavy_study::point::RunError;
use cavy_study::runner::Runner;
use cavy_study::{compare, draw};
use serde::Serialize;
use serde_json::{Value, json};

/// Runs a plan.
pub fn run(args: &Run, clock: Clock) -> Result<Outcome, Fault> {
    let mut overrides = args.set.clone();
    overrides.extend(args.manner.seed.map(|seed| format!("run.seed={seed}")));
    overrides.extend(args.precision.map(|ratio| format!("run.precision_ratio={ratio:?}")));
    let plan = plan::load(&args.plan, &overrides, args.quick)?;

    let jobs = session::jobs(&args.manner);
    let nothing = cavy_study::store::Store::in_memory();
    let fresh = Estimate::of([&plan], &nothing)?;
    terminal::talk(&format!("{}: {}", plan.name(), fresh.words(jobs)));
    if let AnyPlan::Server(loaded) = &plan
        && loaded.plan.run.precision_ratio.is_some()
    {
        terminal::talk("more where `precision_ratio` needs more replications");
    }
    if !args.accept_cost {
        fresh.refuse(&plan, jobs)?;
    }
    let session = Session::open(&args.manner, clock)?;
    let estimate = Estimate::of([&plan], &session.store)?;
    let results = session.run(&estimate, |runner| Results::of(runner, &plan))?;

    let command = terminal::command_line();
    let mut document =
        document::blank(command.clone(), results.seed(), results.digest(), clock.elapsed_s());
    (document.title, document.summary) = results.texts();
    document.facts = results.facts();
    document.facts.insert(0, ("plan".to_string(), plan.name().to_string()));
    document.figures = results.figures(&command);
    let report = document::write(&document, &session.folder)?;

    if args.manner.json {
        let report = report.display().to_string();
        terminal::print_json(&results.json(&document, &report))?;
    } else {
        terminal::print(&tables(&document))?;
    }
    terminal::talk(&format!("report: {}", report.display()));
    Ok(Outcome::Success)
}

/// What came of a plan of either kind.
enum Results {
    Server(Box<Experiment>),
    Network(Box<NetExperiment>),
}

impl Results {
    fn of(runner: &Runner<'_>, plan: &AnyPlan) -> Result<Self, RunError> {
        match plan {
            AnyPlan::Server(loaded) => {
                runner.experiment(loaded).map(|all| Results::Server(Box::new(all)))
            }
            AnyPlan::Network(loaded) => {
                runner.experiment(loaded).map(|all| Results::Network(Box::new(all)))
            }
        }
    }

    fn seed(&self) -> u64 {
        match self {
            Results::Server(experiment) => experiment.plan.run.seed,
            Results::Network(experiment) => experiment.plan.run.seed,
        }
    }

    fn digest(&self) -> u64 {
        match self {
            Results::Server(experiment) => experiment.digest(),
            Results::Network(experiment) => experiment.digest(),
        }
    }

    /// Title and summary.
    fn texts(&self) -> (String, String) {
        let (title, summary) = match self {
            Results::Server(experiment) => (&experiment.plan.title, &experiment.plan.summary),
            Results::Network(experiment) => (&experiment.plan.title, &experiment.plan.summary),
        };
        (title.clone(), summary.clone())
    }

    fn facts(&self) -> Vec<(String, String)> {
        match self {
            Results::Server(experiment) => document::facts(experiment.requests()),
            Results::Network(experiment) => document::network_facts(experiment.requests()),
        }
    }

    fn figures(&self, command: &str) -> Vec<Figure> {
        match self {
            Results::Server(experiment) => draw::figures(experiment, command),
            Results::Network(experiment) => network::draw::figures(experiment, command),
        }
    }

    fn json(&self, document: &Document, report: &str) -> Value {
        let (points, capacity, ranking, work, count) = match self {
            Results::Server(experiment) => (
                experiment.results.iter().map(flat).collect(),
                json!(experiment.capacities),
                json!(compare::rankings(experiment)),
                "requests",
                experiment.requests(),
            ),
            Results::Network(experiment) => (
                experiment.results.iter().map(flat).collect::<Vec<_>>(),
                experiment.capacities.iter().map(of_transport).collect(),
                json!(network::rank::rankings(experiment)),
                "messages",
                experiment.requests(),
            ),
        };
        json!({
            "title": document.title,
            "points": points,
            "capacity": capacity,
            "ranking": ranking,
            "digest": document.digest,
            "seed": document.seed,
            "version": VERSION,
            "elapsed_s": document.elapsed_s,
            work: count,
            "report": report,
        })
    }
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

/// A point with its overall percentiles beside its other fields.
fn flat(result: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(result).unwrap_or_default();
    if let Some(fields) = value.as_object_mut()
        && let Some(Value::Object(overall)) = fields.remove("overall")
    {
        for (key, value) in overall {
            fields.entry(key).or_insert(value);
        }
    }
    value
}

/// A capacity in the words of networks.
fn of_transport(capacity: &Capacity) -> Value {
    let mut value = json!(capacity);
    if let Some(fields) = value.as_object_mut() {
        for (server, network) in [("policy", "transport"), ("requests", "messages")] {
            if let Some(value) = fields.remove(server) {
                fields.insert(network.to_string(), value);
            }
        }
    }
    value
}
