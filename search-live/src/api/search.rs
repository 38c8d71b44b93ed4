//! Searches: `_search`, `_count`, `_msearch`, scrolls.

use super::error::Error;
use super::fetch::{Wanted, picked};
use super::gate::{Gate, Index, Scroll};
use super::mapping::Type;
use super::{Query as Url, counting, dsl};
use crate::engine::question::{
    Finding, Found, Hit, Query, Question, Search, SortBy, SortKey, SortValue, Statistics,
};
use cavy_search::ring::{Slice, WHOLE};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// `from` + `size` at most, as in Elasticsearch.
const WINDOW: usize = 10_000;
/// Scrolls that are open at a time, as in Elasticsearch.
const SCROLLS: usize = 500;

/// What of hits is given back.
#[derive(Clone, Debug)]
struct Shape {
    from: usize,
    wanted: Wanted,
    version: bool,
    seq_no: bool,
    scored: bool,
    sorted: bool,
    total: bool,
}

/// What came of a search of one index.
struct Outcome {
    found: Found,
    parts: u32,
    lost: usize,
    covered: f64,
    /// Where plans began and what they were, for whoever asked.
    plan: Value,
}

fn window(name: &str, value: Option<&Value>, default: usize) -> Result<usize, Error> {
    match value {
        None | Some(Value::Null) => Ok(default),
        Some(value) => {
            let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
            match number {
                Some(number) if number >= 0 => Ok(number as usize),
                Some(number) => Err(Error::argument(format!(
                    "[{name}] parameter cannot be negative, found [{number}]"
                ))),
                None => Err(Error::parsing(format!("[{name}] must be a number, found {value}"))),
            }
        }
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
                return Err(Error::argument(format!("Unknown SortOrder [{other}]")));
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
                    )));
                }
                None if about.get("unmapped_type").is_some() => SortBy::Long(field.clone()),
                None => {
                    return Err(Error::new(
                        400,
                        "query_shard_exception",
                        format!("No mapping found for [{field}] in order to sort on"),
                    )
                    .with("index", index.name.clone()));
                }
            },
        };
        keys.push(SortKey { by, descending, missing_first });
    }
    Ok(if keys.is_empty() { vec![score] } else { keys })
}

/// What a body and a URL ask for of an index.
fn read(index: &Index, url: &Url, body: &Value) -> Result<(Search, Shape), Error> {
    let map = match body {
        Value::Null => &Map::new(),
        Value::Object(map) => map,
        _ => return Err(Error::parsing("Expected [START_OBJECT] but found something else")),
    };
    for key in map.keys() {
        if !matches!(
            key.as_str(),
            "query"
                | "from"
                | "size"
                | "sort"
                | "search_after"
                | "aggs"
                | "aggregations"
                | "_source"
                | "track_total_hits"
                | "track_scores"
                | "min_score"
                | "post_filter"
                | "version"
                | "seq_no_primary_term"
                | "timeout"
                | "stored_fields"
                | "fields"
                | "docvalue_fields"
                | "explain"
                | "highlight"
                | "profile"
                | "terminate_after"
        ) {
            return Err(Error::parsing(format!(
                "unknown key [{key}] for a search: not served, or misspelt"
            )));
        }
    }
    let of_url = |name: &str| url.get(name).map(|text| json!(text));
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
    let from = window("from", of_url("from").as_ref().or(map.get("from")), 0)?;
    let size = window("size", of_url("size").as_ref().or(map.get("size")), 10)?;
    if from + size > WINDOW {
        return Err(Error::argument(format!(
            "Result window is too large, from + size must be less than or equal to: [{WINDOW}] but \
             was [{}]. See the scroll api for a more efficient way to request large data sets. \
             This limit can be set by changing the [index.max_result_window] index level setting.",
            from + size
        )));
    }
    let url_sort =
        url.get("sort").map(|text| Value::Array(text.split(',').map(|one| json!(one)).collect()));
    let sort = sort_keys(url_sort.as_ref().or(map.get("sort")), index)?;
    let sorted = url_sort.is_some() || map.contains_key("sort");
    let after = match map.get("search_after") {
        None | Some(Value::Null) => None,
        Some(Value::Array(values)) if !sorted => {
            let _ = values;
            return Err(Error::argument("Sort must contain at least one field."));
        }
        Some(Value::Array(values)) if values.len() != sort.len() => {
            return Err(Error::argument(format!(
                "search_after has {} value(s) but sort has {}.",
                values.len(),
                sort.len()
            )));
        }
        Some(Value::Array(values)) => {
            let one = |(value, key): (&Value, &SortKey)| {
                let wrong =
                    || Error::argument(format!("Failed to parse search_after value [{value}]"));
                Ok(match (&key.by, value) {
                    (_, Value::Null) => SortValue::Missing,
                    (SortBy::Id | SortBy::Keyword(_), Value::String(word)) => {
                        SortValue::Keyword(word.clone())
                    }
                    (SortBy::Doc, value) => SortValue::Ring(value.as_u64().ok_or_else(wrong)?),
                    (SortBy::Long(_), Value::String(text)) => {
                        SortValue::Long(crate::date::read(text).ok_or_else(wrong)?)
                    }
                    (SortBy::Long(_), value) => SortValue::Long(value.as_i64().ok_or_else(wrong)?),
                    (_, value) => SortValue::Double(value.as_f64().ok_or_else(wrong)?),
                })
            };
            let values = values.iter().zip(&sort).map(one).collect::<Result<Vec<_>, Error>>()?;
            Some((values, None))
        }
        Some(other) => return Err(Error::parsing(format!("[search_after] cannot be {other}"))),
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
        least_score: map.get("min_score").and_then(Value::as_f64).map(|score| score as f32),
        source: shape.wanted != Wanted::None,
        aggregations,
    };
    Ok((search, shape))
}

/// Gathers what scores need to know, from slices that tile the ring.
async fn with_statistics(gate: &Gate, index: &Index, search: &mut Search) -> Result<(), Error> {
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
    for finding in gate.ask(index, &question).await?.findings {
        if let Finding::Statistics(more) = finding {
            search.statistics.add(&more);
        }
    }
    Ok(())
}

async fn run(
    gate: &Gate,
    index: &Index,
    search: &mut Search,
    slice: Option<Slice>,
) -> Result<Outcome, Error> {
    with_statistics(gate, index, search).await?;
    let question = Question::Search(Box::new(search.clone()));
    let answer = match slice {
        None => gate.ask(index, &question).await?,
        Some(slice) => gate.look(index, slice, &question).await?,
    };
    let (covered, parts, lost) = (answer.covered(), answer.parts, answer.lost.len());
    let slice = |slice: &Slice| format!("{:016x}-{:016x}", slice.lo, slice.hi);
    let plan = json!({
        "p": index.p(),
        "parts": parts,
        "covered": covered,
        "lost": answer.lost.iter().map(slice).collect::<Vec<_>>(),
    });
    let mut found = Found::default();
    for finding in answer.findings {
        if let Finding::Found(more) = finding {
            found.add(more, search).map_err(|reason| match reason.starts_with("Trying") {
                true => Error::new(400, "too_many_buckets_exception", reason),
                false => Error::new(500, "search_phase_execution_exception", reason),
            })?;
        }
    }
    Ok(Outcome { found, parts, lost, covered, plan })
}

/// A score with as many digits as 32 bits need.
fn number(score: f32) -> Value {
    json!(score.to_string().parse::<f64>().unwrap_or(0.0))
}

fn sort_value(value: &SortValue) -> Value {
    match value {
        SortValue::Missing => Value::Null,
        SortValue::Long(value) => json!(value),
        SortValue::Double(value) => json!(value),
        SortValue::Keyword(word) => json!(word),
        SortValue::Ring(ring) => json!(ring),
    }
}

fn hit(index: &str, hit: &Hit, shape: &Shape) -> Value {
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
        map.insert("sort".into(), hit.sort.iter().map(sort_value).collect());
    }
    Value::Object(map)
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
        return open_scroll(gate, expression, url, body, keep).await;
    }
    let lenient = url.get("ignore_unavailable").is_some_and(|value| value == "true");
    let indices = gate.indices(expression, lenient).await?;
    let mut all: Vec<(String, Hit)> = Vec::new();
    let (mut total, mut parts, mut lost, mut best) = (0, 0, 0, None::<f32>);
    let mut counted = BTreeMap::new();
    let mut covered: f64 = 1.0;
    let mut plans = Map::new();
    let mut shape = None;
    let mut wanted = BTreeMap::new();
    let mut keys = Vec::new();
    let mut hits = 0;
    for index in &indices {
        let (mut search, own) = read(index, url, body)?;
        let outcome = run(gate, index, &mut search, None).await?;
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
        "timed_out": false,
        "_shards": {
            "total": parts, "successful": parts - lost, "skipped": 0, "failed": lost,
        },
    });
    if lost > 0 {
        answer["_shards"]["failures"] = json!([{
            "shard": 0,
            "reason": {
                "type": "no_shard_available_action_exception",
                "reason": format!("no server in step holds {lost} slices of the ring"),
            },
        }]);
        answer["roar"] = json!({ "covered": covered });
    }
    let mut inside = Map::new();
    if shape.as_ref().is_none_or(|shape| shape.total) {
        inside.insert("total".into(), json!({ "value": total, "relation": "eq" }));
    }
    let best = best.filter(|_| shape.as_ref().is_some_and(|shape| shape.scored && hits > 0));
    inside.insert("max_score".into(), best.map_or(Value::Null, number));
    let written: Vec<Value> = match &shape {
        None => Vec::new(),
        Some(shape) => {
            all.iter().skip(shape.from).map(|(index, one)| hit(index, one, shape)).collect()
        }
    };
    inside.insert("hits".into(), json!(written));
    answer["hits"] = Value::Object(inside);
    if !wanted.is_empty() {
        answer["aggregations"] = counting::written(&wanted, &counted);
    }
    if url.get("explain_plan").is_some_and(|value| value == "true") {
        answer["roar"] = Value::Object(plans);
    }
    Ok(answer)
}

/// `_count`.
pub async fn count(gate: &Gate, expression: &str, url: &Url, body: &Value) -> Result<Value, Error> {
    let mut body = body.as_object().cloned().unwrap_or_default();
    body.insert("size".into(), json!(0));
    let answer = search(gate, expression, url, &Value::Object(body)).await?;
    Ok(json!({ "count": answer["hits"]["total"]["value"], "_shards": answer["_shards"] }))
}

/// `_msearch`.
pub async fn msearch(gate: &Gate, index: Option<&str>, body: &[u8]) -> Result<Value, Error> {
    let began = Instant::now();
    let mut lines =
        body.split(|byte| *byte == b'\n').filter(|line| !line.iter().all(u8::is_ascii_whitespace));
    let mut answers = Vec::new();
    while let Some(head) = lines.next() {
        let head: Value = serde_json::from_slice(head).map_err(|error| Error::json(&error))?;
        let Some(line) = lines.next() else {
            return Err(Error::argument(
                "The msearch request must be terminated by a newline [\\n]",
            ));
        };
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
            Err(error) => error.body(),
        });
    }
    if answers.is_empty() {
        return Err(Error::new(
            400,
            "action_request_validation_exception",
            "Validation Failed: 1: no requests added;",
        ));
    }
    Ok(json!({ "took": began.elapsed().as_millis() as u64, "responses": answers }))
}

/// How long `1m` is.
fn keep_alive(text: &str) -> Result<Duration, Error> {
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = text[..at].parse().map_err(|_| {
        Error::argument(format!("failed to parse setting [scroll] with value [{text}] as a time"))
    })?;
    let seconds = match &text[at..] {
        "ms" => return Ok(Duration::from_millis(count)),
        "s" => count,
        "m" => count.saturating_mul(60),
        "h" => count.saturating_mul(3_600),
        "d" => count.saturating_mul(86_400),
        _ => {
            return Err(Error::argument(format!(
                "failed to parse setting [scroll] with value [{text}] as a time value: unit is \
                 missing or unrecognized"
            )));
        }
    };
    if seconds > 86_400 {
        return Err(Error::argument(format!(
            "Keep alive for request ({text}) is too large. It must be less than (1d). This limit \
             can be set by changing the [search.max_keep_alive] cluster level setting."
        )));
    }
    Ok(Duration::from_secs(seconds))
}

async fn open_scroll(
    gate: &Gate,
    expression: &str,
    url: &Url,
    body: &Value,
    keep: &str,
) -> Result<Value, Error> {
    let keep = keep_alive(keep)?;
    let indices = gate.indices(expression, false).await?;
    let [index] = &indices[..] else {
        return Err(Error::argument(format!(
            "a scroll goes over one index, and [{expression}] is {}",
            indices.len()
        )));
    };
    let (mut search, shape) = read(index, url, body)?;
    if shape.from > 0 {
        return Err(Error::new(
            400,
            "action_request_validation_exception",
            "Validation Failed: 1: using [from] is not allowed in a scroll context;",
        ));
    }
    if search.hits == 0 {
        return Err(Error::new(
            400,
            "action_request_validation_exception",
            "Validation Failed: 1: [size] cannot be [0] in a scroll context;",
        ));
    }
    // Statistics are taken once, so that scores go on as they began.
    with_statistics(gate, index, &mut search).await?;
    let in_ring_order = matches!(&search.sort[..], [key] if matches!(key.by, SortBy::Doc) && !key.descending)
        && search.aggregations.is_empty();
    let mut all = search.clone();
    all.hits = 0;
    all.aggregations = BTreeMap::new();
    let total = run(gate, index, &mut all, None).await?.found.total;
    let id = gate.name();
    let until = Instant::now() + keep;
    let walk = in_ring_order.then_some((u64::MAX, false));
    let scroll = Scroll { index: index.name.clone(), search, until, keep, total, walk };
    {
        let mut open = gate.scrolls.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        open.retain(|_, scroll| scroll.until > now);
        if open.len() >= SCROLLS {
            return Err(Error::new(
                429,
                "rejected_execution_exception",
                format!(
                    "Trying to create too many scroll contexts. Must be less than or equal to: \
                     [{SCROLLS}]. This limit can be set by changing the \
                     [search.max_open_scroll_context] setting."
                ),
            ));
        }
        open.insert(id.clone(), scroll);
    }
    page(gate, &id, None, shape.wanted).await
}

/// The next page of a scroll.
pub async fn scroll(gate: &Gate, url: &Url, body: &Value) -> Result<Value, Error> {
    let id =
        body.get("scroll_id").and_then(Value::as_str).or(url.get("scroll_id").map(String::as_str));
    let Some(id) = id else {
        return Err(Error::new(
            400,
            "action_request_validation_exception",
            "Validation Failed: 1: scrollId is missing;",
        ));
    };
    let keep = body.get("scroll").and_then(Value::as_str).or(url.get("scroll").map(String::as_str));
    let keep = keep.map(keep_alive).transpose()?;
    page(gate, id, keep, Wanted::All).await
}

async fn page(
    gate: &Gate,
    id: &str,
    keep: Option<Duration>,
    wanted: Wanted,
) -> Result<Value, Error> {
    let began = Instant::now();
    let missing = || {
        Error::new(
            404,
            "search_context_missing_exception",
            format!("No search context found for id [{id}]"),
        )
    };
    let mut scroll = {
        let open = gate.scrolls.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id).filter(|scroll| scroll.until > Instant::now()).cloned().ok_or_else(missing)?
    };
    let index = gate.index(&scroll.index).await?;
    let mut search = scroll.search.clone();
    search.aggregations = BTreeMap::new();
    let size = search.hits;
    let mut hits: Vec<Hit> = Vec::new();
    let mut lost = 0;
    let mut parts = 0;
    match scroll.walk {
        // In the order of the ring only the servers of an arc are asked.
        Some((mut at, mut whole)) => {
            let share = (size as u128 * WHOLE / u128::from(scroll.total.max(1))).min(WHOLE / 2);
            let step = (share as u64).max(1 << 40);
            while hits.len() < size && !whole {
                // Up to the last id of the ring, and not around it.
                let left = u64::MAX.wrapping_sub(at.wrapping_add(1));
                let end = if left <= step { u64::MAX } else { at.wrapping_add(step) };
                search.hits = size - hits.len();
                let question = Question::Search(Box::new(search.clone()));
                let answer = gate.look(&index, Slice::new(at, end), &question).await?;
                lost += answer.lost.len();
                parts += answer.parts;
                let mut found = Found::default();
                for finding in answer.findings {
                    if let Finding::Found(more) = finding {
                        let fault = |reason| Error::new(500, "exception", reason);
                        found.add(more, &search).map_err(fault)?;
                    }
                }
                let full = found.hits.len() == search.hits;
                hits.append(&mut found.hits);
                at = if full { hits.last().map_or(end, |hit| hit.ring) } else { end };
                whole = at == u64::MAX;
            }
            scroll.walk = Some((at, whole));
        }
        None => {
            let question = Question::Search(Box::new(search.clone()));
            let answer = gate.ask(&index, &question).await?;
            lost += answer.lost.len();
            parts += answer.parts;
            let mut found = Found::default();
            for finding in answer.findings {
                if let Finding::Found(more) = finding {
                    let fault = |reason| Error::new(500, "exception", reason);
                    found.add(more, &search).map_err(fault)?;
                }
            }
            hits = found.hits;
            if let Some(last) = hits.last() {
                scroll.search.after = Some((last.sort.clone(), Some(last.ring)));
            }
        }
    }
    let shape = Shape {
        from: 0,
        wanted,
        version: false,
        seq_no: false,
        scored: search.sort.iter().any(|key| matches!(key.by, SortBy::Score)),
        sorted: true,
        total: true,
    };
    scroll.keep = keep.unwrap_or(scroll.keep);
    scroll.until = Instant::now() + scroll.keep;
    let total = scroll.total;
    {
        let mut open = gate.scrolls.lock().unwrap_or_else(PoisonError::into_inner);
        if open.contains_key(id) {
            open.insert(id.to_owned(), scroll);
        }
    }
    let written: Vec<Value> = hits.iter().map(|one| hit(&index.name, one, &shape)).collect();
    let best = hits.first().filter(|_| shape.scored).map(|hit| number(f32::from_bits(hit.score)));
    Ok(json!({
        "_scroll_id": id,
        "took": began.elapsed().as_millis() as u64,
        "timed_out": false,
        "_shards": {
            "total": parts, "successful": parts as usize - lost, "skipped": 0, "failed": lost,
        },
        "hits": {
            "total": { "value": total, "relation": "eq" }, "max_score": best, "hits": written,
        },
    }))
}

/// Closes scrolls.
pub fn close(gate: &Gate, body: &Value, of_path: Option<&str>) -> Value {
    let mut open = gate.scrolls.lock().unwrap_or_else(PoisonError::into_inner);
    let before = open.len();
    let mut ids: Vec<String> = of_path.map(str::to_owned).into_iter().collect();
    match body.get("scroll_id") {
        Some(Value::String(id)) => ids.push(id.clone()),
        Some(Value::Array(all)) => {
            ids.extend(all.iter().filter_map(|id| id.as_str().map(str::to_owned)));
        }
        _ => {}
    }
    match ids.iter().any(|id| id == "_all") {
        true => open.clear(),
        false => ids.iter().for_each(|id| drop(open.remove(id))),
    }
    json!({ "succeeded": true, "num_freed": before - open.len() })
}
