//! Who is in, what a new view asks of its members, and how a replica comes back `[dast 2.9]`.

use super::Dast;
use super::message::{Body, Frozen, IrtState, Message};
use crate::layout::{Layout, Region};
use crate::txn::{Shard, Ts, TxnId};
use alloc::boxed::Box;
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

/// What a member had in memory when it came in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Brought {
    /// The first of its lives whose memory it has: its own, if it came with nothing.
    pub since: u64,
    /// The rows of its shard are part of that.
    pub rows: bool,
}

impl Brought {
    /// Nothing of any life before `life`.
    pub fn nothing(life: u64) -> Brought {
        Brought { since: life, rows: false }
    }
}

/// A view that is in force, or may be.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Before {
    /// Its number.
    pub number: u64,
    /// Who was in.
    pub members: Vec<Member>,
    /// And with what.
    pub brought: Vec<Brought>,
}

impl Before {
    pub(super) fn of(view: &View) -> Before {
        let members = view.members().collect();
        Before { number: view.number, members, brought: view.brought.clone() }
    }
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
    /// What each of these came in with.
    pub brought: Vec<Brought>,
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
        let brought = live.iter().map(|_| Brought { since: 1, rows: true }).collect();
        View { number: 1, steward, live, lives, brought, before: Vec::new(), over: Vec::new() }
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

    /// What `node` came in with, if it is in.
    pub fn brought_by(&self, node: Node) -> Option<Brought> {
        let place = self.live.binary_search(&node).ok()?;
        self.brought.get(place).copied()
    }

    /// The member that has what `member` had in memory: itself, or a later life of the node, which
    /// took that over from its log.
    pub fn keeper(&self, member: Member) -> Option<Member> {
        let life = self.life_of(member.node).filter(|life| *life >= member.life)?;
        let brought = self.brought_by(member.node)?;
        let keeps = life == member.life || brought.since <= member.life;
        keeps.then_some(Member { node: member.node, life })
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

    /// The same nodes in the same lives are in.
    pub(super) fn has_members_of(&self, other: &View) -> bool {
        self.live == other.live && self.lives == other.lives
    }

    /// Somebody is in who was not, or not in this life. What those have missed of CRTs is found as
    /// by a new steward.
    pub(super) fn brings_back(&self, from: &View) -> bool {
        self.members().any(|member| !from.has(member))
    }

    pub(super) fn remove(&mut self, node: Node) {
        if let Ok(place) = self.live.binary_search(&node) {
            self.live.remove(place);
            self.lives.remove(place);
            self.brought.remove(place);
        }
    }

    pub(super) fn add(&mut self, member: Member, brought: Brought) {
        if let Err(place) = self.live.binary_search(&member.node) {
            self.live.insert(place, member.node);
            self.lives.insert(place, member.life);
            self.brought.insert(place, brought);
        }
    }

    /// The same node in another life, which has what it had.
    pub(super) fn replace(&mut self, heir: Member, brought: Brought) {
        self.remove(heir.node);
        self.add(heir, brought);
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
                if let Some(keeper) = self.keeper(*member) {
                    *left += 1;
                    *rows |= ready.contains(&keeper);
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
    /// It has what its log gave back, in another life, and asks to be let in with that.
    Cold,
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
    /// The last of its lives that was in a view, and the view with which that one came in: it does
    /// not look after what an earlier one coordinated.
    pub life: u64,
    pub another_in: u64,
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
            life: 1,
            another_in: 0,
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

    pub(super) fn set_view(&mut self, view: View) {
        self.stewards[usize::from(self.region.0)] = view.steward;
        self.view = view;
        self.set_everyone();
    }

    /// A message of the region is heard: it comes from a member, of this life.
    pub(super) fn admits(&mut self, from: Node, message: &Message) -> bool {
        let number = message.view;
        if self.peer(from).is_none() {
            let outside = matches!(self.status, Status::Out | Status::Cold);
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
        if matches!(self.status, Status::Out | Status::Cold) || !self.is_live(from) {
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
                // What it was to be given may be lost.
                self.begin_again();
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
            self.remember(from, || Body::Freeze { view: Box::new(view.clone()) });
            if self.status == Status::Cold {
                self.bring_what_counts(&view);
            }
            if self.status != Status::Ready {
                self.status = Status::Joining;
            }
            let added = view.members().filter(|member| !self.view.has(*member));
            let added: Vec<(Member, Option<Brought>)> =
                added.map(|member| (member, view.brought_by(member.node))).collect();
            self.stewards[usize::from(self.region.0)] = view.steward;
            self.froze = self.view.number;
            self.view = view;
            for (Member { node, life }, brought) in added {
                self.orphan_decisions(node);
                let number = self.view.number;
                let Some(peer) = self.peer_mut(node) else { continue };
                peer.since = number;
                if peer.life != life {
                    (peer.life, peer.another_in) = (life, number);
                }
                let has_rows = brought.is_some_and(|own| own.rows && own.since < life);
                // One that was put back as it was has its state, and will say so.
                if node != self.me && !has_rows {
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
            passed_on: self.passed_on.clone(),
            crts: self.crt_states(),
        };
        self.say_when_stored(from, Body::Thaw(Arc::new(frozen)));
    }

    /// IRTs of those who are out and still waited for, or who are in with another life, and this
    /// node's own that are not everywhere: whoever had one beside it may be out.
    fn orphans(&self) -> Vec<IrtState> {
        let peers = self.peers.iter().enumerate();
        let out = peers.filter(|(index, peer)| {
            let node = Node(self.first_peer + *index as u32);
            let lost = !peer.live || peer.another_in > self.in_force;
            node == self.me || peer.waited_for && lost
        });
        out.flat_map(|(_, peer)| peer.recent.values().cloned()).collect()
    }

    /// The view is in force.
    pub(super) fn install(&mut self, number: u64, orphans: Arc<[IrtState]>, floor: Ts) {
        let outside = matches!(self.status, Status::Out | Status::Cold);
        if self.steward.is_some() || number != self.view.number || outside {
            return;
        }
        let body = || Body::Install { number, orphans: orphans.clone(), floor };
        self.remember(self.view.steward, body);
        for orphan in orphans.iter() {
            let certain = self.is_left_alone(orphan.coordinator);
            self.store_irt(orphan.coordinator, &orphan.txn, orphan.ts, certain);
        }
        let first = self.first_peer;
        let live = self.view.live.clone();
        for (index, peer) in self.peers.iter_mut().enumerate() {
            peer.waited_for = live.binary_search(&Node(first + index as u32)).is_ok();
            peer.clock = peer.clock.max(core::mem::take(&mut peer.clock_in_change));
            if !peer.waited_for || peer.another_in > self.in_force {
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
            if self.has_rows {
                // It came in with what its log gave back.
                self.givers.clear();
                self.status = Status::Ready;
                self.take_up_waiting();
            }
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
        self.passed_on = orphans;
        if self.status == Status::Ready {
            self.cast_when_stored(Body::Ready { life: self.life });
            self.begin_held();
        }
        self.give_state();
        for (from, snapshot) in core::mem::take(&mut self.snapshots) {
            self.take_snapshot(from, &snapshot);
        }
    }

    /// What those who are out have coordinated and is here now will be run by all: it was among the
    /// orphans, or every replica had it before. One that came in with a snapshot was not told that
    /// it is stable, and nobody is left to tell it.
    pub(super) fn be_certain_of_orphans(&mut self) {
        let (first, in_force) = (self.first_peer, self.in_force);
        let peers = &self.peers;
        for queued in self.queue.values_mut() {
            if let super::replica::Kind::Irt(coordinator) = queued.kind
                && let Some(peer) = peers.get(coordinator.0.wrapping_sub(first) as usize)
                && (!peer.live || peer.another_in > in_force)
            {
                queued.certain = true;
            }
        }
    }

    /// It comes in with what its log gave back, or with nothing: a view without this node may have
    /// been in force meanwhile, and then what it has is of no use.
    fn bring_what_counts(&mut self, view: &View) {
        let Some(brought) = view.brought_by(self.me) else { return };
        if brought.since != self.since {
            self.lose_state();
            self.since = brought.since;
        }
        // Whoever has its state already says so when the view is in force.
        let bare = view.live.iter().zip(&view.brought).filter(|(_, brought)| !brought.rows);
        let me = self.me;
        self.joining.extend(bare.map(|(node, _)| *node).filter(|node| *node != me));
    }

    /// It came into its view with what it had in an earlier life.
    pub(super) fn is_heir(&self) -> bool {
        self.view.brought_by(self.me).is_some_and(|own| own.since < self.life)
    }

    /// Nobody looks after what this node of the region has coordinated before the view that comes.
    fn is_left_alone(&self, coordinator: Node) -> bool {
        let another = |peer: &Peer| peer.another_in > self.in_force;
        !self.is_live(coordinator) || self.peer(coordinator).is_some_and(another)
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
}
