//! A four-ary heap: half the depth of a binary one, and four 16-byte children share a cache line.

use super::{Key, Pending};

/// The pending set for few events; no assumption about how their times are spread.
#[derive(Clone, Debug, Default)]
pub struct Heap4 {
    quad: Quad<u128>,
}

impl Heap4 {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set with room for `events`.
    pub fn with_capacity(events: usize) -> Self {
        Heap4 { quad: Quad::with_capacity(events) }
    }
}

impl Pending for Heap4 {
    #[inline]
    fn push(&mut self, key: Key) {
        self.quad.push(key.0);
    }

    #[inline]
    fn pop(&mut self) -> Option<Key> {
        self.quad.pop().map(Key)
    }

    #[inline]
    fn peek(&self) -> Option<Key> {
        self.quad.peek().map(Key)
    }

    #[inline]
    fn len(&self) -> usize {
        self.quad.len()
    }

    fn clear(&mut self) {
        self.quad.clear();
    }
}

/// The heap itself, over whole keys here and over the halves of keys in the wheel.
///
/// Most events make one other event. So a root that was popped stays open until the next push takes
/// its place and sinks from there, or until the next pop fills it with the last item: one way
/// through the heap for both instead of two.
///
/// Invariant: the children of `i` are `4 i + 1 ..= 4 i + 4`, and none is smaller than its parent,
/// but for an open root, which is no item.
#[derive(Clone, Debug, Default)]
pub(super) struct Quad<T> {
    items: Vec<T>,
    open: bool,
}

impl<T: Copy + Ord> Quad<T> {
    pub(super) fn with_capacity(items: usize) -> Self {
        Quad { items: Vec::with_capacity(items), open: false }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len() - usize::from(self.open)
    }

    pub(super) fn peek(&self) -> Option<T> {
        match self.open {
            false => self.items.first().copied(),
            true => self.items.iter().skip(1).take(4).min().copied(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.open = false;
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        if self.open {
            self.open = false;
            self.sink(item);
            return;
        }
        let mut hole = self.items.len();
        self.items.push(item);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.items[parent] <= item {
                break;
            }
            self.items[hole] = self.items[parent];
            hole = parent;
        }
        self.items[hole] = item;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.open {
            self.open = false;
            let last = self.items.pop()?;
            if self.items.is_empty() {
                // It was the open root.
                return None;
            }
            self.sink(last);
        }
        let top = *self.items.first()?;
        self.open = true;
        Some(top)
    }

    /// Puts `item` in the place of the root, and lets it sink to where it belongs.
    #[inline]
    fn sink(&mut self, item: T) {
        let heap = self.items.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = 4 * hole + 1;
            let least = if let Some(&[a, b, c, d]) = heap.get(first..first + 4) {
                // A tournament of selects: which child wins is random, and a branch on it would be
                // mispredicted half of the time.
                let (left, i) = if b < a { (b, 1) } else { (a, 0) };
                let (right, j) = if d < c { (d, 3) } else { (c, 2) };
                first + if right < left { j } else { i }
            } else if first < heap.len() {
                let mut least = first;
                for child in first + 1..heap.len() {
                    if heap[child] < heap[least] {
                        least = child;
                    }
                }
                least
            } else {
                break;
            };
            if item <= heap[least] {
                break;
            }
            heap[hole] = heap[least];
            hole = least;
        }
        heap[hole] = item;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pops_in_order_at_every_size() {
        for n in 0..70u64 {
            let mut quad = Quad::default();
            for i in 0..n {
                quad.push(i * 37 % n);
            }
            let popped: Vec<u64> = core::iter::from_fn(|| quad.pop()).collect();
            let mut expected: Vec<u64> = (0..n).map(|i| i * 37 % n).collect();
            expected.sort_unstable();
            assert_eq!(popped, expected);
        }
    }

    #[test]
    fn an_open_root_is_no_item() {
        let mut quad = Quad::default();
        let mut others = std::collections::BTreeSet::new();
        let mut next = 1u64;
        for step in 0..20_000u64 {
            // Any order of pushes and pops, growing and shrinking.
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let grows = (step / 1_000).is_multiple_of(2);
            let of_eight = if grows { 5 } else { 3 };
            if (next >> 33) % 8 < of_eight {
                quad.push(next);
                others.insert(next);
            } else {
                assert_eq!(quad.pop(), others.pop_first());
            }
            assert_eq!((quad.len(), quad.peek()), (others.len(), others.first().copied()));
        }
        quad.clear();
        assert_eq!((quad.len(), quad.peek(), quad.pop()), (0, None, None));
    }
}
