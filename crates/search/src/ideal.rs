//! The floor: every server could answer for anything `[roar 3.4]`. Nobody can build it.

use crate::cost::Load;
use crate::plan::Part;
use crate::ring::{Slice, WHOLE};
use alloc::vec::Vec;

/// Chooses the `p` servers that would be done first with equal parts, and gives them parts such
/// that all are done at one time. Returns the finish, from now.
pub fn plan(p: usize, loads: &[Load], usable: impl Fn(u32) -> bool, parts: &mut Vec<Part>) -> u64 {
    parts.clear();
    let width = WHOLE / p as u128;
    let servers = (0..loads.len() as u32).filter(|&server| usable(server));
    let mut order: Vec<(u64, u32)> =
        servers.map(|server| (loads[server as usize].finish(width), server)).collect();
    order.sort_unstable();
    order.truncate(p);
    if order.is_empty() {
        return 0;
    }
    let load = |server: u32| &loads[server as usize];
    // Ids that `server` can scan until `time`.
    let until = |server: u32, time: u64| {
        let Load { free_ns, cost } = *load(server);
        let left = time.saturating_sub(free_ns + cost.fixed_ns);
        ((u128::from(left) << 64) / u128::from(cost.scan_ns.max(1))).min(WHOLE)
    };
    let met = |time: u64| order.iter().map(|&(_, s)| until(s, time)).sum::<u128>() >= WHOLE;
    // All parts equal is possible, so the latest of those is late enough.
    let mut most = order.iter().map(|&(finish, _)| finish).max().unwrap_or(0);
    while !met(most) {
        most = most.saturating_mul(2).max(1);
    }
    let mut least = 0;
    while least + 1 < most {
        let middle = least + (most - least) / 2;
        if met(middle) { most = middle } else { least = middle }
    }
    let (mut lo, mut left) = (0u64, WHOLE);
    for &(_, server) in &order {
        let width = until(server, most).min(left);
        if width == 0 {
            continue;
        }
        let hi = lo.wrapping_add(width as u64);
        parts.push(Part { server, slice: Slice::new(lo, hi) });
        (lo, left) = (hi, left - width);
    }
    crate::plan::finish(parts, loads)
}
