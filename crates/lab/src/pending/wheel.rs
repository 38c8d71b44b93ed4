//! An exact hierarchical timing wheel: 64 slots a level, one nanosecond a tick, no rounding.

use super::heap::Quad;
use super::{Key, Pending};

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
/// 64^11 exceeds 2^64, so every time has a place and there is no overflow list.
const LEVELS: usize = 11;
/// The end of a list.
const NIL: u32 = u32::MAX;

/// The pending set for many events: cost hardly depends on how many.
///
/// Invariants between calls, `now` being the time of the last key popped:
/// * A later event lies at the level of the highest base-64 digit in which its time differs from
///   `now`, in the slot of its own digit there. Every event of a lower level is therefore earlier
///   than every event of a higher one, and within a level slots are in order of time.
/// * An event of time `now` lies in `front`; all of `front` is of time `now`.
/// * `filled` has a bit per level and `slots_filled` a bit per slot, set exactly where a list is
///   not empty.
///
/// Lists are in no particular order. Opening one moves `now` to where its slot starts and deals its
/// events out again, each to a lower level than before, so an event moves at most once per level. A
/// list of one event needs no dealing: that event is the smallest. Events of one nanosecond meet in
/// `front`, a heap, so that a thousand simultaneous events do not cost a thousand scans of a list.
#[derive(Clone, Debug)]
pub struct Wheel {
    now: u64,
    len: usize,
    filled: u32,
    slots_filled: [u64; LEVELS],
    heads: [[u32; SLOTS]; LEVELS],
    /// Slab of list nodes; nodes not in a list are chained from `free`.
    nodes: Vec<Node>,
    free: u32,
    front: Quad<u64>,
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
            slots_filled: [0; LEVELS],
            heads: [[NIL; SLOTS]; LEVELS],
            nodes: Vec::with_capacity(events),
            free: NIL,
            front: Quad::default(),
        }
    }

    /// Links `node` into the list where its time belongs; its time must be later than `now`.
    #[inline]
    fn link(&mut self, node: u32) {
        let time = self.nodes[node as usize].time;
        let level = (63 - (time ^ self.now).leading_zeros()) / DIGIT_BITS;
        let slot = (time >> (level * DIGIT_BITS)) as usize % SLOTS;
        let level = level as usize;
        self.nodes[node as usize].next = self.heads[level][slot];
        self.heads[level][slot] = node;
        self.slots_filled[level] |= 1 << slot;
        self.filled |= 1 << level;
    }

    /// The level and slot of the earliest list, if any event is later than `now`.
    #[inline]
    fn earliest(&self) -> Option<(usize, usize)> {
        if self.filled == 0 {
            return None;
        }
        let level = self.filled.trailing_zeros() as usize;
        Some((level, self.slots_filled[level].trailing_zeros() as usize))
    }

    /// The nodes of the list from `head` on.
    fn list(&self, head: u32) -> impl Iterator<Item = Node> + '_ {
        let first = self.nodes.get(head as usize).copied();
        std::iter::successors(first, |node| self.nodes.get(node.next as usize).copied())
    }

    /// Takes the smallest key when `front` is empty, opening the earliest list of each level on the
    /// way down to it.
    #[inline]
    fn open(&mut self) -> Option<Key> {
        loop {
            let (level, slot) = self.earliest()?;
            let head = std::mem::replace(&mut self.heads[level][slot], NIL);
            self.slots_filled[level] &= !(1 << slot);
            self.filled &= !(u32::from(self.slots_filled[level] == 0) << level);
            let first = self.nodes[head as usize];
            if first.next == NIL {
                self.now = first.time;
                self.len -= 1;
                self.release(head);
                return Some(Key::joined(first.time, first.rest));
            }
            // The slot's start: its digit and those above, then zeros.
            let below = level as u32 * DIGIT_BITS;
            self.now = first.time >> below << below;
            let mut at = head;
            while at != NIL {
                let node = self.nodes[at as usize];
                if node.time == self.now {
                    self.front.push(node.rest);
                    self.release(at);
                } else {
                    self.link(at);
                }
                at = node.next;
            }
            if let Some(rest) = self.front.pop() {
                self.len -= 1;
                return Some(Key::joined(self.now, rest));
            }
        }
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
        if time == self.now {
            self.front.push(rest);
            return;
        }
        let fresh = Node { time, rest, next: NIL };
        let node = self.free;
        let node = if let Some(reused) = self.nodes.get_mut(node as usize) {
            self.free = reused.next;
            *reused = fresh;
            node
        } else {
            self.nodes.push(fresh);
            (self.nodes.len() - 1) as u32
        };
        self.link(node);
    }

    #[inline]
    fn pop(&mut self) -> Option<Key> {
        if let Some(rest) = self.front.pop() {
            self.len -= 1;
            return Some(Key::joined(self.now, rest));
        }
        self.open()
    }

    /// Looks through the whole earliest list, so it is for the occasional question and not for
    /// every event: a loop pops, and compares afterward.
    fn peek(&self) -> Option<Key> {
        if let Some(rest) = self.front.peek() {
            return Some(Key::joined(self.now, rest));
        }
        let (level, slot) = self.earliest()?;
        let list = self.list(self.heads[level][slot]);
        list.map(|node| Key::joined(node.time, node.rest)).min()
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn clear(&mut self) {
        let Wheel { now, len, filled, slots_filled, heads, nodes, free, front } = self;
        (*now, *len, *filled, *free) = (0, 0, 0, NIL);
        *slots_filled = [0; LEVELS];
        *heads = [[NIL; SLOTS]; LEVELS];
        nodes.clear();
        front.clear();
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
