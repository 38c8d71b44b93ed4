//! TPC-C: what its clients ask for, what they were told, and whether the rows agree in the end.

use super::client::{Client, Reply};
use super::work::Reach;
use cavy_core::{Instant, Stream};
use cavy_txn::tpcc::asked::ROWS_MAX;
use cavy_txn::tpcc::audit::{Audit, Ended, Found};
use cavy_txn::tpcc::{Asked, Generator, KINDS, Mix};
use cavy_txn::{Key, Layout, Shard, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;

/// What is drawn from.
#[derive(Clone, Debug)]
pub(super) struct Trade {
    layout: Layout,
    generator: Generator,
}

/// What a history needs of one client: versions of transactions that were answered, and those that
/// somebody read.
#[derive(Default)]
pub(super) struct Versions {
    own: BTreeSet<String>,
    read: BTreeSet<(String, String)>,
}

impl Versions {
    pub fn add(&mut self, other: Versions) {
        self.own.extend(other.own);
        self.read.extend(other.read);
    }

    /// A transaction that was never answered took place if somebody read what it wrote. Its client
    /// does not know its name, so what was read of it tells it.
    pub fn unanswered(&self, history: &mut String, regions: u16) {
        let regions: Vec<u16> = (0..regions).collect();
        let mut wrote: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (key, version) in self.read.iter().filter(|(_, version)| !self.own.contains(version)) {
            wrote.entry(version).or_default().push(format!("[\"w\",\"{key}\",\"{version}\"]"));
        }
        for (version, ops) in wrote {
            // Into a string, which does not fail.
            let _ = writeln!(
                history,
                "{{\"txn\":\"{version}\",\"type\":\"unanswered\",\"regions\":{regions:?},\
                 \"outcome\":\"unknown\",\"invoke_ns\":0,\"ops\":[{}]}}",
                ops.join(",")
            );
        }
    }
}

impl Trade {
    pub fn new(layout: Layout) -> Trade {
        Trade { layout, generator: Generator::new(layout, Mix::Full) }
    }

    /// What the client at this place asks for next.
    pub fn draw(&self, draws: &mut Stream, place: u32, name: u64) -> (Asked, Reach) {
        let asked = self.generator.ask(place, name, draws);
        let txn = asked.txn(TxnId { client: 1, number: name });
        let home = self.layout.region_of(self.generator.home(place));
        let reach = match txn.shards().len() {
            1 => Reach::Shard,
            _ if self.layout.is_within(&txn, home) => Reach::Region,
            _ => Reach::Across,
        };
        (asked, reach)
    }

    /// A line of a history, from an answer with versions. False where it has none.
    pub fn tell(
        &self,
        history: &mut String,
        versions: &mut Versions,
        client: u32,
        asked: &Asked,
        times: (Instant, Instant),
        reply: &Reply,
    ) -> bool {
        let Some((name, operations)) = operations(reply) else { return false };
        let txn = asked.txn(TxnId { client, number: 1 });
        let regions = txn.shards().iter().map(|shard| self.layout.region_of(*shard).0);
        let mut regions: Vec<u16> = regions.collect();
        regions.dedup();
        versions.own.insert(name.to_string());
        // Two pieces may touch one row: what counts is what was read first, and that it was
        // written.
        let mut did: BTreeMap<&str, (Option<&str>, bool)> = BTreeMap::new();
        for (key, read, wrote) in operations {
            let known = did.entry(key).or_insert((None, false));
            if known.0.is_none() && !known.1 {
                known.0 = read.filter(|writer| *writer != name);
            }
            known.1 |= wrote;
        }
        let ops = did.into_iter().filter_map(|(key, (read, wrote))| {
            let version = read.map(|writer| match writer {
                "" => "null".to_string(),
                writer => {
                    versions.read.insert((key.to_string(), writer.to_string()));
                    format!("\"{writer}\"")
                }
            });
            Some(match (version, wrote) {
                (Some(version), true) => format!("[\"rw\",\"{key}\",{version}]"),
                (Some(version), false) => format!("[\"r\",\"{key}\",{version}]"),
                (None, true) => format!("[\"w\",\"{key}\"]"),
                (None, false) => return None,
            })
        });
        let ops: Vec<String> = ops.collect();
        let (invoke, complete) = (times.0.as_ns(), times.1.as_ns());
        // Into a string, which does not fail.
        let _ = writeln!(
            history,
            "{{\"txn\":\"{name}\",\"type\":\"{}\",\"client\":{client},\"regions\":{regions:?},\
             \"invoke_ns\":{invoke},\"complete_ns\":{complete},\"ops\":[{}]}}",
            KINDS[usize::from(asked.kind())],
            ops.join(",")
        );
        true
    }

    /// What rows hold.
    pub fn look(
        &self,
        client: &mut Client,
        shard: Shard,
        keys: &[Key],
        found: &mut Found,
    ) -> io::Result<()> {
        for keys in keys.chunks(ROWS_MAX) {
            let mut words = ["FCALL", "tpcc.rows", "0"].map(String::from).to_vec();
            words.push(shard.0.to_string());
            words.extend(keys.iter().flat_map(|key| [key.table, key.row]).map(|n| n.to_string()));
            let reply = client.call(&words)?;
            let wrong = || io::Error::other(format!("no rows: {}", reply.short()));
            let Some([Reply::List(rows)]) = pieces(&reply) else { return Err(wrong()) };
            if rows.len() != keys.len() {
                return Err(wrong());
            }
            for (key, row) in keys.iter().zip(rows) {
                let Reply::List(row) = row else { return Err(wrong()) };
                let numbers = row.iter().map(|number| match number {
                    Reply::Int(number) => Ok(*number),
                    _ => Err(wrong()),
                });
                found.insert(*key, numbers.collect::<io::Result<_>>()?);
            }
        }
        Ok(())
    }

    /// Whether no transaction has changed the warehouse of `shard` yet.
    pub fn untouched(&self, client: &mut Client, shard: Shard) -> io::Result<bool> {
        let mut found = Found::new();
        let keys: Vec<Key> =
            Audit::new().rows(self.layout.shards()).remove(&shard).into_iter().flatten().collect();
        self.look(client, shard, &keys, &mut found)?;
        // A district's next number is there from the beginning.
        Ok(found.values().all(|row| row.is_empty() || row == &[3_001]))
    }
}

/// The request.
pub(super) fn words(asked: &Asked) -> Vec<String> {
    let name = format!("tpcc.{}", KINDS[usize::from(asked.kind())]);
    let numbers = asked.numbers().into_iter().map(|number| number.to_string());
    ["FCALL".to_string(), name, "0".to_string()].into_iter().chain(numbers).collect()
}

/// How it ended: `None` for an answer that is none.
pub(super) fn ended(asked: &Asked, reply: &Reply) -> Option<Ended> {
    if *reply == Reply::Nil {
        return Some(Ended::TakenBack);
    }
    let Reply::List(first) = pieces(reply)?.first()? else { return None };
    let number = match (asked, first.first()) {
        (Asked::NewOrder(_) | Asked::Delivery { .. }, Some(Reply::Int(number))) => Some(*number),
        _ => None,
    };
    Some(Ended::Committed(number))
}

/// The answers of pieces.
fn pieces(reply: &Reply) -> Option<&[Reply]> {
    let Reply::List(all) = reply else { return None };
    match &all[..] {
        [Reply::Text(head), Reply::List(pieces), ..] if head == "pieces" => Some(pieces),
        pieces => Some(pieces),
    }
}

type Operation<'a> = (&'a str, Option<&'a str>, bool);

/// The name of the transaction, and its operations.
fn operations(reply: &Reply) -> Option<(&str, Vec<Operation<'_>>)> {
    let Reply::List(all) = reply else { return None };
    let [_, _, Reply::Text(key), Reply::Text(name), _, Reply::List(ops)] = &all[..] else {
        return None;
    };
    let ops = ops.iter().map(operation).collect::<Option<Vec<_>>>()?;
    (key == "name").then_some((name.as_str(), ops))
}

fn operation(op: &Reply) -> Option<Operation<'_>> {
    let Reply::List(op) = op else { return None };
    match &op[..] {
        [Reply::Text(key), Reply::Text(read), Reply::Int(wrote)] => {
            Some((key, Some(read), *wrote == 1))
        }
        [Reply::Text(key), Reply::Nil, Reply::Int(wrote)] => Some((key, None, *wrote == 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Reply {
        Reply::Text(text.into())
    }

    #[test]
    fn an_answer_with_versions_becomes_a_line_of_a_history() {
        let trade = Trade::new(Layout::new(2, 1));
        let asked = Asked::Delivery { home: Shard(1), district: 3, carrier: 4 };
        let op = |key: &str, read, wrote| Reply::List(vec![text(key), read, Reply::Int(wrote)]);
        let ops = Reply::List(vec![
            op("7/13", text("2.5"), 0),
            op("7/13", Reply::Nil, 1),
            op("12/13", text(""), 1),
        ]);
        let pieces = Reply::List(vec![Reply::List(vec![Reply::Int(3_001)])]);
        let reply =
            Reply::List(vec![text("pieces"), pieces, text("name"), text("4.9"), text("ops"), ops]);
        assert_eq!(ended(&asked, &reply), Some(Ended::Committed(Some(3_001))));
        assert_eq!(ended(&asked, &Reply::Nil), Some(Ended::TakenBack));
        let (mut history, mut versions) = (String::new(), Versions::default());
        let times = (Instant::from_ns(5), Instant::from_ns(9));
        assert!(trade.tell(&mut history, &mut versions, 6, &asked, times, &reply));
        let line = "{\"txn\":\"4.9\",\"type\":\"delivery\",\"client\":6,\"regions\":[1],\
                    \"invoke_ns\":5,\"complete_ns\":9,\"ops\":[[\"rw\",\"12/13\",null],\
                    [\"rw\",\"7/13\",\"2.5\"]]}\n";
        assert_eq!(history, line);
        history.clear();
        versions.unanswered(&mut history, 2);
        assert!(history.contains("\"txn\":\"2.5\"") && history.contains("unknown"), "{history}");
    }
}
