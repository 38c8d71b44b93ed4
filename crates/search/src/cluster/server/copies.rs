//! What a server copies from others and what others copy from it, at their share of a processor and
//! of a card.
//!
//! A copy passes three places: it is read, sent, and taken in. Each has a pace of its own, and what
//! has come so far waits before the next one, so that nobody waits for a pause of both ends. Pieces
//! go from the last id of what is missing backwards: with each that is taken in a server holds one
//! slice that is longer than before. What is missing beyond what it holds, because its range ends
//! later than it did, is asked for from its first id on: with each request that is answered whole
//! the slice is longer at that end.

use super::super::map::{Map, State};
use super::super::message::{Doc, Job, Message, Record};
use super::super::{Context, Timer};
use super::{After, Content, DOCS, Fetch, PATIENCE, Ready, Server, Task, Wanted, YIELDS};
use crate::ring::{Arc as Length, Ring, Slice, WHOLE};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Message as _, Via};
use cavy_core::{Instant, Span};

fn before(now: Instant, span: Span) -> Instant {
    Instant::from_ns(now.as_ns().saturating_sub(span.as_ns()))
}

/// When work that was due at `due` counts as due, if there was none until `now`: half of what might
/// be made up for is forgotten.
fn rested(due: Instant, now: Instant) -> Instant {
    due.max(before(now, Span::from_ns(YIELDS.as_ns() / 2)))
}

impl<C: Content> Server<C> {
    /// When copies may go on after one that has taken `took`, so that both ends keep to their
    /// share. `due` is when this one might have begun: what it waited for queries is made up for.
    pub(super) fn next(&self, due: Instant, took: Span, now: Instant) -> Instant {
        let percent = u64::from(self.config.copy_percent.clamp(1, 100));
        let begun = before(now, took);
        let least = if self.config.copies_wait { before(begun, YIELDS) } else { begun };
        // Reading for others and merging for oneself share it.
        due.max(least) + Span::from_ns(took.as_ns() * 200 / percent)
    }

    /// Whether what is due since then goes on waiting for queries.
    fn waits(&self, due: Instant, now: Instant) -> bool {
        self.config.copies_wait && self.scans > 0 && now < due + YIELDS
    }

    /// No query waits: copies go on.
    pub(super) fn idle(&mut self, cx: &mut Context<'_, C>) {
        if self.scans == 0 {
            self.read(cx);
            self.take_in(cx);
        }
    }

    /// So many ids, or fewer if a window would have more written documents than it may, going by
    /// what this server has itself.
    fn portion(&self, ids: u64) -> u128 {
        let ids = u128::from(ids.max(1));
        let (Some(most), false) = (self.config.window_documents, self.empty) else { return ids };
        let (own, window) = (self.docs.len() as u128, u128::from(self.config.window));
        let documents = own * window / self.held.width().max(1);
        (ids * u128::from(most.max(1)) / documents.max(1)).clamp(1, ids)
    }

    /// As much of a slice as a message can have: it begins with the first document that fits.
    fn fitting(&self, slice: Slice) -> Slice {
        let first = self.written(slice).rev().nth(DOCS - 1).map(|doc| doc.id);
        Slice::new(first.map_or(slice.lo, |first| first.wrapping_sub(1)), slice.hi)
    }

    /// Somebody wants a copy.
    pub(super) fn want(&mut self, by: Node, wanted: Wanted, cx: &mut Context<'_, C>) {
        if self.wanted.is_empty() && !self.reading {
            self.read_after = rested(self.read_after, cx.now());
        }
        let at = self.wanted.iter().position(|(node, _)| *node == by);
        let at = at.unwrap_or_else(|| {
            self.wanted.push_back((by, VecDeque::new()));
            self.wanted.len() - 1
        });
        let own = &mut self.wanted[at].1;
        if own.len() >= self.config.requests() {
            // It has no more under way: the first one is from before a newer map.
            own.pop_front();
        }
        own.push_back(wanted);
        self.read(cx);
    }

    /// Reads for others, a piece at a time.
    pub(super) fn read(&mut self, cx: &mut Context<'_, C>) {
        let (now, due) = (cx.now(), self.read_after);
        let waiting: u128 = self.ready.iter().map(|ready| ready.slice.width()).sum();
        while !self.reading && waiting < self.portion(self.config.window) {
            if self.wanted.is_empty() {
                return;
            }
            if now < due {
                return cx.arm(Timer::Read, due);
            }
            if self.waits(due, now) {
                return cx.arm(Timer::Read, due + YIELDS);
            }
            let Some((to, mut own)) = self.wanted.pop_front() else { return };
            if let Some(Wanted { ask, rest, written_only }) = own.pop_front()
                && self.may_answer(now)
                && self.holds(rest)
            {
                let piece = self.portion(self.config.piece);
                let slice = match !written_only && piece < rest.width() {
                    true => Slice::new(rest.hi.wrapping_sub(piece as u64), rest.hi),
                    false => rest,
                };
                let slice = self.fitting(slice);
                if slice.lo != rest.lo {
                    let rest = Slice::new(rest.lo, slice.lo);
                    own.push_front(Wanted { ask, rest, written_only });
                }
                self.reading = true;
                // Of written documents alone next to nothing is read.
                let job = if written_only { last(slice) } else { slice };
                let ready = Ready { to, ask, slice, written_only };
                self.work(Task::Read(ready), Job::Read(job), cx);
            }
            if !own.is_empty() {
                self.wanted.push_back((to, own));
            }
        }
    }

    /// Sends what was read, as the card lets it.
    pub(super) fn send(&mut self, cx: &mut Context<'_, C>) {
        let now = cx.now();
        if now < self.send_after && !self.ready.is_empty() {
            return cx.arm(Timer::Send, self.send_after);
        }
        let Some(Ready { to, ask, slice: all, written_only }) = self.ready.pop_front() else {
            return;
        };
        // Out of step, a copy from here could lack what was acknowledged meanwhile.
        if self.may_answer(now) && self.holds(all) {
            // More may have been written since.
            let slice = self.fitting(all);
            if slice.lo != all.lo {
                let slice = Slice::new(all.lo, slice.lo);
                self.ready.push_front(Ready { to, ask, slice, written_only });
            }
            let docs: Arc<[Doc<C::Body>]> = self.written(slice).collect();
            // The bulk stays where it is if written documents alone are asked for.
            let bytes = if written_only { 0 } else { self.config.bytes(slice) };
            let message = Message::Chunk { ask, slice, docs, bytes };
            if let Some(card) = self.config.card_bytes_per_s {
                let share = u128::from(card) * u128::from(self.config.copy_percent.clamp(1, 100));
                let ns = u128::from(message.wire_bytes()) * 100_000_000_000 / share.max(1);
                let ns = u64::try_from(ns).unwrap_or(u64::MAX).min(YIELDS.as_ns());
                self.send_after = self.send_after.max(now) + Span::from_ns(ns);
            }
            cx.emit(Effect::Send { to, via: Via::Channel, message });
        }
        if !self.ready.is_empty() {
            cx.arm(Timer::Send, self.send_after.max(now));
        }
        self.read(cx);
    }

    /// The last slice that it holds when the disk has stored what was taken in.
    fn reach(&self) -> Option<Slice> {
        let holds = |(_, after): &(_, After<C>)| match after {
            After::Hold(slice, _) => Some(*slice),
            After::Send(..) => None,
        };
        self.after.iter().rev().find_map(holds).or_else(|| self.held())
    }

    /// What was taken in and a newer map does not want is not held when the disk has stored it:
    /// writes have not gone there since.
    pub(super) fn forget(&mut self, target: Option<Slice>, cx: &mut Context<'_, C>) {
        let kept = |(_, after): &(_, After<C>)| match after {
            After::Hold(slice, _) => target.is_some_and(|target| target.covers(*slice)),
            After::Send(..) => true,
        };
        if self.after.iter().all(kept) {
            return;
        }
        self.after.retain(kept);
        // What was written beside the copy was acknowledged, and stays where it is still wanted.
        self.docs.retain(|id, _| target.is_some_and(|target| target.contains(*id)));
        let record = match target {
            Some(wanted) => Record::Kept { held: self.reach(), wanted },
            None => Record::Left,
        };
        self.dropped = Some(self.log.store(record, cx));
    }

    /// It is behind, and what it holds may be out of date.
    fn catches_up(&self) -> Option<u64> {
        self.behind_since().filter(|since| *since != self.caught_up && !self.empty)
    }

    /// The next slice that it lacks and has not asked for, and what of it.
    fn lacks(&self) -> Option<(Slice, Lacks)> {
        let target = self.target()?;
        let map = self.map.as_ref()?;
        if !map.settled || map.states[self.me as usize] == State::Down {
            return None;
        }
        if let Some(since) = self.catches_up() {
            // All of it comes for one request, and none of it is being stored.
            let storing = self.after.iter().any(|(_, after)| matches!(after, After::Hold(..)));
            let left = || (self.left(since), Lacks::Writes);
            return (self.fetches.is_empty() && !storing).then(left);
        }
        let missing = self.missing(target)?;
        let chunk = self.portion(self.config.chunk);
        let open = |fetch: &Fetch| {
            let came = fetch.came.iter().map(|slice| slice.width()).sum::<u128>();
            fetch.rest.map_or(0, Slice::width) + came
        };
        let under_way = self.fetches.iter().map(open).sum::<u128>();
        let full = self.fetches.len() >= self.config.requests()
            || under_way + chunk > self.portion(self.config.window);
        if full && !self.fetches.is_empty() {
            return None;
        }
        let (missing, lacks) = missing;
        let slice = match lacks {
            _ if missing.width() <= chunk => missing,
            Lacks::Beyond => Slice::new(missing.lo, missing.lo.wrapping_add(chunk as u64)),
            _ => Slice::new(missing.hi.wrapping_sub(chunk as u64), missing.hi),
        };
        Some((slice, lacks))
    }

    /// What it does not hold and has not asked for: before what it holds, and then beyond that.
    fn missing(&self, target: Slice) -> Option<(Slice, Lacks)> {
        let reach = self.reach();
        let from = reach.map_or(target.hi, |reach| reach.hi);
        // Of everything there is nothing beyond.
        let goal = if target.width() == WHOLE { Slice::new(from, from) } else { target };
        let last = |beyond: bool| self.fetches.iter().rfind(|fetch| fetch.beyond == beyond);
        let before = match (last(false), reach) {
            (Some(last), _) => last.slice.lo,
            (None, Some(reach)) if reach.covers(goal) => return None,
            (None, Some(reach)) => reach.lo,
            (None, None) => return Some((goal, Lacks::Before)),
        };
        if before != goal.lo {
            return Some((Slice::new(goal.lo, before), Lacks::Before));
        }
        let beyond = last(true).map_or(from, |last| last.slice.hi);
        (beyond != goal.hi).then(|| (Slice::new(beyond, goal.hi), Lacks::Beyond))
    }

    /// What it has not caught up with, being behind since then.
    fn left(&self, since: u64) -> Slice {
        match self.catching {
            Some((of, left)) if of == since => left,
            _ => self.held,
        }
    }

    /// Asks for what it lacks, and takes in what came.
    pub(super) fn copy(&mut self, cx: &mut Context<'_, C>) {
        let now = cx.now();
        let waits = self.fetches.front().is_some_and(|fetch| fetch.came.is_empty());
        if waits && !self.merging && now >= self.heard + PATIENCE {
            // Of others, then.
            self.fetches.clear();
        }
        while let (Some((slice, lacks)), Some(map)) = (self.lacks(), self.map.clone()) {
            let beyond = lacks == Lacks::Beyond;
            let written_only = lacks == Lacks::Writes;
            let Some((slice, chosen)) = self.source(&map, slice, beyond) else { break };
            self.attempts = self.attempts.wrapping_add(1);
            if self.fetches.is_empty() {
                self.heard = now;
            }
            let ask = self.asking();
            let came = VecDeque::new();
            self.fetches.push_back(Fetch { ask, slice, beyond, rest: Some(slice), came });
            let to = self.config.layout.server(chosen);
            let message = Message::Fetch { ask, slice, written_only };
            cx.emit(Effect::Send { to, via: Via::Channel, message });
        }
        if self.fetches.is_empty() && self.lacks().is_some() {
            // Nobody has it now.
            cx.arm(Timer::Copy, now + PATIENCE);
        }
        self.take_in(cx);
    }

    /// Which part of `slice` to ask of whom: a server in step, on any ring, that holds much of it
    /// without a gap from its end, or from its beginning if that is what it lacks `beyond` what it
    /// holds.
    fn source(&self, map: &Map, slice: Slice, beyond: bool) -> Option<(Slice, u32)> {
        let (rings, arc) = (&self.rings.as_ref()?.now, Length::of(map.p));
        let reach = |ring: &Ring, at: usize| {
            let held = ring.holds(at, arc);
            if held.width() == WHOLE {
                return slice.width();
            }
            let off = match beyond {
                true => slice.lo.wrapping_sub(held.lo),
                false => held.hi.wrapping_sub(slice.hi),
            };
            held.width().saturating_sub(u128::from(off)).min(slice.width())
        };
        let of = |ring| (0..Ring::count(ring)).map(move |at| (reach(ring, at), ring.server(at)));
        let others = |(_, server): &(u128, u32)| *server != self.me && map.is_up(*server);
        let reaches: Vec<(u128, u32)> = rings.iter().flat_map(of).filter(others).collect();
        let most = reaches.iter().map(|(reach, _)| *reach).max().filter(|reach| *reach > 0)?;
        // Servers in a row ask servers in a row, and after a failure the next one.
        let able: Vec<u32> =
            reaches.iter().filter(|(reach, _)| *reach == most).map(|(_, server)| *server).collect();
        let chosen = able[(self.me.wrapping_add(self.attempts)) as usize % able.len()];
        let part = match beyond {
            _ if most == slice.width() => slice,
            true => Slice::new(slice.lo, slice.lo.wrapping_add(most as u64)),
            false => Slice::new(slice.hi.wrapping_sub(most as u64), slice.hi),
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
        let Some(at) = self.fetches.iter().position(|fetch| fetch.ask == ask) else { return };
        let next = |rest: &Slice| rest.hi == slice.hi && rest.covers(slice);
        let Some(rest) = self.fetches[at].rest.filter(next) else { return };
        for doc in docs {
            let old = self.docs.get(&doc.id).map_or(0, |old| old.version);
            if doc.version > old || self.config.bugs.copy_revives {
                self.docs.insert(doc.id, doc.clone());
                self.log.store(Record::Doc(doc.clone()), cx);
            }
        }
        if at == 0 {
            self.heard = cx.now();
            if self.fetches[0].came.is_empty() && !self.merging {
                self.copy_after = rested(self.copy_after, cx.now());
            }
        }
        let fetch = &mut self.fetches[at];
        fetch.rest = (slice.lo != rest.lo).then(|| Slice::new(rest.lo, slice.lo));
        fetch.came.push_back(slice);
        self.copy(cx);
    }

    /// Takes in what came first, when queries let it.
    pub(super) fn take_in(&mut self, cx: &mut Context<'_, C>) {
        let (now, due) = (cx.now(), self.copy_after);
        let Some(first) = self.fetches.front().filter(|_| !self.merging) else { return };
        let Some(&slice) = first.came.front() else {
            return cx.arm(Timer::Copy, self.heard + PATIENCE);
        };
        if now < due {
            return cx.arm(Timer::Copy, due);
        }
        if self.waits(due, now) {
            return cx.arm(Timer::Copy, due + YIELDS);
        }
        let ask = first.ask;
        let job = if self.catches_up().is_some() { last(slice) } else { slice };
        self.merging = true;
        self.work(Task::Merge { ask, slice }, Job::Merge(job), cx);
    }

    pub(super) fn merged(&mut self, ask: u64, slice: Slice, cx: &mut Context<'_, C>) {
        let Some(first) = self.fetches.front_mut().filter(|first| first.ask == ask) else {
            // It was asked for by an older map.
            return self.copy(cx);
        };
        self.heard = cx.now();
        first.came.pop_front();
        let (all, beyond) = (first.slice, first.beyond);
        let is_last = first.came.is_empty() && first.rest.is_none();
        if is_last {
            self.fetches.pop_front();
        }
        if let Some(since) = self.catches_up() {
            let left = self.left(since);
            if slice.lo == left.lo {
                (self.caught_up, self.catching) = (since, None);
                self.beat(cx);
            } else {
                self.catching = Some((since, Slice::new(left.lo, slice.lo)));
            }
            return self.copy(cx);
        }
        let copied = if beyond { all } else { slice };
        let held = match self.reach() {
            Some(reach) if beyond => Slice::new(reach.lo, all.hi),
            Some(reach) => Slice::new(slice.lo, reach.hi),
            None => slice,
        };
        if is_last || !beyond {
            let entry = self.log.store(Record::Held(held), cx);
            let copied = copied.width().min(u128::from(u64::MAX)) as u64;
            self.after.push_back((entry, After::Hold(held, copied)));
        }
        self.copy(cx);
    }
}

/// What a server lacks of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lacks {
    /// Written documents alone.
    Writes,
    /// Everything; it is before what it holds.
    Before,
    /// Everything; it is beyond what it holds.
    Beyond,
}

/// The last id of a slice.
fn last(slice: Slice) -> Slice {
    Slice::new(slice.hi.wrapping_sub(1), slice.hi)
}
