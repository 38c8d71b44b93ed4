//! A small legal world for machines of the message family: several nodes, their channels, logs,
//! work and clients, all in an order that only the seed knows, with the oracles that hold for every
//! protocol. It breaks channels, crashes nodes and brings them back with what they had stored, and
//! shows a [`Scene`] all that was said, so that it can tell a contradiction ([law
//! 7](crate::Machine)).

use crate::digest::Digest;
use crate::family::Node;
use crate::family::message::{Call, Effect, Entry, Input, Message, Protocol, Talker, Via, Work};
use crate::machine::{Cx, Machine, Out, Outbox};
use crate::stream::{Purpose, Ratio, Stream};
use crate::time::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

type Of<M> = <M as Talker>::Protocol;
type MessageOf<M> = <Of<M> as Protocol>::Message;
type Channels<M> = BTreeMap<(Node, Node), VecDeque<Carried<Of<M>>>>;

/// What a protocol room brings: its machines, its clients, and what must never be said.
pub trait Scene {
    /// The machine it is for.
    type Machine: Talker;

    /// A fresh machine for `node`, the first time and after each crash.
    fn machine(&self, node: Node) -> Self::Machine;
    /// What a client asks next, and of whom; `None` when it asks nothing more.
    fn ask(&mut self, rng: &mut Stream)
    -> Option<(Node, <Of<Self::Machine> as Protocol>::Request)>;
    /// `node` said this. Panics when it contradicts what was said before, crashes or not.
    fn said(&mut self, now: Instant, node: Node, effect: &Effect<Of<Self::Machine>>);
    /// `node` has crashed; what it had not stored is gone.
    fn crashed(&mut self, _now: Instant, _node: Node) {}
}

/// What the world offers and does.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Nodes, named from 0.
    pub nodes: u32,
    /// Steps in which everything below happens; then faults end.
    pub steps: u64,
    /// Steps after that, in which whatever is under way comes to its end.
    pub calm: u64,
    /// The longest that anything takes.
    pub longest: Span,
    /// How often, per step, a node crashes. It is back at once or a little later.
    pub crash: Ratio,
    /// How often, per step, a channel breaks.
    pub cut: Ratio,
    /// How often a datagram is lost, and how often it comes twice.
    pub loss: Ratio,
    /// How often, per step, the wall clock of a node steps, forward or back.
    pub clock_step: Ratio,
}

impl Offer {
    /// A world of `nodes` in which nothing goes wrong.
    pub fn calm(nodes: u32, steps: u64) -> Offer {
        Offer {
            nodes,
            steps,
            calm: steps,
            longest: Span::from_ms(20),
            crash: Ratio::ZERO,
            cut: Ratio::ZERO,
            loss: Ratio::ZERO,
            clock_step: Ratio::ZERO,
        }
    }

    /// A world of `nodes` in which everything goes wrong now and then.
    pub fn rough(nodes: u32, steps: u64) -> Offer {
        let once_in = |den| Ratio { num: 1, den };
        Offer {
            crash: once_in(400),
            cut: once_in(300),
            loss: once_in(10),
            clock_step: once_in(100),
            ..Offer::calm(nodes, steps)
        }
    }
}

struct House<M: Talker> {
    machine: M,
    rng: Stream,
    timers: BTreeMap<M::Timer, Instant>,
    /// What the log holds, by place.
    log: BTreeMap<Entry, <Of<M> as Protocol>::Record>,
    appended: Entry,
    /// What the disk holds, and what the machine was told it holds.
    stored: Entry,
    told: Entry,
    works: BTreeMap<Work, bool>,
    calls: BTreeSet<Call>,
    /// The wall clock less the monotonic one.
    wall_ahead: i64,
}

/// Something under way on a channel.
enum Carried<P: Protocol> {
    Message(P::Message),
    /// The channel broke: what was before is gone, what follows belongs to the new one.
    Break,
}

/// The world itself.
pub struct Town<S: Scene> {
    /// What drives it.
    pub scene: S,
    offer: Offer,
    houses: Vec<House<S::Machine>>,
    channels: Channels<S::Machine>,
    /// What the first sends the second goes nowhere: the channel has broken, which it does not
    /// know.
    severed: Option<(Node, Node)>,
    datagrams: Vec<(Node, Node, MessageOf<S::Machine>)>,
    outbox: Outbox<<S::Machine as Machine>::Effect, <S::Machine as Machine>::Timer>,
    rng: Stream,
    now: Instant,
    seed: u64,
    steps: u64,
    calls: u64,
    asking: bool,
    /// Calls answered.
    pub answered: u64,
    /// Crashes so far.
    pub crashes: u64,
    digest: Digest,
}

impl<S: Scene> Town<S>
where
    <S::Machine as Machine>::Timer: core::hash::Hash,
{
    /// A world with started machines.
    pub fn new(scene: S, offer: Offer, seed: u64) -> Self {
        let houses: Vec<_> = (0..offer.nodes)
            .map(|node| House {
                machine: scene.machine(Node(node)),
                rng: Stream::keyed(seed, node, Purpose::Machine),
                timers: BTreeMap::new(),
                log: BTreeMap::new(),
                appended: Entry(0),
                stored: Entry(0),
                told: Entry(0),
                works: BTreeMap::new(),
                calls: BTreeSet::new(),
                wall_ahead: 0,
            })
            .collect();
        let most = houses.iter().map(|house| house.machine.effects_max()).max().unwrap_or(0);
        let mut town = Town {
            scene,
            offer,
            houses,
            channels: BTreeMap::new(),
            severed: None,
            datagrams: Vec::new(),
            outbox: Outbox::with_capacity(most),
            rng: Stream::keyed(seed, 0, Purpose::Test),
            now: Instant::ZERO,
            seed,
            steps: 0,
            calls: 0,
            asking: true,
            answered: 0,
            crashes: 0,
            digest: Digest::new(),
        };
        for node in 0..offer.nodes {
            town.step_machine(Node(node), |machine, cx| machine.start(cx));
        }
        town
    }

    /// The machine of `node`.
    pub fn machine(&self, node: Node) -> &S::Machine {
        &self.houses[node.0 as usize].machine
    }

    /// Calls that were heard, not answered, and not forgotten in a crash.
    pub fn open_calls(&self) -> usize {
        self.houses.iter().map(|house| house.calls.len()).sum()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Runs all steps and the calm after them; returns the digest of everything said.
    pub fn run(&mut self) -> u64 {
        for _ in 0..self.offer.steps {
            self.fault();
            self.step();
        }
        self.asking = false;
        for _ in 0..self.offer.calm {
            if !self.step() {
                break;
            }
        }
        self.digest.value()
    }

    fn place(&self) -> alloc::string::String {
        alloc::format!("seed {:#x}, step {}", self.seed, self.steps)
    }

    fn any_node(&mut self) -> Node {
        Node(self.rng.below(u64::from(self.offer.nodes)) as u32)
    }

    fn fault(&mut self) {
        if self.rng.chance(self.offer.clock_step) {
            let node = self.any_node();
            let step = self.rng.below(4 * self.offer.longest.as_ns() + 1) as i64;
            self.houses[node.0 as usize].wall_ahead += step - 2 * self.offer.longest.as_ns() as i64;
        }
        if self.offer.nodes > 1 && self.rng.chance(self.offer.cut) {
            let a = self.any_node();
            let b = Node(
                (a.0 + 1 + self.rng.below(u64::from(self.offer.nodes) - 1) as u32)
                    % self.offer.nodes,
            );
            self.break_channel(a, b, false);
        }
        if self.rng.chance(self.offer.crash) {
            let node = self.any_node();
            self.crash(node);
        }
    }

    /// Some suffix of what is under way is lost each way, and both ends will hear of it.
    fn break_channel(&mut self, a: Node, b: Node, a_forgot: bool) {
        for (from, to) in [(a, b), (b, a)] {
            let queue = self.channels.entry((from, to)).or_default();
            // What a node without memory would hear of its former life must not reach it.
            let keep = if a_forgot && to == a { 0 } else { self.rng.below(queue.len() as u64 + 1) };
            queue.truncate(keep as usize);
            if !(a_forgot && to == a) {
                queue.push_back(Carried::Break);
            }
        }
        // Each end hears what is left of the old channel and then of its end. What it sends before
        // that goes to the old channel, which leads nowhere.
        for (from, to) in [(a, b), (b, a)] {
            if a_forgot && to == a {
                continue;
            }
            self.severed = Some((to, from));
            while let Some(next) = self.channels.entry((from, to)).or_default().pop_front() {
                match next {
                    Carried::Message(message) => self.receive(from, to, Via::Channel, message),
                    Carried::Break => {
                        self.severed = None;
                        self.hear(to, Input::Broken { peer: from });
                        break;
                    }
                }
            }
        }
    }

    /// Takes the machine away and brings a new one back, with what was stored.
    fn crash(&mut self, node: Node) {
        self.crashes += 1;
        self.scene.crashed(self.now, node);
        let house = &mut self.houses[node.0 as usize];
        let unstored = house.appended.0 - house.stored.0;
        let kept = Entry(house.stored.0 + self.rng.below(unstored + 1));
        let torn = kept < house.appended;
        house.log.retain(|entry, _| *entry <= kept);
        (house.appended, house.stored, house.told) = (kept, kept, kept);
        house.timers.clear();
        house.works.clear();
        house.calls.clear();
        house.machine = self.scene.machine(node);
        self.datagrams.retain(|(_, to, _)| *to != node);
        for other in (0..self.offer.nodes).map(Node).filter(|other| *other != node) {
            self.break_channel(node, other, true);
        }
        self.step_machine(node, |machine, cx| machine.start(cx));
        let log: Vec<_> = {
            let log = &self.houses[node.0 as usize].log;
            log.iter().map(|(entry, record)| (*entry, record.clone())).collect()
        };
        for (entry, record) in log {
            self.hear(node, Input::Replay { entry, record });
        }
        self.hear(node, Input::Recovered { torn });
    }

    /// One thing happens. False when nothing is left that could.
    pub fn step(&mut self) -> bool {
        self.steps += 1;
        if let Some((node, timer)) = self.due(self.now) {
            self.fire(node, timer);
            return true;
        }
        let mut open: Vec<Happening> = Vec::new();
        for (&(from, to), queue) in &self.channels {
            if !queue.is_empty() {
                open.push(Happening::Channel(from, to));
            }
        }
        if !self.datagrams.is_empty() {
            open.push(Happening::Datagram);
        }
        for (node, house) in self.houses.iter().enumerate() {
            let node = Node(node as u32);
            if house.stored < house.appended {
                open.push(Happening::Disk(node));
            }
            if house.told < house.stored {
                open.push(Happening::Told(node));
            }
            open.extend(house.works.keys().map(|&work| Happening::Work(node, work)));
        }
        let next = self.next_deadline();
        if self.asking && self.rng.below(6) == 0 {
            open.clear();
            open.push(Happening::Ask);
        }
        if open.is_empty() || (next.is_some() && self.rng.below(4) == 0) {
            let Some(at) = next else { return false };
            self.now = self.now.max(at);
            return true;
        }
        let mean = self.offer.longest.as_ns() / (8 * u64::from(self.offer.nodes)) + 1;
        let later = self.now + Span::from_ns(self.rng.below(mean));
        self.now = next.map_or(later, |at| later.min(at)).max(self.now);
        let chosen = self.rng.below(open.len() as u64) as usize;
        self.happen(open[chosen]);
        true
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Channel(from, to) => {
                let queue = self.channels.entry((from, to)).or_default();
                match queue.pop_front() {
                    Some(Carried::Message(message)) => {
                        self.receive(from, to, Via::Channel, message);
                    }
                    Some(Carried::Break) => self.hear(to, Input::Broken { peer: from }),
                    None => {}
                }
            }
            Happening::Datagram => {
                let which = self.rng.below(self.datagrams.len() as u64) as usize;
                let (from, to, message) = self.datagrams.swap_remove(which);
                if self.rng.chance(self.offer.loss) {
                    return;
                }
                if self.rng.chance(self.offer.loss) {
                    self.datagrams.push((from, to, message.clone()));
                }
                self.receive(from, to, Via::Datagram, message);
            }
            Happening::Disk(node) => {
                let house = &mut self.houses[node.0 as usize];
                let more = 1 + self.rng.below(house.appended.0 - house.stored.0);
                house.stored = Entry(house.stored.0 + more);
            }
            Happening::Told(node) => {
                let house = &mut self.houses[node.0 as usize];
                house.told = house.stored;
                let upto = house.told;
                self.hear(node, Input::Stored { upto });
            }
            Happening::Work(node, work) => {
                let finished = self.houses[node.0 as usize].works.remove(&work);
                let took = Span::from_ns(self.rng.below(self.offer.longest.as_ns() + 1));
                let finished = finished.unwrap_or(false);
                self.hear(node, Input::WorkDone { work, took, finished });
            }
            Happening::Ask => match self.scene.ask(&mut self.rng) {
                None => self.asking = false,
                Some((node, request)) => {
                    let call = Call(self.calls);
                    self.calls += 1;
                    self.houses[node.0 as usize].calls.insert(call);
                    self.hear(node, Input::Call { call, request });
                }
            },
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.houses.iter().flat_map(|house| house.timers.values().copied()).min()
    }

    fn due(&self, now: Instant) -> Option<(Node, <S::Machine as Machine>::Timer)> {
        let all = self.houses.iter().enumerate().flat_map(|(node, house)| {
            house.timers.iter().map(move |(timer, at)| (*at, Node(node as u32), *timer))
        });
        all.filter(|(at, _, _)| *at <= now).min().map(|(_, node, timer)| (node, timer))
    }

    fn fire(&mut self, node: Node, timer: <S::Machine as Machine>::Timer) {
        // Disarmed before it fires, so that it fires once per arming (law 3).
        self.houses[node.0 as usize].timers.remove(&timer);
        self.step_machine(node, |machine, cx| machine.expire(timer, cx));
    }

    fn receive(&mut self, from: Node, to: Node, via: Via, message: MessageOf<S::Machine>) {
        let arrived = self.now;
        self.hear(to, Input::Rx { from, via, message, arrived });
    }

    fn hear(&mut self, node: Node, input: Input<Of<S::Machine>>) {
        self.step_machine(node, |machine, cx| machine.handle(input, cx));
    }

    fn step_machine(
        &mut self,
        node: Node,
        step: impl FnOnce(
            &mut S::Machine,
            &mut Cx<'_, <S::Machine as Machine>::Effect, <S::Machine as Machine>::Timer>,
        ),
    ) {
        let house = &mut self.houses[node.0 as usize];
        let room = self.outbox.capacity();
        let wall = self.now.as_ns().saturating_add_signed(house.wall_ahead);
        let cx = Cx::new(self.now, &mut house.rng, &mut self.outbox);
        step(&mut house.machine, &mut cx.with_wall(Instant::from_ns(wall)));
        house.machine.check();
        let most = house.machine.effects_max();
        let made = self.outbox.entries().len();
        let place = self.place();
        assert!(
            made <= most,
            "law 4: {made} effects in one step, at most {most} declared ({place})"
        );
        assert_eq!(self.outbox.capacity(), room, "law 4: the outbox grew ({place})");
        self.digest.fold(u64::from(node.0));
        for out in self.outbox.entries() {
            self.digest.fold_value(out);
        }
        let made: Vec<_> = self.outbox.drain().collect();
        for out in made {
            match out {
                Out::Arm(timer, at) => {
                    self.houses[node.0 as usize].timers.insert(timer, at);
                }
                Out::Disarm(timer) => {
                    self.houses[node.0 as usize].timers.remove(&timer);
                }
                Out::Effect(effect) => {
                    self.scene.said(self.now, node, &effect);
                    self.apply(node, effect);
                }
            }
        }
    }

    fn apply(&mut self, node: Node, effect: Effect<Of<S::Machine>>) {
        let place = self.place();
        let nodes = self.offer.nodes;
        match effect {
            Effect::Send { to, via, message } => {
                assert!(to != node && to.0 < nodes, "{node:?} sends to {to:?} ({place})");
                self.carry(node, to, via, message);
            }
            Effect::Cast { to, via, message } => {
                let members = self.houses[node.0 as usize].machine.members(to).to_vec();
                for to in members.into_iter().filter(|to| *to != node) {
                    assert!(to.0 < nodes, "{node:?} casts to {to:?} ({place})");
                    self.carry(node, to, via, message.clone());
                }
            }
            Effect::Store { entry, record } => {
                let house = &mut self.houses[node.0 as usize];
                let next = Entry(house.appended.0 + 1);
                assert_eq!(entry, next, "{node:?} numbers its records wrongly ({place})");
                house.appended = entry;
                house.log.insert(entry, record);
            }
            Effect::Trim { upto } => {
                let house = &mut self.houses[node.0 as usize];
                assert!(upto <= house.told, "{node:?} trims what is not stored ({place})");
                house.log.retain(|entry, _| *entry > upto);
            }
            Effect::Work { work, .. } => {
                let before = self.houses[node.0 as usize].works.insert(work, true);
                assert!(before.is_none(), "{node:?} has two {work:?} at a time ({place})");
            }
            Effect::Cancel { work } => {
                if let Some(goes_on) = self.houses[node.0 as usize].works.get_mut(&work) {
                    *goes_on = false;
                }
            }
            Effect::Reply { call, .. } => {
                let open = self.houses[node.0 as usize].calls.remove(&call);
                assert!(open, "{node:?} answers {call:?}, which is not open there ({place})");
                self.answered += 1;
            }
            Effect::Note(_) => {}
        }
    }

    fn carry(&mut self, from: Node, to: Node, via: Via, message: MessageOf<S::Machine>) {
        assert!(message.wire_bytes() > 0, "a message of no bytes ({})", self.place());
        match via {
            Via::Channel if self.severed == Some((from, to)) => {}
            Via::Channel => {
                let queue = self.channels.entry((from, to)).or_default();
                queue.push_back(Carried::Message(message));
            }
            Via::Datagram => self.datagrams.push((from, to, message)),
        }
    }
}

#[derive(Clone, Copy)]
enum Happening {
    Channel(Node, Node),
    Datagram,
    Disk(Node),
    Told(Node),
    Work(Node, Work),
    Ask,
}

/// Laws 1, 2, 4 and 7 under each of `seeds`: two runs agree, nothing illegal is asked for, and the
/// scene hears no contradiction. Returns how many calls were answered in all.
pub fn hold<S: Scene>(make: impl Fn() -> S, offer: Offer, seeds: core::ops::Range<u64>) -> u64
where
    <S::Machine as Machine>::Timer: core::hash::Hash,
{
    let mut answered = 0;
    for seed in seeds {
        let mut first = Town::new(make(), offer, seed);
        let mut second = Town::new(make(), offer, seed);
        let (one, two) = (first.run(), second.run());
        assert_eq!(one, two, "law 1: two runs of seed {seed:#x} part");
        answered += first.answered;
    }
    answered
}

#[cfg(test)]
mod tests;
