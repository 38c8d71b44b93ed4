//! Runs the smallest transport on 16 hosts at 50 % load of W3 and prints its slowdowns.

mod transport;

use cavy_core::Span;
use cavy_lab::net::traffic::OpenLoop;
use cavy_lab::net::{Bins, Network, Rate, Setup, Topology, Unobserved, run};
use cavy_lab::pending::Wheel;
use cavy_workload::sizes::{Framing, Published, rate_per_s};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let network = Network::new(Topology::star(16, Rate::gbps(10), Span::ZERO)?);
    let sizes = Published::W3.sizes();
    let rate = rate_per_s(&sizes, &Framing::default(), 0.5, 10e9);
    let setup = Setup {
        warmup: Span::from_ms(2),
        ..Setup::new(network, 1, Span::from_ms(10), Bins::deciles(&sizes))
    };
    setup.check()?;
    let traffic = OpenLoop::all_to_all(16, sizes, rate).start(16, 1)?;
    let make = |_| transport::Blast::default();
    let report = run(&setup, make, traffic, &mut Wheel::new(), &mut Unobserved);
    println!("up to bytes | messages | median | p99 slowdown");
    for (i, bin) in report.bins.iter().enumerate() {
        let slowdown = |p| report.slowdown(i..i + 1, p).unwrap_or(f64::NAN);
        let (median, p99) = (slowdown(0.5), slowdown(0.99));
        println!(
            "{:>11} | {:>8} | {median:>6.2} | {p99:.2}",
            bin.up_to_bytes,
            bin.slowdown.count()
        );
    }
    println!("{:?}\n{:?}", report.messages, report.packets);
    Ok(())
}
