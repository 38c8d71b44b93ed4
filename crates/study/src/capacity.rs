//! How much load a policy sustains under an objective, by bisection.

use crate::experiment::Point;
use crate::plan::Loaded;
use crate::point::RunError;
use crate::runner::Runner;
use crate::subject::{self, Outcome, Subject};
use cavy_core::Digest;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// The highest load at which an objective holds.
#[derive(Clone, Debug, Serialize)]
pub struct Capacity {
    /// The variant of the plan.
    pub variant: String,
    /// Label of the policy or transport.
    pub policy: String,
    /// Swept keys other than the load, with their values.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The objective, in words.
    pub objective: String,
    /// Its place in the plan.
    pub objective_index: usize,
    /// The highest load found to meet it; `None` when not even the lowest load tried does.
    pub load: Option<f64>,
    /// That load as a rate, requests or messages per second.
    pub rate_per_s: Option<f64>,
    /// The lowest load found to miss it; `None` when it holds up to the highest load tried.
    pub missed_at: Option<f64>,
    /// What gave way there: the objective, or stability.
    pub limit: String,
    /// The bounded value at the capacity.
    pub value: Option<f64>,
    /// Requests or messages simulated for the search alone.
    pub requests: u64,
    /// Fingerprint of the search's runs.
    #[serde(skip)]
    pub digest: u64,
}

/// The lowest and highest loads tried when the plan does not sweep the load.
const LOADS: (f64, f64) = (0.05, 0.99);

/// One policy in one setting: what its capacity depends on is its key at a fixed load.
struct Wanted<'p, P> {
    template: &'p Point<P>,
    system: String,
    objective_index: usize,
    objective: String,
}

/// Finds the capacity of every policy for every objective of the plan.
///
/// Loads that the plan sweeps bracket the capacity: it lies above the highest load below which all
/// meet the objective, which is what "sustains" means, and is then bisected. Variants that leave a
/// policy as it was share one search, and the swept loads of all of them bracket it.
pub fn search<P: Subject>(
    runner: &Runner<'_>,
    loaded: &Loaded<P>,
    points: &[Point<P>],
    results: &[P::Outcome],
) -> Result<Vec<Capacity>, RunError> {
    let system = |point: &Point<P>| point.at_load(LOADS.0).key();
    let of_points: Vec<String> = points.iter().map(system).collect();
    // One capacity for each policy in each setting that is not the load.
    let mut wanted: Vec<Wanted<'_, P>> = Vec::new();
    for (point, system) in points.iter().zip(&of_points) {
        if !point.plan.has_capacity() {
            continue;
        }
        let same = |other: &Wanted<'_, P>| {
            other.template.variant == point.variant
                && other.template.policy == point.policy
                && other.template.facet() == point.facet()
        };
        if wanted.iter().any(same) {
            continue;
        }
        wanted.extend(point.objectives.iter().enumerate().map(|(objective_index, objective)| {
            let (system, objective) = (system.clone(), objective.clone());
            Wanted { template: point, system, objective_index, objective }
        }));
    }
    let mut searches: BTreeMap<(&str, &str), &Wanted<'_, P>> = BTreeMap::new();
    for one in &wanted {
        searches.entry((&one.system, &one.objective)).or_insert(one);
    }
    runner.progress.doing("searching capacities");
    let found: BTreeMap<(&str, &str), Capacity> = searches
        .into_par_iter()
        .map(|(key, one)| {
            let of_system = of_points.iter().zip(results).filter(|(system, _)| *system == key.0);
            let known = of_system.map(|(_, result)| result);
            let objective = P::objective(&one.objective)?;
            Ok((key, bisect(runner, loaded, one.template, &objective, known)?))
        })
        .collect::<Result<_, RunError>>()?;
    Ok(wanted.iter().map(|one| named(one, &found[&(&*one.system, &*one.objective)])).collect())
}

/// `found` under the names by which `wanted` goes.
fn named<P: Subject>(wanted: &Wanted<'_, P>, found: &Capacity) -> Capacity {
    Capacity {
        variant: wanted.template.variant.clone(),
        policy: wanted.template.policy.clone(),
        settings: subject::settings(&wanted.template.facet()),
        objective_index: wanted.objective_index,
        ..found.clone()
    }
}

/// Does `result` meet `objective`? `None` when it has too few samples to tell.
fn meets<P: Subject>(result: &P::Outcome, objective: &P::Objective) -> Option<bool> {
    if !result.stable() {
        return Some(false);
    }
    P::bounded(result, objective).map(|(value, limit)| value <= limit)
}

fn bisect<'r, P: Subject>(
    runner: &Runner<'_>,
    loaded: &Loaded<P>,
    template: &Point<P>,
    objective: &P::Objective,
    known: impl Iterator<Item = &'r P::Outcome>,
) -> Result<Capacity, RunError> {
    let mut swept: Vec<&P::Outcome> = known.collect();
    swept.sort_by(|a, b| a.load().total_cmp(&b.load()));
    let mut digest = Digest::new();
    let mut requests = 0;
    let mut try_at = |load: f64| -> Result<P::Outcome, RunError> {
        let result = runner.point(&template.at_load(load), &loaded.folder)?;
        digest.fold(result.digest_value());
        requests += result.requests();
        Ok(result)
    };

    let mut met: Option<P::Outcome> = None;
    let mut missed: Option<P::Outcome> = None;
    for result in swept {
        match meets::<P>(result, objective) {
            Some(true) => met = Some(result.clone()),
            // Too few samples count as a miss: nothing is promised that was not seen.
            Some(false) | None => {
                missed = Some(result.clone());
                break;
            }
        }
    }
    if met.is_none() && missed.as_ref().is_none_or(|m| m.load() > LOADS.0) {
        let lowest = try_at(LOADS.0)?;
        match meets::<P>(&lowest, objective) {
            Some(true) => met = Some(lowest),
            _ => missed = Some(lowest),
        }
    }
    if met.is_some() && missed.is_none() {
        let highest = try_at(LOADS.1)?;
        match meets::<P>(&highest, objective) {
            Some(true) => met = Some(highest),
            _ => missed = Some(highest),
        }
    }
    let step = template.plan.capacity_step();
    while let (Some(low), Some(high)) = (&met, &missed)
        && high.load() - low.load() > step * 1.0001
    {
        // On a grid of the step, so that searches for several objectives share points.
        let middle = ((low.load() + high.load()) / 2.0 / step).round() * step;
        let middle = (middle * 1e9).round() / 1e9;
        if middle <= low.load() || middle >= high.load() {
            break;
        }
        let result = try_at(middle)?;
        match meets::<P>(&result, objective) {
            Some(true) => met = Some(result),
            _ => missed = Some(result),
        }
    }
    let limit = match &missed {
        None => format!("holds up to load {}", LOADS.1),
        Some(result) if !result.stable() => format!("unstable: {}", result.note()),
        Some(result) if meets::<P>(result, objective).is_none() => {
            "too few samples to judge".to_string()
        }
        Some(_) => "objective".to_string(),
    };
    let value =
        met.as_ref().and_then(|result| P::bounded(result, objective)).map(|(value, _)| value);
    Ok(Capacity {
        variant: template.variant.clone(),
        policy: template.policy.clone(),
        settings: BTreeMap::new(),
        objective: objective.to_string(),
        objective_index: 0,
        load: met.as_ref().map(|result| result.load()),
        rate_per_s: met.as_ref().map(|result| result.rate_per_s()),
        missed_at: missed.as_ref().map(|result| result.load()),
        limit,
        value,
        requests,
        digest: digest.value(),
    })
}
