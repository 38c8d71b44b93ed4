//! The sweep: at which start the slowest part of a plan is done first `[roar 2.5]`.
//!
//! A plan of k equal parts is decided by its start. Moving the start on, one point after the other
//! crosses from one server's range into the next: n crossings, and between two of them the servers
//! stay the same. The crossings are sorted once for a ring and a k, so that a query walks over them
//! with a tournament of k entries: O(n log k), and exact.
//!
//! With several rings of disjoint servers each point takes the better of its owners.

use crate::cost::Load;
use crate::plan::{Part, point};
use crate::ring::{Ring, Slice, WHOLE};
use alloc::vec::Vec;
use cavy_core::Stream;

/// A point enters a range when the start has moved so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Crossing {
    offset: u64,
    ring: u32,
    head: u32,
    /// The position that is entered.
    position: u32,
}

/// The sweep over some rings with `k` points, prepared for many queries.
#[derive(Clone, Debug)]
pub struct Sweep {
    k: usize,
    crossings: Vec<Crossing>,
    /// Position of each point at start zero, by ring and point.
    first: Vec<u32>,
    /// Where each ring's positions begin in `points` and `value`.
    bases: Vec<usize>,
    server: Vec<u32>,
    owner: Vec<u32>,
    points: Vec<u32>,
    tree: Tree,
    /// Start and finish between crossings.
    finishes: Vec<(u64, u64)>,
    each: Vec<u64>,
}

impl Sweep {
    /// For plans of `k` parts over `rings`, no two of which share a server.
    ///
    /// # Panics
    /// When `k` is zero or there is no ring.
    pub fn new(rings: &[Ring], k: usize) -> Sweep {
        assert!(k > 0 && !rings.is_empty(), "a sweep needs a point and a ring");
        // Farther than this some point would pass where the next one was.
        let limit = WHOLE / k as u128;
        let mut crossings = Vec::new();
        let (mut first, mut bases, mut server) = (Vec::new(), Vec::new(), Vec::new());
        for (number, ring) in rings.iter().enumerate() {
            bases.push(server.len());
            server.extend_from_slice(ring.servers());
            first.extend((0..k).map(|j| ring.owner(point(j, k)) as u32));
            for position in 0..ring.count() {
                let start = ring.start(position);
                let mut head = ((u128::from(start) * k as u128) >> 64) as usize;
                // Rounding down may have left the next point at this very id.
                if head + 1 < k && point(head + 1, k) <= start {
                    head += 1;
                }
                let offset = start - point(head, k);
                if offset > 0 && u128::from(offset) < limit {
                    let (ring, head) = (number as u32, head as u32);
                    crossings.push(Crossing { offset, ring, head, position: position as u32 });
                }
            }
        }
        crossings.sort_unstable();
        let finishes = Vec::with_capacity(crossings.len() + 1);
        let points = Vec::with_capacity(server.len());
        let each = Vec::with_capacity(server.len());
        let owner = Vec::with_capacity(first.len());
        let tree = Tree::new(k);
        Sweep { k, crossings, first, bases, server, owner, points, tree, finishes, each }
    }

    /// Points of its plans.
    pub fn points(&self) -> usize {
        self.k
    }

    /// Finds the start whose slowest part is done first and puts its parts into `parts`, in the
    /// order of the ring. Among starts at most `within` (0 for equal ones alone) later than the
    /// best, chance decides. `loads` is by server. Returns the finish, from now.
    pub fn plan(
        &mut self,
        loads: &[Load],
        within: f64,
        rng: &mut Stream,
        parts: &mut Vec<Part>,
    ) -> u64 {
        self.walk(loads);
        let best = self.finishes.iter().map(|&(_, finish)| finish).min().unwrap_or(0);
        let most = best + (best as f64 * within) as u64;
        // Any good start alike, so that crossings an id apart, which rounding makes, count for
        // nothing.
        let limit = (WHOLE / self.k as u128).min(WHOLE - 1) as u64;
        let ends = self.finishes.iter().skip(1).map(|&(start, _)| start).chain([limit]);
        let spans = self.finishes.iter().zip(ends);
        let good = spans.filter(|(from, _)| from.1 <= most).map(|(from, end)| (from.0, end));
        let total: u64 = good.clone().map(|(from, end)| end - from).sum();
        let mut chosen = rng.below(total.max(1));
        let mut start = 0;
        for (from, end) in good {
            start = from;
            if chosen < end - from {
                start += chosen;
                break;
            }
            chosen -= end - from;
        }
        self.at(start, loads, parts)
    }

    /// The plan that begins at a start of chance, without looking `[roar 3.5]`.
    pub fn blind(&mut self, loads: &[Load], rng: &mut Stream, parts: &mut Vec<Part>) -> u64 {
        self.price(loads);
        self.at(rng.bits(), loads, parts)
    }

    /// The finish of the plan with any start: what the sweep has between crossings.
    pub fn at(&mut self, start: u64, loads: &[Load], parts: &mut Vec<Part>) -> u64 {
        parts.clear();
        let k = self.k;
        // A start beyond the first part is one of the other points, turned.
        let start = (u128::from(start) % (WHOLE / k as u128)) as u64;
        self.begin(start);
        let mut worst = 0;
        for head in 0..k {
            let (finish, ring) = self.best(head, loads);
            worst = worst.max(finish);
            let place = self.bases[ring] + self.owner[ring * k + head] as usize;
            let hi = start.wrapping_add(point(head, k));
            let lo = start.wrapping_add(point((head + k - 1) % k, k));
            parts.push(Part { server: self.server[place], slice: Slice::new(lo, hi) });
        }
        worst
    }

    /// What one part takes on each server.
    fn price(&mut self, loads: &[Load]) {
        let width = WHOLE / self.k as u128;
        self.each.clear();
        let each = self.server.iter().map(|&server| loads[server as usize].cost.of(width));
        self.each.extend(each);
    }

    /// Owners and counts at `start`.
    fn begin(&mut self, start: u64) {
        self.owner.clone_from(&self.first);
        let passed = self.crossings.iter().take_while(|crossing| crossing.offset <= start);
        for crossing in passed {
            self.owner[crossing.ring as usize * self.k + crossing.head as usize] =
                crossing.position;
        }
        self.points.clear();
        self.points.resize(self.server.len(), 0);
        for (at, &owner) in self.owner.iter().enumerate() {
            self.points[self.bases[at / self.k] + owner as usize] += 1;
        }
    }

    /// When the owner of a point is done, all its points counted; of several rings the best.
    #[inline]
    fn best(&self, head: usize, loads: &[Load]) -> (u64, usize) {
        let mut best = (u64::MAX, 0);
        for (ring, base) in self.bases.iter().enumerate() {
            let place = base + self.owner[ring * self.k + head] as usize;
            let load = &loads[self.server[place] as usize];
            let finish = load.free_ns + self.each[place] * u64::from(self.points[place]);
            best = best.min((finish, ring));
        }
        best
    }

    fn walk(&mut self, loads: &[Load]) {
        self.price(loads);
        self.begin(0);
        for head in 0..self.k {
            self.tree.set(head, self.best(head, loads).0);
        }
        self.tree.build();
        self.finishes.clear();
        let mut start = 0;
        for next in 0..self.crossings.len() {
            let crossing = self.crossings[next];
            if crossing.offset > start {
                self.finishes.push((start, self.tree.max()));
                start = crossing.offset;
            }
            let (ring, head) = (crossing.ring as usize, crossing.head as usize);
            let slot = ring * self.k + head;
            let left = self.bases[ring] + self.owner[slot] as usize;
            let entered = self.bases[ring] + crossing.position as usize;
            self.owner[slot] = crossing.position;
            self.points[left] -= 1;
            self.points[entered] += 1;
            self.refresh(head, loads);
            // Those that stay behind with the server that was left, and those that were before on
            // the one entered, follow each other and this point.
            for step in 1..=self.points[left] as usize {
                self.refresh((head + self.k - step % self.k) % self.k, loads);
            }
            for step in 1..self.points[entered] as usize {
                self.refresh((head + step) % self.k, loads);
            }
        }
        self.finishes.push((start, self.tree.max()));
    }

    #[inline]
    fn refresh(&mut self, head: usize, loads: &[Load]) {
        let finish = self.best(head, loads).0;
        self.tree.update(head, finish);
    }
}

/// The greatest of k values, some of which change.
#[derive(Clone, Debug)]
struct Tree {
    leaves: usize,
    nodes: Vec<u64>,
}

impl Tree {
    fn new(k: usize) -> Tree {
        let leaves = k.next_power_of_two();
        Tree { leaves, nodes: alloc::vec![0; 2 * leaves] }
    }

    fn set(&mut self, leaf: usize, value: u64) {
        self.nodes[self.leaves + leaf] = value;
    }

    fn build(&mut self) {
        for node in (1..self.leaves).rev() {
            self.nodes[node] = self.nodes[2 * node].max(self.nodes[2 * node + 1]);
        }
    }

    #[inline]
    fn update(&mut self, leaf: usize, value: u64) {
        let mut node = self.leaves + leaf;
        if self.nodes[node] == value {
            return;
        }
        self.nodes[node] = value;
        while node > 1 {
            let (greatest, parent) = (self.nodes[node].max(self.nodes[node ^ 1]), node / 2);
            if self.nodes[parent] == greatest {
                return;
            }
            self.nodes[parent] = greatest;
            node = parent;
        }
    }

    fn max(&self) -> u64 {
        self.nodes[1]
    }
}
