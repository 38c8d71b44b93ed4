//! Jitter of the machine around a run.

use cavy_live::load::machine::Machine;
use serde::{Deserialize, Serialize};

/// What is kept of the machine around a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Weather {
    /// What one request in a thousand meets of the machine's own.
    pub met_p999_us: Option<f64>,
    /// Share of the time that a spinning thread was kept from running.
    pub stalled_ratio: Option<f64>,
    /// The generator went before ordinary threads.
    pub goes_first: bool,
}

impl Weather {
    /// From the probes before and after the run, the worse of both.
    pub fn of(machine: &Machine) -> Weather {
        let probes = [machine.before.jitter, machine.after.jitter];
        let stalled = probes.iter().flatten().map(|probe| probe.stalled_ratio);
        Weather {
            met_p999_us: machine.met_p999_us(),
            stalled_ratio: stalled.reduce(f64::max),
            goes_first: machine.senders == "fifo",
        }
    }
}
