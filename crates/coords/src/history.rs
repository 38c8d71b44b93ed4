//! What was measured lately, which beats any prediction ([htrae 2.2, 2.8]).

use alloc::vec::Vec;
use cavy_core::{Instant, Span};

/// How much is remembered, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Peers, at most.
    pub peers: usize,
    /// Time after which a measurement counts no more.
    pub lifetime: Span,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { peers: 64, lifetime: Span::from_ms(3_600_000) }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    peer: u32,
    rtt_ms: f64,
    at: Instant,
}

/// One machine's measurements, the least recently used first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
}

impl History {
    /// Remembers that a round trip to `peer` took `rtt_ms`, and forgets what counts no more:
    /// millions of machines that play now and then would keep what nobody can ask for.
    pub fn record(&mut self, peer: u32, rtt_ms: f64, at: Instant, memory: Memory) {
        let is_old = |entry: &&Entry| at.since(entry.at) > memory.lifetime;
        let old = self.entries.iter().take_while(is_old).count();
        self.entries.drain(..old);
        match self.entries.iter().position(|entry| entry.peer == peer) {
            Some(index) => drop(self.entries.remove(index)),
            None if self.entries.len() >= memory.peers.max(1) => drop(self.entries.remove(0)),
            None => {}
        }
        self.entries.push(Entry { peer, rtt_ms, at });
    }

    /// What the last round trip to `peer` took, if it is young enough at `now`.
    pub fn recall(&self, peer: u32, now: Instant, memory: Memory) -> Option<f64> {
        let entry = self.entries.iter().find(|entry| entry.peer == peer)?;
        (now.since(entry.at) <= memory.lifetime).then_some(entry.rtt_ms)
    }

    /// Reads the oldest one, so that it is near the processor afterwards.
    pub(crate) fn read(&self) -> u64 {
        self.entries.first().map_or(0, |entry| u64::from(entry.peer))
    }

    /// Peers that are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Is nobody remembered?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
