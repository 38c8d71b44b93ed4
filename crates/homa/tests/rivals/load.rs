//! Eight hosts, all to all, at 60 % load: every rival keeps up, and each does for short messages
//! what it was made for.

use crate::each_transport;
use crate::transports::{self as t, Rival, assert_all_delivered, star};
use cavy_core::laws::packet::Queue;
use cavy_core::{Instant, Purpose, Stream};
use cavy_homa::rivals::dctcp;
use cavy_homa::rivals::pias::{self, Thresholds};

const HOSTS: u32 = 8;
const LOAD: f64 = 0.6;
/// Sizes in bytes, and the share of messages not longer.
const SIZES: [(u32, f64); 3] = [(500, 0.8), (20_000, 0.95), (300_000, 1.0)];
/// Messages arrive for so long.
const STRETCH_NS: f64 = 10e6;

struct Outcome {
    /// 99th percentile of the time of the shortest messages, over their least time.
    short_p99: f64,
    /// Mean over all messages of time over least time.
    mean: f64,
    /// From the last arrival to the last delivery, in microseconds.
    drain_us: f64,
}

fn least_ns(bytes: u32) -> f64 {
    let packet = |payload: u32| f64::from(payload + 78) * 0.8;
    let full = bytes / 1460;
    let last = bytes % 1460;
    let all = f64::from(full) * packet(1460) + if last > 0 { packet(last) } else { 0.0 };
    all + packet(if full > 0 { 1460 } else { last }) + 2_400.0
}

fn run<M: Rival>(queue: Queue, make: impl Fn() -> M) -> Outcome {
    let mut network = star(HOSTS, queue, 1, make);
    network.checks = false;
    let mut draws = Stream::keyed(1, 9, Purpose::Test);
    let mean = SIZES[0].1 * 500.0 + 0.15 * 20_000.0 + 0.05 * 300_000.0;
    let gap_ns = mean / (LOAD * 1.25 * 1460.0 / 1538.0) / f64::from(HOSTS);
    let (mut at, mut name) = (0.0, 0);
    while at < STRETCH_NS {
        at -= draws.unit().ln() * gap_ns;
        let from = draws.below(u64::from(HOSTS)) as u32;
        let to = (from + 1 + draws.below(u64::from(HOSTS) - 1) as u32) % HOSTS;
        let u = draws.unit();
        let size = SIZES.iter().find(|step| u <= step.1).expect("the last is 1").0;
        network.submit(Instant::from_ns(at as u64), (from, to), name, size, None);
        name += 2;
    }
    assert!(network.run(Instant::from_ns(20_000_000_000)));
    assert_all_delivered(&network, "load");
    let mut short = Vec::new();
    let (mut sum, mut last) = (0.0, 0);
    for fate in network.application.fates.values() {
        let end = fate.delivered_at.expect("it was delivered");
        let slowdown = end.since(fate.submitted).as_ns() as f64 / least_ns(fate.length_bytes);
        sum += slowdown;
        last = last.max(end.as_ns());
        if fate.length_bytes == 500 {
            short.push(slowdown);
        }
    }
    short.sort_by(f64::total_cmp);
    Outcome {
        short_p99: short[short.len() * 99 / 100],
        mean: sum / network.application.fates.len() as f64,
        drain_us: (last as f64 - at) / 1e3,
    }
}

#[test]
fn every_rival_keeps_up_and_shows_its_character() {
    let mut outcomes = std::collections::BTreeMap::new();
    each_transport!(|name, queue, make| {
        outcomes.insert(name, run(queue, make));
    });
    let thresholds = Thresholds::equal_bytes(&SIZES).expect("legal");
    let dctcp = dctcp::Config { initial_window_packets: 70, ..t::dctcp_config() };
    let config = pias::Config { dctcp, thresholds };
    outcomes.insert("PIAS", run(t::FIFO, || pias::Pias::new(config).expect("legal")));
    for (name, Outcome { short_p99, mean, drain_us }) in &outcomes {
        println!("{name}: short P99 {short_p99:.2}, mean {mean:.2}, drained in {drain_us:.0} us");
        assert!(*drain_us < 3_000.0, "{name} falls behind: {drain_us} us");
        assert!(*short_p99 >= 1.0, "{name} is faster than light");
    }
    let p99 = |name: &str| outcomes[name].short_p99;
    // The first bytes of long messages share the top level of PIAS with the short ones.
    for (fast, most) in [("pFabric", 3.0), ("pHost", 3.0), ("PIAS", 8.0)] {
        assert!(p99(fast) < most, "{fast}: {}", p99(fast));
        assert!(p99(fast) < p99("NDP") && p99(fast) < p99("DCTCP"), "{fast}");
    }
    assert!(p99("DCTCP") < p99("blast"), "a shorter queue");
    assert!(outcomes["SRPT blast"].mean < outcomes["blast"].mean);
}
