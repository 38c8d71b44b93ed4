//! Strings, and what all keys have: deletion, names, expiry.

use super::{given, integer, is, not_an_integer, range, syntax, text, text_mut, wrong_type};
use crate::datum::{Body, Datum, Sheet, Undeclared};
use crate::reply::Reply;

type Done = Result<Reply, Undeclared>;
/// Longest string that a command may make.
const TEXT_BYTES_MAX: usize = 64 << 20;

fn put(sheet: &mut Sheet, key: &[u8], value: &[u8]) -> Result<(), Undeclared> {
    let datum = sheet.change(key)?;
    (datum.body, datum.expires_ms) = (Some(Body::Text(value.to_vec())), 0);
    Ok(())
}

fn remove(sheet: &mut Sheet, key: &[u8]) -> Result<bool, Undeclared> {
    if sheet.get(key)?.body.is_none() {
        return Ok(false);
    }
    let datum = sheet.change(key)?;
    (datum.body, datum.expires_ms) = (None, 0);
    Ok(true)
}

pub fn get(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    Ok(given!(text(sheet, words[1])?).map_or(Reply::Nil, Reply::bulk))
}

pub fn mget(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let mut all = Vec::new();
    for key in &words[1..] {
        all.push(text(sheet, key)?.ok().flatten().map_or(Reply::Nil, Reply::bulk));
    }
    Ok(Reply::Array(all))
}

pub fn mset(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    for pair in words[1..].chunks(2) {
        put(sheet, pair[0], pair[1])?;
    }
    Ok(Reply::ok())
}

pub fn msetnx(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    for pair in words[1..].chunks(2) {
        if sheet.get(pair[0])?.body.is_some() {
            return Ok(Reply::Int(0));
        }
    }
    mset(words, sheet)?;
    Ok(Reply::Int(1))
}

/// A moment in milliseconds: `word` in `unit_ms`, from now on or since 1970.
fn moment(word: &[u8], unit_ms: i64, from_ms: u64) -> Option<u64> {
    let at = integer(word)?.checked_mul(unit_ms)?;
    let at = i64::try_from(from_ms).ok()?.checked_add(at)?;
    u64::try_from(at).ok()
}

/// The unit of an option that names a moment, and whether it counts from now.
fn unit(option: &[u8]) -> Option<(i64, bool)> {
    [("EX", 1_000, true), ("PX", 1, true), ("EXAT", 1_000, false), ("PXAT", 1, false)]
        .into_iter()
        .find(|(name, ..)| is(option, name))
        .map(|(_, unit_ms, relative)| (unit_ms, relative))
}

fn bad_expiry(name: &str) -> Reply {
    Reply::err(format!("invalid expire time in '{name}' command"))
}

pub fn set(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let (mut only_new, mut only_old, mut keep, mut get) = (false, false, false, false);
    let mut expires_ms = 0;
    let mut options = words[3..].iter();
    while let Some(option) = options.next() {
        if is(option, "NX") {
            only_new = true;
        } else if is(option, "XX") {
            only_old = true;
        } else if is(option, "KEEPTTL") {
            keep = true;
        } else if is(option, "GET") {
            get = true;
        } else if let Some((unit_ms, relative)) = unit(option) {
            let Some(word) = options.next() else { return Ok(syntax()) };
            if integer(word).is_none() {
                return Ok(not_an_integer());
            }
            let from = if relative { sheet.now_ms } else { 0 };
            match moment(word, unit_ms, from) {
                Some(at) if integer(word).is_some_and(|n| n > 0) => expires_ms = at,
                _ => return Ok(bad_expiry("set")),
            }
        } else {
            return Ok(syntax());
        }
    }
    if only_new && only_old || keep && expires_ms != 0 {
        return Ok(syntax());
    }
    let old = match (&sheet.get(words[1])?.body, get) {
        (Some(Body::Text(old)), true) => Some(Reply::bulk(old)),
        (Some(_), true) => return Ok(wrong_type()),
        (_, true) => Some(Reply::Nil),
        (_, false) => None,
    };
    let there = sheet.get(words[1])?.body.is_some();
    if only_new && there || only_old && !there {
        return Ok(old.unwrap_or(Reply::Nil));
    }
    let kept = sheet.get(words[1])?.expires_ms;
    put(sheet, words[1], words[2])?;
    sheet.change(words[1])?.expires_ms = if keep { kept } else { expires_ms };
    Ok(old.unwrap_or_else(Reply::ok))
}

pub fn setnx(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    if sheet.get(words[1])?.body.is_some() {
        return Ok(Reply::Int(0));
    }
    put(sheet, words[1], words[2])?;
    Ok(Reply::Int(1))
}

fn set_for(words: &[&[u8]], sheet: &mut Sheet, unit_ms: i64, name: &str) -> Done {
    let Some(number) = integer(words[2]) else { return Ok(not_an_integer()) };
    let at = moment(words[2], unit_ms, sheet.now_ms).filter(|_| number > 0);
    let Some(at) = at else { return Ok(bad_expiry(name)) };
    put(sheet, words[1], words[3])?;
    sheet.change(words[1])?.expires_ms = at;
    Ok(Reply::ok())
}

pub fn setex(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    set_for(words, sheet, 1_000, "setex")
}

pub fn psetex(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    set_for(words, sheet, 1, "psetex")
}

pub fn getset(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let old = get(words, sheet)?;
    if !old.is_error() {
        put(sheet, words[1], words[2])?;
    }
    Ok(old)
}

pub fn getdel(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let old = get(words, sheet)?;
    if !old.is_error() {
        remove(sheet, words[1])?;
    }
    Ok(old)
}

pub fn getex(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let old = get(words, sheet)?;
    if old.is_error() || old == Reply::Nil {
        return Ok(old);
    }
    match words[2..] {
        [] => {}
        [option] if is(option, "PERSIST") => sheet.change(words[1])?.expires_ms = 0,
        [option, word] => {
            let Some((unit_ms, relative)) = unit(option) else { return Ok(syntax()) };
            let from = if relative { sheet.now_ms } else { 0 };
            match moment(word, unit_ms, from) {
                Some(at) => sheet.change(words[1])?.expires_ms = at.max(1),
                None => return Ok(bad_expiry("getex")),
            }
        }
        _ => return Ok(syntax()),
    }
    Ok(old)
}

pub fn append(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let there = given!(text(sheet, words[1])?).map_or(0, Vec::len);
    if there + words[2].len() > TEXT_BYTES_MAX {
        return Ok(too_long());
    }
    let text = given!(text_mut(sheet, words[1])?);
    text.extend_from_slice(words[2]);
    Ok(Reply::Int(text.len() as i64))
}

fn too_long() -> Reply {
    Reply::err("string exceeds maximum allowed size (64 MiB)")
}

pub fn strlen(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    Ok(Reply::Int(given!(text(sheet, words[1])?).map_or(0, |text| text.len() as i64)))
}

pub fn getrange(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let (Some(start), Some(end)) = (integer(words[2]), integer(words[3])) else {
        return Ok(not_an_integer());
    };
    let found = given!(text(sheet, words[1])?);
    Ok(Reply::bulk(found.map_or(&[][..], |text| &text[range(start, end, text.len())])))
}

pub fn setrange(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let Some(offset) = integer(words[2]) else { return Ok(not_an_integer()) };
    let Ok(offset) = usize::try_from(offset) else {
        return Ok(Reply::err("offset is out of range"));
    };
    let length = given!(text(sheet, words[1])?).map_or(0, Vec::len);
    if words[3].is_empty() {
        return Ok(Reply::Int(length as i64));
    }
    let end = offset.saturating_add(words[3].len());
    if end > TEXT_BYTES_MAX {
        return Ok(too_long());
    }
    let text = given!(text_mut(sheet, words[1])?);
    text.resize(length.max(end), 0);
    text[offset..end].copy_from_slice(words[3]);
    Ok(Reply::Int(text.len() as i64))
}

fn add(sheet: &mut Sheet, key: &[u8], by: Option<i64>) -> Done {
    let Some(by) = by else { return Ok(not_an_integer()) };
    let now = match given!(text(sheet, key)?) {
        None => 0,
        Some(text) => match integer(text) {
            Some(number) => number,
            None => return Ok(not_an_integer()),
        },
    };
    let Some(sum) = now.checked_add(by) else {
        return Ok(Reply::err("increment or decrement would overflow"));
    };
    *given!(text_mut(sheet, key)?) = sum.to_string().into_bytes();
    Ok(Reply::Int(sum))
}

pub fn incr(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    add(sheet, words[1], Some(1))
}

pub fn decr(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    add(sheet, words[1], Some(-1))
}

pub fn incrby(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    add(sheet, words[1], integer(words[2]))
}

pub fn decrby(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    add(sheet, words[1], integer(words[2]).and_then(i64::checked_neg))
}

pub fn del(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let mut gone = 0;
    for key in &words[1..] {
        gone += i64::from(remove(sheet, key)?);
    }
    Ok(Reply::Int(gone))
}

pub fn exists(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let mut there = 0;
    for key in &words[1..] {
        there += i64::from(sheet.get(key)?.body.is_some());
    }
    Ok(Reply::Int(there))
}

pub fn kind(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let kind = sheet.get(words[1])?.body.as_ref().map_or("none", Body::kind);
    Ok(Reply::Status(kind.into()))
}

fn move_to(words: &[&[u8]], sheet: &mut Sheet, keep: bool) -> Result<(), Undeclared> {
    let datum = sheet.get(words[1])?;
    let (body, expires_ms) = (datum.body.clone(), datum.expires_ms);
    let to: &mut Datum = sheet.change(words[2])?;
    (to.body, to.expires_ms) = (body, expires_ms);
    if !keep && words[1] != words[2] {
        remove(sheet, words[1])?;
    }
    Ok(())
}

pub fn rename(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    if sheet.get(words[1])?.body.is_none() {
        return Ok(Reply::err("no such key"));
    }
    move_to(words, sheet, false)?;
    Ok(Reply::ok())
}

pub fn renamenx(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    if sheet.get(words[1])?.body.is_none() {
        return Ok(Reply::err("no such key"));
    }
    if sheet.get(words[2])?.body.is_some() {
        return Ok(Reply::Int(0));
    }
    move_to(words, sheet, false)?;
    Ok(Reply::Int(1))
}

pub fn copy(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let replace = match words[3..] {
        [] => false,
        [option] if is(option, "REPLACE") => true,
        _ => return Ok(syntax()),
    };
    let there = sheet.get(words[2])?.body.is_some();
    if sheet.get(words[1])?.body.is_none() || there && !replace {
        return Ok(Reply::Int(0));
    }
    move_to(words, sheet, true)?;
    Ok(Reply::Int(1))
}

fn expire_at(words: &[&[u8]], sheet: &mut Sheet, unit_ms: i64, relative: bool) -> Done {
    if integer(words[2]).is_none() {
        return Ok(not_an_integer());
    }
    let from = if relative { sheet.now_ms } else { 0 };
    // What lies before 1970 is past.
    let at = moment(words[2], unit_ms, from).unwrap_or(0);
    let datum = sheet.get(words[1])?;
    if datum.body.is_none() {
        return Ok(Reply::Int(0));
    }
    let now = datum.expires_ms;
    let holds = match words[3..] {
        [] => true,
        [option] if is(option, "NX") => now == 0,
        [option] if is(option, "XX") => now != 0,
        [option] if is(option, "GT") => now != 0 && at > now,
        [option] if is(option, "LT") => now == 0 || at < now,
        _ => return Ok(syntax()),
    };
    if !holds {
        return Ok(Reply::Int(0));
    }
    if at <= sheet.now_ms {
        remove(sheet, words[1])?;
    } else {
        sheet.change(words[1])?.expires_ms = at;
    }
    Ok(Reply::Int(1))
}

pub fn expire(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    expire_at(words, sheet, 1_000, true)
}

pub fn pexpire(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    expire_at(words, sheet, 1, true)
}

pub fn expireat(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    expire_at(words, sheet, 1_000, false)
}

pub fn pexpireat(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    expire_at(words, sheet, 1, false)
}

fn expiry(words: &[&[u8]], sheet: &mut Sheet, show: impl FnOnce(u64, u64) -> u64) -> Done {
    let now_ms = sheet.now_ms;
    let datum = sheet.get(words[1])?;
    Ok(Reply::Int(match (&datum.body, datum.expires_ms) {
        (None, _) => -2,
        (_, 0) => -1,
        (_, at) => show(at, now_ms) as i64,
    }))
}

pub fn ttl(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    expiry(words, sheet, |at, now| (at - now + 500) / 1_000)
}

pub fn pttl(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    expiry(words, sheet, |at, now| at - now)
}

pub fn expiretime(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    expiry(words, sheet, |at, _| at / 1_000)
}

pub fn pexpiretime(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    expiry(words, sheet, |at, _| at)
}

pub fn persist(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let datum = sheet.get(words[1])?;
    if datum.body.is_none() || datum.expires_ms == 0 {
        return Ok(Reply::Int(0));
    }
    sheet.change(words[1])?.expires_ms = 0;
    Ok(Reply::Int(1))
}
