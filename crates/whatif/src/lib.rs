//! What would making this service faster buy? Machines that find out by slowing everything else
//! down.
//!
//! **Problem.** A service cannot be made faster on demand. All others can be made slower, by
//! stopping them for as much time as the change would save: relative to them the untouched service
//! is then as if it had been changed ([slowpoke 1]).
//!
//! **Promise.** Machines of the probe family, for the lab and for running processes alike. Each
//! group that a machine stops goes on again: by the machine, or by its lease. Time for which more
//! or less than asked was stood is carried to the next pause, so that in the long run the sums
//! agree.
//!
//! **Not here.** No model of the application, no graph of calls, no clock and no signal: worlds
//! measure usage, stop and continue. No statistics beyond the counts of a window.
//!
//! **Reading order.** [`governor`] is the recommended core: one controller for all groups.
//! [`daemon`] carries its orders to other hosts. [`published`] is Slowpoke as its artifact has it,
//! a controller in each service, and [`uncoordinated`] its predecessor. [`coz`] is the rule that
//! all of them come from, for threads of one process.
#![no_std]
extern crate alloc;

pub mod coz;
pub mod daemon;
pub mod governor;
pub mod poker;
pub mod published;
mod standing;
mod stretch;
pub mod uncoordinated;
pub mod worth;

pub use coz::Coz;
pub use daemon::Daemon;
pub use governor::{Busy, Change, Config, ConfigError, Governor, Limits, Reading, Target, Windows};
pub use published::Published;
pub use stretch::LongPauses;
pub use uncoordinated::Uncoordinated;
