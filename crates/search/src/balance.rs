//! Where borders should be, and the next step there `[roar 2.10]`.
//!
//! Whoever knows what all servers take can go straight to where all would have the same load, and
//! need not compare neighbours: where slow servers stand together, each is about as busy as the
//! next, and the whole stretch has too much. A step takes each border half of its way. A range's
//! width is then halfway between what it was and what is fair, so the greatest load falls, the
//! least rises, and nothing swings, however many borders move at once.

use crate::ring::{Arc, Id, Ring, WHOLE};
use alloc::vec::Vec;

/// How much more each range's server has than would be fair, by position: its width over a fair
/// one. 1 where that is not known. `takes` says what a part takes a server, in nanoseconds.
pub fn loads(ring: &Ring, arc: Arc, takes: impl Fn(u32) -> Option<u64>) -> Vec<f64> {
    let load = |(at, fair): (usize, f64)| ring.width(at) as f64 / fair;
    fair(ring, arc, takes).into_iter().enumerate().map(load).collect()
}

/// Fair widths, by position: as much of the ring as a server is fast. One of which nothing is known
/// keeps what it has. No range gets as long as an arc: its server would be the only one that has
/// some documents.
fn fair(ring: &Ring, arc: Arc, takes: impl Fn(u32) -> Option<u64>) -> Vec<f64> {
    let n = ring.count();
    let is: Vec<f64> = (0..n).map(|at| ring.width(at) as f64).collect();
    let speed = |at: usize| takes(ring.server(at)).map_or(0.0, |ns| 1.0 / ns.max(1) as f64);
    let speeds: Vec<f64> = (0..n).map(speed).collect();
    let most = |at: usize| is[at].max(0.999 * arc.width() as f64);
    let mut fair = is.clone();
    let mut open: Vec<usize> = (0..n).filter(|&at| speeds[at] > 0.0).collect();
    let mut left: f64 = open.iter().map(|&at| is[at]).sum();
    loop {
        let speed: f64 = open.iter().map(|&at| speeds[at]).sum();
        open.iter().for_each(|&at| fair[at] = left * speeds[at] / speed);
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&at| fair[at] > most(at));
        if full.is_empty() || rest.is_empty() {
            return fair;
        }
        for at in full {
            fair[at] = most(at);
            left -= most(at);
        }
        open = rest;
    }
}

/// The ring after a step towards equal loads; `None` when no server is more than `percent` off what
/// is fair. Old and new slices of each server meet, with arcs of this length.
pub fn step(
    ring: &Ring,
    arc: Arc,
    takes: impl Fn(u32) -> Option<u64>,
    percent: u32,
) -> Option<Ring> {
    let fair = fair(ring, arc, takes);
    let most = 1.0 + f64::from(percent) / 100.0;
    let is_off = |(at, fair): (usize, &f64)| {
        let load = ring.width(at) as f64 / fair;
        load > most || load * most < 1.0
    };
    if ring.count() < 2 || !fair.iter().enumerate().any(is_off) {
        return None;
    }
    // How far each border is from where it would be fair, if the first one stayed.
    let (mut is, mut should) = (0u128, 0.0f64);
    let mut off: Vec<i128> = Vec::with_capacity(ring.count());
    for (at, fair) in fair.iter().enumerate() {
        off.push(should.min(WHOLE as f64) as i128 - is as i128);
        is += ring.width(at);
        should += fair;
    }
    // The ring of fair ranges can be turned: least is copied where as many borders move on as back.
    let mut sorted = off.clone();
    sorted.sort_unstable();
    let middle = sorted[sorted.len() / 2];
    (1..64).find_map(|halvings| {
        let start = |at: usize| {
            let moves = (off[at] - middle) >> halvings;
            ring.start(at).wrapping_add(moves as u64)
        };
        let next = moved(ring, start)?;
        let meets = |at: usize| {
            let new = next.position(ring.server(at)).map(|new| next.holds(new, arc));
            new.is_some_and(|new| ring.holds(at, arc).meets(new))
        };
        (0..ring.count()).all(meets).then_some(next)
    })
}

/// The ring with other starts, if servers follow each other as before.
fn moved(ring: &Ring, start: impl Fn(usize) -> Id) -> Option<Ring> {
    let ranges = (0..ring.count()).map(|at| (start(at), ring.server(at))).collect();
    let next = Ring::new(ranges).ok()?;
    let turn = next.position(ring.server(0))?;
    let same = |at: usize| next.server((turn + at) % next.count()) == ring.server(at);
    (0..ring.count()).all(same).then_some(next)
}

/// The ring of everybody when those that are on the ring have the ranges of `next`. Who is out
/// keeps its share of the range of whoever follows it `[roar 2.9]`. `all` has everybody as it was.
pub fn whole(all: &Ring, next: &Ring) -> Option<Ring> {
    let on = |server: u32| next.position(server).is_some();
    let now = all.without(|server| !on(server))?;
    let mut ranges = Vec::with_capacity(all.count());
    for at in 0..all.count() {
        let mut who = at;
        while !on(all.server(who)) {
            who = all.next(who);
        }
        let (old, new) = (now.position(all.server(who))?, next.position(all.server(who))?);
        let into = u128::from(all.start(at).wrapping_sub(now.start(old)));
        let into = into * next.width(new) / now.width(old);
        ranges.push((next.start(new).wrapping_add(into as u64), all.server(at)));
    }
    let ring = Ring::new(ranges).ok()?;
    (ring.without(|server| !on(server)).as_ref() == Some(next)).then_some(ring)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::holders_least;
    use cavy_core::{Purpose, Stream};

    fn most(loads: &[f64]) -> f64 {
        loads.iter().copied().fold(0.0, f64::max)
    }

    fn least(loads: &[f64]) -> f64 {
        loads.iter().copied().fold(f64::MAX, f64::min)
    }

    fn takes(speeds: &[f64]) -> impl Fn(u32) -> Option<u64> {
        move |server| Some((1e9 / speeds[server as usize]) as u64)
    }

    #[test]
    fn clause_2_10_a_step_halves_what_loads_differ_by() {
        for speeds in [[0.5, 0.75, 1.25, 1.5], [0.25, 0.5, 1.0, 2.25]] {
            // Slow ones together, so that borders have a long way to go.
            let speeds: Vec<f64> = (0..48).map(|server| speeds[server / 12]).collect();
            let servers: Vec<u32> = (0..48).collect();
            let mut ring = Ring::equal(&servers);
            let mut before = loads(&ring, Arc::of(8), takes(&speeds));
            let expected = if speeds[0] == 0.5 { 2.0 } else { 4.0 };
            assert!((most(&before) - expected).abs() < 1e-6, "{}", most(&before));
            let mut steps = 0;
            while let Some(next) = step(&ring, Arc::of(8), takes(&speeds), 10) {
                let after = loads(&next, Arc::of(8), takes(&speeds));
                assert!(most(&after) < most(&before) && least(&after) > least(&before));
                (ring, before, steps) = (next, after, steps + 1);
            }
            assert!(steps <= 6 && most(&before) <= 1.1, "{steps}: {}", most(&before));
        }
    }

    #[test]
    fn clause_2_10_steps_keep_order_and_slices_and_come_to_rest() {
        let mut draws = Stream::keyed(5, 0, Purpose::Test);
        for round in 0..400 {
            let n = 2 + draws.below(30) as u32;
            let mut starts: Vec<Id> = (0..n).map(|_| draws.bits()).collect();
            if round % 3 == 0 {
                // Ranges of a few ids beside long ones.
                starts.iter_mut().for_each(|start| *start >>= 48);
            }
            let Ok(mut ring) = Ring::new(starts.into_iter().zip(0..).collect()) else { continue };
            let arc = Arc::of(1 + draws.below(u64::from(n)) as u32);
            let speeds: Vec<f64> = (0..n).map(|_| 0.1 + draws.unit()).collect();
            let known = |server: u32| (round % 5 > 0 || server > 0).then_some(());
            let takes = |server: u32| known(server).and_then(|()| takes(&speeds)(server));
            let mut steps = 0;
            while let Some(next) = step(&ring, arc, takes, 10) {
                let (old, new) = (loads(&ring, arc, takes), loads(&next, arc, takes));
                assert!(most(&new) <= most(&old) * 1.000_001, "{round}: {old:?} to {new:?}");
                for at in 0..ring.count() {
                    let new = next.position(ring.server(at)).expect("everybody stays");
                    assert!(ring.holds(at, arc).meets(next.holds(new, arc)), "{round}");
                }
                let copies =
                    |ring: &Ring| holders_least(core::slice::from_ref(ring), arc, |_| true).min(2);
                assert!(copies(&next) >= copies(&ring), "{round}: {old:?} to {new:?}");
                (ring, steps) = (next, steps + 1);
                assert!(steps < 400, "{round}: it does not come to rest");
            }
        }
    }

    #[test]
    fn clause_2_10_who_is_out_keeps_its_share_of_the_range_it_comes_back_to() {
        let all = Ring::new(alloc::vec![(100, 0), (200, 1), (300, 2), (500, 3)]).expect("a ring");
        let now = all.without(|server| server == 1).expect("three stay");
        // Server 2 has [200, 500) and gets [230, 530).
        let next = Ring::new(alloc::vec![(100, 0), (230, 2), (530, 3)]).expect("a ring");
        let starts = |next: &Ring| {
            whole(&all, next).map(|ring| (0..4).map(|at| ring.start(at)).collect::<Vec<Id>>())
        };
        assert_eq!(starts(&next), Some(alloc::vec![100, 230, 330, 530]));
        assert_eq!(starts(&now), Some(alloc::vec![100, 200, 300, 500]));
    }
}
