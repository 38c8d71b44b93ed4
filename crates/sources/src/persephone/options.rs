//! The improvements of [persephone 8.2] beside DARC as published. O3 is part of Figure 8.

use super::measure::{id, missing, ratio, slowdown, tail, value};
use cavy_kinds::server::draw;
use cavy_kinds::server::{ServerExperiment, ServerPlan};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::draw::Spread;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// O1: estimators.
pub static O1: Study<ServerPlan> = Study {
    about: About {
        id: "o1",
        title: "O1: an estimator that does not decay",
        plan: include_str!("plans/o1.toml"),
        files: &[],
        shows: "DARC with three estimators of mean service time on Extreme Bimodal means with \
                exponential service times: sums over the window, an exponentially weighted mean, \
                and the artifact's integer mean, which truncates at every step.",
        claimed: "The artifact's mean can only fall once it has seen many samples (defect D1).",
    },
    measure: |experiment| {
        let at = |policy| slowdown(experiment.at(BASE, policy, 0.8));
        vec![
            ratio(id("o1", "weighted"), at("DARC, weighted"), at("DARC, sums")),
            ratio(id("o1", "truncated"), at("DARC, truncated (D1)"), at("DARC, sums")),
        ]
    },
    found: |experiment| {
        let words: Vec<String> = experiment
            .labels(BASE)
            .into_iter()
            .filter_map(|policy| {
                let result = experiment.at(BASE, policy, 0.8)?;
                let slow = slowdown(Some(result))
                    .map_or("unstable".to_string(), |(_, e)| format!("{:.3}", e.median));
                Some(format!(
                    "{policy}: slowdown {slow}, reservation {}",
                    result.reservation.clone()?
                ))
            })
            .collect();
        format!("At 80 % load: {}.", words.join("; "))
    },
    panels,
    tables,
};

/// O2, O5, O7: how many workers.
pub static O2: Study<ServerPlan> = Study {
    about: About {
        id: "o2",
        title: "O2, O5, O7: counting reserved workers better",
        plan: include_str!("plans/o2.toml"),
        files: &[],
        shows: "Extreme Bimodal with 230 ns of cost for each request. DARC's demand sees service \
                only; O2 shares workers out by the whole time a request holds one, O5 sizes the \
                short group for the measured load, O7 rehearses the last requests under each \
                candidate.",
        claimed: "Reserving by occupancy moves the 50x point from load 0.62 to above 0.85 (our \
                  simulation, specification 8.2).",
    },
    measure: measure_o2,
    found: |experiment| {
        let words: Vec<String> = experiment
            .labels(BASE)
            .into_iter()
            .map(|policy| {
                let load = experiment.capacity(BASE, policy, 0).and_then(|c| c.at);
                let load = load.map_or("no load".to_string(), |load| format!("load {load:.2}"));
                let table = experiment.at(BASE, policy, 0.8).and_then(|r| r.reservation.clone());
                format!("{policy} {load} (reserves {})", table.unwrap_or_default())
            })
            .collect();
        format!("Highest load that meets 50x: {}.", words.join(", "))
    },
    panels,
    tables,
};

/// O4: fairness within a group.
pub static O4: Study<ServerPlan> = Study {
    about: About {
        id: "o4",
        title: "O4: first come first served within a group",
        plan: include_str!("plans/o4.toml"),
        files: &[],
        shows: "TPC-C with the reservation 2/6/6 held. Within the group of Delivery and StockLevel \
                the artifact lets the shorter type go first.",
        claimed: "First come first served in a group cuts overall slowdown at 85 % load from 8.0 \
                  to 5.8 and StockLevel's tail from 1312 to 741 us, at Delivery's cost (our \
                  simulation, specification 8.2).",
    },
    measure: |experiment| {
        let at = |policy| experiment.at(BASE, policy, 0.85);
        let (by_type, fcfs) = (at("DARC, by type"), at("DARC, FCFS"));
        vec![
            ratio(id("o4", "slowdown"), slowdown(by_type), slowdown(fcfs)),
            ratio(id("o4", "stock_level"), tail(by_type, "StockLevel"), tail(fcfs, "StockLevel")),
            ratio(id("o4", "delivery"), tail(fcfs, "Delivery"), tail(by_type, "Delivery")),
        ]
    },
    found: |experiment| {
        let at = |policy, kind| {
            tail(experiment.at(BASE, policy, 0.85), kind)
                .map_or("n/a".to_string(), |(_, e)| format!("{:.0}", e.median))
        };
        format!(
            "At 85 % load StockLevel waits {} us by type and {} us first come first served; \
             Delivery {} and {} us.",
            at("DARC, by type", "StockLevel"),
            at("DARC, FCFS", "StockLevel"),
            at("DARC, by type", "Delivery"),
            at("DARC, FCFS", "Delivery"),
        )
    },
    panels,
    tables,
};

fn measure_o2(experiment: &ServerExperiment) -> Vec<Measured> {
    let load = |name: &str, policy: &str| {
        let name = id("o2", name);
        match experiment.capacity(BASE, policy, 0) {
            Some(capacity) if !capacity.decided => missing(name, &capacity.limit_in_full()),
            Some(capacity) => {
                let load = capacity.crossing.unwrap_or(0.0);
                value(name, load, capacity.work, capacity.limit_in_full())
            }
            None => missing(name, "no capacity was searched"),
        }
    };
    vec![
        load("darc", "DARC"),
        load("occupancy", "O2, by occupancy"),
        load("load_aware", "O5, load-aware"),
        load("rehearsed", "O7, rehearsed"),
    ]
}

fn panels(experiment: &ServerExperiment) -> Vec<Panel> {
    draw::panels(experiment, Spread::Replications)
}

fn tables(experiment: &ServerExperiment) -> Vec<Table> {
    let mut all = cavy_study::draw::rankings(experiment);
    all.push(cavy_study::draw::points(experiment));
    all
}
