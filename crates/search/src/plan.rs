//! Plans: which server answers for which slice, and what to do when one is dead.

use crate::cost::Load;
use crate::ring::{Arc, Id, Ring, Slice, WHOLE};
use alloc::vec::Vec;
use core::fmt;

/// One sub-query: `server` answers for `slice` and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// Who.
    pub server: u32,
    /// For which ids.
    pub slice: Slice,
}

/// Why a plan would not meet every object once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// There is no part.
    Empty,
    /// A part does not begin where the one before it ends.
    Torn {
        /// Where the one before ends.
        end: Id,
        /// Where the part begins.
        begin: Id,
    },
    /// Parts go around the ring more than once.
    Twice,
    /// A server would answer for ids that it does not hold.
    NotHeld(Part),
}

impl core::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Empty => write!(f, "a plan has at least one part"),
            Fault::Torn { end, begin } => {
                write!(f, "a part ends at {end:#x}, the next begins at {begin:#x}")
            }
            Fault::Twice => write!(f, "parts go around the ring more than once"),
            Fault::NotHeld(part) => {
                write!(f, "server {} does not hold all of {:?}", part.server, part.slice)
            }
        }
    }
}

/// Whether the parts, in any order, meet every id once, each on a server that may answer for it.
pub fn verify(parts: &[Part], may: impl Fn(u32, Slice) -> bool) -> Result<(), Fault> {
    let mut sorted: Vec<Part> = parts.to_vec();
    sorted.sort_unstable_by_key(|part| part.slice.hi);
    let Some(last) = sorted.last() else { return Err(Fault::Empty) };
    let mut end = last.slice.hi;
    let mut width = 0;
    for part in &sorted {
        if part.slice.lo != end {
            return Err(Fault::Torn { end, begin: part.slice.lo });
        }
        end = part.slice.hi;
        width += part.slice.width();
        if !may(part.server, part.slice) {
            return Err(Fault::NotHeld(*part));
        }
    }
    if width == WHOLE { Ok(()) } else { Err(Fault::Twice) }
}

/// From now until the last part is done, if nothing else is sent meanwhile. Two parts of one server
/// follow each other `[roar 0.4]`.
pub fn finish(parts: &[Part], loads: &[Load]) -> u64 {
    // Of many parts each server is looked at once.
    if parts.len() > 64 {
        let mut totals: Vec<u64> = loads.iter().map(|load| load.free_ns).collect();
        for part in parts {
            totals[part.server as usize] += loads[part.server as usize].cost.of(part.slice.width());
        }
        return parts.iter().map(|part| totals[part.server as usize]).max().unwrap_or(0);
    }
    let one = |part: &Part| total(parts, loads, part.server);
    parts.iter().map(one).max().unwrap_or(0)
}

/// From now until `server` is done with all its parts.
pub fn total(parts: &[Part], loads: &[Load], server: u32) -> u64 {
    let load = &loads[server as usize];
    let own = parts.iter().filter(|part| part.server == server);
    load.free_ns + own.map(|part| load.cost.of(part.slice.width())).sum::<u64>()
}

/// The equal-spaced point `j` of `k`: floor(j 2^64 / k).
#[inline]
pub fn point(j: usize, k: usize) -> Id {
    (j as u128 * WHOLE / k as u128) as u64
}

/// Puts the pieces by which live servers answer for `slice` into `parts`, and the ids that nobody
/// alive holds into `lost` `[roar 2.11]`. `alive` is by position.
///
/// When the owner of the last id is in a dead stretch, the live servers before and after the
/// stretch share the slice: each has half, as far as it holds that. The one before could answer up
/// to its border, and would have nearly all. That always works while the stretch is shorter than an
/// arc and the slice no longer than one; otherwise pieces go to whoever reaches farthest.
pub fn reissue(
    ring: &Ring,
    arc: Arc,
    slice: Slice,
    alive: impl Fn(usize) -> bool,
    parts: &mut Vec<Part>,
    lost: &mut Vec<Slice>,
) {
    if !(0..ring.count()).any(&alive) {
        lost.push(slice);
        return;
    }
    let owner = ring.owner(slice.hi);
    if !alive(owner) {
        let (mut before, mut after) = (owner, owner);
        while !alive(before) {
            before = ring.previous(before);
        }
        while !alive(after) {
            after = ring.next(after);
        }
        let border = ring.end(before).wrapping_sub(1);
        let whole = !slice.contains(border) || border == slice.hi;
        let cut = if whole { border } else { shared(slice, border, ring.holds(after, arc)) };
        let first = Slice::new(slice.lo, cut);
        let rest = if whole { slice } else { Slice::new(cut, slice.hi) };
        let first_works = whole || ring.serves(before, arc, first);
        if first_works && ring.serves(after, arc, rest) {
            if !whole {
                parts.push(Part { server: ring.server(before), slice: first });
            }
            parts.push(Part { server: ring.server(after), slice: rest });
            return;
        }
    }
    cover(ring, arc, slice, alive, parts, lost);
}

/// The same on several rings, each of which has all ids: on the one on which least is lost, of
/// those the next from `first` on; what is lost there is asked for on the others. `alive` is by
/// server.
pub fn reissue_among(
    rings: &[Ring],
    first: usize,
    arc: Arc,
    slice: Slice,
    alive: &impl Fn(u32) -> bool,
    parts: &mut Vec<Part>,
    lost: &mut Vec<Slice>,
) {
    let order = (0..rings.len()).map(|step| &rings[(first + step) % rings.len()]).collect();
    among(order, arc, slice, alive, parts, lost);
}

fn among(
    mut rings: Vec<&Ring>,
    arc: Arc,
    slice: Slice,
    alive: &impl Fn(u32) -> bool,
    parts: &mut Vec<Part>,
    lost: &mut Vec<Slice>,
) {
    let mut best: Option<(u128, usize, Vec<Part>, Vec<Slice>)> = None;
    for (number, ring) in rings.iter().enumerate() {
        let (mut pieces, mut gone) = (Vec::new(), Vec::new());
        let lives = |at: usize| alive(ring.server(at));
        reissue(ring, arc, slice, lives, &mut pieces, &mut gone);
        let ids = gone.iter().map(|slice| slice.width()).sum();
        if best.as_ref().is_none_or(|(least, ..)| ids < *least) {
            best = Some((ids, number, pieces, gone));
        }
    }
    let Some((_, number, pieces, gone)) = best else { return lost.push(slice) };
    rings.remove(number);
    parts.extend(pieces);
    for slice in gone {
        among(rings.clone(), arc, slice, alive, parts, lost);
    }
}

/// Where `slice` is cut in two: in its middle, but no later than `border` and no earlier than where
/// the ids begin that whoever has the second half `holds`.
fn shared(slice: Slice, border: Id, holds: Slice) -> Id {
    let into = |id: Id| u128::from(id.wrapping_sub(slice.lo));
    let least = if slice.contains(holds.lo) { into(holds.lo) } else { 1 };
    let cut = (slice.width() / 2).max(least).min(into(border));
    slice.lo.wrapping_add(cut as u64)
}

/// Pieces of `slice` in order, each by the live server that reaches farthest from there.
fn cover(
    ring: &Ring,
    arc: Arc,
    slice: Slice,
    alive: impl Fn(usize) -> bool,
    parts: &mut Vec<Part>,
    lost: &mut Vec<Slice>,
) {
    let mut lo = slice.lo;
    let mut left = slice.width();
    while left > 0 {
        // How much of what is left each live server holds, without a gap from here on.
        let reach = |position: usize| {
            let held = ring.holds(position, arc);
            if held.width() == WHOLE {
                return left;
            }
            let into = u128::from(lo.wrapping_sub(held.lo));
            held.width().saturating_sub(into).min(left)
        };
        let best = (0..ring.count()).filter(|&at| alive(at)).map(|at| (reach(at), at)).max();
        let (width, lost_here) = match best {
            Some((width, _)) if width > 0 => (width, false),
            // Nobody: up to where the next live server's ids begin.
            _ => {
                let gap = |at: usize| u128::from(ring.holds(at, arc).lo.wrapping_sub(lo));
                let next =
                    (0..ring.count()).filter(|&at| alive(at)).map(gap).filter(|&gap| gap > 0);
                (next.min().unwrap_or(left).min(left), true)
            }
        };
        let piece = Slice::new(lo, lo.wrapping_add(width as u64));
        match (lost_here, best) {
            (false, Some((_, at))) => parts.push(Part { server: ring.server(at), slice: piece }),
            _ => lost.push(piece),
        }
        lo = piece.hi;
        left -= width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const QUARTER: u64 = 1 << 62;

    #[test]
    fn a_plan_that_is_torn_doubled_or_not_held_is_refused() {
        let part = |server, lo: u64, hi: u64| Part { server, slice: Slice::new(lo, hi) };
        let half = 2 * QUARTER;
        assert_eq!(verify(&[part(0, 0, half), part(1, half, 0)], |_, _| true), Ok(()));
        let torn = [part(0, 0, half), part(1, half + 1, 0)];
        assert_eq!(verify(&torn, |_, _| true), Err(Fault::Torn { end: half, begin: half + 1 }));
        assert_eq!(verify(&[part(0, 7, 7), part(1, 7, 7)], |_, _| true), Err(Fault::Twice));
        assert_eq!(verify(&[], |_, _| true), Err(Fault::Empty));
        let one = part(3, 7, 7);
        assert_eq!(verify(&[one], |_, _| false), Err(Fault::NotHeld(one)));
    }

    #[test]
    fn clause_2_11_a_dead_server_is_answered_for_by_both_neighbours() {
        let ring = Ring::equal(&[0, 1, 2, 3]);
        let (mut parts, mut lost) = (Vec::new(), Vec::new());
        let slice = Slice::new(QUARTER / 2, QUARTER + QUARTER / 2);
        reissue(&ring, Arc::of(2), slice, |at| at != 1, &mut parts, &mut lost);
        let part = |server, lo, hi| Part { server, slice: Slice::new(lo, hi) };
        let expected =
            vec![part(0, QUARTER / 2, QUARTER - 1), part(2, QUARTER - 1, QUARTER + QUARTER / 2)];
        assert_eq!((parts, lost), (expected, vec![]));
    }

    #[test]
    fn clause_2_11_both_neighbours_have_half_as_far_as_they_hold_it() {
        let ring = Ring::equal(&[0, 1, 2, 3]);
        let halves = |arc: Arc, lo: Id| {
            let (mut parts, mut lost) = (Vec::new(), Vec::new());
            let slice = Slice::new(lo, lo.wrapping_add(QUARTER));
            reissue(&ring, arc, slice, |at| at != 1, &mut parts, &mut lost);
            let held = |part: &Part| ring.serves(part.server as usize, arc, part.slice);
            assert!(lost.is_empty() && parts.iter().all(held));
            parts.iter().map(|part| (part.server, part.slice.width())).collect::<Vec<_>>()
        };
        let (half, whole) = (u128::from(QUARTER / 2), u128::from(QUARTER));
        // The border is at three quarters of the slice, at a half, at a quarter: who ends there has
        // no more.
        assert_eq!(halves(Arc::of(2), QUARTER / 4), [(0, half), (2, half)]);
        assert_eq!(halves(Arc::of(2), QUARTER / 2), [(0, half - 1), (2, half + 1)]);
        assert_eq!(
            halves(Arc::of(2), 3 * (QUARTER / 4)),
            [(0, half / 2 - 1), (2, whole - half / 2 + 1)]
        );
        // With p = 3 server 2 holds the ids from two thirds of the first quarter on, and no more.
        let begins = ring.holds(2, Arc::of(3)).lo;
        assert!(begins > QUARTER / 16 + QUARTER / 2);
        let first = u128::from(begins - QUARTER / 16);
        assert_eq!(halves(Arc::of(3), QUARTER / 16), [(0, first), (2, whole - first)]);
    }

    #[test]
    fn clause_2_11_a_stretch_as_long_as_an_arc_loses_one_id() {
        // p = 4 on four servers: an arc is as long as a range, and id 2^62 is on server 1 alone.
        let ring = Ring::equal(&[0, 1, 2, 3]);
        let (mut parts, mut lost) = (Vec::new(), Vec::new());
        let slice = Slice::new(QUARTER / 2, QUARTER + QUARTER / 2);
        reissue(&ring, Arc::of(4), slice, |at| at != 1, &mut parts, &mut lost);
        assert_eq!(lost, vec![Slice::new(QUARTER - 1, QUARTER)]);
        let met: u128 = parts.iter().map(|part| part.slice.width()).sum();
        assert_eq!(met + 1, slice.width());
    }
}
