//! The packet world: hosts with transports, and the network between them.
//!
//! **Problem.** Which transport gives short messages short tails depends on queues in network cards
//! and switches, and those on every packet of every message; so packets are what is simulated.
//!
//! **Promise.** Links are exact to the picosecond, switches store and forward, every transport gets
//! the same messages, and a run ends with a digest that depends on the seed and nothing else. After
//! warm-up nothing is allocated for a packet, and memory is bounded by what is under way.
//!
//! **Not here.** No transport: whatever is a [`Transport`] runs. No payload: packets carry the
//! names of bytes. No collisions, bit errors, pause frames or cut-through switches.
//!
//! **Reading order.** [`Topology`] (who is linked to whom), [`Network`] (queues, buffers, delays),
//! [`traffic`] (who sends what), [`Setup`] and [`run`], [`Report`] (what it came to). [`Ideal`] has
//! the least times that slowdown is relative to, [`Observer`] watches a run packet by packet,
//! [`Faults`] break things.

mod baseline;
mod blocks;
mod clock;
mod faults;
mod ideal;
mod messages;
mod mixed;
mod network;
mod observer;
pub mod oracle;
mod packets;
mod phases;
mod port;
mod report;
mod setup;
mod topology;
pub mod trace;
pub mod traffic;
mod waste;
mod world;

pub use baseline::own_best;
pub use blocks::{BlockTimes, Blocks, BlocksTraffic};
pub use clock::{PS_PER_NS, Ps, Rate, instant, ps};
pub use faults::{Faults, Outage, OutageKind, Rough, Rule, What, Which};
pub use ideal::{Ideal, OwnBest};
pub use messages::number;
pub use mixed::Mixed;
pub use network::{Buffer, Counting, Framing, Hosts, Network, NetworkError, Order, Routing};
pub use observer::{Done, Loss, Observer, Unobserved};
pub use packets::{Delays, InFlight};
pub use phases::Phases;
pub use report::{
    BinRecord, Bins, ClassRecord, Ended, MessageCounts, PacketCounts, Recorder, Report,
    SLOWDOWN_UNIT,
};
pub use setup::{Setup, SetupError, Start};
pub use topology::{Egress, Link, NODES_MAX, Place, PortClass, Topology, TopologyError};
pub use traffic::{Submission, Traffic};
pub use waste::Waste;

use crate::pending::Pending;
use cavy_core::family::Node;
use cavy_core::family::packet::{Effect, Input};
use cavy_core::{Machine, Transmit};

/// A machine of the packet family that is pulled for packets.
pub trait Transport:
    Transmit
    + Machine<Input = Input<<Self as Transmit>::Header>, Effect = Effect<<Self as Transport>::Why>>
{
    /// Why it gives messages up.
    type Why;
}

impl<W, M> Transport for M
where
    M: Transmit + Machine<Input = Input<<M as Transmit>::Header>, Effect = Effect<W>>,
{
    type Why = W;
}

/// Runs one machine of `make` on each host until the messages of `traffic` have ended or time is
/// up.
///
/// # Panics
/// When [`Setup::check`] fails, or a machine sends a packet to itself or one longer than it may.
pub fn run<M, T, P, O>(
    setup: &Setup,
    make: impl FnMut(Node) -> M,
    traffic: T,
    pending: &mut P,
    observer: &mut O,
) -> Report
where
    M: Transport,
    T: Traffic,
    P: Pending,
    O: Observer<M, M::Header>,
{
    run_to_machines(setup, make, traffic, pending, observer).0
}

/// As [`run`], and hands out the machines as they were in the end.
pub fn run_to_machines<M, T, P, O>(
    setup: &Setup,
    make: impl FnMut(Node) -> M,
    traffic: T,
    pending: &mut P,
    observer: &mut O,
) -> (Report, Vec<M>)
where
    M: Transport,
    T: Traffic,
    P: Pending,
    O: Observer<M, M::Header>,
{
    if let Err(error) = setup.check() {
        panic!("{error}");
    }
    let mut world = world::World::new(setup, make, traffic, pending, observer);
    world.go();
    world.finish()
}
