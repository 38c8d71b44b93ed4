//! All printing, and what the terminal is like.

use crate::faults::Fault;
use std::io::{self, IsTerminal as _, Write as _};

/// Width for output that no terminal shows.
const WIDTH_DEFAULT: usize = 100;

/// Prints data to stdout. A reader that has seen enough (`cavy list | head`) is no fault.
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
pub fn print_json(value: &serde_json::Value) -> Result<(), Fault> {
    print(&format!("{value:#}\n"))
}

/// Says something on stderr. If nobody can hear it, so be it.
pub fn talk(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = err.write_all(b"\n");
    }
}

/// Is stderr a terminal, on which a line can be redrawn?
pub fn can_redraw() -> bool {
    io::stderr().is_terminal() && variable("TERM").as_deref() != Some("dumb")
}

/// Columns to print tables in: those of the terminal, or of `COLUMNS`.
pub fn width() -> usize {
    let of_terminal = || terminal_size::terminal_size_of(io::stdout()).map(|(w, _)| w.0.into());
    let told = variable("COLUMNS").and_then(|text| text.parse().ok());
    told.or_else(of_terminal).unwrap_or(WIDTH_DEFAULT).clamp(40, 240)
}

/// Does stdout want color?
pub fn color() -> bool {
    let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !refused && variable("TERM").as_deref() != Some("dumb")
}

/// A variable of the environment. Only how things look may depend on one.
#[allow(clippy::disallowed_methods)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The command line as typed, quoted for a shell, under the program's own name.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| quote(&word.to_string_lossy()));
    std::iter::once("cavy".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Breaks `text` at blanks; lines after the first begin with `indent`.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            used = indent.chars().count();
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted() {
        assert_eq!(quote("load=0.9"), "load=0.9");
        assert_eq!(quote("policies.time sharing.slice_us=5"), "'policies.time sharing.slice_us=5'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn words_are_never_cut() {
        assert_eq!(wrap("a bb ccc", 4, "  "), "a bb\n  ccc");
        assert_eq!(wrap("incomprehensible", 4, ""), "incomprehensible");
    }
}
