//! What a run's numbers are worth: warm-up, intervals, tails, and when to stop.
//!
//! **Problem.** A tail latency from one run of a million requests can be off by 40 %, and nothing
//! in the number says so.
//!
//! **Promise.** Every estimate here comes with a 95 % interval, or with the words "too short"; the
//! intervals' coverage is measured by a test against closed forms. Memory does not grow with the
//! number of requests. Everything is deterministic, transcendental functions come from `libm`, and
//! merging per-thread results gives the same bits in any order.
//!
//! **Reading order.** [`histogram`] collects a run's latencies and [`warmup`] its series. One long
//! run gives an interval by [`batch`] means; independent replications give one for means and, by
//! [`quantile`], for tails, and by [`sectioning`] for whatever is computed of them. [`paired`]
//! compares two policies, [`sequential`] says when it is enough, [`growth`] whether there is a
//! steady state at all. All but the last return an [`Interval`], whose width [`student`] sets.

pub mod batch;
pub mod growth;
pub mod histogram;
pub mod interval;
pub mod paired;
pub mod quantile;
pub mod ratios;
pub mod sectioning;
pub mod sequential;
pub mod student;
pub mod warmup;

pub use growth::{Trend, trend};
pub use histogram::{Histogram, scaled_quantile};
pub use interval::{Interval, TooShort};
pub use ratios::Ratios;
pub use warmup::{Series, Truncation};
