//! Sets of workers, and who runs what.

use crate::queue::Job;
use alloc::vec::Vec;
use cavy_core::Instant;
use cavy_core::family::cpu::Worker;

const WORDS: usize = 4;

/// The most workers a policy schedules; slots of processor sharing are not workers in this sense.
pub const WORKERS_MAX: u16 = (WORDS * 64) as u16;

/// A set of workers. Iteration and [`WorkerSet::first`] go by ascending number, which is the order
/// of every worker list in the specification ([persephone 2.8]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerSet([u64; WORDS]);

impl WorkerSet {
    /// Nobody.
    pub const EMPTY: WorkerSet = WorkerSet([0; WORDS]);

    /// Workers `from..to`.
    pub fn range(from: u16, to: u16) -> Self {
        let below = |limit: u16| {
            let mut set = Self::EMPTY;
            for (index, word) in set.0.iter_mut().enumerate() {
                let bits = (limit as usize).saturating_sub(index * 64).min(64);
                *word = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            }
            set
        };
        let (mut set, low) = (below(to), below(from));
        for (word, low) in set.0.iter_mut().zip(&low.0) {
            *word &= !low;
        }
        set
    }

    /// Adds one.
    #[inline]
    pub fn insert(&mut self, worker: Worker) {
        self.0[(worker.0 >> 6) as usize & (WORDS - 1)] |= 1 << (worker.0 & 63);
    }

    /// Takes one out.
    #[inline]
    pub fn remove(&mut self, worker: Worker) {
        self.0[(worker.0 >> 6) as usize & (WORDS - 1)] &= !(1 << (worker.0 & 63));
    }

    /// Is it in?
    #[inline]
    pub fn contains(&self, worker: Worker) -> bool {
        self.0[(worker.0 >> 6) as usize & (WORDS - 1)] >> (worker.0 & 63) & 1 == 1
    }

    /// The lowest worker in both sets.
    #[inline]
    pub fn first_common(&self, other: &WorkerSet) -> Option<Worker> {
        for (index, (a, b)) in self.0.iter().zip(&other.0).enumerate() {
            let both = a & b;
            if both != 0 {
                return Some(Worker((index * 64) as u16 + both.trailing_zeros() as u16));
            }
        }
        None
    }

    /// The lowest worker.
    #[inline]
    pub fn first(&self) -> Option<Worker> {
        self.first_common(self)
    }

    /// Those in either set.
    pub fn union(&self, other: &WorkerSet) -> WorkerSet {
        let mut set = *self;
        for (a, b) in set.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
        set
    }

    /// How many.
    #[inline]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Nobody in it?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// All, by ascending number.
    pub fn iter(&self) -> impl Iterator<Item = Worker> + '_ {
        (0..WORKERS_MAX).map(Worker).filter(|&worker| self.contains(worker))
    }
}

/// What a worker runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// The request.
    pub job: Job,
    /// When it was handed over: the dispatch stamp of [persephone 2.6].
    pub since: Instant,
}

/// The workers of one server: who is free, who runs what.
#[derive(Clone, Debug)]
pub struct Pool {
    count: u16,
    free: WorkerSet,
    running: Vec<Option<Running>>,
}

impl Pool {
    /// `count` free workers, between 1 and [`WORKERS_MAX`].
    pub fn new(count: u16) -> Self {
        assert!((1..=WORKERS_MAX).contains(&count), "{count} workers");
        Pool {
            count,
            free: WorkerSet::range(0, count),
            running: alloc::vec![None; WORKERS_MAX as usize],
        }
    }

    /// Workers that may start requests, numbered from 0.
    #[inline]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Those with nothing to do.
    #[inline]
    pub fn free(&self) -> &WorkerSet {
        &self.free
    }

    /// What `worker` runs.
    #[inline]
    pub fn running(&self, worker: Worker) -> Option<&Running> {
        self.running.get(worker.0 as usize)?.as_ref()
    }

    /// Marks `worker` busy with `job`.
    #[inline]
    pub(crate) fn occupy(&mut self, worker: Worker, job: Job, now: Instant) {
        debug_assert!(self.free.contains(worker), "{worker:?} is not free");
        self.free.remove(worker);
        self.running[worker.0 as usize] = Some(Running { job, since: now });
    }

    /// Marks `worker` free and returns what it ran; `None` when it ran nothing, which a peer's
    /// duplicate notice may claim.
    #[inline]
    pub(crate) fn release(&mut self, worker: Worker) -> Option<Running> {
        let ran = self.running.get_mut(worker.0 as usize)?.take()?;
        if worker.0 < self.count {
            self.free.insert(worker);
        }
        Some(ran)
    }

    /// Changes the number of workers; those above finish what they run and are then gone.
    pub(crate) fn resize(&mut self, count: u16) {
        let count = count.clamp(1, WORKERS_MAX);
        for worker in (0..WORKERS_MAX).map(Worker) {
            if worker.0 < count && self.running[worker.0 as usize].is_none() {
                self.free.insert(worker);
            } else {
                self.free.remove(worker);
            }
        }
        self.count = count;
    }

    /// Asserts that a worker is free exactly when it exists and runs nothing.
    pub(crate) fn check(&self) {
        for worker in (0..WORKERS_MAX).map(Worker) {
            let idle = worker.0 < self.count && self.running[worker.0 as usize].is_none();
            assert_eq!(self.free.contains(worker), idle, "{worker:?} of {}", self.count);
        }
    }
}
