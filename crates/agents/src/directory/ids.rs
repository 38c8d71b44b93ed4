//! Nodes by their ids.
//!
//! A table of numbers, hashed by the ids that stand with the nodes: a tree of a million ids takes
//! 80 MB more and twenty comparisons a look. Clients choose ids, so the hash has a key that nobody
//! knows; nothing is ever iterated, so the key changes no answer.

use super::Entry;
use super::card::Card;
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

/// Does a node have this id?
fn is(of: &str, node: u32, cards: &[Card], nodes: &[Option<Entry>]) -> bool {
    let there = cards.get(node as usize).map_or(Some(false), |card| card.is(of));
    there.unwrap_or_else(|| id(nodes, node) == Some(of))
}

impl Ids {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The number of an id.
    pub fn get(&self, of: &str, cards: &[Card], nodes: &[Option<Entry>]) -> Option<u32> {
        let is_it = |node: &u32| is(of, *node, cards, nodes);
        self.table.find(self.key.hash_one(of), is_it).copied()
    }

    /// The numbers of many ids, in order. Table and cards are anywhere in memory, so those of
    /// several are read before the first of them goes on: the processor waits once for all, and
    /// what is asked of each node next is at hand.
    pub fn get_each(
        &self,
        of: &[&str],
        cards: &[Card],
        nodes: &[Option<Entry>],
    ) -> Vec<Option<u32>> {
        const AHEAD: usize = 16;
        let mut all = Vec::with_capacity(of.len());
        for some in of.chunks(AHEAD) {
            // Whoever stands first where the id would: nearly always the node itself.
            let mut first = [None; AHEAD];
            for (first, of) in first.iter_mut().zip(some) {
                *first = self.table.find(self.key.hash_one(of), |_| true).copied();
            }
            let ahead = first.iter().flatten().filter_map(|node: &u32| cards.get(*node as usize));
            std::hint::black_box(ahead.fold(0, |sum, card| sum ^ card.region));
            all.extend(first.iter().zip(some).map(|(first, of)| {
                let is_it = |node: &u32| is(of, *node, cards, nodes);
                first.filter(is_it).or_else(|| self.get(of, cards, nodes))
            }));
        }
        all
    }

    /// Adds a node that is in `nodes` under an id that is not here.
    pub fn insert(&mut self, node: u32, nodes: &[Option<Entry>]) {
        let Ids { table, key } = self;
        let hash = |node: &u32| key.hash_one(id(nodes, *node).unwrap_or_default());
        table.insert_unique(hash(&node), node, hash);
    }

    /// Takes an id out, while its node is still in `nodes`.
    pub fn remove(&mut self, of: &str, cards: &[Card], nodes: &[Option<Entry>]) -> Option<u32> {
        let hash = self.key.hash_one(of);
        let entry = self.table.find_entry(hash, |node| is(of, *node, cards, nodes)).ok()?;
        Some(entry.remove().0)
    }
}
