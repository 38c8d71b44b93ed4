//! What is drawn and tabled of experiments on regions.

use super::plan::{RegionsPlan, TypePlan};
use super::result::{RegionsResult, THROUGHPUT};
use cavy_report::model::{Cell, Scale};
use cavy_study::draw::{Column, Curve, Drawn, Spread, axis, cell};
use cavy_study::objective::Metric;

/// Columns of the table of points.
pub fn columns(types: &[TypePlan]) -> Vec<Column<RegionsPlan>> {
    let mut columns = of_all();
    for own in types {
        let sorts = [(false, "IRT", own.crt_ratio < 1.0), (true, "CRT", own.crt_ratio > 0.0)];
        for (crt, sort, _) in sorts.into_iter().filter(|(.., there)| *there) {
            let name = own.name.clone();
            let head = format!("{name}, {sort} p99 (ms)");
            columns.push(Column::new(head, move |r: &RegionsResult| {
                cell(r, r.latency(crt, Some(&name)).and_then(|latency| latency.percentile(99)))
            }));
        }
    }
    columns
}

fn of_all() -> Vec<Column<RegionsPlan>> {
    vec![
        Column::new("answers (per s)", |r: &RegionsResult| cell(r, Some(&r.throughput_per_s))),
        Column::new("IRT mean (ms)", |r: &RegionsResult| cell(r, r.irt.mean_ms.as_ref())),
        Column::new("IRT p50 (ms)", |r: &RegionsResult| cell(r, r.irt.percentile(50))),
        Column::new("IRT p95 (ms)", |r: &RegionsResult| cell(r, r.irt.percentile(95))),
        Column::new("IRT p99 (ms)", |r: &RegionsResult| cell(r, r.irt.percentile(99))),
        Column::new("CRT mean (ms)", |r: &RegionsResult| cell(r, r.crt.mean_ms.as_ref())),
        Column::new("CRT p50 (ms)", |r: &RegionsResult| cell(r, r.crt.percentile(50))),
        Column::new("CRT p95 (ms)", |r: &RegionsResult| cell(r, r.crt.percentile(95))),
        Column::new("CRT p99 (ms)", |r: &RegionsResult| cell(r, r.crt.percentile(99))),
        Column::new("longest IRT (ms)", |r: &RegionsResult| {
            r.irt.max_ms.map_or(Cell::Missing("none".to_string()), Cell::Number)
        }),
        Column::new("retries", |r: &RegionsResult| Cell::Number(r.retries as f64)),
        Column::new("messages each", |r: &RegionsResult| Cell::Number(r.messages_each)),
    ]
}

/// Tails, medians and throughput.
pub fn curves() -> Vec<Curve<RegionsPlan>> {
    let of = |id: &str, label: &str, crt: bool, percent: u32| Curve {
        id: id.to_string(),
        y: axis(label, "ms", Scale::Linear),
        of: Box::new(move |r: &RegionsResult| {
            let latency = if crt { &r.crt } else { &r.irt };
            Drawn::of(latency.percentile(percent), Spread::Interval, latency.samples)
        }),
        metric: Some(Metric::of_all(format!("{id}_ms"))),
    };
    let throughput =
        |r: &RegionsResult| Drawn::of(Some(&r.throughput_per_s), Spread::Interval, r.work);
    vec![
        of("irt_p99", "latency within a region, p99", false, 99),
        of("irt_p50", "latency within a region, median", false, 50),
        of("crt_p99", "latency across regions, p99", true, 99),
        of("crt_p50", "latency across regions, median", true, 50),
        Curve {
            id: "throughput".to_string(),
            y: axis("answers", "transactions/s", Scale::Linear),
            of: Box::new(throughput),
            metric: Some(Metric::of_all(THROUGHPUT)),
        },
    ]
}
