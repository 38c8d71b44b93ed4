//! The query language: JSON to conditions with fields resolved.

use super::error::{Error, meant, token};
use super::mapping::no_date as unread;
use super::mapping::{Mapping, Type};
use super::words;
use crate::date;
use crate::engine::entry::Typed;
use crate::engine::question::Query;
use crate::engine::text;
use serde_json::{Map, Value};

/// Conditions within conditions at most.
const DEPTH: usize = 20;
/// Conditions of a query at most, as in Elasticsearch.
const CLAUSES: usize = 1_024;
/// Values of a `terms` query at most, as in Elasticsearch.
const TERMS: usize = 65_536;

const KNOWN: [&str; 18] = [
    "bool",
    "constant_score",
    "dis_max",
    "exists",
    "ids",
    "match",
    "match_all",
    "match_bool_prefix",
    "match_none",
    "match_phrase",
    "multi_match",
    "prefix",
    "query_string",
    "range",
    "simple_query_string",
    "term",
    "terms",
    "wildcard",
];

/// Keys of `match` that mean nothing where words are not cut apart, and leave answers as they are.
const MATCH: [&str; 9] = [
    "query",
    "operator",
    "minimum_should_match",
    "lenient",
    "zero_terms_query",
    "max_expansions",
    "prefix_length",
    "fuzzy_transpositions",
    "auto_generate_synonyms_phrase_query",
];
/// The same of `multi_match`.
const MULTI_MATCH: [&str; 9] = [
    "query",
    "fields",
    "type",
    "operator",
    "minimum_should_match",
    "lenient",
    "zero_terms_query",
    "max_expansions",
    "prefix_length",
];
/// Keys that would change an answer, and do not here.
const UNSERVED: [&str; 7] = [
    "analyzer",
    "case_insensitive",
    "cutoff_frequency",
    "fuzziness",
    "fuzzy_rewrite",
    "slop",
    "tie_breaker",
];

/// Keys of `bool`, in both spellings that Elasticsearch knows.
const BOOL: [&str; 9] = [
    "must",
    "should",
    "filter",
    "must_not",
    "mustNot",
    "minimum_should_match",
    "adjust_pure_negative",
    "boost",
    "_name",
];

/// Reads a query.
pub fn query(json: &Value, mapping: &Mapping) -> Result<Query, Error> {
    let query = read(json, mapping, 0)?;
    if query.clauses() > TERMS + CLAUSES || scored(&query) > CLAUSES {
        let clauses = query.clauses();
        return Err(Error::new(
            400,
            "too_many_nested_clauses",
            format!(
                "Query contains too many nested clauses; maxClauseCount is set to {CLAUSES}, and \
                 there are {clauses}"
            ),
        ));
    }
    Ok(query)
}

fn scored(query: &Query) -> usize {
    match query {
        Query::Best { of, .. } => 1 + of.iter().map(scored).sum::<usize>(),
        Query::Bool { must, should, filter, must_not, .. } => {
            1 + must.iter().chain(should).chain(filter).chain(must_not).map(scored).sum::<usize>()
        }
        _ => 1,
    }
}

fn unknown(name: &str) -> Error {
    let cause =
        Error::new(400, "named_object_not_found_exception", format!("unknown field [{name}]"));
    Error::parsing(format!("unknown query [{name}]{}", meant(name, &KNOWN))).because(cause)
}

/// A value that is no number, where a condition is made of it.
fn no_number(value: &Value) -> Error {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let cause = Error::no_number(&text);
    let reason = format!("failed to create query: {}", cause.reason);
    Error::new(400, "query_shard_exception", reason).because(cause).at_shard()
}

/// A value that is no date, where a condition is made of it.
fn no_date(value: &Value) -> Error {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let cause = unread(&text);
    let reason = format!("{}: [{}]", cause.reason, cause.reason);
    Error::new(400, "parse_exception", reason).because(cause).at_shard()
}

/// Refuses keys that a condition does not have, and those that are not served.
fn keys(of: &str, about: &Value, known: &[&str]) -> Result<(), Error> {
    for name in about.as_object().into_iter().flat_map(Map::keys) {
        if UNSERVED.contains(&name.as_str()) {
            return Err(Error::argument(format!("[{name}] of [{of}] is not served")));
        }
        if !known.contains(&name.as_str()) && name != "boost" && name != "_name" {
            return Err(Error::parsing(format!("[{of}] query does not support [{name}]")));
        }
    }
    Ok(())
}

fn object<'a>(json: &'a Value, of: &str) -> Result<&'a Map<String, Value>, Error> {
    json.as_object().ok_or_else(|| {
        Error::parsing(format!("[{of}] query malformed, no start_object after query name"))
    })
}

fn only<'a>(map: &'a Map<String, Value>, of: &str) -> Result<(&'a String, &'a Value), Error> {
    let mut all = map.iter().filter(|(name, _)| *name != "boost" && *name != "_name");
    match (all.next(), all.next()) {
        (Some(one), None) => Ok(one),
        (Some((first, _)), Some((second, _))) => Err(Error::parsing(format!(
            "[{of}] query doesn't support multiple fields, found [{first}] and [{second}]"
        ))),
        _ if of.starts_with("match") => Err(Error::parsing("No text specified for text query")),
        _ => Err(Error::argument("field name is null or empty")),
    }
}

fn boost(json: Option<&Value>) -> Result<f32, Error> {
    match json.map(|json| json.get("boost").unwrap_or(&Value::Null)) {
        None | Some(Value::Null) => Ok(1.0),
        Some(value) => match number(value) {
            Some(boost) if boost >= 0.0 && (boost as f32).is_finite() => Ok(boost as f32),
            Some(_) => Err(Error::argument("negative [boost] are not allowed")),
            None => Err(Error::parsing(format!("[boost] must be a number, found {value}"))),
        },
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn read(json: &Value, mapping: &Mapping, depth: usize) -> Result<Query, Error> {
    if depth > DEPTH {
        return Err(Error::argument(format!(
            "The nested depth of the query exceeds the maximum nested depth for queries set in \
             [indices.query.bool.max_nested_depth]: {DEPTH}"
        )));
    }
    let map = json
        .as_object()
        .ok_or_else(|| Error::parsing("[_na] query malformed, must start with start_object"))?;
    let mut all = map.iter();
    let (name, body) = match (all.next(), all.next()) {
        (None, _) => return Err(Error::argument("query malformed, empty clause found")),
        (Some(one), None) => one,
        (Some((name, _)), Some(_)) => {
            return Err(Error::parsing(format!(
                "[{name}] malformed query, expected [END_OBJECT] but found [FIELD_NAME]"
            )));
        }
    };
    match name.as_str() {
        "match_all" => {
            let odd =
                object(body, name)?.keys().find(|key| !matches!(key.as_str(), "boost" | "_name"));
            if let Some(key) = odd {
                let reason = format!("[match_all] unknown field [{key}]");
                let cause = Error::new(400, "x_content_parse_exception", reason.clone());
                return Err(Error::parsing(reason).because(cause));
            }
            let boost = boost(Some(body))?;
            Ok(if boost == 1.0 { Query::All } else { constant(Query::All, boost) })
        }
        "match_none" => Ok(Query::Nothing),
        "match" | "match_phrase" | "match_bool_prefix" => {
            let (field, about) = only(object(body, name)?, name)?;
            keys(name, about, &MATCH)?;
            let value = about.get("query").unwrap_or(about);
            if value.is_object() || value.is_array() {
                return Err(Error::parsing(format!(
                    "[{name}] unknown token [{}] after [query]",
                    token(value)
                )));
            }
            matching(name, field, value, about, mapping)
        }
        "multi_match" => {
            keys(name, body, &MULTI_MATCH)?;
            let fields = strings(body.get("fields"));
            let value = body.get("query").unwrap_or(&Value::Null);
            let names: Vec<String> = match fields.is_empty() {
                true => mapping.all().map(|(path, _)| path.clone()).collect(),
                false => fields,
            };
            let mut of = Vec::new();
            for name in names {
                let (path, factor) = match name.split_once('^') {
                    Some((path, factor)) => {
                        let factor =
                            factor.parse().ok().filter(|f: &f32| f.is_finite() && *f >= 0.0);
                        (path.to_owned(), factor.unwrap_or(1.0))
                    }
                    None => (name.clone(), 1.0_f32),
                };
                let one = matching("match", &path, value, body, mapping)?;
                of.push(if factor == 1.0 { one } else { times(one, factor) });
            }
            match body.get("type").and_then(Value::as_str).unwrap_or("best_fields") {
                "best_fields" => Ok(best(of, 1.0)),
                "most_fields" => Ok(any(of, 1)),
                other => {
                    Err(Error::argument(format!("[type] [{other}] of [multi_match] is not served")))
                }
            }
        }
        "term" => {
            let (field, about) = only(object(body, name)?, name)?;
            if about.is_array() {
                return Err(Error::parsing("[term] query does not support array of values"));
            }
            keys(name, about, &["value"])?;
            let value = about.get("value").unwrap_or(about);
            term(field, value, boost(Some(about))?, mapping)
        }
        "terms" => {
            let (field, values) = only(object(body, name)?, name)?;
            let Value::Array(values) = values else {
                return Err(match values.is_object() {
                    true => Error::argument("[terms] by a lookup is not served"),
                    false => Error::parsing(format!("[terms] query does not support [{field}]")),
                });
            };
            if values.len() > TERMS {
                return Err(Error::argument(format!(
                    "The number of terms [{}] used in the Terms Query request has exceeded the \
                     allowed maximum of [{TERMS}]. This maximum can be set by changing the \
                     [index.max_terms_count] index level setting.",
                    values.len()
                )));
            }
            terms(field, values, boost(Some(body))?, mapping)
        }
        "range" => {
            let (field, about) = only(object(body, name)?, name)?;
            let Value::Object(about) = about else {
                return Err(Error::parsing(format!("[range] query does not support [{field}]")));
            };
            range(field, about, mapping)
        }
        "prefix" => {
            let (field, about) = only(object(body, name)?, name)?;
            keys(name, about, &["value", "rewrite"])?;
            let value = about.get("value").unwrap_or(about);
            let Value::String(prefix) = value else {
                return Err(Error::parsing("[prefix] query requires a string"));
            };
            let boost = boost(Some(about))?;
            let text = match mapping.get(field).map(|field| field.of) {
                Some(Type::Text) => true,
                Some(Type::Keyword) => false,
                Some(of) => {
                    let reason = format!(
                        "Can only use prefix queries on keyword and text fields - not on [{field}] \
                         which is of type [{}]",
                        of.name()
                    );
                    return Err(Error::new(400, "query_shard_exception", reason).at_shard());
                }
                None => return Ok(Query::Nothing),
            };
            Ok(Query::Prefix { field: field.clone(), text, prefix: prefix.clone(), boost })
        }
        "wildcard" => {
            let (field, about) = only(object(body, name)?, name)?;
            let value = about.get("value").or_else(|| about.get("wildcard")).unwrap_or(about);
            let pattern = value.as_str().unwrap_or_default();
            match pattern.strip_suffix('*') {
                Some(prefix) if !prefix.contains(['*', '?']) => {
                    let inner = serde_json::json!({ "prefix": { field.as_str(): prefix } });
                    read(&inner, mapping, depth + 1)
                }
                _ => Err(Error::argument(format!(
                    "[wildcard] is served for a pattern that ends with its only [*], not for \
                     [{pattern}]"
                ))),
            }
        }
        "exists" => {
            let field = body
                .get("field")
                .and_then(Value::as_str)
                .ok_or_else(|| Error::parsing("[exists] must be provided with a [field]"))?;
            let inner = format!("{field}.");
            let own = mapping.all().filter(|(path, _)| *path == field || path.starts_with(&inner));
            let boost = boost(Some(body))?;
            let one = |(path, _): (&String, _)| Query::Exists { field: path.clone(), boost };
            let all: Vec<Query> = own.map(one).collect();
            Ok(if all.is_empty() { Query::Nothing } else { constant(any(all, 1), boost) })
        }
        "ids" => {
            let ids = strings(body.get("values"));
            Ok(Query::Ids { ids, boost: boost(Some(body))? })
        }
        "constant_score" => {
            let filter = body
                .get("filter")
                .ok_or_else(|| Error::parsing("[constant_score] requires a 'filter' element"))?;
            Ok(constant(read(filter, mapping, depth + 1)?, boost(Some(body))?))
        }
        "dis_max" => {
            keys(name, body, &["queries"])?;
            let queries = body.get("queries").and_then(Value::as_array);
            let queries = queries.filter(|all| !all.is_empty()).ok_or_else(|| {
                Error::parsing("[dis_max] requires 'queries' field with at least one clause")
            })?;
            let of = queries.iter().map(|one| read(one, mapping, depth + 1));
            Ok(best(of.collect::<Result<_, _>>()?, boost(Some(body))?))
        }
        "query_string" | "simple_query_string" => words::query_string(body, mapping),
        "bool" => {
            let map = object(body, name)?;
            if let Some(key) = map.keys().find(|key| !BOOL.contains(&key.as_str())) {
                let reason = format!("[bool] unknown field [{key}]{}", meant(key, &BOOL));
                return Err(Error::new(400, "x_content_parse_exception", reason));
            }
            let all = |key: &str| -> Result<Vec<Query>, Error> {
                match map.get(key) {
                    None | Some(Value::Null) => Ok(Vec::new()),
                    Some(Value::Array(all)) => {
                        all.iter().map(|one| read(one, mapping, depth + 1)).collect()
                    }
                    Some(one) if one.is_object() => Ok(vec![read(one, mapping, depth + 1)?]),
                    Some(other) => {
                        let token = token(other);
                        let reason =
                            format!("[bool] {key} doesn't support values of type: {token}");
                        Err(Error::new(400, "x_content_parse_exception", reason))
                    }
                }
            };
            let (must, should) = (all("must")?, all("should")?);
            let (filter, must_not) = (all("filter")?, [all("must_not")?, all("mustNot")?].concat());
            let needed = should.is_empty() || !must.is_empty() || !filter.is_empty();
            let least = match map.get("minimum_should_match") {
                None | Some(Value::Null) => usize::from(!needed),
                Some(value) => at_least(value, should.len())?,
            };
            let boost = boost(Some(body))?;
            Ok(Query::Bool { must, should, filter, must_not, least, boost })
        }
        other => Err(unknown(other)),
    }
}

fn constant(query: Query, boost: f32) -> Query {
    Query::Constant { of: Box::new(query), boost }
}

/// One of these at least, scores added.
fn any(mut should: Vec<Query>, least: usize) -> Query {
    match (should.len(), least) {
        (0, _) => Query::Nothing,
        (1, 1) => should.remove(0),
        _ => Query::Bool {
            must: Vec::new(),
            should,
            filter: Vec::new(),
            must_not: Vec::new(),
            least,
            boost: 1.0,
        },
    }
}

/// One of these, with the best score of any.
pub(super) fn best(mut of: Vec<Query>, boost: f32) -> Query {
    match of.len() {
        0 => Query::Nothing,
        1 if boost == 1.0 => of.remove(0),
        _ => Query::Best { of, boost },
    }
}

fn times(query: Query, boost: f32) -> Query {
    Query::Bool {
        must: vec![query],
        should: Vec::new(),
        filter: Vec::new(),
        must_not: Vec::new(),
        least: 0,
        boost,
    }
}

/// `minimum_should_match`: 2, -1, "75%", "-25%".
fn at_least(value: &Value, of: usize) -> Result<usize, Error> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        _ => return Err(Error::parsing("[minimum_should_match] is a number or a string")),
    };
    let wrong = || Error::argument(format!("[minimum_should_match] cannot be [{text}]"));
    let least = match text.strip_suffix('%') {
        Some(percent) => {
            let percent: i64 = percent.parse().map_err(|_| wrong())?;
            let part = (percent.abs().min(100) as usize * of / 100) as i64;
            if percent < 0 { of as i64 - part } else { part }
        }
        None => {
            let count: i64 = text.parse().map_err(|_| wrong())?;
            if count < 0 { of as i64 + count } else { count }
        }
    };
    Ok(least.max(0) as usize)
}

pub(super) fn strings(value: Option<&Value>) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        Some(Value::Array(all)) => all.iter().filter_map(one).collect(),
        Some(value) => one(value).into_iter().collect(),
        None => Vec::new(),
    }
}

pub(super) fn matching(
    name: &str,
    field: &str,
    value: &Value,
    about: &Value,
    mapping: &Mapping,
) -> Result<Query, Error> {
    let boost = boost(Some(about))?;
    match mapping.get(field).map(|field| field.of) {
        Some(Type::Text) => {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let words = text::terms(&text);
            let field = field.to_owned();
            if name == "match_phrase" && words.len() > 1 {
                return Ok(Query::Phrase { field, words, boost });
            }
            let one = |word: String| Query::Word { field: field.clone(), word, boost };
            let operator = about.get("operator").and_then(Value::as_str).unwrap_or("or");
            let least = match operator.to_uppercase().as_str() {
                "AND" => words.len(),
                other if other != "OR" => {
                    return Err(Error::constant("index.query.Operator", other));
                }
                _ => match about.get("minimum_should_match") {
                    Some(value) => at_least(value, words.len())?.clamp(1, words.len().max(1)),
                    None => 1,
                },
            };
            let mut all: Vec<Query> = words.into_iter().map(one).collect();
            if name == "match_bool_prefix"
                && let Some(Query::Word { field, word, boost }) = all.pop()
            {
                all.push(Query::Prefix { field, text: true, prefix: word, boost });
            }
            if least > 1 && least == all.len() {
                return Ok(Query::Bool {
                    must: all,
                    should: Vec::new(),
                    filter: Vec::new(),
                    must_not: Vec::new(),
                    least: 0,
                    boost: 1.0,
                });
            }
            Ok(any(all, least))
        }
        _ => term(field, value, boost, mapping),
    }
}

/// One value of a field, as a condition.
fn exactly(field: &str, typed: Typed, boost: f32) -> Query {
    let field = field.to_owned();
    match typed {
        Typed::Text(word) => Query::Word { field, word, boost },
        Typed::Keyword(word) => Query::Strings { field, text: false, strings: vec![word], boost },
        Typed::Long(value) => Query::Longs { field, least: value, most: value, boost },
        Typed::Double(value) => Query::Doubles { field, least: value, most: value, boost },
    }
}

fn term(field: &str, value: &Value, boost: f32, mapping: &Mapping) -> Result<Query, Error> {
    if field == "_id" {
        return Ok(Query::Ids { ids: strings(Some(value)), boost });
    }
    let Some(own) = mapping.get(field) else { return Ok(Query::Nothing) };
    match own.of.value(value) {
        Some(typed) => Ok(exactly(field, typed, boost)),
        None if own.of == Type::Date => Err(no_date(value)),
        None => Err(no_number(value)),
    }
}

fn terms(field: &str, values: &[Value], boost: f32, mapping: &Mapping) -> Result<Query, Error> {
    if field == "_id" {
        return Ok(Query::Ids { ids: strings(Some(&Value::Array(values.to_vec()))), boost });
    }
    let Some(own) = mapping.get(field) else { return Ok(Query::Nothing) };
    let text = own.of == Type::Text;
    if text || own.of == Type::Keyword {
        let strings = strings(Some(&Value::Array(values.to_vec())));
        return Ok(Query::Strings { field: field.to_owned(), text, strings, boost });
    }
    let one = |value| term(field, value, 1.0, mapping);
    let all = values.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(constant(any(all, 1), boost))
}

/// A date bound; a day alone is its first or its last millisecond.
fn moment(value: &Value, last: bool) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) if text == "now" => {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
            Some(since.as_millis() as i64)
        }
        Value::String(text) => {
            let day = text.len() == 10 && text.contains('-');
            Some(date::read(text)? + if day && last { 86_399_999 } else { 0 })
        }
        _ => None,
    }
}

fn range(field: &str, about: &Map<String, Value>, mapping: &Mapping) -> Result<Query, Error> {
    let mut least: Option<(&Value, bool)> = None;
    let mut most: Option<(&Value, bool)> = None;
    for (key, value) in about {
        match key.as_str() {
            _ if value.is_null() => {}
            "gte" | "from" => least = Some((value, true)),
            "gt" => least = Some((value, false)),
            "lte" | "to" => most = Some((value, true)),
            "lt" => most = Some((value, false)),
            "boost" | "format" | "time_zone" | "relation" | "_name" => {}
            other => {
                return Err(Error::parsing(format!("[range] query does not support [{other}]")));
            }
        }
    }
    let boost = boost(Some(&Value::Object(about.clone())))?;
    let Some(own) = mapping.get(field) else { return Ok(Query::Nothing) };
    let wrong = |value: &Value| match own.of {
        Type::Date => no_date(value),
        _ => no_number(value),
    };
    let field = field.to_owned();
    match own.of {
        Type::Text | Type::Keyword => {
            let word = |bound: Option<(&Value, bool)>| match bound {
                None => Ok(None),
                Some((Value::String(word), inside)) => Ok(Some((word.clone(), inside))),
                Some((Value::Number(number), inside)) => Ok(Some((number.to_string(), inside))),
                Some((value, _)) => Err(wrong(value)),
            };
            if own.of == Type::Text {
                return Err(Error::argument(format!(
                    "[range] on the words of the text field [{field}] is not served; use its \
                     keyword"
                )));
            }
            Ok(Query::Between { field, least: word(least)?, most: word(most)?, boost })
        }
        Type::Float => {
            let bound = |bound: Option<(&Value, bool)>, none: f64, up: bool| match bound {
                None => Ok(none),
                Some((value, inside)) => {
                    let exact = number(value).ok_or_else(|| wrong(value))?;
                    Ok(match (inside, up) {
                        (true, _) => exact,
                        (false, true) => exact.next_up(),
                        (false, false) => exact.next_down(),
                    })
                }
            };
            let least = bound(least, f64::NEG_INFINITY, true)?;
            let most = bound(most, f64::INFINITY, false)?;
            Ok(Query::Doubles { field, least, most, boost })
        }
        Type::Whole(..) | Type::Boolean | Type::Date => {
            // Between whole numbers: 3.5 as a lower bound is 4.
            let bound = |bound: Option<(&Value, bool)>, none: i64, lower: bool| match bound {
                None => Ok(Some(none)),
                Some((value, inside)) => {
                    let exact = match own.of {
                        // `lte` and `gt` of a day mean its end.
                        Type::Date => moment(value, inside != lower),
                        _ => match value {
                            Value::Number(number) if number.is_i64() => number.as_i64(),
                            value => match (number(value), value) {
                                (Some(float), _) if float.fract() != 0.0 => {
                                    let whole = if lower { float.ceil() } else { float.floor() };
                                    return Ok(Some(whole as i64));
                                }
                                (Some(float), _) => Some(float as i64),
                                (None, Value::Bool(truth)) => Some(i64::from(*truth)),
                                _ => None,
                            },
                        },
                    };
                    let exact = exact.ok_or_else(|| wrong(value))?;
                    Ok(match (inside, lower) {
                        (true, _) => Some(exact),
                        (false, true) => exact.checked_add(1),
                        (false, false) => exact.checked_sub(1),
                    })
                }
            };
            match (bound(least, i64::MIN, true)?, bound(most, i64::MAX, false)?) {
                (Some(least), Some(most)) => Ok(Query::Longs { field, least, most, boost }),
                _ => Ok(Query::Nothing),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mapping() -> Mapping {
        Mapping::read(&json!({"properties": {
            "title": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
            "year": {"type": "integer"}, "price": {"type": "double"}, "on": {"type": "date"},
        }}))
        .expect("a mapping")
    }

    #[test]
    fn clause_7_2_errors_have_elasticsearchs_words() {
        let wrong = |json: Value| query(&json, &mapping()).expect_err("wrong");
        assert_eq!(wrong(json!({"mach": {}})).reason, "unknown query [mach] did you mean [match]?");
        assert_eq!(wrong(json!({})).kind, "illegal_argument_exception");
        let two = wrong(json!({"match": {"a": 1, "b": 2}}));
        assert_eq!(two.reason, "[match] query doesn't support multiple fields, found [a] and [b]");
        assert_eq!(
            wrong(json!({"bool": {"musst": []}})).reason,
            "[bool] unknown field [musst] did you mean any of [must, mustNot]?"
        );
        let mut deep = json!({"match_all": {}});
        (0..50).for_each(|_| deep = json!({"bool": {"must": [deep.clone()]}}));
        assert!(wrong(deep).reason.contains("nested depth"));
        let many: Vec<Value> = (0..2_000).map(|n| json!({"term": {"year": n}})).collect();
        assert_eq!(wrong(json!({"bool": {"should": many}})).kind, "too_many_nested_clauses");
    }

    #[test]
    fn bounds_are_those_of_the_fields_type() {
        let read = |json: Value| query(&json, &mapping()).expect("right");
        let longs = |field: &str, least, most| Query::Longs {
            field: field.into(),
            least,
            most,
            boost: 1.0,
        };
        let range = |json| json!({"range": {"year": json}});
        assert_eq!(read(range(json!({"gt": 3, "lt": 9}))), longs("year", 4, 8));
        assert_eq!(read(range(json!({"gte": 3.5, "lte": "9"}))), longs("year", 4, 9));
        let day = 1_250_467_200_000;
        let on = json!({"range": {"on": {"gte": "2009-08-17", "lte": "2009-08-17"}}});
        assert_eq!(read(on), longs("on", day, day + 86_399_999));
        assert_eq!(read(json!({"term": {"nowhere": 1}})), Query::Nothing);
    }

    #[test]
    fn clause_7_2_any_json_is_a_query_or_an_error() {
        // Every JSON of a few shapes, put where a query may have anything.
        let odd = [
            json!(null),
            json!([]),
            json!({}),
            json!("x"),
            json!(-1.5e300),
            json!([{}]),
            json!({"query": {}}),
            json!({"title": {"query": null}}),
        ];
        for name in KNOWN {
            for one in &odd {
                let _ = query(&json!({ name: one }), &mapping());
                let _ = query(&json!({ name: {"title": one} }), &mapping());
                let _ = query(&json!({ name: {"year": one, "boost": one} }), &mapping());
                let _ = query(
                    &json!({ "bool": {"must": [{ name: one }], "minimum_should_match": one} }),
                    &mapping(),
                );
            }
        }
    }
}
