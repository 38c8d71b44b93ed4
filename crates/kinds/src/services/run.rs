//! Running one replication: the unchanged system, the changed one, and what the method needs; and
//! what replications say together.

use super::change::{Change, slower};
use super::coz;
use super::kept::Kept;
use super::law::{changed_cpu, stations_of, think_ns, utilisation};
use super::layered::{self, Known};
use super::plan::{FormPlan, Governor as GovernorPlan, MethodPlan, ModePlan, TimesPlan};
use super::result::Predicted;
use super::scenario::{Scenario, us};
use super::{standing, stretch};
use crate::Latency;
use crate::events::Events;
use crate::halves::Halves;
use cavy_core::family::probe::{Controller, Group};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::services::{
    Alone, Arriving, Done, Ended, Law, Network, Observer, Outcome, Place, Setup, Step, run,
};
use cavy_lab::statistics::histogram::Histogram;
use cavy_lab::theory::closed;
use cavy_lab::trail::Trail;
use cavy_study::outcome::{Estimate, Standing};
use cavy_study::plan::PlanError;
use cavy_study::point::{Manner, Queue, RunError};
use cavy_study::subject::Summed;
use cavy_whatif::governor::Doubts;
use cavy_whatif::{
    Busy, Change as Debt, Config, Governor, Limits, Published, Reading, Target, Uncoordinated,
    Windows, published,
};
use core::ops::ControlFlow;
use std::sync::Arc;

/// What one replication came to.
pub struct Replication {
    trail: Trail,
    unchanged: Arc<Measured>,
    truth: Arc<Measured>,
    predicted_per_s: Option<f64>,
    slowed: Option<Slowed>,
    doubts: Vec<String>,
    work: u64,
}

/// One system, run for some requests.
pub struct Measured {
    pub per_s: f64,
    /// Of truths; a quarter of a megabyte that nobody asks of other systems.
    latency: Option<Histogram>,
    /// Share of each service's cores that was busy.
    busy: Vec<f64>,
    /// CPU time of each service for a request, in nanoseconds.
    pub cpu_ns: Vec<f64>,
    trail: Trail,
    requests: u64,
    failed: u64,
    /// What answered requests took, by halves of their number.
    pub halves: Halves,
    ended: Ended,
}

/// A slowed system.
pub struct Slowed {
    pub per_s: f64,
    pub paused_ratio: f64,
    pub pause_ms: f64,
    pub latency: Option<Histogram>,
}

/// Counts requests from the end of the warm-up on, and ends the run.
pub struct Counter<'a, F> {
    warmup: u64,
    requests: u64,
    seen: u64,
    counted: u64,
    failed: u64,
    from: Instant,
    to: Instant,
    latency: Histogram,
    halves: Halves,
    pub finding: Option<&'a mut dyn FnMut(&F)>,
    /// Ends with the first finding, and not by requests.
    pub by_finding: bool,
    in_virtual_time: bool,
}

impl<F> Counter<'_, F> {
    pub fn new(warmup: u64, requests: u64) -> Self {
        Counter {
            warmup,
            requests,
            seen: 0,
            counted: 0,
            failed: 0,
            from: Instant::ZERO,
            to: Instant::ZERO,
            latency: Histogram::new(),
            halves: Halves::default(),
            finding: None,
            by_finding: false,
            in_virtual_time: false,
        }
    }

    fn per_s(&self) -> f64 {
        self.counted as f64 * 1e9 / self.to.since(self.from).as_ns().max(1) as f64
    }
}

impl<F> Observer<F> for Counter<'_, F> {
    fn done(&mut self, done: &Done) -> ControlFlow<()> {
        self.seen += 1;
        if self.seen <= self.warmup {
            self.from = done.at;
            return ControlFlow::Continue(());
        }
        if done.failed {
            self.failed += 1;
        } else {
            self.counted += 1;
            let latency = if self.in_virtual_time { done.latency_virtual } else { done.latency };
            self.latency.record(latency.as_ns());
            let half = usize::from(2 * (self.seen - self.warmup) > self.requests);
            self.halves.add(half, latency.as_ns());
        }
        self.to = done.at;
        let enough = !self.by_finding && self.seen >= self.warmup + self.requests;
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn concluded(&mut self, _: usize, _: Instant, finding: &F) -> ControlFlow<()> {
        if let Some(tell) = &mut self.finding {
            tell(finding);
        }
        if self.by_finding { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Simulated time at most.
pub const UNTIL: Instant = Instant::from_ns(100_000_000_000_000);

pub fn go<C: Controller>(
    setup: &Setup<'_>,
    controllers: &mut [C],
    observer: &mut impl Observer<C::Finding>,
    manner: &Manner,
) -> Result<Outcome, RunError> {
    let mut setup = setup.clone();
    setup.shuffle_ties = manner.shuffle_ties;
    let outcome = run(&setup, controllers, &mut Events::of(manner, Queue::Heap), observer);
    outcome.map_err(|error| RunError::Plan(PlanError::text(error.to_string())))
}

/// As many replications as most plans have, for a few points at a time.
static UNCHANGED: Kept = Kept::new(128);
static TRUTHS: Kept = Kept::new(32);

/// Runs a system alone.
fn measure(
    scenario: &Scenario,
    network: &Network,
    seed: u64,
    manner: &Manner,
) -> Result<Measured, RunError> {
    let mut setup = Setup::new(network, seed, UNTIL);
    setup.mark_after = scenario.warmup;
    let mut counter = Counter::new(scenario.warmup, scenario.requests);
    let outcome = go::<Alone>(&setup, &mut [], &mut counter, manner)?;
    Ok(measured(network, &outcome, &counter))
}

fn measured<F>(network: &Network, outcome: &Outcome, counter: &Counter<'_, F>) -> Measured {
    let elapsed_ns = counter.to.since(counter.from).as_ns().max(1) as f64;
    // From the end of the warm-up on: what is under way then is about what is under way at the end.
    let of_service = |service: usize| -> f64 {
        let groups = network.groups_of(service).map(|group| {
            let before = outcome.marked.get(group as usize).copied().unwrap_or_default();
            let used = outcome.groups[group as usize].usage.cpu;
            used.saturating_sub(before.usage.cpu).as_ns() as f64
        });
        groups.sum()
    };
    let services = 0..network.services.len();
    let completed = (counter.counted + counter.failed).max(1) as f64;
    Measured {
        per_s: counter.per_s(),
        latency: Some(counter.latency.clone()),
        busy: services
            .clone()
            .map(|service| of_service(service) / (elapsed_ns * servers(network, service)))
            .collect(),
        cpu_ns: services.map(|service| of_service(service) / completed).collect(),
        trail: outcome.trail.clone(),
        requests: outcome.completed + outcome.failed,
        failed: counter.failed,
        halves: counter.halves,
        ended: outcome.ended,
    }
}

/// Cores of all replicas; of a service on a host, those of the host.
pub fn servers(network: &Network, service: usize) -> f64 {
    let one = &network.services[service];
    match one.place {
        Place::Own(host) => f64::from(host.cores) * f64::from(one.replicas),
        Place::On(host) => f64::from(network.hosts[host].cores),
    }
}

/// A factor of all CPU times of one deployment.
pub fn deployment(network: &Network, seed: u64, node: u32, cv: f64) -> Network {
    if cv == 0.0 {
        return network.clone();
    }
    // A normal number by adding twelve uniform ones, which is exact enough for a few percent of
    // spread.
    let mut stream = Stream::keyed(seed, node, Purpose::Labels);
    let normal: f64 = (0..12).map(|_| stream.unit()).sum::<f64>() - 6.0;
    slower(network, (1.0 + cv * normal).max(0.1))
}

const TRUTH: u32 = 1;
pub const SLOWED: u32 = 2;

/// Runs one replication.
pub fn replicate(scenario: &Scenario, seed: u64, manner: &Manner) -> Result<Replication, RunError> {
    let network = &scenario.network;
    let unchanged = UNCHANGED.of(scenario, network, seed, manner, || {
        let all = measure(scenario, network, seed, manner)?;
        Ok(Measured { latency: None, ..all })
    })?;
    let changed = deployment(&scenario.changed, seed, TRUTH, scenario.truth_cv);
    let truth = TRUTHS
        .of(scenario, &changed, seed, manner, || measure(scenario, &changed, seed, manner))?;
    let mut all = Prediction::default();
    predict(scenario, &unchanged, seed, manner, &mut all)?;
    let mut trail = unchanged.trail.clone();
    for other in [Some(&truth.trail), all.trail.as_ref()].into_iter().flatten() {
        trail.fold(Instant::ZERO, other.digest());
    }
    let mut doubts = all.doubts;
    for (what, one) in [("the unchanged system", &*unchanged), ("the changed system", &*truth)] {
        if one.ended != Ended::Enough {
            doubts.push(format!("{what} did not finish its requests: {:?}", one.ended));
        }
        if one.failed > 0 {
            doubts.push(format!("{what} failed {} requests", one.failed));
        }
    }
    Ok(Replication {
        trail,
        work: unchanged.requests + truth.requests + all.requests,
        unchanged,
        truth,
        predicted_per_s: all.per_s,
        slowed: all.slowed,
        doubts,
    })
}

#[derive(Default)]
pub struct Prediction {
    pub per_s: Option<f64>,
    pub slowed: Option<Slowed>,
    pub doubts: Vec<String>,
    pub trail: Option<Trail>,
    pub requests: u64,
}

fn predict(
    scenario: &Scenario,
    unchanged: &Measured,
    seed: u64,
    manner: &Manner,
    all: &mut Prediction,
) -> Result<(), RunError> {
    match &scenario.method {
        MethodPlan::NoChange(_) => all.per_s = Some(unchanged.per_s),
        MethodPlan::Utilisation(own) => {
            let costs = match own.times {
                TimesPlan::Costs => (own.visit_us * 1e3, own.call_us * 1e3),
                _ => (0.0, 0.0),
            };
            let limit = match scenario.network.clients[0].arriving {
                Arriving::Open { ref gap } => 1e9 / gap.mean_ns(),
                Arriving::Closed { .. } => f64::INFINITY,
            };
            all.per_s = Some(utilisation(scenario, unchanged, own.times, costs).min(limit));
        }
        MethodPlan::Mva(own) => {
            let stations =
                stations_of(&scenario.changed, &changed_cpu(scenario, &unchanged.cpu_ns));
            let population = scenario.population.unwrap_or(1);
            let think = think_ns(&scenario.network);
            let per_ns = match own.form {
                FormPlan::Exact => closed::exact(&stations, population, think),
                FormPlan::Seidmann => closed::seidmann(&stations, population, think).throughput,
                FormPlan::BardSchweitzer => {
                    closed::bard_schweitzer(&stations, population, think).throughput
                }
            };
            all.per_s = Some(per_ns * 1e9);
        }
        MethodPlan::Layered(_) => {
            let network = &scenario.changed;
            let demands = network.demands().unwrap_or_default();
            let cpu_ns = changed_cpu(scenario, &unchanged.cpu_ns);
            let each = cpu_ns.iter().zip(&demands);
            let visit_ns: Vec<f64> = each.map(|(ns, one)| ns / one.visits.max(1e-12)).collect();
            let visits: Vec<Vec<f64>> = demands.into_iter().map(|one| one.by_endpoint).collect();
            let population = scenario.population.unwrap_or(1);
            let known = Known { network, visit_ns: &visit_ns, visits: &visits, population };
            all.per_s = Some(layered::throughput(&known) * 1e9);
        }
        MethodPlan::Sleep(_) => {
            let delays = delays(scenario, true);
            let mut network = deployment(&scenario.network, seed, SLOWED, scenario.slowed_cv);
            for (service, delay) in network.services.iter_mut().zip(&delays) {
                if !delay.is_zero() {
                    for one in &mut service.endpoints {
                        let ns = delay.as_ns();
                        one.steps.insert(0, Step::Wait(Law::Constant { ns }));
                    }
                }
            }
            let slowed = measure(scenario, &network, seed, manner)?;
            formula(scenario, slowed.per_s, 0.0, 0.0, all);
            (all.trail, all.requests) = (Some(slowed.trail), slowed.requests);
        }
        MethodPlan::Uncoordinated(own) => {
            let delays = delays(scenario, true);
            let make = |group: u32, service: Option<usize>| {
                let changed = scenario.changes.iter().any(|one| Some(one.service) == service);
                let delay = service.filter(|_| !changed).map_or(Span::ZERO, |one| delays[one]);
                // A target owes nothing; neither do clients.
                Uncoordinated::new(Group(group), delay, us(own.threshold_us))
            };
            each_service(scenario, seed, manner, make, false, all)?;
        }
        MethodPlan::Slowpoke(own) => {
            let delays = delays(scenario, own.exact);
            let groups = scenario.network.groups() as usize;
            let make = |group: u32, service: Option<usize>| {
                let target = scenario.changes.iter().any(|one| Some(one.service) == service);
                let delay = service.map_or(Span::ZERO, |one| delays[one]);
                Published::new(Group(group), target, delay, own.batch, groups)
            };
            each_service(scenario, seed, manner, make, !own.exact, all)?;
        }
        MethodPlan::Coz(own) => coz::fall_back(scenario, own, unchanged, seed, manner, all)?,
        MethodPlan::Governor(own) => govern(scenario, own, unchanged, seed, manner, all)?,
    }
    Ok(())
}

/// Mean time that a visit of the changed service saves, over its endpoints as they are visited.
pub fn saved_ns(scenario: &Scenario, change: &Change) -> f64 {
    let saved = change.saved_ns(&scenario.network);
    let by_endpoint = scenario.network.demands().map_or(Vec::new(), |all| {
        all.into_iter().nth(change.service).map_or(Vec::new(), |one| one.by_endpoint)
    });
    let visits: f64 = by_endpoint.iter().sum();
    saved.iter().zip(&by_endpoint).map(|(ns, times)| ns * times).sum::<f64>() / visits.max(1e-12)
}

/// The share of its CPU time that a changed service saves. What a visit takes in all is what CPU
/// accounting sees.
pub fn share(scenario: &Scenario, change: &Change, unchanged: &Measured) -> f64 {
    let whole = unchanged.cpu_ns[change.service] / scenario.visits[change.service].max(1e-12);
    saved_ns(scenario, change) / whole.max(1.0)
}

/// Servers of what bounds a changed service: one for a lock.
pub fn parallel(scenario: &Scenario, change: &Change) -> u32 {
    match change.lock {
        Some(_) => 1,
        None => servers(&scenario.network, change.service) as u32,
    }
}

/// Pause of each service for each of its requests, by the rule of the source.
fn delays(scenario: &Scenario, exact: bool) -> Vec<Span> {
    let change = &scenario.changes[0];
    let cores = u32::from(scenario.network.cores(change.service));
    let cores = if change.lock.is_some() { 1 } else { cores };
    let replicas = f64::from(scenario.network.services[change.service].replicas);
    let of_target = scenario.visits[change.service] / replicas;
    let saved_us = saved_ns(scenario, change) / 1e3;
    let delay = |service: usize| {
        if service == change.service {
            return Span::ZERO;
        }
        let own = u32::from(scenario.network.cores(service));
        let visits =
            scenario.visits[service] / f64::from(scenario.network.services[service].replicas);
        published::delay(saved_us.max(0.0), of_target, cores, visits, own, exact)
    };
    (0..scenario.visits.len()).map(delay).collect()
}

/// A method that goes by how much throughput falls is told nothing by a rate.
pub fn doubt_of_a_rate(scenario: &Scenario, doubts: &mut Vec<String>) {
    if scenario.population.is_none() {
        doubts.push(
            "requests come at a rate, and this method is about clients that keep the system busy; \
             give `clients.population`, or use the Governor"
                .to_string(),
        );
    }
}

/// 1/X = 1/X_slow - C, with C of the first change ([slowpoke 2.1]).
fn formula(
    scenario: &Scenario,
    slowed_per_s: f64,
    paused_ratio: f64,
    pause_ms: f64,
    all: &mut Prediction,
) {
    let change = &scenario.changes[0];
    let servers = f64::from(parallel(scenario, change));
    let pause_us = saved_ns(scenario, change) / 1e3 * scenario.visits[change.service] / servers;
    all.per_s = published::predict(slowed_per_s, pause_us);
    doubt_of_a_rate(scenario, &mut all.doubts);
    if all.per_s.is_none() {
        all.doubts.push("the slowed system was faster than its pauses allow".to_string());
    }
    if scenario.changes.len() > 1 {
        all.doubts.push("only the first change is predicted by this method".to_string());
    }
    all.slowed = Some(Slowed { per_s: slowed_per_s, paused_ratio, pause_ms, latency: None });
}

/// Runs a system with a controller in each replica.
fn each_service<C: Controller>(
    scenario: &Scenario,
    seed: u64,
    manner: &Manner,
    make: impl Fn(u32, Option<usize>) -> C,
    virtual_addresses: bool,
    all: &mut Prediction,
) -> Result<(), RunError> {
    let network = deployment(&scenario.network, seed, SLOWED, scenario.slowed_cv);
    let replicas = network.groups() - network.clients.len() as u32;
    let service_of = |group: u32| {
        (0..network.services.len()).find(|&service| network.groups_of(service).contains(&group))
    };
    let mut controllers: Vec<C> =
        (0..replicas).map(|group| make(group, service_of(group))).collect();
    let mut setup = Setup::new(&network, seed, UNTIL);
    setup.wiring.hears = (0..replicas).map(Some).collect();
    setup.wiring.virtual_addresses = virtual_addresses;
    setup.faults = scenario.faults.clone();
    let mut counter = Counter::new(scenario.warmup, scenario.requests);
    let outcome = go(&setup, &mut controllers, &mut counter, manner)?;
    if outcome.ended != Ended::Enough {
        all.doubts
            .push(format!("the slowed system did not finish its requests: {:?}", outcome.ended));
        return Ok(());
    }
    // The most that any service stood, as a measure of what all of them did.
    let frozen = outcome.groups.iter().max_by_key(|one| one.frozen).copied().unwrap_or_default();
    let elapsed_ns = outcome.at.as_ns().max(1) as f64;
    let pause_ms = frozen.frozen.as_ns() as f64 / 1e6 / frozen.stops.max(1) as f64;
    let paused = frozen.frozen.as_ns() as f64 / elapsed_ns;
    formula(scenario, counter.per_s(), paused, pause_ms, all);
    all.trail = Some(outcome.trail);
    all.requests = outcome.completed + outcome.failed;
    Ok(())
}

/// As long as warm-up and requests take the unchanged system.
pub fn window(scenario: &Scenario, unchanged: &Measured) -> (Span, Span) {
    let span = |requests: u64| Span::from_ns((requests as f64 / unchanged.per_s * 1e9) as u64);
    (span(scenario.warmup), span(scenario.requests).max(Span::from_us(1)))
}

/// Runs a system under a Governor.
fn govern(
    scenario: &Scenario,
    own: &GovernorPlan,
    unchanged: &Measured,
    seed: u64,
    manner: &Manner,
    all: &mut Prediction,
) -> Result<(), RunError> {
    let network = deployment(&scenario.network, seed, SLOWED, scenario.slowed_cv);
    let mut targets = Vec::new();
    for change in &scenario.changes {
        let parallel = own.parallel.unwrap_or_else(|| parallel(scenario, change));
        let saved = change.saved_ns(&scenario.network);
        let service = &scenario.network.services[change.service];
        let share = share(scenario, change, unchanged).min(0.999);
        let debt = match own.mode {
            ModePlan::Count => Debt::Count {
                saved_ns: saved.iter().map(|ns| ns.round() as i64).collect(),
                parallel,
            },
            ModePlan::Clock => Debt::Clock { share, parallel, busy: Busy::Cpu },
            ModePlan::Busy => Debt::Clock { share, parallel, busy: Busy::Wall },
            ModePlan::Delivered if share < 0.0 => {
                all.doubts.push(
                    "delivered mode cannot predict a change that makes a service slower"
                        .to_string(),
                );
                return Ok(());
            }
            ModePlan::Delivered => {
                let most = service.threads.unwrap_or(parallel).min(parallel).max(1);
                Debt::Delivered { share, parallel: most }
            }
        };
        let groups = network.groups_of(change.service).map(Group).collect();
        targets.push(Target { groups, change: debt });
    }
    let taken = |group: &Group| targets.iter().any(|one| one.groups.contains(group));
    let clients = network.group_of_clients(0);
    let rest = (0..network.groups()).map(Group).filter(|group| !taken(group));
    let rest = rest.filter(|group| own.freezes_clients || group.0 != clients).collect();
    let limits = limits(scenario, own);
    let (settle, length) = window(scenario, unchanged);
    let config = Config {
        targets,
        rest,
        limits,
        windows: Windows { settle, length, pattern: vec![true] },
        hosts: 0,
    };
    let governor = Governor::new(config)
        .map_err(|error| RunError::Plan(PlanError::text(format!("the Governor has {error}"))))?;
    let mut setup = Setup::new(&network, seed, UNTIL);
    setup.wiring.hears = vec![Some(0); network.groups() as usize];
    setup.wiring.edge = Some(0);
    setup.faults = scenario.faults.clone();
    let mut reading: Option<Reading> = None;
    let mut keep = |one: &Reading| reading = Some(*one);
    let mut counter = Counter::new(scenario.warmup, scenario.requests);
    counter.finding = Some(&mut keep);
    counter.by_finding = true;
    counter.in_virtual_time = true;
    let outcome = go(&setup, &mut [governor], &mut counter, manner)?;
    let latency = own.freezes_clients.then(|| counter.latency.clone());
    let Some(reading) = reading else {
        all.doubts
            .push(format!("the slowed system did not finish its requests: {:?}", outcome.ended));
        return Ok(());
    };
    all.doubts.extend(doubts(&reading));
    let throttled = outcome.groups.iter().any(|one| !one.throttled.is_zero());
    if throttled && reading.pauses > 0 {
        all.doubts.push(
            "A2: a service with a CPU quota was stopped; its quota was refilled meanwhile, so the \
             prediction may be too high"
                .to_string(),
        );
    }
    all.per_s = Some(reading.predicted_per_s());
    all.slowed = Some(Slowed {
        per_s: reading.measured_per_s(),
        paused_ratio: reading.paused.as_ns() as f64 / reading.elapsed().as_ns().max(1) as f64,
        pause_ms: reading.paused.as_ns() as f64 / 1e6 / f64::from(reading.pauses.max(1)),
        latency,
    });
    all.trail = Some(outcome.trail);
    all.requests = outcome.completed + outcome.failed;
    Ok(())
}

fn doubts(reading: &Reading) -> Vec<String> {
    [
        (Doubts::DUTY, "pauses would have to take more than 85 % of the time"),
        (
            Doubts::IDLE,
            "A3: the service in question had no work in most pauses; use more clients or shorter \
             pauses",
        ),
        (Doubts::LONG, "pauses took at least a fifth longer than they should"),
        (Doubts::UNCONFIRMED, "a service did not confirm that it had stopped"),
        (Doubts::GONE, "a service ended"),
        (Doubts::NOTHING, "no request was completed"),
    ]
    .into_iter()
    .filter(|(bit, _)| reading.doubts & bit != 0)
    .map(|(_, why)| why.to_string())
    .collect()
}

fn limits(scenario: &Scenario, own: &GovernorPlan) -> Limits {
    let change = &scenario.changes[0];
    let batch = own.batch.unwrap_or_else(|| {
        let third = scenario.population.map_or(100, |population| population / 3);
        third.clamp(1, 100)
    });
    let of_batch = saved_ns(scenario, change).abs() * f64::from(batch)
        / f64::from(own.parallel.unwrap_or_else(|| parallel(scenario, change)));
    let pause = match (own.pause_us, own.mode) {
        (Some(pause_us), _) => us(pause_us),
        (None, ModePlan::Count) => Span::from_ns((of_batch as u64).max(1_000)),
        (None, _) => Span::from_ms(2),
    };
    let pause_max = own.pause_max_us.map_or(pause * 10, us).max(pause);
    let tick = own.tick_us.map_or(Span::from_ms(1).min(Span::from_ns(pause.as_ns() / 2 + 1)), us);
    Limits {
        pause_min: pause,
        pause_max,
        tick,
        lease: (pause_max * 4).max(Span::from_ms(200)),
        ..Limits::default()
    }
}

/// What a fingerprint is made of.
pub fn trail(replication: &Replication) -> &Trail {
    &replication.trail
}

/// What replications say together.
pub fn summarize(scenario: &Scenario, runs: &[Replication]) -> Summed<Predicted> {
    let estimate = |of: &dyn Fn(&Replication) -> f64| {
        let each: Vec<f64> = runs.iter().map(of).collect();
        Estimate::new(each.iter().sum::<f64>() / each.len().max(1) as f64, each)
    };
    let percent = |a: f64, b: f64| (a / b - 1.0) * 100.0;
    let known = runs.iter().all(|run| run.predicted_per_s.is_some());
    let predicted = |run: &Replication| run.predicted_per_s.unwrap_or(f64::NAN);
    let when = |known: bool, of: &dyn Fn(&Replication) -> f64| known.then(|| estimate(of));
    let slowed = runs.iter().all(|run| run.slowed.is_some());
    let mean = |of: &dyn Fn(&Slowed) -> f64| {
        let all: Vec<f64> = runs.iter().filter_map(|run| run.slowed.as_ref()).map(of).collect();
        slowed.then(|| all.iter().sum::<f64>() / all.len().max(1) as f64)
    };
    let busiest = |of: &dyn Fn(&Replication) -> &Measured| {
        let Some(run) = runs.first() else { return String::new() };
        let busy = of(run).busy.iter().enumerate();
        let most = busy.max_by(|a, b| a.1.total_cmp(b.1));
        most.map_or(String::new(), |(service, busy)| {
            format!("{} ({:.0} %)", scenario.names[service], busy * 100.0)
        })
    };
    let now = standing::judge(scenario, &scenario.network, runs.iter().map(|run| &*run.unchanged));
    let then = standing::judge(scenario, &scenario.changed, runs.iter().map(|run| &*run.truth));
    // Latency of queues that grow is as long as the run.
    let settled = then.as_ref().is_none_or(|then| then.standing == Standing::Stable);
    let latency = |of: &dyn Fn(&Replication) -> Option<&Histogram>| {
        let all: Option<Vec<&Histogram>> = runs.iter().map(of).collect();
        all.filter(|_| settled).map(|all| Latency::of(&all))
    };
    let pause_ms = mean(&|one| one.pause_ms);
    let predicted_latency = latency(&|run| run.slowed.as_ref()?.latency.as_ref());
    let timed = |run: &Replication| run.slowed.as_ref().is_some_and(|one| one.latency.is_some());
    let mut doubts: Vec<String> = runs.iter().flat_map(|run| run.doubts.clone()).collect();
    let paused_ratio = mean(&|one| one.paused_ratio);
    if let (Some(latency), Some(pause_ms), Some(paused_ratio)) =
        (&predicted_latency, pause_ms, paused_ratio)
    {
        doubts.extend(stretch::doubts(scenario, latency, pause_ms, paused_ratio));
    }
    doubts.sort();
    doubts.dedup();
    let stuck = runs.iter().any(|run| run.truth.ended != Ended::Enough);
    Summed {
        standing: if stuck { Standing::Unstable } else { Standing::Stable },
        note: if stuck { doubts.join("; ") } else { String::new() },
        unformed: None,
        rate_per_s: Some(estimate(&|run| run.truth.per_s).value),
        work: runs.iter().map(|run| run.work).sum(),
        data: Predicted {
            unchanged_per_s: estimate(&|run| run.unchanged.per_s),
            truth_per_s: estimate(&|run| run.truth.per_s),
            predicted_per_s: when(known, &predicted),
            error_percent: when(known, &|run| percent(predicted(run), run.truth.per_s)),
            gain_percent: estimate(&|run| percent(run.truth.per_s, run.unchanged.per_s)),
            predicted_gain_percent: when(known, &|run| {
                percent(predicted(run), run.unchanged.per_s)
            }),
            slowed_per_s: when(slowed, &|run| {
                run.slowed.as_ref().map_or(f64::NAN, |slowed| slowed.per_s)
            }),
            paused_ratio,
            pause_ms,
            truth: latency(&|run| run.truth.latency.as_ref()),
            predicted: predicted_latency,
            times_requests: runs.iter().all(timed),
            bottleneck: busiest(&|run| &run.unchanged),
            next_bottleneck: busiest(&|run| &run.truth),
            now,
            then,
            doubts,
        },
    }
}
