//! Who is where: regions, shards, replicas, stewards `[dast 2.1]`.

use crate::txn::{Shard, Txn};
use cavy_core::family::Node;

/// A region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Region(pub u16);

/// The numbering of shards and nodes. Replica `j` of shard `p` is node `replicas * p + j`; the
/// three stewards of region `r`, where a protocol has such, follow all replicas. Where a protocol
/// has none and coordinates in its clients, one node for the clients of each shard follows instead:
/// its *front*.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Regions, from 1 to [`Layout::REGIONS_MAX`].
    pub regions: u16,
    /// Shards of each region, at least 1.
    pub shards_per_region: u32,
    /// Replicas of each shard, all in its region; odd.
    pub replicas: u32,
}

/// Stewards of a region: one leads, the others stand by.
pub const STEWARDS: u32 = 3;

impl Layout {
    /// The region is the low ten bits of a timestamp `[dast 2.3]`.
    pub const REGIONS_MAX: u16 = 1024;

    /// Three replicas a shard.
    pub const fn new(regions: u16, shards_per_region: u32) -> Layout {
        Layout { regions, shards_per_region, replicas: 3 }
    }

    /// All shards.
    pub const fn shards(&self) -> u32 {
        self.regions as u32 * self.shards_per_region
    }

    /// All replicas.
    pub const fn replica_nodes(&self) -> u32 {
        self.shards() * self.replicas
    }

    /// All replicas and stewards.
    pub const fn nodes(&self) -> u32 {
        self.replica_nodes() + STEWARDS * self.regions as u32
    }

    /// Replicas that make a majority of a shard.
    pub const fn majority(&self) -> u32 {
        self.replicas / 2 + 1
    }

    /// Where a shard is.
    pub const fn region_of(&self, shard: Shard) -> Region {
        Region((shard.0 / self.shards_per_region) as u16)
    }

    /// The node of the clients of `shard`, for protocols that coordinate in clients.
    pub const fn front(&self, shard: Shard) -> Node {
        Node(self.replica_nodes() + shard.0)
    }

    /// All replicas and fronts.
    pub const fn nodes_with_fronts(&self) -> u32 {
        self.replica_nodes() + self.shards()
    }

    /// The shard of a front; `None` for replicas.
    pub const fn front_of(&self, node: Node) -> Option<Shard> {
        if node.0 < self.replica_nodes() {
            None
        } else {
            Some(Shard(node.0 - self.replica_nodes()))
        }
    }

    /// Where a replica or steward is.
    pub const fn region_of_node(&self, node: Node) -> Region {
        if node.0 < self.replica_nodes() {
            Region((node.0 / (self.replicas * self.shards_per_region)) as u16)
        } else {
            Region(((node.0 - self.replica_nodes()) / STEWARDS) as u16)
        }
    }

    /// The shard of a replica; `None` for stewards.
    pub const fn shard_of(&self, node: Node) -> Option<Shard> {
        if node.0 < self.replica_nodes() { Some(Shard(node.0 / self.replicas)) } else { None }
    }

    /// Replica `index` of `shard`.
    pub const fn replica(&self, shard: Shard, index: u32) -> Node {
        Node(shard.0 * self.replicas + index % self.replicas)
    }

    /// The shard of a client, for life; clients are numbered from 0.
    pub const fn home(&self, client: u32) -> Shard {
        Shard(client % self.shards())
    }

    /// The replicas of a shard.
    pub fn replicas_of(&self, shard: Shard) -> impl Iterator<Item = Node> + use<> {
        let first = shard.0 * self.replicas;
        (first..first + self.replicas).map(Node)
    }

    /// Which replica of its shard a node is.
    pub const fn index_of(&self, node: Node) -> u32 {
        node.0 % self.replicas
    }

    /// The shards of a region.
    pub fn shards_of(&self, region: Region) -> impl Iterator<Item = Shard> + use<> {
        let first = u32::from(region.0) * self.shards_per_region;
        (first..first + self.shards_per_region).map(Shard)
    }

    /// The replicas of a region.
    pub fn replicas_in(&self, region: Region) -> impl Iterator<Item = Node> + use<> {
        let each = self.shards_per_region * self.replicas;
        let first = u32::from(region.0) * each;
        (first..first + each).map(Node)
    }

    /// The stewards of a region.
    pub fn stewards_of(&self, region: Region) -> impl Iterator<Item = Node> + use<> {
        let first = self.replica_nodes() + u32::from(region.0) * STEWARDS;
        (first..first + STEWARDS).map(Node)
    }

    /// The regions that a transaction touches, in order, each once.
    pub fn regions_of<'a>(&'a self, txn: &'a Txn) -> impl Iterator<Item = Region> + 'a {
        let mut before = None;
        txn.shards().iter().map(|shard| self.region_of(*shard)).filter(move |region| {
            let new = before != Some(*region);
            before = Some(*region);
            new
        })
    }

    /// It touches nothing outside of `home`: an IRT of that region.
    pub fn is_within(&self, txn: &Txn, home: Region) -> bool {
        txn.shards().iter().all(|shard| self.region_of(*shard) == home)
    }
}
