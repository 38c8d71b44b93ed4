//! Who sends what to whom.

use crate::blast::Blast;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_lab::net::traffic::{Gaps, Incast, OpenLoop, Receivers, TrafficError};
use cavy_lab::net::{
    Bins, Done, Ended, Network, Observer, Rate, Report, Setup, Submission, Topology, Traffic, run,
};
use cavy_lab::pending::Wheel;
use cavy_workload::Sizes;

fn sizes() -> Sizes {
    Sizes::new(&[(100, 0.5), (3_000, 1.0)]).unwrap()
}

/// The first `count` messages of `host`.
fn first(traffic: &mut impl Traffic, host: u32, count: usize) -> Vec<Submission> {
    (0..count).map(|_| traffic.next(Node(host), 0).unwrap()).collect()
}

/// Mean gap and coefficient of variation.
fn gaps(messages: &[Submission]) -> (f64, f64) {
    let gaps: Vec<f64> = messages.windows(2).map(|pair| (pair[1].at - pair[0].at) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    (mean, variance.sqrt() / mean)
}

#[test]
fn homa_4_2_and_6_gaps_are_exponential_or_nearly_equal() {
    for (law, variation, within) in
        [(Gaps::Poisson, 1.0, 0.03), (Gaps::NearPeriodic { variation: 0.01 }, 0.01, 0.001)]
    {
        let what = OpenLoop { gaps: law, ..OpenLoop::all_to_all(4, sizes(), 1e6) };
        let messages = first(&mut what.start(4, 1).unwrap(), 2, 20_000);
        let (mean, found) = gaps(&messages);
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        assert!((found - variation).abs() < within, "{found}");
    }
}

#[test]
fn receivers_are_others_alike_or_one_for_each() {
    let mut traffic = OpenLoop::all_to_all(5, sizes(), 1e6).start(5, 1).unwrap();
    let mut counts = [0u32; 5];
    for message in first(&mut traffic, 3, 20_000) {
        counts[message.to.0 as usize] += 1;
    }
    assert_eq!(counts[3], 0);
    assert!([0, 1, 2, 4].iter().all(|&i| (4_700..5_300).contains(&counts[i])), "{counts:?}");
    let what =
        OpenLoop { receivers: Receivers::Permutation, ..OpenLoop::all_to_all(7, sizes(), 1e6) };
    let mut traffic = what.start(7, 1).unwrap();
    let mut to: Vec<u32> = (0..7).map(|host| first(&mut traffic, host, 1)[0].to.0).collect();
    assert!((0..).zip(&to).all(|(host, &to)| host != to), "{to:?}");
    to.sort_unstable();
    assert_eq!(to, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn impossible_traffic_is_refused() {
    let what = || OpenLoop::all_to_all(4, sizes(), 1e6);
    let refused = |what: OpenLoop| what.start(4, 1).unwrap_err();
    let rate = refused(OpenLoop { rate_per_s: f64::NAN, ..what() });
    assert!(matches!(rate, TrafficError::Rate { .. }), "{rate}");
    let senders = refused(OpenLoop { senders: 2..5, ..what() });
    assert_eq!(senders, TrafficError::Senders { senders: 2..5, hosts: 4 });
    let receivers = refused(OpenLoop { receivers: Receivers::Among(1..2), ..what() });
    assert_eq!(receivers, TrafficError::Receivers { receivers: 1..2, hosts: 4 });
    let variation = refused(OpenLoop { gaps: Gaps::NearPeriodic { variation: 0.6 }, ..what() });
    assert_eq!(variation, TrafficError::Variation { variation: 0.6 });
}

fn star(hosts: u32, duration: Span) -> Setup {
    let topology = Topology::star(hosts, Rate::gbps(10), Span::ZERO).unwrap();
    Setup::new(Network::new(topology), 1, duration, Bins::deciles(&sizes()))
}

/// Questions under way, and the most there were.
#[derive(Default)]
struct Open(i64, i64, Vec<u32>);

impl<M: ?Sized, H> Observer<M, H> for Open {
    fn submitted(
        &mut self,
        _: Node,
        to: Node,
        _: cavy_core::family::packet::Message,
        _: u32,
        _: u64,
    ) {
        self.0 += 1;
        self.1 = self.1.max(self.0);
        self.2.push(to.0);
    }
    fn finished(&mut self, done: &Done) {
        assert_eq!((done.from, done.answer_bytes), (Node(3), 10_000));
        self.0 -= 1;
    }
}

fn incast(questions: u64) -> (Report, Open) {
    let setup = star(16, Span::from_ms(2));
    let what = Incast {
        client: Node(3),
        hosts: 16,
        concurrent: 40,
        question_bytes: 20,
        answer_bytes: 10_000,
        questions,
    };
    let mut open = Open::default();
    let report = run(&setup, |_| Blast::default(), what.start(), &mut Wheel::new(), &mut open);
    (report, open)
}

#[test]
fn homa_5_10_incast_keeps_its_questions_under_way() {
    let (report, open) = incast(u64::MAX);
    assert_eq!(open.1, 40);
    assert!((0..16).filter(|&host| host != 3).all(|host| open.2.contains(&host)));
    assert!(!open.2.contains(&3));
    // The client's downlink is full of answers: 7 packets of 78 bytes more each.
    let client_bits = report.goodput_bits_per_s * 16.0;
    assert!((client_bits / (10e9 * 10_000.0 / 10_546.0) - 1.0).abs() < 0.02, "{client_bits}");
    let (report, _) = incast(100);
    assert_eq!((report.messages.finished, report.ended), (100, Ended::Finished));
}

#[test]
fn homa_4_5_echoes_load_both_directions() {
    let setup = Setup { drain: Span::from_ms(20), ..star(8, Span::from_ms(2)) };
    let traffic = OpenLoop::echo(4, 4, sizes(), 200_000.0).start(8, 1).unwrap();
    let mut none = cavy_lab::net::Unobserved;
    let report = run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut none);
    assert_eq!(report.messages.finished, report.messages.submitted);
    assert!(report.messages.submitted > 1_400);
    // Everything goes twice; blast sends nothing again; each level carries its part.
    let lengths: u64 =
        report.bins.iter().map(|bin| u64::from(bin.up_to_bytes) * bin.latency_ns.count()).sum();
    assert_eq!((report.payload_bytes, report.retransmitted_bytes), (2 * lengths, 0));
    assert!(report.level_bytes[7] > 0 && report.level_bytes[0] > 8 * report.level_bytes[7]);
    assert_eq!(report.level_bytes[1..7], [0; 6]);
}

#[test]
fn homa_5_4_a_backlog_that_grows_shows() {
    let play = |load: f64| {
        let setup = star(8, Span::from_ms(4));
        let rate = load * 10e9 / 8.0 / 1700.0;
        let traffic = OpenLoop::all_to_all(8, sizes(), rate).start(8, 1).unwrap();
        let mut none = cavy_lab::net::Unobserved;
        run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut none)
    };
    assert!(play(1.3).grew(0.2));
    assert!(!play(0.5).grew(0.2), "{:?}", play(0.5).backlog_bytes);
}
