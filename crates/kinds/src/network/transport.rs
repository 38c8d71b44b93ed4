//! From a plan to a transport with the queues its protocol requires.
//!
//! Published constants are for 10 Gb/s and a round trip of 8 us. On a network with a longer round
//! trip or more bytes in one, windows, buffers and timeouts grow with it; they never shrink below
//! what was published.

use super::buffer::buffer;
use super::contestant::{
    BasicPlan, CutoffsPlan, DctcpPlan, EcnPlan, HomaPlan, HomaVariant, PiasPlan, RecoveryPlan,
    TransportPlan,
};
use super::plan::WorkloadName;
use super::surroundings::Surroundings;
use cavy_core::Span;
use cavy_homa::config::{
    Adaptive, ClassedBy, Granting, Incast, Informed, Learning, OldestGrants, Order as HomaOrder,
    Publish, Quick, Recovery, TailBoost,
};
use cavy_homa::cutoffs::{Packing, Shared, Shares, static_cutoffs};
use cavy_homa::packet::Layout;
use cavy_homa::rivals::{self, FRAME_BYTES, blast, dctcp, ndp, pfabric, phost, pias};
use cavy_homa::{Config, Cutoffs, Homa};
use cavy_lab::net::{Buffer, Network, Order, Routing};
use cavy_study::plan::PlanError;
use cavy_workload::sizes::Framing;

/// Bytes that a full frame takes in a buffer: without preamble and gap.
const BUFFERED_FRAME: u32 = FRAME_BYTES - 20;
/// Header of the simulator's data packets that were granted [homa 4.4].
const SIMULATOR_SCHEDULED_HEADER_BYTES: u32 = 16;
/// Full packets of the published round trip.
const RTT_PACKETS: u32 = 7;

/// A transport, ready to be made for each host.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Homa, or Basic.
    Homa(Box<Config>),
    /// FIFO or SRPT blast.
    Blast(blast::Config),
    /// pFabric.
    PFabric(pfabric::Config),
    /// pHost.
    PHost(phost::Config),
    /// DCTCP.
    Dctcp(dctcp::Config),
    /// PIAS.
    Pias(pias::Config),
    /// NDP.
    Ndp(ndp::Config),
    /// TCP.
    Tcp {
        /// Of each host.
        config: Box<cavy_tcp::Config>,
        /// Connections that a host keeps to another one; none where each message has its own.
        kept: u16,
    },
    /// The oracle.
    Oracle,
}

/// Builds the transport of `plan`.
pub fn transport(plan: &TransportPlan, around: &Surroundings<'_>) -> Result<Transport, PlanError> {
    let label = plan.label();
    let patience = around.patience();
    let timeout = |us: Option<f64>| us.map(|us| time(&label, "timeout_us", us)).transpose();
    let blind = |order, confirm: Option<bool>| {
        // Long enough that a queue is not taken for a loss, where nothing is lost.
        let lossless = !around.lossy && !around.buffer_given;
        let silence = if lossless { patience } else { around.slowed(5_000.0) };
        let confirm = confirm.unwrap_or(!lossless);
        Transport::Blast(blast::Config { order, confirm, silence, patience })
    };
    let built = match plan {
        TransportPlan::Homa(own) => {
            let builder = HomaBuilder { plan: own, is_basic: false, around, label: label.clone() };
            Transport::Homa(Box::new(builder.build()?))
        }
        TransportPlan::Basic(BasicPlan { unscheduled_bytes, recovery, tick_us, .. }) => {
            let (unscheduled_bytes, recovery, tick_us) = (*unscheduled_bytes, *recovery, *tick_us);
            let plan = &HomaPlan { unscheduled_bytes, recovery, tick_us, ..HomaPlan::default() };
            let builder = HomaBuilder { plan, is_basic: true, around, label: label.clone() };
            Transport::Homa(Box::new(builder.build()?))
        }
        TransportPlan::Fifo(own) => blind(blast::Order::Submission, own.confirm),
        TransportPlan::Srpt(own) => blind(blast::Order::Shortest, own.confirm),
        TransportPlan::Pfabric(own) => {
            let most = around.grown(15).min(64);
            let window = own.window_packets.unwrap_or(around.grown(12)).min(64);
            Transport::PFabric(pfabric::Config {
                window_packets: window,
                window_max_packets: most.max(window),
                timeout: timeout(own.timeout_us)?.unwrap_or(around.slowed(45.0)),
                patience,
            })
        }
        TransportPlan::Phost(own) => Transport::PHost(phost::Config {
            link_bits_per_s: around.fabric.host_bits_per_s,
            frame_bytes: around.frame_bytes(),
            free_tokens_packets: around.grown(8).min(64),
            window_packets: own.window_packets.unwrap_or(around.grown(8)),
            short_bytes: own.short_bytes.unwrap_or(around.grown(8) * rivals::PAYLOAD_BYTES),
            announce: around.slowed(200.0),
            patience,
            ..phost::Config::default()
        }),
        TransportPlan::Dctcp(DctcpPlan { window_packets, timeout_us, .. }) => {
            let plain = dctcp::Config::default();
            Transport::Dctcp(dctcp(*window_packets, plain, timeout(*timeout_us)?, patience))
        }
        TransportPlan::Pias(own) => {
            let plain = pias::Config::default().dctcp;
            Transport::Pias(pias::Config {
                dctcp: dctcp(own.window_packets, plain, timeout(own.timeout_us)?, patience),
                thresholds: thresholds(own, &label, around)?,
            })
        }
        TransportPlan::Ndp(own) => Transport::Ndp(ndp::Config {
            window_packets: own.window_packets.unwrap_or(around.grown(10)),
            link_bits_per_s: around.fabric.host_bits_per_s,
            frame_bytes: around.frame_bytes(),
            timeout: timeout(own.timeout_us)?.unwrap_or(around.slowed(5_000.0)),
            patience,
        }),
        TransportPlan::Tcp(own) => Transport::Tcp {
            config: Box::new(super::tcp::config(own, &label, around)?),
            kept: super::tcp::kept(own, &label)?,
        },
        TransportPlan::Oracle(_) => Transport::Oracle,
    };
    built.check().map_err(|why| PlanError::text(format!("transport `{label}`: {why}")))?;
    Ok(built)
}

impl Transport {
    /// Can it be made?
    fn check(&self) -> Result<(), String> {
        let words = |why: &dyn std::fmt::Display| Err(why.to_string());
        match self {
            Transport::Homa(config) => Homa::new(config).map(|_| ()).or_else(|e| words(&e)),
            Transport::Blast(config) => config.check().or_else(|e| words(&e)),
            Transport::PFabric(config) => config.check().or_else(|e| words(&e)),
            Transport::PHost(config) => config.check().or_else(|e| words(&e)),
            Transport::Dctcp(config) => config.check().or_else(|e| words(&e)),
            Transport::Pias(config) => pias::Pias::new(*config).map(|_| ()).or_else(|e| words(&e)),
            Transport::Ndp(config) => config.check().or_else(|e| words(&e)),
            Transport::Tcp { config, .. } => config.check().or_else(|e| words(&e)),
            Transport::Oracle => Ok(()),
        }
    }
}

/// What the data of a transport are on the wire at the least, without grants and all else that it
/// sends. `None` where that cannot be told from the sizes of messages: a segment of TCP may carry
/// several, and the oracle has no packets.
pub fn data_framing(transport: &Transport, network: &Network) -> Option<Framing> {
    let framing = &network.framing;
    let beside = framing.ip_udp_bytes + framing.ethernet_bytes;
    let (unscheduled_bytes, unscheduled_packet, scheduled_packet) = match transport {
        Transport::Homa(config) => {
            let scheduled = match config.layout {
                Layout::Linux => Layout::Linux.unscheduled_header_bytes(),
                Layout::Simulator => SIMULATOR_SCHEDULED_HEADER_BYTES,
            };
            // Answers of an incast, and messages to a window, may send less before a grant.
            let fixed = config.incast.is_none()
                && !matches!(config.granting, Granting::Windows { .. })
                && config.informed.is_none();
            let unscheduled =
                if fixed { config.layout.unscheduled_header_bytes() } else { scheduled };
            (
                config.unscheduled_bytes,
                (config.unscheduled_packet_bytes, beside + unscheduled),
                (config.scheduled_packet_bytes, beside + scheduled),
            )
        }
        Transport::Blast(_)
        | Transport::PFabric(_)
        | Transport::PHost(_)
        | Transport::Dctcp(_)
        | Transport::Pias(_)
        | Transport::Ndp(_) => {
            let packet = (rivals::PAYLOAD_BYTES, beside + rivals::HEADER_BYTES);
            (0, packet, packet)
        }
        Transport::Tcp { .. } | Transport::Oracle => return None,
    };
    let frame_min_bytes = framing.frame_min_bytes;
    Some(Framing {
        unscheduled_bytes,
        unscheduled_packet,
        scheduled_packet,
        grant_bytes: 0,
        frame_min_bytes,
    })
}

fn time(label: &str, key: &str, us: f64) -> Result<Span, PlanError> {
    let span = if us > 0.0 && us <= 1e9 { Span::try_from_us(us) } else { None };
    span.filter(|span| !span.is_zero()).ok_or_else(|| {
        let field = format!("transports.{label}.{key}");
        PlanError::field(field, us, "a time in microseconds, above 0 and at most 1e9")
    })
}

fn dctcp(
    window_packets: Option<u32>,
    plain: dctcp::Config,
    timeout: Option<Span>,
    patience: Span,
) -> dctcp::Config {
    let initial_window_packets = window_packets.unwrap_or(plain.initial_window_packets);
    let rto_min = timeout.unwrap_or(plain.rto_min);
    let rto_max = plain.rto_max.max(rto_min);
    dctcp::Config { initial_window_packets, rto_min, rto_max, patience, ..plain }
}

/// Where messages sink under PIAS: as given, as published for web search, else of equal bytes.
fn thresholds(
    plan: &PiasPlan,
    label: &str,
    around: &Surroundings<'_>,
) -> Result<pias::Thresholds, PlanError> {
    let field = format!("transports.{label}.thresholds_bytes");
    if let Some(given) = &plan.thresholds_bytes {
        let list: Option<[u32; 7]> = given.as_slice().try_into().ok();
        return match list {
            Some(list) if list.is_sorted() => Ok(pias::Thresholds(list)),
            _ => Err(PlanError::field(field, format!("{given:?}"), "seven sizes that rise")),
        };
    }
    if around.workload == Some(WorkloadName::W5) {
        return Ok(pias::Thresholds::WEB_SEARCH_80);
    }
    pias::Thresholds::equal_bytes(around.sizes.rows())
        .map_err(|error| PlanError::text(format!("`{field}` cannot be computed: {error}")))
}

/// The network as the transport needs it, with what the plan overrides.
pub fn network(
    plan: &TransportPlan,
    around: &Surroundings<'_>,
    of_plan: &super::plan::FabricPlan,
) -> Result<Network, PlanError> {
    let grown = |bytes: u32| u64::from(around.grown(bytes));
    let packets = |count: u32| u64::from(count) * u64::from(BUFFERED_FRAME);
    let gbps = around.fabric.host_bits_per_s as f64 / 1e9;
    // 65 packets at 10 Gb/s, 20 at 1 Gb/s, in proportion above.
    let usual_mark = (65.0 * gbps / 10.0).max(20.0).ceil() as u32;
    let mut network = around.fabric.network.clone();
    match plan {
        TransportPlan::Homa(_) | TransportPlan::Basic(_) | TransportPlan::Oracle(_) => {}
        TransportPlan::Fifo(_) | TransportPlan::Srpt(_) => network.order = Order::Fifo,
        TransportPlan::Pfabric(_) => {
            network.order = Order::SmallestRank;
            network.buffer = Buffer::PerPort { bytes: grown(36_864) };
        }
        TransportPlan::Phost(_) => network.buffer = Buffer::PerPort { bytes: grown(36_864) },
        TransportPlan::Dctcp(DctcpPlan { mark_packets, .. })
        | TransportPlan::Pias(PiasPlan { mark_packets, .. }) => {
            let mark = mark_packets.unwrap_or(usual_mark);
            network.mark_at_bytes = Some(mark.saturating_mul(BUFFERED_FRAME));
            network.buffer = Buffer::PerPort { bytes: packets(240.max(4 * mark)) };
            if of_plan.routing.is_none() {
                network.routing = Routing::FlowHash;
            }
        }
        TransportPlan::Ndp(own) => {
            let queue_bytes = own.trim_packets.unwrap_or(8).saturating_mul(BUFFERED_FRAME);
            network.order = Order::Trim { queue_bytes };
        }
        TransportPlan::Tcp(own) => {
            let wanted = own.ecn.is_some_and(|ecn| ecn != EcnPlan::Off);
            let mark = own.mark_packets.or(wanted.then_some(usual_mark));
            network.mark_at_bytes = mark.map(|mark| mark.saturating_mul(BUFFERED_FRAME));
            network.order = Order::Fifo;
            network.framing = network.framing.without_udp();
            if of_plan.routing.is_none() {
                network.routing = Routing::FlowHash;
            }
        }
    }
    if let Some(given) = plan.buffer().or(of_plan.buffer.as_ref()) {
        network.buffer = buffer(given);
    }
    network
        .check()
        .map_err(|error| PlanError::text(format!("transport `{}`: {error}", plan.label())))?;
    Ok(network)
}

/// Builds a Homa, or Basic.
struct HomaBuilder<'a> {
    plan: &'a HomaPlan,
    is_basic: bool,
    around: &'a Surroundings<'a>,
    label: String,
}

impl HomaBuilder<'_> {
    fn wrong(&self, key: &str, value: impl std::fmt::Display, must: &str) -> PlanError {
        PlanError::field(format!("transports.{}.{key}", self.label), value, must)
    }

    fn build(&self) -> Result<Config, PlanError> {
        let (asks, is_basic) = (self.around.asks, self.is_basic);
        let usual = if asks { HomaVariant::Rc } else { HomaVariant::Sim };
        let variant = if is_basic { HomaVariant::Rc } else { self.plan.variant.unwrap_or(usual) };
        if asks && variant == HomaVariant::Sim {
            return Err(self
                .wrong("variant", "`sim`", "rc, lx or cavy where messages are questions")
                .hint("the simulator of the source has one-way messages only"));
        }
        let levels = self.plan.levels.unwrap_or(8);
        if !(1..=8).contains(&levels) {
            return Err(self.wrong("levels", levels, "1 to 8"));
        }
        let (unscheduled, overcommit) = self.split(levels)?;
        let graduated = self.plan.graduated.unwrap_or(variant == HomaVariant::Sim);
        let rtt = self.rtt_packets();
        let cutoffs = self.cutoffs(levels, unscheduled, graduated, rtt)?;
        let host = self.around.fabric.host_bits_per_s;
        let mut config = match variant {
            HomaVariant::Sim => Config::simulator(cutoffs, overcommit),
            HomaVariant::Rc if is_basic => Config::basic(),
            HomaVariant::Rc => Config::ramcloud(cutoffs, overcommit),
            HomaVariant::Lx => {
                let own = Config::linux().with_cutoffs(cutoffs);
                // Everybody starts one level below the top [homa 2.6].
                let unknown = Cutoffs::new(levels, &[0]).unwrap_or(Cutoffs::none(levels));
                Config { cutoffs: unknown, ..own }
            }
            HomaVariant::Cavy => {
                Config::cavy(cutoffs, overcommit, host, self.around.fabric.rtt_bytes)
            }
        };
        config.link_bits_per_s = host;
        config.answers = asks;
        self.fit(&mut config, variant);
        if !is_basic {
            let free = levels.saturating_sub(unscheduled).max(1);
            config.scheduled_levels = free.min(overcommit.max(1)).max(1);
            if variant != HomaVariant::Sim {
                config.scheduled_levels = free;
            }
            if graduated {
                config.classed_by = ClassedBy::Remaining;
            }
        }
        self.windows(&mut config, variant, rtt, overcommit);
        self.incoming_max(&mut config)?;
        self.tail_boost(&mut config, graduated, variant);
        self.sharing(&mut config)?;
        self.recovery(&mut config)?;
        self.incast(&mut config);
        self.beyond(&mut config)?;
        // The world gives room one packet at a time.
        config.pacing = None;
        Ok(config)
    }

    /// RAMCloud puts Homa into Ethernet and the Linux module into IP; here everybody has UDP below
    /// unless the network has no IP, so that all are measured against the same least times. Full
    /// packets carry a little less for it.
    fn fit(&self, config: &mut Config, variant: HomaVariant) {
        let framing = &self.around.fabric.network.framing;
        let room = framing.room_bytes();
        let unscheduled = config.layout.unscheduled_header_bytes();
        let scheduled = match config.layout {
            Layout::Linux => unscheduled,
            Layout::Simulator => SIMULATOR_SCHEDULED_HEADER_BYTES,
        };
        let whole = config.scheduled_packet_bytes;
        config.overhead_bytes = framing.ip_udp_bytes + framing.ethernet_bytes;
        if variant == HomaVariant::Rc {
            // All its data have the longer header: 1470 bytes in Ethernet, 1442 with IP and UDP.
            config.unscheduled_packet_bytes = room - unscheduled;
            config.scheduled_packet_bytes = room - unscheduled;
        } else {
            config.unscheduled_packet_bytes =
                config.unscheduled_packet_bytes.min(room - unscheduled);
            config.scheduled_packet_bytes = whole.min(room - scheduled);
        }
        if let Granting::Arrivals { increment_bytes, .. }
        | Granting::Independent { increment_bytes, .. }
        | Granting::Windows { increment_bytes, .. } = &mut config.granting
        {
            *increment_bytes = *increment_bytes / whole * config.scheduled_packet_bytes;
        }
    }

    /// Full packets of a round trip; the published seven where they are enough.
    fn rtt_packets(&self) -> u32 {
        self.around.fabric.rtt_bytes.div_ceil(FRAME_BYTES).max(RTT_PACKETS)
    }

    /// Levels for unscheduled bytes, and overcommitment.
    fn split(&self, levels: u8) -> Result<(u8, u8), PlanError> {
        // Of eight levels: as published, else by bytes that are unscheduled [homa 2.6].
        let of_eight = match self.around.workload {
            Some(WorkloadName::W1) => 7,
            Some(WorkloadName::W2) => 5,
            Some(WorkloadName::W3) => 4,
            Some(WorkloadName::W4 | WorkloadName::W5) => 1,
            None => (8.0 * self.unscheduled_ratio()).round().clamp(1.0, 7.0) as u8,
        };
        let most = levels.saturating_sub(1).max(1);
        let share = f64::from(of_eight) * f64::from(levels) / 8.0;
        let unscheduled = match self.plan.unscheduled_levels {
            Some(given) if !(1..=levels).contains(&given) => {
                return Err(self.wrong("unscheduled_levels", given, &format!("1 to {levels}")));
            }
            Some(given) => given,
            None => match &self.plan.cutoffs_bytes {
                Some(cutoffs) => (cutoffs.len() as u8).saturating_add(1).min(levels),
                None => (share.round().max(1.0) as u8).min(most),
            },
        };
        let overcommit = self.plan.overcommit.unwrap_or(8 - of_eight);
        if !(1..=64).contains(&overcommit) {
            return Err(self.wrong("overcommit", overcommit, "1 to 64"));
        }
        Ok((unscheduled, overcommit))
    }

    /// Share of wire bytes that need no grant, boosted tails counted in.
    fn unscheduled_ratio(&self) -> f64 {
        let framing = Framing::default();
        let (mut blind, mut all) = (0.0, 0.0);
        for (bytes, probability) in self.around.sizes.steps() {
            let wire = framing.wire_bytes(bytes) as f64;
            blind += probability * wire.min(20_000.0);
            all += probability * wire;
        }
        if all > 0.0 { blind / all } else { 1.0 }
    }

    fn cutoffs(
        &self,
        levels: u8,
        unscheduled: u8,
        graduated: bool,
        rtt: u32,
    ) -> Result<Cutoffs, PlanError> {
        if let Some(given) = &self.plan.cutoffs_bytes {
            let wrong = |must: &str| self.wrong("cutoffs_bytes", format!("{given:?}"), must);
            if self.plan.cutoffs_ratio.is_some() || self.plan.cutoffs_by.is_some() {
                return Err(wrong("left out where `cutoffs_ratio` or `cutoffs_by` is given"));
            }
            let must = format!("sizes that rise, at most {}", levels - 1);
            return Cutoffs::new(levels, given).ok_or_else(|| wrong(&must));
        }
        let published = Packing::SIMULATOR;
        let packing = if rtt <= RTT_PACKETS {
            published
        } else {
            Packing {
                unscheduled_bytes: rtt * published.unscheduled_packet_bytes,
                rtt_wire_bytes: rtt * FRAME_BYTES,
                ..published
            }
        };
        let classed = if graduated { ClassedBy::Remaining } else { ClassedBy::Length };
        let steps: Vec<(u32, f64)> = self.around.sizes.steps().collect();
        let shares = self.shares()?;
        let found = static_cutoffs(&steps, levels, unscheduled, classed, &packing, shares);
        Ok(found.unwrap_or(Cutoffs::none(levels)))
    }

    /// What computed cut-offs divide.
    fn shares(&self) -> Result<Shares, PlanError> {
        let ratio = self.plan.cutoffs_ratio.unwrap_or(1.0);
        if !(0.01..=100.0).contains(&ratio) {
            return Err(self.wrong("cutoffs_ratio", ratio, "0.01 to 100"));
        }
        let of = match self.plan.cutoffs_by.unwrap_or(CutoffsPlan::Bytes) {
            CutoffsPlan::Bytes => Shared::Bytes,
            CutoffsPlan::Packets => Shared::Packets,
        };
        Ok(Shares { of, ratio })
    }

    /// Unscheduled bytes and windows of a longer round trip than the published.
    fn windows(&self, config: &mut Config, variant: HomaVariant, rtt: u32, overcommit: u8) {
        let bytes = rtt * config.unscheduled_packet_bytes;
        match &mut config.granting {
            _ if variant == HomaVariant::Cavy => {}
            Granting::Spaced { window_wire_bytes, .. } if rtt > RTT_PACKETS => {
                *window_wire_bytes = rtt * FRAME_BYTES;
                config.unscheduled_bytes = bytes;
            }
            Granting::Spaced { .. } => {}
            Granting::Arrivals { window_bytes, .. }
            | Granting::Independent { window_bytes, .. } => {
                *window_bytes = bytes;
                config.unscheduled_bytes = bytes;
            }
            Granting::Windows { .. } => {
                config.unscheduled_bytes = config.unscheduled_bytes.max(bytes);
            }
        }
        if let Some(most) = self.plan.overcommit_most
            && let Granting::Spaced { adaptive, .. } = &mut config.granting
        {
            *adaptive = Some(Adaptive { idle_bytes: 1600, most });
        }
        if let Granting::Windows { overcommit: most, .. } = &mut config.granting
            && self.plan.overcommit.is_some()
        {
            *most = overcommit;
        }
        if let Some(bytes) = self.plan.unscheduled_bytes {
            config.unscheduled_bytes = bytes;
        }
    }

    /// How much may be on its way in all.
    fn incoming_max(&self, config: &mut Config) -> Result<(), PlanError> {
        let Some(most) = self.plan.incoming_max_bytes else { return Ok(()) };
        match &mut config.granting {
            Granting::Arrivals { incoming_max_bytes, .. }
            | Granting::Windows { incoming_max_bytes, .. } => *incoming_max_bytes = most,
            Granting::Independent { .. } | Granting::Spaced { .. } => {
                return Err(self.wrong(
                    "incoming_max_bytes",
                    most,
                    "for the variants rc, lx and cavy",
                ));
            }
        }
        Ok(())
    }

    fn tail_boost(&self, config: &mut Config, graduated: bool, variant: HomaVariant) {
        if graduated && variant == HomaVariant::Sim {
            config.tail_boost = TailBoost::Remaining;
        }
        match self.plan.tail_boost {
            Some(false) => config.tail_boost = TailBoost::Off,
            Some(true) if config.tail_boost == TailBoost::Off => {
                config.tail_boost = TailBoost::Length;
            }
            _ => {}
        }
    }

    /// What the oldest and the aging messages get.
    fn sharing(&self, config: &mut Config) -> Result<(), PlanError> {
        if let Some(ratio) = self.plan.oldest_ratio {
            if !(0.0..=0.5).contains(&ratio) {
                return Err(self.wrong("oldest_ratio", ratio, "from 0 to 0.5"));
            }
            let share_per_mille = (ratio * 1e3).round() as u32;
            let increment_bytes = config.unscheduled_bytes;
            config.oldest_grants =
                (share_per_mille > 0).then_some(OldestGrants { share_per_mille, increment_bytes });
            config.oldest_pick = 1000u32.checked_div(share_per_mille).unwrap_or(0);
        }
        if let Some(ratio) = self.plan.aging_ratio {
            if !(0.0..=1.0).contains(&ratio) {
                return Err(self.wrong("aging_ratio", ratio, "from 0 to 1"));
            }
            let credit_per_mille = (ratio * 1e3).round() as u32;
            let floor_bytes = self.plan.aging_floor_bytes.unwrap_or(10_000);
            if credit_per_mille > 0 {
                config.order = HomaOrder::Aged { credit_per_mille, floor_bytes };
            }
        }
        Ok(())
    }

    /// Repair of losses: none where nothing can be lost, unless the plan asks for it.
    fn recovery(&self, config: &mut Config) -> Result<(), PlanError> {
        let can_lose = self.around.lossy || self.around.buffer_given;
        let usual = if can_lose { RecoveryPlan::Ticks } else { RecoveryPlan::None };
        let wanted = self.plan.recovery.unwrap_or(usual);
        if wanted == RecoveryPlan::None {
            config.recovery = None;
            return Ok(());
        }
        let ours = Config::cavy(
            config.cutoffs,
            4,
            config.link_bits_per_s,
            self.around.fabric.rtt_bytes.max(1),
        );
        let mut recovery: Recovery = match config.recovery.or(ours.recovery) {
            Some(recovery) => recovery,
            None => return Ok(()),
        };
        if let Some(us) = self.plan.tick_us {
            recovery.tick = time(&self.label, "tick_us", us)?;
        }
        // A simulated peer is there; starved messages are not given up.
        let ticks = self.around.patience().as_ns() / recovery.tick.as_ns().max(1);
        let most = u64::from(u32::MAX / 2);
        recovery.timeout_ticks = recovery.timeout_ticks.max(ticks.min(most) as u32);
        if !config.answers {
            // Nobody acknowledges a one-way message to a sender that has forgotten it.
            config.forget_answers = false;
            recovery.remember_ticks = recovery.remember_ticks.max(400);
        }
        config.recovery = Some(recovery);
        if wanted == RecoveryPlan::RoundTrips {
            // What is lost at the end of an answer can be sent again only by a server that has it.
            config.forget_answers = false;
            recovery.restart_always = false;
            recovery.remember_ticks = recovery.remember_ticks.max(400);
            config.recovery = Some(recovery);
            let rtt = self.around.fabric.round_trip;
            config.quick = Some(Quick { rtt, round_trips: 5 });
        }
        Ok(())
    }

    fn incast(&self, config: &mut Config) {
        let plan = self.plan;
        let plain = Incast { threshold: 25, marked_bytes: 300, automatic: false };
        if plan.incast_threshold == Some(0) {
            config.incast = None;
            return;
        }
        let is_set = plan.incast_threshold.is_some()
            || plan.incast_bytes.is_some()
            || plan.incast_automatic.is_some();
        if is_set || config.incast.is_some() {
            let old = config.incast.unwrap_or(plain);
            config.incast = Some(Incast {
                threshold: plan.incast_threshold.unwrap_or(old.threshold),
                marked_bytes: plan.incast_bytes.unwrap_or(old.marked_bytes),
                automatic: plan.incast_automatic.unwrap_or(old.automatic),
            });
        }
        // A limit above what is unscheduled anyway marks nothing.
        if let Some(incast) = &mut config.incast {
            incast.marked_bytes = incast.marked_bytes.min(config.unscheduled_bytes);
        }
    }

    /// Options beyond the source [homa 8.2].
    fn beyond(&self, config: &mut Config) -> Result<(), PlanError> {
        if let Some(budget_bytes) = self.plan.informed_budget_bytes {
            let Granting::Arrivals { incoming_max_bytes, .. } = &mut config.granting else {
                return Err(PlanError::text(format!(
                    "`transports.{}.informed_budget_bytes` is for the variants rc and cavy",
                    self.label
                )));
            };
            *incoming_max_bytes = budget_bytes;
            let spared_bytes = config.unscheduled_bytes.saturating_mul(10);
            config.informed = Some(Informed { backlog_min: 2, spared_bytes });
        }
        if let Some(ms) = self.plan.learning_ms {
            let interval = time(&self.label, "learning_ms", ms * 1e3)?;
            config.learning = Some(Learning {
                interval,
                messages_min: 100,
                // Half is forgotten with each 25 ms of a full link, and 5 ms of one are worth a
                // look.
                bytes_min: config.link_bits_per_s / 8 / 200,
                keep_per_mille: 500,
                memory_bytes: config.link_bits_per_s / 8 / 40,
                publish: Publish::Imbalance { per_mille: 100 },
            });
        }
        Ok(())
    }
}
