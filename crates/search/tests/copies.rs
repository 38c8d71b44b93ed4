//! What a server tells one that copies from it, what it says it has before it, and what it takes
//! its log for.

use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Entry, Input, Via, Work};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_search::cluster::{
    Config, Doc, Job, Layout, Map, Member, Message, Outcome, Record, State, Timer, Words,
};
use cavy_search::{Cost, Ring, Slice};
use std::sync::Arc;

const LAYOUT: Layout = Layout { front_ends: 1, servers: 3 };

/// Server 0, and what it wants of the world.
struct Talk {
    config: Config,
    machine: Member,
    rng: Stream,
    now: Instant,
    effects: Vec<Effect<Words>>,
    /// What it has stored.
    log: Vec<Record>,
    /// The disk does not say so.
    stalls: bool,
}

impl Talk {
    /// With what an earlier life stored.
    fn new(log: Vec<Record>) -> Talk {
        Talk::with(log, |_| {})
    }

    fn with(log: Vec<Record>, change: impl FnOnce(&mut Config)) -> Talk {
        let ring = Ring::equal(&[0, 1, 2]);
        let cost = Cost { fixed_ns: 1_000, scan_ns: 1_000_000 };
        let mut config = Config::new(LAYOUT, vec![ring], 2, vec![cost; 3]);
        (config.chunk, config.piece, config.window) = (1 << 62, 1 << 60, 1 << 62);
        change(&mut config);
        let machine = Member::new(&config, LAYOUT.server(0));
        let rng = Stream::keyed(1, 0, Purpose::Test);
        let (now, effects) = (Instant::from_ns(1), Vec::new());
        let (log_before, log, stalls) = (log, Vec::new(), false);
        let mut talk = Talk { config, machine, rng, now, effects, log, stalls };
        talk.step(|machine, cx| machine.start(cx));
        for record in log_before {
            talk.log.push(record.clone());
            let entry = Entry(talk.log.len() as u64);
            talk.hear(Input::Replay { entry, record });
        }
        if !talk.log.is_empty() {
            talk.hear(Input::Recovered { torn: false });
        }
        talk.step(|machine, cx| machine.expire(Timer::Tick, cx));
        talk
    }

    fn step(&mut self, step: impl FnOnce(&mut Member, &mut Cx<'_, Effect<Words>, Timer>)) {
        let mut outbox = Outbox::with_capacity(self.machine.effects_max());
        step(&mut self.machine, &mut Cx::new(self.now, &mut self.rng, &mut outbox));
        let mut stored = false;
        for out in outbox.drain() {
            let Out::Effect(effect) = out else { continue };
            if let Effect::Store { record, .. } = &effect {
                self.log.push(record.clone());
                stored = true;
            }
            self.effects.push(effect);
        }
        self.machine.check();
        if stored && !self.stalls {
            let upto = Entry(self.log.len() as u64);
            self.hear(Input::Stored { upto });
        }
    }

    fn hear(&mut self, input: Input<Words>) {
        self.step(|machine, cx| machine.handle(input, cx));
    }

    fn told(&mut self, from: Node, message: Message) {
        let (via, arrived) = (Via::Channel, self.now);
        self.hear(Input::Rx { from, via, message, arrived });
    }

    /// The serial and the life of its last beat.
    fn beat(&self) -> Option<(u64, u64)> {
        self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Send { message: Message::Beat { serial, life, .. }, .. } => {
                Some((*serial, *life))
            }
            _ => None,
        })
    }

    /// It gets the lease that it asked for, with a map in which it is in this state.
    fn grant(&mut self, state: State) {
        let mut map = Map::clone(&self.config.first_map());
        map.states[0] = state;
        self.lead(map);
    }

    /// It gets the lease that it asked for, and this map.
    fn lead(&mut self, map: Map) {
        let serial = self.beat().map_or(0, |(serial, _)| serial);
        self.told(Layout::DIRECTORY, Message::Grant { serial, map: Some(Arc::new(map)) });
    }

    /// Whether it has logged a document: an older version of it is told so.
    fn knows(&mut self, id: u64) -> bool {
        self.effects.clear();
        let doc = Doc { id, version: 0, deleted: true, body: () };
        self.told(LAYOUT.front_end(0), Message::Put { write: 1, doc });
        let newer = |effect: &Effect<Words>| match effect {
            Effect::Send { message: Message::Logged { newer, .. }, .. } => *newer,
            _ => None,
        };
        self.effects.iter().find_map(newer) == Some(1)
    }

    fn write(&mut self, id: u64) -> bool {
        self.effects.clear();
        let doc = Doc { id, version: 1, deleted: false, body: () };
        self.told(LAYOUT.front_end(0), Message::Put { write: id, doc });
        let logged = |effect: &Effect<Words>| {
            matches!(effect, Effect::Send { message: Message::Logged { .. }, .. })
        };
        self.effects.iter().any(logged)
    }

    fn holds(&self) -> bool {
        matches!(&self.machine, Member::Server(own) if own.held().is_some())
    }

    /// Works until there is no more work, and says of the first time that `before` does.
    fn work(&mut self, before: impl FnOnce(&mut Talk)) {
        let mut before = Some(before);
        while let Some(work) = self.effects.iter().find_map(work_of) {
            self.effects.clear();
            before.take().into_iter().for_each(|before| before(self));
            self.now += Span::from_us(10);
            let took = Span::from_us(10);
            self.hear(Input::WorkDone { work, took, finished: true });
        }
    }

    /// Goes on for a while, and keeps what it says.
    fn go_on(&mut self) {
        let mut done = Vec::new();
        for _ in 0..50 {
            self.now += Span::from_ms(1);
            self.step(|machine, cx| machine.expire(Timer::Send, cx));
            self.step(|machine, cx| machine.expire(Timer::Read, cx));
            let works: Vec<Work> = self.effects.iter().filter_map(work_of).collect();
            for work in works.into_iter().filter(|work| !done.contains(work)).collect::<Vec<_>>() {
                done.push(work);
                self.hear(Input::WorkDone { work, took: Span::from_us(10), finished: true });
            }
        }
    }

    /// What it has sent of its documents.
    fn chunks(&self) -> Vec<(Slice, Arc<[Doc]>)> {
        let chunk = |effect: &Effect<Words>| match effect {
            Effect::Send { message: Message::Chunk { slice, docs, .. }, .. } => {
                Some((*slice, docs.clone()))
            }
            _ => None,
        };
        self.effects.iter().filter_map(chunk).collect()
    }
}

fn work_of(effect: &Effect<Words>) -> Option<Work> {
    match effect {
        Effect::Work { work, job: Job::Read(_) } => Some(*work),
        _ => None,
    }
}

/// A document that is written while others are read for a copy does not push one of these out of
/// the chunk.
#[test]
fn clause_2_8_a_chunk_has_all_documents_of_its_slice() {
    let mut talk = Talk::new(Vec::new());
    talk.grant(State::Up);
    let first = 1 << 60;
    let ids: Vec<u64> = (0..64).map(|n| first + ((n + 1) << 50)).collect();
    let late = first + (5 << 49);
    assert!(ids.iter().all(|id| talk.write(*id)));
    talk.effects.clear();
    let slice = Slice::new(0, 1 << 61);
    let (ask, written_only) = (7, false);
    talk.told(LAYOUT.server(1), Message::Fetch { ask, slice, written_only });
    talk.work(|talk| {
        let doc = Doc { id: late, version: 1, deleted: false, body: () };
        talk.told(LAYOUT.front_end(0), Message::Put { write: 9, doc });
    });
    assert_eq!(talk.chunks().len(), 1, "one piece was read so far");
    talk.go_on();
    let all: Vec<u64> = ids.into_iter().chain([late]).collect();
    whole(&talk.chunks(), slice, &all);
}

/// Pieces tile a slice, and each has those of these documents that are in it.
fn whole(chunks: &[(Slice, Arc<[Doc]>)], slice: Slice, ids: &[u64]) {
    let mut edge = slice.hi;
    for (part, docs) in chunks {
        assert_eq!(part.hi, edge, "pieces go backwards without a gap");
        edge = part.lo;
        for id in ids.iter().filter(|id| part.contains(**id)) {
            let sent = docs.iter().any(|doc| doc.id == *id);
            assert!(sent, "{id:#x} is in {part:?} and not in the chunk");
        }
    }
    assert_eq!(edge, slice.lo, "{chunks:?}");
}

/// Where a window would have more written documents than it may, pieces are shorter: a quarter of
/// a window has a quarter of them.
#[test]
fn clause_2_8_pieces_are_shorter_where_there_are_more_documents() {
    let slice = Slice::new(0, 1 << 61);
    for (most, pieces) in [(None, 2), (Some(1_000), 2), (Some(16), 10), (Some(4), 38)] {
        let mut talk = Talk::with(Vec::new(), |config| config.window_documents = most);
        talk.grant(State::Up);
        // It holds five sixths of the ring, so that a window, which is a quarter, has 77.
        let ids: Vec<u64> = (0..256).map(|n| (n << 56) + 1).collect();
        let held = ids.iter().filter(|id| talk.write(**id)).count();
        assert!(held > 200, "it takes {held}");
        talk.effects.clear();
        talk.told(LAYOUT.server(1), Message::Fetch { ask: 7, slice, written_only: false });
        talk.go_on();
        let chunks = talk.chunks();
        whole(&chunks, slice, &ids);
        let most = most.map_or(64, |most| most as usize).div_ceil(4);
        assert!(chunks.iter().all(|(_, docs)| docs.len() <= most + 1), "{chunks:?}");
        assert!(chunks.len() >= pieces, "{} pieces", chunks.len());
    }
}

/// What a server says that it has before it goes by the costs that it was given, or by what its
/// queries took.
#[test]
fn clause_2_4_a_server_learns_what_it_has_before_it() {
    for (learned, expected_us) in [(false, 126), (true, 10_000)] {
        let mut talk = Talk::with(Vec::new(), |config| config.backlog_is_learned = learned);
        talk.grant(State::Up);
        let slice = Slice::new(0, 1 << 61);
        // One is always behind the one that is worked on.
        for query in 0..=40 {
            let (part, question, again) = (0, (), false);
            talk.told(LAYOUT.front_end(0), Message::Sub { query, part, slice, question, again });
        }
        let mut backlogs = Vec::new();
        for query in 1..=40 {
            talk.effects.clear();
            let (work, took) = (Work(query), Span::from_ms(10));
            talk.hear(Input::WorkDone { work, took, finished: true });
            let answer = talk.effects.iter().find_map(|effect| match effect {
                Effect::Send { message: Message::Answer { outcome, .. }, .. } => Some(outcome),
                _ => None,
            });
            let Some(Outcome::Done { backlog, .. }) = answer else { panic!("{answer:?}") };
            backlogs.push(*backlog);
        }
        let last = backlogs.last().expect("answers").as_ns() / 1_000;
        assert!(last.abs_diff(expected_us) < 3, "an eighth of the ring, one query left: {last} us");
    }
}

/// Where a range has moved on, so that a server has less than it is to have and something that it
/// is not to have, what was written beside what it holds is there after a crash: it was
/// acknowledged, and the copy that comes need not have it.
#[test]
fn clause_2_10_what_was_written_beside_what_is_held_survives_a_cut() {
    let (third, step) = (u64::MAX / 3, 1 << 58);
    for (moved, kept) in [(step, true), (1 << 63, false)] {
        let mut talk = Talk::with(Vec::new(), |config| config.p = 12);
        talk.grant(State::Up);
        assert!(talk.write(5));
        let map = Map::clone(&talk.config.first_map());
        let starts = [0, third + 1, 2 * third + 1].map(|start: u64| start.wrapping_add(moved));
        let states = vec![State::Behind(1), State::Up, State::Up];
        let map = Map { epoch: 2, states, starts: Some(Arc::from(starts)), ..map };
        let wanted = talk.config.rings(&map).wants(0, 12).expect("it is on the ring");
        // Written while it has not heard of that yet.
        let beyond = wanted.hi - 7;
        assert!(talk.write(beyond));
        talk.lead(map);
        assert_eq!(talk.holds(), kept, "{moved:#x}");
        let mut again = Talk::new(talk.log.clone());
        for talk in [&mut talk, &mut again] {
            assert!(talk.knows(beyond), "what was written beside is forgotten");
            assert_eq!(talk.knows(5), wanted.contains(5), "{wanted:?}");
            assert_eq!(talk.holds(), kept);
        }
    }
}

/// So is what was written beside a copy that a newer map wants less of, before the disk has it.
#[test]
fn clause_2_8_what_was_written_beside_a_copy_that_is_given_up_survives_a_crash() {
    let mut talk = Talk::with(Vec::new(), |config| config.p = 3);
    talk.grant(State::Up);
    // All of the ring is wanted of it; it holds two thirds.
    let map = Map::clone(&talk.config.first_map());
    talk.lead(Map { epoch: 2, stored: 1, ..map.clone() });
    let fetch = talk.effects.iter().find_map(|effect| match effect {
        Effect::Send { message: Message::Fetch { ask, slice, .. }, .. } => Some((*ask, *slice)),
        _ => None,
    });
    let (ask, slice) = fetch.expect("it wants a copy");
    talk.stalls = true;
    let docs: Arc<[Doc]> = Arc::from([]);
    talk.told(LAYOUT.server(1), Message::Chunk { ask, slice, docs, bytes: 0 });
    let merge = talk.effects.iter().find_map(|effect| match effect {
        Effect::Work { work, job: Job::Merge(_) } => Some(*work),
        _ => None,
    });
    let (work, took) = (merge.expect("it takes it in"), Span::from_us(10));
    talk.hear(Input::WorkDone { work, took, finished: true });
    let beside = slice.hi - 9;
    talk.write(beside);
    // Five sixths are wanted: less than what it will hold, and more than it holds.
    let map = Map { epoch: 3, p: 3, stored: 2, ..map };
    let wanted = talk.config.rings(&map).wants(0, 2).expect("it is on the ring");
    assert!(wanted.contains(beside) && !wanted.covers(slice));
    talk.lead(map);
    let mut again = Talk::with(talk.log.clone(), |config| config.p = 3);
    assert!(talk.knows(beside) && again.knows(beside));
}

/// A server has no name before it is stored, logs no write before the directory knows it by that
/// name, and holds what a new cluster begins with if the directory counts on it, and else nothing.
#[test]
fn clause_2_9_an_empty_log_is_taken_for_what_it_is() {
    for (state, holds) in [(State::Up, true), (State::Behind(1), false), (State::Down, false)] {
        let mut talk = Talk::new(Vec::new());
        assert!(matches!(talk.log[..], [Record::Life(_)]));
        assert!(!talk.holds() && !talk.write(1), "it logs what nobody counts on");
        // What was meant for the log before counts for nothing.
        let map = Some(talk.config.first_map());
        talk.told(Layout::DIRECTORY, Message::Grant { serial: 0, map });
        assert!(!talk.holds());
        talk.step(|machine, cx| machine.expire(Timer::Tick, cx));
        talk.grant(state);
        assert_eq!(talk.holds(), holds, "{state:?}");
        assert!(talk.write(1));
        // It comes back with its log, and is the same.
        let (_, life) = {
            talk.step(|machine, cx| machine.expire(Timer::Tick, cx));
            talk.beat()
        }
        .expect("a beat");
        let again = Talk::new(talk.log);
        assert_eq!(again.beat().map(|(_, life)| life), Some(life));
        assert_eq!(again.holds(), holds, "{state:?}");
    }
}
