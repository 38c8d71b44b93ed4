//! Who must go before whom: edges between transactions, and what is strongly connected.
//!
//! Nodes below [`Graph::txns`] are transactions. The others stand for many edges at once: a *fan*
//! says that everyone who points to it goes before everyone it points to, and a *barrier* stands
//! for a moment of real time.

/// Why one transaction goes before another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// It wrote the version before the other's.
    Ww = 0,
    /// The other read what it wrote.
    Wr = 1,
    /// The other overwrote what it read.
    Rw = 2,
    /// Out of a fan: what the edge into the fan was.
    Fan = 3,
    /// One client asked for it before.
    Session = 4,
    /// It was answered before the other was asked for, in the same region.
    Regional = 5,
    /// It was answered before the other was asked for.
    RealTime = 6,
}

const KINDS: [Kind; 7] =
    [Kind::Ww, Kind::Wr, Kind::Rw, Kind::Fan, Kind::Session, Kind::Regional, Kind::RealTime];

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mask(u8);

impl Mask {
    /// Version order, reads and overwritten reads.
    pub const DEPENDENCIES: Mask = Mask::of(&[Kind::Ww, Kind::Wr, Kind::Rw]);

    /// These kinds, and edges out of fans, which have the kind of the edge into it.
    pub const fn of(kinds: &[Kind]) -> Mask {
        let mut bits = 1 << Kind::Fan as u8;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Mask(bits)
    }

    /// Is `kind` in it?
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// With one more kind.
    pub const fn and(self, kind: Kind) -> Mask {
        Mask(self.0 | 1 << kind as u8)
    }
}

/// An edge, seen from where it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Where it ends.
    pub to: u32,
    // The key above three bits of the kind.
    label: u32,
}

impl Edge {
    /// Why it is there.
    pub fn kind(self) -> Kind {
        KINDS[(self.label & 7) as usize]
    }

    /// The key it is about; meaningless for orders of time.
    pub fn key(self) -> u32 {
        self.label >> 3
    }
}

/// A finished graph.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Transactions.
    pub txns: u32,
    starts: Vec<u32>,
    edges: Vec<Edge>,
}

/// A graph under construction.
#[derive(Debug)]
pub struct Draft {
    txns: u32,
    nodes: u32,
    edges: Vec<(u32, Edge)>,
}

impl Draft {
    /// A graph of `txns` transactions without edges.
    pub fn new(txns: u32) -> Self {
        Draft { txns, nodes: txns, edges: Vec::new() }
    }

    /// A new node that is no transaction.
    pub fn node(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes - 1
    }

    /// `from` goes before `to`. Nobody goes before himself: such an edge is left out.
    pub fn edge(&mut self, from: u32, to: u32, kind: Kind, key: u32) {
        if from != to {
            self.edges.push((from, Edge { to, label: key << 3 | kind as u32 }));
        }
    }

    /// Everyone of `before` goes before everyone of `after` but himself, for `kind` and `key`.
    ///
    /// Both are sorted and have nobody twice. All pairs are edges while they are few; beyond that
    /// the edges are as many as both have members, and give the same order as all pairs would.
    pub fn all_before(&mut self, before: &[u32], after: &[u32], kind: Kind, key: u32) {
        let (few, many) = (before.len().min(after.len()), before.len().max(after.len()));
        if few == 1 || few * many <= DIRECT_MOST {
            for from in before {
                for to in after {
                    self.edge(*from, *to, kind, key);
                }
            }
            return;
        }
        // Who is on both sides must not meet himself in the fan.
        let both =
            |one: &u32| before.binary_search(one).is_ok() && after.binary_search(one).is_ok();
        let ring: Vec<u32> = before.iter().copied().filter(both).collect();
        let fan = self.node();
        for from in before {
            if ring.is_empty() || !both(from) {
                self.edge(*from, fan, kind, key);
            }
        }
        for to in after {
            if ring.is_empty() || !both(to) {
                self.edge(fan, *to, Kind::Fan, key);
            }
        }
        // Two of the ring go before each other, and so do all; with one there is nothing between.
        for (at, one) in ring.iter().enumerate() {
            if ring.len() > 1 {
                self.edge(*one, ring[(at + 1) % ring.len()], kind, key);
            }
        }
        if let Some(first) = ring.first() {
            self.edge(*first, fan, kind, key);
            for from in before {
                self.edge(*from, *first, kind, key);
            }
        }
    }

    /// The graph.
    pub fn finish(self) -> Graph {
        let mut starts = vec![0u32; self.nodes as usize + 1];
        for (from, _) in &self.edges {
            starts[*from as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut edges = vec![Edge { to: 0, label: 0 }; self.edges.len()];
        for (from, edge) in self.edges {
            let at = &mut next[from as usize];
            edges[*at as usize] = edge;
            *at += 1;
        }
        Graph { txns: self.txns, starts, edges }
    }
}

/// Pairs that are edges of their own, so that the smallest cycle among them is found as such.
const DIRECT_MOST: usize = 64;
/// Not visited yet.
const NEW: u32 = u32::MAX;
/// Visited, and its component is complete.
const DONE: u32 = u32::MAX - 1;

impl Graph {
    /// Nodes, transactions and others.
    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// Edges there are.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// Edges out of `node`.
    pub fn out(&self, node: u32) -> &[Edge] {
        let (from, to) = (self.starts[node as usize], self.starts[node as usize + 1]);
        &self.edges[from as usize..to as usize]
    }

    /// The strongly connected sets of two and more transactions by edges of `mask` among `nodes`,
    /// or among all when that is `None`; other nodes of a set are in it too. Each is sorted.
    ///
    /// Tarjan's algorithm without recursion, in time linear in nodes and edges.
    pub fn connected(&self, mask: Mask, nodes: Option<&[u32]>) -> Vec<Vec<u32>> {
        let all = self.nodes();
        // Outside of the given nodes everything is done already.
        let mut number = vec![if nodes.is_some() { DONE } else { NEW }; all];
        for node in nodes.unwrap_or(&[]) {
            number[*node as usize] = NEW;
        }
        let mut low = vec![0u32; all];
        let mut open: Vec<u32> = Vec::new();
        let mut path: Vec<(u32, u32)> = Vec::new();
        let mut found = Vec::new();
        let mut count = 0;
        let whole: Vec<u32>;
        let roots = match nodes {
            Some(nodes) => nodes,
            None => {
                whole = (0..all as u32).collect();
                &whole
            }
        };
        for root in roots {
            if number[*root as usize] != NEW {
                continue;
            }
            path.push((*root, 0));
            while let Some((node, at)) = path.last_mut() {
                let node = *node as usize;
                if *at == 0 {
                    number[node] = count;
                    low[node] = count;
                    count += 1;
                    open.push(node as u32);
                }
                let edges = self.out(node as u32);
                let mut next = None;
                while let Some(edge) = edges.get(*at as usize) {
                    *at += 1;
                    if !mask.has(edge.kind()) {
                        continue;
                    }
                    match number[edge.to as usize] {
                        NEW => {
                            next = Some(edge.to);
                            break;
                        }
                        DONE => {}
                        seen => low[node] = low[node].min(seen),
                    }
                }
                if let Some(next) = next {
                    path.push((next, 0));
                    continue;
                }
                // A node without edges must not be numbered again.
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent as usize] = low[*parent as usize].min(low[node]);
                }
                if low[node] == number[node] {
                    let begins = open.iter().rposition(|one| *one == node as u32).unwrap_or(0);
                    let mut set = open.split_off(begins);
                    for one in &set {
                        number[*one as usize] = DONE;
                    }
                    if set.iter().filter(|one| **one < self.txns).count() > 1 {
                        set.sort_unstable();
                        found.push(set);
                    }
                }
            }
        }
        found.sort_unstable();
        found
    }
}
