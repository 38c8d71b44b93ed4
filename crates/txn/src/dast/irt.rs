//! Requests, and transactions of one region `[dast 2.5]`.

use super::Dast;
use super::crt::{Coord, CoordKind, IrtCoord};
use super::message::{Body, Done, IrtState};
use super::replica::{Kind, Queued};
use super::view::Status;
use crate::client::Outcome;
use crate::txn::{Shard, Ts, Txn, TxnId};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::Call;

impl Dast {
    /// A client asks.
    pub(super) fn submit(&mut self, call: Call, txn: Arc<Txn>) {
        if self.shard.is_none() {
            return;
        }
        // Not yet: no state, or the token's time has not come. Only this request waits for it.
        let unreserved = self.clock.ceiling == Some(0);
        if self.status != Status::Ready
            || unreserved
            || (txn.after > Ts::ZERO && self.peek_ts() <= txn.after)
        {
            self.held.push((call, txn));
            return;
        }
        if let Some(coord) = self.coords.get_mut(&txn.id) {
            coord.calls.push(call);
            self.reply_if_whole(txn.id);
            return;
        }
        let own = self.shard;
        if self.config.fenced_reads
            && txn.read_only
            && txn.shards().iter().all(|shard| Some(*shard) == own)
            && txn.pieces.iter().all(|piece| piece.needs.is_empty())
        {
            self.fenced_read(call, txn);
        } else if self.config.layout.is_within(&txn, self.region) {
            self.coordinate_irt(call, txn);
        } else {
            self.coordinate_crt(call, txn);
        }
    }

    /// Requests whose time has come.
    pub(super) fn begin_held(&mut self) {
        for (call, txn) in core::mem::take(&mut self.held) {
            self.submit(call, txn);
        }
    }

    /// A read of this replica, at a place above every clock that it has heard: it runs when all
    /// others have said that they are past it, and sees what was answered before it was asked
    /// `[dast 0.10]`.
    fn fenced_read(&mut self, call: Call, txn: Arc<Txn>) {
        let Some(shard) = self.shard else { return };
        let heard = self.peers.iter().filter(|peer| peer.waited_for).map(|peer| peer.clock).max();
        let own = self.next_ts();
        let ts = own.max(Ts { n: self.me.0 | 1 << 31, ..heard.unwrap_or(own).max(own) });
        let kind = Kind::Read(call);
        if self.config.bugs.read_above_unexecuted {
            let queued = Queued { txn, shard, kind, certain: true };
            self.read_unfenced(call, ts, queued);
            return;
        }
        self.queue.insert((ts, txn.id), Queued { txn, shard, kind, certain: true });
    }

    fn read_unfenced(&mut self, call: Call, ts: Ts, queued: Queued) {
        let waiting = super::replica::Waiting::bare(queued.txn, ts, queued.kind, self.now);
        self.read_now(call, &waiting);
    }

    fn coordinate_irt(&mut self, call: Call, txn: Arc<Txn>) {
        let (id, ts) = (txn.id, self.next_ts());
        let mut acks = BTreeMap::new();
        for shard in txn.shards() {
            // One that keeps a log has it when it is stored.
            let own = self.shard == Some(*shard) && !self.keeps_log();
            acks.insert(*shard, u32::from(own) << self.layout_index());
        }
        let kind = CoordKind::Irt(IrtCoord { ts, acks, stable: false });
        let coord = Coord::new(txn.clone(), call, kind, self.now, self.config.retry_after);
        self.coords.insert(id, coord);
        self.unstable.insert((ts, id));
        self.unheld.insert((ts, id));
        self.store_irt(self.me, &txn, ts, false);
        if self.keeps_log() && self.shard.is_some_and(|own| txn.shards().contains(&own)) {
            self.remember(self.me, || Body::PrepareIrt { txn: txn.clone(), ts });
            self.say_when_stored(self.me, Body::AckIrt { id, ts, clock: ts });
        }
        for shard in txn.shards() {
            let replicas = self.config.layout.replicas_of(*shard);
            let others: Vec<Node> =
                replicas.filter(|node| *node != self.me && self.is_live(*node)).collect();
            self.send_all(others, &Body::PrepareIrt { txn: txn.clone(), ts });
        }
        self.settle_irt(id);
    }

    fn layout_index(&self) -> u32 {
        self.config.layout.index_of(self.me)
    }

    /// Keeps an IRT: in the queue, and until every replica has it.
    pub(super) fn store_irt(&mut self, coordinator: Node, txn: &Arc<Txn>, ts: Ts, certain: bool) {
        let id = txn.id;
        if let Some(peer) = self.peer_mut(coordinator)
            && ts >= peer.held
        {
            peer.recent.insert(ts, IrtState { txn: txn.clone(), ts, coordinator });
        }
        let Some(shard) = self.shard else { return };
        if !txn.shards().contains(&shard) || self.ran(ts, id) {
            return;
        }
        let kind = Kind::Irt(coordinator);
        let queued = Queued { txn: txn.clone(), shard, kind, certain };
        self.queue.entry((ts, id)).or_insert(queued).certain |= certain;
    }

    /// The attempt at `ts` has begun here, or is so old that nothing is known of it any more.
    fn ran(&self, ts: Ts, id: TxnId) -> bool {
        (ts <= self.high && !self.config.bugs.run_late)
            || self.done.get(&id).is_some_and(|done| done.at == ts)
            || self.waiting.get(&id).is_some_and(|waiting| waiting.ts == ts)
    }

    pub(super) fn prepare_irt(&mut self, from: Node, txn: Arc<Txn>, ts: Ts) {
        self.hear_clock(from, ts);
        if self.shard.is_none() || self.status == Status::Out {
            return;
        }
        let told = |peer: &super::view::Peer| ts < peer.held || peer.recent.contains_key(&ts);
        if !self.peer(from).is_some_and(told) {
            self.remember(from, || Body::PrepareIrt { txn: txn.clone(), ts });
        }
        self.store_irt(from, &txn, ts, false);
        let clock = self.next_ts();
        self.say_when_stored(from, Body::AckIrt { id: txn.id, ts, clock });
    }

    pub(super) fn ack_irt(&mut self, from: Node, id: TxnId, ts: Ts, clock: Ts) {
        self.hear_clock(from, clock);
        let layout = self.config.layout;
        if let Some(coord) = self.coords.get_mut(&id)
            && let CoordKind::Irt(irt) = &mut coord.kind
            && irt.ts == ts
            && let Some(mask) = layout.shard_of(from).and_then(|shard| irt.acks.get_mut(&shard))
        {
            *mask |= 1 << layout.index_of(from);
            self.settle_irt(id);
        }
    }

    /// Sees whether an IRT is stable now, and whether every live replica has it.
    pub(super) fn settle_irt(&mut self, id: TxnId) {
        let layout = self.config.layout;
        let bugs = self.config.bugs;
        let majority = if bugs.one_ack { 1 } else { layout.majority() };
        // The coordinator itself is one of its own shard.
        let needed = |shard: Shard| match bugs.first_answer {
            true => 1 + u32::from(self.shard == Some(shard)),
            false => majority,
        };
        let Some(coord) = self.coords.get(&id) else { return };
        let CoordKind::Irt(irt) = &coord.kind else { return };
        let (ts, txn, was_stable) = (irt.ts, coord.txn.clone(), irt.stable);
        let stable = irt.acks.iter().all(|(shard, mask)| mask.count_ones() >= needed(*shard));
        let held = irt.acks.iter().all(|(shard, mask)| {
            // Until a view is in force, those who are out may come back as they are.
            let needs = |n: &Node| self.is_live(*n) || self.peer(*n).is_some_and(|p| p.waited_for);
            let mut needed = layout.replicas_of(*shard).filter(needs);
            needed.all(|node| mask >> layout.index_of(node) & 1 == 1)
        });
        if stable && !was_stable {
            if let Some(coord) = self.coords.get_mut(&id)
                && let CoordKind::Irt(irt) = &mut coord.kind
            {
                irt.stable = true;
            }
            self.unstable.remove(&(ts, id));
            if let Some(queued) = self.queue.get_mut(&(ts, id)) {
                queued.certain = true;
            }
            if self.config.follower_rule && self.config.tell_at_once {
                for shard in txn.shards() {
                    let replicas = layout.replicas_of(*shard);
                    let others: Vec<Node> =
                        replicas.filter(|n| *n != self.me && self.is_live(*n)).collect();
                    self.send_all(others, &Body::Stable { id, ts });
                }
            }
        }
        // Where a shard has one replica left, everybody has it and it is not stable: those who come
        // back must be told.
        if held && stable {
            self.unheld.remove(&(ts, id));
            self.drop_if_over(id);
        }
    }

    pub(super) fn stable(&mut self, id: TxnId, ts: Ts) {
        if let Some(queued) = self.queue.get_mut(&(ts, id)) {
            queued.certain = true;
        }
    }

    /// What a node hears of another one's clock.
    pub(super) fn hear_clock(&mut self, from: Node, clock: Ts) {
        let followed = self.clock.learn(self.wall, clock, self.config.jump_max);
        let installed = self.installed;
        // What it sent before a channel broke may be missing here, and is below what it says now.
        let lost = !self.lost.is_empty() && self.lost.iter().any(|member| member.node == from);
        if let Some(peer) = self.peer_mut(from).filter(|_| !lost || !installed) {
            let known = if installed { &mut peer.clock } else { &mut peer.clock_in_change };
            *known = clock.max(*known);
        }
        if !followed {
            self.follow_most();
        }
    }

    /// One clock that is far ahead is wrong and is not followed; but where most clocks of the
    /// region are, it is this one that is wrong, and the region waits for it.
    fn follow_most(&mut self) {
        let me = self.me.0.wrapping_sub(self.first_peer) as usize;
        let others = self.peers.iter().enumerate().filter(|(at, p)| p.waited_for && *at != me);
        let mut clocks: Vec<u64> = others.map(|(_, peer)| peer.clock.t).collect();
        clocks.push(self.clock.physical(self.wall));
        clocks.sort_unstable();
        // Of an even number the lower one of the middle: half of the clocks are not most of them.
        let middle = clocks[(clocks.len() - 1) / 2];
        self.clock.go_to(self.wall, middle);
    }

    pub(super) fn report_clock(&mut self) {
        let clock = self.next_ts();
        let first = |set: &alloc::collections::BTreeSet<(Ts, TxnId)>| {
            set.first().map_or(clock, |(ts, _)| *ts)
        };
        let (mut stable, mut held) = (first(&self.unstable), first(&self.unheld));
        if self.is_heir() && !self.installed && !self.config.bugs.forget_coordinated {
            // What it coordinated before it failed is put together with the view.
            (stable, held) = (Ts::ZERO, Ts::ZERO);
        }
        self.tell_clock(Body::Report { clock, stable, held });
        // Its own, which it does not hear.
        let me = self.me;
        if let Some(own) = self.peer_mut(me) {
            own.recent = own.recent.split_off(&held);
            own.held = own.held.max(held);
        }
    }

    pub(super) fn report(&mut self, from: Node, clock: Ts, stable: Ts, held: Ts) {
        self.hear_clock(from, clock);
        if let Some(peer) = self.peer_mut(from) {
            peer.stable = peer.stable.max(stable);
            if held > peer.held {
                peer.held = held;
                peer.recent = peer.recent.split_off(&held);
            }
        }
        self.steward_heard(from);
    }

    /// A shard's part is done.
    pub(super) fn output(&mut self, id: TxnId, shard: Shard, done: Done) {
        if let Some(coord) = self.coords.get_mut(&id) {
            coord.outputs.insert(shard, done);
            self.reply_if_whole(id);
        }
    }

    pub(super) fn reply_if_whole(&mut self, id: TxnId) {
        let own = self.shard;
        let Some(coord) = self.coords.get_mut(&id) else { return };
        let early = self.config.bugs.answer_early
            && matches!(coord.kind, CoordKind::Irt(_))
            && own.is_some_and(|shard| coord.outputs.contains_key(&shard));
        if coord.outputs.len() < coord.txn.shards().len() && !early {
            return;
        }
        coord.replied = true;
        let calls = core::mem::take(&mut coord.calls);
        if !calls.is_empty() {
            let at = coord.outputs.values().map(|done| done.at).max().unwrap_or(Ts::ZERO);
            let outcome = if coord.outputs.values().any(|done| done.aborted) {
                Outcome::Aborted
            } else {
                let all = coord.outputs.values().flat_map(|done| done.results.iter().cloned());
                Outcome::committed(at, all.collect())
            };
            for call in calls {
                self.reply(call, id, outcome.clone());
            }
        }
        self.drop_if_over(id);
    }

    /// Forgets a transaction that is answered, and that everybody has who must have it.
    pub(super) fn drop_if_over(&mut self, id: TxnId) {
        let Some(coord) = self.coords.get(&id) else { return };
        let over = match &coord.kind {
            CoordKind::Irt(irt) => !self.unheld.contains(&(irt.ts, id)) && irt.stable,
            CoordKind::Crt(crt) => crt.left.is_empty() && crt.f.is_some(),
        };
        if over && coord.replied {
            self.coords.remove(&id);
        }
    }
}
