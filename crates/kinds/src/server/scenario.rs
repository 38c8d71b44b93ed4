//! From a plan to what a world runs: types, workload, policy, costs. Checks everything on the way.

use super::plan::{
    ArrivalsPlan, ClientsPlan, LOAD, ServerPlan, ServicePlan, Stamp, TraceFormat, TypePlan,
    WorkerGroupPlan, WorkersPlan,
};
use super::trace;
use crate::policy::{costs, of, policy, time, time_above_zero};
use crate::types;
use cavy_core::Span;
use cavy_lab::cpu::{Closed, Cores, Costs, GROUPS_MAX, Requests, Speed, Speeds};
use cavy_sched::ranked::Foresight;
use cavy_sched::workers::WORKERS_MAX;
use cavy_sched::{Policy, TypeHint};
use cavy_study::plan::{Files, PlanError, nearest};
use cavy_workload::arrivals::Arrivals;
use cavy_workload::mix::{Mix, Type};
use cavy_workload::service::Service;
use cavy_workload::source::{Phase, Request, Source, Workload};
use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

/// Everything one run needs, apart from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Names of the types.
    pub names: Vec<String>,
    /// Mean service time of each type in ns, by which slowdown is computed ([persephone 4.3]).
    pub nominal_ns: Vec<f64>,
    /// Mean and share of each type, for policies that start from hints.
    pub hints: Vec<TypeHint>,
    /// Offered rate in requests per second; of closed clients the most that they can send.
    pub rate_per_s: f64,
    /// Closed clients, if requests are theirs.
    pub population: Option<u32>,
    /// Workers as fast as service times say that do as much as all cores together.
    pub capacity: f64,
    /// Workers that each type keeps busy, tax and costs of a request included. `None` where the
    /// workload changes.
    pub offered: Option<Vec<f64>>,
    /// Do policies see types as they are?
    pub labelled: bool,
    /// Do replications differ in nothing but a policy's own choices?
    pub recorded: bool,
    /// The policy.
    pub policy: Policy,
    /// Workers the policy schedules.
    pub workers: u16,
    /// Slots the world offers: workers, or more when cores are shared.
    pub slots: u16,
    /// Who computes.
    pub cores: Cores,
    /// What scheduling costs.
    pub costs: Costs,
    /// Entries of each queue.
    pub queue_limit: u32,
    /// Requests of one run.
    pub requests: u64,
    /// Width of the bins of a timeline.
    pub timeline: Option<Span>,
    arrivals: Feed,
}

#[derive(Clone, Debug)]
enum Feed {
    Drawn(Box<Workload>),
    Recorded(Arc<[Request]>),
    Closed(Box<Closed>),
}

impl Scenario {
    /// Time after which a queue in front of all workers has forgotten how long it was, in ns: that
    /// of diffusion, by load and by the variability of gaps and of service times. `None` where the
    /// workload changes or is recorded, and where more arrives than can be done.
    pub fn forgets_ns(&self) -> Option<f64> {
        let Feed::Drawn(workload) = &self.arrivals else { return None };
        let [phase] = workload.phases() else { return None };
        let offered: f64 = self.offered.as_ref()?.iter().sum();
        let idle = 1.0 - offered / self.capacity;
        let mean_ns = offered * 1e9 / self.rate_per_s;
        let varies = phase.arrivals.dispersion(phase.rate_per_s) + phase.mix.squared_cv();
        (idle > 0.0).then(|| 2.0 * varies * mean_ns / (self.capacity * idle * idle))
    }

    /// The requests of one run, and what a policy that foresees is told of them: the work of each,
    /// with what it costs a worker.
    pub fn requests(&self, seed: u64) -> (Requests, Option<Foresight>) {
        let per_request = self.costs.per_request;
        let foresees = matches!(self.policy, Policy::ShortestRemaining);
        let open = |source: Source| {
            let work = source.clone().map(move |request| request.service + per_request);
            (source.into(), foresees.then(|| Box::new(work) as Foresight))
        };
        match &self.arrivals {
            Feed::Drawn(workload) => open(Source::new(workload, seed)),
            Feed::Recorded(requests) => open(Source::recorded(requests.clone())),
            Feed::Closed(clients) if foresees => {
                // In which order clients send is known only when they do.
                let (told, heard) = mpsc::channel();
                let work = std::iter::from_fn(move || heard.try_recv().ok());
                let work = work.map(move |service: Span| service + per_request);
                (clients.start(seed).telling(told).into(), Some(Box::new(work)))
            }
            Feed::Closed(clients) => (clients.start(seed).into(), None),
        }
    }
}

/// Checks the numbers of a plan that no scenario reads.
pub fn check(plan: &ServerPlan) -> Result<(), PlanError> {
    check_workers(&plan.workers)?;
    if let Some(clients) = &plan.clients {
        check_clients(plan, clients)?;
    }
    match (plan.load, plan.rate_per_s) {
        (Some(_), Some(_)) => {
            return Err(PlanError::text("`load` and `rate_per_s` say the same thing twice")
                .hint("leave one out: `load` is a share of what the workers can do"));
        }
        (Some(load), None) if positive("load", load)? > 100.0 => {
            return Err(PlanError::field("load", load, "a ratio of capacity, at most 100")
                .hint("0.9 means 90 % of what the workers can do; for a rate write `rate_per_s`"));
        }
        (None, Some(rate)) => {
            positive("rate_per_s", rate)?;
        }
        _ => {}
    }
    time("round_trip_us", plan.round_trip_us)?;
    ratio("mislabel_ratio", plan.mislabel_ratio)?;
    if plan.queue_limit == 0 {
        return Err(PlanError::field("queue_limit", 0, "at least 1"));
    }
    if plan.run.requests < 100 {
        return Err(PlanError::field("run.requests", plan.run.requests, "at least 100"));
    }
    check_trace(plan)
}

fn check_workers(workers: &WorkersPlan) -> Result<(), PlanError> {
    if let WorkersPlan::Groups(groups) = workers {
        if groups.is_empty() || groups.len() > GROUPS_MAX {
            let must = format!("1 to {GROUPS_MAX} groups");
            return Err(PlanError::field("workers", format!("{} groups", groups.len()), &must)
                .hint(
                    "a group is `{ count = 8, speed_ratio = 0.6 }`; a number will do for equals",
                ));
        }
        for (index, group) in groups.iter().enumerate() {
            if group.count == 0 {
                return Err(PlanError::field(format!("workers.{index}.count"), 0, "at least 1"));
            }
            if Speed::new(group.speed_ratio).is_none() {
                let field = format!("workers.{index}.speed_ratio");
                return Err(PlanError::field(field, group.speed_ratio, "0.001 to 1000")
                    .hint("0.5 makes all that these workers do take twice as long"));
            }
        }
    }
    if !(1..=WORKERS_MAX).contains(&workers.count()) {
        return Err(PlanError::field("workers", workers.count(), &format!("1 to {WORKERS_MAX}"))
            .hint("a worker is a core, thread or slot that runs one request at a time"));
    }
    Ok(())
}

/// Clients who wait decide themselves when requests come: keys that would say it again are refused.
fn check_clients(plan: &ServerPlan, clients: &ClientsPlan) -> Result<(), PlanError> {
    if !(1..=POPULATION_MAX).contains(&clients.population) {
        let field = "clients.population";
        return Err(PlanError::field(field, clients.population, "1 to 1000000"));
    }
    let given = [
        ("load", plan.load.is_some()),
        ("rate_per_s", plan.rate_per_s.is_some()),
        ("arrivals", plan.arrivals != ArrivalsPlan::Poisson),
        ("trace", plan.trace.is_some()),
        ("phases", !plan.phases.is_empty()),
        ("mislabel_ratio", plan.mislabel_ratio != 0.0),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((key, _)) => Err(PlanError::text(format!(
            "`{key}` is set beside `clients`, who send when they were answered"
        ))
        .hint(format!("leave out `{key}` for a closed loop, or `clients` for an open one"))),
    }
}

/// A recorded trace says itself what arrives, and when: keys that would say it again are refused.
fn check_trace(plan: &ServerPlan) -> Result<(), PlanError> {
    let Some(trace) = &plan.trace else { return Ok(()) };
    let keys = [("time", &trace.time), ("type", &trace.kind), ("service", &trace.service)];
    if trace.format != TraceFormat::Combined
        && let Some((key, _)) = keys.iter().find(|(_, value)| value.is_empty())
    {
        return Err(PlanError::text(format!("`trace.{key}` is missing"))
            .hint(format!("name the column or key, as `{key} = \"…\"`")));
    }
    if trace.format == TraceFormat::Csv && trace.stamp == Stamp::End {
        return Err(PlanError::field("trace.stamp", "end", "`arrival` for a CSV file")
            .hint("subtract the service time where you write the file, and sort it by arrival"));
    }
    let given = [
        ("types", !plan.types.is_empty()),
        ("arrivals", plan.arrivals != ArrivalsPlan::Poisson),
        ("phases", !plan.phases.is_empty()),
        ("mislabel_ratio", plan.mislabel_ratio != 0.0),
    ];
    let taxed = plan.policies.iter().any(|policy| !policy.shared().service_tax_ratio.is_empty());
    match given.iter().find(|(_, given)| *given) {
        Some((key, _)) => Err(PlanError::text(format!(
            "`{key}` is set beside `trace`, which says itself what arrives and when"
        ))
        .hint(format!("leave out `{key}`, or `trace`"))),
        None if taxed => Err(PlanError::text(
            "`service_tax_ratio` is set beside `trace`, whose service times are taken as recorded",
        )
        .hint("leave one of them out")),
        None => Ok(()),
    }
}

/// Can there be requests of this type? A trace names its types itself.
pub(super) fn has_type(plan: &ServerPlan, name: &str) -> bool {
    plan.trace.is_some() || plan.types.iter().any(|t| t.name == name)
}

fn check_type_name(plan: &ServerPlan, name: &str, field: &str) -> Result<(), PlanError> {
    if has_type(plan, name) {
        return Ok(());
    }
    let known: Vec<&str> = plan.types.iter().map(|t| t.name.as_str()).collect();
    let mut wrong = PlanError::text(format!("`{field}` names the unknown type `{name}`"));
    if let Some(near) = nearest(name, known.iter().copied()) {
        wrong = wrong.hint(format!("did you mean `{near}`?"));
    }
    Err(wrong.hint(format!("types are: {}", known.join(", "))))
}

fn positive(field: &str, value: f64) -> Result<f64, PlanError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(PlanError::field(field, value, "a number above 0"))
    }
}

fn ratio(field: &str, value: f64) -> Result<f64, PlanError> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(PlanError::field(field, value, "between 0 and 1"))
    }
}

/// Builds what `plan`, which names exactly one policy, asks for. It may name some of `files`.
pub fn scenario(plan: &ServerPlan, files: &Files) -> Result<Scenario, PlanError> {
    let policy_plan = &plan.policies[0];
    let label = policy_plan.label();
    let shared = policy_plan.shared();
    let tax = &Tax { label: &label, ratios: shared.service_tax_ratio };
    let nothing = BTreeMap::new();
    let untaxed_by = Tax { label: &label, ratios: &nothing };
    let (names, services, shares, recorded) = match &plan.trace {
        Some(recorded) => {
            let trace = trace::requests(recorded, files)?;
            let services = trace.services();
            (trace.names, services, trace.shares, Some(trace.requests))
        }
        None => {
            let services = services_of(plan, tax, files)?;
            let names = plan.types.iter().map(|t| t.name.clone()).collect();
            (names, services, plan.types.iter().map(|t| t.share).collect(), None)
        }
    };
    let untaxed: Vec<f64> = match recorded {
        Some(_) => services.iter().map(Service::mean_ns).collect(),
        None => services_of(plan, &untaxed_by, files)?.iter().map(Service::mean_ns).collect(),
    };
    let hints = services
        .iter()
        .zip(&shares)
        .map(|(service, &ratio)| TypeHint {
            mean: Span::from_ns(service.mean_ns().round() as u64),
            ratio,
        })
        .collect::<Vec<_>>();
    let mean_ns: f64 = untaxed.iter().zip(&shares).map(|(mean, share)| mean * share).sum();
    let (workers, capacity) = (plan.workers.count(), capacity(&plan.workers));
    let capacity_per_s = capacity * 1e9 / mean_ns;
    let load = match plan.rate_per_s {
        Some(rate) => rate / capacity_per_s,
        None => plan.load.unwrap_or(LOAD),
    };
    let mut rate_per_s = plan.rate_per_s.unwrap_or(load * capacity_per_s);
    let is_recorded = recorded.is_some();
    let busy_ns: Vec<f64> = services
        .iter()
        .zip(&shares)
        .map(|(service, share)| share * (service.mean_ns() + shared.per_request_us * 1e3))
        .collect();
    let (arrivals, requests) = match (recorded, &plan.clients) {
        (Some(requests), _) => {
            let requests = scale_trace(&requests, load, capacity, mean_ns);
            let count = requests.len() as u64;
            (Feed::Recorded(requests), count.min(plan.run.requests))
        }
        (None, Some(clients)) => {
            let closed = closed(plan, clients, &services, files)?;
            let think_ns = closed.think.as_ref().map_or(0.0, Service::mean_ns);
            let alone_ns = think_ns + mean_ns + plan.round_trip_us * 1e3;
            let sent_per_s = f64::from(clients.population) * 1e9 / alone_ns;
            rate_per_s = sent_per_s.min(capacity_per_s);
            (Feed::Closed(Box::new(closed)), plan.run.requests)
        }
        (None, None) => {
            let workload = workload(plan, &names, &services, (load, capacity), mean_ns)?;
            let requests = plan.run.requests.min(expected_requests(&workload));
            (Feed::Drawn(Box::new(workload)), requests)
        }
    };
    let timeline =
        plan.run.timeline_ms.map(|ms| time_above_zero("run.timeline_ms", ms * 1e3)).transpose()?;
    let policy = policy(policy_plan, &names, &hints)?;
    cavy_sched::build(&policy, workers, &hints, 1)
        .map_err(|error| PlanError::text(format!("policy `{label}`: {error}")))?;
    let (slots, cores) = match policy {
        Policy::ProcessorSharing { .. } if plan.workers.has_speeds() => {
            let message =
                format!("policy `{label}` shares all cores alike, but `workers` has speeds");
            return Err(PlanError::text(message)
                .hint("leave out `speed_ratio`, or take a policy that runs one request a worker"));
        }
        Policy::ProcessorSharing { slots } => (slots, Cores::Shared(workers)),
        _ => (workers, speeds(&plan.workers).map_or(Cores::Own, Cores::Unequal)),
    };
    let round_trip = time("round_trip_us", plan.round_trip_us)?;
    let costs = Costs { round_trip, ..costs(policy_plan)? };
    Ok(Scenario {
        names,
        nominal_ns: untaxed,
        hints,
        rate_per_s,
        population: plan.clients.as_ref().map(|clients| clients.population),
        capacity,
        offered: (plan.phases.is_empty() && plan.clients.is_none())
            .then(|| busy_ns.iter().map(|ns| ns * rate_per_s / 1e9).collect()),
        labelled: plan.mislabel_ratio == 0.0,
        recorded: is_recorded,
        policy,
        workers,
        slots,
        cores,
        costs,
        queue_limit: plan.queue_limit,
        requests,
        timeline,
        arrivals,
    })
}

/// The most closed clients: a hundred bytes each, in every replication.
const POPULATION_MAX: u32 = 1_000_000;

/// The speeds of workers that have any.
fn speeds(workers: &WorkersPlan) -> Option<Speeds> {
    let WorkersPlan::Groups(groups) = workers else { return None };
    let of = |group: &WorkerGroupPlan| Some((group.count, Speed::new(group.speed_ratio)?));
    let groups: Option<Vec<_>> = groups.iter().map(of).collect();
    groups.filter(|_| workers.has_speeds()).and_then(|groups| Speeds::new(&groups))
}

/// Workers as fast as service times say that do as much as these.
fn capacity(workers: &WorkersPlan) -> f64 {
    speeds(workers).map_or(f64::from(workers.count()), |speeds| speeds.sum())
}

/// Clients that wait for their answers.
fn closed(
    plan: &ServerPlan,
    clients: &ClientsPlan,
    services: &[Service],
    files: &Files,
) -> Result<Closed, PlanError> {
    let think = clients.think.as_ref().map(|law| service(law, "clients.think", 1.0, files));
    Ok(Closed {
        population: clients.population,
        think: think.transpose()?,
        mix: mix(types(plan, services))?,
        round_trip: time("round_trip_us", plan.round_trip_us)?,
    })
}

fn types(plan: &ServerPlan, services: &[Service]) -> Vec<Type> {
    let of = |(service, kind): (&Service, &TypePlan)| Type {
        share: kind.share,
        service: service.clone(),
    };
    services.iter().zip(&plan.types).map(of).collect()
}

fn mix(types: Vec<Type>) -> Result<Mix, PlanError> {
    Mix::new(types).map_err(|error| PlanError::text(format!("`types`: {error}")))
}

/// Stretches the arrival times of a trace so that its load is `load`.
fn scale_trace(requests: &[Request], load: f64, capacity: f64, mean_ns: f64) -> Arc<[Request]> {
    let (Some(first), Some(last)) = (requests.first(), requests.last()) else {
        return Arc::from([]);
    };
    let recorded_ns = last.at.since(first.at).as_ns() as f64;
    let wanted_ns = requests.len() as f64 * mean_ns / (load * capacity);
    let factor = if recorded_ns > 0.0 { wanted_ns / recorded_ns } else { 1.0 };
    requests
        .iter()
        .map(|request| {
            let at = (request.at.since(first.at).as_ns() as f64 * factor).round() as u64;
            Request { at: cavy_core::Instant::from_ns(at), ..*request }
        })
        .collect()
}

/// What a policy adds to service times.
struct Tax<'a> {
    label: &'a str,
    ratios: &'a BTreeMap<String, f64>,
}

/// Service laws of all types, with the policy's tax on them.
fn services_of(plan: &ServerPlan, tax: &Tax<'_>, files: &Files) -> Result<Vec<Service>, PlanError> {
    if plan.types.is_empty() {
        return Err(PlanError::text("`types` is empty; a plan needs types of requests or a trace")
            .hint("add `[[types]]` with `name`, `share` and `service`"));
    }
    let shares: Vec<(&str, f64)> = plan.types.iter().map(|t| (t.name.as_str(), t.share)).collect();
    types::check(&shares)?;
    for name in tax.ratios.keys() {
        check_type_name(plan, name, &of(tax.label, "service_tax_ratio"))?;
    }
    plan.types
        .iter()
        .map(|kind| {
            let ratio = tax.ratios.get(&kind.name).copied().unwrap_or(0.0);
            if !(0.0..=100.0).contains(&ratio) {
                let field = of(tax.label, &format!("service_tax_ratio.{}", kind.name));
                return Err(PlanError::field(field, ratio, "0 to 100"));
            }
            service(&kind.service, &format!("types.{}.service", kind.name), 1.0 + ratio, files)
        })
        .collect()
}

fn service(
    plan: &ServicePlan,
    field: &str,
    factor: f64,
    files: &Files,
) -> Result<Service, PlanError> {
    let ns = |name: &str, us: f64| {
        time_above_zero(&format!("{field}.{name}"), us)
            .map(|span| (span.as_ns() as f64 * factor).round() as u64)
    };
    let mean = |name: &str, us: f64| {
        time_above_zero(&format!("{field}.{name}"), us).map(|_| us * 1e3 * factor)
    };
    let service = match plan {
        ServicePlan::Constant { us } => Service::Constant { ns: ns("us", *us)? },
        ServicePlan::Exponential { mean_us } => {
            Service::Exponential { mean_ns: mean("mean_us", *mean_us)? }
        }
        ServicePlan::Lognormal { mean_us, sigma } => {
            Service::LogNormal { mean_ns: mean("mean_us", *mean_us)?, sigma: *sigma }
        }
        ServicePlan::Bimodal { short_us, long_us, long_ratio } => Service::Bimodal {
            short_ns: ns("short_us", *short_us)?,
            long_ns: ns("long_us", *long_us)?,
            long_ratio: *long_ratio,
        },
        ServicePlan::Pareto { mean_us, shape, max_us } => Service::Pareto {
            mean_ns: mean("mean_us", *mean_us)?,
            shape: *shape,
            max_ns: max_us.map(|us| ns("max_us", us)).transpose()?,
        },
        ServicePlan::Uniform { low_us, high_us } => {
            Service::Uniform { low_ns: ns("low_us", *low_us)?, high_ns: ns("high_us", *high_us)? }
        }
        ServicePlan::Weibull { mean_us, shape } => {
            Service::Weibull { mean_ns: mean("mean_us", *mean_us)?, shape: *shape }
        }
        ServicePlan::Gamma { mean_us, shape } => {
            Service::Gamma { mean_ns: mean("mean_us", *mean_us)?, shape: *shape }
        }
        ServicePlan::Erlang { mean_us, stages } => {
            if !(1..=1000).contains(stages) {
                let field = format!("{field}.stages");
                return Err(PlanError::field(field, stages, "a whole number from 1 to 1000"));
            }
            Service::Gamma { mean_ns: mean("mean_us", *mean_us)?, shape: f64::from(*stages) }
        }
        ServicePlan::Hyperexponential { mean_us, squared_cv } => Service::Hyperexponential {
            mean_ns: mean("mean_us", *mean_us)?,
            squared_cv: *squared_cv,
        },
        ServicePlan::Trace { file, column, unit } => {
            let times = trace::column(files, file, column, *unit)?;
            Service::Empirical(
                times.iter().map(|&ns| ((ns as f64 * factor).round() as u64).max(1)).collect(),
            )
        }
    };
    service.check().map_err(|error| PlanError::text(format!("`{field}`: {error}")))?;
    Ok(service)
}

fn arrivals(plan: &ArrivalsPlan) -> Result<Arrivals, PlanError> {
    let arrivals = match plan {
        ArrivalsPlan::Poisson => Arrivals::Poisson,
        ArrivalsPlan::Constant => Arrivals::Constant,
        ArrivalsPlan::Bursty { peak_ratio, burst_share, mean_burst_ms } => Arrivals::Bursty {
            peak_ratio: *peak_ratio,
            burst_share: *burst_share,
            mean_burst_ns: mean_burst_ms * 1e6,
        },
    };
    arrivals.check().map_err(|error| PlanError::text(format!("`arrivals`: {error}")))?;
    Ok(arrivals)
}

fn workload(
    plan: &ServerPlan,
    names: &[String],
    services: &[Service],
    (load, capacity): (f64, f64),
    mean_ns: f64,
) -> Result<Workload, PlanError> {
    let arrivals = arrivals(&plan.arrivals)?;
    let rate = |load: f64, mean_ns: f64| load * capacity * 1e9 / mean_ns;
    let phases = if plan.phases.is_empty() {
        let rate_per_s = plan.rate_per_s.unwrap_or(rate(load, mean_ns));
        vec![Phase { mix: mix(types(plan, services))?, arrivals, rate_per_s, duration: None }]
    } else {
        let mut phases = Vec::new();
        for (index, phase) in plan.phases.iter().enumerate() {
            let field = |name: &str| format!("phases.{index}.{name}");
            for name in phase.share.keys().chain(phase.service_us.keys()) {
                check_type_name(plan, name, &field("share"))?;
            }
            let mut types = Vec::new();
            for (name, service) in names.iter().zip(services) {
                let share = phase.share.get(name).copied().unwrap_or(0.0);
                let service = match phase.service_us.get(name) {
                    Some(&us) => {
                        let ns = time_above_zero(&field(&format!("service_us.{name}")), us)?;
                        Service::Constant { ns: ns.as_ns() }
                    }
                    None => service.clone(),
                };
                types.push(Type { share, service });
            }
            let total: f64 = types.iter().map(|t| t.share).sum();
            if (total - 1.0).abs() > 1e-6 {
                let message =
                    format!("the shares of `{}` add up to {total}, not 1", field("share"));
                return Err(PlanError::text(message));
            }
            let mix = mix(types)?;
            let rate_per_s = match (phase.load, plan.rate_per_s) {
                (None, Some(rate)) => rate,
                (own, _) => {
                    let load = positive(&field("load"), own.unwrap_or(load))?;
                    rate(load, mix.mean_ns())
                }
            };
            let duration = time_above_zero(&field("duration_ms"), phase.duration_ms * 1e3)?;
            phases.push(Phase { mix, arrivals, rate_per_s, duration: Some(duration) });
        }
        phases
    };
    Workload::new(phases, plan.mislabel_ratio)
        .map_err(|error| PlanError::text(format!("the workload: {error}")))
}

/// Requests of a workload that ends, with room for five standard deviations of a Poisson count.
fn expected_requests(workload: &Workload) -> u64 {
    let mut total = 0.0;
    for phase in workload.phases() {
        match phase.duration {
            Some(duration) => total += phase.rate_per_s * duration.as_ns() as f64 / 1e9,
            None => return u64::MAX,
        }
    }
    (total + 5.0 * total.sqrt() + 100.0) as u64
}
