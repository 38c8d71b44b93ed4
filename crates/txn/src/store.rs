//! The rows of one replica, each with the transaction that wrote it.

use crate::client::Op;
use crate::procedure::{Given, Invocation, Procedures, Rows, Run};
use crate::txn::{Access, Key, Ts, Txn, TxnId, Value};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What rows are to hold; `None` deletes one.
pub type Writes = Vec<(Key, Option<Value>)>;

/// A row and its version.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Row {
    /// `None`: deleted.
    pub value: Option<Value>,
    /// Who wrote it.
    pub writer: TxnId,
    /// Its place in the order of the protocol; [`Ts::ZERO`] where there is none.
    pub at: Ts,
}

/// All rows that were ever written at this replica. What was not written is as the procedures say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Store {
    rows: BTreeMap<Key, Row>,
}

impl Store {
    /// An empty one.
    pub fn new() -> Store {
        Store::default()
    }

    /// The row of `key`, if it was written.
    pub fn row(&self, key: Key) -> Option<&Row> {
        self.rows.get(&key)
    }

    /// All rows that were written, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (&Key, &Row)> {
        self.rows.iter()
    }

    /// Who wrote what `key` holds.
    pub fn writer(&self, key: Key) -> TxnId {
        self.rows.get(&key).map_or(TxnId::INITIAL, |row| row.writer)
    }

    /// Puts a row in place as it is.
    pub fn set(&mut self, key: Key, row: Row) {
        self.rows.insert(key, row);
    }

    /// Runs one piece and applies what it writes. Returns what it came to and what it did.
    pub fn run(
        &mut self,
        procedures: &mut dyn Procedures,
        txn: &Txn,
        piece: usize,
        given: &Given,
        at: Ts,
    ) -> (Run, Vec<Op>) {
        let (run, ops, writes) = self.rehearse(procedures, txn, piece, given, at, &[]);
        self.apply(txn.id, at, writes);
        (run, ops)
    }

    /// Runs one piece without applying anything: what it came to, what it did, what it would write.
    /// For protocols that execute before they decide. `over`: what earlier pieces of the
    /// transaction would write.
    pub fn rehearse(
        &self,
        procedures: &mut dyn Procedures,
        txn: &Txn,
        piece: usize,
        given: &Given,
        at: Ts,
        over: &[(Key, Option<Value>)],
    ) -> (Run, Vec<Op>, Writes) {
        // The procedures lend their populations while they run, so what they say of rows that were
        // never written is asked for beforehand.
        let declared = &txn.pieces[piece].accesses;
        let initial = declared
            .iter()
            .filter(|access| !self.rows.contains_key(&access.key))
            .filter_map(|access| Some((access.key, procedures.initial(access.key)?)))
            .collect();
        let (ops, writes) = (Vec::new(), Vec::new());
        let mut window = Window { store: self, own: txn.id, over, declared, initial, ops, writes };
        let invocation = Invocation { txn, piece, given, time_ns: at.t };
        let run = procedures.run(&invocation, &mut window);
        let Window { ops, writes, .. } = window;
        assert!(!run.aborted || writes.is_empty(), "a piece of {:?} wrote and aborted", txn.id);
        (run, ops, writes)
    }

    /// Applies writes as the versions of `writer`.
    pub fn apply(&mut self, writer: TxnId, at: Ts, writes: Writes) {
        for (key, value) in writes {
            self.rows.insert(key, Row { value, writer, at });
        }
    }
}

/// What one piece sees: its declared keys.
struct Window<'a> {
    store: &'a Store,
    own: TxnId,
    over: &'a [(Key, Option<Value>)],
    declared: &'a [Access],
    initial: BTreeMap<Key, Value>,
    ops: Vec<Op>,
    writes: Writes,
}

impl Window<'_> {
    fn op(&mut self, key: Key) -> &mut Op {
        let place = match self.ops.iter().position(|op| op.key == key) {
            Some(place) => place,
            None => {
                self.ops.push(Op { key, read: None, wrote: false });
                self.ops.len() - 1
            }
        };
        &mut self.ops[place]
    }
}

impl Rows for Window<'_> {
    /// # Panics
    /// When the piece did not declare the key: its order would not be that of its conflicts.
    fn read(&mut self, key: Key) -> Option<Value> {
        assert!(self.declared.iter().any(|a| a.key == key), "{key:?} is not declared");
        if let Some((_, own)) = self.writes.iter().rev().find(|(written, _)| *written == key) {
            return own.clone();
        }
        if let Some((_, own)) = self.over.iter().find(|(written, _)| *written == key) {
            let own = own.clone();
            self.op(key).read = Some(self.own);
            return own;
        }
        let writer = self.store.writer(key);
        self.op(key).read = Some(writer);
        match self.store.row(key) {
            Some(row) => row.value.clone(),
            None => self.initial.get(&key).cloned(),
        }
    }

    /// # Panics
    /// When the piece did not declare that it writes the key.
    fn write(&mut self, key: Key, value: Option<Value>) {
        let declared = self.declared.iter().any(|access| access.key == key && access.write);
        assert!(declared, "a write of {key:?} is not declared");
        self.op(key).wrote = true;
        match self.writes.iter_mut().find(|(written, _)| *written == key) {
            Some((_, own)) => *own = value,
            None => self.writes.push((key, value)),
        }
    }
}
