//! How one thread hands something to another: a [`Mailbox`] for a worker that sleeps, a [`Bell`]
//! for one that polls and then sleeps.
//!
//! `tests/loom` compiles this file with loom's locks, and tries every interleaving.

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, Thread, current, fence, lock, park, wait};

/// Room for one letter, and one reader who sleeps until it is there.
#[derive(Debug)]
pub struct Mailbox<T> {
    letter: Mutex<Option<T>>,
    arrived: Condvar,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox { letter: Mutex::new(None), arrived: Condvar::new() }
    }
}

impl<T> Mailbox<T> {
    /// Leaves a letter and wakes the reader. One letter at a time: whoever writes knows that the
    /// last one was taken, and an unread letter is returned, replaced by the new one.
    pub fn put(&self, letter: T) -> Option<T> {
        let unread = lock(&self.letter).replace(letter);
        self.arrived.notify_one();
        unread
    }

    /// Sleeps until there is a letter and takes it.
    pub fn take(&self) -> T {
        let mut guard = lock(&self.letter);
        loop {
            match guard.take() {
                Some(letter) => return letter,
                None => guard = wait(&self.arrived, guard),
            }
        }
    }
}

/// Wakes one sleeper who polls queues that have no lock of their own.
///
/// The sleeper says that it goes to sleep, looks once more, and parks; the ringer queues, then asks
/// whether the sleeper said so. The fences order "say, look" against "queue, ask", so at least one
/// of the two sees the other.
#[derive(Debug, Default)]
pub struct Bell {
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl Bell {
    /// Sleeps until rung, unless `ready` already; may return early. One sleeper at a time.
    pub fn sleep_unless(&self, ready: impl FnOnce() -> bool) {
        *lock(&self.sleeper) = Some(current());
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !ready() {
            park();
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the sleeper, if there is one. What it is to see must be queued before.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            let sleeper = lock(&self.sleeper).clone();
            if let Some(thread) = sleeper {
                thread.unpark();
            }
        }
    }
}
