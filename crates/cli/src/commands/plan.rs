//! `cavy plan`: write, check and describe plan files.

use crate::args::{Check, New, Plan, PlanCommand};
use crate::estimate::Estimate;
use crate::faults::Fault;
use crate::folder::replace;
use crate::{Outcome, terminal};
use cavy_study::figure::{self, AnyStudy};
use cavy_study::plan::{self, read::nearest};
use cavy_study::store::Store;
use std::fmt::Write as _;
use std::path::Path;

/// A plan to start from.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub says: &'static str,
    text: &'static str,
    /// A file it refers to, and what is in it.
    data: Option<(&'static str, &'static str)>,
}

/// All templates.
pub const TEMPLATES: [Template; 5] = [
    Template {
        name: "minimal",
        says: "two types of requests, three policies, an objective",
        text: include_str!("../../../../plans/templates/minimal.toml"),
        data: None,
    },
    Template {
        name: "measured",
        says: "service times measured on a running service, from a CSV file",
        text: include_str!("../../../../plans/templates/measured.toml"),
        data: Some(("measured.csv", include_str!("../../../../plans/templates/measured.csv"))),
    },
    Template {
        name: "phases",
        says: "a workload that changes over time, latency over time",
        text: include_str!("../../../../plans/templates/phases.toml"),
        data: None,
    },
    Template {
        name: "network",
        says: "message sizes on a network, five transports, an objective",
        text: include_str!("../../../../plans/templates/network.toml"),
        data: None,
    },
    Template {
        name: "incast",
        says: "how many answers may come at once, four transports",
        text: include_str!("../../../../plans/templates/incast.toml"),
        data: None,
    },
];

/// Does what was asked about plans.
pub fn plan(args: &Plan) -> Result<Outcome, Fault> {
    match &args.command {
        PlanCommand::New(args) => new(args),
        PlanCommand::Check(args) => check(args),
        PlanCommand::Schema(args) => {
            let of_network = cavy_study::network::plan::schema;
            let schema = if args.network { of_network() } else { plan::schema() };
            terminal::print_json(&schema)?;
            Ok(Outcome::Success)
        }
    }
}

fn new(args: &New) -> Result<Outcome, Fault> {
    let template = template(&args.template)?;
    if args.file == Path::new("-") {
        terminal::print(template.text)?;
        return Ok(Outcome::Success);
    }
    let mut files = vec![(args.file.clone(), template.text)];
    // The plan names its data relative to itself.
    files.extend(template.data.map(|(name, text)| (args.file.with_file_name(name), text)));
    for (file, _) in &files {
        if file.is_dir() {
            return Err(Fault::new(format!("`{}` is a folder", file.display()))
                .hint("name the file to write, such as `plan.toml`"));
        }
        if file.exists() && !args.force {
            return Err(Fault::new(format!("`{}` is there already", file.display()))
                .hint("name another file, or pass `--force` to overwrite it"));
        }
    }
    for (file, text) in &files {
        replace(file, text.as_bytes()).map_err(|error| {
            Fault::new(format!("cannot write `{}`: {error}", file.display()))
                .hint("name a file in a folder that is there and can be written")
        })?;
        terminal::talk(&format!("wrote {}", file.display()));
    }
    terminal::talk(&format!("next: edit it, then `cavy run {}`", args.file.display()));
    Ok(Outcome::Success)
}

/// The template called `name`, or the plan of the figure called so.
fn template(name: &str) -> Result<Template, Fault> {
    if let Some(template) = TEMPLATES.iter().find(|template| template.name == name) {
        return Ok(*template);
    }
    let systems = figure::systems();
    let mut known: Vec<String> = TEMPLATES.iter().map(|t| t.name.to_string()).collect();
    for system in &systems {
        for figure in system.figures.iter().map(AnyStudy::about) {
            let full = format!("{}.{}", system.id, figure.id);
            if name == full || name == figure.id {
                return Ok(Template { name: figure.id, says: "", text: figure.plan, data: None });
            }
            known.push(full);
        }
    }
    let mut fault = Fault::new(format!("there is no template `{name}`"));
    if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
        fault = fault.hint(format!("did you mean `{near}`?"));
    }
    Err(fault.hint(
        "templates are: minimal, measured, phases, network, incast, and the figures of `cavy list`",
    ))
}

/// Checks every file before it fails, so that one call shows all mistakes.
fn check(args: &Check) -> Result<Outcome, Fault> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut faults: Vec<Fault> = Vec::new();
    let mut out = String::new();
    for file in &args.files {
        let estimate = plan::load(file, &args.set, args.quick)
            .and_then(|loaded| Estimate::of([&loaded], &Store::in_memory()));
        match estimate {
            Ok(estimate) => {
                let _ = writeln!(out, "{}: ok: {}", file.display(), estimate.words(jobs));
            }
            Err(error) => faults.push(error.into()),
        }
    }
    terminal::print(&out)?;
    match faults.pop() {
        None => Ok(Outcome::Success),
        Some(last) => {
            for fault in &faults {
                terminal::talk(&fault.render());
            }
            Err(last)
        }
    }
}
