//! A worker thread: takes a letter, runs the job, says that it ended, delivers the result.

use super::desk::{Job, Letter};
use super::task::{Ran, discard};
use super::{Core, Running};
use crate::dispatch::Grant;
use crate::handoff::{Bell, Mailbox};
use crate::metrics::Ending;
use cavy_core::Span;
use cavy_core::family::cpu::{Req, Worker};
use parking_lot::Mutex;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A worker's end of what connects it to its dispatcher.
#[derive(Clone)]
pub(crate) enum Line {
    /// Inline driver.
    Mailbox(Arc<Mailbox<Letter>>),
    /// Dedicated driver.
    Ring(Arc<RingEnd>),
}

/// Rings that the worker's thread holds while it lives.
pub(crate) struct RingEnd {
    pub(crate) inbox: Mutex<rtrb::Consumer<Letter>>,
    pub(crate) notices: Mutex<rtrb::Producer<Notice>>,
    pub(crate) bell: Arc<Bell>,
}

/// "It ended", from a worker to the dispatcher's thread.
pub(crate) struct Notice {
    pub(crate) req: Req,
    /// `None` when there was nothing left to run.
    pub(crate) service: Option<Span>,
}

/// Why a worker's thread ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Farewell {
    /// It was told to.
    Sent,
    /// A job left it in a state in which no other should run.
    Damaged,
}

thread_local! {
    /// Address of the pool this thread works for; 0 for none.
    static POOL: Cell<usize> = const { Cell::new(0) };
}

/// Is the current thread a worker of this pool?
pub(crate) fn is_of(core: &Arc<Core>) -> bool {
    POOL.get() == Arc::as_ptr(core).addr()
}

/// The body of worker `worker`'s thread.
pub(crate) fn main(core: &Arc<Core>, worker: Worker, line: Line) {
    POOL.set(Arc::as_ptr(core).addr());
    core.pin(worker);
    loop {
        let farewell = catch_unwind(AssertUnwindSafe(|| work(core, worker, &line)));
        let damaged = match farewell {
            Ok(farewell) => farewell == Farewell::Damaged,
            Err(payload) => {
                discard(payload);
                true
            }
        };
        if !damaged {
            return;
        }
        core.replaced.fetch_add(1, Ordering::Relaxed);
        // A thread of its own again, because thread-locals may be in any state. Where none can be
        // had, this one goes on: a worker less is worse.
        if core.spawn(worker, line.clone()).is_ok() {
            return;
        }
    }
}

fn work(core: &Core, worker: Worker, line: &Line) -> Farewell {
    let mut next = None;
    loop {
        let letter = next.take().unwrap_or_else(|| receive(core, line));
        let Letter::Run(grant) = letter else { return Farewell::Sent };
        let ran = run(core, worker, line, &grant, &mut next);
        // Wakers, and values that nobody waits for, are foreign code and may panic too.
        let delivered = catch_unwind(AssertUnwindSafe(|| {
            grant.payload.deliver();
            drop(grant);
        }));
        let sound = match delivered {
            Ok(()) => true,
            Err(payload) => {
                discard(payload);
                false
            }
        };
        if !sound || ran == Ran::Damaged {
            if let (Some(letter), Line::Mailbox(mailbox)) = (next.take(), line) {
                // For whoever sits here next.
                mailbox.put(letter);
            }
            return Farewell::Damaged;
        }
    }
}

fn run(
    core: &Core,
    worker: Worker,
    line: &Line,
    grant: &Grant<Job>,
    next: &mut Option<Letter>,
) -> Ran {
    let started = core.clock.now();
    let ran = grant.payload.run();
    let ended = core.clock.now();
    let how = match ran {
        Ran::Returned => Ending::Done,
        Ran::Panicked | Ran::Damaged => Ending::Panicked,
        Ran::Nothing => Ending::Skipped,
    };
    core.measured.record(grant.kind.0, grant.arrived, started, ended, how);
    let service = (how != Ending::Skipped).then(|| ended.since(started));
    match (line, &core.running) {
        (Line::Ring(ring), Running::Dedicated(dedicated)) => {
            // The dispatcher takes a notice before it sends another job, so there is room.
            let full = ring.notices.lock().push(Notice { req: grant.req, service }).is_err();
            debug_assert!(!full, "two notices from one worker");
            dedicated.bell.ring();
        }
        _ => {
            let mail = core.desk.lock().finished(ended, worker, grant.req, service);
            *next = mail.send();
        }
    }
    ran
}

fn receive(core: &Core, line: &Line) -> Letter {
    match line {
        Line::Mailbox(mailbox) => mailbox.take(),
        Line::Ring(ring) => {
            let mut inbox = ring.inbox.lock();
            let spin = core.spin();
            loop {
                let mut since = None;
                loop {
                    if let Ok(letter) = inbox.pop() {
                        return letter;
                    }
                    if spin.is_zero() {
                        break;
                    }
                    let now = core.clock.now();
                    if now.since(*since.get_or_insert(now)) >= spin {
                        break;
                    }
                    std::hint::spin_loop();
                }
                ring.bell.sleep_unless(|| !inbox.is_empty());
            }
        }
    }
}
