//! From network experiments to what a report draws.

use super::NetExperiment;
use cavy_report::model::Table;

/// The table of capacities, when the plan has objectives.
pub fn capacities(_experiment: &NetExperiment) -> Option<Table> {
    None
}
