//! The part all policies share: a [`Server`] that keeps one request per worker ([persephone 2.1])
//! and asks a [`Discipline`] which one. Its inputs and effects are those of [persephone 2.4].
//!
//! The server owns the promises that must hold whatever the policy: every request is run once or
//! dropped once ([persephone I1]), no worker runs two ([persephone I2]), and after each step no
//! request waits that a free worker may run ([persephone I5]).

use crate::darc::reservation::Table;
use crate::queue::Job;
use crate::workers::{Pool, Running};
use cavy_core::family::cpu::{DropReason, Effect, Input, Kind, Req, Timer, Worker};
use cavy_core::{Cx, Instant, Machine, Span, Stream};

/// A decision to start a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The request.
    pub job: Job,
    /// The worker is not one of its own.
    pub stolen: bool,
}

/// What becomes of a request that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It starts at once.
    Run {
        /// On this free worker,
        worker: Worker,
        /// which is not one of its own.
        stolen: bool,
    },
    /// It waits.
    Queued,
    /// It waits, and this worker stops what it runs for the first of those that wait.
    Preempt {
        /// The worker, which was not asked before.
        worker: Worker,
    },
    /// There is no place to wait.
    Full,
}

/// Which request runs where. One implementation a policy.
pub trait Discipline {
    /// A request arrives: run it on a free worker, keep it, or refuse it.
    fn admit(&mut self, job: Job, pool: &Pool, rng: &mut Stream) -> Admission;

    /// `worker` is free: which of the waiting requests does it run?
    fn next(
        &mut self,
        worker: Worker,
        pool: &Pool,
        now: Instant,
        rng: &mut Stream,
    ) -> Option<Start>;

    /// `job` ran to its end: it held its worker for `occupied`, `service` of it working if the
    /// worker measures that.
    fn finished(&mut self, _job: Job, _occupied: Span, _service: Option<Span>, _now: Instant) {}

    /// How long a request may run before it is preempted; `None` runs to completion.
    fn slice(&self) -> Option<Span> {
        None
    }

    /// `job` was preempted on `worker` and has work left.
    fn requeue(&mut self, _job: Job, _worker: Worker) {
        unreachable!("this discipline asks nobody to stop");
    }

    /// Start of a dispatch round: reconsider the plan. A new version number means that free workers
    /// may now run what they could not before.
    fn revise(&mut self, _pool: &Pool, _now: Instant) -> Option<u32> {
        None
    }

    /// The number of workers changed.
    fn resized(&mut self, _pool: &Pool, _now: Instant) -> Option<u32> {
        None
    }

    /// Requests that wait.
    fn waiting(&self) -> usize;

    /// May `worker` run some request that waits? For the check of [persephone I5].
    fn could_run(&self, worker: Worker, pool: &Pool) -> bool;

    /// The reservation in force, for policies that have one.
    fn reservation(&self) -> Option<&Table> {
        None
    }

    /// What it still waits for before it does what its name says.
    fn learning(&self) -> Option<Learning> {
        None
    }

    /// Asserts the discipline's own invariants.
    fn check(&self, _pool: &Pool) {}
}

/// A policy that measures first: until it has seen enough it is another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Learning {
    /// Requests handed to workers so far.
    pub seen: u64,
    /// How many it waits for.
    pub needed: u64,
    /// What it does meanwhile.
    pub meanwhile: &'static str,
}

/// Read access to a policy whose type is not known.
pub trait Inspect {
    /// The reservation in force, for policies that have one.
    fn reservation(&self) -> Option<&Table>;
    /// Requests that wait.
    fn waiting(&self) -> usize;
    /// What it still waits for before it does what its name says.
    fn learning(&self) -> Option<Learning>;
}

/// A scheduler: workers, and a discipline that decides for them.
#[derive(Clone, Debug)]
pub struct Server<D> {
    pool: Pool,
    discipline: D,
    kinds: u16,
}

type ServerCx<'a> = Cx<'a, Effect, Timer>;

impl<D: Discipline> Server<D> {
    /// `workers` free workers under `discipline`, which knows types 1 to `kinds`.
    pub fn new(workers: u16, kinds: u16, discipline: D) -> Self {
        Server { pool: Pool::new(workers), discipline, kinds }
    }

    /// The discipline.
    pub fn discipline(&self) -> &D {
        &self.discipline
    }

    /// The workers.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    #[inline]
    fn run(&mut self, worker: Worker, start: Start, cx: &mut ServerCx<'_>) {
        self.pool.occupy(worker, start.job, cx.now());
        cx.emit(Effect::Run { worker, req: start.job.req, stolen: start.stolen });
        if let Some(slice) = self.discipline.slice() {
            cx.arm(Timer::Slice(worker), cx.now() + slice);
        }
    }

    #[inline]
    fn refill(&mut self, worker: Worker, cx: &mut ServerCx<'_>) {
        if worker.0 < self.pool.count() {
            let now = cx.now();
            if let Some(start) = self.discipline.next(worker, &self.pool, now, cx.rng()) {
                self.run(worker, start, cx);
            }
        }
    }

    /// Offers work to every free worker, by ascending number. With worker lists in ascending order
    /// this starts what the type-by-type round of [persephone 2.9] starts, on the same workers.
    fn refill_all(&mut self, cx: &mut ServerCx<'_>) {
        let free = *self.pool.free();
        for worker in free.iter() {
            self.refill(worker, cx);
        }
    }

    /// `worker` is done with `req`, however that ended.
    #[inline]
    fn release(&mut self, worker: Worker, req: Req, cx: &mut ServerCx<'_>) -> Option<Running> {
        let ran = self.pool.release(worker)?;
        debug_assert_eq!(ran.job.req, req, "{worker:?} finished what it did not run");
        if self.discipline.slice().is_some() {
            cx.disarm(Timer::Slice(worker));
        }
        Some(ran)
    }

    /// `worker` is free.
    #[inline]
    fn go_on(&mut self, worker: Worker, cx: &mut ServerCx<'_>) {
        self.revise(cx);
        if self.pool.running(worker).is_none() {
            self.refill(worker, cx);
        }
    }

    #[inline]
    fn revise(&mut self, cx: &mut ServerCx<'_>) {
        if let Some(version) = self.discipline.revise(&self.pool, cx.now()) {
            cx.emit(Effect::Reserved { version });
            self.refill_all(cx);
        }
    }
}

impl<D: Discipline> Machine for Server<D> {
    type Input = Input;
    type Effect = Effect;
    type Timer = Timer;

    /// Each worker may start once and arm one timer; one arrival may be dropped; a plan may change.
    fn effects_max(&self) -> usize {
        2 * crate::workers::WORKERS_MAX as usize + 4
    }

    fn start(&mut self, cx: &mut ServerCx<'_>) {
        if let Some(version) = self.discipline.resized(&self.pool, cx.now()) {
            cx.emit(Effect::Reserved { version });
        }
    }

    #[inline]
    fn handle(&mut self, input: Input, cx: &mut ServerCx<'_>) {
        match input {
            Input::Arrive { req, kind } => {
                self.revise(cx);
                let kind = if kind.0 <= self.kinds { kind } else { Kind::UNKNOWN };
                let job = Job { req, kind, arrived: cx.now() };
                match self.discipline.admit(job, &self.pool, cx.rng()) {
                    Admission::Run { worker, stolen } => {
                        self.run(worker, Start { job, stolen }, cx);
                    }
                    Admission::Queued => {}
                    Admission::Preempt { worker } => cx.emit(Effect::Preempt { worker }),
                    Admission::Full => {
                        cx.emit(Effect::Drop { req, why: DropReason::QueueFull });
                    }
                }
            }
            Input::Finished { worker, req, service } => {
                let Some(ran) = self.release(worker, req, cx) else { return };
                let now = cx.now();
                self.discipline.finished(ran.job, now.since(ran.since), service, now);
                self.go_on(worker, cx);
            }
            Input::Skipped { worker, req } => {
                if self.release(worker, req, cx).is_some() {
                    self.go_on(worker, cx);
                }
            }
            Input::Yielded { worker, req } => {
                let Some(ran) = self.pool.release(worker) else { return };
                debug_assert_eq!(ran.job.req, req, "{worker:?} yielded what it did not run");
                self.discipline.requeue(ran.job, worker);
                self.refill(worker, cx);
                // A shrunken pool may leave the request to another worker that is free.
                if worker.0 >= self.pool.count() {
                    self.refill_all(cx);
                }
            }
            Input::Resize { workers } => {
                self.pool.resize(workers);
                if let Some(version) = self.discipline.resized(&self.pool, cx.now()) {
                    cx.emit(Effect::Reserved { version });
                }
                self.refill_all(cx);
            }
        }
    }

    fn expire(&mut self, timer: Timer, cx: &mut ServerCx<'_>) {
        let Timer::Slice(worker) = timer;
        if self.pool.running(worker).is_some() {
            cx.emit(Effect::Preempt { worker });
        }
    }

    fn check(&self) {
        self.pool.check();
        self.discipline.check(&self.pool);
        if self.discipline.waiting() > 0 {
            for worker in self.pool.free().iter() {
                let could = self.discipline.could_run(worker, &self.pool);
                assert!(!could, "I5: {worker:?} is free beside a request it may run");
            }
        }
    }
}

impl<D: Discipline> Inspect for Server<D> {
    fn reservation(&self) -> Option<&Table> {
        self.discipline.reservation()
    }
    fn waiting(&self) -> usize {
        self.discipline.waiting()
    }
    fn learning(&self) -> Option<Learning> {
        self.discipline.learning()
    }
}
