//! The source's fabric under full Homa for a tenth of a second: wall time, processor time and
//! memory.
//!
//! 144 hosts, 4 spines, W3 as published at 80 % load, Poisson arrivals.
//! `cargo bench --bench paper -- MS` simulates another number of milliseconds.

use cavy_bench::print_machine;
use cavy_core::Span;
use cavy_homa::{Config, Cutoffs, Homa};
use cavy_lab::net::traffic::OpenLoop;
use cavy_lab::net::{Bins, Network, Setup, Topology, Unobserved, run};
use cavy_lab::pending::Wheel;
use cavy_workload::sizes::{Framing, Published, rate_per_s};
use cpu_time::ThreadTime;
use std::time::Instant;

const HOSTS: u32 = 144;

/// The most memory this process has had, in MB, where the kernel says so.
fn memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kb| kb / 1e3)
}

fn main() {
    print_machine();
    let ms = std::env::args().find_map(|arg| arg.parse::<u64>().ok()).unwrap_or(100);
    let sizes = Published::W3.sizes();
    let rate = rate_per_s(&sizes, &Framing::default(), 0.8, 10e9);
    let network = Network::new(Topology::paper());
    let setup = Setup::new(network, 1, Span::from_ms(ms), Bins::deciles(&sizes));
    let setup = Setup { drain: Span::ZERO, ..setup };
    let traffic = OpenLoop::all_to_all(HOSTS, sizes, rate).start(HOSTS, 1).expect("legal");
    let cutoffs = Cutoffs::new(8, &[469, 5521, 15267]).expect("ascending");
    let config = std::sync::Arc::new(Config::simulator(cutoffs, 4));
    let (wall, cpu) = (Instant::now(), ThreadTime::now());
    let make = |_| Homa::sharing(&config).expect("legal");
    let report = run(&setup, make, traffic, &mut Wheel::new(), &mut Unobserved);
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    let hops = report.packets.hops as f64;
    println!(
        "| simulated ms | wall s | processor s | ns/packet-hop | hops | messages | memory MB |"
    );
    println!("|---|---|---|---|---|---|---|");
    println!(
        "| {ms} | {wall:.1} | {cpu:.1} | {:.0} | {hops:.0} | {} | {} |",
        cpu * 1e9 / hops,
        report.messages.submitted,
        memory_mb().map_or("n/a".to_string(), |mb| format!("{mb:.0}")),
    );
}
