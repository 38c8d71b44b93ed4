//! What a point on a server came to.

use cavy_study::outcome::{Estimate, Outcome, Summary};
use serde::{Deserialize, Serialize};

/// What one type experienced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeSummary {
    /// Its name.
    pub name: String,
    /// Requests of it that were dropped.
    pub dropped: u64,
    /// Its mean and percentiles.
    #[serde(flatten)]
    pub summary: Summary,
}

/// One bin of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BinSummary {
    /// Where it begins, milliseconds.
    pub from_ms: f64,
    /// 99.9th percentile latency per type, microseconds, in the order of the types; of the largest
    /// percentile with 10 samples beyond it when there are fewer than 10 000.
    pub tail_us: Vec<Option<f64>>,
    /// Requests that ended, per type.
    pub finished: Vec<u64>,
    /// Requests dropped, per type.
    pub dropped: Vec<u64>,
}

/// A change of the reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When, milliseconds.
    pub at_ms: f64,
    /// The reservation, such as `2/6/6`.
    pub reservation: String,
    /// Workers reserved to each type, in the order of the types.
    pub reserved: Vec<u32>,
    /// Workers each type may use at all.
    pub reachable: Vec<u32>,
}

/// What happened over time in the first replication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineResult {
    /// Width of a bin, milliseconds.
    pub bin_ms: f64,
    /// The bins.
    pub bins: Vec<BinSummary>,
    /// Changes of the reservation.
    pub changes: Vec<Change>,
}

/// What a point on a server came to, beside what all outcomes have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// MSER-5 found no end of the warm-up in some replication.
    pub too_short: bool,
    /// Share of worker time in use.
    pub utilization: f64,
    /// Requests dropped.
    pub dropped: u64,
    /// Share of requests dropped.
    pub drop_ratio: f64,
    /// Over all requests together.
    pub overall: Summary,
    /// Per type, in the order of the plan.
    pub types: Vec<TypeSummary>,
    /// The reservation at the end of the first replication.
    pub reservation: Option<String>,
    /// What happened over time, when the plan asks for it.
    pub timeline: Option<TimelineResult>,
}

/// The result of one point.
pub type ServerResult = Outcome<Served>;

impl Served {
    /// Percentiles of a type, or of all requests.
    pub fn summary(&self, kind: Option<&str>) -> Option<&Summary> {
        match kind {
            None => Some(&self.overall),
            Some(name) => self.types.iter().find(|t| t.name == name).map(|t| &t.summary),
        }
    }

    /// 99.9th percentile slowdown over all requests, the value of all figures.
    pub fn slowdown(&self) -> Option<&Estimate> {
        self.overall.p999_slowdown.as_ref()?.supported()
    }

    /// 99.9th percentile latency of a type in microseconds.
    pub fn tail_us(&self, kind: &str) -> Option<&Estimate> {
        self.summary(Some(kind))?.p999_us.as_ref()?.supported()
    }
}
