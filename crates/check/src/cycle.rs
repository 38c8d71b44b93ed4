//! The smallest cycle among transactions that are strongly connected.

use crate::anomaly::Time;
use crate::graph::{Graph, Kind, Mask};
use crate::history::History;
use crate::moments;
use std::collections::VecDeque;

/// One step of a cycle: `from` goes before `to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Who goes before.
    pub from: u32,
    /// Whom.
    pub to: u32,
    /// Why.
    pub kind: Kind,
    /// The key it is about; meaningless for orders of time.
    pub key: u32,
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Kinds of which one step must be.
    pub one: Mask,
    /// Kinds of which all others must be.
    pub others: Mask,
    /// The order of time that may be used, beside edges; it is one of the kinds.
    pub time: Option<Time>,
    /// No two overwritten reads next to each other.
    pub nonadjacent: bool,
}

/// How many edges may be looked at before a search is given up.
#[derive(Clone, Copy, Debug)]
pub struct Budget(pub u64);

/// A place in the search: a node, and whether it was entered by an overwritten read. The two places
/// of a node differ only where the next step depends on it.
fn place(node: u32, by_rw: bool) -> usize {
    node as usize * 2 + usize::from(by_rw)
}

/// Searches cycles in one graph; keeps its memory between searches.
#[derive(Debug)]
pub struct Search<'g> {
    graph: &'g Graph,
    history: &'g History,
    // Steps from the start and how each place was reached, of the search numbered in `stamp`.
    reached: Vec<(u32, u32)>,
    parent: Vec<(usize, Kind, u32)>,
    stamp: u32,
    // The set that is searched.
    member: Vec<u32>,
    set: u32,
    // The group of each transaction of the set, from 1; 0 for none.
    group_of: Vec<u32>,
}

impl<'g> Search<'g> {
    /// A search in `graph` of `history`.
    pub fn new(graph: &'g Graph, history: &'g History) -> Self {
        let places = graph.nodes() * 2;
        Search {
            graph,
            history,
            reached: vec![(0, 0); places],
            parent: vec![(0, Kind::Fan, 0); places],
            stamp: 0,
            member: vec![0; graph.nodes()],
            set: 0,
            group_of: vec![0; graph.txns as usize],
        }
    }

    /// The smallest cycle of the wanted kind within `set`, the first one of several; `None` when
    /// there is none, or when the budget is used up before one is found.
    pub fn smallest(
        &mut self,
        set: &[u32],
        wanted: Wanted,
        budget: &mut Budget,
    ) -> Option<Vec<Step>> {
        self.set += 1;
        for node in set {
            self.member[*node as usize] = self.set;
        }
        let txns = || set.iter().copied().take_while(|node| *node < self.graph.txns);
        let groups = match wanted.time {
            Some(time) => moments::groups(self.history, time, txns()),
            None => Vec::new(),
        };
        for (number, group) in groups.iter().enumerate() {
            for txn in group {
                self.group_of[*txn as usize] = number as u32 + 1;
            }
        }
        let starts: Vec<u32> = txns().collect();
        let mut best: Option<Vec<Step>> = None;
        for start in starts {
            let limit = best.as_ref().map_or(u32::MAX, |steps| steps.len() as u32);
            if limit == 2 || budget.0 == 0 {
                break;
            }
            let found = self.from(start, wanted, limit, &groups, budget);
            best = found.or(best);
        }
        for txn in groups.iter().flatten() {
            self.group_of[*txn as usize] = 0;
        }
        best
    }

    /// The smallest cycle through `start` of fewer than `limit` steps, whose last step is the one
    /// that must be.
    fn from(
        &mut self,
        start: u32,
        wanted: Wanted,
        limit: u32,
        groups: &[Vec<u32>],
        budget: &mut Budget,
    ) -> Option<Vec<Step>> {
        self.stamp += 1;
        let txns = &self.history.txns;
        // Of each group, from where on everybody is reached by time.
        let mut covered: Vec<usize> = groups.iter().map(Vec::len).collect();
        let mut queue = VecDeque::new();
        // A cycle that ends with an overwritten read must not begin with one if none may be
        // neighbors.
        let closes_by_rw = wanted.nonadjacent;
        self.reach(place(start, closes_by_rw), 0, (0, Kind::Fan, 0));
        queue.push_back(place(start, closes_by_rw));
        while let Some(at) = queue.pop_front() {
            let (node, by_rw) = ((at / 2) as u32, at % 2 == 1);
            let steps = self.reached[at].1;
            if steps + 1 >= limit {
                continue;
            }
            let virtual_node = node >= self.graph.txns;
            // What entered a fan leaves it.
            let entered =
                if virtual_node { Some((self.parent[at].1, self.parent[at].2)) } else { None };
            let graph = self.graph;
            for edge in graph.out(node) {
                budget.0 = budget.0.saturating_sub(1);
                let timed = matches!(edge.kind(), Kind::Session | Kind::Regional | Kind::RealTime);
                if timed || self.member[edge.to as usize] != self.set {
                    continue;
                }
                let (kind, key) = match (edge.kind(), entered) {
                    (Kind::Fan, Some(entered)) => entered,
                    (kind, _) => (kind, edge.key()),
                };
                let follows = !(wanted.nonadjacent && by_rw && kind == Kind::Rw && !virtual_node);
                if edge.to == start && wanted.one.has(kind) && follows {
                    return self.path(at, start, (kind, key));
                }
                if edge.to == start {
                    continue;
                }
                let passes = wanted.others.has(kind) && follows;
                let to_fan = edge.to >= graph.txns;
                // A fan may be entered by what closes the cycle behind it.
                let closes_later = to_fan && wanted.one.has(kind) && follows;
                if !(passes || closes_later) {
                    continue;
                }
                if virtual_node && !wanted.others.has(kind) {
                    continue;
                }
                let by_rw = kind == Kind::Rw && (to_fan || wanted.nonadjacent);
                let next = place(edge.to, by_rw);
                if self.reached[next].0 == self.stamp {
                    continue;
                }
                // The step counts when it arrives at a transaction.
                let taken = if to_fan { steps } else { steps + 1 };
                self.reach(next, taken, (at, kind, key));
                if to_fan { queue.push_front(next) } else { queue.push_back(next) }
            }
            let (Some(time), false) = (wanted.time, virtual_node) else { continue };
            let group = self.group_of[node as usize];
            if group == 0 {
                continue;
            }
            let completed = txns[node as usize].completed;
            if group == self.group_of[start as usize]
                && completed < txns[start as usize].invoked
                && wanted.one.has(time.kind())
            {
                return self.path(at, start, (time.kind(), 0));
            }
            let group = group as usize - 1;
            let after = groups[group].partition_point(|t| txns[*t as usize].invoked <= completed);
            let until = covered[group];
            for txn in groups[group].get(after..until).unwrap_or(&[]) {
                budget.0 = budget.0.saturating_sub(1);
                let next = place(*txn, false);
                if self.reached[next].0 != self.stamp {
                    self.reach(next, steps + 1, (at, time.kind(), 0));
                    queue.push_back(next);
                }
            }
            covered[group] = until.min(after);
        }
        None
    }

    fn reach(&mut self, at: usize, steps: u32, by: (usize, Kind, u32)) {
        self.reached[at] = (self.stamp, steps);
        self.parent[at] = by;
    }

    /// The steps from `start` to `last` and back; `None` when somebody is met twice on the way.
    fn path(&self, last: usize, start: u32, closing: (Kind, u32)) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        let (mut to, mut by, mut at) = (start, closing, last);
        loop {
            let node = (at / 2) as u32;
            if node < self.graph.txns {
                steps.push(Step { from: node, to, kind: by.0, key: by.1 });
                if node == start {
                    break;
                }
                to = node;
            }
            let (before, kind, key) = self.parent[at];
            if node < self.graph.txns {
                by = (kind, key);
            }
            at = before;
        }
        steps.reverse();
        let mut nodes: Vec<u32> = steps.iter().map(|step| step.from).collect();
        nodes.sort_unstable();
        nodes.dedup();
        (nodes.len() == steps.len() && steps.len() > 1).then_some(steps)
    }
}
