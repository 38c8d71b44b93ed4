//! What is drawn and tabled of experiments on services.

use super::plan::ServicesPlan;
use super::result::ServicesResult;
use cavy_report::model::{Cell, Scale};
use cavy_study::draw::{Column, Curve, Drawn, Spread, axis, cell};
use cavy_study::experiment::Experiment;

/// Columns of the table of points.
pub fn columns(_: &Experiment<ServicesPlan>) -> Vec<Column<ServicesPlan>> {
    let number = |value: Option<f64>| value.map_or(Cell::Missing("none".to_string()), Cell::Number);
    vec![
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
        Column::new("true p50 (ms)", move |r: &ServicesResult| number(r.truth_p50_ms)),
        Column::new("predicted p50 (ms)", move |r: &ServicesResult| number(r.predicted_p50_ms)),
        Column::new("true p99 (ms)", move |r: &ServicesResult| number(r.truth_p99_ms)),
        Column::new("predicted p99 (ms)", move |r: &ServicesResult| number(r.predicted_p99_ms)),
        Column::new("busiest now", |r: &ServicesResult| Cell::Text(r.bottleneck.clone())),
        Column::new("busiest then", |r: &ServicesResult| Cell::Text(r.next_bottleneck.clone())),
        Column::new("doubts", |r: &ServicesResult| Cell::Text(r.doubts.join("; "))),
    ]
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
