//! `FCALL`: transactions that are not made of commands, with pieces of their own. TPC-C is all of
//! them.
//!
//! `FCALL tpcc.payment 0 ...` takes the numbers of [`Asked`]; `FCALL tpcc.rows 0 shard table row
//! ...` says what rows hold. An answer has a list for each piece. Where machines keep histories it
//! is a map: `pieces`, the transaction's `name`, and `ops`, each with a row, the version that was
//! read (or nothing) and whether it was written.

use crate::reply::Reply;
use cavy_txn::tpcc::asked::{ROWS_MAX, look_at};
use cavy_txn::tpcc::{Asked, KINDS, NATIVE};
use cavy_txn::{Key, Layout, Outcome, PieceResult, Response, Shard, Txn, TxnId, Value};

const LIBRARY: &str = "tpcc";
const ROWS: &str = "rows";

/// The transaction that a request asks for.
///
/// # Errors
/// What is wrong with it, as an answer.
pub fn ask(words: &[Vec<u8>], layout: &Layout, id: TxnId) -> Result<Txn, Reply> {
    let [_, name, keys, rest @ ..] = words else {
        return Err(Reply::err("wrong number of arguments for 'fcall' command"));
    };
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let Some(kind) = name.strip_prefix(LIBRARY).and_then(|rest| rest.strip_prefix('.')) else {
        return Err(Reply::err("Function not found"));
    };
    if keys != b"0" {
        return Err(Reply::err(format!(
            "{name} takes 0 keys: its numbers say which rows it needs"
        )));
    }
    let number = |word: &Vec<u8>| -> Result<u64, Reply> {
        let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| Reply::err(format!("the arguments of {name} are whole numbers")))
    };
    let numbers = rest.iter().map(number).collect::<Result<Vec<u64>, Reply>>()?;
    let mut txn = match (kind, &numbers[..]) {
        (ROWS, [shard, rows @ ..]) => rows_at(*shard, rows, layout, id)?,
        (ROWS, []) => return Err(Reply::err("tpcc.rows takes a shard, then tables and rows")),
        _ => {
            let asked = Asked::read(kind, &numbers, layout);
            asked.map_err(|why| Reply::err(format!("{name}: {why}")))?.txn(id)
        }
    };
    for piece in &mut txn.pieces {
        piece.procedure |= NATIVE;
    }
    Ok(txn)
}

fn rows_at(shard: u64, rows: &[u64], layout: &Layout, id: TxnId) -> Result<Txn, Reply> {
    if shard >= u64::from(layout.shards()) {
        let last = layout.shards() - 1;
        return Err(Reply::err(format!("shard is {shard}; it must be 0 to {last}")));
    }
    let pairs = rows.chunks(2);
    let keys = pairs.map(|pair| match pair {
        [table, row] => Some(Key::new(*table, *row)),
        _ => None,
    });
    let keys: Option<Vec<Key>> = keys.collect();
    let keys = keys.filter(|keys| (1..=ROWS_MAX).contains(&keys.len()));
    let Some(keys) = keys else {
        return Err(Reply::err(format!("tpcc.rows takes 1 to {ROWS_MAX} pairs of table and row")));
    };
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < keys.len() {
        return Err(Reply::err("a row stands twice"));
    }
    Ok(look_at(id, Shard(shard as u32), &keys))
}

fn told(value: &Value) -> Reply {
    match value {
        Value::Int(number) => Reply::Int(*number),
        Value::Ints(numbers) => Reply::Array(numbers.iter().copied().map(Reply::Int).collect()),
        Value::Bytes(bytes) => Reply::bulk(bytes),
        Value::Texts(texts) => Reply::Array(texts.iter().map(Reply::bulk).collect()),
    }
}

fn name(id: TxnId) -> String {
    format!("{}.{}", id.client, id.number)
}

fn operations(pieces: &[PieceResult]) -> Vec<Reply> {
    let ops = pieces.iter().flat_map(|piece| &piece.ops);
    let of = |op: &cavy_txn::Op| {
        let read = op.read.map_or(Reply::Nil, |writer| match writer {
            TxnId::INITIAL => Reply::bulk(""),
            writer => Reply::bulk(name(writer)),
        });
        let key = format!("{}/{}", op.key.table, op.key.row);
        Reply::Array(vec![Reply::bulk(key), read, Reply::Int(op.wrote.into())])
    };
    ops.map(of).collect()
}

/// What the client hears.
pub fn answer(response: &Response) -> Reply {
    match &response.outcome {
        Outcome::Aborted => Reply::Nil,
        Outcome::GivenUp { tries } => {
            Reply::Error(format!("TRYAGAIN the transaction was given up after {tries} tries"))
        }
        Outcome::Committed { pieces, .. } => {
            let of = |piece: &PieceResult| Reply::Array(piece.result.iter().map(told).collect());
            let results = Reply::Array(pieces.iter().map(of).collect());
            if pieces.iter().all(|piece| piece.ops.is_empty()) {
                return results;
            }
            Reply::Map(vec![
                (Reply::bulk("pieces"), results),
                (Reply::bulk("name"), Reply::bulk(name(response.id))),
                (Reply::bulk("ops"), Reply::Array(operations(pieces))),
            ])
        }
    }
}

/// What FUNCTION LIST says.
pub fn list() -> Reply {
    let pair = |name: &str, value| (Reply::bulk(name), value);
    let names = KINDS.iter().copied().chain([ROWS]);
    let names = names.map(|kind| Reply::bulk(format!("{LIBRARY}.{kind}")));
    let functions = names.map(|name| Reply::Map(vec![pair("name", name)]));
    Reply::Array(vec![Reply::Map(vec![
        pair("library_name", Reply::bulk(LIBRARY)),
        pair("engine", Reply::bulk("native")),
        pair("functions", Reply::Array(functions.collect())),
    ])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_txn::Ts;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    const ID: TxnId = TxnId { client: 3, number: 8 };

    fn asked(line: &str) -> Result<Txn, String> {
        ask(&words(line), &Layout::new(2, 1), ID).map_err(|reply| format!("{reply:?}"))
    }

    #[test]
    fn a_payment_has_the_pieces_that_it_has_in_the_lab() {
        let txn = asked("FCALL tpcc.payment 0 0 4 1 9 1007 1 250 77").expect("it is right");
        let numbers = [0, 4, 1, 9, 1_007, 1, 250, 77];
        let lab = Asked::read("payment", &numbers, &Layout::new(2, 1)).unwrap().txn(ID);
        assert_eq!(txn.shards(), lab.shards());
        for (own, lab) in txn.pieces.iter().zip(&lab.pieces) {
            assert_eq!((own.procedure, &own.args), (lab.procedure | NATIVE, &lab.args));
            assert_eq!((&own.accesses, &own.needs), (&lab.accesses, &lab.needs));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, said) in [
            ("FCALL tpcc.payment", "wrong number of arguments"),
            ("FCALL other.thing 0", "Function not found"),
            ("FCALL tpcc.theft 0 1", "theft is none of new_order, payment"),
            ("FCALL tpcc.payment 1 k", "takes 0 keys"),
            ("FCALL tpcc.payment 0 1 2", "2 numbers are not what payment takes"),
            ("FCALL tpcc.payment 0 -1", "whole numbers"),
            ("FCALL tpcc.delivery 0 2 0 1", "warehouse is 2; it must be 0 to 1"),
            ("FCALL tpcc.delivery 0 0 10 1", "district is 10; it must be 0 to 9"),
            ("FCALL tpcc.new_order 0 0 0 0 1 0", "an order has 0 lines"),
            ("FCALL tpcc.new_order 0 0 0 0 1 0 0 5", "a line is a supplier"),
            ("FCALL tpcc.new_order 0 0 0 0 1 0 0 5 1 0 5 1", "has two lines"),
            ("FCALL tpcc.rows 0", "a shard, then tables and rows"),
            ("FCALL tpcc.rows 0 7 1 1", "shard is 7"),
            ("FCALL tpcc.rows 0 0 1", "pairs of table and row"),
            ("FCALL tpcc.rows 0 0 1 1 1 1", "a row stands twice"),
        ] {
            let found = asked(line).expect_err(line);
            assert!(found.contains(said), "{line}: {found}");
        }
    }

    #[test]
    fn a_history_names_versions_by_their_writers() {
        let key = Key::new(3, 7);
        let op = |read, wrote| cavy_txn::Op { key, read, wrote };
        let piece = PieceResult {
            piece: 0,
            result: vec![Value::Int(5)],
            ops: vec![op(Some(TxnId::INITIAL), false), op(Some(ID), true), op(None, true)],
        };
        let outcome = Outcome::Committed { at: Ts::ZERO, pieces: vec![piece] };
        let text = format!("{:?}", answer(&Response { id: ID, outcome }));
        let bulk = |text: &str| format!("{:?}", Reply::bulk(text));
        for part in [bulk("3/7"), bulk("3.8"), bulk(""), "Nil, Int(1)".into(), "Int(5)".into()] {
            assert!(text.contains(&part), "{part} is not in {text}");
        }
    }
}
