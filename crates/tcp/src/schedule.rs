//! A receiver that schedules its senders by their windows ([incast 5.9], [incast 8]).
//!
//! Many servers that answer one client overflow the port before it, and the servers cannot know.
//! The client can: it asked them, and TCP lets it say how much each may send. Here all connections
//! that a host opened share what the port keeps. Each gets whole segments in turn, and asks only
//! when it has one, so that no more is under way than fits. Servers need not be changed.
//!
//! It is not fair to a server that is silent: its segment stays reserved until it sends or its
//! connection ends.

use crate::connection::Connection;

/// What the servers of a host share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Octets on the wire that may be under way to this host: what the narrowest port before it
    /// keeps. At least a packet.
    pub room_bytes: u32,
}

impl Schedule {
    /// Full segments that fit.
    pub(crate) fn segments(&self, mss_bytes: u16) -> u32 {
        (self.room_bytes / (u32::from(mss_bytes) + HEADERS_BYTES)).max(1)
    }
}

/// IP and TCP.
const HEADERS_BYTES: u32 = 40;

/// One connection's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Grant {
    /// Answers that are awaited, and the octets up to which they are expected to go.
    expects: u32,
    expected: u64,
    /// Segments reserved for it, once it had its turn.
    held: u32,
    active: bool,
    /// It stands in the row of those that want one.
    pub waiting: bool,
}

impl Grant {
    pub fn awaits(&self) -> bool {
        self.expects > 0
    }
}

impl Connection {
    /// An answer of about so many octets is awaited.
    pub(crate) fn expects(&mut self, octets: u64) {
        let read = self.receiver.next - self.read_first;
        if let Some(grant) = &mut self.grant {
            if grant.expects == 0 {
                grant.expected = read;
            }
            grant.expects += 1;
            grant.expected += octets.max(1);
        }
    }

    /// One came. Nothing is reserved for a connection that awaits none; says how much was.
    pub(crate) fn answered(&mut self) -> u32 {
        let Some(grant) = &mut self.grant else { return 0 };
        grant.expects = grant.expects.saturating_sub(1);
        if grant.expects > 0 {
            return 0;
        }
        grant.active = false;
        core::mem::take(&mut grant.held)
    }

    /// Does it want a turn?
    pub(crate) fn wants_turn(&self) -> bool {
        self.grant.is_some_and(|grant| {
            let end = self.read_first + grant.expected;
            let more = !grant.active || grant.held == 0 || self.receiver.granted < end;
            grant.expects > 0 && more
        })
    }

    /// May it ask? Before its turn a question would bring an answer that nobody has room for.
    pub(crate) fn may_ask(&self) -> bool {
        self.grant.is_none_or(|grant| grant.active)
    }

    fn segments_open(&self) -> u32 {
        let edge = self.receiver.granted.max(self.receiver.edge);
        edge.saturating_sub(self.receiver.next).div_ceil(self.mss) as u32
    }

    /// Counts anew what is reserved; says how much less it is.
    pub(crate) fn recount(&mut self) -> u32 {
        let open = self.segments_open();
        match &mut self.grant {
            Some(grant) if grant.active => {
                let left = open.min(grant.held);
                core::mem::replace(&mut grant.held, left) - left
            }
            _ => 0,
        }
    }

    /// Its turn, with so many segments free: what it takes of them.
    pub(crate) fn turn(&mut self, free: u32) -> u32 {
        let open = self.segments_open();
        let (next, mss, first) = (self.receiver.next, self.mss, self.read_first);
        let Some(grant) = &mut self.grant else { return 0 };
        if !grant.active && open > 0 {
            // Left over from before, and open to the peer.
            if open > free {
                return 0;
            }
            grant.active = true;
            grant.held = open;
            return open;
        }
        grant.active = true;
        let end = first + grant.expected;
        let whole = next + u64::from(grant.held) * mss;
        // Whole segments, and the last one as long as the answer: nothing is left over then.
        let to = if end > whole { (whole + mss).min(end) } else { whole + mss };
        self.receiver.granted = self.receiver.granted.max(to);
        self.receiver.ack_now = true;
        grant.held += 1;
        1
    }
}
