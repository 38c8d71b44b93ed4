//! Reading a plan: TOML, overrides, and errors that name the nearest known key.

use super::error::PlanError;
use super::{Plan, PolicyName, PolicyPlan, SweepPlan};
use crate::network::{NetworkPlan, TransportName};
use crate::subject::Subject;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A plan with where it came from.
#[derive(Clone, Debug)]
pub struct Loaded<P = Plan> {
    /// The plan, overrides applied.
    pub plan: P,
    /// The plan as a table, for further overrides.
    pub table: Table,
    /// Folder that the plan's files are relative to.
    pub folder: PathBuf,
    /// Name for messages.
    pub name: String,
}

/// A plan of either kind. What has a `[network]` table is about a network.
#[derive(Clone, Debug)]
pub enum AnyPlan {
    /// About a server.
    Server(Box<Loaded>),
    /// About a network.
    Network(Box<Loaded<NetworkPlan>>),
}

impl AnyPlan {
    /// Name for messages.
    pub fn name(&self) -> &str {
        match self {
            AnyPlan::Server(loaded) => &loaded.name,
            AnyPlan::Network(loaded) => &loaded.name,
        }
    }
}

/// Reads the plan in `file`, applies `overrides` (`key=value`) in order, and checks it.
pub fn load(file: &Path, overrides: &[String], quick: bool) -> Result<AnyPlan, PlanError> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| {
        let mut wrong = PlanError::text(format!("cannot read the plan: {error}")).in_file(&name);
        if error.kind() == std::io::ErrorKind::NotFound {
            wrong = wrong.hint("`cavy plan new` writes one to start from");
        }
        wrong
    })?;
    let folder = file.parent().unwrap_or(Path::new(".")).to_path_buf();
    load_text(&text, &name, &folder, overrides, quick)
}

/// As [`load`], from text.
pub fn load_text(
    text: &str,
    name: &str,
    folder: &Path,
    overrides: &[String],
    quick: bool,
) -> Result<AnyPlan, PlanError> {
    let table: Table = toml::from_str(text).map_err(|error| from_toml(error).in_file(name))?;
    let is_network = table.contains_key("network") || table.contains_key("transports");
    if is_network {
        let loaded = loaded(text, table, name, folder, overrides, quick)?;
        Ok(AnyPlan::Network(Box::new(loaded)))
    } else {
        let loaded = loaded(text, table, name, folder, overrides, quick)?;
        Ok(AnyPlan::Server(Box::new(loaded)))
    }
}

fn loaded<P: Subject>(
    text: &str,
    mut table: Table,
    name: &str,
    folder: &Path,
    overrides: &[String],
    quick: bool,
) -> Result<Loaded<P>, PlanError> {
    // Checked against the text first, so that a mistake in the file is shown in the file.
    let plain: P = toml::from_str(text).map_err(|error| from_toml(error).in_file(name))?;
    let keys = plain.sweep().keys().chain(plain.quick().keys());
    for key in keys.chain(plain.variants().values().flat_map(Table::keys)) {
        check_depth(key).map_err(|error| error.in_file(name))?;
    }
    if quick {
        for (key, value) in plain.quick() {
            set(&mut table, key, value.clone()).map_err(|e| e.in_file(name))?;
        }
    }
    for text in overrides {
        let (key, value) = parse_override(text)?;
        set(&mut table, &key, value)?;
    }
    let plan = from_table(&table).map_err(|error| error.in_file(name))?;
    let loaded = Loaded { plan, table, folder: folder.to_path_buf(), name: name.to_string() };
    P::check(&loaded)?;
    Ok(loaded)
}

/// The plan a table describes.
pub fn from_table<P: Subject>(table: &Table) -> Result<P, PlanError> {
    Value::Table(table.clone()).try_into().map_err(|mut error: toml::de::Error| {
        error.set_input(None);
        from_toml(error)
    })
}

/// Splits `key=value`. A value that is no TOML is taken as text.
fn parse_override(text: &str) -> Result<(String, Value), PlanError> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        PlanError::text(format!("`--set {text}` has no `=`"))
            .hint("write it as `--set load=0.9` or `--set policies.darc.window=5000`")
    })?;
    check_depth(key)?;
    Ok((key.trim().to_string(), value_of(value.trim())))
}

/// No key of a plan is that deep, and tables within tables without end would not fit the stack.
fn check_depth(key: &str) -> Result<(), PlanError> {
    const DEPTH_MAX: usize = 16;
    if key.trim().is_empty() || key.split('.').nth(DEPTH_MAX).is_some() {
        let shown: String = key.chars().take(60).collect();
        return Err(PlanError::text(format!("`{shown}` is no key of a plan"))
            .hint("write it as `load`, `run.requests` or `types.get.share`"));
    }
    Ok(())
}

fn value_of(text: &str) -> Value {
    let wrapped = format!("value = {text}");
    let text = || Value::String(text.to_string());
    match toml::from_str::<Table>(&wrapped) {
        Ok(mut table) => match table.remove("value").unwrap_or_else(text) {
            // `1e9` is a count to whoever types it; a real number may be written as a whole one.
            Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                Value::Integer(value as i64)
            }
            value => value,
        },
        Err(_) => text(),
    }
}

/// Puts `value` at `path`, such as `load`, `run.requests`, `types.get.share` or `policies.1.window`.
/// Elements of a list are addressed by number from 0, or by their `name`, `label` or `policy`.
pub fn set(table: &mut Table, path: &str, value: Value) -> Result<(), PlanError> {
    if path.split('.').any(str::is_empty) {
        return Err(PlanError::text(format!("`{path}` is no key of a plan")));
    }
    // Keys under `sweep`, `quick` and each of `variants` are paths themselves.
    let holds_paths = ["sweep.", "quick."].iter().find_map(|table| path.strip_prefix(table));
    let of_variant = path.strip_prefix("variants.").and_then(|rest| rest.split_once('.'));
    let inner = match (holds_paths, of_variant) {
        (Some(key), _) => Some((vec![&path[..path.len() - key.len() - 1]], key)),
        (None, Some((name, key))) => Some((vec!["variants", name], key)),
        (None, None) => None,
    };
    if let Some((way, key)) = inner {
        let mut here = table;
        for step in way {
            let entry = here.entry(step).or_insert_with(|| Value::Table(Table::new()));
            here = entry
                .as_table_mut()
                .ok_or_else(|| PlanError::text(format!("`{path}` leads into a plain value")))?;
        }
        here.insert(key.to_string(), value);
        return Ok(());
    }
    let Some((step, rest)) = path.split_once('.') else {
        table.insert(path.to_string(), value);
        return Ok(());
    };
    let plain = || PlanError::text(format!("`{path}` leads into a plain value"));
    match table.entry(step).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => set(inner, rest, value),
        Value::Array(items) => match rest.split_once('.') {
            None => {
                *element(items, step, rest)? = value;
                Ok(())
            }
            Some((which, rest)) => match element(items, step, which)? {
                Value::Table(inner) => set(inner, rest, value),
                _ => Err(plain()),
            },
        },
        _ => Err(plain()),
    }
}

fn element<'a>(
    items: &'a mut [Value],
    list: &str,
    which: &str,
) -> Result<&'a mut Value, PlanError> {
    let named = |item: &Value| names(item).into_iter().next();
    let answers_to = |item: &Value| names(item).iter().any(|name| name == which);
    let index = match which.parse::<usize>() {
        Ok(index) if index < items.len() => Some(index),
        _ => items.iter().position(answers_to),
    };
    match index {
        Some(index) => Ok(&mut items[index]),
        None => {
            let known: Vec<String> = items.iter().filter_map(named).collect();
            Err(PlanError::text(format!("`{list}` has no element `{which}`"))
                .hint(format!("there are: {}", known.join(", "))))
        }
    }
}

/// What an element of a list is called: its `label` or `name`, a policy or transport also by the label
/// it has by default and by its keyword.
fn names(item: &Value) -> Vec<String> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_string);
    let policy: Option<PolicyName> =
        item.get("policy").and_then(|name| name.clone().try_into().ok());
    let default = policy.map(|policy| PolicyPlan::plain(policy).label());
    let transport: Option<TransportName> =
        item.get("transport").and_then(|name| name.clone().try_into().ok());
    let carries = transport.map(|transport| transport.label().to_string());
    let keyword = text("policy").or(text("transport"));
    [text("label"), text("name"), default.or(carries), keyword].into_iter().flatten().collect()
}

/// A TOML error with the nearest known key as a hint.
fn from_toml(mut error: toml::de::Error) -> PlanError {
    let message = error.message().trim().to_string();
    let span = error.span();
    error.set_input(None);
    // Without the text, the error's last line is the key's path, when it knows one.
    let path = error.to_string();
    let path = path.lines().last().and_then(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    let message = [
        ("expected f64", "expected a number"),
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number from 0"),
    ]
    .iter()
    .fold(message, |message, (rust, words)| message.replace(rust, words));
    let message = match path {
        Some(path) if message.starts_with("invalid") => format!("`{path}`: {message}"),
        _ => message,
    };
    let mut wrong = PlanError { file: None, message, hints: Vec::new(), span };
    let quoted: Vec<String> =
        wrong.message.split('`').skip(1).step_by(2).map(str::to_string).collect();
    let is_unknown =
        wrong.message.starts_with("unknown field") || wrong.message.starts_with("unknown variant");
    if let (true, Some((found, known))) = (is_unknown, quoted.split_first()) {
        let what = if wrong.message.starts_with("unknown field") { "key" } else { "value" };
        wrong.message = format!("unknown {what} `{found}`");
        if let Some(near) = nearest(found, known.iter().map(String::as_str)) {
            wrong.hints.push(format!("did you mean `{near}`?"));
        }
        wrong.hints.push(format!("known here: {}", known.join(", ")));
    }
    wrong
}

/// The candidate most like `word`, if any is.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

impl SweepPlan {
    /// The values, in order; an error when the range is not one or too long.
    pub fn values(&self, key: &str) -> Result<Vec<Value>, PlanError> {
        const MOST: usize = 10_000;
        match self {
            SweepPlan::Values(values) if values.is_empty() => {
                Err(PlanError::field(format!("sweep.{key}"), "empty", "a list of values"))
            }
            SweepPlan::Values(values) => Ok(values.clone()),
            SweepPlan::Range { from, to, step } => {
                let finite = from.is_finite() && to.is_finite() && step.is_finite();
                if !finite || *step <= 0.0 || to < from {
                    let value = format!("{from} to {to} by {step}");
                    let must = "a rising range with a step above 0";
                    return Err(PlanError::field(format!("sweep.{key}"), value, must));
                }
                let steps = ((to - from) / step + 1e-9).floor();
                if steps >= MOST as f64 {
                    let must = "a range of at most 10000 values";
                    let value = format!("a range of {steps:e} steps");
                    return Err(PlanError::field(format!("sweep.{key}"), value, must));
                }
                let count = steps as usize + 1;
                // Rounded, so that 0.05 * 3 reads 0.15.
                let value = |i: usize| ((from + step * i as f64) * 1e9).round() / 1e9;
                Ok((0..count).map(|i| Value::Float(value(i))).collect())
            }
        }
    }
}
