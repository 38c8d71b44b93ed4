//! What the benchmarks share: a clock, a median, a histogram small enough to be a floor.
//!
//! A benchmark here measures several ways to do one thing, in turns, and prints the median of
//! [`TURNS`]: a machine that others use as well slows all of them down at the same time, so the
//! ratios hold when the absolute numbers do not.

pub mod log_linear;
pub mod queueing;

use cpu_time::ThreadTime;

/// Measurements of each contender.
pub const TURNS: usize = 5;

/// CPU nanoseconds of this thread that `work` takes, per one of its `operations`. CPU time and not
/// wall time, because preemption by others is no part of the cost.
pub fn ns_per(operations: u64, work: impl FnOnce()) -> f64 {
    let start = ThreadTime::now();
    work();
    start.elapsed().as_nanos() as f64 / operations as f64
}

/// The median of an odd number of measurements.
pub fn median(mut measurements: Vec<f64>) -> f64 {
    assert!(measurements.len() % 2 == 1, "the median of an even number is ambiguous");
    measurements.sort_by(f64::total_cmp);
    measurements[measurements.len() / 2]
}

/// Measures all contenders in turns, [`TURNS`] times; the median of each, in order.
pub fn in_turns(contenders: &mut [&mut dyn FnMut() -> f64]) -> Vec<f64> {
    let mut measured = vec![Vec::with_capacity(TURNS); contenders.len()];
    for _ in 0..TURNS {
        for (contender, measured) in contenders.iter_mut().zip(&mut measured) {
            measured.push(contender());
        }
    }
    measured.into_iter().map(median).collect()
}

/// Prints what the numbers depend on: the processor.
pub fn print_machine() {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
    println!("# {model}, {cores} cores; thread CPU time, median of {TURNS} interleaved turns");
}
