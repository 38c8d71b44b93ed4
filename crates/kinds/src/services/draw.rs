//! What is drawn and tabled of experiments on services.

use super::plan::ServicesPlan;
use super::result::{ServicesResult, Verdict};
use crate::Latency;
use cavy_report::model::{Cell, Scale};
use cavy_study::draw::{Column, Curve, Drawn, Spread, axis, cell};
use cavy_study::experiment::Experiment;
use cavy_study::outcome::Standing;

/// Columns of the table of points.
pub fn columns(experiment: &Experiment<ServicesPlan>) -> Vec<Column<ServicesPlan>> {
    let number = |value: Option<f64>| value.map_or(Cell::Missing("none".to_string()), Cell::Number);
    let truth = |head: &str, metric: &'static str| {
        Column::new(head, move |r: &ServicesResult| latency(r, &r.truth, metric))
    };
    let predicted = |head: &str, metric: &'static str| {
        Column::new(head, move |r: &ServicesResult| match r.times_requests {
            true => latency(r, &r.predicted, metric),
            false => Cell::Missing("none".to_string()),
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
        truth("true mean (ms)", "mean_ms"),
        predicted("predicted mean (ms)", "mean_ms"),
        truth("true p50 (ms)", "p50_ms"),
        predicted("predicted p50 (ms)", "p50_ms"),
        truth("true p99 (ms)", "p99_ms"),
        predicted("predicted p99 (ms)", "p99_ms"),
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

/// A latency. Where the changed system does not keep up, or that cannot be told, the cell says so.
fn latency(result: &ServicesResult, of: &Option<Latency>, metric: &str) -> Cell {
    let missing = match result.then.as_ref().map(|then| then.standing) {
        Some(Standing::Unstable) => "unstable",
        Some(Standing::TooShort) => "too short",
        Some(Standing::Stable) | None => "none",
    };
    of.as_ref().map_or(Cell::Missing(missing.to_string()), |of| cell(result, of.get(metric)))
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
