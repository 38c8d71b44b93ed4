//! The laws of the seam, against a peer that speaks the protocol and lies now and then.
//!
//! The rig drives a machine that is pulled after each input and tells what left, so that the peer
//! knows the first numbers, answers SYNs, acknowledges and sends what fits; and then again
//! something that fits nothing. Calls of the application come in any order.

use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::family::stream::{Connection, Effect, Input, Unreachable};
use cavy_core::laws::packet::{Done, Served, Turn};
use cavy_core::laws::{Environment, Punctuality, Rig, hold};
use cavy_core::{Instant, Packet, Span, Stream};
use cavy_tcp::{
    Config, Congestion, DelayedAck, Ecn, Flags, Keepalive, RtoConfig, Segment, Stack, Why,
};

/// Segments pulled after an input, at most.
const PULLS: u32 = 6;

/// What the peer knows of one connection, by the machine's ports.
#[derive(Clone, Copy, Debug)]
struct View {
    own: u16,
    peer: u16,
    /// The furthest that left the machine, and what it acknowledged last.
    sent_to: u32,
    wants: u32,
    opened: bool,
}

struct Hostile {
    config: Config,
    pending: Option<Input<Segment>>,
    /// The port is asked next, in the same instant.
    pulls: bool,
    names: Vec<Connection>,
    views: Vec<View>,
    steps: u32,
    /// Connections that opened, octets that were read, octets that were acknowledged.
    opened: u64,
    read: u64,
    released: u64,
}

fn hostile(config: Config) -> Hostile {
    Hostile {
        config,
        pending: None,
        pulls: false,
        names: Vec::new(),
        views: Vec::new(),
        steps: 0,
        opened: 0,
        read: 0,
        released: 0,
    }
}

impl Hostile {
    /// A segment that makes sense to a connection, mostly.
    fn sensible(&mut self, rng: &mut Stream) -> (Segment, u32) {
        let place = rng.below(self.views.len() as u64) as usize;
        let view = &mut self.views[place];
        let mut made = Segment::new(view.peer, view.own, view.wants, Flags::ACK);
        made.ack = view.sent_to;
        made.window = 20_000;
        if !view.opened {
            // The SYN was the machine's: what it wants is not known to it yet.
            view.opened = true;
            view.wants = rng.bits() as u32;
            made.seq = view.wants;
            view.wants = view.wants.wrapping_add(1);
            made.flags = Flags::SYN.with(Flags::ACK);
            (made.mss, made.scale) = (Some(1460), Some(rng.below(3) as u8));
            if made.seq.is_multiple_of(2) {
                made.flags = made.flags.with(Flags::ECE);
            }
            made.sack_permitted = rng.below(4) > 0;
            return (made, 0);
        }
        let mut length = 0;
        if self.config.ecn != Ecn::Off && rng.below(4) == 0 {
            made.flags = made.flags.with(Flags::ECE);
        }
        match rng.below(20) {
            0..6 => length = 1 + rng.below(1400) as u32,
            6 => made.seq = made.seq.wrapping_add(1400 * (1 + rng.below(4) as u32)),
            7 => made.seq = made.seq.wrapping_sub(rng.below(3_000) as u32),
            8 => made.ack = made.ack.wrapping_sub(rng.below(9_000) as u32),
            9 => made.ack = made.ack.wrapping_add(1 + rng.below(3_000) as u32),
            10 => made.window = rng.below(3) as u16,
            11 => made.flags = made.flags.with(Flags::FIN),
            12 if rng.below(8) == 0 => made.flags = Flags::RST,
            13 => made.flags = Flags(rng.bits() as u8),
            14 | 15 => {
                let right = made.ack;
                made.ack = made.ack.wrapping_sub(6_000);
                for n in 0..1 + rng.below(3) as u32 {
                    let end = right.wrapping_sub(2_000 * n);
                    made.sacks.push(end.wrapping_sub(1 + rng.below(1_900) as u32), end);
                }
            }
            _ => {}
        }
        if matches!(rng.below(20), 0..3) {
            length = rng.below(1461) as u32;
        }
        (made, length)
    }

    fn nonsense(rng: &mut Stream) -> (Segment, u32) {
        let destination = if rng.below(2) == 0 { 80 } else { 32_768 + rng.below(3) as u16 };
        let source = 32_768 + rng.below(3) as u16;
        let mut made = Segment::new(source, destination, rng.bits() as u32, Flags(0));
        let flags = [0x02, 0x10, 0x10, 0x02, 0x12, 0x11, 0x04, 0x14, 0x18];
        made.flags = Flags(flags[rng.below(9) as usize]);
        made.ack = rng.bits() as u32;
        made.window = rng.below(65_536) as u16;
        if made.flags.has(Flags::SYN) {
            made.mss = (rng.below(2) == 0).then(|| rng.below(2_000) as u16);
            made.scale = (rng.below(2) == 0).then(|| rng.below(20) as u8);
            made.sack_permitted = rng.below(2) == 0;
        }
        let length = if rng.below(2) == 0 { rng.below(1461) as u32 } else { 0 };
        (made, length)
    }
}

impl Environment for Hostile {
    type Machine = Served<Stack>;

    fn machine(&self) -> Served<Stack> {
        Served::new(Stack::new(self.config).expect("a legal configuration"), 1_480)
    }

    fn next_at(&mut self, now: Instant, rng: &mut Stream) -> Option<Instant> {
        if self.pulls {
            return Some(now);
        }
        if self.pending.is_none() {
            self.steps += 1;
            let some = rng.bits() as usize;
            let name = self.names.get(some % self.names.len().max(1)).copied();
            let connection = name.unwrap_or(Connection(rng.below(1 << 34)));
            let bytes = rng.below(20_000);
            self.pending = Some(match rng.below(40) {
                _ if self.steps == 1 => Input::Listen { port: 80, backlog: 4 },
                0 => Input::Open { ticket: 1, to: Node(1), port: 80 },
                1..5 => Input::Write { connection, bytes, whole: bytes.is_multiple_of(2) },
                5 | 6 => Input::Took { connection, bytes },
                7 if bytes < 5_000 => Input::Shut { connection },
                8 if bytes < 5_000 => Input::Close { connection },
                9 if bytes < 2_000 => Input::Abort { connection },
                10 => {
                    let (header, _) = Self::nonsense(rng);
                    let why = Unreachable::TooLong { mtu_bytes: bytes as u16 };
                    Input::Unreachable { to: Node(1), header, why }
                }
                11 => Input::Unlisten { port: 81 },
                n => {
                    let lies = n < 15 || self.views.is_empty();
                    let (header, length_bytes) =
                        if lies { Self::nonsense(rng) } else { self.sensible(rng) };
                    let payload = Extent { message: Message(0), offset_bytes: 0, length_bytes };
                    let marked = n % 3 == 0;
                    let seen = Seen { marked, trimmed: false };
                    Input::Rx { from: Node(1), header, payload, seen }
                }
            });
        }
        Some(now + Span::from_ns(rng.below(300_000)))
    }

    fn take(&mut self, _: Instant) -> Turn<Input<Segment>> {
        self.pulls = !self.pulls;
        match self.pulls {
            true => Turn::Input(self.pending.take().expect("one is pending")),
            false => Turn::Pull(PULLS),
        }
    }

    fn apply(&mut self, _: Instant, told: &Done<Effect<Why>, Segment>) {
        match *told {
            Done::Effect(Effect::Opening { connection, .. }) => self.names.push(connection),
            Done::Effect(Effect::Opened { connection, accepted, .. }) => {
                self.opened += 1;
                if accepted {
                    self.names.push(connection);
                }
            }
            Done::Effect(Effect::Ended { connection, .. }) => {
                self.names.retain(|&name| name != connection);
            }
            Done::Effect(Effect::Readable { to, .. }) => self.read = self.read.max(to),
            Done::Effect(Effect::Released { to, .. }) => self.released = self.released.max(to),
            Done::Effect(_) => {}
            Done::Sent(Packet { header: segment, payload, .. }) => {
                let length = payload.length_bytes;
                let Segment { source: own, destination: peer, .. } = segment;
                self.views.retain(|one| {
                    (one.own, one.peer) != (own, peer) || !segment.flags.has(Flags::RST)
                });
                let known = self.views.iter().position(|one| (one.own, one.peer) == (own, peer));
                let syn = segment.flags.has(Flags::SYN);
                if known.is_none() && syn {
                    let opened = segment.flags.has(Flags::ACK);
                    let (sent_to, wants) = (segment.seq.wrapping_add(1), segment.ack);
                    self.views.push(View { own, peer, sent_to, wants, opened });
                    if self.views.len() > 8 {
                        self.views.remove(0);
                    }
                }
                if let Some(view) = known.map(|place| &mut self.views[place]) {
                    let ends = u32::from(syn) + u32::from(segment.flags.has(Flags::FIN));
                    let to = segment.seq.wrapping_add(length + ends);
                    if (to.wrapping_sub(view.sent_to) as i32) > 0 {
                        view.sent_to = to;
                    }
                    if segment.flags.has(Flags::ACK) {
                        view.wants = segment.ack;
                    }
                }
            }
        }
    }
}

fn configs() -> [Config; 7] {
    let plain = Config::reference(RtoConfig::FINE);
    let delayed = DelayedAck::Fixed(Span::from_ms(1));
    let short = Span::from_ms(5);
    let alive = Keepalive { idle: short, interval: short, probes: 3, octet: true };
    let odd = Config { sack: false, delayed_ack: delayed, receive_buffer_bytes: 700, ..plain };
    let brief = Config {
        give_up_retries: 2,
        give_up_after: short,
        time_wait: short,
        keepalive: Some(alive),
        ..plain
    };
    let fine = Config { stamps: None, ..Config::fine(Congestion::Cubic) };
    let linux =
        Config { stamps: None, limited_transmit: true, ..Config::linux(Congestion::NewReno) };
    let classic = Config { ecn: Ecn::Classic, ..linux };
    let dctcp = Config { ecn: Ecn::Dctcp, delayed_ack: delayed, ..fine };
    [plain, odd, brief, fine, linux, classic, dctcp]
}

#[test]
fn the_laws_hold_whatever_comes() {
    for seed in 0..6 {
        for config in configs() {
            hold(|| hostile(config), seed, 4_000);
        }
    }
}

#[test]
fn the_rig_gets_past_the_handshake_and_both_ways_carry_octets() {
    let (mut opened, mut read, mut released) = (0, 0, 0);
    for seed in 0..10 {
        for config in configs() {
            let mut rig = Rig::new(hostile(config), seed, Punctuality::Exact);
            for _ in 0..4_000 {
                rig.step();
            }
            let seen = rig.environment();
            opened += u64::from(seen.opened > 0);
            read += u64::from(seen.read > 1_000);
            released += u64::from(seen.released > 10_000);
        }
    }
    assert!(opened >= 63 && read >= 35 && released >= 35, "of 70: {opened} {read} {released}");
}
