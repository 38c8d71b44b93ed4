//! What is known of a type before its first request comes.

use cavy_core::Span;

/// What is known of a type before the first request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TypeHint {
    /// Mean service time.
    pub mean: Span,
    /// Share of all requests.
    pub ratio: f64,
}

/// As (mean in ns, ratio).
#[cfg(feature = "serde")]
impl serde::Serialize for TypeHint {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.mean.as_ns(), self.ratio).serialize(to)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for TypeHint {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<TypeHint, D::Error> {
        let (mean_ns, ratio) = <(u64, f64) as serde::Deserialize>::deserialize(from)?;
        Ok(TypeHint { mean: Span::from_ns(mean_ns), ratio })
    }
}
