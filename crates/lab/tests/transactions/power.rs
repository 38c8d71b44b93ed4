//! Power cuts: DAST with logs comes back when all that held a transaction failed at once.

use crate::faults::{again, outage, seeds, verdict};
use crate::town::{Mix, go, network};
use cavy_core::{Purpose, Ratio, Span, Stream};
use cavy_lab::net::{OutageKind, What};
use cavy_lab::wan::{Jitter, Rule, Setup, Which};
use cavy_txn::dast::{Config, Mode};
use cavy_txn::{Layout, Region, Shard};

fn durable() -> Config {
    Config { durable: true, ..Config::new(Layout::new(3, 2), Mode::Precise) }
}

/// The nodes of a region, replicas first.
fn all_of(layout: Layout, region: Region) -> Vec<u32> {
    let stewards = layout.stewards_of(region);
    layout.replicas_in(region).chain(stewards).map(|node| node.0).collect()
}

/// Which nodes lose their power, when, and when they have it again.
fn cut(setup: &mut Setup, layout: Layout, seed: u64) -> String {
    let mut draws = Stream::keyed(seed, 8, Purpose::Test);
    setup.disk.sync = Span::from_us(draws.below(3_000));
    for link in &mut setup.links {
        let most = link.one_way.as_ns() * draws.below(100) / 100;
        link.jitter = Jitter::Even(Span::from_ns(most));
    }
    let region = Region(draws.below(u64::from(layout.regions)) as u16);
    let shard = layout.shards_of(region).next().unwrap_or(Shard(0));
    let of_shard: Vec<u32> = layout.replicas_of(shard).map(|node| node.0).collect();
    let of_region = all_of(layout, region);
    let replicas = &of_region[..of_region.len() - 3];
    let everybody: Vec<u32> = (0..layout.nodes()).collect();
    let from = 400 + draws.below(600);
    let mut whose = Stream::keyed(seed, 9, Purpose::Test);
    let mut outages = Vec::new();
    let mut lossy = false;
    let mut crash = |nodes: &[u32], from: u64, apart: u64, longest: u64| {
        for node in nodes {
            let from = from + draws.below(apart + 1);
            let until = from + 1 + draws.below(longest);
            outages.push(outage(*node, from, until, OutageKind::Crash));
        }
    };
    match seed % 11 {
        0 => crash(&of_shard, from, 0, 400),
        1 => crash(&of_region, from, 0, 400),
        2 => crash(replicas, from, 0, 40),
        3 => crash(&everybody, from, 0, 600),
        4 => crash(&of_shard[1..], from, 60, 300),
        5 => {
            crash(&of_region, from, 0, 200);
            crash(&of_region, from + 201 + seed % 150, 0, 200);
        }
        6 => {
            // One does not come back, and the others must do without it.
            crash(&of_shard[1..], from, 0, 200);
            setup.faults.outages.push(outage(of_shard[0], from, 0, OutageKind::Crash));
        }
        7 => {
            for (nth, node) in of_region.iter().enumerate() {
                crash(&[*node], from + 120 * nth as u64, 40, 60);
            }
        }
        8 => {
            crash(&of_region, from, 5, 300);
            lossy = true;
        }
        9 => {
            // Nodes of all regions fail again and again.
            for _ in 0..12 {
                let node = everybody[whose.below(everybody.len() as u64) as usize];
                crash(&[node], 300, 1_500, 500);
            }
        }
        _ => {
            // One is out and comes back while the power goes.
            let before = outage(of_shard[2], from - 250, from - 20, OutageKind::Crash);
            setup.faults.outages.push(before);
            crash(&of_region, from, 3, 300);
        }
    }
    setup.faults.outages.extend(outages);
    if lossy {
        let what = What::Lose(Ratio { num: 1, den: 50 });
        setup.faults.rules.push(Rule { which: Which::any(), what });
    }
    setup.linger = Span::from_ms(3_000);
    format!("{:?}", setup.faults.outages)
}

fn try_cuts(test: &str, seeds: std::ops::Range<u64>) {
    let mut broken = Vec::new();
    for seed in seeds {
        // With every other seed logs are short, so that everything is stored anew now and then.
        let checkpoint_bytes = if seed % 2 == 0 { 10_000 } else { 4 << 20 };
        let config = Config { checkpoint_bytes, ..durable() };
        let mut setup = network(&config);
        setup.seed = seed;
        setup.check = true;
        let what = cut(&mut setup, config.layout, seed);
        if let Err(why) = verdict(|| go(&config, &setup, Mix::all()).judge()) {
            println!("seed {seed}: {why}\n  {what}\n  again: {}", again(test, seed));
            broken.push(seed);
        }
    }
    assert!(broken.is_empty(), "{} seeds broke an oracle: {broken:?}", broken.len());
}

#[test]
fn power_cuts_lose_nothing_and_everybody_comes_back() {
    try_cuts("power::power_cuts_lose_nothing", seeds(40));
}

/// What replicas without logs survive, those with logs do too.
#[test]
fn a_fault_does_no_harm_where_replicas_keep_logs() {
    let test = "power::a_fault_does_no_harm_where_replicas_keep_logs";
    crate::faults::try_seeds(&durable(), test, seeds(40));
}

/// A log is a few times as long as what it has to keep.
#[test]
fn logs_stay_short() {
    let config = Config { checkpoint_bytes: 10_000, ..durable() };
    let setup = network(&config);
    let town = go(&config, &setup, Mix::all());
    assert_eq!(town.judge(), Ok(()));
    let counts = &town.report.counts;
    assert!(counts.records_trimmed * 2 > counts.records, "{counts:?}");
}

/// The oracle bites: the same cuts end regions whose replicas keep nothing.
#[test]
fn without_logs_a_power_cut_is_the_end() {
    let config = Config { durable: false, ..durable() };
    let mut setup = network(&config);
    let of_region = all_of(config.layout, Region(0));
    for node in of_region {
        setup.faults.outages.push(outage(node, 700, 900, OutageKind::Crash));
    }
    let town = go(&config, &setup, Mix::all());
    let why = town.judge().expect_err("everything that region 0 held is gone");
    assert!(why.starts_with("liveness"), "{why}");
}
