//! The laws of the seam, under inputs that no honest peer and no careful application makes up:
//! random segments and calls in any order. First numbers are drawn, and the rig pulls no packets,
//! so little of this comes past the handshake; `transfer` has the rest.

use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message, Seen};
use cavy_core::family::stream::{Connection, Effect, Input, Unreachable};
use cavy_core::laws::{Environment, hold};
use cavy_core::{Instant, Span, Stream};
use cavy_tcp::{Config, DelayedAck, Flags, RtoConfig, Segment, Stack, Why};

struct Hostile {
    config: Config,
    pending: Option<Input<Segment>>,
    names: Vec<Connection>,
    steps: u32,
}

fn hostile(config: Config) -> Hostile {
    Hostile { config, pending: None, names: Vec::new(), steps: 0 }
}

fn segment(rng: &mut Stream) -> Segment {
    // Few ports and small numbers, so that many segments meet a connection and a window.
    let source = 32_768 + rng.below(3) as u16;
    let destination = if rng.below(2) == 0 { 80 } else { 32_768 + rng.below(3) as u16 };
    let mut made = Segment::new(source, destination, rng.below(5_000) as u32, Flags(0));
    made.flags =
        Flags([0x02, 0x10, 0x10, 0x10, 0x12, 0x11, 0x04, 0x14, 0x18][rng.below(9) as usize]);
    if rng.below(20) == 0 {
        made.flags = Flags(rng.below(64) as u8);
    }
    made.ack = if rng.below(3) == 0 { rng.bits() as u32 } else { rng.below(3_000) as u32 };
    made.window = rng.below(65_536) as u16;
    if made.flags.has(Flags::SYN) {
        made.mss = (rng.below(2) == 0).then(|| rng.below(2_000) as u16);
        made.scale = (rng.below(2) == 0).then(|| rng.below(20) as u8);
        made.sack_permitted = rng.below(2) == 0;
    }
    for _ in 0..rng.below(4) {
        let left = rng.below(5_000) as u32;
        made.sacks.push(left, left.wrapping_add(rng.below(3_000) as u32));
    }
    made
}

impl Environment for Hostile {
    type Machine = Stack;

    fn machine(&self) -> Stack {
        Stack::new(self.config).expect("a legal configuration")
    }

    fn next_at(&mut self, now: Instant, rng: &mut Stream) -> Option<Instant> {
        if self.pending.is_none() {
            self.steps += 1;
            let some = rng.bits() as usize;
            let name = self.names.get(some % self.names.len().max(1)).copied();
            let connection = name.unwrap_or(Connection(rng.below(1 << 34)));
            let bytes = rng.below(20_000);
            self.pending = Some(match rng.below(24) {
                _ if self.steps == 1 => Input::Listen { port: 80, backlog: 4 },
                0 => Input::Open { ticket: 1, to: Node(1), port: 80 },
                1 | 2 => Input::Write { connection, bytes, whole: bytes.is_multiple_of(2) },
                3 => Input::Took { connection, bytes },
                4 => Input::Shut { connection },
                5 => Input::Close { connection },
                6 if bytes < 5_000 => Input::Abort { connection },
                7 => {
                    let why = Unreachable::TooLong { mtu_bytes: bytes as u16 };
                    Input::Unreachable { to: Node(1), header: segment(rng), why }
                }
                8 => Input::Unlisten { port: 81 },
                _ => {
                    let header = segment(rng);
                    let length_bytes = if rng.below(2) == 0 { rng.below(1461) as u32 } else { 0 };
                    let payload = Extent { message: Message(0), offset_bytes: 0, length_bytes };
                    Input::Rx { from: Node(1), header, payload, seen: Seen::default() }
                }
            });
        }
        Some(now + Span::from_ns(rng.below(300_000)))
    }

    fn take(&mut self, _: Instant) -> Input<Segment> {
        self.pending.take().expect("one is pending")
    }

    fn apply(&mut self, _: Instant, effect: &Effect<Why>) {
        match *effect {
            Effect::Opening { connection, .. } | Effect::Opened { connection, .. } => {
                self.names.push(connection);
            }
            Effect::Ended { connection, .. } => self.names.retain(|&name| name != connection),
            _ => {}
        }
    }
}

#[test]
fn the_laws_hold_whatever_comes() {
    let plain = Config::reference(RtoConfig::FINE);
    let delayed = DelayedAck::Fixed(Span::from_ms(1));
    let short = Span::from_ms(5);
    let odd = Config { sack: false, delayed_ack: delayed, receive_buffer_bytes: 700, ..plain };
    let brief = Config { give_up_retries: 2, give_up_after: short, time_wait: short, ..plain };
    for seed in 0..12 {
        for config in [plain, odd, brief] {
            hold(|| hostile(config), seed, 3_000);
        }
    }
}
