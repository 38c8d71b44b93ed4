//! Fault seeds: small systems under a Governor and daemons, with everything that goes wrong with
//! stopping ([slowpoke 2.8]). What must hold whatever happens: who was asked to stand is let go, by
//! its controller or its lease; nobody stands who was not asked to; sums of pauses are those of the
//! log; windows open and close while nobody stands; what is stale means nothing.
//!
//! A failing seed is printed: `CAVY_SEED=n cargo test -p cavy-lab --test services seeds` runs it
//! alone, and `CAVY_SEEDS=5000` that many.

use super::stage::{closed, exponential, line, us};
use super::whatif::Either;
use cavy_core::family::Node;
use cavy_core::family::probe::{Controller, Effect, Epoch, Group, Input, Set, Timer};
use cavy_core::{Cx, Instant, Machine, Out, Outbox, Purpose, Span, Stream};
use cavy_lab::pending::Heap4;
use cavy_lab::services::{Faults, Network, Observer, Setup, run};
use cavy_whatif::daemon::{Order, SETS};
use cavy_whatif::{Busy, Change, Config, Daemon, Governor, Limits, Reading, Target, Windows};
use core::ops::ControlFlow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Defects put into what a controller says or hears, one a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Every tenth wish to go on is not said.
    ForgetsThaw,
    /// An epoch is used again.
    RepeatsEpoch,
    /// The lease is so long that it is none.
    NoLease,
    /// It freezes its target with the rest.
    FreezesTarget,
    /// It goes on stopping after an abort.
    DeafToAbort,
    /// It reports how long pauses were to be, and not how long they were.
    NominalPause,
    /// It does not stop the clients.
    ClientsGoOn,
    /// A wish of the last pause to go on ends the next one.
    ObeysStaleThaw,
    /// Every tenth visit of its target is not counted.
    MissesVisits,
    /// Windows close while groups stand.
    ClosesFrozen,
}

/// What a run showed of who stood, kept beside the world.
#[derive(Default)]
struct Log {
    /// By group: since when it stands, and by which epoch of which controller.
    standing: BTreeMap<(u32, Group), (Instant, Epoch, Instant)>,
    newest: BTreeMap<(u32, Set), Epoch>,
    asked: BTreeMap<(u32, Group), Instant>,
    faults: Vec<String>,
    freezes: u32,
    aborted: bool,
    /// Of the leader, when it stops groups itself: the pause that is on, with the members that have
    /// stood, when the last of them stopped and when the first went on.
    pause: Option<(u32, Instant, Instant)>,
    /// Pauses in which all members stood: when they ended, and for how long all stood at once.
    pauses: Vec<(Instant, Span)>,
    /// A member did not stand in some pause, or its lease ended it.
    partial: bool,
    /// Epochs by which groups were wished to go on.
    wished: BTreeMap<(u32, Set), Epoch>,
    visits: Vec<Instant>,
}

/// A controller with somebody who writes down what it says and hears, and a bug.
struct Watched {
    inner: Either,
    node: u32,
    log: Rc<RefCell<Log>>,
    bug: Bug,
    outbox: Outbox<Effect<Order, Reading>, Timer>,
    thaws: u32,
    allowed: Vec<Group>,
    abort_at: Instant,
    lease_max: Span,
    /// It stops groups itself.
    alone: bool,
    target: Group,
    visited: u32,
    late: Vec<Reading>,
}

type WatchedCx<'a> = Cx<'a, Effect<Order, Reading>, Timer>;

impl Watched {
    fn pass(&mut self, cx: &mut WatchedCx<'_>, step: impl FnOnce(&mut Either, &mut WatchedCx<'_>)) {
        let mut outbox = core::mem::replace(&mut self.outbox, Outbox::with_capacity(0));
        let now = cx.now();
        {
            let mut rng = Stream::keyed(1, self.node, Purpose::Machine);
            step(&mut self.inner, &mut Cx::new(now, &mut rng, &mut outbox));
        }
        let mut log = self.log.borrow_mut();
        for out in outbox.drain() {
            match out {
                Out::Arm(timer, at) => cx.arm(timer, at),
                Out::Disarm(timer) => cx.disarm(timer),
                Out::Effect(Effect::Freeze { set, epoch, span, lease }) => {
                    let epoch = if self.bug == Bug::RepeatsEpoch { Epoch(1) } else { epoch };
                    let lease = if self.bug == Bug::NoLease { Span::MAX } else { lease };
                    let newest = log.newest.insert((self.node, set), epoch);
                    if newest.is_some_and(|newest| newest >= epoch) {
                        log.faults.push(format!("stale epoch: {epoch:?} after {newest:?}"));
                    }
                    if lease > self.lease_max {
                        log.faults.push(format!("lease: {lease} is longer than agreed"));
                    }
                    // An order that was on its way when its leader was told to stop is obeyed, and
                    // its lease ends it.
                    if log.aborted && self.node == 0 {
                        log.faults.push("abort: a freeze after it".to_string());
                    }
                    for &group in self.inner.members(set) {
                        if !self.allowed.contains(&group) {
                            log.faults.push(format!("unasked: {group:?} may not be stopped"));
                        }
                        log.asked.insert((self.node, group), now + lease);
                    }
                    log.freezes += 1;
                    if set == Set(0) {
                        log.pause = Some((0, Instant::ZERO, Instant::NEVER));
                    }
                    cx.emit(Effect::Freeze { set, epoch, span, lease });
                    if self.bug == Bug::ObeysStaleThaw && epoch.0 % 5 == 0 {
                        cx.emit(Effect::Thaw { set, epoch });
                    }
                }
                Out::Effect(Effect::Thaw { set, epoch }) => {
                    log.wished.insert((self.node, set), epoch);
                    self.thaws += 1;
                    if self.bug == Bug::ForgetsThaw && self.thaws % 10 == 9 {
                        continue;
                    }
                    let epoch = if self.bug == Bug::RepeatsEpoch { Epoch(1) } else { epoch };
                    cx.emit(Effect::Thaw { set, epoch });
                }
                Out::Effect(Effect::Conclude(mut reading)) => {
                    if self.bug == Bug::NominalPause {
                        reading.paused = reading.asked;
                    }
                    self.late.push(reading);
                }
                Out::Effect(other) => cx.emit(other),
            }
        }
        let stands = log.standing.keys().any(|(node, _)| *node == self.node);
        if self.bug != Bug::ClosesFrozen || stands {
            for reading in self.late.drain(..) {
                judge(&mut log, &reading, self.alone, stands);
                cx.emit(Effect::Conclude(reading));
            }
        }
        drop(log);
        self.outbox = outbox;
    }
}

/// What a reading says against what was seen from outside.
fn judge(log: &mut Log, reading: &Reading, alone: bool, stands: bool) {
    let sound = reading.paused <= reading.elapsed()
        && reading.paused <= reading.paused_any
        && reading.from < reading.to;
    if !sound {
        log.faults.push(format!("sums: {reading:?}"));
    }
    if stands {
        log.faults.push("window: it closes while somebody stands".to_string());
    }
    let within = |at: Instant| reading.from <= at && at <= reading.to;
    let inside = |at: Instant| reading.from < at && at < reading.to;
    let (least, most) = log.visits.iter().fold((0, 0), |(least, most), &at| {
        (least + u64::from(inside(at)), most + u64::from(within(at)))
    });
    if !(least..=most).contains(&reading.visits[0]) {
        let told = reading.visits[0];
        log.faults.push(format!("visits: {told} of {least} to {most}"));
    }
    if alone && !log.partial {
        let of = |ended: &&(Instant, Span)| reading.from < ended.0 && ended.0 <= reading.to;
        let sum = log.pauses.iter().filter(of).fold(Span::ZERO, |sum, (_, span)| sum + *span);
        if sum != reading.paused {
            let told = reading.paused;
            log.faults.push(format!("sums: pauses of {told} where the log has {sum}"));
        }
    }
}

impl Machine for Watched {
    type Input = Input<Order>;
    type Effect = Effect<Order, Reading>;
    type Timer = Timer;
    fn effects_max(&self) -> usize {
        self.inner.effects_max()
    }
    fn start(&mut self, cx: &mut WatchedCx<'_>) {
        self.pass(cx, |one, cx| one.start(cx));
    }
    fn handle(&mut self, input: Input<Order>, cx: &mut WatchedCx<'_>) {
        let node = self.node;
        {
            let mut log = self.log.borrow_mut();
            match input {
                Input::Frozen { group, epoch, at } => {
                    let ends = log.asked.get(&(node, group)).copied();
                    match ends {
                        None => log.faults.push(format!("unasked: {group:?} stands")),
                        Some(ends) => {
                            log.standing.insert((node, group), (at, epoch, ends));
                        }
                    }
                    let of_rest = self.inner.members(Set(0)).contains(&group);
                    if let (true, Some((stood, last, _))) = (of_rest, &mut log.pause) {
                        *stood += 1;
                        *last = at.max(*last);
                    }
                }
                Input::Thawed { group, epoch, at } => match log.standing.remove(&(node, group)) {
                    Some((since, by, ends)) if by == epoch => {
                        // A lease counts from the wish, and a stop may land late.
                        if at > ends + Span::from_ms(5) {
                            let stood = at.since(since);
                            log.faults.push(format!("lease: {group:?} stood {stood}"));
                        }
                        let rest = self.inner.members(Set(0));
                        let set = if rest.contains(&group) { Set(0) } else { Set(1) };
                        let wished = log.wished.get(&(node, set)).is_some_and(|one| *one >= epoch);
                        if !wished && at + Span::from_us(1) < ends {
                            log.faults.push(format!("early: {group:?} goes on unasked"));
                        }
                        log.partial |= at >= ends;
                        let rest: Vec<Group> = rest.to_vec();
                        let over = !log.standing.keys().any(|(_, one)| rest.contains(one));
                        if let (true, Some((stood, last, first))) = (set == Set(0), &mut log.pause)
                        {
                            *first = at.min(*first);
                            let (stood, last, first) = (*stood, *last, *first);
                            if over && stood as usize == rest.len() {
                                log.pauses.push((at, first.since(last)));
                                log.pause = None;
                            } else if over {
                                log.partial = true;
                            }
                        }
                    }
                    other => log.faults.push(format!("twice: {group:?} goes on from {other:?}")),
                },
                Input::Visited { group, .. } if group == self.target => {
                    log.visits.push(cx.now());
                    self.visited += 1;
                    if self.bug == Bug::MissesVisits && self.visited.is_multiple_of(10) {
                        return;
                    }
                }
                _ => {}
            }
        }
        if cx.now() >= self.abort_at {
            self.abort_at = Instant::NEVER;
            if matches!(self.inner, Either::Leader(_)) {
                if self.bug != Bug::DeafToAbort {
                    self.pass(cx, |one, cx| one.handle(Input::Abort, cx));
                }
                self.log.borrow_mut().aborted = true;
            }
        }
        self.pass(cx, |one, cx| one.handle(input, cx));
    }
    fn expire(&mut self, timer: Timer, cx: &mut WatchedCx<'_>) {
        self.pass(cx, |one, cx| one.expire(timer, cx));
    }
    fn check(&self) {
        self.inner.check();
    }
}

impl Controller for Watched {
    type Message = Order;
    type Finding = Reading;
    fn members(&self, set: Set) -> &[Group] {
        self.inner.members(set)
    }
}

struct Seen(u32);

impl Observer<Reading> for Seen {
    fn concluded(&mut self, _: usize, _: Instant, _: &Reading) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

/// What one seed came to: faults found by name, freezes, groups that stood when all was quiet.
struct Came {
    faults: Vec<String>,
    freezes: u32,
    virtual_ok: bool,
}

fn network(draws: &mut Stream) -> Network {
    let time = |draws: &mut Stream| 100 + draws.below(700);
    let laws: Vec<_> = (0..3)
        .map(|_| {
            let time = time(draws);
            let law = if draws.below(2) == 0 { us(time) } else { exponential(time) };
            (law, 1 + draws.below(2) as u16)
        })
        .collect();
    let mut network = line(&laws, closed(4 + draws.below(40) as u32, None));
    network.hop = Some(us(20 + draws.below(100)));
    network
}

fn faults(draws: &mut Stream) -> Faults {
    let some = |draws: &mut Stream, most: u64| {
        (draws.below(2) == 0).then(|| exponential(1 + draws.below(most)))
    };
    Faults {
        stop: some(draws, 60),
        stop_per_thread: Span::from_us(draws.below(5)),
        go: some(draws, 60),
        late: some(draws, 200),
        stall_ratio: if draws.below(3) == 0 { 0.02 } else { 0.0 },
        stall: Span::from_us(draws.below(8_000)),
        message: Some(exponential(1 + draws.below(400))),
        lost_ratio: if draws.below(3) == 0 { 0.05 } else { 0.0 },
        doubled_ratio: if draws.below(3) == 0 { 0.1 } else { 0.0 },
        tick: Span::ZERO,
        ..Faults::default()
    }
}

fn drive(seed: u64, bug: Bug) -> Came {
    let mut draws = Stream::keyed(seed, 9, Purpose::Test);
    let network = network(&mut draws);
    let target = draws.below(3) as u32;
    let share = 0.2 + 0.2 * draws.below(4) as f64;
    let change = match draws.below(4) {
        0 => Change::Count { saved_ns: vec![20_000 + draws.below(80_000) as i64], parallel: 1 },
        1 => Change::Count { saved_ns: vec![-(20_000 + draws.below(80_000) as i64)], parallel: 1 },
        2 => Change::Clock { share, parallel: 1, busy: Busy::Wall },
        _ => Change::Delivered { share, parallel: 1 },
    };
    let of_hosts = draws.below(2) == 0 && bug == Bug::None;
    let rest: Vec<Group> = (0..network.groups()).filter(|&g| g != target).map(Group).collect();
    let slows = change.slows();
    // Who must stand at some time.
    let wanted = rest.clone();
    let clients = network.group_of_clients(0);
    let stops_clients = |group: &Group| bug != Bug::ClientsGoOn || group.0 != clients;
    let rest: Vec<Group> = rest.into_iter().filter(stops_clients).collect();
    let mut groups = rest.clone();
    if bug == Bug::FreezesTarget {
        groups.push(Group(target));
    }
    let limits = Limits {
        pause_min: Span::from_us(100 + draws.below(1_000)),
        pause_max: Span::from_us(3_000),
        duty_max: 0.8,
        lease: Span::from_us(9_000),
        tick: Span::from_us(100),
        look_max: Span::ZERO,
    };
    let config = Config {
        targets: vec![Target { groups: vec![Group(target)], change }],
        rest: rest.clone(),
        limits,
        windows: Windows {
            settle: Span::from_us(2_000),
            length: Span::from_us(10_000),
            pattern: vec![true, true, false],
        },
        hosts: if of_hosts { 2 } else { 0 },
    };
    let governor = Governor::new(config).expect("a legal config");
    let log = Rc::new(RefCell::new(Log::default()));
    let mut allowed = rest.clone();
    if slows {
        allowed.push(Group(target));
    }
    let end = Instant::from_ns(120_000_000);
    let abort_at = Instant::from_ns(60_000_000 + draws.below(20_000_000));
    let watched = |inner: Either, node: u32| Watched {
        outbox: Outbox::with_capacity(inner.effects_max()),
        inner,
        node,
        log: log.clone(),
        bug,
        thaws: 0,
        allowed: allowed.clone(),
        abort_at,
        lease_max: Span::from_us(9_000),
        alone: !of_hosts,
        target: Group(target),
        visited: 0,
        late: Vec::new(),
    };
    let mut all = vec![watched(Either::Leader(Box::new(governor)), 0)];
    if bug == Bug::FreezesTarget {
        // The defect is in the list of groups.
        let Either::Leader(one) = &mut all[0].inner else { unreachable!() };
        let config = Config {
            targets: Vec::new(),
            rest: groups,
            limits,
            windows: Windows { settle: Span::ZERO, ..Windows::default() },
            hosts: 0,
        };
        let other = Group((target + 1) % 3);
        let mut wrong = config;
        let change = Change::Clock { share: 0.5, parallel: 1, busy: Busy::Wall };
        wrong.targets = vec![Target { groups: vec![other], change }];
        wrong.rest.retain(|group| *group != other);
        **one = Governor::new(wrong).expect("a legal config");
    }
    if of_hosts {
        for host in 0..2 {
            let mut sets: [Vec<Group>; SETS] = Default::default();
            sets[0] = rest.iter().copied().filter(|group| group.0 % 2 == host).collect();
            if target % 2 == host {
                sets[1].push(Group(target));
            }
            all.push(watched(Either::Daemon(Box::new(Daemon::new(Node(0), sets))), host + 1));
        }
    }
    let mut setup = Setup::new(&network, seed, end);
    setup.wiring.hears = vec![Some(0); network.groups() as usize];
    setup.wiring.edge = Some(0);
    setup.faults = faults(&mut draws);
    if draws.below(4) == 0 && bug == Bug::None {
        // The leader, or a daemon, dies in the middle of something.
        let who = draws.below(all.len() as u64) as u32;
        setup.deaths = vec![(who, Instant::from_ns(20_000_000 + draws.below(30_000_000)))];
    }
    setup.check = true;
    let mut seen = Seen(0);
    let outcome = run(&setup, &mut all, &mut Heap4::new(), &mut seen).expect("a legal network");
    let log = log.borrow();
    let mut found = log.faults.clone();
    // Long after the abort and the last lease nobody stands but by what the dead were not told.
    let dead: Vec<u32> = setup.deaths.iter().map(|&(who, _)| who).collect();
    for (&(node, group), &(since, _, ends)) in &log.standing {
        if !dead.contains(&node) && ends + Span::from_ms(5) < end {
            found.push(format!("forever: {group:?} stands since {since}"));
        }
    }
    // The world's own account of the last tenth: whoever moves at all is not frozen.
    let groups = outcome.groups.iter().enumerate();
    let mut virtual_ok = true;
    for (group, one) in groups {
        virtual_ok &= one.frozen <= outcome.at.since(Instant::ZERO);
        if one.stops > 0 && !allowed.contains(&Group(group as u32)) {
            found.push(format!("unasked: group {group} was stopped"));
        }
    }
    let most = wanted.iter().map(|group| outcome.groups[group.0 as usize].stops).max();
    for group in &wanted {
        // A daemon that is dead, or hears nothing, stops nobody.
        let missed = outcome.groups[group.0 as usize].stops == 0 && most.unwrap_or(0) >= 3;
        if missed && !of_hosts {
            found.push(format!("missed: {group:?} was never stopped"));
        }
    }
    let punctual = setup.faults.stall_ratio == 0.0 && setup.deaths.is_empty();
    if punctual && outcome.groups.iter().any(|one| one.leases_ended > 0) {
        found.push("lease: needed by a controller that lives and is punctual".to_string());
    }
    if outcome.completed == 0 {
        found.push("silence: no request was ever answered".to_string());
    }
    Came { faults: found, freezes: log.freezes, virtual_ok }
}

/// Drives seeds, `usual` of them unless the caller says others; every one of them must leave
/// everybody going.
#[allow(clippy::disallowed_methods)] // which seeds to run is the caller's to say
fn explore(usual: u64) {
    let seeds = cavy_core::laws::seeds(|name| std::env::var(name).ok(), 0..usual);
    let (count, mut freezes) = (seeds.end - seeds.start, 0);
    for seed in seeds {
        let came = drive(seed, Bug::None);
        assert!(came.virtual_ok, "seed {seed}");
        assert!(came.faults.is_empty(), "seed {seed}: {:?}", came.faults);
        freezes += u64::from(came.freezes);
    }
    println!("{count} seeds, {freezes} freezes");
    // One alone may have few.
    assert!(count < 100 || freezes > 10 * count, "{freezes} freezes");
}

#[test]
fn whatever_goes_wrong_everybody_goes_on() {
    explore(300);
}

#[test]
#[ignore = "some seconds: cargo test -p cavy-lab --test services seeds -- --ignored --nocapture"]
fn exploration_of_many_seeds() {
    explore(5_000);
}

#[test]
fn planted_bugs_are_found_by_their_oracles() {
    for (bug, oracle) in [
        (Bug::ForgetsThaw, "lease"),
        (Bug::RepeatsEpoch, "stale epoch"),
        (Bug::NoLease, "lease"),
        (Bug::FreezesTarget, "unasked"),
        (Bug::DeafToAbort, "abort"),
        (Bug::NominalPause, "sums"),
        (Bug::ClientsGoOn, "missed"),
        (Bug::ObeysStaleThaw, "early"),
        (Bug::MissesVisits, "visits"),
        (Bug::ClosesFrozen, "window"),
    ] {
        let by = |seed: &u64| drive(*seed, bug).faults.iter().any(|one| one.starts_with(oracle));
        let found = (0..60).filter(by).count();
        println!("{bug:?}: {found} of 60 seeds, by `{oracle}`");
        assert!(found > 0, "{bug:?} was not found by `{oracle}`");
    }
}
