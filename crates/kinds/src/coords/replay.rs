//! The source's method: probes in order of time; each is predicted before its round trip is
//! revealed, then learnt ([htrae 4.1, 5.1]). Then all pairs are predicted, and picks are made.
//!
//! Nothing here knows what a predictor is made of.

use super::plan::PicksPlan;
use super::players::{Players, Visit};
use super::sketch::{self, Sketch};
use super::world::{Truth, World};
use super::worst;
use cavy_coords::Point;
use cavy_coords::predictors::{Predictor, Probe};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_lab::trail::Trail;

/// Pairs over which errors are taken, of worlds with more.
const PAIRS_MAX: u64 = 50_000;
/// Machines that pick, of worlds with more.
const PICKERS_MAX: u32 = 10_000;
/// Predictions before a probe whose errors are kept: of more probes every second, third and so on,
/// so that memory does not grow with their number.
pub const BEFORE_MAX: u64 = 4_000_000;
/// Probes of which is read ahead what they need, so that the processor waits for memory once.
const AHEAD: usize = 16;
/// Probes of players that are drawn at a time, about: more take less time and more memory.
pub const PART_PROBES: u64 = 10_000_000;

/// Errors of one sort, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors {
    /// Absolute, milliseconds.
    pub ms: Vec<f32>,
    /// Over the round trip.
    pub ratio: Vec<f32>,
    /// Round trips of which the predictor said nothing.
    pub silent: u64,
}

impl Errors {
    fn push(&mut self, estimate_ms: Option<f64>, rtt_ms: f64) {
        let Some(estimate_ms) = estimate_ms else {
            self.silent += 1;
            return;
        };
        let wrong = (estimate_ms - rtt_ms).abs();
        self.ms.push(wrong as f32);
        self.ratio.push((wrong / rtt_ms) as f32);
    }
}

/// What picks among one number of candidates came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picked {
    /// Choices that were made.
    pub choices: u64,
    /// The nearest candidate was picked.
    pub hits: u64,
    /// The pick is near enough.
    pub below: u64,
    /// How much farther than the nearest candidate the pick is, milliseconds.
    pub penalty_ms: Vec<f32>,
    /// The nearest candidate was among those probed.
    pub probed_hits: u64,
    /// How much farther than the nearest candidate the best of those probed is.
    pub probed_penalty_ms: Vec<f32>,
}

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Of each probe, predicted before it was revealed.
    pub before: Errors,
    /// Of all pairs, after the last probe.
    pub after: Errors,
    /// Of pairs of two machines that are covered, after the last probe.
    pub covered: Errors,
    /// Of pairs within a system that is not very large, after the last probe.
    pub same_system: Errors,
    /// Picks, by the numbers of candidates of the plan.
    pub picks: Vec<Picked>,
    /// Probes that were made.
    pub probes: u64,
    /// The time after the last probe.
    pub end: Instant,
    /// The fingerprint.
    pub trail: Trail,
    /// What the worst pairs have in common, where it is asked.
    pub worst: Option<worst::Found>,
    /// Where machines ended, where it is asked.
    pub sketch: Option<Sketch>,
}

/// What is asked of a replay, beside who predicts what.
pub struct Asked<'a> {
    /// Probes that each machine makes.
    pub probes_per_node: u32,
    /// Time between two probes of a machine.
    pub interval: Span,
    /// Machines that each one probes; all others when absent.
    pub peers: Option<u32>,
    /// Is this machine known to those with a map of the network?
    pub covered: &'a [bool],
    /// The effective system of each machine; 0 for none.
    pub systems: &'a [u32],
    /// What is picked.
    pub picks: &'a PicksPlan,
    /// Where predictors are told that machines are.
    pub said: &'a [Option<Point>],
    /// The share of worst pairs that is told apart, and which pairs have a shorter way.
    pub worst: Option<(f64, &'a [bool])>,
    /// Where machines end is drawn.
    pub map: bool,
}

/// The probes of one replication, in order of time. They do not depend on who predicts.
pub fn probes<'w>(
    world: &'w World,
    asked: &Asked<'_>,
    seed: u64,
) -> Box<dyn Iterator<Item = Probe> + 'w> {
    let mut rng = Stream::keyed(seed, 0, Purpose::Destinations);
    match &world.truth {
        Truth::Matrix(_) => Box::new(rounds(world, asked, &mut rng).into_iter()),
        Truth::Recorded(_, recorded) => {
            let wanted = u64::from(asked.probes_per_node) * u64::from(world.count());
            let begin = recorded.first().map_or(0.0, |first| first.time_s);
            let probe = move |one: &super::world::Recorded| Probe {
                from: one.from,
                to: one.to,
                rtt_ms: one.rtt_ms,
                at: Instant::from_ns(((one.time_s - begin) * 1e9) as u64),
            };
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            Box::new(recorded.iter().take(wanted).map(probe))
        }
        Truth::Players(players) => {
            Box::new(of_players(players, asked.probes_per_node, PART_PROBES, seed))
        }
    }
}

/// The probes of players, of which about `part_probes` are drawn at a time; this does not change
/// them.
pub fn of_players(
    players: &Players,
    probes_per_node: u32,
    part_probes: u64,
    seed: u64,
) -> impl Iterator<Item = Probe> + '_ {
    let mut noise = Stream::keyed(seed, 0, Purpose::Delays);
    let mut probe = move |visit: &Visit| {
        let rtt_ms = players.rtt_ms(visit.from, visit.to)?;
        let rtt_ms = players.noisy_ms(rtt_ms, &mut noise);
        Some(Probe { from: visit.from, to: visit.to, rtt_ms, at: visit.at })
    };
    let all = u64::from(players.count()) * u64::from(probes_per_node);
    let parts = all.div_ceil(part_probes);
    let rng = Stream::keyed(seed, 0, Purpose::Destinations);
    let mut visits = players.visits(probes_per_node, parts, rng);
    let mut some = Vec::with_capacity(AHEAD);
    core::iter::from_fn(move || {
        take_some(&mut visits, &mut some);
        players.fetch(&some);
        (!some.is_empty()).then(|| some.iter().filter_map(&mut probe).collect::<Vec<_>>())
    })
    .flatten()
}

/// Puts the next few into `some`; leaves it empty at the end.
fn take_some<T>(from: &mut impl Iterator<Item = T>, some: &mut Vec<T>) {
    some.clear();
    some.extend(from.take(AHEAD));
}

/// In each round every machine probes one other one.
fn rounds(world: &World, asked: &Asked<'_>, rng: &mut Stream) -> Vec<Probe> {
    let count = world.count();
    let fixed: Option<Vec<Vec<u32>>> = asked.peers.map(|peers| {
        let mut choose = |from: u32| {
            let mut others: Vec<u32> =
                (0..count).filter(|to| world.rtt_ms(from, *to).is_some()).collect();
            let peers = (peers as usize).min(others.len());
            shuffle_front(&mut others, peers, rng);
            others.truncate(peers);
            others
        };
        (0..count).map(&mut choose).collect()
    });
    let mut probes = Vec::with_capacity(asked.probes_per_node as usize * count as usize);
    // Within a round machines probe one after the other.
    let apart_ns = asked.interval.as_ns() / u64::from(count.max(1));
    for round in 0..u64::from(asked.probes_per_node) {
        for from in 0..count {
            let at = round * asked.interval.as_ns() + u64::from(from) * apart_ns;
            let at = Instant::from_ns(at);
            // A machine that measured few others is drawn for many times; one that measured none
            // is passed over.
            for _ in 0..1_000 {
                let to = match &fixed {
                    Some(peers) if peers[from as usize].is_empty() => break,
                    Some(peers) => {
                        let peers = &peers[from as usize];
                        peers[rng.below(peers.len() as u64) as usize]
                    }
                    None => rng.below(u64::from(count)) as u32,
                };
                if let Some(rtt_ms) = world.rtt_ms(from, to) {
                    probes.push(Probe { from, to, rtt_ms, at });
                    break;
                }
            }
        }
    }
    probes
}

/// Draws the first `front` of `values` evenly among all of them.
fn shuffle_front(values: &mut [u32], front: usize, rng: &mut Stream) {
    for index in 0..front.min(values.len()) {
        let other = index + rng.below((values.len() - index) as u64) as usize;
        values.swap(index, other);
    }
}

/// Lets `predictor` go through `probes`, and asks it what it has learnt.
pub fn replay(
    world: &World,
    predictor: &mut dyn Predictor,
    probes: impl IntoIterator<Item = Probe>,
    asked: &Asked<'_>,
    seed: u64,
) -> Replayed {
    let mut replayed = Replayed {
        before: Errors::default(),
        after: Errors::default(),
        covered: Errors::default(),
        same_system: Errors::default(),
        picks: Vec::new(),
        probes: 0,
        end: Instant::ZERO,
        trail: Trail::new(),
        worst: None,
        sketch: None,
    };
    let before = asked.map.then(|| sketch::errors(world, predictor, Instant::ZERO));
    let mut rng = Stream::keyed(seed, 0, Purpose::Machine);
    let about = u64::from(world.count()) * u64::from(asked.probes_per_node);
    let every = about.div_ceil(BEFORE_MAX).max(1);
    let mut last = Instant::ZERO;
    let (mut probes, mut some) = (probes.into_iter(), Vec::with_capacity(AHEAD));
    loop {
        take_some(&mut probes, &mut some);
        if some.is_empty() {
            break;
        }
        predictor.expect(&some);
        for probe in &some {
            let estimate = predictor.meet(probe, &mut rng);
            if replayed.probes.is_multiple_of(every) {
                replayed.before.push(estimate, probe.rtt_ms);
            }
            replayed.trail.fold(probe.at, estimate.map_or(0, f64::to_bits));
            replayed.probes += 1;
            last = probe.at;
        }
    }
    replayed.end = last + Span::from_ms(1);
    pairs(world, predictor, asked, seed, &mut replayed);
    picks(world, predictor, asked, seed, &mut replayed);
    if let Some((ratio, detours)) = asked.worst {
        let found = worst::find(world, predictor, asked.said, detours, ratio, replayed.end);
        replayed.worst = Some(found);
    }
    if let Some(before) = before {
        replayed.sketch = sketch::sketch(world, predictor, asked.said, before, replayed.end);
    }
    replayed
}

/// Errors over all pairs, or over as many as are enough.
fn pairs(
    world: &World,
    predictor: &dyn Predictor,
    asked: &Asked<'_>,
    seed: u64,
    replayed: &mut Replayed,
) {
    let count = world.count();
    let now = replayed.end;
    let mut one = |from: u32, to: u32, after: bool| {
        let Some(rtt_ms) = world.rtt_ms(from, to) else { return };
        let estimate = predictor.predict_ms(from, to, now);
        if after {
            replayed.trail.fold(now, estimate.map_or(0, f64::to_bits));
            replayed.after.push(estimate, rtt_ms);
            if asked.covered[from as usize] && asked.covered[to as usize] {
                replayed.covered.push(estimate, rtt_ms);
            }
        }
        let systems = (asked.systems[from as usize], asked.systems[to as usize]);
        if systems.0 != 0 && systems.0 == systems.1 {
            replayed.same_system.push(estimate, rtt_ms);
        }
    };
    if world.pairs() <= PAIRS_MAX {
        for from in 0..count {
            for to in from + 1..count {
                one(from, to, true);
            }
        }
        return;
    }
    let mut rng = Stream::keyed(seed, 1, Purpose::Destinations);
    let mut drawn = 0;
    while drawn < PAIRS_MAX {
        let (from, to) = (rng.below(u64::from(count)) as u32, rng.below(u64::from(count)) as u32);
        if from != to {
            one(from, to, true);
            drawn += 1;
        }
    }
    // Pairs within a system are rare among all: they are looked for.
    let mut members: Vec<u32> = (0..count).filter(|m| asked.systems[*m as usize] != 0).collect();
    members.sort_by_key(|machine| asked.systems[*machine as usize]);
    for pair in members.windows(2) {
        if asked.systems[pair[0] as usize] == asked.systems[pair[1] as usize] {
            one(pair[0], pair[1], false);
        }
    }
}

/// Who would be picked among candidates, and what that costs.
fn picks(
    world: &World,
    predictor: &dyn Predictor,
    asked: &Asked<'_>,
    seed: u64,
    replayed: &mut Replayed,
) {
    let plan = asked.picks;
    let count = world.count();
    let most = plan.candidates.iter().copied().max().unwrap_or(0) as usize;
    replayed.picks = plan.candidates.iter().map(|_| Picked::default()).collect();
    let mut rng = Stream::keyed(seed, 2, Purpose::Destinations);
    let mut others: Vec<u32> = (0..count).collect();
    // By candidate in the order in which they are drawn: what is said of it, and its round trip.
    let mut drawn: Vec<(f64, f64)> = Vec::with_capacity(most);
    let mut ranked: Vec<(f64, f64)> = Vec::with_capacity(most);
    for from in 0..count.min(PICKERS_MAX) {
        for _ in 0..plan.each {
            drawn.clear();
            for index in 0..others.len() {
                let other = index + rng.below((others.len() - index) as u64) as usize;
                others.swap(index, other);
                let to = others[index];
                let Some(rtt_ms) = world.rtt_ms(from, to) else { continue };
                let estimate = predictor.predict_ms(from, to, replayed.end);
                // Of whom nothing is said comes last.
                drawn.push((estimate.unwrap_or(f64::INFINITY), rtt_ms));
                if drawn.len() == most {
                    break;
                }
            }
            for (candidates, picked) in plan.candidates.iter().zip(&mut replayed.picks) {
                if drawn.len() < *candidates as usize {
                    continue;
                }
                ranked.clear();
                ranked.extend_from_slice(&drawn[..*candidates as usize]);
                let nearest = ranked.iter().map(|(_, rtt)| *rtt).fold(f64::INFINITY, f64::min);
                // Sorting is stable, and candidates come in a random order.
                ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
                let picked_ms = ranked[0].1;
                let probed = &ranked[..(plan.probed as usize).clamp(1, ranked.len())];
                let probed_ms = probed.iter().map(|(_, rtt)| *rtt).fold(f64::INFINITY, f64::min);
                picked.choices += 1;
                picked.hits += u64::from(picked_ms <= nearest);
                picked.below += u64::from(picked_ms < plan.below_ms);
                picked.penalty_ms.push((picked_ms - nearest) as f32);
                picked.probed_hits += u64::from(probed_ms <= nearest);
                picked.probed_penalty_ms.push((probed_ms - nearest) as f32);
                replayed.trail.fold(replayed.end, picked_ms.to_bits());
            }
        }
    }
}
