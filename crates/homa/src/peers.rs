//! What a host knows of each other host ([homa 2.13]).

use crate::cutoffs::Cutoffs;
use crate::heap::Heap;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::{Instant, Span};
use hashbrown::HashTable;

/// Acknowledgements that wait for a packet to ride on ([homa 2.12]).
pub(crate) const ACKS: usize = 5;

/// One peer. Every exchange touches some of what is known of its peer, and of all peers of all
/// hosts of a simulation that is more than a cache holds, so this stands together in one line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Peer {
    pub(crate) node: Node,
    /// Exchanges with it; it is not forgotten while there are any.
    pub(crate) exchanges: u32,
    /// Tick of its last use.
    pub(crate) used_tick: u64,
    /// How it wants unscheduled bytes sorted, and since which version.
    pub(crate) cutoffs: Cutoffs,
    pub(crate) cutoffs_version: u16,
    pub(crate) live: bool,
    /// It was asked from here, or has shown that it receives what is sent to it.
    pub(crate) shown: bool,
    /// How many `acks` there are.
    pub(crate) acks_len: u8,
    pub(crate) last_level: u8,
    // From here on, what longer messages touch.
    /// The simulator's grants to it are spaced.
    pub(crate) next_grant_at: Instant,
    /// Its messages that wait for grants.
    pub(crate) waiting: Heap,
    /// Its messages that are granted.
    pub(crate) active: u32,
    /// When it was last heard of, where answers are kept by that.
    pub(crate) heard_at: Instant,
    /// When it was last told this machine's cut-offs.
    pub(crate) told_at: Option<Instant>,
    /// Answers that are here and of which it does not know yet.
    pub(crate) acks: [u64; ACKS],
    /// Smoothed round trip, once measured.
    pub(crate) rtt: Option<Span>,
    /// Lately the longest time from the last byte sent to a sign that it arrived; fades.
    pub(crate) answer_longest: Span,
    /// How many times the ordinary silence is borne.
    pub(crate) patience: u32,
    /// Window of its messages, as far as it is congested itself.
    pub(crate) window_bytes: u32,
}

/// Nodes with smaller numbers than this are found by number. A hash table's two looks into memory,
/// one after the other, were a tenth of the time of a simulation of 144 hosts.
const NUMBERED: usize = 1024;
/// No slot.
const NOWHERE: u32 = u32::MAX;

/// All peers, in slots that are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    slots: Vec<Peer>,
    free: Vec<u32>,
    /// Slots of the nodes below [`NUMBERED`].
    numbered: Vec<u32>,
    /// Slots of all others.
    index: HashTable<u32>,
}

#[inline]
fn hash(node: Node) -> u64 {
    let mixed = u64::from(node.0).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 31)
}

impl Peers {
    #[inline]
    pub(crate) fn find(&self, node: Node) -> Option<u32> {
        if (node.0 as usize) < NUMBERED {
            return self.numbered.get(node.0 as usize).copied().filter(|&slot| slot != NOWHERE);
        }
        self.index.find(hash(node), |&slot| self.slots[slot as usize].node == node).copied()
    }

    /// Adds `node`, which is not known; it starts with `cutoffs` of `version`.
    pub(crate) fn insert(&mut self, node: Node, cutoffs: Cutoffs, version: u16) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => {
                let peer = &mut self.slots[slot as usize];
                let waiting = core::mem::take(&mut peer.waiting);
                *peer = Peer { waiting, ..Peer::new(node, cutoffs, version) };
                slot
            }
            None => {
                self.slots.push(Peer::new(node, cutoffs, version));
                (self.slots.len() - 1) as u32
            }
        };
        let number = node.0 as usize;
        if number < NUMBERED {
            if number >= self.numbered.len() {
                self.numbered.resize(number + 1, NOWHERE);
            }
            self.numbered[number] = slot;
            return slot;
        }
        let slots = &self.slots;
        self.index.insert_unique(hash(node), slot, |&slot| hash(slots[slot as usize].node));
        slot
    }

    /// Forgets the peer that was not used for longest and has no exchanges; false if all have.
    pub(crate) fn evict(&mut self) -> bool {
        let idle = self.slots.iter().enumerate();
        let idle = idle.filter(|(_, peer)| peer.live && peer.exchanges == 0);
        let Some((slot, _)) = idle.min_by_key(|(_, peer)| peer.used_tick) else { return false };
        let peer = &mut self.slots[slot];
        peer.live = false;
        let (node, key) = (peer.node.0 as usize, hash(peer.node));
        if node < NUMBERED {
            self.numbered[node] = NOWHERE;
        } else if let Ok(entry) = self.index.find_entry(key, |&other| other as usize == slot) {
            entry.remove();
        }
        self.free.push(slot as u32);
        true
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Peer)> + '_ {
        self.slots.iter().enumerate().filter(|(_, p)| p.live).map(|(at, p)| (at as u32, p))
    }
}

impl Peer {
    fn new(node: Node, cutoffs: Cutoffs, version: u16) -> Peer {
        Peer {
            node,
            exchanges: 0,
            used_tick: 0,
            cutoffs,
            cutoffs_version: version,
            live: true,
            shown: false,
            acks_len: 0,
            last_level: 0,
            next_grant_at: Instant::ZERO,
            waiting: Heap::default(),
            active: 0,
            heard_at: Instant::ZERO,
            told_at: None,
            acks: [0; ACKS],
            rtt: None,
            answer_longest: Span::ZERO,
            patience: 1,
            window_bytes: u32::MAX,
        }
    }
}

impl core::ops::Index<u32> for Peers {
    type Output = Peer;
    #[inline]
    fn index(&self, slot: u32) -> &Peer {
        &self.slots[slot as usize]
    }
}

impl core::ops::IndexMut<u32> for Peers {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Peer {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn peers_are_found_by_whatever_number() {
        let cutoffs = Cutoffs::new(8, &[]).expect("legal");
        let mut peers = Peers::default();
        let nodes = [3, 1_023, 1_024, 70_000, 0].map(Node);
        for (slot, node) in (0..).zip(nodes) {
            assert_eq!((peers.find(node), peers.insert(node, cutoffs, 1)), (None, slot));
            peers[slot].used_tick = u64::from(slot);
        }
        for (slot, node) in (0..).zip(nodes) {
            assert_eq!(peers.find(node), Some(slot));
        }
        // The longest unused goes first, and its slot to the next.
        for (slot, node) in (0..).zip(nodes) {
            assert!(peers.evict());
            assert_eq!((peers.find(node), peers.count()), (None, 4));
            assert_eq!(peers.insert(Node(node.0 + 5), cutoffs, 1), slot);
            peers[slot].used_tick = 10;
        }
        assert_eq!(peers.find(Node(1_029)), Some(2));
    }

    #[test]
    fn what_every_exchange_touches_is_one_line() {
        assert!(offset_of!(Peer, next_grant_at) <= 64 && size_of::<Peer>() <= 256);
    }
}
