//! `ip` and `tc` of iproute2.

use crate::Error;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// How to get them.
pub const CURE: &str = "install iproute2: `apt-get install iproute2` or your system's like";

/// What a tool says its version is.
///
/// # Errors
/// When it is not there.
pub fn version(tool: &str) -> Result<String, Error> {
    let output = output(Command::new(tool).arg("-V"), tool)?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.trim().rsplit("iproute2-").next().unwrap_or("").trim_end_matches(',').to_string())
}

/// Runs one command and gives what it says.
///
/// # Errors
/// When it is not there or fails.
pub fn run(tool: &str, args: &[&str]) -> Result<String, Error> {
    let output = output(Command::new(tool).args(args), tool)?;
    judge(tool, args, &output)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs all lines of a batch, in a namespace where one is named; the first that fails ends it.
///
/// # Errors
/// When the tool is not there or a line fails.
pub fn batch(tool: &str, space: Option<&str>, lines: &[String]) -> Result<(), Error> {
    let mut args: Vec<&str> = space.map_or(Vec::new(), |space| vec!["-n", space]);
    args.extend(["-batch", "-"]);
    let piped = Command::new(tool)
        .args(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = piped.map_err(|error| absent(tool, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that ends early says why, below.
        let _ = stdin.write_all((lines.join("\n") + "\n").as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| absent(tool, &error))?;
    judge(tool, &args, &output)
}

fn output(command: &mut Command, tool: &str) -> Result<Output, Error> {
    command.stdin(Stdio::null()).output().map_err(|error| absent(tool, &error))
}

fn absent(tool: &str, error: &std::io::Error) -> Error {
    Error::new(format!("cannot run `{tool}`: {error}")).hint(CURE)
}

fn judge(tool: &str, args: &[&str], output: &Output) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("`{tool} {}` failed: {}", args.join(" "), said.trim())))
}
