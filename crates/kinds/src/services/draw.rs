//! What is drawn and tabled of experiments on services.

use super::plan::ServicesPlan;
use super::result::{Predicted, ServicesResult, Verdict};
use crate::Latency;
use cavy_report::model::{Cell, Scale};
use cavy_study::draw::{Column, Curve, Drawn, Spread, axis, cell};
use cavy_study::experiment::Experiment;
use cavy_study::outcome::Standing;

/// Columns of the table of points.
pub fn columns(experiment: &Experiment<ServicesPlan>) -> Vec<Column<ServicesPlan>> {
    let number = |value: Option<f64>| value.map_or(Cell::Missing("none".to_string()), Cell::Number);
    // Where the changed system does not keep up, or that cannot be told, the cell says so.
    let latency = |head: &str, of: fn(&Predicted) -> &Option<Latency>, metric: &'static str| {
        Column::new(head, move |r: &ServicesResult| match (&r.then, of(r)) {
            (Some(then), None) if then.standing == Standing::Unstable => {
                Cell::Missing("unstable".to_string())
            }
            (Some(then), None) if then.standing == Standing::TooShort => {
                Cell::Missing("too short".to_string())
            }
            (_, None) => Cell::Missing("none".to_string()),
            (_, Some(latency)) => cell(r, latency.get(metric)),
        })
    };
    let mut columns = vec![
        Column::new("now (per s)", |r: &ServicesResult| Cell::Number(r.unchanged_per_s.value)),
        Column::new("true (per s)", |r: &ServicesResult| cell(r, Some(&r.truth_per_s))),
        Column::new("predicted (per s)", |r: &ServicesResult| cell(r, r.predicted_per_s.as_ref())),
        Column::new("error (%)", |r: &ServicesResult| cell(r, r.error_percent.as_ref())),
        Column::new("true gain (%)", |r: &ServicesResult| Cell::Number(r.gain_percent.value)),
        Column::new("predicted gain (%)", |r: &ServicesResult| {
            cell(r, r.predicted_gain_percent.as_ref())
        }),
        Column::new("paused (%)", move |r: &ServicesResult| {
            number(r.paused_ratio.map(|ratio| ratio * 100.0))
        }),
        Column::new("pause (ms)", move |r: &ServicesResult| number(r.pause_ms)),
        latency("true mean (ms)", truth, "mean_ms"),
        latency("predicted mean (ms)", predicted, "mean_ms"),
        latency("true p50 (ms)", truth, "p50_ms"),
        latency("predicted p50 (ms)", predicted, "p50_ms"),
        latency("true p99 (ms)", truth, "p99_ms"),
        latency("predicted p99 (ms)", predicted, "p99_ms"),
        Column::new("busiest now", |r: &ServicesResult| Cell::Text(r.bottleneck.clone())),
        Column::new("busiest then", |r: &ServicesResult| Cell::Text(r.next_bottleneck.clone())),
    ];
    if experiment.results.iter().any(|result| result.then.is_some()) {
        columns.push(Column::new("keeps up now", |r: &ServicesResult| verdict(r.now.as_ref())));
        columns.push(Column::new("keeps up then", |r: &ServicesResult| verdict(r.then.as_ref())));
    }
    columns.push(Column::new("doubts", |r: &ServicesResult| Cell::Text(r.doubts.join("; "))));
    columns
}

fn verdict(verdict: Option<&Verdict>) -> Cell {
    Cell::Text(verdict.map_or(String::new(), |verdict| match verdict.standing {
        Standing::Stable => "yes".to_string(),
        Standing::Unstable => format!("no: {}", verdict.note),
        Standing::TooShort => format!("too short: {}", verdict.note),
    }))
}

fn truth(point: &Predicted) -> &Option<Latency> {
    &point.truth
}

fn predicted(point: &Predicted) -> &Option<Latency> {
    &point.predicted
}

/// Predictions, truth among them, and errors.
pub fn curves(_: &Experiment<ServicesPlan>, _: &str) -> Vec<Curve<ServicesPlan>> {
    let predicted =
        |r: &ServicesResult| Drawn::of(r.predicted_per_s.as_ref(), Spread::Interval, r.work);
    let error = |r: &ServicesResult| Drawn::of(r.error_percent.as_ref(), Spread::Interval, r.work);
    let truth = |r: &ServicesResult| Drawn::of(Some(&r.truth_per_s), Spread::Interval, r.work);
    vec![
        Curve {
            id: "predicted".to_string(),
            y: axis("predicted throughput", "requests/s", Scale::Linear),
            of: Box::new(predicted),
            metric: None,
        },
        Curve {
            id: "truth".to_string(),
            y: axis("true throughput", "requests/s", Scale::Linear),
            of: Box::new(truth),
            metric: None,
        },
        Curve {
            id: "error".to_string(),
            y: axis("error of the prediction", "%", Scale::Linear),
            of: Box::new(error),
            metric: None,
        },
    ]
}
