//! Runs one replication, and puts replications together.

use super::contestant::Contestant;
use super::result::{OfType, Regional, Side, Sides};
use super::scenario::Scenario;
use super::standing;
use crate::Latency;
use crate::events::Events;
use crate::halves::Halves;
use cavy_core::family::Node;
use cavy_core::family::message::{Input, Protocol, Talker};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::statistics::histogram::Histogram;
use cavy_lab::wan::{self, Ask, Clients, Ending, Hardware, Parts, Report, Setup, Site, Unobserved};
use cavy_study::outcome::Estimate;
use cavy_study::point::{Manner, Queue, RunError};
use cavy_study::subject::Summed;
use cavy_txn::client::{Outcome, Request, Response};
use cavy_txn::dast::Dast;
use cavy_txn::janus::Janus;
use cavy_txn::locking::Locking;
use cavy_txn::slog::Slog;
use cavy_txn::tapir::Tapir;
use cavy_txn::{Shard, TxnId};
use std::sync::Arc;

/// What one replication came to.
pub struct Replication {
    pub(super) report: Report,
    times: Times,
    /// Where a fault names the region, and elsewhere.
    sides: Option<[Times; 2]>,
    /// Of each type that the plan describes.
    types: Vec<Times>,
    pub(super) halves: Halves,
    aborted: u64,
    given_up: u64,
    unanswered: u64,
    asked: u64,
    answered_per_s: f64,
}

/// Latencies within a region and across regions.
struct Times {
    irt: Histogram,
    crt: Histogram,
}

impl Times {
    fn new() -> Self {
        Times { irt: Histogram::new(), crt: Histogram::new() }
    }

    fn record(&mut self, within: bool, latency: Span) {
        let histogram = if within { &mut self.irt } else { &mut self.crt };
        histogram.record(latency.as_ns());
    }
}

/// Clients, each of one shard.
struct Callers<'a> {
    scenario: &'a Scenario,
    draws: Stream,
    numbers: Vec<u64>,
    window: (Instant, Instant),
    times: Times,
    sides: Option<[Times; 2]>,
    types: Vec<Times>,
    halves: Halves,
    aborted: u64,
    given_up: u64,
    unanswered: u64,
    answered: u64,
}

impl<'a> Callers<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let begin = Instant::ZERO + scenario.warmup;
        Callers {
            scenario,
            draws: Stream::keyed(seed, 0, Purpose::Arrivals),
            numbers: vec![0; scenario.clients as usize],
            window: (begin, Instant::ZERO + scenario.setup.duration),
            times: Times::new(),
            sides: (!scenario.struck.is_empty()).then(|| [Times::new(), Times::new()]),
            types: scenario.asks.names().iter().map(|_| Times::new()).collect(),
            halves: Halves::default(),
            aborted: 0,
            given_up: 0,
            unanswered: 0,
            answered: 0,
        }
    }
}

impl Callers<'_> {
    /// A client's shard, for life.
    fn home(&self, client: u32) -> Shard {
        self.scenario.layout.home(client)
    }

    /// What `client` waits before its next transaction.
    fn wait_ns(&mut self, first: bool) -> u64 {
        if let Some(gap_ns) = self.scenario.gap_ns {
            return (-libm::log(self.draws.unit()) * gap_ns) as u64;
        }
        let think = self.scenario.think.as_ns();
        // The first ones do not come at one moment.
        let most = if first { (2 * think).max(10_000_000) } else { 2 * think };
        if most == 0 { 0 } else { self.draws.below(most + 1) }
    }

    /// Whom a client asks.
    fn replica(&self, client: u32, attempt: u32) -> Node {
        let layout = &self.scenario.layout;
        let home = self.home(client);
        self.scenario.contestant.target(home, client / layout.shards(), attempt)
    }

    /// A client whose first choice fails waits until it asks another one.
    fn waits_in_vain(&self, client: u32) -> bool {
        let first = self.replica(client, 0);
        self.scenario.setup.faults.outages.iter().any(|outage| outage.host == first)
    }
}

impl<P: Protocol<Request = Request, Response = Response>> Clients<P> for Callers<'_> {
    fn count(&self) -> u32 {
        self.scenario.clients
    }

    fn next(&mut self, client: u32, now: Instant) -> Option<(Instant, Request)> {
        let number = &mut self.numbers[client as usize];
        *number += 1;
        let id = TxnId { client: client + 1, number: *number };
        let first = *number == 1;
        let scenario = self.scenario;
        let txn = scenario.asks.draw(&scenario.layout, client, id, &mut self.draws);
        Some((now + Span::from_ns(self.wait_ns(first)), Request(Arc::new(txn))))
    }

    fn open(&self) -> bool {
        self.scenario.gap_ns.is_some()
    }

    fn target(&mut self, client: u32, _: &Request, attempt: u32) -> Node {
        self.replica(client, attempt)
    }

    fn site(&self, client: u32) -> Option<Site> {
        let site = Site(self.scenario.layout.region_of(self.home(client)).0);
        (!self.scenario.contestant.in_client()).then_some(site)
    }

    fn patience(&self, _: u32, _: u32) -> Option<Span> {
        Some(self.scenario.patience)
    }

    fn ended(&mut self, ask: &Ask<P>, now: Instant, ending: Ending<Response>) {
        let (begin, end) = self.window;
        match ending {
            Ending::Unknown => self.unanswered += 1,
            // Had no effect, and took as long as it took to see that.
            Ending::Answered(Response { outcome: Outcome::GivenUp { .. }, .. }) => {
                self.given_up += 1;
            }
            Ending::Answered(response) => {
                self.answered += u64::from(begin <= now && now < end);
                self.aborted += u64::from(response.outcome == Outcome::Aborted);
                if ask.since < begin {
                    return;
                }
                let layout = &self.scenario.layout;
                let region = layout.region_of(self.home(ask.client));
                let txn = &ask.request.0;
                let within = layout.is_within(txn, region);
                let latency = now.since(ask.since);
                self.times.record(within, latency);
                let half = 2 * ask.since.since(begin).as_ns() / end.since(begin).as_ns().max(1);
                self.halves.add(half.min(1) as usize, latency.as_ns());
                if let Some(own) = self.types.get_mut(usize::from(txn.kind)) {
                    own.record(within, latency);
                }
                let vain = self.waits_in_vain(ask.client);
                if let Some([struck, elsewhere]) = self.sides.as_mut().filter(|_| !vain) {
                    let hit = self.scenario.struck.contains(&region);
                    let side = if hit { struck } else { elsewhere };
                    side.record(within, latency);
                }
            }
        }
    }
}

/// A processor that takes messages one at a time.
struct Processor(Span);

impl<P: Protocol> Hardware<P> for Processor {
    fn handling(&mut self, _: Node, _: &Input<P>) -> Span {
        self.0
    }
    fn work(&mut self, _: Node, _: &P::Job) -> Span {
        Span::ZERO
    }
}

/// One replication.
pub fn replicate(scenario: &Scenario, seed: u64, manner: &Manner) -> Result<Replication, RunError> {
    let one = once(scenario, seed, manner);
    if manner.twice {
        let again = once(scenario, seed, manner);
        if let Some(parts) = one.report.trail.parts_from(&again.report.trail) {
            return Err(RunError::Diverged(format!("{parts:?}")));
        }
    }
    Ok(one)
}

fn once(scenario: &Scenario, seed: u64, manner: &Manner) -> Replication {
    let runs = scenario.asks.procedures();
    match &scenario.contestant {
        Contestant::Dast(own) => {
            drive(scenario, seed, manner, |node| Dast::new(own.clone(), node, runs))
        }
        Contestant::TwoPhase(own) => {
            drive(scenario, seed, manner, |node| Locking::new(own.clone(), node, runs))
        }
        Contestant::Janus(own) => {
            drive(scenario, seed, manner, |node| Janus::new(own.clone(), node, runs))
        }
        Contestant::Tapir(own) => {
            drive(scenario, seed, manner, |node| Tapir::new(own.clone(), node, runs))
        }
        Contestant::Slog(own) => {
            drive(scenario, seed, manner, |node| Slog::new(own.clone(), node, runs))
        }
    }
}

fn drive<M>(
    scenario: &Scenario,
    seed: u64,
    manner: &Manner,
    make: impl Fn(Node) -> M,
) -> Replication
where
    M: Talker<Protocol: Protocol<Request = Request, Response = Response>, Timer: std::hash::Hash>,
{
    let setup = Setup { seed, shuffle_ties: manner.shuffle_ties, ..scenario.setup.clone() };
    let mut callers = Callers::new(scenario, seed);
    let mut hardware = Processor(scenario.message);
    let (clients, hardware, observer) = (&mut callers, &mut hardware, &mut Unobserved);
    // Thousands of messages are under way, so the wheel unless somebody asks.
    let pending = &mut Events::of(manner, Queue::Wheel);
    let report = wan::run(&setup, make, Parts { clients, hardware, pending, observer }).0;
    let seconds = (scenario.setup.duration - scenario.warmup).as_us() / 1e6;
    Replication {
        asked: report.counts.asked,
        report,
        answered_per_s: callers.answered as f64 / seconds,
        times: callers.times,
        sides: callers.sides,
        types: callers.types,
        halves: callers.halves,
        aborted: callers.aborted,
        given_up: callers.given_up,
        unanswered: callers.unanswered,
    }
}

fn side(runs: &[&Times]) -> Side {
    let (irt, crt): (Vec<&Histogram>, Vec<&Histogram>) =
        runs.iter().map(|times| (&times.irt, &times.crt)).unzip();
    let stalls = |of: &[&Histogram]| {
        let stall = |one: &&Histogram| Some((one.max()? - one.quantile(0.5)?) as f64 / 1e6);
        of.iter().filter_map(stall).collect()
    };
    Side {
        irt_stalls_ms: stalls(&irt),
        crt_stalls_ms: stalls(&crt),
        irt: Latency::of(&irt),
        crt: Latency::of(&crt),
    }
}

/// Latencies within a region and across regions, of all replications.
fn sorts(runs: &[Replication], of: &dyn Fn(&Replication) -> &Times) -> (Latency, Latency) {
    let all = || runs.iter().map(of);
    let irt: Vec<&Histogram> = all().map(|times| &times.irt).collect();
    let crt: Vec<&Histogram> = all().map(|times| &times.crt).collect();
    (Latency::of(&irt), Latency::of(&crt))
}

/// What replications say together.
pub fn summarize(scenario: &Scenario, runs: &[Replication]) -> Summed<Regional> {
    let each: Vec<f64> = runs.iter().map(|run| run.answered_per_s).collect();
    let throughput = Estimate::new(each.iter().sum::<f64>() / each.len().max(1) as f64, each);
    let sum = |of: &dyn Fn(&Replication) -> u64| runs.iter().map(of).sum::<u64>();
    let unanswered = sum(&|run| run.unanswered);
    let asked = sum(&|run| run.asked);
    let messages = sum(&|run| run.report.counts.messages);
    let given_up = sum(&|run| run.given_up);
    let offered_per_s = scenario.gap_ns.map(|gap_ns| f64::from(scenario.clients) * 1e9 / gap_ns);
    let (standing, grows) = standing::judge(scenario, runs, unanswered > 0);
    let note = if !grows.is_empty() {
        grows
    } else if unanswered > 0 {
        format!("{unanswered} of {asked} transactions were never answered")
    } else if given_up > 0 {
        format!("{given_up} of {asked} transactions were given up; latencies do not include them")
    } else {
        String::new()
    };
    let both: Option<Vec<&[Times; 2]>> = runs.iter().map(|run| run.sides.as_ref()).collect();
    let sides = both.filter(|both| !both.is_empty()).map(|both| {
        let of = |which: usize| side(&both.iter().map(|sides| &sides[which]).collect::<Vec<_>>());
        Sides { struck: of(0), elsewhere: of(1) }
    });
    let (irt, crt) = sorts(runs, &|run: &Replication| &run.times);
    let types = scenario.asks.names().iter().enumerate().map(|(place, name)| {
        let (irt, crt) = sorts(runs, &|run: &Replication| &run.types[place]);
        OfType { name: name.clone(), irt, crt }
    });
    Summed {
        standing,
        note,
        unformed: None,
        rate_per_s: Some(offered_per_s.unwrap_or(throughput.value)),
        work: asked,
        data: Regional {
            throughput_per_s: throughput,
            irt,
            crt,
            aborted: sum(&|run| run.aborted),
            given_up,
            unanswered,
            retries: sum(&|run| run.report.counts.retries),
            messages_each: messages as f64 / asked.max(1) as f64,
            sides,
            types: types.collect(),
        },
    }
}
