//! Sensitivity to Homa's parameters ([homa 5.6]).

use super::measure::{TOO_FEW, id, known, missing, not_run, p99, ratio, with, words};
use super::show::{self, TransportCurve};
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::{Panel, Scale, Table};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Levels for unscheduled bytes.
pub static UNSCHEDULED_LEVELS: Study<NetworkPlan> = Study {
    about: About {
        id: "unscheduled_levels",
        title: "How many levels unscheduled bytes need",
        plan: include_str!("plans/unscheduled_levels.toml"),
        files: &[],
        shows: "Slowdown of W1 at 80 % load with 1 to 7 levels for unscheduled bytes and one for \
                scheduled ones.",
        claimed: "The second level gains much, further ones little.",
    },
    measure: measure_unscheduled_levels,
    found: found_short,
    panels: |e| vec![panel(e, "transports.Homa.unscheduled_levels", "levels", Scale::Linear)],
    tables,
};

/// How evenly levels divide.
pub static WEIGHTS: Study<NetworkPlan> = Study {
    about: About {
        id: "weights",
        title: "How evenly levels divide unscheduled bytes",
        plan: include_str!("plans/weights.toml"),
        files: &[],
        shows: "Slowdown of W1 at 80 % load with seven unscheduled levels, each of which gets 0.5 \
                to 2 times what the one above it gets: bytes, by what is left of a message or by \
                its length, or packets.",
        claimed: "As many bytes for each level is near the best.",
    },
    measure: measure_weights,
    found: found_weights,
    panels: |e| e.variants().into_iter().map(|variant| weights_panel(e, variant)).collect(),
    tables,
};

/// The place of one cut-off.
pub static CUTOFF: Study<NetworkPlan> = Study {
    about: About {
        id: "cutoff",
        title: "Where the cut-off between two levels lies",
        plan: include_str!("plans/cutoff.toml"),
        files: &[],
        shows: "Slowdown of W3 at 80 % load with two unscheduled levels and one cut-off between \
                them.",
        claimed: "The optimum is broad and near the cut-off that balances bytes.",
    },
    measure: measure_cutoff,
    found: found_short,
    panels: |e| vec![panel(e, "transports.Homa.cutoffs_bytes", "cut-off (bytes)", Scale::Log)],
    tables,
};

/// Levels for scheduled bytes.
pub static SCHEDULED_LEVELS: Study<NetworkPlan> = Study {
    about: About {
        id: "scheduled_levels",
        title: "How many levels scheduled bytes need",
        plan: include_str!("plans/scheduled_levels.toml"),
        files: &[],
        shows: "Slowdown of W4 at 80 % load with 4 to 7 levels for scheduled bytes, and as many \
                senders granted at once.",
        claimed: "Short messages hardly notice; large ones are better off with more.",
    },
    measure: measure_scheduled_levels,
    found: found_short,
    panels: |e| vec![panel(e, "transports.Homa.overcommit", "levels", Scale::Linear)],
    tables,
};

/// Bytes sent without a grant.
pub static UNSCHEDULED_BYTES: Study<NetworkPlan> = Study {
    about: About {
        id: "unscheduled_bytes",
        title: "How many bytes to send without a grant",
        plan: include_str!("plans/unscheduled_bytes.toml"),
        files: &[],
        shows: "Slowdown of W3 at 80 % load by the bytes of a message that are sent at once.",
        claimed: "Fewer than a round trip's hurt by up to 2.5 times; twice as many change little.",
    },
    measure: measure_unscheduled_bytes,
    found: found_short,
    panels: |e| vec![panel(e, "transports.Homa.unscheduled_bytes", "bytes", Scale::Log)],
    tables,
};

/// What cut-offs are compared with, and the boost of tails.
pub static BOOST: Study<NetworkPlan> = Study {
    about: About {
        id: "boost",
        title: "Cut-offs by what is left, and the boost of tails",
        plan: include_str!("plans/boost.toml"),
        files: &[],
        shows: "Slowdown of W3 at 80 % load with and without two parts of the source's code that \
                its paper does not mention.",
        claimed: "Graduated or uniform cut-offs move the tail of middle sizes by about a tenth.",
    },
    measure: measure_boost,
    found: found_short,
    panels: |e| show::groups(e, BASE).iter().map(show::by_size).collect(),
    tables,
};

/// How the eight levels are divided.
pub static SPLIT: Study<NetworkPlan> = Study {
    about: About {
        id: "split",
        title: "Levels for unscheduled and for scheduled bytes",
        plan: include_str!("plans/split.toml"),
        files: &[],
        shows: "Slowdown of W3 and of W2 at 80 % load when K of the eight levels are for scheduled \
                bytes, with K senders granted at once.",
        claimed: "The published split, K=4 for W3 and K=3 for W2, is near the best.",
    },
    measure: measure_split,
    found: found_split,
    panels: |e| {
        let groups = e.variants().into_iter().flat_map(|variant| show::groups(e, variant));
        groups.map(|group| show::by_size(&group)).collect()
    },
    tables,
};

const WEIGHT: &str = "transports.Homa.cutoffs_ratio";

/// P99 slowdown of all messages over the weight, for one way to compute cut-offs.
fn weights_panel(e: &NetExperiment, variant: &str) -> Panel {
    let (id, title) = match variant {
        "uniform" => ("uniform", "P99 slowdown of all messages, cut-offs by length"),
        "packets" => ("packets", "P99 slowdown of all messages, levels of as many packets"),
        _ => ("bytes", "P99 slowdown of all messages"),
    };
    let x = ("share of a level over that of the one above", Scale::Log);
    let y = ("99th percentile slowdown", Scale::Linear);
    show::curve(
        e,
        variant,
        &TransportCurve { id, title, key: WEIGHT, x, y, of: |r| known(Some(&r.overall), p99) },
    )
}

/// P99 of all messages by weight, in one variant.
fn weighted(e: &NetExperiment, variant: &str) -> Vec<(f64, f64, u64)> {
    let one = |result: &NetResult| {
        let weight = result.setting(WEIGHT)?;
        Some((weight, known(Some(&result.overall), p99)?, result.work))
    };
    e.of(variant, "Homa").filter_map(one).collect()
}

fn measure_weights(e: &NetExperiment) -> Vec<Measured> {
    let even = |variant: &str| weighted(e, variant).into_iter().find(|one| one.0 == 1.0);
    let over_best = |name: &str, variant: &str| {
        let all = weighted(e, variant);
        let best = all.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        match (even(variant), best) {
            (Some(even), Some(best)) if all.len() > 1 => {
                let note = format!("{:.2} against {:.2} at {}.", even.1, best.1, best.0);
                super::measure::value(id("weights", name), even.1 / best.1, even.2, note)
            }
            _ if e.of(variant, "Homa").next().is_none() => not_run(id("weights", name)),
            _ => missing(id("weights", name), TOO_FEW),
        }
    };
    let packets = match (even("packets"), even(BASE)) {
        (Some(packets), Some(bytes)) => {
            let note = format!("{:.2} against {:.2}.", packets.1, bytes.1);
            super::measure::value(id("weights", "packets"), packets.1 / bytes.1, bytes.2, note)
        }
        _ if ["packets", BASE].iter().any(|variant| e.of(variant, "Homa").next().is_none()) => {
            not_run(id("weights", "packets"))
        }
        _ => missing(id("weights", "packets"), TOO_FEW),
    };
    vec![over_best("even", BASE), over_best("even_uniform", "uniform"), packets]
}

fn found_weights(e: &NetExperiment) -> String {
    let one = |variant: &str| {
        let all = weighted(e, variant);
        let all: Vec<String> = all.iter().map(|one| format!("{} {:.2}", one.0, one.1)).collect();
        let name = if variant == BASE { "bytes" } else { variant };
        format!("{name}: {}", all.join(", "))
    };
    let all: Vec<String> = e.variants().into_iter().map(one).collect();
    format!("99th percentile slowdowns of all messages by weight; {}.", all.join("; "))
}

/// P99 slowdown of the short half, and of the largest hundredth.
fn panel(e: &NetExperiment, key: &'static str, x: &'static str, scale: Scale) -> Panel {
    show::curve(
        e,
        BASE,
        &TransportCurve {
            id: "short",
            title: "P99 slowdown of the short half",
            key,
            x: (x, scale),
            y: ("99th percentile slowdown", Scale::Linear),
            of: |result| known(Some(&result.short), p99),
        },
    )
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    vec![show::points(e)]
}

fn found_short(e: &NetExperiment) -> String {
    let one = |result: &NetResult| {
        let setting = result.settings.iter().find(|(key, _)| *key != "load");
        let shown = |(key, value): (&String, &serde_json::Value)| {
            let value = value.to_string();
            format!("{} {}", cavy_study::draw::words(key), value.trim_matches(['[', ']', '"']))
        };
        let what = setting.map_or(result.label.clone(), shown);
        let median = result.overall.p50_slowdown.as_ref().map(|q| q.estimate.value);
        let short = known(Some(&result.short), p99);
        format!("{what} {} and {}", words(short), words(median))
    };
    let all: Vec<String> = e.results.iter().map(one).collect();
    format!(
        "99th percentile slowdown of the short half, and median of all messages: {}.",
        all.join("; ")
    )
}

/// The published split over the best one.
fn measure_split(e: &NetExperiment) -> Vec<Measured> {
    let one = |variant: &str, published: &str, claim: &str| {
        let tail = |r: &NetResult| Some((known(Some(&r.overall), p99)?, r.label.clone(), r.work));
        let all: Vec<_> =
            e.results.iter().filter(|r| r.variant == variant).filter_map(tail).collect();
        let best = all.iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let own = all.iter().find(|one| one.1 == published);
        match (own, best) {
            (Some(own), Some(best)) => {
                let note = format!("{:.2} against {:.2} with {}.", own.0, best.0, best.1);
                super::measure::value(id("split", claim), own.0 / best.0, own.2.min(best.2), note)
            }
            _ if e.of_variant(variant).next().is_none() => not_run(id("split", claim)),
            _ => missing(id("split", claim), TOO_FEW),
        }
    };
    vec![one(BASE, "K=4", "w3"), one("w2", "K=3", "w2")]
}

fn found_split(e: &NetExperiment) -> String {
    let one = |result: &NetResult| {
        let tails = [&result.short, &result.overall].map(|s| words(known(Some(s), p99)));
        let which = if result.variant == BASE { "W3" } else { "W2" };
        format!("{which} {}: {} short, {} all", result.label, tails[0], tails[1])
    };
    let all: Vec<String> = e.results.iter().map(one).collect();
    format!("99th percentile slowdowns: {}.", all.join("; "))
}

fn measure_unscheduled_levels(e: &NetExperiment) -> Vec<Measured> {
    let key = "transports.Homa.unscheduled_levels";
    let at = |levels: &str| with(e, BASE, "Homa", key, levels).map(|result| &result.overall);
    let short = |levels: &str| with(e, BASE, "Homa", key, levels).map(|result| &result.short);
    vec![
        ratio(id("unscheduled_levels", "further_short"), short("2"), short("7"), p99),
        ratio(id("unscheduled_levels", "second"), at("1"), at("2"), p99),
        ratio(id("unscheduled_levels", "further"), at("2"), at("7"), p99),
    ]
}

/// The best of the swept cut-offs, as the largest that is within a twentieth of the best.
fn measure_cutoff(e: &NetExperiment) -> Vec<Measured> {
    let tails: Vec<(f64, f64, u64)> = e
        .of(BASE, "Homa")
        .filter_map(|result| {
            let list = result.settings.get("transports.Homa.cutoffs_bytes")?;
            let cutoff = list.as_array()?.first()?.as_f64()?;
            Some((cutoff, known(Some(&result.overall), p99)?, result.work))
        })
        .collect();
    let best = tails.iter().map(|tail| tail.1).fold(f64::INFINITY, f64::min);
    let near: Vec<f64> = tails.iter().filter(|t| t.1 <= best * 1.05).map(|t| t.0).collect();
    let name = id("cutoff", "broad");
    let (Some(low), Some(high)) =
        (near.iter().copied().reduce(f64::min), near.iter().copied().reduce(f64::max))
    else {
        let any = e.of(BASE, "Homa").next().is_some();
        return vec![if any { missing(name, TOO_FEW) } else { not_run(name) }];
    };
    let samples = tails.iter().map(|tail| tail.2).min().unwrap_or(0);
    let note =
        format!("P99 of all messages within 5 % of the best from {low:.0} to {high:.0} bytes.");
    vec![super::measure::value(name, high / low, samples, note)]
}

fn measure_scheduled_levels(e: &NetExperiment) -> Vec<Measured> {
    let at = |levels: &str| with(e, BASE, "Homa", "transports.Homa.overcommit", levels);
    let short = |levels| at(levels).map(|result: &NetResult| &result.short);
    let largest =
        |levels| at(levels).and_then(|result: &NetResult| Some(&result.largest.last()?.summary));
    vec![
        ratio(id("scheduled_levels", "short"), short("4"), short("7"), p99),
        ratio(id("scheduled_levels", "largest"), largest("4"), largest("7"), p99),
    ]
}

fn measure_unscheduled_bytes(e: &NetExperiment) -> Vec<Measured> {
    let key = "transports.Homa.unscheduled_bytes";
    let at = |bytes: &str| with(e, BASE, "Homa", key, bytes).map(|result| &result.overall);
    let short_w4 = |bytes: &str| with(e, "w4", "Homa", key, bytes).map(|result| &result.short);
    vec![
        ratio(id("unscheduled_bytes", "one"), at("1"), at("9328"), p99),
        ratio(id("unscheduled_bytes", "half_kb"), at("500"), at("9328"), p99),
        ratio(id("unscheduled_bytes", "twice"), at("18656"), at("9328"), p99),
        ratio(id("unscheduled_bytes", "w4_half_kb"), short_w4("500"), short_w4("9328"), p99),
        ratio(id("unscheduled_bytes", "w4_twice"), short_w4("18656"), short_w4("9328"), p99),
    ]
}

fn measure_boost(e: &NetExperiment) -> Vec<Measured> {
    let at = |label| e.of(BASE, label).next();
    let bin = |label, share| {
        at(label).and_then(|r: &NetResult| r.bin_at(share)).map(|slice| &slice.summary)
    };
    vec![
        ratio(id("boost", "by_length_d80"), bin("by length", 0.8), bin("Homa", 0.8), p99),
        ratio(id("boost", "by_length_d90"), bin("by length", 0.9), bin("Homa", 0.9), p99),
        ratio(id("boost", "none_d99"), bin("no boost", 0.99), bin("Homa", 0.99), p99),
    ]
}
