//! Predictors: whoever says how long a round trip will take, and learns how long it took.
//!
//! A predictor with coordinates is a [`Space`]: what a machine says of itself, and how one machine
//! learns from what another said. [`Learner`] makes a [`Predictor`] of it, and adds what has
//! nothing to do with where a coordinate lives: updates of both ends, and history. So every space
//! can be given both, in rows of their own ([htrae 2.5, 2.8]).
//!
//! To add one, write a file with an `impl Space`, or an `impl Predictor` where there are no
//! coordinates.

pub mod geolocation;
pub mod globe;
pub mod landmarks;
pub mod limits;
pub mod pyxida;
pub mod serf;
pub mod survey;
pub mod vivaldi;

mod euclid;

use crate::history::{History, Memory};
use crate::sphere::Point;
use alloc::vec::Vec;
use cavy_core::{Instant, Stream};

/// A round trip that was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Probe {
    /// Who measured.
    pub from: u32,
    /// Whom.
    pub to: u32,
    /// How long it took, milliseconds.
    pub rtt_ms: f64,
    /// When it was measured.
    pub at: Instant,
}

impl Probe {
    /// Can this have been measured? Nobody probes itself, and longer than ten seconds is a fault
    /// and no distance ([htrae 2.4]).
    pub fn makes_sense(&self) -> bool {
        self.from != self.to && self.rtt_ms > 0.0 && self.rtt_ms <= 10_000.0
    }
}

/// Whoever predicts round trips between machines `0..n`.
pub trait Predictor {
    /// What `from` says at `now` that a round trip to `to` takes, milliseconds; `None` where it
    /// cannot say.
    fn predict_ms(&self, from: u32, to: u32, now: Instant) -> Option<f64>;
    /// Is told what was measured. Whatever makes no sense changes nothing.
    fn learn(&mut self, probe: &Probe, rng: &mut Stream);
    /// What it says of a probe before it is told what was measured; then it learns from it.
    fn meet(&mut self, probe: &Probe, rng: &mut Stream) -> Option<f64> {
        let said = self.predict_ms(probe.from, probe.to, probe.at);
        self.learn(probe, rng);
        said
    }
    /// Hears which probes it will meet next. Nothing changes: it may read what it knows of their
    /// ends, so that among millions of machines the processor waits for memory once for all.
    fn expect(&self, probes: &[Probe]) {
        let _ = probes;
    }
    /// Where it takes `machine` to be, if it thinks of places on the Earth.
    fn place(&self, machine: u32) -> Option<Point> {
        let _ = machine;
        None
    }
}

/// Reads of both ends of `probes` whatever `read` does, in vain but for where it is afterwards:
/// near the processor.
fn read_ends(probes: &[Probe], read: impl Fn(u32) -> u64) {
    let add = |sum: u64, one: &Probe| sum ^ read(one.from) ^ read(one.to);
    core::hint::black_box(probes.iter().fold(0, add));
}

/// Coordinates of machines `0..n`.
pub trait Space {
    /// What a machine says of itself.
    type Said;
    /// What `machine` says of itself now.
    fn said(&self, machine: u32) -> Self::Said;
    /// What the coordinates say that a round trip takes, milliseconds.
    fn estimate_ms(&self, from: u32, to: u32) -> Option<f64>;
    /// `machine` learns that a round trip to `peer`, which said `said`, took `rtt_ms`.
    fn update(
        &mut self,
        machine: u32,
        peer: (u32, &Self::Said),
        rtt_ms: f64,
        at: Instant,
        rng: &mut Stream,
    );
    /// Reads something of each part of memory that `machine` has ([`Predictor::expect`]).
    fn read(&self, machine: u32) -> u64 {
        let _ = machine;
        0
    }
    /// Where it takes `machine` to be, if it thinks of places on the Earth.
    fn place(&self, machine: u32) -> Option<Point> {
        let _ = machine;
        None
    }
}

/// A space whose machines learn from each other, at one end or at both, with or without history.
#[derive(Clone, Debug)]
pub struct Learner<S> {
    space: S,
    symmetric: bool,
    histories: Option<(Memory, Vec<History>)>,
}

impl<S: Space> Learner<S> {
    /// One end learns, and nobody remembers.
    pub fn new(space: S) -> Self {
        Learner { space, symmetric: false, histories: None }
    }

    /// Both ends learn from a probe: who measured tells the other, with the coordinate it had
    /// before ([htrae 2.5]).
    pub fn symmetric(self, symmetric: bool) -> Self {
        Learner { symmetric, ..self }
    }

    /// The `machines` remember what they measured, and say so instead of predicting ([htrae 2.2]).
    pub fn with_history(self, memory: Memory, machines: u32) -> Self {
        let histories = (0..machines).map(|_| History::default()).collect();
        Learner { histories: Some((memory, histories)), ..self }
    }

    /// The coordinates.
    pub fn space(&self) -> &S {
        &self.space
    }
}

impl<S: Space> Predictor for Learner<S> {
    fn predict_ms(&self, from: u32, to: u32, now: Instant) -> Option<f64> {
        let known = self
            .histories
            .as_ref()
            .and_then(|(memory, histories)| histories.get(from as usize)?.recall(to, now, *memory));
        known.or_else(|| self.space.estimate_ms(from, to))
    }

    fn learn(&mut self, probe: &Probe, rng: &mut Stream) {
        let Probe { from, to, rtt_ms, at } = *probe;
        if !probe.makes_sense() {
            return;
        }
        let there = self.space.said(to);
        // What the other end hears is the coordinate from before the update, else the same
        // measurement would move it twice.
        let here = self.space.said(from);
        self.space.update(from, (to, &there), rtt_ms, at, rng);
        if self.symmetric {
            self.space.update(to, (from, &here), rtt_ms, at, rng);
        }
        let Some((memory, histories)) = &mut self.histories else { return };
        let mut remember = |who: u32, whom: u32| {
            if let Some(history) = histories.get_mut(who as usize) {
                history.record(whom, rtt_ms, at, *memory);
            }
        };
        remember(from, to);
        if self.symmetric {
            remember(to, from);
        }
    }

    fn expect(&self, probes: &[Probe]) {
        read_ends(probes, |machine| self.space.read(machine));
        if let Some((_, histories)) = &self.histories {
            read_ends(probes, |machine| histories.get(machine as usize).map_or(0, History::read));
        }
    }

    fn place(&self, machine: u32) -> Option<Point> {
        self.space.place(machine)
    }
}

/// Room for one more in a list of which each of millions of machines has one: room for twice as
/// many, as vectors make it, would be gigabytes that nobody uses.
fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(4 + list.len() / 8);
    }
}
