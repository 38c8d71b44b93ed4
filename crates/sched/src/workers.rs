//! Sets of workers, and who runs what.

use crate::queue::Job;
use alloc::vec::Vec;
use cavy_core::Instant;
use cavy_core::family::cpu::Worker;

const WORDS: usize = 64;

/// The most workers a policy schedules; slots of processor sharing are not workers in this sense.
pub const WORKERS_MAX: u16 = (WORDS * 64) as u16;

/// A set of workers. Iteration and [`WorkerSet::first`] go by ascending number, which is the order
/// of every worker list in the specification ([persephone 2.8]).
///
/// A bit for each worker, and a bit for each word that has any: what is asked of a set costs as
/// much with four thousand workers as with a dozen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerSet {
    /// Bit i is set when word i is not zero.
    filled: u64,
    words: [u64; WORDS],
}

/// The places of the bits of a word, ascending.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        let place = self.0.trailing_zeros() as u16;
        (self.0 != 0).then(|| {
            self.0 &= self.0 - 1;
            place
        })
    }
}

/// The word in which `worker` is.
#[inline]
fn word_of(worker: Worker) -> usize {
    (worker.0 >> 6) as usize & (WORDS - 1)
}

/// The lowest worker of a word that is not zero.
#[inline]
fn lowest(index: usize, word: u64) -> Worker {
    Worker((index * 64) as u16 + word.trailing_zeros() as u16)
}

impl WorkerSet {
    /// Nobody.
    pub const EMPTY: WorkerSet = WorkerSet { filled: 0, words: [0; WORDS] };

    /// Workers `from..to`.
    pub fn range(from: u16, to: u16) -> Self {
        let below = |index: usize, limit: u16| {
            let bits = (limit as usize).saturating_sub(index * 64).min(64);
            if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
        };
        let mut set = Self::EMPTY;
        for (index, word) in set.words.iter_mut().enumerate() {
            *word = below(index, to) & !below(index, from);
            set.filled |= u64::from(*word != 0) << index;
        }
        set
    }

    /// Adds one.
    #[inline]
    pub fn insert(&mut self, worker: Worker) {
        let index = word_of(worker);
        self.words[index] |= 1 << (worker.0 & 63);
        self.filled |= 1 << index;
    }

    /// Takes one out.
    #[inline]
    pub fn remove(&mut self, worker: Worker) {
        let index = word_of(worker);
        self.words[index] &= !(1 << (worker.0 & 63));
        self.filled &= !(u64::from(self.words[index] == 0) << index);
    }

    /// Is it in?
    #[inline]
    pub fn contains(&self, worker: Worker) -> bool {
        self.words[word_of(worker)] >> (worker.0 & 63) & 1 == 1
    }

    /// The lowest worker in both sets.
    #[inline]
    pub fn first_common(&self, other: &WorkerSet) -> Option<Worker> {
        Bits(self.filled & other.filled).find_map(|index| {
            let index = index as usize;
            let both = self.words[index] & other.words[index];
            (both != 0).then(|| lowest(index, both))
        })
    }

    /// The lowest worker.
    #[inline]
    pub fn first(&self) -> Option<Worker> {
        let index = Bits(self.filled).next()? as usize;
        Some(lowest(index, self.words[index]))
    }

    /// The lowest worker from `worker` on.
    #[inline]
    pub fn first_from(&self, worker: Worker) -> Option<Worker> {
        let index = word_of(worker);
        let here = self.words[index] & u64::MAX << (worker.0 & 63);
        if here != 0 {
            return Some(lowest(index, here));
        }
        // Twice, because a shift by 64 is none.
        let index = Bits(self.filled & u64::MAX << index << 1).next()? as usize;
        Some(lowest(index, self.words[index]))
    }

    /// Those in either set.
    pub fn union(&self, other: &WorkerSet) -> WorkerSet {
        let mut set = *self;
        set.filled |= other.filled;
        for (a, b) in set.words.iter_mut().zip(&other.words) {
            *a |= b;
        }
        set
    }

    /// How many.
    #[inline]
    pub fn len(&self) -> u32 {
        Bits(self.filled).map(|index| self.words[index as usize].count_ones()).sum()
    }

    /// Nobody in it?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// All, by ascending number.
    pub fn iter(&self) -> impl Iterator<Item = Worker> + '_ {
        Bits(self.filled).flat_map(|index| {
            let worker = move |bit| Worker(index * 64 + bit);
            Bits(self.words[index as usize]).map(worker)
        })
    }
}

/// What a worker runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// The request.
    pub job: Job,
    /// When it was handed over: the dispatch stamp of [persephone 2.6].
    pub since: Instant,
}

/// The workers of one server: who is free, who runs what.
#[derive(Clone, Debug)]
pub struct Pool {
    count: u16,
    free: WorkerSet,
    /// Of all workers that there ever were.
    running: Vec<Option<Running>>,
}

impl Pool {
    /// `count` free workers, between 1 and [`WORKERS_MAX`].
    pub fn new(count: u16) -> Self {
        assert!((1..=WORKERS_MAX).contains(&count), "{count} workers");
        Pool { count, free: WorkerSet::range(0, count), running: alloc::vec![None; count as usize] }
    }

    /// Workers that may start requests, numbered from 0.
    #[inline]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Those with nothing to do.
    #[inline]
    pub fn free(&self) -> &WorkerSet {
        &self.free
    }

    /// What `worker` runs.
    #[inline]
    pub fn running(&self, worker: Worker) -> Option<&Running> {
        self.running.get(worker.0 as usize)?.as_ref()
    }

    /// Marks `worker` busy with `job`.
    #[inline]
    pub(crate) fn occupy(&mut self, worker: Worker, job: Job, now: Instant) {
        debug_assert!(self.free.contains(worker), "{worker:?} is not free");
        self.free.remove(worker);
        self.running[worker.0 as usize] = Some(Running { job, since: now });
    }

    /// Marks `worker` free and returns what it ran; `None` when it ran nothing, which a peer's
    /// duplicate notice may claim.
    #[inline]
    pub(crate) fn release(&mut self, worker: Worker) -> Option<Running> {
        let ran = self.running.get_mut(worker.0 as usize)?.take()?;
        if worker.0 < self.count {
            self.free.insert(worker);
        }
        Some(ran)
    }

    /// Changes the number of workers; those above finish what they run and are then gone.
    pub(crate) fn resize(&mut self, count: u16) {
        let count = count.clamp(1, WORKERS_MAX);
        if self.running.len() < count as usize {
            self.running.resize(count as usize, None);
        }
        for worker in (0..self.running.len() as u16).map(Worker) {
            if worker.0 < count && self.running[worker.0 as usize].is_none() {
                self.free.insert(worker);
            } else {
                self.free.remove(worker);
            }
        }
        self.count = count;
    }

    /// Asserts that a worker is free exactly when it exists and runs nothing.
    pub(crate) fn check(&self) {
        assert!(self.free.iter().all(|worker| worker.0 < self.count));
        for worker in (0..self.running.len() as u16).map(Worker) {
            let idle = worker.0 < self.count && self.running[worker.0 as usize].is_none();
            assert_eq!(self.free.contains(worker), idle, "{worker:?} of {}", self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use cavy_core::{Purpose, Stream};

    /// Sets of workers do what sets of numbers do, in every word.
    #[test]
    fn a_set_is_a_set_of_numbers() {
        let mut draws = Stream::keyed(1, 0, Purpose::Test);
        let mut pairs = [(WorkerSet::EMPTY, BTreeSet::new()), (WorkerSet::EMPTY, BTreeSet::new())];
        for step in 0..20_000 {
            // Crowded at first, then in all words.
            let most = if step < 4_000 { 70 } else { u64::from(WORKERS_MAX) };
            let number = draws.below(most) as u16;
            let (set, known) = &mut pairs[draws.below(2) as usize];
            if draws.below(5) < 2 {
                set.insert(Worker(number));
                known.insert(number);
            } else {
                set.remove(Worker(number));
                known.remove(&number);
            }
            assert_eq!(set.contains(Worker(number)), known.contains(&number));
            let from = draws.below(most) as u16;
            let next = known.range(from..).next().copied();
            assert_eq!(set.first_from(Worker(from)).map(|worker| worker.0), next);
            let [(a, of_a), (b, of_b)] = &pairs;
            let common = of_a.intersection(of_b).next().copied();
            assert_eq!(a.first_common(b).map(|worker| worker.0), common);
            assert_eq!(a.first().map(|worker| worker.0), of_a.first().copied());
            assert_eq!((a.len() as usize, a.is_empty()), (of_a.len(), of_a.is_empty()));
            if step % 100 == 0 {
                assert!(a.iter().map(|worker| worker.0).eq(of_a.iter().copied()));
                assert!(a.union(b).iter().map(|w| w.0).eq(of_a.union(of_b).copied()));
            }
        }
    }

    #[test]
    fn a_range_has_its_ends() {
        for (from, to) in [(0, 0), (0, 64), (3, 3), (5, 200), (63, 65), (100, WORKERS_MAX)] {
            let set = WorkerSet::range(from, to);
            assert!(set.iter().map(|worker| worker.0).eq(from..to), "{from}..{to}");
            assert_eq!((set.len(), set.is_empty()), (u32::from(to - from), from == to));
        }
        assert_eq!(WorkerSet::range(9, 4), WorkerSet::EMPTY);
        let last = Worker(WORKERS_MAX - 1);
        assert_eq!(WorkerSet::range(0, WORKERS_MAX).first_from(last), Some(last));
    }
}
