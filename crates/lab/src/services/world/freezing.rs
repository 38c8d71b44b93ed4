//! Freezing groups: when it takes hold, what holds whom, when it lets go.

use super::super::replica::{Hold, Parcel};
use super::super::report::Observer;
use super::{Doing, Lease, Mark, Plan, World, entry};
use crate::pending::{Class, Pending};
use cavy_core::family::probe::{Controller, Epoch, Group, Input, Set};
use cavy_core::{Instant, Span};

impl<C, P, O> World<'_, C, P, O>
where
    C: Controller,
    P: Pending,
    O: Observer<C::Finding>,
{
    /// A controller wants a set to stand.
    pub(super) fn freeze(&mut self, controller: u32, set: Set, epoch: Epoch, lease: Span) {
        for place in 0..self.controllers[controller as usize].members(set).len() {
            let group = self.controllers[controller as usize].members(set)[place].0;
            if group as usize >= self.replicas.len() {
                continue;
            }
            let now = self.now;
            let holds = &mut self.replicas[group as usize].holds;
            if let Some(hold) = holds.iter_mut().find(|hold| hold.controller == controller) {
                hold.epoch = epoch;
                hold.leaves = Instant::NEVER;
                let (landed, lands) = (hold.landed, hold.lands);
                if landed || self.setup.faults.told_early {
                    let input = Input::Frozen { group: Group(group), epoch, at: now };
                    self.mail.push_back((controller, input));
                }
                if !landed {
                    self.plan(lands, Plan::Land(group, controller, epoch));
                }
                continue;
            }
            let latency = self.stop_latency(group);
            let lands = now + latency;
            let hold = Hold { controller, epoch, lands, leaves: Instant::NEVER, landed: false };
            self.replicas[group as usize].holds.push(hold);
            if self.setup.faults.told_early {
                let input = Input::Frozen { group: Group(group), epoch, at: now };
                self.mail.push_back((controller, input));
            }
            if latency.is_zero() {
                self.freeze_lands(group, controller, epoch);
            } else {
                self.plan(lands, Plan::Land(group, controller, epoch));
            }
        }
        self.lend(controller, set, epoch, lease);
    }

    /// Notes when a freeze ends by itself.
    fn lend(&mut self, controller: u32, set: Set, epoch: Epoch, lease: Span) {
        let (at, tie) = (self.now + lease, self.ties.next());
        self.last_lease = self.last_lease.max(at);
        if at == Instant::NEVER {
            return;
        }
        if self.leases.back().is_some_and(|last| last.at > at) {
            self.plan_as(at, tie, Plan::Lease(controller, set, epoch));
            return;
        }
        self.leases.push_back(Lease { at, tie, controller, set, epoch });
        if self.leases.len() == 1 {
            self.plan_as(at, tie, Plan::Lease(controller, set, epoch));
        }
    }

    /// The first lease in the order is over: the next one whose freeze still lasts is an event.
    fn next_lease(&mut self) {
        self.leases.pop_front();
        while let Some(&Lease { at, tie, controller, set, epoch }) = self.leases.front() {
            let members = self.controllers[controller as usize].members(set);
            let lasts = members.iter().any(|group| {
                let one = self.replicas.get(group.0 as usize);
                let holds = one.map_or(&[][..], |one| &one.holds);
                holds.iter().any(|hold| hold.controller == controller && hold.epoch == epoch)
            });
            if lasts {
                self.plan_as(at, tie, Plan::Lease(controller, set, epoch));
                return;
            }
            self.leases.pop_front();
        }
    }

    fn stop_latency(&mut self, group: u32) -> Span {
        let faults = &mut self.faults;
        let base = self.stop_time.as_ref().map_or(Span::ZERO, |law| law.at(|| faults.bits()));
        let threads = u64::from(self.replicas[group as usize].threads_used);
        base + self.setup.faults.stop_per_thread * threads
    }

    fn hold(&mut self, group: u32, controller: u32, epoch: Epoch) -> Option<&mut Hold> {
        let holds = &mut self.replicas[group as usize].holds;
        holds.iter_mut().find(|hold| hold.controller == controller && hold.epoch == epoch)
    }

    pub(super) fn freeze_lands(&mut self, group: u32, controller: u32, epoch: Epoch) {
        let now = self.now;
        let Some(hold) = self.hold(group, controller, epoch) else { return };
        if hold.landed {
            return;
        }
        hold.landed = true;
        if !self.setup.faults.told_early {
            let input = Input::Frozen { group: Group(group), epoch, at: now };
            self.mail.push_back((controller, input));
        }
        if self.replicas[group as usize].frozen {
            return;
        }
        self.fold(Mark::Stopped, u64::from(group));
        self.settle(group);
        let one = &mut self.replicas[group as usize];
        one.frozen = true;
        one.frozen_since = now;
        one.stops += 1;
        if !one.throttled {
            self.stop(group);
        }
    }

    /// A controller wants those of a set to go on that stand because of `epoch`.
    pub(super) fn thaw(&mut self, controller: u32, set: Set, epoch: Epoch) {
        for place in 0..self.controllers[controller as usize].members(set).len() {
            let group = self.controllers[controller as usize].members(set)[place].0;
            if group as usize >= self.replicas.len() {
                continue;
            }
            let now = self.now;
            let faults = &mut self.faults;
            let go = self.go_time.as_ref().map_or(Span::ZERO, |law| law.at(|| faults.bits()));
            let early = self.setup.faults.told_early;
            let Some(hold) = self.hold(group, controller, epoch) else { continue };
            if hold.leaves != Instant::NEVER {
                continue;
            }
            let leaves = now + go;
            if !hold.landed && leaves <= hold.lands {
                // The wish to go on overtakes the wish to stop: the group never stands.
                self.replicas[group as usize].holds.retain(|hold| hold.controller != controller);
                let (group, at) = (Group(group), if early { now } else { leaves });
                if !early {
                    self.mail.push_back((controller, Input::Frozen { group, epoch, at }));
                }
                self.mail.push_back((controller, Input::Thawed { group, epoch, at }));
                continue;
            }
            hold.leaves = leaves.max(hold.lands);
            let (at, landed) = (hold.leaves, hold.landed);
            if early {
                let input = Input::Thawed { group: Group(group), epoch, at: now };
                self.mail.push_back((controller, input));
            }
            if at == now && landed {
                self.freeze_leaves(group, controller, epoch);
            } else {
                self.plan(at, Plan::Leave(group, controller, epoch));
            }
        }
    }

    pub(super) fn freeze_leaves(&mut self, group: u32, controller: u32, epoch: Epoch) {
        let now = self.now;
        let Some(hold) = self.hold(group, controller, epoch) else { return };
        if hold.leaves != now {
            return;
        }
        if !hold.landed {
            self.freeze_lands(group, controller, epoch);
        }
        let one = &mut self.replicas[group as usize];
        one.holds.retain(|hold| hold.controller != controller);
        if !self.setup.faults.told_early {
            let input = Input::Thawed { group: Group(group), epoch, at: now };
            self.mail.push_back((controller, input));
        }
        if !one.frozen || one.holds.iter().any(|hold| hold.landed) {
            return;
        }
        self.settle(group);
        self.fold(Mark::Continued, u64::from(group));
        let one = &mut self.replicas[group as usize];
        one.frozen = false;
        one.stood += now.since(one.frozen_since);
        if !one.throttled {
            self.goes_on(group);
        }
        self.threads_wake(group);
        // Waits in virtual time are the group's own clock, whatever its quota.
        let mut postponed = core::mem::take(&mut self.replicas[group as usize].postponed);
        let stood = self.replicas[group as usize].stood;
        for visit in postponed.drain(..) {
            let it = &mut self.visits[visit as usize];
            debug_assert_eq!(it.doing, Doing::Waiting);
            it.due = Instant::from_ns(it.left.as_ns()) + stood;
            let due = it.due;
            self.push(due, Class::Completion, visit, entry::STEP);
        }
        self.replicas[group as usize].postponed = postponed;
        self.resume_newcomers(group);
    }

    /// All threads of a group that goes on wake up, and most only to go to sleep again.
    fn threads_wake(&mut self, group: u32) {
        let each = self.setup.faults.go_cpu_per_thread;
        let one = &self.replicas[group as usize];
        let Some(service) = self.setup.network.services.get(one.service as usize) else { return };
        let threads = service.threads.unwrap_or(one.threads_used);
        if each.is_zero() || threads == 0 {
            return;
        }
        let at_once = threads.min(self.processors[one.processor as usize].cores);
        let whole = each * u64::from(threads);
        for _ in 0..at_once {
            self.wake(group, Span::from_ns(whole.as_ns() / u64::from(at_once)));
        }
    }

    /// A group that stands no more: its threads have cores, and what came for it is taken up.
    pub(super) fn goes_on(&mut self, group: u32) {
        self.settle(group);
        self.go_again(group);
        while let Some(parcel) = self.replicas[group as usize].inbox.pop_front() {
            let parcel: Parcel = parcel;
            self.take_up(group, parcel);
        }
    }

    pub(super) fn lease_ends(&mut self, controller: u32, set: Set, epoch: Epoch) {
        let now = self.now;
        let first = self.leases.front();
        let of = |one: &Lease| (one.at, one.controller, one.set, one.epoch);
        if first.is_some_and(|one| of(one) == (now, controller, set, epoch)) {
            self.next_lease();
        }
        for place in 0..self.controllers[controller as usize].members(set).len() {
            let group = self.controllers[controller as usize].members(set)[place].0;
            if group as usize >= self.replicas.len() {
                continue;
            }
            let Some(hold) = self.hold(group, controller, epoch) else { continue };
            if hold.leaves <= now {
                continue;
            }
            let untold = hold.leaves == Instant::NEVER;
            hold.leaves = now;
            if untold && self.setup.faults.told_early {
                let input = Input::Thawed { group: Group(group), epoch, at: now };
                self.mail.push_back((controller, input));
            }
            self.replicas[group as usize].leases_ended += 1;
            self.freeze_leaves(group, controller, epoch);
        }
    }
}
