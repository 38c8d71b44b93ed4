//! What a client can do alone, and what today's recovery does ([incast 5.8], [incast 5.9],
//! [incast 8]).

use super::cells::{self, blocks, compared, goodput};
use cavy_kinds::network::{NetExperiment, NetworkPlan};
use cavy_study::claim::Measured;
use cavy_study::experiment::BASE;
use cavy_study::source::{About, Study};

/// Today's recovery.
pub static MODERN: Study<NetworkPlan> = Study {
    about: About {
        id: "modern",
        title: "Today's recovery, by jiffies and by microseconds",
        plan: include_str!("plans/modern.toml"),
        files: &[],
        shows: "The unmodified sender of 2009 stands beside a Linux of today, with RACK-TLP, PRR, \
                undo, timestamps, its delayed acknowledgements and jiffies of 4 ms, and beside the \
                same machinery with timers of a microsecond and no least timeout (`fine`).",
        claimed: "RACK, TLP and CUBIC do not help: incast still reaches a few percent of the link. \
                  Their timers count in jiffies, and if a whole window is lost, no acknowledgement \
                  tells them.",
    },
    measure: modern,
    found: found_modern,
    panels: cells::panels,
    tables: cells::tables,
};

fn modern(e: &NetExperiment) -> Vec<Measured> {
    let cell = |name: &str, label: &str| cells::cell(e, "modern", name, label, 16);
    let gain = goodput(e, "fine, CUBIC", 16).zip(goodput(e, "Linux, CUBIC", 16));
    vec![
        cell("newreno_16", "Linux, NewReno"),
        cell("cubic_16", "Linux, CUBIC"),
        compared(e, "modern", "fine_over_jiffies", ("fine, CUBIC", 16), gain.map(|(f, l)| f / l)),
    ]
}

fn found_modern(e: &NetExperiment) -> String {
    let at = |label: &str| cells::mbps(goodput(e, label, 16));
    format!(
        "With 16 servers, the sender of 2009 reaches {} Mb/s, Linux with RACK-TLP {}, with CUBIC \
         as well {}, and with a least timeout of 8 ms {}. With timers of a microsecond it reaches \
         {}.",
        at("2009"),
        at("Linux, NewReno"),
        at("Linux, CUBIC"),
        at("Linux, CUBIC, 8 ms"),
        at("fine, CUBIC")
    )
}

/// Stock servers and a client that schedules them.
pub static CURE: Study<NetworkPlan> = Study {
    about: About {
        id: "cure",
        title: "The cure that the client brings",
        plan: include_str!("plans/cure.toml"),
        files: &[],
        shows: "Servers have the usual least timeout of 200 ms. The client `stock, scheduled` asks \
                a server, and lets it send, only when its port has room for another whole segment. \
                Servers take turns. The client `stock, learned` does the same and is not told how \
                much the port holds.",
        claimed: "The source has no such client; these claims are our own. With any number of \
                  servers there is no timeout, goodput is that of a single server, and no server \
                  is changed.",
    },
    measure: cure,
    found: found_cure,
    panels: cells::panels,
    tables: cells::tables,
};

const CURED: &str = "stock, scheduled";
const LEARNED: &str = "stock, learned";
/// Ports of the variants, and who is told of them.
const PORTS: [(&str, &str); 3] = [
    ("64 KB, learned", "64 KB, told"),
    ("256 KB, learned", "256 KB, told"),
    ("32 KB, learned", "32 KB, told"),
];

/// The least goodput for these numbers of servers over that of one.
fn kept(e: &NetExperiment, from: u64, to: u64) -> Option<f64> {
    let alone = goodput(e, CURED, 1)?;
    let all = cells::sizes(e, CURED).into_iter().filter(|n| (from..=to).contains(n));
    all.filter_map(|n| goodput(e, CURED, n)).reduce(f64::min).map(|least| least / alone)
}

fn cure(e: &NetExperiment) -> Vec<Measured> {
    let fits = cells::sizes(e, CURED).into_iter().filter(|&n| n <= 21);
    let timeouts = fits.filter_map(|n| blocks(e, CURED, n)?.timeouts).flatten();
    let timeouts = blocks(e, CURED, 1).and_then(|one| one.timeouts).map(|_| timeouts.sum::<u64>());
    let times = goodput(e, CURED, 16).zip(goodput(e, "stock", 16)).map(|(a, b)| a / b);
    let wide = learned(e, "ports", &PORTS[..2]);
    let ports = wide.zip(learned(e, "slow", &PORTS)).map(|(a, b)| a.min(b));
    vec![
        compared(e, "cure", "fits", (CURED, 16), kept(e, 1, 21)),
        compared(e, "cure", "timeouts", (CURED, 16), timeouts.map(|count| count as f64)),
        compared(e, "cure", "beyond", (CURED, 128), kept(e, 22, 4096)),
        compared(e, "cure", "over_stock_16", (CURED, 16), times),
        compared(e, "cure", "learned", (LEARNED, 128), learned(e, BASE, &[(LEARNED, CURED)])),
        compared(e, "cure", "learned_ports", (LEARNED, 128), ports),
    ]
}

/// The least goodput of each first over that of its second, with 4 servers or more.
fn learned(e: &NetExperiment, variant: &str, pairs: &[(&str, &str)]) -> Option<f64> {
    let sizes = cells::sizes(e, CURED).into_iter().filter(|&n| n >= 4);
    let shares = sizes.flat_map(|n| pairs.iter().map(move |&pair| (n, pair)));
    let shares = shares.filter_map(|(n, (learns, told))| {
        let of = |label| cells::mean(cells::blocks_of(e, variant, label, n)?);
        Some(of(learns)? / of(told)?)
    });
    shares.reduce(f64::min)
}

fn found_cure(e: &NetExperiment) -> String {
    let at = |label: &str, n| cells::mbps(goodput(e, label, n));
    format!(
        "With 16 servers, goodput is {} Mb/s with the usual timeout, {} without a least timeout, \
         {} if the client lets servers send in turn, and {} if it learns how many. With 128 \
         servers it is {}, {}, {} and {} Mb/s.",
        at("stock", 16),
        at("no floor", 16),
        at(CURED, 16),
        at(LEARNED, 16),
        at("stock", 128),
        at("no floor", 128),
        at(CURED, 128),
        at(LEARNED, 128)
    )
}

/// Thousands of them.
pub static THOUSANDS: Study<NetworkPlan> = Study {
    about: About {
        id: "cure_thousands",
        title: "The cure for thousands",
        plan: include_str!("plans/cure_thousands.toml"),
        files: &[],
        shows: "2048 servers send at 10 Gb/s through a port of 32 KB. The best sender of the \
                figure `thousands` stands beside unmodified servers whose client lets them send in \
                turn.",
        claimed: "The source has no such client; these claims are our own. It uses nine tenths of \
                  the link, and hardly anything is sent twice.",
    },
    measure: cured_thousands,
    found: found_thousands,
    panels: cells::panels,
    tables: cells::tables,
};

fn cured_thousands(e: &NetExperiment) -> Vec<Measured> {
    let found = blocks(e, CURED, 2048);
    let ratio = found.and_then(|blocks| blocks.goodput_ratio);
    let sends = found.and_then(|blocks| blocks.sends_per_segment);
    vec![
        compared(e, "cure_thousands", "ratio", (CURED, 2048), ratio),
        compared(e, "cure_thousands", "sends", (CURED, 2048), sends),
    ]
}

fn found_thousands(e: &NetExperiment) -> String {
    let sends = |label: &str| {
        let ratio = blocks(e, label, 2048).and_then(|blocks| blocks.sends_per_segment);
        ratio.map_or("?".into(), |ratio| format!("{ratio:.2}"))
    };
    format!(
        "If the client lets servers send in turn, goodput is {} Mb/s, and each segment is sent {} \
         times. With short timeouts that are stretched at random it is {} Mb/s and {} times.",
        cells::mbps(goodput(e, CURED, 2048)),
        sends(CURED),
        cells::mbps(goodput(e, "random", 2048)),
        sends("random")
    )
}
