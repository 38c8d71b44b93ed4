//! What went wrong, for a reader: one sentence, then hints.

use cavy_report::folder::FolderError;
use std::fmt::Write as _;

/// Exit code of wrong usage or input.
const WRONG_INPUT: u8 = 2;
/// Exit code when something failed that was rightly asked for.
pub const FAILED: u8 = 1;
/// Exit code of an interrupted run, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Why a command ended.
#[derive(Debug)]
pub struct Fault {
    message: String,
    hints: Vec<String>,
    /// The exit code.
    pub code: u8,
}

impl Fault {
    /// Wrong usage or input.
    pub fn new(message: impl Into<String>) -> Self {
        Fault { message: printable(&message.into()), hints: Vec::new(), code: WRONG_INPUT }
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
        let mut out = format!("error: {}\n", self.message);
        for hint in &self.hints {
            let _ = writeln!(out, "hint: {hint}");
        }
        out
    }
}

impl From<FolderError> for Fault {
    fn from(error: FolderError) -> Self {
        Fault::new(error.message).hint(error.hint)
    }
}

impl From<cavy_txn_cli::Fault> for Fault {
    fn from(fault: cavy_txn_cli::Fault) -> Self {
        let code = fault.code;
        let hints = fault.hints().iter();
        hints.fold(Fault::new(fault.text()).code(code), |fault, hint| fault.hint(hint.as_str()))
    }
}

impl From<cavy_testbed::Error> for Fault {
    fn from(error: cavy_testbed::Error) -> Self {
        let fault = Fault::new(error.message()).code(FAILED);
        let fault = error.hints().iter().fold(fault, |fault, hint| fault.hint(*hint));
        fault.hint("`cavy-live doctor` says what is missing, and its cure")
    }
}

/// One line that moves no cursor and floods no screen, whatever it quotes.
fn printable(text: &str) -> String {
    const MOST: usize = 600;
    let mut out: String =
        text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}
