//! One connection: what it sends, what it does with acknowledgements, and its timers
//! ([incast 2.3], [incast 2.4], [incast 2.8]).
//!
//! Sequence numbers are 64 bits wide and never wrap here ([`crate::segment::widen`]).

use crate::config::{Config, Counts, Planted, Why};
use crate::congestion::{Reduction, Window};
use crate::ecn::Marks;
use crate::rack::{Delivered, Probe};
use crate::receive::Receiver;
use crate::rto::Rto;
use crate::schedule::Grant;
use crate::segment::{Flags, Segment, first, widen};
use crate::undo::{Saved, Suspicion};
use alloc::collections::VecDeque;
use cavy_core::family::Node;
use cavy_core::family::stream::{Connection as Name, Effect};
use cavy_core::{Instant, Span, Stream};

/// States of RFC 9293, but CLOSED and LISTEN, in which there is no connection yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// How far a sender is in repairing losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Open,
    /// Without a timer, until all that was sent by then is acknowledged.
    Recovery(u64),
    /// After a timer, likewise.
    Loss(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// On its way, as far as one knows.
    Out,
    /// There, out of order.
    Sacked,
    /// Lost, to be sent again.
    Lost,
}

/// A segment that is not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub start: u64,
    pub end: u64,
    pub at: Instant,
    /// When it was sent before that, if it was.
    pub before: Instant,
    pub sends: u16,
    pub fate: Fate,
}

impl Sent {
    pub fn length(&self) -> u64 {
        self.end - self.start
    }
}

/// A segment that leaves, with the octets it carries: an offset of the stream and a length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub segment: Segment,
    pub offset: u64,
    pub length: u32,
}

/// What a step needs besides the connection.
pub(crate) struct Step<'a, 'b> {
    pub now: Instant,
    pub config: &'a Config,
    pub rng: &'b mut Stream,
    pub counts: &'a mut Counts,
    pub effects: &'a mut VecDeque<Effect<Why>>,
    /// Segments that belong to no connection any more, and to whom.
    pub answers: &'a mut VecDeque<(Node, Segment)>,
    pub challenges: &'a mut Challenges,
}

/// How many challenges a host may still send in the second that began then (RFC 5961).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Challenges {
    since: Instant,
    sent: u32,
}

impl Challenges {
    fn take(&mut self, now: Instant, per_s: u32) -> bool {
        if now.since(self.since) >= Span::from_ms(1_000) {
            *self = Challenges { since: now, sent: 0 };
        }
        let may = self.sent < per_s;
        self.sent += u32::from(may);
        may
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub name: Name,
    pub peer: Node,
    pub local_port: u16,
    pub remote_port: u16,
    pub state: State,
    /// It came from a peer.
    pub accepted: bool,
    /// The port of the side that listened.
    pub listen_port: u16,
    /// Nobody reads it any more.
    pub orphaned: bool,
    pub first: u64,
    /// The number of the first octet that the peer writes.
    pub read_first: u64,
    pub una: u64,
    pub next: u64,
    pub written: u64,
    /// Where segments end because a write was whole.
    pub cuts: VecDeque<u64>,
    pub shut: bool,
    pub fin_sent: bool,
    pub window: u64,
    pub window_max: u64,
    pub window_seq: u64,
    pub window_ack: u64,
    pub send_scale: u8,
    pub mss: u64,
    pub sack: bool,
    pub queue: VecDeque<Sent>,
    /// Octets on their way, and segments that are to be sent again.
    pub out: u64,
    pub lost: u32,
    /// Segments that are there, out of order.
    pub sacked: u32,
    pub cwnd: u64,
    pub ssthresh: u64,
    pub phase: Phase,
    pub growth: Window,
    pub marks: Marks,
    pub reduction: Reduction,
    pub delivered: Delivered,
    /// When reordering is loss, and when the end of a flight is probed.
    pub rack_at: Option<Instant>,
    pub probe_at: Option<Instant>,
    pub tail: Option<Probe>,
    /// The last segment is to leave again, or a new one beyond the window, as a probe.
    pub repeats_tail: bool,
    pub extra: bool,
    pub saved: Option<Saved>,
    pub suspicion: Suspicion,
    /// Timestamps were agreed on: what is added to the clock, and what the peer's said last.
    pub stamps: bool,
    pub stamp_offset: u32,
    pub recent: u32,
    pub recent_at: Instant,
    /// The last acknowledgement sent.
    pub told: u64,
    pub challenged_at: Option<Instant>,
    pub alive_at: Option<Instant>,
    /// Questions to a silent peer, whether by keepalive or about a closed window.
    pub unanswered: u16,
    pub heard_at: Instant,
    /// Losses below this belong to an episode that is over (RFC 6582).
    pub recovered: u64,
    pub duplicates: u32,
    /// Duplicates since the left edge moved, for the census.
    pub heard: u32,
    /// Those outside a repair, since it moved or a timer ran out.
    pub prompts: u32,
    /// Segments that duplicates without SACK say have left the network.
    pub reno_sacked: u64,
    /// The next segment may leave whatever the window says.
    pub forced: bool,
    pub sent_at: Instant,
    pub rto: Rto,
    pub rto_at: Option<Instant>,
    pub persist_at: Option<Instant>,
    pub persist_wait: Span,
    pub probe: bool,
    /// The left edge when a timer ran out last, how often in a row, and since when.
    pub timed_out_at: u64,
    pub timeouts: u16,
    /// The most in a row there ever were, and the most doublings.
    pub timeouts_longest: u16,
    pub doublings_most: u8,
    pub stuck_since: Instant,
    pub linger_at: Option<Instant>,
    pub receiver: Receiver,
    /// Its part of the schedule, if this side opened it and has one.
    pub grant: Option<Grant>,
    /// It is over, and the world was told.
    pub over: Option<Why>,
    pub armed: Option<Instant>,
    pub ready: bool,
}

impl Connection {
    /// A connection that this side opens.
    pub fn open(
        config: &Config,
        name: Name,
        peer: Node,
        ports: (u16, u16),
        isn: u32,
        now: Instant,
    ) -> Connection {
        let first = first(isn);
        Connection {
            name,
            peer,
            local_port: ports.0,
            remote_port: ports.1,
            state: State::SynSent,
            accepted: false,
            listen_port: ports.1,
            orphaned: false,
            first,
            read_first: 0,
            una: first,
            next: first,
            written: first + 1,
            cuts: VecDeque::new(),
            shut: false,
            fin_sent: false,
            window: 0,
            window_max: 0,
            window_seq: 0,
            window_ack: 0,
            send_scale: 0,
            mss: u64::from(config.mss_bytes),
            sack: config.sack,
            queue: VecDeque::new(),
            out: 0,
            lost: 0,
            sacked: 0,
            cwnd: u64::from(config.initial_window) * u64::from(config.mss_bytes),
            ssthresh: config.first_threshold(u64::from(config.mss_bytes)),
            phase: Phase::Open,
            growth: Window::new(config.congestion),
            marks: Marks::new(),
            reduction: Reduction::default(),
            delivered: Delivered::new(first),
            rack_at: None,
            probe_at: None,
            tail: None,
            repeats_tail: false,
            extra: false,
            saved: None,
            suspicion: Suspicion::None,
            stamps: false,
            stamp_offset: 0,
            recent: 0,
            recent_at: now,
            told: 0,
            challenged_at: None,
            alive_at: None,
            unanswered: 0,
            heard_at: now,
            recovered: first,
            duplicates: 0,
            heard: 0,
            prompts: 0,
            reno_sacked: 0,
            forced: false,
            sent_at: now,
            rto: Rto::new(&config.rto),
            rto_at: None,
            persist_at: None,
            persist_wait: Span::ZERO,
            probe: false,
            timed_out_at: u64::MAX,
            timeouts: 0,
            timeouts_longest: 0,
            doublings_most: 0,
            stuck_since: now,
            linger_at: None,
            receiver: Receiver::new(0, config.receive_buffer_bytes, scale(config)),
            grant: config.schedule.map(Grant::new),
            over: None,
            armed: None,
            ready: false,
        }
    }

    /// A connection that a peer's SYN opens.
    pub fn accept(
        config: &Config,
        name: Name,
        peer: Node,
        syn: &Segment,
        isn: u32,
        now: Instant,
    ) -> Connection {
        let ports = (syn.destination, syn.source);
        let mut made = Connection::open(config, name, peer, ports, isn, now);
        made.state = State::SynReceived;
        made.accepted = true;
        made.grant = None;
        made.listen_port = syn.destination;
        made.heard_syn(config, syn, now);
        made
    }

    /// It was answered before it was there ([`crate::cookie`]): nobody knows how often, or when.
    pub fn answered_before(&mut self, step: &mut Step<'_, '_>) {
        let _ = self.leaves(step);
        if let Some(syn) = self.queue.front_mut() {
            syn.sends = 2;
        }
    }

    fn heard_syn(&mut self, config: &Config, syn: &Segment, now: Instant) {
        let irs = first(syn.seq);
        self.receiver.scale = if syn.scale.is_some() { scale(config) } else { 0 };
        let scale = self.receiver.scale;
        self.receiver = Receiver::new(irs + 1, config.receive_buffer_bytes, scale);
        self.read_first = irs + 1;
        self.receiver.ack_now = true;
        // An option that is absent or zero stands for 536; less than 48 is nonsense [incast 2.5].
        let theirs = syn.mss.filter(|&mss| mss > 0).unwrap_or(536).max(48);
        self.mss = self.mss.min(u64::from(theirs));
        if let (Some(stamps), Some(_)) = (syn.stamps, config.stamps) {
            self.stamps = true;
            (self.recent, self.recent_at) = (stamps.value, now);
            self.mss -= STAMPS_BYTES;
        }
        if self.grant.is_some() {
            let edge = irs + 1 + Connection::opening(config, self.mss);
            (self.receiver.edge, self.receiver.granted) = (edge, edge);
            self.receiver.whole = config.schedule.is_some_and(|schedule| schedule.foreign);
        }
        self.told = irs + 1;
        self.cwnd = u64::from(config.initial_window) * self.mss;
        self.sack = config.sack && syn.sack_permitted;
        self.agree_on_marks(config.ecn, syn);
        self.send_scale = syn.scale.unwrap_or(0).min(14);
        // The window of a SYN is never scaled.
        let wrongly = config.planted == Some(Planted::ScaledSyn);
        self.window = u64::from(syn.window) << if wrongly { self.send_scale } else { 0 };
        self.window_max = self.window;
        self.window_seq = irs;
        self.window_ack = self.una;
    }

    // ---- the application

    pub fn write(&mut self, bytes: u64, whole: bool, now: Instant) {
        if self.shut {
            return;
        }
        self.receiver.answers_at(now);
        self.written += bytes;
        if whole && self.cuts.back().is_none_or(|&last| last < self.written) {
            self.cuts.push_back(self.written);
        }
    }

    pub fn took(&mut self, bytes: u64) {
        self.receiver.taken = (self.receiver.taken + bytes).min(self.receiver.next);
        if self.receiver.should_tell(self.mss) {
            self.receiver.ack_now = true;
        }
    }

    pub fn shut(&mut self) {
        self.shut = true;
    }

    /// The application is done. False when it left data unread, so that the peer must be told by a
    /// reset [incast 2.13].
    pub fn close(&mut self) -> bool {
        self.shut = true;
        self.orphaned = true;
        let fin = u64::from(self.receiver.fin_at.is_some_and(|at| self.receiver.next > at));
        self.receiver.taken + fin >= self.receiver.next || self.state == State::SynSent
    }

    /// What tells the peer that the connection is gone.
    pub fn reset(&self) -> Segment {
        let mut rst = Segment::new(
            self.local_port,
            self.remote_port,
            self.next as u32,
            Flags::RST.with(Flags::ACK),
        );
        rst.ack = self.receiver.next as u32;
        rst
    }

    pub fn is_half_open(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived)
    }

    /// Nobody has heard of it yet.
    pub fn is_unsent(&self) -> bool {
        self.next == self.first
    }

    // ---- segments that come

    /// A segment for this connection, with so much payload.
    pub fn arrives(&mut self, segment: &Segment, length: u32, step: &mut Step<'_, '_>) {
        if self.state == State::SynSent {
            return self.arrives_in_syn_sent(segment, step);
        }
        let seq = widen(segment.seq, self.receiver.next);
        let ends =
            u64::from(segment.flags.has(Flags::SYN)) + u64::from(segment.flags.has(Flags::FIN));
        let length = u64::from(length);
        let end = seq + length + ends;
        if self.stamps && !segment.flags.has(Flags::RST) && !self.is_timely(segment, step) {
            return;
        }
        let is_syn = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if self.state == State::SynReceived && is_syn && seq + 1 == self.receiver.next {
            self.forced = true; // our answer to it was lost
            return self.mark_first_lost();
        }
        if !self.is_acceptable(seq, end) {
            if !segment.flags.has(Flags::RST) {
                // What carries octets cannot go back and forth for ever; what carries none is also
                // what a probe of a closed window looks like.
                if end == seq {
                    self.challenge(step);
                } else if length == 0 {
                    self.receiver.ack_now = true;
                }
                if step.config.planted == Some(Planted::PlacedTwice) && seq >= self.read_first {
                    let (connection, offset) = (self.name, seq - self.read_first);
                    let (skip_bytes, length_bytes) = (0, length as u32);
                    let twice = Effect::Place { connection, offset, skip_bytes, length_bytes };
                    step.effects.push_back(twice);
                }
                if length > 0 || segment.flags.has(Flags::FIN) {
                    let place = |_| {};
                    let policy = step.config.delayed_ack;
                    self.receiver.take(seq, seq + length, self.mss, policy, step.now, place);
                    if self.state == State::TimeWait {
                        self.linger_at = Some(step.now + step.config.time_wait);
                    }
                }
                self.acknowledge_only(segment, step);
            }
            return;
        }
        if let Some(stamps) = segment.stamps.filter(|_| self.stamps && seq <= self.told) {
            (self.recent, self.recent_at) = (stamps.value, step.now);
        }
        if segment.flags.has(Flags::RST) {
            if self.state == State::TimeWait {
                return; // RFC 1337
            }
            if seq == self.receiver.next || step.config.planted == Some(Planted::BlindReset) {
                let why = if self.state == State::SynReceived { Why::Refused } else { Why::Reset };
                self.end(why, step);
            } else {
                self.challenge(step);
            }
            return;
        }
        if segment.flags.has(Flags::SYN) {
            return self.challenge(step);
        }
        if !segment.flags.has(Flags::ACK) {
            step.counts.dropped += 1;
            return;
        }
        let ack = widen(segment.ack, self.una);
        if step.config.planted == Some(Planted::UnsignedWrap) && segment.ack < self.una as u32 {
            return;
        }
        if self.state == State::SynReceived && (ack <= self.first || ack > self.next) {
            return self.refuse(segment, step);
        }
        if ack > self.next || ack + self.window_max.max(1) < self.una {
            self.challenge(step);
            return;
        }
        (self.heard_at, self.unanswered) = (step.now, 0);
        let again = self.is_half_open() && self.syn_was_repeated();
        if self.state == State::SynReceived {
            self.state = State::Established;
            self.opened(step);
        }
        self.acknowledged(segment, seq, ack, length + ends, step);
        if again {
            self.be_careful(step);
        }
        if self.over.is_some() {
            return;
        }
        let reading = matches!(self.state, State::FinWait1 | State::FinWait2);
        if self.orphaned && reading && seq + length > self.receiver.next {
            // Nobody will ever read it, and the peer should know [incast 2.13].
            step.answers.push_back((self.peer, self.reset()));
            return self.end(Why::Closed, step);
        }
        if length > 0 {
            self.hear_mark(segment, step);
            self.take_data(seq, length, step);
        }
        if segment.flags.has(Flags::FIN) {
            self.receiver.fin_at.get_or_insert(seq + length);
        }
        self.take_fin(step);
    }

    /// The acknowledgement of a segment whose data cannot be taken still counts if it makes sense.
    fn acknowledge_only(&mut self, segment: &Segment, step: &mut Step<'_, '_>) {
        let ack = widen(segment.ack, self.una);
        let is_sound = segment.flags.has(Flags::ACK) && !segment.flags.has(Flags::SYN);
        if is_sound && ack > self.una && ack <= self.next && self.state != State::SynReceived {
            let seq = self.window_seq;
            self.acknowledged(segment, seq, ack, 1, step);
        }
    }

    fn is_acceptable(&self, seq: u64, end: u64) -> bool {
        let (next, edge) = (self.receiver.next, self.receiver.edge);
        if end == seq {
            return if edge == next { seq == next } else { (next..edge).contains(&seq) };
        }
        seq < edge && end > next
    }

    fn arrives_in_syn_sent(&mut self, segment: &Segment, step: &mut Step<'_, '_>) {
        let has_ack = segment.flags.has(Flags::ACK);
        let ack = widen(segment.ack, self.una);
        if has_ack && (ack <= self.first || ack > self.next) {
            step.counts.dropped += 1;
            if !segment.flags.has(Flags::RST) {
                self.refuse(segment, step);
            }
            return;
        }
        if segment.flags.has(Flags::RST) {
            if has_ack {
                self.end(Why::Refused, step);
            }
            return;
        }
        if !segment.flags.has(Flags::SYN) {
            return;
        }
        self.heard_syn(step.config, segment, step.now);
        self.heard_at = step.now;
        if has_ack {
            let again = self.syn_was_repeated();
            self.state = State::Established;
            self.opened(step);
            let seq = first(segment.seq);
            self.acknowledged(segment, seq, ack, 1, step);
            if again {
                self.be_careful(step);
            }
        } else {
            // Both opened at once: our SYN goes out again, with an acknowledgement.
            self.state = State::SynReceived;
            self.forced = true;
            self.mark_first_lost();
        }
    }

    /// The SYN left more than once.
    fn syn_was_repeated(&self) -> bool {
        self.queue.front().is_some_and(|head| head.start == self.first && head.sends > 1)
    }

    /// The network lost a SYN: begins with one segment, and patiently where nothing was measured
    /// (RFC 6298).
    fn be_careful(&mut self, step: &Step<'_, '_>) {
        self.cwnd = self.mss;
        self.ssthresh = step.config.first_threshold(self.mss);
        self.rto.be_careful(&step.config.rto);
    }

    /// An acknowledgement of what was never sent, before there is a connection.
    fn refuse(&self, segment: &Segment, step: &mut Step<'_, '_>) {
        let ports = (self.local_port, self.remote_port);
        let rst = Segment::new(ports.0, ports.1, segment.ack, Flags::RST);
        step.answers.push_back((self.peer, rst));
    }

    /// Answers what tells nothing new, but not often (RFC 5961).
    fn challenge(&mut self, step: &mut Step<'_, '_>) {
        let config = step.config;
        if config.planted == Some(Planted::NoChallengeLimit) {
            self.receiver.ack_now = true;
            return;
        }
        let early = |at: Instant| step.now.since(at) < config.challenge_interval;
        if self.challenged_at.is_some_and(early)
            || !step.challenges.take(step.now, config.challenges_per_s)
        {
            step.counts.unanswered += 1;
            return;
        }
        self.challenged_at = Some(step.now);
        self.receiver.ack_now = true;
    }

    /// Does its timestamp say that it belongs to this connection (PAWS, RFC 7323)?
    fn is_timely(&mut self, segment: &Segment, step: &mut Step<'_, '_>) -> bool {
        let Some(stamps) = segment.stamps else {
            let drop = step.config.strict_stamps;
            step.counts.dropped += u64::from(drop);
            return !drop;
        };
        let older = (stamps.value.wrapping_sub(self.recent) as i32) < 0;
        if !older
            || step.config.planted == Some(Planted::NoPaws)
            || step.now.since(self.recent_at) >= stamps_age(step.config)
        {
            return true;
        }
        step.counts.stale += 1;
        self.challenge(step);
        false
    }

    /// The clock of timestamps at a time.
    pub fn stamp_at(&self, at: Instant, config: &Config) -> u32 {
        let tick = config.stamps.map_or(1, |tick| tick.as_ns().max(1));
        self.stamp_offset.wrapping_add((at.as_ns() / tick) as u32)
    }

    /// A link on the way carries no more than `mtu_bytes`, says the network of a segment at
    /// `quoted`. What is not under way is not believed (RFC 5927).
    pub fn path_is_shorter(&mut self, quoted: u32, mtu_bytes: u16) {
        let seq = widen(quoted, self.una);
        if self.is_half_open() || !(self.una..self.next).contains(&seq) {
            return;
        }
        let headers = HEADERS_BYTES + if self.stamps { STAMPS_BYTES } else { 0 };
        let mtu = match u64::from(mtu_bytes) {
            // An old router does not say: the next lower of the usual ones (RFC 1191).
            0 => [1492, 1006].into_iter().find(|&one| one < self.mss + headers).unwrap_or(0),
            mtu => mtu,
        };
        let mss = mtu.max(MTU_MIN_BYTES) - headers;
        if mss >= self.mss {
            return;
        }
        self.mss = mss;
        for sent in &mut self.queue {
            if sent.fate == Fate::Out && sent.length() > mss {
                sent.fate = Fate::Lost;
                self.out -= sent.length();
                self.lost += 1;
            }
        }
        // Too long is not too many: they go again, and the window stays.
        if self.lost > 0 && self.phase == Phase::Open {
            self.phase = Phase::Loss(self.next);
            self.ssthresh = self.ssthresh.max(self.cwnd);
            self.saved = None;
        }
        self.forced = self.lost > 0;
    }

    fn opened(&mut self, step: &mut Step<'_, '_>) {
        self.alive_at = step.config.keepalive.map(|alive| step.now + alive.idle);
        step.effects.push_back(Effect::Opened {
            connection: self.name,
            peer: self.peer,
            port: self.listen_port,
            accepted: self.accepted,
        });
    }

    fn take_data(&mut self, seq: u64, length: u64, step: &mut Step<'_, '_>) {
        let may = [State::Established, State::FinWait1, State::FinWait2];
        if !may.contains(&self.state) {
            return;
        }
        let (name, zero) = (self.name, self.read_first);
        let effects = &mut *step.effects;
        let moved = self.receiver.take(
            seq,
            seq + length,
            self.mss,
            step.config.delayed_ack,
            step.now,
            |(at, bytes)| {
                effects.push_back(Effect::Place {
                    connection: name,
                    offset: at - zero,
                    skip_bytes: (at - seq) as u32,
                    length_bytes: bytes,
                });
            },
        );
        if moved {
            let to = self.receiver.next - zero;
            step.effects.push_back(Effect::Readable { connection: name, to });
        }
    }

    fn take_fin(&mut self, step: &mut Step<'_, '_>) {
        let planted = step.config.planted == Some(Planted::FinishedTwice);
        if planted && self.receiver.fin_at.is_some_and(|at| at < self.receiver.next) {
            step.effects.push_back(Effect::Finished { connection: self.name });
        }
        if self.receiver.fin_at != Some(self.receiver.next) {
            return;
        }
        let state = match self.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            State::FinWait2 => State::TimeWait,
            _ => return,
        };
        self.receiver.next += 1;
        self.receiver.forget_ranges();
        self.receiver.edge = self.receiver.edge.max(self.receiver.next);
        self.receiver.taken += u64::from(self.receiver.taken + 1 == self.receiver.next);
        self.receiver.ack_now = true;
        self.state = state;
        step.effects.push_back(Effect::Finished { connection: self.name });
        if state == State::TimeWait {
            self.linger_at = Some(step.now + step.config.time_wait);
        }
    }

    /// What always holds [incast 2.14].
    pub(crate) fn check(&self, config: &Config) {
        assert!(self.una <= self.next && self.next <= self.written + 1, "{self:?}");
        let out: u64 = self.queue.iter().filter(|s| s.fate == Fate::Out).map(Sent::length).sum();
        assert_eq!(self.out, out, "the pipe is what is out");
        let lost = self.queue.iter().filter(|sent| sent.fate == Fate::Lost).count();
        assert_eq!(self.lost as usize, lost, "losses are counted");
        let sacked = self.queue.iter().filter(|sent| sent.fate == Fate::Sacked).count();
        assert_eq!(self.sacked as usize, sacked, "what is there is counted");
        let mut at = self.una;
        for sent in &self.queue {
            assert!(sent.start == at && sent.end > at, "the queue has no holes: {self:?}");
            at = sent.end;
        }
        assert_eq!(at, self.next, "all that is unacknowledged is in the queue");
        assert!(u64::from(config.mss_bytes) >= self.mss);
        // Proportional reduction allows nothing when all that was under way is lost and an
        // acknowledgement tells nothing new: then the timer below repairs.
        let reduced = config.prr && self.sack && matches!(self.phase, Phase::Recovery(_));
        assert!(self.cwnd > 0 || reduced, "the window is shut: {self:?}");
        if self.over.is_none() && !self.queue.is_empty() {
            assert!(self.rto_at.is_some(), "never silently stuck: {self:?}");
        }
        if self.read_first > 0 {
            self.receiver.check();
        }
    }
}

/// IP and TCP without options, and what timestamps add.
const HEADERS_BYTES: u64 = 40;
const STAMPS_BYTES: u64 = 12;
/// Shorter paths are not believed, as in Linux [incast 2.14].
const MTU_MIN_BYTES: u64 = 552;

/// For how long a timestamp is remembered: 24 days, or less where the clock's sign turns sooner.
fn stamps_age(config: &Config) -> Span {
    let days = Span::from_ms(24 * 24 * 3_600 * 1_000);
    let turn = config.stamps.map_or(days, |tick| tick * ((1 << 31) / 6 * 5));
    days.min(turn)
}

/// The shift that lets the whole buffer be advertised [incast 2.5].
pub(crate) fn scale(config: &Config) -> u8 {
    (0..14).find(|shift| config.receive_buffer_bytes >> shift <= 65_535).unwrap_or(14)
}
