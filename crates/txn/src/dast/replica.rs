//! Entries in order of timestamps, and what runs when `[dast 2.7, 2.8]`.

use super::message::{Attempt, Body, Done, Pending};
use super::view::Peer;
use super::{BATCH, Dast, Timer};
use crate::client::{Note, Outcome, PieceResult};
use crate::procedure::Given;
use crate::txn::{Key, Shard, Ts, Txn, TxnId};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect};
use cavy_core::{Instant, Out, Span};

/// A clock that does not move is looked at again after so long, at least.
const STANDING: Span = Span::from_us(50);

/// What an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Coordinated by this node of the region.
    Irt(Node),
    /// An attempt, with the shard's leader.
    Crt(Attempt, Node),
    /// A read of this replica alone, for this call.
    Read(Call),
}

/// An entry that has not begun to run.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub txn: Arc<Txn>,
    pub shard: Shard,
    pub kind: Kind,
    /// Stable, committed, or a read.
    pub certain: bool,
}

/// An entry that has begun: some piece has run, or claims its keys.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub txn: Arc<Txn>,
    pub ts: Ts,
    pub kind: Kind,
    pub since: Instant,
    pub results: Vec<PieceResult>,
    pub aborted: bool,
    /// Later attempts of the same transaction, which are answered with it.
    pub also: Vec<Kind>,
    claimed: bool,
}

impl Waiting {
    /// Nothing of it has run.
    pub fn bare(txn: Arc<Txn>, ts: Ts, kind: Kind, since: Instant) -> Waiting {
        let (results, also) = (Vec::new(), Vec::new());
        Waiting { txn, ts, kind, since, results, aborted: false, also, claimed: false }
    }
}

/// A piece that waits for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    ts: Ts,
    id: TxnId,
    piece: usize,
    write: bool,
}

/// A CRT of the region, as this node knows it.
#[derive(Clone, Debug)]
pub(super) struct Crt {
    pub a: Ts,
    pub f: Option<Ts>,
    /// Where this node has part in it.
    pub txn: Option<Arc<Txn>>,
    pub waits: bool,
    pub begun: bool,
}

impl Dast {
    /// `ts` is not below the watermark: one of the others may still coordinate something at or
    /// below it. Asked after each message, so it looks first at the one for which it waited last.
    fn waits_for_others(&mut self, ts: Ts) -> bool {
        let (first, me) = (self.first_peer, self.me.0);
        let behind = |(at, peer): (usize, &Peer)| {
            peer.waited_for && first + at as u32 != me && peer.clock <= ts
        };
        let slow = self.slow;
        if self.peers.get(slow).is_some_and(|peer| behind((slow, peer))) {
            return true;
        }
        let found = self.peers.iter().enumerate().position(behind);
        self.slow = found.unwrap_or(slow);
        found.is_some()
    }

    /// Nothing has changed for the first entry since it was looked at last: it waits for a clock
    /// that has not moved far enough.
    pub(super) fn waits_as_before(&self) -> bool {
        let slow = self.peers.get(self.slow);
        self.queue.waits.is_some_and(|ts| slow.is_some_and(|p| p.waited_for && p.clock <= ts))
    }

    /// What the first entry that has not begun waits for, in words.
    pub fn blocked(&self) -> Option<String> {
        let ((ts, id), queued) = self.queue.first_key_value()?;
        let slow = self.peers.iter().enumerate().find(|(index, peer)| {
            let node = self.first_peer + *index as u32;
            peer.waited_for && node != self.me.0 && peer.clock <= *ts
        });
        let what = match (queued.kind, slow) {
            (Kind::Crt(attempt, _), _) if !queued.certain => {
                format!("the decision of node {}, try {}", attempt.coordinator.0, attempt.round)
            }
            (Kind::Irt(node), _)
                if !queued.certain && self.peer(node).is_some_and(|peer| *ts >= peer.stable) =>
            {
                format!("node {}, which has not said that it is stable", node.0)
            }
            (_, Some((index, _))) => {
                format!("the clock of node {}", self.first_peer + index as u32)
            }
            _ if self.promise <= ts.t => "the steward's promise".into(),
            _ => "this node's own clock".into(),
        };
        Some(format!("{}.{} at {} waits for {what}", id.client, id.number, ts.t))
    }

    /// Runs entries in order as far as `[dast 2.8]` allows.
    pub(super) fn run_what_may_run(&mut self) {
        let bugs = self.config.bugs;
        for _ in 0..BATCH {
            let Some((&(ts, id), queued)) = self.queue.first_key_value() else { return };
            let certain = queued.certain
                || match queued.kind {
                    Kind::Irt(coordinator) if bugs.first_answer => coordinator != self.me,
                    Kind::Irt(coordinator) => {
                        !self.config.follower_rule
                            || bugs.run_unstable
                            || self.peer(coordinator).is_none_or(|peer| ts < peer.stable)
                    }
                    Kind::Crt(..) => false,
                    Kind::Read(_) => true,
                };
            let promised = bugs.no_promise || self.promise > ts.t;
            if !certain || !promised {
                return;
            }
            if !bugs.no_watermark && self.waits_for_others(ts) {
                self.queue.waits = Some(ts);
                return;
            }
            if !bugs.no_watermark && self.peek_ts() <= ts {
                self.wait_for_clock(ts.t);
                return;
            }
            let before = || self.waiting.values().filter(|waiting| waiting.ts < ts).count();
            if self.config.lookahead.is_some_and(|most| before() > most as usize) {
                return;
            }
            let Some(queued) = self.queue.remove(&(ts, id)) else { return };
            if !bugs.run_late {
                self.clock.passed(ts);
            }
            self.high = self.high.max(ts);
            self.begin_entry(ts, queued);
        }
        self.arm(Timer::More, self.now);
    }

    /// Looks again when this node's clock should have passed `t`. A clock that is held does not
    /// pass it by time: what lets it go is a step, too.
    fn wait_for_clock(&mut self, t: u64) {
        let physical = self.clock.physical(self.wall);
        if physical > t {
            return;
        }
        let mut wait = Span::from_ns(t - physical + 1);
        if let Some((since, shown)) = self.clock_seen
            && since < self.now
            && physical <= shown
        {
            // Its wall clock stands still, or was set back: how long that lasts nobody knows, and
            // what others say of theirs is a step, too.
            wait = wait.max(STANDING);
        }
        self.clock_seen = Some((self.now, physical));
        self.arm(Timer::Clock, self.now + wait);
    }

    /// A thing that ran at `at` is still remembered at `now`, by every replica alike `[dast 0.6]`.
    fn remembers(&self, done: &Done, now: Ts) -> bool {
        if self.config.bugs.forget_by_wall {
            let wall = self.wall.as_ns();
            return wall.saturating_sub(done.at.t) <= self.config.remember.as_ns();
        }
        now.t.saturating_sub(done.at.t) <= self.config.remember.as_ns()
    }

    pub(super) fn begin_entry(&mut self, ts: Ts, queued: Queued) {
        let Queued { txn, kind, .. } = queued;
        let id = txn.id;
        if let Kind::Crt(attempt, _) = kind
            && let Some(crt) = self.crts.get_mut(&attempt)
        {
            crt.begun = true;
        }
        if !matches!(kind, Kind::Read(_)) {
            // Of several attempts of one transaction the first in order has run: the others are
            // answered with what it came to.
            if let Some(done) = self.done.get(&id)
                && self.remembers(done, ts)
            {
                let done = done.clone();
                self.answer(&txn, kind, &done);
                return;
            }
            if let Some(first) = self.waiting.get_mut(&id) {
                first.also.push(kind);
                return;
            }
        }
        let waiting = Waiting::bare(txn, ts, kind, self.now);
        if let Kind::Read(call) = kind {
            self.read_now(call, &waiting);
            return;
        }
        self.waiting.insert(id, waiting);
        self.advance(id);
    }

    /// A read of this replica: it waits for no value, and for claims only.
    pub(super) fn read_now(&mut self, call: Call, waiting: &Waiting) {
        let txn = &waiting.txn;
        let held = txn.pieces.iter().flat_map(|piece| &piece.accesses).any(|access| {
            let claims = self.claims.get(&access.key);
            claims.is_some_and(|claims| claims.iter().any(|claim| claim.write))
        });
        if held && !self.config.bugs.read_above_unexecuted {
            // Below it something waits for a value and will write what is to be read.
            self.waiting.insert(txn.id, waiting.clone());
            self.advance(txn.id);
            return;
        }
        let mut results = Vec::new();
        for index in 0..txn.pieces.len() {
            let given = Given::new();
            let store = &mut self.store;
            let (run, ops) = store.run(&mut *self.procedures, txn, index, &given, waiting.ts);
            let ops = if self.config.history { ops } else { Vec::new() };
            results.push(PieceResult { piece: index as u16, result: run.result, ops });
        }
        let outcome = Outcome::Committed { at: waiting.ts, pieces: results };
        self.reply(call, txn.id, outcome);
    }

    /// Runs those pieces of `id` that can run, and what they let run in turn.
    pub(super) fn advance(&mut self, id: TxnId) {
        let mut work = VecDeque::new();
        work.push_back(id);
        while let Some(id) = work.pop_front() {
            let Some(mut waiting) = self.waiting.remove(&id) else { continue };
            let shard = self.shard;
            let txn = waiting.txn.clone();
            let all = txn.pieces.iter().enumerate().filter(|(_, p)| Some(p.shard) == shard);
            let all: Vec<usize> = all.map(|(index, _)| index).collect();
            loop {
                let mut progress = false;
                for &piece in &all {
                    let ran = waiting.results.iter().any(|r| usize::from(r.piece) == piece);
                    if ran {
                        continue;
                    }
                    if self.may_run(&waiting, piece) {
                        self.run_piece(&mut waiting, piece, &mut work);
                        progress = true;
                    } else if !waiting.claimed {
                        self.claim(&waiting, piece);
                    }
                }
                waiting.claimed = true;
                if !progress || waiting.results.len() == all.len() {
                    break;
                }
            }
            if waiting.results.len() == all.len() {
                self.finish(waiting);
            } else {
                self.waiting.insert(id, waiting);
            }
        }
    }

    /// Its values are there, and nothing before it claims a key that it conflicts on.
    fn may_run(&self, waiting: &Waiting, piece: usize) -> bool {
        let (txn, ts) = (&waiting.txn, waiting.ts);
        let declared = &txn.pieces[piece];
        let has_all = declared.needs.is_empty()
            || self.given.get(&txn.id).is_some_and(|given| given.has_all(declared));
        has_all
            && declared.accesses.iter().all(|access| {
                let Some(claims) = self.claims.get(&access.key) else { return true };
                let mine = |claim: &&Claim| claim.id == txn.id && claim.piece == piece;
                let claimed = waiting.claimed;
                let mut before =
                    claims.iter().take_while(|claim| claim.ts <= ts && !(claimed && mine(claim)));
                !before.any(|claim| access.write || claim.write)
            })
    }

    /// In order of timestamps, which is the order of coming unless what is late is run.
    fn claim(&mut self, waiting: &Waiting, piece: usize) {
        let (id, ts) = (waiting.txn.id, waiting.ts);
        for access in &waiting.txn.pieces[piece].accesses {
            let claim = Claim { ts, id, piece, write: access.write };
            let claims = self.claims.entry(access.key).or_default();
            claims.insert(claims.partition_point(|other| other.ts <= ts), claim);
        }
    }

    fn run_piece(&mut self, waiting: &mut Waiting, piece: usize, work: &mut VecDeque<TxnId>) {
        let (id, txn) = (waiting.txn.id, waiting.txn.clone());
        let nothing = Given::new();
        let given = self.given.get(&id).unwrap_or(&nothing);
        let (run, ops) = self.store.run(&mut *self.procedures, &txn, piece, given, waiting.ts);
        waiting.aborted |= run.aborted;
        for access in &txn.pieces[piece].accesses {
            let Some(claims) = self.claims.get_mut(&access.key) else { continue };
            claims.retain(|claim| !(claim.id == id && claim.piece == piece));
            work.extend(claims.iter().map(|claim| claim.id).filter(|other| *other != id));
            if claims.is_empty() {
                self.claims.remove(&access.key);
            }
        }
        let history = self.config.history;
        if history {
            let keys: Vec<Key> = ops.iter().filter(|op| op.wrote).map(|op| op.key).collect();
            if !keys.is_empty() {
                let note = Note::Applied { id, at: waiting.ts, keys };
                self.out.push_back(Out::Effect(Effect::Note(note)));
            }
        }
        let ops = if history { ops } else { Vec::new() };
        waiting.results.push(PieceResult { piece: piece as u16, result: run.result, ops });
        if !run.gives.is_empty() {
            let given = self.given.entry(id).or_default();
            for (var, value) in run.gives {
                given.set(var, value);
            }
            let given = given.clone();
            self.send_values(&txn, waiting.kind, given);
        }
    }

    /// The shard's leader tells the replicas of shards that need its values.
    fn send_values(&mut self, txn: &Arc<Txn>, kind: Kind, given: Given) {
        let Some(shard) = self.shard else { return };
        if self.leads(kind) {
            let takers: Vec<Shard> = txn.takers(shard).collect();
            for taker in takers {
                let replicas = self.config.layout.replicas_of(taker);
                self.send_all(replicas, &Body::Values { id: txn.id, given: given.clone() });
            }
        }
    }

    /// This replica answers for its shard.
    fn leads(&self, kind: Kind) -> bool {
        match kind {
            Kind::Irt(coordinator) => self.leader_of(self.shard, coordinator) == Some(self.me),
            Kind::Crt(_, leader) => leader == self.me,
            Kind::Read(_) => true,
        }
    }

    /// The replica of `shard` with the coordinator's index, or the next that is live.
    pub(super) fn leader_of(&self, shard: Option<Shard>, coordinator: Node) -> Option<Node> {
        let layout = self.config.layout;
        let (shard, first) = (shard?, layout.index_of(coordinator));
        let all = (first..first + layout.replicas).map(|index| layout.replica(shard, index));
        let mut all = all.filter(|node| self.is_live(*node));
        all.next()
    }

    fn finish(&mut self, waiting: Waiting) {
        let Waiting { txn, ts, kind, mut results, aborted, also, .. } = waiting;
        let id = txn.id;
        results.sort_by_key(|result| result.piece);
        if let Kind::Read(call) = kind {
            self.given.remove(&id);
            self.reply(call, id, Outcome::Committed { at: ts, pieces: results });
            return;
        }
        let gives = self.given.remove(&id).unwrap_or_default();
        let own = self.shard.into_iter().flat_map(|shard| txn.pieces_on(shard));
        let gives_away = own.into_iter().any(|(_, piece)| !piece.gives.is_empty());
        if matches!(kind, Kind::Crt(..)) && gives_away {
            self.given_away.insert(id, (ts, gives.clone()));
        }
        let done = Done { at: ts, results: results.into(), gives, aborted };
        self.done.insert(id, done.clone());
        self.done_order.insert((ts, id));
        self.answer(&txn, kind, &done);
        for kind in also {
            self.answer(&txn, kind, &done);
        }
        if let Some(askers) = self.pulls.remove(&id)
            && let Some(shard) = self.shard
        {
            self.send_all(askers, &Body::Output { id, shard, done: Box::new(done) });
        }
        self.forget();
    }

    fn forget(&mut self) {
        let remember = self.config.remember.as_ns();
        while let Some(&(at, id)) = self.done_order.first() {
            if self.high.t.saturating_sub(at.t) <= remember {
                return;
            }
            self.done_order.remove(&(at, id));
            if self.done.get(&id).is_some_and(|done| done.at == at) {
                self.done.remove(&id);
            }
        }
    }

    fn answer(&mut self, txn: &Arc<Txn>, kind: Kind, done: &Done) {
        let Some(shard) = self.shard else { return };
        let coordinator = match kind {
            Kind::Irt(coordinator) => coordinator,
            Kind::Crt(attempt, _) => attempt.coordinator,
            Kind::Read(_) => return,
        };
        // The coordinator answers for its own shard.
        if coordinator == self.me || self.leads(kind) {
            let done = Box::new(done.clone());
            self.send(coordinator, Body::Output { id: txn.id, shard, done });
        }
    }

    pub(super) fn values(&mut self, id: TxnId, given: Given) {
        if self.done.contains_key(&id) || self.shard.is_none() {
            return;
        }
        let known = self.given.entry(id).or_default();
        for (var, value) in given.iter() {
            known.set(*var, value.clone());
        }
        self.remember(self.me, || Body::Values { id, given });
        if self.status == super::view::Status::Ready {
            self.let_clocks_go(id);
            self.advance(id);
        }
    }

    /// A replica that has its state now: values that came before it had may let entries run that
    /// another one had begun, and clocks go.
    pub(super) fn take_up_waiting(&mut self) {
        let mut begun: Vec<(Ts, TxnId)> =
            self.waiting.iter().map(|(id, waiting)| (waiting.ts, *id)).collect();
        begun.sort_unstable();
        for (_, id) in begun {
            self.advance(id);
        }
        let given: Vec<TxnId> = self.given.keys().copied().collect();
        for id in given {
            self.let_clocks_go(id);
        }
    }

    /// The values that a region holds its clocks for are here: the steward lets the clocks go
    /// `[dast 2.7]`. The shard's leader says so, or everybody where the leader is out.
    pub(super) fn let_clocks_go(&mut self, id: TxnId) {
        if !self.config.dependency_stretch {
            return;
        }
        let queued = self.queue.values().filter(|queued| queued.txn.id == id);
        let queued = queued.map(|queued| (queued.kind, &queued.txn));
        // Without a watermark an entry begins while clocks are still held below it.
        let begun = self.waiting.get(&id).map(|waiting| (waiting.kind, &waiting.txn));
        let all: Vec<(Attempt, Node, Arc<Txn>)> = queued
            .chain(begun)
            .filter_map(|(kind, txn)| match kind {
                Kind::Crt(attempt, leader) => Some((attempt, leader, txn.clone())),
                _ => None,
            })
            .collect();
        for (attempt, leader, txn) in all {
            let held = self.crts.get(&attempt).is_some_and(|crt| crt.waits && crt.f.is_some());
            let speaks = leader == self.me || !self.is_live(leader);
            let shard = self.shard.unwrap_or(Shard(0));
            let has_all = txn.pieces_on(shard).all(|(_, piece)| {
                piece.needs.is_empty() || self.given.get(&id).is_some_and(|g| g.has_all(piece))
            });
            if held && speaks && has_all && txn.waits(shard) {
                let steward = self.view.steward;
                self.send(steward, Body::ValueIn { attempt });
            }
        }
    }

    pub(super) fn pull_values(&mut self, from: Node, id: TxnId) {
        let known = self.done.get(&id).map(|done| &done.gives).or_else(|| self.given.get(&id));
        let known = known.or_else(|| self.given_away.get(&id).map(|(_, given)| given));
        if let Some(given) = known.cloned()
            && given != Given::new()
        {
            self.send(from, Body::Values { id, given });
        }
    }

    pub(super) fn pull_output(&mut self, from: Node, id: TxnId) {
        let Some(shard) = self.shard else { return };
        if let Some(done) = self.done.get(&id).cloned() {
            self.send(from, Body::Output { id, shard, done: Box::new(done) });
        } else {
            let askers = self.pulls.entry(id).or_default();
            if !askers.contains(&from) {
                askers.push(from);
            }
        }
    }

    /// Asks for values that have not come for long: their giver may have failed.
    pub(super) fn ask_for_values(&mut self) {
        let retry = self.config.retry_after;
        let mut asks = Vec::new();
        for (id, waiting) in &mut self.waiting {
            if self.now.since(waiting.since) < retry {
                continue;
            }
            waiting.since = self.now;
            let known = self.given.get(id);
            let missing = |var| known.is_none_or(|given| given.get(var).is_none());
            for piece in &waiting.txn.pieces {
                if piece.gives.iter().any(|var| missing(*var)) && Some(piece.shard) != self.shard {
                    asks.push((*id, piece.shard));
                }
            }
        }
        for (id, shard) in asks {
            let replicas = self.config.layout.replicas_of(shard);
            self.send_all(replicas, &Body::PullValues { id });
        }
    }

    /// What has not run wholly, for a replica that comes back.
    pub(super) fn pending(&self) -> Vec<Pending> {
        let mut all = Vec::new();
        let of = |kind: Kind| match kind {
            Kind::Irt(coordinator) => Some((coordinator, None, coordinator)),
            Kind::Crt(attempt, leader) => Some((attempt.coordinator, Some(attempt), leader)),
            Kind::Read(_) => None,
        };
        for (id, waiting) in &self.waiting {
            let Some((coordinator, crt, leader)) = of(waiting.kind) else { continue };
            all.push(Pending {
                txn: waiting.txn.clone(),
                ts: waiting.ts,
                coordinator,
                crt,
                leader,
                certain: true,
                begun: true,
                results: waiting.results.clone(),
                given: self.given.get(id).cloned().unwrap_or_default(),
                aborted: waiting.aborted,
            });
        }
        for (&(ts, id), queued) in self.queue.iter() {
            let Some((coordinator, crt, leader)) = of(queued.kind) else { continue };
            all.push(Pending {
                txn: queued.txn.clone(),
                ts,
                coordinator,
                crt,
                leader,
                certain: queued.certain,
                begun: false,
                results: Vec::new(),
                given: self.given.get(&id).cloned().unwrap_or_default(),
                aborted: false,
            });
        }
        all.sort_by_key(|pending| (!pending.begun, pending.ts, pending.txn.id));
        all
    }

    /// Takes over what another replica had not run wholly; those that had begun come first, in
    /// order.
    pub(super) fn adopt(&mut self, pending: &Pending) {
        let Some(shard) = self.shard else { return };
        let id = pending.txn.id;
        for (var, value) in pending.given.iter() {
            self.given.entry(id).or_default().set(*var, value.clone());
        }
        let kind = match pending.crt {
            Some(attempt) => Kind::Crt(attempt, pending.leader),
            None => Kind::Irt(pending.coordinator),
        };
        if pending.begun {
            if self.waiting.contains_key(&id) || self.done.contains_key(&id) {
                return;
            }
            let mut waiting = Waiting::bare(pending.txn.clone(), pending.ts, kind, self.now);
            waiting.results = pending.results.clone();
            waiting.aborted = pending.aborted;
            self.waiting.insert(id, waiting);
            self.queue.remove(&(pending.ts, id));
            self.advance(id);
            return;
        }
        // This node may have heard the commit before the giver did.
        let decided = pending.crt.and_then(|attempt| self.crts.get(&attempt)?.f);
        let (ts, certain) = (decided.unwrap_or(pending.ts), pending.certain || decided.is_some());
        let queued = Queued { txn: pending.txn.clone(), shard, kind, certain };
        self.queue.entry((ts, id)).or_insert(queued).certain |= certain;
    }
}
