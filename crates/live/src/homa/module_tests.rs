//! Whole conversations with a model of the Linux module: what it sends and when, as [homa 2.11],
//! [homa 2.12] and [homa 7.3] have it and its public source behaves, over its own bytes. The model
//! shares no code with the endpoint. The network loses, doubles and delays; the module stands still
//! for 300 ms, restarts, and changes its cut-offs.

use super::{CallError, Handler, Options, Peer};
use crate::clock::by_hand;
use crate::packet::client::Done;
use crate::packet::endpoint::{Command, Shared};
use crate::packet::engine::Engine;
use crate::sync::Arc;
use bytes::Bytes;
use cavy_core::{Instant, Machine as _, Purpose, Span, Stream};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;

const PACKET: usize = 1_424;
const UNSCHEDULED: usize = 40_000;
const WINDOW: usize = 200_000;
const SERVER: u16 = 99;
/// Its client socket, and its server's.
const PORTS: [u16; 2] = [0x800a, 77];

const DATA: u8 = 0x10;
const GRANT: u8 = 0x11;
const RESEND: u8 = 0x12;
const UNKNOWN: u8 = 0x13;
const BUSY: u8 = 0x14;
const CUTOFFS: u8 = 0x15;
const NEED_ACK: u8 = 0x17;
const ACK: u8 = 0x18;

/// A message that says who it is and how long its answer shall be; all else follows from that.
fn text(salt: u32, answer: usize, length: usize) -> Vec<u8> {
    let mut text = [salt.to_be_bytes(), (answer as u32).to_be_bytes()].concat();
    text.extend((text.len()..length).map(|at| (at as u32 ^ salt).wrapping_mul(31) as u8));
    text
}

fn answer_to(question: &[u8]) -> Vec<u8> {
    let number = |at: usize| u32::from_be_bytes(question[at..at + 4].try_into().expect("four"));
    text(number(0) | 1 << 31, 0, number(4) as usize)
}

/// A message on its way out.
#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    sent: usize,
    granted: usize,
}

/// A message on its way in: packets by their first byte.
struct In {
    bytes: Vec<u8>,
    parts: BTreeMap<usize, usize>,
    granted: usize,
}

impl In {
    fn received(&self) -> usize {
        self.parts.values().sum()
    }

    /// Overlaps that are no repetition are dropped, as gaps are kept there.
    fn add(&mut self, start: usize, piece: &[u8]) {
        let end = start + piece.len();
        let clear = self.parts.range(..end).next_back().is_none_or(|(&at, &n)| at + n <= start);
        if end <= self.bytes.len() && clear {
            self.bytes[start..end].copy_from_slice(piece);
            self.parts.insert(start, piece.len());
        }
    }

    /// What is asked for again: gaps, and what was granted behind the last packet.
    fn missing(&self) -> Vec<(usize, usize)> {
        let (mut at, mut missing) = (0, Vec::new());
        for (&start, &length) in &self.parts {
            if start > at {
                missing.push((at, start - at));
            }
            at = start + length;
        }
        if self.granted > at {
            missing.push((at, self.granted - at));
        }
        missing
    }
}

/// An exchange at the module.
#[derive(Default)]
struct Rpc {
    port: u16,
    out: Out,
    inbound: Option<In>,
    silent: u32,
    /// Ticks since its answer was sent to the end.
    done: u32,
    /// Ticks until the application answers.
    serving: Option<u32>,
}

#[derive(Default)]
struct Module {
    rpcs: BTreeMap<u64, Rpc>,
    acks: Vec<(u64, u16)>,
    next: u64,
    version: u16,
    told: u64,
    ticks: u64,
    to_send: Vec<Vec<u8>>,
    answered: BTreeMap<u32, Vec<u8>>,
    timeouts: u32,
    need_acks: [u32; 2],
}

fn be<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("whole")
}

impl Module {
    fn packet(&mut self, id: u64, port: u16, kind: u8, body: &[u8]) {
        let source = PORTS[(id & 1) as usize];
        let mut bytes = [source.to_be_bytes(), port.to_be_bytes()].concat();
        bytes.extend([0, 0, 0, 0, 0, 0, 0, kind, 0x50, 6, 0, 0, 0, 0, 0xb9, 0x7d]);
        bytes.extend(id.to_be_bytes());
        bytes.extend(body);
        self.to_send.push(bytes);
    }

    fn data(&mut self, id: u64, start: usize, again: bool) {
        let rpc = &self.rpcs[&id];
        let (out, port) = (&rpc.out, rpc.port);
        let limit = if start < UNSCHEDULED { UNSCHEDULED } else { usize::MAX };
        let end = (start + PACKET).min(out.bytes.len()).min(limit);
        let (done, server) = self.acks.pop().unwrap_or((0, 0));
        let (length, granted) = (out.bytes.len() as u32, out.granted as u32);
        let mut body = [length.to_be_bytes(), granted.to_be_bytes()].concat();
        body.extend(done.to_be_bytes());
        body.extend([server.to_be_bytes(), self.version.to_be_bytes()].concat());
        body.extend([u8::from(again), 0, 0, 0]);
        body.extend((start as u32).to_be_bytes());
        body.extend(&out.bytes[start..end]);
        self.packet(id, port, DATA, &body);
    }

    /// Sends `start..end` in the packets that the message was cut into.
    fn range(&mut self, id: u64, start: usize, end: usize, again: bool) {
        let mut at = 0;
        while at < end {
            let limit = if at < UNSCHEDULED { UNSCHEDULED } else { usize::MAX };
            let next = (at + PACKET).min(self.rpcs[&id].out.bytes.len()).min(limit);
            if next > start {
                self.data(id, at, again);
            }
            at = next;
        }
    }

    fn transmit(&mut self, id: u64) {
        let Some(rpc) = self.rpcs.get_mut(&id) else { return };
        let (from, to) = (rpc.out.sent, rpc.out.granted.max(rpc.out.sent));
        rpc.out.sent = to;
        self.range(id, from, to, false);
    }

    fn begin(&mut self, id: u64, bytes: Vec<u8>, port: u16) {
        let rpc = self.rpcs.entry(id).or_default();
        let granted = bytes.len().min(UNSCHEDULED);
        (rpc.port, rpc.out) = (port, Out { bytes, sent: 0, granted });
        self.transmit(id);
    }

    fn call(&mut self, bytes: Vec<u8>) {
        self.next += 2;
        self.begin(self.next, bytes, SERVER);
    }

    fn resends(&mut self, id: u64) {
        let rpc = &self.rpcs[&id];
        let (port, whole) = (rpc.port, [(0, u32::MAX as usize)].into());
        let missing = rpc.inbound.as_ref().map_or(whole, In::missing);
        for (offset, length) in missing {
            let mut body = [(offset as u32).to_be_bytes(), (length as u32).to_be_bytes()].concat();
            body.push(7);
            self.packet(id, port, RESEND, &body);
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let (kind, sender) = (bytes[11], u64::from_be_bytes(be(bytes, 20)));
        let (id, source) = (sender ^ 1, u16::from_be_bytes(be(bytes, 0)));
        let at = |place: usize| u32::from_be_bytes(be(bytes, place)) as usize;
        let known = self.rpcs.contains_key(&id);
        if let Some(rpc) = self.rpcs.get_mut(&id).filter(|_| [DATA, GRANT, BUSY].contains(&kind)) {
            rpc.silent = 0;
        }
        match kind {
            DATA if known || id & 1 == 1 => self.receive_data(id, source, bytes),
            GRANT if known => {
                let rpc = self.rpcs.get_mut(&id).expect("known");
                if rpc.inbound.is_none() || id & 1 == 1 {
                    rpc.out.granted = rpc.out.granted.max(at(28).min(rpc.out.bytes.len()));
                    self.transmit(id);
                }
            }
            RESEND if !known => self.packet(id, source, UNKNOWN, &[]),
            RESEND => {
                let rpc = self.rpcs.get_mut(&id).expect("known");
                if id & 1 == 1 && rpc.out.bytes.is_empty() {
                    self.packet(id, source, BUSY, &[]);
                    return;
                }
                let (offset, sent) = (at(28), rpc.out.sent);
                let end = if at(32) == u32::MAX as usize { sent } else { offset + at(32) };
                rpc.out.granted = rpc.out.granted.max(end.min(rpc.out.bytes.len()));
                self.range(id, offset, end.min(sent), true);
                self.transmit(id);
                if offset >= sent {
                    self.packet(id, source, BUSY, &[]);
                }
            }
            UNKNOWN if known && id & 1 == 1 => _ = self.rpcs.remove(&id),
            UNKNOWN if known && self.rpcs[&id].inbound.is_none() => {
                self.range(id, 0, self.rpcs[&id].out.sent, true);
            }
            NEED_ACK if known => {
                self.need_acks[0] += 1;
                self.resends(id);
            }
            NEED_ACK => {
                self.need_acks[0] += 1;
                let list = std::mem::take(&mut self.acks);
                self.ack(id, source, &list);
            }
            ACK => {
                self.rpcs.remove(&id);
                let count = u16::from_be_bytes(be(bytes, 28));
                for place in (0..usize::from(count)).map(|nth| 30 + 10 * nth) {
                    self.rpcs.remove(&(u64::from_be_bytes(be(bytes, place)) | 1));
                }
            }
            _ => {}
        }
        if kind == DATA && be(bytes, 36) != [0; 8] {
            self.rpcs.remove(&(u64::from_be_bytes(be(bytes, 36)) | 1));
        }
    }

    /// An ACK whose header names one exchange and whose list has others.
    fn ack(&mut self, id: u64, port: u16, list: &[(u64, u16)]) {
        let mut body = (list.len() as u16).to_be_bytes().to_vec();
        for (id, port) in list {
            body.extend([&id.to_be_bytes()[..], &port.to_be_bytes()].concat());
        }
        body.resize(52, 0);
        self.packet(id, port, ACK, &body);
    }

    fn receive_data(&mut self, id: u64, source: u16, bytes: &[u8]) {
        let at = |place: usize| u32::from_be_bytes(be(bytes, place)) as usize;
        let start = if at(52) == u32::MAX as usize { at(4) } else { at(52) };
        let (length, incoming) = (at(28), at(32));
        let rpc = self.rpcs.entry(id).or_insert_with(|| Rpc { port: source, ..Rpc::default() });
        if rpc.serving.is_some() || id & 1 == 1 && !rpc.out.bytes.is_empty() {
            return;
        }
        let empty = || In { bytes: vec![0; length], parts: BTreeMap::new(), granted: incoming };
        let inbound = rpc.inbound.get_or_insert_with(empty);
        inbound.add(start, &bytes[56..]);
        let granted = (inbound.received() + WINDOW).min(length);
        let grants = granted > inbound.granted;
        inbound.granted = inbound.granted.max(granted);
        let whole = inbound.received() == length;
        if u16::from_be_bytes(be(bytes, 46)) != self.version && self.ticks >= self.told + 4 {
            self.told = self.ticks;
            let mut body = Vec::new();
            for bound in [0, 0, 0, 0, 1_000_000, 15_000, 2_800, 200 + u32::from(self.version)] {
                body.extend(bound.to_be_bytes());
            }
            body.extend(self.version.to_be_bytes());
            self.packet(id, source, CUTOFFS, &body);
        }
        if !whole {
            if grants {
                self.packet(
                    id,
                    source,
                    GRANT,
                    &[&(granted as u32).to_be_bytes()[..], &[0]].concat(),
                );
            }
        } else if id & 1 == 1 {
            self.rpcs.get_mut(&id).expect("known").serving = Some((id % 5) as u32);
        } else {
            let rpc = self.rpcs.remove(&id).expect("known");
            let salt = u32::from_be_bytes(be(&rpc.out.bytes, 0));
            let answer = rpc.inbound.expect("arrived").bytes;
            assert_eq!(answer, answer_to(&rpc.out.bytes), "{salt}: the answer is another one");
            assert!(self.answered.insert(salt, answer).is_none(), "answered twice");
            if self.acks.len() < 5 {
                self.acks.push((id, SERVER));
            } else {
                let list = std::mem::take(&mut self.acks);
                self.ack(id, SERVER, &list);
            }
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        for id in self.rpcs.keys().copied().collect::<Vec<_>>() {
            let rpc = self.rpcs.get_mut(&id).expect("of the list");
            if let Some(left) = rpc.serving {
                rpc.serving = left.checked_sub(1);
                if left == 0 {
                    let answer = answer_to(&rpc.inbound.take().expect("a question").bytes);
                    let port = rpc.port;
                    self.begin(id, answer, port);
                }
                continue;
            }
            let all_sent = rpc.out.sent == rpc.out.bytes.len();
            rpc.silent += 1;
            if id & 1 == 1 && !rpc.out.bytes.is_empty() {
                // A server waits for ever, and asks in every tick once all is sent.
                rpc.done += u32::from(all_sent);
                if rpc.done > 2 {
                    let port = rpc.port;
                    self.need_acks[1] += 1;
                    self.packet(id, port, NEED_ACK, &[]);
                }
                continue;
            }
            if rpc.inbound.as_ref().is_some_and(|inbound| inbound.received() >= inbound.granted) {
                rpc.silent = 0;
            }
            match rpc.silent {
                100.. => {
                    self.timeouts += u32::from(id & 1 == 0);
                    self.rpcs.remove(&id);
                }
                silent if silent >= 5 && silent % 5 == 0 => self.resends(id),
                _ => {}
            }
        }
    }
}

/// What happens beside the conversation.
#[derive(Clone, Copy)]
struct Weather {
    lost: u64,
    doubled: u64,
    delayed: u64,
    stalls: bool,
    restarts: bool,
}

/// What became of it.
#[derive(Default, Debug)]
struct Outcome {
    ours: u32,
    ours_failed: u32,
    theirs: u32,
    theirs_failed: u32,
    need_acks: u32,
    malformed: u64,
    answers_failed: u64,
    /// Calls of ours that ended before the module would have ended them in our place.
    hasty: u32,
    reasons: BTreeMap<String, u32>,
}

/// When the module's last packet about each call of ours came that its own clients take for a sign
/// of life: DATA, GRANT or BUSY; or when the call began.
type Signs = BTreeMap<u64, Instant>;

/// Silence after which the module's clients end a call: 100 ticks, of which the first may be short.
const PATIENCE: Span = Span::from_ms(99);

fn converse(seed: u64, weather: Weather) -> Outcome {
    let mut rng = Stream::keyed(seed, 0, Purpose::Test);
    let mut now = Instant::ZERO + Span::from_ms(1);
    by_hand::set(Some(now));
    let options = Options::raw(std::net::Ipv4Addr::LOCALHOST.into());
    let options = Options { client_port: 0x9000, ..super::options::settled(&options) };
    let at = SocketAddr::from(([10, 0, 0, 250], 0));
    let shared = Arc::new(Shared::new(options.deadline, at, seed << 8).expect("a bell"));
    let seen = std::sync::Arc::new(Mutex::new(BTreeMap::<Vec<u8>, u32>::new()));
    let counted = seen.clone();
    let handler = Handler::inline(move |question| {
        let mut counted = counted.lock().expect("whole");
        *counted.entry(question.bytes()[..4].to_vec()).or_default() += 1;
        Bytes::from(answer_to(question.bytes()))
    });
    let mut engine = Engine::new(&options, Some(handler), shared, seed, None).expect("legal");
    let mut module = Module { next: 1 << 20, version: 1, ..Module::default() };
    let there = SocketAddr::from(([10, 0, 0, 1], 0));
    let ended = std::sync::Arc::new(Mutex::new(Vec::new()));
    let mut wire: BTreeMap<(Instant, u64), (bool, Vec<u8>)> = BTreeMap::new();
    let (mut count, mut outcome, mut stalled) = (0_u64, Outcome::default(), 0_u32);
    let (mut signs, mut looked_at) = (Signs::new(), 0);
    for step in 0..130_000_u32 {
        let quiet = wire.is_empty() && module.rpcs.is_empty() && stalled == 0;
        if step > 10_000 && quiet && engine.exchanges.call_count() == 0 {
            break;
        }
        now += Span::from_us(100);
        by_hand::set(Some(now));
        let faulty = step < 8_000;
        if step < 10_000 && rng.below(25) == 0 {
            let salt = outcome.ours + outcome.theirs + 1;
            let sizes = [8, 100, 1_424, 1_425, 9_000, 60_000];
            let mut size = || sizes[rng.below(6) as usize];
            let question = text(salt, size(), size());
            if rng.below(2) == 0 {
                outcome.theirs += 1;
                module.call(question);
            } else {
                outcome.ours += 1;
                let (ended, expected) = (ended.clone(), answer_to(&question));
                let id = engine.shared.name();
                let hook = move |end: Result<Bytes, CallError>| {
                    assert!(end.as_ref().is_err() || end == Ok(Bytes::from(expected)), "another");
                    ended.lock().expect("whole").push((id, end.err()));
                };
                signs.insert(id, now);
                engine.obey(Command::Call {
                    id,
                    to: Peer { at: there, port: PORTS[1] },
                    bytes: question.into(),
                    until: now + options.deadline,
                    done: Done::Hook(Box::new(hook)),
                });
            }
        }
        if faulty && weather.stalls && stalled == 0 && rng.below(3_000) == 0 {
            stalled = 3_000;
        }
        if faulty && weather.restarts && rng.below(3_000) == 0 {
            let restarted =
                Module { next: module.next + (1 << 20), version: 1, ..Module::default() };
            module = Module { answered: std::mem::take(&mut module.answered), ..restarted };
        }
        if weather.restarts && rng.below(2_000) == 0 {
            module.version += 1;
        }
        stalled = stalled.saturating_sub(1);
        // Who stands still finds all packets when it goes on.
        let due = |to_module: bool, at: Instant| at <= now && !(to_module && stalled > 0);
        let keys = wire.range(..=(now, u64::MAX)).filter(|(key, to)| due(to.0, key.0));
        for key in keys.map(|(&key, _)| key).collect::<Vec<_>>() {
            match wire.remove(&key) {
                Some((true, bytes)) => module.receive(&bytes),
                Some((false, mut bytes)) => {
                    if [DATA, GRANT, BUSY].contains(&bytes[11]) {
                        signs.insert(u64::from_be_bytes(be(&bytes, 20)) & !1, now);
                    }
                    engine.on_bytes(there, &mut bytes);
                }
                None => {}
            }
        }
        if stalled == 0 && step % 10 == 0 {
            module.tick();
        }
        engine.expire(true);
        let mut commands = Vec::new();
        while engine.hand_out() {
            engine.shared.take(&mut commands);
            commands.drain(..).for_each(|command| engine.obey(command));
        }
        let ends = ended.lock().expect("whole");
        for (id, why) in &ends[std::mem::replace(&mut looked_at, ends.len())..] {
            let Some(why) = why else { continue };
            outcome.hasty += u32::from(now < signs[id] + PATIENCE);
            *outcome.reasons.entry(format!("{why:?}")).or_default() += 1;
        }
        drop(ends);
        let mut said: Vec<_> = module.to_send.drain(..).map(|bytes| (false, bytes)).collect();
        while let Some(packet) = engine.pull() {
            let header = &packet.header[..packet.header_bytes];
            said.push((true, [header, &packet.payload].concat()));
        }
        if step % 10 == 0 {
            engine.machine.check();
        }
        for (to_module, bytes) in said {
            if faulty && rng.below(1_000) < weather.lost {
                continue;
            }
            let copies = 1 + u32::from(faulty && rng.below(1_000) < weather.doubled);
            for _ in 0..copies {
                let late = if faulty && rng.below(1_000) < weather.delayed { 3_000 } else { 100 };
                count += 1;
                let at = now + Span::from_us(50 + rng.below(late));
                wire.insert((at, count), (to_module, bytes.clone()));
            }
        }
    }
    assert!(seen.lock().expect("whole").values().all(|&times| times == 1), "carried out twice");
    let ended = ended.lock().expect("whole");
    assert_eq!(ended.len(), outcome.ours as usize, "each call ends once");
    engine.publish();
    outcome.ours_failed = ended.iter().filter(|(_, why)| why.is_some()).count() as u32;
    outcome.theirs_failed = outcome.theirs - module.answered.len() as u32;
    outcome.need_acks = module.need_acks[0];
    outcome.malformed = engine.counters.malformed.iter().sum();
    outcome.answers_failed = engine.counters.answers_failed;
    by_hand::set(None);
    outcome
}

const CLEAN: Weather = Weather { lost: 0, doubled: 0, delayed: 0, stalls: false, restarts: false };
const LOSSY: Weather = Weather { lost: 20, doubled: 10, delayed: 50, ..CLEAN };

/// So many seeds from 1 on, or those that `CAVY_SEEDS` says; `CAVY_SEED=n` replays one.
#[allow(clippy::disallowed_methods, reason = "a test is told its seeds so, and nothing else is")]
fn seeds(usual: u64) -> std::ops::Range<u64> {
    cavy_core::laws::seeds(|name| std::env::var(name).ok(), 1..usual + 1)
}

/// Sums over seeds: calls and failures of both sides, NEED_ACKs of ours.
fn over(name: &str, usual: u64, weather: Weather, judge: impl Fn(&Outcome) -> bool) -> Outcome {
    let mut all = Outcome::default();
    for seed in seeds(usual) {
        let run = std::panic::catch_unwind(|| converse(seed, weather));
        let one = run.unwrap_or_else(|_| panic!("replay: CAVY_SEED={seed} cargo test {name}"));
        assert_eq!(one.malformed, 0, "CAVY_SEED={seed} {name}: {one:?}");
        assert!(judge(&one), "CAVY_SEED={seed} {name}: {one:?}");
        all.ours += one.ours;
        all.theirs += one.theirs;
        all.ours_failed += one.ours_failed;
        all.theirs_failed += one.theirs_failed;
        all.need_acks += one.need_acks;
        all.answers_failed += one.answers_failed;
        all.hasty += one.hasty;
        for (why, count) in one.reasons {
            *all.reasons.entry(why).or_default() += count;
        }
    }
    println!("{name}, {} seeds: {all:?}", seeds(usual).count());
    all
}

/// Two modules in the same weather, of which the first stands still: calls of the second, which is
/// in our place, and how many of them end without an answer.
fn modules(seed: u64, weather: Weather) -> [u32; 2] {
    let mut rng = Stream::keyed(seed, 0, Purpose::Test);
    let mut ends = [1 << 20, 1 << 30].map(|next| Module { next, version: 1, ..Module::default() });
    let mut wire: BTreeMap<(u64, u64), (usize, Vec<u8>)> = BTreeMap::new();
    let (mut count, mut calls, mut stalled) = (0_u64, [0; 2], 0_u32);
    for step in 0..130_000_u64 {
        let quiet = wire.is_empty() && ends.iter().all(|end| end.rpcs.is_empty()) && stalled == 0;
        if step > 10_000 && quiet {
            break;
        }
        let faulty = step < 8_000;
        if step < 10_000 && rng.below(25) == 0 {
            let sizes = [8, 100, 1_424, 1_425, 9_000, 60_000];
            let mut size = || sizes[rng.below(6) as usize];
            let (answer, length) = (size(), size());
            let who = rng.below(2) as usize;
            calls[who] += 1;
            ends[who].call(text(calls[who], answer, length));
        }
        if faulty && weather.stalls && stalled == 0 && rng.below(3_000) == 0 {
            stalled = 3_000;
        }
        stalled = stalled.saturating_sub(1);
        let due = wire.range(..=(step, u64::MAX)).filter(|(_, to)| !(to.0 == 0 && stalled > 0));
        for key in due.map(|(&key, _)| key).collect::<Vec<_>>() {
            if let Some((to, bytes)) = wire.remove(&key) {
                ends[to].receive(&bytes);
            }
        }
        for (who, end) in ends.iter_mut().enumerate() {
            if step % 10 == 0 && !(who == 0 && stalled > 0) {
                end.tick();
            }
            for bytes in end.to_send.drain(..) {
                if faulty && rng.below(1_000) < weather.lost {
                    continue;
                }
                for _ in 0..1 + u32::from(faulty && rng.below(1_000) < weather.doubled) {
                    let late = if faulty && rng.below(1_000) < weather.delayed { 30 } else { 1 };
                    count += 1;
                    wire.insert((step + 1 + rng.below(late), count), (1 - who, bytes.clone()));
                }
            }
        }
    }
    [calls[1], calls[1] - ends[1].answered.len() as u32]
}

#[test]
fn module_clean() {
    let none = |one: &Outcome| one.ours_failed + one.theirs_failed == 0 && one.answers_failed == 0;
    let all = over("module_clean", 12, CLEAN, none);
    let most = (all.theirs / 100).max(seeds(12).count() as u32 * 6);
    assert!(all.need_acks <= most, "{all:?}");
}

#[test]
fn module_lossy() {
    over("module_lossy", 12, LOSSY, |one| one.ours_failed + one.theirs_failed == 0);
}

/// A call of ours ends when its server stands still for longer than the 100 ticks that the module's
/// own clients wait, as theirs do, and no sooner; calls of the module to us do not end.
#[test]
fn module_stalls() {
    let weather = Weather { lost: 30, stalls: true, ..LOSSY };
    let all = over("module_stalls", 12, weather, |one| one.theirs_failed + one.hasty == 0);
    assert_eq!(all.reasons.keys().collect::<Vec<_>>(), ["Silent"], "{all:?}");
    let of_modules = seeds(4).take(1_000).map(|seed| modules(seed, weather));
    let [calls, failed] = of_modules.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    println!("between two modules {failed} of {calls} calls end");
    assert!(failed > 0 && all.ours_failed > 0, "300 ms are more than 100 ticks");
}

/// Restarts end what the module asked; nothing is carried out twice here, and each call ends.
#[test]
fn module_restarts() {
    let weather = Weather { stalls: true, restarts: true, ..LOSSY };
    over("module_restarts", 12, weather, |_| true);
}
