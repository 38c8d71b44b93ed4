//! What a front end asks of a server about a slice, and what it hears.

use super::aggregate::{Aggregation, Partial, or_infinity, or_minus_infinity};
use super::entry::Typed;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A condition on documents, with fields resolved by the mapping.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Query {
    /// Every document; scores 1.
    All,
    /// None.
    Nothing,
    /// A word of a text field, scored.
    Word {
        /// The field's path.
        field: String,
        /// The word, analysed.
        word: String,
        /// Multiplies the score.
        boost: f32,
    },
    /// Words of a text field in a row, scored as one.
    Phrase {
        /// The field's path.
        field: String,
        /// The words, analysed; at least two.
        words: Vec<String>,
        /// Multiplies the score.
        boost: f32,
    },
    /// One of these exact strings; of a text field, one of these words. Scores the boost.
    Strings {
        /// The field's path.
        field: String,
        /// Of a text field.
        text: bool,
        /// Which.
        strings: Vec<String>,
        /// The score.
        boost: f32,
    },
    /// A string, or a word of a text, that begins so. Scores the boost.
    Prefix {
        /// The field's path.
        field: String,
        /// Of a text field.
        text: bool,
        /// The beginning.
        prefix: String,
        /// The score.
        boost: f32,
    },
    /// A string between two bounds. Scores the boost.
    Between {
        /// The field's path, of keywords.
        field: String,
        /// The least, and whether itself belongs.
        least: Option<(String, bool)>,
        /// The greatest, and whether itself belongs.
        most: Option<(String, bool)>,
        /// The score.
        boost: f32,
    },
    /// A whole number from `least` to `most`. Scores the boost.
    Longs {
        /// The field's path.
        field: String,
        /// The least.
        least: i64,
        /// The greatest.
        most: i64,
        /// The score.
        boost: f32,
    },
    /// A floating-point number from `least` to `most`. Scores the boost.
    Doubles {
        /// The field's path.
        field: String,
        /// The least; JSON has no infinite one.
        #[serde(deserialize_with = "or_minus_infinity")]
        least: f64,
        /// The greatest.
        #[serde(deserialize_with = "or_infinity")]
        most: f64,
        /// The score.
        boost: f32,
    },
    /// The field has a value. Scores the boost.
    Exists {
        /// The field's path, under each kind that it is indexed as.
        field: String,
        /// The score.
        boost: f32,
    },
    /// These documents. Scores the boost.
    Ids {
        /// By `_id`.
        ids: Vec<String>,
        /// The score.
        boost: f32,
    },
    /// Others put together.
    Bool {
        /// All of them; scores add up.
        must: Vec<Query>,
        /// As many as `least`; scores add up.
        should: Vec<Query>,
        /// All of them, without scores.
        filter: Vec<Query>,
        /// None of them.
        must_not: Vec<Query>,
        /// How many of `should`.
        least: usize,
        /// Multiplies the score.
        boost: f32,
    },
    /// One of others; the score is the best that any of them gives.
    Best {
        /// Which.
        of: Vec<Query>,
        /// Multiplies the score.
        boost: f32,
    },
    /// Another one, with this score for all.
    Constant {
        /// The condition.
        of: Box<Query>,
        /// The score.
        boost: f32,
    },
}

impl Query {
    /// Calls `each` with every scored word and its field.
    pub fn words(&self, each: &mut impl FnMut(&str, &str)) {
        match self {
            Query::Word { field, word, .. } => each(field, word),
            Query::Phrase { field, words, .. } => words.iter().for_each(|word| each(field, word)),
            Query::Bool { must, should, .. } => {
                must.iter().chain(should).for_each(|query| query.words(each));
            }
            Query::Best { of, .. } => of.iter().for_each(|query| query.words(each)),
            _ => {}
        }
    }

    /// How many conditions it has.
    pub fn clauses(&self) -> usize {
        match self {
            Query::Bool { must, should, filter, must_not, .. } => {
                let all = must.iter().chain(should).chain(filter).chain(must_not);
                1 + all.map(Query::clauses).sum::<usize>()
            }
            Query::Best { of, .. } => 1 + of.iter().map(Query::clauses).sum::<usize>(),
            Query::Constant { of, .. } => 1 + of.clauses(),
            Query::Strings { strings, .. } => strings.len(),
            _ => 1,
        }
    }
}

/// By what hits are put in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SortKey {
    /// Of what.
    pub by: SortBy,
    /// The greatest first.
    pub descending: bool,
    /// Documents without a value come first.
    pub missing_first: bool,
}

/// What of a document decides its place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum SortBy {
    /// How well it matches.
    Score,
    /// Its place on the ring.
    Doc,
    /// `_id`.
    Id,
    /// A field of whole numbers.
    Long(String),
    /// A field of floating-point numbers.
    Double(String),
    /// A field of keywords.
    Keyword(String),
}

/// A value by which hits are put in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum SortValue {
    /// The document has none.
    Missing,
    /// A whole number.
    Long(i64),
    /// A floating-point number, a score too.
    Double(f64),
    /// A string.
    Keyword(String),
    /// A place on the ring.
    Ring(u64),
}

/// The order of two lists of sort values, by the keys that they belong to.
pub fn compare(keys: &[SortKey], one: &[SortValue], other: &[SortValue]) -> Ordering {
    for ((key, a), b) in keys.iter().zip(one).zip(other) {
        let order = match (a, b) {
            (SortValue::Missing, SortValue::Missing) => Ordering::Equal,
            (SortValue::Missing, _) if key.missing_first => Ordering::Less,
            (SortValue::Missing, _) => Ordering::Greater,
            (_, SortValue::Missing) if key.missing_first => Ordering::Greater,
            (_, SortValue::Missing) => Ordering::Less,
            _ => {
                let order = match (a, b) {
                    (SortValue::Long(a), SortValue::Long(b)) => a.cmp(b),
                    (SortValue::Keyword(a), SortValue::Keyword(b)) => a.cmp(b),
                    (SortValue::Ring(a), SortValue::Ring(b)) => a.cmp(b),
                    (a, b) => number(a).total_cmp(&number(b)),
                };
                if key.descending { order.reverse() } else { order }
            }
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn number(value: &SortValue) -> f64 {
    match value {
        SortValue::Long(value) => *value as f64,
        SortValue::Double(value) => *value,
        SortValue::Ring(value) => *value as f64,
        SortValue::Missing | SortValue::Keyword(_) => f64::NAN,
    }
}

/// Which documents, in which order, and what is counted over them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Search {
    /// The condition.
    pub query: Query,
    /// Another one that hits must meet, and aggregations do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_filter: Option<Query>,
    /// Of all documents, for scores. Summed over slices that tile the ring.
    pub statistics: Statistics,
    /// Hits at most.
    pub hits: usize,
    /// The order; at least one key.
    pub sort: Vec<SortKey>,
    /// Hits after this one alone: its sort values, and where on the ring it is if the client said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<(Vec<SortValue>, Option<u64>)>,
    /// Only documents of at least this score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_score: Option<f32>,
    /// Hits carry their source.
    pub source: bool,
    /// What is counted, by name.
    #[serde(default)]
    pub aggregations: BTreeMap<String, Aggregation>,
}

/// What a server is asked about a slice.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Question {
    /// These documents, whether or not the index knows them yet.
    Get(Vec<String>),
    /// How often these words are in how many documents: the first is the field.
    Statistics(Vec<(String, Vec<String>)>),
    /// A search.
    Search(Box<Search>),
    /// Take in all that is logged.
    Refresh,
    /// How many documents there are, and how much they take.
    Size,
}

/// One text field over all documents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FieldStatistics {
    /// Documents that have it.
    pub documents: u64,
    /// Words in all of them together.
    pub words: u64,
}

/// What scores need to know of all documents `[roar 0.7]`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// By field.
    pub fields: BTreeMap<String, FieldStatistics>,
    /// Documents that have a word, by field and word.
    pub words: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Statistics {
    /// Those of another slice come on top.
    pub fn add(&mut self, other: &Statistics) {
        for (field, more) in &other.fields {
            let sum = self.fields.entry(field.clone()).or_default();
            sum.documents += more.documents;
            sum.words += more.words;
        }
        for (field, words) in &other.words {
            let sums = self.words.entry(field.clone()).or_default();
            for (word, more) in words {
                *sums.entry(word.clone()).or_default() += more;
            }
        }
    }
}

/// A document that was found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Hit {
    /// Where on the ring.
    pub ring: u64,
    /// `_id`.
    pub id: String,
    /// The bits of its score as a float of 32 bits.
    pub score: u32,
    /// What decided its place.
    pub sort: Vec<SortValue>,
    /// `_version`.
    pub count: u64,
    /// `_seq_no`.
    pub seq_no: u64,
    /// `_source`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// What a server found in a slice.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Finding {
    /// The documents that are there, of those asked for; `deleted` ones have no source.
    Got(Vec<Got>),
    /// For scores.
    Statistics(Statistics),
    /// For a search.
    Found(Found),
    /// It has been taken in, by this server.
    Refreshed {
        /// Its number.
        server: u32,
    },
    /// How much there is.
    Size {
        /// Documents.
        documents: u64,
        /// Bytes of their sources.
        bytes: u64,
    },
    /// The question could not be answered.
    Failed(String),
}

/// A document that was asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Got {
    /// `_id`.
    pub id: String,
    /// It was deleted.
    pub deleted: bool,
    /// `_version`.
    pub count: u64,
    /// `_seq_no`.
    pub seq_no: u64,
    /// `_source`.
    pub source: String,
    /// The indexed values.
    #[serde(default)]
    pub fields: Vec<(String, Typed)>,
}

/// What a search found in a slice, or in several.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Documents that meet the condition.
    pub total: u64,
    /// The first of them, in order.
    pub hits: Vec<Hit>,
    /// The bits of the greatest score of all.
    pub best: Option<u32>,
    /// What was counted.
    #[serde(default)]
    pub aggregations: BTreeMap<String, Partial>,
}

impl Found {
    /// What was found in another slice comes to this.
    pub fn add(&mut self, other: Found, search: &Search) -> Result<(), String> {
        self.total += other.total;
        let score = |bits: u32| f32::from_bits(bits);
        self.best = match (self.best, other.best) {
            (Some(a), Some(b)) if score(b) > score(a) => Some(b),
            (a, b) => a.or(b),
        };
        self.hits.extend(other.hits);
        self.hits.sort_by(|a, b| {
            compare(&search.sort, &a.sort, &b.sort).then_with(|| a.ring.cmp(&b.ring))
        });
        self.hits.truncate(search.hits);
        for (name, partial) in other.aggregations {
            match self.aggregations.get_mut(&name) {
                Some(sum) => sum.add(partial)?,
                None => drop(self.aggregations.insert(name, partial)),
            }
        }
        Ok(())
    }
}
