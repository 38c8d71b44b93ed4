//! One queue per type, any worker, no preemption: fixed priority, SJF and EDF
//! ([persephone 3.3, 3.4]).

use crate::machine::{Admission, Discipline, Start};
use crate::queue::{Job, Queue};
use crate::workers::Pool;
use alloc::vec::Vec;
use cavy_core::family::cpu::Worker;
use cavy_core::{Instant, Span, Stream};

/// Which queue goes first.
#[derive(Clone, Debug)]
pub enum Order {
    /// Types in the order in which they were registered, as the artifact's SJF does.
    Fixed,
    /// Types by ascending mean service time as measured so far; until a type has been seen, by its
    /// hint.
    Shortest(Shortest),
    /// The head with the earliest deadline: arrival plus the relative deadline of its type.
    Deadline(Vec<Span>),
}

/// Types ranked by measured mean.
#[derive(Clone, Debug)]
pub struct Shortest {
    /// (sum of service times, count) of each type.
    seen: Vec<(u64, u64)>,
    /// Mean in ns, hinted until the first completion.
    means: Vec<u64>,
    /// Type indices by ascending mean.
    ranked: Vec<usize>,
}

impl Shortest {
    /// Starts from `hints`, one mean per type.
    pub fn new(hints: &[Span]) -> Self {
        let means: Vec<u64> = hints.iter().map(|hint| hint.as_ns()).collect();
        let mut ranked: Vec<usize> = (0..means.len()).collect();
        ranked.sort_by_key(|&kind| means[kind]);
        Shortest { seen: alloc::vec![(0, 0); means.len()], means, ranked }
    }

    fn observe(&mut self, kind: usize, service: Span) {
        let (sum, count) = &mut self.seen[kind];
        *sum = sum.saturating_add(service.as_ns());
        *count += 1;
        let mean = *sum / *count;
        if mean != self.means[kind] {
            self.means[kind] = mean;
            let means = &self.means;
            self.ranked.sort_by_key(|&kind| means[kind]);
        }
    }
}

/// Typed queues in front of one pool. Requests of unknown type wait in a queue of their own, which
/// goes last.
#[derive(Clone, Debug)]
pub struct Priority {
    /// Index 0 is the queue of unknown type.
    queues: Vec<Queue>,
    order: Order,
    waiting: usize,
}

impl Priority {
    /// Queues for `kinds` types, each holding at most `queue_limit`.
    pub fn new(kinds: u16, queue_limit: u32, order: Order) -> Self {
        let queues = (0..=kinds).map(|_| Queue::new(queue_limit)).collect();
        Priority { queues, order, waiting: 0 }
    }

    fn pick(&self) -> Option<usize> {
        let known = 1..self.queues.len();
        let waits = |kind: &usize| !self.queues[*kind].is_empty();
        let first = match &self.order {
            Order::Fixed => known.into_iter().find(waits),
            Order::Shortest(shortest) => shortest.ranked.iter().map(|kind| kind + 1).find(waits),
            Order::Deadline(deadlines) => known
                .filter(waits)
                .filter_map(|kind| {
                    let head = self.queues[kind].head()?;
                    Some((head.arrived + deadlines[kind - 1], kind))
                })
                .min()
                .map(|(_, kind)| kind),
        };
        first.or_else(|| (!self.queues[0].is_empty()).then_some(0))
    }
}

impl Discipline for Priority {
    #[inline]
    fn admit(&mut self, job: Job, pool: &Pool, _: &mut Stream) -> Admission {
        if let Some(worker) = pool.free().first() {
            return Admission::Run { worker, stolen: false };
        }
        match self.queues[job.kind.0 as usize].push(job) {
            Ok(()) => {
                self.waiting += 1;
                Admission::Queued
            }
            Err(_) => Admission::Full,
        }
    }

    #[inline]
    fn next(&mut self, _: Worker, _: &Pool, _: Instant, _: &mut Stream) -> Option<Start> {
        if self.waiting == 0 {
            return None;
        }
        let job = self.pick().and_then(|kind| self.queues[kind].pop())?;
        self.waiting -= 1;
        Some(Start { job, stolen: false })
    }

    fn finished(&mut self, job: Job, occupied: Span, service: Option<Span>, _: Instant) {
        if let (Order::Shortest(shortest), 1..) = (&mut self.order, job.kind.0) {
            shortest.observe(job.kind.0 as usize - 1, service.unwrap_or(occupied));
        }
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn could_run(&self, _: Worker, _: &Pool) -> bool {
        self.waiting > 0
    }
}
