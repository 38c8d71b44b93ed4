//! The coordinates of serf, which Consul and Nomad ship: Vivaldi in eight dimensions, in seconds,
//! with an adjustment and a gravity ([htrae 3.3]).
//!
//! From recorded states it moves as the Go package `hashicorp/serf/coordinate` does, to the
//! rounding of a double (`tests/serf.rs`): so times are cut to whole nanoseconds where that package
//! passes durations.

use super::euclid::{Vector, add, difference, length, random_direction};
use super::{Space, make_room};
use crate::filter::{Filter, Window};
use alloc::vec::Vec;
use cavy_core::{Instant, Stream};

const DIMENSIONS: usize = 8;
const ERROR_MAX: f64 = 1.5;
const ERROR_GAIN: f64 = 0.25;
const MOVE_GAIN: f64 = 0.25;
const ADJUSTMENTS: usize = 20;
const HEIGHT_MIN_S: f64 = 10e-6;
const GRAVITY_RHO: f64 = 150.0;
const RTT_MAX_S: f64 = 10.0;
/// Below this two places are one, and two sums of errors are zero; round trips are raised to it.
const ZERO: f64 = 1e-6;

/// A coordinate in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Coordinate {
    /// Place in the flat part.
    pub place: [f64; DIMENSIONS],
    /// Height above it.
    pub height: f64,
    /// Relative error.
    pub error: f64,
    /// Half of what predictions from here have lately been short of.
    pub adjustment: f64,
}

const ORIGIN: Coordinate = Coordinate {
    place: [0.0; DIMENSIONS],
    height: HEIGHT_MIN_S,
    error: ERROR_MAX,
    adjustment: 0.0,
};

impl Coordinate {
    fn raw_distance(&self, other: &Coordinate) -> f64 {
        length(&difference(&self.place, &other.place)) + self.height + other.height
    }

    /// The estimate in seconds: adjusted, unless the adjustment would make it negative.
    pub fn distance(&self, other: &Coordinate) -> f64 {
        let raw = self.raw_distance(other);
        let adjusted = raw + self.adjustment + other.adjustment;
        whole_ns(if adjusted > 0.0 { adjusted } else { raw })
    }

    fn is_valid(&self) -> bool {
        let parts = [self.height, self.error, self.adjustment];
        self.place.iter().chain(&parts).all(|part| part.is_finite())
    }

    fn push(&mut self, force: f64, other: &Coordinate, rng: &mut Stream) {
        let apart: Vector<DIMENSIONS> = difference(&self.place, &other.place);
        let long = length(&apart);
        if long > ZERO {
            let direction = apart.map(|part| part * (1.0 / long));
            add(&mut self.place, &direction, force);
            let height = (self.height + other.height) * force / long + self.height;
            self.height = height.max(HEIGHT_MIN_S);
        } else {
            add(&mut self.place, &random_direction(rng), force);
        }
    }
}

/// Seconds as Go's `time.Duration` has them.
fn whole_ns(seconds: f64) -> f64 {
    let ns = seconds * 1e9;
    if ns.abs() >= 9.2e18 {
        return seconds;
    }
    let ns = ns as i64;
    (ns / 1_000_000_000) as f64 + (ns % 1_000_000_000) as f64 / 1e9
}

/// One machine: its coordinate and what it keeps.
#[derive(Clone, PartialEq, Debug)]
pub struct Client {
    coordinate: Coordinate,
    shortfalls: [f64; ADJUSTMENTS],
    next: u8,
    /// What the only measurement of a peer was, by peer in order: with millions of machines, most
    /// of which meet a peer once, a window for each takes gigabytes.
    once: Vec<(u32, f64)>,
    /// Of peers that were measured more often, by peer in order.
    windows: Vec<(u32, Window<3>)>,
}

impl Default for Client {
    fn default() -> Self {
        Client::at(ORIGIN)
    }
}

impl Client {
    /// A client that begins with `coordinate`.
    pub fn at(coordinate: Coordinate) -> Self {
        let shortfalls = [0.0; ADJUSTMENTS];
        Client { coordinate, shortfalls, next: 0, once: Vec::new(), windows: Vec::new() }
    }

    /// Its coordinate.
    pub fn coordinate(&self) -> &Coordinate {
        &self.coordinate
    }

    /// What the last measurements of `peer` say together.
    fn filtered(&mut self, peer: u32, rtt_s: f64) -> f64 {
        let Client { once, windows, .. } = self;
        let again = match windows.binary_search_by_key(&peer, |(known, _)| *known) {
            Ok(at) => at,
            Err(at) => match once.binary_search_by_key(&peer, |(known, _)| *known) {
                Ok(first) => {
                    let mut window = Window::default();
                    window.push(once.remove(first).1, Filter::MEDIAN_OF_THREE);
                    windows.insert(at, (peer, window));
                    at
                }
                // The median of one.
                Err(at) => {
                    make_room(once);
                    once.insert(at, (peer, rtt_s));
                    return rtt_s;
                }
            },
        };
        windows[again].1.push(rtt_s, Filter::MEDIAN_OF_THREE)
    }

    /// Learns that a round trip to `peer`, which is at `other`, took `rtt_s` seconds.
    pub fn update(&mut self, peer: u32, other: &Coordinate, rtt_s: f64, rng: &mut Stream) {
        if !(0.0..=RTT_MAX_S).contains(&rtt_s) || !other.is_valid() {
            return;
        }
        let rtt_s = self.filtered(peer, rtt_s);

        let estimate = self.coordinate.distance(other);
        let believed = rtt_s.max(ZERO);
        let wrong = (estimate - believed).abs() / believed;
        let weight = self.coordinate.error / (self.coordinate.error + other.error).max(ZERO);
        let kept = 1.0 - ERROR_GAIN * weight;
        let error = ERROR_GAIN * weight * wrong + self.coordinate.error * kept;
        self.coordinate.error = error.min(ERROR_MAX);
        let force = MOVE_GAIN * weight * (believed - estimate);
        self.coordinate.push(force, other, rng);

        self.shortfalls[usize::from(self.next)] = rtt_s - self.coordinate.raw_distance(other);
        self.next = (self.next + 1) % ADJUSTMENTS as u8;
        let sum: f64 = self.shortfalls.iter().sum();
        self.coordinate.adjustment = sum / (2.0 * ADJUSTMENTS as f64);

        let out = ORIGIN.distance(&self.coordinate) / GRAVITY_RHO;
        self.coordinate.push(-(out * out), &ORIGIN, rng);
        if !self.coordinate.is_valid() {
            self.coordinate = ORIGIN;
        }
    }
}

/// serf's coordinates of all machines.
#[derive(Clone, PartialEq, Debug)]
pub struct Serf {
    machines: Vec<Client>,
}

impl Serf {
    /// `machines`, all at the origin.
    pub fn new(machines: u32) -> Self {
        Serf { machines: (0..machines).map(|_| Client::default()).collect() }
    }
}

impl Space for Serf {
    type Said = Coordinate;

    fn said(&self, machine: u32) -> Coordinate {
        self.machines[machine as usize].coordinate
    }

    fn estimate_ms(&self, from: u32, to: u32) -> Option<f64> {
        let of = |machine: u32| self.machines.get(machine as usize).map(Client::coordinate);
        Some(of(from)?.distance(of(to)?) * 1e3)
    }

    fn read(&self, machine: u32) -> u64 {
        let Some(client) = self.machines.get(machine as usize) else { return 0 };
        let Client { coordinate, shortfalls, next, once, .. } = client;
        let middle = once.get(once.len() / 2).map_or(0, |(peer, _)| u64::from(*peer));
        let parts = [coordinate.place[0], coordinate.height, shortfalls[0], shortfalls[8]];
        let parts = parts.iter().fold(shortfalls[16].to_bits(), |sum, part| sum ^ part.to_bits());
        parts ^ middle ^ u64::from(*next)
    }

    fn update(
        &mut self,
        machine: u32,
        (peer, said): (u32, &Coordinate),
        rtt_ms: f64,
        _: Instant,
        rng: &mut Stream,
    ) {
        self.machines[machine as usize].update(peer, said, whole_ns(rtt_ms / 1e3), rng);
    }
}
