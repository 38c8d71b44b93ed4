//! What is run in a world, what is measured, and how it is judged.
//!
//! **Problem.** A figure is only worth something if anybody can make it again, and vary it.
//!
//! **Promise.** Every figure is a [`plan`], the same kind of file a user writes for their own
//! workload; plans become [`experiment`]s of independent points, which the [`runner`] spreads over
//! cores; results do not depend on how many. A [`claim`] is data with its source, judged by values
//! that were measured without looking at it.
//!
//! **Not here.** No printing, no arguments, no clock: that is the command's.
//!
//! **Reading order.** [`plan`], [`experiment`], [`point`], [`runner`], [`capacity`]; then [`figure`]
//! and [`claim`], and the figures of the systems, [`persephone`] and [`homa`].

pub mod capacity;
pub mod claim;
pub mod compare;
pub mod draw;
pub mod experiment;
pub mod figure;
pub mod homa;
pub mod network;
pub mod persephone;
pub mod plan;
pub mod point;
pub mod runner;
mod server;
pub mod store;
pub mod subject;
pub mod trace;
