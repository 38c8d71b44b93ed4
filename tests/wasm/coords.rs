//! Golden runs of predictors of round trips: what they say of each probe before they learn from it.
//!
//! Included by `crates/coords/tests/golden.rs` and by the package `cavy-wasm-check`.

use cavy_coords::history::Memory;
use cavy_coords::map::SERVERS;
use cavy_coords::predictors::globe::Globe;
use cavy_coords::predictors::pyxida::Pyxida;
use cavy_coords::predictors::serf::Serf;
use cavy_coords::predictors::survey::{Parts, Survey};
use cavy_coords::predictors::vivaldi::Vivaldi;
use cavy_coords::predictors::{Learner, Predictor, Probe, Space};
use cavy_coords::start::Known;
use cavy_coords::{Config, Point};
use cavy_core::{Digest, Instant, Purpose, Stream};

/// One golden run: name, digest, predictor of machines at these places.
pub type Golden = (&'static str, u64, fn(&[Point]) -> Box<dyn Predictor>);

const MACHINES: u32 = 60;
const PROBES: u64 = 4_000;

/// Every way to represent a coordinate, and all that is learnt beside coordinates.
pub const COORDS: [Golden; 5] = [
    ("Htrae", 0x22F5_8B9E_3CDD_D671, |places| {
        learner(Globe::new(Config::with_line(SERVERS), known(places)))
    }),
    ("Vivaldi", 0x9000_82AF_4C77_FD0B, |_| learner(Vivaldi::<3>::new(MACHINES))),
    ("Pyxida", 0x1DF6_AF11_E472_E0A0, |_| learner(Pyxida::<4>::new(MACHINES))),
    ("serf", 0xCFFB_B2B8_6C20_E0E1, |_| learner(Serf::new(MACHINES))),
    ("survey", 0xED9D_3785_9AA4_D068, |places| {
        let config = Config::with_line(SERVERS);
        Box::new(Survey::new(config, Parts::default(), Memory::default(), known(places)))
    }),
];

fn learner<S: Space + 'static>(space: S) -> Box<dyn Predictor> {
    Box::new(Learner::new(space).symmetric(true).with_history(Memory::default(), MACHINES))
}

/// Where a database says that they are: of a tenth elsewhere, and of a tenth nowhere.
fn known(places: &[Point]) -> Vec<(Known, u32)> {
    let said = |(machine, place): (usize, &Point)| {
        let address = match machine % 10 {
            3 => places.get(machine + 1).copied(),
            7 => None,
            _ => Some(*place),
        };
        (Known { address, country: None }, machine as u32 % 4)
    };
    places.iter().enumerate().map(said).collect()
}

/// Runs it and returns the digest found.
pub fn digest(golden: &Golden) -> u64 {
    let mut rng = Stream::keyed(0xCA71, 0, Purpose::Test);
    let places: Vec<Point> = (0..MACHINES).map(|_| Point::random(&mut rng)).collect();
    let mut predictor = golden.2(&places);
    let mut digest = Digest::new();
    for n in 0..PROBES {
        let from = rng.below(MACHINES.into()) as u32;
        let to = (from + 1 + rng.below(u64::from(MACHINES) - 1) as u32) % MACHINES;
        let km = places[from as usize].distance_km(places[to as usize]);
        let rtt_ms = SERVERS.rtt_ms(km) * (1.0 + 0.5 * rng.unit() * rng.unit());
        let probe = Probe { from, to, rtt_ms, at: Instant::from_ns(n * 3_000_000_000) };
        digest.fold(predictor.meet(&probe, &mut rng).map_or(0, f64::to_bits));
    }
    digest.value()
}
