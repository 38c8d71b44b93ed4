//! Machines of the packet plane under test, in worlds small enough to be trusted.
//!
//! [`Stage`] has one machine, and whoever writes the test is everybody else. [`Network`] has
//! several around one switch that queues as it is told, and weather that loses, doubles and delays
//! packets by a seed; its [`Application`] says what the machines are told and watches what they do.
//! [`Ledger`] is the application of messages and the oracle for them: each is delivered whole and
//! once, or reported failed. [`Steady`] is a network that allocates nothing itself, for law 8, and
//! [`Served`] a machine whose port is a part of it, for the [rig](super::Rig) of all laws.
//!
//! Transports of messages and of streams differ in what applications say and hear, and not in what
//! a network does to packets: all but [`Ledger`] and [`Steady`] work for both.

mod ledger;
mod network;
mod served;
mod stage;
mod steady;
mod switch;
#[cfg(test)]
mod tests;

pub use ledger::{Fate, Ledger, Name};
pub use network::{Application, Deeds, Links, Network, Outage, Weather};
pub use served::{Done, Served, Turn};
pub use stage::Stage;
pub use steady::{Load, Steady};
pub use switch::{Queue, Sent};

use crate::family::packet::{self, Extent, Seen};
use crate::family::{Node, stream};

/// An input that says that a packet came in, which all vocabularies of the packet plane have.
pub trait Arrival<H> {
    /// The packet came in.
    fn arrival(from: Node, header: H, payload: Extent, seen: Seen) -> Self;
}

impl<H> Arrival<H> for packet::Input<H> {
    fn arrival(from: Node, header: H, payload: Extent, seen: Seen) -> Self {
        packet::Input::Rx { from, header, payload, seen }
    }
}

impl<H> Arrival<H> for stream::Input<H> {
    fn arrival(from: Node, header: H, payload: Extent, seen: Seen) -> Self {
        stream::Input::Rx { from, header, payload, seen }
    }
}
