//! `cavy completions`.

use crate::args::{Args, Completions};
use crate::faults::Fault;
use crate::{Outcome, terminal};
use clap::CommandFactory as _;

/// Prints the completions of a shell.
pub fn completions(args: &Completions) -> Result<Outcome, Fault> {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "cavy", &mut bytes);
    terminal::print(&String::from_utf8_lossy(&bytes))?;
    Ok(Outcome::Success)
}
