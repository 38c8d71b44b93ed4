//! Who sends to whom in a network plan, and when.

use crate::moment::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the gaps between messages of a host are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalsName {
    /// Independent of each other.
    #[default]
    Poisson,
    /// Almost equal, as the generator of the source's cluster measurements made them [homa 6].
    NearPeriodic,
}

/// Messages that come whether or not earlier ones have arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Arriving {
    /// How gaps between messages are spread.
    pub arrivals: ArrivalsName,
    /// Standard deviation of near-periodic gaps over their mean, 0 to 0.57.
    pub variation: f64,
    /// Draw sizes so that short runs have the load they should have [homa 4.4].
    pub stratified: bool,
}

impl Default for Arriving {
    fn default() -> Self {
        Arriving { arrivals: ArrivalsName::Poisson, variation: 0.01, stratified: true }
    }
}

/// Questions that come whether or not earlier ones have been answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Asking {
    /// How gaps between messages are spread.
    pub arrivals: ArrivalsName,
    /// Standard deviation of near-periodic gaps over their mean, 0 to 0.57.
    pub variation: f64,
    /// Draw sizes so that short runs have the load they should have [homa 4.4].
    pub stratified: bool,
    /// Hosts that ask. Default: half of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Hosts that answer. Default: all that do not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
}

impl Default for Asking {
    fn default() -> Self {
        let Arriving { arrivals, variation, stratified } = Arriving::default();
        Asking { arrivals, variation, stratified, clients: None, servers: None }
    }
}

impl Asking {
    /// How questions come.
    pub fn arriving(&self) -> Arriving {
        let Asking { arrivals, variation, stratified, .. } = *self;
        Arriving { arrivals, variation, stratified }
    }
}

/// Messages from all other hosts to a few.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Gathering {
    /// How gaps between messages are spread.
    pub arrivals: ArrivalsName,
    /// Standard deviation of near-periodic gaps over their mean, 0 to 0.57.
    pub variation: f64,
    /// Draw sizes so that short runs have the load they should have [homa 4.4].
    pub stratified: bool,
    /// Hosts that receive, the first ones; 1 to one less than there are hosts.
    pub receivers: u32,
}

impl Default for Gathering {
    fn default() -> Self {
        let Arriving { arrivals, variation, stratified } = Arriving::default();
        Gathering { arrivals, variation, stratified, receivers: 1 }
    }
}

impl Gathering {
    /// How messages come.
    pub fn arriving(&self) -> Arriving {
        let Gathering { arrivals, variation, stratified, .. } = *self;
        Arriving { arrivals, variation, stratified }
    }
}

/// Messages of which some hosts receive more than others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Skewing {
    /// How gaps between messages are spread.
    pub arrivals: ArrivalsName,
    /// Standard deviation of near-periodic gaps over their mean, 0 to 0.57.
    pub variation: f64,
    /// Draw sizes so that short runs have the load they should have [homa 4.4].
    pub stratified: bool,
    /// Host n, counted from 1, receives in proportion to 1 / n to this power, 0 to 10 (Zipf's law);
    /// all send alike. Give this or `matrix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zipf_exponent: Option<f64>,
    /// A CSV file, relative to the plan, with the columns `from`, `to` and `weight`: how many
    /// messages each host sends to each other one, in any unit. Pairs that are absent send none.
    /// Hosts are `h0`, `h1` and so on. Give this or `zipf_exponent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix: Option<String>,
}

impl Default for Skewing {
    fn default() -> Self {
        let Arriving { arrivals, variation, stratified } = Arriving::default();
        Skewing { arrivals, variation, stratified, zipf_exponent: None, matrix: None }
    }
}

impl Skewing {
    /// How messages come.
    pub fn arriving(&self) -> Arriving {
        let Skewing { arrivals, variation, stratified, .. } = *self;
        Arriving { arrivals, variation, stratified }
    }
}

/// Messages as they were recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// A CSV file with a line for each message, relative to the plan.
    pub file: String,
    /// Column of the times: numbers in `unit`, or moments such as 2026-11-23T19:54:46.5Z. They need
    /// not ascend.
    #[serde(default = "default_time")]
    pub time: String,
    /// Unit of times that are numbers.
    pub unit: Unit,
    /// Column of the senders: `h0`, `h1` and so on, or any names, which become the first host, the
    /// second and so on as they appear.
    #[serde(default = "default_from")]
    pub from: String,
    /// Column of the receivers.
    #[serde(default = "default_to")]
    pub to: String,
    /// Column of the lengths in bytes.
    #[serde(default = "default_bytes")]
    pub bytes: String,
    /// How many times as fast as recorded messages come, 0.001 to 1000.
    #[serde(default = "default_rate_ratio")]
    pub rate_ratio: f64,
}

fn default_time() -> String {
    "time".to_string()
}

fn default_from() -> String {
    "from".to_string()
}

fn default_to() -> String {
    "to".to_string()
}

fn default_bytes() -> String {
    "bytes".to_string()
}

fn default_rate_ratio() -> f64 {
    1.0
}

/// One client that asks many at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Converging {
    /// Questions under way at a time, 1 to 1000000.
    pub concurrent: u32,
    /// Length of a question.
    #[serde(default = "default_question_bytes")]
    pub question_bytes: u32,
    /// Length of an answer.
    #[serde(default = "default_answer_bytes")]
    pub answer_bytes: u32,
}

fn default_question_bytes() -> u32 {
    100
}

fn default_answer_bytes() -> u32 {
    10_000
}

/// One client that asks one server, one question at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Echoing {
    /// Sizes of questions, and of their answers.
    pub sizes_bytes: Vec<u32>,
    /// Questions of each size.
    #[serde(default = "default_repeats")]
    pub repeats: u32,
}

fn default_repeats() -> u32 {
    100
}

/// One client that asks many servers at once for the pieces of a block, and waits for the last
/// [incast 4.1].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Striped {
    /// Servers, from 1 to one less than there are hosts.
    pub servers: u32,
    /// Bytes of a block, divided evenly among the servers. Give this or `fragment_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u64>,
    /// Bytes that each server sends of a block. Give this or `block_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragment_bytes: Option<u32>,
    /// Length of a question.
    #[serde(default = "default_question_bytes")]
    pub question_bytes: u32,
    /// Blocks in each replication, from 2; the first, which opens connections, does not count.
    #[serde(default = "default_blocks")]
    pub blocks: u64,
    /// Questions of a block leave at random within this time, microseconds.
    #[serde(default)]
    pub jitter_us: f64,
    /// Servers asked at a time. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u32>,
    /// So many hosts after the servers send to the client meanwhile without a pause, messages of
    /// 16 MiB. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<u32>,
}

fn default_blocks() -> u64 {
    41
}

/// Who sends to whom, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "pattern", rename_all = "snake_case")]
pub enum TrafficPlan {
    /// Every host to every other, one-way.
    AllToAll(Arriving),
    /// Every host always to the same other one, one-way.
    Permutation(Arriving),
    /// All other hosts to the first `receivers` hosts, one-way.
    ManyToFew(Gathering),
    /// Every host to every other, some to more than to others, one-way: by `zipf_exponent` or
    /// `matrix`.
    Skewed(Skewing),
    /// Messages as they were recorded, one-way: time, sender, receiver and length of each.
    Trace(Recording),
    /// The first `clients` hosts ask the next `servers` hosts, which answer as much.
    Rpc(Asking),
    /// One client keeps `concurrent` questions under way to all other hosts.
    Incast(Converging),
    /// One client asks one server, one question at a time, `repeats` times for each of
    /// `sizes_bytes`.
    Echo(Echoing),
    /// One client asks `servers` hosts for the pieces of a block at once, and for the next block
    /// when it has the last piece.
    Blocks(Striped),
}

impl Default for TrafficPlan {
    fn default() -> Self {
        TrafficPlan::AllToAll(Arriving::default())
    }
}

impl TrafficPlan {
    /// How messages come that wait for nobody; `None` for closed loops and recordings.
    pub fn arriving(&self) -> Option<Arriving> {
        match self {
            TrafficPlan::AllToAll(own) | TrafficPlan::Permutation(own) => Some(own.clone()),
            TrafficPlan::ManyToFew(own) => Some(own.arriving()),
            TrafficPlan::Skewed(own) => Some(own.arriving()),
            TrafficPlan::Rpc(own) => Some(own.arriving()),
            TrafficPlan::Trace(_)
            | TrafficPlan::Incast(_)
            | TrafficPlan::Echo(_)
            | TrafficPlan::Blocks(_) => None,
        }
    }

    /// Are messages questions?
    pub fn asks(&self) -> bool {
        match self {
            TrafficPlan::AllToAll(_)
            | TrafficPlan::Permutation(_)
            | TrafficPlan::ManyToFew(_)
            | TrafficPlan::Skewed(_)
            | TrafficPlan::Trace(_) => false,
            TrafficPlan::Rpc(_)
            | TrafficPlan::Incast(_)
            | TrafficPlan::Echo(_)
            | TrafficPlan::Blocks(_) => true,
        }
    }
}
