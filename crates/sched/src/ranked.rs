//! Policies that rank requests one by one: SRPT, LCFS and priority, which may preempt.
//!
//! A rank is a number; the least goes first, and of equal ones whoever arrived first. A policy that
//! preempts stops the running request of the greatest rank when one of a lesser rank waits, so that
//! at any time the requests of the least ranks run. What was stopped goes on later from where it
//! was, on any worker. What a preemption costs is charged by the world.

use crate::machine::{Admission, Discipline, Start};
use crate::queue::Job;
use crate::workers::{Pool, WORKERS_MAX};
use alloc::boxed::Box;
use alloc::vec::Vec;
use cavy_core::family::cpu::Worker;
use cavy_core::{Instant, Span, Stream};

/// The work of each request, in the order of their arrival: what a policy knows that sees requests
/// through before they run. Only a lab can know it.
pub type Foresight = Box<dyn Iterator<Item = Span> + Send>;

/// What the rank of a request is.
pub enum Ranking {
    /// The work that is left of it: shortest remaining processing time.
    Remaining {
        /// Its work, if that is known beforehand.
        foresight: Option<Foresight>,
        /// The mean work of each type, for requests whose own is not known; the last entry is for
        /// unknown types.
        means: Vec<Span>,
    },
    /// Its type, in the order of registration; unknown types go last.
    Class,
    /// The later it arrived the less: last come first served.
    Latest,
}

/// A request that waits.
#[derive(Clone, Copy)]
struct Waiting {
    rank: u64,
    /// Counts arrivals.
    number: u64,
    job: Job,
}

/// What a worker runs.
#[derive(Clone, Copy, Default)]
struct Held {
    /// As it was when the request started, or when it was asked to stop.
    rank: u64,
    number: u64,
    /// The worker was asked to stop it.
    stopping: bool,
}

/// One queue in the order of ranks, any worker.
pub struct Ranked {
    ranking: Ranking,
    preempts: bool,
    limit: usize,
    arrived: u64,
    /// The next to run is last.
    waiting: Vec<Waiting>,
    held: Vec<Held>,
}

impl Ranked {
    /// Entries the queue has room for before it must grow.
    const INITIAL: usize = 64;

    /// At most `queue_limit` requests wait, besides those that were preempted.
    pub fn new(ranking: Ranking, preempts: bool, queue_limit: u32) -> Self {
        Ranked {
            ranking,
            preempts,
            limit: queue_limit as usize,
            arrived: 0,
            waiting: Vec::with_capacity(Self::INITIAL.min(queue_limit as usize)),
            held: alloc::vec![Held::default(); WORKERS_MAX as usize],
        }
    }

    fn rank(&mut self, job: &Job) -> u64 {
        match &mut self.ranking {
            Ranking::Remaining { foresight, means } => {
                let known = foresight.as_mut().and_then(Iterator::next);
                let of_type = (job.kind.0 as usize).wrapping_sub(1).min(means.len() - 1);
                known.unwrap_or(means[of_type]).as_ns()
            }
            Ranking::Class => (u64::from(job.kind.0)).wrapping_sub(1),
            Ranking::Latest => u64::MAX - self.arrived,
        }
    }

    /// The rank that what `worker` runs has by now.
    #[inline]
    fn rank_now(&self, worker: Worker, pool: &Pool, now: Instant) -> Option<u64> {
        let running = pool.running(worker)?;
        let rank = self.held[worker.0 as usize].rank;
        Some(match self.ranking {
            Ranking::Remaining { .. } => rank.saturating_sub(now.since(running.since).as_ns()),
            Ranking::Class | Ranking::Latest => rank,
        })
    }

    fn hold(&mut self, worker: Worker, rank: u64, number: u64) {
        self.held[worker.0 as usize] = Held { rank, number, stopping: false };
    }

    fn keep(&mut self, one: Waiting) {
        let before = |other: &Waiting| (other.rank, other.number) > (one.rank, one.number);
        let place = self.waiting.partition_point(before);
        self.waiting.insert(place, one);
    }

    /// The worker that should stop for one of those that wait, with the rank of what it runs.
    ///
    /// Workers that were asked before take the first of those that wait. The one behind these is
    /// compared with the running request of the greatest rank.
    fn to_stop(&self, pool: &Pool, now: Instant) -> Option<(u64, Worker)> {
        let mut stopping = 0;
        let mut worst = None;
        for worker in (0..pool.count()).map(Worker) {
            let Held { number, stopping: asked, .. } = self.held[worker.0 as usize];
            match self.rank_now(worker, pool, now) {
                Some(_) if asked => stopping += 1,
                Some(rank) => worst = worst.max(Some((rank, number, worker))),
                None => {}
            }
        }
        let (rank, _, worker) = worst?;
        let next = self.waiting.len().checked_sub(1 + stopping)?;
        (self.waiting[next].rank < rank).then_some((rank, worker))
    }
}

impl Discipline for Ranked {
    fn admit(&mut self, job: Job, pool: &Pool, _: &mut Stream) -> Admission {
        let (rank, number) = (self.rank(&job), self.arrived);
        self.arrived += 1;
        if let Some(worker) = pool.free().first() {
            self.hold(worker, rank, number);
            return Admission::Run { worker, stolen: false };
        }
        if self.waiting.len() >= self.limit {
            return Admission::Full;
        }
        self.keep(Waiting { rank, number, job });
        if !self.preempts {
            return Admission::Queued;
        }
        match self.to_stop(pool, job.arrived) {
            Some((rank, worker)) => {
                let held = &mut self.held[worker.0 as usize];
                (held.rank, held.stopping) = (rank, true);
                Admission::Preempt { worker }
            }
            None => Admission::Queued,
        }
    }

    fn next(&mut self, worker: Worker, _: &Pool, _: Instant, _: &mut Stream) -> Option<Start> {
        let Some(Waiting { rank, number, job }) = self.waiting.pop() else {
            self.held[worker.0 as usize].stopping = false;
            return None;
        };
        self.hold(worker, rank, number);
        Some(Start { job, stolen: false })
    }

    /// Back to its place among those that wait, with what is left of it.
    fn requeue(&mut self, job: Job, worker: Worker) {
        let Held { rank, number, .. } = self.held[worker.0 as usize];
        self.keep(Waiting { rank, number, job });
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn could_run(&self, _: Worker, _: &Pool) -> bool {
        !self.waiting.is_empty()
    }

    fn check(&self, _: &Pool) {
        let order = |one: &Waiting| core::cmp::Reverse((one.rank, one.number));
        assert!(self.waiting.is_sorted_by_key(order), "those that wait stand in order");
    }
}
