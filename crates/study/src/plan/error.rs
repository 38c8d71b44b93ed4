//! What can be wrong with a plan: one sentence naming the field and the value, then hints.

use std::fmt;
use std::ops::Range;

/// A mistake in a plan or in a file it names.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanError {
    /// The file, when there is one.
    pub file: Option<String>,
    /// One sentence: field, value, what is wrong.
    pub message: String,
    /// How to cure it.
    pub hints: Vec<String>,
    /// Bytes of the file that are to blame, when known.
    pub span: Option<Range<usize>>,
}

impl PlanError {
    /// `field` has `value`, which must be something else.
    pub fn field(field: impl fmt::Display, value: impl fmt::Display, must: &str) -> Self {
        let mut value = value.to_string();
        // Three hundred digits say less than an exponent.
        if value.len() > 20
            && let Ok(number) = value.parse::<f64>()
        {
            value = format!("{number:e}");
        }
        PlanError::text(format!("`{field}` is {value}; it must be {must}"))
    }

    /// A sentence of its own.
    pub fn text(message: impl Into<String>) -> Self {
        PlanError { file: None, message: message.into(), hints: Vec::new(), span: None }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Names the file.
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file.get_or_insert(file.into());
        self
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{file}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for PlanError {}
