//! What no predictor can fall below or rise above: chance, and knowing everything ([htrae 3.8,
//! 3.9]).

use super::{Predictor, Probe};
use alloc::vec::Vec;
use cavy_core::{Digest, Instant, Stream};

/// Says of every pair one of the round trips that were seen, drawn anew for each pair.
#[derive(Clone, PartialEq, Debug)]
pub struct Chance {
    salt: u64,
    seen_ms: Vec<f64>,
}

impl Chance {
    /// Draws by `salt`.
    pub fn new(salt: u64) -> Self {
        Chance { salt, seen_ms: Vec::new() }
    }
}

impl Predictor for Chance {
    fn predict_ms(&self, from: u32, to: u32, _: Instant) -> Option<f64> {
        let mut draw = Digest::new();
        for word in [self.salt, u64::from(from), u64::from(to)] {
            draw.fold(word);
        }
        let index = draw.value().checked_rem(self.seen_ms.len() as u64)?;
        self.seen_ms.get(index as usize).copied()
    }

    fn learn(&mut self, probe: &Probe, _: &mut Stream) {
        if probe.makes_sense() {
            self.seen_ms.push(probe.rtt_ms);
        }
    }
}

/// Knows every round trip.
#[derive(Clone, PartialEq, Debug)]
pub struct Oracle<F> {
    rtt_ms: F,
}

impl<F: Fn(u32, u32) -> Option<f64>> Oracle<F> {
    /// Looks them up in `rtt_ms`.
    pub fn new(rtt_ms: F) -> Self {
        Oracle { rtt_ms }
    }
}

impl<F: Fn(u32, u32) -> Option<f64>> Predictor for Oracle<F> {
    fn predict_ms(&self, from: u32, to: u32, _: Instant) -> Option<f64> {
        (self.rtt_ms)(from, to)
    }

    fn learn(&mut self, _: &Probe, _: &mut Stream) {}
}
