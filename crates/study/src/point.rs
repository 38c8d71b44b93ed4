//! Running one point: replications, their record, and what they say together.

use crate::experiment::Point;
use crate::plan::PlanError;
use crate::plan::build::{self, Scenario};
use crate::plan::objective::{Objective, Percentile, Quantity};
use cavy_core::{Digest, Instant};
use cavy_lab::cpu::{Recorder, Replication, Setup, Timeline};
use cavy_lab::pending::{Heap4, Wheel};
use cavy_lab::statistics::histogram::{Histogram, scaled_quantile};
use cavy_lab::statistics::interval::Interval;
use cavy_lab::statistics::quantile;
use cavy_lab::statistics::sequential::{Precision, Target};
use cavy_sched::config::AnyPolicy;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// How runs are made, beyond what the plan says. None of it changes results, except `shuffle_ties`,
/// which must not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Keep pending events in the wheel instead of the heap.
    pub wheel: bool,
    /// Shuffle simultaneous events of one class by this seed.
    pub shuffle_ties: Option<u64>,
    /// Run everything twice and compare.
    pub twice: bool,
}

/// A value over replications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// From the pooled samples of all replications.
    pub value: f64,
    /// Lower end of the 95 % interval, by sectioning.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Median over replications.
    pub median: f64,
    /// Each replication's own value, in order.
    pub replications: Vec<f64>,
}

impl Estimate {
    /// From the pooled value and each replication's own.
    pub fn new(pooled: f64, replications: Vec<f64>) -> Self {
        let interval = quantile::sectioned(&replications, pooled);
        let (low, high) = interval.map_or((pooled, pooled), |i| (i.low, i.high));
        let mut sorted = replications.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => pooled,
            n if n % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Estimate { value: pooled, low, high, median, replications }
    }

    /// Smallest replication.
    pub fn min(&self) -> f64 {
        self.replications.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Largest replication.
    pub fn max(&self) -> f64 {
        self.replications.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Percentiles of latency and slowdown. `None` where a replication has fewer than 100 samples beyond
/// the percentile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples after warm-up, all replications together.
    pub samples: u64,
    /// Median latency, microseconds.
    pub p50_us: Option<Estimate>,
    /// 99th percentile latency, microseconds.
    pub p99_us: Option<Estimate>,
    /// 99.9th percentile latency, microseconds.
    pub p999_us: Option<Estimate>,
    /// Median slowdown.
    pub p50_slowdown: Option<Estimate>,
    /// 99th percentile slowdown.
    pub p99_slowdown: Option<Estimate>,
    /// 99.9th percentile slowdown.
    pub p999_slowdown: Option<Estimate>,
}

impl Summary {
    /// One of the six.
    pub fn get(&self, percentile: Percentile, quantity: Quantity) -> Option<&Estimate> {
        match (percentile, quantity) {
            (Percentile::P50, Quantity::Us) => self.p50_us.as_ref(),
            (Percentile::P99, Quantity::Us) => self.p99_us.as_ref(),
            (Percentile::P999, Quantity::Us) => self.p999_us.as_ref(),
            (Percentile::P50, Quantity::Slowdown) => self.p50_slowdown.as_ref(),
            (Percentile::P99, Quantity::Slowdown) => self.p99_slowdown.as_ref(),
            (Percentile::P999, Quantity::Slowdown) => self.p999_slowdown.as_ref(),
        }
    }
}

/// What one type experienced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeSummary {
    /// Its name.
    pub name: String,
    /// Requests of it that were dropped.
    pub dropped: u64,
    /// Its percentiles.
    #[serde(flatten)]
    pub summary: Summary,
}

/// One bin of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BinSummary {
    /// Where it begins, milliseconds.
    pub from_ms: f64,
    /// 99.9th percentile latency per type, microseconds, in the order of the types; of the largest
    /// percentile with 10 samples beyond it when there are fewer than 10 000.
    pub tail_us: Vec<Option<f64>>,
    /// Requests that ended, per type.
    pub finished: Vec<u64>,
    /// Requests dropped, per type.
    pub dropped: Vec<u64>,
}

/// A change of the reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When, milliseconds.
    pub at_ms: f64,
    /// The reservation, such as `2/6/6`.
    pub reservation: String,
    /// Workers reserved to each type, in the order of the types.
    pub reserved: Vec<u32>,
    /// Workers each type may use at all.
    pub reachable: Vec<u32>,
}

/// What happened over time in the first replication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineResult {
    /// Width of a bin, milliseconds.
    pub bin_ms: f64,
    /// The bins.
    pub bins: Vec<BinSummary>,
    /// Changes of the reservation.
    pub changes: Vec<Change>,
}

/// The result of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The point's key.
    pub key: String,
    /// The variant of the plan.
    pub variant: String,
    /// Label of the policy.
    pub policy: String,
    /// Swept keys and their values.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Offered load.
    pub load: f64,
    /// Offered rate, requests per second.
    pub rate_per_s: f64,
    /// Does the system keep up?
    pub stable: bool,
    /// Why it does not, or why that cannot be told.
    pub note: String,
    /// MSER-5 found no end of the warm-up in some replication.
    pub too_short: bool,
    /// Replications.
    pub replications: u32,
    /// Requests simulated, warm-up included.
    pub requests: u64,
    /// Share of worker time in use.
    pub utilization: f64,
    /// Requests dropped.
    pub dropped: u64,
    /// Share of requests dropped.
    pub drop_ratio: f64,
    /// Over all requests together.
    pub overall: Summary,
    /// Per type, in the order of the plan.
    pub types: Vec<TypeSummary>,
    /// Under `precision_ratio`, the percentile that needed the most replications.
    pub last_to_converge: Option<String>,
    /// The reservation at the end of the first replication.
    pub reservation: Option<String>,
    /// What happened over time, when the plan asks for it.
    pub timeline: Option<TimelineResult>,
    /// Fingerprint of all replications, hex.
    pub digest: String,
}

impl PointResult {
    /// The value an objective bounds.
    pub fn metric(&self, objective: &Objective) -> Option<&Estimate> {
        self.summary(objective.kind.as_deref())?.get(objective.percentile, objective.quantity)
    }

    /// Percentiles of a type, or of all requests.
    pub fn summary(&self, kind: Option<&str>) -> Option<&Summary> {
        match kind {
            None => Some(&self.overall),
            Some(name) => self.types.iter().find(|t| t.name == name).map(|t| &t.summary),
        }
    }

    /// 99.9th percentile slowdown over all requests, the value of all figures.
    pub fn slowdown(&self) -> Option<&Estimate> {
        self.overall.p999_slowdown.as_ref()
    }

    /// 99.9th percentile latency of a type in microseconds.
    pub fn tail_us(&self, kind: &str) -> Option<&Estimate> {
        self.summary(Some(kind))?.p999_us.as_ref()
    }

    /// Offered rate in thousands of requests per second.
    pub fn krps(&self) -> f64 {
        self.rate_per_s / 1e3
    }
}

/// The seed of a replication. It does not depend on the policy, so policies meet the same requests;
/// nor on the load, so curves are smooth.
pub(crate) fn seed_of(root: u64, replication: u32) -> u64 {
    let mut digest = Digest::new();
    digest.fold(root);
    digest.fold(u64::from(replication));
    digest.value()
}

struct Run {
    replication: Replication,
    reservation: Option<String>,
    timeline: Option<TimelineResult>,
}

/// Runs one replication.
fn replicate(scenario: &Scenario, root: u64, replication: u32, manner: &Manner) -> Run {
    let seed = seed_of(root, replication);
    let built = cavy_sched::build(
        &scenario.policy,
        scenario.workers,
        &scenario.hints,
        scenario.queue_limit,
    );
    let mut machine = built.expect("the plan was checked, and a checked policy builds");
    let setup = Setup {
        workers: scenario.slots,
        cores: scenario.cores,
        costs: scenario.costs,
        seed,
        shuffle_ties: manner.shuffle_ties,
        requests: scenario.requests,
        check: false,
    };
    let kinds = scenario.names.len();
    let mut recorder = Recorder::new(scenario.requests, kinds);
    let source = scenario.source(seed);
    let machine = &mut *machine;
    let (outcome, timeline) = match scenario.timeline.filter(|_| replication == 0) {
        Some(width) => {
            let read = |machine: &(dyn AnyPolicy + 'static)| change(machine, kinds);
            let mut timeline = Timeline::new(width, kinds, read);
            let mut both = (&mut recorder, &mut timeline);
            let outcome = run_in(manner, &setup, machine, source, &mut both);
            let result = timeline_result(&timeline, width.as_ns() as f64 / 1e6);
            (outcome, Some(result))
        }
        None => (run_in(manner, &setup, machine, source, &mut recorder), None),
    };
    let reservation = machine.reservation().map(ToString::to_string);
    Run { replication: recorder.finish(&setup, outcome), reservation, timeline }
}

fn run_in<O: cavy_lab::cpu::Observer<dyn AnyPolicy>>(
    manner: &Manner,
    setup: &Setup,
    machine: &mut (dyn AnyPolicy + 'static),
    source: cavy_workload::source::Source,
    observer: &mut O,
) -> cavy_lab::cpu::Outcome {
    if manner.wheel {
        cavy_lab::cpu::run(setup, machine, source, &mut Wheel::new(), observer)
    } else {
        cavy_lab::cpu::run(setup, machine, source, &mut Heap4::new(), observer)
    }
}

fn change(machine: &(dyn AnyPolicy + 'static), kinds: usize) -> (String, Vec<u32>, Vec<u32>) {
    let Some(table) = machine.reservation() else {
        return (String::new(), vec![0; kinds], vec![0; kinds]);
    };
    let group = |kind: usize| table.group_of(cavy_core::family::cpu::Kind(kind as u16 + 1));
    let reserved = |kind| group(kind).map_or(0, |group| group.reserved.len());
    let reachable =
        |kind| group(kind).map_or(0, |group| group.reserved.union(&group.stealable).len());
    (table.to_string(), (0..kinds).map(reserved).collect(), (0..kinds).map(reachable).collect())
}

fn timeline_result<F>(
    timeline: &Timeline<(String, Vec<u32>, Vec<u32>), F>,
    bin_ms: f64,
) -> TimelineResult {
    let tail = |histogram: &Histogram| {
        let n = histogram.count();
        if n < 100 {
            return None;
        }
        let p = 0.999f64.min(1.0 - 10.0 / n as f64);
        histogram.quantile(p).map(|ns| ns as f64 / 1e3)
    };
    let bins = timeline.bins().iter().enumerate().map(|(index, bin)| BinSummary {
        from_ms: index as f64 * bin_ms,
        tail_us: bin.latency.iter().map(tail).collect(),
        finished: bin.latency.iter().map(Histogram::count).collect(),
        dropped: bin.dropped.clone(),
    });
    let changes = timeline.changes.iter().map(|(at, (reservation, reserved, reachable))| Change {
        at_ms: at.since(Instant::ZERO).as_ns() as f64 / 1e6,
        reservation: reservation.clone(),
        reserved: reserved.clone(),
        reachable: reachable.clone(),
    });
    TimelineResult { bin_ms, bins: bins.collect(), changes: changes.collect() }
}

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Two runs of one seed differ: a defect of this program.
    #[error("two runs differ: {0}")]
    Diverged(String),
    /// Somebody asked to stop.
    #[error("interrupted after {done} of {total} points")]
    Interrupted {
        /// Points that are finished and kept.
        done: usize,
        /// Points in all.
        total: usize,
    },
    /// Results could not be kept.
    #[error("cannot write {path}: {error}")]
    Store {
        /// The file.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
}

/// Runs a point: the replications its plan asks for, or as many as its precision needs.
pub fn run(point: &Point, folder: &Path, manner: &Manner) -> Result<PointResult, RunError> {
    let scenario = build::scenario(&point.plan, folder)?;
    let plan = &point.plan.run;
    let root = plan.seed;
    let mut runs = replications(&scenario, root, 0..plan.replications, manner, point)?;
    let mut result = summarize(point, &scenario, &runs);
    if let Some(relative_max) = plan.precision_ratio {
        // Rounds of a fixed size, so that results do not depend on the number of cores.
        const ROUND: u32 = 4;
        let metrics = metrics(&result);
        let target = |(metric, _): &(String, _)| Target { metric: metric.clone(), relative_max };
        let mut precision = Precision::new(metrics.iter().map(target).collect());
        let intervals = |result: &PointResult| {
            self::metrics(result).into_iter().map(|(_, interval)| interval).collect::<Vec<_>>()
        };
        while !precision.round(&intervals(&result)) {
            let spent = result.requests + u64::from(ROUND) * scenario.requests;
            if !result.stable || spent > plan.requests_max {
                break;
            }
            let from = runs.len() as u32;
            runs.extend(replications(&scenario, root, from..from + ROUND, manner, point)?);
            result = summarize(point, &scenario, &runs);
        }
        result.last_to_converge = precision.slowest().map(|target| target.metric.clone());
    }
    Ok(result)
}

fn replications(
    scenario: &Scenario,
    root: u64,
    which: std::ops::Range<u32>,
    manner: &Manner,
    point: &Point,
) -> Result<Vec<Run>, RunError> {
    which
        .into_par_iter()
        .map(|replication| {
            let run = replicate(scenario, root, replication, manner);
            if manner.twice {
                let again = replicate(scenario, root, replication, manner);
                let trail = &run.replication.outcome.trail;
                if let Some((agreed, parted)) = trail.parts_from(&again.replication.outcome.trail) {
                    return Err(RunError::Diverged(format!(
                        "{}, seed {root}, replication {replication}: agreed until {agreed:?}, \
                         differ at {parted:?}",
                        point.policy_and_axis()
                    )));
                }
            }
            Ok(run)
        })
        .collect()
}

/// Every percentile of latency that the plan's sizes support, by name.
fn metrics(result: &PointResult) -> Vec<(String, Option<Interval>)> {
    let types = result.types.iter().map(|t| (t.name.as_str(), &t.summary));
    std::iter::once(("all", &result.overall))
        .chain(types)
        .flat_map(|(name, summary)| {
            Percentile::ALL.into_iter().map(move |p| (name, p, summary.get(p, Quantity::Us)))
        })
        .map(|(name, p, estimate)| {
            // A percentile without support cannot converge, and must not keep the others waiting.
            let interval = estimate.map_or(Interval::around(1.0, 0.0), |e| Interval {
                estimate: e.value,
                low: e.low,
                high: e.high,
            });
            (format!("{} of {name}", p.title()), Some(interval))
        })
        .collect()
}

fn summarize(point: &Point, scenario: &Scenario, runs: &[Run]) -> PointResult {
    let replications: Vec<&Replication> = runs.iter().map(|run| &run.replication).collect();
    let sum = |of: fn(&Replication) -> u64| replications.iter().map(|r| of(r)).sum::<u64>();
    let arrived = sum(|r| r.outcome.arrived);
    let dropped = sum(|r| r.outcome.dropped);
    let drop_ratio = dropped as f64 / arrived.max(1) as f64;
    let note = instability(&replications, &scenario.names, drop_ratio);
    let kinds = 0..scenario.names.len();
    let of_kind = |kind: usize| Sample {
        replications: replications
            .iter()
            .map(|r| vec![(&r.types[kind].latency, scenario.nominal_ns[kind])])
            .collect(),
    };
    let all = Sample {
        replications: replications
            .iter()
            .map(|r| kinds.clone().map(|k| (&r.types[k].latency, scenario.nominal_ns[k])).collect())
            .collect(),
    };
    let mut digest = Digest::new();
    for replication in &replications {
        digest.fold(replication.outcome.trail.digest());
    }
    PointResult {
        key: point.key(),
        variant: point.variant.clone(),
        policy: point.policy.clone(),
        settings: point.axes.iter().map(|(key, value)| (key.clone(), json(value))).collect(),
        load: point.plan.load,
        rate_per_s: scenario.rate_per_s,
        stable: note.is_none(),
        note: note.unwrap_or_default(),
        too_short: replications.iter().any(|r| r.too_short),
        replications: runs.len() as u32,
        requests: arrived,
        utilization: replications.iter().map(|r| r.utilization).sum::<f64>() / runs.len() as f64,
        dropped,
        drop_ratio,
        overall: all.summary(),
        types: kinds
            .clone()
            .map(|kind| TypeSummary {
                name: scenario.names[kind].clone(),
                dropped: replications.iter().map(|r| r.types[kind].dropped).sum(),
                summary: of_kind(kind).summary(),
            })
            .collect(),
        last_to_converge: None,
        reservation: runs.first().and_then(|run| run.reservation.clone()),
        timeline: runs.first().and_then(|run| run.timeline.clone()),
        digest: format!("{:016x}", digest.value()),
    }
}

fn json(value: &toml::Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or(serde_json::Value::Null)
}

/// Share of a type's arrivals that may add to its backlog over the second half of a run: what is
/// above is demand that its workers cannot serve.
const BACKLOG_RATIO: f64 = 0.02;
/// And beyond chance: so many standard deviations of the number of arrivals.
const BACKLOG_SIGMAS: f64 = 4.0;

/// [persephone 5.3]: drops above 0.1 %, or a last third slower than 1.5 times the middle third, over
/// all requests or over those of one type: a starving type of few requests hides in the mean of all.
/// And, which sees an overload of a few percent in a short run: a backlog that grows with the
/// arrivals. The excess must be in both of two replications, and significant over three and more:
/// near saturation one short run's thirds differ by more than that for no reason.
fn instability(replications: &[&Replication], names: &[String], drop_ratio: f64) -> Option<String> {
    if drop_ratio > 0.001 {
        return Some(format!("{:.2} % of requests dropped", drop_ratio * 100.0));
    }
    let backlog = |kind: usize| {
        let arrived: u64 = replications.iter().map(|r| r.backlog[kind].arrived).sum();
        let more: i64 = replications.iter().map(|r| r.backlog[kind].more_present).sum();
        let share = more as f64 / arrived.max(1) as f64;
        let chance = BACKLOG_SIGMAS * (arrived as f64).sqrt();
        (share > BACKLOG_RATIO && more as f64 > chance).then_some((kind, share))
    };
    if let Some((kind, share)) = (0..names.len()).find_map(backlog) {
        let share = share * 100.0;
        return Some(format!(
            "the backlog of {} grows by {share:.1} % of its arrivals",
            names[kind]
        ));
    }
    let of_type = |kind: usize| {
        let thirds = replications.iter().map(|r| r.thirds_by_type_ns[kind]).collect();
        (format!("latency of {}", names[kind]), thirds)
    };
    let all: Vec<[f64; 3]> = replications.iter().map(|r| r.thirds_ns).collect();
    std::iter::once(("latency".to_string(), all)).chain((0..names.len()).map(of_type)).find_map(
        |(what, thirds)| {
            let growth = growth(&thirds)?;
            Some(format!("{what} still grows: x{growth:.2} in the last third"))
        },
    )
}

/// The ratio of last to middle third, when it says that latency grows without end.
fn growth(thirds: &[[f64; 3]]) -> Option<f64> {
    let excess: Vec<f64> = thirds.iter().map(|t| t[2] - 1.5 * t[1]).collect();
    let middle: f64 = thirds.iter().map(|t| t[1]).sum();
    let last: f64 = thirds.iter().map(|t| t[2]).sum();
    if last <= 1.5 * middle {
        return None;
    }
    let significant = match Interval::of_mean(&excess) {
        Some(interval) if excess.len() >= 3 => interval.low > 0.0,
        // Too few for an interval: each must show it.
        _ => excess.iter().all(|&excess| excess > 0.0),
    };
    significant.then_some(last / middle)
}

/// Histograms of each replication, with the service time that slowdown divides by.
struct Sample<'a> {
    replications: Vec<Vec<(&'a Histogram, f64)>>,
}

impl Sample<'_> {
    fn summary(&self) -> Summary {
        let counts = |parts: &Vec<(&Histogram, f64)>| parts.iter().map(|(h, _)| h.count()).sum();
        let least: u64 = self.replications.iter().map(counts).min().unwrap_or(0);
        let all: Vec<(&Histogram, f64)> = self.replications.iter().flatten().copied().collect();
        let estimate = |percentile: Percentile, quantity: Quantity| {
            let p = percentile.ratio();
            if !quantile::supported(least, p) {
                return None;
            }
            let of = |parts: &[(&Histogram, f64)]| match quantity {
                Quantity::Slowdown => scaled_quantile(parts, p),
                Quantity::Us => {
                    let parts: Vec<_> = parts.iter().map(|&(h, _)| (h, 1e3)).collect();
                    scaled_quantile(&parts, p)
                }
            };
            let each: Option<Vec<f64>> = self.replications.iter().map(|parts| of(parts)).collect();
            Some(Estimate::new(of(&all)?, each?))
        };
        Summary {
            samples: self.replications.iter().map(counts).sum(),
            p50_us: estimate(Percentile::P50, Quantity::Us),
            p99_us: estimate(Percentile::P99, Quantity::Us),
            p999_us: estimate(Percentile::P999, Quantity::Us),
            p50_slowdown: estimate(Percentile::P50, Quantity::Slowdown),
            p99_slowdown: estimate(Percentile::P99, Quantity::Slowdown),
            p999_slowdown: estimate(Percentile::P999, Quantity::Slowdown),
        }
    }
}
