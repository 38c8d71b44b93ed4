//! Machines of the packet family on sockets: an endpoint for any protocol with a codec.
//!
//! **Problem.** A transport that was tried in the lab wants bytes, sockets and threads to run for
//! real, and bounds on what peers may do to it; little of that is the transport's own.
//!
//! **Promise.** [`Client::call`] sends a message to an address and gives back the answer;
//! [`Server::bind`] answers with a closure. The machine that the lab simulates, unchanged, decides
//! what is sent when: one thread for each endpoint carries its packets over UDP, or over IP with a
//! protocol number of its own. A call ends exactly once, with the answer or with an error, within
//! its deadline. Whatever peers send, what an endpoint keeps of their messages is bounded by
//! [`Options`], and what makes no sense is counted and dropped. Each step can be recorded, and
//! taken again by a fresh machine ([`record::packet`](crate::record::packet)).
//!
//! **What a protocol gives.** Its configuration, which builds the machine and is written into
//! recordings ([`Configuration`]), with what endpoints ask about it ([`Protocol`]); the bytes of
//! its packets ([`Codec`]); and how a recording says them
//! ([`Words`](crate::record::packet::Words)). [`homa`](crate::homa) is the first;
//! `tests/packet.rs` has the smallest.
//!
//! **Not here.** No streams: those are TCP's, in the room `stack`. No decision of a protocol.
//!
//! **How addresses and ports are named.** A [`Peer`] is a socket address of the carrier and a port
//! of the protocol; each that is known is one node of the machine. An endpoint has one port for
//! questions that come to it (below 0x8000) and one from which it asks (0x8000 and above). Names of
//! exchanges say who speaks: even ones whoever asked, odd ones whoever answers. So a packet with an
//! even name goes from the asking port to the peer's, one with an odd name from the answering port,
//! and a packet whose name and port do not fit is dropped.
//!
//! **Who may be sent much.** A packet's source is easily forged, so an address that was never
//! called from here is sent at most [`Options::unproven_ratio`] times the bytes that came from it,
//! until it has shown that it receives ([`Codec::proven`]). With a key packets are encrypted and
//! cannot be forged, altered or said twice ([`seal`]).
//!
//! **Reading order.** [`protocol`], [`options`], [`client`], [`server`]; then `endpoint` (what
//! threads share), `driver` (the loop) with `carrier` (the socket) and `lag`, `engine` (the
//! machine's world) with `exchanges` (whose bytes are where) and `peers`; `recording` and [`seal`]
//! last.

mod carrier;
pub mod client;
mod counters;
mod driver;
pub(crate) mod endpoint;
pub(crate) mod engine;
mod exchanges;
mod lag;
pub(crate) mod mtu;
pub mod options;
mod peers;
mod ports;
pub mod protocol;
mod recording;
pub mod seal;
pub mod server;
#[cfg(feature = "tower")]
mod service;

pub use crate::record::packet::Configuration;
pub use carrier::HEAD_BYTES;
pub use client::{Call, CallError, Client};
pub use counters::Counters;
pub use endpoint::OpenError;
pub use lag::Lag;
pub use options::{Carrier, Options, Peer, Polling, Terms};
pub use protocol::{Codec, CountersOf, Parsed, Ports, Protocol, Receipt, Refusal};
pub use recording::Recording;
pub use seal::Key;
pub use server::{Handler, Question, Reply, Server};
