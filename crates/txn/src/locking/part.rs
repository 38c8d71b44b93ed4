//! What a shard's leader does for a transaction that touches the shard.

use super::Locking;
use super::lock::Request;
use super::message::{Attempt, Command, Message, Prepared, Rank};
use crate::client::PieceResult;
use crate::procedure::Given;
use crate::store::Writes;
use crate::txn::{Key, Shard, Ts, Txn};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::Instant;
use cavy_core::family::Node;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// It waits for locks, or for values.
    Waiting,
    /// All pieces have run: it can still be taken back.
    Ran,
    /// It is being stored, or is stored: only its coordinator can take it back.
    Prepared,
}

/// One shard's part of an attempt.
pub(super) struct Part {
    pub txn: Arc<Txn>,
    pub rank: Rank,
    /// Who coordinates, as far as known.
    pub coordinator: Node,
    pub phase: Phase,
    pub keys: BTreeMap<Key, bool>,
    /// Locks that are not held yet.
    pub missing: usize,
    pub given: Given,
    pub gives: Given,
    pub results: Vec<PieceResult>,
    pub writes: Writes,
    pub asked_at: Instant,
    /// Somebody older waits for it.
    pub wounded: bool,
}

impl Locking {
    /// A coordinator asks for this shard's part.
    pub(super) fn prepare(&mut self, from: Node, attempt: Attempt, txn: Arc<Txn>, rank: Rank) {
        if !self.leading {
            return;
        }
        self.leaders[attempt.home.0 as usize] = from;
        if let Some(part) = self.parts.get_mut(&attempt) {
            part.coordinator = from;
            if let Some(prepared) = self.prepared.get(&attempt).cloned() {
                self.say_prepared(&prepared);
            }
            return;
        }
        if !self.finished.contains(&attempt) && !self.ahead.contains(&attempt) {
            self.begin_part(from, attempt, txn, rank);
        }
    }

    /// Asks for all locks of a part, and wounds whoever is younger and holds one.
    pub(super) fn begin_part(&mut self, from: Node, attempt: Attempt, txn: Arc<Txn>, rank: Rank) {
        let mut keys: BTreeMap<Key, bool> = BTreeMap::new();
        for (_, piece) in txn.pieces_on(self.shard) {
            for access in &piece.accesses {
                *keys.entry(access.key).or_default() |= access.write;
            }
        }
        let (mut missing, mut younger) = (0, Vec::new());
        for (key, write) in &keys {
            if let Request::Waits(holders) = self.locks.request(*key, attempt, rank, *write) {
                missing += 1;
                younger.extend(holders);
            }
        }
        let part = Part {
            txn,
            rank,
            coordinator: from,
            phase: Phase::Waiting,
            keys,
            missing,
            given: self.early.remove(&attempt).unwrap_or_default(),
            gives: Given::new(),
            results: Vec::new(),
            writes: Vec::new(),
            asked_at: self.station.now,
            wounded: false,
        };
        self.parts.insert(attempt, part);
        younger.sort_unstable();
        younger.dedup();
        for other in younger {
            self.wound(other);
        }
        self.ready.push_back(attempt);
    }

    /// Somebody older wants what `attempt` holds.
    fn wound(&mut self, attempt: Attempt) {
        let Some(part) = self.parts.get_mut(&attempt) else { return };
        let coordinator = part.coordinator;
        if coordinator == self.station.me {
            self.wounded(attempt);
        } else if part.phase == Phase::Prepared {
            part.wounded = true;
            self.send(coordinator, Message::Wounded { attempt });
        } else {
            self.drop_part(attempt);
            self.send(coordinator, Message::Wounded { attempt });
        }
    }

    /// Runs what can run of a part that has its locks.
    pub(super) fn advance(&mut self, attempt: Attempt) {
        let Some(mut part) = self.parts.remove(&attempt) else { return };
        if part.phase != Phase::Waiting || part.missing > 0 {
            self.parts.insert(attempt, part);
            return;
        }
        let txn = part.txn.clone();
        let mine: Vec<usize> = txn.pieces_on(self.shard).map(|(place, _)| place).collect();
        let mut aborted = false;
        let mut new = false;
        loop {
            let next = mine.iter().copied().find(|place| {
                let ran = part.results.iter().any(|result| usize::from(result.piece) == *place);
                !ran && part.given.has_all(&txn.pieces[*place])
            });
            let Some(place) = next else { break };
            let (run, ops, writes) = self.store.rehearse(
                &mut *self.procedures,
                &txn,
                place,
                &part.given,
                Ts::ZERO,
                &part.writes,
            );
            aborted |= run.aborted;
            for (key, value) in writes {
                match part.writes.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => *known = value,
                    None => part.writes.push((key, value)),
                }
            }
            for (var, value) in run.gives {
                part.given.set(var, value.clone());
                part.gives.set(var, value);
                new = true;
            }
            let ops = if self.config.history { ops } else { Vec::new() };
            part.results.push(PieceResult { piece: place as u16, result: run.result, ops });
        }
        if new {
            let takers: Vec<Shard> = txn.takers(self.shard).collect();
            for taker in takers {
                let given = part.gives.clone();
                self.send(self.leader_of(taker), Message::Values { attempt, given });
            }
        }
        let whole = part.results.len() == mine.len();
        let own = part.coordinator == self.station.me;
        let coordinator = part.coordinator;
        if aborted {
            self.parts.insert(attempt, part);
            self.drop_part(attempt);
            if own {
                self.took_back(attempt);
            } else {
                let results: Arc<[PieceResult]> = [].into();
                let vote = Message::Vote { attempt, shard: self.shard, results, aborted: true };
                self.send(coordinator, vote);
            }
            return;
        }
        if whole && own {
            part.phase = Phase::Ran;
        } else if whole {
            part.phase = Phase::Prepared;
            let prepared = Prepared {
                attempt,
                txn,
                rank: part.rank,
                writes: part.writes.clone(),
                results: part.results.clone().into(),
                gives: part.gives.clone(),
            };
            self.raft.propose(Command::Prepare(Arc::new(prepared)));
        }
        self.parts.insert(attempt, part);
        if whole && own {
            self.decide_if_whole(attempt);
        }
    }

    pub(super) fn part_is_prepared(&mut self, part: &Arc<Prepared>) {
        if self.leading && self.parts.contains_key(&part.attempt) {
            self.say_prepared(part);
        }
    }

    fn say_prepared(&mut self, part: &Arc<Prepared>) {
        let attempt = part.attempt;
        let Some(known) = self.parts.get(&attempt) else { return };
        let (results, shard) = (part.results.clone(), self.shard);
        let vote = Message::Vote { attempt, shard, results, aborted: false };
        self.send(known.coordinator, vote);
    }

    /// A new leader takes up what an earlier one has prepared.
    pub(super) fn take_up(&mut self, prepared: &Arc<Prepared>) {
        let attempt = prepared.attempt;
        let coordinator = self.leader_of(attempt.home);
        let txn = prepared.txn.clone();
        self.begin_part(coordinator, attempt, txn, prepared.rank);
        if let Some(part) = self.parts.get_mut(&attempt) {
            part.phase = Phase::Prepared;
            part.writes = prepared.writes.clone();
            part.gives = prepared.gives.clone();
            part.results = prepared.results.to_vec();
        }
        self.send_to_shard(attempt.home, &Message::Ask { attempt });
    }

    pub(super) fn values(&mut self, attempt: Attempt, given: Given) {
        if !self.leading {
            return;
        }
        let known = match self.parts.get_mut(&attempt) {
            Some(part) => &mut part.given,
            None => self.early.entry(attempt).or_default(),
        };
        for (var, value) in given.iter() {
            known.set(*var, value.clone());
        }
        self.ready.push_back(attempt);
    }

    pub(super) fn pull_values(&mut self, from: Node, attempt: Attempt) {
        if let Some(part) = self.parts.get(&attempt)
            && part.gives != Given::new()
        {
            let given = part.gives.clone();
            self.send(from, Message::Values { attempt, given });
        }
    }

    /// Lets go of a part's locks.
    pub(super) fn drop_part(&mut self, attempt: Attempt) -> Option<Part> {
        let part = self.parts.remove(&attempt)?;
        for key in part.keys.keys() {
            for granted in self.locks.release(*key, attempt, part.rank) {
                if let Some(other) = self.parts.get_mut(&granted) {
                    other.missing -= 1;
                    if other.missing == 0 {
                        self.ready.push_back(granted);
                    }
                }
            }
        }
        Some(part)
    }

    /// What became of an attempt that this shard has part in.
    pub(super) fn decided(&mut self, attempt: Attempt, commit: bool) {
        self.early.remove(&attempt);
        if !self.leading {
            return;
        }
        let Some(part) = self.parts.get(&attempt) else { return };
        if part.phase == Phase::Prepared {
            if commit && self.ahead.insert(attempt) {
                let writes = part.writes.clone();
                self.write(attempt.id, writes);
            }
            self.raft.propose(Command::Finish { attempt, commit });
        }
        self.drop_part(attempt);
    }

    /// Asks about parts that have been open for long.
    pub(super) fn ask_about_parts(&mut self) {
        let (now, retry) = (self.station.now, self.config.retry_after);
        let mut asks = Vec::new();
        for (attempt, part) in &mut self.parts {
            if now.since(part.asked_at) < retry {
                continue;
            }
            part.asked_at = now;
            let home = (attempt.home != self.shard).then_some(attempt.home);
            let waits = part.phase == Phase::Waiting && part.missing == 0;
            asks.push((*attempt, home, part.wounded, waits.then(|| part.txn.clone())));
        }
        for (attempt, home, wounded, waits) in asks {
            if let Some(home) = home {
                self.send_to_shard(home, &Message::Ask { attempt });
                if wounded {
                    self.send_to_shard(home, &Message::Wounded { attempt });
                }
            }
            if let Some(txn) = waits {
                let givers = txn.shards().iter().filter(|giver| **giver != self.shard);
                let givers: Vec<Shard> = givers.copied().collect();
                for giver in givers {
                    self.send_to_shard(giver, &Message::PullValues { attempt });
                }
            }
        }
    }
}
