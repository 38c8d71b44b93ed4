//! Work of nodes: whoever decides on their processors decides as in the world of workers, and what
//! is slowed down, given up or lost in a crash ends as it must.

use cavy_core::family::Node;
use cavy_core::family::cpu::Kind;
use cavy_core::family::message::{Call, Effect, Input, Message, Protocol, Talker, Work};
use cavy_core::{Cx, Instant, Machine, Purpose, Span, Stream};
use cavy_lab::cpu::{self, Cores, Costs, Done, Speed};
use cavy_lab::net::{Outage, OutageKind};
use cavy_lab::pending::Heap4;
use cavy_lab::statistics::Interval;
use cavy_lab::theory;
use cavy_lab::wan::{
    Ask, Clients, Ending, Hardware, Link, Parts, Processors, Report, Setup, Site, Slow, Unobserved,
    run,
};
use cavy_sched::config::AnyPolicy;
use cavy_sched::distributed::Steering;
use cavy_sched::ranked::Foresight;
use cavy_sched::{Policy, TypeHint, build, build_foreseeing, darc};
use cavy_workload::{Arrivals, Mix, Phase, Service, Source, Type, Workload};
use std::collections::BTreeMap;
use std::sync::mpsc;

/// What is asked of a desk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Word {
    /// To do this work; it is given up after so long.
    Do { number: u64, kind: u16, price: Span, patience: Option<Span> },
    /// It took so long of a processor.
    Did { took: Span, finished: bool },
}

impl Message for Word {
    fn wire_bytes(&self) -> u64 {
        1
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Desks;

impl Protocol for Desks {
    type Message = Word;
    type Request = Word;
    type Response = Word;
    type Record = Word;
    type Job = (u16, Span);
    type Group = ();
    type Note = ();
}

/// Does the work of each call, and answers.
#[derive(Default)]
struct Desk {
    calls: BTreeMap<u64, Call>,
    works: u64,
}

impl Talker for Desk {
    type Protocol = Desks;
    fn members(&self, (): ()) -> &[Node] {
        &[]
    }
}

impl Machine for Desk {
    type Input = Input<Desks>;
    type Effect = Effect<Desks>;
    type Timer = u64;

    fn effects_max(&self) -> usize {
        4
    }

    fn start(&mut self, _: &mut Cx<'_, Effect<Desks>, u64>) {}

    fn handle(&mut self, input: Input<Desks>, cx: &mut Cx<'_, Effect<Desks>, u64>) {
        match input {
            Input::Call { call, request: Word::Do { kind, price, patience, .. } } => {
                self.works += 1;
                self.calls.insert(self.works, call);
                cx.emit(Effect::Work { work: Work(self.works), job: (kind, price) });
                if let Some(patience) = patience {
                    cx.arm(self.works, cx.now() + patience);
                }
            }
            Input::WorkDone { work, took, finished } => {
                let call = self.calls.remove(&work.0).expect("each work ends once");
                cx.disarm(work.0);
                cx.emit(Effect::Reply { call, response: Word::Did { took, finished } });
            }
            _ => {}
        }
    }

    fn expire(&mut self, timer: u64, cx: &mut Cx<'_, Effect<Desks>, u64>) {
        cx.emit(Effect::Cancel { work: Work(timer) });
    }
}

/// Asks when requests say, and keeps what each took.
struct Askers<I> {
    requests: I,
    /// From the call to the answer, what the work took, and whether it was finished, by number.
    ended: BTreeMap<u64, (Span, Span, bool)>,
    unknown: u64,
}

impl<I: Iterator<Item = (Instant, Word)>> Clients<Desks> for Askers<I> {
    fn count(&self) -> u32 {
        1
    }
    fn open(&self) -> bool {
        true
    }
    fn next(&mut self, _: u32, _: Instant) -> Option<(Instant, Word)> {
        self.requests.next()
    }
    fn target(&mut self, _: u32, _: &Word, _: u32) -> Node {
        Node(0)
    }
    fn site(&self, _: u32) -> Option<Site> {
        None
    }
    fn patience(&self, _: u32, _: u32) -> Option<Span> {
        None
    }
    fn ended(&mut self, ask: &Ask<Desks>, now: Instant, ending: Ending<Word>) {
        match (&ask.request, ending) {
            (Word::Do { number, .. }, Ending::Answered(Word::Did { took, finished })) => {
                self.ended.insert(*number, (now.since(ask.since), took, finished));
            }
            _ => self.unknown += 1,
        }
    }
}

/// Work takes what it says.
struct Rack<F> {
    processors: F,
    told: Option<mpsc::Sender<Span>>,
}

impl<F: FnMut() -> Processors> Hardware<Desks> for Rack<F> {
    fn work(&mut self, _: Node, (_, price): &(u16, Span)) -> Span {
        if let Some(told) = &self.told {
            told.send(*price).expect("the scheduler listens");
        }
        *price
    }
    fn kind(&self, _: Node, (kind, _): &(u16, Span)) -> Kind {
        Kind(*kind)
    }
    fn processors(&mut self, _: Node) -> Processors {
        (self.processors)()
    }
}

fn setup() -> Setup {
    let mut setup = Setup::of(1, vec![Link::of(Span::from_us(1))], vec![Site(0)]);
    (setup.duration, setup.drain) = (Span::from_ms(3_600_000), Span::from_ms(3_600_000));
    setup.check = true;
    setup
}

type Ends = BTreeMap<u64, (Span, Span, bool)>;

fn ask(
    setup: &Setup,
    requests: impl Iterator<Item = (Instant, Word)>,
    processors: impl FnMut() -> Processors,
    told: Option<mpsc::Sender<Span>>,
) -> (Report, Ends, u64) {
    let mut clients = Askers { requests, ended: BTreeMap::new(), unknown: 0 };
    let mut hardware = Rack { processors, told };
    let (observer, pending) = (&mut Unobserved, &mut Heap4::new());
    let parts = Parts { clients: &mut clients, hardware: &mut hardware, pending, observer };
    let (report, _) = run(setup, |_| Desk::default(), parts);
    (report, clients.ended, clients.unknown)
}

/// A workload of two types on so many processors at this load.
fn workload(services: [(f64, Service); 2], processors: u16, load: f64) -> Workload {
    let types = services.map(|(share, service)| Type { share, service });
    let mix = Mix::new(types.to_vec()).expect("a legal mix");
    let rate_per_s = load * mix.peak_rate_per_s(u32::from(processors));
    let arrivals = Arrivals::Poisson;
    let phase = Phase { mix, arrivals, rate_per_s, duration: None };
    Workload::new(vec![phase], 0.0).expect("a legal workload")
}

fn requests(load: &Workload, seed: u64, count: u64) -> impl Iterator<Item = (Instant, Word)> {
    Source::new(load, seed).zip(0..count).map(|(request, number)| {
        let (kind, price) = (request.label + 1, request.service);
        (request.at, Word::Do { number, kind, price, patience: None })
    })
}

fn hints() -> [TypeHint; 2] {
    [(10, 0.9), (500, 0.1)].map(|(us, ratio)| TypeHint { mean: Span::from_us(us), ratio })
}

fn bimodal(processors: u16, load: f64) -> Workload {
    let of = |us: u64| Service::Exponential { mean_ns: us as f64 * 1e3 };
    workload([(0.9, of(10)), (0.1, of(500))], processors, load)
}

/// In the world of workers: how long each request was there.
struct Sojourns(Vec<(u64, Span)>);

impl cpu::Observer<Box<dyn AnyPolicy>> for Sojourns {
    fn finished(&mut self, done: &Done) {
        self.0.push((done.number, done.latency));
    }
}

#[test]
fn every_policy_decides_as_in_the_world_of_workers() {
    const COUNT: u64 = 4_000;
    let us = Span::from_us;
    let hinted = |config| Policy::Darc { config, hinted: true };
    let policies = [
        Policy::CentralFcfs,
        Policy::DistributedFcfs { steering: Steering::RoundRobin },
        Policy::Stealing { steering: Steering::RoundRobin },
        Policy::FixedPriority,
        Policy::ShortestFirst,
        Policy::EarliestDeadline { deadlines: vec![us(100), us(5_000)] },
        Policy::CycleStealing { short_workers: 1 },
        Policy::SlicedSingle { slice: us(7) },
        Policy::SlicedMulti { slice: us(7), objectives: vec![us(100), us(5_000)] },
        Policy::ShortestRemaining,
        Policy::PreemptivePriority,
        Policy::LastCome { preempts: true },
        Policy::ProcessorSharing { slots: 2_000 },
        hinted(darc::Config::default()),
        Policy::DarcStatic { groups: vec![(vec![Kind(1)], 1), (vec![Kind(2)], 0)] },
    ];
    for policy in policies {
        // Whom an idle worker steals from is drawn by chance, unless there is but one other.
        let workers = if matches!(policy, Policy::Stealing { .. }) { 2 } else { 3 };
        let load = bimodal(workers, 0.8);
        let shares = matches!(policy, Policy::ProcessorSharing { .. });
        let (slots, shared) = if shares { (2_000, Some(workers)) } else { (workers, None) };
        // Where cores are shared, stopping and stealing do not occur.
        let costs = Costs {
            per_request: Span::from_ns(if shares { 0 } else { 300 }),
            preemption: Span::from_ns(900),
            steal: Span::from_ns(700),
            ..Costs::default()
        };
        let foresight = Source::new(&load, 5).map(move |one| one.service + costs.per_request);
        let foresight = Some(Box::new(foresight) as Foresight);
        let mut machine = build_foreseeing(&policy, workers, &hints(), u32::MAX, foresight)
            .expect("a legal policy");
        let cores = shared.map_or(Cores::Own, Cores::Shared);
        let there = cpu::Setup {
            workers: slots,
            cores,
            costs,
            seed: 5,
            shuffle_ties: None,
            requests: COUNT,
            check: true,
        };
        let mut seen = Sojourns(Vec::new());
        let source = Source::new(&load, 5);
        cpu::run(&there, &mut machine, source, &mut Heap4::new(), &mut seen);
        let (told, heard) = mpsc::channel();
        let mut heard = Some(heard);
        let make = || {
            let work = heard.take().expect("the node does not crash");
            let work = std::iter::from_fn(move || work.try_recv().ok());
            let work = Some(Box::new(work.map(move |one| one + costs.per_request)) as Foresight);
            let scheduler = build_foreseeing(&policy, workers, &hints(), u32::MAX, work);
            let scheduler = Box::new(scheduler.expect("a legal policy"));
            Processors {
                shared,
                per_work: costs.per_request,
                preemption: costs.preemption,
                steal: costs.steal,
                ..Processors::of(slots, scheduler)
            }
        };
        let told = matches!(policy, Policy::ShortestRemaining).then_some(told);
        let (_, here, unknown) = ask(&setup(), requests(&load, 5, COUNT), make, told);
        assert_eq!(unknown, 0, "{policy:?}");
        let here: Vec<(u64, Span)> = here.iter().map(|(at, one)| (*at, one.0)).collect();
        seen.0.sort_unstable();
        let differ = seen.0.iter().zip(&here).filter(|(there, here)| there != here);
        let differ: Vec<_> = differ.take(3).collect();
        assert!(differ.is_empty() && here.len() as u64 == COUNT, "{policy:?}: {differ:?}");
    }
}

#[test]
fn in_order_is_what_first_come_first_served_is() {
    let load = bimodal(4, 0.9);
    let asked = || requests(&load, 8, 5_000);
    let (own, ends, _) = ask(&setup(), asked(), || Processors::in_order(4), None);
    let make = || {
        let policy = build(&Policy::CentralFcfs, 4, &hints(), u32::MAX).expect("a policy");
        Processors::of(4, Box::new(policy))
    };
    let (theirs, same, _) = ask(&setup(), asked(), make, None);
    assert_eq!((own.trail.digest(), ends), (theirs.trail.digest(), same));
}

/// Mean sojourns of both kinds in microseconds, with intervals, over ten replications.
fn sojourns(load: &Workload, make: impl Fn() -> Processors) -> [Interval; 2] {
    const COUNT: u64 = 40_000;
    let once = |seed: u64| {
        let kinds: Vec<u16> =
            requests(load, seed, COUNT).filter_map(|(_, word)| kind_of(&word)).collect();
        let (_, ends, unknown) = ask(&setup(), requests(load, seed, COUNT), &make, None);
        assert_eq!(unknown, 0);
        [1, 2].map(|kind| {
            let own = ends.iter().filter(|(at, _)| kinds[**at as usize] == kind);
            let all: Vec<f64> = own.map(|(_, (sojourn, _, _))| sojourn.as_us()).collect();
            all.iter().sum::<f64>() / all.len() as f64
        })
    };
    let runs: Vec<[f64; 2]> = (0..10).map(once).collect();
    [0, 1].map(|kind| {
        let each: Vec<f64> = runs.iter().map(|run| run[kind]).collect();
        Interval::of_mean(&each).expect("ten replications")
    })
}

fn kind_of(word: &Word) -> Option<u16> {
    match word {
        Word::Do { kind, .. } => Some(*kind),
        Word::Did { .. } => None,
    }
}

/// Within twice the half-width, which is at most `narrow` of the value.
fn agrees(found: Interval, exact: f64, narrow: f64) {
    let middle = (found.low + found.high) / 2.0;
    let half = (found.high - found.low) / 2.0;
    assert!(half < narrow * exact && (middle - exact).abs() < 2.0 * half, "{found:?}, {exact}");
}

#[test]
fn four_processors_are_m_m_4_and_one_that_is_shared_is_m_g_1_ps() {
    let of = |us: f64| Service::Exponential { mean_ns: us * 1e3 };
    let load = workload([(0.5, of(100.0)), (0.5, of(100.0))], 4, 0.8);
    let rate = load.phases()[0].rate_per_s / 1e6;
    let exact = 100.0 + theory::mmn_mean_wait(4, rate, 100.0);
    for found in sojourns(&load, || Processors::in_order(4)) {
        agrees(found, exact, 0.02);
    }
    // Whatever the law of the times is: here one kind is fifty times as long.
    let load = bimodal(1, 0.6);
    let make = || {
        let policy = Policy::ProcessorSharing { slots: 4_000 };
        let policy = build(&policy, 1, &hints(), u32::MAX).expect("a policy");
        Processors { shared: Some(1), ..Processors::of(4_000, Box::new(policy)) }
    };
    for (found, service) in sojourns(&load, make).into_iter().zip([10.0, 500.0]) {
        agrees(found, theory::processor_sharing_mean_sojourn(service, 0.6), 0.06);
    }
}

#[test]
fn kinds_of_work_are_told_apart() {
    let load = bimodal(1, 0.6);
    let rate = load.phases()[0].rate_per_s / 1e6;
    let class = |share: f64, mean: f64| {
        let (arrivals, second_moment) = (share * rate, 2.0 * mean * mean);
        theory::Class { arrivals, mean, second_moment }
    };
    let classes = [class(0.9, 10.0), class(0.1, 500.0)];
    let exact = theory::disciplines::preemptive_priority_mean_sojourns(&classes);
    let make = || {
        let policy = build(&Policy::PreemptivePriority, 1, &hints(), u32::MAX).expect("a policy");
        Processors::of(1, Box::new(policy))
    };
    for (found, exact) in sojourns(&load, make).into_iter().zip(exact) {
        agrees(found, exact, 0.06);
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

fn one(number: u64, price_ms: u64, patience_ms: Option<u64>) -> Word {
    let (price, patience) = (Span::from_ms(price_ms), patience_ms.map(Span::from_ms));
    Word::Do { number, kind: 1, price, patience }
}

fn shared(cores: u16) -> Processors {
    let policy = Policy::ProcessorSharing { slots: 10 };
    let policy = build(&policy, cores, &hints(), u32::MAX).expect("a policy");
    Processors { shared: Some(cores), ..Processors::of(10, Box::new(policy)) }
}

#[test]
fn work_under_way_is_slowed_down_and_sped_up_again() {
    let mut setup = setup();
    // At half speed from 4 to 8, and at a tenth from 7 to 8.
    let slow = |from, until, ratio| Slow {
        node: Node(0),
        from: at(from),
        until: at(until),
        speed: Speed::new(ratio).expect("a speed"),
    };
    setup.faults.slow = vec![slow(4, 8, 0.5), slow(7, 8, 0.1)];
    // 10 ms: 4 until 4, 1.5 until 7, 0.1 until 8, and 4.4 after it.
    let ms = |ms: f64| Span::from_ns((ms * 1e6) as u64);
    let asked = || [(at(0), one(0, 10, None))].into_iter();
    let (_, ends, _) = ask(&setup, asked(), || Processors::in_order(1), None);
    assert_eq!(ends[&0], (ms(12.4), ms(12.4), true));
    let (_, ends, _) = ask(&setup, asked(), || shared(1), None);
    let off = ends[&0].0.as_ns().abs_diff(ms(12.4).as_ns());
    assert!(off <= 1, "{ends:?}");
    // What begins when it is slow already.
    let late = [(at(5), one(0, 1, None))].into_iter();
    let (_, ends, _) = ask(&setup, late, || Processors::in_order(1), None);
    assert_eq!(ends[&0].0, ms(2.0));
    setup.faults.slow[0].until = at(4);
    assert!(setup.check().is_err_and(|error| error.to_string().contains("must be slow before")));
}

#[test]
fn what_is_given_up_frees_its_processor_and_ends_once() {
    // One runs for 3 ms of 10 and is given up; one that waits is given up after 1; the third runs
    // from 3 to 5.
    let asked = || {
        let all = [one(0, 10, Some(3)), one(1, 10, Some(1)), one(2, 2, None)];
        all.into_iter().map(|word| (at(0), word))
    };
    let ms = Span::from_ms;
    let first = |name: &str, make: fn() -> Processors| {
        let (_, ends, unknown) = ask(&setup(), asked(), make, None);
        assert_eq!(unknown, 0, "{name}");
        assert_eq!(ends[&0], (ms(3), ms(3), false), "{name}");
        assert_eq!(ends[&1], (ms(1), ms(0), false), "{name}");
        assert_eq!(ends[&2], (ms(5), ms(2), true), "{name}");
    };
    first("in order", || Processors::in_order(1));
    first("c-FCFS", || {
        let policy = build(&Policy::CentralFcfs, 1, &hints(), u32::MAX).expect("a policy");
        Processors::of(1, Box::new(policy))
    });
    // Three share a core: a third of a millisecond each in the first; then two, for 2; then one.
    let (_, ends, _) = ask(&setup(), asked(), || shared(1), None);
    assert_eq!(ends[&1].0, ms(1));
    assert!(ends[&1].1.as_ns().abs_diff(333_333) <= 1, "{ends:?}");
    assert!(ends[&0].1.as_ns().abs_diff(1_333_333) <= 1, "{ends:?}");
    // 2 ms of work: 1.33 by 3 ms, and the rest alone.
    assert!(ends[&2].0.as_ns().abs_diff(3_666_667) <= 2, "{ends:?}");
}

#[test]
fn giving_up_at_random_loses_nothing_whoever_decides() {
    let us = Span::from_us;
    let policies = [
        Policy::CentralFcfs,
        Policy::Stealing { steering: Steering::Shortest },
        Policy::SlicedMulti { slice: us(7), objectives: vec![us(100), us(5_000)] },
        Policy::PreemptivePriority,
        Policy::LastCome { preempts: true },
        Policy::DarcStatic { groups: vec![(vec![Kind(1)], 1), (vec![Kind(2)], 0)] },
    ];
    let load = bimodal(2, 0.95);
    for policy in policies {
        let mut draws = Stream::keyed(3, 0, Purpose::Test);
        let asked = requests(&load, 3, 4_000).map(|(at, mut word)| {
            if let Word::Do { patience, .. } = &mut word {
                *patience = (draws.below(3) == 0).then(|| us(draws.below(700)));
            }
            (at, word)
        });
        let asked: Vec<(Instant, Word)> = asked.collect();
        let price: Vec<Span> = asked
            .iter()
            .filter_map(|(_, word)| match word {
                Word::Do { price, .. } => Some(*price),
                Word::Did { .. } => None,
            })
            .collect();
        let make = || {
            let scheduler = build(&policy, 2, &hints(), u32::MAX).expect("a policy");
            let preemption = Span::from_ns(500);
            Processors { preemption, ..Processors::of(2, Box::new(scheduler)) }
        };
        let (_, ends, unknown) = ask(&setup(), asked.into_iter(), make, None);
        assert_eq!((ends.len(), unknown), (4_000, 0), "{policy:?}");
        for (number, (_, took, finished)) in &ends {
            let whole = price[*number as usize];
            assert!(if *finished { *took == whole } else { *took <= whole }, "{policy:?}");
        }
        let given_up = ends.values().filter(|end| !end.2).count();
        assert!(given_up > 100, "{policy:?}: {given_up} of 4000 were given up");
    }
}

#[test]
fn a_node_that_comes_back_has_idle_processors() {
    let mut setup = setup();
    (setup.duration, setup.drain) = (Span::from_ms(40), Span::from_ms(40));
    let (from, until, kind) = (at(5), at(6), OutageKind::Crash);
    setup.faults.outages = vec![Outage { host: Node(0), from, until, kind }];
    let slow = Speed::new(0.5).expect("a speed");
    setup.faults.slow = vec![Slow { node: Node(0), from: at(4), until: at(9), speed: slow }];
    let asked = [(at(0), one(0, 20, None)), (at(1), one(1, 20, None)), (at(7), one(2, 3, None))];
    let mut made = 0;
    let make = || {
        made += 1;
        Processors::in_order(1)
    };
    let (_, ends, unknown) = ask(&setup, asked.into_iter(), make, None);
    // The first two are lost with the node. The third has 1 of its 3 ms done until 9.
    assert_eq!((made, unknown, ends.len()), (2, 2, 1));
    assert_eq!(ends[&2].0, Span::from_ms(4));
}
