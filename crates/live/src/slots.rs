//! Async permits scheduled by the same machines: N slots, types, a policy.
//!
//! **Problem.** An async handler holds no thread, but it holds something scarce all the same: a
//! database connection, a GPU, a share of a downstream service. A semaphore hands those out first
//! come first served, and short requests wait behind long ones.
//!
//! **Promise.** A request starts when the machine says so, and holds its slot until its [`Permit`]
//! is dropped. Slots are numbered, so a permit can stand for one of N connections. A request whose
//! future is dropped, while it waits or while it runs, loses no slot.
//!
//! **Not here.** No threads and no executor; nothing is polled here but [`Acquire`].

use crate::clock::Clock;
use crate::dispatch::{Dispatch, Grants};
use crate::metrics::{Ending, Measured, Stats};
use crate::record::{Summary, keep_flushed};
use crate::setup::{BuildError, Setup};
use cavy_core::family::cpu::{Kind, Req, Worker};
use cavy_core::{Instant, Span};
use cavy_sched::Policy;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Why there is no permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SlotError {
    /// The queue of its type is full.
    #[error("overloaded: the queue is full")]
    Rejected,
    /// The slots are closed.
    #[error("the slots are closed")]
    Closed,
}

/// Describes slots. See [`Slots::builder`] for the defaults.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    setup: Setup,
}

impl Builder {
    /// Slots, 1 to 4096.
    pub fn slots(mut self, slots: u16) -> Self {
        self.setup.workers = slots;
        self
    }

    /// Names of the types, 1 to 63; numbered from 1 in this order.
    pub fn types<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.setup.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// What is known of a type beforehand; only for policies that start from hints.
    pub fn hint(mut self, name: &str, mean: Duration, ratio: f64) -> Self {
        self.setup.hint(name, mean, ratio);
        self
    }

    /// The policy; [`crate::darc()`] unless given. Preemptive ones are refused.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.setup.policy = policy;
        self
    }

    /// Requests that each queue of the policy holds; 4 096 unless given. With 0 nobody waits.
    pub fn queue_limit(mut self, requests: u32) -> Self {
        self.setup.queue_limit = requests;
        self
    }

    /// Seed of the policy's random choices; 1 unless given.
    pub fn seed(mut self, seed: u64) -> Self {
        self.setup.seed = seed;
        self
    }

    /// Records every input of the machine to this file; see [`crate::record`].
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.setup.record = Some(path.into());
        self
    }

    /// Builds the slots.
    ///
    /// # Errors
    /// What the machine refuses, types and hints that do not fit, a recording that cannot be
    /// created.
    pub fn build(self) -> Result<Slots, BuildError> {
        let setup = self.setup;
        let state = State { dispatch: Dispatch::new(&setup)?, closed: false };
        let core = Core {
            clock: Clock::start(),
            measured: Measured::new(&setup.names),
            state: Mutex::new(state),
            setup,
        };
        let core = Arc::new(core);
        if core.setup.record.is_some() {
            keep_flushed(&core, |core: &Core| core.state.lock().dispatch.flush_recording());
        }
        Ok(Slots { core })
    }
}

#[derive(Debug)]
enum Stage {
    Waiting(Option<Waker>),
    Granted(Worker, Req),
    Closed,
    /// The future is gone, or has its permit.
    Gone,
}

/// What a waiting request and the machine's side share.
#[derive(Debug)]
struct Waiter {
    stage: Mutex<Stage>,
}

struct State {
    dispatch: Dispatch<Arc<Waiter>>,
    closed: bool,
}

struct Core {
    setup: Setup,
    clock: Clock,
    measured: Measured,
    state: Mutex<State>,
}

type Wakers = SmallVec<[Waker; 1]>;

impl State {
    /// Hands grants to those who wait. What was granted to a request that is gone is skipped at
    /// once, which may grant more.
    fn hand_out(&mut self, now: Instant, mut grants: Grants<Arc<Waiter>>) -> Wakers {
        let mut wakers = Wakers::new();
        while let Some(grant) = grants.pop() {
            let mut stage = grant.payload.stage.lock();
            match &mut *stage {
                Stage::Waiting(waker) => {
                    wakers.extend(waker.take());
                    *stage = Stage::Granted(grant.worker, grant.req);
                }
                _ => {
                    drop(stage);
                    let more = self.dispatch.finished(now, grant.worker, grant.req, None);
                    grants.extend(more);
                }
            }
        }
        wakers
    }
}

impl Core {
    fn release(&self, now: Instant, worker: Worker, req: Req, service: Option<Span>) {
        let wakers = {
            let mut state = self.state.lock();
            let grants = state.dispatch.finished(now, worker, req, service);
            state.hand_out(now, grants)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// N slots under a policy. Clones are the same slots.
///
/// ```
/// use cavy_live::slots::Slots;
/// # fn block_on<F: Future>(f: F) -> F::Output { futures_executor::block_on(f) }
///
/// let connections = Slots::builder().slots(14).types(["get", "report"]).build().unwrap();
/// let get = connections.kind("get").unwrap();
/// block_on(async {
///     let permit = connections.acquire(get).await.unwrap();
///     assert!(permit.slot() < 14);
/// });
/// ```
#[derive(Clone)]
pub struct Slots {
    core: Arc<Core>,
}

impl Slots {
    /// A builder with defaults: one slot, one type, DARC, queues of 4 096.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The type of this name.
    pub fn kind(&self, name: &str) -> Option<Kind> {
        self.core.setup.kind(name)
    }

    /// Names of types 1 and up.
    pub fn types(&self) -> &[String] {
        &self.core.setup.names
    }

    /// Asks for a slot. The request is in the queue from this call on, not from the first poll;
    /// a full queue is known at the first poll.
    pub fn acquire(&self, kind: Kind) -> Acquire {
        let core = self.core.clone();
        let waiter = Arc::new(Waiter { stage: Mutex::new(Stage::Waiting(None)) });
        let arrived = core.clock.now();
        let mut state = core.state.lock();
        let refused;
        let mut wakers = Wakers::new();
        if state.closed {
            refused = Some(SlotError::Closed);
        } else {
            let (grants, dropped) = state.dispatch.arrive(arrived, arrived, kind, waiter.clone());
            wakers = state.hand_out(arrived, grants);
            refused = dropped.map(|_| SlotError::Rejected);
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        if refused.is_some() {
            *waiter.stage.lock() = Stage::Gone;
        }
        let kind = if kind.0 as usize > self.types().len() { Kind::UNKNOWN } else { kind };
        Acquire { core, waiter, kind, arrived, refused }
    }

    /// Changes the number of slots, 1 to 4096. Permits of slots that are gone stay good.
    ///
    /// # Errors
    /// A number out of range.
    pub fn resize(&self, slots: u16) -> Result<(), BuildError> {
        Setup::check_workers(slots)?;
        let now = self.core.clock.now();
        let wakers = {
            let mut state = self.core.state.lock();
            let grants = state.dispatch.resize(now, slots);
            state.hand_out(now, grants)
        };
        wakers.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// No more permits: requests that wait, and those that come, get [`SlotError::Closed`].
    /// Permits that were given stay good.
    pub fn close(&self) {
        let waiting: Vec<Arc<Waiter>> = {
            let mut state = self.core.state.lock();
            state.closed = true;
            state.dispatch.ungranted().cloned().collect()
        };
        for waiter in waiting {
            let mut stage = waiter.stage.lock();
            if let Stage::Waiting(waker) = &mut *stage {
                let waker = waker.take();
                *stage = Stage::Closed;
                drop(stage);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    /// A snapshot of what the slots did. Latency is from `acquire` to the end of the permit, and
    /// service is the time a permit was held.
    pub fn stats(&self) -> Stats {
        let mut types = self.core.measured.types();
        let state = self.core.state.lock();
        state.dispatch.account(&mut types);
        let updates = state.dispatch.updates();
        Stats {
            at: self.core.clock.now(),
            workers: state.dispatch.workers(),
            waiting: state.dispatch.waiting(),
            in_system: state.dispatch.in_system(),
            workers_replaced: 0,
            types,
            reservation: updates.last().cloned(),
            updates,
        }
    }

    /// Ends the recording asked for with [`Builder::record`] and waits until it is on disk; `None`
    /// when there is none.
    pub fn finish_recording(&self) -> Option<std::io::Result<Summary>> {
        let recording = self.core.state.lock().dispatch.take_recording()?;
        Some(recording.finish())
    }
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").field("types", &self.types()).finish_non_exhaustive()
    }
}

/// A request for a slot. Dropping it gives up the place, and the slot if it had just been granted.
#[must_use = "a request that is dropped is given up"]
pub struct Acquire {
    core: Arc<Core>,
    waiter: Arc<Waiter>,
    kind: Kind,
    arrived: Instant,
    refused: Option<SlotError>,
}

impl Acquire {
    /// Why there will be no permit, if that is known already: overload is known at once.
    pub fn refused(&self) -> Option<SlotError> {
        self.refused
    }

    /// Blocks this thread until there is a permit, or none to be had.
    pub fn wait(mut self) -> Result<Permit, SlotError> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut cx) {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Future for Acquire {
    type Output = Result<Permit, SlotError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.waiter.stage.lock();
        match &mut *stage {
            Stage::Waiting(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            Stage::Granted(worker, req) => {
                let (worker, req) = (*worker, *req);
                *stage = Stage::Gone;
                drop(stage);
                Poll::Ready(Ok(Permit {
                    started: self.core.clock.now(),
                    core: self.core.clone(),
                    worker,
                    req,
                    kind: self.kind,
                    arrived: self.arrived,
                }))
            }
            Stage::Closed => Poll::Ready(Err(SlotError::Closed)),
            Stage::Gone => Poll::Ready(Err(self.refused.unwrap_or(SlotError::Closed))),
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut *self.waiter.stage.lock(), Stage::Gone);
        let now = self.core.clock.now();
        if let Stage::Granted(worker, req) = stage {
            self.core.release(now, worker, req, None);
        }
        if !matches!(stage, Stage::Gone) {
            self.core.measured.record(self.kind.0, self.arrived, now, now, Ending::Skipped);
        }
    }
}

impl std::fmt::Debug for Acquire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acquire").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A slot that is held until this is dropped.
#[must_use = "a permit that is dropped is given back"]
pub struct Permit {
    core: Arc<Core>,
    worker: Worker,
    req: Req,
    kind: Kind,
    arrived: Instant,
    started: Instant,
}

impl Permit {
    /// The number of the slot, from 0. No two permits hold one slot at a time.
    pub fn slot(&self) -> u16 {
        self.worker.0
    }

    /// The type it was given to.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let ended = self.core.clock.now();
        let how = if std::thread::panicking() { Ending::Panicked } else { Ending::Done };
        self.core.measured.record(self.kind.0, self.arrived, self.started, ended, how);
        self.core.release(ended, self.worker, self.req, Some(ended.since(self.started)));
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("slot", &self.slot()).finish_non_exhaustive()
    }
}
