//! A small cluster with clients, and what its answers are held to.
//!
//! An oracle has a name, which what it says begins with: *once* (no document is met twice), *whole*
//! (what was acknowledged is found), *fresh* (in that version or a later one, and no delete is
//! undone), *exact* (each id is met or said to be lost, and not both), *timely* (no answer is later
//! than its deadline, and none that has no deadline is partial for one), *taken* (what was asked of
//! somebody before is refused by nobody for being busy), *forward* (no server goes back to an older
//! version), *logged* (who is in step and holds a document for queries, on whatever ring, has
//! logged each write that is acknowledged), *arcs* (who is in step holds what queries need),
//! *covered* (where nothing fails, or nothing of some ring, nothing is said to be lost), *held*
//! (where nothing fails and borders move, nobody is asked for what it does not hold), *in step*
//! (where nothing fails, nobody is put out of step), *ends* (in the end all is as it was asked
//! for).

use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Input};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::pending::Heap4;
use cavy_lab::wan::{
    Ask, Clients, Disk, Ending, Hardware, Jitter, Link, Observer, Parts, Setup, Site, run,
};
use cavy_search::cluster::{
    Balance, Bugs, Config, Doc, Job, Layout, Map, Member, Message, Move, Moving, Note, Outcome,
    Record, Request, Response, Rings, State, Told, Words, tells_all,
};
use cavy_search::{Cost, Id, Ring, Slice};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const LAYOUT: Layout = Layout { front_ends: 2, servers: 6 };
/// Where ranges begin, by server, whatever ring it is on: uneven, so that arcs end in the middle of
/// some.
const STARTS: [u64; 6] = [0, 1 << 61, 3 << 61, 5 << 61, 6 << 61, 13 << 60];
/// Clients that search, those that write two documents each, one that changes p, and one that has
/// servers leave and come back.
const SEARCHERS: u32 = 6;
const WRITERS: u32 = 8;

/// By then all servers have their first lease.
const LEASED: Span = Span::from_ms(100);

/// What happens in a run, beside faults.
#[derive(Clone, Copy)]
pub struct Habit {
    pub bugs: Bugs,
    /// Between two changes of p, on average.
    pub change: Span,
    /// Between two servers that leave or come back, on average; none do when it is zero.
    pub moves: Span,
    /// How long a server may answer after it asked; front ends may use maps for twice as long.
    pub lease: Span,
    /// Nothing fails, and nothing is ever late.
    pub calm: bool,
    /// Copies wait for queries.
    pub copies_wait: bool,
    /// p is at most so large. Up to 3 every document is on two servers at least.
    pub p_most: u32,
    /// Written documents in a window of a copy at most.
    pub window_documents: Option<u32>,
    /// How long queries may take, on average; as long as they want if not set.
    pub within: Option<Span>,
    /// A server that has more before it refuses what nobody was asked for before.
    pub bounce: Option<Span>,
    /// Borders move by load, which is looked at so often; what a server takes changes all the time.
    pub balance: Option<Span>,
    /// Rings, to which servers are dealt out in turn. Of several, every fourth query is asked by
    /// ranges.
    pub rings: u32,
    /// Nothing of the last ring fails.
    pub spared: bool,
}

impl Habit {
    pub fn usual() -> Habit {
        Habit {
            bugs: Bugs::default(),
            change: Span::from_ms(300),
            moves: Span::from_ms(120),
            lease: Span::from_ms(100),
            calm: false,
            copies_wait: true,
            p_most: LAYOUT.servers,
            window_documents: None,
            within: None,
            bounce: None,
            balance: None,
            rings: 1,
            spared: false,
        }
    }

    /// In every other run pieces of copies are short, as where there are many documents.
    pub fn short_pieces(self, seed: u64) -> Habit {
        Habit { window_documents: (seed % 2 == 1).then_some(2), ..self }
    }

    /// Nobody leaves, and every document is on two servers at least.
    pub fn doubled() -> Habit {
        let change = Span::from_ms(700);
        Habit { change, moves: Span::ZERO, copies_wait: false, p_most: 3, ..Habit::usual() }
    }
}

/// All nodes at one place: half a millisecond from each to each, more or less, and disks of a few.
pub fn network(seed: u64) -> Setup {
    let mut link = Link::of(Span::from_us(500));
    link.jitter = Jitter::Even(Span::from_us(400));
    let mut setup = Setup::of(1, vec![link], vec![Site(0); LAYOUT.nodes() as usize]);
    setup.seed = seed;
    setup.disk = Disk { sync: Span::from_ms(1), spread: Span::from_ms(4) };
    setup.duration = Span::from_ms(2_500);
    setup.drain = Span::from_ms(10_000);
    setup.linger = Span::from_ms(4_000);
    setup
}

fn config(habit: Habit) -> Config {
    let ring = |ring: u32| {
        let ranges = STARTS.into_iter().zip(0..).skip(ring as usize).step_by(habit.rings as usize);
        Ring::new(ranges.collect()).expect("a ring")
    };
    let cost = Cost { fixed_ns: 500_000, scan_ns: 4_000_000 };
    let ranges = (0..habit.rings).map(ring).collect();
    let mut config = Config::new(LAYOUT, ranges, 2, vec![cost; 6]);
    (config.chunk, config.piece, config.window) = (1 << 59, 1 << 58, 1 << 60);
    // A piece takes a card three milliseconds.
    (config.documents, config.card_bytes_per_s) = (50_000, Some(125_000_000));
    config.copy_percent = 100;
    config.bugs = habit.bugs;
    config.bounce = habit.bounce;
    config.balance = habit.balance.map(|every| Balance { every, percent: 5 });
    config.copies_wait = habit.copies_wait;
    config.window_documents = habit.window_documents;
    config.beat = Span::from_ms(20);
    config.server_lease = habit.lease;
    config.front_end_lease = habit.lease * 2;
    config.margin = if habit.calm { Span::from_ms(60_000) } else { Span::from_ms(10) };
    config
}

/// A write of a document.
struct Act {
    asked: Instant,
    deletes: bool,
    /// When it was acknowledged, and as which version.
    done: Option<(Instant, u64)>,
}

/// Writes of one document, in order: each begins when the one before has been acknowledged.
#[derive(Default)]
struct Story {
    acts: Vec<Act>,
}

struct Callers {
    habit: Habit,
    draws: Stream,
    stories: BTreeMap<Id, Story>,
    wanted: Option<u32>,
    /// By server: it was told to leave and not since to come back.
    leaves: [bool; LAYOUT.servers as usize],
    /// Who was told last.
    told: usize,
    found: u64,
    partial: u64,
    timed_out: u64,
    broken: Option<String>,
}

/// The two documents of a writer: at the borders of ranges, where something could go wrong by one,
/// and anywhere.
fn documents(writer: u32) -> [Id; 2] {
    let at = writer as usize;
    let border = STARTS[at % 6].wrapping_sub(1 - at as u64 / 6);
    [border, u64::from(writer + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)]
}

impl Callers {
    fn look(
        &self,
        (since, now): (Instant, Instant),
        docs: &[Doc],
        lost: &[Slice],
        told: &[Told],
    ) -> Option<String> {
        if !tells_all(lost, told) {
            return Some(format!("exact: {now}: lost are {lost:?} beside {told:?}"));
        }
        let calm = self.habit.calm || self.habit.spared;
        if calm && self.habit.within.is_none() && !lost.is_empty() {
            return Some(format!("covered: {now}: nobody answers for {lost:?}"));
        }
        for (at, doc) in docs.iter().enumerate() {
            if docs[..at].iter().any(|other| other.id == doc.id) {
                return Some(format!("once: {now}: {:#x} is met twice", doc.id));
            }
        }
        for (id, story) in &self.stories {
            let done = |act: &Act| act.done.is_some_and(|(at, _)| at <= since);
            let Some(last) = story.acts.iter().rposition(done) else { continue };
            let may_be_gone = story.acts[last..].iter().any(|act| act.deletes && act.asked <= now);
            let version = story.acts[last].done.map_or(0, |(_, version)| version);
            let deleted = story.acts[last].deletes;
            match docs.iter().find(|doc| doc.id == *id) {
                Some(doc) if doc.version < version || deleted && doc.version == version => {
                    let state = if deleted { "deleted" } else { "written" };
                    return Some(format!("fresh: {now}: {doc:?} was {state} as {version}"));
                }
                Some(_) => {}
                None if may_be_gone || lost.iter().any(|slice| slice.contains(*id)) => {}
                None => {
                    let text = format!("whole: {now}: {id:#x} was acknowledged and is not found");
                    return Some(text);
                }
            }
        }
        None
    }
}

impl Clients<Words> for Callers {
    fn count(&self) -> u32 {
        SEARCHERS + WRITERS + 1 + u32::from(self.habit.moves > Span::ZERO)
    }

    fn next(&mut self, client: u32, now: Instant) -> Option<(Instant, Request)> {
        let mean = match client {
            0..SEARCHERS => Span::from_ms(4),
            _ if client < SEARCHERS + WRITERS => Span::from_ms(8),
            _ if client == SEARCHERS + WRITERS => self.habit.change,
            _ => self.habit.moves,
        };
        let at = now + Span::from_ns(self.draws.below(2 * mean.as_ns() + 1));
        let request = match client.checked_sub(SEARCHERS) {
            None if self.habit.rings > 1 && self.draws.below(4) == 0 => Request::Ranges(()),
            None => {
                let mut drawn = |mean: Span| self.draws.below(2 * mean.as_ns() + 1);
                let within = self.habit.within.map(|mean| Span::from_ns(drawn(mean)));
                Request::Search { question: (), within }
            }
            Some(WRITERS) => {
                let most = self.habit.p_most.min(LAYOUT.servers / self.habit.rings);
                let p = 1 + self.draws.below(u64::from(most)) as u32;
                Request::Spread { p }
            }
            Some(other) if other > WRITERS => {
                // The one that is away comes back before the next one goes.
                let gone = self.leaves.iter().position(|leaves| *leaves);
                let any = self.draws.below(u64::from(LAYOUT.servers)) as usize;
                self.told = gone.unwrap_or(any);
                Request::Stay(gone.is_some())
            }
            Some(writer) => {
                let id = documents(writer)[self.draws.below(2) as usize];
                let deleted = self.draws.below(3) == 0;
                let act = Act { asked: at, deletes: deleted, done: None };
                self.stories.entry(id).or_default().acts.push(act);
                Request::Write { id, deleted, body: () }
            }
        };
        Some((at, request))
    }

    fn target(&mut self, client: u32, request: &Request, attempt: u32) -> Node {
        if client == SEARCHERS + WRITERS {
            return Layout::DIRECTORY;
        }
        if matches!(request, Request::Stay(_)) {
            return LAYOUT.server(self.told as u32);
        }
        LAYOUT.front_end((client + attempt) % LAYOUT.front_ends)
    }

    fn site(&self, _: u32) -> Option<Site> {
        Some(Site(0))
    }

    /// Writes are not sent again: a second attempt may come into effect after a later write.
    fn patience(&self, client: u32, _: u32) -> Option<Span> {
        let writes = (SEARCHERS..SEARCHERS + WRITERS).contains(&client);
        if client > SEARCHERS + WRITERS {
            return Some(Span::from_ms(200));
        }
        (!writes).then(|| Span::from_ms(1_000))
    }

    fn ended(&mut self, ask: &Ask<Words>, now: Instant, ending: Ending<Response>) {
        match ending {
            Ending::Answered(Response::Found { found: docs, lost, told, timed_out, .. }) => {
                self.found += 1;
                self.partial += u64::from(!lost.is_empty());
                self.timed_out += u64::from(timed_out);
                if self.broken.is_none() {
                    self.broken = self.look((ask.since, now), &docs, &lost, &told);
                }
            }
            Ending::Answered(Response::Written { doc }) => {
                if let Some(story) = self.stories.get_mut(&doc.id)
                    && let Some(act) = story.acts.last_mut()
                {
                    act.done = Some((now, doc.version));
                }
            }
            Ending::Answered(Response::Stays) => {
                self.leaves[self.told] = ask.request == Request::Stay(false);
            }
            Ending::Answered(Response::Spread { accepted }) => {
                assert!(accepted);
                if let Request::Spread { p } = ask.request {
                    self.wanted = Some(p);
                }
            }
            Ending::Unknown => {
                let asks = matches!(ask.request, Request::Search { .. } | Request::Ranges(()));
                if self.broken.is_none() && asks {
                    self.broken = Some(format!("ends: no answer since {}", ask.since));
                }
            }
        }
    }
}

/// Work takes what servers say, and up to half as much again. A document that is copied takes ten
/// times as long as one that is scanned.
struct Servers {
    draws: Stream,
    /// By server, how many times as long it takes for some hundred works, if that changes.
    pace: Option<[(u64, u32); LAYOUT.servers as usize]>,
}

impl Hardware<Words> for Servers {
    fn work(&mut self, node: Node, job: &Job) -> Span {
        let cost = Cost { fixed_ns: 500_000, scan_ns: 4_000_000 };
        let ns = match job {
            Job::Scan(slice, ()) => cost.of(slice.width()),
            Job::Read(slice) | Job::Merge(slice) => 10 * cost.scanning(slice.width()),
        };
        let mut ns = ns + self.draws.below(ns / 2 + 1);
        if let (Some(paces), Some(server)) = (&mut self.pace, LAYOUT.number(node)) {
            let (pace, left) = &mut paces[server as usize];
            if *left == 0 {
                (*pace, *left) = (1 + self.draws.below(4), 50 + self.draws.below(150) as u32);
            }
            *left -= 1;
            ns = ns * *pace / 2;
        }
        Span::from_ns(ns)
    }
}

struct Watch<'a> {
    config: &'a Config,
    calm: bool,
    /// What each server holds, as it says.
    held: Vec<Option<Slice>>,
    /// Servers that have lost what they held and were not put out of step since: they do not
    /// answer, whatever maps say.
    lost: BTreeSet<u32>,
    /// The newest version of each document that each server has logged in this life.
    logged: BTreeMap<(Node, Id), u64>,
    /// The same in all lives.
    ever: BTreeMap<(Node, Id), u64>,
    /// The newest map.
    map: Arc<Map>,
    /// Queries that front ends were asked, and until when.
    asked: BTreeMap<(Node, Call), Option<Instant>>,
    /// Parts that servers were asked for and others before: by server, front end, query, part.
    again: BTreeSet<(Node, Node, u64, u32)>,
    bounced: u64,
    broken: Option<String>,
    put_out: u64,
    moves: u64,
    borders: u64,
    moved: u64,
    /// Where ranges begin by the newest map.
    starts: Option<Arc<[Id]>>,
}

impl Watch<'_> {
    /// A server in step that holds a document for queries and has not logged it.
    fn lacks(&self, doc: &Doc) -> Option<u32> {
        let rings = Rings { beside: None, ..self.config.rings(&self.map) };
        let logged = |server: u32| self.ever.get(&(LAYOUT.server(server), doc.id));
        let lacks = |server: &u32| {
            self.map.is_up(*server) && logged(*server).is_none_or(|version| *version < doc.version)
        };
        rings.holders(doc.id, self.map.p).into_iter().find(lacks)
    }
}

impl Observer<Member> for Watch<'_> {
    fn watches(&self) -> bool {
        true
    }

    fn hears(&mut self, now: Instant, node: Node, input: &Input<Words>) {
        if let Input::Call { call, request: Request::Search { within, .. } } = input {
            self.asked.insert((node, *call), within.map(|within| now + within));
        }
        if let Input::Rx { from, message: Message::Sub { query, part, again, .. }, .. } = input
            && *again
        {
            self.again.insert((node, *from, *query, *part));
        }
    }

    fn says(&mut self, now: Instant, node: Node, effect: &Effect<Words>) {
        if let Effect::Reply { call, response: Response::Found { timed_out, .. } } = effect {
            let until = self.asked.remove(&(node, *call)).flatten();
            let is_late = until.is_some_and(|until| now > until);
            let is_early = *timed_out && until.is_none_or(|until| now < until);
            if (is_late || is_early) && self.broken.is_none() {
                self.broken = Some(format!("timely: {now}: {call:?} is answered, for {until:?}"));
            }
        }
        if let Effect::Reply { response: Response::Written { doc }, .. } = effect
            && self.broken.is_none()
        {
            self.broken = self.lacks(doc).map(|server| {
                format!("logged: {now}: {doc:?} is acknowledged, and server {server} lacks it")
            });
        }
        if let Effect::Send { to, message: Message::Answer { query, part, outcome }, .. } = effect {
            let again = self.again.remove(&(node, *to, *query, *part));
            let busy = matches!(outcome, Outcome::Overloaded { .. });
            let refused = matches!(outcome, Outcome::Refused { .. });
            // At first servers have no lease yet.
            let knows = self.config.balance.is_some() && now > Instant::ZERO + LEASED;
            if refused && self.calm && knows && self.broken.is_none() {
                self.broken = Some(format!("held: {now}: {node:?} refuses {to:?} {query}"));
            }
            self.bounced += u64::from(busy);
            if busy && again && self.broken.is_none() {
                self.broken = Some(format!("taken: {now}: {node:?} refuses again {to:?} {query}"));
            }
        }
        if let Effect::Store { record: Record::Held(slice), .. } = effect {
            // What it drops it may copy again later, from one that never had a write under way.
            self.logged.retain(|(whose, id), _| *whose != node || slice.contains(*id));
        }
        if let Effect::Store { record: Record::Kept { wanted, .. }, .. } = effect {
            self.logged.retain(|(whose, id), _| *whose != node || wanted.contains(*id));
        }
        if let Effect::Store { record: Record::Left, .. } = effect {
            self.logged.retain(|(whose, _), _| *whose != node);
        }
        let Effect::Store { record: Record::Doc(doc), .. } = effect else { return };
        let ever = self.ever.entry((node, doc.id)).or_default();
        *ever = doc.version.max(*ever);
        let newest = self.logged.entry((node, doc.id)).or_default();
        if *newest > doc.version && self.broken.is_none() {
            self.broken = Some(format!("forward: {now}: {node:?} had {newest}, logs {doc:?}"));
        }
        *newest = doc.version.max(*newest);
    }

    fn crashes(&mut self, _: Instant, node: Node, _: &Member) {
        // What was not stored is gone with it.
        self.logged.retain(|(whose, _), _| *whose != node);
        self.asked.retain(|(whose, _), _| *whose != node);
    }

    fn is_back(&mut self, _: Instant, node: Node, machine: &Member) {
        // One that it had stored and not published before it crashed.
        if let Some(map) = machine.map() {
            self.map = Arc::new(map.clone());
        }
        if let (Some(server), Member::Server(own)) = (LAYOUT.number(node), machine) {
            let before = std::mem::replace(&mut self.held[server as usize], own.held());
            if before.is_some() && own.held().is_none() {
                self.lost.insert(server);
            }
        }
    }

    fn note(&mut self, now: Instant, node: Node, note: &Note) {
        let map = match note {
            Note::Published(map) => map,
            Note::Holds { slice, .. } => {
                if let Some(server) = LAYOUT.number(node) {
                    self.held[server as usize] = Some(*slice);
                }
                return;
            }
            Note::Left => {
                if let Some(server) = LAYOUT.number(node) {
                    self.held[server as usize] = None;
                }
                return;
            }
        };
        self.map = map.clone();
        self.lost.retain(|server| map.is_up(*server));
        for server in (0..LAYOUT.servers).filter(|server| map.is_up(*server)) {
            if self.lost.contains(&server) {
                continue;
            }
            let rings = Rings { beside: None, ..self.config.rings(map) };
            let Some(needed) = rings.wants(server, map.p) else { continue };
            let held = self.held[server as usize];
            if !held.is_some_and(|held| held.covers(needed)) && self.broken.is_none() {
                let text = format!("arcs: {now}: server {server} has {held:?} of {needed:?}");
                self.broken = Some(text);
            }
        }
        let begun = map.moving.as_ref().filter(|moving| !moving.switched && !map.settled);
        if let Some(moving) = begun {
            match moving.what {
                Move::Borders(_) => self.borders += 1,
                Move::Leaves(_) | Move::Joins(_) => self.moves += 1,
            }
        }
        self.moved += u64::from(map.starts != self.starts);
        self.starts.clone_from(&map.starts);
        if map.states.contains(&State::Down) {
            self.put_out += 1;
            if self.calm && self.broken.is_none() {
                self.broken = Some(format!("in step: {now}: {map:?}"));
            }
        }
    }
}

/// What a run came to, or several together.
#[derive(Debug, Default)]
pub struct Ended {
    /// What an oracle says, if one was broken.
    pub broken: Option<String>,
    pub found: u64,
    pub partial: u64,
    /// Answers that were given at a deadline.
    pub timed_out: u64,
    /// Parts that were refused by busy servers.
    pub bounced: u64,
    /// Maps in which somebody was out of step.
    pub put_out: u64,
    /// Servers that began to leave or to join.
    pub moves: u64,
    /// Moves of borders that were begun, and those that came to their end.
    pub borders: u64,
    pub moved: u64,
}

/// Runs it. `gone`: servers that are away for ever.
pub fn go(habit: Habit, setup: &Setup, gone: u32) -> Ended {
    let config = config(habit);
    let mut clients = Callers {
        habit,
        draws: Stream::keyed(setup.seed, 0, Purpose::Arrivals),
        stories: BTreeMap::new(),
        wanted: None,
        leaves: [false; LAYOUT.servers as usize],
        told: 0,
        found: 0,
        partial: 0,
        timed_out: 0,
        broken: None,
    };
    let pace = habit.balance.map(|_| [(1, 0); LAYOUT.servers as usize]);
    let mut hardware = Servers { draws: Stream::keyed(setup.seed, 1, Purpose::Arrivals), pace };
    let logged = BTreeMap::new();
    let held = (0..LAYOUT.servers).map(|server| Some(config.holds(server, config.p))).collect();
    let mut watch = Watch {
        config: &config,
        calm: habit.calm,
        held,
        lost: BTreeSet::new(),
        logged,
        ever: BTreeMap::new(),
        map: config.first_map(),
        asked: BTreeMap::new(),
        again: BTreeSet::new(),
        bounced: 0,
        broken: None,
        put_out: 0,
        moves: 0,
        borders: 0,
        moved: 0,
        starts: None,
    };
    let parts = Parts {
        clients: &mut clients,
        hardware: &mut hardware,
        pending: &mut Heap4::new(),
        observer: &mut watch,
    };
    let (_, machines) = run(setup, |node| Member::new(&config, node), parts);
    let late = || {
        let late = watch.asked.iter().find(|(_, until)| until.is_some());
        late.map(|(asked, until)| format!("timely: {asked:?} has no answer, for {until:?}"))
    };
    let kept = || {
        let queries = |machine: &Member| match machine {
            Member::FrontEnd(own) => own.under_way().0,
            _ => 0,
        };
        let left: usize = machines.iter().flatten().map(queries).sum();
        (left > 0).then(|| format!("ends: {left} queries are not forgotten"))
    };
    let ends = || {
        let map = machines[0].as_ref().and_then(Member::map)?;
        let there = |state: &&State| !matches!(state, State::Up | State::Out);
        let down = map.states.iter().filter(there).count() as u32;
        // Who is out was told to leave; who crashed since has come back by itself.
        let mut out = (0..LAYOUT.servers as usize).filter(|&s| map.states[s] == State::Out);
        let told = out.all(|server| clients.leaves[server]);
        let wanted = clients.wanted.unwrap_or(map.p);
        // Borders follow what servers take, which changes until the end.
        let borders = |moving: &Moving| matches!(moving.what, Move::Borders(_));
        let rests = match &map.moving {
            Some(moving) => borders(moving),
            None => map.settled,
        };
        let there = |map: &Map| map.p == wanted && map.stored == wanted && rests && told;
        // With servers gone for ever, p may be one that would lose what they alone have.
        let reached = down == 0 && there(map) || gone > 0 && down <= gone;
        (!reached).then(|| format!("ends: wanted p {:?}, got {map:?}", clients.wanted))
    };
    let watched = watch.broken.clone();
    let Watch { put_out, moves, borders, moved, bounced, .. } = watch;
    let broken = clients.broken.clone().or(watched).or_else(late).or_else(kept).or_else(ends);
    let Callers { found, partial, timed_out, .. } = clients;
    Ended { broken, found, partial, timed_out, bounced, put_out, moves, borders, moved }
}
