//! Which transactions run together, and in which order: strongly connected components of the graph
//! of dependencies, ancestors first.

use super::message::Deps;
use crate::txn::TxnId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// What is known of a transaction.
pub enum Known {
    /// It has run: nobody looks behind it.
    Over,
    /// These go before it.
    Before(Arc<Deps>),
    /// Nothing can be said before something happens to this one, which may be itself.
    Behind(TxnId),
}

/// What a search found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Components in the order in which they run, each sorted by name.
    Order(Vec<Vec<TxnId>>),
    /// Something must happen to these first.
    Blocked(BTreeSet<TxnId>),
}

struct Visit {
    index: usize,
    low: usize,
    on_stack: bool,
}

struct Frame {
    id: TxnId,
    before: Vec<TxnId>,
    next: usize,
}

/// Looks at `root` and all its ancestors (Tarjan's algorithm, without recursion).
pub fn search(root: TxnId, known: &impl Fn(TxnId) -> Known) -> Found {
    let mut visits: BTreeMap<TxnId, Visit> = BTreeMap::new();
    let (mut stack, mut frames, mut order) = (Vec::new(), Vec::new(), Vec::new());
    let mut blocked = BTreeSet::new();
    let mut enter = |id: TxnId, stack: &mut Vec<TxnId>, visits: &mut BTreeMap<TxnId, Visit>| {
        let before = match known(id) {
            Known::Over => return None,
            Known::Behind(other) => {
                blocked.insert(other);
                return None;
            }
            Known::Before(deps) => deps.keys().copied().filter(|dep| *dep != id).collect(),
        };
        let index = visits.len();
        visits.insert(id, Visit { index, low: index, on_stack: true });
        stack.push(id);
        Some(Frame { id, before, next: 0 })
    };
    frames.extend(enter(root, &mut stack, &mut visits));
    while let Some(frame) = frames.last_mut() {
        let id = frame.id;
        if let Some(dep) = frame.before.get(frame.next).copied() {
            frame.next += 1;
            match visits.get(&dep) {
                Some(seen) if seen.on_stack => {
                    let index = seen.index;
                    if let Some(own) = visits.get_mut(&id) {
                        own.low = own.low.min(index);
                    }
                }
                Some(_) => {}
                None => frames.extend(enter(dep, &mut stack, &mut visits)),
            }
            continue;
        }
        frames.pop();
        let (index, low) = visits.get(&id).map_or((0, 0), |visit| (visit.index, visit.low));
        if let Some(parent) = frames.last()
            && let Some(visit) = visits.get_mut(&parent.id)
        {
            visit.low = visit.low.min(low);
        }
        if low == index {
            let mut component = vec![];
            while let Some(member) = stack.pop() {
                if let Some(visit) = visits.get_mut(&member) {
                    visit.on_stack = false;
                }
                component.push(member);
                if member == id {
                    break;
                }
            }
            component.sort_unstable();
            order.push(component);
        }
    }
    if blocked.is_empty() { Found::Order(order) } else { Found::Blocked(blocked) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> TxnId {
        TxnId { client: 1, number }
    }

    fn run(edges: &[(u64, &[u64])], root: u64) -> Found {
        let of = |name: TxnId| match edges.iter().find(|(from, _)| id(*from) == name) {
            Some((_, to)) => {
                let deps: Deps = to.iter().map(|to| (id(*to), [].into())).collect();
                Known::Before(Arc::new(deps))
            }
            None if name.number >= 90 => Known::Over,
            None => Known::Behind(name),
        };
        search(id(root), &of)
    }

    #[test]
    fn clause_3_1_ancestors_run_first_and_circles_by_name() {
        // 3 and 2 and 1 go round in a circle, 5 before them, 4 after them.
        let edges: [(u64, &[u64]); 5] =
            [(4, &[3]), (3, &[2, 90]), (2, &[1, 5]), (1, &[3]), (5, &[91])];
        let expected = [vec![id(5)], vec![id(1), id(2), id(3)], vec![id(4)]];
        assert_eq!(run(&edges, 4), Found::Order(expected.to_vec()));
        assert_eq!(run(&edges, 5), Found::Order([vec![id(5)]].to_vec()));
    }

    #[test]
    fn what_is_not_known_is_named() {
        let edges: [(u64, &[u64]); 2] = [(1, &[2, 7]), (2, &[8])];
        assert_eq!(run(&edges, 1), Found::Blocked([id(7), id(8)].into()));
    }
}
