//! What a slice of the ring costs: an index in the order of the ring, whose slices are intervals.
//!
//! `CAVY_DOCUMENTS=400000 CAVY_TEXTS=/usr/share make search-test` measures it; times mean something
//! only where nothing else runs.

use cavy_core::{Purpose, Stream};
use cavy_search::ring::Slice;
use cavy_search_live::corpus::{self, Frequencies, Source};
use cavy_search_live::engine::Index;
use cavy_search_live::engine::entry::{Entry, Typed, ring_id};
use cavy_search_live::engine::question::{
    Finding, Query, Question, Search, SortBy, SortKey, Statistics,
};
use cavy_search_live::engine::segment::{Doc, Segment};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// A number of the environment.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

struct Texts {
    docs: Vec<Arc<Doc>>,
    frequencies: Frequencies,
    index: Index,
}

/// Documents in the order in which they come, which is not the order of the ring.
fn texts(most: u64) -> Texts {
    let source = std::env::var("CAVY_TEXTS")
        .map_or(Source::Zipf, |text| Source::read(&text).expect("`packages`, `zipf` or a path"));
    let (mut docs, mut frequencies) = (Vec::new(), Frequencies::default());
    let index = Index::new(1, 0);
    let taken = corpus::documents(&source, most, 1, |document| {
        frequencies.count(&document.body);
        let ring = ring_id(1, &document.id);
        let entry = Entry {
            id: document.id,
            count: 1,
            seq_no: 0,
            at_once: false,
            fields: vec![
                ("body".into(), Typed::Text(document.body)),
                ("section".into(), Typed::Keyword(document.section)),
                ("arc".into(), Typed::Long((ring >> 1) as i64)),
            ],
            source: b"{}".as_slice().into(),
        };
        index.put(ring, 1, false, entry.clone());
        docs.push(Arc::new(Doc { ring, version: 1, deleted: false, entry }));
        Ok(())
    });
    assert!(taken.expect("texts") > 0);
    index.refresh().expect("a segment");
    Texts { docs, frequencies, index }
}

/// Queries over the words of requests of a kind.
fn queries(texts: &Texts, kind: &str, count: usize) -> Vec<Query> {
    let lines = texts.frequencies.requests(kind, "texts", count, 7).expect("enough words");
    let read = |line: String| {
        let body = line.strip_prefix("POST /texts/_search ").expect("a request");
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let words = body["query"]["match"]["body"]["query"].as_str().expect("words").to_owned();
        let one = |word: &str| Query::Word { field: "body".into(), word: word.into(), boost: 1.0 };
        Query::Bool {
            must: vec![],
            should: words.split(' ').map(one).collect(),
            filter: vec![],
            must_not: vec![],
            least: 1,
            boost: 1.0,
        }
    };
    lines.into_iter().map(read).collect()
}

/// The first ten by score, and how many there are.
fn search(query: Query, statistics: &Statistics) -> Search {
    Search {
        query,
        post_filter: None,
        statistics: statistics.clone(),
        hits: 10,
        sort: vec![SortKey { by: SortBy::Score, descending: true, missing_first: false }],
        after: None,
        least_score: None,
        source: false,
        aggregations: BTreeMap::new(),
    }
}

fn statistics(index: &Index, query: &Query) -> Statistics {
    let mut words: BTreeMap<String, Vec<String>> = BTreeMap::new();
    query.words(&mut |field, word| {
        words.entry(field.to_owned()).or_default().push(word.to_owned());
    });
    match index.answer(Slice::new(0, 0), &Question::Statistics(words.into_iter().collect())) {
        Finding::Statistics(statistics) => statistics,
        other => panic!("{other:?}"),
    }
}

/// How many documents a slice has, and the microseconds of the fastest of three times.
fn timed(index: &Index, slice: Slice, search: &Search) -> (u64, f64) {
    let question = Question::Search(Box::new(search.clone()));
    let mut least = f64::INFINITY;
    let mut total = 0;
    for _ in 0..3 {
        let since = Instant::now();
        let found = index.answer(slice, &question);
        least = least.min(since.elapsed().as_secs_f64() * 1e6);
        let Finding::Found(found) = found else { panic!("{found:?}") };
        total = found.total;
    }
    (total, least)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A slice of a `parts`-th of the ring, and the same as a condition on a field.
fn slice(parts: u64, at: u64, start: u64) -> (Slice, Query) {
    let width = u64::MAX / parts;
    // Not around zero, where a condition would have to be two.
    let lo = (start % (width / 2)).wrapping_add(at * width);
    let hi = if at + 1 == parts { u64::MAX } else { lo.saturating_add(width) };
    let lo = if at == 0 { 0 } else { lo };
    // Between halves of ids: those of the field.
    let (least, most) = ((lo >> 1) as i64 + 1, (hi >> 1) as i64);
    let inside = Query::Longs { field: "arc".into(), least, most, boost: 1.0 };
    (Slice::new(least as u64 * 2 - 1, most as u64 * 2 + 1), inside)
}

/// The share of the variance of y that a straight line over x explains.
fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let count = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let (xx, yy) = (mean(&|p| (p.0 - x).powi(2)), mean(&|p| (p.1 - y).powi(2)));
    let xy = mean(&|p| (p.0 - x) * (p.1 - y));
    let slope = xy / xx;
    (y - slope * x, slope, xy * xy / (xx * yy))
}

#[test]
fn clause_7_1_slices_are_intervals_that_cost_less_than_a_filter() {
    let texts = texts(number("CAVY_DOCUMENTS", 20_000));
    let measured = std::env::var("CAVY_DOCUMENTS").is_ok();
    let count = texts.docs.len();
    let mut draws = Stream::keyed(5, 0, Purpose::Machine);
    let all = queries(&texts, "or", if measured { 400 } else { 40 });
    let (mut rows, mut hits) = (Vec::new(), BTreeMap::<u64, u64>::new());
    for parts in [1, 2, 4, 8, 16] {
        let (mut sliced, mut filtered) = (Vec::new(), Vec::new());
        for query in &all {
            let plain = search(query.clone(), &statistics(&texts.index, query));
            let start = draws.bits();
            let measured_part = draws.below(parts);
            for at in 0..parts {
                let (slice, inside) = slice(parts, at, start);
                let slice = if parts == 1 { Slice::new(0, 0) } else { slice };
                let (total, us) = timed(&texts.index, slice, &plain);
                *hits.entry(parts).or_default() += total;
                if at != measured_part || parts == 1 {
                    continue;
                }
                sliced.push(us);
                let mut by_filter = plain.clone();
                if let Query::Bool { filter, .. } = &mut by_filter.query {
                    filter.push(inside);
                }
                let (same, us) = timed(&texts.index, Slice::new(0, 0), &by_filter);
                assert_eq!(total, same, "a slice and a filter find the same");
                filtered.push(us);
            }
            if parts == 1 {
                let (_, us) = timed(&texts.index, Slice::new(0, 0), &plain);
                sliced.push(us);
                filtered.push(us);
            }
        }
        let row = (parts, median(sliced), median(filtered));
        println!("OR of 2 or 3 words, 1/{parts}: slice {:.1} us, filter {:.1} us", row.1, row.2);
        rows.push(row);
    }
    println!("{count} documents; hits over all slices: {hits:?}");
    let first = hits[&1];
    assert!(first > 0 && hits.values().all(|sum| *sum == first), "slices tile: {hits:?}");
    // Time against documents, of queries that scan.
    let broad = queries(&texts, "broad", if measured { 100 } else { 10 });
    let (mut points, mut means) = (Vec::new(), Vec::new());
    for parts in [1, 2, 3, 4, 6, 8, 12, 16] {
        let mut sum = 0.0;
        for query in &broad {
            let plain = search(query.clone(), &statistics(&texts.index, query));
            let (slice, _) = slice(parts, draws.below(parts), draws.bits());
            let slice = if parts == 1 { Slice::new(0, 0) } else { slice };
            let inside = texts.docs.iter().filter(|doc| slice.contains(doc.ring)).count();
            let (_, us) = timed(&texts.index, slice, &plain);
            points.push((inside as f64, us));
            sum += us;
        }
        means.push((count as f64 / parts as f64, sum / broad.len() as f64));
    }
    let (c0, c1, r2) = line(&points);
    let (_, _, of_means) = line(&means);
    println!(
        "broad OR: {c0:.1} us + {:.3} ns a document, R2 {r2:.4} over queries, {of_means:.4} over \
         their means",
        c1 * 1e3
    );
    if measured {
        let (whole, eighth, filter) = (rows[0].1, rows[3].1, rows[3].2);
        assert!(eighth <= 0.75 * whole, "an eighth takes {eighth} us, all {whole} us");
        assert!(3.0 * eighth <= filter, "an eighth takes {eighth} us, a filter {filter} us");
        // Single queries differ in how many postings they have.
        assert!(of_means > 0.9, "R2 is {of_means} over means, {r2} over queries");
    }
}

/// Documents come in any order; in the order of the ring there is nothing to sort, and a build of
/// them is one that does not sort.
#[test]
fn clause_7_1_sorting_costs_little_of_a_build() {
    let texts = texts(number("CAVY_DOCUMENTS", 20_000));
    let measured = std::env::var("CAVY_DOCUMENTS").is_ok();
    let mut ordered = texts.docs.clone();
    ordered.sort_unstable_by_key(|doc| doc.ring);
    let built = |docs: &Vec<Arc<Doc>>| {
        let docs = docs.clone();
        let since = Instant::now();
        let segment = Segment::build(docs).expect("a segment");
        let took = since.elapsed().as_secs_f64();
        assert_eq!(segment.count() as usize, texts.docs.len());
        took
    };
    let turns: Vec<[f64; 2]> =
        (0..if measured { 5 } else { 1 }).map(|_| [built(&texts.docs), built(&ordered)]).collect();
    let of = |which: usize| median(turns.iter().map(|turn| turn[which]).collect());
    let ratios: Vec<f64> = turns.iter().map(|turn| turn[0] / turn[1]).collect();
    let (sorted, plain, ratio) = (of(0), of(1), median(ratios.clone()));
    println!(
        "{} documents: {sorted:.3} s with sorting, {plain:.3} s without, {ratio:.3} times: \
         {ratios:.3?}",
        texts.docs.len()
    );
    if measured {
        assert!(ratio <= 1.6, "{turns:?}");
    }
}
