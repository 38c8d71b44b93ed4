//! Aggregations: JSON to what is counted.

use super::dsl;
use super::error::{Error, meant};
use super::mapping::{Mapping, Type};
use crate::engine::aggregate::{
    self, Aggregation, BUCKETS, Number, Order, Partial, Shown, Source, What,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Aggregations within aggregations at most.
const DEPTH: usize = 8;

/// Reads `aggs`.
pub fn aggregations(
    json: &Value,
    mapping: &Mapping,
    depth: usize,
) -> Result<BTreeMap<String, Aggregation>, Error> {
    let map = json.as_object().ok_or_else(|| Error::parsing("[aggs] is an object"))?;
    if depth > DEPTH {
        return Err(Error::argument(format!("aggregations are nested deeper than [{DEPTH}]")));
    }
    let one = |(name, about): (&String, &Value)| {
        if name.contains(['[', ']', '>']) {
            return Err(Error::parsing(format!(
                "Invalid aggregation name [{name}]. Aggregation names can contain any character \
                 except '[', ']', and '>'"
            )));
        }
        let about = about.as_object().ok_or_else(|| {
            Error::parsing(format!("Aggregation definition for [{name}] is no object"))
        })?;
        let within = match about.get("aggs").or_else(|| about.get("aggregations")) {
            Some(inner) => aggregations(inner, mapping, depth + 1)?,
            None => BTreeMap::new(),
        };
        let mut kinds = about
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "aggs" | "aggregations" | "meta"));
        let (kind, body) = match (kinds.next(), kinds.next()) {
            (Some(one), None) => one,
            (Some((one, _)), Some((two, _))) => {
                return Err(Error::parsing(format!(
                    "Found two aggregation type definitions in [{name}]: [{one}] and [{two}]"
                )));
            }
            _ => {
                let reason = format!("Missing definition for aggregation [{name}]");
                return Err(Error::parsing(reason));
            }
        };
        check_keys(kind, body)?;
        let what = what(name, kind, body, mapping)?;
        let leaf = matches!(what, What::Numbers { .. } | What::Cardinality(_));
        if leaf && !within.is_empty() {
            return Err(Error::new(
                500,
                "aggregation_initialization_exception",
                format!("Aggregator [{name}] of type [{kind}] cannot accept sub-aggregations"),
            ));
        }
        if let What::Terms { order: Order::Number { path, .. }, .. } = &what
            && !within.contains_key(&path.0)
        {
            return Err(no_order(&path.0));
        }
        Ok((name.clone(), Aggregation { what, within }))
    };
    map.iter().map(one).collect()
}

/// Aggregations that are served, and their keys beside `field`.
const KINDS: [(&str, &[&str]); 12] = [
    ("terms", &["size", "order", "min_doc_count", "shard_size", "show_term_doc_count_error"]),
    ("histogram", &["interval", "offset", "min_doc_count"]),
    ("date_histogram", &["fixed_interval", "calendar_interval", "interval", "min_doc_count"]),
    ("range", &["ranges"]),
    ("filter", &[]),
    ("min", &[]),
    ("max", &[]),
    ("sum", &[]),
    ("avg", &[]),
    ("stats", &[]),
    ("value_count", &[]),
    ("cardinality", &["precision_threshold"]),
];

/// Keys that would change an answer, and do not here.
const UNSERVED: [&str; 11] = [
    "exclude",
    "extended_bounds",
    "format",
    "hard_bounds",
    "include",
    "keyed",
    "missing",
    "offset",
    "order",
    "script",
    "time_zone",
];

/// Refuses keys that an aggregation does not have.
fn check_keys(kind: &str, body: &Value) -> Result<(), Error> {
    let Some((_, known)) = KINDS.iter().find(|(name, _)| *name == kind) else { return Ok(()) };
    let known: Vec<&str> = known.iter().copied().chain(["field"]).collect();
    let odd = |key: &&String| kind != "filter" && !known.contains(&key.as_str());
    if let Some(key) = body.as_object().and_then(|body| body.keys().find(odd)) {
        if UNSERVED.contains(&key.as_str()) {
            return Err(Error::argument(format!("[{key}] of [{kind}] is not served")));
        }
        let reason = format!("[{kind}] unknown field [{key}]{}", meant(key, &known));
        return Err(Error::new(400, "x_content_parse_exception", reason));
    }
    Ok(())
}

fn no_order(name: &str) -> Error {
    let what = format!(
        "The provided aggregation [{name}] either does not exist, or is a pipeline aggregation and \
         cannot be used to sort the buckets."
    );
    let reason = format!("Invalid aggregation order path [{name}]. {what}");
    Error::new(500, "aggregation_execution_exception", reason)
        .because(Error::argument(what))
        .at_shard()
}

fn source(body: &Value, mapping: &Mapping) -> Result<(Source, Shown), Error> {
    let field = body.get("field").and_then(Value::as_str).ok_or_else(|| {
        Error::argument("Required one of fields [field, script], but none were specified. ")
    })?;
    let path = field.to_owned();
    Ok(match mapping.get(field).map(|field| field.of) {
        None => (Source::Nothing, Shown::Number),
        Some(Type::Keyword) => (Source::Keyword(path), Shown::Number),
        Some(Type::Whole(..)) => (Source::Long(path), Shown::Number),
        Some(Type::Boolean) => (Source::Long(path), Shown::Boolean),
        Some(Type::Date) => (Source::Long(path), Shown::Date),
        Some(Type::Float) => (Source::Double(path), Shown::Number),
        Some(Type::Text) => {
            return Err(Error::argument(format!(
                "Text fields are not optimised for operations that require per-document field \
                 data like aggregations and sorting, so these operations are disabled by default. \
                 Please use a keyword field instead. Alternatively, set fielddata=true on \
                 [{field}] in order to load field data by uninverting the inverted index. Note \
                 that this can use significant memory."
            ))
            .at_shard());
        }
    })
}

fn numeric(kind: &str, body: &Value, mapping: &Mapping) -> Result<(Source, Shown), Error> {
    match source(body, mapping)? {
        (Source::Keyword(field), _) => Err(Error::argument(format!(
            "Field [{field}] of type [keyword] is not supported for aggregation [{kind}]"
        ))
        .at_shard()),
        other => Ok(other),
    }
}

/// Milliseconds of `90m`, `1d`, `minute`.
fn interval(text: &str) -> Option<f64> {
    let named = match text {
        "second" => "1s",
        "minute" => "1m",
        "hour" => "1h",
        "day" => "1d",
        "week" => "7d",
        other => other,
    };
    let at = named.find(|letter: char| !letter.is_ascii_digit())?;
    let (count, unit) = named.split_at(at);
    let unit = match unit {
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 6e4,
        "h" => 3.6e6,
        "d" => 8.64e7,
        "w" => 6.048e8,
        _ => return None,
    };
    count.parse::<f64>().ok().filter(|count| *count > 0.0).map(|count| count * unit)
}

fn what(name: &str, kind: &str, body: &Value, mapping: &Mapping) -> Result<What, Error> {
    let least = |default| body.get("min_doc_count").and_then(Value::as_u64).unwrap_or(default);
    let numbers = |which| -> Result<What, Error> {
        let (source, shown) = match which {
            Number::ValueCount => source(body, mapping)?,
            _ => numeric(kind, body, mapping)?,
        };
        Ok(What::Numbers { source, shown, which })
    };
    match kind {
        "terms" => {
            let (source, shown) = source(body, mapping)?;
            let size = match body.get("size") {
                None => 10,
                Some(value) => match value.as_u64() {
                    Some(size) if size > 0 => size as usize,
                    _ => {
                        let reason =
                            format!("[size] must be greater than 0. Found [{value}] in [{name}]");
                        return Err(Error::field(kind, "size", Error::argument(reason)));
                    }
                },
            };
            let order = order(body.get("order"))?;
            Ok(What::Terms { source, shown, size: size.min(BUCKETS), order, least: least(1) })
        }
        "histogram" => {
            let (source, shown) = numeric(kind, body, mapping)?;
            let Some(interval) = body.get("interval") else {
                return Err(Error::argument("interval must be positive, got: 0.0").at_shard());
            };
            let interval = interval.as_f64().filter(|interval| *interval > 0.0);
            let interval = interval.filter(|interval| interval.is_finite()).ok_or_else(|| {
                let reason = format!("[interval] must be >0 for histogram aggregation [{name}]");
                Error::field(kind, "interval", Error::argument(reason))
            })?;
            let offset = body.get("offset").and_then(Value::as_f64).unwrap_or(0.0);
            Ok(What::Histogram { source, shown, interval, offset, least: least(0) })
        }
        "date_histogram" => {
            let (source, shown) = numeric(kind, body, mapping)?;
            let keys = ["fixed_interval", "calendar_interval", "interval"];
            let text = keys.iter().find_map(|key| Some((*key, body.get(*key)?.as_str()?)));
            let Some((key, text)) = text else {
                let reason = "Invalid interval specified, must be non-null and non-empty";
                return Err(Error::argument(reason).at_shard());
            };
            let length = interval(text).ok_or_else(|| match text {
                "month" | "1M" | "quarter" | "1q" | "year" | "1y" if key != "fixed_interval" => {
                    Error::argument(format!("[{text}] of [{name}] is not served: give days"))
                }
                _ => {
                    let reason = format!(
                        "failed to parse setting [date_histogram.fixedInterval] with value \
                         [{text}] as a time value: unit is missing or unrecognized"
                    );
                    Error::field(kind, key, Error::argument(reason))
                }
            })?;
            // Weeks begin on Monday; 1970 began on a Thursday.
            let offset = if matches!(text, "week" | "1w") { -3.0 * 8.64e7 } else { 0.0 };
            Ok(What::Histogram { source, shown, interval: length, offset, least: least(0) })
        }
        "range" => {
            let (source, _) = numeric(kind, body, mapping)?;
            let ranges = body.get("ranges").and_then(Value::as_array).cloned().unwrap_or_default();
            if ranges.is_empty() || ranges.len() > 1_000 {
                return Err(Error::argument(format!(
                    "No [ranges] specified for the [{name}] aggregation, or more than 1000"
                )));
            }
            let one = |range: &Value| {
                let bound = |key: &str| range.get(key).and_then(Value::as_f64);
                let (from, to) = (bound("from"), bound("to"));
                let shown = |bound: Option<f64>| bound.map_or("*".into(), |b| format!("{b:?}"));
                let key = range.get("key").and_then(Value::as_str).map(str::to_owned);
                let key = key.unwrap_or_else(|| format!("{}-{}", shown(from), shown(to)));
                (from, to, key)
            };
            Ok(What::Ranges { source, ranges: ranges.iter().map(one).collect() })
        }
        "filter" => Ok(What::Filter(dsl::query(body, mapping)?)),
        "min" => numbers(Number::Min),
        "max" => numbers(Number::Max),
        "sum" => numbers(Number::Sum),
        "avg" => numbers(Number::Avg),
        "stats" => numbers(Number::Stats),
        "value_count" => numbers(Number::ValueCount),
        "cardinality" => Ok(What::Cardinality(source(body, mapping)?.0)),
        other => {
            let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            let reason = format!("Unknown aggregation type [{other}]{}", meant(other, &known));
            let cause = format!("unknown field [{other}]");
            let cause = Error::new(400, "named_object_not_found_exception", cause);
            Err(Error::parsing(reason).because(cause))
        }
    }
}

fn order(json: Option<&Value>) -> Result<Order, Error> {
    let by_key = json!({ "_key": "asc" });
    let one: &Map<String, Value> = match json {
        None | Some(Value::Null) => return Ok(Order::Count { descending: true }),
        Some(Value::Object(map)) => map,
        // Among equal ones the order is that of keys.
        Some(Value::Array(all))
            if all.len() > 2 || all.get(1).is_some_and(|two| *two != by_key) =>
        {
            return Err(Error::argument("[order] by more than one is not served"));
        }
        Some(Value::Array(all)) => match all.first().and_then(Value::as_object) {
            Some(map) => map,
            None => return Ok(Order::Count { descending: true }),
        },
        Some(other) => return Err(Error::parsing(format!("[order] cannot be {other}"))),
    };
    let Some((by, way)) = one.iter().next() else {
        return Ok(Order::Count { descending: true });
    };
    let descending = match way.as_str() {
        Some("asc") => false,
        Some("desc") => true,
        _ => return Err(Error::parsing(format!("Unknown order direction {way}"))),
    };
    Ok(match by.as_str() {
        "_count" => Order::Count { descending },
        "_key" | "_term" => Order::Key { descending },
        path => {
            let (name, of) = path.split_once('.').unwrap_or((path, "avg"));
            Order::Number { path: (name.to_owned(), of.to_owned()), descending }
        }
    })
}

/// What was asked for, as a field of an answer.
///
/// # Errors
/// When that are more buckets than an answer may have.
pub fn written(
    wanted: &BTreeMap<String, Aggregation>,
    found: &BTreeMap<String, Partial>,
) -> Result<Value, String> {
    let (mut map, mut room) = (Map::new(), BUCKETS);
    for (name, aggregation) in wanted {
        let mut value = aggregate::write(aggregation, found.get(name), &mut room)?;
        // The number within that an order may name by the aggregation alone.
        if value.is_null() {
            value = json!({});
        }
        map.insert(name.clone(), value);
    }
    Ok(Value::Object(map))
}
