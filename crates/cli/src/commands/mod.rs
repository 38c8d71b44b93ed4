//! One file for each command.

mod completions;
mod explain;
mod list;
mod live;
mod man;
mod plan;
mod reproduce;
mod run;

use crate::args::Command;
use crate::faults::Fault;
use crate::{Clock, Outcome};

/// Does what was asked.
pub fn dispatch(command: &Command, clock: Clock) -> Result<Outcome, Fault> {
    match command {
        Command::Reproduce(args) => reproduce::reproduce(args, clock),
        Command::Run(args) => run::run(args, clock),
        Command::List(args) => list::list(args),
        Command::Explain(args) => explain::explain(args),
        Command::Plan(args) => plan::plan(args),
        Command::Live(args) => live::live(None, args),
        Command::Load(args) => live::live(Some("load"), args),
        Command::Replay(args) => live::live(Some("replay"), args),
        Command::Doctor(args) => live::live(Some("doctor"), args),
        Command::Completions(args) => completions::completions(args),
        Command::Man => man::man(),
    }
}
