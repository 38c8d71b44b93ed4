//! Landmarks: everybody has measured a few fixed machines, and a path is put together from two such
//! legs. On them the stand-ins for iPlane and for OASIS ([htrae 3.6, 3.7]).
//!
//! The stand-ins are not those systems: their maps of the Internet are not to be had. They show
//! what the *kind* of answer is worth. Coverage and guess are parameters; whoever measures with
//! them must write both down before a value is seen. The source's own digits are not claimed by
//! them.

use super::{Predictor, Probe};
use crate::map::Line;
use crate::sphere::Point;
use alloc::vec::Vec;
use cavy_core::{Instant, Stream};

/// What was measured to landmarks, before anything is predicted.
#[derive(Clone, PartialEq, Debug)]
pub struct Legs {
    /// The landmarks, machines like others.
    landmarks: Vec<u32>,
    /// By machine, then by landmark; `None` where nothing was measured. A machine that is not
    /// covered has none.
    legs: Vec<Vec<Option<f64>>>,
}

impl Legs {
    /// `legs[machine]` has a value for each of `landmarks`, or is empty for a machine that is not
    /// covered.
    pub fn new(landmarks: Vec<u32>, legs: Vec<Vec<Option<f64>>>) -> Self {
        Legs { landmarks, legs }
    }

    fn of(&self, machine: u32) -> impl Iterator<Item = (u32, f64)> + '_ {
        let legs = self.legs.get(machine as usize).map_or(&[][..], Vec::as_slice);
        self.landmarks.iter().zip(legs).filter_map(|(landmark, leg)| Some((*landmark, (*leg)?)))
    }

    /// The median leg: what somebody guesses who knows these legs and nothing of two machines.
    pub fn median_ms(&self) -> Option<f64> {
        let mut all: Vec<f64> = self.legs.iter().flatten().flatten().copied().collect();
        all.sort_unstable_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }

    /// The least sum of two legs over a landmark that both ends have measured. A landmark at an end
    /// does not count: the answer would be the measurement itself, and nothing would be predicted.
    pub fn composed_ms(&self, from: u32, to: u32) -> Option<f64> {
        let there = self.legs.get(to as usize)?;
        let both = self.landmarks.iter().zip(self.legs.get(from as usize)?).zip(there);
        let sums = both.filter_map(|((landmark, a), b)| {
            (*landmark != from && *landmark != to).then_some((*a)? + (*b)?)
        });
        sums.min_by(f64::total_cmp)
    }

    /// The landmark that is nearest to `machine` by what it measured, and the leg to it.
    pub fn nearest(&self, machine: u32) -> Option<(u32, f64)> {
        self.of(machine)
            .filter(|(landmark, _)| *landmark != machine)
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

/// The least sum of two legs, else a guess.
#[derive(Clone, PartialEq, Debug)]
pub struct Composition {
    legs: Legs,
    guess_ms: Option<f64>,
}

impl Composition {
    /// By `legs`; `guess_ms` is what it says of pairs that these do not cover, if it says anything.
    pub fn new(legs: Legs, guess_ms: Option<f64>) -> Self {
        Composition { legs, guess_ms }
    }
}

impl Predictor for Composition {
    fn predict_ms(&self, from: u32, to: u32, _: Instant) -> Option<f64> {
        self.legs.composed_ms(from, to).or(self.guess_ms)
    }

    fn learn(&mut self, _: &Probe, _: &mut Stream) {}
}

/// Everybody is where the nearest landmark is, and distance does the rest: what an answer by
/// location is worth.
#[derive(Clone, PartialEq, Debug)]
pub struct Located {
    line: Line,
    places: Vec<Option<Point>>,
    guess_ms: Option<f64>,
}

impl Located {
    /// By `legs`, where landmark `l` is at `place(l)`.
    pub fn new(
        legs: &Legs,
        machines: u32,
        line: Line,
        place: impl Fn(u32) -> Option<Point>,
        guess_ms: Option<f64>,
    ) -> Self {
        let of = |machine| legs.nearest(machine).and_then(|(landmark, _)| place(landmark));
        Located { line, places: (0..machines).map(of).collect(), guess_ms }
    }
}

impl Predictor for Located {
    fn predict_ms(&self, from: u32, to: u32, _: Instant) -> Option<f64> {
        let place = |machine: u32| self.places.get(machine as usize).copied().flatten();
        match (place(from), place(to)) {
            (Some(a), Some(b)) => Some(self.line.rtt_ms(a.distance_km(b))),
            _ => self.guess_ms,
        }
    }

    fn learn(&mut self, _: &Probe, _: &mut Stream) {}
}
