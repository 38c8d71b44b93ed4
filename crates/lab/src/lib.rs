//! The simulated world: virtual time, exact order, and the statistics that make its answers honest.
//!
//! **Problem.** A tail is decided by rare events; to see it one needs tens of millions of requests,
//! the same ones for every policy that is compared, and to know how far to trust the result.
//!
//! **Promise.** Time is integer nanoseconds, events happen in one exact order, every run ends with
//! a digest: the same seed gives the same digest in debug and release, with either event queue, on
//! any machine and on wasm32. Nothing here reads a clock, a file or the environment, or starts a
//! thread.
//!
//! **Not here.** No protocol: the lab knows the vocabularies of `cavy_core::family` and not who
//! speaks them. No parallelism: independent runs are spread over cores by `study`.
//!
//! **Reading order.** [`cpu`] is the world of schedulers, [`net`] that of packets, [`wan`]
//! that of nodes in regions; [`pending`] holds its events; [`trail`]
//! is its fingerprint; [`statistics`] says what a number is worth; [`theory`] has the closed forms
//! that all of it is held to.

pub mod cpu;
pub mod net;
pub mod pending;
pub mod services;
pub mod statistics;
pub mod theory;
mod timers;
pub mod trail;
pub mod wan;
