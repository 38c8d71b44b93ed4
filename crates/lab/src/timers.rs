//! The timers of one node's machine, in whatever unit its world counts.
//!
//! Deadlines move far more often than they pass, so a change costs a search in a sorted list, which
//! is cut into blocks so that a new timer moves few others where there are many. Whatever keeps
//! deadlines in order is told of them late: the queue of events has at most one live entry for the
//! earliest, and a heap here at most one live key for each timer, which may be too early. A key or
//! an entry that comes up early is put back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Index, IndexMut};

/// Not armed.
const OFF: u64 = u64::MAX;
/// Dead keys that the heap may have beside twice the timers there are.
const DEAD_MAX: usize = 64;
/// A block of the list has at most so many entries.
const BLOCK_MAX: usize = 512;

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    timer: T,
    /// [`OFF`] when disarmed.
    at: u64,
    /// Its live key in the heap, at most `at`; [`OFF`] when it has none.
    filed: u64,
}

#[derive(Debug)]
pub(crate) struct Timers<T> {
    entries: Entries<T>,
    off: usize,
    /// By deadline and then by timer. A key that is not its timer's `filed` is dead.
    heap: BinaryHeap<Reverse<(u64, T)>>,
    /// The live entry in the queue of events; [`OFF`] when there is none.
    pub(crate) queued: u64,
}

/// By timer. Disarmed ones stay until they are many.
#[derive(Debug)]
struct Entries<T> {
    /// At least one.
    blocks: Vec<Vec<Entry<T>>>,
    /// One for each block but the first: the names in the block are not below it, and those in the
    /// blocks before are. They stand beside each other, so that the search for a block stays in the
    /// cache.
    bounds: Vec<T>,
    len: usize,
}

/// A block, and a place in it.
type Place = (usize, usize);

impl<T: Copy + Ord> Entries<T> {
    fn new() -> Self {
        Entries { blocks: vec![Vec::new()], bounds: Vec::new(), len: 0 }
    }

    #[inline]
    fn find(&self, timer: T) -> Result<Place, Place> {
        let block = match self.bounds.as_slice() {
            [] => 0,
            bounds => bounds.partition_point(|bound| *bound <= timer),
        };
        match self.blocks[block].binary_search_by_key(&timer, |entry| entry.timer) {
            Ok(place) => Ok((block, place)),
            Err(place) => Err((block, place)),
        }
    }

    /// Puts an entry where [`Entries::find`] missed it. True if it took the place of one that is
    /// off.
    fn insert(&mut self, (block, place): Place, entry: Entry<T>) -> bool {
        let entries = &mut self.blocks[block];
        // A neighbor that is off keeps the order when it gives its place away.
        if let Some(off) = entries.get_mut(place)
            && off.at == OFF
        {
            *off = entry;
            return true;
        }
        entries.insert(place, entry);
        self.len += 1;
        if entries.len() > BLOCK_MAX {
            let upper = entries.split_off(BLOCK_MAX / 2);
            self.bounds.insert(block, upper[0].timer);
            self.blocks.insert(block + 1, upper);
        }
        false
    }

    /// Leaves out what is off, and puts blocks together that became short.
    fn tidy(&mut self) {
        for block in &mut self.blocks {
            block.retain(|entry| entry.at != OFF);
        }
        let bounds = std::mem::take(&mut self.bounds);
        let others = self.blocks.split_off(1);
        for (bound, block) in bounds.into_iter().zip(others) {
            match self.blocks.last_mut() {
                Some(last) if block.is_empty() || last.len() + block.len() <= BLOCK_MAX / 2 => {
                    last.extend(block);
                }
                _ => {
                    self.blocks.push(block);
                    self.bounds.push(bound);
                }
            }
        }
        self.len = self.blocks.iter().map(Vec::len).sum();
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<T>> {
        self.blocks.iter_mut().flatten()
    }
}

impl<T> Index<Place> for Entries<T> {
    type Output = Entry<T>;

    fn index(&self, (block, place): Place) -> &Entry<T> {
        &self.blocks[block][place]
    }
}

impl<T> IndexMut<Place> for Entries<T> {
    fn index_mut(&mut self, (block, place): Place) -> &mut Entry<T> {
        &mut self.blocks[block][place]
    }
}

impl<T: Copy + Ord> Timers<T> {
    pub(crate) fn new() -> Self {
        Timers { entries: Entries::new(), off: 0, heap: BinaryHeap::new(), queued: OFF }
    }

    /// Sets the deadline of `timer`. True if the queue needs an earlier entry than it has.
    #[inline]
    pub(crate) fn arm(&mut self, timer: T, at: u64) -> bool {
        // Never is not a deadline.
        if at == OFF {
            self.disarm(timer);
            return false;
        }
        let is_earlier = match self.entries.find(timer) {
            Ok(place) => {
                let entry = &mut self.entries[place];
                self.off -= usize::from(entry.at == OFF);
                entry.at = at;
                let is_earlier = at < entry.filed;
                entry.filed = entry.filed.min(at);
                is_earlier
            }
            Err(place) => {
                let takes_place = self.entries.insert(place, Entry { timer, at, filed: at });
                self.off -= usize::from(takes_place);
                true
            }
        };
        if is_earlier {
            self.heap.push(Reverse((at, timer)));
            self.bury();
        }
        if at < self.queued {
            self.queued = at;
            return true;
        }
        false
    }

    #[inline]
    pub(crate) fn disarm(&mut self, timer: T) {
        if let Ok(place) = self.entries.find(timer)
            && self.entries[place].at != OFF
        {
            self.entries[place].at = OFF;
            self.off += 1;
            if self.off > 16 && self.off > self.entries.len / 2 {
                self.entries.tidy();
                self.off = 0;
            }
        }
    }

    /// Rebuilds the heap when most of its keys are dead.
    fn bury(&mut self) {
        if self.heap.len() <= 2 * self.entries.len + DEAD_MAX {
            return;
        }
        self.heap.clear();
        for entry in self.entries.iter_mut() {
            entry.filed = entry.at;
            if entry.at != OFF {
                self.heap.push(Reverse((entry.at, entry.timer)));
            }
        }
    }

    /// The earliest deadline and its timer, the first by name among equals. All other live keys are
    /// later, and deadlines are no earlier than their keys.
    fn earliest(&mut self) -> Option<(u64, T)> {
        loop {
            let &Reverse((filed, timer)) = self.heap.peek()?;
            match self.entries.find(timer) {
                Ok(place) if self.entries[place].filed == filed => {
                    let at = self.entries[place].at;
                    if at == filed {
                        return Some((at, timer));
                    }
                    self.heap.pop();
                    self.entries[place].filed = at;
                    if at != OFF {
                        self.heap.push(Reverse((at, timer)));
                    }
                }
                _ => {
                    self.heap.pop();
                }
            }
        }
    }

    /// Is the earliest timer due?
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        self.earliest().is_some_and(|(at, _)| at <= now)
    }

    /// The entry of the queue at `now` came up: takes the earliest timer if it is due. The caller
    /// then asks [`Timers::requeue`] for the next entry.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<T> {
        self.queued = OFF;
        let (at, timer) = self.earliest()?;
        if at > now {
            return None;
        }
        self.disarm(timer);
        Some(timer)
    }

    /// When the queue needs an entry, if it has none, or only one that is too late for a timer that
    /// was armed before the last one came.
    pub(crate) fn requeue(&mut self) -> Option<u64> {
        let (at, _) = self.earliest()?;
        if at >= self.queued {
            return None;
        }
        self.queued = at;
        Some(at)
    }

    /// Forgets all timers; the entry in the queue, if any, finds nothing.
    pub(crate) fn clear(&mut self) {
        self.entries = Entries::new();
        self.heap.clear();
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
        assert!(timers.entries.len <= 128, "{}", timers.entries.len);
        assert!(timers.heap.len() <= 256, "{}", timers.heap.len());
    }

    /// Against a list that is searched from end to end.
    #[test]
    fn order_is_that_of_a_search() {
        assert_eq!(blocks_of_a_search(40), 1);
        assert!(blocks_of_a_search(5_000) > 4);
    }

    /// How many blocks there were at most.
    fn blocks_of_a_search(names: u64) -> usize {
        use cavy_core::{Purpose, Stream};
        let mut draws = Stream::keyed(5, 0, Purpose::Test);
        let mut timers = Timers::new();
        let mut list: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
        let (mut now, mut blocks) = (0, 0);
        for _ in 0..50_000 {
            let name = draws.below(names) as u32;
            blocks = blocks.max(timers.entries.blocks.len());
            match draws.below(4) {
                0 => {
                    timers.disarm(name);
                    list.remove(&name);
                }
                1 => {
                    now += draws.below(30);
                    let due = list.iter().map(|(&name, &at)| (at, name)).min();
                    let due = due.filter(|&(at, _)| at <= now).map(|(_, name)| name);
                    assert_eq!(timers.take_due(now), due);
                    if let Some(name) = due {
                        list.remove(&name);
                    }
                    assert_eq!(timers.requeue(), list.values().min().copied());
                }
                _ => {
                    let at = now + draws.below(100);
                    timers.arm(name, at);
                    list.insert(name, at);
                }
            }
        }
        blocks
    }
}
