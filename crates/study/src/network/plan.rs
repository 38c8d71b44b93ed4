//! Network plans as they are written.

use crate::plan::SweepPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An experiment on a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// Headline of the report.
    pub title: String,
    /// One or two sentences under the headline.
    #[serde(default)]
    pub summary: String,
    /// Nominal load: what messages, headers and grants put on a host's link, as a ratio of its rate
    /// [homa 4.2]. Above 0, at most 2. Incast and echo have no load.
    #[serde(default = "default_load")]
    pub load: f64,
    /// Hosts, switches and links.
    pub network: FabricPlan,
    /// How long messages are. Not for incast and echo, which say it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesPlan>,
    /// Who sends to whom, and when.
    #[serde(default)]
    pub traffic: TrafficPlan,
    /// A workload that changes: phases follow each other from the start, and the run ends with the
    /// last. Transports are configured for `messages`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<NetPhasePlan>,
    /// The transports to compare.
    pub transports: Vec<TransportPlan>,
    /// Label of the transport the others are compared with; the first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// What to vary: a key of this plan, such as `load` or `transports.Homa.overcommit`, and values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, SweepPlan>,
    /// What is good enough: `p99_slowdown <= 4 for smallest 50%`, `p99_us <= 200`, or `stable`. For
    /// each the highest load that every transport sustains is found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<String>,
    /// How much to simulate.
    #[serde(default)]
    pub run: NetRunPlan,
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

/// A part of a workload that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetPhasePlan {
    /// How long it lasts.
    pub duration_ms: f64,
    /// How long messages are meanwhile; as `messages` says when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesPlan>,
    /// Nominal load meanwhile; the plan's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
}

/// What the layers below add to a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FramingPlan {
    /// Ethernet: 38 bytes with preamble and gap, and 84 at least.
    #[default]
    Ethernet,
    /// Ethernet without IP and UDP, as on the source's cluster.
    RawEthernet,
    /// Nothing below IP, as in the simulators of pFabric, pHost and PIAS.
    Ip,
}

/// What levels divide among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CutoffsPlan {
    /// Bytes on the link, as published.
    Bytes,
    /// Packets, whatever their length.
    Packets,
}

/// Shapes of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TopologyName {
    /// `racks` switches with `hosts_per_rack` hosts each, all linked to each of `spines` switches.
    LeafSpine,
    /// `hosts` hosts around one switch.
    Star,
    /// Any graph: `hosts`, `switches` and `[[network.links]]`.
    Links,
}

/// Hosts, switches and links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricPlan {
    /// Which shape.
    pub topology: TopologyName,
    /// Hosts. `star`, `links`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// Switches. `links`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<u32>,
    /// Racks, each with a switch. `leaf_spine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub racks: Option<u32>,
    /// Hosts of each rack. `leaf_spine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts_per_rack: Option<u32>,
    /// Switches that join the racks. `leaf_spine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spines: Option<u32>,
    /// Rate of a host's link in Gb/s.
    #[serde(default = "default_host_gbps")]
    pub host_gbps: f64,
    /// Rate of a link between switches in Gb/s; four times `host_gbps` when absent. `leaf_spine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spine_gbps: Option<f64>,
    /// The links. `links`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkPlan>,
    /// Time that a bit takes along a link, microseconds.
    #[serde(default)]
    pub propagation_us: f64,
    /// Time from when a packet is in a switch to when it is in a queue, microseconds.
    #[serde(default = "default_switch_latency_us")]
    pub switch_latency_us: f64,
    /// Software of a sender, microseconds a packet.
    #[serde(default = "default_host_us")]
    pub host_send_us: f64,
    /// Network card of a sender, microseconds a packet.
    #[serde(default = "default_host_us")]
    pub host_nic_us: f64,
    /// Software of a receiver, microseconds a packet.
    #[serde(default = "default_host_us")]
    pub host_receive_us: f64,
    /// Processor of a receiver, microseconds a packet, which the next packet waits for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host_receive_each_us: f64,
    /// How late the sleeping thread of a host looks at what has come for it, microseconds: values of equal
    /// likelihood. What comes before it looks is seen at the same time. Without any it looks at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_wakes_us: Vec<f64>,
    /// What that thread takes to send what came of one look, beyond `host_send_us`, microseconds: values of
    /// equal likelihood.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_sends_us: Vec<f64>,
    /// Packets that a sender's card takes at once, the one on the link included: what it holds goes in
    /// order, and a transport cannot put anything before it.
    #[serde(default = "default_nic_packets", skip_serializing_if = "is_one")]
    pub host_nic_packets: u32,
    /// What packets are on the wire besides headers and payload.
    #[serde(default)]
    pub framing: FramingPlan,
    /// Which of several ways a packet takes; what each protocol was made for when absent: all spray
    /// but DCTCP and PIAS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingPlan>,
    /// What switches can keep; what each protocol was made for when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferPlan>,
    /// Share of packets that are lost at random.
    #[serde(default)]
    pub loss_ratio: f64,
}

fn default_host_gbps() -> f64 {
    10.0
}

fn default_switch_latency_us() -> f64 {
    0.25
}

fn default_nic_packets() -> u32 {
    1
}

// Keys that came later are left out where they say nothing, so that results kept from before are found.

fn is_one(packets: &u32) -> bool {
    *packets == 1
}

fn is_zero(us: &f64) -> bool {
    *us == 0.0
}

fn default_host_us() -> f64 {
    0.5
}

/// A link of any graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// One end: `h0` is the first host, `s0` the first switch.
    pub from: String,
    /// The other end.
    pub to: String,
    /// Rate in Gb/s; `host_gbps` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gbps: Option<f64>,
    /// Time that a bit takes, microseconds; `propagation_us` of the network when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation_us: Option<f64>,
}

/// Which of several shortest ways a packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoutingPlan {
    /// Each packet a random one.
    Spray,
    /// All packets of a message the same one.
    FlowHash,
}

/// What switches can keep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected \"unlimited\", { per_port_bytes = 300000 } or { shared_bytes = 12000000, alpha = 1 }"
)]
pub enum BufferPlan {
    /// In a word.
    Word(BufferWord),
    /// So much at each port.
    PerPort(PerPortPlan),
    /// So much for all ports of a switch.
    Shared(SharedPlan),
}

/// Buffers in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BufferWord {
    /// Everything is kept.
    Unlimited,
}

/// A buffer at each port.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerPortPlan {
    /// Its size; at least one full frame.
    pub per_port_bytes: u64,
}

/// One memory for all ports of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedPlan {
    /// Its size; at least one full frame.
    pub shared_bytes: u64,
    /// A port may hold so many times what is free.
    #[serde(default = "default_alpha")]
    pub alpha: f64,
}

fn default_alpha() -> f64 {
    1.0
}

/// How long messages are; exactly one of `workload`, `cdf`, `trace` and `sizes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessagesPlan {
    /// A published distribution [homa 4.1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadName>,
    /// Bytes of the packets that W5 is counted in: 1470 when absent, as on the source's cluster; 1442 in its
    /// simulations. Only for W5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<u32>,
    /// A CSV file with columns `bytes` and `cumulative`, relative to the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdf: Option<String>,
    /// A CSV file with one line a message, relative to the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Column of `trace` with the sizes in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// A distribution by its law.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<SizesPlan>,
    /// Shorter messages become so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u32>,
    /// Longer messages become so short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u32>,
}

/// Published distributions of message sizes [homa 4.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WorkloadName {
    /// Facebook memcached, mean 188 bytes.
    W1,
    /// Google web search, mean 441 bytes.
    W2,
    /// All RPCs of a Google data center, mean 2.9 kB.
    W3,
    /// Facebook Hadoop, mean 128 kB.
    W4,
    /// Web search as measured for DCTCP, mean 2.6 MB.
    W5,
}

/// Laws of message sizes. They are cut into 200 sizes of equal probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "dist",
    rename_all = "snake_case",
    deny_unknown_fields,
    expecting = "a distribution such as { dist = \"lognormal\", mean_bytes = 2000, sigma = 2 }"
)]
pub enum SizesPlan {
    /// Always the same.
    Constant {
        /// The size.
        bytes: u32,
    },
    /// Anything between two sizes.
    Uniform {
        /// The least.
        low_bytes: u32,
        /// The most.
        high_bytes: u32,
    },
    /// The logarithm is normal.
    Lognormal {
        /// Mean of the size itself.
        mean_bytes: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// A power law.
    Pareto {
        /// Mean of the law before `max_bytes` of the messages cuts it off.
        mean_bytes: f64,
        /// Tail index, above 1; the smaller the heavier the tail.
        shape: f64,
    },
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Every host to every other, one-way.
    #[default]
    AllToAll,
    /// Every host always to the same other one, one-way.
    Permutation,
    /// The first `clients` hosts ask the next `servers` hosts, which answer as much.
    Rpc,
    /// One client keeps `concurrent` questions under way to all other hosts.
    Incast,
    /// One client asks one server, one question at a time, `repeats` times for each of `sizes_bytes`.
    Echo,
}

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

/// Who sends to whom, and when. Keys of other patterns are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficPlan {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// When. Not for `incast` and `echo`.
    pub arrivals: ArrivalsName,
    /// Standard deviation of near-periodic gaps over their mean, 0 to 0.57.
    pub variation: f64,
    /// Draw sizes so that short runs have the load they should have [homa 4.4].
    pub stratified: bool,
    /// Hosts that ask. `rpc`; half of them when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Hosts that answer. `rpc`; all that do not ask when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// Questions under way at a time. `incast`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent: Option<u32>,
    /// Length of a question. `incast`; 100 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_bytes: Option<u32>,
    /// Length of an answer. `incast`; 10 000 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_bytes: Option<u32>,
    /// Sizes of questions, and of their answers. `echo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes_bytes: Option<Vec<u32>>,
    /// Questions of each size. `echo`; 100 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
}

impl Default for TrafficPlan {
    fn default() -> Self {
        TrafficPlan {
            pattern: Pattern::AllToAll,
            arrivals: ArrivalsName::Poisson,
            variation: 0.01,
            stratified: true,
            clients: None,
            servers: None,
            concurrent: None,
            question_bytes: None,
            answer_bytes: None,
            sizes_bytes: None,
            repeats: None,
        }
    }
}

/// The transports there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransportName {
    /// Homa [homa 2].
    Homa,
    /// RAMCloud's transport before Homa: one level, everybody is granted [homa 3.1].
    Basic,
    /// Everything is sent at once, first come first served [homa 3.3].
    Fifo,
    /// The same, the shortest message of a sender first [homa 3.3].
    Srpt,
    /// pFabric [homa 3.4].
    Pfabric,
    /// pHost [homa 3.5].
    Phost,
    /// DCTCP [homa 3.6].
    Dctcp,
    /// PIAS [homa 3.7].
    Pias,
    /// NDP [homa 3.8].
    Ndp,
    /// A scheduler that knows everything and costs nothing [homa 3.10].
    Oracle,
}

impl TransportName {
    /// Name in tables and plots.
    pub fn label(self) -> &'static str {
        match self {
            TransportName::Homa => "Homa",
            TransportName::Basic => "Basic",
            TransportName::Fifo => "FIFO",
            TransportName::Srpt => "SRPT sender",
            TransportName::Pfabric => "pFabric",
            TransportName::Phost => "pHost",
            TransportName::Dctcp => "DCTCP",
            TransportName::Pias => "PIAS",
            TransportName::Ndp => "NDP",
            TransportName::Oracle => "oracle",
        }
    }
}

/// The published Homas, and ours [homa 2.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HomaVariant {
    /// The simulations of the paper. One-way messages only.
    Sim,
    /// The paper's cluster.
    Rc,
    /// The Linux module.
    Lx,
    /// Ours.
    Cavy,
}

/// How losses are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryPlan {
    /// Not at all.
    None,
    /// After ticks of a timer, as all published Homas do.
    Ticks,
    /// After a few round trips [homa 8.2].
    RoundTrips,
}

/// A transport and its parameters; those of other transports are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransportPlan {
    /// Which.
    pub transport: TransportName,
    /// Name in tables and plots; the transport's own when absent. Must differ from the others'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Buffers of the switches under this transport, instead of the network's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferPlan>,
    /// Which Homa. `homa`; `sim` for one-way messages, `rc` for questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<HomaVariant>,
    /// Priority levels it may use, 1 to 8. `homa`; 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<u8>,
    /// Levels for unscheduled bytes. `homa`; by the share of bytes that are unscheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unscheduled_levels: Option<u8>,
    /// Sizes up to which messages have the topmost level, the next, and so on. `homa`; computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoffs_bytes: Option<Vec<u32>>,
    /// Computed cut-offs give each level so many times what the one above it gets, 0.01 to 100. `homa`; 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoffs_ratio: Option<f64>,
    /// What computed cut-offs divide. `homa`; `bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoffs_by: Option<CutoffsPlan>,
    /// Compare cut-offs with what is left of a message instead of its length. `homa`; true for `sim`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graduated: Option<bool>,
    /// Most senders that a receiver grants at once, 1 to 64. `homa`; levels for scheduled bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overcommit: Option<u8>,
    /// Raise `overcommit` up to this while the downlink idles. `homa` variant `sim`; off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overcommit_most: Option<u8>,
    /// Grant only while less than this is on its way to a receiver in all. `homa` variants `rc` (no
    /// bound), `lx` and `cavy` (ten round trips' bytes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming_max_bytes: Option<u32>,
    /// Bytes of a message that are sent without a grant. `homa`, `basic`; a round trip's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unscheduled_bytes: Option<u32>,
    /// Better level for the last bytes of a message. `homa`; as the variant has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_boost: Option<bool>,
    /// Mark questions when more than this many are open; 0 never. `homa`; as the variant has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast_threshold: Option<u32>,
    /// Bytes of an answer to a marked question that are sent without a grant. `homa`; 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast_bytes: Option<u32>,
    /// Let `incast_threshold` find itself by losses. `homa`; false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast_automatic: Option<bool>,
    /// Repair of losses. `homa`, `basic`; none where nothing can be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryPlan>,
    /// Time between two looks at what is silent, microseconds. `homa`, `basic`; as the variant has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_us: Option<f64>,
    /// Share of the link that the oldest message is granted, 0 to 0.5. `homa`; as the variant has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ratio: Option<f64>,
    /// Credit of a message for its age, as a share of what the link could have carried meanwhile.
    /// `homa`; 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aging_ratio: Option<f64>,
    /// Messages with so much left are never overtaken for age. `homa`; 10 000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aging_floor_bytes: Option<u32>,
    /// Grant nothing while more than this is on its way here, and less to senders that are congested.
    /// `homa` variants `rc`, `cavy`; off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub informed_budget_bytes: Option<u32>,
    /// Learn cut-offs from what arrives, looking so often, milliseconds. `homa`; off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_ms: Option<f64>,
    /// Window at first, in packets. `pfabric` 12, `phost` 8, `dctcp` 10, `pias` 70, `ndp` 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_packets: Option<u32>,
    /// The least time after which a packet is sent again, microseconds. `pfabric` 45, `dctcp` 10 000,
    /// `pias` 2000, `ndp` 5000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_us: Option<f64>,
    /// Mark packets that meet so many full packets. `dctcp`, `pias`; 65, in proportion to the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_packets: Option<u32>,
    /// Bytes after which a message sinks to the next of eight levels. `pias`; of equal bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds_bytes: Option<Vec<u32>>,
    /// Messages of at most so many bytes have a level of their own above the others. `phost`; those of
    /// eight packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_bytes: Option<u32>,
    /// Data packets that a port keeps before it trims. `ndp`; 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim_packets: Option<u32>,
}

impl TransportPlan {
    /// Name in tables and plots.
    pub fn label(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.transport.label().to_string())
    }
}

/// How much to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetRunPlan {
    /// Messages submitted in this time count, milliseconds; 10 when neither this nor `messages` is
    /// given. Echo lasts as long as its questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// So many messages count in each replication, all hosts together, instead of `duration_ms`: as
    /// many at every load. Not for incast and echo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Messages before that do not; a quarter of the time that counts when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_ms: Option<f64>,
    /// Wait so long at most for messages to end; as long as both together when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_ms: Option<f64>,
    /// Independent replications of each point.
    pub replications: u32,
    /// Root of all random streams.
    pub seed: u64,
    /// Measure each transport's own best time as well, for the second denominator of slowdown.
    pub own_best: bool,
    /// Compute least times as the source's simulator does, without the switch within a rack
    /// [homa 4.3].
    pub ideal_without_latency_in_rack: bool,
    /// Find out what short messages (the smaller half, of one packet) near the 99th percentile wait for
    /// [homa 5.8].
    pub tail_sources: bool,
    /// Packets under way at most, in millions; a run that has more is unstable.
    pub packets_max_millions: f64,
    /// Bisect the capacity to this distance in load.
    pub capacity_step: f64,
    /// Slowdown over time, in steps of so many milliseconds. For phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline_ms: Option<f64>,
}

impl Default for NetRunPlan {
    fn default() -> Self {
        NetRunPlan {
            duration_ms: None,
            messages: None,
            warmup_ms: None,
            drain_ms: None,
            replications: 3,
            seed: 1,
            own_best: true,
            ideal_without_latency_in_rack: false,
            tail_sources: true,
            packets_max_millions: 1.0,
            capacity_step: 0.02,
            timeline_ms: None,
        }
    }
}

/// The JSON schema of a network plan, from the structs that read it.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(NetworkPlan).to_value()
}
