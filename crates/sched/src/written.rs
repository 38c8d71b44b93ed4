//! How parts of a policy are written that are no plain fields: in recordings of pools.

use alloc::vec::Vec;
use cavy_core::Span;
use cavy_core::family::cpu::Kind;
use serde::{Deserialize, Deserializer, Serializer};

/// Spans as nanoseconds.
pub mod span {
    use super::*;

    pub fn serialize<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(span.as_ns())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        u64::deserialize(from).map(Span::from_ns)
    }
}

pub mod spans {
    use super::*;

    pub fn serialize<S: Serializer>(spans: &[Span], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(spans.iter().map(|span| span.as_ns()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Span>, D::Error> {
        let all = Vec::<u64>::deserialize(from)?;
        Ok(all.into_iter().map(Span::from_ns).collect())
    }
}

/// Types as their numbers.
pub mod groups {
    use super::*;

    pub fn serialize<S: Serializer>(groups: &[(Vec<Kind>, u16)], to: S) -> Result<S::Ok, S::Error> {
        let numbers = |kinds: &[Kind]| kinds.iter().map(|kind| kind.0).collect::<Vec<u16>>();
        to.collect_seq(groups.iter().map(|(kinds, workers)| (numbers(kinds), workers)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(Vec<Kind>, u16)>, D::Error> {
        let all = Vec::<(Vec<u16>, u16)>::deserialize(from)?;
        let kinds = |numbers: Vec<u16>| numbers.into_iter().map(Kind).collect();
        Ok(all.into_iter().map(|(numbers, workers)| (kinds(numbers), workers)).collect())
    }
}
