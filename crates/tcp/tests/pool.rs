//! Messages over a pool of connections: what is on one keeps its order, what is on several may not.
//!
//! `CAVY_SEEDS=10000 cargo test -p cavy-tcp --test pool` runs more seeds.

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input, Message};
use cavy_core::laws::packet::{Application, Deeds, Links, Network, Weather};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_tcp::messages::Messages;
use cavy_tcp::{Config, Congestion, Segment, Why};
use std::collections::{BTreeMap, BTreeSet};

/// What an answer is longer than its question.
const MORE_BYTES: u32 = 7;

/// What was delivered, in order: to whom, what, how long, when.
#[derive(Default)]
struct Heard {
    all: Vec<(u32, Message, u32, Instant)>,
    questions: BTreeSet<Message>,
}

impl Application<Messages> for Heard {
    fn effect(
        &mut self,
        node: Node,
        now: Instant,
        effect: Effect<Why>,
        deeds: &mut Deeds<Input<Segment>>,
    ) {
        match effect {
            Effect::Delivered { from, message, length_bytes } => {
                self.all.push((node.0, message, length_bytes, now));
                if self.questions.contains(&message) {
                    let length_bytes = length_bytes + MORE_BYTES;
                    let input = Input::Answer { to: from, question: message, length_bytes };
                    // The sooner one is asked the later one answers.
                    let after = Span::from_us(100 / (1 + message.0));
                    deeds.tell(after, node, input);
                }
            }
            Effect::Failed { why, message, .. } => panic!("{message:?} failed: {why:?}"),
            _ => {}
        }
    }
}

/// Two hosts at 1 Gb/s, 50 us apart; the first keeps so many connections to the other.
struct Pair(Network<Messages, Heard>);

impl Pair {
    fn new(connections: u16, seed: u64) -> Pair {
        let config = Config::fine(Congestion::NewReno);
        let make = || Messages::new(config).expect("legal").pool(connections);
        let mut network = Network::new(vec![make(), make()], Heard::default(), seed);
        network.links = Links { bits_per_s: 1_000_000_000, delay: Span::from_us(25) };
        network.room_bytes = 1_480;
        network.keep_sent = true;
        network.checks = true;
        Pair(network)
    }

    fn submit(&mut self, at: Instant, number: u64, length_bytes: u32, asks: bool) -> Message {
        let message = Message(2 * number);
        if asks {
            self.0.application.questions.insert(message);
        }
        let to = Node(1);
        self.0.tell(at, 0, Input::Submit { to, message, length_bytes, asks });
        message
    }

    /// Runs until nothing happens; connections stay open, so that this is when no timer runs.
    fn run(&mut self) {
        while self.0.step() {
            assert!(self.0.steps < 5_000_000, "it goes on and on");
        }
    }

    /// When it was delivered, counted from the start.
    fn after(&self, message: Message) -> Span {
        let mut heard = self.0.application.all.iter().filter(|one| one.1 == message);
        let (Some(one), None) = (heard.next(), heard.next()) else {
            panic!("{message:?} was not delivered once: {:?}", self.0.application.all)
        };
        one.3.since(Instant::ZERO)
    }

    /// By message, the connections that carried it, as the port of the host that opened them.
    fn carried(&self) -> BTreeMap<Message, BTreeSet<u16>> {
        let mut by: BTreeMap<Message, BTreeSet<u16>> = BTreeMap::new();
        for (from, packet) in &self.0.sent {
            if packet.payload.length_bytes > 0 {
                let header = &packet.header;
                let port = if from.0 == 0 { header.source } else { header.destination };
                by.entry(packet.payload.message).or_default().insert(port);
            }
        }
        by
    }

    fn opened(&self) -> usize {
        self.carried().values().flatten().collect::<BTreeSet<_>>().len()
    }
}

#[test]
fn a_short_message_waits_for_the_long_one_before_it_on_one_connection_and_not_on_two() {
    let after = |connections: u16| {
        let mut pair = Pair::new(connections, 1);
        let long = pair.submit(Instant::ZERO, 1, 1_000_000, false);
        let short = pair.submit(Instant::ZERO, 2, 1_000, false);
        pair.run();
        assert_eq!(pair.opened(), usize::from(connections));
        (pair.after(long), pair.after(short))
    };
    // A million octets take 8 ms on the wire.
    let wire = Span::from_ms(8);
    let (long, short) = after(1);
    assert!(short > long && long > wire, "{long} {short}");
    // One handshake, one way, and a few segments of the other connection.
    let (long, short) = after(2);
    assert!(short < Span::from_us(150 + 10 * 12) && long > wire, "{long} {short}");
}

#[test]
fn messages_take_the_connection_with_the_least_to_do_and_open_no_more_than_they_need() {
    // One after the other, all on the same one.
    let mut pair = Pair::new(4, 1);
    for number in 0..20 {
        let asks = number % 2 == 0;
        pair.submit(Instant::ZERO + Span::from_ms(number), number, 10_000, asks);
    }
    pair.run();
    assert_eq!(pair.opened(), 1);
    // All at once: eight messages of equal length on four connections are two on each.
    let mut pair = Pair::new(4, 1);
    for number in 0..8 {
        pair.submit(Instant::ZERO, number, 100_000, false);
    }
    pair.run();
    let mut on: BTreeMap<u16, u32> = BTreeMap::new();
    for ports in pair.carried().into_values() {
        assert_eq!(ports.len(), 1, "a message is on one connection");
        ports.into_iter().for_each(|port| *on.entry(port).or_default() += 1);
    }
    assert_eq!(on.into_values().collect::<Vec<_>>(), [2; 4]);
    // Who waits for a long answer is busy, though nothing of its own is under way.
    let mut pair = Pair::new(2, 1);
    let asked = pair.submit(Instant::ZERO, 1, 1_000_000, true);
    let answered = Span::from_us(8_100);
    let next = pair.submit(Instant::ZERO + answered + Span::from_ms(1), 2, 100, false);
    pair.run();
    let carried = pair.carried();
    assert_ne!(carried[&asked], carried[&next], "{carried:?}");
    assert_eq!(carried[&asked], carried[&asked.answer()], "{carried:?}");
}

#[test]
fn what_is_on_one_connection_keeps_its_order_and_what_is_on_several_does_not() {
    let mut overtaken = 0;
    for connections in [1, 2, 5] {
        let mut pair = Pair::new(connections, 3);
        let mut draws = Stream::keyed(9, u32::from(connections), Purpose::Test);
        for number in 0..60 {
            let length_bytes =
                1 + draws.below(if number % 5 == 0 { 200_000 } else { 2_000 }) as u32;
            pair.submit(Instant::ZERO, number, length_bytes, false);
        }
        pair.run();
        let carried = pair.carried();
        let mut last: BTreeMap<u16, Message> = BTreeMap::new();
        let mut newest = Message(0);
        for &(_, message, ..) in &pair.0.application.all {
            let port = *carried[&message].first().expect("it was carried");
            let before = last.insert(port, message);
            assert!(before.is_none_or(|before| before.0 < message.0), "{before:?} {message:?}");
            if connections > 1 {
                overtaken += u32::from(message.0 < newest.0);
            } else {
                assert!(message.0 >= newest.0);
            }
            newest = Message(newest.0.max(message.0));
        }
        assert_eq!(pair.0.application.all.len(), 60);
    }
    assert!(overtaken > 20, "{overtaken}");
}

#[test]
#[allow(clippy::disallowed_methods)] // how many seeds to run is the caller's to say
fn whatever_the_network_does_each_message_comes_once_and_each_question_is_answered_once() {
    for seed in cavy_core::laws::seeds(|name| std::env::var(name).ok(), 0..60) {
        let mut draws = Stream::keyed(seed, 0, Purpose::Test);
        let connections = 1 + draws.below(5) as u16;
        let mut pair = Pair::new(connections, seed);
        pair.0.weather = Weather {
            lost: draws.below(150),
            doubled: draws.below(50),
            delayed: draws.below(150),
            delay: Span::from_us(1 + draws.below(2_000)),
            ..Weather::default()
        };
        let mut want = BTreeMap::new();
        for number in 0..30 {
            let most = if draws.below(4) == 0 { 100_000 } else { 3_000 };
            let length_bytes = 1 + draws.below(most) as u32;
            let at = Instant::ZERO + Span::from_us(draws.below(20_000));
            let asks = draws.below(2) == 0;
            let message = pair.submit(at, number, length_bytes, asks);
            want.insert((1, message), length_bytes);
            if asks {
                want.insert((0, message.answer()), length_bytes + MORE_BYTES);
            }
        }
        pair.run();
        let all = &pair.0.application.all;
        let heard: BTreeMap<_, _> =
            all.iter().map(|&(node, message, length, _)| ((node, message), length)).collect();
        assert_eq!((heard, all.len()), (want.clone(), want.len()), "seed {seed}");
        let carried = pair.carried();
        assert!(pair.opened() <= usize::from(connections), "seed {seed}");
        for (_, message) in want.keys().filter(|(_, message)| message.is_answer()) {
            let both = (&carried[message], &carried[&message.question()]);
            assert_eq!(both.0, both.1, "seed {seed}: {message:?}");
        }
    }
}
