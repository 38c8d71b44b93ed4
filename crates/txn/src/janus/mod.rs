//! Janus: replicas say what goes before a transaction, all agree on that, and run components of the
//! graph in one order. Nothing aborts for contention `[dast 3.1]`.
//!
//! **Nodes.** Each replica is a node; so is the front of each shard, where its clients live and
//! coordinate. Unloaded, a transaction takes two round trips: to be given its place, and to run.
//!
//! **What was added** where the source is silent or its code leaves things out. A replica names all
//! that conflicts and came before, and not the last of each key only; what a final transaction has
//! before it is covered by that one ([`message::View::covered`]). A fast path needs all three
//! replicas of each shard to name the same but for what is covered, so a majority of them always
//! says enough to take a transaction over. A circle runs as it was first found, even when one of it
//! waits for a value in between. An inquirer hears of the whole circle that a transaction ran in,
//! because it may be in it itself. A node that comes back without its memory uses no ballot twice.
//! Replicas keep a log, so that they come back.
//!
//! **Reading order.** [`message`], [`graph`], `line`, then `replica`, `coord`.

mod coord;
pub mod graph;
mod line;
pub mod message;
mod replica;

pub use message::{Message, Record, Words};

use crate::client::Request;
use crate::layout::Layout;
use crate::procedure::Procedures;
use crate::station::{self, Rival, Station, TICK};
use crate::store::Store;
use crate::txn::{Key, Shard, TxnId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use cavy_core::family::Node;
use cavy_core::family::message::Call;
use cavy_core::{Instant, Span};
use coord::Coord;
use line::Line;
use replica::{Elsewhere, Info};

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

cavy_core::timers! {
    /// What a node waits for.
    pub enum Timer {
        /// Asking again.
        Tick,
        /// Something counts as run from now on.
        Fake,
        /// More of the same step.
        More,
    }
}

/// A replica, or the front of a shard's clients.
pub struct Janus {
    config: Config,
    /// `None`: a front.
    shard: Option<Shard>,
    procedures: Box<dyn Procedures + Send>,
    station: Station<Words, Timer>,
    /// Drawn at the start: which of the node's lives this is.
    life: u64,
    coords: BTreeMap<TxnId, Coord>,

    store: Store,
    infos: BTreeMap<TxnId, Info>,
    /// Transactions with a place and without final dependencies.
    open: BTreeSet<TxnId>,
    lines: BTreeMap<Key, Line>,
    participants: BTreeMap<TxnId, Arc<[Shard]>>,
    elsewhere: BTreeMap<TxnId, Elsewhere>,
    /// Who is looked at again when something happens to this one.
    waiters: BTreeMap<TxnId, BTreeSet<TxnId>>,
    ready: VecDeque<TxnId>,
    look_at: Instant,
    /// Peers are asked then for what did not get here.
    catch_up_at: Option<Instant>,
}

impl Janus {
    /// The machine of `me`, a replica or a front of `config.layout`.
    ///
    /// # Panics
    /// When the layout has no such node.
    pub fn new(config: Config, me: Node, procedures: impl Procedures + Send + 'static) -> Janus {
        let layout = config.layout;
        assert!(me.0 < layout.nodes_with_fronts(), "{me:?} is no node of the layout");
        Janus {
            shard: layout.shard_of(me),
            config,
            procedures: Box::new(procedures),
            station: Station::new(me),
            life: 0,
            coords: BTreeMap::new(),
            store: Store::new(),
            infos: BTreeMap::new(),
            open: BTreeSet::new(),
            lines: BTreeMap::new(),
            participants: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            waiters: BTreeMap::new(),
            ready: VecDeque::new(),
            look_at: Instant::ZERO,
            catch_up_at: None,
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

impl Rival for Janus {
    type Words = Words;

    fn station(&mut self) -> &mut Station<Words, Timer> {
        &mut self.station
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

    fn born(&mut self) {
        self.life = self.station.random;
    }

    fn called(&mut self, call: Call, request: Request) {
        self.submit(call, request.0);
    }

    fn broke(&mut self, _: Node) {
        self.may_have_missed();
    }

    fn remember(&mut self, record: Record) {
        self.replay(record);
    }

    fn back(&mut self) {
        self.ask_peers();
        self.may_have_missed();
    }

    fn due(&mut self, timer: Timer) {
        match timer {
            Timer::Tick => self.tick(),
            Timer::Fake => self.look_at_fakes(),
            Timer::More => {}
        }
    }

    fn proceed(&mut self) -> bool {
        let Some(id) = self.ready.pop_front() else { return false };
        self.advance(id);
        true
    }
}

station::machine!(Janus);
