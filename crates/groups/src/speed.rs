//! How fast this machine works meanwhile: fixed work, timed on each core all the time.
//!
//! Windows of throughput are compared as if a core were as fast in one as in the other. On a host
//! that is shared with others it is not. So a thread on each core does two pieces of fixed work
//! every 20 ms, about 1 % of the core, and takes the processor time of each: a chain of arithmetic,
//! which goes by the clock of the core, and reads at random from 16 MB, which go by caches and
//! memory. Its threads are ordinary ones, and what they wait for a core is not counted.
//!
//! **What it assumes.** That services do not make the work slower themselves. It holds for
//! arithmetic. It does not hold for reads: whoever uses memory beside them slows them, so that
//! another manner of window, or a changed application, has another speed on the same machine. That
//! is why throughput at equal speed ([`Evening`]) stands beside throughput, and not in its place.

use crate::now;
use crate::usage::cores;
use cavy_core::{Instant, Span};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How often each core is looked at.
const EVERY: Span = Span::from_ms(20);
/// Steps of arithmetic, about 13 us.
const STEPS: u32 = 15_000;
/// Reads, about 220 us.
const READS: u32 = 600;
/// Numbers of four bytes that are read, a power of two.
const TABLE: usize = 1 << 22;
/// Nothing more is kept: three hours on two cores.
const BEATS_MAX: usize = 1 << 20;
/// Fewer windows than this tell nothing of their spread.
const WINDOWS_MIN: usize = 6;

/// Pieces of work a second of processor time, the mean of all cores.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rates {
    /// Arithmetic.
    pub core: f64,
    /// Reads.
    pub memory: f64,
}

#[derive(Clone, Copy, Debug)]
struct Beat {
    at: Instant,
    core: usize,
    rates: Rates,
}

/// Looks at all cores until this is dropped.
#[derive(Debug)]
pub struct Speed {
    over: Arc<AtomicBool>,
    beats: Arc<Mutex<Vec<Beat>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Speed {
    /// Begins.
    ///
    /// # Errors
    /// When cores are not told or threads cannot be started.
    pub fn start() -> io::Result<Speed> {
        let (over, beats) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut speed = Speed { over, beats, threads: Vec::new() };
        for core in cores()? {
            let (over, beats) = (Arc::clone(&speed.over), Arc::clone(&speed.beats));
            let work = move || look(core, &over, &beats);
            speed.threads.push(std::thread::Builder::new().spawn(work)?);
        }
        Ok(speed)
    }

    /// Of looks between two moments; `None` without any.
    pub fn between(&self, from: Instant, to: Instant) -> Option<Rates> {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        mean(beats.iter().filter(|one| one.at >= from && one.at < to))
    }
}

impl Drop for Speed {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The mean of cores, of which one may have been looked at more often than another.
fn mean<'a>(beats: impl Iterator<Item = &'a Beat>) -> Option<Rates> {
    let mut sums: Vec<(usize, f64, Rates)> = Vec::new();
    for Beat { core, rates, .. } in beats {
        match sums.iter_mut().find(|(of, ..)| of == core) {
            Some((_, count, sum)) => {
                *count += 1.0;
                sum.core += rates.core;
                sum.memory += rates.memory;
            }
            None => sums.push((*core, 1.0, *rates)),
        }
    }
    let of = |get: fn(&Rates) -> f64| {
        let each = sums.iter().map(|(_, count, sum)| get(sum) / count);
        each.sum::<f64>() / sums.len() as f64
    };
    (!sums.is_empty()).then(|| Rates { core: of(|sum| sum.core), memory: of(|sum| sum.memory) })
}

fn look(core: usize, over: &AtomicBool, beats: &Mutex<Vec<Beat>>) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    // A core that was taken away since: the thread looks at another.
    let _ = rustix::thread::sched_setaffinity(None, &set);
    let table = vec![9_u32; TABLE];
    let mut number = 1;
    let mut next = now();
    while !over.load(Ordering::Relaxed) {
        let at = now();
        // Once without a clock, since what ran before has left caches and predictions of its own.
        number = arithmetic(number);
        let rates = Rates {
            core: per_s(|| number = arithmetic(number)),
            memory: per_s(|| number = reads(&table, number)),
        };
        let mut beats = beats.lock().unwrap_or_else(PoisonError::into_inner);
        if beats.len() < BEATS_MAX {
            beats.push(Beat { at, core, rates });
        }
        drop(beats);
        next = (next + EVERY).max(at);
        cavy_clock::Wait::Sleep.until(next);
    }
}

fn per_s(work: impl FnOnce()) -> f64 {
    let used_ns = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    };
    let begun = used_ns();
    work();
    1e9 / used_ns().saturating_sub(begun).max(1) as f64
}

/// Each step needs the one before.
fn arithmetic(mut number: u32) -> u32 {
    for _ in 0..STEPS {
        number = (number ^ 0x9e37_79b9).rotate_left(7).wrapping_add(number & 0xff);
    }
    black_box(number)
}

/// Where to read next comes from what was read.
fn reads(table: &[u32], mut number: u32) -> u32 {
    for _ in 0..READS {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        number ^= table[(number >> 4) as usize & (table.len() - 1)];
    }
    black_box(number)
}

/// How throughput goes with speed: by its power of these exponents. Fitted to windows of which
/// nothing but the machine differs, before others are looked at.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Evening {
    /// A speed that counts as even.
    pub even: Rates,
    /// The exponent of [`Rates::core`].
    pub core: f64,
    /// The exponent of [`Rates::memory`].
    pub memory: f64,
}

impl Evening {
    /// How much more is answered at `rates` than at an even one.
    pub fn factor(&self, rates: Rates) -> f64 {
        let core = (rates.core / self.even.core).powf(self.core);
        core * (rates.memory / self.even.memory).powf(self.memory)
    }
}

/// How far windows of an unchanged application differ.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// Windows.
    pub windows: usize,
    /// Standard deviation of throughput from what the other windows of its kind have, percent.
    pub percent: f64,
    /// The same at even speed, each window by the exponents that the others give.
    pub evened_percent: f64,
    /// What does so: by arithmetic, by reads, by both or by neither, as differs least.
    pub evening: Evening,
}

impl Spread {
    /// Of windows of several kinds, each an unchanged application: throughput and speed. `None` of
    /// too few.
    pub fn of(kinds: &[Vec<(f64, Rates)>]) -> Option<Spread> {
        let windows: usize = kinds.iter().map(Vec::len).sum();
        let all = kinds.iter().flatten();
        if windows < WINDOWS_MIN || kinds.iter().any(|kind| kind.len() < 2) {
            return None;
        }
        let part = 1.0 / windows as f64;
        let even = Rates {
            core: all.clone().map(|(_, rates)| rates.core * part).sum(),
            memory: all.map(|(_, rates)| rates.memory * part).sum(),
        };
        let logarithms = |(per_s, rates): &(f64, Rates)| {
            [per_s.ln(), (rates.core / even.core).ln(), (rates.memory / even.memory).ln()]
        };
        let kinds: Vec<Vec<[f64; 3]>> =
            kinds.iter().map(|kind| kind.iter().map(logarithms).collect()).collect();
        let each = [[false, false], [true, false], [false, true], [true, true]];
        let spreads = each.map(|used| left_out(&kinds, used));
        let best = (0..each.len()).min_by(|a, b| spreads[*a].total_cmp(&spreads[*b]))?;
        let [core, memory] = exponents(&centered(&kinds), each[best]);
        Some(Spread {
            windows,
            percent: spreads[0] * 100.0,
            evened_percent: spreads[best] * 100.0,
            evening: Evening { even, core, memory },
        })
    }
}

/// Each row less the mean of its kind.
fn centered(kinds: &[Vec<[f64; 3]>]) -> Vec<[f64; 3]> {
    let mut rows = Vec::new();
    for kind in kinds {
        let mean = mean_of(kind);
        rows.extend(kind.iter().map(|row| [0, 1, 2].map(|at| row[at] - mean[at])));
    }
    rows
}

fn mean_of(rows: &[[f64; 3]]) -> [f64; 3] {
    [0, 1, 2].map(|at| rows.iter().map(|row| row[at]).sum::<f64>() / rows.len() as f64)
}

/// Least squares of the first column by those of the others that are used.
fn exponents(rows: &[[f64; 3]], used: [bool; 2]) -> [f64; 2] {
    let sum = |a: usize, b: usize| rows.iter().map(|row| row[a] * row[b]).sum::<f64>();
    let alone = |at: usize| if sum(at, at) > 0.0 { sum(0, at) / sum(at, at) } else { 0.0 };
    match used {
        [false, false] => [0.0, 0.0],
        [true, false] => [alone(1), 0.0],
        [false, true] => [0.0, alone(2)],
        [true, true] => {
            let whole = sum(1, 1) * sum(2, 2) - sum(1, 2) * sum(1, 2);
            if whole <= 0.0 {
                return [0.0, alone(2)];
            }
            let of =
                |one, other| (sum(0, one) * sum(other, other) - sum(0, other) * sum(1, 2)) / whole;
            [of(1, 2), of(2, 1)]
        }
    }
}

/// Standard deviation of what each window differs from what all others say of it.
fn left_out(kinds: &[Vec<[f64; 3]>], used: [bool; 2]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for kind in 0..kinds.len() {
        for row in 0..kinds[kind].len() {
            let mut others = kinds.to_vec();
            let left = others[kind].remove(row);
            let [core, memory] = exponents(&centered(&others), used);
            let mean = mean_of(&others[kind]);
            let of = |at: usize| left[at] - mean[at];
            sum += (of(0) - core * of(1) - memory * of(2)).powi(2);
            count += 1.0;
        }
    }
    f64::sqrt(sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows whose throughput goes with memory to the power of 0.5, with noise of one percent.
    fn windows(noise: f64) -> Vec<Vec<(f64, Rates)>> {
        let kind = |per_s: f64| {
            let window = |index: u32| {
                let memory = 4_000.0 * (1.0 + 0.1 * f64::from(index % 5));
                let part = 1.0 + noise * f64::from(index * 7 % 3) - noise;
                (per_s * (memory / 4_000.0).sqrt() * part, Rates { core: 70_000.0, memory })
            };
            (0..15).map(window).collect()
        };
        vec![kind(40.0), kind(60.0)]
    }

    #[test]
    fn what_the_machine_does_is_taken_out() {
        let spread = Spread::of(&windows(0.0)).expect("enough windows");
        assert!(spread.percent > 5.0 && spread.evened_percent < 1e-6, "{spread:?}");
        assert!((spread.evening.memory - 0.5).abs() < 1e-9, "{spread:?}");
        let twice = Rates { memory: spread.evening.even.memory * 4.0, ..spread.evening.even };
        assert!((spread.evening.factor(twice) - 2.0).abs() < 1e-6);
        let noisy = Spread::of(&windows(0.01)).expect("enough windows");
        assert!(noisy.evened_percent > 0.5 && noisy.evened_percent < 1.5, "{noisy:?}");
    }

    #[test]
    fn what_does_not_go_with_speed_is_left_alone() {
        let kinds: Vec<Vec<(f64, Rates)>> = (0..2)
            .map(|_| {
                let window = |index: u32| {
                    let rates =
                        Rates { core: 70_000.0, memory: 4_000.0 + f64::from(index * 5 % 7) };
                    (40.0 + f64::from(index % 2), rates)
                };
                (0..14).map(window).collect()
            })
            .collect();
        let spread = Spread::of(&kinds).expect("enough windows");
        assert_eq!((spread.evening.core, spread.evening.memory), (0.0, 0.0));
        assert_eq!(spread.percent, spread.evened_percent);
        assert!(Spread::of(&kinds[..0]).is_none());
    }

    #[test]
    fn cores_count_alike() {
        let beat = |core, memory| Beat { at: now(), core, rates: Rates { core: 1.0, memory } };
        let beats = [beat(0, 10.0), beat(0, 20.0), beat(0, 30.0), beat(1, 40.0)];
        assert_eq!(mean(beats.iter()), Some(Rates { core: 1.0, memory: 30.0 }));
        assert_eq!(mean([].iter()), None);
    }

    #[test]
    fn this_machine_has_a_speed() {
        let (begun, speed) = (now(), Speed::start().expect("threads"));
        std::thread::sleep(std::time::Duration::from_millis(200));
        let rates = speed.between(begun, now()).expect("looks");
        assert!(rates.core > 1_000.0 && rates.memory > 10.0, "{rates:?}");
        assert_eq!(speed.between(now(), now()), None);
    }
}
