//! All that a replica has: given to one that comes back, kept in the log, lost.

use super::message::{Body, CrtState, PeerState, Record, Snapshot, State};
use super::replica::Crt;
use super::view::{Peer, Status};
use super::{Dast, Out};
use crate::client::Note;
use crate::store::Store;
use crate::txn::{Shard, Ts};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Message as _};

/// About what a row takes in the log.
const ROW_BYTES: u64 = 80;
/// More than this is not copied while others wait: it takes some 50 ms.
const COPIED_BYTES: u64 = 16 << 20;

impl Dast {
    pub(super) fn crt_states(&self) -> Vec<CrtState> {
        let all = self.crts.iter().map(|(attempt, crt)| CrtState {
            attempt: *attempt,
            a: crt.a,
            f: crt.f,
            txn: crt.txn.clone(),
            waits: crt.waits,
        });
        all.collect()
    }

    pub(super) fn given_to_nobody(&mut self) {
        self.givers.remove(&self.me);
        self.state_given.clear();
    }

    /// Gives this replica's state to those of its shard that have come in, once nothing that was
    /// sent before they were known can still be on its way: all others have spoken in this view.
    pub(super) fn give_state(&mut self) {
        let Some(shard) = self.shard else { return };
        let number = self.view.number;
        if self.status == Status::Joining && !self.has_rows {
            self.give_nothing(shard, number);
            return;
        }
        if self.status != Status::Ready || self.joining.is_empty() {
            return;
        }
        let installed = self.peers.iter().enumerate().all(|(index, peer)| {
            let node = Node(self.first_peer + index as u32);
            let skip = node == self.me || self.joining.contains(&node) || !self.is_live(node);
            skip || (peer.heard_in >= number && peer.waited_for)
        });
        if !installed {
            return;
        }
        let mut replicas = self.config.layout.replicas_of(shard);
        let first = replicas.find(|n| self.is_live(*n) && !self.joining.contains(n));
        let whole = first == Some(self.me);
        let joining: Vec<Node> = self.joining.iter().copied().collect();
        for node in joining {
            if self.config.layout.shard_of(node) == Some(shard) && self.state_given.insert(node) {
                let snapshot = self.state(number, whole);
                self.send(node, Body::Snapshot(Arc::new(snapshot)));
            }
        }
    }

    /// Two of a shard that come in together would wait for each other: one that has lost its memory
    /// says that it has nothing to give.
    fn give_nothing(&mut self, shard: Shard, number: u64) {
        let peers: Vec<Node> = self.config.layout.replicas_of(shard).collect();
        for node in peers {
            if node != self.me && self.is_live(node) && self.state_given.insert(node) {
                let snapshot = Snapshot {
                    number,
                    rows: None,
                    done: Vec::new(),
                    pending: Vec::new(),
                    crts: Vec::new(),
                    holds: Vec::new(),
                    decisions: Vec::new(),
                    given_away: Vec::new(),
                    high: Ts::ZERO,
                };
                self.send(node, Body::Snapshot(Arc::new(snapshot)));
            }
        }
    }

    pub(super) fn take_snapshot(&mut self, from: Node, snapshot: &Arc<Snapshot>) {
        // A giver may hear sooner than this node that the view is in force.
        let early = snapshot.number == self.view.number && !self.installed;
        if self.status == Status::Joining && (early || snapshot.number > self.view.number) {
            self.snapshots.push((from, snapshot.clone()));
            return;
        }
        if self.status != Status::Joining
            || snapshot.number != self.view.number
            || !self.givers.contains(&from)
        {
            return;
        }
        self.remember(from, || Body::Snapshot(snapshot.clone()));
        self.givers.remove(&from);
        self.load(from, snapshot);
        if self.givers.is_empty() && self.has_rows {
            self.status = Status::Ready;
            self.cast_when_stored(Body::Ready { life: self.life });
            self.take_up_waiting();
            self.begin_held();
        }
    }

    /// What this replica has, with its rows if `whole`.
    fn state(&self, number: u64, whole: bool) -> Snapshot {
        let rows = || self.store.rows().map(|(key, row)| (*key, row.clone())).collect();
        Snapshot {
            number,
            rows: whole.then(rows),
            done: self.done.iter().map(|(id, done)| (*id, done.clone())).collect(),
            pending: self.pending(),
            crts: self.crt_states(),
            holds: self.clock.held_by().collect(),
            decisions: self.decisions.iter().map(|(a, s)| (*a, *s)).collect(),
            given_away: self.given_away.iter().map(|(id, g)| (*id, g.clone())).collect(),
            high: self.high,
        }
    }

    /// Takes over what another replica has, or this one had.
    fn load(&mut self, from: Node, snapshot: &Snapshot) {
        // Every giver's promises to coordinators count; the rest comes from one of them, whose
        // rows, results and entries belong together.
        for (attempt, state) in &snapshot.decisions {
            let own = self.decisions.entry(*attempt).or_default();
            own.promised = own.promised.max(state.promised);
            own.accepted = own.accepted.max(state.accepted);
            own.orphan |= state.orphan;
        }
        self.given_away.extend(snapshot.given_away.iter().cloned());
        if let Some(rows) = &snapshot.rows {
            let mut store = Store::new();
            for (key, row) in rows {
                store.set(*key, row.clone());
            }
            self.store = store;
            self.high = snapshot.high;
            self.clock.passed(snapshot.high);
            self.done = snapshot.done.iter().cloned().collect();
            self.done_order = snapshot.done.iter().map(|(id, done)| (done.at, *id)).collect();
            let high = self.high;
            self.queue.retain(|(ts, _), _| *ts > high);
            for (attempt, ts) in &snapshot.holds {
                if !self.gone.contains(attempt) && !self.crts.contains_key(attempt) {
                    self.clock.hold(*attempt, *ts);
                }
            }
            for crt in &snapshot.crts {
                if self.gone.contains(&crt.attempt) {
                    continue;
                }
                let begun = crt.f.is_some_and(|f| f <= high);
                let known =
                    Crt { a: crt.a, f: crt.f, txn: crt.txn.clone(), waits: crt.waits, begun };
                self.crts.entry(crt.attempt).or_insert(known);
            }
            for pending in &snapshot.pending {
                if pending.crt.is_none_or(|attempt| !self.gone.contains(&attempt)) {
                    self.adopt(pending);
                }
            }
            self.be_certain_of_orphans();
            let early: Vec<_> = self.early.iter().map(|(a, (f, w))| (*a, *f, *w)).collect();
            self.early.clear();
            let steward = self.view.steward;
            for (attempt, f, waits) in early {
                self.commit_crt(steward, attempt, f, waits);
            }
            self.has_rows = true;
            if self.config.history {
                let note = Effect::Note(Note::Copied { from });
                self.out.push_back(Out::Effect(note));
            }
        }
    }

    /// Puts everything into the log, so that what was before can go. A large state takes long to
    /// copy, and the others would take this node for failed: it is stored when the node starts.
    pub(super) fn checkpoint(&mut self) {
        let is_in = self.status == Status::Ready && self.installed;
        let starts = self.status == Status::Cold;
        let rows = ROW_BYTES * self.store.rows().len() as u64;
        let enough = self.log_bytes >= self.config.checkpoint_bytes.max(4 * self.state_bytes);
        if !enough || !starts && (!is_in || rows > COPIED_BYTES) {
            return;
        }
        let peers = self.peers.iter().map(|peer| PeerState {
            life: peer.life,
            since: peer.since,
            another_in: peer.another_in,
            waited_for: peer.waited_for,
            held: peer.held,
            recent: peer.recent.values().cloned().collect(),
        });
        let state = State {
            life: self.life,
            since: self.since,
            ready: is_in,
            view: self.view.clone(),
            in_force: self.in_force,
            froze: self.froze,
            passed_on: self.passed_on.clone(),
            clock: self.reservation.upto,
            settled: self.settled,
            peers: peers.collect(),
            early: self.early.iter().map(|(attempt, early)| (*attempt, *early)).collect(),
            gone: self.gone.iter().copied().collect(),
            given: self.given.iter().map(|(id, given)| (*id, given.clone())).collect(),
            snapshot: self.state(self.view.number, self.has_rows || is_in),
        };
        let record = Record::State(Box::new(state));
        self.state_bytes = record.wire_bytes();
        self.checkpoint = self.record(record);
        self.log_bytes = 0;
    }

    /// What it had when it stored everything.
    pub(super) fn restore(&mut self, state: State) {
        self.lose_state();
        (self.life, self.since) = (state.life, state.since);
        self.set_view(state.view);
        (self.in_force, self.froze) = (state.in_force, state.froze);
        (self.passed_on, self.settled) = (state.passed_on, state.settled);
        self.reservation.upto = self.reservation.upto.max(state.clock);
        for (peer, known) in self.peers.iter_mut().zip(state.peers.into_vec()) {
            let PeerState { life, since, another_in, waited_for, held, recent } = known;
            (peer.life, peer.since, peer.another_in) = (life, since, another_in);
            (peer.waited_for, peer.held) = (waited_for, held);
            peer.recent = recent.into_iter().map(|irt| (irt.ts, irt)).collect();
        }
        self.gone.extend(state.gone);
        self.status = if state.ready { Status::Ready } else { Status::Cold };
        self.installed = state.ready;
        self.load(self.me, &state.snapshot);
        self.early.extend(state.early);
        for (id, given) in state.given {
            self.given.entry(id).or_insert(given);
        }
    }

    /// Everything but what the disk has and who it is.
    pub(super) fn lose_state(&mut self) {
        self.status = Status::Out;
        self.installed = false;
        (self.in_force, self.froze) = (0, 0);
        self.passed_on = Arc::from([]);
        self.since = self.life;
        self.after_store.clear();
        self.lost.clear();
        self.snapshots.clear();
        self.has_rows = false;
        for peer in &mut self.peers {
            *peer = Peer { life: peer.life, ..Peer::new() };
        }
        self.joining = BTreeSet::new();
        self.givers = BTreeSet::new();
        self.state_given = BTreeSet::new();
        let held: Vec<_> = self.clock.held_by().map(|(attempt, _)| attempt).collect();
        for attempt in held {
            self.clock.let_go(attempt);
        }
        self.store = Store::new();
        self.promise = 0;
        self.anticipated = Ts::ZERO;
        self.high = Ts::ZERO;
        self.queue.clear();
        self.waiting.clear();
        self.claims.clear();
        self.given.clear();
        self.given_away.clear();
        self.done.clear();
        self.done_order.clear();
        self.pulls.clear();
        self.crts.clear();
        self.early.clear();
        self.gone.clear();
        self.decisions.clear();
        self.coords.clear();
        self.unstable.clear();
        self.unheld.clear();
        self.held.clear();
        self.local.clear();
    }
}
