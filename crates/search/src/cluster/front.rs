//! A front end: plans queries by what it believes, sends what is late to others, writes documents.

mod query;

use self::query::{Piece, Query, Stage};
use super::content::Content;
use super::held::{Held, Waiting};
use super::map::{Config, Layout, Map, Rings, State};
use super::message::{Doc, Message, Outcome, Request, Response};
use super::{Context, Timer};
use crate::cost::{Cost, Estimator, Load};
use crate::plan::{Part, reissue_among};
use crate::ring::{Arc as Length, Id, Slice};
use crate::scheme::Planner;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Via};
use cavy_core::{Instant, Span};
use core::ops::Range;

/// Late parts that one step sends to others.
const BATCH: usize = 4;
/// How often a slice is sent to others before it is given up.
const DEPTH: u32 = 6;
/// Writes are sent again so often.
const AGAIN: Span = Span::from_ms(300);
/// Calls that wait for a lease at most; what is beyond is answered with nothing met.
const HELD: usize = 4_096;

#[derive(Debug)]
struct Write<C: Content> {
    call: Call,
    doc: Doc<C::Body>,
    /// Servers that have logged this version.
    logged: BTreeSet<u32>,
}

/// A front end.
#[derive(Debug)]
pub struct FrontEnd<C: Content> {
    config: Config,
    me: Node,
    map: Option<Arc<Map>>,
    rings: Option<Rings>,
    planner: Option<Planner>,
    lease_until: Instant,
    beats: u64,
    asked: VecDeque<(u64, Instant)>,
    estimators: Vec<Estimator>,
    /// When it believes each processor of each server to be free, those of a server in a row.
    free_at: Vec<Instant>,
    /// Servers that were late, or refused, are not asked before; an answer ends that.
    suspects: Vec<Instant>,
    queries: BTreeMap<u64, Query<C>>,
    writes: BTreeMap<u64, Write<C>>,
    serial: u64,
    version: u64,
    waiting: Held<Request<C>>,
    loads: Vec<Load>,
    parts: Vec<Part>,
    lost: Vec<Slice>,
    /// Parts that were sent, and those of them that were sent again before they were late.
    sent: u64,
    hedged: u64,
}

impl<C: Content> FrontEnd<C> {
    pub(super) fn new(config: Config, me: Node) -> FrontEnd<C> {
        let servers = config.layout.servers as usize;
        FrontEnd {
            me,
            map: None,
            rings: None,
            planner: None,
            lease_until: Instant::ZERO,
            beats: 0,
            asked: VecDeque::new(),
            estimators: config.costs.iter().map(|cost| Estimator::new(*cost)).collect(),
            free_at: alloc::vec![Instant::ZERO; servers * usize::from(config.cores)],
            suspects: alloc::vec![Instant::ZERO; servers],
            queries: BTreeMap::new(),
            writes: BTreeMap::new(),
            serial: 0,
            version: 0,
            waiting: Held::new(),
            loads: Vec::new(),
            parts: Vec::new(),
            lost: Vec::new(),
            sent: 0,
            hedged: 0,
            config,
        }
    }

    /// A plan has a part a server at most, and each late one may become as many.
    pub(super) fn effects_max(&self) -> usize {
        (BATCH + 8) * (self.config.layout.servers as usize + 4)
            + self.config.layout.servers as usize * self.config.roar.parts as usize
    }

    pub(super) fn start(&mut self, cx: &mut Context<'_, C>) {
        // Numbers of another life are not met again: answers to them may still be on their way.
        self.serial = cx.rng().bits() >> 1;
        self.beats = cx.rng().bits() >> 1;
        self.beat(cx);
    }

    fn beat(&mut self, cx: &mut Context<'_, C>) {
        self.beats += 1;
        let serial = self.beats;
        self.asked.push_back((serial, cx.now()));
        if self.asked.len() > 32 {
            self.asked.pop_front();
        }
        let epoch = self.map.as_ref().map_or(0, |map| map.epoch);
        let (complete, stays, life, takes) = (true, true, 0, None);
        let message = Message::Beat { serial, epoch, complete, stays, life, takes };
        cx.emit(Effect::Send { to: Layout::DIRECTORY, via: Via::Channel, message });
        cx.arm(Timer::Tick, cx.now() + self.config.beat);
    }

    pub(super) fn call(&mut self, call: Call, request: &Request<C>, cx: &mut Context<'_, C>) {
        let until = request.until(cx.now());
        match request {
            Request::Spread { .. } | Request::Stay(_) => {
                let response = Response::Spread { accepted: false };
                cx.emit(Effect::Reply { call, response });
            }
            _ if cx.now() < self.lease_until => self.begin(call, request, until, cx),
            _ if self.waiting.len() < HELD => {
                self.waiting.push(Waiting { call, request: request.clone(), until });
                if let Some(at) = self.waiting.wakes() {
                    cx.arm(Timer::Deadline, at);
                }
            }
            _ => cx.emit(Effect::Reply { call, response: Response::nothing(false) }),
        }
    }

    /// Calls that have waited for a lease until their deadline.
    fn over(&mut self, cx: &mut Context<'_, C>) {
        for waiting in self.waiting.over(cx.now()) {
            cx.emit(Effect::Reply { call: waiting.call, response: Response::nothing(true) });
        }
        if let Some(at) = self.waiting.wakes() {
            cx.arm(Timer::Deadline, at);
        }
    }

    fn begin(
        &mut self,
        call: Call,
        request: &Request<C>,
        until: Option<Instant>,
        cx: &mut Context<'_, C>,
    ) {
        if until.is_some_and(|until| until <= cx.now()) {
            let response = Response::nothing(true);
            return cx.emit(Effect::Reply { call, response });
        }
        let query = |question| Query { call: Some(call), until, question, pieces: Vec::new() };
        match request.clone() {
            Request::Search { question, .. } => self.search(query(question), cx),
            Request::Look { slice, question } => {
                let Some(map) = self.map.clone() else { return };
                let (mut parts, mut lost) = (Vec::new(), Vec::new());
                let ring = self.any_ring();
                self.cover(&map, slice, ring, (&[], cx.now()), &mut parts, &mut lost);
                self.ask(query(question), &parts, &lost, cx);
            }
            Request::Everywhere(question) => self.by_range(query(question), true, cx),
            Request::Ranges(question) => {
                self.by_range(query(question), self.config.bugs.ranges_of_all, cx);
            }
            Request::Write { id, deleted, body } => {
                self.serial += 1;
                let doc = Doc { id, version: self.later(cx.now(), 0), deleted, body };
                self.writes.insert(self.serial, Write { call, doc, logged: BTreeSet::new() });
                self.put(self.serial, cx);
            }
            Request::Spread { .. } | Request::Stay(_) => {}
        }
    }

    /// One ring after the other, where it does not matter which.
    fn any_ring(&self) -> usize {
        (self.serial % self.config.ranges.len() as u64) as usize
    }

    /// Asks servers about their own ranges, on all rings or on one.
    fn by_range(&mut self, query: Query<C>, on_all: bool, cx: &mut Context<'_, C>) {
        let (Some(map), Some(rings)) = (self.map.clone(), &self.rings) else { return };
        let (mut parts, mut lost) = (Vec::new(), Vec::new());
        let only = self.any_ring();
        let chosen = rings.now.iter().enumerate().filter(|(number, _)| on_all || *number == only);
        for (number, ring) in chosen {
            for at in 0..ring.count() {
                let before = |id: Id| id.wrapping_sub(1);
                let slice = Slice::new(before(ring.start(at)), before(ring.end(at)));
                let server = ring.server(at);
                if map.is_up(server) {
                    parts.push(Part { server, slice });
                } else {
                    self.cover(&map, slice, number, (&[], cx.now()), &mut parts, &mut lost);
                }
            }
        }
        self.ask(query, &parts, &lost, cx);
    }

    /// A version after all that this front end has given or heard of.
    fn later(&mut self, now: Instant, than: u64) -> u64 {
        let own = u64::from(self.me.0) & 0xFF;
        let least = self.version.max(than).max((now.as_ns() >> 16) << 8);
        self.version = (((least >> 8) + 1) << 8) | own;
        self.version
    }

    /// The places of a server's processors.
    fn processors(&self, server: u32) -> Range<usize> {
        let cores = usize::from(self.config.cores);
        let from = server as usize * cores;
        from..from + cores
    }

    /// The processor of a server that is free before its others.
    fn first(&self, server: u32) -> usize {
        let own = self.processors(server);
        let from = own.start;
        own.min_by_key(|at| self.free_at[*at]).unwrap_or(from)
    }

    fn cost(&self, server: u32) -> Cost {
        match self.config.costs_are_known {
            true => self.config.costs[server as usize],
            false => self.estimators[server as usize].cost(),
        }
    }

    fn search(&mut self, query: Query<C>, cx: &mut Context<'_, C>) {
        let (Some(map), now) = (self.map.clone(), cx.now()) else { return };
        let mut loads = core::mem::take(&mut self.loads);
        loads.clear();
        loads.extend((0..self.config.layout.servers).map(|server| {
            let free_at = self.free_at[self.first(server)].max(now);
            Load { free_ns: free_at.since(now).as_ns(), cost: self.cost(server) }
        }));
        self.loads = loads;
        let usable: Vec<bool> = self.usable(&map, now);
        let Some(planner) = &mut self.planner else { return };
        let (mut parts, mut lost) =
            (core::mem::take(&mut self.parts), core::mem::take(&mut self.lost));
        planner.plan(&self.loads, &usable, cx.rng(), &mut parts, &mut lost);
        if !lost.is_empty() {
            // Those that are only suspected may answer all the same.
            let up: Vec<bool> = (0..map.states.len() as u32).map(|s| map.is_up(s)).collect();
            planner.plan(&self.loads, &up, cx.rng(), &mut parts, &mut lost);
        }
        self.ask(query, &parts, &lost, cx);
        (self.parts, self.lost) = (parts, lost);
    }

    /// Sends a query's parts.
    fn ask(
        &mut self,
        mut query: Query<C>,
        parts: &[Part],
        lost: &[Slice],
        cx: &mut Context<'_, C>,
    ) {
        self.serial += 1;
        let serial = self.serial;
        query.pieces.reserve_exact(parts.len() + lost.len());
        for part in parts {
            self.send(serial, &mut query, *part, None, 0, cx);
        }
        let lost = lost.iter().map(|slice| Piece::lost(0, *slice, None, 0, cx.now()));
        query.pieces.extend(lost);
        self.queries.insert(serial, query);
        self.watch(serial, cx);
        self.finish(serial, cx);
    }

    /// Servers that are in step and have not been late.
    fn usable(&self, map: &Map, now: Instant) -> Vec<bool> {
        let one = |server: usize| map.is_up(server as u32) && self.suspects[server] <= now;
        (0..map.states.len()).map(one).collect()
    }

    /// Sends a part, and notes when it will be late `[roar 2.11]`.
    fn send(
        &mut self,
        serial: u64,
        query: &mut Query<C>,
        part: Part,
        parent: Option<u32>,
        depth: u32,
        cx: &mut Context<'_, C>,
    ) {
        let server = part.server as usize;
        let takes = Span::from_ns(self.cost(part.server).of(part.slice.width()));
        let first = self.first(part.server);
        let done = self.free_at[first].max(cx.now()) + takes;
        self.free_at[first] = done;
        let off = self.estimators[server].deviation().saturating_mul(4);
        let late = done + off.max(self.config.margin);
        let number = query.pieces.len() as u32;
        self.sent += 1;
        let again = self.config.hedge.filter(|_| depth == 0).map(|hedge| done + hedge.after);
        let stage = match again.filter(|again| *again < late) {
            Some(again) => Stage::Hedges(again, late),
            None => Stage::Waits(late),
        };
        let Part { server, slice } = part;
        query.pieces.push(Piece {
            server,
            slice,
            parent,
            depth,
            stage,
            found: None,
            sent: cx.now(),
            expected: done,
            came: None,
        });
        let question = query.question.clone();
        let again = depth > 0;
        let message = Message::Sub { query: serial, part: number, slice, question, again };
        let to = self.config.layout.server(server);
        cx.emit(Effect::Send { to, via: Via::Channel, message });
    }

    /// Wakes up when the next part of a query is late, or its deadline passes.
    fn watch(&self, serial: u64, cx: &mut Context<'_, C>) {
        let Some(query) = self.queries.get(&serial) else { return };
        match query.wakes() {
            Some(at) => cx.arm(Timer::Query(serial), at),
            None => cx.disarm(Timer::Query(serial)),
        }
    }

    /// Gives a piece to others.
    fn replace(&mut self, serial: u64, query: &mut Query<C>, number: u32, cx: &mut Context<'_, C>) {
        let Some(map) = self.map.clone() else { return };
        let piece = &mut query.pieces[number as usize];
        let (slice, server, depth) = (piece.slice, piece.server, piece.depth);
        if depth >= DEPTH || query.call.is_none() {
            piece.stage = Stage::Lost;
            return;
        }
        piece.stage = Stage::Replaced;
        let (mut parts, mut nobody) = (Vec::new(), Vec::new());
        let mut tried = alloc::vec![server];
        let mut above = query.pieces[number as usize].parent;
        while let Some(piece) = above.map(|above| &query.pieces[above as usize]) {
            tried.push(piece.server);
            above = piece.parent;
        }
        let ring = self.rings.as_ref().and_then(|rings| rings.of(server)).unwrap_or(0);
        self.cover(&map, slice, ring, (&tried, cx.now()), &mut parts, &mut nobody);
        if self.config.bugs.one_neighbour {
            parts.truncate(1);
            nobody.clear();
        }
        for part in parts {
            self.send(serial, query, part, Some(number), depth + 1, cx);
        }
        let lost = |slice| Piece::lost(server, slice, Some(number), depth, cx.now());
        query.pieces.extend(nobody.into_iter().map(lost));
    }

    /// Who answers for `slice`, on the ring `first` rather than on others, when those that were
    /// `tried` are not asked; and what nobody has.
    fn cover(
        &self,
        map: &Map,
        slice: Slice,
        first: usize,
        (tried, now): (&[u32], Instant),
        parts: &mut Vec<Part>,
        nobody: &mut Vec<Slice>,
    ) {
        let Some(rings) = self.rings.as_ref().map(|rings| &rings.now[..]) else {
            return nobody.push(slice);
        };
        let (rings, first) = match self.config.bugs.one_ring_asked {
            true => (&rings[first..=first], 0),
            false => (rings, first),
        };
        let arc = Length::of(map.p);
        let mut lost = Vec::new();
        let up = |server: u32| map.is_up(server);
        let new = |server: u32| !tried.contains(&server) && up(server);
        let good = |server: u32| new(server) && self.suspects[server as usize] <= now;
        reissue_among(rings, first, arc, slice, &good, parts, &mut lost);
        // What only those have that are suspected is asked of them; what only those have that were
        // tried, of them again.
        let mut left = Vec::new();
        for rest in lost {
            reissue_among(rings, first, arc, rest, &new, parts, &mut left);
        }
        for rest in left {
            reissue_among(rings, first, arc, rest, &up, parts, nobody);
        }
    }

    pub(super) fn heard(&mut self, from: Node, message: Message<C>, cx: &mut Context<'_, C>) {
        match message {
            Message::Grant { serial, map } if from == Layout::DIRECTORY => {
                self.granted(serial, map, cx);
            }
            Message::Answer { query, part, outcome } => {
                let Some(server) = self.config.layout.number(from) else { return };
                self.answered(server, query, part, outcome, cx);
            }
            Message::Logged { write, version, newer } => {
                let Some(server) = self.config.layout.number(from) else { return };
                self.logged(server, write, version, newer, cx);
            }
            _ => {}
        }
    }

    fn granted(&mut self, serial: u64, map: Option<Arc<Map>>, cx: &mut Context<'_, C>) {
        let newer = |map: &Arc<Map>| self.map.as_ref().is_none_or(|own| own.epoch < map.epoch);
        let changed = map.filter(newer);
        let is_new = changed.is_some();
        if let Some(map) = changed {
            let rings = self.config.rings(&map);
            let same = self.map.as_ref().is_some_and(|own| own.p == map.p)
                && self.rings.as_ref().is_some_and(|own| own.now == rings.now);
            if !same {
                let (roar, servers) = (self.config.roar, self.config.layout.servers);
                self.planner = Some(Planner::on_rings(roar, rings.now.clone(), servers, map.p));
            }
            self.rings = Some(rings);
            // Who stored less in between, or in a map that this front end has not seen, has dropped
            // what it had logged.
            let next = |own: &Arc<Map>| {
                let same = own.moving == map.moving && own.starts == map.starts;
                own.stored == map.stored && same && own.epoch + 1 == map.epoch
            };
            if !self.map.as_ref().is_some_and(next) {
                self.writes.values_mut().for_each(|write| write.logged.clear());
            }
            self.map = Some(map);
        }
        let asked = self.asked.iter().find(|(number, _)| *number == serial);
        if let Some(&(_, asked)) = asked {
            self.lease_until = self.lease_until.max(asked + self.config.front_end_lease);
        }
        if is_new {
            // Writes under way go by the new map from now on; only then may the directory hear
            // that this front end does.
            cx.arm(Timer::More, cx.now());
            self.beat(cx);
        }
        if cx.now() < self.lease_until && !self.waiting.is_empty() {
            cx.arm(Timer::More, cx.now());
        }
    }

    fn answered(
        &mut self,
        server: u32,
        serial: u64,
        number: u32,
        outcome: Outcome<C>,
        cx: &mut Context<'_, C>,
    ) {
        // One that refuses may get a lease soon, and may answer then; until then it would refuse
        // again, and a slice is not given away so often.
        self.suspects[server as usize] = match outcome {
            Outcome::Done { .. } | Outcome::Overloaded { .. } => Instant::ZERO,
            Outcome::Refused { .. } => cx.now() + self.config.beat,
        };
        let Some(mut query) = self.queries.remove(&serial) else { return };
        let Some(piece) = query.pieces.get_mut(number as usize) else {
            self.queries.insert(serial, query);
            return;
        };
        match outcome {
            Outcome::Done { took, backlog, found } => {
                self.estimators[server as usize].learn(piece.slice.width(), took);
                piece.stage = Stage::Done;
                piece.found = Some(found);
                piece.came = Some(cx.now());
                self.is_free(server, cx.now() + backlog);
            }
            Outcome::Overloaded { backlog } => {
                self.is_free(server, cx.now() + backlog);
                if piece.waits() {
                    self.bounced(serial, &mut query, number, cx);
                }
            }
            Outcome::Refused { .. } => {
                if piece.waits() {
                    self.replace(serial, &mut query, number, cx);
                }
            }
        }
        self.queries.insert(serial, query);
        self.watch(serial, cx);
        self.finish(serial, cx);
    }

    /// No processor of a server is free before that; later ones are where they were.
    fn is_free(&mut self, server: u32, at: Instant) {
        let first = self.first(server);
        self.free_at[first] = at;
        let own = self.processors(server);
        self.free_at[own].iter_mut().for_each(|other| *other = at.max(*other));
    }

    /// A busy server refused a piece: others are asked if they are done before it, and otherwise it
    /// is asked again, and takes it.
    fn bounced(&mut self, serial: u64, query: &mut Query<C>, number: u32, cx: &mut Context<'_, C>) {
        let Piece { server, slice, .. } = query.pieces[number as usize];
        let Some(map) = self.map.clone() else { return };
        let done = |part: &Part| {
            let takes = Span::from_ns(self.cost(part.server).of(part.slice.width()));
            self.free_at[self.first(part.server)].max(cx.now()) + takes
        };
        let own = Part { server, slice };
        let (mut best, mut parts) = (done(&own), alloc::vec![own]);
        for ring in 0..self.config.ranges.len() {
            let (mut others, mut nobody) = (Vec::new(), Vec::new());
            self.cover(&map, slice, ring, (&[server], cx.now()), &mut others, &mut nobody);
            if let Some(last) = others.iter().map(done).max()
                && last < best
                && nobody.is_empty()
            {
                (best, parts) = (last, others);
            }
        }
        let piece = &mut query.pieces[number as usize];
        piece.stage = Stage::Replaced;
        let depth = piece.depth + 1;
        for part in parts {
            self.send(serial, query, part, Some(number), depth, cx);
        }
    }

    /// Answers a query of which everything has come or will not come, or whose deadline passes.
    fn finish(&mut self, serial: u64, cx: &mut Context<'_, C>) {
        let (now, bugs) = (cx.now(), self.config.bugs);
        let Some(query) = self.queries.get_mut(&serial) else { return };
        let is_over = query.is_over(now);
        if let Some(call) = query.call {
            if query.is_open() && !is_over {
                return;
            }
            cx.emit(Effect::Reply { call, response: query.answer(bugs) });
            query.close();
        }
        // Late parts still teach what servers take, and who stands still.
        if is_over && query.pieces.iter().any(Piece::waits) {
            return self.watch(serial, cx);
        }
        self.queries.remove(&serial);
        cx.disarm(Timer::Query(serial));
    }

    /// Servers whose log a write still needs; `None`: nobody in step stores the document.
    fn missing(&self, write: &Write<C>) -> Option<Vec<u32>> {
        let map = self.map.as_ref()?;
        let p = match self.config.bugs.new_arcs_later {
            true => map.p,
            false => map.stored,
        };
        let away = |server: &u32| matches!(map.states[*server as usize], State::Down | State::Out);
        let rings = self.rings.as_ref()?;
        let mut own = rings.holders(write.doc.id, p);
        own.retain(|server| !away(server));
        if self.config.bugs.one_ring_written {
            own.retain(|server| rings.of(*server) == Some(0));
        }
        if !own.iter().any(|server| map.is_up(*server)) {
            return None;
        }
        let total = own.len();
        let left: Vec<u32> =
            own.into_iter().filter(|server| !write.logged.contains(server)).collect();
        if self.config.bugs.majority && 2 * left.len() < total {
            return Some(Vec::new());
        }
        Some(left)
    }

    /// Sends a write to all that lack it, or answers it.
    fn put(&mut self, serial: u64, cx: &mut Context<'_, C>) {
        let Some(write) = self.writes.get(&serial) else { return };
        // Without a lease the map may be an old one, in which somebody is missing.
        let by_map = cx.now() < self.lease_until;
        match self.missing(write) {
            Some(left) if left.is_empty() && by_map => {
                let response = Response::Written { doc: write.doc.clone() };
                cx.emit(Effect::Reply { call: write.call, response });
                self.writes.remove(&serial);
                return;
            }
            Some(left) => {
                for server in left {
                    let message = Message::Put { write: serial, doc: write.doc.clone() };
                    let to = self.config.layout.server(server);
                    cx.emit(Effect::Send { to, via: Via::Channel, message });
                }
            }
            None => {}
        }
        cx.arm(Timer::Query(serial), cx.now() + AGAIN);
    }

    fn logged(
        &mut self,
        server: u32,
        serial: u64,
        version: u64,
        newer: Option<u64>,
        cx: &mut Context<'_, C>,
    ) {
        let now = cx.now();
        let Some(write) = self.writes.get(&serial) else { return };
        if write.doc.version != version {
            return;
        }
        if let Some(newer) = newer {
            // Somebody wrote later by their clock. This write is not done, so it comes after.
            let version = self.later(now, newer);
            if let Some(write) = self.writes.get_mut(&serial) {
                write.doc.version = version;
                write.logged.clear();
            }
            return self.put(serial, cx);
        }
        if let Some(write) = self.writes.get_mut(&serial) {
            write.logged.insert(server);
        }
        let Some(write) = self.writes.get(&serial) else { return };
        if now < self.lease_until && self.missing(write).is_some_and(|left| left.is_empty()) {
            let response = Response::Written { doc: write.doc.clone() };
            cx.emit(Effect::Reply { call: write.call, response });
            cx.disarm(Timer::Query(serial));
            self.writes.remove(&serial);
        }
    }

    pub(super) fn expire(&mut self, timer: Timer, cx: &mut Context<'_, C>) {
        match timer {
            Timer::Tick => self.beat(cx),
            Timer::Query(serial) if self.writes.contains_key(&serial) => self.put(serial, cx),
            Timer::Query(serial) => self.late(serial, cx),
            Timer::More => self.go_on(cx),
            Timer::Deadline => self.over(cx),
            Timer::Copy | Timer::Read | Timer::Send => {}
        }
    }

    /// Parts are late: others are asked, and the late server is not believed for a while.
    fn late(&mut self, serial: u64, cx: &mut Context<'_, C>) {
        let now = cx.now();
        if self.queries.get(&serial).is_some_and(|query| query.is_over(now)) {
            self.finish(serial, cx);
        }
        let Some(mut query) = self.queries.remove(&serial) else { return };
        let stage = |query: &Query<C>, number: u32| query.pieces[number as usize].stage;
        let is_late = |number: &u32| match stage(&query, *number) {
            Stage::Waits(at) | Stage::Hedges(at, _) => at <= now,
            _ => false,
        };
        let late: Vec<u32> = (0..query.pieces.len() as u32).filter(is_late).take(BATCH).collect();
        for number in late {
            if let Stage::Hedges(_, late) = stage(&query, number) {
                let percent = self.config.hedge.map_or(0, |hedge| u64::from(hedge.percent));
                if self.hedged * 100 >= self.sent * percent {
                    query.pieces[number as usize].stage = Stage::Waits(late);
                    continue;
                }
                // Who stands still is not asked for everything else meanwhile.
                let server = query.pieces[number as usize].server as usize;
                self.suspects[server] = self.suspects[server].max(now + self.config.beat);
                let before = self.sent;
                self.replace(serial, &mut query, number, cx);
                self.hedged += self.sent - before;
                continue;
            }
            // It is tried again after a while: what it was asked for may have been lost with it.
            let until = now + self.config.server_lease;
            self.suspects[query.pieces[number as usize].server as usize] = until;
            self.replace(serial, &mut query, number, cx);
        }
        self.queries.insert(serial, query);
        self.watch(serial, cx);
        self.finish(serial, cx);
    }

    /// What waited for a lease, one at a time; and writes that go by a new map.
    fn go_on(&mut self, cx: &mut Context<'_, C>) {
        let now = cx.now();
        let done = |write: &Write<C>| self.missing(write).is_some_and(|left| left.is_empty());
        let next = self.writes.iter().find(|(_, write)| done(write)).map(|(serial, _)| *serial);
        if let Some(serial) = next.filter(|_| now < self.lease_until) {
            self.put(serial, cx);
            cx.disarm(Timer::Query(serial));
            cx.arm(Timer::More, now);
            return;
        }
        if now < self.lease_until
            && let Some(Waiting { call, request, until }) = self.waiting.pop()
        {
            self.begin(call, &request, until, cx);
            if !self.waiting.is_empty() {
                cx.arm(Timer::More, now);
            }
        }
    }

    /// The map that it goes by.
    pub fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    /// Ids of queries and writes under way, for tests.
    pub fn under_way(&self) -> (usize, usize) {
        (self.queries.len(), self.writes.len())
    }

    /// Servers that store `id` by its map.
    pub fn stores(&self, id: Id) -> Vec<u32> {
        let (Some(map), Some(rings)) = (&self.map, &self.rings) else { return Vec::new() };
        rings.holders(id, map.stored)
    }
}
