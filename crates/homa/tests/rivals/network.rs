//! A star of hosts around one switch, small enough to trust, with faults by seed and an oracle that
//! watches every message.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Header, Input, Message, Seen};
use cavy_core::{
    Cx, Instant, Machine, Out, Outbox, Packet, Purpose, Ratio, Room, Span, Stream, Transmit,
};
use cavy_homa::rivals::{Timer, Why};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// What the tests need of a transport.
pub trait Rival:
    Transmit + Machine<Input = Input<Self::Header>, Effect = Effect<Why>, Timer = Timer>
{
    fn remembered(&self) -> usize;
}

/// How the switch's ports queue.
#[derive(Clone, Copy, Debug)]
pub enum Queue {
    /// Eight strict levels; packets beyond `limit` are dropped, and marked from `mark` on.
    Levels { limit: usize, mark: usize },
    /// pFabric: the largest rank is dropped beyond `limit`, the smallest leaves first.
    Rank { limit: usize },
    /// NDP: payloads beyond `limit` packets are cut off; ten headers go for one packet.
    Trim { limit: usize },
}

#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: Ratio,
    pub copies: Ratio,
    /// This share of packets is late by up to `late`.
    pub lates: Ratio,
    pub late: Span,
}

impl Faults {
    pub const NONE: Faults =
        Faults { loss: Ratio::ZERO, copies: Ratio::ZERO, lates: Ratio::ZERO, late: Span::ZERO };
}

#[derive(Clone, Copy, Debug)]
pub struct Topology {
    pub hosts: u32,
    pub bits_per_s: u64,
    /// From a host's port to the switch, and from the switch to a host.
    pub delay: Span,
    pub queue: Queue,
    pub faults: Faults,
}

impl Topology {
    pub fn ten_gigabit(hosts: u32, queue: Queue) -> Self {
        let (bits_per_s, delay) = (10_000_000_000, Span::from_ns(1_200));
        Topology { hosts, bits_per_s, delay, queue, faults: Faults::NONE }
    }
}

#[derive(Clone, Copy, Debug)]
struct Sent<H> {
    from: Node,
    packet: Packet<H>,
    seen: Seen,
    order: u64,
}

impl<H: Header> Sent<H> {
    fn wire_bytes(&self) -> u64 {
        let payload = if self.seen.trimmed { 0 } else { self.packet.payload.length_bytes };
        u64::from((38 + 28 + self.packet.header.wire_bytes() + payload).max(84))
    }
    fn carries(&self) -> bool {
        self.packet.payload.length_bytes > 0 && !self.seen.trimmed
    }
}

#[derive(Debug)]
enum Event<H> {
    Submit(Node, Node, Message, u32),
    Cancel(Node, Message),
    PortFree(u32),
    AtSwitch(Sent<H>),
    DownlinkFree(u32),
    AtHost(Sent<H>),
    Timer(u32, Timer),
}

struct Host<M: Machine> {
    machine: M,
    rng: Stream,
    outbox: Outbox<M::Effect, M::Timer>,
    timers: BTreeMap<Timer, Instant>,
    busy: bool,
}

struct Port<H> {
    queues: Vec<VecDeque<Sent<H>>>,
    busy: bool,
    headers_in_turn: u32,
    pub longest: usize,
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fate {
    pub length_bytes: u32,
    pub submitted: Instant,
    pub placed_bytes: u32,
    pub delivered: Option<Instant>,
    pub released: bool,
    pub failed_at_sender: Option<Why>,
    pub failed_at_receiver: Option<Why>,
}

pub struct Network<M: Rival> {
    topology: Topology,
    pub now: Instant,
    hosts: Vec<Host<M>>,
    ports: Vec<Port<M::Header>>,
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    bodies: BTreeMap<u64, Event<M::Header>>,
    order: u64,
    faults: Stream,
    /// By (sender, receiver, name).
    pub fates: BTreeMap<(Node, Node, Message), Fate>,
    places: BTreeMap<(Node, Node, Message), BTreeMap<u32, u32>>,
    /// Questions with these names are answered with so many bytes.
    pub answers: BTreeMap<Message, u32>,
    pub data_packets: u64,
    pub dropped: u64,
    pub trimmed: u64,
    pub levels: [u64; 8],
    check: bool,
    /// Cuts a host off from some time on.
    pub dead: Option<(Node, Instant)>,
}

impl<M: Rival> Network<M> {
    pub fn new(topology: Topology, seed: u64, check: bool, make: impl Fn() -> M) -> Self {
        let host = |number| {
            let machine = make();
            let outbox = Outbox::with_capacity(machine.effects_max());
            let rng = Stream::keyed(seed, number, Purpose::Machine);
            Host { machine, rng, outbox, timers: BTreeMap::new(), busy: false }
        };
        let port = |_| Port {
            queues: (0..8).map(|_| VecDeque::new()).collect(),
            busy: false,
            headers_in_turn: 0,
            longest: 0,
        };
        Network {
            topology,
            now: Instant::ZERO,
            hosts: (0..topology.hosts).map(host).collect(),
            ports: (0..topology.hosts).map(port).collect(),
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            order: 0,
            faults: Stream::keyed(seed, 0, Purpose::Faults),
            fates: BTreeMap::new(),
            places: BTreeMap::new(),
            answers: BTreeMap::new(),
            data_packets: 0,
            dropped: 0,
            trimmed: 0,
            levels: [0; 8],
            check,
            dead: None,
        }
    }

    pub fn machine(&self, host: u32) -> &M {
        &self.hosts[host as usize].machine
    }

    pub fn longest_queue(&self, host: u32) -> usize {
        self.ports[host as usize].longest
    }

    pub fn submit(&mut self, at: Instant, from: u32, to: u32, name: u64, length_bytes: u32) {
        self.push(at, Event::Submit(Node(from), Node(to), Message(name), length_bytes));
    }

    pub fn cancel(&mut self, at: Instant, from: u32, name: u64) {
        self.push(at, Event::Cancel(Node(from), Message(name)));
    }

    fn push(&mut self, at: Instant, event: Event<M::Header>) {
        self.order += 1;
        self.bodies.insert(self.order, event);
        self.events.push(Reverse((at, self.order)));
    }

    /// Runs until nothing happens any more, or until `end`; false when events are left then.
    pub fn run(&mut self, end: Instant) -> bool {
        while let Some(&Reverse((at, order))) = self.events.peek() {
            if at > end {
                return false;
            }
            self.events.pop();
            self.now = at;
            let event = self.bodies.remove(&order).expect("an event has a body");
            self.happen(event);
        }
        true
    }

    fn happen(&mut self, event: Event<M::Header>) {
        match event {
            Event::Submit(from, to, message, length_bytes) => {
                self.begin(from, to, message, length_bytes);
                let asks = self.answers.contains_key(&message);
                self.step(from.0, Input::Submit { to, message, length_bytes, asks });
            }
            Event::Cancel(from, message) => self.step(from.0, Input::Cancel { message }),
            Event::PortFree(host) => {
                self.hosts[host as usize].busy = false;
                self.pull(host);
            }
            Event::AtSwitch(sent) => self.at_switch(sent),
            Event::DownlinkFree(host) => {
                self.ports[host as usize].busy = false;
                self.serve(host);
            }
            Event::AtHost(sent) => {
                let Packet { to, header, payload, .. } = sent.packet;
                self.step(to.0, Input::Rx { from: sent.from, header, payload, seen: sent.seen });
            }
            Event::Timer(host, timer) => self.timer(host, timer),
        }
    }

    fn begin(&mut self, from: Node, to: Node, message: Message, length_bytes: u32) {
        let fate = Fate { length_bytes, submitted: self.now, ..Fate::default() };
        let before = self.fates.insert((from, to, message), fate);
        assert!(before.is_none(), "{message:?} from {from:?} submitted twice");
    }

    fn step(&mut self, host: u32, input: Input<M::Header>) {
        let Host { machine, rng, outbox, .. } = &mut self.hosts[host as usize];
        machine.handle(input, &mut Cx::new(self.now, rng, outbox));
        self.settle(host);
    }

    fn timer(&mut self, host: u32, timer: Timer) {
        let Host { machine, rng, outbox, timers, .. } = &mut self.hosts[host as usize];
        if timers.get(&timer) != Some(&self.now) {
            return;
        }
        timers.remove(&timer);
        machine.expire(timer, &mut Cx::new(self.now, rng, outbox));
        self.settle(host);
    }

    fn settle(&mut self, host: u32) {
        let made = self.hosts[host as usize].outbox.entries().to_vec();
        let most = self.hosts[host as usize].machine.effects_max();
        assert!(made.len() <= most, "law 4: {} entries", made.len());
        self.hosts[host as usize].outbox.clear();
        for out in made {
            match out {
                Out::Effect(effect) => self.apply(Node(host), effect),
                Out::Arm(timer, at) => {
                    let at = at.max(self.now);
                    self.hosts[host as usize].timers.insert(timer, at);
                    self.push(at, Event::Timer(host, timer));
                }
                Out::Disarm(timer) => {
                    self.hosts[host as usize].timers.remove(&timer);
                }
            }
        }
        if self.check {
            self.hosts[host as usize].machine.check();
        }
        self.pull(host);
    }

    fn fate(&mut self, from: Node, to: Node, message: Message) -> &mut Fate {
        let key = (from, to, message);
        self.fates.get_mut(&key).unwrap_or_else(|| panic!("{key:?} was never submitted"))
    }

    fn apply(&mut self, here: Node, effect: Effect<Why>) {
        let now = self.now;
        match effect {
            Effect::Place { from, extent } => {
                let Extent { message, offset_bytes, length_bytes } = extent;
                let fate = self.fate(from, here, message);
                fate.placed_bytes += length_bytes;
                assert!(fate.delivered.is_none(), "{message:?} grows after delivery");
                let places = self.places.entry((from, here, message)).or_default();
                let before = places.insert(offset_bytes, length_bytes);
                assert!(before.is_none(), "{extent:?} placed twice");
                let end = places.range(..offset_bytes).next_back().map_or(0, |(at, len)| at + len);
                assert!(end <= offset_bytes, "{extent:?} overlaps");
            }
            Effect::Delivered { from, message, length_bytes } => {
                let fate = self.fate(from, here, message);
                assert_eq!(fate.delivered, None, "{message:?} delivered twice");
                assert_eq!(fate.failed_at_receiver, None, "{message:?} failed, then came");
                assert_eq!(fate.length_bytes, length_bytes);
                assert_eq!(fate.placed_bytes, length_bytes, "{message:?} has holes");
                fate.delivered = Some(now);
                self.places.remove(&(from, here, message));
                if let Some(&length_bytes) = self.answers.get(&message) {
                    self.begin(here, from, message.answer(), length_bytes);
                    let input = Input::Answer { to: from, question: message, length_bytes };
                    // The application answers within the same instant, as a step of its own.
                    let Host { machine, rng, outbox, .. } = &mut self.hosts[here.0 as usize];
                    machine.handle(input, &mut Cx::new(now, rng, outbox));
                    self.settle(here.0);
                }
            }
            Effect::Released { peer, message } => {
                let fate = self.fate(here, peer, message);
                assert!(fate.delivered.is_some() && !fate.released, "{message:?} released");
                fate.released = true;
            }
            Effect::Failed { peer, message, why } => {
                let sends = self.fates.contains_key(&(here, peer, message));
                let arrives = self.fates.contains_key(&(peer, here, message));
                assert!(sends || arrives, "{message:?} was never submitted");
                assert!(!(sends && arrives), "tests use each name in one direction only");
                let fate = match sends {
                    true => &mut self.fate(here, peer, message).failed_at_sender,
                    false => &mut self.fate(peer, here, message).failed_at_receiver,
                };
                assert_eq!(*fate, None, "{message:?} failed twice");
                *fate = Some(why);
            }
        }
    }

    fn wire_time(&self, bytes: u64) -> Span {
        Span::from_ns((bytes * 8_000_000_000).div_ceil(self.topology.bits_per_s))
    }

    fn pull(&mut self, host: u32) {
        let Host { machine, rng, outbox, busy, .. } = &mut self.hosts[host as usize];
        if *busy {
            return;
        }
        let room = Room { packets: 1, bytes: 1472 };
        let Some(packet) = machine.pull(room, &mut Cx::new(self.now, rng, outbox)) else {
            assert!(outbox.entries().is_empty(), "law 6: an empty pull had effects");
            return;
        };
        *busy = true;
        self.order += 1;
        let sent = Sent { from: Node(host), packet, seen: Seen::default(), order: self.order };
        if sent.carries() {
            self.data_packets += 1;
            self.levels[packet.priority as usize] += 1;
        }
        let done = self.now + self.wire_time(sent.wire_bytes());
        self.push(done, Event::PortFree(host));
        let copies = 1 + u32::from(self.faults.chance(self.topology.faults.copies));
        for _ in 0..copies {
            let cut =
                |(node, since)| (node == Node(host) || node == packet.to) && self.now >= since;
            if self.dead.is_some_and(cut) || self.faults.chance(self.topology.faults.loss) {
                self.dropped += 1;
                continue;
            }
            let late = match self.faults.chance(self.topology.faults.lates) {
                true => Span::from_ns(self.faults.below(self.topology.faults.late.as_ns() + 1)),
                false => Span::ZERO,
            };
            self.push(done + self.topology.delay + late, Event::AtSwitch(sent));
        }
        // The outbox of a pull is an outbox like any other.
        self.settle(host);
    }

    fn at_switch(&mut self, mut sent: Sent<M::Header>) {
        let host = sent.packet.to.0;
        let port = &mut self.ports[host as usize];
        let length: usize = port.queues.iter().map(VecDeque::len).sum();
        port.longest = port.longest.max(length + 1);
        match self.topology.queue {
            Queue::Levels { limit, mark } => {
                if length >= limit {
                    self.dropped += 1;
                    return;
                }
                sent.seen.marked |= length >= mark;
                port.queues[7 - sent.packet.priority as usize].push_back(sent);
            }
            Queue::Rank { limit } => {
                let queue = &mut port.queues[0];
                queue.push_back(sent);
                if queue.len() > limit {
                    let worst = (0..queue.len()).max_by_key(|&at| (queue[at].packet.rank, at));
                    queue.remove(worst.expect("a full queue"));
                    self.dropped += 1;
                }
            }
            Queue::Trim { limit } => {
                if !sent.carries() {
                    port.queues[0].push_back(sent);
                } else if port.queues[1].len() < limit {
                    port.queues[1].push_back(sent);
                } else {
                    self.trimmed += 1;
                    if self.faults.below(2) == 0 {
                        let newest = port.queues[1].pop_back().expect("a full queue");
                        port.queues[1].push_back(sent);
                        sent = newest;
                    }
                    sent.seen.trimmed = true;
                    port.queues[0].push_back(sent);
                }
            }
        }
        self.serve(host);
    }

    fn serve(&mut self, host: u32) {
        let port = &mut self.ports[host as usize];
        if port.busy {
            return;
        }
        let next = match self.topology.queue {
            Queue::Levels { .. } => port.queues.iter_mut().find_map(VecDeque::pop_front),
            Queue::Rank { .. } => {
                let queue = &mut port.queues[0];
                let best = queue.iter().min_by_key(|sent| (sent.packet.rank, sent.order)).copied();
                // The earliest packet of the message with the smallest rank.
                best.and_then(|best| {
                    let flow = |sent: &Sent<_>| (sent.from, sent.packet.payload.message);
                    let at = queue.iter().position(|sent| flow(sent) == flow(&best));
                    queue.remove(at.expect("it is there"))
                })
            }
            Queue::Trim { .. } => {
                let headers_wait = !port.queues[0].is_empty();
                let headers_first = port.headers_in_turn < 10 || port.queues[1].is_empty();
                if headers_wait && headers_first {
                    port.headers_in_turn += 1;
                    port.queues[0].pop_front()
                } else {
                    port.headers_in_turn = 0;
                    port.queues[1].pop_front()
                }
            }
        };
        if let Some(sent) = next {
            port.busy = true;
            let done = self.now + self.wire_time(sent.wire_bytes());
            self.push(done, Event::DownlinkFree(host));
            self.push(done + self.topology.delay, Event::AtHost(sent));
        }
    }

    /// Every message was delivered once and let go, and nobody remembers anything.
    pub fn assert_all_delivered(&self, context: &str) {
        for (key, fate) in &self.fates {
            assert!(fate.delivered.is_some(), "{context}: {key:?} was not delivered: {fate:?}");
            assert!(fate.released, "{context}: {key:?} was not released: {fate:?}");
            assert_eq!(fate.failed_at_sender, None, "{context}: {key:?}");
        }
        self.assert_nothing_remembered(context);
    }

    pub fn assert_nothing_remembered(&self, context: &str) {
        for (number, host) in self.hosts.iter().enumerate() {
            let remembered = host.machine.remembered();
            assert_eq!(remembered, 0, "{context}: host {number} remembers {remembered}");
        }
    }
}
