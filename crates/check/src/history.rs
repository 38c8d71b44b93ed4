//! What was observed: transactions with their operations, and what replicas applied.

use crate::atom::{Atom, Table, Texts};

/// How a transaction ended, as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was answered: it took place.
    Ok,
    /// It certainly did not take place.
    Aborted,
    /// Nobody knows. It took place if somebody saw what it wrote.
    Unknown,
}

/// Where a transaction took place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Region {
    /// In this region only.
    One(Atom),
    /// In several.
    Many,
    /// The history does not say.
    Unsaid,
}

/// A transaction without its operations.
#[derive(Clone, Copy, Debug)]
pub struct Txn {
    /// Names it; no two have the same name.
    pub name: Atom,
    /// What kind it is, such as `payment`.
    pub kind: Option<Atom>,
    /// Who asked for it.
    pub client: Option<Atom>,
    /// Where it took place.
    pub region: Region,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was asked for. Nanoseconds, or any other count that grows with real time.
    pub invoked: u64,
    /// When it was answered, on the same scale; `u64::MAX` when it never was.
    pub completed: u64,
    /// Line of the file, from 1; 0 when there is no file.
    pub line: u64,
}

/// What a transaction did to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Appended a value to a list.
    Append(Atom),
    /// Wrote a value.
    Write(Atom),
    /// Read a value; `None` is what was there before the first write.
    Read(Option<Atom>),
    /// Read this many elements, a prefix of the key's [`Key::order`].
    List(u32),
    /// Read a list that contradicts other reads: its number in [`History::odd`].
    Odd(u32),
    /// Read something that nobody told.
    Unread,
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// The key, by its number in [`History::keys`].
    pub key: u32,
    /// What was done.
    pub act: Act,
}

/// A key and what is known of the order of its versions.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name.
    pub name: Atom,
    /// The longest list that was read.
    pub order: Vec<Atom>,
    /// Names of the transactions that wrote it, in the order in which replicas applied them.
    pub log: Vec<Atom>,
}

/// A list that contradicts others.
#[derive(Clone, Debug)]
pub struct OddList {
    /// Its elements.
    pub elements: Vec<Atom>,
}

/// Two replicas applied different writes to a key at the same place.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// The replica that differs from those before it in the file.
    pub replica: Atom,
    /// The key, by number.
    pub key: u32,
    /// Place in the key's log, from 0.
    pub place: usize,
    /// What it applied.
    pub applied: Atom,
    /// What others applied there.
    pub others: Atom,
}

/// The state of a replica at the end.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The replica.
    pub replica: Atom,
    /// The shard it is a replica of.
    pub shard: Atom,
    /// A digest of all it holds.
    pub digest: Atom,
}

/// How far a replica is with a key.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The replica.
    pub replica: Atom,
    /// The key, by number.
    pub key: u32,
    /// Entries applied.
    pub applied: u32,
    /// It has differed, and what follows is not compared any more.
    pub astray: bool,
}

/// Lists that contradict others are kept in full up to this many.
const ODD_MOST: usize = 1000;

/// A whole history.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All texts.
    pub texts: Texts,
    /// Transactions, in the order in which they were added.
    pub txns: Vec<Txn>,
    /// Keys, in the order in which they were first named.
    pub keys: Vec<Key>,
    /// Lists that contradict others.
    pub odd: Vec<OddList>,
    /// Where replicas differ, the first place for each replica and key.
    pub divergences: Vec<Divergence>,
    /// States at the end.
    pub states: Vec<State>,
    /// How far each replica came with each key.
    pub cursors: Vec<Cursor>,
    /// The run ended with nothing under way, so replicas must be equal.
    pub quiescent: bool,
    ops: Vec<Op>,
    // Where the operations of each transaction end.
    ends: Vec<usize>,
    key_numbers: Table<Atom>,
    txn_numbers: Table<Atom>,
    cursor_numbers: Table<(Atom, u32)>,
}

/// Two transactions have the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Twice {
    /// Line of the first one.
    pub first_line: u64,
}

impl History {
    /// A history without transactions.
    pub fn new() -> Self {
        History::default()
    }

    /// The number of the key called `name`, which is new if it was not seen yet.
    ///
    /// # Panics
    /// When there are more than 500 million keys.
    pub fn key(&mut self, name: Atom) -> u32 {
        if let Some(at) = self.key_numbers.get(&name) {
            return *at;
        }
        let at = self.keys.len() as u32;
        assert!(at < 1 << 29, "fewer keys than 500 million");
        self.keys.push(Key { name, order: Vec::new(), log: Vec::new() });
        self.key_numbers.insert(name, at);
        at
    }

    /// Adds a transaction; the operations added next are its own.
    ///
    /// # Errors
    /// When there is one with that name.
    pub fn begin(&mut self, txn: Txn) -> Result<u32, Twice> {
        let at = self.txns.len() as u32;
        if let Some(first) = self.txn_numbers.get(&txn.name) {
            return Err(Twice { first_line: self.txns[*first as usize].line });
        }
        self.txn_numbers.insert(txn.name, at);
        self.txns.push(txn);
        self.ends.push(self.ops.len());
        Ok(at)
    }

    /// Adds an operation to the transaction added last. What a transaction read that did not
    /// certainly take place tells nothing, and is not kept.
    pub fn op(&mut self, key: u32, act: Act) {
        let Some(txn) = self.txns.last() else { return };
        let act = match act {
            Act::Read(_) | Act::List(_) | Act::Odd(_) if txn.outcome != Outcome::Ok => Act::Unread,
            act => act,
        };
        self.ops.push(Op { key, act });
        if let Some(end) = self.ends.last_mut() {
            *end = self.ops.len();
        }
    }

    /// Adds a read of the whole list `elements`: kept as a length if it agrees with what was read
    /// before, in full if it does not.
    pub fn list(&mut self, key: u32, elements: &[Atom]) {
        if self.txns.last().is_none_or(|txn| txn.outcome != Outcome::Ok) {
            return self.op(key, Act::Unread);
        }
        let order = &mut self.keys[key as usize].order;
        let shared = order.len().min(elements.len());
        if order[..shared] == elements[..shared] {
            order.extend_from_slice(&elements[shared..]);
            return self.op(key, Act::List(elements.len() as u32));
        }
        if self.odd.len() < ODD_MOST {
            self.odd.push(OddList { elements: elements.to_vec() });
        }
        self.op(key, Act::Odd(self.odd.len() as u32 - 1));
    }

    /// `replica` applied a write of the transaction `writer` to `key`, after all it applied before.
    pub fn applied(&mut self, replica: Atom, key: u32, writer: Atom) {
        let next = self.cursors.len() as u32;
        let at = *self.cursor_numbers.entry((replica, key)).or_insert(next);
        if at == next {
            self.cursors.push(Cursor { replica, key, applied: 0, astray: false });
        }
        let cursor = &mut self.cursors[at as usize];
        let place = cursor.applied as usize;
        cursor.applied += 1;
        let log = &mut self.keys[key as usize].log;
        match log.get(place) {
            _ if cursor.astray => {}
            None => log.push(writer),
            Some(others) if *others == writer => {}
            Some(&others) => {
                cursor.astray = true;
                self.divergences.push(Divergence { replica, key, place, applied: writer, others });
            }
        }
    }

    /// Operations of transaction `txn`, in its order.
    pub fn ops(&self, txn: u32) -> &[Op] {
        let txn = txn as usize;
        let start = if txn == 0 { 0 } else { self.ends[txn - 1] };
        &self.ops[start..self.ends[txn]]
    }

    /// The transaction called `name`.
    pub fn named(&self, name: Atom) -> Option<u32> {
        self.txn_numbers.get(&name).copied()
    }

    /// All operations there are.
    pub fn operations(&self) -> usize {
        self.ops.len()
    }

    /// Name of a key for a reader.
    pub fn show_key(&self, key: u32) -> String {
        self.texts.show(self.keys[key as usize].name)
    }
}
