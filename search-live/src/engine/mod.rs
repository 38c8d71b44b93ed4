//! The documents of one server: what is logged, what is indexed, and answers about slices.
//!
//! A document is *pending* from the moment when it is logged, and indexed by the next refresh,
//! which puts all pending ones into a new segment. Until then searches meet its older version. A
//! document that was written with `refresh` is different: no search begins before it is indexed,
//! and a search that comes first indexes it itself. That holds for what the server holds: what is
//! being copied, or written beside a copy, nobody is asked for yet, so no search waits for it.
//! Segments are merged in the background, by tiers of size; documents that were replaced or that
//! the server need not hold any more go away then.
//!
//! Searches wait for no work in the background: a document may be put into two segments at a time,
//! and whoever is second finds that it is there.

pub mod aggregate;
pub mod aside;
pub mod entry;
pub mod evaluate;
pub mod question;
pub mod segment;
pub mod text;

use cavy_search::ring::Slice;
use entry::{Entry, ring_id};
use evaluate::{Matcher, Window};
use question::{
    Finding, Found, Got, Hit, Question, Search, SortBy, SortValue, Statistics, compare,
};
use segment::{Chosen, Doc, Segment};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Segments of about one size before they are merged.
const TIER: u32 = 4;

/// Which segments of these sizes to merge: where there are four of about one size, these and all
/// smaller ones; of the greatest such size. A document is then written anew as often as there are
/// sizes, and not whenever four small segments have come.
fn alike(sizes: &[u32]) -> Vec<usize> {
    let tier = |size: &u32| size.max(&1).ilog(TIER);
    let count = |of: u32| sizes.iter().filter(|size| tier(size) == of).count();
    let full = sizes.iter().map(tier).filter(|of| count(*of) >= TIER as usize).max();
    let small = |at: &usize| full.is_some_and(|of| tier(&sizes[*at]) <= of);
    (0..sizes.len()).filter(small).collect()
}

/// A segment as searches see it.
#[derive(Clone, Debug)]
struct Part {
    number: u64,
    segment: Arc<Segment>,
    /// By document: replaced, deleted or not held.
    dead: Arc<Vec<u64>>,
    alive: u32,
}

impl Part {
    fn is_dead(&self, doc: u32) -> bool {
        self.dead[doc as usize / 64] >> (doc % 64) & 1 == 1
    }

    /// Dead documents of an interval.
    fn dead_within(&self, range: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        let whole = self.alive == self.segment.count();
        let range = if whole { 0..0 } else { range };
        range.filter(|doc| self.is_dead(*doc))
    }

    fn kill(&mut self, doc: u32) {
        if !self.is_dead(doc) {
            Arc::make_mut(&mut self.dead)[doc as usize / 64] |= 1 << (doc % 64);
            self.alive -= 1;
        }
    }
}

/// Where the newest version of a document is.
#[derive(Clone, Debug)]
struct Newest {
    version: u64,
    /// Not indexed, or not in the newest version; deletions stay here.
    pending: Option<Arc<Doc>>,
    /// The indexed version: segment and number; none of a deletion.
    place: Option<(u64, u32)>,
    /// That version; 0 while there is none.
    indexed: u64,
}

#[derive(Debug, Default)]
struct State {
    newest: BTreeMap<u64, Newest>,
    /// Places whose newest version is not indexed.
    pending: BTreeSet<u64>,
    /// Those of them that must be in the next answer.
    at_once: BTreeSet<u64>,
    parts: Arc<Vec<Part>>,
    segments: u64,
    /// What the server holds completely, once it has said so.
    held: Option<Slice>,
}

/// The documents of one index that a server holds.
#[derive(Debug)]
pub struct Index {
    number: u32,
    server: u32,
    state: Mutex<State>,
    /// One search at a time indexes what all wait for.
    showing: Mutex<()>,
    /// One merge at a time.
    merging: Mutex<()>,
}

/// What an index holds, for whoever asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Documents, pending ones included, deleted ones not.
    pub documents: u64,
    /// Bytes of their sources.
    pub bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Documents that wait for a refresh.
    pub pending: u64,
}

impl Index {
    /// Of a server, empty.
    pub fn new(number: u32, server: u32) -> Index {
        let state = Mutex::new(State::default());
        Index { number, server, state, showing: Mutex::new(()), merging: Mutex::new(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a version of a document; an older one than is known changes nothing.
    pub fn put(&self, ring: u64, version: u64, deleted: bool, entry: Entry) {
        let at_once = entry.at_once;
        let mut state = self.state();
        if state.newest.get(&ring).is_some_and(|newest| newest.version >= version) {
            return;
        }
        let doc = Arc::new(Doc { ring, version, deleted, entry });
        let old = state.newest.get(&ring);
        let place = old.and_then(|newest| newest.place);
        let indexed = old.map_or(0, |newest| newest.indexed);
        state.newest.insert(ring, Newest { version, pending: Some(doc), place, indexed });
        state.pending.insert(ring);
        if at_once && state.held.is_none_or(|held| held.contains(ring)) {
            state.at_once.insert(ring);
        }
    }

    /// Every later answer has what is pending now.
    pub fn insist(&self) {
        let mut state = self.state();
        state.at_once = state.pending.clone();
    }

    /// The server holds these ids from now on. What is outside is forgotten if that is less than
    /// before; if it is more, what was written beside the copy stays, and answers have it.
    pub fn hold(&self, held: Slice) {
        let mut state = self.state();
        let before = state.held.replace(held);
        if before.is_some_and(|before| before.covers(held)) {
            drop(state);
            return self.retain(held);
        }
        let State { pending, at_once, .. } = &mut *state;
        at_once.extend(pending.iter().filter(|ring| held.contains(**ring)));
    }

    /// The server holds less than it is to hold from now on. What is outside of `wanted` is
    /// forgotten; what was written beside what is held stays.
    pub fn keep(&self, held: Option<Slice>, wanted: Slice) {
        self.state().held = held;
        self.retain(wanted);
    }

    /// Forgets what is outside of `held`.
    pub fn retain(&self, held: Slice) {
        let mut state = self.state();
        let gone: Vec<u64> =
            state.newest.keys().copied().filter(|ring| !held.contains(*ring)).collect();
        let mut parts = (*state.parts).clone();
        for ring in gone {
            state.pending.remove(&ring);
            state.at_once.remove(&ring);
            if let Some(Newest { place: Some((number, doc)), .. }) = state.newest.remove(&ring)
                && let Some(part) = parts.iter_mut().find(|part| part.number == number)
            {
                part.kill(doc);
            }
        }
        parts.retain(|part| part.alive > 0);
        state.parts = Arc::new(parts);
    }

    /// Indexes what is pending. Returns how many documents that were.
    ///
    /// # Errors
    /// When tantivy fails.
    pub fn refresh(&self) -> Result<usize, String> {
        self.index(|_, _| true, Segment::build)
    }

    /// The same when nobody else wants a processor.
    ///
    /// # Errors
    /// When tantivy fails.
    pub fn refresh_aside(&self) -> Result<usize, String> {
        self.index(|_, _| true, Segment::build_aside)
    }

    /// Indexes what the server holds and is pending, when nobody else wants a processor. What is
    /// being copied waits for its turn, which counts as work of the copy.
    ///
    /// # Errors
    /// When tantivy fails.
    pub fn refresh_held(&self) -> Result<usize, String> {
        let held = |state: &State, ring| state.held.is_none_or(|held| held.contains(ring));
        self.index(held, Segment::build_aside)
    }

    /// Indexes what the next answer must have, and what else the server holds and is pending.
    fn show(&self) -> Result<(), String> {
        let _showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.state().at_once.is_empty() {
            // Somebody else has done it meanwhile.
            return Ok(());
        }
        let held = |state: &State, ring: u64| {
            state.held.is_none_or(|held| held.contains(ring)) || state.at_once.contains(&ring)
        };
        self.index(held, Segment::build).map(|_| ())
    }

    /// Puts pending documents into a segment. Others may do the same at the same time: what is
    /// there in this version, or in a newer one, is dead in the segment that comes second.
    fn index(
        &self,
        chosen: impl Fn(&State, u64) -> bool,
        build: impl Fn(Vec<Arc<Doc>>) -> tantivy::Result<Segment>,
    ) -> Result<usize, String> {
        let taken: Vec<Arc<Doc>> = {
            let state = self.state();
            let rings = state.pending.iter().filter(|ring| chosen(&state, **ring));
            let docs = rings.filter_map(|ring| state.newest.get(ring)?.pending.clone());
            docs.collect()
        };
        if taken.is_empty() {
            return Ok(0);
        }
        let living: Vec<Arc<Doc>> = taken.iter().filter(|doc| !doc.deleted).cloned().collect();
        let segment = match living.is_empty() {
            true => None,
            false => Some(Arc::new(build(living).map_err(|error| error.to_string())?)),
        };
        let mut guard = self.state();
        let state = &mut *guard;
        let mut parts = (*state.parts).clone();
        state.segments += 1;
        let number = state.segments;
        let mut part = segment.map(|segment| Part {
            number,
            dead: Arc::new(vec![0; (segment.count() as usize).div_ceil(64)]),
            alive: segment.count(),
            segment,
        });
        for doc in &taken {
            let at = part.as_ref().filter(|_| !doc.deleted).and_then(|p| p.segment.at(doc.ring));
            // Of one that was dropped in between there is nothing.
            let newest = state.newest.get_mut(&doc.ring);
            let Some(newest) = newest.filter(|newest| newest.indexed < doc.version) else {
                if let (Some(part), Some(at)) = (&mut part, at) {
                    part.kill(at);
                }
                continue;
            };
            if let Some((old, at)) = newest.place.take()
                && let Some(part) = parts.iter_mut().find(|part| part.number == old)
            {
                part.kill(at);
            }
            newest.place = at.map(|at| (number, at));
            newest.indexed = doc.version;
            if newest.version == doc.version {
                newest.pending = newest.pending.take_if(|doc| doc.deleted);
                state.pending.remove(&doc.ring);
                state.at_once.remove(&doc.ring);
            }
        }
        parts.extend(part.filter(|part| part.alive > 0));
        parts.retain(|part| part.alive > 0);
        state.parts = Arc::new(parts);
        Ok(taken.len())
    }

    /// Merges segments of about one size, if there are enough, when nobody else wants a processor.
    /// Returns whether it did.
    ///
    /// # Errors
    /// When tantivy fails.
    pub fn merge(&self) -> Result<bool, String> {
        let _merging = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = self.state().parts.clone();
        let sizes: Vec<u32> = parts.iter().map(|part| part.alive).collect();
        let mut chosen: Vec<Part> = alike(&sizes).into_iter().map(|at| parts[at].clone()).collect();
        if chosen.is_empty() {
            // What is mostly dead is cheap to merge with itself.
            let mostly = |part: &&Part| part.alive < part.segment.count() / 2;
            chosen.extend(parts.iter().find(mostly).cloned());
        }
        if chosen.is_empty() {
            return Ok(false);
        }
        let alive = |part: &Part| Chosen {
            segment: part.segment.clone(),
            docs: (0..part.segment.count()).filter(|doc| !part.is_dead(*doc)).collect(),
        };
        let built = Segment::merge_aside(chosen.iter().map(alive).collect());
        let segment = Arc::new(built.map_err(|error| error.to_string())?);
        let mut state = self.state();
        state.segments += 1;
        let number = state.segments;
        let mut part = Part {
            number,
            dead: Arc::new(vec![0; (segment.count() as usize).div_ceil(64)]),
            alive: segment.count(),
            segment: segment.clone(),
        };
        // What was replaced or forgotten meanwhile is not at its place any more.
        for (at, doc) in segment.docs().iter().enumerate() {
            let from = |place: &(u64, u32)| chosen.iter().any(|part| part.number == place.0);
            match state.newest.get_mut(&doc.ring) {
                Some(newest) if newest.place.as_ref().is_some_and(from) => {
                    newest.place = Some((number, at as u32));
                }
                _ => part.kill(at as u32),
            }
        }
        let mut parts = (*state.parts).clone();
        parts.retain(|part| !chosen.iter().any(|other| other.number == part.number));
        parts.push(part);
        parts.retain(|part| part.alive > 0);
        state.parts = Arc::new(parts);
        Ok(true)
    }

    /// What it holds, of a slice.
    pub fn holding(&self, slice: Slice) -> Holding {
        let state = self.state();
        let mut holding = Holding { segments: state.parts.len() as u64, ..Holding::default() };
        let count = |holding: &mut Holding, doc: &Doc| {
            holding.documents += 1;
            holding.bytes += doc.entry.source.len() as u64;
        };
        for part in state.parts.iter() {
            for range in part.segment.intervals(slice) {
                for doc in range.filter(|doc| !part.is_dead(*doc)) {
                    let doc = part.segment.doc(doc);
                    if !state.pending.contains(&doc.ring) {
                        count(&mut holding, doc);
                    }
                }
            }
        }
        for ring in state.pending.iter().filter(|ring| slice.contains(**ring)) {
            holding.pending += 1;
            let newest = state.newest.get(ring).and_then(|newest| newest.pending.as_ref());
            newest.filter(|doc| !doc.deleted).into_iter().for_each(|doc| count(&mut holding, doc));
        }
        holding
    }

    /// Documents that wait for a refresh.
    pub fn pending(&self) -> usize {
        self.state().pending.len()
    }

    fn newest(&self, ring: u64) -> Option<Arc<Doc>> {
        let state = self.state();
        let newest = state.newest.get(&ring)?;
        if let Some(doc) = &newest.pending {
            return Some(doc.clone());
        }
        let (number, doc) = newest.place?;
        let part = state.parts.iter().find(|part| part.number == number)?;
        Some(part.segment.doc(doc).clone())
    }

    /// Answers a question about a slice.
    pub fn answer(&self, slice: Slice, question: &Question) -> Finding {
        match self.answered(slice, question) {
            Ok(finding) => finding,
            Err(reason) => Finding::Failed(reason),
        }
    }

    fn answered(&self, slice: Slice, question: &Question) -> Result<Finding, String> {
        Ok(match question {
            Question::Get(ids) => {
                let mut got = Vec::new();
                for id in ids {
                    let ring = ring_id(self.number, id);
                    let doc = slice.contains(ring).then(|| self.newest(ring)).flatten();
                    got.extend(doc.filter(|doc| doc.entry.id == *id).map(|doc| Got {
                        id: id.clone(),
                        deleted: doc.deleted,
                        count: doc.entry.count,
                        seq_no: doc.entry.seq_no,
                        source: String::from_utf8_lossy(&doc.entry.source).into_owned(),
                        fields: Vec::new(),
                    }));
                }
                Finding::Got(got)
            }
            Question::Refresh => {
                self.refresh()?;
                Finding::Refreshed { server: self.server }
            }
            Question::Size => {
                let Holding { documents, bytes, .. } = self.holding(slice);
                Finding::Size { documents, bytes }
            }
            Question::Statistics(words) => {
                Finding::Statistics(statistics(&self.current()?, slice, words)?)
            }
            Question::Search(search) => Finding::Found(found(&self.current()?, slice, search)?),
        })
    }

    /// What is indexed now, with all that must be.
    fn current(&self) -> Result<Arc<Vec<Part>>, String> {
        loop {
            let state = self.state();
            if state.at_once.is_empty() {
                return Ok(state.parts.clone());
            }
            drop(state);
            self.show()?;
        }
    }
}

/// The fault in a column or a list of postings.
fn broken(error: impl std::fmt::Display) -> String {
    format!("cannot read a segment: {error}")
}

/// What scores need to know of a slice.
fn statistics(
    parts: &[Part],
    slice: Slice,
    wanted: &[(String, Vec<String>)],
) -> Result<Statistics, String> {
    let mut sum = Statistics::default();
    let mut window = Window::new();
    for (path, words) in wanted {
        let known = sum.fields.entry(path.clone()).or_default();
        let counts = sum.words.entry(path.clone()).or_default();
        counts.extend(words.iter().map(|word| (word.clone(), 0)));
        for part in parts {
            let Some(text) = part.segment.text(path) else { continue };
            for range in part.segment.intervals(slice).into_iter().filter(|r| !r.is_empty()) {
                let (mut documents, mut total) = text.within(&range);
                for dead in part.dead_within(range.clone()) {
                    let (document, words) = text.within(&(dead..dead + 1));
                    documents -= document;
                    total -= words;
                }
                known.documents += documents;
                known.words += total;
                for word in words {
                    let query = question::Query::Word {
                        field: path.clone(),
                        word: word.clone(),
                        boost: 1.0,
                    };
                    let mut matcher = Matcher::within(&query, &part.segment, range.clone(), None)?;
                    let mut having = 0;
                    while let Some(first) = matcher.next(&mut window) {
                        window.each(|at, _| having += u64::from(!part.is_dead(first + at)));
                    }
                    *counts.entry(word.clone()).or_default() += having;
                }
            }
        }
    }
    Ok(sum)
}

/// The first hits of many.
struct Best<'a> {
    search: &'a Search,
    kept: Vec<(Vec<SortValue>, u64, Arc<Doc>, f32)>,
    /// By score alone: worse ones need not be kept.
    worst: Option<(f32, u64)>,
}

impl Best<'_> {
    fn add(&mut self, sort: Vec<SortValue>, doc: &Arc<Doc>, score: f32) {
        self.kept.push((sort, doc.ring, doc.clone(), score));
        if self.kept.len() >= 2 * self.search.hits + 64 {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let keys = &self.search.sort;
        self.kept.sort_by(|a, b| compare(keys, &a.0, &b.0).then_with(|| a.1.cmp(&b.1)));
        self.kept.truncate(self.search.hits);
        if let (true, Some(last)) = (self.kept.len() == self.search.hits, self.kept.last()) {
            self.worst = Some((last.3, last.1));
        }
    }
}

fn found(parts: &[Part], slice: Slice, search: &Search) -> Result<Found, String> {
    let scored = search.least_score.is_some()
        || search.sort.iter().any(|key| matches!(key.by, SortBy::Score));
    let by_score = matches!(&search.sort[..], [key] if matches!(key.by, SortBy::Score) && key.descending)
        && search.after.is_none();
    let statistics = scored.then_some(&search.statistics);
    let mut found = Found::default();
    let mut best = Best { search, kept: Vec::new(), worst: None };
    let mut window = Window::new();
    for part in parts {
        let mut docs: Vec<u32> = Vec::new();
        for range in part.segment.intervals(slice).into_iter().filter(|range| !range.is_empty()) {
            let mut matcher =
                Matcher::within(&search.query, &part.segment, range.clone(), statistics)?;
            let passed = match &search.post_filter {
                None => None,
                Some(filter) => {
                    let mut matcher = Matcher::within(filter, &part.segment, range.clone(), None)?;
                    let all: Vec<u32> = range.clone().collect();
                    Some(matcher.among(&all, &mut Window::new()))
                }
            };
            let mut fault = None;
            while let Some(first) = matcher.next(&mut window) {
                window.each(|at, score| {
                    let doc = first + at;
                    let score = score as f32;
                    if part.is_dead(doc) || search.least_score.is_some_and(|least| score < least) {
                        return;
                    }
                    if !search.aggregations.is_empty() {
                        docs.push(doc);
                    }
                    if passed.as_ref().is_some_and(|passed| passed.binary_search(&doc).is_err()) {
                        return;
                    }
                    found.total += 1;
                    if scored {
                        let so_far = found.best.map_or(f32::NEG_INFINITY, f32::from_bits);
                        found.best = Some(so_far.max(score).to_bits());
                    }
                    if search.hits == 0 {
                        return;
                    }
                    let entry = part.segment.doc(doc);
                    if by_score {
                        if best.worst.is_some_and(|(worst, ring)| {
                            score < worst || (score == worst && entry.ring > ring)
                        }) {
                            return;
                        }
                        best.add(vec![SortValue::Double(f64::from(score))], entry, score);
                        return;
                    }
                    let sort = match sort_values(search, part, doc, score) {
                        Ok(sort) => sort,
                        Err(error) => return fault = Some(error),
                    };
                    if let Some((after, ring)) = &search.after {
                        let order = compare(&search.sort, &sort, after)
                            .then(ring.map_or(Ordering::Equal, |ring| entry.ring.cmp(&ring)));
                        if order != Ordering::Greater {
                            return;
                        }
                    }
                    best.add(sort, entry, score);
                });
            }
            fault.map_or(Ok(()), Err)?;
        }
        docs.sort_unstable();
        for (name, aggregation) in &search.aggregations {
            let partial = aggregate::count(aggregation, &part.segment, &docs)?;
            match found.aggregations.get_mut(name) {
                Some(sum) => sum.add(partial)?,
                None => drop(found.aggregations.insert(name.clone(), partial)),
            }
        }
    }
    best.cut();
    let hits = best.kept.into_iter().map(|(sort, ring, doc, score)| Hit {
        ring,
        id: doc.entry.id.clone(),
        score: score.to_bits(),
        sort,
        count: doc.entry.count,
        seq_no: doc.entry.seq_no,
        source: match search.source {
            true => String::from_utf8_lossy(&doc.entry.source).into_owned(),
            false => String::new(),
        },
    });
    found.hits = hits.collect();
    Ok(found)
}

/// What decides the place of a document among hits. Of several values the least counts when the
/// least come first, else the greatest.
fn sort_values(
    search: &Search,
    part: &Part,
    doc: u32,
    score: f32,
) -> Result<Vec<SortValue>, String> {
    let segment = &part.segment;
    let mut values = Vec::with_capacity(search.sort.len());
    for key in &search.sort {
        values.push(match &key.by {
            SortBy::Score => SortValue::Double(f64::from(score)),
            SortBy::Doc => SortValue::Ring(segment.doc(doc).ring),
            SortBy::Id => SortValue::Keyword(segment.doc(doc).entry.id.clone()),
            SortBy::Long(path) => {
                let all = segment.longs(path).map(|column| column.values_for_doc(doc));
                let all = all.into_iter().flatten();
                let one = if key.descending { all.max() } else { all.min() };
                one.map_or(SortValue::Missing, SortValue::Long)
            }
            SortBy::Double(path) => {
                let all = segment.doubles(path).map(|column| column.values_for_doc(doc));
                let all = all.into_iter().flatten();
                let one = match key.descending {
                    true => all.max_by(f64::total_cmp),
                    false => all.min_by(f64::total_cmp),
                };
                one.map_or(SortValue::Missing, SortValue::Double)
            }
            SortBy::Keyword(path) => match segment.strings(path) {
                None => SortValue::Missing,
                Some(column) => {
                    let ords = column.term_ords(doc);
                    let ord = if key.descending { ords.max() } else { ords.min() };
                    match ord {
                        None => SortValue::Missing,
                        Some(ord) => {
                            let mut word = String::new();
                            column.ord_to_str(ord, &mut word).map_err(broken)?;
                            SortValue::Keyword(word)
                        }
                    }
                }
            },
        });
    }
    Ok(values)
}

/// All indices of one server.
#[derive(Debug)]
pub struct Engine {
    server: u32,
    indices: RwLock<BTreeMap<u32, Arc<Index>>>,
}

impl Engine {
    /// Of a server, without any.
    pub fn new(server: u32) -> Engine {
        Engine { server, indices: RwLock::default() }
    }

    /// An index, new if need be.
    pub fn index(&self, number: u32) -> Arc<Index> {
        let known = self.indices.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = known.get(&number) {
            return index.clone();
        }
        drop(known);
        let mut known = self.indices.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Index::new(number, self.server));
        known.entry(number).or_insert_with(new).clone()
    }

    /// Forgets an index.
    pub fn forget(&self, number: u32) {
        self.indices.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Index>> {
        let known = self.indices.read().unwrap_or_else(PoisonError::into_inner);
        known.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::alike;

    #[test]
    fn few_or_unlike_segments_stay_as_they_are() {
        assert_eq!(alike(&[]), [] as [usize; 0]);
        assert_eq!(alike(&[1_000, 300, 20]), [] as [usize; 0]);
        assert_eq!(alike(&[1_000, 70, 20, 5, 1]), [] as [usize; 0]);
    }

    #[test]
    fn small_segments_are_merged_without_the_large_ones() {
        assert_eq!(alike(&[1_000, 1, 2, 1, 3]), [1, 2, 3, 4]);
        assert_eq!(alike(&[1_000, 20, 1, 17, 30, 60]), [1, 2, 3, 4, 5], "smaller ones go along");
        assert_eq!(alike(&[5, 1, 1, 1, 1, 6, 9, 15]), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    /// Documents that come one by one are written anew as often as there are sizes, and there are
    /// few segments at any time.
    #[test]
    fn each_document_is_written_a_few_times() {
        let (mut sizes, mut written, mut most) = (Vec::new(), 0, 0);
        for _ in 0..4_096 {
            sizes.push(1);
            loop {
                let chosen = alike(&sizes);
                let sum: u32 = chosen.iter().map(|at| sizes[*at]).sum();
                written += sum;
                let mut at = 0;
                sizes.retain(|_| (at += 1, !chosen.contains(&(at - 1))).1);
                sizes.extend((sum > 0).then_some(sum));
                if sum == 0 {
                    break;
                }
            }
            most = most.max(sizes.len());
        }
        assert!(written <= 6 * 4_096, "{written}");
        assert!(most <= 18, "{most}");
    }
}
