//! Who is near, before anybody has asked: predictors of round trips, and data to try them on.
//!
//! [`world`] has machines and the round trips between them; [`data`] those that the program
//! carries, [`load`] a user's, [`players`] such as are made up. [`replay`] lets a predictor go
//! through probes in order of time and asks what it has learnt.

pub mod contestant;
pub mod data;
mod draw;
pub mod kept;
pub mod load;
pub mod pictures;
mod plan;
pub mod players;
pub mod replay;
mod result;
mod run;
mod scenario;
pub mod sketch;
pub mod space;
mod subject;
pub mod world;
pub mod worst;

pub use plan::*;
pub use result::{Accuracy, CoordsExperiment, CoordsResult, Pick, Predicted};
pub use sketch::{Sketch, Sketched};
pub use worst::Worst;
