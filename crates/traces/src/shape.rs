//! What all traces together say of the services: who calls whom how often, and for how long each
//! works itself.

use crate::TraceError;
use crate::read::{Role, Span, Spans};
use std::collections::BTreeMap;

/// Own times below this spread are written as constants.
const CONSTANT: f64 = 0.05;

/// A number of values by mean and spread.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    /// How many.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// Their mean; 0 of none.
    pub fn mean(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }

    /// Standard deviation over mean; 0 where they are as good as equal.
    pub fn spread(&self) -> f64 {
        let mean = self.mean();
        if self.count < 2.0 || mean <= 0.0 {
            return 0.0;
        }
        let variance = (self.squares / self.count - mean * mean).max(0.0);
        let spread = variance.sqrt() / mean;
        if spread < CONSTANT { 0.0 } else { spread }
    }
}

/// Calls of one endpoint to another.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Calls {
    /// Calls in all visits of the caller.
    pub count: u64,
    /// Visits of the caller with at least one.
    pub visits: u64,
    /// Calls that the caller did not wait for.
    pub told: u64,
    /// Sum of their places among the calls of a visit, from 0.
    places: f64,
}

impl Calls {
    /// Where among the calls of a visit they come, on average.
    pub fn place(&self) -> f64 {
        self.places / self.count.max(1) as f64
    }
}

/// An endpoint of a service: an operation that was called from outside of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Endpoint {
    /// Visits.
    pub visits: u64,
    /// Visits of requests' first service.
    pub entries: u64,
    /// Time in which it waited for nobody, microseconds.
    pub own_us: Moments,
    /// Waits for who writes no spans, microseconds for a visit, by name.
    pub waits: BTreeMap<String, Moments>,
    /// Whom it calls.
    pub calls: BTreeMap<Key, Calls>,
    /// Pairs of calls that follow each other, and those of them under way at the same time.
    pub pairs: [u64; 2],
}

/// A service, an operation, and how often it is among its own callers: a service that calls itself
/// through others gets endpoints of their own, so that no plan is endless.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// The service.
    pub service: String,
    /// The operation.
    pub operation: String,
    /// The same endpoint among the callers.
    pub depth: u32,
}

/// What all traces say.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Shape {
    /// All endpoints.
    pub endpoints: BTreeMap<Key, Endpoint>,
    /// Time from a call to its service and back, one way, microseconds.
    pub hop_us: Moments,
    /// Traces that were used.
    pub traces: usize,
    /// Traces whose first span is missing.
    pub rootless: usize,
    /// Spans that could not be used.
    pub broken: usize,
    /// Requests under way on average while the traces were taken, if none is missing.
    pub under_way: f64,
}

struct Visit {
    key: Key,
    /// The span that it began with.
    root: usize,
    parent: Option<usize>,
    start: u64,
    end: u64,
    told: bool,
}

impl Shape {
    /// Of all spans.
    ///
    /// # Errors
    /// When no trace is whole, or spans are their own ancestors.
    pub fn of(spans: &Spans) -> Result<Shape, TraceError> {
        let mut shape = Shape { broken: spans.broken, ..Shape::default() };
        let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
        for span in &spans.spans {
            traces.entry(&span.trace).or_default().push(span);
        }
        let (mut first, mut last, mut busy) = (u64::MAX, 0, 0.0);
        for (id, spans) in traces {
            match one(id, spans, &mut shape)? {
                Some((start, end)) => {
                    shape.traces += 1;
                    (first, last) = (first.min(start), last.max(end));
                    busy += (end - start) as f64;
                }
                None => shape.rootless += 1,
            }
        }
        if shape.traces == 0 {
            return Err(TraceError::new(
                format!("of {} traces none has its first span", shape.rootless),
                "export whole traces: a span without a parent and all that descend from it",
            ));
        }
        shape.under_way = busy / (last - first).max(1) as f64;
        Ok(shape)
    }

    /// Services in the order of the work that they do, most first, with microseconds of own time.
    pub fn services(&self) -> Vec<(String, f64)> {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for (key, endpoint) in &self.endpoints {
            *sums.entry(&key.service).or_default() +=
                endpoint.own_us.mean() * endpoint.visits as f64;
        }
        let mut all: Vec<(String, f64)> =
            sums.into_iter().map(|(name, sum)| (name.to_string(), sum)).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all
    }
}

/// Adds one trace; when it was under way, or `None` when its first span is missing.
fn one(
    trace: &str,
    mut spans: Vec<&Span>,
    shape: &mut Shape,
) -> Result<Option<(u64, u64)>, TraceError> {
    spans.sort_by(|a, b| (a.start_ns, &a.id).cmp(&(b.start_ns, &b.id)));
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, span) in spans.iter().enumerate() {
        index.entry(&span.id).or_insert(place);
    }
    let parents: Vec<Option<usize>> = spans
        .iter()
        .map(|span| span.parent.as_deref().and_then(|parent| index.get(parent)).copied())
        .collect();
    let Some(depths) = depths(&parents) else {
        return Err(TraceError::new(
            format!("trace {trace}: a span is its own ancestor"),
            "leave this trace out: who wrote it mixed up numbers",
        ));
    };
    let whole = spans.iter().enumerate().all(|(place, span)| {
        (span.parent.is_none() || parents[place].is_some()) && index[span.id.as_str()] == place
    });
    if !whole {
        return Ok(None);
    }
    let tree = Tree::of(&spans, parents, &depths);
    for number in 0..tree.visits.len() {
        tree.add(number, shape);
    }
    let start = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
    let roots = tree.visits.iter().filter(|visit| visit.parent.is_none());
    let end = roots.map(|visit| visit.end).max().unwrap_or(start);
    Ok(Some((start, end)))
}

/// How many ancestors each has; `None` when one is its own.
fn depths(parents: &[Option<usize>]) -> Option<Vec<usize>> {
    let mut depths: Vec<Option<usize>> = vec![None; parents.len()];
    let mut path = Vec::new();
    for place in 0..parents.len() {
        let mut at = Some(place);
        while let Some(one) = at.filter(|one| depths[*one].is_none()) {
            path.push(one);
            if path.len() > parents.len() {
                return None;
            }
            at = parents[one];
        }
        let mut depth = at.and_then(|known| depths[known]).map_or(0, |depth| depth + 1);
        while let Some(one) = path.pop() {
            depths[one] = Some(depth);
            depth += 1;
        }
    }
    depths.into_iter().collect()
}

/// One trace: its spans, and the visits that they make up.
struct Tree<'a> {
    spans: &'a [&'a Span],
    parents: Vec<Option<usize>>,
    visits: Vec<Visit>,
    /// Spans of each visit.
    spans_of: Vec<Vec<usize>>,
    /// Visits that each visit called.
    children_of: Vec<Vec<usize>>,
    /// Spans below which there are others.
    is_parent: Vec<bool>,
}

impl<'a> Tree<'a> {
    /// Spans of one service below each other are one visit; a server span always begins one.
    fn of(spans: &'a [&'a Span], parents: Vec<Option<usize>>, depths: &[usize]) -> Tree<'a> {
        let mut order: Vec<usize> = (0..spans.len()).collect();
        order.sort_by_key(|place| (depths[*place], *place));
        let mut tree = Tree {
            spans,
            visits: Vec::new(),
            spans_of: Vec::new(),
            children_of: Vec::new(),
            is_parent: vec![false; spans.len()],
            parents,
        };
        tree.parents.iter().flatten().for_each(|&parent| tree.is_parent[parent] = true);
        let mut visit_of = vec![usize::MAX; spans.len()];
        for place in order {
            let span = spans[place];
            let parent = tree.parents[place].map(|parent| visit_of[parent]);
            let begins = matches!(span.role, Role::Server | Role::Consumer);
            if let Some(visit) = parent
                && tree.visits[visit].key.service == span.service
                && !begins
            {
                visit_of[place] = visit;
                // Work that goes on after the answer belongs to it as well, but for messages.
                tree.spans_of[visit].push(place);
                continue;
            }
            visit_of[place] = tree.visits.len();
            tree.begin(place, parent);
        }
        tree
    }

    fn begin(&mut self, place: usize, parent: Option<usize>) {
        let span = self.spans[place];
        let mut ancestor = parent;
        let mut depth = 0;
        while let Some(visit) = ancestor {
            let key = &self.visits[visit].key;
            depth += u32::from(key.service == span.service && key.operation == span.name);
            ancestor = self.visits[visit].parent;
        }
        let end = span.start_ns + span.length_ns;
        let told = parent.is_some_and(|visit| {
            let after = self.visits[visit].end;
            span.role == Role::Consumer || end > after || span.start_ns >= after
        });
        if let Some(visit) = parent {
            self.children_of[visit].push(self.visits.len());
        }
        let key = Key { service: span.service.clone(), operation: span.name.clone(), depth };
        self.visits.push(Visit { key, root: place, parent, start: span.start_ns, end, told });
        self.spans_of.push(vec![place]);
        self.children_of.push(Vec::new());
    }

    fn add(&self, number: usize, shape: &mut Shape) {
        let visit = &self.visits[number];
        let endpoint = shape.endpoints.entry(visit.key.clone()).or_default();
        endpoint.visits += 1;
        endpoint.entries += u64::from(visit.parent.is_none());
        // When it waited: as the caller saw it where it wrote that down, else as the callee did.
        let mut waited: Vec<(u64, u64)> = Vec::new();
        let mut called: Vec<(u64, u64)> = Vec::new();
        let mut callees: BTreeMap<&Key, Calls> = BTreeMap::new();
        let mut children: Vec<&Visit> =
            self.children_of[number].iter().map(|child| &self.visits[*child]).collect();
        children.sort_by_key(|child| (child.start, child.root));
        for (place, child) in children.iter().enumerate() {
            let caller = self.parents[child.root].map(|place| self.spans[place]);
            let seen = caller.filter(|span| matches!(span.role, Role::Client | Role::Producer));
            let calls = callees.entry(&child.key).or_default();
            calls.count += 1;
            calls.told += u64::from(child.told);
            calls.places += place as f64;
            if child.told {
                continue;
            }
            let (start, end) =
                seen.map_or((child.start, child.end), |s| (s.start_ns, s.start_ns + s.length_ns));
            waited.push((start, end));
            called.push((start, end));
            if seen.is_some() && end - start > child.end - child.start {
                let out_and_back = (end - start) - (child.end - child.start);
                shape.hop_us.add(out_and_back as f64 / 2e3);
            }
        }
        // Calls to those who write no spans.
        let silent = self.spans_of[number].iter().copied().filter(|&place| {
            place != visit.root && self.spans[place].role == Role::Client && !self.is_parent[place]
        });
        let mut quiet: BTreeMap<&str, f64> = BTreeMap::new();
        for place in silent {
            let span = self.spans[place];
            waited.push((span.start_ns, span.start_ns + span.length_ns));
            let name = span.peer.as_deref().unwrap_or(&span.name);
            *quiet.entry(name).or_default() += span.length_ns as f64 / 1e3;
        }
        let waiting = covered(waited, visit.start, visit.end);
        endpoint.own_us.add((visit.end - visit.start - waiting) as f64 / 1e3);
        for (name, us) in quiet {
            endpoint.waits.entry(name.to_string()).or_default().add(us);
        }
        for pair in called.windows(2) {
            endpoint.pairs[0] += 1;
            endpoint.pairs[1] += u64::from(pair[1].0 < pair[0].1);
        }
        for (key, one) in callees {
            let all = endpoint.calls.entry(key.clone()).or_default();
            all.count += one.count;
            all.told += one.told;
            all.places += one.places;
            all.visits += 1;
        }
    }
}

/// Length of the union of spans of time within `from` and `to`.
fn covered(mut spans: Vec<(u64, u64)>, from: u64, to: u64) -> u64 {
    spans.sort_unstable();
    let (mut sum, mut reached) = (0, from);
    for (start, end) in spans {
        let (start, end) = (start.max(reached), end.min(to));
        if end > start {
            sum += end - start;
            reached = end;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str, parent: Option<&str>, service: &str, from_us: u64, to_us: u64) -> Span {
        Span {
            trace: "t".to_string(),
            id: id.to_string(),
            parent: parent.map(str::to_string),
            service: service.to_string(),
            name: "op".to_string(),
            role: Role::Internal,
            peer: None,
            start_ns: from_us * 1_000,
            length_ns: (to_us - from_us) * 1_000,
        }
    }

    fn shape(spans: Vec<Span>) -> Result<Shape, TraceError> {
        Shape::of(&Spans { spans, broken: 0 })
    }

    fn of<'a>(shape: &'a Shape, service: &str) -> &'a Endpoint {
        let found = shape.endpoints.iter().find(|(key, _)| key.service == service);
        found.map(|(_, endpoint)| endpoint).expect("an endpoint")
    }

    #[test]
    fn own_time_leaves_out_calls_under_way_at_once_only_once() {
        let found = shape(vec![
            span("a", None, "web", 0, 1_000),
            span("b", Some("a"), "cart", 100, 500),
            span("c", Some("a"), "shop", 200, 600),
            // Work of the caller itself.
            span("d", Some("a"), "web", 700, 800),
        ])
        .expect("a shape");
        assert_eq!(of(&found, "web").own_us.mean(), 500.0);
        assert_eq!(of(&found, "cart").own_us.mean(), 400.0);
        assert_eq!(of(&found, "web").pairs, [1, 1]);
        assert_eq!(found.services()[0].0, "web");
    }

    #[test]
    fn a_call_that_the_caller_wrote_down_tells_the_way() {
        let mut client = span("b", Some("a"), "web", 100, 700);
        client.role = Role::Client;
        let mut server = span("c", Some("b"), "cart", 200, 600);
        server.role = Role::Server;
        let found = shape(vec![span("a", None, "web", 0, 1_000), client, server]).expect("one");
        assert_eq!(of(&found, "web").own_us.mean(), 400.0);
        assert_eq!(found.hop_us.mean(), 100.0);
        assert_eq!(of(&found, "web").waits.len(), 0);
    }

    #[test]
    fn who_writes_no_spans_is_a_wait() {
        let mut client = span("b", Some("a"), "web", 100, 700);
        client.role = Role::Client;
        client.peer = Some("redis".to_string());
        let found = shape(vec![span("a", None, "web", 0, 1_000), client]).expect("one");
        assert_eq!(of(&found, "web").own_us.mean(), 400.0);
        assert_eq!(of(&found, "web").waits["redis"].mean(), 600.0);
    }

    #[test]
    fn what_outlives_its_caller_was_not_waited_for() {
        let found =
            shape(vec![span("a", None, "web", 0, 500), span("b", Some("a"), "mail", 400, 900)])
                .expect("one");
        let calls = of(&found, "web").calls.values().next().expect("a call");
        assert_eq!((calls.count, calls.told), (1, 1));
        assert_eq!(of(&found, "web").own_us.mean(), 500.0);
    }

    #[test]
    fn a_service_that_comes_back_to_itself_gets_another_endpoint() {
        let found = shape(vec![
            span("a", None, "web", 0, 1_000),
            span("b", Some("a"), "cart", 100, 900),
            span("c", Some("b"), "web", 200, 300),
        ])
        .expect("one");
        let depths: Vec<u32> =
            found.endpoints.keys().filter(|k| k.service == "web").map(|k| k.depth).collect();
        assert_eq!(depths, [0, 1]);
    }

    #[test]
    fn broken_traces_are_counted_or_refused() {
        let orphan = span("x", Some("lost"), "web", 0, 10);
        assert!(shape(vec![orphan.clone()]).expect_err("none").message.contains("none has"));
        let mut other = span("a", None, "web", 0, 10);
        other.trace = "u".to_string();
        let found = shape(vec![orphan, other]).expect("one is whole");
        assert_eq!((found.traces, found.rootless), (1, 1));
        let circle =
            shape(vec![span("a", Some("b"), "web", 0, 10), span("b", Some("a"), "web", 0, 10)]);
        assert!(circle.expect_err("a cycle").message.contains("its own ancestor"));
    }
}
