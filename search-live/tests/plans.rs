//! An answer does not depend on p, on the start, on who gives it, or on how documents came.

use cavy_core::{Purpose, Stream};
use cavy_search::ring::{Arc as Length, Ring, Slice};
use cavy_search_live::engine::Index;
use cavy_search_live::engine::aggregate::{
    Aggregation, BUCKETS, Number, Order, Shown, Source, What, write,
};
use cavy_search_live::engine::entry::{Entry, Typed, ring_id};
use cavy_search_live::engine::question::{
    Finding, Found, Query, Question, Search, SortBy, SortKey, Statistics,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const SERVERS: u32 = 12;
const DOCUMENTS: u64 = 3_000;
const WORDS: [&str; 12] =
    ["the", "of", "search", "ring", "arc", "slow", "fast", "server", "index", "delay", "p", "rare"];

/// A word: the first ones often.
fn word(draws: &mut Stream) -> &'static str {
    let at = draws.below(WORDS.len() as u64).min(draws.below(WORDS.len() as u64));
    WORDS[at as usize]
}

fn entry(number: u64, draws: &mut Stream) -> Entry {
    let words: Vec<&str> = (0..3 + draws.below(60)).map(|_| word(draws)).collect();
    let title: Vec<&str> = (0..1 + draws.below(4)).map(|_| word(draws)).collect();
    let price = draws.below(1_000) as f64 / 7.0;
    Entry {
        id: format!("doc-{number}"),
        count: 1,
        seq_no: number,
        at_once: false,
        fields: vec![
            ("title".into(), Typed::Text(title.join(" "))),
            ("body".into(), Typed::Text(words.join(" "))),
            ("tag".into(), Typed::Keyword(title[0].into())),
            ("year".into(), Typed::Long(1_990 + draws.below(30) as i64)),
            ("price".into(), Typed::Double(price)),
        ],
        source: format!("{{\"n\":{number}}}").into_bytes().into(),
    }
}

fn either(words: &[&str], boost: f32) -> Query {
    let one = |word: &&str| Query::Word { field: "body".into(), word: (*word).into(), boost };
    Query::Bool {
        must: vec![],
        should: words.iter().map(one).collect(),
        filter: vec![],
        must_not: vec![],
        least: 1,
        boost: 1.0,
    }
}

fn searches() -> Vec<Search> {
    let score = || SortKey { by: SortBy::Score, descending: true, missing_first: false };
    let search = |query: Query, sort: Vec<SortKey>| Search {
        query,
        post_filter: None,
        statistics: Statistics::default(),
        hits: 20,
        sort,
        after: None,
        least_score: None,
        source: true,
        aggregations: BTreeMap::new(),
    };
    let both = Query::Bool {
        must: vec![either(&["search", "ring", "rare"], 2.0)],
        should: vec![Query::Word { field: "title".into(), word: "fast".into(), boost: 0.3 }],
        filter: vec![Query::Longs { field: "year".into(), least: 1_995, most: 2_015, boost: 1.0 }],
        must_not: vec![Query::Strings {
            field: "tag".into(),
            text: false,
            strings: vec!["the".into()],
            boost: 1.0,
        }],
        least: 0,
        boost: 1.7,
    };
    let phrase =
        Query::Phrase { field: "body".into(), words: vec!["the".into(), "of".into()], boost: 1.0 };
    let by_price =
        SortKey { by: SortBy::Double("price".into()), descending: true, missing_first: false };
    let by_tag =
        SortKey { by: SortBy::Keyword("tag".into()), descending: false, missing_first: true };
    let numbers = |which| Aggregation {
        what: What::Numbers { source: Source::Double("price".into()), shown: Shown::Number, which },
        within: BTreeMap::new(),
    };
    let tags = Aggregation {
        what: What::Terms {
            source: Source::Keyword("tag".into()),
            shown: Shown::Number,
            size: 5,
            order: Order::Count { descending: true },
            least: 1,
        },
        within: BTreeMap::from([
            ("price".to_owned(), numbers(Number::Stats)),
            (
                "years".to_owned(),
                Aggregation {
                    what: What::Histogram {
                        source: Source::Long("year".into()),
                        shown: Shown::Number,
                        interval: 10.0,
                        offset: 0.0,
                        least: 0,
                    },
                    within: BTreeMap::new(),
                },
            ),
        ]),
    };
    let mut counted = search(either(&WORDS[..8], 1.0), vec![score()]);
    counted.aggregations = BTreeMap::from([("tags".to_owned(), tags)]);
    let best = Query::Best {
        of: vec![
            either(&["fast", "index"], 1.0),
            Query::Word { field: "title".into(), word: "fast".into(), boost: 2.0 },
        ],
        boost: 1.3,
    };
    let prefix =
        Query::Prefix { field: "body".into(), text: true, prefix: "se".into(), boost: 1.0 };
    vec![
        search(either(&["search", "ring", "delay"], 1.0), vec![score()]),
        search(both, vec![score()]),
        search(phrase, vec![score()]),
        search(Query::All, vec![by_tag, by_price]),
        search(prefix, vec![score()]),
        search(best, vec![score()]),
        counted,
    ]
}

/// A server: what it holds, and its documents.
struct Server {
    index: Index,
    held: Slice,
}

/// Asks along a plan, for statistics first, and writes down what comes.
fn ask(plan: &[(&Index, Slice)], search: &Search) -> String {
    let mut words: BTreeMap<String, Vec<String>> = BTreeMap::new();
    search.query.words(&mut |field, word| {
        words.entry(field.to_owned()).or_default().push(word.to_owned());
    });
    let question = Question::Statistics(words.into_iter().collect());
    let mut statistics = Statistics::default();
    for (index, slice) in plan {
        match index.answer(*slice, &question) {
            Finding::Statistics(more) => statistics.add(&more),
            other => panic!("{other:?}"),
        }
    }
    let search = Search { statistics, ..search.clone() };
    let question = Question::Search(Box::new(search.clone()));
    let mut found = Found::default();
    for (index, slice) in plan {
        match index.answer(*slice, &question) {
            Finding::Found(more) => found.add(more, &search).expect("alike"),
            other => panic!("{other:?}"),
        }
    }
    let counted: Vec<String> = search
        .aggregations
        .iter()
        .map(|(name, of)| write(of, found.aggregations.get(name), &mut BUCKETS.clone()))
        .map(|written| written.expect("few buckets").to_string())
        .collect();
    let hits = serde_json::to_string(&found.hits).expect("JSON");
    format!("{} {:?} {hits} {counted:?}", found.total, found.best)
}

/// All servers, one index that holds everything, and the last write of each document.
struct Scene {
    ring: Ring,
    servers: Vec<Server>,
    whole: Index,
    last: BTreeMap<u64, (u64, bool, Entry)>,
}

/// Every server takes in documents at its own pace, some versions of which are replaced.
fn scene(p: u32, draws: &mut Stream) -> Scene {
    let ring = Ring::proportional(&(0..SERVERS).collect::<Vec<_>>(), |s| 1.0 + f64::from(s % 3));
    let arc = Length::of(p);
    let servers: Vec<Server> = (0..ring.count())
        .map(|at| Server { index: Index::new(1, at as u32), held: ring.holds(at, arc) })
        .collect();
    let mut scene = Scene { ring, servers, whole: Index::new(1, 99), last: BTreeMap::new() };
    for number in 0..DOCUMENTS {
        for version in 1..=1 + u64::from(draws.below(5) == 0) {
            let entry = entry(number, draws);
            let deleted = version == 2 && number % 3 == 0;
            let ring_of = ring_id(1, &entry.id);
            scene.whole.put(ring_of, version, deleted, entry.clone());
            scene.last.insert(ring_of, (version, deleted, entry.clone()));
            for server in scene.servers.iter().filter(|server| server.held.contains(ring_of)) {
                server.index.put(ring_of, version, deleted, entry.clone());
                if draws.below(150) == 0 {
                    server.index.refresh().expect("a segment");
                }
                if draws.below(900) == 0 {
                    server.index.merge().expect("a segment");
                }
            }
        }
    }
    scene.whole.refresh().expect("a segment");
    for server in &scene.servers {
        server.index.insist();
    }
    scene
}

/// What one index that holds everything answers to each search.
fn expected(scene: &Scene, searches: &[Search]) -> Vec<String> {
    let all = Slice::new(0, 0);
    let answers: Vec<String> =
        searches.iter().map(|search| ask(&[(&scene.whole, all)], search)).collect();
    assert!(answers.iter().all(|answer| !answer.starts_with("0 ")), "every search finds some");
    answers
}

/// Any cut of the ring into slices that somebody holds, and who answers for them, in any order:
/// `least` equal parts or more, or with further borders.
fn plan<'a>(
    servers: &'a [Server],
    (least, uneven): (u32, bool),
    draws: &mut Stream,
) -> Vec<(&'a Index, Slice)> {
    let k = u64::from(least) + draws.below(2 * u64::from(SERVERS));
    let start = draws.bits();
    let gap = u64::MAX / k;
    let mut borders: Vec<u64> = (0..k).map(|j| start.wrapping_add(j * gap)).collect();
    if uneven {
        borders.extend((0..draws.below(6)).map(|_| draws.bits()));
    }
    borders.sort_unstable();
    borders.dedup();
    let mut plan: Vec<(&Index, Slice)> = Vec::new();
    for at in 0..borders.len() {
        let slice = Slice::new(borders[(at + borders.len() - 1) % borders.len()], borders[at]);
        let able: Vec<&Server> =
            servers.iter().filter(|server| server.held.covers(slice)).collect();
        assert!(!able.is_empty(), "a slice of an arc at most has a holder");
        plan.push((&able[draws.below(able.len() as u64) as usize].index, slice));
    }
    let turn = draws.below(plan.len() as u64) as usize;
    plan.rotate_left(turn);
    plan
}

/// How many plans are tried.
fn plans() -> u64 {
    std::env::var("CAVY_PLANS").map_or(60, |n| n.parse().expect("a number"))
}

#[test]
fn clause_7_1_a_thousand_random_plans_give_the_bytes_of_one_index() {
    let mut draws = Stream::keyed(20, 0, Purpose::Machine);
    let scene = scene(3, &mut draws);
    let searches = searches();
    let expected = expected(&scene, &searches);
    for number in 0..plans() {
        let plan = plan(&scene.servers, (3, number % 2 == 1), &mut draws);
        let which = (number % searches.len() as u64) as usize;
        assert_eq!(ask(&plan, &searches[which]), expected[which], "plan {number}, search {which}");
        // Some go on merging and forgetting meanwhile.
        if number % 10 == 9 {
            let server = &scene.servers[draws.below(u64::from(SERVERS)) as usize];
            while server.index.merge().expect("a segment") {}
            server.index.retain(server.held);
        }
    }
}

/// Segments whose documents have the same fields are merged as they are, others are built anew;
/// both answer as one that was built at once.
#[test]
fn clause_7_1_what_is_merged_answers_as_what_is_built() {
    let searches = searches();
    for unlike in [false, true] {
        let mut draws = Stream::keyed(23, u32::from(unlike), Purpose::Machine);
        let (merged, built) = (Index::new(1, 0), Index::new(1, 1));
        for number in 0..1_500 {
            for version in 1..=1 + u64::from(draws.below(6) == 0) {
                let mut entry = entry(number, &mut draws);
                if unlike && number % 50 == 7 {
                    entry.fields.retain(|(path, _)| path == "body");
                    entry.fields.push(("else".into(), Typed::Long(number as i64)));
                }
                let deleted = version == 2 && number % 4 == 0;
                let ring = ring_id(1, &entry.id);
                merged.put(ring, version, deleted, entry.clone());
                built.put(ring, version, deleted, entry);
            }
            if unlike && number % 100 == 47 {
                // A field that no document of its segment has any more.
                let gone = entry(number - 40, &mut draws);
                let ring = ring_id(1, &gone.id);
                merged.put(ring, 3, true, gone.clone());
                built.put(ring, 3, true, gone);
            }
            if draws.below(25) == 0 {
                merged.refresh().expect("a segment");
                while merged.merge().expect("a segment") {}
            }
        }
        merged.refresh().expect("a segment");
        built.refresh().expect("a segment");
        while merged.merge().expect("a segment") {}
        let all = Slice::new(0, 0);
        let segments = merged.holding(all).segments;
        assert!((1..40).contains(&segments), "{segments} segments");
        for (number, search) in searches.iter().enumerate() {
            let expected = ask(&[(&built, all)], search);
            assert_eq!(ask(&[(&merged, all)], search), expected, "search {number}, {unlike}");
        }
    }
}

/// p goes from 3 to 8 and back, again and again. Servers drop and copy one after the other, in
/// pieces, so that nearly every plan meets servers that are at different places of a change.
#[test]
fn clause_2_8_plans_in_the_middle_of_a_change_give_the_bytes_of_one_index() {
    let mut draws = Stream::keyed(22, 0, Purpose::Machine);
    let mut scene = scene(3, &mut draws);
    let searches = searches();
    let expected = expected(&scene, &searches);
    let holds = |ring: &Ring, at: usize, p| ring.holds(at, Length::of(p));
    let long: Vec<Slice> = (0..scene.servers.len()).map(|at| holds(&scene.ring, at, 3)).collect();
    let short: Vec<Slice> = (0..scene.servers.len()).map(|at| holds(&scene.ring, at, 8)).collect();
    let (mut dropping, mut apart) = (true, 0);
    for number in 0..plans() {
        // Two servers go on a step: one drops, or takes in another piece of its arc.
        for _ in 0..2 {
            let left: Vec<usize> = (0..scene.servers.len())
                .filter(|at| {
                    scene.servers[*at].held != if dropping { short[*at] } else { long[*at] }
                })
                .collect();
            let Some(at) = left.get(draws.below(left.len().max(1) as u64) as usize).copied() else {
                dropping = !dropping;
                continue;
            };
            let server = &mut scene.servers[at];
            let before = server.held;
            if dropping {
                server.held = short[at];
                server.index.hold(server.held);
                server.index.retain(server.held);
                continue;
            }
            let piece = (long[at].width() / 5) as u64;
            let rest = before.lo.wrapping_sub(long[at].lo);
            let lo = if rest <= piece { long[at].lo } else { before.lo.wrapping_sub(piece) };
            let taken = Slice::new(lo, before.lo);
            for (ring, (version, deleted, entry)) in &scene.last {
                if taken.contains(*ring) {
                    server.index.put(*ring, *version, *deleted, entry.clone());
                }
            }
            server.index.insist();
            server.held = Slice::new(lo, before.hi);
            server.index.hold(server.held);
        }
        let between = |at: &usize| {
            let held = scene.servers[*at].held;
            held != short[*at] && held != long[*at]
        };
        apart += u64::from((0..scene.servers.len()).any(|at| between(&at)));
        let plan = plan(&scene.servers, (8, number % 2 == 1), &mut draws);
        let which = (number % searches.len() as u64) as usize;
        assert_eq!(ask(&plan, &searches[which]), expected[which], "plan {number}, search {which}");
    }
    println!("{apart} of {} plans met a server with a part of what it copies", plans());
    assert!(apart > plans() / 3, "only {apart} plans met a change");
}

#[test]
fn what_was_written_with_refresh_is_in_the_next_answer_and_other_things_are_not() {
    let mut draws = Stream::keyed(21, 0, Purpose::Machine);
    let index = Index::new(1, 0);
    let all = Slice::new(0, 0);
    let total = || match index.answer(all, &Question::Search(Box::new(searches()[3].clone()))) {
        Finding::Found(found) => found.total,
        other => panic!("{other:?}"),
    };
    let mut put = |number, at_once| {
        let entry = Entry { at_once, ..entry(number, &mut draws) };
        index.put(ring_id(1, &entry.id), 1, false, entry);
    };
    put(1, false);
    assert_eq!(total(), 0);
    put(2, true);
    assert_eq!(total(), 2);
    put(3, false);
    assert_eq!(total(), 2);
    index.insist();
    assert_eq!(total(), 3);
    // A deletion is met by the next refresh as well, and the document can be asked for before.
    let gone = Entry { source: [].as_slice().into(), ..entry(1, &mut draws) };
    index.put(ring_id(1, &gone.id), 2, true, gone);
    assert_eq!(total(), 3);
    match index.answer(all, &Question::Get(vec!["doc-1".into(), "doc-2".into()])) {
        Finding::Got(got) => {
            assert_eq!(got.iter().map(|got| got.deleted).collect::<Vec<_>>(), [true, false]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(index.refresh(), Ok(1));
    assert_eq!(total(), 2);
}

#[test]
fn what_is_written_beside_a_copy_stays_when_the_copy_goes_on() {
    let index = Index::new(1, 0);
    let put = |ring: u64, version| {
        let entry = Entry {
            id: format!("at-{ring}"),
            count: 1,
            seq_no: 0,
            at_once: true,
            fields: vec![("tag".into(), Typed::Keyword("x".into()))],
            source: b"{}".as_slice().into(),
        };
        index.put(ring, version, false, entry);
    };
    let total = |held: Slice| {
        let search = searches()[3].clone();
        match index.answer(held, &Question::Search(Box::new(search))) {
            Finding::Found(found) => found.total,
            other => panic!("{other:?}"),
        }
    };
    let hold = |lo| {
        let held = Slice::new(lo, 1_000);
        index.hold(held);
        held
    };
    let first = hold(500);
    put(600, 1);
    // A write to the arc that is being copied, far from what is held so far: no search waits for
    // it, because nobody is asked for it yet.
    put(100, 1);
    assert_eq!(total(first), 1);
    assert_eq!(index.pending(), 1);
    assert_eq!(total(hold(400)), 1);
    assert_eq!(index.pending(), 1);
    assert_eq!(total(hold(50)), 2);
    assert_eq!(index.pending(), 0);
    assert_eq!(total(hold(500)), 1, "less than before: what is outside is forgotten");
}

/// Says that all is over when it goes.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn searches_and_the_background_may_index_the_same_at_the_same_time() {
    const ROUNDS: u64 = 300;
    let index = Index::new(1, 0);
    let all = Slice::new(0, 0);
    let newest = |number: u64, version: u64| Entry {
        id: format!("doc-{number}"),
        count: version,
        seq_no: version,
        at_once: true,
        fields: vec![("body".into(), Typed::Text("the ring".into()))],
        source: format!("{version}").into_bytes().into(),
    };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (index, ended) = (&index, &ended);
        // Whatever happens here, the others end.
        let _ending = Ending(ended);
        scope.spawn(move || {
            while !ended.load(Relaxed) {
                index.refresh().expect("a segment");
            }
        });
        scope.spawn(move || {
            while !ended.load(Relaxed) {
                index.merge().expect("a segment");
            }
        });
        let mut search = searches()[0].clone();
        search.query = either(&["ring"], 1.0);
        search.sort = vec![SortKey { by: SortBy::Doc, descending: false, missing_first: false }];
        let question = Question::Search(Box::new(search));
        for version in 1..=ROUNDS {
            // Of five documents one is written anew, and one is deleted now and then.
            let number = version % 5;
            let deleted = version % 7 == 0;
            let entry = newest(number, version);
            index.put(ring_id(1, &entry.id), version, deleted, entry);
            let Finding::Found(found) = index.answer(all, &question) else { panic!("an answer") };
            let newest_of = |number: u64| (1..=version).rev().find(|v| v % 5 == number);
            let mut expected: Vec<String> = (0..5)
                .filter_map(newest_of)
                .filter(|version| version % 7 != 0)
                .map(|version| version.to_string())
                .collect();
            let mut met: Vec<String> = found.hits.iter().map(|hit| hit.source.clone()).collect();
            expected.sort();
            met.sort();
            assert_eq!(met, expected, "after write {version}");
        }
    });
}
