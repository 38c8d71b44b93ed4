//! Why there is no testbed, for a reader.

use std::fmt;

/// One sentence, and what would help.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    message: String,
    hints: Vec<&'static str>,
}

impl Error {
    /// What the system or a tool refused.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), hints: Vec::new() }
    }

    /// Adds what would help.
    pub(crate) fn hint(mut self, hint: &'static str) -> Error {
        self.hints.push(hint);
        self
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What would help; the first hint is the best.
    pub fn hints(&self) -> &[&'static str] {
        &self.hints
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
