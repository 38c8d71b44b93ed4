//! What is missing of a message: `[received end, ...)` and a list of gaps below it ([homa 2.5]).
//!
//! The gaps of all messages live in one pool, so that no message owns memory of its own. Lists are
//! ascending and disjoint.

use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Gap {
    start: u32,
    end: u32,
    next: u32,
}

/// The gaps of all messages.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    gaps: Vec<Gap>,
    free: u32,
    used: u32,
}

/// What one message has received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// The first gap.
    pub(crate) first: u32,
    /// Number of gaps.
    pub(crate) gaps: u32,
    /// All bytes received lie below.
    pub(crate) end: u32,
    /// Bytes received.
    pub(crate) bytes: u32,
}

impl Received {
    pub(crate) const NOTHING: Received = Received { first: NIL, gaps: 0, end: 0, bytes: 0 };
}

impl Default for Pool {
    fn default() -> Self {
        Pool { gaps: Vec::new(), free: NIL, used: 0 }
    }
}

impl Pool {
    fn take(&mut self, gap: Gap) -> u32 {
        self.used += 1;
        if self.free == NIL {
            self.gaps.push(gap);
            return (self.gaps.len() - 1) as u32;
        }
        let at = self.free;
        self.free = self.gaps[at as usize].next;
        self.gaps[at as usize] = gap;
        at
    }

    fn give(&mut self, at: u32) {
        self.used -= 1;
        self.gaps[at as usize].next = self.free;
        self.free = at;
    }

    /// Gaps in use over all messages.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Adds `[start, end)` to `received` and calls `new` with each part that was missing, in
    /// ascending order. Returns the number of new bytes; `None`, and nothing changed, when that
    /// would take more than `gaps_max` gaps.
    #[inline]
    pub(crate) fn add(
        &mut self,
        received: &mut Received,
        start: u32,
        end: u32,
        gaps_max: u32,
        mut new: impl FnMut(u32, u32),
    ) -> Option<u32> {
        let mut fresh = 0;
        if start < received.end {
            fresh = self.fill(received, start, end.min(received.end), gaps_max, &mut new)?;
        } else if start > received.end && received.gaps >= gaps_max {
            return None;
        }
        if end > received.end {
            let from = start.max(received.end);
            if start > received.end {
                self.append(received, received.end, start);
            }
            new(from, end - from);
            fresh += end - from;
            received.end = end;
        }
        received.bytes += fresh;
        Some(fresh)
    }

    fn append(&mut self, received: &mut Received, start: u32, end: u32) {
        let gap = self.take(Gap { start, end, next: NIL });
        received.gaps += 1;
        if received.first == NIL {
            received.first = gap;
            return;
        }
        let mut last = received.first;
        while self.gaps[last as usize].next != NIL {
            last = self.gaps[last as usize].next;
        }
        self.gaps[last as usize].next = gap;
    }

    /// Fills what is missing of `[start, end)`, which lies below the received end.
    fn fill(
        &mut self,
        received: &mut Received,
        start: u32,
        end: u32,
        gaps_max: u32,
        new: &mut impl FnMut(u32, u32),
    ) -> Option<u32> {
        let mut fresh = 0;
        let mut before = NIL;
        let mut at = received.first;
        while at != NIL {
            let gap = self.gaps[at as usize];
            if gap.start >= end {
                break;
            }
            let (from, to) = (gap.start.max(start), gap.end.min(end));
            if from >= to {
                before = at;
                at = gap.next;
                continue;
            }
            match (from > gap.start, to < gap.end) {
                (true, true) => {
                    // Inside one gap, so this is the only part and nothing has changed yet.
                    if received.gaps >= gaps_max {
                        return None;
                    }
                    let rest = self.take(Gap { start: to, end: gap.end, next: gap.next });
                    self.gaps[at as usize] = Gap { start: gap.start, end: from, next: rest };
                    received.gaps += 1;
                    before = rest;
                }
                (true, false) => {
                    self.gaps[at as usize].end = from;
                    before = at;
                }
                (false, true) => {
                    self.gaps[at as usize].start = to;
                    before = at;
                }
                (false, false) => {
                    if before == NIL {
                        received.first = gap.next;
                    } else {
                        self.gaps[before as usize].next = gap.next;
                    }
                    received.gaps -= 1;
                    self.give(at);
                }
            }
            new(from, to - from);
            fresh += to - from;
            at = gap.next;
        }
        Some(fresh)
    }

    /// Forgets the gaps of `received`.
    pub(crate) fn clear(&mut self, received: &mut Received) {
        let mut at = received.first;
        while at != NIL {
            let next = self.gaps[at as usize].next;
            self.give(at);
            at = next;
        }
        *received = Received::NOTHING;
    }

    /// The gaps of `received`, ascending, as (start, end).
    pub(crate) fn iter(&self, received: &Received) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut at = received.first;
        core::iter::from_fn(move || {
            let (start, end, next) = self.at(at)?;
            at = next;
            Some((start, end))
        })
    }

    /// The gap at `at`, as (start, end, the next one's place).
    pub(crate) fn at(&self, at: u32) -> Option<(u32, u32, u32)> {
        self.gaps.get(at as usize).map(|gap| (gap.start, gap.end, gap.next))
    }
}
