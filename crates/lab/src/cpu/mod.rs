//! The cpu world: requests arrive, a scheduler decides, workers run.
//!
//! The world obeys the laws of the seam: completions come before arrivals and arrivals before
//! timers in the same nanosecond, timers fire once per arming, effects apply in order. It keeps a
//! request only while the request is in the system, so memory does not grow with the length of a
//! run.

mod alarms;
mod clients;
mod costs;
mod observer;
mod recorder;
mod sharing;
mod speeds;
mod timeline;

pub use clients::{Clients, Closed, Requests};
pub use costs::{Cores, Costs};
pub use observer::{Done, Observer, Unobserved};
pub use recorder::{Backlog, Recorder, Replication, TypeRecord};
pub use speeds::{GROUPS_MAX, Speed, Speeds};
pub use timeline::{Bin, Timeline};

use crate::pending::{Class, Pending, Ties};
use crate::trail::Trail;
use alarms::Alarms;
use cavy_core::family::cpu::{Effect, Input, Kind, Req, Scheduler, Timer, Worker};
use cavy_core::{Cx, Instant, Out, Outbox, Purpose, Span, Stream};
use cavy_workload::source::Request;
pub(crate) use sharing::SharedCores;
use speeds::Unequal;

/// What a run is made of, besides the machine and the requests.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Workers, or slots when cores are shared.
    pub workers: u16,
    /// Who computes.
    pub cores: Cores,
    /// What scheduling costs.
    pub costs: Costs,
    /// Root of the machine's random stream.
    pub seed: u64,
    /// Shuffle the order of simultaneous events of one class by this seed, to expose results that
    /// depend on it.
    pub shuffle_ties: Option<u64>,
    /// Requests to send; the run then goes on until the system is empty.
    pub requests: u64,
    /// Call the machine's own check after each step.
    pub check: bool,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that ran to their end.
    pub finished: u64,
    /// Requests that were dropped.
    pub dropped: u64,
    /// Steps of the machine.
    pub steps: u64,
    /// Time of the last arrival.
    pub last_arrival: Instant,
    /// Time of the last event.
    pub ended: Instant,
    /// Worker time spent until the last arrival, overheads included, in ns summed over workers.
    pub busy_ns: u64,
    /// Fingerprint of every event in order, and marks along the way.
    pub trail: Trail,
}

/// A request in the system.
#[derive(Clone, Copy, Debug)]
struct Job {
    request: Request,
    number: u64,
    /// Worker time it still needs.
    left: Span,
    /// Whether it has never run, so that what every request costs lies still before it.
    fresh: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Nothing,
    Running(Req),
    /// Asked to stop; hands the request back when the cost of preemption is paid.
    Yielding(Req),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    doing: Doing,
    since: Instant,
    /// When what it does ends.
    end: Instant,
    /// When its slice is over.
    slice: Instant,
    /// What the worker does for the request before the request itself runs. A slice is time of the
    /// request's own ([persephone 3.6]: what a request costs once is not counted in it).
    lead: Span,
}

const IDLE: Slot = Slot {
    doing: Doing::Nothing,
    since: Instant::ZERO,
    end: Instant::NEVER,
    slice: Instant::NEVER,
    lead: Span::ZERO,
};

/// Runs `machine` on `requests` until `setup.requests` have arrived and the system is empty.
pub fn run<M, P, O>(
    setup: &Setup,
    machine: &mut M,
    requests: impl Into<Requests>,
    pending: &mut P,
    observer: &mut O,
) -> Outcome
where
    M: Scheduler + ?Sized,
    P: Pending,
    O: Observer<M>,
{
    pending.clear();
    let mut world = World::new(setup, machine, requests.into(), pending, observer);
    world.go();
    world.outcome()
}

struct World<'a, M: Scheduler + ?Sized, P, O> {
    setup: &'a Setup,
    machine: &'a mut M,
    requests: Requests,
    pending: &'a mut P,
    observer: &'a mut O,
    ties: Ties,
    alarms: Alarms,
    shared: Option<SharedCores>,
    unequal: Option<Unequal>,
    slots: Vec<Slot>,
    /// Workers whose next event changed in this step.
    moved: Vec<Worker>,
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    outbox: Outbox<Effect, Timer>,
    rng: Stream,
    now: Instant,
    /// The request that arrives next, with the time at which the dispatcher has handled it.
    next: Option<(Instant, Request)>,
    /// When the dispatcher had handled the last request that arrived.
    dispatcher_free: Instant,
    arrived: u64,
    finished: u64,
    dropped: u64,
    steps: u64,
    last_arrival: Instant,
    busy_ns: u64,
    trail: Trail,
}

/// What an event folds into the digest, apart from its time and its request.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Mark {
    Arrived = 1,
    Started = 2,
    Finished = 3,
    Yielded = 4,
    Dropped = 5,
    Expired = 6,
    Reserved = 7,
}

impl<'a, M, P, O> World<'a, M, P, O>
where
    M: Scheduler + ?Sized,
    P: Pending,
    O: Observer<M>,
{
    fn new(
        setup: &'a Setup,
        machine: &'a mut M,
        requests: Requests,
        pending: &'a mut P,
        observer: &'a mut O,
    ) -> Self {
        let workers = u32::from(setup.workers);
        let outbox = Outbox::with_capacity(machine.effects_max());
        let ties = match setup.shuffle_ties {
            None => Ties::in_order(),
            Some(seed) => Ties::shuffled(seed),
        };
        let (shared, unequal) = match &setup.cores {
            Cores::Own => (None, None),
            Cores::Shared(cores) => (Some(SharedCores::new(*cores)), None),
            Cores::Unequal(speeds) => (None, Some(Unequal::new(speeds, setup.workers))),
        };
        World {
            ties,
            // One for each worker: the end of what it does or of its slice, whichever is first.
            alarms: Alarms::new(workers.max(1)),
            shared,
            unequal,
            slots: vec![IDLE; workers as usize],
            moved: Vec::with_capacity(workers as usize),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            outbox,
            rng: Stream::keyed(setup.seed, 0, Purpose::Machine),
            now: Instant::ZERO,
            next: None,
            dispatcher_free: Instant::ZERO,
            arrived: 0,
            finished: 0,
            dropped: 0,
            steps: 0,
            last_arrival: Instant::ZERO,
            busy_ns: 0,
            trail: Trail::new(),
            setup,
            machine,
            requests,
            pending,
            observer,
        }
    }

    fn go(&mut self) {
        self.machine.start(&mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        self.settle();
        self.fetch();
        loop {
            let arrival = self.next.map(|(at, _)| at);
            match (self.pending.peek(), arrival) {
                (Some(key), Some(at)) if (key.at(), key.class()) < (at, Class::Arrival) => {
                    self.event();
                }
                (_, Some(at)) => self.arrive(at),
                (Some(_), None) => self.event(),
                (None, None) => break,
            }
        }
    }

    /// Finds the next request, if one is to come.
    #[inline]
    fn fetch(&mut self) {
        self.next = None;
        if self.arrived < self.setup.requests
            && let Some(request) = self.requests.next()
        {
            // The dispatcher handles one request after another, so its queue is a running maximum.
            let handled = request.at.max(self.dispatcher_free) + self.setup.costs.dispatch;
            self.next = Some((handled, request));
        }
    }

    #[inline]
    fn arrive(&mut self, at: Instant) {
        let Some((_, request)) = self.next else { return };
        self.now = at;
        self.dispatcher_free = at;
        let job = Job {
            request,
            number: self.arrived,
            left: request.service + self.setup.costs.per_request,
            fresh: true,
        };
        let index = match self.free_jobs.pop() {
            Some(index) => {
                self.jobs[index as usize] = job;
                index
            }
            None => {
                self.jobs.push(job);
                self.jobs.len() as u32 - 1
            }
        };
        self.requests.came(Req(index));
        self.last_arrival = at;
        let in_system = self.arrived - self.finished - self.dropped;
        self.observer.arrived(self.arrived, request.kind, in_system);
        self.arrived += 1;
        self.fold(Mark::Arrived, job.number, 0);
        self.handle(Input::Arrive { req: Req(index), kind: Kind(request.label + 1) });
        self.fetch();
    }

    #[inline]
    fn event(&mut self) {
        let Some(key) = self.pending.pop() else { return };
        self.now = key.at();
        if !self.alarms.rings(key, self.pending, &mut self.ties) {
            return;
        }
        match key.class() {
            Class::Timer => self.slice_ends(Worker(key.slot() as u16)),
            _ if self.shared.is_some() => self.shared_ends(),
            _ => self.worker_ends(Worker(key.slot() as u16)),
        }
    }

    fn slice_ends(&mut self, worker: Worker) {
        self.slots[worker.0 as usize].slice = Instant::NEVER;
        self.moved.push(worker);
        self.fold(Mark::Expired, 0, worker.0);
        self.steps += 1;
        let mut cx = Cx::new(self.now, &mut self.rng, &mut self.outbox);
        self.machine.expire(Timer::Slice(worker), &mut cx);
        self.settle();
    }

    #[inline]
    fn worker_ends(&mut self, worker: Worker) {
        let slot = &mut self.slots[worker.0 as usize];
        let doing = core::mem::replace(&mut slot.doing, Doing::Nothing);
        slot.end = Instant::NEVER;
        if slot.slice != Instant::NEVER {
            // Its slice may still ring if the machine does not take it back.
            self.moved.push(worker);
        }
        self.busy_ns +=
            self.now.min(self.busy_until()).since(self.slots[worker.0 as usize].since).as_ns();
        match doing {
            Doing::Nothing => {}
            Doing::Running(req) => self.finish(worker, req),
            Doing::Yielding(req) => {
                self.fold(Mark::Yielded, self.jobs[req.0 as usize].number, worker.0);
                self.handle(Input::Yielded { worker, req });
            }
        }
    }

    /// Busy time counts while requests arrive; what comes after is the run winding down.
    #[inline]
    fn busy_until(&self) -> Instant {
        if self.still_arrive() { Instant::NEVER } else { self.last_arrival }
    }

    /// Will another request arrive?
    #[inline]
    fn still_arrive(&self) -> bool {
        self.next.is_some() || self.requests.waits() && self.arrived < self.setup.requests
    }

    /// `req` ended or was refused.
    #[inline]
    fn over(&mut self, req: Req) {
        if self.requests.over(req, self.now) {
            // The client that was answered may be the next to send.
            self.fetch();
        }
        self.free_jobs.push(req.0);
    }

    fn shared_ends(&mut self) {
        while let Some(slot) = self.shared.as_mut().and_then(|shared| shared.take_done(self.now)) {
            let state = &mut self.slots[slot as usize];
            if let Doing::Running(req) = core::mem::replace(&mut state.doing, Doing::Nothing) {
                if self.still_arrive() {
                    self.busy_ns += self.jobs[req.0 as usize].left.as_ns();
                }
                self.finish(Worker(slot), req);
            }
        }
        self.set_shared_alarm();
    }

    fn set_shared_alarm(&mut self) {
        match self.shared.as_ref().and_then(SharedCores::next_end) {
            Some(at) => {
                let at = at.max(self.now);
                self.alarms.set(0, Class::Completion, at, self.pending, &mut self.ties);
            }
            None => self.alarms.stop(0),
        }
    }

    #[inline]
    fn finish(&mut self, worker: Worker, req: Req) {
        let job = self.jobs[req.0 as usize];
        self.finished += 1;
        self.fold(Mark::Finished, job.number, worker.0);
        let sojourn = self.now.since(job.request.at);
        let mut service = job.request.service;
        if let Some(unequal) = &mut self.unequal {
            let ran = self.now.since(self.slots[worker.0 as usize].since);
            let longer_ns = unequal.over(req, ran, job.left);
            service = Span::from_ns(service.as_ns().saturating_add_signed(longer_ns));
        }
        self.observer.finished(&Done {
            number: job.number,
            kind: job.request.kind,
            latency: sojourn + self.setup.costs.round_trip,
            waited: sojourn.saturating_sub(service),
            at: self.now,
        });
        // The name is free again only after the machine has heard of the end.
        self.handle(Input::Finished { worker, req, service: Some(service) });
        self.over(req);
    }

    #[inline]
    fn handle(&mut self, input: Input) {
        self.steps += 1;
        self.machine.handle(input, &mut Cx::new(self.now, &mut self.rng, &mut self.outbox));
        self.settle();
    }

    /// Carries out what the machine asked for, in order.
    #[inline]
    fn settle(&mut self) {
        let mut outbox = core::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        for out in outbox.entries() {
            match *out {
                Out::Effect(effect) => self.apply(effect),
                Out::Arm(Timer::Slice(worker), at) => {
                    let slot = &mut self.slots[worker.0 as usize];
                    slot.slice = at.max(self.now) + core::mem::take(&mut slot.lead);
                    self.moved.push(worker);
                }
                Out::Disarm(Timer::Slice(worker)) => {
                    self.slots[worker.0 as usize].slice = Instant::NEVER;
                    self.moved.push(worker);
                }
            }
        }
        outbox.clear();
        self.outbox = outbox;
        // In the order of emission, which decides between events of the same nanosecond (law 5).
        let mut moved = core::mem::take(&mut self.moved);
        for &worker in &moved {
            self.schedule(worker);
        }
        moved.clear();
        self.moved = moved;
        if self.setup.check {
            self.machine.check();
        }
    }

    /// Sets the alarm of `worker` to what happens next to it. Once a step, so that a request that
    /// starts with a slice costs one entry in the queue of events and not two.
    #[inline]
    fn schedule(&mut self, worker: Worker) {
        let Slot { end, slice, .. } = self.slots[worker.0 as usize];
        let slot = u32::from(worker.0);
        if end <= slice {
            if end != Instant::NEVER {
                self.alarms.set(slot, Class::Completion, end, self.pending, &mut self.ties);
            } else {
                self.alarms.stop(slot);
            }
        } else {
            self.alarms.set(slot, Class::Timer, slice, self.pending, &mut self.ties);
        }
    }

    #[inline]
    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Run { worker, req, stolen } => self.start(worker, req, stolen),
            Effect::Preempt { worker } => self.preempt(worker),
            Effect::Drop { req, .. } => {
                let job = self.jobs[req.0 as usize];
                self.dropped += 1;
                self.fold(Mark::Dropped, job.number, 0);
                self.observer.dropped(job.number, job.request.kind, self.now);
                self.over(req);
            }
            Effect::Reserved { version } => {
                self.fold(Mark::Reserved, u64::from(version), 0);
                self.observer.reserved(self.now, self.machine);
            }
        }
    }

    #[inline]
    fn start(&mut self, worker: Worker, req: Req, stolen: bool) {
        let job = &mut self.jobs[req.0 as usize];
        let mut lead = Span::ZERO;
        if core::mem::take(&mut job.fresh) {
            lead += self.setup.costs.per_request;
        }
        if stolen {
            job.left += self.setup.costs.steal;
            lead += self.setup.costs.steal;
        }
        let (left, number) = (job.left, job.number);
        let slot = &mut self.slots[worker.0 as usize];
        assert!(slot.doing == Doing::Nothing, "{worker:?} is busy and should run {req:?}");
        slot.doing = Doing::Running(req);
        slot.since = self.now;
        let mut busy = left;
        if let Some(unequal) = &self.unequal {
            (busy, lead) = (unequal.takes(worker, left), unequal.takes(worker, lead));
        }
        slot.lead = lead;
        if let Some(shared) = &mut self.shared {
            shared.start(worker.0, left, self.now);
            self.set_shared_alarm();
        } else {
            slot.end = self.now + busy;
            self.moved.push(worker);
        }
        self.fold(Mark::Started, number, worker.0);
    }

    fn preempt(&mut self, worker: Worker) {
        let busy_until = self.busy_until();
        let slot = &mut self.slots[worker.0 as usize];
        let Doing::Running(req) = slot.doing else { return };
        let ran = self.now.since(slot.since);
        let (mut done, mut lost) = (ran, self.setup.costs.preemption);
        if let Some(unequal) = &mut self.unequal {
            (done, lost) = (unequal.stopped(worker, req, ran), unequal.takes(worker, lost));
        }
        self.busy_ns += self.now.min(busy_until).since(slot.since).as_ns();
        slot.doing = Doing::Yielding(req);
        slot.since = self.now;
        slot.end = self.now + lost;
        self.moved.push(worker);
        let job = &mut self.jobs[req.0 as usize];
        job.left = job.left.saturating_sub(done);
    }

    #[inline]
    fn fold(&mut self, mark: Mark, number: u64, worker: u16) {
        let what = (mark as u64) << 56 | u64::from(worker) << 40;
        self.trail.fold(self.now, what ^ number);
    }

    fn outcome(self) -> Outcome {
        Outcome {
            arrived: self.arrived,
            finished: self.finished,
            dropped: self.dropped,
            steps: self.steps,
            last_arrival: self.last_arrival,
            ended: self.now,
            busy_ns: self.busy_ns,
            trail: self.trail,
        }
    }
}
