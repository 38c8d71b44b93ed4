//! A service with made-up nodes, to put load on.
//!
//! `cargo run --release -p cavy-agents --example crowd -- 100000 8500`, then
//!
//! ```sh
//! cavy load http://127.0.0.1:8500 --rate 2000 --duration 60s $(for n in $(seq 7 2503 99999); do
//!     echo --type "n$n=/v1/nearest?from=n$n&k=10"; done)
//! ```
//!
//! Half of the nodes live in a dozen times a dozen cities, where hundreds are near each other; the
//! others anywhere. A quarter are servers. Two round trips for each node were reported. With a
//! folder as a third argument they are kept there, and read again before anybody is answered.

use cavy_agents::directory::log::Log;
use cavy_agents::directory::{Change, Directory, NodeChange, ProbesChange};
use cavy_agents::http::{Options, Server, now_s};
use cavy_agents::service::{Limits, Service};
use cavy_coords::Config;
use cavy_core::{Purpose, Stream};
use cavy_places::Places;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Memory of this process, and the most it ever had, as the kernel counts it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        let kib = line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024 / 1_000_000
    };
    format!("{} MB, at most {} MB", of("VmRSS:"), of("VmHWM:"))
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = cavy_clock::now();
    let done = work();
    let took_s = cavy_clock::now().since(begun).as_us() / 1e6;
    println!("{what}: {took_s:.1} s; memory {}", memory());
    done
}

fn crowd(count: u64) -> Directory {
    let mut directory = Directory::new(Config::default());
    let mut rng = Stream::keyed(9, 0, Purpose::Test);
    for node in 0..count {
        let city = (rng.below(12) as f64 * 10.0 - 40.0, rng.below(12) as f64 * 25.0 - 140.0);
        let far = (140.0 * rng.unit() - 70.0, 340.0 * rng.unit() - 170.0);
        let near = (city.0 + rng.unit(), city.1 + rng.unit());
        directory.apply(&Change::Node(NodeChange {
            id: format!("n{node}"),
            address: Some(if node % 2 == 0 { near } else { far }),
            class: if node % 4 == 0 { "server" } else { "player" }.to_string(),
            ..NodeChange::default()
        }));
    }
    for _ in 0..count / 1_000 {
        let mut any = || format!("n{}", rng.below(count));
        let ends: Vec<(String, String)> = (0..2_000).map(|_| (any(), any())).collect();
        let probes = ends.into_iter().map(|(from, to)| (from, to, 5.0 + 250.0 * rng.unit()));
        let probes = probes.collect();
        let change = ProbesChange { source: None, first: 0, probes, at_s: now_s() };
        directory.apply(&Change::Probes(change));
    }
    directory
}

#[allow(clippy::disallowed_methods)] // A command of its own: arguments are its input.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, else_: u64| words.get(at).map_or(Ok(else_), |word| word.parse());
    let (count, port) = (number(0, 100_000)?, number(1, 8_500)?);
    let (log, directory) = match words.get(2).map(Path::new) {
        None => (None, timed("nodes made", || crowd(count))),
        Some(folder) => {
            if !folder.exists() {
                let directory = timed("nodes made", || crowd(count));
                let (log, ..) = Log::open(folder, Config::default())?;
                timed("snapshot written", || log.compact(&directory))?;
            }
            let open = || Log::open(folder, Config::default());
            let (log, directory, loaded) = timed("snapshot read", open)?;
            println!("{loaded:?}");
            (Some(log), directory)
        }
    };
    let limits = Limits { nodes: 10_000_000, ..Limits::default() };
    let service = Service::new(directory, log, Places::default(), limits, true);
    let at = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port)?));
    let server = Server::start(Arc::new(service), &Options::new(at), |line| println!("{line}"))?;
    println!("http://{}", server.address());
    std::thread::park();
    Ok(())
}
