//! A set of numbers that fills from below.
//!
//! Packets of a message that came in, packets that were acknowledged, messages of a peer that are
//! over: all of these fill roughly in order. What is complete costs one number, what is ahead of
//! the first gap one bit each.

use alloc::collections::VecDeque;

/// All numbers below [`Received::next`], and some above.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Received {
    next: u32,
    /// Bits of the numbers from `next / 64 * 64` on. Bits below `next` mean nothing.
    words: VecDeque<u64>,
    above: u32,
}

impl Received {
    /// The smallest number that is not in the set.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// How many numbers are in the set.
    pub fn count(&self) -> u32 {
        self.next + self.above
    }

    /// Is `number` in the set?
    pub fn contains(&self, number: u32) -> bool {
        if number < self.next {
            return true;
        }
        let word = (number / 64 - self.next / 64) as usize;
        self.words.get(word).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Puts `number` in the set. False when it was there.
    pub fn insert(&mut self, number: u32) -> bool {
        if self.contains(number) {
            return false;
        }
        if number == self.next && self.above == 0 {
            self.skip_to(number + 1);
            return true;
        }
        let word = (number / 64 - self.next / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (number % 64);
        self.above += 1;
        self.settle();
        true
    }

    /// Puts all numbers below `floor` in the set.
    pub fn fill_to(&mut self, floor: u32) {
        if floor <= self.next {
            return;
        }
        self.above -= self.count_between(floor);
        self.skip_to(floor);
        self.settle();
    }

    /// The numbers `last - 63` to `last`, as bits: bit k for `last - k`.
    pub fn bits_down_from(&self, last: u32) -> u64 {
        // All below `next`, and below zero nothing.
        let before_first = 63 - last.min(63);
        let all_below = last.saturating_sub(self.next.wrapping_sub(1));
        let complete =
            if self.next == 0 { 0 } else { u64::MAX.checked_shl(all_below).unwrap_or(0) };
        let at = last / 64 * 64;
        let shift = last % 64;
        let (low, high) = (self.word(at.checked_sub(64)), self.word(Some(at)));
        // `last` at the top, so that reversing gives it bit 0.
        let window = high << (63 - shift) | (low >> shift) >> 1;
        (window.reverse_bits() | complete) << before_first >> before_first
    }

    /// The bits of the 64 numbers from `start` on; those below `next` may be missing.
    fn word(&self, start: Option<u32>) -> u64 {
        let word = start.and_then(|start| (start / 64).checked_sub(self.next / 64));
        word.and_then(|word| self.words.get(word as usize).copied()).unwrap_or(0)
    }

    /// Makes the set empty; it keeps its memory.
    pub fn clear(&mut self) {
        self.next = 0;
        self.words.clear();
        self.above = 0;
    }

    /// How many numbers from `next` to below `floor` are in the set.
    fn count_between(&self, floor: u32) -> u32 {
        let base = self.next / 64 * 64;
        let in_word = |(at, word): (usize, &u64)| {
            let start = base + at as u32 * 64;
            let from = self.next.saturating_sub(start);
            let to = floor.saturating_sub(start);
            (word & below(to) & !below(from)).count_ones()
        };
        self.words.iter().enumerate().map(in_word).sum()
    }

    fn skip_to(&mut self, next: u32) {
        let words = (next / 64 - self.next / 64) as usize;
        self.words.drain(..words.min(self.words.len()));
        self.next = next;
    }

    /// Moves `next` over the numbers that are there.
    fn settle(&mut self) {
        while let Some(&word) = self.words.front() {
            let run = (word >> (self.next % 64)).trailing_ones();
            if run == 0 {
                return;
            }
            self.above -= run;
            self.skip_to(self.next + run);
        }
    }
}

/// The lowest `count` bits.
fn below(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use cavy_core::{Purpose, Stream};

    /// Against a set of the standard library, for many random histories.
    #[test]
    fn it_is_a_set() {
        for seed in 0..200 {
            let mut rng = Stream::keyed(seed, 0, Purpose::Test);
            let spread = 1 + rng.below(300);
            let (mut set, mut model) = (Received::default(), BTreeSet::new());
            for step in 0..400 {
                if rng.below(40) == 0 {
                    let floor = set.next() + rng.below(150) as u32;
                    set.fill_to(floor);
                    model.extend(0..floor);
                } else {
                    let number = set.next() + rng.below(spread) as u32;
                    assert_eq!(set.insert(number), model.insert(number), "seed {seed} step {step}");
                }
                let next = (0..).find(|n| !model.contains(n)).expect("there is one");
                assert_eq!(set.next(), next, "seed {seed} step {step}");
                assert_eq!(set.count() as usize, model.len(), "seed {seed} step {step}");
                let last = next + rng.below(spread) as u32;
                let bits = set.bits_down_from(last);
                for k in 0..64u32 {
                    let there = last.checked_sub(k).is_some_and(|n| model.contains(&n));
                    assert_eq!(bits >> k & 1 == 1, there, "seed {seed} step {step} bit {k}");
                }
            }
        }
    }
}
