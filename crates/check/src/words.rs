//! Cycles in words.

use crate::cycle::Step;
use crate::graph::Kind;
use crate::history::{Act, History, Op};
use crate::versions::show_read;

/// What textbooks call a cycle, if they have a word for it, and what happened, a sentence a line.
pub fn cycle(history: &History, steps: &[Step]) -> (Option<&'static str>, Vec<String>) {
    let mut says: Vec<String> = steps.iter().map(|step| sentence(history, *step)).collect();
    if let Some(first) = steps.first() {
        says.push(format!("So {} would go before itself.", name(history, first.from)));
    }
    (pattern(history, steps), says)
}

/// The name of a transaction, with its kind.
pub fn name(history: &History, txn: u32) -> String {
    let of = &history.txns[txn as usize];
    let name = history.texts.show(of.name);
    match of.kind {
        Some(kind) => format!("{name} ({})", history.texts.show(kind)),
        None => name,
    }
}

/// Operations of `txn` on `key`.
fn on(history: &History, txn: u32, key: u32) -> impl Iterator<Item = Op> + '_ {
    history.ops(txn).iter().copied().filter(move |op| op.key == key)
}

fn writes(op: &Op) -> bool {
    matches!(op.act, Act::Append(_) | Act::Write(_))
}

fn reads(op: &Op) -> bool {
    matches!(op.act, Act::Read(_) | Act::List(_))
}

/// What a transaction wrote to a key, as `wrote 3 to` or `appended 3 and 4 to`.
fn wrote(history: &History, txn: u32, key: u32) -> String {
    let values: Vec<Op> = on(history, txn, key).filter(writes).collect();
    let own = history.txns[txn as usize].name;
    // A version that is named by its writer needs no value.
    if values.iter().all(|op| op.act == Act::Write(own)) {
        return "wrote".to_string();
    }
    let verb = if matches!(values.first(), Some(Op { act: Act::Append(_), .. })) {
        "appended"
    } else {
        "wrote"
    };
    let shown: Vec<String> = values.iter().take(4).map(|op| show_read(history, *op)).collect();
    format!("{verb} {} to", shown.join(", "))
}

fn read(history: &History, txn: u32, key: u32) -> String {
    let read = on(history, txn, key).find(reads);
    read.map_or_else(|| "something".to_string(), |op| show_read(history, op))
}

fn sentence(history: &History, step: Step) -> String {
    let Step { from, to, kind, key } = step;
    let (a, b) = (name(history, from), name(history, to));
    let k = || format!("`{}`", history.show_key(key));
    let before = format!("so {a} goes before {b}");
    let moment = |line: &str| format!("{a} was answered before {b} was asked for{line}: {before}.");
    match kind {
        Kind::Ww | Kind::Fan => format!(
            "{a} {} {}, and {b} {} it later: {before} (ww).",
            wrote(history, from, key),
            k(),
            wrote(history, to, key).trim_end_matches(" to")
        ),
        Kind::Wr => format!(
            "{a} {} {}, and {b} read that, as {}: {before} (wr).",
            wrote(history, from, key),
            k(),
            read(history, to, key)
        ),
        Kind::Rw => format!(
            "{a} read {} as {}, and {b} {} it after that version: {before} (rw).",
            k(),
            read(history, from, key),
            wrote(history, to, key).trim_end_matches(" to")
        ),
        Kind::Session => moment(" by the same client"),
        Kind::Regional => moment(", both in one region"),
        Kind::RealTime => moment(""),
    }
}

/// Forms that have names of their own.
fn pattern(history: &History, steps: &[Step]) -> Option<&'static str> {
    let count = |kind| steps.iter().filter(|step| step.kind == kind).count();
    if steps.iter().any(|s| matches!(s.kind, Kind::Session | Kind::Regional | Kind::RealTime)) {
        return (count(Kind::Rw) == 1 && steps.len() == 2).then_some("stale read");
    }
    let keys = |a: Step, b: Step| a.key == b.key;
    let updates = |txn: u32, key: u32| {
        on(history, txn, key).any(|op| reads(&op)) && on(history, txn, key).any(|op| writes(&op))
    };
    match (count(Kind::Rw), steps) {
        (0, steps) if count(Kind::Wr) == 0 => (steps.len() > 1).then_some("dirty write"),
        (0, _) => Some("circular information flow"),
        (_, [a, b]) if keys(*a, *b) && updates(a.from, a.key) && updates(b.from, a.key) => {
            Some("lost update")
        }
        (1, _) => Some("read skew"),
        (2, [_, _]) => Some("write skew"),
        (2, [a, b, c, d])
            if a.kind != b.kind && a.kind == c.kind && b.kind == d.kind && count(Kind::Wr) == 2 =>
        {
            Some("long fork")
        }
        _ => None,
    }
}
