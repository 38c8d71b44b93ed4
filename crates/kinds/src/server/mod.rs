//! Experiments on a server: which policy serves whose requests how well, and how much load it
//! bears.
//!
//! **Problem.** "Would another scheduling policy help my service" depends on its types of requests,
//! their service times and their load; a published figure answers it for the authors' workload
//! only.
//!
//! **Promise.** A [`ServerPlan`] names a workload and the policies to compare; each serves the same
//! requests. The answer has latency and slowdown of every type, capacity, and who pays for what.
//!
//! **Reading order.** [`plan`] (what can be written), [`scenario`] (what is run, checked), [`run`]
//! and [`result`] (what it came to), [`draw`]; `subject` ties them together.

pub mod draw;
mod live;
mod log;
pub mod plan;
pub mod result;
pub mod run;
pub mod scenario;
mod standing;
mod subject;
mod trace;

pub use log::{Logged, requests as logged};
pub use plan::ServerPlan;
pub use result::{Served, ServerResult};

/// A plan for a server and everything that came of it.
pub type ServerExperiment = cavy_study::experiment::Experiment<ServerPlan>;
