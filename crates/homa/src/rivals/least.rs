//! The slot with the least key: a binary heap that knows where each slot is, so that keys change
//! and slots leave in logarithmic time.

use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;

/// Slots by key. Ties must be broken by the key, or by the slot when it is part of the key.
#[derive(Clone, Debug)]
pub struct Least<K> {
    heap: Vec<(K, u32)>,
    /// Where each slot is in the heap.
    at: Vec<u32>,
}

impl<K> Default for Least<K> {
    fn default() -> Self {
        Least { heap: Vec::new(), at: Vec::new() }
    }
}

impl<K: Copy + Ord> Least<K> {
    /// The slot with the least key.
    #[inline]
    pub fn peek(&self) -> Option<u32> {
        self.heap.first().map(|&(_, slot)| slot)
    }

    /// How many slots are in.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Is no slot in?
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Is `slot` in?
    pub fn contains(&self, slot: u32) -> bool {
        self.at.get(slot as usize).is_some_and(|&at| at != ABSENT)
    }

    /// Puts `slot` in under `key`, or changes its key.
    pub fn set(&mut self, slot: u32, key: K) {
        if self.at.len() <= slot as usize {
            self.at.resize(slot as usize + 1, ABSENT);
        }
        let at = self.at[slot as usize];
        let at = if at == ABSENT {
            self.heap.push((key, slot));
            self.heap.len() - 1
        } else {
            self.heap[at as usize].0 = key;
            at as usize
        };
        self.at[slot as usize] = at as u32;
        let at = self.rise(at);
        self.sink(at);
    }

    /// Takes `slot` out, if it is in.
    pub fn remove(&mut self, slot: u32) {
        if !self.contains(slot) {
            return;
        }
        let at = core::mem::replace(&mut self.at[slot as usize], ABSENT) as usize;
        self.heap.swap_remove(at);
        if let Some(&(_, moved)) = self.heap.get(at) {
            self.at[moved as usize] = at as u32;
            let at = self.rise(at);
            self.sink(at);
        }
    }

    fn rise(&mut self, mut at: usize) -> usize {
        while at > 0 && self.heap[at].0 < self.heap[(at - 1) / 2].0 {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        at
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child].0) else { return };
            if self.heap[at].0 <= self.heap[least].0 {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.at[self.heap[a].1 as usize] = a as u32;
        self.at[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use cavy_core::{Purpose, Stream};

    #[test]
    fn it_finds_the_least_key() {
        let mut rng = Stream::keyed(1, 0, Purpose::Test);
        let (mut heap, mut model) = (Least::default(), BTreeMap::new());
        for _ in 0..20_000 {
            let slot = rng.below(40) as u32;
            if rng.below(3) == 0 {
                heap.remove(slot);
                model.remove(&slot);
            } else {
                let key = (rng.below(100), slot);
                heap.set(slot, key);
                model.insert(slot, key);
            }
            let least = model.iter().min_by_key(|&(_, key)| *key).map(|(slot, _)| *slot);
            assert_eq!(heap.peek(), least);
            assert_eq!(heap.len(), model.len());
        }
    }
}
