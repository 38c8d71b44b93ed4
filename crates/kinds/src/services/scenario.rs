//! What one replication needs: the network, the changed network, and the method.

use super::change::Change;
use super::graph;
use super::plan::{Governor, MethodPlan, ServicesPlan, TimePlan};
use cavy_core::Span;
use cavy_lab::services::{Arriving, Faults, Law, Network};
use cavy_study::plan::PlanError;

/// What one replication needs, apart from its seed.
pub struct Scenario {
    pub(super) names: Vec<String>,
    pub(super) network: Network,
    pub(super) changed: Network,
    pub(super) changes: Vec<Change>,
    pub(super) method: MethodPlan,
    pub(super) faults: Faults,
    pub(super) truth_cv: f64,
    pub(super) slowed_cv: f64,
    pub(super) requests: u64,
    pub(super) warmup: u64,
    /// Clients, of closed populations.
    pub(super) population: Option<u32>,
    /// Mean visits to each service for a request.
    pub(super) visits: Vec<f64>,
}

/// The scenario of a plan with one method.
pub fn scenario(plan: &ServicesPlan) -> Result<Scenario, PlanError> {
    let network = graph::network(plan)?;
    let changes = graph::changes(plan, &network)?;
    let mut changed = network.clone();
    changes.iter().for_each(|change| change.apply(&mut changed));
    let population = match network.clients[0].arriving {
        Arriving::Closed { population, .. } => Some(population),
        Arriving::Open { .. } => None,
    };
    let method = plan.methods[0].clone();
    check(plan, &method)?;
    let run = &plan.run;
    if !(100..=1_000_000_000).contains(&run.requests) {
        return Err(PlanError::field("run.requests", run.requests, "100 to 1e9"));
    }
    let settled = 30 * u64::from(population.unwrap_or(100)) + 1_000;
    for (key, cv) in [
        ("truth_cv_ratio", plan.deployments.truth_cv_ratio),
        ("slowed_cv_ratio", plan.deployments.slowed_cv_ratio),
    ] {
        if !(0.0..=0.2).contains(&cv) {
            return Err(PlanError::field(format!("deployments.{key}"), cv, "0 to 0.2"));
        }
    }
    let demands = network.demands().map_err(|error| PlanError::text(error.to_string()))?;
    Ok(Scenario {
        names: plan.services.iter().map(|one| one.name.clone()).collect(),
        changed,
        changes,
        method,
        faults: faults(plan)?,
        truth_cv: plan.deployments.truth_cv_ratio,
        slowed_cv: plan.deployments.slowed_cv_ratio,
        requests: run.requests,
        warmup: run.warmup_requests.unwrap_or(settled),
        population,
        visits: demands.into_iter().map(|one| one.visits).collect(),
        network,
    })
}

fn faults(plan: &ServicesPlan) -> Result<Faults, PlanError> {
    let stops = &plan.stops;
    let time = |key: &str, time: &Option<TimePlan>| match time {
        None => Ok(None),
        Some(time) => graph::law(&format!("stops.{key}"), time),
    };
    let span = |key: &str, us: f64| graph::span(&format!("stops.{key}"), us);
    let ratio = |key: &str, value: f64| graph::ratio(&format!("stops.{key}"), value);
    let flood = Law::Exponential { mean_ns: 300_000.0 };
    Ok(Faults {
        stop: time("stop", &stops.stop)?,
        stop_per_thread: span("stop_per_thread_us", stops.stop_per_thread_us)?,
        go: time("go", &stops.go)?,
        go_cpu_per_thread: span("go_cpu_per_thread_us", stops.go_cpu_per_thread_us)?,
        told_early: stops.told_early,
        late: time("late", &stops.late)?,
        stall_ratio: ratio("stall_ratio", stops.stall_ratio)?,
        stall: span("stall_us", stops.stall_us)?,
        message: match &stops.message {
            None => Some(flood),
            some => time("message", some)?,
        },
        lost_ratio: ratio("lost_ratio", stops.lost_ratio)?,
        doubled_ratio: ratio("doubled_ratio", stops.doubled_ratio)?,
        tick: span("usage_tick_us", stops.usage_tick_us)?,
    })
}

fn check(plan: &ServicesPlan, method: &MethodPlan) -> Result<(), PlanError> {
    let field = |key: &str| format!("methods.{}.{key}", method.label());
    match method {
        MethodPlan::Slowpoke(own) if own.batch == 0 => {
            Err(PlanError::field(field("batch"), 0, "at least 1"))
        }
        MethodPlan::Uncoordinated(own) => {
            graph::span(&field("threshold_us"), own.threshold_us).map(drop)
        }
        MethodPlan::Utilisation(own) => {
            graph::span(&field("visit_us"), own.visit_us)?;
            graph::span(&field("call_us"), own.call_us).map(drop)
        }
        MethodPlan::Mva(_) | MethodPlan::Layered(_) if plan.clients.population.is_none() => {
            let what = method.label();
            let why = format!("{what} is about closed populations, and these clients are open");
            Err(PlanError::text(why).hint("give `clients.population`, or leave this method out"))
        }
        MethodPlan::Governor(own) => check_governor(own, &field),
        MethodPlan::Coz(own) => {
            if own.batch == 0 {
                return Err(PlanError::field(field("batch"), 0, "at least 1"));
            }
            graph::length(&field("sample_us"), own.sample_us)?;
            graph::length(&field("tick_us"), own.tick_us).map(drop)
        }
        _ => Ok(()),
    }
}

fn check_governor(own: &Governor, field: &dyn Fn(&str) -> String) -> Result<(), PlanError> {
    if own.batch == Some(0) {
        return Err(PlanError::field(field("batch"), 0, "at least 1"));
    }
    if own.parallel == Some(0) {
        return Err(PlanError::field(field("parallel"), 0, "at least 1"));
    }
    let times =
        [("pause_us", own.pause_us), ("pause_max_us", own.pause_max_us), ("tick_us", own.tick_us)];
    for (key, us) in times {
        if let Some(us) = us {
            graph::length(&field(key), us)?;
        }
    }
    if let (Some(least), Some(most)) = (own.pause_us, own.pause_max_us)
        && most < least
    {
        let must = "at least `pause_us`";
        return Err(PlanError::field(field("pause_max_us"), most, must));
    }
    Ok(())
}

/// A span of so many microseconds, for numbers that were checked.
pub fn us(us: f64) -> Span {
    Span::try_from_us(us.max(0.0)).unwrap_or(Span::MAX)
}
