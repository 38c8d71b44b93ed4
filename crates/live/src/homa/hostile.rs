//! An endpoint among peers that mean no good: what the fuzzer `endpoint` runs, and the replay of
//! its corpus. Whatever they send, what an endpoint holds is bounded by its options, nobody who has
//! not shown that he receives is sent more than came from him, each call ends once, and nothing
//! stays.

use super::{Carrier, Handler, Options, Peer, Reply};
use crate::clock::by_hand;
use crate::packet::client::Done;
use crate::packet::endpoint::{Command, Shared};
use crate::packet::engine::{Engine, octets};
use crate::sync::Arc;
use bytes::Bytes;
use cavy_core::{Instant, Machine as _, Span};
use cavy_homa::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const PEERS: u32 = 6;
const EXCHANGES: u32 = 8;
const BUFFER_BYTES: u64 = 9_000;
const WAITING: u32 = 3;
const WAITING_BYTES: u64 = 4_000;
const ANSWERS_BYTES: u64 = 4_000;
const HANDLING: u32 = 2;
const MESSAGE_BYTES: u32 = 5_000;
const RATIO: u32 = 1;

fn options() -> Options {
    let mut options = Options::local();
    let config = &mut options.config;
    config.message_max_bytes = MESSAGE_BYTES;
    config.unscheduled_bytes = 2_000;
    config.limits.peers = PEERS;
    config.limits.exchanges = EXCHANGES;
    config.limits.gaps = 4;
    config.limits.waiting = 16;
    config.limits.remembered = 8;
    config.limits.buffer_bytes = BUFFER_BYTES;
    config.limits.strangers = 5;
    if let Some(recovery) = &mut config.recovery {
        recovery.timeout_ticks = 40;
        recovery.remember_ticks = 60;
        recovery.resend_wait_max_ticks = 12;
        recovery.answer_kept = Span::from_ms(60);
        recovery.stranger_kept = Span::from_ms(50);
    }
    options.calls_max = 4;
    options.handling_max = HANDLING;
    options.answers_bytes_max = ANSWERS_BYTES;
    options.waiting_max = WAITING;
    options.waiting_bytes_max = WAITING_BYTES;
    options.refused_after = Some(Span::from_ms(20));
    options.unproven_ratio = Some(RATIO);
    options.deadline = Span::from_ms(50);
    options
}

/// Bytes that say what happens next; at their end all is zero.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// What went to an address, and what came from it.
#[derive(Default)]
struct Account {
    came: usize,
    went: usize,
}

struct Stage {
    engine: Engine<Config>,
    now: Instant,
    replies: std::sync::Arc<Mutex<Vec<Reply>>>,
    accounts: BTreeMap<SocketAddr, Account>,
    /// Who was called, or was given an answer whose receipt he may have shown.
    trusted: BTreeSet<SocketAddr>,
    called: u32,
    ended: std::sync::Arc<AtomicU32>,
}

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + number % 9], 7_000))
}

impl Stage {
    fn new(answers: bool) -> Option<Stage> {
        let now = Instant::ZERO + Span::from_ms(1);
        by_hand::set(Some(now));
        let options = options();
        let at = SocketAddr::from(([10, 0, 0, 250], 7_000));
        let shared = Arc::new(Shared::new(options.deadline, at, 400).ok()?);
        let replies = std::sync::Arc::new(Mutex::new(Vec::new()));
        let kept = replies.clone();
        let handler = Handler::new(move |_, reply| {
            if let Ok(mut kept) = kept.lock() {
                kept.push(reply);
            }
        });
        let engine = Engine::new(&options, answers.then_some(handler), shared, 1, None).ok()?;
        Some(Stage {
            engine,
            now,
            replies,
            accounts: BTreeMap::new(),
            trusted: BTreeSet::new(),
            called: 0,
            ended: std::sync::Arc::default(),
        })
    }

    fn obey(&mut self) {
        let mut commands = Vec::new();
        self.engine.shared.take(&mut commands);
        commands.into_iter().for_each(|command| self.engine.obey(command));
    }

    fn call(&mut self, to: u8, length: u16) {
        self.called += 1;
        let ended = self.ended.clone();
        let hook = move |_| _ = ended.fetch_add(1, Ordering::Relaxed);
        let command = Command::Call {
            id: self.engine.shared.name(),
            to: Peer { at: address(to), port: super::options::SERVER_PORT },
            bytes: Bytes::from(vec![7; usize::from(length % 6_000)]),
            until: self.now + self.engine.options.deadline,
            done: Done::Hook(Box::new(hook)),
        };
        self.trusted.insert(address(to));
        self.engine.obey(command);
    }

    fn reply(&mut self, which: u8, how: u8) {
        let Ok(mut replies) = self.replies.lock() else { return };
        if replies.is_empty() {
            return;
        }
        let reply = {
            let at = usize::from(which) % replies.len();
            replies.swap_remove(at)
        };
        drop(replies);
        if let Some(entry) = self.engine.peers.get(reply.question().0) {
            self.trusted.insert(entry.peer.at);
        }
        match how {
            0 => drop(reply),
            1 => reply.refuse(),
            how => reply.send(vec![9; 25 * usize::from(how)]),
        }
    }

    fn pass(&mut self, span: Span) {
        self.now += span;
        by_hand::set(Some(self.now));
        self.engine.expire(true);
    }

    fn pull(&mut self, most: u8) {
        for _ in 0..most {
            let Some(packet) = self.engine.pull() else { break };
            let account = self.accounts.entry(packet.to).or_default();
            let bytes = packet.header_bytes + packet.payload.len();
            account.went += octets(false, Carrier::Udp, bytes);
        }
    }

    fn receive(&mut self, from: SocketAddr, packet: &[u8]) {
        let came = octets(false, Carrier::Udp, packet.len());
        self.accounts.entry(from).or_default().came += came;
        self.engine.on_bytes(from, &mut packet.to_vec());
    }

    fn check(&mut self) {
        self.obey();
        self.engine.hand_out();
        self.obey();
        self.engine.machine.check();
        for (at, account) in &self.accounts {
            let most = account.came * RATIO as usize;
            let honest = account.went <= most || self.trusted.contains(at);
            assert!(honest, "{at}: {} B came and {} B went", account.came, account.went);
        }
        let engine = &self.engine;
        assert!(engine.peers.len() <= PEERS as usize);
        assert!(engine.machine.exchange_count() <= EXCHANGES as usize);
        let (waiting, waiting_bytes) = engine.exchanges.waiting();
        assert!(waiting <= WAITING as usize && waiting_bytes <= WAITING_BYTES);
        let arriving = engine.exchanges.arriving_bytes();
        assert!(arriving <= BUFFER_BYTES, "{arriving} B of messages arrive");
        let answers = engine.exchanges.answers_bytes();
        let answers_max = ANSWERS_BYTES + u64::from(HANDLING * MESSAGE_BYTES);
        assert!(answers < answers_max, "{answers} B of answers are kept");
        assert!(engine.refused.is_empty() && engine.timers.len() <= 4);
        assert!(engine.suspects.len() <= 4);
    }

    /// Everybody falls silent.
    fn end(mut self) {
        for _ in 0..400 {
            if let Ok(mut replies) = self.replies.lock() {
                replies.clear();
            }
            self.pass(Span::from_ms(1));
            self.pull(8);
            self.check();
        }
        assert_eq!(self.ended.load(Ordering::Relaxed), self.called, "calls ended");
        assert_eq!(self.engine.machine.exchange_count(), 0, "exchanges stay");
        assert_eq!(self.engine.exchanges.message_count(), 0, "messages stay");
        assert_eq!(self.engine.exchanges.held_bytes(), 0, "bytes stay");
        by_hand::set(None);
    }
}

/// Runs an endpoint through what `script` says.
pub fn endpoint(script: &[u8]) {
    let mut script = Script(script);
    let Some(mut stage) = Stage::new(script.next() & 1 == 0) else { return };
    for _ in 0..400 {
        if script.0.is_empty() {
            break;
        }
        match script.next() % 8 {
            0..=2 => {
                let from = address(script.next());
                let length = usize::from(script.next());
                let bytes = script.take(length);
                stage.receive(from, bytes);
            }
            3 => {
                // DATA in full, so that not every byte of it has to be found.
                let (from, length) = (address(script.next()), script.next());
                let header = script.take(DATA_HEADER_BYTES);
                let packet = [header, &vec![5; usize::from(length) * 8]].concat();
                stage.receive(from, &packet);
            }
            4 => {
                let (to, length) = (script.next(), script.next());
                stage.call(to, u16::from(length) * 40);
            }
            5 => {
                let (which, how) = (script.next(), script.next());
                stage.reply(which, how);
            }
            6 => stage.pass(Span::from_us(u64::from(script.next()) * 100)),
            _ => {
                let (most, quoted) = (script.next(), address(script.next()));
                stage.pull(most % 32);
                let quote = script.take(usize::from(most / 32) * 8);
                stage.engine.on_undelivered(quoted, quote);
            }
        }
        stage.check();
    }
    stage.end();
}

const DATA_HEADER_BYTES: usize = cavy_homa::wire::DATA_BYTES;

#[cfg(test)]
mod tests {
    use super::super::options::SERVER_PORT;
    use super::*;
    use cavy_core::family::packet::{Extent, Message};
    use cavy_homa::packet::{Data, Flags, Kind};
    use cavy_homa::wire::{CLIENT_PORT_MIN, HEADER_MAX_BYTES, Ports, Repr};
    use std::path::Path;

    /// A question of 100 bytes in one packet.
    fn question(stage: &Stage, id: u64) -> Vec<u8> {
        let extent = Extent { message: Message(id), offset_bytes: 0, length_bytes: 100 };
        let kind = Kind::Data(Data {
            message_bytes: 100,
            incoming_bytes: 100,
            ack: 0,
            cutoffs_version: 0,
            backlog: 0,
            flags: Flags::UNSCHEDULED.and(Flags::ASKS, true),
        });
        let ports = Ports { source: CLIENT_PORT_MIN, destination: SERVER_PORT };
        let mut header = [0; HEADER_MAX_BYTES];
        let length = Repr { ports, kind, extent }.emit(&stage.engine.codec.dialect, &mut header);
        [&header[..length], &[1; 100]].concat()
    }

    /// Who asks and never takes the answers stops being served, and is served again once they are
    /// given up.
    #[test]
    fn answers_that_nobody_takes_hold_back_questions() {
        let mut stage = Stage::new(true).expect("an endpoint");
        let ask = |stage: &mut Stage, id| {
            let packet = question(stage, id);
            stage.receive(address(1), &packet);
            stage.check();
            stage.replies.lock().expect("whole").len()
        };
        for id in [2, 4] {
            assert_eq!(ask(&mut stage, id), 1, "{id} is handled");
            stage.reply(0, 80);
            stage.check();
        }
        assert_eq!(stage.engine.exchanges.answers_bytes(), ANSWERS_BYTES);
        assert_eq!(ask(&mut stage, 6), 0, "it waits");
        for _ in 0..200 {
            stage.pass(Span::from_ms(1));
            stage.pull(8);
            stage.check();
        }
        assert_eq!(stage.engine.exchanges.answers_bytes(), 0, "given up");
        assert_eq!(ask(&mut stage, 8), 1, "served again");
        stage.end();
    }

    #[test]
    fn the_corpus_is_replayed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/endpoint");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).expect("the corpus") {
            let path = entry.expect("a file").path();
            let bytes = std::fs::read(&path).expect("it can be read");
            let run = std::panic::catch_unwind(|| endpoint(&bytes));
            assert!(run.is_ok(), "{}", path.display());
            count += 1;
        }
        assert!(count >= 4, "{count}");
    }
}
