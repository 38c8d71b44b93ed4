//! A server of a search cluster among liars: whatever other nodes say, it answers for slices that
//! it holds and no others, while it has a lease, and it comes to hold nothing that it was not
//! given.
//!
//! Included by the fuzzer `search` and by `crates/search/tests/hostile.rs`.

use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Input, Via};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_search::cluster::{
    Config, Doc, Layout, Map, Member, Message, Move, Moving, Outcome, State, Timer, Words,
};
use cavy_search::{Cost, Id, Ring, Slice};
use std::sync::Arc;

const LAYOUT: Layout = Layout { front_ends: 2, servers: 4 };

/// Numbers from bytes; zero when there are none left.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Near borders of ranges, or anywhere.
    fn id(&mut self) -> Id {
        let (at, off) = (u64::from(self.byte()), u64::from(self.byte()));
        match at < 128 {
            true => (at % 8) << 61,
            false => at << 56 | off << 20,
        }
        .wrapping_add(off % 3)
        .wrapping_sub(1)
    }

    fn slice(&mut self) -> Slice {
        Slice::new(self.id(), self.id())
    }

    fn doc(&mut self) -> Doc {
        let version = u64::MAX >> (self.byte() % 64);
        Doc { id: self.id(), version, deleted: self.byte() & 1 == 1, body: () }
    }
}

/// Runs a server by what `bytes` say.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let ring = Ring::equal(&[0, 1, 2, 3]);
    let cost = Cost { fixed_ns: 1_000, scan_ns: 1_000_000 };
    let mut config = Config::new(LAYOUT, vec![ring], 3, vec![cost; 4]);
    (config.chunk, config.piece, config.window) = (1 << 61, 1 << 59, 1 << 62);
    let me = LAYOUT.server(1);
    let mut machine: Member = Member::new(&config, me);
    let mut outbox: Outbox<Effect<Words>, Timer> = Outbox::with_capacity(machine.effects_max());
    let mut rng = Stream::keyed(1, 0, Purpose::Test);
    let (mut now, mut epoch, mut beats, mut works, mut asked) =
        (Instant::from_ns(1), 1, Vec::new(), Vec::new(), 0);
    let mut stored = 0;
    // What the directory's newest map lets it answer for.
    let mut up = false;
    let mut wanted = None;
    machine.start(&mut Cx::new(now, &mut rng, &mut outbox));
    for _ in 0..400 {
        for out in outbox.drain() {
            let Out::Effect(effect) = out else { continue };
            match effect {
                Effect::Work { work, .. } => works.push(work),
                Effect::Store { entry, .. } => stored = entry.0,
                Effect::Send { message: Message::Beat { serial, .. }, .. } => beats.push(serial),
                Effect::Send { message: Message::Fetch { ask, .. }, .. } => asked = ask,
                Effect::Send {
                    message: Message::Answer { outcome: Outcome::Done { .. }, .. },
                    ..
                } => assert!(up, "it answers and is not in step"),
                _ => {}
            }
        }
        if bytes.0.is_empty() {
            return;
        }
        let liar = match bytes.byte() % 3 {
            0 => LAYOUT.front_end(0),
            1 => LAYOUT.server(2),
            _ => Node(u32::from(bytes.byte())),
        };
        let (mut from, ask) = (liar, if bytes.byte() & 1 == 0 { asked } else { 7 });
        let any_map = |bytes: &mut Bytes<'_>| {
            let p = 1 + u32::from(bytes.byte() % 4);
            let states = (0..4).map(|_| match bytes.byte() % 4 {
                0 => State::Down,
                1 => State::Behind(u64::from(bytes.byte())),
                _ => State::Up,
            });
            let states: Vec<State> = states.collect();
            let how = bytes.byte();
            let stored = 1 + u32::from(how / 4) % p;
            // Borders are within an eighth of the ring of where they began, so that slices meet.
            let mut borders = || -> Arc<[Id]> {
                let off = |byte: u8| (u64::from(byte) << 54).wrapping_sub(1 << 61);
                (0..4u64).map(|at| (at << 62).wrapping_add(off(bytes.byte()))).collect()
            };
            let starts = (how & 1 == 1).then(&mut borders);
            let moving = (how & 2 == 2)
                .then(|| Moving { what: Move::Borders(borders()), switched: how & 4 == 4 });
            Map { epoch: 0, p, stored, settled: true, states, starts, moving }
        };
        let message = match bytes.byte() % 8 {
            0 => {
                let (query, part) = (u64::from(bytes.byte()), u32::from(bytes.byte()));
                let again = query % 2 == 1;
                Message::Sub { query, part, slice: bytes.slice(), question: (), again }
            }
            1 => Message::Put { write: u64::from(bytes.byte()), doc: bytes.doc() },
            2 => Message::Fetch { ask, slice: bytes.slice(), written_only: bytes.byte() & 1 == 0 },
            3 => {
                let docs: Vec<Doc> = (0..bytes.byte() % 4).map(|_| bytes.doc()).collect();
                Message::Chunk { ask, slice: bytes.slice(), docs: docs.into(), bytes: 9 }
            }
            // Grants of somebody else count for nothing.
            4 => {
                let map = Map { epoch: u64::MAX, ..any_map(&mut bytes) };
                let from_directory = from == Layout::DIRECTORY;
                from = if from_directory { LAYOUT.front_end(1) } else { from };
                Message::Grant {
                    serial: beats.last().copied().unwrap_or(0),
                    map: Some(Arc::new(map)),
                }
            }
            5 => {
                epoch += 1;
                let map = Map { epoch, ..any_map(&mut bytes) };
                up = map.is_up(1);
                wanted = config.rings(&map).wants(1, map.stored);
                from = Layout::DIRECTORY;
                Message::Grant {
                    serial: beats.last().copied().unwrap_or(0),
                    map: Some(Arc::new(map)),
                }
            }
            6 => {
                let done = bytes.byte() as usize;
                let mut cx = Cx::new(now, &mut rng, &mut outbox);
                if works.is_empty() {
                    machine.handle(Input::Stored { upto: entry(stored) }, &mut cx);
                } else {
                    let work = works.remove(done % works.len());
                    let took = Span::from_us(3);
                    machine.handle(Input::WorkDone { work, took, finished: true }, &mut cx);
                }
                machine.check();
                continue;
            }
            _ => {
                now += Span::from_ms(u64::from(bytes.byte()) * 3);
                let timer = match bytes.byte() % 4 {
                    0 => Timer::Tick,
                    1 => Timer::Copy,
                    2 => Timer::Read,
                    _ => Timer::More,
                };
                machine.expire(timer, &mut Cx::new(now, &mut rng, &mut outbox));
                machine.check();
                continue;
            }
        };
        let input = Input::Rx { from, via: Via::Channel, message, arrived: now };
        machine.handle(input, &mut Cx::new(now, &mut rng, &mut outbox));
        machine.check();
        if let Member::Server(own) = &machine
            && let Some(held) = own.held()
        {
            let own = wanted.is_some_and(|wanted: Slice| wanted.covers(held));
            assert!(own, "it holds {held:?}, which is not its own: {wanted:?}");
        }
    }
}

fn entry(count: u64) -> cavy_core::family::message::Entry {
    cavy_core::family::message::Entry(count)
}
