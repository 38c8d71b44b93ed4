//! Search spread over servers: how long queries take, by how far they are spread and by whom.

mod balancing;
pub mod changes;
pub mod copier;
mod draw;
mod fit;
mod machines;
mod plan;
mod rebuild;
mod result;
mod run;
mod scenario;
mod scheduler;
mod standing;
mod subject;

pub use plan::*;
pub use result::{Balanced, Draw, Loss, Phase, SearchExperiment, SearchResult, Searched};
