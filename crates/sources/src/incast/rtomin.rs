//! Goodput over the number of servers, for each least timeout ([incast 5.4]).

use cavy_kinds::network::result::BlockResult;
use cavy_kinds::network::{NetExperiment, NetResult, NetworkPlan};
use cavy_report::model::{Axis, Cell, Panel, Point, Scale, Series, Table};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
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
    panels,
    tables,
};

const KEY: &str = "traffic.servers";
/// Least timeouts as the plan names them, the longest first.
const FALLING: [&str; 5] = ["200 ms", "50 ms", "10 ms", "5 ms", "1 ms"];
/// Those that are to lie in one band.
const BAND: [&str; 3] = ["1 ms", "500 us", "200 us"];

fn servers(result: &NetResult) -> u64 {
    result.settings.get(KEY).and_then(serde_json::Value::as_u64).unwrap_or(0)
}

fn blocks<'a>(e: &'a NetExperiment, label: &'a str, n: u64) -> Option<&'a BlockResult> {
    e.of(BASE, label).find(|result| servers(result) == n)?.blocks.as_ref()
}

fn goodput(e: &NetExperiment, label: &str, n: u64) -> Option<f64> {
    blocks(e, label, n).map(BlockResult::goodput_mbps)
}

/// Numbers of servers that were run, ascending.
fn sizes(e: &NetExperiment) -> Vec<u64> {
    let mut all: Vec<u64> = e.of(BASE, "200 ms").map(servers).collect();
    all.sort_unstable();
    all
}

fn measured(name: &str, value: Option<f64>, samples: u64, note: String) -> Measured {
    let (low, high) = (None, None);
    Measured {
        id: format!("incast.rtomin.{name}"),
        value,
        low,
        high,
        samples,
        note,
        ..Measured::default()
    }
}

/// Goodput of one point, with the range of its replications.
fn cell(e: &NetExperiment, name: &str, label: &str, n: u64) -> Measured {
    let found = blocks(e, label, n);
    let each = found.map(|blocks| blocks.goodput_each_mbps.as_slice()).unwrap_or_default();
    let note = found.map_or("Not run.".to_string(), |blocks| {
        format!("{} blocks in {} replications.", blocks.blocks, each.len())
    });
    Measured {
        low: each.iter().copied().reduce(f64::min),
        high: each.iter().copied().reduce(f64::max),
        ..measured(name, goodput(e, label, n), found.map_or(0, |blocks| blocks.blocks), note)
    }
}

fn measure(e: &NetExperiment) -> Vec<Measured> {
    let mut all = vec![
        cell(e, "stock_16", "200 ms", 16),
        cell(e, "ms_16", "1 ms", 16),
        cell(e, "us_16", "200 us", 16),
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
    let note = format!("Broken at {broken:?} of {large:?} servers.");
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
            all.push(cell(e, &format!("n{n}_{name}"), label, n));
        }
    }
    for n in [2, 4, 8, 16, 32, 64, 128] {
        all.push(cell(e, &format!("n{n}_200ms"), "200 ms", n));
    }
    all
}

fn found(e: &NetExperiment) -> String {
    let at = |label: &str| goodput(e, label, 16).map_or("?".into(), |mbps| format!("{mbps:.0}"));
    format!(
        "With 16 servers: {} Mb/s at a least timeout of 200 ms, {} at 1 ms, {} at 200 us, {} \
         without one.",
        at("200 ms"),
        at("1 ms"),
        at("200 us"),
        at("none")
    )
}

fn panels(e: &NetExperiment) -> Vec<Panel> {
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_string(),
        unit: unit.to_string(),
        scale,
        min: None,
        max: None,
    };
    let point = |result: &NetResult| {
        let blocks = result.blocks.as_ref()?;
        let each = &blocks.goodput_each_mbps;
        Some(Point {
            x: servers(result) as f64,
            y: (!each.is_empty()).then(|| blocks.goodput_mbps()),
            low: each.iter().copied().reduce(f64::min),
            high: each.iter().copied().reduce(f64::max),
            samples: blocks.blocks,
            stable: true,
        })
    };
    let series = |label: &str| Series {
        label: label.to_string(),
        points: e.of(BASE, label).filter_map(point).collect(),
    };
    vec![Panel {
        id: "goodput".to_string(),
        title: "Goodput of blocks".to_string(),
        x: axis("servers", "", Scale::Log),
        y: axis("goodput", "Mb/s", Scale::Log),
        series: e.labels(BASE).into_iter().map(series).collect(),
        rules: Vec::new(),
    }]
}

fn tables(e: &NetExperiment) -> Vec<Table> {
    let columns = [
        "least timeout",
        "servers",
        "goodput (Mb/s)",
        "median block (ms)",
        "sends per segment",
        "timeouts: whole windows",
        "tails",
        "sent again",
        "most in a row",
    ];
    let row = |result: &NetResult| {
        let blocks = result.blocks.as_ref()?;
        let count = |value: Option<u64>| {
            value.map_or(Cell::Missing("n/a".into()), |count| Cell::Number(count as f64))
        };
        let cause = |place: usize| count(blocks.timeouts.map(|all| all[place]));
        let sends = blocks.sends_per_segment;
        Some(vec![
            Cell::Text(result.label.clone()),
            Cell::Number(servers(result) as f64),
            Cell::Number(blocks.goodput_mbps()),
            Cell::Number(blocks.p50_ms),
            sends.map_or(Cell::Missing("n/a".into()), Cell::Number),
            cause(0),
            cause(1),
            cause(2),
            count(blocks.timeouts_run),
        ])
    };
    vec![Table {
        id: "blocks".to_string(),
        title: "Blocks after the first, and timeouts of all".to_string(),
        columns: columns.map(String::from).to_vec(),
        rows: e.results.iter().filter_map(row).collect(),
    }]
}
