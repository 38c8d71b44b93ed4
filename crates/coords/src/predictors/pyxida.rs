//! Pyxida, which Azureus shipped: all neighbours pull at once, the ones heard last the hardest
//! ([htrae 3.2]).
//!
//! Deviation: a neighbour counts from its first sample on. The deployed program waits for four, or
//! for two that agree; where a pair is hardly ever measured twice it would learn nothing at all
//! ([htrae 3.2]).

use super::Space;
use super::euclid::{Vector, add, difference, length};
use crate::filter::{Filter, Window};
use alloc::vec::Vec;
use cavy_core::{Instant, Span, Stream};

const MOVE_GAIN: f64 = 0.25;
const ERROR_GAIN: f64 = 0.10;
const NEIGHBOURS_MAX: usize = 512;
const HEIGHT_MIN_MS: f64 = 0.1;
const REACH_MAX_MS: f64 = 60_000.0;
const RTT_MAX_MS: f64 = 20_000.0;
const LIFETIME: Span = Span::from_ms(3 * 24 * 3_600_000);
const FILTER: Filter = Filter { window: 16, percentile: 0.5 };

/// A coordinate in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Coordinate<const D: usize> {
    place: Vector<D>,
    height: f64,
    error: f64,
}

impl<const D: usize> Coordinate<D> {
    fn distance(&self, other: &Self) -> f64 {
        length(&difference(&self.place, &other.place)) + self.height + other.height
    }

    fn is_sound(&self) -> bool {
        let reach = length(&self.place) + self.height;
        reach <= REACH_MAX_MS && self.height >= 0.0 && self.error > 0.0 && self.error <= 1.0
    }

    /// Nobody stays at the origin, where no direction leads away, nor without a height.
    fn bumped(mut self, rng: &mut Stream) -> Self {
        if self.place.iter().all(|part| *part == 0.0) {
            self.place = core::array::from_fn(|_| rng.unit() + 0.1);
        }
        if self.height <= HEIGHT_MIN_MS {
            self.height = rng.unit() + 0.1;
        }
        self
    }
}

#[derive(Clone, PartialEq, Debug)]
struct Neighbour<const D: usize> {
    who: u32,
    said: Coordinate<D>,
    window: Window<16>,
    rtt_ms: f64,
    heard: Instant,
}

#[derive(Clone, PartialEq, Debug)]
struct Machine<const D: usize> {
    own: Coordinate<D>,
    /// First in, first out.
    neighbours: Vec<Neighbour<D>>,
}

/// Pyxida's coordinates of all machines: `D` flat dimensions and a height.
#[derive(Clone, PartialEq, Debug)]
pub struct Pyxida<const D: usize> {
    machines: Vec<Machine<D>>,
}

impl<const D: usize> Pyxida<D> {
    /// `machines`, all at the origin.
    pub fn new(machines: u32) -> Self {
        let own = Coordinate { place: [0.0; D], height: 0.0, error: 1.0 };
        let one = Machine { own, neighbours: Vec::new() };
        Pyxida { machines: (0..machines).map(|_| one.clone()).collect() }
    }
}

impl<const D: usize> Machine<D> {
    /// Notes what a neighbour said and how far it was; its filtered round trip.
    fn hear(&mut self, who: u32, said: &Coordinate<D>, rtt_ms: f64, at: Instant) -> f64 {
        self.neighbours.retain(|known| at.since(known.heard) <= LIFETIME);
        let index = match self.neighbours.iter().position(|known| known.who == who) {
            Some(index) => index,
            None => {
                if self.neighbours.len() == NEIGHBOURS_MAX {
                    self.neighbours.remove(0);
                }
                let window = Window::default();
                self.neighbours.push(Neighbour { who, said: *said, window, rtt_ms, heard: at });
                self.neighbours.len() - 1
            }
        };
        let known = &mut self.neighbours[index];
        known.said = *said;
        known.heard = at;
        known.rtt_ms = known.window.push(rtt_ms, FILTER);
        known.rtt_ms
    }

    /// The force of all neighbours together: along the flat dimensions, and upwards.
    fn force(&self) -> (Vector<D>, f64) {
        let oldest = self.neighbours.iter().map(|known| known.heard).min().unwrap_or(Instant::ZERO);
        let age = |known: &Neighbour<D>| known.heard.since(oldest).as_ns() as f64;
        let all: f64 = self.neighbours.iter().map(age).sum();
        let (mut flat, mut up) = ([0.0; D], 0.0);
        for known in &self.neighbours {
            let share = if all > 0.0 { age(known) / all } else { 1.0 };
            let distance = self.own.distance(&known.said);
            if share == 0.0 || distance <= 0.0 {
                continue;
            }
            let pull = share * (distance - known.rtt_ms) / distance;
            add(&mut flat, &difference(&known.said.place, &self.own.place), pull);
            // Towards a neighbour is down.
            up -= pull * (self.own.height + known.said.height);
        }
        (flat, up)
    }
}

impl<const D: usize> Space for Pyxida<D> {
    type Said = Coordinate<D>;

    fn said(&self, machine: u32) -> Coordinate<D> {
        self.machines[machine as usize].own
    }

    fn estimate_ms(&self, from: u32, to: u32) -> Option<f64> {
        let of = |machine: u32| self.machines.get(machine as usize).map(|machine| &machine.own);
        Some(of(from)?.distance(of(to)?))
    }

    fn update(
        &mut self,
        machine: u32,
        (peer, said): (u32, &Coordinate<D>),
        rtt_ms: f64,
        at: Instant,
        rng: &mut Stream,
    ) {
        if rtt_ms > RTT_MAX_MS || !said.is_sound() {
            return;
        }
        let machine = &mut self.machines[machine as usize];
        machine.own = machine.own.bumped(rng);
        let filtered = machine.hear(peer, said, rtt_ms, at);
        let own = machine.own;
        let wrong = ((own.distance(said) - filtered).abs() / filtered).min(1.0);
        let gain = ERROR_GAIN * own.error / (own.error + said.error);
        let (flat, up) = machine.force();
        let mut moved = Coordinate { error: own.error + gain * (wrong - own.error), ..own };
        add(&mut moved.place, &flat, MOVE_GAIN);
        moved.height += MOVE_GAIN * up;
        let moved = moved.bumped(rng);
        if moved.is_sound() {
            machine.own = moved;
        }
    }
}
