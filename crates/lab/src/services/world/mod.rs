//! Drives a network: events in one order, visits through their steps, controllers in between.

mod computing;
mod control;
mod freezing;
mod visits;

use super::cores::Processor;
use super::faults::Faults;
use super::network::{Arriving, Network, NetworkError, Place};
use super::program::{Program, Time};
use super::replica::{NONE, Parcel, Replica};
use super::report::{Ended, Observer, Outcome, Used};
use crate::pending::{Class, Key, Pending, Ties};
use crate::trail::Trail;
use cavy_core::family::Node;
use cavy_core::family::probe::{Controller, Effect, Epoch, Group, Input, Set, Timer};
use cavy_core::{Cx, Instant, Machine, Outbox, Purpose, Span, Stream};
use core::ops::ControlFlow;
use std::collections::VecDeque;

/// What a run is made of, besides controllers.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// What there is.
    pub network: &'a Network,
    /// Root of all random numbers.
    pub seed: u64,
    /// When the run ends at the latest.
    pub until: Instant,
    /// When a visit counts as one.
    pub counts: CountAt,
    /// What goes wrong with stopping.
    pub faults: Faults,
    /// Which controller sees what.
    pub wiring: Wiring,
    /// Controllers that die, with their times: they are told nothing more and do nothing more.
    pub deaths: Vec<(u32, Instant)>,
    /// Note what groups have used after so many requests of clients, 0 for never: the end of a
    /// warm-up.
    pub mark_after: u64,
    /// Shuffle the order of simultaneous events of one class by this seed.
    pub shuffle_ties: Option<u64>,
    /// Call the controllers' own checks after each step.
    pub check: bool,
}

impl<'a> Setup<'a> {
    /// `network` without faults and without controllers that see anything.
    pub fn new(network: &'a Network, seed: u64, until: Instant) -> Self {
        Setup {
            network,
            seed,
            until,
            counts: CountAt::Core,
            faults: Faults::default(),
            wiring: Wiring::default(),
            deaths: Vec::new(),
            mark_after: 0,
            shuffle_ties: None,
            check: false,
        }
    }
}

/// When a controller hears of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CountAt {
    /// When it first gets a core.
    #[default]
    Core,
    /// When its first computing is done.
    Computed,
}

/// Which controller sees what. Controllers are nodes, numbered as they stand in the list.
#[derive(Clone, Debug, Default)]
pub struct Wiring {
    /// For each group, the controller that hears of its visits and of whom it meets; none beyond
    /// the end.
    pub hears: Vec<Option<u32>>,
    /// The controller that hears of completions.
    pub edge: Option<u32>,
    /// Do controllers reach those of replicas through the service's address, so that each meets
    /// only one replica ([slowpoke S2])?
    pub virtual_addresses: bool,
}

/// No controller: for runs in which nobody is stopped.
#[derive(Clone, Copy, Debug)]
pub enum Alone {}

impl Machine for Alone {
    type Input = Input<()>;
    type Effect = Effect<(), ()>;
    type Timer = Timer;
    fn effects_max(&self) -> usize {
        match *self {}
    }
    fn start(&mut self, _: &mut Cx<'_, Self::Effect, Timer>) {
        match *self {}
    }
    fn handle(&mut self, _: Self::Input, _: &mut Cx<'_, Self::Effect, Timer>) {
        match *self {}
    }
    fn expire(&mut self, _: Timer, _: &mut Cx<'_, Self::Effect, Timer>) {
        match *self {}
    }
}

impl Controller for Alone {
    type Message = ();
    type Finding = ();
    fn members(&self, _: Set) -> &[Group] {
        match *self {}
    }
}

/// Runs `setup` with `controllers`, until its time is over or the observer has seen enough.
///
/// # Errors
/// When the network is none: it names services, locks or hosts that there are not, or never ends.
pub fn run<C, P, O>(
    setup: &Setup<'_>,
    controllers: &mut [C],
    pending: &mut P,
    observer: &mut O,
) -> Result<Outcome, NetworkError>
where
    C: Controller,
    P: Pending,
    O: Observer<C::Finding>,
{
    pending.clear();
    let program = Program::new(setup.network)?;
    let mut world = World::new(setup, program, controllers, pending, observer);
    Ok(world.go())
}

/// What a visit does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    /// The name is free.
    Nothing,
    /// It waits for a place in the caller's pool.
    Pooled,
    /// The request is on its way.
    Asking,
    /// It waits for a thread.
    Queued,
    /// It is about to go on: it is in the list of those that do.
    Going,
    /// It waits for a core.
    Ready,
    /// It computes.
    Computing,
    /// It waits for a lock on a core.
    Spinning,
    /// It waits for a lock without a core.
    Blocked,
    /// It waits for something that is no CPU.
    Waiting,
    /// It waits for those that it called.
    Calling,
    /// It has what it called for and waits for a thread.
    Returning,
    /// The answer is on its way.
    Answering,
}

/// One request at one replica.
#[derive(Clone, Copy, Debug)]
struct Visit {
    /// Root of what it draws.
    key: u64,
    /// When its step ends, or the message that it is arrives.
    due: Instant,
    /// What it still has to compute; of waits in virtual time, when they end on that clock.
    left: Span,
    /// When its caller gives up.
    patience: Instant,
    /// When the request of a client began, on the wall and on the clients' own clock.
    began: Instant,
    began_virtual: Instant,
    /// Its turn among those that are ready.
    turn: u64,
    pc: u32,
    replica: u32,
    /// Who called, and how often that name had been given then.
    parent: u32,
    parent_born: u32,
    /// How often this name was given.
    born: u32,
    /// The call that made it.
    call: u32,
    /// For clients: who, and the number of the request.
    client: u32,
    number: u32,
    /// Answers that it waits for.
    awaited: u16,
    /// Calls of the same kind that are done.
    round: u16,
    /// How often this call was tried before.
    tries: u16,
    /// The lock that it holds.
    lock: u16,
    doing: Doing,
    on_core: bool,
    counted: bool,
    has_thread: bool,
    has_place: bool,
    failed: bool,
}

const NO_LOCK: u16 = u16::MAX;
/// In the place of a round: the visit computes nothing, it wants a core to try a lock with.
const FOR_A_CORE: u16 = u16::MAX;

/// Events that are not the next one of a visit or a processor.
#[derive(Clone, Copy, Debug)]
enum Plan<M> {
    /// A timer of a controller.
    Alarm(u32, Timer),
    /// A freeze takes hold of a group.
    Land(u32, u32, Epoch),
    /// A group goes on.
    Leave(u32, u32, Epoch),
    /// A lease ends.
    Lease(u32, Set, Epoch),
    /// A controller is told something.
    Tell(u32, Input<M>),
    /// A group is read for a controller, every so often.
    Watch(u32, u32),
    /// A quota begins anew.
    Refill(u32),
    /// Background work of a replica.
    Background(u32, u32),
    /// The next client of an open population.
    Newcomer(u32),
}

/// Kinds of entries in the queue of events; the rest of a slot says whose.
mod entry {
    pub(super) const STEP: u32 = 0;
    pub(super) const MESSAGE: u32 = 1;
    pub(super) const PATIENCE: u32 = 2;
    pub(super) const PROCESSOR: u32 = 3;
    pub(super) const QUOTA: u32 = 4;
    pub(super) const PLAN: u32 = 5;
    pub(super) const BITS: u32 = 3;
    pub(super) const MOST: u32 = 1 << (24 - BITS);
}

/// What an event folds into the digest, apart from its time.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Mark {
    Step = 1,
    Message = 2,
    GivenUp = 3,
    Done = 4,
    Stopped = 5,
    Continued = 6,
    Told = 7,
    Newcomer = 8,
}

/// When a freeze ends by itself, with the tie-breaker of that event.
#[derive(Clone, Copy, Debug)]
struct Lease {
    at: Instant,
    tie: u64,
    controller: u32,
    set: Set,
    epoch: Epoch,
}

/// A closed or open population at run time.
#[derive(Debug)]
struct Crowd {
    group: u32,
    start: u32,
    virtual_time: bool,
    /// Gaps, of open ones.
    gap: Option<Time>,
    /// Clients so far, of open ones.
    arrived: u32,
    /// When the next one comes on the population's own clock.
    next: Instant,
    /// It came due while the population stood.
    postponed: bool,
}

/// What a controller wants of a step.
type Wishes<C> = Outbox<Effect<<C as Controller>::Message, <C as Controller>::Finding>, Timer>;

struct Watched {
    controller: u32,
    group: u32,
    every: Span,
    due: Instant,
}

struct World<'a, C: Controller, P, O> {
    setup: &'a Setup<'a>,
    program: Program,
    hop: Option<Time>,
    controllers: &'a mut [C],
    pending: &'a mut P,
    observer: &'a mut O,
    ties: Ties,
    now: Instant,
    processors: Vec<Processor>,
    replicas: Vec<Replica>,
    /// First replica of each service, and how many.
    replicas_of: Vec<(u32, u32)>,
    /// Whose turn it is, of each service.
    turns: Vec<u32>,
    crowds: Vec<Crowd>,
    visits: Vec<Visit>,
    free: Vec<u32>,
    /// Visits that go on now.
    going: VecDeque<u32>,
    plans: Vec<Plan<C::Message>>,
    free_plans: Vec<u32>,
    /// What controllers are told now.
    mail: VecDeque<(u32, Input<C::Message>)>,
    outboxes: Vec<Wishes<C>>,
    streams: Vec<Stream>,
    alarms: Vec<Vec<(Timer, Instant)>>,
    watched: Vec<Watched>,
    /// Leases that end in this order; only the first is an event. Hardly any is needed, and
    /// hundreds would be pending all the time.
    leases: VecDeque<Lease>,
    /// When the last of all leases ends that there ever were.
    last_lease: Instant,
    dead: Vec<bool>,
    /// Whom a group has met: of each group and service or replica.
    met: Vec<bool>,
    faults: Stream,
    late: Option<Time>,
    message_time: Option<Time>,
    stop_time: Option<Time>,
    go_time: Option<Time>,
    next_turn: u64,
    completed: u64,
    failed: u64,
    begun: u64,
    steps: u64,
    trail: Trail,
    marked: Vec<Used>,
    over: Option<Ended>,
}

impl<'a, C, P, O> World<'a, C, P, O>
where
    C: Controller,
    P: Pending,
    O: Observer<C::Finding>,
{
    fn new(
        setup: &'a Setup<'a>,
        program: Program,
        controllers: &'a mut [C],
        pending: &'a mut P,
        observer: &'a mut O,
    ) -> Self {
        let network = setup.network;
        let mut processors: Vec<Processor> =
            network.hosts.iter().map(|&host| Processor::new(host)).collect();
        let (mut replicas, mut replicas_of) = (Vec::new(), Vec::new());
        for (index, service) in network.services.iter().enumerate() {
            replicas_of.push((replicas.len() as u32, u32::from(service.replicas)));
            for _ in 0..service.replicas {
                let processor = match service.place {
                    Place::On(host) => host as u32,
                    Place::Own(host) => {
                        processors.push(Processor::new(host));
                        processors.len() as u32 - 1
                    }
                };
                processors[processor as usize].replicas.push(replicas.len() as u32);
                replicas.push(Replica::new(index as u32, processor, Some(service)));
            }
        }
        let mut crowds = Vec::new();
        for (index, clients) in network.clients.iter().enumerate() {
            let processor = match clients.capacity {
                None => NONE,
                Some((cores, _)) => {
                    let discipline = super::Discipline::Fcfs;
                    let mut own = Processor::new(super::Host { cores, discipline });
                    own.replicas.push(replicas.len() as u32);
                    processors.push(own);
                    processors.len() as u32 - 1
                }
            };
            let service = network.services.len() + index;
            crowds.push(Crowd {
                group: replicas.len() as u32,
                start: program.starts[service][0],
                virtual_time: clients.virtual_time,
                gap: match &clients.arriving {
                    Arriving::Open { gap } => Some(Time::new(gap, Span::ZERO)),
                    Arriving::Closed { .. } => None,
                },
                arrived: 0,
                next: Instant::ZERO,
                postponed: false,
            });
            replicas.push(Replica::new(service as u32, processor, None));
        }
        let time = |law: &Option<super::Law>| law.as_ref().map(|law| Time::new(law, Span::ZERO));
        let count = controllers.len();
        let services = network.services.len();
        let peers = if setup.wiring.virtual_addresses { services } else { replicas.len() };
        let introduces = setup.wiring.hears.iter().flatten().count() > 1;
        World {
            hop: time(&network.hop),
            program,
            ties: match setup.shuffle_ties {
                None => Ties::in_order(),
                Some(seed) => Ties::shuffled(seed),
            },
            now: Instant::ZERO,
            processors,
            turns: vec![0; services],
            crowds,
            visits: Vec::new(),
            free: Vec::new(),
            going: VecDeque::new(),
            plans: Vec::new(),
            free_plans: Vec::new(),
            mail: VecDeque::new(),
            outboxes: controllers
                .iter()
                .map(|one| Outbox::with_capacity(one.effects_max()))
                .collect(),
            streams: (0..count)
                .map(|node| Stream::keyed(setup.seed, node as u32, Purpose::Machine))
                .collect(),
            alarms: vec![Vec::new(); count],
            watched: Vec::new(),
            leases: VecDeque::new(),
            last_lease: Instant::ZERO,
            dead: vec![false; count],
            met: if introduces { vec![false; replicas.len() * peers] } else { Vec::new() },
            replicas,
            replicas_of,
            faults: Stream::keyed(setup.seed, 0, Purpose::Faults),
            late: time(&setup.faults.late),
            message_time: time(&setup.faults.message),
            stop_time: time(&setup.faults.stop),
            go_time: time(&setup.faults.go),
            next_turn: 0,
            completed: 0,
            failed: 0,
            begun: 0,
            steps: 0,
            trail: Trail::new(),
            marked: Vec::new(),
            over: None,
            setup,
            controllers,
            pending,
            observer,
        }
    }

    fn go(&mut self) -> Outcome {
        for controller in 0..self.controllers.len() as u32 {
            self.start_controller(controller);
        }
        self.read_mail();
        self.start_background();
        self.start_clients();
        self.go_on();
        let mut still = 0u32;
        while self.over.is_none() {
            let Some(key) = self.pending.pop() else {
                // Nothing but leases was to come.
                let late = self.last_lease > self.setup.until;
                self.over = Some(if late { Ended::Time } else { Ended::Stuck });
                self.now = self.now.max(self.last_lease).min(self.setup.until);
                break;
            };
            if key.at() > self.setup.until {
                self.now = self.setup.until;
                self.over = Some(Ended::Time);
                break;
            }
            // Requests that take no time at all would go round for ever in one instant.
            still = if key.at() == self.now { still + 1 } else { 0 };
            if still > 50_000_000 {
                self.over = Some(Ended::Stuck);
            }
            self.now = key.at();
            self.event(key.slot());
            self.go_on();
        }
        self.outcome()
    }

    #[inline]
    fn event(&mut self, slot: u32) {
        let index = slot >> entry::BITS;
        match slot & ((1 << entry::BITS) - 1) {
            entry::STEP => self.step_ends(index),
            entry::MESSAGE => self.message_arrives(index),
            entry::PATIENCE => self.patience_ends(index),
            entry::PROCESSOR => self.processor_due(index),
            entry::QUOTA => self.quota_due(index),
            _ => self.plan_due(index),
        }
    }

    /// Lets visits go on and controllers hear, until nothing more happens in this instant without
    /// an event.
    #[inline]
    fn go_on(&mut self) {
        loop {
            while let Some(visit) = self.going.pop_front() {
                self.advance(visit);
            }
            if self.mail.is_empty() {
                return;
            }
            self.read_mail();
        }
    }

    #[inline]
    fn push(&mut self, at: Instant, class: Class, index: u32, kind: u32) {
        self.pending.push(Key::new(at, class, self.ties.next(), index << entry::BITS | kind));
    }

    fn plan(&mut self, at: Instant, plan: Plan<C::Message>) {
        let tie = self.ties.next();
        self.plan_as(at, tie, plan);
    }

    fn plan_as(&mut self, at: Instant, tie: u64, plan: Plan<C::Message>) {
        let index = match self.free_plans.pop() {
            Some(index) => {
                self.plans[index as usize] = plan;
                index
            }
            None => {
                self.plans.push(plan);
                self.plans.len() as u32 - 1
            }
        };
        let slot = index << entry::BITS | entry::PLAN;
        self.pending.push(Key::new(at.max(self.now), Class::Timer, tie, slot));
    }

    fn plan_due(&mut self, index: u32) {
        self.free_plans.push(index);
        match self.plans[index as usize] {
            Plan::Alarm(controller, timer) => self.alarm_rings(controller, timer),
            Plan::Land(group, controller, epoch) => self.freeze_lands(group, controller, epoch),
            Plan::Leave(group, controller, epoch) => self.freeze_leaves(group, controller, epoch),
            Plan::Lease(controller, set, epoch) => self.lease_ends(controller, set, epoch),
            Plan::Tell(controller, input) => self.tell(controller, input),
            Plan::Watch(controller, group) => self.watch_due(controller, group),
            Plan::Refill(replica) => self.refill(replica),
            Plan::Background(replica, which) => self.background_due(replica, which),
            Plan::Newcomer(crowd) => self.newcomer_due(crowd),
        }
    }

    fn start_background(&mut self) {
        for replica in 0..self.replicas.len() as u32 {
            let Some(service) =
                self.setup.network.services.get(self.replicas[replica as usize].service as usize)
            else {
                continue;
            };
            for (which, &(every, _)) in service.background.iter().enumerate() {
                self.plan(self.now + every, Plan::Background(replica, which as u32));
            }
            if let Some(quota) = service.quota {
                self.plan(self.now + quota.period, Plan::Refill(replica));
            }
        }
    }

    fn background_due(&mut self, replica: u32, which: u32) {
        let service = self.replicas[replica as usize].service as usize;
        let (every, _) = self.setup.network.services[service].background[which as usize];
        self.plan(self.now + every, Plan::Background(replica, which));
        self.deliver(replica, Parcel::Background(which));
    }

    #[inline]
    fn fold(&mut self, mark: Mark, what: u64) {
        self.trail.fold(self.now, (mark as u64) << 56 | what & ((1 << 56) - 1));
    }

    fn end(&mut self, why: Ended) {
        self.over.get_or_insert(why);
    }

    fn note(&mut self, flow: ControlFlow<()>) {
        if flow.is_break() {
            self.end(Ended::Enough);
        }
    }

    fn outcome(&mut self) -> Outcome {
        let groups = self.all_used();
        Outcome {
            ended: self.over.unwrap_or(Ended::Time),
            at: self.now,
            completed: self.completed,
            failed: self.failed,
            visits: self.begun,
            steps: self.steps,
            groups,
            marked: core::mem::take(&mut self.marked),
            trail: self.trail.clone(),
        }
    }

    pub(super) fn all_used(&mut self) -> Vec<Used> {
        (0..self.replicas.len() as u32).map(|group| self.used(group)).collect()
    }

    fn used(&mut self, group: u32) -> Used {
        self.settle(group);
        let (now, replica) = (self.now, &self.replicas[group as usize]);
        let throttled = if replica.throttled {
            replica.throttled_for + now.since(replica.throttled_since)
        } else {
            replica.throttled_for
        };
        Used {
            usage: replica.account.usage,
            visits: replica.visits,
            frozen: replica.stood_until(now),
            stops: replica.stops,
            throttled,
            refused: replica.refused,
            timed_out: replica.timed_out,
            retried: replica.retried,
            leases_ended: replica.leases_ended,
        }
    }

    /// The controller of `group`.
    fn hears(&self, group: u32) -> Option<Node> {
        let controller = self.setup.wiring.hears.get(group as usize).copied().flatten()?;
        Some(Node(controller))
    }
}
