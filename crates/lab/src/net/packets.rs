//! Packets on their way, in a slab: 64 bytes each with a protocol header of 12.

use super::clock::Ps;
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Message, Seen};

/// The end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// A packet somewhere between two hosts, as observers see it.
///
/// What every hop touches comes first and stays within one line of the cache, however long the
/// protocol's header is.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub struct InFlight<H> {
    /// When it joined the queue that it is in or was last in.
    pub(super) queued_at: Ps,
    /// The next packet of a queue, or of the free list.
    pub(super) next: u32,
    /// Waiting behind packets of its own or a higher level, in picoseconds, in all queues so far;
    /// ends at 4 ms.
    pub(super) queueing: u32,
    /// Waiting for a packet of a lower level to be sent out, likewise.
    pub(super) lag: u32,
    pub(super) rank: u32,
    to: u16,
    /// Where it arrives next: a host, or a switch counted from the number of hosts on.
    pub(super) arriving: u16,
    pub(super) wire_bytes: u16,
    pub(super) priority: u8,
    flags: u8,
    message: u64,
    offset_bytes: u32,
    length_bytes: u32,
    from: u16,
    header: H,
}

const MARKED: u8 = 1;
const TRIMMED: u8 = 2;

impl<H: Copy> InFlight<H> {
    pub(super) fn new(
        from: Node,
        packet: &cavy_core::Packet<H>,
        wire_bytes: u32,
        priority: u8,
    ) -> Self {
        InFlight {
            message: packet.payload.message.0,
            queued_at: 0,
            offset_bytes: packet.payload.offset_bytes,
            length_bytes: packet.payload.length_bytes,
            rank: packet.rank,
            next: NIL,
            queueing: 0,
            lag: 0,
            from: from.0 as u16,
            to: packet.to.0 as u16,
            arriving: 0,
            wire_bytes: wire_bytes as u16,
            priority,
            flags: 0,
            header: packet.header,
        }
    }

    /// Who sent it.
    pub fn from(&self) -> Node {
        Node(u32::from(self.from))
    }

    /// Who is to get it.
    pub fn to(&self) -> Node {
        Node(u32::from(self.to))
    }

    /// The protocol's header.
    pub fn header(&self) -> &H {
        &self.header
    }

    /// The bytes it carries, or carried before it was trimmed.
    pub fn payload(&self) -> Extent {
        Extent {
            message: Message(self.message),
            offset_bytes: self.offset_bytes,
            length_bytes: self.length_bytes,
        }
    }

    /// Its level, 0 lowest.
    pub fn priority(&self) -> u8 {
        self.priority
    }

    /// Its rank, smaller first.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Its length on the wire, preamble and gap included.
    pub fn wire_bytes(&self) -> u32 {
        u32::from(self.wire_bytes)
    }

    /// What switches did to it.
    pub fn seen(&self) -> Seen {
        Seen { marked: self.flags & MARKED != 0, trimmed: self.flags & TRIMMED != 0 }
    }

    /// Where its time in queues went so far.
    pub fn delays(&self) -> Delays {
        Delays { queueing: Ps::from(self.queueing), lag: Ps::from(self.lag) }
    }

    pub(super) fn mark(&mut self) {
        self.flags |= MARKED;
    }

    pub(super) fn trim(&mut self, wire_bytes: u32) {
        self.flags |= TRIMMED;
        self.wire_bytes = wire_bytes as u16;
    }

    /// Goes with the headers where data and headers part.
    pub(super) fn is_bare(&self) -> bool {
        self.length_bytes == 0 || self.flags & TRIMMED != 0
    }

    /// What buffers count, where so many bytes of a packet on the wire are not.
    #[inline]
    pub(super) fn counted_bytes(&self, silent_bytes: u32) -> u32 {
        u32::from(self.wire_bytes).saturating_sub(silent_bytes)
    }

    /// Tells flows apart, for switches that care.
    pub(super) fn flow(&self) -> u64 {
        self.message ^ u64::from(self.from).rotate_right(16)
    }
}

/// Where a packet's time in queues went `[homa 5.8]`, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delays {
    /// Behind packets that had the right to go first.
    pub queueing: Ps,
    /// Behind the rest of a packet of a lower level that was being sent already.
    pub lag: Ps,
}

/// The packets in flight, by a small number.
#[derive(Debug)]
pub(super) struct Packets<H> {
    slots: Vec<InFlight<H>>,
    free: u32,
    live: u32,
}

impl<H: Copy> Packets<H> {
    pub(super) fn new() -> Self {
        Packets { slots: Vec::new(), free: NIL, live: 0 }
    }

    pub(super) fn live(&self) -> u32 {
        self.live
    }

    #[inline]
    pub(super) fn insert(&mut self, packet: InFlight<H>) -> u32 {
        self.live += 1;
        if let Some(slot) = self.slots.get_mut(self.free as usize) {
            let index = self.free;
            self.free = slot.next;
            *slot = packet;
            return index;
        }
        self.slots.push(packet);
        self.slots.len() as u32 - 1
    }

    #[inline]
    pub(super) fn remove(&mut self, index: u32) {
        self.live -= 1;
        self.slots[index as usize].next = self.free;
        self.free = index;
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &InFlight<H> {
        &self.slots[index as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut InFlight<H> {
        &mut self.slots[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_fits_a_cache_line() {
        assert!(size_of::<InFlight<[u32; 3]>>() <= 64);
        // A longer header leaves what hops touch in one line.
        assert_eq!(size_of::<InFlight<[u32; 7]>>(), 96);
        assert!(std::mem::offset_of!(InFlight<[u32; 7]>, message) <= 32);
    }
}
