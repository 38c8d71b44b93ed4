//! d-FCFS: a queue per worker, without or with stealing ([persephone 3.1, 3.7]); with requests that
//! join the shortest queue as well.

use crate::machine::{Admission, Discipline, Start};
use crate::queue::{Job, Queue};
use crate::workers::{Pool, WorkerSet};
use alloc::vec::Vec;
use cavy_core::family::cpu::Worker;
use cavy_core::{Instant, Stream};

/// Which worker's queue a request joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Steering {
    /// Request i goes to worker i mod N, as Perséphone's own d-FCFS does.
    RoundRobin,
    /// A uniform, independent choice: receive-side scaling with many flows.
    Random,
    /// Receive-side scaling with this many flows, each on a worker of its own: only that many
    /// workers receive. The best case for the baseline; hash collisions would leave it fewer.
    Flows(u16),
    /// The queue with the fewest requests, the one that runs included; of several such queues each
    /// is as likely (JSQ).
    Shortest,
    /// The same among this many queues, each drawn at random from all (JSQ(d); Mitzenmacher, and
    /// Vvedenskaya, Dobrushin and Karpelevich). Of equal ones the one that was drawn first.
    ShortestOf(u16),
}

/// Queues per worker.
#[derive(Clone, Debug)]
pub struct Distributed {
    /// Of all workers that there ever were.
    queues: Vec<Queue>,
    queue_limit: u32,
    steering: Steering,
    stealing: bool,
    /// Next worker of round robin.
    turn: u16,
    /// Workers whose queue is not empty.
    loaded: WorkerSet,
    waiting: usize,
}

impl Distributed {
    /// At most `queue_limit` requests wait at each of `workers` workers. With `stealing`, an idle
    /// worker takes half of the first non-empty queue that it finds from a random start.
    pub fn new(workers: u16, queue_limit: u32, steering: Steering, stealing: bool) -> Self {
        Distributed {
            queues: (0..workers).map(|_| Queue::new(queue_limit)).collect(),
            queue_limit,
            steering,
            stealing,
            turn: 0,
            loaded: WorkerSet::EMPTY,
            waiting: 0,
        }
    }

    fn home(&mut self, pool: &Pool, rng: &mut Stream) -> Worker {
        let workers = pool.count();
        match self.steering {
            Steering::RoundRobin => {
                // Reset, not wrapped at 256: the artifact's 8-bit counter is defect D9.
                let worker = if self.turn < workers { self.turn } else { 0 };
                self.turn = worker + 1;
                Worker(worker)
            }
            Steering::Random => Worker(rng.below(u64::from(workers)) as u16),
            Steering::Flows(flows) => {
                let flow = rng.below(u64::from(flows)) as u16;
                Worker(flow % workers)
            }
            Steering::Shortest => {
                // A free worker has nobody, so the free ones are the shortest if there are any.
                let free = pool.free().len();
                if free > 0 {
                    let place = rng.below(u64::from(free)) as usize;
                    return pool.free().iter().nth(place).unwrap_or(Worker(0));
                }
                let all = || (0..workers).map(Worker);
                let least = all().map(|worker| self.present(worker, pool)).min().unwrap_or(0);
                let shortest = || all().filter(|&worker| self.present(worker, pool) == least);
                let place = rng.below(shortest().count() as u64) as usize;
                shortest().nth(place).unwrap_or(Worker(0))
            }
            Steering::ShortestOf(choices) => {
                let mut best = Worker(rng.below(u64::from(workers)) as u16);
                for _ in 1..choices {
                    let other = Worker(rng.below(u64::from(workers)) as u16);
                    if self.present(other, pool) < self.present(best, pool) {
                        best = other;
                    }
                }
                best
            }
        }
    }

    /// Requests at `worker`, the one that runs included.
    fn present(&self, worker: Worker, pool: &Pool) -> usize {
        self.queues[worker.0 as usize].len() + usize::from(pool.running(worker).is_some())
    }

    #[inline]
    fn pop(&mut self, worker: Worker) -> Option<Job> {
        let queue = &mut self.queues[worker.0 as usize];
        let job = queue.pop()?;
        if queue.is_empty() {
            self.loaded.remove(worker);
        }
        self.waiting -= 1;
        Some(job)
    }

    /// Moves half of a victim's queue, rounded up, to `thief` and returns the oldest of it.
    fn steal(&mut self, thief: Worker, workers: u16, rng: &mut Stream) -> Option<Job> {
        let start = Worker(rng.below(u64::from(workers)) as u16);
        let victim = self.loaded.first_from(start).or_else(|| self.loaded.first())?;
        let take = self.queues[victim.0 as usize].len().div_ceil(2);
        let first = self.pop(victim)?;
        for _ in 1..take {
            let Some(job) = self.queues[victim.0 as usize].pop() else { break };
            self.queues[thief.0 as usize].push_admitted(job);
            self.loaded.insert(thief);
        }
        if self.queues[victim.0 as usize].is_empty() {
            self.loaded.remove(victim);
        }
        Some(first)
    }
}

impl Discipline for Distributed {
    #[inline]
    fn admit(&mut self, job: Job, pool: &Pool, rng: &mut Stream) -> Admission {
        let home = self.home(pool, rng);
        if pool.free().contains(home) {
            return Admission::Run { worker: home, stolen: false };
        }
        if self.stealing
            && let Some(worker) = pool.free().first()
        {
            return Admission::Run { worker, stolen: true };
        }
        match self.queues[home.0 as usize].push(job) {
            Ok(()) => {
                self.loaded.insert(home);
                self.waiting += 1;
                Admission::Queued
            }
            Err(_) => Admission::Full,
        }
    }

    #[inline]
    fn next(&mut self, worker: Worker, pool: &Pool, _: Instant, rng: &mut Stream) -> Option<Start> {
        if let Some(job) = self.pop(worker) {
            return Some(Start { job, stolen: false });
        }
        if !self.stealing || self.waiting == 0 {
            return None;
        }
        self.steal(worker, pool.count(), rng).map(|job| Start { job, stolen: true })
    }

    /// Requests at workers that are gone join the others in turn, whatever their limit: they were
    /// admitted.
    fn resized(&mut self, pool: &Pool, _: Instant) -> Option<u32> {
        let (known, queue_limit) = (self.queues.len() as u16, self.queue_limit);
        self.queues.extend((known..pool.count()).map(|_| Queue::new(queue_limit)));
        for gone in pool.count()..known {
            while let Some(job) = self.queues[gone as usize].pop() {
                let heir = Worker(job.req.0 as u16 % pool.count());
                self.queues[heir.0 as usize].push_admitted(job);
                self.loaded.insert(heir);
            }
            self.loaded.remove(Worker(gone));
        }
        None
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn could_run(&self, worker: Worker, _: &Pool) -> bool {
        !self.queues[worker.0 as usize].is_empty() || (self.stealing && self.waiting > 0)
    }

    fn check(&self, pool: &Pool) {
        let queued: usize = self.queues.iter().map(Queue::len).sum();
        assert_eq!(queued, self.waiting);
        for (index, queue) in self.queues.iter().enumerate() {
            let worker = Worker(index as u16);
            assert_eq!(self.loaded.contains(worker), !queue.is_empty(), "{worker:?}");
            assert!(queue.is_empty() || worker.0 < pool.count(), "{worker:?} is gone");
        }
    }
}
