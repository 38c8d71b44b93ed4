//! The policies by name, with their parameters, and how to build one.

use crate::central::Central;
use crate::cycle_stealing::CycleStealing;
use crate::darc::{self, Darc};
use crate::distributed::{Distributed, Steering};
use crate::hint::TypeHint;
use crate::machine::{Inspect, Learning, Server};
use crate::priority::{Order, Priority, Shortest};
use crate::ranked::{Foresight, Ranked, Ranking};
use crate::sharing::Sharing;
use crate::slicing::Slicing;
use crate::workers::WORKERS_MAX;
use alloc::boxed::Box;
use alloc::vec::Vec;
use cavy_core::Span;
use cavy_core::family::cpu::{Effect, Input, Kind, Scheduler, Timer};
use cavy_core::{Cx, Machine};
use core::fmt;

/// The most types a policy tells apart; ranks fit one machine word.
pub const KINDS_MAX: u16 = 63;

/// A policy and its parameters.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Policy {
    /// One queue for all ([persephone 3.2]).
    CentralFcfs,
    /// A queue per worker ([persephone 3.1]).
    DistributedFcfs {
        /// Which queue a request joins.
        steering: Steering,
    },
    /// A queue per worker; idle workers steal ([persephone 3.7], Shenango).
    Stealing {
        /// Which queue a request joins.
        steering: Steering,
    },
    /// Types in the order of registration, no preemption ([persephone 3.3]).
    FixedPriority,
    /// The type with the shortest measured mean first, no preemption ([persephone 3.3]).
    ShortestFirst,
    /// The earliest deadline first, no preemption ([persephone 3.4]).
    EarliestDeadline {
        /// Relative deadline of each type.
        #[cfg_attr(feature = "serde", serde(with = "crate::written::spans"))]
        deadlines: Vec<Span>,
    },
    /// Cycle stealing with a central queue ([persephone 3.5]).
    CycleStealing {
        /// Workers that prefer the first type.
        short_workers: u16,
    },
    /// Time slices over one queue ([persephone 3.6], Shinjuku single queue).
    SlicedSingle {
        /// Length of a slice.
        #[cfg_attr(feature = "serde", serde(with = "crate::written::span"))]
        slice: Span,
    },
    /// Time slices over a queue per type ([persephone 3.6], Shinjuku multi queue).
    SlicedMulti {
        /// Length of a slice.
        #[cfg_attr(feature = "serde", serde(with = "crate::written::span"))]
        slice: Span,
        /// Latency objective of each type; the artifact uses ten times the service time.
        #[cfg_attr(feature = "serde", serde(with = "crate::written::spans"))]
        objectives: Vec<Span>,
    },
    /// The request with the least work left first, with preemption (Schrage). The work of a request
    /// is known from a [`Foresight`]; without one it is the mean of its type.
    ShortestRemaining,
    /// Types in the order of registration, with preemption; what was stopped goes on later.
    PreemptivePriority,
    /// Whoever came last goes first.
    LastCome {
        /// An arrival stops the running request that arrived first, if no worker is free.
        preempts: bool,
    },
    /// Every request at once, cores shared equally; needs a world with shared cores.
    ProcessorSharing {
        /// Requests at once; more are dropped.
        slots: u16,
    },
    /// DARC ([persephone 2]).
    Darc {
        /// Its parameters.
        config: darc::Config,
        /// Start from the types' hints instead of profiling first.
        hinted: bool,
    },
    /// DARC with a reservation that is given ([persephone 2.10]).
    DarcStatic {
        /// Workers reserved to each group of types, shortest group first. Each group is given as
        /// type numbers from 1; the last one has all workers that remain.
        #[cfg_attr(feature = "serde", serde(with = "crate::written::groups"))]
        groups: Vec<(Vec<Kind>, u16)>,
    },
}

/// Why a policy cannot be built.
#[derive(Clone, PartialEq, Debug)]
pub enum PolicyError {
    /// Not between 1 and [`WORKERS_MAX`].
    Workers(u16),
    /// Not between 1 and [`KINDS_MAX`].
    Kinds(usize),
    /// A list with one entry per type has another length.
    PerType {
        /// Which list.
        list: &'static str,
        /// Its length.
        found: usize,
        /// The number of types.
        expected: usize,
    },
    /// A value outside its range.
    Range {
        /// Which value.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What it must be.
        must: &'static str,
    },
    /// The groups of a static reservation do not name each type once.
    Groups,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Workers(n) => write!(f, "workers is {n}; it must be 1 to {WORKERS_MAX}"),
            PolicyError::Kinds(n) => write!(f, "{n} types; there must be 1 to {KINDS_MAX}"),
            PolicyError::PerType { list, found, expected } => {
                write!(f, "{list} has {found} entries for {expected} types")
            }
            PolicyError::Range { name, value, must } => {
                write!(f, "{name} is {value}; it must be {must}")
            }
            PolicyError::Groups => f.write_str("the groups must name each type exactly once"),
        }
    }
}

impl core::error::Error for PolicyError {}

/// A policy that can be run and looked into.
pub trait AnyPolicy: Scheduler + Inspect + Send {}
impl<M: Scheduler + Inspect + Send> AnyPolicy for M {}

/// Builds the machine of `policy` for `workers` workers and one type per hint. Queues hold
/// `queue_limit` requests each.
pub fn build(
    policy: &Policy,
    workers: u16,
    hints: &[TypeHint],
    queue_limit: u32,
) -> Result<Box<dyn AnyPolicy>, PolicyError> {
    build_foreseeing(policy, workers, hints, queue_limit, None)
}

/// The same for a lab, which knows how much work each request is before it runs.
pub fn build_foreseeing(
    policy: &Policy,
    workers: u16,
    hints: &[TypeHint],
    queue_limit: u32,
    foresight: Option<Foresight>,
) -> Result<Box<dyn AnyPolicy>, PolicyError> {
    check(policy, workers, hints)?;
    let kinds = hints.len() as u16;
    fn server<D>(workers: u16, kinds: u16, discipline: D) -> Box<dyn AnyPolicy>
    where
        D: crate::machine::Discipline + Send + 'static,
    {
        Box::new(Server::new(workers, kinds, discipline))
    }
    let means: Vec<Span> = hints.iter().map(|hint| hint.mean).collect();
    let priority = |order| Priority::new(kinds, queue_limit, order);
    let ranked = |ranking, preempts| Ranked::new(ranking, preempts, queue_limit);
    Ok(match policy.clone() {
        Policy::CentralFcfs => server(workers, kinds, Central::new(queue_limit)),
        Policy::DistributedFcfs { steering } => {
            server(workers, kinds, Distributed::new(workers, queue_limit, steering, false))
        }
        Policy::Stealing { steering } => {
            server(workers, kinds, Distributed::new(workers, queue_limit, steering, true))
        }
        Policy::FixedPriority => server(workers, kinds, priority(Order::Fixed)),
        Policy::ShortestFirst => {
            server(workers, kinds, priority(Order::Shortest(Shortest::new(&means))))
        }
        Policy::EarliestDeadline { deadlines } => {
            server(workers, kinds, priority(Order::Deadline(deadlines)))
        }
        Policy::CycleStealing { short_workers } => {
            server(workers, kinds, CycleStealing::new(short_workers, queue_limit))
        }
        Policy::SlicedSingle { slice } => {
            server(workers, kinds, Slicing::single_queue(slice, queue_limit))
        }
        Policy::SlicedMulti { slice, objectives } => {
            server(workers, kinds, Slicing::multi_queue(slice, queue_limit, &objectives))
        }
        Policy::ShortestRemaining => {
            let longest = means.iter().copied().max().unwrap_or(Span::ZERO);
            let means = means.into_iter().chain([longest]).collect();
            server(workers, kinds, ranked(Ranking::Remaining { foresight, means }, true))
        }
        Policy::PreemptivePriority => server(workers, kinds, ranked(Ranking::Class, true)),
        Policy::LastCome { preempts } => server(workers, kinds, ranked(Ranking::Latest, preempts)),
        Policy::ProcessorSharing { slots } => Box::new(Sharing::new(slots)),
        Policy::Darc { config, hinted } => {
            let hints = hinted.then_some(hints);
            let darc = Darc::adaptive(config, kinds, workers, queue_limit, hints);
            server(workers, kinds, darc)
        }
        Policy::DarcStatic { groups } => {
            server(workers, kinds, Darc::fixed(queue_limit, &groups, workers))
        }
    })
}

fn check(policy: &Policy, workers: u16, hints: &[TypeHint]) -> Result<(), PolicyError> {
    let kinds = hints.len();
    if !(1..=WORKERS_MAX).contains(&workers) {
        return Err(PolicyError::Workers(workers));
    }
    if !(1..=KINDS_MAX as usize).contains(&kinds) {
        return Err(PolicyError::Kinds(kinds));
    }
    let per_type = |list, found| {
        if found == kinds {
            Ok(())
        } else {
            Err(PolicyError::PerType { list, found, expected: kinds })
        }
    };
    let range = |name, value: f64, ok: bool, must| {
        if ok { Ok(()) } else { Err(PolicyError::Range { name, value, must }) }
    };
    match policy {
        Policy::EarliestDeadline { deadlines } => per_type("deadlines", deadlines.len()),
        Policy::SlicedSingle { slice } => {
            range("slice", slice.as_us(), !slice.is_zero(), "longer than 0")
        }
        Policy::SlicedMulti { slice, objectives } => {
            range("slice", slice.as_us(), !slice.is_zero(), "longer than 0")?;
            per_type("objectives", objectives.len())
        }
        Policy::ProcessorSharing { slots } => {
            range("slots", f64::from(*slots), *slots > 0, "at least 1")
        }
        Policy::CycleStealing { short_workers } => {
            let value = f64::from(*short_workers);
            range("short_workers", value, *short_workers <= workers, "at most the workers")
        }
        Policy::DistributedFcfs { steering: Steering::Flows(flows) }
        | Policy::Stealing { steering: Steering::Flows(flows) } => {
            range("flows", f64::from(*flows), *flows > 0, "at least 1")
        }
        Policy::DistributedFcfs { steering: Steering::ShortestOf(choices) }
        | Policy::Stealing { steering: Steering::ShortestOf(choices) } => {
            range("choices", f64::from(*choices), *choices > 0, "at least 1")
        }
        Policy::Darc { config, .. } => {
            range("delta", config.delta, (0.0..=10.0).contains(&config.delta), "0 to 10")?;
            range("window", config.window as f64, config.window > 0, "at least 1")?;
            let change = config.change_threshold;
            range("change_threshold", change, (0.0..=10.0).contains(&change), "0 to 10")?;
            match config.estimator {
                darc::profile::Estimator::Weighted { weight } => {
                    let ok = weight > 0.0 && weight <= 1.0;
                    range("weight", weight, ok, "above 0 and at most 1")
                }
                _ => Ok(()),
            }
        }
        Policy::DarcStatic { groups } => {
            let mut named: Vec<u16> =
                groups.iter().flat_map(|(kinds, _)| kinds.iter().map(|kind| kind.0)).collect();
            named.sort_unstable();
            let expected: Vec<u16> = (1..=kinds as u16).collect();
            if named == expected { Ok(()) } else { Err(PolicyError::Groups) }
        }
        _ => Ok(()),
    }
}

/// A boxed policy is a machine like any other.
impl Machine for Box<dyn AnyPolicy> {
    type Input = Input;
    type Effect = Effect;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        (**self).effects_max()
    }
    fn start(&mut self, cx: &mut Cx<'_, Effect, Timer>) {
        (**self).start(cx);
    }
    fn handle(&mut self, input: Input, cx: &mut Cx<'_, Effect, Timer>) {
        (**self).handle(input, cx);
    }
    fn expire(&mut self, timer: Timer, cx: &mut Cx<'_, Effect, Timer>) {
        (**self).expire(timer, cx);
    }
    fn check(&self) {
        (**self).check();
    }
}

impl Inspect for Box<dyn AnyPolicy> {
    fn reservation(&self) -> Option<&darc::reservation::Table> {
        (**self).reservation()
    }
    fn waiting(&self) -> usize {
        (**self).waiting()
    }
    fn learning(&self) -> Option<Learning> {
        (**self).learning()
    }
}
