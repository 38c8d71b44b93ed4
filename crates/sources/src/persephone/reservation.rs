//! Figures 3 and 4: what a reservation buys, and how many workers it should hold
//! ([persephone 5.5, 5.6]).

use super::measure::{capacity_ratio, id, missing, ratio, slowdown, tail, value};
use cavy_kinds::server::draw;
use cavy_kinds::server::result::ServerResult;
use cavy_kinds::server::{ServerExperiment, ServerPlan};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::draw::Spread;
use cavy_study::experiment::BASE;
use cavy_study::outcome::Estimate;
use cavy_study::source::{About, Study};

/// Figure 3.
pub static FIG3: Study<ServerPlan> = Study {
    about: About {
        id: "fig3",
        title: "Figure 3: DARC against c-FCFS and d-FCFS on High Bimodal",
        plan: include_str!("plans/fig3.toml"),
        files: &[],
        shows: "Tail slowdown, and the tail latency of short and of long requests, against load, \
                with 150 ns of cost for each request and 10 us of network; the variant has no \
                cost.",
        claimed: "DARC improves slowdown over c-FCFS by up to 15.7x, sustains 2.3x more load under \
                  an objective of 20 us for short requests, and costs long requests up to 4.2x in \
                  tail latency.",
    },
    measure: measure_fig3,
    found: found_fig3,
    panels,
    tables,
};

/// Figure 4a.
pub static FIG4A: Study<ServerPlan> = Study {
    about: About {
        id: "fig4a",
        title: "Figure 4a: how many workers to reserve, High Bimodal",
        plan: include_str!("plans/fig4a.toml"),
        files: &[],
        shows: "Tail slowdown at 90 % load when 0 to 13 of 14 workers are reserved for short \
                requests; the variants show 80 and 95 %. Zero reserved workers are fixed priority, \
                not c-FCFS, which is drawn beside it.",
        claimed: "Reserving one worker of 14 cuts slowdown 4.4x.",
    },
    measure: |experiment| measure_fig4(experiment, "fig4a"),
    found: |experiment| found_fig4(experiment),
    panels: panels_fig4,
    tables,
};

/// Figure 4b.
pub static FIG4B: Study<ServerPlan> = Study {
    about: About {
        id: "fig4b",
        title: "Figure 4b: how many workers to reserve, Extreme Bimodal",
        plan: include_str!("plans/fig4b.toml"),
        files: &[],
        shows: "The same for Extreme Bimodal. Each further worker helps short requests until long \
                ones no longer fit on the rest.",
        claimed: "DARC's own choice is two workers.",
    },
    measure: |experiment| measure_fig4(experiment, "fig4b"),
    found: |experiment| found_fig4(experiment),
    panels: panels_fig4,
    tables,
};

fn measure_fig3(experiment: &ServerExperiment) -> Vec<Measured> {
    // Where a load was run at length, that run is judged.
    let at =
        |policy, load| experiment.at("edge", policy, load).or(experiment.at(BASE, policy, load));
    vec![
        ratio(id("fig3", "improvement"), slowdown(at("c-FCFS", 0.9)), slowdown(at("DARC", 0.9))),
        capacity_ratio(id("fig3", "capacity"), experiment, BASE, 0, "DARC", "c-FCFS"),
        ratio(
            id("fig3", "long_penalty"),
            tail(at("DARC", 0.9), "long"),
            tail(at("c-FCFS", 0.9), "long"),
        ),
        worst_long_penalty(experiment),
    ]
}

/// Load above which DARC cannot serve the long requests of High Bimodal: their demand of 13.861 of
/// 14 workers has 13 ([persephone 2.12]). An overload of 0.2 %, at load 0.94, is too slow to be
/// seen in a run of a few million requests.
const STABLE_BELOW: f64 = 13.0 / 13.861;

/// The largest ratio of long tails over all loads at which DARC is stable.
fn worst_long_penalty(experiment: &ServerExperiment) -> Measured {
    let name = || id("fig3", "long_penalty_worst");
    experiment
        .of(BASE, "DARC")
        .chain(experiment.of("edge", "DARC"))
        .filter(|darc| darc.load() < STABLE_BELOW)
        .filter(|darc| {
            darc.variant == "edge" || experiment.at("edge", "DARC", darc.load()).is_none()
        })
        .map(|darc| {
            let central = experiment.at(&darc.variant, "c-FCFS", darc.load());
            let mut found = ratio(name(), tail(Some(darc), "long"), tail(central, "long"));
            found.note = format!("At load {}: {}", darc.load(), found.note);
            found
        })
        .filter(|found| found.value.is_some())
        .max_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0)))
        .unwrap_or_else(|| missing(name(), "no load at which both are stable"))
}

fn found_fig3(experiment: &ServerExperiment) -> String {
    let long = |policy| {
        let result = experiment.at(BASE, policy, 0.9);
        tail(result, "long").map_or("n/a".to_string(), |(_, e)| format!("{:.0}", e.median))
    };
    format!(
        "The price stands beside the gain: at 90 % load the long tail is {} us under DARC against \
         {} us under c-FCFS. And DARC is stable only below load 0.938, where c-FCFS goes on to 1: \
         one worker in 14 refuses long requests, so their demand of 13.86 workers has 13 \
         ([persephone 2.12]). Just above, at 0.94, the overload is 0.2 % and the backlog grows too \
         slowly for a run to show it.",
        long("DARC"),
        long("c-FCFS"),
    )
}

/// Results of DARC-static by the number of reserved workers.
fn by_reserved<'a>(
    experiment: &'a ServerExperiment,
    variant: &'a str,
) -> Vec<(u64, &'a ServerResult)> {
    experiment
        .of(variant, "DARC-static")
        .filter_map(|result| {
            let reserved = result.settings.values().next()?.as_u64()?;
            Some((reserved, result))
        })
        .collect()
}

fn measure_fig4(experiment: &ServerExperiment, figure: &str) -> Vec<Measured> {
    let rows = by_reserved(experiment, BASE);
    let at = |reserved| rows.iter().find(|(r, _)| *r == reserved).map(|(_, result)| *result);
    let n = super::measure::samples(rows.iter().map(|(_, result)| *result));
    let best = rows
        .iter()
        .filter_map(|(reserved, result)| {
            slowdown(Some(*result)).map(|(_, e)| (e.median, *reserved))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let unstable = rows.iter().find(|(_, result)| !result.stable()).map(|(reserved, _)| *reserved);
    let chosen = experiment
        .of(BASE, "DARC")
        .find_map(|result| result.reservation.as_ref()?.split(['/', '+']).next()?.parse().ok());
    let whole = |name: &str, found: Option<u64>, note: &str| {
        let name = id(figure, name);
        match found {
            Some(count) => value(name, count as f64, n, note.to_string()),
            None => missing(name, "none found"),
        }
    };
    let mut all = vec![
        whole("choice", chosen, "Workers DARC reserves for short requests by itself."),
        whole(
            "unstable_from",
            unstable,
            "Fewest reserved workers with which long requests no longer fit.",
        ),
    ];
    if figure == "fig4a" {
        all.push(ratio(id(figure, "gain"), slowdown(at(0)), slowdown(at(1))));
        all.push(whole(
            "best",
            best.map(|(_, reserved)| reserved),
            "Reserved workers with the least slowdown.",
        ));
    } else {
        // Above 1: DARC's two workers serve shorts worse than three would.
        all.push(ratio(id(figure, "third_worker"), slowdown(at(2)), slowdown(at(3))));
        all.push(ratio(id(figure, "third_worker_price"), tail99(at(3)), tail99(at(2))));
    }
    all
}

/// 99th percentile of long requests: the 99.9th would need twenty million requests.
fn tail99(result: Option<&ServerResult>) -> Option<(&ServerResult, &Estimate)> {
    let result = result.filter(|result| result.stable())?;
    Some((result, result.summary(Some("long"))?.p99_us.as_ref()?.supported()?))
}

fn found_fig4(experiment: &ServerExperiment) -> String {
    let words: Vec<String> = by_reserved(experiment, BASE)
        .iter()
        .take(5)
        .map(|(reserved, result)| match slowdown(Some(*result)) {
            Some((_, e)) => format!("{reserved} reserved: {:.3}", e.median),
            None => format!("{reserved} reserved: unstable"),
        })
        .collect();
    let central = slowdown(experiment.of(BASE, "c-FCFS").next());
    let central = central.map_or("n/a".to_string(), |(_, e)| format!("{:.3}", e.median));
    let chosen = |policy| experiment.of(BASE, policy).find_map(|r| r.reservation.clone());
    format!(
        "Slowdown at 90 % load: {}; c-FCFS {central}. For the exact mix DARC reserves {}; \
         following its profile it ended at {}, as the noise of a window may tip a demand over its \
         rounding point.",
        words.join(", "),
        chosen("DARC").unwrap_or_default(),
        chosen("DARC, profiled").unwrap_or_default(),
    )
}

fn panels_fig4(experiment: &ServerExperiment) -> Vec<Panel> {
    let mut all = Vec::new();
    for variant in experiment.variants() {
        all.extend(draw::panel(experiment, variant, draw::Tail::SLOWDOWN, Spread::Replications));
    }
    let long = draw::Tail {
        percentile: cavy_study::objective::Percentile::P99,
        quantity: cavy_study::objective::Quantity::Us,
        kind: Some("long"),
    };
    all.extend(draw::panel(experiment, BASE, long, Spread::Replications));
    all
}

fn panels(experiment: &ServerExperiment) -> Vec<Panel> {
    let mut all = draw::panels_of(experiment, BASE, Spread::Replications);
    all.extend(draw::panels_of(experiment, "ideal", Spread::Replications));
    all
}

fn tables(experiment: &ServerExperiment) -> Vec<Table> {
    let mut all = cavy_study::draw::rankings(experiment);
    all.push(cavy_study::draw::points(experiment));
    all
}
