//! The engine of live studies: peers in turns on the same arrivals, what the machine was like
//! meanwhile, runs that are kept, and what may be claimed of the values.
//!
//! **Problem.** A live number says something about a protocol only beside those of its rivals in
//! the same hour, on a machine that was quiet enough for it.
//!
//! **Promise.** [`turns::in_turns`] gives every peer every schedule, one after the other before the
//! next repetition, so that a busy minute hits all. Each run comes with its [`weather`], the
//! [`health`] of processors and network, and its doubts. [`kept::Shelf`] keeps finished runs, and
//! tries one in doubt again. [`finding::judge`] holds values against claims only where the machine
//! allows it: a claim that it was too noisy for is called that, whatever the value. [`bridge`] lays
//! the lab beside a run of a pool.
//!
//! **Not here.** No system: who is compared, what is sent and what is measured is the study's.
//!
//! **Reading order.** [`turns`], [`weather`], [`health`], [`kept`], [`progress`], [`part`] (what a
//! study comes to), [`finding`], [`bridge`].

pub mod bridge;
pub mod finding;
pub mod health;
pub mod kept;
pub mod part;
pub mod progress;
pub mod turns;
pub mod weather;

pub use finding::{Finding, Quiet};
pub use part::{Heard, Part};
