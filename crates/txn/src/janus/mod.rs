//! Janus: replicas say what goes before a transaction, all agree on that, and run components of the
//! graph in one order. Nothing aborts for contention `[dast 3.1]`.
//!
//! **Nodes.** Each replica is a node; so is the front of each shard, where its clients live and
//! coordinate. Unloaded, a transaction takes two round trips: to be given its place, and to run.
//!
//! **What was added** where the source is silent or its code leaves things out: a fast path needs
//! the same answer of all three replicas of each shard; the slow path takes along what may hide
//! behind an answer ([`message::View::beyond`]); an inquirer hears of the whole circle that a
//! transaction ran in, because it may be in it itself; recovery of what a coordinator left, and a
//! log, so that replicas come back.
//!
//! **Reading order.** [`message`], [`graph`], then `replica`, `coord`.

mod coord;
pub mod graph;
pub mod message;
mod replica;

pub use message::{Message, Record, Words};

use crate::layout::Layout;
use crate::procedure::Procedures;
use crate::station::{EFFECTS, Station};
use crate::store::Store;
use crate::txn::{Key, Shard, TxnId};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Effect, Input, Talker};
use cavy_core::{Cx, Instant, Machine, Span};
use coord::Coord;
use replica::{Elsewhere, Info, Last};

/// How it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Who is where.
    pub layout: Layout,
    /// With a majority of equal answers, the rest is waited for so long before the slow path.
    pub fast_wait: Span,
    /// What has not come for so long is asked for again.
    pub retry_after: Span,
    /// A transaction that is open for so long is taken over.
    pub suspect_after: Span,
    /// The artifact: nobody inquires; what does not touch a shard counts as run so long after it
    /// was first looked for.
    pub fake_inquire: Option<Span>,
    /// Answers carry versions, and replicas tell what they applied.
    pub history: bool,
}

impl Config {
    /// Defaults.
    pub fn new(layout: Layout) -> Config {
        Config {
            layout,
            fast_wait: Span::from_ms(50),
            retry_after: Span::from_ms(500),
            suspect_after: Span::from_ms(1_000),
            fake_inquire: None,
            history: false,
        }
    }
}

/// What a node waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// Asking again.
    Tick,
    /// Something counts as run from now on.
    Fake,
    /// More of the same step.
    More,
}

const TICK: Span = Span::from_ms(10);

/// A replica, or the front of a shard's clients.
pub struct Janus<E> {
    config: Config,
    /// `None`: a front.
    shard: Option<Shard>,
    procedures: E,
    station: Station<Words, Timer>,
    /// Drawn at the start: which of the node's lives this is.
    life: u64,
    coords: BTreeMap<TxnId, Coord>,

    store: Store,
    infos: BTreeMap<TxnId, Info>,
    /// Transactions with a place and without final dependencies.
    open: BTreeSet<TxnId>,
    index: BTreeMap<Key, Last>,
    participants: BTreeMap<TxnId, Arc<[Shard]>>,
    elsewhere: BTreeMap<TxnId, Elsewhere>,
    /// Who is looked at again when something happens to this one.
    waiters: BTreeMap<TxnId, BTreeSet<TxnId>>,
    ready: VecDeque<TxnId>,
    look_at: Instant,
    nobody: Vec<Node>,
}

impl<E: Procedures> Janus<E> {
    /// The machine of `me`, a replica or a front of `config.layout`.
    ///
    /// # Panics
    /// When the layout has no such node.
    pub fn new(config: Config, me: Node, procedures: E) -> Janus<E> {
        let layout = config.layout;
        assert!(me.0 < layout.nodes_with_fronts(), "{me:?} is no node of the layout");
        Janus {
            shard: layout.shard_of(me),
            config,
            procedures,
            station: Station::new(me),
            life: 0,
            coords: BTreeMap::new(),
            store: Store::new(),
            infos: BTreeMap::new(),
            open: BTreeSet::new(),
            index: BTreeMap::new(),
            participants: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            waiters: BTreeMap::new(),
            ready: VecDeque::new(),
            look_at: Instant::ZERO,
            nobody: Vec::new(),
        }
    }

    /// The rows of this replica.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Transactions that are under way here.
    pub fn backlog(&self) -> usize {
        let waiting: usize = self.waiters.values().map(BTreeSet::len).sum();
        self.coords.len() + self.open.len() + waiting
    }

    fn send(&mut self, to: Node, message: Message) {
        self.station.send(to, message);
    }

    fn send_all(&mut self, to: &[Node], message: &Message) {
        for node in to {
            self.station.send(*node, message.clone());
        }
    }

    fn settle(&mut self, cx: &mut Cx<'_, Effect<Words>, Timer>) {
        loop {
            if let Some(message) = self.station.next_local() {
                self.hear(self.station.me, message);
            } else if let Some(id) = self.ready.pop_front() {
                self.advance(id);
            } else {
                break;
            }
        }
        self.station.end(Timer::More, cx);
    }

    fn hear(&mut self, from: Node, message: Message) {
        match message {
            Message::PreAccept { txn, by } => self.pre_accept(from, txn, by),
            Message::PreAccepted { id, view } => self.pre_accepted(from, id, view),
            Message::Accept { txn, ballot, deps } => self.accept(from, txn, ballot, deps),
            Message::Accepted { id, ballot, promised } => {
                self.accepted(from, id, ballot, promised);
            }
            Message::Commit { txn, deps } => self.commit(Some(from), &txn, deps),
            Message::Output { id, shard, done } => self.output(id, shard, done),
            Message::PullOutput { id } => self.pull_output(from, id),
            Message::Values { id, given } => self.values(id, &given),
            Message::PullValues { id } => self.pull_values(from, id),
            Message::Inquire { id } => self.inquire(from, id),
            Message::Told { id, fate } => self.told(id, fate),
            Message::Recover { txn, ballot } => self.recover(from, txn, ballot),
            Message::Recovered { id, ballot, view, promised } => {
                self.recovered(from, id, ballot, view, promised);
            }
            Message::CatchUp => self.catch_up(from, None),
            Message::Need { id } => self.catch_up(from, Some(id)),
            Message::Missed { all } => {
                for (txn, deps) in all.iter() {
                    self.commit(None, txn, deps.clone());
                }
            }
        }
    }

    fn tick(&mut self) {
        let now = self.station.now;
        self.station.arm(Timer::Tick, now + TICK);
        self.push_coords();
        if now >= self.look_at {
            self.look_at = now + Span::from_ms(50);
            self.ask_again();
        }
    }
}

impl<E: Procedures> Talker for Janus<E> {
    type Protocol = Words;

    fn members(&self, (): ()) -> &[Node] {
        &self.nobody
    }
}

impl<E: Procedures> Machine for Janus<E> {
    type Input = Input<Words>;
    type Effect = Effect<Words>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        EFFECTS + 1
    }

    fn start(&mut self, cx: &mut Cx<'_, Effect<Words>, Timer>) {
        self.station.begin(cx);
        self.life = self.station.random;
        let phase = Span::from_ns(cx.rng().below(TICK.as_ns()));
        self.station.arm(Timer::Tick, self.station.now + phase);
        self.station.end(Timer::More, cx);
    }

    fn handle(&mut self, input: Input<Words>, cx: &mut Cx<'_, Effect<Words>, Timer>) {
        self.station.begin(cx);
        match input {
            Input::Rx { from, message, .. } => self.hear(from, message),
            Input::Call { call, request } => self.submit(call, request.0),
            Input::Stored { upto } => self.station.stored(upto),
            Input::Replay { entry, record } => {
                self.station.replayed(entry);
                self.replay(record);
            }
            Input::Recovered { .. } => self.is_back(),
            Input::Broken { .. } | Input::WorkDone { .. } => {}
        }
        self.settle(cx);
    }

    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect<Words>, Timer>) {
        self.station.begin(cx);
        match timer {
            Timer::Tick => self.tick(),
            Timer::Fake => self.look_at_fakes(),
            Timer::More => {}
        }
        self.settle(cx);
    }
}
