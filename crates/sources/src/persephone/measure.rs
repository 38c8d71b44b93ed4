//! Shapes that claims of this system share: ratios of estimates and of capacities.

use cavy_kinds::server::ServerExperiment;
use cavy_kinds::server::ServerResult;
use cavy_report::number::significant;
use cavy_study::claim::Measured;
use cavy_study::outcome::Estimate;
use cavy_study::search::Capacity;

/// Full name of a claim.
pub fn id(figure: &str, name: &str) -> String {
    format!("persephone.{figure}.{name}")
}

/// A claim that cannot be judged, and why.
pub fn missing(id: String, why: &str) -> Measured {
    Measured::missing(id, why)
}

/// The ratio of two estimates, each of all replications together: the median over replications of
/// [persephone 5.3] is as biased as each of them.
pub fn ratio(
    id: String,
    above: Option<(&ServerResult, &Estimate)>,
    below: Option<(&ServerResult, &Estimate)>,
) -> Measured {
    let (Some((a_result, a)), Some((b_result, b))) = (above, below) else {
        return missing(id, "too few samples, or unstable");
    };
    let said = |result: &ServerResult, value: f64| {
        format!("{} under {}", significant(value), result.label)
    };
    Measured {
        id,
        value: Some(a.value / b.value),
        samples: a_result.overall.samples.min(b_result.overall.samples),
        note: format!("{}, {}.", said(a_result, a.value), said(b_result, b.value)),
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

/// How many times the load of `below` the policy `above` sustains: where their tails cross the
/// objective.
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
    if let Some(short) = [a, b].into_iter().find(|capacity| !capacity.decided) {
        return missing(id, &format!("{}: {}", short.label, short.limit_in_full()));
    }
    let (Some(a_load), Some(b_load)) = (a.crossing, b.crossing) else {
        return missing(id, "the objective is met at no load tried");
    };
    let krps = |capacity: &Capacity, load: f64| match (capacity.rate_per_s, capacity.at) {
        (Some(rate), Some(at)) => rate / 1e3 * load / at,
        _ => 0.0,
    };
    Measured {
        id,
        value: Some(a_load / b_load),
        samples: a.work + b.work,
        note: format!(
            "{above} {:.0} krps (load {a_load:.3}), {below} {:.0} krps (load {b_load:.3}).",
            krps(a, a_load),
            krps(b, b_load)
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
