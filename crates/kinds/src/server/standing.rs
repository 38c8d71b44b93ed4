//! Does a server keep up, and is what was run what its name says?
//!
//! In this order: requests are dropped ([persephone 5.3]); it is offered more than it can do, which
//! is arithmetic; latency grows from the middle to the last third of the requests, over all or for
//! one type, which a test decides ([decision 25]).
//!
//! [decision 25]: ../../../../docs/decisions/0025-server-statistics.md

use super::run::Run;
use super::scenario::Scenario;
use cavy_lab::cpu::Replication;
use cavy_lab::statistics::growth::{Rule, Trend, trend};
use cavy_report::number::{beside_one, count, significant, upwards};
use cavy_study::outcome::Standing;

/// Share of requests that may be dropped ([persephone 5.3]).
const DROPPED_RATIO: f64 = 0.001;
/// Latency of the last third over that of the middle third ([persephone 5.3]). A queue that grows
/// evenly from nothing has 1.67, one that wanders at saturation 1.29.
const GROWTH_RATIO: f64 = 1.5;
/// Growth of latency from third to third, as a share of a third's length: an overload by so much
/// makes it. Less is not seen, but by arithmetic.
const GROWTH_SHARE: f64 = 0.005;

/// The standing, and why it is not stable.
pub fn judge(scenario: &Scenario, runs: &[Run], drop_ratio: f64) -> (Standing, String) {
    if drop_ratio > DROPPED_RATIO {
        let note = format!("{:.2} % of requests dropped", drop_ratio * 100.0);
        return (Standing::Unstable, note);
    }
    if let Some(note) = known_overload(scenario, runs) {
        return (Standing::Unstable, note);
    }
    if let Some(note) = few_rounds(scenario) {
        return (Standing::TooShort, note);
    }
    // A workload that changes makes latency grow and fall as it likes, and clients that wait for
    // their answers let no queue grow without end.
    if scenario.offered.is_none() {
        return (Standing::Stable, String::new());
    }
    growth(scenario, runs)
}

/// Requests that each of closed clients should send: a run that has fewer shows how they begin.
const ROUNDS_MIN: u64 = 20;

fn few_rounds(scenario: &Scenario) -> Option<String> {
    let population = u64::from(scenario.population?);
    let (requests, least) = (scenario.requests, ROUNDS_MIN * population);
    (requests < least).then(|| {
        let (each, least) = (requests / population, count(least));
        format!(
            "each client sends only {each} requests; {least} requests in all (run.requests) are \
             enough"
        )
    })
}

/// More is offered than can be done, whatever the run shows.
fn known_overload(scenario: &Scenario, runs: &[Run]) -> Option<String> {
    let offered: f64 = scenario.offered.as_ref()?.iter().sum();
    let load = offered / scenario.capacity;
    // What is offered has rounding errors.
    if load >= 1.0 - 1e-9 {
        return Some(format!(
            "the work that arrives is {} of what the workers can do",
            beside_one(load)
        ));
    }
    let dispatched = scenario.rate_per_s * scenario.costs.dispatch.as_ns() as f64 / 1e9;
    if dispatched >= 1.0 - 1e-9 {
        return Some(format!(
            "the dispatcher would have to do {} of what it can do",
            beside_one(dispatched)
        ));
    }
    // The reservation at the end is the one that a stationary workload leads to; where replications
    // differ, the test of growth decides.
    let all: Option<Vec<_>> = runs.iter().map(|run| run.overload.as_ref()).collect();
    let first = *all?.first()?;
    let names: Vec<&str> = first
        .kinds
        .iter()
        .filter_map(|kind| scenario.names.get(usize::from(kind.0) - 1).map(String::as_str))
        .collect();
    Some(format!(
        "{} keep{} {} workers busy and may use {}",
        names.join(" and "),
        if names.len() == 1 { "s" } else { "" },
        significant(first.offered),
        first.workers
    ))
}

/// Does latency grow?
fn growth(scenario: &Scenario, runs: &[Run]) -> (Standing, String) {
    let mut replications: Vec<&Replication> = runs.iter().map(|run| &run.replication).collect();
    if scenario.recorded {
        // All meet the same requests: they are one.
        replications.truncate(1);
    }
    let thirds_ns: Vec<f64> =
        replications.iter().map(|r| r.outcome.last_arrival.as_ns() as f64 / 3.0).collect();
    let third_ns = thirds_ns.iter().sum::<f64>() / thirds_ns.len().max(1) as f64;
    // Of one type, all is that type.
    let kinds = if scenario.names.len() == 1 { 0 } else { scenario.names.len() };
    let series = kinds + 1;
    let rule = Rule {
        settled_ratio: GROWTH_RATIO,
        endless_ratio: GROWTH_RATIO,
        floor: GROWTH_SHARE * third_ns,
        series,
    };
    let of = |what: String, thirds: &dyn Fn(&Replication) -> [f64; 3]| {
        let part = |part: usize| replications.iter().map(|r| thirds(r)[part]).collect::<Vec<_>>();
        (what, trend(&part(1), &part(2), rule))
    };
    let mut all = vec![of("latency".to_string(), &|r| r.thirds_ns)];
    all.extend((0..kinds).map(|kind| {
        let what = format!("latency of {}", scenario.names[kind]);
        of(what, &|r| r.thirds_by_type_ns[kind])
    }));
    let endless = all.iter().find_map(|(what, trend)| match trend {
        Trend::Endless { ratio } => Some(format!(
            "{what} still grows: in the last third of the run it is {ratio:.2} times that of the \
             middle third"
        )),
        _ => None,
    });
    if let Some(note) = endless {
        return (Standing::Unstable, note);
    }
    let unclear = all.iter().filter_map(|(what, trend)| match trend {
        Trend::Unclear { ratio, times } => Some((what, *ratio, *times)),
        _ => None,
    });
    match unclear.max_by(|a, b| a.2.total_cmp(&b.2)) {
        None => (Standing::Stable, String::new()),
        Some((what, ratio, times)) => {
            let requests = count(upwards(scenario.requests as f64 * times));
            let note = format!(
                "{what} in the last third of the run is {ratio:.2} times that of the middle \
                 third, which may be chance; about {requests} requests (run.requests) would tell"
            );
            (Standing::TooShort, note)
        }
    }
}

/// Why this is not what its name says, if it is not: a policy that learns first never had enough,
/// or had it only when nothing was left to measure.
pub fn unformed(scenario: &Scenario, runs: &[Run]) -> Option<String> {
    let requests = scenario.requests;
    let late = |run: &&Run| run.replication.formed_ratio.is_none_or(|ratio| ratio > 0.5);
    let run = runs.iter().find(late)?;
    Some(match (&run.learning, run.replication.formed_ratio) {
        (Some(learning), _) => format!(
            "it learns from its first {} requests and was {} in this run, which has {}; {} \
             (run.requests) are enough",
            count(learning.needed),
            learning.meanwhile,
            count(requests),
            count(upwards(2.0 * learning.needed as f64 + 1.0)),
        ),
        (None, ratio) => {
            let share = ratio.unwrap_or(1.0);
            format!(
                "it had learned enough only after {:.0} % of the run; {} requests (run.requests) \
                 are enough",
                share * 100.0,
                count(upwards(requests as f64 * share * 2.0)),
            )
        }
    })
}
