//! Predictors as a plan names them, ready to predict.

use super::plan::{CoordsPlan, FitName, FitPlan, LandmarksPlan, PositionsPlan, PredictorPlan};
use super::world::{Machine, Truth, World};
use cavy_coords::history::Memory;
use cavy_coords::map::Sample;
use cavy_coords::predictors::geolocation::Geolocation;
use cavy_coords::predictors::globe::Globe;
use cavy_coords::predictors::landmarks::{Composition, Legs, Located};
use cavy_coords::predictors::limits::{Chance, Oracle};
use cavy_coords::predictors::pyxida::Pyxida;
use cavy_coords::predictors::serf::Serf;
use cavy_coords::predictors::survey::{Parts, Survey};
use cavy_coords::predictors::vivaldi::Vivaldi;
use cavy_coords::predictors::{Learner, Predictor, Space};
use cavy_coords::start::Known;
use cavy_coords::systems::{Corrected, RADIUS_MAX_KM};
use cavy_coords::{Config, Detours, Line, Point};
use cavy_core::{Purpose, Stream};
use std::borrow::Cow;

/// Pairs that a line is fitted to, of worlds with more.
const FIT_PAIRS_MAX: u64 = 20_000;

/// What predictors of one replication are given.
pub struct Given {
    /// Where each machine is said to be.
    pub places: Vec<Option<Point>>,
    /// The effective system of each machine; 0 where heights are not corrected.
    pub systems: Vec<u32>,
    /// Is this machine known to those with a map of the network?
    pub covered: Vec<bool>,
}

/// Where predictors are told that machines are, before some of it is made wrong.
fn told(world: &World, positions: PositionsPlan) -> Vec<Option<Point>> {
    let of = |machine: Cow<'_, Machine>| match positions {
        PositionsPlan::Said => machine.said,
        PositionsPlan::True => machine.place,
    };
    world.all().map(of).collect()
}

/// What predictors are given in the replication of `seed`.
pub fn given(world: &World, plan: &CoordsPlan, seed: u64) -> Given {
    let mut places = told(world, plan.positions);
    let mut wrong = Stream::keyed(seed, 0, Purpose::Faults);
    for place in places.iter_mut().flatten() {
        if wrong.unit() <= plan.wrong_positions_ratio {
            *place = Point::random(&mut wrong);
        }
    }
    let located = world.all().zip(&places);
    let known = located.filter_map(|(machine, place)| Some((machine.system, (*place)?)));
    let corrected = Corrected::by_radius(known.filter(|(system, _)| *system != 0), RADIUS_MAX_KM);
    let systems = world.all().map(|machine| corrected.effective(machine.system)).collect();
    let mut draws = Stream::keyed(seed, 0, Purpose::Labels);
    let covered = (0..world.count()).map(|_| draws.unit() <= plan.covered_ratio).collect();
    Given { places, systems, covered }
}

/// The line from distance to round trip, fitted where the plan does not give it. `None` where
/// nothing with two places was measured.
pub fn line(world: &World, plan: &CoordsPlan, fit: FitPlan) -> Option<Line> {
    let name = match fit {
        FitPlan::Given(own) => {
            return Some(Line { ms_per_km: own.ms_per_km, base_ms: own.base_ms });
        }
        FitPlan::Fitted(name) => name,
    };
    let places = told(world, plan.positions);
    let mut samples = Vec::new();
    let mut add = |from: u32, to: u32| {
        let ends = places[from as usize].zip(places[to as usize]);
        if let Some(((a, b), rtt_ms)) = ends.zip(world.rtt_ms(from, to)) {
            samples.push(Sample { distance_km: a.distance_km(b), rtt_ms });
        }
    };
    let count = world.count();
    if world.pairs() <= FIT_PAIRS_MAX.max(2_000_000) && !matches!(world.truth, Truth::Players(_)) {
        for from in 0..count {
            (from + 1..count).for_each(|to| add(from, to));
        }
    } else {
        let mut rng = Stream::keyed(0, 0, Purpose::Kinds);
        for _ in 0..FIT_PAIRS_MAX {
            let mut draw = || rng.below(u64::from(count)) as u32;
            add(draw(), draw());
        }
    }
    match name {
        FitName::LeastSquares => Line::least_squares(&samples),
        FitName::LeastAbsolute => Line::least_absolute(&samples),
    }
}

/// The fit that a predictor is given, if it wants one.
pub fn fit(predictor: &PredictorPlan) -> Option<FitPlan> {
    match predictor {
        PredictorPlan::Htrae(own) => Some(own.fit),
        PredictorPlan::Survey(own) => Some(own.fit),
        PredictorPlan::Geolocation(own) => Some(own.fit),
        PredictorPlan::Located(own) => Some(own.fit),
        _ => None,
    }
}

/// Landmarks, with what every machine that is covered measured to them.
fn legs(world: &World, given: &Given, own: &LandmarksPlan, seed: u64) -> Legs {
    let count = world.count();
    let mut rng = Stream::keyed(seed, 3, Purpose::Destinations);
    let mut all: Vec<u32> = (0..count).collect();
    for index in 0..(own.landmarks.min(count)) as usize {
        let other = index + rng.below((all.len() - index) as u64) as usize;
        all.swap(index, other);
    }
    all.truncate(own.landmarks as usize);
    let of = |machine: u32| match given.covered[machine as usize] {
        true => all.iter().map(|landmark| world.rtt_ms(machine, *landmark)).collect(),
        false => Vec::new(),
    };
    let measured = (0..count).map(of).collect();
    Legs::new(all, measured)
}

/// A predictor, ready. `line` is what [`line()`] says for its fit.
pub fn build<'w>(
    world: &'w World,
    predictor: &PredictorPlan,
    given: &Given,
    line: Option<Line>,
    seed: u64,
) -> Box<dyn Predictor + 'w> {
    let count = world.count();
    let line = line.unwrap_or(cavy_coords::map::SERVERS);
    match predictor {
        PredictorPlan::Htrae(own) => {
            let config = Config {
                move_gain: own.move_gain,
                move_gain_extra: own.move_gain_extra,
                detours: own.detours.then(Detours::default),
                ..Config::with_line(line)
            };
            let system = |index: usize| if own.same_system { given.systems[index] } else { 0 };
            let globe = if own.random_start {
                let mut rng = Stream::keyed(seed, 1, Purpose::Machine);
                Globe::at_random(config, (0..given.places.len()).map(system), &mut rng)
            } else {
                let known = |(index, place): (usize, &Option<Point>)| {
                    (Known { address: *place, country: None }, system(index))
                };
                Globe::new(config, given.places.iter().enumerate().map(known))
            };
            learner(globe, own.symmetric, own.history, count)
        }
        PredictorPlan::Survey(own) => {
            let parts = Parts {
                history: own.history,
                cells: own.cells,
                peers: own.peers,
                moves: own.moves,
                coordinates: own.coordinates,
            };
            let known = given.places.iter().zip(&given.systems);
            let known =
                known.map(|(place, system)| (Known { address: *place, country: None }, *system));
            Box::new(Survey::new(Config::with_line(line), parts, Memory::default(), known))
        }
        PredictorPlan::Geolocation(own) => {
            learner(Geolocation::new(line, given.places.clone()), false, own.history, count)
        }
        PredictorPlan::Vivaldi(own) => match own.dimensions {
            2 => learner(Vivaldi::<2>::new(count), own.symmetric, own.history, count),
            3 => learner(Vivaldi::<3>::new(count), own.symmetric, own.history, count),
            _ => learner(Vivaldi::<8>::new(count), own.symmetric, own.history, count),
        },
        PredictorPlan::Pyxida(own) => match own.dimensions {
            2 => learner(Pyxida::<2>::new(count), own.symmetric, own.history, count),
            _ => learner(Pyxida::<4>::new(count), own.symmetric, own.history, count),
        },
        PredictorPlan::Serf(own) => learner(Serf::new(count), own.symmetric, own.history, count),
        PredictorPlan::Composition(own) => {
            let legs = legs(world, given, own, seed);
            let guess = legs.median_ms().filter(|_| own.guess);
            Box::new(Composition::new(legs, guess))
        }
        PredictorPlan::Located(own) => {
            let legs = legs(world, given, own, seed);
            let guess = legs.median_ms().filter(|_| own.guess);
            let place = |landmark: u32| given.places[landmark as usize];
            Box::new(Located::new(&legs, count, line, place, guess))
        }
        PredictorPlan::Random(_) => Box::new(Chance::new(seed)),
        PredictorPlan::Oracle(_) => Box::new(Oracle::new(|from, to| world.rtt_ms(from, to))),
    }
}

fn learner<'w, S: Space + 'w>(
    space: S,
    symmetric: bool,
    history: bool,
    count: u32,
) -> Box<dyn Predictor + 'w> {
    let learner = Learner::new(space).symmetric(symmetric);
    match history {
        true => Box::new(learner.with_history(Memory::default(), count)),
        false => Box::new(learner),
    }
}
