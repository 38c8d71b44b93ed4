//! What a point of a plan for search came to.

use super::plan::SearchPlan;
use crate::Latency;
use cavy_study::experiment::Experiment;
use cavy_study::outcome::{Estimate, Outcome};
use serde::{Deserialize, Serialize};

/// A plan for search that was run.
pub type SearchExperiment = Experiment<SearchPlan>;
/// One point of it.
pub type SearchResult = Outcome<Searched>;

/// What dead servers take from the index, by drawing who is dead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Draws, all replications together.
    pub draws: u64,
    /// Share of draws in which some document is on no live server.
    pub any_ratio: f64,
    /// Share of draws in which more than a hundred-thousandth of the ring is lost: on a ring a
    /// stretch as long as an arc to the id loses one id.
    pub more_ratio: f64,
    /// Share of documents that is lost, on average.
    pub share: f64,
    /// What `any_ratio` is exactly, by counting; only for equal ranges and clusters. On a ring a
    /// stretch exactly as long as an arc counts, which rounding makes an id shorter now and then.
    pub any_exact: Option<f64>,
    /// What `more_ratio` is exactly.
    pub more_exact: Option<f64>,
    /// What `share` is exactly, where that is known.
    pub share_exact: Option<f64>,
}

/// What became of an event: from when it happened to when all was as it asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// In words.
    pub what: String,
    /// When.
    pub at_s: f64,
    /// How long until queries had the new p; of changes of p alone.
    pub usable_s: Option<Estimate>,
    /// How long until all was as it asked for; `None` where the next event came first.
    pub reached_s: Option<Estimate>,
    /// Documents that were copied, as a multiple of the index.
    pub copied: Estimate,
    /// For how long nothing could be written, seconds.
    #[serde(default)]
    pub blocked_s: f64,
    /// Mean latency of queries sent since the phase before was over, milliseconds.
    pub before_mean_ms: Option<Estimate>,
    /// Of those sent while it went on.
    pub during_mean_ms: Option<Estimate>,
    /// The longest of these, over all replications.
    pub during_most_ms: f64,
    /// The longest of those before.
    pub before_most_ms: f64,
    /// Of those sent after it, before the next event.
    pub after_mean_ms: Option<Estimate>,
    /// The mean while it went on over the mean before.
    pub during_ratio: Option<Estimate>,
    /// Queries sent while it went on, all replications together.
    pub during_queries: u64,
    /// Of crashes, what each draw of the servers took and what came of it, in the order of the
    /// replications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<Draw>,
}

/// Which servers crashed matters: the same number of them may leave one copy of a document or most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    /// The fewest live servers that still had the same document.
    pub holders_least: u32,
    /// How long until all was as before the crash; `None` where the next event came first.
    pub reached_s: Option<f64>,
    /// The mean latency while it went on over the mean before.
    pub during_ratio: Option<f64>,
}

/// What became of borders that move by load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Balanced {
    /// A period, seconds.
    pub every_s: f64,
    /// The greatest load of a server over the mean, a load being a range over a speed: at the
    /// beginning, and after each period.
    pub imbalance: Vec<Estimate>,
    /// How often borders moved.
    pub steps: Estimate,
    /// How far they moved, together, as a multiple of the ring.
    pub moved: Estimate,
    /// Documents that were copied, as a multiple of the index.
    pub copied: Estimate,
    /// What queries took that were sent while borders moved.
    pub moving: Latency,
    /// What those took that were sent after the last move.
    pub after: Latency,
}

/// What became of queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Searched {
    /// What queries took.
    pub latency: Latency,
    /// Queries that were done a second, from the first to the end of the last.
    pub served_per_s: Estimate,
    /// Share of the time in which servers worked, on average.
    pub busy_ratio: f64,
    /// The same for the busiest server.
    pub busiest_ratio: f64,
    /// Sub-queries of a query.
    pub parts: f64,
    /// Share of documents that queries met.
    pub met_ratio: Estimate,
    /// Copies of a document.
    pub copies: f64,
    /// What all servers store, gigabytes.
    pub stored_gb: f64,
    /// The mean that theory gives, milliseconds, where it is known: identical servers, all alive,
    /// one front end, p a divisor of their number.
    pub theory_mean_ms: Option<f64>,
    /// What dead servers take.
    pub loss: Option<Loss>,
    /// Fixed part and part for scanning everything that were used, milliseconds at speed 1.
    pub cost_ms: (f64, f64),
    /// R^2 of the line through measured sub-queries, where costs are from a file.
    #[serde(default)]
    pub explained: Option<f64>,
    /// What became of each event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// With events: answers that lack an acknowledged write, have it twice or in an old version.
    #[serde(default)]
    pub wrong: u64,
    /// With events: answers that say which documents they could not look at.
    #[serde(default)]
    pub partial: u64,
    /// Share of the answers that were given at `deadline_ms`, before all parts had come.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timed_out_ratio: f64,
    /// With events: writes that were acknowledged.
    #[serde(default)]
    pub written: u64,
    /// What became of borders, where they move by load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<Balanced>,
}

fn is_zero(ratio: &f64) -> bool {
    *ratio == 0.0
}
