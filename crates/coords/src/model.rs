//! The coordinate of a machine, what it predicts, and how a measurement moves it
//! ([htrae 2.1, 2.7]).
//!
//! Predicting is a function of two coordinates. Learning is a function of one's own coordinate, the
//! peer's as it was *before* it learnt from the same probe, and the round-trip time.

use crate::config::{Config, Planted};
use crate::sphere::Point;
use cavy_core::Stream;

/// Where a machine lies: a place on the globe, and the height above it that every path of the
/// machine climbs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Coordinate {
    /// Place on the sphere. It begins where the address is said to be, and moves.
    pub position: Point,
    /// Height in milliseconds, at least [`Config::height_min_ms`].
    pub height_ms: f64,
    /// How wrong predictions from here have been, relative, in `(0, error_max]`.
    pub error: f64,
    /// Number of the autonomous system within which heights are corrected; 0 when unknown or too
    /// large ([htrae 2.6]; [`crate::systems`] decides).
    pub system: u32,
    /// Measurements learnt from.
    pub updates: u32,
}

/// What came of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Learnt {
    /// The coordinate moved.
    Moved,
    /// The measurement looks like a detour: height and error were updated, the position was not
    /// ([htrae 2.7]).
    Suspect,
    /// The measurement or the peer's coordinate is none: nothing changed.
    Refused,
}

impl Coordinate {
    /// The coordinate of a machine that is said to be at `position` ([htrae 2.1]).
    pub fn at(position: Point, system: u32, config: &Config) -> Coordinate {
        let height_ms = (config.line.base_ms * config.height_start_ratio).max(config.height_min_ms);
        Coordinate { position, height_ms, error: config.error_start, system, updates: 0 }
    }

    /// Is every part in its range? A peer may say anything.
    pub fn is_sound(&self, config: &Config) -> bool {
        let square: f64 = self.position.vector().iter().map(|part| part * part).sum();
        let height = self.height_ms >= 0.0 && self.height_ms <= config.rtt_max_ms;
        (square - 1.0).abs() < 1e-6 && height && self.error > 0.0 && self.error.is_finite()
    }
}

/// The predicted round-trip time in milliseconds, the same to the bit from either end ([htrae
/// 2.2]).
#[inline]
pub fn predict_ms(a: &Coordinate, b: &Coordinate, config: &Config) -> f64 {
    let apart = config.line.ms_per_radian() * a.position.angle(b.position);
    let heights = a.height_ms + b.height_ms;
    let same = a.system != 0 && a.system == b.system;
    apart + if same { config.same_system_factor * heights } else { heights }
}

/// The predictions of many pairs, by the numbers of both ends in `machines`, in order. Coordinates
/// of several pairs are fetched before the first of them is predicted, so that among millions it
/// takes half as long as one by one: most of that is waiting for memory.
///
/// # Panics
/// When a pair names a machine that is not there.
pub fn predict_each(
    machines: &[Coordinate],
    pairs: &[(u32, u32)],
    config: &Config,
    mut each: impl FnMut(f64),
) {
    const AHEAD: usize = 16;
    let Some(any) = machines.first() else {
        assert!(pairs.is_empty(), "pairs of no machines");
        return;
    };
    let mut fetched = [(*any, *any); AHEAD];
    for some in pairs.chunks(AHEAD) {
        for (fetched, (a, b)) in fetched.iter_mut().zip(some) {
            *fetched = (machines[*a as usize], machines[*b as usize]);
        }
        fetched[..some.len()].iter().for_each(|(a, b)| each(predict_ms(a, b, config)));
    }
}

/// Lets `own` learn that a round trip to a machine with the coordinate `peer` took `rtt_ms` ([htrae
/// 2.4]).
///
/// The correction for systems is left out here: it would teach heights that only hold towards
/// neighbours.
pub fn update(
    own: &mut Coordinate,
    peer: &Coordinate,
    rtt_ms: f64,
    config: &Config,
    rng: &mut Stream,
) -> Learnt {
    if !config.believes(rtt_ms) || !peer.is_sound(config) {
        return Learnt::Refused;
    }
    let scale = config.line.ms_per_radian();
    let angle = own.position.angle(peer.position);
    let apart = scale * angle;
    let heights = own.height_ms + peer.height_ms;
    let estimate = apart + heights;
    let suspect = config.detours.is_some_and(|rule| rule.suspects(rtt_ms, estimate, own.updates));

    let weight = own.error / (own.error + peer.error);
    let wrong = (estimate - rtt_ms).abs() / rtt_ms;
    let gain = config.error_gain * weight;
    own.error = (wrong * gain + own.error * (1.0 - gain)).clamp(config.error_min, config.error_max);

    // The force has a part along the sphere and a part upwards, by their shares of the estimate.
    let step_ms = config.move_gain(own.updates) * weight * (rtt_ms - estimate);
    let step_ms = step_ms.clamp(-config.step_max_ms, config.step_max_ms);
    if !suspect {
        let radians = step_ms * (apart / estimate) / scale;
        let radians = radians.clamp(-angle, core::f64::consts::PI - angle);
        let rotated = own.position.rotated(peer.position, angle, radians, rng);
        own.position = match config.planted {
            Some(Planted::NotNormalized) => rotated,
            _ => rotated.and_then(Point::normalized),
        }
        .unwrap_or(own.position);
    }
    let height_ms = own.height_ms + step_ms * (heights / estimate);
    own.height_ms = height_ms.clamp(config.height_min_ms, config.rtt_max_ms);
    own.updates = own.updates.saturating_add(1);
    if suspect { Learnt::Suspect } else { Learnt::Moved }
}
