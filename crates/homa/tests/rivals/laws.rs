//! The laws of the seam. A machine talks to itself, as node 0 to node 0, over a line that delays
//! and loses packets; so one machine is sender and receiver, and the rig of the laws can drive it.

use crate::each_transport;
use crate::transports::{Rival, stage};
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Extent, Input, Message, Seen};
use cavy_core::laws::packet::{Done, Served, Turn};
use cavy_core::laws::{Environment, Punctuality, Rig, hold, pull_means_sending_only};
use cavy_core::{Cx, Instant, Machine, Outbox, Packet, Purpose, Room, Span, Stream};
use cavy_homa::rivals::{About, Why, blast, dctcp, ndp, pfabric, phost, pias, selective};
use std::collections::BTreeMap;

/// The line back to itself: a pull each microsecond, packets two to six microseconds late, one in
/// fifty lost, one in thirty marked, one in thirty trimmed.
struct Line<M: Rival, F> {
    make: F,
    pending: BTreeMap<(Instant, u64), Turn<Input<M::Header>>>,
    order: u64,
    draws: Stream,
    submitted: u64,
    ended: BTreeMap<Message, u32>,
}

const MESSAGES: u64 = 120;

impl<M: Rival, F: Fn() -> M> Line<M, F> {
    fn new(seed: u64, make: F) -> Self {
        let draws = Stream::keyed(seed, 3, Purpose::Test);
        let (pending, ended) = (BTreeMap::new(), BTreeMap::new());
        Line { make, pending, order: 0, draws, submitted: 0, ended }
    }

    fn push(&mut self, at: Instant, turn: Turn<Input<M::Header>>) {
        self.order += 1;
        self.pending.insert((at, self.order), turn);
    }
}

impl<M: Rival, F: Fn() -> M> Environment for Line<M, F> {
    type Machine = Served<M>;

    fn machine(&self) -> Served<M> {
        Served::new((self.make)(), 1_472)
    }

    fn next_at(&mut self, now: Instant, rng: &mut Stream) -> Option<Instant> {
        if self.pending.is_empty() {
            self.push(now + Span::from_us(1), Turn::Pull(1));
        }
        if self.submitted < MESSAGES && rng.below(8) == 0 {
            let message = Message(2 * self.submitted);
            self.submitted += 1;
            let length_bytes = rng.below(40_000) as u32;
            let input = Input::Submit { to: Node(0), message, length_bytes, asks: false };
            self.push(now + Span::from_ns(rng.below(900)), Turn::Input(input));
        }
        self.pending.keys().next().map(|&(at, _)| at)
    }

    fn take(&mut self, now: Instant) -> Turn<Input<M::Header>> {
        let (_, turn) = self.pending.pop_first().expect("next_at gave a time");
        let idle = self.submitted == MESSAGES && self.ended.len() as u64 == MESSAGES;
        if matches!(turn, Turn::Pull(1)) && !idle {
            self.push(now + Span::from_us(1), Turn::Pull(1));
        }
        turn
    }

    fn apply(&mut self, now: Instant, effect: &Done<Effect<Why>, M::Header>) {
        match effect {
            Done::Sent(Packet { header, payload, .. }) => {
                if self.draws.below(50) > 0 {
                    let trimmed = payload.length_bytes > 0 && self.draws.below(30) == 0;
                    let seen = Seen { marked: self.draws.below(30) == 0, trimmed };
                    let at = now + Span::from_ns(2_000 + self.draws.below(4_000));
                    let (from, header, payload) = (Node(0), *header, *payload);
                    self.push(at, Turn::Input(Input::Rx { from, header, payload, seen }));
                }
            }
            Done::Effect(Effect::Delivered { message, .. } | Effect::Released { message, .. }) => {
                *self.ended.entry(*message).or_default() += 1;
            }
            Done::Effect(Effect::Failed { message, why, .. }) => {
                panic!("{message:?} failed: {why:?}")
            }
            Done::Effect(Effect::Place { .. }) => {}
        }
    }
}

#[test]
fn every_rival_keeps_the_laws() {
    each_transport!(|name, _queue, make| {
        for seed in 0..3 {
            println!("{name}, seed {seed}");
            hold(|| Line::new(seed, make), seed, 6_000);
        }
    });
}

#[test]
fn a_machine_that_talks_to_itself_ends_every_message_on_both_sides() {
    each_transport!(|name, _queue, make| {
        for seed in 10..14 {
            let mut rig = Rig::new(Line::new(seed, make), seed, Punctuality::Exact);
            let all_ended = |rig: &Rig<Line<_, _>>| {
                let ended = &rig.environment().ended;
                ended.len() as u64 == MESSAGES && ended.values().all(|&ends| ends == 2)
            };
            let steps = (0..3_000_000).find(|_| {
                rig.step();
                all_ended(&rig)
            });
            assert!(steps.is_some(), "{name}, seed {seed}: some message never ends");
        }
    });
}

#[test]
fn law_6_a_pull_means_sending_only() {
    each_transport!(|name, _queue, make| {
        let mut machine = make();
        let mut rng = Stream::keyed(1, 0, Purpose::Machine);
        let mut outbox = Outbox::with_capacity(machine.effects_max());
        let room = Room { packets: 1, bytes: 1460 };
        let empty = pull_means_sending_only(&mut machine, Instant::ZERO, room, &mut rng);
        assert!(empty.is_empty(), "{name}");
        for name in 0..5 {
            let (to, message) = (Node(1), Message(2 * name));
            let input = Input::Submit { to, message, length_bytes: 4_000, asks: false };
            machine.handle(input, &mut Cx::new(Instant::ZERO, &mut rng, &mut outbox));
            outbox.clear();
        }
        let narrow = Room { packets: 1, bytes: 100 };
        let control = pull_means_sending_only(&mut machine, Instant::ZERO, narrow, &mut rng);
        assert!(control.iter().all(|packet| packet.payload.length_bytes == 0), "{name}");
        let sent = pull_means_sending_only(&mut machine, Instant::ZERO, room, &mut rng);
        assert_eq!(sent.len(), 15, "{name}");
    });
}

/// Whatever a peer sends, nothing panics, no check fails, and what is remembered is bounded.
fn withstands_nonsense<M: Rival>(
    seed: u64,
    make: impl Fn() -> M,
    wild: impl Fn(&mut Stream) -> M::Header,
) {
    let mut rng = Stream::keyed(seed, 4, Purpose::Test);
    let mut stage = stage(make());
    for step in 0..600u64 {
        if rng.below(20) == 0 {
            stage.submit(rng.below(2) as u32, 2 * step, rng.below(30_000) as u32, false);
        }
        let header = wild(&mut rng);
        let message = Message(rng.below(8) + 2 * step.saturating_sub(rng.below(40)));
        let offset_bytes = match rng.below(3) {
            0 => rng.below(20) as u32 * 1460,
            1 => rng.below(40_000) as u32,
            _ => rng.bits() as u32,
        };
        let length_bytes = [0, 1460, 100, rng.bits() as u32][rng.below(4) as usize];
        let seen = Seen { marked: rng.below(3) == 0, trimmed: rng.below(3) == 0 };
        let payload = Extent { message, offset_bytes, length_bytes };
        stage.receive(rng.below(2) as u32, header, payload, seen);
        for _ in 0..rng.below(4) {
            stage.pull();
        }
        stage.wait(Span::from_ns(rng.below(3_000)));
        stage.effects.clear();
    }
    assert!(stage.machine.remembered() < 5_000, "{} are remembered", stage.machine.remembered());
}

fn wild_about(rng: &mut Stream) -> About {
    let number = |rng: &mut Stream| match rng.below(8) {
        0 => rng.bits() as u32,
        _ => rng.below(30) as u32,
    };
    let length_bytes = match rng.below(8) {
        0 => rng.bits() as u32,
        1 => u32::MAX,
        _ => rng.below(30_000) as u32,
    };
    About { serial: number(rng), floor: number(rng), length_bytes }
}

fn wild_selective(rng: &mut Stream) -> selective::Header {
    match rng.below(12) {
        0 => selective::Header::Cancel,
        1 => selective::Header::Refuse,
        2..=6 => selective::Header::Data(wild_about(rng)),
        _ => {
            let next = if rng.below(3) == 0 { rng.bits() as u32 } else { rng.below(20) as u32 };
            selective::Header::Ack { next, bits: rng.bits(), marked: rng.below(2) == 0 }
        }
    }
}

#[test]
fn nonsense_from_peers_is_survived() {
    for seed in 0..300 {
        withstands_nonsense::<pfabric::PFabric>(seed, crate::transports::pfabric, wild_selective);
        withstands_nonsense::<dctcp::Dctcp>(seed, crate::transports::dctcp, wild_selective);
        withstands_nonsense::<pias::Pias>(seed, crate::transports::pias, wild_selective);
        let order = blast::Order::Shortest;
        withstands_nonsense(
            seed,
            || crate::transports::blast(order),
            |rng| match rng.below(9) {
                0 => blast::Header::Cancel,
                1 => blast::Header::Refuse,
                2 => blast::Header::Done,
                3 => blast::Header::Busy,
                4 => blast::Header::Probe(wild_about(rng)),
                5 => blast::Header::Resend { bits: rng.bits() },
                _ => blast::Header::Data(wild_about(rng)),
            },
        );
        withstands_nonsense(seed, crate::transports::phost, |rng| match rng.below(12) {
            0 => phost::Header::Cancel,
            1 => phost::Header::Refuse,
            2 => phost::Header::Done,
            3 => phost::Header::Known,
            4 | 5 => phost::Header::Rts { about: wild_about(rng), again: rng.below(2) == 0 },
            6 | 7 => phost::Header::Token { left: rng.bits() as u32, number: rng.bits() as u16 },
            8 => phost::Header::Free(wild_about(rng)),
            _ => phost::Header::Data { about: wild_about(rng), token: rng.bits() as u16 },
        });
        withstands_nonsense(seed, crate::transports::ndp, |rng| match rng.below(10) {
            0 => ndp::Header::Cancel,
            1 => ndp::Header::Refuse,
            2 => ndp::Header::Nack,
            3 => ndp::Header::Ack { next: rng.bits() as u32, bits: rng.bits() },
            4 | 5 => ndp::Header::Pull { count: rng.bits() as u32 },
            _ => ndp::Header::Data(wild_about(rng)),
        });
    }
}
