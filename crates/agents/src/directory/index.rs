//! Who is near, without asking everybody: regions of twenty degrees, in these cells of five, and in
//! each the nodes by height.
//!
//! A round trip is at least the way to the nearest point of a region or cell and the heights of
//! both ends. So regions and their cells are looked at in the order of that bound, and in a cell
//! the lowest nodes first, until no other can be nearer. Bounds are by chords, which are no longer
//! than arcs and cost a square root: in a city of thousands a prediction is made of a few nodes
//! only.
//! What a prediction needs of a node stands in the index, so that nodes that are not near are not
//! read. The answer is that of asking everybody.

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

/// One more than the greatest number of a region.
pub const REGIONS: usize = 64 * 10;

/// A part of the globe: its middle, and how far its edge is from that at most, as a chord.
#[derive(Clone, Copy, Debug)]
struct Circle {
    middle: Point,
    radius: f64,
}

impl Circle {
    /// Around a square of so many degrees with this corner.
    fn around(south: f64, west: f64, degrees: f64) -> Option<Circle> {
        let at = |up: f64, right: f64| {
            let (up, right) = (south + up * degrees, west + right * degrees);
            Point::from_degrees(up.min(90.0), right.min(180.0))
        };
        let middle = at(0.5, 0.5)?;
        // Nothing in it is farther than one of its corners, and those of the east are as far as
        // those of the west.
        let far = chord(middle, at(0.0, 0.0)?).max(chord(middle, at(1.0, 0.0)?));
        Some(Circle { middle, radius: far + SLACK_RAD })
    }

    fn of_cell(cell: u16) -> Option<Circle> {
        let south = f64::from(cell / COLUMNS) * CELL_DEG - 90.0;
        let west = f64::from(cell % COLUMNS) * CELL_DEG - 180.0;
        Circle::around(south, west, CELL_DEG)
    }

    fn of_region(region: u16) -> Option<Circle> {
        let south = f64::from(region / 64) * REGION_DEG - 90.0;
        let west = f64::from(region % 64) * REGION_DEG - 180.0;
        Circle::around(south, west, REGION_DEG)
    }

    /// Nothing within is nearer than this, as a chord.
    fn apart(&self, from: Point) -> f64 {
        (chord(from, self.middle) - self.radius).max(0.0)
    }
}

/// The straight distance of two places, in radii: no longer than the angle between them.
fn chord(one: Point, other: Point) -> f64 {
    one.chord_squared(other).sqrt()
}

/// A node where it sits, with all that a prediction needs of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seat {
    /// Its height.
    pub height_ms: f64,
    /// Its place.
    pub place: Point,
    /// Its system.
    pub system: u32,
    /// Its number.
    pub node: u32,
}

#[derive(Clone, Debug)]
struct Cell {
    name: u16,
    circle: Circle,
    /// The lowest first.
    nodes: Vec<Seat>,
}

impl Cell {
    fn lowest(&self) -> f64 {
        self.nodes.first().map_or(f64::INFINITY, |one| one.height_ms)
    }

    /// Where a node of this height and number sits, or would.
    fn seat(&self, height_ms: f64, node: u32) -> usize {
        self.nodes.partition_point(|one| before((one.height_ms, one.node), (height_ms, node)))
    }
}

/// Cells of a region, of which there are at most sixteen.
#[derive(Clone, Debug)]
struct Region {
    name: u16,
    circle: Circle,
    /// The least height in it.
    lowest: f64,
    cells: Vec<Cell>,
}

impl Region {
    fn look(&mut self) {
        self.lowest = self.cells.iter().map(Cell::lowest).fold(f64::INFINITY, f64::min);
    }
}

/// Nodes of one class by region and cell.
#[derive(Clone, Debug, Default)]
struct Class {
    /// By their numbers.
    regions: Vec<Region>,
}

impl Class {
    fn find(&self, name: u16) -> Result<usize, usize> {
        self.regions.binary_search_by_key(&name, |region| region.name)
    }

    /// The cell, which is made if it is not there.
    fn cell(&mut self, name: u16) -> Option<(&mut f64, &mut Cell)> {
        let of = region(name);
        let at = match self.find(of) {
            Ok(at) => at,
            Err(at) => {
                let circle = Circle::of_region(of)?;
                let new = Region { name: of, circle, lowest: f64::INFINITY, cells: Vec::new() };
                self.regions.insert(at, new);
                at
            }
        };
        let region = &mut self.regions[at];
        let at = match region.cells.iter().position(|cell| cell.name == name) {
            Some(at) => at,
            None => {
                let circle = Circle::of_cell(name)?;
                region.cells.push(Cell { name, circle, nodes: Vec::new() });
                region.cells.len() - 1
            }
        };
        Some((&mut region.lowest, &mut region.cells[at]))
    }
}

/// Nodes by class, region and cell.
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
    /// What pairs of the own region and this one take longer.
    pub residual_ms: &'a dyn Fn(u16) -> f64,
    /// The round trip to a node, of whose region pairs take so much longer.
    pub rtt_ms: &'a dyn Fn(&Seat, f64) -> f64,
    /// Is this node to be found? Asked only of those that are near enough.
    pub admits: &'a dyn Fn(u32) -> bool,
}

/// Something to look into, and the least round trip that can be found there. A heap of these gives
/// the least first.
#[derive(PartialEq)]
struct Bound {
    least_ms: f64,
    region: usize,
    /// `None` for the region itself.
    cell: Option<usize>,
}

impl Eq for Bound {}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let rest = || (other.region, other.cell).cmp(&(self.region, self.cell));
        other.least_ms.total_cmp(&self.least_ms).then_with(rest)
    }
}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Index {
    /// Puts a node in, which sits in `cell`.
    pub fn insert(&mut self, class: &str, cell: u16, seat: Seat) {
        if !self.classes.contains_key(class) {
            self.classes.insert(class.to_string(), Class::default());
        }
        let Some((lowest, cell)) = self.classes.get_mut(class).and_then(|of| of.cell(cell)) else {
            return;
        };
        *lowest = lowest.min(seat.height_ms);
        cell.nodes.insert(cell.seat(seat.height_ms, seat.node), seat);
    }

    /// Takes a node out that was put in with just these.
    pub fn remove(&mut self, class: &str, cell: u16, height_ms: f64, node: u32) {
        let Some(of) = self.classes.get_mut(class) else { return };
        let Ok(place) = of.find(region(cell)) else { return };
        let there = &mut of.regions[place];
        let Some(number) = there.cells.iter().position(|one| one.name == cell) else { return };
        let nodes = &mut there.cells[number];
        let at = nodes.seat(height_ms, node);
        if nodes.nodes.get(at).is_some_and(|one| one.node == node) {
            nodes.nodes.remove(at);
        }
        if nodes.nodes.is_empty() {
            there.cells.swap_remove(number);
        }
        if there.cells.is_empty() {
            of.regions.remove(place);
        } else if height_ms <= there.lowest {
            there.look();
        }
    }

    /// Classes that have nodes.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().filter(|(_, of)| !of.regions.is_empty()).map(|(name, _)| name.as_str())
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

/// What a round trip must not exceed to count.
fn worst(best: &[(f64, u32)], k: usize) -> f64 {
    match best.last() {
        Some(last) if best.len() >= k => last.0,
        _ => f64::INFINITY,
    }
}

impl Class {
    fn nearest(&self, k: usize, search: &Search<'_>, best: &mut Vec<(f64, u32)>) {
        let bound = |region: usize| {
            let of = &self.regions[region];
            let residual_ms = (search.residual_ms)(of.name);
            let apart = of.circle.apart(search.from);
            let least_ms = search.at_least(residual_ms, apart, of.lowest);
            Bound { least_ms, region, cell: None }
        };
        let mut left: BinaryHeap<Bound> = (0..self.regions.len()).map(bound).collect();
        while let Some(Bound { least_ms, region, cell }) = left.pop() {
            let limit = worst(best, k);
            if least_ms > limit {
                return;
            }
            let of = &self.regions[region];
            let residual_ms = (search.residual_ms)(of.name);
            let Some(cell) = cell else {
                for (number, cell) in of.cells.iter().enumerate() {
                    let apart = cell.circle.apart(search.from);
                    let least_ms = search.at_least(residual_ms, apart, cell.lowest());
                    if least_ms <= limit {
                        left.push(Bound { least_ms, region, cell: Some(number) });
                    }
                }
                continue;
            };
            of.cells[cell].nearest(k, residual_ms, search, best);
        }
    }
}

impl Cell {
    fn nearest(&self, k: usize, residual_ms: f64, search: &Search<'_>, best: &mut Vec<(f64, u32)>) {
        let apart = self.circle.apart(search.from);
        for seat in &self.nodes {
            let limit = worst(best, k);
            if search.at_least(residual_ms, apart, seat.height_ms) > limit {
                return;
            }
            let apart = chord(search.from, seat.place);
            if search.at_least(residual_ms, apart, seat.height_ms) > limit {
                continue;
            }
            let rtt_ms = (search.rtt_ms)(seat, residual_ms);
            let at = best.partition_point(|one| before(*one, (rtt_ms, seat.node)));
            if at < k && (search.admits)(seat.node) {
                best.insert(at, (rtt_ms, seat.node));
                best.truncate(k);
            }
        }
    }
}

impl Search<'_> {
    /// What a round trip to a node takes at least that is no nearer than `apart` and no lower than
    /// `height_ms`; a little less, so that rounding hides nobody.
    fn at_least(&self, residual_ms: f64, apart: f64, height_ms: f64) -> f64 {
        let (share, own) = self.height;
        let way = self.ms_per_radian * apart + share * (own + height_ms);
        let floor = self.floor_ms_per_km * EARTH_RADIUS_KM * apart;
        (way + residual_ms).max(floor) - 1e-6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::{Purpose, Stream};

    #[test]
    fn cells_and_regions_lie_within_their_circles() {
        let mut rng = Stream::keyed(1, 0, Purpose::Test);
        for _ in 0..20_000 {
            let place = Point::random(&mut rng);
            let cell = cell(place);
            for circle in [Circle::of_cell(cell), Circle::of_region(region(cell))] {
                let circle = circle.expect("on Earth");
                assert!(chord(place, circle.middle) <= circle.radius, "{:?}", place.degrees());
            }
            assert!(usize::from(region(cell)) < REGIONS);
        }
    }

    /// A node that goes leaves no bound behind that would hide others, or show nobody.
    #[test]
    fn the_least_height_of_a_region_follows_its_nodes() {
        let place = Point::from_degrees(51.0, 8.0).expect("on Earth");
        let cell = cell(place);
        let mut index = Index::default();
        for (node, height_ms) in [(0, 5.0), (1, 2.0), (2, 9.0)] {
            index.insert("server", cell, Seat { height_ms, place, system: 0, node });
        }
        let lowest = |index: &Index| index.classes["server"].regions.first().map(|of| of.lowest);
        assert_eq!(lowest(&index), Some(2.0));
        index.remove("server", cell, 2.0, 1);
        assert_eq!(lowest(&index), Some(5.0));
        index.remove("server", cell, 5.0, 0);
        index.remove("server", cell, 9.0, 2);
        assert_eq!((lowest(&index), index.classes().count()), (None, 0));
    }
}
