//! Messages over streams: TCP where a world speaks of messages (decision 15).
//!
//! One connection for each peer that is sent to, opened by the first message and kept. A message is
//! written whole, and nothing later shares a segment with its end, as with `MSG_EOR` on Linux; the
//! segment that ends it says so. Answers go back over the connection of their question. Lengths of
//! messages are known to both sides and take no octets, as in the published block traffic
//! [incast 4.1].
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
}

#[derive(Clone, Copy, Debug)]
struct Coming {
    message: Message,
    end: u64,
    length_bytes: u32,
}

/// What is known of the connection in one place.
#[derive(Clone, Debug, Default)]
struct Link {
    peer: u32,
    written: u64,
    read: u64,
    outgoing: VecDeque<Written>,
    incoming: VecDeque<Coming>,
    /// How long the last answer was: the next one is expected to be as long.
    answer_bytes: u64,
}

/// A transport of messages over TCP.
#[derive(Clone, Debug)]
pub struct Messages {
    stack: Stack,
    links: Vec<Link>,
    /// By peer: the connection to write messages to, and the one that its questions came by.
    ways: Vec<[Option<Connection>; 2]>,
    rest: VecDeque<Effect<Why>>,
    /// Where each message has its own connection: the one that each open question came by.
    asked: Option<BTreeMap<(Node, Message), Connection>>,
}

impl Messages {
    /// A host; the error says which value is out of range.
    pub fn new(config: Config) -> Result<Messages, &'static str> {
        let stack = Stack::new(config)?;
        let (links, ways, rest) = (Vec::new(), Vec::new(), VecDeque::new());
        Ok(Messages { stack, links, ways, rest, asked: None })
    }

    /// The same, with a connection for each message.
    pub fn afresh(self) -> Messages {
        Messages { asked: Some(BTreeMap::new()), ..self }
    }

    /// What all its connections did.
    pub fn counts(&self) -> &Counts {
        self.stack.counts()
    }

    fn way(&mut self, peer: Node) -> &mut [Option<Connection>; 2] {
        let place = peer.0 as usize;
        if self.ways.len() <= place {
            self.ways.resize(place + 1, [None; 2]);
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

    fn write(
        &mut self,
        to: Node,
        message: Message,
        length_bytes: u32,
        now: Instant,
        rng: &mut Stream,
    ) {
        let [own, theirs] = *self.way(to);
        let known = match &mut self.asked {
            Some(asked) if message.is_answer() => asked.remove(&(to, message)),
            Some(_) => None,
            None if message.is_answer() => theirs.or(own),
            None => own,
        };
        let name = match known {
            Some(name) => name,
            None => {
                let ticket = u64::from(to.0);
                self.stack.input(stream::Input::Open { ticket, to, port: PORT }, now, rng);
                self.settle(None, now, rng);
                let [own, _] = *self.way(to);
                match own {
                    Some(name) => name,
                    None => return self.rest.push_back(failed(to, message, Why::Refused)),
                }
            }
        };
        let bytes = u64::from(length_bytes);
        let link = self.link(name);
        let start = link.written;
        link.written += bytes;
        link.outgoing.push_back(Written { message, start, end: start + bytes });
        let write = stream::Input::Write { connection: name, bytes, whole: true };
        self.stack.input(write, now, rng);
    }

    /// Translates what the stack wants done. `arrived` is the packet of this step.
    fn settle(&mut self, arrived: Option<(Extent, bool)>, now: Instant, rng: &mut Stream) {
        while let Some(effect) = self.stack.effects.pop_front() {
            match effect {
                stream::Effect::Opening { ticket, connection } => {
                    let peer = Node(ticket as u32);
                    self.way(peer)[0] = Some(connection);
                    let link = self.link(connection);
                    *link = Link { peer: peer.0, ..Link::default() };
                }
                stream::Effect::Opened { connection, peer, accepted: true, .. } => {
                    self.way(peer)[1] = Some(connection);
                    let link = self.link(connection);
                    *link = Link { peer: peer.0, ..Link::default() };
                }
                stream::Effect::Place { connection, offset, skip_bytes, length_bytes } => {
                    if let Some((extent, ends)) = arrived {
                        self.place(connection, offset, (skip_bytes, length_bytes), extent, ends);
                    }
                }
                stream::Effect::Readable { connection, to } => {
                    let link = self.link(connection);
                    let bytes = to - link.read;
                    link.read = to;
                    let from = Node(link.peer);
                    while let Some(Coming { message, end, length_bytes }) =
                        self.link(connection).incoming.front().copied()
                        && end <= to
                    {
                        self.link(connection).incoming.pop_front();
                        self.rest.push_back(Effect::Delivered { from, message, length_bytes });
                        if message.is_answer() {
                            self.link(connection).answer_bytes = u64::from(length_bytes);
                            self.stack.answered(connection);
                        }
                        match &mut self.asked {
                            Some(_) if message.is_answer() => {
                                self.stack.input(stream::Input::Close { connection }, now, rng);
                            }
                            Some(asked) => {
                                asked.insert((from, message.answer()), connection);
                            }
                            None => {}
                        }
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
                    for way in self.way(peer) {
                        *way = way.filter(|&name| name != connection);
                    }
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

    fn place(
        &mut self,
        connection: Connection,
        offset: u64,
        (skip, length_bytes): (u32, u32),
        extent: Extent,
        ends: bool,
    ) {
        let begins = offset - u64::from(skip);
        let link = self.link(connection);
        let from = Node(link.peer);
        let end = begins + u64::from(extent.length_bytes);
        let at = link.incoming.partition_point(|one| one.end < end);
        if ends && link.incoming.get(at).is_none_or(|one| one.end != end) {
            let length_bytes = extent.offset_bytes + extent.length_bytes;
            link.incoming.insert(at, Coming { message: extent.message, end, length_bytes });
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
                arrived = Some((payload, header.flags.has(Flags::PSH)));
                let input = stream::Input::Rx { from, header, payload, seen };
                self.stack.input(input, now, cx.rng());
            }
            Input::Submit { to, message, length_bytes, asks } => {
                self.write(to, message, length_bytes, now, cx.rng());
                let [own, _] = *self.way(to);
                match own {
                    Some(name) if asks => {
                        let octets = self.link(name).answer_bytes;
                        self.stack.expect(name, octets);
                    }
                    // What is written is sent before the end.
                    Some(connection) if self.asked.is_some() => {
                        self.stack.input(stream::Input::Close { connection }, now, cx.rng());
                    }
                    _ => {}
                }
            }
            Input::Answer { to, question, length_bytes } => {
                self.write(to, question.answer(), length_bytes, now, cx.rng());
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
            }
        }
        Some(Packet { to, header, payload, priority: 0, rank: 0 })
    }
}
