//! c-FCFS: one queue, any worker ([persephone 3.2]).

use crate::machine::{Admission, Discipline, Start};
use crate::queue::{Job, Queue};
use crate::workers::Pool;
use cavy_core::family::cpu::Worker;
use cavy_core::{Instant, Stream};

/// One FIFO in front of all workers; the lowest free worker takes the head.
#[derive(Clone, Debug)]
pub struct Central {
    queue: Queue,
}

impl Central {
    /// At most `queue_limit` requests wait.
    pub fn new(queue_limit: u32) -> Self {
        Central { queue: Queue::new(queue_limit) }
    }
}

impl Discipline for Central {
    #[inline]
    fn admit(&mut self, job: Job, pool: &Pool, _: &mut Stream) -> Admission {
        if let Some(worker) = pool.free().first() {
            return Admission::Run { worker, stolen: false };
        }
        match self.queue.push(job) {
            Ok(()) => Admission::Queued,
            Err(_) => Admission::Full,
        }
    }

    #[inline]
    fn next(&mut self, _: Worker, _: &Pool, _: Instant, _: &mut Stream) -> Option<Start> {
        self.queue.pop().map(|job| Start { job, stolen: false })
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn could_run(&self, _: Worker, _: &Pool) -> bool {
        !self.queue.is_empty()
    }
}
