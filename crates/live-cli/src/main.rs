//! The command `cavy-live`: what runs on real threads and sockets, which `cavy live` and
//! `cavy load` start.
//!
//! It is a program of its own so that `cavy`, which only computes, compiles none of what a server
//! needs. stdout is data, stderr is talk. Exit codes: 0 success, 1 what was asked for failed, 2
//! wrong usage or input, 3 percentiles were measured and must not be published, 130 interrupted.
#![cfg_attr(test, allow(non_snake_case))]

mod args;
mod coords;
mod doctor;
mod expect;
mod faults;
mod homa;
mod line;
mod load;
mod quantity;
mod replay;
mod sched;
mod signals;
mod study;
mod tcp;
mod terminal;
mod testbed;
mod whatif;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let done = match &args.command {
        args::Command::Sched(args) => sched::sched(args),
        args::Command::Load(args) => load::load(args),
        args::Command::Homa(args) => homa::homa(args),
        args::Command::Coords(args) => coords::coords(args),
        args::Command::Tcp(args) => tcp::tcp(args),
        args::Command::Study(args) => study::study(args),
        args::Command::Replay(args) => replay::replay(args),
        args::Command::Doctor(args) => doctor::doctor(args),
        args::Command::Line(args) => line::line(&args.what),
        args::Command::Whatif(args) => whatif::whatif(args),
        args::Command::Testbed(args) => testbed::testbed(&args.what),
        args::Command::Txn(args) => cavy_txn_cli::txn(args, &["txn"]).map_err(faults::Fault::from),
    };
    match done {
        Ok(code) => code,
        Err(fault) => {
            terminal::talk(&fault.render());
            ExitCode::from(fault.code)
        }
    }
}
