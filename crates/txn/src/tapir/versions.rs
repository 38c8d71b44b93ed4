//! The versions of a replica's rows, what is prepared, and what may be prepared beside it.

use super::message::{Attempt, Part, Vote};
use crate::store::{Row, Store};
use crate::txn::{Key, Ts, Value};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::ops::Bound;

/// A version of a row that is no longer the last, or is.
#[derive(Clone, Debug)]
struct Version {
    row: Row,
    /// The greatest timestamp of a transaction that read it and committed.
    read: Ts,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Versions {
    /// The last version of each row.
    last: Store,
    /// Versions by timestamp; what was there before the first has [`Ts::ZERO`].
    all: BTreeMap<Key, BTreeMap<Ts, Version>>,
    /// The greatest read of what was there before the first version.
    first_read: BTreeMap<Key, Ts>,
    /// The greatest reads of versions that are not here yet: a replica may hear that a transaction
    /// took place before it hears of one that it has read.
    early_reads: BTreeMap<Key, BTreeMap<Ts, Ts>>,
    prepared: BTreeMap<Attempt, (Ts, Arc<Part>)>,
    reads: BTreeMap<Key, BTreeMap<Ts, Attempt>>,
    writes: BTreeMap<Key, BTreeMap<Ts, Attempt>>,
}

/// What a check finds that comes long after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Late {
    /// Nothing is in the way.
    Fine,
    /// Something that was committed: it cannot have been decided before.
    Never,
    /// Something that is prepared, or versions that are no longer kept.
    Unknown,
}

/// Versions of a row that are kept: those that a transaction under way may still read below.
const KEPT: usize = 64;

impl Versions {
    /// The last version of each row.
    pub fn last(&self) -> &Store {
        &self.last
    }

    /// The timestamp of the last version of a row.
    pub fn last_at(&self, key: Key) -> Ts {
        self.last.row(key).map_or(Ts::ZERO, |row| row.at)
    }

    /// Prepared and not finished.
    pub fn prepared(&self) -> usize {
        self.prepared.len()
    }

    /// May `attempt` commit at `ts`? With OCC of the source: `strict` as its linearizable mode has
    /// it.
    pub fn check(&self, ts: Ts, part: &Part, strict: bool) -> Vote {
        for (key, version) in &part.reads {
            let above = (Bound::Excluded(*version), Bound::Unbounded);
            let next = self.all.get(key).and_then(|all| all.range(above).next());
            let prepared = self.writes.get(key);
            if let Some((next, _)) = next {
                if strict || ts > *next {
                    return Vote::Abort;
                }
                let between =
                    |all: &BTreeMap<Ts, Attempt>| all.range(*version..ts).next().is_some();
                if prepared.is_some_and(between) {
                    return Vote::Abstain;
                }
            } else if let Some(prepared) = prepared
                && prepared.first_key_value().is_some_and(|(first, _)| strict || *first <= ts)
            {
                return Vote::Abstain;
            }
        }
        for (key, _) in &part.writes {
            let last = self.last_at(*key);
            if strict && last > ts {
                return Vote::Retry(last);
            }
            let below = self.all.get(key).and_then(|all| all.range(..ts).next_back());
            let read = match below {
                Some((_, version)) => version.read,
                None => self.first_read.get(key).copied().unwrap_or(Ts::ZERO),
            };
            let early = self.early_reads.get(key).and_then(|all| {
                let below = all.range(..ts).map(|(_, read)| *read);
                below.max()
            });
            let read = read.max(early.unwrap_or(Ts::ZERO));
            if read > ts {
                return Vote::Retry(read);
            }
            if let Some((other, _)) = self.writes.get(key).and_then(|all| all.last_key_value())
                && strict
                && *other > ts
            {
                return Vote::Retry(*other);
            }
            if let Some((other, _)) = self.reads.get(key).and_then(|all| all.last_key_value())
                && *other > ts
            {
                return Vote::Abstain;
            }
        }
        Vote::Fine
    }

    /// May `attempt` still commit at `ts`, whatever this replica holds of it? Real time does not
    /// count: if it was decided, that was long ago.
    pub fn check_late(&mut self, attempt: Attempt, ts: Ts, part: &Arc<Part>) -> Late {
        let held = self.prepared.get(&attempt).cloned();
        self.forget(attempt);
        let vote = self.check(ts, part, false);
        if let Some((ts, part)) = held {
            self.prepare(attempt, ts, part);
        }
        // Of versions before the first that is kept nobody knows who read or overwrote them.
        let first = |key: &Key| self.first_kept(*key);
        let forgotten = part.reads.iter().any(|(key, version)| *version < first(key))
            || part.writes.iter().any(|(key, _)| ts < first(key));
        match vote {
            _ if forgotten => Late::Unknown,
            Vote::Fine => Late::Fine,
            Vote::Abort | Vote::Retry(_) => Late::Never,
            Vote::Abstain => Late::Unknown,
        }
    }

    /// Versions below this may have been forgotten.
    fn first_kept(&self, key: Key) -> Ts {
        let all = self.all.get(&key).filter(|all| all.len() >= KEPT);
        all.and_then(|all| all.first_key_value()).map_or(Ts::ZERO, |(first, _)| *first)
    }

    /// The artifact's check: versions are still the last, and nobody has a lock in the way.
    pub fn check_locks(&self, part: &Part) -> Vote {
        let stale = part.reads.iter().any(|(key, version)| self.last_at(*key) != *version);
        let writes = |key: &Key| part.writes.iter().any(|(written, _)| written == key);
        let locked = part.reads.iter().any(|(key, _)| {
            self.writes.contains_key(key) || (writes(key) && self.reads.contains_key(key))
        });
        if stale || locked { Vote::Abort } else { Vote::Fine }
    }

    /// The timestamp at which `attempt` is prepared.
    pub fn prepared_at(&self, attempt: Attempt) -> Option<Ts> {
        self.prepared.get(&attempt).map(|(ts, _)| *ts)
    }

    /// What of `attempt` is prepared.
    pub fn part(&self, attempt: Attempt) -> Option<&Arc<Part>> {
        self.prepared.get(&attempt).map(|(_, part)| part)
    }

    /// Adds to the prepared.
    pub fn prepare(&mut self, attempt: Attempt, ts: Ts, part: Arc<Part>) {
        self.forget(attempt);
        for (key, _) in &part.reads {
            self.reads.entry(*key).or_default().insert(ts, attempt);
        }
        for (key, _) in &part.writes {
            self.writes.entry(*key).or_default().insert(ts, attempt);
        }
        self.prepared.insert(attempt, (ts, part));
    }

    /// Takes out of the prepared.
    pub fn forget(&mut self, attempt: Attempt) {
        let Some((ts, part)) = self.prepared.remove(&attempt) else { return };
        let remove = |from: &mut BTreeMap<Key, BTreeMap<Ts, Attempt>>, key: &Key| {
            if let Some(all) = from.get_mut(key) {
                all.remove(&ts);
                if all.is_empty() {
                    from.remove(key);
                }
            }
        };
        part.reads.iter().for_each(|(key, _)| remove(&mut self.reads, key));
        part.writes.iter().for_each(|(key, _)| remove(&mut self.writes, key));
    }

    /// `attempt` took place at `at`.
    pub fn commit(&mut self, attempt: Attempt, at: Ts, part: &Part) {
        self.forget(attempt);
        for (key, version) in &part.reads {
            if *version == Ts::ZERO {
                let read = self.first_read.entry(*key).or_default();
                *read = (*read).max(at);
            } else if let Some(version) = self.all.get_mut(key).and_then(|all| all.get_mut(version))
            {
                version.read = version.read.max(at);
            } else if *version > self.first_kept(*key) {
                let read = self.early_reads.entry(*key).or_default().entry(*version).or_default();
                *read = (*read).max(at);
            }
        }
        for (key, value) in &part.writes {
            let row = Row { value: value.clone(), writer: attempt.id, at };
            if at > self.last_at(*key) {
                self.last.set(*key, row.clone());
            }
            let early = self.early_reads.get_mut(key).and_then(|all| all.remove(&at));
            let all = self.all.entry(*key).or_default();
            all.insert(at, Version { row, read: early.unwrap_or(Ts::ZERO) });
            if all.len() > KEPT {
                all.pop_first();
            }
        }
    }

    /// The last versions, in order.
    pub fn rows(&self) -> impl Iterator<Item = (Key, Option<Value>)> + '_ {
        self.all.iter().filter_map(|(key, all)| {
            let (_, version) = all.last_key_value()?;
            Some((*key, version.row.value.clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::TxnId;
    use alloc::vec;

    const KEY: Key = Key::new(1, 1);

    fn ts(t: u64) -> Ts {
        Ts { t, k: 0, n: 1 }
    }

    fn attempt(number: u64) -> Attempt {
        Attempt { id: TxnId { client: 1, number }, round: 0 }
    }

    fn reads(version: u64) -> Part {
        let version = if version == 0 { Ts::ZERO } else { ts(version) };
        Part { reads: vec![(KEY, version)], ..Part::default() }
    }

    fn writes() -> Part {
        Part { writes: vec![(KEY, Some(Value::Int(1)))], ..Part::default() }
    }

    #[test]
    fn clause_3_2_the_checks_of_a_prepare() {
        let mut rows = Versions::default();
        assert_eq!(rows.check(ts(5), &writes(), false), Vote::Fine);
        rows.prepare(attempt(1), ts(5), Arc::new(writes()));
        // A prepared write is in the way of a read above it, and not of one below it.
        assert_eq!(rows.check(ts(6), &reads(0), false), Vote::Abstain);
        assert_eq!(rows.check(ts(4), &reads(0), false), Vote::Fine);
        assert_eq!(rows.check(ts(4), &reads(0), true), Vote::Abstain);
        rows.commit(attempt(1), ts(5), &writes());
        // What was read is no longer the last: too late above, and still right below.
        assert_eq!(rows.check(ts(6), &reads(0), false), Vote::Abort);
        assert_eq!(rows.check(ts(4), &reads(0), false), Vote::Fine);
        assert_eq!(rows.check(ts(4), &reads(0), true), Vote::Abort);
        // A read of that version at 9 forbids to write between.
        rows.commit(attempt(2), ts(9), &reads(5));
        assert_eq!(rows.check(ts(7), &writes(), false), Vote::Retry(ts(9)));
        assert_eq!(rows.check(ts(10), &writes(), false), Vote::Fine);
        assert_eq!(rows.check(ts(4), &writes(), true), Vote::Retry(ts(5)));
        rows.prepare(attempt(3), ts(20), Arc::new(reads(5)));
        assert_eq!(rows.check(ts(15), &writes(), false), Vote::Abstain);
        // Not beside itself, long after: only others are in the way.
        let part = Arc::new(writes());
        assert_eq!(rows.check_late(attempt(4), ts(15), &part), Late::Unknown);
        assert_eq!(rows.check_late(attempt(3), ts(15), &part), Late::Fine);
        assert_eq!(rows.prepared_at(attempt(3)), Some(ts(20)));
        assert_eq!(rows.check_late(attempt(4), ts(7), &part), Late::Never);
        rows.forget(attempt(3));
        assert_eq!(rows.check(ts(15), &writes(), false), Vote::Fine);
        assert_eq!(rows.prepared(), 0);
        // A read of a version that is not here yet forbids to write between, before and after it
        // is.
        let mut other = Versions::default();
        other.commit(attempt(6), ts(9), &reads(5));
        assert_eq!(other.check(ts(7), &writes(), false), Vote::Retry(ts(9)));
        assert_eq!(other.check(ts(4), &writes(), false), Vote::Fine);
        other.commit(attempt(5), ts(5), &writes());
        assert_eq!(other.check(ts(7), &writes(), false), Vote::Retry(ts(9)));
        assert_eq!(other.check(ts(10), &writes(), false), Vote::Fine);
        // What lies before the versions that are kept is not known.
        for number in 0..KEPT as u64 + 1 {
            rows.commit(attempt(10 + number), ts(100 + number), &writes());
        }
        assert_eq!(rows.check_late(attempt(4), ts(50), &part), Late::Unknown);
        assert_eq!(rows.check_late(attempt(4), ts(500), &part), Late::Fine);
    }
}
