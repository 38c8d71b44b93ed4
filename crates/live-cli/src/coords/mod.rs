//! `cavy-live coords`: an agent that keeps this machine's coordinate, the service that says who is
//! near, and the study of agents on real distances.
//!
//! What agent and service do is the room `agents`; here is what can be typed, and what is said.

mod agent;
mod serve;
mod study;
mod typed;

pub use typed::Coords;

use crate::faults::Fault;
use cavy_study::plan::files;
use std::path::Path;
use std::process::ExitCode;

/// Runs the command.
pub fn coords(args: &Coords) -> Result<ExitCode, Fault> {
    match &args.verb {
        typed::Verb::Agent(args) => agent::agent(args),
        typed::Verb::Serve(args) => serve::serve(args),
        typed::Verb::Study(args) => study::study(args),
    }
}

/// The one line of a file that holds a secret.
fn secret(option: &str, path: &Path) -> Result<String, Fault> {
    let name = path.display();
    let text = files::text(path)
        .map_err(|error| Fault::new(format!("cannot read {option} {name}: {error}")))?;
    match text.trim() {
        "" => Err(Fault::new(format!("{option} {name} is empty"))),
        line => Ok(line.to_string()),
    }
}
