//! Plans for a server as they are written.

pub use crate::moment::Unit;
pub use crate::policy::*;
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Requests of several types on the workers of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerPlan {
    /// Workers: cores, threads or slots that run one request each, 1 to 4096 in all. A number, or
    /// where they are not equally fast up to 16 groups of them, the lowest numbers first, such as
    /// `[{ count = 8 }, { count = 8, speed_ratio = 0.6 }]`.
    pub workers: WorkersPlan,
    /// Offered load as a ratio of what the workers can do: arrival rate times mean service time
    /// over the number of workers, or over the sum of their speeds. Above 1 the plan runs and says
    /// `unstable`. Objectives find the highest load that meets them. Default: 0.8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Requests that arrive in a second, instead of `load`. Objectives find the fewest workers that
    /// meet them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Clients that wait for their answers, instead of `load`, `rate_per_s` and `arrivals`: a
    /// closed loop. Objectives find the most clients that meet them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientsPlan>,
    /// Network round trip in microseconds, added to every latency, 0 to 3.6e9.
    #[serde(default)]
    pub round_trip_us: f64,
    /// Requests that may wait in each queue, at least 1; more are dropped.
    #[serde(default = "default_queue_limit")]
    pub queue_limit: u32,
    /// The types of requests, 1 to 63. Their order matters: `fixed_priority` serves them so, and
    /// the first is the short one of `cscq` and `reserved`. Not with `trace`.
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
    /// Share of requests whose type the classifier draws at random, 0 to 1. Not with `trace`.
    #[serde(default)]
    pub mislabel_ratio: f64,
    /// The policies to compare.
    pub policies: Vec<Policy>,
    /// How long a replication is.
    #[serde(default)]
    pub run: ServerRun,
}

/// The load of a plan that says neither load nor rate.
pub const LOAD: f64 = 0.8;

fn default_queue_limit() -> u32 {
    4096
}

/// The workers of a server.
// Groups come first, so that the reference describes their keys.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WorkersPlan {
    /// Groups, the lowest numbers first.
    Groups(Vec<WorkerGroupPlan>),
    /// So many, all equally fast.
    Count(u16),
}

/// Workers that are equally fast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerGroupPlan {
    /// How many there are, at least 1.
    pub count: u16,
    /// How many times as fast as in the service times of `types` they are, 0.001 to 1000: at 0.5
    /// all that a worker does takes it twice as long.
    #[serde(default = "full_speed")]
    pub speed_ratio: f64,
}

fn full_speed() -> f64 {
    1.0
}

impl WorkersPlan {
    /// How many there are.
    pub fn count(&self) -> u16 {
        match self {
            WorkersPlan::Count(count) => *count,
            WorkersPlan::Groups(groups) => {
                groups.iter().fold(0, |sum, group| sum.saturating_add(group.count))
            }
        }
    }

    /// Are some faster than others, or all faster or slower than service times say?
    pub fn has_speeds(&self) -> bool {
        match self {
            WorkersPlan::Count(_) => false,
            WorkersPlan::Groups(groups) => groups.iter().any(|group| group.speed_ratio != 1.0),
        }
    }
}

impl<'de> Deserialize<'de> for WorkersPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WorkersVisitor)
    }
}

/// Reads either form; a derived reader would not say what is wrong within a group.
struct WorkersVisitor;

impl<'de> Visitor<'de> for WorkersVisitor {
    type Value = WorkersPlan;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of workers, or groups such as [{ count = 8, speed_ratio = 0.6 }]")
    }
    fn visit_i64<E: de::Error>(self, count: i64) -> Result<WorkersPlan, E> {
        let wrong = || E::invalid_value(Unexpected::Signed(count), &self);
        u16::try_from(count).map(WorkersPlan::Count).map_err(|_| wrong())
    }
    fn visit_u64<E: de::Error>(self, count: u64) -> Result<WorkersPlan, E> {
        let wrong = || E::invalid_value(Unexpected::Unsigned(count), &self);
        u16::try_from(count).map(WorkersPlan::Count).map_err(|_| wrong())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, groups: A) -> Result<WorkersPlan, A::Error> {
        Deserialize::deserialize(SeqAccessDeserializer::new(groups)).map(WorkersPlan::Groups)
    }
}

/// Clients that wait for their answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientsPlan {
    /// Clients, 1 to 1 000 000, that send a request, wait for the answer, think, and send the next.
    /// Of those that find `queue_limit` requests waiting, the request is dropped, and they go on
    /// as if they were answered.
    pub population: u32,
    /// How long a client thinks between an answer and its next request. Default: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<ServicePlan>,
}

/// One type of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypePlan {
    /// Its name, different from the others'.
    pub name: String,
    /// Its share of all requests, from 0; the shares add up to 1 within 1e-6.
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
        /// Standard deviation of the logarithm, 0 to 8.
        sigma: f64,
    },
    /// One of two values.
    Bimodal {
        /// The short one.
        short_us: f64,
        /// The long one, not below `short_us`.
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
        /// Longer times do not occur, which lowers the mean. Default: no limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_us: Option<f64>,
    },
    /// Anything between two values.
    Uniform {
        /// The least.
        low_us: f64,
        /// The most, not below `low_us`.
        high_us: f64,
    },
    /// Weibull.
    Weibull {
        /// Mean.
        mean_us: f64,
        /// Shape, at least 0.1; 1 is exponential, less has a heavier tail.
        shape: f64,
    },
    /// Gamma.
    Gamma {
        /// Mean.
        mean_us: f64,
        /// Shape, 0.1 to 1000; 1 is exponential, less varies more. The variance is the squared mean
        /// over the shape.
        shape: f64,
    },
    /// Erlang: so many exponential stages one after the other.
    Erlang {
        /// Mean of all stages together.
        mean_us: f64,
        /// Stages, 1 to 1000; 1 is exponential, many are nearly constant.
        stages: u16,
    },
    /// Hyperexponential: exponential about a short or a long mean, each of which brings half of the
    /// work.
    Hyperexponential {
        /// Mean of both together.
        mean_us: f64,
        /// Variance over the squared mean, 1 to 10 000; 1 is exponential.
        squared_cv: f64,
    },
    /// Measured times, drawn with replacement from a CSV file.
    Trace {
        /// The file, relative to the plan; its first line names the columns.
        file: String,
        /// Name of the column; its values are at least 1 ns.
        column: String,
        /// Unit of the column.
        unit: Unit,
    },
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
        /// Share of time spent in bursts, 1e-6 to 1; `peak_ratio * burst_share` is at most 1.
        burst_share: f64,
        /// Mean length of a burst in milliseconds, at most 1e9, and so long that the rate switches
        /// at most 1000 times for each request.
        mean_burst_ms: f64,
    },
}

/// A trace of whole requests in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TracePlan {
    /// The file, relative to the plan; it has at least 100 requests.
    pub file: String,
    /// How the file is written. Default: `csv`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub format: TraceFormat,
    /// Which moment of a request its time is; CSV has arrivals only. Default: `arrival`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stamp: Stamp,
    /// Column or JSON key of the times: numbers in `unit`, or moments such as
    /// 2026-11-23T19:54:46.5Z. In CSV they ascend. An access log has its own.
    #[serde(default)]
    pub time: String,
    /// Column or JSON key of type names, at most 63 different ones. Of an access log `path` (the
    /// first part of it), `method` or `status`; `path` when absent.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Column or JSON key of service times, at least 1 ns. Of an access log it is what stands last
    /// in each line.
    #[serde(default)]
    pub service: String,
    /// Unit of times that are numbers.
    pub unit: Unit,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceFormat {
    /// A table whose first line names the columns, which a comma, semicolon or tab separates.
    #[default]
    Csv,
    /// Access logs of nginx and Apache (common or combined), with how long the request took at the
    /// end of each line.
    Combined,
    /// A JSON object on each line; `http.route` is the key `route` in the object `http`.
    Json,
}

/// Which moment of a request a log has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stamp {
    /// When it came, as Apache's `%t`.
    #[default]
    Arrival,
    /// When it was answered, as nginx's `$time_local`: the service time is taken off.
    End,
}

/// A stretch of time with its own mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhasePlan {
    /// How long it lasts, in milliseconds.
    pub duration_ms: f64,
    /// Offered load, relative to the mean service time of this phase. Default: the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Shares by type name, which add up to 1; a type not named does not occur.
    pub share: BTreeMap<String, f64>,
    /// Constant service times in microseconds by type name; a type not named keeps its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_us: BTreeMap<String, f64>,
}

/// How long a replication is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerRun {
    /// Requests of each replication, at least 100. A 99.9th percentile needs 100 000 in all; a type
    /// with share s needs `1.2e5 / s`.
    pub requests: u64,
    /// Requests at most for one point when `precision_ratio` is set.
    pub requests_max: u64,
    /// Record latency in bins of this many milliseconds, in the first replication. Default: off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline_ms: Option<f64>,
}

impl Default for ServerRun {
    fn default() -> Self {
        ServerRun { requests: 400_000, requests_max: 1_000_000_000, timeline_ms: None }
    }
}
