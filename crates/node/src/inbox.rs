//! What waits for the machine.

use crate::work::Done;
use cavy_core::Instant;
use cavy_core::family::Node;
use cavy_core::family::message::{Protocol, Talker, Via};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Where an answer goes.
pub(crate) type Answer<P> = Box<dyn FnOnce(<P as Protocol>::Response) + Send>;
/// Looks at a machine between two steps.
pub(crate) type Look<M> = Box<dyn FnOnce(&M) + Send>;

pub(crate) enum Event<M: Talker> {
    Message {
        from: Node,
        via: Via,
        /// Of the channel.
        session: u64,
        /// Not to be heard before; zero: at once.
        due: Instant,
        arrived: Instant,
        message: <M::Protocol as Protocol>::Message,
    },
    /// The channel broke, and has this session now.
    Broken {
        peer: Node,
        session: u64,
    },
    Call {
        request: <M::Protocol as Protocol>::Request,
        answer: Answer<M::Protocol>,
        came: Instant,
    },
    Stored {
        upto: u64,
    },
    Worked(Done),
    Look(Look<M>),
    Stop,
    /// The node cannot go on.
    Fault(String),
}

pub(crate) struct Inbox<M: Talker> {
    queue: Mutex<VecDeque<Event<M>>>,
    more: Condvar,
    closed: AtomicBool,
}

impl<M: Talker> Inbox<M> {
    pub fn new() -> Self {
        Inbox {
            queue: Mutex::new(VecDeque::new()),
            more: Condvar::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub fn push(&self, event: Event<M>) {
        let mut queue = self.queue.lock();
        if self.closed.load(Relaxed) {
            return;
        }
        queue.push_back(event);
        self.more.notify_one();
    }

    /// Puts several in at once, in order.
    pub fn extend(&self, events: &mut Vec<Event<M>>) {
        if !events.is_empty() && !self.closed.load(Relaxed) {
            self.queue.lock().extend(events.drain(..));
            self.more.notify_one();
        }
    }

    /// Nobody takes anything any more: what is there is dropped, and whoever waits for it hears so.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        self.closed.store(true, Relaxed);
        let rest = std::mem::take(&mut *queue);
        drop(queue);
        drop(rest);
    }

    pub fn len(&self) -> usize {
        self.queue.lock().len()
    }

    /// Everything that is there, or what comes until `deadline`.
    pub fn take(&self, into: &mut VecDeque<Event<M>>, deadline: Option<Instant>) {
        let mut queue = self.queue.lock();
        while queue.is_empty() {
            match deadline {
                None => self.more.wait(&mut queue),
                Some(deadline) => {
                    let left = deadline.since(cavy_clock::now()).as_ns();
                    if left == 0 {
                        return;
                    }
                    self.more.wait_for(&mut queue, Duration::from_nanos(left));
                }
            }
        }
        std::mem::swap(&mut *queue, into);
    }
}
