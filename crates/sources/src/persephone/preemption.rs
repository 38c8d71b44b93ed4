//! Figure 10: time sharing with what a preemption costs ([persephone 5.12]).

use super::measure::{id, ratio, slowdown};
use cavy_kinds::server::draw;
use cavy_kinds::server::{ServerExperiment, ServerPlan};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::draw::Spread;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Figure 10 on Extreme Bimodal.
pub static FIG10A: Study<ServerPlan> = Study {
    about: About {
        id: "fig10a",
        title: "Figure 10a: the price of preemption, Extreme Bimodal",
        plan: include_str!("plans/fig10a.toml"),
        files: &[],
        shows: "Time sharing over one queue in slices of 5 us, when each preemption costs 0, 1, 2 \
                and 4 us, beside DARC; no other cost, no network.",
        claimed: "With preemption that costs as much as it does, DARC serves better (recalled, not \
                  verified).",
    },
    measure: |experiment| measure(experiment, "fig10a"),
    found,
    panels,
    tables,
};

/// Figure 10 on High Bimodal.
pub static FIG10B: Study<ServerPlan> = Study {
    about: About {
        id: "fig10b",
        title: "Figure 10b: the price of preemption, High Bimodal",
        plan: include_str!("plans/fig10b.toml"),
        files: &[],
        shows: "The same for High Bimodal and a queue for each type.",
        claimed: "With preemption that costs as much as it does, DARC serves better (recalled, not \
                  verified).",
    },
    measure: |experiment| measure(experiment, "fig10b"),
    found,
    panels,
    tables,
};

fn measure(experiment: &ServerExperiment, figure: &str) -> Vec<Measured> {
    let at = |policy| slowdown(experiment.at(BASE, policy, 0.7));
    vec![ratio(id(figure, "one_us"), at("TS, 1 us"), at("DARC"))]
}

fn found(experiment: &ServerExperiment) -> String {
    let at = |policy| match slowdown(experiment.at(BASE, policy, 0.7)) {
        Some((_, e)) => format!("{:.3}", e.median),
        None => "unstable".to_string(),
    };
    format!(
        "Slowdown at 70 % load: DARC {}, time sharing {} when preemption is free, {} at 1 us, {} \
         at 2 us, {} at 4 us.",
        at("DARC"),
        at("TS, free"),
        at("TS, 1 us"),
        at("TS, 2 us"),
        at("TS, 4 us"),
    )
}

fn panels(experiment: &ServerExperiment) -> Vec<Panel> {
    draw::panels(experiment, Spread::Replications)
}

fn tables(experiment: &ServerExperiment) -> Vec<Table> {
    vec![cavy_study::draw::points(experiment)]
}
