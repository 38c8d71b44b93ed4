//! A transport's own best: each size alone on an idle network.

use super::clock::{PS_PER_NS, Ps};
use super::ideal::{Ideal, OwnBest};
use super::observer::{Done, Observer};
use super::setup::Setup;
use super::topology::Topology;
use super::traffic::{Listed, Submission};
use super::{Transport, run};
use crate::pending::Wheel;
use cavy_core::Span;
use cavy_core::family::Node;

/// Measures the least time of a message of each of `sizes` between hosts at each distance, on the
/// network of `setup` when there is nothing else on it `[homa 4.3]`. Each is sent twice, one at a
/// time, so that what a transport has to learn from the first message does not count. With `asks`
/// it is the time of a question with an answer of the same size.
pub fn own_best<M: Transport>(
    setup: &Setup,
    make: impl FnMut(Node) -> M,
    sizes: &[u32],
    asks: bool,
) -> OwnBest {
    let topology = &setup.network.topology;
    let ideal = Ideal::new(&setup.network);
    let from = Node(0);
    let mut nearest: Vec<(u16, Node)> = Vec::new();
    for to in (1..topology.hosts()).map(Node) {
        let hops = topology.hops(from, to);
        if nearest.iter().all(|&(known, _)| known != hops) {
            nearest.push((hops, to));
        }
    }
    let mut list = Vec::new();
    let mut longest: Ps = 0;
    for &(_, to) in &nearest {
        for &length_bytes in sizes.iter().chain(sizes) {
            longest += 16 * ideal.time(from, to, length_bytes) + 1_000_000 * PS_PER_NS;
            list.push((from, Submission { at: 0, to, length_bytes, asks, class: 0 }));
        }
    }
    let alone = Setup {
        shuffle_ties: None,
        warmup: Span::ZERO,
        duration: Span::from_ns(longest / PS_PER_NS + 1),
        drain: Span::ZERO,
        own_best: None,
        faults: super::faults::Faults::default(),
        ..setup.clone()
    };
    let mut baseline = Baseline { topology, best: OwnBest::default() };
    let traffic = Listed::in_turn(topology.hosts(), list);
    run(&alone, make, traffic, &mut Wheel::new(), &mut baseline);
    baseline.best
}

struct Baseline<'a> {
    topology: &'a Topology,
    best: OwnBest,
}

impl<M: ?Sized, H> Observer<M, H> for Baseline<'_> {
    fn finished(&mut self, done: &Done) {
        let hops = self.topology.hops(done.from, done.to);
        self.best.add(hops, done.length_bytes, done.at - done.submitted_at);
    }
}
