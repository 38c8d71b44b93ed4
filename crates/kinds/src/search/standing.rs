//! Does a cluster keep up with its queries?
//!
//! More than the servers can do is known by arithmetic; else latency grows or does not from the
//! first half of the measured queries to the second one ([decision 25]).
//!
//! [decision 25]: ../../../../docs/decisions/0025-server-statistics.md

use super::run::Replication;
use super::scenario::{Scenario, Way};
use crate::halves;
use cavy_report::number::{beside_one, count, significant, upwards};
use cavy_search::clusters::Clusters;
use cavy_search::ring::WHOLE;
use cavy_search::scheme::Scheme;
use cavy_study::outcome::Standing;

/// The standing, and why it is not stable.
///
/// Events make latency grow and fall as they like, so plans that have some are not judged.
pub fn judge(scenario: &Scenario, runs: &[Replication]) -> (Standing, String) {
    if !scenario.events.is_empty() {
        return (Standing::Stable, String::new());
    }
    // What is sent again may be called off before a server has done anything for it.
    let parts = match scenario.hedge {
        Some(_) => f64::from(scenario.p),
        None => runs.iter().map(|run| run.parts).sum::<f64>() / runs.len().max(1) as f64,
    };
    let load = least_load(scenario, parts);
    // What is offered has rounding errors.
    if load >= 1.0 - 1e-9 {
        let note = format!("queries ask for {} of what the servers can do", beside_one(load));
        return (Standing::Unstable, note);
    }
    // Machines run for a time; without them all queries are sent.
    let (warm, all) = if scenario.scheduling.is_some() || scenario.balance.is_some() {
        (scenario.warm.as_ns() as f64, scenario.duration.as_ns() as f64)
    } else {
        (scenario.warmup as f64 * scenario.gap_ns, f64::INFINITY)
    };
    let sent = scenario.queries as f64 * scenario.gap_ns;
    let times_ms = (warm / 1e6, (f64::min(sent, all) - warm) / 1e6);
    halves::judge(runs.iter().map(|run| &run.halves), times_ms, |times| {
        if all < sent {
            return format!("run.duration_s = {}", significant(all / 1e9 * times));
        }
        format!("run.queries = {}", count(upwards(scenario.queries as f64 * times)))
    })
}

/// What queries ask for at least, as a share of what the servers can do; 0 where that is unknown.
/// `parts` is how many sub-queries a query has.
fn least_load(scenario: &Scenario, parts: f64) -> f64 {
    // Who ends at a deadline leaves work undone.
    if scenario.deadline.is_some() {
        return 0.0;
    }
    let (n, cores) = (scenario.costs.len(), f64::from(scenario.cores));
    let per_ns = 1.0 / scenario.gap_ns;
    // Sub-queries of `width` that `server` can do in a nanosecond.
    let rate = |server: usize, width: u128| cores / scenario.costs[server].of(width) as f64;
    match scenario.way {
        // Each cluster does a part of every query.
        Way::Scheme(Scheme::Clusters(_)) => {
            let Some(clusters) = Clusters::new(&scenario.speeds, scenario.p) else { return 0.0 };
            let of = |cluster: usize| {
                let width = clusters.slice(cluster).width();
                let members = clusters.members(cluster).iter();
                members.map(|&server| rate(server as usize, width)).sum::<f64>()
            };
            (0..clusters.count()).map(|cluster| per_ns / of(cluster)).fold(0.0, f64::max)
        }
        Way::Random { copies, asked, .. } => {
            let width = (WHOLE as f64 * f64::from(copies) / n as f64) as u128;
            let all: f64 = (0..n).map(|server| rate(server, width)).sum();
            per_ns * f64::from(asked) / all
        }
        // Parts are cut as it suits, so only bounds are known. One is of time: nobody is faster
        // than the fastest server. One is of scanning: all servers together scan so much, less
        // what they could scan while they do the fixed work of parts, which is least on the
        // slowest server.
        Way::Scheme(_) => {
            let costs = || scenario.costs.iter();
            let fixed = costs().map(|cost| cost.fixed_ns).min().unwrap_or(0) as f64 * parts;
            let scans = costs().map(|cost| cost.scan_ns as f64);
            let (least, most) = scans.clone().fold((f64::INFINITY, 0.0), |(least, most), scan| {
                (f64::min(least, scan), f64::max(most, scan))
            });
            let by_time = per_ns * (fixed + least) / (n as f64 * cores);
            let scanned_per_ns: f64 = scans.map(|scan| cores / scan).sum();
            let by_scans = per_ns * (1.0 + fixed / most) / scanned_per_ns;
            f64::max(by_time, by_scans)
        }
    }
}
