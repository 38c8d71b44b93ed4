//! The fingerprint of a run, with marks along the way, so that two runs which differ can be told
//! where they part.

use cavy_core::{Digest, Instant};

/// Marks kept; when they are full every other one is dropped.
const MARKS: usize = 1024;

/// A rolling digest and its value at regular steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Trail {
    digest: Digest,
    events: u64,
    /// Events between marks.
    every: u64,
    /// Number of the event at which the next mark is due.
    next_mark: u64,
    marks: Vec<Waypoint>,
}

/// The digest after so many events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waypoint {
    /// Events so far.
    pub events: u64,
    /// Time of the last of them.
    pub at: Instant,
    /// Fingerprint so far.
    pub digest: u64,
}

impl Default for Trail {
    fn default() -> Self {
        Self::new()
    }
}

impl Trail {
    /// The trail of nothing.
    pub fn new() -> Self {
        Trail { digest: Digest::new(), events: 0, every: 1024, next_mark: 1024, marks: Vec::new() }
    }

    /// Adds an event.
    #[inline]
    pub fn fold(&mut self, at: Instant, what: u64) {
        self.digest.fold(at.as_ns().rotate_left(20) ^ what);
        self.events += 1;
        if self.events == self.next_mark {
            self.mark(at);
        }
    }

    #[cold]
    fn mark(&mut self, at: Instant) {
        if self.marks.len() == MARKS {
            self.every *= 2;
            let every = self.every;
            self.marks.retain(|mark| mark.events.is_multiple_of(every));
        }
        self.next_mark = (self.events / self.every + 1) * self.every;
        if !self.events.is_multiple_of(self.every) {
            return;
        }
        self.marks.push(Waypoint { events: self.events, at, digest: self.digest.value() });
    }

    /// Fingerprint of all events.
    pub fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The stretch in which `self` and `other` first differ: the last waypoint at which they agree
    /// and the first at which they do not (`None` when that is the end). `None` when they agree.
    pub fn parts_from(&self, other: &Trail) -> Option<(Option<Waypoint>, Option<Waypoint>)> {
        if self.digest == other.digest && self.events == other.events {
            return None;
        }
        let mut agreed = None;
        for mark in &self.marks {
            match other.marks.iter().find(|theirs| theirs.events == mark.events) {
                Some(theirs) if theirs == mark => agreed = Some(*mark),
                _ => return Some((agreed, Some(*mark))),
            }
        }
        Some((agreed, None))
    }
}
