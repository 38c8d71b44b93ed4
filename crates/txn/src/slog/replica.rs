//! Replicas: they take their region's log in order, lock in that order, and run what has its locks
//! and its values. And they coordinate.

use super::Slog;
use super::message::{Item, Items, Message};
use crate::client::{Done, Note, Outcome, PieceResult, Response};
use crate::procedure::Given;
use crate::txn::{Key, Shard, Ts, Txn, TxnId};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::Instant;
use cavy_core::family::Node;
use cavy_core::family::message::Call;

/// A transaction that this replica coordinates.
pub(super) struct Coord {
    txn: Arc<Txn>,
    calls: Vec<Call>,
    outputs: BTreeMap<Shard, Done>,
    asked_at: Instant,
}

/// A transaction in the log that has not run wholly.
pub(super) struct Running {
    txn: Arc<Txn>,
    askers: Vec<Node>,
    results: Vec<PieceResult>,
    gives: Given,
    aborted: bool,
    asked_at: Instant,
}

/// A row that somebody holds, or waits for, in the order of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    id: TxnId,
    piece: usize,
    write: bool,
}

impl Slog {
    // Coordinators.

    /// A client asks.
    pub(super) fn submit(&mut self, call: Call, txn: Arc<Txn>) {
        if self.shard.is_none() {
            return;
        }
        if let Some(coord) = self.coords.get_mut(&txn.id) {
            coord.calls.push(call);
            return;
        }
        let (calls, asked_at) = (Vec::from([call]), self.station.now);
        let coord = Coord { txn: txn.clone(), calls, outputs: BTreeMap::new(), asked_at };
        self.coords.insert(txn.id, coord);
        self.ask_for_a_place(&txn, false);
    }

    /// Into the region's log, or into the global order.
    fn ask_for_a_place(&mut self, txn: &Arc<Txn>, all: bool) {
        let layout = self.config.layout;
        let item = Item { txn: txn.clone(), coordinator: self.station.me };
        if layout.is_within(txn, self.region) {
            let to = if all { layout.stewards_of(self.region).collect() } else { Vec::new() };
            let to = if all { to } else { Vec::from([self.sequencer]) };
            self.send_all(to, &Message::Submit(item));
        } else {
            let to = if all { self.config.orderers() } else { Vec::from([self.orderer]) };
            self.send_all(to, &Message::Order(item));
        }
    }

    pub(super) fn output(&mut self, id: TxnId, shard: Shard, done: Done) {
        let Some(coord) = self.coords.get_mut(&id) else { return };
        coord.outputs.insert(shard, done);
        if coord.outputs.len() < coord.txn.shards().len() {
            return;
        }
        let Some(coord) = self.coords.remove(&id) else { return };
        let outcome = Outcome::of(coord.outputs.values());
        for call in coord.calls {
            let outcome = outcome.clone();
            self.station.reply(call, Response { id, outcome });
        }
    }

    // The log.

    pub(super) fn deliver(&mut self, index: u64, items: Items) {
        if index >= self.next {
            self.ahead.insert(index, items);
        }
    }

    /// Takes the next transaction of the log. False when there is none, or it may not begin yet.
    pub(super) fn take_next(&mut self) -> bool {
        let Some(shard) = self.shard else { return false };
        if self.line.is_empty() {
            let Some(items) = self.ahead.remove(&self.next) else { return false };
            self.next += 1;
            self.line.extend(items.iter().cloned());
            return true;
        }
        if self.config.lookahead.is_some_and(|most| self.begun >= most) {
            return false;
        }
        let Some(item) = self.line.pop_front() else { return false };
        let id = item.txn.id;
        if !item.txn.shards().contains(&shard) {
            return true;
        }
        // The same transaction, asked for twice: the first in the log counts.
        if let Some(done) = self.done.get(&id).cloned() {
            self.answer(&item.txn, &[item.coordinator], &done);
            return true;
        }
        if let Some(running) = self.running.get_mut(&id) {
            running.askers.push(item.coordinator);
            return true;
        }
        for (place, piece) in item.txn.pieces_on(shard) {
            for access in &piece.accesses {
                let claim = Claim { id, piece: place, write: access.write };
                self.claims.entry(access.key).or_default().push(claim);
            }
        }
        let running = Running {
            txn: item.txn,
            askers: Vec::from([item.coordinator]),
            results: Vec::new(),
            gives: Given::new(),
            aborted: false,
            asked_at: self.station.now,
        };
        self.running.insert(id, running);
        self.begun += 1;
        self.ready.push_back(id);
        true
    }

    /// Nothing before it claims a row that the piece conflicts on.
    fn has_locks(&self, txn: &Txn, piece: usize) -> bool {
        txn.pieces[piece].accesses.iter().all(|access| {
            let Some(claims) = self.claims.get(&access.key) else { return true };
            let own = |claim: &&Claim| claim.id == txn.id && claim.piece == piece;
            let mut before = claims.iter().take_while(|claim| !own(claim));
            // Its own earlier piece runs first anyway.
            !before.any(|claim| {
                (access.write || claim.write)
                    && !(claim.id == txn.id && self.config.lookahead.is_none())
            })
        })
    }

    /// Runs what can run of a transaction.
    pub(super) fn advance(&mut self, id: TxnId) {
        let Some(shard) = self.shard else { return };
        let Some(mut running) = self.running.remove(&id) else { return };
        let txn = running.txn.clone();
        let mine: Vec<usize> = txn.pieces_on(shard).map(|(place, _)| place).collect();
        let whole_locks = self.config.lookahead.is_none();
        if whole_locks && !mine.iter().all(|place| self.has_locks(&txn, *place)) {
            self.running.insert(id, running);
            return;
        }
        let nothing = Given::new();
        let mut new = false;
        loop {
            let next = mine.iter().copied().find(|place| {
                let ran = running.results.iter().any(|r| usize::from(r.piece) == *place);
                let given = self.given.get(&id).unwrap_or(&nothing);
                let ready = given.has_all(&txn.pieces[*place]);
                !ran && ready && (whole_locks || self.has_locks(&txn, *place))
            });
            let Some(place) = next else { break };
            let given = self.given.get(&id).unwrap_or(&nothing);
            let (run, ops) = self.store.run(&mut *self.procedures, &txn, place, given, Ts::ZERO);
            running.aborted |= run.aborted;
            for (var, value) in run.gives {
                self.given.entry(id).or_default().set(var, value.clone());
                running.gives.set(var, value);
                new = true;
            }
            if self.config.history {
                let keys: Vec<Key> = ops.iter().filter(|op| op.wrote).map(|op| op.key).collect();
                if !keys.is_empty() {
                    self.station.note(Note::Applied { id, at: Ts::ZERO, keys });
                }
            }
            let ops = if self.config.history { ops } else { Vec::new() };
            running.results.push(PieceResult { piece: place as u16, result: run.result, ops });
            if !whole_locks {
                self.release(&txn, place);
            }
        }
        if new {
            // Each replica tells one of every shard that waits.
            let index = self.config.layout.index_of(self.station.me);
            let takers: Vec<Shard> = txn.takers(shard).collect();
            for taker in takers {
                let to = self.config.layout.replica(taker, index);
                self.send(to, Message::Values { id, given: running.gives.clone() });
            }
        }
        if running.results.len() < mine.len() {
            self.running.insert(id, running);
            return;
        }
        if whole_locks {
            for place in mine {
                self.release(&txn, place);
            }
        }
        self.begun -= 1;
        self.given.remove(&id);
        running.results.sort_by_key(|result| result.piece);
        let (results, aborted) = (running.results.into(), running.aborted);
        let done = Done { results, gives: running.gives, aborted };
        self.done.insert(id, done.clone());
        self.answer(&txn, &running.askers, &done);
        for asker in self.pulls.remove(&id).into_iter().flatten() {
            self.send(asker, Message::Output { id, shard, done: done.clone() });
        }
    }

    /// Lets go of a piece's rows; whoever comes next may run.
    fn release(&mut self, txn: &Txn, piece: usize) {
        for access in &txn.pieces[piece].accesses {
            let Some(claims) = self.claims.get_mut(&access.key) else { continue };
            claims.retain(|claim| !(claim.id == txn.id && claim.piece == piece));
            // Those at the head, and readers behind it.
            let mut writes = false;
            for claim in claims.iter() {
                if claim.id != txn.id {
                    self.ready.push_back(claim.id);
                }
                writes |= claim.write;
                if writes {
                    break;
                }
            }
            if claims.is_empty() {
                self.claims.remove(&access.key);
            }
        }
    }

    /// The replica with the coordinator's own index answers for the shard.
    fn answer(&mut self, txn: &Arc<Txn>, askers: &[Node], done: &Done) {
        let (layout, me) = (self.config.layout, self.station.me);
        let Some(shard) = self.shard else { return };
        for asker in askers {
            if layout.index_of(*asker) == layout.index_of(me) {
                self.send(*asker, Message::Output { id: txn.id, shard, done: done.clone() });
            }
        }
    }

    pub(super) fn pull_output(&mut self, from: Node, id: TxnId) {
        let Some(shard) = self.shard else { return };
        if let Some(done) = self.done.get(&id).cloned() {
            self.send(from, Message::Output { id, shard, done });
        } else {
            let askers = self.pulls.entry(id).or_default();
            if !askers.contains(&from) {
                askers.push(from);
            }
        }
    }

    pub(super) fn values(&mut self, id: TxnId, given: &Given) {
        if self.done.contains_key(&id) {
            return;
        }
        let known = self.given.entry(id).or_default();
        for (var, value) in given.iter() {
            known.set(*var, value.clone());
        }
        self.ready.push_back(id);
    }

    pub(super) fn pull_values(&mut self, from: Node, id: TxnId) {
        let known = self.done.get(&id).map(|done| &done.gives);
        let known = known.or_else(|| self.running.get(&id).map(|running| &running.gives));
        if let Some(given) = known.filter(|given| **given != Given::new()).cloned() {
            self.send(from, Message::Values { id, given });
        }
    }

    pub(super) fn ask_for_log(&mut self) {
        // One after another: most of the time nobody has anything.
        self.asked = self.asked.wrapping_add(1);
        let mut stewards = self.config.layout.stewards_of(self.region);
        if let Some(steward) = stewards.nth(self.asked as usize % 3) {
            self.send(steward, Message::Fetch { from: self.next });
        }
    }

    /// Asks again for what has not come.
    pub(super) fn ask_again(&mut self) {
        let (layout, now, retry) = (self.config.layout, self.station.now, self.config.retry_after);
        let Some(own) = self.shard else { return };
        self.ask_for_log();
        let mut late = Vec::new();
        for (id, coord) in &mut self.coords {
            if now.since(coord.asked_at) >= retry {
                coord.asked_at = now;
                let missing = coord.txn.shards().iter().copied();
                let missing = missing.filter(|shard| !coord.outputs.contains_key(shard));
                late.push((*id, coord.txn.clone(), missing.collect::<Vec<Shard>>()));
            }
        }
        for (id, txn, missing) in late {
            self.ask_for_a_place(&txn, true);
            for shard in missing {
                self.send_all(layout.replicas_of(shard), &Message::PullOutput { id });
            }
        }
        let mut pulls = Vec::new();
        for (id, running) in &mut self.running {
            if now.since(running.asked_at) >= retry {
                running.asked_at = now;
                let waits = running.txn.pieces_on(own).any(|(_, piece)| !piece.needs.is_empty());
                if waits {
                    let others = running.txn.shards().iter().copied();
                    pulls.extend(others.filter(|shard| *shard != own).map(|shard| (*id, shard)));
                }
            }
        }
        for (id, shard) in pulls {
            self.send_all(layout.replicas_of(shard), &Message::PullValues { id });
        }
    }
}
