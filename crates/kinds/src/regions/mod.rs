//! Transactions in regions and across them, and the protocols that order them.

mod contestant;
mod draw;
mod plan;
mod result;
mod run;
mod scenario;
mod subject;

pub use plan::*;
pub use result::{Latency, Regional, RegionsExperiment, RegionsResult, Side, Sides};
