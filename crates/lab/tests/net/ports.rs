//! Queue disciplines, marks, buffers: packets that meet at one port of a star.

use crate::script::{Log, Script, arrive_apart};
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_lab::net::traffic::Listed;
use cavy_lab::net::{
    Bins, Buffer, Network, Order, PortClass, Rate, Report, Setup, Submission, Topology,
    run_to_machines,
};
use cavy_lab::pending::Wheel;

const HOSTS: u32 = 64;

fn star(order: Order, buffer: Buffer) -> Network {
    let topology = Topology::star(HOSTS, Rate::gbps(10), Span::ZERO).unwrap();
    Network { order, buffer, ..Network::new(topology) }
}

fn play(
    network: Network,
    choose: fn(u32) -> (u8, u32),
    list: Vec<(Node, Submission)>,
) -> (Report, Log, Vec<Script>) {
    let setup = Setup::new(network, 1, Span::from_ms(10), Bins::up_to(vec![]));
    let mut log = Log::default();
    let traffic = Listed::at_times(HOSTS, list);
    let make = |_| Script::new(choose);
    let (report, machines) = run_to_machines(&setup, make, traffic, &mut Wheel::new(), &mut log);
    assert_eq!(
        report.packets.sent,
        report.packets.received + report.packets.lost_full + report.packets.in_flight
    );
    (report, log, machines)
}

/// The last digit is the level.
fn by_digit(length: u32) -> (u8, u32) {
    ((length % 10) as u8, length)
}

fn order_of(log: &Log) -> Vec<u32> {
    log.sent.iter().map(|sent| sent.0).collect()
}

#[test]
fn homa_4_4_higher_levels_go_first_and_each_in_order_of_arrival() {
    // The first is on the wire when the others come, a nanosecond apart.
    let list = arrive_apart(&[1400, 1000, 1003, 1017, 1013, 1027, 1010], 1_000);
    let (_, log, _) = play(star(Order::Levels, Buffer::Unlimited), by_digit, list.clone());
    assert_eq!(order_of(&log), [1400, 1017, 1027, 1003, 1013, 1000, 1010]);
    let (_, log, _) = play(star(Order::Fifo, Buffer::Unlimited), by_digit, list);
    assert_eq!(order_of(&log), [1400, 1000, 1003, 1017, 1013, 1027, 1010]);
}

#[test]
fn homa_5_8_waits_are_split_into_lag_and_queueing() {
    // 1400 at level 0 is on the wire; 1007 comes 1 ns later and lags by the rest of it; 1017 lags
    // as long less 1 ns and then queues behind 1007.
    let list = arrive_apart(&[1400, 1007, 1017], 1_000);
    let (_, log, _) = play(star(Order::Levels, Buffer::Unlimited), by_digit, list);
    let first = (1400 + 78) * 800;
    let second = (1007 + 78) * 800;
    assert_eq!(log.delays, [(1400, 0, 0), (1007, 0, first - 1_000), (1017, second, first - 2_000)]);
    // First come first served has no lag.
    let list = arrive_apart(&[1400, 1007], 1_000);
    let (_, log, _) = play(star(Order::Fifo, Buffer::Unlimited), by_digit, list);
    assert_eq!(log.delays, [(1400, 0, 0), (1007, first - 1_000, 0)]);
}

/// The length is the rank.
fn by_length(length: u32) -> (u8, u32) {
    (0, length)
}

#[test]
fn homa_3_4_the_smallest_rank_goes_first() {
    let list = arrive_apart(&[1400, 900, 300, 500, 1100], 1_000);
    let (_, log, _) = play(star(Order::SmallestRank, Buffer::Unlimited), by_length, list);
    assert_eq!(order_of(&log), [1400, 300, 500, 900, 1100]);
}

#[test]
fn homa_3_4_the_largest_rank_is_dropped_and_it_may_be_the_arriving_one() {
    // Room for 1518 bytes: 900 and 500 (958 + 558) fit; 1000 is dropped as it arrives, then 300
    // pushes 900 out.
    let buffer = Buffer::PerPort { bytes: 1518 };
    let list = arrive_apart(&[1400, 900, 500, 1000, 300], 1_000);
    let (report, log, _) = play(star(Order::SmallestRank, buffer), by_length, list);
    assert_eq!(log.lost, [1000, 900]);
    assert_eq!(order_of(&log), [1400, 300, 500]);
    assert_eq!(report.packets.lost_full, 2);
}

/// All ranks alike.
fn flat(_: u32) -> (u8, u32) {
    (0, 7)
}

#[test]
fn homa_3_4_the_latest_of_equals_is_dropped() {
    let buffer = Buffer::PerPort { bytes: 1518 };
    let list = arrive_apart(&[1400, 700, 600, 500], 1_000);
    let (_, log, _) = play(star(Order::SmallestRank, buffer), flat, list);
    assert_eq!(log.lost, [500]);
}

#[test]
fn homa_3_4_the_earliest_packet_of_the_best_flow_goes() {
    // One flow is one message; blast sends two packets of it, and the later has the smaller rank.
    use crate::blast::{Blast, BlastHeader};
    use cavy_lab::net::{Egress, InFlight, Observer, Ps, run};
    #[derive(Default)]
    struct Offsets(Vec<(u32, u32)>);
    impl Observer<Blast, BlastHeader> for Offsets {
        fn began(&mut self, port: &Egress, packet: &InFlight<BlastHeader>, _: Ps, _: Ps) {
            if port.class == PortClass::Downlink {
                self.0.push((packet.from().0, packet.payload().offset_bytes));
            }
        }
    }
    // Host 1 keeps the port busy; host 2's packets arrive meanwhile, and host 3's one, whose rank
    // is between the two of host 2.
    let network = star(Order::SmallestRank, Buffer::Unlimited);
    let setup = Setup::new(network, 1, Span::from_ms(10), Bins::up_to(vec![]));
    let one = |from, at, length_bytes| {
        (Node(from), Submission { at, to: Node(0), length_bytes, asks: false, class: 0 })
    };
    let list = [one(1, 0, 14_600), one(2, 0, 2_900), one(3, 2_000, 1_450)];
    let mut offsets = Offsets::default();
    let traffic = Listed::at_times(HOSTS, list);
    run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut offsets);
    let short: Vec<_> = offsets.0.into_iter().filter(|&(from, _)| from != 1).collect();
    // 2's second packet has rank 1440, the smallest, so its first goes before 3's of rank 1450.
    assert_eq!(short, [(3, 0), (2, 0), (2, 1460)]);
}

#[test]
fn homa_3_6_packets_that_meet_a_long_queue_are_marked() {
    let network = Network { mark_at_bytes: Some(3_000), ..star(Order::Fifo, Buffer::Unlimited) };
    // On the wire: one. Waiting when each of the others comes: 0, 1, 2, 3 of 1058 bytes each.
    let list = arrive_apart(&[1000; 5], 1_000);
    let (report, _, machines) = play(network.clone(), by_length, list);
    assert_eq!((machines[0].seen.0, report.packets.marked), (1, 1));
    let list = arrive_apart(&[1000; 10], 1_000);
    let (_, _, machines) = play(network, by_length, list);
    assert_eq!(machines[0].seen.0, 6);
}

#[test]
fn homa_3_8_data_that_does_not_fit_is_trimmed_and_headers_go_ten_to_one() {
    // Eight packets of data fit, one is on the wire: 51 of 60 lose their payload, by turns the
    // arriving one and the newest, and come out ten for each packet of data.
    let queue_bytes = 8 * 1518;
    let network = star(Order::Trim { queue_bytes }, Buffer::Unlimited);
    let lengths: Vec<u32> = (0..60).map(|i| 1400 + i % 60).collect();
    let list = arrive_apart(&lengths, 1_000);
    let (report, log, machines) = play(network, by_length, list);
    assert_eq!((report.packets.trimmed, report.packets.lost_full), (51, 0));
    assert_eq!((machines[0].seen.1, report.messages.finished), (51, 9));
    let trimmed: Vec<bool> = log.sent.iter().map(|sent| sent.1).collect();
    let mut expected = vec![false];
    for _ in 0..5 {
        expected.extend([true; 10]);
        expected.push(false);
    }
    expected.push(true);
    expected.extend([false; 3]);
    assert_eq!(trimmed, expected);
    // Both the arriving and the waiting are hit.
    let late = log.trimmed.iter().filter(|&&length| length > 1408).count();
    assert!((20..51).contains(&late) || late == 51, "{late}");
    assert!(log.trimmed.windows(2).any(|pair| pair[1] < pair[0]), "{:?}", log.trimmed);
}

#[test]
fn homa_3_8_headers_that_do_not_fit_are_lost() {
    // Each header is 64 bytes in the buffer; 1518 bytes hold 23.
    let network = star(Order::Trim { queue_bytes: 1518 }, Buffer::Unlimited);
    let list = arrive_apart(&[1460; 40], 1_000);
    let (report, _, _) = play(network, by_length, list);
    // One on the wire, one waiting, so 38 are trimmed.
    assert_eq!((report.packets.trimmed, report.packets.lost_full), (38, 38 - 1518 / 64));
}

#[test]
fn a_finite_buffer_drops_what_does_not_fit() {
    let network = star(Order::Levels, Buffer::PerPort { bytes: 5 * 1058 });
    let (report, log, _) = play(network, by_digit, arrive_apart(&[1000; 20], 1_000));
    assert_eq!((report.packets.lost_full, log.most_waiting), (14, 5 * 1058));
    assert_eq!(report.class(PortClass::Downlink).max_bytes, 5 * 1058);
}

#[test]
fn a_shared_buffer_leaves_alpha_times_what_is_free() {
    // One port with alpha 1 takes half of the memory, and with alpha 2 two thirds, to the next
    // packet.
    for (alpha, packets) in [(1.0, 10), (2.0, 14)] {
        let buffer = Buffer::Shared { bytes: 20 * 1058, alpha };
        let network = star(Order::Levels, buffer);
        let (_, log, _) = play(network, by_digit, arrive_apart(&[1000; 40], 1_000));
        assert_eq!(log.most_waiting, packets * 1058, "alpha {alpha}");
    }
    // A second port finds less, and what was freed is free again.
    let buffer = Buffer::Shared { bytes: 20 * 1058, alpha: 1.0 };
    let mut list = arrive_apart(&[1000; 20], 1_000);
    for (from, to) in [(1, 30), (2, 31)] {
        let again = 200_000_000;
        for at in 0..20 {
            let length_bytes = 1000;
            list.push((
                Node(from + at * 2),
                Submission { at: again, to: Node(to), length_bytes, asks: false, class: 0 },
            ));
        }
    }
    let (report, log, _) = play(star(Order::Levels, buffer), by_digit, list);
    assert_eq!(log.most_waiting, 10 * 1058);
    // First one port alone: 1 sent, 10 waiting, 9 lost. Then two ports share: 1 and 6 or 7 each.
    assert!((9 + 24..=9 + 27).contains(&report.packets.lost_full), "{}", report.packets.lost_full);
}

#[test]
fn shortest_frames_take_84_bytes() {
    let (_, log, _) =
        play(star(Order::Fifo, Buffer::Unlimited), by_length, arrive_apart(&[1, 2], 1));
    let times: Vec<u64> = log.received_at.iter().map(|&(_, at)| at).collect();
    assert_eq!(times[1] - times[0], 84 * 800);
}

#[test]
fn homa_7_6_a_thread_sees_at_one_look_what_came_while_it_woke() {
    let at_once = star(Order::Fifo, Buffer::Unlimited);
    let late = Network { wakes: vec![Span::from_us(10)], ..at_once.clone() };
    // The third packet is whole at the switch 15 us after the first.
    let list = arrive_apart(&[100, 200, 1400], 7_500_000);
    let (_, log, _) = play(at_once, flat, list.clone());
    let (_, woken, _) = play(late, flat, list);
    let us = 1_000_000;
    let seen = |log: &Log| log.received_at.iter().map(|&(_, at)| at).collect::<Vec<_>>();
    let (first, second) = (log.received_at[0].1, log.received_at[1].1);
    assert!(second - first < 10 * us && log.received_at[2].1 - first > 10 * us);
    // Each sender wakes for its message; the receiver wakes for the first packet and for the third.
    let third = log.received_at[2].1;
    assert_eq!(seen(&woken), [first + 20 * us, first + 20 * us, third + 20 * us]);
}

#[test]
fn homa_7_6_wakes_are_drawn_from_what_was_measured_and_delay_timers_too() {
    let wakes: Vec<Span> = [1, 2, 40].map(Span::from_us).to_vec();
    let network = Network { wakes: wakes.clone(), ..star(Order::Fifo, Buffer::Unlimited) };
    let mut setup = Setup::new(network, 1, Span::from_ms(10), Bins::up_to(vec![]));
    setup.linger = Span::from_ms(10);
    let ring = |_| Script { ring_every_ns: Some(100_000), ..Script::new(flat) };
    let none = Listed::at_times(HOSTS, Vec::new());
    let run =
        || run_to_machines(&setup, ring, none.clone(), &mut Wheel::new(), &mut Log::default());
    let (_, machines) = run();
    let mut drawn = std::collections::BTreeMap::new();
    for machine in &machines {
        let mut due = 0;
        for &rang in &machine.rings {
            due += 100_000;
            *drawn.entry(rang - due).or_insert(0_u32) += 1;
            due = rang;
        }
    }
    let of_each = machines.iter().map(|machine| machine.rings.len()).sum::<usize>() as f64 / 3.0;
    assert_eq!(drawn.keys().copied().collect::<Vec<_>>(), [1_000, 2_000, 40_000]);
    for count in drawn.into_values().map(f64::from) {
        assert!((count / of_each - 1.0).abs() < 0.1, "{count} of {of_each}");
    }
    assert_eq!(run().0.trail, run().0.trail);
}

#[test]
fn homa_7_6_what_a_thread_takes_to_send_delays_its_packets_and_keeps_their_order() {
    let at_once = star(Order::Fifo, Buffer::Unlimited);
    let late = Network { sends: [0, 9].map(Span::from_us).to_vec(), ..at_once.clone() };
    let from_one = |at| Submission { at, to: Node(0), length_bytes: 100, asks: false, class: 0 };
    let list: Vec<_> = (1..=200).map(|i| (Node(1), from_one(i * 1_000_000))).collect();
    let (_, log, _) = play(at_once, flat, list.clone());
    let (_, delayed, _) = play(late, flat, list);
    let at = |log: &Log| log.received_at.iter().map(|&(_, at)| at).collect::<Vec<_>>();
    let late_us = at(&delayed).into_iter().zip(at(&log)).map(|(late, at)| (late - at) / 1_000_000);
    let late_us: Vec<u64> = late_us.collect();
    // One that is sent at once is behind one that is not, for up to 9 us.
    assert_eq!(late_us.iter().max(), Some(&9));
    assert!(late_us.windows(2).all(|two| two[1] == 9 || two[1] + 1 >= two[0]), "{late_us:?}");
    assert!(at(&delayed).is_sorted());
}

#[test]
fn a_bucket_lets_a_burst_pass_at_once_and_then_keeps_its_rate() {
    let wire = star(Order::Fifo, Buffer::Unlimited);
    let bucket = Network { burst_bytes: Some(1_000), ..wire.clone() };
    let list = arrive_apart(&[1400; 3], 1_000);
    let (_, slow, _) = play(wire, flat, list.clone());
    let (_, log, _) = play(bucket, flat, list);
    // A frame takes 1182.4 ns, of which the full bucket spares 800; the third waits for the
    // second's.
    assert_eq!(log.delays, [(1400, 0, 0), (1400, 381_400, 0), (1400, 1_562_800, 0)]);
    // What is within the burst takes no time on either link.
    assert_eq!(slow.received_at[0].1 - log.received_at[0].1, 2 * 1_182_400);
}
