//! Where machines ended, and how wrong pairs with each of them are: for a map.

use super::world::World;
use cavy_coords::Point;
use cavy_coords::predictors::Predictor;
use cavy_core::{Instant, Purpose, Stream};
use cavy_lab::statistics::quantile;
use serde::{Deserialize, Serialize};

/// Machines that are drawn, of worlds with more.
const NODES_MAX: u32 = 2_000;
/// Of a machine all pairs are looked at in worlds this small, and elsewhere so many.
const PEERS_ALL: u32 = 500;
const PEERS: u32 = 100;

/// Latitude and longitude, degrees.
pub type Place = (f64, f64);

/// Where machines of one replication ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sketch {
    /// Machines there are.
    pub count: u32,
    /// Those that are drawn.
    pub nodes: Vec<Sketched>,
}

/// A machine on a map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sketched {
    /// Its name.
    pub name: String,
    /// Where predictors were told that it is.
    pub said: Option<Place>,
    /// Where it ended.
    pub now: Place,
    /// Where it is, if that is known.
    pub place: Option<Place>,
    /// Median error of pairs with it before the first probe, milliseconds.
    pub before_ms: Option<f64>,
    /// The same after the last one.
    pub after_ms: Option<f64>,
}

/// Hundredths of a degree are a kilometer: enough for a map, and short.
fn rounded(point: Point) -> Place {
    let (latitude, longitude) = point.degrees();
    ((latitude * 100.0).round() / 100.0, (longitude * 100.0).round() / 100.0)
}

/// Median errors of pairs with each machine that is drawn.
pub fn errors(world: &World, predictor: &dyn Predictor, now: Instant) -> Vec<Option<f64>> {
    let count = world.count();
    let mut rng = Stream::keyed(0, 4, Purpose::Destinations);
    let mut wrong: Vec<f64> = Vec::new();
    let mut of = |one: u32| {
        wrong.clear();
        let mut add = |other: u32| {
            let said = predictor.predict_ms(one, other, now);
            let known = world.rtt_ms(one, other).filter(|_| one != other);
            wrong.extend(said.zip(known).map(|(said, known)| (said - known).abs()));
        };
        if count <= PEERS_ALL {
            (0..count).for_each(&mut add);
        } else {
            (0..PEERS).for_each(|_| add(rng.below(u64::from(count)) as u32));
        }
        wrong.sort_unstable_by(f64::total_cmp);
        Some((quantile::of_sorted(&wrong, 0.5)? * 100.0).round() / 100.0)
    };
    (0..count.min(NODES_MAX)).map(&mut of).collect()
}

/// The sketch; `None` of a predictor that thinks of no places.
pub fn sketch(
    world: &World,
    predictor: &dyn Predictor,
    said: &[Option<Point>],
    before: Vec<Option<f64>>,
    now: Instant,
) -> Option<Sketch> {
    let after = errors(world, predictor, now);
    let errors = before.into_iter().zip(after);
    let machines = world.all().zip(said).zip(errors).zip(0..);
    let nodes: Vec<Sketched> = machines
        .filter_map(|(((machine, said), (before_ms, after_ms)), number)| {
            Some(Sketched {
                now: rounded(predictor.place(number)?),
                said: said.map(rounded),
                place: machine.place.map(rounded),
                name: machine.into_owned().name,
                before_ms,
                after_ms,
            })
        })
        .collect();
    (!nodes.is_empty()).then_some(Sketch { count: world.count(), nodes })
}
