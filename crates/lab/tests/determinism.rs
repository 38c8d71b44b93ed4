//! Same seed, same run: on either queue of events, in any build, with any policy; and what must
//! *not* depend on the policy does not.

#[path = "../../../tests/wasm/golden.rs"]
mod golden;

use cavy_core::family::cpu::Kind;
use cavy_core::{Instant, Span};
use cavy_lab::cpu::{Cores, Costs, Done, Observer, Outcome, Recorder, Setup, Unobserved, run};
use cavy_lab::pending::{Heap4, Pending, Wheel};
use cavy_sched::darc::profile::Estimator;
use cavy_sched::darc::rehearsal::Terms;
use cavy_sched::darc::sizing::{Objective, Sizing};
use cavy_sched::darc::{self, GroupOrder};
use cavy_sched::distributed::Steering;
use cavy_sched::{Policy, TypeHint, build};
use cavy_workload::{Arrivals, Mix, Phase, Service, Source, Type, Workload};

const WORKERS: u16 = 6;
const SLOTS: u16 = 1000;

/// Four types of constant service time, two of which make a group: many events share a nanosecond.
fn constant() -> Mix {
    let one = |share, ns| Type { share, service: Service::Constant { ns } };
    let types = vec![one(0.5, 1_000), one(0.2, 20_000), one(0.1, 23_000), one(0.2, 100_000)];
    Mix::new(types).expect("a legal mix")
}

/// The same means, and no two events at one time but by rare accident.
fn continuous() -> Mix {
    let one = |share, mean_ns| Type { share, service: Service::Exponential { mean_ns } };
    let types = vec![one(0.5, 1e6), one(0.2, 2e7), one(0.1, 2.3e7), one(0.2, 1e8)];
    Mix::new(types).expect("a legal mix")
}

/// Every policy, and every option of DARC that changes what it decides.
fn policies(unit: Span) -> Vec<(&'static str, Policy)> {
    let times = [unit, unit * 20, unit * 23, unit * 100];
    let quick = darc::Config { window: 2_000, delay_factor: 1, ..darc::Config::default() };
    let darc = |config| Policy::Darc { config, hinted: false };
    let objectives: Vec<Span> = times.iter().map(|&time| time * 10).collect();
    vec![
        ("c-FCFS", Policy::CentralFcfs),
        ("d-FCFS round robin", Policy::DistributedFcfs { steering: Steering::RoundRobin }),
        ("d-FCFS random", Policy::DistributedFcfs { steering: Steering::Random }),
        ("d-FCFS many flows", Policy::DistributedFcfs { steering: Steering::Flows(600) }),
        ("stealing", Policy::Stealing { steering: Steering::Flows(3) }),
        ("fixed priority", Policy::FixedPriority),
        ("SJF", Policy::ShortestFirst),
        ("EDF", Policy::EarliestDeadline { deadlines: objectives.clone() }),
        ("CSCQ", Policy::CycleStealing { short_workers: 2 }),
        ("sliced single", Policy::SlicedSingle { slice: unit * 5 }),
        ("sliced multi", Policy::SlicedMulti { slice: unit * 5, objectives }),
        ("JSQ", Policy::DistributedFcfs { steering: Steering::Shortest }),
        ("JSQ of 2", Policy::DistributedFcfs { steering: Steering::ShortestOf(2) }),
        ("SRPT", Policy::ShortestRemaining),
        ("preemptive priority", Policy::PreemptivePriority),
        ("LCFS", Policy::LastCome { preempts: true }),
        ("sharing", Policy::ProcessorSharing { slots: SLOTS }),
        ("DARC", darc(quick.clone())),
        ("DARC hinted", Policy::Darc { config: quick.clone(), hinted: true }),
        ("DARC FCFS groups", darc(darc::Config { group_order: GroupOrder::Fcfs, ..quick.clone() })),
        (
            "DARC by occupancy, guarded, weighted",
            darc(darc::Config {
                by_occupancy: true,
                discard_straddling: true,
                guard_z: Some(2.0),
                estimator: Estimator::Weighted { weight: 0.01 },
                ..quick.clone()
            }),
        ),
        ("DARC truncated", darc(darc::Config { estimator: Estimator::Truncated, ..quick.clone() })),
        (
            "DARC load-aware",
            darc(darc::Config { sizing: Sizing::LoadAware(Objective::default()), ..quick.clone() }),
        ),
        (
            "DARC rehearsed",
            darc(darc::Config {
                sizing: Sizing::Rehearsed(Terms { trace: 2_000, ..Terms::default() }),
                ..quick
            }),
        ),
        (
            "DARC-static",
            Policy::DarcStatic {
                groups: vec![(vec![Kind(1)], 1), (vec![Kind(2), Kind(3), Kind(4)], 5)],
            },
        ),
    ]
}

fn workload(mix: &Mix, load: f64) -> Workload {
    let phase = Phase {
        rate_per_s: load * mix.peak_rate_per_s(u32::from(WORKERS)),
        mix: mix.clone(),
        arrivals: Arrivals::Poisson,
        duration: None,
    };
    Workload::new(vec![phase], 0.0).expect("a legal workload")
}

struct Scenario {
    mix: Mix,
    load: f64,
    requests: u64,
    seed: u64,
    shuffle_ties: Option<u64>,
}

impl Scenario {
    fn setup(&self, policy: &Policy) -> Setup {
        let sharing = matches!(policy, Policy::ProcessorSharing { .. });
        Setup {
            workers: if sharing { SLOTS } else { WORKERS },
            cores: if sharing { Cores::Shared(WORKERS) } else { Cores::Own },
            costs: Costs { preemption: Span::from_ns(700), ..Costs::default() },
            seed: self.seed,
            shuffle_ties: self.shuffle_ties,
            requests: self.requests,
            check: false,
        }
    }

    fn run_on(
        &self,
        policy: &Policy,
        pending: &mut impl Pending,
        observer: &mut impl Observer<Box<dyn cavy_sched::config::AnyPolicy>>,
    ) -> Outcome {
        let hint = |one: &Type| TypeHint {
            mean: Span::from_ns(one.service.mean_ns() as u64),
            ratio: one.share,
        };
        let hints: Vec<TypeHint> = self.mix.types().iter().map(hint).collect();
        let mut machine = build(policy, WORKERS, &hints, 1 << 20).expect("a legal policy");
        let source = Source::new(&workload(&self.mix, self.load), self.seed);
        run(&self.setup(policy), &mut machine, source, pending, observer)
    }

    fn run(&self, policy: &Policy) -> Outcome {
        self.run_on(policy, &mut Heap4::new(), &mut Unobserved)
    }
}

fn scenario() -> Scenario {
    Scenario { mix: constant(), load: 0.8, requests: 20_000, seed: 5, shuffle_ties: None }
}

#[test]
fn both_queues_of_events_give_the_same_run() {
    for shuffle_ties in [None, Some(3)] {
        let scenario = Scenario { shuffle_ties, ..scenario() };
        let (mut heap, mut wheel) = (Heap4::new(), Wheel::new());
        for (name, policy) in policies(Span::from_us(1)) {
            // The queues are used again, so a run must not inherit from the one before.
            let on_heap = scenario.run_on(&policy, &mut heap, &mut Unobserved);
            let on_wheel = scenario.run_on(&policy, &mut wheel, &mut Unobserved);
            let parting = on_heap.trail.parts_from(&on_wheel.trail);
            assert_eq!(parting, None, "{name}");
            assert_eq!(on_heap, on_wheel, "{name}");
            assert_eq!(on_heap.finished, scenario.requests, "{name}");
        }
    }
}

#[test]
fn golden_digests() {
    for golden in &golden::GOLDEN {
        let found = golden.run();
        println!("{}: 0x{found:016X}", golden.name);
        assert_eq!(found, golden.digest, "{}: found 0x{found:016X}", golden.name);
    }
}

#[test]
fn different_policies_and_seeds_give_different_digests() {
    // A digest that saw too little would call different runs equal. Types are registered in the
    // order of their means, so that SJF is fixed priority here; constant times leave nothing to
    // truncate; and both searches for a better plan find the same.
    let mut digests: Vec<(u64, &str)> = policies(Span::from_us(1))
        .iter()
        .filter(|(name, _)| !["SJF", "DARC truncated", "DARC rehearsed"].contains(name))
        .map(|(name, policy)| (scenario().run(policy).trail.digest(), *name))
        .collect();
    let other = Scenario { seed: 6, ..scenario() }.run(&Policy::CentralFcfs).trail;
    digests.push((other.digest(), "c-FCFS, another seed"));
    digests.sort_unstable();
    for pair in digests.windows(2) {
        assert_ne!(pair[0].0, pair[1].0, "{} and {}", pair[0].1, pair[1].1);
    }
}

#[test]
fn a_run_repeats_and_another_seed_parts_at_once() {
    for (name, policy) in policies(Span::from_us(1)) {
        let one = scenario().run(&policy).trail;
        let again = scenario().run(&policy).trail;
        assert_eq!(one.parts_from(&again), None, "{name}");
        let other = Scenario { seed: 6, ..scenario() }.run(&policy).trail;
        let (agreed, parted) = one.parts_from(&other).expect("another seed is another run");
        assert_eq!(agreed, None, "{name}: nothing agrees before the first waypoint");
        assert_eq!(parted.expect("a waypoint").events, 1024, "{name}");
    }
}

#[test]
fn a_late_difference_is_found_late() {
    // The same run, but for the very end: all waypoints agree.
    let short = scenario().run(&Policy::CentralFcfs).trail;
    let longer = Scenario { requests: 20_010, ..scenario() }.run(&Policy::CentralFcfs).trail;
    let (agreed, parted) = short.parts_from(&longer).expect("they differ");
    let agreed = agreed.expect("they agree for long");
    assert!(agreed.events > 55_000, "{agreed:?}");
    assert!(parted.is_none_or(|mark| mark.events > agreed.events));
}

/// Every request's latency by its number.
#[derive(Default)]
struct Latencies(Vec<(u16, Span)>);

impl<M: ?Sized> Observer<M> for Latencies {
    fn finished(&mut self, done: &Done) {
        let index = done.number as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, (u16::MAX, Span::ZERO));
        }
        self.0[index] = (done.kind, done.latency);
    }
}

#[test]
fn shuffled_ties_leave_runs_without_ties_alone() {
    // Times of milliseconds in nanoseconds: two events of one class share one next to never, so the
    // order among them must not matter, for any policy.
    let steady = Scenario { mix: continuous(), ..scenario() };
    for (name, policy) in policies(Span::from_ms(1)) {
        let latencies = |shuffle_ties| {
            let mut latencies = Latencies::default();
            let scenario = Scenario { mix: steady.mix.clone(), shuffle_ties, ..scenario() };
            scenario.run_on(&policy, &mut Heap4::new(), &mut latencies);
            latencies.0
        };
        assert_eq!(latencies(None), latencies(Some(11)), "{name}");
    }
}

#[test]
fn shuffled_ties_move_no_percentile_beyond_noise() {
    // With constant service times many events coincide. Which of them comes first is nobody's
    // promise, so a percentile that moved with it would rest on an accident. The noise is that of
    // runs of this length: their 99th percentiles differ by up to 5 % from seed to seed.
    let steady = Scenario { load: 0.7, requests: 60_000, ..scenario() };
    for (name, policy) in policies(Span::from_us(1)) {
        let percentiles = |shuffle_ties| {
            let scenario = Scenario { mix: steady.mix.clone(), shuffle_ties, ..steady };
            let mut recorder = Recorder::new(scenario.requests, 4);
            let outcome = scenario.run_on(&policy, &mut Heap4::new(), &mut recorder);
            let record = recorder.finish(&scenario.setup(&policy), outcome);
            let of = |p| move |one: &cavy_lab::cpu::TypeRecord| one.latency.quantile(p);
            let median = record.types.iter().map(of(0.5)).collect::<Vec<_>>();
            let tail = record.types.iter().map(of(0.99)).collect::<Vec<_>>();
            [median, tail].concat()
        };
        let plain = percentiles(None);
        for seed in [1, 2] {
            for (a, b) in plain.iter().zip(percentiles(Some(seed))) {
                let (a, b) = (a.expect("requests") as f64, b.expect("requests") as f64);
                assert!((a / b - 1.0).abs() < 0.05, "{name}: {a} ns in order, {b} ns shuffled");
            }
        }
    }
}

/// Arrival times and types, as the machine met them.
#[derive(Default)]
struct Met(Vec<(u16, Instant, Instant)>);

impl<M: ?Sized> Observer<M> for Met {
    fn finished(&mut self, done: &Done) {
        let index = done.number as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, (u16::MAX, Instant::ZERO, Instant::ZERO));
        }
        let arrived = Instant::from_ns(done.at.as_ns() - done.latency.as_ns());
        self.0[index] = (done.kind, arrived, done.at);
    }
}

#[test]
fn all_policies_meet_the_same_requests() {
    // Common random numbers: number, type and arrival are the same request by request, while the
    // ends differ. Service times can be seen where nobody ever waits.
    let met = |policy: &Policy, load| {
        let mut met = Met::default();
        let scenario = Scenario { mix: continuous(), load, ..scenario() };
        scenario.run_on(policy, &mut Heap4::new(), &mut met);
        met.0
    };
    let all = policies(Span::from_ms(1));
    let reference = met(&Policy::CentralFcfs, 0.8);
    for (name, policy) in &all {
        let other = met(policy, 0.8);
        assert_eq!(other.len(), reference.len(), "{name}");
        for (a, b) in reference.iter().zip(&other) {
            assert_eq!((a.0, a.1), (b.0, b.1), "{name}");
        }
    }
    let darc = all.iter().find(|(name, _)| *name == "DARC").expect("listed");
    let ends = |met: &[(u16, Instant, Instant)]| met.iter().map(|m| m.2).collect::<Vec<_>>();
    assert_ne!(ends(&reference), ends(&met(&darc.1, 0.8)), "DARC is no c-FCFS");
    // At a load of one in ten million nobody waits: the ends are arrival plus service.
    assert_eq!(ends(&met(&Policy::CentralFcfs, 1e-7)), ends(&met(&darc.1, 1e-7)));
}

/// The most requests that were in the system at once.
#[derive(Default)]
struct Crowd(u64);

impl<M: ?Sized> Observer<M> for Crowd {
    fn arrived(&mut self, _: u64, _: u16, in_system: u64) {
        self.0 = self.0.max(in_system + 1);
    }
}

#[test]
fn memory_does_not_grow_with_the_length_of_a_run() {
    let allocations = |policy: &Policy, requests| {
        let scenario = Scenario { requests, load: 0.7, ..scenario() };
        let mut crowd = Crowd::default();
        let mut peak = 0;
        let info = allocation_counter::measure(|| {
            scenario.run_on(policy, &mut Heap4::new(), &mut crowd);
            peak = crowd.0;
        });
        (info.count_total, info.bytes_max, peak)
    };
    for (name, policy) in policies(Span::from_us(1)) {
        // A new plan may allocate; with the load steady there are few plans.
        if matches!(&policy, Policy::Darc { .. }) {
            continue;
        }
        let (count, bytes, crowd) = allocations(&policy, 200_000);
        let (count_twice, bytes_twice, crowd_twice) = allocations(&policy, 400_000);
        // Each structure that follows the crowd may double once or twice when the longer run meets
        // a larger crowd: slots of jobs, their free list, a queue per type or per worker.
        assert!(count_twice <= count + 24, "{name}: {count} allocations, then {count_twice}");
        // A leak of one word a request would be 1.6 MB; a larger crowd costs less than this each.
        let allowed = bytes + 65_536 + 200 * crowd_twice.saturating_sub(crowd);
        assert!(bytes_twice <= allowed, "{name}: {bytes} bytes, then {bytes_twice}");
        assert!(crowd_twice < 5_000, "{name}: {crowd_twice} in the system at once");
    }
}

#[test]
fn plans_of_darc_allocate_and_requests_do_not() {
    // Plans under a steady load: at most one per window, and some hundred allocations each.
    let config = darc::Config { window: 20_000, delay_factor: 1, ..darc::Config::default() };
    let policy = Policy::Darc { config, hinted: false };
    let count = |requests| {
        let scenario = Scenario { requests, load: 0.7, ..scenario() };
        let mut outcome = None;
        let info = allocation_counter::measure(|| {
            outcome = Some(scenario.run_on(&policy, &mut Heap4::new(), &mut Unobserved));
        });
        assert_eq!(outcome.expect("a run").finished, requests);
        info.count_total
    };
    let (once, twice) = (count(200_000), count(400_000));
    let windows = 200_000 / 20_000;
    assert!(twice <= once + 24 + windows * 100, "{once} allocations, then {twice}");
}
