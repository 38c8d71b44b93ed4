//! Transactions across regions: their coordinators, and the nodes that have part in them
//! `[dast 2.6, 2.9]`.

use super::Dast;
use super::message::{Attempt, Ballot, Body, Done};
use super::replica::{Crt, Kind, Queued};
use super::view::Status;
use crate::layout::Region;
use crate::txn::{Shard, Ts, Txn, TxnId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::Call;
use cavy_core::{Instant, Span};

/// Each life of a coordinator numbers its tries from a multiple of this.
const TRIES: u32 = 256;

/// A transaction that this node coordinates.
pub(super) struct Coord {
    pub txn: Arc<Txn>,
    pub calls: Vec<Call>,
    pub kind: CoordKind,
    pub outputs: BTreeMap<Shard, Done>,
    pub replied: bool,
    pub retry_at: Instant,
}

pub(super) enum CoordKind {
    Irt(IrtCoord),
    Crt(Box<CrtCoord>),
}

pub(super) struct IrtCoord {
    pub ts: Ts,
    /// Which replicas of each shard have it, a bit each.
    pub acks: BTreeMap<Shard, u32>,
    pub stable: bool,
}

pub(super) struct CrtCoord {
    pub attempt: Attempt,
    /// Which replicas of each shard have it, a bit each; and whether its leader is among them.
    pub acks: BTreeMap<Shard, (u32, bool)>,
    pub a: BTreeMap<Region, Ts>,
    /// The final timestamp, chosen.
    pub f: Option<Ts>,
    /// Replicas of the home shard that have stored the decision, a bit each.
    pub log: u32,
    /// The decision is stored, so it may be told.
    pub decided: bool,
    /// Regions that have not all heard the decision.
    pub left: BTreeSet<Region>,
    /// Somebody else decides: this node waits for what.
    pub stopped: bool,
    /// No attempt is under way before this time.
    pub resumes_at: Option<Instant>,
}

impl Coord {
    pub fn new(txn: Arc<Txn>, call: Call, kind: CoordKind, now: Instant, retry: Span) -> Coord {
        let outputs = BTreeMap::new();
        Coord { txn, calls: vec![call], kind, outputs, replied: false, retry_at: now + retry }
    }

    fn crt(&mut self, attempt: Attempt) -> Option<&mut CrtCoord> {
        match &mut self.kind {
            CoordKind::Crt(crt) if crt.attempt == attempt => Some(crt),
            _ => None,
        }
    }
}

impl Dast {
    pub(super) fn coordinate_crt(&mut self, call: Call, txn: Arc<Txn>) {
        let id = txn.id;
        // One that lived before may have tried this transaction, and does not know.
        let crt = self.new_attempt(&txn, TRIES.wrapping_mul((self.life as u32).wrapping_sub(1)));
        let kind = CoordKind::Crt(Box::new(crt));
        let coord = Coord::new(txn, call, kind, self.now, self.config.retry_after);
        self.coords.insert(id, coord);
        self.prepare_remote(id, None);
    }

    fn new_attempt(&self, txn: &Txn, round: u32) -> CrtCoord {
        CrtCoord {
            attempt: Attempt { id: txn.id, coordinator: self.me, round },
            acks: txn.shards().iter().map(|shard| (*shard, (0, false))).collect(),
            a: BTreeMap::new(),
            f: None,
            log: 0,
            decided: false,
            left: self.config.layout.regions_of(txn).collect(),
            stopped: false,
            resumes_at: None,
        }
    }

    /// Asks the stewards of regions that have not answered wholly; of `only` one, if given. A retry
    /// asks all three of a region: who leads may have changed.
    fn prepare_remote(&mut self, id: TxnId, only: Option<(Region, bool)>) {
        let layout = self.config.layout;
        let source = self.anticipation_base();
        let Some(coord) = self.coords.get(&id) else { return };
        let CoordKind::Crt(crt) = &coord.kind else { return };
        if crt.f.is_some() || crt.stopped {
            return;
        }
        let (txn, attempt) = (coord.txn.clone(), crt.attempt);
        let missing = |region: &Region| {
            crt.acks.iter().any(|(shard, (mask, leads))| {
                layout.region_of(*shard) == *region
                    && (mask.count_ones() < layout.majority() || !leads)
            })
        };
        let regions: Vec<Region> = layout.regions_of(&txn).filter(missing).collect();
        for region in regions {
            let retry = only.is_some_and(|(_, all)| all);
            if only.is_some_and(|(one, all)| !all && one != region) {
                continue;
            }
            let body = Body::PrepareRemote { txn: txn.clone(), attempt, source };
            self.tell_stewards(region, retry, &body);
        }
    }

    /// To whoever leads `region` as far as this node knows, or to all of its stewards.
    pub(super) fn tell_stewards(&mut self, region: Region, all: bool, body: &Body) {
        if all {
            let stewards = self.config.layout.stewards_of(region);
            self.send_all(stewards, body);
        } else {
            let steward = self.stewards[usize::from(region.0)];
            self.send(steward, body.clone());
        }
    }

    pub(super) fn crt_ack(
        &mut self,
        from: Node,
        attempt: Attempt,
        shard: Shard,
        a: Ts,
        leads: bool,
    ) {
        let layout = self.config.layout;
        let (majority, least) = (layout.majority(), self.config.bugs.least_timestamp);
        let logs = self.config.decision_log;
        let Some(coord) = self.coords.get_mut(&attempt.id) else { return };
        let Some(crt) = coord.crt(attempt) else { return };
        if crt.f.is_some() || crt.stopped || crt.resumes_at.is_some() {
            return;
        }
        if let Some((mask, led)) = crt.acks.get_mut(&shard) {
            *mask |= 1 << layout.index_of(from);
            *led |= leads;
        }
        let known = crt.a.entry(layout.region_of(shard)).or_insert(a);
        *known = (*known).max(a);
        let all = crt.acks.values().all(|(mask, leads)| mask.count_ones() >= majority && *leads);
        if !all {
            return;
        }
        let (most, fewest) = (crt.a.values().max().copied(), crt.a.values().min().copied());
        let Some(f) = (if least { fewest } else { most }) else { return };
        crt.f = Some(f);
        if !logs {
            crt.decided = true;
            self.tell_decision(attempt.id, false);
            return;
        }
        self.propose_decision(attempt.id);
    }

    /// Has the home shard store the decision: this replica, and the others.
    fn propose_decision(&mut self, id: TxnId) {
        let layout = self.config.layout;
        let Some(shard) = self.shard else { return };
        let Some(coord) = self.coords.get(&id) else { return };
        let CoordKind::Crt(crt) = &coord.kind else { return };
        let (attempt, value) = (crt.attempt, crt.f);
        self.decide(self.me, attempt, Ballot::FIRST, value);
        let replicas: Vec<Node> = layout.replicas_of(shard).filter(|n| *n != self.me).collect();
        self.send_all(replicas, &Body::Decide { attempt, ballot: Ballot::FIRST, value });
    }

    /// An acceptor of the home shard.
    pub(super) fn decide(
        &mut self,
        from: Node,
        attempt: Attempt,
        ballot: Ballot,
        value: Option<Ts>,
    ) {
        if self.status != Status::Ready {
            return;
        }
        let acceptor = self.decisions.entry(attempt).or_default();
        let accepted = ballot >= acceptor.promised;
        if accepted {
            acceptor.promised = ballot;
            acceptor.accepted = Some((ballot, value));
            self.remember(from, || Body::Decide { attempt, ballot, value });
        }
        self.say_when_stored(from, Body::Decided { attempt, ballot, accepted });
    }

    pub(super) fn ask_decision(&mut self, from: Node, attempt: Attempt, ballot: Ballot) {
        if self.status != Status::Ready {
            return;
        }
        let acceptor = self.decisions.entry(attempt).or_default();
        let promises = ballot > acceptor.promised;
        acceptor.promised = acceptor.promised.max(ballot);
        if acceptor.promised == ballot {
            let state = Box::new(*acceptor);
            if promises {
                self.remember(from, || Body::AskDecision { attempt, ballot });
            }
            self.say_when_stored(from, Body::TellDecision { attempt, ballot, state });
        }
    }

    pub(super) fn decided(&mut self, from: Node, attempt: Attempt, ballot: Ballot, accepted: bool) {
        let layout = self.config.layout;
        if self.steward.is_some() {
            self.steward_hears(from, Body::Decided { attempt, ballot, accepted });
            return;
        }
        let Some(coord) = self.coords.get_mut(&attempt.id) else { return };
        let Some(crt) = coord.crt(attempt) else { return };
        if !accepted {
            crt.stopped = !crt.decided;
            return;
        }
        crt.log |= 1 << layout.index_of(from);
        if crt.log.count_ones() >= layout.majority() && !crt.decided {
            crt.decided = true;
            self.tell_decision(attempt.id, false);
        }
    }

    /// Tells every region the decision, or those that have not said that all their replicas have
    /// it.
    fn tell_decision(&mut self, id: TxnId, again: bool) {
        let layout = self.config.layout;
        let Some(coord) = self.coords.get(&id) else { return };
        let CoordKind::Crt(crt) = &coord.kind else { return };
        let (Some(f), attempt, txn) = (crt.f, crt.attempt, coord.txn.clone()) else { return };
        let left: Vec<Region> = crt.left.iter().copied().collect();
        for region in left {
            self.tell_stewards(region, again, &Body::Commit { attempt, f });
            if !self.config.commit_via_steward {
                let waits = self.waits_in(&txn, region);
                let shards = txn.shards().iter().filter(|s| layout.region_of(**s) == region);
                let all: Vec<Node> = shards.flat_map(|s| layout.replicas_of(*s)).collect();
                self.send_all(all, &Body::CommitCrt { attempt, f, waits });
            }
        }
    }

    /// Some piece in `region` waits for a value, and clocks are held for that.
    pub(super) fn waits_in(&self, txn: &Txn, region: Region) -> bool {
        let layout = self.config.layout;
        let here = |shard: &&Shard| layout.region_of(**shard) == region;
        self.config.dependency_stretch && txn.shards().iter().filter(here).any(|s| txn.waits(*s))
    }

    pub(super) fn region_done(&mut self, from: Node, attempt: Attempt) {
        let region = self.config.layout.region_of_node(from);
        if let Some(coord) = self.coords.get_mut(&attempt.id)
            && let Some(crt) = coord.crt(attempt)
        {
            crt.left.remove(&region);
            self.drop_if_over(attempt.id);
        }
    }

    /// A replica has run past the timestamp, so the attempt cannot be: another one, a while later.
    pub(super) fn crt_nack(&mut self, attempt: Attempt) {
        let undecided = self
            .coords
            .get_mut(&attempt.id)
            .and_then(|coord| coord.crt(attempt))
            .is_some_and(|crt| crt.f.is_none() && !crt.stopped);
        if undecided {
            self.try_again(attempt);
        }
    }

    pub(super) fn outcome(&mut self, attempt: Attempt, value: Option<Ts>) {
        let Some(crt) = self.coords.get_mut(&attempt.id).and_then(|coord| coord.crt(attempt))
        else {
            return;
        };
        match value {
            Some(f) => {
                crt.f = Some(f);
                crt.decided = true;
            }
            // This coordinator has told the regions to commit already.
            None if crt.decided => {}
            None => self.try_again(attempt),
        }
    }

    fn try_again(&mut self, attempt: Attempt) {
        let layout = self.config.layout;
        let Some(coord) = self.coords.get(&attempt.id) else { return };
        let txn = coord.txn.clone();
        let regions: Vec<Region> = layout.regions_of(&txn).collect();
        for region in regions {
            self.tell_stewards(region, false, &Body::Abort { attempt });
        }
        let backoff = self.config.retry_after * (1 << (attempt.round % TRIES).min(3));
        let mut next = self.new_attempt(&txn, attempt.round + 1);
        next.resumes_at = Some(self.now + backoff);
        if let Some(coord) = self.coords.get_mut(&attempt.id) {
            coord.kind = CoordKind::Crt(Box::new(next));
            coord.retry_at = self.now + backoff;
        }
    }

    /// Asks again for whatever has not come for long.
    pub(super) fn ask_again(&mut self) {
        if self.status != Status::Ready {
            return;
        }
        let late = self.coords.iter().filter(|(_, coord)| coord.retry_at <= self.now);
        let late: Vec<TxnId> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.retry(id);
        }
        self.ask_for_values();
        self.tell_open();
    }

    fn retry(&mut self, id: TxnId) {
        let retry_after = self.config.retry_after;
        let now = self.now;
        let Some(coord) = self.coords.get_mut(&id) else { return };
        coord.retry_at = now + retry_after;
        let missing = coord.txn.shards().iter().filter(|s| !coord.outputs.contains_key(s));
        let missing: Vec<Shard> = missing.copied().collect();
        match &mut coord.kind {
            CoordKind::Irt(irt) => {
                if irt.stable {
                    self.pull(id, &missing);
                }
            }
            CoordKind::Crt(crt) if crt.stopped => {}
            CoordKind::Crt(crt) if crt.resumes_at.is_some() => {
                crt.resumes_at = None;
                self.prepare_remote(id, None);
            }
            CoordKind::Crt(crt) if crt.f.is_none() => {
                let region = Region(0);
                self.prepare_remote(id, Some((region, true)));
            }
            CoordKind::Crt(crt) if !crt.decided => self.propose_decision(id),
            CoordKind::Crt(_) => {
                if !self.config.bugs.commit_once {
                    self.tell_decision(id, true);
                }
                self.pull(id, &missing);
            }
        }
    }

    /// Asks every replica of shards for what they came to.
    pub(super) fn pull(&mut self, id: TxnId, shards: &[Shard]) {
        for shard in shards {
            let replicas: Vec<Node> = self.config.layout.replicas_of(*shard).collect();
            self.send_all(replicas, &Body::PullOutput { id });
        }
    }

    /// Another steward leads the region of `from`.
    pub(super) fn new_steward(&mut self, from: Node) {
        let region = self.config.layout.region_of_node(from);
        self.stewards[usize::from(region.0)] = from;
        let ids: Vec<TxnId> = self.coords.keys().copied().collect();
        for id in ids {
            let Some(coord) = self.coords.get(&id) else { continue };
            let CoordKind::Crt(crt) = &coord.kind else { continue };
            if crt.resumes_at.is_some() || !crt.left.contains(&region) {
                continue;
            }
            if crt.f.is_none() {
                self.prepare_remote(id, Some((region, false)));
            } else if crt.decided && !self.config.bugs.commit_once {
                let (attempt, f) = (crt.attempt, crt.f.unwrap_or(Ts::ZERO));
                self.send(from, Body::Commit { attempt, f });
            }
        }
    }

    // What nodes of a region do that a CRT touches.

    pub(super) fn prepare_crt(
        &mut self,
        from: Node,
        txn: Arc<Txn>,
        attempt: Attempt,
        a: Ts,
        leader: Node,
    ) {
        let Some(shard) = self.shard else { return };
        if from != self.view.steward || self.status == Status::Out || self.gone.contains(&attempt) {
            return;
        }
        self.anticipated = self.anticipated.max(a);
        let known = self.crts.get(&attempt).is_some_and(|crt| crt.txn.is_some());
        if known {
            let queued = self.queue.get_mut(&(a, attempt.id));
            if let Some(Queued { kind: Kind::Crt(own, led_by), .. }) = queued
                && *own == attempt
            {
                *led_by = leader;
            }
        } else {
            let bugs = self.config.bugs;
            let late = a <= self.high && !bugs.run_late;
            if late || (a.t <= self.promise && !bugs.no_promise) {
                self.send(attempt.coordinator, Body::CrtNack { attempt });
                return;
            }
            let told = || Body::PrepareCrt { txn: txn.clone(), attempt, a, leader };
            self.remember(from, told);
            let (f, waits, begun) = (None, false, false);
            self.crts.insert(attempt, Crt { a, f, txn: Some(txn.clone()), waits, begun });
            if self.config.stretch {
                self.clock.hold(attempt, a);
            }
            let kind = Kind::Crt(attempt, leader);
            self.queue.insert((a, attempt.id), Queued { txn, shard, kind, certain: false });
            if let Some((f, waits)) = self.early.remove(&attempt) {
                self.apply_commit(attempt, f, waits);
            }
        }
        let leads = leader == self.me;
        let a = self.crts.get(&attempt).map_or(a, |crt| crt.a);
        self.say_when_stored(attempt.coordinator, Body::CrtAck { attempt, shard, a, leads });
    }

    pub(super) fn note_crt(&mut self, attempt: Attempt, a: Ts) {
        if self.gone.contains(&attempt) || self.status == Status::Out {
            return;
        }
        self.anticipated = self.anticipated.max(a);
        let (f, txn, waits, begun) = (None, None, false, false);
        self.crts.entry(attempt).or_insert(Crt { a, f, txn, waits, begun });
        if self.config.stretch {
            self.clock.hold(attempt, a);
        }
    }

    pub(super) fn commit_crt(&mut self, from: Node, attempt: Attempt, f: Ts, waits: bool) {
        let known = self.crts.get(&attempt).filter(|crt| crt.txn.is_some());
        let prepared = known.is_some();
        let told = known.map_or_else(|| self.early.contains_key(&attempt), |crt| crt.f.is_some());
        if !told {
            self.remember(from, || Body::CommitCrt { attempt, f, waits });
        }
        if prepared {
            self.apply_commit(attempt, f, waits);
        } else if !self.config.bugs.drop_early_commit {
            self.early.insert(attempt, (f, waits));
        }
        if from == self.view.steward {
            self.say_when_stored(from, Body::CommitAck { attempt });
        }
    }

    fn apply_commit(&mut self, attempt: Attempt, f: Ts, waits: bool) {
        let Some(crt) = self.crts.get_mut(&attempt) else { return };
        if crt.f.is_some() {
            return;
        }
        let a = crt.a;
        (crt.f, crt.waits) = (Some(f), waits);
        if waits && self.config.stretch {
            self.clock.hold(attempt, f);
        } else {
            self.clock.let_go(attempt);
        }
        let Some(mut queued) = self.queue.remove(&(a, attempt.id)) else { return };
        queued.certain = true;
        self.queue.insert((f, attempt.id), queued);
        if waits {
            self.let_clocks_go(attempt.id);
        }
    }

    pub(super) fn release(&mut self, attempt: Attempt, hold: Option<Ts>) {
        match hold {
            Some(ts) if self.config.stretch => self.clock.hold(attempt, ts),
            _ => {
                if self.status == Status::Joining || self.clock.is_held_by(attempt) {
                    self.remember(self.view.steward, || Body::Release { attempt, hold });
                }
                self.clock.let_go(attempt);
                let noted = self.crts.get(&attempt).is_some_and(|crt| crt.txn.is_none());
                if noted {
                    self.crts.remove(&attempt);
                }
                if self.status == Status::Joining {
                    // The snapshot may still know it as pending.
                    self.gone.insert(attempt);
                }
            }
        }
    }

    pub(super) fn abort_crt(&mut self, attempt: Attempt) {
        if !self.gone.contains(&attempt) {
            self.remember(self.view.steward, || Body::AbortCrt { attempt });
        }
        self.clock.let_go(attempt);
        self.gone.insert(attempt);
        if let Some(crt) = self.crts.remove(&attempt)
            && crt.f.is_none()
            && self
                .queue
                .get(&(crt.a, attempt.id))
                .is_some_and(|queued| matches!(queued.kind, Kind::Crt(own, _) if own == attempt))
        {
            self.queue.remove(&(crt.a, attempt.id));
        }
    }

    pub(super) fn steward_report(&mut self, from: Node, promise: u64, settled: u64) {
        if self.steward.is_some() {
            self.lead_is_alive(from);
        }
        if from != self.view.steward {
            return;
        }
        self.promise = self.promise.max(promise);
        self.settle(settled);
        while self.gone.len() > 4_096 {
            self.gone.pop_first();
        }
    }

    /// All CRTs below `settled` are finished everywhere.
    pub(super) fn settle(&mut self, settled: u64) {
        self.settled = self.settled.max(settled);
        let clock = &self.clock;
        self.crts.retain(|attempt, crt| {
            // What runs before its values are here may hold the clock still.
            !(crt.begun && crt.a.t < settled) || clock.is_held_by(*attempt)
        });
    }

    /// Tells its shard now and then which of the decisions stored there somebody may still ask for.
    fn tell_open(&mut self) {
        let every = Span::from_ns(self.config.remember.as_ns() / 2);
        let Some(shard) = self.shard.filter(|_| self.now >= self.open_at) else { return };
        let first = self.open_at == Instant::ZERO;
        self.open_at = self.now + every;
        if first {
            return;
        }
        let open = self.coords.values().filter_map(|coord| match &coord.kind {
            CoordKind::Crt(crt) => Some(crt.attempt),
            CoordKind::Irt(_) => None,
        });
        let open: Box<[Attempt]> = open.collect();
        let replicas = self.config.layout.replicas_of(shard);
        self.send_all(replicas, &Body::Open { attempts: open });
        let (high, cut_max) = (self.high.t, self.config.cut_max.as_ns());
        self.given_away.retain(|_, (at, _)| high.saturating_sub(at.t) <= cut_max);
    }

    /// Forgets decisions that nobody can ask for any more. A region that was cut off may ask for
    /// one after any time, and would be told that nothing was decided: so it is the coordinator who
    /// says when every region has it, and decisions of one that failed stay for `cut_max`.
    pub(super) fn forget_decisions(&mut self, coordinator: Node, open: &[Attempt]) {
        let now = self.clock.physical(self.wall);
        let (remember, cut_max) = (self.config.remember, self.config.cut_max);
        let before = self.decisions.len();
        self.decisions.retain(|attempt, acceptor| {
            let long = if acceptor.orphan { cut_max } else { remember };
            let over =
                acceptor.orphan || attempt.coordinator == coordinator && !open.contains(attempt);
            // What was taken back is rare, and kept: a promise must not be forgotten either.
            let at = acceptor.accepted.and_then(|(_, f)| f).map_or(now, |f| f.t);
            !over || now.saturating_sub(at) <= long.as_ns()
        });
        if self.decisions.len() < before {
            self.remember(coordinator, || Body::Open { attempts: open.into() });
        }
    }

    /// Whoever begins a new life does not know what it coordinated before.
    pub(super) fn orphan_decisions(&mut self, of: Node) {
        for (attempt, acceptor) in &mut self.decisions {
            acceptor.orphan |= attempt.coordinator == of;
        }
    }
}
