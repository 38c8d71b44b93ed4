//! What a point of a plan for services came to.

use super::plan::ServicesPlan;
use crate::Latency;
use cavy_study::experiment::Experiment;
use cavy_study::outcome::{Estimate, Outcome, Standing};
use serde::{Deserialize, Serialize};

/// A plan for services that was run.
pub type ServicesExperiment = Experiment<ServicesPlan>;
/// One point of it.
pub type ServicesResult = Outcome<Predicted>;

/// What a method predicted, and what was then true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Throughput of the unchanged system, requests a second.
    pub unchanged_per_s: Estimate,
    /// Throughput of the changed system: the truth.
    pub truth_per_s: Estimate,
    /// What the method says of it; `None` when it says nothing.
    pub predicted_per_s: Option<Estimate>,
    /// Predicted over true, less 1, in percent.
    pub error_percent: Option<Estimate>,
    /// True over unchanged, less 1, in percent.
    pub gain_percent: Estimate,
    /// Predicted over unchanged, less 1, in percent.
    pub predicted_gain_percent: Option<Estimate>,
    /// Throughput of the slowed system on the wall, where one was run.
    pub slowed_per_s: Option<Estimate>,
    /// Share of time for which all others stood, where they did.
    pub paused_ratio: Option<f64>,
    /// Mean length of a pause, milliseconds.
    pub pause_ms: Option<f64>,
    /// Latency of the changed system; `None` where it does not keep up, or that cannot be told.
    ///
    /// Results of before it was there are none: they are made again.
    #[serde(deserialize_with = "Option::deserialize")]
    pub truth: Option<Latency>,
    /// The same as predicted, by methods that freeze clients as well.
    pub predicted: Option<Latency>,
    /// Did the method time requests? If not, `predicted` is `None` however the changed system does.
    #[serde(default)]
    pub times_requests: bool,
    /// The busiest service of the unchanged system, and how busy it is.
    pub bottleneck: String,
    /// The busiest service of the changed system: what to look at next.
    pub next_bottleneck: String,
    /// Does the unchanged system keep up with its requests? `None` of clients that wait for their
    /// answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<Verdict>,
    /// Does the changed one? Where it does not, or that cannot be told, there are no latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Verdict>,
    /// Reasons to doubt the prediction.
    pub doubts: Vec<String>,
}

/// Does a system keep up with requests that come at a rate?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether it does.
    pub standing: Standing,
    /// Why not, or why that cannot be told.
    pub note: String,
}
