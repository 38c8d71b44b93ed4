//! What an experiment can be about: one trait for each kind of plan, one for its results.
//!
//! Reading, sweeping, running, keeping, resuming and bisecting are the same whatever is simulated;
//! [`Plan`](crate::plan::Plan), a server, and [`NetworkPlan`](crate::network::NetworkPlan), a network,
//! say here what differs.

use crate::experiment::Point;
use crate::plan::{Loaded, PlanError, SweepPlan};
use crate::point::{Manner, RunError};
use crate::store::Kept;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::path::Path;
use toml::{Table, Value};

/// A kind of plan.
pub trait Subject: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What a point comes to.
    type Outcome: Outcome;
    /// What may be good enough.
    type Objective: Display + Send + Sync;

    /// What is varied.
    fn sweep(&self) -> &BTreeMap<String, SweepPlan>;
    /// The same plan with other values.
    fn variants(&self) -> &BTreeMap<String, Table>;
    /// Values under `--quick`.
    fn quick(&self) -> &Table;
    /// What is good enough, as written.
    fn objectives(&self) -> &[String];
    /// The label that others are compared with, if the plan names it.
    fn baseline(&self) -> Option<&str>;
    /// How many are compared.
    fn contestants(&self) -> usize;
    /// A plan for each of those that are compared, under its label, with nothing left to vary.
    fn split(&self) -> Vec<(String, Self)>;
    /// Files with measured data that decide results.
    fn files(&self) -> Vec<&str>;
    /// Clears what does not change results: names and texts.
    fn forget_names(&mut self);
    /// Offered load.
    fn load(&self) -> f64;
    /// Sets the offered load.
    fn set_load(&mut self, load: f64);
    /// Distance in load to which capacities are bisected.
    fn capacity_step(&self) -> f64;
    /// Does load mean anything, so that a capacity can be searched?
    fn has_capacity(&self) -> bool;
    /// Checks a plan as a whole.
    fn check(loaded: &Loaded<Self>) -> Result<(), PlanError>;
    /// What one point costs. Its files are relative to `folder`.
    fn effort(&self, folder: &Path) -> Effort;
    /// Runs a point.
    fn run(point: &Point<Self>, folder: &Path, manner: &Manner) -> Result<Self::Outcome, RunError>;
    /// Reads an objective.
    fn objective(text: &str) -> Result<Self::Objective, PlanError>;
    /// The value that an objective bounds, and the bound; `None` with too few samples.
    fn bounded(outcome: &Self::Outcome, objective: &Self::Objective) -> Option<(f64, f64)>;
}

/// What a point costs, about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Requests or messages, over all replications.
    pub requests: f64,
    /// Seconds of one core.
    pub core_s: f64,
    /// Memory while it runs.
    pub memory_bytes: f64,
}

/// What a point comes to.
pub trait Outcome: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The point's key.
    fn key(&self) -> &str;
    /// Variant of the plan.
    fn variant(&self) -> &str;
    /// Label of what was run.
    fn label(&self) -> &str;
    /// Offered load.
    fn load(&self) -> f64;
    /// That load as a rate, requests or messages per second.
    fn rate_per_s(&self) -> f64;
    /// Does it keep up?
    fn stable(&self) -> bool;
    /// Why not.
    fn note(&self) -> &str;
    /// Requests or messages simulated.
    fn requests(&self) -> u64;
    /// Fingerprint of all replications.
    fn digest_value(&self) -> u64;
    /// Gives it the names by which another point of the same key goes.
    fn rename(&mut self, variant: &str, label: &str, settings: BTreeMap<String, serde_json::Value>);
    /// For the store.
    fn keep(self) -> Kept;
    /// From the store; `None` if it is of another kind.
    fn recall(kept: &Kept) -> Option<&Self>;
}

/// Swept values as results and reports have them.
pub fn settings(axes: &[(String, Value)]) -> BTreeMap<String, serde_json::Value> {
    let json = |value: &Value| serde_json::to_value(value).unwrap_or_default();
    axes.iter().map(|(key, value)| (key.clone(), json(value))).collect()
}
