//! The clusters of the source, and what delayed acknowledgements cost ([incast 5.5]).

use super::cells::{self, blocks, compared, goodput};
use cavy_kinds::network::{NetExperiment, NetworkPlan};
use cavy_study::claim::Measured;
use cavy_study::source::{About, Study};

/// Sixteen and forty-seven servers.
pub static CLUSTER: Study<NetworkPlan> = Study {
    about: About {
        id: "cluster",
        title: "The clusters: six senders, two buffers",
        plan: include_str!("plans/cluster.toml"),
        files: &[],
        shows: "Up to 47 servers send blocks of 1 MB at 1 Gb/s, through ports of 32 and of 64 KB. \
                Senders are unmodified, or have a least timeout of 5 ms (that of a kernel with \
                jiffies), of 1 ms, or none. Those called jiffies round to ticks of 1 ms, and have \
                no other least timeout. The client delays acknowledgements by 40 ms, or not at \
                all, where there is no least timeout.",
        claimed: "On 16 nodes a least timeout of 1 ms ends the collapse, and one of 5 ms reaches \
                  65 % of that goodput. On 48 nodes no least timeout and no delay end it for 47 \
                  servers.",
    },
    measure: cluster,
    found: found_cluster,
    panels: cells::panels,
    tables: cells::tables,
};

fn cluster(e: &NetExperiment) -> Vec<Measured> {
    let mut all = Vec::new();
    for kb in [32, 64] {
        let of = |sender: &str| format!("{sender}, {kb} KB");
        let (jiffies, fine) = (of("5 ms"), of("1 ms"));
        let ratio = goodput(e, &jiffies, 16).zip(goodput(e, &fine, 16)).map(|(a, b)| a / b);
        all.push(compared(e, "cluster", &format!("ratio_16_{kb}"), (&fine, 16), ratio));
        for variant in ["fills", "whole"] {
            let late = |floor: &str| {
                let label = format!("{}, late fills", of(floor));
                cells::mean(cells::blocks_of(e, variant, &label, 16)?)
            };
            let late = late("5 ms").zip(late("1 ms")).map(|(a, b)| a / b);
            let name = format!("ratio_16_{kb}_{variant}");
            all.push(compared(e, "cluster", &name, (&fine, 16), late));
        }
        let between = || {
            let at = |label: &str| goodput(e, label, 16);
            let (slow, fast) = (at(&jiffies)?, at(&fine)?);
            Some((at(&of("jiffies"))? - slow) / (fast - slow))
        };
        all.push(compared(e, "cluster", &format!("jiffies_16_{kb}"), (&fine, 16), between()));
        let cell = |name: &str, sender: &str| {
            cells::cell(e, "cluster", &format!("{name}_47_{kb}"), &of(sender), 47)
        };
        all.push(cell("free", "none, not delayed"));
        all.push(cell("stock", "unmodified"));
    }
    all
}

fn found_cluster(e: &NetExperiment) -> String {
    let at = |sender: &str, n| cells::mbps(goodput(e, &format!("{sender}, 32 KB"), n));
    format!(
        "Through 32 KB, 16 unmodified servers reach {} Mb/s, with a least timeout of 5 ms {}, with \
         one of 1 ms {}. 47 unmodified servers reach {} Mb/s, and {} without least timeout and \
         delay.",
        at("unmodified", 16),
        at("5 ms", 16),
        at("1 ms", 16),
        at("unmodified", 47),
        at("none, not delayed", 47)
    )
}

/// Delayed acknowledgements against short timeouts.
pub static DELAYED: Study<NetworkPlan> = Study {
    about: About {
        id: "delayed_ack",
        title: "Delayed acknowledgements and short timeouts",
        plan: include_str!("plans/delayed_ack.toml"),
        files: &[],
        shows: "4 to 32 servers send blocks of 1 MB. Senders have least timeouts of 0 to 200 ms, \
                and clients delay acknowledgements of single segments by 0 to 40 ms. A curve is \
                called by its least timeout and its delay.",
        claimed: "With a delay of 40 ms the sender's timer runs out although its data has arrived. \
                  That costs about 15 % of goodput with 16 servers; a short delay, or none, wins \
                  it back. Others saw goodput fall without a delay [incast 5.5].",
    },
    measure: delayed,
    found: found_delayed,
    panels: cells::panels,
    tables: cells::tables,
};

const DELAYS: [&str; 4] = ["off", "200 us", "1 ms", "40 ms"];
const FLOORS: [&str; 5] = ["none", "200 us", "1 ms", "5 ms", "200 ms"];

fn at(e: &NetExperiment, floor: &str, delay: &str, n: u64) -> Option<f64> {
    goodput(e, &format!("{floor} / {delay}"), n)
}

/// What 40 ms cost of the goodput without delay, per cent.
fn cost(e: &NetExperiment, floor: &str, n: u64) -> Option<f64> {
    Some(100.0 * (1.0 - at(e, floor, "40 ms", n)? / at(e, floor, "off", n)?))
}

/// Points at which a client that delays nothing gets less than one that delays, by a twentieth.
fn worse_without(e: &NetExperiment) -> Vec<(String, u64, f64)> {
    let mut all = Vec::new();
    for floor in FLOORS {
        for n in [4, 8, 16, 32] {
            let best = DELAYS[1..].iter().filter_map(|delay| at(e, floor, delay, n));
            let best = best.reduce(f64::max).zip(at(e, floor, "off", n));
            let better = best.map(|(best, off)| best / off).filter(|ratio| *ratio > 1.05);
            all.extend(better.map(|ratio| (floor.to_string(), n, ratio)));
        }
    }
    all
}

fn delayed(e: &NetExperiment) -> Vec<Measured> {
    let value = |name: &str, floor: &str, n, value| {
        compared(e, "delayed_ack", name, (&format!("{floor} / off"), n), value)
    };
    let regained = |floor: &str| {
        let (off, late) = (at(e, floor, "off", 16)?, at(e, floor, "40 ms", 16)?);
        let short = at(e, floor, "200 us", 16)?.max(at(e, floor, "1 ms", 16)?);
        Some(100.0 * (short - late) / (off - late))
    };
    let worst = worse_without(e).into_iter().map(|one| one.2).reduce(f64::max);
    let ran = blocks(e, "none / off", 16).is_some();
    vec![
        value("cost_16", "none", 16, cost(e, "none", 16)),
        value("cost_16_200us", "200 us", 16, cost(e, "200 us", 16)),
        value("cost_4", "none", 4, cost(e, "none", 4)),
        value("cost_4_200us", "200 us", 4, cost(e, "200 us", 4)),
        value("regained_16", "none", 16, regained("none")),
        value("regained_16_200us", "200 us", 16, regained("200 us")),
        value("worse_without", "200 ms", 16, worst.or(ran.then_some(1.0))),
    ]
}

fn found_delayed(e: &NetExperiment) -> String {
    let per_cent = |n| cost(e, "none", n).map_or("?".into(), |cost| format!("{cost:.0}"));
    let worse = worse_without(e);
    let places: Vec<String> =
        worse.iter().map(|(floor, n, ratio)| format!("{floor} and {n} ({ratio:.2}x)")).collect();
    let words = match places.is_empty() {
        true => "At no point is goodput without a delay lower by more than a \
                 twentieth."
            .to_string(),
        false => format!(
            "Without a delay, goodput is lower by more than a twentieth at these least timeouts \
             and numbers of servers: {}.",
            places.join(", ")
        ),
    };
    format!(
        "Without a least timeout, a delay of 40 ms costs {} % of goodput with 4 servers, {} % with \
         16 and {} % with 32. {words}",
        per_cent(4),
        per_cent(16),
        per_cent(32)
    )
}
