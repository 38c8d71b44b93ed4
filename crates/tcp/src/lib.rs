//! TCP as a machine: connections, and the stack of a host ([incast 2]).
//!
//! **Problem.** Many servers answer one client at once, their packets overflow one port, and what
//! is lost whole is sent again only when a timer of 200 ms runs out: a thousand round trips in
//! which the link idles [incast 1].
//!
//! **Promise.** Every octet arrives once and in order, or the connection ends and says why; with
//! data unacknowledged a timer runs. The timer is a parameter down to a nanosecond: floor,
//! granularity, back-off and random stretch, so that the stock sender and the published one are
//! configurations.
//!
//! **Not here.** No payload, sockets or clock.
//!
//! **Reading order.** [`rto`], the core of the source; [`config`] and [`segment`]; `connection` for
//! what arrives, `send` for what is acknowledged, lost and sent, `receive` for order and windows;
//! [`rack`], [`undo`], [`congestion`] and [`ecn`], which `send` asks; [`stack`], and [`schedule`],
//! by which its connections share a port; [`messages`], which brings it into worlds of messages,
//! and [`wire`], which brings its segments onto networks.
#![no_std]
extern crate alloc;

pub mod config;
pub mod congestion;
mod connection;
mod cookie;
pub mod ecn;
mod heard;
mod learner;
pub mod messages;
pub mod rack;
mod receive;
pub mod rto;
pub mod schedule;
pub mod segment;
mod send;
pub mod stack;
pub mod undo;
pub mod wire;

#[doc(hidden)]
pub use config::Planted;
pub use config::{Config, Counts, DelayedAck, Keepalive, Why};
pub use congestion::Congestion;
pub use ecn::Ecn;
pub use rack::Rack;
pub use rto::{BackoffReset, Floor, RtoConfig};
pub use schedule::Schedule;
pub use segment::{Flags, Sacks, Segment, Stamps};
pub use stack::{Facts, Stack, Timer};
pub use undo::Undo;
