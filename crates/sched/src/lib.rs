//! Request scheduling: which worker runs which request, and when a worker is better left idle.
//!
//! **Problem.** Servers mix requests of a microsecond with requests a thousand times longer. Under
//! any work-conserving policy without preemption all workers are now and then busy with long ones,
//! and a short one then waits a thousand times its own service time.
//!
//! **Promise.** DARC (Demoulin et al., SOSP 2021) and every policy it was compared with, each as a
//! machine of the cpu family: the same code decides in the lab and for real threads. Normative:
//! the specification of the project, cited as `[persephone 2.8]`.
//!
//! **Not here.** No threads, no queues of payloads, no clock; no cost of dispatching either: what a
//! hand-over, a preemption or a steal costs is the world's affair.
//!
//! **Reading order.** [`config`] lists the policies and their parameters. [`machine`] is the part
//! they share: one request per worker, every request run or dropped once. Then one file a policy:
//! [`central`], [`priority`], [`distributed`], [`cycle_stealing`], [`slicing`], [`ranked`],
//! [`sharing`], and [`darc`].
#![no_std]
extern crate alloc;

pub mod central;
pub mod config;
pub mod cycle_stealing;
pub mod darc;
pub mod distributed;
mod hint;
pub mod machine;
pub mod priority;
pub mod queue;
pub mod ranked;
pub mod sharing;
pub mod slicing;
pub mod workers;
#[cfg(feature = "serde")]
mod written;

pub use config::{Policy, PolicyError, build, build_foreseeing};
pub use hint::TypeHint;
pub use machine::{Inspect, Learning, Server};
