//! What a plan of a search query costs, by servers and parts, beside the least that it could take:
//! looking once at every server.
//!
//! Aims: 150 us for 1000 servers and 32 parts; n log p from 16 to 4096 servers [roar E9].

use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_core::{Purpose, Stream};
use cavy_search::scheme::{Planner, Roar, Scheme, Start};
use cavy_search::{Cost, Load};
use std::hint::black_box;

fn main() {
    print_machine();
    println!(
        "| servers | parts | sweep (us) | ns / (n log2 p) | looking (us) | + splits (us) | \
         free, 2p (us) |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (n, p) in
        [(16, 8), (32, 8), (64, 8), (256, 16), (1000, 8), (1000, 32), (1000, 128), (4096, 32)]
    {
        let mut draws = Stream::keyed(1, n as u32, Purpose::Test);
        let speeds: Vec<f64> = (0..n).map(|at| [0.5, 0.75, 1.25, 1.5][at % 4]).collect();
        let order: Vec<u32> = (0..n as u32).collect();
        let loads: Vec<Load> = speeds
            .iter()
            .map(|speed| Load {
                free_ns: draws.below(200_000_000),
                cost: Cost { fixed_ns: 5_000_000, scan_ns: (1e9 / speed) as u64 },
            })
            .collect();
        let alive = vec![true; n];
        let operations = (200_000 / n as u64).max(20);
        let planner =
            |roar| Planner::new(Scheme::Roar(roar), &speeds, &order, p).expect("a planner");
        let free = Roar { start: Start::Free, parts: 2, ..Roar::PLAIN };
        let mut planners =
            [planner(Roar::PLAIN), planner(Roar { splits: 3, ..Roar::PLAIN }), planner(free)];
        let plan = |planner: &mut Planner| {
            let (mut parts, mut lost) = (Vec::new(), Vec::new());
            let mut draws = Stream::keyed(2, 0, Purpose::Test);
            ns_per(operations, || {
                for _ in 0..operations {
                    let loads = black_box(&loads);
                    black_box(planner.plan(loads, &alive, &mut draws, &mut parts, &mut lost));
                }
            })
        };
        let look = || {
            ns_per(operations, || {
                for _ in 0..operations {
                    let all = black_box(&loads).iter();
                    black_box(all.map(|load| load.finish(1 << 58)).max());
                }
            })
        };
        let [sweep, splits, free] = &mut planners;
        let ns = in_turns(&mut [
            &mut || plan(sweep),
            &mut || look(),
            &mut || plan(splits),
            &mut || plan(free),
        ]);
        let log = (p as f64).log2() * n as f64;
        println!(
            "| {n} | {p} | {:.1} | {:.2} | {:.2} | {:.1} | {:.1} |",
            ns[0] / 1e3,
            ns[0] / log,
            ns[1] / 1e3,
            ns[2] / 1e3,
            ns[3] / 1e3
        );
    }
}
