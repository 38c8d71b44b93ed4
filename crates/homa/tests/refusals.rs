//! Questions that are refused, and complaints that grow rarer: what overload needs beyond the
//! source.

mod conversation;

use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Message};
use cavy_homa::config::{Limits, Recovery};
use cavy_homa::packet::{ALL_SENT, Flags, Kind, Refusal};
use cavy_homa::{Config, Why};
use conversation::{Talk, data, small};

const PEER: u32 = 9;
const RESEND: Kind = Kind::Resend { offset_bytes: 0, length_bytes: ALL_SENT, priority: 7 };

fn server(config: &Config) -> Talk {
    let mut talk = Talk::new(config);
    talk.rx(PEER, 4, data(100, 0, 100, 100, Flags::ASKS));
    assert_eq!(talk.delivered(), [(PEER, 4)]);
    talk.pull_all();
    talk
}

fn kinds(talk: &mut Talk) -> Vec<Kind> {
    talk.pull_all().iter().map(|packet| packet.header.kind).collect()
}

#[test]
fn a_refusal_is_said_at_once_and_again_when_asked() {
    for refusal in [Refusal::Overloaded, Refusal::Unanswered] {
        let mut talk = server(&small());
        talk.answer(PEER, 4, refusal.length_bytes());
        assert_eq!(kinds(&mut talk), [Kind::Refused(refusal)]);
        assert_eq!(talk.machine.exchange_count(), 0);
        // It was lost: who asks again is told again, and the question itself changes nothing.
        talk.rx(PEER, 4, RESEND);
        assert_eq!(kinds(&mut talk), [Kind::Refused(refusal)]);
        talk.effects.clear();
        talk.rx(PEER, 4, data(100, 0, 100, 100, Flags::ASKS.and(Flags::RETRANSMIT, true)));
        assert_eq!((talk.delivered(), kinds(&mut talk)), (vec![], vec![]), "carried out after all");
    }
}

#[test]
fn an_answer_of_impossible_length_is_no_answer() {
    let mut talk = server(&small());
    talk.answer(PEER, 4, 0);
    assert_eq!(kinds(&mut talk), [Kind::Refused(Refusal::Unanswered)]);
}

#[test]
fn a_question_without_room_is_refused_and_stays_so() {
    let limits = Limits { exchanges: 1, ..Limits::default() };
    let mut talk = server(&Config { limits, ..small() });
    talk.rx(PEER, 6, data(300, 0, 100, 300, Flags::ASKS));
    assert_eq!(kinds(&mut talk), [Kind::Refused(Refusal::Overloaded)]);
    // There is room again, too late for the rest of it.
    talk.answer(PEER, 4, Refusal::Overloaded.length_bytes());
    talk.pull_all();
    talk.rx(PEER, 6, data(300, 100, 200, 300, Flags::ASKS));
    assert_eq!((talk.machine.exchange_count(), talk.delivered()), (0, vec![]));
}

#[test]
fn a_refused_question_fails_at_once() {
    for (refusal, why) in
        [(Refusal::Overloaded, Why::Overloaded), (Refusal::Unanswered, Why::Unanswered)]
    {
        let mut talk = Talk::new(&small());
        talk.submit(PEER, 2, 100, true);
        talk.pull_all();
        talk.rx(PEER, 3, Kind::Refused(refusal));
        let failed = Effect::Failed { peer: Node(PEER), message: Message(2), why };
        assert_eq!(talk.effects[0], failed);
        assert_eq!(talk.machine.exchange_count(), 0);
        // Once.
        talk.effects.clear();
        talk.rx(PEER, 3, Kind::Refused(refusal));
        assert_eq!((talk.effects.len(), talk.machine.counters().stale), (0, 1));
    }
}

#[test]
fn a_refusal_of_another_peer_or_of_what_is_answered_already_is_nothing() {
    let mut talk = Talk::new(&small());
    talk.submit(PEER, 2, 100, true);
    talk.pull_all();
    talk.rx(PEER + 1, 3, Kind::Refused(Refusal::Overloaded));
    talk.rx(PEER, 3, data(300, 0, 100, 300, Flags::default()));
    talk.rx(PEER, 3, Kind::Refused(Refusal::Overloaded));
    talk.rx(PEER, 3, data(300, 100, 200, 300, Flags::default()));
    assert_eq!(talk.delivered(), [(PEER, 3)]);
}

#[test]
fn clause_2_11_without_refusals_all_is_as_the_source_has_it() {
    let config = Config { refusals: false, ..small() };
    let mut talk = server(&config);
    talk.answer(PEER, 4, Refusal::Overloaded.length_bytes());
    assert_eq!(kinds(&mut talk), []);
    talk.rx(PEER, 4, RESEND);
    assert_eq!(kinds(&mut talk), [Kind::Unknown]);
    // What another says that has refusals is UNKNOWN here, and begins the question anew.
    let mut talk = Talk::new(&config);
    talk.submit(PEER, 2, 100, true);
    talk.pull_all();
    talk.rx(PEER, 3, Kind::Refused(Refusal::Overloaded));
    assert_eq!(talk.machine.counters().restarts, 1);
}

#[test]
fn nobody_refuses_who_does_not_remember() {
    let recovery = small().recovery.map(|recovery| Recovery { remember_ticks: 0, ..recovery });
    let mut talk = server(&Config { recovery, ..small() });
    talk.answer(PEER, 4, Refusal::Overloaded.length_bytes());
    assert_eq!(kinds(&mut talk), []);
}

/// The ticks at which a client complains, of a hundred, while its peer says `reply` to each
/// complaint.
fn complaints(config: &Config, reply: Option<Kind>) -> Vec<u32> {
    let mut talk = Talk::new(config);
    talk.submit(PEER, 2, 100, true);
    talk.pull_all();
    let mut at = Vec::new();
    for tick in 1..100 {
        talk.tick();
        let sent = talk.pull_all();
        if sent.iter().any(|p| matches!(p.header.kind, Kind::Resend { .. })) {
            at.push(tick);
            if let Some(reply) = reply {
                talk.rx(PEER, 3, reply);
                // Sent only after the next tick, as on a busy host.
                talk.tick();
                talk.pull_all();
            }
        }
        if talk.machine.exchange_count() == 0 {
            break;
        }
    }
    at
}

fn waits(max_ticks: u32) -> Config {
    let recovery = small().recovery.map(|recovery| Recovery {
        resend_wait_max_ticks: max_ticks,
        timeout_ticks: 1_000,
        ..recovery
    });
    Config { recovery, ..small() }
}

#[test]
fn complaints_in_vain_grow_rarer_up_to_the_limit() {
    assert_eq!(complaints(&waits(100), None), [5, 10, 20, 40, 80]);
    assert_eq!(complaints(&waits(20), None), [5, 10, 20, 40, 60, 80]);
}

#[test]
fn complaints_answered_by_busy_grow_rarer() {
    let gaps = |at: &[u32]| at.windows(2).map(|two| two[1] - two[0]).collect::<Vec<_>>();
    let busy = complaints(&waits(32), Some(Kind::Busy));
    assert!(gaps(&busy).is_sorted() && busy.len() <= 6, "{busy:?}");
    // As often as in the source without.
    assert!(complaints(&waits(5), Some(Kind::Busy)).len() >= 16);
}

#[test]
fn a_peer_that_never_knows_the_question_is_asked_ever_more_rarely() {
    let unknown = complaints(&waits(1_000), Some(Kind::Unknown));
    assert!((3..=6).contains(&unknown.len()), "{unknown:?}");
    assert!(complaints(&waits(5), Some(Kind::Unknown)).len() >= 12);
}

#[test]
fn progress_makes_complaints_frequent_again() {
    let mut talk = Talk::new(&waits(100));
    talk.submit(PEER, 2, 100, true);
    talk.pull_all();
    for _ in 0..5 {
        talk.rx(PEER, 3, Kind::Busy);
    }
    // The answer begins, and a packet of it is lost.
    talk.rx(PEER, 3, data(300, 0, 100, 300, Flags::default()));
    talk.pull_all();
    let ticks = (1..).find(|_| {
        talk.tick();
        talk.pull_all().iter().any(|p| matches!(p.header.kind, Kind::Resend { .. }))
    });
    assert_eq!(ticks, Some(5));
}
