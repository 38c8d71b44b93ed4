//! `cavy plan`: write, check and describe plan files.

use crate::args::{Check, FromTraces, Keys, New, Plan, PlanCommand, Schema};
use crate::faults::Fault;
use crate::forecast::Forecast;
use crate::{Outcome, terminal};
use cavy_report::file::replace;
use cavy_study::kind::Kind;
use cavy_study::plan::files::{self, CarriedFile};
use cavy_study::plan::{nearest, reference};
use cavy_study::registry::Registry;
use cavy_study::store::Store;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Does what was asked about plans.
pub fn plan(args: &Plan, registry: &Registry) -> Result<Outcome, Fault> {
    match &args.command {
        PlanCommand::New(args) => new(args, registry),
        PlanCommand::FromTraces(args) => from_traces(args),
        PlanCommand::Check(args) => check(args, registry),
        PlanCommand::Schema(args) => schema(args, registry),
        PlanCommand::Keys(args) => keys(args, registry),
    }
}

/// The kind called `name`.
fn named<'r>(name: &str, registry: &'r Registry) -> Result<&'r dyn Kind, Fault> {
    registry.kind(name).ok_or_else(|| {
        let names: Vec<&str> = registry.kinds.iter().map(|kind| kind.about().name).collect();
        Fault::new(format!("there is no kind of plan `{name}`"))
            .hint(format!("kinds are: {}", names.join(", ")))
    })
}

/// Prints the keys of one kind, or those that all share.
fn keys(args: &Keys, registry: &Registry) -> Result<Outcome, Fault> {
    let text = match (&args.kind, registry.kinds.first()) {
        (Some(name), _) => reference::of_kind(&named(name, registry)?.schema()),
        (None, Some(any)) => reference::shared(&any.schema()),
        (None, None) => String::new(),
    };
    terminal::print(&text)?;
    Ok(Outcome::Success)
}

/// Prints the schema of one kind, or of all.
fn schema(args: &Schema, registry: &Registry) -> Result<Outcome, Fault> {
    let schema = match &args.kind {
        Some(name) => named(name, registry)?.schema(),
        None => any_kind(registry),
    };
    terminal::print_json(&schema)?;
    Ok(Outcome::Success)
}

/// The schema of a plan of whatever kind: what `kind` says decides which of them holds.
fn any_kind(registry: &Registry) -> Value {
    let names: Vec<&str> = registry.kinds.iter().map(|kind| kind.about().name).collect();
    let schemas: serde_json::Map<String, Value> =
        registry.kinds.iter().map(|kind| (kind.about().name.to_string(), kind.schema())).collect();
    let cases: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({
                "if": { "properties": { "kind": { "const": name } } },
                "then": { "$ref": format!("#/$defs/{name}") },
            })
        })
        .collect();
    // Each has definitions of its own; an address makes references within it mean those.
    let named = schemas.into_iter().map(|(name, mut schema)| {
        schema["$id"] = json!(format!("https://cavy.invalid/plan/{name}"));
        (name, schema)
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "plan",
        "type": "object",
        "properties": { "kind": { "enum": names } },
        "required": ["kind"],
        "allOf": cases,
        "$defs": named.collect::<serde_json::Map<String, Value>>(),
    })
}

/// Writes a template as a plan.
pub fn new(args: &New, registry: &Registry) -> Result<Outcome, Fault> {
    let (text, carried) = template(&args.template, registry)?;
    if args.file == Path::new("-") {
        terminal::print(text)?;
        return Ok(Outcome::Success);
    }
    let mut files = vec![(args.file.clone(), text)];
    // The plan names its data relative to itself.
    files.extend(carried.iter().map(|(name, text)| (args.file.with_file_name(name), *text)));
    write(&files, args.force)?;
    terminal::talk(&format!("next: edit it, then `cavy run {}`", args.file.display()));
    Ok(Outcome::Success)
}

/// Writes a plan of what traces show.
pub fn from_traces(args: &FromTraces) -> Result<Outcome, Fault> {
    let shown = args.traces.display().to_string();
    let of_file = |error: cavy_traces::TraceError| {
        Fault::new(format!("{shown}: {}", error.message)).hint(error.hint)
    };
    let traces = files::text(&args.traces).map_err(|error| {
        Fault::new(format!("cannot read `{shown}`: {error}"))
            .hint("name a file with traces as JSON, of Jaeger, OpenTelemetry or Zipkin")
    })?;
    let spans = cavy_traces::read::read(&traces).map_err(of_file)?;
    let shape = cavy_traces::shape::Shape::of(&spans).map_err(of_file)?;
    let guess = cavy_traces::plan::Guess {
        clients: args.clients,
        cores: args.cores,
        host_cores: args.host_cores,
    };
    let text = cavy_traces::plan::text(&shape, guess, &shown).map_err(of_file)?;
    if args.file == Path::new("-") {
        terminal::print(&text)?;
    } else {
        write(&[(args.file.clone(), &text)], args.force)?;
    }
    terminal::talk(&format!(
        "{} traces, {} services, {} endpoints; left out: {} traces without their first span, {} \
         broken spans",
        shape.traces,
        shape.services().len(),
        shape.endpoints.len(),
        shape.rootless,
        shape.broken
    ));
    if args.file != Path::new("-") {
        terminal::talk(&format!("next: edit it, then `cavy run {}`", args.file.display()));
    }
    Ok(Outcome::Success)
}

/// Writes files, none over another unless `force`.
pub fn write(files: &[(PathBuf, &str)], force: bool) -> Result<(), Fault> {
    for (file, _) in files {
        if file.is_dir() {
            return Err(Fault::new(format!("`{}` is a folder", file.display()))
                .hint("name the file to write, such as `plan.toml`"));
        }
        if file.exists() && !force {
            return Err(Fault::new(format!("`{}` is there already", file.display()))
                .hint("name another file, or pass `--force` to overwrite it"));
        }
    }
    for (file, text) in files {
        replace(file, text.as_bytes()).map_err(|error| {
            Fault::new(format!("cannot write `{}`: {error}", file.display()))
                .hint("name a file in a folder that is there and can be written")
        })?;
        terminal::talk(&format!("wrote {}", file.display()));
    }
    Ok(())
}

/// The template called `name`, or the plan of the figure called so: its text, and the files it
/// names.
fn template(
    name: &str,
    registry: &Registry,
) -> Result<(&'static str, &'static [CarriedFile]), Fault> {
    if let Some((_, template)) = registry.templates().find(|(_, one)| one.name == name) {
        return Ok((template.text, template.files));
    }
    let mut known: Vec<String> = registry.templates().map(|(_, t)| t.name.to_string()).collect();
    let templates = known.join(", ");
    for (full, _, figure) in registry.figures() {
        let about = figure.about();
        if name == full || name == about.id {
            return Ok((about.plan, about.files));
        }
        known.push(full);
    }
    let mut fault = Fault::new(format!("there is no template `{name}`"));
    if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
        fault = fault.hint(format!("did you mean `{near}`?"));
    }
    Err(fault.hint(format!("templates are: {templates}, and the figures of `cavy list`")))
}

/// Checks every file before it fails, so that one call shows all mistakes.
fn check(args: &Check, registry: &Registry) -> Result<Outcome, Fault> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut faults: Vec<Fault> = Vec::new();
    let mut out = String::new();
    for file in &args.files {
        match registry.load(file, &args.set, args.quick) {
            Ok(plan) if plan.live().is_some() => {
                let command = plan.live().unwrap_or_default();
                let file = file.display();
                let _ = writeln!(out, "{file}: ok: for the world `live`: `{command}` runs it");
            }
            Ok(plan) => {
                let estimate = Forecast::of([plan.as_ref()], &Store::in_memory());
                let _ = writeln!(out, "{}: ok: {}", file.display(), estimate.words(jobs));
                if let Err(refusal) = estimate.refuse(plan.as_ref(), jobs) {
                    let _ = write!(
                        out,
                        "{}",
                        refusal.render().replace("error:", "`cavy run` refuses it:")
                    );
                }
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
