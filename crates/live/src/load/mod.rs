//! A load generator that tells the truth about latency `[persephone 7.5]`.
//!
//! **Problem.** A client that waits for an answer before it sends the next request stops measuring
//! just when the server stalls, and a generator that is late itself blames the server. Both make
//! tails look like something they are not.
//!
//! **Promise.** Arrivals come from a [`Schedule`] drawn before the run from a seed, and can be
//! stored and met again by another server. Each request is sent at its time or as soon after it as
//! the machine allows, and none is skipped. Latency counts from the *intended* time. How late the
//! sender was is measured too, and when that is too much for what is claimed, [`Report::verdict`]
//! says so instead of giving percentiles. Every request handed to a [`Target`] ends in the books
//! exactly once: answered, refused, failed, timed out or lost.
//!
//! **Not here.** No correction of latencies after the fact. No threads per request. No TLS and no
//! HTTP/2: this drives services on this machine and next to it.
//!
//! **Reading order.** [`schedule`] (what is sent when), [`clock`] (waiting for that moment),
//! [`target`] (what is driven, and the ticket that accounts for one request), [`mod@run`] (the
//! senders), [`ledger`] and [`report`] (the books, and what may be concluded), [`machine`] (what
//! the machine was like meanwhile), [`wire`] (HTTP and RESP).

pub mod export;
pub mod ledger;
pub mod machine;
pub mod report;
pub mod run;
pub mod schedule;
pub mod target;
#[cfg(test)]
mod tests;
pub mod wire;

pub use cavy_clock as clock;
pub use cavy_clock::Wait;
pub use report::{Report, Verdict};
pub use run::{Model, Options, Progress, RunError, Watch, run};
pub use schedule::{Entry, Schedule, ScheduleError};
pub use target::{Outcome, Target, Ticket};
