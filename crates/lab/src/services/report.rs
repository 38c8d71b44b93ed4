//! What a run comes to.

use crate::trail::Trail;
use cavy_core::family::probe::Usage;
use cavy_core::{Instant, Span};
use core::ops::ControlFlow;

/// A request of a client that was answered, or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The population.
    pub clients: u32,
    /// Which call of the population's mix.
    pub call: u32,
    /// When the answer was there.
    pub at: Instant,
    /// From the request to the answer, on the wall.
    pub latency: Span,
    /// The same on the population's own clock, which stands while the population does.
    pub latency_virtual: Span,
    /// Did it fail: refused, or not answered in time?
    pub failed: bool,
}

/// Watches a run, and may end it. `F` is what controllers conclude.
pub trait Observer<F> {
    /// A request of a client is done.
    fn done(&mut self, done: &Done) -> ControlFlow<()> {
        let _ = done;
        ControlFlow::Continue(())
    }

    /// A controller has a finding.
    fn concluded(&mut self, controller: usize, at: Instant, finding: &F) -> ControlFlow<()> {
        let _ = (controller, at, finding);
        ControlFlow::Continue(())
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl<F> Observer<F> for Unobserved {}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its time was over.
    Time,
    /// The observer had seen enough.
    Enough,
    /// Nothing could happen any more: everything waits for something that never comes.
    Stuck,
    /// More requests were in the system than there are names for.
    Crowded,
}

/// What one group did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Used {
    /// CPU, busy and runnable time.
    pub usage: Usage,
    /// Visits that began to be served.
    pub visits: u64,
    /// Time for which it stood frozen.
    pub frozen: Span,
    /// How often it was stopped.
    pub stops: u64,
    /// Time for which its quota held it.
    pub throttled: Span,
    /// Requests that its backlog refused.
    pub refused: u64,
    /// Calls of others that it gave up waiting for.
    pub timed_out: u64,
    /// Calls that it made again.
    pub retried: u64,
    /// Freezes that ended by their lease.
    pub leases_ended: u64,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why it ended.
    pub ended: Ended,
    /// When.
    pub at: Instant,
    /// Requests of clients answered.
    pub completed: u64,
    /// Requests of clients that failed.
    pub failed: u64,
    /// Visits that were begun, to all services.
    pub visits: u64,
    /// Steps of controllers.
    pub steps: u64,
    /// By group.
    pub groups: Vec<Used>,
    /// By group, when so many requests of clients were done as the setup says; empty if they never
    /// were.
    pub marked: Vec<Used>,
    /// Fingerprint of the run.
    pub trail: Trail,
}
