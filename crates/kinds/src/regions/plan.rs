//! Plans for transactions across regions as they are written.

use cavy_core::Span;
use cavy_study::plan::PlanError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A time that a plan gives in milliseconds.
pub(super) fn span(key: &str, ms: f64) -> Result<Span, PlanError> {
    Span::try_from_us(ms * 1e3)
        .filter(|span| *span <= Span::from_ms(3_600_000))
        .ok_or_else(|| PlanError::field(key, ms, "from 0 to 3600000 (an hour)"))
}

/// Transactions in regions and across them, and the protocols that order them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegionsPlan {
    /// Regions, 1 to 1024. All replicas of a shard are in its region.
    pub regions: u16,
    /// Shards of each region, at least 1.
    pub shards_per_region: u32,
    /// Time of a message within a region, clients included, one way.
    #[serde(default = "within")]
    pub within_ms: f64,
    /// Time of a message from a region to another one, one way.
    #[serde(default = "across")]
    pub across_ms: f64,
    /// One-way times from each region to each, in milliseconds, instead of `within_ms` and
    /// `across_ms`: a row for each region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_ms: Option<Vec<Vec<f64>>>,
    /// Each message between regions takes up to so much less or more, evenly, and never less than
    /// nothing; order is kept.
    #[serde(default)]
    pub jitter_ms: f64,
    /// What a node's processor spends on a message or a call.
    #[serde(default)]
    pub message_us: f64,
    /// What a node's disk takes to store what it must remember.
    #[serde(default)]
    pub disk_sync_ms: f64,
    /// What clients ask.
    pub workload: WorkloadPlan,
    /// Types of transactions of your own, with workload `types`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypePlan>,
    /// Clients of each shard that wait for their answers. Give these or `rate_per_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients_per_shard: Option<u32>,
    /// Transactions a second of all regions together, from clients that do not wait for answers:
    /// at random (Poisson), evenly over shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// What a client waits between an answer and its next transaction, on average; evenly
    /// distributed. Not with `rate_per_s`.
    #[serde(default)]
    pub think_ms: f64,
    /// A client that has waited so long asks another replica, under the same name.
    #[serde(default = "patience")]
    pub patience_ms: f64,
    /// What goes wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultPlan>,
    /// The protocols to compare.
    pub protocols: Vec<ProtocolPlan>,
    /// How long a replication is.
    #[serde(default)]
    pub run: RegionsRun,
}

fn within() -> f64 {
    2.5
}

fn across() -> f64 {
    50.0
}

fn patience() -> f64 {
    2_000.0
}

/// How long a replication is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegionsRun {
    /// Transactions that are asked for before this time are not measured.
    pub warmup_ms: f64,
    /// Nothing is asked for from this time on.
    pub duration_ms: f64,
}

impl Default for RegionsRun {
    fn default() -> Self {
        RegionsRun { warmup_ms: 500.0, duration_ms: 3_500.0 }
    }
}

/// What clients ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkloadPlan {
    /// TPC-C, one warehouse a shard: about one transaction in ten crosses regions.
    Tpcc {},
    /// TPC-C as the published artifact has it: no warehouse books what it takes in, nothing is
    /// inserted but one row of history a warehouse, which all its payments write.
    TpccArtifact {},
    /// TPC-C's Payment alone.
    Payment {
        /// Share of transactions whose customer is of another region, 0 to 1.
        crt_ratio: f64,
        /// As the published artifact has it: all payments of a warehouse write one row of history,
        /// so one that waits for its customer holds up the later ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        artifact: bool,
    },
    /// TPC-A: one is added to a branch, a teller and a customer, drawn by Zipf's law; a tenth of
    /// the transactions crosses regions.
    Tpca {
        /// How uneven rows are drawn, 0 to 2; 0 is evenly.
        skew: f64,
    },
    /// What `[[types]]` says: rows are numbers that are read, and added to.
    Types {
        /// Rows of each shard, 2 to 1000000.
        #[serde(default = "rows")]
        rows: u64,
        /// How uneven rows of a shard are drawn, 0 to 2 (Zipf's exponent); 0 is evenly.
        #[serde(default)]
        skew: f64,
    },
}

fn rows() -> u64 {
    100_000
}

/// A type of transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypePlan {
    /// Its name, different from the others'.
    pub name: String,
    /// Its share of all transactions, from 0; the shares add up to 1 within 1e-6.
    pub share: f64,
    /// Shards that it touches, its client's own included, 1 to 16.
    #[serde(default = "one_shard")]
    pub shards: u32,
    /// Rows that it reads on each of its shards.
    #[serde(default)]
    pub reads: u32,
    /// Rows that it reads and writes on each of its shards; with `reads` 1 to 64.
    #[serde(default)]
    pub writes: u32,
    /// Share of them whose other shards are in other regions, 0 to 1; of the rest all shards are
    /// in the client's region.
    #[serde(default)]
    pub crt_ratio: f64,
    /// The other shards write what a row at home holds, so they wait for its value.
    #[serde(default)]
    pub depends: bool,
}

fn one_shard() -> u32 {
    1
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "fault", rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultPlan {
    /// A replica stops, and what it had in memory is lost.
    CrashReplica {
        /// Region, from 0.
        region: u16,
        /// Shard of the region, from 0.
        shard: u32,
        /// Replica of the shard, from 0.
        replica: u32,
        /// When.
        from_ms: f64,
        /// When it is back. Default: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_ms: Option<f64>,
    },
    /// The node that leads a region stops: DAST's steward, SLOG's sequencer, and where no node
    /// leads a region, the first replica of its first shard.
    CrashSteward {
        /// Region, from 0.
        region: u16,
        /// When.
        from_ms: f64,
        /// When it is back. Default: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_ms: Option<f64>,
    },
    /// All nodes of a region stop in one instant, and what is not in their logs is lost: DAST has
    /// everything there with `durable`, and the other protocols always.
    PowerCut {
        /// Region, from 0.
        region: u16,
        /// When.
        from_ms: f64,
        /// When they are back. Default: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_ms: Option<f64>,
    },
    /// Nothing crosses the border of a region.
    CutOff {
        /// Region, from 0.
        region: u16,
        /// From when.
        from_ms: f64,
        /// Until when.
        until_ms: f64,
    },
    /// The wall clock of a replica is moved.
    ClockStep {
        /// Region, from 0.
        region: u16,
        /// Shard of the region, from 0.
        shard: u32,
        /// Replica of the shard, from 0.
        replica: u32,
        /// When.
        at_ms: f64,
        /// By how much; negative: back.
        by_ms: f64,
    },
}

impl FaultPlan {
    /// The region that it names.
    pub fn region(&self) -> u16 {
        match *self {
            FaultPlan::CrashReplica { region, .. }
            | FaultPlan::CrashSteward { region, .. }
            | FaultPlan::PowerCut { region, .. }
            | FaultPlan::CutOff { region, .. }
            | FaultPlan::ClockStep { region, .. } => region,
        }
    }
}

/// A protocol, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum ProtocolPlan {
    /// DAST: local transactions by clocks, those across regions at a time in the future.
    Dast(DastPlan),
    /// Two-phase locks with two-phase commit over replicated shards, wound-wait.
    TwoPhase(TwoPhasePlan),
    /// Janus: dependency graphs decide the order.
    Janus(JanusPlan),
    /// TAPIR: replicas without an order, checked by timestamps.
    Tapir(TapirPlan),
    /// SLOG: a log for each region, and a global order for what crosses them.
    Slog(SlogPlan),
}

/// Janus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JanusPlan {
    /// Name in tables and plots. Default: `Janus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// As DAST's artifact: nobody inquires, and what does not touch a shard counts as run so long
    /// after it was first looked for. The artifact has 100. Such runs need not be serializable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fake_inquire_ms: Option<f64>,
}

/// TAPIR.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TapirPlan {
    /// Name in tables and plots. Default: `TAPIR`, or `TAPIR, artifact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// As DAST's artifact: locks without waiting, all replicas must agree, no back-off, 20 tries.
    pub artifact: bool,
    /// Strict serializability, the source's linearizable mode. Not with `artifact`.
    pub strict: bool,
}

/// SLOG.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlogPlan {
    /// Name in tables and plots. Default: `SLOG`, or `SLOG, artifact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// As DAST's artifact: a piece holds only its own rows, and at most 5 transactions wait.
    pub artifact: bool,
    /// Who keeps the global order. Default: regions.
    pub orderer: OrdererPlan,
    /// Logs grow in steps of so long. Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_ms: Option<f64>,
}

/// Who keeps SLOG's global order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrdererPlan {
    /// A node of each of the first three regions: it survives the loss of one.
    #[default]
    Regions,
    /// Three nodes of the first region: a round trip between regions less.
    FirstRegion,
}

/// Two-phase locks with two-phase commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TwoPhasePlan {
    /// Name in tables and plots. Default: `2PL/2PC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// DAST.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DastPlan {
    /// Name in tables and plots. Default: `DAST`, with the mode unless that is precise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// How waiting for values is treated. Default: precise.
    pub mode: DastMode,
    /// A decision is stored by the home shard before it is told. Default: as the mode has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_log: Option<bool>,
    /// Followers wait until a transaction is stable. Default: as the mode has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follower_rule: Option<bool>,
    /// Commits go to a region's steward and not to each replica. Default: as the mode has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_via_steward: Option<bool>,
    /// Replicas keep what they are told in logs, and others rely on it when it is stored, which
    /// takes `disk_sync_ms`. Otherwise they hold it in memory. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// Clocks stretch below what is pending. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stretch: Option<bool>,
    /// Between two reports of a node's clock. Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_ms: Option<f64>,
    /// So many transactions may wait for values while one with a later timestamp runs. Default: any
    /// number, and 5 in artifact mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookahead: Option<u32>,
    /// How far ahead a transaction across regions is anticipated. Default: 90.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub est_ms: Option<f64>,
}

/// The three ways to run DAST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DastMode {
    /// Pieces run when nothing that they conflict with is before them.
    #[default]
    Precise,
    /// Clocks of a region wait with a transaction that waits for a value.
    Paper,
    /// What the published artifact does.
    Artifact,
}

impl ProtocolPlan {
    /// The label it has, or was given.
    pub fn label(&self) -> String {
        let (given, own) = match self {
            ProtocolPlan::Dast(own) => {
                let name = match own.mode {
                    DastMode::Precise => "DAST",
                    DastMode::Paper => "DAST, paper mode",
                    DastMode::Artifact => "DAST, artifact mode",
                };
                (&own.label, name)
            }
            ProtocolPlan::TwoPhase(own) => (&own.label, "2PL/2PC"),
            ProtocolPlan::Janus(own) => (&own.label, "Janus"),
            ProtocolPlan::Tapir(own) if own.artifact => (&own.label, "TAPIR, artifact"),
            ProtocolPlan::Tapir(own) => (&own.label, "TAPIR"),
            ProtocolPlan::Slog(own) if own.artifact => (&own.label, "SLOG, artifact"),
            ProtocolPlan::Slog(own) => (&own.label, "SLOG"),
        };
        given.clone().unwrap_or_else(|| own.to_string())
    }

    /// The label that it was given.
    pub fn given_label(&mut self) -> &mut Option<String> {
        match self {
            ProtocolPlan::Dast(own) => &mut own.label,
            ProtocolPlan::TwoPhase(own) => &mut own.label,
            ProtocolPlan::Janus(own) => &mut own.label,
            ProtocolPlan::Tapir(own) => &mut own.label,
            ProtocolPlan::Slog(own) => &mut own.label,
        }
    }
}
