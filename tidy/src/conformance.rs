//! What the page on compatibility says of requests that OpenSearch has answered, too.
//!
//! `search-live/tests/conformance.rs` holds this cluster to the same file: what is listed there as
//! a difference is one, and nothing else is.

use crate::root;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;

/// Source and version, a table of requests, and the reasons for differences.
pub fn table() -> String {
    let path = root().join("search-live/tests/conformance/opensearch-2.19.1.jsonl");
    let Ok(text) = fs::read_to_string(&path) else { return format!("{}: unread", path.display()) };
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    match lines.as_deref() {
        Ok([first, asked @ ..]) => written(first, asked),
        Ok([]) => format!("{}: empty", path.display()),
        Err(error) => format!("{}: {error}", path.display()),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn listed(one: &Value) -> impl Iterator<Item = &str> {
    one["differs"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn written(first: &Value, asked: &[Value]) -> String {
    let (peer, from, on) = (text(first, "peer"), text(first, "from"), text(first, "recorded"));
    let mut out = format!(
        "{} requests were sent on {on} to:\n\n- {peer}\n- {from}\n\nThe file keeps its \
         answers, and `make search-test` compares ours.\n\n| requests | all | refused there | same answer | \
         differ | not served |\n|---|---|---|---|---|---|\n",
        asked.len()
    );
    let reasons: &[Value] = first["reasons"].as_array().map_or(&[], Vec::as_slice);
    let absent = |id: &str| reasons.iter().any(|one| one["id"] == id && one["absent"] == true);
    let mut groups: Vec<&str> = Vec::new();
    for one in asked {
        if !groups.contains(&text(one, "of")) {
            groups.push(text(one, "of"));
        }
    }
    let row = |name: &str, some: &[&Value]| {
        let count = |is: &dyn Fn(&Value) -> bool| some.iter().filter(|one| is(one)).count();
        let refused = count(&|one| one["status"].as_u64().is_some_and(|status| status >= 400));
        let same = count(&|one| listed(one).next().is_none());
        let unserved = count(&|one| listed(one).any(absent));
        let all = some.len();
        let differ = all - same - unserved;
        format!("| {name} | {all} | {refused} | {same} | {differ} | {unserved} |\n")
    };
    for group in groups {
        let some: Vec<&Value> = asked.iter().filter(|one| text(one, "of") == group).collect();
        out += &row(group, &some);
    }
    out += &row("all", &asked.iter().collect::<Vec<_>>());
    out += "\nEvery difference has a reason. These are in many answers, and count as the same:\n\n";
    out += "| why |\n|---|\n";
    for one in reasons.iter().filter(|one| one["everywhere"] == true) {
        let _ = writeln!(out, "| {} |", text(one, "why"));
    }
    out += "\nThese count as differences:\n\n| why | requests |\n|---|---|\n";
    for one in reasons.iter().filter(|one| one["everywhere"] != true) {
        let id = text(one, "id");
        let with = asked.iter().filter(|asked| listed(asked).any(|own| own == id)).count();
        let _ = writeln!(out, "| {} | {with} |", text(one, "why"));
    }
    out
}
