//! The smallest histories in which Janus once broke its promise, played by hand: every message
//! comes when the test says so.

use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Input, Via};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_txn::client::{Note, Request};
use cavy_txn::janus::message::Deps;
use cavy_txn::janus::{Config, Janus, Message, Record, Timer, Words};
use cavy_txn::registers::{self, Registers};
use cavy_txn::{Key, Layout, Shard, Txn, TxnId, Value, Var};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// One region of four shards: four fronts, who may all ask for rows of the first shard.
const LAYOUT: Layout = Layout::new(1, 4);
const SHARD: Shard = Shard(0);
const KEY: Key = Key::new(0, 0);
const FRONTS: [Node; 4] = [Node(12), Node(13), Node(14), Node(15)];

struct Seat {
    machine: Janus,
    rng: Stream,
    timers: BTreeMap<Timer, Instant>,
    log: Vec<(Entry, Record)>,
    /// What it ran, in order.
    ran: Vec<TxnId>,
    lives: u32,
}

/// Nodes, and what is under way between them.
struct Table {
    seats: Vec<Seat>,
    wires: BTreeMap<(Node, Node), VecDeque<Message>>,
    /// What was said to go before each transaction for ever.
    chosen: BTreeMap<TxnId, BTreeSet<Vec<TxnId>>>,
    now: Instant,
    calls: u64,
}

enum Act {
    Start,
    Hear(Input<Words>),
    Expire(Timer),
}

/// Replicas take over after 3 s and more.
fn fresh(node: Node) -> Janus {
    let suspect_after = Span::from_ms(3_000);
    let config = Config { history: true, suspect_after, ..Config::new(LAYOUT) };
    Janus::new(config, node, Registers::default())
}

impl Table {
    fn new() -> Table {
        let seat = |node: u32| Seat {
            machine: fresh(Node(node)),
            rng: Stream::keyed(1, node, Purpose::Machine),
            timers: BTreeMap::new(),
            log: Vec::new(),
            ran: Vec::new(),
            lives: 1,
        };
        let seats = (0..LAYOUT.nodes_with_fronts()).map(seat).collect();
        let (wires, chosen) = (BTreeMap::new(), BTreeMap::new());
        let mut table = Table { seats, wires, chosen, now: Instant::ZERO, calls: 0 };
        for node in 0..LAYOUT.nodes_with_fronts() {
            table.act(Node(node), Act::Start);
        }
        table
    }

    fn act(&mut self, node: Node, act: Act) {
        let seat = &mut self.seats[node.0 as usize];
        let mut outbox = Outbox::with_capacity(seat.machine.effects_max());
        let mut cx = Cx::new(self.now, &mut seat.rng, &mut outbox);
        match act {
            Act::Start => seat.machine.start(&mut cx),
            Act::Hear(input) => seat.machine.handle(input, &mut cx),
            Act::Expire(timer) => seat.machine.expire(timer, &mut cx),
        }
        let mut upto = None;
        for out in outbox.drain() {
            match out {
                Out::Arm(timer, at) => _ = seat.timers.insert(timer, at),
                Out::Disarm(timer) => _ = seat.timers.remove(&timer),
                Out::Effect(Effect::Send { to, message, .. }) => {
                    if let Message::Commit { txn, deps } = &message {
                        let deps = deps.keys().copied().collect();
                        self.chosen.entry(txn.id).or_default().insert(deps);
                    }
                    self.wires.entry((node, to)).or_default().push_back(message);
                }
                Out::Effect(Effect::Store { entry, record }) => {
                    seat.log.push((entry, record));
                    upto = Some(entry);
                }
                Out::Effect(Effect::Note(Note::Applied { id, .. })) => seat.ran.push(id),
                Out::Effect(_) => {}
            }
        }
        if let Some(upto) = upto {
            self.act(node, Act::Hear(Input::Stored { upto }));
        }
    }

    /// A client asks at a front.
    fn ask(&mut self, front: Node, txn: &Arc<Txn>) {
        self.calls += 1;
        let request = Request(txn.clone());
        self.act(front, Act::Hear(Input::Call { call: Call(self.calls), request }));
    }

    fn hear(&mut self, from: Node, to: Node, message: Message) {
        let (via, arrived) = (Via::Channel, self.now);
        self.act(to, Act::Hear(Input::Rx { from, via, message, arrived }));
    }

    /// What is under way from one node to another arrives.
    fn deliver(&mut self, from: Node, to: Node) {
        let some = self.wires.remove(&(from, to)).unwrap_or_default();
        assert!(!some.is_empty(), "nothing is under way from {from:?} to {to:?}");
        for message in some {
            self.hear(from, to, message);
        }
    }

    /// A question reaches these replicas, and their answers come back.
    fn round(&mut self, front: Node, replicas: &[Node]) {
        for replica in replicas {
            self.deliver(front, *replica);
        }
        for replica in replicas {
            self.deliver(*replica, front);
        }
    }

    /// Everything arrives that is under way between `nodes`, and what follows from it.
    fn flush(&mut self, nodes: &[Node]) {
        loop {
            let among = |(from, to): &&(Node, Node)| nodes.contains(from) && nodes.contains(to);
            let Some((from, to)) = self.wires.keys().find(among).copied() else { return };
            self.deliver(from, to);
        }
    }

    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let seats = self.seats.iter().enumerate();
            let timers = seats.flat_map(|(node, seat)| {
                seat.timers.iter().map(move |(timer, at)| (*at, node as u32, *timer))
            });
            let Some((at, node, timer)) = timers.min().filter(|(at, ..)| *at <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(at);
            self.seats[node as usize].timers.remove(&timer);
            self.act(Node(node), Act::Expire(timer));
        }
    }

    /// A node stops and starts again with its log; what was under way to and from it is lost.
    fn restart(&mut self, node: Node) {
        self.wires.retain(|(from, to), _| *from != node && *to != node);
        let seat = &mut self.seats[node.0 as usize];
        seat.lives += 1;
        let rng = Stream::keyed(u64::from(seat.lives), node.0, Purpose::Machine);
        (seat.machine, seat.rng) = (fresh(node), rng);
        seat.timers.clear();
        seat.ran.clear();
        let log = seat.log.clone();
        self.act(node, Act::Start);
        for (entry, record) in log {
            self.act(node, Act::Hear(Input::Replay { entry, record }));
        }
        self.act(node, Act::Hear(Input::Recovered { torn: false }));
    }

    fn ran(&self, node: Node) -> Vec<u32> {
        self.seats[node.0 as usize].ran.iter().map(|id| id.client).collect()
    }
}

fn id(client: u32) -> TxnId {
    TxnId { client, number: 1 }
}

/// A transaction that writes the key.
fn write(client: u32) -> Arc<Txn> {
    Arc::new(Txn::new(id(client), 0, vec![registers::add(SHARD, KEY, i64::from(client))]))
}

/// More than a front waits for the last of three answers, and less than it waits to ask again.
const PATIENCE: Span = Span::from_ms(70);

/// `early` is the first at replica 0 and comes late to replica 2; `other` is the first elsewhere
/// and does without replica 0; `middle` has `other` before it. Only replica 0 knows that `early`
/// comes before `late`, whose front hears of replicas 0 and 1. That `middle` has `other` before it
/// says nothing of what came before `other`.
#[test]
fn clause_3_1_what_came_before_a_covered_one_is_named() {
    let mut table = Table::new();
    let [early, other, middle, late] = [write(1), write(2), write(3), write(4)];
    let [r0, r1, r2] = [Node(0), Node(1), Node(2)];
    table.ask(FRONTS[0], &early);
    table.ask(FRONTS[1], &other);
    table.deliver(FRONTS[0], r0);
    table.deliver(FRONTS[1], r0);
    table.round(FRONTS[1], &[r1, r2]);
    table.ask(FRONTS[2], &middle);
    table.deliver(FRONTS[2], r0);
    table.round(FRONTS[2], &[r1, r2]);
    table.deliver(FRONTS[0], r2);
    // Both take the slow path with what replicas 1 and 2 said, and are final.
    table.pass(PATIENCE);
    for front in [FRONTS[1], FRONTS[2]] {
        table.round(front, &[r1, r2]);
        for replica in [r0, r1, r2] {
            table.deliver(front, replica);
        }
    }
    table.ask(FRONTS[3], &late);
    table.round(FRONTS[3], &[r0, r1]);
    table.pass(PATIENCE);
    table.round(FRONTS[3], &[r0, r1]);
    table.deliver(r0, FRONTS[0]);
    table.deliver(r2, FRONTS[0]);
    table.pass(PATIENCE);
    table.round(FRONTS[0], &[r0, r2]);
    // Replica 1 hears first how `late` ended, replica 0 how `early` did.
    table.deliver(FRONTS[0], r0);
    table.deliver(FRONTS[3], r1);
    for _ in 0..10 {
        let all: Vec<Node> = (0..16).map(Node).collect();
        table.flush(&all);
        table.pass(Span::from_ms(200));
    }
    assert_eq!(table.ran(r0), table.ran(r1));
    assert_eq!(table.ran(r0), table.ran(r2));
    assert_eq!(table.ran(r0).len(), 4);
}

/// The front of `late` fails before it hears anything. Two replicas say the same of it, and still
/// nobody was quick: the third has never heard of it. What one of the two alone has before it must
/// not get lost when it is taken over.
#[test]
fn clause_3_1_equal_answers_of_two_do_not_say_that_somebody_was_quick() {
    let mut table = Table::new();
    let [early, middle, late] = [write(1), write(2), write(3)];
    let [r0, r1, r2] = [Node(0), Node(1), Node(2)];
    table.ask(FRONTS[0], &early);
    table.ask(FRONTS[1], &middle);
    table.deliver(FRONTS[0], r0);
    table.deliver(FRONTS[1], r0);
    table.round(FRONTS[1], &[r1, r2]);
    table.deliver(FRONTS[0], r2);
    table.pass(PATIENCE);
    table.round(FRONTS[1], &[r1, r2]);
    for replica in [r0, r1, r2] {
        table.deliver(FRONTS[1], replica);
    }
    table.ask(FRONTS[2], &late);
    table.deliver(FRONTS[2], r0);
    table.deliver(FRONTS[2], r1);
    table.wires.remove(&(FRONTS[2], r2));
    // `early` is given its place by replicas 0 and 2.
    table.deliver(r0, FRONTS[0]);
    table.deliver(r2, FRONTS[0]);
    table.pass(PATIENCE);
    table.round(FRONTS[0], &[r0, r2]);
    table.deliver(FRONTS[0], r0);
    table.deliver(FRONTS[0], r2);
    // Replica 0 takes `late` over, with replica 1.
    table.seats[FRONTS[2].0 as usize].timers.clear();
    table.pass(Span::from_ms(3_100));
    table.flush(&[r0, r1]);
    let all: Vec<Node> = (0..16).map(Node).filter(|node| *node != FRONTS[2]).collect();
    for _ in 0..10 {
        table.flush(&all);
        table.pass(Span::from_ms(200));
    }
    assert_eq!(table.ran(r0), table.ran(r1));
    assert_eq!(table.ran(r0), table.ran(r2));
    assert_eq!(table.ran(r0).len(), 3);
}

/// A front that comes back does not know which ballots it has used. It must not use one again, or
/// two different proposals of one ballot are accepted, and whoever takes over chooses the wrong.
#[test]
fn clause_3_1_a_front_that_comes_back_is_somebody_else() {
    let mut table = Table::new();
    let [first, txn] = [write(1), write(2)];
    let [r0, r1, r2] = [Node(0), Node(1), Node(2)];
    let front = FRONTS[0];
    // Replica 0 alone has `first`, and takes nothing over. `txn` has its place everywhere when its
    // front fails.
    table.seats[r0.0 as usize].timers.clear();
    table.ask(FRONTS[1], &first);
    table.deliver(FRONTS[1], r0);
    table.ask(front, &txn);
    for replica in [r0, r1, r2] {
        table.deliver(front, replica);
    }
    // It takes over what it began in its former life: with replicas 1 and 2, and only replica 2
    // accepts before it fails again.
    table.restart(front);
    table.ask(front, &txn);
    table.round(front, &[r1, r2]);
    table.pass(Span::from_ms(600));
    table.round(front, &[r1, r2]);
    table.deliver(front, r2);
    // And once more, with replicas 0 and 1, until it is chosen.
    table.restart(front);
    table.ask(front, &txn);
    table.round(front, &[r0, r1]);
    for _ in 0..8 {
        if !table.chosen.contains_key(&txn.id) {
            table.wires.remove(&(front, r2));
            table.pass(Span::from_ms(600));
            if table.wires.contains_key(&(front, r0)) {
                table.round(front, &[r0, r1]);
            }
        }
    }
    let chosen: Vec<TxnId> = vec![first.id];
    assert_eq!(table.chosen[&txn.id], [chosen.clone()].into());
    // The front is gone for ever. Replicas 1 and 2 end what it has begun.
    table.wires.retain(|(from, _), _| *from != front);
    table.seats[front.0 as usize].timers.clear();
    for _ in 0..60 {
        table.pass(Span::from_ms(200));
        table.flush(&[r1, r2]);
    }
    assert!(!table.ran(r1).contains(&2), "it is behind one of which nobody else has heard");
    assert_eq!(table.chosen[&txn.id], [chosen].into());
}

/// A replica comes back and asks its peers what it has missed. It has never heard of one whose end
/// was lost on the way here and has not come to the peers either.
#[test]
fn clause_3_1_a_replica_that_comes_back_hears_what_its_peers_hear_later() {
    let mut table = Table::new();
    let txn = write(1);
    let [r0, r1, r2] = [Node(0), Node(1), Node(2)];
    table.ask(FRONTS[0], &txn);
    table.round(FRONTS[0], &[r0, r1]);
    table.pass(PATIENCE);
    table.round(FRONTS[0], &[r0, r1]);
    table.restart(r2);
    table.flush(&[r0, r1, r2]);
    for _ in 0..5 {
        table.flush(&[r0, r1, FRONTS[0]]);
        table.flush(&[r0, r1, r2]);
        table.pass(Span::from_ms(200));
    }
    for replica in [r0, r1, r2] {
        assert_eq!(table.ran(replica), [1], "{replica:?}");
    }
}

/// A replica that hears what goes before three transactions, which is a circle: 1 before 2 before
/// 3 by name. The second needs a value from elsewhere.
fn circle(table: &mut Table, replica: Node) -> [Arc<Txn>; 3] {
    let elsewhere = (Shard(1), Key::new(1, 0));
    let waits = registers::copy(elsewhere, (SHARD, KEY), Var(0)).to_vec();
    let all = [write(1), Arc::new(Txn::new(id(2), 0, waits)), write(3)];
    // Each has one before it: 1 has 2, 2 has 3, 3 has 1.
    for (txn, before) in all.iter().zip([2u32, 3, 1]) {
        let shards = all[before as usize - 1].shards();
        let deps: Deps = [(id(before), Arc::from(shards))].into();
        let commit = Message::Commit { txn: txn.clone(), deps: Arc::new(deps) };
        table.hear(FRONTS[3], replica, commit);
    }
    all
}

fn value(table: &mut Table, replica: Node) {
    let mut given = cavy_txn::procedure::Given::new();
    given.set(Var(0), Value::Int(7));
    table.hear(Node(replica.0 + 3), replica, Message::Values { id: id(2), given });
}

#[test]
fn clause_3_1_a_circle_runs_as_it_was_found_though_one_of_it_waits() {
    let mut table = Table::new();
    let [quick, slow] = [Node(0), Node(1)];
    value(&mut table, quick);
    for replica in [quick, slow] {
        circle(&mut table, replica);
    }
    assert_eq!(table.ran(quick), [1, 2, 3]);
    assert_eq!(table.ran(slow), [1]);
    value(&mut table, slow);
    assert_eq!(table.ran(slow), [1, 2, 3]);
}

#[test]
fn clause_3_1_whoever_is_behind_one_of_a_circle_is_behind_all_of_it() {
    let mut table = Table::new();
    let [quick, slow] = [Node(0), Node(1)];
    value(&mut table, quick);
    for replica in [quick, slow] {
        let [first, ..] = circle(&mut table, replica);
        let deps: Deps = [(first.id, Arc::from(first.shards()))].into();
        let commit = Message::Commit { txn: write(4), deps: Arc::new(deps) };
        table.hear(FRONTS[3], replica, commit);
    }
    assert_eq!(table.ran(quick), [1, 2, 3, 4]);
    assert_eq!(table.ran(slow), [1]);
    value(&mut table, slow);
    assert_eq!(table.ran(slow), [1, 2, 3, 4]);
}
