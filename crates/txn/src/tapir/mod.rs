//! TAPIR: replicas need not agree on an order. Clients run their transactions on one replica's
//! rows, and all replicas check by timestamps whether that can stand `[dast 3.2]`.
//!
//! **Nodes.** Each replica is a node; so is the front of each shard, where its clients live and
//! coordinate. Unloaded, a transaction takes a round trip to run and one to be prepared; pieces
//! that wait for values of others take one more each.
//!
//! **Failure.** Replicas store what they vote and what they hear, and a coordinator says the end of
//! an attempt until every replica has heard it: a replica comes back by its log, and no view change
//! is needed. A coordinator that fails for ever leaves what it has prepared: the source's backup
//! coordinators are not built.
//!
//! **Reading order.** [`message`], [`versions`], then `coord`.

mod coord;
pub mod message;
pub mod versions;

pub use message::{Message, Record, Words};

use crate::client::{Note, PieceResult, Request};
use crate::layout::Layout;
use crate::procedure::{Given, Procedures};
use crate::station::{self, Rival, Station, TICK};
use crate::store::Writes;
use crate::txn::{Key, Shard, Ts, Txn, TxnId};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_core::family::message::Call;
use coord::{Coord, Finishing};
use message::{Attempt, Part, Ran, Vote};
use versions::Versions;

/// How it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Who is where.
    pub layout: Layout,
    /// With a majority of equal answers, the rest is waited for so long before the slow path.
    pub fast_wait: Span,
    /// What has not come for so long is asked for again.
    pub retry_after: Span,
    /// Strict serializability: the source's linearizable mode.
    pub strict: bool,
    /// After so many tries a transaction is given up; `None`: never.
    pub tries: Option<u32>,
    /// A transaction that was aborted waits for a random time before it begins anew, which doubles
    /// with each try from this up to 32 times as much. Zero: none.
    pub back_off: Span,
    /// The artifact: locks without waiting instead of timestamps, and all replicas must agree.
    pub artifact: bool,
    /// Answers carry versions, and replicas tell what they applied.
    pub history: bool,
}

impl Config {
    /// The source.
    pub fn new(layout: Layout) -> Config {
        Config {
            layout,
            fast_wait: Span::from_ms(50),
            retry_after: Span::from_ms(500),
            strict: false,
            tries: None,
            back_off: Span::from_ms(1),
            artifact: false,
            history: false,
        }
    }

    /// DAST's artifact `[dast 3.2]`.
    pub fn artifact(layout: Layout) -> Config {
        let (tries, back_off) = (Some(20), Span::ZERO);
        Config { artifact: true, tries, back_off, ..Config::new(layout) }
    }
}

cavy_core::timers! {
    /// What a node waits for.
    pub enum Timer {
        /// Asking again.
        Tick,
        /// A transaction begins anew.
        Anew,
        /// More of the same step.
        More,
    }
}

/// A replica, or the front of a shard's clients.
pub struct Tapir<E> {
    config: Config,
    /// `None`: a front.
    shard: Option<Shard>,
    procedures: E,
    station: Station<Words, Timer>,
    rows: Versions,
    /// Attempts whose end was heard here.
    over: BTreeMap<Attempt, Option<Ts>>,
    coords: BTreeMap<TxnId, Coord>,
    finishing: BTreeMap<Attempt, Finishing>,
}

impl<E: Procedures> Tapir<E> {
    /// The machine of `me`, a replica or a front of `config.layout`.
    ///
    /// # Panics
    /// When the layout has no such node.
    pub fn new(config: Config, me: Node, procedures: E) -> Tapir<E> {
        let layout = config.layout;
        assert!(me.0 < layout.nodes_with_fronts(), "{me:?} is no node of the layout");
        Tapir {
            shard: layout.shard_of(me),
            config,
            procedures,
            station: Station::new(me),
            rows: Versions::default(),
            over: BTreeMap::new(),
            coords: BTreeMap::new(),
            finishing: BTreeMap::new(),
        }
    }

    /// The rows of this replica.
    pub fn rows(&self) -> &Versions {
        &self.rows
    }

    /// Transactions that are under way here.
    pub fn backlog(&self) -> usize {
        self.coords.len() + self.finishing.len() + self.rows.prepared()
    }

    fn send(&mut self, to: Node, message: Message) {
        self.station.send(to, message);
    }

    // What replicas do.

    /// Runs pieces on the last versions, and applies nothing.
    fn run(
        &mut self,
        from: Node,
        attempt: Attempt,
        txn: &Arc<Txn>,
        pieces: &[u16],
        mut given: Given,
        mut over: Writes,
    ) {
        let mut ran =
            Ran { results: Vec::new(), gives: Given::new(), part: Part::default(), aborted: false };
        let known = over.len();
        for piece in pieces {
            let place = usize::from(*piece);
            let (run, ops, writes) = self.rows.last().rehearse(
                &mut self.procedures,
                txn,
                place,
                &given,
                Ts::ZERO,
                &over,
            );
            ran.aborted |= run.aborted;
            for op in &ops {
                // The artifact checks what is overwritten too.
                let counts = op.read.is_some_and(|writer| writer != txn.id);
                let first = !ran.part.reads.iter().any(|(key, _)| *key == op.key);
                if (counts || (self.config.artifact && op.wrote)) && first {
                    ran.part.reads.push((op.key, self.rows.last_at(op.key)));
                }
            }
            for (key, value) in writes {
                match over.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => *known = value,
                    None => over.push((key, value)),
                }
            }
            for (var, value) in run.gives {
                given.set(var, value.clone());
                ran.gives.set(var, value);
            }
            let ops = if self.config.history { ops } else { Vec::new() };
            ran.results.push(PieceResult { piece: *piece, result: run.result, ops });
        }
        // All writes of the shard so far: an earlier round's may have changed.
        debug_assert!(over.len() >= known);
        ran.part.writes = over;
        self.send(from, Message::Ran { attempt, ran });
    }

    fn prepare(&mut self, from: Node, attempt: Attempt, ts: Ts, part: Arc<Part>) {
        let vote = if self.over.contains_key(&attempt) {
            Vote::Abort
        } else if self.rows.prepared_at(attempt) == Some(ts) {
            Vote::Fine
        } else {
            self.rows.forget(attempt);
            let vote = if self.config.artifact {
                self.rows.check_locks(&part)
            } else {
                self.rows.check(ts, &part, self.config.strict)
            };
            if vote == Vote::Fine {
                self.rows.prepare(attempt, ts, part.clone());
                self.station.record(Record::Prepared { attempt, ts, part });
            }
            vote
        };
        self.station.send_stored(from, Message::Voted { attempt, ts, vote });
    }

    /// A majority found it fine, so this replica has it among the prepared too.
    fn finalize(&mut self, from: Node, attempt: Attempt, ts: Ts, part: Arc<Part>) {
        if !self.over.contains_key(&attempt) && self.rows.prepared_at(attempt) != Some(ts) {
            self.rows.prepare(attempt, ts, part.clone());
            self.station.record(Record::Prepared { attempt, ts, part });
        }
        self.station.send_stored(from, Message::Finalized { attempt, ts });
    }

    fn finish(&mut self, attempt: Attempt, at: Option<Ts>, part: &Arc<Part>) {
        if self.over.contains_key(&attempt) {
            return;
        }
        self.over.insert(attempt, at);
        self.station.record(Record::Finished { attempt, at, part: part.clone() });
        self.apply(attempt, at, part);
    }

    fn apply(&mut self, attempt: Attempt, at: Option<Ts>, part: &Arc<Part>) {
        let Some(at) = at else {
            self.rows.forget(attempt);
            return;
        };
        self.rows.commit(attempt, at, part);
        if self.config.history && !part.writes.is_empty() {
            let keys: Vec<Key> = part.writes.iter().map(|(key, _)| *key).collect();
            self.station.note(Note::Applied { id: attempt.id, at, keys });
        }
    }
}

impl<E: Procedures> Rival for Tapir<E> {
    type Words = Words;

    fn station(&mut self) -> &mut Station<Words, Timer> {
        &mut self.station
    }

    fn hear(&mut self, from: Node, message: Message) {
        match message {
            Message::Run { attempt, txn, pieces, given, over } => {
                self.run(from, attempt, &txn, &pieces, given, over);
            }
            Message::Ran { attempt, ran } => self.ran(from, attempt, ran),
            Message::Prepare { attempt, ts, part } => self.prepare(from, attempt, ts, part),
            Message::Voted { attempt, ts, vote } => self.voted(from, attempt, ts, vote),
            Message::Finalize { attempt, ts, part } => self.finalize(from, attempt, ts, part),
            Message::Finalized { attempt, ts } => self.finalized(from, attempt, ts),
            Message::Finish { attempt, at, part } => {
                self.finish(attempt, at, &part);
                self.station.send_stored(from, Message::Finished { attempt });
            }
            Message::Finished { attempt } => self.finished(from, attempt),
        }
    }

    fn called(&mut self, call: Call, request: Request) {
        self.submit(call, request.0);
    }

    fn remember(&mut self, record: Record) {
        match record {
            Record::Prepared { attempt, ts, part } => self.rows.prepare(attempt, ts, part),
            Record::Finished { attempt, at, part } => {
                self.over.insert(attempt, at);
                self.apply(attempt, at, &part);
            }
        }
    }

    fn due(&mut self, timer: Timer) {
        match timer {
            Timer::Tick => {
                self.station.arm(Timer::Tick, self.station.now + TICK);
                self.ask_again();
            }
            Timer::Anew => self.begin_anew(),
            Timer::More => {}
        }
    }
}

station::machine!(Tapir);
