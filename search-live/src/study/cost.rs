//! E1: what a sub-query takes of a server's processor, by the documents it examines `[roar 5]`.
//!
//! One server, its own code, nothing beside it: from the question as it came to the finding as it
//! is sent. Three sorts of queries: search over encrypted records, the source's application; broad
//! searches of words, each another one; and one such search over and over.

use super::sealed::{Sealed, Trapdoor};
use crate::cluster::content::Made;
use crate::cluster::keeper::Hands;
use crate::engine::Engine;
use crate::engine::entry::{Entry, Typed, ring_id};
use crate::engine::question::{Finding, Query, Question, Search, SortBy, SortKey, Statistics};
use crate::engine::text::terms;
use cavy_core::family::message::Work;
use cavy_core::{Purpose, Stream};
use cavy_node::Jobs as _;
use cavy_search::cluster::Job;
use cavy_search::ring::{Slice, WHOLE};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The number of the index.
const INDEX: u32 = 1;
/// Queries go over a ring in so many parts; 0 is a slice of one id, in which there is nothing.
const PARTS: [u128; 10] = [0, 48, 40, 24, 16, 12, 8, 4, 2, 1];
/// Words of a broad search, and from how many of the most frequent ones they are.
const FEW: u64 = 8;
const MOST: u64 = 16;
const FREQUENT: usize = 300;

/// A sub-query that was measured: documents in its slice, and milliseconds of a processor.
pub type Sample = (u64, f64);

/// What was measured, by sort of query.
#[derive(Debug)]
pub struct Costs {
    /// Search over encrypted records.
    pub sealed: Vec<Sample>,
    /// Broad searches, each another one.
    pub text: Vec<Sample>,
    /// One of them, over and over.
    pub query: Vec<Sample>,
}

/// As the lab reads it.
pub fn csv(samples: &[Sample]) -> String {
    let line = |(examined, took): &Sample| format!("{examined},{took:.4}\n");
    let lines: String = samples.iter().map(line).collect();
    format!("examined,took_ms\n{lines}")
}

fn processor_ms() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// A slice of a part of the ring that begins anywhere.
fn slice(parts: u128, draws: &mut Stream) -> Slice {
    let lo = draws.bits();
    let width = WHOLE.checked_div(parts).unwrap_or(1);
    Slice::new(lo, lo.wrapping_add(width as u64))
}

/// Measures `repetitions` sub-queries of each size over `texts`, a document each.
///
/// # Errors
/// When there are too few words, or a search fails.
pub fn measure(texts: &[String], repetitions: u32, seed: u64) -> Result<Costs, String> {
    let words: Vec<Vec<String>> = texts.iter().map(|text| terms(text)).collect();
    let engine = Arc::new(Engine::new(0));
    let index = engine.index(INDEX);
    let mut having: BTreeMap<&str, u64> = BTreeMap::new();
    let mut records = Vec::with_capacity(texts.len());
    for (number, (text, words)) in texts.iter().zip(&words).enumerate() {
        let id = number.to_string();
        let ring = ring_id(INDEX, &id);
        let mut own: Vec<&str> = words.iter().map(String::as_str).collect();
        own.sort_unstable();
        own.dedup();
        own.iter().for_each(|word| *having.entry(word).or_default() += 1);
        records.push((ring, own));
        let entry = Entry {
            id,
            count: 1,
            seq_no: number as u64,
            at_once: false,
            fields: vec![("text".into(), Typed::Text(text.clone()))],
            source: text.as_bytes().into(),
        };
        index.put(ring, 1, false, entry);
    }
    // One segment: what a server has when its segments are merged.
    index.refresh()?;
    let mut frequent: Vec<(&str, u64)> = having.iter().map(|(word, many)| (*word, *many)).collect();
    frequent.sort_unstable_by_key(|(word, many)| (std::cmp::Reverse(*many), *word));
    frequent.truncate(FREQUENT);
    if frequent.len() < FREQUENT {
        return Err(format!("the texts have {} words, and need {FREQUENT}", frequent.len()));
    }
    let frequent: Vec<String> = frequent.iter().map(|(word, _)| (*word).to_owned()).collect();
    let sealed = Sealed::new(seed, records);
    let made = Arc::new(Made::default());
    let hands = Hands::new(engine.clone(), made.clone());
    let mut draws = Stream::keyed(seed, 0, Purpose::Test);
    let statistics = statistics(&engine, &frequent)?;
    let always = search(&frequent, &statistics, &mut draws);
    let mut costs = Costs { sealed: Vec::new(), text: Vec::new(), query: Vec::new() };
    for turn in 0..=repetitions {
        for parts in PARTS {
            let slice = slice(parts, &mut draws);
            let word = &frequent[draws.below(FREQUENT as u64) as usize];
            let door = Trapdoor::new(seed, word);
            let examined = sealed.within(slice).map(|range| range.len() as u64).iter().sum();
            let began = processor_ms();
            black_box(sealed.scan(black_box(slice), &door));
            let scanned = (examined, processor_ms() - began);
            let ask = |question: &Question| {
                let bytes = serde_json::to_vec(question).unwrap_or_default();
                let work = Work(u64::from(turn));
                let job = (INDEX, Job::Scan(slice, bytes.into()));
                let began = processor_ms();
                hands.run(work, &job, &AtomicBool::new(false));
                let took = processor_ms() - began;
                black_box(made.take(0, work));
                (examined, took)
            };
            let another = ask(&search(&frequent, &statistics, &mut draws));
            let same = ask(&always);
            // The first turn warms up.
            if turn > 0 {
                costs.sealed.push(scanned);
                costs.text.push(another);
                costs.query.push(same);
            }
        }
    }
    Ok(costs)
}

/// Of all documents, for the scores of every search.
fn statistics(engine: &Engine, words: &[String]) -> Result<Statistics, String> {
    let question = Question::Statistics(vec![("text".to_owned(), words.to_vec())]);
    match engine.index(INDEX).answer(Slice::new(0, 0), &question) {
        Finding::Statistics(statistics) => Ok(statistics),
        other => Err(format!("{other:?}")),
    }
}

/// Any of 8 to 16 frequent words, scored, all matches counted, the first ten shown.
fn search(frequent: &[String], statistics: &Statistics, draws: &mut Stream) -> Question {
    let count = FEW + draws.below(MOST - FEW + 1);
    let mut chosen: Vec<&String> =
        (0..count).map(|_| &frequent[draws.below(frequent.len() as u64) as usize]).collect();
    chosen.sort_unstable();
    chosen.dedup();
    let known = &statistics.words["text"];
    let words = chosen.iter().map(|word| ((*word).clone(), known[*word])).collect();
    let one =
        |word: &&String| Query::Word { field: "text".into(), word: (*word).clone(), boost: 1.0 };
    let should = chosen.iter().map(one).collect();
    let (must, filter, must_not) = (vec![], vec![], vec![]);
    Question::Search(Box::new(Search {
        query: Query::Bool { must, should, filter, must_not, least: 1, boost: 1.0 },
        post_filter: None,
        statistics: Statistics {
            fields: statistics.fields.clone(),
            words: BTreeMap::from([("text".to_owned(), words)]),
        },
        hits: 10,
        sort: vec![SortKey { by: SortBy::Score, descending: true, missing_first: false }],
        after: None,
        least_score: None,
        source: true,
        aggregations: BTreeMap::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sizes_are_measured_and_whole_slices_examine_everything() {
        let text = |n: u64| -> String {
            (0..40).map(|at| format!("w{} ", (n * 7 + at * n) % 400)).collect()
        };
        let texts: Vec<String> = (0..2_000).map(text).collect();
        let costs = measure(&texts, 2, 1).expect("measured");
        for samples in [&costs.sealed, &costs.text, &costs.query] {
            assert_eq!(samples.len(), 2 * PARTS.len());
            let mut examined: Vec<u64> = samples.iter().map(|(examined, _)| *examined).collect();
            examined.sort_unstable();
            assert_eq!(examined[..2], [0, 0]);
            assert_eq!(examined[examined.len() - 2..], [2_000, 2_000]);
        }
        assert!(csv(&costs.text).starts_with("examined,took_ms\n"));
        assert!(measure(&texts[..1], 1, 1).is_err(), "too few words");
    }
}
