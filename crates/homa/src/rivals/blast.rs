//! Blind sending: everything at once, nobody asks ([homa 3.3]).
//!
//! All bytes are unscheduled and all packets have one level. A host sends its messages in the order
//! of submission, each whole before the next, which is one FIFO queue of packets; or the message
//! with the fewest bytes not yet sent first ([homa 2.4]), chosen again after each packet. Meant for
//! ports with unlimited buffers, as a floor to compare with.
//!
//! Repair, which the source does not have and which costs a frame a message: a receiver confirms a
//! whole message once. It asks for what is missing of a message when no packet of it came for a
//! while, and a sender that has sent everything and heard nothing asks what became of it. Both wait
//! twice as long each time, so that a long queue is not made longer. A sender asked for what it has
//! not sent yet says that it is busy. Without repair ([`Config::confirm`]) a sender forgets a
//! message when its last packet has left, and nothing but data is on the wire.

use super::alarm::Alarm;
use super::dctcp::ATTEMPTS_MIN;
use super::endpoint::{
    About, ConfigError, EndCx, Endpoint, HEADER_BYTES, Met, Rival, Timer, Why, machine,
    require_span,
};
use super::flows::Reuse;
use super::least::Least;
use super::scoreboard::Scoreboard;
use super::selective;
use cavy_core::family::Node;
use cavy_core::family::packet::{self, Extent, Message, Seen};
use cavy_core::{Instant, Packet, Room, Span};

/// Which message a host sends from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The one submitted first.
    #[default]
    Submission,
    /// The one with the fewest bytes to send; among equals the one submitted first.
    Shortest,
}

/// Parameters of blind sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Which message a host sends from. In the order of submission.
    pub order: Order,
    /// Receivers confirm whole messages, and both sides ask when they hear nothing: for networks
    /// that lose packets. True; false is the source's.
    pub confirm: bool,
    /// How long a message is silent before its receiver asks for the rest, and its sender for news;
    /// doubled each time, up to 32 times. 5 ms: longer than queues usually hold a packet.
    pub silence: Span,
    /// A message fails when the other side was silent for this long, and several questions. 1 s.
    pub patience: Span,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            order: Order::Submission,
            confirm: true,
            silence: Span::from_ms(5),
            patience: Span::from_ms(1_000),
        }
    }
}

impl Config {
    /// Are all values in their ranges?
    pub fn check(&self) -> Result<(), ConfigError> {
        require_span("silence", self.silence)?;
        require_span("patience", self.patience)
    }

    fn wait(&self, asked: u32) -> Span {
        self.silence.saturating_mul(1 << asked.min(5))
    }
}

/// The packets of a blind sender and its receiver. What is asked for begins at the payload's
/// offset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Header {
    /// Carries payload.
    Data(About),
    /// From the sender, which has sent everything: what became of it?
    Probe(About),
    /// From the receiver: the whole message is there.
    Done,
    /// From the receiver: these are missing of the 64 packets from the payload's offset on.
    Resend {
        /// Bit k: packet k from there is missing.
        bits: u64,
    },
    /// From either side: alive, nothing to say.
    Busy,
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

/// A message being sent: packets that were sent count as in flight until the end, or until they are
/// asked for again.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    board: Scoreboard,
    alarm: Alarm,
    asked: u32,
    heard: Instant,
}

impl Reuse for Sending {
    fn reuse(&mut self) {
        self.board.restart(0, false);
        self.alarm.clear();
        self.asked = 0;
    }
}

/// A message being received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receiving {
    alarm: Alarm,
    asked: u32,
}

impl Reuse for Receiving {
    fn reuse(&mut self) {
        self.alarm.clear();
        self.asked = 0;
    }
}

/// Blind sending on one node.
#[derive(Clone, Debug)]
pub struct Blast {
    config: Config,
    end: Endpoint<Header, Sending, Receiving>,
    /// Messages with packets to send, by what `order` says, then age.
    ready: Least<(u32, u64)>,
}

/// Level of all packets.
const LEVEL: u8 = 0;

impl Blast {
    /// A node without messages.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Blast { config, end: Endpoint::new(config.patience), ready: Least::default() })
    }

    /// Messages under way and what is remembered of others.
    pub fn remembered(&self) -> usize {
        self.end.remembered()
    }

    fn refresh(&mut self, slot: u32) {
        let flow = &self.end.outgoing[slot];
        let board = &flow.state.board;
        if !board.has_work() {
            self.ready.remove(slot);
            return;
        }
        let left = match self.config.order {
            Order::Submission => 0,
            Order::Shortest => {
                let sent = (board.next() * super::PAYLOAD_BYTES).min(flow.length_bytes);
                flow.length_bytes - sent + board.lost() * super::PAYLOAD_BYTES
            }
        };
        self.ready.set(slot, (left, flow.birth));
    }

    fn data(&mut self, from: Node, about: About, payload: Extent, cx: &mut EndCx<'_>) {
        let Some(number) = self.end.number(about, payload) else { return };
        match self.end.meet(from, payload.message, about, cx) {
            Met::Open(slot) => {
                let new = self.end.place(slot, number, cx);
                if self.end.deliver(slot, cx) {
                    self.confirm(from, payload.message);
                } else if new && self.config.confirm {
                    let receiving = &mut self.end.incoming[slot].state;
                    receiving.asked = 0;
                    let due = cx.now() + self.config.silence;
                    receiving.alarm.set(due, Timer::Incoming(slot), cx);
                }
            }
            Met::Delivered => self.confirm(from, payload.message),
            Met::Refused => self.end.control(from, payload.message, Header::Refuse, LEVEL),
            Met::Nonsense => {}
        }
    }

    fn confirm(&mut self, from: Node, message: Message) {
        if self.config.confirm {
            self.end.control(from, message, Header::Done, LEVEL);
        }
    }

    fn probed(&mut self, from: Node, about: About, message: Message, cx: &mut EndCx<'_>) {
        let answer = match self.end.meet(from, message, about, cx) {
            Met::Open(slot) => {
                let receiving = &mut self.end.incoming[slot].state;
                if !receiving.alarm.is_set() {
                    let due = cx.now() + self.config.silence;
                    receiving.alarm.set(due, Timer::Incoming(slot), cx);
                }
                Header::Busy
            }
            Met::Delivered => Header::Done,
            Met::Refused => Header::Refuse,
            Met::Nonsense => return,
        };
        self.end.control(from, message, answer, LEVEL);
    }

    /// Nothing came of this message for a while: asks for its first gaps.
    fn ask(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let Some((from, message)) = self.end.incoming.key(slot) else { return };
        let flow = &mut self.end.incoming[slot];
        let first = flow.received.next();
        let until = flow.packets.min(first.saturating_add(64));
        let missing = (first..until).filter(|&number| !flow.received.contains(number));
        let bits = missing.fold(0, |bits, number| bits | 1u64 << (number - first));
        flow.state.asked += 1;
        let due = cx.now() + self.config.wait(flow.state.asked);
        flow.state.alarm.set(due, Timer::Incoming(slot), cx);
        self.end.control_at(from, message, first, Header::Resend { bits }, LEVEL);
    }

    fn asked(&mut self, slot: u32, first: u32, bits: u64, cx: &mut EndCx<'_>) {
        let Some((to, message)) = self.end.outgoing.key(slot) else { return };
        let sending = &mut self.end.outgoing[slot].state;
        sending.heard = cx.now();
        sending.asked = 0;
        let named = (0..64).filter(|k| bits >> k & 1 == 1);
        let mut again = false;
        for number in named.filter_map(|k| first.checked_add(k)) {
            again |= sending.board.lose(number);
        }
        if again {
            sending.alarm.clear();
        } else {
            self.end.control(to, message, Header::Busy, LEVEL);
        }
        self.refresh(slot);
    }

    /// Everything was sent and nobody answers.
    fn probe(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let Some((to, message)) = self.end.outgoing.key(slot) else { return };
        let sending = &mut self.end.outgoing[slot].state;
        sending.asked += 1;
        let silence = cx.now().since(sending.heard);
        if sending.asked > ATTEMPTS_MIN && silence >= self.config.patience {
            self.ready.remove(slot);
            self.end.fail(slot, Why::Silent, cx);
            return;
        }
        let due = cx.now() + self.config.wait(sending.asked);
        sending.alarm.set(due, Timer::Outgoing(slot), cx);
        let probe = Header::Probe(self.end.about(slot));
        self.end.control(to, message, probe, LEVEL);
    }
}

machine!(Blast, Header);

impl Rival for Blast {
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
        self.refresh(slot);
    }

    fn received(
        &mut self,
        (from, header): (Node, Header),
        payload: Extent,
        seen: Seen,
        cx: &mut EndCx<'_>,
    ) {
        let message = payload.message;
        let sent = self.end.outgoing.find((from, message));
        match (header, sent) {
            (Header::Data(_), _) if seen.trimmed => {}
            (Header::Data(about), _) => self.data(from, about, payload, cx),
            (Header::Probe(about), _) => self.probed(from, about, message, cx),
            (Header::Done, Some(slot)) => {
                self.ready.remove(slot);
                self.end.release(slot, cx);
            }
            (Header::Resend { bits }, Some(slot)) => {
                self.asked(slot, payload.offset_bytes / super::PAYLOAD_BYTES, bits, cx);
            }
            (Header::Busy, _) => {
                if let Some(slot) = sent {
                    let sending = &mut self.end.outgoing[slot].state;
                    sending.heard = cx.now();
                }
                if let Some(slot) = self.end.incoming.find((from, message)) {
                    self.end.incoming[slot].heard = cx.now();
                }
            }
            (Header::Cancel, _) => selective::cancelled(&mut self.end, from, message, cx),
            (Header::Refuse, Some(slot)) => {
                self.ready.remove(slot);
                self.end.fail(slot, Why::Refused, cx);
            }
            (Header::Done | Header::Resend { .. } | Header::Refuse, None) => {}
        }
    }

    fn cancel(&mut self, message: Message, cx: &mut EndCx<'_>) {
        if let Some(slot) = self.end.named(message) {
            self.ready.remove(slot);
            selective::take_back(&mut self.end, slot, (Header::Cancel, LEVEL), cx);
        }
    }

    fn due(&mut self, timer: Timer, cx: &mut EndCx<'_>) {
        match timer {
            Timer::Outgoing(slot) => {
                if self.end.outgoing[slot].state.alarm.came(timer, cx) {
                    self.probe(slot, cx);
                }
            }
            Timer::Incoming(slot) => {
                if self.end.incoming[slot].state.alarm.came(timer, cx) {
                    self.ask(slot, cx);
                }
            }
            Timer::Sweep => self.end.sweep(cx, |_| {}),
            Timer::Pace => {}
        }
    }

    fn next_data(&mut self, room: Room, cx: &mut EndCx<'_>) -> Option<Packet<Header>> {
        let slot = self.ready.peek()?;
        let number = self.end.outgoing[slot].state.board.to_send()?;
        if !self.end.fits(slot, number, room) {
            return None;
        }
        let sending = &mut self.end.outgoing[slot].state;
        sending.board.sent(number);
        let all_sent = !sending.board.has_work();
        if all_sent && self.config.confirm {
            sending.heard = cx.now();
            let due = cx.now() + self.config.wait(0);
            sending.alarm.set(due, Timer::Outgoing(slot), cx);
        }
        self.refresh(slot);
        let header = Header::Data(self.end.about(slot));
        let packet = self.end.packet(slot, number, header, LEVEL, 0);
        if all_sent && !self.config.confirm {
            self.end.release(slot, cx);
        }
        Some(packet)
    }

    fn verify(&self) {
        let mut ready = 0;
        for (slot, _) in self.end.outgoing.iter() {
            let Sending { board, alarm, .. } = &self.end.outgoing[slot].state;
            board.check();
            assert_eq!(self.ready.contains(slot), board.has_work());
            assert!(board.has_work() || alarm.is_set(), "a sender waits for ever");
            ready += usize::from(board.has_work());
        }
        assert_eq!(ready, self.ready.len(), "a message that is over may send");
        for (slot, _) in self.end.incoming.iter() {
            let waits = self.end.incoming[slot].state.alarm.is_set() || !self.config.confirm;
            assert!(waits, "a receiver waits for ever");
        }
    }
}
