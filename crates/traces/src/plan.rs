//! A plan of kind `services` from what traces say.

use crate::TraceError;
use crate::shape::{Endpoint, Key, Moments, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Services that a plan may have.
const SERVICES_MAX: usize = 1000;
/// Most calls of one visit to one endpoint, one after the other.
const REPEAT_MAX: f64 = 1000.0;
/// Shares of calls below this are left out: a trace in a thousand.
const SHARE_MIN: f64 = 1e-3;

/// What traces cannot tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guess {
    /// Clients; as many requests as were under way when `None`.
    pub clients: Option<u32>,
    /// Cores of each service.
    pub cores: u16,
    /// Cores of one host that all services share, instead of `cores`.
    pub host_cores: Option<u16>,
}

/// The plan as TOML, with comments.
///
/// # Errors
/// When there are more services than a plan may have.
pub fn text(shape: &Shape, guess: Guess, from: &str) -> Result<String, TraceError> {
    let services = shape.services();
    if services.len() > SERVICES_MAX {
        return Err(TraceError::new(
            format!("there are {} services, and a plan has {SERVICES_MAX} at most", services.len()),
            "export traces of one application",
        ));
    }
    let names = Names::of(shape);
    let mut out = String::new();
    head(&mut out, shape, from);
    if let Some(cores) = guess.host_cores {
        let _ = writeln!(out, "\n[[hosts]]\nname = \"host\"\ncores = {cores}");
    }
    clients(&mut out, shape, guess, &names);
    for (service, own_us) in &services {
        let _ = writeln!(out, "\n[[services]]\nname = \"{}\"", names.services[service]);
        match guess.host_cores {
            Some(_) => out.push_str("host = \"host\"\n"),
            None => {
                let _ = writeln!(out, "cores = {}", guess.cores);
            }
        }
        let per_request = own_us / shape.traces.max(1) as f64;
        let _ = writeln!(out, "# Own time for a request of a client: {per_request:.0} us.");
        out.push_str("endpoints = [\n");
        for (key, endpoint) in shape.endpoints.iter().filter(|(key, _)| key.service == *service) {
            let _ = writeln!(out, "  {{ name = \"{}\", steps = [", names.endpoints[key]);
            steps(&mut out, endpoint, &names);
            out.push_str("  ] },\n");
        }
        out.push_str("]\n");
    }
    tail(&mut out, &services, &names);
    Ok(out)
}

fn head(out: &mut String, shape: &Shape, from: &str) {
    let _ = writeln!(
        out,
        "# Made by `cavy plan from-traces {}` of {} traces.",
        printable(from),
        shape.traces
    );
    out.push_str(
        "# Traces do not tell CPU time: `cpu` is the time in which a service waited for nobody\n\
         # who is traced, with its queues and locks in it. Take traces at low load, and put CPU time\n\
         # in its place where you know it.\n",
    );
    if shape.rootless + shape.broken > 0 {
        let _ = writeln!(
            out,
            "# Left out: {} traces whose first span is missing, {} broken spans.",
            shape.rootless, shape.broken
        );
    }
    out.push_str("kind = \"services\"\ntitle = \"What would a faster service buy?\"\n");
    out.push_str("summary = \"Services and calls as traces show them.\"\n");
    out.push_str("baseline = \"no change\"\n\n");
    let hop = if shape.hop_us.count() > 0.0 { shape.hop_us.mean() } else { 100.0 };
    let why = match shape.hop_us.count() > 0.0 {
        true => "half of what calls take longer for the caller than for the service",
        false => "a guess: no caller wrote its calls down",
    };
    let _ = writeln!(out, "# Time of a message, one way: {why}.\nhop = {}", us(hop));
}

fn clients(out: &mut String, shape: &Shape, guess: Guess, names: &Names) {
    let (population, why) = match guess.clients {
        Some(clients) => (clients, "as asked for"),
        None => {
            let under_way = shape.under_way.round().clamp(1.0, 1e6) as u32;
            (under_way, "requests under way while the traces were taken, if none is missing")
        }
    };
    let _ = writeln!(out, "\n[clients]\n# {why}\npopulation = {population}\nmix = [");
    let entries: u64 = shape.endpoints.values().map(|endpoint| endpoint.entries).sum();
    let mut left = 1.0;
    let entered: Vec<(&Key, &Endpoint)> =
        shape.endpoints.iter().filter(|(_, endpoint)| endpoint.entries > 0).collect();
    for (place, (key, endpoint)) in entered.iter().enumerate() {
        // Shares are rounded, so the last takes what is left.
        let share = match place + 1 == entered.len() {
            true => left,
            false => (endpoint.entries as f64 / entries as f64 * 1e6).round() / 1e6,
        };
        left -= share;
        let share = (share * 1e6).round() / 1e6;
        let _ = writeln!(out, "  {{ call = \"{}\", share = {share} }},", names.call(key));
    }
    out.push_str("]\n");
}

fn steps(out: &mut String, endpoint: &Endpoint, names: &Names) {
    if endpoint.own_us.mean() > 0.0 {
        let _ = writeln!(out, "    {{ cpu = {} }},", law(&endpoint.own_us));
    }
    for (name, wait) in &endpoint.waits {
        let share = wait.count() / endpoint.visits.max(1) as f64;
        let mean = us(wait.mean() * share);
        let _ = writeln!(out, "    # {}, which writes no spans", printable(name));
        let _ = writeln!(out, "    {{ wait = {mean} }},");
    }
    let mut calls: Vec<_> = endpoint.calls.iter().collect();
    calls.sort_by(|a, b| a.1.place().total_cmp(&b.1.place()).then_with(|| a.0.cmp(b.0)));
    let parallel = endpoint.pairs[1] * 2 > endpoint.pairs[0];
    let mut together = Vec::new();
    for (key, call) in calls {
        let verb = if call.told * 2 > call.count { "tell" } else { "call" };
        let name = names.call(key);
        let visits = endpoint.visits.max(1) as f64;
        let mean = call.count as f64 / visits;
        let entries = match mean <= 1.0 {
            true => vec![(1, mean)],
            // So many each time, and one more in some.
            false => vec![(mean.min(REPEAT_MAX) as u16, 1.0), (1, mean.fract())],
        };
        for (repeat, share) in entries.into_iter().filter(|(_, share)| *share >= SHARE_MIN) {
            let share = (share * 1e6).round() / 1e6;
            let mut entry = format!("{verb} = \"{name}\"");
            if repeat > 1 {
                let _ = write!(entry, ", repeat = {repeat}");
            }
            if share < 1.0 {
                let _ = write!(entry, ", share = {share}");
            }
            if parallel && verb == "call" {
                together.push(format!("{{ {entry} }}"));
            } else {
                let _ = writeln!(out, "    {{ {entry} }},");
            }
        }
    }
    if !together.is_empty() {
        let _ = writeln!(out, "    {{ together = [{}] }},", together.join(", "));
    }
}

fn tail(out: &mut String, services: &[(String, f64)], names: &Names) {
    let busiest = services.first().map_or("", |(name, _)| &names.services[name]);
    let ranked: Vec<String> =
        services.iter().take(8).map(|(name, _)| format!("\"{}\"", names.services[name])).collect();
    let _ = writeln!(out, "\n[whatif]\nservice = \"{busiest}\"\nfaster_ratio = 0.25");
    for method in ["no_change", "utilisation"] {
        let _ = writeln!(out, "\n[[methods]]\nmethod = \"{method}\"");
    }
    out.push_str("\n[[methods]]\nmethod = \"governor\"\nmode = \"delivered\"\n");
    let _ = writeln!(
        out,
        "\n[sweep]\n# What would each be worth?\n\"whatif.service\" = [{}]",
        ranked.join(", ")
    );
    out.push_str("\n[run]\nrequests = 20000\nreplications = 5\n");
    out.push_str("\n[quick]\n\"run.requests\" = 4000\n\"run.replications\" = 3\n");
}

/// A distribution by mean and spread.
fn law(values: &Moments) -> String {
    let (mean, spread) = (values.mean(), values.spread());
    if spread == 0.0 {
        return us(mean);
    }
    // Of a lognormal: the square of its spread is e to the square of sigma, less 1.
    let sigma = (1.0 + spread * spread).ln().sqrt();
    format!("{{ dist = \"lognormal\", mean_us = {}, sigma = {sigma:.3} }}", us(mean))
}

fn us(value: f64) -> String {
    let text = format!("{:.3}", value.max(0.001));
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// What services and endpoints are called in the plan: letters, digits, `_`, `-` and `/`.
struct Names {
    services: BTreeMap<String, String>,
    endpoints: BTreeMap<Key, String>,
}

impl Names {
    fn of(shape: &Shape) -> Names {
        let mut names = Names { services: BTreeMap::new(), endpoints: BTreeMap::new() };
        let mut taken = BTreeSet::new();
        let mut taken_of: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for key in shape.endpoints.keys() {
            if !names.services.contains_key(&key.service) {
                let name = unique(plain(&key.service, "service"), &mut taken);
                names.services.insert(key.service.clone(), name);
            }
            let wanted = match key.depth {
                0 => plain(&key.operation, "call"),
                again => format!("{}-again{again}", plain(&key.operation, "call")),
            };
            let name = unique(wanted, taken_of.entry(&key.service).or_default());
            names.endpoints.insert(key.clone(), name);
        }
        names
    }

    fn call(&self, key: &Key) -> String {
        format!("{}.{}", self.services[&key.service], self.endpoints[key])
    }
}

fn plain(text: &str, otherwise: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "_/".contains(c) { c } else { '-' };
    let mapped: String = text.chars().take(60).map(keep).collect();
    let trimmed = mapped.trim_matches('-');
    if trimmed.is_empty() { otherwise.to_string() } else { trimmed.to_string() }
}

fn unique(wanted: String, taken: &mut BTreeSet<String>) -> String {
    let mut name = wanted.clone();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = format!("{wanted}-{number}");
        number += 1;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Role, Span, Spans};

    const GUESS: Guess = Guess { clients: Some(16), cores: 2, host_cores: None };

    /// Traces of a known application: web (300 us) asks cart twice one after the other (200 us
    /// each), then in every second request shop (500 us).
    fn known() -> Spans {
        let mut spans = Vec::new();
        for trace in 0..100_u64 {
            let base = trace * 10_000;
            let mut add = |id: &str, parent: Option<&str>, service: &str, from: u64, to: u64| {
                spans.push(Span {
                    trace: trace.to_string(),
                    id: id.to_string(),
                    parent: parent.map(str::to_string),
                    service: service.to_string(),
                    name: "GET /x y".to_string(),
                    role: Role::Server,
                    peer: None,
                    start_ns: (base + from) * 1_000,
                    length_ns: (to - from) * 1_000,
                });
            };
            let with_shop = trace % 2 == 0;
            add("w", None, "web.front", 0, if with_shop { 1_200 } else { 700 });
            add("a", Some("w"), "cart", 100, 300);
            add("b", Some("w"), "cart", 300, 500);
            if with_shop {
                add("s", Some("w"), "shop", 600, 1_100);
            }
        }
        Spans { spans, broken: 0 }
    }

    #[test]
    fn a_known_application_is_found_again() {
        let shape = Shape::of(&known()).expect("a shape");
        let plan = text(&shape, GUESS, "traces.json").expect("a plan");
        for wanted in [
            "of 100 traces",
            "population = 16",
            "{ call = \"web-front.GET-/x-y\", share = 1 },",
            "cpu = 300 }",
            "cpu = 200 }",
            "cpu = 500 }",
            "{ call = \"cart.GET-/x-y\", repeat = 2 },",
            "{ call = \"shop.GET-/x-y\", share = 0.5 },",
            "\"whatif.service\" = [\"cart\", \"web-front\", \"shop\"]",
        ] {
            assert!(plan.contains(wanted), "{wanted} in\n{plan}");
        }
        // Half of the requests take .7 ms and half 1.2 ms of each 10 ms.
        assert!((shape.under_way - 0.095).abs() < 0.001, "{}", shape.under_way);
    }

    #[test]
    fn calls_at_once_stay_at_once() {
        let mut spans = known();
        for span in spans.spans.iter_mut().filter(|span| span.id == "b") {
            span.start_ns -= 150_000;
            span.service = "stock".to_string();
        }
        spans.spans.retain(|span| span.id != "s");
        let plan = text(&Shape::of(&spans).expect("a shape"), GUESS, "x").expect("a plan");
        let both = "together = [{ call = \"cart.GET-/x-y\" }, { call = \"stock.GET-/x-y\" }]";
        assert!(plan.contains(both), "{plan}");
    }

    #[test]
    fn names_stay_apart() {
        let mut taken = BTreeSet::new();
        let names: Vec<String> =
            ["a b", "a.b", "..", ""].iter().map(|n| unique(plain(n, "x"), &mut taken)).collect();
        assert_eq!(names, ["a-b", "a-b-2", "x", "x-2"]);
    }
}
