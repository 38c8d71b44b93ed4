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

impl<M: Talker> Event<M> {
    /// When the machine must hear of it; zero: at once.
    fn due(&self) -> Instant {
        match self {
            Event::Message { due, .. } => *due,
            _ => Instant::ZERO,
        }
    }
}

struct Queue<M: Talker> {
    events: VecDeque<Event<M>>,
    /// Of the event that is due first.
    earliest: Instant,
    /// The machine sleeps until then; zero while it is awake.
    asleep_until: Instant,
}

impl<M: Talker> Queue<M> {
    /// True when the machine must be woken: something is due before it wakes by itself. A cluster
    /// whose delays are in the carrier would otherwise wake for each message twice, once as it
    /// arrives and once as it is due.
    fn put(&mut self, event: Event<M>) -> bool {
        let due = event.due();
        self.earliest = self.earliest.min(due);
        self.events.push_back(event);
        due < self.asleep_until
    }
}

pub(crate) struct Inbox<M: Talker> {
    queue: Mutex<Queue<M>>,
    more: Condvar,
    closed: AtomicBool,
}

impl<M: Talker> Inbox<M> {
    pub fn new() -> Self {
        let (events, earliest, asleep_until) = (VecDeque::new(), Instant::NEVER, Instant::ZERO);
        Inbox {
            queue: Mutex::new(Queue { events, earliest, asleep_until }),
            more: Condvar::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub fn push(&self, event: Event<M>) {
        let mut queue = self.queue.lock();
        if self.closed.load(Relaxed) {
            return;
        }
        if queue.put(event) {
            self.more.notify_one();
        }
    }

    /// Puts several in at once, in order.
    pub fn extend(&self, events: &mut Vec<Event<M>>) {
        if !events.is_empty() && !self.closed.load(Relaxed) {
            let mut queue = self.queue.lock();
            let mut wake = false;
            for event in events.drain(..) {
                wake |= queue.put(event);
            }
            if wake {
                self.more.notify_one();
            }
        }
    }

    /// Nobody takes anything any more: what is there is dropped, and whoever waits for it hears so.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        self.closed.store(true, Relaxed);
        let rest = std::mem::take(&mut queue.events);
        drop(queue);
        drop(rest);
    }

    pub fn len(&self) -> usize {
        self.queue.lock().events.len()
    }

    /// Whoever waits goes on, though nothing is there for it.
    pub fn wake(&self) {
        self.queue.lock().earliest = Instant::ZERO;
        self.more.notify_one();
    }

    /// Waits until something that is there is due, or until `deadline`.
    pub fn wait(&self, deadline: Option<Instant>) {
        let deadline = deadline.unwrap_or(Instant::NEVER);
        let mut queue = self.queue.lock();
        loop {
            let until = deadline.min(queue.earliest);
            if until == Instant::NEVER {
                queue.asleep_until = until;
                self.more.wait(&mut queue);
                continue;
            }
            let left = until.since(cavy_clock::now()).as_ns();
            if left == 0 {
                break;
            }
            queue.asleep_until = until;
            self.more.wait_for(&mut queue, Duration::from_nanos(left));
        }
        queue.asleep_until = Instant::ZERO;
    }

    /// Everything that is there.
    pub fn take(&self, into: &mut VecDeque<Event<M>>) {
        let mut queue = self.queue.lock();
        queue.earliest = Instant::NEVER;
        std::mem::swap(&mut queue.events, into);
    }
}
