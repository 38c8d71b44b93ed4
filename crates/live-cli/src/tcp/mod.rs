//! `cavy-live tcp`: servers, a client and a gate on a TCP of their own ([incast 7.3]).
//!
//! **Promise.** `serve` answers on a TUN device with timers of microseconds; `fetch` takes one
//! file from many HTTP servers at once, and has them send in turn; `gate` stands before servers or
//! before clients that cannot be changed and does the same for them; `study` measures all of it
//! beside the kernel's TCP.
//!
//! **Reading order.** [`typed`] for what can be typed, [`way`] for the stack's options, then
//! [`serve`] with [`http`], [`fetch`], [`gate`], [`mod@study`].

mod fetch;
mod gate;
mod http;
mod serve;
mod study;
mod typed;
mod way;

pub use typed::Tcp;

use crate::faults::Fault;
use std::process::ExitCode;
use typed::Verb;

/// Runs the command.
pub fn tcp(args: &Tcp) -> Result<ExitCode, Fault> {
    match &args.verb {
        Verb::Serve(args) => serve::serve(args),
        Verb::Fetch(args) => fetch::fetch(args),
        Verb::Gate(args) => gate::gate(args),
        Verb::Study(args) => study::study(args),
    }
}
