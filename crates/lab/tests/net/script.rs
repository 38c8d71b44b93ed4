//! A transport for tests of switches: each message is one packet, whose level and rank its length
//! tells; and an observer that writes down what ports do.

use crate::blast::BlastHeader;
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message};
use cavy_core::{Cx, Instant, Machine, Packet, Room, Transmit};
use cavy_lab::net::{Egress, InFlight, Loss, Observer, PortClass, Ps, Submission};
use std::collections::VecDeque;

/// Sends each message as one packet with the level and rank that `choose` gives its length.
pub struct Script {
    pub choose: fn(u32) -> (u8, u32),
    pub outbound: VecDeque<(Node, Message, u32)>,
    /// Marked and trimmed packets that came in.
    pub seen: (u32, u32),
    /// When to ring, and when it rang.
    pub ring_every_ns: Option<u64>,
    pub rings: Vec<u64>,
}

impl Script {
    pub fn new(choose: fn(u32) -> (u8, u32)) -> Script {
        Script {
            choose,
            outbound: VecDeque::new(),
            seen: (0, 0),
            ring_every_ns: None,
            rings: Vec::new(),
        }
    }
}

impl Machine for Script {
    type Input = Input<BlastHeader>;
    type Effect = Effect<()>;
    type Timer = ();

    fn effects_max(&self) -> usize {
        2
    }

    fn start(&mut self, cx: &mut Cx<'_, Effect<()>, ()>) {
        if let Some(every) = self.ring_every_ns {
            cx.arm((), Instant::from_ns(cx.now().as_ns() + every));
        }
    }

    fn handle(&mut self, input: Input<BlastHeader>, cx: &mut Cx<'_, Effect<()>, ()>) {
        match input {
            Input::Submit { to, message, length_bytes, .. } => {
                self.outbound.push_back((to, message, length_bytes));
            }
            Input::Rx { from, payload, seen, .. } => {
                self.seen.0 += u32::from(seen.marked);
                self.seen.1 += u32::from(seen.trimmed);
                if !seen.trimmed {
                    cx.emit(Effect::Place { from, extent: payload });
                    let Extent { message, length_bytes, .. } = payload;
                    cx.emit(Effect::Delivered { from, message, length_bytes });
                }
            }
            Input::Answer { .. } | Input::Cancel { .. } => {}
        }
    }

    fn expire(&mut self, (): (), cx: &mut Cx<'_, Effect<()>, ()>) {
        self.rings.push(cx.now().as_ns());
        if let Some(every) = self.ring_every_ns {
            cx.arm((), Instant::from_ns(cx.now().as_ns() + every));
        }
    }
}

impl Transmit for Script {
    type Header = BlastHeader;

    fn pull(&mut self, _: Room, _: &mut Cx<'_, Effect<()>, ()>) -> Option<Packet<BlastHeader>> {
        let (to, message, length_bytes) = self.outbound.pop_front()?;
        let (priority, rank) = (self.choose)(length_bytes);
        let payload = Extent { message, offset_bytes: 0, length_bytes };
        let header = BlastHeader { length_bytes, asks: false };
        Some(Packet { to, header, payload, priority, rank })
    }
}

/// What happened at the switches' ports to hosts, by the lengths of packets.
#[derive(Default)]
pub struct Log {
    /// (length, trimmed), in the order in which they were sent.
    pub sent: Vec<(u32, bool)>,
    pub lost: Vec<u32>,
    pub trimmed: Vec<u32>,
    /// The most bytes waiting.
    pub most_waiting: u64,
    /// (length, behind equals and betters, behind a lower level) of received packets.
    pub delays: Vec<(u32, Ps, Ps)>,
    pub received_at: Vec<(u32, Ps)>,
}

impl<M: ?Sized> Observer<M, BlastHeader> for Log {
    fn began(&mut self, port: &Egress, packet: &InFlight<BlastHeader>, _: Ps, _: Ps) {
        if port.class == PortClass::Downlink {
            self.sent.push((packet.payload().length_bytes, packet.seen().trimmed));
        }
    }
    fn queued(&mut self, port: &Egress, _: &InFlight<BlastHeader>, waiting_bytes: u64, _: Ps) {
        if port.class == PortClass::Downlink {
            self.most_waiting = self.most_waiting.max(waiting_bytes);
        }
    }
    fn trimmed(&mut self, _: &Egress, packet: &InFlight<BlastHeader>, _: Ps) {
        self.trimmed.push(packet.payload().length_bytes);
    }
    fn lost(&mut self, packet: &InFlight<BlastHeader>, _: Loss, _: Ps) {
        self.lost.push(packet.payload().length_bytes);
    }
    fn received(&mut self, packet: &InFlight<BlastHeader>, at: Ps) {
        let delays = packet.delays();
        let length = packet.payload().length_bytes;
        self.delays.push((length, delays.queueing, delays.lag));
        self.received_at.push((length, at));
    }
}

/// Messages of these lengths to host 0, each from a host of its own, `gap` picoseconds apart from
/// the time at which they are whole at the switch on: senders of shorter ones begin later.
pub fn arrive_apart(lengths: &[u32], gap: Ps) -> Vec<(Node, Submission)> {
    let wire = |length: u32| u64::from((length + 12 + 66).max(84)) * 800;
    (0u32..)
        .zip(lengths)
        .map(|(i, &length_bytes)| {
            let at = 2_000_000 + u64::from(i) * gap - wire(length_bytes);
            (Node(1 + i), Submission { at, to: Node(0), length_bytes, asks: false, class: 0 })
        })
        .collect()
}
