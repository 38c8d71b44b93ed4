//! What work a request is to each service, and what throughput follows from that: the law of
//! utilisation.

use super::change::{What, cpu_ns};
use super::plan::TimesPlan;
use super::run::{Measured, saved_ns, servers};
use super::scenario::Scenario;
use cavy_lab::services::{Arriving, Call, Law, Network, Place, Service, Step};
use cavy_lab::theory::closed::{self, Station};

/// CPU time of each service for a request of the changed system, from that of the unchanged one.
pub fn changed_cpu(scenario: &Scenario, cpu_ns: &[f64]) -> Vec<f64> {
    let mut all = cpu_ns.to_vec();
    for change in &scenario.changes {
        let saved = saved_ns(scenario, change) * scenario.visits[change.service];
        if !matches!(change.what, What::Replicas(_) | What::Cores(_)) {
            all[change.service] = (all[change.service] - saved).max(0.0);
        }
    }
    all
}

/// Time for which a request is nowhere: thinking, messages, waits.
pub fn think_ns(network: &Network) -> f64 {
    let think = match &network.clients[0].arriving {
        Arriving::Closed { think: Some(think), .. } => think.mean_ns(),
        _ => 0.0,
    };
    think + between_ns(network)
}

/// Time for which a request is at no processor: messages and waits, of calls side by side as well.
pub fn between_ns(network: &Network) -> f64 {
    let hop = network.hop.as_ref().map_or(0.0, Law::mean_ns);
    let demands = network.demands().unwrap_or_default();
    let waits = |steps: &[Step]| -> f64 {
        steps
            .iter()
            .map(|step| if let Step::Wait(time) = step { time.mean_ns() } else { 0.0 })
            .sum()
    };
    let per_visit = network.services.iter().zip(&demands).map(|(service, demand)| {
        let endpoints = service.endpoints.iter().zip(&demand.by_endpoint);
        endpoints.map(|(one, times)| times * (2.0 * hop + waits(&one.steps))).sum::<f64>()
    });
    per_visit.sum::<f64>()
}

/// The law of utilisation, in requests a second.
pub fn utilisation(
    scenario: &Scenario,
    unchanged: &Measured,
    times: TimesPlan,
    (visit_ns, call_ns): (f64, f64),
) -> f64 {
    let population = scenario.population.unwrap_or(u32::MAX);
    let bound = |network: &Network, cpu_ns: &[f64]| {
        let stations = stations_of(network, cpu_ns);
        closed::bound(&stations, population, think_ns(network)) * 1e9
    };
    if times == TimesPlan::Measured {
        return bound(&scenario.changed, &changed_cpu(scenario, &unchanged.cpu_ns));
    }
    // What a modeller has: the times of the steps, not what visits and calls cost besides.
    let of = |network: &Network, visit_ns: f64| bound(network, &cpu_of(network, visit_ns, call_ns));
    match times {
        TimesPlan::Overhead => {
            // The overhead with which the law gives the throughput that was measured, by bisection.
            let (mut low, mut high) = (0.0, 1e8);
            for _ in 0..80 {
                let middle = (low + high) / 2.0;
                if of(&scenario.network, middle) > unchanged.per_s {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            of(&scenario.changed, low)
        }
        _ => of(&scenario.changed, visit_ns),
    }
}

/// CPU time of each service for a request by the times of its steps, and what each visit and call
/// costs besides, nanoseconds.
pub fn cpu_of(network: &Network, visit_ns: f64, call_ns: f64) -> Vec<f64> {
    let of = |service: &Service, by_endpoint: &[f64]| {
        let endpoints = service.endpoints.iter().zip(by_endpoint);
        let each = endpoints.map(|(one, times)| {
            let own = cpu_ns(&one.steps, &service.caches);
            times * (own + visit_ns + call_ns * calls(&one.steps))
        });
        each.sum()
    };
    let demands = network.demands().unwrap_or_default();
    network.services.iter().zip(&demands).map(|(one, its)| of(one, &its.by_endpoint)).collect()
}

/// Mean calls that `steps` make.
fn calls(steps: &[Step]) -> f64 {
    let of =
        |all: &[Call]| -> f64 { all.iter().map(|call| call.share * f64::from(call.repeat)).sum() };
    steps
        .iter()
        .map(|step| match step {
            Step::Call(call) | Step::Tell(call) => of(core::slice::from_ref(call)),
            Step::OneOf(all) | Step::Together(all) => of(all),
            Step::Cached { miss, .. } => calls(miss),
            _ => 0.0,
        })
        .sum()
}

/// Stations of a network: services on one host are one station.
pub fn stations_of(network: &Network, cpu_ns: &[f64]) -> Vec<Station> {
    let mut hosts: Vec<f64> = vec![0.0; network.hosts.len()];
    let mut all = Vec::new();
    for (service, one) in network.services.iter().enumerate() {
        match one.place {
            Place::On(host) => hosts[host] += cpu_ns[service],
            Place::Own(_) => {
                let servers = servers(network, service) as u32;
                all.push(Station { demand: cpu_ns[service], servers });
            }
        }
    }
    for (demand, host) in hosts.into_iter().zip(&network.hosts) {
        all.push(Station { demand, servers: u32::from(host.cores) });
    }
    all.retain(|one| one.demand > 0.0);
    all
}
