//! What would making each service faster buy? All of them measured in turn, without a change to
//! any.
//!
//! A service is the target of windows in the order baseline, slowed, slowed, baseline, so that
//! drift cancels. The gain is the throughput in virtual time of the slowed windows over that of the
//! baselines; its interval comes from the rounds. Delivered mode needs neither a core of the
//! target's own nor the number of its servers ([slowpoke 0]).

use crate::clients::{Clients, Sample};
use crate::freezer::Freezer;
use crate::guard::Guard;
use crate::stage::Stage;
use crate::usage::Meter;
use crate::world::{Member, Places, Run, Snapshot, World, WorldError};
use cavy_core::family::probe::Group;
use cavy_core::{Instant, Span};
use cavy_lab::statistics::Interval;
use cavy_whatif::governor::Doubts;
use cavy_whatif::{Change, Config, Governor, Limits, Reading, Target, Windows};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Windows of one target in one round: baseline, slowed, slowed, baseline.
const PATTERN: [bool; 4] = [false, true, true, false];
/// A share of processor time taken by the hypervisor above which a round is in doubt.
const STEAL_MAX: f64 = 0.05;
/// A share of processor time that went to other programs above which a row is in doubt: while
/// services stand they get the cores, and keep them for some milliseconds after.
const OTHERS_MAX: f64 = 0.1;
/// Busy cores above which they count as what bounds throughput.
const SATURATED: f64 = 0.85;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// By how much each target is made faster, as a share of its CPU time, above 0 and below 1.
    pub faster: f64,
    /// Rounds over all targets, at least 2 for an interval.
    pub rounds: u32,
    /// Length of a window.
    pub window: Span,
    /// Time before a window of another manner.
    pub settle: Span,
    /// The shortest pause; `None` for 2 ms, or longer where groups have many threads.
    pub pause_min: Option<Span>,
}

/// What one service would buy.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The service.
    pub service: String,
    /// Gain of throughput, percent, with its 95 % interval.
    pub gain_percent: Option<Estimate>,
    /// Throughput of the changed system, requests a second.
    pub predicted_per_s: Option<Estimate>,
    /// What the utilisation law says of the gain, percent.
    pub law_percent: f64,
    /// CPU time that it takes for a request of a client, microseconds.
    pub cpu_us_per_request: f64,
    /// Share of wall time for which all others stood in slowed windows.
    pub paused_ratio: f64,
    /// Mean length of a pause, milliseconds.
    pub pause_ms: f64,
    /// 99th percentile of latency as predicted, milliseconds, with at least 100 answers beyond it.
    pub predicted_p99_ms: Option<f64>,
    /// Rounds that went into the interval.
    pub rounds: u32,
    /// Reasons to doubt the answer.
    pub doubts: Vec<String>,
}

/// A value with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The best single value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<Interval> for Estimate {
    fn from(interval: Interval) -> Self {
        Estimate { value: interval.estimate, low: interval.low, high: interval.high }
    }
}

impl Estimate {
    fn map(self, to: impl Fn(f64) -> f64) -> Self {
        Estimate { value: to(self.value), low: to(self.low), high: to(self.high) }
    }
}

/// All services, the one that buys most first.
#[derive(Clone, Debug, Serialize)]
pub struct Ranking {
    /// By how much each was made faster, percent of its CPU time.
    pub faster_percent: f64,
    /// Throughput of the unchanged system, requests a second.
    pub baseline_per_s: Option<Estimate>,
    /// 99th percentile of latency of the unchanged system, milliseconds.
    pub baseline_p99_ms: Option<f64>,
    /// Share of all cores that was busy in baselines with the services and the clients.
    pub busy_ratio: f64,
    /// The services.
    pub rows: Vec<Row>,
    /// Requests that failed, in all windows.
    pub failed: u64,
    /// What the first failed request said.
    pub complaint: Option<String>,
    /// Threads of the group with most of them.
    pub threads_max: usize,
    /// The shortest pause that was used, milliseconds.
    pub pause_min_ms: f64,
    /// Longest time for which a group stood beyond its lease, milliseconds.
    pub overdue_ms: f64,
    /// It was interrupted.
    pub interrupted: bool,
}

/// What one service would buy, measured alone.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The service.
    #[serde(flatten)]
    pub row: Row,
    /// By how much it was made faster, percent of its CPU time.
    pub faster_percent: f64,
    /// Throughput of the unchanged system, requests a second.
    pub baseline_per_s: Option<Estimate>,
    /// CPU microseconds for a request of every service, in the order in which they were given.
    #[serde(skip)]
    pub cpu_us_per_request: Vec<f64>,
    /// Share of all cores that was busy in baselines with the services and the clients.
    pub busy_ratio: f64,
    /// Requests that failed meanwhile.
    pub failed: u64,
    /// Longest time for which a group stood beyond its lease, milliseconds.
    pub overdue_ms: f64,
    /// It was interrupted.
    pub interrupted: bool,
}

/// One target in one round.
struct Round {
    readings: Vec<Reading>,
    ledger: Vec<Snapshot>,
    samples: Vec<Sample>,
    epoch: Instant,
    own_cpu: Span,
    steal: f64,
    /// Busy time of all cores, whoever it was.
    all_cpu: Span,
}

/// The services on the stage and the clients that drive them.
#[derive(Debug)]
pub struct Bench {
    names: Vec<String>,
    places: Places,
    clients: Clients,
}

impl Bench {
    /// Opens all groups of `stage`.
    ///
    /// # Errors
    /// A sentence, when CPU time cannot be counted or a group cannot be stopped.
    pub fn new(stage: &Stage, clients: Clients) -> Result<Bench, String> {
        let mut members = Vec::new();
        for place in stage.places() {
            let freezer = Freezer::open(&place.dir, stage.mechanism())
                .map_err(|error| format!("service {} cannot be stopped: {error}", place.name))?;
            let meter = Meter::open(&place.dir).map_err(|error| {
                format!(
                    "CPU time of service {} cannot be counted: {error}; performance events of \
                     cgroups are needed (root, or kernel.perf_event_paranoid at most 0)",
                    place.name
                )
            })?;
            members.push(Member::Processes { freezer, meter });
        }
        members.push(Member::Clients(clients.gate()));
        let names = stage.places().iter().map(|place| place.name.clone()).collect();
        Ok(Bench { names, places: Places::new(members), clients })
    }

    /// The shortest pause that groups of so many threads allow ([slowpoke 7.2]): stopping 64
    /// threads takes 0.2 ms, 256 take 1 to 5 ms.
    fn pause_min(&self) -> Span {
        match self.places.threads_max() {
            0..=48 => Span::from_ms(2),
            49..=160 => Span::from_ms(5),
            _ => Span::from_ms(20),
        }
    }

    /// Measures all services in turn. `progress` hears of each window that begins: the number of
    /// rounds done, of all rounds, and the service.
    ///
    /// # Errors
    /// When groups or the guard fail; everything goes on then.
    pub fn rank(
        &mut self,
        options: &Options,
        guard: &mut Guard,
        stop: &AtomicBool,
        mut progress: impl FnMut(u32, u32, &str),
    ) -> Result<Ranking, WorldError> {
        let pause_min = options.pause_min.unwrap_or_else(|| self.pause_min());
        let threads_max = self.places.threads_max();
        let services = self.names.len();
        let total = options.rounds * services as u32;
        let mut rounds: Vec<Vec<Round>> = (0..services).map(|_| Vec::new()).collect();
        let (mut overdue, mut interrupted) = (Span::ZERO, false);
        'all: for round in 0..options.rounds {
            for turn in 0..services {
                // The other way round every second time, so that no service is always the first.
                let target = if round % 2 == 0 { turn } else { services - 1 - turn };
                progress(round * services as u32 + turn as u32, total, &self.names[target]);
                let (one, run) = self.round(target, options, pause_min, guard, stop)?;
                overdue = overdue.max(run.overdue);
                if run.stopped {
                    interrupted = true;
                    break 'all;
                }
                rounds[target].push(one);
            }
        }
        let (failed, complaint) = self.clients.failed();
        let all: Vec<&Round> = rounds.iter().flatten().collect();
        let cores = crate::usage::cores().map_or(1, |cores| cores.len());
        let cost = Cost::of(&all, services, cores);
        let mut rows: Vec<Row> = (0..services)
            .map(|target| row(&self.names[target], target, &rounds[target], &cost, options))
            .collect();
        let gain = |row: &Row| row.gain_percent.map_or(f64::NEG_INFINITY, |gain| gain.value);
        rows.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
        let baselines: Vec<f64> = all.iter().filter_map(|round| mean_rate(round, false)).collect();
        Ok(Ranking {
            faster_percent: options.faster * 100.0,
            baseline_per_s: Interval::of_mean(&baselines).map(Estimate::from),
            baseline_p99_ms: p99_ms(&all, false),
            busy_ratio: cost.busy,
            rows,
            failed,
            complaint,
            threads_max,
            pause_min_ms: pause_min.as_us() / 1e3,
            overdue_ms: overdue.as_us() / 1e3,
            interrupted,
        })
    }

    /// Measures one service alone: what making it faster by `options.faster` would buy.
    ///
    /// # Errors
    /// When groups or the guard fail; everything goes on then.
    ///
    /// # Panics
    /// When there is no such service.
    pub fn predict(
        &mut self,
        service: usize,
        options: &Options,
        guard: &mut Guard,
        stop: &AtomicBool,
    ) -> Result<Prediction, WorldError> {
        let pause_min = options.pause_min.unwrap_or_else(|| self.pause_min());
        let (failed_before, _) = self.clients.failed();
        let (mut rounds, mut overdue, mut interrupted) = (Vec::new(), Span::ZERO, false);
        for _ in 0..options.rounds {
            let (one, run) = self.round(service, options, pause_min, guard, stop)?;
            overdue = overdue.max(run.overdue);
            if run.stopped {
                interrupted = true;
                break;
            }
            rounds.push(one);
        }
        let all: Vec<&Round> = rounds.iter().collect();
        let cores = crate::usage::cores().map_or(1, |cores| cores.len());
        let cost = Cost::of(&all, self.names.len(), cores);
        let baselines: Vec<f64> = all.iter().filter_map(|round| mean_rate(round, false)).collect();
        Ok(Prediction {
            row: row(&self.names[service], service, &rounds, &cost, options),
            faster_percent: options.faster * 100.0,
            baseline_per_s: Interval::of_mean(&baselines).map(Estimate::from),
            cpu_us_per_request: cost.us.clone(),
            busy_ratio: cost.busy,
            failed: self.clients.failed().0 - failed_before,
            overdue_ms: overdue.as_us() / 1e3,
            interrupted,
        })
    }

    /// Throughput of what runs now, with nothing stopped, requests a second. It waits `settle`
    /// before it counts.
    pub fn throughput_per_s(&self, settle: Span, window: Span) -> f64 {
        let sleep = |span: Span| std::thread::sleep(std::time::Duration::from_nanos(span.as_ns()));
        sleep(settle);
        let gate = self.clients.gate();
        gate.take_completed();
        let begun = crate::now();
        sleep(window);
        let completed = gate.take_completed();
        f64::from(completed) * 1e6 / crate::now().since(begun).as_us().max(1.0)
    }

    /// Requests that failed until now, and what the first of them said.
    pub fn failed(&self) -> (u64, Option<String>) {
        self.clients.failed()
    }

    fn round(
        &mut self,
        target: usize,
        options: &Options,
        pause_min: Span,
        guard: &mut Guard,
        stop: &AtomicBool,
    ) -> Result<(Round, Run<Reading>), WorldError> {
        let all = 0..=self.names.len();
        let rest = all.filter(|group| *group != target).map(|group| Group(group as u32));
        let change = Change::Delivered { share: options.faster, parallel: 1 };
        let limits = Limits {
            pause_min,
            pause_max: (pause_min * 4).max(Limits::default().pause_max),
            ..Limits::default()
        };
        let config = Config {
            targets: vec![Target { groups: vec![Group(target as u32)], change }],
            rest: rest.collect(),
            limits: Limits { lease: limits.lease.max(limits.pause_max * 2), ..limits },
            windows: Windows {
                settle: options.settle,
                length: options.window,
                pattern: PATTERN.to_vec(),
            },
            hosts: 0,
        };
        let governor = Governor::new(config).expect("values are in range by construction");
        let world = World::new(governor, &mut self.places, Some(guard));
        drop(self.clients.take_samples());
        let (steal, own) = (Steal::now(), own_cpu());
        let epoch = crate::now();
        let mut run = world.run(PATTERN.len(), stop)?;
        let round = Round {
            readings: run.findings.clone(),
            ledger: std::mem::take(&mut run.ledger),
            samples: self.clients.take_samples(),
            epoch,
            own_cpu: own_cpu().saturating_sub(own),
            steal: Steal::now().share_since(&steal),
            all_cpu: Steal::now().busy_since(&steal),
        };
        Ok((round, run))
    }
}

/// Throughput of the windows of one manner, in requests a second of virtual time.
fn mean_rate(round: &Round, slowed: bool) -> Option<f64> {
    let rates: Vec<f64> = round
        .readings
        .iter()
        .filter(|reading| reading.slowed == slowed)
        .map(Reading::predicted_per_s)
        .collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// The 99th percentile in virtual time of what was answered in windows of one manner.
fn p99_ms(rounds: &[&Round], slowed: bool) -> Option<f64> {
    let mut latencies: Vec<u64> = Vec::new();
    for round in rounds {
        let windows = round.readings.iter().filter(|reading| reading.slowed == slowed);
        for window in windows {
            let (from, to) = (
                round.epoch + window.from.since(Instant::ZERO),
                round.epoch + window.to.since(Instant::ZERO),
            );
            let within = |sample: &&Sample| sample.at >= from && sample.at < to;
            let found = round.samples.iter().filter(within).map(|sample| sample.latency.as_ns());
            latencies.extend(found);
        }
    }
    let count = latencies.len() as u64;
    if !cavy_lab::statistics::quantile::supported(count, 0.99) {
        return None;
    }
    latencies.sort_unstable();
    let rank = cavy_lab::statistics::quantile::rank(count, 0.99);
    Some(latencies[rank as usize - 1] as f64 / 1e6)
}

/// What requests cost in baselines.
struct Cost {
    /// CPU microseconds for a request, by service.
    us: Vec<f64>,
    /// The same for the clients, which are this program.
    own_us: f64,
    /// Share of all cores that was busy with all of it.
    busy: f64,
}

impl Cost {
    fn of(rounds: &[&Round], services: usize, cores: usize) -> Cost {
        let mut cpu_us = vec![0.0; services];
        let (mut completions, mut elapsed_us) = (0_u64, 0.0);
        let (mut own_us, mut wall_us) = (0.0, 0.0);
        for round in rounds {
            for window in round.readings.iter().filter(|reading| !reading.slowed) {
                completions += window.completions;
                elapsed_us += window.elapsed().as_us();
                for (service, sum) in cpu_us.iter_mut().enumerate() {
                    let at = |when| cpu_at(&round.ledger, service, when);
                    *sum += at(window.to) - at(window.from);
                }
            }
            own_us += round.own_cpu.as_us();
            wall_us += round.ledger.last().map_or(0.0, |last| last.at.since(Instant::ZERO).as_us());
        }
        let requests = (completions as f64).max(1.0);
        // This program is counted by ticks, so its share is taken over whole rounds.
        let own = own_us / wall_us.max(1.0) * elapsed_us;
        let busy = (cpu_us.iter().sum::<f64>() + own) / (elapsed_us.max(1.0) * cores as f64);
        let us = cpu_us.iter().map(|sum| sum / requests).collect();
        Cost { us, own_us: own / requests, busy }
    }

    /// The utilisation law where all share all cores: when these are what bounds throughput, it
    /// grows as the work of a request shrinks; when they are not, it stays.
    fn law_percent(&self, target: usize, faster: f64) -> f64 {
        let all = self.us.iter().sum::<f64>() + self.own_us;
        if self.busy < SATURATED || all <= 0.0 {
            return 0.0;
        }
        (all / (all - faster * self.us[target]) - 1.0) * 100.0
    }
}

/// CPU microseconds of a service at a time, between the two snapshots about it.
fn cpu_at(ledger: &[Snapshot], service: usize, when: Instant) -> f64 {
    let us = |snapshot: &Snapshot| snapshot.cpu[service].as_us();
    let after = ledger.partition_point(|snapshot| snapshot.at < when);
    match (after.checked_sub(1).and_then(|before| ledger.get(before)), ledger.get(after)) {
        (Some(before), Some(after)) => {
            let whole = after.at.since(before.at).as_us().max(1e-3);
            let part = when.since(before.at).as_us() / whole;
            us(before) + (us(after) - us(before)) * part
        }
        (Some(one), None) | (None, Some(one)) => us(one),
        (None, None) => 0.0,
    }
}

fn row(name: &str, target: usize, rounds: &[Round], cost: &Cost, options: &Options) -> Row {
    let mut ratios = Vec::new();
    let mut predicted = Vec::new();
    let (mut pauses, mut paused, mut elapsed) = (0_u64, Span::ZERO, Span::ZERO);
    let mut bits = 0;
    let mut stolen = 0;
    for round in rounds {
        if let (Some(slowed), Some(baseline)) = (mean_rate(round, true), mean_rate(round, false))
            && slowed > 0.0
            && baseline > 0.0
        {
            ratios.push((slowed / baseline).ln());
            predicted.push(slowed);
        }
        for window in &round.readings {
            bits |= window.doubts;
            if window.slowed {
                pauses += u64::from(window.pauses);
                paused += window.paused;
                elapsed += window.elapsed();
            }
        }
        stolen += u32::from(round.steal > STEAL_MAX);
    }
    let mut doubts = words(bits);
    if stolen > 0 {
        doubts.push(format!(
            "in {stolen} of {} rounds the hypervisor took more than {} % of processor time",
            rounds.len(),
            STEAL_MAX * 100.0
        ));
    }
    let others = others(rounds);
    if others > OTHERS_MAX {
        doubts.push(format!(
            "other programs took {:.0} % of processor time; they get in where services stand, and \
             what has little to do while others stand then looks worse than it is: close them",
            others * 100.0
        ));
    }
    if pauses == 0 && !rounds.is_empty() {
        doubts.push("it used too little CPU time for a single pause: is it called?".to_string());
    }
    let all: Vec<&Round> = rounds.iter().collect();
    Row {
        service: name.to_string(),
        gain_percent: Interval::of_mean(&ratios)
            .map(|interval| Estimate::from(interval).map(|ln| (ln.exp() - 1.0) * 100.0)),
        predicted_per_s: Interval::of_mean(&predicted).map(Estimate::from),
        law_percent: cost.law_percent(target, options.faster),
        cpu_us_per_request: cost.us[target],
        paused_ratio: paused.as_us() / elapsed.as_us().max(1.0),
        pause_ms: paused.as_us() / 1e3 / (pauses.max(1) as f64),
        predicted_p99_ms: p99_ms(&all, true),
        rounds: ratios.len() as u32,
        doubts,
    }
}

/// Share of all cores that went to programs which are neither services nor clients.
fn others(rounds: &[Round]) -> f64 {
    let cores = crate::usage::cores().map_or(1, |cores| cores.len()) as f64;
    let (mut others_us, mut wall_us) = (0.0, 0.0);
    for round in rounds {
        let Some(last) = round.ledger.last() else { continue };
        let services: f64 = last.cpu.iter().map(|cpu| cpu.as_us()).sum();
        others_us += (round.all_cpu.as_us() - services - round.own_cpu.as_us()).max(0.0);
        wall_us += last.at.since(Instant::ZERO).as_us();
    }
    others_us / (wall_us * cores).max(1.0)
}

/// What the bits of a reading's doubts mean for a reader.
fn words(bits: u8) -> Vec<String> {
    let all = [
        (Doubts::DUTY, "pauses could not keep up with what the change saves: ask for less"),
        (
            Doubts::IDLE,
            "it idled in more than half of the pauses: more clients are needed, or it is hardly \
             called",
        ),
        (Doubts::LONG, "pauses took a fifth longer than asked for: the machine is too busy"),
        (Doubts::UNCONFIRMED, "a group did not confirm that it stood, and its lease ended"),
        (Doubts::GONE, "a group ended while it was measured"),
        (Doubts::NOTHING, "a window had no answers at all"),
    ];
    all.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, text)| (*text).to_string()).collect()
}

/// CPU time of this program, by ticks.
fn own_cpu() -> Span {
    let ticks = procfs::process::Process::myself().and_then(|own| own.stat());
    let ticks = ticks.map_or(0, |stat| stat.utime + stat.stime);
    Span::from_ms(ticks * 1_000 / procfs::ticks_per_second().max(1))
}

/// What the hypervisor took, in ticks.
struct Steal {
    stolen: u64,
    all: u64,
    busy: u64,
}

impl Steal {
    fn now() -> Steal {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = text.lines().next().unwrap_or("");
        let ticks: Vec<u64> =
            first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        let busy = at(0) + at(1) + at(2) + at(5) + at(6);
        Steal { stolen: at(7), all: ticks.iter().take(8).sum(), busy }
    }

    fn busy_since(&self, before: &Steal) -> Span {
        let ticks = self.busy.saturating_sub(before.busy);
        Span::from_ms(ticks * 1_000 / procfs::ticks_per_second().max(1))
    }

    fn share_since(&self, before: &Steal) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_between_snapshots_is_interpolated() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let one = |ms, us| Snapshot { at: at(ms), cpu: vec![Span::from_us(us)] };
        let ledger = [one(0, 0), one(20, 1_000), one(40, 5_000)];
        for (ms, us) in [(0, 0.0), (10, 500.0), (20, 1_000.0), (30, 3_000.0), (90, 5_000.0)] {
            let found = cpu_at(&ledger, 0, at(ms));
            assert!((found - us).abs() < 1e-6, "{ms} ms: {found}");
        }
    }

    #[test]
    fn the_law_speaks_of_saturated_cores_only() {
        let cost = |busy| Cost { us: vec![600.0, 300.0], own_us: 100.0, busy };
        assert!((cost(0.99).law_percent(0, 0.5) - (1000.0 / 700.0 - 1.0) * 100.0).abs() < 1e-9);
        assert_eq!(cost(0.4).law_percent(0, 0.5), 0.0);
    }

    #[test]
    fn every_doubt_has_words() {
        for bit in 0..6 {
            assert_eq!(words(1 << bit).len(), 1, "bit {bit}");
        }
    }
}
