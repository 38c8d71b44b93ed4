//! DCTCP: TCP whose window follows the share of packets that met a queue ([homa 3.6], RFC 8257).
//!
//! Each message is a connection of its own, with no handshake charged. Every packet is acknowledged
//! at once and echoes its own CE mark, so the marked share is exact. Loss is found and repaired as
//! RFC 6675 does with selective acknowledgements, lost retransmissions included; a timeout is the
//! last resort. A host serves its connections in turn, one packet each, as fair queueing in the
//! host's kernel does.
//!
//! Deviation: a timed packet stands for TCP's timestamps, one at a time for each connection; the
//! minimum of the timeout is far above any round trip here, so more samples would change nothing.

use super::alarm::Alarm;
use super::endpoint::{
    ConfigError, EndCx, Endpoint, PAYLOAD_BYTES, Rival, Timer, Why, machine, require, require_span,
};
use super::flows::Reuse;
use super::scoreboard::Scoreboard;
use super::selective::{self, Header};
use super::thresholds::Thresholds;
use super::turns::Lanes;
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::{Instant, Packet, Room, Span};

/// A sender asks this often, at least, before it calls its peer silent.
pub(super) const ATTEMPTS_MIN: u32 = 8;

const SEGMENT: f64 = PAYLOAD_BYTES as f64;

/// Parameters of DCTCP.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Packets sent before the first acknowledgement, 1 to 1000. 10; the PIAS scripts have 70.
    pub initial_window_packets: u32,
    /// The least retransmission timeout, used also before a round trip was measured. 10 ms.
    pub rto_min: Span,
    /// The most, after repeated doubling. 640 ms.
    pub rto_max: Span,
    /// Weight of the newest window in the estimate of the marked share, above 0, at most 1. 1/16.
    pub gain: f64,
    /// A message fails when its receiver was silent for this long, and several timeouts. 1 s.
    pub patience: Span,
    /// Priority level of all packets, 0 to 7. 0.
    pub level: u8,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            initial_window_packets: 10,
            rto_min: Span::from_ms(10),
            rto_max: Span::from_ms(640),
            gain: 1.0 / 16.0,
            patience: Span::from_ms(1_000),
            level: 0,
        }
    }
}

impl Config {
    /// Are all values in their ranges?
    pub fn check(&self) -> Result<(), ConfigError> {
        let window = self.initial_window_packets;
        let window_ok = (1..=1000).contains(&window);
        require("initial_window_packets", f64::from(window), window_ok, "1 to 1000")?;
        require_span("rto_min", self.rto_min)?;
        let rto_ok = self.rto_max >= self.rto_min;
        require("rto_max", self.rto_max.as_us(), rto_ok, "at least rto_min")?;
        let gain_ok = self.gain > 0.0 && self.gain <= 1.0;
        require("gain", self.gain, gain_ok, "above 0 and at most 1")?;
        require_span("patience", self.patience)?;
        require("level", f64::from(self.level), self.level <= 7, "0 to 7")
    }
}

/// The congestion window of one connection, in bytes, apart from what is in flight.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    cwnd: f64,
    threshold: f64,
    alpha: f64,
    gain: f64,
    acked: u32,
    marked: u32,
    /// The window being observed ends when all packets below are acknowledged.
    observed_below: u32,
    /// Marks of packets below were answered by a cut already.
    cut_below: u32,
    /// Losses of packets below were answered by a cut already.
    recovered_below: u32,
}

impl Default for Window {
    fn default() -> Self {
        Window::new(&Config::default())
    }
}

impl Window {
    /// The window of a fresh connection: slow start, and every packet taken for marked until seen
    /// otherwise (RFC 8257, section 3.3).
    pub fn new(config: &Config) -> Self {
        Window {
            cwnd: f64::from(config.initial_window_packets) * SEGMENT,
            threshold: f64::INFINITY,
            alpha: 1.0,
            gain: config.gain,
            acked: 0,
            marked: 0,
            observed_below: 0,
            cut_below: 0,
            recovered_below: 0,
        }
    }

    /// Bytes that may be in flight.
    pub fn bytes(&self) -> f64 {
        self.cwnd
    }

    /// The estimate of the marked share.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// May one more packet be sent beside `flying`?
    pub fn admits(&self, flying: u32) -> bool {
        flying == 0 || f64::from(flying + 1) * SEGMENT <= self.cwnd
    }

    /// An acknowledgement of packet `number` brought `news` packets; `first` is the lowest packet
    /// not acknowledged now, `next` the lowest never sent, and `flying` were in flight before.
    pub fn acknowledged(&mut self, number: u32, news: u32, marked: bool, at: Position) {
        self.acked += news;
        self.marked += if marked { news } else { 0 };
        if at.first > self.observed_below && self.acked > 0 {
            let share = f64::from(self.marked) / f64::from(self.acked);
            self.alpha = (1.0 - self.gain) * self.alpha + self.gain * share;
            (self.acked, self.marked) = (0, 0);
            self.observed_below = at.next;
        }
        if marked {
            if number >= self.cut_below {
                self.cut_below = at.next;
                self.cwnd = (self.cwnd * (1.0 - self.alpha / 2.0)).max(2.0 * SEGMENT);
                self.threshold = self.cwnd;
            }
        } else if at.first >= self.recovered_below {
            self.grow(news, at.flying);
        }
    }

    /// Slow start below the threshold, then one segment a window; only what was used may grow.
    fn grow(&mut self, news: u32, flying: u32) {
        let used = f64::from(flying) * SEGMENT;
        let gained = f64::from(news.min(2)) * SEGMENT;
        if self.cwnd < self.threshold {
            if self.cwnd <= 2.0 * used {
                self.cwnd += gained;
            }
        } else if self.cwnd < used + 2.0 * SEGMENT {
            self.cwnd += SEGMENT * gained / self.cwnd;
        }
    }

    /// Loss was proved: halves, once a window (RFC 8257, section 3.4, and RFC 6675). True when it
    /// did.
    pub fn lost(&mut self, at: Position) -> bool {
        if at.first < self.recovered_below {
            return false;
        }
        self.threshold = (self.cwnd / 2.0).max(2.0 * SEGMENT);
        self.cwnd = self.threshold;
        self.recovered_below = at.next;
        self.cut_below = at.next;
        true
    }

    /// Nothing came for a whole timeout: starts over with one segment. `again` when this follows
    /// another timeout.
    pub fn timed_out(&mut self, at: Position, again: bool) {
        if !again {
            self.threshold = (f64::from(at.flying) * SEGMENT / 2.0).max(2.0 * SEGMENT);
        }
        self.cwnd = SEGMENT;
        self.recovered_below = 0;
        self.cut_below = at.next;
    }
}

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// The lowest packet not acknowledged.
    pub first: u32,
    /// The lowest packet never sent.
    pub next: u32,
    /// Packets in flight before the event.
    pub flying: u32,
}

/// The retransmission timeout by RFC 6298.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrip {
    smoothed: Option<Span>,
    variation: Span,
    /// The packet being timed.
    timed: Option<(u32, Instant)>,
}

impl RoundTrip {
    fn sample(&mut self, took: Span) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(took);
            self.variation = Span::from_ns(took.as_ns() / 2);
            return;
        };
        let off = smoothed.as_ns().abs_diff(took.as_ns());
        self.variation = Span::from_ns((3 * self.variation.as_ns() + off) / 4);
        self.smoothed = Some(Span::from_ns((7 * smoothed.as_ns() + took.as_ns()) / 8));
    }

    fn timeout(&self, config: &Config, doublings: u32) -> Span {
        let measured = self.smoothed.map_or(Span::ZERO, |smoothed| smoothed + self.variation * 4);
        measured.max(config.rto_min).saturating_mul(1 << doublings.min(30)).min(config.rto_max)
    }
}

/// One message being sent.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    board: Scoreboard,
    window: Window,
    round_trip: RoundTrip,
    /// The first retransmission of a recovery goes out whatever the window says (RFC 6675, 5).
    urgent: bool,
    timeouts: u32,
    heard: Instant,
    alarm: Alarm,
}

impl Reuse for Connection {
    fn reuse(&mut self) {
        self.board.restart(0, true);
        self.round_trip = RoundTrip::default();
        self.urgent = false;
        self.timeouts = 0;
        self.alarm.clear();
    }
}

impl Connection {
    fn position(&self) -> Position {
        let board = &self.board;
        Position { first: board.first(), next: board.next(), flying: board.flying() }
    }

    fn may_send(&self) -> bool {
        let admitted = self.window.admits(self.board.flying());
        self.board.has_work() && (admitted || self.urgent && self.board.lost() > 0)
    }
}

/// The DCTCP of one node.
#[derive(Clone, Debug)]
pub struct Dctcp {
    config: Config,
    end: Endpoint<Header, Connection, ()>,
    /// Connections that may send, in turn within the level of their next packet.
    turns: Lanes,
    /// Where levels follow what a message has sent, for PIAS.
    sinking: Option<Thresholds>,
}

impl Dctcp {
    /// A node without messages.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let end = Endpoint::new(config.patience);
        Ok(Dctcp { config, end, turns: Lanes::default(), sinking: None })
    }

    /// One whose packets sink through the levels by the bytes of their message before them, and
    /// leave this node in the order of levels, as its tagging module and its card's queues would
    /// have it.
    pub(super) fn sinking(config: Config, thresholds: Thresholds) -> Result<Self, ConfigError> {
        Ok(Dctcp { sinking: Some(thresholds), ..Dctcp::new(config)? })
    }

    /// Messages under way and what is remembered of others.
    pub fn remembered(&self) -> usize {
        self.end.remembered()
    }

    /// The congestion window of a message being sent.
    pub fn window(&self, to: Node, message: Message) -> Option<Window> {
        self.end.outgoing.find((to, message)).map(|slot| self.end.outgoing[slot].state.window)
    }

    fn give_turn(&mut self, slot: u32) {
        let connection = &mut self.end.outgoing[slot].state;
        if connection.may_send()
            && let Some(number) = connection.board.to_send()
        {
            self.turns.join(slot, self.level(number));
        }
    }

    /// The level of packet `number` of any message.
    #[inline]
    fn level(&self, number: u32) -> u8 {
        self.sinking
            .as_ref()
            .map_or(self.config.level, |levels| levels.level(number * PAYLOAD_BYTES))
    }

    fn acknowledged(&mut self, slot: u32, number: u32, ack: (u32, u64, bool), cx: &mut EndCx<'_>) {
        let (next, bits, marked) = ack;
        let now = cx.now();
        let connection = &mut self.end.outgoing[slot].state;
        let flying = connection.board.flying();
        let news = connection.board.acknowledge_all(next, number, bits);
        if news > 0 {
            connection.timeouts = 0;
            connection.heard = now;
        }
        if let Some((timed, at)) = connection.round_trip.timed
            && timed == number
        {
            connection.round_trip.sample(now.since(at));
            connection.round_trip.timed = None;
        }
        if connection.board.is_complete() {
            self.turns.leave(slot);
            self.end.release(slot, cx);
            return;
        }
        let at = Position { flying, ..connection.position() };
        connection.window.acknowledged(number, news, marked, at);
        if connection.board.judge() > 0 {
            connection.urgent |= connection.window.lost(at);
            // Karn: what may have been sent twice is not timed.
            connection.round_trip.timed = None;
        }
        if connection.board.flying() == 0 {
            connection.alarm.clear();
        } else if news > 0 {
            let timeout = connection.round_trip.timeout(&self.config, 0);
            connection.alarm.set(now + timeout, Timer::Outgoing(slot), cx);
        }
        self.give_turn(slot);
    }

    fn timed_out(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        let now = cx.now();
        let connection = &mut self.end.outgoing[slot].state;
        connection.timeouts += 1;
        let silence = now.since(connection.heard);
        if connection.timeouts >= ATTEMPTS_MIN && silence >= self.config.patience {
            self.turns.leave(slot);
            self.end.fail(slot, Why::Silent, cx);
            return;
        }
        let at = connection.position();
        connection.window.timed_out(at, connection.timeouts > 1);
        connection.board.lose_all();
        connection.round_trip.timed = None;
        self.give_turn(slot);
    }

    fn send(&mut self, slot: u32, number: u32, cx: &mut EndCx<'_>) -> Packet<Header> {
        let now = cx.now();
        let connection = &mut self.end.outgoing[slot].state;
        if connection.board.next() == 0 {
            connection.heard = now;
        }
        if number == connection.board.next() && connection.round_trip.timed.is_none() {
            connection.round_trip.timed = Some((number, now));
        }
        connection.board.sent(number);
        connection.urgent = false;
        if !connection.alarm.is_set() {
            let timeout = connection.round_trip.timeout(&self.config, connection.timeouts);
            connection.alarm.set(now + timeout, Timer::Outgoing(slot), cx);
        }
        let header = Header::Data(self.end.about(slot));
        self.end.packet(slot, number, header, self.level(number), 0)
    }
}

machine!(Dctcp, Header);

impl Rival for Dctcp {
    type Header = Header;
    type Sending = Connection;
    type Receiving = ();

    fn end(&mut self) -> &mut Endpoint<Header, Connection, ()> {
        &mut self.end
    }

    fn submit(&mut self, to: Node, message: Message, length_bytes: u32, cx: &mut EndCx<'_>) {
        let Some(slot) = self.end.open(to, message, length_bytes, cx) else { return };
        let flow = &mut self.end.outgoing[slot];
        flow.state.board.restart(flow.packets, true);
        flow.state.window = Window::new(&self.config);
        self.give_turn(slot);
    }

    fn received(
        &mut self,
        (from, header): (Node, Header),
        payload: Extent,
        seen: Seen,
        cx: &mut EndCx<'_>,
    ) {
        let key = (from, payload.message);
        let level = self.config.level;
        match header {
            Header::Data(about) => {
                selective::receive(&mut self.end, (from, about), (payload, seen), level, cx);
            }
            Header::Ack { next, bits, marked } => {
                if let Some(slot) = self.end.outgoing.find(key) {
                    let number = payload.offset_bytes / PAYLOAD_BYTES;
                    self.acknowledged(slot, number, (next, bits, marked), cx);
                }
            }
            Header::Cancel => selective::cancelled(&mut self.end, from, payload.message, cx),
            Header::Refuse => {
                if let Some(slot) = self.end.outgoing.find(key) {
                    self.turns.leave(slot);
                    self.end.fail(slot, Why::Refused, cx);
                }
            }
        }
    }

    fn cancel(&mut self, message: Message, cx: &mut EndCx<'_>) {
        if let Some(slot) = self.end.named(message) {
            self.turns.leave(slot);
            let cancel = (Header::Cancel, self.config.level);
            selective::take_back(&mut self.end, slot, cancel, cx);
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
        while let Some((level, slot)) = self.turns.front() {
            let connection = &mut self.end.outgoing[slot].state;
            if connection.may_send()
                && let Some(number) = connection.board.to_send()
            {
                if !self.end.fits(slot, number, room) {
                    return None;
                }
                let packet = self.send(slot, number, cx);
                self.turns.pass(level);
                self.give_turn(slot);
                return Some(packet);
            }
            self.turns.pass(level);
        }
        None
    }

    fn verify(&self) {
        let mut turns = 0;
        for (slot, _) in self.end.outgoing.iter() {
            let connection = &self.end.outgoing[slot].state;
            connection.board.check();
            assert!(!connection.board.is_complete(), "a finished message was kept");
            assert!(self.turns.contains(slot) || !connection.may_send(), "no turn for a message");
            turns += usize::from(self.turns.contains(slot));
            let waits = connection.board.flying() > 0;
            assert!(!waits || connection.alarm.is_set(), "packets fly without a timeout");
        }
        assert_eq!(turns, self.turns.len(), "a turn of nobody");
    }
}
