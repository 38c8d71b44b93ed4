//! Commands on keys: what they touch, and what they do to a [`Sheet`].
//!
//! Each depends on its words, the sheet and the transaction's time and on nothing else, because all
//! replicas carry it out.

mod lists;
mod maps;
mod strings;

use crate::datum::{Body, Datum, Sheet, Undeclared};
use crate::reply::Reply;

/// Where the keys of a command stand among its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// The second word.
    One,
    /// All words after the first: each for itself.
    Each(Fold),
    /// All words after the first, together.
    All,
    /// The second and the third word, together.
    Two,
    /// Every other word after the first: each for itself.
    Pairs,
    /// Every other word after the first, together.
    PairsTogether,
}

/// What the answers of keys that are asked for one by one come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// Their sum.
    Sum,
    /// A list, in order.
    List,
}

type Run = fn(&[&[u8]], &mut Sheet) -> Result<Reply, Undeclared>;

/// A command.
pub struct Spec {
    /// Its name, in capitals.
    pub name: &'static str,
    /// Words, its name included; negative: at least so many.
    pub arity: i8,
    /// Where its keys are.
    pub keys: Keys,
    /// It changes something.
    pub writes: bool,
    run: Run,
}

const fn spec(name: &'static str, arity: i8, keys: Keys, writes: bool, run: Run) -> Spec {
    Spec { name, arity, keys, writes, run }
}

/// All of them, in order of their names.
pub static COMMANDS: &[Spec] = &[
    spec("APPEND", 3, Keys::One, true, strings::append),
    spec("COPY", -3, Keys::Two, true, strings::copy),
    spec("DECR", 2, Keys::One, true, strings::decr),
    spec("DECRBY", 3, Keys::One, true, strings::decrby),
    spec("DEL", -2, Keys::Each(Fold::Sum), true, strings::del),
    spec("EXISTS", -2, Keys::Each(Fold::Sum), false, strings::exists),
    spec("EXPIRE", -3, Keys::One, true, strings::expire),
    spec("EXPIREAT", -3, Keys::One, true, strings::expireat),
    spec("EXPIRETIME", 2, Keys::One, false, strings::expiretime),
    spec("GET", 2, Keys::One, false, strings::get),
    spec("GETDEL", 2, Keys::One, true, strings::getdel),
    spec("GETEX", -2, Keys::One, true, strings::getex),
    spec("GETRANGE", 4, Keys::One, false, strings::getrange),
    spec("GETSET", 3, Keys::One, true, strings::getset),
    spec("HDEL", -3, Keys::One, true, maps::hdel),
    spec("HEXISTS", 3, Keys::One, false, maps::hexists),
    spec("HGET", 3, Keys::One, false, maps::hget),
    spec("HGETALL", 2, Keys::One, false, maps::hgetall),
    spec("HINCRBY", 4, Keys::One, true, maps::hincrby),
    spec("HKEYS", 2, Keys::One, false, maps::hkeys),
    spec("HLEN", 2, Keys::One, false, maps::hlen),
    spec("HMGET", -3, Keys::One, false, maps::hmget),
    spec("HMSET", -4, Keys::One, true, maps::hmset),
    spec("HSET", -4, Keys::One, true, maps::hset),
    spec("HSETNX", 4, Keys::One, true, maps::hsetnx),
    spec("HSTRLEN", 3, Keys::One, false, maps::hstrlen),
    spec("HVALS", 2, Keys::One, false, maps::hvals),
    spec("INCR", 2, Keys::One, true, strings::incr),
    spec("INCRBY", 3, Keys::One, true, strings::incrby),
    spec("LINDEX", 3, Keys::One, false, lists::lindex),
    spec("LLEN", 2, Keys::One, false, lists::llen),
    spec("LMOVE", 5, Keys::Two, true, lists::lmove),
    spec("LPOP", -2, Keys::One, true, lists::lpop),
    spec("LPUSH", -3, Keys::One, true, lists::lpush),
    spec("LPUSHX", -3, Keys::One, true, lists::lpushx),
    spec("LRANGE", 4, Keys::One, false, lists::lrange),
    spec("LREM", 4, Keys::One, true, lists::lrem),
    spec("LSET", 4, Keys::One, true, lists::lset),
    spec("LTRIM", 4, Keys::One, true, lists::ltrim),
    spec("MGET", -2, Keys::Each(Fold::List), false, strings::mget),
    spec("MSET", -3, Keys::Pairs, true, strings::mset),
    spec("MSETNX", -3, Keys::PairsTogether, true, strings::msetnx),
    spec("PERSIST", 2, Keys::One, true, strings::persist),
    spec("PEXPIRE", -3, Keys::One, true, strings::pexpire),
    spec("PEXPIREAT", -3, Keys::One, true, strings::pexpireat),
    spec("PEXPIRETIME", 2, Keys::One, false, strings::pexpiretime),
    spec("PSETEX", 4, Keys::One, true, strings::psetex),
    spec("PTTL", 2, Keys::One, false, strings::pttl),
    spec("RENAME", 3, Keys::Two, true, strings::rename),
    spec("RENAMENX", 3, Keys::Two, true, strings::renamenx),
    spec("RPOP", -2, Keys::One, true, lists::rpop),
    spec("RPOPLPUSH", 3, Keys::Two, true, lists::rpoplpush),
    spec("RPUSH", -3, Keys::One, true, lists::rpush),
    spec("RPUSHX", -3, Keys::One, true, lists::rpushx),
    spec("SADD", -3, Keys::One, true, maps::sadd),
    spec("SCARD", 2, Keys::One, false, maps::scard),
    spec("SDIFF", -2, Keys::All, false, maps::sdiff),
    spec("SET", -3, Keys::One, true, strings::set),
    spec("SETEX", 4, Keys::One, true, strings::setex),
    spec("SETNX", 3, Keys::One, true, strings::setnx),
    spec("SETRANGE", 4, Keys::One, true, strings::setrange),
    spec("SINTER", -2, Keys::All, false, maps::sinter),
    spec("SISMEMBER", 3, Keys::One, false, maps::sismember),
    spec("SMEMBERS", 2, Keys::One, false, maps::smembers),
    spec("SMISMEMBER", -3, Keys::One, false, maps::smismember),
    spec("SMOVE", 4, Keys::Two, true, maps::smove),
    spec("SREM", -3, Keys::One, true, maps::srem),
    spec("STRLEN", 2, Keys::One, false, strings::strlen),
    spec("SUBSTR", 4, Keys::One, false, strings::getrange),
    spec("SUNION", -2, Keys::All, false, maps::sunion),
    spec("TOUCH", -2, Keys::Each(Fold::Sum), false, strings::exists),
    spec("TTL", 2, Keys::One, false, strings::ttl),
    spec("TYPE", 2, Keys::One, false, strings::kind),
    spec("UNLINK", -2, Keys::Each(Fold::Sum), true, strings::del),
];

/// The command of this name, in any case.
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    let name = name.to_ascii_uppercase();
    let place = COMMANDS.binary_search_by(|spec| spec.name.as_bytes().cmp(&name)).ok()?;
    COMMANDS.get(place)
}

impl Spec {
    /// Are these as many words as it takes? The error says so as Redis does.
    pub fn check<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<(), Reply> {
        let least = usize::from(self.arity.unsigned_abs());
        let fits = if self.arity < 0 { words.len() >= least } else { words.len() == least };
        let paired =
            !matches!(self.keys, Keys::Pairs | Keys::PairsTogether) || words.len() % 2 == 1;
        if fits && paired {
            return Ok(());
        }
        let name = self.name.to_ascii_lowercase();
        Err(Reply::err(format!("wrong number of arguments for '{name}' command")))
    }

    /// The places of its keys among `words`, which [`Spec::check`] has passed.
    pub fn key_places(&self, words: usize) -> Vec<usize> {
        match self.keys {
            Keys::One => vec![1],
            Keys::Two => vec![1, 2],
            Keys::Each(_) | Keys::All => (1..words).collect(),
            Keys::Pairs | Keys::PairsTogether => (1..words).step_by(2).collect(),
        }
    }

    /// Carries it out. Nothing is changed where the answer is an error.
    pub fn run(&self, words: &[&[u8]], sheet: &mut Sheet) -> Reply {
        if let Err(error) = self.check(words) {
            return error;
        }
        match (self.run)(words, sheet) {
            Ok(reply) => reply,
            Err(Undeclared) => Reply::err(format!(
                "{} touches a key that was not declared",
                self.name.to_ascii_lowercase()
            )),
        }
    }
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

fn wrong_type() -> Reply {
    Reply::Error(WRONG_TYPE.into())
}

fn not_an_integer() -> Reply {
    Reply::err("value is not an integer or out of range")
}

fn syntax() -> Reply {
    Reply::err("syntax error")
}

/// An integer as Redis takes it: no sign before zero, no blanks.
fn integer(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let number: i64 = text.parse().ok()?;
    (!text.starts_with('+')).then_some(number)
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

/// The places from `start` to `end` of so many items; both may count from the end.
fn range(start: i64, end: i64, items: usize) -> std::ops::Range<usize> {
    let items = items as i64;
    let from = if start < 0 { (items + start).max(0) } else { start };
    let to = if end < 0 { items + end } else { end.min(items - 1) };
    if from > to || from >= items { 0..0 } else { from as usize..to as usize + 1 }
}

/// The part of a body that a command works on, and a new one where there is none.
macro_rules! part {
    ($name:ident, $change:ident, $kind:ident, $type:ty) => {
        /// What a key holds, if it is of this kind; `None`: there is no key.
        fn $name<'a>(
            sheet: &'a mut Sheet,
            key: &[u8],
        ) -> Result<Result<Option<&'a $type>, Reply>, Undeclared> {
            Ok(match &sheet.get(key)?.body {
                None => Ok(None),
                Some(Body::$kind(part)) => Ok(Some(part)),
                Some(_) => Err(wrong_type()),
            })
        }

        /// The same, to be changed; it is made where there is none.
        fn $change<'a>(
            sheet: &'a mut Sheet,
            key: &[u8],
        ) -> Result<Result<&'a mut $type, Reply>, Undeclared> {
            if let Some(body) = &sheet.get(key)?.body
                && !matches!(body, Body::$kind(_))
            {
                return Ok(Err(wrong_type()));
            }
            let datum: &mut Datum = sheet.change(key)?;
            let body = datum.body.get_or_insert_with(|| Body::$kind(Default::default()));
            Ok(match body {
                Body::$kind(part) => Ok(part),
                _ => Err(wrong_type()),
            })
        }
    };
}
part!(text, text_mut, Text, Vec<u8>);
part!(list, list_mut, List, std::collections::VecDeque<Vec<u8>>);
part!(hash, hash_mut, Hash, std::collections::BTreeMap<Vec<u8>, Vec<u8>>);
part!(set_of, set_mut, Set, std::collections::BTreeSet<Vec<u8>>);

/// Takes the value out of a result, or answers with the error.
macro_rules! given {
    ($part:expr) => {
        match $part {
            Ok(part) => part,
            Err(error) => return Ok(error),
        }
    };
}
use given;

#[cfg(test)]
mod tests;
