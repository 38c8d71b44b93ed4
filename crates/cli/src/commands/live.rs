//! `cavy live`, `cavy load`, `cavy replay` and `cavy doctor`: what runs on real threads is a
//! program of its own, so that building `cavy` compiles none of what a server needs.

use crate::Outcome;
use crate::args::Live;
use crate::faults::{FAILED, Fault};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

/// The other program.
const PROGRAM: &str = "cavy-live";
/// The search cluster is a third one: it compiles tantivy.
const SEARCH: &str = "cavy-search";

/// Becomes `cavy-live [command] args`; returns only when that cannot be started.
pub fn live(command: Option<&str>, args: &Live) -> Result<Outcome, Fault> {
    let search = command.is_none() && args.args.first().is_some_and(|word| word == "search");
    let name = if search { SEARCH } else { PROGRAM };
    // One that was built with this program comes before one on the path.
    let program = beside(name).unwrap_or_else(|| PathBuf::from(name));
    let mut child = Command::new(&program);
    child.args(command).args(&args.args[usize::from(search)..]);
    let error = match replace(&mut child) {
        Ok(outcome) => return Ok(outcome),
        Err(error) => error,
    };
    if error.kind() != ErrorKind::NotFound {
        return Err(Fault::new(format!("cannot start {}: {error}", program.display())).code(FAILED));
    }
    if search {
        return Err(Fault::new(
            "`cavy live search` is the program cavy-search, which is not built",
        )
        .hint("build it with `make search` (ten minutes: it compiles tantivy)")
        .hint("it is looked for beside this program, then on the PATH")
        .code(FAILED));
    }
    let words: Vec<OsString> =
        command.map(OsString::from).into_iter().chain(args.args.iter().cloned()).collect();
    let asked = words.first().map_or_else(String::new, |word| format!(" {}", word.display()));
    Err(Fault::new(format!("`cavy-live{asked}` is needed, and the program cavy-live is not built"))
        .hint(
            "build it with `make live` (a few minutes), or `cargo build --release -p \
             cavy-live-cli`",
        )
        .hint("it is looked for beside this program, then on the PATH")
        .code(FAILED))
}

/// The program of this name beside this one, if it is there.
fn beside(name: &str) -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    let program = here.parent()?.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    program.is_file().then_some(program)
}

/// Replaces this process, so that signals and exit codes are the other program's own.
#[cfg(unix)]
fn replace(child: &mut Command) -> std::io::Result<Outcome> {
    use std::os::unix::process::CommandExt as _;
    Err(child.exec())
}

/// Waits for the other program. Its exit code, where it is not 0 or 1, becomes 1.
#[cfg(not(unix))]
fn replace(child: &mut Command) -> std::io::Result<Outcome> {
    let status = child.status()?;
    Ok(if status.success() { Outcome::Success } else { Outcome::Failed })
}
