//! A server as the subject of an experiment: [`Plan`] and [`PointResult`].

use crate::experiment::Point;
use crate::plan::{Loaded, Objective, Plan, PlanError, PolicyName, ServicePlan, SweepPlan, build};
use crate::point::{self, Manner, PointResult, RunError};
use crate::store::Kept;
use crate::subject::{Effort, Outcome, Subject};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Table;

impl Subject for Plan {
    type Outcome = PointResult;
    type Objective = Objective;

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
        self.policies.len()
    }
    fn split(&self) -> Vec<(String, Plan)> {
        let alone = |policy| {
            let policies = vec![policy];
            let (sweep, objectives) = (BTreeMap::new(), Vec::new());
            Plan { policies, sweep, objectives, ..self.clone() }
        };
        self.policies.iter().map(|policy| (policy.label(), alone(policy.clone()))).collect()
    }
    fn files(&self) -> Vec<&str> {
        let of_types = self.types.iter().filter_map(|kind| match &kind.service {
            ServicePlan::Trace { file, .. } => Some(file.as_str()),
            _ => None,
        });
        self.trace.iter().map(|trace| trace.file.as_str()).chain(of_types).collect()
    }
    fn forget_names(&mut self) {
        self.title.clear();
        self.summary.clear();
        self.baseline = None;
        for policy in &mut self.policies {
            policy.label = None;
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
        self.trace.is_none() && self.phases.is_empty()
    }
    fn check(loaded: &Loaded) -> Result<(), PlanError> {
        build::check(loaded)
    }
    fn effort(&self, _: &Path) -> Effort {
        let requests = self.run.requests as f64 * f64::from(self.run.replications);
        // Histograms of six slices a type, for the replications of one point.
        let histograms = 6.0 * self.types.len().max(1) as f64 * 262_144.0;
        Effort {
            requests,
            core_s: requests * request_ns(self) / 1e9,
            memory_bytes: histograms * f64::from(self.run.replications.min(16)),
        }
    }
    fn run(point: &Point, folder: &Path, manner: &Manner) -> Result<PointResult, RunError> {
        point::run(point, folder, manner)
    }
    fn objective(text: &str) -> Result<Objective, PlanError> {
        Objective::parse(text)
    }
    fn bounded(outcome: &PointResult, objective: &Objective) -> Option<(f64, f64)> {
        Some((outcome.metric(objective)?.value, objective.limit))
    }
}

/// What a request costs on one core, within a factor of two on machines of this decade.
fn request_ns(plan: &Plan) -> f64 {
    let policy = &plan.policies[0];
    match policy.policy {
        PolicyName::TimeSharing => {
            // Each slice costs an expiry and a yield.
            let mean_us: f64 = plan.types.iter().map(|t| t.share * mean_us(&t.service)).sum();
            120.0 + 160.0 * mean_us / policy.slice_us.unwrap_or(5.0).max(0.01)
        }
        PolicyName::ProcessorSharing => 220.0,
        PolicyName::DFcfs | PolicyName::Stealing => 160.0,
        _ => 130.0,
    }
}

fn mean_us(service: &ServicePlan) -> f64 {
    use ServicePlan as S;
    match service {
        S::Constant { us } => *us,
        S::Exponential { mean_us }
        | S::Lognormal { mean_us, .. }
        | S::Pareto { mean_us, .. }
        | S::Weibull { mean_us, .. } => *mean_us,
        S::Bimodal { short_us, long_us, long_ratio } => {
            short_us * (1.0 - long_ratio) + long_us * long_ratio
        }
        S::Uniform { low_us, high_us } => (low_us + high_us) / 2.0,
        S::Trace { .. } => 100.0,
    }
}

impl Outcome for PointResult {
    fn key(&self) -> &str {
        &self.key
    }
    fn variant(&self) -> &str {
        &self.variant
    }
    fn label(&self) -> &str {
        &self.policy
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
        self.requests
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
        label.clone_into(&mut self.policy);
        self.settings = settings;
    }
    fn keep(self) -> Kept {
        Kept::Server(Box::new(self))
    }
    fn recall(kept: &Kept) -> Option<&Self> {
        match kept {
            Kept::Server(result) => Some(result),
            Kept::Network(_) => None,
        }
    }
}
