//! Marks of switches instead of losses: what a receiver says of them, and what a sender does
//! ([incast 2.7], [incast 2.11]).
//!
//! As RFC 3168 has it, a receiver repeats that it saw a mark until it hears that the window was
//! reduced, and a sender reduces once a round trip as after a loss. DCTCP (RFC 8257) says of every
//! acknowledgement whether what it covers was marked, and reduces by the share that was.

use crate::congestion::DCTCP_LEAST;
use crate::connection::{Connection, Phase, Step};
use crate::segment::{Flags, Segment};

/// Whether marks are negotiated, and what they mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// Packets do not bear marks: a switch that would mark drops.
    #[default]
    Off,
    /// As losses (RFC 3168).
    Classic,
    /// By their share (RFC 8257). Peers must do the same.
    Dctcp,
}

/// One, of shares.
const ONE: u32 = 1 << 20;
/// What a new round trip weighs in the mean: a sixteenth.
const GAIN_SHIFT: u32 = 4;

/// The mean share of octets that were marked, by round trips (RFC 8257 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    mean: u32,
    acked: u64,
    marked: u64,
    /// The round trip ends when this is acknowledged.
    until: u64,
}

impl Share {
    pub fn new() -> Share {
        // Who knows nothing yet takes a mark for the worst.
        Share { mean: ONE, acked: 0, marked: 0, until: 0 }
    }

    /// So many octets are there, of which a mark was told; `una` and `next` are the edges.
    pub fn note(&mut self, octets: u64, told: bool, una: u64, next: u64) {
        self.acked += octets;
        self.marked += if told { octets } else { 0 };
        if una < self.until || self.acked == 0 {
            return;
        }
        let share = (u128::from(self.marked) * u128::from(ONE) / u128::from(self.acked)) as u32;
        // Rounded up, so that a mean above zero falls to zero at last.
        self.mean -= self.mean.div_ceil(1 << GAIN_SHIFT);
        self.mean = (self.mean + (share >> GAIN_SHIFT)).min(ONE);
        *self = Share { acked: 0, marked: 0, until: next, ..*self };
    }

    /// A window less half of its marked share.
    pub fn reduced(&self, cwnd: u64) -> u64 {
        cwnd - (u128::from(cwnd) * u128::from(self.mean) / u128::from(2 * ONE)) as u64
    }
}

/// What one connection knows of marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Marks {
    /// Both ends do it.
    pub agreed: bool,
    /// The packet that is looked at was marked.
    pub here: bool,
    /// Acknowledgements say so.
    pub says: bool,
    /// The next new segment says that the window was reduced.
    pub tells: bool,
    /// Marks of what was sent before this are answered already.
    answered: u64,
    pub share: Share,
}

impl Marks {
    pub fn new() -> Marks {
        Marks {
            agreed: false,
            here: false,
            says: false,
            tells: false,
            answered: 0,
            share: Share::new(),
        }
    }
}

impl Connection {
    /// Whether a SYN, or its answer, agrees to marks (RFC 3168 6.1.1).
    pub(crate) fn agree_on_marks(&mut self, ecn: Ecn, syn: &Segment) {
        let asks = syn.flags.has(Flags::ECE.with(Flags::CWR));
        let answers = syn.flags.has(Flags::ECE) && !syn.flags.has(Flags::CWR);
        let agrees = if syn.flags.has(Flags::ACK) { answers } else { asks };
        self.marks.agreed = ecn != Ecn::Off && agrees;
    }

    /// Flags of a SYN or its answer. One that is repeated asks no more: something on the way may
    /// drop those that do (RFC 3168 6.1.1.1).
    pub(crate) fn flags_of_syn(&self, ecn: Ecn, answers: bool) -> Flags {
        let repeated = self.queue.front().is_some_and(|head| head.sends > 1);
        match answers {
            true if self.marks.agreed => Flags::ECE,
            false if ecn != Ecn::Off && !repeated => Flags::ECE.with(Flags::CWR),
            _ => Flags(0),
        }
    }

    /// Data came in order or out of it: what acknowledgements say of marks from here on.
    pub(crate) fn hear_mark(&mut self, segment: &Segment, step: &mut Step<'_, '_>) {
        let Marks { agreed, here, says, .. } = self.marks;
        match step.config.ecn {
            _ if !agreed => {}
            Ecn::Off | Ecn::Classic => {
                self.marks.says = here || (says && !segment.flags.has(Flags::CWR));
            }
            Ecn::Dctcp if here != says => {
                // What waits to be acknowledged was otherwise, and is said apart (RFC 8257 3.2).
                if self.receiver.ack_at.is_some() || self.receiver.owes() {
                    let leaving = self.leaving(self.next, self.next, step);
                    step.answers.push_back((self.peer, leaving.segment));
                }
                self.marks.says = here;
            }
            Ecn::Dctcp => {}
        }
    }

    /// A new segment with data leaves.
    pub(crate) fn mark_new(&mut self, segment: &mut Segment) {
        segment.ect = self.marks.agreed;
        if core::mem::take(&mut self.marks.tells) {
            segment.flags = segment.flags.with(Flags::CWR);
        }
    }

    /// An acknowledgement of so many octets says whether they were marked. True when the window
    /// was reduced for it.
    pub(crate) fn answer_mark(
        &mut self,
        segment: &Segment,
        octets: u64,
        step: &mut Step<'_, '_>,
    ) -> bool {
        if !self.marks.agreed || segment.flags.has(Flags::SYN) {
            return false;
        }
        let told = segment.flags.has(Flags::ECE);
        step.counts.marks += u64::from(told);
        let dctcp = step.config.ecn == Ecn::Dctcp;
        if dctcp {
            self.marks.share.note(octets, told, self.una, self.next);
        }
        // Once a round trip, and not beside the repair of a loss, which was answered.
        if !told || self.phase != Phase::Open || self.una <= self.marks.answered {
            return false;
        }
        if dctcp {
            self.cwnd = self.marks.share.reduced(self.cwnd).max(DCTCP_LEAST * self.mss);
            self.ssthresh = self.cwnd;
        } else {
            let flight = (self.next - self.una).max(self.mss);
            self.ssthresh = self.growth.after_loss(self.cwnd, flight, self.mss);
            self.cwnd = self.cwnd.min(self.ssthresh);
        }
        (self.marks.answered, self.marks.tells) = (self.next, true);
        step.counts.marked_reductions += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of ten segments, of which so many were marked.
    fn rounds(share: &mut Share, many: u32, marked: u64) {
        for _ in 0..many {
            let start = share.until.max(1);
            for n in 1..=10 {
                share.note(1000, n <= marked, start + n * 1000, start + 20_000);
            }
            share.until = start + 10_000;
        }
    }

    #[test]
    fn rfc_8257_3_3_the_share_is_a_mean_of_sixteenths_by_round_trips() {
        let mut share = Share::new();
        share.until = 1;
        // The first round trip ends at once; then 15/16 of what was, and 1/16 of what is.
        share.note(1000, false, 1, 10_001);
        assert_eq!(share.mean, ONE / 16 * 15);
        for n in 1..10 {
            share.note(1000, n <= 5, 1 + n * 1000, 10_001);
        }
        share.note(1000, false, 10_001, 20_001);
        let now = f64::from(share.mean) / f64::from(ONE);
        assert!((now - (15.0 / 16.0 * 15.0 / 16.0 + 0.5 / 16.0)).abs() < 1e-5, "{now}");
    }

    #[test]
    fn rfc_8257_3_3_no_marks_for_long_leave_the_window_alone_and_all_halve_it() {
        let mut share = Share::new();
        rounds(&mut share, 400, 0);
        assert_eq!((share.mean, share.reduced(100_000)), (0, 100_000));
        rounds(&mut share, 200, 10);
        let reduced = share.reduced(100_000);
        assert!((50_000..50_100).contains(&reduced), "{reduced}");
    }
}
