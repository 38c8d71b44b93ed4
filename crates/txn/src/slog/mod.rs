//! SLOG: each region has a log, transactions across regions have a global order, and replicas run
//! what is in their region's log as if there were nothing else `[dast 3.3]`.
//!
//! **Nodes.** Each replica is a node, and so are the three stewards of each region: they keep its
//! log by [`crate::raft`], in batches. Some of them also are the orderers, who keep the global
//! order. A region puts its part of the global order into its own log, in that order, so that no
//! two regions wait for each other in a circle.
//!
//! **Data** are where their shard is, as with all rivals here: a region does not ship its log to
//! others, and parts of one transaction send each other values.
//!
//! **Failure.** Stewards store their logs. A replica has nothing to store: it fetches its region's
//! log from the beginning and runs it again.
//!
//! **Reading order.** [`message`], then `steward` (logs), `replica` (locks, running, coordinating).

pub mod message;
mod replica;
mod steward;

pub use message::{Message, Record, Words};

use crate::client::{Done, Request};
use crate::layout::{Layout, Region};
use crate::procedure::{Given, Procedures};
use crate::station::{self, Rival, Station, TICK};
use crate::store::Store;
use crate::txn::{Key, Shard, TxnId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::Call;
use cavy_core::{Instant, Span};
use message::Items;
use replica::{Claim, Coord, Running};
use steward::Steward;

/// Who keeps the global order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Orderer {
    /// One steward of each of the first three regions: it survives the loss of a region.
    Regions,
    /// The three stewards of the first region: a wide-area round trip less.
    FirstRegion,
}

/// How it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Who is where.
    pub layout: Layout,
    /// Who keeps the global order.
    pub orderer: Orderer,
    /// The longest one-way time between orderers.
    pub orderers_away: Span,
    /// Logs grow in steps of so long.
    pub batch: Span,
    /// What has not come for so long is asked for again.
    pub retry_after: Span,
    /// How late the words of a leader that stands may be: one that is silent for 100 ms and four
    /// times this is taken for failed.
    pub leader_late: Span,
    /// The artifact: a piece holds only its own rows, and no more than so many transactions wait
    /// for values. `None`: a transaction holds all its rows of a shard.
    pub lookahead: Option<u32>,
    /// Answers carry versions, and replicas tell what they applied.
    pub history: bool,
}

impl Config {
    /// The source.
    pub fn new(layout: Layout) -> Config {
        Config {
            layout,
            orderer: Orderer::Regions,
            orderers_away: Span::from_ms(50),
            batch: Span::from_ms(5),
            retry_after: Span::from_ms(500),
            leader_late: Span::ZERO,
            lookahead: None,
            history: false,
        }
    }

    /// DAST's artifact `[dast 3.3]`.
    pub fn artifact(layout: Layout) -> Config {
        Config { lookahead: Some(5), ..Config::new(layout) }
    }

    /// The orderers, the first of which leads.
    pub fn orderers(&self) -> Vec<Node> {
        let layout = self.layout;
        match self.orderer {
            Orderer::FirstRegion => layout.stewards_of(Region(0)).collect(),
            Orderer::Regions => {
                let regions = (0..layout.regions.min(3)).map(Region);
                regions.filter_map(|region| layout.stewards_of(region).next()).collect()
            }
        }
    }
}

cavy_core::timers! {
    /// What a node waits for.
    pub enum Timer {
        /// Heartbeats, elections, asking again.
        Tick,
        /// A batch is due.
        Batch,
        /// More of the same step.
        More,
    }
}

/// A replica or a steward.
pub struct Slog {
    config: Config,
    region: Region,
    shard: Option<Shard>,
    procedures: Box<dyn Procedures + Send>,
    station: Station<Words, Timer>,
    steward: Option<Steward>,
    /// Whom this node takes for the sequencer of its region, and for the orderer.
    sequencer: Node,
    orderer: Node,

    store: Store,
    /// The next entry of the region's log; those that came before their turn.
    next: u64,
    ahead: BTreeMap<u64, Items>,
    line: VecDeque<message::Item>,
    running: BTreeMap<TxnId, Running>,
    /// Transactions that have begun and not ended, of those in `running`.
    begun: u32,
    claims: BTreeMap<Key, Vec<Claim>>,
    given: BTreeMap<TxnId, Given>,
    done: BTreeMap<TxnId, Done>,
    pulls: BTreeMap<TxnId, Vec<Node>>,
    coords: BTreeMap<TxnId, Coord>,
    ready: VecDeque<TxnId>,
    look_at: Instant,
    asked: u32,
}

impl Slog {
    /// The machine of `me`, a replica or a steward of `config.layout`.
    ///
    /// # Panics
    /// When the layout has no such node, or there are fewer than three regions for orderers of
    /// three.
    pub fn new(config: Config, me: Node, procedures: impl Procedures + Send + 'static) -> Slog {
        let layout = config.layout;
        assert!(me.0 < layout.nodes(), "{me:?} is no node of the layout");
        let fits = config.orderer == Orderer::FirstRegion || layout.regions >= 3;
        assert!(fits, "orderers in three regions need three regions");
        let region = layout.region_of_node(me);
        let shard = layout.shard_of(me);
        let orderers = config.orderers();
        Slog {
            region,
            shard,
            procedures: Box::new(procedures),
            station: Station::new(me),
            steward: shard.is_none().then(|| Steward::new(&config, me)),
            sequencer: layout.stewards_of(region).next().unwrap_or(me),
            orderer: orderers.first().copied().unwrap_or(me),
            config,
            store: Store::new(),
            next: 1,
            ahead: BTreeMap::new(),
            line: VecDeque::new(),
            running: BTreeMap::new(),
            begun: 0,
            claims: BTreeMap::new(),
            given: BTreeMap::new(),
            done: BTreeMap::new(),
            pulls: BTreeMap::new(),
            coords: BTreeMap::new(),
            ready: VecDeque::new(),
            look_at: Instant::ZERO,
            asked: 0,
        }
    }

    /// The rows of this replica.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Transactions that are under way here.
    pub fn backlog(&self) -> usize {
        self.coords.len() + self.running.len() + self.line.len()
    }

    /// The term of its region's log, at a steward.
    pub fn term(&self) -> Option<u64> {
        self.steward.as_ref().map(Steward::term)
    }

    /// Whom this node takes for the sequencer of its region.
    pub fn sequencer(&self) -> Node {
        self.sequencer
    }

    /// Entries of its region's log that this replica has taken.
    pub fn taken(&self) -> u64 {
        self.next - 1
    }

    fn send(&mut self, to: Node, message: Message) {
        self.station.send(to, message);
    }

    fn send_all(&mut self, to: impl IntoIterator<Item = Node>, message: &Message) {
        for node in to {
            self.station.send(node, message.clone());
        }
    }

    fn tick(&mut self) {
        let now = self.station.now;
        self.station.arm(Timer::Tick, now + TICK);
        self.tick_logs();
        if now >= self.look_at {
            self.look_at = now + Span::from_ms(100);
            if self.steward.is_some() {
                self.ask_for_order();
            } else {
                self.ask_again();
            }
        }
    }
}

impl Rival for Slog {
    type Words = Words;

    fn station(&mut self) -> &mut Station<Words, Timer> {
        &mut self.station
    }

    fn hear(&mut self, from: Node, message: Message) {
        match message {
            Message::Submit(item) => self.sequence(item),
            Message::Order(item) => self.order(item),
            Message::Sequence(rpc) => self.hear_sequence(from, rpc),
            Message::Agree(rpc) => self.hear_agree(from, rpc),
            Message::Deliver { index, items, leads } => {
                if leads {
                    self.sequencer = from;
                }
                self.deliver(index, items);
            }
            Message::Fetch { from: first } => self.fetch(from, first),
            Message::Ordered { index, items, leads } => {
                if leads {
                    self.orderer = from;
                }
                self.ordered(index, items);
            }
            Message::FetchOrdered { from: first } => self.fetch_ordered(from, first),
            Message::Output { id, shard, done } => self.output(id, shard, done),
            Message::PullOutput { id } => self.pull_output(from, id),
            Message::Values { id, given } => self.values(id, &given),
            Message::PullValues { id } => self.pull_values(from, id),
        }
    }

    fn called(&mut self, call: Call, request: Request) {
        self.submit(call, request.0);
    }

    fn broke(&mut self, peer: Node) {
        self.broken(peer);
    }

    fn remember(&mut self, record: Record) {
        self.replay(record);
    }

    fn back(&mut self) {
        self.recovered();
    }

    fn due(&mut self, timer: Timer) {
        match timer {
            Timer::Tick => self.tick(),
            Timer::Batch => self.batch_is_due(),
            Timer::More => {}
        }
    }

    fn proceed(&mut self) -> bool {
        if let Some(id) = self.ready.pop_front() {
            self.advance(id);
            return true;
        }
        self.take_next() || self.logs_move()
    }
}

station::machine!(Slog);
