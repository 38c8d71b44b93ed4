//! What the checker of histories says of a run.

use crate::town::{Callers, Logs};
use cavy_check::history::{Act, Outcome as Ended, Region, Txn};
use cavy_check::{History, Model, Options, judge};
use cavy_txn::client::Outcome;
use cavy_txn::{Key, TxnId};
use std::collections::BTreeMap;

fn name(id: TxnId) -> String {
    format!("c{}.{}", id.client, id.number)
}

/// The history of a run: what clients were told, and what replicas applied.
pub fn history(callers: &Callers, logs: &Logs) -> History {
    let mut history = History::new();
    for (id, txn) in &callers.asked {
        let home = callers.layout.region_of(callers.home(id.client - 1));
        let within = callers.layout.is_within(txn, home);
        let answered = callers.answered.get(id);
        let asked_at = callers.asked_at[id];
        let region = history.texts.number(i64::from(home.0));
        let (client, own) = (i64::from(id.client), history.texts.atom(&name(*id)));
        let outcome = match answered.map(|(_, _, outcome)| outcome) {
            Some(Outcome::Committed { .. }) => Ended::Ok,
            Some(Outcome::Aborted | Outcome::GivenUp { .. }) => Ended::Aborted,
            None => Ended::Unknown,
        };
        let described = Txn {
            name: own,
            kind: None,
            client: Some(history.texts.number(client)),
            region: if within { Region::One(region) } else { Region::Many },
            outcome,
            invoked: answered.map_or(asked_at, |(since, ..)| *since).as_ns(),
            completed: answered.map_or(u64::MAX, |(_, until, _)| until.as_ns()),
            line: 0,
        };
        history.begin(described).expect("a transaction is asked for once");
        // Two pieces may touch one row: what counts is what was read first, and that it was
        // written.
        let mut did: BTreeMap<Key, (Option<TxnId>, bool)> = BTreeMap::new();
        if let Some((_, _, Outcome::Committed { pieces, .. })) = answered {
            for op in pieces.iter().flat_map(|piece| &piece.ops) {
                let known = did.entry(op.key).or_insert((None, false));
                if known.0.is_none() && !known.1 {
                    known.0 = op.read.filter(|writer| writer != id);
                }
                known.1 |= op.wrote;
            }
        } else {
            // Nobody knows, but what replicas applied took place.
            for key in logs.wrote.get(id).into_iter().flatten() {
                did.insert(*key, (None, true));
            }
        }
        for (key, (read, wrote)) in did {
            let row = history.texts.atom(&format!("{}/{}", key.table, key.row));
            let row = history.key(row);
            if let Some(writer) = read {
                let writer = (writer != TxnId::INITIAL).then(|| name(writer));
                let version = writer.map(|writer| history.texts.atom(&writer));
                history.op(row, Act::Read(version));
            }
            if wrote {
                history.op(row, Act::Write(own));
            }
        }
    }
    // Where timestamps are an order, all that any replica applied stands first, in that order, and
    // the replicas are compared with it.
    let mut all: Vec<(String, Key, Vec<TxnId>)> = Vec::new();
    for (key, writers) in &logs.by_time {
        all.push(("timestamps".to_string(), *key, writers.values().copied().collect()));
    }
    for ((node, key), writers) in &logs.writers {
        // One that took over the rows of another has not told what those came from.
        if !logs.copied.contains(node) {
            let writers = writers.iter().map(|(_, id)| *id).collect();
            all.push((format!("node {}", node.0), *key, writers));
        }
    }
    for (replica, key, writers) in all {
        let row = history.texts.atom(&format!("{}/{}", key.table, key.row));
        let row = history.key(row);
        let replica = history.texts.atom(&replica);
        for id in writers {
            let writer = history.texts.atom(&name(id));
            history.applied(replica, row, writer);
        }
    }
    history
}

/// `Err` with the smallest anomaly in words, when the run breaks what `model` promises.
pub fn holds(callers: &Callers, logs: &Logs, model: Model) -> Result<(), String> {
    let history = history(callers, logs);
    let verdict = judge(&history, Options { model, shown: 1 });
    let verdict = verdict.map_err(|same| format!("the history names a version twice: {same:?}"))?;
    if verdict.holds {
        return Ok(());
    }
    let worst = verdict.anomalies.iter().find(|anomaly| anomaly.forbidden);
    let says = worst.map(|anomaly| format!("{}: {}", anomaly.name, anomaly.says.join(" ")));
    Err(format!("not {}: {}", model.name(), says.unwrap_or_default()))
}
