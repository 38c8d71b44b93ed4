//! Geolocation: the distance between where two addresses are said to be. It never learns ([htrae
//! 3.5]).

use super::Space;
use crate::map::Line;
use crate::sphere::Point;
use alloc::vec::Vec;
use cavy_core::{Instant, Stream};

/// Places of machines, and the line from distance to round trip.
#[derive(Clone, PartialEq, Debug)]
pub struct Geolocation {
    line: Line,
    places: Vec<Option<Point>>,
}

impl Geolocation {
    /// Machines at `places`; `None` for those that nobody can locate.
    pub fn new(line: Line, places: Vec<Option<Point>>) -> Self {
        Geolocation { line, places }
    }
}

impl Space for Geolocation {
    type Said = ();

    fn said(&self, _: u32) {}

    fn estimate_ms(&self, from: u32, to: u32) -> Option<f64> {
        let place = |machine: u32| self.places.get(machine as usize).copied().flatten();
        Some(self.line.rtt_ms(place(from)?.distance_km(place(to)?)))
    }

    fn read(&self, machine: u32) -> u64 {
        self.place(machine).map_or(0, |place| place.vector()[0].to_bits())
    }

    fn place(&self, machine: u32) -> Option<Point> {
        self.places.get(machine as usize).copied().flatten()
    }

    fn update(&mut self, _: u32, _: (u32, &()), _: f64, _: Instant, _: &mut Stream) {}
}
