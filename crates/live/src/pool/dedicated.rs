//! The dedicated driver: one thread owns the dispatching; submitters queue to it, and a pair of
//! single-producer, single-consumer rings connects it to each worker.
//!
//! It polls, then sleeps. With a core to spare it hands over in well under a microsecond; without
//! one, the inline driver is better.

use super::Core;
use super::desk::{Job, Ticket};
use super::worker::{Notice, RingEnd};
use crate::handoff::Bell;
use cavy_core::family::cpu::{Kind, Worker};
use cavy_core::{Instant, Span};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A job on its way to the dispatcher.
pub(crate) struct Submission {
    pub(crate) arrived: Instant,
    pub(crate) kind: Kind,
    pub(crate) job: Job,
    pub(crate) ticket: Option<Arc<Ticket>>,
}

struct Intake {
    /// False once the pool closes.
    open: bool,
    /// The pool is to be closed, and whether it drains: the dispatcher does so after what came
    /// before.
    closing: Option<bool>,
    submissions: Vec<Submission>,
}

pub(crate) struct Dedicated {
    intake: Mutex<Intake>,
    /// Something is in the intake; spares the dispatcher the lock while polling.
    waiting: AtomicBool,
    /// Of the dispatcher.
    pub(crate) bell: Bell,
    /// How long dispatcher and workers poll before they sleep.
    pub(crate) spin: Span,
    /// Notices of each worker; locked by the dispatcher, but for a resize.
    notices: Mutex<Vec<(Worker, rtrb::Consumer<Notice>)>>,
}

impl Dedicated {
    pub(crate) fn new(spin: Span) -> Self {
        Dedicated {
            intake: Mutex::new(Intake { open: true, closing: None, submissions: Vec::new() }),
            waiting: AtomicBool::new(false),
            bell: Bell::default(),
            spin,
            notices: Mutex::new(Vec::new()),
        }
    }

    /// Rings for `worker`: the worker's end, and the producer of its letters.
    pub(crate) fn connect(
        &self,
        worker: Worker,
    ) -> (Arc<RingEnd>, rtrb::Producer<super::desk::Letter>) {
        let (letters, inbox) = rtrb::RingBuffer::new(2);
        let (notices, from) = rtrb::RingBuffer::new(2);
        let end = RingEnd {
            inbox: Mutex::new(inbox),
            notices: Mutex::new(notices),
            bell: Arc::new(Bell::default()),
        };
        self.notices.lock().push((worker, from));
        (Arc::new(end), letters)
    }

    /// Queues a job to the dispatcher; `Err` gives it back when the pool closes.
    pub(crate) fn submit(&self, submission: Submission) -> Result<(), Submission> {
        let mut intake = self.intake.lock();
        if !intake.open {
            return Err(submission);
        }
        intake.submissions.push(submission);
        drop(intake);
        self.waiting.store(true, Ordering::Release);
        self.bell.ring();
        Ok(())
    }

    /// Takes no more jobs.
    pub(crate) fn close(&self, drain: bool) {
        let mut intake = self.intake.lock();
        intake.open = false;
        intake.closing = Some(drain);
        drop(intake);
        self.waiting.store(true, Ordering::Release);
        self.bell.ring();
    }
}

/// The body of the dispatcher's thread.
pub(crate) fn main(core: &Core, dedicated: &Dedicated) {
    let mut batch = Vec::new();
    let mut idle_since = None;
    loop {
        let busy = round(core, dedicated, &mut batch);
        if busy {
            idle_since = None;
            continue;
        }
        if core.desk.lock().is_over() {
            return;
        }
        let now = core.clock.now();
        if now.since(*idle_since.get_or_insert(now)) < dedicated.spin {
            std::hint::spin_loop();
            continue;
        }
        dedicated.bell.sleep_unless(|| {
            dedicated.waiting.load(Ordering::Acquire)
                || dedicated.notices.lock().iter().any(|(_, ring)| !ring.is_empty())
        });
        idle_since = None;
    }
}

/// Completions first, then what arrived ([persephone 2.9]). True when there was something.
fn round(core: &Core, dedicated: &Dedicated, batch: &mut Vec<Submission>) -> bool {
    let mut busy = false;
    {
        let mut notices = dedicated.notices.lock();
        let mut gone = false;
        for (worker, ring) in notices.iter_mut() {
            while let Ok(Notice { req, service }) = ring.pop() {
                busy = true;
                let mail = core.desk.lock().finished(core.clock.now(), *worker, req, service);
                mail.send();
            }
            gone |= ring.is_abandoned();
        }
        if gone {
            // The worker went home; a last notice may have come just before.
            notices.retain(|(_, ring)| !ring.is_abandoned() || !ring.is_empty());
        }
    }
    if dedicated.waiting.swap(false, Ordering::Acquire) {
        let closing = {
            let mut intake = dedicated.intake.lock();
            std::mem::swap(batch, &mut intake.submissions);
            intake.closing.take()
        };
        for Submission { arrived, kind, job, ticket } in batch.drain(..) {
            busy = true;
            let entered = core.desk.lock().arrive(core.clock.now(), arrived, kind, job, ticket);
            core.settle(entered);
        }
        if let Some(drain) = closing {
            busy = true;
            core.close_desk(drain);
        }
    }
    busy
}
