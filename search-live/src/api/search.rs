//! Searches: `_search`, `_count`, `_msearch`.

use super::error::{Error, token};
use super::fetch::{Wanted, picked};
use super::gate::{Gate, Index};
use super::mapping::Type;
use super::{Query as Url, counting, dsl};
use crate::engine::question::{
    Finding, Found, Hit, Query, Question, Search, SortBy, SortKey, SortValue, Statistics,
};
use cavy_core::Span;
use cavy_search::cluster::Told;
use cavy_search::ring::Slice;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// `from` + `size` at most, as in Elasticsearch.
const WINDOW: usize = 10_000;

/// What of hits is given back.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Hits that are left out first.
    pub from: usize,
    /// Of sources.
    pub wanted: Wanted,
    /// `_version`.
    pub version: bool,
    /// `_seq_no` and `_primary_term`.
    pub seq_no: bool,
    /// `_score`.
    pub scored: bool,
    /// `sort`.
    pub sorted: bool,
    /// How many there are.
    pub total: bool,
    /// After so long there is an answer, with what has been met by then.
    pub timeout: Option<Duration>,
}

/// What came of a search of one index.
pub struct Outcome {
    /// Hits, how many there are, and what was counted.
    pub found: Found,
    parts: u32,
    lost: usize,
    covered: f64,
    timed_out: bool,
    /// Where plans began and what they were, for whoever asked.
    plan: Value,
}

/// `from` or `size`, of the URL or else of the body.
fn window(
    name: &str,
    url: Option<&String>,
    body: Option<&Value>,
    default: usize,
) -> Result<usize, Error> {
    let number: Result<i64, Error> = match (url, body) {
        (Some(text), _) => text.parse().map_err(|_| {
            let reason = format!("Failed to parse int parameter [{name}] with value [{text}]");
            Error::argument(reason).because(Error::no_number(text))
        }),
        (None, None | Some(Value::Null)) => return Ok(default),
        (None, Some(Value::String(text))) => text.parse().map_err(|_| Error::no_number(text)),
        (None, Some(value)) => value.as_i64().ok_or_else(|| Error::key(name, value)),
    };
    match number? {
        number if number >= 0 => Ok(number as usize),
        number => {
            Err(Error::argument(format!("[{name}] parameter cannot be negative, found [{number}]")))
        }
    }
}

/// `timeout`, of the URL or else of the body; -1 is none.
fn timeout(url: Option<&String>, body: Option<&Value>) -> Result<Option<Duration>, Error> {
    let text = match (url, body) {
        (Some(text), _) => text.clone(),
        (None, None | Some(Value::Null)) => return Ok(None),
        (None, Some(Value::String(text))) => text.clone(),
        (None, Some(number)) if number.is_number() => number.to_string(),
        (None, Some(other)) => return Err(Error::key("timeout", other)),
    };
    match text.as_str() {
        "-1" => Ok(None),
        "0" => Ok(Some(Duration::ZERO)),
        text => super::scroll::span("timeout", text).map(Some),
    }
}

fn sort_keys(json: Option<&Value>, index: &Index) -> Result<Vec<SortKey>, Error> {
    let score = SortKey { by: SortBy::Score, descending: true, missing_first: false };
    let list: Vec<Value> = match json {
        None | Some(Value::Null) => return Ok(vec![score]),
        Some(Value::Array(all)) => all.clone(),
        Some(one) => vec![one.clone()],
    };
    let mut keys = Vec::new();
    for one in &list {
        let (field, about) = match one {
            Value::String(text) => match text.split_once(':') {
                Some((field, way)) => (field.to_owned(), json!({ "order": way })),
                None => (text.clone(), Value::Null),
            },
            Value::Object(map) => match map.iter().next() {
                Some((field, Value::String(way))) => (field.clone(), json!({ "order": way })),
                Some((field, about)) => (field.clone(), about.clone()),
                None => continue,
            },
            other => return Err(Error::parsing(format!("[sort] cannot have {other}"))),
        };
        let descending = match about.get("order").and_then(Value::as_str) {
            None => field == "_score",
            Some("asc") => false,
            Some("desc") => true,
            Some(other) => {
                let wrong = Error::constant("search.sort.SortOrder", other);
                // As an object the order is a field of it.
                let inner = one.get(&field).is_some_and(Value::is_object);
                return Err(if inner { Error::field("field_sort", "order", wrong) } else { wrong });
            }
        };
        let missing_first = about.get("missing").and_then(Value::as_str) == Some("_first");
        let by = match field.as_str() {
            "_score" => SortBy::Score,
            "_doc" | "_shard_doc" => SortBy::Doc,
            "_id" => SortBy::Id,
            path => match index.mapping.get(path).map(|field| field.of) {
                Some(Type::Keyword) => SortBy::Keyword(field.clone()),
                Some(Type::Float) => SortBy::Double(field.clone()),
                Some(Type::Whole(..) | Type::Boolean | Type::Date) => SortBy::Long(field.clone()),
                Some(Type::Text) => {
                    return Err(Error::argument(format!(
                        "Text fields are not optimised for operations that require per-document \
                         field data like aggregations and sorting, so these operations are \
                         disabled by default. Please use a keyword field instead. Alternatively, \
                         set fielddata=true on [{field}] in order to load field data by \
                         uninverting the inverted index. Note that this can use significant memory."
                    ))
                    .at_shard());
                }
                None if about.get("unmapped_type").is_some() => SortBy::Long(field.clone()),
                None => {
                    return Err(Error::new(
                        400,
                        "query_shard_exception",
                        format!("No mapping found for [{field}] in order to sort on"),
                    )
                    .at_shard());
                }
            },
        };
        keys.push(SortKey { by, descending, missing_first });
    }
    Ok(if keys.is_empty() { vec![score] } else { keys })
}

/// A value of `search_after`; `None` if the key has no such values.
fn after(value: &Value, key: &SortKey) -> Option<SortValue> {
    if *value == missing(key) {
        return Some(SortValue::Missing);
    }
    Some(match (&key.by, value) {
        (_, Value::Null) => SortValue::Missing,
        (SortBy::Id | SortBy::Keyword(_), Value::String(word)) => SortValue::Keyword(word.clone()),
        (SortBy::Doc, value) => SortValue::Ring(value.as_u64()?),
        (SortBy::Long(_), Value::String(text)) => SortValue::Long(crate::date::read(text)?),
        (SortBy::Long(_), value) => SortValue::Long(value.as_i64()?),
        (_, Value::String(text)) => SortValue::Double(text.parse().ok()?),
        (_, value) => SortValue::Double(value.as_f64()?),
    })
}

fn no_place(value: &Value, key: &SortKey) -> Error {
    let field = match &key.by {
        SortBy::Keyword(field) | SortBy::Long(field) | SortBy::Double(field) => field,
        SortBy::Score => "_score",
        SortBy::Doc => "_doc",
        SortBy::Id => "_id",
    };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Error::argument(format!("Failed to parse search_after value for field [{field}]."))
        .because(Error::no_number(&text))
        .at_shard()
}

/// What stands for a value that a document does not have: what comes first or last.
fn missing(key: &SortKey) -> Value {
    let least = key.missing_first != key.descending;
    match (&key.by, least) {
        (SortBy::Long(_), true) => json!(i64::MIN),
        (SortBy::Long(_), false) => json!(i64::MAX),
        (SortBy::Double(_), true) => json!("-Infinity"),
        (SortBy::Double(_), false) => json!("Infinity"),
        _ => Value::Null,
    }
}

/// Refuses keys that a search does not have or that are not served, and values that none has.
fn check_keys(map: &Map<String, Value>) -> Result<(), Error> {
    for (key, value) in map {
        let fits = match key.as_str() {
            _ if value.is_null() => true,
            "query" | "post_filter" | "aggs" | "aggregations" => value.is_object(),
            "search_after" => value.is_array(),
            "sort" => value.is_array() || value.is_object() || value.is_string(),
            "from" | "size" | "min_score" | "terminate_after" => {
                value.is_number() || value.is_string()
            }
            "_source"
            | "track_total_hits"
            | "track_scores"
            | "version"
            | "timeout"
            | "seq_no_primary_term"
            | "stored_fields"
            | "profile"
            | "explain" => true,
            "highlight" | "suggest" | "rescore" | "collapse" | "script_fields" | "slice"
            | "pit" | "fields" | "docvalue_fields" | "runtime_mappings" | "knn"
            | "indices_boost" | "stats" | "ext" => {
                return Err(Error::argument(format!("[{key}] of a search is not served")));
            }
            _ => false,
        };
        if !fits {
            return Err(Error::key(key, value));
        }
    }
    Ok(())
}

/// What a body and a URL ask for of an index.
pub fn read(index: &Index, url: &Url, body: &Value) -> Result<(Search, Shape), Error> {
    let map = match body {
        Value::Null => &Map::new(),
        Value::Object(map) => map,
        other => {
            let found = token(other);
            return Err(Error::parsing(format!("Expected [START_OBJECT] but found [{found}]")));
        }
    };
    check_keys(map)?;
    let query = match (map.get("query"), url.get("q")) {
        (_, Some(text)) => {
            let operator = url.get("default_operator").cloned().unwrap_or("or".into());
            let fields: Vec<&String> = url.get("df").into_iter().collect();
            let asked = json!({
                "query_string": {"query": text, "default_operator": operator, "fields": fields}
            });
            dsl::query(&asked, &index.mapping)?
        }
        (Some(query), None) if !query.is_null() => dsl::query(query, &index.mapping)?,
        _ => Query::All,
    };
    let from = window("from", url.get("from"), map.get("from"), 0)?;
    let size = window("size", url.get("size"), map.get("size"), 10)?;
    if from + size > WINDOW {
        return Err(Error::argument(format!(
            "Result window is too large, from + size must be less than or equal to: [{WINDOW}] but \
             was [{}]. See the scroll api for a more efficient way to request large data sets. \
             This limit can be set by changing the [index.max_result_window] index level setting.",
            from + size
        ))
        .at_shard());
    }
    let url_sort =
        url.get("sort").map(|text| Value::Array(text.split(',').map(|one| json!(one)).collect()));
    let sort = sort_keys(url_sort.as_ref().or(map.get("sort")), index)?;
    let sorted = url_sort.is_some() || map.contains_key("sort");
    let after = match map.get("search_after") {
        None | Some(Value::Null) => None,
        Some(Value::Array(_)) if !sorted => {
            return Err(Error::argument("Sort must contain at least one field.").at_shard());
        }
        Some(Value::Array(values)) if values.len() != sort.len() => {
            return Err(Error::argument(format!(
                "search_after has {} value(s) but sort has {}.",
                values.len(),
                sort.len()
            ))
            .at_shard());
        }
        Some(Value::Array(values)) => {
            let one = |(value, key)| after(value, key).ok_or_else(|| no_place(value, key));
            let values = values.iter().zip(&sort).map(one).collect::<Result<Vec<_>, Error>>()?;
            Some((values, None))
        }
        Some(other) => return Err(Error::key("search_after", other)),
    };
    let aggregations = match map.get("aggs").or_else(|| map.get("aggregations")) {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(json) => counting::aggregations(json, &index.mapping, 0)?,
    };
    let wanted = Wanted::of_query(url).unwrap_or_else(|| Wanted::read(map.get("_source")));
    let post_filter = match map.get("post_filter") {
        None | Some(Value::Null) => None,
        Some(json) => Some(dsl::query(json, &index.mapping)?),
    };
    let scored = sort.iter().any(|key| matches!(key.by, SortBy::Score));
    let total = match url.get("track_total_hits").map(|text| json!(text == "true")) {
        Some(value) => value != json!(false),
        None => map.get("track_total_hits") != Some(&json!(false)),
    };
    let shape = Shape {
        from,
        timeout: timeout(url.get("timeout"), map.get("timeout"))?,
        version: map.get("version") == Some(&json!(true)),
        seq_no: map.get("seq_no_primary_term") == Some(&json!(true)),
        wanted,
        scored,
        sorted,
        total,
    };
    let search = Search {
        query,
        post_filter,
        statistics: Statistics::default(),
        hits: from + size,
        sort,
        after,
        least_score: map
            .get("min_score")
            .and_then(Value::as_f64)
            .map(|score| (score as f32).clamp(f32::MIN, f32::MAX)),
        source: shape.wanted != Wanted::None,
        aggregations,
    };
    Ok((search, shape))
}

/// Gathers what scores need to know, from slices that tile the ring.
pub async fn with_statistics(
    gate: &Gate,
    index: &Index,
    search: &mut Search,
    until: Option<Instant>,
) -> Result<(), Error> {
    let scored = search.least_score.is_some()
        || search.sort.iter().any(|key| matches!(key.by, SortBy::Score));
    let mut words: BTreeMap<String, Vec<String>> = BTreeMap::new();
    search.query.words(&mut |field, word| {
        let known = words.entry(field.to_owned()).or_default();
        if !known.iter().any(|known| known == word) {
            known.push(word.to_owned());
        }
    });
    if !scored || words.is_empty() {
        return Ok(());
    }
    let question = Question::Statistics(words.into_iter().collect());
    for finding in gate.ask(index, &question, until).await?.findings {
        if let Finding::Statistics(more) = finding {
            search.statistics.add(&more);
        }
    }
    Ok(())
}

/// Who was asked for which slice, when an answer was expected, and when it came.
fn asked(told: &Told) -> Value {
    let ms = |span: Span| json!(span.as_us().round() / 1e3);
    json!({
        "server": told.server,
        "slice": written_slice(&told.slice),
        "predicted_ms": ms(told.predicted),
        "measured_ms": told.measured.map_or(Value::Null, ms),
    })
}

/// Its first id is the one after the number before the dash.
fn written_slice(slice: &Slice) -> String {
    format!("{:016x}-{:016x}", slice.lo, slice.hi)
}

/// Searches an index. Where statistics have taken all the time there is, nothing is met.
pub async fn run(
    gate: &Gate,
    index: &Index,
    search: &mut Search,
    until: Option<Instant>,
) -> Result<Outcome, Error> {
    with_statistics(gate, index, search, until).await?;
    let question = Question::Search(Box::new(search.clone()));
    let answer = gate.ask(index, &question, until).await?;
    let timed_out = answer.timed_out;
    let (covered, parts, lost) = (answer.covered(), answer.parts, answer.lost.len());
    let plan = json!({
        "p": index.p(),
        "parts": parts,
        "covered": covered,
        "asked": answer.told.iter().map(asked).collect::<Vec<_>>(),
        "lost": answer.lost.iter().map(written_slice).collect::<Vec<_>>(),
    });
    let mut found = Found::default();
    for finding in answer.findings {
        if let Finding::Found(more) = finding {
            found.add(more, search).map_err(Error::of_finding)?;
        }
    }
    Ok(Outcome { found, parts, lost, covered, timed_out, plan })
}

/// A score with as many digits as 32 bits need.
pub fn number(score: f32) -> Value {
    json!(score.to_string().parse::<f64>().unwrap_or(0.0))
}

fn sort_value((value, key): (&SortValue, &SortKey)) -> Value {
    match value {
        SortValue::Missing => missing(key),
        // A score is of 32 bits here as well.
        SortValue::Double(score) if matches!(key.by, SortBy::Score) => number(*score as f32),
        SortValue::Long(value) => json!(value),
        SortValue::Double(value) => json!(value),
        SortValue::Keyword(word) => json!(word),
        SortValue::Ring(ring) => json!(ring),
    }
}

/// A hit as clients see it.
pub fn hit(index: &str, hit: &Hit, shape: &Shape, keys: &[SortKey]) -> Value {
    let mut map = Map::new();
    map.insert("_index".into(), json!(index));
    map.insert("_id".into(), json!(hit.id));
    let score = if shape.scored { number(f32::from_bits(hit.score)) } else { Value::Null };
    map.insert("_score".into(), score);
    if shape.version {
        map.insert("_version".into(), json!(hit.count));
    }
    if shape.seq_no {
        map.insert("_seq_no".into(), json!(hit.seq_no));
        map.insert("_primary_term".into(), json!(1));
    }
    if shape.wanted != Wanted::None {
        let source = serde_json::from_str(&hit.source).unwrap_or(Value::Null);
        if let Some(source) = picked(source, &shape.wanted) {
            map.insert("_source".into(), source);
        }
    }
    if shape.sorted {
        map.insert("sort".into(), hit.sort.iter().zip(keys).map(sort_value).collect());
    }
    Value::Object(map)
}

/// Parts that were sent, and slices that nobody answered for: one where nothing was sent at all.
pub fn shards(parts: usize, lost: usize) -> Value {
    json!({
        "total": parts.max(lost), "successful": parts.saturating_sub(lost), "skipped": 0,
        "failed": lost,
    })
}

/// `_search`.
pub async fn search(
    gate: &Gate,
    expression: &str,
    url: &Url,
    body: &Value,
) -> Result<Value, Error> {
    let began = Instant::now();
    if let Some(keep) = url.get("scroll") {
        return super::scroll::open(gate, expression, url, body, keep).await;
    }
    let lenient = url.get("ignore_unavailable").is_some_and(|value| value == "true");
    let indices = gate.indices(expression, lenient).await?;
    let mut all: Vec<(String, Hit)> = Vec::new();
    let (mut total, mut parts, mut lost, mut best) = (0, 0, 0, None::<f32>);
    let mut counted = BTreeMap::new();
    let mut covered: f64 = 1.0;
    let mut timed_out = false;
    let mut plans = Map::new();
    let mut shape = None;
    let mut wanted = BTreeMap::new();
    let mut keys = Vec::new();
    let mut hits = 0;
    for index in &indices {
        let read = read(index, url, body);
        let (mut search, own) = read.map_err(|error| error.of_index(&index.name, index.uuid()))?;
        let until = own.timeout.and_then(|timeout| began.checked_add(timeout));
        let outcome = run(gate, index, &mut search, until).await?;
        timed_out |= outcome.timed_out;
        total += outcome.found.total;
        parts += outcome.parts as usize;
        lost += outcome.lost;
        covered = covered.min(outcome.covered);
        plans.insert(index.name.clone(), outcome.plan);
        let score = outcome.found.best.map(f32::from_bits);
        best = match (best, score) {
            (Some(a), Some(b)) => Some(f32::max(a, b)),
            (a, b) => a.or(b),
        };
        all.extend(outcome.found.hits.into_iter().map(|hit| (index.name.clone(), hit)));
        for (name, partial) in outcome.found.aggregations {
            match counted.get_mut(&name) {
                None => drop(counted.insert(name, partial)),
                Some(sum) => {
                    crate::engine::aggregate::Partial::add(sum, partial).map_err(|reason| {
                        Error::new(400, "search_phase_execution_exception", reason)
                    })?
                }
            }
        }
        hits = search.hits;
        wanted = search.aggregations;
        keys = search.sort;
        shape = Some(own);
    }
    if lost > 0 && url.get("allow_partial_search_results").is_some_and(|v| v == "false") {
        return Err(Error::new(
            503,
            "search_phase_execution_exception",
            format!("Partial shards failure: only {covered:.6} of the documents can be met"),
        ));
    }
    all.sort_by(|(a, one), (b, other)| {
        let order = crate::engine::question::compare(&keys, &one.sort, &other.sort);
        order.then_with(|| a.cmp(b)).then_with(|| one.ring.cmp(&other.ring))
    });
    all.truncate(hits);
    let mut answer = json!({
        "took": began.elapsed().as_millis() as u64,
        "timed_out": timed_out,
        "_shards": shards(parts, lost),
    });
    if lost > 0 {
        let (kind, reason) = match timed_out {
            true => ("search_timeout_exception", "was answered for in time"),
            false => ("no_shard_available_action_exception", "has a server in step"),
        };
        let reason = format!("none of {lost} slices of the ring {reason}");
        answer["_shards"]["failures"] =
            json!([{ "shard": 0, "reason": { "type": kind, "reason": reason } }]);
        answer["roar"] = json!({ "covered": covered });
    }
    let mut inside = Map::new();
    if shape.as_ref().is_none_or(|shape| shape.total) {
        inside.insert("total".into(), json!({ "value": total, "relation": "eq" }));
    }
    // In another order than that of scores none is the best.
    let scored = |shape: &Shape| shape.scored && hits > 0 && keys.len() == 1;
    let best = best.filter(|_| shape.as_ref().is_some_and(scored));
    // Of no index there is a best score all the same.
    let best = best.or(indices.is_empty().then_some(0.0));
    inside.insert("max_score".into(), best.map_or(Value::Null, number));
    let written: Vec<Value> = match &shape {
        None => Vec::new(),
        Some(shape) => {
            all.iter().skip(shape.from).map(|(index, one)| hit(index, one, shape, &keys)).collect()
        }
    };
    inside.insert("hits".into(), json!(written));
    answer["hits"] = Value::Object(inside);
    if !wanted.is_empty() {
        answer["aggregations"] = counting::written(&wanted, &counted).map_err(Error::of_finding)?;
    }
    if url.get("explain_plan").is_some_and(|value| value == "true") {
        answer["roar"] = Value::Object(plans);
    }
    Ok(answer)
}

/// `_count`.
pub async fn count(gate: &Gate, expression: &str, url: &Url, body: &Value) -> Result<Value, Error> {
    let mut body = body.as_object().cloned().unwrap_or_default();
    if let Some(key) = body.keys().find(|key| *key != "query") {
        return Err(Error::parsing(format!("request does not support [{key}]")));
    }
    body.insert("size".into(), json!(0));
    let answer = search(gate, expression, url, &Value::Object(body)).await?;
    Ok(json!({ "count": answer["hits"]["total"]["value"], "_shards": answer["_shards"] }))
}

/// Whether a search of several may not say this about itself.
fn unknown_header(key: &&String) -> bool {
    !matches!(
        key.as_str(),
        "index"
            | "indices"
            | "search_type"
            | "preference"
            | "routing"
            | "request_cache"
            | "allow_partial_search_results"
            | "ignore_unavailable"
            | "ignore_throttled"
            | "allow_no_indices"
            | "expand_wildcards"
            | "ccs_minimize_roundtrips"
            | "cancel_after_time_interval"
    )
}

/// `_msearch`.
pub async fn msearch(gate: &Gate, index: Option<&str>, body: &[u8]) -> Result<Value, Error> {
    let began = Instant::now();
    if body.is_empty() {
        let reason = "request body or source parameter is required";
        return Err(Error::new(400, "parse_exception", reason));
    }
    let unended = || Error::argument("The msearch request must be terminated by a newline [\n]");
    if body.last() != Some(&b'\n') {
        return Err(unended());
    }
    let mut lines =
        body.split(|byte| *byte == b'\n').filter(|line| !line.iter().all(u8::is_ascii_whitespace));
    let mut answers = Vec::new();
    while let Some(head) = lines.next() {
        let head: Value = serde_json::from_slice(head).map_err(|error| Error::json(&error))?;
        let Some(line) = lines.next() else { return Err(unended()) };
        if let Some(key) = head.as_object().and_then(|head| head.keys().find(unknown_header)) {
            let reason = format!("key [{key}] is not supported in the metadata section");
            return Err(Error::argument(reason));
        }
        let asked: Value = serde_json::from_slice(line).map_err(|error| Error::json(&error))?;
        let names = match head.get("index") {
            Some(Value::String(name)) => name.clone(),
            Some(Value::Array(all)) => {
                all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            _ => index.unwrap_or("_all").to_owned(),
        };
        if answers.len() >= 1_000 {
            return Err(Error::argument("[_msearch] of more than 1000 searches"));
        }
        let answer = Box::pin(search(gate, &names, &Url::new(), &asked)).await;
        answers.push(match answer {
            Ok(mut answer) => {
                answer["status"] = json!(200);
                answer
            }
            // A search that cannot be read spoils all of them.
            Err(error) if error.is_unread() => return Err(error),
            Err(error) => error.body(),
        });
    }
    if answers.is_empty() {
        return Err(Error::invalid("no requests added"));
    }
    Ok(json!({ "took": began.elapsed().as_millis() as u64, "responses": answers }))
}
