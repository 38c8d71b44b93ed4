//! Binary heaps of slots whose keys change: the order of [homa 2.4] rule 2 and of [homa 2.7].
//!
//! A heap owns its entries; where each slot stands is kept in [`Places`], which several heaps may
//! share as long as a slot is in one of them at a time.

use alloc::vec::Vec;

/// Smaller goes first.
pub(crate) type Key = u128;

const NOWHERE: u32 = u32::MAX;

/// Where each slot stands in its heap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Vec<u32>);

impl Places {
    #[inline]
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.of(slot).is_some()
    }

    #[inline]
    fn of(&self, slot: u32) -> Option<usize> {
        self.0.get(slot as usize).filter(|&&at| at != NOWHERE).map(|&at| at as usize)
    }

    #[inline]
    fn set(&mut self, slot: u32, at: u32) {
        let index = slot as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, NOWHERE);
        }
        self.0[index] = at;
    }
}

/// The smallest key on top.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    entries: Vec<(Key, u32)>,
}

impl Heap {
    #[inline]
    pub(crate) fn peek(&self) -> Option<(Key, u32)> {
        self.entries.first().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All entries, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, u32)> + '_ {
        self.entries.iter().copied()
    }

    /// Inserts `slot`, or gives it a new key.
    #[inline]
    pub(crate) fn set(&mut self, places: &mut Places, slot: u32, key: Key) {
        match places.of(slot) {
            None => {
                let at = self.entries.len();
                self.entries.push((key, slot));
                places.set(slot, at as u32);
                self.rise(places, at);
            }
            Some(at) => {
                self.entries[at].0 = key;
                self.settle(places, at);
            }
        }
    }

    /// Takes `slot` out; nothing happens when it is not in.
    #[inline]
    pub(crate) fn remove(&mut self, places: &mut Places, slot: u32) {
        let Some(at) = places.of(slot) else { return };
        places.set(slot, NOWHERE);
        self.entries.swap_remove(at);
        if let Some(&(_, moved)) = self.entries.get(at) {
            places.set(moved, at as u32);
            self.settle(places, at);
        }
    }

    #[inline]
    fn settle(&mut self, places: &mut Places, at: usize) {
        let at = self.rise(places, at);
        self.sink(places, at);
    }

    #[inline]
    fn rise(&mut self, places: &mut Places, mut at: usize) -> usize {
        while at > 0 {
            let above = (at - 1) / 2;
            if self.entries[above].0 <= self.entries[at].0 {
                break;
            }
            self.swap(places, at, above);
            at = above;
        }
        at
    }

    #[inline]
    fn sink(&mut self, places: &mut Places, mut at: usize) {
        loop {
            let mut least = at;
            for below in [2 * at + 1, 2 * at + 2] {
                if below < self.entries.len() && self.entries[below].0 < self.entries[least].0 {
                    least = below;
                }
            }
            if least == at {
                return;
            }
            self.swap(places, at, least);
            at = least;
        }
    }

    #[inline]
    fn swap(&mut self, places: &mut Places, a: usize, b: usize) {
        self.entries.swap(a, b);
        places.set(self.entries[a].1, a as u32);
        places.set(self.entries[b].1, b as u32);
    }

    /// Asserts the heap's order and that the places agree.
    pub(crate) fn check(&self, places: &Places) {
        for (at, &(key, slot)) in self.entries.iter().enumerate() {
            assert!(at == 0 || self.entries[(at - 1) / 2].0 <= key, "the heap is out of order");
            assert_eq!(places.of(slot), Some(at), "slot {slot} is misplaced");
        }
    }
}
