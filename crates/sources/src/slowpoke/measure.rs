//! Shapes that claims of this source share.

use cavy_kinds::services::{ServicesExperiment, ServicesResult};
use cavy_lab::statistics::quantile;
use cavy_study::claim::Measured;

/// The swept key.
pub const RATIO: &str = "whatif.faster_ratio";

/// Full name of a claim.
pub fn id(figure: &str, name: &str) -> String {
    format!("slowpoke.{figure}.{name}")
}

/// A plain value.
pub fn value(id: String, value: f64, samples: u64, note: String) -> Measured {
    let value = Some(value).filter(|value| value.is_finite());
    Measured { id, value, samples, note, ..Measured::default() }
}

/// Points of a variant with the share that they save, in percent.
pub fn points<'a>(
    e: &'a ServicesExperiment,
    variant: &'a str,
    label: &'a str,
) -> impl Iterator<Item = (f64, &'a ServicesResult)> {
    e.of(variant, label).filter_map(|result| {
        let ratio = result.setting(RATIO)?;
        Some((ratio * 100.0, result))
    })
}

/// Errors of all replications of a point, in percent.
pub fn errors(result: &ServicesResult) -> &[f64] {
    result.error_percent.as_ref().map_or(&[], |error| &error.replications)
}

/// Mean of the values without their signs.
pub fn mean_absolute(values: &[f64]) -> f64 {
    values.iter().map(|value| value.abs()).sum::<f64>() / values.len() as f64
}

/// Root of the mean square.
pub fn rms(values: &[f64]) -> f64 {
    (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt()
}

/// The largest without its sign.
pub fn largest(values: &[f64]) -> f64 {
    values.iter().map(|value| value.abs()).fold(0.0, f64::max)
}

/// The `share`-quantile of the values without their signs.
pub fn of_sizes(values: &[f64], share: f64) -> f64 {
    let mut sorted: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    sorted.sort_by(f64::total_cmp);
    quantile::of_sorted(&sorted, share).unwrap_or(f64::NAN)
}
