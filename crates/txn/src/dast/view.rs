//! Who is in, what a new view asks of its members, and how a replica comes back `[dast 2.9]`.

use super::Dast;
use super::message::{Body, CrtState, Frozen, IrtState, Message, Record, Snapshot};
use super::replica::Crt;
use crate::layout::{Layout, Region};
use crate::store::Store;
use crate::txn::{Shard, Ts, TxnId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;

/// A replica in one of its lives. One that lost what it had in memory, or gave it up, is another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Member {
    /// Who.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::node"))]
    pub node: Node,
    /// In which of its lives, counted from 1.
    pub life: u64,
}

/// A view that is in force, or may be.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Before {
    /// Its number.
    pub number: u64,
    /// Who was in.
    pub members: Vec<Member>,
}

/// A region's view: who leads, and which replicas are in. Its stewards choose it by majority.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct View {
    /// Counts views of the region from 1.
    pub number: u64,
    /// The steward that leads.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::node"))]
    pub steward: Node,
    /// Replicas that are in, in order.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::nodes"))]
    pub live: Vec<Node>,
    /// The life of each of these.
    pub lives: Vec<u64>,
    /// Views one of which may be in force until this one is. What was answered is in the memory of
    /// their members, so this one has enough of each (`holds_what`).
    pub before: Vec<Before>,
    /// Of each node the last life that was in a view and is not in one that is in force: whatever
    /// it had is no longer of use.
    pub over: Vec<Member>,
}

impl View {
    /// The view of the start: everybody is in.
    pub fn first(layout: &Layout, region: Region) -> View {
        let steward = layout.stewards_of(region).next().unwrap_or(Node(0));
        let live: Vec<Node> = layout.replicas_in(region).collect();
        let lives = live.iter().map(|_| 1).collect();
        View { number: 1, steward, live, lives, before: Vec::new(), over: Vec::new() }
    }

    /// The life in which `node` is in, if it is.
    pub fn life_of(&self, node: Node) -> Option<u64> {
        let place = self.live.binary_search(&node).ok()?;
        self.lives.get(place).copied()
    }

    /// This life of this node is in.
    pub fn has(&self, member: Member) -> bool {
        self.life_of(member.node) == Some(member.life)
    }

    /// This life, or a later one of the node, is known to be over.
    pub fn is_over(&self, member: Member) -> bool {
        self.over.iter().any(|over| over.node == member.node && over.life >= member.life)
    }

    pub(super) fn end_life(&mut self, member: Member) {
        match self.over.iter_mut().find(|over| over.node == member.node) {
            Some(over) => over.life = over.life.max(member.life),
            None => self.over.push(member),
        }
    }

    /// Who is in.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.live.iter().zip(&self.lives).map(|(node, life)| Member { node: *node, life: *life })
    }

    pub(super) fn remove(&mut self, node: Node) {
        if let Ok(place) = self.live.binary_search(&node) {
            self.live.remove(place);
            self.lives.remove(place);
        }
    }

    pub(super) fn add(&mut self, member: Member) {
        if let Err(place) = self.live.binary_search(&member.node) {
            self.live.insert(place, member.node);
            self.lives.insert(place, member.life);
        }
    }

    /// The members' memories together hold whatever may have been answered in any of these views.
    /// An entry is stable when a majority of its shard's replicas have it, so so many of those who
    /// were in must be in still that one of them is among any such majority; and one of them must
    /// be among `ready`, those known to have the shard's rows.
    pub(super) fn holds_what(
        &self,
        before: &[Before],
        layout: &Layout,
        ready: &BTreeSet<Member>,
    ) -> bool {
        before.iter().all(|view| {
            let mut shards: BTreeMap<Option<Shard>, (u32, u32, bool)> = BTreeMap::new();
            for member in &view.members {
                let (all, left, rows) = shards.entry(layout.shard_of(member.node)).or_default();
                *all += 1;
                if self.has(*member) {
                    *left += 1;
                    *rows |= ready.contains(member);
                }
            }
            shards.values().all(|(all, left, rows)| *rows && left + layout.majority() > *all)
        })
    }
}

/// How much of a node there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// It has no state, or one that no longer counts, and asks to be let in.
    Out,
    /// It is in, and waits for its state.
    Joining,
    /// It has its state.
    Ready,
}

/// What a node knows of a replica of its region.
pub(super) struct Peer {
    /// It will coordinate nothing at or below this.
    pub clock: Ts,
    /// It said this while the view was changing. What it had sent before to those who were out of a
    /// view that never was in force comes with the view.
    pub clock_in_change: Ts,
    /// Its IRTs below this are stable.
    pub stable: Ts,
    /// Its IRTs below this are at every replica that they touch.
    pub held: Ts,
    /// Nothing runs above its clock.
    pub waited_for: bool,
    /// It is in the view: what `live` of the view says, where each message can see it.
    pub live: bool,
    /// The view in which it came in: what it said before is of another life, or was not heard by
    /// all.
    pub since: u64,
    /// The last view in which it spoke.
    pub heard_in: u64,
    /// Its IRTs that are not known to be everywhere.
    pub recent: BTreeMap<Ts, IrtState>,
}

impl Peer {
    pub fn new() -> Peer {
        Peer {
            clock: Ts::ZERO,
            clock_in_change: Ts::ZERO,
            stable: Ts::ZERO,
            held: Ts::ZERO,
            waited_for: true,
            live: true,
            since: 1,
            heard_in: 1,
            recent: BTreeMap::new(),
        }
    }
}

impl Dast {
    pub(super) fn peer(&self, node: Node) -> Option<&Peer> {
        self.peers.get(node.0.wrapping_sub(self.first_peer) as usize)
    }

    pub(super) fn peer_mut(&mut self, node: Node) -> Option<&mut Peer> {
        self.peers.get_mut(node.0.wrapping_sub(self.first_peer) as usize)
    }

    /// In the view of this region; nodes of other regions are taken to be alive.
    pub(super) fn is_live(&self, node: Node) -> bool {
        self.peer(node).is_none_or(|peer| peer.live)
    }

    pub(super) fn set_everyone(&mut self) {
        self.everyone.clear();
        self.everyone.extend_from_slice(&self.view.live);
        self.everyone.extend(self.config.layout.stewards_of(self.region));
        for (at, peer) in (self.first_peer..).zip(&mut self.peers) {
            peer.live = self.view.live.binary_search(&Node(at)).is_ok();
        }
    }

    /// A message of the region is heard: it comes from a member, of this life.
    pub(super) fn admits(&mut self, from: Node, message: &Message) -> bool {
        let number = message.view;
        if self.peer(from).is_none() {
            let outside = self.status == Status::Out;
            return !outside
                || matches!(
                    message.body,
                    Body::Freeze { .. } | Body::Install { .. } | Body::Outside { .. }
                );
        }
        if self.steward.is_some() {
            if !self.is_live(from) && !matches!(message.body, Body::Join { .. }) {
                if matches!(message.body, Body::Report { .. }) {
                    self.steward_heard(from);
                }
                let view = self.view.number;
                // Until a view is in force, those who are not in it may still be needed.
                if self.leads_in_force() && number < view {
                    self.send(from, Body::Outside { number: view });
                }
                return false;
            }
            return true;
        }
        if self.status == Status::Out || !self.is_live(from) {
            return false;
        }
        let Some(peer) = self.peer_mut(from) else { return false };
        peer.heard_in = peer.heard_in.max(number);
        let admitted = number >= peer.since;
        if !self.joining.is_empty() {
            self.give_state();
        }
        admitted
    }

    /// A channel broke. In a region that means that the other end has lost its memory, or was away
    /// for long: it is as good as failed. Across regions whatever matters is asked for again.
    pub(super) fn broken(&mut self, peer: Node) {
        if self.config.layout.region_of_node(peer) == self.region {
            if self.steward.is_some() {
                self.steward_lost(peer);
            } else if self.config.bugs.ignore_broken {
                // M14.
            } else if self.status == Status::Ready {
                self.tell_lost(peer);
            } else if self.status == Status::Joining && self.peer(peer).is_some() {
                // What it was to be given may be lost, and it has nothing to lose.
                self.leave();
            }
        } else if self.steward.is_none() {
            let ids: Vec<TxnId> = self.coords.keys().copied().collect();
            for id in ids {
                if let Some(coord) = self.coords.get_mut(&id) {
                    coord.retry_at = coord.retry_at.min(self.now);
                }
            }
            for waiting in self.waiting.values_mut() {
                waiting.since = cavy_core::Instant::ZERO;
            }
        }
    }

    /// What went to or came from `peer` may be lost, and no view has come between: the steward
    /// that leads must take it out, so that what is missing is found by all together. Two that lost
    /// each other both say so, and one of them stays.
    fn tell_lost(&mut self, peer: Node) {
        if let Some(life) = self.view.life_of(peer)
            && peer != self.me
        {
            self.lost.insert(Member { node: peer, life });
        }
        self.complain();
    }

    /// Says again whom it has lost, until they are out.
    pub(super) fn complain(&mut self) {
        let view = &self.view;
        self.lost.retain(|member| view.has(*member));
        let (steward, lost) = (self.view.steward, self.lost.clone());
        for member in lost {
            self.send(steward, Body::Lost { member });
        }
    }

    /// A new view begins: this node says what others must know before it is in force.
    pub(super) fn freeze(&mut self, from: Node, view: View) {
        if self.steward.is_some() || view.number < self.view.number {
            return;
        }
        // Not in it, or not in this life: this node has nothing to say. It keeps what it has until
        // it is told that the view is in force.
        if view.life_of(self.me) != Some(self.life) {
            return;
        }
        if view.number > self.view.number {
            if self.status == Status::Out {
                self.status = Status::Joining;
            }
            let added = view.members().filter(|member| !self.view.has(*member));
            let added: Vec<Member> = added.collect();
            self.stewards[usize::from(self.region.0)] = view.steward;
            self.froze = self.view.number;
            self.view = view;
            for Member { node, .. } in added {
                self.orphan_decisions(node);
                let number = self.view.number;
                let Some(peer) = self.peer_mut(node) else { continue };
                peer.since = number;
                // One that was put back as it was has its state, and will say so.
                if node != self.me {
                    self.joining.insert(node);
                }
            }
            self.set_everyone();
            self.installed = false;
        }
        let frozen = Frozen {
            number: self.view.number,
            clock: self
                .peers
                .iter()
                .map(|peer| peer.clock)
                .max()
                .unwrap_or_default()
                .max(self.peek_ts()),
            promise: self.promise,
            anticipated: self.anticipated,
            force: self.in_force,
            froze: self.froze,
            has_rows: self.status == Status::Ready || self.has_rows,
            orphans: self.orphans(),
            crts: self.crt_states(),
        };
        self.send(from, Body::Thaw(Arc::new(frozen)));
    }

    /// IRTs of those who are out and still waited for, and this node's own that are not everywhere:
    /// whoever had one beside it may be out.
    fn orphans(&self) -> Vec<IrtState> {
        let peers = self.peers.iter().enumerate();
        let out = peers.filter(|(index, peer)| {
            let node = Node(self.first_peer + *index as u32);
            node == self.me || peer.waited_for && !self.is_live(node)
        });
        out.flat_map(|(_, peer)| peer.recent.values().cloned()).collect()
    }

    fn crt_states(&self) -> Vec<CrtState> {
        let all = self.crts.iter().map(|(attempt, crt)| CrtState {
            attempt: *attempt,
            a: crt.a,
            f: crt.f,
            txn: crt.txn.clone(),
        });
        all.collect()
    }

    /// The view is in force.
    pub(super) fn install(&mut self, number: u64, orphans: &[IrtState], floor: Ts) {
        if self.steward.is_some() || number != self.view.number || self.status == Status::Out {
            return;
        }
        for orphan in orphans {
            let certain = !self.is_live(orphan.coordinator);
            self.store_irt(orphan.coordinator, &orphan.txn, orphan.ts, certain);
        }
        let first = self.first_peer;
        let live = self.view.live.clone();
        for (index, peer) in self.peers.iter_mut().enumerate() {
            peer.waited_for = live.binary_search(&Node(first + index as u32)).is_ok();
            peer.clock = peer.clock.max(core::mem::take(&mut peer.clock_in_change));
            if !peer.waited_for {
                peer.recent.clear();
            }
        }
        self.be_certain_of_orphans();
        // What a node that is out coordinated and nobody has: nobody was answered.
        if self.status == Status::Joining {
            self.clock.passed(floor);
            self.clock.learn(self.wall, floor, self.config.jump_max);
            let own = self.shard;
            let others = own.into_iter().flat_map(|shard| self.config.layout.replicas_of(shard));
            let me = self.me;
            self.givers = others.filter(|node| *node != me && self.is_live(*node)).collect();
        }
        self.joining.retain(|node| live.binary_search(node).is_ok());
        self.given_to_nobody();
        let irts: Vec<TxnId> = self.unheld.iter().map(|(_, id)| *id).collect();
        for id in irts {
            self.tell_again(id);
            self.settle_irt(id);
        }
        let ids: Vec<TxnId> = self.coords.keys().copied().collect();
        for id in ids {
            let Some(coord) = self.coords.get(&id) else { continue };
            let missing = coord.txn.shards().iter().filter(|s| !coord.outputs.contains_key(s));
            let missing: Vec<Shard> = missing.copied().collect();
            self.pull(id, &missing);
        }
        let steward = self.view.steward;
        self.new_steward(steward);
        self.installed = true;
        self.in_force = number;
        if self.status == Status::Ready {
            self.cast(Body::Ready { life: self.life });
        }
        self.give_state();
        for (from, snapshot) in core::mem::take(&mut self.snapshots) {
            self.take_snapshot(from, &snapshot);
        }
    }

    /// What those who are out have coordinated and is here now will be run by all: it was among the
    /// orphans, or every replica had it before. One that came in with a snapshot was not told that
    /// it is stable, and nobody is left to tell it.
    fn be_certain_of_orphans(&mut self) {
        let (live, first) = (&self.view.live, self.first_peer);
        let peers = self.peers.len() as u32;
        for queued in self.queue.values_mut() {
            if let super::replica::Kind::Irt(coordinator) = queued.kind
                && (first..first + peers).contains(&coordinator.0)
                && live.binary_search(&coordinator).is_err()
            {
                queued.certain = true;
            }
        }
    }

    /// Every IRT that is not known to be everywhere goes to those who have not said that they have
    /// it: they may have come in, or have heard nothing of this node for a while.
    fn tell_again(&mut self, id: TxnId) {
        let layout = self.config.layout;
        let Some(coord) = self.coords.get(&id) else { return };
        let super::crt::CoordKind::Irt(irt) = &coord.kind else { return };
        let (txn, ts, stable) = (coord.txn.clone(), irt.ts, irt.stable);
        let mut lacking = Vec::new();
        for (shard, mask) in &irt.acks {
            let has = |node: Node| mask >> layout.index_of(node) & 1 == 1;
            let live = layout.replicas_of(*shard).filter(|node| self.is_live(*node));
            lacking.extend(live.filter(|n| self.joining.contains(n) || !has(*n)));
        }
        for node in lacking {
            if node != self.me {
                self.send(node, Body::PrepareIrt { txn: txn.clone(), ts });
                if stable {
                    self.send(node, Body::Stable { id, ts });
                }
            }
        }
    }

    fn given_to_nobody(&mut self) {
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
                let rows = || self.store.rows().map(|(key, row)| (*key, row.clone())).collect();
                let snapshot = Snapshot {
                    number,
                    rows: whole.then(rows),
                    done: self.done.iter().map(|(id, done)| (*id, done.clone())).collect(),
                    pending: self.pending(),
                    crts: self.crt_states(),
                    holds: self.clock.held_by().collect(),
                    decisions: self.decisions.iter().map(|(a, s)| (*a, *s)).collect(),
                    given_away: self.given_away.iter().map(|(id, g)| (*id, g.clone())).collect(),
                    high: self.high,
                };
                self.send(node, Body::Snapshot(Arc::new(snapshot)));
            }
        }
    }

    /// Two of a shard that come in together would wait for each other: one that has lost its memory
    /// says that it has nothing to give.
    fn give_nothing(&mut self, shard: crate::txn::Shard, number: u64) {
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
            || !self.givers.remove(&from)
        {
            return;
        }
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
                let known = Crt { a: crt.a, f: crt.f, txn: crt.txn.clone(), waits: false, begun };
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
            if self.config.history {
                let note = crate::client::Note::Copied { from };
                let effect = cavy_core::family::message::Effect::Note(note);
                self.out.push_back(cavy_core::Out::Effect(effect));
            }
            self.has_rows = true;
        }
        if self.givers.is_empty() && self.has_rows {
            self.status = Status::Ready;
            self.cast(Body::Ready { life: self.life });
            self.take_up_waiting();
            self.begin_held();
        }
    }

    /// The region goes on without this node: what it has no longer counts.
    pub(super) fn outside(&mut self, number: u64) {
        if self.steward.is_some() || number <= self.view.number && self.status == Status::Out {
            return;
        }
        if number < self.view.number {
            return;
        }
        self.view.number = number;
        self.leave();
    }

    /// Gives up what it has, to be let in again as another.
    fn leave(&mut self) {
        self.lose_state();
        self.given_up += 1;
        self.begin_life(self.life + 1);
        self.send_join();
    }

    /// From the record on, whatever was known of this node in an earlier life counts no longer.
    fn begin_life(&mut self, life: u64) {
        self.life = life;
        self.life_entry = self.record(Record::Born);
    }

    /// Asks to be let in. Not before the log knows of this life: it is never lived again.
    pub(super) fn send_join(&mut self) {
        if self.stored < self.life_entry {
            return;
        }
        let stewards: Vec<Node> = self.config.layout.stewards_of(self.region).collect();
        let (life, given_up) = (self.life, self.given_up);
        self.send_all(stewards, &Body::Join { life, given_up });
    }

    /// Everything but what the disk has and who it is.
    fn lose_state(&mut self) {
        self.status = Status::Out;
        self.installed = false;
        (self.in_force, self.froze) = (0, 0);
        self.lost.clear();
        self.snapshots.clear();
        self.has_rows = false;
        for peer in &mut self.peers {
            *peer = Peer::new();
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

    pub(super) fn replay(&mut self, record: Record) {
        self.born = true;
        match record {
            Record::Born => self.lives_read += 1,
            Record::Vote { promised, accepted, chosen } => {
                self.steward_replays(promised, accepted.map(|accepted| *accepted), *chosen);
            }
        }
    }

    /// It has lived before, so what it had in memory is lost.
    pub(super) fn recovered(&mut self) {
        if self.steward.is_some() {
            self.steward_recovers();
        } else {
            self.status = Status::Out;
            (self.in_force, self.froze) = (0, 0);
            // A log that is lost does not say how many there were; each was longer than a
            // millisecond.
            let ms = self.wall.as_ns() / 1_000_000;
            self.begin_life(if self.lives_read > 0 { self.lives_read + 1 } else { ms.max(1) + 1 });
        }
    }
}
