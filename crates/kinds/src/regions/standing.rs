//! Do protocols keep up with what is asked of them?

use super::run::Replication;
use super::scenario::Scenario;
use crate::halves;
use cavy_report::number::significant;
use cavy_study::outcome::Standing;

/// The standing, and why it is not stable. Clients that wait for their answers let no queue grow
/// without end, so only what comes at a rate is tested.
pub fn judge(scenario: &Scenario, runs: &[Replication], unanswered: bool) -> (Standing, String) {
    if unanswered {
        return (Standing::Unstable, String::new());
    }
    if scenario.gap_ns.is_none() {
        return (Standing::Stable, String::new());
    }
    let measured_ms = (scenario.setup.duration - scenario.warmup).as_us() / 1e3;
    let times_ms = (scenario.warmup.as_us() / 1e3, measured_ms);
    halves::judge(runs.iter().map(|run| &run.halves), times_ms, |times| {
        format!("run.duration_ms = {}", significant(measured_ms * times))
    })
}
