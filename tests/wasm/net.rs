//! The golden runs of the packet world, beside those of `golden.rs`: Homa one-way over a fabric and
//! asked with losses, and three rivals with the switches that they need.
//!
//! Included by `crates/lab/tests/net.rs` and by the package `cavy-wasm-check`.

use cavy_core::{Ratio, Span};
use cavy_homa::rivals::{dctcp, ndp, pfabric};
use cavy_homa::{Config, Cutoffs, Homa};
use cavy_lab::net::traffic::{OpenLoop, Receivers, Weights};
use cavy_lab::net::{
    Bins, Buffer, Faults, Network, Order, Rate, Setup, Topology, Transport, Unobserved, run,
};
use cavy_lab::pending::Pending;
use cavy_workload::sizes::Sizes;
use std::sync::Arc;

/// Which golden run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Homa as simulated in the source: one-way, on two racks, packets sprayed.
    Simulated,
    /// Questions and answers, one packet in five hundred lost.
    Lossy,
    /// pFabric: by rank, through buffers of 24 packets.
    PFabric,
    /// DCTCP: marks from 65 packets on.
    Dctcp,
    /// NDP: trimmed beyond eight packets.
    Ndp,
    /// Homa, receivers by Zipf's law, links to hosts faster than those from them.
    Skewed,
}

/// One golden run: name, digest, what it is.
pub type Golden = (&'static str, u64, Which);

/// Some hundreds of messages each.
pub const NET: [Golden; 6] = [
    ("Homa on two racks", 0xA866_A005_31C5_B3AC, Which::Simulated),
    ("Homa with losses", 0xB1F7_5163_98F5_B4D7, Which::Lossy),
    ("pFabric", 0xADB9_86D7_0C14_6A7E, Which::PFabric),
    ("DCTCP", 0xA00F_03D6_9B69_A1AB, Which::Dctcp),
    ("NDP", 0x78B8_1EBD_0689_CAA1, Which::Ndp),
    ("skewed receivers, unequal links", 0x5D5D_5221_CD65_40F0, Which::Skewed),
];

const FRAME_BYTES: u32 = 1_538;

/// Runs it and returns the digest found.
pub fn digest(golden: &Golden, pending: &mut impl Pending) -> u64 {
    let which = golden.2;
    let (rate, fast) = (Rate::gbps(10), Rate::gbps(40));
    let topology = match which {
        Which::Simulated => Topology::leaf_spine(2, 4, 2, rate, fast, Span::ZERO),
        _ => Topology::star(8, rate, Span::from_ns(500)),
    };
    let mut topology = topology.expect("a legal topology");
    if which == Which::Skewed {
        topology = topology.with_downlinks(Rate::gbps(25));
    }
    let mut network = Network::new(topology);
    match which {
        Which::Simulated | Which::Lossy | Which::Skewed => {}
        Which::PFabric => {
            network.order = Order::SmallestRank;
            network.buffer = Buffer::PerPortPackets { packets: 24 };
        }
        Which::Dctcp => {
            network.mark_at_bytes = Some(65 * FRAME_BYTES);
            network.buffer = Buffer::PerPortPackets { packets: 240 };
        }
        Which::Ndp => network.order = Order::Trim { queue_bytes: 8 * FRAME_BYTES },
    }
    let mut setup = Setup::new(network, 0xCA71, Span::from_ms(1), Bins::up_to(vec![1_000]));
    setup.drain = Span::from_ms(50);
    let cutoffs = Cutoffs::new(8, &[469, 5_521, 15_267]).expect("ascending");
    match which {
        Which::Simulated | Which::Skewed => {
            let config = Config::simulator(cutoffs, 4);
            messages(&setup, which, || Homa::new(&config).expect("legal"), pending)
        }
        Which::Lossy => {
            setup.faults = Faults::loss(Ratio { num: 1, den: 500 });
            let config = Config::ramcloud(cutoffs, 4);
            messages(&setup, which, || Homa::new(&config).expect("legal"), pending)
        }
        Which::PFabric => {
            let make = || pfabric::PFabric::new(pfabric::Config::default()).expect("legal");
            messages(&setup, which, make, pending)
        }
        Which::Dctcp => {
            let make = || dctcp::Dctcp::new(dctcp::Config::default()).expect("legal");
            messages(&setup, which, make, pending)
        }
        Which::Ndp => {
            let make = || ndp::Ndp::new(ndp::Config::default()).expect("legal");
            messages(&setup, which, make, pending)
        }
    }
}

fn messages<M: Transport>(
    setup: &Setup,
    which: Which,
    make: impl Fn() -> M,
    pending: &mut impl Pending,
) -> u64 {
    let sizes = Sizes::new(&[(100, 0.4), (1_000, 0.7), (20_000, 0.95), (200_000, 1.0)]);
    let sizes = sizes.expect("a legal distribution");
    let hosts = setup.network.topology.hosts();
    // A host's share of 10 Gb/s is about a half.
    let mut traffic = OpenLoop::all_to_all(hosts, sizes, 4e4);
    traffic.asks = which == Which::Lossy;
    if which == Which::Skewed {
        let weights = Weights::zipf(hosts, 0.8).expect("a legal exponent");
        traffic.receivers = Receivers::Weighted(Arc::new(weights));
    }
    let traffic = traffic.start(hosts, setup.seed).expect("legal traffic");
    run(setup, |_| make(), traffic, pending, &mut Unobserved).trail.digest()
}
