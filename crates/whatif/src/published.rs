//! Slowpoke as its artifact has it: a hook and a poker in every service ([slowpoke 2.2, 2.3, 2.4]).
//!
//! The hook counts requests. In the target, the request after the Nth begins a phase; the phase
//! spreads from neighbour to neighbour, and each service stops itself for what its requests since
//! the last phase cost. The rules are those of the code, slips included: whole microseconds, one
//! more request than the batch, stops of no length in the target, no lease.
//!
//! **Deviation:** the hook holds its lock across a pause, so that handlers block which run before
//! the stop takes hold. Here such a request is counted after the pause, but its handler goes on:
//! the world has no hook to block.

use crate::poker::{Poker, SELF};
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::probe::{Controller, Effect, Epoch, Group, Input, Set, Timer};
use cavy_core::{Cx, Machine, Span};

/// What services tell each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// I called you; tell me of pauses, as I tell you.
    Register,
    /// This phase has begun.
    Pause(u64),
}

/// One service of the published system.
#[derive(Clone, Debug)]
pub struct Published {
    poker: Poker,
    target: bool,
    /// What a request of this service costs it.
    delay: Span,
    batch: u32,
    owed: Span,
    count: u32,
    phase: u64,
    neighbours: Vec<Node>,
    /// Requests that came while it was stopping, and the latest phase that it heard of then.
    blocked: u32,
    unheard: u64,
    aborted: bool,
}

type PublishedCx<'a> = Cx<'a, Effect<Word, ()>, Timer>;

/// Pause of a service for each of its requests, by the rule of the source: `delta_us` saved by each
/// request of the target, which has `of_target` visits for each request of a client and as many
/// cores as `cores_of_target` ([slowpoke 2.1]). The source truncates twice to whole microseconds
/// ([slowpoke S1]); `exact` does not.
pub fn delay(
    delta_us: f64,
    of_target: f64,
    cores_of_target: u32,
    visits: f64,
    cores: u32,
    exact: bool,
) -> Span {
    if visits <= 0.0 {
        return Span::ZERO;
    }
    let pause_us = delta_us * of_target / (visits * f64::from(cores_of_target));
    let us = if exact {
        pause_us
    } else {
        libm::floor(libm::floor(pause_us * f64::from(cores)) / f64::from(cores))
    };
    Span::try_from_us(us).unwrap_or(Span::ZERO)
}

/// Throughput of the changed system from that of the slowed one, in requests a second, `pause_us`
/// being delta x visits / cores of the target: 1/X = 1/X_slow - pause ([slowpoke 2.1]). `None` when
/// the slowed system was faster than pauses allow.
pub fn predict(slowed_per_s: f64, pause_us: f64) -> Option<f64> {
    let period_us = 1e6 / slowed_per_s - pause_us;
    (period_us > 0.0 && slowed_per_s > 0.0).then(|| 1e6 / period_us)
}

impl Published {
    /// The service `group`, with the pause that each of its requests costs (that of the target is
    /// not used), and the requests of the target between two phases. It meets at most `peers`
    /// others.
    pub fn new(group: Group, target: bool, delay: Span, batch: u32, peers: usize) -> Self {
        Published {
            poker: Poker::new(group, Span::MAX),
            target,
            delay: if target { Span::ZERO } else { delay },
            batch,
            owed: Span::ZERO,
            count: 0,
            phase: 0,
            neighbours: Vec::with_capacity(peers),
            blocked: 0,
            unheard: 0,
            aborted: false,
        }
    }

    /// The same with a lease, for worlds in which it may die.
    pub fn with_lease(mut self, lease: Span) -> Self {
        self.poker = Poker::new(self.poker.group[0], lease);
        self
    }

    fn meet(&mut self, peer: Node) {
        if !self.neighbours.contains(&peer) && self.neighbours.len() < self.neighbours.capacity() {
            self.neighbours.push(peer);
        }
    }

    fn request(&mut self, cx: &mut PublishedCx<'_>) {
        self.owed += self.delay;
        self.count += 1;
        // The request after the Nth.
        if self.target && self.count > self.batch {
            self.begin(self.phase + 1, cx);
        }
    }

    /// The flood goes first, then the pause.
    fn begin(&mut self, phase: u64, cx: &mut PublishedCx<'_>) {
        if phase <= self.phase {
            return;
        }
        self.phase = phase;
        self.count = 0;
        let owed = core::mem::replace(&mut self.owed, Span::ZERO);
        for place in 0..self.neighbours.len() {
            cx.emit(Effect::Send { to: self.neighbours[place], message: Word::Pause(phase) });
        }
        self.poker.pause(owed, cx);
    }

    /// The service goes on: what waited for its lock comes now.
    fn thawed(&mut self, epoch: Epoch, cx: &mut PublishedCx<'_>) {
        if !self.poker.thawed(epoch) {
            return;
        }
        let phase = core::mem::take(&mut self.unheard);
        self.begin(phase, cx);
        while self.blocked > 0 && !self.poker.stopping() {
            self.blocked -= 1;
            self.request(cx);
        }
    }
}

impl Machine for Published {
    type Input = Input<Word>;
    type Effect = Effect<Word, ()>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        self.neighbours.capacity() + 4
    }

    fn start(&mut self, _: &mut PublishedCx<'_>) {}

    fn handle(&mut self, input: Input<Word>, cx: &mut PublishedCx<'_>) {
        if self.aborted {
            return;
        }
        match input {
            Input::Visited { group, .. } if group == self.poker.group[0] => {
                if self.poker.stopping() {
                    self.blocked += 1;
                } else {
                    self.request(cx);
                }
            }
            Input::Met { peer } => {
                self.meet(peer);
                cx.emit(Effect::Send { to: peer, message: Word::Register });
            }
            Input::Rx { from, message: Word::Register } => self.meet(from),
            Input::Rx { message: Word::Pause(phase), .. } => {
                if self.poker.stopping() {
                    self.unheard = self.unheard.max(phase);
                } else {
                    self.begin(phase, cx);
                }
            }
            Input::Thawed { epoch, .. } => self.thawed(epoch, cx),
            Input::Abort => {
                self.aborted = true;
                self.poker.abort(cx);
            }
            _ => {}
        }
    }

    fn expire(&mut self, _: Timer, cx: &mut PublishedCx<'_>) {
        self.poker.resume(cx);
    }
}

impl Controller for Published {
    type Message = Word;
    type Finding = ();

    fn members(&self, set: Set) -> &[Group] {
        if set == SELF { &self.poker.group } else { &[] }
    }
}
