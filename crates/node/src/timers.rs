//! The timers of one machine.

use cavy_core::Instant;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(crate) struct Timers<T> {
    deadlines: BTreeMap<T, Instant>,
    order: BTreeSet<(Instant, T)>,
}

impl<T: Copy + Ord> Timers<T> {
    pub fn new() -> Self {
        Timers { deadlines: BTreeMap::new(), order: BTreeSet::new() }
    }

    pub fn arm(&mut self, timer: T, at: Instant) {
        self.disarm(timer);
        if at != Instant::NEVER {
            self.deadlines.insert(timer, at);
            self.order.insert((at, timer));
        }
    }

    pub fn disarm(&mut self, timer: T) {
        if let Some(at) = self.deadlines.remove(&timer) {
            self.order.remove(&(at, timer));
        }
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes the timer that fires next: the earliest, by name among equals.
    pub fn take(&mut self) -> Option<T> {
        let (_, timer) = self.order.pop_first()?;
        self.deadlines.remove(&timer);
        Some(timer)
    }
}
