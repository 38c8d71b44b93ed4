//! Traces of requests through services, made into a plan of those services.
//!
//! **Problem.** To ask the lab what a change would buy, somebody has to write down which service
//! calls which, how often, and how long each works. Who traces requests has that already.
//!
//! **Promise.** [`read::read`] takes what Jaeger, OpenTelemetry and Zipkin write. [`shape::Shape`]
//! is what all traces together say: visits, own times, calls in turn or at once. [`plan::text`]
//! writes it as a plan of kind `services`, with what traces cannot tell left to the reader in
//! words. What cannot be used is counted and said.
//!
//! **Not here.** Traces do not know CPU time: own time is the time in which a service neither
//! waited for another nor was idle, so queues and locks are in it.

pub mod plan;
pub mod read;
pub mod shape;

/// Why traces cannot be used, with a cure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// One sentence.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl TraceError {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> TraceError {
        TraceError { message: message.into(), hint: hint.into() }
    }
}
