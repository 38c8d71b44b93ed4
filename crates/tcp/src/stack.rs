//! All connections of a host: who is meant, who may come, and what nobody asked for
//! ([incast 2.2], [incast 2.4]).

use crate::config::{Config, Counts, Why};
use crate::connection::{Challenges, Connection, Leaving, State, Step};
use crate::cookie::{self, Cookies, Ends};
use crate::learner::Learner;
use crate::schedule::{Grant, Schedule};
use crate::segment::{Flags, Segment};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message};
use cavy_core::family::stream::{Connection as Name, Effect, Input, Unreachable};
use cavy_core::{Cx, Instant, Machine, Packet, Room, Span, Stream, Transmit};
use hashbrown::HashTable;

/// Names a timer of a [`Stack`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// Effects are left from the last step.
    Rest,
    /// The earliest deadline of the connection in this place.
    Connection(u32),
}

/// Most effects of a step; what is more comes in a step of its own in the same instant.
pub(crate) const EFFECTS_STEP: usize = 64;
/// Most answers to segments that belong to no connection; more are dropped.
const ANSWERS_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

#[derive(Clone, Debug)]
struct Listening {
    port: u16,
    backlog: u16,
    half_open: u16,
}

/// How a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Port of this side.
    pub local_port: u16,
    /// Port of the other side.
    pub remote_port: u16,
    /// Largest payload of a segment that it sends.
    pub mss_bytes: u16,
    /// Smoothed round trip; `None` before the first sample.
    pub srtt: Option<Span>,
    /// The timeout, without back-off and stretch.
    pub timeout: Span,
    /// Doublings of it.
    pub backoff: u8,
    /// The congestion window.
    pub window_bytes: u64,
    /// What the peer lets it send.
    pub peer_window_bytes: u64,
    /// Octets on their way.
    pub under_way_bytes: u64,
    /// The most timeouts in a row.
    pub timeouts_longest: u16,
    /// Selective acknowledgements were agreed on.
    pub sack: bool,
    /// Timestamps were agreed on.
    pub stamps: bool,
}

/// The TCP of one host, as a machine of streams.
#[derive(Clone, Debug)]
pub struct Stack {
    config: Config,
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: u32,
    index: HashTable<u32>,
    listening: Vec<Listening>,
    next_port: u16,
    answers: VecDeque<(Node, Segment)>,
    /// Connections that may have something to send, in turn.
    ready: VecDeque<u32>,
    pub(crate) effects: VecDeque<Effect<Why>>,
    pub(crate) arms: Vec<(u32, Option<Instant>)>,
    counts: Counts,
    challenges: Challenges,
    cookies: Cookies,
    /// Segments reserved for the servers of this host, and connections that wait for one.
    reserved: u32,
    turns: VecDeque<u32>,
    /// Where the schedule was not told how many there are.
    learner: Option<Learner>,
    /// When something happened last.
    now: Instant,
}

fn hash(peer: Node, local: u16, remote: u16) -> u64 {
    let word = u64::from(peer.0) << 32 | u64::from(local) << 16 | u64::from(remote);
    let mixed = word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

fn ends(peer: Node, segment: &Segment) -> Ends {
    (peer, segment.source, segment.destination)
}

impl Stack {
    /// A host without connections; the error says which value is out of range.
    pub fn new(config: Config) -> Result<Stack, &'static str> {
        config.check()?;
        let config = Schedule::patient(config);
        let learner = config.schedule.filter(|schedule| schedule.room_bytes.is_none());
        let learner = learner.map(|schedule| {
            let learner = Learner::new(config.mss_bytes);
            // Before servers that are not ours the host is a program among others.
            if schedule.foreign { learner.of_batches() } else { learner }
        });
        Ok(Stack {
            learner,
            now: Instant::ZERO,
            config,
            slots: Vec::new(),
            free: Vec::new(),
            live: 0,
            index: HashTable::new(),
            listening: Vec::new(),
            next_port: 32_768,
            answers: VecDeque::new(),
            ready: VecDeque::new(),
            effects: VecDeque::new(),
            arms: Vec::new(),
            counts: Counts::default(),
            challenges: Challenges::default(),
            cookies: Cookies::default(),
            reserved: 0,
            turns: VecDeque::new(),
        })
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What all its connections did.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Connections there are.
    pub fn connections(&self) -> u32 {
        self.live
    }

    /// Ports of connections that this host opens begin here, 32768 or above: a host that starts
    /// anew should not begin where it began before, since its peers may remember.
    pub fn open_from_port(&mut self, port: u16) {
        self.next_port = port.max(32_768);
    }

    /// How a connection stands; `None` when it is no more.
    pub fn facts(&self, name: Name) -> Option<Facts> {
        let slot = self.place(name)?;
        let one = self.slots[slot as usize].connection.as_deref()?;
        Some(Facts {
            local_port: one.local_port,
            remote_port: one.remote_port,
            mss_bytes: one.mss as u16,
            srtt: one.rto.srtt(),
            timeout: one.rto.base(),
            backoff: one.rto.backoff(),
            window_bytes: one.cwnd,
            peer_window_bytes: one.window,
            under_way_bytes: one.pipe(),
            timeouts_longest: one.timeouts_longest,
            sack: one.sack,
            stamps: one.stamps,
        })
    }

    fn find(&self, peer: Node, local: u16, remote: u16) -> Option<u32> {
        let same = |&slot: &u32| {
            self.slots[slot as usize].connection.as_ref().is_some_and(|one| {
                one.peer == peer && one.local_port == local && one.remote_port == remote
            })
        };
        self.index.find(hash(peer, local, remote), same).copied()
    }

    fn place(&self, name: Name) -> Option<u32> {
        let slot = name.0 as u32;
        let found = self.slots.get(slot as usize)?;
        (found.generation == (name.0 >> 32) as u32 && found.connection.is_some()).then_some(slot)
    }

    fn next_name(&mut self) -> (u32, Name) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        (slot, Name(u64::from(self.slots[slot as usize].generation) << 32 | u64::from(slot)))
    }

    fn insert(&mut self, slot: u32, connection: Connection) {
        let key = hash(connection.peer, connection.local_port, connection.remote_port);
        self.slots[slot as usize].connection = Some(Box::new(connection));
        self.live += 1;
        let slots = &self.slots;
        self.index.insert_unique(key, slot, |&slot| {
            slots[slot as usize]
                .connection
                .as_ref()
                .map_or(0, |one| hash(one.peer, one.local_port, one.remote_port))
        });
    }

    /// Runs `f` on a connection and does what follows from it.
    fn with(
        &mut self,
        slot: u32,
        now: Instant,
        rng: &mut Stream,
        f: impl FnOnce(&mut Connection, &mut Step<'_, '_>),
    ) {
        let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else { return };
        let was_half_open = connection.accepted && connection.is_half_open();
        let mut step = Step {
            now,
            config: &self.config,
            rng,
            counts: &mut self.counts,
            effects: &mut self.effects,
            answers: &mut self.answers,
            challenges: &mut self.challenges,
        };
        f(connection, &mut step);
        if was_half_open && (!connection.is_half_open() || connection.over.is_some()) {
            let port = connection.local_port;
            if let Some(at) = self.listening.iter_mut().find(|one| one.port == port) {
                at.half_open = at.half_open.saturating_sub(1);
            }
        }
        if connection.over.is_some() {
            return self.remove(slot);
        }
        if !connection.ready {
            connection.ready = true;
            self.ready.push_back(slot);
        }
        self.arm(slot);
        if self.config.schedule.is_some() {
            self.now = now;
            self.share(slot);
        }
    }

    /// An answer of about so many octets is awaited on a connection: it gets its turns. What
    /// follows comes with the next step or pull.
    pub fn expect(&mut self, name: Name, octets: u64) {
        let Some(slot) = self.place(name) else { return };
        if let Some(one) = self.slots[slot as usize].connection.as_deref_mut() {
            one.expects(octets);
        }
        self.share(slot);
    }

    /// Did a connection wait for a turn, or have one, since this was asked last? Then it is not the
    /// server's fault that nothing came.
    pub fn waited_for_turn(&mut self, name: Name) -> bool {
        let slot = self.place(name).map(|slot| &mut self.slots[slot as usize]);
        let grant = slot.and_then(|slot| slot.connection.as_deref_mut()?.grant.as_mut());
        grant.is_some_and(Grant::waited)
    }

    /// An answer came whole, or is not waited for any more: nothing is reserved for it.
    pub fn answered(&mut self, name: Name) {
        let Some(slot) = self.place(name) else { return };
        if let Some(one) = self.slots[slot as usize].connection.as_deref_mut() {
            self.reserved -= one.answered();
        }
        self.share(slot);
    }

    /// Looks at what came on a connection since the last time, and takes back what it used; says
    /// whether others fill the port.
    fn look(&mut self, slot: u32) -> bool {
        let Some(one) = self.slots[slot as usize].connection.as_deref_mut() else { return false };
        let mut competes = false;
        if let Some(learner) = &mut self.learner {
            learner.look(self.now);
            if self.reserved == 0 {
                learner.rested();
            }
            one.observe(learner, self.now);
            competes = learner.competes();
        }
        self.reserved -= one.recount();
        self.line_up(slot, false);
        competes
    }

    /// Segments that may be under way now.
    fn room(&self, schedule: Schedule, competes: bool) -> u32 {
        match &self.learner {
            // Who competes sends no bursts.
            Some(learner) if competes => learner.segments().min((self.reserved + 2).max(4)),
            Some(learner) => learner.segments(),
            None => schedule.segments(self.config.mss_bytes).unwrap_or(1),
        }
    }

    /// Something changed about `slot`: takes back what it used, and gives turns while there is
    /// room.
    fn share(&mut self, slot: u32) {
        let Some(schedule) = self.config.schedule else { return };
        let competes = self.look(slot);
        let all = self.room(schedule, competes);
        let mut goes_on = competes.then_some(slot);
        for _ in 0..self.turns.len() + all as usize {
            if self.reserved >= all {
                if let Some(learner) = self.learner.as_mut().filter(|_| !self.turns.is_empty()) {
                    learner.pressed();
                }
                return;
            }
            let goes_on = goes_on.take().filter(|&slot| {
                let one = self.slots[slot as usize].connection.as_deref();
                one.is_some_and(Connection::goes_on)
            });
            let Some(slot) = goes_on.or_else(|| self.turns.pop_front()) else { return };
            let Some(one) = self.slots[slot as usize].connection.as_deref_mut() else { continue };
            if let Some(grant) = one.grant.as_mut().filter(|_| goes_on.is_none()) {
                grant.waiting = false;
            }
            if !one.wants_turn() {
                continue;
            }
            let danger = self.learner.as_ref().is_some_and(Learner::is_danger);
            if one.is_half_open() || danger && self.reserved > 0 && one.is_frail() {
                self.line_up(slot, false);
                continue;
            }
            // What is open may be more than the room: then it has its turn alone.
            let free = if self.reserved == 0 { u32::MAX } else { all - self.reserved };
            let taken = one.turn(free, schedule.foreign);
            if taken > 0 && self.learner.is_some() {
                one.time_turn(self.now);
            }
            self.reserved += taken;
            if !one.ready {
                one.ready = true;
                self.ready.push_back(slot);
            }
            self.arm(slot);
            // One that left something open waits at the head until there is room for all of it.
            let waits = taken == 0 && schedule.foreign;
            self.line_up(slot, competes || waits);
            if taken == 0 {
                return;
            }
        }
    }

    /// Puts a connection at an end of the row, if it wants a turn and does not stand there.
    fn line_up(&mut self, slot: u32, head: bool) {
        let Some(one) = self.slots[slot as usize].connection.as_deref_mut() else { return };
        if !one.wants_turn() {
            return;
        }
        if let Some(grant) = one.grant.as_mut().filter(|grant| !grant.waiting) {
            grant.waiting = true;
            if head {
                self.turns.push_front(slot);
            } else {
                self.turns.push_back(slot);
            }
        }
    }

    /// A deadline that moved later is looked at when the earlier one has come.
    fn arm(&mut self, slot: u32) {
        let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else { return };
        let deadline = connection.deadline();
        match (deadline, connection.armed) {
            (Some(at), armed) if armed.is_none_or(|armed| at < armed) => {
                connection.armed = Some(at);
                self.arms.push((slot, Some(at)));
            }
            (None, Some(_)) => {
                connection.armed = None;
                self.arms.push((slot, None));
            }
            _ => {}
        }
    }

    fn remove(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let Some(mut connection) = entry.connection.take() else { return };
        while connection.grant.is_some_and(|grant| grant.awaits()) {
            self.reserved -= connection.answered();
        }
        self.turns.retain(|&other| other != slot);
        entry.generation = entry.generation.wrapping_add(1);
        if connection.armed.is_some() {
            self.arms.push((slot, None));
        }
        let key = hash(connection.peer, connection.local_port, connection.remote_port);
        if let Ok(found) = self.index.find_entry(key, |&other| other == slot) {
            found.remove();
        }
        if connection.ready {
            self.ready.retain(|&other| other != slot);
        }
        self.live -= 1;
        self.free.push(slot);
    }

    /// Something happened.
    pub(crate) fn input(&mut self, input: Input<Segment>, now: Instant, rng: &mut Stream) {
        match input {
            Input::Rx { from, header, payload, seen } => {
                let length = payload.length_bytes;
                self.receive(from, (&header, seen.marked), length, now, rng);
            }
            Input::Listen { port, backlog } => {
                self.listening.retain(|one| one.port != port);
                self.listening.push(Listening { port, backlog, half_open: 0 });
            }
            Input::Unlisten { port } => self.listening.retain(|one| one.port != port),
            Input::Open { ticket, to, port } => self.open(ticket, to, port, now, rng),
            Input::Write { connection, bytes, whole } => {
                self.on(connection, now, rng, |one, step| {
                    one.write(bytes, whole, step.now);
                    one.consider_persist(step);
                });
            }
            Input::Took { connection, bytes } => {
                self.on(connection, now, rng, |one, _| one.took(bytes));
            }
            Input::Shut { connection } => self.on(connection, now, rng, |one, step| {
                one.shut();
                one.consider_persist(step);
            }),
            Input::Close { connection } => {
                let mut reset = None;
                self.on(connection, now, rng, |one, step| {
                    if !one.close() {
                        reset = Some((one.peer, one.reset()));
                        one.end(Why::Closed, step);
                    } else if one.is_unsent() {
                        one.end(Why::Closed, step);
                    }
                });
                self.answers.extend(reset);
            }
            Input::Abort { connection } => {
                let mut reset = None;
                self.on(connection, now, rng, |one, step| {
                    reset = Some((one.peer, one.reset()));
                    one.end(Why::Aborted, step);
                });
                self.answers.extend(reset);
            }
            Input::Unreachable { to, header, why } => {
                let Some(slot) = self.find(to, header.source, header.destination) else { return };
                self.with(slot, now, rng, |one, step| match why {
                    Unreachable::TooLong { mtu_bytes } => {
                        one.path_is_shorter(header.seq, mtu_bytes);
                    }
                    // Hard while opening, soft later: the timer decides (RFC 1122, RFC 5927).
                    // Who is not on the way has to guess the number.
                    Unreachable::Protocol
                        if one.state == State::SynSent && header.seq == one.first as u32 =>
                    {
                        one.end(Why::Refused, step);
                    }
                    Unreachable::Host | Unreachable::Protocol => {}
                });
            }
        }
    }

    fn on(
        &mut self,
        name: Name,
        now: Instant,
        rng: &mut Stream,
        f: impl FnOnce(&mut Connection, &mut Step<'_, '_>),
    ) {
        if let Some(slot) = self.place(name) {
            self.with(slot, now, rng, f);
        }
    }

    fn open(&mut self, ticket: u64, to: Node, port: u16, now: Instant, rng: &mut Stream) {
        let (slot, name) = self.next_name();
        self.effects.push_back(Effect::Opening { ticket, connection: name });
        let mut local = self.next_port;
        while self.find(to, local, port).is_some() {
            local = if local == u16::MAX { 32_768 } else { local + 1 };
        }
        self.next_port = if local == u16::MAX { 32_768 } else { local + 1 };
        if self.live >= self.config.connections_max {
            self.slots[slot as usize].generation += 1;
            self.free.push(slot);
            self.effects.push_back(Effect::Ended { connection: name, why: Why::Refused });
            return;
        }
        let isn = rng.bits() as u32;
        let mut made = Connection::open(&self.config, name, to, (local, port), isn, now);
        if self.config.stamps.is_some() {
            made.stamp_offset = rng.bits() as u32;
        }
        self.insert(slot, made);
        self.with(slot, now, rng, |_, _| {});
    }

    fn receive(
        &mut self,
        from: Node,
        (segment, marked): (&Segment, bool),
        length: u32,
        now: Instant,
        rng: &mut Stream,
    ) {
        let flags = segment.flags;
        if flags.0 & 0x1f == 0 || flags.has(Flags::SYN.with(Flags::FIN)) {
            self.counts.dropped += 1;
            return;
        }
        let mut after = None;
        let mut found = self.find(from, segment.destination, segment.source);
        if let Some(slot) = found {
            after = self.begins_anew(slot, segment);
            if after.is_some() {
                // What closed is forgotten for what opens [incast 2.13].
                self.with(slot, now, rng, |one, step| one.end(Why::Closed, step));
                found = None;
            }
        }
        if let Some(slot) = found {
            return self.with(slot, now, rng, |one, step| {
                one.marks.here = marked;
                one.arrives(segment, length, step);
            });
        }
        let is_syn = flags.has(Flags::SYN) && flags.0 & 0x14 == 0;
        let place = self.listening.iter().position(|one| one.port == segment.destination);
        if let Some(place) = place.filter(|_| is_syn) {
            if self.live >= self.config.connections_max {
                self.counts.dropped += 1;
                return;
            }
            if self.listening[place].half_open >= self.listening[place].backlog && after.is_none() {
                return self.answer_and_forget(from, segment, now, rng);
            }
            let mut isn = rng.bits() as u32;
            if let Some(after) = after {
                isn = (after as u32).wrapping_add(64_000 + (isn & 0xffff));
            }
            let offset = if self.config.stamps.is_some() { rng.bits() as u32 } else { 0 };
            let slot = self.accept(place, from, segment, (isn, offset), now);
            return self.with(slot, now, rng, |_, _| {});
        }
        let is_answer = flags.has(Flags::ACK) && flags.0 & 0x06 == 0;
        if let Some(place) = place.filter(|_| is_answer)
            && let Some(syn) = self.cookies.recall(ends(from, segment), segment, now)
        {
            return self.remember(place, from, &syn, (segment, length), now, rng);
        }
        // Nobody is meant: say so, but never to a reset.
        if flags.has(Flags::RST) || self.answers.len() >= ANSWERS_MAX {
            self.counts.dropped += 1;
            return;
        }
        let (source, destination) = (segment.destination, segment.source);
        let answer = if flags.has(Flags::ACK) {
            Segment::new(source, destination, segment.ack, Flags::RST)
        } else {
            let ends = u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
            let mut answer = Segment::new(source, destination, 0, Flags::RST.with(Flags::ACK));
            answer.ack = segment.seq.wrapping_add(length).wrapping_add(ends);
            answer
        };
        self.answers.push_back((from, answer));
    }

    /// A connection that `syn` opens at a port, with this number and these timestamps to begin
    /// with.
    fn accept(
        &mut self,
        place: usize,
        from: Node,
        syn: &Segment,
        (isn, stamp_offset): (u32, u32),
        now: Instant,
    ) -> u32 {
        let (slot, name) = self.next_name();
        self.listening[place].half_open += 1;
        let mut made = Connection::accept(&self.config, name, from, syn, isn, now);
        made.stamp_offset = stamp_offset;
        self.insert(slot, made);
        slot
    }

    /// A port has as many half-open connections as it may: the answer to one more leaves nothing
    /// behind.
    fn answer_and_forget(&mut self, from: Node, syn: &Segment, now: Instant, rng: &mut Stream) {
        if self.answers.len() >= ANSWERS_MAX {
            self.counts.dropped += 1;
            return;
        }
        let syn = cookie::heard(syn, self.config.stamps.is_some());
        let ends = ends(from, &syn);
        let isn = self.cookies.make(ends, &syn, now, rng);
        let mut made = Connection::accept(&self.config, Name(u64::MAX), from, &syn, isn, now);
        made.stamp_offset = self.cookies.stamp_offset(ends);
        let mut step = Step {
            now,
            config: &self.config,
            rng,
            counts: &mut self.counts,
            effects: &mut self.effects,
            answers: &mut self.answers,
            challenges: &mut self.challenges,
        };
        let Some(Leaving { mut segment, .. }) = made.leaves(&mut step) else { return };
        segment.stamps = segment.stamps.map(|stamps| cookie::stamp(&syn, stamps));
        self.counts.cookies += 1;
        self.answers.push_back((from, segment));
    }

    /// A client acknowledged an answer that nothing was kept of.
    fn remember(
        &mut self,
        place: usize,
        from: Node,
        syn: &Segment,
        (answer, length): (&Segment, u32),
        now: Instant,
        rng: &mut Stream,
    ) {
        if self.live >= self.config.connections_max {
            self.counts.dropped += 1;
            return;
        }
        let offset = self.cookies.stamp_offset(ends(from, syn));
        let isn = answer.ack.wrapping_sub(1);
        let slot = self.accept(place, from, syn, (isn, offset), now);
        self.with(slot, now, rng, |one, step| {
            one.answered_before(step);
            one.arrives(answer, length, step);
        });
    }

    /// A SYN for a pair of ports that is only remembered may open it again, if it is newer than all
    /// that was. Then: what the next sequence number was.
    fn begins_anew(&self, slot: u32, segment: &Segment) -> Option<u64> {
        let old = self.slots[slot as usize].connection.as_deref()?;
        let is_syn = segment.flags.has(Flags::SYN) && segment.flags.0 & 0x14 == 0;
        let welcome = self.listening.iter().any(|one| one.port == segment.destination);
        if old.state != State::TimeWait || !is_syn || !welcome {
            return None;
        }
        let newer = |(stamp, recent): (u32, u32)| (stamp.wrapping_sub(recent) as i32) > 0;
        let by_stamp =
            segment.stamps.filter(|_| old.stamps).is_some_and(|s| newer((s.value, old.recent)));
        let by_number = newer((segment.seq, old.receiver.next as u32));
        (by_stamp || by_number).then_some(old.next)
    }

    /// The deadline of a connection came.
    pub(crate) fn due(&mut self, slot: u32, now: Instant, rng: &mut Stream) {
        if let Some(one) = self.slots.get_mut(slot as usize).and_then(|s| s.connection.as_mut()) {
            one.armed = None;
            self.with(slot, now, rng, Connection::expire);
        }
    }

    /// What leaves now: to whom, of which connection, and what.
    pub(crate) fn leave(
        &mut self,
        now: Instant,
        rng: &mut Stream,
    ) -> Option<(Node, Option<Name>, Leaving)> {
        if let Some((to, segment)) = self.answers.pop_front() {
            return Some((to, None, Leaving { segment, offset: 0, length: 0 }));
        }
        while let Some(slot) = self.ready.pop_front() {
            let Some(connection) = self.slots[slot as usize].connection.as_deref_mut() else {
                continue;
            };
            connection.ready = false;
            let (peer, name) = (connection.peer, connection.name);
            let mut leaving = None;
            let mut step = Step {
                now,
                config: &self.config,
                rng,
                counts: &mut self.counts,
                effects: &mut self.effects,
                answers: &mut self.answers,
                challenges: &mut self.challenges,
            };
            if let Some(one) = connection.leaves(&mut step) {
                leaving = Some(one);
                connection.ready = true;
                self.ready.push_back(slot);
            }
            self.arm(slot);
            if let Some(leaving) = leaving {
                return Some((peer, Some(name), leaving));
            }
        }
        None
    }

    pub(crate) fn check_all(&self) {
        let there = self.slots.iter().filter_map(|slot| slot.connection.as_deref());
        there.for_each(|one| one.check(&self.config));
    }

    fn flush(&mut self, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        for (slot, at) in self.arms.drain(..) {
            match at {
                Some(at) => cx.arm(Timer::Connection(slot), at),
                None => cx.disarm(Timer::Connection(slot)),
            }
        }
        for _ in 0..EFFECTS_STEP {
            let Some(effect) = self.effects.pop_front() else { return };
            cx.emit(effect);
        }
        if !self.effects.is_empty() {
            cx.arm(Timer::Rest, cx.now());
        }
    }
}

impl Machine for Stack {
    type Input = Input<Segment>;
    type Effect = Effect<Why>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        // A step touches one connection, and so arms and disarms one timer at most twice.
        EFFECTS_STEP + 4
    }
    fn start(&mut self, _: &mut Cx<'_, Effect<Why>, Timer>) {}
    fn handle(&mut self, input: Input<Segment>, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        let now = cx.now();
        self.input(input, now, cx.rng());
        self.flush(cx);
    }
    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect<Why>, Timer>) {
        if let Timer::Connection(slot) = timer {
            let now = cx.now();
            self.due(slot, now, cx.rng());
        }
        self.flush(cx);
    }
    fn check(&self) {
        self.check_all();
    }
}

impl Transmit for Stack {
    type Header = Segment;

    fn pull(&mut self, _: Room, cx: &mut Cx<'_, Effect<Why>, Timer>) -> Option<Packet<Segment>> {
        let now = cx.now();
        let left = self.leave(now, cx.rng());
        self.flush(cx);
        let (to, name, Leaving { segment, offset, length }) = left?;
        let message = Message(name.map_or(0, |name| name.0));
        let payload = Extent { message, offset_bytes: offset as u32, length_bytes: length };
        Some(Packet { to, header: segment, payload, priority: 0, rank: 0 })
    }
}
