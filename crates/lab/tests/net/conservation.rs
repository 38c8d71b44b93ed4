//! Whatever the network: every packet sent is received, lost or under way, and a run repeats.

use crate::blast::Blast;
use cavy_core::family::Node;
use cavy_core::{Instant, Ratio, Span};
use cavy_lab::net::traffic::OpenLoop;
use cavy_lab::net::{
    Bins, Buffer, Faults, Hosts, Network, Order, Outage, OutageKind, Rate, Report, Routing, Rule,
    Setup, Topology, Unobserved, What, Which, run,
};
use cavy_lab::pending::{Heap4, Pending, Wheel};
use cavy_workload::sizes::{Framing, Published, rate_per_s};
use proptest::prelude::*;

fn network() -> impl Strategy<Value = Network> {
    let topology = prop_oneof![
        (2u32..20).prop_map(|hosts| Topology::star(hosts, Rate::gbps(10), Span::ZERO).unwrap()),
        (1u32..4, 1u32..5, 1u32..4).prop_filter_map("two hosts", |(racks, hosts, spines)| {
            let (slow, fast) = (Rate::gbps(10), Rate::gbps(25));
            Topology::leaf_spine(racks, hosts, spines, slow, fast, Span::from_ns(7)).ok()
        }),
    ];
    let order = prop_oneof![
        Just(Order::Fifo),
        Just(Order::Levels),
        Just(Order::SmallestRank),
        (1518u32..20_000).prop_map(|queue_bytes| Order::Trim { queue_bytes }),
    ];
    let buffer = prop_oneof![
        Just(Buffer::Unlimited),
        (1518u64..50_000).prop_map(|bytes| Buffer::PerPort { bytes }),
        (1518u64..200_000, 0.1f64..4.0).prop_map(|(bytes, alpha)| Buffer::Shared { bytes, alpha }),
    ];
    let marks = prop_oneof![Just(None), (0u32..50_000).prop_map(Some)];
    let times = || prop::collection::vec((0u64..20_000).prop_map(Span::from_ns), 0..4);
    let threads = prop_oneof![Just((Vec::new(), Vec::new())), (times(), times())];
    (topology, order, buffer, marks, any::<bool>(), 1u32..4, 0u64..3_000, threads).prop_map(
        |(topology, order, buffer, mark_at_bytes, spray, nic_packets, each_ns, threads)| Network {
            wakes: threads.0,
            sends: threads.1,
            order,
            buffer,
            mark_at_bytes,
            routing: if spray { Routing::Spray } else { Routing::FlowHash },
            hosts: Hosts { nic_packets, receive_each: Span::from_ns(each_ns), ..Hosts::default() },
            ..Network::new(topology)
        },
    )
}

fn faults() -> impl Strategy<Value = Faults> {
    let ratio = || (0u32..30).prop_map(|n| Ratio::new(n, 100).unwrap());
    let what = prop_oneof![
        ratio().prop_map(What::Lose),
        (1u64..50).prop_map(What::LoseNth),
        ratio().prop_map(|ratio| What::Duplicate { ratio, after: Span::from_us(3) }),
        ratio().prop_map(|ratio| What::Delay { ratio, by: Span::from_us(9) }),
    ];
    let rules =
        prop::collection::vec(what.prop_map(|what| Rule { which: Which::any(), what }), 0..3);
    let outages = prop::collection::vec((0u32..2, 0u64..50_000, 1u64..50_000, any::<bool>()), 0..3);
    (rules, outages).prop_map(|(rules, outages)| Faults {
        rules,
        outages: outages
            .into_iter()
            .map(|(host, from, length, crash)| Outage {
                host: Node(host),
                from: Instant::from_ns(from),
                until: Instant::from_ns(from + length),
                kind: if crash { OutageKind::Crash } else { OutageKind::Freeze },
            })
            .collect(),
    })
}

fn play(setup: &Setup, load: f64, asks: bool, pending: &mut impl Pending) -> Report {
    let sizes = Published::W2.sizes();
    let hosts = setup.network.topology.hosts();
    let rate = rate_per_s(&sizes, &Framing::default(), load, 10e9);
    let traffic = OpenLoop { asks, ..OpenLoop::all_to_all(hosts, sizes, rate) };
    let traffic = traffic.start(hosts, setup.seed).unwrap();
    run(setup, |_| Blast::default(), traffic, pending, &mut Unobserved)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn nothing_is_lost_without_being_counted(
        network in network(), faults in faults(), seed in any::<u64>(), load in 0.1f64..1.3,
        asks in any::<bool>(), linger in 0u64..50,
    ) {
        let setup = Setup {
            faults,
            drain: Span::from_us(100),
            linger: Span::from_us(linger),
            ..Setup::new(network, seed, Span::from_us(100), Bins::up_to(vec![]))
        };
        let report = play(&setup, load, asks, &mut Wheel::new());
        let packets = report.packets;
        prop_assert_eq!(
            packets.sent,
            packets.received + packets.lost_full + packets.lost_fault + packets.lost_down
                + packets.in_flight
        );
        let messages = report.messages;
        // Blast gives nothing up. An orphan that arrives is no end, since nobody waits for it.
        prop_assert_eq!(
            messages.submitted, messages.finished + messages.unfinished + messages.orphaned
        );
        prop_assert_eq!(messages.failed + messages.abandoned, 0);
        let again = play(&setup, load, asks, &mut Heap4::new());
        prop_assert_eq!(again.trail, report.trail);
    }
}

#[test]
fn homa_4_2_messages_do_not_depend_on_the_network() {
    use cavy_lab::net::{Done, Observer};
    #[derive(Default)]
    struct All(Vec<(u32, u64, u32, u32, u64)>);
    impl<M: ?Sized, H> Observer<M, H> for All {
        fn finished(&mut self, done: &Done) {
            self.0.push((
                done.from.0,
                done.number,
                done.to.0,
                done.length_bytes,
                done.submitted_at,
            ));
        }
    }
    let play = |order| {
        let topology = Topology::star(8, Rate::gbps(10), Span::ZERO).unwrap();
        let network = Network { order, ..Network::new(topology) };
        let setup = Setup::new(network, 5, Span::from_us(200), Bins::up_to(vec![]));
        let setup = Setup { drain: Span::from_ms(100), ..setup };
        let sizes = Published::W3.sizes();
        let traffic = OpenLoop::all_to_all(8, sizes, 200_000.0).start(8, 9).unwrap();
        let mut all = All::default();
        run(&setup, |_| Blast::default(), traffic, &mut Wheel::new(), &mut all);
        all.0.sort_unstable();
        all.0
    };
    let levels = play(Order::Levels);
    assert!(levels.len() > 200);
    assert_eq!(levels, play(Order::Fifo));
}
