//! What spans of requests say: how many services a request passes, how many are asked at once,
//! whether requests of one service differ in work, and whether some stall.

use super::{Answers, evidence, question};
use cavy_traces::read::{Span, Spans};
use cavy_traces::shape::Shape;
use std::collections::{BTreeMap, BTreeSet};

/// Visits that an endpoint must have before it is compared with others.
const FEW: u64 = 20;
/// Own times that differ by as much are of mixed requests.
const MIXED: f64 = 10.0;
/// So many calls at once are the many of the question.
const MANY: usize = 10;

/// Looks at spans; a sentence about what was in them.
pub fn look(spans: &Spans, shape: &Shape, shown: &str, answers: &mut Answers) -> String {
    passed(spans, shown, answers);
    at_once(spans, shown, answers);
    own_times(shape, shown, answers);
    let mut columns: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for span in spans.spans.iter().filter(|span| span.parent.is_none()) {
        let name = format!("{} {}", span.service, span.name);
        columns.entry(name).or_default().push(span.length_ns as f64 / 1e3);
    }
    columns.retain(|_, took| took.len() as u64 >= FEW);
    evidence::latencies(&columns.into_iter().collect(), shown, answers);
    format!("{shown}: {} requests through {} services", shape.traces, shape.services().len())
}

/// How many services does a request pass?
fn passed(spans: &Spans, shown: &str, answers: &mut Answers) {
    let mut of_trace: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for span in &spans.spans {
        let services = of_trace.entry(&span.trace).or_default();
        services.insert(&span.service);
        services.extend(span.peer.as_deref());
    }
    let most = of_trace.values().map(BTreeSet::len).max().unwrap_or(0);
    if let Some(asked) = question("chain") {
        let says = match most {
            0 | 1 => format!("{shown}: no request passes more than one service"),
            most => format!("{shown}: a request passes up to {most} services"),
        };
        answers.note(asked, most > 1, says);
    }
}

/// How many calls of one span are under way together?
fn at_once(spans: &Spans, shown: &str, answers: &mut Answers) {
    let services: BTreeMap<(&str, &str), &str> =
        spans.spans.iter().map(|one| ((&*one.trace, &*one.id), &*one.service)).collect();
    let mut calls: BTreeMap<(&str, &str), Vec<&Span>> = BTreeMap::new();
    for span in &spans.spans {
        let Some(parent) = &span.parent else { continue };
        let of = (span.trace.as_str(), parent.as_str());
        // What a service does within itself is no call.
        let within = span.peer.is_none() && services.get(&of) == Some(&span.service.as_str());
        if !within {
            calls.entry(of).or_default().push(span);
        }
    }
    let mut wide: BTreeSet<&str> = BTreeSet::new();
    let mut most = 0;
    for ((trace, _), calls) in &calls {
        let together = together(calls);
        most = most.max(together);
        if together >= MANY {
            wide.insert(trace);
        }
    }
    if most < MANY {
        return;
    }
    let traces: BTreeSet<&str> = spans.spans.iter().map(|span| span.trace.as_str()).collect();
    if let Some(asked) = question("fan_in") {
        let says = format!("{shown}: up to {most} calls of one request are under way together");
        answers.note(asked, true, says);
    }
    if let Some(asked) = question("spread")
        && wide.len() * 2 > traces.len()
    {
        let says = format!(
            "{shown}: {} of {} requests have {MANY} calls or more under way together",
            wide.len(),
            traces.len()
        );
        answers.note(asked, true, says);
    }
}

/// The most of these spans that are under way at one moment.
fn together(calls: &[&Span]) -> usize {
    let mut edges: Vec<(u64, i32)> = Vec::new();
    for call in calls {
        edges.push((call.start_ns, 1));
        edges.push((call.start_ns + call.length_ns.max(1), -1));
    }
    // Those that end are gone before those that begin.
    edges.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in edges {
        now += change;
        most = most.max(now);
    }
    usize::try_from(most).unwrap_or(0)
}

/// Does one service have requests that differ in their own work?
fn own_times(shape: &Shape, shown: &str, answers: &mut Answers) {
    let Some(asked) = question("mixed") else { return };
    let mut services: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for (key, endpoint) in &shape.endpoints {
        if endpoint.visits >= FEW && endpoint.own_us.mean() > 0.0 {
            let of = services.entry(&key.service).or_default();
            of.push((&key.operation, endpoint.own_us.mean()));
        }
    }
    let mut widest: Option<(f64, String)> = None;
    for (service, operations) in services {
        let by = |a: &&(&str, f64), b: &&(&str, f64)| a.1.total_cmp(&b.1);
        let ends = operations.iter().min_by(by).zip(operations.iter().max_by(by));
        let Some((least, most)) = ends.filter(|_| operations.len() > 1) else { continue };
        let times = most.1 / least.1;
        if widest.as_ref().is_none_or(|(known, _)| times > *known) {
            let says = format!(
                "{shown}: in `{service}` a request of `{}` works {times:.1} times as long as one \
                 of `{}`",
                most.0, least.0
            );
            widest = Some((times, says));
        }
    }
    if let Some((times, says)) = widest {
        answers.note(asked, times >= MIXED, says);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_traces::read::Role;

    fn span(trace: u32, id: &str, parent: Option<&str>, service: &str, start_us: u64) -> Span {
        Span {
            trace: trace.to_string(),
            id: id.to_string(),
            parent: parent.map(str::to_string),
            service: service.to_string(),
            name: "get".to_string(),
            role: Role::Server,
            peer: None,
            start_ns: start_us * 1_000,
            length_ns: 5_000_000,
        }
    }

    #[test]
    fn calls_under_way_together_are_counted() {
        let mut all = Vec::new();
        for trace in 0..30 {
            all.push(span(trace, "root", None, "front", 0));
            let shards = (0..12).map(|n| format!("shard{n}"));
            all.extend(shards.map(|shard| span(trace, &shard, Some("root"), &shard, 10)));
        }
        let spans = Spans { spans: all, broken: 0 };
        let mut answers = Answers::default();
        let shape = Shape::of(&spans).expect("a shape");
        look(&spans, &shape, "spans.json", &mut answers);
        for key in ["chain", "fan_in", "spread"] {
            assert!(answers.of(key).is_some_and(|answer| answer.yes), "{key}: {answers:?}");
        }
    }

    #[test]
    fn calls_in_turn_are_not_together() {
        let one = span(0, "a", None, "x", 0);
        let two = span(0, "b", None, "x", 5_000);
        assert_eq!(together(&[&one, &two]), 1);
        assert_eq!(together(&[&one, &one, &two]), 2);
    }
}
