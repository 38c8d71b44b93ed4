//! What each part of Htrae is worth, and what becomes of it with constants of other machines.

use super::errors::{error_panels, points};
use super::measure::{at, ratio, shown, value};
use cavy_kinds::coords::{CoordsExperiment, CoordsPlan, CoordsResult};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

const HTRAE: &str = "Htrae";
const ONE_END: &str = "updates of one end";
const UNCORRECTED: &str = "no correction within systems";
const PLAYERS: &str = "players";

fn of<'a>(e: &'a CoordsExperiment, label: &str, probes: f64) -> Option<&'a CoordsResult> {
    at(e, BASE, label, &[("probes_per_node", probes)])
}

/// H2.
pub static PARTS: Study<CoordsPlan> = Study {
    about: About {
        id: "parts",
        title: "What each part is worth",
        plan: include_str!("plans/parts.toml"),
        files: &[],
        shows: "Htrae with updates of both ends and without history, each part added or taken \
                away. Heights within a system are corrected on players that are made up, as \
                anchors hardly share systems.",
        claimed: "The geographic start is worth the most, updates of both ends come second.",
    },
    measure: |e| {
        let id = |what: &str| format!("htrae.parts.{what}");
        let against = |name: &str, label: &str, percent: u32| -> Measured {
            let (part, whole) = (of(e, label, 13.0), of(e, HTRAE, 13.0));
            ratio(id(name), part, whole, |r| r.before.ms(percent))
        };
        let worth = |name: &str, probes: f64| {
            let (both, one) = (of(e, HTRAE, probes), of(e, ONE_END, 2.0 * probes));
            ratio(id(name), both, one, |r| r.after.ms(50))
        };
        let players = |label| at(e, PLAYERS, label, &[]);
        let systems = (players(HTRAE), players(UNCORRECTED));
        let history = of(e, "history", 13.0);
        vec![
            against("start", "random start", 50),
            against("one_end", ONE_END, 90),
            against("detours", "rule against detours", 90),
            worth("symmetric_8", 8.0),
            worth("symmetric_16", 16.0),
            value(id("history_p50"), history, |r| r.before.ms(50), 1.0),
            value(id("history_p90"), history, |r| r.before.ms(90), 1.0),
            ratio(id("systems_same"), systems.0, systems.1, |r| r.same_system.ms(50)),
            ratio(id("systems_others"), systems.0, systems.1, |r| r.after.ms(50)),
        ]
    },
    found: |e| {
        let words = |label: &str| {
            let run = of(e, label, 13.0);
            let ms = |percent| shown(run.and_then(|r| r.before.ms(percent)));
            format!("{label} {}/{}", ms(50), ms(90))
        };
        let all: Vec<String> = e.labels(BASE).into_iter().map(words).collect();
        let same = |label| shown(at(e, PLAYERS, label, &[]).and_then(|r| r.same_system.ms(50)));
        format!(
            "p50/p90 of errors before, in ms at 13 probes a node: {}. Median error within small \
             systems, players: {} ms with the correction, {} without.",
            all.join(", "),
            same(HTRAE),
            same(UNCORRECTED)
        )
    },
    panels: error_panels,
    tables: points,
};

/// From the talk: constants can be hard-wired.
pub static TRANSFER: Study<CoordsPlan> = Study {
    about: About {
        id: "transfer",
        title: "Constants of other machines",
        plan: include_str!("plans/transfer.toml"),
        files: &[],
        shows: "The line from distance to round trip is fitted to AWS's regions of 2025 and \
                hard-wired for anchors of 2018.",
        claimed: "Parameters are hard-wired; there are not many of them.",
    },
    measure: |e| {
        let of = |label: &str| at(e, BASE, label, &[]);
        let pair = |name: &str, label: &str, percent: u32| {
            let (other, own) = (format!("{label}, AWS's line"), format!("{label}, its own line"));
            let id = format!("htrae.transfer.{name}");
            ratio(id, of(&other), of(&own), |r| r.before.ms(percent))
        };
        vec![pair("p90", HTRAE, 90), pair("geolocation_p90", "geolocation", 90)]
    },
    found: |e| {
        let words = |label: &str| {
            let run = at(e, BASE, label, &[]);
            let ms = |percent| shown(run.and_then(|r| r.before.ms(percent)));
            format!("{label} {}/{}", ms(50), ms(90))
        };
        let all: Vec<String> = e.labels(BASE).into_iter().map(words).collect();
        format!("p50/p90 of errors before, in ms at 13 probes a node: {}.", all.join(", "))
    },
    panels: |_| Vec::new(),
    tables: points,
};
