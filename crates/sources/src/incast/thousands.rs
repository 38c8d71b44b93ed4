//! Thousands of servers at 10 Gb/s, and timeouts stretched at random ([incast 5.6]).

use super::cells::{self, blocks, compared, goodput};
use cavy_kinds::network::result::BlockResult;
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::{Cell, Table};
use cavy_study::claim::Measured;
use cavy_study::source::{About, Study};

/// Up to 2048 servers.
pub static THOUSANDS: Study<NetworkPlan> = Study {
    about: About {
        id: "thousands",
        title: "Thousands of servers: timeouts that are stretched at random",
        plan: include_str!("plans/thousands.toml"),
        files: &[],
        shows: "Up to 2048 servers send blocks of 80 MB at 10 Gb/s, with a round trip of 20 us and \
                a port of 32 KB. Timeouts are plain or stretched by up to a half at random. The \
                doubling of timeouts ends when a segment that was sent once is acknowledged, or, \
                where it says `early`, when anything new is.",
        claimed: "From some hundreds of servers on, senders that lose packets together also time \
                  out together and lose packets again, while the link idles between. If timeouts \
                  are stretched at random, senders no longer act together.",
    },
    measure,
    found,
    panels: cells::panels,
    tables,
};

const MOST: u64 = 2048;

/// Share of connections with fifty timeouts in a row or more, per cent. A row ends when doublings
/// are forgotten, and not with each octet that gets through: its length is what the source's
/// histogram counts, since rows are longer there than blocks last.
fn stuck(blocks: &BlockResult, servers: u64) -> Option<f64> {
    let reached = blocks.connections_by_doublings?;
    let all = servers * blocks.goodput_each_mbps.len().max(1) as u64;
    Some(100.0 * reached[4] as f64 / all as f64)
}

fn gain(e: &NetExperiment, floor: &str, n: u64) -> Option<f64> {
    let of = |word: &str| goodput(e, &format!("{floor}, {word}"), n);
    Some(of("random")? / of("plain")?)
}

fn measure(e: &NetExperiment) -> Vec<Measured> {
    let value =
        |name: &str, label: &str, value| compared(e, "thousands", name, (label, MOST), value);
    let stuck = |label: &str| stuck(blocks(e, label, MOST)?, MOST);
    let edge = |label: &'static str| cells::blocks_of(e, "edge", label, MOST);
    let edge_gain = || {
        let of = |label| edge(label).and_then(cells::mean);
        Some(of("none, random, edge")? / of("none, plain, edge")?)
    };
    let edge_stuck = |label| self::stuck(edge(label)?, MOST);
    let within = cells::sizes(e, "none, plain").into_iter().filter(|&n| n <= 1024);
    let off = within.filter_map(|n| Some(100.0 * (gain(e, "none", n)? - 1.0).abs()));
    vec![
        value("gain_free", "none, plain", gain(e, "none", MOST)),
        value("gain_200us", "200 us, plain", gain(e, "200 us", MOST)),
        value("stuck_free_plain", "none, plain", stuck("none, plain")),
        value("stuck_200us_plain", "200 us, plain", stuck("200 us, plain")),
        value("stuck_free_random", "none, random", stuck("none, random")),
        value("stuck_200us_random", "200 us, random", stuck("200 us, random")),
        value("even_to_1024", "none, plain", off.reduce(f64::max)),
        value("gain_free_edge", "none, plain", edge_gain()),
        value("stuck_free_plain_edge", "none, plain", edge_stuck("none, plain, edge")),
        value("stuck_200us_plain_edge", "200 us, plain", edge_stuck("200 us, plain, edge")),
    ]
}

fn found(e: &NetExperiment) -> String {
    let at = |label: &str| cells::mbps(goodput(e, label, MOST));
    let sends = |label: &str| {
        let ratio = blocks(e, label, MOST).and_then(|blocks| blocks.sends_per_segment);
        ratio.map_or("?".into(), |ratio| format!("{ratio:.1}"))
    };
    format!(
        "With 2048 servers and no least timeout, goodput is {} Mb/s with plain timeouts and {} \
         with stretched ones; with a least timeout of 200 us it is {} and {}. Without a least \
         timeout each segment is sent {} and {} times, which goodput alone does not show.",
        at("none, plain"),
        at("none, random"),
        at("200 us, plain"),
        at("200 us, random"),
        sends("none, plain"),
        sends("none, random")
    )
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    let mut all = cells::tables(e);
    let columns =
        ["sender", "servers", "none", "1 to 5", "6 to 9", "10 to 19", "20 to 49", "50 and more"];
    let row = |result: &NetResult| {
        let blocks = result.blocks.as_ref()?;
        let [some, six, ten, twenty, fifty] = blocks.connections_by_doublings?;
        let servers = cells::servers(result);
        let connections = servers * blocks.goodput_each_mbps.len() as u64;
        let bins = [
            connections.saturating_sub(some),
            some - six,
            six - ten,
            ten - twenty,
            twenty - fifty,
            fifty,
        ];
        let names = [Cell::Text(result.label.clone()), Cell::Number(servers as f64)];
        Some(names.into_iter().chain(bins.map(|count| Cell::Number(count as f64))).collect())
    };
    all.push(Table {
        id: "runs".to_string(),
        title: "Connections by their longest row of timeouts without a round trip between"
            .to_string(),
        columns: columns.map(String::from).to_vec(),
        rows: e.results.iter().filter_map(row).collect(),
    });
    all
}
