//! Do services keep up with requests that come at a rate?
//!
//! More than a service can do is known by arithmetic; else latency grows or does not from the first
//! half of the measured requests to the second one ([decision 25]). Clients that wait for their
//! answers let no queue grow without end.
//!
//! [decision 25]: ../../../../docs/decisions/0025-server-statistics.md

use super::law;
use super::result::Verdict;
use super::run::{self, Measured};
use super::scenario::Scenario;
use crate::halves;
use cavy_lab::services::{Arriving, Network, Place};
use cavy_report::number::{beside_one, count, upwards};
use cavy_study::outcome::Standing;

/// Of requests that come at a rate: does `network` keep up, by what `runs` of it measured?
pub fn judge<'a>(
    scenario: &Scenario,
    network: &Network,
    runs: impl Iterator<Item = &'a Measured> + Clone,
) -> Option<Verdict> {
    let Arriving::Open { ref gap } = network.clients[0].arriving else { return None };
    let gap_ns = gap.mean_ns();
    if let Some((who, load)) = busiest(scenario, network, 1.0 / gap_ns)
        // What is offered has rounding errors.
        && load >= 1.0 - 1e-9
    {
        let note = format!("{who} would have to do {} of what it can do", beside_one(load));
        return Some(Verdict { standing: Standing::Unstable, note });
    }
    let ms = |requests: u64| requests as f64 * gap_ns / 1e6;
    let times_ms = (ms(scenario.warmup), ms(scenario.requests));
    let (standing, note) = halves::judge(runs.map(|run| &run.halves), times_ms, |times| {
        format!("run.requests = {}", count(upwards(scenario.requests as f64 * times)))
    });
    Some(Verdict { standing, note })
}

/// The service, or the services on one host, that have the most to do for their processors, and
/// what that is as a share of what these can do, at `per_ns` requests a nanosecond.
fn busiest(scenario: &Scenario, network: &Network, per_ns: f64) -> Option<(String, f64)> {
    let cpu_ns = law::cpu_of(network, 0.0, 0.0);
    let name = |service: usize| scenario.names[service].clone();
    let own = (0..cpu_ns.len()).filter_map(|service| match network.services[service].place {
        Place::Own(_) => Some((name(service), cpu_ns[service] / run::servers(network, service))),
        Place::On(_) => None,
    });
    let hosts = network.hosts.iter().enumerate().map(|(host, one)| {
        let on = |service: &usize| network.services[*service].place == Place::On(host);
        let names: Vec<String> = (0..cpu_ns.len()).filter(on).map(name).collect();
        let sum: f64 = (0..cpu_ns.len()).filter(on).map(|service| cpu_ns[service]).sum();
        (format!("the host of {}", names.join(" and ")), sum / f64::from(one.cores))
    });
    let all = own.chain(hosts).map(|(who, ns)| (who, ns * per_ns));
    all.max_by(|a, b| a.1.total_cmp(&b.1))
}
