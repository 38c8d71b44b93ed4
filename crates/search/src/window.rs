//! The sliding window: an object on r servers in a row of n numbered ones `[roar 3.2]`.
//!
//! It is a ring of equal ranges on which objects and queries keep to the n borders, so there are r
//! starts and no choice between them, and a server's part is always as long as an arc.

use crate::cost::Load;
use crate::plan::{Part, point};
use crate::ring::Slice;
use alloc::vec::Vec;
use cavy_core::Stream;

/// n servers in a circle, r copies in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    n: u32,
    r: u32,
}

impl Window {
    /// `n` servers for queries of `p` parts; `None` when p does not divide n.
    pub fn new(n: u32, p: u32) -> Option<Window> {
        (p > 0 && n > 0 && n.is_multiple_of(p)).then(|| Window { n, r: n / p })
    }

    /// Server `server` answers for the r slices that end with its own.
    pub fn slice(self, server: u32) -> Slice {
        let n = self.n as usize;
        let first = (server + self.n - self.r + 1) % self.n;
        Slice::new(point(first as usize, n), point((server as usize + 1) % n, n))
    }

    /// Whether `server` holds all of `slice`.
    pub fn serves(self, server: u32, slice: Slice) -> bool {
        server < self.n && self.slice(server).covers(slice)
    }

    /// The start of which the slowest is done first, chance among equals. Returns the finish, from
    /// now.
    pub fn plan(self, loads: &[Load], rng: &mut Stream, parts: &mut Vec<Part>) -> u64 {
        let servers = |start: u32| (0..self.n / self.r).map(move |j| start + j * self.r);
        let done = |start: u32| {
            let width = |server| self.slice(server).width();
            servers(start).map(|s| loads[s as usize].finish(width(s))).max().unwrap_or(0)
        };
        let mut best = (u64::MAX, 0);
        let mut equals = 0;
        for start in 0..self.r {
            let finish = done(start);
            if finish < best.0 {
                (best, equals) = ((finish, start), 1);
            } else if finish == best.0 {
                equals += 1;
                if rng.below(equals) == 0 {
                    best.1 = start;
                }
            }
        }
        parts.clear();
        parts.extend(servers(best.1).map(|server| Part { server, slice: self.slice(server) }));
        best.0
    }
}
