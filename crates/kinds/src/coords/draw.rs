//! What is drawn and tabled of experiments on predictors.

use super::plan::CoordsPlan;
use super::result::{CoordsExperiment, CoordsResult};
use super::sketch::{Place, Sketch, Sketched};
use cavy_coords::Point;
use cavy_report::model::{self, Cell, Form, Layer, Map, Mark, Panel, Scale, Series, Table, Way};
use cavy_study::draw::{Column, Curve, Drawn, Spread, axis, cell};
use cavy_study::objective::Metric;
use cavy_study::outcome::Estimate;

/// Columns of the table of points.
pub fn columns(experiment: &CoordsExperiment) -> Vec<Column<CoordsPlan>> {
    let ms = |percent: u32| {
        Column::new(format!("error p{percent} (ms)"), move |r: &CoordsResult| {
            cell(r, r.after.ms(percent))
        })
    };
    let ratio = |percent: u32| {
        Column::new(format!("relative p{percent}"), move |r: &CoordsResult| {
            cell(r, r.after.ratio(percent))
        })
    };
    let mut all = vec![
        Column::new("before p50 (ms)", |r: &CoordsResult| cell(r, r.before.ms(50))),
        Column::new("before p90 (ms)", |r: &CoordsResult| cell(r, r.before.ms(90))),
        ms(50),
        ms(90),
        ratio(50),
        ratio(90),
    ];
    let candidates = &experiment.plan.picks.candidates;
    let middle = candidates.iter().find(|count| **count >= 5).or(candidates.last());
    if let Some(count) = middle.copied() {
        all.push(Column::new(format!("best of {count}"), move |r: &CoordsResult| {
            cell(r, r.pick(count).map(|pick| &pick.hit_ratio))
        }));
        all.push(Column::new(format!("penalty p90 of {count} (ms)"), move |r: &CoordsResult| {
            let penalty = r.pick(count).and_then(|pick| pick.penalty_p90_ms.as_ref());
            cell(r, penalty.and_then(|penalty| penalty.supported()))
        }));
    }
    all.push(Column::new("to landmarks", |r: &CoordsResult| {
        Cell::Number(f64::from(r.landmark_probes))
    }));
    all
}

/// Errors and picks over what is swept.
pub fn curves(experiment: &CoordsExperiment) -> Vec<Curve<CoordsPlan>> {
    let error = |id: &str, label: &str, percent: u32| Curve {
        id: id.to_string(),
        y: axis(label, "ms", Scale::Log),
        of: Box::new(move |r: &CoordsResult| {
            Drawn::of(r.after.ms(percent), Spread::Replications, r.after.samples)
        }),
        metric: Some(Metric::of_all(format!("p{percent}_error_ms"))),
    };
    let mut all = vec![
        error("error_p50", "median error over all pairs", 50),
        error("error_p90", "error over all pairs, p90", 90),
    ];
    for count in experiment.plan.picks.candidates.clone() {
        if ![5, 20].contains(&count) {
            continue;
        }
        all.push(Curve {
            id: format!("hit_of_{count}"),
            y: axis(&format!("the best of {count} is picked"), "", Scale::Linear),
            of: Box::new(move |r: &CoordsResult| match r.pick(count) {
                Some(pick) => Drawn::of(Some(&pick.hit_ratio), Spread::Replications, pick.choices),
                None => Drawn::default(),
            }),
            metric: Some(Metric::of_all(format!("hit_of_{count}"))),
        });
    }
    all
}

/// A series of a predictor, from what one of its points came to.
fn series(
    experiment: &CoordsExperiment,
    variant: &str,
    of: impl Fn(&CoordsResult) -> Vec<model::Point>,
) -> Vec<Series> {
    let one = |label: &str| {
        let result = experiment.of_variant(variant).filter(|r| r.label == label).last()?;
        Some(Series { label: label.to_string(), points: of(result) })
    };
    experiment.labels(variant).into_iter().filter_map(one).collect()
}

fn shown(y: Option<f64>, x: f64, ends: Option<(f64, f64)>, samples: u64) -> model::Point {
    let (low, high) = (ends.map(|e| e.0), ends.map(|e| e.1));
    model::Point { x, y, low, high, samples, stable: true }
}

/// Distributions of errors, and picks by the number of candidates, at the most probes of a variant.
pub fn panels(experiment: &CoordsExperiment, variant: &str) -> Vec<Panel> {
    let probes = experiment.of_variant(variant).map(|r| r.load()).fold(0.0, f64::max);
    let at = format!(" at {probes} probes a node");
    let cdf = |r: &CoordsResult| {
        let shares = r.before_cdf_ms.iter().zip(1..);
        shares
            .map(|(ms, percent)| {
                shown(Some(f64::from(percent) / 100.0), *ms, None, r.before.samples)
            })
            .collect()
    };
    let picked = |of: fn(&super::result::Pick) -> Option<&Estimate>| {
        move |r: &CoordsResult| {
            let point = |pick: &super::result::Pick| {
                let found = of(pick);
                let ends = found.map(|e| (e.min(), e.max()));
                shown(found.map(|e| e.median), f64::from(pick.candidates), ends, pick.choices)
            };
            r.picks.iter().map(point).collect::<Vec<model::Point>>()
        }
    };
    let mut all = Vec::new();
    let mut add = |id: &str, title: String, x, y, series: Vec<Series>| {
        if series.iter().any(|one| one.points.len() > 1) {
            let (id, rules) = (format!("{variant}-{id}"), Vec::new());
            all.push(Panel { id, title, x, y, series, rules });
        }
    };
    add(
        "cdf",
        format!("Errors of predictions made before probes{at}"),
        axis("error", "ms", Scale::Log),
        axis("share of probes", "", Scale::Linear),
        series(experiment, variant, cdf),
    );
    let candidates = || axis("candidates", "", Scale::Log);
    add(
        "hits",
        format!("How often the nearest candidate is picked{at}"),
        candidates(),
        axis("share of choices", "", Scale::Linear),
        series(experiment, variant, picked(|pick| Some(&pick.hit_ratio))),
    );
    add(
        "penalty",
        format!("How much farther than the nearest the pick is, p90{at}"),
        candidates(),
        axis("penalty", "ms", Scale::Linear),
        series(experiment, variant, picked(|pick| pick.penalty_p90_ms.as_ref()?.supported())),
    );
    let below = experiment.plan.picks.below_ms;
    add(
        "below",
        format!("How often the pick is below {below} ms{at}"),
        candidates(),
        axis("share of choices", "", Scale::Linear),
        series(experiment, variant, picked(|pick| Some(&pick.below_ratio))),
    );
    all
}

/// Picks by the number of candidates.
pub fn tables(experiment: &CoordsExperiment, variant: &str) -> Vec<Table> {
    let plan = &experiment.plan.picks;
    let columns = vec![
        "predictor".to_string(),
        "probes a node".to_string(),
        "candidates".to_string(),
        "nearest picked".to_string(),
        "penalty p90 (ms)".to_string(),
        "penalty p95 (ms)".to_string(),
        format!("below {} ms", plan.below_ms),
        format!("nearest among {} probed", plan.probed),
        "penalty then, p95 (ms)".to_string(),
        "probing all is cheaper below (choices a node)".to_string(),
    ];
    let row = |r: &CoordsResult, pick: &super::result::Pick| {
        let quantile = |q: &Option<cavy_study::outcome::Quantile>| {
            cell(r, q.as_ref().and_then(|q| q.supported()))
        };
        vec![
            Cell::Text(r.label.clone()),
            Cell::Number(r.load()),
            Cell::Number(f64::from(pick.candidates)),
            cell(r, Some(&pick.hit_ratio)),
            quantile(&pick.penalty_p90_ms),
            quantile(&pick.penalty_p95_ms),
            cell(r, Some(&pick.below_ratio)),
            cell(r, Some(&pick.probed_hit_ratio)),
            quantile(&pick.probed_penalty_p95_ms),
            match plan.pays_from(r.load(), pick.candidates) {
                None => Cell::Text("always".to_string()),
                Some(choices) => Cell::Number(choices),
            },
        ]
    };
    let most = experiment.of_variant(variant).map(|r| r.load()).fold(0.0, f64::max);
    let last = experiment.of_variant(variant).filter(|r| r.load() >= most);
    let rows = last.flat_map(|r| r.picks.iter().map(move |pick| row(r, pick))).collect();
    let mut all = vec![Table {
        id: format!("{variant}-picks"),
        title: format!("Picks at {most} probes a node{}", cavy_study::draw::suffix(variant)),
        columns,
        rows,
    }];
    all.extend(worst(experiment, variant));
    all
}

/// What the worst pairs have in common.
fn worst(experiment: &CoordsExperiment, variant: &str) -> Option<Table> {
    let percent = |estimate: &Estimate| {
        let all = estimate.replications.iter().map(|share| 100.0 * share).collect();
        Estimate::new(100.0 * estimate.value, all)
    };
    let mut rows = Vec::new();
    for r in experiment.of_variant(variant) {
        let Some(worst) = &r.worst else { continue };
        for cause in &worst.causes {
            rows.push(vec![
                Cell::Text(r.label.clone()),
                Cell::Number(r.load()),
                Cell::Text(cause.name.clone()),
                cell(r, Some(&percent(&cause.among_worst))),
                cell(r, Some(&percent(&cause.among_all))),
            ]);
        }
    }
    let columns = ["predictor", "probes a node", "what", "of the worst (%)", "of all pairs (%)"];
    (!rows.is_empty()).then(|| Table {
        id: format!("{variant}-worst"),
        title: format!(
            "What the worst {} % of pairs have in common{}",
            100.0 * experiment.plan.worst_ratio.unwrap_or(0.0),
            cavy_study::draw::suffix(variant)
        ),
        columns: columns.map(String::from).to_vec(),
        rows,
    })
}

/// An address that is said to be farther than this from where it is, is misplaced.
const MISPLACED_KM: f64 = cavy_coords::start::MOVED_MAX_KM;
/// Of the others those are drawn that went farther than this. Coordinates are places in time and
/// not on the Earth, so all of them move.
const FAR_KM: f64 = 2_000.0;

fn distance_km(one: Place, other: Place) -> Option<f64> {
    let point = |(latitude, longitude): Place| Point::from_degrees(latitude, longitude);
    Some(point(one)?.distance_km(point(other)?))
}

/// Where nodes ended: of each predictor that moves them, at the most probes.
pub fn maps(experiment: &CoordsExperiment, variant: &str) -> Vec<Map> {
    let most = experiment.of_variant(variant).map(|r| r.load()).fold(0.0, f64::max);
    let mut drawn: Vec<Map> = Vec::new();
    for label in experiment.labels(variant) {
        // Of several, the one with the fewest positions wrong comes first.
        let mut of = experiment.of_variant(variant).filter(|r| r.label == label);
        let found = of.find(|r| r.load() >= most && r.sketch.is_some());
        let Some((result, sketch)) = found.and_then(|r| Some((r, r.sketch.as_ref()?))) else {
            continue;
        };
        let moves = |node: &Sketched| node.said.is_none_or(|said| said != node.now);
        // Who moves nobody has drawn a list of what was given.
        if drawn.len() < MAPS_MAX && sketch.nodes.iter().any(moves) {
            drawn.push(map(result, sketch, variant));
        }
    }
    drawn
}

/// Maps of a variant: each costs a page some 40 kB.
const MAPS_MAX: usize = 2;

fn map(result: &CoordsResult, sketch: &Sketch, variant: &str) -> Map {
    let ms = |ms: Option<f64>| ms.map_or("?".to_string(), |ms| format!("{ms:.1}"));
    let wrong = |node: &Sketched| {
        let errors = (ms(node.before_ms), ms(node.after_ms));
        format!("half of its pairs are wrong by {} ms at most, {} at first", errors.1, errors.0)
    };
    let mark = |node: &Sketched, at, says| Mark { name: node.name.clone(), at, says };
    let layer = |label: &str, form, marks, ways| Layer { label: label.into(), form, marks, ways };
    let (mut nodes, mut said, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let (mut repaired, mut moved) = (Vec::new(), Vec::new());
    for node in &sketch.nodes {
        nodes.push(mark(node, node.now, wrong(node)));
        let Some(begun) = node.said else { continue };
        let went = distance_km(begun, node.now).unwrap_or(0.0);
        let way = |to: Place| {
            let says = format!("{} moved {went:.0} km", node.name);
            Way { from: begun, to, says }
        };
        let off = node.place.and_then(|place| distance_km(begun, place));
        match (off.filter(|km| *km > MISPLACED_KM), node.place) {
            (Some(km), Some(place)) => {
                let says = format!("said to be here, {km:.0} km from where it is; {}", wrong(node));
                said.push(mark(node, begun, says));
                let left = distance_km(node.now, place).unwrap_or(0.0);
                let says = format!("is here; its coordinate is {left:.0} km away");
                places.push(mark(node, place, says));
                repaired.push(way(node.now));
            }
            _ if went > FAR_KM => moved.push(way(node.now)),
            _ => {}
        }
    }
    let drawn = match sketch.nodes.len() as u32 {
        all if all == sketch.count => String::new(),
        some => format!(" {some} of {} nodes are drawn.", sketch.count),
    };
    let begins = if places.is_empty() {
        "A line leads from where a node began to where its coordinate went."
    } else {
        "A ring is where the database puts an address that is more than 500 km off; a line leads \
         to where its coordinate went, and a square is where the machine is."
    };
    Map {
        id: format!("{variant}-{}", cavy_study::draw::slug(&result.label)),
        title: format!(
            "Where {} has put nodes after {} probes each{}",
            result.label,
            result.load(),
            cavy_study::draw::suffix(variant)
        ),
        caption: format!("First seed. {begins}{drawn}"),
        layers: vec![
            layer("coordinates", Form::Dot, nodes, Vec::new()),
            layer("said to be elsewhere", Form::Ring, said, Vec::new()),
            layer("moved from there", Form::Dot, Vec::new(), repaired),
            layer("where these are", Form::Square, places, Vec::new()),
            layer("others that moved more than 2000 km", Form::Dot, Vec::new(), moved),
        ],
    }
}
