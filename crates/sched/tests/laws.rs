//! Every policy keeps the laws of the seam and the invariants common to all
//! ([persephone 2.15] I1, I2, I5 by `check`, I4 below).

use cavy_core::Span;
use cavy_core::family::cpu::{Kind, Req};
use cavy_core::laws::cpu::{Cpu, Offer};
use cavy_core::laws::{Punctuality, Rig, hold};
use cavy_sched::config::AnyPolicy;
use cavy_sched::darc::profile::Estimator;
use cavy_sched::darc::rehearsal::Terms;
use cavy_sched::darc::sizing::{Objective, Sizing};
use cavy_sched::darc::{self, GroupOrder};
use cavy_sched::distributed::Steering;
use cavy_sched::{Policy, TypeHint, build};

const SERVICES: &[Span] = &[Span::from_us(1), Span::from_us(20), Span::from_us(22)];
const WORKERS: u16 = 5;
const QUEUE_LIMIT: u32 = 12;

fn hints() -> Vec<TypeHint> {
    SERVICES.iter().map(|&mean| TypeHint { mean, ratio: 1.0 / 3.0 }).collect()
}

/// Every policy, with windows short enough that plans change during a test.
fn policies() -> Vec<(&'static str, Policy)> {
    let quick = darc::Config { window: 60, delay_factor: 1, ..darc::Config::default() };
    let darc = |config| Policy::Darc { config, hinted: false };
    let slice = Span::from_us(5);
    vec![
        ("c-FCFS", Policy::CentralFcfs),
        ("d-FCFS RR", Policy::DistributedFcfs { steering: Steering::RoundRobin }),
        ("d-FCFS random", Policy::DistributedFcfs { steering: Steering::Random }),
        ("d-FCFS 2 flows", Policy::DistributedFcfs { steering: Steering::Flows(2) }),
        ("stealing", Policy::Stealing { steering: Steering::Flows(3) }),
        ("fixed priority", Policy::FixedPriority),
        ("SJF", Policy::ShortestFirst),
        ("EDF", Policy::EarliestDeadline { deadlines: SERVICES.iter().map(|&s| s * 10).collect() }),
        ("CSCQ", Policy::CycleStealing { short_workers: 2 }),
        ("sliced single", Policy::SlicedSingle { slice }),
        (
            "sliced multi",
            Policy::SlicedMulti { slice, objectives: SERVICES.iter().map(|&s| s * 10).collect() },
        ),
        ("JSQ", Policy::DistributedFcfs { steering: Steering::Shortest }),
        ("JSQ of 2", Policy::DistributedFcfs { steering: Steering::ShortestOf(2) }),
        ("preempting SRPT", Policy::ShortestRemaining),
        ("preempting priority", Policy::PreemptivePriority),
        ("LCFS", Policy::LastCome { preempts: false }),
        ("preempting LCFS", Policy::LastCome { preempts: true }),
        ("sharing", Policy::ProcessorSharing { slots: WORKERS }),
        ("DARC", darc(quick.clone())),
        ("DARC hinted", Policy::Darc { config: quick.clone(), hinted: true }),
        ("DARC FCFS groups", darc(darc::Config { group_order: GroupOrder::Fcfs, ..quick.clone() })),
        (
            "DARC by occupancy, guarded",
            darc(darc::Config {
                by_occupancy: true,
                discard_straddling: true,
                guard_z: Some(2.0),
                estimator: Estimator::Weighted { weight: 0.01 },
                ..quick.clone()
            }),
        ),
        (
            "DARC load-aware",
            darc(darc::Config { sizing: Sizing::LoadAware(Objective::default()), ..quick.clone() }),
        ),
        (
            "DARC rehearsed",
            darc(darc::Config {
                sizing: Sizing::Rehearsed(Terms { trace: 1_200, ..Terms::default() }),
                ..quick
            }),
        ),
        (
            "DARC-static",
            Policy::DarcStatic { groups: vec![(vec![Kind(1)], 1), (vec![Kind(2), Kind(3)], 4)] },
        ),
    ]
}

fn offer(resize: bool) -> Offer {
    Offer {
        workers: WORKERS,
        gap: Span::from_ns(2_900),
        services: SERVICES,
        unknown: true,
        resize,
        requests: 4_000,
    }
}

fn machine(policy: &Policy) -> Box<dyn AnyPolicy> {
    build(policy, WORKERS, &hints(), QUEUE_LIMIT).expect("a legal policy")
}

#[test]
fn every_policy_keeps_the_laws() {
    for (name, policy) in policies() {
        for seed in 0..4 {
            for resize in [false, true] {
                println!("{name}, seed {seed}, resize {resize}");
                hold(|| Cpu::new(offer(resize), seed, || machine(&policy)), seed, 12_000);
            }
        }
    }
}

#[test]
fn every_request_ends_exactly_once() {
    for (name, policy) in policies() {
        for seed in 10..14 {
            for resize in [false, true] {
                let world = Cpu::new(offer(resize), seed, || machine(&policy));
                let mut rig = Rig::new(world, seed, Punctuality::Exact);
                while rig.step().is_some() {}
                let world = rig.environment();
                let context = format!("{name}, seed {seed}, resize {resize}");
                assert_eq!(world.unresolved(), 0, "{context}: requests left over");
                assert_eq!(world.finished + world.dropped, 4_000, "{context}");
                assert!(world.finished > 1_500, "{context}: {} finished", world.finished);
            }
        }
    }
}

#[test]
fn full_queues_drop_and_say_so() {
    let mut overload = offer(false);
    overload.gap = Span::from_ns(1_000);
    for (name, policy) in policies() {
        let world = Cpu::new(overload.clone(), 3, || machine(&policy));
        let mut rig = Rig::new(world, 3, Punctuality::Exact);
        while rig.step().is_some() {}
        assert!(rig.environment().dropped > 100, "{name}: {}", rig.environment().dropped);
    }
}

/// [persephone I3]: requests of one type start in the order of arrival, where there is one queue
/// for them and nobody is preempted.
#[test]
fn requests_of_a_type_start_in_the_order_of_arrival() {
    let one_queue_a_type = |name: &str| {
        let others = ["d-FCFS", "JSQ", "sliced", "preempting", "LCFS", "stealing"];
        !others.iter().any(|other| name.starts_with(other))
    };
    for (name, policy) in policies().into_iter().filter(|(name, _)| one_queue_a_type(name)) {
        let world = Cpu::new(offer(false), 21, || machine(&policy));
        let mut rig = Rig::new(world, 21, Punctuality::Exact);
        while rig.step().is_some() {}
        let world = rig.environment();
        for kind in (0..=3).map(Kind) {
            let of_kind = |req: &Req| world.kinds[req.0 as usize] == kind;
            let starts: Vec<Req> =
                world.starts.iter().map(|&(_, _, req)| req).filter(of_kind).collect();
            assert!(starts.is_sorted(), "{name}: {kind:?} out of order");
        }
    }
}

/// [persephone I4]: no request starts on a worker below its group's first reserved one.
#[test]
fn long_requests_never_start_on_a_short_types_worker() {
    let policy = Policy::DarcStatic {
        groups: vec![(vec![Kind(1)], 1), (vec![Kind(2)], 2), (vec![Kind(3)], 2)],
    };
    let known = Offer { unknown: false, ..offer(false) };
    let world = Cpu::new(known, 22, || machine(&policy));
    let mut rig = Rig::new(world, 22, Punctuality::Exact);
    while rig.step().is_some() {}
    let world = rig.environment();
    let mut stolen = 0;
    for &(_, worker, req) in &world.starts {
        let first = [0, 0, 1, 3][world.kinds[req.0 as usize].0 as usize];
        assert!(worker.0 >= first, "{req:?} of a group that begins at {first} runs on {worker:?}");
        stolen += u32::from(first == 0 && worker.0 > 0);
    }
    assert!(stolen > 10, "short requests should have borrowed workers: {stolen}");
}
