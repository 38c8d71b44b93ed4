//! The Governor: one controller that stops everything but the target, and reads the answer off a
//! virtual clock ([slowpoke 2.7]).
//!
//! Each target has a debt: time for which all others should still stand, so that the target is as
//! much faster relative to them as the change would make it. Debts are paid in pauses that are
//! equal for all. With several targets the longest debt rules, and the others stand for the rest of
//! it; a target that becomes slower has a debt below nothing, and stands while all others go on
//! ([slowpoke 2.1]). Virtual time is time on the wall less the time for which all but the targets
//! stood. Throughput of the changed system is completions in virtual time.
//!
//! **Delivered mode** ([slowpoke 0]) needs neither the number of servers nor cores of the target's
//! own: others stand until the target has got the share of *all* its CPU time while they stood. A
//! pause in which it idled is no harm, since nothing at all happened in it.

mod config;
mod look;
mod window;

pub use config::{Busy, Change, Config, ConfigError, Limits, TARGETS, Target, Windows};
pub use window::{Doubts, Reading};

use crate::daemon::{Order, SETS};
use crate::standing::Standing;
use alloc::vec::Vec;
use cavy_core::family::Node;
use cavy_core::family::probe::{
    Controller, Effect, Endpoint, Epoch, Group, Input, Set, Timer, Usage,
};
use cavy_core::{Cx, Instant, Machine, Span};
use look::Look;
use window::Window;

/// All groups that are no target.
pub const REST: Set = Set(0);

/// The controller of all groups.
#[derive(Clone, Debug)]
pub struct Governor {
    config: Config,
    /// Set and place in it, by group; [`NOWHERE`] for groups that are none of ours.
    places: Vec<(u16, u16)>,
    sets: Vec<Standing>,
    ledgers: Vec<Ledger>,
    epoch: Epoch,
    pausing: bool,
    /// No pause begins before, so that all do not stand for more than their share of the time.
    not_before: Instant,
    pause_min: Span,
    /// Pauses since the length was last judged, what they asked for and what was stood.
    judged: (u32, Span, Span),
    /// For how long each set is to stand in this pause.
    asked: [Span; SETS],
    /// Hosts that have not reported in this pause, and the least that a set stood on any of them.
    silent: u32,
    reported: [Option<Span>; SETS],
    heard: Vec<Epoch>,
    window: Window,
    look: Look,
    aborted: bool,
}

const NOWHERE: (u16, u16) = (u16::MAX, u16::MAX);

/// What is known of one target.
#[derive(Clone, Debug)]
struct Ledger {
    /// Time that others should still stand, in nanoseconds; in delivered mode CPU time that the
    /// target should still get while they do.
    debt_ns: f64,
    /// What each of its groups had used, and when.
    seen: Vec<(Instant, Usage)>,
    /// All others stand since, and stood until.
    inside_since: Instant,
    inside_until: Instant,
    /// CPU time that it got in this pause.
    inside: Span,
    /// CPU time for each unit of time, while others stand.
    rate: f64,
    /// When it was last known to have worked.
    worked_at: Instant,
    visits_inside: u64,
}

type GovernorCx<'a> = Cx<'a, Effect<Order, Reading>, Timer>;

impl Governor {
    /// A Governor.
    ///
    /// # Errors
    /// When a value of `config` is out of range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let mut sets = [config.rest.clone()].to_vec();
        sets.extend(config.targets.iter().map(|one| one.groups.clone()));
        let most = sets.iter().flatten().map(|group| group.0).max().map_or(0, |most| most + 1);
        let mut places = Vec::new();
        places.resize(most as usize, NOWHERE);
        for (set, members) in sets.iter().enumerate() {
            for (place, group) in members.iter().enumerate() {
                places[group.0 as usize] = (set as u16, place as u16);
            }
        }
        let ledger = |one: &Target| Ledger {
            debt_ns: 0.0,
            seen: one.groups.iter().map(|_| (Instant::ZERO, Usage::default())).collect(),
            inside_since: Instant::NEVER,
            inside_until: Instant::ZERO,
            inside: Span::ZERO,
            rate: match one.change {
                Change::Delivered { parallel, .. } => f64::from(parallel),
                _ => 1.0,
            },
            worked_at: Instant::ZERO,
            visits_inside: 0,
        };
        let mut heard = Vec::new();
        heard.resize(config.hosts as usize + 1, Epoch(0));
        Ok(Governor {
            ledgers: config.targets.iter().map(ledger).collect(),
            pause_min: config.limits.pause_min,
            window: Window::new(&config.windows, config.limits.pause_max),
            look: Look::new(&config),
            config,
            places,
            sets: sets.into_iter().map(Standing::new).collect(),
            epoch: Epoch(0),
            pausing: false,
            not_before: Instant::ZERO,
            judged: (0, Span::ZERO, Span::ZERO),
            asked: [Span::ZERO; SETS],
            silent: 0,
            reported: [None; SETS],
            heard,
            aborted: false,
        })
    }

    /// Do some groups stand, or are they about to?
    pub fn pausing(&self) -> bool {
        self.pausing
    }

    /// Debt of target `target` in nanoseconds, below zero when others stood for too long.
    pub fn debt_ns(&self, target: usize) -> f64 {
        self.ledgers[target].debt_ns
    }

    fn place(&self, group: Group) -> Option<(usize, usize)> {
        let place = *self.places.get(group.0 as usize)?;
        (place != NOWHERE).then_some((usize::from(place.0), usize::from(place.1)))
    }

    fn reads_usage(&self, target: usize) -> bool {
        !matches!(self.config.targets[target].change, Change::Count { .. })
    }

    /// Asks what the targets have used until now.
    fn read(&self, cx: &mut GovernorCx<'_>) {
        for (target, one) in self.config.targets.iter().enumerate() {
            if self.reads_usage(target) {
                one.groups.iter().for_each(|&group| cx.emit(Effect::Read { group }));
            }
        }
    }

    fn visited(&mut self, group: Group, endpoint: Endpoint, cx: &mut GovernorCx<'_>) {
        let Some((set, _)) = self.place(group) else { return };
        let Some(target) = set.checked_sub(1) else { return };
        if self.pausing {
            self.ledgers[target].visits_inside += 1;
        }
        self.window.visited(target);
        if !self.window.pauses() {
            return;
        }
        if let Change::Count { saved_ns, parallel } = &self.config.targets[target].change {
            let last = saved_ns.len() - 1;
            let saved_ns = saved_ns[usize::from(endpoint.0).min(last)];
            self.ledgers[target].debt_ns += saved_ns as f64 / f64::from(*parallel);
            self.consider(cx);
        }
    }

    fn used(&mut self, group: Group, at: Instant, usage: Usage, cx: &mut GovernorCx<'_>) {
        let Some((set, place)) = self.place(group) else { return };
        let Some(target) = set.checked_sub(1) else { return };
        let one = &self.config.targets[target];
        let ledger = &mut self.ledgers[target];
        let (seen_at, seen) = core::mem::replace(&mut ledger.seen[place], (at, usage));
        let cpu = usage.cpu.saturating_sub(seen.cpu);
        let inside = seen_at >= ledger.inside_since && at <= ledger.inside_until;
        if inside {
            ledger.inside += cpu;
        }
        if !cpu.is_zero() {
            let worked_at = self.look.worked_until(seen_at, at, cpu);
            ledger.worked_at = ledger.worked_at.max(worked_at);
        }
        self.window.computed(target, cpu, inside);
        if !self.pausing {
            self.look.saw(at.since(seen_at), cpu);
        }
        if !self.window.pauses() {
            self.look_again(cx);
            return;
        }
        let replicas = one.groups.len() as f64;
        ledger.debt_ns += match one.change {
            Change::Count { .. } => 0.0,
            Change::Delivered { share, .. } => {
                let got = if inside { cpu.as_ns() as f64 } else { 0.0 };
                share * cpu.as_ns() as f64 - got
            }
            Change::Clock { share, parallel, busy } => {
                let servers = f64::from(parallel);
                let busy_ns = match busy {
                    Busy::Cpu => cpu.as_ns() as f64 / servers,
                    Busy::Wall => usage.busy.saturating_sub(seen.busy).as_ns() as f64 / replicas,
                    Busy::Runnable => {
                        let ready = usage.runnable.saturating_sub(seen.runnable).as_ns() as f64;
                        let passed = at.since(seen_at).as_ns() as f64;
                        (ready * replicas / servers).min(passed) / replicas
                    }
                };
                share * busy_ns
            }
        };
        self.cut_short(cx);
        self.consider(cx);
        self.look_again(cx);
    }

    /// Asks for the next reading when a pause could be due, if nobody stands.
    fn look_again(&mut self, cx: &mut GovernorCx<'_>) {
        if self.pausing || !self.look.is_ahead() {
            return;
        }
        let (ledger, one) = (&self.ledgers[0], &self.config.targets[0]);
        let due_ns = self.pause_min.as_ns() as f64;
        let (left_ns, growth) = match one.change {
            Change::Delivered { share, .. } => (due_ns * ledger.rate - ledger.debt_ns, share),
            Change::Clock { share, parallel, .. } => {
                (due_ns - ledger.debt_ns, share / f64::from(parallel))
            }
            Change::Count { .. } => return,
        };
        let every = self.look.next(left_ns, growth);
        self.watch(every, cx);
    }

    /// Has the single group of the single target read so often from now on.
    fn watch(&mut self, every: Span, cx: &mut GovernorCx<'_>) {
        if self.look.changes_to(every) {
            cx.emit(Effect::Watch { group: self.config.targets[0].groups[0], every });
        }
    }

    /// In delivered mode, a pause in which no target has work any more is a waste of time: it ends.
    fn cut_short(&mut self, cx: &mut GovernorCx<'_>) {
        if !self.pausing || self.config.hosts > 0 || self.asked[0].is_zero() {
            return;
        }
        let (now, tick) = (cx.now(), self.config.limits.tick);
        let idles = |(ledger, one): (&Ledger, &Target)| {
            let since = ledger.worked_at.max(ledger.inside_since);
            matches!(one.change, Change::Delivered { .. })
                && ledger.inside_since <= now
                && ledger.inside_until == Instant::NEVER
                && now.since(since) >= tick
        };
        if !self.ledgers.iter().zip(&self.config.targets).all(idles) {
            return;
        }
        self.stand_ends(cx);
        for index in 0..self.sets.len() {
            if !self.asked[index].is_zero() {
                let set = Set(index as u16);
                cx.disarm(Timer::Thaw(set));
                cx.emit(Effect::Thaw { set, epoch: self.epoch });
            }
        }
    }

    /// For how long set after set should stand now, in nanoseconds.
    fn wanted(&self, now: Instant) -> [f64; SETS] {
        let mut wanted = [0.0; SETS];
        let awake = Span::from_ns(self.config.limits.tick.as_ns() / 2 * 3);
        let debts = self.ledgers.iter().zip(&self.config.targets).map(|(ledger, one)| {
            // Below zero, others stood for longer than they should have: later debts pay for it.
            // Only what is to be slower stands for it.
            match &one.change {
                // One without work would get nothing now.
                Change::Delivered { .. } if now.since(ledger.worked_at) > awake => 0.0,
                Change::Delivered { .. } => (ledger.debt_ns / ledger.rate).max(0.0),
                change if change.slows() => ledger.debt_ns,
                _ => ledger.debt_ns.max(0.0),
            }
        });
        let top = debts.clone().fold(0.0, f64::max);
        wanted[0] = top;
        for (place, debt) in debts.enumerate() {
            wanted[place + 1] = top - debt;
        }
        wanted
    }

    /// Begins a pause if debts are long enough.
    fn consider(&mut self, cx: &mut GovernorCx<'_>) {
        if self.pausing || self.aborted {
            return;
        }
        let mut wanted = self.wanted(cx.now());
        let most = wanted.iter().copied().fold(0.0, f64::max);
        if most < self.pause_min.as_ns() as f64 {
            return;
        }
        let longest = self.config.limits.pause_max.as_ns() as f64;
        if cx.now() < self.not_before {
            if most > 4.0 * longest {
                self.window.doubt(Doubts::DUTY);
            }
            return;
        }
        if most > longest {
            wanted.iter_mut().for_each(|span| *span *= longest / most);
        }
        self.begin(wanted, cx);
    }

    fn begin(&mut self, wanted: [f64; SETS], cx: &mut GovernorCx<'_>) {
        let now = cx.now();
        let of_hosts = self.config.hosts > 0;
        for (index, one) in self.sets.iter().enumerate() {
            // Less than a microsecond is no pause.
            let span = Span::from_ns(wanted[index] as u64);
            let nobody = span < Span::from_us(1) || one.live() == 0;
            self.asked[index] = if nobody { Span::ZERO } else { span };
        }
        if self.asked.iter().all(|span| span.is_zero()) {
            // Nobody is left to stand.
            self.window.doubt(Doubts::GONE);
            self.forgive();
            return;
        }
        self.epoch.0 += 1;
        self.pausing = true;
        if self.look.is_ahead() {
            self.watch(self.config.limits.tick, cx);
        }
        for ledger in &mut self.ledgers {
            ledger.inside_since = Instant::NEVER;
            ledger.inside_until = Instant::NEVER;
            ledger.inside = Span::ZERO;
            ledger.visits_inside = 0;
        }
        let (epoch, lease) = (self.epoch, self.config.limits.lease);
        for (index, one) in self.sets.iter_mut().enumerate() {
            one.begin(now, if of_hosts { Span::ZERO } else { self.asked[index] });
        }
        if of_hosts {
            self.silent = self.config.hosts;
            self.reported = [None; SETS];
            cx.emit(Effect::Cast { message: Order::Freeze { epoch, spans: self.asked, lease } });
            self.stand_begins(cx);
        } else {
            for (index, &span) in self.asked.iter().enumerate() {
                if !span.is_zero() {
                    let set = Set(index as u16);
                    cx.emit(Effect::Freeze { set, epoch, span, lease });
                    cx.arm(Timer::Thaw(set), now + span);
                }
            }
        }
        cx.arm(Timer::Lease, now + lease + Span::from_ns(lease.as_ns() / 4));
    }

    /// All but the targets stand from now on.
    fn stand_begins(&mut self, cx: &mut GovernorCx<'_>) {
        let now = cx.now();
        let unset = |ledger: &&mut Ledger| ledger.inside_since == Instant::NEVER;
        self.ledgers.iter_mut().filter(unset).for_each(|ledger| ledger.inside_since = now);
        self.read(cx);
    }

    /// Some of all but the targets go on from now on.
    fn stand_ends(&mut self, cx: &mut GovernorCx<'_>) {
        let now = cx.now();
        self.ledgers.iter_mut().for_each(|ledger| ledger.inside_until = now);
        self.read(cx);
    }

    fn frozen(&mut self, group: Group, epoch: Epoch, at: Instant, cx: &mut GovernorCx<'_>) {
        if epoch != self.epoch || !self.pausing {
            return;
        }
        let Some((set, member)) = self.place(group) else { return };
        self.sets[set].frozen(member, at);
        if set == 0 && self.sets[0].all_stopped() {
            self.stand_begins(cx);
        }
    }

    fn thawed(&mut self, group: Group, epoch: Epoch, at: Instant, cx: &mut GovernorCx<'_>) {
        if epoch != self.epoch || !self.pausing {
            return;
        }
        let Some((set, member)) = self.place(group) else { return };
        self.sets[set].thawed(member, at);
        self.finish(cx);
    }

    /// Ends the pause if all go on again.
    fn finish(&mut self, cx: &mut GovernorCx<'_>) {
        if self.pausing && self.silent == 0 && self.sets.iter().all(Standing::over) {
            self.end(cx);
        }
    }

    fn end(&mut self, cx: &mut GovernorCx<'_>) {
        let now = cx.now();
        self.pausing = false;
        cx.disarm(Timer::Lease);
        let stood = |set: usize| -> Span {
            match self.config.hosts {
                0 => self.sets[set].together(),
                _ => self.reported[set].unwrap_or_default(),
            }
        };
        let paused = stood(0);
        for (target, ledger) in self.ledgers.iter_mut().enumerate() {
            let own = stood(target + 1);
            match self.config.targets[target].change {
                Change::Delivered { .. } => {
                    if !paused.is_zero() {
                        let got = ledger.inside.as_ns() as f64 / paused.as_ns() as f64;
                        ledger.rate = (ledger.rate / 2.0 + got / 2.0).max(0.05);
                    }
                }
                _ => ledger.debt_ns -= paused.as_ns() as f64 - own.as_ns() as f64,
            }
        }
        let idle = |(target, ledger): (usize, &Ledger)| match self.config.targets[target].change {
            Change::Count { .. } => ledger.visits_inside == 0,
            _ => ledger.inside.is_zero(),
        };
        let idle = !paused.is_zero() && self.ledgers.iter().enumerate().any(idle);
        let asked = self.asked[0];
        let mean = if self.config.hosts > 0 { paused } else { self.sets[0].mean() };
        let any = if self.config.hosts > 0 { paused } else { self.sets[0].any() };
        self.window.paused(asked, paused, mean, any, idle);
        let duty = self.config.limits.duty_max;
        let rest_ns = paused.as_ns() as f64 * (1.0 / duty - 1.0);
        self.not_before = now + Span::from_ns(rest_ns as u64);
        if !asked.is_zero() {
            self.judge(asked, mean);
        }
        if !self.window.pauses() {
            self.forgive();
        }
        self.turn(cx);
        self.consider(cx);
        self.look_again(cx);
    }

    /// Pauses that are longer than asked by a fifth are too short for this machine: the next ones
    /// are twice as long.
    fn judge(&mut self, asked: Span, stood: Span) {
        self.judged.0 += 1;
        self.judged.1 += asked;
        self.judged.2 += stood;
        if self.judged.0 < 16 {
            return;
        }
        let (_, asked, stood) = core::mem::take(&mut self.judged);
        if stood.as_ns() > asked.as_ns() / 5 * 6 {
            let longest = self.config.limits.pause_max;
            if self.pause_min == longest {
                self.window.doubt(Doubts::LONG);
            }
            self.pause_min = (self.pause_min * 2).min(longest);
        }
    }

    /// Forgets all debts: the next window has no pauses.
    fn forgive(&mut self) {
        self.ledgers.iter_mut().for_each(|ledger| ledger.debt_ns = 0.0);
    }

    /// Opens or closes a window, if it is time and nobody stands.
    fn turn(&mut self, cx: &mut GovernorCx<'_>) {
        if self.pausing {
            return;
        }
        let paused = self.window.pauses();
        if let Some(reading) = self.window.turn(cx.now()) {
            cx.emit(Effect::Conclude(reading));
        }
        if paused != self.window.pauses() {
            self.forgive();
        }
        if let Some(at) = self.window.next_look() {
            cx.arm(Timer::Window, at);
        }
    }

    fn reported(&mut self, from: Node, epoch: Epoch, together: [Span; SETS], here: [bool; SETS]) {
        let known = self.heard.get(from.0 as usize).copied();
        if epoch != self.epoch || !self.pausing || known.is_none_or(|last| last >= epoch) {
            return;
        }
        self.heard[from.0 as usize] = epoch;
        self.silent = self.silent.saturating_sub(1);
        for set in 0..SETS {
            if here[set] {
                let least = self.reported[set].map_or(together[set], |one| one.min(together[set]));
                self.reported[set] = Some(least);
            }
        }
    }

    fn abort(&mut self, cx: &mut GovernorCx<'_>) {
        self.aborted = true;
        if self.config.hosts > 0 {
            cx.emit(Effect::Cast { message: Order::Release });
        }
        if !self.pausing {
            return;
        }
        for (index, one) in self.sets.iter().enumerate() {
            if one.live() > 0 && self.config.hosts == 0 && !self.asked[index].is_zero() {
                let set = Set(index as u16);
                cx.disarm(Timer::Thaw(set));
                cx.emit(Effect::Thaw { set, epoch: self.epoch });
            }
        }
    }

    /// Confirmations did not come: whoever stands is let go by its lease, and the window says that
    /// it is in doubt.
    fn give_up(&mut self, cx: &mut GovernorCx<'_>) {
        if !self.pausing {
            return;
        }
        let now = cx.now();
        let mut missing = self.silent > 0;
        self.silent = 0;
        for index in 0..self.sets.len() {
            missing |= self.sets[index].give_up(now);
            let set = Set(index as u16);
            if self.config.hosts == 0 && !self.asked[index].is_zero() {
                cx.emit(Effect::Thaw { set, epoch: self.epoch });
            }
        }
        if missing {
            self.window.doubt(Doubts::UNCONFIRMED);
        }
        self.end(cx);
    }
}

impl Machine for Governor {
    type Input = Input<Order>;
    type Effect = Effect<Order, Reading>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        let targets: usize = self.config.targets.iter().map(|one| one.groups.len()).sum();
        4 * SETS + 3 * targets + 8
    }

    fn start(&mut self, cx: &mut GovernorCx<'_>) {
        for (target, one) in self.config.targets.iter().enumerate() {
            if self.reads_usage(target) {
                let every = self.config.limits.tick;
                one.groups.iter().for_each(|&group| cx.emit(Effect::Watch { group, every }));
            }
        }
        self.window.start(cx.now());
        self.turn(cx);
    }

    fn handle(&mut self, input: Input<Order>, cx: &mut GovernorCx<'_>) {
        match input {
            Input::Visited { group, endpoint } => self.visited(group, endpoint, cx),
            Input::Used { group, at, usage } => self.used(group, at, usage, cx),
            Input::Frozen { group, epoch, at } => self.frozen(group, epoch, at, cx),
            Input::Thawed { group, epoch, at } => self.thawed(group, epoch, at, cx),
            Input::Completed { requests } => self.window.completed(requests),
            Input::Gone { group } => {
                let Some((set, member)) = self.place(group) else { return };
                self.sets[set].gone(member);
                self.window.doubt(Doubts::GONE);
                if set > 0 && self.sets[set].live() == 0 {
                    self.abort(cx);
                }
                self.finish(cx);
            }
            Input::Rx { from, message: Order::Stood { epoch, together, here } } => {
                self.reported(from, epoch, together, here);
                if self.pausing && self.silent == 0 {
                    self.stand_ends(cx);
                }
                self.finish(cx);
            }
            Input::Rx { .. } | Input::Met { .. } => {}
            Input::Abort => self.abort(cx),
        }
    }

    fn expire(&mut self, timer: Timer, cx: &mut GovernorCx<'_>) {
        match timer {
            Timer::Thaw(set) => {
                if set == REST {
                    self.stand_ends(cx);
                }
                cx.emit(Effect::Thaw { set, epoch: self.epoch });
            }
            Timer::Lease => self.give_up(cx),
            Timer::Window => {
                self.window.due(cx.now());
                self.turn(cx);
            }
            Timer::Tick => {}
        }
    }

    fn check(&self) {
        assert!(self.not_before >= Instant::ZERO);
        assert!(self.sets.len() == self.ledgers.len() + 1);
        for (one, ledger) in self.config.targets.iter().zip(&self.ledgers) {
            assert!(ledger.debt_ns.is_finite(), "a debt is no number");
            if let Change::Delivered { .. } = one.change {
                assert!(ledger.rate >= 0.05);
            }
        }
        assert!(self.pausing || self.sets.iter().all(Standing::over), "a pause without a pause");
    }
}

impl Controller for Governor {
    type Message = Order;
    type Finding = Reading;

    fn members(&self, set: Set) -> &[Group] {
        self.sets.get(usize::from(set.0)).map_or(&[], |one| &one.members)
    }
}
