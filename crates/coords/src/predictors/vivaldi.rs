//! Vivaldi: a flat space of `D` dimensions with heights, learnt from nothing ([htrae 3.1]).

use super::Space;
use super::euclid::{Vector, add, difference, length, random_direction};
use alloc::vec::Vec;
use cavy_core::{Instant, Stream};

const MOVE_GAIN: f64 = 0.25;
const ERROR_GAIN: f64 = 0.25;
const ERROR_MIN: f64 = 0.01;
const ERROR_MAX: f64 = 1.0;
const HEIGHT_MIN_MS: f64 = 0.1;

/// A coordinate in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Coordinate<const D: usize> {
    place: Vector<D>,
    height: f64,
    error: f64,
}

impl<const D: usize> Coordinate<D> {
    /// Height above the flat part, milliseconds.
    pub fn height_ms(&self) -> f64 {
        self.height
    }

    fn distance(&self, other: &Self) -> f64 {
        length(&difference(&self.place, &other.place)) + self.height + other.height
    }
}

/// Vivaldi's coordinates of all machines.
#[derive(Clone, PartialEq, Debug)]
pub struct Vivaldi<const D: usize> {
    machines: Vec<Coordinate<D>>,
}

impl<const D: usize> Vivaldi<D> {
    /// `machines`, all at the origin.
    pub fn new(machines: u32) -> Self {
        let origin = Coordinate { place: [0.0; D], height: HEIGHT_MIN_MS, error: ERROR_MAX };
        Vivaldi { machines: (0..machines).map(|_| origin).collect() }
    }
}

impl<const D: usize> Space for Vivaldi<D> {
    type Said = Coordinate<D>;

    fn said(&self, machine: u32) -> Coordinate<D> {
        self.machines[machine as usize]
    }

    fn estimate_ms(&self, from: u32, to: u32) -> Option<f64> {
        let of = |machine: u32| self.machines.get(machine as usize);
        Some(of(from)?.distance(of(to)?))
    }

    fn update(
        &mut self,
        machine: u32,
        (_, peer): (u32, &Coordinate<D>),
        rtt_ms: f64,
        _: Instant,
        rng: &mut Stream,
    ) {
        let own = &mut self.machines[machine as usize];
        let estimate = own.distance(peer);
        let weight = own.error / (own.error + peer.error);
        let wrong = (estimate - rtt_ms).abs() / rtt_ms;
        let gain = ERROR_GAIN * weight;
        own.error = (wrong * gain + own.error * (1.0 - gain)).clamp(ERROR_MIN, ERROR_MAX);
        let force = MOVE_GAIN * weight * (rtt_ms - estimate);
        let apart = difference(&own.place, &peer.place);
        let heights = own.height + peer.height;
        if length(&apart) > 1e-6 {
            add(&mut own.place, &apart, force / estimate);
        } else {
            // On top of each other there is no direction; one is drawn.
            add(&mut own.place, &random_direction(rng), force);
        }
        // The height's share is whole where all of the estimate was height.
        own.height = (own.height + force * heights / estimate).max(HEIGHT_MIN_MS);
    }
}
