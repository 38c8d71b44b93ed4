//! What a point of a plan for regions came to.

use super::plan::RegionsPlan;
use crate::Latency;
use cavy_study::experiment::Experiment;
use cavy_study::outcome::{Estimate, Outcome};
use serde::{Deserialize, Serialize};

pub(super) const THROUGHPUT: &str = "throughput_per_s";

/// A plan for regions that was run.
pub type RegionsExperiment = Experiment<RegionsPlan>;
/// One point of it.
pub type RegionsResult = Outcome<Regional>;

/// What clients of some regions got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Transactions of one region.
    pub irt: Latency,
    /// Transactions across regions.
    pub crt: Latency,
    /// The longest less the median of transactions of one region, for each replication.
    pub irt_stalls_ms: Vec<f64>,
    /// The same of transactions across regions.
    pub crt_stalls_ms: Vec<f64>,
}

/// What clients got where something failed, and where nothing did. Not among them are clients whose
/// first choice of a replica failed: they wait until they ask another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sides {
    /// Of the regions that a fault names.
    pub struck: Side,
    /// Of all others.
    pub elsewhere: Side,
}

impl Sides {
    /// Lets percentiles of a section be given where those of the `whole` are.
    pub fn support(&mut self, whole: &Sides) {
        let sides = [(&mut self.struck, &whole.struck), (&mut self.elsewhere, &whole.elsewhere)];
        for (section, whole) in sides {
            section.irt.support(&whole.irt);
            section.crt.support(&whole.crt);
        }
    }
}

/// What transactions of one type of the plan experienced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfType {
    /// The type's name.
    pub name: String,
    /// Those of one region.
    pub irt: Latency,
    /// Those across regions.
    pub crt: Latency,
}

/// What clients of all regions got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regional {
    /// Answers a second in the measured time.
    pub throughput_per_s: Estimate,
    /// Transactions of one region.
    pub irt: Latency,
    /// Transactions across regions.
    pub crt: Latency,
    /// Took themselves back.
    pub aborted: u64,
    /// Given up by the protocol, without effect; in no latency and no throughput.
    #[serde(default)]
    pub given_up: u64,
    /// Never answered.
    pub unanswered: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Messages between nodes for a transaction, reports of clocks included.
    pub messages_each: f64,
    /// Where the plan has faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sides: Option<Sides>,
    /// Of each type, where the plan has types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<OfType>,
}

impl Regional {
    /// Latency across regions or within one, of one type or of all; `None`: there is no such type.
    pub fn latency(&self, crt: bool, whose: Option<&str>) -> Option<&Latency> {
        let (irt_of, crt_of) = match whose {
            None => (&self.irt, &self.crt),
            Some(name) => {
                let own = self.types.iter().find(|own| own.name == name)?;
                (&own.irt, &own.crt)
            }
        };
        Some(if crt { crt_of } else { irt_of })
    }
}
