//! How parts of a configuration are written that are no plain fields: in recordings of endpoints,
//! whose earlier ones are still read.

use crate::cutoffs::Cutoffs;
use alloc::format;
use alloc::vec::Vec;
use cavy_core::Span;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

/// As (levels, bounds).
impl Serialize for Cutoffs {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.levels(), self.bounds()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Cutoffs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Cutoffs, D::Error> {
        let (levels, bounds) = <(u8, Vec<u32>)>::deserialize(from)?;
        Cutoffs::new(levels, &bounds).ok_or_else(|| {
            D::Error::custom(format!("cut-offs {bounds:?} for {levels} levels; they must ascend"))
        })
    }
}

// What earlier recordings do not say was so.
pub fn one() -> u32 {
    1
}

pub fn unbounded_bytes() -> u64 {
    u64::MAX
}

pub fn unbounded() -> u32 {
    u32::MAX
}
