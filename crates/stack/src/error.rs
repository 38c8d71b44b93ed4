//! Why there is no stack here.

use std::io;

/// One sentence, and what would help.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
    hint: &'static str,
    #[source]
    source: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>, hint: &'static str) -> Error {
        Error { message: message.into(), hint, source: None }
    }

    pub(crate) fn of(what: &str, error: io::Error, hint: &'static str) -> Error {
        Error { message: format!("{what}: {error}"), hint, source: Some(error) }
    }

    /// What would help.
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}
