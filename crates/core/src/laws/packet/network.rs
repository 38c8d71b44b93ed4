//! Hosts around one switch.

use super::Arrival;
use super::switch::{Entered, Port, Queue, Sent};
use crate::family::Node;
use crate::family::packet::Seen;
use crate::machine::{Cx, Machine, Out, Outbox, Packet, Room, Transmit};
use crate::stream::{Purpose, Stream};
use crate::time::{Instant, Span};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Who uses the machines of a network, and watches what they do. One for all hosts, as an oracle
/// has to be.
pub trait Application<M: Machine> {
    /// The machine of `node` wants this done. Panics when that is not legal now.
    fn effect(&mut self, node: Node, now: Instant, effect: M::Effect, deeds: &mut Deeds<M::Input>);
}

/// What an application does, in this instant or later.
#[derive(Debug)]
pub struct Deeds<I>(Vec<(Span, Node, I)>);

impl<I> Deeds<I> {
    /// Tells the machine of `node` this after so long, in a step of its own.
    pub fn tell(&mut self, after: Span, node: Node, input: I) {
        self.0.push((after, node, input));
    }
}

/// The links of all hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Links {
    /// Rate of each.
    pub bits_per_s: u64,
    /// Time from a host to the switch, and from the switch to a host.
    pub delay: Span,
}

/// Nothing passes from or to a node, or any, for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// The node that is cut off; `None` for all.
    pub node: Option<Node>,
    /// From here on.
    pub from: Instant,
    /// To here; [`Instant::NEVER`] for ever.
    pub to: Instant,
}

/// What happens to packets beside queueing, each in thousandths of those sent.
#[derive(Clone, Debug)]
pub struct Weather {
    /// Lost.
    pub lost: u64,
    /// Sent twice.
    pub doubled: u64,
    /// Late.
    pub delayed: u64,
    /// How late, at most.
    pub delay: Span,
    /// All this ends here, so that everything can come to its end.
    pub until: Instant,
    /// Times of silence.
    pub outages: Vec<Outage>,
}

impl Default for Weather {
    fn default() -> Self {
        let (delay, until) = (Span::ZERO, Instant::NEVER);
        Weather { lost: 0, doubled: 0, delayed: 0, delay, until, outages: Vec::new() }
    }
}

struct Seat<M: Machine> {
    machine: M,
    rng: Stream,
    /// Deadline and number of each arming.
    timers: BTreeMap<M::Timer, (Instant, u64)>,
    busy: bool,
}

enum Event<M: Transmit> {
    Told(Node, M::Input),
    PortFree(Node),
    AtSwitch(Sent<M::Header>),
    DownlinkFree(Node),
    AtHost(Sent<M::Header>),
    Timer(Node, M::Timer, u64),
}

/// Machines around one switch, and who uses them.
pub struct Network<M: Transmit, A> {
    /// Who uses the machines.
    pub application: A,
    /// The links of all hosts.
    pub links: Links,
    /// How the switch's ports queue.
    pub queue: Queue,
    /// What happens to packets beside that.
    pub weather: Weather,
    /// Payload that a packet may have.
    pub room_bytes: u32,
    /// Ask machines for their invariants after each step?
    pub checks: bool,
    /// Now: when the last event happened.
    pub now: Instant,
    /// Events so far.
    pub steps: u64,
    /// Packets with payload that were sent.
    pub data_packets: u64,
    /// Packets that were lost or dropped.
    pub dropped: u64,
    /// Payloads that were cut off.
    pub trimmed: u64,
    /// Keep all that is sent in `sent`?
    pub keep_sent: bool,
    /// What was sent, and by whom.
    pub sent: Vec<(Node, Packet<M::Header>)>,
    seats: Vec<Seat<M>>,
    ports: Vec<Port<M::Header>>,
    events: BTreeMap<(Instant, u64), Event<M>>,
    outbox: Outbox<M::Effect, M::Timer>,
    made: Vec<Out<M::Effect, M::Timer>>,
    deeds: Deeds<M::Input>,
    order: u64,
    draws: Stream,
}

impl<M: Transmit, A: Application<M>> Network<M, A>
where
    M::Input: Arrival<M::Header>,
{
    /// Started machines at 10 Gb/s around an ideal switch, in good weather.
    pub fn new(machines: Vec<M>, application: A, seed: u64) -> Self {
        let most = machines.iter().map(Machine::effects_max).max().unwrap_or(0);
        let ports = machines.iter().map(|_| Port::new()).collect();
        let seat = |(node, machine)| Seat {
            machine,
            rng: Stream::keyed(seed, node as u32, Purpose::Machine),
            timers: BTreeMap::new(),
            busy: false,
        };
        let seats: Vec<_> = machines.into_iter().enumerate().map(seat).collect();
        let hosts = seats.len() as u32;
        let mut network = Network {
            application,
            links: Links { bits_per_s: 10_000_000_000, delay: Span::from_ns(1_200) },
            queue: Queue::Ideal,
            weather: Weather::default(),
            room_bytes: 1_472,
            checks: true,
            now: Instant::ZERO,
            steps: 0,
            data_packets: 0,
            dropped: 0,
            trimmed: 0,
            keep_sent: false,
            sent: Vec::new(),
            seats,
            ports,
            events: BTreeMap::new(),
            outbox: Outbox::with_capacity(most),
            made: Vec::new(),
            deeds: Deeds(Vec::new()),
            order: 0,
            draws: Stream::keyed(seed, 99, Purpose::Faults),
        };
        for node in (0..hosts).map(Node) {
            network.act(node, |machine, cx| machine.start(cx));
        }
        network
    }

    /// The machine of a host.
    pub fn machine(&self, node: u32) -> &M {
        &self.seats[node as usize].machine
    }

    /// All machines.
    pub fn machines(&self) -> impl Iterator<Item = &M> {
        self.seats.iter().map(|seat| &seat.machine)
    }

    /// Most packets that waited at once for the way to a host.
    pub fn longest_queue(&self, node: u32) -> usize {
        self.ports[node as usize].longest
    }

    /// Timers that are armed, of all hosts.
    pub fn armed(&self) -> usize {
        self.seats.iter().map(|seat| seat.timers.len()).sum()
    }

    /// Replaces a host's machine: it crashed and came back without memory.
    pub fn restart(&mut self, node: u32, machine: M) {
        let seat = &mut self.seats[node as usize];
        seat.machine = machine;
        seat.timers.clear();
        self.act(Node(node), |machine, cx| machine.start(cx));
    }

    /// Tells the machine of a host something at `at`, which is not before now.
    pub fn tell(&mut self, at: Instant, node: u32, input: M::Input) {
        self.push(at, Event::Told(Node(node), input));
    }

    fn push(&mut self, at: Instant, event: Event<M>) {
        self.order += 1;
        self.events.insert((at.max(self.now), self.order), event);
    }

    /// Runs until nothing happens any more, or to `end`; false when something is left then.
    pub fn run(&mut self, end: Instant) -> bool {
        while let Some((&(at, _), _)) = self.events.first_key_value() {
            if at > end {
                return false;
            }
            self.step();
        }
        true
    }

    /// The next event. False when there is none.
    pub fn step(&mut self) -> bool {
        let Some(((at, _), event)) = self.events.pop_first() else { return false };
        self.now = at;
        self.steps += 1;
        match event {
            Event::Told(node, input) => self.act(node, |machine, cx| machine.handle(input, cx)),
            Event::PortFree(node) => {
                self.seats[node.0 as usize].busy = false;
                self.transmit(node);
            }
            Event::AtSwitch(sent) => {
                let to = sent.packet.to;
                let entered = self.ports[to.0 as usize].enter(self.queue, sent, &mut self.draws);
                self.dropped += u64::from(entered == Entered::Dropped);
                self.trimmed += u64::from(entered == Entered::Trimmed);
                self.forward(to);
            }
            Event::DownlinkFree(node) => {
                self.ports[node.0 as usize].left();
                self.forward(node);
            }
            Event::AtHost(Sent { from, packet, seen, .. }) => {
                let input = M::Input::arrival(from, packet.header, packet.payload, seen);
                self.act(packet.to, |machine, cx| machine.handle(input, cx));
            }
            Event::Timer(node, timer, arming) => {
                let timers = &mut self.seats[node.0 as usize].timers;
                if timers.get(&timer).is_some_and(|&(_, armed)| armed == arming) {
                    // Disarmed before it fires, so that it fires once per arming (law 3).
                    timers.remove(&timer);
                    self.act(node, |machine, cx| machine.expire(timer, cx));
                }
            }
        }
        true
    }

    /// One step of a machine, what it asks for, and the packet that it may now have.
    fn act(&mut self, node: Node, act: impl FnOnce(&mut M, &mut Cx<'_, M::Effect, M::Timer>)) {
        let seat = &mut self.seats[node.0 as usize];
        act(&mut seat.machine, &mut Cx::new(self.now, &mut seat.rng, &mut self.outbox));
        self.settle(node);
        self.transmit(node);
    }

    fn settle(&mut self, node: Node) {
        let seat = &self.seats[node.0 as usize];
        let (made, most) = (self.outbox.entries().len(), seat.machine.effects_max());
        assert!(made <= most, "law 4: {made} effects in one step, at most {most} declared");
        if self.checks {
            seat.machine.check();
        }
        self.made.extend(self.outbox.drain());
        let mut made = core::mem::take(&mut self.made);
        for out in made.drain(..) {
            match out {
                Out::Effect(effect) => {
                    self.application.effect(node, self.now, effect, &mut self.deeds);
                }
                Out::Arm(timer, at) => {
                    self.push(at, Event::Timer(node, timer, self.order + 1));
                    let timers = &mut self.seats[node.0 as usize].timers;
                    timers.insert(timer, (at, self.order));
                }
                Out::Disarm(timer) => _ = self.seats[node.0 as usize].timers.remove(&timer),
            }
        }
        self.made = made;
        let mut deeds = core::mem::take(&mut self.deeds.0);
        for (after, node, input) in deeds.drain(..) {
            self.push(self.now + after, Event::Told(node, input));
        }
        self.deeds.0 = deeds;
    }

    fn wire_time(&self, bytes: u64) -> Span {
        Span::from_ns((bytes * 8_000_000_000).div_ceil(self.links.bits_per_s))
    }

    fn transmit(&mut self, node: Node) {
        let seat = &mut self.seats[node.0 as usize];
        if seat.busy {
            return;
        }
        let room = Room { packets: 1, bytes: self.room_bytes };
        let mut cx = Cx::new(self.now, &mut seat.rng, &mut self.outbox);
        let packet = seat.machine.pull(room, &mut cx);
        seat.busy = packet.is_some();
        if let Some(packet) = packet {
            assert!(packet.payload.length_bytes <= room.bytes, "law 6: larger than the room");
            self.send(node, packet);
        }
        // What a pull asks for is done like anything else.
        self.settle(node);
    }

    fn send(&mut self, node: Node, packet: Packet<M::Header>) {
        if self.keep_sent {
            self.sent.push((node, packet));
        }
        let sent = Sent { from: node, packet, seen: Seen::default(), order: self.order };
        self.data_packets += u64::from(sent.carries());
        let gone = self.now + self.wire_time(sent.wire_bytes());
        self.push(gone, Event::PortFree(node));
        let copies = 1 + u32::from(self.chance(self.weather.doubled));
        for _ in 0..copies {
            if self.is_cut(node) || self.is_cut(packet.to) || self.chance(self.weather.lost) {
                self.dropped += 1;
                continue;
            }
            let late = match self.chance(self.weather.delayed) {
                true => Span::from_ns(self.draws.below(self.weather.delay.as_ns() + 1)),
                false => Span::ZERO,
            };
            let at = gone + self.links.delay + late;
            match self.queue {
                Queue::Ideal => self.push(at + self.links.delay, Event::AtHost(sent)),
                _ => self.push(at, Event::AtSwitch(sent)),
            }
        }
    }

    fn chance(&mut self, thousandths: u64) -> bool {
        let bad = thousandths > 0 && self.now < self.weather.until;
        bad && self.draws.below(1_000) < thousandths
    }

    fn is_cut(&self, node: Node) -> bool {
        let outages = &self.weather.outages;
        let meant = |outage: &&Outage| outage.node.is_none_or(|one| one == node);
        outages.iter().filter(meant).any(|one| (one.from..one.to).contains(&self.now))
    }

    /// Sends the next packet from the switch to a host, if the link is free.
    fn forward(&mut self, node: Node) {
        let port = &mut self.ports[node.0 as usize];
        if port.busy {
            return;
        }
        if let Some(sent) = port.leave(self.queue) {
            port.busy = true;
            let gone = self.now + self.wire_time(sent.wire_bytes());
            self.push(gone, Event::DownlinkFree(node));
            self.push(gone + self.links.delay, Event::AtHost(sent));
        }
    }
}
