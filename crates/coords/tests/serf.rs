//! serf's coordinates beside the Go package itself ([htrae 3.3, H10]).
//!
//! A program in Go drew starting places and 10,000 measurements from the generator below, told them
//! to 24 clients of `hashicorp/serf/coordinate` and printed their states; `data/serf-0.11.0.txt`
//! has them. The same measurements are told to ours here.

use cavy_coords::predictors::serf::{Client, Coordinate};
use cavy_core::{Purpose, Stream};

/// SplitMix64, which is a few lines in any language.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

const CLIENTS: u64 = 24;

/// The values of a client in the order of the recording.
fn parts(coordinate: &Coordinate) -> Vec<f64> {
    let Coordinate { place, height, error, adjustment } = coordinate;
    place.iter().copied().chain([*height, *error, *adjustment]).collect()
}

#[test]
fn ten_thousand_updates_end_where_those_of_the_go_package_do() {
    let recorded: Vec<(u64, usize, Vec<f64>)> = include_str!("data/serf-0.11.0.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let bits = |word: &&str| f64::from_bits(u64::from_str_radix(word, 16).expect("bits"));
            let number = |word: &str| word.parse().expect("a number");
            (number(words[0]), number(words[1]) as usize, words[2..].iter().map(bits).collect())
        })
        .collect();
    let mut draws = Draws(1);
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| {
            let place = std::array::from_fn(|_| draws.below(200_001) as f64 / 1e6 - 0.1);
            let height = (1 + draws.below(20_000)) as f64 / 1e6;
            Client::at(Coordinate { place, height, error: 1.5, adjustment: 0.0 })
        })
        .collect();
    // No two places ever meet, so nothing is drawn at random on either side.
    let mut rng = Stream::keyed(1, 0, Purpose::Test);
    let untouched = rng.clone();
    let (mut compared, mut worst) = (0, 0.0f64);
    for step in 1..=10_000u64 {
        let i = draws.below(CLIENTS);
        let j = (i + 1 + draws.below(CLIENTS - 1)) % CLIENTS;
        let (a, b) = (i.min(j), i.max(j));
        let base = 1_000_000 + (a * 7_919 + b * 104_729) % 300 * 1_000_000;
        let mut rtt_ns = (base + draws.below(20_000_000)) as i64;
        match draws.below(200) {
            0 => rtt_ns = 0,
            1 => rtt_ns = -5,
            2 => rtt_ns = 11_000_000_000,
            3 => rtt_ns = 9_000_000_000,
            _ => {}
        }
        let whole = (rtt_ns / 1_000_000_000) as f64;
        let rtt_s = whole + (rtt_ns % 1_000_000_000) as f64 / 1e9;
        let other = *clients[j as usize].coordinate();
        clients[i as usize].update(j as u32, &other, rtt_s, &mut rng);
        for (_, client, theirs) in recorded.iter().filter(|(at, ..)| *at == step) {
            let ours = parts(clients[*client].coordinate());
            assert_eq!(ours.len(), theirs.len());
            for (ours, theirs) in ours.iter().zip(theirs) {
                worst = worst.max((ours - theirs).abs());
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 44 * 11);
    assert!(worst <= 1e-9, "a part differs by {worst} s");
    assert_eq!(rng, untouched);
}
