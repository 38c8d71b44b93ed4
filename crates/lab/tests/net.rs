//! The packet world: times on an idle network, conservation, determinism.

#[path = "../examples/blast/transport.rs"]
mod blast;
#[path = "net/conservation.rs"]
mod conservation;
#[path = "net/faults.rs"]
mod faults;
#[path = "../../../tests/wasm/net.rs"]
mod golden;
#[path = "net/oracle.rs"]
mod oracle;
#[path = "net/ports.rs"]
mod ports;
#[path = "net/script.rs"]
mod script;
#[path = "net/theory.rs"]
mod theory;
#[path = "net/traffic.rs"]
mod traffic;
#[path = "net/watch.rs"]
mod watch;

use blast::Blast;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_lab::net::traffic::{Listed, OpenLoop};
use cavy_lab::net::{
    Bins, Ended, Ideal, Network, Rate, Report, Setup, Submission, Topology, Unobserved, own_best,
    run,
};
use cavy_lab::pending::{Heap4, Pending, Wheel};
use cavy_workload::sizes::{Framing, Published, Sizes, rate_per_s};

fn paper(duration: Span) -> Setup {
    let bins = Bins::deciles(&Published::W3.sizes());
    Setup::new(Network::new(Topology::paper()), 1, duration, bins)
}

#[test]
fn homa_4_3_ideal_times_are_the_published_ones() {
    let network = Network::new(Topology::paper());
    let ideal = Ideal::new(&network);
    assert_eq!(ideal.time(Node(0), Node(143), 2), 2_418_000);
    assert_eq!(ideal.time(Node(0), Node(143), 10_000), 12_465_200);
    assert_eq!(ideal.time(Node(0), Node(1), 2), 1_884_400);
    let with_typo = ideal.without_latency_in_rack();
    assert_eq!(with_typo.time(Node(0), Node(1), 2), 1_634_400);
    assert_eq!(with_typo.time(Node(0), Node(143), 2), 2_418_000);
}

/// Every decile ends where a fine bin ends, and a message is in the bin that its size says.
#[test]
fn homa_4_3_fine_bins_end_where_deciles_do() {
    for published in Published::ALL {
        let sizes = published.sizes();
        let (deciles, fine) = (Bins::deciles(&sizes), Bins::at_deciles(&sizes));
        assert!(deciles.ends().iter().all(|end| fine.ends().contains(end)), "{}", published.name());
        assert!(fine.ends().len() > deciles.ends().len());
        for (bin, &end) in fine.ends().iter().enumerate() {
            assert_eq!(fine.of(end), bin);
            assert_eq!(fine.of(end + 1), (bin + 1).min(fine.ends().len() - 1));
        }
    }
}

#[test]
fn a_lone_message_takes_the_ideal_time_and_its_headers() {
    // 1460 bytes of payload and 12 of header fill a packet, so blast needs as many packets as the
    // ideal for these, and they are as long.
    let setup = paper(Span::from_ms(1));
    let ideal = Ideal::new(&setup.network);
    let best = own_best(&setup, |_| Blast::default(), &[2, 1460, 14_600], false);
    for (hops, to) in [(2, Node(1)), (4, Node(143))] {
        assert_eq!(best.time(hops, 2), Some(ideal.time(Node(0), to, 2)));
        assert_eq!(best.time(hops, 1460), Some(ideal.time(Node(0), to, 1472)));
        assert_eq!(best.time(hops, 14_600), Some(ideal.time(Node(0), to, 14_720)));
    }
}

#[test]
fn an_echo_takes_both_ways() {
    let setup = paper(Span::from_ms(1));
    let ideal = Ideal::new(&setup.network);
    let best = own_best(&setup, |_| Blast::default(), &[2], true);
    assert_eq!(best.time(4, 2), Some(2 * ideal.time(Node(0), Node(143), 2)));
}

fn loaded(setup: &Setup, pending: &mut impl Pending) -> Report {
    let sizes = Published::W3.sizes();
    let hosts = setup.network.topology.hosts();
    let rate = rate_per_s(&sizes, &Framing::default(), 0.6, 10e9);
    let traffic = OpenLoop::all_to_all(hosts, sizes, rate).start(hosts, setup.seed).unwrap();
    run(setup, |_| Blast::default(), traffic, pending, &mut Unobserved)
}

#[test]
fn either_queue_of_events_gives_the_same_run() {
    let setup = Setup { drain: Span::from_ms(100), ..paper(Span::from_us(300)) };
    let wheel = loaded(&setup, &mut Wheel::new());
    let heap = loaded(&setup, &mut Heap4::new());
    assert_eq!(wheel.trail, heap.trail);
    assert_eq!(wheel.ended, Ended::Finished);
    assert_eq!(wheel.packets.sent, wheel.packets.received);
    assert_eq!(wheel.messages.submitted, wheel.messages.finished);
    let shuffled = Setup { shuffle_ties: Some(3), ..setup };
    let shuffled = loaded(&shuffled, &mut Wheel::new());
    assert_eq!(shuffled.messages, wheel.messages);
}

#[test]
fn listed_messages_come_in_turn() {
    let setup = Setup::new(
        Network::new(Topology::star(3, Rate::gbps(10), Span::ZERO).unwrap()),
        1,
        Span::from_ms(10),
        Bins::deciles(&Sizes::constant(100).unwrap()),
    );
    let one = Submission { at: 0, to: Node(2), length_bytes: 100, asks: true, class: 0 };
    let list = (0..10).map(|_| (Node(0), one));
    let traffic = Listed::in_turn(3, list);
    let report = run(&setup, |_| Blast::default(), traffic, &mut Heap4::new(), &mut Unobserved);
    let ideal = Ideal::new(&setup.network);
    // 12 bytes of header.
    let each = 2 * ideal.time(Node(0), Node(2), 112);
    assert_eq!(report.messages.finished, 10);
    assert_eq!(report.ended_at, 10 * each);
}

/// Both queues of events, since networks start with one and servers with the other.
#[test]
fn golden_digests() {
    let found = golden::NET.map(|one| (one.0, golden::digest(&one, &mut Heap4::new())));
    for (name, digest) in found {
        println!("{name}: 0x{digest:016X}");
    }
    assert_eq!(found, golden::NET.map(|one| (one.0, one.1)));
    assert_eq!(found, golden::NET.map(|one| (one.0, golden::digest(&one, &mut Wheel::new()))));
}
