//! Messages over streams: TCP where a world speaks of messages (decision 15).
//!
//! One connection for each peer that is sent to, opened by the first message and kept. A message is
//! written whole, and nothing later shares a segment with its end, as with `MSG_EOR` on Linux; the
//! segment that ends it says so. Answers go back over the connection of their question. Lengths of
//! messages are known to both sides and take no octets, as in the published block traffic
//! [incast 4.1].
//!
//! With [`Messages::pool`] a host keeps up to so many connections to each peer. A message takes the
//! one on which the fewest messages and answers are under way; while none is free another one is
//! opened. What is on different connections may overtake each other. A receiver has to know which
//! message it will answer, to remember where: the segment that ends a question bears URG, which
//! nothing else here uses.
//!
//! With [`Messages::afresh`] each message has a connection of its own, which its answer goes back
//! over and which ends with it: the first timeout of a connection then counts, and nothing that was
//! learned is kept.

use crate::config::{Config, Counts, Why};
use crate::connection::Leaving;
use crate::segment::{Flags, Segment};
use crate::stack::{EFFECTS_STEP, Stack, Timer};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message};
use cavy_core::family::stream::{self, Connection};
use cavy_core::{Cx, Instant, Machine, Packet, Room, Stream, Transmit};

/// Where messages are welcome.
const PORT: u16 = 7000;

#[derive(Clone, Copy, Debug)]
struct Written {
    message: Message,
    start: u64,
    end: u64,
    /// Its last segment says that it is a question.
    asks: bool,
}

#[derive(Clone, Copy, Debug)]
struct Coming {
    message: Message,
    end: u64,
    length_bytes: u32,
    asks: bool,
}

/// What is known of the connection in one place.
#[derive(Clone, Debug, Default)]
struct Link {
    peer: u32,
    written: u64,
    read: u64,
    outgoing: VecDeque<Written>,
    incoming: VecDeque<Coming>,
    /// Questions whose answers are not there yet.
    open: u32,
    /// How long the last answer was: the next one is expected to be as long.
    answer_bytes: u64,
}

impl Link {
    /// Messages and answers under way.
    fn busy(&self) -> usize {
        self.outgoing.len() + self.open as usize
    }
}

/// The connections with one peer.
#[derive(Clone, Debug, Default)]
struct Way {
    /// Those to write messages to.
    own: Vec<Connection>,
    /// The one that its questions came by.
    theirs: Option<Connection>,
}

/// A transport of messages over TCP.
#[derive(Clone, Debug)]
pub struct Messages {
    stack: Stack,
    links: Vec<Link>,
    /// By peer.
    ways: Vec<Way>,
    /// The connection that was opened last.
    opened: Option<Connection>,
    rest: VecDeque<Effect<Why>>,
    /// Connections that are kept to a peer; none where each message has its own.
    kept: u16,
    /// Where it is not one: the connection that each open question came by.
    asked: Option<BTreeMap<(Node, Message), Connection>>,
}

impl Messages {
    /// A host; the error says which value is out of range.
    pub fn new(config: Config) -> Result<Messages, &'static str> {
        let stack = Stack::new(config)?;
        let (links, ways, rest) = (Vec::new(), Vec::new(), VecDeque::new());
        Ok(Messages { stack, links, ways, opened: None, rest, kept: 1, asked: None })
    }

    /// The same, with up to so many connections to each peer, at least one.
    pub fn pool(self, connections: u16) -> Messages {
        let kept = connections.max(1);
        Messages { kept, asked: (kept > 1).then(BTreeMap::new), ..self }
    }

    /// The same, with a connection for each message.
    pub fn afresh(self) -> Messages {
        Messages { kept: 0, asked: Some(BTreeMap::new()), ..self }
    }

    /// What all its connections did.
    pub fn counts(&self) -> &Counts {
        self.stack.counts()
    }

    fn way(&mut self, peer: Node) -> &mut Way {
        let place = peer.0 as usize;
        if self.ways.len() <= place {
            self.ways.resize(place + 1, Way::default());
        }
        &mut self.ways[place]
    }

    fn link(&mut self, name: Connection) -> &mut Link {
        let place = name.0 as u32 as usize;
        if self.links.len() <= place {
            self.links.resize(place + 1, Link::default());
        }
        &mut self.links[place]
    }

    /// The connection for something new to `to`: the one of its own that has the least to do, or
    /// another one while all have something to do and there may be more.
    fn own(&mut self, to: Node, now: Instant, rng: &mut Stream) -> Option<Connection> {
        self.way(to);
        let own = &self.ways[to.0 as usize].own;
        let busy = |name: Connection| self.links[name.0 as u32 as usize].busy();
        let least = own.iter().copied().min_by_key(|&name| busy(name));
        let is_full = own.len() >= usize::from(self.kept);
        if let Some(name) = least.filter(|&name| is_full || busy(name) == 0) {
            return Some(name);
        }
        self.opened = None;
        let ticket = u64::from(to.0);
        self.stack.input(stream::Input::Open { ticket, to, port: PORT }, now, rng);
        self.settle(None, now, rng);
        self.opened.or(least)
    }

    /// Writes a message; says where.
    fn write(
        &mut self,
        (to, message, length_bytes): (Node, Message, u32),
        asks: bool,
        now: Instant,
        rng: &mut Stream,
    ) -> Option<Connection> {
        let known = match &mut self.asked {
            _ if !message.is_answer() => None,
            Some(asked) => asked.remove(&(to, message)),
            None => self.way(to).theirs,
        };
        let Some(name) = known.or_else(|| self.own(to, now, rng)) else {
            self.rest.push_back(failed(to, message, Why::Refused));
            return None;
        };
        let bytes = u64::from(length_bytes);
        let asks = asks && self.kept > 1;
        let link = self.link(name);
        let start = link.written;
        link.written += bytes;
        link.open += u32::from(asks);
        link.outgoing.push_back(Written { message, start, end: start + bytes, asks });
        let write = stream::Input::Write { connection: name, bytes, whole: true };
        self.stack.input(write, now, rng);
        Some(name)
    }

    /// Translates what the stack wants done. `arrived` is the packet of this step.
    fn settle(&mut self, arrived: Option<(Extent, Flags)>, now: Instant, rng: &mut Stream) {
        while let Some(effect) = self.stack.effects.pop_front() {
            match effect {
                stream::Effect::Opening { ticket, connection } => {
                    let peer = Node(ticket as u32);
                    self.opened = Some(connection);
                    if self.kept > 0 {
                        self.way(peer).own.push(connection);
                    }
                    let link = self.link(connection);
                    *link = Link { peer: peer.0, ..Link::default() };
                }
                stream::Effect::Opened { connection, peer, accepted: true, .. } => {
                    self.way(peer).theirs = Some(connection);
                    let link = self.link(connection);
                    *link = Link { peer: peer.0, ..Link::default() };
                }
                stream::Effect::Place { connection, offset, skip_bytes, length_bytes } => {
                    if let Some((extent, flags)) = arrived {
                        self.place(connection, offset, (skip_bytes, length_bytes), extent, flags);
                    }
                }
                stream::Effect::Readable { connection, to } => {
                    let link = self.link(connection);
                    let bytes = to - link.read;
                    link.read = to;
                    while let Some(coming) = self.link(connection).incoming.front().copied()
                        && coming.end <= to
                    {
                        self.link(connection).incoming.pop_front();
                        self.deliver(connection, coming, now, rng);
                    }
                    self.stack.input(stream::Input::Took { connection, bytes }, now, rng);
                }
                stream::Effect::Released { connection, to } => {
                    let link = self.link(connection);
                    let peer = Node(link.peer);
                    while let Some(Written { message, end, .. }) =
                        self.link(connection).outgoing.front().copied()
                        && end <= to
                    {
                        self.link(connection).outgoing.pop_front();
                        self.rest.push_back(Effect::Released { peer, message });
                    }
                }
                stream::Effect::Ended { connection, why } => {
                    let link = core::mem::take(self.link(connection));
                    let peer = Node(link.peer);
                    let way = self.way(peer);
                    way.own.retain(|&name| name != connection);
                    way.theirs = way.theirs.filter(|&name| name != connection);
                    self.opened = self.opened.filter(|&name| name != connection);
                    let left = link.outgoing.iter().map(|one| failed(peer, one.message, why));
                    self.rest.extend(left);
                    if let Some(asked) = &mut self.asked {
                        asked.retain(|_, &mut name| name != connection);
                    }
                }
                stream::Effect::Finished { connection } => {
                    self.stack.input(stream::Input::Close { connection }, now, rng);
                }
                stream::Effect::Opened { .. } | stream::Effect::Writable { .. } => {}
            }
        }
    }

    /// A message is there whole.
    fn deliver(&mut self, name: Connection, coming: Coming, now: Instant, rng: &mut Stream) {
        let Coming { message, length_bytes, asks, .. } = coming;
        let from = Node(self.link(name).peer);
        self.rest.push_back(Effect::Delivered { from, message, length_bytes });
        if message.is_answer() {
            let link = self.link(name);
            link.answer_bytes = u64::from(length_bytes);
            link.open = link.open.saturating_sub(1);
            self.stack.answered(name);
            if self.kept == 0 {
                self.stack.input(stream::Input::Close { connection: name }, now, rng);
            }
        } else if let Some(asked) = self.asked.as_mut().filter(|_| asks || self.kept == 0) {
            asked.insert((from, message.answer()), name);
        }
    }

    fn place(
        &mut self,
        connection: Connection,
        offset: u64,
        (skip, length_bytes): (u32, u32),
        extent: Extent,
        flags: Flags,
    ) {
        let begins = offset - u64::from(skip);
        let link = self.link(connection);
        let from = Node(link.peer);
        let end = begins + u64::from(extent.length_bytes);
        let at = link.incoming.partition_point(|one| one.end < end);
        if flags.has(Flags::PSH) && link.incoming.get(at).is_none_or(|one| one.end != end) {
            let length_bytes = extent.offset_bytes + extent.length_bytes;
            let asks = flags.has(Flags::URG);
            link.incoming.insert(at, Coming { message: extent.message, end, length_bytes, asks });
        }
        let offset_bytes = extent.offset_bytes + skip;
        let extent = Extent { message: extent.message, offset_bytes, length_bytes };
        self.rest.push_back(Effect::Place { from, extent });
    }

    fn flush(&mut self, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        for (slot, at) in self.stack.arms.drain(..) {
            match at {
                Some(at) => cx.arm(Timer::Connection(slot), at),
                None => cx.disarm(Timer::Connection(slot)),
            }
        }
        for _ in 0..EFFECTS_STEP {
            let Some(effect) = self.rest.pop_front() else { return };
            cx.emit(effect);
        }
        if !self.rest.is_empty() {
            cx.arm(Timer::Rest, cx.now());
        }
    }
}

fn failed(peer: Node, message: Message, why: Why) -> Effect<Why> {
    Effect::Failed { peer, message, why }
}

impl Machine for Messages {
    type Input = Input<Segment>;
    type Effect = Effect<Why>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        EFFECTS_STEP + 16
    }
    fn start(&mut self, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        let now = cx.now();
        self.stack.input(stream::Input::Listen { port: PORT, backlog: u16::MAX }, now, cx.rng());
    }
    fn handle(&mut self, input: Input<Segment>, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        let now = cx.now();
        let mut arrived = None;
        match input {
            Input::Rx { from, header, payload, seen } => {
                arrived = Some((payload, header.flags));
                let input = stream::Input::Rx { from, header, payload, seen };
                self.stack.input(input, now, cx.rng());
            }
            Input::Submit { to, message, length_bytes, asks } => {
                match self.write((to, message, length_bytes), asks, now, cx.rng()) {
                    Some(name) if asks => {
                        let octets = self.link(name).answer_bytes;
                        self.stack.expect(name, octets);
                    }
                    // What is written is sent before the end.
                    Some(connection) if self.kept == 0 => {
                        self.stack.input(stream::Input::Close { connection }, now, cx.rng());
                    }
                    _ => {}
                }
            }
            Input::Answer { to, question, length_bytes } => {
                self.write((to, question.answer(), length_bytes), false, now, cx.rng());
            }
            // What is written cannot be taken back.
            Input::Cancel { .. } => {}
        }
        self.settle(arrived, now, cx.rng());
        self.flush(cx);
    }
    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        if let Timer::Connection(slot) = timer {
            let now = cx.now();
            self.stack.due(slot, now, cx.rng());
            self.settle(None, now, cx.rng());
        }
        self.flush(cx);
    }
    fn check(&self) {
        self.stack.check_all();
    }
}

impl Transmit for Messages {
    type Header = Segment;

    fn pull(&mut self, _: Room, cx: &mut Cx<'_, Effect<Why>, Timer>) -> Option<Packet<Segment>> {
        let now = cx.now();
        let left = self.stack.leave(now, cx.rng());
        self.settle(None, now, cx.rng());
        self.flush(cx);
        let (to, name, Leaving { segment, offset, length }) = left?;
        let mut header = segment;
        let mut payload = Extent { message: Message(0), offset_bytes: 0, length_bytes: length };
        if let Some(name) = name.filter(|_| length > 0) {
            let link = self.link(name);
            let place = link.outgoing.partition_point(|one| one.end <= offset);
            if let Some(one) = link.outgoing.get(place).filter(|one| one.start <= offset) {
                payload.message = one.message;
                payload.offset_bytes = (offset - one.start) as u32;
                let ends = offset + u64::from(length) == one.end;
                header.flags = Flags(header.flags.0 & !Flags::PSH.0);
                if ends {
                    header.flags = header.flags.with(Flags::PSH);
                }
                if ends && one.asks {
                    header.flags = header.flags.with(Flags::URG);
                }
            }
        }
        Some(Packet { to, header, payload, priority: 0, rank: 0 })
    }
}
