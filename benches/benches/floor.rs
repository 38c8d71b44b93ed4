//! The event loops that a patient person writes by hand, and the lab beside them in the same run.
//!
//! No components, no policy interface, no digest: the standard heap, two events a request, Poisson
//! arrivals at load 0.8, first come first served, an exact histogram. Mean sojourn times are
//! printed because a fast wrong answer is no floor.

use cavy_bench::log_linear::LogLinear;
use cavy_bench::queueing::{Model, mean_and_p99_us};
use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_core::{Purpose, Stream};
use cavy_sched::{Policy, darc};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const REQUESTS: u64 = 2_000_000;
const LOAD: f64 = 0.8;

/// The key's lowest bits: which worker completes, or that a request arrives.
const ARRIVAL: u128 = 0xFF;

#[inline]
fn exponential(stream: &mut Stream, mean_ns: f64) -> u64 {
    (-mean_ns * libm::log(stream.unit())) as u64
}

/// 1 or 100 us with equal probability.
#[inline]
fn bimodal(stream: &mut Stream) -> u64 {
    if stream.bits() >> 63 == 0 { 1_000 } else { 100_000 }
}

/// What one run says.
struct Outcome {
    mean_us: f64,
    p99_us: f64,
}

/// One run of `WORKERS` servers and one queue, with service times from `draw`.
fn run<const WORKERS: usize>(
    seed: u64,
    mean_service_ns: f64,
    draw: impl Fn(&mut Stream) -> u64,
) -> Outcome {
    let mut gaps = Stream::keyed(seed, 0, Purpose::Arrivals);
    let mut services = Stream::keyed(seed, 0, Purpose::Services);
    let gap_ns = mean_service_ns / (LOAD * WORKERS as f64);
    let mut pending = BinaryHeap::with_capacity(WORKERS + 1);
    let mut queue: VecDeque<u64> = VecDeque::with_capacity(1 << 16);
    let mut idle: Vec<usize> = (0..WORKERS).collect();
    let mut arrived = [0u64; WORKERS];
    let mut histogram = LogLinear::new();
    let (mut sequence, mut sum, mut completed) = (0u64, 0u128, 0u64);
    let key = |at: u64, sequence: &mut u64, what: u128| {
        *sequence += 1;
        Reverse(u128::from(at) << 64 | u128::from(*sequence) << 8 | what)
    };
    pending.push(key(exponential(&mut gaps, gap_ns), &mut sequence, ARRIVAL));
    while completed < REQUESTS {
        let Reverse(event) = pending.pop().expect("the next arrival is always pending");
        let (now, what) = ((event >> 64) as u64, event & 0xFF);
        let start = if what == ARRIVAL {
            let next = now + exponential(&mut gaps, gap_ns);
            pending.push(key(next, &mut sequence, ARRIVAL));
            match idle.pop() {
                Some(worker) => Some((worker, now)),
                None => {
                    queue.push_back(now);
                    None
                }
            }
        } else {
            let worker = what as usize;
            let sojourn = now - arrived[worker];
            histogram.record(sojourn);
            sum += u128::from(sojourn);
            completed += 1;
            let waiting = queue.pop_front();
            if waiting.is_none() {
                idle.push(worker);
            }
            waiting.map(|arrival| (worker, arrival))
        };
        if let Some((worker, arrival)) = start {
            arrived[worker] = arrival;
            let done = now + draw(&mut services);
            pending.push(key(done, &mut sequence, worker as u128));
        }
    }
    Outcome {
        mean_us: sum as f64 / completed as f64 / 1e3,
        p99_us: histogram.quantile(0.99) as f64 / 1e3,
    }
}

/// M/M/1 without any events, by Lindley's recursion: what drawing random numbers alone costs.
fn lindley(seed: u64) -> Outcome {
    let mut gaps = Stream::keyed(seed, 0, Purpose::Arrivals);
    let mut services = Stream::keyed(seed, 0, Purpose::Services);
    let mut histogram = LogLinear::new();
    let (mut wait, mut sum) = (0u64, 0u128);
    for _ in 0..REQUESTS {
        let sojourn = wait + exponential(&mut services, 1e3);
        histogram.record(sojourn);
        sum += u128::from(sojourn);
        wait = sojourn.saturating_sub(exponential(&mut gaps, 1e3 / LOAD));
    }
    Outcome {
        mean_us: sum as f64 / REQUESTS as f64 / 1e3,
        p99_us: histogram.quantile(0.99) as f64 / 1e3,
    }
}

/// Runs `model` once, keeping what it says; nanoseconds per request.
fn measure(outcome: &mut Option<Outcome>, model: impl FnOnce() -> Outcome) -> f64 {
    ns_per(REQUESTS, || *outcome = Some(model()))
}

/// The lab on `model` under `policy`, as an outcome like the others.
fn lab(model: &Model, policy: &Policy) -> Outcome {
    let (mean_us, p99_us) = mean_and_p99_us(&model.run(policy, REQUESTS, 1));
    Outcome { mean_us, p99_us }
}

fn main() {
    print_machine();
    let (mut recursion, mut single, mut pool) = (None, None, None);
    let (mut lab_single, mut lab_pool, mut lab_darc) = (None, None, None);
    let darc = Policy::Darc { config: darc::Config::default(), hinted: true };
    let ns = in_turns(&mut [
        &mut || measure(&mut recursion, || lindley(1)),
        &mut || measure(&mut single, || run::<1>(1, 1e3, |s| exponential(s, 1e3))),
        &mut || measure(&mut lab_single, || lab(&Model::single(LOAD), &Policy::CentralFcfs)),
        &mut || measure(&mut pool, || run::<14>(1, 50_500.0, bimodal)),
        &mut || measure(&mut lab_pool, || lab(&Model::bimodal(LOAD), &Policy::CentralFcfs)),
        &mut || measure(&mut lab_darc, || lab(&Model::bimodal(0.9), &darc)),
    ]);
    println!("| model | how | ns/request | over the loop by hand | mean sojourn us | p99 us |");
    println!("|---|---|---|---|---|---|");
    let rows = [
        ("M/M/1, service 1 us", "recursion, no events", recursion, 1),
        ("M/M/1, service 1 us", "event loop by hand", single, 1),
        ("M/M/1, service 1 us", "lab, c-FCFS", lab_single, 1),
        ("M/G/14, service 1 or 100 us", "event loop by hand", pool, 3),
        ("M/G/14, service 1 or 100 us", "lab, c-FCFS", lab_pool, 3),
        ("M/G/14 at load 0.9", "lab, DARC", lab_darc, 3),
    ];
    for (index, (model, how, outcome, floor)) in rows.into_iter().enumerate() {
        let Outcome { mean_us, p99_us } = outcome.expect("every model has run");
        let ratio = ns[index] / ns[floor];
        println!(
            "| {model} | {how} | {:.1} | {ratio:.2} | {mean_us:.2} | {p99_us:.1} |",
            ns[index]
        );
    }
}
