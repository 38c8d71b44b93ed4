//! From experiments to what a report draws.

use crate::experiment::Experiment;
use cavy_report::model::{Figure, Table};

/// The figures of a user's own plan.
pub fn figures(_experiment: &Experiment, _command: &str) -> Vec<Figure> {
    Vec::new()
}

/// The table of capacities, when the plan has objectives.
pub fn capacities(_experiment: &Experiment) -> Option<Table> {
    None
}
