//! After warm-up nothing is allocated for a packet, and memory follows what is under way.

#[path = "../examples/blast/transport.rs"]
mod blast;

use blast::Blast;
use cavy_core::Span;
use cavy_lab::net::traffic::OpenLoop;
use cavy_lab::net::{Bins, Network, Rate, Setup, Topology, Unobserved, run};
use cavy_lab::pending::Wheel;
use cavy_workload::sizes::{Framing, Sizes, rate_per_s};

/// Allocations and the most bytes held in a run of `ms` milliseconds; packets sent.
fn cost(ms: u64) -> (u64, u64, u64) {
    let topology =
        Topology::leaf_spine(3, 4, 2, Rate::gbps(10), Rate::gbps(40), Span::ZERO).unwrap();
    let hosts = topology.hosts();
    let sizes = Sizes::new(&[(100, 0.5), (2_000, 0.9), (9_000, 1.0)]).unwrap();
    let rate = rate_per_s(&sizes, &Framing::default(), 0.6, 10e9);
    let setup = Setup::new(Network::new(topology), 1, Span::from_ms(ms), Bins::up_to(vec![]));
    let mut sent = 0;
    let info = allocation_counter::measure(|| {
        let traffic = OpenLoop::all_to_all(hosts, sizes, rate).start(hosts, 1).unwrap();
        let make = |_| Blast::default();
        sent = run(&setup, make, traffic, &mut Wheel::new(), &mut Unobserved).packets.sent;
    });
    (info.count_total, info.bytes_max, sent)
}

#[test]
fn a_longer_run_allocates_no_more() {
    let (short, short_bytes, few) = cost(4);
    let (long, long_bytes, many) = cost(40);
    assert!(many > 9 * few && few > 10_000, "{few} {many}");
    // Queues reach new maxima now and then, and the trail keeps up to a thousand marks: doublings.
    assert!(long <= short + 60, "{short} allocations for {few} packets, {long} for {many}");
    assert!(long_bytes < short_bytes + 300_000, "{short_bytes} {long_bytes}");
}
