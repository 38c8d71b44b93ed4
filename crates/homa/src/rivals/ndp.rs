//! NDP: switches cut payloads off instead of dropping, and receivers pull ([homa 3.8]).
//!
//! A sender sends one window blindly and then exactly one packet for each PULL. A receiver answers
//! a whole packet by an ACK, a trimmed one by a NACK, and either by a PULL, as long as more is
//! missing than is on its way. All PULLs of a host leave one full-packet time apart, the messages
//! in turn. A PULL carries how many there were, so that a later one makes up for one that is lost.
//! Senders serve their messages in turn too: NDP has no shortest-first anywhere.
//!
//! A timeout without any news sends a window again, what flew being taken for lost.
//!
//! Not here: return-to-sender, which a switch does whose header queue is full. A world that trims
//! drops there, and the timeout repairs it.
//!
//! Turns go over messages, as in the source, where each has a connection of its own.

use super::alarm::Alarm;
use super::dctcp::ATTEMPTS_MIN;
use super::endpoint::{
    About, ConfigError, EndCx, Endpoint, FRAME_BYTES, HEADER_BYTES, LEVEL_TOP, Met, PAYLOAD_BYTES,
    Rival, Timer, Why, machine, packets, require, require_span, wire_time,
};
use super::flows::Reuse;
use super::scoreboard::Scoreboard;
use super::selective;
use super::turns::Turns;
use cavy_core::family::Node;
use cavy_core::family::packet::{self, Extent, Message, Seen};
use cavy_core::{Instant, Packet, Room, Span};

/// Parameters of NDP. Both sides must have the same window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Packets sent without being pulled, 1 to 1000. 10, about a round trip at 10 Gb/s.
    pub window_packets: u32,
    /// Rate of the host's link, which paces pulls, in bits per second. 10 Gb/s.
    pub link_bits_per_s: u64,
    /// A full packet on that link, with what the layers below add, 1500 to 9000. [`FRAME_BYTES`].
    pub frame_bytes: u32,
    /// The timeout, doubled each time, up to 32 times. 5 ms.
    pub timeout: Span,
    /// A message fails when its receiver was silent for this long, and several timeouts. 1 s.
    pub patience: Span,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            window_packets: 10,
            link_bits_per_s: 10_000_000_000,
            frame_bytes: FRAME_BYTES,
            timeout: Span::from_ms(5),
            patience: Span::from_ms(1_000),
        }
    }
}

impl Config {
    /// Are all values in their ranges?
    pub fn check(&self) -> Result<(), ConfigError> {
        let window = self.window_packets;
        let window_ok = (1..=1000).contains(&window);
        require("window_packets", f64::from(window), window_ok, "1 to 1000")?;
        let rate = self.link_bits_per_s;
        let rate_ok = (1_000..=10_000_000_000_000).contains(&rate);
        require("link_bits_per_s", rate as f64, rate_ok, "1e3 to 1e13")?;
        let frame = self.frame_bytes;
        require("frame_bytes", f64::from(frame), (1500..=9000).contains(&frame), "1500 to 9000")?;
        require_span("timeout", self.timeout)?;
        require_span("patience", self.patience)
    }

    /// Time of a full packet on the wire: the distance of two pulls.
    pub fn packet_time(&self) -> Span {
        wire_time(self.frame_bytes, self.link_bits_per_s)
    }
}

/// The packets of NDP. The payload's offset names the packet an ACK or a NACK answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Header {
    /// Carries payload.
    Data(About),
    /// The packet came whole.
    Ack {
        /// All packets below are there.
        next: u32,
        /// Bit k: the packet k below the one answered is there.
        bits: u64,
    },
    /// The packet came without its payload.
    Nack,
    /// Asks for one more packet.
    Pull {
        /// Pulls of this message so far.
        count: u32,
    },
    /// From the sender: its application took the message back.
    Cancel,
    /// From the receiver: the message was given up.
    Refuse,
}

impl packet::Header for Header {
    fn wire_bytes(&self) -> u32 {
        HEADER_BYTES
    }
}

/// A message being sent.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    board: Scoreboard,
    /// Packets that may be sent now.
    credit: u32,
    /// Pulls seen.
    pulled: u32,
    timeouts: u32,
    heard: Instant,
    alarm: Alarm,
}

impl Reuse for Sending {
    fn reuse(&mut self) {
        self.board.restart(0, false);
        self.credit = 0;
        self.pulled = 0;
        self.timeouts = 0;
        self.alarm.clear();
    }
}

impl Sending {
    fn may_send(&self) -> bool {
        self.credit > 0 && self.board.has_work()
    }
}

/// A message being received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receiving {
    /// Packets that came, trimmed ones included.
    arrived: u32,
    /// Pulls sent.
    pulls: u32,
    /// Pulls that wait for their turn.
    wanted: u32,
}

impl Reuse for Receiving {
    fn reuse(&mut self) {
        *self = Receiving::default();
    }
}

/// The NDP of one node.
#[derive(Clone, Debug)]
pub struct Ndp {
    config: Config,
    end: Endpoint<Header, Sending, Receiving>,
    /// Messages that may send.
    senders: Turns,
    /// Messages that want to be pulled.
    pulls: Turns,
    pace: Alarm,
    /// No pull before.
    next_pull: Instant,
}

impl Ndp {
    /// A node without messages.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Ndp {
            config,
            end: Endpoint::new(config.patience),
            senders: Turns::default(),
            pulls: Turns::default(),
            pace: Alarm::default(),
            next_pull: Instant::ZERO,
        })
    }

    /// Messages under way and what is remembered of others.
    pub fn remembered(&self) -> usize {
        self.end.remembered()
    }

    /// Something came about the message in `slot`.
    fn news(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let sending = &mut self.end.outgoing[slot].state;
        sending.timeouts = 0;
        sending.heard = cx.now();
        sending.alarm.set(cx.now() + self.config.timeout, Timer::Outgoing(slot), cx);
        if sending.may_send() {
            self.senders.join(slot);
        }
    }

    fn acknowledged(&mut self, slot: u32, number: u32, next: u32, bits: u64, cx: &mut EndCx<'_>) {
        let board = &mut self.end.outgoing[slot].state.board;
        board.acknowledge_all(next, number, bits);
        if board.is_complete() {
            self.senders.leave(slot);
            self.end.release(slot, cx);
        } else {
            self.news(slot, cx);
        }
    }

    fn pulled(&mut self, slot: u32, count: u32, cx: &mut EndCx<'_>) {
        let flow = &mut self.end.outgoing[slot];
        let sending = &mut flow.state;
        let more = count.saturating_sub(sending.pulled);
        sending.pulled += more;
        // A peer that counts wildly gains nothing but the rest of its own message.
        sending.credit = sending.credit.saturating_add(more).min(flow.packets);
        self.news(slot, cx);
    }

    fn timed_out(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let sending = &mut self.end.outgoing[slot].state;
        if sending.may_send() {
            // It waits for its own port, not for its peer.
            self.news(slot, cx);
            return;
        }
        sending.timeouts += 1;
        let silence = cx.now().since(sending.heard);
        if sending.timeouts >= ATTEMPTS_MIN && silence >= self.config.patience {
            self.senders.leave(slot);
            self.end.fail(slot, Why::Silent, cx);
            return;
        }
        sending.board.lose_all();
        sending.credit = sending.credit.max(self.config.window_packets);
        let wait = self.config.timeout.saturating_mul(1 << sending.timeouts.min(5));
        sending.alarm.set(cx.now() + wait, Timer::Outgoing(slot), cx);
        self.senders.join(slot);
    }

    fn data(
        &mut self,
        (from, about): (Node, About),
        payload: Extent,
        seen: Seen,
        cx: &mut EndCx<'_>,
    ) {
        let message = payload.message;
        let Some(number) = self.end.number(about, payload) else { return };
        match self.end.meet(from, message, about, cx) {
            Met::Open(slot) => {
                let header = if seen.trimmed {
                    Header::Nack
                } else {
                    self.end.place(slot, number, cx);
                    let received = &self.end.incoming[slot].received;
                    let (next, bits) = (received.next(), received.bits_down_from(number));
                    Header::Ack { next, bits }
                };
                self.end.control_at(from, message, number, header, LEVEL_TOP);
                if self.end.incoming[slot].missing() == 0 {
                    self.pulls.leave(slot);
                    self.end.deliver(slot, cx);
                } else {
                    self.want(slot, cx);
                }
            }
            Met::Delivered => {
                let count = packets(about.length_bytes);
                let header = Header::Ack { next: count, bits: 1 };
                self.end.control_at(from, message, count - 1, header, LEVEL_TOP);
            }
            Met::Refused => self.end.control(from, message, Header::Refuse, LEVEL_TOP),
            Met::Nonsense => {}
        }
    }

    /// A packet came, whole or not: wants another one, if more is missing than is on its way.
    fn want(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let flow = &mut self.end.incoming[slot];
        let missing = flow.missing();
        let receiving = &mut flow.state;
        receiving.arrived += 1;
        let allowed = self.config.window_packets.min(flow.packets) + receiving.pulls;
        let coming = (allowed + receiving.wanted).saturating_sub(receiving.arrived);
        if missing > coming {
            receiving.wanted += 1;
            self.pulls.join(slot);
            self.schedule(cx);
        }
    }

    /// Sees to it that the next pull goes out in time.
    fn schedule(&mut self, cx: &mut EndCx<'_>) {
        if self.pace.is_set() {
            return;
        }
        if cx.now() >= self.next_pull {
            self.pull_one(cx);
        }
        if !self.pulls.is_empty() {
            self.pace.set(self.next_pull, Timer::Pace, cx);
        }
    }

    fn pull_one(&mut self, cx: &mut EndCx<'_>) {
        let Some(slot) = self.pulls.front() else { return };
        let Some((from, message)) = self.end.incoming.key(slot) else { return };
        self.pulls.pass();
        let receiving = &mut self.end.incoming[slot].state;
        receiving.wanted -= 1;
        receiving.pulls += 1;
        let header = Header::Pull { count: receiving.pulls };
        if receiving.wanted > 0 {
            self.pulls.join(slot);
        }
        self.next_pull = cx.now() + self.config.packet_time();
        self.end.control(from, message, header, LEVEL_TOP);
    }
}

machine!(Ndp, Header);

impl Rival for Ndp {
    type Header = Header;
    type Sending = Sending;
    type Receiving = Receiving;

    fn end(&mut self) -> &mut Endpoint<Header, Sending, Receiving> {
        &mut self.end
    }

    fn submit(&mut self, to: Node, message: Message, length_bytes: u32, cx: &mut EndCx<'_>) {
        let Some(slot) = self.end.open(to, message, length_bytes, cx) else { return };
        let flow = &mut self.end.outgoing[slot];
        flow.state.board.restart(flow.packets, false);
        flow.state.credit = self.config.window_packets;
        flow.state.heard = cx.now();
        self.news(slot, cx);
    }

    fn received(
        &mut self,
        (from, header): (Node, Header),
        payload: Extent,
        seen: Seen,
        cx: &mut EndCx<'_>,
    ) {
        let message = payload.message;
        let number = payload.offset_bytes / PAYLOAD_BYTES;
        let sent = self.end.outgoing.find((from, message));
        match (header, sent) {
            (Header::Data(about), _) => self.data((from, about), payload, seen, cx),
            (Header::Ack { next, bits }, Some(slot)) => {
                self.acknowledged(slot, number, next, bits, cx);
            }
            (Header::Nack, Some(slot)) => {
                self.end.outgoing[slot].state.board.lose(number);
                self.news(slot, cx);
            }
            (Header::Pull { count }, Some(slot)) => self.pulled(slot, count, cx),
            (Header::Refuse, Some(slot)) => {
                self.senders.leave(slot);
                self.end.fail(slot, Why::Refused, cx);
            }
            (Header::Cancel, _) => {
                if let Some(slot) = self.end.incoming.find((from, message)) {
                    self.pulls.leave(slot);
                    self.end.cancelled(slot, cx);
                }
            }
            _ => {}
        }
    }

    fn cancel(&mut self, message: Message, cx: &mut EndCx<'_>) {
        if let Some(slot) = self.end.named(message) {
            self.senders.leave(slot);
            selective::take_back(&mut self.end, slot, (Header::Cancel, LEVEL_TOP), cx);
        }
    }

    fn due(&mut self, timer: Timer, cx: &mut EndCx<'_>) {
        match timer {
            Timer::Outgoing(slot) => {
                if self.end.outgoing[slot].state.alarm.came(timer, cx) {
                    self.timed_out(slot, cx);
                }
            }
            Timer::Pace => {
                if self.pace.came(timer, cx) {
                    self.schedule(cx);
                }
            }
            Timer::Sweep => {
                let pulls = &mut self.pulls;
                self.end.sweep(cx, |slot| pulls.leave(slot));
            }
            Timer::Incoming(_) => {}
        }
    }

    fn next_data(&mut self, room: Room, _cx: &mut EndCx<'_>) -> Option<Packet<Header>> {
        while let Some(slot) = self.senders.front() {
            let sending = &mut self.end.outgoing[slot].state;
            if sending.may_send()
                && let Some(number) = sending.board.to_send()
            {
                if !self.end.fits(slot, number, room) {
                    return None;
                }
                let sending = &mut self.end.outgoing[slot].state;
                sending.board.sent(number);
                sending.credit -= 1;
                self.senders.pass();
                if sending.may_send() {
                    self.senders.join(slot);
                }
                let header = Header::Data(self.end.about(slot));
                return Some(self.end.packet(slot, number, header, 0, 0));
            }
            self.senders.pass();
        }
        None
    }

    fn verify(&self) {
        let mut turns = 0;
        for (slot, _) in self.end.outgoing.iter() {
            let sending = &self.end.outgoing[slot].state;
            sending.board.check();
            assert!(!sending.board.is_complete(), "a finished message was kept");
            assert!(sending.alarm.is_set(), "a sender waits for ever");
            assert!(self.senders.contains(slot) || !sending.may_send(), "no turn for a message");
            turns += usize::from(self.senders.contains(slot));
        }
        assert_eq!(turns, self.senders.len(), "a turn of nobody");
        let mut pulls = 0;
        for (slot, _) in self.end.incoming.iter() {
            let wanted = self.end.incoming[slot].state.wanted > 0;
            assert_eq!(self.pulls.contains(slot), wanted);
            pulls += usize::from(wanted);
        }
        assert_eq!(pulls, self.pulls.len(), "a pull of nobody");
        assert!(pulls == 0 || self.pace.is_set(), "no next pull is planned");
    }
}
