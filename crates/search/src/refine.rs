//! What can be made better about a plan that the sweep has found `[roar 2.6]`.

use crate::cost::{Cost, Load};
use crate::plan::{Part, finish, total};
use crate::ring::{Arc, Ring, Slice, WHOLE};
use alloc::vec::Vec;

/// Where each server is, by number: on which ring, at which position.
#[derive(Clone, Debug)]
pub struct Places {
    at: Vec<Option<(u32, u32)>>,
}

impl Places {
    /// Of all servers on these rings.
    pub fn new(rings: &[Ring]) -> Places {
        let servers =
            rings.iter().flat_map(|ring| ring.servers()).max().map_or(0, |&most| most + 1);
        let mut at = alloc::vec![None; servers as usize];
        for (number, ring) in rings.iter().enumerate() {
            for (position, &server) in ring.servers().iter().enumerate() {
                at[server as usize] = Some((number as u32, position as u32));
            }
        }
        Places { at }
    }

    /// The ring and position of `server`.
    ///
    /// # Panics
    /// When it is on no ring.
    #[inline]
    pub fn of(&self, server: u32) -> (usize, usize) {
        match self.at[server as usize] {
            Some((ring, position)) => (ring as usize, position as usize),
            None => panic!("server {server} is on no ring"),
        }
    }
}

/// What refining needs between queries.
#[derive(Clone, Debug, Default)]
pub struct Desk {
    /// Another plan.
    pub(crate) parts: Vec<Part>,
    /// From now until each server is done with its parts, in nanoseconds.
    totals: Vec<u64>,
}

impl Desk {
    fn count(&mut self, loads: &[Load]) {
        self.totals.clear();
        self.totals.extend(loads.iter().map(|load| load.free_ns));
        for part in &self.parts {
            self.totals[part.server as usize] +=
                loads[part.server as usize].cost.of(part.slice.width());
        }
    }

    fn finish(&self) -> u64 {
        self.parts.iter().map(|part| self.totals[part.server as usize]).max().unwrap_or(0)
    }
}

/// Moves borders between neighbouring parts of `plan`, so that both are done at one time, as far as
/// both servers hold what they get `[roar 2.6.1]`. The parts must be in the order of the ring.
/// Does nothing unless the plan is done sooner by more than `threshold` of what it takes.
pub fn adjust(
    rings: &[Ring],
    places: &Places,
    arc: Arc,
    loads: &[Load],
    threshold: f64,
    plan: &mut Vec<Part>,
    desk: &mut Desk,
) {
    const PASSES: u32 = 20;
    if plan.len() < 2 {
        return;
    }
    desk.parts.clone_from(plan);
    desk.count(loads);
    let before = desk.finish();
    // The slowest part gains nothing before its neighbours have passed on what they were given, so
    // a pass without gain is no reason to stop.
    for _ in 0..PASSES {
        for left in 0..plan.len() {
            balance(rings, places, arc, loads, desk, left);
        }
    }
    if (desk.finish() as f64) < before as f64 * (1.0 - threshold) {
        core::mem::swap(plan, &mut desk.parts);
    }
}

/// Moves the border between part `left` and the next.
fn balance(
    rings: &[Ring],
    places: &Places,
    arc: Arc,
    loads: &[Load],
    desk: &mut Desk,
    left: usize,
) {
    let right = (left + 1) % desk.parts.len();
    let (one, other) = (desk.parts[left], desk.parts[right]);
    if one.server == other.server {
        return;
    }
    let border = one.slice.hi;
    let (width, both) = (one.slice.width(), one.slice.width() + other.slice.width());
    // How far the border may go on: to the last id that the left server holds.
    let (ring, position) = places.of(one.server);
    let held = rings[ring].holds(position, arc);
    let on = if held.width() == WHOLE { both } else { u128::from(held.hi.wrapping_sub(border)) };
    // And back: to where the right server's ids begin.
    let (ring, position) = places.of(other.server);
    let held = rings[ring].holds(position, arc);
    let back = if held.width() == WHOLE { both } else { u128::from(border.wrapping_sub(held.lo)) };
    let (least, most) = (width.saturating_sub(back).max(1), (width + on).min(both - 1));
    let (a, b) = (loads[one.server as usize].cost, loads[other.server as usize].cost);
    let fixed = |part: Part, cost: Cost| {
        desk.totals[part.server as usize] - cost.scanning(part.slice.width())
    };
    let (fixed_a, fixed_b) = (fixed(one, a), fixed(other, b));
    let share = both as f64 / WHOLE as f64;
    let scans = (a.scan_ns + b.scan_ns) as f64;
    if scans == 0.0 {
        return;
    }
    let ahead = fixed_b as f64 - fixed_a as f64;
    let even = (ahead + b.scan_ns as f64 * share) / scans * WHOLE as f64;
    let width = (even.max(0.0) as u128).clamp(least, most.max(least));
    let border = one.slice.lo.wrapping_add(width as u64);
    desk.parts[left].slice.hi = border;
    desk.parts[right].slice.lo = border;
    desk.totals[one.server as usize] = fixed_a + a.scanning(width);
    desk.totals[other.server as usize] = fixed_b + b.scanning(both - width);
}

/// Splits the slowest part in two, up to `most` times, each half for whoever holds it, has no part
/// yet and is done first `[roar 2.6.2]`. Stops when a split gains no more than `threshold` for what
/// it splits. Two parts may be the slowest together, so the plan as a whole is judged in the end:
/// it stays as it was unless it is done sooner by more than `threshold`.
#[allow(clippy::too_many_arguments)]
pub fn split(
    rings: &[Ring],
    arc: Arc,
    loads: &[Load],
    most: u32,
    threshold: f64,
    usable: impl Fn(u32) -> bool,
    salt: u32,
    plan: &mut Vec<Part>,
    desk: &mut Desk,
) {
    desk.parts.clone_from(plan);
    let before = finish(plan, loads);
    let better = |now: u64, than: u64| (now as f64) < than as f64 * (1.0 - threshold);
    for _ in 0..most {
        let parts = &mut desk.parts;
        let times =
            parts.iter().enumerate().map(|(at, part)| (total(parts, loads, part.server), at));
        let Some((time, slowest)) = times.max() else { break };
        let part = parts[slowest];
        if part.slice.width() < 2 {
            break;
        }
        let middle = part.slice.lo.wrapping_add((part.slice.width() / 2) as u64);
        let halves = [Slice::new(part.slice.lo, middle), Slice::new(middle, part.slice.hi)];
        let taken = |server: u32| {
            parts.iter().enumerate().any(|(at, part)| at != slowest && part.server == server)
        };
        let first_done = |half: Slice, also: Option<u32>| {
            let able = rings.iter().flat_map(|ring| ring.able(arc, half).map(|at| ring.server(at)));
            let free =
                able.filter(|&server| usable(server) && !taken(server) && also != Some(server));
            let done = |server: u32| loads[server as usize].finish(half.width());
            free.map(|server| (done(server), mixed(server, salt), server)).min()
        };
        // Whichever half has fewer candidates suffers if it chooses last, so both orders are tried.
        let pair = |first: usize| {
            let (a, _, one) = first_done(halves[first], None)?;
            let (b, _, other) = first_done(halves[1 - first], Some(one))?;
            let servers = if first == 0 { [one, other] } else { [other, one] };
            Some((a.max(b), servers))
        };
        let Some((done, servers)) = [pair(0), pair(1)].into_iter().flatten().min() else { break };
        if !better(done, time) {
            break;
        }
        parts[slowest] = Part { server: servers[0], slice: halves[0] };
        parts.insert(slowest + 1, Part { server: servers[1], slice: halves[1] });
    }
    if better(finish(&desk.parts, loads), before) {
        core::mem::swap(plan, &mut desk.parts);
    }
}

/// A number that orders servers otherwise for each salt: who of several equal ones is taken must
/// not be the same for all front ends `[roar 2.5]`.
#[inline]
pub fn mixed(server: u32, salt: u32) -> u32 {
    (server ^ salt).wrapping_mul(0x9E37_79B1).rotate_left(15).wrapping_mul(0x85EB_CA77)
}
