//! The program `cavy`: the command with all kinds of plans and all sources of figures.

use cavy_study::registry::Registry;
use std::process::ExitCode;

fn main() -> ExitCode {
    let registry = Registry { kinds: cavy_kinds::all(), sources: cavy_sources::all() };
    cavy_cli::main(&registry)
}
