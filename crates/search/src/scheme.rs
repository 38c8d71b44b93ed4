//! Schemes: where objects are, and how a query's parts are chosen, under one roof.

use crate::clusters::{Clusters, Pick};
use crate::cost::{Cost, Load};
use crate::loss::unheld;
use crate::place::Free;
use crate::plan::{self, Part, reissue_among};
use crate::refine::{Desk, Places, adjust, split};
use crate::ring::{Arc, Ring, Slice, WHOLE};
use crate::sweep::Sweep;
use crate::window::Window;
use crate::{ideal, plan::verify};
use alloc::boxed::Box;
use alloc::vec::Vec;
use cavy_core::Stream;
use core::fmt;

/// How servers' ranges are cut when a ring is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ranges {
    /// In proportion to speed.
    Proportional,
    /// All alike.
    Equal,
}

/// How the parts of a query are chosen on a ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Start {
    /// By the sweep.
    Swept,
    /// By chance `[roar 3.5]`.
    Blind,
    /// Each part on its own `[roar 8.1]`.
    Free,
}

/// ROAR's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Roar {
    /// How ranges are cut.
    pub ranges: Ranges,
    /// Rings that share the servers, dealt out in turn; each has all objects. At least 1.
    pub rings: u32,
    /// How parts are chosen.
    pub start: Start,
    /// A query has so many times p parts, at least 1.
    pub parts: u32,
    /// Borders are moved.
    pub adjust: bool,
    /// Slow parts are split, at most so often.
    pub splits: u32,
    /// A refinement that gains no more than this share is not made `[roar 2.6]`.
    pub threshold: f64,
    /// Chance decides among starts whose finish is at most this share later than the best.
    pub within: f64,
}

impl Roar {
    /// The plain sweep over ranges in proportion to speed, with the thresholds of `[roar 2.14]`.
    pub const PLAIN: Roar = Roar {
        ranges: Ranges::Proportional,
        rings: 1,
        start: Start::Swept,
        parts: 1,
        adjust: false,
        splits: 0,
        threshold: 0.05,
        within: 0.0,
    };
}

/// A way to spread objects and queries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scheme {
    /// Rendezvous on a ring.
    Roar(Roar),
    /// Fixed parts, each on a cluster of servers.
    Clusters(Pick),
    /// A sliding window over numbered servers.
    Window,
    /// The floor that nobody can build.
    Ideal,
}

/// Why a scheme cannot be had on some servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchemeError {
    /// No server, no part, or more parts than servers.
    Parts {
        /// p.
        p: u32,
        /// n.
        n: u32,
    },
    /// Clusters and windows need p to divide n.
    Divides {
        /// p.
        p: u32,
        /// n.
        n: u32,
    },
    /// More rings than servers allow: each ring needs at least p.
    Rings {
        /// Rings.
        rings: u32,
        /// p.
        p: u32,
        /// n.
        n: u32,
    },
}

impl core::error::Error for SchemeError {}

impl fmt::Display for SchemeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemeError::Parts { p, n } => write!(f, "p = {p} is not from 1 to the {n} servers"),
            SchemeError::Divides { p, n } => {
                write!(f, "p = {p} does not divide {n} servers, and this scheme has no other p")
            }
            SchemeError::Rings { rings, p, n } => {
                write!(f, "{rings} rings of {n} servers have less than p = {p} servers each")
            }
        }
    }
}

/// Makes plans by one scheme over some servers.
#[derive(Clone, Debug)]
pub struct Planner {
    scheme: Scheme,
    p: u32,
    n: u32,
    inner: Inner,
    /// What a server is taken for when it is dead: as late as its neighbours.
    loads: Vec<Load>,
    desk: Desk,
}

#[derive(Clone, Debug)]
enum Inner {
    Ring(Box<OnRings>),
    Clusters(Clusters),
    Window(Window),
    Ideal,
}

#[derive(Clone, Debug)]
struct OnRings {
    rings: Vec<Ring>,
    places: Places,
    arc: Arc,
    sweep: Sweep,
    free: Free,
}

impl Planner {
    /// For servers whose speeds are by number; `order` is their order on a ring, or around a
    /// window.
    pub fn new(
        scheme: Scheme,
        speeds: &[f64],
        order: &[u32],
        p: u32,
    ) -> Result<Planner, SchemeError> {
        let n = speeds.len() as u32;
        if p == 0 || p > n {
            return Err(SchemeError::Parts { p, n });
        }
        let divides = SchemeError::Divides { p, n };
        let inner = match scheme {
            Scheme::Ideal => Inner::Ideal,
            Scheme::Clusters(_) => Inner::Clusters(Clusters::new(speeds, p).ok_or(divides)?),
            Scheme::Window => Inner::Window(Window::new(n, p).ok_or(divides)?),
            Scheme::Roar(roar) => {
                let count = roar.rings as usize;
                if count == 0 || (n as usize / count) < p as usize {
                    return Err(SchemeError::Rings { rings: roar.rings, p, n });
                }
                let rings: Vec<Ring> = (0..count)
                    .map(|ring| {
                        let own: Vec<u32> =
                            order.iter().copied().skip(ring).step_by(count).collect();
                        match roar.ranges {
                            Ranges::Equal => Ring::equal(&own),
                            Ranges::Proportional => {
                                Ring::proportional(&own, |server| speeds[server as usize])
                            }
                        }
                    })
                    .collect();
                return Ok(Planner::on_rings(roar, rings, n, p));
            }
        };
        Ok(Planner { scheme, p, n, inner, loads: Vec::new(), desk: Desk::default() })
    }

    /// ROAR on rings that are there already, with `n` servers numbered from 0.
    pub fn on_rings(roar: Roar, rings: Vec<Ring>, n: u32, p: u32) -> Planner {
        let k = p as usize * roar.parts.max(1) as usize;
        let (places, sweep) = (Places::new(&rings), Sweep::new(&rings, k));
        let (arc, free) = (Arc::of(p), Free::default());
        let inner = Inner::Ring(Box::new(OnRings { rings, places, arc, sweep, free }));
        let scheme = Scheme::Roar(roar);
        Planner { scheme, p, n, inner, loads: Vec::new(), desk: Desk::default() }
    }

    /// Clusters that are there already, of `n` servers numbered from 0.
    pub fn on_clusters(pick: Pick, clusters: Clusters, n: u32) -> Planner {
        let (scheme, p) = (Scheme::Clusters(pick), clusters.count() as u32);
        let inner = Inner::Clusters(clusters);
        Planner { scheme, p, n, inner, loads: Vec::new(), desk: Desk::default() }
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Parts with which everything is found.
    pub fn p(&self) -> u32 {
        self.p
    }

    /// Its rings; none for other schemes than ROAR.
    pub fn rings(&self) -> &[Ring] {
        match &self.inner {
            Inner::Ring(on) => &on.rings,
            _ => &[],
        }
    }

    /// Whether `server` may answer for all of `slice`.
    pub fn serves(&self, server: u32, slice: Slice) -> bool {
        match &self.inner {
            Inner::Ring(on) => {
                let (ring, position) = on.places.of(server);
                on.rings[ring].serves(position, on.arc, slice)
            }
            Inner::Clusters(clusters) => clusters.serves(server, slice),
            Inner::Window(window) => window.serves(server, slice),
            Inner::Ideal => server < self.n,
        }
    }

    /// Copies of an object, on average.
    pub fn copies(&self) -> f64 {
        match &self.inner {
            Inner::Ring(on) => on.rings.iter().map(|ring| ring.copies(on.arc)).sum(),
            Inner::Clusters(_) | Inner::Window(_) => f64::from(self.n) / f64::from(self.p),
            Inner::Ideal => f64::from(self.n),
        }
    }

    /// Plans one query, in the order of the ring. `loads` and `alive` are by server. Ids that no
    /// live server holds go to `lost`. Returns the predicted finish, from now.
    pub fn plan(
        &mut self,
        loads: &[Load],
        alive: &[bool],
        rng: &mut Stream,
        parts: &mut Vec<Part>,
        lost: &mut Vec<Slice>,
    ) -> u64 {
        lost.clear();
        let all_alive = alive.iter().all(|alive| *alive);
        let usable = |server: u32| alive[server as usize];
        match (&mut self.inner, self.scheme) {
            (Inner::Ideal, _) => {
                if !alive.contains(&true) {
                    parts.clear();
                    lost.push(Slice::new(0, 0));
                    return 0;
                }
                ideal::plan(self.p as usize, loads, usable, parts)
            }
            (Inner::Window(window), _) => {
                let finish = window.plan(loads, rng, parts);
                // The window has no rule for dead servers: what they hold is not answered for.
                if !all_alive {
                    lost.extend(parts.iter().filter(|p| !usable(p.server)).map(|part| part.slice));
                    parts.retain(|part| usable(part.server));
                }
                finish
            }
            (Inner::Clusters(clusters), Scheme::Clusters(pick)) => {
                clusters.plan(pick, loads, usable, rng, parts, lost)
            }
            (Inner::Ring(on), Scheme::Roar(roar)) => {
                let OnRings { rings, places, arc, sweep, free } = &mut **on;
                let loads = if all_alive {
                    loads
                } else {
                    neighbours(rings, loads, alive, &mut self.loads);
                    &self.loads
                };
                match roar.start {
                    Start::Swept => sweep.plan(loads, roar.within, rng, parts),
                    Start::Blind => sweep.blind(loads, rng, parts),
                    Start::Free => {
                        let k = sweep.points();
                        free.plan(rings, *arc, k, loads, usable, rng, parts)
                    }
                };
                if roar.adjust {
                    adjust(rings, places, *arc, loads, roar.threshold, parts, &mut self.desk);
                }
                if roar.splits > 0 {
                    let (salt, desk) = (rng.bits() as u32, &mut self.desk);
                    let (most, threshold) = (roar.splits, roar.threshold);
                    split(rings, *arc, loads, most, threshold, usable, salt, parts, desk);
                }
                if !all_alive {
                    around(rings, places, *arc, alive, parts, lost, &mut self.desk.parts);
                }
                plan::finish(parts, loads)
            }
            _ => unreachable!("a scheme has its own kind of planner"),
        }
    }

    /// Ids that no live server holds. `alive` is by server.
    pub fn unheld(&self, alive: &[bool]) -> u128 {
        let lives = |server: u32| alive[server as usize];
        match &self.inner {
            Inner::Ring(on) => unheld(&on.rings, on.arc, lives),
            Inner::Clusters(clusters) => {
                let gone = |j: &usize| !clusters.members(*j).iter().any(|&server| lives(server));
                (0..clusters.count()).filter(gone).map(|j| clusters.slice(j).width()).sum()
            }
            Inner::Window(_) => {
                // An n-th of the ids is gone when the r servers from its own on are.
                let n = self.n;
                let copies = n / self.p;
                let gone = |first: &u32| !(0..copies).any(|step| lives((first + step) % n));
                (0..n).filter(gone).count() as u128 * WHOLE / u128::from(n)
            }
            Inner::Ideal if alive.contains(&true) => 0,
            Inner::Ideal => WHOLE,
        }
    }

    /// Whether ids are lost when the others are dead, if borders and arcs were not rounded to whole
    /// ids: on a ring, a dead stretch exactly as long as an arc loses one id, which rounding saves
    /// now and then `[roar 0.14]`. `alive` is by server.
    pub fn loses(&self, alive: &[bool]) -> bool {
        const ROUNDED: u128 = 4;
        let lives = |server: u32| alive[server as usize];
        match &self.inner {
            Inner::Ring(on) => {
                let ids = on.arc.width();
                let arc = Arc::wide(ids.saturating_sub(ROUNDED).max(1));
                unheld(&on.rings, arc, lives) > 0
            }
            _ => self.unheld(alive) > 0,
        }
    }

    /// Whether a plan meets every id once, on servers that hold what they answer for.
    pub fn verify(&self, parts: &[Part]) -> Result<(), plan::Fault> {
        verify(parts, |server, slice| self.serves(server, slice))
    }

    /// A part went to `server`: schemes that keep ranks hear of it.
    pub fn sent(&mut self, server: u32) {
        if let Inner::Clusters(clusters) = &mut self.inner {
            clusters.sent(server);
        }
    }

    /// A part came back: how long it took, how long the server worked, how many waited there.
    pub fn answered(&mut self, server: u32, response_ms: f64, service_ms: f64, queue: f64) {
        if let Inner::Clusters(clusters) = &mut self.inner {
            clusters.answered(server, response_ms, service_ms, queue);
        }
    }
}

/// Later than anything: 36 years.
const NEVER_NS: u64 = 1 << 60;

/// Takes a dead server for as late as the later of its live neighbours, and as busy as with half of
/// a part: they will share it. With a whole part no plan over it would ever be better than one over
/// that neighbour, and all queries would go to the few plans without a dead server. Of a ring on
/// which nobody lives no server is ever free, if others live.
fn neighbours(rings: &[Ring], loads: &[Load], alive: &[bool], out: &mut Vec<Load>) {
    out.clear();
    out.extend_from_slice(loads);
    let lives_on = |ring: &Ring| ring.servers().iter().any(|&server| alive[server as usize]);
    let some_live = rings.iter().any(lives_on);
    for ring in rings {
        let lives = |at: usize| alive[ring.server(at) as usize];
        if !lives_on(ring) {
            for &server in ring.servers().iter().filter(|_| some_live) {
                out[server as usize].free_ns = NEVER_NS;
            }
            continue;
        }
        for at in (0..ring.count()).filter(|&at| !lives(at)) {
            let (mut before, mut after) = (at, at);
            while !lives(before) {
                before = ring.previous(before);
            }
            while !lives(after) {
                after = ring.next(after);
            }
            let load = |at: usize| loads[ring.server(at) as usize];
            let (one, other) = (load(before), load(after));
            let later = if other.free_ns > one.free_ns { other } else { one };
            let half = Cost { scan_ns: later.cost.scan_ns / 2, ..later.cost };
            let own = &mut out[ring.server(at) as usize];
            *own = Load { free_ns: own.free_ns.max(later.free_ns), cost: half };
        }
    }
}

/// Gives the parts of dead servers to live ones of any ring.
fn around(
    rings: &[Ring],
    places: &Places,
    arc: Arc,
    alive: &[bool],
    parts: &mut Vec<Part>,
    lost: &mut Vec<Slice>,
    scratch: &mut Vec<Part>,
) {
    core::mem::swap(parts, scratch);
    parts.clear();
    for part in scratch.iter() {
        if alive[part.server as usize] {
            parts.push(*part);
            continue;
        }
        let own = places.of(part.server).0;
        reissue_among(rings, own, arc, part.slice, &|s| alive[s as usize], parts, lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn clause_2_11_a_dead_server_is_as_late_as_half_a_part_of_its_later_neighbour() {
        let rings = [Ring::equal(&[0, 1, 2, 3, 4])];
        let load = |free_ns, scan_ns| Load { free_ns, cost: Cost { fixed_ns: 7, scan_ns } };
        let loads = [load(50, 100), load(0, 1), load(900, 1), load(80, 300), load(0, 100)];
        let mut found = Vec::new();
        // 1 and 2 are dead; 3 is later than 0. What 2 had left to do died with it.
        neighbours(&rings, &loads, &[true, false, false, true, true], &mut found);
        assert_eq!(found, vec![loads[0], load(80, 150), load(900, 150), loads[3], loads[4]]);
    }
}
