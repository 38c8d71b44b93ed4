//! Where a machine begins: by its address, its country, or its nearest peer; never at a random
//! place, from which it needs more than 32 probes to recover ([htrae 2.9]).

use crate::config::Config;
use crate::model::Coordinate;
use crate::sphere::Point;

/// Probes after which a machine without a place takes that of its nearest peer.
pub const PROBES_TO_PLACE: u8 = 3;
/// A stored coordinate is dropped when the place of the address has moved farther than this ([htrae
/// 2.8]).
pub const MOVED_MAX_KM: f64 = 500.0;

/// What is known of a machine's place.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Known {
    /// What a database says of its address.
    pub address: Option<Point>,
    /// The middle of its country.
    pub country: Option<Point>,
}

/// A machine that has a coordinate, or is about to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Placed {
    /// It has one.
    At(Coordinate),
    /// Nobody knows where it is; it has heard from `probes` peers, the nearest at `nearest`.
    Nowhere {
        /// Round trips measured.
        probes: u8,
        /// The shortest of them, milliseconds, with that peer's place and height.
        nearest: Option<(f64, Point, f64)>,
        /// Its system, for the coordinate to come.
        system: u32,
    },
}

impl Placed {
    /// Begins with what is known.
    pub fn start(known: Known, system: u32, config: &Config) -> Placed {
        match known.address.or(known.country) {
            Some(point) => Placed::At(Coordinate::at(point, system, config)),
            None => Placed::Nowhere { probes: 0, nearest: None, system },
        }
    }

    /// Goes on with a coordinate that was stored, unless the machine has moved since: `then` is
    /// where its address was when it was stored, `known` what is known now.
    pub fn resume(
        stored: Coordinate,
        then: Option<Point>,
        known: Known,
        config: &Config,
    ) -> Placed {
        let moved = match (then, known.address) {
            (Some(then), Some(now)) => then.distance_km(now) > MOVED_MAX_KM,
            _ => false,
        };
        if moved || !stored.is_sound(config) {
            return Placed::start(known, stored.system, config);
        }
        Placed::At(stored)
    }

    /// The coordinate, once there is one.
    pub fn coordinate(&self) -> Option<&Coordinate> {
        match self {
            Placed::At(coordinate) => Some(coordinate),
            Placed::Nowhere { .. } => None,
        }
    }

    /// Notes a round trip of a machine without a place; with the third it takes the place and
    /// height of the nearest peer, and the greatest error.
    pub fn note(&mut self, peer: &Coordinate, rtt_ms: f64, config: &Config) {
        let Placed::Nowhere { probes, nearest, system } = self else { return };
        if !config.believes(rtt_ms) || !peer.is_sound(config) {
            return;
        }
        *probes += 1;
        if nearest.is_none_or(|(least, ..)| rtt_ms < least) {
            *nearest = Some((rtt_ms, peer.position, peer.height_ms));
        }
        if let (Some((_, position, height_ms)), true) = (*nearest, *probes >= PROBES_TO_PLACE) {
            *self = Placed::At(Coordinate {
                position,
                height_ms: height_ms.max(config.height_min_ms),
                error: config.error_max,
                system: *system,
                updates: 0,
            });
        }
    }
}
