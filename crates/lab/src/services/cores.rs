//! Processors: whose threads compute, and for how long still.
//!
//! A processor is the cores of one replica or of a host. First come, first served: each thread that
//! is ready has a turn, and a free core takes the thread with the earliest turn among the replicas
//! that do not stand. Shared: all ready threads receive work at the same rate, at most one core
//! each. What a thread has received is counted for each replica from when it was last changed, so
//! that stopping a replica costs the same however many threads it has.

use super::network::{Discipline, Host};
use cavy_core::{Instant, Span};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The threads of one replica that share cores.
///
/// `received_ns` counts the work that a thread which was always ready would have received while the
/// replica did not stand: that of the processor less what was received by others meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharers {
    /// What the replica missed of the processor's work while it stood.
    missed_ns: f64,
    /// The processor's work when the replica stopped.
    stopped_at_ns: Option<f64>,
    /// (work received at the end as ordered bits, who), nearest first.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Sharers {
    pub(super) fn threads(&self) -> u32 {
        self.ends.len() as u32
    }

    fn received(&self, processor_ns: f64) -> f64 {
        self.stopped_at_ns.unwrap_or(processor_ns) - self.missed_ns
    }

    fn left(&self, processor_ns: f64) -> Option<f64> {
        let Reverse((end, _)) = self.ends.peek()?;
        Some((f64::from_bits(*end) - self.received(processor_ns)).max(0.0))
    }

    fn add(&mut self, visit: u32, work: Span, processor_ns: f64) {
        // Positive floats order as their bits do.
        let end = self.received(processor_ns) + work.as_ns() as f64;
        self.ends.push(Reverse((end.to_bits(), visit)));
    }

    fn take(&mut self, processor_ns: f64) -> Option<u32> {
        if self.left(processor_ns)? > 1e-3 {
            return None;
        }
        self.ends.pop().map(|Reverse((_, visit))| visit)
    }

    /// The replica stops or goes on.
    pub(super) fn stand(&mut self, stands: bool, processor_ns: f64) {
        match (stands, self.stopped_at_ns) {
            (true, None) => self.stopped_at_ns = Some(processor_ns),
            (false, Some(since)) => {
                self.missed_ns += processor_ns - since;
                self.stopped_at_ns = None;
            }
            _ => {}
        }
    }
}

/// Cores and who is on them.
#[derive(Debug)]
pub(super) struct Processor {
    pub(super) cores: u32,
    pub(super) discipline: Discipline,
    /// The replicas that compute here.
    pub(super) replicas: Vec<u32>,
    /// Visits on cores, first come, first served; spinning ones included.
    pub(super) on_core: Vec<u32>,
    /// Work that a thread which was always ready would have received, where threads share.
    pub(super) received_ns: f64,
    pub(super) updated: Instant,
    /// Threads that compute, where threads share: of replicas that do not stand.
    pub(super) sharing: u32,
    /// When the next of them is done.
    pub(super) due: Instant,
}

impl Processor {
    pub(super) fn new(host: Host) -> Self {
        Processor {
            cores: u32::from(host.cores),
            discipline: host.discipline,
            replicas: Vec::new(),
            on_core: Vec::new(),
            received_ns: 0.0,
            updated: Instant::ZERO,
            sharing: 0,
            due: Instant::NEVER,
        }
    }

    pub(super) fn shares(&self) -> bool {
        self.discipline == Discipline::Sharing
    }

    /// Work of each thread for each nanosecond.
    fn rate(&self) -> f64 {
        (f64::from(self.cores) / f64::from(self.sharing.max(1))).min(1.0)
    }

    /// Brings what threads have received up to `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) {
        if now == self.updated {
            return;
        }
        self.received_ns += now.since(self.updated).as_ns() as f64 * self.rate();
        self.updated = now;
    }

    /// What threads have received, where they share.
    #[inline]
    pub(super) fn received(&self) -> Option<f64> {
        self.shares().then_some(self.received_ns)
    }

    /// When work of `left_ns` is received.
    pub(super) fn when(&self, left_ns: f64) -> Instant {
        self.updated + Span::from_ns(libm::ceil(left_ns / self.rate()) as u64)
    }
}

/// Work that the first of `sharers` still needs.
pub(super) fn left(sharers: &Sharers, processor: &Processor) -> Option<f64> {
    sharers.left(processor.received_ns)
}

/// Adds a thread that needs `work`.
pub(super) fn add(sharers: &mut Sharers, processor: &Processor, visit: u32, work: Span) {
    sharers.add(visit, work, processor.received_ns);
}

/// Takes a thread out that has what it needs.
pub(super) fn take(sharers: &mut Sharers, processor: &Processor) -> Option<u32> {
    sharers.take(processor.received_ns)
}
