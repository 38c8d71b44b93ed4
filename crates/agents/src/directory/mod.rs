//! All nodes of a service: their coordinates, what was measured between them, and what both say of
//! pairs that nobody measured.
//!
//! Htrae's coordinates, and on top what pairs of regions take longer than those say, learnt from
//! all probes ([htrae 8.1]). A node whose agent keeps its coordinate is where the agent says; any
//! other one is moved here by the probes that are reported. What was measured in the last hour is
//! said as it was. The 90th percentile is the prediction times the ratio that nine tenths of
//! measurements between the same two regions kept below, or of all.

mod asker;
mod card;
mod ids;
pub mod index;
pub mod log;
pub mod ratios;

pub use asker::Asker;

use crate::wire::Reach;
use asker::Row;
use card::Card;
use cavy_coords::map::FLOOR_MS_PER_KM;
use cavy_coords::sphere::EARTH_RADIUS_KM;
use cavy_coords::start::{Known, Placed};
use cavy_coords::{Config, Coordinate, Point, model};
use cavy_core::{Purpose, Stream};
use cavy_places::Rung;
use ids::Ids;
use index::{Index, REGIONS, Seat, cell, region};
use ratios::{Ratios, UNTRAINED};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;

/// Measurements that are remembered of a node.
const MEASURED_MAX: usize = 64;
/// How long a measurement counts.
const LIFETIME_S: u64 = 3_600;
/// Measurements that the residual of two regions is drawn to zero by ([htrae 8.1]).
const REGION_PRIOR: f64 = 3.0;
/// What one measurement counts at most in it, milliseconds.
const REGION_CLIP_MS: f64 = 100.0;
/// No round trip is predicted below this.
const LEAST_MS: f64 = 0.05;
/// The p90 of what was measured lately over that, before repeated measurements say better.
const MEASURED_P90: f64 = 1.2;

/// Something that changes the directory. It is written down before it is answered, and read again
/// at the next start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Change {
    /// A node is there.
    Node(NodeChange),
    /// An agent says where its node is.
    Coord(CoordChange),
    /// Round trips were measured.
    Probes(ProbesChange),
    /// A node is gone.
    Gone {
        /// Its id.
        id: String,
    },
}

/// A node, as it is when it comes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NodeChange {
    /// Its id.
    pub id: String,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// Where its address is, degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<(f64, f64)>,
    /// The middle of its country.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub country: Option<(f64, f64)>,
    /// Its effective system.
    #[serde(default)]
    pub system: u32,
    /// What it is: `server`, `player`, ...
    pub class: String,
    /// Anything else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub props: BTreeMap<String, String>,
    /// How it is reached.
    #[serde(default)]
    pub reach: Reach,
}

/// A coordinate of an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CoordChange {
    /// Of this node.
    pub id: String,
    /// Degrees.
    pub lat: f64,
    /// Degrees.
    pub lon: f64,
    /// Milliseconds.
    pub height_ms: f64,
    /// Relative.
    pub error: f64,
    /// How often it was moved.
    #[serde(default)]
    pub updates: u32,
}

/// Measured round trips.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProbesChange {
    /// Who says so; with `first` it makes each of them count once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The number of the first of them, as the source counts.
    #[serde(default)]
    pub first: u64,
    /// From, to, milliseconds.
    pub probes: Vec<(String, String, f64)>,
    /// When, seconds since 1970.
    pub at_s: u64,
}

/// A round trip that is remembered.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Measured {
    peer: u32,
    rtt_ms: f64,
    at_s: u64,
}

/// A node.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// What was said when it came.
    pub said: NodeChange,
    placed: Placed,
    /// Its agent says where it is.
    pub by_agent: bool,
    measured: Vec<Measured>,
    /// That of its coordinate, once it has one.
    cell: u16,
}

impl Entry {
    /// Its coordinate, once it has one.
    pub fn coordinate(&self) -> Option<&Coordinate> {
        self.placed.coordinate()
    }

    /// Which rung of the ladder it began on.
    pub fn rung(&self) -> Rung {
        match (self.said.address, self.said.country) {
            (Some(_), _) => Rung::Address,
            (None, Some(_)) => Rung::Country,
            (None, None) => Rung::Nowhere,
        }
    }
}

/// Where a prediction is from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// It was measured in the last hour.
    History,
    /// Coordinates that have learnt.
    Coord,
    /// Coordinates that have learnt nothing: places of addresses.
    Geo,
}

/// A round trip that is said of two nodes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Said {
    /// Milliseconds.
    pub rtt_ms: f64,
    /// Nine tenths are expected below this.
    pub p90_ms: f64,
    /// Where it is from.
    pub source: Source,
}

/// What became of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Probes that were taken.
    pub taken: u64,
    /// Probes that were reported before.
    pub repeated: u64,
    /// Probes of nodes that are not known.
    pub unknown: u64,
    /// Probes that are no round trips.
    pub nonsense: u64,
    /// The node was not there before.
    pub new: bool,
    /// The node was there.
    pub found: bool,
}

impl Outcome {
    /// With what became of more probes of the same report.
    #[must_use]
    pub fn and(self, more: Outcome) -> Outcome {
        Outcome {
            taken: self.taken + more.taken,
            repeated: self.repeated + more.repeated,
            unknown: self.unknown + more.unknown,
            nonsense: self.nonsense + more.nonsense,
            ..self
        }
    }
}

/// Everybody.
#[derive(Debug)]
pub struct Directory {
    model: Config,
    ids: Ids,
    nodes: Vec<Option<Entry>>,
    /// The same nodes, as far as most questions need them.
    cards: Vec<Card>,
    /// Numbers of nodes that are gone, and when they went.
    free: VecDeque<(u32, u64)>,
    /// When the latest round trip was reported.
    latest_s: u64,
    index: Index,
    regions: BTreeMap<(u16, u16), (f64, f64)>,
    by_region: BTreeMap<(u16, u16), Ratios>,
    /// What both say of the pairs of a region, by the one and the other; empty where nothing is
    /// known.
    rows: Vec<Vec<Row>>,
    by_source: BTreeMap<Source, Ratios>,
    sources: BTreeMap<String, u64>,
    rng: Stream,
}

fn point(place: Option<(f64, f64)>) -> Option<Point> {
    place.and_then(|(latitude, longitude)| Point::from_degrees(latitude, longitude))
}

fn pair(a: u16, b: u16) -> (u16, u16) {
    (a.min(b), a.max(b))
}

/// What nine tenths are expected below: by what was measured between the same regions, or else of
/// all that is from the same source.
fn p90_ms(
    rtt_ms: f64,
    source: Source,
    by_region: Option<f64>,
    by_source: impl Fn() -> Option<f64>,
) -> f64 {
    let ratio = match source {
        Source::History => by_source().unwrap_or(MEASURED_P90),
        Source::Coord => by_region.or_else(by_source).unwrap_or(UNTRAINED),
        Source::Geo => by_source().unwrap_or(UNTRAINED),
    };
    rtt_ms * ratio.max(1.0)
}

impl Directory {
    /// Nobody yet.
    pub fn new(model: Config) -> Directory {
        Directory {
            model,
            ids: Ids::default(),
            nodes: Vec::new(),
            cards: Vec::new(),
            free: VecDeque::new(),
            latest_s: 0,
            index: Index::default(),
            regions: BTreeMap::new(),
            by_region: BTreeMap::new(),
            rows: vec![Vec::new(); REGIONS],
            by_source: BTreeMap::new(),
            sources: BTreeMap::new(),
            rng: Stream::keyed(0, 0, Purpose::Machine),
        }
    }

    /// The model's parameters.
    pub fn model(&self) -> &Config {
        &self.model
    }

    /// Nodes.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Is nobody there?
    pub fn is_empty(&self) -> bool {
        self.ids.len() == 0
    }

    /// The number of a node.
    pub fn number(&self, id: &str) -> Option<u32> {
        self.ids.get(id, &self.cards, &self.nodes)
    }

    /// The numbers of many nodes, about each of which something is asked next.
    pub fn numbers(&self, ids: &[&str]) -> Vec<Option<u32>> {
        self.ids.get_each(ids, &self.cards, &self.nodes)
    }

    /// A node.
    pub fn entry(&self, node: u32) -> Option<&Entry> {
        self.nodes.get(node as usize)?.as_ref()
    }

    fn card(&self, node: u32) -> Option<&Card> {
        self.cards.get(node as usize).filter(|card| card.is_there())
    }

    /// All nodes in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (0..).zip(&self.nodes).filter_map(|(node, entry)| Some((node, entry.as_ref()?)))
    }

    /// All nodes in the order of their ids.
    pub fn by_id(&self) -> Vec<(u32, &Entry)> {
        let mut all: Vec<(u32, &Entry)> = self.all().collect();
        all.sort_unstable_by(|a, b| a.1.said.id.cmp(&b.1.said.id));
        all
    }

    /// Classes that have nodes with coordinates.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.index.classes()
    }

    /// Carries a change out.
    pub fn apply(&mut self, change: &Change) -> Outcome {
        match change {
            Change::Node(said) => self.come(said),
            Change::Coord(said) => self.place(said),
            Change::Probes(said) => self.learn(said, 0..said.probes.len()),
            Change::Gone { id } => {
                let Some(node) = self.ids.remove(id, &self.cards, &self.nodes) else {
                    return Outcome::default();
                };
                self.leave_index(node);
                self.nodes[node as usize] = None;
                self.cards[node as usize] = Card::NOBODY;
                self.free.push_back((node, self.latest_s));
                Outcome { found: true, ..Outcome::default() }
            }
        }
    }

    fn come(&mut self, said: &NodeChange) -> Outcome {
        let known = Known { address: point(said.address), country: point(said.country) };
        let fresh = Placed::start(known, said.system, &self.model);
        let Some(node) = self.number(&said.id) else {
            let (said, measured) = (said.clone(), Vec::new());
            self.add(Entry { said, placed: fresh, by_agent: false, measured, cell: 0 });
            return Outcome { new: true, ..Outcome::default() };
        };
        self.leave_index(node);
        if let Some(entry) = &mut self.nodes[node as usize] {
            // What was learnt stays, unless the address is now said to be far away ([htrae 2.8]).
            let then = point(entry.said.address);
            entry.placed = match entry.coordinate() {
                Some(own) => {
                    let own = Coordinate { system: said.system, ..*own };
                    Placed::resume(own, then, known, &self.model)
                }
                None => fresh,
            };
            entry.said = said.clone();
        }
        self.enter_index(node);
        Outcome { found: true, ..Outcome::default() }
    }

    /// Takes in a node whose id is not here. A number of one that is gone is given again when
    /// what others measured to it no longer counts.
    fn add(&mut self, entry: Entry) {
        let old = self.free.front().filter(|(_, gone_s)| gone_s + LIFETIME_S < self.latest_s);
        let node = match old.copied() {
            Some((node, _)) => {
                self.free.pop_front();
                self.nodes[node as usize] = Some(entry);
                node
            }
            None => {
                self.nodes.push(Some(entry));
                self.cards.push(Card::NOBODY);
                (self.nodes.len() - 1) as u32
            }
        };
        self.ids.insert(node, &self.nodes);
        self.enter_index(node);
    }

    fn place(&mut self, said: &CoordChange) -> Outcome {
        let Some(node) = self.number(&said.id) else { return Outcome::default() };
        let found = Outcome { found: true, ..Outcome::default() };
        let Some(position) = Point::from_degrees(said.lat, said.lon) else { return found };
        self.leave_index(node);
        if let Some(entry) = &mut self.nodes[node as usize] {
            let own = Coordinate {
                position,
                height_ms: said.height_ms,
                error: said.error,
                system: entry.said.system,
                updates: said.updates,
            };
            if own.is_sound(&self.model) {
                entry.placed = Placed::At(own);
                entry.by_agent = true;
            }
        }
        self.enter_index(node);
        found
    }

    /// Learns from some of the round trips of a report. All of them in order, in one or in many
    /// calls, come to the same.
    pub fn learn(&mut self, said: &ProbesChange, which: Range<usize>) -> Outcome {
        let mut outcome = Outcome::default();
        self.latest_s = self.latest_s.max(said.at_s);
        let known = said.source.as_ref().and_then(|source| self.sources.get(source)).copied();
        let mut number = said.first.saturating_add(which.start as u64);
        let mut last = None;
        for (from, to, rtt_ms) in said.probes.get(which).unwrap_or_default() {
            let before = known.is_some_and(|known| number <= known);
            let this = number;
            number = number.saturating_add(1);
            if before {
                outcome.repeated += 1;
                continue;
            }
            last = Some(this);
            let (Some(from), Some(to)) = (self.number(from), self.number(to)) else {
                outcome.unknown += 1;
                continue;
            };
            if from == to || !(*rtt_ms > 0.0 && *rtt_ms <= self.model.rtt_max_ms) {
                outcome.nonsense += 1;
                continue;
            }
            self.learn_one(from, to, *rtt_ms, said.at_s);
            outcome.taken += 1;
        }
        if let Some((source, last)) = said.source.as_ref().zip(last) {
            self.sources.insert(source.clone(), last);
        }
        outcome
    }

    fn learn_one(&mut self, from: u32, to: u32, rtt_ms: f64, at_s: u64) {
        if let Some(said) = self.said(from, to, at_s) {
            self.by_source.entry(said.source).or_default().add(rtt_ms / said.rtt_ms);
        }
        let own = |node: u32| self.entry(node)?.coordinate().copied();
        let (one, other) = (own(from), own(to));
        if let (Some(one), Some(other)) = (one, other) {
            let said = self.plain_ms(&one, &other);
            let here = |node: u32| self.entry(node).map_or(0, |entry| region(entry.cell));
            let regions = pair(here(from), here(to));
            let with = self.pair_ms(&one, &other, self.region_ms(regions));
            let (sum, count) = self.regions.entry(regions).or_default();
            *sum += (rtt_ms - said).clamp(-REGION_CLIP_MS, REGION_CLIP_MS);
            *count += 1.0;
            self.by_region.entry(regions).or_default().add(rtt_ms / with);
            self.note(regions);
        }
        // Each end learns with what the other one was before.
        for (node, peer, there) in [(from, to, other), (to, from, one)] {
            self.leave_index(node);
            let model = self.model;
            if let Some(entry) = &mut self.nodes[node as usize] {
                match (&mut entry.placed, there) {
                    (Placed::At(own), Some(there)) if !entry.by_agent => {
                        model::update(own, &there, rtt_ms, &model, &mut self.rng);
                    }
                    (placed @ Placed::Nowhere { .. }, Some(there)) => {
                        placed.note(&there, rtt_ms, &model);
                    }
                    _ => {}
                }
                entry.measured.retain(|one| one.peer != peer);
                if entry.measured.len() >= MEASURED_MAX {
                    entry.measured.remove(0);
                }
                entry.measured.push(Measured { peer, rtt_ms, at_s });
            }
            self.enter_index(node);
        }
    }

    fn enter_index(&mut self, node: u32) {
        let Some(Some(entry)) = self.nodes.get_mut(node as usize) else { return };
        if let Some(own) = entry.placed.coordinate() {
            let Coordinate { position: place, height_ms, system, .. } = *own;
            entry.cell = cell(place);
            let seat = Seat { height_ms, place, system, node };
            self.index.insert(&entry.said.class, entry.cell, seat);
        }
        self.cards[node as usize] = Card::of(entry);
    }

    fn leave_index(&mut self, node: u32) {
        let Some(Some(entry)) = self.nodes.get(node as usize) else { return };
        if let Some(own) = entry.placed.coordinate() {
            self.index.remove(&entry.said.class, entry.cell, own.height_ms, node);
        }
    }

    /// What the coordinates say.
    fn plain_ms(&self, one: &Coordinate, other: &Coordinate) -> f64 {
        model::predict_ms(one, other, &self.model)
    }

    fn region_ms(&self, regions: (u16, u16)) -> f64 {
        self.regions.get(&regions).map_or(0.0, |(sum, count)| sum / (count + REGION_PRIOR))
    }

    /// Finds anew what is known of pairs of two regions: there are more questions than reports.
    fn note(&mut self, regions: (u16, u16)) {
        let p90 = self.by_region.get(&regions).and_then(Ratios::p90);
        let row = Row { residual_ms: self.region_ms(regions), p90 };
        for (here, there) in [regions, (regions.1, regions.0)] {
            let Some(rows) = self.rows.get_mut(usize::from(here)) else { continue };
            rows.resize(REGIONS, Row::default());
            if let Some(place) = rows.get_mut(usize::from(there)) {
                *place = row;
            }
        }
    }

    /// What is known of pairs of a region, by the other one.
    fn rows(&self, here: u16) -> &[Row] {
        self.rows.get(usize::from(here)).map_or(&[], Vec::as_slice)
    }

    /// What coordinates and regions say.
    fn pair_ms(&self, one: &Coordinate, other: &Coordinate, residual_ms: f64) -> f64 {
        let plain_ms = self.plain_ms(one, other);
        let said = (plain_ms + residual_ms).max(LEAST_MS);
        // Distance is a part of what coordinates say, so most pairs are above light without being
        // held against it, which takes as long as predicting them.
        let scale = self.model.line.ms_per_radian();
        if said * scale > plain_ms * FLOOR_MS_PER_KM * EARTH_RADIUS_KM * (1.0 + 1e-9) {
            return said;
        }
        said.max(FLOOR_MS_PER_KM * one.position.distance_km(other.position))
    }

    /// A prediction, and where it is from.
    fn predicted(&self, one: &Coordinate, other: &Coordinate, residual_ms: f64) -> (f64, Source) {
        let learnt = one.updates > 0 || other.updates > 0;
        let source = if learnt { Source::Coord } else { Source::Geo };
        (self.pair_ms(one, other, residual_ms), source)
    }

    /// What was measured from `from` to `to` in the last hour.
    fn measured_ms(&self, from: u32, to: u32, now_s: u64) -> Option<f64> {
        let known = self.entry(from)?.measured.iter().find(|one| one.peer == to)?;
        (now_s.saturating_sub(known.at_s) <= LIFETIME_S).then_some(known.rtt_ms)
    }

    /// Can the two reach each other, as far as they said?
    pub fn meets(&self, from: u32, to: u32) -> Option<bool> {
        let reach = |node| Some(self.entry(node)?.said.reach);
        reach(from)?.meets(reach(to)?)
    }

    /// The p90 over what is said, of all that is from there.
    fn source_p90(&self, source: Source) -> Option<f64> {
        self.by_source.get(&source)?.p90()
    }

    /// The round trip from `from` to `to`; `None` when one of them has no coordinate and nothing
    /// was measured.
    pub fn said(&self, from: u32, to: u32, now_s: u64) -> Option<Said> {
        let said = |rtt_ms: f64, source: Source, by_region: Option<f64>| {
            let p90_ms = p90_ms(rtt_ms, source, by_region, || self.source_p90(source));
            Some(Said { rtt_ms, p90_ms, source })
        };
        if let Some(rtt_ms) = self.measured_ms(from, to, now_s) {
            return said(rtt_ms, Source::History, None);
        }
        let (here, there) = (self.entry(from)?, self.entry(to)?);
        let rows = self.rows(region(here.cell));
        let row = rows.get(usize::from(region(there.cell))).copied().unwrap_or_default();
        let (one, other) = (here.coordinate()?, there.coordinate()?);
        let (rtt_ms, source) = self.predicted(one, other, row.residual_ms);
        said(rtt_ms, source, row.p90)
    }

    /// A node that asks for many round trips, or for who is near.
    pub fn asker(&self, from: u32, now_s: u64) -> Option<Asker<'_>> {
        Asker::new(self, from, now_s)
    }

    /// What coordinates alone say, as others compute it from what is published of them.
    pub fn published_ms(&self, from: u32, to: u32) -> Option<f64> {
        Some(self.plain_ms(self.entry(from)?.coordinate()?, self.entry(to)?.coordinate()?))
    }

    /// The `k` nearest nodes of a class, or of all, that can be reached; the nearest first.
    pub fn nearest(
        &self,
        from: u32,
        k: usize,
        class: Option<&str>,
        now_s: u64,
    ) -> Vec<(u32, Said)> {
        self.asker(from, now_s).map_or(Vec::new(), |asker| asker.nearest(k, class))
    }

    /// The same by asking everybody: what the index is held to.
    pub fn nearest_of_all(
        &self,
        from: u32,
        k: usize,
        class: Option<&str>,
        now_s: u64,
    ) -> Vec<(u32, Said)> {
        let mut all: Vec<(u32, Said)> = (0..self.nodes.len() as u32)
            .filter(|node| *node != from && self.meets(from, *node) != Some(false))
            .filter(|node| {
                let there = self.entry(*node);
                there.is_some_and(|there| class.is_none_or(|c| c == there.said.class))
            })
            .filter_map(|node| Some((node, self.said(from, node, now_s)?)))
            .collect();
        all.sort_unstable_by(|a, b| a.1.rtt_ms.total_cmp(&b.1.rtt_ms).then(a.0.cmp(&b.0)));
        all.truncate(k);
        all
    }
}
