//! A small deployment of one protocol with clients of every sort, and the oracles that every run
//! must pass.

use crate::judge;
use cavy_check::Model;
use cavy_core::family::Node;
use cavy_core::family::message::{Protocol, Talker};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::pending::Heap4;
use cavy_lab::statistics::quantile;
use cavy_lab::wan::{Ask, Clients, Ending, Observer, Parts, Report, Setup, Site, Unmetered, run};
use cavy_txn::client::{Note, Outcome, Request, Response};
use cavy_txn::dast::{Config, Dast};
use cavy_txn::janus::{self, Janus};
use cavy_txn::locking::{self, Locking};
use cavy_txn::procedure::Given;
use cavy_txn::registers::{self, Registers};
use cavy_txn::slog::{self, Slog};
use cavy_txn::store::Store;
use cavy_txn::tapir::{self, Tapir};
use cavy_txn::{Key, Layout, Region, Shard, Ts, Txn, TxnId, Value, Var};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Closed clients of each shard.
    pub clients_per_shard: u32,
    /// Of a hundred transactions, how many cross regions.
    pub crt_percent: u64,
    /// Of a hundred, how many of those in one region touch two shards.
    pub two_shards_percent: u64,
    /// Of a hundred, how many have a piece that waits for a value from elsewhere.
    pub dependent_percent: u64,
    /// Of a hundred, how many only read one shard.
    pub read_percent: u64,
    /// Rows of each shard.
    pub rows: u64,
    /// Think time: evenly up to twice this.
    pub think: Span,
    /// So many clients, from the first on, say with each request that it comes after all that
    /// anybody was told before, in any region: what users do who hand causal tokens on.
    pub with_tokens: u32,
    /// After so long a client asks again.
    pub patience: Option<Span>,
}

impl Mix {
    /// A bit of everything on few rows.
    pub fn all() -> Mix {
        Mix {
            clients_per_shard: 4,
            crt_percent: 15,
            two_shards_percent: 20,
            dependent_percent: 30,
            read_percent: 15,
            rows: 6,
            think: Span::from_ms(3),
            with_tokens: 0,
            patience: Some(Span::from_ms(2_000)),
        }
    }

    /// Nothing but transactions of one shard.
    pub fn single_shard() -> Mix {
        let none =
            Mix { crt_percent: 0, two_shards_percent: 0, dependent_percent: 0, ..Mix::all() };
        Mix { read_percent: 0, rows: 1_000, ..none }
    }
}

/// A protocol in a configuration, as tests run it.
pub trait Contestant {
    /// Its machine.
    type Machine: Talker<Protocol = Self::Words, Timer: std::hash::Hash>;
    /// Its types.
    type Words: Protocol<Request = Request, Response = Response, Note = Note>;

    /// Who is where.
    fn layout(&self) -> Layout;
    /// The regions of all nodes, in order.
    fn sites(&self) -> Vec<Region>;
    /// One machine, with histories.
    fn machine(&self, node: Node) -> Self::Machine;
    /// Whom a client asks.
    fn target(&self, client: u32, home: Shard, attempt: u32) -> Node;
    /// Clients run on the node that they ask.
    fn in_client(&self) -> bool {
        false
    }
    /// It goes on when a node fails that is no replica.
    fn fronts_fail(&self) -> bool {
        true
    }
    /// Whoever asked a front is gone with it: a client is part of the front.
    fn clients_fail(&self) -> bool {
        false
    }
    /// What the checker holds it to.
    fn promises(&self) -> Model;
    /// The rows of a replica.
    fn rows(machine: &Self::Machine) -> Vec<(Key, Option<Value>)>;
    /// What is left under way, if anything is.
    fn left(machine: &Self::Machine) -> Option<String>;
    /// Versions have the order of their timestamps, in whatever order replicas apply them.
    fn by_timestamp(&self) -> bool {
        false
    }
    /// Timestamps are a serial order that a fresh store can follow.
    fn has_an_order(&self) -> bool {
        false
    }
}

fn all_rows(store: &Store) -> Vec<(Key, Option<Value>)> {
    store.rows().map(|(key, row)| (*key, row.value.clone())).collect()
}

/// The regions of replicas and of the fronts behind them.
fn with_fronts(layout: Layout) -> Vec<Region> {
    let of = |node: Node| match layout.front_of(node) {
        Some(shard) => layout.region_of(shard),
        None => layout.region_of_node(node),
    };
    (0..layout.nodes_with_fronts()).map(|node| of(Node(node))).collect()
}

fn staffed(layout: Layout, nodes: u32) -> Vec<Region> {
    (0..nodes).map(|node| layout.region_of_node(Node(node))).collect()
}

impl Contestant for Config {
    type Machine = Dast;
    type Words = cavy_txn::dast::Words;

    fn layout(&self) -> Layout {
        self.layout
    }
    fn sites(&self) -> Vec<Region> {
        staffed(self.layout, self.layout.nodes())
    }
    fn machine(&self, node: Node) -> Dast {
        Dast::new(Config { history: true, ..self.clone() }, node, Registers::default())
    }
    fn target(&self, client: u32, home: Shard, attempt: u32) -> Node {
        self.layout.replica(home, client / self.layout.shards() + attempt)
    }
    fn promises(&self) -> Model {
        Model::RegionalSerializable
    }
    fn rows(machine: &Dast) -> Vec<(Key, Option<Value>)> {
        all_rows(machine.store())
    }
    fn left(machine: &Dast) -> Option<String> {
        let whole = machine.is_ready() && machine.backlog() == 0 && !machine.is_stretched();
        (!whole).then(|| {
            format!(
                "{} entries ({:?}), ready {}, stretched {}, {:?}",
                machine.backlog(),
                machine.blocked(),
                machine.is_ready(),
                machine.is_stretched(),
                machine.view()
            )
        })
    }
    fn has_an_order(&self) -> bool {
        true
    }
}

impl Contestant for locking::Config {
    type Machine = Locking;
    type Words = locking::Words;

    fn layout(&self) -> Layout {
        self.layout
    }
    fn sites(&self) -> Vec<Region> {
        staffed(self.layout, self.layout.replica_nodes())
    }
    fn machine(&self, node: Node) -> Locking {
        let config = locking::Config { history: true, ..self.clone() };
        Locking::new(config, node, Registers::default())
    }
    fn target(&self, _: u32, home: Shard, attempt: u32) -> Node {
        self.layout.replica(home, attempt)
    }
    fn promises(&self) -> Model {
        Model::StrictSerializable
    }
    fn rows(machine: &Locking) -> Vec<(Key, Option<Value>)> {
        all_rows(machine.store())
    }
    fn left(machine: &Locking) -> Option<String> {
        (machine.backlog() > 0).then(|| format!("{} transactions", machine.backlog()))
    }
}

impl Contestant for janus::Config {
    type Machine = Janus;
    type Words = janus::Words;

    fn layout(&self) -> Layout {
        self.layout
    }
    fn sites(&self) -> Vec<Region> {
        with_fronts(self.layout)
    }
    fn machine(&self, node: Node) -> Janus {
        let config = janus::Config { history: true, ..self.clone() };
        Janus::new(config, node, Registers::default())
    }
    fn target(&self, _: u32, home: Shard, attempt: u32) -> Node {
        // Another front of the region, should the first have failed.
        let first = self.layout.region_of(home).0 as u32 * self.layout.shards_per_region;
        let nth = (home.0 - first + attempt) % self.layout.shards_per_region;
        self.layout.front(Shard(first + nth))
    }
    fn in_client(&self) -> bool {
        true
    }
    fn promises(&self) -> Model {
        Model::StrictSerializable
    }
    fn rows(machine: &Janus) -> Vec<(Key, Option<Value>)> {
        all_rows(machine.store())
    }
    fn left(machine: &Janus) -> Option<String> {
        (machine.backlog() > 0).then(|| format!("{} transactions", machine.backlog()))
    }
}

impl Contestant for tapir::Config {
    type Machine = Tapir;
    type Words = tapir::Words;

    fn layout(&self) -> Layout {
        self.layout
    }
    fn sites(&self) -> Vec<Region> {
        with_fronts(self.layout)
    }
    fn machine(&self, node: Node) -> Tapir {
        let config = tapir::Config { history: true, ..self.clone() };
        Tapir::new(config, node, Registers::default())
    }
    fn target(&self, _: u32, home: Shard, _: u32) -> Node {
        // A client is where its front is.
        self.layout.front(home)
    }
    fn fronts_fail(&self) -> bool {
        // They do in a test of their own: one that comes back does not know what it asked.
        false
    }
    fn clients_fail(&self) -> bool {
        true
    }
    fn in_client(&self) -> bool {
        true
    }
    fn promises(&self) -> Model {
        if self.strict { Model::StrictSerializable } else { Model::Serializable }
    }
    fn rows(machine: &Tapir) -> Vec<(Key, Option<Value>)> {
        machine.rows().rows().collect()
    }
    fn left(machine: &Tapir) -> Option<String> {
        (machine.backlog() > 0).then(|| format!("{} transactions", machine.backlog()))
    }
    fn by_timestamp(&self) -> bool {
        true
    }
}

impl Contestant for slog::Config {
    type Machine = Slog;
    type Words = slog::Words;

    fn layout(&self) -> Layout {
        self.layout
    }
    fn sites(&self) -> Vec<Region> {
        staffed(self.layout, self.layout.nodes())
    }
    fn machine(&self, node: Node) -> Slog {
        let config = slog::Config { history: true, ..self.clone() };
        Slog::new(config, node, Registers::default())
    }
    fn target(&self, client: u32, home: Shard, attempt: u32) -> Node {
        self.layout.replica(home, client / self.layout.shards() + attempt)
    }
    fn promises(&self) -> Model {
        Model::Serializable
    }
    fn rows(machine: &Slog) -> Vec<(Key, Option<Value>)> {
        all_rows(machine.store())
    }
    fn left(machine: &Slog) -> Option<String> {
        (machine.backlog() > 0).then(|| format!("{} transactions", machine.backlog()))
    }
}

/// Clients, and what they saw.
pub struct Callers {
    /// Who is where.
    pub layout: Layout,
    mix: Mix,
    draws: Stream,
    numbers: Vec<u64>,
    /// What was asked for.
    pub asked: BTreeMap<TxnId, Arc<Txn>>,
    /// And when, at the earliest.
    pub asked_at: BTreeMap<TxnId, Instant>,
    /// Answers, with when they were asked for and came.
    pub answered: BTreeMap<TxnId, (Instant, Instant, Outcome)>,
    /// Never answered.
    pub unknown: Vec<TxnId>,
    /// The latest that anybody was told of.
    token: Ts,
}

impl Callers {
    fn new(layout: Layout, mix: Mix, seed: u64) -> Callers {
        let clients = layout.shards() * mix.clients_per_shard;
        Callers {
            layout,
            mix,
            draws: Stream::keyed(seed, 0, Purpose::Arrivals),
            numbers: vec![0; clients as usize],
            asked: BTreeMap::new(),
            asked_at: BTreeMap::new(),
            answered: BTreeMap::new(),
            unknown: Vec::new(),
            token: Ts::ZERO,
        }
    }

    /// The home shard of a client, numbered from 0.
    pub fn home(&self, client: u32) -> Shard {
        Shard(client % self.layout.shards())
    }

    fn key(&mut self, shard: Shard) -> Key {
        Key::new(u64::from(shard.0), self.draws.below(self.mix.rows))
    }

    fn list(&mut self, shard: Shard) -> Key {
        Key::new(1_000 + u64::from(shard.0), self.draws.below(self.mix.rows))
    }

    fn transaction(&mut self, client: u32) -> Txn {
        let home = self.home(client);
        self.numbers[client as usize] += 1;
        let id = TxnId { client: client + 1, number: self.numbers[client as usize] };
        let region = self.layout.region_of(home);
        let drawn = self.draws.below(100);
        let within: Vec<Shard> = self.layout.shards_of(region).filter(|s| *s != home).collect();
        let all = (0..self.layout.shards()).map(Shard);
        let beyond: Vec<Shard> = all.filter(|s| self.layout.region_of(*s) != region).collect();
        let crosses = drawn < self.mix.crt_percent && !beyond.is_empty();
        let two = self.draws.below(100) < self.mix.two_shards_percent && !within.is_empty();
        let others = if crosses {
            beyond
        } else if two {
            within
        } else {
            Vec::new()
        };
        let mine = self.key(home);
        if others.is_empty() {
            if self.draws.below(100) < self.mix.read_percent {
                let list = self.list(home);
                return Txn::new(id, 0, vec![registers::read(home, &[mine, list])]);
            }
            let list = self.list(home);
            let item = (u64::from(id.client) << 32 | id.number) as i64;
            let pieces = vec![registers::add(home, mine, 1), registers::append(home, list, item)];
            return Txn::new(id, 1, pieces);
        }
        let other = others[self.draws.below(others.len() as u64) as usize];
        let theirs = self.key(other);
        let kind = if crosses { 3 } else { 2 };
        if self.draws.below(100) < self.mix.dependent_percent {
            let (from, to) = ((home, mine), (other, theirs));
            let (from, to) = if self.draws.below(2) == 0 { (from, to) } else { (to, from) };
            return Txn::new(id, kind, registers::copy(from, to, Var(0)).to_vec());
        }
        let amount = self.draws.below(100) as i64;
        let pieces =
            vec![registers::add(home, mine, -amount), registers::add(other, theirs, amount)];
        Txn::new(id, kind, pieces)
    }
}

/// Clients of one contestant.
struct Asking<'a, C> {
    contestant: &'a C,
    callers: &'a mut Callers,
}

impl<C: Contestant> Clients<C::Words> for Asking<'_, C> {
    fn count(&self) -> u32 {
        self.callers.numbers.len() as u32
    }
    fn next(&mut self, client: u32, now: Instant) -> Option<(Instant, Request)> {
        let callers = &mut *self.callers;
        let mut txn = callers.transaction(client);
        if client < callers.mix.with_tokens {
            txn.after = callers.token;
        }
        let txn = Arc::new(txn);
        callers.asked.insert(txn.id, txn.clone());
        let think = Span::from_ns(callers.draws.below(2 * callers.mix.think.as_ns() + 1));
        callers.asked_at.insert(txn.id, now + think);
        Some((now + think, Request(txn)))
    }
    fn target(&mut self, client: u32, _: &Request, attempt: u32) -> Node {
        self.contestant.target(client, self.callers.home(client), attempt)
    }
    fn site(&self, client: u32) -> Option<Site> {
        let home = self.callers.home(client);
        let site = Site(self.callers.layout.region_of(home).0);
        (!self.contestant.in_client()).then_some(site)
    }
    fn patience(&self, _: u32, _: u32) -> Option<Span> {
        self.callers.mix.patience
    }
    fn ended(&mut self, ask: &Ask<C::Words>, now: Instant, ending: Ending<Response>) {
        let id = ask.request.0.id;
        match ending {
            Ending::Answered(response) => {
                assert_eq!(response.id, id);
                if let Outcome::Committed { at, .. } = response.outcome {
                    self.callers.token = self.callers.token.max(at);
                }
                let answer = (ask.since, now, response.outcome);
                let again = self.callers.answered.insert(id, answer);
                assert!(again.is_none(), "{id:?} ended twice");
            }
            Ending::Unknown => self.callers.unknown.push(id),
        }
    }
}

/// What replicas applied, in order, by replica and key.
#[derive(Default)]
pub struct Logs {
    /// The timestamp that each transaction ran at, as whoever ran it says.
    pub ran_at: BTreeMap<TxnId, BTreeSet<Ts>>,
    /// The keys that each wrote somewhere.
    pub wrote: BTreeMap<TxnId, BTreeSet<Key>>,
    /// Writers of each key, by replica, in the order of versions.
    pub writers: BTreeMap<(Node, Key), Vec<(Ts, TxnId)>>,
    /// Writers of each key in the order of their timestamps, where those are an order.
    pub by_time: BTreeMap<Key, BTreeMap<(Ts, TxnId), TxnId>>,
    /// Replicas that took over the rows of others.
    pub copied: BTreeSet<Node>,
    /// And when each did so last.
    pub copied_at: BTreeMap<Node, Instant>,
    timed: bool,
    by_timestamp: bool,
}

impl<M: Talker<Protocol: Protocol<Note = Note>>> Observer<M> for Logs {
    fn note(&mut self, now: Instant, node: Node, note: &Note) {
        match note {
            Note::Applied { id, at, keys } => {
                self.ran_at.entry(*id).or_default().insert(*at);
                self.wrote.entry(*id).or_default().extend(keys);
                for key in keys {
                    if self.timed {
                        self.by_time.entry(*key).or_default().insert((*at, *id), *id);
                    }
                    let writers = self.writers.entry((node, *key)).or_default();
                    let place = match self.by_timestamp {
                        true => writers.partition_point(|(before, _)| before <= at),
                        false => writers.len(),
                    };
                    writers.insert(place, (*at, *id));
                }
            }
            // Its log begins anew with the other's rows.
            Note::Copied { .. } => {
                self.copied.insert(node);
                self.copied_at.insert(node, now);
            }
        }
    }
    fn crashes(&mut self, _: Instant, node: Node, _: &M) {
        // What it applied is gone with its memory; it will say what it applies again.
        self.writers.retain(|(whose, _), _| *whose != node);
    }
}

/// A run that is over.
pub struct Town<C: Contestant> {
    /// Who is where.
    pub layout: Layout,
    promises: Model,
    has_an_order: bool,
    clients_fail: bool,
    /// What clients saw.
    pub callers: Callers,
    /// What replicas applied.
    pub logs: Logs,
    /// The machines that are up.
    pub machines: Vec<Option<C::Machine>>,
    /// What the world counted.
    pub report: Report,
}

/// The network of the source `[dast 4.4]`: 2.5 ms within a region, 50 ms across.
pub fn network<C: Contestant>(contestant: &C) -> Setup {
    let layout = contestant.layout();
    let mut setup = Setup::regions(layout.regions, 1, Span::from_us(2_500), Span::from_ms(50));
    setup.nodes = contestant.sites().iter().map(|region| Site(region.0)).collect();
    setup.duration = Span::from_ms(3_000);
    setup.drain = Span::from_ms(20_000);
    // A region whose clock jumped by 5 s has entries for so long.
    setup.linger = Span::from_ms(8_000);
    setup
}

/// Runs it before an observer of its own. What clients saw.
pub fn watched<C: Contestant>(
    contestant: &C,
    setup: &Setup,
    mix: Mix,
    observer: &mut impl Observer<C::Machine>,
) -> Callers {
    let mut callers = Callers::new(contestant.layout(), mix, setup.seed);
    let parts = Parts {
        clients: &mut Asking { contestant, callers: &mut callers },
        hardware: &mut Unmetered,
        pending: &mut Heap4::new(),
        observer,
    };
    run(setup, |node| contestant.machine(node), parts);
    callers
}

/// Runs it.
pub fn go<C: Contestant>(contestant: &C, setup: &Setup, mix: Mix) -> Town<C> {
    let layout = contestant.layout();
    let mut callers = Callers::new(layout, mix, setup.seed);
    let by_timestamp = contestant.by_timestamp();
    let timed = by_timestamp || contestant.has_an_order();
    let mut logs = Logs { by_timestamp, timed, ..Logs::default() };
    let parts = Parts {
        clients: &mut Asking { contestant, callers: &mut callers },
        hardware: &mut Unmetered,
        pending: &mut Heap4::new(),
        observer: &mut logs,
    };
    let (report, machines) = run(setup, |node| contestant.machine(node), parts);
    let (promises, has_an_order) = (contestant.promises(), contestant.has_an_order());
    let clients_fail = contestant.clients_fail();
    Town { layout, promises, has_an_order, clients_fail, callers, logs, machines, report }
}

impl<C: Contestant> Town<C> {
    /// Latencies of answered transactions of a kind, sorted, in milliseconds.
    pub fn latencies(&self, crt: bool) -> Vec<f64> {
        let of = |id: &TxnId| (self.callers.asked[id].kind == 3) == crt;
        let all = self.callers.answered.iter().filter(|(id, _)| of(id));
        let mut all: Vec<f64> =
            all.map(|(_, (since, now, _))| now.since(*since).as_us() / 1e3).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    /// All oracles. `Err` says which was broken, and how.
    pub fn judge(&self) -> Result<(), String> {
        self.judge_as(self.promises)
    }

    /// All oracles, with what the checker is to hold it to.
    pub fn judge_as(&self, promises: Model) -> Result<(), String> {
        self.everything_ended()?;
        self.replicas_agree()?;
        if self.has_an_order {
            self.order_explains_answers()?;
        }
        judge::holds(&self.callers, &self.logs, promises)
    }

    /// When faults are over, everything that was asked for ends.
    pub fn everything_ended(&self) -> Result<(), String> {
        let gone = |id: &&TxnId| {
            let front = self.layout.front(self.callers.home(id.client - 1));
            self.clients_fail && self.machines[front.0 as usize].is_none()
        };
        let unknown: Vec<&TxnId> = self.callers.unknown.iter().filter(|id| !gone(id)).collect();
        if !unknown.is_empty() {
            let some: Vec<_> = unknown.iter().take(3).collect();
            let all = unknown.len();
            return Err(format!("liveness: {all} never answered, such as {some:?}"));
        }
        for (node, machine) in self.machines.iter().enumerate() {
            if let Some(left) = machine.as_ref().and_then(C::left)
                && (node as u32) < self.layout.replica_nodes()
            {
                return Err(format!("liveness: node {node} is left with {left}"));
            }
        }
        Ok(())
    }

    /// Replicas of a shard hold the same rows.
    pub fn replicas_agree(&self) -> Result<(), String> {
        for shard in (0..self.layout.shards()).map(Shard) {
            let replicas = self.layout.replicas_of(shard);
            let all: Vec<_> = replicas
                .filter_map(|node| Some((node, self.machines[node.0 as usize].as_ref()?)))
                .collect();
            for pair in all.windows(2) {
                let ((a, one), (b, other)) = (&pair[0], &pair[1]);
                let (one, other) = (C::rows(one), C::rows(other));
                if one != other {
                    let first = one.iter().zip(&other).find(|(x, y)| x != y);
                    return Err(format!("replicas {a:?} and {b:?} differ: {first:?}"));
                }
            }
        }
        Ok(())
    }

    /// Run one after another in the order of timestamps, the transactions give the answers that
    /// clients got and the rows that replicas hold; each ran at one timestamp, once.
    pub fn order_explains_answers(&self) -> Result<(), String> {
        let mut order: BTreeMap<(Ts, TxnId), Arc<Txn>> = BTreeMap::new();
        for (id, all) in &self.logs.ran_at {
            if all.len() > 1 {
                return Err(format!("{id:?} ran at {all:?}"));
            }
        }
        for (id, txn) in &self.callers.asked {
            let logged = self.logs.ran_at.get(id).and_then(|all| all.first().copied());
            let answer = self.callers.answered.get(id).and_then(|(_, _, outcome)| match outcome {
                Outcome::Committed { at, .. } => Some(*at),
                _ => None,
            });
            if let (Some(a), Some(b)) = (logged, answer)
                && a != b
            {
                return Err(format!("{id:?} ran at {a:?} and was answered as of {b:?}"));
            }
            if let Some(at) = logged.or(answer) {
                order.insert((at, *id), txn.clone());
            }
        }
        let mut store = Store::new();
        for ((at, id), txn) in &order {
            let mut given = Given::new();
            let mut results: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
            while results.len() < txn.pieces.len() {
                for (index, piece) in txn.pieces.iter().enumerate() {
                    if results.contains_key(&index) || !given.has_all(piece) {
                        continue;
                    }
                    let mut code = Registers::default();
                    let (run, _) = store.run(&mut code, txn, index, &given, *at);
                    for (var, value) in run.gives {
                        given.set(var, value);
                    }
                    results.insert(index, run.result);
                }
            }
            if let Some((_, _, Outcome::Committed { pieces, .. })) = self.callers.answered.get(id) {
                for piece in pieces {
                    let expected = &results[&usize::from(piece.piece)];
                    if *expected != piece.result {
                        return Err(format!(
                            "{id:?} at {at:?}: piece {} gave {:?}, the order says {expected:?}",
                            piece.piece, piece.result
                        ));
                    }
                }
            }
        }
        for shard in (0..self.layout.shards()).map(Shard) {
            let up = self.layout.replicas_of(shard).find(|n| self.machines[n.0 as usize].is_some());
            let Some(machine) = up.and_then(|node| self.machines[node.0 as usize].as_ref()) else {
                continue;
            };
            for (key, value) in C::rows(machine) {
                let expected = store.row(key).map(|row| &row.value);
                if expected != Some(&value) {
                    return Err(format!("{key:?} holds {value:?}, the order says {expected:?}"));
                }
            }
        }
        Ok(())
    }
}

/// The percentile of sorted values.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    quantile::of_sorted(sorted, percent / 100.0).expect("somebody was answered")
}
