//! Hashes and sets. What Redis gives in any order comes in the order of names here.

use super::{given, hash, hash_mut, integer, not_an_integer, set_mut, set_of};
use crate::datum::{Body, Sheet, Undeclared};
use crate::reply::Reply;
use std::collections::BTreeSet;

type Done = Result<Reply, Undeclared>;

/// A hash or a set that became empty is no key any more.
fn settle(sheet: &mut Sheet, key: &[u8]) -> Result<(), Undeclared> {
    let empty = match &sheet.get(key)?.body {
        Some(Body::Hash(fields)) => fields.is_empty(),
        Some(Body::Set(members)) => members.is_empty(),
        _ => false,
    };
    if empty {
        let datum = sheet.change(key)?;
        (datum.body, datum.expires_ms) = (None, 0);
    }
    Ok(())
}

fn put(words: &[&[u8]], sheet: &mut Sheet) -> Result<Result<i64, Reply>, Undeclared> {
    if words.len() % 2 == 1 {
        let name = String::from_utf8_lossy(words[0]).to_ascii_lowercase();
        let text = format!("wrong number of arguments for '{name}' command");
        return Ok(Err(Reply::err(text)));
    }
    Ok(match hash_mut(sheet, words[1])? {
        Err(error) => Err(error),
        Ok(fields) => {
            let pairs = words[2..].chunks(2);
            Ok(pairs.map(|p| i64::from(fields.insert(p[0].into(), p[1].into()).is_none())).sum())
        }
    })
}

pub fn hset(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    Ok(Reply::Int(given!(put(words, sheet)?)))
}

pub fn hmset(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    given!(put(words, sheet)?);
    Ok(Reply::ok())
}

pub fn hsetnx(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    if given!(hash(sheet, words[1])?).is_some_and(|fields| fields.contains_key(words[2])) {
        return Ok(Reply::Int(0));
    }
    given!(hash_mut(sheet, words[1])?).insert(words[2].to_vec(), words[3].to_vec());
    Ok(Reply::Int(1))
}

pub fn hget(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let fields = given!(hash(sheet, words[1])?);
    Ok(fields.and_then(|fields| fields.get(words[2])).map_or(Reply::Nil, Reply::bulk))
}

pub fn hmget(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let fields = given!(hash(sheet, words[1])?);
    let get = |name: &&[u8]| {
        let value = fields.and_then(|fields| fields.get(*name));
        value.map_or(Reply::Nil, Reply::bulk)
    };
    Ok(Reply::Array(words[2..].iter().map(get).collect()))
}

pub fn hgetall(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let fields = given!(hash(sheet, words[1])?);
    let pairs = fields.into_iter().flatten().map(|(n, v)| (Reply::bulk(n), Reply::bulk(v)));
    Ok(Reply::Map(pairs.collect()))
}

pub fn hkeys(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let fields = given!(hash(sheet, words[1])?);
    Ok(Reply::Array(fields.into_iter().flatten().map(|(name, _)| Reply::bulk(name)).collect()))
}

pub fn hvals(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let fields = given!(hash(sheet, words[1])?);
    Ok(Reply::Array(fields.into_iter().flatten().map(|(_, value)| Reply::bulk(value)).collect()))
}

pub fn hlen(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    Ok(Reply::Int(given!(hash(sheet, words[1])?).map_or(0, |fields| fields.len() as i64)))
}

pub fn hexists(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let fields = given!(hash(sheet, words[1])?);
    Ok(Reply::Int(fields.is_some_and(|fields| fields.contains_key(words[2])).into()))
}

pub fn hstrlen(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let fields = given!(hash(sheet, words[1])?);
    let value = fields.and_then(|fields| fields.get(words[2]));
    Ok(Reply::Int(value.map_or(0, |value| value.len() as i64)))
}

pub fn hdel(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    if given!(hash(sheet, words[1])?).is_none() {
        return Ok(Reply::Int(0));
    }
    let fields = given!(hash_mut(sheet, words[1])?);
    let gone = words[2..].iter().filter(|name| fields.remove(**name).is_some()).count();
    settle(sheet, words[1])?;
    Ok(Reply::Int(gone as i64))
}

pub fn hincrby(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let Some(by) = integer(words[3]) else { return Ok(not_an_integer()) };
    let now = given!(hash(sheet, words[1])?).and_then(|fields| fields.get(words[2]));
    let now = match now.map(|value| integer(value)) {
        None => 0,
        Some(Some(number)) => number,
        Some(None) => return Ok(Reply::err("hash value is not an integer")),
    };
    let Some(sum) = now.checked_add(by) else {
        return Ok(Reply::err("increment or decrement would overflow"));
    };
    let fields = given!(hash_mut(sheet, words[1])?);
    fields.insert(words[2].to_vec(), sum.to_string().into_bytes());
    Ok(Reply::Int(sum))
}

pub fn sadd(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let members = given!(set_mut(sheet, words[1])?);
    let new = words[2..].iter().filter(|member| members.insert(member.to_vec())).count();
    Ok(Reply::Int(new as i64))
}

pub fn srem(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    if given!(set_of(sheet, words[1])?).is_none() {
        return Ok(Reply::Int(0));
    }
    let members = given!(set_mut(sheet, words[1])?);
    let gone = words[2..].iter().filter(|member| members.remove(**member)).count();
    settle(sheet, words[1])?;
    Ok(Reply::Int(gone as i64))
}

pub fn smembers(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let members = given!(set_of(sheet, words[1])?);
    Ok(Reply::Set(members.into_iter().flatten().map(Reply::bulk).collect()))
}

pub fn scard(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    Ok(Reply::Int(given!(set_of(sheet, words[1])?).map_or(0, |members| members.len() as i64)))
}

pub fn sismember(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let members = given!(set_of(sheet, words[1])?);
    Ok(Reply::Int(members.is_some_and(|members| members.contains(words[2])).into()))
}

pub fn smismember(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let members = given!(set_of(sheet, words[1])?);
    let there = |word: &&[u8]| members.is_some_and(|members| members.contains(*word));
    Ok(Reply::Array(words[2..].iter().map(|word| Reply::Int(there(word).into())).collect()))
}

pub fn smove(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    given!(set_of(sheet, words[2])?);
    if !given!(set_of(sheet, words[1])?).is_some_and(|members| members.contains(words[3])) {
        return Ok(Reply::Int(0));
    }
    given!(set_mut(sheet, words[1])?).remove(words[3]);
    given!(set_mut(sheet, words[2])?).insert(words[3].to_vec());
    settle(sheet, words[1])?;
    Ok(Reply::Int(1))
}

fn combine(
    words: &[&[u8]],
    sheet: &mut Sheet,
    with: impl Fn(BTreeSet<Vec<u8>>, &BTreeSet<Vec<u8>>) -> BTreeSet<Vec<u8>>,
) -> Done {
    let mut all = given!(set_of(sheet, words[1])?).cloned().unwrap_or_default();
    for key in &words[2..] {
        let other = given!(set_of(sheet, key)?).cloned().unwrap_or_default();
        all = with(all, &other);
    }
    Ok(Reply::Set(all.into_iter().map(Reply::Bulk).collect()))
}

pub fn sunion(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    combine(words, sheet, |all, other| all.union(other).cloned().collect())
}

pub fn sinter(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    combine(words, sheet, |all, other| all.intersection(other).cloned().collect())
}

pub fn sdiff(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    combine(words, sheet, |all, other| all.difference(other).cloned().collect())
}
