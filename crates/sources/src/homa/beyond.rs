//! Options beyond the source, each with its cost ([homa 8.2]).

use super::measure::{id, known, not_run, p99, ratio, value, words};
use super::show;
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::{Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Credit for age, informed senders, learned cut-offs.
pub static BEYOND: Study<NetworkPlan> = Study {
    about: About {
        id: "beyond",
        title: "Beyond the source: age, informed senders, learned cut-offs",
        plan: include_str!("plans/beyond.toml"),
        files: &[],
        shows: "Echoed questions of W3 and W4 on a star of 16 with one option at a time. `aged` \
                gives messages longer than 100 kB credit for waiting, `oldest 5 %` is the Linux \
                module's share for the oldest message, `learned` starts without cut-offs and finds \
                them. On W4 `bounded` grants nothing while 15 kB, one and a half times what is \
                sent blindly, are on their way, and `informed` also grants less to senders that \
                say they are busy with others.",
        claimed: "The specification asks that the largest messages are no worse than under Basic \
                  while the short tail stays within 10 %, and for the same goodput with a third of \
                  the queue.",
    },
    measure,
    found,
    panels,
    tables,
};

fn only<'a>(e: &'a NetExperiment, variant: &'a str, label: &'a str) -> Option<&'a NetResult> {
    e.of(variant, label).next()
}

fn measure(e: &NetExperiment) -> Vec<Measured> {
    let name = |name: &str| id("beyond", name);
    let short = |label| only(e, BASE, label).map(|result| &result.short);
    let largest =
        |label| only(e, BASE, label).and_then(|result| Some(&result.largest.last()?.summary));
    let mut all = vec![
        ratio(name("aged_largest"), largest("aged"), largest("Basic"), p99),
        ratio(name("aged_short"), short("aged"), short("plain"), p99),
        ratio(name("oldest_largest"), largest("oldest 5 %"), largest("Basic"), p99),
        ratio(name("oldest_short"), short("oldest 5 %"), short("plain"), p99),
        ratio(name("learned_short"), short("learned"), short("plain"), p99),
    ];
    let of_w4 = |label, load| e.at("w4", label, load).or(e.at("w4_carried", label, load));
    let of = |claim: &str, label, load, value_of: fn(&NetResult) -> f64| match (
        of_w4(label, load),
        of_w4("plain", load),
    ) {
        (Some(informed), Some(plain)) => {
            let (a, b) = (value_of(informed), value_of(plain));
            let samples = informed.work.min(plain.work);
            value(name(claim), a / b, samples, format!("{a:.3} against {b:.3}."))
        }
        _ => not_run(name(claim)),
    };
    let queue = |r: &NetResult| r.port("downlink").map_or(0.0, |p| p.mean_bytes / 1e3);
    let goodput = |r: &NetResult| r.goodput_gbps;
    all.push(of("informed_queue", "informed", 0.8, queue));
    all.push(of("informed_queue_max", "informed", 0.8, |r| r.queue_max_bytes() as f64 / 1e3));
    all.push(of("informed_goodput", "informed", 0.8, goodput));
    all.push(of("informed_queue_full", "informed", 1.0, queue));
    all.push(of("informed_goodput_full", "informed", 1.0, goodput));
    all.push(of("bounded_goodput_full", "bounded", 1.0, goodput));
    let short_w4 = |label| of_w4(label, 0.8).map(|result| &result.short);
    all.push(ratio(name("informed_short"), short_w4("informed"), short_w4("plain"), p99));
    let all_w4 = |label| of_w4(label, 0.8).map(|result| &result.overall);
    all.push(ratio(name("informed_all"), all_w4("informed"), all_w4("plain"), p99));
    all
}

fn found(e: &NetExperiment) -> String {
    let one = |label: &str| {
        let result = only(e, BASE, label)?;
        let largest = known(result.largest.last().map(|slice| &slice.summary), p99);
        let short = known(Some(&result.short), p99);
        Some(format!("{label} {} and {}", words(short), words(largest)))
    };
    let all: Vec<String> = e.labels(BASE).into_iter().filter_map(one).collect();
    format!(
        "W3: 99th percentile slowdown of the short half and of the largest hundredth: {}.",
        all.join("; ")
    )
}

fn panels(e: &NetExperiment) -> Vec<Panel> {
    e.variants()
        .into_iter()
        .flat_map(|variant| show::groups(e, variant))
        .map(|group| show::by_size(&group))
        .collect()
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    let mut all: Vec<Table> = e
        .variants()
        .into_iter()
        .flat_map(|variant| show::groups(e, variant))
        .flat_map(|group| show::size_tables(&group))
        .collect();
    all.push(show::points(e));
    all
}
