//! Coordinates to keep and to use: fitted once to what was measured, then asked who is near, whom
//! to pick and where to put sites.

use super::load::{HEARD_EVERY, Listener};
use super::world::{Truth, World};
use cavy_coords::history::Memory;
use cavy_coords::map::{Line, SERVERS, Sample};
use cavy_coords::predictors::globe::Globe;
use cavy_coords::predictors::{Learner, Predictor, Probe};
use cavy_coords::start::Known;
use cavy_coords::{Config, Coordinate, Point, predict_ms};
use cavy_core::{Digest, Instant, Purpose, Span, Stream};
use cavy_lab::statistics::quantile;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Combinations of sites that are tried one by one, at most.
const EXACT_MAX: u64 = 3_000_000;
/// Rounds in which every node probes one other, of a matrix.
const ROUNDS: u32 = 32;
/// What was measured is kept of so many peers of a node.
const MEASURED_MAX: usize = 64;
/// Unseen pairs that are kept, to say how likely a prediction is to be right.
const UNSEEN_MAX: usize = 1_000;
/// A chance is a share of so many unseen pairs whose predictions are the nearest.
const AROUND: usize = 100;
/// With fewer unseen pairs nothing is said.
pub const UNSEEN_MIN: usize = 30;
/// Version of the file.
const VERSION: u32 = 1;

/// A file of coordinates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// Version of the file.
    pub version: u32,
    /// Milliseconds for a kilometer.
    pub ms_per_km: f64,
    /// Milliseconds for no distance.
    pub base_ms: f64,
    /// Pairs that a fit without them predicted: the prediction and what was measured,
    /// milliseconds, by rising prediction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<(f64, f64)>,
    /// All nodes that have a coordinate.
    pub nodes: Vec<Node>,
}

/// A node with a coordinate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Where it ended, degrees.
    pub lat: f64,
    /// Where it ended, degrees.
    pub lon: f64,
    /// Height, milliseconds.
    pub height_ms: f64,
    /// Relative error.
    pub error: f64,
    /// What was measured last to others, milliseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured_ms: BTreeMap<String, f64>,
}

/// How wrong a fit is, milliseconds; `None` without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quality {
    /// Predictions.
    pub samples: u64,
    /// Median of the absolute error.
    pub p50_ms: Option<f64>,
    /// 90th percentile.
    pub p90_ms: Option<f64>,
}

/// A space, and what it is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The space, fitted to all pairs.
    pub space: Space,
    /// Of predictions made before each measurement was revealed.
    pub before: Quality,
    /// Of a fifth of all pairs that a second fit did not see.
    pub hidden: Quality,
    /// Nodes without a coordinate: they have no position and too few measurements.
    pub nowhere: Vec<String>,
}

/// A round trip as a space knows it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trip {
    /// Milliseconds.
    pub rtt_ms: f64,
    /// It was measured, and is no prediction.
    pub measured: bool,
}

/// A server for somebody or for a party.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// Its name.
    pub server: String,
    /// The round trip of who is farthest from it.
    pub worst_ms: f64,
    /// The mean round trip.
    pub mean_ms: f64,
    /// How likely everybody's round trip is below the limit that was asked for, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
}

/// Sites for everybody.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// Their names.
    pub sites: Vec<String>,
    /// What the goal comes to.
    pub value_ms: f64,
    /// Nothing better exists.
    pub exact: bool,
    /// No choice can be below: what everybody has with a site at every place.
    pub bound_ms: f64,
}

/// What sites are to make small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The mean round trip to the nearest site.
    Mean,
    /// The round trip of who is farthest from its nearest site.
    Worst,
    /// The mean time until the nearest majority of sites has answered: what a commit waits for.
    Majority,
}

fn quality(mut errors: Vec<f64>) -> Quality {
    errors.sort_unstable_by(f64::total_cmp);
    let samples = errors.len() as u64;
    let at = |p| quantile::of_sorted(&errors, p);
    Quality { samples, p50_ms: at(0.5), p90_ms: at(0.9) }
}

/// All measurements in order of time; of a matrix, as if every node had probed others in rounds.
fn measurements(world: &World, seed: u64) -> Vec<Probe> {
    if let Truth::Recorded(_, recorded) = &world.truth {
        let begin = recorded.first().map_or(0.0, |one| one.time_s);
        let probe = |one: &super::world::Recorded| Probe {
            from: one.from,
            to: one.to,
            rtt_ms: one.rtt_ms,
            at: Instant::from_ns(((one.time_s - begin) * 1e9) as u64),
        };
        return recorded.iter().map(probe).collect();
    }
    let mut rng = Stream::keyed(seed, 0, Purpose::Destinations);
    let mut probes = Vec::new();
    for round in 0..ROUNDS {
        for from in 0..world.count() {
            let to = rng.below(world.count().into()) as u32;
            let at = Instant::ZERO + Span::from_ms(15_000).saturating_mul(round.into());
            if let Some(rtt_ms) = world.rtt_ms(from, to) {
                probes.push(Probe { from, to, rtt_ms, at });
            }
        }
    }
    probes
}

fn line(world: &World, probes: &[Probe]) -> Line {
    let place = |node: u32| world.machines[node as usize].said;
    let sample = |probe: &Probe| {
        let (here, there) = (place(probe.from)?, place(probe.to)?);
        Some(Sample { distance_km: here.distance_km(there), rtt_ms: probe.rtt_ms })
    };
    let samples: Vec<Sample> = probes.iter().filter_map(sample).collect();
    let fitted = if samples.len() < 10 { None } else { Line::least_absolute(&samples) };
    // What a few pairs say of all may make no sense: longer is never faster.
    fitted.filter(|line| line.ms_per_km > 0.0 && line.base_ms >= 0.0).unwrap_or(SERVERS)
}

fn learn(
    world: &World,
    probes: &[Probe],
    config: Config,
    mut each: impl FnMut(&Learner<Globe>, &Probe),
) -> Learner<Globe> {
    let known =
        |machine: &super::world::Machine| (Known { address: machine.said, country: None }, 0);
    let globe = Globe::new(config, world.machines.iter().map(known));
    let mut learner =
        Learner::new(globe).symmetric(true).with_history(Memory::default(), world.count());
    let mut rng = Stream::keyed(0, 0, Purpose::Machine);
    for probe in probes {
        each(&learner, probe);
        learner.learn(probe, &mut rng);
    }
    learner
}

/// Fits Htrae's coordinates, with updates of both ends, to what was measured.
pub fn fit(world: &World, seed: u64, hear: Listener<'_>) -> Fitted {
    let probes = measurements(world, seed);
    let config = Config::with_line(line(world, &probes));
    let mut before = Vec::new();
    let mut learnt = 0;
    // All of them, and once more those that are not hidden: about four fifths.
    let all = probes.len() + probes.len() * 4 / 5;
    let mut hear_one = || {
        learnt += 1;
        if learnt % HEARD_EVERY == 0 {
            hear("fitting", learnt as u64, all.max(learnt) as u64);
        }
    };
    let whole = learn(world, &probes, config, |learner, probe| {
        hear_one();
        if let Some(said) = learner.predict_ms(probe.from, probe.to, probe.at) {
            before.push((said - probe.rtt_ms).abs());
        }
    });
    // A fifth of all pairs, the same whichever end measured.
    let is_hidden = |probe: &Probe| {
        let (a, b) = (probe.from.min(probe.to), probe.from.max(probe.to));
        Stream::keyed(seed ^ u64::from(a) << 32, b, Purpose::Test).below(5) == 0
    };
    let (out, seen): (Vec<Probe>, Vec<Probe>) = probes.iter().partition(|probe| is_hidden(probe));
    let part = learn(world, &seen, Config::with_line(line(world, &seen)), |_, _| hear_one());
    let unseen = out.iter().filter_map(|probe| {
        Some((part.predict_ms(probe.from, probe.to, Instant::NEVER)?, probe.rtt_ms))
    });
    let mut unseen: Vec<(f64, f64)> = unseen.collect();
    let hidden = quality(unseen.iter().map(|(said, rtt)| (said - rtt).abs()).collect());
    unseen.retain(|(said, _)| *said > 0.0);
    unseen.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let kept = unseen.len().min(UNSEEN_MAX);
    // Evenly over all predictions.
    let unseen: Vec<(f64, f64)> = (0..kept).map(|at| unseen[at * unseen.len() / kept]).collect();

    let mut measured: Vec<BTreeMap<String, f64>> = vec![BTreeMap::new(); world.machines.len()];
    for probe in &probes {
        for (one, other) in [(probe.from, probe.to), (probe.to, probe.from)] {
            let name = &world.machines[other as usize].name;
            let own = &mut measured[one as usize];
            if own.len() < MEASURED_MAX || own.contains_key(name) {
                own.insert(name.clone(), probe.rtt_ms);
            }
        }
    }
    let mut space = Space {
        version: VERSION,
        ms_per_km: config.line.ms_per_km,
        base_ms: config.line.base_ms,
        unseen,
        nodes: Vec::new(),
    };
    let mut nowhere = Vec::new();
    for (machine, measured_ms) in world.machines.iter().zip(measured) {
        let number = (space.nodes.len() + nowhere.len()) as u32;
        let Some(own) = whole.space().coordinate(number) else {
            nowhere.push(machine.name.clone());
            continue;
        };
        let (lat, lon) = own.position.degrees();
        let Coordinate { height_ms, error, .. } = *own;
        let name = machine.name.clone();
        space.nodes.push(Node { name, lat, lon, height_ms, error, measured_ms });
    }
    Fitted { space, before: quality(before), hidden, nowhere }
}

impl Space {
    /// A fingerprint of where everybody is, for pages that show it.
    pub fn digest(&self) -> String {
        let mut digest = Digest::new();
        for node in &self.nodes {
            node.name.bytes().for_each(|byte| digest.fold(byte.into()));
            for value in [node.lat, node.lon, node.height_ms] {
                digest.fold(value.to_bits());
            }
        }
        format!("{:016x}", digest.value())
    }

    /// Reads a file; what is wrong with it, if it is none.
    pub fn read(text: &str) -> Result<Space, String> {
        let space: Space = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if space.version != VERSION {
            return Err(format!("version {} is not known, only {VERSION}", space.version));
        }
        space.config().check().map_err(|error| error.to_string())?;
        if space.nodes.is_empty() {
            return Err("`nodes` is empty: there is no coordinate".to_string());
        }
        let is_rtt = |ms: &f64| ms.is_finite() && *ms > 0.0;
        let mut names = BTreeSet::new();
        for node in &space.nodes {
            let name = &node.name;
            if node.coordinate().is_none() {
                let Node { lat, lon, height_ms, error, .. } = node;
                return Err(format!(
                    "`{name}` has no sound coordinate: lat {lat}, lon {lon}, height_ms \
                     {height_ms}, error {error}"
                ));
            }
            if !names.insert(name) {
                return Err(format!("two nodes are called `{name}`"));
            }
            if let Some((to, ms)) = node.measured_ms.iter().find(|(_, ms)| !is_rtt(ms)) {
                return Err(format!("`measured_ms` of `{name}` to `{to}` is {ms}, no round trip"));
            }
        }
        if let Some((said, ms)) = space.unseen.iter().find(|(a, b)| !is_rtt(a) || !is_rtt(b)) {
            return Err(format!("`unseen` has {said} and {ms}, which are no round trips"));
        }
        if !space.unseen.is_sorted_by(|a, b| a.0 <= b.0) {
            return Err("`unseen` is not in the order of its predictions".to_string());
        }
        Ok(space)
    }

    fn config(&self) -> Config {
        Config::with_line(Line { ms_per_km: self.ms_per_km, base_ms: self.base_ms })
    }

    /// The node called `name`; what is wrong, if there is none.
    pub fn node(&self, name: &str) -> Result<&Node, String> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| {
            let few: Vec<&str> = self.nodes.iter().take(8).map(|n| n.name.as_str()).collect();
            format!("no node is called `{name}`; there are {}", few.join(", "))
        })
    }

    /// How long a round trip takes; nothing from a node to itself.
    pub fn rtt(&self, from: &Node, to: &Node) -> Trip {
        if from.name == to.name {
            return Trip { rtt_ms: 0.0, measured: false };
        }
        let known = from.measured_ms.get(&to.name).or_else(|| to.measured_ms.get(&from.name));
        let rtt_ms = match (known, from.coordinate().zip(to.coordinate())) {
            (Some(known), _) => *known,
            (None, Some((a, b))) => predict_ms(&a, &b, &self.config()),
            (None, None) => f64::INFINITY,
        };
        Trip { rtt_ms, measured: known.is_some() }
    }

    /// How likely a round trip is below `limit_ms`, 0 to 1: the share of unseen pairs of about the
    /// same prediction that were, had each been wrong by the factor by which it was. What was
    /// measured is as it was. `None` with too few unseen pairs.
    pub fn chance(&self, trip: Trip, limit_ms: f64) -> Option<f64> {
        if trip.measured || trip.rtt_ms == 0.0 {
            return Some(f64::from(u8::from(trip.rtt_ms < limit_ms)));
        }
        if self.unseen.len() < UNSEEN_MIN {
            return None;
        }
        let around = AROUND.min(self.unseen.len());
        let at = self.unseen.partition_point(|(said, _)| *said < trip.rtt_ms);
        let from = at.saturating_sub(around / 2).min(self.unseen.len() - around);
        let of = &self.unseen[from..from + around];
        let below = of.iter().filter(|(said, ms)| ms / said * trip.rtt_ms < limit_ms).count();
        Some(below as f64 / around as f64)
    }

    /// Servers for a party, the one first whose farthest player is nearest; with a limit the one
    /// first for which everybody is most likely below it, as if players' errors had nothing to do
    /// with each other.
    pub fn rank(&self, party: &[&Node], servers: &[&Node], below_ms: Option<f64>) -> Vec<Ranked> {
        let ranked = |server: &&Node| {
            let trips: Vec<Trip> = party.iter().map(|one| self.rtt(one, server)).collect();
            let each = || trips.iter().map(|trip| trip.rtt_ms);
            Ranked {
                server: server.name.clone(),
                worst_ms: each().fold(0.0, f64::max),
                mean_ms: each().sum::<f64>() / trips.len().max(1) as f64,
                chance: below_ms.and_then(|limit_ms| {
                    trips.iter().map(|trip| self.chance(*trip, limit_ms)).product()
                }),
            }
        };
        let mut all: Vec<Ranked> = servers.iter().map(ranked).collect();
        all.sort_by(|a, b| {
            let likely = b.chance.unwrap_or(0.0).total_cmp(&a.chance.unwrap_or(0.0));
            let near = a.worst_ms.total_cmp(&b.worst_ms);
            likely.then(near).then(a.server.cmp(&b.server))
        });
        all
    }

    /// The `count` best of `sites` for `users`: exact where all combinations can be tried, else
    /// chosen one by one and then exchanged as long as that helps.
    pub fn place(&self, users: &[&Node], sites: &[&Node], count: usize, goal: Goal) -> Placed {
        let exact = combinations(sites.len(), count) <= EXACT_MAX;
        self.placed(users, sites, count, goal, exact)
    }

    /// The same without trying all combinations.
    pub fn place_near(&self, users: &[&Node], sites: &[&Node], count: usize, goal: Goal) -> Placed {
        self.placed(users, sites, count, goal, false)
    }

    fn placed(
        &self,
        users: &[&Node],
        sites: &[&Node],
        count: usize,
        goal: Goal,
        exact: bool,
    ) -> Placed {
        let table: Vec<Vec<f64>> = users
            .iter()
            .map(|user| {
                let to = |site: &&Node| self.rtt(user, site).rtt_ms;
                sites.iter().map(to).collect()
            })
            .collect();
        let all: Vec<usize> = (0..sites.len()).collect();
        let bound_ms = match goal {
            Goal::Majority => value(&table, &all, count, Goal::Majority),
            goal => value(&table, &all, 1, goal),
        };
        let best = if exact {
            every(&table, sites.len(), count, goal)
        } else {
            exchanged(&table, sites.len(), count, goal)
        };
        Placed {
            sites: best.iter().map(|site| sites[*site].name.clone()).collect(),
            value_ms: value(&table, &best, count, goal),
            exact,
            bound_ms,
        }
    }
}

impl Node {
    fn coordinate(&self) -> Option<Coordinate> {
        let position = Point::from_degrees(self.lat, self.lon)?;
        let (height_ms, error) = (self.height_ms, self.error);
        let own = Coordinate { position, height_ms, error, system: 0, updates: 0 };
        own.is_sound(&Config::default()).then_some(own)
    }
}

fn combinations(of: usize, take: usize) -> u64 {
    let take = take.min(of - take.min(of));
    (0..take).fold(1u64, |sum, k| {
        sum.saturating_mul((of - k) as u64).checked_div(k as u64 + 1).unwrap_or(u64::MAX)
    })
}

/// What the goal comes to with `sites`; a majority is of `count`.
fn value(table: &[Vec<f64>], sites: &[usize], count: usize, goal: Goal) -> f64 {
    let mut row = Vec::with_capacity(sites.len());
    let mut of = |user: &Vec<f64>| match goal {
        Goal::Majority => {
            row.clear();
            row.extend(sites.iter().map(|site| user[*site]));
            let needed = (count / 2).min(row.len() - 1);
            *row.select_nth_unstable_by(needed, f64::total_cmp).1
        }
        _ => sites.iter().map(|site| user[*site]).fold(f64::INFINITY, f64::min),
    };
    let each: Vec<f64> = table.iter().map(&mut of).collect();
    match goal {
        Goal::Worst => each.iter().copied().fold(0.0, f64::max),
        _ => each.iter().sum::<f64>() / each.len().max(1) as f64,
    }
}

fn every(table: &[Vec<f64>], sites: usize, count: usize, goal: Goal) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..count).collect();
    let mut best = (value(table, &chosen, count, goal), chosen.clone());
    loop {
        // The next combination in order.
        let Some(at) = (0..count).rev().find(|at| chosen[*at] < sites - count + at) else {
            return best.1;
        };
        chosen[at] += 1;
        for later in at + 1..count {
            chosen[later] = chosen[later - 1] + 1;
        }
        let found = value(table, &chosen, count, goal);
        if found < best.0 {
            best = (found, chosen.clone());
        }
    }
}

fn exchanged(table: &[Vec<f64>], sites: usize, count: usize, goal: Goal) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    let of = |chosen: &[usize]| value(table, chosen, chosen.len(), goal);
    for _ in 0..count {
        let rest = (0..sites).filter(|site| !chosen.contains(site));
        let with = |site: usize| {
            let with: Vec<usize> = chosen.iter().copied().chain([site]).collect();
            (of(&with), site)
        };
        if let Some((_, site)) = rest.map(with).min_by(|a, b| a.0.total_cmp(&b.0)) {
            chosen.push(site);
        }
    }
    let mut now = of(&chosen);
    loop {
        let mut better = None;
        for place in 0..chosen.len() {
            for site in (0..sites).filter(|site| !chosen.contains(site)) {
                let mut other = chosen.clone();
                other[place] = site;
                let found = of(&other);
                if found < now - 1e-9 {
                    now = found;
                    better = Some(other);
                }
            }
        }
        match better {
            Some(other) => chosen = other,
            None => break,
        }
    }
    chosen.sort_unstable();
    chosen
}
