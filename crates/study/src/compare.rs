//! Policies against each other: what each would buy, and what it costs whom.

use crate::experiment::Experiment;
use crate::plan::objective::{Percentile, Quantity};
use crate::point::{Estimate, PointResult};
use crate::subject::{Outcome, Subject};
use cavy_lab::statistics::paired::{self, Verdict};
use serde::Serialize;

/// The policies by capacity under one objective.
#[derive(Clone, Debug, Serialize)]
pub struct Ranking {
    /// The variant of the plan.
    pub variant: String,
    /// The objective, in words.
    pub objective: String,
    /// Label of the policy that the others are compared with.
    pub baseline: String,
    /// Policies, the largest capacity first.
    pub rows: Vec<Rank>,
}

/// One policy in a ranking.
#[derive(Clone, Debug, Serialize)]
pub struct Rank {
    /// Label.
    pub policy: String,
    /// Highest load that meets the objective.
    pub load: Option<f64>,
    /// That load in requests per second.
    pub rate_per_s: Option<f64>,
    /// That load over the baseline's: what the policy buys.
    pub gain_ratio: Option<f64>,
    /// What gives way above it.
    pub limit: String,
    /// The load at which types are compared: the highest swept one at which both are stable.
    pub compared_at_load: Option<f64>,
    /// What every type pays or gains there.
    pub effects: Vec<Effect>,
}

/// What a policy does to one type, against the baseline at the same load.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    /// Name of the type.
    pub kind: String,
    /// The percentile compared: 99.9th, or 99th where samples are too few.
    pub percentile: String,
    /// The baseline's latency, microseconds.
    pub baseline_us: f64,
    /// The policy's latency, microseconds.
    pub policy_us: f64,
    /// Policy over baseline: below 1 is faster.
    pub ratio: f64,
    /// `better` or `worse` only when the paired 95 % interval excludes zero; else `unclear`.
    pub verdict: &'static str,
}

/// The paired verdict of two estimates over the same replications.
pub fn verdict(policy: &Estimate, baseline: &Estimate) -> &'static str {
    if policy.replications.len() != baseline.replications.len() {
        return "unclear";
    }
    match paired::compare(&policy.replications, &baseline.replications).map(|pair| pair.verdict) {
        Some(Verdict::Better) => "better",
        Some(Verdict::Worse) => "worse",
        _ => "unclear",
    }
}

/// What `policy` does to each type, against `baseline`.
pub fn effects(policy: &PointResult, baseline: &PointResult) -> Vec<Effect> {
    let of_type = |name: &str| {
        [Percentile::P999, Percentile::P99].into_iter().find_map(|percentile| {
            let ours = policy.summary(Some(name))?.get(percentile, Quantity::Us)?;
            let theirs = baseline.summary(Some(name))?.get(percentile, Quantity::Us)?;
            Some(Effect {
                kind: name.to_string(),
                percentile: percentile.title().to_string(),
                baseline_us: theirs.value,
                policy_us: ours.value,
                ratio: ours.value / theirs.value,
                verdict: verdict(ours, theirs),
            })
        })
    };
    policy.types.iter().filter_map(|kind| of_type(&kind.name)).collect()
}

/// A ranking for each variant and objective of a plan that varies nothing but the load.
pub fn rankings(experiment: &Experiment) -> Vec<Ranking> {
    let mut all = Vec::new();
    for variant in experiment.variants() {
        let most = experiment.capacities.iter().filter(|c| c.variant == variant);
        for index in 0..most.map(|c| c.objective_index + 1).max().unwrap_or(0) {
            all.extend(ranking(experiment, variant, index));
        }
    }
    all
}

fn ranking(experiment: &Experiment, variant: &str, objective: usize) -> Option<Ranking> {
    let policies = experiment.policies(variant);
    let baseline = match &experiment.plan.baseline {
        Some(label) => label.as_str(),
        None => policies.first()?,
    };
    let capacities: Vec<_> = experiment
        .capacities
        .iter()
        .filter(|c| c.variant == variant && c.objective_index == objective)
        .collect();
    // With another swept key there are several capacities for each policy: no single ranking.
    if capacities.iter().any(|c| !c.settings.is_empty()) {
        return None;
    }
    let base_load = capacities.iter().find(|c| c.policy == baseline)?.load;
    let mut rows: Vec<Rank> = capacities
        .iter()
        .map(|capacity| {
            let pair = common_load(experiment, variant, &capacity.policy, baseline);
            Rank {
                policy: capacity.policy.clone(),
                load: capacity.load,
                rate_per_s: capacity.rate_per_s,
                gain_ratio: capacity.load.zip(base_load).map(|(ours, theirs)| ours / theirs),
                limit: capacity.limit.clone(),
                compared_at_load: pair.map(|(ours, _)| ours.load),
                effects: match pair {
                    Some((ours, theirs)) if capacity.policy != baseline => effects(ours, theirs),
                    _ => Vec::new(),
                },
            }
        })
        .collect();
    rows.sort_by(|a, b| b.load.unwrap_or(0.0).total_cmp(&a.load.unwrap_or(0.0)));
    let objective = capacities.first()?.objective.clone();
    Some(Ranking { variant: variant.to_string(), objective, baseline: baseline.to_string(), rows })
}

/// Results of two policies at the highest swept load at which both are stable.
pub fn common_load<'a, P: Subject>(
    experiment: &'a Experiment<P>,
    variant: &'a str,
    first: &'a str,
    second: &'a str,
) -> Option<(&'a P::Outcome, &'a P::Outcome)> {
    experiment
        .of(variant, first)
        .filter(|result| result.stable())
        .filter_map(|ours| {
            let theirs = experiment.at(variant, second, ours.load())?;
            theirs.stable().then_some((ours, theirs))
        })
        .max_by(|a, b| a.0.load().total_cmp(&b.0.load()))
}
