//! Services that call each other, a change to one of them, and methods that predict what it gives.

mod change;
mod coz;
mod draw;
mod graph;
mod kept;
mod law;
mod layered;
mod plan;
mod result;
mod run;
mod scenario;
mod standing;
mod stretch;
mod subject;

pub use plan::*;
pub use result::{Predicted, ServicesExperiment, ServicesResult, Verdict};
