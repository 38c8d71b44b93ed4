//! A receiver that schedules its senders by their windows ([incast 5.9], [incast 8]).
//!
//! Many servers that answer one client overflow the port before it, and the servers cannot know.
//! The client can: it asked them, and TCP lets it say how much each may send. Here all connections
//! that a host opened share what the port keeps. Each gets whole segments in turn, and asks only
//! when it has one, so that no more is under way than fits. Servers need not be changed.
//!
//! How many fit is told, or learned from what comes (`learner.rs`).
//!
//! It is not fair to a server that is silent: its segment stays reserved until it sends or its
//! connection ends.
//!
//! Two habits of Linux make windows of single segments worse than useless [incast 0a]: it cuts
//! segments to half of the largest window it ever saw, and with less than a segment of window and
//! nothing in flight it waits for a timer of 200 ms. Of senders that are not ours,
//! [`Schedule::foreign`], connections open with two segments, which the first answer's turn
//! reserves, and what is open is always whole segments. How long such answers are nobody knows, so
//! that a server has no second turn before it sent something.

use crate::config::Config;
use crate::connection::Connection;
use crate::learner::Learner;
use crate::rack::Rack;
use cavy_core::{Instant, Span};

/// What the servers of a host share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Octets on the wire that may be under way to this host: what the narrowest port before it
    /// keeps. At least a packet. `None`: it is learned.
    pub room_bytes: Option<u32>,
    /// The servers are not ours: they may be Linux, and their answers may have any length.
    pub foreign: bool,
}

/// Segments of a foreign connection's first window.
const OPENING: u64 = 2;

impl Schedule {
    /// Timers of a host before servers that are not ours.
    ///
    /// What acknowledges a question waits at the port behind all that others were let send, and a
    /// new connection knows a round trip without it. A repetition has an acknowledgement of its
    /// own, for which nobody kept room.
    pub(crate) fn patient(mut config: Config) -> Config {
        if config.schedule.is_some_and(|schedule| schedule.foreign) {
            config.rto.min = config.rto.min.max(PATIENCE.min(config.rto.max));
            if let Some(rack) = &mut config.rack {
                rack.alone = rack.alone.max(Rack::JIFFIES.alone);
            }
        }
        config
    }

    /// Full segments that fit, where it was told.
    pub(crate) fn segments(&self, mss_bytes: u16) -> Option<u32> {
        let packet = u32::from(mss_bytes) + HEADERS_BYTES;
        self.room_bytes.map(|room| (room / packet).max(1))
    }
}

/// How long the acknowledgement of a question may wait at the port, in which one of 50 Mb/s sends
/// 32 kB.
const PATIENCE: Span = Span::from_ms(5);
/// After so many segments in order a window that a loss had left at two is above four.
const STRONG: u8 = 10;
/// IP and TCP.
const HEADERS_BYTES: u32 = 40;

/// One connection's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Grant {
    /// Answers that are awaited, and the octets up to which they are expected to go.
    expects: u32,
    expected: u64,
    /// How much had come when the first of them was asked for.
    began: u64,
    /// Segments reserved for it, once it had its turn.
    held: u32,
    active: bool,
    /// The next octet wanted when its turn began, where the sender is not ours.
    asked_at: Option<u64>,
    /// It stands in the row of those that want one.
    pub waiting: bool,
    /// It had a turn since somebody asked whether its server is silent.
    fresh: bool,
    /// The next octet wanted when it was looked at last, and whether one before others was missing.
    seen: u64,
    gap: bool,
    /// How many may be under way is learned.
    learns: bool,
    /// A turn that is timed: where it ends, when it began, and whether it was the first.
    timed: Option<(u64, Instant, bool)>,
    /// Segments that came in order since the answer began, or since one was lost.
    strength: u8,
    /// The shortest round trip.
    least: Option<Span>,
}

impl Grant {
    pub fn new(schedule: Schedule) -> Grant {
        Grant { learns: schedule.room_bytes.is_none(), ..Grant::default() }
    }

    pub fn awaits(&self) -> bool {
        self.expects > 0
    }

    /// Did it wait for a turn, or have one, since this was asked last? Then nobody can say yet
    /// that its server is silent: what the turn is for may be under way.
    pub fn waited(&mut self) -> bool {
        let waits = self.expects > 0 && (!self.active || self.held == 0);
        core::mem::take(&mut self.fresh) || waits
    }
}

impl Connection {
    /// An answer of about so many octets is awaited.
    pub(crate) fn expects(&mut self, octets: u64) {
        let read = self.receiver.next - self.read_first;
        if let Some(grant) = &mut self.grant {
            if grant.expects == 0 {
                (grant.expected, grant.began) = (read, read);
                grant.strength = 0;
            }
            grant.expects += 1;
            grant.expected += octets.max(1);
        }
    }

    /// The octets that the first window has, of segments of `mss` octets.
    pub(crate) fn opening(config: &Config, mss: u64) -> u64 {
        let is_foreign = config.schedule.is_some_and(|schedule| schedule.foreign);
        if is_foreign { OPENING * mss } else { 0 }
    }

    /// One came. Nothing is reserved for a connection that awaits none; says how much was.
    pub(crate) fn answered(&mut self) -> u32 {
        let Some(grant) = &mut self.grant else { return 0 };
        grant.expects = grant.expects.saturating_sub(1);
        if grant.expects > 0 {
            return 0;
        }
        (grant.active, grant.timed) = (false, None);
        core::mem::take(&mut grant.held)
    }

    /// Does it want a turn?
    pub(crate) fn wants_turn(&self) -> bool {
        self.grant.is_some_and(|grant| {
            let end = self.read_first + grant.expected;
            let more = !grant.active || grant.held == 0 || self.receiver.granted < end;
            let silent = grant.active && grant.asked_at == Some(self.receiver.next);
            grant.expects > 0 && more && !(silent && grant.held > 0)
        })
    }

    /// May it ask? Before its turn a question would bring an answer that nobody has room for. What
    /// awaits no answer needs no turn.
    pub(crate) fn may_ask(&self) -> bool {
        self.grant.is_none_or(|grant| grant.active || grant.expects == 0)
    }

    fn segments_open(&self) -> u32 {
        let edge = self.receiver.granted.max(self.receiver.edge);
        // What came out of order is not under way. Who was told how many may be counts it.
        let learns = self.grant.is_some_and(|grant| grant.learns);
        let kept = if learns { self.receiver.kept() } else { 0 };
        edge.saturating_sub(self.receiver.next + kept).div_ceil(self.mss) as u32
    }

    /// Counts anew what is reserved; says how much less it is. What is left of a segment becomes a
    /// whole one again, which takes nothing that is not reserved.
    pub(crate) fn recount(&mut self) -> u32 {
        let open = self.segments_open();
        let (next, mss) = (self.receiver.next, self.mss);
        match &mut self.grant {
            Some(grant) if grant.active => {
                let left = open.min(grant.held);
                let freed = core::mem::replace(&mut grant.held, left) - left;
                let whole = next + u64::from(left) * mss;
                if grant.asked_at.is_some() && whole > self.receiver.granted {
                    self.receiver.granted = whole;
                    self.receiver.ack_now = true;
                }
                freed
            }
            _ => 0,
        }
    }

    /// Tells a learner what came since it was looked at last.
    pub(crate) fn observe(&mut self, learner: &mut Learner, now: Instant) {
        let (next, gap) = (self.receiver.next, self.receiver.has_gap());
        let Some(grant) = &mut self.grant else { return };
        let moved = next - if grant.seen == 0 { next } else { grant.seen };
        let filled = grant.gap;
        grant.strength = match filled {
            true => 0,
            false => grant.strength.saturating_add(moved.div_ceil(self.mss) as u8),
        };
        (grant.seen, grant.gap) = (next, gap);
        if gap {
            grant.timed = None;
            if !filled {
                learner.lost(now);
            }
        }
        if let Some((_, at, first)) = grant.timed.filter(|timed| next >= timed.0) {
            grant.timed = None;
            let trip = now.since(at);
            if Learner::is_late(trip) && !first {
                learner.lost(now);
            } else {
                let is_new = grant.least.is_none();
                let least = grant.least.map_or(trip, |least| least.min(trip));
                grant.least = Some(least);
                learner.sample(trip, least, first || is_new);
            }
        }
        if moved > 0 {
            learner.arrived(moved, filled, now);
        }
    }

    /// Is it in the middle of its turns, and wants another?
    pub(crate) fn goes_on(&self) -> bool {
        self.grant.is_some_and(|grant| grant.active) && self.wants_turn()
    }

    /// Would the loss of the next segment wait for a timer? It would at the end of an answer, where
    /// no three segments follow by which the server learns of it, and while the server's window is
    /// small, at the beginning and after a loss.
    pub(crate) fn is_frail(&self) -> bool {
        self.grant.is_some_and(|grant| {
            if grant.strength < STRONG {
                return true;
            }
            let end = self.read_first + grant.expected;
            let to = self.receiver.granted.max(self.receiver.next) + self.mss;
            to + 2 * self.mss >= end
        })
    }

    /// Times the turn that it was just given, if none is timed.
    pub(crate) fn time_turn(&mut self, now: Instant) {
        let (next, granted) = (self.receiver.next, self.receiver.granted);
        let read = next - self.read_first;
        if let Some(grant) = self.grant.as_mut().filter(|grant| grant.timed.is_none() && !grant.gap)
        {
            let first = grant.began == read;
            grant.timed = Some((granted, now, first));
        }
    }

    /// Its turn, with so many segments free: what it takes of them.
    pub(crate) fn turn(&mut self, free: u32, foreign: bool) -> u32 {
        let open = self.segments_open();
        let (next, mss, first) = (self.receiver.next, self.mss, self.read_first);
        let Some(grant) = &mut self.grant else { return 0 };
        grant.fresh = true;
        if !grant.active {
            grant.asked_at = foreign.then_some(next);
        }
        if !grant.active && open > 0 {
            // Left over from before, and open to the peer.
            if open > free {
                return 0;
            }
            grant.active = true;
            grant.held = open;
            let whole = next + u64::from(open) * mss;
            if foreign && whole > self.receiver.granted {
                self.receiver.granted = whole;
                self.receiver.ack_now = true;
            }
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

#[cfg(test)]
mod tests {
    use super::Grant;

    #[test]
    fn a_server_is_not_silent_while_it_waits_or_as_soon_as_it_has_its_turn() {
        let mut grant = Grant { expects: 1, ..Grant::default() };
        assert!(grant.waited() && grant.waited(), "it waits");
        (grant.active, grant.held, grant.fresh) = (true, 1, true);
        assert!(grant.waited(), "its turn has just begun");
        assert!(!grant.waited(), "nothing happened since");
        grant.held = 0;
        assert!(grant.waited(), "it waits for the next");
    }
}
