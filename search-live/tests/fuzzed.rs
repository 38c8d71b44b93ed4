//! What fuzzers of `fuzz/` run, over what they found and over the requests of the fixtures.

#[path = "../../fuzz/targets/bulk.rs"]
mod bulk;
#[path = "../../fuzz/targets/query.rs"]
mod query;

use serde_json::Value;
use std::path::Path;

fn over_corpus(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = std::fs::read_dir(folder).expect("a corpus");
    let bytes = files.map(|file| std::fs::read(file.expect("a file").path()).expect("bytes"));
    assert!(bytes.inspect(|bytes| run(bytes)).count() > 0);
}

/// Bodies of all requests of the fixtures whose path has this word.
fn fixtures(word: &str) -> Vec<Vec<u8>> {
    let file = std::fs::read_to_string("tests/conformance/opensearch-2.19.1.jsonl");
    let file = file.expect("fixtures");
    let asked = file.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let bodies = asked.filter(|one| one["ask"].as_str().is_some_and(|ask| ask.contains(word)));
    let text = |one: Value| match (&one["body"]["lines"], &one["body"]["raw"]) {
        (Value::Array(lines), _) => lines.iter().map(|line| format!("{line}\n")).collect(),
        (_, Value::String(raw)) => raw.clone(),
        _ => one["body"].to_string(),
    };
    bodies.map(text).map(String::into_bytes).collect()
}

#[test]
fn any_query_is_an_error_or_has_one_answer_however_the_ring_is_cut() {
    over_corpus("query", query::run);
    let bodies = fixtures("/_search");
    assert!(bodies.len() > 80, "{} queries", bodies.len());
    bodies.iter().for_each(|body| query::run(body));
}

#[test]
fn any_bulk_is_an_error_or_values_of_known_fields() {
    over_corpus("bulk", bulk::run);
    let bodies = fixtures("_bulk");
    assert!(bodies.len() > 5, "{} bulks", bodies.len());
    bodies.iter().for_each(|body| bulk::run(body));
}
