//! Nodes by their ids.
//!
//! A table of numbers, hashed by the ids that stand with the nodes: a tree of a million ids takes
//! 80 MB more and twenty comparisons a look. Clients choose ids, so the hash has a key that nobody
//! knows; nothing is ever iterated, so the key changes no answer.

use super::Entry;
use hashbrown::HashTable;
use std::hash::{BuildHasher as _, RandomState};

/// Numbers by id.
#[derive(Debug, Default)]
pub(super) struct Ids {
    table: HashTable<u32>,
    key: RandomState,
}

fn id(nodes: &[Option<Entry>], node: u32) -> Option<&str> {
    Some(&nodes.get(node as usize)?.as_ref()?.said.id)
}

impl Ids {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The number of an id.
    pub fn get(&self, of: &str, nodes: &[Option<Entry>]) -> Option<u32> {
        self.table.find(self.key.hash_one(of), |node| id(nodes, *node) == Some(of)).copied()
    }

    /// Adds a node that is in `nodes` under an id that is not here.
    pub fn insert(&mut self, node: u32, nodes: &[Option<Entry>]) {
        let Ids { table, key } = self;
        let hash = |node: &u32| key.hash_one(id(nodes, *node).unwrap_or_default());
        table.insert_unique(hash(&node), node, hash);
    }

    /// Takes an id out, while its node is still in `nodes`.
    pub fn remove(&mut self, of: &str, nodes: &[Option<Entry>]) -> Option<u32> {
        let hash = self.key.hash_one(of);
        let entry = self.table.find_entry(hash, |node| id(nodes, *node) == Some(of)).ok()?;
        Some(entry.remove().0)
    }
}
