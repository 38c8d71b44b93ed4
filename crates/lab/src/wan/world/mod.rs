//! The loop: events in order, and what each does.

mod carry;
mod cast;
mod fail;
mod serve;

use super::node::Host;
use super::processors::{Bell, Wish};
use super::report::{Counts, Ended, Report};
use super::{Ask, Clients, Ending, Hardware, Observer, Of, Parts, Setup};
use crate::pending::{Class, Key, Pending, Ties};
use crate::trail::Trail;
use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Entry, Input, Message, Protocol, Talker, Via, Work};
use cavy_core::{Cx, Digest, Instant, Out, Outbox, Purpose, Span, Stream};

/// Something under way, for which the queue of events has one entry.
enum Flight<P: Protocol> {
    Message {
        from: Node,
        to: Node,
        via: Via,
        session: u32,
        sent: u64,
        /// Taken in by the receiver's card already.
        inside: bool,
        message: P::Message,
    },
    /// A message to several nodes, which arrives at all of them at once.
    Cast(cast::Cast<P>),
    /// The first word of a node that came back: its channels are new.
    Hello {
        from: Node,
        to: Node,
        session: u32,
    },
    /// A cut has lasted too long.
    Break {
        a: Node,
        b: Node,
    },
    Request {
        slot: u32,
        serial: u32,
        attempt: u32,
        to: Node,
    },
    Response {
        slot: u32,
        serial: u32,
        response: P::Response,
    },
    /// An attempt has waited long enough.
    Patience {
        slot: u32,
        serial: u32,
        attempt: u32,
    },
    /// Processors of a node wait for it.
    Bell {
        node: Node,
        life: u32,
        bell: Bell,
    },
    /// An answer to a cancelled work.
    Cancelled {
        node: Node,
        life: u32,
        work: Work,
        took: Span,
    },
}

/// A request under way, as the world keeps it.
struct Open<P: Protocol> {
    ask: Ask<P>,
    serial: u32,
}

pub(super) struct World<'a, M: Talker, F, C, H, P, O> {
    setup: &'a Setup,
    make: F,
    parts: Parts<'a, C, H, P, O>,
    ties: Ties,
    hosts: Vec<Host<M>>,
    /// How often each node has come back.
    lives: Vec<u32>,
    /// Slots: timers, threads and disks of nodes, clients, the world's own, flights.
    first_client: u32,
    first_control: u32,
    first_flight: u32,
    flights: Vec<Option<Flight<Of<M>>>>,
    free_flights: Vec<u32>,
    asks: Vec<Option<Open<Of<M>>>>,
    free_asks: Vec<u32>,
    asks_open: u64,
    /// The request that each client will send next.
    due: Vec<Option<<Of<M> as Protocol>::Request>>,
    clients_due: u64,
    serial: u32,
    /// What processors want of the world in one of their steps.
    wishes: Vec<Wish>,
    outbox: Outbox<M::Effect, M::Timer>,
    members: Vec<Node>,
    delay_rng: Stream,
    fault_rng: Stream,
    disk_rng: Stream,
    /// How often each rule has matched.
    matches: Vec<u64>,
    /// When each link with a rate is free again.
    pipes: Vec<u64>,
    busy_ns: Vec<u64>,
    counts: Counts,
    steps: u64,
    events: u64,
    now: u64,
    ending: bool,
    ended: Option<Ended>,
    /// Nodes may crash and channels may break: lanes are looked at on arrival, too.
    lanes_break: bool,
    /// An event of the present instant that comes before arrivals was pushed.
    ends_now: bool,
    trail: Trail,
}

/// What a step folds into the digest, apart from time and node.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Mark {
    Started = 1,
    Heard = 2,
    Expired = 3,
    Crashed = 4,
    Answered = 5,
}

impl<'a, M, F, C, H, P, O> World<'a, M, F, C, H, P, O>
where
    M: Talker,
    M::Timer: core::hash::Hash,
    F: FnMut(Node) -> M,
    C: Clients<M::Protocol>,
    H: Hardware<M::Protocol>,
    P: Pending,
    O: Observer<M>,
{
    pub(super) fn new(setup: &'a Setup, mut make: F, parts: Parts<'a, C, H, P, O>) -> Self {
        let nodes = setup.nodes.len() as u32;
        let all = (0..nodes).map(Node);
        let host = |node| Host::new(setup, node, make(node), parts.hardware.processors(node));
        let hosts: Vec<_> = all.map(host).collect();
        let effects = hosts.iter().flat_map(|host| &host.machine).map(|m| m.effects_max());
        let most = effects.max().unwrap_or(0);
        let clients = parts.clients.count();
        let outages = 2 * (setup.faults.outages.len() + setup.faults.slow.len()) as u32;
        let first_client = 3 * nodes;
        let first_control = first_client + clients;
        parts.pending.clear();
        World {
            ties: setup.shuffle_ties.map_or_else(Ties::in_order, Ties::shuffled),
            lives: vec![0; hosts.len()],
            busy_ns: vec![0; hosts.len()],
            hosts,
            first_client,
            first_control,
            first_flight: first_control + 1 + outages,
            flights: Vec::new(),
            free_flights: Vec::new(),
            asks: Vec::new(),
            free_asks: Vec::new(),
            asks_open: 0,
            due: (0..clients).map(|_| None).collect(),
            clients_due: 0,
            serial: 0,
            wishes: Vec::new(),
            outbox: Outbox::with_capacity(most),
            members: Vec::new(),
            delay_rng: Stream::keyed(setup.seed, 0, Purpose::Delays),
            fault_rng: Stream::keyed(setup.seed, 0, Purpose::Faults),
            disk_rng: Stream::keyed(setup.seed, 0, Purpose::Disks),
            matches: vec![0; setup.faults.rules.len()],
            pipes: vec![0; setup.links.len()],
            counts: Counts::default(),
            steps: 0,
            events: 0,
            now: 0,
            ending: false,
            ended: None,
            ends_now: false,
            lanes_break: !setup.faults.outages.is_empty() || !setup.faults.rules.is_empty(),
            trail: Trail::new(),
            setup,
            make,
            parts,
        }
    }

    /// Runs to the end.
    pub(super) fn go(&mut self) {
        let end = (self.setup.duration + self.setup.drain).as_ns();
        self.push(end, Class::Timer, self.first_control);
        for (outage, slot) in self.setup.faults.outages.iter().zip((1u32..).step_by(2)) {
            let slot = self.first_control + slot;
            self.push(outage.from.as_ns(), Class::Completion, slot);
            if outage.until != Instant::NEVER {
                self.push(outage.until.as_ns(), Class::Completion, slot + 1);
            }
        }
        let first = self.first_control + 1 + 2 * self.setup.faults.outages.len() as u32;
        for (slow, slot) in self.setup.faults.slow.iter().zip((first..).step_by(2)) {
            self.push(slow.from.as_ns(), Class::Completion, slot);
            self.push(slow.until.as_ns(), Class::Completion, slot + 1);
        }
        for node in (0..self.hosts.len() as u32).map(Node) {
            self.start(node);
        }
        for client in 0..self.due.len() as u32 {
            self.fetch(client);
        }
        self.end_when_quiet();
        while self.ended.is_none() {
            let Some(key) = self.parts.pending.pop() else {
                self.ended = Some(Ended::Answered);
                break;
            };
            self.now = key.at().as_ns();
            self.events += 1;
            self.event(key);
        }
    }

    pub(super) fn finish(mut self) -> (Report, Vec<Option<M>>) {
        let now = Instant::from_ns(self.now);
        for open in self.asks.iter().flatten() {
            self.parts.clients.ended(&open.ask, now, Ending::Unknown);
        }
        let report = Report {
            counts: self.counts,
            busy_ns: self.busy_ns,
            steps: self.steps,
            events: self.events,
            ended_at: now,
            ended: self.ended.unwrap_or(Ended::Time),
            trail: self.trail,
        };
        (report, self.hosts.drain(..).map(|host| host.machine).collect())
    }

    #[inline]
    fn push(&mut self, at: u64, class: Class, slot: u32) {
        self.ends_now |= class == Class::Completion && at <= self.now;
        let key = Key::new(Instant::from_ns(at), class, self.ties.next(), slot);
        self.parts.pending.push(key);
    }

    #[inline]
    fn fly(&mut self, at: u64, class: Class, flight: Flight<Of<M>>) {
        let place = self.place(flight);
        self.push(at, class, self.first_flight + place);
    }

    /// Keeps a flight. Returns its place.
    #[inline]
    fn place(&mut self, flight: Flight<Of<M>>) -> u32 {
        match self.free_flights.pop() {
            Some(place) => {
                self.flights[place as usize] = Some(flight);
                place
            }
            None => {
                self.flights.push(Some(flight));
                self.flights.len() as u32 - 1
            }
        }
    }

    #[inline]
    fn event(&mut self, key: Key) {
        let slot = key.slot();
        let nodes = self.hosts.len() as u32;
        if slot >= self.first_flight {
            let place = slot - self.first_flight;
            self.free_flights.push(place);
            if let Some(flight) = self.flights[place as usize].take() {
                self.lands(flight);
            }
        } else if slot < nodes {
            self.timer_is_due(Node(slot));
        } else if slot < 2 * nodes {
            self.handled(Node(slot - nodes));
        } else if slot < self.first_client {
            self.synced(Node(slot - 2 * nodes));
        } else if slot < self.first_control {
            self.issue(slot - self.first_client);
        } else {
            self.control(slot - self.first_control);
        }
    }

    fn lands(&mut self, flight: Flight<Of<M>>) {
        match flight {
            Flight::Message { .. } => self.message_lands(flight),
            Flight::Cast(cast) => self.cast_lands(cast),
            Flight::Hello { from, to, session } => self.hello_lands(from, to, session),
            Flight::Break { a, b } => self.breaks(a, b),
            Flight::Request { slot, serial, attempt, to } => {
                self.request_lands(slot, serial, attempt, to);
            }
            Flight::Response { slot, serial, response } => {
                self.response_lands(slot, serial, response);
            }
            Flight::Patience { slot, serial, attempt } => {
                self.out_of_patience(slot, serial, attempt)
            }
            Flight::Bell { node, life, bell } => self.bell_rings(node, life, bell),
            Flight::Cancelled { node, life, work, took } => {
                if self.lives[node.0 as usize] == life {
                    self.offer(node, Input::WorkDone { work, took, finished: false });
                }
            }
        }
    }

    fn control(&mut self, number: u32) {
        let outages = 2 * self.setup.faults.outages.len() as u32;
        if number > outages {
            self.pace((number - 1 - outages) as usize);
        } else if number > 0 {
            self.outage(number as usize - 1);
        } else if self.now >= (self.setup.duration + self.setup.drain).as_ns() {
            self.ended = Some(Ended::Time);
        } else if self.clients_due + self.asks_open == 0 {
            self.ended = Some(Ended::Answered);
        } else {
            self.ending = false;
        }
    }

    /// Ends the run a while after nothing more is to come.
    fn end_when_quiet(&mut self) {
        if self.clients_due + self.asks_open == 0 && !self.ending {
            self.ending = true;
            let at = self.now + self.setup.linger.as_ns();
            self.push(at, Class::Timer, self.first_control);
        }
    }

    fn start(&mut self, node: Node) {
        self.step(node, Mark::Started, |machine, cx| machine.start(cx));
    }

    /// Hands `input` to the thread of `node`, which may be busy.
    fn offer(&mut self, node: Node, input: Input<Of<M>>) {
        let host = &mut self.hosts[node.0 as usize];
        if host.machine.is_none() {
            if let Input::Rx { from, via, .. } = input {
                self.lose(from, node, via);
            }
            return;
        }
        if host.thread.is_free(self.now) && host.thread.inbox.is_empty() {
            self.take(node, input);
        } else {
            host.thread.inbox.push_back(input);
            let waiting = host.thread.inbox.len() as u64;
            self.counts.inbox_max = self.counts.inbox_max.max(waiting);
        }
    }

    /// The thread of `node` begins with `input`.
    fn take(&mut self, node: Node, input: Input<Of<M>>) {
        let cost = self.parts.hardware.handling(node, &input);
        if cost.is_zero() {
            self.hear(node, input);
        } else {
            self.busy_ns[node.0 as usize] += cost.as_ns();
            self.hosts[node.0 as usize].thread.current = Some(input);
            let slot = self.hosts.len() as u32 + node.0;
            self.push(self.now + cost.as_ns(), Class::Completion, slot);
        }
    }

    /// The thread of `node` has ended what it was busy with.
    fn handled(&mut self, node: Node) {
        let thread = &mut self.hosts[node.0 as usize].thread;
        if thread.frozen_until > self.now {
            thread.ended_late = true;
            return;
        }
        let Some(input) = thread.current.take() else { return };
        self.hear(node, input);
        self.go_on(node);
    }

    /// Takes what has waited for the thread of `node`.
    fn go_on(&mut self, node: Node) {
        loop {
            let host = &mut self.hosts[node.0 as usize];
            if !host.thread.is_free(self.now) {
                return;
            }
            // One timer, then one input: neither keeps the other waiting for ever.
            if std::mem::take(&mut host.thread.timers_late) {
                self.expire_one(node);
            }
            let Some(input) = self.hosts[node.0 as usize].thread.inbox.pop_front() else { return };
            self.take(node, input);
        }
    }

    fn hear(&mut self, node: Node, input: Input<Of<M>>) {
        if self.parts.observer.watches() {
            self.parts.observer.hears(Instant::from_ns(self.now), node, &input);
        }
        self.step(node, Mark::Heard, |machine, cx| machine.handle(input, cx));
    }

    fn timer_is_due(&mut self, node: Node) {
        let host = &mut self.hosts[node.0 as usize];
        if host.timers.queued != self.now || host.machine.is_none() {
            return;
        }
        if !host.thread.is_free(self.now) {
            host.timers.queued = u64::MAX;
            host.thread.timers_late = true;
            return;
        }
        self.expire_one(node);
    }

    /// Lets the earliest timer of `node` fire if it is due, and asks to be called for the next.
    fn expire_one(&mut self, node: Node) {
        if let Some(timer) = self.hosts[node.0 as usize].timers.take_due(self.now) {
            self.step(node, Mark::Expired, |machine, cx| machine.expire(timer, cx));
        }
        let host = &mut self.hosts[node.0 as usize];
        if let Some(at) = host.timers.requeue() {
            let at = at.max(self.now);
            host.timers.queued = at;
            self.push(at, Class::Timer, node.0);
        }
    }

    fn step(
        &mut self,
        node: Node,
        mark: Mark,
        step: impl FnOnce(&mut M, &mut Cx<'_, M::Effect, M::Timer>),
    ) {
        let host = &mut self.hosts[node.0 as usize];
        let Some(machine) = host.machine.as_mut() else { return };
        let (now, wall) = (host.clock.monotonic(self.now), host.clock.wall(self.now));
        step(machine, &mut Cx::new(now, &mut host.rng, &mut self.outbox).with_wall(wall));
        self.steps += 1;
        let mut outbox = std::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        let made = outbox.entries().len() as u64;
        let at = Instant::from_ns(self.now);
        self.trail.fold(at, (mark as u64) << 56 | made << 32 | u64::from(node.0));
        if self.setup.check {
            assert!(
                made <= machine.effects_max() as u64,
                "law 4: {made} effects of {node:?} in one step, at most {} declared",
                machine.effects_max()
            );
            machine.check();
            let mut digest = Digest::new();
            for out in outbox.entries() {
                digest.fold_value(out);
            }
            self.trail.fold(at, digest.value());
        }
        let watches = self.parts.observer.watches();
        for out in outbox.drain() {
            match out {
                Out::Effect(effect) => {
                    if watches {
                        self.parts.observer.says(at, node, &effect);
                    }
                    self.apply(node, effect);
                }
                Out::Arm(timer, at) => {
                    let host = &mut self.hosts[node.0 as usize];
                    let at = host.clock.true_time(at).max(self.now);
                    if host.timers.arm(timer, at) {
                        self.push(at, Class::Timer, node.0);
                    }
                }
                Out::Disarm(timer) => self.hosts[node.0 as usize].timers.disarm(timer),
            }
        }
        self.outbox = outbox;
    }

    fn apply(&mut self, node: Node, effect: Effect<Of<M>>) {
        match effect {
            Effect::Send { to, via, message } => {
                assert!(to != node, "{node:?} sends to itself");
                self.send(node, to, via, message);
            }
            Effect::Cast { to, via, message } => {
                let mut members = std::mem::take(&mut self.members);
                members.clear();
                if let Some(machine) = &self.hosts[node.0 as usize].machine {
                    members.extend_from_slice(machine.members(to));
                }
                members.retain(|&member| member != node);
                self.cast(node, &members, via, message);
                self.members = members;
            }
            Effect::Store { entry, record } => self.store(node, entry, record),
            Effect::Trim { upto } => {
                let log = &mut self.hosts[node.0 as usize].log;
                assert!(upto.0 <= log.stored, "{node:?} trims {upto:?}, which is not stored");
                while log.records.front().is_some_and(|(entry, _)| *entry <= upto) {
                    log.records.pop_front();
                    self.counts.records_trimmed += 1;
                }
            }
            Effect::Work { work, job } => {
                let price = self.parts.hardware.work(node, &job);
                let kind = self.parts.hardware.kind(node, &job);
                let now = Instant::from_ns(self.now);
                self.work(node, |benches, out| benches.ask(work, kind, price, now, out));
            }
            Effect::Cancel { work } => {
                let now = Instant::from_ns(self.now);
                self.work(node, |benches, out| benches.cancel(work, now, out));
            }
            Effect::Reply { call, response } => self.reply(node, call, response),
            Effect::Note(note) => {
                self.parts.observer.note(Instant::from_ns(self.now), node, &note);
            }
        }
    }

    fn store(&mut self, node: Node, entry: Entry, record: <Of<M> as Protocol>::Record) {
        self.counts.records += 1;
        self.counts.record_bytes += record.wire_bytes();
        let log = &mut self.hosts[node.0 as usize].log;
        assert_eq!(entry.0, log.appended + 1, "{node:?} numbers its records wrongly");
        log.appended += 1;
        log.records.push_back((entry, record));
        if log.syncing.is_none() {
            self.sync(node);
        }
    }

    /// The disk of `node` begins to store what is there. A step may append more in this instant,
    /// and that counts too: nothing has moved yet.
    fn sync(&mut self, node: Node) {
        let disk = self.setup.disk;
        let more = match disk.spread.as_ns() {
            0 => 0,
            spread => self.disk_rng.below(spread + 1),
        };
        let log = &mut self.hosts[node.0 as usize].log;
        log.syncing = Some(log.appended);
        let slot = 2 * self.hosts.len() as u32 + node.0;
        self.push(self.now + disk.sync.as_ns() + more, Class::Completion, slot);
    }

    fn synced(&mut self, node: Node) {
        let log = &mut self.hosts[node.0 as usize].log;
        // `None`: the node has crashed since.
        let Some(upto) = log.syncing.take() else { return };
        log.stored = upto;
        if log.stored < log.appended {
            self.sync(node);
        }
        self.offer(node, Input::Stored { upto: Entry(upto) });
    }
}
