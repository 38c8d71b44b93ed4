//! One file for each command.

mod ask;
mod check;
mod compare;
mod completions;
mod coords;
mod explain;
mod list;
mod live;
mod man;
mod plan;
mod reproduce;
mod run;
mod seeds;

use crate::args::Command;
use crate::faults::Fault;
use crate::{Clock, Outcome};
use cavy_study::registry::Registry;

/// Does what was asked.
pub fn dispatch(command: &Command, registry: &Registry, clock: Clock) -> Result<Outcome, Fault> {
    match command {
        Command::Reproduce(args) => reproduce::reproduce(args, registry, clock),
        Command::Run(args) => run::run(args, registry, clock),
        Command::List(args) => list::list(args, registry),
        Command::Explain(args) => explain::explain(args, registry),
        Command::Plan(args) => plan::plan(args, registry),
        Command::Ask(args) => ask::ask(args, registry),
        Command::Compare(args) => compare::compare(args, clock),
        Command::Check(args) => check::check(args),
        Command::Coords(args) => coords::coords(args, clock),
        Command::Live(args) => live::live(None, args),
        Command::Load(args) => live::live(Some("load"), args),
        Command::Replay(args) => live::live(Some("replay"), args),
        Command::Doctor(args) => live::live(Some("doctor"), args),
        Command::Completions(args) => completions::completions(args),
        Command::Man => man::man(),
    }
}
