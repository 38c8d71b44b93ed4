//! Law 8: after warm-up no policy allocates per step.
//!
//! The driver here allocates nothing itself: requests come from a generator, and what is running
//! lives in arrays. Warm-up lets every queue grow to the longest backlog that the measured stretch
//! meets: both see the same cycle of load.

use cavy_core::family::cpu::{Effect, Input, Kind, Req, Timer, Worker};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_sched::config::AnyPolicy;
use cavy_sched::darc::profile::Estimator;
use cavy_sched::darc::rehearsal::Terms;
use cavy_sched::darc::sizing::{Objective, Sizing};
use cavy_sched::darc::{self, GroupOrder};
use cavy_sched::distributed::Steering;
use cavy_sched::{Policy, TypeHint, build};

const WORKERS: usize = 5;
const SERVICES_NS: [u64; 3] = [1_000, 20_000, 22_000];
const QUEUE_LIMIT: u32 = 32;
/// Names of requests; more than can be in the system.
const NAMES: usize = 1024;
const NEVER: u64 = u64::MAX;

/// A world in arrays.
struct Stage {
    machine: Box<dyn AnyPolicy>,
    outbox: Outbox<Effect, Timer>,
    rng: Stream,
    draws: Stream,
    now_ns: u64,
    arrives_ns: u64,
    /// When each worker ends, what it runs, and whether it then yields.
    ends_ns: [u64; WORKERS],
    runs: [u32; WORKERS],
    since_ns: [u64; WORKERS],
    yields: [bool; WORKERS],
    slices_ns: [u64; WORKERS],
    left_ns: [u64; NAMES],
    kinds: [u16; NAMES],
    in_use: [bool; NAMES],
    next_name: usize,
    /// Makes the types change places now and then, so that plans change.
    swap: bool,
    plans: u64,
    finished: u64,
    dropped: u64,
}

impl Stage {
    fn new(policy: &Policy) -> Self {
        let hint = |&ns: &u64| TypeHint { mean: Span::from_ns(ns), ratio: 1.0 / 3.0 };
        let hints: Vec<TypeHint> = SERVICES_NS.iter().map(hint).collect();
        let machine = build(policy, WORKERS as u16, &hints, QUEUE_LIMIT).expect("a legal policy");
        let mut stage = Stage {
            outbox: Outbox::with_capacity(machine.effects_max()),
            machine,
            rng: Stream::keyed(1, 0, Purpose::Machine),
            draws: Stream::keyed(1, 0, Purpose::Test),
            now_ns: 0,
            arrives_ns: 0,
            ends_ns: [NEVER; WORKERS],
            runs: [0; WORKERS],
            since_ns: [0; WORKERS],
            yields: [false; WORKERS],
            slices_ns: [NEVER; WORKERS],
            left_ns: [0; NAMES],
            kinds: [0; NAMES],
            in_use: [false; NAMES],
            next_name: 0,
            swap: false,
            plans: 0,
            finished: 0,
            dropped: 0,
        };
        let mut cx = Cx::new(Instant::ZERO, &mut stage.rng, &mut stage.outbox);
        stage.machine.start(&mut cx);
        stage.settle();
        stage
    }

    fn earliest(times_ns: &[u64; WORKERS]) -> (u64, usize) {
        let mut best = (NEVER, 0);
        for (worker, &at_ns) in times_ns.iter().enumerate() {
            if at_ns < best.0 {
                best = (at_ns, worker);
            }
        }
        best
    }

    fn step(&mut self) {
        let (end_ns, worker) = Self::earliest(&self.ends_ns);
        let (slice_ns, sliced) = Self::earliest(&self.slices_ns);
        let input = if end_ns <= self.arrives_ns && end_ns <= slice_ns {
            self.now_ns = end_ns;
            self.ends_ns[worker] = NEVER;
            let req = Req(self.runs[worker]);
            let worker_name = Worker(worker as u16);
            if std::mem::take(&mut self.yields[worker]) {
                Input::Yielded { worker: worker_name, req }
            } else {
                self.finished += 1;
                self.in_use[req.0 as usize] = false;
                Input::Finished { worker: worker_name, req, service: None }
            }
        } else if self.arrives_ns <= slice_ns {
            self.now_ns = self.arrives_ns;
            // Bursts at a load of 1.4, which fill the queues, between stretches at .75.
            let busy = (self.now_ns / 500_000).is_multiple_of(2);
            self.arrives_ns += self.draws.below(if busy { 4_000 } else { 7_600 });
            while self.in_use[self.next_name] {
                self.next_name = (self.next_name + 1) % NAMES;
            }
            let name = self.next_name;
            let drawn = self.draws.below(13);
            let kind = if drawn == 12 { 0 } else { (drawn % 3 + 1) as u16 };
            let service = usize::from(kind).saturating_sub(1);
            self.in_use[name] = true;
            self.kinds[name] = kind;
            self.left_ns[name] = SERVICES_NS[if self.swap { 2 - service } else { service }];
            Input::Arrive { req: Req(name as u32), kind: Kind(kind) }
        } else {
            self.now_ns = slice_ns;
            self.slices_ns[sliced] = NEVER;
            let now = Instant::from_ns(self.now_ns);
            let mut cx = Cx::new(now, &mut self.rng, &mut self.outbox);
            self.machine.expire(Timer::Slice(Worker(sliced as u16)), &mut cx);
            self.settle();
            return;
        };
        let now = Instant::from_ns(self.now_ns);
        self.machine.handle(input, &mut Cx::new(now, &mut self.rng, &mut self.outbox));
        self.settle();
    }

    fn settle(&mut self) {
        for out in self.outbox.drain() {
            match out {
                Out::Effect(Effect::Run { worker: Worker(worker), req, .. }) => {
                    let worker = usize::from(worker);
                    assert_eq!(self.ends_ns[worker], NEVER, "worker {worker} is busy");
                    self.runs[worker] = req.0;
                    self.since_ns[worker] = self.now_ns;
                    self.ends_ns[worker] = self.now_ns + self.left_ns[req.0 as usize];
                }
                Out::Effect(Effect::Preempt { worker: Worker(worker) }) => {
                    let worker = usize::from(worker);
                    let left_ns = &mut self.left_ns[self.runs[worker] as usize];
                    *left_ns -= self.now_ns - self.since_ns[worker];
                    self.ends_ns[worker] = self.now_ns + 500;
                    self.yields[worker] = true;
                }
                Out::Effect(Effect::Drop { req, .. }) => {
                    self.in_use[req.0 as usize] = false;
                    self.dropped += 1;
                }
                Out::Effect(Effect::Reserved { .. }) => self.plans += 1,
                Out::Arm(Timer::Slice(Worker(worker)), at) => {
                    self.slices_ns[usize::from(worker)] = at.as_ns();
                }
                Out::Disarm(Timer::Slice(Worker(worker))) => {
                    self.slices_ns[usize::from(worker)] = NEVER;
                }
            }
        }
    }

    fn steps(&mut self, count: u64) {
        for _ in 0..count {
            self.step();
        }
    }
}

const WARM_UP: u64 = 200_000;
const MEASURED: u64 = 200_000;

fn without_plans() -> Vec<(&'static str, Policy)> {
    let slice = Span::from_us(5);
    let limits: Vec<Span> = SERVICES_NS.iter().map(|&ns| Span::from_ns(10 * ns)).collect();
    // A window so long that the one plan made is behind the warm-up.
    let once = darc::Config { delay_factor: u64::MAX, window: 1_000, ..darc::Config::default() };
    vec![
        ("c-FCFS", Policy::CentralFcfs),
        ("d-FCFS round robin", Policy::DistributedFcfs { steering: Steering::RoundRobin }),
        ("d-FCFS random", Policy::DistributedFcfs { steering: Steering::Random }),
        ("d-FCFS 2 flows", Policy::DistributedFcfs { steering: Steering::Flows(2) }),
        ("stealing", Policy::Stealing { steering: Steering::Flows(3) }),
        ("fixed priority", Policy::FixedPriority),
        ("SJF", Policy::ShortestFirst),
        ("EDF", Policy::EarliestDeadline { deadlines: limits.clone() }),
        ("CSCQ", Policy::CycleStealing { short_workers: 2 }),
        ("sliced single", Policy::SlicedSingle { slice }),
        ("sliced multi", Policy::SlicedMulti { slice, objectives: limits }),
        ("JSQ", Policy::DistributedFcfs { steering: Steering::Shortest }),
        ("JSQ of 2", Policy::DistributedFcfs { steering: Steering::ShortestOf(2) }),
        ("SRPT", Policy::ShortestRemaining),
        ("preemptive priority", Policy::PreemptivePriority),
        ("LCFS", Policy::LastCome { preempts: true }),
        ("sharing", Policy::ProcessorSharing { slots: WORKERS as u16 }),
        ("DARC between plans", Policy::Darc { config: once.clone(), hinted: false }),
        ("DARC hinted, between plans", Policy::Darc { config: once.clone(), hinted: true }),
        (
            "DARC FCFS groups, between plans",
            Policy::Darc {
                config: darc::Config { group_order: GroupOrder::Fcfs, ..once },
                hinted: false,
            },
        ),
        (
            "DARC-static",
            Policy::DarcStatic { groups: vec![(vec![Kind(1)], 1), (vec![Kind(2), Kind(3)], 4)] },
        ),
    ]
}

#[test]
fn law_8_no_step_allocates_after_warm_up() {
    for (name, policy) in without_plans() {
        let mut stage = Stage::new(&policy);
        stage.steps(WARM_UP);
        let (plans, finished) = (stage.plans, stage.finished);
        let info = allocation_counter::measure(|| stage.steps(MEASURED));
        assert_eq!(info.count_total, 0, "{name}: {info:?}");
        assert_eq!(stage.plans, plans, "{name}: a plan in the measured stretch");
        assert!(stage.finished > finished + 20_000, "{name}: {} finished", stage.finished);
        assert!(stage.dropped > 0, "{name}: queues were never full");
    }
}

#[test]
fn law_8_darc_allocates_at_most_once_a_window() {
    const WINDOW: u64 = 2_000;
    let quick = || darc::Config { window: WINDOW, delay_factor: 0, ..darc::Config::default() };
    // Allocations of one evaluation: a handful of lists with one entry per group or per type; what
    // rehearsing adds is one table per candidate and the room for the trace.
    for (name, config, each) in [
        ("by demand", quick(), 4),
        (
            "guarded, weighted",
            darc::Config {
                guard_z: Some(1.0),
                estimator: Estimator::Weighted { weight: 0.01 },
                by_occupancy: true,
                ..quick()
            },
            4,
        ),
        (
            "load-aware",
            darc::Config { sizing: Sizing::LoadAware(Objective::default()), ..quick() },
            // It applies a table at every evaluation, whether or not the mix changed.
            6,
        ),
        (
            "rehearsed",
            darc::Config {
                sizing: Sizing::Rehearsed(Terms { trace: 2_000, ..Terms::default() }),
                ..quick()
            },
            40,
        ),
    ] {
        let mut stage = Stage::new(&Policy::Darc { config, hinted: false });
        // Both mixes, so that queues have met the longest backlog of either.
        for swap in [false, true, false] {
            stage.swap = swap;
            stage.steps(WARM_UP);
        }
        let (plans, finished) = (stage.plans, stage.finished);
        let info = allocation_counter::measure(|| {
            for swap in [true, false, true, false] {
                stage.swap = swap;
                stage.steps(MEASURED / 4);
            }
        });
        let (plans, finished) = (stage.plans - plans, stage.finished - finished);
        assert!(plans >= 3, "{name}: only {plans} plans");
        assert!(plans <= finished / WINDOW + 1, "{name}: {plans} plans, {finished} finished");
        let evaluations = finished / WINDOW + 1;
        assert!(
            info.count_total <= evaluations * each,
            "{name}: {} allocations in {evaluations} evaluations",
            info.count_total
        );
        println!("{name}: {} allocations, {plans} plans", info.count_total);
    }
}
