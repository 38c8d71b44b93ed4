//! Shinjuku: a central dispatcher that preempts whoever runs longer than a slice
//! ([persephone 3.6]).
//!
//! The slice ends whether or not anybody waits: that is the mechanism's cost at low load, and the
//! original pays it too. What a preemption costs is charged by the world.

use crate::machine::{Admission, Discipline, Start};
use crate::queue::{Job, Queue};
use crate::workers::Pool;
use alloc::vec::Vec;
use cavy_core::family::cpu::Worker;
use cavy_core::{Instant, Span, Stream};

/// Time slices over one queue or over one queue per type.
#[derive(Clone, Debug)]
pub struct Slicing {
    slice: Span,
    /// One queue, or index 0 for unknown types and one per type.
    queues: Vec<Queue>,
    /// Latency objective of each queue; the queue whose head has used up the largest share of its
    /// objective goes first. Empty with a single queue.
    objectives: Vec<Span>,
    waiting: usize,
}

impl Slicing {
    /// One FIFO for all types (cPRESQ).
    pub fn single_queue(slice: Span, queue_limit: u32) -> Self {
        let queues = alloc::vec![Queue::new(queue_limit)];
        Slicing { slice, queues, objectives: Vec::new(), waiting: 0 }
    }

    /// One queue per type with one latency objective each (cPREMQ). Unknown types take the largest
    /// objective.
    pub fn multi_queue(slice: Span, queue_limit: u32, objectives: &[Span]) -> Self {
        let largest = objectives.iter().copied().max().unwrap_or(Span::from_ns(1));
        let objectives: Vec<Span> =
            core::iter::once(largest).chain(objectives.iter().copied()).collect();
        let queues = objectives.iter().map(|_| Queue::new(queue_limit)).collect();
        Slicing { slice, queues, objectives, waiting: 0 }
    }

    #[inline]
    fn queue_of(&self, job: &Job) -> usize {
        if self.objectives.is_empty() { 0 } else { job.kind.0 as usize }
    }

    /// The queue whose head has waited the largest multiple of its objective; the first wins ties.
    fn pick(&self, now: Instant) -> usize {
        let mut best = 0;
        let mut best_ratio = None;
        for (index, queue) in self.queues.iter().enumerate() {
            let Some(head) = queue.head() else { continue };
            let waited = u128::from(now.since(head.arrived).as_ns());
            let objective = self.objectives.get(index).map_or(1, |o| u128::from(o.as_ns().max(1)));
            // waited / objective, compared exactly by cross-multiplication.
            let larger =
                best_ratio.is_none_or(|(most, per): (u128, u128)| waited * per > most * objective);
            if larger {
                best = index;
                best_ratio = Some((waited, objective));
            }
        }
        best
    }
}

impl Discipline for Slicing {
    #[inline]
    fn admit(&mut self, job: Job, pool: &Pool, _: &mut Stream) -> Admission {
        if let Some(worker) = pool.free().first() {
            return Admission::Run { worker, stolen: false };
        }
        let queue = self.queue_of(&job);
        match self.queues[queue].push(job) {
            Ok(()) => {
                self.waiting += 1;
                Admission::Queued
            }
            Err(_) => Admission::Full,
        }
    }

    #[inline]
    fn next(&mut self, _: Worker, _: &Pool, now: Instant, _: &mut Stream) -> Option<Start> {
        if self.waiting == 0 {
            return None;
        }
        let queue = self.pick(now);
        let job = self.queues[queue].pop()?;
        self.waiting -= 1;
        Some(Start { job, stolen: false })
    }

    #[inline]
    fn slice(&self) -> Option<Span> {
        Some(self.slice)
    }

    /// To the tail of its queue, with its original arrival time.
    #[inline]
    fn requeue(&mut self, job: Job, _: Worker) {
        let queue = self.queue_of(&job);
        self.queues[queue].push_admitted(job);
        self.waiting += 1;
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn could_run(&self, _: Worker, _: &Pool) -> bool {
        self.waiting > 0
    }
}
