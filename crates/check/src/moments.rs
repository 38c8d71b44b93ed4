//! Orders of time: who was answered before whom was asked for [dast 5.8].
//!
//! In a graph a *barrier* stands for each moment of an answer, so that the edges are as many as
//! there are transactions and not as many as pairs of them. To look for a small cycle the same
//! order is asked directly: among transactions sorted by when they were asked for, those after an
//! answer are a suffix.

use crate::anomaly::Time;
use crate::graph::{Draft, Kind};
use crate::history::{History, Region, Txn};

impl Time {
    /// The kind of its edges.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Time::Session => Kind::Session,
            Time::Regional => Kind::Regional,
            Time::RealTime => Kind::RealTime,
        }
    }

    /// Transactions with the same answer are ordered among each other; `None` for those of no
    /// group.
    fn group(self, txn: &Txn) -> Option<u64> {
        match self {
            Time::Session => txn.client.map(crate::atom::Atom::bits),
            Time::Regional => match txn.region {
                Region::One(region) => Some(region.bits()),
                Region::Many | Region::Unsaid => None,
            },
            Time::RealTime => Some(0),
        }
    }
}

/// Groups of transactions, each sorted by when they were asked for.
pub fn groups(history: &History, time: Time, of: impl Iterator<Item = u32>) -> Vec<Vec<u32>> {
    let mut all: Vec<(u64, u64, u32)> = of
        .filter_map(|at| {
            let txn = &history.txns[at as usize];
            time.group(txn).map(|group| (group, txn.invoked, at))
        })
        .collect();
    all.sort_unstable();
    all.chunk_by(|a, b| a.0 == b.0).map(|group| group.iter().map(|one| one.2).collect()).collect()
}

/// Adds the order `time` of all transactions to `draft`.
pub fn add(history: &History, time: Time, draft: &mut Draft) {
    let kind = time.kind();
    for group in groups(history, time, 0..history.txns.len() as u32) {
        let when = |txn: &u32| history.txns[*txn as usize].completed;
        let mut answered: Vec<u32> = group.iter().copied().filter(|t| when(t) < u64::MAX).collect();
        answered.sort_by_key(when);
        let mut answered = answered.into_iter().peekable();
        let mut barrier = None;
        for txn in group {
            let asked = history.txns[txn as usize].invoked;
            let mut moment = None;
            while let Some(before) = answered.next_if(|before| when(before) < asked) {
                let at = *moment.get_or_insert_with(|| {
                    let at = draft.node();
                    if let Some(last) = barrier {
                        draft.edge(last, at, kind, 0);
                    }
                    at
                });
                draft.edge(before, at, kind, 0);
                barrier = Some(at);
            }
            if let Some(barrier) = barrier {
                draft.edge(barrier, txn, kind, 0);
            }
        }
    }
}
