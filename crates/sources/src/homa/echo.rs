//! The echo benchmark ([homa 5.3]).

use super::measure::{id, missing, not_run, value};
use cavy_kinds::network::{NetExperiment, NetworkPlan};
use cavy_report::model::{Cell, Panel, Table};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// The echo table.
pub static ECHO: Study<NetworkPlan> = Study {
    about: About {
        id: "echo",
        title: "Echo: one question at a time",
        plan: include_str!("plans/echo.toml"),
        files: &[],
        shows: "The round trip of a question and an answer of the same size on an idle 10 Gb/s \
                network, with 2.1 us of host software one way.",
        claimed: "4.4 us for empty messages, 25 us for 10 kB, 1.72 ms for 1 MB.",
    },
    measure,
    found,
    panels,
    tables,
};

/// Median round trip in microseconds by size, with the number of questions.
fn medians(e: &NetExperiment, variant: &str, transport: &str) -> Vec<(u32, f64, u64)> {
    let Some(result) = e.of(variant, transport).next() else { return Vec::new() };
    let one = |bin: &cavy_kinds::network::result::SizeSlice| {
        let median = bin.summary.p50_us.as_ref()?.estimate.value;
        Some((bin.bytes, median, bin.summary.samples))
    };
    result.bins.iter().filter_map(one).collect()
}

fn measure(e: &NetExperiment) -> Vec<Measured> {
    // On an idle network every question takes the same time: a few are enough.
    let of = |variant: &str, prefix: &str, sizes: &[u32]| -> Vec<Measured> {
        let all = medians(e, variant, "Homa");
        let bins = e.of(variant, "Homa").next().map(|result| &result.bins);
        let is_asked = |bytes| bins.is_some_and(|bins| bins.iter().any(|bin| bin.bytes == bytes));
        let one = |bytes: &u32| {
            let name = id("echo", &format!("{prefix}{bytes}"));
            match all.iter().find(|one| one.0 == *bytes) {
                Some(&(_, median, messages)) => value(name, median, messages, String::new()),
                None if !is_asked(*bytes) => not_run(name),
                None => missing(name, "No question was answered."),
            }
        };
        sizes.iter().map(one).collect()
    };
    let mut all = of(BASE, "b", &[1, 100, 1_000, 10_000, 100_000, 1_000_000]);
    all.extend(of("light", "light_b", &[1]));
    all
}

fn found(e: &NetExperiment) -> String {
    let one = |&(bytes, median, _): &(u32, f64, u64)| format!("{bytes} B {median:.1} us");
    let all: Vec<String> = medians(e, BASE, "Homa").iter().map(one).collect();
    format!("Median round trips under Homa: {}.", all.join(", "))
}

fn panels(_: &NetExperiment) -> Vec<Panel> {
    Vec::new()
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    let row = |transport: &str| {
        medians(e, BASE, transport)
            .into_iter()
            .map(|(bytes, median, messages)| {
                vec![
                    Cell::Text(transport.to_string()),
                    Cell::Number(f64::from(bytes)),
                    Cell::Number(median),
                    Cell::Number(f64::from(bytes) / median),
                    Cell::Number(messages as f64),
                ]
            })
            .collect::<Vec<_>>()
    };
    let columns = ["transport", "bytes", "median (us)", "MB/s", "questions"];
    vec![Table {
        id: "echo".to_string(),
        title: "Round trips on an idle network".to_string(),
        columns: columns.map(String::from).to_vec(),
        rows: e.labels(BASE).into_iter().flat_map(row).collect(),
    }]
}
