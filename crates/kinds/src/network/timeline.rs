//! Slowdown over time, and what receivers made of what they had seen: how a transport takes a
//! workload that changes.

use super::NetExperiment;
use super::result::NetResult;
use super::sections::{GROUPS, group_of, waits};
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_homa::Homa;
use cavy_lab::net::{Done, Ideal, Observer, PS_PER_NS, Ps, SLOWDOWN_UNIT, Setup, ps};
use cavy_lab::statistics::Ratios;
use cavy_lab::statistics::histogram::Histogram;
use cavy_lab::statistics::quantile::{BEYOND_MIN_IN_BIN, beyond};
use cavy_report::model::{Panel, Point, Scale, Series};
use cavy_study::draw::axis;
use serde::{Deserialize, Serialize};

/// Most steps; what comes later belongs to the last.
const STEPS_MAX: u64 = 10_000;

/// A step of time. Messages belong to the step in which they were submitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeBin {
    /// Its end.
    pub until_ms: f64,
    /// Messages submitted in it that arrived.
    pub messages: u64,
    /// Their median slowdown.
    pub p50_slowdown: Option<f64>,
    /// 99th percentile of it, where ten messages lie beyond.
    pub p99_slowdown: Option<f64>,
    /// Levels for unscheduled bytes that receivers ask for at its end, the mean over hosts; Homa
    /// only.
    pub unscheduled_levels: Option<f64>,
    /// Times that a receiver changed its cut-offs in it.
    pub changes: u64,
}

/// Watches messages of a run.
#[derive(Clone, Debug)]
pub struct Timeline {
    step: Option<Ps>,
    ideal: Ideal,
    slowdown: Vec<Histogram>,
    /// The same for each group of hosts that wait, where sections are wanted.
    groups: Vec<Vec<Ratios>>,
}

/// Watches the cut-offs of Homa's receivers.
#[derive(Clone, Debug)]
pub struct Levels {
    step: Option<Ps>,
    /// For each host, levels for unscheduled bytes and the version of its cut-offs.
    hosts: Vec<(u8, u16)>,
    /// Of each group of hosts, for each step that is over and the current one, the sum of levels
    /// and the changes.
    groups: Vec<Vec<(u64, u64)>>,
}

fn place(at: Ps, step: Ps) -> usize {
    (at / step).min(STEPS_MAX - 1) as usize
}

impl Timeline {
    /// For a run of `setup`, in steps of `step`; `None` watches nothing. With `sectioned` groups of
    /// hosts are told apart.
    pub fn new(setup: &Setup, step: Option<Span>, sectioned: bool) -> Timeline {
        let ideal = Ideal::new(&setup.network);
        let groups = if sectioned { vec![Vec::new(); GROUPS] } else { Vec::new() };
        Timeline { step: step.map(ps), ideal, slowdown: Vec::new(), groups }
    }
}

impl<M: ?Sized, H> Observer<M, H> for Timeline {
    #[inline]
    fn finished(&mut self, done: &Done) {
        let Some(step) = self.step else { return };
        let place = place(done.submitted_at, step);
        if self.slowdown.len() <= place {
            self.slowdown.resize_with(place + 1, Histogram::new);
        }
        let mut least = self.ideal.time(done.from, done.to, done.length_bytes);
        if done.answer_bytes > 0 {
            least += self.ideal.time(done.to, done.from, done.answer_bytes);
        }
        let slowdown = (done.at - done.submitted_at) as f64 / least.max(1) as f64;
        self.slowdown[place].record((slowdown / SLOWDOWN_UNIT) as u64);
        if let Some(group) = self.groups.get_mut(group_of(waits(done))) {
            if group.len() <= place {
                group.resize_with(place + 1, Ratios::default);
            }
            group[place].record(slowdown);
        }
    }
}

impl Levels {
    /// For a run of `setup`, in steps of `step`; `None` watches nothing.
    pub fn new(setup: &Setup, step: Option<Span>) -> Levels {
        let hosts = setup.network.topology.hosts() as usize;
        let groups = vec![Vec::new(); GROUPS];
        Levels { step: step.map(ps), hosts: vec![(0, 0); hosts], groups }
    }

    /// Mean levels and changes at a step, over hosts of these groups; `None` where no machine has
    /// any.
    fn at(&self, place: usize, groups: &[usize]) -> Option<(f64, u64)> {
        let hosts = (0..self.hosts.len()).map(|host| group_of(Node(host as u32)));
        let hosts = hosts.filter(|group| groups.contains(group)).count().max(1);
        let known = groups.iter().filter_map(|&group| {
            let steps = self.groups.get(group)?;
            let last = || steps.last().map(|last| (last.0, 0));
            steps.get(place).copied().or_else(last)
        });
        let add = |sum: Option<(u64, u64)>, one: (u64, u64)| {
            let (levels, changes) = sum.unwrap_or_default();
            Some((levels + one.0, changes + one.1))
        };
        let (levels, changes) = known.fold(None, add)?;
        Some((levels as f64 / hosts as f64, changes))
    }
}

impl<H> Observer<Homa, H> for Levels {
    #[inline]
    fn stepped(&mut self, host: Node, machine: &Homa, at: Ps) {
        let Some(step) = self.step else { return };
        let (cutoffs, version) = machine.own_cutoffs();
        let state = &mut self.hosts[host.0 as usize];
        let steps = &mut self.groups[group_of(host)];
        let place = place(at, step);
        if state.1 == version && steps.len() > place {
            return;
        }
        let sum_before = steps.last().map_or(0, |last| last.0);
        steps.resize(steps.len().max(place + 1), (sum_before, 0));
        if state.1 != version {
            let levels = cutoffs.unscheduled_levels();
            let current = &mut steps[place];
            current.0 = current.0 + u64::from(levels) - u64::from(state.0);
            current.1 += u64::from(state.1 != 0);
            *state = (levels, version);
        }
    }
}

/// All replications together.
pub fn summarized(runs: &[(&Timeline, &Levels)]) -> Vec<TimeBin> {
    let Some(step) = runs.first().and_then(|(timeline, _)| timeline.step) else {
        return Vec::new();
    };
    let count = runs.iter().map(|(timeline, _)| timeline.slowdown.len()).max().unwrap_or(0);
    let bin = |place: usize| {
        let mut all = Histogram::new();
        runs.iter().filter_map(|(t, _)| t.slowdown.get(place)).for_each(|one| all.merge(one));
        let quantile = |p: f64| all.quantile(p).map(|value| value as f64 * SLOWDOWN_UNIT);
        let groups: [usize; GROUPS] = core::array::from_fn(|group| group);
        let of_runs: Vec<(f64, u64)> =
            runs.iter().filter_map(|(_, levels)| levels.at(place, &groups)).collect();
        let mean = of_runs.iter().map(|one| one.0).sum::<f64>() / of_runs.len() as f64;
        TimeBin {
            until_ms: (place + 1) as f64 * (step / PS_PER_NS) as f64 / 1e6,
            messages: all.count(),
            p50_slowdown: quantile(0.5),
            p99_slowdown: quantile(0.99).filter(|_| beyond(all.count(), 0.99) >= BEYOND_MIN_IN_BIN),
            unscheduled_levels: (!of_runs.is_empty()).then_some(mean),
            changes: of_runs.iter().map(|one| one.1).sum(),
        }
    };
    (0..count).map(bin).collect()
}

/// The `whole` as hosts of some groups saw it in one run: a tail is given where that of all is.
pub fn of_groups(
    whole: &[TimeBin],
    timeline: &Timeline,
    levels: &Levels,
    groups: &[usize],
) -> Vec<TimeBin> {
    let bin = |(place, of_all): (usize, &TimeBin)| {
        let mut all = Ratios::default();
        let counts = groups.iter().filter_map(|&group| timeline.groups.get(group)?.get(place));
        counts.for_each(|one| all.add(one));
        let known = |p: f64, whole: Option<f64>| whole.and_then(|_| all.quantile(p));
        let here = levels.at(place, groups);
        TimeBin {
            until_ms: of_all.until_ms,
            messages: all.total(),
            p50_slowdown: known(0.5, of_all.p50_slowdown),
            p99_slowdown: known(0.99, of_all.p99_slowdown),
            unscheduled_levels: here.map(|one| one.0),
            changes: here.map_or(0, |one| one.1),
        }
    };
    whole.iter().enumerate().map(bin).collect()
}

/// Draws some value of each transport of a variant over time; nothing without a timeline.
pub fn panel(
    e: &NetExperiment,
    variant: &str,
    (id, title, y): (&str, &str, &str),
    of: fn(&TimeBin) -> Option<f64>,
) -> Option<Panel> {
    let point = |bin: &TimeBin| Point {
        x: bin.until_ms,
        y: of(bin),
        low: None,
        high: None,
        samples: bin.messages,
        stable: true,
    };
    let series = |result: &NetResult| Series {
        label: result.label.clone(),
        points: result.timeline.iter().map(point).collect(),
    };
    let of_variant = e.results.iter().filter(|result| result.variant == variant);
    let all: Vec<Series> = of_variant.map(series).collect();
    let any = all.iter().flat_map(|one| &one.points).any(|point| point.y.is_some());
    any.then(|| Panel {
        id: id.to_string(),
        title: title.to_string(),
        x: axis("submitted at", "ms", Scale::Linear),
        y: axis(y, "", Scale::Linear),
        series: all,
        rules: Vec::new(),
    })
}

/// What a report says of time: the tail, and the levels that receivers ask for.
pub fn panels(e: &NetExperiment, variant: &str) -> Vec<Panel> {
    let p99 = ("time-p99", "99th percentile slowdown over time", "slowdown");
    let median = ("time-p50", "Median slowdown over time", "slowdown");
    let levels = ("time-levels", "Levels for unscheduled bytes", "levels, mean over hosts");
    [
        panel(e, variant, p99, |bin| bin.p99_slowdown),
        panel(e, variant, median, |bin| bin.p50_slowdown),
        panel(e, variant, levels, |bin| bin.unscheduled_levels),
    ]
    .into_iter()
    .flatten()
    .collect()
}
