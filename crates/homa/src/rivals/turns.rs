//! Slots that take turns, one packet each.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A round robin. Every slot is in at most once.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    queue: VecDeque<u32>,
    waits: Vec<bool>,
}

impl Turns {
    /// Whose turn it is.
    #[inline]
    pub fn front(&self) -> Option<u32> {
        self.queue.front().copied()
    }

    /// Is `slot` in?
    pub fn contains(&self, slot: u32) -> bool {
        self.waits.get(slot as usize).is_some_and(|&waits| waits)
    }

    /// How many slots are in.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Is no slot in?
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Gives `slot` a turn after all others, unless it has one coming.
    pub fn join(&mut self, slot: u32) {
        if self.waits.len() <= slot as usize {
            self.waits.resize(slot as usize + 1, false);
        }
        if !core::mem::replace(&mut self.waits[slot as usize], true) {
            self.queue.push_back(slot);
        }
    }

    /// Ends the turn at hand.
    pub fn pass(&mut self) {
        if let Some(slot) = self.queue.pop_front() {
            self.waits[slot as usize] = false;
        }
    }

    /// Takes `slot` out, if it is in.
    pub fn leave(&mut self, slot: u32) {
        if self.contains(slot) {
            self.waits[slot as usize] = false;
            self.queue.retain(|&other| other != slot);
        }
    }
}
