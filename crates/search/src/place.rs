//! Free placement: more parts than p, each wherever it is done first `[roar 8.1]`.
//!
//! A part of a k-th of the ring, k = c p, can be answered by every server whose range meets the
//! places from its last id to one arc after its first: about r (1 - 1/c) + 1 servers, independently
//! of the other parts. So the parts need no common start.

use crate::cost::Load;
use crate::plan::{Part, point};
use crate::refine::mixed;
use crate::ring::{Arc, Ring, Slice};
use alloc::vec::Vec;
use cavy_core::Stream;

/// Offsets that are tried.
const OFFSETS: u32 = 4;

/// What it needs between queries.
#[derive(Clone, Debug, Default)]
pub struct Free {
    /// What each server is given so far, in nanoseconds.
    given: Vec<u64>,
    trial: Vec<Part>,
}

impl Free {
    /// Places `k` parts, each on the server that is done first with all it was given before, from
    /// the best of four offsets of chance. Returns the finish, from now.
    #[allow(clippy::too_many_arguments)]
    pub fn plan(
        &mut self,
        rings: &[Ring],
        arc: Arc,
        k: usize,
        loads: &[Load],
        usable: impl Fn(u32) -> bool,
        rng: &mut Stream,
        parts: &mut Vec<Part>,
    ) -> u64 {
        let mut best = u64::MAX;
        parts.clear();
        for _ in 0..OFFSETS {
            let (start, salt) = (rng.bits(), rng.bits() as u32);
            self.given.clear();
            self.given.resize(loads.len(), 0);
            self.trial.clear();
            let mut worst = 0;
            for head in 0..k {
                let lo = start.wrapping_add(point(head, k));
                let hi = start.wrapping_add(point((head + 1) % k, k));
                let slice = Slice::new(lo, hi);
                let done = |server: u32| {
                    let load = &loads[server as usize];
                    load.finish(slice.width()) + self.given[server as usize]
                };
                let able =
                    rings.iter().flat_map(|ring| ring.able(arc, slice).map(|at| ring.server(at)));
                let chosen = able
                    .filter(|&server| usable(server))
                    .map(|server| (done(server), mixed(server, salt), server))
                    .min()
                    .map(|(finish, _, server)| (finish, server));
                // Nobody usable: the owner, so that what happens to its part is decided elsewhere.
                let owner = rings[0].server(rings[0].owner(hi));
                let (finish, server) = chosen.unwrap_or_else(|| (done(owner), owner));
                worst = worst.max(finish);
                self.given[server as usize] += loads[server as usize].cost.of(slice.width());
                self.trial.push(Part { server, slice });
            }
            if worst < best {
                best = worst;
                core::mem::swap(parts, &mut self.trial);
            }
        }
        best
    }
}
