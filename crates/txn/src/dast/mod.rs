//! DAST: transactions of one region get the latest timestamp of their region and do not wait for
//! those that cross regions, which get a timestamp in the future `[dast 1, 2]`.
//!
//! **Nodes.** Each replica is a node. So are the three *stewards* of each region (the source's
//! region manager, made of three): one leads, anticipates when a CRT will be decided, and changes
//! the region's view when a node fails; the others take its place.
//!
//! **What was added** where the source says nothing about failure is in `docs/models/dast.md`:
//! views that a majority of stewards agrees on, what a new view asks of its members, decisions that
//! the home shard stores, replicas that come back by a snapshot or by a log of their own.
//!
//! **Reading order.** [`config`], [`clock`], [`message`]; then `replica` (entries in order, and
//! what runs when), `irt` and `crt` (coordinators), `steward`, `view` (who is in, freezing, coming
//! back), `state` (all that a replica has, given and taken over), `disk` (what its log keeps).

pub mod clock;
pub mod config;
mod crt;
mod disk;
mod irt;
pub mod message;
mod queue;
mod replica;
mod state;
mod steward;
mod view;

pub use config::{Bugs, Config, Mode};
pub use message::{Message, Record, Words};
pub use view::{Before, Member, View};

use crate::client::{Outcome, Response};
use crate::layout::Region;
use crate::procedure::{Given, Procedures};
use crate::store::Store;
use crate::txn::{Key, Shard, Ts, Txn, TxnId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::message::{Call, Effect, Entry, Input, Message as _, Talker, Via};
use cavy_core::{Cx, Instant, Machine, Out, Span};
use clock::Clock;
use crt::Coord;
use disk::Reservation;
use message::{Acceptor, Attempt, Body, Done, Group};
use queue::Queue;
use replica::{Claim, Crt, Waiting};
use steward::Steward;
use view::{Peer, Status};

/// Entries that one step runs, and effects that it emits: what is more goes on at once (law 4).
const BATCH: usize = 64;
const EFFECTS: usize = 512;

cavy_core::timers! {
    /// What a node waits for.
    pub enum Timer {
        /// The next report.
        Tick,
        /// Its own clock to pass the first entry.
        Clock,
        /// More of the same step.
        More,
    }
}

/// One node of DAST: a replica, or a steward.
pub struct Dast {
    config: Config,
    me: Node,
    region: Region,
    shard: Option<Shard>,
    procedures: Box<dyn Procedures + Send>,
    rng: u64,
    clock: Clock,
    now: Instant,
    wall: Instant,
    /// When an entry last waited for this node's clock, and what that showed.
    clock_seen: Option<(Instant, u64)>,

    status: Status,
    view: View,
    everyone: Vec<Node>,
    /// How often it has told its clock.
    told: u64,
    /// The first replica of the region, and all of them.
    first_peer: u32,
    peers: Vec<Peer>,
    /// The place among them of one whose clock was waited for.
    slow: usize,
    /// Replicas that have joined and have no state yet.
    joining: BTreeSet<Node>,
    /// Replicas whose state this one waits for; those that have its own; it has rows.
    givers: BTreeSet<Node>,
    state_given: BTreeSet<Node>,
    has_rows: bool,
    /// The first of its lives whose memory it has.
    since: u64,
    /// The view is in force here; and what came of others' states before it was.
    installed: bool,
    snapshots: Vec<(Node, Arc<message::Snapshot>)>,
    /// The last view that came in force here, and the last but one that it was asked about.
    in_force: u64,
    froze: u64,
    /// The orphans that came with the view in force.
    passed_on: Arc<[message::IrtState]>,
    born: bool,
    /// Which life this is, and where the log says so.
    life: u64,
    life_entry: u64,
    /// The log that was read tells of a life, and has what that one heard.
    lived: bool,
    kept: bool,
    /// What it does now it has done before a crash.
    replaying: bool,
    reservation: Reservation,
    /// CRTs below this are finished everywhere.
    settled: u64,
    /// What was stored since everything was, how much that was, and where the log has it.
    log_bytes: u64,
    state_bytes: u64,
    checkpoint: u64,
    /// How often it was taken out since it was started, and had not failed.
    given_up: u32,
    /// Members that it may have missed something of.
    lost: BTreeSet<Member>,
    promise: u64,
    anticipated: Ts,

    store: Store,
    high: Ts,
    queue: Queue,
    waiting: BTreeMap<TxnId, Waiting>,
    claims: BTreeMap<Key, Vec<Claim>>,
    given: BTreeMap<TxnId, Given>,
    /// Values of CRTs that have run here, for other regions.
    given_away: BTreeMap<TxnId, (Ts, Given)>,
    done: BTreeMap<TxnId, Done>,
    done_order: BTreeSet<(Ts, TxnId)>,
    pulls: BTreeMap<TxnId, Vec<Node>>,
    crts: BTreeMap<Attempt, Crt>,
    early: BTreeMap<Attempt, (Ts, bool)>,
    gone: BTreeSet<Attempt>,
    decisions: BTreeMap<Attempt, Acceptor>,

    coords: BTreeMap<TxnId, Coord>,
    unstable: BTreeSet<(Ts, TxnId)>,
    unheld: BTreeSet<(Ts, TxnId)>,
    /// Whom this node takes for the steward of each region.
    stewards: Vec<Node>,
    /// Requests that cannot begin yet.
    held: Vec<(Call, Arc<Txn>)>,

    steward: Option<Steward>,
    appended: u64,
    stored: u64,
    /// Since when the disk has stored nothing of what it is to store.
    waits_for_disk: Option<Instant>,
    after_store: VecDeque<(u64, Node, Body)>,

    sweep_at: Instant,
    open_at: Instant,
    local: VecDeque<Message>,
    out: VecDeque<Out<Effect<Words>, Timer>>,
}

impl Dast {
    /// The machine of `me`, a replica or a steward of `config.layout`.
    ///
    /// # Panics
    /// When the layout has no such node.
    pub fn new(config: Config, me: Node, procedures: impl Procedures + Send + 'static) -> Dast {
        let layout = config.layout;
        assert!(me.0 < layout.nodes(), "{me:?} is not a node of the layout");
        let region = layout.region_of_node(me);
        let view = View::first(&layout, region);
        let replicas: Vec<Node> = layout.replicas_in(region).collect();
        let steward = layout.shard_of(me).is_none().then(|| Steward::new(me, view.clone()));
        let regions = (0..layout.regions).map(Region);
        let firsts = regions.filter_map(|r| layout.stewards_of(r).next()).collect();
        let mut node = Dast {
            me,
            region,
            shard: layout.shard_of(me),
            procedures: Box::new(procedures),
            rng: u64::from(me.0).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            clock: Clock::default(),
            now: Instant::ZERO,
            wall: Instant::ZERO,
            clock_seen: None,
            status: Status::Ready,
            everyone: Vec::new(),
            told: 0,
            first_peer: replicas.first().map_or(0, |node| node.0),
            peers: replicas.iter().map(|_| Peer::new()).collect(),
            slow: 0,
            joining: BTreeSet::new(),
            givers: BTreeSet::new(),
            state_given: BTreeSet::new(),
            has_rows: false,
            since: 1,
            installed: true,
            snapshots: Vec::new(),
            in_force: 1,
            froze: 1,
            passed_on: Arc::from([]),
            born: false,
            life: 1,
            life_entry: 0,
            lived: false,
            kept: false,
            replaying: false,
            reservation: Reservation::default(),
            settled: 0,
            log_bytes: 0,
            state_bytes: 0,
            checkpoint: 0,
            given_up: 0,
            lost: BTreeSet::new(),
            promise: 0,
            anticipated: Ts::ZERO,
            store: Store::new(),
            high: Ts::ZERO,
            queue: Queue::default(),
            waiting: BTreeMap::new(),
            claims: BTreeMap::new(),
            given: BTreeMap::new(),
            given_away: BTreeMap::new(),
            done: BTreeMap::new(),
            done_order: BTreeSet::new(),
            pulls: BTreeMap::new(),
            crts: BTreeMap::new(),
            early: BTreeMap::new(),
            gone: BTreeSet::new(),
            decisions: BTreeMap::new(),
            coords: BTreeMap::new(),
            unstable: BTreeSet::new(),
            unheld: BTreeSet::new(),
            stewards: firsts,
            held: Vec::new(),
            steward,
            appended: 0,
            stored: 0,
            waits_for_disk: None,
            after_store: VecDeque::new(),
            sweep_at: Instant::ZERO,
            open_at: Instant::ZERO,
            local: VecDeque::new(),
            out: VecDeque::new(),
            view,
            config,
        };
        node.set_everyone();
        let reserves = node.keeps_log() && !node.config.bugs.no_reservation;
        node.clock.ceiling = reserves.then_some(0);
        node
    }

    /// The rows of this replica.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// It is in its region's view and has its state.
    pub fn is_ready(&self) -> bool {
        self.status == Status::Ready
    }

    /// The view that it is in.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// In which of its lives it is; it begins another when it gives up its state.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Entries that have not run wholly.
    pub fn backlog(&self) -> usize {
        self.queue.len() + self.waiting.len()
    }

    /// Transactions that it coordinates.
    pub fn coordinating(&self) -> usize {
        self.coords.len()
    }

    /// CRTs hold its clock.
    pub fn is_stretched(&self) -> bool {
        !self.clock.is_free()
    }

    fn next_ts(&mut self) -> Ts {
        self.clock.next(self.wall, self.me.0, self.config.physical_k)
    }

    fn peek_ts(&self) -> Ts {
        self.clock.peek(self.wall, self.me.0, self.config.physical_k)
    }

    fn draw(&mut self, n: u64) -> u64 {
        // The machine's stream seeds this one each step: see `begin`.
        self.rng = self.rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.rng >> 33) % n.max(1)
    }

    fn send(&mut self, to: Node, body: Body) {
        let message = Message { view: self.view.number, body };
        if to == self.me {
            self.local.push_back(message);
        } else {
            let via = Via::Channel;
            self.out.push_back(Out::Effect(Effect::Send { to, via, message }));
        }
    }

    fn send_all(&mut self, to: impl IntoIterator<Item = Node>, body: &Body) {
        for node in to {
            self.send(node, body.clone());
        }
    }

    fn cast(&mut self, body: Body) {
        self.cast_to(Group::Region, body);
    }

    fn cast_to(&mut self, to: Group, body: Body) {
        let message = Message { view: self.view.number, body };
        let cast = Effect::Cast { to, via: Via::Channel, message };
        self.out.push_back(Out::Effect(cast));
    }

    /// A report of a replica, which stewards need not hear each time.
    fn tell_clock(&mut self, report: Body) {
        self.told += 1;
        let all = self.told.is_multiple_of(u64::from(self.config.stewards_every.max(1)));
        self.cast_to(if all { Group::Region } else { Group::Replicas }, report);
    }

    /// How often it looks at what time brings.
    fn between_ticks(&self) -> Span {
        let every = if self.steward.is_some() { self.config.stewards_every } else { 1 };
        self.config.sync * u64::from(every.max(1))
    }

    fn arm(&mut self, timer: Timer, at: Instant) {
        self.out.push_back(Out::Arm(timer, at));
    }

    fn record(&mut self, record: Record) -> u64 {
        self.appended += 1;
        let entry = Entry(self.appended);
        self.log_bytes += record.wire_bytes();
        self.waits_for_disk.get_or_insert(self.now);
        self.out.push_back(Out::Effect(Effect::Store { entry, record }));
        self.appended
    }

    fn reply(&mut self, call: Call, id: TxnId, outcome: Outcome) {
        let response = Response { id, outcome };
        self.out.push_back(Out::Effect(Effect::Reply { call, response }));
    }

    fn begin(&mut self, cx: &mut Cx<'_, Effect<Words>, Timer>) {
        self.now = cx.now();
        self.wall = cx.wall();
        if self.steward.is_some() {
            self.rng = cx.rng().bits();
        }
    }

    /// What the step left to itself, then everything that may run now, then what goes out.
    fn end(&mut self, cx: &mut Cx<'_, Effect<Words>, Timer>) {
        while let Some(message) = self.local.pop_front() {
            self.hear(self.me, message);
        }
        if self.status == Status::Ready && !self.queue.is_empty() && !self.waits_as_before() {
            self.run_what_may_run();
            while let Some(message) = self.local.pop_front() {
                self.hear(self.me, message);
            }
        }
        for _ in 0..EFFECTS {
            match self.out.pop_front() {
                None => return,
                Some(Out::Effect(effect)) => cx.emit(effect),
                Some(Out::Arm(timer, at)) => cx.arm(timer, at),
                Some(Out::Disarm(timer)) => cx.disarm(timer),
            }
        }
        cx.arm(Timer::More, cx.now());
    }

    fn hear(&mut self, from: Node, message: Message) {
        let layout = self.config.layout;
        let own_region = layout.region_of_node(from) == self.region;
        if own_region && from != self.me && !self.admits(from, &message) {
            return;
        }
        // What a steward anticipated in a view that is over counts as the new view knows it: a late
        // word of an old steward would hold clocks that nobody lets go.
        let anticipates = matches!(message.body, Body::PrepareCrt { .. } | Body::NoteCrt { .. });
        if anticipates && message.view < self.view.number {
            return;
        }
        self.take(from, message.body);
    }

    /// A message that is heard, or was before a crash.
    fn take(&mut self, from: Node, body: Body) {
        match body {
            Body::PrepareIrt { txn, ts } => self.prepare_irt(from, txn, ts),
            Body::AckIrt { id, ts, clock } => self.ack_irt(from, id, ts, clock),
            Body::Stable { id, ts } => self.stable(id, ts),
            Body::Report { clock, stable, held } => self.report(from, clock, stable, held),
            Body::Output { id, shard, done } => self.output(id, shard, *done),
            Body::Values { id, given } => self.values(id, given),
            Body::PullValues { id } => self.pull_values(from, id),
            Body::PullOutput { id } => self.pull_output(from, id),
            Body::PrepareCrt { txn, attempt, a, leader } => {
                self.prepare_crt(from, txn, attempt, a, leader);
            }
            Body::NoteCrt { attempt, a } => self.note_crt(attempt, a),
            Body::CrtAck { attempt, shard, a, leads } => {
                self.crt_ack(from, attempt, shard, a, leads);
            }
            Body::CrtNack { attempt } => self.crt_nack(attempt),
            Body::Decide { attempt, ballot, value } => self.decide(from, attempt, ballot, value),
            Body::Decided { attempt, ballot, accepted } => {
                self.decided(from, attempt, ballot, accepted);
            }
            Body::AskDecision { attempt, ballot } => self.ask_decision(from, attempt, ballot),
            Body::CommitCrt { attempt, f, waits } => self.commit_crt(from, attempt, f, waits),
            Body::Release { attempt, hold } => self.release(attempt, hold),
            Body::AbortCrt { attempt } => self.abort_crt(attempt),
            Body::RegionDone { attempt } => self.region_done(from, attempt),
            Body::Outcome { attempt, value } => self.outcome(attempt, value),
            Body::StewardReport { promise, settled } => {
                self.steward_report(from, promise, settled);
            }
            Body::NewSteward => self.new_steward(from),
            Body::Freeze { view } => self.freeze(from, *view),
            Body::Install { number, orphans, floor } => self.install(number, orphans, floor),
            Body::Outside { number } => self.outside(number),
            Body::ComeAgain { life } => self.come_again(life),
            Body::Snapshot(snapshot) => self.take_snapshot(from, &snapshot),
            Body::Open { attempts } => self.forget_decisions(from, &attempts),
            Body::Ready { life } => {
                let member = Member { node: from, life };
                if self.view.has(member) {
                    self.joining.remove(&from);
                }
                self.steward_knows_ready(member);
            }
            body => self.steward_hears(from, body),
        }
    }

    fn tick(&mut self) {
        self.be_born();
        self.look_after_log();
        if self.steward.is_some() {
            self.steward_tick();
        } else if matches!(self.status, Status::Out | Status::Cold) {
            self.send_join();
        } else {
            if !self.has_no_disk() {
                self.report_clock();
            }
            self.complain();
            self.begin_held();
        }
        if self.steward.is_none() && self.now >= self.sweep_at {
            self.sweep_at = self.now + Span::from_ms(50);
            self.ask_again();
        }
        self.arm(Timer::Tick, self.now + self.between_ticks());
    }
}

impl Talker for Dast {
    type Protocol = Words;

    fn members(&self, group: Group) -> &[Node] {
        match group {
            Group::Region => &self.everyone,
            Group::Replicas => &self.view.live,
        }
    }
}

impl Machine for Dast {
    type Input = Input<Words>;
    type Effect = Effect<Words>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        EFFECTS + 1
    }

    fn start(&mut self, cx: &mut Cx<'_, Effect<Words>, Timer>) {
        self.begin(cx);
        // Reports of different nodes do not come at one moment.
        let phase = Span::from_ns(cx.rng().below(self.config.sync.as_ns().max(1)));
        self.arm(Timer::Tick, self.now + phase);
        self.steward_starts();
        self.end(cx);
    }

    fn handle(&mut self, input: Input<Words>, cx: &mut Cx<'_, Effect<Words>, Timer>) {
        self.begin(cx);
        match input {
            Input::Rx { from, message, .. } => self.hear(from, message),
            Input::Call { call, request } => self.submit(call, request.0),
            Input::Broken { peer } => self.broken(peer),
            Input::Stored { upto } => self.stored(upto),
            Input::Replay { entry, record } => {
                self.appended = entry.0;
                self.stored = entry.0;
                self.replay(record);
                return;
            }
            Input::Recovered { .. } => self.recovered(),
            Input::WorkDone { .. } => {}
        }
        self.end(cx);
    }

    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect<Words>, Timer>) {
        self.begin(cx);
        match timer {
            Timer::Tick => self.tick(),
            Timer::Clock | Timer::More => {}
        }
        self.end(cx);
    }

    fn check(&self) {
        if let Some((first, _)) = self.queue.first_key_value() {
            let runs_unordered = self.config.bugs != Bugs::default();
            assert!(runs_unordered || first.0 > self.high, "an entry is behind what has run");
        }
        assert!(self.queue.values().all(|queued| queued.txn.shards().contains(&queued.shard)));
    }
}
