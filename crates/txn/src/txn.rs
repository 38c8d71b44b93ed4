//! What a transaction is: one-shot, made of pieces, each on one shard `[dast 2.2]`.

use alloc::sync::Arc;
use alloc::vec::Vec;

/// A shard, numbered over all regions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Shard(pub u32);

/// What a client calls one of its transactions. Retries keep it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TxnId {
    /// The client.
    pub client: u32,
    /// Its number at that client, from 1.
    pub number: u64,
}

impl TxnId {
    /// The writer of what was there before any transaction.
    pub const INITIAL: TxnId = TxnId { client: 0, number: 0 };
}

/// A row. What the two parts mean is the procedures' business: table and row, or a hash of a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Key {
    /// The table.
    pub table: u64,
    /// The row.
    pub row: u64,
}

impl Key {
    /// `row` of `table`.
    pub const fn new(table: u64, row: u64) -> Key {
        Key { table, row }
    }
}

/// What a row holds, and what pieces hand to each other. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Value {
    /// One number.
    Int(i64),
    /// Several: the columns of a row, or a list that is appended to.
    Ints(#[cfg_attr(feature = "serde", serde(with = "crate::wire::slice"))] Arc<[i64]>),
    /// Bytes.
    Bytes(#[cfg_attr(feature = "serde", serde(with = "crate::wire::bytes"))] Arc<[u8]>),
    /// Several texts: a list, or a hash as field, value, field, value.
    Texts(#[cfg_attr(feature = "serde", serde(with = "crate::wire::texts"))] Arc<[Arc<[u8]>]>),
}

impl Value {
    /// The number, if it is one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The numbers, if it is some.
    pub fn ints(&self) -> Option<&[i64]> {
        match self {
            Value::Ints(numbers) => Some(numbers),
            _ => None,
        }
    }

    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> u64 {
        5 + match self {
            Value::Int(_) => 8,
            Value::Ints(numbers) => 8 * numbers.len() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::Texts(texts) => texts.iter().map(|text| 5 + text.len() as u64).sum(),
        }
    }
}

/// A variable that one piece gives and others need.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Var(pub u8);

/// One key of a piece, and what the piece may do with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Access {
    /// The row, or a key that stands for all rows of a predicate.
    pub key: Key,
    /// May write it; reading is always allowed.
    pub write: bool,
}

/// The part of a transaction on one shard that runs at once.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Piece {
    /// Where.
    pub shard: Shard,
    /// Which procedure.
    pub procedure: u16,
    /// What is known when it is submitted.
    pub args: Vec<i64>,
    /// Bytes among the arguments; empty for procedures of numbers.
    #[cfg_attr(feature = "serde", serde(with = "crate::wire::list"))]
    pub bytes: Vec<Arc<[u8]>>,
    /// Every key that it may touch, without repetition. Two pieces conflict when one writes what
    /// the other touches.
    pub accesses: Vec<Access>,
    /// Variables that it must have before it runs.
    pub needs: Vec<Var>,
    /// Variables that it gives.
    pub gives: Vec<Var>,
}

impl Piece {
    /// A piece of numbers that needs and gives nothing.
    pub fn new(shard: Shard, procedure: u16, args: Vec<i64>, accesses: Vec<Access>) -> Piece {
        let (bytes, needs, gives) = (Vec::new(), Vec::new(), Vec::new());
        Piece { shard, procedure, args, bytes, accesses, needs, gives }
    }

    fn wire_bytes(&self) -> u64 {
        let bytes: u64 = self.bytes.iter().map(|bytes| 5 + bytes.len() as u64).sum();
        let vars = (self.needs.len() + self.gives.len()) as u64;
        10 + 8 * self.args.len() as u64 + bytes + 17 * self.accesses.len() as u64 + vars
    }
}

/// A whole transaction. Shared, not copied.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Txn {
    /// Its name.
    pub id: TxnId,
    /// Its type, by the workload's numbering; protocols do not look at it.
    pub kind: u16,
    /// Its pieces. Those of one shard run in this order where they conflict.
    pub pieces: Vec<Piece>,
    /// It writes nothing, and may be read where the store allows that without messages.
    pub read_only: bool,
    /// Ordered after this timestamp, which an earlier answer gave: a causal token.
    pub after: Ts,
    shards: Vec<Shard>,
}

impl Txn {
    /// A transaction of at least one piece.
    ///
    /// # Panics
    /// Without pieces: a workload that makes one is wrong.
    pub fn new(id: TxnId, kind: u16, pieces: Vec<Piece>) -> Txn {
        assert!(!pieces.is_empty(), "a transaction has at least one piece");
        let mut shards: Vec<Shard> = pieces.iter().map(|piece| piece.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let writes = pieces.iter().flat_map(|piece| &piece.accesses).any(|access| access.write);
        let after = Ts::ZERO;
        Txn { id, kind, pieces, read_only: !writes, after, shards }
    }

    /// The shards that it touches, in order, each once.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Its pieces on `shard`, with their places.
    pub fn pieces_on(&self, shard: Shard) -> impl Iterator<Item = (usize, &Piece)> + '_ {
        self.pieces.iter().enumerate().filter(move |(_, piece)| piece.shard == shard)
    }

    /// Shards other than `giver` with a piece that needs a variable which a piece on `giver` gives.
    pub fn takers(&self, giver: Shard) -> impl Iterator<Item = Shard> + '_ {
        let gives =
            move |var: &Var| self.pieces_on(giver).any(|(_, piece)| piece.gives.contains(var));
        self.shards.iter().copied().filter(move |taker| {
            *taker != giver
                && self.pieces_on(*taker).any(|(_, piece)| piece.needs.iter().any(gives))
        })
    }

    /// Some piece on `shard` needs what a piece elsewhere gives.
    pub fn waits(&self, shard: Shard) -> bool {
        self.pieces_on(shard).any(|(_, piece)| {
            piece.needs.iter().any(|var| {
                let mut givers = self.pieces.iter().filter(|giver| giver.gives.contains(var));
                givers.any(|giver| giver.shard != shard)
            })
        })
    }

    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> u64 {
        40 + self.pieces.iter().map(Piece::wire_bytes).sum::<u64>()
    }
}

/// A timestamp: physical part, stretch counter, node; compared in that order `[dast 2.3]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ts {
    /// Nanoseconds of wall clock.
    pub t: u64,
    /// Nanoseconds of wall clock while the clock is stretched; 0 for anticipated timestamps.
    pub k: u64,
    /// Who gave it.
    pub n: u32,
}

impl Ts {
    /// Before everything.
    pub const ZERO: Ts = Ts { t: 0, k: 0, n: 0 };
    /// After everything.
    pub const MAX: Ts = Ts { t: u64::MAX, k: u64::MAX, n: u32::MAX };
    /// Bytes on the wire.
    pub const WIRE_BYTES: u64 = 20;
}
