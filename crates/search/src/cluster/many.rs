//! Many indices in one cluster: a node has a machine for each, so that each has a map and a p of
//! its own, and the directory keeps the catalogue of them.
//!
//! A change of the catalogue is acknowledged when every front end goes by it, or has no lease left:
//! after that no front end plans or translates by an older one. The log is one; records are
//! numbered anew for each machine.

use super::catalogue::{Catalogue, Change, Refusal};
use super::content::Content;
use super::held::{Held, Waiting};
use super::map::{Config, Layout, Map};
use super::{Member, Timer as Inner, message};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{
    Call, Effect, Entry, Input, Message as Wire, Protocol, Talker, Via, Work,
};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Span};
use core::marker::PhantomData;

/// What a front end asks of the directory is asked again after so long.
const AGAIN: Span = Span::from_ms(500);
/// Machines that hear in one step how far the log is stored.
const TOLD: usize = 8;
/// Calls that wait for a lease or for the directory at most.
const WAITING: usize = 4_096;
/// Calls of the directory's own have numbers from here on.
const OWN: u64 = 1 << 62;

/// What travels between nodes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message<C: Content> {
    /// Between two machines of an index.
    Of(u32, message::Message<C>),
    /// I live, and have the catalogue of this version.
    Beat {
        /// Counted by the sender.
        serial: u64,
        /// Of its catalogue.
        version: u64,
    },
    /// The catalogue, where the asker has an older one; and the lease that was asked for.
    Catalogue {
        /// Of the beat; zero when nobody asked.
        serial: u64,
        /// All indices.
        catalogue: Option<Arc<Catalogue>>,
    },
    /// A front end's clients want this.
    Ask {
        /// Counted by the front end.
        serial: u64,
        /// What.
        wish: Wish,
    },
    /// It was done, or not.
    Told {
        /// Of the wish.
        serial: u64,
        /// What became of it.
        done: Result<(), Refusal>,
    },
}

/// What clients want of the directory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Wish {
    /// Another catalogue, and a name for the change.
    Change(Change, u64),
    /// Another p for an index.
    Spread(u32, u32),
}

/// What clients ask of a front end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Request<C: Content> {
    /// Of an index.
    Of(u32, message::Request<C>),
    /// Change the catalogue.
    Change(Change),
    /// Spread the queries of an index over so many parts.
    Spread(u32, u32),
    /// What indices are there, and by which maps are they searched?
    Read,
    /// A server: leave the rings of all indices. It is answered when that is done.
    Leave,
}

/// What clients get back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Response<C: Content> {
    /// Of an index.
    Of(message::Response<C>),
    /// There is no such index any more, or the front end can take no more calls.
    Gone,
    /// What the directory said.
    Told(Result<(), Refusal>),
    /// All indices, and the map of each that is known.
    Catalogue(Arc<Catalogue>, BTreeMap<u32, Arc<Map>>),
}

/// What survives a crash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record<C: Content> {
    /// Of an index.
    Of(u32, message::Record<C>),
    /// All indices.
    Catalogue(Arc<Catalogue>),
}

/// What a node waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// Of an index.
    Of(u32, Inner),
    /// The next beat.
    Beat,
    /// More machines hear how far the log is stored.
    Stored,
    /// More calls that waited for a lease.
    Waiting,
    /// Of a call that waits for a lease.
    Deadline,
    /// The directory did not answer.
    Again,
}

/// The types of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Words<C: Content>(PhantomData<C>);

impl<C: Content> Protocol for Words<C> {
    type Message = Message<C>;
    type Request = Request<C>;
    type Response = Response<C>;
    type Record = Record<C>;
    type Job = (u32, message::Job<C>);
    type Group = ();
    type Note = (u32, message::Note);
}

impl<C: Content> Wire for Message<C> {
    fn wire_bytes(&self) -> u64 {
        match self {
            Message::Of(_, message) => 4 + message.wire_bytes(),
            Message::Beat { .. } | Message::Told { .. } => 20,
            Message::Catalogue { catalogue, .. } => {
                20 + catalogue.as_ref().map_or(0, |catalogue| catalogue.bytes())
            }
            Message::Ask { wish, .. } => 20 + wish.bytes(),
        }
    }
}

impl Wish {
    fn bytes(&self) -> u64 {
        match self {
            Wish::Change(Change::Create { name, about, .. }, _)
            | Wish::Change(Change::Alter { name, about, .. }, _) => {
                (name.len() + about.len()) as u64
            }
            _ => 16,
        }
    }
}

impl<C: Content> Wire for Request<C> {
    fn wire_bytes(&self) -> u64 {
        match self {
            Request::Of(_, request) => 4 + request.wire_bytes(),
            _ => 100,
        }
    }
}

impl<C: Content> Wire for Response<C> {
    fn wire_bytes(&self) -> u64 {
        match self {
            Response::Of(response) => 4 + response.wire_bytes(),
            Response::Catalogue(catalogue, _) => 4 + catalogue.bytes(),
            Response::Gone | Response::Told(_) => 20,
        }
    }
}

impl<C: Content> Wire for Record<C> {
    fn wire_bytes(&self) -> u64 {
        match self {
            Record::Of(_, record) => 4 + record.wire_bytes(),
            Record::Catalogue(catalogue) => 4 + catalogue.bytes(),
        }
    }
}

/// The context of a step.
type Context<'a, C> = Cx<'a, Effect<Words<C>>, Timer>;

/// The machine of one index.
#[derive(Debug)]
struct One<C: Content> {
    member: Member<C>,
    /// Records of it in the log.
    records: u64,
}

/// What the directory knows of one of the others.
#[derive(Clone, Copy, Debug)]
struct Peer {
    granted: Instant,
    version: u64,
}

/// Somebody who waits for the directory.
#[derive(Clone, Debug)]
struct Waiter {
    from: Node,
    serial: u64,
}

/// A node of a cluster of many indices.
#[derive(Debug)]
pub struct Many<C: Content> {
    config: Config,
    me: Node,
    catalogue: Arc<Catalogue>,
    ones: BTreeMap<u32, One<C>>,
    outbox: Outbox<Effect<message::Words<C>>, Inner>,
    /// Records of the log so far.
    records: u64,
    stored: Entry,
    /// Records that are not known to be stored: in the log, whose, and in whose count.
    unstored: VecDeque<(u64, u32, u64)>,
    // Of all but the directory.
    lease_until: Instant,
    beats: u64,
    asked: VecDeque<(u64, Instant)>,
    // Of servers.
    /// It leaves all rings, and who wants to know when that is done.
    leaving: Option<Vec<Call>>,
    // Of front ends.
    waiting: Held<Request<C>>,
    serial: u64,
    wishes: BTreeMap<u64, (Call, Wish)>,
    // Of the directory.
    peers: Vec<Peer>,
    /// A catalogue that is being stored, and for whom.
    next: Option<(Entry, Arc<Catalogue>, Waiter)>,
    /// Changes that wait for their turn.
    queue: VecDeque<(Waiter, Change, u64)>,
    /// Who is told what when every front end goes by a version.
    unsettled: Vec<(u64, Waiter, Result<(), Refusal>)>,
    spreads: BTreeMap<u64, Waiter>,
}

impl<C: Content> Many<C> {
    /// The machine of `node`. `config` is of each index, but for p.
    ///
    /// # Panics
    /// When the layout has no such node.
    pub fn new(config: Config, node: Node) -> Many<C> {
        assert!(node.0 < config.layout.nodes(), "{node:?} is not in the layout");
        let max = Member::<C>::new(&config, node).effects_max();
        let peer = Peer { granted: Instant::ZERO, version: 0 };
        Many {
            me: node,
            catalogue: Arc::new(Catalogue::default()),
            ones: BTreeMap::new(),
            outbox: Outbox::with_capacity(max),
            records: 0,
            stored: Entry(0),
            unstored: VecDeque::new(),
            lease_until: Instant::ZERO,
            beats: 0,
            asked: VecDeque::new(),
            leaving: None,
            waiting: Held::new(),
            serial: 0,
            wishes: BTreeMap::new(),
            peers: alloc::vec![peer; config.layout.nodes() as usize],
            next: None,
            queue: VecDeque::new(),
            unsettled: Vec::new(),
            spreads: BTreeMap::new(),
            config,
        }
    }

    fn is_directory(&self) -> bool {
        self.me == Layout::DIRECTORY
    }

    fn is_front_end(&self) -> bool {
        !self.is_directory() && self.config.layout.number(self.me).is_none()
    }

    /// All indices, as this node knows them.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// The machine of an index.
    pub fn member(&self, index: u32) -> Option<&Member<C>> {
        self.ones.get(&index).map(|one| &one.member)
    }

    /// Lets the machine of an index take a step, and passes on what it wants.
    fn step(
        &mut self,
        index: u32,
        cx: &mut Context<'_, C>,
        step: impl FnOnce(&mut Member<C>, &mut Cx<'_, Effect<message::Words<C>>, Inner>),
    ) {
        let Some(mut one) = self.ones.remove(&index) else { return };
        let (now, wall) = (cx.now(), cx.wall());
        let mut outbox = core::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        step(&mut one.member, &mut Cx::new(now, cx.rng(), &mut outbox).with_wall(wall));
        for out in outbox.drain() {
            match out {
                Out::Arm(timer, at) => cx.arm(Timer::Of(index, timer), at),
                Out::Disarm(timer) => cx.disarm(Timer::Of(index, timer)),
                Out::Effect(effect) => self.pass(index, &mut one, effect, cx),
            }
        }
        self.outbox = outbox;
        self.ones.insert(index, one);
    }

    fn pass(
        &mut self,
        index: u32,
        one: &mut One<C>,
        effect: Effect<message::Words<C>>,
        cx: &mut Context<'_, C>,
    ) {
        match effect {
            Effect::Send { to, via, message } => {
                cx.emit(Effect::Send { to, via, message: Message::Of(index, message) });
            }
            Effect::Store { entry, record } => {
                one.records = entry.0;
                self.records += 1;
                self.unstored.push_back((self.records, index, entry.0));
                let record = Record::Of(index, record);
                cx.emit(Effect::Store { entry: Entry(self.records), record });
            }
            Effect::Work { work, job } => {
                cx.emit(Effect::Work { work: outer(index, work), job: (index, job) });
            }
            Effect::Cancel { work } => cx.emit(Effect::Cancel { work: outer(index, work) }),
            // The answer to what this machine asked itself.
            Effect::Reply { call: Call(OWN), .. } => {}
            Effect::Reply { call, response } => match self.spreads.remove(&call.0) {
                Some(waiter) => {
                    let accepted = message::Response::Spread { accepted: true };
                    let done = if response == accepted { Ok(()) } else { Err(Refusal::Spread) };
                    self.tell(&waiter, done, cx);
                }
                None => cx.emit(Effect::Reply { call, response: Response::Of(response) }),
            },
            Effect::Note(note) => cx.emit(Effect::Note((index, note))),
            Effect::Cast { to: (), .. } | Effect::Trim { .. } => {}
        }
    }

    fn store(&mut self, record: Record<C>, cx: &mut Context<'_, C>) -> Entry {
        self.records += 1;
        let entry = Entry(self.records);
        cx.emit(Effect::Store { entry, record });
        entry
    }

    /// Goes by a catalogue: has a machine for each index, and none for what was deleted.
    fn adopt(&mut self, catalogue: Arc<Catalogue>) -> Vec<u32> {
        let known = |number: u32| catalogue.of(number).is_some();
        self.ones.retain(|number, _| known(*number));
        let mut new = Vec::new();
        for index in catalogue.indices.values() {
            if !self.ones.contains_key(&index.number) {
                let mut config = self.config.clone();
                config.p = index.p;
                let member = Member::new(&config, self.me);
                self.ones.insert(index.number, One { member, records: 0 });
                new.push(index.number);
            }
        }
        self.catalogue = catalogue;
        new
    }

    fn send(&self, to: Node, message: Message<C>, cx: &mut Context<'_, C>) {
        cx.emit(Effect::Send { to, via: Via::Channel, message });
    }

    fn beat(&mut self, cx: &mut Context<'_, C>) {
        cx.arm(Timer::Beat, cx.now() + self.config.beat);
        if self.is_directory() {
            return self.settle(cx);
        }
        self.leave(cx);
        self.beats += 1;
        self.asked.push_back((self.beats, cx.now()));
        if self.asked.len() > 32 {
            self.asked.pop_front();
        }
        let (serial, version) = (self.beats, self.catalogue.version);
        self.send(Layout::DIRECTORY, Message::Beat { serial, version }, cx);
    }

    /// Tells those whose change everybody goes by.
    fn settle(&mut self, cx: &mut Context<'_, C>) {
        let now = cx.now();
        let layout = self.config.layout;
        let lease = self.config.front_end_lease;
        // Servers that have not heard of a new index lose what is sent to them, for a while.
        let goes_by = |node: u32, version: u64| {
            let peer = &self.peers[node as usize];
            peer.version >= version || now > peer.granted + lease
        };
        let all = |version: u64| (1..layout.nodes()).all(|node| goes_by(node, version));
        let all: Vec<bool> = self.unsettled.iter().map(|(version, ..)| all(*version)).collect();
        let mut settled = all.into_iter();
        for (version, waiter, done) in core::mem::take(&mut self.unsettled) {
            match settled.next() {
                Some(true) => self.tell(&waiter, done, cx),
                _ => self.unsettled.push((version, waiter, done)),
            }
        }
    }

    fn tell(&self, waiter: &Waiter, done: Result<(), Refusal>, cx: &mut Context<'_, C>) {
        self.send(waiter.from, Message::Told { serial: waiter.serial, done }, cx);
    }

    /// Makes the next change, if none is being stored.
    fn change(&mut self, cx: &mut Context<'_, C>) {
        while self.next.is_none() {
            let Some((waiter, change, token)) = self.queue.pop_front() else { return };
            match self.catalogue.after(&change, token, self.config.p_most()) {
                // What there is may be new to other front ends, too.
                Err(refusal) => {
                    self.unsettled.push((self.catalogue.version, waiter, Err(refusal)));
                }
                Ok(None) => self.unsettled.push((self.catalogue.version, waiter, Ok(()))),
                Ok(Some(next)) => {
                    let next = Arc::new(next);
                    let entry = self.store(Record::Catalogue(next.clone()), cx);
                    self.next = Some((entry, next, waiter));
                }
            }
        }
    }

    /// The log is stored up to `upto`: machines hear of it, a few at a time.
    fn stored(&mut self, cx: &mut Context<'_, C>) {
        let upto = self.stored;
        if let Some((_, catalogue, waiter)) = self.next.take_if(|(entry, ..)| *entry <= upto) {
            self.unsettled.push((catalogue.version, waiter, Ok(())));
            for number in self.adopt(catalogue) {
                self.step(number, cx, |member, cx| member.start(cx));
            }
            for node in (1..self.config.layout.nodes()).map(Node) {
                let catalogue = Some(self.catalogue.clone());
                self.send(node, Message::Catalogue { serial: 0, catalogue }, cx);
            }
            self.change(cx);
        }
        for _ in 0..TOLD {
            let Some(&(_, index, mut last)) =
                self.unstored.front().filter(|(entry, ..)| *entry <= upto.0)
            else {
                return;
            };
            // Records in a row of one machine are told at once.
            while let Some(&(entry, other, count)) = self.unstored.front()
                && entry <= upto.0
                && other == index
            {
                last = count;
                self.unstored.pop_front();
            }
            let upto = Entry(last);
            self.step(index, cx, |member, cx| member.handle(Input::Stored { upto }, cx));
        }
        cx.arm(Timer::Stored, cx.now());
    }

    /// Has the machines of all indices leave, and answers who waits for that when they have.
    fn leave(&mut self, cx: &mut Context<'_, C>) {
        let Some(mut calls) = self.leaving.take() else { return };
        let stays = |one: &One<C>| matches!(&one.member, Member::Server(own) if own.stays());
        let all: Vec<u32> =
            self.ones.iter().filter(|(_, one)| stays(one)).map(|(number, _)| *number).collect();
        for number in all {
            let input = Input::Call { call: Call(OWN), request: message::Request::Stay(false) };
            self.step(number, cx, |member, cx| member.handle(input, cx));
        }
        let left = |one: &One<C>| matches!(&one.member, Member::Server(own) if own.has_left());
        if self.ones.values().all(left) {
            for call in calls.drain(..) {
                cx.emit(Effect::Reply { call, response: Response::Told(Ok(())) });
            }
        }
        self.leaving = Some(calls);
    }

    fn call(&mut self, call: Call, request: Request<C>, cx: &mut Context<'_, C>) {
        if self.config.layout.number(self.me).is_some() && request == Request::Leave {
            self.leaving.get_or_insert_default().push(call);
            return self.leave(cx);
        }
        if !self.is_front_end() || self.waiting.len() + self.wishes.len() >= WAITING {
            return cx.emit(Effect::Reply { call, response: Response::Gone });
        }
        if cx.now() >= self.lease_until {
            let until = match &request {
                Request::Of(_, request) => request.until(cx.now()),
                _ => None,
            };
            self.waiting.push(Waiting { call, request, until });
            if let Some(at) = self.waiting.wakes() {
                cx.arm(Timer::Deadline, at);
            }
            return;
        }
        let wish = match request {
            Request::Of(index, request) if self.ones.contains_key(&index) => {
                let input = Input::Call { call, request };
                return self.step(index, cx, |member, cx| member.handle(input, cx));
            }
            Request::Of(..) | Request::Leave => {
                return cx.emit(Effect::Reply { call, response: Response::Gone });
            }
            Request::Read => {
                let map = |(number, one): (&u32, &One<C>)| match &one.member {
                    Member::FrontEnd(own) => own.map().map(|map| (*number, map.clone())),
                    _ => None,
                };
                let maps = self.ones.iter().filter_map(map).collect();
                let response = Response::Catalogue(self.catalogue.clone(), maps);
                return cx.emit(Effect::Reply { call, response });
            }
            Request::Change(change) => Wish::Change(change, cx.rng().bits() | 1),
            Request::Spread(index, p) => Wish::Spread(index, p),
        };
        self.serial += 1;
        let serial = self.serial;
        self.wishes.insert(serial, (call, wish.clone()));
        self.send(Layout::DIRECTORY, Message::Ask { serial, wish }, cx);
        if self.wishes.len() == 1 {
            cx.arm(Timer::Again, cx.now() + AGAIN);
        }
    }

    fn heard(
        &mut self,
        from: Node,
        message: Message<C>,
        arrived: Instant,
        cx: &mut Context<'_, C>,
    ) {
        match message {
            Message::Of(index, message) => {
                let via = Via::Channel;
                let input = Input::Rx { from, via, message, arrived };
                self.step(index, cx, |member, cx| member.handle(input, cx));
            }
            Message::Beat { serial, version } if self.is_directory() => {
                // A lease granted now would outlive the catalogue that is about to be replaced.
                let Some(peer) = self.peers.get_mut(from.0 as usize) else { return };
                if self.next.is_some() {
                    return;
                }
                *peer = Peer { granted: cx.now(), version };
                let old = version < self.catalogue.version;
                let catalogue = old.then(|| self.catalogue.clone());
                self.send(from, Message::Catalogue { serial, catalogue }, cx);
                self.settle(cx);
            }
            Message::Catalogue { serial, catalogue } if !self.is_directory() => {
                let newer = |new: &Arc<Catalogue>| new.version > self.catalogue.version;
                if let Some(catalogue) = catalogue.filter(newer) {
                    if !self.is_front_end() {
                        self.store(Record::Catalogue(catalogue.clone()), cx);
                    }
                    for number in self.adopt(catalogue) {
                        self.step(number, cx, |member, cx| member.start(cx));
                    }
                    self.beat(cx);
                }
                if let Some(&(_, asked)) = self.asked.iter().find(|(own, _)| *own == serial) {
                    self.lease_until = self.lease_until.max(asked + self.config.front_end_lease);
                }
                if !self.waiting.is_empty() {
                    cx.arm(Timer::Waiting, cx.now());
                }
            }
            Message::Ask { serial, wish } if self.is_directory() => {
                let waiter = Waiter { from, serial };
                let same = |other: &Waiter| (other.from, other.serial) == (from, serial);
                match wish {
                    Wish::Change(change, token) => {
                        let known = self.queue.iter().any(|(other, ..)| same(other))
                            || self.unsettled.iter().any(|(_, other, _)| same(other))
                            || self.next.as_ref().is_some_and(|(.., other)| same(other));
                        if !known && self.queue.len() < WAITING {
                            self.queue.push_back((waiter, change, token));
                            self.change(cx);
                            self.settle(cx);
                        }
                    }
                    Wish::Spread(index, _) if !self.ones.contains_key(&index) => {
                        self.tell(&waiter, Err(Refusal::Missing), cx);
                    }
                    Wish::Spread(index, p) => {
                        self.serial += 1;
                        let call = Call(OWN + self.serial);
                        self.spreads.insert(call.0, waiter);
                        let request = message::Request::Spread { p };
                        let input = Input::Call { call, request };
                        self.step(index, cx, |member, cx| member.handle(input, cx));
                    }
                }
            }
            Message::Told { serial, done } => {
                if let Some((call, _)) = self.wishes.remove(&serial) {
                    cx.emit(Effect::Reply { call, response: Response::Told(done) });
                }
            }
            Message::Beat { .. } | Message::Catalogue { .. } | Message::Ask { .. } => {}
        }
    }

    fn replay(&mut self, entry: Entry, record: Record<C>, cx: &mut Context<'_, C>) {
        self.records = entry.0;
        self.stored = entry;
        match record {
            Record::Catalogue(catalogue) => drop(self.adopt(catalogue)),
            Record::Of(index, record) => {
                let Some(one) = self.ones.get_mut(&index) else { return };
                one.records += 1;
                let entry = Entry(one.records);
                self.step(index, cx, |member, cx| {
                    member.handle(Input::Replay { entry, record }, cx);
                });
            }
        }
    }
}

/// The name of a machine's work for the world.
pub fn outer(index: u32, work: Work) -> Work {
    Work(u64::from(index) << 40 | work.0)
}

impl<C: Content> Machine for Many<C> {
    type Input = Input<Words<C>>;
    type Effect = Effect<Words<C>>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        // New machines say little at first; what is stored is told to a few machines a step.
        (self.outbox.capacity() + 8) * TOLD
            + 4 * super::catalogue::INDICES
            + 2 * self.config.layout.nodes() as usize
            + WAITING
    }

    fn start(&mut self, cx: &mut Context<'_, C>) {
        let now = cx.now();
        self.beats = cx.rng().bits() >> 1;
        self.serial = cx.rng().bits() >> 4;
        // Leases may have been given until this moment.
        self.peers.iter_mut().for_each(|peer| peer.granted = now);
        self.beat(cx);
    }

    fn handle(&mut self, input: Input<Words<C>>, cx: &mut Context<'_, C>) {
        match input {
            Input::Rx { from, message, arrived, .. } => self.heard(from, message, arrived, cx),
            Input::Call { call, request } => self.call(call, request, cx),
            Input::Stored { upto } => {
                self.stored = self.stored.max(upto);
                self.stored(cx);
            }
            Input::Replay { entry, record } => self.replay(entry, record, cx),
            Input::Recovered { .. } => {
                // What was replayed is started: as a machine is after a crash.
                let all: Vec<u32> = self.ones.keys().copied().collect();
                for index in all {
                    self.step(index, cx, |member, cx| member.start(cx));
                }
            }
            Input::WorkDone { work, took, finished } => {
                let index = (work.0 >> 40) as u32;
                let work = Work(work.0 & ((1 << 40) - 1));
                let input = Input::WorkDone { work, took, finished };
                self.step(index, cx, |member, cx| member.handle(input, cx));
            }
            Input::Broken { .. } => {}
        }
    }

    fn expire(&mut self, timer: Timer, cx: &mut Context<'_, C>) {
        match timer {
            Timer::Of(index, timer) => {
                self.step(index, cx, |member, cx| member.expire(timer, cx));
            }
            Timer::Beat => self.beat(cx),
            Timer::Stored => self.stored(cx),
            Timer::Waiting => {
                if cx.now() < self.lease_until
                    && let Some(Waiting { call, request, until }) = self.waiting.pop()
                {
                    let request = match (request, until) {
                        (Request::Of(index, request), Some(until)) => {
                            Request::Of(index, request.until_then(cx.now(), until))
                        }
                        (request, _) => request,
                    };
                    self.call(call, request, cx);
                    if !self.waiting.is_empty() {
                        cx.arm(Timer::Waiting, cx.now());
                    }
                }
            }
            Timer::Deadline => {
                for waiting in self.waiting.over(cx.now()) {
                    let response = Response::Of(message::Response::nothing(true));
                    cx.emit(Effect::Reply { call: waiting.call, response });
                }
                if let Some(at) = self.waiting.wakes() {
                    cx.arm(Timer::Deadline, at);
                }
            }
            Timer::Again => {
                for (serial, (_, wish)) in &self.wishes {
                    let message = Message::Ask { serial: *serial, wish: wish.clone() };
                    self.send(Layout::DIRECTORY, message, cx);
                }
                if !self.wishes.is_empty() {
                    cx.arm(Timer::Again, cx.now() + AGAIN);
                }
            }
        }
    }

    fn check(&self) {
        self.ones.values().for_each(|one| one.member.check());
        assert!(self.ones.len() <= super::catalogue::INDICES);
    }
}

impl<C: Content> Talker for Many<C> {
    type Protocol = Words<C>;

    fn members(&self, (): ()) -> &[Node] {
        &[]
    }
}
