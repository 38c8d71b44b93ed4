//! Values of a plan by their path: overrides, swept and quick values.

use super::PlanError;
use toml::{Table, Value};

/// Splits `key=value`. A value that is no TOML is taken as text.
pub(crate) fn parse_override(text: &str) -> Result<(String, Value), PlanError> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        PlanError::text(format!("`--set {text}` has no `=`"))
            .hint("write it as `--set load=0.9` or `--set policies.darc.window=5000`")
    })?;
    check_depth(key)?;
    Ok((key.trim().to_string(), value_of(value.trim())))
}

/// No key of a plan is that deep, and tables within tables without end would not fit the stack.
pub(crate) fn check_depth(key: &str) -> Result<(), PlanError> {
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

/// What an element of a list is called, besides its number.
pub type Names = fn(&Value) -> Vec<String>;

/// Puts `value` at `path`, such as `load`, `run.requests`, `types.get.share` or
/// `policies.1.window`. Elements of a list are addressed by number from 0, or by a name that
/// `names` gives them.
pub fn set(table: &mut Table, path: &str, value: Value, names: Names) -> Result<(), PlanError> {
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
        Value::Table(inner) => set(inner, rest, value, names),
        Value::Array(items) => match rest.split_once('.') {
            None => {
                *element(items, step, rest, names)? = value;
                Ok(())
            }
            Some((which, rest)) => match element(items, step, which, names)? {
                Value::Table(inner) => set(inner, rest, value, names),
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
    names: Names,
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
