//! What is drawn and tabled of experiments on predictors.

use super::plan::CoordsPlan;
use super::result::{CoordsExperiment, CoordsResult};
use cavy_report::model::{Cell, Panel, Point, Scale, Series, Table};
use cavy_study::draw::{Column, Curve, Drawn, Spread, axis, cell};

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
        rules: Vec::new(),
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
            rules: Vec::new(),
        });
    }
    all
}

/// A series of a predictor, from what one of its points came to.
fn series(
    experiment: &CoordsExperiment,
    variant: &str,
    of: impl Fn(&CoordsResult) -> Vec<Point>,
) -> Vec<Series> {
    let one = |label: &str| {
        let result = experiment.of_variant(variant).filter(|r| r.label == label).last()?;
        Some(Series { label: label.to_string(), points: of(result) })
    };
    experiment.labels(variant).into_iter().filter_map(one).collect()
}

fn shown(y: Option<f64>, x: f64, ends: Option<(f64, f64)>, samples: u64) -> Point {
    let (low, high) = (ends.map(|e| e.0), ends.map(|e| e.1));
    Point { x, y, low, high, samples, stable: true }
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
    let picked = |of: fn(&super::result::Pick) -> Option<&cavy_study::outcome::Estimate>| {
        move |r: &CoordsResult| {
            let point = |pick: &super::result::Pick| {
                let found = of(pick);
                let ends = found.map(|e| (e.min(), e.max()));
                shown(found.map(|e| e.median), f64::from(pick.candidates), ends, pick.choices)
            };
            r.picks.iter().map(point).collect::<Vec<Point>>()
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
        ]
    };
    let most = experiment.of_variant(variant).map(|r| r.load()).fold(0.0, f64::max);
    let last = experiment.of_variant(variant).filter(|r| r.load() >= most);
    let rows = last.flat_map(|r| r.picks.iter().map(move |pick| row(r, pick))).collect();
    vec![Table {
        id: format!("{variant}-picks"),
        title: format!("Picks at {most} probes a node{}", cavy_study::draw::suffix(variant)),
        columns,
        rows,
    }]
}
