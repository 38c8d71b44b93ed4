//! Running one replication of a server, and what replications say together.

use super::result::{BinSummary, Change, Served, TimelineResult, TypeSummary};
use super::scenario::Scenario;
use cavy_core::Instant;
use cavy_lab::cpu::{Recorder, Replication, Setup, Timeline};
use cavy_lab::pending::{Heap4, Wheel};
use cavy_lab::statistics::histogram::{Histogram, scaled_quantile};
use cavy_lab::statistics::interval::Interval;
use cavy_lab::statistics::quantile::BEYOND_MIN_IN_BIN;
use cavy_sched::config::AnyPolicy;
use cavy_study::objective::{Percentile, Quantity};
use cavy_study::outcome::{Estimate, Quantile, Standing, Summary};
use cavy_study::point::{Manner, Queue};
use cavy_study::subject::Summed;

/// What one replication came to.
pub struct Run {
    pub(super) replication: Replication,
    reservation: Option<String>,
    timeline: Option<TimelineResult>,
}

/// Runs one replication.
pub fn replicate(scenario: &Scenario, seed: u64, replication: u32, manner: &Manner) -> Run {
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
    let (outcome, timeline) =
        match scenario.timeline.filter(|_| replication == 0 || manner.sectioned) {
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
    if manner.queue == Some(Queue::Wheel) {
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
        if n < 10 * BEYOND_MIN_IN_BIN {
            return None;
        }
        let p = 0.999f64.min(1.0 - BEYOND_MIN_IN_BIN as f64 / n as f64);
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

/// What replications say together.
pub fn summarize(scenario: &Scenario, runs: &[Run]) -> Summed<Served> {
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
    let data = Served {
        too_short: replications.iter().any(|r| r.too_short),
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
        reservation: runs.first().and_then(|run| run.reservation.clone()),
        timeline: runs.first().and_then(|run| run.timeline.clone()),
    };
    Summed {
        standing: if note.is_none() { Standing::Stable } else { Standing::Unstable },
        note: note.unwrap_or_default(),
        unformed: None,
        rate_per_s: Some(scenario.rate_per_s),
        work: arrived,
        data,
    }
}

/// Share of a type's arrivals that may add to its backlog over the second half of a run: what is
/// above is demand that its workers cannot serve.
const BACKLOG_RATIO: f64 = 0.02;
/// And beyond chance: so many standard deviations of the number of arrivals.
const BACKLOG_SIGMAS: f64 = 4.0;

/// [persephone 5.3]: drops above 0.1 %, or a last third slower than 1.5 times the middle third,
/// over all requests or over those of one type: a starving type of few requests hides in the mean
/// of all. And, which sees an overload of a few percent in a short run: a backlog that grows with
/// the arrivals. The excess must be in both of two replications, and significant over three and
/// more: near saturation one short run's thirds differ by more than that for no reason.
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
        let all: Vec<(&Histogram, f64)> = self.replications.iter().flatten().copied().collect();
        let samples: u64 = all.iter().map(|(h, _)| h.count()).sum();
        let quantile = |percentile: Percentile, quantity: Quantity| {
            let p = percentile.ratio();
            let of = |parts: &[(&Histogram, f64)]| match quantity {
                Quantity::Slowdown => scaled_quantile(parts, p),
                Quantity::Us => {
                    let parts: Vec<_> = parts.iter().map(|&(h, _)| (h, 1e3)).collect();
                    scaled_quantile(&parts, p)
                }
            };
            // A replication without such requests has nothing to say.
            let each: Vec<f64> = self.replications.iter().filter_map(|parts| of(parts)).collect();
            Some(Quantile::new(of(&all)?, each, samples, p))
        };
        Summary {
            samples,
            mean_us: self.mean_us(&all),
            p50_us: quantile(Percentile::P50, Quantity::Us),
            p99_us: quantile(Percentile::P99, Quantity::Us),
            p999_us: quantile(Percentile::P999, Quantity::Us),
            p50_slowdown: quantile(Percentile::P50, Quantity::Slowdown),
            p99_slowdown: quantile(Percentile::P99, Quantity::Slowdown),
            p999_slowdown: quantile(Percentile::P999, Quantity::Slowdown),
        }
    }

    fn mean_us(&self, all: &[(&Histogram, f64)]) -> Option<Estimate> {
        let mean = |parts: &[(&Histogram, f64)]| {
            let count: u64 = parts.iter().map(|(h, _)| h.count()).sum();
            let total = |h: &Histogram| h.mean().unwrap_or(0.0) * h.count() as f64;
            let sum: f64 = parts.iter().map(|(h, _)| total(h)).sum();
            (count > 0).then(|| sum / count as f64 / 1e3)
        };
        let each = self.replications.iter().filter_map(|parts| mean(parts)).collect();
        Some(Estimate::new(mean(all)?, each))
    }
}
