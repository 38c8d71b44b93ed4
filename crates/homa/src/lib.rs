//! Homa, a receiver-driven transport of messages that uses network priorities ([homa 1]), and its
//! rivals.
//!
//! **Problem.** Most messages in a datacenter are tiny and wait behind a few that are huge.
//!
//! **Promise.** [`Homa`] sends the shortest remaining message first everywhere: at the sender, at
//! the receiver, which grants all but the first bytes of a message, and through priority levels in
//! the network's queues. One skeleton serves the three published Homas and Basic: they are
//! configurations. Whatever peers send, a message is delivered once or reported failed; what makes
//! no sense is counted and dropped; memory is bounded. A step costs a few heap operations and
//! allocates nothing after warm-up.
//!
//! **Not here.** No socket and no network: worlds have those, and [`wire`] has the bytes for them.
//! No estimate of the network's capacity: the link's rate is configured.
//!
//! **Reading order.** [`config`] for what can be chosen, [`packet`] for what is said, `machine` for
//! who does what; then `sender`, `receiver`, `grants` and `recovery`. `exchange`, `peers`, `gaps`,
//! `heap` and `finished` are what these keep; `check` says what always holds.
#![no_std]
extern crate alloc;

mod check;
pub mod config;
mod counters;
pub mod cutoffs;
mod exchange;
mod finished;
mod gaps;
mod grants;
mod heap;
mod incast;
mod learning;
mod machine;
pub mod packet;
mod peers;
mod quick;
mod receiver;
mod recovery;
pub mod rivals;
mod sender;
pub mod wire;
#[cfg(feature = "serde")]
mod written;

pub use config::{Config, ConfigError};
pub use counters::Counters;
pub use cutoffs::Cutoffs;
pub use machine::{Homa, Timer, Why};
