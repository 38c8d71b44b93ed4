//! TCP on a TUN device: a process that is as many hosts as it has addresses ([incast 7.3]).
//!
//! **Problem.** The kernel's TCP cannot wait for less than two ticks of its clock, and cannot
//! advertise windows of one segment. Who wants either for one service should not have to change a
//! kernel.
//!
//! **Promise.** One TUN device owns a prefix, and the kernel routes packets for it here. The
//! machine of `cavy-tcp`, unchanged and the one of the lab, is the TCP of each address. Streams
//! have the traits of `std::io`, and with the feature `tokio` those of tokio. Retransmission timers
//! are as fine as the system's. All memory is bounded: buffers, half-open connections, those that
//! nobody accepts. A peer that reads slowly slows its writer. What makes no sense is counted and
//! dropped.
//!
//! **Not here.** IPv6, fragments, segmentation offload. No replacement for the kernel's TCP where
//! throughput of many gigabits is wanted.
//!
//! **Reading order.** [`Options`]; [`Stack`], which opens the device and has the thread; `engine`,
//! which drives machines and owns what they do not know, the bytes; `flow`, one connection's bytes;
//! [`Stream`] and [`Listener`]; [`Metrics`].

mod device;
mod engine;
mod error;
mod faults;
mod flow;
mod metrics;
mod options;
mod stack;
mod stream;
#[cfg(feature = "tokio")]
mod tokio;

pub use device::obstacle;
pub use error::Error;
pub use faults::Faults;
pub use ipnet::Ipv4Net;
pub use metrics::{Late, Metrics};
pub use options::{FLOOR, Options, live};
pub use stack::{Stack, timers_are_late};
pub use stream::{Listener, Stream};
