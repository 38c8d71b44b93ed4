//! Values of claims from what predictors came to: medians over seeds, with the smallest and the
//! largest.

use cavy_kinds::coords::{CoordsExperiment, CoordsResult, Pick};
use cavy_report::number::significant;
use cavy_study::claim::{Basis, Measured};
use cavy_study::outcome::{Estimate, Quantile};

/// Htrae with updates of both ends.
pub const SYMMETRIC: &str = "Htrae, symmetric";
/// Htrae as deployed agents would run it without feedback.
pub const ONE_SIDED: &str = "Htrae, one-sided";
/// Distance alone.
pub const GEO: &str = "geolocation";

/// What labels are called in names of claims.
pub const NAMES: [(&str, &str); 9] = [
    (SYMMETRIC, "symmetric"),
    (ONE_SIDED, "one_sided"),
    (GEO, "geolocation"),
    ("Vivaldi 2-D", "vivaldi"),
    ("Vivaldi 2-D, symmetric", "vivaldi_symmetric"),
    ("serf", "serf"),
    ("Pyxida 2-D", "pyxida_2d"),
    ("Pyxida 4-D", "pyxida_4d"),
    ("Pyxida 4-D, symmetric", "pyxida_4d_symmetric"),
];

/// Where something was run: variant, label, and values of swept keys.
pub fn at<'a>(
    experiment: &'a CoordsExperiment,
    variant: &str,
    label: &str,
    settings: &[(&str, f64)],
) -> Option<&'a CoordsResult> {
    experiment.with(variant, label, settings)
}

/// A value, with the range over seeds.
pub fn value(
    id: String,
    run: Option<&CoordsResult>,
    of: impl FnOnce(&CoordsResult) -> Option<&Estimate>,
    factor: f64,
) -> Measured {
    let Some(run) = run else { return Measured::not_run(id) };
    let Some(estimate) = of(run) else { return Measured::missing(id, "Too few samples.") };
    Measured {
        id,
        value: Some(factor * estimate.median),
        low: Some(factor * estimate.min()),
        high: Some(factor * estimate.max()),
        samples: run.work,
        note: range(estimate, factor),
        ..Measured::default()
    }
}

/// How many seeds there are, and how far they lie apart.
fn range(estimate: &Estimate, factor: f64) -> String {
    let seeds = estimate.replications.len();
    let shown = |value: f64| significant(factor * value);
    format!("{seeds} seeds, from {} to {}.", shown(estimate.min()), shown(estimate.max()))
}

/// The least value of any seed: what a single draw may have come to.
pub fn least(
    id: String,
    run: Option<&CoordsResult>,
    of: impl FnOnce(&CoordsResult) -> Option<&Estimate>,
) -> Measured {
    let Some(run) = run else { return Measured::not_run(id) };
    let Some(estimate) = of(run) else { return Measured::missing(id, "Too few samples.") };
    let least = Some(estimate.min());
    let basis = Basis::Bracket;
    let note = range(estimate, 1.0);
    Measured { id, value: least, low: least, high: least, basis, samples: run.work, note }
}

/// A ratio of two values, seed by seed: their median and range.
pub fn ratio(
    id: String,
    above: Option<&CoordsResult>,
    below: Option<&CoordsResult>,
    of: impl Fn(&CoordsResult) -> Option<&Estimate>,
) -> Measured {
    let Some((above, below)) = above.zip(below) else { return Measured::not_run(id) };
    let Some((a, b)) = of(above).zip(of(below)) else {
        return Measured::missing(id, "Too few samples.");
    };
    let mut each: Vec<f64> =
        a.replications.iter().zip(&b.replications).map(|(a, b)| a / b).collect();
    each.sort_by(f64::total_cmp);
    let note = format!(
        "{} with {}, {} with {}; {} seeds.",
        significant(a.median),
        above.label,
        significant(b.median),
        below.label,
        each.len()
    );
    Measured {
        id,
        value: Some(Estimate::new(a.value / b.value, each.clone()).median),
        low: each.first().copied(),
        high: each.last().copied(),
        samples: above.work.min(below.work),
        note,
        ..Measured::default()
    }
}

/// The choice among `candidates`, if it was made.
pub fn pick(run: &CoordsResult, candidates: u32) -> Option<&Pick> {
    run.pick(candidates).filter(|pick| pick.choices > 0)
}

/// A percentile that has enough samples.
pub fn supported(quantile: &Option<Quantile>) -> Option<&Estimate> {
    quantile.as_ref()?.supported()
}

/// A number for a sentence: the median over seeds.
pub fn shown(estimate: Option<&Estimate>) -> String {
    estimate.map_or("?".to_string(), |e| significant(e.median))
}
