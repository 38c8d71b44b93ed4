//! TAPIR: replicas need not agree on an order. Clients run their transactions on one replica's
//! rows, and all replicas check by timestamps whether that can stand `[dast 3.2]`.
//!
//! **Nodes.** Each replica is a node; so is the front of each shard, where its clients live and
//! coordinate. Unloaded, a transaction takes a round trip to run and one to be prepared; pieces
//! that wait for values of others take one more each.
//!
//! **Failure.** Replicas store what they vote and what they hear, and a coordinator says the end of
//! an attempt until every replica has heard it: a replica comes back by its log, and no view change
//! is needed. What a coordinator that fails leaves prepared, backup coordinators end: replicas that
//! have held it for long.
//!
//! **Reading order.** [`message`], [`versions`], then `coord` and `backup`.

mod backup;
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
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use backup::{Acceptor, Ends, Trial};
use cavy_core::family::Node;
use cavy_core::family::message::Call;
use cavy_core::{Instant, Span};
use coord::{Coord, Finishing};
use message::{Attempt, Ballot, FIRST, Part, Ran, Vote};
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
    /// What has been prepared for so long is ended by a backup coordinator; `None`: never. Longer
    /// than an attempt takes, or backups get in the way of fronts. Where no front fails backups
    /// have nothing to do, and what replicas tell each other for them is saved.
    pub backup_after: Option<Span>,
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
            backup_after: None,
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
pub struct Tapir {
    config: Config,
    /// `None`: a front.
    shard: Option<Shard>,
    procedures: Box<dyn Procedures + Send>,
    station: Station<Words, Timer>,
    rows: Versions,
    /// Attempts whose end was heard here.
    over: BTreeMap<Attempt, Option<Ts>>,
    coords: BTreeMap<TxnId, Coord>,
    finishing: BTreeMap<Attempt, Finishing>,
    /// Since when what is prepared is.
    held_since: BTreeMap<Attempt, Instant>,
    /// What is prepared and was not checked here, or not held ever since.
    unchecked: BTreeSet<Attempt>,
    acceptors: BTreeMap<Attempt, Acceptor>,
    trials: BTreeMap<Attempt, Trial>,
    ends: Ends,
}

impl Tapir {
    /// The machine of `me`, a replica or a front of `config.layout`.
    ///
    /// # Panics
    /// When the layout has no such node.
    pub fn new(config: Config, me: Node, procedures: impl Procedures + Send + 'static) -> Tapir {
        let layout = config.layout;
        assert!(me.0 < layout.nodes_with_fronts(), "{me:?} is no node of the layout");
        Tapir {
            shard: layout.shard_of(me),
            config,
            procedures: Box::new(procedures),
            station: Station::new(me),
            rows: Versions::default(),
            over: BTreeMap::new(),
            coords: BTreeMap::new(),
            finishing: BTreeMap::new(),
            held_since: BTreeMap::new(),
            unchecked: BTreeSet::new(),
            acceptors: BTreeMap::new(),
            trials: BTreeMap::new(),
            ends: Ends::default(),
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
                &mut *self.procedures,
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

    /// Somebody else has taken over this attempt, or an earlier one of the transaction, or that one
    /// took place: a front must wait, or hear how it ended.
    fn is_taken(&mut self, from: Node, attempt: Attempt) -> bool {
        let all = Attempt { round: 0, ..attempt }..=attempt;
        let ended = self.over.range(all.clone()).find_map(|(old, at)| Some((*old, (*at)?)));
        if let Some((attempt, at)) = ended {
            self.station.send_stored(from, Message::Ended { attempt, at });
            return true;
        }
        let mut promised = self.acceptors.range(all).filter(|(_, own)| own.promised > FIRST);
        promised.any(|(old, _)| !self.over.contains_key(old))
    }

    fn prepare(&mut self, from: Node, attempt: Attempt, ts: Ts, part: Arc<Part>) {
        if self.is_taken(from, attempt) {
            return;
        }
        let vote = if self.over.contains_key(&attempt) {
            Vote::Abort
        } else if self.rows.prepared_at(attempt) == Some(ts) {
            Vote::Fine
        } else {
            self.rows.forget(attempt);
            self.held_since.remove(&attempt);
            self.unchecked.remove(&attempt);
            self.acceptors.remove(&attempt);
            let vote = if self.config.artifact {
                self.rows.check_locks(&part)
            } else {
                self.rows.check(ts, &part, self.config.strict)
            };
            if vote == Vote::Fine {
                self.hold(attempt, ts, part);
                self.unchecked.remove(&attempt);
            }
            vote
        };
        self.station.send_stored(from, Message::Voted { attempt, ts, vote });
    }

    /// It is among the prepared from now on, through crashes too.
    fn hold(&mut self, attempt: Attempt, ts: Ts, part: Arc<Part>) {
        self.take_in(attempt, ts, part.clone());
        self.station.record(Record::Prepared { attempt, ts, part });
    }

    fn take_in(&mut self, attempt: Attempt, ts: Ts, part: Arc<Part>) {
        self.rows.prepare(attempt, ts, part);
        self.held_since.insert(attempt, self.station.now);
        self.unchecked.insert(attempt);
    }

    /// A majority found it fine, so this replica has it among the prepared too.
    fn finalize(&mut self, from: Node, attempt: Attempt, ts: Ts, part: Arc<Part>) {
        if self.is_taken(from, attempt) {
            return;
        }
        if self.over.contains_key(&attempt) {
            // A backup saw that it could not have been decided, and it may not be any more.
            self.station.send_stored(from, Message::Dropped { attempt });
            return;
        }
        if self.rows.prepared_at(attempt) != Some(ts) {
            self.hold(attempt, ts, part);
        }
        let accepted = Some((FIRST, Some(ts)));
        let new = self.acceptors.get(&attempt).is_none_or(|own| own.accepted != accepted);
        if new && self.config.backup_after.is_some() {
            let own = Acceptor { accepted, ..Acceptor::default() };
            self.acceptors.insert(attempt, own);
            self.station.record(Record::Accepted { attempt, ballot: FIRST, at: ts });
        }
        self.station.send_stored(from, Message::Finalized { attempt, ts });
    }

    /// True when that is settled here: a backup that was promised the attempt may still decide
    /// otherwise than a front that dropped it.
    fn finish(
        &mut self,
        attempt: Attempt,
        at: Option<Ts>,
        ballot: Ballot,
        part: &Arc<Part>,
    ) -> bool {
        let known = self.over.get(&attempt).copied();
        if matches!(known, Some(Some(_))) || known.is_some() && at.is_none() {
            return true;
        }
        if let Some(at) = at {
            self.keep_end(attempt, at, part);
            self.acceptors.remove(&attempt);
        } else if let Some(own) = self.acceptors.get_mut(&attempt) {
            if ballot < own.promised {
                return false;
            }
            own.accepted = Some((ballot, None));
        }
        self.close(attempt, at);
        self.station.record(Record::Finished { attempt, at, part: part.clone() });
        self.apply(attempt, at, part);
        true
    }

    fn close(&mut self, attempt: Attempt, at: Option<Ts>) {
        self.over.insert(attempt, at);
        self.held_since.remove(&attempt);
        self.unchecked.remove(&attempt);
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

impl Rival for Tapir {
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
            Message::Dropped { attempt } => self.dropped(attempt),
            Message::Finish { attempt, at, ballot, part } => {
                if self.finish(attempt, at, ballot, &part) {
                    self.station.send_stored(from, Message::Finished { attempt });
                }
            }
            Message::Finished { attempt } => self.finished(from, attempt),
            Message::Ended { attempt, at } => self.ended(attempt, at),
            Message::AskState { attempt, ballot, shards } => {
                self.ask_state(from, attempt, ballot, shards);
            }
            Message::TellState { attempt, ballot, state } => {
                self.told_state(from, attempt, ballot, state);
            }
            Message::Settle { attempt, ballot, at, part } => {
                self.accept(from, attempt, ballot, at, part);
            }
            Message::Settled { attempt, ballot } => self.settled(from, attempt, ballot),
            Message::Refused { attempt, ballot } => self.refused(attempt, ballot),
            Message::Ends { upto, ends } => self.hear_ends(from, upto, ends),
            Message::EndsHeard { upto } => self.ends_heard(from, upto),
        }
    }

    fn called(&mut self, call: Call, request: Request) {
        self.submit(call, request.0);
    }

    fn remember(&mut self, record: Record) {
        match record {
            Record::Prepared { attempt, ts, part } => {
                self.over.remove(&attempt);
                if self.acceptors.get(&attempt).is_some_and(|own| own.promised == FIRST) {
                    self.acceptors.remove(&attempt);
                }
                // It may have been dropped between, which no record tells.
                self.take_in(attempt, ts, part);
            }
            Record::Finished { attempt, at, part } => {
                match at {
                    Some(at) => {
                        self.keep_end(attempt, at, &part);
                        self.acceptors.remove(&attempt);
                    }
                    None => {
                        if let Some(own) = self.acceptors.get_mut(&attempt) {
                            own.accepted = Some((own.promised, None));
                        }
                    }
                }
                self.close(attempt, at);
                self.apply(attempt, at, &part);
            }
            Record::Promised { attempt, ballot, shards } => {
                let now = self.station.now;
                let own = self.acceptors.entry(attempt).or_default();
                (own.promised, own.asked) = (ballot, Some((shards, now)));
            }
            Record::Accepted { attempt, ballot, at } => {
                let own = self.acceptors.entry(attempt).or_default();
                own.promised = own.promised.max(ballot);
                own.accepted = Some((ballot, Some(at)));
            }
        }
    }

    fn due(&mut self, timer: Timer) {
        match timer {
            Timer::Tick => {
                self.station.arm(Timer::Tick, self.station.now + TICK);
                self.ask_again();
                self.look_after();
            }
            Timer::Anew => self.begin_anew(),
            Timer::More => {}
        }
    }
}

station::machine!(Tapir);
