//! A conversation with one machine: inputs in, effects and packets out.
#![allow(dead_code)]

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message, Seen};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Packet, Purpose, Room, Span, Stream, Transmit};
use cavy_homa::config::{Granting, Recovery};
use cavy_homa::packet::{Data, Flags, Header, Kind, Layout};
use cavy_homa::{Config, Cutoffs, Homa, Timer, Why};
use std::collections::BTreeMap;

/// Packets of 100 B, 500 B unscheduled, two active senders, ticks of 50 us.
pub fn small() -> Config {
    let cutoffs = Cutoffs::new(8, &[80, 300]).expect("ascending");
    let mut config = Config::cavy(cutoffs, 2, 8_000_000_000, 10_000);
    config.unscheduled_packet_bytes = 100;
    config.scheduled_packet_bytes = 100;
    config.unscheduled_bytes = 500;
    config.oldest_grants = None;
    config.oldest_pick = 0;
    config.granting = Granting::Arrivals {
        overcommit: 2,
        window_bytes: 500,
        increment_bytes: 100,
        incoming_max_bytes: u32::MAX,
    };
    let recovery = config.recovery.expect("cavy repairs losses");
    config.recovery = Some(Recovery { tick: Span::from_us(50), ..recovery });
    config
}

/// DATA; where it belongs is kept beside it until [`Talk::rx`].
pub fn data(length: u32, offset: u32, bytes: u32, incoming: u32, flags: Flags) -> (Kind, u32, u32) {
    let data = Data {
        message_bytes: length,
        incoming_bytes: incoming,
        ack: 0,
        cutoffs_version: 1,
        backlog: 0,
        flags,
    };
    (Kind::Data(data), offset, bytes)
}

/// A control packet, or data with its place.
pub trait Says {
    fn parts(self) -> (Kind, u32, u32);
}
impl Says for Kind {
    fn parts(self) -> (Kind, u32, u32) {
        (self, 0, 0)
    }
}
impl Says for (Kind, u32, u32) {
    fn parts(self) -> (Kind, u32, u32) {
        self
    }
}

pub struct Talk {
    pub homa: Homa,
    pub now: Instant,
    pub effects: Vec<Effect<Why>>,
    pub timers: BTreeMap<Timer, Instant>,
    rng: Stream,
    outbox: Outbox<Effect<Why>, Timer>,
    layout: Layout,
}

impl Talk {
    pub fn new(config: &Config) -> Talk {
        let homa = Homa::new(config).expect("legal");
        Talk {
            outbox: Outbox::with_capacity(homa.effects_max()),
            homa,
            now: Instant::from_ns(1_000),
            effects: Vec::new(),
            timers: BTreeMap::new(),
            rng: Stream::keyed(1, 0, Purpose::Machine),
            layout: config.layout,
        }
    }

    fn settle(&mut self) {
        self.homa.check();
        for out in self.outbox.drain() {
            match out {
                Out::Effect(effect) => self.effects.push(effect),
                Out::Arm(timer, at) => _ = self.timers.insert(timer, at),
                Out::Disarm(timer) => _ = self.timers.remove(&timer),
            }
        }
    }

    pub fn input(&mut self, input: Input<Header>) {
        self.homa.handle(input, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        self.settle();
    }

    pub fn rx(&mut self, from: u32, name: u64, says: impl Says) {
        let (kind, offset_bytes, length_bytes) = says.parts();
        let header = Header { layout: self.layout, kind };
        let payload = Extent { message: Message(name), offset_bytes, length_bytes };
        self.input(Input::Rx { from: Node(from), header, payload, seen: Seen::default() });
    }

    pub fn submit(&mut self, to: u32, id: u64, length_bytes: u32, asks: bool) {
        self.input(Input::Submit { to: Node(to), message: Message(id), length_bytes, asks });
    }

    pub fn answer(&mut self, to: u32, id: u64, length_bytes: u32) {
        self.input(Input::Answer { to: Node(to), question: Message(id), length_bytes });
    }

    pub fn pull(&mut self) -> Option<Packet<Header>> {
        let room = Room { packets: 1, bytes: 9_000 };
        let mut cx = Cx::new(self.now, &mut self.rng, &mut self.outbox);
        let packet = self.homa.pull(room, &mut cx);
        self.settle();
        packet
    }

    pub fn pull_all(&mut self) -> Vec<Packet<Header>> {
        std::iter::from_fn(|| self.pull()).collect()
    }

    /// GRANT packets waiting to be sent, as (to, name, offset); other packets are sent as well.
    pub fn grants(&mut self) -> Vec<(u32, u64, u32)> {
        let grant = |p: &Packet<Header>| match p.header.kind {
            Kind::Grant { offset_bytes, .. } => Some((p.to.0, p.payload.message.0, offset_bytes)),
            _ => None,
        };
        self.pull_all().iter().filter_map(grant).collect()
    }

    /// Handles the next tick, late if `now` has passed it.
    pub fn tick(&mut self) {
        self.expire(Timer::Tick);
    }

    pub fn expire(&mut self, timer: Timer) {
        let at = self.timers.remove(&timer).unwrap_or_else(|| panic!("{timer:?} is not armed"));
        self.now = self.now.max(at);
        self.homa.expire(timer, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        self.settle();
    }

    /// Messages delivered, as (from, name), and forgets all effects.
    pub fn delivered(&mut self) -> Vec<(u32, u64)> {
        let delivered = |effect: &Effect<Why>| match effect {
            Effect::Delivered { from, message, .. } => Some((from.0, message.0)),
            _ => None,
        };
        let found = self.effects.iter().filter_map(delivered).collect();
        self.effects.clear();
        found
    }

    /// Bytes placed, as (offset, length).
    pub fn placed(&self) -> Vec<(u32, u32)> {
        let placed = |effect: &Effect<Why>| match effect {
            Effect::Place { extent, .. } => Some((extent.offset_bytes, extent.length_bytes)),
            _ => None,
        };
        self.effects.iter().filter_map(placed).collect()
    }
}
