//! Plans: what a user wants to know, as a TOML file.
//!
//! A plan names a workload, the policies to compare, what to vary and what is good enough. The same
//! structs read the file, check it, generate the JSON schema and describe the project's own figures,
//! which are plans like any other.

pub mod build;
pub mod error;
pub mod objective;
pub mod read;

pub use error::PlanError;
pub use objective::Objective;
pub use read::{AnyPlan, Loaded, load, load_text};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Headline of the report.
    pub title: String,
    /// One or two sentences under the headline.
    #[serde(default)]
    pub summary: String,
    /// Workers: cores, threads or slots that run one request each. 1 to 256.
    pub workers: u16,
    /// Offered load as a ratio of what the workers can do: arrival rate times mean service time over
    /// the number of workers. Above 1 the plan runs and says `unstable`.
    #[serde(default = "default_load")]
    pub load: f64,
    /// Network round trip in microseconds, added to every latency.
    #[serde(default)]
    pub round_trip_us: f64,
    /// Requests that may wait in each queue; more are dropped.
    #[serde(default = "default_queue_limit")]
    pub queue_limit: u32,
    /// The types of requests.
    #[serde(default)]
    pub types: Vec<TypePlan>,
    /// How requests arrive.
    #[serde(default)]
    pub arrivals: ArrivalsPlan,
    /// A recorded trace of whole requests instead of `types` and `arrivals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TracePlan>,
    /// A workload that changes over time: each phase overrides shares and service times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhasePlan>,
    /// Share of requests whose type the classifier draws at random.
    #[serde(default)]
    pub mislabel_ratio: f64,
    /// The policies to compare.
    pub policies: Vec<PolicyPlan>,
    /// Label of the policy the others are compared with; the first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// What to vary: a key of this plan, such as `load` or `policies.darc.window`, and its values.
    /// The first key (in alphabetical order, `load` before all others) is the horizontal axis.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, SweepPlan>,
    /// What is good enough, such as `p999_slowdown <= 20` or `p99_us <= 500 for "get"`. For each the
    /// highest load that every policy sustains is found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<String>,
    /// How much to simulate.
    #[serde(default)]
    pub run: RunPlan,
    /// The same plan with other values: for each variant the keys that differ. All are run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>")]
    pub variants: BTreeMap<String, toml::Table>,
    /// Values that replace others under `--quick`, by key.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub quick: toml::Table,
}

fn default_load() -> f64 {
    0.8
}

fn default_queue_limit() -> u32 {
    4096
}

/// One type of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypePlan {
    /// Its name.
    pub name: String,
    /// Its share of all requests; the shares add up to 1.
    pub share: f64,
    /// How long a worker is busy with it.
    pub service: ServicePlan,
}

/// A distribution of service times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "dist",
    rename_all = "snake_case",
    deny_unknown_fields,
    expecting = "a distribution such as { dist = \"exponential\", mean_us = 10 }"
)]
pub enum ServicePlan {
    /// Always the same.
    Constant {
        /// The time.
        us: f64,
    },
    /// Memoryless.
    Exponential {
        /// Mean.
        mean_us: f64,
    },
    /// The logarithm is normal.
    Lognormal {
        /// Mean of the time itself.
        mean_us: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// One of two values.
    Bimodal {
        /// The short one.
        short_us: f64,
        /// The long one.
        long_us: f64,
        /// Share of the long one.
        long_ratio: f64,
    },
    /// A power law.
    Pareto {
        /// Mean of the law before it is cut off at `max_us`.
        mean_us: f64,
        /// Tail index, above 1; the smaller the heavier the tail.
        shape: f64,
        /// Longer times do not occur.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_us: Option<f64>,
    },
    /// Anything between two values.
    Uniform {
        /// The least.
        low_us: f64,
        /// The most.
        high_us: f64,
    },
    /// Weibull.
    Weibull {
        /// Mean.
        mean_us: f64,
        /// Shape; 1 is exponential, less has a heavier tail.
        shape: f64,
    },
    /// Measured times, drawn with replacement from a CSV file.
    Trace {
        /// The file, relative to the plan.
        file: String,
        /// Name of the column.
        column: String,
        /// Unit of the column.
        unit: Unit,
    },
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl Unit {
    /// Nanoseconds in one of it.
    pub fn ns(self) -> f64 {
        match self {
            Unit::Ns => 1.0,
            Unit::Us => 1e3,
            Unit::Ms => 1e6,
            Unit::S => 1e9,
        }
    }
}

/// How requests arrive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "process",
    rename_all = "snake_case",
    deny_unknown_fields,
    expecting = "a process such as { process = \"poisson\" }"
)]
pub enum ArrivalsPlan {
    /// Independently of each other, as from many users.
    #[default]
    Poisson,
    /// At equal distances.
    Constant,
    /// Poisson at a rate that switches between bursts and lulls (MMPP).
    Bursty {
        /// Rate in a burst as a multiple of the mean rate, above 1.
        peak_ratio: f64,
        /// Share of time spent in bursts; `peak_ratio * burst_share` is at most 1.
        burst_share: f64,
        /// Mean length of a burst in milliseconds.
        mean_burst_ms: f64,
    },
}

/// A trace of whole requests in a CSV file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TracePlan {
    /// The file, relative to the plan.
    pub file: String,
    /// Column of arrival times, ascending.
    pub time: String,
    /// Column of type names.
    #[serde(rename = "type")]
    pub kind: String,
    /// Column of service times.
    pub service: String,
    /// Unit of both time columns.
    pub unit: Unit,
}

/// A stretch of time with its own mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhasePlan {
    /// How long it lasts, in milliseconds.
    pub duration_ms: f64,
    /// Offered load of this phase; the plan's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Shares by type name; a type not named has none.
    pub share: BTreeMap<String, f64>,
    /// Constant service times in microseconds by type name; a type not named keeps its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_us: BTreeMap<String, f64>,
}

/// The policies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyName {
    /// One queue, any worker.
    CFcfs,
    /// A queue per worker.
    DFcfs,
    /// A queue per worker; idle workers steal (Shenango).
    Stealing,
    /// Types in the order of the plan, no preemption.
    FixedPriority,
    /// The type with the shortest measured mean first.
    Sjf,
    /// The earliest deadline first; needs `deadlines_us`.
    Edf,
    /// Cycle stealing: `short_workers` prefer the first type.
    Cscq,
    /// Time slices of `slice_us` with preemption (Shinjuku).
    TimeSharing,
    /// Every request at once, cores shared equally.
    ProcessorSharing,
    /// DARC: reserved workers that follow the measured mix.
    Darc,
    /// DARC with a reservation that is given: `reserved` or `groups`.
    DarcStatic,
}

/// A policy, what it costs, and its parameters. Parameters of other policies are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyPlan {
    /// Which.
    pub policy: PolicyName,
    /// Name in tables and plots; the policy's own when absent. Must differ from the others'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Extra worker time of every request, microseconds.
    #[serde(default)]
    pub per_request_us: f64,
    /// Serial dispatcher time of every request, microseconds.
    #[serde(default)]
    pub dispatch_us: f64,
    /// Extra service time of each type as a ratio, by type name: 0.2 makes it a fifth longer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_tax_ratio: BTreeMap<String, f64>,
    /// Worker time lost at each preemption, microseconds. `time_sharing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_us: Option<f64>,
    /// Extra worker time of a stolen request, microseconds. `stealing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_us: Option<f64>,
    /// Which queue a request joins. `d_fcfs`, `stealing`; round robin when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steering: Option<SteeringPlan>,
    /// Flows behind `steering = "flows"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u16>,
    /// Length of a slice, microseconds. `time_sharing`; 5 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_us: Option<f64>,
    /// One queue, or one per type. `time_sharing`; single when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<QueuesPlan>,
    /// Relative deadlines in microseconds by type name. `edf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines_us: Option<BTreeMap<String, f64>>,
    /// Workers that prefer the first type. `cscq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_workers: Option<u16>,
    /// Requests at once. `processor_sharing`; 4096 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u16>,
    /// Workers reserved to the first type. `darc_static`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u16>,
    /// Groups of types, shortest first, with the workers reserved to them; the last group has all
    /// that remain. `darc_static`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupPlan>>,
    /// Relative distance within which types share a group. `darc`; 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// Completions a profiling window needs. `darc`; 50 000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Queueing delay, in multiples of a type's mean, that calls for an evaluation. `darc`; 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_factor: Option<u64>,
    /// Relative change of demand that calls for a new reservation. `darc`; 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_threshold: Option<f64>,
    /// Constant taken off measured worker time, microseconds. `darc`; 0.23.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction_us: Option<f64>,
    /// Start from the plan's means and shares instead of profiling first. `darc`; false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hinted: Option<bool>,
    /// Order within a group. `darc`; by type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_order: Option<GroupOrderPlan>,
    /// Estimator of mean service times. `darc`; window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimator: Option<EstimatorPlan>,
    /// Weight of the newest sample under `estimator = "weighted"`; 0.001.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimator_weight: Option<f64>,
    /// Share out workers by the whole time a request holds one. `darc`; false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_occupancy: Option<bool>,
    /// Judge a change by the window after the one in which it was noticed. `darc`; false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard_straddling: Option<bool>,
    /// Change only beyond so many standard errors. `darc`; off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_z: Option<f64>,
    /// How many workers each group gets. `darc`; demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizing: Option<SizingPlan>,
}

/// Which queue a request joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SteeringPlan {
    /// In turn.
    RoundRobin,
    /// At random.
    Random,
    /// By flow, with `flows` flows.
    Flows,
}

/// Queues of a time-sharing server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueuesPlan {
    /// One for all types.
    Single,
    /// One for each type, with an objective of ten times its mean service time.
    PerType,
}

/// Types that share reserved workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupPlan {
    /// Names of its types, the shortest first.
    pub types: Vec<String>,
    /// Workers reserved to them.
    pub workers: u16,
}

/// Order within a group of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupOrderPlan {
    /// The shorter type first.
    ByType,
    /// First come first served.
    Fcfs,
}

/// Estimators of mean service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EstimatorPlan {
    /// Sums over the window.
    Window,
    /// Exponentially weighted.
    Weighted,
    /// The artifact's truncating integer mean: a defect, for comparison only.
    Truncated,
}

/// Rules that size reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SizingPlan {
    /// By share of the work.
    Demand,
    /// By measured load and an objective.
    LoadAware,
    /// By rehearsing the last requests.
    Rehearsed,
}

/// Values of a swept key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a list of values or { from = 0.1, to = 0.9, step = 0.1 }")]
pub enum SweepPlan {
    /// These.
    Values(#[schemars(with = "Vec<serde_json::Value>")] Vec<toml::Value>),
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

/// How much to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunPlan {
    /// Requests of each replication.
    pub requests: u64,
    /// Independent replications of each point.
    pub replications: u32,
    /// Root of all random streams.
    pub seed: u64,
    /// Replicate until every percentile's 95 % interval is within this ratio of it, 0.05 for 5 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision_ratio: Option<f64>,
    /// Requests at most for one point when `precision_ratio` is set.
    pub requests_max: u64,
    /// Record latency in bins of this many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline_ms: Option<f64>,
    /// Bisect the capacity to this distance in load.
    pub capacity_step: f64,
}

impl Default for RunPlan {
    fn default() -> Self {
        RunPlan {
            requests: 400_000,
            replications: 10,
            seed: 1,
            precision_ratio: None,
            requests_max: 1_000_000_000,
            timeline_ms: None,
            capacity_step: 0.005,
        }
    }
}

impl PolicyPlan {
    /// A policy without costs and with default parameters.
    pub fn plain(policy: PolicyName) -> Self {
        PolicyPlan {
            policy,
            label: None,
            per_request_us: 0.0,
            dispatch_us: 0.0,
            service_tax_ratio: BTreeMap::new(),
            preemption_us: None,
            steal_us: None,
            steering: None,
            flows: None,
            slice_us: None,
            queues: None,
            deadlines_us: None,
            short_workers: None,
            slots: None,
            reserved: None,
            groups: None,
            delta: None,
            window: None,
            delay_factor: None,
            change_threshold: None,
            correction_us: None,
            hinted: None,
            group_order: None,
            estimator: None,
            estimator_weight: None,
            by_occupancy: None,
            discard_straddling: None,
            guard_z: None,
            sizing: None,
        }
    }

    /// Name in tables and plots.
    pub fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let name = match self.policy {
            PolicyName::CFcfs => "c-FCFS",
            PolicyName::DFcfs => "d-FCFS",
            PolicyName::Stealing => "stealing",
            PolicyName::FixedPriority => "fixed priority",
            PolicyName::Sjf => "SJF",
            PolicyName::Edf => "EDF",
            PolicyName::Cscq => "CSCQ",
            PolicyName::TimeSharing => "time sharing",
            PolicyName::ProcessorSharing => "processor sharing",
            PolicyName::Darc => "DARC",
            PolicyName::DarcStatic => "DARC-static",
        };
        name.to_string()
    }
}

/// The JSON schema of a plan, from the structs that read it.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Plan).to_value()
}
