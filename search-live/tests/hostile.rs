//! Requests that nobody would send: those of the fixtures with something wrong in them. Each is
//! answered, none with a fault of the server, and afterwards everything is as it was.
//!
//! `CAVY_MUTATIONS=100000 make search-test` sends more.

mod town;

use cavy_core::{Purpose, Stream};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use town::{PATIENCE, Town};

/// A value that is seldom right.
fn odd(draws: &mut Stream) -> Value {
    let values = [
        json!(null),
        json!([]),
        json!({}),
        json!(""),
        json!("*"),
        json!("\u{0}\u{1f600}"),
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5e300),
        json!(u64::MAX),
        json!([[[[1]]]]),
        json!({"query": {"match_all": {}}}),
        json!({"field": "year"}),
        json!("9999-12-31T23:59:59.999Z"),
    ];
    values[draws.below(values.len() as u64) as usize].clone()
}

/// How many values there are, one's own among them.
fn count(value: &Value) -> u64 {
    1 + match value {
        Value::Object(map) => map.values().map(count).sum::<u64>(),
        Value::Array(all) => all.iter().map(count).sum(),
        _ => 0,
    }
}

/// Changes the value of a number, counted as above.
fn change(value: &mut Value, mut at: u64, draws: &mut Stream) {
    if at == 0 {
        match (draws.below(4), &mut *value) {
            (0, Value::Object(map)) if !map.is_empty() => {
                // A key under another name.
                let keys: Vec<String> = map.keys().cloned().collect();
                let key = &keys[draws.below(keys.len() as u64) as usize];
                if let Some(inner) = map.remove(key) {
                    map.insert(format!("{key}x"), inner);
                }
            }
            (1, _) => *value = json!([value.clone(), value.clone()]),
            (2, _) => *value = json!({ "bool": { "must": value.clone() } }),
            _ => *value = odd(draws),
        }
        return;
    }
    at -= 1;
    let mut inner: Vec<&mut Value> = match value {
        Value::Object(map) => map.values_mut().collect(),
        Value::Array(all) => all.iter_mut().collect(),
        _ => return,
    };
    for one in &mut inner {
        let own = count(one);
        if at < own {
            return change(one, at, draws);
        }
        at -= own;
    }
}

/// A body with something else in it: of its values, or of its bytes.
fn mutated(body: &Value, draws: &mut Stream) -> String {
    let lines = body.get("lines").and_then(Value::as_array).cloned();
    let mut values = lines.clone().unwrap_or_else(|| vec![body.clone()]);
    for _ in 0..1 + draws.below(3) {
        let which = draws.below(values.len() as u64) as usize;
        let at = draws.below(count(&values[which]));
        change(&mut values[which], at, draws);
    }
    let end = if lines.is_some() { "\n" } else { "" };
    let mut text: String = values.iter().map(|value| format!("{value}{end}")).collect();
    if draws.below(4) == 0 {
        let cut = |draws: &mut Stream, text: &str| {
            let at = draws.below(text.len() as u64 + 1) as usize;
            (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
        };
        match draws.below(2) {
            0 => text.truncate(cut(draws, &text)),
            _ => text.insert(
                cut(draws, &text),
                ['{', '"', ']', '\n', ',', '\u{e9}'][draws.below(6) as usize],
            ),
        }
    }
    text
}

#[test]
fn clause_7_2_odd_requests_are_answered_and_leave_everything_as_it_was() {
    let file = std::fs::read_to_string("tests/conformance/opensearch-2.19.1.jsonl");
    let file = file.expect("fixtures");
    let asked = file.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON"));
    let asked: Vec<Value> = asked.collect();
    let mut town = Town::new("hostile", 3, 1, 2);
    // The index and its documents are there, and stay.
    let setting = |one: &&Value| one["ask"] == "PUT /books" && one["status"] == 200;
    let made = asked.iter().find(setting).expect("an index");
    town.ask("PUT", "/books", made["body"].clone());
    let filled = asked.iter().find(|one| one["ask"] == "POST /_bulk?refresh=true");
    let filled = filled.expect("documents")["body"]["lines"].as_array().expect("lines").clone();
    let lines: String = filled.iter().map(|line| format!("{line}\n")).collect();
    let (_, done) = town.client.ask("POST", "/_bulk?refresh=true", &lines).expect("an answer");
    assert_eq!(done["errors"], json!(false));
    let (_, before) = town.ask("GET", "/books/_count", Value::Null);
    let able: Vec<&Value> = asked
        .iter()
        .filter(|one| {
            let ask = one["ask"].as_str().unwrap_or_default();
            let of = ["search", "aggregation", "msearch", "mget", "count", "scroll"];
            let reads = of.iter().any(|of| one["of"] == *of) && ask.starts_with("POST");
            one["body"].is_object()
                && one["body"].get("raw").is_none()
                && (reads || ask.starts_with("POST /shelf/_") || ask.starts_with("PUT /shelf/_doc"))
        })
        .collect();
    assert!(able.len() > 100, "only {} requests", able.len());
    let mutations = std::env::var("CAVY_MUTATIONS").map_or(1_500, |n| n.parse().expect("a number"));
    let mut draws = Stream::keyed(77, 0, Purpose::Test);
    let (mut refused, mut known) = (0, 0);
    for number in 0..mutations {
        let one = able[draws.below(able.len() as u64) as usize];
        let (method, path) = one["ask"].as_str().and_then(|ask| ask.split_once(' ')).expect("two");
        let body = mutated(&one["body"], &mut draws);
        let (status, answer) = match town.client.ask(method, path, &body) {
            Ok(answer) => answer,
            Err(error) => panic!("mutation {number}: {error}: {method} {path} {body}"),
        };
        // Elasticsearch calls these faults of the server.
        let type_of = answer["error"]["root_cause"][0]["type"].as_str().unwrap_or_default();
        let theirs = ["aggregation_initialization_exception", "aggregation_execution_exception"];
        let faulty = status >= 500 && !theirs.contains(&type_of);
        assert!(!faulty, "mutation {number}: {method} {path} {body}\n{status} {answer}");
        refused += u32::from((400..500).contains(&status));
        known += u32::from(status < 300);
    }
    println!("{mutations} odd requests: {refused} refused, {known} taken");
    assert!(refused > mutations / 4 && known > mutations / 50, "{refused} refused, {known} taken");
    // A body that is announced as too long is refused before it comes.
    let mut greedy = TcpStream::connect(town.local.cluster.front_ends[0].http).expect("it");
    greedy.set_read_timeout(Some(PATIENCE)).expect("an option");
    let head = "POST /books/_doc HTTP/1.1\r\nHost: x\r\nContent-Length: 104857601\r\n\r\n";
    greedy.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    greedy.read_to_string(&mut answer).expect("an answer, and its end");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let (_, after) = town.ask("GET", "/books/_count", Value::Null);
    assert_eq!(before["count"], after["count"]);
    town.until_green();
}
