//! How wrong predictions are: at the density of the source's trace, by probes, beside maps of the
//! network, and with wrong positions.

use super::measure::{GEO, NAMES, ONE_SIDED, SYMMETRIC, at, least, ratio, shown, value};
use cavy_kinds::coords::{CoordsExperiment, CoordsPlan, CoordsResult};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::draw;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Panels of the kind: errors and picks, and curves over what is swept.
pub fn panels(experiment: &CoordsExperiment) -> Vec<Panel> {
    draw::figures(experiment, "").into_iter().flat_map(|figure| figure.panels).collect()
}

/// Errors over what is swept, and their distribution.
pub fn error_panels(experiment: &CoordsExperiment) -> Vec<Panel> {
    let mut all = panels(experiment);
    all.retain(|panel| panel.id.contains("error_") || panel.id.ends_with("-cdf"));
    all
}

/// All points.
pub fn points(experiment: &CoordsExperiment) -> Vec<Table> {
    vec![draw::points(experiment)]
}

/// H1.
pub static ERROR: Study<CoordsPlan> = Study {
    about: About {
        id: "error",
        title: "Errors at thirteen probes a node",
        plan: include_str!("plans/error.toml"),
        files: &[],
        shows: "Absolute errors of predictions that are made before each probe, at the density of \
                the source's trace, with history off. Dimensions and updates are in the labels.",
        claimed: "The 90th percentile of Htrae is less than half of Pyxida's.",
    },
    measure: |e| {
        let of = |label: &str| at(e, BASE, label, &[]);
        let mut all = Vec::new();
        for (rival, name) in NAMES.iter().skip(2) {
            let id = |what: &str| format!("htrae.error.{name}_{what}");
            // Beside a rival whose ends both learn, Htrae's do too: the same probes, the same
            // packets.
            all.push(ratio(id("ratio"), of(SYMMETRIC), of(rival), |r| r.before.ms(90)));
        }
        for (label, name) in NAMES {
            for percent in [50, 90, 95] {
                let id = format!("htrae.error.{name}_p{percent}");
                all.push(value(id, of(label), |r| r.before.ms(percent), 1.0));
            }
        }
        let lad = "Htrae, least absolute";
        all.push(value("htrae.error.lad_p50".into(), of(lad), |r| r.before.ms(50), 1.0));
        all.push(value("htrae.error.lad_p90".into(), of(lad), |r| r.before.ms(90), 1.0));
        all
    },
    found: |e| {
        let of = |label: &str| {
            let run = at(e, BASE, label, &[]);
            let ms = |percent| shown(run.and_then(|r| r.before.ms(percent)));
            format!("{label} {}/{}", ms(50), ms(90))
        };
        let all: Vec<String> = e.labels(BASE).into_iter().map(of).collect();
        format!("Medians over seeds of p50/p90 in ms: {}.", all.join(", "))
    },
    panels: error_panels,
    tables: points,
};

/// H6.
pub static CONVERGENCE: Study<CoordsPlan> = Study {
    about: About {
        id: "convergence",
        title: "Errors by probes",
        plan: include_str!("plans/convergence.toml"),
        files: &[],
        shows: "Errors over all pairs after so many probes a node.",
        claimed: "A geographic start makes coordinates useful from the first probe.",
    },
    measure: |e| {
        let of = |label: &str, probes: f64| at(e, BASE, label, &[("probes_per_node", probes)]);
        let mut all = Vec::new();
        for (label, name) in [
            (SYMMETRIC, "symmetric"),
            (ONE_SIDED, "one_sided"),
            ("Vivaldi 2-D", "vivaldi"),
            ("serf", "serf"),
        ] {
            for probes in [1, 4, 16, 32, 128, 512] {
                let run = of(label, f64::from(probes));
                let id = |what: &str| format!("htrae.convergence.{name}_{probes}_{what}");
                all.push(value(id("p50"), run, |r| r.after.ms(50), 1.0));
                all.push(value(id("p90"), run, |r| r.after.ms(90), 1.0));
                all.push(value(id("p50_relative"), run, |r| r.after.ratio(50), 1.0));
            }
        }
        let id = |what: &str| format!("htrae.convergence.{what}");
        for (percent, name) in [(50, "geolocation_p50"), (90, "geolocation_p90")] {
            all.push(value(id(name), of(GEO, 0.0), |r| r.after.ms(percent), 1.0));
        }
        let eighth = (of(SYMMETRIC, 16.0), of("serf", 128.0));
        all.push(ratio(id("eighth"), eighth.0, eighth.1, |r| r.after.ratio(50)));
        let floor = (of(SYMMETRIC, 512.0), of("serf", 512.0));
        all.push(ratio(id("floor"), floor.0, floor.1, |r| r.after.ms(50)));
        all
    },
    found: |e| {
        let of = |label: &str| {
            let at_probes = |probes: f64| {
                let run = at(e, BASE, label, &[("probes_per_node", probes)]);
                format!("{} at {probes}", shown(run.and_then(|r| r.after.ms(50))))
            };
            format!("{label} {}", [1.0, 16.0, 128.0, 512.0].map(at_probes).join(", "))
        };
        let all: Vec<String> = e.labels(BASE).into_iter().map(of).collect();
        format!("Median errors in ms by probes a node: {}.", all.join("; "))
    },
    panels: error_panels,
    tables: points,
};

const SILENT: &str = "landmarks, silent elsewhere";
const GUESSING: &str = "landmarks, guessing";
const NEAREST: &str = "nearest landmark, guessing";

/// H4.
pub static RIVALS: Study<CoordsPlan> = Study {
    about: About {
        id: "rivals",
        title: "Maps of the network, and what they guess",
        plan: include_str!("plans/rivals.toml"),
        files: &[],
        shows: "The least sum of two legs over twenty landmarks stands in for iPlane, the place \
                of the nearest landmark for OASIS. They know .775 of nodes, .6 of pairs; \
                elsewhere they are silent, or guess the median leg. They carry no verdict on the \
                systems they stand for.",
        claimed: "Htrae is better than iPlane and OASIS with and without the pairs that these \
                  guess.",
    },
    measure: |e| {
        let of = |label: &str| at(e, BASE, label, &[]);
        let id = |what: String| format!("htrae.rivals.{what}");
        let mut all = Vec::new();
        for percent in [50, 90] {
            let covered = |name: &str, label| {
                value(
                    id(format!("{name}_covered_p{percent}")),
                    of(label),
                    |r| r.covered.ms(percent),
                    1.0,
                )
            };
            all.push(covered("composition", SILENT));
            all.push(covered("htrae", "Htrae"));
            let everywhere = |name: &str, label| {
                value(id(format!("{name}_all_p{percent}")), of(label), |r| r.after.ms(percent), 1.0)
            };
            all.push(everywhere("composition", GUESSING));
            all.push(everywhere("htrae", "Htrae"));
        }
        all.push(ratio(id("guessing".into()), of("Htrae"), of(GUESSING), |r| r.after.ms(90)));
        all.push(ratio(id("silent".into()), of("Htrae"), of(SILENT), |r| r.covered.ms(90)));
        all.push(ratio(id("nearest".into()), of("Htrae"), of(NEAREST), |r| r.after.ms(90)));
        let covered = of(SILENT).map(|r| 1.0 - r.after.silent_ratio);
        let samples = of(SILENT).map_or(0, |r| r.work);
        let coverage = id("coverage".into());
        all.push(Measured { id: coverage, value: covered, samples, ..Measured::default() });
        all
    },
    found: |e| {
        let of = |label: &str| at(e, BASE, label, &[]);
        let covered = |label: &str, percent| shown(of(label).and_then(|r| r.covered.ms(percent)));
        let everywhere = |label: &str, percent| shown(of(label).and_then(|r| r.after.ms(percent)));
        format!(
            "Where landmarks cover a pair, their p50/p90 is {}/{} ms and Htrae's {}/{}; over all \
             pairs, guesses included, {}/{} and {}/{}. Both made 20 probes a node.",
            covered(SILENT, 50),
            covered(SILENT, 90),
            covered("Htrae", 50),
            covered("Htrae", 90),
            everywhere(GUESSING, 50),
            everywhere(GUESSING, 90),
            everywhere("Htrae", 50),
            everywhere("Htrae", 90),
        )
    },
    panels: |_| Vec::new(),
    tables: |e| vec![covered_table(e), draw::points(e)],
};

/// Errors where landmarks cover a pair.
fn covered_table(e: &CoordsExperiment) -> Table {
    let columns = [
        "predictor",
        "covered p50 (ms)",
        "covered p90 (ms)",
        "silent of all (%)",
        "probes a node before",
    ];
    let row = |r: &CoordsResult| {
        vec![
            cavy_report::model::Cell::Text(r.label.clone()),
            draw::cell(r, r.covered.ms(50)),
            draw::cell(r, r.covered.ms(90)),
            cavy_report::model::Cell::Number(100.0 * r.after.silent_ratio),
            cavy_report::model::Cell::Number(f64::from(r.landmark_probes)),
        ]
    };
    Table {
        id: "covered".to_string(),
        title: "Pairs that landmarks cover".to_string(),
        columns: columns.map(String::from).to_vec(),
        rows: e.results.iter().map(row).collect(),
    }
}

const GEO_LAD: &str = "geolocation, least absolute";

/// H7.
pub static GEOIP: Study<CoordsPlan> = Study {
    about: About {
        id: "geoip",
        title: "Wrong positions",
        plan: include_str!("plans/geoip.toml"),
        files: &[],
        shows: "A share of nodes is said to be at a random place, another draw for each seed. \
                Errors are those of predictions made before each probe.",
        claimed: "Coordinates repair what the database has wrong.",
    },
    measure: |e| {
        let of = |label: &str, probes: f64, wrong: f64| {
            at(e, BASE, label, &[("probes_per_node", probes), ("wrong_positions_ratio", wrong)])
        };
        let mut all = Vec::new();
        for (label, name) in [(SYMMETRIC, "htrae"), (GEO, "geolocation"), (GEO_LAD, "lad")] {
            for wrong in [10, 30, 50] {
                for probes in [13, 50] {
                    let run = of(label, f64::from(probes), f64::from(wrong) / 100.0);
                    for percent in [50, 90] {
                        let id = format!("htrae.geoip.{name}_{wrong}_{probes}_p{percent}");
                        all.push(value(id, run, |r| r.before.ms(percent), 1.0));
                    }
                }
            }
        }
        for (label, name) in [(GEO, "draws"), (GEO_LAD, "draws_lad")] {
            for wrong in [10, 30] {
                let wrong_ratio = ("wrong_positions_ratio", f64::from(wrong) / 100.0);
                let run = at(e, "draws", label, &[("probes_per_node", 0.0), wrong_ratio]);
                let id = format!("htrae.geoip.{name}_{wrong}");
                all.push(least(id, run, |r| r.after.ms(50)));
            }
        }
        all
    },
    found: |e| {
        let of = |label: &str, wrong: f64| {
            let keys = [("probes_per_node", 13.0), ("wrong_positions_ratio", wrong)];
            let run = at(e, BASE, label, &keys);
            let ms = |percent| shown(run.and_then(|r| r.before.ms(percent)));
            format!("{}/{}", ms(50), ms(90))
        };
        let of = |wrong: f64| {
            let percent = wrong * 100.0;
            format!("{percent} % wrong: {} and {}", of(SYMMETRIC, wrong), of(GEO, wrong))
        };
        let all = [0.0, 0.1, 0.3, 0.5].map(of).join("; ");
        format!("p50/p90 in ms at 13 probes a node, Htrae and geolocation. {all}.")
    },
    panels: |e| {
        let mut all = panels(e);
        all.retain(|panel| panel.id.contains("error_"));
        all
    },
    tables: points,
};
