//! What is lost when servers die at once, exactly `[roar 0.14]`.

use crate::ring::{Arc, Id, Ring, Slice};
use alloc::vec;
use alloc::vec::Vec;

/// Ids that no live server of any ring holds. `alive` is by server.
pub fn unheld(rings: &[Ring], arc: Arc, alive: impl Fn(u32) -> bool) -> u128 {
    let mut lost = vec![Slice::new(0, 0)];
    for ring in rings {
        let gone = unheld_on(ring, arc, &alive);
        let both = |one: &Slice| gone.iter().flat_map(|other| one.common(*other)).collect();
        lost = lost.iter().flat_map(|one| -> Vec<Slice> { both(one) }).collect();
    }
    lost.iter().map(|slice| slice.width()).sum()
}

/// Ids that no live server of one ring holds.
fn unheld_on(ring: &Ring, arc: Arc, alive: impl Fn(u32) -> bool) -> Vec<Slice> {
    let n = ring.count();
    let alive = |at: usize| alive(ring.server(at));
    let Some(first) = (0..n).find(|&at| alive(at)) else { return vec![Slice::new(0, 0)] };
    let (mut lost, mut stretch) = (Vec::new(), 0);
    for step in 1..=n {
        let at = (first + step) % n;
        if !alive(at) {
            stretch += ring.width(at);
            continue;
        }
        // Ids from the stretch's begin to one arc before its end are on no live server.
        let ids = (stretch + 1u128).saturating_sub(arc.width());
        if ids > 0 {
            let before = ring.start(at).wrapping_sub(stretch as u64).wrapping_sub(1);
            lost.push(Slice::new(before, before.wrapping_add(ids as u64)));
        }
        stretch = 0;
    }
    lost
}

/// The fewest live servers, of all rings together, that hold the same id. `alive` is by server.
pub fn holders_least(rings: &[Ring], arc: Arc, alive: impl Fn(u32) -> bool) -> u32 {
    let holders = |ring: &Ring, id: Id| {
        let holds = |at: &usize| alive(ring.server(*at)) && ring.stores(*at, arc, id);
        (0..ring.count()).filter(holds).count() as u32
    };
    // Going around, the count falls only behind the last id that somebody holds.
    let ends = rings.iter().flat_map(|ring| (0..ring.count()).map(|at| ring.end(at)));
    ends.map(|id| rings.iter().map(|ring| holders(ring, id)).sum()).min().unwrap_or(0)
}

/// Natural logarithm of C(n, k).
fn choices_ln(n: u32, k: u32) -> f64 {
    (0..k).map(|i| libm::log(f64::from(n - i)) - libm::log(f64::from(i + 1))).sum()
}

fn choices(n: u32, k: u32) -> f64 {
    if k > n { 0.0 } else { libm::exp(choices_ln(n, k)) }
}

/// The probability that among `dead` of `n` servers in a circle, any set alike, some `run` follow
/// one another. `run` is 1 to n.
pub fn run_of(n: u32, dead: u32, run: u32) -> f64 {
    if dead < run {
        return 0.0;
    }
    if dead == n {
        return 1.0;
    }
    // Cut the circle after a live server: n - dead stretches of dead ones, each shorter than `run`.
    // Sets without a run, counted with a marked live server, are compositions times n over the
    // live ones.
    let live = (n - dead) as usize;
    let mut ways = vec![0.0; dead as usize + 1];
    ways[0] = 1.0;
    for _ in 0..live {
        let mut next = vec![0.0; dead as usize + 1];
        for (sum, slot) in next.iter_mut().enumerate() {
            let least = sum.saturating_sub(run as usize - 1);
            *slot = ways[least..=sum].iter().sum();
        }
        ways = next;
    }
    let sets = ways[dead as usize] * f64::from(n) / live as f64;
    1.0 - sets / choices(n, dead)
}

/// The probability that all members of some cluster are among `dead` of p r servers.
pub fn cluster_of(p: u32, r: u32, dead: u32) -> f64 {
    let n = p * r;
    let most = dead / r;
    let term = |j: u32| {
        let ways = choices_ln(p, j) + choices_ln(n - j * r, dead - j * r) - choices_ln(n, dead);
        let sign = if j % 2 == 1 { 1.0 } else { -1.0 };
        sign * libm::exp(ways)
    };
    (1..=most.min(p)).map(term).sum()
}

/// The mean share of objects whose `copies` servers are all among `dead` of `n`.
pub fn share(n: u32, copies: u32, dead: u32) -> f64 {
    if dead < copies {
        return 0.0;
    }
    (0..copies).map(|i| f64::from(dead - i) / f64::from(n - i)).product()
}

/// Loss by drawing: who is dead in turn, so that worlds and exact counts can be compared.
pub fn drawn(n: u32, dead: u32, rng: &mut cavy_core::Stream) -> Vec<bool> {
    let mut alive = vec![true; n as usize];
    let mut left = dead.min(n);
    // Each server in turn, with the chance that it is among those still to be chosen.
    for at in 0..n {
        if rng.below(u64::from(n - at)) < u64::from(left) {
            alive[at as usize] = false;
            left -= 1;
        }
    }
    alive
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::WHOLE;

    #[test]
    fn clause_0_14_runs_and_clusters_have_the_exact_values() {
        // p, f, any id lost: ROAR, PTN.
        for (p, f, roar, ptn) in [
            (8, 10, 0.00074, 0.00014),
            (8, 20, 0.1002, 0.0252),
            (16, 5, 0.0265, 0.0093),
            (16, 10, 0.2675, 0.1090),
            (16, 20, 0.9605, 0.7284),
            (24, 2, 0.0426, 0.0213),
            (24, 10, 0.9087, 0.6930),
        ] {
            let (a, b) = (run_of(48, f, 48 / p), cluster_of(p, 48 / p, f));
            assert!((a - roar).abs() <= 6e-5, "p {p}, f {f}: a run {a} for {roar}");
            assert!((b - ptn).abs() <= 6e-5, "p {p}, f {f}: a cluster {b} for {ptn}");
        }
        // More than one id: a run longer than r.
        for (p, f, more) in [(8, 10, 0.00007), (8, 20, 0.0345), (16, 10, 0.0446), (24, 10, 0.268)] {
            let found = run_of(48, f, 48 / p + 1);
            assert!((found - more).abs() <= 6e-4, "p {p}, f {f}: {found} for {more}");
        }
    }

    #[test]
    fn a_stretch_loses_what_lies_an_arc_before_its_end() {
        let ring = Ring::equal(&(0..48).collect::<Vec<u32>>());
        let arc = Arc::of(8);
        let rings = [ring];
        let lost = |from: u32, to: u32| unheld(&rings, arc, |at| !(from..to).contains(&at));
        assert_eq!((lost(3, 8), lost(0, 48)), (0, WHOLE));
        // Six in a row are as long as an arc, give or take an id by rounding.
        assert!(lost(3, 9) <= 1);
        assert!(lost(3, 10).abs_diff(WHOLE / 48) <= 2);
    }

    #[test]
    fn the_fewest_holders_are_where_most_neighbours_died() {
        let ring = Ring::equal(&(0..48).collect::<Vec<u32>>());
        let rings = [ring];
        let least = |dead: &[u32]| holders_least(&rings, Arc::of(8), |at| !dead.contains(&at));
        assert_eq!((least(&[]), least(&[5]), least(&[0, 6, 12])), (6, 5, 5));
        assert_eq!((least(&[45, 46, 47, 0, 2]), least(&[45, 46, 47, 0, 1])), (1, 1));
        assert_eq!(least(&[3, 4, 5, 6, 7, 8]), 0);
    }

    /// Two rings of random ranges, random deaths, and an arc: by ids at which the count may change.
    #[test]
    fn clause_2_6_4_of_several_rings_that_is_lost_which_none_holds() {
        let mut draws = cavy_core::Stream::keyed(4, 0, cavy_core::Purpose::Test);
        let mut some = 0;
        for round in 0..2_000 {
            let m = 1 + draws.below(3) as u32;
            let rings: Vec<Ring> = (0..m)
                .map(|ring| {
                    let n = 1 + draws.below(6) as u32;
                    let ranges = (0..n).map(|at| (draws.below(64) << 58, 8 * ring + at));
                    let mut ranges: Vec<(Id, u32)> = ranges.collect();
                    ranges.sort_unstable();
                    ranges.dedup_by_key(|range| range.0);
                    Ring::new(ranges).expect("distinct starts")
                })
                .collect();
            let dead = draws.bits();
            let alive = |server: u32| dead >> server & 1 == 0;
            let arc = Arc::wide(u128::from(1 + draws.below(40)) << 58);
            let holders = |id: Id| {
                let of = |ring: &Ring| {
                    let holds = |at: &usize| alive(ring.server(*at)) && ring.stores(*at, arc, id);
                    (0..ring.count()).filter(holds).count() as u32
                };
                rings.iter().map(of).sum::<u32>()
            };
            // Borders are at multiples of 2^58, and slices of ids end at one or right before it.
            let places = || (0..64u64).map(|place| place << 58);
            let inside = places().filter(|place| holders(place + 1) == 0).count() as u128;
            let edges = places().flat_map(|place| [place, place.wrapping_sub(1)]);
            let least = edges.clone().chain(places().map(|place| place + 1)).map(holders).min();
            assert_eq!(Some(holders_least(&rings, arc, alive)), least, "{round}: {rings:?}");
            let lost = unheld(&rings, arc, alive);
            some += u32::from(lost > 0 && lost < WHOLE);
            assert!(lost.abs_diff(inside << 58) <= 128, "{round}: {lost:#x}, {inside} of 64");
            assert_eq!(lost == 0, least != Some(0), "{round}: {rings:?}");
        }
        assert!(some > 200, "{some}");
    }
}
