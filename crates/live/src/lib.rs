//! The world of real threads, sockets and clocks, on Linux.
//!
//! **Problem.** A service that mixes requests of a millisecond with requests a hundred times longer
//! has a latency tail that its thread pool makes: the short ones wait behind the long ones.
//!
//! **Promise.** The scheduling machines of the lab, unchanged, decide for real threads
//! ([`pool::Pool`]) and for async permits ([`slots::Slots`], with a tower layer behind the feature
//! `tower`). A run can be recorded and decided again by the same machine, to the last bit
//! ([`record`]).
//!
//! **Not here.** No scheduling decision: whatever runs where was said by `cavy_sched`. No
//! microsecond claims either: on an ordinary kernel, waking a thread costs more than that.
//!
//! **Reading order.** [`setup`] (policy and what is refused), [`pool`], [`slots`], [`metrics`],
//! [`record`]. Beneath them: `dispatch` drives the machine, `handoff` wakes workers. Beside them:
//! [`load`], which drives servers from outside, and [`packet`], endpoints of transports, of which
//! [`homa`] is one.

mod clock;
mod dispatch;
mod handoff;
pub mod homa;
pub mod load;
pub mod metrics;
pub mod packet;
pub mod pool;
pub mod record;
pub mod setup;
pub mod slots;
mod sync;
#[cfg(feature = "tower")]
pub mod tower;

pub use cavy_core::family::cpu::Kind;
pub use cavy_sched::{Policy, TypeHint};
pub use pool::{Pool, Shutdown};
pub use setup::{BuildError, darc};
pub use slots::Slots;
