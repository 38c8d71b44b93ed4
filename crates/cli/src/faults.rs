//! What went wrong, for a reader: one sentence, where in the file, then hints.

use cavy_report::folder::FolderError;
use cavy_study::plan::PlanError;
use cavy_study::point::RunError;
use std::fmt::Write as _;
use std::path::Path;

/// Exit code of wrong usage or input.
const WRONG_INPUT: u8 = 2;
/// Exit code of a check that failed, or of something that could not be done.
pub const FAILED: u8 = 1;
/// Exit code of an interrupted run, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Why a command ended.
#[derive(Debug)]
pub struct Fault {
    /// One sentence.
    message: String,
    /// The place in the file, drawn.
    excerpt: String,
    /// How to cure it.
    hints: Vec<String>,
    /// The exit code.
    pub code: u8,
}

impl Fault {
    /// Wrong usage or input.
    pub fn new(message: impl Into<String>) -> Self {
        Fault {
            message: printable(&message.into()),
            excerpt: String::new(),
            hints: Vec::new(),
            code: WRONG_INPUT,
        }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(printable(&hint.into()));
        self
    }

    /// With another exit code.
    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// As printed.
    pub fn render(&self) -> String {
        let mut out = format!("error: {}\n{}", self.message, self.excerpt);
        for hint in &self.hints {
            let _ = writeln!(out, "hint: {hint}");
        }
        out
    }
}

impl From<PlanError> for Fault {
    fn from(error: PlanError) -> Self {
        let mut fault = Fault::new(error.to_string());
        if let (Some(file), Some(span)) = (&error.file, &error.span)
            && let Ok(text) = std::fs::read_to_string(file)
        {
            fault.excerpt = excerpt(file, &text, span.clone());
        }
        fault = error.hints.into_iter().fold(fault, Fault::hint);
        if fault.hints.is_empty() {
            fault =
                fault.hint("`cavy plan schema` describes every key; `cavy plan new` shows them");
        }
        fault
    }
}

impl From<FolderError> for Fault {
    fn from(error: FolderError) -> Self {
        Fault::new(error.message).hint(error.hint)
    }
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Plan(error) => error.into(),
            RunError::Diverged(_) => Fault::new(error.to_string())
                .hint("one seed must give one result: this is a defect of cavy, please report it")
                .code(FAILED),
            RunError::Interrupted { .. } => Fault::new(error.to_string()).code(INTERRUPTED),
            RunError::Store { .. } => Fault::new(error.to_string())
                .hint("finished points are kept; free some space and go on with `--resume`"),
        }
    }
}

/// One line that moves no cursor and floods no screen, whatever file or argument it quotes.
fn printable(text: &str) -> String {
    const MOST: usize = 600;
    let mut out: String =
        text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}

/// The line of `text` in which `span` begins, with the span underlined.
fn excerpt(file: &str, text: &str, span: std::ops::Range<usize>) -> String {
    let Some(before) = text.get(..span.start) else { return String::new() };
    let begins = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    let column = text[begins..span.start].chars().count() + 1;
    let shown = text[begins..].lines().next().unwrap_or("");
    // A long line is not worth its wrapping; the numbers say where to look.
    if shown.chars().count() > 160 {
        return format!("  --> {}:{line}:{column}\n", Path::new(file).display());
    }
    let marked = text.get(span).map_or(1, |part| part.lines().next().unwrap_or("").chars().count());
    let room = shown.chars().count().saturating_sub(column - 1);
    let marks = "^".repeat(marked.min(room).max(1));
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let shown: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!(
        "{margin}--> {}:{line}:{column}\n{margin} |\n{number} | {shown}\n{margin} | {}{marks}\n",
        Path::new(file).display(),
        " ".repeat(column - 1),
    )
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn excerpt__names_line_and_column() {
        let text = "a = 1\nérreur = 2\n";
        let start = text.find("reur").unwrap_or(0);
        assert_eq!(
            excerpt("x.toml", text, start..start + 4),
            " --> x.toml:2:3\n  |\n2 | érreur = 2\n  |   ^^^^\n"
        );
    }

    #[test]
    fn excerpt__is_total() {
        for text in ["", "\n", "x", "é"] {
            for from in 0..4 {
                for to in from..6 {
                    let _ = excerpt("x", text, from..to);
                }
            }
        }
    }
}
