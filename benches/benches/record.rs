//! What recording one latency costs, beside the smallest histogram that could be written instead.

use cavy_bench::log_linear::LogLinear;
use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_core::{Purpose, Stream};
use cavy_lab::statistics::{Histogram, Series};
use std::hint::black_box;

fn main() {
    print_machine();
    let mut stream = Stream::keyed(1, 0, Purpose::Test);
    let latencies: Vec<u64> =
        (0..1 << 16).map(|_| (-1e5 * libm::log(stream.unit())) as u64).collect();
    let rounds = 100;
    let operations = rounds * latencies.len() as u64;
    let (mut histogram, mut floor, mut series) =
        (Histogram::new(), LogLinear::new(), Series::new());
    let each = |record: &mut dyn FnMut(&[u64])| {
        ns_per(operations, || (0..rounds).for_each(|_| record(black_box(&latencies))))
    };
    let ns = in_turns(&mut [
        &mut || each(&mut |all| all.iter().for_each(|&ns| histogram.record(ns))),
        &mut || each(&mut |all| all.iter().for_each(|&ns| floor.record(ns))),
        &mut || each(&mut |all| all.iter().for_each(|&ns| series.record(ns as f64))),
    ]);
    black_box((histogram.quantile(0.99), floor.quantile(0.99), series.count()));
    println!("| what | ns/record |");
    println!("|---|---|");
    for (what, ns) in ["Histogram", "by hand, 7 bits, counts only", "Series"].iter().zip(ns) {
        println!("| {what} | {ns:.1} |");
    }
}
