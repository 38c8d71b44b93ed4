//! Figure 1: why idling can be ideal ([persephone 5.4]).

use super::measure::{id, missing, samples, slowdown, value};
use cavy_kinds::server::draw;
use cavy_kinds::server::{ServerExperiment, ServerPlan, ServerResult};
use cavy_lab::statistics::interval::Interval;
use cavy_lab::statistics::sectioning;
use cavy_report::model::{Panel, Rule, Table};
use cavy_study::claim::{Basis, CONFIDENCE, Measured, SECTIONS_MIN};
use cavy_study::draw::Spread;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Figure 1.
pub static FIG1: Study<ServerPlan> = Study {
    about: About {
        id: "fig1",
        title: "Figure 1: the highest load that meets a tenfold slowdown",
        plan: include_str!("plans/fig1.toml"),
        files: &[],
        shows: "The 99.9th percentile slowdown of five policies on Extreme Bimodal with 16 \
                workers, no network and no overheads. Time sharing is shown with free preemption \
                and with 1 us for each.",
        claimed: "Under an objective of 10x, c-FCFS sustains 2.1, time sharing 3.7 and DARC 5.1 \
                  million requests per second, out of 5.34.",
    },
    measure,
    found,
    panels,
    tables,
};

/// The objective of the source.
const OBJECTIVE: f64 = 10.0;

/// How a load of the grid does under the objective.
enum Place {
    Meets,
    Misses,
    /// Its slowdown may lie on either side.
    Open(Interval),
}

fn place(result: &ServerResult) -> Place {
    let Some(slowdown) = result.slowdown().filter(|_| result.stable()) else {
        return Place::Misses;
    };
    let sections = result.sections.iter().flatten();
    let sections: Vec<f64> =
        sections.filter_map(|section| Some(section.slowdown()?.value)).collect();
    let interval = match sections.len() >= SECTIONS_MIN {
        true => sectioning::interval(slowdown.value, &sections, CONFIDENCE),
        false => None,
    };
    match interval.unwrap_or(Interval::around(slowdown.value, 0.0)) {
        one if one.high <= OBJECTIVE => Place::Meets,
        one if one.low > OBJECTIVE => Place::Misses,
        one => Place::Open(one),
    }
}

/// Results of a policy over the grid. Where the knee was run at length, that run decides.
fn grid<'a>(
    experiment: &'a ServerExperiment,
    policy: &'a str,
) -> impl Iterator<Item = &'a ServerResult> {
    experiment
        .of(BASE, policy)
        .map(move |result| experiment.at("knee", policy, result.load()).unwrap_or(result))
}

/// The rate of the largest load of the grid below which every load meets the objective, million
/// requests/s.
fn grid_capacity(experiment: &ServerExperiment, policy: &str) -> Option<f64> {
    let good = grid(experiment, policy).take_while(|result| {
        result.stable() && result.slowdown().is_some_and(|s| s.value <= OBJECTIVE)
    });
    Some(good.last()?.rate_per_s.unwrap_or(0.0) / 1e6)
}

/// The largest load of the grid that meets the objective, if no load on the way to it, nor the next
/// one, may lie on either side.
fn on_grid(experiment: &ServerExperiment, name: String, policy: &str) -> Measured {
    let mut last = None;
    let mut missed = None;
    for result in grid(experiment, policy) {
        match place(result) {
            Place::Meets => last = Some(result),
            Place::Misses => {
                missed = Some(result);
                break;
            }
            Place::Open(interval) => {
                let Interval { estimate, low, high } = interval;
                let end = if estimate <= OBJECTIVE { high } else { low };
                let times = ((end / estimate).ln() / (OBJECTIVE / estimate).ln()).powi(2) * 1.2;
                let why = format!(
                    "At load {} its slowdown is {estimate:.2} ({low:.2} to {high:.2} at 99 %), on \
                     either side of {OBJECTIVE}; a run about {:.0} times as long would decide.",
                    result.load(),
                    times.ceil()
                );
                return missing(name, &why);
            }
        }
    }
    let rate = |result: &ServerResult| result.rate_per_s.unwrap_or(0.0) / 1e6;
    let Some(last) = last else {
        return missing(name, "the objective is met at no load of the grid");
    };
    let n = samples(experiment.of(BASE, policy));
    let note = "Largest load of the grid that meets 10x.".to_string();
    Measured {
        low: Some(rate(last)),
        // The grid ends where it does in the source.
        high: Some(rate(missed.unwrap_or(last))),
        basis: Basis::Grid,
        ..value(name, rate(last), n, note)
    }
}

fn measure(experiment: &ServerExperiment) -> Vec<Measured> {
    let of = |name: &str, policy: &str| on_grid(experiment, id("fig1", name), policy);
    let at_half = |name: &str, policy: &str| {
        let name = id("fig1", name);
        let at = |variant| experiment.at(variant, policy, 0.5);
        match slowdown(at("knee").or(at(BASE))) {
            Some((result, estimate)) => {
                value(name, estimate.value, result.overall.samples, "At load 0.5.".to_string())
            }
            None => missing(name, "too few samples, or unstable"),
        }
    };
    vec![
        of("c_fcfs", "c-FCFS"),
        of("time_sharing", "TS, free"),
        of("time_sharing_1us", "TS, 1 us"),
        at_half("ts_1us_slowdown", "TS, 1 us"),
        of("darc", "DARC"),
    ]
}

fn found(experiment: &ServerExperiment) -> String {
    let rate = |policy| {
        let found = grid_capacity(experiment, policy);
        found.map_or("none".to_string(), |rate| format!("{rate:.2}"))
    };
    format!(
        "On this grid c-FCFS meets it up to {} million requests per second, fixed priority {}, \
         free time sharing {} and DARC {}. With 1 us for each preemption time sharing falls to {}: \
         the published 3.7 assumes that preemption costs nothing.",
        rate("c-FCFS"),
        rate("fixed priority"),
        rate("TS, free"),
        rate("DARC"),
        rate("TS, 1 us"),
    )
}

fn panels(experiment: &ServerExperiment) -> Vec<Panel> {
    let of = |variant| draw::panels_of(experiment, variant, Spread::Replications);
    let mut all: Vec<Panel> = [BASE, "calibrated"].into_iter().flat_map(of).collect();
    // A quick plan searches for nothing; its grid is judged by the same line.
    for panel in all.iter_mut().filter(|panel| panel.id.ends_with("p999-slowdown-all")) {
        if panel.rules.is_empty() {
            panel.rules.push(Rule::across("objective: 10x", OBJECTIVE));
        }
    }
    all
}

fn tables(experiment: &ServerExperiment) -> Vec<Table> {
    vec![cavy_study::draw::points(experiment)]
}
