//! Experiments on a network: which transport serves whose messages how well, and what it needs.
//!
//! **Problem.** "Would Homa help my network" depends on message sizes, rates, buffers and load; a
//! published figure answers it for the authors' network only.
//!
//! **Promise.** A [`NetworkPlan`] names a network, messages, who sends to whom, and the transports
//! to compare; each is run from its own specification with the queues its protocol requires, on the
//! same messages, over the same seeds. The answer has slowdown by size, queues, losses, capacity
//! and a ranking. Published figures are such plans.
//!
//! **Not here.** No protocol and no world: those are `cavy_homa` and `cavy_lab::net`.
//!
//! **Reading order.** [`plan`], [`traffic`], [`buffer`] and [`contestant`] (what can be written),
//! [`scenario`] (what is run, checked), [`transport`] (what each transport is) with its
//! [`surroundings`], [`run`] and [`result`] (what it came to), [`draw`]; `subject` ties them
//! together.

pub mod buffer;
pub mod classes;
pub mod contestant;
pub mod draw;
pub mod fabric;
pub mod live;
pub mod messages;
pub mod plan;
pub mod recorded;
pub mod result;
pub mod run;
pub mod scenario;
mod sections;
mod standing;
mod subject;
pub mod surroundings;
pub mod tail;
pub mod tcp;
pub mod timeline;
pub mod traffic;
pub mod transport;

pub use contestant::TransportPlan;
pub use plan::NetworkPlan;
pub use result::{Carried, NetResult, NetSummary};

/// A network plan and everything that came of it.
pub type NetExperiment = cavy_study::experiment::Experiment<NetworkPlan>;
