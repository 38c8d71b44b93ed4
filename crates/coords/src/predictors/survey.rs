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
use super::{Learner, Predictor, Probe, make_room};
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
/// So many reaches away nothing counts any more.
const REACHES_MAX: f64 = 3.0;
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

/// What a prediction reads of the peers of both ends, which are anywhere in memory.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Spot {
    /// Where it is taken to be.
    site: Option<Site>,
    height_ms: f64,
}

/// A place in steps of 389 m: small enough that those of millions of machines stay near the
/// processor. Most of what two machines measured was to peers far from the other one, and this is
/// enough to see that.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Rough([i16; 3]);

impl Rough {
    const STEPS: f64 = 16_384.0;
    /// Beyond all places.
    const NOWHERE: Rough = Rough([i16::MAX; 3]);

    fn new(site: Option<Site>) -> Rough {
        let step = |part: f64| libm::round(part * Rough::STEPS) as i16;
        site.map_or(Rough::NOWHERE, |site| Rough(site.point.vector().map(step)))
    }

    /// Is the other place certainly out of reach? Rounding moves either by less than a step.
    fn is_beyond(self, other: Rough) -> bool {
        const LIMIT: f64 = REACHES_MAX / EARTH_PER_REACH * Rough::STEPS + 2.0;
        let square = |axis: usize| {
            let apart = (i32::from(self.0[axis]) - i32::from(other.0[axis])).unsigned_abs();
            u64::from(apart * apart)
        };
        square(0) + square(1) + square(2) > (LIMIT * LIMIT) as u64
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
        make_room(&mut self.measured);
        self.measured.push(one);
        self.heard = self.heard.saturating_add(1);
    }

    /// Is it time to look at the position?
    fn looks(&self) -> bool {
        self.said.is_none() || self.heard <= LOOKS_FIRST || self.heard.is_multiple_of(LOOKS_EVERY)
    }
}

/// A measurement of the machine that is looked at, with what is known of the peer.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Near {
    rtt_ms: f64,
    there: Site,
    height_ms: f64,
    /// From where the machine is taken to be.
    km: f64,
}

/// Lists that are filled anew for each machine that learns.
#[derive(Clone, Debug, Default)]
struct Lists {
    near: Vec<Near>,
    errors: Vec<f64>,
}

/// Everything that all probes together say.
#[derive(Clone, Debug)]
pub struct Survey {
    parts: Parts,
    memory: Memory,
    line: Line,
    machines: Vec<Machine>,
    /// By machine.
    spots: Vec<Spot>,
    /// Where each machine is taken to be, roughly.
    rough: Vec<Rough>,
    lists: Lists,
    /// Sum of what the additive part is short of, and pairs, by the cells of both ends.
    cells: Vec<(f64, f64)>,
    globe: Learner<Globe>,
}

/// What distance, heights and corrections say, and what moving coordinates do.
type Both = (Option<f64>, Option<f64>);

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
                measured: Vec::new(),
                heard: 0,
                additive: Faded::default(),
                moving: Faded::default(),
            }
        };
        let machines: Vec<Machine> = known.iter().map(machine).collect();
        let spot = |one: &Machine| Spot { site: one.said.map(Site::new), height_ms: 0.0 };
        let spots: Vec<Spot> = machines.iter().map(spot).collect();
        let rough = spots.iter().map(|spot| Rough::new(spot.site)).collect();
        let line = config.line;
        let globe = Learner::new(Globe::new(config, known)).symmetric(true);
        let cells = vec![(0.0, 0.0); CELLS * CELLS];
        let lists = Lists::default();
        Survey { parts, memory, line, machines, spots, rough, lists, cells, globe }
    }

    fn site(&self, machine: usize) -> Option<Site> {
        self.spots.get(machine)?.site
    }

    fn set_site(&mut self, machine: usize, site: Option<Site>) {
        self.spots[machine].site = site;
        self.rough[machine] = Rough::new(site);
    }

    /// Is the position that was given for `machine` disproved by what was measured?
    pub fn is_disproved(&self, machine: u32) -> bool {
        let said = self.machines.get(machine as usize).and_then(|own| own.said);
        said.is_some() && said != self.site(machine as usize).map(|site| site.point)
    }

    /// Line and heights.
    fn plain_ms(&self, a: usize, b: usize, km: f64) -> f64 {
        let heights = self.spots[a].height_ms + self.spots[b].height_ms;
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
        let rough = self.rough[to];
        for one in &self.machines[from].measured {
            let peer = one.peer as usize;
            if self.rough[peer].is_beyond(rough) || peer == to {
                continue;
            }
            let Some(there) = self.spots[peer].site else { continue };
            // Squared chords, in units of the reach: nearly arcs at this distance, and cheap.
            let square = there.point.chord_squared(other.point);
            let apart = square * (EARTH_PER_REACH * EARTH_PER_REACH);
            if apart > REACHES_MAX * REACHES_MAX {
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
        let (here, there) = (self.site(a)?, self.site(b)?);
        let km = here.point.distance_km(there.point);
        let mut estimate = self.plain_ms(a, b, km) + self.cell_ms(here, there);
        if self.parts.peers {
            let (one, other) = (self.near_ms(a, b, here, there), self.near_ms(b, a, there, here));
            estimate += (one.0 + other.0) / (one.1 + other.1 + REACH_PRIOR);
        }
        Some(estimate.max(FLOOR_RATIO * FLOOR_MS_PER_KM * km))
    }

    /// Both sorts of estimates.
    fn both_ms(&self, a: u32, b: u32, now: Instant) -> Both {
        (self.additive_ms(a as usize, b as usize), self.globe.predict_ms(a, b, now))
    }

    /// Looks up what is known of the peers of `machine`, once for all that follows: they are
    /// anywhere in memory, which is asked for all of them before the first is needed.
    fn look_up(&self, machine: usize, near: &mut Vec<Near>) {
        near.clear();
        near.extend(self.machines[machine].measured.iter().filter_map(|one| {
            let Spot { site, height_ms } = self.spots[one.peer as usize];
            Some(Near { rtt_ms: one.rtt_ms, there: site?, height_ms, km: 0.0 })
        }));
        self.measure_up(machine, near);
    }

    /// Distances from where `machine` is taken to be.
    fn measure_up(&self, machine: usize, near: &mut [Near]) {
        let Some(here) = self.site(machine) else { return };
        near.iter_mut().for_each(|one| one.km = here.point.distance_km(one.there.point));
    }

    /// How badly a place explains what a machine measured: mean absolute error with the best
    /// height, milliseconds, and what beats light besides.
    fn misfit_ms(&self, lists: &mut Lists, km: impl Fn(&Near) -> f64) -> f64 {
        let Lists { near, errors } = lists;
        errors.clear();
        let mut beaten = 0.0;
        for one in near.iter() {
            let km = km(one);
            errors.push(one.rtt_ms - self.line.rtt_ms(km) - one.height_ms);
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
    fn locate(&mut self, machine: usize, lists: &mut Lists) {
        let own = &self.machines[machine];
        let moving = self.globe.space().coordinate(machine as u32).map(|c| c.position);
        let Some(said) = own.said else {
            self.set_site(machine, moving.map(Site::new));
            self.measure_up(machine, &mut lists.near);
            return;
        };
        if own.measured.len() < DISPROOF_MIN {
            return;
        }
        let is_there = self.site(machine).is_some_and(|site| site.point == said);
        let stays = match is_there {
            true => self.misfit_ms(lists, |one| one.km),
            false => self.misfit_ms(lists, |one| said.distance_km(one.there.point)),
        };
        let mut best = (DISPROOF_RATIO * stays, said);
        if stays >= DOUBT_MS {
            for place in self.others(machine, moving) {
                let misfit = self.misfit_ms(lists, |one| place.distance_km(one.there.point));
                if misfit < best.0 {
                    best = (misfit, place);
                }
            }
        }
        if self.site(machine).is_none_or(|site| site.point != best.1) {
            self.set_site(machine, Some(Site::new(best.1)));
            self.measure_up(machine, &mut lists.near);
        }
    }

    /// Where else a machine might be that is not where it is said to be.
    fn others(&self, machine: usize, moving: Option<Point>) -> Vec<Point> {
        let mut near: Vec<(f64, u32)> =
            self.machines[machine].measured.iter().map(|one| (one.rtt_ms, one.peer)).collect();
        near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let place = |machine: usize| self.site(machine).map(|site| site.point);
        let peers = near.iter().take(TRIED).map(|(_, peer)| *peer as usize);
        let places = peers.flat_map(|peer| [place(peer), self.machines[peer].said]);
        [moving, place(machine)].into_iter().chain(places).flatten().collect()
    }

    /// The height that `machine`'s measurements ask for.
    fn raise(&mut self, machine: usize, near: &[Near]) {
        let Some(here) = self.site(machine) else { return };
        let (mut sum, mut count) = (0.0, HEIGHT_PRIOR);
        for one in near {
            let said = self.line.rtt_ms(one.km) + one.height_ms;
            let beyond = one.rtt_ms - said - self.cell_ms(here, one.there);
            sum += beyond.clamp(-HEIGHT_CLIP_MS, HEIGHT_CLIP_MS);
            count += 1.0;
        }
        self.spots[machine].height_ms = sum / count;
    }

    fn known_ms(&self, from: u32, to: u32, now: Instant) -> Option<f64> {
        let known = self.machines.get(from as usize)?.measured.iter().rev();
        let found = known.into_iter().find(|one| one.peer == to)?;
        let young = now.since(found.at()) <= self.memory.lifetime;
        (self.parts.history && young).then_some(found.rtt_ms)
    }
}

const EARTH_PER_REACH: f64 = crate::sphere::EARTH_RADIUS_KM / REACH_KM;

impl Survey {
    /// The mean of both sorts of estimates, by how wrong they have been at both ends.
    fn mean_ms(&self, from: u32, to: u32, (additive, moving): Both) -> Option<f64> {
        let (a, b) = (self.machines.get(from as usize)?, self.machines.get(to as usize)?);
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

    /// Learns from a probe of which `both` was said.
    fn learn_beside(&mut self, probe: &Probe, (additive, moving): Both, rng: &mut Stream) {
        let Probe { from, to, rtt_ms, at } = *probe;
        let (a, b) = (from as usize, to as usize);
        for end in [a, b] {
            if let Some(said) = additive {
                self.machines[end].additive.add((said - rtt_ms).abs());
            }
            if let Some(said) = moving {
                self.machines[end].moving.add((said - rtt_ms).abs());
            }
        }
        self.globe.learn(probe, rng);
        if let Some((here, there)) = self.site(a).zip(self.site(b)) {
            let beyond = rtt_ms - self.plain_ms(a, b, here.point.distance_km(there.point));
            let (sum, count) = &mut self.cells[cells(here, there)];
            *sum += beyond.clamp(-100.0, 100.0);
            *count += 1.0;
        }
        for (end, peer) in [(a, to), (b, from)] {
            self.machines[end].measure(Measured::new(peer, rtt_ms, at), self.memory.peers.max(1));
        }
        let mut lists = core::mem::take(&mut self.lists);
        for end in [a, b] {
            self.look_up(end, &mut lists.near);
            let own = &self.machines[end];
            if own.looks() && (self.parts.moves || own.said.is_none()) {
                self.locate(end, &mut lists);
            }
            self.raise(end, &lists.near);
        }
        self.lists = lists;
    }

    /// Can this have been measured, between machines that there are?
    fn takes(&self, probe: &Probe) -> bool {
        probe.makes_sense() && (probe.from.max(probe.to) as usize) < self.machines.len()
    }
}

impl Predictor for Survey {
    fn predict_ms(&self, from: u32, to: u32, now: Instant) -> Option<f64> {
        if from.max(to) as usize >= self.machines.len() {
            return None;
        }
        self.known_ms(from, to, now).or_else(|| self.mean_ms(from, to, self.both_ms(from, to, now)))
    }

    fn learn(&mut self, probe: &Probe, rng: &mut Stream) {
        if self.takes(probe) {
            let both = self.both_ms(probe.from, probe.to, probe.at);
            self.learn_beside(probe, both, rng);
        }
    }

    /// Learning begins with what was predicted, so it is made once for both.
    fn meet(&mut self, probe: &Probe, rng: &mut Stream) -> Option<f64> {
        let Probe { from, to, at, .. } = *probe;
        if !self.takes(probe) {
            return self.predict_ms(from, to, at);
        }
        let both = self.both_ms(from, to, at);
        let said = self.known_ms(from, to, at).or_else(|| self.mean_ms(from, to, both));
        self.learn_beside(probe, both, rng);
        said
    }

    fn place(&self, machine: u32) -> Option<Point> {
        Some(self.site(machine as usize)?.point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::Purpose;

    /// What is passed over counts nothing, and of what counts nothing little is looked at.
    #[test]
    fn rough_places_hide_nobody_within_reach() {
        let mut rng = Stream::keyed(1, 0, Purpose::Test);
        let (mut beyond, mut seen) = (0, 0);
        for _ in 0..200_000 {
            let here = Point::random(&mut rng);
            let radians = (0.99 + 0.02 * rng.unit()) * REACHES_MAX / EARTH_PER_REACH;
            let there = here.moved_away(Point::random(&mut rng), radians, &mut rng);
            let rough = |point: Point| Rough::new(Some(Site::new(point)));
            let apart = here.chord_squared(there) * (EARTH_PER_REACH * EARTH_PER_REACH);
            let is_beyond = apart > REACHES_MAX * REACHES_MAX;
            beyond += u32::from(is_beyond);
            if rough(here).is_beyond(rough(there)) {
                assert!(is_beyond, "{:?} {:?}", here.degrees(), there.degrees());
                seen += 1;
            }
        }
        assert!(seen > 7 * beyond / 10, "{seen} of {beyond}");
        let rough = Rough::new(Some(Site::new(Point::random(&mut rng))));
        assert!(rough.is_beyond(Rough::NOWHERE) && Rough::NOWHERE.is_beyond(rough));
    }
}
