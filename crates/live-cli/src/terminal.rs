//! All printing.

use crate::faults::Fault;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints data to stdout. A reader that has seen enough is no fault.
pub fn print(text: &str) -> Result<(), Fault> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Fault::new(format!("cannot write to stdout: {error}"))
                .hint("is the disk full, or stdout closed?"))
        }
        _ => Ok(()),
    }
}

/// Prints one JSON value to stdout.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Fault> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Fault::new(format!("cannot write JSON: {error}")))?;
    print(&format!("{text}\n"))
}

/// Says something on stderr. If nobody can hear it, so be it.
pub fn talk(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = err.write_all(b"\n");
    }
}

/// Writes a line on stderr, a terminal, in the place of the one before it.
pub fn keep_line(text: &str) {
    let mut err = io::stderr().lock();
    // Back to the beginning of the line, and clear to its end.
    let _ = write!(err, "\r{text}\x1b[K").and_then(|()| err.flush());
    KEPT.store(true, Ordering::Relaxed);
}

/// Clears the line of [`keep_line`], if there is one.
pub fn forget_line() {
    if KEPT.swap(false, Ordering::Relaxed) {
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
    }
}

/// A line is kept on stderr.
static KEPT: AtomicBool = AtomicBool::new(false);

/// Columns to print tables in: those of the terminal, or 120 where there is none.
pub fn width() -> usize {
    let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0.into());
    width.unwrap_or(120).clamp(40, 240)
}

/// The command line as it was typed, so that a shell reads it again.
pub fn command_line() -> String {
    let typed = |word: std::ffi::OsString| {
        let word = word.to_string_lossy().into_owned();
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,%+@".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    let words: Vec<String> = std::env::args_os().skip(1).map(typed).collect();
    format!("cavy-live {}", words.join(" "))
}
