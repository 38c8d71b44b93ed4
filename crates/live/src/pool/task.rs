//! A job and its result, in one allocation that the pool and the caller share.

use crate::sync::{Arc, Condvar, Mutex, lock, wait, wait_for};
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Why a job has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JobError {
    /// The queue of its type is full, and stayed so until the deadline where there is one.
    #[error("rejected: the queue is full")]
    Rejected,
    /// It panicked.
    #[error("the job panicked: {message}")]
    Panicked {
        /// What it panicked with, if that is text.
        message: String,
    },
    /// The pool is shut down.
    #[error("the pool is shut down")]
    Shutdown,
    /// It was cancelled before it started.
    #[error("cancelled before it started")]
    Cancelled,
}

/// How a job ended on its worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    /// It returned.
    Returned,
    /// It panicked; its slot is free all the same.
    Panicked,
    /// It panicked with something that panics when dropped: the thread should be replaced.
    Damaged,
    /// It was cancelled or refused before.
    Nothing,
}

/// A job as the pool sees it.
pub trait Task: Send + Sync {
    /// Runs the closure, once. Never panics. The result is not visible yet.
    fn run(&self) -> Ran;
    /// Makes the result visible and wakes who waits for it. May panic in foreign wakers.
    fn deliver(&self);
    /// Ends the job with `error` unless it started or ended already. True if it did.
    fn refuse(&self, error: JobError) -> bool;
    /// Has the job ended?
    fn ended(&self) -> bool;
}

/// A job as its owner sees it.
trait Outcome<T>: Send + Sync {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<T, JobError>>;
    fn try_take(&self) -> Option<Result<T, JobError>>;
    fn wait(&self, timeout: Option<Duration>) -> Option<Result<T, JobError>>;
    fn refuse(&self, error: JobError) -> bool;
}

enum Stage<F, T> {
    /// Not started.
    Waiting(F),
    /// On a worker.
    Running,
    /// Ended; to be delivered.
    Ended(Result<T, JobError>),
    /// Delivered.
    Ready(Result<T, JobError>),
    /// Taken by the owner.
    Taken,
}

struct State<F, T> {
    stage: Stage<F, T>,
    waker: Option<Waker>,
}

/// The closure, then its result.
pub struct Job<F, T> {
    state: Mutex<State<F, T>>,
    ready: Condvar,
}

impl<F, T> Job<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    /// A new job: the pool's end and the caller's.
    pub fn open(closure: F) -> (Arc<Self>, Handle<T>) {
        let state = State { stage: Stage::Waiting(closure), waker: None };
        let job = Arc::new(Job { state: Mutex::new(state), ready: Condvar::new() });
        let handle = Handle { outcome: job.clone() };
        (job, handle)
    }

    fn take(state: &mut State<F, T>) -> Option<Result<T, JobError>> {
        match std::mem::replace(&mut state.stage, Stage::Taken) {
            Stage::Ready(result) => Some(result),
            Stage::Taken => Some(Err(JobError::Cancelled)),
            other => {
                state.stage = other;
                None
            }
        }
    }
}

impl<F, T> Task for Job<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn run(&self) -> Ran {
        let closure = {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut state.stage, Stage::Running) {
                Stage::Waiting(closure) => closure,
                other => {
                    state.stage = other;
                    return Ran::Nothing;
                }
            }
        };
        let (result, ran) = match catch_unwind(AssertUnwindSafe(closure)) {
            Ok(value) => (Ok(value), Ran::Returned),
            Err(payload) => {
                let message = message(payload.as_ref());
                let ran = if discard(payload) { Ran::Panicked } else { Ran::Damaged };
                (Err(JobError::Panicked { message }), ran)
            }
        };
        lock(&self.state).stage = Stage::Ended(result);
        ran
    }

    fn deliver(&self) {
        let waker = {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut state.stage, Stage::Taken) {
                Stage::Ended(result) => state.stage = Stage::Ready(result),
                other => state.stage = other,
            }
            state.waker.take()
        };
        self.ready.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn refuse(&self, error: JobError) -> bool {
        let closure = {
            let mut state = lock(&self.state);
            if !matches!(state.stage, Stage::Waiting(_)) {
                return false;
            }
            std::mem::replace(&mut state.stage, Stage::Ended(Err(error)))
        };
        // Outside the lock: what the closure owns may do anything when dropped.
        drop(closure);
        self.deliver();
        true
    }

    fn ended(&self) -> bool {
        !matches!(lock(&self.state).stage, Stage::Waiting(_) | Stage::Running)
    }
}

impl<F, T> Outcome<T> for Job<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<T, JobError>> {
        let mut state = lock(&self.state);
        match Self::take(&mut state) {
            Some(result) => Poll::Ready(result),
            None => {
                match &mut state.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    fn try_take(&self) -> Option<Result<T, JobError>> {
        Self::take(&mut lock(&self.state))
    }

    fn wait(&self, timeout: Option<Duration>) -> Option<Result<T, JobError>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(result) = Self::take(&mut state) {
                return Some(result);
            }
            state = match timeout {
                None => wait(&self.ready, state),
                Some(timeout) => {
                    let mut state = wait_for(&self.ready, state, timeout);
                    return Self::take(&mut state);
                }
            };
        }
    }

    fn refuse(&self, error: JobError) -> bool {
        Task::refuse(self, error)
    }
}

/// The text of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a value that is no text".to_string()
    }
}

/// Drops what a panic carried; false when that panicked as well.
pub(crate) fn discard(payload: Box<dyn Any + Send>) -> bool {
    match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        Ok(()) => true,
        Err(again) => {
            // It would only go on like this.
            std::mem::forget(again);
            false
        }
    }
}

/// The caller's end of a job: wait for the result, poll for it, or await it.
///
/// Dropping a handle detaches the job, which still runs.
#[must_use = "the result says whether the job was rejected"]
pub struct Handle<T> {
    outcome: Arc<dyn Outcome<T>>,
}

impl<T: Send + 'static> Handle<T> {
    /// Blocks until the job ended.
    pub fn join(self) -> Result<T, JobError> {
        self.outcome.wait(None).unwrap_or(Err(JobError::Cancelled))
    }

    /// Blocks until the job ended, but not longer than `timeout`, and perhaps less; `None` when it
    /// has not ended.
    pub fn join_timeout(&mut self, timeout: Duration) -> Option<Result<T, JobError>> {
        self.outcome.wait(Some(timeout))
    }

    /// The result, if the job ended. The result is there once: a second call says `Cancelled`.
    pub fn try_join(&mut self) -> Option<Result<T, JobError>> {
        self.outcome.try_take()
    }

    /// Takes the job back unless it started or ended; true if that succeeded. It keeps its place in
    /// the queue, and the worker that gets it passes on at once.
    pub fn cancel(&self) -> bool {
        self.outcome.refuse(JobError::Cancelled)
    }
}

impl<T> Future for Handle<T> {
    type Output = Result<T, JobError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.outcome.poll(cx)
    }
}

impl<T> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// A job that is awaited, on any executor. Dropping it before the job started cancels the job.
#[must_use = "a run that is dropped is cancelled"]
pub struct Run<T> {
    handle: Option<Handle<T>>,
}

impl<T: Send + 'static> Run<T> {
    pub(crate) fn new(handle: Handle<T>) -> Self {
        Run { handle: Some(handle) }
    }
}

impl<T> Future for Run<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handle) = &mut self.handle else { return Poll::Ready(Err(JobError::Cancelled)) };
        let polled = Pin::new(handle).poll(cx);
        if polled.is_ready() {
            self.handle = None;
        }
        polled
    }
}

impl<T> Drop for Run<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.outcome.refuse(JobError::Cancelled);
        }
    }
}

impl<T> std::fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Run")
    }
}
