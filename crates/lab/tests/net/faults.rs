//! Faults by rule, crashes, freezes.

use crate::blast::Blast;
use crate::script::{Log, Script, arrive_apart};
use cavy_core::family::Node;
use cavy_core::family::packet::Message;
use cavy_core::{Instant, Ratio, Span};
use cavy_lab::net::traffic::{Listed, OpenLoop};
use cavy_lab::net::{
    Bins, Blocks, Ended, Faults, Network, Observer, Outage, OutageKind, Place, Rate, Report, Rough,
    Rule, Setup, SetupError, Start, Submission, Topology, Unobserved, What, Which, run,
    run_to_machines,
};
use cavy_lab::pending::Wheel;
use cavy_workload::Sizes;
use cavy_workload::sizes::{Framing, Published, rate_per_s};

fn star(faults: Faults) -> Setup {
    let topology = Topology::star(16, Rate::gbps(10), Span::ZERO).unwrap();
    let network = Network::new(topology);
    Setup { faults, ..Setup::new(network, 1, Span::from_ms(10), Bins::up_to(vec![])) }
}

fn choose(length: u32) -> (u8, u32) {
    (0, length)
}

fn play(setup: &Setup, lengths: &[u32]) -> (Report, Log, Vec<Script>) {
    let mut log = Log::default();
    let traffic = Listed::at_times(16, arrive_apart(lengths, 3_000_000));
    let make = |_| Script::new(choose);
    let (report, machines) = run_to_machines(setup, make, traffic, &mut Wheel::new(), &mut log);
    (report, log, machines)
}

fn rules(rules: Vec<Rule>) -> Faults {
    Faults { rules, outages: Vec::new() }
}

#[test]
fn the_nth_match_is_lost_and_the_first_rule_decides() {
    let from_three = Which { from: Some(Node(3)), ..Which::any() };
    let faults = rules(vec![
        Rule { which: from_three, what: What::LoseNth(2) },
        Rule { which: Which::any(), what: What::LoseNth(2) },
    ]);
    let (report, log, _) = play(&star(faults), &[100, 200, 300, 400]);
    // Host 3 sends 300, its first: the first rule lets it pass and the second is not asked, so the
    // second match of that is 200.
    assert_eq!(log.lost, [200]);
    assert_eq!((report.packets.lost_fault, report.messages.finished), (1, 3));
    assert_eq!((report.ended, report.messages.unfinished), (Ended::Time, 1));
}

#[test]
fn a_ratio_of_packets_is_lost() {
    let setup = star(Faults::loss(Ratio::new(1, 20).unwrap()));
    let sizes = Sizes::constant(1000).unwrap();
    let traffic = OpenLoop::all_to_all(16, sizes, 100_000.0).start(16, 1).unwrap();
    let report = run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut Unobserved);
    let (sent, lost) = (report.packets.sent as f64, report.packets.lost_fault as f64);
    // Four standard deviations.
    assert!((lost - sent / 20.0).abs() < 4.0 * (sent * 0.05 * 0.95).sqrt(), "{lost} of {sent}");
    assert_eq!(report.messages.unfinished, report.packets.lost_fault);
}

#[test]
fn a_link_is_down_for_a_while() {
    let (since, until) = (Instant::from_ns(5_000), Instant::from_ns(12_000));
    let which = Which::link(Place::Switch(0), Place::Host(0), since, until);
    let faults = rules(vec![Rule { which, what: What::Down }]);
    // They begin to leave the switch 3.25 us, 6.25, 9.25, 12.25 after the start.
    let (_, log, _) = play(&star(faults), &[100, 200, 300, 400]);
    assert_eq!(log.lost, [200, 300]);
}

#[test]
fn packets_are_copied_and_late() {
    let always = Ratio::new(1, 1).unwrap();
    let only = |host| Which { from: Some(Node(host)), ..Which::any() };
    let copied = What::Duplicate { ratio: always, after: Span::from_us(10) };
    let late = What::Delay { ratio: always, by: Span::from_us(5) };
    let faults =
        rules(vec![Rule { which: only(1), what: copied }, Rule { which: only(2), what: late }]);
    let setup = Setup { linger: Span::from_us(20), ..star(faults) };
    let (report, log, _) = play(&setup, &[100, 200, 300]);
    let order: Vec<u32> = log.received_at.iter().map(|r| r.0).collect();
    assert_eq!(order, [100, 300, 200, 100]);
    assert_eq!(log.received_at[3].1 - log.received_at[0].1, 10_000_000);
    // The copy is delivered as well by a transport that does not look.
    assert_eq!((report.messages.finished, report.messages.unexpected), (3, 1));
    assert_eq!(report.packets.sent, report.packets.received);
}

#[test]
fn rules_may_ask_for_payload_only() {
    let with_payload = |with| Which { with_payload: Some(with), ..Which::any() };
    for (with, lost) in [(true, 2), (false, 0)] {
        let faults = rules(vec![Rule { which: with_payload(with), what: What::Down }]);
        let (report, _, _) = play(&star(faults), &[100, 200]);
        assert_eq!(report.packets.lost_fault, lost);
    }
}

#[test]
fn a_crash_loses_what_comes_and_a_new_machine_starts() {
    let (from, until) = (Instant::from_ns(5_000), Instant::from_ns(12_000));
    let outage = Outage { host: Node(0), from, until, kind: OutageKind::Crash };
    let setup = star(Faults { rules: vec![], outages: vec![outage] });
    let mut made = 0;
    let make = |node| {
        made += u32::from(node == Node(0));
        Script { ring_every_ns: Some(4_000), ..Script::new(choose) }
    };
    let setup = Setup { duration: Span::from_us(30), drain: Span::from_us(10), ..setup };
    let traffic = Listed::at_times(16, arrive_apart(&[100, 200, 300, 400], 3_000_000));
    let mut log = Log::default();
    let (report, machines) = run_to_machines(&setup, make, traffic, &mut Wheel::new(), &mut log);
    assert_eq!(made, 2);
    assert_eq!(log.lost, [200, 300]);
    assert_eq!((report.packets.lost_down, report.messages.finished), (2, 2));
    // The timers of the old machine are gone; those of the new one count from its start.
    assert_eq!(machines[0].rings.first(), Some(&16_000));
    assert_eq!(machines[1].rings.first(), Some(&4_000));
}

#[test]
fn a_crash_orphans_the_messages_of_its_host() {
    let (from, until) = (Instant::from_ns(3_000), Instant::from_ns(50_000));
    let outage = Outage { host: Node(1), from, until, kind: OutageKind::Crash };
    let setup = star(Faults { rules: vec![], outages: vec![outage] });
    let one = |from, at, length_bytes| {
        (Node(from), Submission { at, to: Node(0), length_bytes, asks: false, class: 0 })
    };
    // A long message that is half sent, one submitted while down, one after.
    let list =
        [one(1, 0, 100_000), one(1, 20_000_000, 100), one(1, 60_000_000, 100), one(2, 0, 100)];
    let traffic = Listed::at_times(16, list);
    let report = run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut Unobserved);
    let messages = report.messages;
    assert_eq!((messages.orphaned, messages.refused, messages.finished), (1, 1, 2));
    assert_eq!((messages.unfinished, report.ended), (0, Ended::Finished));
}

#[test]
fn homa_2_14_a_frozen_host_does_everything_later_and_once() {
    let (from, until) = (Instant::from_ns(5_000), Instant::from_ns(12_000));
    let outage = Outage { host: Node(0), from, until, kind: OutageKind::Freeze };
    let setup = star(Faults { rules: vec![], outages: vec![outage] });
    let setup = Setup { duration: Span::from_us(30), linger: Span::from_us(5), ..setup };
    let make = |_| Script { ring_every_ns: Some(4_000), ..Script::new(choose) };
    let mut list = arrive_apart(&[100, 200, 300, 400], 3_000_000);
    list.push((
        Node(0),
        Submission { at: 6_000_000, to: Node(5), length_bytes: 50, asks: false, class: 0 },
    ));
    let mut log = Log::default();
    let traffic = Listed::at_times(16, list);
    let (report, machines) = run_to_machines(&setup, make, traffic, &mut Wheel::new(), &mut log);
    assert_eq!((report.messages.finished, report.packets.received), (5, 5));
    // The ring of 8 us comes at the thaw, and the next one four later.
    assert_eq!(machines[0].rings, [4_000, 12_000, 16_000]);
    let to_host_zero = log.received_at.iter().filter(|r| r.0 >= 100);
    assert!(
        to_host_zero.clone().all(|r| !(5_000_000..12_000_000).contains(&r.1)),
        "{:?}",
        log.received_at
    );
}

#[test]
fn wrong_faults_are_refused() {
    let nth = rules(vec![Rule { which: Which::any(), what: What::LoseNth(0) }]);
    assert_eq!(star(nth).check(), Err(SetupError::NthZero { rule: 0 }));
    let (spike_least, spike_most) = (Span::from_us(2), Span::from_us(1));
    let rough = Rough { spike_least, spike_most, ..Rough::NOTHING };
    let backwards = rules(vec![Rule { which: Which::any(), what: What::Rough(rough) }]);
    assert_eq!(star(backwards).check(), Err(SetupError::Rough { rule: 0 }));
    let which = Which { link: Some((Place::Host(0), Place::Host(1))), ..Which::any() };
    let link = rules(vec![Rule { which, what: What::Down }]);
    assert_eq!(star(link).check(), Err(SetupError::NoLink { rule: 0 }));
    let starts = |hosts: &[u32]| {
        hosts.iter().map(|&host| Start { host: Node(host), at: Instant::from_ns(9) }).collect()
    };
    for wrong in [&[16][..], &[3, 3]] {
        let setup = Setup { starts: starts(wrong), ..star(Faults::default()) };
        let host = wrong[0];
        assert_eq!(setup.check(), Err(SetupError::Start { host, hosts: 16 }));
    }
    let at = Instant::from_ns(5);
    let early =
        Outage { host: Node(3), from: at, until: Instant::from_ns(20), kind: OutageKind::Freeze };
    let outages = Faults { rules: vec![], outages: vec![early] };
    let setup = Setup { starts: starts(&[3]), ..star(outages) };
    assert_eq!(setup.check(), Err(SetupError::Start { host: 3, hosts: 16 }));
    let outage = Outage { host: Node(3), from: at, until: at, kind: OutageKind::Crash };
    let outage = Faults { rules: vec![], outages: vec![outage] };
    assert_eq!(star(outage).check(), Err(SetupError::Outage { host: 3, hosts: 16 }));
}

/// A thousand packets, a microsecond apart, over a link that holds some of them up.
#[test]
fn incast_4_3_a_rough_link_delays_and_loses_and_keeps_the_order() {
    let link = Some((Place::Switch(0), Place::Host(0)));
    let which = Which { link, ..Which::any() };
    let ratio = |num| Ratio::new(num, 100).expect("a ratio");
    let rough = Rough {
        lost: ratio(5),
        jitter: Span::from_us(3),
        spiked: ratio(1),
        spike_least: Span::from_us(50),
        spike_most: Span::from_us(400),
        ..Rough::NOTHING
    };
    let received = |what: Option<Rough>| {
        let rule = what.map(|rough| Rule { which, what: What::Rough(rough) });
        let setup = Setup { linger: Span::from_ms(1), ..star(rules(rule.into_iter().collect())) };
        let setup = Setup { duration: Span::from_ms(4), ..setup };
        let lengths: Vec<u32> = (100..1_100).collect();
        let mut log = Log::default();
        let mut list = arrive_apart(&lengths, 1_000_000);
        list.iter_mut().for_each(|(from, _)| *from = Node(1 + from.0 % 15));
        let traffic = Listed::at_times(16, list);
        run(&setup, |_| Script::new(choose), traffic, &mut Wheel::new(), &mut log);
        log.received_at
    };
    let (clean, same) = (received(None), received(Some(Rough::NOTHING)));
    assert_eq!(clean, same, "a link that does nothing");
    let held = received(Some(rough));
    assert!(held.is_sorted(), "nobody overtakes");
    let lost = clean.len() - held.len();
    assert!((20..90).contains(&lost), "{lost} of {}", clean.len());
    let late: Vec<u64> =
        held.iter().map(|&(length, at)| at - clean[length as usize - 100].1).collect();
    let least = late.iter().filter(|&&ps| ps > 3_000_000).count();
    assert!(late.iter().all(|&ps| ps <= 403_000_000 + 1_000), "{:?}", late.iter().max());
    // A spike of 225 us holds up about as many packets, ten spikes more than half of them.
    assert!((300..1_000).contains(&least), "{least} were held up by spikes");
}

/// A packet that is overtaken by those of the next 2.5 us, on a link that holds up others too.
#[test]
fn incast_4_3_a_rough_link_lets_packets_be_overtaken_where_it_is_told_to() {
    let which = Which { link: Some((Place::Switch(0), Place::Host(0))), ..Which::any() };
    let received = |overtaken: Ratio, jitter: Span| {
        let overtaken_by = Span::from_ns(2_500);
        let rough = Rough { overtaken, overtaken_by, jitter, ..Rough::NOTHING };
        let faults = rules(vec![Rule { which, what: What::Rough(rough) }]);
        let setup = Setup { linger: Span::from_us(10), ..star(faults) };
        let setup = Setup { duration: Span::from_ms(4), ..setup };
        let lengths: Vec<u32> = (100..1_100).collect();
        let mut list = arrive_apart(&lengths, 1_000_000);
        list.iter_mut().for_each(|(from, _)| *from = Node(1 + from.0 % 15));
        let mut log = Log::default();
        let traffic = Listed::at_times(16, list);
        run(&setup, |_| Script::new(choose), traffic, &mut Wheel::new(), &mut log);
        log.received_at
    };
    let clean = received(Ratio::ZERO, Span::ZERO);
    let all = received(Ratio::new(1, 1).unwrap(), Span::ZERO);
    let later = clean.iter().zip(&all);
    assert!(later.clone().all(|(one, other)| other == &(one.0, one.1 + 2_500_000)));
    for jitter in [Span::ZERO, Span::from_us(30)] {
        let some = received(Ratio::new(5, 100).unwrap(), jitter);
        assert_eq!(some.len(), 1_000, "nothing is lost");
        // Who arrives behind one that was sent after it.
        let mut most = 0;
        let late: Vec<u64> = some
            .iter()
            .filter(|&&(length, _)| {
                let behind = length < most;
                most = most.max(length);
                behind
            })
            .map(|&(length, at)| at - clean[length as usize - 100].1)
            .collect();
        // 50 are chosen, give or take four deviations of 6.9.
        assert!((22..=78).contains(&late.len()), "{}", late.len());
        let least = if jitter.is_zero() { 2_500_000 } else { 0 };
        assert!(late.iter().all(|&by| by >= least && by <= 2_500_000 + 31_000_000), "{late:?}");
    }
}

#[test]
fn a_host_that_starts_late_hears_nothing_before_and_sends_from_then_on() {
    let start = |host| Start { host: Node(host), at: Instant::from_ns(12_000) };
    let one = |from, at, length_bytes| {
        let to = Node(if from == 0 { 1 } else { 0 });
        (Node(from), Submission { at, to, length_bytes, asks: false, class: 0 })
    };
    let play = |starts: Vec<Start>, list: Vec<(Node, Submission)>| {
        let setup = Setup { starts, ..star(Faults::default()) };
        let setup = Setup { duration: Span::from_us(30), drain: Span::from_us(10), ..setup };
        let make = |_| Script { ring_every_ns: Some(4_000), ..Script::new(choose) };
        let mut log = Log::default();
        let traffic = Listed::at_times(16, list);
        let ran = run_to_machines(&setup, make, traffic, &mut Wheel::new(), &mut log);
        (ran.0, ran.1, log)
    };
    // The receiver: what arrives 3.25 us after 0, 3, 6 and 9 us meets nobody before 12 us.
    let list = arrive_apart(&[100, 200, 300, 400], 3_000_000);
    let (report, machines, log) = play(vec![start(0)], list);
    assert_eq!(log.lost, [100, 200, 300]);
    assert_eq!((report.packets.lost_down, report.messages.finished), (3, 1));
    // Its timers count from its start.
    assert_eq!(machines[0].rings.first(), Some(&16_000));
    assert_eq!(machines[1].rings.first(), Some(&4_000));
    // The sender: a run waits for it although nobody else has anything to send.
    let (report, _, log) = play(vec![start(2)], vec![one(2, 13_000_000, 100)]);
    assert_eq!((report.messages.finished, report.ended), (1, Ended::Finished));
    assert_eq!(log.received_at.len(), 1);
    // One that starts after everything else is waited for no longer than the run may last.
    let never = Start { at: Instant::from_ns(1_000_000_000), ..start(2) };
    let (report, _, _) = play(vec![never], vec![one(1, 0, 100)]);
    assert_eq!((report.messages.finished, report.ended), (1, Ended::Time));
}

#[test]
fn applications_of_a_host_that_starts_late_miss_what_was_before_and_closed_loops_begin_then() {
    let at = Instant::from_ns(40_000);
    let play = |starts: Vec<Start>, load: f64, from: u64| {
        let setup = Setup { starts, ..star(Faults::default()) };
        let setup = Setup { duration: Span::from_us(100), drain: Span::from_ms(1), ..setup };
        let sizes = Published::W2.sizes();
        let rate = rate_per_s(&sizes, &Framing::default(), load, 10e9);
        let traffic = OpenLoop::all_to_all(16, sizes, rate).start(16, 3).unwrap();
        let mut sent = Sent(Vec::new());
        run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut sent);
        sent.0.retain(|&(node, at, _)| node != Node(5) || at >= from);
        sent.0
    };
    // Its messages after the start are those that it has without one; nobody else's change.
    let late = play(vec![Start { host: Node(5), at }], 0.3, 0);
    assert_eq!(late, play(vec![], 0.3, 40_000_000));
    assert!(late.iter().any(|one| one.0 == Node(5)));
    let client = Start { host: Blocks::CLIENT, at };
    let blocks = Blocks {
        servers: 3,
        question_bytes: 100,
        fragment_bytes: 1_000,
        blocks: 4,
        jitter: Span::ZERO,
        outstanding: 3,
        background: 0,
    };
    let ends = |starts: Vec<Start>| {
        let setup = Setup { starts, ..star(Faults::default()) };
        let setup = Setup { duration: Span::from_ms(10), ..setup };
        let mut sent = Sent(Vec::new());
        let traffic = blocks.start(1);
        let report = run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut sent);
        assert_eq!((report.messages.finished, report.messages.refused), (15, 0));
        sent.0.iter().map(|one| one.1).collect::<Vec<u64>>()
    };
    let (now, then) = (ends(vec![]), ends(vec![client]));
    assert!(now.iter().zip(&then).all(|(one, other)| one + 40_000_000 == *other), "{now:?}");
}

/// Who submitted what when.
struct Sent(Vec<(Node, u64, u32)>);

impl<M: ?Sized, H> Observer<M, H> for Sent {
    fn submitted(&mut self, from: Node, _: Node, _: Message, length_bytes: u32, at: u64) {
        self.0.push((from, at, length_bytes));
    }
}
