//! What every plan has, whatever it is about.

use super::PlanError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Keys of [`Frame`], in the order in which plans have them.
pub const KEYS: [&str; 10] = [
    "kind",
    "world",
    "title",
    "summary",
    "baseline",
    "objectives",
    "sweep",
    "run",
    "variants",
    "quick",
];

/// Keys of [`Run`]. A kind may have further keys of its own in the same table.
pub const RUN_KEYS: [&str; 4] = ["replications", "seed", "precision_ratio", "capacity_step"];

/// The keys that all plans share. The others belong to the kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// What the plan is about; `cavy list` names the kinds.
    pub kind: String,
    /// Where it runs; `--set world=lab` runs what is live in the lab. Default: `lab`.
    #[serde(default, skip_serializing_if = "World::is_lab")]
    pub world: World,
    /// Headline of the report.
    pub title: String,
    /// One or two sentences under the headline.
    #[serde(default)]
    pub summary: String,
    /// Label of the contestant that the others are compared with. Default: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// What is good enough, such as `p99_slowdown <= 4`, `p99_us <= 500 for "get"` or `stable`. For
    /// each the last value of the searched axis, such as the highest load, that every contestant
    /// sustains is found. Default: nothing is searched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<String>,
    /// What to vary: a key of this plan, such as `load` or `policies.darc.window`, and its values.
    /// The searched axis is horizontal in plots if it is varied, else the first key in alphabetical
    /// order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, Sweep>,
    /// How much to simulate.
    #[serde(default)]
    pub run: Run,
    /// The same plan with other values: for each variant the keys that differ. All are run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>")]
    pub variants: BTreeMap<String, Table>,
    /// Values that replace others under `--quick`, by key.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub quick: Table,
}

/// The world that a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum World {
    /// Virtual time, by `cavy run`.
    #[default]
    Lab,
    /// This machine's own threads and network, by `cavy live study --plan` and `cavy live tcp study
    /// --plan`, for plans that have a live study.
    Live,
}

impl World {
    /// Is it the one that plans have without saying so?
    pub fn is_lab(&self) -> bool {
        *self == World::Lab
    }
}

/// How much to simulate. A kind says beside these keys how long one replication is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// Independent replications of each point, 1 to 10000. Default: by kind, below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replications: Option<u32>,
    /// Root of all random streams.
    pub seed: u64,
    /// Replicate until every percentile's 95 % interval is within this ratio of it, 0.05 for 5 %.
    /// Default: off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision_ratio: Option<f64>,
    /// Bisect the searched axis to this distance. Default: by kind, below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_step: Option<f64>,
}

impl Default for Run {
    fn default() -> Self {
        Run { replications: None, seed: 1, precision_ratio: None, capacity_step: None }
    }
}

impl Run {
    /// Are the numbers in their ranges?
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        if let Some(replications) = self.replications
            && !(1..=10_000).contains(&replications)
        {
            return Err(PlanError::field("run.replications", replications, "1 to 10000"));
        }
        if let Some(precision) = self.precision_ratio
            && !(precision > 0.0 && precision < 1.0)
        {
            return Err(PlanError::field("run.precision_ratio", precision, "between 0 and 1")
                .hint("0.05 asks for intervals within 5 % of the value"));
        }
        if let Some(step) = self.capacity_step
            && !(step > 0.0 && step.is_finite())
        {
            return Err(PlanError::field("run.capacity_step", step, "a distance above 0"));
        }
        Ok(())
    }
}

/// Values of a swept key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a list of values or { from = 0.1, to = 0.9, step = 0.1 }")]
pub enum Sweep {
    /// These.
    Values(#[schemars(with = "Vec<serde_json::Value>")] Vec<Value>),
    /// From, to, in equal steps, both ends included.
    Range {
        /// First value.
        from: f64,
        /// Last value.
        to: f64,
        /// Distance between values.
        step: f64,
    },
}

impl Sweep {
    /// The values, in order; an error when the range is not one or too long.
    pub fn values(&self, key: &str) -> Result<Vec<Value>, PlanError> {
        const MOST: usize = 10_000;
        match self {
            Sweep::Values(values) if values.is_empty() => {
                Err(PlanError::field(format!("sweep.{key}"), "empty", "a list of values"))
            }
            Sweep::Values(values) => Ok(values.clone()),
            Sweep::Range { from, to, step } => {
                let finite = from.is_finite() && to.is_finite() && step.is_finite();
                if !finite || *step <= 0.0 || to < from {
                    let value = format!("{from} to {to} by {step}");
                    let must = "a rising range with a step above 0";
                    return Err(PlanError::field(format!("sweep.{key}"), value, must));
                }
                let steps = ((to - from) / step + 1e-9).floor();
                if steps >= MOST as f64 {
                    let must = "a range of at most 10000 values";
                    let value = format!("a range of {steps:e} steps");
                    return Err(PlanError::field(format!("sweep.{key}"), value, must));
                }
                let count = steps as usize + 1;
                // Rounded, so that 0.05 * 3 reads 0.15.
                let value = |i: usize| ((from + step * i as f64) * 1e9).round() / 1e9;
                Ok((0..count).map(|i| Value::Float(value(i))).collect())
            }
        }
    }
}
