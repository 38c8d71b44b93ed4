//! The reference of keys: Markdown from the schema, so that no key is described twice.

use super::frame::{KEYS, RUN_KEYS};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// The keys of `schema`, a plan's, as Markdown: a table for each table of the plan. Keys that all
/// plans share are left out; [`shared`] has them.
pub fn of_kind(schema: &Value) -> String {
    let mut page = Page { schema, out: String::new(), ahead: Vec::new() };
    let empty = Map::new();
    let all = schema["properties"].as_object().unwrap_or(&empty);
    let own: Vec<(&String, &Value)> =
        all.iter().filter(|(key, _)| !KEYS.contains(&key.as_str())).collect();
    page.table("At the top", &own, &required(schema));
    if let Some(run) = all.get("run").and_then(|run| run["properties"].as_object()) {
        let own: Vec<(&String, &Value)> =
            run.iter().filter(|(key, _)| !RUN_KEYS.contains(&key.as_str())).collect();
        if !own.is_empty() {
            page.table("`[run]`, beside the keys of all plans", &own, &[]);
        }
    }
    page.rest();
    page.out
}

/// The keys that all plans share, from the `schema` of any of them.
pub fn shared(schema: &Value) -> String {
    let mut page = Page { schema, out: String::new(), ahead: Vec::new() };
    let all = &schema["properties"];
    let known = |key: &&str| Some((key.to_string(), all.get(*key)?.clone()));
    let frame: Vec<(String, Value)> = KEYS.iter().filter_map(known).collect();
    let frame: Vec<(&String, &Value)> = frame.iter().map(|(key, value)| (key, value)).collect();
    page.table("At the top", &frame, &required(schema));
    let run = &all["run"]["properties"];
    let run: Vec<(String, Value)> =
        RUN_KEYS.iter().filter_map(|key| Some((key.to_string(), run.get(*key)?.clone()))).collect();
    let run: Vec<(&String, &Value)> = run.iter().map(|(key, value)| (key, value)).collect();
    page.table("`[run]`", &run, &[]);
    page.out
}

fn required(schema: &Value) -> Vec<&str> {
    let all = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(Value::as_str).collect()
}

/// A table of a plan.
struct Described {
    /// Where it may stand.
    paths: Vec<String>,
    value: Value,
    /// Its heading, with the first of its places, and its keys.
    text: String,
}

struct Page<'a> {
    schema: &'a Value,
    out: String,
    /// Tables that are named and not described yet: how they are written, and their schema.
    ahead: Vec<(String, Value)>,
}

impl Page<'_> {
    /// Describes what was named until nothing is left.
    fn rest(&mut self) {
        let mut done: Vec<Described> = Vec::new();
        let before = std::mem::take(&mut self.out);
        while !self.ahead.is_empty() {
            let (path, value) = self.ahead.remove(0);
            if done.iter().any(|one| one.paths.contains(&path)) {
                continue;
            }
            // A table that stands in several places is described where it stands first.
            if let Some(same) = done.iter_mut().find(|one| one.value == value) {
                same.paths.push(path);
                continue;
            }
            match tagged(&value) {
                Some((tag, variants)) => self.variants(&path, tag, &variants),
                None => {
                    let empty = Map::new();
                    let keys = value["properties"].as_object().unwrap_or(&empty);
                    let keys: Vec<(&String, &Value)> = keys.iter().collect();
                    self.table(&path, &keys, &required(&value));
                }
            }
            let text = std::mem::take(&mut self.out);
            done.push(Described { paths: vec![path], value, text });
        }
        self.out = before;
        for Described { paths, text, .. } in done {
            self.out.push_str(&text.replacen(&paths[0], &paths.join(", "), 1));
        }
    }

    /// One table of keys.
    fn table(&mut self, head: &str, keys: &[(&String, &Value)], required: &[&str]) {
        let _ = write!(self.out, "### {head}\n\n| key | meaning | default |\n|---|---|---|\n");
        for (key, value) in keys {
            let (meaning, default) = self.said(value, required.contains(&key.as_str()));
            let _ = writeln!(self.out, "| `{key}` | {meaning} | {default} |");
            self.note(head, key, value);
        }
        self.out.push('\n');
    }

    /// An enum that is told apart by a key: its variants, and the keys that they have.
    fn variants(&mut self, path: &str, tag: &str, variants: &[Value]) {
        let named: Vec<(&str, &Value)> = variants
            .iter()
            .filter_map(|one| Some((one["properties"][tag]["const"].as_str()?, one)))
            .collect();
        let keys_of = |one: &Value| -> Vec<String> {
            let keys = one["properties"].as_object().into_iter().flat_map(|keys| keys.keys());
            keys.filter(|key| *key != tag).cloned().collect()
        };
        let in_all = |key: &String| named.iter().all(|(_, one)| keys_of(one).contains(key));
        let _ = write!(self.out, "### {path}\n\n| `{tag}` | meaning | keys |\n|---|---|---|\n");
        for (name, one) in &named {
            let own: Vec<String> = keys_of(one)
                .iter()
                .filter(|key| !in_all(key) || named.len() == 1)
                .map(|key| format!("`{key}`"))
                .collect();
            let _ = writeln!(
                self.out,
                "| `{name}` | {} | {} |",
                prose(one["description"].as_str().unwrap_or("")),
                own.join(", ")
            );
        }
        let mut rows: Vec<(String, String, String, Vec<&str>)> = Vec::new();
        for (name, one) in &named {
            let must = required(one);
            for key in keys_of(one) {
                let value = &one["properties"][&key];
                let (meaning, default) = self.said(value, must.contains(&key.as_str()));
                self.note(path, &key, value);
                let same = |row: &&mut (String, String, String, Vec<&str>)| {
                    row.0 == key && row.1 == meaning && row.2 == default
                };
                match rows.iter_mut().find(same) {
                    Some(row) => row.3.push(name),
                    None => rows.push((key, meaning, default, vec![name])),
                }
            }
        }
        if !rows.is_empty() {
            let _ = write!(self.out, "\n| key | of | meaning | default |\n|---|---|---|---|\n");
            // What all have first.
            rows.sort_by_key(|row| row.3.len() < named.len());
            for (key, meaning, default, of) in rows {
                let of = if of.len() == named.len() { "all".to_string() } else { of.join(", ") };
                let _ = writeln!(self.out, "| `{key}` | {of} | {meaning} | {default} |");
            }
        }
        self.out.push('\n');
    }

    /// Remembers a table that `value` is, to be described.
    fn note(&mut self, head: &str, key: &str, value: &Value) {
        let real = self.resolved(value);
        let (inner, is_list) = match real.get("items") {
            Some(items) => (self.resolved(items), true),
            None => (real, false),
        };
        let is_table = inner.get("properties").is_some_and(Value::is_object);
        if !is_table && tagged(&inner).is_none() {
            return;
        }
        let within = head.trim_matches('`').trim_matches(['[', ']']);
        let prefix = match head.starts_with("`[") && !within.contains(' ') {
            true => format!("{within}."),
            false => String::new(),
        };
        let path = match is_list {
            true => format!("`[[{prefix}{key}]]`"),
            false => format!("`[{prefix}{key}]`"),
        };
        self.ahead.push((path, inner));
    }

    /// What a reference or an option refers to.
    fn resolved(&self, value: &Value) -> Value {
        if let Some(path) = value.get("$ref").and_then(Value::as_str) {
            return self.schema.pointer(&path[1..]).map_or(Value::Null, |one| self.resolved(one));
        }
        if let Some(any) = value.get("anyOf").and_then(Value::as_array) {
            let real = any.iter().find(|one| one.get("type") != Some(&Value::from("null")));
            return real.map_or(Value::Null, |one| self.resolved(one));
        }
        value.clone()
    }

    /// A key's meaning, and its default: what the schema has, or what the description says of it.
    fn said(&self, value: &Value, is_required: bool) -> (String, String) {
        let text = prose(value["description"].as_str().unwrap_or(""));
        let (text, said) = match text.rsplit_once(" Default: ") {
            Some((text, default)) => (text.to_string(), default.trim_end_matches('.').to_string()),
            None => (text, String::new()),
        };
        let default = self.default(value, is_required);
        (self.meaning(text, value), if default.is_empty() { said } else { default })
    }

    /// A key's description, with the words it may be.
    fn meaning(&self, mut text: String, value: &Value) -> String {
        let words = words(&self.resolved(value));
        if !words.is_empty() {
            let each: Vec<String> = words
                .iter()
                .map(|(word, says)| match says.as_str() {
                    "" => format!("`{word}`"),
                    says => format!("`{word}`: {}", says.trim_end_matches('.')),
                })
                .collect();
            let _ = write!(text, " {}", each.join("; "));
        }
        text
    }

    fn default(&self, value: &Value, is_required: bool) -> String {
        if is_required {
            return "required".to_string();
        }
        match value.get("default") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) if text.is_empty() => "empty".to_string(),
            Some(Value::Array(items)) if items.is_empty() => "none".to_string(),
            Some(Value::Object(_)) => "see below".to_string(),
            Some(Value::Number(number)) => number_words(number),
            Some(Value::String(text)) => format!("`{text}`"),
            Some(other) => format!("{other}"),
        }
    }
}

fn number_words(number: &serde_json::Number) -> String {
    match (number.as_u64(), number.as_f64()) {
        (Some(whole), _) if whole >= 10_000_000 => format!("{:e}", whole as f64),
        (Some(whole), _) => whole.to_string(),
        (None, Some(real)) if real.fract() == 0.0 && real.abs() < 1e7 => format!("{real:.0}"),
        _ => number.to_string(),
    }
}

/// The variants of an enum that a key tells apart, and that key.
fn tagged(value: &Value) -> Option<(&str, Vec<Value>)> {
    let variants = value.get("oneOf")?.as_array()?;
    let first = variants.first()?.get("properties")?.as_object()?;
    let (tag, _) = first.iter().find(|(_, value)| value.get("const").is_some())?;
    Some((tag, variants.clone()))
}

/// Words that a value may be, with what they mean.
fn words(value: &Value) -> Vec<(String, String)> {
    if let Some(words) = value.get("enum").and_then(Value::as_array) {
        let word = |word: &Value| Some((word.as_str()?.to_string(), String::new()));
        return words.iter().filter_map(word).collect();
    }
    let variants = value.get("oneOf").and_then(Value::as_array);
    let one = |variant: &Value| {
        let word = variant.get("const")?.as_str()?.to_string();
        Some((word, prose(variant["description"].as_str().unwrap_or(""))))
    };
    variants.into_iter().flatten().filter_map(one).collect()
}

/// A description on one line, fit for a cell.
fn prose(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
