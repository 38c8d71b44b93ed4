//! What a reader of TOML finds wrong, in words that name the nearest known key.

use super::PlanError;
use toml::de::{DeTable, DeValue};

/// What is known where a mistake was made, beside what the error itself lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'a> {
    /// Keys at the top of a plan that another reader takes.
    pub top: &'a [&'a str],
    /// Likewise in the table `run`.
    pub run: &'a [&'a str],
    /// The text, where the mistake was made in it.
    pub text: Option<&'a str>,
    /// The schema of the plan, which says to which contestant a foreign key belongs.
    pub schema: Option<fn() -> serde_json::Value>,
}

/// A TOML error with the nearest known key as a hint.
pub(crate) fn from_toml(mut error: toml::de::Error, known: Known<'_>) -> PlanError {
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
    let mut quoted: Vec<String> =
        wrong.message.split('`').skip(1).step_by(2).map(str::to_string).collect();
    let is_key = wrong.message.starts_with("unknown field");
    if !(is_key || wrong.message.starts_with("unknown variant")) || quoted.is_empty() {
        return wrong;
    }
    let found = quoted.remove(0);
    let elsewhere = match path {
        None => known.top,
        Some("run") => known.run,
        Some(_) => &[],
    };
    if is_key {
        let more = elsewhere.iter().map(|key| key.to_string());
        let more: Vec<String> = more.filter(|key| !quoted.contains(key)).collect();
        quoted.extend(more);
    }
    let what = if is_key { "key" } else { "value" };
    wrong.message = match path {
        Some(path) if is_key => format!("unknown key `{found}` in `{path}`"),
        _ => format!("unknown {what} `{found}`"),
    };
    // An error within a tagged table knows the list that the table is in, and no more.
    if let Some(place) = known.text.filter(|_| is_key).and_then(|text| place_of(text, &found)) {
        wrong.span = Some(place);
    }
    let owners = match known.schema {
        Some(schema) if is_key => owners(&schema(), &found),
        _ => Vec::new(),
    };
    if !owners.is_empty() {
        wrong.hints.push(format!("`{found}` is a key of {}", owners.join(", ")));
    } else if let Some(near) = nearest(&found, quoted.iter().map(String::as_str)) {
        wrong.hints.push(format!("did you mean `{near}`?"));
    }
    if !quoted.is_empty() {
        wrong.hints.push(format!("known here: {}", quoted.join(", ")));
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

/// Where the only key called `key` stands in `text`.
fn place_of(text: &str, key: &str) -> Option<std::ops::Range<usize>> {
    fn walk(value: &DeValue<'_>, key: &str, found: &mut Vec<std::ops::Range<usize>>) {
        match value {
            DeValue::Table(table) => {
                for (name, value) in table.iter() {
                    if name.get_ref() == key {
                        found.push(name.span());
                    }
                    walk(value.get_ref(), key, found);
                }
            }
            DeValue::Array(items) => items.iter().for_each(|item| walk(item.get_ref(), key, found)),
            _ => {}
        }
    }
    let table = DeTable::parse(text).ok()?.into_inner();
    let mut found = Vec::new();
    walk(&DeValue::Table(table), key, &mut found);
    match found.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// Names of the variants of tagged enums in `schema` that have the key `key`.
fn owners(schema: &serde_json::Value, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut ahead = vec![schema];
    while let Some(value) = ahead.pop() {
        match value {
            serde_json::Value::Object(fields) => {
                for variant in fields.get("oneOf").and_then(|v| v.as_array()).into_iter().flatten()
                {
                    let tag = tag(variant);
                    if let Some(tag) = tag.filter(|_| has_key(schema, variant, key)) {
                        found.push(tag.to_string());
                    }
                }
                ahead.extend(fields.values());
            }
            serde_json::Value::Array(items) => ahead.extend(items),
            _ => {}
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The tag of a variant: the one value that one of its keys may have.
fn tag(variant: &serde_json::Value) -> Option<&str> {
    let keys = variant.get("properties")?.as_object()?;
    keys.values().find_map(|key| key.get("const")?.as_str())
}

/// Does `variant`, or what it refers to, have `key`?
fn has_key(schema: &serde_json::Value, variant: &serde_json::Value, key: &str) -> bool {
    let of =
        |value: &serde_json::Value| value.get("properties").is_some_and(|p| p.get(key).is_some());
    let referred = variant.get("$ref").and_then(|r| r.as_str());
    of(variant) || referred.and_then(|r| schema.pointer(&r[1..])).is_some_and(of)
}
