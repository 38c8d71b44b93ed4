//! Requests that wait, first come first served.

use alloc::collections::VecDeque;
use cavy_core::Instant;
use cavy_core::family::cpu::{Kind, Req};

/// A request as a scheduler sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its name.
    pub req: Req,
    /// Its type, as registered; [`Kind::UNKNOWN`] for anything else.
    pub kind: Kind,
    /// When it arrived.
    pub arrived: Instant,
}

/// A bounded FIFO. Its memory grows to the longest backlog met and stays.
#[derive(Clone, Debug)]
pub struct Queue {
    jobs: VecDeque<Job>,
    limit: usize,
}

impl Queue {
    /// Entries a queue has room for before it must grow.
    const INITIAL: usize = 64;

    /// A queue that holds at most `limit` requests.
    pub fn new(limit: u32) -> Self {
        let limit = limit as usize;
        Queue { jobs: VecDeque::with_capacity(limit.min(Self::INITIAL)), limit }
    }

    /// Appends `job`; gives it back when the queue is full ([persephone 2.5]).
    #[inline]
    pub fn push(&mut self, job: Job) -> Result<(), Job> {
        if self.jobs.len() >= self.limit {
            return Err(job);
        }
        self.jobs.push_back(job);
        Ok(())
    }

    /// Appends `job` whatever the limit: for requests that were admitted before, such as preempted
    /// ones.
    #[inline]
    pub fn push_admitted(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    /// The oldest.
    #[inline]
    pub fn head(&self) -> Option<&Job> {
        self.jobs.front()
    }

    /// The second oldest, whose delay DARC watches ([persephone 2.7]).
    #[inline]
    pub fn second(&self) -> Option<&Job> {
        self.jobs.get(1)
    }

    /// How many wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// True when nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}
