//! Shapes that claims of this source share.

use cavy_kinds::search::{SearchExperiment, SearchResult};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::draw;
use cavy_study::subject::Subject as _;

/// A swept value of a point.
pub fn setting(result: &SearchResult, key: &str) -> f64 {
    result.setting(key).unwrap_or(f64::NAN)
}

/// The point of a variant and a label at some swept values.
pub fn at<'a>(
    e: &'a SearchExperiment,
    variant: &str,
    label: &str,
    settings: &[(&str, f64)],
) -> Option<&'a SearchResult> {
    e.with(variant, label, settings)
}

/// The median of replications' means, where the point keeps up.
pub fn mean(result: &SearchResult) -> Option<f64> {
    result.stable().then(|| Some(result.latency.get("mean_ms")?.median))?
}

/// A value, with the samples of the point that it is from.
pub fn value(name: String, value: Option<f64>, samples: u64, note: String) -> Measured {
    let id = format!("roar.{name}");
    match value.filter(|value| value.is_finite()) {
        Some(value) => Measured { id, value: Some(value), samples, note, ..Measured::default() },
        None => Measured::missing(id, "a point that it needs does not keep up"),
    }
}

/// The mean of a point, with the spread over replications in words.
pub fn mean_of(name: String, result: Option<&SearchResult>) -> Measured {
    let Some(result) = result else { return Measured::not_run(format!("roar.{name}")) };
    let note = result.latency.get("mean_ms").map_or(String::new(), |estimate| {
        format!(
            "Median of {}, from {:.0} to {:.0} ms.",
            estimate.replications.len(),
            estimate.min(),
            estimate.max()
        )
    });
    value(name, mean(result), result.latency.samples, note)
}

/// The ratio of two medians of means.
pub fn ratio(name: String, above: Option<&SearchResult>, below: Option<&SearchResult>) -> Measured {
    let (Some(above), Some(below)) = (above, below) else {
        return Measured::not_run(format!("roar.{name}"));
    };
    let both = mean(above).zip(mean(below));
    let note = both.map_or(String::new(), |(a, b)| format!("{a:.1} against {b:.1} ms."));
    value(name, both.map(|(a, b)| a / b), above.latency.samples, note)
}

/// Values of a swept key, ascending.
pub fn values(e: &SearchExperiment, variant: &str, key: &str) -> Vec<f64> {
    let of = e.results.iter().filter(|result| result.variant == variant);
    let mut all: Vec<f64> = of.map(|result| setting(result, key)).collect();
    all.retain(|value| value.is_finite());
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// Samples of all points.
pub fn samples(e: &SearchExperiment) -> u64 {
    e.results.iter().map(|result| result.latency.samples).sum()
}

/// The panels of all variants.
pub fn panels(e: &SearchExperiment) -> Vec<Panel> {
    draw::figures(e, "").into_iter().flat_map(|figure| figure.panels).collect()
}

/// The table of points, and what the kind adds.
pub fn tables(e: &SearchExperiment) -> Vec<Table> {
    let own = cavy_kinds::search::SearchPlan::tables(e, cavy_study::experiment::BASE);
    let mut all = vec![draw::points(e)];
    all.extend(own);
    all
}
