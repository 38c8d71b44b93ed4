//! Clusters: the objects in p fixed parts, each on r servers `[roar 3.1]`. What search engines do,
//! and with adaptive replica selection what users of Elasticsearch run `[roar 0.18]`.

use crate::cost::Load;
use crate::plan::{Part, point};
use crate::refine::mixed;
use crate::ring::Slice;
use alloc::vec::Vec;
use cavy_core::Stream;

/// Which member of a cluster answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pick {
    /// The one that is done first by prediction.
    Earliest,
    /// Of two by chance the one that is done first.
    TwoChoices,
    /// The one with the fewest sub-queries under way.
    LeastOutstanding,
    /// One after the other.
    RoundRobin,
    /// The least rank of Elasticsearch's adaptive replica selection.
    Adaptive,
}

/// Servers in p clusters. Cluster j has the ids of the j-th of p equal slices.
#[derive(Clone, PartialEq, Debug)]
pub struct Clusters {
    members: Vec<Vec<u32>>,
    next: Vec<u32>,
    /// By server.
    ranks: Vec<Rank>,
}

/// What adaptive replica selection keeps for a server, in milliseconds; the newest weighs 0.3.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Rank {
    known: bool,
    response_ms: f64,
    service_ms: f64,
    queue: f64,
    outstanding: u32,
}

const NEWEST: f64 = 0.3;

impl Rank {
    fn learn(&mut self, response_ms: f64, service_ms: f64, queue: f64) {
        let weigh = |old: &mut f64, new: f64, first: bool| {
            *old = if first { new } else { NEWEST * new + (1.0 - NEWEST) * *old };
        };
        weigh(&mut self.response_ms, response_ms, !self.known);
        weigh(&mut self.service_ms, service_ms, !self.known);
        weigh(&mut self.queue, queue, !self.known);
        self.known = true;
    }

    /// R - S + q^3 S with q = 1 + outstanding x nodes + queue.
    fn value(&self, nodes: usize) -> f64 {
        let q = 1.0 + f64::from(self.outstanding) * nodes as f64 + self.queue;
        self.response_ms - self.service_ms + q * q * q * self.service_ms
    }
}

impl Clusters {
    /// `p` clusters of servers 0 to n - 1, of equal size and as far as that goes of equal speed:
    /// by falling speed, each server joins the slowest cluster that is not full. `None` when p does
    /// not divide the number of servers.
    pub fn new(speeds: &[f64], p: u32) -> Option<Clusters> {
        let (n, p) = (speeds.len(), p as usize);
        if p == 0 || n == 0 || !n.is_multiple_of(p) {
            return None;
        }
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by(|a, b| speeds[*b as usize].total_cmp(&speeds[*a as usize]).then(a.cmp(b)));
        let mut members = alloc::vec![Vec::new(); p];
        let mut speed = alloc::vec![0.0; p];
        for server in order {
            let open = (0..p).filter(|&cluster| members[cluster].len() < n / p);
            let least = open.min_by(|a, b| f64::total_cmp(&speed[*a], &speed[*b]).then(a.cmp(b)));
            let Some(cluster) = least else { continue };
            speed[cluster] += speeds[server as usize];
            members[cluster].push(server);
        }
        members.iter_mut().for_each(|members| members.sort_unstable());
        Some(Clusters::of(members, n))
    }

    /// Clusters of these servers, of `n` in all: the j-th has the ids of the j-th of equal slices.
    pub fn of(members: Vec<Vec<u32>>, n: usize) -> Clusters {
        let ranks = alloc::vec![Rank::default(); n];
        Clusters { next: alloc::vec![0; members.len()], members, ranks }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// The servers of cluster `j`.
    pub fn members(&self, j: usize) -> &[u32] {
        &self.members[j]
    }

    /// The ids of cluster `j`.
    pub fn slice(&self, j: usize) -> Slice {
        let p = self.count();
        Slice::new(point(j, p), point((j + 1) % p, p))
    }

    /// Whether `server` holds all of `slice`.
    pub fn serves(&self, server: u32, slice: Slice) -> bool {
        let of = |j: &usize| self.members[*j].contains(&server);
        (0..self.count()).find(of).is_some_and(|j| self.slice(j).covers(slice))
    }

    /// One part for each cluster. Returns the finish, from now. A cluster without a usable member
    /// gives its slice to `lost`.
    pub fn plan(
        &mut self,
        pick: Pick,
        loads: &[Load],
        usable: impl Fn(u32) -> bool,
        rng: &mut Stream,
        parts: &mut Vec<Part>,
        lost: &mut Vec<Slice>,
    ) -> u64 {
        parts.clear();
        let mut worst = 0;
        let salt = rng.bits() as u32;
        for j in 0..self.count() {
            let slice = self.slice(j);
            let done = |server: u32| loads[server as usize].finish(slice.width());
            let live = || self.members[j].iter().copied().filter(|&server| usable(server));
            let count = live().count() as u64;
            if count == 0 {
                lost.push(slice);
                continue;
            }
            let nth = |rng: &mut Stream| live().nth(rng.below(count) as usize).unwrap_or(0);
            let server = match pick {
                Pick::Earliest => live().min_by_key(|&server| (done(server), mixed(server, salt))),
                Pick::TwoChoices => {
                    let two = [nth(rng), nth(rng)];
                    two.into_iter().min_by_key(|&server| done(server))
                }
                Pick::LeastOutstanding => {
                    let under_way = |server: u32| self.ranks[server as usize].outstanding;
                    live().min_by_key(|&server| (under_way(server), mixed(server, salt)))
                }
                Pick::RoundRobin => {
                    self.next[j] = (self.next[j] + 1) % count as u32;
                    live().nth(self.next[j] as usize)
                }
                Pick::Adaptive => {
                    let nodes = self.ranks.len();
                    let rank = |server: u32| self.ranks[server as usize].value(nodes);
                    // One that was never asked has the least rank of all.
                    let known = |server: u32| self.ranks[server as usize].known;
                    live().min_by(|&a, &b| {
                        known(a).cmp(&known(b)).then(f64::total_cmp(&rank(a), &rank(b)))
                    })
                }
            };
            let server = server.unwrap_or(0);
            worst = worst.max(done(server));
            parts.push(Part { server, slice });
        }
        worst
    }

    /// A part went to `server`.
    pub fn sent(&mut self, server: u32) {
        self.ranks[server as usize].outstanding += 1;
    }

    /// A part came back from `server`: how long that took in all, how long the server worked on it,
    /// and how many parts waited there.
    pub fn answered(&mut self, server: u32, response_ms: f64, service_ms: f64, queue: f64) {
        let rank = &mut self.ranks[server as usize];
        rank.outstanding = rank.outstanding.saturating_sub(1);
        rank.learn(response_ms, service_ms, queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clause_3_1_clusters_are_filled_to_equal_speed() {
        let speeds: Vec<f64> = (0..48).map(|at| [0.5, 0.75, 1.25, 1.5][at % 4]).collect();
        let clusters = Clusters::new(&speeds, 8).expect("8 divides 48");
        for j in 0..8 {
            let speed: f64 = clusters.members(j).iter().map(|&s| speeds[s as usize]).sum();
            assert_eq!((clusters.members(j).len(), speed), (6, 6.0), "cluster {j}");
        }
        assert_eq!(Clusters::new(&speeds, 40), None);
    }

    #[test]
    fn clause_0_18_adaptive_selection_flees_a_long_queue() {
        let mut rank = Rank::default();
        rank.learn(30.0, 10.0, 0.0);
        assert!((rank.value(3) - 30.0).abs() < 1e-9);
        rank.outstanding = 1;
        assert!((rank.value(3) - (20.0 + 64.0 * 10.0)).abs() < 1e-9);
        rank.learn(40.0, 10.0, 2.0);
        assert!((rank.response_ms - 33.0).abs() < 1e-9 && (rank.queue - 0.6).abs() < 1e-9);
    }
}
