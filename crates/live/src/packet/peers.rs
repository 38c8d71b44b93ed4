//! Which socket of which host is which node, and what may be sent there.

use super::options::Peer;
use cavy_core::family::Node;
use std::collections::{BTreeMap, VecDeque};

/// What is known of one peer.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) peer: Peer,
    /// Calls and questions with it; it is not forgotten while there are any.
    exchanges: u32,
    /// It receives what is sent to it, as far as one can tell.
    pub(crate) proven: bool,
    /// ICMP said that nobody listens there, and nothing has come from there since.
    pub(crate) unreachable: bool,
    /// Used since the hand last passed.
    recent: bool,
    received_bytes: u64,
    sent_bytes: u64,
}

/// All peers, at most a fixed number. When there is no room, one is forgotten that was not heard of
/// for long (second chance, a few looks at most, so that a flood of addresses costs little each).
///
/// Numbers of nodes go up and come again only after four billion others, so that what the machine
/// remembers of one peer is never taken for another's.
#[derive(Debug)]
pub(crate) struct Peers {
    nodes: BTreeMap<Peer, Node>,
    entries: BTreeMap<Node, Entry>,
    hand: VecDeque<Node>,
    next: u32,
    most: usize,
}

const LOOKS: usize = 8;

impl Peers {
    pub(crate) fn new(most: u32) -> Peers {
        Peers {
            nodes: BTreeMap::new(),
            entries: BTreeMap::new(),
            hand: VecDeque::new(),
            next: 0,
            most: most as usize,
        }
    }

    /// The node of `peer`, made known if need be; `None` when there is no room.
    pub(crate) fn node(&mut self, peer: Peer) -> Option<Node> {
        if let Some(&node) = self.nodes.get(&peer) {
            if let Some(entry) = self.entries.get_mut(&node) {
                entry.recent = true;
            }
            return Some(node);
        }
        if self.entries.len() >= self.most && !self.forget_one() {
            return None;
        }
        while self.entries.contains_key(&Node(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let node = Node(self.next);
        self.next = self.next.wrapping_add(1);
        let entry = Entry {
            peer,
            exchanges: 0,
            proven: false,
            unreachable: false,
            recent: false,
            received_bytes: 0,
            sent_bytes: 0,
        };
        self.entries.insert(node, entry);
        self.nodes.insert(peer, node);
        self.hand.push_back(node);
        Some(node)
    }

    fn forget_one(&mut self) -> bool {
        for _ in 0..LOOKS {
            let Some(node) = self.hand.pop_front() else { return false };
            let Some(entry) = self.entries.get_mut(&node) else { continue };
            if entry.exchanges > 0 || entry.recent {
                entry.recent = false;
                self.hand.push_back(node);
                continue;
            }
            self.nodes.remove(&entry.peer);
            self.entries.remove(&node);
            return true;
        }
        false
    }

    /// The node of `peer`, if it is known.
    pub(crate) fn find(&self, peer: Peer) -> Option<Node> {
        self.nodes.get(&peer).copied()
    }

    pub(crate) fn get(&self, node: Node) -> Option<&Entry> {
        self.entries.get(&node)
    }

    pub(crate) fn get_mut(&mut self, node: Node) -> Option<&mut Entry> {
        self.entries.get_mut(&node)
    }

    /// One exchange more with it.
    pub(crate) fn begin(&mut self, node: Node) {
        if let Some(entry) = self.entries.get_mut(&node) {
            entry.exchanges = entry.exchanges.saturating_add(1);
        }
    }

    /// One exchange less.
    pub(crate) fn end(&mut self, node: Node) {
        if let Some(entry) = self.entries.get_mut(&node) {
            entry.exchanges = entry.exchanges.saturating_sub(1);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Entry {
    /// Notes that a packet came.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received_bytes = self.received_bytes.saturating_add(bytes as u64);
    }

    /// May a packet of this length be sent there? If so, it is booked.
    pub(crate) fn may_send(&mut self, bytes: usize, ratio: Option<u32>) -> bool {
        let Some(ratio) = ratio.filter(|_| !self.proven) else { return true };
        let most = self.received_bytes.saturating_mul(ratio.into());
        let sent = self.sent_bytes.saturating_add(bytes as u64);
        let may = sent <= most;
        if may {
            self.sent_bytes = sent;
        }
        may
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    fn peer(port: u16) -> Peer {
        Peer::from(std::net::SocketAddr::from(([10, 0, 0, 1], port)))
    }

    #[test]
    fn peers__are_bounded_and_those_in_use_stay() {
        let mut peers = Peers::new(4);
        let kept = peers.node(peer(1)).expect("room");
        peers.begin(kept);
        for port in 2..5_000 {
            assert!(peers.node(peer(port)).is_some(), "{port}");
            assert!(peers.len() <= 4 && peers.nodes.len() <= 4 && peers.hand.len() <= 4);
        }
        assert_eq!(peers.node(peer(1)), Some(kept));
        assert!(!peers.entries.contains_key(&Node(4_000)));
    }

    #[test]
    fn peers__with_exchanges_leave_no_room() {
        let mut peers = Peers::new(2);
        for port in [1, 2] {
            let node = peers.node(peer(port)).expect("room");
            peers.begin(node);
        }
        assert_eq!(peers.node(peer(3)), None);
        peers.end(Node(0));
        assert_eq!(peers.node(peer(3)), Some(Node(2)), "a number of its own");
    }

    #[test]
    fn an_unproven_peer_is_sent_no_more_than_came_from_it() {
        let mut peers = Peers::new(2);
        let node = peers.node(peer(1)).expect("room");
        let entry = peers.get_mut(node).expect("known");
        assert!(!entry.may_send(1, Some(1)));
        entry.received(100);
        assert!(entry.may_send(60, Some(1)));
        assert!(!entry.may_send(41, Some(1)), "and what was refused is not booked");
        assert!(entry.may_send(40, Some(1)));
        assert!(entry.may_send(200, Some(3)));
        assert!(entry.may_send(1 << 40, None));
        entry.proven = true;
        assert!(entry.may_send(1 << 40, Some(1)));
    }
}
