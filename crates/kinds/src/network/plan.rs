//! Network plans as they are written.

use super::buffer::BufferPlan;
use super::contestant::TransportPlan;
use super::traffic::TrafficPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Messages on a network, and the transports that carry them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// Nominal load: what messages, headers and grants put on a host's link, as a ratio of its rate
    /// [homa 4.2]; where some hosts receive more than others, on the busiest link. Above 0, at most
    /// 2. Traces and closed loops (incast, echo, blocks) have no load.
    #[serde(default = "default_load")]
    pub load: f64,
    /// Hosts, switches and links.
    pub network: FabricPlan,
    /// How long messages are: exactly one of its `workload`, `cdf`, `trace` and `sizes`. Not for
    /// traces, incast, echo and blocks, which say it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesPlan>,
    /// Who sends to whom, and when.
    #[serde(default)]
    pub traffic: TrafficPlan,
    /// A workload that changes: phases follow each other from the start, and the run ends with the
    /// last. Transports are configured for `messages`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<NetPhasePlan>,
    /// Several classes of traffic at once, instead of `messages` and `traffic`, each with its own
    /// percentiles. Transports are set up for all of their messages together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassPlan>,
    /// The transports to compare.
    pub transports: Vec<TransportPlan>,
    /// How long a replication is, and what is measured in it.
    #[serde(default)]
    pub run: NetRunPlan,
    /// What a live run of blocks measures, and for how long. The lab does not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LivePlan>,
}

fn default_load() -> f64 {
    0.8
}

/// What a live run of blocks measures, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LivePlan {
    /// Length of a measurement, 0.1 to 3600; twice that where timers of 200 ms are waited for.
    pub seconds: f64,
    /// Who is measured, with how many servers. Default: all ways, with the numbers of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<LiveCells>,
}

impl Default for LivePlan {
    fn default() -> Self {
        LivePlan { seconds: 6.0, cells: Vec::new() }
    }
}

/// Ways that are measured live, with the same numbers of servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LiveCells {
    /// Who sends and who receives, as `cavy live tcp study --ways` names them. Default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<String>,
    /// Numbers of servers, 1 to 256; more than 16 share the hosts. Default: those of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<u16>,
    /// At this rate only. Default: at each of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_gbps: Option<f64>,
    /// Blocks of so many bytes. Default: those of `traffic.block_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u64>,
}

/// A part of a workload that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetPhasePlan {
    /// How long it lasts.
    pub duration_ms: f64,
    /// How long messages are meanwhile. Default: as `messages` of the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesPlan>,
    /// Nominal load meanwhile. Default: the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
}

/// One class of traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassPlan {
    /// Its name, different from the others'.
    pub name: String,
    /// Its share of the load, above 0; the shares add up to 1 within 1e-6.
    pub load_share: f64,
    /// How long its messages are.
    pub messages: MessagesPlan,
    /// Who sends to whom, and when: any pattern that has a load. All classes ask, or none.
    #[serde(default)]
    pub traffic: TrafficPlan,
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
    /// Hosts, from 2. `star`, `links`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// Switches. `links`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<u32>,
    /// Racks, each with a switch that is linked to every spine. `leaf_spine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub racks: Option<u32>,
    /// Hosts of each rack. `leaf_spine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts_per_rack: Option<u32>,
    /// Switches that join the racks. `leaf_spine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spines: Option<u32>,
    /// Rate of a host's link in Gb/s, 0.001 to 8000.
    #[serde(default = "default_host_gbps")]
    pub host_gbps: f64,
    /// Rate of that link from the switch to the host, where it is another one than that to the
    /// switch. `star`, `leaf_spine`. Load is that of the slower direction, and transports are set
    /// up for it. Default: `host_gbps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_down_gbps: Option<f64>,
    /// Rate of a link between rack and spine in Gb/s. `leaf_spine`. Default: four times
    /// `host_gbps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spine_gbps: Option<f64>,
    /// The links. Every host has exactly one, and there is a way between any two. `links`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkPlan>,
    /// Time that a bit takes along a link, microseconds.
    #[serde(default)]
    pub propagation_us: f64,
    /// A CSV file, relative to the plan, with the columns `host` and `rtt_us`: how long a short
    /// packet takes from the first host, `h0`, to this one and back while nothing else is under
    /// way. What the plan's own links, switch and hosts do not take of it is added to the host's
    /// link; a host that is absent has `propagation_us` alone. `star`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<String>,
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
    /// Processor of a receiver, microseconds a packet, which the next packet waits for. Default: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host_receive_each_us: f64,
    /// How late the sleeping thread of a host looks at packets, messages to send and timers,
    /// microseconds: values of equal likelihood, at most 10 000 of them, such as quantiles of
    /// `Server::lag` of the live endpoint. What comes before it looks is seen at the same time.
    /// Default: none, it looks at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_wakes_us: Vec<f64>,
    /// What that thread takes to send what came of one look, beyond `host_send_us`, microseconds:
    /// values of equal likelihood. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_sends_us: Vec<f64>,
    /// Packets that a sender's card takes at once, the one on the link included, 1 to 1000: what it
    /// holds goes in order, and a transport cannot put anything before it. Default: 1.
    #[serde(default = "default_nic_packets", skip_serializing_if = "is_one")]
    pub host_nic_packets: u32,
    /// What packets are on the wire besides headers and payload.
    #[serde(default)]
    pub framing: FramingPlan,
    /// Which of several ways a packet takes. Default: as the transport needs; all spray but DCTCP
    /// and PIAS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingPlan>,
    /// What switches can keep: `"unlimited"`, `{ per_port_bytes = n }` or
    /// `{ shared_bytes = n, alpha = 1 }`, at least a full frame. Default: as the transport needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferPlan>,
    /// What of a packet takes room in a buffer. Default: `frames`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_counts: Option<CountingPlan>,
    /// Share of packets that are lost at random, 0 to 0.5.
    #[serde(default)]
    pub loss_ratio: f64,
    /// Hosts that start later than the others, which are there from the beginning. Packets that
    /// reach a host before are lost; closed loops begin when their client starts, and what other
    /// applications would have sent before is not sent. Not for traces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartPlan>,
}

impl FabricPlan {
    /// How many hosts there are, where the plan says so.
    pub(super) fn hosts_known(&self) -> Option<u32> {
        match self.topology {
            TopologyName::Star | TopologyName::Links => self.hosts,
            TopologyName::LeafSpine => self.racks?.checked_mul(self.hosts_per_rack?),
        }
    }
}

/// What of a packet takes room in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountingPlan {
    /// All but 20 bytes of preamble and gap, of packets that wait.
    Frames,
    /// All bytes on the wire, of packets that wait and of the one being sent [incast 5.1].
    Everything,
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

// Keys that came later are left out where they say nothing, so that results kept from before are
// found.

fn is_one(packets: &u32) -> bool {
    *packets == 1
}

fn is_zero(us: &f64) -> bool {
    *us == 0.0
}

fn default_host_us() -> f64 {
    0.5
}

impl FabricPlan {
    /// Whether packets are lost elsewhere than at full ports.
    pub fn loses(&self) -> bool {
        let some = |link: &LinkPlan| link.loss_ratio.is_some_and(|ratio| ratio > 0.0);
        self.loss_ratio > 0.0 || self.links.iter().any(some) || !self.starts.is_empty()
    }
}

/// A host that starts later than others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartPlan {
    /// Which host: `h0` is the first.
    pub host: String,
    /// When, microseconds, above 0 and at most 1e8.
    pub at_us: f64,
}

/// A link of any graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// One end: `h0` is the first host, `s0` the first switch.
    pub from: String,
    /// The other end.
    pub to: String,
    /// Rate in Gb/s. Default: `host_gbps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gbps: Option<f64>,
    /// Rate from `to` to `from` in Gb/s. Default: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_gbps: Option<f64>,
    /// Time that a bit takes, microseconds. Default: that of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation_us: Option<f64>,
    /// Share of packets that it loses at random, in each direction, 0 to 0.5. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Each packet is later by any time up to this, microseconds; none overtakes another by that.
    /// Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<f64>,
    /// Share of packets that are later by a spike, which holds up what follows, 0 to 0.5.
    /// Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spike_ratio: Option<f64>,
    /// The shortest and the longest spike, microseconds. Default: `[0, 0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spike_us: Option<[f64; 2]>,
    /// Share of packets that are late alone, by `overtaking_us`, so that what is sent meanwhile
    /// overtakes them, 0 to 0.5. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtaking_ratio: Option<f64>,
    /// How late these are, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overtaking_us: Option<f64>,
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

/// How long messages are: exactly one of `workload`, `cdf`, `trace` and `sizes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessagesPlan {
    /// A published distribution [homa 4.1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadName>,
    /// Bytes of the packets that W5 is counted in; 1442 in the source's simulations. Only for W5.
    /// Default: 1470, as on its cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<u32>,
    /// A CSV file with columns `bytes` and `cumulative`, relative to the plan. Sizes rise, the last
    /// cumulative is 1, and sizes between rows do not occur.
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

/// How long a replication is, and what is measured in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetRunPlan {
    /// Messages submitted in this time count, milliseconds. Echo lasts as long as its questions.
    /// Default: 10, where `messages` is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// So many messages count in each replication, all hosts together, instead of `duration_ms`: as
    /// many at every load, at least 100. Not for incast and echo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Messages before that do not, milliseconds. Default: a quarter of the time that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_ms: Option<f64>,
    /// Wait so long at most for messages to end, milliseconds. Default: both together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_ms: Option<f64>,
    /// Measure each transport's own best time as well, for the second denominator of slowdown.
    pub own_best: bool,
    /// Compute least times as the source's simulator does, without the switch within a rack
    /// [homa 4.3].
    pub ideal_without_latency_in_rack: bool,
    /// Find out what short messages (the smaller half, of one packet) near the 99th percentile wait
    /// for [homa 5.8].
    pub tail_sources: bool,
    /// Packets under way at most, in millions, 0.001 to 8; a run that has more is unstable.
    pub packets_max_millions: f64,
    /// Slowdown over time, in steps of so many milliseconds. For phases. Default: off.
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
            own_best: true,
            ideal_without_latency_in_rack: false,
            tail_sources: true,
            packets_max_millions: 1.0,
            timeline_ms: None,
        }
    }
}
