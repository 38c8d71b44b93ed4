//! The rules of each rival, by the clause they come from.

use crate::transports::{self as t, Hears, stage};
use cavy_core::Span;
use cavy_core::family::packet::{Effect, Header as _, Message, Seen};
use cavy_homa::rivals::dctcp::{self, Position, Window};
use cavy_homa::rivals::pias::Thresholds;
use cavy_homa::rivals::{About, blast, extent, ndp, packets, pfabric, phost, pias, selective};

const SEGMENT: f64 = 1460.0;

fn about(serial: u32, length_bytes: u32) -> About {
    About { serial, floor: 0, length_bytes }
}

fn at(first: u32, next: u32, flying: u32) -> Position {
    Position { first, next, flying }
}

#[test]
fn clause_3_4_wire_sizes_are_those_of_tcp() {
    assert_eq!(packets(0), 1);
    assert_eq!((packets(1460), packets(1461)), (1, 2));
    let last = extent(Message(0), 3_000, 2);
    assert_eq!((last.offset_bytes, last.length_bytes), (2920, 80));
    assert_eq!(28 + selective::Header::Cancel.wire_bytes(), 40);
    assert_eq!(28 + phost::Header::Known.wire_bytes(), 40);
    for size in [
        size_of::<selective::Header>(),
        size_of::<blast::Header>(),
        size_of::<phost::Header>(),
        size_of::<ndp::Header>(),
    ] {
        assert!(size <= 16, "{size} bytes");
    }
}

/// RFC 8257, 3.3: alpha starts at 1 and moves by g towards the marked share, once a window.
#[test]
fn clause_3_6_alpha_follows_the_marked_share() {
    let mut window = Window::new(&dctcp::Config::default());
    assert_eq!(window.alpha(), 1.0);
    window.acknowledged(0, 1, false, at(1, 10, 10));
    assert_eq!(window.alpha(), 0.9375, "the first acknowledgement ends the first window: F = 0");
    for number in 1..=9 {
        window.acknowledged(number, 1, number % 2 == 1, at(number + 1, 20, 10));
        assert_eq!(window.alpha(), 0.9375, "the window is not over at {number}");
    }
    window.acknowledged(10, 1, false, at(11, 20, 10));
    let expected = 0.9375 * 15.0 / 16.0 + 0.5 / 16.0;
    assert!((window.alpha() - expected).abs() < 1e-15, "5 of 10 were marked: {}", window.alpha());
    // All marked for long: towards 1.
    let mut next = 20;
    for _ in 0..200 {
        window.acknowledged(next, 10, true, at(next + 1, next + 2, 10));
        next += 2;
    }
    assert!(window.alpha() > 0.9999);
}

#[test]
fn clause_3_6_the_window_is_cut_by_half_of_alpha_once_a_window() {
    let config = dctcp::Config { initial_window_packets: 100, ..dctcp::Config::default() };
    let mut window = Window::new(&config);
    window.acknowledged(0, 1, false, at(1, 100, 100));
    let (before, alpha) = (window.bytes(), window.alpha());
    window.acknowledged(1, 1, true, at(2, 100, 100));
    let cut = before * (1.0 - alpha / 2.0);
    assert!((window.bytes() - cut).abs() < 1e-9);
    for number in 2..100 {
        window.acknowledged(number, 1, true, at(number + 1, 130, 40));
        assert!(window.bytes() == cut, "sent before the cut: {number}");
    }
    window.acknowledged(100, 1, true, at(101, 140, 40));
    assert!(window.bytes() < cut, "the next window may cut again");
}

#[test]
fn clause_3_6_slow_start_doubles_and_then_a_segment_a_window_is_added() {
    let mut window = Window::new(&dctcp::Config::default());
    for number in 0..10 {
        window.acknowledged(number, 1, false, at(number + 1, 20, 10));
    }
    assert_eq!(window.bytes(), 20.0 * SEGMENT);
    window.lost(at(10, 30, 20));
    assert_eq!(window.bytes(), 10.0 * SEGMENT, "loss halves, whatever alpha is");
    window.lost(at(12, 30, 9));
    assert_eq!(window.bytes(), 10.0 * SEGMENT, "once a window");
    for number in 30..40 {
        window.acknowledged(number, 1, false, at(number + 1, 40, 10));
    }
    let grown = window.bytes() / SEGMENT;
    assert!((10.9..11.0).contains(&grown), "{grown} segments");
    window.timed_out(at(40, 50, 10), false);
    assert_eq!(window.bytes(), SEGMENT);
    window.timed_out(at(40, 50, 1), true);
    window.acknowledged(40, 1, false, at(41, 50, 1));
    assert_eq!(window.bytes(), 2.0 * SEGMENT, "slow start to half of what flew before");
}

#[test]
fn clause_3_6_each_packet_echoes_its_own_mark() {
    let mut stage = stage(t::dctcp());
    for (number, marked) in [(0, false), (1, true), (2, false)] {
        let header = selective::Header::Data(about(0, 10_000));
        let seen = Seen { marked, trimmed: false };
        stage.receive(1, header, extent(Message(0), 10_000, number), seen);
        let echo = stage.pull().expect("an acknowledgement at once");
        let expected =
            selective::Header::Ack { next: number + 1, bits: (1 << (number + 1)) - 1, marked };
        assert_eq!(echo.header, expected);
    }
}

#[test]
fn clause_3_6_three_packets_above_a_gap_send_it_again_at_once() {
    let mut stage = stage(t::dctcp());
    stage.submit(1, 0, 100_000, false);
    assert_eq!(stage.pull_all().len(), 10, "the initial window");
    let ack = |bits| selective::Header::Ack { next: 0, bits, marked: false };
    stage.control(1, 0, 1460, ack(0b1));
    stage.control(1, 0, 2 * 1460, ack(0b11));
    assert!(stage.pull_all().iter().all(|packet| packet.payload.offset_bytes > 0));
    stage.control(1, 0, 3 * 1460, ack(0b111));
    assert_eq!(stage.pull().map(|packet| packet.payload.offset_bytes), Some(0));
}

#[test]
fn clause_3_7_packets_sink_by_bytes_sent() {
    let published = Thresholds::WEB_SEARCH_80;
    assert_eq!(published.level(0), 7);
    assert_eq!(published.level(909 * 1460 - 1), 7);
    assert_eq!(published.level(909 * 1460), 6);
    assert_eq!(published.level(2484 * 1460 - 1), 1);
    assert_eq!(published.level(2484 * 1460), 0);
    let thresholds = Thresholds([1460, 2920, 4380, 5840, 7300, 8760, 10_220]);
    let config = pias::Config { thresholds, ..pias::Config::default() };
    let mut stage = stage(pias::Pias::new(config).expect("legal"));
    stage.submit(1, 0, 14_600, false);
    let levels: Vec<u8> = stage.pull_all().iter().map(|packet| packet.priority).collect();
    assert_eq!(levels, [7, 6, 5, 4, 3, 2, 1, 0, 0, 0]);
}

#[test]
fn clause_3_7_equal_bytes_are_split_evenly() {
    let one = Thresholds::equal_bytes(&[(8_000, 1.0)]).expect("legal");
    assert_eq!(one.0, [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000]);
    // Half of the messages end at 100; beyond, a byte counts half.
    let two = Thresholds::equal_bytes(&[(100, 0.5), (900, 1.0)]).expect("legal");
    assert_eq!(two.0, [63, 150, 275, 400, 525, 650, 775]);
    assert!(Thresholds::equal_bytes(&[]).is_err());
    assert!(Thresholds::equal_bytes(&[(100, 0.5), (90, 1.0)]).is_err());
    assert!(Thresholds::equal_bytes(&[(100, 0.5)]).is_err());
}

#[test]
fn clause_3_4_the_window_grows_to_its_maximum_and_a_timeout_empties_it() {
    let mut window = pfabric::Window::new(&pfabric::Config::default());
    assert_eq!(window.packets(), 12);
    for expected in [13, 14, 15, 15] {
        window.advanced();
        assert_eq!(window.packets(), expected);
    }
    window.timed_out();
    let mut seen = vec![window.packets()];
    for _ in 0..7 + 7 + 8 {
        window.advanced();
        seen.push(window.packets());
    }
    let expected = [1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 9, 9];
    assert_eq!(seen, expected, "slow start to 15 / 2, then one a window");
}

#[test]
fn clause_3_4_rank_is_what_is_left_and_acknowledgements_come_first() {
    let mut stage = stage(t::pfabric());
    stage.submit(1, 0, 50_000, false);
    let sent = stage.pull_all();
    assert_eq!(sent.len(), 12);
    assert!(sent.iter().all(|packet| packet.rank == 50_000));
    // Packet 0 cumulatively, 2 selectively.
    let ack = selective::Header::Ack { next: 1, bits: 0b101, marked: false };
    stage.control(1, 0, 2 * 1460, ack);
    let next = stage.pull().expect("the window moved");
    assert_eq!((next.rank, next.payload.offset_bytes), (50_000 - 2 * 1460, 12 * 1460));
    let header = selective::Header::Data(about(0, 10_000));
    stage.data(1, (2, 10_000), 0, header);
    assert_eq!(stage.pull().map(|packet| packet.rank), Some(0));
}

#[test]
fn clause_3_4_the_timeout_is_fixed_and_goes_back_to_the_first_gap() {
    let mut stage = stage(t::pfabric());
    stage.submit(1, 0, 5 * 1460, false);
    assert_eq!(stage.pull_all().len(), 5);
    let ack = selective::Header::Ack { next: 1, bits: 0b101, marked: false };
    stage.control(1, 0, 2 * 1460, ack);
    for _ in 0..3 {
        stage.wait(Span::from_ns(44_999));
        assert!(stage.pull().is_none());
        stage.wait(Span::from_ns(1));
        let again = stage.pull().expect("45 us");
        assert_eq!(again.payload.offset_bytes, 1460);
        assert!(stage.pull().is_none(), "a window of one");
    }
}

fn packet_time() -> Span {
    phost::Config::default().packet_time()
}

#[test]
fn clause_3_5_a_short_message_brings_its_tokens_and_a_long_one_waits() {
    let mut stage = stage(t::phost());
    stage.submit(1, 0, 8 * 1460, false);
    let sent = stage.pull_all();
    assert_eq!(sent[0].header, phost::Header::Rts { about: about(0, 8 * 1460), again: false });
    assert_eq!(sent[0].priority, 7);
    assert_eq!(sent.len(), 9);
    let free = phost::Header::Free(about(0, 8 * 1460));
    assert!(sent[1..].iter().all(|packet| packet.header == free && packet.priority == 6));
    stage.submit(1, 2, 8 * 1460 + 1, false);
    assert_eq!(stage.pull_all().len(), 1, "an RTS and nothing else");
    stage.control(1, 2, 3 * 1460, phost::Header::Token { left: 9, number: 5 });
    let paid = stage.pull().expect("a token is spent");
    assert_eq!(paid.header, phost::Header::Data { about: about(1, 8 * 1460 + 1), token: 5 });
    assert_eq!((paid.payload.offset_bytes, paid.priority), (3 * 1460, 0));
    assert!(stage.pull().is_none());
}

#[test]
fn clause_3_5_tokens_expire() {
    let life = Span::from_ns(packet_time().as_ns() * 3 / 2);
    let spent_after = |wait: Span| {
        let mut stage = stage(t::phost());
        stage.submit(1, 0, 20 * 1460, false);
        stage.pull_all();
        stage.control(1, 0, 0, phost::Header::Token { left: 20, number: 0 });
        stage.wait(wait);
        stage.pull_all().len()
    };
    assert_eq!(spent_after(life), 1);
    assert_eq!(spent_after(life + Span::from_ns(2)), 0, "discarded silently");
    // Free ones live for 8 and 1.5 packet times.
    let mut stage = stage(t::phost());
    stage.submit(1, 0, 2 * 1460, false);
    assert!(stage.pull().is_some_and(|rts| rts.payload.length_bytes == 0));
    stage.wait(Span::from_ns(packet_time().as_ns() * 19 / 2 + 2));
    assert!(stage.pull().is_none());
}

#[test]
fn clause_3_5_one_token_a_packet_time_within_the_window_then_forgiveness() {
    let mut stage = stage(t::phost());
    let length = 100 * 1460;
    stage.control(1, 0, 0, phost::Header::Rts { about: about(0, length), again: false });
    assert_eq!(stage.pull_all().len(), 1, "the first at once");
    for _ in 0..8 {
        stage.wait(packet_time());
        assert_eq!(stage.pull_all().len(), 1);
    }
    stage.wait(packet_time() * 10);
    assert!(stage.pull().is_none(), "nine are unanswered");
    let data = phost::Header::Data { about: about(0, length), token: 1 };
    stage.data(1, (0, length), 1, data);
    assert_eq!(stage.pull_all().len(), 1, "tokens 0 and 1 are answered: room for two");
    stage.wait(packet_time());
    assert_eq!(stage.pull_all().len(), 1);
    stage.wait(packet_time() * 24);
    assert!(stage.pull().is_none());
    stage.wait(packet_time() * 2);
    let token = stage.pull().expect("25 packet times are forgiven");
    assert!(matches!(token.header, phost::Header::Token { left: 99, number: 11 }));
    assert_eq!(token.payload.offset_bytes, 11 * 1460, "it goes on, and does not begin again");
}

#[test]
fn clause_3_5_missing_packets_get_tokens_again() {
    // A message with its own tokens: twice its packets.
    let mut stage = stage(t::phost());
    let length = 4 * 1460;
    stage.control(1, 0, 0, phost::Header::Rts { about: about(0, length), again: false });
    stage.data(1, (0, length), 1, phost::Header::Free(about(0, length)));
    stage.wait(packet_time() * 8 - Span::from_ns(1));
    assert!(stage.pull().is_none());
    stage.wait(packet_time() * 2);
    let token = stage.pull().expect("a token");
    assert_eq!(token.header, phost::Header::Token { left: 3, number: 0 });
    assert_eq!(token.payload.offset_bytes, 0);
    stage.wait(packet_time() * 2);
    let offsets: Vec<u32> = stage.pull_all().iter().map(|p| p.payload.offset_bytes).collect();
    assert_eq!(offsets, [2 * 1460, 3 * 1460], "packet 1 is there");
    // The round is over: nine packet times, then again.
    stage.wait(packet_time() * 6);
    assert!(stage.pull().is_none());
    stage.wait(packet_time() * 3);
    assert_eq!(stage.pull().map(|p| p.payload.offset_bytes), Some(0));
}

#[test]
fn clause_3_5_tokens_go_to_the_message_with_the_fewest_packets_left() {
    let mut stage = stage(t::phost());
    for (name, length) in [(0, 100 * 1460), (2, 20 * 1460), (4, 50 * 1460)] {
        let serial = name / 2;
        let rts = phost::Header::Rts { about: about(serial, length), again: false };
        stage.control(1, u64::from(name), 0, rts);
    }
    assert_eq!(stage.pull().map(|p| p.payload.message), Some(Message(0)), "it came first");
    for _ in 0..9 {
        stage.wait(packet_time());
        assert_eq!(stage.pull().map(|p| p.payload.message), Some(Message(2)));
    }
    stage.wait(packet_time());
    assert_eq!(stage.pull().map(|p| p.payload.message), Some(Message(4)), "2 has its window");
}

#[test]
fn clause_3_8_a_window_blindly_then_one_packet_a_pull() {
    let mut stage = stage(t::ndp());
    stage.submit(1, 0, 100 * 1460, false);
    assert_eq!(stage.pull_all().len(), 10);
    stage.control(1, 0, 0, ndp::Header::Ack { next: 1, bits: 1 });
    assert!(stage.pull().is_none(), "an ACK alone allows nothing");
    stage.control(1, 0, 0, ndp::Header::Pull { count: 1 });
    assert_eq!(stage.pull_all().len(), 1);
    stage.control(1, 0, 0, ndp::Header::Pull { count: 3 });
    assert_eq!(stage.pull_all().len(), 2, "one pull was lost");
    stage.control(1, 0, 0, ndp::Header::Pull { count: 2 });
    assert!(stage.pull().is_none(), "and came late");
    stage.control(1, 0, 5 * 1460, ndp::Header::Nack);
    assert!(stage.pull().is_none(), "a NACK alone allows nothing");
    stage.control(1, 0, 0, ndp::Header::Pull { count: 4 });
    let sent = stage.pull_all();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].payload.offset_bytes, 5 * 1460, "what was trimmed goes first");
}

#[test]
fn clause_3_8_pulls_are_paced_and_take_turns() {
    let mut stage = stage(t::ndp());
    let length = 100 * 1460;
    for number in 0..3 {
        for (serial, name) in [(0, 0), (1, 2)] {
            let header = ndp::Header::Data(about(serial, length));
            let seen = Seen { marked: false, trimmed: number == 1 };
            stage.receive(1, header, extent(Message(name), length, number), seen);
        }
    }
    let now = stage.pull_all();
    let count = |what: fn(&ndp::Header) -> bool| now.iter().filter(|p| what(&p.header)).count();
    assert_eq!(count(|header| matches!(header, ndp::Header::Ack { .. })), 4);
    assert_eq!(count(|header| matches!(header, ndp::Header::Nack)), 2);
    assert_eq!(count(|header| matches!(header, ndp::Header::Pull { .. })), 1, "the first at once");
    let mut order = Vec::new();
    for _ in 0..6 {
        stage.wait(packet_time() - Span::from_ns(1));
        assert!(stage.pull().is_none());
        stage.wait(Span::from_ns(1));
        order.extend(stage.pull_all().iter().map(|packet| packet.payload.message.0));
    }
    assert_eq!(order, [2, 0, 2, 0, 2]);
}

/// The pulls of a message are as many as it needs: none for what the first window brings.
#[test]
fn clause_3_8_no_pull_is_wasted() {
    let mut stage = stage(t::ndp());
    let length = 12 * 1460;
    let mut pulls = 0;
    for number in 0..12 {
        stage.data(1, (0, length), number, ndp::Header::Data(about(0, length)));
        stage.wait(packet_time());
        let sent = stage.pull_all();
        pulls += sent.iter().filter(|p| matches!(p.header, ndp::Header::Pull { .. })).count();
    }
    assert_eq!(pulls, 2);
    assert!(stage.effects.iter().any(|effect| matches!(effect, Effect::Delivered { .. })));
}

#[test]
fn clause_3_3_everything_goes_at_once_and_one_answer_comes() {
    let mut stage = stage(t::blast(blast::Order::Submission));
    stage.submit(1, 0, 1_000_000, false);
    stage.submit(2, 2, 1_000, false);
    let sent = stage.pull_all();
    assert_eq!(sent.len() as u32, packets(1_000_000) + 1);
    assert_eq!(sent.last().map(|packet| packet.payload.message), Some(Message(2)));
    assert!(sent.iter().all(|packet| packet.priority == 0));
    let header = blast::Header::Data(about(0, 2_000));
    stage.data(1, (4, 2_000), 1, header);
    assert!(stage.pull().is_none());
    stage.data(1, (4, 2_000), 0, header);
    assert_eq!(stage.pull().map(|packet| packet.header), Some(blast::Header::Done));
    stage.data(1, (4, 2_000), 0, header);
    assert_eq!(stage.pull().map(|packet| packet.header), Some(blast::Header::Done), "again");
    let delivered = |effect: &&Effect<_>| matches!(effect, Effect::Delivered { .. });
    assert_eq!(stage.effects.iter().filter(delivered).count(), 1);
}

#[test]
fn clause_3_3_without_repair_nothing_but_data_is_sent() {
    let config = blast::Config { confirm: false, ..blast::Config::default() };
    let mut stage = stage(blast::Blast::new(config).expect("a legal configuration"));
    stage.submit(1, 0, 1_000_000, false);
    let sent = stage.pull_all();
    assert_eq!(sent.len() as u32, packets(1_000_000));
    assert!(sent.iter().all(|packet| matches!(packet.header, blast::Header::Data(_))));
    let released = |effect: &&Effect<_>| matches!(effect, Effect::Released { .. });
    assert_eq!(stage.effects.iter().filter(released).count(), 1, "what is sent is forgotten");
    let header = blast::Header::Data(about(0, 2_000));
    for packet in [0, 1, 1] {
        stage.data(1, (4, 2_000), packet, header);
    }
    assert!(stage.pull().is_none(), "nobody is told that it came");
    let delivered = |effect: &&Effect<_>| matches!(effect, Effect::Delivered { .. });
    assert_eq!(stage.effects.iter().filter(delivered).count(), 1);
    cavy_core::Machine::check(&stage.machine);
}

#[test]
fn clause_3_3_a_silent_message_is_asked_for_by_its_gaps() {
    let mut stage = stage(t::blast(blast::Order::Submission));
    let header = blast::Header::Data(about(0, 10 * 1460));
    for number in [0, 1, 4, 9] {
        stage.data(1, (0, 10 * 1460), number, header);
    }
    stage.wait(Span::from_us(200));
    let asked = stage.pull().expect("after the silence");
    assert_eq!(asked.header, blast::Header::Resend { bits: 0b111_1011 });
    assert_eq!(asked.payload.offset_bytes, 2 * 1460);
    stage.wait(Span::from_us(399));
    assert!(stage.pull().is_none(), "twice as long the second time");
    stage.wait(Span::from_us(1));
    assert!(stage.pull().is_some());
}

#[test]
fn configurations_are_checked() {
    let error = dctcp::Dctcp::new(dctcp::Config { gain: 0.0, ..dctcp::Config::default() });
    let error = error.expect_err("no gain");
    assert_eq!(error.to_string(), "gain is 0; it must be above 0 and at most 1");
    let window_packets = 16;
    let config = pfabric::Config { window_packets, ..pfabric::Config::default() };
    assert!(pfabric::PFabric::new(config).is_err());
    let config = blast::Config { silence: Span::ZERO, ..blast::Config::default() };
    assert!(blast::Blast::new(config).is_err());
    let config = phost::Config { token_life_packets: f64::NAN, ..phost::Config::default() };
    assert!(phost::PHost::new(config).is_err());
    let config = ndp::Config { link_bits_per_s: 0, ..ndp::Config::default() };
    assert!(ndp::Ndp::new(config).is_err());
    let thresholds = Thresholds([1, 2, 3, 2, 5, 6, 7]);
    let config = pias::Config { thresholds, ..pias::Config::default() };
    assert!(pias::Pias::new(config).is_err());
}
