//! Freezing is exact, and its faults are as stated.

use super::stage::{Log, alone, close, closed, exponential, line, open, us};
use cavy_core::family::probe::{Controller, Effect, Epoch, Group, Input, Set, Timer};
use cavy_core::{Cx, Instant, Machine, Span};
use cavy_lab::pending::{Heap4, Wheel};
use cavy_lab::services::{
    CountAt, Discipline, Done, Faults, Host, Law, Lock, Network, Outcome, Place, Quota, Setup,
    Step, run,
};

/// Freezes its set at given times, each for a span; or, with a rate, for so much a visit of group
/// `target`.
#[derive(Clone)]
struct Script {
    members: Vec<Group>,
    pauses: Vec<(Instant, Span)>,
    per_visit: Span,
    batch: u32,
    next: usize,
    epoch: u64,
    owed: u32,
    asked: Span,
    frozen: bool,
    lease: Span,
    confirmed: Vec<Input<()>>,
}

type ScriptCx<'a> = Cx<'a, Effect<(), ()>, Timer>;

impl Script {
    fn new(members: impl IntoIterator<Item = u32>) -> Script {
        Script {
            members: members.into_iter().map(Group).collect(),
            pauses: Vec::new(),
            per_visit: Span::ZERO,
            batch: 1,
            next: 0,
            epoch: 0,
            owed: 0,
            asked: Span::ZERO,
            frozen: false,
            lease: Span::from_ms(200),
            confirmed: Vec::new(),
        }
    }

    fn freeze(&mut self, span: Span, cx: &mut ScriptCx<'_>) {
        self.frozen = true;
        self.epoch += 1;
        self.asked += span;
        let (set, epoch) = (Set(0), Epoch(self.epoch));
        cx.emit(Effect::Freeze { set, epoch, span, lease: self.lease });
        cx.arm(Timer::Thaw(set), cx.now() + span);
    }

    fn plan(&mut self, cx: &mut ScriptCx<'_>) {
        if let Some(&(at, _)) = self.pauses.get(self.next) {
            cx.arm(Timer::Tick, at);
        }
    }
}

impl Machine for Script {
    type Input = Input<()>;
    type Effect = Effect<(), ()>;
    type Timer = Timer;
    fn effects_max(&self) -> usize {
        4
    }
    fn start(&mut self, cx: &mut ScriptCx<'_>) {
        self.plan(cx);
    }
    fn handle(&mut self, input: Input<()>, cx: &mut ScriptCx<'_>) {
        match input {
            Input::Visited { .. } if !self.per_visit.is_zero() => {
                self.owed += 1;
                if self.owed >= self.batch && !self.frozen {
                    let owed = core::mem::take(&mut self.owed);
                    self.freeze(self.per_visit * u64::from(owed), cx);
                }
            }
            Input::Frozen { .. } | Input::Thawed { .. } => self.confirmed.push(input),
            _ => {}
        }
    }
    fn expire(&mut self, timer: Timer, cx: &mut ScriptCx<'_>) {
        match timer {
            Timer::Tick => {
                let (_, span) = self.pauses[self.next];
                self.next += 1;
                self.freeze(span, cx);
            }
            _ => {
                self.frozen = false;
                cx.emit(Effect::Thaw { set: Set(0), epoch: Epoch(self.epoch) });
                self.plan(cx);
            }
        }
    }
}

impl Controller for Script {
    type Message = ();
    type Finding = ();
    fn members(&self, _: Set) -> &[Group] {
        &self.members
    }
}

fn setup<'a>(network: &'a Network, seed: u64, seconds: f64) -> Setup<'a> {
    Setup::new(network, seed, Instant::from_ns((seconds * 1e9) as u64))
}

fn driven(setup: &Setup<'_>, script: Script) -> (Outcome, Log, Script) {
    let (mut log, mut scripts) = (Log::default(), [script]);
    let outcome = run(setup, &mut scripts, &mut Heap4::new(), &mut log).expect("a legal network");
    let [script] = scripts;
    (outcome, log, script)
}

fn at_us(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

#[test]
fn a_stopped_service_keeps_what_it_has_left() {
    // One client, 100 us there and back, 1 ms of work: stopped in the middle of the work for 5 ms.
    let mut network = line(&[(us(1_000), 1)], closed(1, None));
    network.hop = Some(us(50));
    let mut script = Script::new([0]);
    script.pauses = vec![(at_us(300), Span::from_us(5_000))];
    let (outcome, log, script) = driven(&setup(&network, 1, 0.02), script);
    assert_eq!(log.done[0].latency, Span::from_us(6_100));
    assert_eq!(log.done[1].latency, Span::from_us(1_100));
    assert_eq!(outcome.groups[0].frozen, Span::from_us(5_000));
    let usage = outcome.groups[0].usage;
    assert_eq!(usage.cpu, usage.busy);
    assert!(usage.cpu <= Span::from_us(15_000) && usage.cpu >= Span::from_us(13_500));
    let group = Group(0);
    let epoch = Epoch(1);
    assert_eq!(script.confirmed[0], Input::Frozen { group, epoch, at: at_us(300) });
    assert_eq!(script.confirmed[1], Input::Thawed { group, epoch, at: at_us(5_300) });
}

#[test]
fn messages_and_waits_go_on_while_a_group_stands() {
    let mut network = line(&[(us(1_000), 1)], closed(1, None));
    network.hop = Some(us(400));
    // Stopped before the request is there, which arrives meanwhile and is taken up at the end.
    let mut script = Script::new([0]);
    script.pauses = vec![(at_us(10), Span::from_us(1_000))];
    let (_, log, _) = driven(&setup(&network, 1, 0.02), script.clone());
    assert_eq!(log.done[0].latency, Span::from_us(1_010 + 1_000 + 400));
    // A wait for a device ends while the service stands.
    network.services[0].endpoints[0].steps = vec![Step::Wait(us(700)), Step::Cpu(us(100))];
    script.pauses = vec![(at_us(500), Span::from_us(300))];
    let (_, log, _) = driven(&setup(&network, 1, 0.02), script.clone());
    assert_eq!(log.done[0].latency, Span::from_us(400 + 700 + 100 + 400));
    script.pauses = vec![(at_us(500), Span::from_us(2_000))];
    let (_, log, _) = driven(&setup(&network, 1, 0.02), script);
    assert_eq!(log.done[0].latency, Span::from_us(2_500 + 100 + 400));
}

#[test]
fn on_a_host_others_have_the_cores_of_who_stands() {
    for discipline in [Discipline::Fcfs, Discipline::Sharing] {
        let mut network = line(&[(us(1_000), 1), (us(1_000), 1)], closed(2, None));
        network.services[0].endpoints[0].steps.truncate(1);
        network.hosts.push(Host { cores: 1, discipline });
        network.services[0].place = Place::On(0);
        network.services[1].place = Place::On(0);
        let mut other = closed(1, None);
        other.mix[0].service = 1;
        network.clients[0] = closed(1, None);
        network.clients.push(other);
        let mut script = Script::new([0]);
        script.pauses = vec![(at_us(2_500), Span::from_us(4_000))];
        let (outcome, _, _) = driven(&setup(&network, 1, 0.0205), script);
        // 20.5 ms of one core: the first has half of the time in which it does not stand.
        let cpu: Vec<f64> = outcome.groups.iter().map(|one| one.usage.cpu.as_us()).collect();
        assert!((cpu[0] + cpu[1] - 20_500.0).abs() < 2.0, "{cpu:?}");
        assert!((cpu[0] - 8_250.0).abs() <= 520.0, "{discipline:?}: {cpu:?}");
    }
}

/// A network with everything that stands while all groups stand.
fn everything(discipline: Discipline) -> Network {
    let laws = [(exponential(300), 2), (exponential(700), 2), (exponential(400), 1)];
    let mut network = line(&laws, closed(20, Some(exponential(2_000))));
    for service in &mut network.services {
        if let Place::Own(host) = &mut service.place {
            host.discipline = discipline;
        }
        service.locks.push(Lock { spins: false });
        service.endpoints[0].steps.insert(1, Step::Locked { lock: 0, work: us(60) });
    }
    network.services[1].threads = Some(6);
    network.services[2].replicas = 2;
    network.clients[0].virtual_time = true;
    network.clients.push(open(Law::Exponential { mean_ns: 3e6 }));
    network.clients[1].virtual_time = true;
    network
}

#[test]
fn when_all_stand_together_nothing_changes_but_the_wall() {
    for discipline in [Discipline::Fcfs, Discipline::Sharing] {
        let network = everything(discipline);
        let (_, calm) = alone(&network, 21, 2.0, 0.0);
        let mut script = Script::new(0..network.groups());
        // Spans and gaps without a common measure, from nothing to several services' work.
        let mut at = 50_000;
        for step in 0..900u64 {
            let span = Span::from_ns(step * step * 7_919 % 3_000_017);
            script.pauses.push((Instant::from_ns(at), span));
            at += span.as_ns() + 1 + step * 104_729 % 1_999_993;
        }
        let (outcome, log, script) = driven(&setup(&network, 21, 3.0), script);
        assert_eq!(outcome.groups[0].frozen, script.asked);
        assert!(log.done.len() > 4_000, "{}", log.done.len());
        let pairs = || log.done.iter().zip(&calm.done);
        if discipline == Discipline::Fcfs {
            for (number, (one, other)) in pairs().enumerate() {
                assert_eq!(one.latency_virtual, other.latency, "request {number}");
            }
            continue;
        }
        // Shared cores end at whole nanoseconds, so that each stop moves an end by one at most.
        // Later two requests change places by such a nanosecond, and latencies agree on average
        // only.
        for (one, other) in pairs().take(40) {
            assert!(one.latency_virtual.as_ns().abs_diff(other.latency.as_ns()) < 20);
        }
        let sum = |of: fn(&Done) -> Span, log: &Log| -> f64 {
            log.done.iter().take(3_500).map(|done| of(done).as_us()).sum()
        };
        close(sum(|done| done.latency_virtual, &log), sum(|done| done.latency, &calm), 0.01);
    }
}

#[test]
fn slowed_and_optimised_obey_the_law_of_the_method() {
    // [slowpoke 2.1]: 1/X_slow = 1/X_opt + C, whoever is the bottleneck before and after.
    for (target, cores, delta_us) in
        [(1, 1, 300), (1, 1, 900), (1, 2, 500), (0, 1, 200), (2, 1, 100)]
    {
        let times = [500u64, 1_000, 400];
        let cores_of = |service: usize| if service == target { cores } else { 1 };
        let network = |less: u64| {
            let law = |service: usize| {
                let time = times[service] * u64::from(cores_of(service));
                (us(time - if service == target { less } else { 0 }), cores_of(service))
            };
            line(&[law(0), law(1), law(2)], closed(300, None))
        };
        let period = |outcome: &Log| {
            // Between two completions far apart, in whole batches.
            let done = &outcome.done;
            let first = 2_000;
            let last = first + (done.len() - 1 - first) / 40 * 40;
            done[last].at.since(done[first].at).as_us() / (last - first) as f64
        };
        let (_, optimised) = alone(&network(delta_us), 1, 12.0, 0.0);
        let slow = network(0);
        let mut script = Script::new((0..4).filter(|&group| group != target as u32));
        script.per_visit = Span::from_ns(delta_us * 1_000 / u64::from(cores));
        script.batch = 40;
        let mut setup = setup(&slow, 1, 12.0);
        setup.wiring.hears = (0..3).map(|group| (group == target).then_some(0)).collect();
        let (outcome, slowed, _) = driven(&setup, script);
        let pause = delta_us as f64 / f64::from(cores);
        close(period(&slowed), period(&optimised) + pause, 1e-3);
        assert_eq!(outcome.groups[target].stops, 0);
    }
}

#[test]
fn quotas_are_refilled_while_a_group_stands() {
    // [slowpoke 7.4]: stopped for half of each period, it still gets its whole allotment in the
    // other half.
    let mut network = line(&[(us(100), 1)], closed(8, None));
    network.services[0].quota =
        Some(Quota { cpu: Span::from_us(2_500), period: Span::from_us(10_000) });
    let mut script = Script::new([0]);
    for period in 0..90 {
        script.pauses.push((at_us(100 + period * 10_000), Span::from_us(5_000)));
    }
    let (outcome, _, _) = driven(&setup(&network, 1, 0.9), script);
    close(outcome.groups[0].usage.cpu.as_us(), 90.0 * 2_500.0, 0.001);
    close(outcome.groups[0].frozen.as_us(), 90.0 * 5_000.0, 0.001);
}

#[test]
fn a_lease_lets_go_when_the_controller_is_dead() {
    let network = line(&[(us(1_000), 1), (us(500), 1)], closed(4, None));
    let mut script = Script::new([0, 2]);
    script.lease = Span::from_us(3_000);
    script.pauses =
        vec![(at_us(1_000), Span::from_us(2_000)), (at_us(10_000), Span::from_us(2_000))];
    let mut setup = setup(&network, 1, 0.05);
    setup.deaths = vec![(0, at_us(10_500))];
    let (outcome, log, _) = driven(&setup, script);
    for group in [0, 2] {
        assert_eq!(outcome.groups[group].frozen, Span::from_us(2_000 + 3_000));
        assert_eq!(outcome.groups[group].leases_ended, 1);
    }
    assert_eq!(outcome.groups[1].stops, 0);
    assert!(log.done.last().is_some_and(|last| last.at > at_us(45_000)));
}

#[test]
fn stops_are_late_and_long_as_the_faults_say_and_short_ones_are_overtaken() {
    let mut network = line(&[(us(1_000), 4)], closed(4, None));
    network.hop = Some(us(10));
    let mut script = Script::new([0]);
    script.pauses = (0..200).map(|n| (at_us(1_000 + n * 1_000), Span::from_us(100))).collect();
    let mut setup = setup(&network, 1, 0.25);
    setup.faults = Faults {
        stop: Some(us(20)),
        stop_per_thread: Span::from_us(5),
        go: Some(us(30)),
        late: Some(us(7)),
        ..Faults::default()
    };
    let (outcome, _, _) = driven(&setup, script.clone());
    // Four threads: it stands 40 us late, and goes on 7 + 30 us late.
    let each = outcome.groups[0].frozen.as_us() / 200.0;
    assert!((each - (100.0 + 37.0 - 40.0)).abs() < 2.0, "{each}");
    script.pauses = (0..200).map(|n| (at_us(1_000 + n * 1_000), Span::ZERO)).collect();
    setup.faults = Faults { stop: Some(us(20)), ..Faults::default() };
    let (outcome, _, script) = driven(&setup, script);
    assert_eq!((outcome.groups[0].stops, outcome.groups[0].frozen), (0, Span::ZERO));
    assert_eq!(script.confirmed.len(), 400, "each is confirmed, as a pause of no length");
}

#[test]
fn usage_by_ticks_stands_still_between_them() {
    let network = line(&[(us(1_000), 1)], closed(4, None));
    let (exact, _) = alone(&network, 1, 0.0103, 0.0);
    assert_eq!(exact.groups[0].usage.cpu, Span::from_us(10_300));
    assert_eq!(exact.groups[0].usage.busy, Span::from_us(10_300));
    let runnable = exact.groups[0].usage.runnable;
    assert_eq!(runnable, Span::from_us(4 * 10_300));
}

#[test]
fn one_seed_is_one_run_on_either_queue_and_counting_elsewhere_is_another() {
    let network = everything(Discipline::Fcfs);
    let mut script = Script::new((0..network.groups()).filter(|&group| group != 1));
    script.per_visit = Span::from_us(100);
    script.batch = 7;
    let mut setup = setup(&network, 4, 1.0);
    setup.wiring.hears = vec![None, Some(0)];
    setup.faults = Faults::measured();
    let (one, _, _) = driven(&setup, script.clone());
    let mut log = Log::default();
    let on_wheel =
        run(&setup, &mut [script.clone()], &mut Wheel::new(), &mut log).expect("a legal network");
    assert_eq!(one, on_wheel);
    setup.counts = CountAt::Computed;
    let (other, _, _) = driven(&setup, script.clone());
    assert_ne!(one.trail.digest(), other.trail.digest());
    setup.counts = CountAt::Core;
    setup.seed = 5;
    let (other, _, _) = driven(&setup, script);
    assert_ne!(one.trail.digest(), other.trail.digest());
}
