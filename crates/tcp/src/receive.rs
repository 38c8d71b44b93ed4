//! What arrived: order, acknowledgements, and the window ([incast 2.7]).

use crate::config::DelayedAck;
use crate::segment::Sacks;
use alloc::vec::Vec;
use cavy_core::{Instant, Span};

/// Ranges out of order that are kept; a peer that makes more has the others dropped.
pub(crate) const RANGES_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// When it changed last, by count.
    touched: u64,
}

/// The receiving half of a connection. Numbers are 64-bit sequence numbers.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// The next octet wanted.
    pub next: u64,
    /// What the application took.
    pub taken: u64,
    /// The right edge that was advertised; it never moves left.
    pub edge: u64,
    /// How far it may move, where windows are given in turns.
    pub granted: u64,
    /// What is open is always whole segments, also where the buffer holds less than was granted.
    pub whole: bool,
    pub buffer: u64,
    pub scale: u8,
    /// Where the stream ends, once known.
    pub fin_at: Option<u64>,
    ranges: Vec<Range>,
    touches: u64,
    /// A duplicate that the next acknowledgement reports first (RFC 2883).
    duplicate: Option<(u64, u64)>,
    /// An acknowledgement is due.
    pub ack_now: bool,
    /// Duplicate acknowledgements due, each of which the sender counts.
    pub duplicates_owed: u16,
    /// Segments in order since the last acknowledgement.
    unacknowledged: u8,
    pub ack_at: Option<Instant>,
    pace: Pace,
}

/// What an adaptive receiver knows of its peer's pace ([`DelayedAck::Adaptive`]).
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Acknowledgements to give at once.
    quick: u8,
    /// How long others wait.
    delay: Span,
    last_at: Option<Instant>,
    /// The application answers what comes, so that answers carry acknowledgements.
    answering: bool,
}

/// Acknowledgements at once at the start, and after disorder or a pause.
const QUICK: u8 = 16;

fn half(span: Span) -> Span {
    Span::from_ns(span.as_ns() / 2)
}

impl Pace {
    /// A segment in order came; may its acknowledgement wait, and for how long?
    fn wait(&mut self, now: Instant, least: Span, most: Span, disorder: bool) -> Option<Span> {
        match self.last_at.replace(now).map(|at| now.since(at)) {
            None => self.delay = least,
            Some(gap) if gap <= half(least) => self.delay = half(self.delay) + half(least),
            Some(gap) if gap < self.delay => self.delay = (half(self.delay) + gap).min(most),
            Some(gap) if gap > most => self.quick = QUICK,
            Some(_) => {}
        }
        if disorder {
            (self.quick, self.answering) = (QUICK, false);
        }
        if self.quick > 0 && !self.answering {
            self.quick -= 1;
            return None;
        }
        Some(self.delay.max(least).min(most))
    }
}

/// A part of a segment that is new: its first octet, and its length.
pub(crate) type Part = (u64, u32);

impl Receiver {
    pub(crate) fn new(next: u64, buffer: u32, scale: u8) -> Receiver {
        Receiver {
            next,
            taken: next,
            edge: next + u64::from(buffer).min(65_535),
            granted: u64::MAX,
            whole: false,
            buffer: u64::from(buffer),
            scale,
            fin_at: None,
            ranges: Vec::new(),
            touches: 0,
            duplicate: None,
            ack_now: false,
            duplicates_owed: 0,
            unacknowledged: 0,
            ack_at: None,
            pace: Pace { quick: QUICK, delay: Span::ZERO, last_at: None, answering: false },
        }
    }

    /// The application writes: at once after something came, it is answering.
    pub(crate) fn answers_at(&mut self, now: Instant) {
        if self.pace.last_at.is_some_and(|at| now.since(at) < self.pace.delay) {
            self.pace.answering = true;
        }
    }

    /// Takes the octets from `start` to `end` in, calls `place` for each new part, and says whether
    /// the next octet wanted moved.
    pub(crate) fn take(
        &mut self,
        start: u64,
        end: u64,
        full: u64,
        policy: DelayedAck,
        now: Instant,
        mut place: impl FnMut(Part),
    ) -> bool {
        let (from, to) = (start.max(self.next), end.min(self.edge));
        if from >= to {
            self.duplicate = (start < self.next).then_some((start, end.min(self.next)));
            self.duplicates_owed = self.duplicates_owed.saturating_add(1);
            return false;
        }
        if start < self.next {
            self.duplicate = Some((start, self.next));
        }
        if from > self.next {
            self.keep(from, to, &mut place);
            self.duplicates_owed = self.duplicates_owed.saturating_add(1);
            return false;
        }
        let had_gap = !self.ranges.is_empty();
        let mut at = from;
        // The parts between the ranges that are there.
        for range in &self.ranges {
            if range.start >= to {
                break;
            }
            if range.start > at {
                place((at, (range.start - at) as u32));
            }
            at = at.max(range.end);
        }
        if at < to {
            place((at, (to - at) as u32));
        }
        self.next = to.max(at);
        while let Some(first) = self.ranges.first().filter(|range| range.start <= self.next) {
            self.next = self.next.max(first.end);
            self.ranges.remove(0);
        }
        self.duplicates_owed = 0;
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        match policy {
            DelayedAck::Off => self.ack_now = true,
            DelayedAck::Fixed(_) if had_gap || self.duplicate.is_some() => self.ack_now = true,
            DelayedAck::Fixed(_) | DelayedAck::Lazy(_)
                if self.unacknowledged >= 2 && to - from >= full =>
            {
                self.ack_now = true;
            }
            DelayedAck::Fixed(after) | DelayedAck::Lazy(after) => {
                self.ack_at = self.ack_at.or(Some(now + after));
            }
            DelayedAck::Adaptive { least, most } => {
                let disorder = had_gap || self.duplicate.is_some();
                let wait = self.pace.wait(now, least, most, disorder);
                let second = self.unacknowledged >= 2 && to - from >= full;
                match wait {
                    Some(after) if !second && !disorder => {
                        self.ack_at = self.ack_at.or(Some(now + after));
                    }
                    _ => self.ack_now = true,
                }
            }
        }
        true
    }

    /// Keeps octets out of order.
    fn keep(&mut self, from: u64, to: u64, place: &mut impl FnMut(Part)) {
        self.touches += 1;
        let first = self.ranges.partition_point(|range| range.end < from);
        let last = self.ranges.partition_point(|range| range.start <= to);
        let mut at = from;
        for range in &self.ranges[first..last] {
            if range.start > at {
                place((at, (range.start - at) as u32));
            }
            at = at.max(range.end);
        }
        if first == last {
            if self.ranges.len() >= RANGES_MAX {
                return;
            }
            place((from, (to - from) as u32));
            self.ranges.insert(first, Range { start: from, end: to, touched: self.touches });
            return;
        }
        if at >= to && first + 1 == last {
            self.duplicate = Some((from, to));
        }
        if at < to {
            place((at, (to - at) as u32));
        }
        let start = from.min(self.ranges[first].start);
        let end = to.max(self.ranges[last - 1].end);
        self.ranges[first] = Range { start, end, touched: self.touches };
        self.ranges.drain(first + 1..last);
    }

    /// Forgets octets out of order: behind a FIN nothing comes, whatever a peer has sent.
    pub(crate) fn forget_ranges(&mut self) {
        self.ranges.clear();
    }

    /// The blocks of an acknowledgement: a duplicate, then what changed last first.
    pub(crate) fn blocks(&mut self, most: usize) -> Sacks {
        let mut sacks = Sacks::NONE;
        let mut left = most;
        if let Some((start, end)) = self.duplicate.take() {
            sacks.push(start as u32, end as u32);
            left -= 1;
        }
        let mut before = u64::MAX;
        for _ in 0..left {
            let older = self.ranges.iter().filter(|range| range.touched < before);
            let Some(range) = older.max_by_key(|range| range.touched) else { break };
            before = range.touched;
            sacks.push(range.start as u32, range.end as u32);
        }
        sacks
    }

    /// The window of an acknowledgement that is sent now, as the header has it. Raises the edge
    /// only by much, so that the peer sends no crumbs (RFC 1122).
    pub(crate) fn window(&mut self, mss: u64) -> u16 {
        let granule = 1u64 << self.scale;
        let wanted = self.wanted(mss);
        let scheduled = self.granted < u64::MAX;
        let much = if scheduled { 1 } else { mss.min(self.buffer / 2).max(1) };
        if wanted >= self.edge + much {
            self.edge = wanted;
        }
        let open = self.edge.saturating_sub(self.next);
        let field = open.div_ceil(granule).min(65_535);
        self.edge = self.edge.max(self.next + field * granule);
        field as u16
    }

    /// How far the edge should be by now. A rest of a segment would be worse than nothing: Linux
    /// does not send it before a timer of 200 ms, and the segment that it becomes part of opens the
    /// window by too little to tell.
    fn wanted(&self, mss: u64) -> u64 {
        let room = self.taken + self.buffer;
        if !self.whole || room >= self.granted {
            return room.min(self.granted);
        }
        self.next + room.saturating_sub(self.next) / mss * mss
    }

    /// Would an acknowledgement sent now open the window by much?
    pub(crate) fn should_tell(&self, mss: u64) -> bool {
        let wanted = self.wanted(mss);
        // Windows that are given in turns are of single segments.
        let much = if self.granted < u64::MAX { mss } else { 2 * mss };
        wanted >= self.edge + much.min(self.buffer / 2).max(1)
    }

    /// An acknowledgement left.
    pub(crate) fn acknowledged(&mut self, alone: bool) {
        if alone && !self.ack_now && self.duplicates_owed > 0 {
            self.duplicates_owed -= 1;
        }
        self.ack_now = false;
        self.ack_at = None;
        self.unacknowledged = 0;
    }

    /// Is something missing before what came?
    pub(crate) fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Octets that came out of order.
    pub(crate) fn kept(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    pub(crate) fn owes(&self) -> bool {
        self.ack_now || self.duplicates_owed > 0
    }

    pub(crate) fn check(&self) {
        assert!(self.ranges.len() <= RANGES_MAX);
        let mut at = self.next;
        for range in &self.ranges {
            assert!(range.start > at && range.end > range.start, "{self:?}");
            at = range.end;
        }
        assert!(self.taken <= self.next, "the application took what is not there");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader takes 8,192 octets at a time of a server that may send 80 segments. Of the 79th
    /// turn's segment 295 octets were open once, and the rest was not told of: it was less than a
    /// segment more.
    #[test]
    fn a_slow_reader_before_a_server_that_sends_in_turn_opens_whole_segments() {
        const MSS: u64 = 1_448;
        let mut receiver = Receiver { whole: true, ..Receiver::new(0, 65_535, 0) };
        (receiver.edge, receiver.granted) = (0, 80 * MSS);
        for _ in 0..50 {
            if receiver.should_tell(MSS) {
                receiver.window(MSS);
            }
            assert_eq!(receiver.edge % MSS, 0);
            // Linux sends whole segments, and the rest of one after 200 ms.
            let (from, to) = (receiver.next, receiver.edge / MSS * MSS);
            if to > from {
                receiver.take(from, to, MSS, DelayedAck::Off, Instant::ZERO, |_| {});
            }
            receiver.taken = receiver.next.min(receiver.taken + 8_192);
        }
        assert_eq!(receiver.next, 80 * MSS);
    }
}
