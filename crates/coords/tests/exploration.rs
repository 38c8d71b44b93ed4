//! Every order in which three agents can hear two probes, with one datagram lost, one doubled, one
//! late and one forged: a probe moves each end at most once, nothing unasked moves anybody, every
//! round trip is the one that the way took, and nothing is left over.
//!
//! A datagram is 20 ms on its way, a late one 30 ms longer. An agent that is slow hears it later
//! than it came, by as much as other steps have taken it ahead: what is measured must not show
//! that. States that were met are not explored again.

use cavy_coords::agent::{Agent, AgentConfig, Answer, Ask, Coordinates, Timer};
use cavy_coords::config::Planted;
use cavy_coords::map::SERVERS;
use cavy_coords::start::Known;
use cavy_coords::wire::{GOSSIP, Rtt, Said, Word};
use cavy_coords::{Config, Coordinate, Point};
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Input, Via};
use cavy_core::{Cx, Instant, Machine as _, Out, Outbox, Purpose, Span, Stream};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

const AGENTS: usize = 3;
const PLACES: [(f64, f64); AGENTS] = [(51.5, -0.1), (35.7, 139.7), (-23.5, -46.6)];
const WAY: Span = Span::from_ms(20);
const LATE: Span = Span::from_ms(30);

#[derive(Clone, Copy, Hash)]
struct Budget {
    lost: u32,
    doubled: u32,
    late: u32,
    forged: u32,
}

/// A datagram on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Flight {
    from: u32,
    to: u32,
    arrives: Instant,
    word: Word,
}

/// What became of a probe.
#[derive(Clone, Copy, Default, Hash, Debug)]
struct Fate {
    /// Who was asked.
    peer: u32,
    /// How often it moved the asker and the asked.
    asker: u32,
    asked: u32,
    /// Of the probe and of its first reply.
    late: u32,
}

#[derive(Clone)]
struct State {
    agents: [Agent; AGENTS],
    draws: [Stream; AGENTS],
    now: [Instant; AGENTS],
    timers: BTreeMap<(usize, Timer), Instant>,
    flight: Vec<Flight>,
    /// Who will ask whom: calls that are still to come, in this order.
    calls: Vec<(usize, u32)>,
    answers: u32,
    /// By asker and nonce.
    fates: BTreeMap<(u32, u64), Fate>,
    budget: Budget,
}

fn config(planted: Option<Planted>) -> AgentConfig {
    let model = Config { planted, ..Config::with_line(SERVERS) };
    AgentConfig { every: None, store_every: 0, ..AgentConfig::new(model) }
}

fn antipode() -> Said {
    let place = Point::from_degrees(-51.5, 179.9).expect("on Earth");
    Said::of(&Coordinate::at(place, 0, &Config::with_line(SERVERS)))
}

impl State {
    fn new(calls: &[(usize, u32)], budget: Budget, planted: Option<Planted>) -> State {
        let agent = |at: usize| {
            let (latitude, longitude) = PLACES[at];
            let address = Point::from_degrees(latitude, longitude);
            Agent::new(config(planted), Known { address, country: None }, 0)
        };
        let mut state = State {
            agents: [0, 1, 2].map(agent),
            draws: [0, 1, 2].map(|node| Stream::keyed(1, node, Purpose::Test)),
            now: [Instant::ZERO; AGENTS],
            timers: BTreeMap::new(),
            flight: Vec::new(),
            calls: calls.to_vec(),
            answers: 0,
            fates: BTreeMap::new(),
            budget,
        };
        state.calls.reverse();
        state
    }

    /// One step of an agent at `now`, and what comes of it.
    fn step(
        &mut self,
        at: usize,
        now: Instant,
        step: impl FnOnce(&mut Agent, &mut Cx<'_, Effect<Coordinates>, Timer>),
    ) {
        self.now[at] = self.now[at].max(now);
        let mut out = Outbox::with_capacity(self.agents[at].effects_max());
        let mut cx = Cx::new(self.now[at], &mut self.draws[at], &mut out);
        step(&mut self.agents[at], &mut cx);
        self.agents[at].check();
        for one in out.drain() {
            match one {
                Out::Arm(timer, due) => drop(self.timers.insert((at, timer), due)),
                Out::Disarm(timer) => drop(self.timers.remove(&(at, timer))),
                Out::Effect(Effect::Send { to, message, .. }) => self.sent(at, to, message),
                Out::Effect(Effect::Reply { response, .. }) => {
                    self.answers += 1;
                    assert!(matches!(response, Answer::Measured(_)), "{response:?}");
                }
                Out::Effect(other) => panic!("{other:?}"),
            }
        }
    }

    fn sent(&mut self, from: usize, to: Node, word: Word) {
        assert_ne!(from as u32, to.0, "nobody talks to himself");
        if let Word::Probe { nonce, .. } = word {
            let fate = Fate { peer: to.0, ..Fate::default() };
            assert!(self.fates.insert((from as u32, nonce), fate).is_none());
        }
        let arrives = self.now[from] + WAY;
        self.flight.push(Flight { from: from as u32, to: to.0, arrives, word });
    }

    /// Delivers a datagram, and says what it may have changed.
    fn arrive(&mut self, flight: Flight) {
        let Flight { from, to, arrives, word } = flight;
        let at = to as usize;
        let before = (self.agents[at].coordinate().copied(), self.agents[at].updates());
        let input = Input::Rx {
            from: Node(from),
            via: Via::Datagram,
            message: word.clone(),
            arrived: arrives,
        };
        self.step(at, arrives, |agent, cx| agent.handle(input, cx));
        let after = (self.agents[at].coordinate().copied(), self.agents[at].updates());
        if before == after {
            return;
        }
        assert_eq!(after.1, before.1 + 1, "one datagram, one update: {word:?}");
        let (asker, nonce) = match word {
            Word::Reply { nonce, .. } => {
                let told = self.flight.iter().find_map(|flight| match &flight.word {
                    Word::Feedback { nonce: own, said, .. } if *own == nonce => Some(*said),
                    _ => None,
                });
                assert_eq!(told, before.0.as_ref().map(Said::of), "feedback is from before");
                (to, nonce)
            }
            Word::Feedback { nonce, .. } => (from, nonce),
            other => panic!("{other:?} moved {to}"),
        };
        let fate = self.fates.get_mut(&(asker, nonce)).expect("nobody asked for it");
        let moves = if asker == to { &mut fate.asker } else { &mut fate.asked };
        *moves += 1;
        assert_eq!(*moves, 1, "the same probe moved {to} twice");
        // What it took: the way there and back, and nothing that anybody waited.
        let measured = self.agents[at].predict_ms(Node(from), self.now[at]).expect("history");
        let late = (measured - 40.0) / 30.0;
        assert!(
            (0.0..=f64::from(fate.late)).contains(&late) && late.fract() == 0.0,
            "{measured} ms, {fate:?}"
        );
    }

    /// What a stranger can say who knows everybody, and of a probe whom it asks and its nonce: all
    /// but that this one replied, or what was his token.
    fn forgeries(&self) -> Vec<Flight> {
        let said = antipode();
        let (rtt, probed) = (Rtt(300_000), self.fates.iter().next());
        let (asker, nonce, peer) =
            probed.map_or((0, 7, 1), |((asker, nonce), fate)| (*asker, *nonce, fate.peer));
        let words = [
            Word::Probe { space: 0, nonce: nonce ^ 1, said: Some(said) },
            Word::Reply { nonce: nonce ^ 1, held_us: 0, said: Some(said), token: 5 },
            Word::Reply { nonce, held_us: 0, said: Some(said), token: 5 },
            Word::Feedback { nonce, token: 5, rtt, said },
            Word::Gossip { heard: [Some((1, said, 0)); GOSSIP] },
        ];
        let ways = (0..AGENTS as u32).flat_map(|from| (0..AGENTS as u32).map(move |to| (from, to)));
        let mut all = Vec::new();
        for (from, to) in ways.filter(|(from, to)| from != to) {
            for word in &words {
                let named = matches!(word, Word::Reply { nonce: own, .. } if *own == nonce);
                if named && (from, to) == (peer, asker) {
                    continue;
                }
                let word = word.clone();
                all.push(Flight { from, to, arrives: self.now[to as usize], word });
            }
        }
        all
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{:?} {:?} {:?}", self.agents, self.draws, self.timers).hash(&mut hasher);
        let mut flight: Vec<String> = self.flight.iter().map(|one| format!("{one:?}")).collect();
        flight.sort();
        (flight, self.now, self.calls.len(), self.answers, self.budget).hash(&mut hasher);
        self.fates.hash(&mut hasher);
        hasher.finish()
    }

    /// The datagram at `index` comes late: the way of its probe is longer by that.
    fn delay(&mut self, index: usize) {
        let Flight { from, to, arrives, word } = &mut self.flight[index];
        *arrives += LATE;
        let name = match word {
            Word::Probe { nonce, .. } => (*from, *nonce),
            Word::Reply { nonce, .. } => (*to, *nonce),
            _ => return,
        };
        if let Some(fate) = self.fates.get_mut(&name) {
            fate.late += 1;
        }
    }

    /// All states that may follow.
    fn successors(&self) -> Vec<State> {
        let mut next = Vec::new();
        let mut add = |change: &dyn Fn(&mut State)| {
            let mut state = self.clone();
            change(&mut state);
            next.push(state);
        };
        if let Some((asker, peer)) = self.calls.last() {
            add(&|state| {
                state.calls.pop();
                let request = Ask::Probe(Node(*peer));
                let input = Input::Call { call: Call(state.calls.len() as u64), request };
                let now = state.now[*asker];
                state.step(*asker, now, |agent, cx| agent.handle(input, cx));
            });
        }
        for index in 0..self.flight.len() {
            add(&|state| {
                let flight = state.flight.swap_remove(index);
                state.arrive(flight);
            });
            if self.budget.lost > 0 {
                add(&|state| {
                    state.budget.lost -= 1;
                    state.flight.swap_remove(index);
                });
            }
            if self.budget.doubled > 0 {
                add(&|state| {
                    state.budget.doubled -= 1;
                    state.arrive(self.flight[index].clone());
                });
            }
            if self.budget.late > 0 {
                add(&|state| {
                    state.budget.late -= 1;
                    state.delay(index);
                });
            }
        }
        for ((at, timer), due) in &self.timers {
            add(&|state| {
                state.timers.remove(&(*at, *timer));
                state.step(*at, *due, |agent, cx| agent.expire(*timer, cx));
            });
        }
        if self.budget.forged > 0 {
            for forged in self.forgeries() {
                let own = |state: &State| {
                    let agent = &state.agents[forged.to as usize];
                    (agent.coordinate().copied(), agent.updates())
                };
                add(&|state| {
                    state.budget.forged -= 1;
                    let before = own(state);
                    state.arrive(forged.clone());
                    assert_eq!(own(state), before, "{forged:?} moved somebody");
                });
            }
        }
        next
    }
}

#[derive(Default, Debug)]
struct Found {
    states: usize,
    ends: usize,
    /// Ends at which some probe moved both of its ends, and those at which one was given up.
    both: usize,
    given_up: usize,
}

fn explore(calls: &[(usize, u32)], budget: Budget, planted: Option<Planted>) -> Found {
    let first = State::new(calls, budget, planted);
    let mut met = BTreeSet::from([first.digest()]);
    let mut open = vec![first];
    let mut found = Found::default();
    while let Some(state) = open.pop() {
        found.states += 1;
        let next = state.successors();
        let over = state.flight.is_empty() && state.calls.is_empty() && state.timers.is_empty();
        if over {
            found.ends += 1;
            assert_eq!(state.answers as usize, calls.len(), "each call is answered once");
            let agents = format!("{:?}", state.agents);
            assert_eq!(agents.matches("pending: []").count(), AGENTS, "left over: {agents}");
            let moved = state.fates.values().filter(|fate| fate.asker + fate.asked == 2).count();
            found.both += usize::from(moved > 0);
            found.given_up += usize::from(state.fates.values().any(|fate| fate.asker == 0));
        }
        for state in next {
            if met.insert(state.digest()) {
                open.push(state);
            }
        }
    }
    found
}

const CALM: Budget = Budget { lost: 0, doubled: 0, late: 0, forged: 0 };

/// Two probes of three agents: one after the other, towards each other, to and from a third.
const PROBES: [[(usize, u32); 2]; 4] =
    [[(0, 1), (0, 1)], [(0, 1), (1, 0)], [(0, 1), (2, 1)], [(0, 1), (1, 2)]];

#[test]
fn in_every_order_a_probe_moves_each_end_once_and_nothing_else_does() {
    for calls in PROBES {
        for (name, budget) in [
            ("lost and doubled", Budget { lost: 1, doubled: 1, ..CALM }),
            ("lost and late", Budget { lost: 1, late: 1, ..CALM }),
            ("forged", Budget { forged: 1, ..CALM }),
        ] {
            let found = explore(&calls, budget, None);
            println!("{calls:?}, {name}: {found:?}");
            assert!(found.states > 1_000 && found.both > 0 && found.given_up > 0, "{found:?}");
        }
    }
}

#[test]
fn one_probe_lost_doubled_late_and_forged_together() {
    let found = explore(&[(0, 1)], Budget { lost: 1, doubled: 1, late: 1, forged: 1 }, None);
    println!("one probe: {found:?}");
    assert!(found.states > 1_000 && found.both > 0 && found.given_up > 0, "{found:?}");
}

/// The same search finds what is wrong with agents whose bugs were planted.
#[test]
fn planted_bugs_are_met_on_the_way() {
    for (bug, budget) in [
        (Planted::FeedbackUnproven, Budget { forged: 1, ..CALM }),
        (Planted::FeedbackFromAfter, CALM),
        (Planted::HeldCounted, CALM),
    ] {
        let search = || explore(&PROBES[1], budget, Some(bug));
        assert!(catch_unwind(AssertUnwindSafe(search)).is_err(), "{bug:?} is not met");
    }
}
