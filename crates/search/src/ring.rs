//! The ring of ids, slices and arcs of it, and who owns what `[roar 2.1]`.
//!
//! All of it is exact in 64 and 128 bits. A ring has 2^64 ids, one more than a `u64` can count, so
//! widths are `u128`.

use alloc::vec::Vec;
use core::fmt;

/// A place on the ring, and the id of an object.
pub type Id = u64;

/// How many ids there are.
pub const WHOLE: u128 = 1 << 64;

/// The ids after `lo` up to and including `hi`, clockwise. A slice is never empty: `lo == hi` is
/// the whole ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slice {
    /// The id before the first.
    pub lo: Id,
    /// The last id.
    pub hi: Id,
}

impl Slice {
    /// All ids after `lo` up to `hi`.
    #[inline]
    pub const fn new(lo: Id, hi: Id) -> Slice {
        Slice { lo, hi }
    }

    /// How many ids it has, 1 to 2^64.
    #[inline]
    pub const fn width(self) -> u128 {
        match self.hi.wrapping_sub(self.lo) {
            0 => WHOLE,
            ids => ids as u128,
        }
    }

    /// Whether `id` is one of them.
    #[inline]
    pub const fn contains(self, id: Id) -> bool {
        (id.wrapping_sub(self.lo).wrapping_sub(1) as u128) < self.width()
    }

    /// Whether all ids of `other` are its own.
    #[inline]
    pub const fn covers(self, other: Slice) -> bool {
        let before = other.lo.wrapping_sub(self.lo) as u128;
        self.width() == WHOLE || before + other.width() <= self.width()
    }

    /// Whether `other` begins among its ids, or right after them.
    const fn leads_to(self, other: Slice) -> bool {
        self.width() == WHOLE || other.lo.wrapping_sub(self.lo) as u128 <= self.width()
    }

    /// Whether the ids of both together are one slice.
    pub const fn meets(self, other: Slice) -> bool {
        self.leads_to(other) || other.leads_to(self)
    }

    /// The ids of both, which meet, as one slice.
    pub fn joined(self, other: Slice) -> Slice {
        let (first, then) = if self.leads_to(other) { (self, other) } else { (other, self) };
        let width = u128::from(then.lo.wrapping_sub(first.lo)) + then.width();
        match width {
            _ if first.covers(then) => first,
            WHOLE.. => Slice::new(first.hi, first.hi),
            _ => Slice::new(first.lo, then.hi),
        }
    }

    /// The ids that both have: none, one slice, or two.
    pub fn common(self, other: Slice) -> impl Iterator<Item = Slice> {
        let piece = |from: Slice, to: Slice| {
            let begins = u128::from(from.lo.wrapping_sub(to.lo)) < to.width();
            begins.then(|| Slice::new(from.lo, to.hi))
        };
        let pieces = match () {
            () if other.covers(self) => [Some(self), None],
            () if self.covers(other) => [Some(other), None],
            () => [piece(other, self), piece(self, other)],
        };
        pieces.into_iter().flatten()
    }

    /// Those of its ids that are among the `wanted`, as one slice: the longer one where there are
    /// two.
    pub fn within(self, wanted: Slice) -> Option<Slice> {
        self.common(wanted).max_by_key(|piece| piece.width())
    }

    /// As a share of the ring, 0 to 1.
    #[inline]
    pub fn share(self) -> f64 {
        self.width() as f64 / WHOLE as f64
    }
}

/// The length of an object's arc: it is stored by every server whose range the arc meets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Arc(u128);

impl Arc {
    /// The arcs with which `p` sub-queries find everything: 2^64 / p, rounded up.
    ///
    /// # Panics
    /// When `p` is zero.
    pub const fn of(p: u32) -> Arc {
        assert!(p > 0, "a query has at least one part");
        Arc(WHOLE.div_ceil(p as u128))
    }

    /// Arcs of so many ids, 1 to 2^64.
    ///
    /// # Panics
    /// When there is no id, or more than there are.
    pub const fn wide(ids: u128) -> Arc {
        assert!(ids > 0 && ids <= WHOLE, "an arc has from one id to all of them");
        Arc(ids)
    }

    /// Ids of an arc, 1 to 2^64.
    #[inline]
    pub const fn width(self) -> u128 {
        self.0
    }

    /// The longer of two.
    pub fn max(self, other: Arc) -> Arc {
        if self.0 >= other.0 { self } else { other }
    }

    /// The place one arc before `id`.
    #[inline]
    const fn before(self, id: Id) -> Id {
        id.wrapping_sub(self.0 as u64)
    }
}

/// Why there can be no such ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingError {
    /// It has no server.
    Empty,
    /// Two ranges begin at one id, so that one of them is empty.
    Twice(Id),
}

impl core::error::Error for RingError {}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingError::Empty => write!(f, "a ring has at least one server"),
            RingError::Twice(id) => write!(f, "two ranges begin at {id:#x}"),
        }
    }
}

/// Servers in the order of their ranges. A *position* is a place in that order, from 0; range
/// `[a, b)` of a position ends where that of the next one begins.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ring {
    starts: Vec<Id>,
    servers: Vec<u32>,
}

impl Ring {
    /// A ring of ranges that begin at these ids, with the servers that own them.
    pub fn new(mut ranges: Vec<(Id, u32)>) -> Result<Ring, RingError> {
        if ranges.is_empty() {
            return Err(RingError::Empty);
        }
        ranges.sort_unstable();
        if let Some(two) = ranges.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(RingError::Twice(two[0].0));
        }
        let (starts, servers) = ranges.into_iter().unzip();
        Ok(Ring { starts, servers })
    }

    /// Ranges in the order of `servers`, from id 0 on, as long as `weight` says in proportion
    /// `[roar 2.10]`. Weights are positive and finite.
    ///
    /// # Panics
    /// When there is no server, or a range would be empty.
    pub fn proportional(servers: &[u32], weight: impl Fn(u32) -> f64) -> Ring {
        // Of equal weights floats would leave borders some thousand ids off.
        if servers.windows(2).all(|two| weight(two[0]) == weight(two[1])) {
            return Ring::equal(servers);
        }
        let total: f64 = servers.iter().map(|&server| weight(server)).sum();
        let mut before = 0.0;
        let ranges = servers.iter().map(|&server| {
            let start = (before / total * WHOLE as f64) as u64;
            before += weight(server);
            (start, server)
        });
        match Ring::new(ranges.collect()) {
            Ok(ring) => ring,
            Err(error) => panic!("{error}"),
        }
    }

    /// Ranges of equal length, to a single id.
    pub fn equal(servers: &[u32]) -> Ring {
        let n = servers.len() as u128;
        let start = |place: usize| (place as u128 * WHOLE / n) as u64;
        let ranges = servers.iter().enumerate().map(|(place, &server)| (start(place), server));
        match Ring::new(ranges.collect()) {
            Ok(ring) => ring,
            Err(error) => panic!("{error}"),
        }
    }

    /// The ring without the servers that are `gone`: whoever follows them has their ranges as
    /// well `[roar 2.9]`. `None` when nobody is left.
    pub fn without(&self, gone: impl Fn(u32) -> bool) -> Option<Ring> {
        let stays = |at: usize| !gone(self.servers[at]);
        let start = |mut at: usize| {
            while !stays(self.previous(at)) {
                at = self.previous(at);
            }
            self.starts[at]
        };
        let left = (0..self.count()).filter(|&at| stays(at));
        let ranges: Vec<(Id, u32)> = left.map(|at| (start(at), self.servers[at])).collect();
        Ring::new(ranges).ok()
    }

    /// Where `server` is on the ring.
    pub fn position(&self, server: u32) -> Option<usize> {
        self.servers.iter().position(|&own| own == server)
    }

    /// How many ranges there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Who owns the range at `position`.
    #[inline]
    pub fn server(&self, position: usize) -> u32 {
        self.servers[position]
    }

    /// All servers in the order of the ring.
    pub fn servers(&self) -> &[u32] {
        &self.servers
    }

    /// Where the range at `position` begins: its first id.
    #[inline]
    pub fn start(&self, position: usize) -> Id {
        self.starts[position]
    }

    /// Where it ends: the first id that is no more its own.
    #[inline]
    pub fn end(&self, position: usize) -> Id {
        self.starts[self.next(position)]
    }

    /// Ids of the range at `position`, 1 to 2^64.
    #[inline]
    pub fn width(&self, position: usize) -> u128 {
        match self.end(position).wrapping_sub(self.start(position)) {
            0 => WHOLE,
            ids => u128::from(ids),
        }
    }

    /// The position after `position`, clockwise.
    #[inline]
    pub fn next(&self, position: usize) -> usize {
        if position + 1 == self.count() { 0 } else { position + 1 }
    }

    /// The position before `position`.
    #[inline]
    pub fn previous(&self, position: usize) -> usize {
        if position == 0 { self.count() - 1 } else { position - 1 }
    }

    /// The position whose range has `id`.
    #[inline]
    pub fn owner(&self, id: Id) -> usize {
        match self.starts.partition_point(|&start| start <= id) {
            0 => self.count() - 1,
            after => after - 1,
        }
    }

    /// The ids that the server at `position` stores with arcs of this length; the whole ring when
    /// its range and an arc together reach around it.
    #[inline]
    pub fn holds(&self, position: usize, arc: Arc) -> Slice {
        let last = self.end(position).wrapping_sub(1);
        if arc.width() + self.width(position) > WHOLE {
            return Slice::new(last, last);
        }
        Slice::new(arc.before(self.start(position)), last)
    }

    /// Whether it stores object `id`: the object's arc meets its range.
    #[inline]
    pub fn stores(&self, position: usize, arc: Arc, id: Id) -> bool {
        self.holds(position, arc).contains(id)
    }

    /// Whether it can answer for all of `slice`. The rule is closed at both ends: a server whose
    /// range begins exactly one arc after `slice.lo` holds all that follows `lo`.
    #[inline]
    pub fn serves(&self, position: usize, arc: Arc, slice: Slice) -> bool {
        self.holds(position, arc).covers(slice)
    }

    /// Positions that can answer for all of `slice`, from the owner of its last id on, clockwise.
    /// A server far away that holds the whole ring can as well, and is not among them.
    pub fn able(&self, arc: Arc, slice: Slice) -> impl Iterator<Item = usize> + '_ {
        let first = self.owner(slice.hi);
        let all = (0..self.count()).map(move |step| (first + step) % self.count());
        all.take_while(move |&position| self.serves(position, arc, slice))
    }

    /// Copies of an object on average: an arc meets `n/p + 1` ranges `[roar 2.1]`.
    pub fn copies(&self, arc: Arc) -> f64 {
        let all: f64 = (0..self.count()).map(|at| self.holds(at, arc).share()).sum();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn clause_2_1_an_arc_is_rounded_up() {
        assert_eq!(Arc::of(1).width(), WHOLE);
        assert_eq!(Arc::of(2).width(), 1 << 63);
        assert_eq!(Arc::of(3).width(), WHOLE / 3 + 1);
    }

    #[test]
    fn clause_2_1_the_serving_rule_is_closed() {
        // Two halves, p = 4: the second half begins at 2^63 and holds what follows 2^62.
        let ring = Ring::equal(&[7, 9]);
        let (arc, quarter) = (Arc::of(4), 1u64 << 62);
        assert_eq!(ring.server(1), 9);
        assert!(ring.serves(1, arc, Slice::new(quarter, 2 * quarter)));
        assert!(!ring.serves(1, arc, Slice::new(quarter - 1, 2 * quarter)));
        // The last id of its range is u64::MAX; id 0 is not its own.
        assert!(ring.serves(1, arc, Slice::new(3 * quarter, u64::MAX)));
        assert!(!ring.serves(1, arc, Slice::new(3 * quarter, 0)));
    }

    #[test]
    fn clause_2_1_a_server_stores_one_part_and_its_own_range() {
        let ring = Ring::equal(&(0..48).collect::<vec::Vec<u32>>());
        let copies = ring.copies(Arc::of(8));
        assert!((copies - 7.0).abs() < 1e-9, "r + 1 of r = 6: {copies}");
        // One server, and ranges that reach around with an arc: everything, and no more.
        assert_eq!(Ring::equal(&[3]).holds(0, Arc::of(5)).width(), WHOLE);
        assert_eq!(Ring::equal(&[3, 4]).holds(0, Arc::of(1)).width(), WHOLE);
    }

    /// Slices are compared with sets, on a ring of sixteen places that are far apart.
    #[test]
    fn clause_2_10_slices_are_joined_and_cut_as_sets_are() {
        let place = |at: u64| (at % 16) << 60;
        let all = || (0..16).flat_map(|lo| (0..16).map(move |hi| (lo, hi)));
        let slice = |(lo, hi)| Slice::new(place(lo), place(hi));
        let ids = |slice: Slice| -> Vec<u64> {
            (0..16).map(place).filter(|id| slice.contains(*id)).collect()
        };
        for (one, other) in all().flat_map(|one| all().map(move |other| (slice(one), slice(other))))
        {
            let (mine, yours) = (ids(one), ids(other));
            let both = |id: &u64| mine.contains(id) && yours.contains(id);
            let either: Vec<u64> =
                (0..16).map(place).filter(|id| mine.contains(id) || yours.contains(id)).collect();
            let is_one = all().map(slice).any(|slice| ids(slice) == either);
            assert_eq!(one.meets(other), is_one, "{one:?} {other:?}");
            if is_one {
                assert_eq!(ids(one.joined(other)), either, "{one:?} {other:?}");
            }
            let cut = one.within(other).map(ids).unwrap_or_default();
            let kept = mine.iter().filter(|id| both(id)).count();
            let mut common: Vec<u64> = one.common(other).flat_map(ids).collect();
            common.sort_unstable();
            let shared: Vec<u64> = mine.iter().copied().filter(|id| both(id)).collect();
            assert_eq!(common, shared, "{one:?} {other:?}");
            assert!(cut.iter().all(both) && 2 * cut.len() >= kept, "{one:?} {other:?}: {cut:?}");
            // Where what is left is one slice, it is all of that.
            let is_one = all().map(slice).any(|slice| {
                let found = ids(slice);
                found.len() == kept && found.iter().all(both)
            });
            assert!(cut.len() == kept || kept == 0 || !is_one, "{one:?} {other:?}: {cut:?}");
        }
    }

    #[test]
    fn clause_2_9_who_follows_takes_over_what_is_left() {
        let ring = Ring::new(vec![(10, 0), (20, 1), (30, 2), (40, 3)]).expect("a ring");
        let left = ring.without(|server| server == 1 || server == 2).expect("two stay");
        assert_eq!((left.servers(), left.start(0), left.start(1)), (&[0, 3][..], 10, 20));
        // The last and the first are gone: the second owns what wraps.
        let left = ring.without(|server| server == 3 || server == 0).expect("two stay");
        assert_eq!((left.server(left.owner(45)), left.server(left.owner(5))), (1, 1));
        assert_eq!(ring.without(|_| true), None);
        assert_eq!((ring.position(2), left.position(0)), (Some(2), None));
    }

    #[test]
    fn a_range_may_wrap_or_be_one_id() {
        let ring = Ring::new(vec![(5, 0), (6, 1), (u64::MAX, 2)]).expect("a ring");
        assert_eq!((ring.width(0), ring.width(2)), (1, 6));
        assert_eq!(
            (ring.owner(5), ring.owner(6), ring.owner(4), ring.owner(u64::MAX)),
            (0, 1, 2, 2)
        );
        assert_eq!(Ring::new(vec![(5, 0), (5, 1)]), Err(RingError::Twice(5)));
        assert_eq!(Ring::new(vec![]), Err(RingError::Empty));
    }
}
