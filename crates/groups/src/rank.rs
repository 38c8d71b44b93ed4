//! What would making each service faster buy? All of them measured in turn, without a change to
//! any.
//!
//! A service is the target of windows in the order baseline, slowed, slowed, baseline, so that
//! drift cancels; its interval comes from the rounds. Delivered mode needs neither a core of the
//! target's own nor the number of its servers ([slowpoke 0]).
//!
//! **What pauses cost.** To stop and continue costs time of its own: every thread of a group wakes
//! up to stand, and again to go on. Two kinds of windows follow the slowed ones and say how much
//! ([`cavy_whatif::worth`]). In *controls* there are as many pauses of that length in which the
//! target stands as well: what these cost is the most that pauses can cost, since nobody computes
//! meanwhile. *Shorter pauses*, and more of them, show what one costs while the target computes.

use crate::clients::Sample;
use crate::edge::{Edge, Read};
use crate::guard::Guard;
use crate::machine::{Moment, Weather};
use crate::pace::Pace;
use crate::record::Record;
use crate::rounds::{Cost, Gain, Round, cpu_at, latency_ms, mean_rate, row};
use crate::source::Source;
use crate::speed::{Evening, Rates, Speed};
use crate::stage::Stage;
use crate::usage::Meter;
use crate::world::{Hears, Member, Places, Run, World, WorldError};
use cavy_core::family::probe::Group;
use cavy_core::{Instant, Span};
use cavy_lab::statistics::Interval;
use cavy_live::record::Summary;
use cavy_whatif::worth::{Bounds, Counted, Trial};
use cavy_whatif::{Busy, Change, Config, Governor, Limits, Reading, Target};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::rounds::{Manner, Window};
pub use cavy_whatif::governor::TARGETS;

/// Windows of one target in one round.
pub const WINDOWS: u32 = 8;
/// The same without those that show what pauses cost.
pub const WINDOWS_PLAIN: u32 = 4;
/// The shortest pause that freezers hold to a tenth or so ([slowpoke 7.2]).
const PAUSE_LEAST: Span = Span::from_us(100);
/// While nobody stands usage is read at least so often, and more often only when a pause could be
/// due: a reading takes 40 us, and each millisecond that was 4 % of a core.
pub const LOOK_MAX: Span = Span::from_ms(12);
/// Nobody waits longer for answers before windows begin.
const WARM_UP_MAX: Span = Span::from_ms(30_000);
/// Rounds before it may be enough.
const ROUNDS_MIN: u32 = 3;

/// When others stand, and for how long.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Rule {
    /// Until the target has got the share of its CPU time while they stood.
    #[default]
    Delivered,
    /// For the share of the target's CPU time over its servers: where it has cores of its own.
    Clock {
        /// Servers of what bounds the target: its cores, or 1 for a lock.
        parallel: u32,
    },
    /// For so much with each visit, whatever the visit takes.
    Count {
        /// What a visit saves.
        saved: Span,
        /// Visits of the target for a request of a client.
        visits: f64,
        /// Servers of what bounds the target: its cores, or 1 for a lock.
        parallel: u32,
    },
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// By how much each target is made faster, as a share of its CPU time, above 0 and below 1.
    /// With [`Rule::Count`] it only sets what the utilisation law is asked.
    pub faster: f64,
    /// When others stand.
    pub rule: Rule,
    /// Rounds over all targets, at least 2 for an interval.
    pub rounds: u32,
    /// Fewer rounds, at least 3, when all intervals are no wider to either side, in percent.
    pub until_percent: Option<f64>,
    /// With windows that show what pauses cost.
    pub control: bool,
    /// How windows are laid.
    pub pace: Pace,
    /// The shortest pause; `None` for 2 ms, or longer where groups have many threads.
    pub pause_min: Option<Span>,
}

/// What one service would buy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The service.
    pub service: String,
    /// Gain of throughput, percent, with its 95 % interval.
    pub gain_percent: Option<Estimate>,
    /// The same if pauses cost nothing, and if they cost what they do when the target stands as
    /// well: it lies between these.
    pub gain_between_percent: Option<[f64; 2]>,
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
    /// Share of its CPU time that the target got while others stood, percent: what it was faster
    /// by in delivered mode.
    pub delivered_percent: f64,
    /// What so many pauses cost in throughput when the target stands as well, percent.
    pub pause_cost_percent: Option<Estimate>,
    /// Median latency as predicted, milliseconds.
    pub predicted_p50_ms: Option<f64>,
    /// 99th percentile of latency as predicted, milliseconds, with at least 100 answers beyond it.
    pub predicted_p99_ms: Option<f64>,
    /// Median latency on the wall in the same windows, pauses included, milliseconds: what clients
    /// saw while this was measured.
    #[serde(default)]
    pub wall_p50_ms: Option<f64>,
    /// The 99th percentile of the same.
    #[serde(default)]
    pub wall_p99_ms: Option<f64>,
    /// Rounds that went into the interval.
    pub rounds: u32,
    /// The machine, over all rounds.
    pub weather: Weather,
    /// Reasons to doubt the answer.
    pub doubts: Vec<String>,
}

/// A value with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
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

impl From<Bounds> for Estimate {
    fn from(bounds: Bounds) -> Self {
        Estimate { value: bounds.value, low: bounds.low, high: bounds.high }
    }
}

impl Estimate {
    pub(crate) fn map(self, to: impl Fn(f64) -> f64) -> Self {
        Estimate { value: to(self.value), low: to(self.low), high: to(self.high) }
    }
}

/// All services, the one that buys most first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ranking {
    /// By how much each was made faster, percent of its CPU time.
    pub faster_percent: f64,
    /// Throughput of the unchanged system, requests a second.
    pub baseline_per_s: Option<Estimate>,
    /// Requests arrived whatever became of those before: services are ranked by latency, and there
    /// is no gain in throughput.
    pub arriving_open: bool,
    /// Median latency of the unchanged system, milliseconds.
    pub baseline_p50_ms: Option<f64>,
    /// 99th percentile of latency of the unchanged system, milliseconds.
    pub baseline_p99_ms: Option<f64>,
    /// CPU microseconds that clients take for a request, by ticks.
    pub own_us_per_request: f64,
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
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// All windows, in the order of the rounds.
    pub windows: Vec<Window>,
    /// Requests that failed meanwhile.
    pub failed: u64,
    /// Longest time for which a group stood beyond its lease, milliseconds.
    pub overdue_ms: f64,
    /// It was interrupted.
    pub interrupted: bool,
}

/// Rounds of one service, as far as they are.
#[derive(Debug)]
pub struct Series {
    service: usize,
    options: Options,
    pause_min: Span,
    rounds: Vec<Round>,
    failed_before: u64,
    overdue: Span,
    interrupted: bool,
}

impl Series {
    /// Rounds until now.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// It was interrupted.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Throughput of the last round's baselines, requests a second.
    pub fn last_baseline_per_s(&self) -> Option<f64> {
        mean_rate(self.rounds.last()?, false)
    }

    /// The logarithm of what the last round says of throughput: changed over unchanged.
    pub fn last_gain_ln(&self) -> Option<f64> {
        Some(Round::gain_ln(&self.rounds.last()?.worth()?))
    }

    /// The same as if the machine had been as fast in all windows; `None` where nobody looked.
    pub fn last_evened_gain_ln(&self, evening: &Evening) -> Option<f64> {
        Some(Round::gain_ln(&self.rounds.last()?.worth_at(evening)?))
    }

    /// The gain over all rounds, percent, as if the machine had been as fast in all windows.
    pub fn evened_gain_percent(&self, evening: &Evening) -> Option<Estimate> {
        let all = self.rounds.iter().map(|round| round.worth_at(evening));
        let gain = Gain::of_all(&all.collect::<Option<Vec<_>>>()?)?;
        Some(Estimate::from(gain.settled).map(|ln| (ln.exp() - 1.0) * 100.0))
    }

    /// The machine in the last round.
    pub fn last_weather(&self) -> Weather {
        self.rounds.last().map_or_else(Weather::default, |round| round.weather)
    }

    /// Leaves out the last round.
    pub fn forget_last(&mut self) {
        self.rounds.pop();
    }
}

/// What was seen in a window with nothing stopped and nothing driven.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Observed {
    /// Answers, those at its ends by parts.
    pub answers: f64,
    /// Answers a second.
    pub per_s: f64,
    /// CPU microseconds for a request, by service.
    pub cpu_us_per_request: Vec<f64>,
    /// The same for the clients, by ticks.
    pub own_us_per_request: f64,
    /// The machine.
    pub weather: Weather,
    /// How fast it was, where somebody looked.
    pub rates: Option<Rates>,
}

impl Observed {
    /// CPU microseconds for a request, clients included.
    pub fn all_us_per_request(&self) -> f64 {
        self.cpu_us_per_request.iter().sum::<f64>() + self.own_us_per_request
    }
}

/// The services on the stage and the clients that drive them.
#[derive(Debug)]
pub struct Bench {
    names: Vec<String>,
    places: Places,
    source: Source,
    /// What sends requests, as recordings call it.
    sender: String,
    speed: Option<Speed>,
    record: Option<Record>,
}

impl Bench {
    /// Opens all groups of `stage`, of which the last is the generator when that is foreign.
    ///
    /// # Errors
    /// A sentence, when CPU time cannot be counted or a group cannot be stopped.
    pub fn new(stage: &Stage, source: impl Into<Source>) -> Result<Bench, String> {
        let source = source.into();
        let mut members = Vec::new();
        for place in stage.places() {
            let freezer = place
                .freezer(stage.mechanism())
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
        let mut names: Vec<String> =
            stage.places().iter().map(|place| place.name.clone()).collect();
        let mut sender = "clients".to_string();
        match &source {
            Source::Clients(clients) => members.push(Member::Clients(clients.gate())),
            Source::Driver(_) => sender = names.pop().unwrap_or(sender),
        }
        members.push(Member::Clock);
        let places = Places::new(members);
        Ok(Bench { names, places, source, sender, speed: None, record: None })
    }

    /// Looks how fast the machine is from now on, for 1 % of it. Threads that look are started by
    /// this one, and go before others where it does.
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn watch_speed(&mut self) -> std::io::Result<()> {
        self.speed = Some(Speed::start()?);
        Ok(())
    }

    /// Writes all that Governors are told from now on to `path`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn record(&mut self, path: &Path) -> std::io::Result<()> {
        let own = [self.sender.clone(), "clock".to_string()];
        let groups = self.names.iter().cloned().chain(own).collect();
        self.record = Some(Record::create(path, groups)?);
        Ok(())
    }

    /// Ends the recording, if there is one, and waits until its file is complete.
    ///
    /// # Errors
    /// Why it ended before the run did.
    pub fn recorded(&mut self) -> std::io::Result<Option<Summary>> {
        self.record.take().map(Record::finish).transpose()
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

    /// Measures the services `only`, by their places, in turn. `progress` hears of each window that
    /// begins: the number of rounds done, of all rounds, and the service.
    ///
    /// # Errors
    /// When groups or the guard fail; everything goes on then.
    ///
    /// # Panics
    /// When a place is none of a service.
    pub fn rank(
        &mut self,
        only: &[usize],
        options: &Options,
        guard: &mut Guard,
        stop: &AtomicBool,
        progress: impl FnMut(u32, u32, &str),
    ) -> Result<Ranking, WorldError> {
        let each: Vec<Vec<usize>> = only.iter().map(|place| vec![*place]).collect();
        self.rank_each(&each, options, guard, stop, progress)
    }

    /// The same, where each entry is a service or several that are changed together, at most
    /// [`TARGETS`].
    ///
    /// # Errors
    /// When groups or the guard fail; everything goes on then.
    ///
    /// # Panics
    /// When a place is none of a service, or an entry has none or too many.
    pub fn rank_each(
        &mut self,
        only: &[Vec<usize>],
        options: &Options,
        guard: &mut Guard,
        stop: &AtomicBool,
        mut progress: impl FnMut(u32, u32, &str),
    ) -> Result<Ranking, WorldError> {
        let pause_min = options.pause_min.unwrap_or_else(|| self.pause_min());
        let threads_max = self.places.threads_max();
        let services = only.len();
        let total = options.rounds * services as u32;
        let mut rounds: Vec<Vec<Round>> = (0..services).map(|_| Vec::new()).collect();
        let (mut overdue, mut interrupted) = (Span::ZERO, false);
        'all: for round in 0..options.rounds {
            for turn in 0..services {
                // The other way round every second time, so that no service is always the first.
                let place = if round % 2 == 0 { turn } else { services - 1 - turn };
                let targets = &only[place];
                progress(round * services as u32 + turn as u32, total, &self.name(targets));
                let (one, late, stopped) = self.round(targets, options, pause_min, guard, stop)?;
                overdue = overdue.max(late);
                if stopped {
                    interrupted = true;
                    break 'all;
                }
                rounds[place].push(one);
            }
            if rounds.iter().all(|rounds| enough(rounds, options)) {
                break;
            }
        }
        let (failed, complaint) = self.source.failed();
        let all: Vec<&Round> = rounds.iter().flatten().collect();
        let cores = crate::usage::cores().map_or(1, |cores| cores.len());
        let cost = Cost::of(&all, self.names.len(), cores);
        let open = self.source.is_open();
        let mut rows: Vec<Row> = only
            .iter()
            .zip(&rounds)
            .map(|(targets, rounds)| {
                row(&self.name(targets), targets, rounds, &cost, options, open)
            })
            .collect();
        let gain = |row: &Row| row.gain_percent.map_or(f64::NEG_INFINITY, |gain| gain.value);
        rows.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
        if open {
            let then = |row: &Row| row.predicted_p99_ms.or(row.predicted_p50_ms);
            let then = |row: &Row| then(row).unwrap_or(f64::INFINITY);
            rows.sort_by(|one, other| then(one).total_cmp(&then(other)));
        }
        let baselines: Vec<f64> = all.iter().filter_map(|round| mean_rate(round, false)).collect();
        Ok(Ranking {
            faster_percent: options.faster * 100.0,
            baseline_per_s: Interval::of_mean(&baselines).map(Estimate::from),
            arriving_open: open,
            baseline_p50_ms: latency_ms(&all, false, 0.5, |one| one.latency),
            baseline_p99_ms: latency_ms(&all, false, 0.99, |one| one.latency),
            own_us_per_request: cost.own_us,
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
        let mut series = self.begin(service, options);
        while series.rounds() < options.rounds as usize && !enough(&series.rounds, options) {
            if !self.go_on(&mut series, guard, stop)? {
                break;
            }
        }
        Ok(self.prediction(&series))
    }

    /// Begins rounds of one service, which [`Bench::go_on`] adds one by one.
    pub fn begin(&self, service: usize, options: &Options) -> Series {
        Series {
            service,
            options: *options,
            pause_min: options.pause_min.unwrap_or_else(|| self.pause_min()),
            rounds: Vec::new(),
            failed_before: self.source.failed().0,
            overdue: Span::ZERO,
            interrupted: false,
        }
    }

    /// Measures one more round; false when it was interrupted.
    ///
    /// # Errors
    /// When groups or the guard fail; everything goes on then.
    pub fn go_on(
        &mut self,
        series: &mut Series,
        guard: &mut Guard,
        stop: &AtomicBool,
    ) -> Result<bool, WorldError> {
        let (options, pause_min) = (series.options, series.pause_min);
        let (one, late, stopped) =
            self.round(&[series.service], &options, pause_min, guard, stop)?;
        series.overdue = series.overdue.max(late);
        series.interrupted |= stopped;
        if !stopped {
            series.rounds.push(one);
        }
        Ok(!stopped)
    }

    /// What the rounds until now say.
    pub fn prediction(&self, series: &Series) -> Prediction {
        let all: Vec<&Round> = series.rounds.iter().collect();
        let cores = crate::usage::cores().map_or(1, |cores| cores.len());
        let cost = Cost::of(&all, self.names.len(), cores);
        let baselines: Vec<f64> = all.iter().filter_map(|round| mean_rate(round, false)).collect();
        let (name, options) = (&self.names[series.service], &series.options);
        Prediction {
            row: row(
                name,
                &[series.service],
                &series.rounds,
                &cost,
                options,
                self.source.is_open(),
            ),
            faster_percent: options.faster * 100.0,
            baseline_per_s: Interval::of_mean(&baselines).map(Estimate::from),
            cpu_us_per_request: cost.us.clone(),
            busy_ratio: cost.busy,
            windows: Window::all(&series.rounds, self.names.len()),
            failed: self.source.failed().0 - series.failed_before,
            overdue_ms: series.overdue.as_us() / 1e3,
            interrupted: series.interrupted,
        }
    }

    /// Waits until clients have got `answers`, at least for `settle` and at most for 30 s. How many
    /// they got a second in the second half; `None` when `answers` is 0, or they got none.
    pub fn warm_up(&mut self, settle: Span, answers: u32, stop: &AtomicBool) -> Option<f64> {
        let (begun, mut got, mut half) = (crate::now(), 0, None);
        self.source.take();
        loop {
            let at = crate::now();
            got += self.source.take();
            if half.is_none() && got >= answers.div_ceil(2) {
                half = Some((at, got));
            }
            let waited = at.since(begun);
            let enough = waited >= settle && got >= answers;
            if enough || waited >= WARM_UP_MAX || stop.load(Ordering::Relaxed) {
                let (since, before) = half?;
                let per_s = f64::from(got - before) * 1e6 / at.since(since).as_us().max(1.0);
                return (answers > 0 && got > before).then_some(per_s);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// What runs now, with nothing stopped and nobody who looks on meanwhile.
    ///
    /// # Errors
    /// When CPU time cannot be read.
    pub fn observe(&mut self, window: Span) -> Result<Observed, WorldError> {
        let (used, moment) = (self.places.usage()?, Moment::now());
        self.source.take();
        drop(self.source.take_samples());
        let begun = crate::now();
        std::thread::sleep(std::time::Duration::from_nanos(window.as_ns()));
        let (whole, ended) = (self.source.take(), crate::now());
        let samples = self.source.take_samples();
        let completed = self.source.answers(&samples, begun, ended, u64::from(whole));
        let elapsed = ended.since(begun);
        let (after, now) = (self.places.usage()?, Moment::now());
        let used = after.iter().zip(&used).map(|(now, then)| now.saturating_sub(*then));
        let mut used: Vec<Span> = used.take(self.names.len() + 1).collect();
        let services = used.iter().fold(Span::ZERO, |sum, one| sum + *one);
        // That of a foreign generator, and nothing for clients of this program.
        let driver = used.pop().unwrap_or_default();
        Ok(Observed {
            answers: completed,
            per_s: completed * 1e6 / elapsed.as_us().max(1.0),
            cpu_us_per_request: used.iter().map(|one| one.as_us() / completed.max(1.0)).collect(),
            own_us_per_request: (now.own_since(&moment) + driver).as_us() / completed.max(1.0),
            weather: now.since(&moment, services),
            rates: self.speed.as_ref().and_then(|speed| speed.between(begun, ended)),
        })
    }

    /// Requests that failed until now, and what the first of them said.
    pub fn failed(&self) -> (u64, Option<String>) {
        self.source.failed()
    }

    /// A name for services that are changed together.
    fn name(&self, targets: &[usize]) -> String {
        let names: Vec<&str> = targets.iter().map(|place| self.names[*place].as_str()).collect();
        names.join("+")
    }

    /// The group of the clients, after those of the services.
    fn group_of_clients(&self) -> u32 {
        self.names.len() as u32
    }

    /// One round; the longest time beyond a lease, and whether it was interrupted.
    fn round(
        &mut self,
        targets: &[usize],
        options: &Options,
        pause_min: Span,
        guard: &mut Guard,
        stop: &AtomicBool,
    ) -> Result<(Round, Span, bool), WorldError> {
        let change = match options.rule {
            Rule::Delivered => Change::Delivered { share: options.faster, parallel: 1 },
            Rule::Clock { parallel } => {
                Change::Clock { share: options.faster, parallel, busy: Busy::Cpu }
            }
            Rule::Count { saved, parallel, .. } => {
                Change::Count { saved_ns: vec![saved.as_ns() as i64], parallel }
            }
        };
        let visits = match options.rule {
            Rule::Count { visits, .. } => visits,
            _ => 0.0,
        };
        let limits = Limits {
            pause_min,
            pause_max: (pause_min * 4).max(Limits::default().pause_max),
            look_max: LOOK_MAX,
            ..Limits::default()
        };
        let groups: Vec<Group> = targets.iter().map(|target| Group(*target as u32)).collect();
        let all = (0..=self.group_of_clients()).map(Group);
        // Where they share cores only their sum counts, and to have the one stand whose share is
        // paid would keep work from the others. With cores of their own each has a debt of its own.
        let each = match options.rule {
            Rule::Delivered => vec![groups.clone()],
            _ => groups.iter().map(|group| vec![*group]).collect(),
        };
        let target = |groups: Vec<Group>| Target { groups, change: change.clone() };
        let trial = Trial {
            targets: each.into_iter().map(target).collect(),
            rest: all.filter(|one| !groups.contains(one)).collect(),
            clock: Group(self.group_of_clients() + 1),
            limits,
            settle: options.pace.settle,
            length: options.pace.window,
            pause_least: PAUSE_LEAST,
        };
        drop(self.source.take_samples());
        let (moment, epoch, before) = (Moment::now(), crate::now(), self.source.total());
        let mut run = self.drive(trial.slowed(), (groups[0], visits), guard, stop)?;
        let run_end = Moment::now();
        let measured = self.source.take_samples();
        let last = |of: &dyn Fn(&[Span]) -> Span| {
            run.ledger.last().map_or(Span::ZERO, |last| of(&last.cpu))
        };
        let clients = self.group_of_clients() as usize;
        // With a foreign generator, which is as much a client as those of this program.
        let own_cpu = run_end.own_since(&moment) + last(&|cpu| cpu[clients]);
        let answered = measured.len() as u64 + self.source.total() - before;
        // This program is counted by ticks, so its share is taken over the whole run.
        let own_us = own_cpu.as_us() / answered.max(1) as f64;
        let services = last(&|cpu| cpu[..=clients].iter().fold(Span::ZERO, |sum, cpu| sum + *cpu));
        let (readings, rates) = self.counted(&run, own_us, epoch, &measured);
        let (mut late, mut stopped) = (run.overdue, run.stopped);
        let mut extra = |config: Option<Config>, visits: (Group, f64)| {
            let Some(config) = config.filter(|_| options.control && !stopped) else {
                return Ok((Vec::new(), Vec::new()));
            };
            let epoch = crate::now();
            let run = self.drive(config, visits, guard, stop)?;
            let samples = self.source.take_samples();
            late = late.max(run.overdue);
            stopped |= run.stopped;
            Ok::<_, WorldError>(self.counted(&run, own_us, epoch, &samples))
        };
        let (controls, of_controls) = extra(trial.control(&run.findings), (trial.clock, 0.0))?;
        let (shorter, of_shorter) = extra(trial.shorter(&run.findings), (groups[0], visits))?;
        let reads = self.source.edge().map(Edge::take_reads).unwrap_or_default();
        let came = |slowed: bool| {
            let at = |instant: Instant| epoch + instant.since(Instant::ZERO);
            let windows = run.findings.iter().filter(|one| one.slowed == slowed);
            let each = windows.map(|one| Read::between(&reads, at(one.from), at(one.to)));
            each.fold(Read::default(), Read::plus)
        };
        let came = [came(false), came(true)];
        let ledger = std::mem::take(&mut run.ledger);
        let round = Round {
            readings,
            controls,
            shorter,
            rates: [rates, of_controls, of_shorter],
            ledger,
            samples: measured,
            epoch,
            own_cpu,
            weather: run_end.since(&moment, services),
            cores: crate::usage::cores().map_or(1, |cores| cores.len()) as f64,
            shared: options.rule == Rule::Delivered,
            came,
        };
        Ok((round, late, stopped))
    }

    /// Windows with their answers, those at the ends by parts, and the CPU time of services and
    /// clients, who take `own_us` for a request. Clients of an open population, or who think, do
    /// not always have a request under way, so their requests are counted whole.
    fn counted(
        &self,
        run: &Run<Reading>,
        own_us: f64,
        epoch: Instant,
        samples: &[Sample],
    ) -> (Vec<Counted>, Vec<Option<Rates>>) {
        let at = |instant: Instant| epoch + instant.since(Instant::ZERO);
        let of = |reading: &Reading| {
            let (from, to) = (at(reading.from), at(reading.to));
            let requests = self.source.answers(samples, from, to, reading.completions);
            let used_us = |service| {
                let at = |when| cpu_at(&run.ledger, service, when);
                at(reading.to) - at(reading.from)
            };
            let services_us: f64 = (0..self.names.len()).map(used_us).sum();
            let cpu = Span::from_ns(((services_us + own_us * requests) * 1e3) as u64);
            Counted { reading: *reading, requests, cpu: Some(cpu) }
        };
        let rates = |one: &Reading| self.speed.as_ref()?.between(at(one.from), at(one.to));
        (run.findings.iter().map(of).collect(), run.findings.iter().map(rates).collect())
    }

    /// Drives one Governor through all windows of its pattern.
    fn drive(
        &mut self,
        config: Config,
        visits: (Group, f64),
        guard: &mut Guard,
        stop: &AtomicBool,
    ) -> Result<Run<Reading>, WorldError> {
        let windows = config.windows.pattern.len();
        let hears = self.record.as_mut().map(|record| {
            record.next(&config);
            record as &mut dyn Hears<Governor>
        });
        let governor = Governor::new(config).expect("values are in range by construction");
        let world = World::new(governor, &mut self.places, Some(guard)).visits(visits.0, visits.1);
        world.heard(hears).counts(self.source.edge()).run(windows, stop)
    }
}

/// Are the rounds enough for the interval that was asked for?
fn enough(rounds: &[Round], options: &Options) -> bool {
    let Some(most) = options.until_percent else { return false };
    rounds.len() >= ROUNDS_MIN as usize
        && Gain::of(rounds)
            .is_some_and(|gain| (gain.settled.high.exp() - gain.settled.low.exp()) * 50.0 <= most)
}
