//! What clients of every protocol say and hear, and what observers are told.

use crate::procedure::Given;
use crate::txn::{Key, Ts, Txn, TxnId, Value};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cavy_core::family::message::Message;

/// A transaction is asked for. An attempt that is repeated is the same request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Request(#[cfg_attr(feature = "serde", serde(with = "crate::wire::arc"))] pub Arc<Txn>);

impl Message for Request {
    fn wire_bytes(&self) -> u64 {
        self.0.wire_bytes()
    }
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Response {
    /// To what.
    pub id: TxnId,
    /// What it is.
    pub outcome: Outcome,
}

/// How a transaction ended.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// It took effect.
    Committed {
        /// When, in the protocol's order. [`Ts::ZERO`] from protocols without timestamps.
        at: Ts,
        /// What its pieces came to, in the order of [`Txn::pieces`].
        pieces: Vec<PieceResult>,
    },
    /// It took itself back and had no effect.
    Aborted,
    /// The protocol gave it up, after so many tries; it had no effect.
    GivenUp {
        /// Tries.
        tries: u32,
    },
}

impl Outcome {
    /// It took effect at `at`, and its pieces came to this, in any order.
    pub fn committed(at: Ts, mut pieces: Vec<PieceResult>) -> Outcome {
        pieces.sort_by_key(|result| result.piece);
        Outcome::Committed { at, pieces }
    }

    /// The whole of what shards say, where the protocol has no timestamps.
    pub(crate) fn of<'a>(parts: impl Iterator<Item = &'a Done> + Clone) -> Outcome {
        if parts.clone().any(|done| done.aborted) {
            return Outcome::Aborted;
        }
        let pieces = parts.flat_map(|done| done.results.iter().cloned()).collect();
        Outcome::committed(Ts::ZERO, pieces)
    }
}

/// What the pieces of one shard came to, where the protocol has no timestamps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Done {
    /// Its pieces.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))]
    pub results: Arc<[PieceResult]>,
    /// What they gave.
    pub gives: Given,
    /// They took themselves back.
    pub aborted: bool,
}

/// What one piece came to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PieceResult {
    /// Its place in [`Txn::pieces`].
    pub piece: u16,
    /// What it says to the client.
    pub result: Vec<Value>,
    /// What it did, in order, for checkers. Empty unless the machine keeps histories.
    pub ops: Vec<Op>,
}

impl PieceResult {
    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> u64 {
        let values: u64 = self.result.iter().map(Value::wire_bytes).sum();
        6 + values + 29 * self.ops.len() as u64
    }
}

/// One access, with the versions that it saw and made. A version is named by its writer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Op {
    /// Of this row.
    pub key: Key,
    /// Whose version was read; [`TxnId::INITIAL`] for what was there before. `None`: not read.
    pub read: Option<TxnId>,
    /// A new version was written, whose writer is the transaction itself.
    pub wrote: bool,
}

impl Message for Response {
    fn wire_bytes(&self) -> u64 {
        16 + match &self.outcome {
            Outcome::Committed { pieces, .. } => {
                Ts::WIRE_BYTES + pieces.iter().map(PieceResult::wire_bytes).sum::<u64>()
            }
            Outcome::Aborted | Outcome::GivenUp { .. } => 4,
        }
    }
}

/// What machines tell observers. Told only when histories are kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Note {
    /// This replica has applied the writes of a piece: the log that version orders come from.
    Applied {
        /// Of which transaction.
        id: TxnId,
        /// In which order.
        at: Ts,
        /// The rows that got a new version.
        keys: Vec<Key>,
    },
    /// This replica took over the state of another one at this point of its log.
    Copied {
        /// Whose.
        from: cavy_core::family::Node,
    },
}
