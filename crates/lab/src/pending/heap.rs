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
        Heap4 { quad: Quad(Vec::with_capacity(events)) }
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
/// Invariant: the children of `i` are `4 i + 1 ..= 4 i + 4`, and none is smaller than its parent.
#[derive(Clone, Debug, Default)]
pub(super) struct Quad<T>(Vec<T>);

impl<T: Copy + Ord> Quad<T> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn peek(&self) -> Option<T> {
        self.0.first().copied()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        let mut hole = self.0.len();
        self.0.push(item);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.0[parent] <= item {
                break;
            }
            self.0[hole] = self.0[parent];
            hole = parent;
        }
        self.0[hole] = item;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let item = self.0.pop()?;
        let heap = self.0.as_mut_slice();
        let Some(&top) = heap.first() else { return Some(item) };
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
        Some(top)
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
}
