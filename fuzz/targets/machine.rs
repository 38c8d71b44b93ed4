//! A machine of each variant and packets of strangers, as bytes: its invariants hold after each
//! step, it keeps to its limits, each message it submits ends at most once, and what it says can be
//! read.
//!
//! Included by the fuzzer `machine` and by the replay of its corpus, `crates/homa/tests/corpus.rs`.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input, Message, Seen};
use cavy_core::{
    Cx, Instant, Machine as _, Out, Outbox, Purpose, Room, Span, Stream, Transmit as _,
};
use cavy_homa::config::{Granting, Informed, Order, Quick, Recovery};
use cavy_homa::packet::{Header, Kind, Refusal};
use cavy_homa::wire::{Dialect, HEADER_MAX_BYTES, Ports, Repr, View};
use cavy_homa::{Config, Cutoffs, Homa, Timer, Why};
use std::collections::{BTreeMap, BTreeSet};

const EXCHANGES: u32 = 8;

fn config(which: u8) -> Config {
    let cutoffs = Cutoffs::new(8, &[80, 300, 450]).expect("ascending");
    let cavy = Config::cavy(cutoffs, 2, 8_000_000_000, 10_000);
    let mut config = match which % 6 {
        0 => Config::linux(),
        1 => Config::ramcloud(cutoffs, 2),
        2 => cavy,
        3 => Config {
            quick: Some(Quick { rtt: Span::from_us(6), round_trips: 5 }),
            informed: Some(Informed { backlog_min: 1, spared_bytes: 0 }),
            order: Order::Aged { credit_per_mille: 50, floor_bytes: 500 },
            ..cavy
        },
        4 => Config { granting: Config::simulator(cutoffs, 2).granting, ..cavy },
        _ => Config::basic(),
    };
    config.unscheduled_packet_bytes = 100;
    config.scheduled_packet_bytes = 100;
    config.unscheduled_bytes = 500;
    config.message_max_bytes = 5_000;
    config.limits.exchanges = EXCHANGES;
    config.limits.peers = 4;
    config.limits.gaps = 3;
    config.limits.waiting = 8;
    config.limits.remembered = 4;
    config.limits.buffer_bytes = 12_000;
    if let Granting::Spaced { window_wire_bytes, .. } = &mut config.granting {
        *window_wire_bytes = 800;
    }
    if let Some(recovery) = &mut config.recovery {
        *recovery = Recovery { timeout_ticks: 40, ..*recovery };
    }
    config
}

struct Stage {
    homa: Homa,
    dialect: Dialect,
    now: Instant,
    rng: Stream,
    outbox: Outbox<Effect<Why>, Timer>,
    timers: BTreeMap<Timer, Instant>,
    /// Messages submitted that have not ended.
    open: BTreeSet<u64>,
    /// Questions delivered and not answered.
    questions: BTreeSet<(Node, u64)>,
}

impl Stage {
    fn new(config: &Config) -> Stage {
        let homa = Homa::new(config).expect("legal");
        Stage {
            dialect: Dialect::of(config),
            outbox: Outbox::with_capacity(homa.effects_max()),
            homa,
            now: Instant::from_ns(1_000),
            rng: Stream::keyed(1, 0, Purpose::Machine),
            timers: BTreeMap::new(),
            open: BTreeSet::new(),
            questions: BTreeSet::new(),
        }
    }

    fn settle(&mut self) {
        self.homa.check();
        assert!(self.homa.exchange_count() <= EXCHANGES as usize);
        let outs: Vec<_> = self.outbox.drain().collect();
        for out in outs {
            match out {
                Out::Arm(timer, at) => _ = self.timers.insert(timer, at),
                Out::Disarm(timer) => _ = self.timers.remove(&timer),
                Out::Effect(Effect::Delivered { from, message, length_bytes }) => {
                    assert!(length_bytes <= self.homa.config().message_max_bytes);
                    if message.is_answer() {
                        let open = self.open.remove(&message.question().0);
                        assert!(open, "{message:?}: the answer to nothing");
                    } else {
                        self.questions.insert((from, message.0));
                    }
                }
                Out::Effect(Effect::Failed { message, .. }) if !message.is_answer() => {
                    self.open.remove(&message.0);
                }
                Out::Effect(_) => {}
            }
        }
    }

    fn step(&mut self, act: impl FnOnce(&mut Homa, &mut Cx<'_, Effect<Why>, Timer>)) {
        act(&mut self.homa, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        self.settle();
    }

    fn input(&mut self, input: Input<Header>) {
        self.step(|homa, cx| homa.handle(input, cx));
    }

    fn receive(&mut self, from: u8, bytes: &[u8]) {
        let parsed = View::new(bytes).and_then(|view| Repr::parse(&view, &self.dialect));
        let Ok(repr) = parsed else { return };
        self.input(Input::Rx {
            from: Node(u32::from(from % 6)),
            header: repr.header(),
            payload: repr.extent,
            seen: Seen::default(),
        });
    }

    fn pull(&mut self) -> bool {
        let room = Room { packets: 1, bytes: 9_000 };
        let packet = self.homa.pull(room, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        self.settle();
        let Some(packet) = packet else { return false };
        let mut header = [0; HEADER_MAX_BYTES];
        let ports = Ports { source: 99, destination: 0x8005 };
        let repr = Repr { ports, kind: packet.header.kind, extent: packet.payload };
        let length = repr.emit(&self.dialect, &mut header);
        let written = [&header[..length], &vec![0; packet.payload.length_bytes as usize]].concat();
        let view = View::new(&written).expect("what a machine says is whole");
        let read = Repr::parse(&view, &self.dialect).expect("and can be read");
        assert_eq!(read.extent.message, packet.payload.message);
        if let Kind::Data(data) = packet.header.kind {
            let end = packet.payload.offset_bytes + packet.payload.length_bytes;
            assert!(end <= data.message_bytes, "beyond the message");
        }
        true
    }

    fn expire(&mut self) {
        let Some((&timer, &at)) = self.timers.iter().min_by_key(|&(_, at)| *at) else { return };
        self.timers.remove(&timer);
        self.now = self.now.max(at);
        self.step(|homa, cx| homa.expire(timer, cx));
    }
}

/// Runs a machine through what `script` says: its first byte chooses the variant.
pub fn run(script: &[u8]) {
    let Some((&which, mut rest)) = script.split_first() else { return };
    let mut stage = Stage::new(&config(which));
    let mut name = 1_000;
    for _ in 0..400 {
        let Some((&what, more)) = rest.split_first() else { break };
        rest = more;
        let mut next = || {
            let (&first, more) = rest.split_first().unwrap_or((&0, &[]));
            rest = more;
            first
        };
        match what % 8 {
            0..=2 => {
                let (from, length) = (next(), usize::from(next()));
                let (packet, more) = rest.split_at(length.min(rest.len()));
                rest = more;
                stage.receive(from, packet);
            }
            3 => {
                let (to, length) = (Node(u32::from(next() % 6)), u32::from(next()) * 25);
                let message = Message(name);
                name += 2;
                stage.open.insert(message.0);
                stage.input(Input::Submit { to, message, length_bytes: length, asks: what < 128 });
            }
            4 => {
                let (at, length) = (usize::from(next()), u32::from(next()) * 25);
                let found = stage.questions.iter().nth(at % stage.questions.len().max(1)).copied();
                if let Some((to, id)) = found {
                    stage.questions.remove(&(to, id));
                    let refused = Refusal::Overloaded.length_bytes();
                    let length_bytes = if length > 6_000 { refused } else { length };
                    stage.input(Input::Answer { to, question: Message(id), length_bytes });
                }
            }
            5 => {
                let at = usize::from(next());
                let found = stage.open.iter().nth(at % stage.open.len().max(1)).copied();
                if let Some(id) = found {
                    stage.open.remove(&id);
                    stage.input(Input::Cancel { message: Message(id) });
                }
            }
            6 => stage.expire(),
            _ => {
                for _ in 0..next() % 16 {
                    if !stage.pull() {
                        break;
                    }
                }
            }
        }
    }
}
