//! The seam between a protocol and the world that drives it.
//!
//! **Problem.** The same protocol must run in a simulator and on Linux, and give the same
//! decisions.
//!
//! **Promise.** A [`Machine`] sees time, inputs and a keyed random [`Stream`], all handed to it,
//! and answers with effects in an [`Outbox`]. It has no clock, socket, thread, file or payload
//! byte, and this crate being `no_std` means that it cannot get one. Same inputs, same times, same
//! stream: same outbox, bit for bit, on every target.
//!
//! **Not here.** No scheduler, no queue of events, no distribution of service times: worlds and
//! workloads live in their own rooms.
//!
//! **Reading order.** [`time`], [`machine`], [`stream`], then the [`family`] vocabularies,
//! then [`laws`] (behind the feature of that name), which state what every machine owes its world.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod digest;
pub mod family;
#[cfg(feature = "laws")]
pub mod laws;
pub mod machine;
pub mod stream;
pub mod time;

pub use digest::Digest;
pub use machine::{Cx, Machine, Out, Outbox, Packet, Room, Transmit};
pub use stream::{Purpose, Ratio, Stream};
pub use time::{Instant, Span};
