//! What a host knows of each other host ([homa 2.13]).

use crate::cutoffs::Cutoffs;
use crate::heap::Heap;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::{Instant, Span};
use hashbrown::HashTable;

/// Acknowledgements that wait for a packet to ride on ([homa 2.12]).
pub(crate) const ACKS: usize = 5;

/// What every exchange touches of its peer. The peers of all hosts of a simulation are more than a
/// cache holds, so this is short and stands apart from the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief {
    /// Exchanges with it; it is not forgotten while there are any.
    pub(crate) exchanges: u32,
    /// Tick of its last use, the lower half: what counts is how long ago that was.
    pub(crate) used_tick: u32,
    /// Since which version it wants unscheduled bytes sorted as it does.
    pub(crate) cutoffs_version: u16,
    /// How many [`Peer::acks`] there are.
    pub(crate) acks_len: u8,
    live: bool,
    /// It has not said how it wants unscheduled bytes sorted.
    as_configured: bool,
    /// It was asked from here, or has shown that it receives what is sent to it.
    pub(crate) shown: bool,
}

/// The rest.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) node: Node,
    /// How it wants unscheduled bytes sorted, if it has said so.
    cutoffs: Option<Cutoffs>,
    pub(crate) last_level: u8,
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
    briefs: Vec<Brief>,
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

    /// Adds `node`, which is not known; until it says something else, its cut-offs are those of the
    /// configuration, which are of `version`.
    pub(crate) fn insert(&mut self, node: Node, version: u16) -> u32 {
        let brief = Brief {
            exchanges: 0,
            used_tick: 0,
            cutoffs_version: version,
            acks_len: 0,
            live: true,
            as_configured: true,
            shown: false,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                let peer = &mut self.slots[slot as usize];
                let waiting = core::mem::take(&mut peer.waiting);
                *peer = Peer { waiting, ..Peer::new(node) };
                self.briefs[slot as usize] = brief;
                slot
            }
            None => {
                self.slots.push(Peer::new(node));
                self.briefs.push(brief);
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

    /// What exchanges touch of a peer.
    #[inline]
    pub(crate) fn brief(&self, slot: u32) -> &Brief {
        &self.briefs[slot as usize]
    }

    #[inline]
    pub(crate) fn brief_mut(&mut self, slot: u32) -> &mut Brief {
        &mut self.briefs[slot as usize]
    }

    /// The level of a message of `size_bytes` to a peer, whose cut-offs are `configured` unless it
    /// has said something else.
    #[inline]
    pub(crate) fn level(&self, slot: u32, size_bytes: u32, configured: &Cutoffs) -> u8 {
        match self.briefs[slot as usize].as_configured {
            true => configured.level(size_bytes),
            false => {
                self.slots[slot as usize].cutoffs.as_ref().unwrap_or(configured).level(size_bytes)
            }
        }
    }

    /// A peer says how it wants unscheduled bytes sorted.
    pub(crate) fn sort_by(&mut self, slot: u32, cutoffs: Cutoffs, version: u16) {
        self.slots[slot as usize].cutoffs = Some(cutoffs);
        let brief = &mut self.briefs[slot as usize];
        (brief.cutoffs_version, brief.as_configured) = (version, false);
    }

    /// Forgets the peer that was not used for longest by `tick` and has no exchanges; false if all
    /// have.
    pub(crate) fn evict(&mut self, tick: u64) -> bool {
        let idle = self.briefs.iter().enumerate();
        let idle = idle.filter(|(_, brief)| brief.live && brief.exchanges == 0);
        let age = |brief: &Brief| (tick as u32).wrapping_sub(brief.used_tick);
        let oldest = idle.min_by_key(|(_, brief)| core::cmp::Reverse(age(brief)));
        let Some((slot, _)) = oldest else { return false };
        self.briefs[slot].live = false;
        let peer = &self.slots[slot];
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
        let all = self.briefs.iter().zip(&self.slots).enumerate();
        all.filter(|(_, (brief, _))| brief.live).map(|(at, (_, peer))| (at as u32, peer))
    }
}

impl Peer {
    fn new(node: Node) -> Peer {
        Peer {
            node,
            cutoffs: None,
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

    #[test]
    fn peers_are_found_by_whatever_number() {
        let mut peers = Peers::default();
        let nodes = [3, 1_023, 1_024, 70_000, 0].map(Node);
        for (slot, node) in (0..).zip(nodes) {
            assert_eq!((peers.find(node), peers.insert(node, 1)), (None, slot));
            // Ticks go on after the last one of 32 bits.
            peers.brief_mut(slot).used_tick = slot.wrapping_sub(2);
        }
        for (slot, node) in (0..).zip(nodes) {
            assert_eq!(peers.find(node), Some(slot));
        }
        // The longest unused goes first, and its slot to the next.
        for (slot, node) in (0..).zip(nodes) {
            assert!(peers.evict((1 << 32) + 9));
            assert_eq!((peers.find(node), peers.count()), (None, 4));
            assert_eq!(peers.insert(Node(node.0 + 5), 1), slot);
            peers.brief_mut(slot).used_tick = 8;
        }
        assert_eq!(peers.find(Node(1_029)), Some(2));
    }

    #[test]
    fn what_every_exchange_touches_is_short() {
        assert!(size_of::<Brief>() <= 16);
    }
}
