//! What the figures share: points by contestant and number of servers, their goodput, plots and
//! tables.

use cavy_kinds::network::result::BlockResult;
use cavy_kinds::network::{NetExperiment, NetResult};
use cavy_report::model::{Axis, Cell, Panel, Point, Scale, Series, Table};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;

const KEY: &str = "traffic.servers";

/// The number of servers of a point; 0 where a plan has one number only.
pub fn servers(result: &NetResult) -> u64 {
    result.settings.get(KEY).and_then(serde_json::Value::as_u64).unwrap_or(0)
}

/// What became of the blocks of a contestant with so many servers.
pub fn blocks<'a>(e: &'a NetExperiment, label: &'a str, n: u64) -> Option<&'a BlockResult> {
    blocks_of(e, BASE, label, n)
}

/// The same of a variant.
pub fn blocks_of<'a>(
    e: &'a NetExperiment,
    variant: &'a str,
    label: &'a str,
    n: u64,
) -> Option<&'a BlockResult> {
    e.of(variant, label).find(|result| servers(result) == n)?.blocks.as_ref()
}

/// Their goodput, Mb/s.
pub fn goodput(e: &NetExperiment, label: &str, n: u64) -> Option<f64> {
    mean(blocks(e, label, n)?)
}

/// Mean goodput, where there is one.
pub fn mean(blocks: &BlockResult) -> Option<f64> {
    (!blocks.goodput_each_mbps.is_empty()).then(|| blocks.goodput_mbps())
}

/// Numbers of servers that were run with `label`, ascending.
pub fn sizes(e: &NetExperiment, label: &str) -> Vec<u64> {
    let mut all: Vec<u64> = e.of(BASE, label).map(servers).collect();
    all.sort_unstable();
    all
}

/// A value of a claim of `figure`, as far as it is known.
pub fn measured(
    figure: &str,
    name: &str,
    value: Option<f64>,
    samples: u64,
    note: String,
) -> Measured {
    let id = format!("incast.{figure}.{name}");
    Measured { id, value, samples, note, ..Measured::default() }
}

/// A value that compares contestants at `n` servers: samples are the blocks of `label`.
pub fn compared(
    e: &NetExperiment,
    figure: &str,
    name: &str,
    (label, n): (&str, u64),
    value: Option<f64>,
) -> Measured {
    let samples = blocks(e, label, n).map_or(0, |blocks| blocks.blocks);
    measured(figure, name, value, samples, format!("{samples} blocks of each."))
}

/// Goodput of one point.
pub fn cell(e: &NetExperiment, figure: &str, name: &str, label: &str, n: u64) -> Measured {
    cell_of(figure, name, blocks(e, label, n))
}

/// The same of a point that was found.
pub fn cell_of(figure: &str, name: &str, found: Option<&BlockResult>) -> Measured {
    let each = found.map(|blocks| blocks.goodput_each_mbps.as_slice()).unwrap_or_default();
    let note = found.map_or("Not run.".to_string(), |blocks| {
        format!("{} blocks in {} replications.", blocks.blocks, each.len())
    });
    let samples = found.map_or(0, |blocks| blocks.blocks);
    measured(figure, name, found.and_then(mean), samples, note)
}

/// A number in words.
pub fn mbps(value: Option<f64>) -> String {
    value.map_or("?".into(), |mbps| format!("{mbps:.0}"))
}

/// Goodput over servers.
pub fn panels(e: &NetExperiment) -> Vec<Panel> {
    over_servers(e, "goodput", ("Goodput of blocks", "goodput", "Mb/s"), |blocks| {
        let each = &blocks.goodput_each_mbps;
        let low = each.iter().copied().reduce(f64::min);
        let high = each.iter().copied().reduce(f64::max);
        ((!each.is_empty()).then(|| blocks.goodput_mbps()), low, high)
    })
}

/// A value and its range.
type Ranged = (Option<f64>, Option<f64>, Option<f64>);

/// A panel of any value over servers: its title, what its axis says, and its unit.
pub fn over_servers(
    e: &NetExperiment,
    id: &str,
    (title, label, unit): (&str, &str, &str),
    of: impl Fn(&BlockResult) -> Ranged,
) -> Vec<Panel> {
    let axis = |label: &str, unit: &str| Axis {
        label: label.to_string(),
        unit: unit.to_string(),
        scale: Scale::Log,
        min: None,
        max: None,
    };
    let point = |result: &NetResult| {
        let blocks = result.blocks.as_ref()?;
        let (y, low, high) = of(blocks);
        let (x, samples) = (servers(result) as f64, blocks.blocks);
        Some(Point { x, y, low, high, samples, stable: true })
    };
    let series = |label: &str| Series {
        label: label.to_string(),
        points: e.of(BASE, label).filter_map(point).collect(),
    };
    vec![Panel {
        id: id.to_string(),
        title: title.to_string(),
        x: axis("servers", ""),
        y: axis(label, unit),
        series: e.labels(BASE).into_iter().map(series).collect(),
        rules: Vec::new(),
    }]
}

/// Every point, with its timeouts by cause.
pub fn tables(e: &NetExperiment) -> Vec<Table> {
    // A plan that sweeps nothing else has one number of servers, which the figure says.
    let with_servers = e.results.iter().any(|result| servers(result) > 0);
    let mut columns = vec!["sender"];
    columns.extend(with_servers.then_some("servers"));
    columns.extend([
        "goodput (Mb/s)",
        "median block (ms)",
        "p90 block (ms)",
        "sends per segment",
        "timeouts: whole windows",
        "tails",
        "sent again",
        "most in a row",
    ]);
    let row = |result: &NetResult| {
        let blocks = result.blocks.as_ref()?;
        let missing = || Cell::Missing("n/a".into());
        let count = |value: Option<u64>| value.map_or(missing(), |n| Cell::Number(n as f64));
        let cause = |place: usize| count(blocks.timeouts.map(|all| all[place]));
        let mut cells = vec![Cell::Text(result.label.clone())];
        cells.extend(with_servers.then(|| Cell::Number(servers(result) as f64)));
        cells.extend([
            Cell::Number(blocks.goodput_mbps()),
            Cell::Number(blocks.p50_ms),
            blocks.within_ms(90).map_or(missing(), Cell::Number),
            blocks.sends_per_segment.map_or(missing(), Cell::Number),
            cause(0),
            cause(1),
            cause(2),
            count(blocks.timeouts_run),
        ]);
        Some(cells)
    };
    vec![Table {
        id: "blocks".to_string(),
        title: "Blocks after the first, and timeouts of all".to_string(),
        columns: columns.into_iter().map(String::from).collect(),
        rows: e.results.iter().filter_map(row).collect(),
    }]
}
