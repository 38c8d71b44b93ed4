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
//! **Who is believed.** How peers are named, and how much an address is sent that has not shown
//! that it receives, is the same for all protocols: [`packet`]. An address shows it
//! by acknowledging an answer, granting it or asking for it again. This stops reflection by lone
//! packets; it does not stop someone who forges the second packet as well, for nothing in the
//! format is secret. With a key ([`Options::sealed`]) packets are encrypted ([`seal`]). Who can do
//! what to an endpoint, and what it keeps at most, is in `docs/concepts/security.md`.
//!
//! **Reading order.** [`options`], then `codec`: what Homa has of its own. The endpoint is
//! [`packet`]'s.

mod codec;
#[cfg(any(test, feature = "fuzz"))]
mod hostile;
#[cfg(test)]
mod module_tests;
pub mod options;

/// What the fuzzers in `fuzz/` and the replay of their corpus run. No part of the interface.
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz {
    pub use super::hostile::endpoint;
}

pub use crate::packet::seal;
pub use crate::packet::{
    Call, CallError, Carrier, Handler, Key, Lag, OpenError, Peer, Polling, Question, Recording,
    Reply,
};
pub use codec::Linux;

use crate::packet;
use cavy_homa::Config;

/// What an endpoint of Homa is set up by.
pub type Options = packet::Options<Config>;
/// Asks servers that speak Homa.
pub type Client = packet::Client<Config>;
/// Answers questions in Homa.
pub type Server = packet::Server<Config>;
/// What an endpoint of Homa counts; kinds of damage are those of
/// [`WireError::kind`](cavy_homa::wire::WireError::kind).
pub type Counters = packet::CountersOf<Config>;
