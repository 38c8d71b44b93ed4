//! Cores shared equally among busy slots, computed exactly in virtual work time.

use cavy_core::{Instant, Span};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Work each busy slot has received since the start, and when each slot will have had enough.
///
/// All busy slots advance at the same rate, so the order of completion is the order of (work
/// received at arrival + work needed): a heap in virtual time, whatever comes and goes.
#[derive(Clone, Debug)]
pub struct SharedCores {
    cores: u16,
    /// How much faster than in its service time a core runs a request.
    speed: f64,
    /// Nanoseconds of work every slot busy since the start would have received.
    received_ns: f64,
    updated: Instant,
    /// (target as ordered bits, slot), nearest first.
    targets: BinaryHeap<Reverse<(u64, u16)>>,
}

impl SharedCores {
    /// `cores` idle cores.
    pub fn new(cores: u16) -> Self {
        SharedCores {
            cores,
            speed: 1.0,
            received_ns: 0.0,
            updated: Instant::ZERO,
            targets: BinaryHeap::new(),
        }
    }

    /// Work per unit of time of each busy slot.
    fn rate(&self) -> f64 {
        let busy = self.targets.len().max(1) as f64;
        (f64::from(self.cores) / busy).min(1.0) * self.speed
    }

    fn advance(&mut self, now: Instant) {
        self.received_ns += now.since(self.updated).as_ns() as f64 * self.rate();
        self.updated = now;
    }

    /// `slot` needs `work` from now on.
    pub fn start(&mut self, slot: u16, work: Span, now: Instant) {
        self.advance(now);
        let target = self.received_ns + work.as_ns() as f64;
        // Positive floats order as their bits do.
        self.targets.push(Reverse((target.to_bits(), slot)));
    }

    /// Cores are so fast from now on.
    pub fn set_speed(&mut self, speed: f64, now: Instant) {
        self.advance(now);
        self.speed = speed;
    }

    /// `slot` is given up; returns the work that it would still have needed.
    pub fn stop(&mut self, slot: u16, now: Instant) -> Span {
        self.advance(now);
        let mut left_ns = 0.0;
        let received = self.received_ns;
        self.targets.retain(|Reverse((target, other))| {
            if *other == slot {
                left_ns = (f64::from_bits(*target) - received).max(0.0);
            }
            *other != slot
        });
        Span::from_ns(left_ns as u64)
    }

    /// When the next slot is done, if none comes or goes until then.
    pub fn next_end(&self) -> Option<Instant> {
        let Reverse((target, _)) = self.targets.peek()?;
        let left_ns = (f64::from_bits(*target) - self.received_ns).max(0.0) / self.rate();
        Some(self.updated + Span::from_ns(left_ns.ceil() as u64))
    }

    /// Takes out a slot that is done at `now`.
    pub fn take_done(&mut self, now: Instant) -> Option<u16> {
        self.advance(now);
        let Reverse((target, slot)) = *self.targets.peek()?;
        if f64::from_bits(target) > self.received_ns + 1e-3 {
            return None;
        }
        self.targets.pop();
        Some(slot)
    }
}
