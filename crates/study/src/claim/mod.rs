//! Claims: what a source says, as data, and the judgement of what we measured.
//!
//! Expected values and tolerances live in files of the sources, apart from the code that measures;
//! nothing reads them while measuring. The measured values and the claims meet here, once, in
//! [`judge`].

use cavy_report::model::{Claim, Verdict};
use serde::Deserialize;

mod table;

pub use table::read;

/// One claim of a source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Stable name, such as `persephone.fig3.capacity`.
    pub id: String,
    /// Where the claim stands.
    pub source: String,
    /// What is claimed, one sentence.
    pub statement: String,
    /// The published value as printed.
    pub published: String,
    /// What the artifact reviewers read.
    pub reviewers: Option<String>,
    /// Unit of the value.
    pub unit: String,
    /// Accepted range, both ends included.
    pub tolerance: (f64, f64),
    /// Why it is what it is.
    pub reason: String,
    /// Why a miss is no surprise, for claims the specification doubts.
    pub doubt: Option<String>,
    /// The claim that must hold for the doubt to count as an explanation.
    pub explained_by: Option<String>,
}

impl Statement {
    /// The figure it belongs to: the middle part of its name.
    pub fn figure(&self) -> &str {
        self.id.split('.').nth(1).unwrap_or("")
    }

    /// The system it belongs to: the first part of its name.
    pub fn system(&self) -> &str {
        self.id.split('.').next().unwrap_or("")
    }
}

/// A measured value, by the name of the claim it answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The claim's name.
    pub id: String,
    /// The value; `None` when there are too few samples to give one.
    pub value: Option<f64>,
    /// Smallest over seeds, or lower end of the bracket.
    pub low: Option<f64>,
    /// Largest over seeds, or upper end of the bracket.
    pub high: Option<f64>,
    /// Samples behind it.
    pub samples: u64,
    /// What else there is to know.
    pub note: String,
}

/// Judges each claim by the value measured for it.
pub fn judge(
    statements: &[Statement],
    measured: &[Measured],
    repeat: &dyn Fn(&Statement) -> String,
) -> Vec<Claim> {
    let value_of = |id: &str| measured.iter().find(|m| m.id == id);
    let holds = |id: &str| {
        let statement = statements.iter().find(|s| s.id == id)?;
        let value = value_of(id)?.value?;
        Some(within(value, statement.tolerance))
    };
    statements
        .iter()
        .filter_map(|statement| {
            let found = value_of(&statement.id)?;
            let explained = || match &statement.explained_by {
                Some(id) => holds(id) == Some(true),
                // A doubt alone is an opinion: without evidence a miss stays a miss.
                None => false,
            };
            let (verdict, evidence) = match (found.value, &statement.doubt) {
                (None, _) => (Verdict::TooShort, found.note.clone()),
                (Some(value), _) if within(value, statement.tolerance) => {
                    (Verdict::Reproduced, found.note.clone())
                }
                (Some(_), Some(doubt)) if explained() => {
                    (Verdict::Explained, join(doubt, &found.note))
                }
                (Some(_), _) => (Verdict::NotReproduced, found.note.clone()),
            };
            Some(Claim {
                id: statement.id.clone(),
                system: statement.system().to_string(),
                figure: statement.figure().to_string(),
                source: statement.source.clone(),
                statement: statement.statement.clone(),
                published: statement.published.clone(),
                reviewers: statement.reviewers.clone(),
                unit: statement.unit.clone(),
                value: found.value,
                low: found.low,
                high: found.high,
                tolerance: Some(statement.tolerance),
                tolerance_reason: statement.reason.clone(),
                samples: found.samples,
                verdict,
                evidence,
                repeat: repeat(statement),
            })
        })
        .collect()
}

fn within(value: f64, (low, high): (f64, f64)) -> bool {
    // A value computed as 0.1 + 0.2 must not miss a bound of 0.3.
    let size = |bound: f64| if bound.is_finite() { bound.abs() } else { 0.0 };
    let slack = 1e-9 * (size(low) + size(high));
    low - slack <= value && value <= high + slack
}

fn join(a: &str, b: &str) -> String {
    if b.is_empty() { a.to_string() } else { format!("{a} {b}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMS: &str = r#"
        [[claim]]
        id = "s.f.a"
        source = "x"
        statement = "x"
        published = "1"
        unit = "x"
        tolerance = [0.9, 1.1]
        reason = "x"
        doubt = "The source is doubtful."
        explained_by = "s.f.b"
        [[claim]]
        id = "s.f.b"
        source = "x"
        statement = "x"
        published = "2"
        unit = "x"
        tolerance = [1.9, 2.1]
        reason = "x"
    "#;

    #[test]
    fn a_bound_that_is_open_leaves_the_other_in_force() {
        assert!(within(0.9, (0.9, f64::INFINITY)) && within(1e9, (0.9, f64::INFINITY)));
        assert!(!within(0.57, (0.9, f64::INFINITY)));
        assert!(within(0.1 + 0.2, (0.0, 0.3)));
    }

    fn verdicts(a: Option<f64>, b: Option<f64>) -> Vec<Verdict> {
        let measured = |id: &str, value| Measured {
            id: id.into(),
            value,
            low: None,
            high: None,
            samples: 0,
            note: String::new(),
        };
        let claims =
            judge(&read(CLAIMS), &[measured("s.f.a", a), measured("s.f.b", b)], &|_| String::new());
        claims.iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn a_doubt_explains_a_miss_only_when_its_evidence_holds() {
        use Verdict::*;
        assert_eq!(verdicts(Some(1.1), Some(2.0)), [Reproduced, Reproduced]);
        assert_eq!(verdicts(Some(1.5), Some(2.0)), [Explained, Reproduced]);
        assert_eq!(verdicts(Some(1.5), Some(3.0)), [NotReproduced, NotReproduced]);
        assert_eq!(verdicts(None, None), [TooShort, TooShort]);
    }
}
