//! Who decides on the processors of servers: a policy of `sched`, by the words of every plan.
//!
//! Work is a request of one of two types: a part of a query, or a stretch of a copy, be it read or
//! taken in.

use crate::policy::{self, Policy as PolicyPlan};
use cavy_core::Span;
use cavy_core::family::cpu::Kind;
use cavy_lab::cpu::Costs;
use cavy_lab::wan::Processors;
use cavy_sched::ranked::Foresight;
use cavy_sched::{Policy, TypeHint, build_foreseeing};
use cavy_study::plan::PlanError;
use std::sync::mpsc::{Sender, channel};

/// A part of a query.
pub const QUERY: Kind = Kind(1);
/// A stretch of a copy.
pub const COPY: Kind = Kind(2);

/// A policy, and what it costs.
pub struct Scheduling {
    policy: Policy,
    costs: Costs,
}

/// What `plan` asks for on servers with so many processors.
pub fn scheduling(plan: &PolicyPlan, cores: u16) -> Result<Scheduling, PlanError> {
    let shared = plan.shared();
    let needless = [
        ("dispatch_us", shared.dispatch_us != 0.0),
        ("service_tax_ratio", !shared.service_tax_ratio.is_empty()),
    ];
    if let Some((key, _)) = needless.iter().find(|(_, given)| *given) {
        return Err(PlanError::text(format!("`scheduler.{key}` is not known here"))
            .hint("what a sub-query takes is `fixed_ms` and `document_us`; leave the key out"));
    }
    let names = ["query", "copy"].map(str::to_string);
    let hints = hints([Span::from_ms(1); 2], 0.5);
    // The one policy of a plan needs no label to be found by.
    let named = |mut error: PlanError| {
        let there = format!("policies.{}.", plan.label());
        error.message = error.message.replace(&there, "scheduler.");
        error
    };
    let built = policy::policy(plan, &names, &hints).map_err(named)?;
    let scheduling = Scheduling { policy: built, costs: policy::costs(plan).map_err(named)? };
    scheduling.check(cores).map_err(|error| PlanError::text(format!("`scheduler`: {error}")))?;
    Ok(scheduling)
}

/// What is known of both types: their means, and the share of copies in the work.
fn hints([query, copy]: [Span; 2], copying: f64) -> [TypeHint; 2] {
    let often = |mean: Span, share: f64| share / mean.as_us().max(1e-3);
    let (queries, copies) = (often(query, 1.0 - copying), often(copy, copying));
    let ratio = |own: f64| own / (queries + copies);
    [TypeHint { mean: query, ratio: ratio(queries) }, TypeHint { mean: copy, ratio: ratio(copies) }]
}

impl Scheduling {
    fn check(&self, cores: u16) -> Result<(), cavy_sched::PolicyError> {
        let hints = hints([Span::from_ms(1); 2], 0.5);
        build_foreseeing(&self.policy, cores, &hints, u32::MAX, None).map(|_| ())
    }

    /// The processors of a server on which both types take so long, and copies have so much of the
    /// work; and who is to be told what each work takes, in order.
    pub fn processors(
        &self,
        cores: u16,
        means: [Span; 2],
        copying: f64,
    ) -> (Processors, Option<Sender<Span>>) {
        let foresees = matches!(self.policy, Policy::ShortestRemaining);
        let (told, heard) = channel();
        let per_work = self.costs.per_request;
        let work = std::iter::from_fn(move || heard.try_recv().ok());
        let work = Box::new(work.map(move |price: Span| price + per_work)) as Foresight;
        let hints = hints(means, copying);
        let work = foresees.then_some(work);
        let scheduler = build_foreseeing(&self.policy, cores, &hints, u32::MAX, work);
        let scheduler = Box::new(scheduler.expect("the plan was checked"));
        let (slots, shared) = match self.policy {
            Policy::ProcessorSharing { slots } => (slots, Some(cores)),
            _ => (cores, None),
        };
        let (preemption, steal) = (self.costs.preemption, self.costs.steal);
        let plain = Processors::of(slots, scheduler);
        let processors = Processors { shared, per_work, preemption, steal, ..plain };
        (processors, foresees.then_some(told))
    }
}
