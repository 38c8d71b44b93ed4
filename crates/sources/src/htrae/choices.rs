//! What predictions are for: who picks the nearest server, and who finds a peer that is near
//! enough.

use super::errors::panels;
use super::measure::{NAMES, SYMMETRIC, at, pick, shown, supported, value};
use cavy_kinds::coords::{CoordsExperiment, CoordsPlan};
use cavy_report::model::Table;
use cavy_study::draw;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Picks by the number of candidates, and all points.
pub fn tables(e: &CoordsExperiment) -> Vec<Table> {
    let of = |variant: &str| <CoordsPlan as cavy_study::subject::Subject>::tables(e, variant);
    let mut all: Vec<Table> = e.variants().into_iter().flat_map(of).collect();
    all.push(draw::points(e));
    all
}

const PLAYERS: &str = "players";

/// H3.
pub static SERVER: Study<CoordsPlan> = Study {
    about: About {
        id: "server",
        title: "The best server",
        plan: include_str!("plans/server.toml"),
        files: &[],
        shows: "After thirteen probes a node each one picks among candidates that are drawn. \
                Hits, and how much farther than the nearest a pick is; on the anchors, and on \
                players that are made up.",
        claimed: "Htrae picks the best server in 70 % of cases. The number of candidates is not \
                  known.",
    },
    measure: |e| {
        let mut all = Vec::new();
        let id = |what: String| format!("htrae.server.{what}");
        let rows =
            NAMES.iter().copied().chain([("Htrae, history", "history"), ("random", "random")]);
        for (label, name) in rows {
            if name.contains("pyxida") || name == "vivaldi_symmetric" {
                continue;
            }
            let run = at(e, BASE, label, &[]);
            for count in [5, 20] {
                all.push(value(
                    id(format!("{name}_hit_{count}")),
                    run,
                    |r| Some(&pick(r, count)?.hit_ratio),
                    100.0,
                ));
                let p90 = id(format!("{name}_penalty_{count}_p90"));
                all.push(value(p90, run, |r| supported(&pick(r, count)?.penalty_p90_ms), 1.0));
                let p95 = id(format!("{name}_penalty_{count}_p95"));
                all.push(value(p95, run, |r| supported(&pick(r, count)?.penalty_p95_ms), 1.0));
            }
            let probed = id(format!("{name}_probed"));
            all.push(value(probed, run, |r| Some(&pick(r, 20)?.probed_hit_ratio), 100.0));
            let penalty = id(format!("{name}_probed_penalty"));
            all.push(value(penalty, run, |r| supported(&pick(r, 20)?.probed_penalty_p95_ms), 1.0));
        }
        for count in [3, 4] {
            let hit = |name: &str, label: &str| {
                let run = at(e, BASE, label, &[]);
                let hit = id(format!("{name}_hit_{count}"));
                value(hit, run, |r| Some(&pick(r, count)?.hit_ratio), 100.0)
            };
            all.push(hit("symmetric", SYMMETRIC));
        }
        for count in [4, 6, 8] {
            let run = at(e, PLAYERS, SYMMETRIC, &[]);
            let hit = id(format!("players_hit_{count}"));
            all.push(value(hit, run, |r| Some(&pick(r, count)?.hit_ratio), 100.0));
        }
        all
    },
    found: |e| {
        let of = |variant: &str, label: &str| {
            let run = at(e, variant, label, &[]);
            let hit = |count| shown(run.and_then(|r| Some(&pick(r, count)?.hit_ratio)));
            format!("{label} {} of 5 and {} of 20", hit(5), hit(20))
        };
        let of = |variant: &str| {
            let all: Vec<String> = e.labels(variant).into_iter().map(|l| of(variant, l)).collect();
            all.join(", ")
        };
        format!(
            "Share of picks that are the nearest. Anchors: {}. Players: {}.",
            of(BASE),
            of(PLAYERS)
        )
    },
    panels,
    tables,
};

/// H5.
pub static PEER: Study<CoordsPlan> = Study {
    about: About {
        id: "peer",
        title: "A peer below 75 ms",
        plan: include_str!("plans/peer.toml"),
        files: &[],
        shows: "The chance that the candidate with the least prediction is below 75 ms, by the \
                number of candidates.",
        claimed: "Far better than a random choice.",
    },
    measure: |e| {
        let mut all = Vec::new();
        let rows = NAMES.iter().copied().chain([("random", "random"), ("oracle", "oracle")]);
        for (label, name) in rows {
            if name.contains("pyxida") || name == "vivaldi_symmetric" {
                continue;
            }
            let run = at(e, BASE, label, &[]);
            for count in [2, 5, 10, 20, 50] {
                let id = format!("htrae.peer.{name}_{count}");
                all.push(value(id, run, |r| Some(&pick(r, count)?.below_ratio), 1.0));
            }
        }
        all
    },
    found: |e| {
        let of = |label: &str| {
            let run = at(e, BASE, label, &[]);
            let below = |count| shown(run.and_then(|r| Some(&pick(r, count)?.below_ratio)));
            format!("{label} {}, {}", below(5), below(20))
        };
        let all: Vec<String> = e.labels(BASE).into_iter().map(of).collect();
        format!("Share of picks below 75 ms, of 5 and of 20: {}.", all.join("; "))
    },
    panels: |e| {
        let mut all = panels(e);
        all.retain(|panel| panel.id.ends_with("-below"));
        all
    },
    tables,
};
