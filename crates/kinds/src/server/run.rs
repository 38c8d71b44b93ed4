//! Running one replication of a server, and what replications say together.

use super::result::{BinSummary, Change, Served, TimelineResult, TypeSummary};
use super::scenario::Scenario;
use super::standing;
use cavy_core::Instant;
use cavy_lab::cpu::{Cores, Recorder, Replication, Requests, Setup, Timeline, TypeRecord};
use cavy_lab::pending::{Heap4, Wheel};
use cavy_lab::statistics::histogram::{Histogram, scaled_quantile};
use cavy_lab::statistics::quantile::BEYOND_MIN_IN_BIN;
use cavy_sched::Learning;
use cavy_sched::config::AnyPolicy;
use cavy_sched::darc::reservation::Overload;
use cavy_study::objective::{Percentile, Quantity};
use cavy_study::outcome::{Estimate, Quantile, Summary};
use cavy_study::point::{Manner, Queue};
use cavy_study::subject::Summed;

/// What one replication came to.
pub struct Run {
    pub(super) replication: Replication,
    reservation: Option<String>,
    pub(super) overload: Option<Overload>,
    pub(super) learning: Option<Learning>,
    timeline: Option<TimelineResult>,
}

/// Runs one replication.
pub fn replicate(scenario: &Scenario, seed: u64, replication: u32, manner: &Manner) -> Run {
    let (requests, foresight) = scenario.requests(seed);
    let built = cavy_sched::build_foreseeing(
        &scenario.policy,
        scenario.workers,
        &scenario.hints,
        scenario.queue_limit,
        foresight,
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
    if machine.learning().is_some() {
        recorder = recorder.awaiting_reservation();
    }
    let machine = &mut *machine;
    let (outcome, timeline) =
        match scenario.timeline.filter(|_| replication == 0 || manner.sectioned) {
            Some(width) => {
                let read = |machine: &(dyn AnyPolicy + 'static)| change(machine, kinds);
                let mut timeline = Timeline::new(width, kinds, read);
                let mut both = (&mut recorder, &mut timeline);
                let outcome = run_in(manner, &setup, machine, requests, &mut both);
                let result = timeline_result(&timeline, width.as_ns() as f64 / 1e6);
                (outcome, Some(result))
            }
            None => (run_in(manner, &setup, machine, requests, &mut recorder), None),
        };
    let reservation = machine.reservation().map(ToString::to_string);
    // What is offered counts workers as fast as service times say.
    let alike = scenario.labelled && !matches!(scenario.cores, Cores::Unequal(_));
    let table = machine.reservation().filter(|_| alike);
    Run {
        overload: table.zip(scenario.offered.as_ref()).and_then(|(t, o)| t.overload(o)),
        learning: machine.learning(),
        replication: recorder.finish(&setup, outcome),
        reservation,
        timeline,
    }
}

fn run_in<O: cavy_lab::cpu::Observer<dyn AnyPolicy>>(
    manner: &Manner,
    setup: &Setup,
    machine: &mut (dyn AnyPolicy + 'static),
    requests: Requests,
    observer: &mut O,
) -> cavy_lab::cpu::Outcome {
    if manner.queue == Some(Queue::Wheel) {
        cavy_lab::cpu::run(setup, machine, requests, &mut Wheel::new(), observer)
    } else {
        cavy_lab::cpu::run(setup, machine, requests, &mut Heap4::new(), observer)
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
    let (standing, note) = standing::judge(scenario, runs, drop_ratio);
    let kinds = 0..scenario.names.len();
    // Stretches of time that know nothing of each other, all replications together.
    let whole_ns: u64 = replications.iter().map(|r| r.outcome.last_arrival.as_ns()).sum();
    let stretches = scenario.forgets_ns().map(|forgets_ns| whole_ns as f64 / forgets_ns);
    let of_kind = |kind: usize| Sample {
        stretches,
        replications: replications
            .iter()
            .map(|r| vec![(&r.types[kind], scenario.nominal_ns[kind])])
            .collect(),
    };
    let all = Sample {
        stretches,
        replications: replications
            .iter()
            .map(|r| kinds.clone().map(|k| (&r.types[k], scenario.nominal_ns[k])).collect())
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
        standing,
        note,
        unformed: standing::unformed(scenario, runs),
        rate_per_s: Some(match scenario.population {
            None => scenario.rate_per_s,
            // What closed clients send is what was answered.
            Some(_) => arrived as f64 * 1e9 / whole_ns.max(1) as f64,
        }),
        work: arrived,
        data,
    }
}

/// What types experienced in each replication, with the service time that slowdown divides by.
struct Sample<'a> {
    stretches: Option<f64>,
    replications: Vec<Vec<(&'a TypeRecord, f64)>>,
}

impl Sample<'_> {
    fn summary(&self) -> Summary {
        let all: Vec<(&TypeRecord, f64)> = self.replications.iter().flatten().copied().collect();
        let samples: u64 = all.iter().map(|(one, _)| one.latency.count()).sum();
        let quantile = |percentile: Percentile, quantity: Quantity| {
            let p = percentile.ratio();
            let of = |parts: &[(&TypeRecord, f64)]| {
                let divisor = |nominal_ns: f64| match quantity {
                    Quantity::Slowdown => nominal_ns,
                    Quantity::Us => 1e3,
                };
                let parts: Vec<_> =
                    parts.iter().map(|&(one, ns)| (&one.latency, divisor(ns))).collect();
                scaled_quantile(&parts, p)
            };
            // A replication without such requests has nothing to say.
            let each: Vec<f64> = self.replications.iter().filter_map(|parts| of(parts)).collect();
            let bursts = self.stretches.map(|stretches| stretches * (1.0 - p));
            Some(Quantile { bursts, ..Quantile::new(of(&all)?, each, samples, p) })
        };
        Summary::new(
            samples,
            self.mean_us(&all, |one| one.latency.mean().unwrap_or(0.0)),
            self.mean_us(&all, |one| one.mean_waited_ns),
            quantile,
        )
    }

    /// The mean of `of`, which is given in ns for each type.
    fn mean_us(&self, all: &[(&TypeRecord, f64)], of: fn(&TypeRecord) -> f64) -> Option<Estimate> {
        let mean = |parts: &[(&TypeRecord, f64)]| {
            let count: u64 = parts.iter().map(|(one, _)| one.latency.count()).sum();
            let sum: f64 = parts.iter().map(|(one, _)| of(one) * one.latency.count() as f64).sum();
            (count > 0).then(|| sum / count as f64 / 1e3)
        };
        let each = self.replications.iter().filter_map(|parts| mean(parts)).collect();
        Some(Estimate::new(mean(all)?, each))
    }
}
