//! A server: answers, logs, copies, drops.

mod copies;

use super::content::Content;
use super::map::{Config, Layout, Map, Rings, State};
use super::message::{Doc, Job, Message, Note, Outcome, Record, Request, Response};
use super::{Context, Log, Timer};
use crate::cost::Estimator;
use crate::ring::{Id, Slice, WHOLE};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Via, Work};
use cavy_core::{Instant, Span};

/// Effects of one step at most: a chunk's documents, and what waited for the disk.
pub(super) const EFFECTS: usize = 2 * DOCS + 3 * BATCH + 32;
/// Documents of a chunk at most.
const DOCS: usize = 64;
/// Answers that one step lets go when the disk has stored.
const BATCH: usize = 64;
/// A copy that has not gone on for so long is asked of another server.
const PATIENCE: Span = Span::from_ms(2_000);
/// Copies wait so long for queries at most, and may make up for so much of what they waited.
const YIELDS: Span = Span::from_ms(1_000);

/// What waits for the disk.
#[derive(Debug)]
enum After<C: Content> {
    /// Acknowledge.
    Send(Node, Message<C>),
    /// From here on the server holds this.
    Hold(Slice, u64),
}

/// What a server works on.
#[derive(Debug)]
enum Task {
    Scan {
        from: Node,
        query: u64,
        part: u32,
        slice: Slice,
    },
    /// The last id of what is read then.
    Read(Ready),
    /// The request that it came for, and what came.
    Merge {
        ask: u64,
        slice: Slice,
    },
}

/// What somebody wants a copy of, and has not been read yet.
#[derive(Debug)]
struct Wanted {
    ask: u64,
    rest: Slice,
    written_only: bool,
}

/// What was read for somebody.
#[derive(Debug)]
struct Ready {
    to: Node,
    ask: u64,
    slice: Slice,
    written_only: bool,
}

/// What was asked for. It comes in pieces, from its last id backwards.
#[derive(Debug)]
struct Fetch {
    ask: u64,
    slice: Slice,
    /// It follows on what is held, which therefore has none of it before all of it has come.
    beyond: bool,
    /// What has not come yet.
    rest: Option<Slice>,
    /// What came and is not taken in yet.
    came: VecDeque<Slice>,
}

/// A server.
#[derive(Debug)]
pub struct Server<C: Content> {
    config: Config,
    me: u32,
    map: Option<Arc<Map>>,
    rings: Option<Rings>,
    /// It wants to be on the ring.
    stays: bool,
    lease_until: Instant,
    beats: u64,
    /// When recent beats were sent, by number.
    asked: VecDeque<(u64, Instant)>,
    docs: BTreeMap<Id, Doc<C::Body>>,
    /// Names its log; zero until it is known whether there is one.
    life: u64,
    /// The name is stored from this entry on.
    born: Option<Entry>,
    held: Slice,
    /// It holds nothing, whatever `held` says.
    empty: bool,
    /// Its log does not say what it holds: what a new cluster begins with, if the directory counts
    /// on it from the first, and nothing otherwise.
    blank: bool,
    /// What was dropped is stored as dropped from this entry on.
    dropped: Option<Entry>,
    /// The last map of which nothing is left to be dropped, through a crash.
    follows: u64,
    /// What was caught up with: the epoch since which it was behind.
    caught_up: u64,
    /// How far catching up has come: ids up to here are as everybody has them.
    catching: Option<(u64, Slice)>,
    log: Log,
    after: VecDeque<(Entry, After<C>)>,
    stored: Entry,
    tasks: BTreeMap<u64, Task>,
    works: u64,
    /// Queries that it works on, or that wait.
    scans: u32,
    /// What they take, as far as it has seen.
    estimator: Estimator,
    /// What it asked for, in the order in which it takes it in.
    fetches: VecDeque<Fetch>,
    /// Names the last request for a copy.
    ask: u64,
    attempts: u32,
    /// When the first request last went on.
    heard: Instant,
    merging: bool,
    copy_after: Instant,
    /// What others want, by who; they take turns.
    wanted: VecDeque<(Node, VecDeque<Wanted>)>,
    reading: bool,
    read_after: Instant,
    /// What was read for others and waits for the card.
    ready: VecDeque<Ready>,
    send_after: Instant,
}

impl<C: Content> Server<C> {
    pub(super) fn new(config: Config, me: u32) -> Server<C> {
        let held = config.holds(me, config.p);
        Server {
            me,
            map: None,
            rings: None,
            stays: true,
            lease_until: Instant::ZERO,
            beats: 0,
            asked: VecDeque::new(),
            docs: BTreeMap::new(),
            life: 0,
            born: None,
            held,
            empty: false,
            blank: true,
            dropped: None,
            follows: 0,
            caught_up: 0,
            catching: None,
            log: Log::default(),
            after: VecDeque::new(),
            stored: Entry(0),
            tasks: BTreeMap::new(),
            works: 0,
            scans: 0,
            estimator: Estimator::new(config.costs[me as usize]),
            fetches: VecDeque::new(),
            ask: 0,
            attempts: 0,
            heard: Instant::ZERO,
            merging: false,
            copy_after: Instant::ZERO,
            wanted: VecDeque::new(),
            reading: false,
            read_after: Instant::ZERO,
            ready: VecDeque::new(),
            send_after: Instant::ZERO,
            config,
        }
    }

    /// The ids that it holds completely; `None` when it holds nothing.
    pub fn held(&self) -> Option<Slice> {
        (!self.empty && !self.blank).then_some(self.held)
    }

    /// It is not on the ring, by its newest map, and has stored that it holds nothing.
    pub fn has_left(&self) -> bool {
        let out = |map: &Arc<Map>| map.states[self.me as usize] == State::Out;
        self.map.as_ref().is_some_and(out) && self.empty && self.dropped.is_none()
    }

    /// It wants to be on the ring.
    pub fn stays(&self) -> bool {
        self.stays
    }

    fn holds(&self, slice: Slice) -> bool {
        self.held().is_some_and(|held| held.covers(slice))
    }

    pub(super) fn call(&mut self, call: Call, request: &Request<C>, cx: &mut Context<'_, C>) {
        let response = match request {
            Request::Stay(stays) => {
                if self.stays != *stays {
                    self.stays = *stays;
                    self.beat(cx);
                }
                Response::Stays
            }
            _ => Response::Spread { accepted: false },
        };
        cx.emit(Effect::Reply { call, response });
    }

    pub(super) fn start(&mut self, cx: &mut Context<'_, C>) {
        // Numbers of another life are not met again: answers to them may still be on their way.
        self.ask = cx.rng().bits();
        self.beats = cx.rng().bits() >> 1;
        // What it has stored is told before that comes.
        cx.arm(Timer::Tick, cx.now());
    }

    fn asking(&mut self) -> u64 {
        self.ask = self.ask.wrapping_add(1);
        self.ask
    }

    fn beat(&mut self, cx: &mut Context<'_, C>) {
        cx.arm(Timer::Tick, cx.now() + self.config.beat);
        if self.life == 0 {
            self.life = cx.rng().bits() | 1;
            self.born = Some(self.log.store(Record::Life(self.life), cx));
        }
        if self.born.is_some() {
            // After a crash it would have another name, and count as one that lost its log.
            return;
        }
        self.beats += 1;
        let (serial, complete) = (self.beats, self.complete());
        self.asked.push_back((serial, cx.now()));
        if self.asked.len() > 16 {
            self.asked.pop_front();
        }
        // After a crash it would hold again, and in vain, what it has not stored as dropped.
        if self.dropped.is_none() {
            self.follows = self.map.as_ref().map_or(0, |map| map.epoch);
        }
        let epoch = self.follows;
        let (stays, life) = (self.stays, self.life);
        let takes = self.takes();
        let message = Message::Beat { serial, epoch, complete, stays, life, takes };
        cx.emit(Effect::Send { to: Layout::DIRECTORY, via: Via::Channel, message });
    }

    /// What a part of a query takes it, as far as it has seen, if anybody wants to know.
    fn takes(&self) -> Option<Span> {
        self.config.balance?;
        let part = WHOLE / u128::from(self.map.as_ref()?.p);
        self.estimator.learned().map(|cost| Span::from_ns(cost.of(part)))
    }

    /// What its map wants it to hold.
    fn target(&self) -> Option<Slice> {
        let (rings, map) = (self.rings.as_ref()?, self.map.as_ref()?);
        let wanted = rings.wants(self.me, map.stored)?;
        let switched = map.moving.as_ref().is_some_and(|moving| moving.switched);
        if self.config.bugs.drop_beyond && switched {
            let own = Rings { now: rings.now.clone(), beside: None }.wants(self.me, map.stored)?;
            return Some(Slice::new(wanted.lo, own.hi));
        }
        Some(wanted)
    }

    fn behind_since(&self) -> Option<u64> {
        match self.map.as_ref()?.states[self.me as usize] {
            State::Behind(since) => Some(since),
            State::Up | State::Down | State::Out => None,
        }
    }

    fn complete(&self) -> bool {
        let Some(target) = self.target() else { return false };
        let caught_up = self.behind_since().is_none_or(|since| self.caught_up == since);
        self.holds(target) && caught_up
    }

    /// In step, with a lease.
    fn may_answer(&self, now: Instant) -> bool {
        let up = self.map.as_ref().is_some_and(|map| map.is_up(self.me));
        self.config.bugs.unchecked || (up && now < self.lease_until)
    }

    pub(super) fn heard(&mut self, from: Node, message: Message<C>, cx: &mut Context<'_, C>) {
        match message {
            // Nobody else has maps to give.
            Message::Grant { serial, map } if from == Layout::DIRECTORY => {
                self.granted(serial, map, cx);
            }
            Message::Sub { query, part, slice, question, again } => {
                let holds = self.holds(slice) || self.config.bugs.unchecked;
                if !(self.may_answer(cx.now()) && holds) {
                    return self.refuse(from, query, part, cx);
                }
                if let Some(most) = self.config.bounce
                    && (!again || self.config.bugs.bounces_again)
                    && self.backlog() > most
                {
                    let outcome = Outcome::Overloaded { backlog: self.backlog() };
                    let message = Message::Answer { query, part, outcome };
                    return cx.emit(Effect::Send { to: from, via: Via::Channel, message });
                }
                self.scans += 1;
                let task = Task::Scan { from, query, part, slice };
                self.work(task, Job::Scan(slice, question), cx);
            }
            Message::Put { write, doc } => self.put(from, write, doc, cx),
            Message::Fetch { ask, slice, written_only } => {
                self.want(from, Wanted { ask, rest: slice, written_only }, cx);
            }
            Message::Chunk { ask, slice, docs, .. } => self.chunk(ask, slice, &docs, cx),
            Message::Grant { .. }
            | Message::Answer { .. }
            | Message::Logged { .. }
            | Message::Beat { .. } => {}
        }
    }

    fn refuse(&self, to: Node, query: u64, part: u32, cx: &mut Context<'_, C>) {
        let epoch = self.map.as_ref().map_or(0, |map| map.epoch);
        let message = Message::Answer { query, part, outcome: Outcome::Refused { epoch } };
        cx.emit(Effect::Send { to, via: Via::Channel, message });
    }

    fn granted(&mut self, serial: u64, map: Option<Arc<Map>>, cx: &mut Context<'_, C>) {
        let asked = self.asked.iter().find(|(number, _)| *number == serial).map(|(_, at)| *at);
        if self.blank && asked.is_none() {
            // It may be meant for the log that was here before.
            return;
        }
        let newer = |map: &Arc<Map>| self.map.as_ref().is_none_or(|own| own.epoch < map.epoch);
        let changed = map.filter(newer);
        let is_new = changed.is_some();
        if let Some(map) = changed {
            self.rings = Some(self.config.rings(&map));
            self.map = Some(map);
            self.begin(cx);
            self.follow(cx);
        }
        if let Some(asked) = asked {
            self.lease_until = self.lease_until.max(asked + self.config.server_lease);
        }
        if is_new {
            // The directory waits for servers to say that they hold what this map wants.
            self.beat(cx);
        }
    }

    /// Learns what it holds, if its log did not say: the directory knows it by this log.
    fn begin(&mut self, cx: &mut Context<'_, C>) {
        if !core::mem::take(&mut self.blank) {
            return;
        }
        if self.map.as_ref().is_some_and(|map| map.is_up(self.me)) {
            self.log.store(Record::Held(self.held), cx);
        } else {
            // It was counted on and was away, perhaps with another log. It is filled.
            self.empty = true;
            self.log.store(Record::Left, cx);
            cx.emit(Effect::Note(Note::Left));
        }
    }

    /// Does what a new map wants.
    fn follow(&mut self, cx: &mut Context<'_, C>) {
        let target = self.target();
        if target.is_none() && !self.empty {
            self.empty = true;
            self.docs.clear();
            self.dropped = Some(self.log.store(Record::Left, cx));
            self.after.retain(|(_, after)| !matches!(after, After::Hold(..)));
            cx.emit(Effect::Note(Note::Left));
        }
        if let Some(target) = target.filter(|_| !self.empty) {
            self.keep(target, cx);
        }
        if self.empty {
            // There is nothing to catch up with.
            self.caught_up = self.behind_since().unwrap_or(self.caught_up);
        }
        self.forget(target, cx);
        if self.behind_since().is_none() {
            self.catching = None;
        }
        self.fetches.clear();
        self.copy(cx);
    }

    /// Drops what is not wanted: its arcs are longer than anybody needs, or its range has moved.
    /// What is dropped here is dropped from the index at the next merge; nobody asks for it from
    /// now on.
    fn keep(&mut self, target: Slice, cx: &mut Context<'_, C>) {
        let left = self.held.within(target);
        if left == Some(self.held) {
            return;
        }
        let note = match left {
            Some(slice) => Note::Holds { slice, copied: 0 },
            None => Note::Left,
        };
        (self.held, self.empty) = (left.unwrap_or(self.held), left.is_none());
        self.docs.retain(|id, _| target.contains(*id));
        let record = match left {
            Some(slice) if slice == target => Record::Held(target),
            held => Record::Kept { held, wanted: target },
        };
        self.dropped = Some(self.log.store(record, cx));
        // What was to be held when the disk has stored it is not held any more.
        self.after.retain(|(_, after)| !matches!(after, After::Hold(..)));
        cx.emit(Effect::Note(note));
    }

    fn put(&mut self, from: Node, write: u64, doc: Doc<C::Body>, cx: &mut Context<'_, C>) {
        if self.blank {
            // Nobody counts on this log yet: with the next one the write would be gone.
            return;
        }
        let old = self.docs.get(&doc.id).map_or(0, |old| old.version);
        let version = doc.version;
        if old > version {
            let message = Message::Logged { write, version, newer: Some(old) };
            cx.emit(Effect::Send { to: from, via: Via::Channel, message });
            return;
        }
        self.docs.insert(doc.id, doc.clone());
        let entry = self.log.store(Record::Doc(doc), cx);
        let message = Message::Logged { write, version, newer: None };
        self.after.push_back((entry, After::Send(from, message)));
    }

    pub(super) fn replay(&mut self, entry: Entry, record: Record<C>) {
        self.log.replayed(entry);
        self.stored = entry;
        self.blank &= matches!(record, Record::Life(_));
        match record {
            Record::Life(life) => self.life = life,
            Record::Doc(doc) => {
                self.docs.insert(doc.id, doc);
            }
            Record::Held(slice) => {
                // Less than before: what is outside was dropped. More: what was written beside a
                // copy under way stays.
                if self.holds(slice) {
                    self.docs.retain(|id, _| slice.contains(*id));
                }
                (self.held, self.empty) = (slice, false);
            }
            Record::Kept { held, wanted } => {
                self.docs.retain(|id, _| wanted.contains(*id));
                (self.held, self.empty) = (held.unwrap_or(self.held), held.is_none());
            }
            Record::Left => {
                self.docs.clear();
                self.empty = true;
            }
            Record::Map(_) | Record::Target(_) | Record::Known(..) => {}
        }
    }

    pub(super) fn stored(&mut self, upto: Entry, cx: &mut Context<'_, C>) {
        self.stored = self.stored.max(upto);
        let dropped = self.dropped.take_if(|entry| *entry <= upto).is_some();
        let born = self.born.take_if(|entry| *entry <= upto).is_some();
        if dropped || born {
            self.beat(cx);
        }
        self.let_go(cx);
    }

    /// What waited for the disk, as far as it has stored.
    fn let_go(&mut self, cx: &mut Context<'_, C>) {
        for _ in 0..BATCH {
            if self.after.front().is_none_or(|(entry, _)| *entry > self.stored) {
                return;
            }
            match self.after.pop_front() {
                Some((_, After::Send(to, message))) => {
                    cx.emit(Effect::Send { to, via: Via::Channel, message });
                }
                Some((_, After::Hold(slice, copied))) => {
                    (self.held, self.empty) = (slice, false);
                    cx.emit(Effect::Note(Note::Holds { slice, copied }));
                    if self.complete() {
                        self.beat(cx);
                    }
                    self.copy(cx);
                }
                None => return,
            }
        }
        cx.arm(Timer::More, cx.now());
    }

    fn work(&mut self, task: Task, job: Job<C>, cx: &mut Context<'_, C>) {
        self.works += 1;
        self.tasks.insert(self.works, task);
        cx.emit(Effect::Work { work: Work(self.works), job });
    }

    pub(super) fn done(&mut self, work: Work, took: Span, _: bool, cx: &mut Context<'_, C>) {
        match self.tasks.remove(&work.0) {
            Some(Task::Scan { from, query, part, slice }) => {
                self.scans -= 1;
                self.estimator.learn(slice.width(), took);
                // It may have dropped something, or lost its lease, while the query waited.
                let holds = self.holds(slice) || self.config.bugs.unchecked;
                if !(self.may_answer(cx.now()) && holds) {
                    self.refuse(from, query, part, cx);
                    return self.idle(cx);
                }
                let slice = match self.config.bugs.closed_slices && slice.width() < WHOLE {
                    true => Slice::new(slice.lo.wrapping_sub(1), slice.hi),
                    false => slice,
                };
                let found = C::finding(work, self.written(slice).filter(|doc| !doc.deleted));
                let backlog = self.backlog();
                let outcome = Outcome::Done { took, backlog, found };
                let message = Message::Answer { query, part, outcome };
                cx.emit(Effect::Send { to: from, via: Via::Channel, message });
                self.idle(cx);
            }
            Some(Task::Read(ready)) => {
                self.reading = false;
                self.read_after = self.next(self.read_after, took, cx.now());
                self.ready.push_back(ready);
                self.send(cx);
                self.read(cx);
            }
            Some(Task::Merge { ask, slice }) => {
                self.merging = false;
                self.copy_after = self.next(self.copy_after, took, cx.now());
                self.merged(ask, slice, cx);
            }
            None => {}
        }
    }

    /// From now until a processor is free for something new, by the costs that it was given or by
    /// what it has seen: processors take queries in turn. How much of those under way is done is
    /// not known; a single processor is asked when it has done one and not begun the next.
    fn backlog(&self) -> Span {
        let cost = match self.config.backlog_is_learned {
            true => self.estimator.cost(),
            false => self.config.costs[self.me as usize],
        };
        let mut busy = alloc::vec![0u64; usize::from(self.config.cores)];
        for task in self.tasks.values() {
            if let (Task::Scan { slice, .. }, Some(first)) = (task, busy.iter_mut().min()) {
                *first += cost.of(slice.width());
            }
        }
        Span::from_ns(busy.into_iter().min().unwrap_or(0))
    }

    /// Written documents of a slice, in the order of the ring.
    fn written(&self, slice: Slice) -> impl DoubleEndedIterator<Item = Doc<C::Body>> + '_ {
        let first = slice.lo.wrapping_add(1);
        let wraps = first > slice.hi || slice.width() == WHOLE;
        let one = self.docs.range(first..=if wraps { Id::MAX } else { slice.hi });
        let other = wraps.then(|| self.docs.range(..first)).into_iter().flatten();
        let inside = move |doc: &&Doc<C::Body>| slice.contains(doc.id);
        one.chain(other).map(|(_, doc)| doc).filter(inside).cloned()
    }

    pub(super) fn expire(&mut self, timer: Timer, cx: &mut Context<'_, C>) {
        match timer {
            Timer::Tick => self.beat(cx),
            Timer::More => self.let_go(cx),
            Timer::Read => self.read(cx),
            Timer::Send => self.send(cx),
            Timer::Copy => self.copy(cx),
            Timer::Query(_) | Timer::Deadline => {}
        }
    }

    pub(super) fn check(&self) {
        let reads = self.tasks.values().filter(|task| matches!(task, Task::Read(_))).count();
        assert_eq!(reads, usize::from(self.reading), "one slice is read at a time");
        let merges = self.tasks.values().filter(|task| matches!(task, Task::Merge { .. })).count();
        assert_eq!(merges, usize::from(self.merging), "one slice is taken in at a time");
    }
}
