//! Shapes that claims of this system share: percentiles and ratios of percentiles.

use cavy_kinds::network::result::{NetSummary, SizeSlice};
use cavy_kinds::network::{NetExperiment, NetResult};
use cavy_study::claim::Measured;
use cavy_study::outcome::Quantile;

/// Which percentile of which slowdown.
pub type PercentileOf = fn(&NetSummary) -> Option<&Quantile>;

/// Columns of the published tables: shares of the message count, and their names in claims.
pub const COLUMNS: [(f64, &str); 12] = [
    (0.1, "d10"),
    (0.2, "d20"),
    (0.3, "d30"),
    (0.4, "d40"),
    (0.5, "d50"),
    (0.6, "d60"),
    (0.7, "d70"),
    (0.8, "d80"),
    (0.9, "d90"),
    (0.95, "d95"),
    (0.99, "d99"),
    (1.0, "d100"),
];

/// Full name of a claim.
pub fn id(figure: &str, name: &str) -> String {
    format!("homa.{figure}.{name}")
}

/// A claim that cannot be judged, and why.
pub fn missing(id: String, why: &str) -> Measured {
    Measured::missing(id, why)
}

/// A claim about points that plans of this scale leave out.
pub fn not_run(id: String) -> Measured {
    Measured::not_run(id)
}

/// Why there is no percentile.
pub const TOO_FEW: &str = "Fewer than 100 messages beyond the percentile.";

/// A plain value.
pub fn value(id: String, value: f64, samples: u64, note: String) -> Measured {
    Measured { id, value: Some(value), samples, note, ..Measured::default() }
}

/// A percentile, if enough messages lie beyond it.
pub fn percentile(id: String, summary: Option<&NetSummary>, of: PercentileOf) -> Measured {
    let Some(summary) = summary else { return not_run(id) };
    let Some(quantile) = of(summary) else {
        return missing(id, "No such message arrived, or this denominator was not measured.");
    };
    let Some(estimate) = quantile.supported() else {
        let (messages, beyond) = (summary.samples, quantile.beyond);
        let why = format!("{messages} messages, {beyond} beyond the percentile; 100 are needed.");
        return missing(id, &why);
    };
    Measured {
        id,
        value: Some(estimate.value),
        low: Some(estimate.min()),
        high: Some(estimate.max()),
        samples: summary.samples,
        ..Measured::default()
    }
}

/// Share of what was to arrive that must have arrived for a point to have the load it is named
/// after.
const CARRIED_MIN: f64 = 0.95;

/// `measured` at a point, unless the run was too short for the load to build up: with long messages
/// still under way, links are less busy than the load says, and queues shorter. A transport that
/// falls behind another one of its variant and load, which carries it, has itself to blame, and is
/// judged.
pub fn settled(measured: Measured, e: &NetExperiment, result: Option<&NetResult>) -> Measured {
    let Some(result) = result else { return measured };
    let beside = e.results.iter().filter(|other| {
        other.variant == result.variant && (other.load() - result.load()).abs() < 1e-9
    });
    let carried = beside.map(|result| result.carried_ratio()).fold(0.0, f64::max);
    if measured.value.is_none() || carried >= CARRIED_MIN {
        return measured;
    }
    let why = format!(
        "Too short for the longest messages: {:.0} % of the load had arrived, {:.0} % are needed.",
        carried * 100.0,
        CARRIED_MIN * 100.0
    );
    missing(measured.id, &why)
}

/// How many times the percentile of `above` is that of `below`.
pub fn ratio(
    id: String,
    above: Option<&NetSummary>,
    below: Option<&NetSummary>,
    of: PercentileOf,
) -> Measured {
    let known = |summary: Option<&NetSummary>| {
        let summary = summary?;
        Some((of(summary)?.supported()?.value, summary.samples))
    };
    let (Some(_), Some(_)) = (above, below) else { return not_run(id) };
    let (Some((a, n)), Some((b, m))) = (known(above), known(below)) else {
        return missing(id, TOO_FEW);
    };
    value(id, a / b, n.min(m), format!("{a:.2} against {b:.2}."))
}

/// Median slowdown over the least possible time.
pub fn p50(summary: &NetSummary) -> Option<&Quantile> {
    summary.p50_slowdown.as_ref()
}

/// 99th percentile of it.
pub fn p99(summary: &NetSummary) -> Option<&Quantile> {
    summary.p99_slowdown.as_ref()
}

/// Median slowdown over the transport's own best time.
pub fn p50_own(summary: &NetSummary) -> Option<&Quantile> {
    summary.p50_own.as_ref()
}

/// 99th percentile of it.
pub fn p99_own(summary: &NetSummary) -> Option<&Quantile> {
    summary.p99_own.as_ref()
}

/// The messages of a column of the published tables: those just below a size, as in the source, or
/// the whole bin in a short run.
pub fn column(result: &NetResult, share: f64) -> Option<&SizeSlice> {
    result.edge_at(share).map(|edge| &edge.slice).or_else(|| result.bin_at(share))
}

/// A percentile in a column.
pub fn at_column(id: String, result: Option<&NetResult>, share: f64, of: PercentileOf) -> Measured {
    let slice = result.and_then(|result| column(result, share));
    let measured = percentile(id, slice.map(|slice| &slice.summary), of);
    match result.and_then(|result| result.edge_at(share)) {
        Some(edge) if measured.value.is_some() => {
            let per_cent =
                |share: f64| format!("{:.*}", if share > 0.99 { 3 } else { 1 }, share * 100.0);
            let (from, to) = (per_cent(edge.from_share), per_cent(edge.slice.share));
            let late = edge.slice.summary.too_late_ratio().map_or(String::new(), |share| {
                let per_cent = share * 100.0;
                format!(
                    " {per_cent:.0} % of those beyond the percentile ended after arrivals had \
                     stopped, so it is too low."
                )
            });
            Measured {
                note: format!("Messages from {from} to {to} % of all, by size.{late}"),
                ..measured
            }
        }
        _ => measured,
    }
}

/// The result in which a swept key has this value, as text.
pub fn with<'a>(
    experiment: &'a NetExperiment,
    variant: &'a str,
    label: &'a str,
    key: &str,
    wanted: &str,
) -> Option<&'a NetResult> {
    experiment
        .of(variant, label)
        .find(|result| result.settings.get(key).is_some_and(|value| as_text(value) == wanted))
}

fn as_text(value: &serde_json::Value) -> String {
    value.to_string()
}

/// A number for sentences; `n/a` when there is none.
pub fn words(value: Option<f64>) -> String {
    value.map_or("n/a".to_string(), |value| format!("{value:.2}"))
}

/// The value of a percentile that enough messages support.
pub fn known(summary: Option<&NetSummary>, of: PercentileOf) -> Option<f64> {
    Some(of(summary?)?.supported()?.value)
}
