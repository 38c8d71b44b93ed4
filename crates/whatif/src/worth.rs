//! What a change is worth: the windows of one round, and the arithmetic on them.
//!
//! In virtual time a pause costs nothing in theory. In practice every thread of a group wakes up to
//! go on, and cores may idle until those that have work run again. If a pause costs `d` of virtual
//! time, however long it is, a request takes
//!
//! ```text
//! v = w + n d      v: virtual time, w: time in the changed system, n: pauses, each for a request
//! ```
//!
//! `w` is wanted and `d` is not known, but it has bounds and can be measured:
//!
//! - *At least 0.* Then the gain is that of `v`, which is too low.
//! - *At most what it costs in controls*, in which the target stands as well. There one group more
//!   wakes up, and nobody computes until threads run again; in slowed windows the target computes
//!   on meanwhile. To take the cost of controls for that of slowed windows predicts a throughput
//!   that is too high by the factor `w / (w - n (d_control - d))`: the more, the more pauses cost.
//! - *By two lengths.* With shorter pauses there are more of them: `d = (v' - v) / (n' - n)`. Where
//!   these deliver a smaller share, `v` and `n` are first brought to that share, on the line from
//!   the baseline, which is exact while one resource bounds throughput.
//! - *By CPU time*, where all share cores that are busy. What threads compute to stop and to go on,
//!   and because caches are cold, is known exactly: it is the CPU time of a request beyond that of
//!   baselines. Virtual time shrinks in proportion when it is taken out. What is left of `d` is
//!   that cores idle after a pause; without that, the gain would be that of the utilisation law.
//!   Or pauses give work to cores that would idle; then it would be that of the law, too.

use crate::governor::{Busy, Change, Config, Limits, Reading, Target, Windows};
use alloc::vec::Vec;
use cavy_core::Span;
use cavy_core::family::probe::Group;

/// How much shorter pauses are in windows that show what a pause costs.
pub const SHORTER: u64 = 3;
/// With fewer times as many pauses, shorter ones show nothing.
const MORE_PAUSES_MIN: f64 = 1.15;
/// Share of cores in use above which they are what bounds throughput.
pub const SATURATED: f64 = 0.85;

/// The windows of one round about one target, or about several that are changed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// What is changed.
    pub targets: Vec<Target>,
    /// All other groups, clients included.
    pub rest: Vec<Group>,
    /// A group that is always busy: its CPU time is time on the wall.
    pub clock: Group,
    /// How pauses may be.
    pub limits: Limits,
    /// Time before a window of another manner.
    pub settle: Span,
    /// Length of a window.
    pub length: Span,
    /// The shortest pause that can be held.
    pub pause_least: Span,
}

impl Trial {
    /// Baseline, slowed, slowed, baseline, so that drift cancels.
    pub fn slowed(&self) -> Config {
        self.config(
            self.targets.clone(),
            self.rest.clone(),
            self.limits,
            &[false, true, true, false],
        )
    }

    /// Slowed windows with about [`SHORTER`] times as many pauses as in `slowed`; `None` when there
    /// were none, or where they cannot be shorter. A pause in which the target runs out of work
    /// delivers as much when it is a little shorter, so it is measured by what the target got.
    pub fn shorter(&self, slowed: &[Reading]) -> Option<Config> {
        let sums = Sums::of(slowed, true);
        let whole = if sums.got.is_zero() { sums.paused } else { sums.paused.min(sums.got) };
        let length = Span::from_ns(whole.as_ns() / (sums.pauses.max(1) * SHORTER));
        let limits = Limits { pause_min: length, pause_max: length, ..self.limits };
        let windows =
            || self.config(self.targets.clone(), self.rest.clone(), limits, &[true, true]);
        (length >= self.pause_least).then(windows)
    }

    /// Controls: as many pauses of that length as in `slowed`, with the target standing as well.
    /// `None` when there were no pauses.
    pub fn control(&self, slowed: &[Reading]) -> Option<Config> {
        let Sums { pauses, paused, elapsed, .. } = Sums::of(slowed, true);
        if pauses == 0 {
            return None;
        }
        let length = Span::from_ns(paused.as_ns() / pauses).max(self.pause_least);
        let share = paused.as_ns() as f64 / elapsed.as_ns().max(1) as f64;
        let change = Change::Clock { share, parallel: 1, busy: Busy::Cpu };
        let targets = [Target { groups: [self.clock].to_vec(), change }].to_vec();
        let limits = Limits {
            pause_min: length,
            pause_max: self.limits.pause_max.max(length),
            ..self.limits
        };
        let groups = self.targets.iter().flat_map(|one| &one.groups);
        let rest = self.rest.iter().chain(groups).copied().collect();
        Some(self.config(targets, rest, limits, &[true, true]))
    }

    fn config(
        &self,
        targets: Vec<Target>,
        rest: Vec<Group>,
        limits: Limits,
        pattern: &[bool],
    ) -> Config {
        Config {
            targets,
            rest,
            limits: Limits { lease: limits.lease.max(limits.pause_max * 2), ..limits },
            windows: Windows {
                settle: self.settle,
                length: self.length,
                pattern: pattern.to_vec(),
            },
            hosts: 0,
        }
    }
}

/// A window with its requests as they were counted: some worlds know what part of a request that
/// was under way belongs to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The window.
    pub reading: Reading,
    /// Requests that were completed in it.
    pub requests: f64,
    /// CPU time of all services and clients in it, where that is known.
    pub cpu: Option<Span>,
}

impl From<Reading> for Counted {
    fn from(reading: Reading) -> Self {
        Counted { reading, requests: reading.completions as f64, cpu: None }
    }
}

impl Counted {
    /// Throughput in virtual time, in requests a second.
    pub fn predicted_per_s(&self) -> f64 {
        self.requests * 1e9 / self.reading.elapsed_virtual().as_ns().max(1) as f64
    }
}

/// Sums over windows of one manner.
#[derive(Default)]
struct Sums {
    pauses: u64,
    paused: Span,
    elapsed: Span,
    /// CPU time of the targets, and what they got of that in pauses.
    cpu: Span,
    got: Span,
}

impl Sums {
    fn of(readings: &[Reading], slowed: bool) -> Sums {
        let each = readings.iter().filter(|one| one.slowed == slowed);
        each.fold(Sums::default(), |sums, one| Sums {
            pauses: sums.pauses + u64::from(one.pauses),
            paused: sums.paused + one.paused,
            elapsed: sums.elapsed + one.elapsed(),
            cpu: sums.cpu + one.used(),
            got: sums.got + one.got(),
        })
    }
}

/// What a request took in windows of one manner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Virtual time, in nanoseconds.
    pub virtual_ns: f64,
    /// Pauses.
    pub pauses: f64,
    /// Share of its CPU time that the target got in pauses.
    pub delivered: f64,
    /// CPU time of the target.
    pub target_ns: f64,
    /// CPU time of all that was used while nobody stood, where it is known.
    pub outside_ns: Option<f64>,
}

impl Level {
    /// Of those of `windows` that were slowed, or those that were not; `None` when nothing was
    /// completed.
    pub fn of(windows: &[Counted], slowed: bool) -> Option<Level> {
        let readings: Vec<Reading> = windows.iter().map(|one| one.reading).collect();
        let Sums { pauses, paused, elapsed, cpu, got } = Sums::of(&readings, slowed);
        let counted = windows.iter().filter(|one| one.reading.slowed == slowed);
        let requests: f64 = counted.map(|one| one.requests).sum();
        let virtual_ns = elapsed.saturating_sub(paused).as_ns();
        let each = |sum: u64| sum as f64 / requests;
        let delivered = got.as_ns() as f64 / cpu.as_ns().max(1) as f64;
        let all = windows.iter().filter(|one| one.reading.slowed == slowed);
        let all = all.map(|one| Some(one.cpu?.as_ns())).sum::<Option<u64>>();
        (requests > 0.0 && virtual_ns > 0).then(|| Level {
            virtual_ns: each(virtual_ns),
            pauses: each(pauses),
            delivered,
            target_ns: each(cpu.as_ns()),
            outside_ns: all.map(|all| each(all.saturating_sub(got.as_ns()))),
        })
    }

    /// Share of `cores` in use while nobody stood.
    fn busy(&self, cores: f64) -> Option<f64> {
        Some(self.outside_ns? / (self.virtual_ns * cores))
    }
}

/// What the windows of one round came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Nobody stood.
    pub baseline: Level,
    /// All but the target stood.
    pub slowed: Level,
    /// The same, with shorter pauses.
    pub shorter: Option<Level>,
    /// All stood.
    pub control: Option<Level>,
    /// Cores that all share, where it is known.
    pub cores: Option<f64>,
}

impl Round {
    /// Of the windows of [`Trial::slowed`], [`Trial::shorter`] and [`Trial::control`]; those of the
    /// last two may be missing.
    pub fn of(slowed: &[Counted], shorter: &[Counted], control: &[Counted]) -> Option<Round> {
        Some(Round {
            baseline: Level::of(slowed, false)?,
            slowed: Level::of(slowed, true)?,
            shorter: Level::of(shorter, true),
            control: Level::of(control, true),
            cores: None,
        })
    }

    /// The same where all services share so many cores.
    #[must_use]
    pub fn on(self, cores: f64) -> Round {
        Round { cores: Some(cores), ..self }
    }

    /// The logarithm of the gain in throughput if a pause costs so much virtual time, in
    /// nanoseconds.
    fn gain_ln(&self, cost_ns: f64) -> f64 {
        // A cost that is measured in noise may be more than all there is.
        let least = self.slowed.virtual_ns / 100.0;
        let changed_ns = (self.slowed.virtual_ns - self.slowed.pauses * cost_ns).max(least);
        libm::log(self.baseline.virtual_ns / changed_ns)
    }

    /// The logarithm of the gain if pauses cost nothing: the least that it can be.
    pub fn least_ln(&self) -> f64 {
        self.gain_ln(0.0)
    }

    /// The same if pauses cost what they do in controls: the most that it can be.
    pub fn most_ln(&self) -> Option<f64> {
        Some(self.gain_ln(self.control_cost_ns()?))
    }

    /// The same with the cost that two lengths of pauses show.
    pub fn measured_ln(&self) -> Option<f64> {
        let shorter = self.shorter?;
        // What so much of the share would have delivered, if each part of it buys as much.
        let part = if self.slowed.delivered > 0.0 {
            (shorter.delivered / self.slowed.delivered).min(1.0)
        } else {
            1.0
        };
        let of = |slowed: f64, baseline: f64| part * slowed + (1.0 - part) * baseline;
        let pauses = of(self.slowed.pauses, 0.0);
        let virtual_ns = of(self.slowed.virtual_ns, self.baseline.virtual_ns);
        (shorter.pauses >= pauses * MORE_PAUSES_MIN)
            .then(|| self.gain_ln((shorter.virtual_ns - virtual_ns) / (shorter.pauses - pauses)))
    }

    /// The logarithm of the gain without the CPU time that pauses cost, and of that if cores were
    /// as busy as in baselines besides, which is what the utilisation law says of these windows.
    /// `None` where cores are not what bounds throughput, before the change or after it.
    pub fn by_cpu_ln(&self) -> Option<[f64; 2]> {
        let cores = self.cores?;
        let busy = [self.baseline.busy(cores)?, self.slowed.busy(cores)?];
        if busy.iter().any(|busy| *busy < SATURATED) {
            return None;
        }
        let (before_ns, slowed_ns) = (self.baseline.outside_ns?, self.slowed.outside_ns?);
        let changed_ns = before_ns - self.slowed.delivered * self.baseline.target_ns;
        let law = libm::log(before_ns / changed_ns);
        (changed_ns > 0.0).then(|| [self.least_ln() + libm::log(slowed_ns / changed_ns), law])
    }

    /// Virtual time that a pause costs when all stand, in nanoseconds.
    fn control_cost_ns(&self) -> Option<f64> {
        let control = self.control?;
        let cost_ns = (control.virtual_ns - self.baseline.virtual_ns) / control.pauses;
        (control.pauses > 0.0).then_some(cost_ns.max(0.0))
    }

    /// The logarithm of throughput without pauses over that of the controls.
    pub fn control_ln(&self) -> Option<f64> {
        Some(libm::log(self.control?.virtual_ns / self.baseline.virtual_ns))
    }
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The best single value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The gain over all rounds, from intervals of what [`Round::least_ln`], [`Round::by_cpu_ln`],
/// [`Round::measured_ln`] and [`Round::most_ln`] say in each.
///
/// Where cores are what bounds throughput, it lies between the gain without the CPU time that
/// pauses cost and what the utilisation law says, and the interval holds both: nobody knows whether
/// cores idle more, or less, because of pauses or because of the change. Elsewhere it is as
/// measured by two lengths of pauses, but never beyond pauses that cost nothing and pauses that
/// cost as much as when all stand; without a measurement it may be anything between them. That
/// interval always reaches up to the upper bound: shorter pauses end more often while the target
/// still computes, which hides a part of their cost, and nobody knows how large a part.
pub fn settle(
    least: Bounds,
    by_cpu: Option<[Bounds; 2]>,
    measured: Option<Bounds>,
    most: Option<Bounds>,
) -> Bounds {
    if let Some([by_cpu, law]) = by_cpu {
        return Bounds {
            value: (by_cpu.value + law.value) / 2.0,
            low: by_cpu.low.min(law.low),
            high: by_cpu.high.max(law.high),
        };
    }
    let Some(most) = most else { return measured.map_or(least, |one| above(one, least)) };
    let top = most.value.max(least.value);
    let Some(measured) = measured else {
        let value = (least.value + top) / 2.0;
        return Bounds { value, low: least.low, high: most.high.max(top) };
    };
    let value = measured.value.clamp(least.value, top);
    Bounds {
        value,
        low: measured.low.max(least.low).min(value),
        high: measured.high.min(most.high).max(top),
    }
}

/// `one`, but not below `least`.
fn above(one: Bounds, least: Bounds) -> Bounds {
    let value = one.value.max(least.value);
    Bounds { value, low: one.low.max(least.low).min(value), high: one.high.max(value) }
}
