//! Strict two-phase locks with two-phase commit over replicated shards: what DAST is compared with
//! by whoever knows databases `[dast 0.12]`.
//!
//! **Nodes.** Each replica is a node. The replicas of a shard keep one log by [`crate::raft`]; its
//! leader has the locks. The leader of a client's home shard coordinates. A participant prepares in
//! the same step in which it gets its locks, and stores the decision at home: unloaded, a
//! transaction of one region takes 4 d and one across regions 2 D + 6 d.
//!
//! **Deadlocks** cannot be: the older wounds the younger (`lock`), wherever it is, until the
//! younger one's decision is being stored.
//!
//! **Failure.** Presumed abort: only commits are stored. A new leader has the prepared parts in its
//! log, takes their locks again, and asks the home shard what became of them. An attempt's name has
//! its leader's term, so a leader knows whether it can know.
//!
//! **Reading order.** [`message`], `lock`, then `part` (what participants do) and `coord`.

mod coord;
mod lock;
pub mod message;
mod part;

pub use message::{Message, Record, Words};

use crate::client::{Note, Outcome, Request, Response};
use crate::layout::Layout;
use crate::procedure::{Given, Procedures};
use crate::raft::{Act, Raft};
use crate::station::{self, Rival, Station, TICK};
use crate::store::{Store, Writes};
use crate::txn::{Key, Shard, Ts, Txn, TxnId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::Call;
use cavy_core::{Instant, Span};
use coord::Coord;
use lock::Locks;
use message::{Attempt, Command, Decision, Prepared};
use part::Part;

/// How it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Who is where.
    pub layout: Layout,
    /// What has not come for so long is asked for again.
    pub retry_after: Span,
    /// How late the words of a leader that stands may be: one that is silent for 100 ms and four
    /// times this is taken for failed.
    pub leader_late: Span,
    /// So long after it was decided a transaction of one shard may be forgotten.
    pub remember: Span,
    /// Answers carry versions, and replicas tell what they applied.
    pub history: bool,
}

impl Config {
    /// Defaults.
    pub fn new(layout: Layout) -> Config {
        Config {
            layout,
            retry_after: Span::from_ms(400),
            leader_late: Span::ZERO,
            remember: Span::from_ms(30_000),
            history: false,
        }
    }
}

cavy_core::timers! {
    /// What a node waits for.
    pub enum Timer {
        /// Heartbeats, elections, asking again.
        Tick,
        /// More of the same step.
        More,
    }
}

/// Who wants an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    Call(Call),
    Node(Node),
}

/// A transaction that somebody waits for here.
struct Wanted {
    txn: Arc<Txn>,
    askers: Vec<Asker>,
    forwarded_at: Instant,
}

/// What was decided here.
struct Done {
    attempt: Attempt,
    outcome: Outcome,
}

/// One replica.
pub struct Locking {
    config: Config,
    shard: Shard,
    procedures: Box<dyn Procedures + Send>,
    station: Station<Words, Timer>,
    raft: Raft<Command>,
    applied: u64,
    /// It leads, and has said so to itself.
    leading: bool,
    /// Whom it takes for the leader of each shard.
    leaders: Vec<Node>,

    store: Store,
    prepared: BTreeMap<Attempt, Arc<Prepared>>,
    done: BTreeMap<TxnId, Done>,
    done_order: BTreeSet<(u64, TxnId)>,
    /// Commits that this node has applied before they stand in its log.
    ahead: BTreeSet<Attempt>,
    /// Parts that were committed here. Their coordinator may have asked for them once more, and
    /// another node of its shard may have said sooner how they ended.
    finished: BTreeSet<Attempt>,

    wanted: BTreeMap<TxnId, Wanted>,
    coords: BTreeMap<TxnId, Coord>,
    parts: BTreeMap<Attempt, Part>,
    locks: Locks,
    /// Values that came before the part that needs them.
    early: BTreeMap<Attempt, Given>,
    ready: VecDeque<Attempt>,
    rounds: u64,
    ask_at: Instant,
}

impl Locking {
    /// The machine of the replica `me`.
    ///
    /// # Panics
    /// When the layout has no such replica.
    pub fn new(config: Config, me: Node, procedures: impl Procedures + Send + 'static) -> Locking {
        let layout = config.layout;
        let Some(shard) = layout.shard_of(me) else { panic!("{me:?} is no replica") };
        let members: Vec<Node> = layout.replicas_of(shard).collect();
        let shards = (0..layout.shards()).map(Shard);
        Locking {
            shard,
            procedures: Box::new(procedures),
            station: Station::new(me),
            raft: Raft::new(me, &members, config.leader_late),
            applied: 0,
            leading: false,
            leaders: shards.map(|shard| layout.replica(shard, 0)).collect(),
            store: Store::new(),
            prepared: BTreeMap::new(),
            done: BTreeMap::new(),
            done_order: BTreeSet::new(),
            ahead: BTreeSet::new(),
            finished: BTreeSet::new(),
            wanted: BTreeMap::new(),
            coords: BTreeMap::new(),
            parts: BTreeMap::new(),
            locks: Locks::default(),
            early: BTreeMap::new(),
            ready: VecDeque::new(),
            rounds: 0,
            ask_at: Instant::ZERO,
            config,
        }
    }

    /// The rows of this replica, as far as its log is chosen.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The term of its shard's log, and who leads in it.
    pub fn term(&self) -> (u64, Option<Node>) {
        (self.raft.term(), self.raft.leader())
    }

    /// Transactions that are under way here.
    pub fn backlog(&self) -> usize {
        self.wanted.len() + self.coords.len() + self.parts.len() + self.prepared.len()
    }

    fn leader_of(&self, shard: Shard) -> Node {
        self.leaders[shard.0 as usize]
    }

    fn send(&mut self, to: Node, message: Message) {
        self.station.send(to, message);
    }

    fn send_to_shard(&mut self, shard: Shard, message: &Message) {
        for node in self.config.layout.replicas_of(shard) {
            if node != self.station.me {
                self.station.send(node, message.clone());
            }
        }
    }

    fn lead_or_follow(&mut self) {
        // What a leader knows beyond its log is gone with its term.
        self.coords.clear();
        self.parts.clear();
        self.locks = Locks::default();
        self.early.clear();
        self.ready.clear();
        if !self.leading {
            return;
        }
        self.leaders[self.shard.0 as usize] = self.station.me;
        let prepared: Vec<Arc<Prepared>> = self.prepared.values().cloned().collect();
        for part in prepared {
            self.take_up(&part);
        }
        let wanted: Vec<Arc<Txn>> = self.wanted.values().map(|w| w.txn.clone()).collect();
        for txn in wanted {
            self.coordinate(txn);
        }
    }

    /// Somebody wants `txn` done.
    fn submit(&mut self, asker: Asker, txn: Arc<Txn>) {
        let id = txn.id;
        if let Some(done) = self.done.get(&id)
            && self.raft.leads_surely()
        {
            let response = Response { id, outcome: done.outcome.clone() };
            self.tell(asker, response);
            return;
        }
        let wanted = self.wanted.entry(id).or_insert_with(|| Wanted {
            txn: txn.clone(),
            askers: Vec::new(),
            forwarded_at: Instant::ZERO,
        });
        if !wanted.askers.contains(&asker) {
            wanted.askers.push(asker);
        }
        if self.leading {
            self.coordinate(txn);
        } else {
            self.forward(id);
        }
    }

    fn forward(&mut self, id: TxnId) {
        let (leader, now) = (self.raft.leader(), self.station.now);
        let Some(wanted) = self.wanted.get_mut(&id) else { return };
        wanted.forwarded_at = now;
        let txn = wanted.txn.clone();
        if let Some(leader) = leader.filter(|leader| *leader != self.station.me) {
            self.send(leader, Message::Forward(txn));
        }
    }

    fn tell(&mut self, asker: Asker, response: Response) {
        match asker {
            Asker::Call(call) => self.station.reply(call, response),
            Asker::Node(node) => self.send(node, Message::Answer(response)),
        }
    }

    /// A transaction has ended: whoever waits for it here hears it.
    fn answer(&mut self, response: Response) {
        if let Some(wanted) = self.wanted.remove(&response.id) {
            for asker in wanted.askers {
                self.tell(asker, response.clone());
            }
        }
    }

    /// A command is chosen; every replica does this, in the same order.
    fn apply(&mut self, command: Command) {
        match command {
            Command::Decide(decision) => self.apply_decision(&decision),
            Command::Prepare(part) => {
                self.prepared.insert(part.attempt, part.clone());
                self.part_is_prepared(&part);
            }
            Command::Finish { attempt, commit } => {
                let Some(part) = self.prepared.remove(&attempt) else { return };
                if commit {
                    self.finished.insert(attempt);
                }
                if commit && !self.ahead.remove(&attempt) {
                    self.write(attempt.id, part.writes.clone());
                }
            }
        }
    }

    fn apply_decision(&mut self, decision: &Arc<Decision>) {
        let (attempt, id) = (decision.attempt, decision.attempt.id);
        self.write(id, decision.writes.clone());
        let outcome = decision.outcome.clone();
        self.done.insert(id, Done { attempt, outcome: outcome.clone() });
        // Participants may ask for long what became of it, so those are kept.
        if decision.txn.shards() == [self.shard] {
            self.done_order.insert((decision.at_ns, id));
        }
        let remember = self.config.remember.as_ns();
        while let Some(&(at, old)) = self.done_order.first()
            && decision.at_ns.saturating_sub(at) > remember
        {
            self.done_order.pop_first();
            self.done.remove(&old);
        }
        self.decision_is_stored(decision);
        self.answer(Response { id, outcome });
    }

    fn write(&mut self, id: TxnId, writes: Writes) {
        if self.config.history && !writes.is_empty() {
            let keys: Vec<Key> = writes.iter().map(|(key, _)| *key).collect();
            self.station.note(Note::Applied { id, at: Ts::ZERO, keys });
        }
        self.store.apply(id, Ts::ZERO, writes);
    }

    fn tick(&mut self) {
        let (now, random) = (self.station.now, self.station.random);
        self.raft.tick(now, random);
        self.station.arm(Timer::Tick, now + TICK);
        if now < self.ask_at {
            return;
        }
        self.ask_at = now + Span::from_ms(50);
        if self.leading {
            self.ask_again();
        } else {
            let retry = self.config.retry_after;
            let late = self.wanted.iter().filter(|(_, w)| now.since(w.forwarded_at) >= retry);
            let late: Vec<TxnId> = late.map(|(id, _)| *id).collect();
            for id in late {
                self.forward(id);
            }
        }
    }
}

impl Rival for Locking {
    type Words = Words;

    fn station(&mut self) -> &mut Station<Words, Timer> {
        &mut self.station
    }

    fn hear(&mut self, from: Node, message: Message) {
        let (now, random) = (self.station.now, self.station.random);
        match message {
            Message::Raft(rpc) => {
                self.raft.hear(from, rpc, now, random);
            }
            Message::Forward(txn) => self.submit(Asker::Node(from), txn),
            Message::Answer(response) => self.answer(response),
            Message::Prepare { attempt, txn, rank } => self.prepare(from, attempt, txn, rank),
            Message::Values { attempt, given } => self.values(attempt, given),
            Message::PullValues { attempt } => self.pull_values(from, attempt),
            Message::Vote { attempt, shard, results, aborted } => {
                self.vote(from, attempt, shard, results, aborted);
            }
            Message::Wounded { attempt } => self.wounded(attempt),
            Message::Decided { attempt, commit } => self.decided(attempt, commit),
            Message::Ask { attempt } => self.ask(from, attempt),
        }
    }

    fn called(&mut self, call: Call, Request(txn): Request) {
        self.submit(Asker::Call(call), txn);
    }

    fn broke(&mut self, peer: Node) {
        self.raft.broken(peer);
    }

    fn remember(&mut self, record: Record) {
        self.raft.replay(record.0);
    }

    fn back(&mut self) {
        self.raft.recovered();
    }

    fn due(&mut self, timer: Timer) {
        if timer == Timer::Tick {
            self.tick();
        }
    }

    fn proceed(&mut self) -> bool {
        if self.applied < self.raft.chosen() {
            self.applied += 1;
            if let Some(command) = self.raft.entry(self.applied).cloned() {
                self.apply(command);
            }
            return true;
        }
        if self.leading != self.raft.leads_surely() {
            self.leading = self.raft.leads_surely();
            self.lead_or_follow();
            return true;
        }
        if let Some(attempt) = self.ready.pop_front() {
            self.advance(attempt);
            return true;
        }
        self.raft.flush();
        let acts = self.raft.take();
        let some = !acts.is_empty();
        for act in acts {
            match act {
                Act::Send(to, rpc) => self.station.send(to, Message::Raft(rpc)),
                Act::SendStored(to, rpc) => self.station.send_stored(to, Message::Raft(rpc)),
                Act::Store(durable) => self.station.record(Record(durable)),
            }
        }
        some
    }
}

station::machine!(Locking);
