//! A switch with one port to each host, and the ways in which ports queue.

use crate::family::Node;
use crate::family::packet::{Header, Seen};
use crate::machine::Packet;
use crate::stream::Stream;
use alloc::collections::VecDeque;

/// How the switch's ports queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// Not at all: every packet passes at once.
    Ideal,
    /// Eight strict levels. Packets beyond `limit` are dropped, and marked from `mark` on.
    Levels {
        /// Packets that wait at most.
        limit: usize,
        /// Packets that wait when marking begins.
        mark: usize,
    },
    /// First in, first out. A packet that does not fit into `limit` octets is dropped; it counts
    /// with its IP header and without what Ethernet adds, until it has left.
    Octets {
        /// Octets that wait or leave at most.
        limit: u64,
    },
    /// By rank, as pFabric has it: the largest is dropped, the smallest leaves first.
    Rank {
        /// Packets that wait at most.
        limit: usize,
    },
    /// Payloads are cut off, as NDP has it; ten headers go for one packet.
    Trim {
        /// Packets with payload that wait at most.
        limit: usize,
    },
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub struct Sent<H> {
    /// Who sent it.
    pub from: Node,
    /// The packet.
    pub packet: Packet<H>,
    /// What happened to it so far.
    pub seen: Seen,
    /// Packets that were sent before it have smaller numbers.
    pub order: u64,
}

/// Ethernet with preamble and gap, IP and UDP.
const BELOW_BYTES: u32 = 38 + 28;
/// The shortest frame, with preamble and gap.
const FRAME_MIN_BYTES: u32 = 84;
/// The header of IP without options.
const IP_BYTES: u32 = 20;

impl<H: Header> Sent<H> {
    /// Octets that it takes on a link.
    pub fn wire_bytes(&self) -> u64 {
        let payload = if self.seen.trimmed { 0 } else { self.packet.payload.length_bytes };
        let bytes = BELOW_BYTES + self.packet.header.wire_bytes() + payload;
        u64::from(bytes.max(FRAME_MIN_BYTES))
    }

    /// Octets that it takes in a queue that counts them.
    fn queued_bytes(&self) -> u64 {
        let header = IP_BYTES + self.packet.header.wire_bytes();
        u64::from(header + self.packet.payload.length_bytes)
    }

    /// Does it carry payload?
    pub fn carries(&self) -> bool {
        self.packet.payload.length_bytes > 0 && !self.seen.trimmed
    }
}

/// The port to one host.
pub(super) struct Port<H> {
    queues: [VecDeque<Sent<H>>; 8],
    headers_in_turn: u32,
    /// Octets that wait or leave, and those of the packet that leaves.
    octets: u64,
    leaving: u64,
    /// Is a packet on its way out?
    pub(super) busy: bool,
    /// Most packets that were here at once.
    pub(super) longest: usize,
}

/// What became of a packet that came to a full port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entered {
    /// Nothing was lost.
    Whole,
    /// A packet was dropped, this or another.
    Dropped,
    /// A payload was cut off, this packet's or another's.
    Trimmed,
}

impl<H: Header> Port<H> {
    pub(super) fn new() -> Self {
        let queues = core::array::from_fn(|_| VecDeque::new());
        Port { queues, headers_in_turn: 0, octets: 0, leaving: 0, busy: false, longest: 0 }
    }

    /// A packet reaches the port.
    pub(super) fn enter(&mut self, queue: Queue, mut sent: Sent<H>, coin: &mut Stream) -> Entered {
        let length: usize = self.queues.iter().map(VecDeque::len).sum();
        self.longest = self.longest.max(length + 1);
        match queue {
            Queue::Ideal => self.queues[0].push_back(sent),
            Queue::Levels { limit, .. } if length >= limit => return Entered::Dropped,
            Queue::Levels { mark, .. } => {
                sent.seen.marked |= length >= mark;
                self.queues[7 - usize::from(sent.packet.priority)].push_back(sent);
            }
            Queue::Octets { limit } if self.octets + sent.queued_bytes() > limit => {
                return Entered::Dropped;
            }
            Queue::Octets { .. } => {
                self.octets += sent.queued_bytes();
                self.queues[0].push_back(sent);
            }
            Queue::Rank { limit } => {
                let all = &mut self.queues[0];
                all.push_back(sent);
                if all.len() > limit {
                    let worst = (0..all.len()).max_by_key(|&at| (all[at].packet.rank, at));
                    all.remove(worst.expect("a full queue"));
                    return Entered::Dropped;
                }
            }
            Queue::Trim { .. } if !sent.carries() => self.queues[0].push_back(sent),
            Queue::Trim { limit } if self.queues[1].len() < limit => {
                self.queues[1].push_back(sent);
            }
            Queue::Trim { .. } => {
                if coin.below(2) == 0 {
                    let newest = self.queues[1].pop_back().expect("a full queue");
                    self.queues[1].push_back(core::mem::replace(&mut sent, newest));
                }
                sent.seen.trimmed = true;
                self.queues[0].push_back(sent);
                return Entered::Trimmed;
            }
        }
        Entered::Whole
    }

    /// The packet that left is gone.
    pub(super) fn left(&mut self) {
        self.busy = false;
        self.octets -= core::mem::take(&mut self.leaving);
    }

    /// The packet that leaves next.
    pub(super) fn leave(&mut self, queue: Queue) -> Option<Sent<H>> {
        match queue {
            Queue::Ideal | Queue::Levels { .. } => {
                self.queues.iter_mut().find_map(VecDeque::pop_front)
            }
            Queue::Octets { .. } => {
                let next = self.queues[0].pop_front()?;
                self.leaving = next.queued_bytes();
                Some(next)
            }
            Queue::Rank { .. } => {
                let all = &mut self.queues[0];
                let best = all.iter().min_by_key(|sent| (sent.packet.rank, sent.order)).copied()?;
                // The earliest packet of the message with the smallest rank.
                let flow = |sent: &Sent<_>| (sent.from, sent.packet.payload.message);
                let at = all.iter().position(|sent| flow(sent) == flow(&best));
                all.remove(at.expect("it is there"))
            }
            Queue::Trim { .. } => {
                let headers_wait = !self.queues[0].is_empty();
                let headers_first = self.headers_in_turn < 10 || self.queues[1].is_empty();
                if headers_wait && headers_first {
                    self.headers_in_turn += 1;
                    self.queues[0].pop_front()
                } else {
                    self.headers_in_turn = 0;
                    self.queues[1].pop_front()
                }
            }
        }
    }
}
