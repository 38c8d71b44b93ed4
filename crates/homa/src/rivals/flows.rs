//! Where a transport keeps its messages: numbered slots, found by (peer, message).

use cavy_core::family::Node;
use cavy_core::family::packet::Message;
use core::ops::{Index, IndexMut};
use hashbrown::HashTable;

use alloc::vec::Vec;

/// A value whose slot is used again, so that what it allocated is, too.
pub trait Reuse: Default {
    /// As fresh as `default()`, but keeps its memory.
    fn reuse(&mut self);
}

/// What a message is found by: the node at the other end, and its name.
pub type Key = (Node, Message);

#[derive(Clone, Debug)]
struct Slot<T> {
    key: Option<Key>,
    value: T,
}

/// Messages by slot and by key. Slots are used again, lowest age last; nothing iterates in the
/// order of a hash.
#[derive(Clone, Debug)]
pub struct Flows<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    index: HashTable<u32>,
}

impl<T> Default for Flows<T> {
    fn default() -> Self {
        Flows { slots: Vec::new(), free: Vec::new(), index: HashTable::new() }
    }
}

impl<T: Reuse> Flows<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The slot of `key`.
    #[inline]
    pub fn find(&self, key: Key) -> Option<u32> {
        self.index.find(hash(key), |&slot| self.slots[slot as usize].key == Some(key)).copied()
    }

    /// A slot for `key`, which has none; its value is fresh.
    pub fn insert(&mut self, key: Key) -> u32 {
        debug_assert!(self.find(key).is_none(), "{key:?} is there already");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { key: None, value: T::default() });
            // Room for all slots at once, so that giving them back never allocates.
            self.free.reserve(self.slots.len());
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.key = Some(key);
        let slots = &self.slots;
        self.index.insert_unique(hash(key), slot, |&slot| slots[slot as usize].key.map_or(0, hash));
        slot
    }

    /// Empties a slot. Its value is as fresh at once, so that a timer that comes late finds
    /// nothing.
    pub fn remove(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let Some(key) = place.key.take() else { return };
        place.value.reuse();
        if let Ok(entry) = self.index.find_entry(hash(key), |&other| other == slot) {
            entry.remove();
        }
        self.free.push(slot);
    }

    /// Who is in `slot`.
    pub fn key(&self, slot: u32) -> Option<Key> {
        self.slots.get(slot as usize)?.key
    }

    /// The slots in use, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Key)> + '_ {
        let key = |(at, slot): (usize, &Slot<T>)| slot.key.map(|key| (at as u32, key));
        self.slots.iter().enumerate().filter_map(key)
    }
}

impl<T> Index<u32> for Flows<T> {
    type Output = T;
    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize].value
    }
}

impl<T> IndexMut<u32> for Flows<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize].value
    }
}

/// Mixes both halves into all bits (the finish of MurmurHash3); fixed, so that runs repeat.
#[inline]
fn hash((Node(peer), Message(name)): Key) -> u64 {
    let mut bits = name ^ u64::from(peer).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}
