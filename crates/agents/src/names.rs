//! Which node of the machine is at which address.

use cavy_core::family::Node;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Addresses that are told apart; more than the machine keeps of its peers.
pub(crate) const ADDRESSES_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug)]
struct Named {
    at: SocketAddr,
    used: u64,
}

/// Addresses and their nodes. A number is never given twice, so that what the machine remembers of
/// a node is never taken for another one's.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_address: BTreeMap<SocketAddr, Node>,
    by_node: BTreeMap<Node, Named>,
    next: u32,
    clock: u64,
}

impl Names {
    /// The node at `at`; the one used the longest ago makes room for a new one.
    pub(crate) fn node(&mut self, at: SocketAddr) -> Node {
        self.clock += 1;
        let used = self.clock;
        if let Some(node) = self.by_address.get(&at) {
            self.by_node.insert(*node, Named { at, used });
            return *node;
        }
        if self.by_node.len() >= ADDRESSES_MAX {
            let oldest = self.by_node.iter().min_by_key(|(_, named)| named.used);
            if let Some((node, at)) = oldest.map(|(node, named)| (*node, named.at)) {
                self.by_node.remove(&node);
                self.by_address.remove(&at);
            }
        }
        let node = Node(self.next);
        self.next = self.next.wrapping_add(1);
        self.by_address.insert(at, node);
        self.by_node.insert(node, Named { at, used });
        node
    }

    /// Where `node` is, if that is still known.
    pub(crate) fn address(&self, node: Node) -> Option<SocketAddr> {
        self.by_node.get(&node).map(|named| named.at)
    }

    /// The node at `at`, if it has a number.
    pub(crate) fn known(&self, at: SocketAddr) -> Option<Node> {
        self.by_address.get(&at).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_node.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_forgotten_by_their_last_use_and_numbers_are_never_given_twice() {
        let mut names = Names::default();
        let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let first = names.node(at(0));
        for port in 1..2_000 {
            names.node(at(port));
            assert_eq!(names.node(at(0)), first);
        }
        assert_eq!(names.len(), ADDRESSES_MAX);
        assert_eq!(names.address(Node(1)), None);
        assert_ne!(names.node(at(1)), Node(1));
        assert_eq!(names.known(at(2)), None);
    }
}
