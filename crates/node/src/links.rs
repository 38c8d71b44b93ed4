//! What the ways between nodes are like: delays that the receiver keeps, and cuts.

use crate::carrier::Outward;
use cavy_core::family::Node;
use cavy_core::{Instant, Purpose, Span, Stream};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// The way from one peer to this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Way {
    /// A message is heard this long after it was sent.
    pub one_way: Span,
    /// Evenly between so much less and so much more, as in the lab and on the testbed's line; never
    /// below zero.
    pub jitter: Span,
}

/// A network in the carrier: the sender stamps each message, the receiver holds it until it is due.
/// It needs no privilege and works within one machine, whose processes share a monotonic clock; TCP
/// itself sees no delay. Channels stay in order. Clones are one, and it may change while it runs.
/// The default changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Links {
    rules: Arc<RwLock<Rules>>,
}

#[derive(Debug, Default)]
struct Rules {
    ways: BTreeMap<Node, Way>,
    cut: BTreeSet<Node>,
    /// Counts changes, so that the carrier need not compare.
    version: u64,
    carriers: Vec<Weak<Outward>>,
}

impl Rules {
    fn changed(&mut self) {
        self.version += 1;
        self.carriers.retain(|carrier| match carrier.upgrade() {
            Some(carrier) => {
                carrier.wake();
                true
            }
            None => false,
        });
    }
}

impl Links {
    /// A network of which nothing is known.
    pub fn new() -> Links {
        Links::default()
    }

    /// What comes from `peer` takes this way from now on.
    pub fn set(&self, peer: Node, way: Way) {
        let mut rules = self.rules.write();
        rules.ways.insert(peer, way);
        rules.changed();
    }

    /// Nothing goes to or comes from `peer` until it is mended. Channels go on where they stopped,
    /// unless more was sent meanwhile than they keep.
    pub fn cut(&self, peer: Node) {
        let mut rules = self.rules.write();
        rules.cut.insert(peer);
        rules.changed();
    }

    /// Takes back a cut.
    pub fn mend(&self, peer: Node) {
        let mut rules = self.rules.write();
        rules.cut.remove(&peer);
        rules.changed();
    }

    /// Is the way to `peer` cut?
    pub fn is_cut(&self, peer: Node) -> bool {
        self.rules.read().cut.contains(&peer)
    }

    /// Tells `carrier` of changes.
    pub(crate) fn watch(&self, carrier: &Arc<Outward>) {
        self.rules.write().carriers.push(Arc::downgrade(carrier));
    }

    pub(crate) fn version(&self) -> u64 {
        self.rules.read().version
    }

    pub(crate) fn way(&self, peer: Node) -> Way {
        self.rules.read().ways.get(&peer).copied().unwrap_or_default()
    }
}

/// Says when messages of one peer are due.
pub(crate) struct Due {
    draws: Stream,
    /// Nothing on the channel is due before this.
    last: Instant,
}

impl Due {
    pub fn new(seed: u64, me: Node, peer: Node) -> Due {
        let seed = seed ^ u64::from(peer.0) << 32;
        Due { draws: Stream::keyed(seed, me.0, Purpose::Delays), last: Instant::ZERO }
    }

    fn draw(&mut self, way: Way, stamp: Instant) -> Instant {
        let jitter = way.jitter.as_ns();
        let drawn = if jitter == 0 { 0 } else { self.draws.below(2 * jitter + 1) };
        stamp + (way.one_way + Span::from_ns(drawn)).saturating_sub(way.jitter)
    }

    /// Of a message of the channel that was sent at `stamp`.
    pub fn channel(&mut self, way: Way, stamp: Instant) -> Instant {
        if way != Way::default() {
            self.last = self.last.max(self.draw(way, stamp));
        }
        self.last
    }

    /// Of a datagram.
    pub fn datagram(&mut self, way: Way, stamp: Instant) -> Instant {
        if way == Way::default() { Instant::ZERO } else { self.draw(way, stamp) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_keep_the_order_of_a_channel_and_not_of_datagrams() {
        let way = Way { one_way: Span::from_ms(60), jitter: Span::from_ms(10) };
        let mut due = Due::new(1, Node(0), Node(1));
        let mut before = Instant::ZERO;
        for ms in 0..100 {
            let sent = Instant::from_ns(ms * 1_000_000);
            let at = due.channel(way, sent);
            assert!(at >= before && at >= sent + Span::from_ms(50));
            before = at;
        }
        let times: Vec<_> = (0..100).map(|_| due.datagram(way, Instant::ZERO)).collect();
        assert!(times.windows(2).any(|pair| pair[1] < pair[0]));
        assert!(times.iter().all(|at| (50_000_000..=70_000_000).contains(&at.as_ns())));
        let short = Way { one_way: Span::from_ms(5), jitter: Span::from_ms(20) };
        let times: Vec<_> = (0..100).map(|_| due.datagram(short, Instant::ZERO)).collect();
        assert!(times.iter().all(|at| at.as_ns() <= 25_000_000) && times.contains(&Instant::ZERO));
        // What was held stays before what comes after the delay was taken away.
        assert_eq!(due.channel(Way::default(), Instant::ZERO), before);
    }

    #[test]
    fn cuts_are_mended() {
        let links = Links::new();
        let other = links.clone();
        links.cut(Node(3));
        assert!(other.is_cut(Node(3)) && !other.is_cut(Node(2)));
        other.mend(Node(3));
        assert!(!links.is_cut(Node(3)));
        assert_eq!(links.version(), 2);
    }
}
