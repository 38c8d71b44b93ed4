//! What a sender sends in which order, and how exchanges end ([homa 2.4], [homa 2.11], [homa
//! 2.12]).

mod conversation;

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Message};
use cavy_core::{Packet, Span};
use cavy_homa::config::{Order, Pacing};
use cavy_homa::packet::{ALL_SENT, Flags, Header, Kind};
use cavy_homa::{Config, Timer, Why};
use conversation::{Talk, data, small};

fn offsets(sent: &[Packet<Header>]) -> Vec<(u64, u32)> {
    sent.iter().map(|p| (p.payload.message.0, p.payload.offset_bytes)).collect()
}

#[test]
fn clause_2_4_shortest_remaining_first_whole_packets_ascending() {
    let mut talk = Talk::new(&small());
    talk.submit(1, 2, 400, true);
    let first = talk.pull().expect("eligible");
    talk.submit(2, 4, 200, true);
    talk.submit(3, 6, 300, true);
    let sent = talk.pull_all();
    // 300 B are left of message 2, which is older than 6.
    let rest = [(4, 0), (4, 100), (2, 100), (2, 200), (2, 300), (6, 0), (6, 100), (6, 200)];
    assert_eq!((first.payload.offset_bytes, offsets(&sent)), (0, rest.to_vec()));
}

#[test]
fn clause_2_4_control_before_data_and_grants_merge() {
    let mut talk = Talk::new(&small());
    talk.submit(1, 2, 100, true);
    for offset in [0, 100, 200] {
        talk.rx(5, 8, data(9_000, offset, 100, 500, Flags::default()));
    }
    let sent = talk.pull_all();
    assert_eq!(sent[0].header.kind, Kind::Grant { offset_bytes: 800, priority: 0 });
    assert_eq!((sent[0].priority, sent[0].payload.message), (7, Message(9)));
    assert_eq!(offsets(&sent[1..]), [(2, 0)]);
    assert_eq!((talk.machine.counters().grants, talk.machine.counters().grants_sent), (3, 1));
}

#[test]
fn clause_2_4_pacing_holds_back_all_but_short_messages() {
    let pacing = Pacing { backlog: Span::from_ns(400), bypass_bytes: 60, rate_per_cent: 100 };
    let mut talk = Talk::new(&Config { pacing: Some(pacing), ..small() });
    talk.submit(1, 2, 500, true);
    // 100 B and 114 B of headers take 214 ns at 8 Gb/s: two packets pass the limit.
    assert_eq!(talk.pull_all().len(), 2);
    talk.submit(1, 4, 50, true);
    assert_eq!(offsets(&talk.pull_all()), [(4, 0)]);
    talk.expire(Timer::Pace);
    assert_eq!(talk.pull_all().len(), 1);
}

#[test]
fn clause_2_4_now_and_then_the_oldest() {
    let mut talk = Talk::new(&Config { oldest_pick: 4, ..small() });
    talk.submit(1, 2, 500, true);
    talk.submit(1, 4, 400, true);
    let sent = offsets(&talk.pull_all());
    assert_eq!(sent[..4], [(4, 0), (4, 100), (4, 200), (2, 0)]);
}

/// [homa 8.2] point 4: a message that has waited long goes before a shorter one, unless that one is
/// below the floor.
#[test]
fn clause_8_2_age_counts() {
    let order = Order::Aged { credit_per_mille: 500, floor_bytes: 100 };
    for (order, first) in [(order, 2), (Order::ShortestRemaining, 4)] {
        let mut talk = Talk::new(&Config { order, ..small() });
        talk.submit(1, 2, 450, true);
        talk.now += Span::from_us(10);
        talk.submit(1, 4, 300, true);
        assert_eq!(offsets(&talk.pull_all())[0].0, first);
        talk.submit(1, 6, 450, true);
        talk.now += Span::from_us(10);
        talk.submit(1, 8, 90, true);
        assert_eq!(offsets(&talk.pull_all())[0].0, 8, "below the floor");
    }
}

#[test]
fn clause_2_11_resend_for_every_gap_and_the_end() {
    let mut config = small();
    if let Some(recovery) = &mut config.recovery {
        // As in the source; waits that grow are in refusals.rs.
        recovery.resend_wait_max_ticks = recovery.resend_interval_ticks;
    }
    let mut talk = Talk::new(&config);
    for offset in [0, 200] {
        talk.rx(1, 2, data(500, offset, 100, 500, Flags::ASKS));
    }
    for _ in 0..4 {
        talk.tick();
        assert!(talk.pull_all().is_empty());
    }
    talk.tick();
    let kinds: Vec<Kind> = talk.pull_all().iter().map(|p| p.header.kind).collect();
    let resend =
        |offset_bytes, length_bytes| Kind::Resend { offset_bytes, length_bytes, priority: 7 };
    assert_eq!(kinds, [resend(100, 100), resend(300, 200)]);
    // BUSY: five more silent ticks until the next complaint.
    talk.rx(1, 2, Kind::Busy);
    (0..4).for_each(|_| talk.tick());
    assert!(talk.pull_all().is_empty());
    talk.tick();
    assert_eq!(talk.pull_all().len(), 2);
}

#[test]
fn clause_2_11_timeouts_report_failure() {
    let mut talk = Talk::new(&small());
    talk.submit(1, 2, 100, true);
    talk.rx(3, 4, data(500, 0, 100, 500, Flags::ASKS));
    talk.pull_all();
    talk.effects.clear();
    for _ in 0..100 {
        talk.tick();
        talk.pull_all();
    }
    let why = Why::Timeout;
    assert_eq!(
        talk.effects,
        [
            Effect::Failed { peer: Node(1), message: Message(2), why },
            Effect::Released { peer: Node(1), message: Message(2) },
            Effect::Failed { peer: Node(3), message: Message(4), why },
        ]
    );
    assert_eq!(talk.machine.exchange_count(), 0);
}

#[test]
fn clause_2_11_unknown_and_busy_answers_to_resend() {
    let mut talk = Talk::new(&small());
    let resend = Kind::Resend { offset_bytes: 0, length_bytes: ALL_SENT, priority: 7 };
    talk.rx(1, 2, resend);
    let sent = talk.pull_all();
    assert_eq!((sent[0].header.kind, sent[0].payload.message), (Kind::Unknown, Message(3)));
    talk.rx(1, 2, data(50, 0, 50, 50, Flags::ASKS));
    talk.rx(1, 2, resend);
    assert_eq!(talk.pull_all()[0].header.kind, Kind::Busy, "the application is at it");
}

#[test]
fn clause_2_11_resend_is_answered_at_its_level_and_once() {
    let mut talk = Talk::new(&small());
    talk.submit(1, 2, 300, true);
    talk.pull_all();
    for _ in 0..3 {
        talk.rx(1, 3, Kind::Resend { offset_bytes: 100, length_bytes: 100, priority: 6 });
    }
    let sent = talk.pull_all();
    assert_eq!(offsets(&sent), [(2, 100)], "not more than once in the queue");
    assert_eq!(sent[0].priority, 6);
    assert!(matches!(sent[0].header.kind, Kind::Data(d) if d.flags.has(Flags::RETRANSMIT)));
}

#[test]
fn clause_2_12_an_answer_is_kept_until_acknowledged() {
    let mut talk = Talk::new(&small());
    talk.rx(1, 2, data(50, 0, 50, 50, Flags::ASKS));
    talk.answer(1, 2, 80);
    talk.pull_all();
    talk.tick();
    assert!(talk.pull_all().is_empty());
    talk.tick();
    assert_eq!(talk.pull_all()[0].header.kind, Kind::NeedAck, "two ticks after the last byte");
    talk.effects.clear();
    talk.rx(1, 2, Kind::Ack(Default::default()));
    assert_eq!(talk.effects, [Effect::Released { peer: Node(1), message: Message(3) }]);
    // The question comes once more, late: it is not carried out again ([homa 8.2] point 10).
    talk.rx(1, 2, data(50, 0, 50, 50, Flags::ASKS));
    assert!(talk.delivered().is_empty());
    assert_eq!(talk.machine.exchange_count(), 0);
}

#[test]
fn clause_2_12_acknowledgements_ride_and_the_sixth_forces_a_packet() {
    let mut talk = Talk::new(&small());
    let ask = |talk: &mut Talk, id: u64| {
        talk.submit(1, id, 50, true);
        let sent = talk.pull_all();
        talk.rx(1, id + 1, data(50, 0, 50, 50, Flags::default()));
        sent
    };
    ask(&mut talk, 2);
    let sent = ask(&mut talk, 4);
    assert!(matches!(sent[0].header.kind, Kind::Data(d) if d.ack == -2), "{sent:?}");
    // All six are asked before the first is answered, so that none can ride.
    let mut talk = Talk::new(&small());
    (1..=6).for_each(|n| talk.submit(1, 2 * n, 50, true));
    talk.pull_all();
    for n in 1..=6 {
        assert!(talk.pull_all().is_empty());
        talk.rx(1, 2 * n + 1, data(50, 0, 50, 50, Flags::default()));
    }
    let sent = talk.pull_all();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].payload.message, Message(2));
    assert!(matches!(sent[0].header.kind, Kind::Ack(acks) if acks.0 == [2, 4, 6, 8]));
}

#[test]
fn clause_2_12_need_ack_for_what_is_done_and_what_is_not() {
    let mut talk = Talk::new(&small());
    talk.rx(1, 7, Kind::NeedAck);
    assert!(matches!(talk.pull_all()[0].header.kind, Kind::Ack(_)), "nothing more is wanted");
    talk.submit(1, 2, 50, true);
    talk.pull_all();
    talk.rx(1, 3, data(300, 100, 100, 300, Flags::default()));
    talk.rx(1, 3, Kind::NeedAck);
    let resend = |p: &Packet<Header>| matches!(p.header.kind, Kind::Resend { .. });
    assert_eq!(talk.pull_all().iter().filter(|p| resend(p)).count(), 2);
}

#[test]
fn submitting_what_cannot_be_sent_fails_at_once() {
    let mut talk = Talk::new(&Config { message_max_bytes: 1_000, ..small() });
    talk.submit(1, 2, 0, true);
    talk.submit(1, 2, 1_001, true);
    talk.submit(1, 2, 1_000, true);
    talk.submit(1, 2, 1_000, true);
    talk.answer(1, 40, 10);
    let failed = |effect: &Effect<Why>| match effect {
        Effect::Failed { message, why, .. } => Some((message.0, *why)),
        _ => None,
    };
    let failures: Vec<_> = talk.effects.iter().filter_map(failed).collect();
    let expected = [(2, Why::Empty), (2, Why::TooLong), (2, Why::Name), (41, Why::Name)];
    assert_eq!(failures, expected);
}

#[test]
fn a_question_whose_answer_cannot_be_sent_is_over_and_is_not_carried_out_again() {
    let mut talk = Talk::new(&small());
    let question = || data(100, 0, 100, 100, Flags::ASKS);
    talk.rx(1, 40, question());
    talk.answer(1, 40, u32::MAX);
    let failed = |e: &Effect<Why>| matches!(e, Effect::Failed { why: Why::TooLong, .. });
    assert_eq!(talk.effects.iter().filter(|effect| failed(effect)).count(), 1);
    assert_eq!(talk.machine.exchange_count(), 0);
    talk.effects.clear();
    talk.rx(1, 40, question());
    assert_eq!(talk.effects, [], "known to be over");
    talk.answer(1, 40, 10);
    assert!(matches!(talk.effects[..], [Effect::Failed { why: Why::Name, .. }]));
}

#[test]
fn of_two_clients_with_one_name_it_is_said_whose_answer_is_released() {
    let mut talk = Talk::new(&small());
    for peer in [1, 3] {
        talk.rx(peer, 2, data(50, 0, 50, 50, Flags::ASKS));
        talk.answer(peer, 2, 50);
    }
    talk.pull_all();
    for peer in [3, 1] {
        talk.effects.clear();
        talk.rx(peer, 2, Kind::Ack(Default::default()));
        assert_eq!(talk.effects, [Effect::Released { peer: Node(peer), message: Message(3) }]);
    }
}
