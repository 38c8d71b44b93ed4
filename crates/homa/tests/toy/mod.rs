//! A toy network: hosts around one ideal switch, with losses, duplicates and reordering on demand.
//!
//! It is as small as a world can be that obeys the seam, and it is the oracle: it panics when bytes
//! are placed twice, a message is delivered twice or with holes, or a timer breaks the rules.
#![allow(dead_code)]

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Header as _, Input, Message, Seen};
use cavy_core::{Cx, Instant, Out, Outbox, Packet, Purpose, Room, Span, Stream, Transmit};
use cavy_homa::packet::Header;
use cavy_homa::{Timer, Why};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What the toy drives: Homa, or Homa with a bug.
pub trait Host:
    Transmit<Header = Header, Input = Input<Header>, Effect = Effect<Why>, Timer = Timer>
{
}
impl<M> Host for M where
    M: Transmit<Header = Header, Input = Input<Header>, Effect = Effect<Why>, Timer = Timer>
{
}

/// What the network does to packets, each in thousands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lost: u64,
    pub doubled: u64,
    pub delayed: u64,
    /// Longest extra delay.
    pub delay: Span,
    /// No faults from here on, so that everything can come to its end.
    pub until: Instant,
}

/// How a message ended, seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fate {
    pub delivered: u32,
    pub failed_at_sender: u32,
    pub failed_at_receiver: u32,
    pub released: u32,
    pub why: Option<Why>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrive(u32, usize),
    PortFree(u32),
    Timer(u32, Timer, u64),
    App(usize),
}

/// What an application does at some time.
#[derive(Clone, Copy, Debug)]
pub struct Deed {
    pub node: u32,
    pub input: Input<Header>,
}

struct Seat<M> {
    machine: M,
    rng: Stream,
    timers: BTreeMap<Timer, (Instant, u64)>,
    busy: bool,
}

/// A message is (the node it comes from, the node that asked, its name).
pub type Name = (u32, u32, Message);

pub struct Toy<M> {
    seats: Vec<Seat<M>>,
    outbox: Outbox<Effect<Why>, Timer>,
    events: BinaryHeap<Reverse<(Instant, u64, What)>>,
    packets: Vec<Option<(Node, Packet<Header>)>>,
    deeds: Vec<Deed>,
    placed: BTreeMap<(u32, Name), Vec<(u32, u32)>>,
    pub fates: BTreeMap<Name, Fate>,
    pub lengths: BTreeMap<Name, u32>,
    pub now: Instant,
    pub faults: Faults,
    draws: Stream,
    sequence: u64,
    arms: u64,
    /// Nanoseconds a byte takes, and a packet.
    pub byte_ns: u64,
    pub flight: Span,
    /// Answers are this long, and take this long to make; `None` answers with the question's
    /// length.
    pub answer_bytes: Option<u32>,
    pub serve: Span,
    /// Delivered twice is no defect (at-least-once).
    pub repeats: bool,
    pub steps: u64,
    pub sent: Vec<(u32, Packet<Header>)>,
    pub keep_sent: bool,
}

impl<M: Host> Toy<M> {
    pub fn new(machines: Vec<M>, seed: u64) -> Self {
        let most = machines.iter().map(|m| m.effects_max()).max().unwrap_or(0);
        let seat = |(node, machine)| Seat {
            machine,
            rng: Stream::keyed(seed, node as u32, Purpose::Machine),
            timers: BTreeMap::new(),
            busy: false,
        };
        Toy {
            seats: machines.into_iter().enumerate().map(seat).collect(),
            outbox: Outbox::with_capacity(most),
            events: BinaryHeap::new(),
            packets: Vec::new(),
            deeds: Vec::new(),
            placed: BTreeMap::new(),
            fates: BTreeMap::new(),
            lengths: BTreeMap::new(),
            now: Instant::ZERO,
            faults: Faults::default(),
            draws: Stream::keyed(seed, 99, Purpose::Faults),
            sequence: 0,
            arms: 0,
            byte_ns: 1,
            flight: Span::from_us(2),
            answer_bytes: None,
            serve: Span::from_us(1),
            repeats: false,
            steps: 0,
            sent: Vec::new(),
            keep_sent: false,
        }
    }

    pub fn machine(&self, node: u32) -> &M {
        &self.seats[node as usize].machine
    }

    /// Replaces a host's machine: it crashed and came back without memory.
    pub fn restart(&mut self, node: u32, machine: M) {
        let seat = &mut self.seats[node as usize];
        seat.machine = machine;
        seat.timers.clear();
    }

    pub fn at(&mut self, at: Instant, node: u32, input: Input<Header>) {
        self.deeds.push(Deed { node, input });
        let deed = self.deeds.len() - 1;
        self.push(at, What::App(deed));
    }

    pub fn submit(&mut self, at: Instant, from: u32, to: u32, id: u64, bytes: u32, asks: bool) {
        let message = Message(id);
        self.fates.insert((from, from, message), Fate::default());
        self.lengths.insert((from, from, message), bytes);
        if asks {
            let answer = self.answer_bytes.unwrap_or(bytes);
            self.lengths.insert((to, from, message.answer()), answer);
        }
        self.at(at, from, Input::Submit { to: Node(to), message, length_bytes: bytes, asks });
    }

    fn push(&mut self, at: Instant, what: What) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, what)));
    }

    /// Runs until nothing happens any more, or to `end`.
    pub fn run(&mut self, end: Instant) {
        while let Some(Reverse((at, _, _))) = self.events.peek() {
            if *at > end {
                break;
            }
            self.step();
        }
        self.now = self.now.max(end.min(Instant::from_ns(u64::MAX / 2)));
    }

    pub fn step(&mut self) -> bool {
        let Some(Reverse((at, _, what))) = self.events.pop() else { return false };
        self.now = self.now.max(at);
        self.steps += 1;
        match what {
            What::PortFree(node) => {
                self.seats[node as usize].busy = false;
                self.transmit(node);
            }
            What::App(deed) => {
                let Deed { node, input } = self.deeds[deed];
                self.handle(node, input);
            }
            What::Arrive(node, packet) => {
                let Some((from, packet)) = self.packets[packet].take() else { return true };
                let seen = Seen::default();
                let (header, payload) = (packet.header, packet.payload);
                self.handle(node, Input::Rx { from, header, payload, seen });
            }
            What::Timer(node, timer, arming) => {
                let seat = &mut self.seats[node as usize];
                if seat.timers.get(&timer).is_none_or(|&(_, armed)| armed != arming) {
                    return true;
                }
                seat.timers.remove(&timer);
                let mut cx = Cx::new(self.now, &mut seat.rng, &mut self.outbox);
                seat.machine.expire(timer, &mut cx);
                self.settle(node);
            }
        }
        true
    }

    pub fn handle(&mut self, node: u32, input: Input<Header>) {
        let seat = &mut self.seats[node as usize];
        seat.machine.handle(input, &mut Cx::new(self.now, &mut seat.rng, &mut self.outbox));
        self.settle(node);
    }

    fn settle(&mut self, node: u32) {
        self.carry_out(node);
        self.seats[node as usize].machine.check();
        self.transmit(node);
    }

    fn transmit(&mut self, node: u32) {
        if self.seats[node as usize].busy {
            return;
        }
        let seat = &mut self.seats[node as usize];
        let mut cx = Cx::new(self.now, &mut seat.rng, &mut self.outbox);
        let room = Room { packets: 1, bytes: 9_000 };
        let packet = seat.machine.pull(room, &mut cx);
        self.carry_out(node);
        self.seats[node as usize].machine.check();
        let Some(packet) = packet else { return };
        if self.keep_sent {
            self.sent.push((node, packet));
        }
        let bytes = u64::from(packet.header.wire_bytes() + packet.payload.length_bytes + 58);
        let sent = self.now + Span::from_ns(bytes * self.byte_ns);
        self.seats[node as usize].busy = true;
        self.push(sent, What::PortFree(node));
        let faulty = self.now < self.faults.until;
        let chance = |draws: &mut Stream, of: u64| faulty && draws.below(1000) < of;
        if chance(&mut self.draws, self.faults.lost) {
            return;
        }
        let copies = 1 + u32::from(chance(&mut self.draws, self.faults.doubled));
        for _ in 0..copies {
            let mut at = sent + self.flight;
            if chance(&mut self.draws, self.faults.delayed) {
                at += Span::from_ns(self.draws.below(self.faults.delay.as_ns() + 1));
            }
            self.packets.push(Some((Node(node), packet)));
            let index = self.packets.len() - 1;
            self.push(at, What::Arrive(packet.to.0, index));
        }
    }

    /// The name of `message` when `node` received it from `from`.
    fn inbound(node: u32, from: u32, message: Message) -> Name {
        (from, if message.is_answer() { node } else { from }, message)
    }

    fn carry_out(&mut self, node: u32) {
        let outs: Vec<_> = self.outbox.drain().collect();
        for out in outs {
            match out {
                Out::Arm(timer, at) => {
                    self.arms += 1;
                    let arming = self.arms;
                    self.seats[node as usize].timers.insert(timer, (at, arming));
                    self.push(at.max(self.now), What::Timer(node, timer, arming));
                }
                Out::Disarm(timer) => {
                    self.seats[node as usize].timers.remove(&timer);
                }
                Out::Effect(effect) => self.effect(node, effect),
            }
        }
    }

    fn effect(&mut self, node: u32, effect: Effect<Why>) {
        match effect {
            Effect::Place { from, extent } => self.place(node, from.0, extent),
            Effect::Delivered { from, message, length_bytes } => {
                let name = Self::inbound(node, from.0, message);
                self.delivered(node, name, length_bytes);
                let asked = self.lengths.contains_key(&(node, from.0, message.answer()));
                if !message.is_answer() && asked {
                    let answer = self.lengths[&(node, from.0, message.answer())];
                    let input = Input::Answer { to: from, question: message, length_bytes: answer };
                    let at = self.now + self.serve;
                    self.at(at, node, input);
                }
            }
            Effect::Released { message, .. } => {
                let name = (node, node, message);
                if let Some(fate) = self.fates.get_mut(&name) {
                    fate.released += 1;
                    assert!(fate.released <= 1, "{name:?} released twice");
                }
            }
            Effect::Failed { peer, message, why } => {
                let mine = (node, if message.is_answer() { peer.0 } else { node }, message);
                if self.lengths.contains_key(&mine) {
                    let fate = self.fates.entry(mine).or_default();
                    fate.failed_at_sender += 1;
                    fate.why = Some(why);
                } else {
                    let theirs = Self::inbound(node, peer.0, message);
                    self.fates.entry(theirs).or_default().failed_at_receiver += 1;
                    self.placed.remove(&(node, theirs));
                }
            }
        }
    }

    fn place(&mut self, node: u32, from: u32, extent: Extent) {
        let name = Self::inbound(node, from, extent.message);
        let (start, end) = (extent.offset_bytes, extent.offset_bytes + extent.length_bytes);
        let parts = self.placed.entry((node, name)).or_default();
        let at = parts.partition_point(|&(s, _)| s < start);
        let clear = |other: Option<&(u32, u32)>| {
            other.is_none_or(|&(s, e)| e <= start || s >= end || s == e)
        };
        let free = clear(parts.get(at)) && (at == 0 || clear(parts.get(at - 1)));
        assert!(free || self.repeats, "{name:?}: bytes {start}..{end} placed twice");
        parts.insert(at, (start, end));
    }

    fn delivered(&mut self, node: u32, name: Name, length: u32) {
        let parts = self.placed.remove(&(node, name)).unwrap_or_default();
        if !self.repeats {
            let placed: u32 = parts.iter().map(|(start, end)| end - start).sum();
            assert_eq!(placed, length, "{name:?} delivered with holes");
        }
        let expected = self.lengths.get(&name);
        assert_eq!(expected, Some(&length), "{name:?} delivered with another length");
        let fate = self.fates.entry(name).or_default();
        fate.delivered += 1;
        assert!(self.repeats || fate.delivered == 1, "{name:?} delivered twice");
    }

    /// Timers that are armed.
    pub fn armed(&self) -> usize {
        self.seats.iter().map(|seat| seat.timers.len()).sum()
    }

    pub fn fate(&self, asker: u32, message: Message, from: u32) -> Fate {
        self.fates.get(&(from, asker, message)).copied().unwrap_or_default()
    }
}
