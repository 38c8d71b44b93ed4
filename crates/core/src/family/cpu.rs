//! Deciding which worker runs which request: the vocabulary of `sched`.

use crate::machine::Machine;
use crate::time::Span;

/// A request, named by the world; the name is free again after the request finished or was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Req(pub u32);

/// The type of a request. Types are registered up front and numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind(pub u16);

impl Kind {
    /// What the classifier could not recognise ([persephone 2.2]).
    pub const UNKNOWN: Kind = Kind(0);
}

/// A worker: one slot that runs one request at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Worker(pub u16);

/// What happens to a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A request of `kind` is here.
    Arrive {
        /// Its name.
        req: Req,
        /// Its type as the classifier sees it.
        kind: Kind,
    },
    /// `worker` ran `req` to its end and is free.
    Finished {
        /// The worker that is free again.
        worker: Worker,
        /// The request that ended.
        req: Req,
        /// Service time as the worker measured it, without the cost of handing over; `None` when
        /// the worker does not measure, and the scheduler then takes the time since it said `Run`.
        service: Option<Span>,
    },
    /// `worker` found that nobody waits for `req` any more, ran nothing, and is free. It says
    /// nothing of how long requests of this type take.
    Skipped {
        /// The worker that is free again.
        worker: Worker,
        /// The request that was given up.
        req: Req,
    },
    /// `worker` stopped `req` unfinished, as [`Effect::Preempt`] asked, and is free. The request is
    /// the scheduler's again.
    Yielded {
        /// The worker that is free again.
        worker: Worker,
        /// The request that has work left.
        req: Req,
    },
    /// There are now `workers` workers, numbered from 0. Those above finish what they run and get
    /// nothing more.
    Resize {
        /// The new count, at least 1.
        workers: u16,
    },
}

/// Why a request was not run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// The queue it belongs in has no place ([persephone 2.5]).
    QueueFull,
}

/// What a scheduler wants done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// `worker`, which is free, runs `req`, from the start or from where it yielded.
    Run {
        /// The worker.
        worker: Worker,
        /// The request.
        req: Req,
        /// The worker is not one of the request's own: it belongs to a longer type (DARC) or the
        /// request waited at another worker's queue (work stealing). Worlds may charge for it.
        stolen: bool,
    },
    /// `worker` should stop what it runs; [`Input::Yielded`] follows unless the request ends first.
    Preempt {
        /// The worker.
        worker: Worker,
    },
    /// `req` will not be run.
    Drop {
        /// The request.
        req: Req,
        /// Why not.
        why: DropReason,
    },
    /// The reservation table changed; readers fetch it from the machine. Informational.
    Reserved {
        /// Counts the tables applied so far.
        version: u32,
    },
}

/// The timers of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The slice of the request on this worker is over.
    Slice(Worker),
}

/// A machine of this family. Implemented for every machine that speaks the vocabulary.
pub trait Scheduler: Machine<Input = Input, Effect = Effect, Timer = Timer> {}
impl<M: Machine<Input = Input, Effect = Effect, Timer = Timer> + ?Sized> Scheduler for M {}
