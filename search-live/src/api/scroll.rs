//! Scrolls: a search whose hits come page by page.

use super::Query as Url;
use super::error::Error;
use super::gate::{Gate, NAME, Scroll};
use super::search::{Shape, hit, number, read, run, shards, with_statistics};
use crate::engine::question::{Finding, Found, Hit, Question, SortBy};
use cavy_search::ring::{Slice, WHOLE};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Scrolls that are open at a time, as in Elasticsearch.
const SCROLLS: usize = 500;

/// How long `1m` is, of a setting or a parameter.
pub fn span(name: &str, text: &str) -> Result<Duration, Error> {
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(at);
    let wrong = || {
        Error::argument(format!(
            "failed to parse setting [{name}] with value [{text}] as a time value: unit is missing \
             or unrecognized"
        ))
    };
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let count: u64 = count.parse().map_err(|_| wrong())?;
    Ok(Duration::from_millis(count.saturating_mul(unit_ms)))
}

fn keep_alive(text: &str) -> Result<Duration, Error> {
    let keep = span("scroll", text)?;
    if keep > Duration::from_secs(86_400) {
        return Err(Error::argument(format!(
            "Keep alive for request ({text}) is too large. It must be less than (1d). This limit \
             can be set by changing the [search.max_keep_alive] cluster level setting."
        ))
        .at_shard());
    }
    Ok(keep)
}

/// `_search?scroll=`.
pub async fn open(
    gate: &Gate,
    expression: &str,
    url: &Url,
    body: &Value,
    keep: &str,
) -> Result<Value, Error> {
    let keep = keep_alive(keep);
    let indices = gate.indices(expression, false).await?;
    let [index] = &indices[..] else {
        return Err(Error::argument(format!(
            "a scroll goes over one index, and [{expression}] is {}",
            indices.len()
        )));
    };
    let of_index = |error: Error| error.of_index(&index.name, index.uuid());
    let keep = keep.map_err(of_index)?;
    let (mut search, shape) = read(index, url, body).map_err(of_index)?;
    if shape.from > 0 {
        return Err(Error::invalid("using [from] is not allowed in a scroll context"));
    }
    if search.hits == 0 {
        return Err(Error::invalid("[size] cannot be [0] in a scroll context"));
    }
    // Statistics are taken once, so that scores go on as they began.
    with_statistics(gate, index, &mut search, None).await?;
    let in_ring_order = matches!(&search.sort[..], [key] if matches!(key.by, SortBy::Doc) && !key.descending)
        && search.aggregations.is_empty();
    let mut all = search.clone();
    all.hits = 0;
    all.aggregations = BTreeMap::new();
    let total = run(gate, index, &mut all, None).await?.found.total;
    let id = gate.name();
    let until = Instant::now() + keep;
    let walk = in_ring_order.then_some((u64::MAX, false));
    let index = index.name.clone();
    let wanted = shape.wanted;
    let scroll = Scroll { index, search, until, keep, total, wanted, walk };
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
    page(gate, &id, None).await
}

/// The next page of a scroll.
pub async fn next(gate: &Gate, url: &Url, body: &Value) -> Result<Value, Error> {
    let id =
        body.get("scroll_id").and_then(Value::as_str).or(url.get("scroll_id").map(String::as_str));
    let Some(id) = id else {
        return Err(Error::invalid("scrollId is missing"));
    };
    let keep = body.get("scroll").and_then(Value::as_str).or(url.get("scroll").map(String::as_str));
    let keep = keep.map(keep_alive).transpose()?;
    page(gate, id, keep).await
}

async fn page(gate: &Gate, id: &str, keep: Option<Duration>) -> Result<Value, Error> {
    let began = Instant::now();
    let missing = || {
        Error::new(
            404,
            "search_context_missing_exception",
            format!("No search context found for id [{id}]"),
        )
        .at_shard()
    };
    if id.len() != NAME {
        return Err(Error::argument("Cannot parse scroll id"));
    }
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
            let answer = gate.ask(&index, &question, None).await?;
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
        wanted: scroll.wanted.clone(),
        version: false,
        seq_no: false,
        scored: search.sort.iter().any(|key| matches!(key.by, SortBy::Score)),
        sorted: true,
        total: true,
        timeout: None,
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
    let written: Vec<Value> =
        hits.iter().map(|one| hit(&index.name, one, &shape, &search.sort)).collect();
    let best = hits.first().filter(|_| shape.scored).map(|hit| number(f32::from_bits(hit.score)));
    Ok(json!({
        "_scroll_id": id,
        "took": began.elapsed().as_millis() as u64,
        "timed_out": false,
        "_shards": shards(parts as usize, lost),
        "hits": {
            "total": { "value": total, "relation": "eq" }, "max_score": best, "hits": written,
        },
    }))
}

/// Closes scrolls.
pub fn close(gate: &Gate, body: &Value, of_path: Option<&str>) -> (u16, Value) {
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
    let freed = before - open.len();
    let status = if freed == 0 && !ids.iter().any(|id| id == "_all") { 404 } else { 200 };
    (status, json!({ "succeeded": true, "num_freed": freed }))
}
