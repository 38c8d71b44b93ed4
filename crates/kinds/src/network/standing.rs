//! Does a network keep up, and is each transport what its name says?

use super::run::Replication;
use super::scenario::Scenario;
use super::transport::Transport;
use crate::halves::{self, Quantity};
use cavy_lab::net::{Ended, Report};
use cavy_report::number::{beside_one, count, significant, upwards};
use cavy_study::outcome::Standing;

/// A growth that this share of what is offered would make is none: fewer bytes come and go with
/// single large messages.
const OFFERED_RATIO: f64 = 0.02;
/// Share of messages that may fail.
const FAILED_RATIO: f64 = 0.001;

/// The standing, and why it is not stable.
pub fn judge(scenario: &Scenario, reports: &[&Report]) -> (Standing, String) {
    if let Some(note) = broken(scenario, reports) {
        return (Standing::Unstable, note);
    }
    // What is offered has rounding errors.
    if let Some(load) = scenario.data_load.filter(|load| *load >= 1.0 - 1e-9) {
        let load = beside_one(load);
        let note = format!("messages with their headers are {load} of what a host's link carries");
        return (Standing::Unstable, note);
    }
    // Closed loops wait for their answers; phases have no steady state.
    if scenario.rate_per_s == 0.0 {
        return (Standing::Stable, String::new());
    }
    let half_kb = |half: usize| -> Vec<f64> {
        reports.iter().map(|report| report.backlog_bytes[half] / 1e3).collect()
    };
    let hosts = f64::from(scenario.setup.network.topology.hosts());
    let counted = scenario.setup.duration - scenario.setup.warmup;
    let per_host = scenario.rate_per_s * f64::from(scenario.senders) / hosts;
    let offered = per_host * scenario.sizes.mean_bytes() * counted.as_ns() as f64 / 1e9 / 2.0;
    let floor = OFFERED_RATIO * offered / 1e3;
    let warmup_ratio = scenario.setup.warmup.as_ns() as f64 / counted.as_ns() as f64;
    let backlog = Quantity { name: "the backlog", unit: "kB a host", floor, warmup_ratio };
    halves::judge_quantity(&backlog, &half_kb(0), &half_kb(1), |times| {
        let longer = longer(scenario, counted.as_ns() as f64 / 1e6, times);
        format!("which may be chance, or the network may still be filling; {longer} would tell")
    })
}

/// A run so many times as long, in the words of a plan.
fn longer(scenario: &Scenario, counted_ms: f64, times: f64) -> String {
    let messages = scenario.rate_per_s * f64::from(scenario.senders) * counted_ms / 1e3 * times;
    format!(
        "about {} messages (run.messages, or run.duration_ms = {})",
        count(upwards(messages)),
        significant(counted_ms * times)
    )
}

/// What ends a run before its time, or fails.
fn broken(scenario: &Scenario, reports: &[&Report]) -> Option<String> {
    for report in reports {
        match report.ended {
            Ended::PacketLimit => {
                let packets = f64::from(scenario.setup.packets_max) / 1e6;
                return Some(format!("more than {packets} million packets under way"));
            }
            Ended::MessageLimit => return Some("too many messages under way".to_string()),
            Ended::Finished | Ended::Time => {}
        }
    }
    let submitted: u64 = reports.iter().map(|r| r.messages.submitted).sum();
    let failed: u64 = reports.iter().map(|r| r.messages.failed + r.messages.abandoned).sum();
    (failed as f64 > FAILED_RATIO * submitted as f64).then(|| {
        let share = failed as f64 / submitted.max(1) as f64 * 100.0;
        format!("{share:.1} % of messages failed")
    })
}

/// Why a transport is not what its plan says, if it is not: hosts that were to learn their cut-offs
/// never had enough messages to look at.
pub fn unformed(scenario: &Scenario, runs: &[Replication]) -> Option<String> {
    let Transport::Homa(config) = &scenario.transport else { return None };
    let learning = config.learning?;
    let hosts = scenario.setup.network.topology.hosts();
    let most = |never: &u32| 2 * never > hosts;
    let never = runs.iter().filter_map(|run| run.never_learned).max().filter(most)?;
    Some(format!(
        "{never} of {hosts} hosts never learned their cut-offs, and kept those that they began \
         with: a host learns every {} ms if {} messages or {} bytes have arrived meanwhile, and a \
         run has {} ms",
        significant(learning.interval.as_ns() as f64 / 1e6),
        count(learning.messages_min),
        count(learning.bytes_min),
        significant(scenario.setup.duration.as_ns() as f64 / 1e6),
    ))
}
