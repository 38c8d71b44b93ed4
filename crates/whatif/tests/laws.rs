//! Every controller keeps the laws of the seam and the oracles of the probe family.

use cavy_core::Span;
use cavy_core::family::Node;
use cavy_core::family::probe::{Controller, Epoch, Group};
use cavy_core::laws::probe::{Offer, Probe};
use cavy_core::laws::{Punctuality, Rig, hold};
use cavy_whatif::coz::{Coz, Rule};
use cavy_whatif::daemon::{Daemon, Order, SETS};
use cavy_whatif::published::Word;
use cavy_whatif::{
    Busy, Change, Config, Governor, Limits, Published, Target, Uncoordinated, Windows,
};

const GROUPS: u32 = 6;

fn limits() -> Limits {
    Limits {
        pause_min: Span::from_us(100),
        pause_max: Span::from_us(900),
        duty_max: 0.8,
        lease: Span::from_us(4_000),
        tick: Span::from_us(50),
        look_max: Span::ZERO,
    }
}

fn config(targets: &[(&[u32], Change)], hosts: u32) -> Config {
    let target = |(groups, change): &(&[u32], Change)| Target {
        groups: groups.iter().map(|&group| Group(group)).collect(),
        change: change.clone(),
    };
    let taken = |group: &u32| targets.iter().any(|(groups, _)| groups.contains(group));
    Config {
        targets: targets.iter().map(target).collect(),
        rest: (0..GROUPS).filter(|group| !taken(group)).map(Group).collect(),
        limits: limits(),
        windows: Windows {
            settle: Span::from_us(500),
            length: Span::from_us(4_000),
            pattern: vec![false, true, true, false],
        },
        hosts,
    }
}

/// Every way of counting, several targets, replicas, regressions.
fn configs() -> Vec<Config> {
    let count = |saved_ns: &[i64]| Change::Count { saved_ns: saved_ns.to_vec(), parallel: 2 };
    let clock = |share, busy| Change::Clock { share, parallel: 2, busy };
    let delivered = |share| Change::Delivered { share, parallel: 1 };
    let ahead = Limits { look_max: Span::from_us(120), ..limits() };
    vec![
        Config { limits: ahead, ..config(&[(&[0], delivered(0.6))], 0) },
        Config { limits: ahead, ..config(&[(&[3], clock(0.9, Busy::Cpu))], 0) },
        config(&[], 0),
        config(&[(&[0], count(&[9_000, 2_000]))], 0),
        config(&[(&[0, 1], count(&[6_000]))], 0),
        config(&[(&[0], clock(0.5, Busy::Cpu))], 0),
        config(&[(&[0], clock(0.9, Busy::Wall))], 0),
        config(&[(&[2], clock(0.3, Busy::Runnable))], 0),
        config(&[(&[0], delivered(0.4))], 0),
        config(&[(&[0], count(&[8_000])), (&[1, 2], clock(0.7, Busy::Wall))], 0),
        config(&[(&[0], count(&[-5_000]))], 0),
        config(&[(&[0], clock(-0.5, Busy::Cpu)), (&[1], delivered(0.3))], 0),
    ]
}

fn offer<M>(peer: Option<fn(u64) -> M>) -> Offer<M> {
    Offer {
        groups: GROUPS,
        gap: Span::from_us(8),
        latency: Span::from_us(30),
        visits: 4_000,
        peer,
        losses: true,
        abort_after: None,
        expiry: false,
    }
}

/// Laws on several seeds; then a run to its end, after which nobody may stand. Freezes and findings
/// of that run.
fn keeps<C: Controller + 'static>(
    make: impl Fn() -> C + Clone,
    offer: Offer<C::Message>,
) -> (u32, u32)
where
    C::Effect: core::hash::Hash,
    C::Message: Copy,
{
    for seed in 0..6 {
        hold(|| Probe::new(offer, seed, make.clone()), seed, 12_000);
    }
    let mut seen = (0, 0);
    for (seed, punctuality) in
        [(1, Punctuality::Exact), (2, Punctuality::LateBy(Span::from_us(50)))]
    {
        for abort_after in [None, Some(1_900)] {
            let offer = Offer { abort_after, ..offer };
            let mut rig = Rig::new(Probe::new(offer, seed, make.clone()), seed, punctuality);
            for step in 0.. {
                assert!(step < 400_000, "it never comes to an end");
                if rig.step().is_none() {
                    break;
                }
            }
            let world = rig.environment();
            assert_eq!(world.standing(), 0, "somebody stands for ever");
            seen = (seen.0 + world.freezes, seen.1 + world.findings);
        }
    }
    seen
}

#[test]
fn every_governor_keeps_the_laws() {
    for config in configs() {
        let pauses = !config.targets.is_empty();
        let make = move || Governor::new(config.clone()).expect("a legal config");
        // Windows go on for ever: the world is quiet, the Governor is not.
        let world = || Offer { losses: false, ..offer(None) };
        for seed in 0..6 {
            hold(|| Probe::new(world(), seed, make.clone()), seed, 12_000);
        }
        for late in [Span::ZERO, Span::from_us(50)] {
            let punctuality = match late {
                Span::ZERO => Punctuality::Exact,
                late => Punctuality::LateBy(late),
            };
            for abort_after in [None, Some(2_000)] {
                let offer = Offer { abort_after, ..offer(None) };
                let mut rig = Rig::new(Probe::new(offer, 9, make.clone()), 9, punctuality);
                for _ in 0..40_000 {
                    rig.step();
                }
                let world = rig.environment();
                assert!(!pauses || world.freezes > 2, "{} freezes", world.freezes);
                // A loss ends a target, an abort ends it all; nobody has come for 30 000 steps.
                assert_eq!(world.standing(), 0);
            }
        }
    }
}

#[test]
fn services_that_flood_keep_the_laws() {
    let say = |bits: u64| match bits % 4 {
        0 => Word::Register,
        _ => Word::Pause(bits >> 8 & 63),
    };
    for target in [false, true] {
        let make = move || {
            Published::new(Group(0), target, Span::from_us(20), 30, 8)
                .with_lease(Span::from_us(100_000))
        };
        let (freezes, _) = keeps(make, offer(Some(say as fn(u64) -> Word)));
        assert!(freezes > 20, "{freezes}");
    }
}

#[test]
fn services_that_nobody_coordinates_keep_the_laws() {
    for threshold in [0, 200] {
        let make =
            move || Uncoordinated::new(Group(0), Span::from_us(15), Span::from_us(threshold));
        let (freezes, _) = keeps(make, offer(None));
        assert!(freezes > 40, "{freezes}");
    }
}

#[test]
fn daemons_keep_the_laws() {
    let say = |bits: u64| Order::Freeze {
        epoch: Epoch(bits >> 16 & 0xFFF),
        spans: [(bits >> 32) % 900, (bits >> 44) % 300, 0, 0, 0].map(Span::from_us),
        lease: Span::from_us(4_000),
    };
    let groups = || -> [Vec<Group>; SETS] {
        let mut sets: [Vec<Group>; SETS] = Default::default();
        sets[0] = vec![Group(1), Group(2), Group(3)];
        sets[1] = vec![Group(0)];
        sets
    };
    let make = move || Daemon::new(Node(1), groups());
    let (freezes, _) = keeps(make, offer(Some(say as fn(u64) -> Order)));
    assert!(freezes > 10, "{freezes}");
}

#[test]
fn every_coz_keeps_the_laws() {
    for (targets, credits) in [(1, true), (1, false), (2, true)] {
        let rule = Rule {
            targets: (0..targets).map(Group).collect(),
            others: (targets..GROUPS).map(Group).collect(),
            share: 0.5,
            parallel: 2,
            sample: Span::from_us(20),
            batch: 3,
            tick: Span::from_us(50),
            credits,
            lease: Span::from_us(4_000),
            settle: Span::from_us(500),
            length: Span::from_us(4_000),
        };
        let make = move || Coz::new(rule.clone());
        let world = || Offer { losses: false, ..offer(None) };
        for seed in 0..6 {
            hold(|| Probe::new(world(), seed, make.clone()), seed, 12_000);
        }
        // Windows go on for ever, as the Governor's do.
        let mut rig = Rig::new(Probe::new(world(), 1, make), 1, Punctuality::Exact);
        (0..20_000).for_each(|_| {
            let _ = rig.step();
        });
        assert!(rig.environment().freezes > 10, "{}", rig.environment().freezes);
        assert!(rig.environment().findings > 1);
    }
}
