//! Reading a plan: TOML, overrides, and errors that name the nearest known key.

use super::error::PlanError;
use super::{Plan, SweepPlan};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A plan with where it came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The plan, overrides applied.
    pub plan: Plan,
    /// The plan as a table, for further overrides.
    pub table: Table,
    /// Folder that the plan's files are relative to.
    pub folder: PathBuf,
    /// Name for messages.
    pub name: String,
}

/// Reads the plan in `file`, applies `overrides` (`key=value`) in order, and checks it.
pub fn load(file: &Path, overrides: &[String], quick: bool) -> Result<Loaded, PlanError> {
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
) -> Result<Loaded, PlanError> {
    let mut table: Table = toml::from_str(text).map_err(|error| from_toml(error).in_file(name))?;
    // Checked against the text first, so that a mistake in the file is shown in the file.
    let plain: Plan = toml::from_str(text).map_err(|error| from_toml(error).in_file(name))?;
    if quick {
        for (key, value) in &plain.quick {
            set(&mut table, key, value.clone()).map_err(|e| e.in_file(name))?;
        }
    }
    for text in overrides {
        let (key, value) = parse_override(text)?;
        set(&mut table, &key, value)?;
    }
    let plan = from_table(&table).map_err(|error| error.in_file(name))?;
    let loaded = Loaded { plan, table, folder: folder.to_path_buf(), name: name.to_string() };
    super::build::check(&loaded)?;
    Ok(loaded)
}

/// The plan a table describes.
pub fn from_table(table: &Table) -> Result<Plan, PlanError> {
    Plan::try_from_table(table)
}

impl Plan {
    fn try_from_table(table: &Table) -> Result<Plan, PlanError> {
        Value::Table(table.clone()).try_into().map_err(|mut error: toml::de::Error| {
            error.set_input(None);
            from_toml(error)
        })
    }
}

/// Splits `key=value`. A value that is no TOML is taken as text.
fn parse_override(text: &str) -> Result<(String, Value), PlanError> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        PlanError::text(format!("`--set {text}` has no `=`"))
            .hint("write it as `--set load=0.9` or `--set policies.darc.window=5000`")
    })?;
    Ok((key.trim().to_string(), value_of(value.trim())))
}

fn value_of(text: &str) -> Value {
    let wrapped = format!("value = {text}");
    match toml::from_str::<Table>(&wrapped) {
        Ok(mut table) => table.remove("value").unwrap_or_else(|| Value::String(text.to_string())),
        Err(_) => Value::String(text.to_string()),
    }
}

/// Puts `value` at `path`, such as `load`, `run.requests`, `types.get.share` or `policies.1.window`.
/// Elements of a list are addressed by number from 0, or by their `name`, `label` or `policy`.
pub fn set(table: &mut Table, path: &str, value: Value) -> Result<(), PlanError> {
    let steps: Vec<&str> = path.split('.').collect();
    let (last, way) = steps.split_last().ok_or_else(|| PlanError::text("an empty key"))?;
    if path.split('.').any(str::is_empty) {
        return Err(PlanError::text(format!("`{path}` is no key of a plan")));
    }
    let mut here = table;
    let mut rest = way.iter();
    while let Some(&step) = rest.next() {
        let entry = here.entry(step).or_insert_with(|| Value::Table(Table::new()));
        match entry {
            Value::Table(inner) => here = inner,
            Value::Array(items) => {
                let Some(&which) = rest.next() else {
                    return set_in_list(items, step, last, value);
                };
                match element(items, step, which)? {
                    Value::Table(inner) => here = inner,
                    _ => return Err(PlanError::text(format!("`{path}` leads into a plain value"))),
                }
            }
            _ => return Err(PlanError::text(format!("`{path}` leads into a plain value"))),
        }
    }
    here.insert((*last).to_string(), value);
    Ok(())
}

fn set_in_list(
    items: &mut [Value],
    list: &str,
    which: &str,
    value: Value,
) -> Result<(), PlanError> {
    *element(items, list, which)? = value;
    Ok(())
}

fn element<'a>(
    items: &'a mut [Value],
    list: &str,
    which: &str,
) -> Result<&'a mut Value, PlanError> {
    let named = |item: &Value| {
        ["label", "name", "policy"]
            .iter()
            .find_map(|key| item.get(key).and_then(Value::as_str).map(str::to_string))
    };
    let answers_to = |item: &Value| {
        ["label", "name", "policy"]
            .iter()
            .any(|key| item.get(key).and_then(Value::as_str) == Some(which))
    };
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

/// A TOML error with the nearest known key as a hint.
fn from_toml(error: toml::de::Error) -> PlanError {
    let message = error.message().trim().to_string();
    let span = error.span();
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
                let count = ((to - from) / step + 1e-9).floor() as usize + 1;
                if count > MOST {
                    let must = "a range of at most 10000 values";
                    return Err(PlanError::field(format!("sweep.{key}"), count, must));
                }
                // Rounded, so that 0.05 * 3 reads 0.15.
                let value = |i: usize| ((from + step * i as f64) * 1e9).round() / 1e9;
                Ok((0..count).map(|i| Value::Float(value(i))).collect())
            }
        }
    }
}
