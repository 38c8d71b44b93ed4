//! Bodies of `_search`. Whatever is asked is an error of the client or has an answer, and an answer
//! does not depend on how the ring is cut into slices.

use cavy_core::{Purpose, Stream};
use cavy_search::ring::Slice;
use cavy_search_live::api::{counting, gate, mapping::Mapping, search};
use cavy_search_live::engine::Index;
use cavy_search_live::engine::entry::{Entry, ring_id};
use cavy_search_live::engine::question::{Finding, Found, Question, Search, Statistics};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

const NUMBER: u32 = 1;
const DOCUMENTS: u64 = 40;
/// Where the ring is cut; the last of four slices goes around zero.
const CUTS: [u64; 4] = [3, 1 << 62, 3 << 62, u64::MAX];

/// An index with a field of each type, and documents that lack some of them.
struct Books {
    about: gate::Index,
    index: Index,
}

fn books() -> &'static Books {
    static BOOKS: OnceLock<Books> = OnceLock::new();
    BOOKS.get_or_init(|| {
        let mappings = json!({"properties": {
            "title": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
            "body": {"type": "text"}, "author": {"type": "keyword"}, "tags": {"type": "keyword"},
            "year": {"type": "integer"}, "price": {"type": "double"}, "stock": {"type": "long"},
            "printed": {"type": "boolean"}, "on": {"type": "date"},
        }});
        let mapping = Mapping::read(&mappings).expect("a mapping");
        let index = Index::new(NUMBER, 0);
        let mut draws = Stream::keyed(3, 0, Purpose::Test);
        for number in 0..DOCUMENTS {
            let words = ["ring", "arc", "search", "Slow", "delay", "2009", "p", ""];
            let mut word = || words[draws.below(words.len() as u64) as usize];
            let text: Vec<&str> = (0..number % 9).map(|_| word()).collect();
            let mut source = json!({
                "title": format!("{} {}", word(), word()), "body": text.join(" "),
                "author": word(), "tags": [word(), word()], "year": 1_990 + number % 7,
                "price": number as f64 / 7.0, "stock": (number as i64 - 9) << (number % 40),
                "printed": number % 2 == 0, "on": format!("2009-08-{:02}", 1 + number % 28),
            });
            let lacks = ["title", "body", "author", "tags", "year", "price", "stock", "on"];
            let lacks = lacks[number as usize % lacks.len()];
            source.as_object_mut().expect("an object").remove(lacks);
            let id = number.to_string();
            let (fields, _) = mapping.values(&id, &source).expect("values");
            let source = source.to_string().into_bytes().into();
            let entry = Entry { id, count: 1, seq_no: number, at_once: false, fields, source };
            index.put(ring_id(NUMBER, &number.to_string()), 1, number % 11 == 10, entry);
            if number % 16 == 15 {
                index.refresh().expect("a segment");
            }
        }
        index.refresh().expect("a segment");
        let about = Arc::new(json!({"mappings": mappings, "settings": {"roar": {"p": 1}}}));
        let (name, mapping) = ("books".to_owned(), Arc::new(mapping));
        let about = gate::Index { name, number: NUMBER, changes: 0, about, mapping };
        Books { about, index }
    })
}

/// What is found in these slices together, as it would be written; or why not.
fn asked(index: &Index, slices: &[Slice], search: &Search) -> Result<String, String> {
    let mut words: BTreeMap<String, Vec<String>> = BTreeMap::new();
    search.query.words(&mut |field, word| {
        words.entry(field.to_owned()).or_default().push(word.to_owned());
    });
    let question = Question::Statistics(words.into_iter().collect());
    let mut statistics = Statistics::default();
    for slice in slices {
        match index.answer(*slice, &question) {
            Finding::Statistics(more) => statistics.add(&more),
            other => panic!("statistics: {other:?}"),
        }
    }
    let search = Search { statistics, ..search.clone() };
    // Servers read what front ends write.
    let bytes = serde_json::to_vec(&Question::Search(Box::new(search.clone()))).expect("bytes");
    let question: Question = serde_json::from_slice(&bytes).expect("a question is read again");
    let mut found = Found::default();
    for slice in slices {
        match index.answer(*slice, &question) {
            Finding::Found(more) => found.add(more, &search)?,
            Finding::Failed(reason) => return Err(reason),
            other => panic!("a search: {other:?}"),
        }
    }
    let counted = counting::written(&search.aggregations, &found.aggregations)?;
    let hits = serde_json::to_string(&found.hits).expect("hits");
    Ok(format!("{} {:?} {hits} {counted}", found.total, found.best))
}

pub fn run(bytes: &[u8]) {
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
    let Books { about, index } = books();
    let (search, _) = match search::read(about, &BTreeMap::new(), &body) {
        Ok(read) => read,
        Err(error) => {
            // Elasticsearch calls some mistakes in aggregations faults of the server.
            let theirs = error.kind.starts_with("aggregation_");
            assert!((400..500).contains(&error.status) || theirs, "{error:?}");
            return;
        }
    };
    let whole = asked(index, &[Slice::new(7, 7)], &search);
    let cut: Vec<Slice> =
        (0..CUTS.len()).map(|at| Slice::new(CUTS[at], CUTS[(at + 1) % CUTS.len()])).collect();
    match (whole, asked(index, &cut, &search)) {
        (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
        // The one limit that so few documents can meet.
        (Err(why), _) | (_, Err(why)) => {
            assert!(why.starts_with("Trying to create too many buckets"), "{why}");
        }
    }
}
