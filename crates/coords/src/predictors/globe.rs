//! Htrae's coordinates: they begin where addresses are said to be, and move ([htrae 2]).

use super::Space;
use crate::config::Config;
use crate::model::{self, Coordinate};
use crate::sphere::Point;
use crate::start::{Known, Placed};
use crate::wire::Said;
use alloc::vec::Vec;
use cavy_core::{Instant, Stream};

/// Coordinates on the globe.
#[derive(Clone, PartialEq, Debug)]
pub struct Globe {
    config: Config,
    machines: Vec<Placed>,
    in_whole_numbers: bool,
}

impl Globe {
    /// Machines of which `known` says the place and the effective system ([`crate::systems`]).
    pub fn new(config: Config, known: impl IntoIterator<Item = (Known, u32)>) -> Self {
        let start = |(known, system)| Placed::start(known, system, &config);
        let machines = known.into_iter().map(start).collect();
        Globe { config, machines, in_whole_numbers: false }
    }

    /// Machines that begin at random places: what geography is worth shows by leaving it out
    /// ([htrae 2.9, H2]).
    pub fn at_random(
        config: Config,
        systems: impl IntoIterator<Item = u32>,
        rng: &mut Stream,
    ) -> Self {
        let mut start = |system| Placed::At(Coordinate::at(Point::random(rng), system, &config));
        let machines = systems.into_iter().map(&mut start).collect();
        Globe { config, machines, in_whole_numbers: false }
    }

    /// Machines tell each other their coordinates in the integers of the wire, as agents do
    /// ([`crate::agent`]).
    pub fn in_whole_numbers(self) -> Self {
        Globe { in_whole_numbers: true, ..self }
    }

    /// The coordinate of `machine`, once it has one.
    pub fn coordinate(&self, machine: u32) -> Option<&Coordinate> {
        self.machines.get(machine as usize)?.coordinate()
    }
}

impl Space for Globe {
    type Said = Option<Coordinate>;

    fn said(&self, machine: u32) -> Option<Coordinate> {
        let own = self.coordinate(machine)?;
        match self.in_whole_numbers {
            true => Said::of(own).coordinate(&self.config),
            false => Some(*own),
        }
    }

    fn estimate_ms(&self, from: u32, to: u32) -> Option<f64> {
        Some(model::predict_ms(self.coordinate(from)?, self.coordinate(to)?, &self.config))
    }

    fn read(&self, machine: u32) -> u64 {
        self.coordinate(machine).map_or(0, |own| own.error.to_bits() ^ u64::from(own.updates))
    }

    fn place(&self, machine: u32) -> Option<Point> {
        Some(self.coordinate(machine)?.position)
    }

    fn update(
        &mut self,
        machine: u32,
        (_, said): (u32, &Option<Coordinate>),
        rtt_ms: f64,
        _: Instant,
        rng: &mut Stream,
    ) {
        let (Some(placed), Some(peer)) = (self.machines.get_mut(machine as usize), said) else {
            return;
        };
        match placed {
            Placed::At(own) => {
                model::update(own, peer, rtt_ms, &self.config, rng);
            }
            Placed::Nowhere { .. } => placed.note(peer, rtt_ms, &self.config),
        }
    }
}
