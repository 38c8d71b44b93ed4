//! Policies of request scheduling as they are written in plans, and what they are built of. Plans
//! of several kinds name them: whose requests a server runs first, and who of a node's processors
//! does which work.

use cavy_core::Span;
use cavy_core::family::cpu::Kind;
use cavy_lab::cpu::Costs;
use cavy_sched::Policy as Built;
use cavy_sched::TypeHint;
use cavy_sched::darc::profile::Estimator;
use cavy_sched::darc::rehearsal::Terms;
use cavy_sched::darc::sizing::{Objective as SizingObjective, Sizing};
use cavy_sched::darc::{self, GroupOrder};
use cavy_sched::distributed::Steering;
use cavy_study::plan::PlanError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Declares the structs of policies: each has the keys that all have, then its own.
macro_rules! policies {
    ($($(#[$about:meta])* $name:ident { $($(#[$says:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Name in tables and plots, different from the others'. Default: the policy's own.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub label: Option<String>,
            /// Extra worker time of every request, microseconds.
            #[serde(default)]
            pub per_request_us: f64,
            /// Serial dispatcher time of every request before it reaches a queue, microseconds.
            #[serde(default)]
            pub dispatch_us: f64,
            /// Extra service time as a ratio, 0 to 100, by type name: 0.2 makes it a fifth longer.
            /// Load and slowdown refer to service times without it; traces are not taxed. Default:
            /// none.
            #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
            pub service_tax_ratio: BTreeMap<String, f64>,
            $($(#[$says])* pub $field: $type,)*
        }

        impl $name {
            fn shared(&self) -> Shared<'_> {
                Shared {
                    label: self.label.as_deref(),
                    per_request_us: self.per_request_us,
                    dispatch_us: self.dispatch_us,
                    service_tax_ratio: &self.service_tax_ratio,
                }
            }
        }
    )*};
}

/// What every policy has beside its own keys.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// The label it was given.
    pub label: Option<&'a str>,
    /// Extra worker time of every request, microseconds.
    pub per_request_us: f64,
    /// Serial dispatcher time of every request, microseconds.
    pub dispatch_us: f64,
    /// Extra service time of each type as a ratio, by type name.
    pub service_tax_ratio: &'a BTreeMap<String, f64>,
}

policies! {
    /// A policy without keys of its own.
    Plain {}
    /// A queue per worker.
    Queues {
        /// Which queue a request joins. Default: `round_robin`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steering: Option<SteeringPlan>,
        /// Flows behind `steering = "flows"`, at least 1, each on a worker of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flows: Option<u16>,
    }
    /// A queue per worker; idle workers steal.
    Stealing {
        /// Which queue a request joins. Default: `round_robin`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steering: Option<SteeringPlan>,
        /// Flows behind `steering = "flows"`, at least 1, each on a worker of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flows: Option<u16>,
        /// Extra worker time of a stolen request, microseconds.
        #[serde(default)]
        steal_us: f64,
    }
    /// The earliest deadline first.
    Edf {
        /// Relative deadlines in microseconds by type name, for every type.
        deadlines_us: BTreeMap<String, f64>,
    }
    /// Cycle stealing.
    Cscq {
        /// Workers that prefer the first type, 0 to `workers`.
        #[serde(default = "one")]
        short_workers: u16,
    }
    /// Time slices with preemption.
    TimeSharing {
        /// Length of a slice, microseconds.
        #[serde(default = "default_slice_us")]
        slice_us: f64,
        /// Worker time lost at each preemption, microseconds.
        #[serde(default)]
        preemption_us: f64,
        /// How requests wait.
        #[serde(default)]
        queues: QueuesPlan,
    }
    /// An arrival may stop a running request, which goes on later from where it was.
    Preempting {
        /// Worker time lost at each preemption, microseconds.
        #[serde(default)]
        preemption_us: f64,
    }
    /// Last come first served.
    Lcfs {
        /// An arrival that finds no free worker stops the request that arrived first of those that
        /// run.
        #[serde(default)]
        preemptive: bool,
        /// Worker time lost at each preemption, microseconds.
        #[serde(default)]
        preemption_us: f64,
    }
    /// Requests join the shortest queue.
    Jsq {
        /// Queues to look at, drawn at random for each request, at least 1. Default: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choices: Option<u16>,
    }
    /// Every request at once, cores shared equally.
    ProcessorSharing {
        /// Requests at once, 1 to 65535; more are dropped.
        #[serde(default = "default_slots")]
        slots: u16,
    }
    /// DARC: reserved workers that follow the measured mix.
    Darc {
        /// Relative distance within which types share a group, 0 to 10. Default: 0.2.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delta: Option<f64>,
        /// Completions that a profile needs before it may be evaluated, at least 1. Default: 50
        /// 000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// Queueing delay, in multiples of a type's mean, that calls for an evaluation. Default:
        /// 10.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay_factor: Option<u64>,
        /// Relative change of demand that calls for a new reservation, 0 to 10. Default: 0.1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change_threshold: Option<f64>,
        /// Constant taken off the time that a request held its worker, microseconds; your
        /// `per_request_us` where service times are a few microseconds. Default: 0.23, the
        /// artifact's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        correction_us: Option<f64>,
        /// Start from the plan's means and shares instead of profiling first.
        #[serde(default)]
        hinted: bool,
        /// Order within a group. Default: `by_type`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group_order: Option<GroupOrderPlan>,
        /// Estimator of mean service times. Default: `window`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimator: Option<EstimatorPlan>,
        /// Weight of the newest sample under `estimator = "weighted"`, above 0, at most 1. Default:
        /// 0.001.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimator_weight: Option<f64>,
        /// Share out workers by the whole time a request holds one.
        #[serde(default)]
        by_occupancy: bool,
        /// Judge a change by the window after the one in which it was noticed.
        #[serde(default)]
        discard_straddling: bool,
        /// Change only beyond so many standard errors, 0 to 100. Default: off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guard_z: Option<f64>,
        /// How many workers each group gets. Default: `demand`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sizing: Option<SizingPlan>,
    }
    /// DARC with a reservation that is given; one of both keys.
    DarcStatic {
        /// Workers reserved to the first type; 0 is fixed priority. This or `groups`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<u16>,
        /// Groups of types, shortest first, with the workers reserved to them. Each type is named
        /// once; the last group has all workers that remain. This or `reserved`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        groups: Option<Vec<GroupPlan>>,
    }
}

fn one() -> u16 {
    1
}

fn default_slice_us() -> f64 {
    5.0
}

fn default_slots() -> u16 {
    4096
}

/// A policy, what it costs, and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "policy", rename_all = "snake_case")]
pub enum Policy {
    /// One queue, any worker.
    CFcfs(Plain),
    /// A queue per worker.
    DFcfs(Queues),
    /// A queue per worker; idle workers steal (Shenango).
    Stealing(Stealing),
    /// Types in the order of the plan, no preemption.
    FixedPriority(Plain),
    /// The type with the shortest measured mean first.
    Sjf(Plain),
    /// The earliest deadline first.
    Edf(Edf),
    /// Cycle stealing: `short_workers` prefer the first type.
    Cscq(Cscq),
    /// Time slices of `slice_us` with preemption (Shinjuku).
    TimeSharing(TimeSharing),
    /// The request with the least work left first (SRPT), with preemption. The lab knows how much
    /// work a request is before it runs, which no server does: a bound on what policies can gain.
    Srpt(Preempting),
    /// Types in the order of the plan, with preemption.
    PreemptivePriority(Preempting),
    /// Last come first served.
    Lcfs(Lcfs),
    /// A queue per worker; requests join the shortest of all, or of some (JSQ).
    Jsq(Jsq),
    /// Every request at once, cores shared equally.
    ProcessorSharing(ProcessorSharing),
    /// DARC: reserved workers that follow the measured mix.
    Darc(Darc),
    /// DARC with a reservation that is given: `reserved` or `groups`.
    DarcStatic(DarcStatic),
}

impl Policy {
    /// What every policy has.
    pub fn shared(&self) -> Shared<'_> {
        match self {
            Policy::CFcfs(plan) | Policy::FixedPriority(plan) | Policy::Sjf(plan) => plan.shared(),
            Policy::DFcfs(plan) => plan.shared(),
            Policy::Stealing(plan) => plan.shared(),
            Policy::Edf(plan) => plan.shared(),
            Policy::Cscq(plan) => plan.shared(),
            Policy::TimeSharing(plan) => plan.shared(),
            Policy::Srpt(plan) | Policy::PreemptivePriority(plan) => plan.shared(),
            Policy::Lcfs(plan) => plan.shared(),
            Policy::Jsq(plan) => plan.shared(),
            Policy::ProcessorSharing(plan) => plan.shared(),
            Policy::Darc(plan) => plan.shared(),
            Policy::DarcStatic(plan) => plan.shared(),
        }
    }

    /// Name in tables and plots.
    pub fn label(&self) -> String {
        let name = match self {
            Policy::CFcfs(_) => "c-FCFS",
            Policy::DFcfs(_) => "d-FCFS",
            Policy::Stealing(_) => "stealing",
            Policy::FixedPriority(_) => "fixed priority",
            Policy::Sjf(_) => "SJF",
            Policy::Edf(_) => "EDF",
            Policy::Cscq(_) => "CSCQ",
            Policy::TimeSharing(_) => "time sharing",
            Policy::Srpt(_) => "SRPT",
            Policy::PreemptivePriority(_) => "preemptive priority",
            Policy::Lcfs(own) if own.preemptive => "LCFS-PR",
            Policy::Lcfs(_) => "LCFS",
            Policy::Jsq(Jsq { choices: Some(choices), label: None, .. }) => {
                return format!("JSQ({choices})");
            }
            Policy::Jsq(_) => "JSQ",
            Policy::ProcessorSharing(_) => "processor sharing",
            Policy::Darc(_) => "DARC",
            Policy::DarcStatic(_) => "DARC-static",
        };
        self.shared().label.unwrap_or(name).to_string()
    }

    /// Forgets the label it was given.
    pub fn forget_label(&mut self) {
        let label = match self {
            Policy::CFcfs(plan) | Policy::FixedPriority(plan) | Policy::Sjf(plan) => {
                &mut plan.label
            }
            Policy::DFcfs(plan) => &mut plan.label,
            Policy::Stealing(plan) => &mut plan.label,
            Policy::Edf(plan) => &mut plan.label,
            Policy::Cscq(plan) => &mut plan.label,
            Policy::TimeSharing(plan) => &mut plan.label,
            Policy::Srpt(plan) | Policy::PreemptivePriority(plan) => &mut plan.label,
            Policy::Lcfs(plan) => &mut plan.label,
            Policy::Jsq(plan) => &mut plan.label,
            Policy::ProcessorSharing(plan) => &mut plan.label,
            Policy::Darc(plan) => &mut plan.label,
            Policy::DarcStatic(plan) => &mut plan.label,
        };
        *label = None;
    }
}

/// Which queue a request joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SteeringPlan {
    /// In turn.
    RoundRobin,
    /// At random.
    Random,
    /// By flow, with `flows` flows.
    Flows,
}

/// Queues of a time-sharing server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueuesPlan {
    /// One for all types.
    #[default]
    Single,
    /// One for each type, with an objective of ten times its mean service time.
    PerType,
}

/// Types that share reserved workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupPlan {
    /// Names of its types, the shortest first.
    pub types: Vec<String>,
    /// Workers reserved to them.
    pub workers: u16,
}

/// Order within a group of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupOrderPlan {
    /// The shorter type first.
    ByType,
    /// First come first served.
    Fcfs,
}

/// Estimators of mean service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EstimatorPlan {
    /// Sums over the window.
    Window,
    /// Exponentially weighted.
    Weighted,
    /// The artifact's truncating integer mean: a defect, for comparison only.
    Truncated,
}

/// Rules that size reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SizingPlan {
    /// By share of the work.
    Demand,
    /// As few as meet a wait of ten means for all but 0.1 % of requests at the measured load.
    LoadAware,
    /// By playing the last 50 000 requests under each candidate.
    Rehearsed,
}

/// The longest time a plan may name: an hour.
const TIME_MAX_US: f64 = 3.6e9;

pub(crate) fn time(field: &str, us: f64) -> Result<Span, PlanError> {
    if !(0.0..=TIME_MAX_US).contains(&us) {
        return Err(PlanError::field(field, us, "a time in microseconds from 0 to 3.6e9"));
    }
    Span::try_from_us(us).ok_or_else(|| PlanError::field(field, us, "a time in microseconds"))
}

pub(crate) fn time_above_zero(field: &str, us: f64) -> Result<Span, PlanError> {
    let span = time(field, us)?;
    if span.is_zero() {
        return Err(PlanError::field(field, us, "at least 0.001 (one nanosecond)"));
    }
    Ok(span)
}

/// What scheduling by a policy costs.
pub(crate) fn costs(plan: &Policy) -> Result<Costs, PlanError> {
    let (label, shared) = (plan.label(), plan.shared());
    let cost = |key: &str, us: f64| time(&of(&label, key), us);
    Ok(Costs {
        per_request: cost("per_request_us", shared.per_request_us)?,
        dispatch: cost("dispatch_us", shared.dispatch_us)?,
        preemption: match plan {
            Policy::TimeSharing(own) => cost("preemption_us", own.preemption_us)?,
            Policy::Srpt(own) | Policy::PreemptivePriority(own) => {
                cost("preemption_us", own.preemption_us)?
            }
            Policy::Lcfs(own) => cost("preemption_us", own.preemption_us)?,
            _ => Span::ZERO,
        },
        steal: match plan {
            Policy::Stealing(own) => cost("steal_us", own.steal_us)?,
            _ => Span::ZERO,
        },
        round_trip: Span::ZERO,
    })
}

/// A key of the policy of this label.
pub(crate) fn of(label: &str, field: &str) -> String {
    format!("policies.{label}.{field}")
}

fn steering(
    label: &str,
    steering: Option<SteeringPlan>,
    flows: Option<u16>,
) -> Result<Steering, PlanError> {
    Ok(match steering.unwrap_or(SteeringPlan::RoundRobin) {
        SteeringPlan::RoundRobin => Steering::RoundRobin,
        SteeringPlan::Random => Steering::Random,
        SteeringPlan::Flows => match flows {
            Some(flows) if flows > 0 => Steering::Flows(flows),
            other => {
                let value = other.map_or("missing".to_string(), |flows| flows.to_string());
                return Err(PlanError::field(of(label, "flows"), value, "at least 1"));
            }
        },
    })
}

/// The policy of a plan for types of these names.
pub(crate) fn policy(
    plan: &Policy,
    names: &[String],
    hints: &[TypeHint],
) -> Result<Built, PlanError> {
    let label = plan.label();
    let per_type = |times: &BTreeMap<String, f64>, field: &str| {
        names
            .iter()
            .map(|name| match times.get(name) {
                Some(&us) => time_above_zero(&of(&label, &format!("{field}.{name}")), us),
                None => Err(PlanError::field(
                    of(&label, field),
                    format!("without `{name}`"),
                    "given for every type",
                )),
            })
            .collect::<Result<Vec<Span>, _>>()
    };
    Ok(match plan {
        Policy::CFcfs(_) => Built::CentralFcfs,
        Policy::DFcfs(own) => {
            Built::DistributedFcfs { steering: steering(&label, own.steering, own.flows)? }
        }
        Policy::Stealing(own) => {
            Built::Stealing { steering: steering(&label, own.steering, own.flows)? }
        }
        Policy::FixedPriority(_) => Built::FixedPriority,
        Policy::Sjf(_) => Built::ShortestFirst,
        Policy::Edf(own) => {
            Built::EarliestDeadline { deadlines: per_type(&own.deadlines_us, "deadlines_us")? }
        }
        Policy::Cscq(own) => Built::CycleStealing { short_workers: own.short_workers },
        Policy::TimeSharing(own) => {
            let slice = time_above_zero(&of(&label, "slice_us"), own.slice_us)?;
            match own.queues {
                QueuesPlan::Single => Built::SlicedSingle { slice },
                QueuesPlan::PerType => Built::SlicedMulti {
                    slice,
                    objectives: hints.iter().map(|hint| hint.mean * 10).collect(),
                },
            }
        }
        Policy::Srpt(_) => Built::ShortestRemaining,
        Policy::PreemptivePriority(_) => Built::PreemptivePriority,
        Policy::Lcfs(own) => Built::LastCome { preempts: own.preemptive },
        Policy::Jsq(own) => Built::DistributedFcfs {
            steering: match own.choices {
                Some(choices) => Steering::ShortestOf(choices),
                None => Steering::Shortest,
            },
        },
        Policy::ProcessorSharing(own) => Built::ProcessorSharing { slots: own.slots },
        Policy::Darc(own) => Built::Darc { config: darc_config(own, &label)?, hinted: own.hinted },
        Policy::DarcStatic(own) => Built::DarcStatic { groups: groups(own, &label, names)? },
    })
}

fn darc_config(plan: &Darc, label: &str) -> Result<darc::Config, PlanError> {
    let default = darc::Config::default();
    let correction = match plan.correction_us {
        Some(us) => time(&of(label, "correction_us"), us)?,
        None => default.correction,
    };
    if let Some(z) = plan.guard_z
        && !(0.0..=100.0).contains(&z)
    {
        return Err(PlanError::field(of(label, "guard_z"), z, "0 to 100"));
    }
    Ok(darc::Config {
        delta: plan.delta.unwrap_or(default.delta),
        window: plan.window.unwrap_or(default.window),
        delay_factor: plan.delay_factor.unwrap_or(default.delay_factor),
        change_threshold: plan.change_threshold.unwrap_or(default.change_threshold),
        correction,
        group_order: match plan.group_order.unwrap_or(GroupOrderPlan::ByType) {
            GroupOrderPlan::ByType => GroupOrder::ByType,
            GroupOrderPlan::Fcfs => GroupOrder::Fcfs,
        },
        estimator: match plan.estimator.unwrap_or(EstimatorPlan::Window) {
            EstimatorPlan::Window => Estimator::Window,
            EstimatorPlan::Truncated => Estimator::Truncated,
            EstimatorPlan::Weighted => {
                Estimator::Weighted { weight: plan.estimator_weight.unwrap_or(0.001) }
            }
        },
        by_occupancy: plan.by_occupancy,
        discard_straddling: plan.discard_straddling,
        guard_z: plan.guard_z,
        sizing: match plan.sizing.unwrap_or(SizingPlan::Demand) {
            SizingPlan::Demand => Sizing::Demand,
            SizingPlan::LoadAware => Sizing::LoadAware(SizingObjective::default()),
            SizingPlan::Rehearsed => Sizing::Rehearsed(Terms::default()),
        },
    })
}

fn groups(
    plan: &DarcStatic,
    label: &str,
    names: &[String],
) -> Result<Vec<(Vec<Kind>, u16)>, PlanError> {
    let kind = |name: &String| {
        let index = names.iter().position(|known| known == name).ok_or_else(|| {
            PlanError::text(format!("`{}` names the unknown type `{name}`", of(label, "groups")))
                .hint(format!("types are: {}", names.join(", ")))
        })?;
        Ok(Kind(index as u16 + 1))
    };
    match (&plan.groups, plan.reserved) {
        (Some(groups), None) => groups
            .iter()
            .map(|group| {
                Ok((group.types.iter().map(kind).collect::<Result<_, _>>()?, group.workers))
            })
            .collect(),
        (None, Some(reserved)) => {
            let rest = (2..=names.len() as u16).map(Kind).collect();
            Ok(vec![(vec![Kind(1)], reserved), (rest, 0)])
        }
        _ => Err(PlanError::text(format!(
            "policy `{label}` needs either `reserved` (workers of the first type) or `groups`"
        ))),
    }
}
