//! Who is near, without asking everybody: cells of five degrees, and in each the nodes by height.
//!
//! A round trip is at least the way to the nearest point of a cell and the heights of both ends; so
//! cells are looked at in the order of that bound, and in a cell the lowest nodes first, until no
//! other can be nearer. The answer is that of asking everybody.

use cavy_coords::Point;
use cavy_coords::sphere::EARTH_RADIUS_KM;
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
    let far = edges.iter().flatten().flatten().map(|edge| middle.angle(*edge));
    Some((middle, far.fold(0.0, f64::max) + SLACK_RAD))
}

#[derive(Clone, Debug)]
struct Cell {
    middle: Point,
    radius: f64,
    /// The lowest first.
    nodes: Vec<(f64, u32)>,
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
        let at = cell.nodes.partition_point(|one| before(*one, (height_ms, node)));
        cell.nodes.insert(at, (height_ms, node));
    }

    /// Takes a node out that was put in with just these.
    pub fn remove(&mut self, class: &str, place: Point, height_ms: f64, node: u32) {
        let cell = cell(place);
        let Some(of) = self.classes.get_mut(class) else { return };
        let Some(there) = of.cells.get_mut(&cell) else { return };
        let at = there.nodes.partition_point(|one| before(*one, (height_ms, node)));
        if there.nodes.get(at).is_some_and(|one| one.1 == node) {
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
        for (_, of) in self.classes.iter().filter(|(name, _)| class.is_none_or(|c| c == *name)) {
            of.nearest(k, search, best);
        }
    }
}

fn before(a: (f64, u32), b: (f64, u32)) -> bool {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).is_lt()
}

impl Class {
    fn nearest(&self, k: usize, search: &Search<'_>, best: &mut Vec<(f64, u32)>) {
        let bound = |(name, cell): (&u16, &Cell)| {
            let angle = (search.from.angle(cell.middle) - cell.radius).max(0.0);
            let lowest = cell.nodes.first().map_or(0.0, |one| one.0);
            Bound(search.at_least(*name, angle, lowest), *name)
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
            let angle = (search.from.angle(cell.middle) - cell.radius).max(0.0);
            for (height_ms, node) in &cell.nodes {
                if search.at_least(name, angle, *height_ms) > worst(best) {
                    break;
                }
                let Some(rtt_ms) = (search.rtt_ms)(*node) else { continue };
                let at = best.partition_point(|one| before(*one, (rtt_ms, *node)));
                if at < k {
                    best.insert(at, (rtt_ms, *node));
                    best.truncate(k);
                }
            }
        }
    }
}

impl Search<'_> {
    /// What a round trip to a node in a cell, no nearer than `angle` and no lower than `height_ms`,
    /// takes at least; a little less, so that rounding hides nobody.
    fn at_least(&self, cell: u16, angle: f64, height_ms: f64) -> f64 {
        let (share, own) = self.height;
        let way = self.ms_per_radian * angle + share * (own + height_ms);
        let floor = self.floor_ms_per_km * EARTH_RADIUS_KM * angle;
        (way + (self.residual_ms)(region(cell))).max(floor) - 1e-6
    }
}
