//! Aggregations: JSON to what is counted.

use super::dsl;
use super::error::Error;
use super::mapping::{Mapping, Type};
use crate::engine::aggregate::{Aggregation, BUCKETS, Number, Order, Shown, Source, What};
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
        let (Some((kind, body)), None) = (kinds.next(), kinds.next()) else {
            return Err(Error::parsing(format!(
                "Missing definition for aggregation [{name}], or more than one"
            )));
        };
        let what = what(name, kind, body, mapping)?;
        let leaf = matches!(what, What::Numbers { .. } | What::Cardinality(_));
        if leaf && !within.is_empty() {
            return Err(Error::new(
                400,
                "aggregation_initialization_exception",
                format!("Aggregator [{name}] of type [{kind}] cannot accept sub-aggregations"),
            ));
        }
        Ok((name.clone(), Aggregation { what, within }))
    };
    map.iter().map(one).collect()
}

fn source(name: &str, body: &Value, mapping: &Mapping) -> Result<(Source, Shown), Error> {
    let field = body.get("field").and_then(Value::as_str).ok_or_else(|| {
        Error::argument(format!(
            "Required one of fields [field, script], but none were specified for [{name}]"
        ))
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
            )));
        }
    })
}

fn numeric(
    name: &str,
    kind: &str,
    body: &Value,
    mapping: &Mapping,
) -> Result<(Source, Shown), Error> {
    match source(name, body, mapping)? {
        (Source::Keyword(field), _) => Err(Error::argument(format!(
            "Field [{field}] of type [keyword] is not supported for aggregation [{kind}]"
        ))),
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
        let source = match which {
            Number::ValueCount => source(name, body, mapping)?.0,
            _ => numeric(name, kind, body, mapping)?.0,
        };
        Ok(What::Numbers { source, which })
    };
    match kind {
        "terms" => {
            let (source, shown) = source(name, body, mapping)?;
            let size = match body.get("size") {
                None => 10,
                Some(value) => match value.as_u64() {
                    Some(size) if size > 0 => size as usize,
                    _ => {
                        return Err(Error::argument(format!(
                            "[size] must be greater than 0. Found [{value}] in [{name}]"
                        )));
                    }
                },
            };
            let order = order(body.get("order"))?;
            Ok(What::Terms { source, shown, size: size.min(BUCKETS), order, least: least(1) })
        }
        "histogram" => {
            let (source, shown) = numeric(name, kind, body, mapping)?;
            let interval = body.get("interval").and_then(Value::as_f64).filter(|i| *i > 0.0);
            let interval = interval.filter(|interval| interval.is_finite()).ok_or_else(|| {
                Error::argument(format!("[interval] must be >0 for histogram aggregation [{name}]"))
            })?;
            let offset = body.get("offset").and_then(Value::as_f64).unwrap_or(0.0);
            Ok(What::Histogram { source, shown, interval, offset, least: least(0) })
        }
        "date_histogram" => {
            let (source, shown) = numeric(name, kind, body, mapping)?;
            let text = ["fixed_interval", "calendar_interval", "interval"]
                .iter()
                .find_map(|key| body.get(*key)?.as_str());
            let length = text.and_then(interval).ok_or_else(|| {
                Error::argument(format!(
                    "[date_histogram] of [{name}] needs a [fixed_interval] such as [1d]; months \
                     and years are not served"
                ))
            })?;
            // Weeks begin on Monday; 1970 began on a Thursday.
            let offset = if matches!(text, Some("week" | "1w")) { -3.0 * 8.64e7 } else { 0.0 };
            Ok(What::Histogram { source, shown, interval: length, offset, least: least(0) })
        }
        "range" => {
            let (source, _) = numeric(name, kind, body, mapping)?;
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
        "cardinality" => Ok(What::Cardinality(source(name, body, mapping)?.0)),
        other => Err(Error::parsing(format!("Unknown aggregation type [{other}]")).because(
            Error::new(400, "named_object_not_found_exception", format!("unknown field [{other}]")),
        )),
    }
}

fn order(json: Option<&Value>) -> Result<Order, Error> {
    let one: &Map<String, Value> = match json {
        None | Some(Value::Null) => return Ok(Order::Count { descending: true }),
        Some(Value::Object(map)) => map,
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
pub fn written(
    wanted: &BTreeMap<String, Aggregation>,
    found: &BTreeMap<String, crate::engine::aggregate::Partial>,
) -> Value {
    let mut map = Map::new();
    for (name, aggregation) in wanted {
        let mut value = crate::engine::aggregate::write(aggregation, found.get(name));
        // The number within that an order may name by the aggregation alone.
        if value.is_null() {
            value = json!({});
        }
        map.insert(name.clone(), value);
    }
    Value::Object(map)
}
