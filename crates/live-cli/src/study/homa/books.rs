//! When each message of a run was answered.

use cavy_core::Instant;
use cavy_live::load::clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No end yet.
const OPEN: u64 = 0;
/// Ended without an answer; the monotonic clock is past this.
const FAILED: u64 = 1;

/// A place for each message.
#[derive(Debug)]
pub struct Books {
    ends: Box<[AtomicU64]>,
    ended: AtomicU64,
}

/// How a message ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Answered then.
    Answered(Instant),
    /// Its transport gave it up.
    Failed,
    /// Not before the run ended.
    Open,
}

impl Books {
    /// For so many messages.
    pub fn new(messages: usize) -> Arc<Books> {
        let ends = (0..messages).map(|_| AtomicU64::new(OPEN)).collect();
        Arc::new(Books { ends, ended: AtomicU64::new(0) })
    }

    /// For message `index`.
    pub fn ticket(self: &Arc<Books>, index: usize) -> Ticket {
        Ticket { books: Arc::clone(self), index, used: false }
    }

    /// How many have ended, either way.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// How message `index` ended.
    pub fn end(&self, index: usize) -> End {
        match self.ends.get(index).map_or(OPEN, |end| end.load(Ordering::Acquire)) {
            OPEN => End::Open,
            FAILED => End::Failed,
            ns => End::Answered(Instant::from_ns(ns)),
        }
    }

    fn write(&self, index: usize, value: u64) {
        let Some(end) = self.ends.get(index) else { return };
        let first = end.compare_exchange(OPEN, value, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            self.ended.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// The right to say once how a message ended. Dropped, it has failed.
#[derive(Debug)]
pub struct Ticket {
    books: Arc<Books>,
    index: usize,
    used: bool,
}

impl Ticket {
    /// The answer is there, now.
    pub fn answered(mut self) {
        self.used = true;
        self.books.write(self.index, clock::now().as_ns());
    }

    /// Answered, if so.
    pub fn end(self, answered: bool) {
        if answered {
            self.answered();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.used {
            self.books.write(self.index, FAILED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_ends_once() {
        let books = Books::new(3);
        books.ticket(0).answered();
        drop(books.ticket(1));
        assert!(matches!(books.end(0), End::Answered(_)));
        assert_eq!((books.end(1), books.end(2), books.ended()), (End::Failed, End::Open, 2));
        books.ticket(1).answered();
        assert_eq!((books.end(1), books.ended()), (End::Failed, 2));
    }
}
