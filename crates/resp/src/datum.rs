//! What a key holds, and the sheet of keys that a command or a script works on.

use cavy_txn::{Key, Rows, Value};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A value of a key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Body {
    /// A string.
    Text(Vec<u8>),
    /// A list.
    List(VecDeque<Vec<u8>>),
    /// A hash.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A set.
    Set(BTreeSet<Vec<u8>>),
}

impl Body {
    /// Its name in Redis.
    pub fn kind(&self) -> &'static str {
        match self {
            Body::Text(_) => "string",
            Body::List(_) => "list",
            Body::Hash(_) => "hash",
            Body::Set(_) => "set",
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Body::Text(_) => false,
            Body::List(items) => items.is_empty(),
            Body::Hash(fields) => fields.is_empty(),
            Body::Set(members) => members.is_empty(),
        }
    }
}

/// A row: a value, when it expires, and how often it was written. A key that was deleted keeps its
/// count, so that WATCH sees it come back.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Datum {
    /// Writes so far.
    pub version: u64,
    /// Milliseconds since 1970; 0: never.
    pub expires_ms: u64,
    /// `None`: no such key.
    pub body: Option<Body>,
}

/// The row of a key: a hash of its name, so long that two names never share one.
pub fn row(name: &[u8]) -> Key {
    let hash = digest(&SHA256, name);
    let (table, rest) = hash.as_ref().split_at(8);
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    Key::new(number(table), number(&rest[..8]))
}

/// A row as it stands in the store.
pub fn read(value: Option<Value>) -> Datum {
    match value {
        Some(Value::Bytes(bytes)) => postcard::from_bytes(&bytes).unwrap_or_default(),
        _ => Datum::default(),
    }
}

pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap_or_default()
}

struct Cell {
    datum: Datum,
    own: bool,
    touched: bool,
}

/// The keys that were declared, as they stand at a moment. What is changed is written back at the
/// end, or not at all.
pub struct Sheet {
    cells: BTreeMap<Vec<u8>, Cell>,
    /// The transaction's time.
    pub now_ms: u64,
}

/// A key that was not declared.
#[derive(Debug, PartialEq, Eq)]
pub struct Undeclared;

impl Sheet {
    /// An empty one.
    pub fn new(now_ms: u64) -> Sheet {
        Sheet { cells: BTreeMap::new(), now_ms }
    }

    /// Adds a key of this shard.
    pub fn load(&mut self, name: &[u8], rows: &mut dyn Rows) {
        let datum = read(rows.read(row(name)));
        self.add(name, datum, true);
    }

    /// Adds a key of another one.
    pub fn lend(&mut self, name: &[u8], datum: Datum) {
        self.add(name, datum, false);
    }

    fn add(&mut self, name: &[u8], mut datum: Datum, own: bool) {
        if datum.expires_ms != 0 && datum.expires_ms <= self.now_ms {
            (datum.body, datum.expires_ms) = (None, 0);
        }
        self.cells.insert(name.to_vec(), Cell { datum, own, touched: false });
    }

    fn cell(&mut self, name: &[u8]) -> Result<&mut Cell, Undeclared> {
        self.cells.get_mut(name).ok_or(Undeclared)
    }

    /// What a key holds.
    pub fn get(&mut self, name: &[u8]) -> Result<&Datum, Undeclared> {
        self.cell(name).map(|cell| &cell.datum)
    }

    /// What a key holds, to be changed.
    pub fn change(&mut self, name: &[u8]) -> Result<&mut Datum, Undeclared> {
        let cell = self.cell(name)?;
        cell.touched = true;
        Ok(&mut cell.datum)
    }

    /// Writes back the keys of this shard that were changed.
    pub fn store(self, rows: &mut dyn Rows) {
        for (name, mut cell) in self.cells {
            if cell.own && cell.touched {
                cell.datum.version += 1;
                if cell.datum.body.as_ref().is_none_or(Body::is_empty) {
                    (cell.datum.body, cell.datum.expires_ms) = (None, 0);
                }
                rows.write(row(&name), Some(Value::Bytes(encode(&cell.datum).into())));
            }
        }
    }

    /// Keys of this shard as other shards need them.
    pub fn shared(&self) -> Vec<(Vec<u8>, Datum)> {
        self.cells.iter().map(|(name, cell)| (name.clone(), cell.datum.clone())).collect()
    }
}
