//! `cavy-live homa`: a server, a client, and round trips.
//!
//! **Promise.** `serve` answers until a signal; `call` asks once and writes the answer to stdout;
//! `echo` measures round trips of one call at a time, and of many, by size.
//!
//! **Not here.** No open load: `cavy-live load homa://...` sends on a schedule ([`target`]).
//!
//! **Reading order.** [`typed`] for what can be typed, [`way`] for the endpoint's options, then
//! [`serve`], [`call`], [`echo`].

mod call;
mod echo;
mod serve;
pub mod target;
mod typed;
mod way;

pub use typed::{Homa, Way};

use crate::faults::Fault;
use std::process::ExitCode;
use typed::Verb;

/// Runs the command.
pub fn homa(args: &Homa) -> Result<ExitCode, Fault> {
    match &args.verb {
        Verb::Serve(args) => serve::serve(args),
        Verb::Call(args) => call::call(args),
        Verb::Echo(args) => echo::echo(args),
    }
}
