//! The command `cavy` with a kind and a source of its own, and nothing else.
//!
//! The project has kinds of plans and sources of figures. This program shows that neither list is
//! closed: what it needs is in this folder, and every command works for it (`tests/commands.rs`).

mod bucket;
mod source;

use cavy_study::kind::Of;
use cavy_study::registry::Registry;
use std::process::ExitCode;

fn main() -> ExitCode {
    let kinds = vec![Box::new(Of::<bucket::BucketPlan>::new()) as _];
    cavy_cli::main(&Registry { kinds, sources: vec![source::source()] })
}
