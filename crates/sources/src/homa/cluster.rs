//! The cluster of the source as a star: fewer levels, and Basic ([homa 5.2]).

use super::measure::{
    COLUMNS, PercentileOf, at_column, id, known, missing, not_run, p50, p50_own, p99, p99_own,
    percentile, ratio, settled, value, words,
};
use super::show;
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

macro_rules! figure {
    ($name:ident, $number:literal, $plan:literal, $id:literal) => {
        /// One workload.
        pub static $name: Study<NetworkPlan> = Study {
            about: About {
                id: $id,
                title: concat!("W", $number, " on a cluster of 16: levels, and Basic"),
                plan: include_str!(concat!("plans/", $plan)),
                files: &[],
                shows: "Slowdown by size of echoed questions, 8 clients and 8 servers around one \
                        switch, for Homa with 8, 4, 2 and 1 levels and for the transport before \
                        it. Arrivals are near-periodic as in the source's generator, and Poisson \
                        beside them.",
                claimed: "Homa's 99th percentile for short messages is 5 to 15 times below \
                          Basic's; two levels give most of it; the very largest messages are worse \
                          off than under Basic.",
            },
            measure: measure::<$number>,
            found,
            panels,
            tables,
        };
    };
}

figure!(W3, 3, "cluster_w3.toml", "cluster_w3");
figure!(W4, 4, "cluster_w4.toml", "cluster_w4");
figure!(W5, 5, "cluster_w5.toml", "cluster_w5");

const TRANSPORTS: [(&str, &str); 5] =
    [("P8", "p8"), ("P4", "p4"), ("P2", "p2"), ("P1", "p1"), ("Basic", "basic")];

/// The loads that stand for the source's labels 76 and 48, as the plan has them.
fn load(e: &NetExperiment, label: &str) -> f64 {
    let loads = e.results.iter().filter(|r| r.variant == BASE).map(|r| r.load());
    match label {
        "76" => loads.fold(0.0, f64::max),
        // Where only the higher load was run there is no lower one.
        _ => loads.filter(|&load| load < 0.7).fold(0.0, f64::max),
    }
}

fn measure<const W: u8>(e: &NetExperiment) -> Vec<Measured> {
    let figure = format!("cluster_w{W}");
    let name = |name: &str| id(&figure, name);
    let mut all = Vec::new();
    for label in ["76", "48"] {
        let mut first: Option<[Measured; 2]> = None;
        for (transport, key) in TRANSPORTS {
            let result = longest(e, transport, load(e, label));
            let short = result.map(|result| &result.short);
            let at = |tail: &str| name(&format!("{key}_{label}_{tail}"));
            let row = [("p50", p50_own as PercentileOf), ("p99", p99_own)]
                .map(|(tail, of)| percentile(at(&format!("short_{tail}")), short, of));
            let mut rows = row.to_vec();
            if label == "76" {
                // Published twice.
                rows.extend(
                    row.iter()
                        .zip(["rerun_p50", "rerun_p99"])
                        .map(|(one, tail)| Measured { id: at(tail), ..one.clone() }),
                );
            }
            if let Some([median, tail]) = &first {
                rows.push(more(at("more_p50"), &row[0], median));
                rows.push(more(at("more_p99"), &row[1], tail));
            }
            all.extend(rows.into_iter().map(|one| full(settled(one, e, result), result)));
            first = first.or(Some(row));
            for (share, place) in COLUMNS {
                let name = name(&format!("{key}_{label}_{place}"));
                all.push(at_column(name, result, share, p99_own));
            }
        }
    }
    let at = |transport| longest(e, transport, load(e, "76"));
    let short = |transport| at(transport).map(|result| &result.short);
    let basic = at("Basic");
    for (of, below) in [("gain", "P8"), ("rerun_gain", "P8"), ("p1_gain", "P1")] {
        let gain = ratio(name(of), short("Basic"), short(below), p99);
        all.push(full(full(settled(gain, e, basic), basic), at(below)));
    }
    all.push(ratio(name("p2_loss"), short("P2"), short("P8"), p99));
    let largest =
        |transport| at(transport).and_then(|r: &NetResult| Some(&r.largest.last()?.summary));
    all.push(ratio(name("largest"), largest("P8"), largest("Basic"), p99));
    let alone =
        |transport| at(transport).and_then(|r: &NetResult| Some(&r.longest.as_ref()?.summary));
    all.push(ratio(name("longest_p50"), alone("P8"), alone("Basic"), p50));
    all.push(order(name("order"), e));
    // Both from runs of the same length.
    for (of, transport) in [("poisson", "P8"), ("poisson_basic", "Basic")] {
        let short = |variant| e.at(variant, transport, load(e, "76")).map(|result| &result.short);
        all.push(ratio(name(of), short("poisson"), short(BASE), p99));
    }
    all
}

/// The long run of a transport where there is one. Basic's tail differs by half between runs of a
/// second.
fn longest<'a>(e: &'a NetExperiment, transport: &str, load: f64) -> Option<&'a NetResult> {
    e.at("long", transport, load).or(e.at(BASE, transport, load))
}

/// `measured` of a transport without levels only once its backlog grows no more: what waits before
/// a short message is whatever is under way.
fn full(measured: Measured, result: Option<&NetResult>) -> Measured {
    match result {
        Some(result) if ["Basic", "P1"].contains(&result.label.as_str()) && !result.stable() => {
            missing(measured.id, "The backlog still grows, and what short messages wait with it.")
        }
        _ => measured,
    }
}

/// By how much a row's percentile is above that of the first: software that is not modeled adds the
/// same to both.
fn more(id: String, row: &Measured, first: &Measured) -> Measured {
    match (row.value, first.value) {
        (Some(above), Some(below)) => {
            let note = format!("{above:.3} less {below:.3}.");
            value(id, above - below, row.samples.min(first.samples), note)
        }
        _ => missing(id, if row.value.is_none() { &row.note } else { &first.note }),
    }
}

/// How many of the steps P8, P4, P2, P1, Basic make the short half's tail no better, within 3 %.
fn order(id: String, e: &NetExperiment) -> Measured {
    let tails: Vec<Option<f64>> = TRANSPORTS
        .iter()
        .filter_map(|(transport, _)| e.at(BASE, transport, load(e, "76")))
        .map(|result| known(Some(&result.short), p99))
        .collect();
    if tails.len() < TRANSPORTS.len() {
        return not_run(id);
    }
    let Some(tails) = tails.into_iter().collect::<Option<Vec<f64>>>() else {
        return missing(id, "Fewer than 100 messages beyond the percentile.");
    };
    let steps = tails.windows(2).filter(|pair| pair[1] >= pair[0] * 0.97).count();
    let words: Vec<String> = tails.iter().map(|tail| format!("{tail:.2}")).collect();
    value(id, steps as f64, 0, format!("P8, P4, P2, P1, Basic: {}.", words.join(", ")))
}

fn found(e: &NetExperiment) -> String {
    let row = |variant: &str| {
        let one = |(transport, _): &(&str, &str)| {
            let short = &e.at(variant, transport, load(e, "76"))?.short;
            let (median, tail) = (known(Some(short), p50), known(Some(short), p99));
            median.or(tail)?;
            Some(format!("{transport} {}/{}", words(median), words(tail)))
        };
        TRANSPORTS.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let beside = [
        ("long", "In runs of 12 s"),
        ("poisson", "With Poisson arrivals"),
        ("bare", "With cards of one packet and hosts without a processor"),
    ];
    let beside = beside.map(|(variant, what)| match row(variant) {
        none if none.is_empty() => none,
        some => format!(" {what}: {some}."),
    });
    let base = row(BASE);
    if base.is_empty() {
        return "These runs are too short for percentiles of this workload.".to_string();
    }
    format!(
        "At the source's 7.6 Gb/s the short half has median and 99th percentile slowdowns over the \
         least possible time of {base} with near-periodic arrivals.{}",
        beside.concat()
    )
}

fn panels(e: &NetExperiment) -> Vec<Panel> {
    groups(e).iter().map(show::by_size).collect()
}

/// The base, and the variants that were run.
fn groups(e: &NetExperiment) -> Vec<show::Group<'_>> {
    [BASE, "long", "poisson", "bare"].iter().flat_map(|variant| show::groups(e, variant)).collect()
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    let mut all: Vec<Table> = groups(e).iter().flat_map(show::size_tables).collect();
    let own = ("P99 over own best", p99_own as fn(&_) -> Option<&_>);
    if e.plan.run.own_best {
        all.extend(show::groups(e, BASE).iter().map(|group| show::size_table(group, own)));
    }
    all.push(show::points(e));
    all
}
