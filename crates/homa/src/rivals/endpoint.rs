//! What all rivals share: messages cut into packets, each delivered exactly once whatever the
//! network does, and none kept longer than it is needed.
//!
//! A sender numbers its messages to each peer, and every DATA packet says below which number none
//! of them is alive any more. So a receiver tells a late copy of a finished message from a new
//! message without timers, and what it remembers is one bit for each message younger than the
//! oldest alive.

use super::flows::{Flows, Reuse};
use super::received::Received;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message, Seen};
use cavy_core::{Cx, Instant, Packet, Room, Span};

/// Payload of a full packet: an MTU of 1500 bytes less 40 of headers, the segment of TCP over IPv4.
pub const PAYLOAD_BYTES: u32 = 1460;

/// Length of every rival's header behind IP and UDP, so that a full packet has 1500 bytes and one
/// without payload 40, as TCP's have and as [homa 3.4, 3.5] ask.
pub const HEADER_BYTES: u32 = 12;

/// A full packet on the wire: Ethernet with preamble and gap 38, IP and UDP 28, header, payload.
pub const FRAME_BYTES: u32 = 38 + 28 + HEADER_BYTES + PAYLOAD_BYTES;

/// The highest priority level.
pub const LEVEL_TOP: u8 = 7;

/// The longest message: offsets up to the end of its last packet fit 32 bits.
const LENGTH_MAX_BYTES: u32 = u32::MAX - PAYLOAD_BYTES;

/// Messages to one peer between the oldest alive and the newest. Bounds what a peer can make a
/// receiver remember.
const SERIALS_MAX: u32 = 1 << 24;

/// The most failures one sweep reports; the rest waits for the next, at once.
const SWEPT_MAX: usize = 16;

/// A receiver waits this many times longer than a sender before it gives a message up, so that the
/// sender, which knows more, decides.
const RECEIVER_PATIENCE: u64 = 10;

/// The most outbox entries of one step of any rival: a sweep, a delivery, and a few timers.
pub(super) const EFFECTS_MAX: usize = SWEPT_MAX + 8;

/// Packets of a message of `length_bytes`; one for an empty message.
pub const fn packets(length_bytes: u32) -> u32 {
    if length_bytes == 0 { 1 } else { length_bytes.div_ceil(PAYLOAD_BYTES) }
}

/// What packet `number` of a message carries.
pub fn extent(message: Message, length_bytes: u32, number: u32) -> Extent {
    let offset_bytes = number * PAYLOAD_BYTES;
    let length_bytes = PAYLOAD_BYTES.min(length_bytes - offset_bytes);
    Extent { message, offset_bytes, length_bytes }
}

/// The time `bytes` take at `bits_per_s`, rounded up.
pub(super) fn wire_time(bytes: u32, bits_per_s: u64) -> Span {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    Span::from_ns(bits.div_ceil(u128::from(bits_per_s)) as u64)
}

/// Why a message failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// The other side was silent for longer than the configured patience.
    Silent,
    /// The sender's application took the message back.
    Cancelled,
    /// The receiver had given the message up.
    Refused,
    /// It cannot be sent: too long, too many to one peer under way, or one of this name is.
    Impossible,
}

/// Timers of all rivals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// A message being sent, by slot.
    Outgoing(u32),
    /// A message being received, by slot.
    Incoming(u32),
    /// The clock of tokens or pulls.
    Pace,
    /// Looks for messages whose sender has fallen silent.
    Sweep,
}

/// What every packet of a message says about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct About {
    /// The sender's number of this message among those to this peer.
    pub serial: u32,
    /// The sender has no message to this peer alive with a lower number.
    pub floor: u32,
    /// Length of the message.
    pub length_bytes: u32,
}

/// A wrong value in a configuration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConfigError {
    /// The field.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// What it must be.
    pub must: &'static str,
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} is {}; it must be {}", self.name, self.value, self.must)
    }
}

impl core::error::Error for ConfigError {}

/// `value` of field `name` must satisfy `ok`.
pub(super) fn require(
    name: &'static str,
    value: f64,
    ok: bool,
    must: &'static str,
) -> Result<(), ConfigError> {
    if ok { Ok(()) } else { Err(ConfigError { name, value, must }) }
}

/// A span that must be longer than nothing.
pub(super) fn require_span(name: &'static str, span: Span) -> Result<(), ConfigError> {
    require(name, span.as_us(), !span.is_zero(), "longer than 0")
}

/// A message this node sends, with the protocol's own state.
#[derive(Clone, Debug, Default)]
pub struct Outgoing<S> {
    /// Length of the message.
    pub length_bytes: u32,
    /// Its packets.
    pub packets: u32,
    /// Its number among those to its peer.
    pub serial: u32,
    /// Counts the messages of this node: a smaller one is older.
    pub birth: u64,
    peer: u32,
    /// The protocol's.
    pub state: S,
}

/// A message this node receives, with the protocol's own state.
#[derive(Clone, Debug, Default)]
pub struct Incoming<R> {
    /// Length of the message.
    pub length_bytes: u32,
    /// Its packets.
    pub packets: u32,
    serial: u32,
    /// Packets that came in.
    pub received: Received,
    /// When the sender was last heard of.
    pub heard: Instant,
    /// The protocol's.
    pub state: R,
}

impl<S: Reuse> Reuse for Outgoing<S> {
    fn reuse(&mut self) {
        self.state.reuse();
    }
}

impl<R: Reuse> Reuse for Incoming<R> {
    fn reuse(&mut self) {
        self.received.clear();
        self.state.reuse();
    }
}

impl<R> Incoming<R> {
    /// Packets that did not come in yet.
    pub fn missing(&self) -> u32 {
        self.packets - self.received.count()
    }
}

impl Reuse for () {
    fn reuse(&mut self) {}
}

#[derive(Clone, Debug, Default)]
struct Peer {
    /// Number of the next message to it.
    next: u32,
    /// Its messages from us that are over.
    released: Received,
    /// Messages from it that are over.
    over: Received,
    /// Those of them that were given up.
    refused: Vec<u32>,
}

impl Reuse for Peer {
    fn reuse(&mut self) {
        *self = Peer::default();
    }
}

/// What a packet of a message met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// A message that is being received.
    Open(u32),
    /// One that was delivered.
    Delivered,
    /// One that was given up; its sender should know.
    Refused,
    /// Nothing that makes sense: counted, and to be ignored.
    Nonsense,
}

/// The context of every rival.
pub type EndCx<'a> = Cx<'a, Effect<Why>, Timer>;

/// A rival, apart from what is the same in all: [`machine`] makes a machine of it.
pub(super) trait Rival {
    /// What its packets say.
    type Header: Copy;
    /// Its state of a message being sent.
    type Sending: Reuse;
    /// Its state of a message being received.
    type Receiving: Reuse;

    /// Its messages.
    fn end(&mut self) -> &mut Endpoint<Self::Header, Self::Sending, Self::Receiving>;

    /// A message is to be sent, a question's answer like any other.
    fn submit(&mut self, to: Node, message: Message, length_bytes: u32, cx: &mut EndCx<'_>);

    /// A packet came in.
    fn received(
        &mut self,
        from: (Node, Self::Header),
        payload: Extent,
        seen: Seen,
        cx: &mut EndCx<'_>,
    );

    /// The application takes back the messages of this name that are being sent.
    fn cancel(&mut self, message: Message, cx: &mut EndCx<'_>);

    /// A timer came; one of those that move may mean nothing.
    fn due(&mut self, timer: Timer, cx: &mut EndCx<'_>);

    /// The packet with payload to send now.
    fn next_data(&mut self, room: Room, cx: &mut EndCx<'_>) -> Option<Packet<Self::Header>>;

    /// Asserts the invariants.
    fn verify(&self);

    /// A step.
    fn step(&mut self, input: Input<Self::Header>, cx: &mut EndCx<'_>) {
        match input {
            Input::Rx { from, header, payload, seen } => {
                self.received((from, header), payload, seen, cx);
            }
            Input::Submit { to, message, length_bytes, asks: _ } => {
                self.submit(to, message, length_bytes, cx);
            }
            Input::Answer { to, question, length_bytes } => {
                self.submit(to, question.answer(), length_bytes, cx);
            }
            Input::Cancel { message } => self.cancel(message, cx),
        }
    }
}

/// Makes a machine of the packet family of a [`Rival`] whose packets have this header: packets
/// without payload go before all others, and nothing happens at the start.
macro_rules! machine {
    ($rival:ty, $header:ty) => {
        impl cavy_core::Machine for $rival {
            type Input = cavy_core::family::packet::Input<$header>;
            type Effect = cavy_core::family::packet::Effect<Why>;
            type Timer = Timer;

            fn effects_max(&self) -> usize {
                $crate::rivals::endpoint::EFFECTS_MAX
            }
            fn start(&mut self, _: &mut EndCx<'_>) {}
            #[inline]
            fn handle(&mut self, input: Self::Input, cx: &mut EndCx<'_>) {
                self.step(input, cx);
            }
            #[inline]
            fn expire(&mut self, timer: Timer, cx: &mut EndCx<'_>) {
                self.due(timer, cx);
            }
            fn check(&self) {
                self.verify();
            }
        }

        impl cavy_core::Transmit for $rival {
            type Header = $header;

            #[inline]
            fn pull(&mut self, room: Room, cx: &mut EndCx<'_>) -> Option<Packet<Self::Header>> {
                match self.end().next_control() {
                    Some(packet) => Some(packet),
                    None => self.next_data(room, cx),
                }
            }
        }
    };
}
pub(super) use machine;

/// Messages, peers and control packets of one node. `S` and `R` are a protocol's states of a
/// message being sent and being received.
#[derive(Clone, Debug)]
pub struct Endpoint<H, S, R> {
    /// Messages this node sends.
    pub outgoing: Flows<Outgoing<S>>,
    /// Messages this node receives.
    pub incoming: Flows<Incoming<R>>,
    /// Packets without payload; they go before all others.
    control: VecDeque<Packet<H>>,
    peers: Flows<Peer>,
    patience: Span,
    births: u64,
    sweeping: bool,
    malformed: u64,
}

impl<H: Copy, S: Reuse, R: Reuse> Endpoint<H, S, R> {
    /// An endpoint without messages. A sender gives a silent peer up after `patience`, a receiver
    /// after ten times that.
    pub fn new(patience: Span) -> Self {
        Endpoint {
            outgoing: Flows::default(),
            incoming: Flows::default(),
            control: VecDeque::new(),
            peers: Flows::default(),
            patience,
            births: 0,
            sweeping: false,
            malformed: 0,
        }
    }

    fn peer(&mut self, node: Node) -> u32 {
        let key = (node, Message(0));
        self.peers.find(key).unwrap_or_else(|| self.peers.insert(key))
    }

    /// Begins to send a message; `None` when it failed at once.
    pub fn open(
        &mut self,
        to: Node,
        message: Message,
        length_bytes: u32,
        cx: &mut EndCx<'_>,
    ) -> Option<u32> {
        let peer = self.peer(to);
        let numbers = &mut self.peers[peer];
        let crowded = numbers.next - numbers.released.next() >= SERIALS_MAX
            || numbers.next == u32::MAX
            || length_bytes > LENGTH_MAX_BYTES;
        if crowded || self.outgoing.find((to, message)).is_some() {
            cx.emit(Effect::Failed { peer: to, message, why: Why::Impossible });
            return None;
        }
        let serial = numbers.next;
        numbers.next += 1;
        let slot = self.outgoing.insert((to, message));
        let flow = &mut self.outgoing[slot];
        flow.length_bytes = length_bytes;
        flow.packets = packets(length_bytes);
        flow.serial = serial;
        flow.birth = self.births;
        flow.peer = peer;
        self.births += 1;
        Some(slot)
    }

    /// What packets of the message in `slot` say about it.
    #[inline]
    pub fn about(&self, slot: u32) -> About {
        let flow = &self.outgoing[slot];
        let floor = self.peers[flow.peer].released.next();
        About { serial: flow.serial, floor, length_bytes: flow.length_bytes }
    }

    /// Packet `number` of the message in `slot`.
    #[inline]
    pub fn packet(&self, slot: u32, number: u32, header: H, level: u8, rank: u32) -> Packet<H> {
        let (to, message) = self.outgoing.key(slot).expect("a message that is being sent");
        let payload = extent(message, self.outgoing[slot].length_bytes, number);
        Packet { to, header, payload, priority: level, rank }
    }

    /// Payload of packet `number` of the message in `slot`, in bytes, if there is room for it.
    #[inline]
    pub fn fits(&self, slot: u32, number: u32, room: Room) -> bool {
        let left = self.outgoing[slot].length_bytes - number * PAYLOAD_BYTES;
        left.min(PAYLOAD_BYTES) <= room.bytes
    }

    /// The message in `slot` was acknowledged as a whole.
    pub fn release(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        if let Some((peer, message)) = self.outgoing.key(slot) {
            cx.emit(Effect::Released { peer, message });
            self.close(slot);
        }
    }

    /// The message in `slot` will not arrive.
    pub fn fail(&mut self, slot: u32, why: Why, cx: &mut EndCx<'_>) {
        if let Some((peer, message)) = self.outgoing.key(slot) {
            cx.emit(Effect::Failed { peer, message, why });
            self.close(slot);
        }
    }

    fn close(&mut self, slot: u32) {
        let flow = &self.outgoing[slot];
        let (peer, serial) = (flow.peer, flow.serial);
        self.peers[peer].released.insert(serial);
        self.outgoing.remove(slot);
    }

    /// Finds the message a packet belongs to, or begins to receive it.
    pub fn meet(&mut self, from: Node, message: Message, about: About, cx: &mut EndCx<'_>) -> Met {
        let now = cx.now();
        if let Some(slot) = self.incoming.find((from, message)) {
            let flow = &mut self.incoming[slot];
            if (flow.serial, flow.length_bytes) != (about.serial, about.length_bytes) {
                return self.nonsense();
            }
            flow.heard = now;
            return Met::Open(slot);
        }
        let About { serial, floor, length_bytes } = about;
        let sane = floor <= serial && serial - floor < SERIALS_MAX && serial < u32::MAX;
        if !sane || length_bytes > LENGTH_MAX_BYTES {
            return self.nonsense();
        }
        let peer = self.peer(from);
        let numbers = &mut self.peers[peer];
        if floor > numbers.over.next() {
            numbers.over.fill_to(floor);
            let over = numbers.over.next();
            numbers.refused.retain(|&serial| serial >= over);
        }
        if numbers.over.contains(serial) {
            let refused = numbers.refused.contains(&serial);
            return if refused { Met::Refused } else { Met::Delivered };
        }
        let slot = self.incoming.insert((from, message));
        let flow = &mut self.incoming[slot];
        flow.serial = serial;
        flow.length_bytes = length_bytes;
        flow.packets = packets(length_bytes);
        flow.heard = now;
        if !self.sweeping {
            self.sweeping = true;
            cx.arm(Timer::Sweep, now + self.patience);
        }
        Met::Open(slot)
    }

    fn nonsense(&mut self) -> Met {
        self.malformed += 1;
        Met::Nonsense
    }

    /// The number of the packet that carries `payload`, if a sender of this message makes such a
    /// one.
    pub fn number(&mut self, about: About, payload: Extent) -> Option<u32> {
        let number = payload.offset_bytes / PAYLOAD_BYTES;
        let legal = about.length_bytes <= LENGTH_MAX_BYTES
            && number < packets(about.length_bytes)
            && extent(payload.message, about.length_bytes, number) == payload;
        if !legal {
            self.malformed += 1;
        }
        legal.then_some(number)
    }

    /// Takes in packet `number` of the message in `slot`. True when it is new.
    pub fn place(&mut self, slot: u32, number: u32, cx: &mut EndCx<'_>) -> bool {
        let (from, message) = self.incoming.key(slot).expect("a message that is being received");
        let flow = &mut self.incoming[slot];
        let new = flow.received.insert(number);
        if new && flow.length_bytes > 0 {
            cx.emit(Effect::Place { from, extent: extent(message, flow.length_bytes, number) });
        }
        new
    }

    /// Delivers the message in `slot` if it is complete; the slot is free then.
    pub fn deliver(&mut self, slot: u32, cx: &mut EndCx<'_>) -> bool {
        let (from, message) = self.incoming.key(slot).expect("a message that is being received");
        if self.incoming[slot].missing() > 0 {
            return false;
        }
        let length_bytes = self.incoming[slot].length_bytes;
        cx.emit(Effect::Delivered { from, message, length_bytes });
        self.end(slot, false);
        true
    }

    fn end(&mut self, slot: u32, refused: bool) {
        let Some((from, _)) = self.incoming.key(slot) else { return };
        let serial = self.incoming[slot].serial;
        let peer = self.peer(from);
        let numbers = &mut self.peers[peer];
        numbers.over.insert(serial);
        if refused {
            numbers.refused.push(serial);
        }
        self.incoming.remove(slot);
    }

    /// The sender of the message in `slot` took it back.
    pub fn cancelled(&mut self, slot: u32, cx: &mut EndCx<'_>) {
        if let Some((peer, message)) = self.incoming.key(slot) {
            cx.emit(Effect::Failed { peer, message, why: Why::Cancelled });
            self.end(slot, true);
        }
    }

    /// Gives up messages whose sender has been silent for long; calls `gone` with each slot before.
    pub fn sweep(&mut self, cx: &mut EndCx<'_>, mut gone: impl FnMut(u32)) {
        let patience = self.patience * RECEIVER_PATIENCE;
        let now = cx.now();
        let mut swept = 0;
        while swept < SWEPT_MAX {
            let silent = |&(slot, _): &(u32, _)| now.since(self.incoming[slot].heard) >= patience;
            let Some((slot, (peer, message))) = self.incoming.iter().find(silent) else { break };
            gone(slot);
            cx.emit(Effect::Failed { peer, message, why: Why::Silent });
            self.end(slot, true);
            swept += 1;
        }
        self.sweeping = !self.incoming.is_empty();
        if self.sweeping {
            let wait = if swept == SWEPT_MAX { Span::ZERO } else { self.patience };
            cx.arm(Timer::Sweep, now + wait);
        }
    }

    /// Messages of this name that are being sent: one question, or answers to several peers whose
    /// questions bore the same name.
    pub fn named(&self, message: Message) -> Option<u32> {
        self.outgoing.iter().find(|(_, key)| key.1 == message).map(|(slot, _)| slot)
    }

    /// A packet without payload about `message`, before all data.
    pub fn control(&mut self, to: Node, message: Message, header: H, level: u8) {
        self.control_at(to, message, 0, header, level);
    }

    /// A packet without payload about packet `number` of `message`, before all data.
    pub fn control_at(&mut self, to: Node, message: Message, number: u32, header: H, level: u8) {
        let offset_bytes = number.saturating_mul(PAYLOAD_BYTES);
        let payload = Extent { message, offset_bytes, length_bytes: 0 };
        self.control.push_back(Packet { to, header, payload, priority: level, rank: 0 });
    }

    /// The next packet without payload.
    #[inline]
    pub fn next_control(&mut self) -> Option<Packet<H>> {
        self.control.pop_front()
    }

    /// How long a sender waits for a silent peer.
    pub fn patience(&self) -> Span {
        self.patience
    }

    /// Packets that made no sense and were dropped.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Messages under way, and messages over that are remembered beyond the contiguous ones: all
    /// that takes memory.
    pub fn remembered(&self) -> usize {
        let of_peer = |(slot, _)| {
            let peer: &Peer = &self.peers[slot];
            let beyond = peer.over.count() - peer.over.next();
            beyond as usize + (peer.released.count() - peer.released.next()) as usize
        };
        self.outgoing.len() + self.incoming.len() + self.peers.iter().map(of_peer).sum::<usize>()
    }
}
