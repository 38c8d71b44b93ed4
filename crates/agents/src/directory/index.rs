//! Who is near, without asking everybody: cells of five degrees, and in each the nodes by height.
//!
//! A round trip is at least the way to the nearest point of a cell and the heights of both ends; so
//! cells are looked at in the order of that bound, and in a cell the lowest nodes first, until no
//! other can be nearer. Bounds are by chords, which are no longer than arcs and cost a square root:
//! in a city of thousands a prediction is made of a few nodes only. The answer is that of asking
//! everybody.

use cavy_coords::Point;
use cavy_coords::sphere::EARTH_RADIUS_KM;
use std::cell::RefCell;
use std::collections::{BTreeMap, BinaryHeap};

/// Width of a cell, degrees; divides that of a region.
const CELL_DEG: f64 = 5.0;
const COLUMNS: u16 = 72;
/// Width of a region, over which residuals are learnt ([htrae 8.1]).
pub const REGION_DEG: f64 = 20.0;
/// Rounding of angles is far below this.
const SLACK_RAD: f64 = 1e-6;

/// The cell of a place.
pub fn cell(place: Point) -> u16 {
    let (latitude, longitude) = place.degrees();
    let row = (((latitude + 90.0) / CELL_DEG) as u16).min(COLUMNS / 2 - 1);
    let column = (((longitude + 180.0) / CELL_DEG) as u16).min(COLUMNS - 1);
    row * COLUMNS + column
}

/// The region that a cell lies in.
pub fn region(cell: u16) -> u16 {
    let per = (REGION_DEG / CELL_DEG) as u16;
    (cell / COLUMNS) / per * 64 + (cell % COLUMNS) / per
}

/// The middle of a cell, and how far its corners are from it.
fn circle(cell: u16) -> Option<(Point, f64)> {
    let south = f64::from(cell / COLUMNS) * CELL_DEG - 90.0;
    let west = f64::from(cell % COLUMNS) * CELL_DEG - 180.0;
    let at = |up: f64, right: f64| {
        Point::from_degrees((south + up * CELL_DEG).min(90.0), (west + right * CELL_DEG).min(180.0))
    };
    let middle = at(0.5, 0.5)?;
    let edges = [0.0, 0.5, 1.0].map(|up| [0.0, 0.5, 1.0].map(|right| at(up, right)));
    let far = edges.iter().flatten().flatten().map(|edge| chord(middle, *edge));
    Some((middle, far.fold(0.0, f64::max) + SLACK_RAD))
}

/// The straight distance of two places, in radii: no longer than the angle between them.
fn chord(one: Point, other: Point) -> f64 {
    one.chord_squared(other).sqrt()
}

/// A node where it sits.
#[derive(Clone, Copy, Debug)]
struct Seat {
    height_ms: f64,
    node: u32,
    place: Point,
}

#[derive(Clone, Debug)]
struct Cell {
    middle: Point,
    /// From the middle to the farthest corner, as a chord.
    radius: f64,
    /// The lowest first.
    nodes: Vec<Seat>,
}

impl Cell {
    /// No node of the cell is nearer than this, as a chord.
    fn apart(&self, from: Point) -> f64 {
        (chord(from, self.middle) - self.radius).max(0.0)
    }

    /// Where a node of this height and number sits, or would.
    fn seat(&self, height_ms: f64, node: u32) -> usize {
        self.nodes.partition_point(|one| before((one.height_ms, one.node), (height_ms, node)))
    }
}

/// Nodes of one class by cell.
#[derive(Clone, Debug, Default)]
struct Class {
    cells: BTreeMap<u16, Cell>,
}

/// Nodes by class and cell.
#[derive(Clone, Debug, Default)]
pub struct Index {
    classes: BTreeMap<String, Class>,
}

/// What is asked of the index.
pub struct Search<'a> {
    /// From here.
    pub from: Point,
    /// Milliseconds of a radian.
    pub ms_per_radian: f64,
    /// What the heights of both ends count at least, per millisecond, and the own height.
    pub height: (f64, f64),
    /// What a round trip is at least, milliseconds of a kilometer.
    pub floor_ms_per_km: f64,
    /// What pairs of the own region and that of a cell take longer.
    pub residual_ms: &'a dyn Fn(u16) -> f64,
    /// The round trip to a node; `None` for those that are not to be found.
    pub rtt_ms: &'a dyn Fn(u32) -> Option<f64>,
}

/// A lower bound that makes a heap give its least first.
#[derive(PartialEq)]
struct Bound(f64, u16);

impl Eq for Bound {}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Index {
    /// Puts a node in.
    pub fn insert(&mut self, class: &str, place: Point, height_ms: f64, node: u32) {
        let cell = cell(place);
        let Some((middle, radius)) = circle(cell) else { return };
        if !self.classes.contains_key(class) {
            self.classes.insert(class.to_string(), Class::default());
        }
        let Some(of) = self.classes.get_mut(class) else { return };
        let cell =
            of.cells.entry(cell).or_insert_with(|| Cell { middle, radius, nodes: Vec::new() });
        cell.nodes.insert(cell.seat(height_ms, node), Seat { height_ms, node, place });
    }

    /// Takes a node out that was put in with just these.
    pub fn remove(&mut self, class: &str, place: Point, height_ms: f64, node: u32) {
        let cell = cell(place);
        let Some(of) = self.classes.get_mut(class) else { return };
        let Some(there) = of.cells.get_mut(&cell) else { return };
        let at = there.seat(height_ms, node);
        if there.nodes.get(at).is_some_and(|one| one.node == node) {
            there.nodes.remove(at);
        }
        if there.nodes.is_empty() {
            of.cells.remove(&cell);
        }
    }

    /// Classes that have nodes.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().filter(|(_, of)| !of.cells.is_empty()).map(|(name, _)| name.as_str())
    }

    /// Puts the `k` nearest nodes of `class`, or of all, into `best`, which may hold some already;
    /// nearest first, and of those as near the one with the lower number.
    pub fn nearest(
        &self,
        class: Option<&str>,
        k: usize,
        search: &Search<'_>,
        best: &mut Vec<(f64, u32)>,
    ) {
        best.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        best.truncate(k);
        let search = &Bounds { search, residuals: RefCell::new(vec![None; REGIONS]) };
        for (_, of) in self.classes.iter().filter(|(name, _)| class.is_none_or(|c| c == *name)) {
            of.nearest(k, search, best);
        }
    }
}

fn before(a: (f64, u32), b: (f64, u32)) -> bool {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).is_lt()
}

impl Class {
    fn nearest(&self, k: usize, bounds: &Bounds<'_, '_>, best: &mut Vec<(f64, u32)>) {
        let from = bounds.search.from;
        let bound = |(name, cell): (&u16, &Cell)| {
            let lowest = cell.nodes.first().map_or(0.0, |one| one.height_ms);
            let residual_ms = bounds.residual_ms(*name);
            Bound(bounds.at_least(residual_ms, cell.apart(from), lowest), *name)
        };
        let mut cells: BinaryHeap<Bound> = self.cells.iter().map(bound).collect();
        let worst = |best: &[(f64, u32)]| match best.len() {
            full if full >= k => best.last().map_or(f64::INFINITY, |last| last.0),
            _ => f64::INFINITY,
        };
        while let Some(Bound(least, name)) = cells.pop() {
            if least > worst(best) {
                return;
            }
            let Some(cell) = self.cells.get(&name) else { continue };
            let (apart, residual_ms) = (cell.apart(from), bounds.residual_ms(name));
            for Seat { height_ms, node, place } in &cell.nodes {
                let limit = worst(best);
                if bounds.at_least(residual_ms, apart, *height_ms) > limit {
                    break;
                }
                if bounds.at_least(residual_ms, chord(from, *place), *height_ms) > limit {
                    continue;
                }
                let Some(rtt_ms) = (bounds.search.rtt_ms)(*node) else { continue };
                let at = best.partition_point(|one| before(*one, (rtt_ms, *node)));
                if at < k {
                    best.insert(at, (rtt_ms, *node));
                    best.truncate(k);
                }
            }
        }
    }
}

/// One more than the greatest number of a region.
const REGIONS: usize = 64 * 10;

/// A search, and what was looked up for it.
struct Bounds<'s, 'a> {
    search: &'s Search<'a>,
    /// By region.
    residuals: RefCell<Vec<Option<f64>>>,
}

impl Bounds<'_, '_> {
    fn residual_ms(&self, cell: u16) -> f64 {
        let region = region(cell);
        let mut known = self.residuals.borrow_mut();
        match known.get_mut(usize::from(region)) {
            Some(known) => *known.get_or_insert_with(|| (self.search.residual_ms)(region)),
            None => (self.search.residual_ms)(region),
        }
    }

    /// What a round trip to a node takes at least that is no nearer than `apart` and no lower than
    /// `height_ms`; a little less, so that rounding hides nobody.
    fn at_least(&self, residual_ms: f64, apart: f64, height_ms: f64) -> f64 {
        let (share, own) = self.search.height;
        let way = self.search.ms_per_radian * apart + share * (own + height_ms);
        let floor = self.search.floor_ms_per_km * EARTH_RADIUS_KM * apart;
        (way + residual_ms).max(floor) - 1e-6
    }
}
