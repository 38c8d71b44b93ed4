//! Visits through their steps: calls, answers, threads, patience, and the requests of clients.

use super::super::network::{Arriving, Balance, Cache};
use super::super::program::{NO_POOL, Op};
use super::super::replica::{NONE, Parcel};
use super::super::report::{Done, Ended, Observer};
use super::{Doing, FOR_A_CORE, Mark, NO_LOCK, Plan, Visit, World, entry};
use crate::pending::{Class, Pending};
use cavy_core::family::probe::{Controller, Input};
use cavy_core::{Instant, Span};

/// Mixes 64 bits, so that keys which differ little give numbers that have nothing in common.
#[inline]
fn mix(key: u64) -> u64 {
    let mut x = key.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The number that a visit draws at an operation.
#[inline]
fn draw(key: u64, pc: u32, round: u16) -> u64 {
    mix(key ^ (u64::from(pc) << 20 | u64::from(round)).wrapping_mul(0xD6E8_FEB8_6659_FD93))
}

/// What messages draw, apart from operations.
const HOP_ASKING: u32 = u32::MAX - 1;
const HOP_ANSWERING: u32 = u32::MAX - 2;
const CHOICE: u32 = u32::MAX - 3;

const NOBODY: Visit = Visit {
    key: 0,
    due: Instant::NEVER,
    left: Span::ZERO,
    patience: Instant::NEVER,
    began: Instant::ZERO,
    began_virtual: Instant::ZERO,
    turn: 0,
    pc: 0,
    replica: 0,
    parent: NONE,
    parent_born: 0,
    born: 0,
    call: NONE,
    client: NONE,
    number: 0,
    awaited: 0,
    round: 0,
    tries: 0,
    lock: NO_LOCK,
    doing: Doing::Nothing,
    on_core: false,
    counted: false,
    has_thread: false,
    has_place: false,
    failed: false,
};

impl<C, P, O> World<'_, C, P, O>
where
    C: Controller,
    P: Pending,
    O: Observer<C::Finding>,
{
    fn name(&mut self) -> Option<u32> {
        if let Some(visit) = self.free.pop() {
            let born = self.visits[visit as usize].born + 1;
            self.visits[visit as usize] = Visit { born, ..NOBODY };
            return Some(visit);
        }
        if self.visits.len() as u32 == entry::MOST {
            self.end(Ended::Crowded);
            return None;
        }
        self.visits.push(NOBODY);
        Some(self.visits.len() as u32 - 1)
    }

    fn forget(&mut self, visit: u32) {
        self.visits[visit as usize].doing = Doing::Nothing;
        self.free.push(visit);
    }

    pub(super) fn start_clients(&mut self) {
        for crowd in 0..self.crowds.len() as u32 {
            match self.setup.network.clients[crowd as usize].arriving {
                Arriving::Closed { population, .. } => {
                    for client in 0..population {
                        self.client(crowd, client);
                    }
                }
                Arriving::Open { .. } => self.next_newcomer(crowd),
            }
        }
    }

    /// A client, with its first request.
    fn client(&mut self, crowd: u32, client: u32) {
        let Some(visit) = self.name() else { return };
        let of_clients = mix(self.setup.seed ^ mix(u64::from(crowd) << 32 | u64::from(client)));
        let it = &mut self.visits[visit as usize];
        it.client = client;
        it.key = mix(of_clients);
        it.replica = self.crowds[crowd as usize].group;
        it.pc = self.crowds[crowd as usize].start;
        it.doing = Doing::Going;
        self.going.push_back(visit);
    }

    fn next_newcomer(&mut self, crowd: u32) {
        let seed = self.setup.seed ^ mix(u64::from(crowd) << 32);
        let one = &mut self.crowds[crowd as usize];
        let Some(gap) = &one.gap else { return };
        let number = one.arrived;
        one.next += gap.at(|| draw(seed, HOP_ASKING, 0) ^ mix(seed ^ u64::from(number)));
        one.arrived += 1;
        let stood = self.replicas[one.group as usize].stood;
        let at = if one.virtual_time { one.next + stood } else { one.next };
        self.plan(at, Plan::Newcomer(crowd));
    }

    pub(super) fn newcomer_due(&mut self, crowd: u32) {
        let one = &mut self.crowds[crowd as usize];
        let group = one.group;
        let replica = &self.replicas[group as usize];
        if one.virtual_time {
            if replica.frozen {
                one.postponed = true;
                return;
            }
            let at = one.next + replica.stood;
            if at > self.now {
                self.plan(at, Plan::Newcomer(crowd));
                return;
            }
        }
        self.fold(Mark::Newcomer, u64::from(crowd));
        self.deliver(group, Parcel::Newcomer);
        self.next_newcomer(crowd);
    }

    /// The next client of a population that stood is due now, or later.
    pub(super) fn resume_newcomers(&mut self, group: u32) {
        let first = self.replicas.len() - self.crowds.len();
        let Some(crowd) = (group as usize).checked_sub(first) else { return };
        if core::mem::take(&mut self.crowds[crowd].postponed) {
            let at = self.crowds[crowd].next + self.replicas[group as usize].stood;
            self.plan(at, Plan::Newcomer(crowd as u32));
        }
    }

    /// Something came for `replica`: it is taken up at once, or when the replica goes on.
    pub(super) fn deliver(&mut self, replica: u32, parcel: Parcel) {
        let one = &mut self.replicas[replica as usize];
        if !one.stands() {
            self.take_up(replica, parcel);
            return;
        }
        if let Parcel::Request(visit) = parcel
            && let Some(service) = self.setup.network.services.get(one.service as usize)
            && let Some(limit) = service.backlog
        {
            // The kernel keeps as many as the backlog holds, and no more.
            let waiting =
                one.inbox.iter().filter(|one| matches!(one, Parcel::Request(_))).count() as u32;
            let free = if one.threads_free == NONE { NONE } else { one.threads_free };
            if waiting >= limit.saturating_add(free) || one.backlog.len() as u32 >= limit {
                self.refuse(visit);
                return;
            }
        }
        self.replicas[replica as usize].inbox.push_back(parcel);
    }

    pub(super) fn take_up(&mut self, replica: u32, parcel: Parcel) {
        match parcel {
            Parcel::Request(visit) => self.accept(visit),
            Parcel::Answer(visit) => self.answered(visit),
            Parcel::Waited(visit) => {
                let it = &mut self.visits[visit as usize];
                it.doing = Doing::Going;
                it.pc += 1;
                self.going.push_back(visit);
            }
            Parcel::Patience(visit, born) => self.gives_up(visit, born),
            Parcel::Background(which) => {
                let service = self.replicas[replica as usize].service as usize;
                let (_, endpoint) = self.setup.network.services[service].background[which as usize];
                let start = self.program.starts[service][endpoint];
                let Some(visit) = self.name() else { return };
                let key = mix(self.setup.seed ^ self.now.as_ns()) ^ u64::from(replica);
                let it = &mut self.visits[visit as usize];
                (it.key, it.replica, it.pc) = (key, replica, start);
                it.doing = Doing::Going;
                self.going.push_back(visit);
            }
            Parcel::Newcomer => {
                let first = self.replicas.len() - self.crowds.len();
                let crowd = replica - first as u32;
                let number = self.crowds[crowd as usize].arrived;
                self.client(crowd, number);
            }
        }
    }

    /// `replica` computes for `work` that belongs to no request.
    pub(super) fn wake(&mut self, replica: u32, work: Span) {
        let Some(visit) = self.name() else { return };
        let it = &mut self.visits[visit as usize];
        // All programs end with an end, which is all that is left of this one.
        (it.replica, it.pc) = (replica, self.program.ops.len() as u32 - 2);
        self.compute(visit, work);
    }

    /// A request is there: it gets a thread, waits for one, or is refused.
    fn accept(&mut self, visit: u32) {
        let replica = self.visits[visit as usize].replica;
        let one = &mut self.replicas[replica as usize];
        if one.threads_free == 0 {
            let service = &self.setup.network.services[one.service as usize];
            if service.backlog.is_some_and(|limit| one.backlog.len() as u32 >= limit) {
                self.refuse(visit);
                return;
            }
            one.backlog.push_back(visit);
            self.visits[visit as usize].doing = Doing::Queued;
            return;
        }
        self.begin(visit);
    }

    fn take_thread(&mut self, visit: u32) {
        let it = &mut self.visits[visit as usize];
        it.has_thread = true;
        let one = &mut self.replicas[it.replica as usize];
        one.threads_used += 1;
        if one.threads_free != NONE {
            one.threads_free -= 1;
        }
    }

    fn begin(&mut self, visit: u32) {
        self.take_thread(visit);
        let it = &mut self.visits[visit as usize];
        it.doing = Doing::Going;
        self.replicas[it.replica as usize].visits += 1;
        self.begun += 1;
        self.going.push_back(visit);
    }

    /// Gives the thread of `visit` to whom it is next for: who was here before, then who came
    /// first.
    fn leave_thread(&mut self, visit: u32) {
        let it = &mut self.visits[visit as usize];
        if !core::mem::take(&mut it.has_thread) {
            return;
        }
        let one = &mut self.replicas[it.replica as usize];
        one.threads_used -= 1;
        if one.threads_free == NONE {
            return;
        }
        one.threads_free += 1;
        if let Some(next) = one.returning.pop_front() {
            self.take_thread(next);
            self.visits[next as usize].doing = Doing::Going;
            self.going.push_back(next);
        } else if let Some(next) = one.backlog.pop_front() {
            self.begin(next);
        }
    }

    /// Nobody serves `visit`: its caller hears of it as of a failed answer.
    fn refuse(&mut self, visit: u32) {
        let it = &mut self.visits[visit as usize];
        it.failed = true;
        let replica = it.replica;
        self.replicas[replica as usize].refused += 1;
        self.answer(visit);
    }

    /// Goes through operations until one takes time.
    pub(super) fn advance(&mut self, visit: u32) {
        loop {
            let Visit { key, pc, round, .. } = self.visits[visit as usize];
            match self.program.ops[pc as usize] {
                Op::Burst(law) => {
                    let work = self.program.laws[law as usize].at(|| draw(key, pc, 0));
                    self.compute(visit, work);
                    return;
                }
                Op::Locked { lock, law } => {
                    let work = self.program.laws[law as usize].at(|| draw(key, pc, 0));
                    let replica = self.visits[visit as usize].replica;
                    let processor = self.replicas[replica as usize].processor;
                    let shares = self.processors[processor as usize].shares();
                    if shares || self.visits[visit as usize].on_core {
                        self.lock(visit, lock, work);
                    } else {
                        self.visits[visit as usize].round = FOR_A_CORE;
                        self.compute(visit, Span::ZERO);
                    }
                    return;
                }
                Op::Call(call) => {
                    if self.program.calls[call as usize].repeat == 0 {
                        self.visits[visit as usize].pc += 1;
                        continue;
                    }
                    self.leave_core(visit);
                    self.visits[visit as usize].awaited = 1;
                    self.wait_for_answers(visit);
                    self.ask(visit, call, round, 0);
                    return;
                }
                Op::Together { first, count } => {
                    let mut awaited = 0;
                    for place in 0..count {
                        let call = first + place;
                        let share = self.program.calls[call as usize].share;
                        if share != u64::MAX && draw(key, pc, place as u16) >= share {
                            continue;
                        }
                        awaited += 1;
                        self.ask(visit, call, place as u16, 0);
                    }
                    let it = &mut self.visits[visit as usize];
                    it.awaited = awaited;
                    if awaited == 0 {
                        it.pc += 1;
                        continue;
                    }
                    self.leave_core(visit);
                    self.wait_for_answers(visit);
                    return;
                }
                Op::Tell(call) => {
                    for round in 0..self.program.calls[call as usize].repeat {
                        self.ask(visit, call, round, 0);
                    }
                    self.visits[visit as usize].pc += 1;
                }
                Op::Wait(law) => {
                    self.leave_core(visit);
                    let time = self.program.laws[law as usize].at(|| draw(key, pc, 0));
                    let due = self.now + time;
                    let replica = self.visits[visit as usize].replica;
                    let stood = self.replicas[replica as usize].stood;
                    let it = &mut self.visits[visit as usize];
                    it.doing = Doing::Waiting;
                    it.due = due;
                    it.left = due.since(Instant::ZERO).saturating_sub(stood);
                    self.push(due, Class::Completion, visit, entry::STEP);
                    return;
                }
                Op::Unless { share, to } => {
                    let made = draw(key, pc, 0) < share;
                    self.visits[visit as usize].pc = if made { pc + 1 } else { to };
                }
                Op::Outside { low, high, of, to } => {
                    let number = draw(key, of, 0);
                    let inside = low <= number && (number < high || high == u64::MAX);
                    self.visits[visit as usize].pc = if inside { pc + 1 } else { to };
                }
                Op::Cached { cache, to } => {
                    let hit = self.look_up(visit, cache, draw(key, pc, 0));
                    self.visits[visit as usize].pc = if hit { to } else { pc + 1 };
                }
                Op::Begin => {
                    let it = &mut self.visits[visit as usize];
                    let stood = self.replicas[it.replica as usize].stood;
                    it.began = self.now;
                    it.began_virtual =
                        Instant::from_ns(self.now.as_ns().saturating_sub(stood.as_ns()));
                    it.pc += 1;
                }
                Op::End => {
                    self.finish(visit);
                    return;
                }
            }
        }
    }

    fn look_up(&mut self, visit: u32, cache: u16, bits: u64) -> bool {
        let one = &mut self.replicas[self.visits[visit as usize].replica as usize];
        let service = &self.setup.network.services[one.service as usize];
        match service.caches[usize::from(cache)] {
            Cache::Ratio(hits) => ((bits >> 11) as f64) < hits * (1u64 << 53) as f64,
            Cache::Ttl { ttl, keys } => {
                let key = ((u128::from(bits) * u128::from(keys)) >> 64) as usize;
                let filled = &mut one.filled[usize::from(cache)][key];
                let hit = *filled != Instant::NEVER && self.now.since(*filled) <= ttl;
                if !hit {
                    *filled = self.now;
                }
                hit
            }
        }
    }

    /// `visit` waits for those it calls.
    fn wait_for_answers(&mut self, visit: u32) {
        let it = &mut self.visits[visit as usize];
        it.doing = Doing::Calling;
        let service = self.replicas[it.replica as usize].service as usize;
        if self.setup.network.services.get(service).is_some_and(|one| !one.keeps_thread) {
            self.leave_thread(visit);
        }
    }

    /// Makes a call for `caller`.
    fn ask(&mut self, caller: u32, call: u32, round: u16, tries: u16) {
        let Some(visit) = self.name() else { return };
        let target = self.program.calls[call as usize];
        let by = self.visits[caller as usize];
        let waits = !matches!(self.program.ops[by.pc as usize], Op::Tell(_));
        let key = mix(by.key ^ draw(u64::from(tries), by.pc, round));
        let replica = self.choose(target.service, key);
        self.replicas[replica as usize].load += 1;
        let it = &mut self.visits[visit as usize];
        it.key = key;
        it.pc = target.start;
        it.replica = replica;
        it.call = call;
        it.round = 0;
        it.tries = tries;
        it.number = u32::from(round);
        if waits {
            (it.parent, it.parent_born) = (caller, by.born);
            if target.timeout != Span::MAX {
                it.patience = self.now + target.timeout;
                let at = it.patience;
                self.push(at, Class::Timer, visit, entry::PATIENCE);
            }
        }
        if !self.met.is_empty() {
            self.meets(by.replica, target.service, replica);
        }
        if target.pool != NO_POOL && waits {
            let pool = &mut self.replicas[by.replica as usize].pools[target.pool as usize];
            if pool.free == 0 {
                pool.waiting.push_back(visit);
                self.visits[visit as usize].doing = Doing::Pooled;
                return;
            }
            pool.free -= 1;
            self.visits[visit as usize].has_place = true;
        }
        self.send(visit, Doing::Asking, HOP_ASKING);
    }

    fn meets(&mut self, group: u32, service: u32, replica: u32) {
        let Some(own) = self.hears(group) else { return };
        let one = self.setup.wiring.virtual_addresses;
        let (peer, peers) = if one {
            (service as usize, self.turns.len())
        } else {
            (replica as usize, self.replicas.len())
        };
        let known = &mut self.met[group as usize * peers + peer];
        if !core::mem::replace(known, true)
            && let Some(peer) = self.hears(replica)
        {
            self.mail.push_back((own.0, Input::Met { peer }));
        }
    }

    fn choose(&mut self, service: u32, key: u64) -> u32 {
        let (first, count) = self.replicas_of[service as usize];
        if count == 1 {
            return first;
        }
        match self.setup.network.services[service as usize].balance {
            Balance::Turns => {
                let turn = &mut self.turns[service as usize];
                *turn = (*turn + 1) % count;
                first + *turn
            }
            Balance::Random => {
                let bits = draw(key, CHOICE, 0);
                first + ((u128::from(bits) * u128::from(count)) >> 64) as u32
            }
            Balance::Least => {
                let all = first..first + count;
                all.min_by_key(|&one| (self.replicas[one as usize].load, one)).unwrap_or(first)
            }
        }
    }

    /// Puts the message that `visit` is now on its way.
    fn send(&mut self, visit: u32, doing: Doing, draws: u32) {
        let it = &mut self.visits[visit as usize];
        it.doing = doing;
        let key = it.key;
        let hop = self.hop.as_ref().map_or(Span::ZERO, |hop| hop.at(|| draw(key, draws, 0)));
        it.due = self.now + hop;
        let due = it.due;
        self.push(due, Class::Arrival, visit, entry::MESSAGE);
    }

    pub(super) fn message_arrives(&mut self, visit: u32) {
        let it = &mut self.visits[visit as usize];
        if it.due != self.now {
            return;
        }
        match it.doing {
            Doing::Asking => {
                it.due = Instant::NEVER;
                let replica = it.replica;
                self.fold(Mark::Message, u64::from(visit));
                self.deliver(replica, Parcel::Request(visit));
            }
            Doing::Answering => {
                it.due = Instant::NEVER;
                let (parent, born) = (it.parent, it.parent_born);
                self.fold(Mark::Message, u64::from(visit));
                if parent == NONE || self.visits[parent as usize].born != born {
                    self.forget(visit);
                    return;
                }
                let replica = self.visits[parent as usize].replica;
                self.deliver(replica, Parcel::Answer(visit));
            }
            _ => {}
        }
    }

    /// `visit` is done at its replica.
    fn finish(&mut self, visit: u32) {
        self.leave_core(visit);
        let it = self.visits[visit as usize];
        if it.call != NONE {
            self.leave_thread(visit);
            self.answer(visit);
            return;
        }
        let first = (self.replicas.len() - self.crowds.len()) as u32;
        let Some(crowd) = it.replica.checked_sub(first) else {
            self.forget(visit); // background work
            return;
        };
        self.client_done(visit, crowd);
    }

    fn answer(&mut self, visit: u32) {
        let it = &self.visits[visit as usize];
        self.replicas[it.replica as usize].load -= 1;
        if it.parent == NONE {
            self.forget(visit);
        } else {
            self.send(visit, Doing::Answering, HOP_ANSWERING);
        }
    }

    /// The caller of `child` has its answer.
    fn answered(&mut self, child: u32) {
        let it = self.visits[child as usize];
        let caller = it.parent;
        self.forget(child);
        if caller == NONE || self.visits[caller as usize].born != it.parent_born {
            return;
        }
        self.leave_place(caller, &it);
        self.call_ended(caller, &it, it.failed);
    }

    /// Gives the place of `child` in its caller's pool to the next that waits for one.
    fn leave_place(&mut self, caller: u32, child: &Visit) {
        if !child.has_place {
            return;
        }
        let pool = self.program.calls[child.call as usize].pool as usize;
        let replica = self.visits[caller as usize].replica;
        let state = &mut self.replicas[replica as usize].pools[pool];
        match state.waiting.pop_front() {
            Some(next) => {
                self.visits[next as usize].has_place = true;
                self.send(next, Doing::Asking, HOP_ASKING);
            }
            None => state.free += 1,
        }
    }

    /// A call of `caller` came to its end.
    fn call_ended(&mut self, caller: u32, child: &Visit, failed: bool) {
        let target = self.program.calls[child.call as usize];
        if failed && child.tries < target.retries {
            let replica = self.visits[caller as usize].replica;
            self.replicas[replica as usize].retried += 1;
            self.ask(caller, child.call, child.number as u16, child.tries + 1);
            return;
        }
        let it = &mut self.visits[caller as usize];
        it.failed |= failed;
        it.awaited -= 1;
        if it.awaited > 0 {
            return;
        }
        if it.call == NONE {
            // Which of the mix it was, for the report.
            it.tries = target.of_mix;
        }
        if let Op::Call(call) = self.program.ops[it.pc as usize] {
            it.round += 1;
            let more = it.round < self.program.calls[call as usize].repeat && !it.failed;
            if !more {
                it.round = 0;
                it.pc += 1;
            }
        } else {
            it.pc += 1;
        }
        if it.failed {
            // What failed for good fails the visit: it goes to the end of its program.
            let end = self.program.ops[it.pc as usize..].iter().position(|op| *op == Op::End);
            it.pc += end.unwrap_or(0) as u32;
        }
        if it.has_thread || it.call == NONE {
            it.doing = Doing::Going;
            self.going.push_back(caller);
            return;
        }
        let replica = it.replica;
        if self.replicas[replica as usize].threads_free == 0 {
            self.visits[caller as usize].doing = Doing::Returning;
            self.replicas[replica as usize].returning.push_back(caller);
            return;
        }
        self.take_thread(caller);
        self.visits[caller as usize].doing = Doing::Going;
        self.going.push_back(caller);
    }

    pub(super) fn patience_ends(&mut self, visit: u32) {
        let it = &self.visits[visit as usize];
        if it.patience != self.now || it.doing == Doing::Nothing || it.parent == NONE {
            return;
        }
        let (caller, born) = (it.parent, it.born);
        let replica = self.visits[caller as usize].replica;
        self.deliver(replica, Parcel::Patience(visit, born));
    }

    /// The caller of `visit` waits no longer. What it called goes on, and its answer is thrown
    /// away.
    fn gives_up(&mut self, visit: u32, born: u32) {
        let it = self.visits[visit as usize];
        if it.born != born || it.doing == Doing::Nothing || it.parent == NONE {
            return;
        }
        let caller = it.parent;
        if self.visits[caller as usize].born != it.parent_born {
            return;
        }
        self.fold(Mark::GivenUp, u64::from(visit));
        let replica = self.visits[caller as usize].replica;
        self.replicas[replica as usize].timed_out += 1;
        let child = &mut self.visits[visit as usize];
        child.parent = NONE;
        child.patience = Instant::NEVER;
        child.has_place = false;
        if child.doing == Doing::Pooled {
            let pool = self.program.calls[it.call as usize].pool as usize;
            let waiting = &mut self.replicas[replica as usize].pools[pool].waiting;
            waiting.retain(|&other| other != visit);
            self.replicas[it.replica as usize].load -= 1;
            self.forget(visit);
        }
        self.leave_place(caller, &it);
        self.call_ended(caller, &it, true);
    }

    /// The request of a client has its answer.
    fn client_done(&mut self, visit: u32, crowd: u32) {
        let it = self.visits[visit as usize];
        self.fold(Mark::Done, u64::from(it.client));
        let stood = self.replicas[it.replica as usize].stood;
        let now_virtual = Instant::from_ns(self.now.as_ns().saturating_sub(stood.as_ns()));
        let done = Done {
            clients: crowd,
            call: u32::from(it.tries),
            at: self.now,
            latency: self.now.since(it.began),
            latency_virtual: now_virtual.since(it.began_virtual),
            failed: it.failed,
        };
        if it.failed {
            self.failed += 1;
        } else {
            self.completed += 1;
            if let Some(edge) = self.setup.wiring.edge {
                self.mail.push_back((edge, Input::Completed { requests: 1 }));
            }
        }
        if self.completed + self.failed == self.setup.mark_after {
            self.marked = self.all_used();
        }
        let flow = self.observer.done(&done);
        self.note(flow);
        if self.crowds[crowd as usize].gap.is_some() {
            self.forget(visit);
            return;
        }
        let of_clients = mix(self.setup.seed ^ mix(u64::from(crowd) << 32 | u64::from(it.client)));
        let start = self.crowds[crowd as usize].start;
        let it = &mut self.visits[visit as usize];
        it.number += 1;
        it.key =
            mix(of_clients.wrapping_add(u64::from(it.number).wrapping_mul(0xA24B_AED4_963E_E407)));
        it.pc = start;
        it.failed = false;
        it.doing = Doing::Going;
        self.going.push_back(visit);
    }
}
