//! One connection: what it sends, what it does with acknowledgements, and its timers
//! ([incast 2.3], [incast 2.4], [incast 2.8]).
//!
//! Sequence numbers are 64 bits wide and never wrap here ([`crate::segment::widen`]).

use crate::config::{Config, Counts, Why};
use crate::receive::Receiver;
use crate::rto::Rto;
use crate::segment::{Flags, Segment, first, widen};
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
    pub cwnd: u64,
    pub ssthresh: u64,
    pub phase: Phase,
    /// Losses below this belong to an episode that is over (RFC 6582).
    pub recovered: u64,
    pub duplicates: u32,
    /// Duplicates since the left edge moved, for the census.
    pub heard: u32,
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
    /// The most in a row there ever were.
    pub timeouts_longest: u16,
    pub stuck_since: Instant,
    pub linger_at: Option<Instant>,
    pub receiver: Receiver,
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
            cwnd: u64::from(config.initial_window) * u64::from(config.mss_bytes),
            ssthresh: u64::MAX,
            phase: Phase::Open,
            recovered: first,
            duplicates: 0,
            heard: 0,
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
            stuck_since: now,
            linger_at: None,
            receiver: Receiver::new(0, config.receive_buffer_bytes, scale(config)),
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
        made.listen_port = syn.destination;
        made.heard_syn(config, syn);
        made
    }

    fn heard_syn(&mut self, config: &Config, syn: &Segment) {
        let irs = first(syn.seq);
        self.receiver.scale = if syn.scale.is_some() { scale(config) } else { 0 };
        let scale = self.receiver.scale;
        self.receiver = Receiver::new(irs + 1, config.receive_buffer_bytes, scale);
        self.read_first = irs + 1;
        self.receiver.ack_now = true;
        // An option that is absent or zero stands for 536; less than 48 is nonsense [incast 2.5].
        let theirs = syn.mss.filter(|&mss| mss > 0).unwrap_or(536).max(48);
        self.mss = self.mss.min(u64::from(theirs));
        self.cwnd = u64::from(config.initial_window) * self.mss;
        self.sack = config.sack && syn.sack_permitted;
        self.send_scale = syn.scale.unwrap_or(0).min(14);
        // The window of a SYN is never scaled.
        self.window = u64::from(syn.window);
        self.window_max = self.window;
        self.window_seq = irs;
        self.window_ack = self.una;
    }

    // ---- the application

    pub fn write(&mut self, bytes: u64, whole: bool) {
        if self.shut {
            return;
        }
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
        if !self.is_acceptable(seq, end) {
            if !segment.flags.has(Flags::RST) {
                // Also what a probe of a closed window and a lost acknowledgement look like.
                self.receiver.ack_now = true;
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
        if segment.flags.has(Flags::RST) {
            if self.state == State::TimeWait {
                return; // RFC 1337
            }
            if seq == self.receiver.next {
                let why = if self.state == State::SynReceived { Why::Refused } else { Why::Reset };
                self.end(why, step);
            } else {
                self.receiver.ack_now = true; // a challenge (RFC 5961)
            }
            return;
        }
        if segment.flags.has(Flags::SYN) {
            self.receiver.ack_now = true; // a challenge (RFC 5961)
            if self.state == State::SynReceived && seq + 1 == self.receiver.next {
                self.forced = true; // our answer to it was lost
                self.mark_first_lost();
            }
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            step.counts.dropped += 1;
            return;
        }
        let ack = widen(segment.ack, self.una);
        if ack > self.next || ack + self.window_max.max(1) < self.una {
            self.receiver.ack_now = true;
            return;
        }
        if self.state == State::SynReceived {
            if ack <= self.first {
                return;
            }
            self.state = State::Established;
            self.opened(step);
        }
        self.acknowledged(segment, seq, ack, length + ends, step);
        if self.over.is_some() {
            return;
        }
        if length > 0 {
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
        self.heard_syn(step.config, segment);
        if has_ack {
            self.state = State::Established;
            self.opened(step);
            let seq = first(segment.seq);
            self.acknowledged(segment, seq, ack, 1, step);
        } else {
            // Both opened at once: our SYN goes out again, with an acknowledgement.
            self.state = State::SynReceived;
            self.forced = true;
            self.mark_first_lost();
        }
    }

    fn opened(&mut self, step: &mut Step<'_, '_>) {
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
        self.receiver.edge = self.receiver.edge.max(self.receiver.next);
        self.receiver.taken += u64::from(self.receiver.taken + 1 == self.receiver.next);
        self.receiver.ack_now = true;
        self.state = state;
        step.effects.push_back(Effect::Finished { connection: self.name });
        if state == State::TimeWait {
            self.linger_at = Some(step.now + step.config.time_wait);
        }
    }
}

/// The shift that lets the whole buffer be advertised [incast 2.5].
pub(crate) fn scale(config: &Config) -> u8 {
    (0..14).find(|shift| config.receive_buffer_bytes >> shift <= 65_535).unwrap_or(14)
}
