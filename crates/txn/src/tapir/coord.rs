//! The front of a shard's clients: runs their transactions, has them checked, and tells the end.

use super::message::{Attempt, Ballot, FIRST, Message, Part, Ran, Vote};
use super::{Tapir, Timer};
use crate::client::{Outcome, PieceResult, Response};
use crate::procedure::Given;
use crate::txn::{Shard, Ts, Txn, TxnId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::Call;
use cavy_core::{Instant, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    Preparing,
    /// It was aborted, and begins anew at this time.
    Waiting(Instant),
}

/// A transaction that this front coordinates.
pub(super) struct Coord {
    txn: Arc<Txn>,
    calls: Vec<Call>,
    attempt: Attempt,
    phase: Phase,
    given: Given,
    results: Vec<PieceResult>,
    /// What earlier attempts came to: a backup may find that one of them took place.
    past: BTreeMap<u32, Vec<PieceResult>>,
    parts: BTreeMap<Shard, Part>,
    whole: BTreeMap<Shard, Arc<Part>>,
    /// Shards whose replica is running pieces.
    running: BTreeSet<Shard>,
    ts: Ts,
    votes: BTreeMap<Node, Vote>,
    majority_at: BTreeMap<Shard, Instant>,
    /// Shards that are fine; those that make sure of it, with the replicas that have said so.
    fine: BTreeSet<Shard>,
    finalizing: BTreeMap<Shard, u32>,
    retry_at: Instant,
    asked: u32,
}

/// An attempt that is over, until every replica has heard it.
pub(super) struct Finishing {
    pub at: Option<Ts>,
    pub ballot: Ballot,
    pub parts: BTreeMap<Shard, Arc<Part>>,
    pub left: BTreeSet<Node>,
    pub retry_at: Instant,
}

impl Coord {
    /// What the next attempt takes along.
    fn leave(&mut self) -> (Arc<Txn>, Vec<Call>, BTreeMap<u32, Vec<PieceResult>>) {
        let mut past = core::mem::take(&mut self.past);
        past.insert(self.attempt.round, core::mem::take(&mut self.results));
        (self.txn.clone(), core::mem::take(&mut self.calls), past)
    }
}

impl Tapir {
    /// A client asks: the front of its shard, and no replica.
    pub(super) fn submit(&mut self, call: Call, txn: Arc<Txn>) {
        if self.shard.is_some() {
            return;
        }
        if let Some(coord) = self.coords.get_mut(&txn.id) {
            coord.calls.push(call);
            return;
        }
        self.begin_attempt(txn, Vec::from([call]), 0, BTreeMap::new());
    }

    fn begin_attempt(
        &mut self,
        txn: Arc<Txn>,
        calls: Vec<Call>,
        round: u32,
        past: BTreeMap<u32, Vec<PieceResult>>,
    ) {
        let (id, now) = (txn.id, self.station.now);
        let coord = Coord {
            attempt: Attempt { id, round },
            txn,
            calls,
            phase: Phase::Running,
            given: Given::new(),
            results: Vec::new(),
            past,
            parts: BTreeMap::new(),
            whole: BTreeMap::new(),
            running: BTreeSet::new(),
            ts: Ts::ZERO,
            votes: BTreeMap::new(),
            majority_at: BTreeMap::new(),
            fine: BTreeSet::new(),
            finalizing: BTreeMap::new(),
            retry_at: now + self.config.retry_after,
            asked: 0,
        };
        self.coords.insert(id, coord);
        self.run_ready(id);
    }

    /// Has a replica of each shard run the pieces whose values are there; when all have run, has
    /// everything checked.
    fn run_ready(&mut self, id: TxnId) {
        let layout = self.config.layout;
        let Some(coord) = self.coords.get_mut(&id) else { return };
        let txn = coord.txn.clone();
        if coord.results.len() == txn.pieces.len() {
            self.prepare_all(id);
            return;
        }
        let mut sends = Vec::new();
        for shard in txn.shards() {
            if coord.running.contains(shard) {
                continue;
            }
            // Pieces of a shard run in their order: none before one that waits.
            let ran = |place: usize| coord.results.iter().any(|r| usize::from(r.piece) == place);
            let open = txn.pieces_on(*shard).filter(|(place, _)| !ran(*place));
            let ready = open.take_while(|(_, piece)| coord.given.has_all(piece));
            let pieces: Vec<u16> = ready.map(|(place, _)| place as u16).collect();
            if pieces.is_empty() {
                continue;
            }
            coord.running.insert(*shard);
            let over = coord.parts.get(shard).map(|part| part.writes.clone()).unwrap_or_default();
            let (attempt, given) = (coord.attempt, coord.given.clone());
            let to = layout.replica(*shard, id.client + coord.asked);
            sends.push((to, Message::Run { attempt, txn: txn.clone(), pieces, given, over }));
        }
        for (to, message) in sends {
            self.send(to, message);
        }
    }

    fn current(&mut self, attempt: Attempt) -> Option<&mut Coord> {
        self.coords.get_mut(&attempt.id).filter(|coord| coord.attempt == attempt)
    }

    pub(super) fn ran(&mut self, from: Node, attempt: Attempt, ran: Ran) {
        let layout = self.config.layout;
        let Some(shard) = layout.shard_of(from) else { return };
        let Some(coord) = self.current(attempt) else { return };
        if coord.phase != Phase::Running || !coord.running.remove(&shard) {
            return;
        }
        if ran.aborted {
            // It has prepared nothing, so nobody need hear of it.
            self.answer(attempt.id, Outcome::Aborted);
            return;
        }
        coord.results.extend(ran.results);
        for (var, value) in ran.gives.iter() {
            coord.given.set(*var, value.clone());
        }
        let part = coord.parts.entry(shard).or_default();
        for (key, version) in ran.part.reads {
            if !part.reads.iter().any(|(known, _)| *known == key) {
                part.reads.push((key, version));
            }
        }
        part.writes = ran.part.writes;
        self.run_ready(attempt.id);
    }

    fn prepare_all(&mut self, id: TxnId) {
        let (wall, backed) = (self.station.wall.as_ns(), self.config.backup_after.is_some());
        let Some(coord) = self.coords.get_mut(&id) else { return };
        coord.phase = Phase::Preparing;
        let parts = core::mem::take(&mut coord.parts);
        let shards: Arc<[Shard]> = if backed { coord.txn.shards().into() } else { Arc::default() };
        let whole = |(shard, part)| (shard, Arc::new(Part { shards: shards.clone(), ..part }));
        coord.whole = parts.into_iter().map(whole).collect();
        let reads = coord.whole.values().flat_map(|part| &part.reads);
        let last = reads.map(|(_, version)| version.t).max().unwrap_or(0);
        // Where there are no timestamps to retry at, it must lie behind what was read.
        let t = if self.config.artifact { wall.max(last + 1) } else { wall };
        coord.ts = Ts { t, k: u64::from(coord.attempt.round), n: id.client };
        self.say_prepare(id);
    }

    fn say_prepare(&mut self, id: TxnId) {
        let layout = self.config.layout;
        let Some(coord) = self.coords.get_mut(&id) else { return };
        coord.votes.clear();
        coord.majority_at.clear();
        coord.fine.clear();
        coord.finalizing.clear();
        let (attempt, ts, whole) = (coord.attempt, coord.ts, coord.whole.clone());
        for (shard, part) in whole {
            for node in layout.replicas_of(shard) {
                self.send(node, Message::Prepare { attempt, ts, part: part.clone() });
            }
        }
    }

    pub(super) fn voted(&mut self, from: Node, attempt: Attempt, ts: Ts, vote: Vote) {
        let Some(coord) = self.current(attempt) else { return };
        if coord.phase != Phase::Preparing || coord.ts != ts {
            return;
        }
        coord.votes.insert(from, vote);
        if let Some(shard) = self.config.layout.shard_of(from) {
            self.weigh(attempt, shard);
        }
    }

    /// Whether a shard is fine, is not, or is not known yet.
    fn weigh(&mut self, attempt: Attempt, shard: Shard) {
        let (layout, now, wait) = (self.config.layout, self.station.now, self.config.fast_wait);
        let artifact = self.config.artifact;
        let Some(coord) = self.current(attempt) else { return };
        if coord.fine.contains(&shard) || coord.finalizing.contains_key(&shard) {
            return;
        }
        let votes = layout.replicas_of(shard).filter_map(|node| coord.votes.get(&node).copied());
        let votes: Vec<Vote> = votes.collect();
        let fine = votes.iter().filter(|vote| **vote == Vote::Fine).count() as u32;
        let all = votes.len() as u32 == layout.replicas;
        if fine == layout.replicas {
            coord.fine.insert(shard);
            self.commit_if_fine(attempt);
            return;
        }
        if votes.contains(&Vote::Abort) {
            self.abort(attempt);
            return;
        }
        if artifact || (votes.len() as u32) < layout.majority() {
            return;
        }
        let since = *coord.majority_at.entry(shard).or_insert(now);
        if !all && now.since(since) < wait && fine == votes.len() as u32 {
            return;
        }
        let retry = votes.iter().filter_map(|vote| match vote {
            Vote::Retry(above) => Some(*above),
            _ => None,
        });
        if fine >= layout.majority() {
            coord.finalizing.insert(shard, 0);
            let (ts, part) = (coord.ts, coord.whole.get(&shard).cloned().unwrap_or_default());
            for node in layout.replicas_of(shard) {
                self.send(node, Message::Finalize { attempt, ts, part: part.clone() });
            }
        } else if let Some(above) = retry.max() {
            let t = above.t.max(self.station.wall.as_ns()) + 1;
            if let Some(coord) = self.current(attempt) {
                coord.ts = Ts { t, ..coord.ts };
                self.say_prepare(attempt.id);
            }
        } else if all
            || (votes.len() as u32 - fine) >= layout.majority()
            || now.since(since) >= wait
        {
            self.abort(attempt);
        }
    }

    pub(super) fn finalized(&mut self, from: Node, attempt: Attempt, ts: Ts) {
        let layout = self.config.layout;
        let Some(coord) = self.current(attempt) else { return };
        if coord.ts != ts {
            return;
        }
        if let Some(shard) = layout.shard_of(from)
            && let Some(mask) = coord.finalizing.get_mut(&shard)
        {
            *mask |= 1 << layout.index_of(from);
            if mask.count_ones() >= layout.majority() {
                coord.fine.insert(shard);
                self.commit_if_fine(attempt);
            }
        }
    }

    /// A backup has dropped it while this front was silent.
    pub(super) fn dropped(&mut self, attempt: Attempt) {
        if self.current(attempt).is_some_and(|coord| coord.phase == Phase::Preparing) {
            self.abort(attempt);
        }
    }

    fn commit_if_fine(&mut self, attempt: Attempt) {
        let Some(coord) = self.current(attempt) else { return };
        if coord.fine.len() < coord.txn.shards().len() {
            return;
        }
        let (at, pieces) = (coord.ts, core::mem::take(&mut coord.results));
        self.tell_end(attempt, Some(at));
        self.answer(attempt.id, Outcome::committed(at, pieces));
    }

    /// It cannot stand: it begins anew, under another name.
    fn abort(&mut self, attempt: Attempt) {
        self.tell_end(attempt, None);
        let (now, random, back_off) = (self.station.now, self.station.random, self.config.back_off);
        let tries = attempt.round + 1;
        if self.config.tries.is_some_and(|most| tries >= most) {
            self.answer(attempt.id, Outcome::GivenUp { tries });
            return;
        }
        let Some(coord) = self.current(attempt) else { return };
        if back_off.is_zero() {
            let (txn, calls, past) = coord.leave();
            self.begin_attempt(txn, calls, tries, past);
            return;
        }
        let most = back_off.as_ns() << attempt.round.min(5);
        let at = now + Span::from_ns(1 + random % most);
        coord.phase = Phase::Waiting(at);
        self.arm_anew();
    }

    fn arm_anew(&mut self) {
        let waits = self.coords.values().filter_map(|coord| match coord.phase {
            Phase::Waiting(at) => Some(at),
            _ => None,
        });
        if let Some(first) = waits.min() {
            self.station.arm(Timer::Anew, first);
        }
    }

    pub(super) fn begin_anew(&mut self) {
        let now = self.station.now;
        let due = |coord: &Coord| matches!(coord.phase, Phase::Waiting(at) if at <= now);
        let all = self.coords.iter().filter(|(_, coord)| due(coord)).map(|(id, _)| *id);
        let all: Vec<TxnId> = all.collect();
        for id in all {
            let Some(coord) = self.coords.get_mut(&id) else { continue };
            let round = coord.attempt.round + 1;
            let (txn, calls, past) = coord.leave();
            self.begin_attempt(txn, calls, round, past);
        }
        self.arm_anew();
    }

    fn answer(&mut self, id: TxnId, outcome: Outcome) {
        let Some(coord) = self.coords.remove(&id) else { return };
        for call in coord.calls {
            let outcome = outcome.clone();
            self.station.reply(call, Response { id, outcome });
        }
    }

    fn tell_end(&mut self, attempt: Attempt, at: Option<Ts>) {
        let (layout, now) = (self.config.layout, self.station.now);
        let retry_at = now + self.config.retry_after;
        let Some(coord) = self.current(attempt) else { return };
        let parts = coord.whole.clone();
        let left = parts.keys().flat_map(|shard| layout.replicas_of(*shard)).collect();
        let ballot = FIRST;
        self.finishing.insert(attempt, Finishing { at, ballot, parts, left, retry_at });
        self.say_end(attempt);
    }

    /// A backup found that an attempt of this front took place.
    pub(super) fn ended(&mut self, attempt: Attempt, at: Ts) {
        let Some(coord) = self.coords.get_mut(&attempt.id) else { return };
        let current = coord.attempt;
        let results = if current == attempt {
            Some(core::mem::take(&mut coord.results))
        } else {
            coord.past.remove(&attempt.round)
        };
        let Some(pieces) = results else { return };
        if current != attempt {
            self.tell_end(current, None);
        }
        self.answer(attempt.id, Outcome::committed(at, pieces));
    }

    pub(super) fn say_end(&mut self, attempt: Attempt) {
        let Some(finishing) = self.finishing.get(&attempt) else { return };
        let (at, ballot) = (finishing.at, finishing.ballot);
        let parts = finishing.left.iter().filter_map(|node| {
            let shard = self.config.layout.shard_of(*node)?;
            Some((*node, finishing.parts.get(&shard)?.clone()))
        });
        let parts: Vec<(Node, Arc<Part>)> = parts.collect();
        for (node, part) in parts {
            self.send(node, Message::Finish { attempt, at, ballot, part });
        }
    }

    pub(super) fn finished(&mut self, from: Node, attempt: Attempt) {
        if let Some(finishing) = self.finishing.get_mut(&attempt) {
            finishing.left.remove(&from);
            if finishing.left.is_empty() {
                self.finishing.remove(&attempt);
            }
        }
    }

    /// Asks and tells again what has not been answered for long.
    pub(super) fn ask_again(&mut self) {
        let (now, retry) = (self.station.now, self.config.retry_after);
        let late = self.finishing.iter_mut().filter(|(_, finishing)| finishing.retry_at <= now);
        let mut ends = Vec::new();
        for (attempt, finishing) in late {
            finishing.retry_at = now + retry;
            ends.push(*attempt);
        }
        for attempt in ends {
            self.say_end(attempt);
        }
        let open = self.coords.values().filter(|coord| {
            coord.retry_at <= now
                || (coord.phase == Phase::Preparing && !coord.majority_at.is_empty())
        });
        let open: Vec<(Attempt, bool)> =
            open.map(|coord| (coord.attempt, coord.retry_at <= now)).collect();
        for (attempt, late) in open {
            let Some(coord) = self.current(attempt) else { continue };
            if late {
                coord.retry_at = now + retry;
            }
            match coord.phase {
                Phase::Preparing => {
                    let shards: Vec<Shard> = coord.whole.keys().copied().collect();
                    if late {
                        self.prepare_again(attempt);
                    }
                    for shard in shards {
                        self.weigh(attempt, shard);
                    }
                }
                Phase::Running if late => {
                    // Another replica may be up.
                    coord.asked += 1;
                    coord.running.clear();
                    self.run_ready(attempt.id);
                }
                _ => {}
            }
        }
    }

    fn prepare_again(&mut self, attempt: Attempt) {
        let layout = self.config.layout;
        let Some(coord) = self.current(attempt) else { return };
        let (ts, whole, votes) = (coord.ts, coord.whole.clone(), coord.votes.clone());
        let finalizing: Vec<Shard> = coord.finalizing.keys().copied().collect();
        for (shard, part) in whole {
            for node in layout.replicas_of(shard) {
                if finalizing.contains(&shard) {
                    self.send(node, Message::Finalize { attempt, ts, part: part.clone() });
                } else if !votes.contains_key(&node) {
                    self.send(node, Message::Prepare { attempt, ts, part: part.clone() });
                }
            }
        }
    }
}
