//! Lists.

use super::{given, integer, is, list, list_mut, not_an_integer, range, syntax};
use crate::datum::{Sheet, Undeclared};
use crate::reply::Reply;

type Done = Result<Reply, Undeclared>;

/// A list that became empty is no key any more.
fn settle(sheet: &mut Sheet, key: &[u8]) -> Result<(), Undeclared> {
    if let Ok(Some(items)) = list(sheet, key)?
        && items.is_empty()
    {
        let datum = sheet.change(key)?;
        (datum.body, datum.expires_ms) = (None, 0);
    }
    Ok(())
}

fn push(words: &[&[u8]], sheet: &mut Sheet, left: bool, only_old: bool) -> Done {
    if only_old && given!(list(sheet, words[1])?).is_none() {
        return Ok(Reply::Int(0));
    }
    let items = given!(list_mut(sheet, words[1])?);
    for item in &words[2..] {
        if left { items.push_front(item.to_vec()) } else { items.push_back(item.to_vec()) }
    }
    Ok(Reply::Int(items.len() as i64))
}

pub fn lpush(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    push(words, sheet, true, false)
}

pub fn rpush(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    push(words, sheet, false, false)
}

pub fn lpushx(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    push(words, sheet, true, true)
}

pub fn rpushx(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    push(words, sheet, false, true)
}

fn pop(words: &[&[u8]], sheet: &mut Sheet, left: bool) -> Done {
    let many = match words[2..] {
        [] => None,
        [word] => match integer(word).and_then(|many| usize::try_from(many).ok()) {
            Some(many) => Some(many),
            None => return Ok(Reply::err("value is out of range, must be positive")),
        },
        _ => return Ok(syntax()),
    };
    if given!(list(sheet, words[1])?).is_none() {
        return Ok(if many.is_some() { Reply::NilArray } else { Reply::Nil });
    }
    let items = given!(list_mut(sheet, words[1])?);
    let mut take = || if left { items.pop_front() } else { items.pop_back() };
    let taken = match many {
        None => take().map_or(Reply::Nil, Reply::Bulk),
        Some(many) => Reply::Array((0..many).map_while(|_| take()).map(Reply::Bulk).collect()),
    };
    settle(sheet, words[1])?;
    Ok(taken)
}

pub fn lpop(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    pop(words, sheet, true)
}

pub fn rpop(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    pop(words, sheet, false)
}

fn shift(sheet: &mut Sheet, from: (&[u8], bool), to: (&[u8], bool)) -> Done {
    if given!(list(sheet, from.0)?).is_none() {
        return Ok(Reply::Nil);
    }
    given!(list(sheet, to.0)?);
    let items = given!(list_mut(sheet, from.0)?);
    let taken = if from.1 { items.pop_front() } else { items.pop_back() };
    let Some(item) = taken else { return Ok(Reply::Nil) };
    let items = given!(list_mut(sheet, to.0)?);
    if to.1 {
        items.push_front(item.clone())
    } else {
        items.push_back(item.clone())
    }
    settle(sheet, from.0)?;
    Ok(Reply::Bulk(item))
}

pub fn rpoplpush(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    shift(sheet, (words[1], false), (words[2], true))
}

pub fn lmove(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let side = |word| match (is(word, "LEFT"), is(word, "RIGHT")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    match (side(words[3]), side(words[4])) {
        (Some(from), Some(to)) => shift(sheet, (words[1], from), (words[2], to)),
        _ => Ok(syntax()),
    }
}

pub fn llen(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    Ok(Reply::Int(given!(list(sheet, words[1])?).map_or(0, |items| items.len() as i64)))
}

fn place(word: &[u8], items: usize) -> Result<Option<usize>, Reply> {
    let number = integer(word).ok_or_else(not_an_integer)?;
    let place = if number < 0 { number + items as i64 } else { number };
    Ok(usize::try_from(place).ok().filter(|place| *place < items))
}

pub fn lindex(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let Some(items) = given!(list(sheet, words[1])?) else { return Ok(Reply::Nil) };
    let place = given!(place(words[2], items.len()));
    Ok(place.map_or(Reply::Nil, |place| Reply::bulk(&items[place])))
}

pub fn lset(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let Some(items) = given!(list(sheet, words[1])?) else {
        return Ok(Reply::err("no such key"));
    };
    let Some(place) = given!(place(words[2], items.len())) else {
        return Ok(Reply::err("index out of range"));
    };
    given!(list_mut(sheet, words[1])?)[place] = words[3].to_vec();
    Ok(Reply::ok())
}

fn ends(words: &[&[u8]]) -> Option<(i64, i64)> {
    Some((integer(words[2])?, integer(words[3])?))
}

pub fn lrange(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let Some((start, end)) = ends(words) else { return Ok(not_an_integer()) };
    let Some(items) = given!(list(sheet, words[1])?) else { return Ok(Reply::Array(Vec::new())) };
    Ok(Reply::Array(items.range(range(start, end, items.len())).map(Reply::bulk).collect()))
}

pub fn ltrim(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let Some((start, end)) = ends(words) else { return Ok(not_an_integer()) };
    if given!(list(sheet, words[1])?).is_some() {
        let items = given!(list_mut(sheet, words[1])?);
        let kept = range(start, end, items.len());
        items.truncate(kept.end);
        items.drain(..kept.start.min(items.len()));
        settle(sheet, words[1])?;
    }
    Ok(Reply::ok())
}

pub fn lrem(words: &[&[u8]], sheet: &mut Sheet) -> Done {
    let Some(many) = integer(words[2]) else { return Ok(not_an_integer()) };
    if given!(list(sheet, words[1])?).is_none() {
        return Ok(Reply::Int(0));
    }
    let items = given!(list_mut(sheet, words[1])?);
    let most = if many == 0 { usize::MAX } else { many.unsigned_abs() as usize };
    let before = items.len();
    if many < 0 {
        items.make_contiguous().reverse();
    }
    let mut gone = 0;
    items.retain(|item| {
        let hit = gone < most && item.as_slice() == words[3];
        gone += usize::from(hit);
        !hit
    });
    if many < 0 {
        items.make_contiguous().reverse();
    }
    let gone = before - items.len();
    settle(sheet, words[1])?;
    Ok(Reply::Int(gone as i64))
}
