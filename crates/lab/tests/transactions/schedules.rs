//! Random schedules of stops, kills and cuts with a patience that is shorter than most of them, so
//! that stewards suspect nodes that are only late. Whatever was drawn, when it is over every
//! replica that is up has its state again, and each region commits.
//!
//! What is drawn stays within what the protocol bears: of the replicas of one shard one is in
//! trouble at a time, and of the stewards of one region one. Everybody in a region may stand still
//! together, as processes of one machine do.

use crate::faults::{again, at, outage, seeds, verdict};
use crate::town::{Contestant, Mix, Town, go, network};
use cavy_core::family::Node;
use cavy_core::{Instant, Purpose, Ratio, Span, Stream};
use cavy_lab::net::{OutageKind, What};
use cavy_lab::wan::{ClockStep, End, Jitter, Rule, Setup, Site, Which};
use cavy_txn::dast::{Bugs, Config, Mode};
use cavy_txn::{Layout, Region, Shard, TxnId, janus, locking, slog, tapir};

/// The last fault ends before this time, in milliseconds.
const HEALED_MS: u64 = 4_500;
/// After so many spans of patience (4 s; a client asks again after 2), every replica has its state
/// and each region commits.
const PATIENCES: u64 = 40;

fn config() -> Config {
    Config { fail_after: Span::from_ms(100), ..Config::new(Layout::new(2, 2), Mode::Precise) }
}

fn mix() -> Mix {
    Mix { clients_per_shard: 2, think: Span::from_ms(8), rows: 4, ..Mix::all() }
}

/// No message passes between two ends, in one direction.
fn cut(setup: &mut Setup, from: End, to: End, since: u64, until: u64) {
    let (since, until) = (at(since), at(until));
    let which = Which { since, until, ..Which::between(from, to) };
    setup.faults.rules.push(Rule { which, what: What::Down });
}

/// One node is in trouble for a while: it crashes, stands still, is slow, or hears or is heard by
/// nobody, or not by `others`.
fn trouble(setup: &mut Setup, node: u32, others: &[u32], from: u64, draws: &mut Stream) -> u64 {
    let long = match draws.below(3) {
        0 => 5 + draws.below(60),
        1 => 60 + draws.below(200),
        _ => 200 + draws.below(500),
    };
    let until = from + long;
    let me = End::Node(Node(node));
    let nodes = setup.nodes.len() as u32;
    match draws.below(10) {
        8..=9 => {
            // It comes back, and meets one of the others late.
            setup.faults.outages.push(outage(node, from, until, OutageKind::Crash));
            let other = Node(draws.below(u64::from(nodes)) as u32);
            let met = until + 50 + draws.below(400);
            if other != Node(node) {
                let (one, other) = if draws.below(2) == 0 {
                    (me, End::Node(other))
                } else {
                    (End::Node(other), me)
                };
                cut(setup, one, other, until, met);
            }
            return met;
        }
        0..=2 => setup.faults.outages.push(outage(node, from, until, OutageKind::Crash)),
        3 => setup.faults.outages.push(outage(node, from, until, OutageKind::Freeze)),
        4 => cut(setup, me, End::Any, from, until),
        5 => cut(setup, End::Any, me, from, until),
        6 => {
            for other in others {
                cut(setup, me, End::Node(Node(*other)), from, until);
                cut(setup, End::Node(Node(*other)), me, from, until);
            }
        }
        _ => {
            let (since, until) = (at(from), at(until));
            let by = Span::from_ms(30 + draws.below(250));
            for (from, to) in [(me, End::Any), (End::Any, me)] {
                let which = Which { since, until, ..Which::between(from, to) };
                let what = What::Delay { ratio: Ratio { num: 1, den: 1 }, by };
                setup.faults.rules.push(Rule { which, what });
            }
        }
    }
    until
}

/// Draws what goes wrong.
fn draw(setup: &mut Setup, layout: Layout, seed: u64) -> String {
    let mut draws = Stream::keyed(seed, 11, Purpose::Test);
    for link in &mut setup.links {
        let most = link.one_way.as_ns() * draws.below(200) / 100;
        link.jitter = Jitter::Even(Span::from_ns(most));
    }
    for region in (0..layout.regions).map(Region) {
        let stewards: Vec<u32> = layout.stewards_of(region).map(|node| node.0).collect();
        for shard in layout.shards_of(region) {
            let mut time = 300 + draws.below(900);
            while time < HEALED_MS - 800 {
                let replica = layout.replica(shard, draws.below(3) as u32).0;
                time = trouble(setup, replica, &stewards, time, &mut draws);
                // Until it has its state again.
                time += 900 + draws.below(600);
            }
        }
        let replicas: Vec<u32> = layout.replicas_in(region).map(|node| node.0).collect();
        let mut time = 300 + draws.below(900);
        while time < HEALED_MS - 800 {
            let steward = stewards[draws.below(3) as usize];
            time = trouble(setup, steward, &replicas, time, &mut draws);
            time += 300 + draws.below(900);
        }
        // A machine that stands still, and a region that is cut off.
        for _ in 0..draws.below(3) {
            let from = 400 + draws.below(3_000);
            let until = from + 50 + draws.below(500);
            let spread = 1 + draws.below(40);
            for node in replicas.iter().chain(&stewards) {
                let (from, until) = (from + draws.below(spread), until + draws.below(spread));
                setup.faults.outages.push(outage(*node, from, until, OutageKind::Freeze));
            }
        }
        if draws.below(3) == 0 {
            let from = 400 + draws.below(2_500);
            let until = from + 100 + draws.below(900);
            setup.faults.cut_off(Site(region.0), at(from), at(until));
        }
        if draws.below(3) == 0 {
            let node = Node(replicas[draws.below(replicas.len() as u64) as usize]);
            let by_ns = [400_000_000, -400_000_000][draws.below(2) as usize];
            setup.faults.steps.push(ClockStep { node, at: at(300 + draws.below(3_000)), by_ns });
        }
    }
    format!("{:?}", setup.faults)
}

/// The law: `healed` is when the last fault ends.
fn recovers(town: &Town<Config>, config: &Config, healed: Instant) -> Result<(), String> {
    let within = healed + config.fail_after * PATIENCES;
    for (node, time) in &town.logs.copied_at {
        if *time > within {
            return Err(format!("liveness: {node:?} had no state until {time:?}"));
        }
    }
    for region in (0..config.layout.regions).map(Region) {
        let of = |id: &cavy_txn::TxnId| {
            config.layout.region_of(town.callers.home(id.client - 1)) == region
        };
        let answers = town.callers.answered.iter().filter(|(id, _)| of(id));
        let late = answers.filter(|(_, (asked, answered, _))| {
            *asked >= healed && *answered <= within && answered.since(*asked) < Span::from_ms(1_500)
        });
        if late.count() == 0 {
            return Err(format!(
                "liveness: nothing asked in {region:?} after the faults commits, by {:?}{}",
                town.logs.copied_at,
                (0..2).map(|region| nodes(town, Region(region))).collect::<String>()
            ));
        }
    }
    Ok(())
}

/// How the nodes of a region are, a line each.
fn nodes(town: &Town<Config>, region: Region) -> String {
    let mut text = String::new();
    for (node, machine) in town.machines.iter().enumerate() {
        let Some(machine) = machine else { continue };
        if town.layout.region_of_node(Node(node as u32)) == region {
            let waits: Vec<u32> = machine.waits_for().map(|node| node.0).collect();
            let view = machine.view();
            text += &format!(
                "\n    node {node}: life {}, ready {}, view {} of {} with {:?}, \
                 waits for {waits:?} {}",
                machine.life(),
                machine.is_ready(),
                view.number,
                view.steward.0,
                view.members().map(|member| (member.node.0, member.life)).collect::<Vec<_>>(),
                machine.blocked().unwrap_or_default()
            );
        }
    }
    text
}

fn try_one(config: &Config, seed: u64) -> (String, Result<(), String>) {
    let mut setup = network(config);
    (setup.seed, setup.check) = (seed, true);
    setup.duration = Span::from_ms(HEALED_MS) + config.fail_after * PATIENCES;
    setup.drain = Span::from_ms(10_000);
    let what = draw(&mut setup, config.layout, seed);
    let healed = at(HEALED_MS);
    let run = || {
        let town = go(config, &setup, mix());
        recovers(&town, config, healed)?;
        town.judge()
    };
    (what, verdict(run))
}

#[test]
fn after_any_schedule_every_replica_has_its_state_and_each_region_commits() {
    let mut broken = Vec::new();
    for seed in seeds(12) {
        let (what, verdict) = try_one(&of_seed(seed), seed);
        if let Err(why) = verdict {
            let test = "schedules::after_any_schedule";
            println!("seed {seed}: {why}\n  {what}\n  again: {}", again(test, seed));
            broken.push(seed);
        }
    }
    assert!(broken.is_empty(), "{} seeds broke a law: {broken:?}", broken.len());
}

/// Every second seed as live, where stewards hear and make one report of several.
fn of_seed(seed: u64) -> Config {
    Config { stewards_every: if seed % 2 == 1 { 3 } else { 1 }, ..config() }
}

/// In this schedule a steward takes back a transaction across regions while the view changes, and
/// those who are put back after that have not heard of it. Their clocks stood still for 6 s: the
/// steward knew how it had ended, told other regions when they asked, and not its own.
#[test]
fn what_was_decided_while_a_view_changed_is_told_to_those_who_come_back() {
    let (what, verdict) = try_one(&config(), 50);
    assert_eq!(verdict, Ok(()), "{what}");
}

/// All nodes of one machine stand still for longer than a steward is patient, and the steward that
/// leads is the first to go on: nobody has spoken for so long, and everybody is alive.
#[test]
fn a_machine_that_stood_still_leaves_every_replica_with_its_state() {
    for seed in seeds(4) {
        assert_eq!(stood_still(&config(), seed), Ok(()), "seed {seed}");
    }
}

fn stood_still(config: &Config, seed: u64) -> Result<(), String> {
    let mut setup = network(config);
    setup.seed = seed;
    let replicas = config.layout.replica_nodes();
    for node in 0..config.layout.nodes() {
        let later = if node < replicas { 30 } else { 10 * u64::from((node - replicas) % 3) };
        setup.faults.outages.push(outage(node, 1_000, 1_250 + later, OutageKind::Freeze));
    }
    let town = go(config, &setup, mix());
    recovers(&town, config, at(1_300))?;
    town.judge()?;
    match town.logs.copied_at.len() {
        0 => Ok(()),
        lost => Err(format!("{lost} replicas gave up what they had, and nobody had failed")),
    }
}

/// The same with the steward as it was: it took out everybody, and each waited for the others.
#[test]
fn m13_a_steward_that_is_hasty_is_caught() {
    let bugs = Bugs { hasty_steward: true, ..Bugs::default() };
    let config = Config { bugs, ..config() };
    let caught = seeds(2).filter(|seed| stood_still(&config, *seed).is_err()).count();
    assert_eq!(caught as u64, seeds(2).end - seeds(2).start);
}

/// A replica that comes back meets one of its shard later than all others, as when that one waits
/// long before it dials again. By then it is in the view, and what it was sent meanwhile is lost
/// with the channel: its state. A live schedule showed this first (its seed 2).
#[test]
fn a_channel_that_breaks_late_leaves_nobody_without_state() {
    for seed in seeds(4) {
        assert_eq!(meets_late(&config(), seed), Ok(()), "seed {seed}");
    }
}

/// The same where nobody is told.
#[test]
fn m14_a_break_that_nobody_is_told_of_is_caught() {
    let bugs = Bugs { ignore_broken: true, ..Bugs::default() };
    let config = Config { bugs, ..config() };
    let caught = seeds(4).filter(|seed| meets_late(&config, *seed).is_err()).count();
    println!("caught in {caught} of {}", seeds(4).end - seeds(4).start);
    assert!(caught as u64 * 2 >= seeds(4).end - seeds(4).start);
}

fn meets_late(config: &Config, seed: u64) -> Result<(), String> {
    let mut draws = Stream::keyed(seed, 12, Purpose::Test);
    let mut setup = network(config);
    setup.seed = seed;
    let mut healed = 0;
    for shard in (0..config.layout.shards()).map(Shard) {
        let (one, other) = (draws.below(3) as u32, 1 + draws.below(2) as u32);
        let node = config.layout.replica(shard, one);
        let other = config.layout.replica(shard, one + other);
        let from = 500 + draws.below(500);
        let (back, met) = (from + 150, from + 300 + draws.below(500));
        setup.faults.outages.push(outage(node.0, from, back, OutageKind::Crash));
        cut(&mut setup, End::Node(node), End::Node(other), back, met);
        healed = healed.max(met);
    }
    let town = go(config, &setup, mix());
    recovers(&town, config, at(healed))?;
    town.judge()
}

/// Of longer than results and decisions are remembered. Nobody asks again: whoever does so for
/// longer than results are remembered may be served twice.
fn long_cut<C: Contestant>(contestant: &C, kill: bool, test: &str) {
    for seed in seeds(6) {
        let mut setup = network(contestant);
        setup.seed = seed;
        setup.check = true;
        let mut draws = Stream::keyed(seed, 13, Purpose::Test);
        let from = 400 + draws.below(400);
        let until = from + 4_000 + draws.below(2_000);
        let region = draws.below(3) as u16;
        setup.faults.cut_off(Site(region), at(from), at(until));
        let mut killed = None;
        if kill {
            // Beside it one replica anywhere loses its memory, and what was on its way from it.
            let node = draws.below(u64::from(contestant.layout().replica_nodes())) as u32;
            let since = from + 100 + draws.below(2_000);
            setup.faults.outages.push(outage(node, since, since + 300, OutageKind::Crash));
            killed = Some(Node(node));
        }
        setup.duration = Span::from_ms(until / 1_000 * 1_000 + 2_000);
        let mix = Mix { crt_percent: 40, patience: None, ..mix() };
        let judged = verdict(|| {
            let mut town = go(contestant, &setup, mix);
            // What one asked of that node is lost with it.
            let asked = |id: &TxnId| {
                let client = id.client - 1;
                contestant.target(client, town.callers.home(client), 0)
            };
            let lost: Vec<TxnId> = town.callers.unknown.clone();
            let lost = lost.into_iter().filter(|id| killed != Some(asked(id))).collect();
            town.callers.unknown = lost;
            town.judge()
        });
        let test = format!("schedules::{test}");
        assert_eq!(judged, Ok(()), "seed {seed}, again: {}", again(&test, seed));
    }
}

const REMEMBER: Span = Span::from_ms(2_900);

#[test]
fn a_decision_of_dast_is_kept_while_a_region_may_ask_for_it() {
    let config = Config { remember: REMEMBER, ..Config::new(Layout::new(3, 2), Mode::Precise) };
    long_cut(&config, false, "a_decision_of_dast_is_kept");
}

#[test]
fn values_of_dast_are_kept_while_a_region_may_ask_for_them() {
    let config = Config { remember: REMEMBER, ..Config::new(Layout::new(3, 2), Mode::Precise) };
    long_cut(&config, true, "values_of_dast_are_kept");
}

#[test]
fn a_decision_of_two_phase_commit_is_kept_while_a_region_may_ask_for_it() {
    let config = locking::Config { remember: REMEMBER, ..locking::Config::new(Layout::new(3, 2)) };
    for kill in [false, true] {
        long_cut(&config, kill, "a_decision_of_two_phase_commit_is_kept");
    }
}

#[test]
fn rivals_bear_a_long_cut() {
    for kill in [false, true] {
        long_cut(&janus::Config::new(Layout::new(3, 2)), kill, "rivals_bear_a_long_cut");
        long_cut(&tapir::Config::new(Layout::new(3, 2)), kill, "rivals_bear_a_long_cut");
        long_cut(&slog::Config::new(Layout::new(3, 2)), kill, "rivals_bear_a_long_cut");
    }
}

/// Two replicas of a shard fail one after the other, and come back. Meanwhile the third has all
/// that is asked for, and nothing of that is stable.
#[test]
fn what_one_replica_is_left_with_becomes_stable_when_others_are_back() {
    let config = Config::new(Layout::new(3, 2), Mode::Precise);
    let test = "schedules::what_one_replica_is_left_with";
    for seed in seeds(6) {
        let mut setup = network(&config);
        setup.seed = seed;
        setup.check = true;
        setup.duration = Span::from_ms(4_000);
        let mut draws = Stream::keyed(seed, 14, Purpose::Test);
        let shard = Shard(draws.below(6) as u32);
        for (nth, replica) in config.layout.replicas_of(shard).skip(1).enumerate() {
            let from = 500 + 400 * nth as u64 + draws.below(100);
            let until = 1_800 + draws.below(400);
            setup.faults.outages.push(outage(replica.0, from, until, OutageKind::Crash));
        }
        let judged = verdict(|| go(&config, &setup, mix()).judge());
        assert_eq!(judged, Ok(()), "seed {seed}, again: {}", again(test, seed));
    }
}
