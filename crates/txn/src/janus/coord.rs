//! Whoever coordinates: the front of the clients' shard, or a replica that takes over.

use super::Janus;
use super::message::{Ballot, Coordinator, Deps, Message, Status, View, union};
use crate::client::{Done, Outcome, Response};
use crate::txn::{Shard, Txn, TxnId};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::Call;
use cavy_core::{Instant, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    PreAccepting,
    Recovering,
    Accepting,
    Committed,
}

/// A transaction that this node coordinates.
pub(super) struct Coord {
    txn: Arc<Txn>,
    calls: Vec<Call>,
    phase: Phase,
    ballot: Ballot,
    views: BTreeMap<Node, View>,
    /// When a majority of every shard had answered.
    majority_at: Option<Instant>,
    accepts: BTreeMap<Shard, u32>,
    deps: Arc<Deps>,
    outputs: BTreeMap<Shard, Done>,
    retry_at: Instant,
    /// Another attempt to take it over begins then.
    resumes_at: Option<Instant>,
    /// The greatest ballot that it has heard of.
    seen: Ballot,
}

impl Janus {
    fn by(&self) -> Coordinator {
        Coordinator { node: self.station.me, life: self.life }
    }

    fn new_coord(&self, txn: Arc<Txn>, calls: Vec<Call>, phase: Phase, ballot: Ballot) -> Coord {
        Coord {
            txn,
            calls,
            phase,
            ballot,
            views: BTreeMap::new(),
            majority_at: None,
            accepts: BTreeMap::new(),
            deps: Arc::default(),
            outputs: BTreeMap::new(),
            retry_at: self.station.now + self.config.retry_after,
            resumes_at: None,
            seen: ballot,
        }
    }

    /// A client asks.
    pub(super) fn submit(&mut self, call: Call, txn: Arc<Txn>) {
        if let Some(coord) = self.coords.get_mut(&txn.id) {
            coord.calls.push(call);
            return;
        }
        let calls = Vec::from([call]);
        let coord = self.new_coord(txn.clone(), calls, Phase::PreAccepting, Ballot::FIRST);
        self.coords.insert(txn.id, coord);
        let to = self.replicas_of(txn.shards());
        let by = self.by();
        self.send_all(&to, &Message::PreAccept { txn, by });
    }

    /// Somebody else has begun and does not finish.
    pub(super) fn take_over(&mut self, txn: Arc<Txn>, calls: Vec<Call>, seen: Ballot) {
        let known = self.coords.remove(&txn.id);
        if let Some(known) = known.filter(|coord| coord.phase == Phase::Committed) {
            self.coords.insert(txn.id, known);
            return;
        }
        let ballot = Ballot { round: seen.round + 1, by: self.by() };
        let coord = self.new_coord(txn.clone(), calls, Phase::Recovering, ballot);
        self.coords.insert(txn.id, coord);
        let to = self.replicas_of(txn.shards());
        self.send_all(&to, &Message::Recover { txn, ballot });
    }

    fn later(&mut self, id: TxnId, seen: Ballot) {
        let (now, retry) = (self.station.now, self.config.retry_after.as_ns());
        let wait = Span::from_ns(retry / 10 + self.station.random % retry);
        if let Some(coord) = self.coords.get_mut(&id)
            && coord.phase != Phase::Committed
        {
            coord.seen = coord.seen.max(seen);
            coord.resumes_at.get_or_insert(now + wait);
        }
    }

    pub(super) fn pre_accepted(&mut self, from: Node, id: TxnId, view: Option<View>) {
        let Some(coord) = self.coords.get_mut(&id) else { return };
        if coord.phase != Phase::PreAccepting {
            return;
        }
        match view {
            None => self.later(id, Ballot::FIRST),
            Some(view) if view.status >= Status::Committed => self.choose(id, view.deps),
            Some(view) => {
                coord.views.insert(from, view);
                self.weigh(id);
            }
        }
    }

    /// Fast, slow, or not yet. Fast: all replicas of each shard name the same, or know that what
    /// others name is covered. Then any majority gives dependencies that order everything just so,
    /// and whoever takes over needs to know nothing more.
    fn weigh(&mut self, id: TxnId) {
        let (layout, now) = (self.config.layout, self.station.now);
        let Some(coord) = self.coords.get_mut(&id) else { return };
        let (mut all, mut majority, mut differ) = (true, true, false);
        for shard in coord.txn.shards() {
            let views = layout.replicas_of(*shard).filter_map(|node| coord.views.get(&node));
            let views: Vec<&View> = views.collect();
            all &= views.len() as u32 == layout.replicas;
            majority &= views.len() as u32 >= layout.majority();
            let named = union(views.iter().map(|view| &view.deps));
            let knows =
                |view: &View, dep| view.deps.contains_key(dep) || view.covered.contains(dep);
            differ |= views.iter().any(|view| !named.keys().all(|dep| knows(view, dep)));
        }
        let waited = || now.since(coord.majority_at.unwrap_or(now)) >= self.config.fast_wait;
        let slow = majority && (differ || waited());
        if majority {
            coord.majority_at.get_or_insert(now);
        }
        if !(all || slow) {
            return;
        }
        let deps = union(coord.views.values().map(|view| &view.deps));
        if all && !differ {
            self.choose(id, deps);
        } else {
            self.propose(id, deps);
        }
    }

    /// The slow path: a majority of every shard accepts what goes before.
    fn propose(&mut self, id: TxnId, deps: Arc<Deps>) {
        let Some(coord) = self.coords.get_mut(&id) else { return };
        coord.phase = Phase::Accepting;
        coord.deps = deps.clone();
        let (txn, ballot) = (coord.txn.clone(), coord.ballot);
        let to = self.replicas_of(txn.shards());
        self.send_all(&to, &Message::Accept { txn, ballot, deps });
    }

    pub(super) fn accepted(
        &mut self,
        from: Node,
        id: TxnId,
        ballot: Ballot,
        promised: Option<Ballot>,
    ) {
        let layout = self.config.layout;
        let Some(coord) = self.coords.get_mut(&id) else { return };
        if coord.phase != Phase::Accepting || coord.ballot != ballot {
            return;
        }
        if let Some(promised) = promised {
            self.later(id, promised);
            return;
        }
        if let Some(shard) = layout.shard_of(from) {
            *coord.accepts.entry(shard).or_default() |= 1 << layout.index_of(from);
        }
        let whole = coord.txn.shards().iter().all(|shard| {
            let mask = coord.accepts.get(shard).copied().unwrap_or(0);
            mask.count_ones() >= layout.majority()
        });
        if whole {
            let deps = coord.deps.clone();
            self.choose(id, deps);
        }
    }

    pub(super) fn recovered(
        &mut self,
        from: Node,
        id: TxnId,
        ballot: Ballot,
        view: Option<View>,
        promised: Ballot,
    ) {
        let layout = self.config.layout;
        let Some(coord) = self.coords.get_mut(&id) else { return };
        if coord.phase != Phase::Recovering || coord.ballot != ballot {
            return;
        }
        let Some(view) = view else {
            self.later(id, promised);
            return;
        };
        if view.status >= Status::Committed {
            self.choose(id, view.deps);
            return;
        }
        coord.views.insert(from, view);
        for shard in coord.txn.shards() {
            let views = layout.replicas_of(*shard).filter(|node| coord.views.contains_key(node));
            if (views.count() as u32) < layout.majority() {
                return;
            }
        }
        // What may have been chosen with a smaller ballot was accepted by one of these; or all
        // replicas named the same, and these do.
        let accepted = coord.views.values().filter(|view| view.status == Status::Accepted);
        let deps = match accepted.max_by_key(|view| view.accepted) {
            Some(view) => view.deps.clone(),
            None => union(coord.views.values().map(|view| &view.deps)),
        };
        self.propose(id, deps);
    }

    /// What goes before is final.
    fn choose(&mut self, id: TxnId, deps: Arc<Deps>) {
        let now = self.station.now;
        let Some(coord) = self.coords.get_mut(&id) else { return };
        coord.phase = Phase::Committed;
        coord.deps = deps.clone();
        coord.resumes_at = None;
        coord.retry_at = now + self.config.retry_after;
        let txn = coord.txn.clone();
        let to = self.replicas_of(txn.shards());
        self.send_all(&to, &Message::Commit { txn, deps });
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

    /// Goes on with what has waited long enough.
    pub(super) fn push_coords(&mut self) {
        let (now, retry) = (self.station.now, self.config.retry_after);
        let waits = |coord: &Coord| {
            coord.resumes_at.is_some_and(|at| at <= now)
                || coord.retry_at <= now
                || (coord.phase == Phase::PreAccepting && coord.majority_at.is_some())
        };
        let late = self.coords.iter().filter(|(_, coord)| waits(coord)).map(|(id, _)| *id);
        let late: Vec<TxnId> = late.collect();
        for id in late {
            let Some(coord) = self.coords.get_mut(&id) else { continue };
            if coord.resumes_at.is_some_and(|at| at <= now) {
                let (txn, seen) = (coord.txn.clone(), coord.seen.max(coord.ballot));
                let calls = core::mem::take(&mut coord.calls);
                self.take_over(txn, calls, seen);
                continue;
            }
            if coord.retry_at > now {
                self.weigh(id);
                continue;
            }
            coord.retry_at = now + retry;
            self.say_again(id);
        }
    }

    fn say_again(&mut self, id: TxnId) {
        let by = self.by();
        let Some(coord) = self.coords.get(&id) else { return };
        let (txn, ballot, deps) = (coord.txn.clone(), coord.ballot, coord.deps.clone());
        let message = match coord.phase {
            Phase::PreAccepting => Message::PreAccept { txn: txn.clone(), by },
            Phase::Recovering => Message::Recover { txn: txn.clone(), ballot },
            Phase::Accepting => Message::Accept { txn: txn.clone(), ballot, deps },
            Phase::Committed => Message::Commit { txn: txn.clone(), deps },
        };
        let to = self.replicas_of(txn.shards());
        self.send_all(&to, &message);
    }
}
