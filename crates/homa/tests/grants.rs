//! Who is granted, how much, and at which level ([homa 2.7] to [homa 2.10], [homa 3.1]).

mod conversation;

use cavy_core::Span;
use cavy_homa::config::{
    ClassedBy, Granting, Incast, Informed, Learning, OldestGrants, Publish, Quick, TailBoost,
};
use cavy_homa::cutoffs::{Packing, Shares, static_cutoffs};
use cavy_homa::packet::{Flags, Kind};
use cavy_homa::{Config, Cutoffs};
use conversation::{Says, Talk, data, small};

/// (to, offset, level) of the GRANTs that wait.
fn levels(talk: &mut Talk) -> Vec<(u32, u32, u8)> {
    let grant = |p: &cavy_core::Packet<cavy_homa::packet::Header>| match p.header.kind {
        Kind::Grant { offset_bytes, priority } => Some((p.to.0, offset_bytes, priority)),
        _ => None,
    };
    talk.pull_all().iter().filter_map(grant).collect()
}

fn long(offset: u32, length: u32) -> impl Says {
    data(length, offset, 100, 500, Flags::default())
}

/// [homa 2.7] RC: levels are given lowest first, so that a newcomer finds a free one above.
#[test]
fn clause_2_7_lowest_level_first() {
    let mut talk = Talk::new(&small());
    talk.rx(1, 2, long(0, 50_000));
    assert_eq!(levels(&mut talk), [(1, 600, 0)], "alone: level 0");
    talk.rx(2, 2, long(0, 20_000));
    assert_eq!(levels(&mut talk), [(2, 600, 1)], "the shorter newcomer goes above");
    talk.rx(1, 2, long(100, 50_000));
    // One increment an arrival, to the best with room in its window: 2 has 500 outstanding.
    assert_eq!(levels(&mut talk), [(1, 700, 0)]);
    talk.rx(3, 2, long(0, 30_000));
    assert_eq!(talk.machine.active_count(), 2, "overcommitment is 2");
    assert_eq!(levels(&mut talk), [(3, 600, 0)], "and 3 has replaced the longest");
    talk.rx(4, 2, long(0, 90_000));
    assert!(talk.machine.is_withholding());
}

/// [homa 2.7] RC: grants stop one increment beyond the window.
#[test]
fn clause_2_7_the_window_bounds_what_is_on_its_way() {
    let mut talk = Talk::new(&small());
    talk.rx(1, 2, long(0, 50_000));
    for _ in 0..20 {
        // Duplicates bring nothing and free nothing.
        talk.rx(1, 2, long(0, 50_000));
    }
    assert_eq!(talk.machine.active_incoming_bytes(), 500);
    assert_eq!(talk.machine.counters().grants, 1);
}

/// [homa 2.8]: the last bytes get the level of a message of that size.
#[test]
fn clause_2_8_tail_boost() {
    for (boost, level) in
        [(TailBoost::Off, 0), (TailBoost::ScheduledPart, 6), (TailBoost::Length, 5)]
    {
        let mut talk = Talk::new(&Config { tail_boost: boost, ..small() });
        // Cut-offs 80 and 300: 700 B = 500 + 200, and 200 is of level 6, 700 of level 5.
        talk.rx(1, 2, long(0, 700));
        assert_eq!(levels(&mut talk), [(1, 600, level)], "{boost:?}");
    }
}

/// [homa 2.7] SIM: the others keep their levels when a middle one leaves, and a newcomer fills the
/// gap.
#[test]
fn clause_2_7_levels_are_sticky() {
    let granting = Granting::Spaced { overcommit: 3, window_wire_bytes: 1_100, adaptive: None };
    let config = Config { granting, tail_boost: TailBoost::Off, scheduled_levels: 3, ..small() };
    let mut talk = Talk::new(&config);
    for (peer, length) in [(1, 9_000), (2, 6_000), (3, 3_000)] {
        talk.rx(peer, 2, long(0, length));
    }
    assert_eq!(levels(&mut talk), [(1, 600, 0), (2, 600, 1), (3, 600, 2)]);
    // The middle one is withdrawn: its sender does not know it any more.
    talk.rx(2, 2, Kind::Unknown);
    talk.now += Span::from_us(10);
    talk.rx(1, 2, long(100, 9_000));
    talk.rx(3, 2, long(100, 3_000));
    let granted = levels(&mut talk);
    assert!(granted.contains(&(1, 700, 0)) && granted.contains(&(3, 700, 2)), "{granted:?}");
    talk.rx(4, 2, long(0, 5_000));
    assert_eq!(levels(&mut talk), [(4, 600, 1)], "the gap");
}

/// [homa 2.7] SIM: one packet a packet time for each sender.
#[test]
fn clause_2_7_grants_are_spaced() {
    let granting = Granting::Spaced { overcommit: 2, window_wire_bytes: 2_000, adaptive: None };
    let mut talk = Talk::new(&Config { granting, ..small() });
    talk.rx(1, 2, long(0, 50_000));
    talk.rx(1, 2, long(100, 50_000));
    assert_eq!(levels(&mut talk).len(), 1);
    let due = talk.timers[&cavy_homa::Timer::Grant];
    assert!(due > talk.now);
    talk.expire(cavy_homa::Timer::Grant);
    assert_eq!(levels(&mut talk), [(1, 700, 0)]);
}

/// [homa 2.7] LX: a request of 100,000 B of which 1,400 B came is granted to the end at level 0 at
/// once, as the real module was seen to do.
#[test]
fn clause_2_7_linux_window() {
    let mut talk = Talk::new(&Config { oldest_grants: None, ..Config::linux() });
    talk.rx(1, 2, data(100_000, 0, 1_400, 40_000, Flags::ASKS));
    assert_eq!(levels(&mut talk), [(1, 100_000, 0)]);
    // The total bounds all windows, unscheduled bytes included.
    for peer in 2..20 {
        talk.rx(peer, 2, data(1_000_000, 0, 1_400, 40_000, Flags::ASKS));
    }
    assert!(talk.machine.active_count() <= 8);
    let unscheduled = 18 * 40_000;
    assert!(talk.machine.incoming_bytes() <= 400_000 + unscheduled);
}

/// [homa 2.7] LX, and whoever grants several packets at a time: those do not cut packets, for the
/// second half of one takes a header as well.
#[test]
fn clause_2_7_several_packets_are_whole_ones() {
    for (increment_bytes, granted) in [(100, 1_275), (200, 1_200)] {
        let granting = Granting::Windows {
            overcommit: 2,
            window_bytes: 0,
            incoming_max_bytes: 2_350,
            increment_bytes,
        };
        let mut talk = Talk::new(&Config { granting, oldest_grants: None, ..small() });
        talk.rx(1, 2, long(0, 50_000));
        assert_eq!(levels(&mut talk), [(1, granted, 0)]);
    }
}

/// [homa 3.1]: five packets beyond the window, for every message, at level 0.
#[test]
fn clause_3_1_basic_grants_everybody() {
    let mut talk = Talk::new(&Config::basic());
    for peer in 1..=40 {
        talk.rx(peer, 2, data(500_000, 0, 1_442, 7 * 1_442, Flags::ASKS));
    }
    let granted = levels(&mut talk);
    assert_eq!(granted.len(), 40);
    assert!(granted.iter().all(|&(_, to, level)| to == (1 + 7 + 5) * 1_442 && level == 0));
    assert!(!talk.machine.is_withholding());
}

/// [homa 2.9]: now and then the oldest is granted, though it is not the shortest.
#[test]
fn clause_2_9_the_oldest_gets_its_share() {
    let share = OldestGrants { share_per_mille: 500, increment_bytes: 1_000 };
    let granting = Granting::Arrivals {
        overcommit: 1,
        window_bytes: 500,
        increment_bytes: 100,
        incoming_max_bytes: u32::MAX,
    };
    let run = |oldest_grants| {
        let mut talk = Talk::new(&Config { oldest_grants, granting, ..small() });
        talk.rx(1, 2, long(0, 90_000));
        talk.rx(2, 2, long(0, 50_000));
        levels(&mut talk);
        for offset in (100..4_000).step_by(100) {
            talk.now += Span::from_us(1);
            talk.rx(2, 2, long(offset, 50_000));
        }
        levels(&mut talk).iter().any(|&(to, offset, _)| to == 1 && offset >= 1_500)
    };
    assert!(run(Some(share)));
    assert!(!run(None));
}

/// [homa 2.10]: beyond the threshold questions are marked, and marked answers start small.
#[test]
fn clause_2_10_incast() {
    let incast = Incast { threshold: 2, marked_bytes: 100, automatic: false };
    let mut client = Talk::new(&Config { incast: Some(incast), ..small() });
    for n in 0..4 {
        client.submit(1, 2 * n, 50, true);
    }
    let marks: Vec<bool> = client
        .pull_all()
        .iter()
        .map(|p| matches!(p.header.kind, Kind::Data(d) if d.flags.has(Flags::INCAST)))
        .collect();
    assert_eq!(marks, [false, false, true, true]);
    for (flags, unscheduled) in [(Flags::ASKS, 500), (Flags(Flags::ASKS.0 | Flags::INCAST.0), 100)]
    {
        let mut server = Talk::new(&Config { incast: Some(incast), ..small() });
        server.rx(1, 2, data(50, 0, 50, 50, flags));
        server.answer(1, 2, 10_000);
        let sent: u32 = server.pull_all().iter().map(|p| p.payload.length_bytes).sum();
        assert_eq!(sent, unscheduled);
    }
}

/// [homa 8.2] point 1: losses lower the threshold, answers raise it.
#[test]
fn clause_8_2_the_threshold_finds_itself() {
    let incast = Incast { threshold: 8, marked_bytes: 100, automatic: true };
    let mut talk = Talk::new(&Config { incast: Some(incast), ..small() });
    talk.submit(1, 2, 50, true);
    talk.pull_all();
    (0..5).for_each(|_| talk.tick());
    assert_eq!(talk.machine.incast_threshold(), 4);
    for n in 10..15 {
        talk.submit(1, 2 * n, 50, true);
        talk.pull_all();
        talk.rx(1, 2 * n + 1, data(50, 0, 50, 50, Flags::default()));
    }
    assert_eq!(talk.machine.incast_threshold(), 5);
}

/// [homa 8.2] point 3: a hole is complained about after a few round trips, once; hardly while BUSY.
#[test]
fn clause_8_2_quick_repair() {
    let quick = Quick { rtt: Span::from_us(2), round_trips: 5 };
    let mut talk = Talk::new(&Config { quick: Some(quick), ..small() });
    talk.rx(1, 2, data(300, 0, 100, 300, Flags::default()));
    talk.rx(1, 2, data(300, 200, 100, 300, Flags::default()));
    let before = talk.now;
    while talk.machine.counters().resends_sent == 0 {
        talk.expire(cavy_homa::Timer::Quick);
    }
    assert!(talk.now.since(before) < Span::from_us(25), "after {}", talk.now.since(before));
    let resends: Vec<_> = talk.pull_all();
    assert_eq!(resends.len(), 1);
    let asked = Kind::Resend { offset_bytes: 100, length_bytes: 100, priority: 7 };
    assert_eq!(resends[0].header.kind, asked);
    talk.rx(1, 2, Kind::Busy);
    let deadline = talk.now + Span::from_us(80);
    while talk.timers.get(&cavy_homa::Timer::Quick).is_some_and(|&at| at < deadline) {
        talk.expire(cavy_homa::Timer::Quick);
    }
    assert_eq!(talk.machine.counters().quick_resends, 1, "the sender said BUSY");
}

/// [homa 8.2] point 5: who has much to send is granted less at a time.
#[test]
fn clause_8_2_informed_windows() {
    let informed = Some(Informed { backlog_min: 1, spared_bytes: 0 });
    let run = |backlog: u8| {
        let mut talk = Talk::new(&Config { informed, ..small() });
        for offset in (0..6_000).step_by(100) {
            let (kind, offset, bytes) = data(50_000, offset, 100, offset + 500, Flags::default());
            let Kind::Data(mut said) = kind else { unreachable!("it is data") };
            said.backlog = backlog;
            talk.rx(1, 2, (Kind::Data(said), offset, bytes));
        }
        talk.machine.active_incoming_bytes()
    };
    assert!(run(0) >= 500, "{}", run(0));
    assert!(
        run(9) < run(0),
        "{} of a sender that is behind, {} of one that is not",
        run(9),
        run(0)
    );
}

/// [homa 2.6] dynamic and [homa 8.2] point 6: cut-offs follow the sizes, are published lazily, and
/// rest while nothing changes.
#[test]
fn clause_2_6_learned_cutoffs() {
    for publish in [Publish::Deciles, Publish::Imbalance { per_mille: 100 }] {
        let interval = Span::from_us(100);
        let learning = Learning {
            interval,
            messages_min: 50,
            bytes_min: u64::MAX,
            keep_per_mille: 500,
            memory_bytes: 0,
            publish,
        };
        let own = Cutoffs::none(8);
        let mut talk = Talk::new(&Config { learning: Some(learning), own_cutoffs: own, ..small() });
        let mut id = 0;
        let mut batch = |talk: &mut Talk, sizes: &[u32]| {
            for index in 0..600 {
                let size = sizes[index % sizes.len()];
                id += 2;
                talk.now += Span::from_us(1);
                talk.rx(1, id, data(size, 0, size, size, Flags::default()));
                talk.effects.clear();
                talk.pull_all();
            }
        };
        batch(&mut talk, &[20, 40, 60, 80, 100]);
        let (small, version) = talk.machine.own_cutoffs();
        assert!(version > 1 && !small.bounds().is_empty(), "{publish:?}: {small:?}");
        assert!(small.bounds().iter().all(|&bound| bound <= 103), "{publish:?}: {small:?}");
        batch(&mut talk, &[20, 40, 60, 80, 100]);
        assert_eq!(talk.machine.own_cutoffs().1, version, "{publish:?}: nothing has changed");
        for _ in 0..4 {
            batch(&mut talk, &[20, 100, 200, 400, 460]);
        }
        let (large, later) = talk.machine.own_cutoffs();
        assert!(later > version, "{publish:?}");
        assert!(large.bounds().iter().any(|&bound| bound > 150), "{publish:?}: {large:?}");
        // A sender with an old version is told; a second packet at once is not answered again.
        talk.now += Span::from_ms(10);
        talk.rx(2, 2, data(20, 0, 20, 20, Flags::default()));
        talk.rx(2, 4, data(20, 0, 20, 20, Flags::default()));
        let told = talk.pull_all();
        let told = told.iter().filter(|p| matches!(p.header.kind, Kind::Cutoffs(_))).count();
        assert_eq!(told, 1);
    }
}

/// [homa 8.2] point 6: what is learned is what the static algorithm computes for the same messages,
/// up to a bucket, an eighth of an octave; the module's daemon, which counts payload, has longer
/// bounds.
#[test]
fn clause_8_2_learned_cutoffs_are_the_computed_ones() {
    const MESSAGES: u64 = 4_000;
    // Two sizes an octave, as many bytes of payload of each.
    let sizes = [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_400];
    let whole: f64 = sizes.iter().map(|&size| 1.0 / f64::from(size)).sum();
    let steps = sizes.map(|size: u32| (size, 1.0 / f64::from(size) / whole));
    let learned = |publish| {
        let learning = Learning {
            interval: Span::from_us(1),
            messages_min: MESSAGES,
            bytes_min: u64::MAX,
            keep_per_mille: 500,
            memory_bytes: u64::MAX,
            publish,
        };
        let config = Config::simulator(Cutoffs::none(8), 1);
        let mut talk = Talk::new(&Config { learning: Some(learning), ..config });
        for number in 0..=MESSAGES {
            let mut at = (number as f64 + 0.5) * 0.618_034 % 1.0;
            let of = |&&(_, share): &&(u32, f64)| {
                at -= share;
                at < 0.0
            };
            let size = steps.iter().find(of).map_or(1_400, |step| step.0);
            talk.now += Span::from_us(2);
            talk.rx(1, 2 * number + 2, data(size, 0, size, size, Flags::UNSCHEDULED));
            talk.effects.clear();
            talk.pull_all();
        }
        talk.machine.own_cutoffs().0
    };
    let computed =
        static_cutoffs(&steps, 8, 7, ClassedBy::Length, &Packing::SIMULATOR, Shares::EVEN);
    let computed = computed.expect("legal");
    let ours = learned(Publish::Imbalance { per_mille: 100 });
    assert_eq!(ours.bounds().len(), 6);
    for (&ours, &computed) in ours.bounds().iter().zip(computed.bounds()) {
        assert!((computed..=computed * 9 / 8).contains(&ours), "{ours} for {computed}");
    }
    let payload = learned(Publish::Deciles);
    assert!(payload.bounds()[0] > ours.bounds()[0], "{payload:?}");
}

#[test]
fn bad_configurations_are_named() {
    let error = |config: Config| config.check().expect_err("out of range").name;
    assert_eq!(error(Config { levels: 9, ..small() }), "levels");
    assert_eq!(error(Config { scheduled_levels: 0, ..small() }), "scheduled_levels");
    assert_eq!(error(Config { unscheduled_bytes: 0, ..small() }), "unscheduled_bytes");
    let granting = Granting::Arrivals {
        overcommit: 0,
        window_bytes: 1,
        increment_bytes: 1,
        incoming_max_bytes: u32::MAX,
    };
    assert_eq!(error(Config { granting, ..small() }), "granting.overcommit");
    let share = Some(OldestGrants { share_per_mille: 501, increment_bytes: 1 });
    assert_eq!(error(Config { oldest_grants: share, ..small() }), "oldest_grants.share_per_mille");
    let fault = Config { levels: 9, ..small() }.check().expect_err("out of range");
    assert_eq!(fault.to_string(), "levels is 9; it must be 1 to 8");
    for config in [Config::linux(), Config::basic(), small(), Config::basic().one_way()] {
        assert_eq!(config.check(), Ok(()));
    }
}
