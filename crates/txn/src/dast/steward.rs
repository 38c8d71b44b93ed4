//! Stewards: the source's region manager, made of three `[dast 2.6, 2.9, 2.11]`.
//!
//! One leads. What it knows of CRTs is in its memory only; safety lies with the replicas, which
//! refuse timestamps that they have run past. The three agree on views, one after another, by
//! Paxos: a leader has a ballot that a majority has promised, and needs one round for each view.

mod anticipate;
mod members;
mod resolution;

use super::message::{Attempt, Ballot, Body, CrtState, Frozen, IrtState, Record};
use super::view::{Before, Brought, Member, View};
use super::{Dast, message::Acceptor};
use crate::layout::Region;
use crate::txn::{Shard, Ts, Txn};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::{Instant, Span};

pub(super) struct Steward {
    me: Node,
    phase: Phase,
    /// This steward knows every CRT of its region.
    merged: bool,
    promised: Ballot,
    accepted: Option<(Ballot, View)>,
    chosen: View,
    ballot: Ballot,
    /// When each replica was last heard, and the steward that leads; both are later by however
    /// long this node itself stood still, since that says nothing about others.
    heard: BTreeMap<Node, Instant>,
    lead_heard: Instant,
    last_tick: Instant,
    /// Elections in a row that came to nothing.
    elections: u32,
    /// Members of which something may be lost: they must go as soon as they can be spared.
    suspects: BTreeSet<Member>,
    /// Lives of members that are over, so that none of these is put back.
    lost_lives: BTreeSet<Member>,
    /// Replicas that ask to be let in, and how often they were wronged.
    joins: BTreeMap<Node, Asks>,
    given_up: BTreeMap<Node, u32>,
    /// Members that are known to have the rows of their shard.
    ready: BTreeSet<Member>,
    /// Views one of which may be in force while the chosen one is not.
    before: Vec<Before>,
    /// This steward led in the view of this number, and these are all that may be in force.
    led: Option<(u64, Vec<Before>)>,
    last: u64,
    promise: u64,
    table: BTreeMap<Attempt, Pending>,
    resolving: BTreeMap<Attempt, Resolution>,
    resolved: BTreeMap<Attempt, Option<Ts>>,
    /// What came while the view was changing.
    held: Vec<(Node, Body)>,
}

/// How a replica asks to be let in.
#[derive(Clone, Copy)]
struct Asks {
    life: u64,
    brought: Brought,
}

enum Phase {
    /// Another one leads.
    Following,
    /// Asked the others for their promise.
    Asking { grants: BTreeSet<Node> },
    /// Asked the others to accept a view.
    Proposing { view: View, votes: BTreeSet<Node>, since: Instant },
    /// Asked the replicas what they know, first and last.
    Freezing { acks: BTreeMap<Node, Arc<Frozen>>, since: Instant, asked: Instant },
    /// Leads.
    Serving,
}

/// A CRT that is not finished at all live replicas of the region.
struct Pending {
    txn: Option<Arc<Txn>>,
    a: Ts,
    f: Option<Ts>,
    coordinator: Node,
    leaders: BTreeMap<Shard, Node>,
    unacked: BTreeSet<Node>,
    since: Instant,
}

/// A decision that is looked for.
struct Resolution {
    txn: Arc<Txn>,
    ballot: Ballot,
    heard: BTreeSet<Node>,
    found: Option<(Ballot, Option<Ts>)>,
    proposed: bool,
    accepted: BTreeSet<Node>,
    since: Instant,
}

impl Steward {
    pub fn new(me: Node, first: View) -> Steward {
        let leads = first.steward == me;
        let ready = first.members().collect();
        let ballot = Ballot { round: 1, node: first.steward.0 };
        Steward {
            me,
            phase: if leads { Phase::Serving } else { Phase::Following },
            merged: leads,
            promised: ballot,
            accepted: None,
            chosen: first,
            ballot,
            heard: BTreeMap::new(),
            lead_heard: Instant::ZERO,
            last_tick: Instant::ZERO,
            elections: 0,
            suspects: BTreeSet::new(),
            lost_lives: BTreeSet::new(),
            joins: BTreeMap::new(),
            given_up: BTreeMap::new(),
            ready,
            before: Vec::new(),
            led: None,
            last: 0,
            promise: 0,
            table: BTreeMap::new(),
            resolving: BTreeMap::new(),
            resolved: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    fn leads(&self) -> bool {
        !matches!(self.phase, Phase::Following | Phase::Asking { .. })
    }

    fn serves(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    /// Views one of which may be in force, as far as this leader knows.
    fn may_be_in_force(&self) -> Vec<Before> {
        if self.serves() {
            return vec![Before::of(&self.chosen)];
        }
        self.before.clone()
    }

    /// What is known of lives that are over need not be kept.
    fn forget_lives(&mut self) {
        let chosen = &self.chosen;
        let over = self.suspects.iter().filter(|member| !chosen.has(**member));
        self.lost_lives.extend(over.copied());
        while self.lost_lives.len() > 4_096 {
            self.lost_lives.pop_first();
        }
        self.suspects.retain(|member| chosen.has(*member));
        self.ready.retain(|member| chosen.has(*member));
    }
}

impl Dast {
    fn with_steward<T>(&mut self, act: impl FnOnce(&mut Self, &mut Steward) -> T) -> Option<T> {
        let mut steward = self.steward.take()?;
        let result = act(self, &mut steward);
        self.steward = Some(steward);
        Some(result)
    }

    fn other_stewards(&self) -> Vec<Node> {
        self.config.layout.stewards_of(self.region).filter(|node| *node != self.me).collect()
    }

    pub(super) fn steward_starts(&mut self) {
        let now = self.now;
        self.with_steward(|node, steward| {
            steward.lead_heard = now;
            steward.last_tick = now;
            for replica in &node.view.live {
                steward.heard.insert(*replica, now);
            }
        });
    }

    pub(super) fn steward_replays(
        &mut self,
        promised: Ballot,
        accepted: Option<(Ballot, View)>,
        chosen: View,
    ) {
        self.with_steward(|_, steward| {
            (steward.promised, steward.accepted, steward.chosen) = (promised, accepted, chosen);
        });
    }

    pub(super) fn steward_recovers(&mut self) {
        let now = self.now;
        self.with_steward(|node, steward| {
            steward.phase = Phase::Following;
            steward.merged = false;
            steward.lead_heard = now;
            steward.ready.clear();
            steward.led = None;
            node.adopt_view(steward);
        });
    }

    fn adopt_view(&mut self, steward: &Steward) {
        self.view = steward.chosen.clone();
        self.stewards[usize::from(self.region.0)] = self.view.steward;
        self.set_everyone();
    }

    pub(super) fn steward_heard(&mut self, from: Node) {
        let now = self.now;
        if let Some(steward) = &mut self.steward {
            steward.heard.insert(from, now);
        }
    }

    pub(super) fn lead_is_alive(&mut self, from: Node) {
        let now = self.now;
        if let Some(steward) = &mut self.steward
            && steward.chosen.steward == from
        {
            steward.lead_heard = now;
        }
    }

    pub(super) fn steward_tick(&mut self) {
        let (now, fail_after) = (self.now, self.config.fail_after);
        let rank = u64::from(self.me.0 - self.config.layout.replica_nodes()) % 3;
        self.with_steward(|node, steward| {
            node.stood_still(steward);
            match &steward.phase {
                Phase::Following | Phase::Asking { .. } => {
                    // Where elections come to nothing the network is slower than was thought.
                    let patience = fail_after * (1 << steward.elections.min(4));
                    if now.since(steward.lead_heard) >= patience + Span::from_ms(20) * rank {
                        steward.lead_heard = now;
                        steward.elections += 1;
                        node.ask_lead(steward);
                    }
                }
                Phase::Proposing { view, since, .. } => {
                    let again = (now.since(*since) >= fail_after).then(|| view.clone());
                    node.report_promise(steward, now);
                    if let Some(view) = again {
                        node.propose(steward, view);
                    }
                }
                Phase::Freezing { .. } => {
                    node.report_promise(steward, now);
                    node.go_on_freezing(steward);
                }
                Phase::Serving => node.report_promise(steward, now),
            }
        });
        self.change_view_if_needed();
        self.resolve_late();
    }

    /// What this region will not be surprised by any more.
    fn report_promise(&mut self, steward: &mut Steward, _now: Instant) {
        if steward.merged {
            // The least `est` in use, which is one constant here `[dast 0.7]`.
            let ahead = self.anticipation_base() + self.config.est.as_ns();
            steward.promise = steward.promise.max(ahead.saturating_sub(1));
        }
        let promise = if steward.merged { steward.promise } else { 0 };
        let settled = steward.table.values().map(|pending| pending.a.t).min().unwrap_or(promise);
        self.cast(Body::StewardReport {
            promise,
            settled: if steward.merged { settled } else { 0 },
        });
    }

    fn propose(&mut self, steward: &mut Steward, view: View) {
        steward.accepted = Some((steward.ballot, view.clone()));
        self.vote(steward);
        let votes = BTreeSet::from([self.me]);
        steward.phase = Phase::Proposing { view: view.clone(), votes, since: self.now };
        let (others, ballot) = (self.other_stewards(), steward.ballot);
        self.send_all(others, &Body::Propose { ballot, view: Box::new(view) });
    }

    /// Stores what this steward has promised and accepted. Returns the place in the log.
    fn vote(&mut self, steward: &Steward) -> u64 {
        self.record(Record::Vote {
            promised: steward.promised,
            accepted: steward.accepted.clone().map(Box::new),
            chosen: Box::new(steward.chosen.clone()),
        })
    }

    fn ask_lead(&mut self, steward: &mut Steward) {
        let round = steward.promised.round.max(steward.ballot.round) + 1;
        steward.ballot = Ballot { round, node: self.me.0 };
        steward.promised = steward.ballot;
        steward.merged = false;
        self.vote(steward);
        steward.phase = Phase::Asking { grants: BTreeSet::from([self.me]) };
        let (others, ballot) = (self.other_stewards(), steward.ballot);
        self.send_all(others, &Body::AskLead { ballot });
    }

    /// What only stewards are told.
    pub(super) fn steward_hears(&mut self, from: Node, body: Body) {
        self.with_steward(|node, steward| node.hear_as_steward(steward, from, body));
        self.change_view_if_needed();
    }

    fn hear_as_steward(&mut self, steward: &mut Steward, from: Node, body: Body) {
        match body {
            Body::AskLead { ballot } => {
                if ballot > steward.promised {
                    steward.promised = ballot;
                    steward.phase = Phase::Following;
                    steward.merged = false;
                    steward.lead_heard = self.now;
                    let entry = self.vote(steward);
                    let (chosen, accepted) = (steward.chosen.clone(), steward.accepted.clone());
                    let led = steward.led.clone().filter(|(number, _)| *number == chosen.number);
                    let led = led.map(|(_, before)| before);
                    let (chosen, accepted) = (Box::new(chosen), accepted.map(Box::new));
                    let body = Body::GrantLead { ballot, chosen, accepted, led };
                    self.send_after_store(entry, from, body);
                } else {
                    self.send(from, Body::DenyLead { promised: steward.promised });
                }
            }
            Body::GrantLead { ballot, chosen, accepted, led } => {
                if let Some(before) = led
                    && ballot == steward.ballot
                    && chosen.number >= steward.chosen.number
                {
                    steward.led = Some((chosen.number, before));
                }
                self.granted(steward, from, ballot, *chosen, accepted.map(|accepted| *accepted));
            }
            Body::DenyLead { promised } if promised > steward.promised => {
                steward.promised = promised;
                steward.phase = Phase::Following;
                steward.merged = false;
            }
            Body::Propose { ballot, view } => {
                if ballot < steward.promised {
                    self.send(from, Body::DenyLead { promised: steward.promised });
                } else if view.number > steward.chosen.number {
                    if from != steward.me && steward.leads() {
                        steward.phase = Phase::Following;
                        steward.merged = false;
                    }
                    steward.promised = ballot;
                    steward.lead_heard = self.now;
                    let number = view.number;
                    steward.accepted = Some((ballot, *view));
                    let entry = self.vote(steward);
                    self.send_after_store(entry, from, Body::Accepted { ballot, number });
                }
            }
            Body::Accepted { ballot, number } => {
                let Phase::Proposing { view, votes, .. } = &mut steward.phase else { return };
                if ballot != steward.ballot || number != view.number {
                    return;
                }
                votes.insert(from);
                if votes.len() >= 2 {
                    let view = view.clone();
                    self.view_is_chosen(steward, view);
                }
            }
            Body::Chosen { view } if view.number > steward.chosen.number => {
                steward.chosen = *view;
                // Whoever is still out asks again.
                steward.joins.clear();
                steward.lead_heard = self.now;
                steward.elections = 0;
                steward.forget_lives();
                for replica in steward.chosen.live.clone() {
                    steward.heard.insert(replica, self.now);
                }
                self.vote(steward);
                self.adopt_view(steward);
            }
            Body::Thaw(frozen) => {
                let Phase::Freezing { acks, .. } = &mut steward.phase else { return };
                if frozen.number != steward.chosen.number {
                    return;
                }
                // What came before a view that is in force at one node is in the memory of those
                // who were in that view.
                let chosen = &steward.chosen;
                let was_in =
                    |member: &Member| member.node == from && chosen.keeper(*member).is_some();
                steward.before.retain(|view| {
                    let asked = view.number <= frozen.froze || !view.members.iter().any(was_in);
                    view.number >= frozen.force && asked
                });
                if frozen.has_rows
                    && let Some(life) = steward.chosen.life_of(from)
                {
                    steward.ready.insert(Member { node: from, life });
                }
                acks.insert(from, frozen);
                let (acks, live) = (acks.len(), steward.chosen.live.len());
                let bugs = self.config.bugs;
                let content = bugs.majority_freeze;
                let enough = if content { live / 2 + 1 } else { live };
                let (layout, chosen) = (self.config.layout, &steward.chosen);
                let holds = chosen.holds_what(&steward.before, &layout, &steward.ready);
                if acks >= enough && (holds || content || bugs.hasty_steward) {
                    self.put_in_force(steward);
                }
            }
            Body::Join { life, given_up, brought } => {
                self.hears_of_join(steward, from, Asks { life, brought });
                steward.given_up.insert(from, given_up);
            }
            Body::Lost { member } => self.hears_of_loss(steward, from, member),
            Body::PrepareRemote { .. }
            | Body::Commit { .. }
            | Body::Abort { .. }
            | Body::Resolve { .. } => {
                if steward.serves() {
                    self.serve(steward, from, body);
                } else if steward.leads() || matches!(steward.phase, Phase::Asking { .. }) {
                    steward.held.push((from, body));
                }
            }
            Body::CommitAck { attempt } => self.commit_acked(steward, from, attempt),
            Body::ValueIn { attempt } => {
                self.hold_own_clock(attempt, None);
                let live = steward.chosen.live.clone();
                self.send_all(live, &Body::Release { attempt, hold: None });
            }
            Body::TellDecision { attempt, ballot, state } => {
                self.told_decision(steward, from, attempt, ballot, *state);
            }
            Body::Decided { attempt, ballot, accepted } => {
                self.resolution_accepted(steward, from, attempt, ballot, accepted);
            }
            _ => {}
        }
    }

    fn granted(
        &mut self,
        steward: &mut Steward,
        from: Node,
        ballot: Ballot,
        chosen: View,
        accepted: Option<(Ballot, View)>,
    ) {
        if ballot != steward.ballot {
            return;
        }
        if chosen.number > steward.chosen.number {
            steward.chosen = chosen;
            self.adopt_view(steward);
        }
        if let Some((their, view)) = accepted
            && steward.accepted.as_ref().is_none_or(|(own, _)| their > *own)
        {
            steward.accepted = Some((their, view));
        }
        let Phase::Asking { grants } = &mut steward.phase else { return };
        grants.insert(from);
        if grants.len() < 2 {
            return;
        }
        // A view that may have been chosen is, before this steward's own; it keeps the members.
        let next = steward.chosen.number + 1;
        let started = steward.accepted.as_ref().filter(|(_, view)| view.number == next);
        let started = started.map(|(_, view)| view.clone());
        let known = steward.led.clone().filter(|(number, _)| *number + 1 == next);
        if let Some(view) = started.clone() {
            steward.chosen = view;
        }
        for replica in steward.chosen.live.clone() {
            steward.heard.insert(replica, self.now);
        }
        steward.before = match known.filter(|_| started.is_none()) {
            Some((_, before)) => before,
            None => {
                // Whether the last one came in force, this steward does not know.
                let mut before = steward.chosen.before.clone();
                before.push(Before::of(&steward.chosen));
                before
            }
        };
        let members = steward.chosen.clone();
        self.propose_members(steward, members);
    }

    fn view_is_chosen(&mut self, steward: &mut Steward, view: View) {
        steward.chosen = view.clone();
        steward.led = Some((view.number, steward.before.clone()));
        steward.elections = 0;
        steward.forget_lives();
        self.vote(steward);
        self.adopt_view(steward);
        for replica in &view.live {
            steward.heard.insert(*replica, self.now);
        }
        let others = self.other_stewards();
        let view = Box::new(view);
        self.send_all(others, &Body::Chosen { view: view.clone() });
        self.send_all(view.live.clone(), &Body::Freeze { view });
        let (since, asked) = (self.now, self.now);
        steward.phase = Phase::Freezing { acks: BTreeMap::new(), since, asked };
    }

    /// Everything that members know is put together, and the view is in force.
    fn put_in_force(&mut self, steward: &mut Steward) {
        let phase = core::mem::replace(&mut steward.phase, Phase::Serving);
        let Phase::Freezing { acks, .. } = phase else { return };
        let mut orphans: BTreeMap<(Ts, crate::txn::TxnId), IrtState> = BTreeMap::new();
        let mut floor = Ts::ZERO;
        for frozen in acks.values() {
            floor = floor.max(frozen.clock);
            steward.promise = steward.promise.max(frozen.promise);
            // What somebody has run was below the clocks of all.
            steward.last = steward.last.max(frozen.anticipated.t).max(frozen.clock.t);
            // A view that came in force at some and not at all brought what others still lack.
            let missed = |other: &Frozen| other.has_rows && other.force < frozen.force;
            let passed_on = acks.values().any(|other| missed(other)).then_some(&frozen.passed_on);
            let passed_on = passed_on.into_iter().flat_map(|all| all.iter());
            for orphan in frozen.orphans.iter().chain(passed_on) {
                orphans.insert((orphan.ts, orphan.txn.id), orphan.clone());
            }
        }
        let orphans: Arc<[IrtState]> = orphans.into_values().collect();
        for view in core::mem::take(&mut steward.before) {
            for member in view.members {
                if steward.chosen.keeper(member).is_none() {
                    steward.chosen.end_life(member);
                }
            }
        }
        let number = steward.chosen.number;
        steward.led = Some((number, steward.may_be_in_force()));
        let live = steward.chosen.live.clone();
        self.send_all(live.clone(), &Body::Install { number, orphans, floor });
        if steward.merged {
            self.replace_leaders(steward);
        } else {
            let known = acks
                .iter()
                .flat_map(|(node, frozen)| frozen.crts.iter().map(move |crt| (*node, crt.clone())));
            let known: Vec<(Node, CrtState)> = known.collect();
            self.merge(steward, known);
            steward.merged = true;
            let layout = self.config.layout;
            let others = (0..layout.replica_nodes()).map(Node);
            let others = others.filter(|node| layout.region_of_node(*node) != self.region);
            let others: Vec<Node> = others.collect();
            self.send_all(others, &Body::NewSteward);
        }
        for (from, body) in core::mem::take(&mut steward.held) {
            self.serve(steward, from, body);
        }
    }

    /// A new steward learns the CRTs of its region from those who know them, and says again
    /// whatever somebody may have missed.
    fn merge(&mut self, steward: &mut Steward, known: Vec<(Node, CrtState)>) {
        let layout = self.config.layout;
        steward.table.clear();
        for (_, crt) in &known {
            let pending = steward.table.entry(crt.attempt).or_insert_with(|| Pending {
                txn: None,
                a: crt.a,
                f: None,
                coordinator: crt.attempt.coordinator,
                leaders: BTreeMap::new(),
                unacked: BTreeSet::new(),
                since: self.now,
            });
            pending.f = pending.f.or(crt.f);
            pending.txn = pending.txn.take().or_else(|| crt.txn.clone());
        }
        let attempts: Vec<Attempt> = steward.table.keys().copied().collect();
        for attempt in attempts {
            let Some(pending) = steward.table.get_mut(&attempt) else { continue };
            let Some(txn) = pending.txn.clone() else {
                // No replica that it touches has it, so nobody has acknowledged it.
                steward.table.remove(&attempt);
                let live = steward.chosen.live.clone();
                self.send_all(live, &Body::AbortCrt { attempt });
                continue;
            };
            let parts = parts(&layout, &txn, self.region, &steward.chosen.live);
            pending.unacked = parts.iter().copied().collect();
            let (a, f) = (pending.a, pending.f);
            if let Some(value) = steward.resolved.get(&attempt).copied()
                && f.is_none()
            {
                self.carry_out(steward, attempt, value);
                continue;
            }
            self.prepare_in_region(steward, attempt, &txn, a);
            if let Some(f) = f
                && !self.config.bugs.commit_once
            {
                self.commit_in_region(steward, attempt, f);
            }
        }
    }

    /// Leaders of shards that are out are replaced, and nobody waits for those who are.
    fn replace_leaders(&mut self, steward: &mut Steward) {
        let attempts: Vec<Attempt> = steward.table.keys().copied().collect();
        for attempt in attempts {
            let Some(pending) = steward.table.get_mut(&attempt) else { continue };
            let live = &steward.chosen.live;
            pending.unacked.retain(|node| live.contains(node));
            let lost = pending.leaders.values().any(|leader| !live.contains(leader));
            let (txn, a, f) = (pending.txn.clone(), pending.a, pending.f);
            if lost
                && f.is_none()
                && let Some(txn) = txn
            {
                self.prepare_in_region(steward, attempt, &txn, a);
            }
            if f.is_some() {
                self.finish_if_all_acked(steward, attempt);
            }
        }
    }

    fn prepare_in_region(
        &mut self,
        steward: &mut Steward,
        attempt: Attempt,
        txn: &Arc<Txn>,
        a: Ts,
    ) {
        let layout = self.config.layout;
        let live = steward.chosen.live.clone();
        let parts = parts(&layout, txn, self.region, &live);
        self.hold_own_clock(attempt, Some(a));
        let mut leaders = BTreeMap::new();
        let own_region = self.region;
        for shard in txn.shards().iter().filter(|s| layout.region_of(**s) == own_region) {
            let replicas = parts.iter().filter(|node| layout.shard_of(**node) == Some(*shard));
            let replicas: Vec<Node> = replicas.copied().collect();
            let own = replicas.contains(&attempt.coordinator).then_some(attempt.coordinator);
            let drawn = self.draw(replicas.len() as u64) as usize;
            if let Some(leader) = own.or_else(|| replicas.get(drawn).copied()) {
                leaders.insert(*shard, leader);
            }
        }
        for node in &live {
            let leader = layout.shard_of(*node).and_then(|shard| leaders.get(&shard));
            let body = match leader {
                Some(leader) if parts.contains(node) => {
                    Body::PrepareCrt { txn: txn.clone(), attempt, a, leader: *leader }
                }
                _ => Body::NoteCrt { attempt, a },
            };
            self.send(*node, body);
        }
        if let Some(pending) = steward.table.get_mut(&attempt) {
            pending.leaders = leaders;
        }
    }

    fn commit_in_region(&mut self, steward: &mut Steward, attempt: Attempt, f: Ts) {
        let layout = self.config.layout;
        let direct = !self.config.commit_via_steward;
        let Some(pending) = steward.table.get_mut(&attempt) else { return };
        pending.f = Some(f);
        let Some(txn) = pending.txn.clone() else { return };
        let live = steward.chosen.live.clone();
        let parts = parts(&layout, &txn, self.region, &live);
        pending.unacked = parts.iter().copied().collect();
        let waits = self.waits_in(&txn, self.region);
        let hold = waits.then_some(f);
        self.hold_own_clock(attempt, hold);
        for node in live {
            if !parts.contains(&node) {
                self.send(node, Body::Release { attempt, hold });
            } else if !direct {
                self.send(node, Body::CommitCrt { attempt, f, waits });
            }
            // Else the coordinator tells them. It does not know who takes the place of whom, and
            // may fail before it has told all: what is said again is said and acknowledged here.
        }
    }

    /// Tells those that have not said that they have it.
    fn repeat_commit(&mut self, pending: &Pending, attempt: Attempt, f: Ts) {
        if self.config.bugs.commit_once {
            return;
        }
        let again: Vec<Node> = pending.unacked.iter().copied().collect();
        let waits = pending.txn.as_ref().is_some_and(|txn| self.waits_in(txn, self.region));
        self.send_all(again, &Body::CommitCrt { attempt, f, waits });
    }

    fn commit_acked(&mut self, steward: &mut Steward, from: Node, attempt: Attempt) {
        if let Some(pending) = steward.table.get_mut(&attempt) {
            pending.unacked.remove(&from);
            self.finish_if_all_acked(steward, attempt);
        }
    }

    fn finish_if_all_acked(&mut self, steward: &mut Steward, attempt: Attempt) {
        let Some(pending) = steward.table.get(&attempt) else { return };
        if pending.f.is_some() && pending.unacked.is_empty() {
            let coordinator = pending.coordinator;
            steward.table.remove(&attempt);
            self.send(coordinator, Body::RegionDone { attempt });
        }
    }

    /// What coordinators ask of the steward that leads.
    fn serve(&mut self, steward: &mut Steward, from: Node, body: Body) {
        let now = self.now;
        match body {
            Body::PrepareRemote { txn, attempt, source } => {
                if steward.resolved.contains_key(&attempt) {
                    return;
                }
                if let Some(pending) = steward.table.get(&attempt) {
                    let a = pending.a;
                    if pending.f.is_none() {
                        self.prepare_in_region(steward, attempt, &txn, a);
                    }
                    return;
                }
                let a = self.anticipate(steward, source);
                let pending = Pending {
                    txn: Some(txn.clone()),
                    a,
                    f: None,
                    coordinator: attempt.coordinator,
                    leaders: BTreeMap::new(),
                    unacked: BTreeSet::new(),
                    since: now,
                };
                steward.table.insert(attempt, pending);
                self.prepare_in_region(steward, attempt, &txn, a);
            }
            Body::Commit { attempt, f } => match steward.table.get(&attempt) {
                Some(pending) if pending.f.is_none() => {
                    self.commit_in_region(steward, attempt, f);
                }
                Some(pending) => self.repeat_commit(pending, attempt, f),
                // It was prepared here, or there would be no commit; it is finished.
                None => self.send(from, Body::RegionDone { attempt }),
            },
            Body::Abort { attempt } => self.abort_in_region(steward, attempt),
            Body::Resolve { txn, attempt } => self.begin_resolution(steward, txn, attempt),
            _ => {}
        }
    }

    fn abort_in_region(&mut self, steward: &mut Steward, attempt: Attempt) {
        let decided = steward.table.get(&attempt).is_some_and(|pending| pending.f.is_some());
        if decided {
            return;
        }
        steward.table.remove(&attempt);
        steward.resolved.insert(attempt, None);
        self.hold_own_clock(attempt, None);
        let live = steward.chosen.live.clone();
        self.send_all(live, &Body::AbortCrt { attempt });
    }
}

/// Live replicas of shards of `region` that a transaction touches.
fn parts(layout: &crate::layout::Layout, txn: &Txn, region: Region, live: &[Node]) -> Vec<Node> {
    let shards = txn.shards().iter().filter(|shard| layout.region_of(**shard) == region);
    let all = shards.flat_map(|shard| layout.replicas_of(*shard));
    all.filter(|node| live.binary_search(node).is_ok()).collect()
}
