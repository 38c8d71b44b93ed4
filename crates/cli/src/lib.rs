//! The `cavy` command: arguments, printing, exit codes. Everything else is below.
//!
//! stdout is data, stderr is talk. Exit codes: 0 success, 1 a claim or check failed, 2 wrong usage
//! or input, 130 interrupted.
//!
//! What plans can be about and what was published comes from a [`Registry`]: a program with kinds
//! or sources of its own is a call of [`main`] with them.
#![cfg_attr(test, allow(non_snake_case))]

mod args;
mod ask;
mod commands;
mod document;
mod faults;
mod forecast;
mod progress;
mod session;
mod terminal;

use cavy_study::registry::Registry;
use clap::Parser as _;
use std::process::ExitCode;
use std::time::Instant;

/// Version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The one clock of the program: how long the command has been running.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    // Results never depend on it: it tells the user how long something takes, nothing else.
    #[allow(clippy::disallowed_methods)]
    fn start() -> Self {
        Clock(Instant::now())
    }

    /// Seconds since the command began.
    pub fn elapsed_s(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// How a command ended that did what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All well.
    Success,
    /// A claim was not reproduced, or a check failed.
    Failed,
}

/// The command with what `registry` has.
pub fn main(registry: &Registry) -> ExitCode {
    let clock = Clock::start();
    let args = args::Args::parse();
    match commands::dispatch(&args.command, registry, clock) {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Err(fault) => {
            terminal::talk(&fault.render());
            ExitCode::from(fault.code)
        }
    }
}
