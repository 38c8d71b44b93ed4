//! Documents: index, create, get, delete, update, in bulk.

use super::Query;
use super::error::{Error, meant, token};
use super::gate::{Gate, Index, refused};
use super::mapping::{Mapping, merge};
use crate::cluster::content::Bytes;
use crate::engine::entry::{Entry, ring_id};
use crate::engine::question::{Finding, Got, Question};
use cavy_search::cluster::catalogue::Change;
use cavy_search::ring::Slice;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An id is no longer, in bytes, as in Elasticsearch.
const ID_BYTES: usize = 512;
/// Writes of one bulk that are under way at a time.
const AT_A_TIME: usize = 256;

/// Keys of a line of a bulk that says what is done; those that are not served change nothing here.
const METADATA: [&str; 12] = [
    "_index",
    "_id",
    "_source",
    "if_seq_no",
    "if_primary_term",
    "version",
    "version_type",
    "routing",
    "retry_on_conflict",
    "require_alias",
    "pipeline",
    "dynamic_templates",
];
/// Keys of an update.
const UPDATE: [&str; 10] = [
    "doc",
    "upsert",
    "doc_as_upsert",
    "detect_noop",
    "script",
    "scripted_upsert",
    "_source",
    "if_seq_no",
    "if_primary_term",
    "lang",
];

/// What is done to a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Written, whatever there is.
    Index,
    /// Written, if there is none.
    Create,
    /// Changed.
    Update,
    /// Deleted.
    Delete,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Action::Index => "index",
            Action::Create => "create",
            Action::Update => "update",
            Action::Delete => "delete",
        }
    }
}

/// Something that is done to a document.
#[derive(Clone, Debug)]
pub struct Item {
    /// What.
    pub action: Action,
    /// Of which index.
    pub index: String,
    /// Which document; `None`: a new one.
    pub id: Option<String>,
    /// The body, as it came.
    pub body: Bytes,
    /// Only if the document has this `_seq_no` and primary term.
    pub only_if: Option<(u64, u64)>,
    /// Only if its version is smaller: `version_type=external`.
    pub external: Option<u64>,
    /// Of an update: the document is given back.
    pub source: bool,
}

/// A document as it is while a bulk goes over it.
#[derive(Clone, Debug, Default)]
struct Current {
    there: bool,
    count: u64,
    source: Bytes0,
}

/// Bytes that may be none.
#[derive(Clone, Debug, Default)]
struct Bytes0(Option<Bytes>);

impl Current {
    fn seq_no(&self) -> u64 {
        self.count.saturating_sub(1)
    }
}

/// Makes an index that is not there, as Elasticsearch does when a document is written to it.
async fn made(gate: &Gate, name: &str) -> Result<Index, Error> {
    match gate.index(name).await {
        Err(error) if error.kind == "index_not_found_exception" => {
            super::admin::create(gate, name, &json!({})).await.or_else(|error| {
                match error.kind {
                    "resource_already_exists_exception" => Ok(json!({})),
                    _ => Err(error),
                }
            })?;
            gate.index(name).await
        }
        other => other,
    }
}

/// What there is of some documents of an index.
pub async fn got(gate: &Gate, index: &Index, ids: Vec<String>) -> Result<Vec<Got>, Error> {
    let answer = match &ids[..] {
        [one] => {
            let ring = ring_id(index.number, one);
            let slice = Slice::new(ring.wrapping_sub(1), ring);
            gate.look(index, slice, &Question::Get(ids)).await?
        }
        _ => gate.ask(index, &Question::Get(ids), None).await?,
    };
    if !answer.lost.is_empty() {
        return Err(Error::new(
            503,
            "no_shard_available_action_exception",
            format!("no server in step holds [{}] of [{}]", answer.lost.len(), index.name),
        ));
    }
    let mut all = Vec::new();
    for finding in answer.findings {
        if let Finding::Got(got) = finding {
            all.extend(got);
        }
    }
    Ok(all)
}

fn conflict(id: &str, reason: String) -> Error {
    let reason = format!("[{id}]: version conflict, {reason}");
    Error::new(409, "version_conflict_engine_exception", reason)
}

/// Carries items out, in order for each document; one result an item.
pub async fn carry_out(gate: &Gate, items: Vec<Item>, at_once: bool) -> Vec<Result<Value, Error>> {
    let mut results: Vec<Option<Result<Value, Error>>> = vec![None; items.len()];
    let mut by_index: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        by_index.entry(item.index.clone()).or_default().push(at);
    }
    for (name, places) in by_index {
        let index = match made(gate, &name).await {
            Ok(index) => index,
            Err(error) => {
                places.iter().for_each(|at| results[*at] = Some(Err(error.clone())));
                continue;
            }
        };
        of_index(gate, index, &items, &places, at_once, &mut results).await;
    }
    let missing = || Err(Error::new(500, "exception", "an item without a result"));
    results.into_iter().map(|result| result.unwrap_or_else(missing)).collect()
}

async fn of_index(
    gate: &Gate,
    mut index: Index,
    items: &[Item],
    places: &[usize],
    at_once: bool,
    results: &mut [Option<Result<Value, Error>>],
) {
    let ids: Vec<String> =
        places.iter().map(|at| items[*at].id.clone().unwrap_or_else(|| gate.name())).collect();
    // One after the other, document by document.
    let stripe = |id: &String| (ring_id(index.number, id) % gate.locks.len() as u64) as usize;
    let stripes: BTreeSet<usize> = ids.iter().map(stripe).collect();
    let mut held = Vec::with_capacity(stripes.len());
    for stripe in stripes {
        held.push(gate.locks[stripe].lock().await);
    }
    let known: BTreeSet<String> = places
        .iter()
        .zip(&ids)
        .filter(|(at, _)| items[**at].id.is_some())
        .map(|(_, id)| id.clone())
        .collect();
    let mut current: BTreeMap<String, Current> = BTreeMap::new();
    if !known.is_empty() {
        match got(gate, &index, known.into_iter().collect()).await {
            Ok(all) => {
                for got in all {
                    let source = Bytes0(Some(got.source.into_bytes().into()));
                    current
                        .insert(got.id, Current { there: !got.deleted, count: got.count, source });
                }
            }
            Err(error) => {
                places.iter().for_each(|at| results[*at] = Some(Err(error.clone())));
                return;
            }
        }
    }
    // What each document comes to; the last state of a document is what is written.
    let mut mapping: Arc<Mapping> = index.mapping.clone();
    let mut grown = false;
    let mut last: BTreeMap<&String, (bool, Entry)> = BTreeMap::new();
    for (at, id) in places.iter().zip(&ids) {
        let item = &items[*at];
        let now = current.entry(id.clone()).or_default();
        match decided(item, id, now, &mapping) {
            Err(error) => results[*at] = Some(Err(error.of_document(&index))),
            Ok(Decided::Nothing(result)) => {
                results[*at] = Some(Ok(shown(item, &index.name, id, now, result)));
            }
            Ok(Decided::Write { deleted, result, values, source, more }) => {
                if let Some(more) = more {
                    mapping = Arc::new(more);
                    grown = true;
                }
                now.count = item.external.unwrap_or(now.count + 1);
                now.there = !deleted;
                now.source = Bytes0(Some(source.clone()));
                let entry = Entry {
                    id: id.clone(),
                    count: now.count,
                    seq_no: now.seq_no(),
                    at_once,
                    fields: values,
                    source,
                };
                last.insert(id, (deleted, entry));
                results[*at] = Some(Ok(shown(item, &index.name, id, now, result)));
            }
        }
    }
    if grown {
        let tree = mapping.tree().clone();
        let altered = gate
            .alter(&index.name, |index| {
                let next = index.mapping.with(&tree)?;
                if next.tree() == index.mapping.tree() {
                    return Ok(None);
                }
                let mut about = (*index.about).clone();
                about["mappings"] = next.tree().clone();
                Ok(Some(about))
            })
            .await;
        match altered {
            Ok(altered) if altered.number == index.number => index = altered,
            Ok(_) => {}
            Err(error) => {
                places.iter().for_each(|at| results[*at] = Some(Err(error.clone())));
                return;
            }
        }
    }
    let mut failed: BTreeMap<String, Error> = BTreeMap::new();
    let all: Vec<(&String, (bool, Entry))> = last.into_iter().collect();
    for some in all.chunks(AT_A_TIME) {
        let writes = some.iter().map(|(id, (deleted, entry))| {
            let ring = ring_id(index.number, id);
            gate.write(&index, ring, *deleted, entry.encode())
        });
        let done = join(writes.collect()).await;
        for ((id, _), done) in some.iter().zip(done) {
            if let Err(error) = done {
                failed.insert((*id).clone(), error);
            }
        }
    }
    for (at, id) in places.iter().zip(&ids) {
        if let (Some(error), Some(Ok(_))) = (failed.get(id), &results[*at]) {
            results[*at] = Some(Err(error.clone()));
        }
    }
}

/// Waits for all of them.
async fn join<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut pinned: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(move |cx| {
        let mut open = false;
        for (future, done) in pinned.iter_mut().zip(&mut done) {
            if done.is_none() {
                match future.as_mut().poll(cx) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => open = true,
                }
            }
        }
        match open {
            true => std::task::Poll::Pending,
            false => std::task::Poll::Ready(done.iter_mut().filter_map(Option::take).collect()),
        }
    })
    .await
}

impl Error {
    /// What is wrong with a document in its index says so.
    fn of_document(self, index: &Index) -> Error {
        match self.kind {
            "version_conflict_engine_exception" | "document_missing_exception" => self
                .with("index", index.name.clone())
                .with("shard", "0")
                .with("index_uuid", index.uuid().clone()),
            _ => self,
        }
    }
}

enum Decided {
    /// There is nothing to write.
    Nothing(&'static str),
    Write {
        deleted: bool,
        result: &'static str,
        values: Vec<(String, crate::engine::entry::Typed)>,
        source: Bytes,
        more: Option<Mapping>,
    },
}

fn decided(item: &Item, id: &str, now: &Current, mapping: &Mapping) -> Result<Decided, Error> {
    if id.len() > ID_BYTES {
        return Err(Error::invalid(&format!(
            "id [{id}] is too long, must be no longer than 512 bytes but was: {}",
            id.len()
        )));
    }
    if id.is_empty() {
        return Err(Error::argument("if _id is specified it must not be empty"));
    }
    if let Some((seq_no, term)) = item.only_if {
        let has = if now.there { now.seq_no() } else { u64::MAX };
        if !now.there {
            return Err(conflict(
                id,
                format!(
                    "required seqNo [{seq_no}], primary term [{term}]. but no document was found"
                ),
            ));
        }
        if has != seq_no || term != 1 {
            return Err(conflict(
                id,
                format!(
                    "required seqNo [{seq_no}], primary term [{term}]. current document has seqNo \
                     [{has}] and primary term [1]"
                ),
            ));
        }
    }
    if let Some(version) = item.external.filter(|version| now.count > 0 && *version <= now.count) {
        return Err(conflict(
            id,
            format!(
                "current version [{}] is higher or equal to the one provided [{version}]",
                now.count
            ),
        ));
    }
    let write = |source: Bytes, json: &Value, result| {
        let (values, more) = mapping.values(id, json)?;
        Ok(Decided::Write { deleted: false, result, values, source, more })
    };
    let wrote = if now.there { "updated" } else { "created" };
    match item.action {
        Action::Create if now.there => {
            Err(conflict(id, format!("document already exists (current version [{}])", now.count)))
        }
        Action::Index | Action::Create => {
            let json: Value = serde_json::from_slice(&item.body).map_err(|error| {
                Error::new(400, "mapper_parsing_exception", "failed to parse")
                    .because(Error::json(&error))
            })?;
            write(item.body.clone(), &json, wrote)
        }
        Action::Delete if !now.there => Ok(Decided::Nothing("not_found")),
        Action::Delete => Ok(Decided::Write {
            deleted: true,
            result: "deleted",
            values: Vec::new(),
            source: [].as_slice().into(),
            more: None,
        }),
        Action::Update => {
            let body: Value =
                serde_json::from_slice(&item.body).map_err(|error| Error::json(&error))?;
            let known = |key: &&String| !UPDATE.contains(&key.as_str());
            if let Some(key) = body.as_object().and_then(|body| body.keys().find(known)) {
                let hint = meant(key, &UPDATE);
                let reason = format!("[UpdateRequest] unknown field [{key}]{hint}");
                return Err(Error::new(400, "x_content_parse_exception", reason));
            }
            if body.get("script").is_some() {
                return Err(Error::argument("scripts are not served: send a [doc]"));
            }
            let Some(doc) = body
                .get("doc")
                .filter(|doc| doc.is_object())
                .or_else(|| body.get("upsert").filter(|doc| doc.is_object() && !now.there))
            else {
                return Err(Error::invalid("script or doc is missing"));
            };
            if !now.there {
                let as_upsert = body.get("doc_as_upsert") == Some(&json!(true));
                let new = body.get("upsert").or(if as_upsert { Some(doc) } else { None });
                let Some(new) = new else {
                    return Err(Error::new(
                        404,
                        "document_missing_exception",
                        format!("[{id}]: document missing"),
                    ));
                };
                let source: Bytes = serde_json::to_vec(new).unwrap_or_default().into();
                return write(source, new, "created");
            }
            let bytes = now.source.0.clone().unwrap_or_else(|| [].as_slice().into());
            let before: Value = serde_json::from_slice(&bytes).unwrap_or(json!({}));
            let mut after = before.clone();
            merge(&mut after, doc);
            if after == before && body.get("detect_noop") != Some(&json!(false)) {
                return Ok(Decided::Nothing("noop"));
            }
            let source: Bytes = serde_json::to_vec(&after).unwrap_or_default().into();
            write(source, &after, "updated")
        }
    }
}

fn shown(item: &Item, index: &str, id: &str, now: &Current, result: &str) -> Value {
    let told = u32::from(result != "noop");
    let mut value = json!({
        "_index": index,
        "_id": id,
        "_version": now.count.max(1),
        "result": result,
        "_shards": { "total": told, "successful": told, "failed": 0 },
        "_seq_no": now.seq_no(),
        "_primary_term": 1,
    });
    if (item.source || asks_for_source(item))
        && let Some(source) = &now.source.0
    {
        let source: Value = serde_json::from_slice(source).unwrap_or(Value::Null);
        value["get"] = json!({
            "_seq_no": now.seq_no(), "_primary_term": 1, "found": true, "_source": source,
        });
    }
    value
}

/// Whether an update asks in its body for the document that it makes.
fn asks_for_source(item: &Item) -> bool {
    let asked = || serde_json::from_slice::<Value>(&item.body).ok()?.get("_source").cloned();
    item.action == Action::Update && asked().is_some_and(|asked| asked != json!(false))
}

/// The status of a result.
pub fn status(result: &Value) -> u16 {
    match result["result"].as_str() {
        Some("created") => 201,
        Some("not_found") => 404,
        _ => 200,
    }
}

/// `refresh=true`, `refresh=wait_for` or `refresh`: every later answer has what is written.
pub fn at_once(query: &Query) -> bool {
    query.get("refresh").is_some_and(|value| value != "false")
}

/// `refresh=true` or `refresh`, which an answer repeats.
fn forced(query: &Query) -> bool {
    query.get("refresh").is_some_and(|value| value == "true" || value.is_empty())
}

/// `PUT /{index}/_doc/{id}` and its kin.
pub async fn one(
    gate: &Gate,
    index: &str,
    id: Option<&str>,
    mut action: Action,
    query: &Query,
    body: Bytes,
) -> Result<(u16, Value), Error> {
    if query.get("op_type").is_some_and(|of| of == "create") && action == Action::Index {
        action = Action::Create;
    }
    let number = |name: &str| match query.get(name) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| {
            Error::argument(format!("Failed to parse long parameter [{name}] with value [{text}]"))
                .because(Error::no_number(text))
        }),
    };
    let only_if = match (number("if_seq_no")?, number("if_primary_term")?) {
        (Some(seq_no), Some(term)) => Some((seq_no, term)),
        (None, None) => None,
        (Some(_), None) => {
            return Err(Error::invalid("ifSeqNo is set, but primary term is [0]"));
        }
        (None, Some(term)) => {
            let what = format!("ifSeqNo is unassigned, but primary term is [{term}]");
            return Err(Error::invalid(&what));
        }
    };
    let external = match query.get("version_type").map(String::as_str) {
        Some("external" | "external_gte") => number("version")?,
        _ => None,
    };
    if action == Action::Delete {
        // It makes no index.
        gate.index(index).await.map_err(Error::of_expression)?;
    }
    if body.is_empty() && action != Action::Delete {
        return Err(Error::new(400, "parse_exception", "request body is required"));
    }
    let item = Item {
        action,
        index: index.to_owned(),
        id: id.map(str::to_owned),
        body,
        only_if,
        external,
        source: query.contains_key("_source"),
    };
    let mut results = carry_out(gate, vec![item], at_once(query)).await;
    let mut result = results.pop().unwrap_or_else(|| Err(Error::argument("nothing")))?;
    if forced(query) {
        result["forced_refresh"] = json!(true);
    }
    Ok((status(&result), result))
}

/// What the lines of a `_bulk` ask for, of this index where they do not say.
///
/// # Errors
/// When a line that says what is done is none; then nothing of the bulk is done.
pub fn items(index: Option<&str>, body: &[u8]) -> Result<Vec<Item>, Error> {
    if body.is_empty() {
        return Err(Error::new(400, "parse_exception", "request body is required"));
    }
    if body.last() != Some(&b'\n') {
        return Err(Error::argument("The bulk request must be terminated by a newline [\\n]"));
    }
    let mut lines = body.split(|byte| *byte == b'\n').enumerate();
    let mut items: Vec<Item> = Vec::new();
    while let Some((number, line)) = lines.next() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let number = number + 1;
        let malformed = |expected: &str, found: &str| {
            Error::argument(format!(
                "Malformed action/metadata line [{number}], expected {expected} but found [{found}]"
            ))
        };
        let action: Value = serde_json::from_slice(line).map_err(|error| Error::json(&error))?;
        let Some(action) = action.as_object() else {
            return Err(malformed("START_OBJECT", token(&action)));
        };
        let Some((name, about)) = action.iter().next() else {
            return Err(malformed("FIELD_NAME", "END_OBJECT"));
        };
        let action = match name.as_str() {
            "index" => Action::Index,
            "create" => Action::Create,
            "update" => Action::Update,
            "delete" => Action::Delete,
            other => {
                return Err(malformed("one of [create, delete, index, update]", other));
            }
        };
        let Some(metadata) = about.as_object() else {
            return Err(malformed("START_OBJECT or END_OBJECT", token(about)));
        };
        if let Some(key) = metadata.keys().find(|key| !METADATA.contains(&key.as_str())) {
            return Err(Error::argument(format!(
                "Action/metadata line [{number}] contains an unknown parameter [{key}]"
            )));
        }
        let index = about.get("_index").and_then(Value::as_str).or(index);
        let Some(index) = index else {
            return Err(Error::invalid("index is missing"));
        };
        let id = match about.get("_id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(other) => Some(other.to_string()),
        };
        if id.is_none() && matches!(action, Action::Update | Action::Delete) {
            return Err(Error::invalid("id is missing"));
        }
        let body = match action {
            Action::Delete => [].as_slice().into(),
            _ => match lines.next() {
                Some((_, line)) if !line.is_empty() => line.into(),
                _ => {
                    return Err(Error::argument(
                        "The bulk request must be terminated by a newline [\\n]",
                    ));
                }
            },
        };
        let number = |name: &str| about.get(name).and_then(Value::as_u64);
        let only_if = number("if_seq_no").zip(number("if_primary_term"));
        let external = match about.get("version_type").and_then(Value::as_str) {
            Some("external" | "external_gte") => number("version"),
            _ => None,
        };
        items.push(Item {
            action,
            index: index.to_owned(),
            id,
            body,
            only_if,
            external,
            source: about.get("_source").is_some(),
        });
    }
    if items.is_empty() {
        return Err(Error::invalid("no requests added"));
    }
    Ok(items)
}

/// `_bulk`.
pub async fn bulk(
    gate: &Gate,
    index: Option<&str>,
    query: &Query,
    body: &[u8],
) -> Result<Value, Error> {
    let began = std::time::Instant::now();
    let items = items(index, body)?;
    let shown: Vec<(Action, String, Option<String>)> =
        items.iter().map(|item| (item.action, item.index.clone(), item.id.clone())).collect();
    let results = carry_out(gate, items, at_once(query)).await;
    let errors = results.iter().any(Result::is_err);
    let forced = forced(query);
    let written = results.into_iter().zip(shown).map(|(result, (action, index, id))| {
        let value = match result {
            Ok(mut value) => {
                if forced {
                    value["forced_refresh"] = json!(true);
                }
                value["status"] = json!(status(&value));
                value
            }
            Err(error) => {
                let status = error.status;
                json!({ "_index": index, "_id": id, "status": status, "error": error.item() })
            }
        };
        json!({ action.name(): value })
    });
    let items: Vec<Value> = written.collect();
    let took = began.elapsed().as_millis() as u64;
    Ok(json!({ "took": took, "errors": errors, "items": items }))
}

/// Deletes an index, for `DELETE /{index}`.
pub async fn forget(gate: &Gate, name: &str) -> Result<(), Error> {
    match gate.change(Change::Delete { name: name.to_owned() }).await? {
        Ok(()) => Ok(()),
        Err(refusal) => Err(refused(refusal, name, gate)),
    }
}
