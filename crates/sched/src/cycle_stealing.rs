//! CSCQ, cycle stealing with a central queue ([persephone 3.5]): two classes of workers, each of
//! which prefers its own class of requests and takes the other's rather than idle.

use crate::machine::{Admission, Discipline, Start};
use crate::queue::{Job, Queue};
use crate::workers::{Pool, WORKERS_MAX, WorkerSet};
use cavy_core::family::cpu::{Kind, Worker};
use cavy_core::{Instant, Stream};

/// The first type is short, all others are long; workers `0..short_workers` prefer shorts.
#[derive(Clone, Debug)]
pub struct CycleStealing {
    short: Queue,
    long: Queue,
    short_workers: u16,
    prefer_short: WorkerSet,
    prefer_long: WorkerSet,
}

impl CycleStealing {
    /// At most `queue_limit` requests wait in each of the two queues.
    pub fn new(short_workers: u16, queue_limit: u32) -> Self {
        CycleStealing {
            short: Queue::new(queue_limit),
            long: Queue::new(queue_limit),
            short_workers,
            prefer_short: WorkerSet::range(0, short_workers.min(WORKERS_MAX)),
            prefer_long: WorkerSet::range(short_workers, WORKERS_MAX),
        }
    }
}

impl Discipline for CycleStealing {
    fn admit(&mut self, job: Job, pool: &Pool, _: &mut Stream) -> Admission {
        let is_short = job.kind == Kind(1);
        let own = if is_short { &self.prefer_short } else { &self.prefer_long };
        if let Some(worker) = pool.free().first_common(own) {
            return Admission::Run { worker, stolen: false };
        }
        if let Some(worker) = pool.free().first() {
            return Admission::Run { worker, stolen: true };
        }
        let queue = if is_short { &mut self.short } else { &mut self.long };
        match queue.push(job) {
            Ok(()) => Admission::Queued,
            Err(_) => Admission::Full,
        }
    }

    fn next(&mut self, worker: Worker, _: &Pool, _: Instant, _: &mut Stream) -> Option<Start> {
        let prefers_short = worker.0 < self.short_workers;
        let (own, other) = if prefers_short {
            (&mut self.short, &mut self.long)
        } else {
            (&mut self.long, &mut self.short)
        };
        let own = own.pop().map(|job| Start { job, stolen: false });
        own.or_else(|| other.pop().map(|job| Start { job, stolen: true }))
    }

    fn waiting(&self) -> usize {
        self.short.len() + self.long.len()
    }

    fn could_run(&self, _: Worker, _: &Pool) -> bool {
        self.waiting() > 0
    }
}
