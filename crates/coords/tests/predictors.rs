//! What every predictor owes, whatever it predicts by.

use cavy_coords::history::Memory;
use cavy_coords::map::SERVERS;
use cavy_coords::predictors::geolocation::Geolocation;
use cavy_coords::predictors::globe::Globe;
use cavy_coords::predictors::landmarks::{Composition, Legs, Located};
use cavy_coords::predictors::limits::{Chance, Oracle};
use cavy_coords::predictors::pyxida::Pyxida;
use cavy_coords::predictors::serf::Serf;
use cavy_coords::predictors::survey::{Parts, Survey};
use cavy_coords::predictors::vivaldi::Vivaldi;
use cavy_coords::predictors::{Learner, Predictor, Probe, Space};
use cavy_coords::start::Known;
use cavy_coords::{Config, Point};
use cavy_core::{Instant, Purpose, Stream};

const MACHINES: u32 = 30;

fn draws(seed: u64, node: u32) -> Stream {
    Stream::keyed(seed, node, Purpose::Test)
}

fn places() -> Vec<Point> {
    let mut rng = draws(1, 0);
    (0..MACHINES).map(|_| Point::random(&mut rng)).collect()
}

/// A round trip that no predictor can know exactly.
fn truth(from: u32, to: u32) -> f64 {
    let (a, b) = (from.min(to), from.max(to));
    let places = places();
    let apart = SERVERS.rtt_ms(places[a as usize].distance_km(places[b as usize]));
    apart * (1.0 + f64::from((a * 31 + b * 17) % 7) / 20.0) + f64::from(a % 5) + f64::from(b % 5)
}

fn known() -> Vec<(Known, u32)> {
    let known = |point| (Known { address: Some(point), country: None }, 0);
    // Two of them nobody can locate.
    let mut all: Vec<(Known, u32)> = places().into_iter().map(known).collect();
    all[3].0.address = None;
    all[9].0.address = None;
    all
}

fn globe() -> Globe {
    Globe::new(Config::with_line(SERVERS), known())
}

/// With history or without.
fn survey(history: bool) -> Survey {
    let parts = Parts { history, ..Parts::default() };
    Survey::new(Config::with_line(SERVERS), parts, Memory::default(), known())
}

fn legs() -> Legs {
    let of = |machine: u32| match machine % 6 {
        5 => Vec::new(),
        _ => [1, 7, 20].map(|landmark| Some(truth(machine, landmark))).to_vec(),
    };
    Legs::new(vec![1, 7, 20], (0..MACHINES).map(of).collect())
}

type Named = (&'static str, Box<dyn Predictor>);

fn both<S: Space + Clone + 'static>(name: [&'static str; 3], space: S) -> Vec<Named> {
    let learner = Learner::new(space);
    let symmetric = learner.clone().symmetric(true);
    let remembers = learner.clone().with_history(Memory::default(), MACHINES);
    vec![
        (name[0], Box::new(learner)),
        (name[1], Box::new(symmetric)),
        (name[2], Box::new(remembers)),
    ]
}

fn all() -> Vec<Named> {
    let located = || places().into_iter().map(Some).collect();
    let mut all = both(["globe", "globe, both", "globe, history"], globe());
    all.extend(both(["geo", "geo, both", "geo, history"], Geolocation::new(SERVERS, located())));
    all.extend(both(["vivaldi", "vivaldi, both", "vivaldi, history"], Vivaldi::<2>::new(MACHINES)));
    all.extend(both(["3-D", "3-D, both", "3-D, history"], Vivaldi::<3>::new(MACHINES)));
    all.extend(both(["pyxida", "pyxida, both", "pyxida, history"], Pyxida::<4>::new(MACHINES)));
    all.extend(both(["serf", "serf, both", "serf, history"], Serf::new(MACHINES)));
    all.push(("survey", Box::new(survey(false))));
    all.push(("survey, history", Box::new(survey(true))));
    let place = |landmark: u32| places().get(landmark as usize).copied();
    all.push(("located", Box::new(Located::new(&legs(), MACHINES, SERVERS, place, Some(90.0)))));
    all.push(("composed", Box::new(Composition::new(legs(), None))));
    all.push(("chance", Box::new(Chance::new(4))));
    all.push(("oracle", Box::new(Oracle::new(|from, to| Some(truth(from, to))))));
    all
}

fn probes(count: u64) -> Vec<Probe> {
    let mut rng = draws(2, 0);
    let one = |n: u64| {
        let from = rng.below(u64::from(MACHINES)) as u32;
        let to = (from + 1 + rng.below(u64::from(MACHINES) - 1) as u32) % MACHINES;
        Probe { from, to, rtt_ms: truth(from, to), at: Instant::from_ns(n * 50_000_000) }
    };
    (0..count).map(one).collect()
}

/// Predicts before it learns, all along `probes`.
fn along(predictor: &mut dyn Predictor, probes: &[Probe]) -> Vec<Option<u64>> {
    let mut rng = draws(3, 0);
    let mut said = Vec::new();
    for probe in probes {
        said.push(predictor.predict_ms(probe.from, probe.to, probe.at).map(f64::to_bits));
        predictor.learn(probe, &mut rng);
    }
    said
}

/// Whoever predicts and learns at once says and learns what it does one after the other.
#[test]
fn a_probe_is_met_as_it_is_predicted_and_then_learnt() {
    let mut met = probes(2_000);
    // Also of what cannot have been measured.
    met[900].rtt_ms = -1.0;
    met[1_300].to = met[1_300].from;
    for ((name, mut one), (_, mut other)) in all().into_iter().zip(all()) {
        let said = along(&mut *one, &met);
        let mut rng = draws(3, 0);
        let bits = |probe| other.meet(probe, &mut rng).map(f64::to_bits);
        assert_eq!(met.iter().map(bits).collect::<Vec<_>>(), said, "{name}");
    }
}

#[test]
fn what_comes_later_changes_no_earlier_prediction() {
    let as_they_were = probes(600);
    let mut changed = as_they_were.clone();
    for probe in &mut changed[300..] {
        probe.rtt_ms *= 1.7;
    }
    for ((name, mut one), (_, mut other)) in all().into_iter().zip(all()) {
        let (a, b) = (along(&mut *one, &as_they_were), along(&mut *other, &changed));
        // The prediction for the first changed probe was made before it was told.
        assert_eq!(a[..=300], b[..=300], "{name}");
    }
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    for ((name, mut one), (_, mut other)) in all().into_iter().zip(all()) {
        let good = probes(200);
        let mut rng = draws(5, 0);
        for rtt_ms in [0.0, -3.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 10_000.1] {
            one.learn(&Probe { rtt_ms, ..good[0] }, &mut rng);
        }
        one.learn(&Probe { from: 4, to: 4, ..good[0] }, &mut rng);
        assert_eq!(along(&mut *one, &good), along(&mut *other, &good), "{name}");
    }
}

#[test]
fn predictions_are_times() {
    for (name, mut one) in all() {
        for said in along(&mut *one, &probes(2_000)).into_iter().flatten() {
            let said = f64::from_bits(said);
            assert!(said >= 0.0 && said.is_finite(), "{name} says {said} ms");
        }
    }
}

#[test]
fn those_that_learn_err_less_in_the_end() {
    let error = |predictor: &mut dyn Predictor| {
        let probes = probes(6_000);
        let said = along(predictor, &probes);
        let mut errors: Vec<f64> = said[5_000..]
            .iter()
            .zip(&probes[5_000..])
            .filter_map(|(said, probe)| Some((f64::from_bits((*said)?) - probe.rtt_ms).abs()))
            .collect();
        errors.sort_by(f64::total_cmp);
        errors[errors.len() / 2]
    };
    let of = |wanted: &str| {
        let (_, mut one) =
            all().into_iter().find(|(name, _)| *name == wanted).expect("named above");
        error(&mut *one)
    };
    assert_eq!(of("oracle"), 0.0);
    for name in ["globe", "vivaldi", "3-D", "pyxida", "serf", "survey"] {
        assert!(of(name) < 0.5 * of("chance"), "{name}: {} of {}", of(name), of("chance"));
    }
    assert!(of("globe") < of("geo"), "{} of {}", of("globe"), of("geo"));
    // What was measured within the hour is known.
    assert_eq!(of("globe, history"), 0.0);
}

#[test]
fn clause_2_5_both_ends_learn_from_what_was_before() {
    // One probe at both ends is one probe at each, with the coordinates that both had before it.
    let mut both = Learner::new(globe()).symmetric(true);
    let probe = Probe { from: 0, to: 1, rtt_ms: 180.0, at: Instant::ZERO };
    both.learn(&probe, &mut draws(6, 0));
    for (machine, peer) in [(0, 1), (1, 0)] {
        let mut alone = globe();
        let said = alone.said(peer);
        alone.update(machine, (peer, &said), 180.0, Instant::ZERO, &mut draws(6, 0));
        assert_eq!(both.space().coordinate(machine), alone.coordinate(machine));
    }
    // The mistake this guards against does make a difference.
    let mut after = globe();
    let said = after.said(1);
    after.update(0, (1, &said), 180.0, Instant::ZERO, &mut draws(6, 0));
    let said = after.said(0);
    after.update(1, (0, &said), 180.0, Instant::ZERO, &mut draws(6, 0));
    assert_ne!(both.space().coordinate(1), after.coordinate(1));
}

#[test]
fn landmarks_compose_and_say_where_they_cannot() {
    let legs = legs();
    let least = [1, 7, 20].map(|l| truth(2, l) + truth(l, 3)).into_iter().fold(f64::MAX, f64::min);
    assert!((legs.composed_ms(2, 3).expect("both are covered") - least).abs() < 1e-9);
    assert_eq!(legs.composed_ms(2, 5), None);
    // A landmark at an end is no landmark.
    let others = [7, 20].map(|l| truth(1, l) + truth(l, 3)).into_iter().fold(f64::MAX, f64::min);
    assert!((legs.composed_ms(1, 3).expect("two are left") - others).abs() < 1e-9);
    let guessing = Composition::new(legs.clone(), legs.median_ms());
    assert_eq!(guessing.predict_ms(2, 5, Instant::ZERO), legs.median_ms());
}

#[test]
fn clause_3_1_machines_on_top_of_each_other_rise_and_part() {
    // Both begin at the origin, .1 ms high; both believe themselves as little as the other.
    let mut space = Vivaldi::<2>::new(2);
    let said = space.said(1);
    space.update(0, (1, &said), 100.2, Instant::ZERO, &mut draws(7, 0));
    // A quarter of half of what was short, 12.5 ms: all of the estimate was height, so the height
    // takes all of it; and the place, which has no direction, moves as far in one that is drawn.
    assert!((space.said(0).height_ms() - 12.6).abs() < 1e-9, "{:?}", space.said(0));
    let said = space.estimate_ms(0, 1).expect("both have coordinates");
    assert!((said - (12.5 + 12.6 + 0.1)).abs() < 1e-9, "{said}");
}
