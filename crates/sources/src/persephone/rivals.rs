//! Figures 5, 6 and 7: DARC against Shenango and Shinjuku ([persephone 5.7] to [persephone 5.10]).

use super::measure::{capacity_ratio, id, missing, ratio, slowdown, tail};
use cavy_kinds::server::ServerResult;
use cavy_kinds::server::draw;
use cavy_kinds::server::{ServerExperiment, ServerPlan};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::draw::Spread;
use cavy_study::experiment::BASE;
use cavy_study::outcome::Estimate;
use cavy_study::source::{About, Study};

/// Figure 5a.
pub static FIG5A: Study<ServerPlan> = Study {
    about: About {
        id: "fig5a",
        title: "Figure 5a: High Bimodal",
        plan: include_str!("plans/fig5a.toml"),
        files: &[],
        shows: "Tail slowdown and tail latencies of three systems, each with the costs calibrated \
                in the specification. Variants show what the costs decide: none at all, 1 and 2 us \
                for a preemption, 0 and 230 ns for a request.",
        claimed: "For a slowdown of 20x DARC sustains 2.35x more than Shenango and 1.3x more than \
                  Shinjuku.",
    },
    measure: |experiment| {
        vec![
            capacity_ratio(id("fig5a", "shenango"), experiment, BASE, 0, "DARC", "Shenango"),
            capacity_ratio(id("fig5a", "shinjuku"), experiment, BASE, 0, "DARC", "Shinjuku"),
        ]
    },
    found: |experiment| {
        format!(
            "The lead over Shinjuku depends on what a preemption costs: DARC sustains {} times its \
             load at 1 us, {} at 1.5 us and {} at 2 us.",
            lead(experiment, "preemption_1us"),
            lead(experiment, BASE),
            lead(experiment, "preemption_2us"),
        )
    },
    panels,
    tables,
};

/// Figure 5b.
pub static FIG5B: Study<ServerPlan> = Study {
    about: About {
        id: "fig5b",
        title: "Figure 5b: Extreme Bimodal",
        plan: include_str!("plans/fig5b.toml"),
        files: &[],
        shows: "The same for Extreme Bimodal, with Shinjuku on a single queue. Requests of 0.5 us \
                make this workload sensitive to the cost of a request, so 0 and 230 ns are shown \
                as well.",
        claimed: "For a slowdown of 50x DARC sustains 1.4x more than Shenango, and reduces \
                  slowdown by up to 2x over Shinjuku.",
    },
    measure: |experiment| {
        let at = |policy, load| experiment.at(BASE, policy, load);
        vec![
            capacity_ratio(id("fig5b", "shenango"), experiment, BASE, 0, "DARC", "Shenango"),
            ratio(
                id("fig5b", "slowdown"),
                slowdown(at("Shinjuku", 0.5)),
                slowdown(at("DARC", 0.5)),
            ),
            ratio(
                id("fig5b", "long_tail"),
                long_tail(experiment.at("long", "Shinjuku", 0.25)),
                long_tail(experiment.at("long", "DARC", 0.25)),
            ),
        ]
    },
    found: |experiment| {
        let capacity = |variant: &str| {
            let found = experiment.capacity(variant, "DARC", 0).and_then(|c| c.at);
            found.map_or("n/a".to_string(), |load| format!("{load:.3}"))
        };
        format!(
            "DARC meets 50x up to load {} with 150 ns for each request; with none up to {}, with \
             230 ns up to {}. The rounded demand gives short requests two workers; three would \
             serve them better (Figure 4b, O2).",
            capacity(BASE),
            capacity("request_0ns"),
            capacity("request_230ns"),
        )
    },
    panels,
    tables,
};

/// Figure 6.
pub static FIG6: Study<ServerPlan> = Study {
    about: About {
        id: "fig6",
        title: "Figure 6: TPC-C",
        plan: include_str!("plans/fig6.toml"),
        files: &[],
        shows: "Tail latency of five types of transactions and overall slowdown. DARC is shown \
                with the reservation 2/6/6 held, and with the one it profiles.",
        claimed: "At 85 % load DARC improves the tail of Payment, OrderStatus and NewOrder by \
                  9.2x, 7x and 3.6x over c-FCFS in Shenango and overall slowdown by up to 4.6x, \
                  and sustains 1.2x and 1.05x more load than Shenango and Shinjuku under 10x.",
    },
    measure: measure_fig6,
    found: found_fig6,
    panels,
    tables,
};

/// Figure 7.
pub static FIG7: Study<ServerPlan> = Study {
    about: About {
        id: "fig7",
        title: "Figure 7: RocksDB",
        plan: include_str!("plans/fig7.toml"),
        files: &[],
        shows: "Half point reads of 1.5 us, half scans of 635 us. The variant makes scans a fifth \
                slower under Shinjuku, as masking interrupts around each of 15 000 library calls \
                may.",
        claimed: "For a slowdown of 20x DARC sustains 2.3x more than Shenango and 1.3x more than \
                  Shinjuku.",
    },
    measure: |experiment| {
        vec![
            capacity_ratio(id("fig7", "shenango"), experiment, BASE, 0, "DARC", "Shenango"),
            capacity_ratio(id("fig7", "shinjuku"), experiment, BASE, 0, "DARC", "Shinjuku"),
            capacity_ratio(id("fig7", "scan_tax"), experiment, "scan_tax", 0, "DARC", "Shinjuku"),
        ]
    },
    found: |experiment| {
        format!(
            "Slices of 14.4 us cost scans so little that DARC sustains only {} times Shinjuku's \
             load. With scans a fifth slower inside Shinjuku it is {}: the published 1.3 needs \
             RocksDB itself to be slower there.",
            lead(experiment, BASE),
            lead(experiment, "scan_tax"),
        )
    },
    panels,
    tables,
};

/// DARC's capacity over Shinjuku's, in words.
fn lead(experiment: &ServerExperiment, variant: &str) -> String {
    let found = capacity_ratio(String::new(), experiment, variant, 0, "DARC", "Shinjuku");
    found.value.map_or("n/a".to_string(), |ratio| format!("{ratio:.2}"))
}

/// The long tail of Extreme Bimodal by its 99th percentile: long requests are 0.5 % of all, and
/// their 99.9th would need twenty million requests ([persephone 5.3]).
fn long_tail(result: Option<&ServerResult>) -> Option<(&ServerResult, &Estimate)> {
    let result = result.filter(|result| result.stable())?;
    Some((result, result.summary(Some("long"))?.p99_us.as_ref()?.supported()?))
}

fn measure_fig6(experiment: &ServerExperiment) -> Vec<Measured> {
    let at85 = |policy| experiment.at("load85", policy, 0.85);
    let gain = |name: &str, kind: &str| {
        ratio(id("fig6", name), tail(at85("Shenango"), kind), tail(at85("DARC"), kind))
    };
    let best = experiment
        .of(BASE, "DARC")
        .map(|darc| {
            let shenango = experiment.at(BASE, "Shenango", darc.load());
            let mut found = ratio(id("fig6", "slowdown"), slowdown(shenango), slowdown(Some(darc)));
            found.note = format!("At load {}: {}", darc.load(), found.note);
            found
        })
        .filter(|found| found.value.is_some())
        .max_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0)));
    vec![
        gain("payment", "Payment"),
        gain("order_status", "OrderStatus"),
        gain("new_order", "NewOrder"),
        best.unwrap_or_else(|| missing(id("fig6", "slowdown"), "no load at which both are stable")),
        capacity_ratio(id("fig6", "shenango"), experiment, BASE, 0, "DARC", "Shenango"),
        capacity_ratio(id("fig6", "shinjuku"), experiment, BASE, 0, "DARC", "Shinjuku"),
    ]
}

fn found_fig6(experiment: &ServerExperiment) -> String {
    let at85 = |policy| experiment.at("load85", policy, 0.85);
    let stock = |policy| {
        tail(at85(policy), "StockLevel")
            .map_or("n/a".to_string(), |(_, e)| format!("{:.0}", e.median))
    };
    let last_stable = experiment
        .of(BASE, "DARC")
        .filter(|result| result.stable())
        .map(|result| result.load())
        .fold(0.0, f64::max);
    let profiled = at85("DARC, profiled").and_then(|r| r.reservation.clone());
    let profiled = profiled.map_or(String::new(), |reservation| {
        format!(
            " The profiled reservation ended as {reservation}: demands of 6.46 and 5.52 workers \
             lie close to the rounding point."
        )
    });
    format!(
        "The price: at 85 % load StockLevel waits {} us under DARC against {} us under Shenango, \
         and DARC is stable up to load {last_stable} on this grid.{profiled}",
        stock("DARC"),
        stock("Shenango"),
    )
}

fn panels(experiment: &ServerExperiment) -> Vec<Panel> {
    let mut all = draw::panels_of(experiment, BASE, Spread::Replications);
    for variant in experiment.variants() {
        if ![BASE, "load85", "long"].contains(&variant) {
            all.extend(draw::panel(
                experiment,
                variant,
                draw::Tail::SLOWDOWN,
                Spread::Replications,
            ));
        }
    }
    all
}

fn tables(experiment: &ServerExperiment) -> Vec<Table> {
    let mut all = cavy_study::draw::rankings(experiment);
    all.truncate(1);
    all.push(cavy_study::draw::points(experiment));
    all
}
