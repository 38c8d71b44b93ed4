//! The machine that keeps a coordinate: it chooses whom to probe, answers, gives feedback, gossips
//! and remembers ([htrae 7.1]).
//!
//! A probe is a datagram, its reply another one. A round trip ends when the reply *arrives*, less
//! the time that the peer held the probe. The asker learns, and tells the peer with the coordinate
//! it had before, so that one probe moves each end once. A peer learns from feedback only if it has
//! answered that probe and the token comes back: nothing that nobody asked for changes anything.
//! With the same probes, and nothing lost or late, agents end in the same coordinates to the bit as
//! [`crate::predictors::globe::Globe`] that speaks in whole numbers.

use crate::config::{Config, Planted};
use crate::history::{History, Memory};
use crate::model::{self, Coordinate};
use crate::sphere::Point;
use crate::start::{Known, Placed};
use crate::wire::{GOSSIP, Rtt, Said, Word};
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Input, Message, Protocol, Talker, Via};
use cavy_core::{Cx, Instant, Machine, Span, Stream};

/// The types of agents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Coordinates;

/// What clients ask of an agent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Ask {
    /// Measure the round trip to a peer now.
    Probe(Node),
    /// Say how long a round trip to a peer will take, without asking it.
    Predict(Node),
}

/// What they get.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// It was measured; `None` when no reply came in time.
    Measured(Option<Rtt>),
    /// It is predicted; `None` when the agent knows too little.
    Predicted(Option<Rtt>),
}

/// What survives a crash: the coordinate, and where the address was when it was stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Kept {
    /// The coordinate.
    pub said: Said,
    /// The address's place in steps of 1e-7 degrees, if it was known.
    pub address: Option<(i32, i32)>,
}

impl Message for Ask {
    fn wire_bytes(&self) -> u64 {
        5
    }
}

impl Message for Answer {
    fn wire_bytes(&self) -> u64 {
        5
    }
}

impl Message for Kept {
    fn wire_bytes(&self) -> u64 {
        Said::BYTES + 9
    }
}

impl Protocol for Coordinates {
    type Message = Word;
    type Request = Ask;
    type Response = Answer;
    type Record = Kept;
    type Job = ();
    type Group = ();
    type Note = ();
}

/// What can be chosen.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentConfig {
    /// Parameters of the model.
    pub model: Config,
    /// Coordinates compare within one space only.
    pub space: u16,
    /// Both ends learn from a probe.
    pub symmetric: bool,
    /// What is remembered of measurements.
    pub memory: Memory,
    /// Time between two probes that nobody asked for; `None`: only those that clients ask for.
    pub every: Option<Span>,
    /// A probe without a reply is given up after so long.
    pub patience: Span,
    /// Every so many probes that nobody asked for, one gossip is sent; 0 for never.
    pub gossip_every: u32,
    /// The coordinate is stored after every so many updates; 0 for never.
    pub store_every: u32,
    /// Peers that are known at first.
    pub seeds: Vec<Node>,
}

impl AgentConfig {
    /// The defaults of [htrae 7.1]: a probe every 15 s, given up after a second.
    pub fn new(model: Config) -> AgentConfig {
        AgentConfig {
            model,
            space: 0,
            symmetric: true,
            memory: Memory::default(),
            every: Some(Span::from_ms(15_000)),
            patience: Span::from_ms(1_000),
            gossip_every: 4,
            store_every: 8,
            seeds: Vec::new(),
        }
    }
}

/// Peers of which something was heard, at most.
const PEERS_MAX: usize = 256;
/// Own probes without a reply, at most.
const PENDING_MAX: usize = 32;
/// Probes answered whose feedback may still come, at most.
const ANSWERED_MAX: usize = 128;
/// Feedback that comes later than this after the reply is none.
const FEEDBACK_WITHIN: Span = Span::from_ms(10_000);

/// A peer and what it last said.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Peer {
    node: Node,
    said: Option<Said>,
    heard: Instant,
}

/// A probe without a reply.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Pending {
    nonce: u64,
    peer: Node,
    sent: Instant,
    call: Option<Call>,
}

/// A probe that was answered.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Answered {
    nonce: u64,
    token: u64,
    peer: Node,
    at: Instant,
}

/// Deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// Time for a probe that nobody asked for.
    Round,
    /// A probe has waited long enough.
    Patience(u64),
}

/// What came of messages that changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ignored {
    /// Replies to no probe under way.
    pub replies: u64,
    /// Feedback for no probe answered, or with a wrong token.
    pub feedback: u64,
    /// Measurements and coordinates that are none.
    pub nonsense: u64,
}

/// An agent.
#[derive(Clone, Debug)]
pub struct Agent {
    config: AgentConfig,
    known: Known,
    system: u32,
    placed: Placed,
    history: History,
    peers: Vec<Peer>,
    pending: Vec<Pending>,
    answered: Vec<Answered>,
    rounds: u32,
    updates: u32,
    stored: Entry,
    kept: Option<Kept>,
    ignored: Ignored,
}

type Context<'a> = Cx<'a, Effect<Coordinates>, Timer>;

fn steps(point: Point) -> (i32, i32) {
    let (latitude, longitude) = point.degrees();
    (libm::round(latitude * 1e7) as i32, libm::round(longitude * 1e7) as i32)
}

impl Agent {
    /// An agent of which `known` says the place, in an effective system ([`crate::systems`]).
    pub fn new(config: AgentConfig, known: Known, system: u32) -> Agent {
        let placed = Placed::start(known, system, &config.model);
        let mut peers = Vec::with_capacity(PEERS_MAX);
        let seeds = config.seeds.iter().take(PEERS_MAX);
        peers.extend(seeds.map(|node| Peer { node: *node, said: None, heard: Instant::ZERO }));
        Agent {
            config,
            known,
            system,
            placed,
            history: History::default(),
            peers,
            pending: Vec::with_capacity(PENDING_MAX),
            answered: Vec::with_capacity(ANSWERED_MAX),
            rounds: 0,
            updates: 0,
            stored: Entry(0),
            kept: None,
            ignored: Ignored::default(),
        }
    }

    /// Its coordinate, once it has one.
    pub fn coordinate(&self) -> Option<&Coordinate> {
        self.placed.coordinate()
    }

    /// How often it has learnt, from its own probes and from feedback.
    pub fn updates(&self) -> u32 {
        self.updates
    }

    /// What it did not take.
    pub fn ignored(&self) -> Ignored {
        self.ignored
    }

    /// How long a round trip to `peer` will take, milliseconds: as measured lately, else by what
    /// the peer last said of itself.
    pub fn predict_ms(&self, peer: Node, now: Instant) -> Option<f64> {
        if let Some(known) = self.history.recall(peer.0, now, self.config.memory) {
            return Some(known);
        }
        let said = self.peers.iter().find(|known| known.node == peer)?.said?;
        let there = said.coordinate(&self.config.model)?;
        Some(model::predict_ms(self.coordinate()?, &there, &self.config.model))
    }

    fn said(&self) -> Option<Said> {
        self.coordinate().map(Said::of)
    }

    /// Notes what a peer says of itself; the one heard of the longest ago makes room.
    fn hear(&mut self, node: Node, said: Option<Said>, heard: Instant) {
        if said.is_some_and(|said| said.coordinate(&self.config.model).is_none()) {
            self.ignored.nonsense += 1;
            return;
        }
        if let Some(known) = self.peers.iter_mut().find(|known| known.node == node) {
            if heard >= known.heard {
                known.said = said.or(known.said);
                known.heard = heard;
            }
            return;
        }
        if self.peers.len() >= PEERS_MAX {
            let oldest = (0..self.peers.len()).min_by_key(|index| self.peers[*index].heard);
            if let Some(oldest) = oldest {
                self.peers.swap_remove(oldest);
            }
        }
        self.peers.push(Peer { node, said, heard });
    }

    /// Learns that a round trip to a peer that said `said` took `rtt`.
    fn learn(&mut self, peer: Node, said: &Said, rtt: Rtt, now: Instant, rng: &mut Stream) -> bool {
        let model = &self.config.model;
        let Some(there) = said.coordinate(model).filter(|_| model.believes(rtt.ms())) else {
            self.ignored.nonsense += 1;
            return false;
        };
        match &mut self.placed {
            Placed::At(own) => {
                model::update(own, &there, rtt.ms(), model, rng);
            }
            Placed::Nowhere { .. } => self.placed.note(&there, rtt.ms(), model),
        }
        self.history.record(peer.0, rtt.ms(), now, self.config.memory);
        self.updates = self.updates.saturating_add(1);
        true
    }

    /// Stores the coordinate now and then.
    fn keep(&mut self, cx: &mut Context<'_>) {
        let every = self.config.store_every;
        let Some(said) = self.said().filter(|_| every > 0 && self.updates.is_multiple_of(every))
        else {
            return;
        };
        let entry = Entry(self.stored.0 + 1);
        let record = Kept { said, address: self.known.address.map(steps) };
        cx.emit(Effect::Store { entry, record });
        // Records of before are of no use once there is a later one that is safe.
        self.stored = entry;
    }

    fn probe(&mut self, peer: Node, call: Option<Call>, cx: &mut Context<'_>) {
        if self.pending.len() >= PENDING_MAX {
            if let Some(call) = call {
                cx.emit(Effect::Reply { call, response: Answer::Measured(None) });
            }
            return;
        }
        let nonce = cx.rng().bits();
        let sent = cx.now();
        self.pending.push(Pending { nonce, peer, sent, call });
        let message = Word::Probe { space: self.config.space, nonce, said: self.said() };
        cx.emit(Effect::Send { to: peer, via: Via::Datagram, message });
        cx.arm(Timer::Patience(nonce), sent + self.config.patience);
    }

    fn answer(
        &mut self,
        from: Node,
        (space, nonce, said): (u16, u64, Option<Said>),
        arrived: Instant,
        cx: &mut Context<'_>,
    ) {
        let now = cx.now();
        if space != self.config.space {
            self.ignored.nonsense += 1;
            return;
        }
        self.hear(from, said, now);
        let token = cx.rng().bits();
        if self.answered.len() >= ANSWERED_MAX {
            self.answered.remove(0);
        }
        self.answered.push(Answered { nonce, token, peer: from, at: now });
        let held = now.since(arrived).as_ns().div_ceil(1_000);
        let held_us = u32::try_from(held).unwrap_or(u32::MAX);
        let message = Word::Reply { nonce, held_us, said: self.said(), token };
        cx.emit(Effect::Send { to: from, via: Via::Datagram, message });
    }

    fn replied(
        &mut self,
        from: Node,
        (nonce, held_us, said, token): (u64, u32, Option<Said>, u64),
        arrived: Instant,
        cx: &mut Context<'_>,
    ) {
        let matches = |one: &Pending| one.nonce == nonce && one.peer == from;
        let Some(index) = self.pending.iter().position(matches) else {
            self.ignored.replies += 1;
            return;
        };
        let Pending { sent, call, .. } = self.pending.swap_remove(index);
        cx.disarm(Timer::Patience(nonce));
        let took = arrived.since(sent).as_ns().saturating_add(500) / 1_000;
        let planted = self.config.model.planted;
        let held_us = if planted == Some(Planted::HeldCounted) { 0 } else { held_us };
        let took = u32::try_from(took).unwrap_or(u32::MAX).saturating_sub(held_us);
        let rtt = Rtt(took);
        self.hear(from, said, cx.now());
        let mut before = self.said();
        if let Some(said) = said {
            let now = cx.now();
            if self.learn(from, &said, rtt, now, cx.rng()) {
                self.keep(cx);
            }
        }
        if planted == Some(Planted::FeedbackFromAfter) {
            before = self.said();
        }
        if let Some(said) = before.filter(|_| self.config.symmetric) {
            let message = Word::Feedback { nonce, token, rtt, said };
            cx.emit(Effect::Send { to: from, via: Via::Datagram, message });
        }
        if let Some(call) = call {
            let believed = self.config.model.believes(rtt.ms()).then_some(rtt);
            cx.emit(Effect::Reply { call, response: Answer::Measured(believed) });
        }
    }

    fn told(
        &mut self,
        from: Node,
        (nonce, token, rtt, said): (u64, u64, Rtt, Said),
        cx: &mut Context<'_>,
    ) {
        let now = cx.now();
        self.answered.retain(|one| now.since(one.at) <= FEEDBACK_WITHIN);
        let matches = |one: &Answered| (one.nonce, one.token, one.peer) == (nonce, token, from);
        let unproven = self.config.model.planted == Some(Planted::FeedbackUnproven);
        let found = self.answered.iter().position(|one| unproven || matches(one));
        let Some(index) = found else {
            self.ignored.feedback += 1;
            return;
        };
        // Once: a doubled datagram moves nobody twice.
        self.answered.remove(index);
        if self.config.symmetric && self.learn(from, &said, rtt, now, cx.rng()) {
            self.keep(cx);
        }
    }

    /// Half of the time anybody, a quarter the nearest, a quarter somebody measured lately.
    fn choose(&self, cx: &mut Context<'_>) -> Option<Node> {
        let draw = cx.rng().below(4);
        let any = cx.rng().below(self.peers.len().max(1) as u64) as usize;
        let now = cx.now();
        let nearest = || {
            let near = self
                .peers
                .iter()
                .filter_map(|peer| Some((self.predict_ms(peer.node, now)?, peer.node)));
            near.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, node)| node)
        };
        let lately = || {
            let known =
                |peer: &&Peer| self.history.recall(peer.node.0, now, self.config.memory).is_some();
            let count = self.peers.iter().filter(known).count();
            self.peers.iter().filter(known).nth(any % count.max(1)).map(|peer| peer.node)
        };
        let chosen = match draw {
            0 => nearest(),
            1 => lately(),
            _ => None,
        };
        chosen.or_else(|| self.peers.get(any).map(|peer| peer.node))
    }

    fn gossip(&self, cx: &mut Context<'_>) {
        if self.peers.is_empty() {
            return;
        }
        let to = self.peers[cx.rng().below(self.peers.len() as u64) as usize].node;
        let begin = cx.rng().below(self.peers.len() as u64) as usize;
        let now = cx.now();
        let mut heard = [None; GOSSIP];
        let others = self.peers.iter().cycle().skip(begin).take(self.peers.len());
        let others = others.filter(|peer| peer.node != to).filter_map(|peer| {
            let age_s = now.since(peer.heard).as_ns() / 1_000_000_000;
            Some((peer.node.0, peer.said?, u16::try_from(age_s).unwrap_or(u16::MAX)))
        });
        for (place, one) in heard.iter_mut().zip(others) {
            *place = Some(one);
        }
        if heard[0].is_some() {
            let message = Word::Gossip { heard };
            cx.emit(Effect::Send { to, via: Via::Datagram, message });
        }
    }
}

impl Talker for Agent {
    type Protocol = Coordinates;
    fn members(&self, (): ()) -> &[Node] {
        &[]
    }
}

impl Machine for Agent {
    type Input = Input<Coordinates>;
    type Effect = Effect<Coordinates>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        // A reply: the timer, a record, feedback, the answer to a call.
        6
    }

    fn start(&mut self, cx: &mut Context<'_>) {
        if let Some(every) = self.config.every {
            // Not all at one moment.
            let wait = cx.rng().below(every.as_ns().max(1));
            cx.arm(Timer::Round, cx.now() + Span::from_ns(wait));
        }
    }

    fn handle(&mut self, input: Self::Input, cx: &mut Context<'_>) {
        match input {
            Input::Rx { from, message, arrived, .. } => match message {
                Word::Probe { space, nonce, said } => {
                    self.answer(from, (space, nonce, said), arrived, cx);
                }
                Word::Reply { nonce, held_us, said, token } => {
                    self.replied(from, (nonce, held_us, said, token), arrived, cx);
                }
                Word::Feedback { nonce, token, rtt, said } => {
                    self.told(from, (nonce, token, rtt, said), cx);
                }
                Word::Gossip { heard } => {
                    let now = cx.now().as_ns();
                    for (node, said, age_s) in heard.into_iter().flatten() {
                        let at = now.saturating_sub(u64::from(age_s) * 1_000_000_000);
                        self.hear(Node(node), Some(said), Instant::from_ns(at));
                    }
                }
            },
            Input::Call { call, request: Ask::Probe(peer) } => self.probe(peer, Some(call), cx),
            Input::Call { call, request: Ask::Predict(peer) } => {
                let us = |ms: f64| Rtt(libm::round(ms * 1e3).clamp(0.0, 1e9) as u32);
                let response = Answer::Predicted(self.predict_ms(peer, cx.now()).map(us));
                cx.emit(Effect::Reply { call, response });
            }
            Input::Stored { upto } => {
                if let Some(before) = upto.0.checked_sub(1).filter(|before| *before > 0) {
                    cx.emit(Effect::Trim { upto: Entry(before) });
                }
            }
            Input::Replay { entry, record } => {
                self.stored = entry;
                self.kept = Some(record);
            }
            Input::Recovered { .. } => {
                let Some(kept) = self.kept.take() else { return };
                let Some(own) = kept.said.coordinate(&self.config.model) else { return };
                let then = kept.address.and_then(|(latitude, longitude)| {
                    Point::from_degrees(f64::from(latitude) / 1e7, f64::from(longitude) / 1e7)
                });
                let own = Coordinate { system: self.system, ..own };
                self.placed = Placed::resume(own, then, self.known, &self.config.model);
            }
            Input::Broken { .. } | Input::WorkDone { .. } => {}
        }
    }

    fn expire(&mut self, timer: Timer, cx: &mut Context<'_>) {
        match timer {
            Timer::Round => {
                let Some(every) = self.config.every else { return };
                cx.arm(Timer::Round, cx.now() + every);
                self.rounds = self.rounds.wrapping_add(1);
                if let Some(peer) = self.choose(cx) {
                    self.probe(peer, None, cx);
                }
                let gossips = self.config.gossip_every;
                if gossips > 0 && self.rounds.is_multiple_of(gossips) {
                    self.gossip(cx);
                }
            }
            Timer::Patience(nonce) => {
                let Some(index) = self.pending.iter().position(|one| one.nonce == nonce) else {
                    return;
                };
                let Pending { call, .. } = self.pending.swap_remove(index);
                if let Some(call) = call {
                    cx.emit(Effect::Reply { call, response: Answer::Measured(None) });
                }
            }
        }
    }

    fn check(&self) {
        assert!(self.peers.len() <= PEERS_MAX && self.pending.len() <= PENDING_MAX);
        assert!(self.answered.len() <= ANSWERED_MAX);
        if let Some(own) = self.coordinate() {
            let model = &self.config.model;
            assert!(own.is_sound(model), "{own:?}");
            assert!(own.height_ms >= model.height_min_ms && own.error <= model.error_max);
        }
    }
}
