//! A pool of threads whose jobs have types, scheduled by a machine of `sched`.
//!
//! **Problem.** A thread pool runs jobs first come first served: when every thread is busy with a
//! long job, a short one waits a thousand times its own length.
//!
//! **Promise.** Name the types of work, and the policy (DARC unless told otherwise) decides which
//! job runs where: exactly the machine that the lab simulates decides, and nothing beside it. Every
//! job runs once or is refused with a reason; a job that panics frees its worker; a worker that
//! dies is replaced.
//!
//! **Not here.** No preemption: a closure runs to its end. No async jobs: a future does not hold a
//! thread, see [`crate::slots`] for those.
//!
//! **Reading order.** [`Pool`] and [`builder`], then `task` (job and result), `desk` (what is
//! behind the lock), `worker`, and `dedicated` (the driver with a dispatcher thread).

pub mod builder;
mod dedicated;
mod desk;
mod task;
mod worker;

pub use builder::{Builder, Driver, OnFull};
use task::Job;
pub use task::{Handle, JobError, Run};

use crate::clock::Clock;
use crate::metrics::{Measured, Stats};
use crate::record::Summary;
use crate::setup::{BuildError, Setup};
use cavy_core::Span;
use cavy_core::family::cpu::{Kind, Worker};
use dedicated::{Dedicated, Submission};
use desk::{Desk, Post, Ticket};

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use worker::Line;

/// How letters and notices travel.
enum Running {
    Inline,
    Dedicated(Arc<Dedicated>),
}

/// What threads and owners of a pool share.
struct Core {
    setup: Setup,
    on_full: OnFull,
    thread_name: String,
    cores: Option<Vec<usize>>,
    clock: Clock,
    desk: Mutex<Desk>,
    running: Running,
    measured: Measured,
    replaced: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// One resize at a time.
    resizing: Mutex<()>,
    /// Held while a shutdown waits, so that a second one returns no sooner.
    joining: Mutex<()>,
}

impl Core {
    /// How long threads poll before they sleep.
    fn spin(&self) -> Span {
        match &self.running {
            Running::Inline => Span::ZERO,
            Running::Dedicated(dedicated) => dedicated.spin,
        }
    }

    fn pin(&self, worker: Worker) {
        if let Some(cores) = &self.cores {
            builder::pin_current(cores[worker.0 as usize % cores.len()]);
        }
    }

    fn spawn(self: &Arc<Self>, worker: Worker, line: Line) -> Result<(), BuildError> {
        let core = self.clone();
        let name = format!("{}-{}", self.thread_name, worker.0);
        self.start(name, move || worker::main(&core, worker, line))
    }

    fn start(&self, name: String, body: impl FnOnce() + Send + 'static) -> Result<(), BuildError> {
        let spawned = std::thread::Builder::new().name(name.clone()).spawn(body);
        let thread = spawned.map_err(|source| BuildError::Spawn { name, source })?;
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// Starts a thread for every seat below `count` that is vacant.
    fn fill_seats(self: &Arc<Self>, count: u16) -> Result<(), BuildError> {
        let vacant = self.desk.lock().vacant(count);
        for worker in vacant {
            let (line, post) = match &self.running {
                Running::Inline => {
                    let mailbox = Arc::new(crate::handoff::Mailbox::default());
                    (Line::Mailbox(mailbox.clone()), Post::Mailbox(mailbox))
                }
                Running::Dedicated(dedicated) => {
                    let (end, letters) = dedicated.connect(worker);
                    let bell = end.bell.clone();
                    (Line::Ring(end), Post::Ring(letters, bell))
                }
            };
            self.spawn(worker, line)?;
            self.desk.lock().seat(worker, post);
        }
        Ok(())
    }

    /// Refuses a job. What its closure owns is foreign code when dropped; no thread of ours may die
    /// of it.
    fn refuse(&self, job: &desk::Job, error: JobError) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job.refuse(error))) {
            task::discard(payload);
        }
    }

    fn close(&self, drain: bool) {
        match &self.running {
            Running::Inline => self.close_desk(drain),
            Running::Dedicated(dedicated) => dedicated.close(drain),
        }
    }

    fn close_desk(&self, drain: bool) {
        let (mail, refused) = self.desk.lock().close(drain);
        mail.send();
        for job in refused {
            self.refuse(&job, JobError::Shutdown);
        }
    }

    /// Does what the desk says of an arrival, without its lock.
    fn settle(&self, (mail, refused): (desk::Mail, Option<(desk::Job, JobError)>)) {
        mail.send();
        if let Some((job, error)) = refused {
            self.refuse(&job, error);
        }
    }

    fn enter(&self, kind: Kind, job: desk::Job, ticket: Option<Arc<Ticket>>) {
        let arrived = self.clock.now();
        match &self.running {
            Running::Inline => {
                let entered = self.desk.lock().arrive(arrived, arrived, kind, job, ticket);
                self.settle(entered);
            }
            Running::Dedicated(dedicated) => {
                let submission = Submission { arrived, kind, job, ticket };
                if let Err(Submission { job, ticket, .. }) = dedicated.submit(submission) {
                    self.refuse(&job, JobError::Shutdown);
                    if let Some(ticket) = ticket {
                        ticket.settle();
                    }
                }
            }
        }
    }

    fn desk_is_closed(&self) -> bool {
        self.desk.lock().is_closed()
    }
}

/// The last owner is gone.
struct Owner {
    core: Arc<Core>,
}

impl Drop for Owner {
    /// What was submitted still runs; nobody waits for it.
    fn drop(&mut self) {
        self.core.close(true);
    }
}

/// What happens to jobs that wait when a pool shuts down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// They run.
    Drain,
    /// They end with [`JobError::Shutdown`]; those on a worker run to their end.
    Reject,
}

/// A pool of worker threads. Clones are the same pool; when the last one is dropped, no more jobs
/// are taken, those that were submitted still run, and the threads end.
///
/// ```
/// use cavy_live::pool::Pool;
///
/// let pool = Pool::builder().workers(4).types(["get", "scan"]).build().unwrap();
/// let get = pool.kind("get").unwrap();
/// assert_eq!(pool.submit(get, || 6 * 7).join(), Ok(42));
/// ```
#[derive(Clone)]
pub struct Pool {
    owner: Arc<Owner>,
}

impl Pool {
    /// A builder with defaults: as many workers as cores, one type, DARC, queues of 4 096, reject
    /// when full, inline driver.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    /// The type of this name.
    pub fn kind(&self, name: &str) -> Option<Kind> {
        self.core().setup.kind(name)
    }

    /// Names of types 1 and up.
    pub fn types(&self) -> &[String] {
        &self.core().setup.names
    }

    /// Submits a job. A type the pool does not know counts as [`Kind::UNKNOWN`].
    ///
    /// Errors come through the handle: at once with the inline driver, when the dispatcher gets to
    /// it with the dedicated one. With [`OnFull::Block`] this call waits for room.
    pub fn submit<F, T>(&self, kind: Kind, job: F) -> Handle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let core = self.core();
        let (ours, handle) = Job::open(job);
        match core.on_full {
            OnFull::Reject => core.enter(kind, ours, None),
            OnFull::Block { deadline } => {
                let ticket = Arc::new(Ticket::default());
                core.enter(kind, ours.clone(), Some(ticket.clone()));
                if !ticket.wait_for(deadline) {
                    let job: desk::Job = ours;
                    core.refuse(&job, JobError::Rejected);
                }
            }
        }
        handle
    }

    /// Submits a job whose result is awaited, on any executor. Dropping the future before the job
    /// started cancels it. Never blocks: a full queue rejects, whatever [`OnFull`] says.
    pub fn run<F, T>(&self, kind: Kind, job: F) -> Run<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (ours, handle) = Job::open(job);
        self.core().enter(kind, ours, None);
        Run::new(handle)
    }

    /// This pool with a classifier in front, which sees each request and says its type.
    pub fn classified<R, C>(&self, classifier: C) -> Classified<C>
    where
        C: Fn(&R) -> Kind,
    {
        Classified { pool: self.clone(), classifier }
    }

    /// Changes the number of workers, 1 to 4096. New ones start at once; those too many finish what
    /// they run.
    ///
    /// # Errors
    /// A number out of range, a thread that cannot be started (the number is then as before), or a
    /// pool that is shut down.
    pub fn resize(&self, workers: u16) -> Result<(), BuildError> {
        Setup::check_workers(workers)?;
        let core = self.core();
        let _one_at_a_time = core.resizing.lock();
        if core.desk_is_closed() {
            return Err(BuildError::Shutdown);
        }
        let filled = core.fill_seats(workers);
        let mut desk = core.desk.lock();
        if desk.is_closed() {
            let (mail, _) = desk.close(true);
            drop(desk);
            mail.send();
            return Err(BuildError::Shutdown);
        }
        // After a failure, threads that did start go home again.
        let workers = if filled.is_ok() { workers } else { desk.dispatch.workers() };
        let mail = desk.resize(core.clock.now(), workers);
        drop(desk);
        mail.send();
        filled
    }

    /// Takes no more jobs and waits until all that were taken have ended, as `how` says. From a job
    /// of this pool it does not wait.
    pub fn shutdown(&self, how: Shutdown) {
        let core = self.core();
        core.close(how == Shutdown::Drain);
        if worker::is_of(core) {
            return;
        }
        let _one_at_a_time = core.joining.lock();
        loop {
            let Some(thread) = core.threads.lock().pop() else { return };
            // A thread that panicked has been replaced, and its successor is in the list.
            let _ = thread.join();
        }
    }

    /// A snapshot of what the pool did.
    pub fn stats(&self) -> Stats {
        let core = self.core();
        let mut types = core.measured.types();
        let desk = core.desk.lock();
        let dispatch = &desk.dispatch;
        dispatch.account(&mut types);
        let updates = dispatch.updates();
        Stats {
            at: core.clock.now(),
            workers: dispatch.workers(),
            waiting: dispatch.waiting(),
            in_system: dispatch.in_system(),
            workers_replaced: core.replaced.load(Ordering::Relaxed),
            types,
            reservation: updates.last().cloned(),
            updates,
        }
    }

    /// Ends the recording asked for with [`Builder::record`] and waits until it is on disk; `None`
    /// when there is none. Record to the end: shut down first.
    pub fn finish_recording(&self) -> Option<std::io::Result<Summary>> {
        let recording = self.core().desk.lock().dispatch.take_recording()?;
        Some(recording.finish())
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("types", &self.types()).finish_non_exhaustive()
    }
}

/// A pool that sorts requests into types itself.
#[derive(Clone, Debug)]
pub struct Classified<C> {
    pool: Pool,
    classifier: C,
}

impl<C> Classified<C> {
    /// The pool behind it.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Classifies `request` and submits `job` on it; see [`Pool::submit`].
    pub fn submit<R, F, T>(&self, request: R, job: F) -> Handle<T>
    where
        C: Fn(&R) -> Kind,
        R: Send + 'static,
        F: FnOnce(R) -> T + Send + 'static,
        T: Send + 'static,
    {
        let kind = (self.classifier)(&request);
        self.pool.submit(kind, move || job(request))
    }

    /// Classifies `request` and runs `job` on it; see [`Pool::run`].
    pub fn run<R, F, T>(&self, request: R, job: F) -> Run<T>
    where
        C: Fn(&R) -> Kind,
        R: Send + 'static,
        F: FnOnce(R) -> T + Send + 'static,
        T: Send + 'static,
    {
        let kind = (self.classifier)(&request);
        self.pool.run(kind, move || job(request))
    }
}
