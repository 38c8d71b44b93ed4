//! The worlds on a transport small enough to be right, and on the same with a bug.

use super::*;
use crate::family::packet::{Effect, Input, Message};
use crate::laws::pull_means_sending_only;
use crate::machine::{Cx, Machine, Packet, Room, Transmit};
use crate::stream::{Purpose, Stream};
use crate::time::{Instant, Span};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

const PACKET_BYTES: u32 = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    Data(u32),
    /// All of the message is there.
    Whole,
}

impl packet::Header for Says {
    fn wire_bytes(&self) -> u32 {
        12
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    PlacesTwice,
    DeliversTwice,
    DeliversHalf,
    DeliversAnotherLength,
    ReleasesAtOnce,
    ReleasesTwice,
    FailsAndDelivers,
    TooManyEffects,
}

/// Sends each message in pieces, again from its start after 100 us, until the receiver says that it
/// has all of them.
struct Blunt {
    bug: Bug,
    out: BTreeMap<(Node, Message), (u32, u32)>,
    coming: BTreeMap<(Node, Message), Vec<bool>>,
    over: Vec<(Node, Message)>,
    control: VecDeque<(Node, Message)>,
}

type BluntCx<'a> = Cx<'a, Effect<()>, ()>;

fn blunt(bug: Bug) -> Blunt {
    let (out, coming) = (BTreeMap::new(), BTreeMap::new());
    Blunt { bug, out, coming, over: Vec::new(), control: VecDeque::new() }
}

impl Blunt {
    fn begin(&mut self, to: Node, message: Message, bytes: u32, cx: &mut BluntCx<'_>) {
        self.out.insert((to, message), (0, bytes));
        cx.arm((), cx.now() + Span::from_us(100));
        if self.bug == Bug::ReleasesAtOnce {
            cx.emit(Effect::Released { peer: to, message });
        }
    }

    fn data(&mut self, from: Node, length: u32, payload: Extent, cx: &mut BluntCx<'_>) {
        let message = payload.message;
        if self.over.contains(&(from, message)) {
            self.control.push_back((from, message));
            return;
        }
        let pieces = length.div_ceil(PACKET_BYTES) as usize;
        let parts = self.coming.entry((from, message)).or_insert_with(|| vec![false; pieces]);
        let part = &mut parts[(payload.offset_bytes / PACKET_BYTES) as usize];
        if !core::mem::replace(part, true) || self.bug == Bug::PlacesTwice {
            cx.emit(Effect::Place { from, extent: payload });
        }
        if parts.iter().all(|&there| there) || self.bug == Bug::DeliversHalf {
            let length_bytes = length + u32::from(self.bug == Bug::DeliversAnotherLength);
            cx.emit(Effect::Delivered { from, message, length_bytes });
            self.coming.remove(&(from, message));
            if self.bug != Bug::DeliversTwice {
                self.over.push((from, message));
            }
            if self.bug == Bug::FailsAndDelivers {
                cx.emit(Effect::Failed { peer: from, message, why: () });
                cx.emit(Effect::Failed { peer: from, message, why: () });
            }
            self.control.push_back((from, message));
        }
    }
}

impl Machine for Blunt {
    type Input = Input<Says>;
    type Effect = Effect<()>;
    type Timer = ();

    fn effects_max(&self) -> usize {
        if self.bug == Bug::TooManyEffects { 1 } else { 4 }
    }

    fn start(&mut self, _: &mut BluntCx<'_>) {}

    fn handle(&mut self, input: Input<Says>, cx: &mut BluntCx<'_>) {
        match input {
            Input::Submit { to, message, length_bytes, .. } => {
                self.begin(to, message, length_bytes, cx);
            }
            Input::Answer { to, question, length_bytes } => {
                self.begin(to, question.answer(), length_bytes, cx);
            }
            Input::Rx { from, header: Says::Data(length), payload, .. } => {
                self.data(from, length, payload, cx);
            }
            Input::Rx { from, payload, .. } => {
                let message = payload.message;
                if self.out.remove(&(from, message)).is_some() && self.bug != Bug::ReleasesAtOnce {
                    cx.emit(Effect::Released { peer: from, message });
                    if self.bug == Bug::ReleasesTwice {
                        cx.emit(Effect::Released { peer: from, message });
                    }
                }
            }
            Input::Cancel { .. } => {}
        }
    }

    fn expire(&mut self, (): (), cx: &mut BluntCx<'_>) {
        self.out.values_mut().for_each(|(sent, _)| *sent = 0);
        if !self.out.is_empty() {
            cx.arm((), cx.now() + Span::from_us(100));
        }
    }
}

impl Transmit for Blunt {
    type Header = Says;

    fn pull(&mut self, room: Room, _: &mut BluntCx<'_>) -> Option<Packet<Says>> {
        if let Some((to, message)) = self.control.pop_front() {
            let payload = Extent { message, offset_bytes: 0, length_bytes: 0 };
            return Some(Packet { to, header: Says::Whole, payload, priority: 7, rank: 0 });
        }
        let mut waiting = self.out.iter_mut();
        let (&(to, message), (sent, length)) = waiting.find(|(_, (sent, all))| sent < all)?;
        let (offset_bytes, length_bytes) = (*sent, PACKET_BYTES.min(*length - *sent));
        if length_bytes > room.bytes {
            return None;
        }
        *sent += length_bytes;
        let payload = Extent { message, offset_bytes, length_bytes };
        Some(Packet { to, header: Says::Data(*length), payload, priority: 0, rank: *length })
    }
}

/// Twelve messages among three hosts in bad weather.
fn conversation(bug: Bug, seed: u64, queue: Queue) -> Network<Blunt, Ledger<()>> {
    let machines = (0..3).map(|_| blunt(bug)).collect();
    let mut network = Network::new(machines, Ledger::default(), seed);
    network.application.releases_prove = true;
    network.queue = queue;
    let (until, delay) = (Instant::from_ns(3_000_000), Span::from_us(30));
    network.weather =
        Weather { lost: 100, doubled: 100, delayed: 100, delay, until, outages: Vec::new() };
    let mut draws = Stream::keyed(seed, 0, Purpose::Test);
    for n in 0..12 {
        let from = draws.below(3) as u32;
        let to = (from + 1 + draws.below(2) as u32) % 3;
        let at = Instant::from_ns(draws.below(50_000));
        let answer = (n % 3 == 0).then_some(250);
        network.submit(at, (from, to), 2 * n, 1 + draws.below(2_000) as u32, answer);
    }
    network.run(Instant::from_ns(50_000_000));
    network
}

const QUEUES: [Queue; 5] = [
    Queue::Ideal,
    Queue::Levels { limit: 6, mark: 3 },
    Queue::Octets { limit: 9_000 },
    Queue::Rank { limit: 5 },
    Queue::Trim { limit: 200 },
];

#[test]
fn a_right_transport_delivers_all_through_every_switch() {
    for queue in QUEUES {
        for seed in 0..20 {
            let network = conversation(Bug::None, seed, queue);
            let fates = &network.application.fates;
            assert_eq!(fates.len(), 16, "twelve messages and four answers");
            for (name, fate) in fates {
                assert_eq!((fate.delivered, fate.released), (1, 1), "{queue:?} {name:?} {fate:?}");
            }
            assert_eq!(network.armed(), 0);
            assert!(network.dropped > 0 && network.data_packets > 0);
        }
    }
}

#[test]
fn a_run_repeats() {
    let run = |seed| {
        let network = conversation(Bug::None, seed, QUEUES[1]);
        (network.application.fates, network.steps, network.now, network.dropped)
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4), run(5));
}

#[test]
fn the_oracle_catches_each_planted_bug() {
    for (bug, said) in [
        (Bug::PlacesTwice, "placed twice"),
        (Bug::DeliversTwice, "after it was delivered"),
        (Bug::DeliversHalf, "with holes"),
        (Bug::DeliversAnotherLength, "another length"),
        (Bug::ReleasesAtOnce, "released and not delivered"),
        (Bug::ReleasesTwice, "released twice"),
        (Bug::FailsAndDelivers, "failed twice"),
        (Bug::TooManyEffects, "law 4"),
    ] {
        let run = std::panic::catch_unwind(|| conversation(bug, 1, Queue::Ideal).steps);
        let why = run.expect_err("a bug that nobody sees");
        let why = why.downcast_ref::<std::string::String>().expect("words");
        assert!(why.contains(said), "{bug:?}: {why}");
    }
}

#[test]
fn nothing_passes_in_an_outage() {
    let machines = (0..2).map(|_| blunt(Bug::None)).collect();
    let mut network = Network::new(machines, Ledger::default(), 1);
    let to = Instant::from_ns(1_000_000);
    network.weather.outages = vec![Outage { node: Some(Node(1)), from: Instant::ZERO, to }];
    network.submit(Instant::ZERO, (0, 1), 0, 300, None);
    network.run(to);
    assert_eq!(network.fate(0, 1, Message(0)).delivered, 0);
    assert!(network.run(Instant::from_ns(9_000_000)));
    let fate = network.fate(0, 1, Message(0));
    assert!(fate.delivered_at.is_some_and(|at| at > to), "{fate:?}");
}

#[test]
fn a_host_that_restarts_has_forgotten_its_messages() {
    let machines = (0..2).map(|_| blunt(Bug::None)).collect();
    let mut network = Network::new(machines, Ledger::default(), 1);
    network.submit(Instant::ZERO, (0, 1), 0, 50_000, None);
    network.run(Instant::from_ns(10_000));
    network.restart(0, blunt(Bug::None));
    assert!(network.run(Instant::from_ns(9_000_000)));
    assert_eq!((network.fate(0, 1, Message(0)).delivered, network.armed()), (0, 0));
}

#[test]
fn a_stage_keeps_time_and_what_was_done() {
    let mut stage = Stage::new(blunt(Bug::None), Instant::from_ns(5), 1);
    stage.submit(3, 8, 250, false);
    let sent = stage.pull_all();
    assert_eq!(sent.iter().map(|p| p.payload.length_bytes).collect::<Vec<_>>(), [100, 100, 50]);
    stage.wait(Span::from_us(50));
    assert!(stage.pull().is_none());
    stage.wait(Span::from_us(50));
    assert_eq!((stage.now, stage.pull_all().len()), (Instant::from_ns(100_005), 3));
    let payload = Extent { message: Message(8), offset_bytes: 0, length_bytes: 0 };
    stage.receive(3, Says::Whole, payload, Seen::default());
    assert_eq!(stage.effects, [Effect::Released { peer: Node(3), message: Message(8) }]);
    assert!(stage.expire_next() && !stage.expire_next());
}

#[test]
fn law_6_holds_of_a_right_transport() {
    let mut rng = Stream::keyed(1, 0, Purpose::Machine);
    let mut stage = Stage::new(blunt(Bug::None), Instant::ZERO, 1);
    stage.submit(1, 2, 300, false);
    let room = Room { packets: 1, bytes: 1_500 };
    let sent = pull_means_sending_only(&mut stage.machine, Instant::ZERO, room, &mut rng);
    assert_eq!(sent.len(), 3);
}

/// A host that a message always finds, and an application that follows what it does.
#[test]
fn steady_hosts_keep_so_many_messages_under_way() {
    let mut hosts = Steady::new((0..3).map(|_| blunt(Bug::None)).collect());
    let length_bytes = |n, _: &mut Stream| 1 + 37 * (n % 20) as u32;
    let load = Load { open: 5, asks: true, length_bytes, packets_per_us: 1, lost_every: 61 };
    for _ in 0..20_000 {
        hosts.step(&load);
    }
    assert!(hosts.delivered > 500 && hosts.packets > 2_000, "{}", hosts.delivered);
    assert_eq!(hosts.failed, 0);
}

/// A served machine pulls when it is told to, and the rig of the laws drives it.
#[test]
fn a_served_machine_pulls_in_a_step_of_its_own() {
    let mut stage = Stage::new(Served::new(blunt(Bug::None), 1_472), Instant::ZERO, 1);
    let (to, message) = (Node(1), Message(4));
    let input = Input::Submit { to, message, length_bytes: 250, asks: false };
    stage.input(Turn::Input(input));
    assert!(stage.effects.is_empty());
    stage.input(Turn::Pull(2));
    let sent = |done: &Done<_, Says>| matches!(done, Done::Sent(packet) if packet.to == to);
    assert_eq!(stage.effects.iter().filter(|done| sent(done)).count(), 2);
    stage.input(Turn::Pull(9));
    assert_eq!(stage.effects.len(), 3);
}
