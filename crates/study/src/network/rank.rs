//! Transports against each other: what each would buy, and what it costs whom.

use super::NetExperiment;
use super::result::{NetResult, NetSummary, Quantile};
use crate::compare::{common_load, verdict};
use serde::Serialize;

/// The transports under one objective; by short messages' slowdown when the plan has none.
#[derive(Clone, Debug, Serialize)]
pub struct NetRanking {
    /// The variant of the plan.
    pub variant: String,
    /// The objective, in words.
    pub objective: Option<String>,
    /// Label of the transport that the others are compared with.
    pub baseline: String,
    /// Transports, the best first.
    pub rows: Vec<NetRank>,
}

/// One transport in a ranking.
#[derive(Clone, Debug, Serialize)]
pub struct NetRank {
    /// Label.
    pub transport: String,
    /// Highest load that meets the objective.
    pub load: Option<f64>,
    /// That load over the baseline's: what the transport buys.
    pub gain_ratio: Option<f64>,
    /// What gives way above it.
    pub limit: String,
    /// The load at which messages are compared: the highest one run at which both are stable.
    pub compared_at_load: Option<f64>,
    /// 99th percentile slowdown of the smallest half of the messages there.
    pub short_p99_slowdown: Option<f64>,
    /// The largest queue at any port of a switch there, bytes.
    pub queue_max_bytes: Option<u64>,
    /// What small and large messages pay or gain there.
    pub effects: Vec<NetEffect>,
}

/// What a transport does to some messages, against the baseline at the same load.
#[derive(Clone, Debug, Serialize)]
pub struct NetEffect {
    /// Which messages.
    pub whose: String,
    /// The percentile of slowdown: 99th, or the median where messages are too few.
    pub percentile: &'static str,
    /// The baseline's slowdown.
    pub baseline: f64,
    /// The transport's.
    pub transport: f64,
    /// Transport over baseline: below 1 is faster.
    pub ratio: f64,
    /// `better` or `worse` only when the paired 95 % interval excludes zero; else `unclear`.
    pub verdict: &'static str,
}

/// What `ours` does to messages of several sizes, against `theirs`.
pub fn effects(ours: &NetResult, theirs: &NetResult) -> Vec<NetEffect> {
    let mut all = Vec::new();
    all.extend(effect("smallest half", &ours.short, &theirs.short));
    // Of the largest the first slice is nearly all bytes already; the ends are told apart.
    for (mine, other) in ours.largest.iter().zip(&theirs.largest).skip(1) {
        let per_cent = (mine.share * 1e2).round().max(1.0);
        let whose = format!("largest {per_cent} %");
        all.extend(effect(&whose, &mine.summary, &other.summary));
    }
    all
}

fn effect(whose: &str, ours: &NetSummary, theirs: &NetSummary) -> Option<NetEffect> {
    type Which = fn(&NetSummary) -> Option<&Quantile>;
    let p99: Which = |summary| summary.p99_slowdown.as_ref();
    let p50: Which = |summary| summary.p50_slowdown.as_ref();
    [("p99", p99), ("p50", p50)].into_iter().find_map(|(percentile, of)| {
        let ours = of(ours)?.supported()?;
        let theirs = of(theirs)?.supported()?;
        Some(NetEffect {
            whose: whose.to_string(),
            percentile,
            baseline: theirs.value,
            transport: ours.value,
            ratio: ours.value / theirs.value,
            verdict: verdict(ours, theirs),
        })
    })
}

/// A ranking for each variant and objective of a plan that varies nothing but the load.
pub fn rankings(experiment: &NetExperiment) -> Vec<NetRanking> {
    let mut all = Vec::new();
    for variant in experiment.variants() {
        let of_variant = experiment.results.iter().filter(|r| r.variant == variant);
        let others = of_variant.flat_map(|r| r.settings.keys()).any(|key| key != "load");
        if others || experiment.policies(variant).len() < 2 {
            continue;
        }
        let found = experiment.capacities.iter().filter(|c| c.variant == variant);
        match found.map(|c| c.objective_index).max() {
            Some(last) => all.extend((0..=last).map(|i| ranking(experiment, variant, Some(i)))),
            None => all.push(ranking(experiment, variant, None)),
        }
    }
    all
}

fn ranking(experiment: &NetExperiment, variant: &str, objective: Option<usize>) -> NetRanking {
    let labels = experiment.policies(variant);
    let first = labels.first().copied().unwrap_or_default();
    let baseline = experiment.plan.baseline.as_deref().unwrap_or(first);
    let capacity = |label: &str| experiment.capacity(variant, label, objective?);
    let base_load = capacity(baseline).and_then(|c| c.load);
    let row = |label: &&str| {
        let pair = common_load(experiment, variant, label, baseline);
        let load = capacity(label).and_then(|c| c.load);
        let short = |result: &NetResult| Some(result.short.p99_slowdown.as_ref()?.estimate.value);
        NetRank {
            transport: label.to_string(),
            load,
            gain_ratio: load.zip(base_load).map(|(ours, theirs)| ours / theirs),
            limit: capacity(label).map_or(String::new(), |c| c.limit.clone()),
            compared_at_load: pair.map(|(ours, _)| ours.load),
            short_p99_slowdown: pair.and_then(|(ours, _)| short(ours)),
            queue_max_bytes: pair.map(|(ours, _)| ours.queue_max_bytes()),
            effects: match pair {
                Some((ours, theirs)) if *label != baseline => effects(ours, theirs),
                _ => Vec::new(),
            },
        }
    };
    let mut rows: Vec<NetRank> = labels.iter().map(row).collect();
    let slow = |row: &NetRank| row.short_p99_slowdown.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| {
        let by_load = b.load.unwrap_or(0.0).total_cmp(&a.load.unwrap_or(0.0));
        by_load.then(slow(a).total_cmp(&slow(b)))
    });
    let objective = capacity(first).map(|c| c.objective.clone());
    NetRanking { variant: variant.to_string(), objective, baseline: baseline.to_string(), rows }
}
