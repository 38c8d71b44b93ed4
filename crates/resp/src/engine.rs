//! What pieces of transactions do here: commands, checks of what was watched, scripts over several
//! shards, and native procedures.

use crate::command;
use crate::datum::{self, Datum, Sheet, encode, row};
use crate::reply::Reply;
use crate::script::{self, Budget};
use cavy_txn::tpcc::{NATIVE, Tpcc};
use cavy_txn::{Invocation, Key, Procedures, Rows, Run, Value};

/// A command whose keys are all here. Bytes: its words.
pub const COMMAND: u16 = 1;
/// Gives 1 if all keys have the versions that `args` names. Bytes: the keys.
pub const CHECK: u16 = 2;
/// Gives what keys hold, for pieces elsewhere. Bytes: the keys.
pub const SHARE: u16 = 3;
/// Runs a program on keys of this shard and others, and writes those of this shard. `args`: what it
/// is (0 a command, 1 a script), whether it answers, how many keys it has, and the places of those
/// that are here. Bytes: the script, if it is one, the keys, the words.
pub const PROGRAM: u16 = 4;
/// Says the versions of keys. Bytes: the keys.
pub const VERSIONS: u16 = 5;

/// The procedures of the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Engine {
    /// What scripts may take.
    pub budget: Budget,
}

/// What a piece answers with, as it travels.
pub fn answer(reply: &Reply) -> Vec<Value> {
    vec![Value::Bytes(encode(reply).into())]
}

/// Reads it back; `None` for a piece that did not run, because what was watched had changed.
pub fn read_answer(values: &[Value]) -> Option<Reply> {
    match values.first()? {
        Value::Bytes(bytes) => postcard::from_bytes(bytes).ok(),
        _ => None,
    }
}

impl Procedures for Engine {
    fn run(&mut self, invocation: &Invocation<'_>, rows: &mut dyn Rows) -> Run {
        let piece = invocation.piece();
        if piece.procedure & NATIVE != 0 {
            return Tpcc.run(invocation, rows);
        }
        let mut run = Run::default();
        let mut sheet = Sheet::new(invocation.time_ns / 1_000_000);
        let words: Vec<&[u8]> = piece.bytes.iter().map(|word| &**word).collect();
        // A check of what was watched gives a number; what keys hold comes as bytes.
        let given = || piece.needs.iter().filter_map(|var| invocation.given.get(*var));
        let guarded = given().any(|value| value.int() == Some(0));
        match piece.procedure {
            CHECK => {
                let versions = piece.args.iter().map(|version| *version as u64);
                let same = words
                    .iter()
                    .zip(versions)
                    .all(|(name, version)| datum::read(rows.read(row(name))).version == version);
                let value = Value::Int(same.into());
                run.gives = piece.gives.iter().map(|var| (*var, value.clone())).collect();
                run.result = vec![value];
            }
            VERSIONS => {
                let version = |name: &&[u8]| datum::read(rows.read(row(name))).version as i64;
                run.result = vec![Value::Ints(words.iter().map(version).collect())];
            }
            SHARE => {
                for name in &words {
                    sheet.load(name, rows);
                }
                let value = Value::Bytes(encode(&sheet.shared()).into());
                run.gives = piece.gives.iter().map(|var| (*var, value.clone())).collect();
            }
            COMMAND if !guarded => {
                let reply = match words.first().and_then(|name| command::find(name)) {
                    Some(spec) if spec.check(&words).is_ok() => {
                        for place in spec.key_places(words.len()) {
                            sheet.load(words[place], rows);
                        }
                        spec.run(&words, &mut sheet)
                    }
                    _ => Reply::err("unknown command"),
                };
                if !reply.is_error() {
                    sheet.store(rows);
                }
                run.result = answer(&reply);
            }
            PROGRAM if !guarded => {
                for value in given() {
                    if let Value::Bytes(bytes) = value {
                        let lent: Vec<(Vec<u8>, Datum)> =
                            postcard::from_bytes(bytes).unwrap_or_default();
                        for (name, datum) in lent {
                            sheet.lend(&name, datum);
                        }
                    }
                }
                let reply = self.program(&piece.args, &words, sheet, rows);
                run.result = if piece.args.get(1) == Some(&1) { answer(&reply) } else { vec![] };
            }
            _ => {}
        }
        run
    }

    fn initial(&self, key: Key) -> Option<Value> {
        // Keys of commands are hashes, whose tables are never as small as those of TPC-C.
        Tpcc.initial(key)
    }
}

impl Engine {
    fn program(
        &self,
        args: &[i64],
        words: &[&[u8]],
        mut sheet: Sheet,
        rows: &mut dyn Rows,
    ) -> Reply {
        let [what, _, keys, here @ ..] = args else { return Reply::err("no program") };
        let scripted = *what == 1;
        let (source, rest) = words.split_at(usize::from(scripted).min(words.len()));
        let (keys, words) = rest.split_at((*keys as usize).min(rest.len()));
        for place in here {
            if let Some(name) = keys.get(*place as usize) {
                sheet.load(name, rows);
            }
        }
        let reply = if let Some(source) = source.first() {
            script::run(source, keys, words, &mut sheet, self.budget)
        } else {
            match words.first().and_then(|name| command::find(name)) {
                Some(spec) => spec.run(words, &mut sheet),
                None => Reply::err("unknown command"),
            }
        };
        if !reply.is_error() {
            sheet.store(rows);
        }
        reply
    }
}
