//! Names of exchanges that are over, so that a packet which comes late does not start them again
//! ([homa 8.2] point 10).
//!
//! One ring for all peers, bounded in number and in time. The source's suggestion, a high-water
//! mark and a bitmap per client, does not work when a client numbers its exchanges across servers:
//! what one server sees of them is sparse, and a long question may rightly come after thousands of
//! younger ones.

use crate::exchange::Owner;
use crate::packet::Refusal;
use alloc::collections::VecDeque;
use cavy_core::family::Node;
use hashbrown::HashTable;

/// How an exchange ended that a peer began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The answer was given, and taken or not.
    Answered,
    /// A message without answer arrived.
    OneWay,
    /// It was not answered.
    Refused(Refusal),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Name {
    node: Node,
    id: u64,
    tick: u64,
    ending: Ending,
}

/// The ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finished {
    ring: VecDeque<Name>,
    /// Sequence number of the ring's front.
    front: u64,
    index: HashTable<u64>,
}

fn hash(node: Node, id: u64) -> u64 {
    let mixed = (id ^ u64::from(node.0) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

impl Finished {
    /// Remembers one more; forgets the oldest if there would be more than `most`.
    pub(crate) fn add(&mut self, owner: Owner, id: u64, ending: Ending, tick: u64, most: u32) {
        let Owner::Peer(node) = owner else { return };
        if most == 0 {
            return;
        }
        if self.ring.len() >= most as usize {
            self.pop();
        }
        let sequence = self.front + self.ring.len() as u64;
        self.ring.push_back(Name { node, id, tick, ending });
        let (ring, front) = (&self.ring, self.front);
        if self.index.is_empty() && self.index.capacity() < 2 * most as usize {
            // Room for twice as many, once: a table full of traces of removed entries is then
            // cleaned in place and never grows.
            self.index.reserve(2 * most as usize + 1, |_| 0);
        }
        self.index.insert_unique(hash(node, id), sequence, |&sequence| {
            let name = &ring[(sequence - front) as usize];
            hash(name.node, name.id)
        });
    }

    fn pop(&mut self) {
        let front = self.front;
        let Some(name) = self.ring.front() else { return };
        let key = hash(name.node, name.id);
        if let Ok(entry) = self.index.find_entry(key, |&sequence| sequence == front) {
            entry.remove();
        }
        self.ring.pop_front();
        self.front += 1;
    }

    /// Forgets all from before `tick`.
    pub(crate) fn expire(&mut self, tick: u64) {
        while self.ring.front().is_some_and(|name| name.tick < tick) {
            self.pop();
        }
    }

    /// How this exchange ended; `None` when it is not known to be over.
    pub(crate) fn get(&self, node: Node, id: u64) -> Option<Ending> {
        let name = |sequence: u64| &self.ring[(sequence - self.front) as usize];
        let same = |&sequence: &u64| name(sequence).node == node && name(sequence).id == id;
        self.index.find(hash(node, id), same).map(|&sequence| name(sequence).ending)
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }
}
