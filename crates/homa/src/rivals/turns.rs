//! Slots that take turns, one packet each: all alike in [`Turns`], by level in [`Lanes`].

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

/// A round robin for each level; the highest level with a slot in it goes first. Every slot is in
/// at most one.
#[derive(Clone, Debug, Default)]
pub struct Lanes([Turns; 8]);

impl Lanes {
    /// The level that goes first, and whose turn it is there.
    #[inline]
    pub fn front(&self) -> Option<(u8, u32)> {
        let fronts = self.0.iter().enumerate().rev();
        fronts.filter_map(|(level, turns)| Some((level as u8, turns.front()?))).next()
    }

    /// Is `slot` in?
    pub fn contains(&self, slot: u32) -> bool {
        self.0.iter().any(|turns| turns.contains(slot))
    }

    /// How many slots are in.
    pub fn len(&self) -> usize {
        self.0.iter().map(Turns::len).sum()
    }

    /// Is no slot in?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives `slot` a turn at `level` after all others there, unless it has one coming; takes it
    /// out of any other level.
    pub fn join(&mut self, slot: u32, level: u8) {
        for (other, turns) in self.0.iter_mut().enumerate() {
            if other == usize::from(level) {
                turns.join(slot);
            } else {
                turns.leave(slot);
            }
        }
    }

    /// Ends the turn at hand at `level`.
    pub fn pass(&mut self, level: u8) {
        self.0[usize::from(level)].pass();
    }

    /// Takes `slot` out, if it is in.
    pub fn leave(&mut self, slot: u32) {
        self.0.iter_mut().for_each(|turns| turns.leave(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_level_goes_first_and_takes_turns_within() {
        let mut lanes = Lanes::default();
        lanes.join(1, 2);
        lanes.join(2, 7);
        lanes.join(3, 7);
        assert_eq!(lanes.front(), Some((7, 2)));
        lanes.pass(7);
        lanes.join(2, 7);
        assert_eq!(lanes.front(), Some((7, 3)));
        lanes.join(3, 0);
        lanes.leave(2);
        assert_eq!((lanes.front(), lanes.len()), (Some((2, 1)), 2));
        lanes.pass(2);
        assert_eq!(lanes.front(), Some((0, 3)));
        assert!(lanes.contains(3) && !lanes.contains(1));
    }
}
