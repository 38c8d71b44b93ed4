//! Documents that clients ask for by their ids, and what of their sources they want.

use super::Query;
use super::documents::got;
use super::error::{Error, token};
use super::gate::Gate;
use crate::engine::question::Got;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Of a document: what clients asked for of its source.
pub fn picked(source: Value, wanted: &Wanted) -> Option<Value> {
    match wanted {
        Wanted::None => None,
        Wanted::All => Some(source),
        Wanted::Some(with, without) => {
            let mut kept = source;
            keep("", &mut kept, with, without);
            Some(kept)
        }
    }
}

/// Which fields of sources a client wants.
#[derive(Clone, PartialEq, Debug)]
pub enum Wanted {
    /// No source.
    None,
    /// The source as it is.
    All,
    /// Fields like these and not like those.
    Some(Vec<String>, Vec<String>),
}

impl Wanted {
    /// Reads `_source`.
    pub fn read(value: Option<&Value>) -> Wanted {
        let list = |value: &Value| -> Vec<String> {
            match value {
                Value::String(one) => one.split(',').map(str::to_owned).collect(),
                Value::Array(all) => {
                    all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
                }
                _ => Vec::new(),
            }
        };
        match value {
            None | Some(Value::Null | Value::Bool(true)) => Wanted::All,
            Some(Value::Bool(false)) => Wanted::None,
            Some(Value::String(word)) if word == "true" || word.is_empty() => Wanted::All,
            Some(Value::String(word)) if word == "false" => Wanted::None,
            Some(Value::Object(map)) => {
                let of = |names: [&str; 2]| {
                    names.iter().find_map(|name| map.get(*name)).map_or(Vec::new(), list)
                };
                Wanted::Some(of(["includes", "include"]), of(["excludes", "exclude"]))
            }
            Some(value) => Wanted::Some(list(value), Vec::new()),
        }
    }

    /// Reads it from the URL, if it is there.
    pub fn of_query(query: &Query) -> Option<Wanted> {
        let list = |name: &str| {
            query.get(name).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>())
        };
        let with = list("_source_includes");
        let without = list("_source_excludes");
        match (query.get("_source"), with, without) {
            (None, None, None) => None,
            (Some(text), None, None) => Some(Wanted::read(Some(&json!(text)))),
            (_, with, without) => {
                Some(Wanted::Some(with.unwrap_or_default(), without.unwrap_or_default()))
            }
        }
    }
}

fn keep(path: &str, value: &mut Value, with: &[String], without: &[String]) {
    let Value::Object(map) = value else { return };
    map.retain(|name, value| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is = |pattern: &String| {
            super::gate::like(pattern, &path) || path.starts_with(&format!("{pattern}."))
        };
        if without.iter().any(is) {
            return false;
        }
        if with.is_empty() || with.iter().any(is) {
            keep(&path, value, &[], without);
            return true;
        }
        // An object may have a field within that is wanted.
        let within = with.iter().any(|pattern| pattern.starts_with(&format!("{path}.")));
        if within && value.is_object() {
            keep(&path, value, with, without);
            return value.as_object().is_some_and(|map| !map.is_empty());
        }
        false
    });
}

/// `GET /{index}/_doc/{id}` and `_source`.
pub async fn get(
    gate: &Gate,
    index: &str,
    id: &str,
    query: &Query,
    source_alone: bool,
) -> Result<(u16, Value), Error> {
    let known = gate.index(index).await.map_err(Error::of_expression)?;
    let found = got(gate, &known, vec![id.to_owned()]).await?;
    let found = found.into_iter().find(|got| !got.deleted);
    if source_alone {
        return match found {
            Some(got) => Ok((200, serde_json::from_str(&got.source).unwrap_or(Value::Null))),
            None => Err(Error::new(
                404,
                "resource_not_found_exception",
                format!("Document not found [{index}]/[{id}]"),
            )),
        };
    }
    let wanted = Wanted::of_query(query).unwrap_or(Wanted::All);
    Ok(match found {
        Some(got) => (200, document(&known.name, got, &wanted)),
        None => (404, json!({ "_index": index, "_id": id, "found": false })),
    })
}

fn document(index: &str, got: Got, wanted: &Wanted) -> Value {
    let mut value = json!({
        "_index": index,
        "_id": got.id,
        "_version": got.count,
        "_seq_no": got.seq_no,
        "_primary_term": 1,
        "found": true,
    });
    let source = serde_json::from_str(&got.source).unwrap_or(Value::Null);
    if let Some(source) = picked(source, wanted) {
        value["_source"] = source;
    }
    value
}

/// `_mget`.
pub async fn mget(gate: &Gate, index: Option<&str>, body: &Value) -> Result<Value, Error> {
    let mut wanted: Vec<(String, String, Wanted)> = Vec::new();
    for (key, value) in body.as_object().into_iter().flatten() {
        if !matches!((key.as_str(), value), ("ids" | "docs", Value::Array(_))) {
            let token = token(value);
            return Err(Error::parsing(format!(
                "unknown key [{key}] for a {token}, expected [docs] or [ids]"
            )));
        }
    }
    let none = |at: usize| Error::invalid(&format!("index is missing for doc {at}"));
    if let Some(ids) = body.get("ids").and_then(Value::as_array) {
        for id in ids {
            let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
            let index = index.ok_or_else(|| none(wanted.len()))?;
            wanted.push((index.to_owned(), id, Wanted::All));
        }
    }
    for doc in body.get("docs").and_then(Value::as_array).into_iter().flatten() {
        let name = doc.get("_index").and_then(Value::as_str).or(index);
        let name = name.ok_or_else(|| none(wanted.len()))?;
        let id = match doc.get("_id") {
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            _ => return Err(Error::invalid(&format!("id is missing for doc {}", wanted.len()))),
        };
        wanted.push((name.to_owned(), id, Wanted::read(doc.get("_source"))));
    }
    if wanted.is_empty() {
        return Err(Error::invalid("no documents to get"));
    }
    if wanted.len() > 10_000 {
        return Err(Error::argument("[_mget] of more than 10000 documents"));
    }
    let mut by_index: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, id, _) in &wanted {
        by_index.entry(name.clone()).or_default().push(id.clone());
    }
    let mut found: BTreeMap<(String, String), Got> = BTreeMap::new();
    let mut failed: BTreeMap<String, Error> = BTreeMap::new();
    for (name, ids) in by_index {
        let known = match gate.index(&name).await {
            Ok(known) => known,
            Err(error) => {
                failed.insert(name, error);
                continue;
            }
        };
        for got in got(gate, &known, ids).await? {
            found.insert((name.clone(), got.id.clone()), got);
        }
    }
    let docs = wanted.into_iter().map(|(name, id, wanted)| {
        if let Some(error) = failed.get(&name).cloned() {
            let error = error.of_expression().body();
            return json!({ "_index": name, "_id": id, "error": error["error"] });
        }
        match found.get(&(name.clone(), id.clone())).filter(|got| !got.deleted) {
            Some(got) => document(&name, got.clone(), &wanted),
            None => json!({ "_index": name, "_id": id, "found": false }),
        }
    });
    Ok(json!({ "docs": docs.collect::<Vec<_>>() }))
}
