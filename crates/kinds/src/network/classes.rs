//! Several classes of traffic at once: what they send, and what their messages experienced.

use super::fabric::Fabric;
use super::plan::NetworkPlan;
use super::result::NetSummary;
use super::run::{Pooled, Replication};
use super::scenario::{self, Demand};
use super::traffic::TrafficPlan;
use cavy_lab::net::traffic::OpenLoop;
use cavy_lab::net::{Done, Ps, SLOWDOWN_UNIT};
use cavy_lab::statistics::histogram::Histogram;
use cavy_study::objective::Quantity;
use cavy_study::outcome::Summary;
use cavy_study::plan::{Files, PlanError};
use cavy_workload::sizes::Sizes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most classes: each keeps histograms in every replication.
const CLASSES_MAX: usize = 16;

/// What classes send together.
#[derive(Clone, Debug)]
pub struct Classes {
    /// One open loop each.
    pub each: Vec<OpenLoop>,
    /// How long messages are, of all classes.
    pub sizes: Sizes,
    /// Messages a second, of all hosts and classes.
    pub rate_per_s: f64,
}

/// The classes of `plan`, if it has any. They may name some of `files`.
pub(super) fn classes(
    plan: &NetworkPlan,
    fabric: &Fabric,
    files: &Files,
) -> Result<Option<Classes>, PlanError> {
    if plan.classes.is_empty() {
        return Ok(None);
    }
    check(plan)?;
    let mut each = Vec::new();
    let mut rates = Vec::new();
    for (index, class) in plan.classes.iter().enumerate() {
        let alone = NetworkPlan {
            load: plan.load * class.load_share,
            messages: Some(class.messages.clone()),
            traffic: class.traffic.clone(),
            classes: Vec::new(),
            ..plan.clone()
        };
        let of_class = |fault: PlanError| fault.hint(format!("in the class `{}`", class.name));
        let sizes = scenario::sizes(&alone, files, None).map_err(of_class)?;
        let found = scenario::demand(&alone, fabric, &sizes, files).map_err(of_class)?;
        let (Demand::Open(mut open), rate, senders) = found else {
            return Err(PlanError::text(format!("the class `{}` has no load", class.name))
                .hint("use the patterns all_to_all, permutation, many_to_few, skewed and rpc"));
        };
        open.class = index as u16;
        rates.push(rate * f64::from(senders));
        each.push(*open);
    }
    let rate_per_s: f64 = rates.iter().sum();
    let sizes = mixed(&each, &rates)?;
    Ok(Some(Classes { each, sizes, rate_per_s }))
}

fn check(plan: &NetworkPlan) -> Result<(), PlanError> {
    if plan.classes.len() > CLASSES_MAX {
        let must = format!("1 to {CLASSES_MAX} classes");
        return Err(PlanError::field("classes", plan.classes.len(), &must));
    }
    let beside = [
        ("messages", plan.messages.is_some()),
        ("traffic", plan.traffic != TrafficPlan::default()),
        ("phases", !plan.phases.is_empty()),
    ];
    if let Some((key, _)) = beside.iter().find(|(_, is_set)| *is_set) {
        return Err(PlanError::text(format!("`{key}` is set beside `classes`"))
            .hint("each class has its own `messages` and `traffic`"));
    }
    let mut names = BTreeSet::new();
    for class in &plan.classes {
        let name = &class.name;
        if name.is_empty() || name.contains('"') || !names.insert(name) {
            return Err(PlanError::field("classes.name", format!("`{name}`"), "a name of its own")
                .hint("objectives write it in quotes: `p99_slowdown <= 4 for \"search\"`"));
        }
        if !(class.load_share > 0.0 && class.load_share <= 1.0) {
            let field = format!("classes.{name}.load_share");
            return Err(PlanError::field(field, class.load_share, "above 0, at most 1"));
        }
        if class.traffic.arriving().is_none() {
            return Err(PlanError::text(format!("the class `{name}` has no load"))
                .hint("use the patterns all_to_all, permutation, many_to_few, skewed and rpc"));
        }
    }
    let total: f64 = plan.classes.iter().map(|class| class.load_share).sum();
    if (total - 1.0).abs() > 1e-6 {
        let each: Vec<String> = plan
            .classes
            .iter()
            .map(|class| format!("{} {}", class.name, class.load_share))
            .collect();
        return Err(PlanError::text(format!("the shares of `classes` add up to {total}, not 1"))
            .hint(format!("they are: {}", each.join(", "))));
    }
    let asking = plan.classes.iter().filter(|class| class.traffic.asks()).count();
    if asking > 0 && asking < plan.classes.len() {
        return Err(PlanError::text("some of `classes` ask and others send one way")
            .hint("give all of them the pattern rpc, or none"));
    }
    Ok(())
}

/// The sizes of messages of all classes together, of which each sends so many a second.
fn mixed(classes: &[OpenLoop], rates: &[f64]) -> Result<Sizes, PlanError> {
    let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
    let total: f64 = rates.iter().sum();
    for (open, rate) in classes.iter().zip(rates) {
        for (bytes, share) in open.sizes.steps() {
            *shares.entry(bytes).or_default() += share * rate / total;
        }
    }
    let mut sum = 0.0;
    let mut rows: Vec<(u32, f64)> = Vec::new();
    for (bytes, share) in shares {
        sum += share;
        rows.push((bytes, sum.min(1.0)));
    }
    // What rounding left.
    if let Some(last) = rows.last_mut() {
        last.1 = 1.0;
    }
    Sizes::new(&rows).map_err(|error| PlanError::text(format!("`classes`: {error}")))
}

/// What messages of one class experienced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Its name.
    pub name: String,
    /// Latency and slowdown.
    #[serde(flatten)]
    pub summary: NetSummary,
}

/// Records messages by class in one replication.
#[derive(Clone, Debug)]
pub(super) struct ByClass {
    latency_ns: Vec<Histogram>,
    slowdown: Vec<Histogram>,
}

impl ByClass {
    /// Of so many classes.
    pub(super) fn new(classes: usize) -> Self {
        ByClass {
            latency_ns: vec![Histogram::new(); classes],
            slowdown: vec![Histogram::new(); classes],
        }
    }

    /// How many classes there are.
    pub(super) fn len(&self) -> usize {
        self.latency_ns.len()
    }

    /// Records a message that counts, whose least time is `least`.
    pub(super) fn record(&mut self, done: &Done, least: Ps) {
        let class = usize::from(done.class);
        let time = done.at - done.submitted_at;
        if let (Some(latency), Some(slowdown)) =
            (self.latency_ns.get_mut(class), self.slowdown.get_mut(class))
        {
            latency.record(time / cavy_lab::net::PS_PER_NS);
            slowdown.record((time as f64 / least.max(1) as f64 / SLOWDOWN_UNIT).round() as u64);
        }
    }
}

/// What replications say of the classes called `names`.
pub(super) fn results(names: &[String], runs: &[Replication]) -> Vec<ClassResult> {
    let of = |(class, name): (usize, &String)| {
        let latency = runs.iter().map(|run| run.by_class.latency_ns[class].clone()).collect();
        let slowdown = runs.iter().map(|run| run.by_class.slowdown[class].clone()).collect();
        let (latency, slowdown) =
            (Pooled::new(latency, 1e-3), Pooled::new(slowdown, SLOWDOWN_UNIT));
        let summary =
            Summary::new(latency.count(), latency.mean(), None, |p, quantity| match quantity {
                Quantity::Us => latency.quantile(p.ratio()),
                Quantity::Slowdown => slowdown.quantile(p.ratio()),
            });
        let summary = NetSummary { summary, ..NetSummary::default() };
        ClassResult { name: name.clone(), summary }
    };
    names.iter().enumerate().map(of).collect()
}
