//! Plans for search as they are written.

use crate::policy::Policy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Search spread over servers, and the schemes that spread it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchPlan {
    /// Servers, 1 to 4096.
    pub servers: u32,
    /// Processors of each server, 1 to 64. A sub-query is work of one of them. Default: 1.
    #[serde(default = "one_core", skip_serializing_if = "is_one")]
    pub cores: u16,
    /// Who decides which processor does which work: a policy as in plans for a server, such as
    /// `{ policy = "fixed_priority" }`, for work of the types `query` and `copy`. With it, as with
    /// events, the plan is run with machines that speak over a network; the scheme is `roar`.
    /// Default: in the order in which work comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Policy>,
    /// Speeds of servers, repeated until all have one. Default: 1 each.
    #[serde(default = "one")]
    pub speeds: Vec<f64>,
    /// A CSV file with a column `speed`, a line for each server, instead of `speeds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speeds_file: Option<String>,
    /// The order of servers on the ring.
    #[serde(default)]
    pub order: OrderPlan,
    /// Documents in the index, 1 to 10^12.
    #[serde(default = "documents")]
    pub documents: u64,
    /// What any sub-query takes of a server, however few documents it scans.
    #[serde(default = "fixed_ms")]
    pub fixed_ms: f64,
    /// What a document takes beside that, on a server of speed 1.
    #[serde(default = "document_us")]
    pub document_us: f64,
    /// A CSV file of sub-queries that were measured on a server of speed 1, with columns `examined`
    /// (documents) and `took_ms`: `fixed_ms` and `document_us` are fitted to it and not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// Parts of a query with which everything is found: p, 1 to the number of servers.
    pub p: u32,
    /// Queries a second. Either this or `load`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries_per_s: Option<f64>,
    /// Queries as a share of what all servers could scan, the fixed part of sub-queries not
    /// counted. Either this or `queries_per_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Changed documents a second; each is written to every copy.
    #[serde(default)]
    pub updates_per_s: f64,
    /// What a write takes of each server that stores the document.
    #[serde(default)]
    pub update_us: f64,
    /// Bytes of a document, for what is stored and moved.
    #[serde(default = "document_bytes")]
    pub document_bytes: u32,
    /// Front ends that send queries, 1 to 64. One alone knows what every server is busy with;
    /// several know what their own answers and reports said.
    #[serde(default = "one_front_end")]
    pub front_ends: u32,
    /// Which front end a query goes to.
    #[serde(default)]
    pub dealt: DealtPlan,
    /// What front ends and servers go by when they say what a sub-query will take; with events,
    /// `scheduler` or `balance_s`. Default: `known`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub costs: CostsPlan,
    /// Servers report how busy they are to all front ends so often. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_ms: Option<f64>,
    /// So many servers are dead, drawn anew for each replication; front ends know it.
    #[serde(default)]
    pub dead_servers: u32,
    /// What dead servers take from the index is drawn so often.
    #[serde(default)]
    pub loss_draws: u32,
    /// What happens while it runs: p is changed; servers crash, slow down, stand still, leave. With
    /// `roar` such a plan is run with machines that speak over a network, and every answer is
    /// checked. `ptn` and `shards` can change p alone, by whole factors; the same is
    /// copied at the same cost, without a network, and nothing is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventPlan>,
    /// Share of a server's processor and card that copies may have, in percent, 1 to 100; with
    /// events.
    #[serde(default = "copy_percent")]
    pub copy_percent: u32,
    /// Copies wait while queries do, for a second at most; with events.
    #[serde(default = "yes")]
    pub copies_wait: bool,
    /// A part that is so much later than predicted is given to others; with events.
    #[serde(default = "margin_ms")]
    pub margin_ms: f64,
    /// A part that is so much later than predicted is sent to others as well, and the first answer
    /// counts; with events. Default: never before `margin_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedge_ms: Option<f64>,
    /// Of all parts so many at most are sent again so, in percent, 1 to 100.
    #[serde(default = "hedge_percent")]
    pub hedge_percent: u32,
    /// A server that has more than that before it refuses a part that was sent nowhere before, and
    /// says what it has; with events, `scheduler` or `balance_s`. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounce_ms: Option<f64>,
    /// Borders between servers move to where load is less; it is looked at so often. They begin as
    /// the scheme says: in equal ranges, or in proportion to speed. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance_s: Option<f64>,
    /// Nothing moves unless a server has so much more than a fair load, or others than it, in
    /// percent, 1 to 1000. Default: 10.
    #[serde(default = "balance_percent", skip_serializing_if = "is_ten")]
    pub balance_percent: u32,
    /// A query is answered so long after it came at the latest, with what has been met by then,
    /// and the answer says which ids are missing; with events, `scheduler` or `balance_s`. Default:
    /// when all parts have come or are known to be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<f64>,
    /// The schemes to compare.
    pub schemes: Vec<SchemePlan>,
    /// How long a replication is.
    #[serde(default)]
    pub run: SearchRun,
}

fn one_core() -> u16 {
    1
}

fn is_one(cores: &u16) -> bool {
    *cores == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn one() -> Vec<f64> {
    vec![1.0]
}

fn documents() -> u64 {
    5_000_000
}

fn fixed_ms() -> f64 {
    5.0
}

fn document_us() -> f64 {
    0.2
}

fn document_bytes() -> u32 {
    500
}

pub(super) fn copy_percent() -> u32 {
    20
}

fn yes() -> bool {
    true
}

pub(super) fn margin_ms() -> f64 {
    20.0
}

pub(super) fn hedge_percent() -> u32 {
    5
}

pub(super) fn balance_percent() -> u32 {
    10
}

fn is_ten(percent: &u32) -> bool {
    *percent == 10
}

fn one_server() -> u32 {
    1
}

fn one_front_end() -> u32 {
    1
}

/// Which front end a query goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DealtPlan {
    /// Any, by chance.
    #[default]
    ByChance,
    /// One after the other. What a front end knows of its own is then older on average.
    InTurn,
}

/// What sub-queries are taken to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostsPlan {
    /// What they take of a server at its own speed: an oracle, which nobody tells when a server
    /// slows down.
    #[default]
    Known,
    /// What earlier ones took.
    Learned,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum EventPlan {
    /// Queries get another number of parts.
    Spread {
        /// When.
        at_s: f64,
        /// p from then on, as soon as it can be had.
        p: u32,
    },
    /// Servers stop, and what they had in memory is lost.
    Crash {
        /// When.
        at_s: f64,
        /// How many, by chance. Either this or `ring`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        servers: Option<u32>,
        /// All servers of one of several rings, which are counted from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ring: Option<u32>,
        /// When they are back. Default: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_s: Option<f64>,
        /// What they had on disk is lost as well.
        #[serde(default)]
        loses_disk: bool,
    },
    /// A server, drawn by chance, leaves its ring, and comes back to it.
    Leave {
        /// When it is told to leave.
        at_s: f64,
        /// When it is told to come back.
        until_s: f64,
    },
    /// The processors of servers work more slowly for a while.
    Slow {
        /// When.
        at_s: f64,
        /// When they are as fast as before.
        until_s: f64,
        /// How many servers, by chance.
        #[serde(default = "one_server")]
        servers: u32,
        /// How many times as fast as before they are meanwhile, 0.001 to 1.
        speed_ratio: f64,
    },
    /// A server, drawn by chance, stands still now and then until the end.
    Stall {
        /// When it stands still for the first time.
        at_s: f64,
        /// From one time to the next.
        every_s: f64,
        /// How long each time.
        for_s: f64,
    },
}

impl EventPlan {
    /// When.
    pub fn at_s(&self) -> f64 {
        match self {
            EventPlan::Spread { at_s, .. }
            | EventPlan::Crash { at_s, .. }
            | EventPlan::Leave { at_s, .. }
            | EventPlan::Slow { at_s, .. }
            | EventPlan::Stall { at_s, .. } => *at_s,
        }
    }
}

/// The order of servers on a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderPlan {
    /// By chance, another one in each replication.
    #[default]
    Shuffled,
    /// As the servers are numbered, which with repeated speeds means: fast beside slow.
    Interleaved,
    /// By speed, the slowest first.
    Blocks,
}

/// How long a replication is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchRun {
    /// Queries, warm-up included, 100 to 10^7.
    pub queries: u64,
    /// Of these, so many first ones are not measured.
    pub warmup_queries: u64,
    /// With events, `scheduler` or `balance_s`: how long a replication is. Queries come until then,
    /// `queries` at most.
    pub duration_s: f64,
    /// With events, `scheduler` or `balance_s`: queries that come before this time are not
    /// measured.
    pub warmup_s: f64,
}

impl Default for SearchRun {
    fn default() -> Self {
        SearchRun { queries: 12_000, warmup_queries: 2_000, duration_s: 60.0, warmup_s: 5.0 }
    }
}

/// A way to spread documents and queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "scheme", rename_all = "snake_case")]
pub enum SchemePlan {
    /// ROAR: documents on arcs of a ring, any p, changed while it runs.
    Roar(RoarPlan),
    /// PTN: fixed parts, each on a cluster of servers. p must divide the number of servers.
    Ptn(PtnPlan),
    /// Fixed shards as Elasticsearch has them, with its adaptive replica selection.
    Shards(ShardsPlan),
    /// SW: a document on several servers in a row. p must divide the number of servers.
    Sw(PlainPlan),
    /// OPT: every server could answer for anything. A floor that nobody can build.
    Opt(PlainPlan),
    /// RAND: documents and queries on servers by chance. It finds most documents and not all.
    Rand(RandPlan),
}

/// ROAR.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoarPlan {
    /// Name in tables and plots. Default: `ROAR`, with what is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// How the ring is divided.
    pub ranges: RangesPlan,
    /// How parts are chosen.
    pub start: StartPlan,
    /// Rings that share the servers, each with all documents.
    pub rings: u32,
    /// A query has so many times p parts.
    pub parts: u32,
    /// Borders between parts are moved until neighbours are done at one time.
    pub adjust: bool,
    /// The slowest part is split, at most so often.
    pub splits: u32,
    /// Chance decides among plans that are at most so much later than the best.
    pub within_ratio: f64,
    /// A refinement that gains less is not made.
    pub threshold_ratio: f64,
}

impl Default for RoarPlan {
    fn default() -> Self {
        RoarPlan {
            label: None,
            ranges: RangesPlan::Proportional,
            start: StartPlan::Swept,
            rings: 1,
            parts: 1,
            adjust: false,
            splits: 0,
            within_ratio: 0.0,
            threshold_ratio: 0.05,
        }
    }
}

/// How the ring is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RangesPlan {
    /// In proportion to speed.
    #[default]
    Proportional,
    /// In equal ranges.
    Equal,
}

/// How the parts of a query are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartPlan {
    /// The start whose slowest part is done first.
    #[default]
    Swept,
    /// A start by chance.
    Random,
    /// Each part goes where it is done first; `parts` of 2 or more.
    Free,
}

/// PTN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PtnPlan {
    /// Name in tables and plots. Default: `PTN`, with the choice unless it is the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Who of a cluster answers.
    pub pick: PickPlan,
    /// How p is lowered, with events.
    pub change: ChangePlan,
}

/// How clusters get a lower p.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangePlan {
    /// Clusters are merged: every server copies what the others of its new cluster have.
    #[default]
    Merge,
    /// Clusters are dissolved: the others copy what they had, and then their servers load another
    /// part. Until they have it they answer nothing.
    Dissolve,
}

/// Who of a cluster answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PickPlan {
    /// The one that is done first.
    #[default]
    Earliest,
    /// Of two by chance the one that is done first.
    TwoChoices,
    /// The one with the fewest sub-queries under way.
    LeastOutstanding,
    /// One after the other.
    RoundRobin,
}

/// Fixed shards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShardsPlan {
    /// Name in tables and plots. Default: `fixed shards`, with how they change unless they resize.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// How p is changed, with events.
    pub change: ReshardPlan,
}

/// How fixed shards get another p.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReshardPlan {
    /// By whole factors: p is lowered by `_shrink`, through one node, and raised by `_split`.
    /// Nothing can be written for a part of the time.
    #[default]
    Resize,
    /// To any p that divides the number of servers: all documents are indexed again beside the old
    /// shards, which answer until the new ones are whole. Writes go to both.
    Reindex,
}

/// A scheme without settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlainPlan {
    /// Name in tables and plots. Default: the name of the scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// RAND.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RandPlan {
    /// Name in tables and plots. Default: `RAND`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Documents have so many times the copies of PTN, and queries so many times p parts.
    pub c: f64,
    /// Of so many sets of servers by chance the one that is done first is asked.
    pub best_of: u32,
}

impl Default for RandPlan {
    fn default() -> Self {
        RandPlan { label: None, c: 2.0, best_of: 4 }
    }
}

impl SchemePlan {
    /// The label it has, or was given.
    pub fn label(&self) -> String {
        let own = match self {
            SchemePlan::Roar(own) => &own.label,
            SchemePlan::Ptn(own) => &own.label,
            SchemePlan::Shards(own) => &own.label,
            SchemePlan::Sw(own) | SchemePlan::Opt(own) => &own.label,
            SchemePlan::Rand(own) => &own.label,
        };
        own.clone().unwrap_or_else(|| self.usual())
    }

    fn usual(&self) -> String {
        match self {
            SchemePlan::Roar(own) => {
                let mut label = "ROAR".to_string();
                let mut add = |say: bool, text: String| {
                    if say {
                        label.push_str(&text);
                    }
                };
                add(own.ranges == RangesPlan::Equal, ", equal ranges".to_string());
                add(own.rings > 1, format!(", {} rings", own.rings));
                add(own.start == StartPlan::Random, ", random start".to_string());
                add(own.start == StartPlan::Free, ", free placement".to_string());
                add(own.parts > 1, format!(", {}p parts", own.parts));
                add(own.adjust, " + adjustment".to_string());
                add(own.splits > 0, format!(" + {} splits", own.splits));
                label
            }
            SchemePlan::Ptn(own) => {
                let pick = match own.pick {
                    PickPlan::Earliest => "",
                    PickPlan::TwoChoices => ", two choices",
                    PickPlan::LeastOutstanding => ", least outstanding",
                    PickPlan::RoundRobin => ", round robin",
                };
                let change = match own.change {
                    ChangePlan::Merge => "",
                    ChangePlan::Dissolve => ", dissolved",
                };
                format!("PTN{pick}{change}")
            }
            SchemePlan::Shards(own) => {
                let change = match own.change {
                    ReshardPlan::Resize => "",
                    ReshardPlan::Reindex => ", reindexed",
                };
                format!("fixed shards{change}")
            }
            SchemePlan::Sw(_) => "SW".to_string(),
            SchemePlan::Opt(_) => "OPT".to_string(),
            SchemePlan::Rand(own) => format!("RAND, c = {}", own.c),
        }
    }

    /// The label that it was given.
    pub fn given_label(&mut self) -> &mut Option<String> {
        match self {
            SchemePlan::Roar(own) => &mut own.label,
            SchemePlan::Ptn(own) => &mut own.label,
            SchemePlan::Shards(own) => &mut own.label,
            SchemePlan::Sw(own) | SchemePlan::Opt(own) => &mut own.label,
            SchemePlan::Rand(own) => &mut own.label,
        }
    }
}
