//! Visits on cores: who computes, for how long, and what stopping does to it.

use super::super::cores;
use super::super::replica::{NONE, Parcel};
use super::super::report::Observer;
use super::{CountAt, Doing, FOR_A_CORE, NO_LOCK, Plan, World, entry};
use crate::pending::{Class, Pending};
use cavy_core::family::probe::{Controller, Endpoint, Group, Input};
use cavy_core::{Instant, Span};

impl<C, P, O> World<'_, C, P, O>
where
    C: Controller,
    P: Pending,
    O: Observer<C::Finding>,
{
    /// Brings the account of `replica` up to now. Before anything changes of who computes there.
    #[inline]
    pub(super) fn settle(&mut self, replica: u32) {
        let one = &mut self.replicas[replica as usize];
        let received = match self.processors.get_mut(one.processor as usize) {
            Some(processor) if processor.shares() => {
                processor.advance(self.now);
                processor.received()
            }
            _ => None,
        };
        one.settle(self.now, received);
    }

    /// `visit` computes for `work`, on the core that it has or as soon as there is one.
    pub(super) fn compute(&mut self, visit: u32, work: Span) {
        let replica = self.visits[visit as usize].replica;
        let processor = self.replicas[replica as usize].processor;
        if processor == NONE {
            // Clients without a limit.
            let one = &mut self.visits[visit as usize];
            one.doing = Doing::Computing;
            one.due = self.now + work;
            let due = one.due;
            self.push(due, Class::Completion, visit, entry::STEP);
            return;
        }
        self.settle(replica);
        if self.processors[processor as usize].shares() {
            self.visits[visit as usize].doing = Doing::Computing;
            self.count(visit, CountAt::Core);
            let one = &mut self.replicas[replica as usize];
            let home = &mut self.processors[processor as usize];
            cores::add(&mut one.sharing, home, visit, work);
            home.sharing += 1;
            self.set_processor(processor);
            return;
        }
        if self.visits[visit as usize].on_core {
            self.run(visit, work);
            return;
        }
        let one = &mut self.visits[visit as usize];
        one.left = work;
        one.doing = Doing::Ready;
        one.turn = self.next_turn;
        self.next_turn += 1;
        let turn = one.turn;
        self.replicas[replica as usize].ready.push_back((turn, visit));
        self.dispatch(processor);
    }

    /// Computes on the core that `visit` has.
    fn run(&mut self, visit: u32, work: Span) {
        let due = self.now + work;
        let one = &mut self.visits[visit as usize];
        one.doing = Doing::Computing;
        one.due = due;
        self.push(due, Class::Completion, visit, entry::STEP);
    }

    /// Gives free cores to those whose turn it is.
    pub(super) fn dispatch(&mut self, processor: u32) {
        loop {
            let home = &self.processors[processor as usize];
            if home.on_core.len() as u32 >= home.cores {
                return;
            }
            let mut best = (u64::MAX, NONE);
            for &replica in &home.replicas {
                let one = &self.replicas[replica as usize];
                if let (false, Some(&(turn, _))) = (one.stands(), one.ready.front())
                    && turn < best.0
                {
                    best = (turn, replica);
                }
            }
            let replica = best.1;
            if replica == NONE {
                return;
            }
            self.settle(replica);
            let one = &mut self.replicas[replica as usize];
            let Some((_, visit)) = one.ready.pop_front() else { return };
            one.running += 1;
            self.processors[processor as usize].on_core.push(visit);
            let it = &mut self.visits[visit as usize];
            it.on_core = true;
            let left = it.left;
            if it.doing == Doing::Spinning {
                self.replicas[replica as usize].spinning += 1;
                self.watch_quota(replica);
                continue;
            }
            self.run(visit, left);
            self.count(visit, CountAt::Core);
            self.watch_quota(replica);
        }
    }

    /// `visit` needs its core no more.
    pub(super) fn leave_core(&mut self, visit: u32) {
        let it = &mut self.visits[visit as usize];
        if !it.on_core {
            return;
        }
        it.on_core = false;
        let replica = it.replica;
        self.settle(replica);
        let one = &mut self.replicas[replica as usize];
        one.running -= 1;
        let processor = one.processor;
        let on_core = &mut self.processors[processor as usize].on_core;
        if let Some(place) = on_core.iter().position(|&other| other == visit) {
            on_core.swap_remove(place);
        }
        self.dispatch(processor);
        self.watch_quota(replica);
    }

    /// Tells the controller of a visit, once.
    pub(super) fn count(&mut self, visit: u32, at: CountAt) {
        let it = &mut self.visits[visit as usize];
        if it.counted || at != self.setup.counts || it.call == NONE {
            return;
        }
        it.counted = true;
        let (replica, call) = (it.replica, it.call);
        if let Some(controller) = self.hears(replica) {
            let endpoint = Endpoint(self.program.calls[call as usize].endpoint);
            self.mail.push_back((controller.0, Input::Visited { group: Group(replica), endpoint }));
        }
    }

    /// When the next thread of a shared processor is done.
    pub(super) fn set_processor(&mut self, processor: u32) {
        let home = &self.processors[processor as usize];
        let mut least: Option<f64> = None;
        for &replica in &home.replicas {
            let one = &self.replicas[replica as usize];
            if !one.stands()
                && let Some(left) = cores::left(&one.sharing, home)
            {
                least = Some(least.map_or(left, |best: f64| best.min(left)));
            }
        }
        let due = least.map_or(Instant::NEVER, |left| home.when(left).max(self.now));
        self.processors[processor as usize].due = due;
        if due != Instant::NEVER {
            self.push(due, Class::Completion, processor, entry::PROCESSOR);
        }
    }

    pub(super) fn processor_due(&mut self, processor: u32) {
        if self.processors[processor as usize].due != self.now {
            return;
        }
        self.processors[processor as usize].due = Instant::NEVER;
        self.processors[processor as usize].advance(self.now);
        for place in 0..self.processors[processor as usize].replicas.len() {
            let replica = self.processors[processor as usize].replicas[place];
            if self.replicas[replica as usize].stands() {
                continue;
            }
            self.settle(replica);
            loop {
                let home = &mut self.processors[processor as usize];
                let one = &mut self.replicas[replica as usize];
                let Some(visit) = cores::take(&mut one.sharing, home) else { break };
                home.sharing -= 1;
                self.computed(visit);
            }
        }
        self.set_processor(processor);
    }

    /// A step of `visit` is due: its computing, or a wait.
    pub(super) fn step_ends(&mut self, visit: u32) {
        let it = &mut self.visits[visit as usize];
        if it.due != self.now {
            return;
        }
        it.due = Instant::NEVER;
        match it.doing {
            Doing::Computing => self.computed(visit),
            Doing::Waiting => self.waited(visit),
            _ => {}
        }
    }

    /// `visit` has computed what it had to.
    fn computed(&mut self, visit: u32) {
        self.fold(super::Mark::Step, u64::from(visit));
        self.count(visit, CountAt::Computed);
        let it = &mut self.visits[visit as usize];
        it.doing = Doing::Going;
        if it.round == FOR_A_CORE {
            it.round = 0;
        } else {
            it.pc += 1;
        }
        let (lock, replica) = (it.lock, it.replica);
        if lock != NO_LOCK {
            it.lock = NO_LOCK;
            self.unlock(replica, lock);
        }
        self.going.push_back(visit);
    }

    /// A wait is over on the wall, or should be in virtual time.
    fn waited(&mut self, visit: u32) {
        let it = self.visits[visit as usize];
        if self.in_virtual_time(it.replica) {
            let one = &mut self.replicas[it.replica as usize];
            if one.frozen {
                one.postponed.push(visit);
                return;
            }
            let due = Instant::from_ns(it.left.as_ns()) + one.stood;
            if due > self.now {
                self.visits[visit as usize].due = due;
                self.push(due, Class::Completion, visit, entry::STEP);
                return;
            }
        }
        self.deliver(it.replica, Parcel::Waited(visit));
    }

    /// Is the time of this group's waits its own?
    pub(super) fn in_virtual_time(&self, replica: u32) -> bool {
        let first = self.replicas.len() - self.crowds.len();
        (replica as usize).checked_sub(first).is_some_and(|crowd| self.crowds[crowd].virtual_time)
    }

    /// Tries to take `lock` for `visit`, which has a core where that matters.
    pub(super) fn lock(&mut self, visit: u32, lock: u16, work: Span) {
        let replica = self.visits[visit as usize].replica;
        let one = &mut self.replicas[replica as usize];
        let state = &mut one.locks[usize::from(lock)];
        if !state.held {
            state.held = true;
            self.visits[visit as usize].lock = lock;
            self.compute(visit, work);
            return;
        }
        state.waiting.push_back((visit, work));
        if !state.spins {
            self.visits[visit as usize].doing = Doing::Blocked;
            self.leave_core(visit);
            return;
        }
        self.visits[visit as usize].doing = Doing::Spinning;
        self.settle(replica);
        self.replicas[replica as usize].spinning += 1;
        let processor = self.replicas[replica as usize].processor;
        if self.processors[processor as usize].shares() {
            self.processors[processor as usize].sharing += 1;
            self.set_processor(processor);
        }
    }

    /// Lets `lock` go: who waits for it first has it now.
    fn unlock(&mut self, replica: u32, lock: u16) {
        let state = &mut self.replicas[replica as usize].locks[usize::from(lock)];
        let Some((visit, work)) = state.waiting.pop_front() else {
            state.held = false;
            return;
        };
        self.visits[visit as usize].lock = lock;
        let processor = self.replicas[replica as usize].processor;
        let shares = self.processors[processor as usize].shares();
        self.settle(replica);
        if self.visits[visit as usize].doing == Doing::Spinning {
            self.replicas[replica as usize].spinning -= 1;
            if shares {
                self.processors[processor as usize].sharing -= 1;
                self.compute(visit, work);
            } else {
                self.run(visit, work);
            }
            return;
        }
        if shares {
            self.compute(visit, work);
            return;
        }
        // Ahead of those that hold nothing: it keeps its first turn.
        let it = &mut self.visits[visit as usize];
        it.left = work;
        it.doing = Doing::Ready;
        let turn = it.turn;
        self.replicas[replica as usize].ready.push_front((turn, visit));
        self.dispatch(processor);
    }

    /// Takes the threads of `replica` off their cores. They keep their turns and what they have
    /// left.
    pub(super) fn stop(&mut self, replica: u32) {
        let processor = self.replicas[replica as usize].processor;
        let Some(home) = self.processors.get_mut(processor as usize) else { return };
        if home.shares() {
            let received = home.received_ns;
            let one = &mut self.replicas[replica as usize];
            home.sharing -= one.sharing.threads() + one.spinning;
            one.sharing.stand(true, received);
            self.set_processor(processor);
            return;
        }
        let mut place = 0;
        while place < home.on_core.len() {
            let visit = home.on_core[place];
            let it = &mut self.visits[visit as usize];
            if it.replica != replica {
                place += 1;
                continue;
            }
            home.on_core.swap_remove(place);
            it.on_core = false;
            if it.doing == Doing::Computing {
                it.left = it.due.since(self.now);
                it.due = Instant::NEVER;
            }
            self.replicas[replica as usize].parked.push(visit);
        }
        let one = &mut self.replicas[replica as usize];
        one.running = 0;
        one.spinning = 0;
        one.quota_ends = Instant::NEVER;
        self.dispatch(processor);
    }

    /// Lets the threads of `replica` have cores again, in the order of their turns.
    pub(super) fn go_again(&mut self, replica: u32) {
        let processor = self.replicas[replica as usize].processor;
        let Some(home) = self.processors.get_mut(processor as usize) else { return };
        if home.shares() {
            let received = home.received_ns;
            let one = &mut self.replicas[replica as usize];
            one.sharing.stand(false, received);
            home.sharing += one.sharing.threads() + one.spinning;
            self.set_processor(processor);
            return;
        }
        let visits = &mut self.visits;
        let one = &mut self.replicas[replica as usize];
        one.parked.sort_unstable_by_key(|&visit| visits[visit as usize].turn);
        while let Some(visit) = one.parked.pop() {
            let it = &mut visits[visit as usize];
            if it.doing == Doing::Computing {
                it.doing = Doing::Ready;
            }
            one.ready.push_front((it.turn, visit));
        }
        self.dispatch(processor);
    }

    /// When the quota of `replica` is used up, if what runs goes on.
    pub(super) fn watch_quota(&mut self, replica: u32) {
        let one = &mut self.replicas[replica as usize];
        if one.quota.is_none() || one.stands() {
            return;
        }
        if one.running == 0 {
            one.quota_ends = Instant::NEVER;
            return;
        }
        let left_ns = one.quota_left.as_ns().div_ceil(u64::from(one.running));
        one.quota_ends = self.now + Span::from_ns(left_ns);
        let at = one.quota_ends;
        self.push(at, Class::Timer, replica, entry::QUOTA);
    }

    pub(super) fn quota_due(&mut self, replica: u32) {
        if self.replicas[replica as usize].quota_ends != self.now {
            return;
        }
        self.settle(replica);
        let one = &mut self.replicas[replica as usize];
        one.quota_ends = Instant::NEVER;
        if one.quota_left.is_zero() && !one.stands() {
            one.throttled = true;
            one.throttled_since = self.now;
            self.stop(replica);
        }
    }

    pub(super) fn refill(&mut self, replica: u32) {
        let Some(quota) = self.replicas[replica as usize].quota else { return };
        self.plan(self.now + quota.period, Plan::Refill(replica));
        self.settle(replica);
        let one = &mut self.replicas[replica as usize];
        one.quota_left = quota.cpu;
        if one.throttled {
            one.throttled = false;
            one.throttled_for += self.now.since(one.throttled_since);
            if !one.frozen {
                self.goes_on(replica);
            }
        } else {
            self.watch_quota(replica);
        }
    }
}
