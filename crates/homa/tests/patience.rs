//! How long answers are kept, and for whom: by the client's signs of life where that is configured
//! ([homa 2.11], [homa 2.12]).
#![allow(non_snake_case)]

mod conversation;

use cavy_core::Span;
use cavy_core::family::packet::Effect;
use cavy_homa::config::{Limits, Recovery};
use cavy_homa::packet::{ALL_SENT, Acks, Flags, Kind};
use cavy_homa::{Config, Why};
use conversation::{Talk, data, small};

/// Answers are kept for 10 ms of silence (200 ticks), strangers' exchanges for 1 ms.
fn patient() -> Config {
    let config = small();
    let recovery = Recovery {
        ack_wait_max_ticks: 64,
        answer_kept: Span::from_ms(10),
        stranger_kept: Span::from_ms(1),
        ..config.recovery.expect("repair")
    };
    let limits = Limits { strangers: 4, answer_bytes: 1_000, ..config.limits };
    Config { recovery: Some(recovery), limits, ..config }
}

/// A question in one packet, answered with so many bytes, all sent.
fn answered(talk: &mut Talk, from: u32, id: u64, bytes: u32) {
    talk.rx(from, id, data(10, 0, 10, 10, Flags::UNSCHEDULED.and(Flags::ASKS, true)));
    talk.answer(from, id, bytes);
    talk.pull_all();
}

fn shown(talk: &mut Talk, from: u32) {
    answered(talk, from, 1_000, 10);
    talk.rx(from, 1_000, Kind::Ack(Acks::default()));
    talk.effects.clear();
}

fn ticks(talk: &mut Talk, count: u32) {
    for _ in 0..count {
        talk.tick();
        talk.pull_all();
    }
}

fn given_up(talk: &Talk) -> usize {
    let failed = |effect: &&Effect<Why>| matches!(effect, Effect::Failed { .. });
    talk.effects.iter().filter(failed).count()
}

#[test]
fn clause_2_11_an_answer_outlives_a_client_that_stands_still() {
    let mut talk = Talk::new(&patient());
    shown(&mut talk, 1);
    answered(&mut talk, 1, 2, 400);
    ticks(&mut talk, 190);
    assert_eq!((talk.machine.exchange_count(), given_up(&talk)), (1, 0), "190 ticks of silence");
    // The client goes on, and misses a packet: it is there.
    talk.rx(1, 2, Kind::Resend { offset_bytes: 0, length_bytes: ALL_SENT, priority: 7 });
    let sent: u32 = talk.pull_all().iter().map(|packet| packet.payload.length_bytes).sum();
    assert_eq!((sent, talk.machine.counters().unknown_sent), (400, 0));
    ticks(&mut talk, 199);
    assert_eq!(talk.machine.exchange_count(), 1, "its sign of life counts from anew");
    ticks(&mut talk, 2);
    assert_eq!((talk.machine.exchange_count(), given_up(&talk)), (0, 1));
}

#[test]
fn clause_2_11_where_memory_is_short_ticks_decide() {
    let mut talk = Talk::new(&patient());
    shown(&mut talk, 1);
    answered(&mut talk, 1, 2, 500);
    answered(&mut talk, 1, 4, 500);
    ticks(&mut talk, 99);
    assert_eq!(talk.machine.exchange_count(), 2);
    ticks(&mut talk, 1);
    assert_eq!(talk.machine.exchange_count(), 1, "until it is not short any more");
}

#[test]
fn clause_2_12_an_acknowledgement_is_asked_for_less_and_less_often() {
    let mut talk = Talk::new(&patient());
    shown(&mut talk, 1);
    answered(&mut talk, 1, 2, 100);
    let mut asked = Vec::new();
    for tick in 1..=130 {
        talk.tick();
        let packets = talk.pull_all();
        asked.extend(packets.iter().any(|p| p.header.kind == Kind::NeedAck).then_some(tick));
    }
    assert_eq!(asked, [2, 4, 8, 16, 32, 64, 128]);
}

#[test]
fn strangers_are_few_and_do_not_stay() {
    let mut talk = Talk::new(&patient());
    shown(&mut talk, 9);
    answered(&mut talk, 9, 2, 10);
    for from in 10..20 {
        answered(&mut talk, from, 2, 10);
        assert!(talk.machine.exchange_count() <= 5);
    }
    assert_eq!((talk.machine.exchange_count(), talk.machine.counters().strangers_ended), (5, 6));
    // One of the four shows that it receives.
    talk.rx(19, 2, Kind::Resend { offset_bytes: 0, length_bytes: ALL_SENT, priority: 7 });
    ticks(&mut talk, 21);
    assert_eq!(talk.machine.exchange_count(), 2, "the two that have shown it");
    // An unfinished question of a stranger is given up too.
    talk.rx(30, 2, data(400, 0, 100, 400, Flags::UNSCHEDULED.and(Flags::ASKS, true)));
    ticks(&mut talk, 21);
    assert_eq!(talk.machine.exchange_count(), 2);
}

#[test]
fn clause_7_3_of_what_was_never_asked_here_nothing_is_said() {
    let mut talk = Talk::new(&patient());
    let answer = || data(10, 0, 10, 10, Flags::UNSCHEDULED);
    talk.rx(1, 0x101, answer());
    assert!(talk.pull_all().is_empty(), "not asked here");
    talk.submit(1, 0x100, 10, true);
    talk.pull_all();
    talk.rx(1, 0x101, answer());
    assert_eq!(talk.delivered(), [(1, 0x101)]);
    talk.rx(1, 0x101, answer());
    assert!(talk.pull_all().iter().any(|packet| packet.header.kind == Kind::Unknown), "over");
}
