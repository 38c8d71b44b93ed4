//! What the times of requests under a Governor do not show.

use super::law::between_ns;
use super::plan::{MethodPlan, ModePlan};
use super::scenario::Scenario;
use crate::Latency;
use cavy_whatif::LongPauses;

/// A mean that is off by less is none to doubt.
const MEAN_RATIO: f64 = 0.05;

/// Reasons to doubt a latency that was predicted with pauses of `pause_ms`, which took
/// `paused_ratio` of the time.
pub fn doubts(
    scenario: &Scenario,
    predicted: &Latency,
    pause_ms: f64,
    paused_ratio: f64,
) -> Vec<String> {
    let of_pauses = of_long_pauses(scenario, predicted, pause_ms);
    of_pauses.into_iter().chain(of_what_goes_on(scenario, predicted, paused_ratio)).collect()
}

fn of_long_pauses(scenario: &Scenario, predicted: &Latency, pause_ms: f64) -> Option<String> {
    let MethodPlan::Governor(own) = &scenario.method else { return None };
    let p50_ms = predicted.p50_ms.as_ref()?.estimate.value;
    let is_delivered = own.mode == ModePlan::Delivered;
    let long = LongPauses::of(is_delivered, scenario.population.is_none(), pause_ms, p50_ms)?;
    Some(format!("{}; give `pause_us` of at most {:.0}", long.why, long.pause_max_us))
}

/// Messages and waits are not stopped with the services. With pauses of a tenth of a request means
/// were off by half to all of what is said here, with pauses of twice a request by 0.5 to 2.4 times
/// as much: a pause begins when the target has worked, and then its answer is under way.
fn of_what_goes_on(scenario: &Scenario, predicted: &Latency, paused_ratio: f64) -> Option<String> {
    let hidden_ms = between_ns(&scenario.changed) / 1e6 * paused_ratio;
    let ratio = hidden_ms / (predicted.mean_ms.as_ref()?.value + hidden_ms);
    (ratio > MEAN_RATIO).then(|| {
        format!(
            "messages and waits go on while services stand, and take much of a request: mean \
             latency is predicted too short, by some {:.0} %, or twice that with long pauses",
            ratio * 100.0
        )
    })
}
