//! Conversations with the machines, named by the clauses that they show.

use cavy_core::family::Node;
use cavy_core::family::probe::{
    Controller, Effect, Endpoint, Epoch, Group, Input, Set, Timer, Usage,
};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_whatif::governor::{ConfigError, Doubts};
use cavy_whatif::published::{Word, delay, predict};
use cavy_whatif::{
    Busy, Change, Config, Governor, Limits, Published, Target, Uncoordinated, Windows,
};

type Said<C> = Out<<C as Machine>::Effect, Timer>;

/// A machine, and what it said in answer to the last input.
struct Talk<C: Controller> {
    machine: C,
    outbox: Outbox<C::Effect, Timer>,
    rng: Stream,
}

impl<C: Controller> Talk<C>
where
    C::Effect: Clone,
{
    fn with(machine: C) -> Self {
        let outbox = Outbox::with_capacity(machine.effects_max());
        let mut talk = Talk { machine, outbox, rng: Stream::keyed(1, 0, Purpose::Machine) };
        let mut cx = Cx::new(Instant::ZERO, &mut talk.rng, &mut talk.outbox);
        talk.machine.start(&mut cx);
        talk.outbox.clear();
        talk
    }

    fn tell(&mut self, us: u64, input: C::Input) -> Vec<Said<C>> {
        let mut cx = Cx::new(Instant::from_ns(us * 1_000), &mut self.rng, &mut self.outbox);
        self.machine.handle(input, &mut cx);
        self.outbox.drain().collect()
    }

    fn ring(&mut self, us: u64, timer: Timer) -> Vec<Said<C>> {
        let mut cx = Cx::new(Instant::from_ns(us * 1_000), &mut self.rng, &mut self.outbox);
        self.machine.expire(timer, &mut cx);
        self.outbox.drain().collect()
    }
}

fn visit<M>(group: u32) -> Input<M> {
    Input::Visited { group: Group(group), endpoint: Endpoint(0) }
}

fn freezes<M, C>(said: &[Out<Effect<M, C>, Timer>]) -> Vec<(u16, u64, f64)> {
    let freeze = |out: &Out<Effect<M, C>, Timer>| match out {
        Out::Effect(Effect::Freeze { set, epoch, span, .. }) => {
            Some((set.0, epoch.0, span.as_us()))
        }
        _ => None,
    };
    said.iter().filter_map(freeze).collect()
}

fn thaws<M, C>(said: &[Out<Effect<M, C>, Timer>]) -> usize {
    said.iter().filter(|out| matches!(out, Out::Effect(Effect::Thaw { .. }))).count()
}

const SELF: Set = Set(0);

fn thawed<M>(epoch: u64, us: u64) -> Input<M> {
    Input::Thawed { group: Group(0), epoch: Epoch(epoch), at: Instant::from_ns(us * 1_000) }
}

#[test]
fn clause_2_1_pauses_are_delta_by_visits_and_cores_and_the_source_truncates() {
    // Worked example of [slowpoke 2.3]: r = 1, 1000 us, 2 cores: 500 us for each request.
    assert_eq!(delay(1_000.0, 1.0, 2, 1.0, 2, false), Span::from_us(500));
    // Visits .4518 and .0511, 2 cores each: 4420.7 us before the truncations, which take it to
    // 4420.
    assert_eq!(delay(1_000.0, 0.4518, 2, 0.0511, 2, false), Span::from_us(4_420));
    let exact = delay(1_000.0, 0.4518, 2, 0.0511, 2, true).as_us();
    assert!((exact - 4_420.744).abs() < 1e-2, "{exact}");
    assert_eq!(delay(1_000.0, 0.5, 2, 0.0, 2, false), Span::ZERO);
    // 1/X = 1/X_slow - C.
    let predicted = predict(1_000.0, 500.0).expect("slower than the pauses");
    assert!((predicted - 2_000.0).abs() < 1e-9);
    assert_eq!(predict(3_000.0, 500.0), None);
}

#[test]
fn clause_2_3_the_request_after_the_nth_begins_a_phase_and_the_flood_goes_first() {
    let mut target = Talk::with(Published::new(Group(0), true, Span::from_us(7), 3, 4));
    target.tell(0, Input::Met { peer: Node(2) });
    for at in 1..=3 {
        assert!(target.tell(at, visit(0)).is_empty(), "N requests begin nothing");
    }
    let said = target.tell(4, visit(0));
    let pause = Effect::Send { to: Node(2), message: Word::Pause(1) };
    assert_eq!(said[0], Out::Effect(pause), "the flood first");
    // The target stops for nothing: stopped and continued at once.
    assert_eq!(freezes(&said), [(0, 1, 0.0)]);
    let said = target.ring(4, Timer::Thaw(SELF));
    assert_eq!(thaws(&said), 1);
}

#[test]
fn clause_2_3_a_neighbour_stops_for_what_its_requests_owe_and_a_phase_counts_once() {
    let mut one = Talk::with(Published::new(Group(0), false, Span::from_us(500), 100, 4));
    // Who calls me is my neighbour as well.
    one.tell(0, Input::Rx { from: Node(1), message: Word::Register });
    for at in 1..=4 {
        one.tell(at, visit(0));
    }
    let said = one.tell(10, Input::Rx { from: Node(1), message: Word::Pause(5) });
    assert_eq!(said[0], Out::Effect(Effect::Send { to: Node(1), message: Word::Pause(5) }));
    assert_eq!(freezes(&said), [(0, 1, 2_000.0)]);
    // A request that runs before the stop takes hold waits for the lock: it is counted after the
    // pause.
    assert!(one.tell(11, visit(0)).is_empty());
    // A newer phase that comes meanwhile is heard when the service goes on.
    assert!(one.tell(12, Input::Rx { from: Node(1), message: Word::Pause(6) }).is_empty());
    assert_eq!(thaws(&one.ring(2_010, Timer::Thaw(SELF))), 1);
    let said = one.tell(2_010, thawed(1, 2_010));
    assert_eq!(freezes(&said), [(0, 2, 0.0)], "nothing was owed for phase 6");
    // Phase 5 again, and 6: nothing.
    one.ring(2_010, Timer::Thaw(SELF));
    one.tell(2_010, thawed(2, 2_010));
    for phase in [5, 6] {
        let word = Word::Pause(phase);
        assert!(one.tell(2_020, Input::Rx { from: Node(1), message: word }).is_empty());
    }
    // The blocked request has been counted by now.
    let said = one.tell(2_100, Input::Rx { from: Node(1), message: Word::Pause(7) });
    assert_eq!(freezes(&said), [(0, 3, 500.0)]);
}

#[test]
fn clause_2_4_what_was_too_long_is_taken_off_the_next_pause() {
    let mut one =
        Talk::with(Uncoordinated::new(Group(0), Span::from_us(600), Span::from_us(1_000)));
    assert!(one.tell(0, visit(0)).is_empty());
    assert_eq!(freezes(&one.tell(1, visit(0))), [(0, 1, 1_200.0)]);
    // The timer is 300 us late.
    one.ring(1_501, Timer::Thaw(SELF));
    one.tell(1_520, thawed(1, 1_520));
    one.tell(1_600, visit(0));
    assert_eq!(freezes(&one.tell(1_601, visit(0))), [(0, 2, 900.0)]);
    // The time that it takes to go on is not counted, as in the source.
    assert_eq!(thaws(&one.ring(2_501, Timer::Thaw(SELF))), 1);
}

fn governor(targets: Vec<(u32, Change)>) -> Talk<Governor> {
    looking(targets, Span::ZERO)
}

/// One that reads usage as rarely as `look_max` says where no pause can be due.
fn looking(targets: Vec<(u32, Change)>, look_max: Span) -> Talk<Governor> {
    let rest = (0..5).filter(|group| targets.iter().all(|(target, _)| target != group));
    let rest = rest.map(Group).collect();
    let target = |(group, change)| Target { groups: vec![Group(group)], change };
    let limits = Limits {
        pause_min: Span::from_us(1_000),
        pause_max: Span::from_us(10_000),
        look_max,
        ..Limits::default()
    };
    let windows =
        Windows { settle: Span::from_us(1), length: Span::from_us(100_000), pattern: vec![true] };
    let targets = targets.into_iter().map(target).collect();
    let config = Config { targets, rest, limits, windows, hosts: 0 };
    Talk::with(Governor::new(config).expect("a legal config"))
}

fn count(saved_us: i64, parallel: u32) -> Change {
    Change::Count { saved_ns: vec![saved_us * 1_000], parallel }
}

/// Confirms that `groups` stood from `from` to `to`, in microseconds.
fn confirm(
    talk: &mut Talk<Governor>,
    epoch: u64,
    groups: &[u32],
    from: u64,
    to: u64,
) -> Vec<Said<Governor>> {
    let (epoch, at) = (Epoch(epoch), |us: u64| Instant::from_ns(us * 1_000));
    for &group in groups {
        talk.tell(from, Input::Frozen { group: Group(group), epoch, at: at(from) });
    }
    talk.ring(to, Timer::Thaw(Set(0)));
    let mut last = Vec::new();
    for &group in groups {
        last = talk.tell(to, Input::Thawed { group: Group(group), epoch, at: at(to) });
    }
    last
}

#[test]
fn clause_2_7_count_mode_pauses_all_others_when_the_debt_is_long_enough() {
    let mut talk = governor(vec![(1, count(400, 2))]);
    for at in 0..4 {
        assert!(talk.tell(at, visit(1)).is_empty());
        assert!(talk.tell(at, visit(0)).is_empty(), "only the target counts");
    }
    assert_eq!(freezes(&talk.tell(5, visit(1))), [(0, 1, 1_000.0)]);
    let rest: Vec<u32> = talk.machine.members(Set(0)).iter().map(|group| group.0).collect();
    assert_eq!(rest, [0, 2, 3, 4], "clients included");
    // Visits served meanwhile count; the pause is 100 us too long, which is taken off.
    talk.tell(600, visit(1));
    confirm(&mut talk, 1, &rest, 10, 1_110);
    assert!((talk.machine.debt_ns(0) - 100_000.0).abs() < 1e-6);
}

#[test]
fn clause_2_7_clock_mode_goes_by_cpu_time_or_by_busy_time() {
    let usage = |cpu, busy, runnable| Usage {
        cpu: Span::from_us(cpu),
        busy: Span::from_us(busy),
        runnable: Span::from_us(runnable),
    };
    for (busy, first, longest) in
        [(Busy::Cpu, 1_500.0, 1), (Busy::Wall, 2_000.0, 1), (Busy::Runnable, 2_500.0, 1)]
    {
        let change = Change::Clock { share: 0.5, parallel: 2, busy };
        let mut talk = governor(vec![(1, change)]);
        let at = Instant::from_ns(5_000_000);
        let used = usage(6_000, 4_000, 11_000);
        let said = talk.tell(5_000, Input::Used { group: Group(1), at, usage: used });
        // Runnable time is at most the time that passed: 5 ms, of which half.
        assert_eq!(freezes(&said), [(0, longest, first)], "{busy:?}");
    }
}

#[test]
fn clause_0_delivered_mode_stops_until_the_target_got_its_share() {
    let mut talk = governor(vec![(1, Change::Delivered { share: 0.5, parallel: 1 })]);
    let used = |cpu_us: u64, us: u64| Input::Used {
        group: Group(1),
        at: Instant::from_ns(us * 1_000),
        usage: Usage { cpu: Span::from_us(cpu_us), ..Usage::default() },
    };
    // 2 ms of CPU time, none of it inside: 1 ms is owed.
    assert_eq!(freezes(&talk.tell(4_000, used(2_000, 4_000))), [(0, 1, 1_000.0)]);
    let at = |us: u64| Instant::from_ns(us * 1_000);
    for group in [0, 2, 3, 4] {
        let input = Input::Frozen { group: Group(group), epoch: Epoch(1), at: at(4_000) };
        let said = talk.tell(4_000, input);
        let reads = said.iter().filter(|out| matches!(out, Out::Effect(Effect::Read { .. })));
        assert_eq!(reads.count(), usize::from(group == 4), "read once, when all stand");
    }
    talk.tell(4_000, used(2_000, 4_000));
    let said = talk.ring(5_000, Timer::Thaw(Set(0)));
    assert!(matches!(said[0], Out::Effect(Effect::Read { .. })), "read, then thaw: {said:?}");
    // It idled for half of the pause: 500 us inside, of 2500 in all. 750 are owed.
    talk.tell(5_000, used(2_500, 5_000));
    for group in [0, 2, 3, 4] {
        talk.tell(5_000, Input::Thawed { group: Group(group), epoch: Epoch(1), at: at(5_000) });
    }
    assert!((talk.machine.debt_ns(0) - 750_000.0).abs() < 1e-6, "{}", talk.machine.debt_ns(0));
    // And it got .75 of a core at that rate, as far as is known: a pause of 1 ms pays them.
    assert_eq!(freezes(&talk.tell(5_600, used(2_500, 5_600))), [(0, 2, 1_000.0)]);
}

#[test]
fn usage_is_read_when_a_pause_could_be_due() {
    let used = |cpu_us: u64, us: u64| Input::Used {
        group: Group(1),
        at: Instant::from_ns(us * 1_000),
        usage: Usage { cpu: Span::from_us(cpu_us), ..Usage::default() },
    };
    let watches = |said: &[Said<Governor>]| -> Vec<f64> {
        let every = |out: &Said<Governor>| match out {
            Out::Effect(Effect::Watch { every, .. }) => Some(every.as_us()),
            _ => None,
        };
        said.iter().filter_map(every).collect()
    };
    let of = || {
        let change = Change::Delivered { share: 0.25, parallel: 1 };
        looking(vec![(1, change)], Span::from_us(8_000))
    };
    // A quarter of a millisecond is owed, of one. Three more of work, and the pause is due.
    let mut busy = of();
    assert_eq!(watches(&busy.tell(1_000, used(1_000, 1_000))), [3_000.0]);
    let said = busy.tell(4_000, used(4_000, 4_000));
    assert_eq!(freezes(&said), [(0, 1, 1_000.0)]);
    assert_eq!(watches(&said), [1_000.0], "each tick while others stand");
    // One that does little is looked at less often, and one that does nothing as rarely as may be.
    let mut lazy = of();
    lazy.tell(1_000, used(1_000, 1_000));
    assert_eq!(watches(&lazy.tell(4_000, used(1_000, 4_000))), [6_000.0]);
    assert_eq!(watches(&lazy.tell(10_000, used(1_000, 10_000))), [8_000.0]);
    // It may have slept since it worked: others stand for it when it is seen to work.
    let mut slept = of();
    slept.tell(1_000, used(1_000, 1_000));
    let said = slept.tell(12_000, used(5_000, 12_000));
    assert_eq!((freezes(&said), watches(&said)), (vec![], vec![1_000.0]));
    assert_eq!(freezes(&slept.tell(13_000, used(5_100, 13_000))), [(0, 1, 1_275.0)]);
    // Every tick where nobody asks for less.
    assert!(
        watches(
            &governor(vec![(1, Change::Delivered { share: 0.25, parallel: 1 })])
                .tell(1_000, used(1_000, 1_000))
        )
        .is_empty()
    );
}

#[test]
fn clause_2_1_shorter_pauses_are_nested_and_regressions_stop_the_target() {
    let mut talk = governor(vec![(1, count(300, 1)), (2, count(1_000, 1))]);
    talk.tell(1, visit(1));
    // The others stand for 1000 us, the first target for the 700 that it does not save, the second
    // not at all.
    assert_eq!(freezes(&talk.tell(2, visit(2))), [(0, 1, 1_000.0), (1, 1, 700.0)]);
    let mut talk = governor(vec![(1, count(-600, 1))]);
    talk.tell(1, visit(1));
    assert_eq!(freezes(&talk.tell(2, visit(1))), [(1, 1, 1_200.0)]);
}

#[test]
fn clause_2_7_windows_open_and_close_while_nobody_stands() {
    let mut talk = governor(vec![(1, count(500, 1))]);
    talk.ring(1, Timer::Window);
    let rest = [0, 2, 3, 4];
    let mut now = 100;
    let mut epoch = 0;
    let mut readings = Vec::new();
    while readings.len() < 2 {
        talk.tell(now, Input::Completed { requests: 1 });
        let began = talk.tell(now + 10, visit(1));
        if let [(_, number, _)] = freezes(&began)[..] {
            epoch = number;
            // The window's end falls into a pause, and waits for it.
            if now > 100_000 {
                assert!(talk.ring(now + 100, Timer::Window).len() < 2);
            }
            let said = confirm(&mut talk, epoch, &rest, now + 10, now + 1_010);
            let concluded = said.iter().find_map(|out| match out {
                Out::Effect(Effect::Conclude(reading)) => Some(*reading),
                _ => None,
            });
            readings.extend(concluded);
            now += 1_010;
        }
        now += 1_000;
    }
    let reading = readings[0];
    assert!(epoch > 30 && reading.slowed && reading.doubts & Doubts::NOTHING == 0);
    // Two visits of the target a cycle of 3010 us, 1000 of which all others stood.
    let cycles = f64::from(reading.pauses);
    assert!((reading.elapsed().as_us() - cycles * 3_010.0).abs() < 1e-6, "{reading:?}");
    assert_eq!(reading.paused.as_us(), cycles * 1_000.0);
    assert_eq!(reading.completions as f64, cycles * 2.0);
    assert!((reading.predicted_per_s() - 2e6 / 2_010.0).abs() < 1e-6);
}

#[test]
fn clause_2_8_who_says_nothing_is_given_up_by_the_lease() {
    let mut talk = governor(vec![(1, count(1_000, 1))]);
    talk.ring(1, Timer::Window);
    assert_eq!(freezes(&talk.tell(5, visit(1))).len(), 1);
    for group in [0, 2, 3] {
        let at = Instant::from_ns(5_000);
        talk.tell(5, Input::Frozen { group: Group(group), epoch: Epoch(1), at });
    }
    talk.ring(1_005, Timer::Thaw(Set(0)));
    assert!(talk.machine.pausing(), "one group is missing");
    talk.ring(250_005, Timer::Lease);
    assert!(!talk.machine.pausing());
    // What is confirmed later means nothing.
    let late = Input::Thawed { group: Group(4), epoch: Epoch(1), at: Instant::from_ns(9) };
    assert!(talk.tell(250_010, late).is_empty());
    // For all that is known the others stood for a quarter of a second, which later debts pay for.
    let pauses = (0..300).filter(|_| !freezes(&talk.tell(300_000, visit(1))).is_empty());
    assert_eq!(pauses.count(), 1);
    // An abort lets go and stops nothing more.
    assert_eq!(thaws(&talk.tell(300_001, Input::Abort)), 1);
    for _ in 0..5 {
        assert!(freezes(&talk.tell(300_002, visit(1))).is_empty());
    }
}

#[test]
fn wrong_configs_are_refused() {
    let config = |targets: Vec<Target>, limits, windows| {
        let rest = vec![Group(0)];
        Governor::new(Config { targets, rest, limits, windows, hosts: 0 }).err()
    };
    let target = |group, change| Target { groups: vec![Group(group)], change };
    let (limits, windows) = (Limits::default(), Windows::default());
    let made = |targets| config(targets, limits, windows.clone());
    assert_eq!(made(vec![target(1, count(1, 1))]), None);
    assert_eq!(made(vec![target(0, count(1, 1))]), Some(ConfigError::Groups));
    assert_eq!(made(vec![target(1, count(1, 0))]), Some(ConfigError::Change));
    let whole = Change::Delivered { share: 1.0, parallel: 1 };
    assert_eq!(made(vec![target(1, whole)]), Some(ConfigError::Change));
    let many = (1..7).map(|group| target(group, count(1, 1))).collect();
    assert_eq!(made(many), Some(ConfigError::ManyTargets));
    let short = Limits { lease: Span::from_ms(30), ..limits };
    assert_eq!(config(vec![], short, windows.clone()), Some(ConfigError::Limits));
    let none = Windows { pattern: vec![], ..windows };
    assert_eq!(config(vec![], limits, none), Some(ConfigError::Windows));
}
