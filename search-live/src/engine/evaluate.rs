//! Which documents of an interval meet a condition, and how well.
//!
//! A condition is looked at window by window: it fills in which documents of a window meet it, and
//! their scores. Scores of several conditions add up in the order in which they were written, so
//! that the score of a document is the same to the last bit whatever the slice, the segment and the
//! server; tantivy's own scorers add in an order that depends on what else is in the segment.

use super::question::{Query, Statistics};
use super::segment::{Segment, TextField};
use std::ops::{Bound, Range};
use tantivy::columnar::Column;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// Documents of a window.
pub const WINDOW: u32 = 2_048;
const WORDS: usize = WINDOW as usize / 64;

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// What a condition says of one window.
#[derive(Debug)]
pub struct Window {
    bits: [u64; WORDS],
    scores: Vec<f64>,
}

impl Default for Window {
    fn default() -> Self {
        Window::new()
    }
}

impl Window {
    /// An empty one.
    pub fn new() -> Window {
        Window { bits: [0; WORDS], scores: vec![0.0; WINDOW as usize] }
    }

    fn clear(&mut self) {
        self.bits = [0; WORDS];
    }

    fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    #[inline]
    fn set(&mut self, at: u32, score: f64) {
        self.bits[at as usize / 64] |= 1 << (at % 64);
        self.scores[at as usize] = score;
    }

    /// Calls `each` with the place and score of each document.
    #[inline]
    pub fn each(&self, mut each: impl FnMut(u32, f64)) {
        for (number, &word) in self.bits.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                let at = number as u32 * 64 + left.trailing_zeros();
                each(at, self.scores[at as usize]);
                left &= left - 1;
            }
        }
    }
}

/// The score of a word in a document: BM25 as Lucene computes it.
struct Bm25 {
    weight: f32,
    /// By the length of the field, coded in a byte.
    inverse: Box<[f32; 256]>,
    norms: FieldNormReader,
}

impl Bm25 {
    fn new(
        text: &TextField,
        field: &str,
        words: &[String],
        boost: f32,
        statistics: &Statistics,
    ) -> Bm25 {
        let of = statistics.fields.get(field).copied().unwrap_or_default();
        let (documents, total) = (of.documents.max(1) as f64, of.words.max(1) as f64);
        let average = (total / documents) as f32;
        let idf = |word: &String| {
            let known = statistics.words.get(field).and_then(|words| words.get(word));
            let having = known.copied().unwrap_or(0) as f64;
            (1.0 + (documents.max(having) - having + 0.5) / (having + 0.5)).ln()
        };
        let idf: f64 = words.iter().map(idf).sum();
        let weight = boost * (1.0 + K1) * idf as f32;
        let mut inverse = Box::new([0.0; 256]);
        for (code, inverse) in inverse.iter_mut().enumerate() {
            let length = FieldNormReader::id_to_fieldnorm(code as u8) as f32;
            *inverse = 1.0 / (K1 * ((1.0 - B) + B * length / average));
        }
        Bm25 { weight, inverse, norms: text.norms.clone() }
    }

    #[inline]
    fn score(&self, doc: DocId, frequency: u32) -> f64 {
        let inverse = self.inverse[self.norms.fieldnorm_id(doc) as usize];
        f64::from(self.weight - self.weight / (1.0 + frequency as f32 * inverse))
    }
}

/// A condition that looks at one segment.
enum Node {
    Nothing,
    All,
    Word {
        postings: Box<SegmentPostings>,
        bm25: Option<Bm25>,
    },
    Phrase {
        postings: Vec<SegmentPostings>,
        bm25: Option<Bm25>,
        places: [Vec<u32>; 2],
    },
    /// Documents that were looked up; the first is that of the first bit.
    Set {
        first: DocId,
        bits: Vec<u64>,
    },
    Longs {
        column: Column<i64>,
        least: i64,
        most: i64,
    },
    Doubles {
        column: Column<f64>,
        least: f64,
        most: f64,
    },
    Bool(Box<Both>),
    Constant(Box<Node>),
}

struct Both {
    must: Vec<(Node, f64)>,
    should: Vec<(Node, f64)>,
    filter: Vec<(Node, f64)>,
    must_not: Vec<(Node, f64)>,
    least: usize,
    /// The score is the best of `should`, and not their sum.
    best: bool,
    child: Window,
    counts: Vec<u16>,
}

/// A condition that looks at one segment, window by window, in ascending order.
pub struct Matcher {
    node: Node,
    /// Multiplies or is the score.
    boost: f64,
    at: Range<u32>,
}

/// The text of a fault in an index.
fn broken(error: impl std::fmt::Display) -> String {
    format!("cannot read a segment: {error}")
}

impl Matcher {
    /// For all of a segment. Without statistics no scores are computed.
    pub fn new(
        query: &Query,
        segment: &Segment,
        statistics: Option<&Statistics>,
    ) -> Result<Matcher, String> {
        Matcher::within(query, segment, 0..segment.count(), statistics)
    }

    /// For an interval of documents.
    pub fn within(
        query: &Query,
        segment: &Segment,
        range: Range<u32>,
        statistics: Option<&Statistics>,
    ) -> Result<Matcher, String> {
        let (node, boost) = build(query, segment, &range, statistics)?;
        Ok(Matcher { node, boost, at: range })
    }

    /// Fills in the next window in which a document may be; returns its first document.
    pub fn next(&mut self, window: &mut Window) -> Option<DocId> {
        let first = self.node.next(self.at.start);
        if first >= self.at.end {
            return None;
        }
        let end = first.saturating_add(WINDOW).min(self.at.end);
        window.clear();
        self.node.fill(first..end, window);
        self.at.start = end;
        if self.boost != 1.0 {
            let boost = self.boost;
            window.scores.iter_mut().for_each(|score| *score *= boost);
        }
        Some(first)
    }

    /// Those of `docs`, which ascend, that meet the condition.
    pub fn among(&mut self, docs: &[u32], window: &mut Window) -> Vec<u32> {
        let mut kept = Vec::new();
        let mut left = docs;
        while let Some(first) = self.next(window) {
            left = &left[left.partition_point(|doc| *doc < first)..];
            let here = left.partition_point(|doc| *doc < first + WINDOW);
            kept.extend(left[..here].iter().copied().filter(|doc| {
                let at = doc - first;
                window.bits[at as usize / 64] >> (at % 64) & 1 == 1
            }));
            left = &left[here..];
        }
        kept
    }
}

fn postings(
    segment: &Segment,
    field: Field,
    word: &str,
    option: IndexRecordOption,
) -> Result<Option<SegmentPostings>, String> {
    let index = segment.reader.inverted_index(field).map_err(broken)?;
    index.read_postings(&Term::from_field_text(field, word), option).map_err(broken)
}

/// Documents of a set of words.
struct Set<'a> {
    range: &'a Range<u32>,
    bits: Vec<u64>,
}

impl<'a> Set<'a> {
    fn new(range: &'a Range<u32>) -> Set<'a> {
        Set { range, bits: vec![0; range.len().div_ceil(64)] }
    }

    fn put(&mut self, doc: DocId) {
        let at = doc - self.range.start;
        self.bits[at as usize / 64] |= 1 << (at % 64);
    }

    fn add(&mut self, mut postings: SegmentPostings) {
        let mut doc = postings.doc();
        if doc < self.range.start {
            doc = postings.seek(self.range.start);
        }
        while doc < self.range.end {
            self.put(doc);
            doc = postings.advance();
        }
    }

    fn node(self) -> Node {
        match self.bits.iter().all(|word| *word == 0) {
            true => Node::Nothing,
            false => Node::Set { first: self.range.start, bits: self.bits },
        }
    }
}

/// All words of a field between two bounds.
fn between(
    segment: &Segment,
    field: Field,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
    prefix: Option<&[u8]>,
    set: &mut Set<'_>,
) -> Result<(), String> {
    let index = segment.reader.inverted_index(field).map_err(broken)?;
    let mut range = index.terms().range();
    range = match bounds.0 {
        Bound::Included(least) => range.ge(least),
        Bound::Excluded(least) => range.gt(least),
        Bound::Unbounded => range,
    };
    range = match bounds.1 {
        Bound::Included(most) => range.le(most),
        Bound::Excluded(most) => range.lt(most),
        Bound::Unbounded => range,
    };
    let mut words = range.into_stream().map_err(broken)?;
    while let Some((word, info)) = words.next() {
        if prefix.is_some_and(|prefix| !word.starts_with(prefix)) {
            break;
        }
        let option = IndexRecordOption::Basic;
        set.add(index.read_postings_from_terminfo(info, option).map_err(broken)?);
    }
    Ok(())
}

fn build(
    query: &Query,
    segment: &Segment,
    range: &Range<u32>,
    statistics: Option<&Statistics>,
) -> Result<(Node, f64), String> {
    let plain = IndexRecordOption::Basic;
    let field_of = |path: &str, is_text: bool| match is_text {
        true => segment.text(path).map(|text| text.field),
        false => segment.keyword(path),
    };
    Ok(match query {
        Query::All => (Node::All, 1.0),
        Query::Nothing => (Node::Nothing, 0.0),
        Query::Word { field, word, boost } => {
            let Some(text) = segment.text(field) else { return Ok((Node::Nothing, 0.0)) };
            let option = if statistics.is_some() { IndexRecordOption::WithFreqs } else { plain };
            let bm25 = statistics
                .map(|known| Bm25::new(text, field, std::slice::from_ref(word), *boost, known));
            match postings(segment, text.field, word, option)? {
                Some(postings) => (Node::Word { postings: Box::new(postings), bm25 }, 1.0),
                None => (Node::Nothing, 0.0),
            }
        }
        Query::Phrase { field, words, boost } => {
            let Some(text) = segment.text(field) else { return Ok((Node::Nothing, 0.0)) };
            let mut all = Vec::with_capacity(words.len());
            for word in words {
                let option = IndexRecordOption::WithFreqsAndPositions;
                match postings(segment, text.field, word, option)? {
                    Some(postings) => all.push(postings),
                    None => return Ok((Node::Nothing, 0.0)),
                }
            }
            let bm25 = statistics.map(|known| Bm25::new(text, field, words, *boost, known));
            (Node::Phrase { postings: all, bm25, places: [Vec::new(), Vec::new()] }, 1.0)
        }
        Query::Strings { field, text, strings, boost } => {
            let Some(own) = field_of(field, *text) else { return Ok((Node::Nothing, 0.0)) };
            let mut set = Set::new(range);
            for word in strings {
                if let Some(postings) = postings(segment, own, word, plain)? {
                    set.add(postings);
                }
            }
            (Node::Constant(Box::new(set.node())), f64::from(*boost))
        }
        Query::Prefix { field, text, prefix, boost } => {
            let Some(own) = field_of(field, *text) else { return Ok((Node::Nothing, 0.0)) };
            let mut set = Set::new(range);
            let bounds = (Bound::Included(prefix.as_bytes()), Bound::Unbounded);
            between(segment, own, bounds, Some(prefix.as_bytes()), &mut set)?;
            (Node::Constant(Box::new(set.node())), f64::from(*boost))
        }
        Query::Between { field, least, most, boost } => {
            let Some(own) = segment.keyword(field) else { return Ok((Node::Nothing, 0.0)) };
            let bound = |bound: &Option<(String, bool)>| match bound {
                Some((word, true)) => Bound::Included(word.clone().into_bytes()),
                Some((word, false)) => Bound::Excluded(word.clone().into_bytes()),
                None => Bound::Unbounded,
            };
            let (least, most) = (bound(least), bound(most));
            let bounds = (least.as_ref().map(Vec::as_slice), most.as_ref().map(Vec::as_slice));
            let mut set = Set::new(range);
            between(segment, own, bounds, None, &mut set)?;
            (Node::Constant(Box::new(set.node())), f64::from(*boost))
        }
        Query::Longs { field, least, most, boost } => match segment.longs(field) {
            Some(column) if least <= most => {
                let (column, least, most) = (column.clone(), *least, *most);
                (Node::Constant(Box::new(Node::Longs { column, least, most })), f64::from(*boost))
            }
            _ => (Node::Nothing, 0.0),
        },
        Query::Doubles { field, least, most, boost } => match segment.doubles(field) {
            Some(column) if least <= most => {
                let (column, least, most) = (column.clone(), *least, *most);
                let node = Node::Doubles { column, least, most };
                (Node::Constant(Box::new(node)), f64::from(*boost))
            }
            _ => (Node::Nothing, 0.0),
        },
        Query::Exists { field, boost } => {
            let mut set = Set::new(range);
            let (text, strings) = (segment.text(field), segment.strings(field));
            let (longs, doubles) = (segment.longs(field), segment.doubles(field));
            for doc in range.clone() {
                let has = text.is_some_and(|text| text.within(&(doc..doc + 1)).0 > 0)
                    || strings.is_some_and(|column| column.ords().first(doc).is_some())
                    || longs.is_some_and(|column| column.first(doc).is_some())
                    || doubles.is_some_and(|column| column.first(doc).is_some());
                if has {
                    set.put(doc);
                }
            }
            (Node::Constant(Box::new(set.node())), f64::from(*boost))
        }
        Query::Ids { ids, boost } => {
            let mut set = Set::new(range);
            let wanted: std::collections::BTreeSet<&str> = ids.iter().map(String::as_str).collect();
            for doc in range.clone() {
                if wanted.contains(segment.doc(doc).entry.id.as_str()) {
                    set.put(doc);
                }
            }
            (Node::Constant(Box::new(set.node())), f64::from(*boost))
        }
        Query::Bool { must, should, filter, must_not, least, boost } => {
            let all = |queries: &[Query], statistics: Option<&Statistics>| {
                let one = |query| build(query, segment, range, statistics);
                queries.iter().map(one).collect::<Result<Vec<_>, _>>()
            };
            // Of conditions that a document may meet it meets one, if there is none that it must.
            let some = must.is_empty() && filter.is_empty() && !should.is_empty();
            let least = (*least).max(usize::from(some));
            let both = Both {
                must: all(must, statistics)?,
                should: all(should, statistics)?,
                filter: all(filter, None)?,
                must_not: all(must_not, None)?,
                least,
                best: false,
                child: Window::new(),
                counts: vec![0; if least > 1 { WINDOW as usize } else { 0 }],
            };
            (Node::Bool(Box::new(both)), f64::from(*boost))
        }
        Query::Best { of, boost } => {
            let one = |query| build(query, segment, range, statistics);
            let both = Both {
                must: Vec::new(),
                should: of.iter().map(one).collect::<Result<Vec<_>, _>>()?,
                filter: Vec::new(),
                must_not: Vec::new(),
                least: 1,
                best: true,
                child: Window::new(),
                counts: Vec::new(),
            };
            (Node::Bool(Box::new(both)), f64::from(*boost))
        }
        Query::Constant { of, boost } => {
            let (node, _) = build(of, segment, range, None)?;
            (Node::Constant(Box::new(node)), f64::from(*boost))
        }
    })
}

impl Node {
    /// A document from `from` on before which nothing meets the condition; the end if there is
    /// none.
    fn next(&mut self, from: DocId) -> DocId {
        let seek = |postings: &mut SegmentPostings| {
            let doc = postings.doc();
            if doc < from { postings.seek(from) } else { doc }
        };
        match self {
            Node::Nothing => TERMINATED,
            Node::All | Node::Longs { .. } | Node::Doubles { .. } => from,
            Node::Word { postings, .. } => seek(postings),
            Node::Phrase { postings, .. } => {
                postings.iter_mut().map(seek).max().unwrap_or(TERMINATED)
            }
            Node::Set { first, bits } => {
                let at = from.saturating_sub(*first);
                let mut word = at as usize / 64;
                let mut mask = !0 << (at % 64);
                while let Some(here) = bits.get(word) {
                    if here & mask != 0 {
                        let bit = (here & mask).trailing_zeros();
                        return *first + word as u32 * 64 + bit;
                    }
                    (word, mask) = (word + 1, !0);
                }
                TERMINATED
            }
            Node::Constant(node) => node.next(from),
            Node::Bool(both) => {
                let needed = both.must.iter_mut().chain(&mut both.filter);
                let needed = needed.map(|(node, _)| node.next(from)).max();
                let optional = match (both.least, needed) {
                    (0, Some(_)) => None,
                    (0, None) if both.should.is_empty() => None,
                    _ => Some(
                        both.should
                            .iter_mut()
                            .map(|(node, _)| node.next(from))
                            .min()
                            .unwrap_or(TERMINATED),
                    ),
                };
                needed.into_iter().chain(optional).max().unwrap_or(from)
            }
        }
    }

    /// Says which documents of `range`, at most a window of them, meet the condition.
    fn fill(&mut self, range: Range<DocId>, window: &mut Window) {
        let base = range.start;
        match self {
            Node::Nothing => {}
            Node::All => range.for_each(|doc| window.set(doc - base, 1.0)),
            Node::Word { postings, bm25 } => {
                let mut doc = postings.doc();
                if doc < base {
                    doc = postings.seek(base);
                }
                while doc < range.end {
                    let score =
                        bm25.as_ref().map_or(0.0, |bm25| bm25.score(doc, postings.term_freq()));
                    window.set(doc - base, score);
                    doc = postings.advance();
                }
            }
            Node::Phrase { postings, bm25, places } => {
                let mut doc = base;
                'docs: while doc < range.end {
                    let mut all = doc;
                    for own in postings.iter_mut() {
                        let at = own.doc();
                        let at = if at < all { own.seek(all) } else { at };
                        all = all.max(at);
                    }
                    if all >= range.end {
                        break 'docs;
                    }
                    if postings.iter().all(|own| own.doc() == all) {
                        let times = times(postings, places);
                        if times > 0 {
                            let score = bm25.as_ref().map_or(0.0, |bm25| bm25.score(all, times));
                            window.set(all - base, score);
                        }
                        doc = all + 1;
                    } else {
                        doc = all;
                    }
                }
            }
            Node::Set { first, bits } => {
                for doc in range {
                    let at = doc - *first;
                    if bits[at as usize / 64] >> (at % 64) & 1 == 1 {
                        window.set(doc - base, 1.0);
                    }
                }
            }
            Node::Longs { column, least, most } => {
                for doc in range {
                    if column.values_for_doc(doc).any(|value| (*least..=*most).contains(&value)) {
                        window.set(doc - base, 1.0);
                    }
                }
            }
            Node::Doubles { column, least, most } => {
                for doc in range {
                    if column.values_for_doc(doc).any(|value| (*least..=*most).contains(&value)) {
                        window.set(doc - base, 1.0);
                    }
                }
            }
            Node::Constant(node) => {
                node.fill(range, window);
                window.scores.fill(1.0);
            }
            Node::Bool(both) => both.fill(range, window),
        }
    }
}

/// How often words follow each other in the document at which all of them are.
fn times(postings: &mut [SegmentPostings], places: &mut [Vec<u32>; 2]) -> u32 {
    let [here, next] = places;
    for (at, own) in postings.iter_mut().enumerate() {
        own.positions(next);
        if at == 0 {
            std::mem::swap(here, next);
        } else {
            here.retain(|first| next.binary_search(&(first + at as u32)).is_ok());
        }
    }
    here.len() as u32
}

impl Both {
    fn fill(&mut self, range: Range<DocId>, window: &mut Window) {
        let length = range.len();
        let child = &mut self.child;
        let mut begun = false;
        window.scores[..length].fill(0.0);
        let must = self.must.iter_mut().map(|one| (one, true));
        for ((node, boost), scores) in must.chain(self.filter.iter_mut().map(|one| (one, false))) {
            child.clear();
            node.fill(range.clone(), child);
            if begun {
                window.bits.iter_mut().zip(child.bits).for_each(|(own, other)| *own &= other);
            } else {
                window.bits = child.bits;
                begun = true;
            }
            if scores {
                child.each(|at, score| window.scores[at as usize] += score * *boost);
            }
            if window.is_empty() {
                return;
            }
        }
        if !begun && self.least == 0 {
            (0..length as u32).for_each(|at| window.bits[at as usize / 64] |= 1 << (at % 64));
        }
        let mut any = [0; WORDS];
        if self.least > 1 {
            self.counts[..length].fill(0);
        }
        for (node, boost) in &mut self.should {
            child.clear();
            node.fill(range.clone(), child);
            any.iter_mut().zip(child.bits).for_each(|(own, other)| *own |= other);
            child.each(|at, score| {
                let sum = &mut window.scores[at as usize];
                *sum = if self.best { sum.max(score * *boost) } else { *sum + score * *boost };
            });
            if self.least > 1 {
                child.each(|at, _| self.counts[at as usize] += 1);
            }
        }
        if self.least > 1 {
            any = [0; WORDS];
            for at in 0..length {
                if usize::from(self.counts[at]) >= self.least {
                    any[at / 64] |= 1 << (at % 64);
                }
            }
        }
        if self.least > 0 {
            match begun {
                true => window.bits.iter_mut().zip(any).for_each(|(own, other)| *own &= other),
                false => window.bits = any,
            }
        }
        for (node, _) in &mut self.must_not {
            if window.is_empty() {
                return;
            }
            child.clear();
            node.fill(range.clone(), child);
            window.bits.iter_mut().zip(child.bits).for_each(|(own, other)| *own &= !other);
        }
    }
}
