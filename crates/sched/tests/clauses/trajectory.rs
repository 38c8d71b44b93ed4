//! Pairs of machines that must decide alike on any traffic ([persephone 2.15] I9 to I11,
//! [persephone 2.10]): same requests, same workers, same nanoseconds.

use cavy_core::family::cpu::{Effect, Input, Kind, Req, Scheduler, Timer, Worker};
use cavy_core::laws::cpu::{Cpu, Offer};
use cavy_core::laws::{Punctuality, Rig};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Span};
use cavy_sched::config::AnyPolicy;
use cavy_sched::darc::{self, GroupOrder};
use cavy_sched::distributed::Steering;
use cavy_sched::{Policy, TypeHint, build};

const WORKERS: u16 = 5;
const REQUESTS: u32 = 3_000;

/// Every start in order: when, where, which.
fn starts<M: Scheduler>(
    offer: &Offer,
    seed: u64,
    make: impl Fn() -> M,
) -> Vec<(Instant, Worker, Req)> {
    let mut rig = Rig::new(Cpu::new(offer.clone(), seed, make), seed, Punctuality::Exact);
    while rig.step().is_some() {}
    rig.environment().starts.clone()
}

fn offer(services: &'static [Span], load: f64) -> Offer {
    let mean_ns = services.iter().map(|s| s.as_ns()).sum::<u64>() / services.len() as u64;
    let gap = Span::from_ns((mean_ns as f64 / f64::from(WORKERS) / load) as u64);
    Offer { workers: WORKERS, gap, services, unknown: false, resize: false, requests: REQUESTS }
}

fn machine(policy: &Policy, services: &[Span]) -> Box<dyn AnyPolicy> {
    let ratio = 1.0 / services.len() as f64;
    let hints: Vec<TypeHint> = services.iter().map(|&mean| TypeHint { mean, ratio }).collect();
    build(policy, WORKERS, &hints, 1 << 20).expect("a legal policy")
}

/// Both policies start the same requests on the same workers at the same times.
fn alike(one: &Policy, other: &Policy, offer: &Offer) {
    for seed in 0..8 {
        let of = |policy| starts(offer, seed, || machine(policy, offer.services));
        let (one_starts, other_starts) = (of(one), of(other));
        assert!(one_starts.len() > REQUESTS as usize / 2);
        let parting = one_starts.iter().zip(&other_starts).position(|(a, b)| a != b);
        assert_eq!(parting, None, "seed {seed}: {one:?} parts from {other:?}");
        assert_eq!(one_starts.len(), other_starts.len());
    }
}

/// Plans are made often, so that a plan that decides differently has every chance to.
fn quick() -> darc::Config {
    darc::Config { window: 50, delay_factor: 0, correction: Span::ZERO, ..darc::Config::default() }
}

const ONE: &[Span] = &[Span::from_us(5)];
const ALIKE: &[Span] = &[Span::from_us(20), Span::from_us(22), Span::from_us(21)];
const TWO: &[Span] = &[Span::from_us(1), Span::from_us(100)];
const THREE: &[Span] = &[Span::from_us(1), Span::from_us(20), Span::from_us(22)];

/// [persephone I9]; the next test has one group of several types.
#[test]
fn invariant_9_one_type_is_cfcfs() {
    for hinted in [false, true] {
        for resize in [false, true] {
            let offer = Offer { resize, ..offer(ONE, 0.95) };
            alike(&Policy::Darc { config: quick(), hinted }, &Policy::CentralFcfs, &offer);
        }
    }
}

#[test]
fn invariant_9_one_group_first_come_first_served_is_cfcfs() {
    let config = darc::Config { group_order: GroupOrder::Fcfs, ..quick() };
    for hinted in [false, true] {
        let policy = Policy::Darc { config: config.clone(), hinted };
        alike(&policy, &Policy::CentralFcfs, &offer(ALIKE, 0.95));
    }
}

#[test]
fn clause_2_10_nothing_reserved_is_fixed_priority() {
    let groups = vec![(vec![Kind(1)], 0), (vec![Kind(2)], WORKERS)];
    for load in [0.6, 0.95] {
        alike(
            &Policy::DarcStatic { groups: groups.clone() },
            &Policy::FixedPriority,
            &offer(TWO, load),
        );
    }
}

#[test]
fn shortest_first_in_the_order_of_registration_is_fixed_priority() {
    alike(&Policy::ShortestFirst, &Policy::FixedPriority, &offer(THREE, 0.95));
}

#[test]
fn policies_that_should_differ_do() {
    // The comparison must be able to fail.
    let offer = offer(TWO, 0.9);
    let of = |policy: &Policy| starts(&offer, 1, || machine(policy, TWO));
    let darc = Policy::Darc { config: quick(), hinted: true };
    assert_ne!(of(&darc), of(&Policy::CentralFcfs));
    assert_ne!(of(&darc), of(&Policy::FixedPriority));
    assert_ne!(of(&Policy::CentralFcfs), of(&Policy::FixedPriority));
}

/// What one machine sees when another world is put before it: time runs `scale` times as fast, and
/// type k is called `names[k - 1]`.
struct Translated {
    inner: Box<dyn AnyPolicy>,
    outbox: Outbox<Effect, Timer>,
    scale: u64,
    names: Vec<u16>,
}

impl Translated {
    fn step(
        &mut self,
        cx: &mut Cx<'_, Effect, Timer>,
        step: impl FnOnce(&mut dyn AnyPolicy, &mut Cx<'_, Effect, Timer>),
    ) {
        let now = Instant::from_ns(cx.now().as_ns() * self.scale);
        step(&mut *self.inner, &mut Cx::new(now, cx.rng(), &mut self.outbox));
        for out in self.outbox.drain() {
            match out {
                Out::Effect(effect) => cx.emit(effect),
                Out::Arm(timer, at) => {
                    assert_eq!(at.as_ns() % self.scale, 0, "a time from nowhere");
                    cx.arm(timer, Instant::from_ns(at.as_ns() / self.scale));
                }
                Out::Disarm(timer) => cx.disarm(timer),
            }
        }
    }
}

impl Machine for Translated {
    type Input = Input;
    type Effect = Effect;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        self.inner.effects_max()
    }
    fn start(&mut self, cx: &mut Cx<'_, Effect, Timer>) {
        self.step(cx, |inner, cx| inner.start(cx));
    }
    fn handle(&mut self, input: Input, cx: &mut Cx<'_, Effect, Timer>) {
        let input = match input {
            Input::Arrive { req, kind } => {
                let kind = Kind(self.names[usize::from(kind.0) - 1]);
                Input::Arrive { req, kind }
            }
            Input::Finished { worker, req, service } => {
                let service = service.map(|span| span * self.scale);
                Input::Finished { worker, req, service }
            }
            other => other,
        };
        self.step(cx, |inner, cx| inner.handle(input, cx));
    }
    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect, Timer>) {
        self.step(cx, |inner, cx| inner.expire(timer, cx));
    }
    fn check(&self) {
        self.inner.check();
    }
}

/// Every policy that knows types or times, for types that take `services`.
fn policies(services: &[Span], unit: u64) -> Vec<Policy> {
    let limits: Vec<Span> = services.iter().map(|&service| service * 10).collect();
    let slice = Span::from_us(5) * unit;
    let darc = |config, hinted| Policy::Darc { config, hinted };
    vec![
        Policy::CentralFcfs,
        Policy::Stealing { steering: Steering::Flows(3) },
        Policy::ShortestFirst,
        Policy::EarliestDeadline { deadlines: limits.clone() },
        Policy::SlicedSingle { slice },
        Policy::SlicedMulti { slice, objectives: limits },
        darc(quick(), false),
        darc(quick(), true),
        darc(darc::Config { group_order: GroupOrder::Fcfs, delay_factor: 1, ..quick() }, false),
        darc(darc::Config { by_occupancy: true, discard_straddling: true, ..quick() }, false),
    ]
}

#[test]
fn invariant_10_types_by_any_other_name() {
    // Kinds 1, 2, 3 are registered as 3, 1, 2. Ties between types could tell; means are distinct,
    // and deadlines and objectives meet equal ratios next to never.
    let names = vec![3, 1, 2];
    let renamed = [THREE[1], THREE[2], THREE[0]];
    let offer = offer(THREE, 0.9);
    for (policy, other) in policies(THREE, 1).iter().zip(policies(&renamed, 1)) {
        for seed in 0..6 {
            let plain = starts(&offer, seed, || machine(policy, THREE));
            let translated = starts(&offer, seed, || {
                let inner = machine(&other, &renamed);
                let outbox = Outbox::with_capacity(inner.effects_max());
                Translated { inner, outbox, scale: 1, names: names.clone() }
            });
            assert!(plain == translated, "seed {seed}: {policy:?}");
        }
    }
}

#[test]
fn invariant_11_times_in_any_other_unit() {
    // A power of two, so that scaled means have the same digits.
    const SCALE: u64 = 1024;
    let scaled: Vec<Span> = THREE.iter().map(|&service| service * SCALE).collect();
    let offer = offer(THREE, 0.9);
    for (policy, other) in policies(THREE, 1).iter().zip(policies(&scaled, SCALE)) {
        for seed in 0..6 {
            let plain = starts(&offer, seed, || machine(policy, THREE));
            let translated = starts(&offer, seed, || {
                let inner = machine(&other, &scaled);
                let outbox = Outbox::with_capacity(inner.effects_max());
                Translated { inner, outbox, scale: SCALE, names: vec![1, 2, 3] }
            });
            assert!(plain == translated, "seed {seed}: {policy:?}");
        }
    }
}
