//! The directory: one map after the other `[roar 2.8, 2.9]`.
//!
//! A map is stored before it is published, and nothing is granted between. A front end that was not
//! heard of for a lease goes by no map, and a server by none that lets it answer.
//!
//! A server is known by the name of its log. One that comes with another log holds nothing that was
//! counted on: it gets no lease until it is out of step, and is then filled like one that joins.
//! The first log that a server comes with is of a new cluster.

use super::content::Content;
use super::map::{Config, Layout, Map, Move, Moving, Rings, State};
use super::message::{Message, Note, Record, Request, Response};
use super::{Context, Log, Timer};
use crate::balance;
use crate::loss::unheld;
use crate::ring::{Arc as Length, Ring};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Via};
use cavy_core::{Instant, Span};

/// What the directory knows of one of the others.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// When it was last given a lease.
    granted: Instant,
    /// The map that it goes by.
    epoch: u64,
    /// It holds what that map wants.
    complete: bool,
    /// It wants to be on the ring.
    stays: bool,
    /// It has come with another log than the one that it is known by.
    lost: bool,
    /// What a part of a query takes it; of servers, where borders move by load.
    takes: Option<Span>,
}

/// The log that a server is known by.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// Its name; zero when it never came.
    name: u64,
    /// The directory's own log says so from this entry on.
    entry: Entry,
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug)]
struct Beat {
    serial: u64,
    epoch: u64,
    complete: bool,
    stays: bool,
    life: u64,
    takes: Option<Span>,
}

/// The directory.
#[derive(Debug)]
pub struct Directory {
    config: Config,
    map: Arc<Map>,
    /// A map that is being stored.
    next: Option<(Entry, Arc<Map>)>,
    /// The last beat of each node that waits for the disk, or for a new cluster's servers.
    held: BTreeMap<Node, Beat>,
    lives: Vec<Life>,
    stored: Entry,
    /// Calls that are answered when an entry is stored: what was accepted survives a crash.
    unanswered: VecDeque<(Entry, Call)>,
    /// When it was started.
    since: Instant,
    /// When loads were last looked at.
    balanced: Instant,
    target: u32,
    front_ends: Vec<Peer>,
    servers: Vec<Peer>,
    log: Log,
}

impl Directory {
    pub(super) fn new(config: Config) -> Directory {
        let granted = Instant::ZERO;
        let (complete, stays, lost, takes) = (false, true, false, None);
        let peer = Peer { granted, epoch: 0, complete, stays, lost, takes };
        Directory {
            balanced: Instant::ZERO,
            map: config.first_map(),
            next: None,
            held: BTreeMap::new(),
            lives: alloc::vec![Life::default(); config.layout.servers as usize],
            stored: Entry(0),
            unanswered: VecDeque::new(),
            since: Instant::ZERO,
            target: config.p,
            front_ends: alloc::vec![peer; config.layout.front_ends as usize],
            servers: alloc::vec![peer; config.layout.servers as usize],
            log: Log::default(),
            config,
        }
    }

    /// The map that was published last.
    pub fn map(&self) -> &Map {
        &self.map
    }

    pub(super) fn start<C: Content>(&mut self, cx: &mut Context<'_, C>) {
        // Leases may have been given until this moment.
        let now = cx.now();
        (self.since, self.balanced) = (now, now);
        self.front_ends.iter_mut().chain(&mut self.servers).for_each(|peer| peer.granted = now);
        cx.arm(Timer::Tick, now + self.config.beat);
    }

    pub(super) fn replay<C: Content>(&mut self, entry: Entry, record: Record<C>) {
        self.log.replayed(entry);
        self.stored = entry;
        match record {
            Record::Map(map) => self.map = map,
            Record::Target(p) => self.target = p,
            Record::Known(server, name) => {
                if let Some(life) = self.lives.get_mut(server as usize) {
                    *life = Life { name, entry };
                }
            }
            Record::Doc(_)
            | Record::Held(_)
            | Record::Kept { .. }
            | Record::Left
            | Record::Life(_) => {}
        }
    }

    pub(super) fn stored<C: Content>(&mut self, upto: Entry, cx: &mut Context<'_, C>) {
        self.stored = self.stored.max(upto);
        while let Some(&(entry, call)) = self.unanswered.front()
            && entry <= upto
        {
            self.unanswered.pop_front();
            cx.emit(Effect::Reply { call, response: Response::Spread { accepted: true } });
        }
        if let Some((_, map)) = self.next.take_if(|(entry, _)| *entry <= upto) {
            self.map = map;
            cx.emit(Effect::Note(Note::Published(self.map.clone())));
            let layout = self.config.layout;
            for node in (1..layout.nodes()).map(Node) {
                self.tell(node, 0, true, cx);
            }
        }
        self.take_held(cx);
    }

    /// Takes beats that waited.
    fn take_held<C: Content>(&mut self, cx: &mut Context<'_, C>) {
        for (from, beat) in core::mem::take(&mut self.held) {
            self.take(from, beat, cx);
        }
    }

    fn take<C: Content>(&mut self, from: Node, beat: Beat, cx: &mut Context<'_, C>) {
        if self.next.is_some() {
            // A lease granted now would outlive the map that is about to replace this one. It is
            // granted with that one: maps may follow each other for longer than leases last.
            self.held.insert(from, beat);
            return;
        }
        self.beat(from, beat, cx);
    }

    fn tell<C: Content>(&self, to: Node, serial: u64, with_map: bool, cx: &mut Context<'_, C>) {
        let map = with_map.then(|| self.map.clone());
        cx.emit(Effect::Send { to, via: Via::Channel, message: Message::Grant { serial, map } });
    }

    pub(super) fn call<C: Content>(
        &mut self,
        call: Call,
        request: &Request<C>,
        cx: &mut Context<'_, C>,
    ) {
        let wanted = match request {
            Request::Spread { p } => Some(*p),
            _ => None,
        };
        let fits = wanted.filter(|p| (1..=self.config.p_most()).contains(p));
        if let Some(p) = fits {
            self.target = p;
            let entry = self.log.store(Record::<C>::Target(p), cx);
            self.unanswered.push_back((entry, call));
        } else {
            cx.emit(Effect::Reply { call, response: Response::Spread { accepted: false } });
        }
    }

    pub(super) fn heard<C: Content>(
        &mut self,
        from: Node,
        message: &Message<C>,
        cx: &mut Context<'_, C>,
    ) {
        let Message::Beat { serial, epoch, complete, stays, life, takes } = *message else {
            return;
        };
        self.take(from, Beat { serial, epoch, complete, stays, life, takes }, cx);
    }

    /// Whether a server comes with the log that it is known by; notes the name of a new one. Until
    /// that is stored its beat waits.
    fn knows<C: Content>(
        &mut self,
        from: Node,
        server: u32,
        beat: Beat,
        cx: &mut Context<'_, C>,
    ) -> bool {
        let at = server as usize;
        let name = self.lives[at].name;
        if name != beat.life {
            let away = matches!(self.map.states[at], State::Down | State::Out);
            if name != 0 && !away && !self.config.bugs.lives_unchecked {
                // Whoever had the other log may have a lease still. Without beats of it, it is put
                // out of step; then this one may come.
                self.servers[at].lost = true;
                return false;
            }
            let entry = self.log.store(Record::<C>::Known(server, beat.life), cx);
            self.lives[at] = Life { name: beat.life, entry };
        }
        if self.lives[at].entry > self.stored {
            self.held.insert(from, beat);
            return false;
        }
        true
    }

    /// Whether servers that are counted on have come, or have had the time to. Before that a front
    /// end would ask servers that may not answer yet.
    fn has_servers(&self, now: Instant) -> bool {
        let came = |server: usize| {
            let Life { name, entry } = self.lives[server];
            !self.map.is_up(server as u32) || name != 0 && entry <= self.stored
        };
        now >= self.since + self.config.server_lease || (0..self.lives.len()).all(came)
    }

    fn beat<C: Content>(&mut self, from: Node, beat: Beat, cx: &mut Context<'_, C>) {
        let Beat { serial, epoch, complete, stays, takes, .. } = beat;
        let layout = self.config.layout;
        let number = layout.number(from);
        match number {
            Some(server) if !self.knows(from, server, beat, cx) => return,
            None if !self.has_servers(cx.now()) => {
                self.held.insert(from, beat);
                return;
            }
            _ => {}
        }
        let peer = match number {
            Some(server) => &mut self.servers[server as usize],
            None => match self.front_ends.get_mut(from.0.wrapping_sub(1) as usize) {
                Some(peer) => peer,
                None => return,
            },
        };
        *peer = Peer { granted: cx.now(), epoch, complete, stays, lost: false, takes };
        self.tell(from, serial, epoch < self.map.epoch, cx);
        let down = |server: &u32| self.map.states[*server as usize] == State::Down;
        if let Some(server) = number.filter(down) {
            let state = match self.config.bugs.no_catching_up {
                true => State::Up,
                false => State::Behind(self.map.epoch + 1),
            };
            self.publish(cx, |map| {
                map.states[server as usize] = state;
                map.settled = false;
            });
        }
    }

    pub(super) fn tick<C: Content>(&mut self, cx: &mut Context<'_, C>) {
        cx.arm(Timer::Tick, cx.now() + self.config.beat);
        self.take_held(cx);
        if self.next.is_none() && self.has_servers(cx.now()) {
            self.advance(cx);
        }
    }

    fn silent(peer: &Peer, lease: Span, now: Instant) -> bool {
        now > peer.granted + lease
    }

    /// Takes one step towards what is wanted, if one can be taken.
    fn advance<C: Content>(&mut self, cx: &mut Context<'_, C>) {
        let now = cx.now();
        let Config { server_lease, front_end_lease, bugs, .. } = self.config;
        let (map, target) = (self.map.clone(), self.target);
        let rings = self.config.rings(&map);
        // The last that has some ids is never put out of step: no write of these is acknowledged
        // without it, and when it is back it has them all.
        let gone = (0..self.servers.len()).find(|&server| {
            let up = |other: u32| other as usize != server && self.is_there(&map, other);
            !matches!(map.states[server], State::Down | State::Out)
                && Self::silent(&self.servers[server], server_lease, now)
                && all_held(&rings.now, map.p, up)
        });
        if let Some(server) = gone {
            // Writes that were refused nobody go on without it, on every front end's own time.
            return self.publish(cx, |map| map.states[server] = State::Down);
        }
        if !map.settled {
            let knows =
                |peer: &Peer| peer.epoch == map.epoch || Self::silent(peer, front_end_lease, now);
            if bugs.copy_early || self.front_ends.iter().all(knows) {
                self.publish(cx, |map| map.settled = true);
            }
            return;
        }
        let complete = |server: usize| {
            let peer = &self.servers[server];
            peer.complete && peer.epoch == map.epoch && !peer.lost
        };
        let behind = |server: &usize| matches!(map.states[*server], State::Behind(_));
        let caught_up = (0..self.servers.len()).find(|server| behind(server) && complete(*server));
        if let Some(server) = caught_up {
            return self.publish(cx, |map| map.states[server] = State::Up);
        }
        if let Some(moving) = &map.moving {
            return self.move_on(&map, &rings, moving, cx);
        }
        let safe = |p: u32| all_held(&rings.now, p, |server| self.is_there(&map, server));
        if target > map.p {
            // Not while that would leave ids on servers alone that are away.
            if !safe(target) {
                return;
            }
            // Arcs are longer than the new p needs, so it can be used at once.
            return self.publish(cx, |map| {
                map.p = target;
                map.settled = false;
                if bugs.drop_early {
                    map.stored = target;
                }
            });
        }
        if target < map.stored {
            // One that is away and has not dropped what this map wants dropped would come back,
            // find that it holds what the next map wants, and lack what was written meanwhile.
            if !self.all_follow(&map) {
                return;
            }
            return self.publish(cx, |map| {
                map.stored = target;
                map.settled = false;
            });
        }
        if target > map.stored {
            // Every front end has been using the larger p: nobody needs the longer arcs.
            if !safe(target) {
                return;
            }
            return self.publish(cx, |map| map.stored = target);
        }
        if map.p > map.stored {
            let (all, done) = self.complete(&map);
            let enough = if bugs.p_of_most { 2 * done >= all } else { done == all };
            if enough {
                self.publish(cx, |map| map.p = map.stored);
            }
            return;
        }
        if self.all_follow(&map) {
            self.begin_move(&map, &rings.now, cx);
        }
    }

    /// Whether a server is in step, and has the log that it is known by as far as anybody knows.
    fn is_there(&self, map: &Map, server: u32) -> bool {
        map.is_up(server) && !self.servers[server as usize].lost
    }

    /// Servers that are neither away nor out, and how many of them hold what they should.
    fn complete(&self, map: &Map) -> (u32, u32) {
        let there = |server: &usize| !matches!(map.states[*server], State::Down | State::Out);
        let done = |peer: &Peer| peer.complete && peer.epoch == map.epoch && !peer.lost;
        let counted = (0..self.servers.len()).filter(there);
        counted.fold((0, 0), |(all, some), at| (all + 1, some + u32::from(done(&self.servers[at]))))
    }

    /// Whether all that are not away go by this map and have dropped what it wants dropped. One
    /// that is away catches up with everything when it is back.
    fn all_follow(&self, map: &Map) -> bool {
        let away = |server: usize| matches!(map.states[server], State::Down | State::Out);
        (0..self.servers.len())
            .all(|server| away(server) || self.servers[server].epoch == map.epoch)
    }

    /// A server that wants to leave and may, or else one that has left and wants to come back.
    fn goes(&self, map: &Map, now: Instant) -> Option<Move> {
        let all = || 0..self.servers.len() as u32;
        let peer = |server: u32| &self.servers[server as usize];
        // The last server of a ring stays.
        let several = |server: u32| {
            let mut rings = self.config.ranges.iter().map(Ring::servers);
            let own = rings.find(|servers| servers.contains(&server)).unwrap_or_default();
            own.iter().filter(|other| map.on_ring(**other)).count() > 1
        };
        let leaves = |server: &u32| map.is_up(*server) && !peer(*server).stays && several(*server);
        let leaver = all().find(leaves);
        let comes = |server: &u32| {
            let peer = peer(*server);
            let here = !Self::silent(peer, self.config.server_lease, now);
            let out = map.states[*server as usize] == State::Out;
            out && here && peer.stays && peer.epoch == map.epoch
        };
        leaver.map(Move::Leaves).or_else(|| all().find(comes).map(Move::Joins))
    }

    /// Lets a server leave or join `[roar 2.9]`, or else moves borders.
    fn begin_move<C: Content>(&mut self, map: &Map, rings: &[Ring], cx: &mut Context<'_, C>) {
        let what = self.goes(map, cx.now()).or_else(|| self.borders(map, rings, cx.now()));
        let Some(what) = what else { return };
        self.publish(cx, |map| {
            if let Move::Joins(server) = what {
                map.states[server as usize] = State::Behind(map.epoch);
            }
            map.moving = Some(Moving { what, switched: false });
            map.settled = false;
        });
    }

    /// Borders that are fairer than those of `rings`, if it is time to look `[roar 2.10]`. Each
    /// ring has all documents, and is divided fairly among its own servers.
    fn borders(&mut self, map: &Map, rings: &[Ring], now: Instant) -> Option<Move> {
        let balance = self.config.balance.filter(|own| now >= self.balanced + own.every)?;
        self.balanced = now;
        let takes = |server: u32| self.servers[server as usize].takes.map(Span::as_ns);
        let (mut starts, mut moves) = (alloc::vec![0; self.servers.len()], false);
        for (all, ring) in self.config.whole(map.starts.as_ref()).iter().zip(rings) {
            let next = balance::step(ring, Length::of(map.stored), takes, balance.percent);
            moves |= next.is_some();
            let all = balance::whole(all, next.as_ref().unwrap_or(ring))?;
            (0..all.count()).for_each(|at| starts[all.server(at) as usize] = all.start(at));
        }
        moves.then(|| Move::Borders(starts.into()))
    }

    /// Takes the next step of a move; every front end goes by the map as it is.
    fn move_on<C: Content>(
        &mut self,
        map: &Map,
        rings: &Rings,
        moving: &Moving,
        cx: &mut Context<'_, C>,
    ) {
        if moving.switched {
            // Nobody plans by the ring as it was.
            return self.publish(cx, |map| {
                map.moving = None;
                match &moving.what {
                    Move::Leaves(own) => map.states[*own as usize] = State::Out,
                    Move::Joins(_) => {}
                    Move::Borders(starts) => map.starts = Some(starts.clone()),
                }
            });
        }
        let there = |server| self.is_there(map, server);
        let safe = rings.beside.as_ref().is_some_and(|next| all_held(next, map.p, there));
        let joiner = match moving.what {
            Move::Joins(own) => Some(own),
            Move::Leaves(_) | Move::Borders(_) => None,
        };
        let given_up = match moving.what {
            Move::Joins(own) => map.states[own as usize] == State::Down,
            Move::Leaves(_) => false,
            // Nobody waits for borders, and others wait for them.
            Move::Borders(_) => self.target != map.p || self.goes(map, cx.now()).is_some() || !safe,
        };
        if given_up {
            return self.publish(cx, |map| {
                map.moving = None;
                if let Some(own) = joiner {
                    map.states[own as usize] = State::Out;
                }
            });
        }
        let (all, done) = self.complete(map);
        let there = joiner.is_none_or(|own| map.is_up(own));
        let ready = self.config.bugs.move_early || (all == done && there);
        if ready && safe {
            self.publish(cx, |map| {
                map.moving = Some(Moving { switched: true, ..moving.clone() });
                map.settled = false;
            });
        }
    }

    fn publish<C: Content>(&mut self, cx: &mut Context<'_, C>, change: impl FnOnce(&mut Map)) {
        let mut map = (*self.map).clone();
        map.epoch += 1;
        change(&mut map);
        let map = Arc::new(map);
        let entry = self.log.store(Record::Map(map.clone()), cx);
        self.next = Some((entry, map));
    }

    pub(super) fn check(&self) {
        assert!(self.map.stored <= self.map.p, "arcs are shorter than queries need");
        assert_eq!(Layout::DIRECTORY, Node(0));
    }
}

/// Whether those that are `up` hold every id on some ring, with arcs for `p` parts.
fn all_held(rings: &[Ring], p: u32, up: impl Fn(u32) -> bool) -> bool {
    unheld(rings, Length::of(p), up) == 0
}
