//! A legal world for one controller of the probe family, with the oracles that hold for all of
//! them.

use super::Environment;
use crate::family::Node;
use crate::family::probe::{Controller, Effect, Endpoint, Epoch, Group, Input, Set, Usage};
use crate::stream::{Purpose, Stream};
use crate::time::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::marker::PhantomData;

/// What the world offers.
#[derive(Clone, Copy, Debug)]
pub struct Offer<M> {
    /// Groups, numbered from 0. All of them compute, in turns.
    pub groups: u32,
    /// Mean gap between visits.
    pub gap: Span,
    /// The longest time from a wish to freeze or thaw until it is so.
    pub latency: Span,
    /// Visits in all; then the world goes quiet.
    pub visits: u32,
    /// What a peer says, made of random bits; `None` when there are no peers.
    pub peer: Option<fn(u64) -> M>,
    /// Tell of groups that end, now and then; group 0 lives.
    pub losses: bool,
    /// Say [`Input::Abort`] after so many visits.
    pub abort_after: Option<u32>,
    /// Leases may end, because the rig calls timers late or the machine does not thaw by itself.
    pub expiry: bool,
}

#[derive(Clone, Copy, Debug)]
struct Standing {
    epoch: Epoch,
    since: Instant,
    lease_ends: Instant,
}

/// Stops and continues groups as it is told, and panics when told something illegal.
///
/// Oracles: epochs of a set grow; a freeze has members, and a lease that is no shorter than its
/// span; groups are stopped only by the controller that names them; a controller that is not late
/// lets its groups go on before their lease ends; nobody stands when the world has gone quiet;
/// after an abort nothing is stopped any more.
pub struct Probe<C: Controller, F> {
    offer: Offer<C::Message>,
    make: F,
    members: C,
    draws: Stream,
    next_visit: Option<Instant>,
    visits: u32,
    aborted: bool,
    gone: BTreeSet<Group>,
    standing: BTreeMap<Group, Standing>,
    newest: BTreeMap<Set, Epoch>,
    watched: BTreeMap<Group, (Span, Instant)>,
    /// Inputs to come, each with its time: confirmations and readings, in the order of emission.
    ahead: VecDeque<(Instant, Input<C::Message>)>,
    usage: BTreeMap<Group, Usage>,
    /// Freezes of sets that the machine asked for.
    pub freezes: u32,
    /// Groups that their lease let go.
    pub expired: u32,
    /// What it concluded: how often.
    pub findings: u32,
    /// What it told peers: how often.
    pub told: u32,
    /// Time for which each group stood, in all.
    pub stood: BTreeMap<Group, Span>,
    machine: PhantomData<C>,
}

impl<C: Controller, F: Fn() -> C> Probe<C, F> {
    /// A world that offers `offer` to machines from `make`; draws depend on `seed` alone.
    pub fn new(offer: Offer<C::Message>, seed: u64, make: F) -> Self {
        Probe {
            members: make(),
            make,
            draws: Stream::keyed(seed, 1, Purpose::Test),
            next_visit: None,
            visits: 0,
            aborted: false,
            gone: BTreeSet::new(),
            standing: BTreeMap::new(),
            newest: BTreeMap::new(),
            watched: BTreeMap::new(),
            ahead: VecDeque::new(),
            usage: BTreeMap::new(),
            freezes: 0,
            expired: 0,
            findings: 0,
            told: 0,
            stood: BTreeMap::new(),
            offer,
            machine: PhantomData,
        }
    }

    /// Groups that stand.
    pub fn standing(&self) -> usize {
        self.standing.len()
    }

    fn later(&mut self, now: Instant, input: Input<C::Message>) {
        let delay = Span::from_ns(self.draws.below(self.offer.latency.as_ns() + 1));
        // Confirmations of one group come in order: none overtakes an earlier one.
        let floor = self.ahead.back().map_or(now, |&(at, _)| at);
        self.ahead.push_back(((now + delay).max(floor), input));
    }

    fn thaw(&mut self, now: Instant, group: Group) {
        let Some(standing) = self.standing.remove(&group) else { return };
        *self.stood.entry(group).or_default() += now.since(standing.since);
        self.later(now, Input::Thawed { group, epoch: standing.epoch, at: now });
    }

    fn used(&self, group: Group, at: Instant) -> Input<C::Message> {
        let usage = self.usage.get(&group).copied().unwrap_or_default();
        Input::Used { group, at, usage }
    }

    fn visit(&mut self) -> Input<C::Message> {
        self.next_visit = None;
        self.visits += 1;
        if self.offer.abort_after == Some(self.visits) {
            self.aborted = true;
            return Input::Abort;
        }
        if self.offer.losses && self.visits % 997 == 996 {
            let group = Group(1 + self.draws.below(u64::from(self.offer.groups).max(2) - 1) as u32);
            self.gone.insert(group);
            self.standing.remove(&group);
            return Input::Gone { group };
        }
        match (self.draws.below(8), self.offer.peer) {
            (0, Some(says)) => {
                Input::Rx { from: Node(1 + self.visits % 3), message: says(self.draws.bits()) }
            }
            (1, Some(_)) => Input::Met { peer: Node(1 + self.visits % 3) },
            (2 | 3, _) => Input::Completed { requests: 1 + self.draws.below(3) as u32 },
            _ => {
                let group = Group(self.draws.below(u64::from(self.offer.groups)) as u32);
                // One that stands works nothing and begins nothing.
                if self.standing.contains_key(&group) {
                    return Input::Completed { requests: 1 };
                }
                let worked = Span::from_ns(self.draws.below(2 * self.offer.gap.as_ns() + 1));
                let usage = self.usage.entry(group).or_default();
                usage.cpu += worked;
                usage.busy += worked;
                usage.runnable += worked * 2;
                let endpoint = Endpoint(self.draws.below(2) as u16);
                Input::Visited { group, endpoint }
            }
        }
    }
}

impl<C: Controller, F: Fn() -> C> Environment for Probe<C, F> {
    type Machine = C;

    fn machine(&self) -> C {
        (self.make)()
    }

    fn next_at(&mut self, now: Instant, _: &mut Stream) -> Option<Instant> {
        if self.next_visit.is_none() && self.visits < self.offer.visits {
            let gap = self.draws.below(2 * self.offer.gap.as_ns() + 1);
            self.next_visit = Some(now + Span::from_ns(gap));
        }
        let lease = self.standing.values().map(|standing| standing.lease_ends).min();
        let quiet = self.visits >= self.offer.visits;
        let watch = self.watched.values().map(|&(_, at)| at).min().filter(|_| !quiet);
        let ahead = self.ahead.front().map(|&(at, _)| at);
        [lease, watch, ahead, self.next_visit].into_iter().flatten().min().map(|at| at.max(now))
    }

    fn take(&mut self, now: Instant) -> Input<C::Message> {
        let over = self.standing.iter().find(|(_, standing)| standing.lease_ends <= now);
        if let Some((&group, standing)) = over {
            assert!(self.offer.expiry, "{group:?} stood until its lease ended: {standing:?}");
            self.expired += 1;
            self.thaw(now, group);
        }
        if self.ahead.front().is_some_and(|&(at, _)| at <= now) {
            let (_, input) = self.ahead.pop_front().expect("it was just seen");
            return input;
        }
        let due = self.watched.iter().find(|(_, (_, at))| *at <= now).map(|(&group, _)| group);
        if let Some(group) = due {
            let (every, at) = self.watched.get_mut(&group).expect("it was just found");
            *at = now + *every;
            return self.used(group, now);
        }
        if self.next_visit.is_some_and(|at| at <= now) {
            return self.visit();
        }
        // A lease ended and its confirmation is still on its way.
        Input::Completed { requests: 0 }
    }

    fn apply(&mut self, now: Instant, effect: &Effect<C::Message, C::Finding>) {
        match *effect {
            Effect::Freeze { set, epoch, span, lease } => {
                assert!(!self.aborted, "{set:?} is frozen after the abort");
                assert!(lease >= span && !lease.is_zero(), "a lease of {lease} for {span}");
                let newest = self.newest.get(&set);
                assert!(newest.is_none_or(|&last| last < epoch), "{epoch:?} after {newest:?}");
                self.newest.insert(set, epoch);
                let members: Vec<Group> = self.members.members(set).to_vec();
                assert!(!members.is_empty(), "{set:?} has no members");
                self.freezes += 1;
                for group in members {
                    assert!(group.0 < self.offer.groups, "{group:?} is nobody's");
                    if self.gone.contains(&group) {
                        continue;
                    }
                    let since = self.standing.get(&group).map_or(now, |standing| standing.since);
                    let lease_ends = now + lease;
                    self.standing.insert(group, Standing { epoch, since, lease_ends });
                    self.later(now, Input::Frozen { group, epoch, at: now });
                }
            }
            Effect::Thaw { set, epoch } => {
                for group in self.members.members(set).to_vec() {
                    if self.standing.get(&group).is_some_and(|standing| standing.epoch == epoch) {
                        self.thaw(now, group);
                    }
                }
            }
            Effect::Watch { group, every } if every.is_zero() => {
                self.watched.remove(&group);
            }
            Effect::Watch { group, every } => {
                self.watched.insert(group, (every, now + every));
            }
            Effect::Read { group } => {
                let input = self.used(group, now);
                self.later(now, input);
            }
            Effect::Send { .. } | Effect::Cast { .. } => {
                assert!(self.offer.peer.is_some(), "it talks, and nobody is there");
                self.told += 1;
            }
            Effect::Conclude(_) => self.findings += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::probe::Timer;
    use crate::laws::{Punctuality, Rig, hold};
    use crate::machine::{Cx, Machine};
    use alloc::vec;

    const GROUPS: u32 = 4;
    const SPAN: Span = Span::from_us(300);

    /// How a toy is arranged; each stops what it may for the same span.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Arranged {
        /// It sees group 0, and stops the others after every third of a millisecond of its CPU
        /// time.
        OneForAll,
        /// It sees and stops group 0 alone, and passes on the phase that it or a neighbour began.
        OneAService,
        /// It stops its groups when its leader says so.
        Daemon,
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Bug {
        None,
        NeverThaws,
        UsesAnEpochTwice,
    }

    struct Toy {
        arranged: Arranged,
        bug: Bug,
        members: Vec<Group>,
        epoch: Epoch,
        phase: u64,
        frozen: bool,
        aborted: bool,
        spent: Span,
        visits: u32,
    }

    type ToyCx<'a> = Cx<'a, Effect<u64, u32>, Timer>;

    impl Toy {
        fn new(arranged: Arranged, bug: Bug) -> Toy {
            let members = match arranged {
                Arranged::OneAService => vec![Group(0)],
                _ => (1..GROUPS).map(Group).collect(),
            };
            Toy {
                arranged,
                bug,
                members,
                epoch: Epoch(0),
                phase: 0,
                frozen: false,
                aborted: false,
                spent: Span::ZERO,
                visits: 0,
            }
        }

        fn freeze(&mut self, cx: &mut ToyCx<'_>) {
            if self.frozen || self.aborted {
                return;
            }
            self.frozen = true;
            if self.bug != Bug::UsesAnEpochTwice || self.epoch.0 == 0 {
                self.epoch.0 += 1;
            }
            let lease = SPAN * 3;
            cx.emit(Effect::Freeze { set: Set(0), epoch: self.epoch, span: SPAN, lease });
            if self.bug != Bug::NeverThaws {
                cx.arm(Timer::Thaw(Set(0)), cx.now() + SPAN);
            }
        }

        fn pass_on(&mut self, phase: u64, cx: &mut ToyCx<'_>) {
            if phase > self.phase {
                self.phase = phase;
                cx.emit(Effect::Cast { message: phase });
                self.freeze(cx);
            }
        }
    }

    impl Machine for Toy {
        type Input = Input<u64>;
        type Effect = Effect<u64, u32>;
        type Timer = Timer;

        fn effects_max(&self) -> usize {
            4
        }
        fn start(&mut self, cx: &mut ToyCx<'_>) {
            if self.arranged == Arranged::OneForAll {
                cx.emit(Effect::Watch { group: Group(0), every: Span::from_us(50) });
            }
        }
        fn handle(&mut self, input: Input<u64>, cx: &mut ToyCx<'_>) {
            match (input, self.arranged) {
                (Input::Abort, _) => {
                    self.aborted = true;
                    cx.disarm(Timer::Thaw(Set(0)));
                    cx.emit(Effect::Thaw { set: Set(0), epoch: self.epoch });
                    self.frozen = false;
                }
                (Input::Used { usage, .. }, Arranged::OneForAll)
                    if usage.cpu.saturating_sub(self.spent) > Span::from_us(333) =>
                {
                    self.spent = usage.cpu;
                    self.freeze(cx);
                }
                (Input::Visited { group: Group(0), .. }, Arranged::OneAService) => {
                    self.visits += 1;
                    if self.visits.is_multiple_of(20) {
                        self.pass_on(self.phase + 1, cx);
                    }
                }
                (Input::Rx { message, .. }, Arranged::OneAService) => {
                    self.pass_on(message % 1_000, cx);
                }
                (Input::Rx { .. }, Arranged::Daemon) => self.freeze(cx),
                _ => {}
            }
        }
        fn expire(&mut self, _: Timer, cx: &mut ToyCx<'_>) {
            cx.emit(Effect::Thaw { set: Set(0), epoch: self.epoch });
            cx.emit(Effect::Conclude(1));
            self.frozen = false;
        }
    }

    impl Controller for Toy {
        type Message = u64;
        type Finding = u32;
        fn members(&self, _: Set) -> &[Group] {
            &self.members
        }
    }

    fn offer(arranged: Arranged) -> Offer<u64> {
        Offer {
            groups: GROUPS,
            gap: Span::from_us(10),
            latency: Span::from_us(30),
            visits: 3_000,
            peer: (arranged != Arranged::OneForAll).then_some(|bits| bits),
            losses: true,
            abort_after: None,
            expiry: false,
        }
    }

    const ALL: [Arranged; 3] = [Arranged::OneForAll, Arranged::OneAService, Arranged::Daemon];

    fn drive(arranged: Arranged, bug: Bug, offer: Offer<u64>) -> (u32, usize, u32) {
        let world = Probe::new(offer, 7, move || Toy::new(arranged, bug));
        let mut rig = Rig::new(world, 7, Punctuality::Exact);
        while rig.step().is_some() {}
        let world = rig.environment();
        (world.freezes, world.standing(), world.findings)
    }

    #[test]
    fn one_vocabulary_carries_three_arrangements() {
        for arranged in ALL {
            for seed in 0..20 {
                hold(
                    || Probe::new(offer(arranged), seed, move || Toy::new(arranged, Bug::None)),
                    seed,
                    20_000,
                );
            }
            let (freezes, standing, findings) = drive(arranged, Bug::None, offer(arranged));
            assert!(freezes > 10, "{arranged:?} froze {freezes} times");
            assert_eq!(standing, 0, "{arranged:?}");
            assert_eq!(findings, freezes, "{arranged:?}");
        }
    }

    #[test]
    fn nobody_stands_after_an_abort() {
        for arranged in ALL {
            let offer = Offer { abort_after: Some(1_500), ..offer(arranged) };
            let (freezes, standing, _) = drive(arranged, Bug::None, offer);
            assert!(freezes > 5 && standing == 0, "{arranged:?}: {freezes}, {standing}");
        }
    }

    #[test]
    fn a_lease_lets_go_what_nobody_thaws() {
        let offer = Offer { expiry: true, ..offer(Arranged::OneForAll) };
        let (freezes, standing, _) = drive(Arranged::OneForAll, Bug::NeverThaws, offer);
        assert_eq!((freezes, standing), (1, 0));
    }

    #[test]
    #[should_panic(expected = "stood until its lease ended")]
    fn who_never_thaws_is_found() {
        drive(Arranged::OneForAll, Bug::NeverThaws, offer(Arranged::OneForAll));
    }

    #[test]
    #[should_panic(expected = "Epoch(1) after Some(Epoch(1))")]
    fn who_uses_an_epoch_twice_is_found() {
        drive(Arranged::OneAService, Bug::UsesAnEpochTwice, offer(Arranged::OneAService));
    }
}
