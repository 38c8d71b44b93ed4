//! Shapes that claims of this system share: ratios of estimates and of capacities.

use cavy_kinds::server::ServerExperiment;
use cavy_kinds::server::ServerResult;
use cavy_study::claim::Measured;
use cavy_study::outcome::Estimate;

/// Full name of a claim.
pub fn id(figure: &str, name: &str) -> String {
    format!("persephone.{figure}.{name}")
}

/// A claim that cannot be judged, and why.
pub fn missing(id: String, why: &str) -> Measured {
    Measured::missing(id, why)
}

/// The ratio of two estimates over the same replications: of the medians, with the smallest and
/// largest ratio of one replication ([persephone 5.3]).
pub fn ratio(
    id: String,
    above: Option<(&ServerResult, &Estimate)>,
    below: Option<(&ServerResult, &Estimate)>,
) -> Measured {
    let (Some((a_result, a)), Some((b_result, b))) = (above, below) else {
        return missing(id, "too few samples, or unstable");
    };
    let each: Vec<f64> = a.replications.iter().zip(&b.replications).map(|(a, b)| a / b).collect();
    Measured {
        id,
        value: Some(a.median / b.median),
        low: each.iter().copied().reduce(f64::min),
        high: each.iter().copied().reduce(f64::max),
        samples: a_result.overall.samples.min(b_result.overall.samples),
        note: format!("{:.3} against {:.3}.", a.median, b.median),
        ..Measured::default()
    }
}

/// Overall 99.9th percentile slowdown, when stable.
pub fn slowdown(result: Option<&ServerResult>) -> Option<(&ServerResult, &Estimate)> {
    let result = result.filter(|result| result.stable())?;
    Some((result, result.slowdown()?))
}

/// 99.9th percentile latency of a type, when stable.
pub fn tail<'a>(
    result: Option<&'a ServerResult>,
    kind: &str,
) -> Option<(&'a ServerResult, &'a Estimate)> {
    let result = result.filter(|result| result.stable())?;
    Some((result, result.tail_us(kind)?))
}

/// How many times the load of `below` the policy `above` sustains, with the ends that the brackets
/// of both searches allow.
pub fn capacity_ratio(
    id: String,
    experiment: &ServerExperiment,
    variant: &str,
    objective: usize,
    above: &str,
    below: &str,
) -> Measured {
    let of = |policy| experiment.capacity(variant, policy, objective);
    let (Some(a), Some(b)) = (of(above), of(below)) else {
        return missing(id, "no capacity was searched");
    };
    let (Some(a_load), Some(b_load)) = (a.at, b.at) else {
        return missing(id, "the objective is met at no load tried");
    };
    let a_most = a.missed_at.unwrap_or(a_load);
    let b_most = b.missed_at.unwrap_or(b_load);
    let rate = |rate: Option<f64>| rate.unwrap_or(0.0) / 1e3;
    Measured {
        id,
        value: Some(a_load / b_load),
        low: Some(a_load / b_most),
        high: Some(a_most / b_load),
        samples: a.work + b.work,
        note: format!(
            "{above} {:.0} krps (load {a_load:.3}), {below} {:.0} krps (load {b_load:.3}).",
            rate(a.rate_per_s),
            rate(b.rate_per_s)
        ),
        ..Measured::default()
    }
}

/// Samples of the least supported of some results.
pub fn samples<'a>(results: impl Iterator<Item = &'a ServerResult>) -> u64 {
    results.map(|result| result.overall.samples).min().unwrap_or(0)
}

/// A plain value.
pub fn value(id: String, value: f64, samples: u64, note: String) -> Measured {
    Measured { id, value: Some(value), samples, note, ..Measured::default() }
}
