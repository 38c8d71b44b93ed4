//! Where pending events wait: in one of two structures, which the command line may choose.

use cavy_lab::pending::{Heap4, Key, Pending, Wheel};
use cavy_study::point::{Manner, Queue};

/// Pending events in one of two ways. A branch for each event costs less than every world of every
/// machine compiled twice over.
pub(crate) enum Events {
    Heap(Heap4),
    Wheel(Box<Wheel>),
}

impl Events {
    /// As `manner` says, or as the kind usually does.
    pub(crate) fn of(manner: &Manner, usual: Queue) -> Events {
        match manner.queue.unwrap_or(usual) {
            Queue::Heap => Events::Heap(Heap4::new()),
            Queue::Wheel => Events::Wheel(Box::default()),
        }
    }
}

impl Pending for Events {
    #[inline]
    fn push(&mut self, key: Key) {
        match self {
            Events::Heap(heap) => heap.push(key),
            Events::Wheel(wheel) => wheel.push(key),
        }
    }
    #[inline]
    fn pop(&mut self) -> Option<Key> {
        match self {
            Events::Heap(heap) => heap.pop(),
            Events::Wheel(wheel) => wheel.pop(),
        }
    }
    #[inline]
    fn peek(&self) -> Option<Key> {
        match self {
            Events::Heap(heap) => heap.peek(),
            Events::Wheel(wheel) => wheel.peek(),
        }
    }
    fn len(&self) -> usize {
        match self {
            Events::Heap(heap) => heap.len(),
            Events::Wheel(wheel) => wheel.len(),
        }
    }
    fn clear(&mut self) {
        match self {
            Events::Heap(heap) => heap.clear(),
            Events::Wheel(wheel) => wheel.clear(),
        }
    }
}
