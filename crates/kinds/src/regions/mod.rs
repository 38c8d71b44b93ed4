//! Transactions in regions and across them, and the protocols that order them.

mod asks;
mod contestant;
mod draw;
mod plan;
mod result;
mod run;
mod scenario;
mod standing;
mod subject;

pub use plan::*;
pub use result::{OfType, Regional, RegionsExperiment, RegionsResult, Side, Sides};
