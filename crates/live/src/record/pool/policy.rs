//! How a policy is written in a recording. The protocol rooms know no serde, so the forms mirror
//! their types field by field; a field added there fails to compile here.

use crate::record::span;
use cavy_core::Span;
use cavy_core::family::cpu::Kind;
use cavy_sched::darc::profile::Estimator;
use cavy_sched::darc::rehearsal::Terms;
use cavy_sched::darc::sizing::{Objective, Sizing};
use cavy_sched::darc::{Config, GroupOrder};
use cavy_sched::distributed::Steering;
use cavy_sched::{Policy, TypeHint};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Policy", rename_all = "snake_case")]
pub(super) enum PolicyForm {
    CentralFcfs,
    DistributedFcfs {
        #[serde(with = "SteeringForm")]
        steering: Steering,
    },
    Stealing {
        #[serde(with = "SteeringForm")]
        steering: Steering,
    },
    FixedPriority,
    ShortestFirst,
    EarliestDeadline {
        #[serde(with = "spans")]
        deadlines: Vec<Span>,
    },
    CycleStealing {
        short_workers: u16,
    },
    SlicedSingle {
        #[serde(with = "span")]
        slice: Span,
    },
    SlicedMulti {
        #[serde(with = "span")]
        slice: Span,
        #[serde(with = "spans")]
        objectives: Vec<Span>,
    },
    ProcessorSharing {
        slots: u16,
    },
    Darc {
        #[serde(with = "ConfigForm")]
        config: Config,
        hinted: bool,
    },
    DarcStatic {
        #[serde(with = "groups")]
        groups: Vec<(Vec<Kind>, u16)>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Steering", rename_all = "snake_case")]
enum SteeringForm {
    RoundRobin,
    Random,
    Flows(u16),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Config", deny_unknown_fields)]
struct ConfigForm {
    delta: f64,
    window: u64,
    delay_factor: u64,
    change_threshold: f64,
    #[serde(with = "span")]
    correction: Span,
    #[serde(with = "GroupOrderForm")]
    group_order: GroupOrder,
    #[serde(with = "EstimatorForm")]
    estimator: Estimator,
    by_occupancy: bool,
    discard_straddling: bool,
    guard_z: Option<f64>,
    #[serde(with = "SizingForm")]
    sizing: Sizing,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "GroupOrder", rename_all = "snake_case")]
enum GroupOrderForm {
    ByType,
    Fcfs,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Estimator", rename_all = "snake_case")]
enum EstimatorForm {
    Window,
    Weighted { weight: f64 },
    Truncated,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Sizing", rename_all = "snake_case")]
enum SizingForm {
    Demand,
    LoadAware(#[serde(with = "ObjectiveForm")] Objective),
    Rehearsed(#[serde(with = "TermsForm")] Terms),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Objective", deny_unknown_fields)]
struct ObjectiveForm {
    slowdown: f64,
    miss_ratio: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Terms", deny_unknown_fields)]
struct TermsForm {
    trace: usize,
    percentile: f64,
    margin: f64,
}

mod spans {
    use super::*;

    pub fn serialize<S: Serializer>(spans: &[Span], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(spans.iter().map(|span| span.as_ns()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Span>, D::Error> {
        let all = Vec::<u64>::deserialize(from)?;
        Ok(all.into_iter().map(Span::from_ns).collect())
    }
}

mod groups {
    use super::*;

    pub fn serialize<S: Serializer>(groups: &[(Vec<Kind>, u16)], to: S) -> Result<S::Ok, S::Error> {
        let numbers = |kinds: &[Kind]| kinds.iter().map(|kind| kind.0).collect::<Vec<u16>>();
        to.collect_seq(groups.iter().map(|(kinds, workers)| (numbers(kinds), workers)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(Vec<Kind>, u16)>, D::Error> {
        let all = Vec::<(Vec<u16>, u16)>::deserialize(from)?;
        let kinds = |numbers: Vec<u16>| numbers.into_iter().map(Kind).collect();
        Ok(all.into_iter().map(|(numbers, workers)| (kinds(numbers), workers)).collect())
    }
}

/// Hints as (mean in ns, ratio).
pub(super) mod hints {
    use super::*;

    pub fn serialize<S: Serializer>(hints: &[TypeHint], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(hints.iter().map(|hint| (hint.mean.as_ns(), hint.ratio)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<TypeHint>, D::Error> {
        let all = Vec::<(u64, f64)>::deserialize(from)?;
        let hint = |(mean_ns, ratio)| TypeHint { mean: Span::from_ns(mean_ns), ratio };
        Ok(all.into_iter().map(hint).collect())
    }
}
