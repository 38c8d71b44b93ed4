//! Every constant of [homa 2.2] and every choice on which the published Homas differ, as one value.

use crate::cutoffs::{Cutoffs, LEVELS_MAX};
use crate::packet::Layout;
use cavy_core::Span;
use core::fmt;

/// Most messages a machine follows at once that grants are given to, whatever the configuration.
pub const OVERCOMMIT_MAX: u8 = 64;

/// What a Homa does. Make one with [`Config::simulator`], [`Config::ramcloud`], [`Config::linux`],
/// [`Config::cavy`] or [`Config::basic`], and change fields from there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Config {
    /// Header lengths.
    pub layout: Layout,
    /// Rate of the host's link; for pacing, the spacing of grants and the oldest message's share.
    pub link_bits_per_s: u64,
    /// Bytes a packet costs on the link beside payload and Homa's header.
    pub overhead_bytes: u32,
    /// Shortest frame on the link, all included.
    pub frame_min_bytes: u32,
    /// Payload of a full unscheduled packet.
    pub unscheduled_packet_bytes: u32,
    /// Payload of a full scheduled packet.
    pub scheduled_packet_bytes: u32,
    /// Bytes of a message that are sent without a grant. The source's RTTbytes.
    pub unscheduled_bytes: u32,
    /// Longest message.
    pub message_max_bytes: u32,
    /// May a message be empty?
    pub empty_messages: bool,
    /// Are questions answered? If not, all messages are one-way and `asks` is ignored.
    pub answers: bool,
    /// Levels of the network, 1 to 8.
    pub levels: u8,
    /// The lowest of them are for scheduled bytes. With one level both share it.
    pub scheduled_levels: u8,
    /// What everybody's cut-offs are taken to be before hearing from them.
    pub cutoffs: Cutoffs,
    /// Do senders know this machine's own cut-offs already (true: version 1 everywhere), or must it
    /// publish them?
    pub cutoffs_known: bool,
    /// This machine's own cut-offs at the start.
    pub own_cutoffs: Cutoffs,
    /// Which size of a message cut-offs are compared with.
    pub classed_by: ClassedBy,
    /// Shortest time between two CUTOFFS to one peer.
    #[cfg_attr(feature = "serde", serde(with = "crate::written::span"))]
    pub cutoffs_gap: Span,
    /// Who is granted, and when.
    pub granting: Granting,
    /// Level of the last bytes of a message ([homa 2.8]).
    pub tail_boost: TailBoost,
    /// Share of the link that the oldest grantable message is given ([homa 2.9]).
    pub oldest_grants: Option<OldestGrants>,
    /// Sender: order of messages.
    pub order: Order,
    /// Sender: do not fill the interface's queue ([homa 2.4] rules 4 and 5). `None` when the world
    /// itself asks for one packet at a time.
    pub pacing: Option<Pacing>,
    /// Sender: every this many picks the oldest message instead of the shortest; 0 never.
    pub oldest_pick: u32,
    /// Repair of losses; `None` in a network without any.
    pub recovery: Option<Recovery>,
    /// Does a server forget the answer when its last byte is sent (RAMCloud's at-least-once), or
    /// when the client says that it has it (at-most-once)?
    pub forget_answers: bool,
    /// Beyond the source: does a server say that it refuses a question, and does a client believe
    /// it? By a mark in UNKNOWN that the source's peers do not read. Without it a refused question
    /// is asked again until the client gives up.
    pub refusals: bool,
    /// Incast control ([homa 2.10]).
    pub incast: Option<Incast>,
    /// Beyond the source: repair after round trips ([homa 8.2] point 3). Needs `recovery`.
    pub quick: Option<Quick>,
    /// Beyond the source: windows follow what senders say ([homa 8.2] point 5). For
    /// [`Granting::Arrivals`].
    pub informed: Option<Informed>,
    /// Cut-offs from what arrives ([homa 2.6] dynamic, [homa 8.2] point 6).
    pub learning: Option<Learning>,
    /// Bounds on memory.
    pub limits: Limits,
}

/// What a cut-off is compared with ([homa 2.6]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ClassedBy {
    /// The length of the message: once for all its packets.
    Length,
    /// What is left of the message when the packet is sent: the simulator's graduated mode.
    Remaining,
}

/// Who is granted, and when ([homa 2.7], [homa 3.1]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Granting {
    /// Every message by itself, without limit and at the lowest level: Basic.
    Independent {
        /// Keep this much granted and not received,
        window_bytes: u32,
        /// and when less is, grant this much beyond it.
        increment_bytes: u32,
    },
    /// One increment for each packet that arrives, to the best message with room in its window: the
    /// RAMCloud rules.
    Arrivals {
        /// Most messages that are granted at once.
        overcommit: u8,
        /// Grant only while less than this is granted and not received.
        window_bytes: u32,
        /// How much.
        increment_bytes: u32,
        /// Grant only while less than this is on its way to this host in all; `u32::MAX` for no
        /// bound. Messages shorter than a window leave the active set as soon as they are granted,
        /// so in an incast the windows alone bound nothing ([homa 5.10]).
        incoming_max_bytes: u32,
    },
    /// One packet a packet time for each active sender, levels that stay: the simulator's rules.
    Spaced {
        /// Most senders that are granted at once.
        overcommit: u8,
        /// Grant only while less than this is on its way, headers included.
        window_wire_bytes: u32,
        /// Raise the number when the downlink idles ([homa 2.7], "bubble").
        adaptive: Option<Adaptive>,
    },
    /// Fill the windows of all active messages on each arrival: the Linux rules.
    Windows {
        /// Most messages that are granted at once.
        overcommit: u8,
        /// Window of each; 0 shares `incoming_max_bytes` evenly, one share left over.
        window_bytes: u32,
        /// Most bytes that may be on their way in all.
        incoming_max_bytes: u32,
        /// Grants are given out in pieces of at least this much, or to the message's end.
        increment_bytes: u32,
    },
}

/// Overcommitment that follows the downlink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Adaptive {
    /// Idle time of the downlink, in bytes of link time, that raises the number by one.
    pub idle_bytes: u32,
    /// It is never raised above this.
    pub most: u8,
}

/// The level of the last `unscheduled_bytes` of a message that is granted ([homa 2.8]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum TailBoost {
    /// As any other scheduled byte.
    Off,
    /// That of a message of min(R, length - R) bytes: RAMCloud.
    ScheduledPart,
    /// That of a message of the whole length: the simulator, uniform.
    Length,
    /// That of a message of the bytes left to grant: the simulator, graduated.
    Remaining,
}

/// The oldest message's grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct OldestGrants {
    /// Share of the link, per mille, 1 to 500.
    pub share_per_mille: u32,
    /// Bytes granted at a time.
    pub increment_bytes: u32,
}

/// The order in which messages go: smaller key first, older first among equals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Order {
    /// Fewest bytes left.
    ShortestRemaining,
    /// Fewest bytes left, less a share of what the link could have carried since the message's
    /// birth; but a message with at most `floor_bytes` left goes before all longer ones.
    Aged {
        /// The share, per mille.
        credit_per_mille: u32,
        /// Shorter messages do not age and are not overtaken.
        floor_bytes: u32,
    },
}

/// Do not let the interface's queue grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Pacing {
    /// Hand over a packet only if the queue drains within this time.
    #[cfg_attr(feature = "serde", serde(with = "crate::written::span"))]
    pub backlog: Span,
    /// Messages with less left than this go at once.
    pub bypass_bytes: u32,
    /// Use this share of the link's rate, in per cent, so that the estimate errs on the safe side.
    pub rate_per_cent: u32,
}

/// Repair of losses ([homa 2.11]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Recovery {
    /// Time between two looks at everything.
    #[cfg_attr(feature = "serde", serde(with = "crate::written::span"))]
    pub tick: Span,
    /// Silent ticks before the first RESEND.
    pub resend_ticks: u32,
    /// Ticks from one RESEND to the next.
    pub resend_interval_ticks: u32,
    /// Longest wait for the next RESEND: each in vain, and each that is answered by BUSY, doubles
    /// the wait up to this many ticks. `resend_interval_ticks` or less for waits that stay the
    /// same, as in the source. Ticks near a round trip need more: in an incast silence lasts far
    /// longer than them.
    pub resend_wait_max_ticks: u32,
    /// Silent ticks until giving up.
    pub timeout_ticks: u32,
    /// Ticks after an answer was sent until its acknowledgement is asked for.
    pub ack_ticks: u32,
    /// Longest wait, in ticks, until it is asked for again: the first is `ack_ticks`, and each in
    /// vain doubles it. 1 asks in every tick, as the source does.
    #[cfg_attr(feature = "serde", serde(default = "crate::written::one"))]
    pub ack_wait_max_ticks: u32,
    /// Beyond `timeout_ticks`, an answer is kept until its client has been silent for so long;
    /// while memory is short ([`Limits::answer_bytes`], three quarters of [`Limits::exchanges`]) it
    /// is not. Zero for ticks alone. The source's servers keep answers for ever.
    #[cfg_attr(feature = "serde", serde(with = "crate::written::span", default))]
    pub answer_kept: Span,
    /// What a peer began that has not shown yet that it receives is given up after so much silence
    /// of his; zero for no such haste.
    #[cfg_attr(feature = "serde", serde(with = "crate::written::span", default))]
    pub stranger_kept: Span,
    /// A RESEND that comes sooner than this after the last packet of the message is answered by
    /// BUSY; zero for never.
    #[cfg_attr(feature = "serde", serde(with = "crate::written::span"))]
    pub resend_guard: Span,
    /// Does UNKNOWN restart an exchange in any state (RAMCloud), or only before the answer has
    /// begun?
    pub restart_always: bool,
    /// How long names of finished exchanges are remembered so that they are not carried out twice.
    pub remember_ticks: u32,
}

/// Incast control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Incast {
    /// Questions are marked when more than this many are open.
    pub threshold: u32,
    /// Unscheduled limit of answers to marked questions.
    pub marked_bytes: u32,
    /// Lower the threshold when answers are lost, raise it when they are not.
    pub automatic: bool,
}

/// Quick repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Quick {
    /// What a round trip takes before one was measured, and the shortest time between two looks.
    #[cfg_attr(feature = "serde", serde(with = "crate::written::span"))]
    pub rtt: Span,
    /// Silent round trips before the first RESEND; 5 in the source's proposal.
    pub round_trips: u32,
}

/// Sender-informed overcommitment. How much is granted in all is [`Granting::Arrivals`]'s
/// `incoming_max_bytes`; this keeps it from lying idle at senders that are busy with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Informed {
    /// A sender is congested from this much on, in quarters of the unscheduled limit that wait at
    /// it.
    pub backlog_min: u8,
    /// Messages with at most so much left have whole windows: their senders prefer them, and so do
    /// not let their grants lie.
    pub spared_bytes: u32,
}

/// Learning of cut-offs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Learning {
    /// Shortest time between two looks; 1 s in the source.
    #[cfg_attr(feature = "serde", serde(with = "crate::written::span"))]
    pub interval: Span,
    /// Fewest messages between two looks; 10,000 in the source.
    pub messages_min: u64,
    /// Or, where messages are long, fewest bytes; `u64::MAX` for messages alone, as in the source.
    pub bytes_min: u64,
    /// What is left of the counts after a look, per mille: 0 forgets all, as the source does.
    pub keep_per_mille: u32,
    /// Forget only at a look when so many bytes have come since the last time: rare long messages
    /// decide how many levels the others need, so counts must last for several of them.
    pub memory_bytes: u64,
    /// When new cut-offs are published.
    pub publish: Publish,
}

/// When new cut-offs are published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Publish {
    /// When the deciles of sizes have moved by 100 % in sum: the Linux module's daemon, which
    /// counts payload.
    Deciles,
    /// Counts what packets and grants take of the link, as
    /// [`static_cutoffs`](crate::cutoffs::static_cutoffs) does. When the fullest level would have
    /// this much less, per mille of an equal share; or when the share of unscheduled bytes is three
    /// quarters of a level off the levels there are for them.
    Imbalance {
        /// The difference.
        per_mille: u32,
    },
}

/// Bounds on memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Limits {
    /// Exchanges in both directions.
    pub exchanges: u32,
    /// Peers.
    pub peers: u32,
    /// Gaps in one message that arrives.
    pub gaps: u32,
    /// Control packets, and ranges to send again, that wait.
    pub waiting: u32,
    /// Names of finished exchanges that are remembered.
    pub remembered: u32,
    /// Bytes of messages that may be incomplete at once; `u64::MAX` for no bound.
    pub buffer_bytes: u64,
    /// From so many bytes of answers on, memory is short: see [`Recovery::answer_kept`].
    #[cfg_attr(feature = "serde", serde(default = "crate::written::unbounded_bytes"))]
    pub answer_bytes: u64,
    /// Exchanges begun by peers that have not shown yet that they receive; one more ends the
    /// oldest. `u32::MAX` for no bound.
    #[cfg_attr(feature = "serde", serde(default = "crate::written::unbounded"))]
    pub strangers: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            exchanges: 1 << 20,
            peers: 10_000,
            gaps: 128,
            waiting: 1 << 16,
            remembered: 1 << 12,
            buffer_bytes: u64::MAX,
            answer_bytes: u64::MAX,
            strangers: u32::MAX,
        }
    }
}

impl Config {
    /// The Homa of the paper's simulations: one-way messages, no losses, 10 Gb/s ([homa 2.2] SIM).
    /// `cutoffs` as [homa 2.6] has them, `overcommit` senders at once on as many levels.
    pub fn simulator(cutoffs: Cutoffs, overcommit: u8) -> Config {
        Config {
            layout: Layout::Simulator,
            link_bits_per_s: 10_000_000_000,
            overhead_bytes: 66,
            frame_min_bytes: 84,
            unscheduled_packet_bytes: 1442,
            scheduled_packet_bytes: 1456,
            unscheduled_bytes: 9328,
            message_max_bytes: u32::MAX / 2,
            empty_messages: false,
            answers: false,
            levels: cutoffs.levels(),
            scheduled_levels: overcommit,
            cutoffs,
            cutoffs_known: true,
            own_cutoffs: cutoffs,
            classed_by: ClassedBy::Length,
            cutoffs_gap: Span::from_us(100),
            granting: Granting::Spaced { overcommit, window_wire_bytes: 10_000, adaptive: None },
            tail_boost: TailBoost::Length,
            oldest_grants: None,
            order: Order::ShortestRemaining,
            pacing: None,
            oldest_pick: 0,
            recovery: None,
            forget_answers: true,
            refusals: false,
            incast: None,
            quick: None,
            informed: None,
            learning: None,
            limits: Limits::default(),
        }
    }

    /// The Homa of the paper's cluster: questions and answers, at least once, 2 ms ticks ([homa
    /// 2.2] RC). The cluster's full packets carried 1470 bytes straight above Ethernet; with IP and
    /// UDP below, 1442 fit.
    pub fn ramcloud(cutoffs: Cutoffs, overcommit: u8) -> Config {
        const PACKET: u32 = 1442;
        let rtt_bytes = 7 * PACKET;
        Config {
            unscheduled_packet_bytes: PACKET,
            scheduled_packet_bytes: PACKET,
            unscheduled_bytes: rtt_bytes,
            empty_messages: true,
            answers: true,
            scheduled_levels: (cutoffs.levels() - cutoffs.unscheduled_levels()).max(1),
            granting: Granting::Arrivals {
                overcommit,
                window_bytes: rtt_bytes,
                increment_bytes: PACKET,
                incoming_max_bytes: u32::MAX,
            },
            tail_boost: TailBoost::ScheduledPart,
            recovery: Some(Recovery {
                tick: Span::from_ms(2),
                resend_ticks: 3,
                resend_interval_ticks: 3,
                resend_wait_max_ticks: 3,
                timeout_ticks: 40,
                ack_ticks: 2,
                ack_wait_max_ticks: 1,
                answer_kept: Span::ZERO,
                stranger_kept: Span::ZERO,
                resend_guard: Span::from_ms(2),
                restart_always: true,
                remember_ticks: 0,
            }),
            ..Config::simulator(cutoffs, overcommit)
        }
    }

    /// The Linux module: at most once, 1 ms ticks, dynamic windows, 25 Gb/s ([homa 2.2] LX).
    pub fn linux() -> Config {
        const PACKET: u32 = 1424;
        let own = Cutoffs::new(8, &[200, 2_800, 15_000]).expect("ascending");
        Config {
            layout: Layout::Linux,
            link_bits_per_s: 25_000_000_000,
            overhead_bytes: 58,
            unscheduled_packet_bytes: PACKET,
            scheduled_packet_bytes: PACKET,
            unscheduled_bytes: 40_000,
            message_max_bytes: 1_000_000,
            empty_messages: false,
            scheduled_levels: 4,
            cutoffs: Cutoffs::new(8, &[0]).expect("ascending"),
            cutoffs_known: false,
            cutoffs_gap: Span::from_ms(4),
            granting: Granting::Windows {
                overcommit: 8,
                window_bytes: 0,
                incoming_max_bytes: 400_000,
                increment_bytes: PACKET,
            },
            tail_boost: TailBoost::Off,
            oldest_grants: Some(OldestGrants { share_per_mille: 50, increment_bytes: 50_000 }),
            pacing: Some(Pacing {
                backlog: Span::from_us(5),
                bypass_bytes: 1_000,
                rate_per_cent: 99,
            }),
            oldest_pick: 20,
            recovery: Some(Recovery {
                tick: Span::from_ms(1),
                resend_ticks: 5,
                resend_interval_ticks: 5,
                resend_wait_max_ticks: 5,
                timeout_ticks: 100,
                ack_ticks: 2,
                ack_wait_max_ticks: 1,
                answer_kept: Span::ZERO,
                stranger_kept: Span::ZERO,
                resend_guard: Span::ZERO,
                restart_always: false,
                remember_ticks: 400,
            }),
            forget_answers: false,
            ..Config::ramcloud(own, 8)
        }
    }

    /// cavy's own choice for a network whose round trip is `rtt_bytes` of link time: the RAMCloud
    /// granting rules, at-most-once, incast control, ticks of ten round trips ([homa 2.2]).
    pub fn cavy(cutoffs: Cutoffs, overcommit: u8, link_bits_per_s: u64, rtt_bytes: u32) -> Config {
        const PACKET: u32 = 1424;
        let rtt_ns = u64::from(rtt_bytes) * 8_000_000_000 / link_bits_per_s.max(1);
        let tick = Span::from_ns((10 * rtt_ns).max(100_000));
        Config {
            layout: Layout::Linux,
            link_bits_per_s,
            overhead_bytes: 58,
            unscheduled_packet_bytes: PACKET,
            scheduled_packet_bytes: PACKET,
            unscheduled_bytes: rtt_bytes,
            empty_messages: false,
            cutoffs_gap: tick,
            granting: Granting::Arrivals {
                overcommit,
                window_bytes: rtt_bytes,
                increment_bytes: PACKET,
                incoming_max_bytes: rtt_bytes.saturating_mul(10),
            },
            oldest_grants: Some(OldestGrants { share_per_mille: 50, increment_bytes: rtt_bytes }),
            oldest_pick: 20,
            recovery: Some(Recovery {
                tick,
                resend_ticks: 5,
                resend_interval_ticks: 5,
                resend_wait_max_ticks: 100,
                timeout_ticks: 100,
                ack_ticks: 2,
                ack_wait_max_ticks: 1,
                answer_kept: Span::ZERO,
                stranger_kept: Span::ZERO,
                resend_guard: Span::ZERO,
                restart_always: false,
                remember_ticks: 400,
            }),
            forget_answers: false,
            refusals: true,
            incast: Some(Incast { threshold: 25, marked_bytes: 300, automatic: false }),
            ..Config::ramcloud(cutoffs, overcommit)
        }
    }

    /// RAMCloud's transport before Homa: one level, every message granted by itself, five packets
    /// at a time ([homa 3.1]).
    pub fn basic() -> Config {
        let homa = Config::ramcloud(Cutoffs::none(1), 1);
        Config {
            granting: Granting::Independent {
                window_bytes: homa.unscheduled_bytes,
                increment_bytes: 5 * homa.scheduled_packet_bytes,
            },
            tail_boost: TailBoost::Off,
            ..homa
        }
    }

    /// The same protocol in a network with the levels that `cutoffs` are for: Homa-P1, P2 and P4
    /// ([homa 3.2]). What is not unscheduled is for scheduled bytes. Overcommitment stays.
    #[must_use]
    pub fn with_cutoffs(self, cutoffs: Cutoffs) -> Config {
        let scheduled_levels = (cutoffs.levels() - cutoffs.unscheduled_levels()).max(1);
        Config { levels: cutoffs.levels(), scheduled_levels, cutoffs, own_cutoffs: cutoffs, ..self }
    }

    /// One-way messages, whatever the application says, without any repair of losses: what the
    /// simulations measure.
    #[must_use]
    pub fn one_way(self) -> Config {
        Config { answers: false, recovery: None, ..self }
    }

    /// Is every field in its range, and do they fit together?
    pub fn check(&self) -> Result<(), ConfigError> {
        let field = |name, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError { name, value, least, most })
            }
        };
        const BYTES: u64 = (u32::MAX / 2) as u64;
        field("link_bits_per_s", self.link_bits_per_s, 1_000, 10_000_000_000_000)?;
        field("overhead_bytes", self.overhead_bytes.into(), 0, 65_535)?;
        field("frame_min_bytes", self.frame_min_bytes.into(), 0, 65_535)?;
        field("unscheduled_packet_bytes", self.unscheduled_packet_bytes.into(), 1, 65_535)?;
        field("scheduled_packet_bytes", self.scheduled_packet_bytes.into(), 1, 65_535)?;
        field("unscheduled_bytes", self.unscheduled_bytes.into(), 1, BYTES)?;
        field("message_max_bytes", self.message_max_bytes.into(), 1, BYTES)?;
        field("levels", self.levels.into(), 1, LEVELS_MAX.into())?;
        field("scheduled_levels", self.scheduled_levels.into(), 1, self.levels.into())?;
        let levels = u64::from(self.levels);
        field("levels of cutoffs", self.cutoffs.levels().into(), levels, levels)?;
        field("levels of own_cutoffs", self.own_cutoffs.levels().into(), levels, levels)?;
        let bounds_max = if self.cutoffs_known { 7 } else { 6 };
        field("bounds of own_cutoffs", self.own_cutoffs.bounds().len() as u64, 0, bounds_max)?;
        self.check_granting(&field)?;
        if let Some(share) = self.oldest_grants {
            field("oldest_grants.share_per_mille", share.share_per_mille.into(), 1, 500)?;
            field("oldest_grants.increment_bytes", share.increment_bytes.into(), 1, BYTES)?;
        }
        if let Order::Aged { credit_per_mille, .. } = self.order {
            field("order.credit_per_mille", credit_per_mille.into(), 1, 1_000)?;
        }
        if let Some(pacing) = self.pacing {
            field("pacing.rate_per_cent", pacing.rate_per_cent.into(), 1, 100)?;
        }
        if let Some(recovery) = self.recovery {
            let ticks = u64::from(u32::MAX / 2);
            field("recovery.tick (ns)", recovery.tick.as_ns(), 1, 3_600_000_000_000)?;
            field("recovery.resend_ticks", recovery.resend_ticks.into(), 1, ticks)?;
            field(
                "recovery.resend_interval_ticks",
                recovery.resend_interval_ticks.into(),
                1,
                ticks,
            )?;
            let after_resend = u64::from(recovery.resend_ticks) + 1;
            field("recovery.timeout_ticks", recovery.timeout_ticks.into(), after_resend, ticks)?;
            field("recovery.ack_ticks", recovery.ack_ticks.into(), 1, ticks)?;
            field("recovery.ack_wait_max_ticks", recovery.ack_wait_max_ticks.into(), 1, ticks)?;
        }
        if let Some(incast) = self.incast {
            field(
                "incast.marked_bytes",
                incast.marked_bytes.into(),
                1,
                self.unscheduled_bytes.into(),
            )?;
        }
        if let Some(quick) = self.quick {
            field("recovery, which quick needs, (1 if set)", self.recovery.is_some().into(), 1, 1)?;
            field("quick.rtt (ns)", quick.rtt.as_ns(), 1, 1_000_000_000)?;
            field("quick.round_trips", quick.round_trips.into(), 1, 1_000)?;
        }
        if let Some(informed) = self.informed {
            field("informed.backlog_min", informed.backlog_min.into(), 1, u8::MAX.into())?;
        }
        if let Some(learning) = self.learning {
            field("learning.interval (ns)", learning.interval.as_ns(), 1, u64::MAX)?;
            field("learning.messages_min", learning.messages_min, 1, u64::MAX)?;
            field("learning.bytes_min", learning.bytes_min, 1, u64::MAX)?;
            field("learning.keep_per_mille", learning.keep_per_mille.into(), 0, 1_000)?;
        }
        field("limits.exchanges", self.limits.exchanges.into(), 1, 1 << 28)?;
        field("limits.peers", self.limits.peers.into(), 1, 1 << 28)?;
        field("limits.gaps", self.limits.gaps.into(), 1, 65_535)?;
        field("limits.waiting", self.limits.waiting.into(), 1, 1 << 28)?;
        field("limits.strangers", self.limits.strangers.into(), 1, u32::MAX.into())
    }

    fn check_granting(
        &self,
        field: &impl Fn(&'static str, u64, u64, u64) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        const BYTES: u64 = (u32::MAX / 2) as u64;
        let overcommit =
            |most: u8| field("granting.overcommit", most.into(), 1, OVERCOMMIT_MAX.into());
        match self.granting {
            Granting::Independent { window_bytes, increment_bytes } => {
                field("granting.window_bytes", window_bytes.into(), 1, BYTES)?;
                field("granting.increment_bytes", increment_bytes.into(), 1, BYTES)
            }
            Granting::Arrivals {
                overcommit: most,
                window_bytes,
                increment_bytes,
                incoming_max_bytes,
            } => {
                overcommit(most)?;
                let packet = u64::from(self.scheduled_packet_bytes);
                let all = u64::from(u32::MAX);
                field("granting.incoming_max_bytes", incoming_max_bytes.into(), packet, all)?;
                field("granting.window_bytes", window_bytes.into(), 1, BYTES)?;
                field("granting.increment_bytes", increment_bytes.into(), 1, BYTES)
            }
            Granting::Spaced { overcommit: most, window_wire_bytes, adaptive } => {
                overcommit(most)?;
                field("granting.window_wire_bytes", window_wire_bytes.into(), 1, BYTES)?;
                match adaptive {
                    None => Ok(()),
                    Some(adaptive) => {
                        let range = (u64::from(most), u64::from(OVERCOMMIT_MAX));
                        field("granting.adaptive.most", adaptive.most.into(), range.0, range.1)
                    }
                }
            }
            Granting::Windows {
                overcommit: most,
                window_bytes,
                incoming_max_bytes,
                increment_bytes,
            } => {
                overcommit(most)?;
                field("granting.window_bytes", window_bytes.into(), 0, BYTES)?;
                field("granting.incoming_max_bytes", incoming_max_bytes.into(), 1, BYTES)?;
                field("granting.increment_bytes", increment_bytes.into(), 1, BYTES)
            }
        }
    }
}

/// A field is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// Which field.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Smallest legal value.
    pub least: u64,
    /// Largest legal value.
    pub most: u64,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { name, value, least, most } = self;
        write!(f, "{name} is {value}; it must be {least} to {most}")
    }
}

impl core::error::Error for ConfigError {}
