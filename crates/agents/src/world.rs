//! The world of one agent without socket and clock: datagrams in, datagrams out.
//!
//! The machine of the lab ([`cavy_coords::agent`]) decides whom to probe and what to learn, and
//! runs here as it is. What it takes for one probe is here a burst of four, whose median it is
//! told. Nothing that comes reaches it before it has shown that somebody receives at its source's
//! address: a REPLY must name a probe under way, FEEDBACK and GOSSIP a token that was given to that
//! address seconds ago, and each counts once. So a stranger who can send anything from anywhere,
//! and receives nothing, changes no bit of it.

use crate::names::Names;
use crate::options::Options;
use crate::token::Tokens;
use crate::wire::{Datagram, Heard, LONGEST_BYTES, PROBE_BYTES, Told};
use cavy_coords::agent::{Agent, Answer, Ask, Coordinates, Kept, Timer};
use cavy_coords::wire::{GOSSIP, Rtt, Said, Word};
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Input, Via};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_seal::{Opened, PREFIX_BYTES, Packet, Seal};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// FEEDBACK and GOSSIP later than this after the REPLY are none.
const TOKEN_LIFETIME: Span = Span::from_ms(10_000);
/// Tokens that came back in that time, at most; more are refused.
const TAKEN_MAX: usize = 4_096;
/// Replies that wait to be sent, at most.
const ANSWERS_MAX: usize = 256;
/// Gossips that wait for a token, at most.
const ERRANDS_MAX: usize = 8;
/// A gossip waits so long for its token.
const ERRAND_WITHIN: Span = Span::from_ms(2_000);
/// A burst ends this long before the machine gives its probe up.
const BEFORE_PATIENCE: Span = Span::from_ms(50);
/// Replies that a burst needs of its packets, when some are lost.
const REPLIES_MIN: usize = 2;

/// A datagram that waits to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Where it goes.
    pub to: SocketAddr,
    /// What it says.
    pub bytes: Vec<u8>,
}

impl Packet for Outgoing {
    fn to(&self) -> SocketAddr {
        self.to
    }

    fn parts(&self) -> [&[u8]; 2] {
        [&self.bytes, &[]]
    }

    fn wrapped(self, prefix: &[u8; PREFIX_BYTES], sealed: Vec<u8>) -> Outgoing {
        Outgoing::own(self.to, prefix, sealed)
    }

    fn own(to: SocketAddr, prefix: &[u8; PREFIX_BYTES], sealed: Vec<u8>) -> Outgoing {
        Outgoing { to, bytes: [&prefix[..], &sealed].concat() }
    }
}

/// Bytes of the longest datagram, sealed or not.
pub const DATAGRAM_BYTES_MAX: usize = LONGEST_BYTES + cavy_seal::SEAL_BYTES;

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Probes of the machine that were begun, and of them those that were measured.
    pub probes: u64,
    /// Probes that were measured.
    pub measured: u64,
    /// PROBE datagrams sent, those for gossip and for first contact too.
    pub probe_datagrams: u64,
    /// REPLY datagrams sent.
    pub replies: u64,
    /// FEEDBACK that was taken.
    pub feedback: u64,
    /// GOSSIP that was taken.
    pub gossip: u64,
    /// Datagrams that were none: another protocol, version, kind or length.
    pub malformed: u64,
    /// Datagrams of another space.
    pub foreign_space: u64,
    /// REPLY to no probe under way, doubled, or with times that cannot be.
    pub unasked: u64,
    /// FEEDBACK and GOSSIP whose token is not good for their sender now.
    pub unproven: u64,
    /// FEEDBACK and GOSSIP whose token was used before.
    pub repeated: u64,
    /// Own probes that came back as they were sent.
    pub reflected: u64,
    /// What there was no room for.
    pub no_room: u64,
    /// Sealed datagrams that nobody with the key wrote for this agent.
    pub unauthentic: u64,
    /// Sealed datagrams seen before.
    pub replayed: u64,
}

/// One packet of a burst.
#[derive(Clone, Copy, Debug)]
struct Shot {
    nonce: u64,
    sent: Instant,
    rtt_ns: Option<u64>,
}

/// What the first reply to the last shot answered said.
#[derive(Clone, Copy, Debug)]
struct Replied {
    nonce: u64,
    token: u64,
    told: Option<Told>,
}

/// A probe of the machine, in several packets.
#[derive(Debug)]
struct Burst {
    name: u64,
    peer: Node,
    to: SocketAddr,
    begun: Instant,
    shots: Vec<Shot>,
    next: Instant,
    ends: Instant,
    last: Option<Replied>,
}

/// A gossip that waits for a token of its receiver.
#[derive(Debug)]
struct Errand {
    nonce: u64,
    sent_ns: u64,
    to: SocketAddr,
    ends: Instant,
    heard: [Option<Heard>; GOSSIP],
}

/// A probe that is to be answered.
#[derive(Clone, Copy, Debug)]
struct Question {
    from: SocketAddr,
    nonce: u64,
    sent_ns: u64,
    arrived: Instant,
}

/// A round trip that was measured here.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// To whom.
    pub peer: SocketAddr,
    /// The median of the burst.
    pub rtt: Rtt,
    /// When.
    pub at: Instant,
}

/// An agent's machine and all that stands between it and a socket.
pub struct World {
    options: Options,
    own_addresses: Vec<IpAddr>,
    port: u16,
    agent: Agent,
    rng: Stream,
    tokens: Tokens,
    names: Names,
    seal: Option<Seal<Outgoing>>,
    timers: BTreeMap<Timer, Instant>,
    outbox: Outbox<Effect<Coordinates>, Timer>,
    bursts: Vec<Burst>,
    errands: Vec<Errand>,
    questions: VecDeque<Question>,
    outgoing: VecDeque<Outgoing>,
    /// Tokens that came back, and when; the older ones first.
    taken: VecDeque<(Instant, (u64, u64))>,
    taken_set: BTreeSet<(u64, u64)>,
    /// What a reply that the machine just learnt from said: its FEEDBACK names it.
    answered_by: Option<Replied>,
    /// The token by which the machine knows feedback that it is about to be told.
    given: Option<u64>,
    /// What must be stored, the last of it.
    to_keep: Option<(Entry, Kept)>,
    answers: VecDeque<(Call, Answer)>,
    measured: VecDeque<Measured>,
    reach: BTreeMap<Node, Told>,
    /// What was counted.
    pub counters: Counters,
}

impl World {
    /// An agent that starts at `now` with what was kept of its coordinate, and a secret of its own.
    pub fn new(
        options: &Options,
        port: u16,
        own_addresses: Vec<IpAddr>,
        secret: &[u8; 32],
        kept: Option<Kept>,
        now: Instant,
    ) -> Option<World> {
        let mut names = Names::default();
        let mut config = options.machine();
        let others = options.seeds.iter().filter(|at| **at != options.bind);
        config.seeds = others.map(|at| names.node(*at)).collect();
        let agent = Agent::new(config, options.known, options.system);
        let outbox = Outbox::with_capacity(agent.effects_max());
        let mut seed = [0; 8];
        seed.copy_from_slice(&secret[..8]);
        let seal = match &options.key {
            Some(key) => Some(Seal::new(key, crate::names::ADDRESSES_MAX as u32)?),
            None => None,
        };
        let mut world = World {
            options: options.clone(),
            own_addresses,
            port,
            agent,
            rng: Stream::keyed(u64::from_be_bytes(seed), 0, Purpose::Machine),
            tokens: Tokens::new(secret),
            names,
            seal,
            timers: BTreeMap::new(),
            outbox,
            bursts: Vec::new(),
            errands: Vec::new(),
            questions: VecDeque::new(),
            outgoing: VecDeque::new(),
            taken: VecDeque::new(),
            taken_set: BTreeSet::new(),
            answered_by: None,
            given: None,
            to_keep: None,
            answers: VecDeque::new(),
            measured: VecDeque::new(),
            reach: BTreeMap::new(),
            counters: Counters::default(),
        };
        let mut cx = Cx::new(now, &mut world.rng, &mut world.outbox);
        world.agent.start(&mut cx);
        world.carry_out(now);
        if let Some(record) = kept {
            world.step(Input::Replay { entry: Entry(1), record }, now);
            world.step(Input::Recovered { torn: false }, now);
        }
        Some(world)
    }

    /// The machine.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Peers with an address.
    pub fn peers(&self) -> usize {
        self.names.len()
    }

    /// What `at` last told of itself.
    pub fn told(&self, at: SocketAddr) -> Option<Told> {
        self.reach.get(&self.names.known(at)?).copied()
    }

    /// A client asks for a probe of `at`.
    pub fn probe(&mut self, call: Call, at: SocketAddr, now: Instant) {
        let node = self.names.node(at);
        self.step(Input::Call { call, request: Ask::Probe(node) }, now);
    }

    /// How long a round trip to `at` will take, milliseconds; `None` when too little is known.
    pub fn predict_ms(&self, at: SocketAddr, now: Instant) -> Option<f64> {
        self.agent.predict_ms(self.names.known(at)?, now)
    }

    /// Everything up to `entry` is on disk.
    pub fn stored(&mut self, entry: Entry, now: Instant) {
        self.step(Input::Stored { upto: entry }, now);
    }

    /// What must be stored.
    pub fn take_kept(&mut self) -> Option<(Entry, Kept)> {
        self.to_keep.take()
    }

    /// An answer to a call.
    pub fn take_answer(&mut self) -> Option<(Call, Answer)> {
        self.answers.pop_front()
    }

    /// A round trip that was measured.
    pub fn take_measured(&mut self) -> Option<Measured> {
        self.measured.pop_front()
    }

    /// A datagram came from `from` at `arrived`; `now` it is looked at.
    pub fn on_datagram(
        &mut self,
        from: SocketAddr,
        bytes: &mut [u8],
        arrived: Instant,
        now: Instant,
    ) {
        let Some(seal) = &mut self.seal else { return self.on_open(from, bytes, arrived, now) };
        // Taken out, so that what is opened in place can be worked on.
        let within = match seal.open(from, bytes, now) {
            Opened::Packet(within) => Some(within.to_vec()),
            Opened::Own => None,
            Opened::Unauthentic => {
                self.counters.unauthentic += 1;
                None
            }
            Opened::Replayed => {
                self.counters.replayed += 1;
                None
            }
        };
        if let Some(within) = within {
            self.on_open(from, &within, arrived, now);
        }
    }

    fn on_open(&mut self, from: SocketAddr, bytes: &[u8], arrived: Instant, now: Instant) {
        let Ok(datagram) = Datagram::read(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        if datagram.space() != self.options.space {
            self.counters.foreign_space += 1;
            return;
        }
        match datagram {
            Datagram::Probe { nonce, sent_ns, .. } => {
                // What it says of its sender is not believed: anybody may have sent it.
                let own = |shot: &Shot| shot.nonce == nonce && shot.sent.as_ns() == sent_ns;
                if self.bursts.iter().any(|burst| burst.shots.iter().any(own)) {
                    self.counters.reflected += 1;
                } else if self.questions.len() >= ANSWERS_MAX {
                    self.counters.no_room += 1;
                } else {
                    self.questions.push_back(Question { from, nonce, sent_ns, arrived });
                }
            }
            Datagram::Reply { nonce, sent_ns, held_us, token, told, .. } => {
                let replied = Replied { nonce, token, told };
                self.on_reply(from, sent_ns, held_us, replied, arrived, now);
            }
            Datagram::Feedback { nonce, token, rtt_us, told, .. } => {
                if self.is_proven(from, nonce, token, now) {
                    self.counters.feedback += 1;
                    self.on_feedback(from, Rtt(rtt_us), told, now);
                }
            }
            Datagram::Gossip { nonce, token, heard, .. } => {
                if self.is_proven(from, nonce, token, now) {
                    self.counters.gossip += 1;
                    self.on_gossip(&heard, now);
                }
            }
        }
    }

    /// Did a reply to `from` bear this token, and does it come back for the first time?
    fn is_proven(&mut self, from: SocketAddr, nonce: u64, token: u64, now: Instant) -> bool {
        if !self.tokens.is_good(token, nonce, from, now, TOKEN_LIFETIME) {
            self.counters.unproven += 1;
            return false;
        }
        // A token is good to the second, so what is remembered lasts two seconds longer.
        let lasts = TOKEN_LIFETIME + Span::from_ms(2_000);
        while let Some((at, name)) = self.taken.front().copied()
            && now.since(at) > lasts
        {
            self.taken.pop_front();
            self.taken_set.remove(&name);
        }
        if self.taken_set.contains(&(nonce, token)) {
            self.counters.repeated += 1;
            return false;
        }
        if self.taken.len() >= TAKEN_MAX {
            self.counters.no_room += 1;
            return false;
        }
        self.taken.push_back((now, (nonce, token)));
        self.taken_set.insert((nonce, token));
        true
    }

    fn on_reply(
        &mut self,
        from: SocketAddr,
        sent_ns: u64,
        held_us: u32,
        replied: Replied,
        arrived: Instant,
        now: Instant,
    ) {
        let names = |errand: &Errand| (errand.nonce, errand.sent_ns) == (replied.nonce, sent_ns);
        if let Some(at) = self.errands.iter().position(|errand| errand.to == from && names(errand))
        {
            let Errand { to, heard, .. } = self.errands.swap_remove(at);
            let Replied { nonce, token, .. } = replied;
            let gossip = Datagram::Gossip { space: self.options.space, nonce, token, heard };
            self.send(to, &gossip, now);
            return;
        }
        let open = |shot: &Shot| {
            (shot.nonce, shot.sent.as_ns()) == (replied.nonce, sent_ns) && shot.rtt_ns.is_none()
        };
        let found = self.bursts.iter().enumerate().filter(|(_, burst)| burst.to == from);
        let found = found.filter_map(|(at, burst)| Some((at, burst.shots.iter().position(open)?)));
        let Some((at, shot)) = found.into_iter().next() else {
            self.counters.unasked += 1;
            return;
        };
        let burst = &mut self.bursts[at];
        let took_ns = arrived.since(burst.shots[shot].sent).as_ns();
        let rtt_ns = took_ns.saturating_sub(u64::from(held_us) * 1_000);
        if rtt_ns == 0 {
            // Held for longer than it took: the peer's clock or its word is wrong.
            self.counters.unasked += 1;
            return;
        }
        burst.shots[shot].rtt_ns = Some(rtt_ns);
        burst.last = Some(replied);
        let there = burst.shots.iter().filter(|shot| shot.rtt_ns.is_some()).count();
        if there >= self.options.packets {
            let burst = self.bursts.swap_remove(at);
            self.finish(burst, now);
        }
    }

    /// A burst is over; the machine hears of it if enough of it came back.
    fn finish(&mut self, burst: Burst, now: Instant) {
        let mut times: Vec<u64> = burst.shots.iter().filter_map(|shot| shot.rtt_ns).collect();
        times.sort_unstable();
        let needed = REPLIES_MIN.min(self.options.packets);
        let Some(replied) = burst.last.filter(|_| times.len() >= needed) else { return };
        // Of two in the middle the lower one: round trips are late by chance and never early.
        let median = Span::from_ns(times[(times.len() - 1) / 2]);
        let rtt = Rtt(u32::try_from((median.as_ns() + 500) / 1_000).unwrap_or(u32::MAX));
        self.counters.measured += 1;
        if let Some(told) = replied.told {
            self.note(burst.peer, told);
        }
        self.measured.push_back(Measured { peer: burst.to, rtt, at: now });
        self.answered_by = Some(replied);
        let said = replied.told.map(|told| told.said);
        let message = Word::Reply { nonce: burst.name, held_us: 0, said, token: replied.token };
        let arrived = burst.begun + median;
        let from = burst.peer;
        self.step(Input::Rx { from, via: Via::Datagram, message, arrived }, now);
        self.answered_by = None;
    }

    fn note(&mut self, node: Node, told: Told) {
        if self.reach.len() >= crate::names::ADDRESSES_MAX && !self.reach.contains_key(&node) {
            self.reach.pop_first();
        }
        self.reach.insert(node, told);
    }

    /// A peer that was answered says how long it took: the machine hears question and feedback at
    /// once, so that it has nothing to keep for those who only ask.
    fn on_feedback(&mut self, from: SocketAddr, rtt: Rtt, told: Told, now: Instant) {
        let from = self.names.node(from);
        self.note(from, told);
        let (nonce, said) = (self.tokens.nonce(), told.said);
        let (via, arrived) = (Via::Datagram, now);
        let message = Word::Probe { space: self.options.space, nonce, said: Some(said) };
        self.given = None;
        self.step(Input::Rx { from, via, message, arrived }, now);
        let Some(token) = self.given.take() else { return };
        let message = Word::Feedback { nonce, token, rtt, said };
        self.step(Input::Rx { from, via, message, arrived }, now);
    }

    fn on_gossip(&mut self, heard: &[Option<Heard>; GOSSIP], now: Instant) {
        let mut word = [None; GOSSIP];
        let all = heard.iter().flatten().filter(|one| self.may_be_probed(one.at));
        let all: Vec<Heard> = all.copied().collect();
        for (place, one) in word.iter_mut().zip(all) {
            let node = self.names.node(one.at);
            self.note(node, one.told);
            *place = Some((node.0, one.told.said, one.age_s));
        }
        let message = Word::Gossip { heard: word };
        let (from, via, arrived) = (Node(u32::MAX), Via::Datagram, now);
        self.step(Input::Rx { from, via, message, arrived }, now);
    }

    /// Is this an address at which somebody else can be? Addresses of this host are for agents
    /// that are themselves reached there.
    fn may_be_probed(&self, at: SocketAddr) -> bool {
        let ip = at.ip();
        let everybody = match ip {
            IpAddr::V4(ip) => ip.is_broadcast() || ip.is_multicast() || ip.is_unspecified(),
            IpAddr::V6(ip) => ip.is_multicast() || ip.is_unspecified(),
        };
        let own = at.port() == self.port && self.own_addresses.contains(&ip);
        let here = ip.is_loopback() && !self.options.bind.ip().is_loopback();
        let carried = self.options.bind.is_ipv6() || ip.is_ipv4();
        at.port() != 0 && !everybody && !own && !here && carried
    }

    /// What has come due.
    pub fn expire(&mut self, now: Instant) {
        while let Some((timer, _)) = self.due(now) {
            self.timers.remove(&timer);
            let mut cx = Cx::new(now, &mut self.rng, &mut self.outbox);
            self.agent.expire(timer, &mut cx);
            self.carry_out(now);
        }
        while let Some(at) = self.bursts.iter().position(|burst| burst.ends <= now) {
            let burst = self.bursts.swap_remove(at);
            self.finish(burst, now);
        }
        self.errands.retain(|errand| errand.ends > now);
    }

    fn due(&self, now: Instant) -> Option<(Timer, Instant)> {
        let first = self.timers.iter().min_by_key(|(timer, at)| (**at, **timer));
        first.map(|(timer, at)| (*timer, *at)).filter(|(_, at)| *at <= now)
    }

    /// When [`World::expire`] or [`World::pull`] next has something to do.
    pub fn next_time(&self) -> Option<Instant> {
        let timers = self.timers.values().copied();
        let bursts = self
            .bursts
            .iter()
            .map(|burst| if self.fires(burst) { burst.next.min(burst.ends) } else { burst.ends });
        let errands = self.errands.iter().map(|errand| errand.ends);
        timers.chain(bursts).chain(errands).min()
    }

    /// Has this burst packets left that can be sent?
    fn fires(&self, burst: &Burst) -> bool {
        let known = self.seal.as_ref().is_none_or(|seal| seal.knows(burst.to));
        known && burst.shots.len() < self.options.packets
    }

    /// The next datagram to send, made at `now`, which should be just before it is sent.
    pub fn pull(&mut self, now: Instant) -> Option<Outgoing> {
        loop {
            if let Some(ready) = self.seal.as_mut().and_then(Seal::ready) {
                return Some(ready);
            }
            if let Some(waiting) = self.outgoing.pop_front() {
                return Some(waiting);
            }
            if let Some(question) = self.questions.pop_front() {
                self.reply(question, now);
                continue;
            }
            let fires = |burst: &Burst| burst.next <= now && self.fires(burst);
            let at = self.bursts.iter().position(fires)?;
            let nonce = self.tokens.nonce();
            let burst = &mut self.bursts[at];
            burst.shots.push(Shot { nonce, sent: now, rtt_ns: None });
            burst.next = now + self.options.gap;
            let to = burst.to;
            self.send_probe(to, nonce, now);
        }
    }

    fn send_probe(&mut self, to: SocketAddr, nonce: u64, now: Instant) {
        let (space, told) = (self.options.space, self.own());
        self.counters.probe_datagrams += 1;
        self.send(to, &Datagram::Probe { space, nonce, sent_ns: now.as_ns(), told }, now);
    }

    fn reply(&mut self, question: Question, now: Instant) {
        let Question { from, nonce, sent_ns, arrived } = question;
        // Rounded up: a round trip that is too short is worse than one that is too long by less
        // than a microsecond.
        let held = now.since(arrived).as_ns().div_ceil(1_000);
        let held_us = u32::try_from(held).unwrap_or(u32::MAX);
        let token = self.tokens.token(nonce, from, now);
        let (space, told) = (self.options.space, self.own());
        let reply = Datagram::Reply { space, nonce, sent_ns, held_us, token, told };
        self.counters.replies += 1;
        self.send(from, &reply, now);
    }

    /// What this agent tells of itself.
    fn own(&self) -> Option<Told> {
        let own = self.agent.coordinate()?;
        let updates = u16::try_from(self.agent.updates()).unwrap_or(u16::MAX);
        Some(Told { said: Said::of(own), updates, reach: self.options.reach })
    }

    fn send(&mut self, to: SocketAddr, datagram: &Datagram, now: Instant) {
        let packet = Outgoing { to, bytes: datagram.bytes() };
        debug_assert!(
            !matches!(datagram, Datagram::Reply { .. }) || packet.bytes.len() <= PROBE_BYTES
        );
        let packet = match &mut self.seal {
            Some(seal) => seal.seal(packet, now),
            None => Some(packet),
        };
        self.outgoing.extend(packet);
    }

    fn step(&mut self, input: Input<Coordinates>, now: Instant) {
        let mut cx = Cx::new(now, &mut self.rng, &mut self.outbox);
        self.agent.handle(input, &mut cx);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Instant) {
        let effects: Vec<_> = self.outbox.drain().collect();
        for effect in effects {
            match effect {
                Out::Arm(timer, at) => drop(self.timers.insert(timer, at)),
                Out::Disarm(timer) => drop(self.timers.remove(&timer)),
                Out::Effect(effect) => self.effect(effect, now),
            }
        }
        #[cfg(any(test, feature = "fuzz"))]
        self.agent.check();
    }

    fn effect(&mut self, effect: Effect<Coordinates>, now: Instant) {
        match effect {
            Effect::Send { to, message, .. } => self.say(to, message, now),
            Effect::Store { entry, record } => self.to_keep = Some((entry, record)),
            Effect::Reply { call, response } => self.answers.push_back((call, response)),
            // One file holds the last record, and nothing is to be trimmed. Agents have no groups,
            // no work and nothing to note.
            Effect::Trim { .. }
            | Effect::Cast { .. }
            | Effect::Work { .. }
            | Effect::Cancel { .. }
            | Effect::Note(()) => {}
        }
    }

    fn say(&mut self, to: Node, message: Word, now: Instant) {
        match message {
            Word::Probe { nonce, .. } => self.begin(nonce, to, now),
            Word::Reply { token, .. } => self.given = Some(token),
            Word::Feedback { rtt, said, .. } => {
                let (Some(replied), Some(at)) = (self.answered_by, self.names.address(to)) else {
                    return;
                };
                let updates = u16::try_from(self.agent.updates()).unwrap_or(u16::MAX);
                let told = Told { said, updates, reach: self.options.reach };
                let Replied { nonce, token, .. } = replied;
                let space = self.options.space;
                let feedback = Datagram::Feedback { space, nonce, token, rtt_us: rtt.0, told };
                self.send(at, &feedback, now);
            }
            Word::Gossip { heard } => self.gossip(to, &heard, now),
        }
    }

    /// Begins a burst.
    fn begin(&mut self, name: u64, peer: Node, now: Instant) {
        let Some(to) = self.names.address(peer) else {
            self.counters.no_room += 1;
            return;
        };
        self.counters.probes += 1;
        let ends = now + self.options.patience.saturating_sub(BEFORE_PATIENCE);
        let shots = Vec::with_capacity(self.options.packets);
        self.bursts.push(Burst { name, peer, to, begun: now, shots, next: now, ends, last: None });
        if self.seal.as_ref().is_some_and(|seal| !seal.knows(to)) {
            // The first packet to a peer waits until both know each other, which would count as
            // its round trip. So one goes ahead that nobody measures.
            let nonce = self.tokens.nonce();
            self.send_probe(to, nonce, now);
        }
    }

    /// Asks for a token first.
    fn gossip(&mut self, to: Node, heard: &[Option<(u32, Said, u16)>; GOSSIP], now: Instant) {
        let Some(at) = self.names.address(to) else { return };
        let mut all = [None; GOSSIP];
        let known = heard.iter().flatten().filter_map(|(node, said, age_s)| {
            let at = self.names.address(Node(*node))?;
            let told = self.reach.get(&Node(*node)).copied();
            let (updates, reach) = told.map_or((0, Default::default()), |t| (t.updates, t.reach));
            Some(Heard { at, age_s: *age_s, told: Told { said: *said, updates, reach } })
        });
        for (place, one) in all.iter_mut().zip(known) {
            *place = Some(one);
        }
        if all[0].is_none() {
            return;
        }
        if self.errands.len() >= ERRANDS_MAX {
            self.counters.no_room += 1;
            return;
        }
        let nonce = self.tokens.nonce();
        let (sent_ns, ends) = (now.as_ns(), now + ERRAND_WITHIN);
        self.errands.push(Errand { nonce, sent_ns, to: at, ends, heard: all });
        self.send_probe(at, nonce, now);
    }

    /// Can packets to `at` be sealed at once, or need no seal?
    #[cfg(any(test, feature = "fuzz"))]
    pub fn is_acquainted(&self, at: SocketAddr) -> bool {
        self.seal.as_ref().is_none_or(|seal| seal.knows(at))
    }

    /// Asserts what holds at all times.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn check(&self) {
        self.agent.check();
        assert!(self.names.len() <= crate::names::ADDRESSES_MAX);
        assert!(self.reach.len() <= crate::names::ADDRESSES_MAX);
        assert!(self.taken.len() <= TAKEN_MAX && self.taken.len() == self.taken_set.len());
        assert!(self.questions.len() <= ANSWERS_MAX && self.errands.len() <= ERRANDS_MAX);
    }
}
