//! Transports as a network plan names them.

use super::buffer::BufferPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// What levels divide among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CutoffsPlan {
    /// Bytes on the link, as published.
    Bytes,
    /// Packets, whatever their length.
    Packets,
}

/// Where the least timeout of TCP applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FloorPlan {
    /// To the whole timeout, as RFC 6298 has it.
    Whole,
    /// To its variance term alone, as Linux has it.
    Variance,
}

/// Whose habits a TCP has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LikePlan {
    /// The sender of the specification's simulator [incast 5.1].
    Reference,
    /// Linux 6.18 at 250 Hz: ten segments at first, RACK-TLP by jiffies, undo, timestamps, its
    /// delayed acknowledgements, and 200 ms on the variance.
    Linux,
    /// The same machinery with fine timers, no floor and no delay.
    Fine,
}

/// Where a host that lets its servers send in turn knows from how much at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SchedulePlan {
    /// From round trips, rates and losses.
    Learned,
}

/// How a TCP's window grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CongestionPlan {
    /// RFC 5681 and RFC 6582.
    Newreno,
    /// As NewReno without selective acknowledgements, but the first new acknowledgement ends a
    /// repair, and what else was lost waits for its timer (RFC 2581).
    Reno,
    /// RFC 9438.
    Cubic,
}

/// Whether a TCP asks for marks of switches, and what they mean to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EcnPlan {
    /// It does not: a port that would mark its packets drops them.
    Off,
    /// As losses (RFC 3168).
    Classic,
    /// By their share (RFC 8257).
    Dctcp,
}

/// How a TCP finds losses by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RackPlan {
    /// Not at all.
    Off,
    /// With timers of two jiffies, 8 ms, as Linux.
    Jiffies,
    /// With timers of a microsecond.
    Fine,
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

/// Declares the structs of transports: each has the keys that all with packets have, then its own,
/// all of which may be left out.
macro_rules! transports {
    ($($(#[$about:meta])* $name:ident { $($(#[$says:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Name in tables and plots, different from the others'. Default: the transport's own.
                pub label: Option<String>,
            /// Buffers of the switches under this transport. Default: the network's.
                pub buffer: Option<BufferPlan>,
            $(
                $(#[$says])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: $type,
            )*
        }
    )*};
}

transports! {
    /// Homa.
    HomaPlan {
        /// Which Homa. Default: `sim` for one-way messages, `rc` for questions.
        variant: Option<HomaVariant>,
        /// Priority levels it may use, 1 to 8. Default: 8.
        levels: Option<u8>,
        /// Levels for unscheduled bytes. Default: by the share of bytes that are unscheduled.
        unscheduled_levels: Option<u8>,
        /// Sizes up to which messages have the topmost level, the next, and so on. Default:
        /// computed.
        cutoffs_bytes: Option<Vec<u32>>,
        /// Computed cut-offs give each level so many times what the one above it gets, 0.01 to 100.
        /// Default: 1.
        cutoffs_ratio: Option<f64>,
        /// What computed cut-offs divide. Default: `bytes`.
        cutoffs_by: Option<CutoffsPlan>,
        /// Compare cut-offs with what is left of a message instead of its length. Default: true for
        /// `sim`.
        graduated: Option<bool>,
        /// Most senders that a receiver grants at once, 1 to 64. Default: levels for scheduled
        /// bytes.
        overcommit: Option<u8>,
        /// Raise `overcommit` up to this while the downlink idles. For the variant `sim`. Default:
        /// off.
        overcommit_most: Option<u8>,
        /// Grant only while less than this is on its way to a receiver in all. For the variants
        /// `rc` (default: no bound), `lx` and `cavy` (default: ten round trips' bytes).
        incoming_max_bytes: Option<u32>,
        /// Bytes of a message that are sent without a grant. Default: a round trip's.
        unscheduled_bytes: Option<u32>,
        /// Better level for the last bytes of a message. Default: as the variant has it.
        tail_boost: Option<bool>,
        /// Mark questions when more than this many are open; 0 never. Default: as the variant has
        /// it.
        incast_threshold: Option<u32>,
        /// Bytes of an answer to a marked question that are sent without a grant. Default: 300.
        incast_bytes: Option<u32>,
        /// Let `incast_threshold` find itself by losses. Default: false.
        incast_automatic: Option<bool>,
        /// Repair of losses. Default: none where nothing can be lost.
        recovery: Option<RecoveryPlan>,
        /// Time between two looks at what is silent, microseconds. Default: as the variant has it.
        tick_us: Option<f64>,
        /// Share of the link that the oldest message is granted, 0 to 0.5. Default: as the variant
        /// has it.
        oldest_ratio: Option<f64>,
        /// Credit of a message for its age, as a share of what the link could have carried
        /// meanwhile. Default: 0.
        aging_ratio: Option<f64>,
        /// Messages with so much left are never overtaken for age. Default: 10 000.
        aging_floor_bytes: Option<u32>,
        /// Grant nothing while more than this is on its way here, and less to senders that are
        /// congested. For the variants `rc` and `cavy`. Default: off.
        informed_budget_bytes: Option<u32>,
        /// Learn cut-offs from what arrives, looking so often, milliseconds. Default: off.
        learning_ms: Option<f64>,
    }
    /// RAMCloud's transport before Homa.
    BasicPlan {
        /// Bytes of a message that are sent without a grant. Default: a round trip's.
        unscheduled_bytes: Option<u32>,
        /// Repair of losses. Default: none where nothing can be lost.
        recovery: Option<RecoveryPlan>,
        /// Time between two looks at what is silent, microseconds. Default: as the variant has it.
        tick_us: Option<f64>,
    }
    /// A transport that sends all at once.
    BlindPlan {
        /// Receivers confirm messages with a frame of 84 bytes, and losses are repaired; the
        /// source's has neither. Default: where something can be lost.
        confirm: Option<bool>,
    }
    /// pFabric.
    PfabricPlan {
        /// Window at first, in packets. Default: 12.
        window_packets: Option<u32>,
        /// The least time after which a packet is sent again, microseconds. Default: 45.
        timeout_us: Option<f64>,
    }
    /// pHost.
    PhostPlan {
        /// Window at first, in packets. Default: 8.
        window_packets: Option<u32>,
        /// Messages of at most so many bytes have a level of their own above the others. Default:
        /// those of eight packets.
        short_bytes: Option<u32>,
    }
    /// DCTCP.
    DctcpPlan {
        /// Window at first, in packets. Default: 10.
        window_packets: Option<u32>,
        /// The least time after which a packet is sent again, microseconds. Default: 10 000.
        timeout_us: Option<f64>,
        /// Mark packets that meet so many full packets. Default: 65, in proportion to the rate.
        mark_packets: Option<u32>,
    }
    /// PIAS.
    PiasPlan {
        /// Window at first, in packets. Default: 70.
        window_packets: Option<u32>,
        /// The least time after which a packet is sent again, microseconds. Default: 2000.
        timeout_us: Option<f64>,
        /// Mark packets that meet so many full packets. Default: 65, in proportion to the rate.
        mark_packets: Option<u32>,
        /// Bytes after which a message sinks to the next of eight levels. Default: of equal bytes.
        thresholds_bytes: Option<Vec<u32>>,
    }
    /// TCP.
    TcpPlan {
        /// Whose habits it has where no other key says. Default: `reference`.
        like: Option<LikePlan>,
        /// How the window grows and shrinks. Default: `newreno`.
        congestion: Option<CongestionPlan>,
        /// The window grows also while something else limits what is sent, such as the end of an
        /// answer, as in the simulators that were published. Default: false.
        grows_unused: Option<bool>,
        /// A loss halves the window and not what is under way, as in the simulators that were
        /// published; not with `cubic`. Default: false.
        loss_halves_window: Option<bool>,
        /// Marks of switches. Default: `off`.
        ecn: Option<EcnPlan>,
        /// Ports mark what meets so many full packets, or drop what bears no marks. Default: 65 in
        /// proportion to the rate, but none where `ecn` is off.
        mark_packets: Option<u32>,
        /// Find losses by time, and probe the end of a flight (RFC 8985), with timers in jiffies of
        /// 4 ms or fine ones. Default: `off`, but as `like` has it.
        rack: Option<RackPlan>,
        /// Timestamps with such a tick, microseconds; 0 for none. Default: none, but as `like` has
        /// it.
        timestamps_us: Option<f64>,
        /// Take back timeouts and recoveries that were for nothing. Default: false, but as `like`
        /// has it.
        undo: Option<bool>,
        /// Servers that a host asks send in turn, whole segments, no more at a time than this. Only
        /// the host that asks does anything. Default: off.
        schedule_bytes: Option<u32>,
        /// They send in turn, and the host learns how much at a time. Default: off, or told where
        /// `schedule_bytes` is there.
        schedule: Option<SchedulePlan>,
        /// The least time after which a segment is sent again, microseconds. Default: 200 000.
        rto_min_us: Option<f64>,
        /// Where that least time applies. Default: `whole`.
        rto_floor: Option<FloorPlan>,
        /// The longest such time after doubling, milliseconds. Default: 60 000.
        rto_max_ms: Option<f64>,
        /// That time before a round trip was measured, milliseconds. Default: 1000.
        rto_init_ms: Option<f64>,
        /// Round trips and timers are rounded up to multiples of this, microseconds. Default: 0.
        rto_tick_us: Option<f64>,
        /// Stretch each timeout by up to this share at random, 0 to 1. Default: 0.
        rto_stretch_ratio: Option<f64>,
        /// Doublings are forgotten when anything new is acknowledged, as timestamps allow, and not
        /// only by a segment that was sent once. Default: false.
        rto_forgets_early: Option<bool>,
        /// Segments that a connection may send at first. Default: 3.
        window_packets: Option<u16>,
        /// Acknowledge selectively; without, recovery is NewReno's. Default: true, but false with
        /// `reno`.
        sack: Option<bool>,
        /// Duplicate acknowledgements that say that a segment is lost. Default: 3.
        dupthresh: Option<u8>,
        /// Only what the left edge passes tells a round trip, and not what is there out of order,
        /// as in the simulators that were published. Default: false.
        rto_edge_only: Option<bool>,
        /// Send a new segment on each of the first two duplicates. Default: false.
        limited_transmit: Option<bool>,
        /// Double the window each round trip until the first loss; without, it grows by a segment
        /// from the beginning. Default: true.
        slow_start: Option<bool>,
        /// Start with the first window again after a pause longer than the timeout. Default: true.
        idle_restart: Option<bool>,
        /// Acknowledge single segments so much later, microseconds; 0 for each at once. Default: 0.
        delayed_ack_us: Option<f64>,
        /// A segment that fills a gap is acknowledged as late as any other, as in the simulators
        /// that were published. Default: false.
        delayed_ack_of_fills: Option<bool>,
        /// What a connection keeps for its reader. Default: 4 MiB.
        receive_buffer_bytes: Option<u32>,
        /// Each message opens a connection of its own, and its answer goes back over that one.
        /// Default: false; `connections` are kept.
        new_connections: Option<bool>,
        /// Connections that a host keeps to another one, 1 to 1000: a message takes the one on
        /// which the fewest are under way, and another one is opened while none is free. Answers go
        /// back where their question came. Not with `new_connections`. Default: 1.
        connections: Option<u16>,
    }
    /// NDP.
    NdpPlan {
        /// Window at first, in packets. Default: 10.
        window_packets: Option<u32>,
        /// The least time after which a packet is sent again, microseconds. Default: 5000.
        timeout_us: Option<f64>,
        /// Data packets that a port keeps before it trims. Default: 8.
        trim_packets: Option<u32>,
    }
}

/// A scheduler that knows everything has no packets, and so no buffers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OraclePlan {
    /// Name in tables and plots, different from the others'. Default: the transport's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A transport and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum TransportPlan {
    /// Homa [homa 2].
    Homa(Box<HomaPlan>),
    /// RAMCloud's transport before Homa: one level, everybody is granted [homa 3.1].
    Basic(BasicPlan),
    /// Everything is sent at once, first come first served [homa 3.3].
    Fifo(BlindPlan),
    /// The same, the shortest message of a sender first [homa 3.3].
    Srpt(BlindPlan),
    /// pFabric [homa 3.4].
    Pfabric(PfabricPlan),
    /// pHost [homa 3.5].
    Phost(PhostPlan),
    /// DCTCP [homa 3.6].
    Dctcp(DctcpPlan),
    /// PIAS [homa 3.7].
    Pias(PiasPlan),
    /// NDP [homa 3.8].
    Ndp(NdpPlan),
    /// TCP over real connections, which pairs of hosts keep [incast 2].
    Tcp(Box<TcpPlan>),
    /// A scheduler that knows everything and costs nothing [homa 3.10].
    Oracle(OraclePlan),
}

impl TransportPlan {
    /// Name in tables and plots when no label is given.
    pub fn name(&self) -> &'static str {
        match self {
            TransportPlan::Homa(_) => "Homa",
            TransportPlan::Basic(_) => "Basic",
            TransportPlan::Fifo(_) => "FIFO",
            TransportPlan::Srpt(_) => "SRPT sender",
            TransportPlan::Pfabric(_) => "pFabric",
            TransportPlan::Phost(_) => "pHost",
            TransportPlan::Dctcp(_) => "DCTCP",
            TransportPlan::Pias(_) => "PIAS",
            TransportPlan::Ndp(_) => "NDP",
            TransportPlan::Tcp(_) => "TCP",
            TransportPlan::Oracle(_) => "oracle",
        }
    }

    /// The label it was given.
    pub fn given_label(&mut self) -> &mut Option<String> {
        match self {
            TransportPlan::Homa(own) => &mut own.label,
            TransportPlan::Basic(own) => &mut own.label,
            TransportPlan::Fifo(own) | TransportPlan::Srpt(own) => &mut own.label,
            TransportPlan::Pfabric(own) => &mut own.label,
            TransportPlan::Phost(own) => &mut own.label,
            TransportPlan::Dctcp(own) => &mut own.label,
            TransportPlan::Pias(own) => &mut own.label,
            TransportPlan::Ndp(own) => &mut own.label,
            TransportPlan::Tcp(own) => &mut own.label,
            TransportPlan::Oracle(own) => &mut own.label,
        }
    }

    /// Name in tables and plots.
    pub fn label(&self) -> String {
        let label = self.clone().given_label().take();
        label.unwrap_or_else(|| self.name().to_string())
    }

    /// Buffers of the switches under this transport, if it says.
    pub fn buffer(&self) -> Option<&BufferPlan> {
        match self {
            TransportPlan::Homa(own) => own.buffer.as_ref(),
            TransportPlan::Basic(own) => own.buffer.as_ref(),
            TransportPlan::Fifo(own) | TransportPlan::Srpt(own) => own.buffer.as_ref(),
            TransportPlan::Pfabric(own) => own.buffer.as_ref(),
            TransportPlan::Phost(own) => own.buffer.as_ref(),
            TransportPlan::Dctcp(own) => own.buffer.as_ref(),
            TransportPlan::Pias(own) => own.buffer.as_ref(),
            TransportPlan::Ndp(own) => own.buffer.as_ref(),
            TransportPlan::Tcp(own) => own.buffer.as_ref(),
            TransportPlan::Oracle(_) => None,
        }
    }
}
