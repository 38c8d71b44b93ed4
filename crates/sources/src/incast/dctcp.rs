//! Marks before losses: DCTCP over real connections ([incast 2.11], [incast 4.1] W7, [incast 8]).

use super::cells::{self, blocks, compared, goodput};
use cavy_kinds::network::{NetExperiment, NetworkPlan};
use cavy_study::claim::Measured;
use cavy_study::source::{About, Study};

/// DCTCP's own test of incast.
pub static DCTCP: Study<NetworkPlan> = Study {
    about: About {
        id: "dctcp",
        title: "DCTCP: marks before losses",
        plan: include_str!("plans/dctcp.toml"),
        files: &[],
        shows: "Up to 60 servers send blocks of 1 MB through a port with a static buffer of 100 \
                KB. They use DCTCP, whose switch marks packets that find 20 others waiting, or \
                NewReno, both with least timeouts of 10 and of 200 ms. All begin with two \
                segments.",
        claimed: "Short queues leave room for bursts: DCTCP has no timeout up to 35 to 40 servers. \
                  With more, the first two segments of each overflow the port. No mark can tell \
                  the senders in time, and DCTCP is as bad as TCP.",
    },
    measure,
    found,
    panels: cells::panels,
    tables: cells::tables,
};

const SHORT: &str = "DCTCP, 10 ms";

fn timeouts(e: &NetExperiment, label: &str, n: u64) -> Option<u64> {
    Some(blocks(e, label, n)?.timeouts?.iter().sum())
}

/// The first number of servers with which a sender times out.
fn first_timeout(e: &NetExperiment, label: &str) -> Option<u64> {
    let all = cells::sizes(e, label);
    all.into_iter().find(|&n| timeouts(e, label, n).is_some_and(|count| count > 0))
}

/// Goodput over that of NewReno with the same least timeout.
fn over(e: &NetExperiment, floor: &str, n: u64) -> Option<f64> {
    let of = |name: &str| goodput(e, &format!("{name}, {floor}"), n);
    Some(of("DCTCP")? / of("NewReno")?)
}

/// The least goodput of 5 to 30 servers, over that of one.
fn kept(e: &NetExperiment) -> Option<f64> {
    let alone = goodput(e, SHORT, 1)?;
    let few = cells::sizes(e, SHORT).into_iter().filter(|n| (5..=30).contains(n));
    few.filter_map(|n| goodput(e, SHORT, n)).reduce(f64::min).map(|least| least / alone)
}

fn measure(e: &NetExperiment) -> Vec<Measured> {
    let value = |name: &str, n, value| compared(e, "dctcp", name, (SHORT, n), value);
    vec![
        value("first_timeout", 35, first_timeout(e, SHORT).map(|n| n as f64)),
        value("kept_30", 30, kept(e)),
        value("over_newreno_20", 20, over(e, "200 ms", 20)),
        value("like_newreno_60", 60, over(e, "10 ms", 60)),
    ]
}

fn found(e: &NetExperiment) -> String {
    let first = |label: &str| {
        first_timeout(e, label).map_or("none tried".to_string(), |n| format!("{n} servers"))
    };
    let at = |label: &str, n| cells::mbps(goodput(e, label, n));
    format!(
        "The first timeouts come with {} for DCTCP and with {} for NewReno. With 20 servers and \
         200 ms, DCTCP reaches {} Mb/s and NewReno {}; with 60 servers and 10 ms, {} and {}.",
        first(SHORT),
        first("NewReno, 10 ms"),
        at("DCTCP, 200 ms", 20),
        at("NewReno, 200 ms", 20),
        at(SHORT, 60),
        at("NewReno, 10 ms", 60)
    )
}
