//! How many workers each group gets.

use super::rehearsal::{STABLE_UTILIZATION, Terms};
use super::reservation::{Demand, Group, round_demand};
use alloc::vec::Vec;

/// The rule by which a group's workers are counted.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Sizing {
    /// Its rounded share of the work, whatever the load ([persephone 2.8]).
    Demand,
    /// As few as meet an objective at the measured load, and never so many that longer groups
    /// become unstable ([persephone 8.2 O5]).
    LoadAware(Objective),
    /// What would have served the last window best ([persephone 8.2 O7]).
    Rehearsed(Terms),
}

/// What short groups are promised.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Objective {
    /// A request should wait at most this many times its group's mean service time,
    pub slowdown: f64,
    /// but for this share of requests.
    pub miss_ratio: f64,
}

impl Default for Objective {
    fn default() -> Self {
        Objective { slowdown: 10.0, miss_ratio: 0.001 }
    }
}

impl Sizing {
    /// Workers for each group, shortest first. `arrivals_per_s` is 0 when the load is not known
    /// yet; demand then decides.
    pub fn wants(
        &self,
        groups: &[Group],
        demands: &[Demand],
        workers: u16,
        arrivals_per_s: f64,
    ) -> Vec<u16> {
        match self {
            Sizing::LoadAware(objective) if arrivals_per_s > 0.0 => {
                load_aware(objective, groups, demands, workers, arrivals_per_s)
            }
            _ => groups.iter().map(|group| round_demand(group.demand)).collect(),
        }
    }
}

fn load_aware(
    objective: &Objective,
    groups: &[Group],
    demands: &[Demand],
    workers: u16,
    arrivals_per_s: f64,
) -> Vec<u16> {
    let erlangs: Vec<f64> = groups
        .iter()
        .map(|group| {
            let of_group = demands.iter().filter(|d| group.members.contains(&d.kind));
            of_group.map(|d| d.hold_ns * d.ratio).sum::<f64>() * arrivals_per_s / 1e9
        })
        .collect();
    let mut wants = Vec::with_capacity(groups.len());
    let mut left = workers;
    for (index, &load) in erlangs.iter().enumerate() {
        if index + 1 == erlangs.len() {
            wants.push(left);
            break;
        }
        let longer: f64 = erlangs[index + 1..].iter().sum();
        let needed_by_longer = libm::ceil(longer / STABLE_UTILIZATION).max(1.0) as u16;
        let most = left.saturating_sub(needed_by_longer);
        // With none to spare the group owns nothing and goes first everywhere: fixed priority.
        let want = (1..=most).find(|&r| meets(objective, r, load)).unwrap_or(most);
        left -= want;
        wants.push(want);
    }
    wants
}

/// Would `servers` alone, without stealing, keep waits within the objective? Exponential tail of
/// M/M/r: P(W > x means) = C(r, a) e^{-(r - a) x} ([persephone 5.1], Erlang C).
fn meets(objective: &Objective, servers: u16, erlangs: f64) -> bool {
    let r = f64::from(servers);
    if erlangs >= r {
        return false;
    }
    erlang_c(servers, erlangs) * libm::exp(-(r - erlangs) * objective.slowdown)
        <= objective.miss_ratio
}

/// Probability that an arrival waits in M/M/`servers` at `erlangs` of offered load.
pub fn erlang_c(servers: u16, erlangs: f64) -> f64 {
    // Erlang B by its recursion, which cannot overflow, then C from B.
    let mut blocked = 1.0;
    for r in 1..=servers {
        blocked = erlangs * blocked / (f64::from(r) + erlangs * blocked);
    }
    let utilization = erlangs / f64::from(servers);
    if utilization >= 1.0 {
        return 1.0;
    }
    blocked / (1.0 - utilization * (1.0 - blocked))
}
