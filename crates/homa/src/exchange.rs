//! The exchanges a host takes part in: a question and its answer, or one message ([homa 2.1]).

use crate::gaps::Received;
use crate::quick::{Pulse, Settled};
use alloc::vec::Vec;
use cavy_core::Instant;
use cavy_core::family::Node;
use cavy_core::family::packet::Message;
use hashbrown::HashTable;

/// Who named an exchange. With the name, this tells any two apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// This host asked.
    Me,
    /// That one did.
    Peer(Node),
}

/// A message that goes out: one line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Outbound {
    pub(crate) live: bool,
    pub(crate) length: u32,
    /// First byte never sent since the start.
    pub(crate) next: u32,
    /// First byte that may not be sent.
    pub(crate) granted: u32,
    /// Bytes below are unscheduled.
    pub(crate) unscheduled: u32,
    /// An empty message still has its one packet to send.
    pub(crate) empty_unsent: bool,
    /// Bytes below were sent once before a restart.
    pub(crate) resent_below: u32,
    pub(crate) unscheduled_priority: u8,
    pub(crate) scheduled_priority: u8,
    pub(crate) incast: bool,
    /// Cut-offs its level came from.
    pub(crate) cutoffs_version: u16,
    /// Ranges of it that wait to be sent again.
    pub(crate) resends: u32,
    pub(crate) last_sent: Instant,
    pub(crate) settled: Settled,
    /// Ticks since its last byte was sent.
    pub(crate) sent_ticks: u32,
}

impl Outbound {
    pub(crate) const NONE: Outbound = Outbound {
        live: false,
        length: 0,
        next: 0,
        granted: 0,
        unscheduled: 0,
        empty_unsent: false,
        resent_below: 0,
        unscheduled_priority: 0,
        scheduled_priority: 0,
        incast: false,
        cutoffs_version: 0,
        resends: 0,
        last_sent: Instant::ZERO,
        settled: Settled::NONE,
        sent_ticks: 0,
    };

    /// [homa 2.4] rule 1.
    #[inline]
    pub(crate) fn eligible(&self) -> bool {
        self.live && (self.next < self.granted || self.empty_unsent)
    }

    pub(crate) fn all_sent(&self) -> bool {
        self.next == self.length && !self.empty_unsent
    }
}

/// A message that comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inbound {
    pub(crate) live: bool,
    pub(crate) length: u32,
    pub(crate) received: Received,
    /// What its sender said at first that it would send unasked.
    pub(crate) unscheduled: u32,
    /// The sender may transmit up to here.
    pub(crate) granted: u32,
    /// Level of the latest grant.
    pub(crate) priority: u8,
    /// A GRANT for it waits to be sent.
    pub(crate) grant_waits: bool,
    /// There was no room for it: its bytes are dropped until there is.
    pub(crate) no_buffer: bool,
    pub(crate) active: bool,
}

impl Inbound {
    pub(crate) const NONE: Inbound = Inbound {
        live: false,
        length: 0,
        received: Received::NOTHING,
        unscheduled: 0,
        granted: 0,
        priority: 0,
        grant_waits: false,
        no_buffer: false,
        active: false,
    };

    #[inline]
    pub(crate) fn grantable(&self) -> bool {
        self.live && self.granted < self.length && !self.no_buffer
    }

    /// Bytes granted and not received.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.granted - self.received.bytes
    }
}

/// One exchange. Both its messages are inside, for most of the time one of them unused. What it is
/// and what goes out have a line of the cache each; what comes in and the pulse follow.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Exchange {
    /// The question's name.
    pub(crate) id: u64,
    pub(crate) owner: Owner,
    pub(crate) node: Node,
    pub(crate) peer: u32,
    /// Differs between two exchanges that use one slot.
    pub(crate) generation: u32,
    pub(crate) live: bool,
    pub(crate) asks: bool,
    /// The question is with the application.
    pub(crate) serving: bool,
    /// The asking side wants few unscheduled bytes.
    pub(crate) incast: bool,
    /// Order of birth at this host.
    pub(crate) born: u64,
    pub(crate) began: Instant,
    /// Ticks in which the peer should have sent something and did not.
    pub(crate) silent_ticks: u32,
    /// How often the peer said BUSY since it sent anything else.
    pub(crate) busies: u32,
    pub(crate) out: Outbound,
    pub(crate) inb: Inbound,
    /// For quick repair only.
    pub(crate) pulse: Pulse,
}

/// What tells a new exchange from others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) owner: Owner,
    pub(crate) id: u64,
    pub(crate) node: Node,
    pub(crate) peer: u32,
    pub(crate) born: u64,
    pub(crate) began: Instant,
    pub(crate) asks: bool,
}

impl Exchange {
    /// A slot that was never used.
    const UNUSED: Exchange = Exchange {
        id: 0,
        owner: Owner::Me,
        node: Node(0),
        peer: 0,
        generation: 0,
        live: false,
        asks: false,
        serving: false,
        incast: false,
        born: 0,
        began: Instant::ZERO,
        silent_ticks: 0,
        busies: 0,
        out: Outbound::NONE,
        inb: Inbound::NONE,
        pulse: Pulse::NONE,
    };

    pub(crate) fn mine(&self) -> bool {
        self.owner == Owner::Me
    }

    /// The name this side uses in packets, which is the name of the message it sends.
    #[inline]
    pub(crate) fn own_name(&self) -> Message {
        if self.mine() { Message(self.id) } else { Message(self.id | 1) }
    }

    /// The name the other side uses, which is the name of the message this side receives.
    #[inline]
    pub(crate) fn peer_name(&self) -> Message {
        Message(self.own_name().0 ^ 1)
    }
}

/// All exchanges, in slots that are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanges {
    slots: Vec<Exchange>,
    free: Vec<u32>,
    index: HashTable<u32>,
}

/// The table is asked for one name at a time and never walked, so its order means nothing.
#[inline]
fn hash(owner: Owner, id: u64) -> u64 {
    let owner = match owner {
        Owner::Me => u64::MAX,
        Owner::Peer(Node(node)) => u64::from(node),
    };
    let wide = u128::from(id ^ 0x9e37_79b9_7f4a_7c15)
        * u128::from(owner.wrapping_mul(0xd6e8_feb8_6659_fd93) | 1);
    let mixed = (wide as u64) ^ ((wide >> 64) as u64);
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (mixed >> 29)
}

impl Exchanges {
    #[inline]
    pub(crate) fn find(&self, owner: Owner, id: u64) -> Option<u32> {
        let same = |&slot: &u32| {
            let exchange = &self.slots[slot as usize];
            exchange.id == id && exchange.owner == owner
        };
        self.index.find(hash(owner, id), same).copied()
    }

    /// Gives what has begun a slot. Neither of its messages is there yet; its pulse is the caller's
    /// to set where one is kept.
    pub(crate) fn insert(&mut self, begun: Begun) -> u32 {
        let reused = self.free.pop();
        let fresh = reused.is_none();
        let slot = match reused {
            Some(slot) => slot,
            None => {
                self.slots.push(Exchange::UNUSED);
                (self.slots.len() - 1) as u32
            }
        };
        // Who ended the exchange that was here ended its messages, so most of the slot is as new.
        let exchange = &mut self.slots[slot as usize];
        debug_assert!(!exchange.live && !exchange.out.live && !exchange.inb.live);
        let Begun { owner, id, node, peer, born, began, asks } = begun;
        exchange.generation = exchange.generation.wrapping_add(1);
        exchange.live = true;
        (exchange.owner, exchange.id) = (owner, id);
        (exchange.node, exchange.peer) = (node, peer);
        (exchange.born, exchange.began) = (born, began);
        (exchange.asks, exchange.serving, exchange.incast) = (asks, false, false);
        (exchange.silent_ticks, exchange.busies) = (0, 0);
        // With room for twice as many, a table full of traces of removed entries is cleaned in
        // place and never grows.
        let room = (2 * self.slots.len()).saturating_sub(self.index.len());
        let slots = &self.slots;
        let rehash = |&slot: &u32| {
            let exchange = &slots[slot as usize];
            hash(exchange.owner, exchange.id)
        };
        if fresh {
            self.index.reserve(room, rehash);
        }
        self.index.insert_unique(hash(owner, id), slot, rehash);
        slot
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        let exchange = &mut self.slots[slot as usize];
        exchange.live = false;
        let key = hash(exchange.owner, exchange.id);
        if let Ok(entry) = self.index.find_entry(key, |&other| other == slot) {
            entry.remove();
        }
        self.free.push(slot);
    }

    /// Exchanges that exist.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Slots, in use or not.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Exchange)> + '_ {
        self.slots.iter().enumerate().filter(|(_, e)| e.live).map(|(at, e)| (at as u32, e))
    }

    /// The exchange in `slot`, if it is still the one of `generation`.
    #[inline]
    pub(crate) fn same(&self, slot: u32, generation: u32) -> Option<&Exchange> {
        self.slots.get(slot as usize).filter(|e| e.live && e.generation == generation)
    }
}

impl core::ops::Index<u32> for Exchanges {
    type Output = Exchange;
    #[inline]
    fn index(&self, slot: u32) -> &Exchange {
        &self.slots[slot as usize]
    }
}

impl core::ops::IndexMut<u32> for Exchanges {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Exchange {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn a_message_that_goes_out_touches_two_lines() {
        assert_eq!((offset_of!(Exchange, out), offset_of!(Exchange, inb)), (64, 128));
    }
}
