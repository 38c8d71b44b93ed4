//! A system under the rule of Coz.

use super::plan::Coz as CozPlan;
use super::run::{
    Counter, Measured, Prediction, SLOWED, Slowed, UNTIL, deployment, doubt_of_a_rate, go,
    parallel, share, window,
};
use super::scenario::{Scenario, us};
use cavy_core::Span;
use cavy_core::family::probe::Group;
use cavy_lab::services::Setup;
use cavy_study::point::{Manner, RunError};
use cavy_whatif::coz::{Coz, Effective, Rule};

/// For how long a service stands at most.
const LEASE: Span = Span::from_ms(1_000);

/// Runs a system in which all but the target fall back, each by itself.
pub fn fall_back(
    scenario: &Scenario,
    own: &CozPlan,
    unchanged: &Measured,
    seed: u64,
    manner: &Manner,
    all: &mut Prediction,
) -> Result<(), RunError> {
    let change = &scenario.changes[0];
    let faster = share(scenario, change, unchanged);
    if scenario.changes.len() > 1 {
        all.doubts.push("only the first change is predicted by this method".to_string());
    }
    doubt_of_a_rate(scenario, &mut all.doubts);
    if faster <= 0.0 {
        all.doubts.push("Coz cannot predict a change that makes a service slower".to_string());
        return Ok(());
    }
    let network = deployment(&scenario.network, seed, SLOWED, scenario.slowed_cv);
    let targets: Vec<Group> = network.groups_of(change.service).map(Group).collect();
    // Clients are no threads of the program: they only wait.
    let services = network.groups() - network.clients.len() as u32;
    let others = (0..services).map(Group).filter(|group| !targets.contains(group)).collect();
    let (settle, length) = window(scenario, unchanged);
    let servers = parallel(scenario, change);
    let machine = Coz::new(Rule {
        // Of all replicas together: each is one of so many servers.
        parallel: (servers / targets.len().max(1) as u32).max(1),
        targets,
        others,
        share: faster.min(1.0),
        sample: us(own.sample_us),
        batch: own.batch,
        tick: us(own.tick_us),
        credits: own.credits,
        lease: LEASE,
        settle,
        length,
    });
    let mut setup = Setup::new(&network, seed, UNTIL);
    setup.wiring.hears = vec![Some(0); network.groups() as usize];
    setup.wiring.edge = Some(0);
    setup.faults = scenario.faults.clone();
    let mut found: Option<Effective> = None;
    let mut keep = |one: &Effective| found = Some(*one);
    let mut counter = Counter::new(scenario.warmup, scenario.requests);
    counter.finding = Some(&mut keep);
    counter.by_finding = true;
    let outcome = go(&setup, &mut [machine], &mut counter, manner)?;
    all.requests = outcome.completed + outcome.failed;
    let Some(found) = found else {
        all.doubts
            .push(format!("the slowed system did not finish its requests: {:?}", outcome.ended));
        return Ok(());
    };
    all.per_s = found.predicted_per_s();
    if all.per_s.is_none() {
        all.doubts.push("more delay was inserted than time has passed".to_string());
    }
    let frozen: Span = outcome.groups.iter().map(|one| one.frozen).max().unwrap_or_default();
    let stops: u64 = outcome.groups.iter().map(|one| one.stops).max().unwrap_or_default();
    all.slowed = Some(Slowed {
        per_s: found.measured_per_s(),
        paused_ratio: frozen.as_ns() as f64 / outcome.at.as_ns().max(1) as f64,
        pause_ms: frozen.as_ns() as f64 / 1e6 / stops.max(1) as f64,
        latency: None,
    });
    all.trail = Some(outcome.trail);
    Ok(())
}
