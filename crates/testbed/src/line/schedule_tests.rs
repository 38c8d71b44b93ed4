use super::*;
use cavy_core::Span;

const MS: u64 = 1_000_000;

/// Sends `packets` from host 0 to host 1, one every `gap_ns`, and gives when each was due, by the
/// order in which they were delivered.
fn carry(schedule: &mut Schedule<u32>, packets: u32, gap_ns: u64) -> Vec<(u32, u64)> {
    let mut out = Vec::new();
    for number in 0..packets {
        let now = Instant::from_ns(u64::from(number) * gap_ns);
        while let Some(due) = schedule.take(now, |_| ()) {
            out.push((due.packet, due.at.as_ns()));
        }
        schedule.offer(now, (0, 1), 100, number);
    }
    while let Some(due) = schedule.take(Instant::NEVER, |_| ()) {
        out.push((due.packet, due.at.as_ns()));
    }
    out
}

fn between(path: Path, seed: u64) -> Schedule<u32> {
    let mut schedule = Schedule::new(2, seed, Room::default());
    schedule.set(0, 1, path);
    schedule
}

fn even(one_way_ms: u64, jitter_ms: u64, order: Order) -> Path {
    Path {
        one_way: Span::from_ms(one_way_ms),
        jitter: Span::from_ms(jitter_ms),
        order,
        ..Path::default()
    }
}

#[test]
fn a_packet_is_due_after_its_delay_and_not_before() {
    let mut schedule = between(even(50, 0, Order::Kept), 1);
    assert_eq!(schedule.offer(Instant::from_ns(7), (0, 1), 100, 1), None);
    assert_eq!(schedule.offer(Instant::from_ns(7), (1, 0), 100, 2), None);
    let due = |at_ns, from, packet| Due {
        from,
        to: 1 - from,
        at: Instant::from_ns(at_ns),
        marked: false,
        packet,
    };
    assert_eq!(schedule.take(Instant::from_ns(7), |_| ()), Some(due(7, 1, 2)));
    assert_eq!(schedule.next(), Some(Instant::from_ns(7 + 50 * MS)));
    assert_eq!(schedule.take(Instant::from_ns(6 + 50 * MS), |_| ()), None);
    // A world that is late delivers late; when it was due is known.
    assert_eq!(schedule.take(Instant::from_ns(90 * MS), |_| ()), Some(due(7 + 50 * MS, 0, 1)));
    assert_eq!((schedule.under_way(), schedule.next()), (0, None));
}

/// [dast 4.4]: 50 ms more or less 30, uniform. The distance of Kolmogorov and Smirnov to the law,
/// for 10,000 packets whose delays do not depend on each other.
#[test]
fn clause_4_4_jitter_is_even() {
    for seed in 0..5 {
        let mut schedule = between(even(50, 30, Order::Free), seed);
        let mut delays: Vec<u64> = carry(&mut schedule, 10_000, MS)
            .iter()
            .map(|(n, at)| at - u64::from(*n) * MS)
            .collect();
        delays.sort_unstable();
        let count = delays.len() as f64;
        let distance = (1_u32..).zip(&delays).map(|(rank, delay)| {
            let law = (*delay as f64 - 20e6) / 60e6;
            (f64::from(rank) / count - law).abs().max((law - f64::from(rank - 1) / count).abs())
        });
        let distance = distance.fold(0.0, f64::max);
        // At 1.95 over the root of n, one sample of a thousand from the law itself is refused.
        assert!(distance < 1.95 / count.sqrt(), "seed {seed}: {distance}");
    }
}

#[test]
fn order_is_kept_where_it_is_asked_for_and_only_there() {
    let numbers = |order| {
        let all = carry(&mut between(even(50, 30, order), 3), 10_000, MS);
        assert_eq!(all.len(), 10_000);
        assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].1), "by time");
        all.windows(2).filter(|pair| pair[1].0 < pair[0].0).count()
    };
    assert_eq!(numbers(Order::Kept), 0);
    assert!(numbers(Order::Free) > 4_000);
}

#[test]
fn loss_copies_and_late_ones_come_as_often_as_asked() {
    const COUNT: u32 = 100_000;
    let path = Path {
        loss_ratio: 0.01,
        copy_ratio: 0.02,
        late_ratio: 0.05,
        late_by: Span::from_ms(3),
        ..even(10, 0, Order::Kept)
    };
    for seed in 0..3 {
        let mut schedule = between(path, seed);
        let all = carry(&mut schedule, COUNT, MS);
        let counts = *schedule.counts(0, 1);
        let near = |seen: u64, ratio: f64| {
            let (mean, n) = (ratio * f64::from(COUNT), f64::from(COUNT));
            let sigma = (n * ratio * (1.0 - ratio)).sqrt();
            assert!((seen as f64 - mean).abs() < 3.5 * sigma, "seed {seed}: {seen} for {mean}");
        };
        near(counts.lost, 0.01);
        // What is lost is neither copied nor late.
        near(counts.copied, 0.02 * 0.99);
        near(counts.made_late, 0.05 * 0.99);
        assert_eq!(all.len() as u64, counts.delivered);
        assert_eq!(counts.offered + counts.copied, counts.ended());
        // Packets come every millisecond, so one that is 3 ms late is overtaken by two or three.
        let overtaken = all.windows(2).filter(|pair| pair[1].0 < pair[0].0).count() as f64;
        assert!(overtaken > 0.9 * counts.made_late as f64, "{overtaken}");
    }
}

#[test]
fn what_is_sent_into_a_cut_is_lost_and_what_was_sent_before_arrives() {
    let mut schedule = between(even(50, 0, Order::Kept), 1);
    let change = |at_ms, cut, one_way| Change {
        at: Instant::from_ns(at_ms * MS),
        from: 0,
        to: 1,
        setting: Setting { cut: Some(cut), one_way, ..Setting::default() },
    };
    schedule.plan([change(200, false, Some(Span::from_ms(20))), change(100, true, None)]);
    assert_eq!(schedule.next(), Some(Instant::from_ns(100 * MS)));
    let all = carry(&mut schedule, 300, MS);
    let numbers: Vec<u32> = all.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..100).chain(200..300).collect::<Vec<_>>());
    assert_eq!(all[100], (200, 220 * MS));
    assert_eq!(schedule.counts(0, 1).cut, 100);
}

#[test]
fn a_way_that_becomes_shorter_keeps_order_all_the_same() {
    let mut schedule = between(even(50, 0, Order::Kept), 1);
    schedule.offer(Instant::from_ns(0), (0, 1), 100, 1);
    schedule.set(0, 1, even(5, 0, Order::Kept));
    schedule.offer(Instant::from_ns(MS), (0, 1), 100, 2);
    let order: Vec<u32> = std::iter::from_fn(|| schedule.take(Instant::NEVER, |_| ()))
        .map(|due| due.packet)
        .collect();
    assert_eq!(order, [1, 2]);
}

/// All send to one at once: its port has room for so many, whoever comes first.
#[test]
fn a_port_that_many_send_to_drops_what_finds_no_room_and_marks_what_waits() {
    let mut schedule: Schedule<u16> = Schedule::new(9, 1, Room::default());
    let port = Port { bits_per_s: 1_000_000_000, queue_bytes: 32 << 10, mark_bytes: Some(20_000) };
    schedule.set_ports(8, None, Some(port));
    for from in 0..8 {
        // Nearer hosts come first, whatever the order of sending.
        schedule.set(from, 8, even(u64::from(8 - from), 0, Order::Kept));
        for number in 0..8 {
            schedule.offer(Instant::ZERO, (from, 8), 1_500, 8 * from + number);
        }
    }
    let mut lost = Vec::new();
    let mut due = Vec::new();
    while let Some(one) = schedule.take(Instant::NEVER, |packet| lost.push(packet)) {
        due.push(one);
    }
    // A millisecond lets 81 frames pass, so eight of each never meet those of another.
    assert_eq!((due.len(), lost.len()), (64, 0));
    assert_eq!(due[0].packet, 56);
    assert_eq!(due[7].at.as_ns(), MS + 8 * 12_304);
    assert!(due.iter().all(|one| !one.marked));

    for from in 0..8 {
        schedule.set(from, 8, even(1, 0, Order::Kept));
        for number in 0..8 {
            schedule.offer(Instant::from_ns(100 * MS), (from, 8), 1_500, 8 * from + number);
        }
    }
    due.clear();
    while let Some(one) = schedule.take(Instant::NEVER, |packet| lost.push(packet)) {
        due.push(one);
    }
    // 21 full frames are 32,298 bytes; those that find 14 before them find more than 20,000.
    assert_eq!((due.len(), lost.len()), (21, 43));
    assert_eq!(due.iter().filter(|one| one.marked).count(), 7);
    let counts = schedule.all_counts();
    assert_eq!((counts.dropped, counts.marked, counts.delivered), (43, 7, 85));
    assert_eq!(schedule.under_way(), 0);
}

#[test]
fn a_rate_is_that_of_the_wire() {
    let port = Port { bits_per_s: 100_000_000, queue_bytes: 1 << 30, mark_bytes: None };
    let mut schedule = between(Path { port: Some(port), ..even(10, 0, Order::Kept) }, 1);
    let mut last = Instant::ZERO;
    for number in 0..1_000 {
        schedule.offer(Instant::ZERO, (0, 1), 1_500, number);
    }
    while let Some(due) = schedule.take(Instant::NEVER, |_| ()) {
        last = due.at;
    }
    assert_eq!(last.as_ns(), 10 * MS + 1_000 * 1_538 * 80);
}

#[test]
fn memory_is_bounded_and_what_finds_no_room_is_counted() {
    let mut schedule = Schedule::new(2, 1, Room { packets: 10, bytes: 700 });
    schedule.set(0, 1, even(1_000, 0, Order::Kept));
    let back: Vec<u32> =
        (0..20).filter_map(|n| schedule.offer(Instant::ZERO, (0, 1), 100, n)).collect();
    assert_eq!(back, (7..20).collect::<Vec<_>>());
    assert_eq!(schedule.counts(0, 1).overflowed, 13);
    while schedule.take(Instant::NEVER, |_| ()).is_some() {}
    // What has left makes room, and places are used again.
    let now = Instant::from_ns(2_000 * MS);
    assert_eq!((0..20).filter_map(|n| schedule.offer(now, (0, 1), 10, n)).count(), 10);
    assert_eq!(schedule.under_way(), 10);
}

/// Common random numbers: what is lost does not depend on delays, nor on other pairs.
#[test]
fn a_seed_repeats_and_one_rule_shifts_no_other() {
    let run = |path: Path, seed, beside: bool| {
        let mut schedule: Schedule<u32> = Schedule::new(3, seed, Room::default());
        schedule.set(0, 1, path);
        let mut seen = Vec::new();
        for number in 0..2_000 {
            let now = Instant::from_ns(u64::from(number) * MS);
            if beside {
                schedule.offer(now, (2, 1), 100, u32::MAX);
            }
            schedule.offer(now, (0, 1), 100, number);
        }
        while let Some(due) = schedule.take(Instant::NEVER, |_| ()) {
            seen.extend((due.from == 0).then_some((due.packet, due.at)));
        }
        seen
    };
    let lossy = Path { loss_ratio: 0.1, ..even(50, 20, Order::Kept) };
    assert_eq!(run(lossy, 1, false), run(lossy, 1, true));
    assert_ne!(run(lossy, 1, false), run(lossy, 2, false));
    let numbers = |path| run(path, 1, false).into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    assert_eq!(numbers(lossy), numbers(Path { one_way: Span::from_ms(1), ..lossy }));
}
