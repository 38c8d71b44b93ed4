//! What a run came to.

use crate::trail::Trail;
use cavy_core::Instant;

/// What a run came to, apart from what clients kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Numbers.
    pub counts: Counts,
    /// Time in which each node's thread was busy with inputs, in nanoseconds.
    pub busy_ns: Vec<u64>,
    /// Steps of machines.
    pub steps: u64,
    /// Events.
    pub events: u64,
    /// When the run ended.
    pub ended_at: Instant,
    /// Why.
    pub ended: Ended,
    /// Fingerprint of the run.
    pub trail: Trail,
}

/// How often things happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests sent for the first time, and again.
    pub asked: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Requests answered.
    pub answered: u64,
    /// Messages between nodes that were sent; copies and lost ones included.
    pub messages: u64,
    /// Their bytes.
    pub message_bytes: u64,
    /// Messages that did not arrive, or came from a session that had ended.
    pub lost: u64,
    /// Channels that broke, each end counted.
    pub broken: u64,
    /// Records appended.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Records that a crash took.
    pub records_lost: u64,
    /// Records that their node did not need any more.
    pub records_trimmed: u64,
    /// The most inputs that ever waited for one node's thread.
    pub inbox_max: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Nothing was left to do for clients.
    Answered,
    /// Time was up.
    Time,
}
