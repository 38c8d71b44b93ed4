//! A conversation with one machine: inputs in, effects and packets out.
#![allow(dead_code)]

use cavy_core::family::packet::{Effect, Extent, Message, Seen};
use cavy_core::laws::packet::Stage;
use cavy_core::{Instant, Packet, Span};
use cavy_homa::config::{Granting, Recovery};
use cavy_homa::packet::{Data, Flags, Header, Kind, Layout};
use cavy_homa::{Config, Cutoffs, Homa, Timer, Why};
use std::ops::{Deref, DerefMut};

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

/// A [`Stage`] with a Homa, and the words for its packets.
pub struct Talk {
    stage: Stage<Homa>,
    layout: Layout,
}

impl Deref for Talk {
    type Target = Stage<Homa>;
    fn deref(&self) -> &Stage<Homa> {
        &self.stage
    }
}

impl DerefMut for Talk {
    fn deref_mut(&mut self) -> &mut Stage<Homa> {
        &mut self.stage
    }
}

impl Talk {
    pub fn new(config: &Config) -> Talk {
        let homa = Homa::new(config).expect("legal");
        Talk { stage: Stage::new(homa, Instant::from_ns(1_000), 1), layout: config.layout }
    }

    pub fn rx(&mut self, from: u32, name: u64, says: impl Says) {
        let (kind, offset_bytes, length_bytes) = says.parts();
        let header = Header { layout: self.layout, kind };
        let payload = Extent { message: Message(name), offset_bytes, length_bytes };
        self.receive(from, header, payload, Seen::default());
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
