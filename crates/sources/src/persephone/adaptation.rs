//! Figures 8 and 9: a workload that changes, and a classifier that is wrong
//! ([persephone 5.11, 5.12]).

use super::measure::{id, missing, ratio, slowdown, value};
use cavy_kinds::server::draw;
use cavy_kinds::server::plan::Policy;
use cavy_kinds::server::result::{BinSummary, Change, ServerResult, TimelineResult};
use cavy_kinds::server::{ServerExperiment, ServerPlan};
use cavy_lab::statistics::quantile;
use cavy_report::model::{Cell, Table};
use cavy_study::claim::Measured;
use cavy_study::draw::Spread;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Figure 8.
pub static FIG8: Study<ServerPlan> = Study {
    about: About {
        id: "fig8",
        title: "Figure 8: a workload that changes",
        plan: include_str!("plans/fig8.toml"),
        files: &[],
        shows: "Tail latency and reserved workers over time while types A and B swap service \
                times, then shares, and then B vanishes; without any hint. Beside DARC as \
                published (X = 10): the artifact's X = 1, and O3 with a short window, the \
                straddling window thrown away, and a guard against noise.",
        claimed: "The profiler picks up new service times and shares and adjusts the reservation; \
                  once stable, DARC is no worse than c-FCFS.",
    },
    measure: measure_fig8,
    found: found_fig8,
    panels: draw::timeline_panels,
    tables: |experiment| vec![phase_table(experiment)],
};

/// Figure 9.
pub static FIG9: Study<ServerPlan> = Study {
    about: About {
        id: "fig9",
        title: "Figure 9: a classifier that is wrong",
        plan: include_str!("plans/fig9.toml"),
        files: &[],
        shows: "High Bimodal with every label drawn at random, and with a tenth and a hundredth of \
                them. DARC sees equal means for all labels and puts them in one group.",
        claimed: "With random labels DARC degrades to c-FCFS.",
    },
    measure: |experiment| {
        let at = |policy| experiment.at(BASE, policy, 0.8);
        let against = |name: &str, policy| {
            ratio(id("fig9", name), slowdown(at(policy)), slowdown(at("c-FCFS")))
        };
        vec![against("random", "DARC"), against("random_fcfs", "DARC, FCFS groups")]
    },
    found: |experiment| {
        let words = |variant| {
            let of = |policy| slowdown(experiment.at(variant, policy, 0.8));
            match of("DARC").zip(of("c-FCFS")) {
                Some(((_, ours), (_, theirs))) => {
                    format!("{:.3} against {:.3}", ours.median, theirs.median)
                }
                None => "n/a".to_string(),
            }
        };
        format!(
            "Slowdown at 80 % load, DARC against c-FCFS: {} with random labels, {} with a tenth \
             wrong, {} with a hundredth wrong. A long request under a short label blocks the \
             reserved worker, so few errors already cost much of the gain.",
            words(BASE),
            words("tenth"),
            words("hundredth"),
        )
    },
    panels: |experiment| {
        let variants = experiment.variants();
        let panel =
            |v: &&str| draw::panel(experiment, v, draw::Tail::SLOWDOWN, Spread::Replications);
        variants.iter().filter_map(panel).collect()
    },
    tables: |experiment| vec![cavy_study::draw::points(experiment)],
};

/// Phases of the plan: start and end in ms.
fn phases(experiment: &ServerExperiment) -> Vec<(f64, f64)> {
    let mut start = 0.0;
    let mut all = Vec::new();
    for phase in &experiment.plan.phases {
        all.push((start, start + phase.duration_ms));
        start += phase.duration_ms;
    }
    all
}

fn timeline<'a>(
    experiment: &'a ServerExperiment,
    policy: &'a str,
) -> Option<(&'a ServerResult, &'a TimelineResult)> {
    let result = experiment.of(BASE, policy).next()?;
    Some((result, result.timeline.as_ref()?))
}

/// The reservation in force at the end of a phase.
fn at_end(timeline: &TimelineResult, end_ms: f64) -> Option<&Change> {
    timeline.changes.iter().rfind(|change| change.at_ms < end_ms)
}

/// Completions that a window needs, as the plan or the policy says.
const WINDOW: f64 = 50_000.0;

/// The longest time from the start of a phase to its last change of the reservation, in windows of
/// that phase.
fn settling_windows(
    experiment: &ServerExperiment,
    result: &ServerResult,
    timeline: &TimelineResult,
) -> f64 {
    let mut longest: f64 = 0.0;
    let window = experiment.plan.policies.iter().find(|p| p.label() == result.label);
    let window = match window {
        Some(Policy::Darc(darc)) => darc.window.map_or(WINDOW, |window| window as f64),
        _ => WINDOW,
    };
    for (start, end) in phases(experiment).into_iter().take(3) {
        let last = timeline.changes.iter().rfind(|c| c.at_ms >= start && c.at_ms < end);
        let Some(last) = last else { continue };
        let finished: u64 =
            bins(timeline, start, end).map(|b| b.finished.iter().sum::<u64>()).sum();
        let rate_per_ms = finished as f64 / (end - start);
        let windows = (last.at_ms - start) * rate_per_ms / window;
        longest = longest.max(windows);
    }
    longest
}

/// Bins that lie wholly in a stretch of time.
fn bins(timeline: &TimelineResult, from_ms: f64, to_ms: f64) -> impl Iterator<Item = &BinSummary> {
    let width = timeline.bin_ms;
    timeline
        .bins
        .iter()
        .filter(move |bin| bin.from_ms >= from_ms - 1e-9 && bin.from_ms + width <= to_ms + 1e-9)
}

/// The median over bins of the tail of a type in the second half of a phase, when the reservation
/// has settled.
fn steady_tail(timeline: &TimelineResult, phase: (f64, f64), kind: usize) -> Option<f64> {
    let middle = (phase.0 + phase.1) / 2.0;
    quantile::median(bins(timeline, middle, phase.1).filter_map(|bin| bin.tail_us[kind]))
}

/// Which type is short in each phase; in the last there is only A.
const SHORT: [usize; 4] = [1, 0, 0, 0];

fn measure_fig8(experiment: &ServerExperiment) -> Vec<Measured> {
    let phases = phases(experiment);
    let (Some((result, darc)), Some((_, central))) =
        (timeline(experiment, "DARC"), timeline(experiment, "c-FCFS"))
    else {
        let names = ["phase1", "phase2", "phase3", "phase4", "settling", "steady"];
        return names.map(|name| missing(id("fig8", name), "no timeline")).into();
    };
    let n = result.overall.samples;
    let workers = |name: &str, phase: usize, of: fn(&Change) -> Option<&u32>, note: &str| {
        let change = phases.get(phase).and_then(|&(_, end)| at_end(darc, end));
        match change.and_then(of) {
            Some(&count) => value(id("fig8", name), f64::from(count), n, note.to_string()),
            None => missing(id("fig8", name), "no reservation"),
        }
    };
    let settling = settling_windows(experiment, result, darc);
    let worst = phases
        .iter()
        .enumerate()
        .filter_map(|(index, &phase)| {
            let ours = steady_tail(darc, phase, SHORT[index])?;
            let theirs = steady_tail(central, phase, SHORT[index])?;
            Some(ours / theirs)
        })
        .fold(0.0, f64::max);
    vec![
        workers("phase1", 0, |c| c.reserved.first(), "Workers reserved to A at the end of P1."),
        workers("phase2", 1, |c| c.reserved.first(), "Workers reserved to A at the end of P2."),
        workers("phase3", 2, |c| c.reserved.first(), "Workers reserved to A at the end of P3."),
        workers("phase4", 3, |c| c.reachable.first(), "Workers A may use at the end of P4."),
        value(
            id("fig8", "settling"),
            settling,
            n,
            "Longest time to the last change of a phase, in windows of 50 000 requests."
                .to_string(),
        ),
        value(
            id("fig8", "steady"),
            worst,
            n,
            "Worst phase: tail of the short type under DARC over c-FCFS, second half.".to_string(),
        ),
    ]
}

fn found_fig8(experiment: &ServerExperiment) -> String {
    let phases = phases(experiment);
    let words: Vec<String> = ["DARC", "DARC, X = 1", "DARC, O3"]
        .into_iter()
        .filter_map(|policy| {
            let (result, timeline) = timeline(experiment, policy)?;
            let after = |phase: usize| {
                let (start, end) = phases.get(phase)?;
                let last =
                    timeline.changes.iter().rfind(|c| c.at_ms >= *start && c.at_ms < *end)?;
                Some(format!("{:.0} ms", last.at_ms - start))
            };
            let times: Vec<String> = (1..3).filter_map(after).collect();
            let tables: Vec<&str> = phases
                .iter()
                .filter_map(|&(_, end)| at_end(timeline, end))
                .map(|change| change.reservation.as_str())
                .collect();
            Some(format!(
                "{policy} settles {} after the first two changes, ends the phases with {} and \
                 drops {} requests",
                times.join(" and "),
                tables.join("; "),
                result.dropped
            ))
        })
        .collect();
    format!("{}. Long requests pay: see the table.", words.join("; "))
}

/// Steady tails per phase and type, beside the reservations.
fn phase_table(experiment: &ServerExperiment) -> Table {
    let mut rows = Vec::new();
    for policy in experiment.labels(BASE) {
        let Some((_, timeline)) = timeline(experiment, policy) else { continue };
        for (index, &phase) in phases(experiment).iter().enumerate() {
            let tail = |kind| match steady_tail(timeline, phase, kind) {
                Some(us) => Cell::Number(us),
                None => Cell::Missing("none".to_string()),
            };
            let reservation = at_end(timeline, phase.1).map(|change| change.reservation.clone());
            rows.push(vec![
                Cell::Text(policy.to_string()),
                Cell::Text(format!("P{}", index + 1)),
                tail(0),
                tail(1),
                Cell::Text(reservation.unwrap_or_default()),
            ]);
        }
    }
    Table {
        id: "phases".to_string(),
        title: "Steady state of each phase (median over bins of its second half)".to_string(),
        columns: [
            "policy",
            "phase",
            "A p99.9 (us)",
            "B p99.9 (us)",
            "reservation, short type first",
        ]
        .map(str::to_string)
        .to_vec(),
        rows,
    }
}
