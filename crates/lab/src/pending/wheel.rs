//! An exact hierarchical timing wheel: buckets of 4,096 ticks, sorted when their time comes, and no
//! rounding.

use super::heap::Quad;
use super::{Key, Pending};

/// Times that differ in their last so many bits only share a bucket, which is sorted when it is
/// opened. In a network of a hundred hosts, which counts picoseconds, half a dozen events do.
const BUCKET_BITS: u32 = 12;
/// Levels: the first has 4,096 buckets, 17 us in picoseconds, so that what a link and a switch take
/// lies within it and an event is moved once. The others have 1,024 slots each and reach 2^64, so
/// every time has a place and there is no overflow list.
const LEVELS: usize = 5;
/// Bits of a time below the digit of each level.
const BELOW: [u32; LEVELS] = [12, 24, 34, 44, 54];
/// Slots of each level less one.
const MASK: [usize; LEVELS] = [4095, 1023, 1023, 1023, 1023];
/// Where the slots of each level begin.
const FIRST: [usize; LEVELS] = [0, 4096, 5120, 6144, 7168];
const SLOTS: usize = 8192;
const WORD_BITS: usize = 64;
/// The end of a list.
const NIL: u32 = u32::MAX;

/// The pending set for many events: cost hardly depends on how many.
///
/// Invariants between calls, `now` being the time of the last key popped:
/// * An event in the bucket of `now` lies in `front` or in `fresh`.
/// * A later event lies at the level of the highest digit in which its time differs from `now`, in
///   the slot of its own digit there. Every event of a lower level is therefore earlier than every
///   event of a higher one, and within a level slots are in order of time.
/// * `filled` has a bit a level, `words_filled` a bit for each 64 slots and `slots_filled` a bit a
///   slot, set exactly where a list is not empty.
///
/// Lists are in no particular order. Opening one of the first level sorts it into `front`; opening
/// one of a higher level moves `now` to where its slot starts and deals its events out again, each
/// to a lower level than before. A list of one event needs neither: that event is the smallest.
/// What is pushed into the bucket that is open goes to `fresh`, a heap, so that a thousand
/// simultaneous events do not cost a thousand insertions into a sorted list.
#[derive(Clone, Debug)]
pub struct Wheel {
    now: u64,
    len: usize,
    filled: u32,
    words_filled: [u64; LEVELS],
    slots_filled: [u64; SLOTS / WORD_BITS],
    heads: Box<[u32; SLOTS]>,
    /// Slab of list nodes; nodes not in a list are chained from `free`.
    nodes: Vec<Node>,
    free: u32,
    /// Descending, so that the next one is at the end.
    front: Vec<u128>,
    fresh: Quad<u128>,
}

/// A key in two halves, which packs with its link into 24 bytes where a u128 would take 32.
#[derive(Clone, Copy, Debug)]
struct Node {
    time: u64,
    rest: u64,
    next: u32,
}

impl Default for Wheel {
    fn default() -> Self {
        Self::new()
    }
}

impl Wheel {
    /// An empty set at time zero.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty set with room for `events`.
    pub fn with_capacity(events: usize) -> Self {
        Wheel {
            now: 0,
            len: 0,
            filled: 0,
            words_filled: [0; LEVELS],
            slots_filled: [0; SLOTS / WORD_BITS],
            heads: Box::new([NIL; SLOTS]),
            nodes: Vec::with_capacity(events),
            free: NIL,
            front: Vec::new(),
            fresh: Quad::default(),
        }
    }

    /// Are both times in one bucket?
    #[inline]
    fn shares_bucket(a: u64, b: u64) -> bool {
        (a ^ b) >> BUCKET_BITS == 0
    }

    /// The head of the list where an event at `time` belongs, which becomes `node`; what it was.
    /// The time must be in a later bucket than `now`.
    #[inline]
    fn enlist(&mut self, time: u64, node: u32) -> u32 {
        let apart = time ^ self.now;
        if apart >> BELOW[1] != 0 {
            return self.enlist_far(time, node);
        }
        let slot = (time >> BELOW[0]) as usize & MASK[0];
        self.slots_filled[slot / WORD_BITS] |= 1 << (slot % WORD_BITS);
        self.words_filled[0] |= 1 << (slot / WORD_BITS);
        self.filled |= 1;
        std::mem::replace(&mut self.heads[slot], node)
    }

    /// The same beyond the first level.
    fn enlist_far(&mut self, time: u64, node: u32) -> u32 {
        let highest = 63 - (time ^ self.now).leading_zeros() as usize;
        let level = 1 + (highest - BELOW[1] as usize) / 10;
        let place = (time >> BELOW[level]) as usize & MASK[level];
        let slot = FIRST[level] + place;
        self.slots_filled[slot / WORD_BITS] |= 1 << (slot % WORD_BITS);
        self.words_filled[level] |= 1 << (place / WORD_BITS);
        self.filled |= 1 << level;
        std::mem::replace(&mut self.heads[slot], node)
    }

    /// The level and slot of the earliest list, if there is one.
    #[inline]
    fn earliest(&self) -> Option<(usize, usize)> {
        if self.filled == 0 {
            return None;
        }
        let level = self.filled.trailing_zeros() as usize;
        let word = FIRST[level] / WORD_BITS + self.words_filled[level].trailing_zeros() as usize;
        Some((level, word * WORD_BITS + self.slots_filled[word].trailing_zeros() as usize))
    }

    /// Takes the list of `slot` at `level` out; its first node.
    #[inline]
    fn take(&mut self, level: usize, slot: usize) -> u32 {
        let word = slot / WORD_BITS;
        self.slots_filled[word] &= !(1 << (slot % WORD_BITS));
        if self.slots_filled[word] == 0 {
            self.words_filled[level] &= !(1 << (word - FIRST[level] / WORD_BITS));
            self.filled &= !(u32::from(self.words_filled[level] == 0) << level);
        }
        std::mem::replace(&mut self.heads[slot], NIL)
    }

    /// The nodes of the list from `head` on.
    fn list(&self, head: u32) -> impl Iterator<Item = Node> + '_ {
        let first = self.nodes.get(head as usize).copied();
        std::iter::successors(first, |node| self.nodes.get(node.next as usize).copied())
    }

    /// Takes the smallest key when `front` and `fresh` are empty, opening the earliest list of each
    /// level on the way down to it.
    #[inline]
    fn open(&mut self) -> Option<Key> {
        loop {
            let (level, slot) = self.earliest()?;
            let head = self.take(level, slot);
            let first = self.nodes[head as usize];
            if first.next == NIL {
                self.now = first.time;
                self.len -= 1;
                self.release(head);
                return Some(Key::joined(first.time, first.rest));
            }
            // The slot's start: its digit and those above, then zeros.
            self.now = first.time >> BELOW[level] << BELOW[level];
            let mut at = head;
            while at != NIL {
                let node = self.nodes[at as usize];
                if level == 0 || Self::shares_bucket(node.time, self.now) {
                    self.front.push(Key::joined(node.time, node.rest).0);
                    self.release(at);
                } else {
                    self.nodes[at as usize].next = self.enlist(node.time, at);
                }
                at = node.next;
            }
            self.front.sort_unstable_by(|a, b| b.cmp(a));
            if let Some(key) = self.front.pop() {
                return Some(self.came(Key(key)));
            }
        }
    }

    /// `key` is taken out.
    #[inline]
    fn came(&mut self, key: Key) -> Key {
        self.len -= 1;
        self.now = key.time_ns();
        key
    }

    #[inline]
    fn release(&mut self, node: u32) {
        self.nodes[node as usize].next = self.free;
        self.free = node;
    }
}

impl Pending for Wheel {
    /// # Panics
    /// When `key` is earlier than the last key popped.
    #[inline]
    fn push(&mut self, key: Key) {
        let (time, rest) = (key.time_ns(), key.rest());
        assert!(time >= self.now, "an event at {time} ns is pushed at {} ns", self.now);
        self.len += 1;
        if Self::shares_bucket(time, self.now) {
            self.fresh.push(key.0);
            return;
        }
        let free = self.free;
        if (free as usize) < self.nodes.len() {
            let next = self.enlist(time, free);
            let node = &mut self.nodes[free as usize];
            self.free = node.next;
            *node = Node { time, rest, next };
        } else {
            let next = self.enlist(time, self.nodes.len() as u32);
            self.nodes.push(Node { time, rest, next });
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Key> {
        let key = match (self.front.last().copied(), self.fresh.peek()) {
            (None, None) => return self.open(),
            (Some(dealt), fresh) if fresh.is_none_or(|fresh| dealt < fresh) => self.front.pop(),
            _ => self.fresh.pop(),
        };
        key.map(|key| self.came(Key(key)))
    }

    /// Looks through the whole earliest list, so it is for the occasional question and not for
    /// every event: a loop pops, and compares afterward.
    fn peek(&self) -> Option<Key> {
        let open = self.front.last().copied().into_iter().chain(self.fresh.peek()).min();
        if let Some(key) = open {
            return Some(Key(key));
        }
        let (_, slot) = self.earliest()?;
        let list = self.list(self.heads[slot]);
        list.map(|node| Key::joined(node.time, node.rest)).min()
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn clear(&mut self) {
        (self.now, self.len, self.filled, self.free) = (0, 0, 0, NIL);
        self.words_filled = [0; LEVELS];
        self.slots_filled = [0; SLOTS / WORD_BITS];
        self.heads.fill(NIL);
        self.nodes.clear();
        self.front.clear();
        self.fresh.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Class, Ties};
    use super::*;
    use cavy_core::{Instant, Purpose, Stream};

    fn key(at: u64, tie: u64) -> Key {
        Key::new(Instant::from_ns(at), Class::Arrival, tie, 0)
    }

    #[test]
    fn the_ends_of_time_have_a_place() {
        let mut wheel = Wheel::new();
        for (tie, at) in
            [u64::MAX, 0, u64::MAX - 1, 1 << 63, (1 << 60) - 1, 1 << 60].iter().enumerate()
        {
            wheel.push(key(*at, tie as u64));
        }
        let times: Vec<u64> = std::iter::from_fn(|| wheel.pop()).map(|k| k.at().as_ns()).collect();
        assert_eq!(times, [0, (1 << 60) - 1, 1 << 60, 1 << 63, u64::MAX - 1, u64::MAX]);
    }

    #[test]
    #[should_panic(expected = "is pushed at 10 ns")]
    fn the_past_is_closed() {
        let mut wheel = Wheel::new();
        wheel.push(key(10, 0));
        wheel.pop();
        wheel.push(key(9, 1));
    }

    #[test]
    fn peek_leaves_the_present_open() {
        let mut wheel = Wheel::new();
        wheel.push(key(1_000_000, 0));
        assert_eq!(wheel.peek(), Some(key(1_000_000, 0)));
        wheel.push(key(3, 1));
        assert_eq!(wheel.pop(), Some(key(3, 1)));
    }

    #[test]
    fn memory_settles_after_warm_up() {
        let mut wheel = Wheel::new();
        let mut ties = Ties::in_order();
        let mut stream = Stream::keyed(1, 0, Purpose::Test);
        for _ in 0..1_000 {
            wheel.push(key(stream.below(1 << 20), ties.next()));
        }
        let room = (wheel.nodes.capacity(), 1_000);
        for _ in 0..100_000 {
            let now = wheel.pop().expect("as many go in as come out").at().as_ns();
            wheel.push(key(now + stream.below(1 << 20), ties.next()));
        }
        assert_eq!((wheel.nodes.capacity(), wheel.len()), room);
    }
}
