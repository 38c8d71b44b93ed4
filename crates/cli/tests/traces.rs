//! `cavy plan from-traces` from outside: what tracing systems write becomes a plan that runs.

mod cavy;

use cavy::Cavy;
use serde_json::{Value, json};

/// Requests of Jaeger: web asks cart, then in every third request shop, which takes longer each
/// time.
fn jaeger(count: u64) -> Value {
    let one = |number: u64| {
        let base = number * 10_000;
        let span = |id: &str, parent: &str, process: &str, from: u64, length: u64| {
            let references = match parent {
                "" => json!([]),
                parent => json!([{ "refType": "CHILD_OF", "spanID": parent }]),
            };
            json!({
                "traceID": number.to_string(), "spanID": id, "operationName": "GET /",
                "references": references, "startTime": base + from, "duration": length,
                "processID": process, "tags": [{ "key": "span.kind", "value": "server" }],
            })
        };
        let mut spans = vec![span("w", "", "p1", 0, 2_000), span("c", "w", "p2", 200, 400)];
        if number.is_multiple_of(3) {
            spans.push(span("s", "w", "p3", 700, 300 + number));
        }
        let name = |name: &str| json!({ "serviceName": name });
        let processes = json!({ "p1": name("web"), "p2": name("cart"), "p3": name("shop") });
        json!({ "traceID": number.to_string(), "spans": spans, "processes": processes })
    };
    json!({ "data": (0..count).map(one).collect::<Vec<_>>() })
}

#[test]
fn traces_become_a_plan_that_is_good() {
    let cavy = Cavy::new();
    cavy.write("traces.json", jaeger(90).to_string());
    let made = cavy.call(&["plan", "from-traces", "traces.json", "--clients", "8", "--cores", "2"]);
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success() && said.contains("90 traces, 3 services"), "{said}");
    let checked = cavy.call(&["plan", "check", "plan.toml"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let again = cavy.call(&["plan", "from-traces", "traces.json"]);
    assert!(again.status.code() == Some(2), "nothing is written over");
    let shared = cavy.call(&["plan", "from-traces", "traces.json", "-", "--host-cores", "4"]);
    let text = String::from_utf8_lossy(&shared.stdout).into_owned();
    assert!(text.contains("host = \"host\"") && !text.contains("\ncores = 2"), "{text}");
}

#[test]
fn broken_traces_are_refused_with_a_cure() {
    let cavy = Cavy::new();
    for (text, why) in [("{", "no JSON"), ("{}", "not known"), ("[]", "no spans")] {
        cavy.write("traces.json", text);
        let output = cavy.call(&["plan", "from-traces", "traces.json", "-"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let right = said.contains(why) && said.contains("hint:");
        assert!(output.status.code() == Some(2) && right, "{text}: {said}");
    }
    let missing = cavy.call(&["plan", "from-traces", "nowhere.json", "-"]);
    assert_eq!(missing.status.code(), Some(2));
}
