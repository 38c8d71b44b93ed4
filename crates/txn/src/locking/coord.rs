//! What the leader of a client's home shard does for its transactions.

use super::Locking;
use super::message::{Attempt, Command, Decision, Message, Rank};
use super::part::Phase;
use crate::client::{Outcome, PieceResult, Response};
use crate::txn::{Shard, Ts, Txn};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::Instant;
use cavy_core::family::Node;

/// A transaction that this leader coordinates.
pub(super) struct Coord {
    pub txn: Arc<Txn>,
    pub attempt: Attempt,
    pub rank: Rank,
    /// Participants that have prepared, with what they came to.
    votes: BTreeMap<Shard, Arc<[PieceResult]>>,
    /// The decision is being stored.
    deciding: bool,
    asked_at: Instant,
}

impl Coord {
    fn missing(&self, own: Shard) -> impl Iterator<Item = Shard> + '_ {
        let others = self.txn.shards().iter().copied();
        others.filter(move |shard| *shard != own && !self.votes.contains_key(shard))
    }
}

impl Locking {
    /// Begins with a transaction, unless it is under way.
    pub(super) fn coordinate(&mut self, txn: Arc<Txn>) {
        if self.coords.contains_key(&txn.id) {
            return;
        }
        let rank = Rank { since: self.station.wall.as_ns(), id: txn.id };
        self.attempt(txn, rank);
    }

    fn attempt(&mut self, txn: Arc<Txn>, rank: Rank) {
        self.rounds += 1;
        let (home, term) = (self.shard, self.raft.term());
        let attempt = Attempt { id: txn.id, home, term, round: self.rounds };
        let coord = Coord {
            txn: txn.clone(),
            attempt,
            rank,
            votes: BTreeMap::new(),
            deciding: false,
            asked_at: self.station.now,
        };
        self.coords.insert(txn.id, coord);
        for shard in txn.shards().iter().copied().filter(|shard| *shard != home) {
            let message = Message::Prepare { attempt, txn: txn.clone(), rank };
            self.send(self.leader_of(shard), message);
        }
        if txn.shards().contains(&home) {
            self.begin_part(self.station.me, attempt, txn, rank);
        }
    }

    fn current(&self, attempt: Attempt) -> Option<&Coord> {
        self.coords.get(&attempt.id).filter(|coord| coord.attempt == attempt)
    }

    pub(super) fn vote(
        &mut self,
        from: Node,
        attempt: Attempt,
        shard: Shard,
        results: Arc<[PieceResult]>,
        aborted: bool,
    ) {
        self.leaders[shard.0 as usize] = from;
        if self.current(attempt).is_none() {
            self.ask(from, attempt);
            return;
        }
        if aborted {
            self.took_back(attempt);
            return;
        }
        if let Some(coord) = self.coords.get_mut(&attempt.id) {
            coord.votes.insert(shard, results);
        }
        self.decide_if_whole(attempt);
    }

    pub(super) fn decide_if_whole(&mut self, attempt: Attempt) {
        let own = self.shard;
        let Some(coord) = self.coords.get_mut(&attempt.id) else { return };
        if coord.attempt != attempt || coord.deciding || coord.missing(own).next().is_some() {
            return;
        }
        let (mut writes, mut pieces) = (Vec::new(), Vec::new());
        if coord.txn.shards().contains(&own) {
            let Some(part) = self.parts.get_mut(&attempt) else { return };
            if part.phase != Phase::Ran {
                return;
            }
            part.phase = Phase::Prepared;
            writes = part.writes.clone();
            pieces = part.results.clone();
        }
        coord.deciding = true;
        pieces.extend(coord.votes.values().flat_map(|results| results.iter().cloned()));
        let outcome = Outcome::committed(Ts::ZERO, pieces);
        let (txn, at_ns) = (coord.txn.clone(), self.station.wall.as_ns());
        let decision = Decision { attempt, txn, outcome, writes, at_ns };
        self.raft.propose(Command::Decide(Arc::new(decision)));
    }

    /// A decision is chosen: its leader tells everybody.
    pub(super) fn decision_is_stored(&mut self, decision: &Arc<Decision>) {
        let attempt = decision.attempt;
        if self.current(attempt).is_none() {
            return;
        }
        self.coords.remove(&attempt.id);
        self.drop_part(attempt);
        self.tell_participants(&decision.txn, attempt, true);
    }

    fn tell_participants(&mut self, txn: &Arc<Txn>, attempt: Attempt, commit: bool) {
        let own = self.shard;
        for shard in txn.shards().iter().copied().filter(|shard| *shard != own) {
            self.send(self.leader_of(shard), Message::Decided { attempt, commit });
        }
    }

    /// A piece takes the transaction back. That is not stored: who asks again hears the same.
    pub(super) fn took_back(&mut self, attempt: Attempt) {
        if self.current(attempt).is_none_or(|coord| coord.deciding) {
            return;
        }
        let Some(coord) = self.coords.remove(&attempt.id) else { return };
        self.drop_part(attempt);
        self.tell_participants(&coord.txn, attempt, false);
        self.answer(Response { id: attempt.id, outcome: Outcome::Aborted });
    }

    /// Somebody older needs a lock of `attempt`: it begins anew, as old as it is.
    pub(super) fn wounded(&mut self, attempt: Attempt) {
        if self.current(attempt).is_none_or(|coord| coord.deciding) {
            return;
        }
        let Some(coord) = self.coords.remove(&attempt.id) else { return };
        self.drop_part(attempt);
        self.tell_participants(&coord.txn, attempt, false);
        self.attempt(coord.txn, coord.rank);
    }

    /// A participant asks what became of an attempt. Only a leader that can know answers: one of
    /// the attempt's own term, or of a later one, which has all that was chosen before.
    pub(super) fn ask(&mut self, from: Node, attempt: Attempt) {
        let decided = self.done.get(&attempt.id).map(|done| done.attempt == attempt);
        let commit = match decided {
            Some(commit) => commit,
            None if !self.leading || attempt.term > self.raft.term() => return,
            None if self.current(attempt).is_some() => return,
            None => false,
        };
        self.send(from, Message::Decided { attempt, commit });
    }

    /// Asks again for what has not come for long.
    pub(super) fn ask_again(&mut self) {
        let (now, retry, own) = (self.station.now, self.config.retry_after, self.shard);
        let mut late = Vec::new();
        for coord in self.coords.values_mut() {
            if !coord.deciding && now.since(coord.asked_at) >= retry {
                coord.asked_at = now;
                let missing: Vec<Shard> = coord.missing(own).collect();
                late.push((coord.attempt, coord.txn.clone(), coord.rank, missing));
            }
        }
        for (attempt, txn, rank, missing) in late {
            for shard in missing {
                let message = Message::Prepare { attempt, txn: txn.clone(), rank };
                self.send_to_shard(shard, &message);
            }
        }
        self.ask_about_parts();
    }
}
