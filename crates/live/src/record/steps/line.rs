//! A line between header and end: a step, or a mark.

use super::Said;
use crate::record::Summary;
use crate::record::lines::{Entry, Fields, hex, unhex};
use cavy_core::{Digest, Instant, Out};
use std::hash::Hash;
use std::io::Write as _;

/// Later times are damage: 146 years leave room to add spans.
const TIME_MAX_NS: u64 = u64::MAX >> 2;

/// Folds what a machine answered to a step.
#[inline]
pub(in crate::record) fn fold<E: Hash, T: Hash, G: Hash>(
    digest: &mut Digest,
    at: Instant,
    outs: &[Out<E, T>],
    given: Option<&G>,
) {
    digest.fold(at.as_ns());
    for out in outs {
        digest.fold_value(out);
    }
    if let Some(given) = given {
        digest.fold_value(given);
    }
}

/// A line of a recording between its header and its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::record) enum Line<S> {
    Step(Instant, S),
    /// What all steps until now come to. The sum of the lines before is added as it is written.
    Mark(Instant, Summary),
}

/// A line that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::record) struct Read<S> {
    pub(in crate::record) line: Line<S>,
    /// Of the lines before; marks have it.
    pub(in crate::record) sum: Option<u64>,
}

impl<S: Said> Entry for Line<S> {
    fn write(&self, line: &mut Vec<u8>, sum: u64) {
        // Memory takes all that is written.
        let _ = match self {
            Line::Step(at, step) => step.write(line, *at),
            Line::Mark(at, Summary { inputs, digest }) => {
                let (at, digest, sum) = (at.as_ns(), hex(*digest), hex(sum));
                write!(line, "[{at},\"mark\",{inputs},\"{digest}\",\"{sum}\"]")
            }
        };
    }
}

/// Reads a line.
pub(in crate::record) fn parse<S: Said>(text: &[u8]) -> Result<Read<S>, String> {
    let mut fields = Fields::of(text)?;
    let at = Instant::from_ns(fields.number("time", TIME_MAX_NS)?);
    let word = fields.value("the step's name")?;
    let word = word.as_str().ok_or_else(|| format!("the step's name is {word}"))?;
    if word == "mark" {
        let inputs = fields.number("steps", u64::MAX)?;
        let digest = fingerprint(&mut fields, "digest")?;
        let sum = Some(fingerprint(&mut fields, "sum")?);
        fields.end()?;
        return Ok(Read { line: Line::Mark(at, Summary { inputs, digest }), sum });
    }
    let step = S::read(word, &mut fields)?;
    fields.end()?;
    Ok(Read { line: Line::Step(at, step), sum: None })
}

fn fingerprint(fields: &mut Fields, what: &str) -> Result<u64, String> {
    let value = fields.value(what)?;
    unhex(what, value.as_str().ok_or_else(|| format!("{what} is {value}"))?)
}
