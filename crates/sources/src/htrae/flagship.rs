//! Better than the source: what a service can say that sees all probes, by the bounds of the design
//! that were written down before (decision 19).

use super::choices::tables;
use super::errors::panels;
use super::measure::{at, pick, ratio, shown, supported, value};
use cavy_kinds::coords::{CoordsExperiment, CoordsPlan, CoordsResult};
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

const SURVEY: &str = "survey";
const FORGETFUL: &str = "no history";
const HTRAE: &str = "Htrae";

fn of<'a>(
    e: &'a CoordsExperiment,
    label: &str,
    probes: f64,
    wrong: f64,
) -> Option<&'a CoordsResult> {
    at(e, BASE, label, &[("probes_per_node", probes), ("wrong_positions_ratio", wrong)])
}

/// The flagship.
pub static FLAGSHIP: Study<CoordsPlan> = Study {
    about: About {
        id: "flagship",
        title: "What a service can say that sees all probes",
        plan: include_str!("plans/flagship.toml"),
        files: &[],
        shows: "cavy's own predictor beside Htrae and geolocation: distance and heights, what \
                pairs of cells and nearby peers take longer, positions that measurements correct, \
                and moving coordinates. Its constants were chosen on these anchors; on players \
                that are made up it is run as it is.",
        claimed: "Nothing: this is ours. The bounds are those of the design.",
    },
    measure: |e| {
        let id = |what: String| format!("htrae.flagship.{what}");
        let mut all = Vec::new();
        for probes in [13, 50] {
            let run = of(e, SURVEY, f64::from(probes), 0.0);
            for percent in [50, 90] {
                let name = id(format!("p{percent}_{probes}"));
                all.push(value(name, run, |r| r.before.ms(percent), 1.0));
            }
        }
        let run = at(e, "parts", FORGETFUL, &[]);
        for percent in [50, 90] {
            let name = id(format!("forgetful_p{percent}"));
            all.push(value(name, run, |r| r.before.ms(percent), 1.0));
        }
        let run = of(e, SURVEY, 13.0, 0.0);
        for count in [5, 20] {
            let hit = id(format!("hit_{count}"));
            all.push(value(hit, run, |r| Some(&pick(r, count)?.hit_ratio), 100.0));
            let penalty = id(format!("penalty_{count}"));
            all.push(value(penalty, run, |r| supported(&pick(r, count)?.penalty_p90_ms), 1.0));
        }
        all.push(value(id("probed".into()), run, |r| Some(&pick(r, 20)?.probed_hit_ratio), 100.0));
        let name = id("probed_penalty".into());
        all.push(value(name, run, |r| supported(&pick(r, 20)?.probed_penalty_p95_ms), 1.0));
        for wrong in [10, 30, 50] {
            for probes in [13, 50] {
                let run = |label| of(e, label, f64::from(probes), f64::from(wrong) / 100.0);
                for percent in [50, 90] {
                    let name = id(format!("wrong_{wrong}_{probes}_p{percent}"));
                    all.push(ratio(name, run(SURVEY), run(HTRAE), |r| r.before.ms(percent)));
                }
            }
        }
        let players = |label| at(e, "players", label, &[]);
        for percent in [50, 90] {
            let name = id(format!("players_p{percent}"));
            all.push(ratio(name, players(SURVEY), players(HTRAE), |r| r.before.ms(percent)));
        }
        all
    },
    found: |e| {
        let words = |run: Option<&CoordsResult>, label: &str| {
            let ms = |percent| shown(run.and_then(|r| r.before.ms(percent)));
            let hit = |count| shown(run.and_then(|r| Some(&pick(r, count)?.hit_ratio)));
            format!("{label} {}/{} ms, {} of 5, {} of 20", ms(50), ms(90), hit(5), hit(20))
        };
        let wrong = |share: f64| {
            let ms = |label: &str| {
                let run = of(e, label, 13.0, share);
                let ms = |percent| shown(run.and_then(|r| r.before.ms(percent)));
                format!("{}/{}", ms(50), ms(90))
            };
            format!("{} % wrong: {} against {}", share * 100.0, ms(SURVEY), ms(HTRAE))
        };
        format!(
            "At 13 probes a node, p50/p90 of errors before and shares of picks that are the \
             nearest: {}; {}; {}; {}. {}.",
            words(of(e, SURVEY, 13.0, 0.0), SURVEY),
            words(at(e, "parts", FORGETFUL, &[]), FORGETFUL),
            words(of(e, HTRAE, 13.0, 0.0), HTRAE),
            words(of(e, "geolocation", 13.0, 0.0), "geolocation"),
            wrong(0.3),
        )
    },
    panels,
    tables,
};
