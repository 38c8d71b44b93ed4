//! What a plan must keep to that is run on threads.

use super::plan::{ArrivalsPlan, Policy, ServerPlan, ServicePlan};
use crate::live::for_the_lab;
use cavy_study::plan::PlanError;

/// Can threads do what the plan says?
pub(super) fn check(plan: &ServerPlan) -> Result<(), PlanError> {
    let lab = |field: &str, what: &str| Err(for_the_lab(field, what));
    if plan.workers.has_speeds() {
        return lab("workers.speed_ratio", "workers that are as fast as the machine's cores");
    }
    if plan.clients.is_some() {
        return lab("clients", "Poisson arrivals at a load");
    }
    if plan.trace.is_some() {
        return lab("trace", "types with constant service times");
    }
    if plan.arrivals != ArrivalsPlan::Poisson {
        return lab("arrivals", "Poisson arrivals");
    }
    if plan.mislabel_ratio != 0.0 {
        return lab("mislabel_ratio", "right labels");
    }
    if plan.round_trip_us != 0.0 {
        return lab("round_trip_us", "the machine's own way from client to server");
    }
    if plan.policies.iter().any(|policy| matches!(policy, Policy::Srpt(_))) {
        let what = "the policy `srpt` knows how much work a request is before it runs";
        return Err(PlanError::text(what)
            .hint("no server knows that; leave it out, or take `world = \"lab\"`"));
    }
    let drawn =
        |kind: &&super::plan::TypePlan| !matches!(kind.service, ServicePlan::Constant { .. });
    match plan.types.iter().find(drawn) {
        None => Ok(()),
        Some(kind) => {
            let what = format!("the type `{}` has no constant service time", kind.name);
            Err(PlanError::text(what).hint(
                "workers of a live run wait as long as the plan says: dist = \"constant\"; or take \
                 `world = \"lab\"`",
            ))
        }
    }
}
