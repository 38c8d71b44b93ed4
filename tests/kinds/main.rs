//! Plans of every kind, run; and all other tests of the room `kinds`.
//!
//! One program in a package of its own. Reading, drawing and ranking plans is generic, so whoever
//! tests it compiles it again; in the room `kinds`, whose worlds are optimised, that took seven
//! minutes of a processor for eight programs. Unit tests there would compile the room once more.

mod coords;
mod logs;
mod mistakes;
mod network;
mod packet_digests;
mod regions;
mod runner;
mod search;
mod sections;
mod server;
mod services;
mod space;
mod transports;

use cavy_study::outcome::Standing;

/// Judges a point with `usual` seeds from 0 on, or those that `CAVY_SEEDS` says, and prints how
/// often it was called unstable and too short. A verdict may err in one of fifty, and once by
/// chance.
#[expect(clippy::disallowed_methods, reason = "a long proof says how many seeds it runs")]
fn verdict_errs_rarely(what: &str, usual: u64, stable: bool, judge: impl Fn(u64) -> Standing) {
    let seeds = cavy_core::laws::seeds(|name| std::env::var(name).ok(), 0..usual);
    let seen: Vec<Standing> = seeds.map(judge).collect();
    let seeds = seen.len();
    let count = |standing| seen.iter().filter(|&&s| s == standing).count();
    let (unstable, short) = (count(Standing::Unstable), count(Standing::TooShort));
    println!("{what}: {unstable} unstable, {short} too short, of {seeds}");
    let wrong = if stable { unstable } else { count(Standing::Stable) };
    assert!(wrong as f64 <= 1.0 + 0.02 * seeds as f64, "{what}: {wrong} of {seeds}");
}
