//! Controllers: what they are told, what they want, and their timers.

use super::super::report::Observer;
use super::{Mark, Plan, Watched, World};
use crate::pending::Pending;
use cavy_core::family::Node;
use cavy_core::family::probe::{Controller, Effect, Group, Input, Timer, Usage};
use cavy_core::{Cx, Instant, Out, Outbox, Span};

impl<C, P, O> World<'_, C, P, O>
where
    C: Controller,
    P: Pending,
    O: Observer<C::Finding>,
{
    pub(super) fn start_controller(&mut self, controller: u32) {
        let index = controller as usize;
        let mut cx = Cx::new(self.now, &mut self.streams[index], &mut self.outboxes[index]);
        self.controllers[index].start(&mut cx);
        self.carry_out(controller);
    }

    /// Tells controllers what is in the mail, and does what they want.
    pub(super) fn read_mail(&mut self) {
        while let Some((controller, input)) = self.mail.pop_front() {
            self.tell(controller, input);
        }
    }

    pub(super) fn tell(&mut self, controller: u32, input: Input<C::Message>) {
        if self.is_dead(controller) {
            return;
        }
        self.steps += 1;
        let index = controller as usize;
        let mut cx = Cx::new(self.now, &mut self.streams[index], &mut self.outboxes[index]);
        self.controllers[index].handle(input, &mut cx);
        self.carry_out(controller);
    }

    pub(super) fn alarm_rings(&mut self, controller: u32, timer: Timer) {
        let index = controller as usize;
        let Some(place) = self.alarms[index].iter().position(|&(one, _)| one == timer) else {
            return;
        };
        if self.alarms[index][place].1 != self.now || self.is_dead(controller) {
            return;
        }
        self.alarms[index].swap_remove(place);
        self.steps += 1;
        let mut cx = Cx::new(self.now, &mut self.streams[index], &mut self.outboxes[index]);
        self.controllers[index].expire(timer, &mut cx);
        self.carry_out(controller);
    }

    fn is_dead(&mut self, controller: u32) -> bool {
        let index = controller as usize;
        if !self.dead[index] {
            let deaths = &self.setup.deaths;
            self.dead[index] = deaths.iter().any(|&(who, at)| who == controller && at <= self.now);
        }
        self.dead[index]
    }

    fn carry_out(&mut self, controller: u32) {
        let index = controller as usize;
        // Of most steps a controller wants nothing: it hears of every visit.
        if self.outboxes[index].entries().is_empty() {
            if self.setup.check {
                self.controllers[index].check();
            }
            return;
        }
        let mut outbox = core::mem::replace(&mut self.outboxes[index], Outbox::with_capacity(0));
        for out in outbox.drain() {
            match out {
                Out::Effect(effect) => self.apply(controller, effect),
                Out::Arm(timer, at) => self.arm(controller, timer, at),
                Out::Disarm(timer) => self.alarms[index].retain(|&(one, _)| one != timer),
            }
        }
        self.outboxes[index] = outbox;
        if self.setup.check {
            self.controllers[index].check();
        }
    }

    fn arm(&mut self, controller: u32, timer: Timer, at: Instant) {
        let mut at = at.max(self.now);
        let faults = &self.setup.faults;
        if let Some(late) = &self.late {
            let stream = &mut self.faults;
            at += late.at(|| stream.bits());
        }
        if faults.stall_ratio > 0.0 && self.faults.unit() <= faults.stall_ratio {
            at += faults.stall;
        }
        let alarms = &mut self.alarms[controller as usize];
        match alarms.iter_mut().find(|(one, _)| *one == timer) {
            Some((_, due)) => *due = at,
            None => alarms.push((timer, at)),
        }
        self.plan(at, Plan::Alarm(controller, timer));
    }

    fn apply(&mut self, controller: u32, effect: Effect<C::Message, C::Finding>) {
        match effect {
            Effect::Freeze { set, epoch, lease, .. } => {
                self.freeze(controller, set, epoch, lease);
            }
            Effect::Thaw { set, epoch } => self.thaw(controller, set, epoch),
            Effect::Watch { group, every } => self.watch(controller, group.0, every),
            Effect::Read { group } => self.read(controller, group.0),
            Effect::Send { to, message } => self.message(controller, to.0, message),
            Effect::Cast { message } => {
                for to in 0..self.controllers.len() as u32 {
                    if to != controller {
                        self.message(controller, to, message);
                    }
                }
            }
            Effect::Conclude(finding) => {
                let flow = self.observer.concluded(controller as usize, self.now, &finding);
                self.note(flow);
            }
        }
    }

    fn message(&mut self, from: u32, to: u32, message: C::Message) {
        if to as usize >= self.controllers.len() {
            return;
        }
        self.fold(Mark::Told, u64::from(from) << 16 | u64::from(to));
        let faults = &self.setup.faults;
        let copies = if faults.lost_ratio > 0.0 && self.faults.unit() <= faults.lost_ratio {
            0
        } else if faults.doubled_ratio > 0.0 && self.faults.unit() <= faults.doubled_ratio {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let stream = &mut self.faults;
            let time = self.message_time.as_ref().map(|law| law.at(|| stream.bits()));
            let input = Input::Rx { from: Node(from), message };
            self.plan(self.now + time.unwrap_or(Span::ZERO), Plan::Tell(to, input));
        }
    }

    fn watch(&mut self, controller: u32, group: u32, every: Span) {
        self.watched.retain(|one| (one.controller, one.group) != (controller, group));
        if every.is_zero() || group as usize >= self.replicas.len() {
            return;
        }
        let due = self.now + every;
        self.watched.push(Watched { controller, group, every, due });
        self.plan(due, Plan::Watch(controller, group));
    }

    pub(super) fn watch_due(&mut self, controller: u32, group: u32) {
        let now = self.now;
        let found = self
            .watched
            .iter_mut()
            .find(|one| (one.controller, one.group, one.due) == (controller, group, now));
        let Some(one) = found else { return };
        one.due = now + one.every;
        let due = one.due;
        self.plan(due, Plan::Watch(controller, group));
        self.read(controller, group);
    }

    fn read(&mut self, controller: u32, group: u32) {
        if group as usize >= self.replicas.len() {
            return;
        }
        self.settle(group);
        let usage = self.replicas[group as usize].account.usage;
        let tick = self.setup.faults.tick.as_ns();
        let seen = |span: Span| match tick {
            0 => span,
            tick => Span::from_ns(span.as_ns() / tick * tick),
        };
        let usage =
            Usage { cpu: seen(usage.cpu), busy: seen(usage.busy), runnable: seen(usage.runnable) };
        self.mail.push_back((controller, Input::Used { group: Group(group), at: self.now, usage }));
    }
}
