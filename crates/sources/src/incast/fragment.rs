//! Fixed fragments, the measurements of FAST'08: timeouts, buffers, and what timers run out for
//! ([incast 5.4]).

use super::cells::{self, blocks, compared, goodput, measured, over_servers};
use cavy_kinds::network::result::BlockResult;
use cavy_kinds::network::{NetExperiment, NetworkPlan};
use cavy_lab::statistics::quantile;
use cavy_report::model::Panel;
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Ten least timeouts.
pub static FRAGMENT: Study<NetworkPlan> = Study {
    about: About {
        id: "fragment",
        title: "Fixed fragments over ten least timeouts",
        plan: include_str!("plans/fragment.toml"),
        files: &[],
        shows: "Each of 1 to 64 servers sends 256,000 octets of a block, through a port of 64 KB. \
                The ten least timeouts are those of FAST'08.",
        claimed: "Goodput with 16 servers rises as the least timeout falls, down to about 1 ms. \
                  Numbers are those of the reference simulator.",
    },
    measure: fragment,
    found: found_fragment,
    panels: cells::panels,
    tables: cells::tables,
};

/// Labels of the plan with their names in claims.
const FLOORS: [(&str, &str); 10] = [
    ("50 us", "50us"),
    ("100 us", "100us"),
    ("200 us", "200us"),
    ("500 us", "500us"),
    ("1 ms", "1ms"),
    ("5 ms", "5ms"),
    ("10 ms", "10ms"),
    ("50 ms", "50ms"),
    ("100 ms", "100ms"),
    ("200 ms", "200ms"),
];

fn fragment(e: &NetExperiment) -> Vec<Measured> {
    let cell = |&(label, name): &(&str, &str)| {
        cells::cell(e, "fragment", &format!("n16_{name}"), label, 16)
    };
    FLOORS.iter().map(cell).collect()
}

fn found_fragment(e: &NetExperiment) -> String {
    let at = |label: &str| cells::mbps(goodput(e, label, 16));
    format!(
        "With 16 servers: {} Mb/s at 200 ms, {} at 10 ms, {} at 1 ms, {} at 200 us, {} at 50 us.",
        at("200 ms"),
        at("10 ms"),
        at("1 ms"),
        at("200 us"),
        at("50 us")
    )
}

/// Larger ports.
pub static BUFFERS: Study<NetworkPlan> = Study {
    about: About {
        id: "buffers",
        title: "Larger buffers move the collapse",
        plan: include_str!("plans/buffers.toml"),
        files: &[],
        shows: "Each server sends 256,000 octets with a least timeout of 200 ms, through ports of \
                32 KB to 1 MB.",
        claimed: "Twice the buffer is good for about twice the servers before goodput collapses. \
                  It moves the collapse and does not prevent it.",
    },
    measure: buffers,
    found: found_buffers,
    panels: cells::panels,
    tables: cells::tables,
};

/// Buffers whose collapse is looked for, KB.
const BUFFERS_KB: [u32; 6] = [32, 64, 128, 256, 512, 1024];

/// The first number of servers that gets less than half of what one server gets, and from which on
/// none gets it, beside its buffer.
fn collapses(e: &NetExperiment) -> Vec<(u32, Option<u64>)> {
    let of = |&kb: &u32| {
        let label = format!("{kb} KB");
        let all = cells::sizes(e, &label);
        let half = goodput(e, &label, 1)? / 2.0;
        let good = |n: &u64| goodput(e, &label, *n).is_some_and(|mbps| mbps >= half);
        let last = all.iter().copied().rfind(good)?;
        Some((kb, all.iter().copied().find(|&n| n > last)))
    };
    BUFFERS_KB.iter().filter_map(of).collect()
}

/// By how much a doubling of the buffer multiplies the servers of the collapse: the slope of a
/// straight line through the logarithms.
fn growth(found: &[(u32, Option<u64>)]) -> Option<f64> {
    let points: Vec<(f64, f64)> = found
        .iter()
        .filter_map(|&(kb, n)| Some((f64::from(kb).log2(), (n? as f64).log2())))
        .collect();
    if points.len() < 3 {
        return None;
    }
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let up: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let across: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    Some((up / across).exp2())
}

fn buffers(e: &NetExperiment) -> Vec<Measured> {
    let found = collapses(e);
    let samples = blocks(e, "32 KB", 16).map_or(0, |blocks| blocks.blocks);
    let note = words_of(&found);
    vec![measured("buffers", "doubling", growth(&found), samples, note)]
}

fn words_of(found: &[(u32, Option<u64>)]) -> String {
    let one = |(kb, n): &(u32, Option<u64>)| match n {
        Some(n) => format!("{n} with {kb} KB"),
        None => format!("none tried with {kb} KB"),
    };
    let all: Vec<String> = found.iter().map(one).collect();
    format!("Goodput is below half for good from so many servers on: {}.", all.join(", "))
}

fn found_buffers(e: &NetExperiment) -> String {
    words_of(&collapses(e))
}

/// What timers run out for.
pub static CENSUS: Study<NetworkPlan> = Study {
    about: About {
        id: "census",
        title: "What timers run out for",
        plan: include_str!("plans/census.toml"),
        files: &[],
        shows: "What had a server heard from the client, since the last acknowledgement of new \
                data, when its timer ran out? The table counts timeouts by their cause: the whole \
                window was lost; the end of it was lost, with one or two duplicate \
                acknowledgements; or the lost data had been sent again already.",
        claimed: "With many servers, most timeouts come without any duplicate acknowledgement: \
                  everything that was sent was lost, and only a timer could repair that.",
    },
    measure: census,
    found: found_census,
    panels: silent_shares,
    tables: cells::tables,
};

/// Share of timeouts with nothing heard, per cent.
fn share(blocks: &BlockResult) -> Option<f64> {
    share_of(blocks, blocks.timeouts_silent)
}

/// Share of timeouts that so many are, per cent.
fn share_of(blocks: &BlockResult, some: Option<u64>) -> Option<f64> {
    let all: u64 = blocks.timeouts?.iter().sum();
    (all > 0).then(|| 100.0 * some.unwrap_or(0) as f64 / all as f64)
}

fn silent(e: &NetExperiment, label: &str, n: u64) -> Option<f64> {
    share(blocks(e, label, n)?)
}

fn census(e: &NetExperiment) -> Vec<Measured> {
    let mut all = Vec::new();
    for n in [16, 32, 64] {
        let point = ("200 ms", n);
        all.push(compared(e, "census", &format!("silent_{n}"), point, silent(e, "200 ms", n)));
        let scripts = cells::blocks_of(e, "scripts", "200 ms, as the scripts", n);
        let unprompted = scripts.and_then(|blocks| share_of(blocks, blocks.timeouts_unprompted));
        all.push(compared(e, "census", &format!("unprompted_{n}"), point, unprompted));
    }
    all
}

fn found_census(e: &NetExperiment) -> String {
    let at = |n| silent(e, "200 ms", n).map_or("?".into(), |share| format!("{share:.0}"));
    let fine = silent(e, "200 us", 16).map_or("?".into(), |share| format!("{share:.0}"));
    format!(
        "With a least timeout of 200 ms, nothing had been heard before {} % of all timeouts with 4 \
         servers, {} % with 16 and {} % with 64. With 200 us and 16 servers it was {fine} %.",
        at(4),
        at(16),
        at(64)
    )
}

fn silent_shares(e: &NetExperiment) -> Vec<Panel> {
    let mut panels = over_servers(
        e,
        "silent",
        ("Share of timeouts before which nothing was heard", "no duplicate", "%"),
        |blocks| (share(blocks), None, None),
    );
    for panel in &mut panels {
        panel.y.scale = cavy_report::model::Scale::Linear;
        (panel.y.min, panel.y.max) = (Some(0.0), Some(100.0));
    }
    panels
}

/// How long blocks take.
pub static LATENCY: Study<NetworkPlan> = Study {
    about: About {
        id: "latency",
        title: "How long a block takes",
        plan: include_str!("plans/latency.toml"),
        files: &[],
        shows: "16 servers send blocks of 4 MiB, which take 33.6 ms on the wire alone. The plot \
                shows which share of the blocks is complete after which time.",
        claimed: "All answers arrive within 40 ms, and a factor of 7 later if one of them waits \
                  for a timer of 200 ms. The talk says microseconds, which is impossible \
                  [incast 0].",
    },
    measure: latency,
    found: found_latency,
    panels: distribution,
    tables: cells::tables,
};

/// 4 MiB at 1 Gb/s, milliseconds.
const WIRE_MS: f64 = 33.6;

/// The median of blocks that waited for one timeout of 200 ms and for no second one, whether of the
/// same segment or of another.
fn one_timeout_ms(e: &NetExperiment) -> Option<(f64, usize)> {
    let all = &blocks(e, "200 ms", 0)?.latency_ms;
    let one: Vec<f64> = all.iter().copied().filter(|ms| (200.0..400.0).contains(ms)).collect();
    Some((quantile::of_sorted(&one, 0.5)?, one.len()))
}

fn median(e: &NetExperiment, label: &str) -> Option<f64> {
    let blocks = blocks(e, label, 0)?;
    (blocks.blocks > 0).then_some(blocks.p50_ms)
}

fn latency(e: &NetExperiment) -> Vec<Measured> {
    let one = one_timeout_ms(e);
    let note = one.map_or(String::new(), |(_, count)| format!("{count} % of blocks are such."));
    let samples = blocks(e, "200 ms", 0).map_or(0, |blocks| blocks.blocks);
    let ratio = one.map(|(ms, _)| ms / WIRE_MS);
    let times = median(e, "200 ms").zip(median(e, "none")).map(|(stock, fine)| stock / fine);
    vec![
        measured("latency", "one_timeout", ratio, samples, note),
        compared(e, "latency", "free_p50", ("none", 0), median(e, "none")),
        compared(e, "latency", "stock_over_free", ("200 ms", 0), times),
    ]
}

fn found_latency(e: &NetExperiment) -> String {
    let at = |label: &str| {
        let of = blocks(e, label, 0);
        let p50 = of.map_or("?".into(), |blocks| format!("{:.0}", blocks.p50_ms));
        (p50, of.and_then(|blocks| blocks.within_ms(90)))
    };
    let (stock, fine) = (at("200 ms"), at("none"));
    let medians = format!(
        "The median block takes {} ms with a least timeout of 200 ms, and {} ms without one",
        stock.0, fine.0
    );
    match (stock.1, fine.1) {
        (Some(stock), Some(fine)) => {
            format!(
                "{medians}. The slowest tenth of the blocks takes {stock:.0} and {fine:.0} ms \
                     or more."
            )
        }
        // Of a quick run's blocks too few are beyond.
        _ => format!("{medians}."),
    }
}

/// The share of blocks done within a time.
fn distribution(e: &NetExperiment) -> Vec<Panel> {
    use cavy_report::model::{Axis, Point, Scale, Series};
    let series = |label: &str| {
        let all = blocks(e, label, 0).map(|blocks| (blocks.latency_ms.clone(), blocks.blocks));
        let (times, samples) = all.unwrap_or_default();
        let dot = |(share, ms): (usize, f64)| Point {
            x: ms,
            y: Some(share as f64),
            low: None,
            high: None,
            samples,
            stable: true,
        };
        let points = times.into_iter().enumerate().map(dot).collect();
        Series { label: label.to_string(), points }
    };
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_string(),
        unit: unit.to_string(),
        scale,
        min: None,
        max: None,
    };
    vec![Panel {
        id: "latency".to_string(),
        title: "Blocks that are done within a time".to_string(),
        x: axis("time", "ms", Scale::Log),
        y: axis("blocks", "%", Scale::Linear),
        series: e.labels(BASE).into_iter().map(series).collect(),
        rules: Vec::new(),
    }]
}
