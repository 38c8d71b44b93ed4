//! The ten nearest of a million machines, exact, beside asking all of them ([htrae 5.4 H8]).
//!
//! Near is what a prediction says: distance and both heights. Who asks all is a loop over plain
//! arrays; a second loop bounds distances by chords first, as the index does. `kiddo`'s tree knows
//! distances alone, so it is asked for more machines until no height can matter. All of them must
//! find the same. Aim: the index is 100 times as fast as the loop.

use cavy_agents::directory::index::{Index, Search, Seat, cell};
use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_coords::map::FLOOR_MS_PER_KM;
use cavy_coords::sphere::EARTH_RADIUS_KM;
use cavy_coords::{Config, Coordinate, Point, predict_ms};
use cavy_core::{Purpose, Stream};
use kiddo::{ImmutableKdTree, SquaredEuclidean};
use std::num::NonZeroUsize;

const MACHINES: usize = 1_000_000;
const K: usize = 10;
/// Who asks: of all machines, and of a loop that takes long.
const MANY: usize = 2_000;
const FEW: usize = 20;
/// Cities, and how wide they are, degrees.
const CITIES: u64 = 144;
const CITY_DEG: f64 = 1.0;
const HEIGHT_LEAST_MS: f64 = 0.1;

/// One machine of a loop by hand.
#[derive(Clone, Copy)]
struct Plain {
    at: [f64; 3],
    height_ms: f64,
}

/// The nearest so far, nearest first; of those as near the one with the lower number.
struct Best(Vec<(f64, u32)>);

impl Best {
    fn new() -> Best {
        Best(Vec::with_capacity(K + 1))
    }

    fn limit_ms(&self) -> f64 {
        if self.0.len() < K { f64::INFINITY } else { self.0[K - 1].0 }
    }

    fn offer(&mut self, rtt_ms: f64, node: u32) {
        if rtt_ms <= self.limit_ms() {
            let before = |one: &(f64, u32)| one.0 < rtt_ms || one.0 == rtt_ms && one.1 < node;
            let at = self.0.partition_point(before);
            self.0.insert(at, (rtt_ms, node));
            self.0.truncate(K);
        }
    }

    fn nodes(&self) -> Vec<u32> {
        self.0.iter().map(|one| one.1).collect()
    }
}

/// [htrae 2.2] without a case that does not happen; of libm, as the room's own.
#[inline]
fn rtt_ms(a: &Plain, b: &Plain, scale: f64) -> f64 {
    let (p, q) = (a.at, b.at);
    let cross = [p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]];
    let sin = (cross[0] * cross[0] + cross[1] * cross[1] + cross[2] * cross[2]).sqrt();
    let angle = libm::atan2(sin, p[0] * q[0] + p[1] * q[1] + p[2] * q[2]);
    scale * angle + (a.height_ms + b.height_ms)
}

fn by_loop(all: &[Plain], from: u32, scale: f64) -> Best {
    let (own, mut best) = (all[from as usize], Best::new());
    for (node, there) in (0..).zip(all) {
        if node != from {
            best.offer(rtt_ms(&own, there, scale), node);
        }
    }
    best
}

/// The same, and a prediction is made only of those that a chord does not exclude.
fn by_chords(all: &[Plain], from: u32, scale: f64) -> Best {
    let (own, mut best) = (all[from as usize], Best::new());
    for (node, there) in (0..).zip(all) {
        let square: f64 = own.at.iter().zip(&there.at).map(|(a, b)| (a - b) * (a - b)).sum();
        let least_ms = scale * square.sqrt() + (own.height_ms + there.height_ms) - 1e-6;
        if least_ms <= best.limit_ms() && node != from {
            best.offer(rtt_ms(&own, there, scale), node);
        }
    }
    best
}

/// The nearest by distance, ever more of them, until whoever is left is too far at any height.
fn by_tree(tree: &ImmutableKdTree<f64, 3>, all: &[Plain], from: u32, scale: f64) -> Best {
    let own = all[from as usize];
    let mut count = 4 * K;
    loop {
        let mut best = Best::new();
        let asked = NonZeroUsize::new(count.min(all.len())).expect("above zero");
        let near = tree.nearest_n::<SquaredEuclidean>(&own.at, asked);
        for one in near.iter().filter(|one| one.item != u64::from(from)) {
            let node = one.item as u32;
            best.offer(rtt_ms(&own, &all[node as usize], scale), node);
        }
        let farthest = near.last().map_or(0.0, |one| one.distance.sqrt());
        let least_ms = scale * farthest + own.height_ms + HEIGHT_LEAST_MS - 1e-6;
        if least_ms > best.limit_ms() || count >= all.len() {
            return best;
        }
        count *= 4;
    }
}

fn by_index(index: &Index, all: &[Coordinate], from: u32, config: &Config) -> Best {
    let own = all[from as usize];
    let of_seat = |seat: &Seat, _: f64| {
        let there = Coordinate {
            position: seat.place,
            height_ms: seat.height_ms,
            system: seat.system,
            error: 1.0,
            updates: 0,
        };
        predict_ms(&own, &there, config)
    };
    let search = Search {
        from: own.position,
        ms_per_radian: config.line.ms_per_radian(),
        height: (1.0, own.height_ms),
        floor_ms_per_km: FLOOR_MS_PER_KM,
        residual_ms: &|_| 0.0,
        rtt_ms: &of_seat,
        admits: &|node| node != from,
    };
    let mut best = Best::new();
    index.nearest(None, K, &search, &mut best.0);
    best
}

/// A million machines, so many of them in cities.
fn world(in_cities: f64, config: &Config) -> Vec<Coordinate> {
    let mut rng = Stream::keyed(1, 0, Purpose::Test);
    let city = |number: u64| {
        let (row, column) = (number / 12, number % 12);
        (row as f64 * 10.0 - 50.0, column as f64 * 28.0 - 160.0)
    };
    let machine = |_| {
        let place = if rng.unit() < in_cities {
            let (latitude, longitude) = city(rng.below(CITIES));
            let mut off = || CITY_DEG * rng.unit();
            Point::from_degrees(latitude + off(), longitude + off()).expect("on Earth")
        } else {
            Point::random(&mut rng)
        };
        let height_ms = HEIGHT_LEAST_MS + 20.0 * rng.unit();
        Coordinate { height_ms, ..Coordinate::at(place, 0, config) }
    };
    (0..MACHINES).map(machine).collect()
}

fn measure(what: &str, in_cities: f64) {
    let config = Config::default();
    let scale = config.line.ms_per_km * EARTH_RADIUS_KM;
    let all = world(in_cities, &config);
    let plain = |one: &Coordinate| Plain { at: one.position.vector(), height_ms: one.height_ms };
    let plain: Vec<Plain> = all.iter().map(plain).collect();
    let points: Vec<[f64; 3]> = plain.iter().map(|one| one.at).collect();
    let tree = ImmutableKdTree::<f64, 3>::new_from_slice(&points);
    let mut index = Index::default();
    let built_ns = ns_per(MACHINES as u64, || {
        for (node, one) in (0..).zip(&all) {
            let Coordinate { position: place, height_ms, system, .. } = *one;
            index.insert("node", cell(place), Seat { height_ms, place, system, node });
        }
    });
    let mut rng = Stream::keyed(2, 0, Purpose::Test);
    let asks: Vec<u32> = (0..MANY).map(|_| rng.below(MACHINES as u64) as u32).collect();
    for from in &asks[..FEW] {
        let truth = by_loop(&plain, *from, scale).nodes();
        assert_eq!(by_chords(&plain, *from, scale).nodes(), truth);
        assert_eq!(by_tree(&tree, &plain, *from, scale).nodes(), truth);
        assert_eq!(by_index(&index, &all, *from, &config).nodes(), truth);
    }
    let sum = std::cell::Cell::new(0u64);
    let note = |best: &Best| sum.set(sum.get().wrapping_add(best.0[K - 1].1.into()));
    let took = in_turns(&mut [
        &mut || ns_per(MANY as u64, || {
            asks.iter().for_each(|from| note(&by_index(&index, &all, *from, &config)));
        }),
        &mut || ns_per(MANY as u64, || {
            asks.iter().for_each(|from| note(&by_tree(&tree, &plain, *from, scale)));
        }),
        &mut || ns_per(FEW as u64, || {
            asks[..FEW].iter().for_each(|from| note(&by_chords(&plain, *from, scale)));
        }),
        &mut || ns_per(FEW as u64, || {
            asks[..FEW].iter().for_each(|from| note(&by_loop(&plain, *from, scale)));
        }),
    ]);
    println!("\n| ten nearest of 10^6, {what} | us | the loop over it |\n|---|---|---|");
    let names = ["the index", "kiddo's tree", "loop, chords first", "loop over all"];
    for (name, ns) in names.iter().zip(&took) {
        println!("| {name} | {:.1} | {:.1} |", ns / 1e3, took[3] / ns);
    }
    println!("  a machine goes in in {built_ns:.0} ns; sum {}", sum.get());
}

fn main() {
    print_machine();
    measure("anywhere on the globe", 0.0);
    measure("half of them in 144 cities", 0.5);
}
