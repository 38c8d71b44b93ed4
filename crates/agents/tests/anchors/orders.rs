//! What the lab says of anchors that ran live: the same distances, many orders of probes. It tells
//! whether that run was one of those, and why one-sided updates gain less there than on all 213
//! anchors. `cavy live coords study` runs agents live, beside the lab's replay of their own order.
//!
//! `cargo test -p cavy-agents --test anchors orders -- --nocapture` prints the table of
//! docs/performance.md.

use super::{Anchor, anchors};
use cavy_coords::Config;
use cavy_coords::predictors::globe::Globe;
use cavy_coords::predictors::serf::Serf;
use cavy_coords::predictors::{Learner, Predictor, Probe, Space};
use cavy_coords::start::Known;
use cavy_core::{Instant, Purpose, Span, Stream};

/// Orders of probes.
const ORDERS: u64 = 200;
/// Probes of a node.
const PROBES: u32 = 13;

/// Errors of what is predicted in the end.
fn errors(anchors: &[Anchor], predictor: &dyn Predictor) -> (f64, f64) {
    super::errors(anchors, |a, b| {
        let said = predictor.predict_ms(a as u32, b as u32, Instant::NEVER);
        said.expect("everybody has a coordinate")
    })
}

/// How the next peer is chosen.
#[derive(Clone, Copy, PartialEq)]
enum Choice {
    /// Anybody, as a replay does.
    Evenly,
    /// As agents do: half of the time anybody, a quarter the nearest, a quarter one measured
    /// lately.
    AsAgents,
}

/// Everybody probes in turn, in an order of its own. The 90th percentile of the errors of
/// predictions made before each probe was answered: what a replay counts.
fn run(anchors: &[Anchor], learner: &mut dyn Predictor, choice: Choice, seed: u64) -> f64 {
    let mut before = Vec::new();
    let mut rng = Stream::keyed(seed, 0, Purpose::Destinations);
    let mut draws = Stream::keyed(seed, 0, Purpose::Machine);
    let count = anchors.len() as u64;
    let mut measured: Vec<Vec<u32>> = vec![Vec::new(); anchors.len()];
    let mut now = Instant::ZERO;
    for _ in 0..PROBES {
        for from in 0..anchors.len() as u32 {
            now += Span::from_ms(20);
            let any = ((u64::from(from) + 1 + rng.below(count - 1)) % count) as u32;
            let to = match (choice, rng.below(4)) {
                (Choice::AsAgents, 0) => {
                    let ms = |to: u32| learner.predict_ms(from, to, now).unwrap_or(f64::MAX);
                    let others = (0..anchors.len() as u32).filter(|to| *to != from);
                    others.min_by(|a, b| ms(*a).total_cmp(&ms(*b))).unwrap_or(any)
                }
                (Choice::AsAgents, 1) => {
                    let known = &measured[from as usize];
                    known.get(any as usize % known.len().max(1)).copied().unwrap_or(any)
                }
                _ => any,
            };
            if !measured[from as usize].contains(&to) {
                measured[from as usize].push(to);
            }
            let rtt_ms = anchors[from as usize].rtt_ms[to as usize];
            let said = learner.predict_ms(from, to, now).expect("everybody has a coordinate");
            before.push((said - rtt_ms).abs());
            learner.learn(&Probe { from, to, rtt_ms, at: now }, &mut draws);
        }
    }
    before.sort_by(f64::total_cmp);
    before[before.len() * 9 / 10]
}

/// Values of all orders, in order of size.
struct Spread(Vec<f64>);

impl Spread {
    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }
}

fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    Spread(all)
}

#[test]
fn a_live_run_of_twenty_anchors_is_one_of_the_orders_of_the_lab() {
    let anchors = anchors();
    let count = anchors.len() as u32;
    let globe = || {
        let known = |anchor: &Anchor| (Known { address: Some(anchor.said), country: None }, 0);
        Globe::new(Config::default(), anchors.iter().map(known)).in_whole_numbers()
    };
    let geo = errors(&anchors, &Learner::new(globe()));
    println!("p50 / p90 of absolute errors after {PROBES} probes a node, and p90 of those before");
    println!("each probe, ms; medians of {ORDERS} orders, with the least and the greatest");
    println!("geolocation {:.1} / {:.1}", geo.0, geo.1);
    fn orders<S: Space>(
        anchors: &[Anchor],
        space: impl Fn() -> S,
        symmetric: bool,
        choice: Choice,
    ) -> Vec<(f64, f64, f64)> {
        let one = |seed| {
            let mut learner = Learner::new(space()).symmetric(symmetric);
            let before = run(anchors, &mut learner, choice, seed);
            let (p50, p90) = errors(anchors, &learner);
            (p50, p90, before)
        };
        (0..ORDERS).map(one).collect()
    }
    let say = |name: &str, all: &[(f64, f64, f64)]| {
        let (p50, p90) = (spread(all.iter().map(|e| e.0)), spread(all.iter().map(|e| e.1)));
        let of = |s: &Spread| format!("{:.1} ({:.1} to {:.1})", s.at(0.5), s.at(0.0), s.at(1.0));
        let before = spread(all.iter().map(|e| e.2));
        println!("{name:34} {} / {}; before each probe {}", of(&p50), of(&p90), of(&before));
        (p50, p90)
    };
    let serf = orders(&anchors, || Serf::new(count), false, Choice::Evenly);
    say("serf, evenly", &serf);
    let mut ratios = Vec::new();
    for (name, symmetric, choice) in [
        ("one-sided, evenly", false, Choice::Evenly),
        ("one-sided, as agents choose", false, Choice::AsAgents),
        ("symmetric, evenly", true, Choice::Evenly),
        ("symmetric, as agents choose", true, Choice::AsAgents),
    ] {
        let all = orders(&anchors, globe, symmetric, choice);
        let (p50, p90) = say(name, &all);
        let after = spread(all.iter().zip(&serf).map(|(a, b)| a.1 / b.1));
        let before = spread(all.iter().zip(&serf).map(|(a, b)| a.2 / b.2));
        for (ratio, what) in [(after, "after all"), (before, "before each")] {
            let [low, middle, high] = [0.05, 0.5, 0.95].map(|share| ratio.at(share));
            println!("{:34} p90 over serf's {what} {middle:.2} ({low:.2} to {high:.2})", "");
        }
        ratios.push((p50, p90));
    }
    // The live run of docs/performance.md: 22.3 / 98.2 one-sided and 19.1 / 84.4 symmetric.
    for (live, (p50, p90)) in [((22.3, 98.2), &ratios[1]), ((19.1, 84.4), &ratios[3])] {
        assert!((p50.at(0.0)..=p50.at(1.0)).contains(&live.0), "{live:?}");
        assert!((p90.at(0.0)..=p90.at(1.0)).contains(&live.1), "{live:?}");
    }
}
