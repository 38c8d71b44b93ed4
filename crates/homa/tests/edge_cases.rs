//! The eighteen edge cases of [homa 2.14], each by its number.

mod conversation;

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input, Message};
use cavy_core::laws::packet::{Ledger, Network, Weather};
use cavy_core::{Instant, Span};
use cavy_homa::config::{Granting, Limits};
use cavy_homa::packet::{ALL_SENT, Flags, Kind};
use cavy_homa::{Config, Cutoffs, Homa, Why};
use conversation::{Talk, data, small};

type Hosts = Network<Homa, Ledger<Why>>;

fn hosts(config: &Config, count: u32, seed: u64) -> Hosts {
    let machines = (0..count).map(|_| Homa::new(config).expect("legal")).collect();
    Network::new(machines, Ledger::default(), seed)
}

const PEER: u32 = 9;
const OTHER: u32 = 8;

#[test]
fn case_1_reversed_doubled_and_overlapping() {
    let mut talk = Talk::new(&small());
    // A one-way message of ten packets, all allowed from the start, comes backwards and twice.
    for offset in (0..10).rev().map(|n| 100 * n) {
        talk.rx(PEER, 4, data(1_000, offset, 100, 1_000, Flags::default()));
        if offset > 0 {
            talk.rx(PEER, 4, data(1_000, offset, 100, 1_000, Flags::default()));
        }
    }
    let places = talk.effects.iter().filter(|e| matches!(e, Effect::Place { .. })).count();
    assert_eq!(places, 10);
    assert_eq!(talk.delivered(), [(PEER, 4)]);
    assert_eq!(talk.machine.counters().duplicates, 9);
    // What is sent again overlaps what has come: only the missing part is placed.
    talk.effects.clear();
    talk.rx(PEER, 6, data(300, 0, 100, 300, Flags::default()));
    talk.rx(PEER, 6, data(300, 50, 250, 300, Flags::RETRANSMIT));
    assert_eq!(talk.placed(), [(0, 100), (100, 200)]);
    assert_eq!(talk.delivered(), [(PEER, 6)]);
}

#[test]
fn case_2_grant_lower_than_current() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 5_000, true);
    talk.pull_all();
    talk.rx(PEER, 3, Kind::Grant { offset_bytes: 800, priority: 3 });
    talk.rx(PEER, 3, Kind::Grant { offset_bytes: 600, priority: 0 });
    let sent = talk.pull_all();
    let last = sent.last().expect("granted");
    assert_eq!(last.payload.offset_bytes + last.payload.length_bytes, 800);
    assert!(sent.iter().all(|p| p.priority == 3), "the old grant changed the level");
    assert_eq!(talk.machine.counters().grants_stale, 1);
}

#[test]
fn case_3_lost_grant_is_revealed_by_resend() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 5_000, true);
    talk.pull_all();
    let resend = Kind::Resend { offset_bytes: 500, length_bytes: 300, priority: 7 };
    talk.rx(PEER, 3, resend);
    let sent = talk.pull_all();
    assert_eq!(sent[0].header.kind, Kind::Busy, "nothing of it was sent before");
    let data: Vec<_> = sent[1..].iter().map(|p| p.payload.offset_bytes).collect();
    assert_eq!(data, [500, 600, 700], "but now it is granted");
}

#[test]
fn case_4_first_packet_lost() {
    let mut talk = Talk::new(&small());
    talk.rx(PEER, 2, data(300, 100, 100, 300, Flags::ASKS));
    assert_eq!(talk.machine.exchange_count(), 1);
    talk.rx(PEER, 2, data(300, 200, 100, 300, Flags::ASKS));
    talk.rx(PEER, 2, data(300, 0, 100, 300, Flags::ASKS));
    assert_eq!(talk.delivered(), [(PEER, 2)]);
}

#[test]
fn case_5_answer_lost_entirely() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 100, true);
    talk.pull_all();
    for _ in 0..4 {
        talk.tick();
        assert!(talk.pull_all().is_empty());
    }
    talk.tick();
    let sent = talk.pull_all();
    assert_eq!(
        sent.iter().map(|p| p.header.kind).collect::<Vec<_>>(),
        [Kind::Resend { offset_bytes: 0, length_bytes: ALL_SENT, priority: 7 }]
    );
    assert_eq!(sent[0].payload.message, Message(2));
}

#[test]
fn case_6_unknown_races_with_the_answer() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 100, true);
    talk.pull_all();
    talk.rx(PEER, 3, data(300, 0, 100, 300, Flags::default()));
    talk.rx(PEER, 3, Kind::Unknown);
    assert_eq!(talk.machine.counters().restarts, 0);
    assert!(talk.pull_all().is_empty());
    talk.rx(PEER, 3, data(300, 100, 200, 300, Flags::default()));
    assert_eq!(talk.delivered(), [(PEER, 3)]);
}

#[test]
fn case_7_server_restarts_in_the_middle_of_a_question() {
    let config = small();
    let mut hosts = hosts(&config, 2, 1);
    hosts.submit(Instant::ZERO, (0, 1), 2, 3_000, Some(3_000));
    hosts.run(Instant::from_ns(5_000));
    assert!(hosts.machine(1).exchange_count() > 0, "the question is on its way");
    hosts.restart(1, Homa::new(&config).expect("legal"));
    hosts.application.repeats = true;
    hosts.run(Instant::ZERO + Span::from_ms(100));
    assert_eq!(hosts.fate(1, 0, Message(3)).delivered, 1);
    assert_eq!(hosts.machine(0).exchange_count() + hosts.machine(1).exchange_count(), 0);
}

#[test]
fn case_8_late_data_after_a_cancel() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 100, true);
    talk.pull_all();
    talk.input(Input::Cancel { message: Message(2) });
    assert_eq!(talk.effects, [Effect::Released { peer: Node(PEER), message: Message(2) }]);
    talk.rx(PEER, 3, data(300, 0, 100, 300, Flags::default()));
    let sent = talk.pull_all();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].header.kind, sent[0].payload.message), (Kind::Unknown, Message(2)));
}

#[test]
fn case_9_a_smaller_message_of_the_same_sender() {
    let mut talk = Talk::new(&small());
    talk.rx(PEER, 2, data(9_000, 0, 100, 500, Flags::default()));
    assert_eq!(talk.grants(), [(PEER, 3, 600)]);
    talk.rx(PEER, 4, data(2_000, 0, 100, 500, Flags::default()));
    assert_eq!(talk.grants(), [(PEER, 5, 600)], "the smaller one takes the sender's place");
    assert_eq!(talk.machine.active_count(), 1);
    assert!(talk.machine.is_withholding());
    // The first one's data now brings grants to the second.
    talk.rx(PEER, 2, data(9_000, 100, 100, 500, Flags::default()));
    assert_eq!(talk.grants().iter().filter(|g| g.1 == 3).count(), 0);
}

#[test]
fn case_10_overcommitment_changes_while_grants_are_out() {
    let adaptive = Some(cavy_homa::config::Adaptive { idle_bytes: 1_600, most: 3 });
    let granting = Granting::Spaced { overcommit: 1, window_wire_bytes: 800, adaptive };
    let mut talk = Talk::new(&Config { granting, ..small() });
    for peer in 1..=3 {
        talk.rx(peer, 2, data(9_000, 0, 100, 500, Flags::default()));
    }
    assert_eq!(talk.machine.active_count(), 1);
    talk.now += Span::from_ms(1);
    talk.rx(1, 2, data(9_000, 100, 100, 500, Flags::default()));
    assert_eq!(talk.machine.active_count(), 2, "the downlink was idle while others waited");
    // The first completes: back to one, and grants given stay valid.
    for offset in (200..9_000).step_by(100) {
        talk.rx(1, 2, data(9_000, offset, 100, 9_000, Flags::default()));
        talk.now += Span::from_us(1);
    }
    assert_eq!(talk.delivered(), [(1, 2)]);
    assert!(talk.machine.active_count() <= 2);
}

#[test]
fn case_11_cutoffs_change_between_packets() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 450, true);
    let first = talk.pull().expect("unscheduled");
    let new = Cutoffs::new(8, &[10_000, 20_000]).expect("ascending");
    talk.rx(PEER, 3, Kind::Cutoffs(cavy_homa::packet::Published::new(&new, 7)));
    let rest = talk.pull_all();
    assert!(rest.iter().all(|p| p.priority == first.priority), "a message keeps its level");
    talk.submit(PEER, 4, 450, true);
    let next = talk.pull().expect("unscheduled");
    assert_eq!(next.priority, 7, "a new one does not");
    assert_ne!(first.priority, 7);
    assert!(matches!(next.header.kind, Kind::Data(d) if d.cutoffs_version == 7));
}

#[test]
fn case_12_one_two_and_four_levels() {
    for (levels, bounds) in [(1, &[][..]), (2, &[]), (4, &[100])] {
        let cutoffs = Cutoffs::new(levels, bounds).expect("legal");
        let config = small().with_cutoffs(cutoffs);
        let mut hosts = hosts(&config, 3, 1);
        hosts.keep_sent = true;
        for n in 0..20 {
            let (from, to) = ((n % 3) as u32, ((n + 1) % 3) as u32);
            let bytes = 60 + 150 * n as u32;
            hosts.submit(Instant::from_ns(n * 50), (from, to), 2 * n, bytes, Some(bytes));
        }
        hosts.run(Instant::ZERO + Span::from_ms(50));
        assert!(hosts.sent.iter().all(|(_, p)| p.priority < levels), "{levels} levels");
        assert!(
            hosts.application.fates.values().all(|f| f.failed_at_sender == 0),
            "{levels} levels"
        );
        assert!((0..3).all(|node| hosts.machine(node).exchange_count() == 0));
    }
}

#[test]
fn case_13_exactly_the_unscheduled_limit_and_one_more() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 500, true);
    let sent = talk.pull_all();
    assert_eq!(sent.len(), 5);
    talk.submit(PEER, 4, 501, true);
    let sent = talk.pull_all();
    assert_eq!(sent.iter().map(|p| p.payload.length_bytes).sum::<u32>(), 500, "one byte waits");
    talk.rx(PEER, 5, Kind::Grant { offset_bytes: 501, priority: 1 });
    let sent = talk.pull_all();
    assert_eq!((sent.len(), sent[0].payload.length_bytes, sent[0].priority), (1, 1, 1));
    // And at the receiver: the one needs no grant, the other one.
    talk.rx(OTHER, 2, data(500, 0, 100, 500, Flags::default()));
    assert!(talk.grants().is_empty());
    talk.rx(OTHER, 4, data(501, 0, 100, 500, Flags::default()));
    assert_eq!(talk.grants(), [(OTHER, 5, 501)]);
}

#[test]
fn case_14_a_stall_counts_as_one_tick() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 100, true);
    talk.pull_all();
    talk.tick();
    // The host stood still for 200 ms, far longer than the timeout: one late tick.
    talk.now += Span::from_ms(200);
    talk.tick();
    assert_eq!(talk.machine.exchange_count(), 1);
    assert_eq!(talk.machine.counters().timeouts, 0);
    assert!(talk.pull_all().is_empty(), "not even a RESEND");
}

#[test]
fn case_15_more_messages_than_buffers() {
    let limits = Limits { buffer_bytes: 1_000, ..Limits::default() };
    let config = Config { limits, ..small() };
    let mut talk = Talk::new(&config);
    talk.rx(1, 2, data(600, 0, 100, 500, Flags::default()));
    talk.rx(2, 2, data(600, 0, 100, 500, Flags::default()));
    assert_eq!(talk.machine.counters().dropped_no_buffer, 1);
    for _ in 0..20 {
        talk.tick();
    }
    let complaints = talk.pull_all();
    let complains = |node| complaints.iter().any(|p| p.to == Node(node));
    assert!(complains(1) && !complains(2), "nothing is asked of whom we have no room for");
    talk.rx(1, 2, data(600, 100, 500, 600, Flags::default()));
    assert_eq!(talk.delivered(), [(1, 2)]);
    // Space is back: at least the unscheduled bytes are asked for at once.
    let woken: Vec<_> = talk.pull_all().into_iter().filter(|p| p.to == Node(2)).collect();
    assert!(
        woken.iter().any(|p| matches!(
            p.header.kind,
            Kind::Resend { offset_bytes: 0, length_bytes: 500, .. }
        )),
        "{woken:?}"
    );
    // And in a network: three senders and room for one message at a time.
    let mut hosts = hosts(&config, 4, 3);
    for from in 1..4 {
        hosts.submit(Instant::ZERO, (from, 0), 2, 900, None);
    }
    hosts.run(Instant::ZERO + Span::from_ms(200));
    assert!((1..4).all(|from| hosts.fate(from, 0, Message(2)).delivered == 1));
}

#[test]
fn case_16_resend_beyond_the_end() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 300, true);
    talk.pull_all();
    for (offset_bytes, length_bytes) in [(200, 5_000), (300, 1), (u32::MAX, u32::MAX - 1)] {
        talk.rx(PEER, 3, Kind::Resend { offset_bytes, length_bytes, priority: 255 });
    }
    let sent = talk.pull_all();
    let data: Vec<_> = sent.iter().filter(|p| p.payload.length_bytes > 0).collect();
    assert_eq!(data.len(), 1);
    assert_eq!((data[0].payload.offset_bytes, data[0].payload.length_bytes), (200, 100));
    assert_eq!(data[0].priority, 7);
    assert_eq!(talk.machine.counters().malformed, 3);
}

#[test]
fn case_17_incoming_smaller_than_the_packets_end() {
    let mut talk = Talk::new(&small());
    talk.rx(PEER, 2, data(300, 0, 100, 10, Flags::default()));
    assert_eq!(talk.placed(), [(0, 100)]);
    talk.rx(PEER, 2, data(300, 100, 200, 0, Flags::default()));
    assert_eq!(talk.delivered(), [(PEER, 2)]);
}

#[test]
fn case_18_wrong_parity() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 100, true);
    talk.pull_all();
    // Only PEER answers message 2; OTHER claims to.
    talk.rx(OTHER, 3, data(300, 0, 100, 300, Flags::default()));
    assert!(talk.placed().is_empty());
    talk.rx(OTHER, 3, Kind::Grant { offset_bytes: 300, priority: 1 });
    talk.rx(OTHER, 3, Kind::Ack(Default::default()));
    assert_eq!(talk.machine.exchange_count(), 1);
    talk.pull_all();
    // PEER asks to grant what it should itself be granted: even is its own name, and unknown here.
    talk.rx(PEER, 2, Kind::Grant { offset_bytes: 300, priority: 1 });
    assert!(talk.pull_all().is_empty());
    // An application cannot use an odd name either.
    talk.submit(PEER, 5, 100, true);
    let failed = Effect::Failed { peer: Node(PEER), message: Message(5), why: Why::Name };
    assert_eq!(talk.effects.last(), Some(&failed));
}

#[test]
fn faults_of_all_kinds_pass_the_edge_configuration() {
    let config = small();
    let mut hosts = hosts(&config, 2, 5);
    hosts.weather = Weather {
        lost: 200,
        doubled: 200,
        delayed: 300,
        delay: Span::from_us(100),
        until: Instant::ZERO + Span::from_ms(2),
        outages: Vec::new(),
    };
    hosts.submit(Instant::ZERO, (0, 1), 2, 5_000, Some(5_000));
    hosts.run(Instant::ZERO + Span::from_ms(300));
    assert_eq!(hosts.fate(1, 0, Message(3)).delivered, 1);
}
