//! What people type into a box, as a query.

use super::dsl::{best, matching, strings};
use super::error::Error;
use super::mapping::{Mapping, Type};
use crate::engine::question::Query;
use serde_json::Value;

/// Words, `field:word`, `+`, `-`, AND, OR and quoted phrases: what people type into a box.
pub(super) fn query_string(body: &Value, mapping: &Mapping) -> Result<Query, Error> {
    let text = body.get("query").and_then(Value::as_str).unwrap_or_default();
    let mut fields = strings(body.get("fields"));
    fields.extend(body.get("default_field").and_then(Value::as_str).map(str::to_owned));
    if fields.is_empty() || fields == ["*"] {
        let words = mapping.all().filter(|(_, field)| field.of == Type::Text);
        fields = words.map(|(path, _)| path.clone()).collect();
    }
    if text.trim() == "*" || text.trim() == "*:*" {
        return Ok(Query::All);
    }
    let all_needed = body
        .get("default_operator")
        .and_then(Value::as_str)
        .is_some_and(|operator| operator.eq_ignore_ascii_case("and"));
    let (mut must, mut should, mut must_not) = (Vec::new(), Vec::new(), Vec::new());
    let mut and = all_needed;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let sign = rest.chars().next().filter(|sign| matches!(sign, '+' | '-'));
        if sign.is_some() {
            rest = &rest[1..];
        }
        let end = match rest.find('"') {
            Some(open) if !rest[..open].contains(char::is_whitespace) => {
                rest[open + 1..].find('"').map_or(rest.len(), |close| open + close + 2)
            }
            _ => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(end);
        rest = after.trim_start();
        match word {
            "" => continue,
            "AND" | "&&" => {
                and = true;
                must.append(&mut should);
                continue;
            }
            "OR" | "||" => {
                and = false;
                continue;
            }
            _ => {}
        }
        let (own, word) = match word.split_once(':') {
            Some((field, word)) if mapping.get(field).is_some() => (vec![field.to_owned()], word),
            _ => (fields.clone(), word),
        };
        let quoted = word.strip_prefix('"').map(|word| word.trim_end_matches('"'));
        let name = if quoted.is_some() { "match_phrase" } else { "match" };
        let value = Value::String(quoted.unwrap_or(word).to_owned());
        let one = |field: &String| match mapping.get(field).map(|field| field.of) {
            // A word that is no number is in no field of numbers.
            Some(of) if of.value(&value).is_none() => Ok(Query::Nothing),
            _ => matching(name, field, &value, &Value::Null, mapping),
        };
        let one = best(own.iter().map(one).collect::<Result<Vec<_>, Error>>()?, 1.0);
        match sign {
            Some('-') => must_not.push(one),
            Some(_) => must.push(one),
            None if and => must.push(one),
            None => should.push(one),
        }
    }
    let least = usize::from(must.is_empty() && !should.is_empty());
    Ok(Query::Bool { must, should, filter: Vec::new(), must_not, least, boost: 1.0 })
}
