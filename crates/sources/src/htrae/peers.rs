//! Coordinates of peers on four sets of data, until they have converged; and what the worst pairs
//! of Htrae have in common.

use super::errors::{error_panels, points};
use super::measure::{GEO, at, shown, value};
use cavy_kinds::coords::{CoordsExperiment, CoordsPlan, CoordsResult};
use cavy_lab::statistics::quantile;
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::outcome::Estimate;
use cavy_study::source::{About, Study};

/// Variants of the plan, what they are called in claims, and after how many probes they are judged.
const SETS: [(&str, &str, &[u32]); 4] = [
    (BASE, "ripe", &[8, 32, 128, 512, 2048]),
    ("planetlab", "planetlab", &[32, 512, 2048]),
    ("seattle", "seattle", &[32, 512, 2048]),
    ("aws", "aws", &[32, 512, 2048]),
];
const RIVALS: [(&str, &str); 2] = [("serf", "serf"), ("Vivaldi 2-D", "vivaldi")];

/// H10.
pub static PEERS: Study<CoordsPlan> = Study {
    about: About {
        id: "peers",
        title: "Coordinates without geography, until they have converged",
        plan: include_str!("plans/peers.toml"),
        files: &[],
        shows: "Errors over all pairs of serf and of Vivaldi on four sets of measurements. \
                PlanetLab's and Seattle's are medians over all that was measured; nobody says \
                where these machines were.",
        claimed: "Nothing: these values were measured for the specification.",
    },
    measure: |e| {
        let mut all = Vec::new();
        for (variant, set, marks) in SETS {
            for (label, name) in RIVALS {
                for probes in marks {
                    let run = at(e, variant, label, &[("probes_per_node", f64::from(*probes))]);
                    for percent in [50, 90, 99] {
                        let id = format!("htrae.peers.{set}_{name}_{probes}_p{percent}");
                        all.push(value(id, run, |r| r.after.ratio(percent), 1.0));
                    }
                }
            }
        }
        all
    },
    found: |e| {
        let words = |(variant, set, marks): &(&str, &str, &[u32])| {
            let last = marks.last().copied().unwrap_or(0);
            let of = |label: &str| {
                let relative = |probes: u32| {
                    let run = at(e, variant, label, &[("probes_per_node", f64::from(probes))]);
                    shown(run.and_then(|r| r.after.ratio(50)))
                };
                format!("{label} {} at 32 and {} at {last}", relative(32), relative(last))
            };
            format!("{set}: {}", RIVALS.map(|(label, _)| of(label)).join(", "))
        };
        let all: Vec<String> = SETS.iter().map(words).collect();
        format!("Relative medians by probes a node. {}.", all.join("; "))
    },
    panels: error_panels,
    tables: points,
};

const HTRAE: &str = "Htrae";
const PLACED: &str = "true positions";

/// How much more often something holds of the worst pairs than of all, seed by seed.
fn lift(id: &str, run: Option<&CoordsResult>, cause: &str) -> Measured {
    let id = format!("htrae.tail.{id}");
    let Some(run) = run else { return Measured::not_run(id) };
    let Some(cause) = run.worst.as_ref().and_then(|worst| worst.cause(cause)) else {
        return Measured::missing(id, "No pair was told apart.");
    };
    let pairs = cause.among_worst.replications.iter().zip(&cause.among_all.replications);
    let mut each: Vec<f64> = pairs.map(|(worst, all)| worst / all.max(1e-9)).collect();
    each.sort_by(f64::total_cmp);
    let note = format!(
        "{:.1} % of the worst, {:.1} % of all pairs.",
        100.0 * cause.among_worst.median,
        100.0 * cause.among_all.median
    );
    Measured {
        id,
        value: quantile::median(each.iter().copied()).or(Some(0.0)),
        low: each.first().copied(),
        high: each.last().copied(),
        samples: run.work,
        note,
        ..Measured::default()
    }
}

/// From the talk: the bottom five in a hundred are really bad.
pub static TAIL: Study<CoordsPlan> = Study {
    about: About {
        id: "tail",
        title: "What the worst pairs have in common",
        plan: include_str!("plans/tail.toml"),
        files: &[],
        shows: "The worst twentieth of all pairs after thirteen probes a node, told apart by two \
                facts of the world: over some third machine there is a way a fifth shorter, or an \
                end is said to be more than 500 km from where it is.",
        claimed: "In the talk somebody said that the bottom 5 % are really bad; the answer is not \
                  known.",
    },
    measure: |e| {
        let run = at(e, BASE, HTRAE, &[]);
        let worst = |id: &str, of: fn(&cavy_kinds::coords::Worst) -> Option<&Estimate>| {
            let id = format!("htrae.tail.{id}");
            value(id, run, |r| of(r.worst.as_ref()?), 100.0)
        };
        let placed = at(e, PLACED, HTRAE, &[]);
        vec![
            lift("detours", run, "a shorter way exists"),
            lift("misplaced", run, "an end is misplaced"),
            lift("misplaced_geolocation", at(e, BASE, GEO, &[]), "an end is misplaced"),
            worst("either", |worst| Some(&worst.cause("either of the two")?.among_worst)),
            worst("of_error", |worst| Some(&worst.of_error)),
            super::measure::ratio("htrae.tail.placed_p95".into(), placed, run, |r| r.after.ms(95)),
        ]
    },
    found: |e| {
        let Some(worst) = at(e, BASE, HTRAE, &[]).and_then(|r| r.worst.as_ref()) else {
            return String::new();
        };
        let cause = |cause: &cavy_kinds::coords::worst::Cause| {
            let percent = |share: f64| cavy_report::number::significant(100.0 * share);
            let (worst, all) = (percent(cause.among_worst.median), percent(cause.among_all.median));
            format!("{} for {worst} % of them and {all} % of all", cause.name)
        };
        let all: Vec<String> = worst.causes.iter().map(cause).collect();
        format!(
            "Htrae's worst pairs have {} % of all error. Of them {}.",
            cavy_report::number::significant(100.0 * worst.of_error.median),
            all.join("; ")
        )
    },
    panels: |_| Vec::new(),
    tables: tables_of_worst,
};

/// What the worst pairs have in common, and all points.
fn tables_of_worst(e: &CoordsExperiment) -> Vec<cavy_report::model::Table> {
    let of = |variant: &str| <CoordsPlan as cavy_study::subject::Subject>::tables(e, variant);
    let tables = e.variants().into_iter().flat_map(of);
    let mut all: Vec<_> = tables.filter(|table| table.id.ends_with("worst")).collect();
    all.extend(points(e));
    all
}
