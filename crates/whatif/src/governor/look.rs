//! When to read usage next while nobody stands.
//!
//! A reading takes processor time from who is measured: about 40 us on a virtual machine of two
//! cores, most of it for waking up. Most readings find that no pause is due yet. So the next one is
//! asked for when the debt will be long enough if the target goes on as it did.

use super::config::{Change, Config};
use cavy_core::{Instant, Span};

#[derive(Clone, Debug)]
pub(super) struct Look {
    tick: Span,
    /// No time between two readings is longer; not above `tick` where each tick is read.
    longest: Span,
    /// How often is read now.
    every: Span,
    /// CPU time of the target for each unit of time, while nobody stood.
    pace: f64,
}

impl Look {
    pub(super) fn new(config: &Config) -> Look {
        let (tick, longest) = (config.limits.tick, config.limits.look_max);
        let single = match &config.targets[..] {
            [one] => {
                let reads = !matches!(one.change, Change::Count { .. });
                one.groups.len() == 1 && reads && !one.change.slows()
            }
            _ => false,
        };
        let longest = if single && config.hosts == 0 { longest } else { Span::ZERO };
        Look { tick, longest, every: tick, pace: 1.0 }
    }

    /// Are there readings that come later than after a tick?
    pub(super) fn is_ahead(&self) -> bool {
        self.longest > self.tick
    }

    /// The target got `cpu` in a time in which nobody stood.
    pub(super) fn saw(&mut self, passed: Span, cpu: Span) {
        if !passed.is_zero() {
            self.pace = (self.pace + cpu.as_ns() as f64 / passed.as_ns() as f64) / 2.0;
        }
    }

    /// When it surely worked last, if it used `cpu` between two readings: after a short time it
    /// may have worked until now.
    pub(super) fn worked_until(&self, from: Instant, to: Instant, cpu: Span) -> Instant {
        if self.is_ahead() && to.since(from) > self.tick * 2 && from + cpu < to {
            return from + cpu;
        }
        to
    }

    /// How long until a debt that lacks `left_ns` is long enough, when it grows by `growth` for
    /// each unit of CPU time.
    pub(super) fn next(&self, left_ns: f64, growth: f64) -> Span {
        let ns = left_ns / (growth * self.pace);
        // Not a number, or never: the longest.
        let span = if ns.is_finite() { Span::from_ns(ns.max(0.0) as u64) } else { self.longest };
        span.clamp(self.tick, self.longest)
    }

    /// Reads so often from now on; false when it does already.
    pub(super) fn changes_to(&mut self, every: Span) -> bool {
        core::mem::replace(&mut self.every, every) != every
    }
}
