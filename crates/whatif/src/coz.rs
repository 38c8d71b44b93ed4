//! Coz's rule ([slowpoke B7]): samples of the target oblige others to fall back, each by itself.
//!
//! A thread of Coz is a group here. Each sample of the target's CPU time is worth a delay, and a
//! counter for all knows the sum of them. Each group has a counter of its own: who is behind stands
//! for the difference as soon as it computes, and who is ahead raises the counter for all. What
//! would have changed is what is left of the time when the growth of that counter is taken out.
//!
//! **Credits.** A thread that was blocked and is woken by another has stood its delays while it
//! waited for who stood: Coz gives it what was inserted meanwhile. Inside a process it sees who
//! wakes whom. Across services nobody does, so no credit can be given, and who waited for a slowed
//! service stands for the same delay once more.
//!
//! Deviation: a group counts as blocked when it neither ran nor was ready for a whole tick, and
//! catches up at a tick, where Coz does so at the calls that block and wake. A group with several
//! threads counts as one of so many servers.

use alloc::vec::Vec;
use cavy_core::family::probe::{Controller, Effect, Epoch, Group, Input, Set, Timer, Usage};
use cavy_core::{Cx, Instant, Machine, Span};

/// What a [`Coz`] goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What is to be faster.
    pub targets: Vec<Group>,
    /// What falls back.
    pub others: Vec<Group>,
    /// By which share of its CPU time it is to be faster, above 0 and at most 1.
    pub share: f64,
    /// Servers of a target: CPU time of all of them is that many times as fast as the wall.
    pub parallel: u32,
    /// CPU time for a sample. Coz: 1 ms.
    pub sample: Span,
    /// Samples that are worked off together. Coz: 10.
    pub batch: u32,
    /// How often groups are looked at.
    pub tick: Span,
    /// Is who was blocked credited what was inserted meanwhile? Within a process it is.
    pub credits: bool,
    /// For how long a group stands at most, whatever becomes of the controller.
    pub lease: Span,
    /// Before anything is counted.
    pub settle: Span,
    /// For how long it is counted.
    pub length: Span,
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Effective {
    /// Requests that the edge answered.
    pub completions: u64,
    /// Time on the wall.
    pub elapsed: Span,
    /// By how much the counter for all grew meanwhile.
    pub inserted: Span,
    /// Pauses of single groups.
    pub pauses: u32,
}

impl Effective {
    /// Throughput of the changed system, in requests a second; `None` when more delay was inserted
    /// than time has passed.
    pub fn predicted_per_s(&self) -> Option<f64> {
        let left = self.elapsed.as_ns().checked_sub(self.inserted.as_ns()).filter(|ns| *ns > 0)?;
        Some(self.completions as f64 * 1e9 / left as f64)
    }

    /// Throughput on the wall, in requests a second.
    pub fn measured_per_s(&self) -> f64 {
        self.completions as f64 * 1e9 / self.elapsed.as_ns().max(1) as f64
    }
}

/// What is known of one group.
#[derive(Clone, Debug)]
struct Thread {
    group: [Group; 1],
    target: bool,
    /// Delays that it has stood or was credited, in nanoseconds.
    delayed_ns: f64,
    seen: Usage,
    seen_at: Instant,
    /// CPU time that is in no sample yet.
    unsampled: Span,
    /// It neither ran nor was ready in the last tick.
    blocked: bool,
    stopping: bool,
    stood_since: Instant,
    epoch: Epoch,
}

/// The controller of all groups.
#[derive(Clone, Debug)]
pub struct Coz {
    rule: Rule,
    /// Targets first; the set of each has its place as its name.
    threads: Vec<Thread>,
    inserted_ns: f64,
    /// That of the last pause of any group.
    epoch: Epoch,
    /// Since when it counts, and what the counter for all was then.
    begun: Option<(Instant, f64)>,
    completions: u64,
    pauses: u32,
    aborted: bool,
}

type CozCx<'a> = Cx<'a, Effect<(), Effective>, Timer>;

impl Coz {
    /// A controller by `rule`.
    pub fn new(rule: Rule) -> Self {
        let thread = |group: Group, target: bool| Thread {
            group: [group],
            target,
            delayed_ns: 0.0,
            seen: Usage::default(),
            seen_at: Instant::ZERO,
            unsampled: Span::ZERO,
            blocked: true,
            stopping: false,
            stood_since: Instant::NEVER,
            epoch: Epoch(0),
        };
        let targets = rule.targets.iter().map(|&group| thread(group, true));
        let others = rule.others.iter().map(|&group| thread(group, false));
        Coz {
            threads: targets.chain(others).collect(),
            rule,
            inserted_ns: 0.0,
            epoch: Epoch(0),
            begun: None,
            completions: 0,
            pauses: 0,
            aborted: false,
        }
    }

    fn place(&self, group: Group) -> Option<usize> {
        self.threads.iter().position(|one| one.group[0] == group)
    }

    fn used(&mut self, place: usize, at: Instant, usage: Usage, cx: &mut CozCx<'_>) {
        let one = &mut self.threads[place];
        if one.stopping || self.aborted {
            return;
        }
        let cpu = usage.cpu.saturating_sub(one.seen.cpu);
        one.blocked = usage.busy == one.seen.busy && at > one.seen_at;
        (one.seen, one.seen_at) = (usage, at);
        if one.target {
            one.unsampled += cpu;
            let whole = self.rule.sample * u64::from(self.rule.batch.max(1));
            while one.unsampled >= whole {
                one.unsampled = one.unsampled.saturating_sub(whole);
                let worth = self.rule.share * whole.as_ns() as f64;
                one.delayed_ns += worth / f64::from(self.rule.parallel.max(1));
            }
            self.raise(place);
        }
        let one = &self.threads[place];
        if !one.blocked && !cpu.is_zero() {
            self.catch_up(place, cx);
        }
    }

    /// Who is ahead raises the counter for all, and those that wait for others are credited.
    fn raise(&mut self, place: usize) {
        let grown_ns = self.threads[place].delayed_ns - self.inserted_ns;
        if grown_ns <= 0.0 {
            return;
        }
        self.inserted_ns += grown_ns;
        if !self.rule.credits {
            return;
        }
        for (other, one) in self.threads.iter_mut().enumerate() {
            if other != place && one.blocked && !one.stopping {
                one.delayed_ns += grown_ns;
            }
        }
    }

    /// Who is behind stands for the difference.
    fn catch_up(&mut self, place: usize, cx: &mut CozCx<'_>) {
        let one = &mut self.threads[place];
        let behind = Span::from_ns((self.inserted_ns - one.delayed_ns).max(0.0) as u64);
        // Less than a microsecond is no pause. What is left when half a lease is over comes next.
        let span = behind.min(Span::from_ns(self.rule.lease.as_ns() / 2));
        if span < Span::from_us(1) {
            return;
        }
        one.stopping = true;
        one.stood_since = Instant::NEVER;
        self.epoch.0 += 1;
        one.epoch = self.epoch;
        self.pauses += u32::from(self.begun.is_some());
        let (set, epoch) = (Set(place as u16), one.epoch);
        cx.emit(Effect::Freeze { set, epoch, span, lease: self.rule.lease });
        cx.arm(Timer::Thaw(set), cx.now() + span);
    }

    fn thawed(&mut self, place: usize, epoch: Epoch, at: Instant) {
        let one = &mut self.threads[place];
        if !one.stopping || epoch != one.epoch {
            return;
        }
        one.stopping = false;
        // Who stood did not wait for anybody.
        (one.seen_at, one.blocked) = (at, false);
        // It can have gone on before anybody knew that it stood: then it did not stand.
        if one.stood_since != Instant::NEVER {
            one.delayed_ns += at.since(one.stood_since).as_ns() as f64;
        }
    }

    fn window(&mut self, cx: &mut CozCx<'_>) {
        let now = cx.now();
        let Some((since, before_ns)) = self.begun else {
            self.begun = Some((now, self.inserted_ns));
            cx.arm(Timer::Window, now + self.rule.length);
            return;
        };
        cx.emit(Effect::Conclude(Effective {
            completions: self.completions,
            elapsed: now.since(since),
            inserted: Span::from_ns((self.inserted_ns - before_ns) as u64),
            pauses: self.pauses,
        }));
        (self.completions, self.pauses) = (0, 0);
        self.begun = Some((now, self.inserted_ns));
        cx.arm(Timer::Window, now + self.rule.length);
    }

    fn abort(&mut self, cx: &mut CozCx<'_>) {
        self.aborted = true;
        for (place, one) in self.threads.iter().enumerate().filter(|(_, one)| one.stopping) {
            let set = Set(place as u16);
            cx.disarm(Timer::Thaw(set));
            cx.emit(Effect::Thaw { set, epoch: one.epoch });
        }
    }
}

impl Machine for Coz {
    type Input = Input<()>;
    type Effect = Effect<(), Effective>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        2 * self.threads.len() + 2
    }

    fn start(&mut self, cx: &mut CozCx<'_>) {
        for one in &self.threads {
            cx.emit(Effect::Watch { group: one.group[0], every: self.rule.tick });
        }
        cx.arm(Timer::Window, cx.now() + self.rule.settle);
    }

    fn handle(&mut self, input: Input<()>, cx: &mut CozCx<'_>) {
        match input {
            Input::Used { group, at, usage } => {
                if let Some(place) = self.place(group) {
                    self.used(place, at, usage, cx);
                }
            }
            Input::Frozen { group, epoch, at } => {
                let place = self.place(group);
                if let Some(one) = place.map(|place| &mut self.threads[place])
                    && epoch == one.epoch
                {
                    one.stood_since = at;
                }
            }
            Input::Thawed { group, epoch, at } => {
                if let Some(place) = self.place(group) {
                    self.thawed(place, epoch, at);
                }
            }
            Input::Completed { requests } if self.begun.is_some() => {
                self.completions += u64::from(requests);
            }
            Input::Gone { group } => {
                if let Some(place) = self.place(group) {
                    self.threads[place].stopping = true;
                }
            }
            Input::Abort => self.abort(cx),
            _ => {}
        }
    }

    fn expire(&mut self, timer: Timer, cx: &mut CozCx<'_>) {
        match timer {
            Timer::Thaw(set) => {
                if let Some(one) = self.threads.get(usize::from(set.0)) {
                    cx.emit(Effect::Thaw { set, epoch: one.epoch });
                }
            }
            Timer::Window => self.window(cx),
            Timer::Tick | Timer::Lease => {}
        }
    }

    fn check(&self) {
        for one in &self.threads {
            assert!(one.delayed_ns.is_finite(), "a counter is no number");
        }
        assert!(self.inserted_ns.is_finite() && self.inserted_ns >= 0.0);
    }
}

impl Controller for Coz {
    type Message = ();
    type Finding = Effective;

    fn members(&self, set: Set) -> &[Group] {
        self.threads.get(usize::from(set.0)).map_or(&[], |one| &one.group)
    }
}
