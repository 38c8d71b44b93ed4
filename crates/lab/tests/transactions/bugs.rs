//! Planted bugs `[dast 5.8]`: each must be caught in nearly all seeds of a run that can show it.
//!
//! Which runs can show a bug is a matter of what it breaks: late messages, a clock that lags, two
//! failures in one instant. A scenario is a choice of network, faults and load, and its seeds draw
//! the rest.

use crate::faults::{again, at, outage, seeds, verdict};
use crate::town::{Mix, go, network};
use cavy_core::family::Node;
use cavy_core::family::message::Via;
use cavy_core::{Purpose, Ratio, Span, Stream};
use cavy_lab::net::{OutageKind, What};
use cavy_lab::wan::{Clock, ClockStep, End, Jitter, Order, Rule, Setup, Which};
use cavy_txn::Layout;
use cavy_txn::dast::{Bugs, Config, Mode};

/// Of so many seeds, at least so many must show the bug.
const SEEDS: u64 = 60;
const CAUGHT: u64 = 55;
/// In CI fewer run, and a smaller share must show it, so that the test takes seconds.
const FEW: u64 = 2;

struct Bug {
    name: &'static str,
    config: Config,
    mix: Mix,
    /// The machine without the bug stands in this scenario.
    stands: bool,
    set: fn(&mut Setup, Layout, &mut Stream),
}

fn jitter(setup: &mut Setup, percent: u64) {
    for link in &mut setup.links {
        link.jitter = Jitter::Even(Span::from_ns(link.one_way.as_ns() * percent / 100));
    }
}

/// Few rows, so that whatever is out of order is seen.
fn hot() -> Mix {
    Mix { rows: 2, clients_per_shard: 6, crt_percent: 20, think: Span::from_ms(1), ..Mix::all() }
}

/// All that `from` says to `to` waits from one time to another.
fn hold(setup: &mut Setup, from: End, to: End, since: u64, until: u64) {
    let via = Some(Via::Channel);
    let (since, until) = (at(since), at(until));
    let which = Which { via, since, until, ..Which::between(from, to) };
    setup.faults.rules.push(Rule { which, what: What::Down });
}

/// All that `from` says to `to` takes longer.
fn delay(setup: &mut Setup, from: Node, to: Node, by: Span) {
    let which = Which::between(End::Node(from), End::Node(to));
    let ratio = Ratio { num: 1, den: 1 };
    setup.faults.rules.push(Rule { which, what: What::Delay { ratio, by } });
}

fn crash(setup: &mut Setup, node: Node, from: u64, until: u64) {
    setup.faults.outages.push(outage(node.0, from, until, OutageKind::Crash));
}

fn config(bugs: Bugs) -> Config {
    Config { bugs, ..Config::new(Layout::new(3, 2), Mode::Precise) }
}

/// Runs one seed, or the same without the bug; `Err`: it was caught, and how.
fn try_one(bug: &Bug, seed: u64, right: bool) -> Result<(), String> {
    let own = &bug.config;
    let right_config = Config { bugs: Bugs::default(), unique_t: true, ..own.clone() };
    let config = if right { &right_config } else { own };
    let mut setup = network(config);
    setup.seed = seed;
    setup.duration = Span::from_ms(2_000);
    let mut draws = Stream::keyed(seed, 9, Purpose::Test);
    (bug.set)(&mut setup, config.layout, &mut draws);
    if right {
        setup.order = Order::PerPair;
    }
    verdict(|| go(config, &setup, bug.mix).judge())
}

/// The bug is caught, and the machine without it is not accused.
fn is_caught(bug: &Bug) {
    let seeds = seeds(FEW);
    let many = seeds.end - seeds.start;
    let mut caught = 0;
    for seed in seeds {
        let test = format!("bugs::{}", bug.name);
        match try_one(bug, seed, false) {
            Err(why) => {
                caught += 1;
                println!("{}, seed {seed}: {why}\n  again: {}", bug.name, again(&test, seed));
            }
            Ok(()) => println!("{}, seed {seed}: nothing seen", bug.name),
        }
        if bug.stands
            && let Err(why) = try_one(bug, seed, true)
        {
            panic!("without the bug, seed {seed}: {why}");
        }
    }
    println!("{}: caught in {caught} of {many} seeds", bug.name);
    let least = if many >= SEEDS { many * CAUGHT / SEEDS } else { many.div_ceil(2) };
    assert!(caught >= least, "{} was caught in {caught} of {many} seeds", bug.name);
}

#[test]
fn m1_no_watermark() {
    is_caught(&Bug {
        name: "m1_no_watermark",
        config: config(Bugs { no_watermark: true, ..Bugs::default() }),
        mix: hot(),
        stands: true,
        set: |setup, _, _| jitter(setup, 90),
    });
}

#[test]
fn m2_one_acknowledgement_for_a_majority() {
    is_caught(&Bug {
        name: "m2_one_acknowledgement_for_a_majority",
        config: config(Bugs { one_ack: true, ..Bugs::default() }),
        mix: Mix { two_shards_percent: 25, crt_percent: 5, ..hot() },
        stands: true,
        // A coordinator answers its clients, and crashes before anybody else has heard.
        set: |setup, layout, draws| {
            jitter(setup, 90);
            setup.duration = Span::from_ms(3_000);
            for first in (0..layout.replica_nodes()).step_by(3) {
                for turn in 0..3 {
                    let from = 300 + 900 * u64::from(turn) + draws.below(300);
                    let node = Node(first + turn);
                    // What it sends in its last moments is never sent.
                    hold(setup, End::Node(node), End::Any, from - 60, from + 410);
                    crash(setup, node, from, from + 400);
                }
            }
        },
    });
}

#[test]
fn m3_followers_run_what_may_not_be_stable() {
    is_caught(&Bug {
        name: "m3_followers_run_what_may_not_be_stable",
        config: config(Bugs { run_unstable: true, ..Bugs::default() }),
        mix: Mix { two_shards_percent: 70, crt_percent: 5, ..hot() },
        stands: true,
        // Only one follower, of another shard, hears a coordinator; then both crash in one instant.
        set: |setup, layout, draws| {
            jitter(setup, 90);
            for first in (0..layout.replica_nodes()).step_by(6) {
                for turn in 0..2 {
                    let from = 400 + 900 * turn + draws.below(300);
                    let coordinator = Node(first + turn as u32);
                    let follower = Node(first + 3 + draws.below(3) as u32);
                    let which = Which {
                        since: at(from - 70),
                        until: at(from),
                        ..Which::between(End::Node(coordinator), End::Node(follower))
                    };
                    let what = What::LoseNth(u64::MAX);
                    setup.faults.rules.push(Rule { which, what });
                    hold(setup, End::Node(coordinator), End::Any, from - 70, from + 410);
                    crash(setup, coordinator, from, from + 400);
                    crash(setup, follower, from, from + 400);
                }
            }
        },
    });
}

#[test]
fn m4_a_commit_before_its_prepare_is_forgotten() {
    is_caught(&Bug {
        name: "m4_a_commit_before_its_prepare_is_forgotten",
        config: Config {
            commit_via_steward: false,
            ..config(Bugs { drop_early_commit: true, commit_once: true, ..Bugs::default() })
        },
        mix: Mix { crt_percent: 40, ..hot() },
        stands: true,
        // The steward's word to one replica of each shard is later than the coordinator's.
        set: |setup, layout, _| {
            for replica in (0..layout.replica_nodes()).step_by(3).map(Node) {
                for steward in (layout.replica_nodes()..layout.nodes()).map(Node) {
                    delay(setup, steward, replica, Span::from_ms(200));
                }
            }
        },
    });
}

#[test]
fn m5_reports_overtake_prepares() {
    is_caught(&Bug {
        name: "m5_reports_overtake_prepares",
        config: config(Bugs::default()),
        mix: hot(),
        stands: true,
        // The machine trusts channels to keep order: without that nothing holds.
        set: |setup, _, _| {
            jitter(setup, 90);
            setup.order = Order::None;
        },
    });
}

#[test]
fn m6_the_least_of_the_anticipated_timestamps() {
    is_caught(&Bug {
        name: "m6_the_least_of_the_anticipated_timestamps",
        config: config(Bugs { least_timestamp: true, ..Bugs::default() }),
        mix: hot(),
        stands: true,
        // Clocks of regions differ, and so do their timestamps.
        set: |setup, _, draws| {
            jitter(setup, 90);
            let clock = |site: u16, draws: &mut Stream| Clock {
                offset_ns: 20_000_000 * i64::from(site) + draws.below(1_000_000) as i64,
                ..Clock::default()
            };
            let sites: Vec<u16> = setup.nodes.iter().map(|site| site.0).collect();
            setup.clocks = sites.into_iter().map(|site| clock(site, draws)).collect();
        },
    });
}

#[test]
fn m7_two_crts_of_one_time() {
    is_caught(&Bug {
        name: "m7_two_crts_of_one_time",
        config: Config {
            unique_t: false,
            grain: Span::from_ms(20),
            ..Config::new(Layout::new(3, 2), Mode::Paper)
        },
        mix: Mix { crt_percent: 30, dependent_percent: 60, ..hot() },
        stands: true,
        set: |setup, _, _| jitter(setup, 50),
    });
}

#[test]
fn m8_the_promise_is_not_waited_for() {
    is_caught(&Bug {
        name: "m8_the_promise_is_not_waited_for",
        config: config(Bugs { no_promise: true, ..Bugs::default() }),
        mix: Mix { crt_percent: 1, clients_per_shard: 3, think: Span::from_ms(30), ..hot() },
        stands: true,
        // The steward's word to one replica of each shard is later than a whole CRT takes. That
        // replica runs ahead only while no earlier CRT holds its own clock, which a note that comes
        // so late does for long: what shows the bug is a CRT after a pause, so there are few.
        set: |setup, layout, _| {
            for replica in (0..layout.replica_nodes()).step_by(3).map(Node) {
                for steward in (layout.replica_nodes()..layout.nodes()).map(Node) {
                    delay(setup, steward, replica, Span::from_ms(200));
                }
            }
        },
    });
}

#[test]
fn m9_a_new_steward_is_content_with_a_majority() {
    is_caught(&Bug {
        name: "m9_a_new_steward_is_content_with_a_majority",
        config: config(Bugs { majority_freeze: true, ..Bugs::default() }),
        mix: Mix { crt_percent: 40, ..hot() },
        stands: true,
        // Of the steward's last words only two replicas of one shard have heard, and they speak to
        // the new one later than the others do. One region after the other: a CRT between two whose
        // stewards are both gone is not decided, and what is not decided is prepared again.
        set: |setup, layout, draws| {
            jitter(setup, 50);
            setup.duration = Span::from_ms(2_500);
            for region in 0..u32::from(layout.regions) {
                let steward = layout.replica_nodes() + 3 * region;
                let nodes = 6 * region..6 * region + 6;
                for turn in 0..2 {
                    let from =
                        400 + 300 * u64::from(region) + 950 * u64::from(turn) + draws.below(60);
                    let leader = Node(steward + turn);
                    crash(setup, leader, from, from + 500);
                    for node in nodes.clone() {
                        if node % 6 < 2 {
                            for other in (steward..steward + 3).map(Node) {
                                let (since, until) = (from + 100, from + 180);
                                hold(setup, End::Node(Node(node)), End::Node(other), since, until);
                            }
                        } else {
                            let to = End::Node(Node(node));
                            hold(setup, End::Node(leader), to, from - 80, from + 510);
                        }
                    }
                }
            }
        },
    });
}

#[test]
fn m10_ids_are_forgotten_by_the_wall_clock() {
    is_caught(&Bug {
        name: "m10_ids_are_forgotten_by_the_wall_clock",
        config: Config {
            remember: Span::from_ms(2_900),
            // Clocks that are wrong by more are not followed.
            jump_max: Span::from_ms(100),
            ..config(Bugs { forget_by_wall: true, ..Bugs::default() })
        },
        mix: Mix { crt_percent: 0, ..hot() },
        stands: true,
        // The third replica's clock is ahead by more than the others follow. The first crashes, and
        // its clients ask the second again.
        set: |setup, layout, draws| {
            for node in (0..layout.replica_nodes()).step_by(3) {
                let from = 300 + draws.below(1_200);
                crash(setup, Node(node), from, 0);
            }
            let ahead = |node: u32| {
                let third = node < layout.replica_nodes() && node % 3 == 2;
                Clock { offset_ns: i64::from(third) * 1_400_000_000, ..Clock::default() }
            };
            setup.clocks = (0..layout.nodes()).map(ahead).collect();
        },
    });
}

#[test]
fn m11_a_commit_is_lost_with_its_steward() {
    is_caught(&Bug {
        name: "m11_a_commit_is_lost_with_its_steward",
        config: config(Bugs { commit_once: true, ..Bugs::default() }),
        mix: Mix { crt_percent: 50, ..hot() },
        stands: true,
        set: |setup, layout, draws| {
            jitter(setup, 90);
            for region in 0..u32::from(layout.regions) {
                let steward = Node(layout.replica_nodes() + 3 * region);
                let from = 400 + draws.below(1_200);
                crash(setup, steward, from, from + 700);
            }
        },
    });
}

#[test]
fn m12_reads_above_what_has_not_run() {
    is_caught(&Bug {
        name: "m12_reads_above_what_has_not_run",
        config: Config {
            fenced_reads: true,
            ..config(Bugs { read_above_unexecuted: true, ..Bugs::default() })
        },
        mix: Mix { read_percent: 50, ..hot() },
        stands: true,
        set: |setup, _, _| jitter(setup, 90),
    });
}

/// Every replica of a region loses its power in one instant, and has it again a little later.
fn power_cut(setup: &mut Setup, region: u32, from: u64, draws: &mut Stream) {
    for node in 6 * region..6 * region + 6 {
        crash(setup, Node(node), from, from + 20 + draws.below(100));
    }
}

fn durable(bugs: Bugs) -> Config {
    Config { durable: true, ..config(bugs) }
}

#[test]
fn m15_others_are_told_of_what_is_not_stored() {
    is_caught(&Bug {
        name: "m15_others_are_told_of_what_is_not_stored",
        config: durable(Bugs { say_unstored: true, ..Bugs::default() }),
        mix: Mix { crt_percent: 5, ..hot() },
        stands: true,
        // The disks are slow.
        set: |setup, _, draws| {
            setup.disk.sync = Span::from_ms(30);
            for region in 0..3 {
                let from = 400 + draws.below(1_000);
                power_cut(setup, region, from, draws);
            }
        },
    });
}

#[test]
fn m16_timestamps_are_given_twice() {
    is_caught(&Bug {
        name: "m16_timestamps_are_given_twice",
        config: Config {
            fenced_reads: true,
            ..durable(Bugs { no_reservation: true, ..Bugs::default() })
        },
        mix: Mix {
            crt_percent: 0,
            two_shards_percent: 0,
            read_percent: 99,
            patience: Some(Span::from_ms(100)),
            ..hot()
        },
        stands: true,
        // A clock goes ahead by 5 s, and the others follow it. Before anybody writes, its node
        // fails for good and the others lose their power: no log has a transaction of that time.
        // What was read then is later than all that is written now.
        set: |setup, _, draws| {
            for region in 0..3 {
                let (fast, from) = (6 * region + 5, 400 + draws.below(400));
                let (node, by_ns) = (Node(fast), 5_000_000_000);
                setup.faults.steps.push(ClockStep { node, at: at(from - 40), by_ns });
                power_cut(setup, region, from, draws);
                setup.faults.outages.retain(|outage| outage.host != node);
                crash(setup, node, from, 0);
            }
        },
    });
}

#[test]
fn m17_who_comes_back_says_that_all_is_everywhere() {
    is_caught(&Bug {
        name: "m17_who_comes_back_says_that_all_is_everywhere",
        config: durable(Bugs { forget_coordinated: true, ..Bugs::default() }),
        mix: Mix { crt_percent: 5, patience: Some(Span::from_ms(200)), ..hot() },
        stands: true,
        set: |setup, _, draws| {
            jitter(setup, 90);
            for region in 0..3 {
                // What one has sent to the others of its shard is on its way for long.
                for other in 1..3 {
                    let (from, to) = (Node(6 * region), Node(6 * region + other));
                    delay(setup, from, to, Span::from_ms(20));
                }
                let from = 400 + draws.below(400);
                for turn in 0..3 {
                    power_cut(setup, region, from + 450 * turn + draws.below(100), draws);
                }
            }
        },
    });
}
