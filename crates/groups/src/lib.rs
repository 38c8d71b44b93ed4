//! Process groups of Linux: found, stopped together, measured.
//!
//! **Problem.** A Governor answers what making one service faster would buy by stopping all others.
//! Stopping running processes is dangerous: one that is never continued is an outage.
//!
//! **Promise.** The controllers of the probe family, unchanged, stop and continue processes that
//! know nothing of it: no library, no proxy, no configuration. Whatever becomes of this program, a
//! group goes on when its lease ends, because a second process, the [`guard`], sees to it, and a
//! third one when both are gone. Processes return to the control groups that they came from.
//!
//! **Not here.** No decision when to stop what for how long: those are `cavy_whatif`'s. No
//! statistics beyond the interval of a mean.
//!
//! **Reading order.** [`select`] (which processes), [`refuse`] (which never), [`stage`] (control
//! groups for them), [`freezer`], [`usage`] (CPU time to the microsecond), [`guard`], [`world`]
//! (the loop that drives a controller), [`clients`] (closed clients that stand with the rest),
//! [`edge`] and [`source`] (requests of a foreign generator, counted where they come in),
//! [`pace`] (how long windows are), [`rank`] (what each service would buy), [`record`] (its
//! Governors, to be decided again), [`machine`] (what else
//! went on), [`speed`] (how fast the machine was), [`selftest`].

pub mod clients;
pub mod edge;
pub mod freezer;
pub mod guard;
pub mod machine;
pub mod pace;
mod parts;
pub mod rank;
pub mod record;
pub mod refuse;
mod rounds;
pub mod select;
pub mod selftest;
pub mod source;
pub mod speed;
pub mod stage;
pub mod usage;
pub mod world;

/// Where what must survive this program is kept.
pub const RUN_FOLDER: &str = "/run/cavy";

/// Nanoseconds on the monotonic clock, as all of this room counts time; and the right to go first.
pub use cavy_clock::{go_first, now};
