//! The machine: what happens, and who sees to it.
//!
//! `handle` sends each input to the part that owns it: `sender` for what goes out, `receiver` for
//! DATA, `grants` for who may send next, `recovery` for losses and endings. All parts work on the
//! one state below.

use crate::config::{Config, ConfigError, Granting, Order};
use crate::counters::Counters;
use crate::cutoffs::Cutoffs;
use crate::exchange::{Begun, Exchange, Exchanges, Owner};
use crate::finished::Finished;
use crate::gaps::Pool;
use crate::grants::Grants;
use crate::heap::{Heap, Key, Places};
use crate::learning::Sizes;
use crate::packet::{Header, Kind, Published};
use crate::peers::Peers;
use crate::quick::{Downlink, Pulse};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Header as _, Input, Message};
use cavy_core::{Cx, Instant, Machine, Packet, Room, Transmit};

/// Homa at one host.
#[derive(Clone, Debug)]
pub struct Homa {
    /// Shared, so that the machines of a simulation have one in the cache.
    pub(crate) config: Arc<Config>,
    pub(crate) exchanges: Exchanges,
    pub(crate) peers: Peers,
    pub(crate) finished: Finished,
    pub(crate) counters: Counters,
    /// Names births in order.
    pub(crate) births: u64,

    /// Control packets that wait for room.
    pub(crate) control: VecDeque<Pending>,
    /// Ranges to send again.
    pub(crate) resends: VecDeque<Resend>,
    /// Messages with bytes that may be sent.
    pub(crate) eligible: Heap,
    pub(crate) eligible_places: Places,
    /// Bytes that may be sent and were not.
    pub(crate) backlog_bytes: u64,
    /// Picks since the oldest was taken.
    pub(crate) picks: u32,
    /// When the interface's queue is empty, by estimate.
    pub(crate) idle_at: Instant,

    pub(crate) gaps: Pool,
    pub(crate) grants: Grants,
    /// Bytes that senders may send and that have not arrived.
    pub(crate) incoming_bytes: u64,
    /// Bytes of messages that are arriving and have a buffer.
    pub(crate) buffered_bytes: u64,
    /// Messages that wait for a buffer.
    pub(crate) bufferless: u32,

    pub(crate) own_cutoffs: Cutoffs,
    pub(crate) own_version: u16,

    /// Bytes of answers that are kept.
    pub(crate) answer_bytes: u64,
    /// Exchanges of peers that have not shown that they receive, by slot and generation, oldest
    /// first; with some that are over or not of this kind any more.
    pub(crate) strangers: VecDeque<(u32, u32)>,
    /// Smallest and largest name of this host's messages.
    pub(crate) own_names: (u64, u64),
    /// Questions that have no answer yet.
    pub(crate) open_questions: u32,
    pub(crate) ticks: u64,
    pub(crate) tick_armed: bool,
    /// What is known of the downlink, for quick repair.
    pub(crate) downlink: Downlink,
    /// Deadline of the timer for quick repair.
    pub(crate) quick_at: Option<Instant>,
    /// Sizes of messages that arrived.
    pub(crate) sizes: Sizes,
    /// Questions are marked when more than this many are open.
    pub(crate) incast_threshold: u32,
    /// Answers since the threshold last moved.
    pub(crate) incast_answers: u32,
    /// The tick in which it was last lowered.
    pub(crate) incast_lowered: u64,
}

/// A control packet that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    /// A GRANT, which says what is granted when it is sent: several become one.
    Grant { slot: u32, generation: u32 },
    /// Anything else.
    Packet { to: Node, name: Message, kind: Kind },
}

/// Bytes to send again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resend {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) priority: u8,
}

/// Why a message failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// The peer was silent for too long.
    Timeout,
    /// An answer was sent to the end, and the peer never said whether it has it.
    Unacknowledged,
    /// The peer does not know the exchange any more.
    Forgotten,
    /// The message is empty, which the configuration does not allow.
    Empty,
    /// The message is longer than the configuration allows.
    TooLong,
    /// There are as many exchanges as there may be.
    NoRoom,
    /// The message's name is odd or in use, or no such question waits for an answer.
    Name,
    /// The peer refuses the question and has not carried it out.
    Overloaded,
    /// The peer has begun with the question and gives no answer.
    Unanswered,
}

cavy_core::timers! {
    /// The timers of a Homa.
    pub enum Timer {
        /// Look for silence ([homa 2.11]).
        Tick,
        /// The interface has room again, by estimate ([homa 2.4]).
        Pace,
        /// The next spaced grant is due ([homa 2.7], SIM).
        Grant,
        /// Look for silence in round trips ([homa 8.2] point 3).
        Quick,
    }
}

pub(crate) type HomaCx<'a> = Cx<'a, Effect<Why>, Timer>;

/// Most exchanges that one tick ends; the rest follow in the next.
pub(crate) const ABORTS_MAX: u32 = 128;

impl Homa {
    /// A machine that does what `config` says.
    pub fn new(config: &Config) -> Result<Homa, ConfigError> {
        Homa::sharing(&Arc::new(*config))
    }

    /// The same for many machines that do what one configuration says: they keep one in memory, not
    /// one each, which is faster.
    pub fn sharing(config: &Arc<Config>) -> Result<Homa, ConfigError> {
        config.check()?;
        Ok(Homa {
            config: Arc::clone(config),
            exchanges: Exchanges::default(),
            peers: Peers::default(),
            finished: Finished::default(),
            counters: Counters::default(),
            births: 0,
            control: VecDeque::new(),
            resends: VecDeque::new(),
            eligible: Heap::default(),
            eligible_places: Places::default(),
            backlog_bytes: 0,
            picks: 0,
            idle_at: Instant::ZERO,
            gaps: Pool::default(),
            grants: Grants::new(config),
            incoming_bytes: 0,
            buffered_bytes: 0,
            bufferless: 0,
            own_cutoffs: config.own_cutoffs,
            own_version: 1,
            answer_bytes: 0,
            strangers: VecDeque::new(),
            own_names: (u64::MAX, 0),
            open_questions: 0,
            ticks: 0,
            tick_armed: false,
            downlink: Downlink::NEW,
            quick_at: None,
            sizes: Sizes::new(),
            incast_threshold: config.incast.map_or(u32::MAX, |incast| incast.threshold),
            incast_answers: 0,
            incast_lowered: 0,
        })
    }

    /// What it does.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Questions are marked against incast when more than this many are open ([homa 2.10]);
    /// `u32::MAX` without incast control.
    pub fn incast_threshold(&self) -> u32 {
        self.incast_threshold
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Does it know of an incomplete message that it does not grant although it could? While this
    /// holds and the downlink idles, bandwidth is wasted ([homa 5.5]).
    pub fn is_withholding(&self) -> bool {
        self.grants.waiting > 0
    }

    /// Bytes that senders may send to this host and that have not arrived, unscheduled ones of
    /// known messages included.
    pub fn incoming_bytes(&self) -> u64 {
        self.incoming_bytes
    }

    /// Bytes granted to active messages that have not arrived. With honest peers at most
    /// overcommitment times (window + increment) ([homa 2.15]), or the unscheduled limit where that
    /// is more, beside the oldest message's share.
    pub fn active_incoming_bytes(&self) -> u64 {
        let active = self.grants.active.iter();
        active.map(|a| u64::from(self.exchanges[a.slot].inb.outstanding())).sum()
    }

    /// Bytes that this host may send and has not sent.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Messages that are granted now.
    pub fn active_count(&self) -> usize {
        self.grants.active.len()
    }

    /// Exchanges that are not over.
    pub fn exchange_count(&self) -> usize {
        self.exchanges.count()
    }

    /// The cut-offs this host wants to be used by those who send to it, and their version.
    pub fn own_cutoffs(&self) -> (Cutoffs, u16) {
        (self.own_cutoffs, self.own_version)
    }

    /// A digest of what decides about the future, which counters, for one, do not. For tests that
    /// search states.
    pub fn fingerprint(&self) -> u64 {
        use core::fmt::Write as _;
        struct Sink(cavy_core::Digest);
        impl core::fmt::Write for Sink {
            fn write_str(&mut self, text: &str) -> core::fmt::Result {
                self.0.fold_value(&text);
                Ok(())
            }
        }
        let mut sink = Sink(cavy_core::Digest::new());
        for (slot, exchange) in self.exchanges.iter() {
            let _ = write!(sink, "{slot}{exchange:?}");
            let _ =
                write!(sink, "{:?};", self.gaps.iter(&exchange.inb.received).collect::<Vec<_>>());
        }
        for (slot, peer) in self.peers.iter() {
            let _ = write!(sink, "{slot}{:?}{peer:?}", self.peers.brief(slot));
        }
        let _ = write!(
            sink,
            "{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
            (&self.finished, self.own_names),
            if self.finished.len() > 0 { self.ticks } else { 0 },
            self.control,
            self.resends,
            self.grants.active,
            self.tick_armed,
            self.own_version,
            self.incast_threshold
        );
        sink.0.value()
    }

    /// The level of control packets.
    pub(crate) fn top_level(&self) -> u8 {
        self.config.levels - 1
    }

    /// The place of a message in an order of messages, `left` bytes before its end.
    #[inline]
    pub(crate) fn key(&self, left: u32, exchange: &Exchange, tie: u32) -> Key {
        let shortest = || Key::from(left) << 96 | Key::from(tie) << 64 | Key::from(exchange.born);
        match self.config.order {
            Order::ShortestRemaining => shortest(),
            Order::Aged { floor_bytes, .. } if left <= floor_bytes => shortest(),
            Order::Aged { credit_per_mille, .. } => {
                // Less `credit` x age for all means plus `credit` x birth for each, which does not
                // change with time and so needs no sorting anew.
                let bits_ns = u128::from(exchange.began.as_ns()) * u128::from(credit_per_mille);
                let born_bytes =
                    bits_ns * u128::from(self.config.link_bits_per_s) / (8 * 1_000 * 1_000_000_000);
                let value = (born_bytes as u64).saturating_add(left.into()) & (u64::MAX >> 1);
                1 << 127 | Key::from(value) << 64 | Key::from(exchange.born)
            }
        }
    }

    /// The peer at `node`, made known if need be; `None` when there are too many.
    pub(crate) fn peer(&mut self, node: Node) -> Option<u32> {
        let found = self.peers.find(node);
        let slot = match found {
            Some(slot) => slot,
            None => {
                let full = self.peers.count() >= self.config.limits.peers as usize;
                if full && !self.peers.evict(self.ticks) {
                    return None;
                }
                let version = u16::from(self.config.cutoffs_known);
                self.peers.insert(node, version)
            }
        };
        self.peers.brief_mut(slot).used_tick = self.ticks as u32;
        Some(slot)
    }

    /// Begins an exchange, if there is room.
    pub(crate) fn begin(
        &mut self,
        owner: Owner,
        id: u64,
        node: Node,
        asks: bool,
        cx: &mut HomaCx<'_>,
    ) -> Option<u32> {
        if self.exchanges.count() >= self.config.limits.exchanges as usize {
            return None;
        }
        let peer = self.peer(node)?;
        self.peers.brief_mut(peer).exchanges += 1;
        if owner == Owner::Me {
            self.shown(peer);
        } else if self.keeps_answers() {
            self.peers[peer].heard_at = cx.now();
        }
        self.births += 1;
        self.watch(cx);
        self.pulse_watch(cx);
        let (born, began) = (self.births, cx.now());
        let slot = self.exchanges.insert(Begun { owner, id, node, peer, born, began, asks });
        if self.config.quick.is_some() {
            self.exchanges[slot].pulse = Pulse::NONE;
        }
        Some(slot)
    }

    /// Forgets an exchange and all that belongs to it.
    pub(crate) fn end(&mut self, slot: u32, cx: &mut HomaCx<'_>) {
        self.stop_sending(slot);
        self.stop_receiving(slot, cx);
        let exchange = &self.exchanges[slot];
        if exchange.mine() && exchange.asks {
            self.open_questions -= 1;
        }
        let peer = exchange.peer;
        self.peers.brief_mut(peer).exchanges -= 1;
        self.exchanges.remove(slot);
    }

    /// The exchange that a packet from `from` named `name` belongs to.
    #[inline]
    pub(crate) fn named(&self, from: Node, name: Message) -> Option<u32> {
        if name.is_answer() {
            // Named by this host. A name that belongs to another peer is not this exchange.
            let slot = self.exchanges.find(Owner::Me, name.question().0)?;
            (self.exchanges[slot].node == from).then_some(slot)
        } else {
            self.exchanges.find(Owner::Peer(from), name.0)
        }
    }

    /// Queues a control packet.
    pub(crate) fn send(&mut self, to: Node, name: Message, kind: Kind) {
        if self.control.len() >= self.config.limits.waiting as usize {
            self.counters.dropped_control += 1;
            return;
        }
        self.control.push_back(Pending::Packet { to, name, kind });
    }

    /// Tells `peer` this machine's cut-offs, unless it was told a moment ago.
    pub(crate) fn tell_cutoffs(&mut self, peer: u32, name: Message, now: Instant) {
        let gap = self.config.cutoffs_gap;
        if self.peers[peer].told_at.is_some_and(|at| now < at + gap) {
            return;
        }
        self.peers[peer].told_at = Some(now);
        let published = Published::new(&self.own_cutoffs, self.own_version);
        self.counters.cutoffs_sent += 1;
        self.send(self.peers[peer].node, name, Kind::Cutoffs(published));
    }

    fn on_cutoffs(&mut self, from: Node, published: Published) {
        let Some(peer) = self.peers.find(from) else { return };
        match published.cutoffs(self.config.levels) {
            Some(cutoffs) if published.version != 0 => {
                self.peers.sort_by(peer, cutoffs, published.version);
            }
            _ => self.counters.malformed += 1,
        }
    }

    fn on_packet(&mut self, from: Node, kind: Kind, extent: Extent, cx: &mut HomaCx<'_>) {
        let name = extent.message;
        if !matches!(kind, Kind::Data(_)) && extent.length_bytes > 0 {
            self.counters.malformed += 1;
            return;
        }
        if self.keeps_answers()
            && let Some(peer) = self.peers.find(from)
        {
            self.peers[peer].heard_at = cx.now();
        }
        match kind {
            Kind::Data(data) => self.on_data(from, &data, extent, cx),
            Kind::Grant { offset_bytes, priority } => {
                self.on_grant(from, name, offset_bytes, priority);
            }
            Kind::Resend { offset_bytes, length_bytes, priority } => {
                self.on_resend(from, name, offset_bytes, length_bytes, priority, cx);
            }
            Kind::Busy => self.on_busy(from, name, cx.now()),
            Kind::Unknown => self.on_unknown(from, name, cx),
            Kind::Refused(refusal) => self.on_refused(from, name, refusal, cx),
            Kind::Cutoffs(published) => self.on_cutoffs(from, published),
            Kind::NeedAck => self.on_need_ack(from, name),
            Kind::Ack(acks) => self.on_ack(from, name, acks, cx),
        }
    }
}

impl Machine for Homa {
    type Input = Input<Header>;
    type Effect = Effect<Why>;
    type Timer = Timer;

    /// One packet fills at most all gaps of a message and acknowledges a few; a tick ends at most
    /// 128 exchanges.
    fn effects_max(&self) -> usize {
        let packet = self.config.limits.gaps as usize + 2 + 16;
        packet.max(2 * ABORTS_MAX as usize + 8)
    }

    fn start(&mut self, _: &mut HomaCx<'_>) {}

    #[inline]
    fn handle(&mut self, input: Input<Header>, cx: &mut HomaCx<'_>) {
        match input {
            Input::Rx { from, header, payload, seen } => {
                if seen.trimmed {
                    // What is left of it says nothing that silence would not.
                    self.counters.trimmed += 1;
                } else {
                    if self.config.quick.is_some() {
                        self.note_downlink(header.wire_bytes() + payload.length_bytes, cx.now());
                    }
                    self.on_packet(from, header.kind, payload, cx);
                }
            }
            Input::Submit { to, message, length_bytes, asks } => {
                self.on_submit(to, message, length_bytes, asks, cx);
            }
            Input::Answer { to, question, length_bytes } => {
                self.on_answer(to, question, length_bytes, cx);
            }
            Input::Cancel { message } => self.on_cancel(message, cx),
        }
    }

    fn expire(&mut self, timer: Timer, cx: &mut HomaCx<'_>) {
        match timer {
            Timer::Tick => self.on_tick(cx),
            Timer::Quick => self.on_quick(cx),
            // The world asks for packets after each step, which is all that this is for.
            Timer::Pace => {}
            Timer::Grant => {
                self.grants.armed_at = None;
                if matches!(self.config.granting, Granting::Spaced { .. }) {
                    self.grant_spaced(cx);
                }
            }
        }
    }

    fn check(&self) {
        crate::check::check(self);
    }
}

impl Transmit for Homa {
    type Header = Header;

    #[inline]
    fn pull(&mut self, room: Room, cx: &mut HomaCx<'_>) -> Option<Packet<Header>> {
        if room.packets == 0 {
            return None;
        }
        self.next_packet(room, cx)
    }
}
