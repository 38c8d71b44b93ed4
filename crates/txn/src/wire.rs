//! How serde writes what it does not know: names of nodes, and what is shared.

use crate::txn::{Piece, Ts, Txn, TxnId};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::Node;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A node.
pub mod node {
    use super::*;

    pub fn serialize<S: Serializer>(node: &Node, to: S) -> Result<S::Ok, S::Error> {
        node.0.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Node, D::Error> {
        u32::deserialize(from).map(Node)
    }
}

/// A node, or nobody.
pub mod somebody {
    use super::*;

    pub fn serialize<S: Serializer>(node: &Option<Node>, to: S) -> Result<S::Ok, S::Error> {
        node.map(|node| node.0).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Node>, D::Error> {
        Ok(Option::<u32>::deserialize(from)?.map(Node))
    }
}

/// Several nodes.
pub mod nodes {
    use super::*;

    pub fn serialize<S: Serializer>(nodes: &[Node], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(nodes.iter().map(|node| node.0))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Node>, D::Error> {
        Ok(Vec::<u32>::deserialize(from)?.into_iter().map(Node).collect())
    }
}

/// Something shared.
pub mod arc {
    use super::*;

    pub fn serialize<T: Serialize, S: Serializer>(of: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
        of.as_ref().serialize(to)
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<Arc<T>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        T::deserialize(from).map(Arc::new)
    }
}

/// Something shared, or nothing.
pub mod maybe {
    use super::*;

    pub fn serialize<T, S>(of: &Option<Arc<T>>, to: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize,
        S: Serializer,
    {
        of.as_deref().serialize(to)
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<Option<Arc<T>>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Option::<T>::deserialize(from)?.map(Arc::new))
    }
}

/// Several things, shared as one.
pub mod slice {
    use super::*;

    pub fn serialize<T: Serialize, S: Serializer>(of: &Arc<[T]>, to: S) -> Result<S::Ok, S::Error> {
        of.as_ref().serialize(to)
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<Arc<[T]>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<T>::deserialize(from)?.into())
    }
}

/// Bytes that are written as they are.
struct Raw(Arc<[u8]>);

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Raw, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Raw;

            fn expecting(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                to.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Raw, E> {
                Ok(Raw(bytes.into()))
            }
        }
        from.deserialize_bytes(Visitor)
    }
}

/// Bytes.
pub mod bytes {
    use super::*;

    pub fn serialize<S: Serializer>(of: &Arc<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(of)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[u8]>, D::Error> {
        Ok(Raw::deserialize(from)?.0)
    }
}

/// Several bytes.
pub mod list {
    use super::*;

    pub fn serialize<S: Serializer>(of: &[Arc<[u8]>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(of.iter().map(|bytes| Raw(bytes.clone())))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Arc<[u8]>>, D::Error> {
        Ok(Vec::<Raw>::deserialize(from)?.into_iter().map(|raw| raw.0).collect())
    }
}

/// Several bytes, shared as one.
pub mod texts {
    use super::*;

    type Texts = Arc<[Arc<[u8]>]>;

    pub fn serialize<S: Serializer>(of: &Texts, to: S) -> Result<S::Ok, S::Error> {
        list::serialize(of, to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Texts, D::Error> {
        Ok(list::deserialize(from)?.into())
    }
}

// Which shards a transaction touches follows from its pieces, and it has at least one.

impl Serialize for Txn {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.id, self.kind, &self.pieces, self.after).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Txn {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Txn, D::Error> {
        let (id, kind, pieces, after) = <(TxnId, u16, Vec<Piece>, Ts)>::deserialize(from)?;
        if pieces.is_empty() {
            return Err(serde::de::Error::custom("a transaction without pieces"));
        }
        let mut txn = Txn::new(id, kind, pieces);
        txn.after = after;
        Ok(txn)
    }
}
