//! The checker: what was acknowledged before a query was sent is in its answer, what was deleted is
//! not, nothing is there twice, nothing was never written.
//!
//! Each key has one writer at a time, so its writes have an order. A write whose answer did not
//! come may have happened, or may happen later: its value is allowed from then on.

use std::collections::{BTreeMap, BTreeSet};

/// Writes of one key, in order.
#[derive(Clone, Debug, Default)]
struct History {
    writes: Vec<Write>,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    /// `None`: deleted.
    value: Option<u64>,
    sent: u64,
    /// `None`: not yet, or never.
    acknowledged: Option<u64>,
    /// It was refused, and did not happen.
    refused: bool,
}

/// A document of an answer: its key and its value.
pub type Met = (u64, u64);

/// What is wrong with an answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// An acknowledged write is missing or an older value is there.
    Lost {
        /// Which key.
        key: u64,
        /// What was found; `None`: nothing.
        found: Option<u64>,
        /// What was acknowledged last.
        acknowledged: Option<u64>,
    },
    /// A key is there twice.
    Doubled(u64),
    /// A deletion was acknowledged, and the document is there.
    Revived {
        /// Which key.
        key: u64,
        /// What was found.
        found: u64,
    },
    /// Nobody wrote that.
    Invented(Met),
    /// Of everything: how many documents there are and the sum of their keys, while nobody writes.
    Counted {
        /// What was found.
        found: (u64, u64),
        /// What was acknowledged.
        acknowledged: (u64, u64),
    },
}

/// Everything that was written, and when. Times are of one clock of the clients.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    keys: BTreeMap<u64, History>,
}

impl Checker {
    /// Of nothing.
    pub fn new() -> Checker {
        Checker::default()
    }

    /// A write of `key` is sent; `None` deletes. Returns its place among the key's writes.
    pub fn sent(&mut self, key: u64, value: Option<u64>, now: u64) -> usize {
        let history = self.keys.entry(key).or_default();
        history.writes.push(Write { value, sent: now, acknowledged: None, refused: false });
        history.writes.len() - 1
    }

    /// It was acknowledged.
    pub fn acknowledged(&mut self, key: u64, place: usize, now: u64) {
        if let Some(write) = self.keys.get_mut(&key).and_then(|h| h.writes.get_mut(place)) {
            write.acknowledged = Some(now);
        }
    }

    /// It was refused, and did not happen.
    pub fn refused(&mut self, key: u64, place: usize) {
        if let Some(write) = self.keys.get_mut(&key).and_then(|h| h.writes.get_mut(place)) {
            write.refused = true;
        }
    }

    /// Writes that were acknowledged.
    pub fn count(&self) -> u64 {
        let of = |history: &History| {
            history.writes.iter().filter(|write| write.acknowledged.is_some()).count() as u64
        };
        self.keys.values().map(of).sum()
    }

    /// Whether everything was found, by the number of documents and the sum of their keys. Every
    /// write has been acknowledged, and none is under way.
    pub fn all(&self, found: (u64, u64)) -> Option<Fault> {
        let there = |(key, history): (&u64, &History)| {
            let last = history.writes.iter().rfind(|write| !write.refused)?;
            last.value.map(|_| *key)
        };
        let keys = self.keys.iter().filter_map(there);
        let acknowledged = keys.fold((0, 0), |(count, sum), key| (count + 1, sum + key));
        (found != acknowledged).then_some(Fault::Counted { found, acknowledged })
    }

    /// Whether an answer about `keys`, which was asked for at `sent` and came at `came`, may be.
    /// A partial one may lack documents.
    pub fn look(
        &self,
        keys: impl Iterator<Item = u64>,
        met: &[Met],
        (sent, came): (u64, u64),
        partial: bool,
    ) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        for (key, value) in met {
            if found.insert(*key, *value).is_some() {
                faults.push(Fault::Doubled(*key));
            }
        }
        let nothing = History::default();
        let mut looked = BTreeSet::new();
        for key in keys {
            looked.insert(key);
            let writes = &self.keys.get(&key).unwrap_or(&nothing).writes;
            let last = writes.iter().rposition(|write| {
                write.acknowledged.is_some_and(|acknowledged| acknowledged < sent)
            });
            let value = found.get(&key).copied();
            // The last that was acknowledged, all after it, and all of which nobody knows.
            let may = |(at, write): (usize, &Write)| {
                !write.refused
                    && write.sent <= came
                    && write.value == value
                    && (last.is_none_or(|last| at >= last) || write.acknowledged.is_none())
            };
            let untouched = last.is_none() && value.is_none();
            if untouched || writes.iter().enumerate().any(may) {
                continue;
            }
            let acknowledged = last.and_then(|last| writes[last].value);
            match value {
                None if partial => {}
                None => faults.push(Fault::Lost { key, found: None, acknowledged }),
                Some(value) if !writes.iter().any(|w| w.value == Some(value) && w.sent <= came) => {
                    faults.push(Fault::Invented((key, value)));
                }
                Some(value) if acknowledged.is_none() => {
                    faults.push(Fault::Revived { key, found: value });
                }
                Some(value) => {
                    faults.push(Fault::Lost { key, found: Some(value), acknowledged });
                }
            }
        }
        let strange = found.iter().filter(|(key, _)| !looked.contains(key));
        faults.extend(strange.map(|(key, value)| Fault::Invented((*key, *value))));
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key 1 has value 10, key 2 was deleted, key 3 was never written, 4's write is not known.
    fn known() -> Checker {
        let mut checker = Checker::new();
        let first = checker.sent(1, Some(9), 1);
        checker.acknowledged(1, first, 2);
        let second = checker.sent(1, Some(10), 3);
        checker.acknowledged(1, second, 4);
        let written = checker.sent(2, Some(20), 1);
        checker.acknowledged(2, written, 2);
        let deleted = checker.sent(2, None, 3);
        checker.acknowledged(2, deleted, 4);
        checker.sent(4, Some(40), 3);
        checker
    }

    fn faults(met: &[Met]) -> Vec<Fault> {
        known().look(1..=4, met, (5, 6), false)
    }

    #[test]
    fn right_answers_pass() {
        assert_eq!(faults(&[(1, 10)]), []);
        assert_eq!(faults(&[(1, 10), (4, 40)]), [], "a write of which nobody knows");
        // Sent before the second write was acknowledged: the first is right, too.
        assert_eq!(known().look(1..=1, &[(1, 9)], (3, 6), false), []);
        assert_eq!(known().look(1..=4, &[], (5, 6), true), [], "a partial answer");
    }

    #[test]
    fn planted_faults_are_caught() {
        let lost = Fault::Lost { key: 1, found: None, acknowledged: Some(10) };
        assert_eq!(faults(&[]), [lost]);
        let old = Fault::Lost { key: 1, found: Some(9), acknowledged: Some(10) };
        assert_eq!(faults(&[(1, 9)]), [old]);
        assert_eq!(faults(&[(1, 10), (1, 10)]), [Fault::Doubled(1)]);
        assert_eq!(faults(&[(1, 10), (2, 20)]), [Fault::Revived { key: 2, found: 20 }]);
        assert_eq!(faults(&[(1, 10), (3, 30)]), [Fault::Invented((3, 30))]);
        assert_eq!(faults(&[(1, 10), (7, 1)]), [Fault::Invented((7, 1))]);
        assert_eq!(faults(&[(1, 11)]), [Fault::Invented((1, 11))]);
    }

    #[test]
    fn everything_is_counted() {
        let mut checker = Checker::new();
        for key in 1..=5 {
            let write = checker.sent(key, Some(7), key);
            checker.acknowledged(key, write, key);
        }
        let deleted = checker.sent(2, None, 9);
        checker.acknowledged(2, deleted, 10);
        assert_eq!(checker.all((4, 13)), None);
        let counted = |found| Some(Fault::Counted { found, acknowledged: (4, 13) });
        // One is lost, one is there twice, one has come back, and one stands for another.
        for found in [(3, 8), (5, 18), (5, 15), (4, 12)] {
            assert_eq!(checker.all(found), counted(found));
        }
    }
}
