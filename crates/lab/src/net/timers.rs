//! The timers of one host's machine.
//!
//! Deadlines move far more often than they pass, so a change costs a search in a sorted list, and the
//! queue of events keeps at most one live entry for the earliest: an entry that turns out to be early
//! is put back.

use super::clock::Ps;

/// Not armed.
const OFF: Ps = Ps::MAX;

#[derive(Debug)]
pub(super) struct Timers<T> {
    /// By timer. Disarmed ones stay, [`OFF`], until they are many.
    entries: Vec<(T, Ps)>,
    off: usize,
    /// The live entry in the queue of events; [`OFF`] when there is none.
    pub(super) queued: Ps,
}

impl<T: Copy + Ord> Timers<T> {
    pub(super) fn new() -> Self {
        Timers { entries: Vec::new(), off: 0, queued: OFF }
    }

    /// Sets the deadline of `timer`. True if the queue needs an earlier entry than it has.
    #[inline]
    pub(super) fn arm(&mut self, timer: T, at: Ps) -> bool {
        // Never is not a deadline.
        if at == OFF {
            self.disarm(timer);
            return false;
        }
        match self.entries.binary_search_by_key(&timer, |entry| entry.0) {
            Ok(place) => {
                let entry = &mut self.entries[place];
                self.off -= usize::from(entry.1 == OFF);
                entry.1 = at;
            }
            Err(place) => self.insert(place, timer, at),
        }
        if at < self.queued {
            self.queued = at;
            return true;
        }
        false
    }

    fn insert(&mut self, place: usize, timer: T, at: Ps) {
        // A neighbor that is off keeps the order when it gives its place away.
        if let Some(entry) = self.entries.get_mut(place)
            && entry.1 == OFF
        {
            *entry = (timer, at);
            self.off -= 1;
        } else {
            self.entries.insert(place, (timer, at));
        }
    }

    #[inline]
    pub(super) fn disarm(&mut self, timer: T) {
        if let Ok(place) = self.entries.binary_search_by_key(&timer, |entry| entry.0)
            && self.entries[place].1 != OFF
        {
            self.entries[place].1 = OFF;
            self.off += 1;
            if self.off > 16 && self.off > self.entries.len() / 2 {
                self.entries.retain(|entry| entry.1 != OFF);
                self.off = 0;
            }
        }
    }

    /// The entry of the queue at `now` came up: takes the earliest timer if it is due. The caller
    /// then asks [`Timers::requeue`] for the next entry.
    pub(super) fn take_due(&mut self, now: Ps) -> Option<T> {
        self.queued = OFF;
        let &(timer, at) = self.entries.iter().min_by_key(|entry| (entry.1, entry.0))?;
        if at > now {
            return None;
        }
        self.disarm(timer);
        Some(timer)
    }

    /// When the queue needs an entry, if it has none, or only one that is too late for a timer that
    /// was armed before the last one came.
    pub(super) fn requeue(&mut self) -> Option<Ps> {
        let at = self.entries.iter().map(|entry| entry.1).min()?;
        if at >= self.queued {
            return None;
        }
        self.queued = at;
        Some(at)
    }

    /// Forgets all timers; the entry in the queue, if any, finds nothing.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.off = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_timers_come_by_deadline_and_then_by_name() {
        let mut timers = Timers::new();
        assert!(timers.arm(5, 100));
        assert!(!timers.arm(3, 100));
        assert!(timers.arm(9, 50));
        assert_eq!(timers.take_due(100), Some(9));
        assert_eq!(timers.take_due(100), Some(3));
        assert_eq!(timers.take_due(100), Some(5));
        assert_eq!(timers.take_due(100), None);
    }

    #[test]
    fn a_deadline_that_moves_later_leaves_the_queue_alone() {
        let mut timers = Timers::new();
        assert!(timers.arm(1, 10));
        assert!(!timers.arm(1, 30));
        assert_eq!((timers.take_due(10), timers.requeue()), (None, Some(30)));
        timers.disarm(1);
        assert_eq!((timers.take_due(30), timers.requeue()), (None, None));
    }

    #[test]
    fn a_timer_armed_while_another_comes_does_not_delay_a_third() {
        let mut timers = Timers::new();
        assert!(timers.arm(1, 10));
        assert!(!timers.arm(2, 20));
        assert_eq!(timers.take_due(10), Some(1));
        assert!(timers.arm(1, 500));
        assert_eq!(timers.requeue(), Some(20));
        assert_eq!(timers.take_due(20), Some(2));
        assert_eq!(timers.requeue(), Some(500));
    }

    #[test]
    fn many_short_lives_do_not_pile_up() {
        let mut timers = Timers::new();
        for name in 0..100_000u32 {
            timers.arm(name, u64::from(name));
            if name >= 20 {
                timers.disarm(name - 20);
            }
        }
        assert!(timers.entries.capacity() <= 128, "{}", timers.entries.capacity());
    }
}
