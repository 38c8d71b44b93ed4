//! What is lost when servers die at once, exactly `[roar 0.14]`.

use crate::ring::{Arc, Ring, WHOLE};
use alloc::vec;
use alloc::vec::Vec;

/// Ids that no live server holds. `alive` is by position.
pub fn unheld(ring: &Ring, arc: Arc, alive: impl Fn(usize) -> bool) -> u128 {
    let n = ring.count();
    let Some(first) = (0..n).find(|&at| alive(at)) else { return WHOLE };
    let (mut lost, mut stretch) = (0, 0);
    for step in 1..=n {
        let at = (first + step) % n;
        if alive(at) {
            // Ids from the stretch's begin to one arc before its end are on no live server.
            lost += (stretch + 1u128).saturating_sub(arc.width());
            stretch = 0;
        } else {
            stretch += ring.width(at);
        }
    }
    lost
}

/// The fewest live servers that hold the same id. `alive` is by position.
pub fn holders_least(ring: &Ring, arc: Arc, alive: impl Fn(usize) -> bool) -> u32 {
    let n = ring.count();
    // Going around, the count falls only behind the last id that somebody holds.
    let fewest = |at: usize| {
        let id = ring.end(at);
        (0..n).filter(|&other| alive(other) && ring.stores(other, arc, id)).count() as u32
    };
    (0..n).map(fewest).min().unwrap_or(0)
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
        let lost = |from: usize, to: usize| unheld(&ring, arc, |at| !(from..to).contains(&at));
        assert_eq!((lost(3, 8), lost(0, 48)), (0, WHOLE));
        // Six in a row are as long as an arc, give or take an id by rounding.
        assert!(lost(3, 9) <= 1);
        assert!(lost(3, 10).abs_diff(WHOLE / 48) <= 2);
    }

    #[test]
    fn the_fewest_holders_are_where_most_neighbours_died() {
        let ring = Ring::equal(&(0..48).collect::<Vec<u32>>());
        let least = |dead: &[usize]| holders_least(&ring, Arc::of(8), |at| !dead.contains(&at));
        assert_eq!((least(&[]), least(&[5]), least(&[0, 6, 12])), (6, 5, 5));
        assert_eq!((least(&[45, 46, 47, 0, 2]), least(&[45, 46, 47, 0, 1])), (1, 1));
        assert_eq!(least(&[3, 4, 5, 6, 7, 8]), 0);
    }
}
