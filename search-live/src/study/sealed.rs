//! Search over encrypted records, as far as its cost goes: the source's application `[roar 4]`.
//!
//! A record is a keyed Bloom filter of its words, made with a number of its own, so that equal
//! words of two records set different bits. Whoever asks for a word sends what the key makes of it;
//! the server tests every record with that, and learns neither the word nor those of the records.
//! No index is possible, so that a sub-query takes what its records take.

use cavy_search::ring::Slice;
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;

/// Bits that a word sets.
const TESTS: usize = 10;
/// Words of 64 bits of a filter: 256 bytes.
const WORDS: usize = 32;

/// What the key makes of a word. It tells nothing about the word to whoever lacks the key.
#[derive(Clone, Copy, Debug)]
pub struct Trapdoor([u64; TESTS]);

/// SipHash of two numbers.
fn hash(key: u64, number: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(key);
    hasher.write_u64(number);
    hasher.finish()
}

impl Trapdoor {
    /// Of a word, by whoever has the key.
    pub fn new(key: u64, word: &str) -> Trapdoor {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(key);
        hasher.write(word.as_bytes());
        let word = hasher.finish();
        Trapdoor(std::array::from_fn(|test| hash(key ^ word, test as u64)))
    }

    fn bit(&self, test: usize, record: u64) -> (usize, u64) {
        let bit = hash(self.0[test], record) as usize % (64 * WORDS);
        (bit / 64, 1 << (bit % 64))
    }
}

/// Records in the order of the ring, as a server has them.
#[derive(Debug, Default)]
pub struct Sealed {
    rings: Vec<u64>,
    filters: Vec<[u64; WORDS]>,
}

impl Sealed {
    /// Seals records: where each is on the ring, and its words.
    pub fn new<'a>(key: u64, mut records: Vec<(u64, Vec<&'a str>)>) -> Sealed {
        records.sort_unstable_by_key(|(ring, _)| *ring);
        let filter = |(ring, words): &(u64, Vec<&'a str>)| {
            let mut filter = [0; WORDS];
            for word in words {
                let door = Trapdoor::new(key, word);
                for (word, bit) in (0..TESTS).map(|test| door.bit(test, *ring)) {
                    filter[word] |= bit;
                }
            }
            filter
        };
        let filters = records.iter().map(filter).collect();
        Sealed { rings: records.iter().map(|(ring, _)| *ring).collect(), filters }
    }

    /// The records of a slice: one interval, and a second one where the slice goes around zero.
    pub fn within(&self, slice: Slice) -> [Range<usize>; 2] {
        let upto = |id: u64| self.rings.partition_point(|ring| *ring <= id);
        let (lo, hi) = (upto(slice.lo), upto(slice.hi));
        match slice.lo < slice.hi {
            true => [lo..hi, 0..0],
            false => [0..hi, lo..self.rings.len()],
        }
    }

    /// Records of a slice that have the word, and a few that seem to. Every record takes all tests,
    /// so that what it takes says nothing about it.
    pub fn scan(&self, slice: Slice, door: &Trapdoor) -> Vec<u64> {
        let mut found = Vec::new();
        for at in self.within(slice).into_iter().flatten() {
            let (ring, filter) = (self.rings[at], &self.filters[at]);
            let tests = (0..TESTS).map(|test| door.bit(test, ring));
            let hits = tests.filter(|(word, bit)| filter[*word] & bit != 0).count();
            if hits == TESTS {
                found.push(ring);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_key_finds_what_has_the_word_and_nobody_else_does() {
        let words = ["ring", "arc", "slice", "server"];
        let records: Vec<(u64, Vec<&str>)> =
            (0..4_000_u64).map(|n| (hash(3, n), vec![words[n as usize % 4], "all"])).collect();
        let sealed = Sealed::new(7, records.clone());
        let all = Slice::new(5, 5);
        let having: Vec<u64> =
            records.iter().filter(|(_, words)| words[0] == "arc").map(|(ring, _)| *ring).collect();
        let found = sealed.scan(all, &Trapdoor::new(7, "arc"));
        assert!(having.iter().all(|ring| found.contains(ring)), "none is missed");
        assert!(found.len() < having.len() + 5, "{} of {}", found.len(), having.len());
        assert_eq!(sealed.scan(all, &Trapdoor::new(8, "arc")), [] as [u64; 0], "another key");
        // Slices that tile the ring find each record once.
        let cuts = [1 << 60, 1 << 62, 3 << 62, u64::MAX - 9];
        let slices = (0..4).map(|at| Slice::new(cuts[at], cuts[(at + 1) % 4]));
        let mut parts: Vec<u64> =
            slices.flat_map(|slice| sealed.scan(slice, &Trapdoor::new(7, "all"))).collect();
        parts.sort_unstable();
        let mut every: Vec<u64> = records.iter().map(|(ring, _)| *ring).collect();
        every.sort_unstable();
        assert_eq!(parts, every);
    }
}
