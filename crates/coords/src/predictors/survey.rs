//! What a service can say that sees all probes: cavy's own predictor.
//!
//! It begins additive, as [htrae 8.2] proposes: a line from distance to round trip, and a height
//! for each machine. What that leaves over is learnt at two scales: a mean for each pair of cells
//! of the globe ([htrae 8.1]), and what the two machines themselves measured to peers near the
//! other one. A machine whose measurements disprove its position is moved: to where its moving
//! coordinate is, or to one of its nearest peers, whichever explains its round trips best. Moving
//! coordinates run beside it, and each pair is a mean of both, by how wrong either has lately been
//! at both ends. A round trip that was measured lately is said as it was ([htrae 2.2]).
//!
//! The constants were chosen on the anchors of RIPE Atlas (decision 19).

use super::globe::Globe;
use super::{Learner, Predictor, Probe};
use crate::config::Config;
use crate::history::Memory;
use crate::map::{FLOOR_MS_PER_KM, Line};
use crate::sphere::Point;
use crate::start::Known;
use alloc::vec;
use alloc::vec::Vec;
use cavy_core::{Instant, Stream};

/// Width of a cell, degrees; how many there are from west to east, and in all.
const CELL_DEG: f64 = 20.0;
const COLUMNS: usize = 19;
const CELLS: usize = 10 * COLUMNS;
/// Pairs that the mean of a pair of cells is drawn to zero by.
const CELL_PRIOR: f64 = 3.0;
/// Reach of what was measured to a peer, kilometers.
const REACH_KM: f64 = 500.0;
/// Weight by which corrections from single peers are drawn to zero.
const REACH_PRIOR: f64 = 0.25;
/// Measurements that a height is drawn to zero by.
const HEIGHT_PRIOR: f64 = 2.0;
/// What one measurement counts at most, in heights and for positions, milliseconds.
const HEIGHT_CLIP_MS: f64 = 80.0;
const PLACE_CLIP_MS: f64 = 60.0;
/// Measurements from which on a position can be disproved.
const DISPROOF_MIN: usize = 3;
/// A position whose mean error is below this is not in doubt, milliseconds.
const DOUBT_MS: f64 = 8.0;
/// Another position must leave at most this share of the error.
const DISPROOF_RATIO: f64 = 0.7;
/// A position is looked at again after each of the first measurements, then after every so many.
const LOOKS_FIRST: u32 = 8;
const LOOKS_EVERY: u32 = 4;
/// Nearest peers whose positions are tried.
const TRIED: usize = 4;
/// Share of an error that is remembered from one probe to the next.
const FADE: f64 = 0.9;
/// Predictions lie at least at this share of light's time.
const FLOOR_RATIO: f64 = 0.9;

/// Parts that can be switched off, to see what each is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// What was measured lately is said as it was.
    pub history: bool,
    /// Means for pairs of cells.
    pub cells: bool,
    /// What both machines measured to peers near the other one.
    pub peers: bool,
    /// Positions are moved when measurements disprove them.
    pub moves: bool,
    /// Moving coordinates have a say.
    pub coordinates: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Parts { history: true, cells: true, peers: true, moves: true, coordinates: true }
    }
}

/// Steps in which moments are remembered.
const MOMENT_NS: u64 = 62_500_000;

/// A round trip that a machine knows. Sixteen bytes, because millions of machines know dozens.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    rtt_ms: f64,
    peer: u32,
    /// In steps, rounded down, so that it is never younger than it was.
    at: u32,
}

impl Measured {
    fn new(peer: u32, rtt_ms: f64, at: Instant) -> Measured {
        Measured { rtt_ms, peer, at: u32::try_from(at.as_ns() / MOMENT_NS).unwrap_or(u32::MAX) }
    }

    fn at(self) -> Instant {
        Instant::from_ns(u64::from(self.at) * MOMENT_NS)
    }
}

/// A place, and the cell that it lies in: to find that out again takes longer than to predict.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Site {
    point: Point,
    cell: u16,
}

impl Site {
    fn new(point: Point) -> Site {
        let (latitude, longitude) = point.degrees();
        let row = libm::floor((latitude + 90.0) / CELL_DEG) as usize;
        let column = libm::floor((longitude + 180.0) / CELL_DEG) as usize;
        Site { point, cell: (row * COLUMNS + column) as u16 }
    }
}

/// A mean error that forgets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Faded {
    sum_ms: f64,
    weight: f64,
}

impl Faded {
    fn add(&mut self, error_ms: f64) {
        self.sum_ms = FADE * self.sum_ms + error_ms.min(100.0);
        self.weight = FADE * self.weight + 1.0;
    }

    /// The mean, drawn to 10 ms as if two errors had been so large.
    fn mean_ms(self) -> f64 {
        (self.sum_ms + 20.0) / (self.weight + 2.0)
    }
}

#[derive(Clone, PartialEq, Debug)]
struct Machine {
    /// Where it is said to be.
    said: Option<Point>,
    /// Where it is taken to be.
    site: Option<Site>,
    height_ms: f64,
    /// The oldest first.
    measured: Vec<Measured>,
    heard: u32,
    additive: Faded,
    moving: Faded,
}

impl Machine {
    fn measure(&mut self, one: Measured, peers_max: usize) {
        self.measured.retain(|known| known.peer != one.peer);
        if self.measured.len() >= peers_max {
            self.measured.remove(0);
        }
        self.measured.push(one);
        self.heard = self.heard.saturating_add(1);
    }

    /// Is it time to look at the position?
    fn looks(&self) -> bool {
        self.said.is_none() || self.heard <= LOOKS_FIRST || self.heard.is_multiple_of(LOOKS_EVERY)
    }
}

/// Everything that all probes together say.
#[derive(Clone, Debug)]
pub struct Survey {
    parts: Parts,
    memory: Memory,
    line: Line,
    machines: Vec<Machine>,
    /// Sum of what the additive part is short of, and pairs, by the cells of both ends.
    cells: Vec<(f64, f64)>,
    globe: Learner<Globe>,
}

/// Where the mean of two cells stands.
fn cells(a: Site, b: Site) -> usize {
    usize::from(a.cell.min(b.cell)) * CELLS + usize::from(a.cell.max(b.cell))
}

impl Survey {
    /// Machines of which `known` says the place and the effective system ([`crate::systems`]).
    pub fn new(
        config: Config,
        parts: Parts,
        memory: Memory,
        known: impl IntoIterator<Item = (Known, u32)>,
    ) -> Self {
        let known: Vec<(Known, u32)> = known.into_iter().collect();
        let machine = |(known, _): &(Known, u32)| {
            let said = known.address.or(known.country);
            Machine {
                said,
                site: said.map(Site::new),
                height_ms: 0.0,
                measured: Vec::new(),
                heard: 0,
                additive: Faded::default(),
                moving: Faded::default(),
            }
        };
        let machines = known.iter().map(machine).collect();
        let line = config.line;
        let globe = Learner::new(Globe::new(config, known)).symmetric(true);
        let cells = vec![(0.0, 0.0); CELLS * CELLS];
        Survey { parts, memory, line, machines, cells, globe }
    }

    /// Is the position that was given for `machine` disproved by what was measured?
    pub fn is_disproved(&self, machine: u32) -> bool {
        let own = self.machines.get(machine as usize);
        own.is_some_and(|m| m.said.is_some() && m.said != m.site.map(|site| site.point))
    }

    /// Line and heights.
    fn plain_ms(&self, a: usize, b: usize, km: f64) -> f64 {
        let heights = self.machines[a].height_ms + self.machines[b].height_ms;
        (self.line.rtt_ms(km) + heights).max(FLOOR_RATIO * FLOOR_MS_PER_KM * km)
    }

    /// What pairs between these two cells take longer.
    fn cell_ms(&self, a: Site, b: Site) -> f64 {
        if !self.parts.cells {
            return 0.0;
        }
        let (sum, count) = self.cells[cells(a, b)];
        sum / (count + CELL_PRIOR)
    }

    /// What `from` measured to peers near `to` beyond what the other parts say: sum and weight.
    fn near_ms(&self, from: usize, to: usize, here: Site, other: Site) -> (f64, f64) {
        let (mut sum, mut weight) = (0.0, 0.0);
        for one in &self.machines[from].measured {
            let peer = one.peer as usize;
            let Some(there) = self.machines[peer].site.filter(|_| peer != to) else { continue };
            // Squared chords, in units of the reach: nearly arcs at this distance, and cheap.
            let square = there.point.chord_squared(other.point);
            let apart = square * (EARTH_PER_REACH * EARTH_PER_REACH);
            if apart > 9.0 {
                continue;
            }
            let share = libm::exp(-0.5 * apart);
            let said = self.plain_ms(from, peer, here.point.distance_km(there.point));
            let beyond = one.rtt_ms - said - self.cell_ms(here, there);
            sum += share * beyond.clamp(-PLACE_CLIP_MS, PLACE_CLIP_MS);
            weight += share;
        }
        (sum, weight)
    }

    /// What line, heights, cells and peers say.
    fn additive_ms(&self, a: usize, b: usize) -> Option<f64> {
        // In one order, so that both ends say the same to the bit.
        let (a, b) = (a.min(b), a.max(b));
        let (here, there) = (self.machines[a].site?, self.machines[b].site?);
        let km = here.point.distance_km(there.point);
        let mut estimate = self.plain_ms(a, b, km) + self.cell_ms(here, there);
        if self.parts.peers {
            let (one, other) = (self.near_ms(a, b, here, there), self.near_ms(b, a, there, here));
            estimate += (one.0 + other.0) / (one.1 + other.1 + REACH_PRIOR);
        }
        Some(estimate.max(FLOOR_RATIO * FLOOR_MS_PER_KM * km))
    }

    /// Both sorts of estimates.
    fn both_ms(&self, a: u32, b: u32, now: Instant) -> (Option<f64>, Option<f64>) {
        (self.additive_ms(a as usize, b as usize), self.globe.predict_ms(a, b, now))
    }

    /// How badly a place explains what `machine` measured: mean absolute error with the best
    /// height, milliseconds, and what beats light besides.
    fn misfit_ms(&self, machine: usize, at: Point, errors: &mut Vec<f64>) -> f64 {
        errors.clear();
        let mut beaten = 0.0;
        for one in &self.machines[machine].measured {
            let peer = &self.machines[one.peer as usize];
            let Some(there) = peer.site else { continue };
            let km = at.distance_km(there.point);
            errors.push(one.rtt_ms - self.line.rtt_ms(km) - peer.height_ms);
            beaten += (FLOOR_MS_PER_KM * km - one.rtt_ms).clamp(0.0, 100.0);
        }
        if errors.is_empty() {
            return 0.0;
        }
        let count = errors.len() as f64;
        let middle = (errors.len() - 1) / 2;
        let height = *errors.select_nth_unstable_by(middle, f64::total_cmp).1;
        let height = height.clamp(-20.0, 60.0) * count / (count + 1.0);
        let sum: f64 = errors.iter().map(|e| (e - height).abs().min(PLACE_CLIP_MS)).sum();
        (sum + beaten) / count
    }

    /// Moves `machine` where its measurements say that it is not where it is said to be.
    fn locate(&mut self, machine: usize) {
        let own = &self.machines[machine];
        let moving = self.globe.space().coordinate(machine as u32).map(|c| c.position);
        let Some(said) = own.said else {
            self.machines[machine].site = moving.map(Site::new);
            return;
        };
        if own.measured.len() < DISPROOF_MIN {
            return;
        }
        let mut errors = Vec::with_capacity(own.measured.len());
        let stays = self.misfit_ms(machine, said, &mut errors);
        let mut best = (DISPROOF_RATIO * stays, said);
        if stays >= DOUBT_MS {
            let mut near: Vec<(f64, u32)> =
                own.measured.iter().map(|one| (one.rtt_ms, one.peer)).collect();
            near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let peers = near.iter().take(TRIED).map(|(_, peer)| &self.machines[*peer as usize]);
            let places = peers.flat_map(|peer| [peer.site.map(|site| site.point), peer.said]);
            let tried: Vec<Point> = [moving, own.site.map(|site| site.point)]
                .into_iter()
                .chain(places)
                .flatten()
                .collect();
            for place in tried {
                let misfit = self.misfit_ms(machine, place, &mut errors);
                if misfit < best.0 {
                    best = (misfit, place);
                }
            }
        }
        if own.site.is_none_or(|site| site.point != best.1) {
            self.machines[machine].site = Some(Site::new(best.1));
        }
    }

    /// The height that `machine`'s measurements ask for.
    fn raise(&mut self, machine: usize) {
        let own = &self.machines[machine];
        let Some(here) = own.site else { return };
        let (mut sum, mut count) = (0.0, HEIGHT_PRIOR);
        for one in &own.measured {
            let peer = &self.machines[one.peer as usize];
            let Some(there) = peer.site else { continue };
            let km = here.point.distance_km(there.point);
            let said = self.line.rtt_ms(km) + peer.height_ms;
            let beyond = one.rtt_ms - said - self.cell_ms(here, there);
            sum += beyond.clamp(-HEIGHT_CLIP_MS, HEIGHT_CLIP_MS);
            count += 1.0;
        }
        self.machines[machine].height_ms = sum / count;
    }

    fn known_ms(&self, from: u32, to: u32, now: Instant) -> Option<f64> {
        let known = self.machines.get(from as usize)?.measured.iter().rev();
        let found = known.into_iter().find(|one| one.peer == to)?;
        let young = now.since(found.at()) <= self.memory.lifetime;
        (self.parts.history && young).then_some(found.rtt_ms)
    }
}

const EARTH_PER_REACH: f64 = crate::sphere::EARTH_RADIUS_KM / REACH_KM;

impl Predictor for Survey {
    fn predict_ms(&self, from: u32, to: u32, now: Instant) -> Option<f64> {
        let (a, b) = (self.machines.get(from as usize)?, self.machines.get(to as usize)?);
        if let Some(known) = self.known_ms(from, to, now) {
            return Some(known);
        }
        let (additive, moving) = self.both_ms(from, to, now);
        let (additive, moving) = match (additive, moving) {
            (Some(additive), Some(moving)) if self.parts.coordinates => (additive, moving),
            (additive, moving) => return additive.or(moving),
        };
        let weight = |one: Faded, other: Faded| {
            let error = one.mean_ms() + other.mean_ms();
            let square = error * error;
            1.0 / (square * square)
        };
        let (by_additive, by_moving) = (weight(a.additive, b.additive), weight(a.moving, b.moving));
        Some((by_additive * additive + by_moving * moving) / (by_additive + by_moving))
    }

    fn learn(&mut self, probe: &Probe, rng: &mut Stream) {
        let Probe { from, to, rtt_ms, at } = *probe;
        let (a, b) = (from as usize, to as usize);
        if !probe.makes_sense() || a.max(b) >= self.machines.len() {
            return;
        }
        let (additive, moving) = self.both_ms(from, to, at);
        for end in [a, b] {
            if let Some(said) = additive {
                self.machines[end].additive.add((said - rtt_ms).abs());
            }
            if let Some(said) = moving {
                self.machines[end].moving.add((said - rtt_ms).abs());
            }
        }
        self.globe.learn(probe, rng);
        if let Some((here, there)) = self.machines[a].site.zip(self.machines[b].site) {
            let beyond = rtt_ms - self.plain_ms(a, b, here.point.distance_km(there.point));
            let (sum, count) = &mut self.cells[cells(here, there)];
            *sum += beyond.clamp(-100.0, 100.0);
            *count += 1.0;
        }
        for (end, peer) in [(a, to), (b, from)] {
            self.machines[end].measure(Measured::new(peer, rtt_ms, at), self.memory.peers.max(1));
        }
        for end in [a, b] {
            let own = &self.machines[end];
            if own.looks() && (self.parts.moves || own.said.is_none()) {
                self.locate(end);
            }
            self.raise(end);
        }
    }

    fn place(&self, machine: u32) -> Option<Point> {
        Some(self.machines.get(machine as usize)?.site?.point)
    }
}
