//! pFabric: switches that send and drop by remaining bytes, and hosts that hardly control anything
//! ([homa 3.4]).
//!
//! Every DATA packet carries in its rank the bytes its message has left, and the network does the
//! scheduling. A host keeps a window of about two round trips, and a short fixed timeout repairs
//! what switches drop. Its own port is one of pFabric's queues too: it sends the message with the
//! least left. Acknowledgements have rank 0, before everything. All packets have one priority
//! level.

use super::alarm::Alarm;
use super::dctcp::ATTEMPTS_MIN;
use super::endpoint::{
    ConfigError, EndCx, Endpoint, PAYLOAD_BYTES, Rival, Timer, Why, machine, require, require_span,
};
use super::flows::Reuse;
use super::least::Least;
use super::scoreboard::Scoreboard;
use super::selective::{self, Header};
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::{Instant, Packet, Room, Span};

/// Parameters of pFabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Packets in flight at first, 1 to `window_max_packets`. 12.
    pub window_packets: u32,
    /// Packets in flight at most, to 64. 15.
    pub window_max_packets: u32,
    /// The fixed retransmission timeout. 45 us, about five round trips of the fabric of the paper.
    pub timeout: Span,
    /// A message fails when its receiver was silent for this long, and several timeouts. 1 s.
    pub patience: Span,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            window_packets: 12,
            window_max_packets: 15,
            timeout: Span::from_us(45),
            patience: Span::from_ms(1_000),
        }
    }
}

impl Config {
    /// Are all values in their ranges?
    pub fn check(&self) -> Result<(), ConfigError> {
        let Config { window_packets, window_max_packets: most, timeout, patience } = *self;
        require("window_max_packets", f64::from(most), (1..=64).contains(&most), "1 to 64")?;
        let ok = (1..=most).contains(&window_packets);
        require("window_packets", f64::from(window_packets), ok, "1 to window_max_packets")?;
        require_span("timeout", timeout)?;
        require_span("patience", patience)
    }
}

/// A window in packets: slow start to a threshold, then one packet a window, never above a maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    packets: u32,
    threshold: u32,
    most: u32,
    /// New acknowledgements since the last growth above the threshold.
    credit: u32,
}

impl Window {
    /// The window of a fresh message.
    pub fn new(config: &Config) -> Self {
        let most = config.window_max_packets;
        Window { packets: config.window_packets, threshold: u32::MAX, most, credit: 0 }
    }

    /// Packets that may be in flight.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// The cumulative acknowledgement moved.
    pub fn advanced(&mut self) {
        if self.packets < self.threshold {
            self.packets += 1;
        } else {
            self.credit += 1;
            if self.credit >= self.packets {
                self.credit = 0;
                self.packets += 1;
            }
        }
        self.packets = self.packets.min(self.most);
    }

    /// A timeout.
    pub fn timed_out(&mut self) {
        self.threshold = (self.packets / 2).max(2);
        self.packets = 1;
        self.credit = 0;
    }
}

/// One message being sent.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    board: Scoreboard,
    window: Window,
    timeouts: u32,
    heard: Instant,
    alarm: Alarm,
}

impl Reuse for Sending {
    fn reuse(&mut self) {
        self.board.restart(0, false);
        self.timeouts = 0;
        self.alarm.clear();
    }
}

/// The pFabric of one node.
#[derive(Clone, Debug)]
pub struct PFabric {
    config: Config,
    end: Endpoint<Header, Sending, ()>,
    /// Messages that may send, by remaining bytes, then age.
    ready: Least<(u32, u64)>,
}

/// Level of all packets: pFabric's queues go by rank.
const LEVEL: u8 = 0;

impl PFabric {
    /// A node without messages.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(PFabric { config, end: Endpoint::new(config.patience), ready: Least::default() })
    }

    /// Messages under way and what is remembered of others.
    pub fn remembered(&self) -> usize {
        self.end.remembered()
    }

    /// Bytes not known to be at the receiver: the rank of the message's packets.
    fn remaining_bytes(&self, slot: u32) -> u32 {
        let flow = &self.end.outgoing[slot];
        flow.length_bytes.saturating_sub(flow.state.board.acked() * PAYLOAD_BYTES).max(1)
    }

    fn may_send(&self, slot: u32) -> bool {
        let Sending { board, window, .. } = &self.end.outgoing[slot].state;
        board.has_work() && board.flying() < window.packets()
    }

    fn refresh(&mut self, slot: u32) {
        if self.may_send(slot) {
            self.ready.set(slot, (self.remaining_bytes(slot), self.end.outgoing[slot].birth));
        } else {
            self.ready.remove(slot);
        }
    }

    fn acknowledged(&mut self, slot: u32, number: u32, next: u32, bits: u64, cx: &mut EndCx<'_>) {
        let sending = &mut self.end.outgoing[slot].state;
        let first = sending.board.first();
        if sending.board.acknowledge_all(next, number, bits) > 0 {
            sending.heard = cx.now();
            sending.timeouts = 0;
        }
        if sending.board.is_complete() {
            self.ready.remove(slot);
            self.end.release(slot, cx);
            return;
        }
        if sending.board.first() > first {
            sending.window.advanced();
            if sending.board.flying() > 0 {
                sending.alarm.set(cx.now() + self.config.timeout, Timer::Outgoing(slot), cx);
            }
        }
        if sending.board.flying() == 0 {
            sending.alarm.clear();
        }
        self.refresh(slot);
    }

    fn timed_out(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let sending = &mut self.end.outgoing[slot].state;
        sending.timeouts += 1;
        let silence = cx.now().since(sending.heard);
        if sending.timeouts >= ATTEMPTS_MIN && silence >= self.config.patience {
            self.ready.remove(slot);
            self.end.fail(slot, Why::Silent, cx);
            return;
        }
        sending.window.timed_out();
        sending.board.lose_all();
        self.refresh(slot);
    }
}

machine!(PFabric, Header);

impl Rival for PFabric {
    type Header = Header;
    type Sending = Sending;
    type Receiving = ();

    fn end(&mut self) -> &mut Endpoint<Header, Sending, ()> {
        &mut self.end
    }

    fn submit(&mut self, to: Node, message: Message, length_bytes: u32, cx: &mut EndCx<'_>) {
        let Some(slot) = self.end.open(to, message, length_bytes, cx) else { return };
        let flow = &mut self.end.outgoing[slot];
        flow.state.board.restart(flow.packets, false);
        flow.state.window = Window::new(&self.config);
        self.refresh(slot);
    }

    fn received(
        &mut self,
        (from, header): (Node, Header),
        payload: Extent,
        seen: Seen,
        cx: &mut EndCx<'_>,
    ) {
        let slot = self.end.outgoing.find((from, payload.message));
        match (header, slot) {
            (Header::Data(about), _) => {
                selective::receive(&mut self.end, (from, about), (payload, seen), LEVEL, cx);
            }
            (Header::Ack { next, bits, marked: _ }, Some(slot)) => {
                let number = payload.offset_bytes / PAYLOAD_BYTES;
                self.acknowledged(slot, number, next, bits, cx);
            }
            (Header::Cancel, _) => selective::cancelled(&mut self.end, from, payload.message, cx),
            (Header::Refuse, Some(slot)) => {
                self.ready.remove(slot);
                self.end.fail(slot, Why::Refused, cx);
            }
            (Header::Ack { .. } | Header::Refuse, None) => {}
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
                    self.timed_out(slot, cx);
                }
            }
            Timer::Sweep => self.end.sweep(cx, |_| {}),
            Timer::Incoming(_) | Timer::Pace => {}
        }
    }

    fn next_data(&mut self, room: Room, cx: &mut EndCx<'_>) -> Option<Packet<Header>> {
        let slot = self.ready.peek()?;
        let number = self.end.outgoing[slot].state.board.to_send()?;
        if !self.end.fits(slot, number, room) {
            return None;
        }
        let rank = self.remaining_bytes(slot);
        let sending = &mut self.end.outgoing[slot].state;
        if sending.board.next() == 0 {
            sending.heard = cx.now();
        }
        sending.board.sent(number);
        if !sending.alarm.is_set() {
            sending.alarm.set(cx.now() + self.config.timeout, Timer::Outgoing(slot), cx);
        }
        self.refresh(slot);
        let header = Header::Data(self.end.about(slot));
        Some(self.end.packet(slot, number, header, LEVEL, rank))
    }

    fn verify(&self) {
        let mut ready = 0;
        for (slot, _) in self.end.outgoing.iter() {
            let Sending { board, window, alarm, .. } = &self.end.outgoing[slot].state;
            board.check();
            assert!(!board.is_complete(), "a finished message was kept");
            assert!(board.flying() <= self.config.window_max_packets);
            assert!(window.packets() <= self.config.window_max_packets);
            assert!(board.flying() == 0 || alarm.is_set(), "packets fly without a timeout");
            assert_eq!(self.ready.contains(slot), self.may_send(slot));
            ready += usize::from(self.may_send(slot));
        }
        assert_eq!(ready, self.ready.len(), "a message that is over may send");
    }
}
