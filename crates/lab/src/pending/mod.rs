//! The pending-event set: what will happen, in the one order in which it will happen.
//!
//! An event is one 16-byte [`Key`]: when, of which [`Class`], a tie-breaker, and the slot of the
//! caller's slab that holds everything else. One integer comparison therefore decides the total
//! order, and no event owns memory: a 48-byte event or a boxed closure in the queue costs two to
//! four times the key.
//!
//! Two structures keep the set behind one trait, and give the identical order, which a property
//! test holds them to: [`Heap4`] for a few dozen events (a queueing model has one per worker),
//! [`Wheel`] for a thousand and more (a network has one per packet in flight).

use cavy_core::Instant;

mod heap;
mod ties;
mod wheel;

pub use heap::Heap4;
pub use ties::Ties;
pub use wheel::Wheel;

const CLASS_BITS: u32 = 2;
const TIE_BITS: u32 = 38;
const SLOT_BITS: u32 = 24;
const _: () = assert!(CLASS_BITS + TIE_BITS + SLOT_BITS == 64);

/// What comes first among events of one nanosecond.
///
/// A worker that finishes exactly when a request arrives is free for it: the other order would make
/// results with constant service times depend on which event was created first. Timers come last,
/// so that a deadline that is met in the very same nanosecond counts as met.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Class {
    /// Something in progress ends.
    Completion = 0,
    /// Something new comes in.
    Arrival = 1,
    /// A deadline passes.
    Timer = 2,
}

/// One pending event: time (64 bits), class (2), tie (38), slot (24), most significant first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key(u128);

impl Key {
    /// Ties lie below this: 2.7 x 10^11 events a run.
    pub const TIES: u64 = 1 << TIE_BITS;
    /// Slots lie below this: 16.7 million events pending at a time.
    pub const SLOTS: u32 = 1 << SLOT_BITS;

    /// The event of `slot` at time `at`. Keys that differ in their tie never compare equal, which
    /// is why ties come from [`Ties`].
    ///
    /// # Panics
    /// When `tie` or `slot` needs more bits than it has.
    #[inline]
    pub fn new(at: Instant, class: Class, tie: u64, slot: u32) -> Self {
        assert!(tie < Self::TIES && slot < Self::SLOTS, "tie {tie} or slot {slot} too large");
        let rest = (class as u64) << (TIE_BITS + SLOT_BITS) | tie << SLOT_BITS | u64::from(slot);
        Key::joined(at.as_ns(), rest)
    }

    /// When.
    #[inline]
    pub fn at(self) -> Instant {
        Instant::from_ns(self.time_ns())
    }

    /// Of which class.
    #[inline]
    pub fn class(self) -> Class {
        match self.rest() >> (TIE_BITS + SLOT_BITS) {
            0 => Class::Completion,
            1 => Class::Arrival,
            2 => Class::Timer,
            class => unreachable!("no class {class} goes into a key"),
        }
    }

    /// The tie-breaker.
    #[inline]
    pub fn tie(self) -> u64 {
        (self.rest() >> SLOT_BITS) & (Self::TIES - 1)
    }

    /// Where the caller keeps the rest of the event.
    #[inline]
    pub fn slot(self) -> u32 {
        self.0 as u32 & (Self::SLOTS - 1)
    }

    fn joined(time_ns: u64, rest: u64) -> Self {
        Key(u128::from(time_ns) << 64 | u128::from(rest))
    }

    fn time_ns(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Class, tie and slot: the order among events of one nanosecond.
    fn rest(self) -> u64 {
        self.0 as u64
    }
}

/// A set of keys that gives back the smallest one first.
///
/// Time does not run backward: no key may be pushed that is earlier than the last key popped.
/// [`Wheel`] depends on it and asserts it.
pub trait Pending {
    /// Adds an event.
    fn push(&mut self, key: Key);

    /// Removes the smallest key.
    fn pop(&mut self) -> Option<Key>;

    /// The smallest key, which stays. Does not advance time: earlier keys may still be pushed.
    fn peek(&self) -> Option<Key>;

    /// Events pending.
    fn len(&self) -> usize;

    /// True when nothing is pending.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets every event and sets time back to zero; memory is kept for the next run.
    fn clear(&mut self);
}
