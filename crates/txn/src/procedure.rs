//! What a piece does: deterministic code that a machine owns and does not know.

use crate::txn::{Key, Piece, Txn, Value, Var};
use alloc::vec::Vec;

/// The procedures of a workload, or an engine for scripts.
///
/// Every replica runs the same pieces in the same order on the same rows, so a procedure may depend
/// on nothing but its [`Invocation`], the rows of its declared keys, and what earlier pieces left
/// there: no clock, no randomness, no state of its own that another replica would not have.
pub trait Procedures {
    /// Runs one piece.
    fn run(&mut self, invocation: &Invocation<'_>, rows: &mut dyn Rows) -> Run;

    /// What `key` holds before any transaction wrote it. Populations that are computed need no
    /// memory until they are touched.
    fn initial(&self, _key: Key) -> Option<Value> {
        None
    }
}

/// A piece that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// Its transaction.
    pub txn: &'a Txn,
    /// Its place in [`Txn::pieces`].
    pub piece: usize,
    /// What it needs.
    pub given: &'a Given,
    /// The time of day inside of the procedure: the timestamp of the transaction, in nanoseconds,
    /// or 0 where the protocol has none.
    pub time_ns: u64,
}

impl Invocation<'_> {
    /// The piece.
    pub fn piece(&self) -> &Piece {
        &self.txn.pieces[self.piece]
    }

    /// The variable, if it is a number that was given.
    pub fn int(&self, var: Var) -> Option<i64> {
        self.given.get(var).and_then(Value::int)
    }
}

/// The rows that a piece may touch: those that it declared.
pub trait Rows {
    /// What `key` holds; `None` when there is no such row.
    fn read(&mut self, key: Key) -> Option<Value>;
    /// Makes `key` hold `value`; `None` deletes the row.
    fn write(&mut self, key: Key, value: Option<Value>);
}

/// What a piece came to.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Run {
    /// The variables that it gives, all of them.
    pub gives: Vec<(Var, Value)>,
    /// What the client gets.
    pub result: Vec<Value>,
    /// The transaction takes itself back. Every piece of it must say so, each from what it knows,
    /// and none may have written.
    pub aborted: bool,
}

/// Variables that have values, in order of their names.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Given(Vec<(Var, Value)>);

impl Given {
    /// None.
    pub fn new() -> Given {
        Given::default()
    }

    /// The value of `var`.
    pub fn get(&self, var: Var) -> Option<&Value> {
        let place = self.0.binary_search_by_key(&var, |(var, _)| *var).ok()?;
        Some(&self.0[place].1)
    }

    /// Sets a variable. A second value for one is ignored: deterministic code gives the same.
    pub fn set(&mut self, var: Var, value: Value) {
        if let Err(place) = self.0.binary_search_by_key(&var, |(var, _)| *var) {
            self.0.insert(place, (var, value));
        }
    }

    /// Every variable that `piece` needs has a value.
    pub fn has_all(&self, piece: &Piece) -> bool {
        piece.needs.iter().all(|var| self.get(*var).is_some())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &(Var, Value)> {
        self.0.iter()
    }

    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> u64 {
        self.0.iter().map(|(_, value)| 1 + value.wire_bytes()).sum()
    }
}
