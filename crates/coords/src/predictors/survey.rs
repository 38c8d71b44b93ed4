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

mod rough;

use super::globe::Globe;
use super::{Learner, Predictor, Probe, make_room, read_ends};
use crate::config::Config;
use crate::history::Memory;
use crate::map::{FLOOR_MS_PER_KM, Line};
use crate::sphere::Point;
use crate::start::Known;
use alloc::vec;
use alloc::vec::Vec;
use cavy_core::{Instant, Stream};
use rough::Rough;

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
/// What beating light counts at most, milliseconds.
const BEATEN_MAX_MS: f64 = 100.0;
/// The least and the greatest height that a place is tried with, milliseconds.
const HEIGHTS_MS: (f64, f64) = (-20.0, 60.0);
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

/// What is read of the peers of both ends of a probe, which are anywhere in memory: each fills one
/// line of the cache. Options would make it larger.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(align(64))]
struct Spot {
    /// Where it is taken to be; anything when the cell is [`NO_CELL`].
    at: Point,
    /// Where it is said to be; anything when nobody says.
    said: Point,
    height_ms: f64,
    cell: u16,
    is_said: bool,
}

/// The cell of a machine of which nobody knows where it is.
const NO_CELL: u16 = u16::MAX;

impl Spot {
    /// A machine that is said to be there.
    fn new(said: Option<Point>) -> Spot {
        let at = said.unwrap_or(Point::POLE);
        let cell = said.map_or(NO_CELL, |said| Site::new(said).cell);
        Spot { at, said: at, height_ms: 0.0, cell, is_said: said.is_some() }
    }

    fn site(&self) -> Option<Site> {
        (self.cell != NO_CELL).then_some(Site { point: self.at, cell: self.cell })
    }

    fn said(&self) -> Option<Point> {
        self.is_said.then_some(self.said)
    }

    fn move_to(&mut self, place: Option<Point>) {
        let site = place.map(Site::new);
        self.cell = site.map_or(NO_CELL, |site| site.cell);
        self.at = site.map_or(self.at, |site| site.point);
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

/// What only a machine's own probes read; it fills one line of the cache, too.
#[derive(Clone, PartialEq, Debug, Default)]
#[repr(align(64))]
struct Machine {
    /// The oldest first.
    measured: Vec<Measured>,
    heard: u32,
    additive: Faded,
    moving: Faded,
}

impl Machine {
    /// Says whom it forgets for it.
    fn measure(&mut self, one: Measured, peers_max: usize) -> Option<u32> {
        self.measured.retain(|known| known.peer != one.peer);
        let full = self.measured.len() >= peers_max;
        let forgotten = full.then(|| self.measured.remove(0).peer);
        make_room(&mut self.measured);
        self.measured.push(one);
        self.heard = self.heard.saturating_add(1);
        forgotten
    }

    /// Is it time to look at a position that was said?
    fn looks(&self) -> bool {
        self.heard <= LOOKS_FIRST || self.heard.is_multiple_of(LOOKS_EVERY)
    }
}

/// A measurement of the machine that is looked at, with what is known of the peer.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Near {
    peer: u32,
    rtt_ms: f64,
    there: Site,
    height_ms: f64,
    /// From where the machine is taken to be.
    km: f64,
}

/// Lists that are filled anew for each probe.
#[derive(Clone, Debug, Default)]
struct Lists {
    /// Of both ends.
    near: [Vec<Near>; 2],
    errors: Vec<f64>,
    places: Vec<Point>,
    rough: Rough,
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
        let machines = vec![Machine::default(); known.len()];
        let spot = |(known, _): &(Known, u32)| Spot::new(known.address.or(known.country));
        let spots: Vec<Spot> = known.iter().map(spot).collect();
        let line = config.line;
        let globe = Learner::new(Globe::new(config, known)).symmetric(true);
        let cells = vec![(0.0, 0.0); CELLS * CELLS];
        let lists = Lists::default();
        Survey { parts, memory, line, machines, spots, lists, cells, globe }
    }

    fn site(&self, machine: usize) -> Option<Site> {
        self.spots.get(machine)?.site()
    }

    /// Is the position that was given for `machine` disproved by what was measured?
    pub fn is_disproved(&self, machine: u32) -> bool {
        let spot = self.spots.get(machine as usize);
        spot.is_some_and(|own| own.is_said && own.site().is_none_or(|site| site.point != own.said))
    }

    /// Line and heights.
    fn plain_ms(&self, heights_ms: f64, km: f64) -> f64 {
        (self.line.rtt_ms(km) + heights_ms).max(FLOOR_RATIO * FLOOR_MS_PER_KM * km)
    }

    /// What pairs between these two cells take longer.
    fn cell_ms(&self, a: Site, b: Site) -> f64 {
        if !self.parts.cells {
            return 0.0;
        }
        let (sum, count) = self.cells[cells(a, b)];
        sum / (count + CELL_PRIOR)
    }

    /// What `from`, of which `near` are the peers, measured to peers near `to` beyond what the
    /// other parts say: sum and weight.
    fn near_ms(
        &self,
        (from, to): (usize, usize),
        near: impl Iterator<Item = Near>,
        km: impl Fn(&Near) -> f64,
    ) -> (f64, f64) {
        let (mut sum, mut weight) = (0.0, 0.0);
        let Some((here, other)) = self.site(from).zip(self.site(to)) else { return (sum, weight) };
        let height_ms = self.spots[from].height_ms;
        for one in near {
            // Squared chords, in units of the reach: nearly arcs at this distance, and cheap.
            let square = one.there.point.chord_squared(other.point);
            let apart = square * (EARTH_PER_REACH * EARTH_PER_REACH);
            if apart > REACHES_MAX * REACHES_MAX || one.peer as usize == to {
                continue;
            }
            let share = libm::exp(-0.5 * apart);
            let said = self.plain_ms(height_ms + one.height_ms, km(&one));
            let beyond = one.rtt_ms - said - self.cell_ms(here, one.there);
            sum += share * beyond.clamp(-PLACE_CLIP_MS, PLACE_CLIP_MS);
            weight += share;
        }
        (sum, weight)
    }

    /// What line, heights, cells and peers say; `near_ms` is what [`Survey::near_ms`] says from
    /// one end to the other.
    fn additive_ms(
        &self,
        (a, b): (usize, usize),
        near_ms: impl Fn(usize, usize) -> (f64, f64),
    ) -> Option<f64> {
        // In one order, so that both ends say the same to the bit.
        let (a, b) = (a.min(b), a.max(b));
        let (here, there) = (self.site(a)?, self.site(b)?);
        let km = here.point.distance_km(there.point);
        let heights_ms = self.spots[a].height_ms + self.spots[b].height_ms;
        let mut estimate = self.plain_ms(heights_ms, km) + self.cell_ms(here, there);
        if self.parts.peers {
            let (one, other) = (near_ms(a, b), near_ms(b, a));
            estimate += (one.0 + other.0) / (one.1 + other.1 + REACH_PRIOR);
        }
        Some(estimate.max(FLOOR_RATIO * FLOOR_MS_PER_KM * km))
    }

    /// The peers of `machine`, without distances.
    fn peers(&self, machine: usize) -> impl Iterator<Item = Near> {
        self.machines[machine].measured.iter().filter_map(|one| self.near(one.peer, one.rtt_ms))
    }

    fn near(&self, peer: u32, rtt_ms: f64) -> Option<Near> {
        let spot = &self.spots[peer as usize];
        let height_ms = spot.height_ms;
        Some(Near { peer, rtt_ms, there: spot.site()?, height_ms, km: 0.0 })
    }

    /// Looks up what is known of the peers of `machine`, once for all that follows: they are
    /// anywhere in memory, which is asked for all of them before the first is needed.
    fn look_up(&self, machine: usize, near: &mut Vec<Near>) {
        near.clear();
        near.extend(self.peers(machine));
        self.measure_up(machine, near);
    }

    /// Distances from where `machine` is taken to be.
    fn measure_up(&self, machine: usize, near: &mut [Near]) {
        let Some(here) = self.site(machine) else { return };
        near.iter_mut().for_each(|one| one.km = here.point.distance_km(one.there.point));
    }

    /// How badly a place explains what a machine measured: mean absolute error with the best
    /// height, milliseconds, and what beats light besides.
    fn misfit_ms(&self, near: &[Near], errors: &mut Vec<f64>, km: impl Fn(&Near) -> f64) -> f64 {
        errors.clear();
        let mut beaten = 0.0;
        for one in near {
            let km = km(one);
            errors.push(one.rtt_ms - self.line.rtt_ms(km) - one.height_ms);
            beaten += (FLOOR_MS_PER_KM * km - one.rtt_ms).clamp(0.0, BEATEN_MAX_MS);
        }
        if errors.is_empty() {
            return 0.0;
        }
        let count = errors.len() as f64;
        let middle = (errors.len() - 1) / 2;
        let height = *errors.select_nth_unstable_by(middle, f64::total_cmp).1;
        let height = height.clamp(HEIGHTS_MS.0, HEIGHTS_MS.1) * count / (count + 1.0);
        let sum: f64 = errors.iter().map(|e| (e - height).abs().min(PLACE_CLIP_MS)).sum();
        (sum + beaten) / count
    }

    /// Moves `machine` where its measurements say that it is not where it is said to be.
    fn locate(&mut self, machine: usize, near: &mut [Near], lists: &mut Lists) {
        let moving = self.globe.space().coordinate(machine as u32).map(|c| c.position);
        let Some(said) = self.spots[machine].said() else {
            self.spots[machine].move_to(moving);
            self.measure_up(machine, near);
            return;
        };
        if self.machines[machine].measured.len() < DISPROOF_MIN {
            return;
        }
        let is_there = self.site(machine).is_some_and(|site| site.point == said);
        let Lists { errors, places, rough, .. } = lists;
        let stays = match is_there {
            true => self.misfit_ms(near, errors, |one| one.km),
            false => self.misfit_ms(near, errors, |one| said.distance_km(one.there.point)),
        };
        let mut best = (DISPROOF_RATIO * stays, said);
        if stays >= DOUBT_MS {
            self.others(machine, moving, places);
            rough.fill(near, self.line);
            for place in places {
                // Of forty places one is better, and most are worse by far.
                if rough.misfit_min_ms(*place) >= best.0 {
                    continue;
                }
                let km = |one: &Near| place.distance_km(one.there.point);
                let misfit = self.misfit_ms(near, errors, km);
                if misfit < best.0 {
                    best = (misfit, *place);
                }
            }
        }
        if self.site(machine).is_none_or(|site| site.point != best.1) {
            self.spots[machine].move_to(Some(best.1));
            self.measure_up(machine, near);
        }
    }

    /// Where else a machine might be that is not where it is said to be; each place once.
    fn others(&self, machine: usize, moving: Option<Point>, places: &mut Vec<Point>) {
        let mut nearest: [Option<(f64, u32)>; TRIED] = [None; TRIED];
        for one in &self.machines[machine].measured {
            let mut next = Some((one.rtt_ms, one.peer));
            for kept in &mut nearest {
                let before =
                    |a: (f64, u32), b: (f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).is_lt();
                let Some(new) = next else { break };
                if kept.is_none_or(|kept| before(new, kept)) {
                    next = kept.replace(new);
                }
            }
        }
        let place = |machine: usize| self.site(machine).map(|site| site.point);
        let peers = nearest.iter().flatten().map(|(_, peer)| *peer as usize);
        let of_peers = peers.flat_map(|peer| [place(peer), self.spots[peer].said()]);
        let said = self.spots[machine].said();
        places.clear();
        for other in [moving, place(machine)].into_iter().chain(of_peers).flatten() {
            if !places.contains(&other) && said != Some(other) {
                places.push(other);
            }
        }
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

    /// Learns from a probe of which `both` was said. `lists` has the peers of both ends.
    fn learn_beside(
        &mut self,
        probe: &Probe,
        (additive, moving): Both,
        lists: &mut Lists,
        rng: &mut Stream,
    ) {
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
            let heights_ms = self.spots[a].height_ms + self.spots[b].height_ms;
            let km = here.point.distance_km(there.point);
            let beyond = rtt_ms - self.plain_ms(heights_ms, km);
            let (sum, count) = &mut self.cells[cells(here, there)];
            *sum += beyond.clamp(-100.0, 100.0);
            *count += 1.0;
        }
        let peers_max = self.memory.peers.max(1);
        let forgotten = [(a, to), (b, from)].map(|(end, peer)| {
            self.machines[end].measure(Measured::new(peer, rtt_ms, at), peers_max)
        });
        for (index, (end, peer)) in [(a, to), (b, from)].into_iter().enumerate() {
            let mut near = core::mem::take(&mut lists.near[index]);
            near.retain(|one| one.peer != peer && Some(one.peer) != forgotten[index]);
            near.extend(self.near(peer, rtt_ms));
            if let Some(last) = near.last_mut().filter(|one| one.peer == peer) {
                self.measure_up(end, core::slice::from_mut(last));
            }
            let is_said = self.spots[end].is_said;
            if !is_said || (self.parts.moves && self.machines[end].looks()) {
                self.locate(end, &mut near, lists);
            }
            self.raise(end, &near);
            lists.near[index] = near;
        }
    }

    /// Can this have been measured, between machines that there are?
    fn takes(&self, probe: &Probe) -> bool {
        probe.makes_sense() && (probe.from.max(probe.to) as usize) < self.machines.len()
    }
}

impl Predictor for Survey {
    fn predict_ms(&self, from: u32, to: u32, now: Instant) -> Option<f64> {
        let (a, b) = (from as usize, to as usize);
        if a.max(b) >= self.machines.len() {
            return None;
        }
        let additive = || {
            self.additive_ms((a, b), |from, to| {
                let here = self.site(from);
                let km = |one: &Near| here.map_or(0.0, |h| h.point.distance_km(one.there.point));
                self.near_ms((from, to), self.peers(from), km)
            })
        };
        let both = || (additive(), self.globe.predict_ms(from, to, now));
        self.known_ms(from, to, now).or_else(|| self.mean_ms(from, to, both()))
    }

    fn learn(&mut self, probe: &Probe, rng: &mut Stream) {
        if self.takes(probe) {
            self.meet(probe, rng);
        }
    }

    /// Learning begins with what was predicted, and both read what is known of the same peers, so
    /// that is looked up once.
    fn meet(&mut self, probe: &Probe, rng: &mut Stream) -> Option<f64> {
        let Probe { from, to, at, .. } = *probe;
        if !self.takes(probe) {
            return self.predict_ms(from, to, at);
        }
        let mut lists = core::mem::take(&mut self.lists);
        let ends = [from as usize, to as usize];
        ends.iter().zip(&mut lists.near).for_each(|(end, near)| self.look_up(*end, near));
        let additive = self.additive_ms((ends[0], ends[1]), |from, to| {
            let near = &lists.near[usize::from(from != ends[0])];
            self.near_ms((from, to), near.iter().copied(), |one| one.km)
        });
        let both = (additive, self.globe.predict_ms(from, to, at));
        let said = self.known_ms(from, to, at).or_else(|| self.mean_ms(from, to, both));
        self.learn_beside(probe, both, &mut lists, rng);
        self.lists = lists;
        said
    }

    fn expect(&self, probes: &[Probe]) {
        self.globe.expect(probes);
        let measured = |machine: u32| {
            self.machines.get(machine as usize).map_or(&[][..], |own| own.measured.as_slice())
        };
        // Where the lists are, then the lists, a line of the cache at a time, then the peers.
        read_ends(probes, |machine| measured(machine).len() as u64);
        let xor = |sum: u64, one: &Measured| sum ^ u64::from(one.peer);
        read_ends(probes, |machine| measured(machine).iter().step_by(4).fold(0, xor));
        let height = |one: &Measured| self.spots[one.peer as usize].height_ms.to_bits();
        let xor = |sum: u64, one: &Measured| sum ^ height(one);
        read_ends(probes, |machine| measured(machine).iter().fold(0, xor));
    }

    fn place(&self, machine: u32) -> Option<Point> {
        Some(self.site(machine as usize)?.point)
    }
}
