//! The processors of a node: a machine of the cpu family decides which of them does which work.
//!
//! Work is a request to it: [`Effect::Work`] of a node becomes [`Input::Arrive`], and
//! [`Input::Finished`] goes to the node as `WorkDone`. Work that was cancelled while it waited is
//! skipped when its turn comes, and the node hears of the end at once; a processor that gives up
//! what it runs says [`Input::Skipped`] as well, so that nobody learns from it.
//!
//! [`Effect::Work`]: cavy_core::family::message::Effect::Work

use crate::cpu::{SharedCores, Speed};
use crate::pending::Class;
use cavy_core::family::cpu::{Effect, Input, Kind, Req, Scheduler, Timer, Worker};
use cavy_core::family::message::Work;
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Span, Stream};
use std::collections::VecDeque;

/// What a node has for work, and who decides.
pub struct Processors {
    /// Processors, each of which does one work at a time; slots where cores are `shared`.
    pub workers: u16,
    /// So many cores are shared equally among the slots that are busy, at most one core a slot.
    pub shared: Option<u16>,
    /// What every work takes of a processor beside its price.
    pub per_work: Span,
    /// What it takes to stop a work that is not done.
    pub preemption: Span,
    /// What a work takes beside its price where it was not meant to run.
    pub steal: Span,
    /// Who decides. It knows the kinds that [`super::Hardware::kind`] gives.
    pub scheduler: Box<dyn Scheduler>,
}

impl Processors {
    /// `count` processors, at least 1, that take work in the order of asking, at no cost.
    pub fn in_order(count: u16) -> Processors {
        let count = count.max(1);
        Processors::of(count, Box::new(InOrder::new(count)))
    }

    /// `workers` processors by `scheduler`, at no cost.
    pub fn of(workers: u16, scheduler: Box<dyn Scheduler>) -> Processors {
        let (shared, nothing) = (None, Span::ZERO);
        let (per_work, preemption, steal) = (nothing, nothing, nothing);
        Processors { workers, shared, per_work, preemption, steal, scheduler }
    }
}

/// First come first served, by the free processor of the lowest number.
struct InOrder {
    busy: Vec<bool>,
    waiting: VecDeque<Req>,
}

impl InOrder {
    fn new(count: u16) -> InOrder {
        InOrder { busy: vec![false; usize::from(count)], waiting: VecDeque::new() }
    }
}

impl Machine for InOrder {
    type Input = Input;
    type Effect = Effect;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        1
    }

    fn start(&mut self, _: &mut Cx<'_, Effect, Timer>) {}

    fn handle(&mut self, input: Input, cx: &mut Cx<'_, Effect, Timer>) {
        let free = match input {
            Input::Arrive { req, .. } => {
                self.waiting.push_back(req);
                self.busy.iter().position(|busy| !busy)
            }
            Input::Finished { worker, .. }
            | Input::Skipped { worker, .. }
            | Input::Yielded { worker, .. } => Some(usize::from(worker.0)),
            // The world never asks for it.
            Input::Resize { .. } => None,
        };
        let Some(free) = free else { return };
        let next = self.waiting.pop_front();
        self.busy[free] = next.is_some();
        if let Some(req) = next {
            cx.emit(Effect::Run { worker: Worker(free as u16), req, stolen: false });
        }
    }

    fn expire(&mut self, _: Timer, _: &mut Cx<'_, Effect, Timer>) {}
}

/// Work of a node that has not ended.
#[derive(Clone, Copy)]
struct Job {
    work: Work,
    /// What it still takes at full speed.
    left: Span,
    /// What it has taken of processors, and how much of that was not the work itself.
    took: Span,
    beside: Span,
    /// It has never run.
    fresh: bool,
    /// It was cancelled, and the node has been told.
    gone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    Running(Req),
    /// Asked to stop, which takes a while.
    Yielding(Req),
}

#[derive(Clone, Copy)]
struct Slot {
    doing: Doing,
    since: Instant,
    /// What the next bells must say; zero where none is to ring.
    end: u64,
    slice: u64,
    /// What lies before the work's own time, which slices do not count.
    lead: Span,
}

const IDLE: Slot =
    Slot { doing: Doing::Nothing, since: Instant::ZERO, end: 0, slice: 0, lead: Span::ZERO };

/// Something that a node's processors wait for.
#[derive(Clone, Copy)]
pub(super) struct Bell {
    worker: Worker,
    /// An older one than the slot's means nothing.
    serial: u64,
    is_slice: bool,
}

impl Bell {
    /// The end of a slice is a timer, and comes after what ends then.
    pub fn class(self) -> Class {
        if self.is_slice { Class::Timer } else { Class::Completion }
    }
}

/// What processors want of the world, in order.
pub(super) enum Wish {
    /// Ring then.
    Ring(Instant, Bell),
    /// This work has ended.
    Done { work: Work, took: Span, finished: bool },
}

/// The processors of one node at work.
pub(super) struct Benches {
    processors: Processors,
    rng: Stream,
    outbox: Outbox<Effect, Timer>,
    jobs: Vec<Job>,
    free: Vec<u32>,
    slots: Vec<Slot>,
    shared: Option<SharedCores>,
    speed: Speed,
    serial: u64,
    /// Cancelled work whose turn has come.
    skipped: VecDeque<(Worker, Req)>,
}

impl Benches {
    /// Idle ones, which work at `speed`.
    pub fn new(processors: Processors, rng: Stream, speed: Speed, now: Instant) -> Benches {
        let mut shared = processors.shared.map(SharedCores::new);
        if let Some(shared) = &mut shared {
            shared.set_speed(speed.ratio(), now);
        }
        let mut benches = Benches {
            rng,
            outbox: Outbox::with_capacity(processors.scheduler.effects_max()),
            jobs: Vec::new(),
            free: Vec::new(),
            slots: vec![IDLE; usize::from(processors.workers)],
            shared,
            speed,
            serial: 0,
            skipped: VecDeque::new(),
            processors,
        };
        let mut cx = Cx::new(now, &mut benches.rng, &mut benches.outbox);
        benches.processors.scheduler.start(&mut cx);
        // Nothing waits, so that nothing is run; a table of reservations concerns nobody here.
        benches.outbox.clear();
        benches
    }

    /// The node asks for `work`, which takes `price` at full speed.
    pub fn ask(&mut self, work: Work, kind: Kind, price: Span, now: Instant, out: &mut Vec<Wish>) {
        let (took, beside) = (Span::ZERO, Span::ZERO);
        let job = Job { work, left: price, took, beside, fresh: true, gone: false };
        let index = match self.free.pop() {
            Some(index) => {
                self.jobs[index as usize] = job;
                index
            }
            None => {
                self.jobs.push(job);
                self.jobs.len() as u32 - 1
            }
        };
        self.tell(Input::Arrive { req: Req(index), kind }, now, out);
    }

    /// The node gives `work` up.
    pub fn cancel(&mut self, work: Work, now: Instant, out: &mut Vec<Wish>) {
        let is_it = |index: &u32| {
            let job = &self.jobs[*index as usize];
            job.work == work && !job.gone && !self.free.contains(index)
        };
        let Some(index) = (0..self.jobs.len() as u32).find(is_it) else { return };
        let running = self.slots.iter().position(|slot| slot.doing == Doing::Running(Req(index)));
        let Some(at) = running else {
            let job = &mut self.jobs[index as usize];
            job.gone = true;
            out.push(Wish::Done { work, took: job.took, finished: false });
            return;
        };
        let worker = Worker(at as u16);
        let ran = match &mut self.shared {
            Some(shared) => {
                let left = shared.stop(worker.0, now);
                self.jobs[index as usize].left.saturating_sub(left)
            }
            None => now.since(self.slots[at].since),
        };
        self.slots[at] = IDLE;
        let took = self.jobs[index as usize].took + ran;
        out.push(Wish::Done { work, took, finished: false });
        self.tell(Input::Skipped { worker, req: Req(index) }, now, out);
        self.free.push(index);
        self.set_shared(now, out);
    }

    /// A bell rings.
    pub fn ring(&mut self, bell: Bell, now: Instant, out: &mut Vec<Wish>) {
        let slot = &mut self.slots[usize::from(bell.worker.0)];
        let due = if bell.is_slice { &mut slot.slice } else { &mut slot.end };
        if *due != bell.serial {
            return;
        }
        *due = 0;
        if bell.is_slice {
            let mut cx = Cx::new(now, &mut self.rng, &mut self.outbox);
            self.processors.scheduler.expire(Timer::Slice(bell.worker), &mut cx);
            self.settle(now, out);
            return self.skip(now, out);
        }
        if self.shared.is_some() {
            return self.shared_end(now, out);
        }
        match std::mem::replace(&mut slot.doing, Doing::Nothing) {
            Doing::Nothing => {}
            Doing::Running(req) => {
                let ran = now.since(slot.since);
                self.finish(bell.worker, req, ran, now, out);
            }
            Doing::Yielding(req) => {
                self.tell(Input::Yielded { worker: bell.worker, req }, now, out);
            }
        }
    }

    /// All processors work at `speed` from now on.
    pub fn pace(&mut self, speed: Speed, now: Instant, out: &mut Vec<Wish>) {
        let before = std::mem::replace(&mut self.speed, speed);
        if let Some(shared) = &mut self.shared {
            shared.set_speed(speed.ratio(), now);
            return self.set_shared(now, out);
        }
        for at in 0..self.slots.len() {
            let Doing::Running(req) = self.slots[at].doing else { continue };
            self.count(at, req, before, now);
            self.end_at(at, now + speed.takes(self.jobs[req.0 as usize].left), out);
        }
    }

    /// Counts what `req` has done on the processor at `at`, at `speed`, until now.
    fn count(&mut self, at: usize, req: Req, speed: Speed, now: Instant) {
        let ran = now.since(std::mem::replace(&mut self.slots[at].since, now));
        let job = &mut self.jobs[req.0 as usize];
        job.left = job.left.saturating_sub(speed.does(ran));
        job.took += ran;
    }

    fn end_at(&mut self, at: usize, end: Instant, out: &mut Vec<Wish>) {
        self.serial += 1;
        self.slots[at].end = self.serial;
        let (worker, serial) = (Worker(at as u16), self.serial);
        out.push(Wish::Ring(end, Bell { worker, serial, is_slice: false }));
    }

    fn finish(&mut self, worker: Worker, req: Req, ran: Span, now: Instant, out: &mut Vec<Wish>) {
        let job = self.jobs[req.0 as usize];
        let took = job.took + ran;
        let service = Some(took.saturating_sub(job.beside));
        self.tell(Input::Finished { worker, req, service }, now, out);
        // The name is free again only after the machine has heard of the end.
        self.free.push(req.0);
        out.push(Wish::Done { work: job.work, took, finished: true });
    }

    fn shared_end(&mut self, now: Instant, out: &mut Vec<Wish>) {
        while let Some(slot) = self.shared.as_mut().and_then(|shared| shared.take_done(now)) {
            let at = usize::from(slot);
            if let Doing::Running(req) =
                std::mem::replace(&mut self.slots[at].doing, Doing::Nothing)
            {
                let ran = self.jobs[req.0 as usize].left;
                self.finish(Worker(slot), req, ran, now, out);
            }
        }
        self.set_shared(now, out);
    }

    /// Shared cores have one bell, that of slot 0.
    fn set_shared(&mut self, now: Instant, out: &mut Vec<Wish>) {
        let Some(shared) = &self.shared else { return };
        match shared.next_end() {
            Some(end) => self.end_at(0, end.max(now), out),
            None => self.slots[0].end = 0,
        }
    }

    /// Hands `input` to the scheduler, and carries out what it asks for.
    fn tell(&mut self, input: Input, now: Instant, out: &mut Vec<Wish>) {
        let mut cx = Cx::new(now, &mut self.rng, &mut self.outbox);
        self.processors.scheduler.handle(input, &mut cx);
        self.settle(now, out);
        self.skip(now, out);
    }

    /// Tells the scheduler of work that it wants to run and that nobody waits for any more.
    fn skip(&mut self, now: Instant, out: &mut Vec<Wish>) {
        while let Some((worker, req)) = self.skipped.pop_front() {
            let mut cx = Cx::new(now, &mut self.rng, &mut self.outbox);
            self.processors.scheduler.handle(Input::Skipped { worker, req }, &mut cx);
            self.free.push(req.0);
            self.settle(now, out);
        }
    }

    fn settle(&mut self, now: Instant, out: &mut Vec<Wish>) {
        let mut outbox = std::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        for said in outbox.drain() {
            match said {
                Out::Effect(Effect::Run { worker, req, stolen }) => {
                    self.run(worker, req, stolen, now, out);
                }
                Out::Effect(Effect::Preempt { worker }) => self.preempt(worker, now, out),
                Out::Effect(Effect::Drop { req, .. }) => {
                    let Job { work, took, gone, .. } = self.jobs[req.0 as usize];
                    self.free.push(req.0);
                    if !gone {
                        out.push(Wish::Done { work, took, finished: false });
                    }
                }
                Out::Effect(Effect::Reserved { .. }) => {}
                Out::Arm(Timer::Slice(worker), at) => {
                    self.serial += 1;
                    let slot = &mut self.slots[usize::from(worker.0)];
                    let at = at.max(now) + std::mem::take(&mut slot.lead);
                    slot.slice = self.serial;
                    let bell = Bell { worker, serial: self.serial, is_slice: true };
                    out.push(Wish::Ring(at, bell));
                }
                Out::Disarm(Timer::Slice(worker)) => self.slots[usize::from(worker.0)].slice = 0,
            }
        }
        self.outbox = outbox;
    }

    fn run(&mut self, worker: Worker, req: Req, stolen: bool, now: Instant, out: &mut Vec<Wish>) {
        let at = usize::from(worker.0);
        assert!(
            self.slots[at].doing == Doing::Nothing,
            "{worker:?} is busy and should run {req:?}"
        );
        let job = &mut self.jobs[req.0 as usize];
        if job.gone {
            self.skipped.push_back((worker, req));
            return;
        }
        let mut lead = Span::ZERO;
        if std::mem::take(&mut job.fresh) {
            lead += self.processors.per_work;
        }
        if stolen {
            lead += self.processors.steal;
        }
        job.left += lead;
        job.beside += lead;
        let left = job.left;
        self.slots[at] = Slot { doing: Doing::Running(req), since: now, lead, ..IDLE };
        match &mut self.shared {
            Some(shared) => {
                shared.start(worker.0, left, now);
                self.set_shared(now, out);
            }
            None => self.end_at(at, now + self.speed.takes(left), out),
        }
    }

    fn preempt(&mut self, worker: Worker, now: Instant, out: &mut Vec<Wish>) {
        let at = usize::from(worker.0);
        let Doing::Running(req) = self.slots[at].doing else { return };
        self.count(at, req, self.speed, now);
        self.slots[at].doing = Doing::Yielding(req);
        self.end_at(at, now + self.speed.takes(self.processors.preemption), out);
    }
}
