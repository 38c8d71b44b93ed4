//! Homa on sockets: questions and answers of up to a megabyte, without connections.
//!
//! **Problem.** On a TCP connection a short answer waits behind the long one before it, and opening
//! enough connections that none does is a cure with its own diseases.
//!
//! **Promise.** [`Client::call`] sends a message to an address and gives back the answer;
//! [`Server::bind`] answers with a closure. The machine that the lab simulates, unchanged, decides
//! what is sent when: one thread for each endpoint carries its packets over UDP, or over IP with
//! protocol number 146 as the Linux module does. A call ends exactly once, with the answer or with
//! an error, within its deadline; a question is carried out at most once. Whatever peers send,
//! memory is bounded by [`Options`], and what makes no sense is counted and dropped.
//!
//! **Not here.** No connection, no stream, no congestion control for the wide area: this is for
//! networks whose hosts belong to one owner. No estimate of the link's rate: it is configured. An
//! answer that is lost for good is an error and not a second try: whether the question was carried
//! out is then not known.
//!
//! **How addresses and ports are named.** A [`Peer`] is a socket address of the carrier and a Homa
//! port; each that is known is one node of the machine. An endpoint has one port for questions that
//! come to it (below 0x8000) and one from which it asks (0x8000 and above). Names of exchanges say
//! who speaks: even ones whoever asked, odd ones whoever answers. So a packet with an even name
//! goes from the asking port to the peer's, one with an odd name from the answering port, and a
//! packet whose name and port do not fit is dropped.
//!
//! **Who may be sent much.** A packet's source is easily forged, so an address that was never
//! called from here is sent at most [`Options::unproven_ratio`] times the bytes that came from it,
//! until it has shown that it receives: it acknowledged, granted or asked again for an answer. This
//! stops reflection by lone packets; it does not stop someone who forges the second packet as well,
//! for nothing in the format is secret. With a key ([`Options::sealed`]) packets are encrypted and
//! cannot be forged, altered or said twice ([`seal`]). Who can do what to an endpoint, and what it
//! keeps at most, is in `docs/concepts/security.md`.
//!
//! **Reading order.** [`options`], [`client`], [`server`]; then `endpoint` (what threads share),
//! `driver` (the loop) with `carrier` (the socket) and `lag`, `engine` (the machine's world) with
//! `exchanges` (whose bytes are where) and `peers`; `recording` and [`seal`] last.

mod carrier;
pub mod client;
mod counters;
mod driver;
mod endpoint;
mod engine;
mod exchanges;
mod lag;
mod mtu;
pub mod options;
mod peers;
mod ports;
mod recording;
pub mod seal;
pub mod server;
#[cfg(feature = "tower")]
mod service;

/// What the fuzzers in `fuzz/` and the replay of their corpus run. No part of the interface.
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz {
    pub use super::engine::hostile::endpoint;
}

pub use client::{Call, CallError, Client};
pub use counters::Counters;
pub use endpoint::OpenError;
pub use lag::Lag;
pub use options::{Carrier, Options, Peer, Polling};
pub use recording::Recording;
pub use seal::Key;
pub use server::{Handler, Question, Reply, Server};
