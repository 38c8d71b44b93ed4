//! Figure 1: why idling can be ideal ([persephone 5.4]).

use super::measure::{id, missing, samples, slowdown, value};
use cavy_kinds::server::draw;
use cavy_kinds::server::{ServerExperiment, ServerPlan, ServerResult};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::{Basis, Measured};
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

/// The result at the largest load of the grid below which every load meets the objective, and the
/// rate at the next load of the grid, in million requests/s.
fn grid_capacity(experiment: &ServerExperiment, policy: &str) -> Option<(f64, Option<f64>)> {
    let results: Vec<&ServerResult> = experiment.of(BASE, policy).collect();
    let good = results.iter().take_while(|result| {
        // Where the knee was run at length, that run decides.
        let result = experiment.at("knee", policy, result.load()).unwrap_or(result);
        result.stable() && result.slowdown().is_some_and(|s| s.value <= OBJECTIVE)
    });
    let good = good.count();
    let rate = |index: usize| Some(results.get(index)?.rate_per_s.unwrap_or(0.0) / 1e6);
    Some((rate(good.checked_sub(1)?)?, rate(good)))
}

fn measure(experiment: &ServerExperiment) -> Vec<Measured> {
    let of = |name: &str, policy: &str| {
        let name = id("fig1", name);
        match grid_capacity(experiment, policy) {
            Some((rate, missed)) => {
                let n = samples(experiment.of(BASE, policy));
                let note = "Largest load of the grid that meets 10x.".to_string();
                // The grid ends where it does in the source.
                let high = Some(missed.unwrap_or(rate));
                let basis = Basis::Grid;
                Measured { low: Some(rate), high, basis, ..value(name, rate, n, note) }
            }
            None => missing(name, "the objective is met at no load of the grid"),
        }
    };
    let at_half = |name: &str, policy: &str| {
        let name = id("fig1", name);
        match slowdown(experiment.at(BASE, policy, 0.5)) {
            Some((result, estimate)) => Measured {
                low: Some(estimate.min()),
                high: Some(estimate.max()),
                ..value(name, estimate.value, result.overall.samples, "At load 0.5.".to_string())
            },
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
        found.map_or("none".to_string(), |(rate, _)| format!("{rate:.2}"))
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
    [BASE, "calibrated"].into_iter().flat_map(of).collect()
}

fn tables(experiment: &ServerExperiment) -> Vec<Table> {
    vec![cavy_study::draw::points(experiment)]
}
