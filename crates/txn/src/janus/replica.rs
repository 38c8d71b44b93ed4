//! A replica: places, final dependencies, and what runs when.

use super::graph::{Found, Known, search};
use super::message::{Ballot, Coordinator, Deps, Fate, Message, Record, Status, View};
use super::{Janus, Timer};
use crate::client::{Done, Note, PieceResult};
use crate::procedure::Given;
use crate::txn::{Access, Key, Shard, Ts, Txn, TxnId};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::Instant;
use cavy_core::family::Node;

/// A transaction that touches this shard.
pub(super) struct Info {
    pub txn: Option<Arc<Txn>>,
    pub status: Status,
    by: Option<Coordinator>,
    promised: Ballot,
    accepted: Ballot,
    /// What this replica says goes before it, and what it knows to be covered by that.
    local: Arc<Deps>,
    covered: Arc<BTreeSet<TxnId>>,
    /// What was accepted, or is final.
    deps: Arc<Deps>,
    pub since: Instant,
    /// Who wants to hear what it came to.
    askers: Vec<Node>,
    inquirers: Vec<Node>,
    /// Those it runs together with, itself among them, in their order.
    circle: Option<Arc<[TxnId]>>,
    /// It is its turn, or that of its circle: all that goes before has run. Nobody looks behind it
    /// any more, since what has run of a circle would no longer show where the rest belongs.
    begun: bool,
    /// It has run, and so has all of its circle.
    over: bool,
    results: Vec<PieceResult>,
    given: Given,
    gives: Given,
    aborted: bool,
    done: Option<Done>,
}

impl Info {
    fn new(since: Instant) -> Info {
        Info {
            txn: None,
            status: Status::Unknown,
            by: None,
            promised: Ballot::FIRST,
            accepted: Ballot::FIRST,
            local: Arc::default(),
            covered: Arc::default(),
            deps: Arc::default(),
            since,
            askers: Vec::new(),
            inquirers: Vec::new(),
            circle: None,
            begun: false,
            over: false,
            results: Vec::new(),
            given: Given::new(),
            gives: Given::new(),
            aborted: false,
            done: None,
        }
    }

    fn view(&self) -> View {
        let deps = if self.status == Status::PreAccepted { &self.local } else { &self.deps };
        View {
            status: self.status,
            accepted: self.accepted,
            deps: deps.clone(),
            covered: self.covered.clone(),
        }
    }

    /// It is final what goes before it, and it has not run.
    fn is_committed(&self) -> bool {
        self.status == Status::Committed && self.txn.is_some()
    }

    fn asked_by(&mut self, node: Node) {
        if !self.askers.contains(&node) {
            self.askers.push(node);
        }
    }
}

/// A transaction that does not touch this shard.
pub(super) struct Elsewhere {
    fate: Option<Fate>,
    asked_at: Instant,
    since: Instant,
}

fn accesses(txn: &Txn, shard: Shard) -> impl Iterator<Item = &Access> {
    txn.pieces_on(shard).flat_map(|(_, piece)| &piece.accesses)
}

impl Janus {
    fn info(&mut self, id: TxnId) -> &mut Info {
        let now = self.station.now;
        self.infos.entry(id).or_insert_with(|| Info::new(now))
    }

    fn learn(&mut self, deps: &Deps) {
        for (id, shards) in deps {
            self.participants.entry(*id).or_insert_with(|| shards.clone());
        }
    }

    pub(super) fn replicas_of(&self, shards: &[Shard]) -> Vec<Node> {
        let layout = self.config.layout;
        shards.iter().flat_map(|shard| layout.replicas_of(*shard)).collect()
    }

    /// Gives `txn` its place behind what conflicts with it here.
    fn place(&mut self, txn: &Arc<Txn>, by: Option<Coordinator>) {
        let Some(shard) = self.shard else { return };
        let id = txn.id;
        let (mut named, mut covered) = (BTreeSet::new(), BTreeSet::new());
        for access in accesses(txn, shard) {
            let line = self.lines.entry(access.key).or_default();
            line.before(access.write, &mut named, &mut covered);
        }
        self.line_up(txn);
        covered.retain(|other| !named.contains(other));
        let shards = |id: &TxnId| {
            let txn = self.infos.get(id)?.txn.as_ref()?;
            Some((*id, Arc::from(txn.shards())))
        };
        let local: Arc<Deps> = Arc::new(named.iter().filter_map(shards).collect());
        let covered = Arc::new(covered);
        let info = self.info(id);
        info.txn = Some(txn.clone());
        info.by = by;
        info.status = info.status.max(Status::PreAccepted);
        (info.local, info.covered) = (local.clone(), covered.clone());
        self.open.insert(id);
        self.station.record(Record::PreAccepted { txn: txn.clone(), by, deps: local, covered });
    }

    /// Whoever comes next is behind `txn`.
    fn line_up(&mut self, txn: &Txn) {
        let Some(shard) = self.shard else { return };
        for access in accesses(txn, shard) {
            self.lines.entry(access.key).or_default().join(txn.id, access.write);
        }
    }

    pub(super) fn pre_accept(&mut self, from: Node, txn: Arc<Txn>, by: Coordinator) {
        let id = txn.id;
        let info = self.info(id);
        info.asked_by(from);
        let foreign = info.status != Status::Unknown && info.by != Some(by);
        if info.status < Status::Committed && (foreign || info.promised > Ballot::FIRST) {
            self.send(from, Message::PreAccepted { id, view: None });
            return;
        }
        if info.status == Status::Unknown {
            self.place(&txn, Some(by));
        }
        let view = Some(self.info(id).view());
        self.station.send_stored(from, Message::PreAccepted { id, view });
    }

    pub(super) fn accept(&mut self, from: Node, txn: Arc<Txn>, ballot: Ballot, deps: Arc<Deps>) {
        let id = txn.id;
        if self.info(id).status == Status::Unknown {
            self.place(&txn, None);
        }
        let info = self.info(id);
        info.asked_by(from);
        if info.promised > ballot {
            let promised = Some(info.promised);
            self.send(from, Message::Accepted { id, ballot, promised });
            return;
        }
        if info.status < Status::Committed {
            (info.promised, info.accepted) = (ballot, ballot);
            info.status = Status::Accepted;
            info.deps = deps.clone();
            self.station.record(Record::Accepted { txn, ballot, deps });
        }
        self.station.send_stored(from, Message::Accepted { id, ballot, promised: None });
    }

    pub(super) fn recover(&mut self, from: Node, txn: Arc<Txn>, ballot: Ballot) {
        let id = txn.id;
        let info = self.info(id);
        info.asked_by(from);
        if info.promised > ballot {
            let promised = info.promised;
            self.send(from, Message::Recovered { id, ballot, view: None, promised });
            return;
        }
        info.promised = ballot;
        if info.status == Status::Unknown {
            self.place(&txn, None);
        }
        self.station.record(Record::Promised { txn, ballot });
        let view = Some(self.info(id).view());
        let said = Message::Recovered { id, ballot, view, promised: ballot };
        self.station.send_stored(from, said);
    }

    /// These go before `txn`, for ever.
    pub(super) fn commit(&mut self, from: Option<Node>, txn: &Arc<Txn>, deps: Arc<Deps>) {
        if self.shard.is_none() {
            return;
        }
        let id = txn.id;
        let info = self.info(id);
        if let Some(from) = from {
            info.asked_by(from);
        }
        if info.status >= Status::Committed {
            self.answer(id);
            return;
        }
        self.station.record(Record::Committed { txn: txn.clone(), deps: deps.clone() });
        self.finish(txn, deps);
    }

    /// As [`Janus::commit`], without a record.
    fn finish(&mut self, txn: &Arc<Txn>, deps: Arc<Deps>) {
        let (id, Some(shard)) = (txn.id, self.shard) else { return };
        if self.info(id).status == Status::Unknown {
            self.line_up(txn);
        }
        for access in accesses(txn, shard).filter(|access| access.write) {
            self.lines.entry(access.key).or_default().cover(id, &deps);
        }
        let info = self.info(id);
        info.txn = Some(txn.clone());
        info.status = Status::Committed;
        info.deps = deps.clone();
        let inquirers = core::mem::take(&mut info.inquirers);
        self.open.remove(&id);
        self.learn(&deps);
        for inquirer in inquirers {
            self.tell(inquirer, id);
        }
        self.ready.push_back(id);
        self.wake(id);
    }

    fn wake(&mut self, id: TxnId) {
        self.ready.extend(self.waiters.remove(&id).into_iter().flatten());
    }

    /// Looks whether `root` and all that goes before it can run, and runs what can.
    pub(super) fn advance(&mut self, root: TxnId) {
        let Some(shard) = self.shard else { return };
        let Some(info) = self.infos.get(&root) else { return };
        if info.over {
            return;
        }
        if info.begun {
            let circle = info.circle.clone().unwrap_or_else(|| [root].into());
            self.run_component(root, &circle);
            return;
        }
        if info.status != Status::Committed {
            return;
        }
        let (now, deps) = (self.station.now, info.deps.clone());
        let touches =
            |id: TxnId| self.participants.get(&id).is_none_or(|shards| shards.contains(&shard));
        let known = |id: TxnId| {
            if touches(id) {
                return match self.infos.get(&id) {
                    Some(info) if info.over => Known::Over,
                    Some(info) if info.begun => Known::Behind(self.next_of(id, info)),
                    Some(info) if info.status == Status::Committed => {
                        Known::Before(info.deps.clone())
                    }
                    _ => Known::Behind(id),
                };
            }
            let Some(other) = self.elsewhere.get(&id) else { return Known::Behind(id) };
            if self.config.fake_inquire.is_some_and(|fake| now.since(other.since) >= fake) {
                return Known::Over;
            }
            match &other.fate {
                Some(Fate::Over) => Known::Over,
                Some(Fate::Committed(deps)) => Known::Before(deps.clone()),
                None => Known::Behind(id),
            }
        };
        // Most often one of those that it has before it itself is open: no need to look further.
        let open = deps.keys().filter_map(|dep| match known(*dep) {
            Known::Behind(other) => Some(other),
            Known::Over | Known::Before(_) => None,
        });
        let open: BTreeSet<TxnId> = open.collect();
        let found = if open.is_empty() { search(root, &known) } else { Found::Blocked(open) };
        match found {
            Found::Blocked(blocked) => {
                let away: Vec<TxnId> = blocked.iter().copied().filter(|id| !touches(*id)).collect();
                if let Some(first) = blocked.first() {
                    self.waiters.entry(*first).or_default().insert(root);
                }
                for id in away {
                    self.look_for(id);
                }
            }
            Found::Order(components) => {
                for component in components {
                    self.begin(&component);
                    if !self.run_component(root, &component) {
                        return;
                    }
                }
            }
        }
    }

    /// All that goes before `component` has run: its order is settled.
    fn begin(&mut self, component: &[TxnId]) {
        let circle: Option<Arc<[TxnId]>> = (component.len() > 1).then(|| component.into());
        for id in component {
            if let Some(info) = self.infos.get_mut(id).filter(|info| info.is_committed()) {
                info.circle = circle.clone();
                info.begun = true;
            }
        }
    }

    /// The first of the circle of `id` that has not run.
    fn next_of(&self, id: TxnId, info: &Info) -> TxnId {
        let waits = |id: &&TxnId| self.infos.get(id).is_some_and(|info| info.is_committed());
        info.circle.iter().flat_map(|circle| circle.iter()).find(waits).copied().unwrap_or(id)
    }

    /// Runs the members that touch this shard, in order. False when one waits for a value.
    fn run_component(&mut self, root: TxnId, component: &[TxnId]) -> bool {
        for id in component {
            if self.infos.get(id).is_some_and(Info::is_committed) && !self.run(*id) {
                self.waiters.entry(*id).or_default().insert(root);
                return false;
            }
        }
        for id in component {
            match self.infos.get_mut(id).filter(|info| info.status == Status::Executed) {
                Some(info) => info.over = true,
                // What goes before this one and touches this shard has run.
                None => {
                    if let Some(other) = self.elsewhere.get_mut(id) {
                        other.fate = Some(Fate::Over);
                    }
                }
            }
        }
        true
    }

    /// Runs those pieces that have their values. True when all have run.
    fn run(&mut self, id: TxnId) -> bool {
        let Some(shard) = self.shard else { return false };
        let Some(mut info) = self.infos.remove(&id) else { return false };
        let Some(txn) = info.txn.clone() else { return false };
        let mine: Vec<usize> = txn.pieces_on(shard).map(|(place, _)| place).collect();
        let mut new = false;
        loop {
            let next = mine.iter().copied().find(|place| {
                let ran = info.results.iter().any(|result| usize::from(result.piece) == *place);
                !ran && info.given.has_all(&txn.pieces[*place])
            });
            let Some(place) = next else { break };
            let (run, ops) =
                self.store.run(&mut *self.procedures, &txn, place, &info.given, Ts::ZERO);
            info.aborted |= run.aborted;
            for (var, value) in run.gives {
                info.given.set(var, value.clone());
                info.gives.set(var, value);
                new = true;
            }
            let history = self.config.history;
            if history {
                let keys: Vec<Key> = ops.iter().filter(|op| op.wrote).map(|op| op.key).collect();
                if !keys.is_empty() {
                    self.station.note(Note::Applied { id, at: Ts::ZERO, keys });
                }
            }
            let ops = if history { ops } else { Vec::new() };
            info.results.push(PieceResult { piece: place as u16, result: run.result, ops });
        }
        if new {
            // Each replica tells one of every shard that waits.
            let index = self.config.layout.index_of(self.station.me);
            let takers: Vec<Shard> = txn.takers(shard).collect();
            for taker in takers {
                let to = self.config.layout.replica(taker, index);
                self.send(to, Message::Values { id, given: info.gives.clone() });
            }
        }
        let whole = info.results.len() == mine.len();
        if whole {
            info.status = Status::Executed;
            info.results.sort_by_key(|result| result.piece);
            info.done = Some(Done {
                results: core::mem::take(&mut info.results).into(),
                gives: info.gives.clone(),
                aborted: info.aborted,
            });
        }
        self.infos.insert(id, info);
        if whole {
            self.answer(id);
            self.wake(id);
        }
        whole
    }

    /// Tells everybody who has asked what this shard's part came to.
    fn answer(&mut self, id: TxnId) {
        let Some(shard) = self.shard else { return };
        let Some(info) = self.infos.get_mut(&id) else { return };
        let Some(done) = info.done.clone() else { return };
        for asker in core::mem::take(&mut info.askers) {
            self.send(asker, Message::Output { id, shard, done: done.clone() });
        }
    }

    pub(super) fn pull_output(&mut self, from: Node, id: TxnId) {
        self.info(id).asked_by(from);
        self.answer(id);
    }

    pub(super) fn values(&mut self, id: TxnId, given: &Given) {
        let info = self.info(id);
        for (var, value) in given.iter() {
            info.given.set(*var, value.clone());
        }
        if info.begun {
            self.ready.push_back(id);
        }
    }

    pub(super) fn pull_values(&mut self, from: Node, id: TxnId) {
        if let Some(info) = self.infos.get(&id)
            && info.gives != Given::new()
        {
            let given = info.gives.clone();
            self.send(from, Message::Values { id, given });
        }
    }

    /// Finds out what goes before a transaction that does not touch this shard.
    fn look_for(&mut self, id: TxnId) {
        let now = self.station.now;
        if self.elsewhere.contains_key(&id) {
            return;
        }
        self.elsewhere.insert(id, Elsewhere { fate: None, asked_at: now, since: now });
        if let Some(fake) = self.config.fake_inquire {
            self.station.arm(Timer::Fake, now + fake);
            return;
        }
        let layout = self.config.layout;
        let (Some(shards), Some(own)) = (self.participants.get(&id), self.shard) else { return };
        let region = layout.region_of(own);
        // The nearest that has part in it.
        let near = shards.iter().find(|shard| layout.region_of(**shard) == region);
        if let Some(shard) = near.or(shards.first()) {
            let to = layout.replica(*shard, layout.index_of(self.station.me));
            self.send(to, Message::Inquire { id });
        }
    }

    /// What counted as unknown until now may count as run.
    pub(super) fn look_at_fakes(&mut self) {
        let (now, Some(fake)) = (self.station.now, self.config.fake_inquire) else { return };
        let over = |other: &Elsewhere| now.since(other.since) >= fake;
        let due = self.elsewhere.iter().filter(|(_, other)| over(other));
        let due: Vec<TxnId> = due.map(|(id, _)| *id).collect();
        for id in due {
            self.wake(id);
        }
        let next = self.elsewhere.values().filter(|other| !over(other)).map(|other| other.since);
        if let Some(next) = next.min() {
            self.station.arm(Timer::Fake, next + fake);
        }
    }

    pub(super) fn inquire(&mut self, from: Node, id: TxnId) {
        let info = self.info(id);
        if info.status >= Status::Committed {
            self.tell(from, id);
        } else if !info.inquirers.contains(&from) {
            info.inquirers.push(from);
        }
    }

    /// What ran alone is over: nobody that has not run is before it. What ran in a circle may have
    /// run together with the inquirer's own. What is over here and goes before one that is not is
    /// in no circle with it, so the inquirer need not look for it.
    fn tell(&mut self, to: Node, id: TxnId) {
        let Some(info) = self.infos.get(&id) else { return };
        let of = |says: &dyn Fn(&TxnId) -> bool| {
            let deps = info.deps.iter().filter(|(dep, _)| says(dep));
            Fate::Committed(Arc::new(deps.map(|(dep, shards)| (*dep, shards.clone())).collect()))
        };
        let over = |dep: &TxnId| self.infos.get(dep).is_some_and(|info| info.over);
        let fate = match (&info.circle, info.status) {
            (None, Status::Executed) => Fate::Over,
            (Some(circle), Status::Executed) => of(&|dep| circle.contains(dep)),
            _ => of(&|dep| !over(dep)),
        };
        self.send(to, Message::Told { id, fate });
    }

    pub(super) fn told(&mut self, id: TxnId, fate: Fate) {
        if let (Fate::Committed(deps), Some(shard)) = (&fate, self.shard) {
            self.learn(deps);
            for (dep, _) in deps.iter().filter(|(_, shards)| !shards.contains(&shard)) {
                self.look_for(*dep);
            }
        }
        if let Some(other) = self.elsewhere.get_mut(&id) {
            other.fate = Some(fate);
            self.wake(id);
        }
    }

    /// Asks again for what has not come, and takes over what nobody finishes.
    pub(super) fn ask_again(&mut self) {
        let (now, retry) = (self.station.now, self.config.retry_after);
        let Some(shard) = self.shard else { return };
        let late = |other: &Elsewhere| other.fate.is_none() && now.since(other.asked_at) >= retry;
        let asks: Vec<TxnId> =
            self.elsewhere.iter().filter(|(_, other)| late(other)).map(|(id, _)| *id).collect();
        for id in asks {
            if self.config.fake_inquire.is_some() {
                break;
            }
            if let Some(other) = self.elsewhere.get_mut(&id) {
                other.asked_at = now;
            }
            let shards = self.participants.get(&id).cloned().unwrap_or_default();
            let to = self.replicas_of(&shards);
            self.send_all(&to, &Message::Inquire { id });
        }
        self.ask_for_missing(shard);
        if self.catch_up_at.is_some_and(|at| at <= now) {
            self.catch_up_at = None;
            self.ask_peers();
        }
        // Those that have begun and wait for values.
        let begun = self.waiters.keys().filter_map(|id| {
            let info = self.infos.get(id)?;
            let waits = info.begun && info.status == Status::Committed;
            let txn = info.txn.as_ref()?;
            (waits && now.since(info.since) >= retry).then(|| (*id, txn.clone()))
        });
        let begun: Vec<(TxnId, Arc<Txn>)> = begun.collect();
        for (id, txn) in begun {
            self.info(id).since = now;
            let others: Vec<Shard> = txn.shards().iter().copied().filter(|s| *s != shard).collect();
            let to = self.replicas_of(&others);
            self.send_all(&to, &Message::PullValues { id });
        }
        let index = u64::from(self.config.layout.index_of(self.station.me));
        let suspect = self.config.suspect_after;
        let open = self.open.iter().filter_map(|id| {
            let info = self.infos.get(id)?;
            let txn = info.txn.as_ref()?;
            let first = txn.shards().iter().position(|s| *s == shard).unwrap_or(0) as u64;
            let patience = suspect * (1 + index + 3 * first);
            (now.since(info.since) >= patience).then(|| (*id, txn.clone(), info.promised))
        });
        let open: Vec<(TxnId, Arc<Txn>, Ballot)> = open.collect();
        for (id, txn, promised) in open {
            self.info(id).since = now;
            self.take_over(txn, Vec::new(), promised);
        }
    }

    /// What is final here: all of it, or one transaction.
    pub(super) fn catch_up(&mut self, from: Node, only: Option<TxnId>) {
        let all = self.infos.iter().filter(|(id, info)| {
            info.status >= Status::Committed && only.is_none_or(|only| only == **id)
        });
        let all = all.filter_map(|(_, info)| Some((info.txn.clone()?, info.deps.clone())));
        let all: Arc<[(Arc<Txn>, Arc<Deps>)]> = all.collect();
        if !all.is_empty() {
            self.send(from, Message::Missed { all });
        }
    }

    /// Asks its peers for what something waits for and this replica has never heard of.
    fn ask_for_missing(&mut self, shard: Shard) {
        let here = |id: &&TxnId| {
            self.participants.get(id).is_some_and(|shards| shards.contains(&shard))
                && self.infos.get(id).is_none_or(|info| info.txn.is_none())
        };
        let missing: Vec<TxnId> = self.waiters.keys().filter(here).copied().collect();
        let (now, retry) = (self.station.now, self.config.retry_after);
        let me = self.station.me;
        let peers = self.config.layout.replicas_of(shard).filter(|peer| *peer != me);
        let peers: Vec<Node> = peers.collect();
        for id in missing {
            let info = self.info(id);
            if now.since(info.since) < retry {
                continue;
            }
            info.since = now;
            self.send_all(&peers, &Message::Need { id });
        }
    }

    pub(super) fn replay(&mut self, record: Record) {
        let now = self.station.now;
        match record {
            Record::PreAccepted { txn, by, deps, covered } => {
                self.line_up(&txn);
                let id = txn.id;
                let info = self.info(id);
                info.status = info.status.max(Status::PreAccepted);
                (info.txn, info.by, info.local, info.covered) = (Some(txn), by, deps, covered);
                info.since = now;
                self.open.insert(id);
            }
            Record::Promised { txn, ballot } => {
                let info = self.info(txn.id);
                info.promised = info.promised.max(ballot);
            }
            Record::Accepted { txn, ballot, deps } => {
                let info = self.info(txn.id);
                info.promised = info.promised.max(ballot);
                (info.accepted, info.deps) = (ballot, deps);
                info.status = info.status.max(Status::Accepted);
            }
            Record::Committed { txn, deps } => self.finish(&txn, deps),
        }
    }

    /// Peers know what this replica has missed.
    pub(super) fn ask_peers(&mut self) {
        let Some(shard) = self.shard else { return };
        let peers: Vec<Node> = self.config.layout.replicas_of(shard).collect();
        for peer in peers {
            if peer != self.station.me {
                self.send(peer, Message::CatchUp);
            }
        }
    }

    /// What was under way to here when a channel broke is lost, and whoever sent it may think that
    /// it came. Peers may not have it yet either, so they are asked a little later.
    pub(super) fn may_have_missed(&mut self) {
        let at = self.station.now + self.config.retry_after;
        self.catch_up_at.get_or_insert(at);
    }
}
