//! Counts over the documents that a search meets: buckets by value, and numbers over values.
//!
//! A partial result of a slice is exact and says nothing of order, so that partial results of
//! slices that tile the ring come to the same, however the ring is cut: buckets are never left out
//! before all are put together, and sums of floats are kept without rounding.

use super::evaluate::{Matcher, Window};
use super::question::Query;
use super::segment::Segment;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Buckets of one answer at most, as in Elasticsearch (`search.max_buckets`).
pub const BUCKETS: usize = 65_535;
/// Different values that are counted exactly at most.
const DIFFERENT: usize = 1_000_000;

/// Where values come from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Source {
    /// A field of keywords.
    Keyword(String),
    /// A field of whole numbers.
    Long(String),
    /// A field of floating-point numbers.
    Double(String),
    /// A field that no document has.
    Nothing,
}

/// How a number is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Shown {
    /// As a number.
    Number,
    /// As `true` and `false`.
    Boolean,
    /// As a date.
    Date,
}

/// What is counted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Aggregation {
    /// Of all documents.
    pub what: What,
    /// Within each bucket.
    #[serde(default)]
    pub within: BTreeMap<String, Aggregation>,
}

/// The order of buckets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// By documents.
    Count {
        /// The most first.
        descending: bool,
    },
    /// By value.
    Key {
        /// The greatest first.
        descending: bool,
    },
    /// By a number that is counted within: the aggregation, and which of its numbers.
    Number {
        /// The aggregation and the name of its number.
        path: (String, String),
        /// The greatest first.
        descending: bool,
    },
}

/// One thing that is counted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum What {
    /// A bucket a value.
    Terms {
        /// Of what.
        source: Source,
        /// How values are written.
        shown: Shown,
        /// Buckets that are shown.
        size: usize,
        /// Which first.
        order: Order,
        /// Buckets with fewer documents are left out.
        least: u64,
    },
    /// A bucket an interval.
    Histogram {
        /// Of what.
        source: Source,
        /// How values are written.
        shown: Shown,
        /// The length of an interval.
        interval: f64,
        /// Where one begins.
        offset: f64,
        /// Buckets with fewer documents are left out; with 0, gaps are filled.
        least: u64,
    },
    /// A bucket a range; documents may be in several.
    Ranges {
        /// Of what.
        source: Source,
        /// From, to, and a name: from belongs, to does not.
        ranges: Vec<(Option<f64>, Option<f64>, String)>,
    },
    /// One bucket, of documents that meet a condition.
    Filter(Query),
    /// Numbers over all values.
    Numbers {
        /// Of what.
        source: Source,
        /// How values are shown.
        shown: Shown,
        /// Which of them is asked for.
        which: Number,
    },
    /// How many different values.
    Cardinality(Source),
}

/// A number over values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Number {
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// All together.
    Sum,
    /// The mean.
    Avg,
    /// How many.
    ValueCount,
    /// All of these.
    Stats,
}

/// The value that makes a bucket.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Key {
    /// A whole number.
    Long(i64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    Keyword(String),
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Long(a), Key::Long(b)) => a.cmp(b),
            (Key::Double(a), Key::Double(b)) => a.total_cmp(b),
            (Key::Keyword(a), Key::Keyword(b)) => a.cmp(b),
            (Key::Long(_), _) | (Key::Double(_), Key::Keyword(_)) => Ordering::Less,
            _ => Ordering::Greater,
        }
    }
}

/// A bucket: its value, its documents, what was counted within.
type Bucket = (Key, u64, BTreeMap<String, Partial>);

/// What was counted over some slices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Partial {
    /// Buckets, by value.
    Buckets(Vec<Bucket>),
    /// Over numbers.
    Numbers {
        /// How many.
        count: u64,
        /// The least; infinite where there is no value, which JSON writes as null.
        #[serde(deserialize_with = "or_infinity")]
        min: f64,
        /// The greatest.
        #[serde(deserialize_with = "or_minus_infinity")]
        max: f64,
        /// All together, as floats that add up to it exactly.
        sum: Vec<f64>,
    },
    /// Different values.
    Different(BTreeSet<Key>),
}

/// Infinite numbers travel as null.
pub(super) fn or_infinity<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

/// The same.
pub(super) fn or_minus_infinity<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NEG_INFINITY))
}

/// Adds a number to a sum that is kept without rounding: floats that do not overlap.
fn add_exactly(sum: &mut Vec<f64>, mut value: f64) {
    let mut kept = 0;
    for at in 0..sum.len() {
        let mut part = sum[at];
        if value.abs() < part.abs() {
            core::mem::swap(&mut value, &mut part);
        }
        let high = value + part;
        let low = part - (high - value);
        if low != 0.0 {
            sum[kept] = low;
            kept += 1;
        }
        value = high;
    }
    sum.truncate(kept);
    sum.push(value);
}

/// The float next to an exact sum: the same whatever the order in which its parts came.
fn rounded(sum: &[f64]) -> f64 {
    // The parts do not overlap and grow; from the greatest down, the first that leaves a rest
    // decides the rounding, and a half goes the way of the part below.
    let mut parts = sum.iter().rev();
    let Some(&first) = parts.next() else { return 0.0 };
    let mut high = first;
    let mut low = 0.0;
    for &part in parts.by_ref() {
        let before = high;
        high = before + part;
        low = part - (high - before);
        if low != 0.0 {
            break;
        }
    }
    if let Some(&next) = parts.next()
        && ((low < 0.0 && next < 0.0) || (low > 0.0 && next > 0.0))
    {
        let twice = low * 2.0;
        let up = high + twice;
        if up - high == twice {
            high = up;
        }
    }
    high
}

impl Partial {
    fn nothing(what: &What) -> Partial {
        match what {
            What::Terms { .. } | What::Histogram { .. } | What::Ranges { .. } | What::Filter(_) => {
                Partial::Buckets(Vec::new())
            }
            What::Numbers { .. } => Partial::Numbers {
                count: 0,
                min: f64::INFINITY,
                max: f64::NEG_INFINITY,
                sum: Vec::new(),
            },
            What::Cardinality(_) => Partial::Different(BTreeSet::new()),
        }
    }

    /// What was counted over other documents comes on top.
    pub fn add(&mut self, other: Partial) -> Result<(), String> {
        match (self, other) {
            (Partial::Buckets(own), Partial::Buckets(more)) => {
                let all = std::mem::take(own);
                let (mut a, mut b) = (all.into_iter().peekable(), more.into_iter().peekable());
                loop {
                    let order = match (a.peek(), b.peek()) {
                        (None, None) => break,
                        (Some(_), None) => Ordering::Less,
                        (None, Some(_)) => Ordering::Greater,
                        (Some(one), Some(other)) => one.0.cmp(&other.0),
                    };
                    match order {
                        Ordering::Less => own.extend(a.next()),
                        Ordering::Greater => own.extend(b.next()),
                        Ordering::Equal => {
                            let (Some(mut one), Some(other)) = (a.next(), b.next()) else { break };
                            one.1 += other.1;
                            for (name, partial) in other.2 {
                                match one.2.get_mut(&name) {
                                    Some(sum) => sum.add(partial)?,
                                    None => drop(one.2.insert(name, partial)),
                                }
                            }
                            own.push(one);
                        }
                    }
                }
                limit(own.len())
            }
            (
                Partial::Numbers { count, min, max, sum },
                Partial::Numbers { count: more, min: less, max: greater, sum: parts },
            ) => {
                *count += more;
                *min = min.min(less);
                *max = max.max(greater);
                parts.into_iter().for_each(|part| add_exactly(sum, part));
                Ok(())
            }
            (Partial::Different(own), Partial::Different(more)) => {
                own.extend(more);
                match own.len() <= DIFFERENT {
                    true => Ok(()),
                    false => Err(format!("[cardinality] of more than {DIFFERENT} values")),
                }
            }
            _ => Err("two servers counted different things".into()),
        }
    }
}

fn limit(buckets: usize) -> Result<(), String> {
    match buckets <= BUCKETS {
        true => Ok(()),
        false => Err(too_many(buckets)),
    }
}

fn too_many(buckets: usize) -> String {
    format!(
        "Trying to create too many buckets. Must be less than or equal to: [{BUCKETS}] but was \
         [{buckets}]. This limit can be set by changing the [search.max_buckets] cluster level \
         setting."
    )
}

/// Counts over documents of a segment, whose numbers ascend.
pub fn count(
    aggregation: &Aggregation,
    segment: &Segment,
    docs: &[u32],
) -> Result<Partial, String> {
    let mut partial = Partial::nothing(&aggregation.what);
    let bucketed = |groups: BTreeMap<Key, Vec<u32>>| -> Result<Partial, String> {
        limit(groups.len())?;
        let mut buckets = Vec::with_capacity(groups.len());
        for (key, docs) in groups {
            buckets.push((key, docs.len() as u64, within(aggregation, segment, &docs)?));
        }
        Ok(Partial::Buckets(buckets))
    };
    match &aggregation.what {
        What::Terms { source, .. } => {
            let mut groups: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
            if let Source::Keyword(field) = source {
                // By number in the dictionary first, since strings are slow.
                let Some(column) = segment.strings(field) else { return Ok(partial) };
                let mut lists: Vec<Vec<u32>> = vec![Vec::new(); column.num_terms()];
                for &doc in docs {
                    for ord in column.term_ords(doc) {
                        let list = &mut lists[ord as usize];
                        if list.last() != Some(&doc) {
                            list.push(doc);
                        }
                    }
                }
                for (ord, list) in lists.into_iter().enumerate().filter(|(_, l)| !l.is_empty()) {
                    let mut word = String::new();
                    let found = column.ord_to_str(ord as u64, &mut word);
                    found.map_err(|error| error.to_string())?;
                    groups.insert(Key::Keyword(word), list);
                }
            } else {
                values(source, segment, docs, |doc, key| {
                    let list = groups.entry(key).or_default();
                    if list.last() != Some(&doc) {
                        list.push(doc);
                    }
                });
            }
            partial = bucketed(groups)?;
        }
        What::Histogram { source, interval, offset, .. } => {
            let mut groups: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
            values(source, segment, docs, |doc, key| {
                let value = match key {
                    Key::Long(value) => value as f64,
                    Key::Double(value) => value,
                    Key::Keyword(_) => return,
                };
                let bucket = ((value - offset) / interval).floor() * interval + offset;
                let list = groups.entry(Key::Double(bucket)).or_default();
                if list.last() != Some(&doc) {
                    list.push(doc);
                }
            });
            partial = bucketed(groups)?;
        }
        What::Ranges { source, ranges } => {
            let mut groups: BTreeMap<Key, Vec<u32>> =
                (0..ranges.len()).map(|at| (Key::Long(at as i64), Vec::new())).collect();
            values(source, segment, docs, |doc, key| {
                let value = match key {
                    Key::Long(value) => value as f64,
                    Key::Double(value) => value,
                    Key::Keyword(_) => return,
                };
                for (at, (from, to, _)) in ranges.iter().enumerate() {
                    let inside =
                        from.is_none_or(|from| value >= from) && to.is_none_or(|to| value < to);
                    let list = groups.entry(Key::Long(at as i64)).or_default();
                    if inside && list.last() != Some(&doc) {
                        list.push(doc);
                    }
                }
            });
            partial = bucketed(groups)?;
        }
        What::Filter(query) => {
            let mut matcher = Matcher::new(query, segment, None)?;
            let inside = matcher.among(docs, &mut Window::new());
            partial = bucketed(BTreeMap::from([(Key::Long(0), inside)]))?;
        }
        What::Numbers { source, .. } => {
            if let Partial::Numbers { count, min, max, sum } = &mut partial {
                values(source, segment, docs, |_, key| {
                    let value = match key {
                        Key::Long(value) => value as f64,
                        Key::Double(value) => value,
                        Key::Keyword(_) => f64::NAN,
                    };
                    *count += 1;
                    if value.is_finite() {
                        *min = min.min(value);
                        *max = max.max(value);
                        add_exactly(sum, value);
                    }
                });
            }
        }
        What::Cardinality(source) => {
            let mut different = BTreeSet::new();
            values(source, segment, docs, |_, key| {
                different.insert(key);
            });
            partial = Partial::Different(different);
        }
    }
    Ok(partial)
}

fn within(
    aggregation: &Aggregation,
    segment: &Segment,
    docs: &[u32],
) -> Result<BTreeMap<String, Partial>, String> {
    let one =
        |(name, inner): (&String, &Aggregation)| Ok((name.clone(), count(inner, segment, docs)?));
    aggregation.within.iter().map(one).collect()
}

/// Calls `each` with every value of every document, as the key of a bucket.
fn values(source: &Source, segment: &Segment, docs: &[u32], mut each: impl FnMut(u32, Key)) {
    match source {
        Source::Nothing => {}
        Source::Long(field) => {
            let Some(column) = segment.longs(field) else { return };
            for &doc in docs {
                column.values_for_doc(doc).for_each(|value| each(doc, Key::Long(value)));
            }
        }
        Source::Double(field) => {
            let Some(column) = segment.doubles(field) else { return };
            for &doc in docs {
                // One zero, so that it makes one bucket.
                column.values_for_doc(doc).for_each(|value| each(doc, Key::Double(value + 0.0)));
            }
        }
        Source::Keyword(field) => {
            let Some(column) = segment.strings(field) else { return };
            for &doc in docs {
                for ord in column.term_ords(doc) {
                    let mut word = String::new();
                    if matches!(column.ord_to_str(ord, &mut word), Ok(true)) {
                        each(doc, Key::Keyword(word));
                    }
                }
            }
        }
    }
}

/// Numbers over values; those of dates are shown as dates as well.
fn numbers(which: Number, shown: Shown, partial: &Partial) -> Value {
    let one = |which| number(partial, which);
    let all: Vec<(&str, Value)> = match which {
        Number::ValueCount => vec![("value", json!(one(Number::ValueCount) as u64))],
        Number::Sum => vec![("value", json!(one(Number::Sum)))],
        Number::Stats => vec![
            ("count", json!(one(Number::ValueCount) as u64)),
            ("min", finite(one(Number::Min))),
            ("max", finite(one(Number::Max))),
            ("avg", finite(one(Number::Avg))),
            ("sum", json!(one(Number::Sum))),
        ],
        which => vec![("value", finite(one(which)))],
    };
    let mut map = Map::new();
    for (name, value) in all {
        let date = value.as_f64().filter(|_| shown == Shown::Date && value.is_f64());
        map.insert(name.into(), value);
        if let Some(ms) = date {
            map.insert(format!("{name}_as_string"), json!(crate::date::write(ms as i64)));
        }
    }
    Value::Object(map)
}

/// As Elasticsearch writes it. `room` is how many buckets the answer may still have.
///
/// # Errors
/// When it would have more, those without documents included.
pub fn write(
    aggregation: &Aggregation,
    partial: Option<&Partial>,
    room: &mut usize,
) -> Result<Value, String> {
    let nothing = Partial::nothing(&aggregation.what);
    Ok(match (&aggregation.what, partial.unwrap_or(&nothing)) {
        (What::Terms { shown, size, order, least, .. }, Partial::Buckets(all)) => {
            let mut kept: Vec<&Bucket> = all.iter().filter(|(_, n, _)| n >= least).collect();
            kept.sort_by(|a, b| by(order, a, b).then_with(|| a.0.cmp(&b.0)));
            let rest: u64 = kept.iter().skip(*size).map(|(_, n, _)| n).sum();
            let shown = kept.iter().take(*size).map(|b| bucket(aggregation, b, *shown, room));
            let shown: Vec<Value> = shown.collect::<Result<_, String>>()?;
            json!({
                "doc_count_error_upper_bound": 0,
                "sum_other_doc_count": rest,
                "buckets": shown,
            })
        }
        (What::Histogram { shown, interval, least, .. }, Partial::Buckets(all)) => {
            let mut written = Vec::new();
            let mut last: Option<f64> = None;
            for one in all.iter().filter(|(_, n, _)| n >= least) {
                let Key::Double(key) = one.0 else { continue };
                if let Some(last) = last.filter(|_| *least == 0) {
                    let gaps = ((key - last) / interval).round() as usize;
                    for step in 1..gaps {
                        let empty =
                            (Key::Double(last + step as f64 * interval), 0, BTreeMap::new());
                        written.push(bucket(aggregation, &empty, *shown, room)?);
                    }
                }
                written.push(bucket(aggregation, one, *shown, room)?);
                last = Some(key);
            }
            json!({ "buckets": written })
        }
        (What::Ranges { ranges, .. }, Partial::Buckets(all)) => {
            let written = ranges.iter().enumerate().map(|(at, (from, to, name))| {
                let empty = (Key::Long(at as i64), 0, BTreeMap::new());
                let one = all.iter().find(|(key, ..)| *key == empty.0).unwrap_or(&empty);
                let mut map = Map::new();
                map.insert("key".into(), json!(name));
                from.iter().for_each(|from| drop(map.insert("from".into(), json!(from))));
                to.iter().for_each(|to| drop(map.insert("to".into(), json!(to))));
                inside(aggregation, one, &mut map, room)?;
                Ok(Value::Object(map))
            });
            json!({ "buckets": written.collect::<Result<Vec<_>, String>>()? })
        }
        (What::Filter(_), Partial::Buckets(all)) => {
            let empty = (Key::Long(0), 0, BTreeMap::new());
            let mut map = Map::new();
            inside(aggregation, all.first().unwrap_or(&empty), &mut map, room)?;
            Value::Object(map)
        }
        (What::Numbers { which, shown, .. }, Partial::Numbers { .. }) => {
            numbers(*which, *shown, partial.unwrap_or(&nothing))
        }
        (What::Cardinality(_), Partial::Different(all)) => json!({ "value": all.len() }),
        _ => Value::Null,
    })
}

fn finite(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

/// A number over values; of no values NaN, infinite or zero.
fn number(partial: &Partial, which: Number) -> f64 {
    let Partial::Numbers { count, min, max, sum } = partial else { return f64::NAN };
    match which {
        Number::Min => *min,
        Number::Max => *max,
        Number::Sum => rounded(sum),
        Number::Avg => rounded(sum) / *count as f64,
        Number::ValueCount | Number::Stats => *count as f64,
    }
}

/// The order of two buckets.
fn by(order: &Order, a: &Bucket, b: &Bucket) -> Ordering {
    let (order, descending) = match order {
        Order::Count { descending } => (a.1.cmp(&b.1), *descending),
        Order::Key { descending } => (a.0.cmp(&b.0), *descending),
        Order::Number { path: (name, of), descending } => {
            let value = |bucket: &Bucket| {
                let which = match of.as_str() {
                    "min" => Number::Min,
                    "max" => Number::Max,
                    "sum" => Number::Sum,
                    "count" => Number::ValueCount,
                    _ => Number::Avg,
                };
                match bucket.2.get(name) {
                    Some(Partial::Different(all)) => all.len() as f64,
                    Some(partial) => number(partial, which),
                    None => f64::NAN,
                }
            };
            (value(a).total_cmp(&value(b)), *descending)
        }
    };
    if descending { order.reverse() } else { order }
}

fn bucket(
    aggregation: &Aggregation,
    one: &Bucket,
    shown: Shown,
    room: &mut usize,
) -> Result<Value, String> {
    let mut map = Map::new();
    match (&one.0, shown) {
        (Key::Keyword(word), _) => drop(map.insert("key".into(), json!(word))),
        (Key::Long(value), Shown::Boolean) => {
            map.insert("key".into(), json!(value));
            map.insert("key_as_string".into(), json!(if *value == 0 { "false" } else { "true" }));
        }
        (Key::Long(value), Shown::Date) => {
            map.insert("key_as_string".into(), json!(crate::date::write(*value)));
            map.insert("key".into(), json!(value));
        }
        (Key::Double(value), Shown::Date) => {
            map.insert("key_as_string".into(), json!(crate::date::write(*value as i64)));
            map.insert("key".into(), json!(*value as i64));
        }
        (Key::Long(value), Shown::Number) => drop(map.insert("key".into(), json!(value))),
        (Key::Double(value), _) => drop(map.insert("key".into(), json!(value))),
    }
    inside(aggregation, one, &mut map, room)?;
    Ok(Value::Object(map))
}

fn inside(
    aggregation: &Aggregation,
    one: &Bucket,
    map: &mut Map<String, Value>,
    room: &mut usize,
) -> Result<(), String> {
    *room = room.checked_sub(1).ok_or_else(|| too_many(BUCKETS + 1))?;
    map.insert("doc_count".into(), json!(one.1));
    for (name, inner) in &aggregation.within {
        map.insert(name.clone(), write(inner, one.2.get(name), room)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_does_not_depend_on_the_order_of_its_parts() {
        let values = [1e300, 0.1, -1e300, 0.2, 0.3, 1e-300, 7e15, 0.7, -7e15];
        let sum = |order: &mut dyn Iterator<Item = f64>| {
            let mut parts = Vec::new();
            order.for_each(|value| add_exactly(&mut parts, value));
            rounded(&parts).to_bits()
        };
        let one = sum(&mut values.iter().copied());
        assert_eq!(one, sum(&mut values.iter().rev().copied()));
        let mut two = Vec::new();
        let mut halves = [Vec::new(), Vec::new()];
        for (at, value) in values.iter().enumerate() {
            add_exactly(&mut halves[at % 2], *value);
        }
        halves.iter().flatten().for_each(|part| add_exactly(&mut two, *part));
        assert_eq!(one, rounded(&two).to_bits());
        assert!((f64::from_bits(one) - 1.3).abs() < 1e-15);
    }
}
