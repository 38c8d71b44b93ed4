//! Goodput over the number of servers, for each least timeout ([incast 5.4]).

use super::cells::{self, blocks, goodput, measured};
use cavy_kinds::network::{NetExperiment, NetworkPlan};
use cavy_study::claim::Measured;
use cavy_study::source::{About, Study};

/// The main figure.
pub static RTOMIN: Study<NetworkPlan> = Study {
    about: About {
        id: "rtomin",
        title: "Goodput over servers, for each least timeout",
        plan: include_str!("plans/rtomin.toml"),
        files: &[],
        shows: "One client reads blocks of 1 MB striped over N servers, through a port with 32 KB \
                of buffer, at 1 Gb/s and a round trip of 100 us. Each curve is the same TCP with \
                another least timeout.",
        claimed: "With 200 ms goodput collapses as soon as a whole window is lost; lowering the \
                  least timeout to 1 ms and less brings nearly all of it back. Numbers are those \
                  of two simulators that were run for the specification.",
    },
    measure,
    found,
    panels: cells::panels,
    tables: cells::tables,
};

const FIGURE: &str = "rtomin";
/// Least timeouts as the plan names them, the longest first.
const FALLING: [&str; 5] = ["200 ms", "50 ms", "10 ms", "5 ms", "1 ms"];
/// Those that are to lie in one band.
const BAND: [&str; 3] = ["1 ms", "500 us", "200 us"];

fn measure(e: &NetExperiment) -> Vec<Measured> {
    let cell = |name: &str, label: &str, n: u64| cells::cell(e, FIGURE, name, label, n);
    let measured = |name: &str, value, samples, note| measured(FIGURE, name, value, samples, note);
    let sizes = |e: &NetExperiment| cells::sizes(e, "200 ms");
    let mut all = vec![
        cell("stock_16", "200 ms", 16),
        cell("ms_16", "1 ms", 16),
        cell("us_16", "200 us", 16),
    ];
    let ratio = |above: &str, below: &str| Some(goodput(e, above, 16)? / goodput(e, below, 16)?);
    let samples = |n| blocks(e, "200 ms", n).map_or(0, |blocks| blocks.blocks);
    all.push(measured("ratio_16", ratio("1 ms", "200 ms"), samples(16), String::new()));
    let large: Vec<u64> = sizes(e).into_iter().filter(|&n| n >= 8).collect();
    let rises = |&n: &u64| {
        let values: Vec<f64> = FALLING.iter().filter_map(|label| goodput(e, label, n)).collect();
        !values.is_sorted_by(|longer, shorter| longer < shorter)
    };
    let broken: Vec<u64> = large.iter().copied().filter(|n| rises(n)).collect();
    let list = |sizes: &[u64]| sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let note = match broken.as_slice() {
        [] => format!("It holds for each of {} servers.", list(&large)),
        broken => format!("It fails at {} of {} servers.", list(broken), list(&large)),
    };
    all.push(measured("falls", Some(broken.len() as f64), samples(16), note));
    let spread = |n: u64| {
        let values: Option<Vec<f64>> = BAND.iter().map(|label| goodput(e, label, n)).collect();
        let values = values?;
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        Some((most / least, n))
    };
    let within = sizes(e).into_iter().filter(|&n| n <= 32).filter_map(spread);
    let widest = within.max_by(|a, b| a.0.total_cmp(&b.0));
    let note = widest.map_or(String::new(), |(_, n)| format!("The widest, at {n} servers."));
    all.push(measured("band", widest.map(|(ratio, _)| ratio), samples(16), note));
    for n in [2, 4, 8, 16] {
        for (label, name) in [("1 ms", "1ms"), ("500 us", "500us"), ("200 us", "200us")] {
            all.push(cell(&format!("n{n}_{name}"), label, n));
        }
    }
    for n in [2, 4, 8, 16, 32, 64, 128] {
        all.push(cell(&format!("n{n}_200ms"), "200 ms", n));
    }
    let as_ns2 = cells::blocks_of(e, "ns2", "200 ms, as ns-2", 2);
    all.push(cells::cell_of(FIGURE, "n2_200ms_ns2", as_ns2));
    let rounds = blocks(e, "200 ms", 128).filter(|blocks| blocks.blocks > 0).map(|blocks| {
        let floors = blocks.p50_ms / 200.0;
        let nearest = |k: i32| (floors - (2f64.powi(k) - 1.0)).abs();
        (1..12).map(nearest).fold(f64::INFINITY, f64::min)
    });
    let samples = blocks(e, "200 ms", 128).map_or(0, |blocks| blocks.blocks);
    all.push(measured("n128_doublings", rounds, samples, String::new()));
    all
}

fn found(e: &NetExperiment) -> String {
    let at = |label: &str| cells::mbps(goodput(e, label, 16));
    format!(
        "With 16 servers: {} Mb/s at a least timeout of 200 ms, {} at 1 ms, {} at 200 us, {} \
         without one.",
        at("200 ms"),
        at("1 ms"),
        at("200 us"),
        at("none")
    )
}
