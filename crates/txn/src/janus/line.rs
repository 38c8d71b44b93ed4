//! The transactions of one key, in the order in which they got their places at a replica.

use super::message::Deps;
use crate::txn::TxnId;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Covered transactions that a key remembers.
const REMEMBERED: usize = 8;

/// Those that whoever comes next must name. One leaves when a writer of the key has it before it
/// for ever: whoever comes next names that writer, or one that has it before it in turn. All of
/// them touch this shard, so that each of its replicas can follow them.
#[derive(Default)]
pub(super) struct Line {
    writers: Vec<TxnId>,
    readers: Vec<TxnId>,
    /// The last that left. Another replica may still name them.
    covered: VecDeque<TxnId>,
}

impl Line {
    /// What goes before one that comes now: to be named, and covered.
    pub fn before(&self, write: bool, named: &mut BTreeSet<TxnId>, covered: &mut BTreeSet<TxnId>) {
        named.extend(&self.writers);
        if write {
            named.extend(&self.readers);
        }
        covered.extend(&self.covered);
    }

    /// `id` comes now. It may come with several pieces.
    pub fn join(&mut self, id: TxnId, write: bool) {
        let list = if write { &mut self.writers } else { &mut self.readers };
        if list.last() != Some(&id) {
            list.push(id);
        }
    }

    /// The writer `by` has `deps` before it, for ever. One that has left covers nobody: two of a
    /// circle would cover each other.
    pub fn cover(&mut self, by: TxnId, deps: &Deps) {
        if !self.writers.contains(&by) {
            return;
        }
        for list in [&mut self.writers, &mut self.readers] {
            self.covered.extend(list.iter().filter(|id| deps.contains_key(id)));
            list.retain(|id| !deps.contains_key(id));
        }
        let old = self.covered.len().saturating_sub(REMEMBERED);
        self.covered.drain(..old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> TxnId {
        TxnId { client: 1, number }
    }

    fn ids(numbers: &[u64]) -> BTreeSet<TxnId> {
        numbers.iter().map(|number| id(*number)).collect()
    }

    fn before(line: &Line, write: bool) -> (BTreeSet<TxnId>, BTreeSet<TxnId>) {
        let (mut named, mut covered) = (BTreeSet::new(), BTreeSet::new());
        line.before(write, &mut named, &mut covered);
        (named, covered)
    }

    #[test]
    fn clause_3_1_all_that_conflict_are_named_until_a_writer_has_them_before_it() {
        let mut line = Line::default();
        for (number, write) in [(1, true), (2, false), (3, true), (3, true), (4, false)] {
            line.join(id(number), write);
        }
        assert_eq!(before(&line, true), (ids(&[1, 2, 3, 4]), ids(&[])));
        assert_eq!(before(&line, false), (ids(&[1, 3]), ids(&[])));
        // 3 was given 2 and not 1, as another replica had it.
        line.cover(id(3), &[(id(2), [].into())].into());
        assert_eq!(before(&line, true), (ids(&[1, 3, 4]), ids(&[2])));
    }

    #[test]
    fn of_a_circle_one_is_named() {
        let mut line = Line::default();
        for number in [1, 2] {
            line.join(id(number), true);
        }
        for number in [1, 2] {
            line.cover(id(number), &[(id(3 - number), [].into())].into());
        }
        assert_eq!(before(&line, true), (ids(&[1]), ids(&[2])));
    }

    #[test]
    fn what_is_covered_is_not_remembered_for_ever() {
        let mut line = Line::default();
        for number in 0..100 {
            line.join(id(number), true);
            line.cover(id(number), &[(id(number.wrapping_sub(1)), [].into())].into());
        }
        let last: Vec<u64> = (99 - REMEMBERED as u64..99).collect();
        assert_eq!(before(&line, true), (ids(&[99]), ids(&last)));
    }
}
