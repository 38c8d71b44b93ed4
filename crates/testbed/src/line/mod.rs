//! The line: hosts whose packets take time, are lost, doubled, overtaken, held up by ports and
//! marked, as told, on a kernel that has no such queue (`netem`).
//!
//! **Problem.** What a protocol across regions does is decided by delays, losses and cuts, and the
//! programs it is compared with speak through the kernel of this machine.
//!
//! **Promise.** Each host is a network namespace whose one interface is a tunnel (TUN) that ends
//! here. One thread takes what comes out of all tunnels, keeps each packet until it is due, and
//! puts it into the tunnel of its receiver: TCP, UDP and ICMP alike, of any program. What is due
//! when is decided by [`schedule::Schedule`] from the packet's time, the rules and a seed; the same
//! packets at the same times meet the same fate. What the line takes is bounded, what finds no room
//! counted, and how late the line itself was is said beside every result.
//!
//! **Not here.** IPv4 only. One thread, so some ten thousand packets a second and core; no claim
//! about microseconds.
//!
//! **Reading order.** [`path`] (what a way and a port are like), [`schedule`] (when a packet is
//! due), [`plan`] (what a user writes), [`Line`] (what stands), `carrier` (its thread), [`mark`]
//! (the header of IP), [`control`] (telling one that runs), [`probe`] (what it adds to what it was
//! told).

mod carrier;
pub mod control;
pub mod mark;
pub mod path;
pub mod plan;
pub mod probe;
mod running;
pub mod schedule;

pub use carrier::{Late, Report};
pub use plan::Plan;
pub use running::{DEVICE, Line};
