//! Losses found by time, and a probe at the end of a flight ([incast 2.9], RFC 8985).
//!
//! A segment is lost when one that was sent later is there, and more time has passed than
//! reordering may take. This finds lost retransmissions as well, which counting cannot.

use crate::config::Planted;
use crate::connection::{Connection, Fate, Phase, Sent, Step};
use cavy_core::{Instant, Span};

/// Parameters of detection by time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rack {
    /// What timers are late by and so is added to them: two jiffies in Linux, the granularity of
    /// timers where they are fine.
    pub slack: Span,
    /// Send a probe when nothing was heard for two round trips (TLP).
    pub probe: bool,
    /// Added to the time of a probe when a single segment is in flight, whose acknowledgement may
    /// be delayed: 200 ms in Linux.
    pub alone: Span,
}

impl Rack {
    /// Linux with a clock of 250 Hz: two jiffies, and the least timeout for a single segment.
    pub const JIFFIES: Rack =
        Rack { slack: Span::from_ms(8), probe: true, alone: Span::from_ms(200) };
    /// Timers as fine as the clock, and a peer that acknowledges at once.
    pub const FINE: Rack = Rack { slack: Span::from_us(1), probe: true, alone: Span::ZERO };
}

/// Reordering windows are quarters of the least round trip, at most so many.
const QUARTERS_MAX: u32 = 64;
/// A wider window is kept for so many recoveries.
const PERSIST: u8 = 16;
/// How long a least round trip counts.
const LEAST_FOR: Span = Span::from_ms(300_000);

/// What a connection remembers of deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delivered {
    /// When the latest sent of all delivered segments was sent, and its end.
    at: Instant,
    end: u64,
    /// Its round trip, and the least of all.
    rtt: Span,
    least: Option<(Span, Instant)>,
    /// The right end of all that is there.
    forward: u64,
    reordering: bool,
    quarters: u32,
    persist: u8,
    /// The window was widened for this round, which ends when this is acknowledged.
    widened_to: u64,
}

impl Delivered {
    pub fn new(first: u64) -> Delivered {
        Delivered {
            at: Instant::ZERO,
            end: 0,
            rtt: Span::ZERO,
            least: None,
            forward: first,
            reordering: false,
            quarters: 1,
            persist: 0,
            widened_to: 0,
        }
    }

    /// A segment is newly known to be there. `original` says that the peer's timestamp shows it was
    /// the first copy.
    pub fn note(&mut self, sent: &Sent, now: Instant, original: bool) {
        let rtt = now.since(sent.at);
        let once = sent.sends == 1;
        if sent.end < self.forward && once {
            self.reordering = true;
        }
        self.forward = self.forward.max(sent.end);
        let least = self.least.filter(|&(_, at)| now.since(at) < LEAST_FOR);
        if !once && (original || least.is_some_and(|(least, _)| rtt < least)) {
            return;
        }
        if least.is_none_or(|(least, _)| rtt < least) {
            self.least = Some((rtt, now));
        }
        if (sent.at, sent.end) >= (self.at, self.end) {
            (self.at, self.end, self.rtt) = (sent.at, sent.end, rtt);
        }
    }

    /// A duplicate was reported: what was taken for lost came late.
    fn widen(&mut self, una: u64, next: u64) {
        if una >= self.widened_to {
            self.quarters = (self.quarters + 1).min(QUARTERS_MAX);
            self.widened_to = next;
        }
        self.persist = PERSIST;
    }

    /// A recovery ended without such a report.
    pub fn narrow(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }
}

/// A probe that is not acknowledged yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    /// What must be acknowledged until it is over.
    end: u64,
    /// It repeated a segment, and so may have repaired a loss that nobody saw.
    repeated: bool,
}

impl Connection {
    /// How much later than later ones a segment may come.
    fn reordering_window(&self, dupthresh: u8) -> Span {
        let delivered = &self.delivered;
        if !delivered.reordering {
            let repairing = self.phase != Phase::Open;
            if repairing || self.sacked >= u32::from(dupthresh) {
                return Span::ZERO;
            }
        }
        let least = delivered.least.map_or(Span::ZERO, |(least, _)| least);
        let window = Span::from_ns(least.as_ns() / 4 * u64::from(delivered.quarters));
        window.min(self.rto.srtt().unwrap_or(window))
    }

    /// Loses what was sent long enough before something that is there. Arms the timer for the rest.
    pub(crate) fn detect_by_time(&mut self, step: &mut Step<'_, '_>) {
        let Some(rack) = step.config.rack else { return };
        self.rack_at = None;
        let delivered = self.delivered;
        if delivered.end == 0 {
            return;
        }
        let patience = delivered.rtt + self.reordering_window(step.config.dupthresh);
        let mut last: Option<Instant> = None;
        for sent in &mut self.queue {
            if sent.fate != Fate::Out || (sent.at, sent.end) >= (delivered.at, delivered.end) {
                continue;
            }
            let until = sent.at + patience;
            if until <= step.now {
                sent.fate = Fate::Lost;
                self.out -= sent.length();
                self.lost += 1;
            } else {
                last = last.max(Some(until));
            }
        }
        self.rack_at = last.map(|at| at + rack.slack);
    }

    /// The reordering timer came: looks as of when it was to come, not as of when it did.
    pub(crate) fn reordering_ran_out(&mut self, step: &mut Step<'_, '_>) {
        self.detect_by_time(step);
        self.repair(false, step);
    }

    /// Which segments a retransmission timer loses: all, or the first and those for which enough
    /// time has passed.
    pub(crate) fn is_lost_by_timer(&self, sent: &Sent, step: &Step<'_, '_>) -> bool {
        if step.config.rack.is_none() || !self.sack || self.delivered.end == 0 {
            return true;
        }
        let patience = self.delivered.rtt + self.reordering_window(step.config.dupthresh);
        sent.start == self.una || sent.at + patience <= step.now
    }

    /// A duplicate was reported by the peer.
    pub(crate) fn reordered(&mut self) {
        self.delivered.widen(self.una, self.next);
    }

    /// Arms the timer of the probe, where one is due.
    pub(crate) fn consider_probe(&mut self, step: &mut Step<'_, '_>) {
        self.probe_at = None;
        let Some(rack) = step.config.rack.filter(|rack| rack.probe && self.sack) else { return };
        let quiet = self.phase == Phase::Open && self.sacked == 0 && self.lost == 0;
        if !quiet || self.queue.is_empty() || self.tail.is_some() || self.is_half_open() {
            return;
        }
        let wait = match self.rto.srtt() {
            Some(srtt) => {
                let more = if self.queue.len() == 1 { rack.alone } else { Span::ZERO };
                srtt * 2 + more.max(rack.slack)
            }
            None => Span::from_ms(1_000),
        };
        let at = step.now + wait;
        // The retransmission timer stays armed behind it.
        self.probe_at = Some(self.rto_at.map_or(at, |rto| rto.min(at)));
    }

    /// Nothing was heard for two round trips: one new segment, or else the last one again.
    pub(crate) fn probe_is_due(&mut self, step: &mut Step<'_, '_>) {
        self.probe_at = None;
        let Some(last) = self.queue.back().copied() else { return };
        if last.fate != Fate::Out {
            return;
        }
        step.counts.probes += 1;
        let fresh = self.next < self.written && self.next - self.una < self.window;
        self.tail = Some(Probe { end: self.next, repeated: !fresh });
        if fresh {
            self.extra = true;
        } else {
            self.repeats_tail = true;
        }
        self.rto_at = Some(self.rto.deadline(&step.config.rto, step.now, step.rng));
        if step.config.planted == Some(Planted::ProbeWithoutTimer) {
            self.rto_at = None;
        }
    }

    /// What an acknowledgement up to `ack` says of a probe: true when the probe repaired a loss,
    /// which no duplicate told anybody of, and which the window must answer.
    pub(crate) fn probe_told(&mut self, ack: u64, reported: bool) -> bool {
        let Some(probe) = self.tail.filter(|probe| ack >= probe.end) else { return false };
        self.tail = None;
        probe.repeated && !reported && self.phase == Phase::Open
    }
}
