//! Cut-offs that are learned while the workload changes ([homa 8.2] point 6).

use super::measure::{id, missing, not_run, value};
use super::show;
use cavy_kinds::network::timeline::{self, TimeBin};
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::Table;
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// A switch from W3 to W5 and back.
pub static SWITCH: Study<NetworkPlan> = Study {
    about: About {
        id: "switch",
        title: "Cut-offs when the workload changes",
        plan: include_str!("plans/switch.toml"),
        files: &[],
        shows: "W3, then W5, then W3 again. Receivers have the cut-offs and scheduled levels of \
                one of the two all the time, or learn them from the bytes that arrive. Slowdown by \
                the time of submission, and how many levels receivers ask to be used for \
                unscheduled bytes.",
        claimed: "Nobody published how fast learned cut-offs converge; the specification asks for \
                  the time to recover.",
    },
    measure,
    found,
    panels: |e| timeline::panels(e, BASE),
    tables,
};

/// Why there is no value.
const NO_STEPS: &str = "Too few messages in each step of time.";

/// Mean levels of hosts are there when they stay this near to where they end.
const NEAR_LEVELS: f64 = 0.5;

/// Begin and end of each phase.
fn phases(e: &NetExperiment) -> Vec<(f64, f64)> {
    let mut begin = 0.0;
    let one = |phase: &cavy_kinds::network::plan::NetPhasePlan| {
        let from = begin;
        begin += phase.duration_ms;
        (from, begin)
    };
    e.plan.phases.iter().map(one).collect()
}

fn within(result: &NetResult, (from, to): (f64, f64)) -> Vec<&TimeBin> {
    let inside = |bin: &&TimeBin| bin.until_ms > from + 1e-9 && bin.until_ms <= to + 1e-9;
    result.timeline.iter().filter(inside).collect()
}

/// Time from the begin of a phase until receivers ask for what they ask for at its end.
fn recovery(result: &NetResult, phase: (f64, f64)) -> Option<f64> {
    let bins = within(result, phase);
    let last = bins.last()?.unscheduled_levels?;
    let far = |bin: &&&TimeBin| {
        bin.unscheduled_levels.is_none_or(|levels| (levels - last).abs() > NEAR_LEVELS)
    };
    Some(bins.iter().rfind(far).map_or(0.0, |bin| bin.until_ms - phase.0))
}

/// Mean of the steps' tails in the last half of a phase.
fn settled_tail(result: &NetResult, (from, to): (f64, f64)) -> Option<f64> {
    let bins = within(result, ((from + to) / 2.0, to));
    let tails: Vec<f64> = bins.iter().filter_map(|bin| bin.p99_slowdown).collect();
    (!tails.is_empty()).then(|| tails.iter().sum::<f64>() / tails.len() as f64)
}

fn of<'a>(e: &'a NetExperiment, label: &'a str) -> Option<&'a NetResult> {
    e.of(BASE, label).next()
}

fn measure(e: &NetExperiment) -> Vec<Measured> {
    let phases = phases(e);
    let name = |name: &str| id("switch", name);
    let time = |claim: &str, phase: usize| {
        let found = of(e, "learned").and_then(|learned| {
            let ms = recovery(learned, *phases.get(phase)?)?;
            Some((ms, learned))
        });
        match found {
            Some((ms, learned)) => value(name(claim), ms, learned.work, String::new()),
            None if of(e, "learned").is_none() => not_run(name(claim)),
            None => missing(name(claim), NO_STEPS),
        }
    };
    let tails = |claim: &str, label: &str, phase: usize| {
        let found = of(e, label).zip(of(e, "W3's")).and_then(|(result, right)| {
            let phase = *phases.get(phase)?;
            Some((settled_tail(result, phase)?, settled_tail(right, phase)?, result.work))
        });
        match found {
            Some((a, b, messages)) => {
                value(name(claim), a / b, messages, format!("{a:.2} against {b:.2}."))
            }
            None if of(e, label).and(of(e, "W3's")).is_none() => not_run(name(claim)),
            None => missing(name(claim), NO_STEPS),
        }
    };
    vec![
        time("to_w5", 1),
        time("to_w3", 2),
        tails("learned_before", "learned", 0),
        tails("learned_after", "learned", 2),
        tails("wrong_after", "W5's", 2),
    ]
}

fn found(e: &NetExperiment) -> String {
    let phases = phases(e);
    let ms = |phase: usize| {
        let found = of(e, "learned").zip(phases.get(phase)).and_then(|(r, &p)| recovery(r, p));
        found.map_or("n/a".to_string(), |ms| format!("{ms:.0} ms"))
    };
    let tail = |label: &str| {
        let found = of(e, label).zip(phases.last()).and_then(|(r, &p)| settled_tail(r, p));
        super::measure::words(found)
    };
    format!(
        "Receivers had the levels for W5 after {}, and those for W3 again after {}. At the end P99 \
         of all messages was {} with W3's cut-offs, {} with W5's and {} with learned ones.",
        ms(1),
        ms(2),
        tail("W3's"),
        tail("W5's"),
        tail("learned")
    )
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    vec![show::points(e)]
}
