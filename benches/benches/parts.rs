//! What a simulated sub-query costs: the lab, a loop by hand that plans as the lab does, and a loop
//! by hand that is given all plans and only adds up when servers are free. All have the same
//! arrivals and the same plans, and must come to the same mean.
//!
//! Aims: at most 3 times a loop by hand with the same plans; 60 times SimPy.
//!
//! `cargo bench --bench parts -- FILE` measures nothing and writes what `peers/simpy_parts.py`
//! needs to simulate the same queries.

use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_core::{Purpose, Stream};
use cavy_kinds::search::SearchPlan;
use cavy_search::ring::WHOLE;
use cavy_search::scheme::{Planner, Roar, Scheme};
use cavy_search::{Cost, Load, Part};
use cavy_study::experiment::Point;
use cavy_study::plan::read::load;
use cavy_study::plan::{Files, Text};
use cavy_study::point::Manner;
use cavy_study::subject::Subject as _;
use std::fmt::Write as _;

const QUERIES: u64 = 20_000;
const SPEEDS: [f64; 4] = [0.5, 0.75, 1.25, 1.5];
/// Fixed part, and scanning everything at speed 1.
const COST_MS: (f64, f64) = (5.0, 1_000.0);
const LOAD: f64 = 0.5;
const SEED: u64 = 1;

/// The plan of one size, as a user would write it.
fn plan(n: usize, p: u32) -> Point<SearchPlan> {
    let text = format!(
        "kind = \"search\"\ntitle = \"bench\"\nservers = {n}\nspeeds = {SPEEDS:?}\norder = \
         \"interleaved\"\nfixed_ms = {}\ndocuments = 5_000_000\ndocument_us = {}\np = {p}\nload = \
         {LOAD}\n[[schemes]]\nscheme = \"roar\"\n[run]\nqueries = {QUERIES}\n\
         warmup_queries = 0\nreplications = 1\n",
        COST_MS.0,
        COST_MS.1 / 5_000.0
    );
    let (name, files) = ("bench", &Files::NONE);
    let text = Text { text: &text, name, files, overrides: &[], quick: false };
    let mut loaded = load::<SearchPlan>(&text).expect("a plan");
    loaded.points.swap_remove(0)
}

/// Servers, and who plans.
struct Town {
    costs: Vec<Cost>,
    planner: Planner,
    gap_ns: f64,
}

impl Town {
    fn new(n: usize, p: u32) -> Town {
        let speeds: Vec<f64> = SPEEDS.into_iter().cycle().take(n).collect();
        let order: Vec<u32> = (0..n as u32).collect();
        let planner = Planner::new(Scheme::Roar(Roar::PLAIN), &speeds, &order, p);
        let (fixed_ns, scan_ns) = ((COST_MS.0 * 1e6) as u64, COST_MS.1 * 1e6);
        let cost =
            |speed: &f64| Cost { fixed_ns, scan_ns: (scan_ns / speed).round().max(1.0) as u64 };
        let costs = speeds.iter().map(cost).collect();
        let total: f64 = speeds.iter().sum();
        let gap_ns = 1e9 / (LOAD * total / (COST_MS.1 / 1e3));
        Town { costs, planner: planner.expect("a planner"), gap_ns }
    }

    /// A loop by hand that plans. Tells of every query when it came, and its parts.
    fn by_hand(&mut self, mut tell: impl FnMut(u64, &[Part])) -> f64 {
        let mut arrivals = Stream::keyed(SEED, 0, Purpose::Arrivals);
        let mut draws = Stream::keyed(SEED, 0, Purpose::Machine);
        let alive = vec![true; self.costs.len()];
        let mut free_at = vec![0u64; self.costs.len()];
        let (mut loads, mut parts, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let (mut clock, mut sum) = (0.0f64, 0u64);
        for _ in 0..QUERIES {
            clock -= libm::log(arrivals.unit()) * self.gap_ns;
            let now = clock as u64;
            loads.clear();
            let each = free_at.iter().zip(&self.costs);
            let load = |(free, cost): (&u64, &Cost)| Load {
                free_ns: free.saturating_sub(now),
                cost: *cost,
            };
            loads.extend(each.map(load));
            self.planner.plan(&loads, &alive, &mut draws, &mut parts, &mut lost);
            let mut end = now;
            for part in &parts {
                let at = part.server as usize;
                free_at[at] = free_at[at].max(now) + self.costs[at].of(part.slice.width());
                end = end.max(free_at[at]);
            }
            tell(now, &parts);
            sum += end - now;
        }
        sum as f64 / QUERIES as f64 / 1e6
    }
}

/// A loop by hand that is given all plans: server and service time of each part.
fn replay(n: usize, queries: &[(u64, u32)], parts: &[(u32, u64)]) -> f64 {
    let mut free_at = vec![0u64; n];
    let (mut sum, mut from) = (0u64, 0);
    for &(now, count) in queries {
        let mut end = now;
        for &(server, service) in &parts[from..from + count as usize] {
            let free = &mut free_at[server as usize];
            *free = (*free).max(now) + service;
            end = end.max(*free);
        }
        from += count as usize;
        sum += end - now;
    }
    sum as f64 / queries.len() as f64 / 1e6
}

/// The lab's mean in milliseconds.
fn lab(point: &Point<SearchPlan>) -> f64 {
    let scenario = point.plan.scenario(&Files::NONE).expect("a scenario");
    let run = SearchPlan::replicate(&scenario, SEED, 0, &Manner::default()).expect("a run");
    let summed = point.plan.summarize(&scenario, &[run]);
    summed.data.latency.mean_ms.map_or(f64::NAN, |mean| mean.value)
}

/// For SimPy: ranges, costs, and every query with the ids of its parts.
fn written(n: usize, p: u32) -> String {
    let mut town = Town::new(n, p);
    let ring = town.planner.rings()[0].clone();
    let mut text = format!("{n} {p}\n");
    for at in 0..ring.count() {
        let server = ring.server(at);
        let Cost { fixed_ns, scan_ns } = town.costs[server as usize];
        let _ = writeln!(text, "{} {server} {fixed_ns} {scan_ns}", ring.start(at));
    }
    let costs = town.costs.clone();
    let mut rows = String::new();
    let mean = town.by_hand(|now, parts| {
        let _ = write!(rows, "{now}");
        for part in parts {
            let service = costs[part.server as usize].of(part.slice.width());
            let _ = write!(rows, " {}:{service}", part.server);
        }
        rows.push('\n');
    });
    let _ = writeln!(text, "{mean:.6}");
    text + &rows
}

fn main() {
    if let Some(file) = std::env::args().skip(1).find(|word| !word.starts_with("--")) {
        std::fs::write(&file, written(48, 8)).expect("a file that can be written");
        return;
    }
    print_machine();
    println!(
        "| servers | parts | lab (ns a sub-query) | loop that plans | lab / loop | loop that is \
         given plans | mean (ms) |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (n, p) in [(48, 8), (1000, 32)] {
        let plain = plan(n, p);
        let mut town = Town::new(n, p);
        let (mut queries, mut parts) = (Vec::new(), Vec::new());
        let costs = town.costs.clone();
        let mean = town.by_hand(|now, own| {
            queries.push((now, own.len() as u32));
            let service = |part: &Part| costs[part.server as usize].of(part.slice.width());
            parts.extend(own.iter().map(|part| (part.server, service(part))));
        });
        assert!(parts.iter().all(|(_, service)| u128::from(*service) < WHOLE));
        let (in_lab, replayed) = (lab(&plain), replay(n, &queries, &parts));
        let same = (in_lab - mean).abs() < 1e-9 && (replayed - mean).abs() < 1e-9;
        assert!(same, "lab {in_lab}, loop {mean}, with plans {replayed}");
        let count = parts.len() as u64;
        let ns = in_turns(&mut [
            &mut || ns_per(count, || assert!(lab(&plain) > 0.0)),
            &mut || ns_per(count, || assert!(town.by_hand(|_, _| {}) > 0.0)),
            &mut || ns_per(count, || assert!(replay(n, &queries, &parts) > 0.0)),
        ]);
        println!(
            "| {n} | {p} | {:.0} | {:.0} | {:.2} | {:.1} | {in_lab:.3} |",
            ns[0],
            ns[1],
            ns[0] / ns[1],
            ns[2]
        );
    }
}
