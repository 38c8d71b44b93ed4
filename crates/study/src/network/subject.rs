//! A network as the subject of an experiment: [`NetworkPlan`] and [`NetResult`].

use super::objective::NetObjective;
use super::plan::{NetworkPlan, Pattern};
use super::result::NetResult;
use super::{run, scenario};
use crate::experiment::{self, Point};
use crate::plan::{Loaded, PlanError, SweepPlan};
use crate::point::{Manner, RunError};
use crate::store::Kept;
use crate::subject::{Effort, Outcome, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::Table;

impl Subject for NetworkPlan {
    type Outcome = NetResult;
    type Objective = NetObjective;

    fn sweep(&self) -> &BTreeMap<String, SweepPlan> {
        &self.sweep
    }
    fn variants(&self) -> &BTreeMap<String, Table> {
        &self.variants
    }
    fn quick(&self) -> &Table {
        &self.quick
    }
    fn objectives(&self) -> &[String] {
        &self.objectives
    }
    fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }
    fn contestants(&self) -> usize {
        self.transports.len()
    }
    fn split(&self) -> Vec<(String, NetworkPlan)> {
        let alone = |transport| {
            let transports = vec![transport];
            let (sweep, objectives) = (BTreeMap::new(), Vec::new());
            NetworkPlan { transports, sweep, objectives, ..self.clone() }
        };
        let all = self.transports.iter();
        all.map(|transport| (transport.label(), alone(transport.clone()))).collect()
    }
    fn files(&self) -> Vec<&str> {
        let messages = self.messages.iter();
        messages.flat_map(|m| [m.cdf.as_deref(), m.trace.as_deref()]).flatten().collect()
    }
    fn forget_names(&mut self) {
        self.title.clear();
        self.summary.clear();
        self.baseline = None;
        for transport in &mut self.transports {
            transport.label = None;
        }
    }
    fn load(&self) -> f64 {
        self.load
    }
    fn set_load(&mut self, load: f64) {
        self.load = load;
    }
    fn capacity_step(&self) -> f64 {
        self.run.capacity_step
    }
    fn has_capacity(&self) -> bool {
        !matches!(self.traffic.pattern, Pattern::Incast | Pattern::Echo)
    }
    fn check(loaded: &Loaded<NetworkPlan>) -> Result<(), PlanError> {
        check(loaded).map_err(|error| error.in_file(&loaded.name))
    }
    fn effort(&self, folder: &Path) -> Effort {
        effort(self, folder)
    }
    fn run(
        point: &Point<NetworkPlan>,
        folder: &Path,
        manner: &Manner,
    ) -> Result<NetResult, RunError> {
        run::run(point, folder, manner)
    }
    fn objective(text: &str) -> Result<NetObjective, PlanError> {
        NetObjective::parse(text)
    }
    fn bounded(outcome: &NetResult, objective: &NetObjective) -> Option<(f64, f64)> {
        objective.bounded(outcome)
    }
}

/// Checks a plan as a whole: every transport builds, every sweep value fits, objectives parse.
fn check(loaded: &Loaded<NetworkPlan>) -> Result<(), PlanError> {
    let plan = &loaded.plan;
    check_labels(plan)?;
    check_run(plan)?;
    for text in &plan.objectives {
        NetObjective::parse(text)?;
        if !plan.has_capacity() {
            return Err(PlanError::text("`objectives` are set, but this pattern has no load")
                .hint("sweep `traffic.concurrent` instead, and read the goodput"));
        }
    }
    // Points that differ in nothing but the load build alike.
    let mut built = BTreeSet::new();
    for point in experiment::points(loaded)? {
        check_run(&point.plan)?;
        let facet: Vec<String> = point.facet().iter().map(|(k, v)| format!("{k}={v}")).collect();
        if built.insert((point.variant.clone(), point.policy.clone(), facet)) {
            scenario::scenario(&point.plan, &loaded.folder)?;
        }
    }
    Ok(())
}

fn check_run(plan: &NetworkPlan) -> Result<(), PlanError> {
    let run = &plan.run;
    if !(plan.load > 0.0 && plan.load <= 2.0) {
        return Err(PlanError::field("load", plan.load, "above 0, at most 2")
            .hint("0.8 means that messages, headers and grants fill 80 % of a host's link"));
    }
    if run.replications == 0 || run.replications > 10_000 {
        return Err(PlanError::field("run.replications", run.replications, "1 to 10000"));
    }
    if !(run.capacity_step > 0.0 && run.capacity_step < 1.0) {
        return Err(PlanError::field("run.capacity_step", run.capacity_step, "between 0 and 1"));
    }
    Ok(())
}

fn check_labels(plan: &NetworkPlan) -> Result<(), PlanError> {
    if plan.transports.is_empty() {
        return Err(PlanError::text("`transports` is empty; a plan compares at least one")
            .hint("add `[[transports]]` with `transport = \"homa\"`"));
    }
    let mut seen = BTreeSet::new();
    for transport in &plan.transports {
        if !seen.insert(transport.label()) {
            let message = format!("two transports are called `{}`", transport.label());
            return Err(PlanError::text(message).hint("give one of them a `label`"));
        }
    }
    if let Some(baseline) = &plan.baseline
        && !seen.contains(baseline)
    {
        let value = format!("`{baseline}`");
        return Err(PlanError::field("baseline", value, "the label of a transport")
            .hint(format!("there are: {}", seen.into_iter().collect::<Vec<_>>().join(", "))));
    }
    Ok(())
}

/// Seconds of one core for a packet to cross a link, transports included.
const HOP_S: f64 = 250e-9;
/// Memory of the histograms of one replication's bins, and of what is under way, per host.
const BINS_BYTES: f64 = 12.0 * 3.0 * 262_144.0;
const HOST_BYTES: f64 = 60e3;

fn effort(plan: &NetworkPlan, folder: &Path) -> Effort {
    // A file that has gone since the plan was checked is found when it is run.
    let Ok(scenario) = scenario::scenario(plan, folder) else { return Effort::default() };
    let replications = f64::from(plan.run.replications);
    let seconds = scenario.setup.duration.as_ns() as f64 / 1e9;
    let packets = |bytes: f64| (bytes / 1450.0).ceil() * 1.6;
    let messages = scenario.rate_per_s * f64::from(scenario.senders) * seconds;
    let mean: f64 = scenario.sizes.steps().map(|(size, p)| packets(f64::from(size)) * p).sum();
    let ways = if scenario.demand.asks() { 2.0 } else { 1.0 };
    let (messages, sent) = match &scenario.demand {
        scenario::Demand::Open(_) => (messages, messages * mean * ways),
        scenario::Demand::Phased(phases) => phases
            .iter()
            .map(|(open, length)| {
                let each = |(size, p): (u32, f64)| packets(f64::from(size)) * p;
                let mean: f64 = open.sizes.steps().map(each).sum();
                let seconds = length.as_ns() as f64 / 1e9;
                let count = open.rate_per_s * f64::from(scenario.senders) * seconds;
                (count, count * mean * ways)
            })
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        scenario::Demand::Incast(incast) => {
            let answers = scenario.host_bits_per_s as f64 * seconds / 8.0;
            let count = answers / f64::from(incast.answer_bytes);
            (count, count * (packets(f64::from(incast.answer_bytes)) + 1.0))
        }
        scenario::Demand::Echo { sizes, repeats, .. } => {
            let count = sizes.len() as f64 * f64::from(*repeats);
            (count, count * mean * ways)
        }
    };
    let alone: f64 =
        scenario.own_sizes.iter().map(|&size| 4.0 * ways * packets(f64::from(size))).sum();
    let hosts = f64::from(scenario.setup.network.topology.hosts());
    Effort {
        requests: messages * replications,
        core_s: (sent * replications + alone) * scenario.hops_mean * HOP_S,
        memory_bytes: (BINS_BYTES + hosts * HOST_BYTES) * replications.min(16.0),
    }
}

impl Outcome for NetResult {
    fn key(&self) -> &str {
        &self.key
    }
    fn variant(&self) -> &str {
        &self.variant
    }
    fn label(&self) -> &str {
        &self.transport
    }
    fn load(&self) -> f64 {
        self.load
    }
    fn rate_per_s(&self) -> f64 {
        self.rate_per_s
    }
    fn stable(&self) -> bool {
        self.stable
    }
    fn note(&self) -> &str {
        &self.note
    }
    fn requests(&self) -> u64 {
        self.messages
    }
    fn digest_value(&self) -> u64 {
        u64::from_str_radix(&self.digest, 16).unwrap_or(0)
    }
    fn rename(
        &mut self,
        variant: &str,
        label: &str,
        settings: BTreeMap<String, serde_json::Value>,
    ) {
        variant.clone_into(&mut self.variant);
        label.clone_into(&mut self.transport);
        self.settings = settings;
    }
    fn keep(self) -> Kept {
        Kept::Network(Box::new(self))
    }
    fn recall(kept: &Kept) -> Option<&Self> {
        match kept {
            Kept::Network(result) => Some(result),
            Kept::Server(_) => None,
        }
    }
}
