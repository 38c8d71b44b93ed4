//! Search spread over servers: how long queries take, by how far they are spread and by whom.

mod draw;
mod fit;
mod machines;
mod plan;
mod result;
mod run;
mod scenario;
mod subject;

pub use plan::*;
pub use result::{Latency, Loss, Phase, SearchExperiment, SearchResult, Searched};
