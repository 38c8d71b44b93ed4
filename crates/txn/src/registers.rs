//! The plainest procedures: numbers and lists that are read, added to, appended to and moved
//! between shards. Enough for transfers, TPC-A and list-append, and for tests of protocols.

use crate::procedure::{Invocation, Procedures, Rows, Run};
use crate::txn::{Access, Key, Piece, Shard, Value, Var};
use alloc::vec;
use alloc::vec::Vec;

/// Reads every declared key; a row that is not there reads as an empty list.
pub const READ: u16 = 0;
/// Adds `args[i]` to the number in the i-th declared key; gives nothing.
pub const ADD: u16 = 1;
/// Appends `args[i]` to the list in the i-th declared key, and says what the list was before.
pub const APPEND: u16 = 2;
/// Reads the number in the first declared key and gives it as the first variable it gives.
pub const READ_AND_GIVE: u16 = 3;
/// Puts the sum of the variables that it needs into the first declared key.
pub const PUT_SUM: u16 = 4;
/// As [`ADD`], but takes itself back: the roll-back that a client asks for.
pub const TAKE_BACK: u16 = 5;

/// The procedures. Numbers begin as what the second part says, lists empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers {
    /// What every number is before it is written.
    pub initially: i64,
}

impl Procedures for Registers {
    fn run(&mut self, invocation: &Invocation<'_>, rows: &mut dyn Rows) -> Run {
        let piece = invocation.piece();
        let mut run = Run::default();
        match piece.procedure {
            READ => {
                for access in &piece.accesses {
                    let empty = || Value::Ints(Vec::new().into());
                    run.result.push(rows.read(access.key).unwrap_or_else(empty));
                }
            }
            ADD => {
                for (access, by) in piece.accesses.iter().zip(&piece.args) {
                    let sum = self.number(rows, access.key).wrapping_add(*by);
                    rows.write(access.key, Some(Value::Int(sum)));
                    run.result.push(Value::Int(sum));
                }
            }
            APPEND => {
                for (access, item) in piece.accesses.iter().zip(&piece.args) {
                    let before = rows.read(access.key);
                    let before = before.as_ref().and_then(Value::ints).unwrap_or_default();
                    let after: Vec<i64> = before.iter().copied().chain([*item]).collect();
                    run.result.push(Value::Ints(before.into()));
                    rows.write(access.key, Some(Value::Ints(after.into())));
                }
            }
            READ_AND_GIVE => {
                if let (Some(access), Some(var)) = (piece.accesses.first(), piece.gives.first()) {
                    let value = Value::Int(self.number(rows, access.key));
                    run.result.push(value.clone());
                    run.gives.push((*var, value));
                }
            }
            PUT_SUM => {
                let terms = piece.needs.iter().filter_map(|var| invocation.int(*var));
                let sum = terms.fold(0i64, i64::wrapping_add);
                if let Some(access) = piece.accesses.first() {
                    rows.write(access.key, Some(Value::Int(sum)));
                }
                run.result.push(Value::Int(sum));
            }
            _ => run.aborted = true,
        }
        run
    }
}

impl Registers {
    fn number(&self, rows: &mut dyn Rows, key: Key) -> i64 {
        rows.read(key).as_ref().and_then(Value::int).unwrap_or(self.initially)
    }
}

/// A piece that adds `by` to a number.
pub fn add(shard: Shard, key: Key, by: i64) -> Piece {
    Piece::new(shard, ADD, vec![by], vec![Access { key, write: true }])
}

/// A piece that adds `by` to each of some numbers.
pub fn add_to_all(shard: Shard, keys: &[Key], by: i64) -> Piece {
    let accesses = keys.iter().map(|key| Access { key: *key, write: true }).collect();
    Piece::new(shard, ADD, vec![by; keys.len()], accesses)
}

/// A piece that appends `item` to a list.
pub fn append(shard: Shard, key: Key, item: i64) -> Piece {
    Piece::new(shard, APPEND, vec![item], vec![Access { key, write: true }])
}

/// A piece that reads rows.
pub fn read(shard: Shard, keys: &[Key]) -> Piece {
    let accesses = keys.iter().map(|key| Access { key: *key, write: false }).collect();
    Piece::new(shard, READ, Vec::new(), accesses)
}

/// Two pieces: what is read in one row is put into another, elsewhere.
pub fn copy(from: (Shard, Key), to: (Shard, Key), var: Var) -> [Piece; 2] {
    [read_and_give(from.0, from.1, var), put_sum(to.0, to.1, &[var])]
}

/// A piece that reads a number and gives it.
pub fn read_and_give(shard: Shard, key: Key, var: Var) -> Piece {
    let read = vec![Access { key, write: false }];
    let mut giver = Piece::new(shard, READ_AND_GIVE, Vec::new(), read);
    giver.gives.push(var);
    giver
}

/// A piece that puts the sum of variables, which others give, into a row.
pub fn put_sum(shard: Shard, key: Key, vars: &[Var]) -> Piece {
    let write = vec![Access { key, write: true }];
    let mut taker = Piece::new(shard, PUT_SUM, Vec::new(), write);
    taker.needs.extend_from_slice(vars);
    taker
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedure::Given;
    use crate::store::Store;
    use crate::txn::{Ts, Txn, TxnId};

    const KEY: Key = Key::new(1, 7);

    fn run(store: &mut Store, number: u64, piece: Piece) -> (Run, Vec<crate::Op>) {
        let txn = Txn::new(TxnId { client: 1, number }, 0, vec![piece]);
        store.run(&mut Registers { initially: 10 }, &txn, 0, &Given::new(), Ts::ZERO)
    }

    #[test]
    fn pieces_do_what_they_say_and_versions_name_their_writers() {
        let mut store = Store::new();
        let (sum, ops) = run(&mut store, 1, add(Shard(0), KEY, 5));
        assert_eq!(sum.result, [Value::Int(15)]);
        assert_eq!(ops, [crate::Op { key: KEY, read: Some(TxnId::INITIAL), wrote: true }]);
        let (read, ops) = run(&mut store, 2, read(Shard(0), &[KEY]));
        assert_eq!(read.result, [Value::Int(15)]);
        assert_eq!(ops[0].read, Some(TxnId { client: 1, number: 1 }));
        assert!(!ops[0].wrote);
        let list = Key::new(2, 7);
        run(&mut store, 3, append(Shard(0), list, 1));
        let (run, _) = run(&mut store, 4, append(Shard(0), list, 2));
        assert_eq!(run.result, [Value::Ints(vec![1].into())]);
    }

    #[test]
    fn a_taker_waits_for_its_giver_and_a_roll_back_writes_nothing() {
        let [giver, taker] = copy((Shard(0), KEY), (Shard(3), KEY), Var(0));
        let txn = Txn::new(TxnId { client: 1, number: 1 }, 0, vec![taker.clone(), giver]);
        assert!(txn.waits(Shard(3)) && !txn.waits(Shard(0)) && !txn.read_only);
        assert_eq!(txn.takers(Shard(0)).collect::<Vec<_>>(), [Shard(3)]);
        assert_eq!(txn.takers(Shard(3)).count(), 0);
        let mut given = Given::new();
        assert!(!given.has_all(&taker));
        given.set(Var(0), Value::Int(4));
        assert!(given.has_all(&taker));
        let mut store = Store::new();
        let taken_back = Piece { procedure: TAKE_BACK, ..add(Shard(0), KEY, 5) };
        let (run, _) = run(&mut store, 9, taken_back);
        assert!(run.aborted && store.rows().count() == 0);
    }

    #[test]
    #[should_panic(expected = "is not declared")]
    fn undeclared_keys_are_out_of_reach() {
        struct Sly;
        impl Procedures for Sly {
            fn run(&mut self, _: &Invocation<'_>, rows: &mut dyn Rows) -> Run {
                rows.read(Key::new(9, 9));
                Run::default()
            }
        }
        let txn = Txn::new(TxnId { client: 1, number: 1 }, 0, vec![add(Shard(0), KEY, 1)]);
        Store::new().run(&mut Sly, &txn, 0, &Given::new(), Ts::ZERO);
    }
}
