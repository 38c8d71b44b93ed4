//! Spans as nanoseconds.

use cavy_core::Span;
use serde::{Deserialize, Deserializer, Serializer};

pub fn serialize<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(span.as_ns())
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    u64::deserialize(from).map(Span::from_ns)
}
