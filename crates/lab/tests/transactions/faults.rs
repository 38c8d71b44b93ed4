//! One thing that goes wrong, drawn from a seed, and what must hold after it.

use crate::town::{Contestant, Mix, go, network};
use cavy_core::family::Node;
use cavy_core::{Instant, Purpose, Ratio, Span, Stream};
use cavy_lab::net::{Outage, OutageKind, What};
use cavy_lab::wan::{ClockStep, Jitter, Rule, Setup, Site, Which};
use cavy_txn::Layout;

pub fn at(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

pub fn outage(node: u32, from: u64, until: u64, kind: OutageKind) -> Outage {
    let until = if until == 0 { Instant::NEVER } else { at(until) };
    Outage { host: Node(node), from: at(from), until, kind }
}

/// What E7 lists, and some more.
pub fn draw(setup: &mut Setup, layout: Layout, fronts_fail: bool, seed: u64) -> String {
    let mut draws = Stream::keyed(seed, 7, Purpose::Test);
    let replica = draws.below(u64::from(layout.replica_nodes())) as u32;
    let region = draws.below(u64::from(layout.regions)) as u16;
    // Stewards, or the nodes of clients, follow the replicas, if there are any.
    let nodes = if fronts_fail { setup.nodes.len() as u32 } else { 0 };
    let steward = layout.replica_nodes() + 3 * u32::from(region);
    let steward = if steward < nodes { steward } else { 6 * u32::from(region) };
    let from = 400 + draws.below(600);
    let short = 1 + draws.below(50);
    let long = 300 + draws.below(900);
    for link in &mut setup.links {
        let most = link.one_way.as_ns() * draws.below(100) / 100;
        link.jitter = Jitter::Even(Span::from_ns(most));
    }
    let faults = &mut setup.faults;
    match seed % 10 {
        0 => faults.outages.push(outage(replica, from, 0, OutageKind::Crash)),
        1 => faults.outages.push(outage(replica, from, from + long, OutageKind::Crash)),
        2 => faults.outages.push(outage(replica, from, from + short, OutageKind::Crash)),
        3 => faults.outages.push(outage(steward, from, 0, OutageKind::Crash)),
        4 => faults.outages.push(outage(steward, from, from + long, OutageKind::Crash)),
        5 => faults.outages.push(outage(replica, from, from + long, OutageKind::Freeze)),
        6 => {
            faults.cut_off(Site(region), at(from), at(from + long));
        }
        7 => {
            let by_ns = [5_000_000_000, -5_000_000_000][draws.below(2) as usize];
            faults.steps.push(ClockStep { node: Node(replica), at: at(from), by_ns });
        }
        8 => {
            let what = What::Lose(Ratio { num: 1, den: 50 });
            faults.rules.push(Rule { which: Which::any(), what });
            faults.outages.push(outage(replica, from, from + long, OutageKind::Crash));
        }
        _ => {
            faults.outages.push(outage(replica, from, from + long, OutageKind::Crash));
            let again = from + long + 700;
            let other = layout.replica(layout.shard_of(Node(replica)).unwrap(), replica + 1).0;
            faults.outages.push(outage(other, again, again + long, OutageKind::Crash));
            if steward >= layout.replica_nodes() {
                faults.outages.push(outage(steward, again + 30, 0, OutageKind::Crash));
            }
        }
    }
    if faults.steps.is_empty() {
        // Nobody's clock is seconds ahead, so nothing waits for seconds.
        setup.linger = Span::from_ms(3_000);
    }
    format!("{:?}", setup.faults)
}

/// The seeds to run: `usual`, or those that the caller says.
#[allow(clippy::disallowed_methods)] // which seeds to run is the caller's to say
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    cavy_core::laws::seeds(|name| std::env::var(name).ok(), 0..usual)
}

/// How to run one seed again.
pub fn again(test: &str, seed: u64) -> String {
    format!("CAVY_SEED={seed} cargo test -p cavy-lab --test transactions {test} -- --nocapture")
}

/// What a run came to: `Err` says which oracle was broken, and how.
pub fn verdict(run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let run = std::panic::AssertUnwindSafe(run);
    std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Runs every seed, prints those that break an oracle, and how to run one again.
pub fn try_seeds<C: Contestant>(contestant: &C, test: &str, seeds: std::ops::Range<u64>) {
    let mut broken = Vec::new();
    for seed in seeds {
        let mut setup = network(contestant);
        setup.seed = seed;
        setup.check = true;
        let what = draw(&mut setup, contestant.layout(), contestant.fronts_fail(), seed);
        let verdict = verdict(|| go(contestant, &setup, Mix::all()).judge());
        if let Err(why) = verdict {
            println!("seed {seed}: {why}\n  {what}\n  again: {}", again(test, seed));
            broken.push(seed);
        }
    }
    assert!(broken.is_empty(), "{} seeds broke an oracle: {broken:?}", broken.len());
}
