//! A machine of each variant and packets of strangers, as bytes: its invariants hold after each
//! step, it keeps to its limits, each message it submits ends at most once, and what it says can be
//! read.
//!
//! Included by the fuzzer `machine` and by the replay of its corpus, `crates/homa/tests/corpus.rs`.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input, Message, Seen};
use cavy_core::laws::packet::Stage;
use cavy_core::{Instant, Span};
use cavy_homa::config::{Granting, Informed, Order, Quick, Recovery};
use cavy_homa::packet::{Header, Kind, Refusal};
use cavy_homa::wire::{Dialect, HEADER_MAX_BYTES, Ports, Repr, View};
use cavy_homa::{Config, Cutoffs, Homa};
use std::collections::BTreeSet;

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

struct Endpoint {
    stage: Stage<Homa>,
    dialect: Dialect,
    /// Messages submitted that have not ended.
    open: BTreeSet<u64>,
    /// Questions delivered and not answered.
    questions: BTreeSet<(Node, u64)>,
}

impl Endpoint {
    fn new(config: &Config) -> Endpoint {
        let homa = Homa::new(config).expect("legal");
        Endpoint {
            stage: Stage::new(homa, Instant::from_ns(1_000), 1),
            dialect: Dialect::of(config),
            open: BTreeSet::new(),
            questions: BTreeSet::new(),
        }
    }

    fn settle(&mut self) {
        let homa = &self.stage.machine;
        assert!(homa.exchange_count() <= EXCHANGES as usize);
        for effect in self.stage.effects.drain(..) {
            match effect {
                Effect::Delivered { from, message, length_bytes } => {
                    assert!(length_bytes <= homa.config().message_max_bytes);
                    if message.is_answer() {
                        let open = self.open.remove(&message.question().0);
                        assert!(open, "{message:?}: the answer to nothing");
                    } else {
                        self.questions.insert((from, message.0));
                    }
                }
                Effect::Failed { message, .. } if !message.is_answer() => {
                    self.open.remove(&message.0);
                }
                _ => {}
            }
        }
    }

    fn input(&mut self, input: Input<Header>) {
        self.stage.input(input);
        self.settle();
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
        let packet = self.stage.pull();
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
        self.stage.expire_next();
        self.settle();
    }
}

/// Runs a machine through what `script` says: its first byte chooses the variant.
pub fn run(script: &[u8]) {
    let Some((&which, mut rest)) = script.split_first() else { return };
    let mut endpoint = Endpoint::new(&config(which));
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
                endpoint.receive(from, packet);
            }
            3 => {
                let (to, length) = (Node(u32::from(next() % 6)), u32::from(next()) * 25);
                let message = Message(name);
                name += 2;
                endpoint.open.insert(message.0);
                endpoint.input(Input::Submit {
                    to,
                    message,
                    length_bytes: length,
                    asks: what < 128,
                });
            }
            4 => {
                let (at, length) = (usize::from(next()), u32::from(next()) * 25);
                let found =
                    endpoint.questions.iter().nth(at % endpoint.questions.len().max(1)).copied();
                if let Some((to, id)) = found {
                    endpoint.questions.remove(&(to, id));
                    let refused = Refusal::Overloaded.length_bytes();
                    let length_bytes = if length > 6_000 { refused } else { length };
                    endpoint.input(Input::Answer { to, question: Message(id), length_bytes });
                }
            }
            5 => {
                let at = usize::from(next());
                let found = endpoint.open.iter().nth(at % endpoint.open.len().max(1)).copied();
                if let Some(id) = found {
                    endpoint.open.remove(&id);
                    endpoint.input(Input::Cancel { message: Message(id) });
                }
            }
            6 => endpoint.expire(),
            _ => {
                for _ in 0..next() % 16 {
                    if !endpoint.pull() {
                        break;
                    }
                }
            }
        }
    }
}
