//! What a server copies from others and what others copy from it, at their share of a processor.

use super::super::map::{Map, State};
use super::super::message::{Doc, Job, Message, Record};
use super::super::{Context, Timer};
use super::{After, Came, Content, DOCS, PATIENCE, Server, Task, YIELDS};
use crate::ring::{Arc as Length, Id, Slice, WHOLE};
use alloc::vec::Vec;
use cavy_core::family::message::{Effect, Via};
use cavy_core::{Instant, Span};

impl<C: Content> Server<C> {
    /// When copies may go on after one that has taken `took`, so that both ends keep to their
    /// share. `due` is when this one might have begun: what it waited for queries is made up for.
    pub(super) fn next(&self, due: Instant, took: Span, now: Instant) -> Instant {
        let percent = u64::from(self.config.copy_percent.clamp(1, 100));
        let begun = Instant::from_ns(now.as_ns().saturating_sub(took.as_ns()));
        let least = match self.config.copies_wait {
            true => Instant::from_ns(begun.as_ns().saturating_sub(YIELDS.as_ns())),
            false => begun,
        };
        // Reading for others and merging for oneself share it.
        due.max(least) + Span::from_ns(took.as_ns() * 200 / percent)
    }

    /// Whether what has waited since then goes on waiting for queries.
    fn waits(&self, since: Instant, now: Instant) -> bool {
        self.config.copies_wait && self.scans > 0 && now < since + YIELDS
    }

    /// No query waits: copies go on.
    pub(super) fn idle(&mut self, cx: &mut Context<'_, C>) {
        if self.scans == 0 {
            self.read(cx);
            self.take_in(cx);
        }
    }

    /// As much of a slice as a chunk can have: it ends with the last document that fits.
    pub(super) fn fitting(&self, slice: Slice) -> Slice {
        let last = self.written(slice).nth(DOCS - 1).map(|doc| doc.id);
        Slice::new(slice.lo, last.unwrap_or(slice.hi))
    }

    /// What is copied of `left` at a stretch: a piece, or all of it when it has waited
    /// since `since` for as long as it may.
    fn stretch(&self, left: Slice, since: Instant, now: Instant) -> Slice {
        let piece = self.config.piece;
        let yields = self.config.copies_wait && now < since + YIELDS;
        match yields && u128::from(piece) < left.width() {
            true => Slice::new(left.lo, left.lo.wrapping_add(piece)),
            false => left,
        }
    }

    /// Reads for somebody else, one slice at a time.
    pub(super) fn read(&mut self, cx: &mut Context<'_, C>) {
        let (now, due) = (cx.now(), self.read_after);
        let Some(first) = self.wanted.front_mut().filter(|_| !self.reading) else { return };
        if first.upto == first.slice.lo && now < due {
            return cx.arm(Timer::Read, due);
        }
        let since = *first.since.get_or_insert(now);
        if self.waits(since, now) {
            return cx.arm(Timer::Read, since + YIELDS);
        }
        let Some(mut wanted) = self.wanted.pop_front() else { return };
        if !(self.may_answer(now) && self.holds(wanted.slice)) {
            return;
        }
        if wanted.upto == wanted.slice.lo {
            wanted.slice = self.fitting(wanted.slice);
        }
        self.reading = true;
        // Of written documents alone next to nothing is read.
        let (lo, hi) = (wanted.upto, wanted.slice.hi);
        let (job, upto) = match wanted.written_only {
            true => (Slice::new(lo, lo.wrapping_add(1)), hi),
            false => {
                let job = self.stretch(Slice::new(lo, hi), since, now);
                (job, job.hi)
            }
        };
        self.work(Task::Read { wanted, upto }, Job::Read(job), cx);
    }

    /// The next slice that it lacks, and whether written documents are all it lacks of it.
    fn lacks(&self) -> Option<(Slice, bool)> {
        let target = self.target()?;
        let map = self.map.as_ref()?;
        if !map.settled || map.states[self.me as usize] == State::Down {
            return None;
        }
        let behind = self.behind_since().filter(|since| *since != self.caught_up);
        if let Some(since) = behind.filter(|_| !self.empty) {
            // All that it holds may be out of date, from the first id on.
            let left = match self.catching {
                Some((of, left)) if of == since => left,
                _ => self.held,
            };
            return Some((left, true));
        }
        if self.holds(target) {
            return None;
        }
        // From what it holds backwards, so that it holds one slice all the while.
        let edge = self.edge()?;
        if let Some((_, upto)) = self.pieces {
            return Some((Slice::new(upto, edge), false));
        }
        let lo = edge.wrapping_sub(self.config.chunk);
        let missing = Slice::new(target.lo, edge);
        let chunk = u128::from(self.config.chunk) < missing.width();
        Some((if chunk { Slice::new(lo, edge) } else { missing }, false))
    }

    /// The last id that is to be copied next.
    fn edge(&self) -> Option<Id> {
        if self.empty { Some(self.target()?.hi) } else { Some(self.held.lo) }
    }

    /// Asks for what it lacks.
    pub(super) fn copy(&mut self, cx: &mut Context<'_, C>) {
        let Some((slice, written_only)) = self.lacks() else { return };
        // What the disk is storing counts as lacking until it is stored.
        let storing = self.after.iter().any(|(_, after)| matches!(after, After::Hold(..)));
        let storing = storing || self.came.is_some();
        if self.fetching.is_some() || storing {
            return;
        }
        if cx.now() < self.copy_after {
            return cx.arm(Timer::Copy, self.copy_after);
        }
        cx.arm(Timer::Copy, cx.now() + PATIENCE);
        let Some(map) = self.map.clone() else { return };
        let forwards = written_only || self.pieces.is_some();
        let Some((slice, chosen)) = self.source(&map, slice, forwards) else { return };
        self.attempts = self.attempts.wrapping_add(1);
        self.fetching = Some((slice, cx.now()));
        let to = self.config.layout.server(chosen);
        let message = Message::Fetch { ask: self.asking(), slice, written_only };
        cx.emit(Effect::Send { to, via: Via::Channel, message });
    }

    /// Which part of `slice` to ask of whom: a server in step that holds much of it, without a gap
    /// from the end at which copying goes on.
    fn source(&self, map: &Map, slice: Slice, forwards: bool) -> Option<(Slice, u32)> {
        let (ring, arc) = (&self.rings.as_ref()?.now, Length::of(map.p));
        let reach = |at: usize| {
            let held = ring.holds(at, arc);
            if held.width() == WHOLE {
                return slice.width();
            }
            let into = match forwards {
                true => slice.lo.wrapping_sub(held.lo),
                false => held.hi.wrapping_sub(slice.hi),
            };
            held.width().saturating_sub(u128::from(into)).min(slice.width())
        };
        let others = (0..ring.count())
            .filter(|&at| ring.server(at) != self.me && map.is_up(ring.server(at)));
        let reaches: Vec<(u128, u32)> = others.map(|at| (reach(at), ring.server(at))).collect();
        let most = reaches.iter().map(|(reach, _)| *reach).max().filter(|reach| *reach > 0)?;
        // Servers in a row ask servers in a row, and after a failure the next one.
        let able: Vec<u32> =
            reaches.iter().filter(|(reach, _)| *reach == most).map(|(_, server)| *server).collect();
        let chosen = able[(self.me.wrapping_add(self.attempts)) as usize % able.len()];
        let part = match (most == slice.width(), forwards) {
            (true, _) => slice,
            (false, true) => Slice::new(slice.lo, slice.lo.wrapping_add(most as u64)),
            (false, false) => Slice::new(slice.hi.wrapping_sub(most as u64), slice.hi),
        };
        Some((part, chosen))
    }

    pub(super) fn chunk(
        &mut self,
        ask: u64,
        slice: Slice,
        docs: &[Doc<C::Body>],
        cx: &mut Context<'_, C>,
    ) {
        // Only what was asked for since the newest map, and in this life: what was read before may
        // lack a write.
        // What came may be less than what was asked for, and never more.
        let part = |asked: Slice| asked.lo == slice.lo && asked.covers(slice);
        let asked = ask == self.ask && self.fetching.is_some_and(|(asked, _)| part(asked));
        if !asked || self.lacks().is_none() {
            return;
        }
        for doc in docs {
            let old = self.docs.get(&doc.id).map_or(0, |old| old.version);
            if doc.version > old || self.config.bugs.copy_revives {
                self.docs.insert(doc.id, doc.clone());
                self.log.store(Record::Doc(doc.clone()), cx);
            }
        }
        self.fetching = Some((slice, cx.now()));
        let catching = self.behind_since().is_some_and(|since| since != self.caught_up);
        let merged = match catching {
            true => Slice::new(slice.lo, slice.lo.wrapping_add(1)),
            false => slice,
        };
        self.came = Some(Came { slice, left: merged, since: cx.now() });
        self.take_in(cx);
    }

    /// Takes in what came, when queries let it.
    pub(super) fn take_in(&mut self, cx: &mut Context<'_, C>) {
        let now = cx.now();
        let Some(since) = self.came.as_ref().map(|came| came.since) else { return };
        if self.waits(since, now) {
            return cx.arm(Timer::Copy, since + YIELDS);
        }
        let Some(Came { slice, left, .. }) = self.came.take() else { return };
        // It is not asked for again meanwhile.
        self.fetching = self.fetching.map(|(slice, _)| (slice, now));
        let job = self.stretch(left, since, now);
        let left = (job.hi != left.hi).then(|| Slice::new(job.hi, left.hi));
        self.work(Task::Merge { slice, left, since }, Job::Merge(job), cx);
    }

    pub(super) fn merged(&mut self, slice: Slice, cx: &mut Context<'_, C>) {
        if self.fetching.is_none_or(|(asked, _)| asked != slice) {
            return self.copy(cx);
        }
        self.fetching = None;
        if let Some(since) = self.behind_since().filter(|since| *since != self.caught_up) {
            if slice.hi == self.held.hi {
                (self.caught_up, self.catching) = (since, None);
                self.beat(cx);
            } else {
                self.catching = Some((since, Slice::new(slice.hi, self.held.hi)));
            }
            return self.copy(cx);
        }
        let Some(edge) = self.edge().filter(|_| !self.holds(slice)) else {
            return self.copy(cx);
        };
        // A source with many documents has sent a part: the rest of the slice comes first, since
        // what is held is one slice.
        let first = self.pieces.map_or(slice.lo, |(first, _)| first);
        if slice.hi != edge {
            self.pieces = Some((first, slice.hi));
            return self.copy(cx);
        }
        self.pieces = None;
        let held = Slice::new(first, if self.empty { slice.hi } else { self.held.hi });
        let entry = self.log.store(Record::Held(held), cx);
        let copied = Slice::new(first, slice.hi).width().min(u128::from(u64::MAX)) as u64;
        self.after.push_back((entry, After::Hold(held, copied)));
    }
}
