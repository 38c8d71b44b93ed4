//! Spans of the three formats that tracing systems write as JSON.

use crate::TraceError;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a span is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// It serves a call.
    Server,
    /// It calls.
    Client,
    /// It sends a message and does not wait for an answer.
    Producer,
    /// It takes a message.
    Consumer,
    /// It works within a service, or nothing is said.
    #[default]
    Internal,
}

/// One span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// The request that it belongs to.
    pub trace: String,
    /// Its own number.
    pub id: String,
    /// The span that caused it.
    pub parent: Option<String>,
    /// The service in which it was.
    pub service: String,
    /// What was done.
    pub name: String,
    /// What it is about.
    pub role: Role,
    /// Who is called, where the callee writes no spans of its own.
    pub peer: Option<String>,
    /// When it began, nanoseconds since some time.
    pub start_ns: u64,
    /// How long it took, nanoseconds.
    pub length_ns: u64,
}

/// What was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spans {
    /// All spans that could be read.
    pub spans: Vec<Span>,
    /// Spans without a number, a time or a service, or that end before they begin.
    pub broken: usize,
}

const KNOWN: &str = "it must be JSON of Jaeger ({\"data\": ..}), of OpenTelemetry \
                     ({\"resourceSpans\": ..}, one object or one a line) or of Zipkin ([..])";

/// Reads all spans of a file: one JSON value, or one a line.
///
/// # Errors
/// When it is no JSON, or none of the three formats.
pub fn read(text: &str) -> Result<Spans, TraceError> {
    let mut spans = Spans::default();
    if text.trim().is_empty() {
        return Err(TraceError::new("it is empty", KNOWN));
    }
    // OpenTelemetry's file exporter writes one object a line.
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    for value in values {
        let value = value.map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            TraceError::new(format!("{place}: it is no JSON: {error}"), KNOWN)
        })?;
        one(&value, &mut spans)?;
    }
    if spans.spans.is_empty() {
        let message = match spans.broken {
            0 => "it holds no spans".to_string(),
            some => format!("all of its {some} spans are broken: no id, time or service"),
        };
        return Err(TraceError::new(message, "export some minutes of traces, whole ones"));
    }
    Ok(spans)
}

fn one(value: &Value, spans: &mut Spans) -> Result<(), TraceError> {
    let found = if let Some(resources) = array(value, &["resourceSpans", "resource_spans"]) {
        resources.iter().flat_map(open_telemetry).collect()
    } else if let Some(traces) = array(value, &["data"]) {
        traces.iter().flat_map(jaeger).collect()
    } else if array(value, &["spans"]).is_some() {
        jaeger(value)
    } else if let Some(list) = value.as_array() {
        // Zipkin lists spans, or lists of them, one a trace.
        let flat = list.iter().flat_map(|one| match one.as_array() {
            Some(inner) => inner.iter().collect(),
            None => vec![one],
        });
        flat.map(zipkin).collect::<Vec<_>>()
    } else {
        return Err(TraceError::new("its format is not known", KNOWN));
    };
    for span in found {
        // One whose end is no time is broken as well.
        match span.filter(|span| span.start_ns.checked_add(span.length_ns).is_some()) {
            Some(span) => spans.spans.push(span),
            None => spans.broken += 1,
        }
    }
    Ok(())
}

fn array<'a>(value: &'a Value, names: &[&str]) -> Option<&'a Vec<Value>> {
    names.iter().find_map(|name| value.get(name)?.as_array())
}

fn text(value: &Value, names: &[&str]) -> Option<String> {
    let found = names.iter().find_map(|name| value.get(name)?.as_str())?;
    (!found.is_empty()).then(|| found.to_string())
}

/// A number, which some write as text because JSON's are too short.
fn number(value: &Value, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| {
        let found = value.get(name)?;
        found.as_u64().or_else(|| found.as_str()?.parse().ok())
    })
}

/// Attributes or tags as text by key, in either spelling.
fn attributes(value: &Value, name: &str) -> BTreeMap<String, String> {
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match value.get(name) {
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(|one| {
                let found = one.get("value")?;
                // OpenTelemetry: {"stringValue": ".."}; Jaeger: the value itself.
                let inner = found.as_object().and_then(|object| object.values().next());
                Some((one.get("key")?.as_str()?.to_string(), shown(inner.unwrap_or(found))))
            })
            .collect(),
        Some(Value::Object(map)) => map.iter().map(|(k, v)| (k.clone(), shown(v))).collect(),
        _ => BTreeMap::new(),
    }
}

fn peer(tags: &BTreeMap<String, String>) -> Option<String> {
    let names = ["peer.service", "db.system", "db.system.name", "messaging.system", "rpc.service"];
    names.iter().find_map(|name| tags.get(*name).cloned())
}

fn role(text: &str) -> Role {
    let text = text.trim_start_matches("SPAN_KIND_").to_ascii_lowercase();
    match text.as_str() {
        "server" | "2" => Role::Server,
        "client" | "3" => Role::Client,
        "producer" | "4" => Role::Producer,
        "consumer" | "5" => Role::Consumer,
        _ => Role::Internal,
    }
}

fn open_telemetry(resource: &Value) -> Vec<Option<Span>> {
    let about = resource.get("resource").map(|one| attributes(one, "attributes"));
    let service = about.and_then(|about| about.get("service.name").cloned());
    let scopes = array(resource, &["scopeSpans", "scope_spans", "instrumentationLibrarySpans"]);
    let spans = scopes.into_iter().flatten().filter_map(|scope| array(scope, &["spans"]));
    let one = |value: &Value| {
        let start_ns = number(value, &["startTimeUnixNano", "start_time_unix_nano"])?;
        let end_ns = number(value, &["endTimeUnixNano", "end_time_unix_nano"])?;
        let tags = attributes(value, "attributes");
        let kind = value.get("kind").map_or(String::new(), |kind| match kind {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        Some(Span {
            trace: text(value, &["traceId", "trace_id"])?,
            id: text(value, &["spanId", "span_id"])?,
            parent: text(value, &["parentSpanId", "parent_span_id"]),
            service: service.clone()?,
            name: text(value, &["name"]).unwrap_or_default(),
            role: role(&kind),
            peer: peer(&tags),
            start_ns,
            length_ns: end_ns.checked_sub(start_ns)?,
        })
    };
    spans.flatten().map(one).collect()
}

fn jaeger(trace: &Value) -> Vec<Option<Span>> {
    let processes = trace.get("processes");
    let one = |value: &Value| {
        let process =
            value.get("process").or_else(|| processes?.get(value.get("processID")?.as_str()?))?;
        let tags = attributes(value, "tags");
        let parent = array(value, &["references"]).into_iter().flatten().find_map(|reference| {
            let kind = reference.get("refType").and_then(Value::as_str).unwrap_or("CHILD_OF");
            (kind == "CHILD_OF" || kind == "FOLLOWS_FROM")
                .then(|| text(reference, &["spanID"]))
                .flatten()
        });
        Some(Span {
            trace: text(value, &["traceID"])?,
            id: text(value, &["spanID"])?,
            parent: parent.or_else(|| text(value, &["parentSpanID"])),
            service: text(process, &["serviceName"])?,
            name: text(value, &["operationName"]).unwrap_or_default(),
            role: tags.get("span.kind").map_or(Role::Internal, |kind| role(kind)),
            peer: peer(&tags),
            start_ns: number(value, &["startTime"])?.checked_mul(1_000)?,
            length_ns: number(value, &["duration"])?.checked_mul(1_000)?,
        })
    };
    array(trace, &["spans"]).into_iter().flatten().map(one).collect()
}

fn zipkin(value: &Value) -> Option<Span> {
    let tags = attributes(value, "tags");
    let remote = value.get("remoteEndpoint").and_then(|one| text(one, &["serviceName"]));
    Some(Span {
        trace: text(value, &["traceId"])?,
        // Both sides of a call may share one number there.
        id: match value.get("shared").and_then(Value::as_bool) {
            Some(true) => format!("{}/shared", text(value, &["id"])?),
            _ => text(value, &["id"])?,
        },
        parent: match value.get("shared").and_then(Value::as_bool) {
            Some(true) => text(value, &["id"]),
            _ => text(value, &["parentId"]),
        },
        service: value.get("localEndpoint").and_then(|one| text(one, &["serviceName"]))?,
        name: text(value, &["name"]).unwrap_or_default(),
        role: text(value, &["kind"]).map_or(Role::Internal, |kind| role(&kind)),
        peer: peer(&tags).or(remote),
        start_ns: number(value, &["timestamp"])?.checked_mul(1_000)?,
        length_ns: number(value, &["duration"])?.checked_mul(1_000)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAEGER: &str = r#"{"data": [{"traceID": "t", "spans": [
        {"traceID": "t", "spanID": "a", "operationName": "GET /", "references": [],
         "startTime": 10, "duration": 100, "processID": "p1",
         "tags": [{"key": "span.kind", "type": "string", "value": "server"}]},
        {"traceID": "t", "spanID": "b", "operationName": "query", "startTime": 20,
         "references": [{"refType": "CHILD_OF", "traceID": "t", "spanID": "a"}],
         "duration": 30, "processID": "p1",
         "tags": [{"key": "span.kind", "value": "client"}, {"key": "db.system", "value": "redis"}]}
        ], "processes": {"p1": {"serviceName": "web"}}}]}"#;

    const OTLP: &str = r#"{"resourceSpans": [{"resource": {"attributes": [
        {"key": "service.name", "value": {"stringValue": "web"}}]}, "scopeSpans": [{"spans": [
        {"traceId": "t", "spanId": "a", "name": "GET /", "kind": 2,
         "startTimeUnixNano": "10000", "endTimeUnixNano": "110000"},
        {"traceId": "t", "spanId": "b", "parentSpanId": "a", "name": "query",
         "kind": "SPAN_KIND_CLIENT", "startTimeUnixNano": "20000", "endTimeUnixNano": "50000",
         "attributes": [{"key": "db.system", "value": {"stringValue": "redis"}}]}]}]}]}"#;

    const ZIPKIN: &str = r#"[[
        {"traceId": "t", "id": "a", "name": "GET /", "kind": "SERVER", "timestamp": 10,
         "duration": 100, "localEndpoint": {"serviceName": "web"}},
        {"traceId": "t", "id": "b", "parentId": "a", "name": "query", "kind": "CLIENT",
         "timestamp": 20, "duration": 30, "localEndpoint": {"serviceName": "web"},
         "remoteEndpoint": {"serviceName": "redis"}}]]"#;

    #[test]
    fn three_formats_say_the_same() {
        let jaeger = read(JAEGER).expect("Jaeger");
        assert_eq!(jaeger.spans.len(), 2);
        assert_eq!(jaeger.spans[0].role, Role::Server);
        assert_eq!(jaeger.spans[1].peer.as_deref(), Some("redis"));
        assert_eq!(jaeger.spans[1].parent.as_deref(), Some("a"));
        assert_eq!(read(OTLP).expect("OpenTelemetry"), jaeger);
        assert_eq!(read(ZIPKIN).expect("Zipkin"), jaeger);
        let lines = format!("{}\n{}\n", OTLP.replace('\n', " "), OTLP.replace('\n', " "));
        assert_eq!(read(&lines).expect("one a line").spans.len(), 4);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (wrong, why) in [
            ("", "empty"),
            ("{", "no JSON"),
            ("{}", "format is not known"),
            ("7", "format is not known"),
            ("[]", "no spans"),
            ("[{}]", "broken"),
            (r#"{"data": [{"spans": [{"spanID": "a"}]}]}"#, "broken"),
        ] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.message.contains(why), "{wrong}: {}", error.message);
        }
        let late = JAEGER.replacen("\"startTime\": 20", "\"startTime\": 18446744073709551", 1);
        let spans = read(&late).expect("one is left");
        assert_eq!((spans.spans.len(), spans.broken), (1, 1));
        let backwards = OTLP.replacen("\"110000\"", "\"9000\"", 1);
        let spans = read(&backwards).expect("one is left");
        assert_eq!((spans.spans.len(), spans.broken), (1, 1));
    }
}
