//! Tie-breakers for events of one nanosecond and one class.

use super::{Key, TIE_BITS};
use cavy_core::{Purpose, Stream};

const MASK: u64 = Key::TIES - 1;

/// Hands out one tie-breaker per event, no two alike.
///
/// In order of emission by default. Shuffled by a seed, simultaneous events happen in another
/// order, which a correct model either does not notice or was never promised: a result that moves
/// depends on an order that nobody wrote down. The shuffle is a bijection of the sequence number
/// and not a random draw, so ties stay unique and a run stays exactly repeatable.
#[derive(Clone, Debug)]
pub struct Ties {
    sequence: u64,
    shuffle: Option<Shuffle>,
}

impl Ties {
    /// Events of one nanosecond and class happen in the order in which they were pushed.
    pub fn in_order() -> Self {
        Ties { sequence: 0, shuffle: None }
    }

    /// Events of one nanosecond and class happen in an order that depends on `seed` only.
    pub fn shuffled(seed: u64) -> Self {
        Ties { sequence: 0, shuffle: Some(Shuffle::keyed(seed)) }
    }

    /// The next tie-breaker, for [`Key::new`].
    ///
    /// # Panics
    /// After 2^38 events: the order of more could no longer be exact.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator that panics at its end is none")]
    pub fn next(&mut self) -> u64 {
        let tie = self.sequence;
        assert!(tie < Key::TIES, "a run has at most 2^38 events");
        self.sequence += 1;
        match &self.shuffle {
            None => tie,
            Some(shuffle) => shuffle.apply(tie),
        }
    }
}

/// A keyed permutation of 38-bit integers: each step (xor, odd multiple, folding the upper half
/// onto the lower) is invertible, so the whole is.
#[derive(Clone, Debug)]
struct Shuffle {
    offset: u64,
    factors: [u64; 3],
}

impl Shuffle {
    fn keyed(seed: u64) -> Self {
        let mut stream = Stream::keyed(seed, 0, Purpose::Ties);
        let offset = stream.bits() & MASK;
        let factors = [stream.bits() | 1, stream.bits() | 1, stream.bits() | 1];
        Shuffle { offset, factors }
    }

    #[inline]
    fn apply(&self, tie: u64) -> u64 {
        let mut x = tie ^ self.offset;
        for factor in self.factors {
            x = x.wrapping_mul(factor) & MASK;
            x ^= x >> (TIE_BITS / 2);
        }
        // The last fold leaves the upper half, which decides most comparisons, as the multiple made
        // it; one more multiple brings the folded lower half up.
        x.wrapping_mul(self.factors[0]) & MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_counts_up() {
        let mut ties = Ties::in_order();
        assert_eq!([ties.next(), ties.next(), ties.next()], [0, 1, 2]);
    }

    #[test]
    fn shuffled_never_repeats() {
        let mut ties = Ties::shuffled(7);
        let mut seen: Vec<u64> = (0..100_000).map(|_| ties.next()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 100_000);
        assert!(*seen.last().unwrap() < Key::TIES);
    }

    #[test]
    fn shuffled_orders_neighbors_every_way() {
        // Every order of three consecutive events must come up about one time in six, over seeds
        // and over places in one run alike.
        let mut by_seed = [0u32; 6];
        let mut by_place = [0u32; 6];
        let rank = |t: [u64; 3]| {
            let less = |a: usize, b: usize| usize::from(t[a] < t[b]);
            match less(0, 1) * 4 + less(1, 2) * 2 + less(0, 2) {
                0b111 => 0,
                0b110 => unreachable!("order is transitive"),
                0b101 => 1,
                0b100 => 2,
                0b011 => 3,
                0b010 => 4,
                0b000 => 5,
                _ => unreachable!("order is transitive"),
            }
        };
        for seed in 0..6_000 {
            let mut ties = Ties::shuffled(seed);
            by_seed[rank([ties.next(), ties.next(), ties.next()])] += 1;
        }
        let mut ties = Ties::shuffled(1);
        for _ in 0..6_000 {
            by_place[rank([ties.next(), ties.next(), ties.next()])] += 1;
        }
        for count in by_seed.into_iter().chain(by_place) {
            assert!((850..1150).contains(&count), "{by_seed:?} {by_place:?}");
        }
    }

    #[test]
    #[should_panic(expected = "at most 2^38 events")]
    fn a_run_ends_before_ties_repeat() {
        Ties { sequence: Key::TIES, shuffle: None }.next();
    }
}
