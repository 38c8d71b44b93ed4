//! The agent: what a conversation changes, and what nobody can make it change.

use cavy_coords::agent::{Agent, AgentConfig, Answer, Ask, Coordinates, Timer};
use cavy_coords::config::Planted;
use cavy_coords::map::SERVERS;
use cavy_coords::start::Known;
use cavy_coords::wire::{Rtt, Said, Word};
use cavy_coords::{Config, Coordinate, Point, model};
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Input, Message as _, Via};
use cavy_core::laws::message::{Offer, Scene, Town, hold};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use std::collections::BTreeSet;

const LONDON: (f64, f64) = (51.5, -0.1);
const TOKYO: (f64, f64) = (35.7, 139.7);

fn known((latitude, longitude): (f64, f64)) -> Known {
    Known { address: Point::from_degrees(latitude, longitude), country: None }
}

fn config() -> AgentConfig {
    planted(None)
}

fn planted(planted: Option<Planted>) -> AgentConfig {
    let model = Config { planted, ..Config::with_line(SERVERS) };
    AgentConfig { every: None, ..AgentConfig::new(model) }
}

/// One agent that is talked to by hand.
struct One {
    agent: Agent,
    rng: Stream,
    now: Instant,
}

type Emitted = Vec<Out<Effect<Coordinates>, Timer>>;

impl One {
    fn at(place: (f64, f64)) -> One {
        One::with(place, config())
    }

    fn with(place: (f64, f64), config: AgentConfig) -> One {
        let agent = Agent::new(config, known(place), 0);
        One { agent, rng: Stream::keyed(1, 0, Purpose::Test), now: Instant::ZERO }
    }

    fn step(&mut self, ms: u64, input: Input<Coordinates>) -> Emitted {
        self.now = Instant::ZERO + Span::from_ms(ms);
        let mut out = Outbox::with_capacity(self.agent.effects_max());
        self.agent.handle(input, &mut Cx::new(self.now, &mut self.rng, &mut out));
        self.agent.check();
        assert!(out.entries().len() <= self.agent.effects_max());
        out.drain().collect()
    }

    fn hears(&mut self, ms: u64, from: u32, message: Word) -> Emitted {
        let arrived = Instant::ZERO + Span::from_ms(ms);
        self.step(ms, Input::Rx { from: Node(from), via: Via::Datagram, message, arrived })
    }

    fn asked(&mut self, ms: u64, peer: u32) -> u64 {
        let request = Ask::Probe(Node(peer));
        let out = self.step(ms, Input::Call { call: Call(ms), request });
        let sent = said(&out).expect("a probe");
        let Word::Probe { nonce, .. } = sent else { panic!("{sent:?}") };
        nonce
    }

    fn own(&self) -> Coordinate {
        *self.agent.coordinate().expect("it has a place")
    }
}

fn said(out: &Emitted) -> Option<Word> {
    out.iter().find_map(|one| match one {
        Out::Effect(Effect::Send { message, .. }) => Some(message.clone()),
        _ => None,
    })
}

fn tokyo() -> Said {
    let place = Point::from_degrees(TOKYO.0, TOKYO.1).expect("on Earth");
    Said::of(&Coordinate::at(place, 0, &Config::with_line(SERVERS)))
}

#[test]
fn a_reply_moves_the_asker_once_by_the_rule_of_the_model() {
    let mut one = One::at(LONDON);
    let before = one.own();
    let nonce = one.asked(100, 7);
    let reply = Word::Reply { nonce, held_us: 20_000, said: Some(tokyo()), token: 9 };
    let out = one.hears(400, 7, reply.clone());
    // 300 ms, of which the peer held the probe for 20.
    let config = Config::with_line(SERVERS);
    let mut expected = before;
    let there = tokyo().coordinate(&config).unwrap();
    let mut rng = Stream::keyed(2, 0, Purpose::Test);
    model::update(&mut expected, &there, 280.0, &config, &mut rng);
    assert_eq!(one.own(), expected);
    // The feedback has the coordinate from before, and what the reply asked back.
    let feedback = Word::Feedback { nonce, token: 9, rtt: Rtt(280_000), said: Said::of(&before) };
    assert_eq!(said(&out), Some(feedback));
    let answer = Effect::Reply { call: Call(100), response: Answer::Measured(Some(Rtt(280_000))) };
    assert!(out.contains(&Out::Effect(answer)));
    // A second copy of the reply changes nothing.
    let again = one.hears(410, 7, reply);
    assert!(again.is_empty());
    assert_eq!((one.own(), one.agent.ignored().replies), (expected, 1));
}

#[test]
fn feedback_moves_the_other_end_once_and_only_with_the_token_of_its_reply() {
    let mut one = One::at(LONDON);
    let out = one.hears(50, 3, Word::Probe { space: 0, nonce: 77, said: Some(tokyo()) });
    let Some(Word::Reply { nonce: 77, token, .. }) = said(&out) else { panic!("{out:?}") };
    let start = one.own();
    let feedback = |nonce, token| Word::Feedback { nonce, token, rtt: Rtt(250_000), said: tokyo() };
    // Forged: another nonce, another token, another sender.
    for (from, nonce, token) in [(3, 76, token), (3, 77, token ^ 1), (4, 77, token)] {
        one.hears(300, from, feedback(nonce, token));
        assert_eq!(one.own(), start);
    }
    one.hears(300, 3, feedback(77, token));
    let moved = one.own();
    assert_ne!(moved, start);
    one.hears(310, 3, feedback(77, token));
    assert_eq!((one.own(), one.agent.ignored().feedback), (moved, 4));
}

#[test]
fn feedback_that_comes_too_late_is_none() {
    let mut one = One::at(LONDON);
    let out = one.hears(50, 3, Word::Probe { space: 0, nonce: 77, said: None });
    let Some(Word::Reply { token, .. }) = said(&out) else { panic!("{out:?}") };
    let start = one.own();
    one.hears(10_100, 3, Word::Feedback { nonce: 77, token, rtt: Rtt(9), said: tokyo() });
    assert_eq!(one.own(), start);
}

#[test]
fn nothing_unasked_or_senseless_changes_anything() {
    let mut one = One::at(LONDON);
    let start = one.own();
    let nowhere = Said { latitude: i32::MAX, ..tokyo() };
    let nonce = one.asked(10, 2);
    for message in [
        Word::Reply { nonce: 1, held_us: 0, said: Some(tokyo()), token: 1 },
        Word::Feedback { nonce: 1, token: 1, rtt: Rtt(5), said: tokyo() },
        Word::Probe { space: 9, nonce: 5, said: Some(tokyo()) },
        Word::Gossip { heard: [Some((5, nowhere, 0)); 16] },
    ] {
        one.hears(20, 2, message);
    }
    // A reply that took no time, and one from another space's peer.
    one.hears(20, 3, Word::Reply { nonce, held_us: 0, said: Some(tokyo()), token: 1 });
    assert_eq!(one.own(), start);
    one.hears(30, 2, Word::Reply { nonce, held_us: u32::MAX, said: Some(tokyo()), token: 1 });
    assert_eq!(one.own(), start, "a round trip of no time is none");
    assert!(one.agent.predict_ms(Node(5), one.now).is_none(), "nonsense is not remembered");
}

#[test]
fn a_probe_without_reply_is_given_up_and_said_so() {
    let mut one = One::at(LONDON);
    let nonce = one.asked(10, 2);
    let mut out = Outbox::with_capacity(6);
    let now = Instant::ZERO + Span::from_ms(1_010);
    one.agent.expire(Timer::Patience(nonce), &mut Cx::new(now, &mut one.rng, &mut out));
    let answer = Effect::Reply { call: Call(10), response: Answer::Measured(None) };
    assert_eq!(out.entries(), [Out::Effect(answer)]);
    let start = one.own();
    one.hears(1_020, 2, Word::Reply { nonce, held_us: 0, said: Some(tokyo()), token: 1 });
    assert_eq!(one.own(), start);
}

#[test]
fn what_was_stored_is_taken_up_again_unless_the_address_moved() {
    let mut one = One::at(LONDON);
    let mut kept = None;
    for round in 0..8u64 {
        let nonce = one.asked(round * 1_000, 7);
        let reply = Word::Reply { nonce, held_us: 0, said: Some(tokyo()), token: 9 };
        for out in one.hears(round * 1_000 + 280, 7, reply) {
            if let Out::Effect(Effect::Store { entry, record }) = out {
                kept = Some((entry, record));
            }
        }
    }
    let (entry, record) = kept.expect("it is stored after eight updates");
    assert_eq!((entry, record.said), (Entry(1), Said::of(&one.own())));
    for (place, resumes) in [(LONDON, true), (TOKYO, false)] {
        let mut again = One::at(place);
        let fresh = again.own();
        again.step(0, Input::Replay { entry, record });
        again.step(0, Input::Recovered { torn: false });
        let expected = record.said.coordinate(&Config::with_line(SERVERS)).unwrap();
        assert_eq!(again.own(), if resumes { expected } else { fresh });
    }
}

#[test]
fn a_reply_is_never_longer_than_its_probe() {
    let probe = Word::Probe { space: 0, nonce: 1, said: None };
    let reply = Word::Reply { nonce: 1, held_us: 0, said: Some(tokyo()), token: 1 };
    assert!(reply.wire_bytes() <= probe.wire_bytes());
    let heard = [Some((1, tokyo(), 0)); 16];
    assert!(Word::Gossip { heard }.wire_bytes() <= 1_200);
}

/// Agents that probe each other, by clients and by themselves.
struct Agents {
    asked: u32,
    nodes: u32,
    /// Feedback that was given: once for each probe.
    given: BTreeSet<(Node, u64)>,
    probes: u64,
    feedback: u64,
}

impl Scene for Agents {
    type Machine = Agent;

    fn machine(&self, node: Node) -> Agent {
        let seeds = (0..self.nodes).map(Node).filter(|other| *other != node).collect();
        let every = Some(Span::from_ms(40));
        let patience = Span::from_ms(50);
        let own =
            AgentConfig { seeds, every, patience, gossip_every: 2, store_every: 2, ..config() };
        // One of them is not located.
        let place = if node.0 == 1 { Known::default() } else { known((node.0 as f64, 10.0)) };
        Agent::new(own, place, 0)
    }

    fn ask(&mut self, rng: &mut Stream) -> Option<(Node, Ask)> {
        self.asked += 1;
        let node = Node(rng.below(self.nodes.into()) as u32);
        let peer = Node((node.0 + 1 + rng.below(u64::from(self.nodes) - 1) as u32) % self.nodes);
        let ask = if rng.below(3) == 0 { Ask::Predict(peer) } else { Ask::Probe(peer) };
        (self.asked < 60).then_some((node, ask))
    }

    fn said(&mut self, _: Instant, node: Node, effect: &Effect<Coordinates>) {
        let Effect::Send { to, message, .. } = effect else { return };
        assert_ne!(*to, node, "nobody probes itself");
        match message {
            Word::Probe { .. } => self.probes += 1,
            Word::Feedback { nonce, .. } => {
                assert!(self.given.insert((node, *nonce)), "feedback twice for {nonce}");
                self.feedback += 1;
            }
            _ => {}
        }
    }
}

fn agents() -> Agents {
    Agents { asked: 0, nodes: 3, given: BTreeSet::new(), probes: 0, feedback: 0 }
}

#[allow(clippy::disallowed_methods)] // which seeds to run is the caller's to say
fn seeds(few: u64) -> std::ops::Range<u64> {
    cavy_core::laws::seeds(|name| std::env::var(name).ok(), 0..few)
}

/// Datagrams are lost and doubled, agents crash and come back, clocks step: the laws of the family
/// hold, and what an agent has learnt is bounded by what was asked.
#[test]
fn the_laws_hold_with_faults() {
    hold(agents, Offer::rough(3, 400), seeds(1_000));
}

#[test]
fn a_probe_moves_each_end_at_most_once() {
    for seed in seeds(1_000) {
        let mut town = Town::new(agents(), Offer::rough(3, 400), seed);
        town.run();
        let updates: u64 = (0..3).map(|n| u64::from(town.machine(Node(n)).updates())).sum();
        // Each probe can move its asker and, by one feedback, its target.
        let most = town.scene.probes + town.scene.feedback;
        assert!(updates <= most, "seed {seed}: {updates} updates of {most}");
        assert!(town.scene.probes > 0 && town.answered > 0, "seed {seed}");
    }
}

/// The feedback says where the asker was before it learnt.
fn feedback_is_from_before(config: AgentConfig) -> bool {
    let mut one = One::with(LONDON, config);
    let before = Said::of(&one.own());
    let nonce = one.asked(100, 7);
    let reply = Word::Reply { nonce, held_us: 0, said: Some(tokyo()), token: 9 };
    matches!(said(&one.hears(400, 7, reply)), Some(Word::Feedback { said, .. }) if said == before)
}

/// A peer that holds a probe for long is no farther away.
fn holding_is_no_distance(config: AgentConfig) -> bool {
    let places = [0, 150_000].map(|held_us| {
        let mut one = One::with(LONDON, config.clone());
        let nonce = one.asked(100, 7);
        let reply = Word::Reply { nonce, held_us, said: Some(tokyo()), token: 9 };
        one.hears(350 + u64::from(held_us) / 1_000, 7, reply);
        one.own()
    });
    places[0] == places[1]
}

/// Feedback that names no probe answered moves nobody, and one that does moves once.
fn only_what_was_answered_moves(config: AgentConfig) -> bool {
    let mut one = One::with(LONDON, config);
    let out = one.hears(50, 3, Word::Probe { space: 0, nonce: 77, said: Some(tokyo()) });
    let Some(Word::Reply { token, .. }) = said(&out) else { return false };
    let start = one.own();
    let feedback = |nonce| Word::Feedback { nonce, token, rtt: Rtt(250_000), said: tokyo() };
    one.hears(300, 3, feedback(76));
    let still = one.own() == start;
    one.hears(301, 3, feedback(77));
    let moved = one.own();
    one.hears(302, 3, feedback(77));
    still && moved != start && one.own() == moved
}

#[test]
fn planted_bugs_of_agents_are_caught_each_by_its_own_oracle() {
    type Oracle = fn(AgentConfig) -> bool;
    let oracles: [(Planted, Oracle); 3] = [
        (Planted::FeedbackFromAfter, feedback_is_from_before),
        (Planted::HeldCounted, holding_is_no_distance),
        (Planted::FeedbackUnproven, only_what_was_answered_moves),
    ];
    for (bug, _) in oracles {
        for (whose, oracle) in oracles {
            assert!(oracle(config()), "the oracle for {whose:?} finds nothing where nothing is");
            let holds = oracle(planted(Some(bug)));
            assert_eq!(holds, bug != whose, "{bug:?} by the oracle for {whose:?}");
        }
    }
}
