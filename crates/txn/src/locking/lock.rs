//! Strict two-phase locks, shared or exclusive, with wound-wait: whoever is older does not wait for
//! whoever is younger and can still be taken back `[dast 0.12]`.

use super::message::{Attempt, Rank};
use crate::txn::Key;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Holder {
    attempt: Attempt,
    rank: Rank,
    write: bool,
}

#[derive(Debug, Default)]
struct Queue {
    held: Vec<Holder>,
    /// The oldest first.
    waits: BTreeMap<(Rank, Attempt), bool>,
}

impl Queue {
    fn fits(&self, write: bool) -> bool {
        self.held.iter().all(|holder| !holder.write && !write)
    }
}

/// The locks of one shard's leader.
#[derive(Debug, Default)]
pub struct Locks {
    keys: BTreeMap<Key, Queue>,
}

/// What came of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// The lock is held.
    Granted,
    /// It waits, and these younger ones hold it.
    Waits(Vec<Attempt>),
}

impl Locks {
    /// Asks for `key`.
    pub fn request(&mut self, key: Key, attempt: Attempt, rank: Rank, write: bool) -> Request {
        let queue = self.keys.entry(key).or_default();
        let older = queue.waits.range(..(rank, attempt));
        let overtakes = older.into_iter().any(|(_, theirs)| *theirs || write);
        if queue.fits(write) && !overtakes {
            queue.held.push(Holder { attempt, rank, write });
            return Request::Granted;
        }
        queue.waits.insert((rank, attempt), write);
        let younger = queue.held.iter().filter(|h| h.rank > rank && (h.write || write));
        Request::Waits(younger.map(|holder| holder.attempt).collect())
    }

    /// Lets go of `key`, held or waited for. Returns who holds it now and did not before.
    pub fn release(&mut self, key: Key, attempt: Attempt, rank: Rank) -> Vec<Attempt> {
        let mut granted = Vec::new();
        let Some(queue) = self.keys.get_mut(&key) else { return granted };
        queue.held.retain(|holder| holder.attempt != attempt);
        queue.waits.remove(&(rank, attempt));
        while let Some((&(rank, attempt), &write)) = queue.waits.first_key_value() {
            if !queue.fits(write) {
                break;
            }
            queue.waits.pop_first();
            queue.held.push(Holder { attempt, rank, write });
            granted.push(attempt);
        }
        if queue.held.is_empty() && queue.waits.is_empty() {
            self.keys.remove(&key);
        }
        granted
    }

    /// Nothing is held.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::{Shard, TxnId};

    fn who(since: u64) -> (Attempt, Rank) {
        let id = TxnId { client: 1, number: since };
        (Attempt { id, home: Shard(0), term: 1, round: 1 }, Rank { since, id })
    }

    const KEY: Key = Key::new(1, 1);

    #[test]
    fn the_older_wounds_and_the_younger_waits() {
        let mut locks = Locks::default();
        let ask = |locks: &mut Locks, since, write| {
            let (attempt, rank) = who(since);
            locks.request(KEY, attempt, rank, write)
        };
        assert_eq!(ask(&mut locks, 5, true), Request::Granted);
        assert_eq!(ask(&mut locks, 9, true), Request::Waits(Vec::new()));
        assert_eq!(ask(&mut locks, 2, true), Request::Waits(alloc::vec![who(5).0]));
        // The oldest is first, whoever came first.
        assert_eq!(locks.release(KEY, who(5).0, who(5).1), [who(2).0]);
        assert_eq!(locks.release(KEY, who(2).0, who(2).1), [who(9).0]);
        assert_eq!(locks.release(KEY, who(9).0, who(9).1), []);
        assert!(locks.is_empty());
    }

    #[test]
    fn readers_share_and_do_not_overtake_an_older_writer() {
        let mut locks = Locks::default();
        let ask = |locks: &mut Locks, since, write| {
            let (attempt, rank) = who(since);
            locks.request(KEY, attempt, rank, write)
        };
        assert_eq!(ask(&mut locks, 1, false), Request::Granted);
        assert_eq!(ask(&mut locks, 2, false), Request::Granted);
        assert_eq!(ask(&mut locks, 3, true), Request::Waits(Vec::new()));
        assert_eq!(ask(&mut locks, 4, false), Request::Waits(Vec::new()));
        assert_eq!(locks.release(KEY, who(1).0, who(1).1), []);
        assert_eq!(locks.release(KEY, who(2).0, who(2).1), [who(3).0]);
        assert_eq!(locks.release(KEY, who(3).0, who(3).1), [who(4).0]);
    }
}
