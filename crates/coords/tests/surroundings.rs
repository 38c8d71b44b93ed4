//! Fits, filters, history, systems, and where machines begin.

use cavy_coords::filter::{Filter, Window};
use cavy_coords::history::{History, Memory};
use cavy_coords::map::{Line, Sample};
use cavy_coords::start::{Known, Placed};
use cavy_coords::systems::Corrected;
use cavy_coords::{Config, Coordinate, Point};
use cavy_core::{Instant, Purpose, Span, Stream};
use proptest::prelude::*;

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let one = (0.0..20_000.0f64, 0.1..600.0f64)
        .prop_map(|(distance_km, rtt_ms)| Sample { distance_km, rtt_ms });
    proptest::collection::vec(one, 3..40)
}

proptest! {
    #[test]
    fn no_line_through_two_points_deviates_less(samples in samples()) {
        let ours = Line::least_absolute(&samples).expect("many distances");
        let least = ours.deviation_ms(&samples);
        for (i, a) in samples.iter().enumerate() {
            for b in &samples[..i] {
                let ms_per_km = (a.rtt_ms - b.rtt_ms) / (a.distance_km - b.distance_km);
                let line = Line { ms_per_km, base_ms: a.rtt_ms - ms_per_km * a.distance_km };
                let theirs = line.deviation_ms(&samples);
                prop_assert!(theirs.is_nan() || theirs >= least * (1.0 - 1e-9) - 1e-9);
            }
        }
    }

    #[test]
    fn least_squares_solve_the_normal_equations(samples in samples()) {
        let line = Line::least_squares(&samples).expect("many distances");
        let residual = |s: &Sample| s.rtt_ms - line.rtt_ms(s.distance_km);
        let sum: f64 = samples.iter().map(residual).sum();
        let moment: f64 = samples.iter().map(|s| residual(s) * s.distance_km).sum();
        let scale: f64 = samples.iter().map(|s| s.rtt_ms * s.distance_km).sum();
        prop_assert!(sum.abs() < 1e-7 && moment.abs() < 1e-8 * scale.max(1.0));
    }
}

#[test]
fn a_line_is_found_again_and_one_absurd_sample_does_not_bend_it() {
    let truth = Line { ms_per_km: 0.02, base_ms: 9.0 };
    let on_it = |distance_km: f64| Sample { distance_km, rtt_ms: truth.rtt_ms(distance_km) };
    let mut samples: Vec<Sample> = (1..40).map(|n| on_it(f64::from(n) * 250.0)).collect();
    let found = Line::least_squares(&samples).expect("many distances");
    assert!((found.ms_per_km - 0.02).abs() < 1e-12 && (found.base_ms - 9.0).abs() < 1e-9);
    samples.push(Sample { distance_km: 100.0, rtt_ms: 9_000.0 });
    let found = Line::least_absolute(&samples).expect("many distances");
    assert!((found.ms_per_km - 0.02).abs() < 1e-12 && (found.base_ms - 9.0).abs() < 1e-9);
    assert_eq!(Line::least_squares(&samples[..1]), None);
    assert_eq!(Line::least_absolute(&[]), None);
}

#[test]
fn clause_2_8_windows_give_their_percentile() {
    let mut window = Window::<16>::default();
    let given: Vec<f64> = [9.0, 4.0, 7.0, 8.0, 1.0, 30.0]
        .iter()
        .map(|&v| window.push(v, Filter::LOW_OF_FOUR))
        .collect();
    assert_eq!(given, [9.0, 4.0, 4.0, 7.0, 4.0, 7.0]);
    let mut window = Window::<16>::default();
    let given: Vec<f64> =
        [9.0, 4.0, 7.0, 80.0].iter().map(|&v| window.push(v, Filter::MEDIAN_OF_THREE)).collect();
    assert_eq!(given, [9.0, 9.0, 7.0, 7.0]);
    let mut window = Window::<16>::default();
    assert_eq!([5.0, 2.0].map(|v| window.push(v, Filter::NONE)), [5.0, 2.0]);
}

#[test]
fn clause_2_8_history_forgets_the_oldest_and_what_is_stale() {
    let memory = Memory { peers: 2, lifetime: Span::from_ms(1_000) };
    let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
    let mut history = History::default();
    history.record(1, 10.0, at(0), memory);
    history.record(2, 20.0, at(100), memory);
    history.record(1, 11.0, at(200), memory);
    history.record(3, 30.0, at(300), memory);
    assert_eq!(history.recall(1, at(1_200), memory), Some(11.0));
    assert_eq!(history.recall(2, at(400), memory), None);
    assert_eq!(history.recall(1, at(1_201), memory), None);
    assert_eq!(history.len(), 2);
    // What is stale takes no memory either, from the next measurement on.
    history.record(4, 40.0, at(1_300), memory);
    assert_eq!((history.recall(3, at(1_300), memory), history.len()), (Some(30.0), 2));
    history.record(5, 50.0, at(9_000), memory);
    assert_eq!(history.len(), 1);
}

#[test]
fn clause_2_6_large_systems_are_left_alone() {
    let small =
        Corrected::by_addresses([(64_500, 1 << 10), (64_501, (1 << 22) + 1), (0, 5)], 1 << 22);
    assert_eq!([64_500, 64_501, 64_502, 0].map(|n| small.effective(n)), [64_500, 0, 0, 0]);
    let place = |latitude, longitude| Point::from_degrees(latitude, longitude).expect("on earth");
    let machines = [
        (1, place(52.0, 4.0)),
        (1, place(48.0, 2.0)),
        (2, place(52.0, 4.0)),
        (2, place(-33.0, 151.0)),
        (3, place(0.0, 0.0)),
    ];
    let near = Corrected::by_radius(machines, 1_500.0);
    assert_eq!([1, 2, 3].map(|n| near.effective(n)), [1, 0, 3]);
}

#[test]
fn clause_2_9_a_machine_without_a_place_takes_that_of_its_nearest_peer() {
    let config = Config::default();
    let place = |longitude| Point::from_degrees(10.0, longitude).expect("on earth");
    let mut placed = Placed::start(Known::default(), 9, &config);
    let peer = |longitude, height_ms| Coordinate {
        height_ms,
        ..Coordinate::at(place(longitude), 0, &config)
    };
    placed.note(&peer(0.0, 5.0), 80.0, &config);
    placed.note(&peer(50.0, 6.0), f64::NAN, &config);
    placed.note(&peer(100.0, 7.0), 12.0, &config);
    assert_eq!(placed.coordinate(), None);
    placed.note(&peer(150.0, 8.0), 40.0, &config);
    let found = placed.coordinate().expect("the third probe places it");
    assert_eq!((found.position, found.height_ms, found.system), (place(100.0), 7.0, 9));
    assert_eq!(found.error, config.error_max);

    let by_country = Known { address: None, country: Some(place(3.0)) };
    let placed = Placed::start(by_country, 0, &config);
    assert_eq!(placed.coordinate().map(|c| c.position), Some(place(3.0)));
}

#[test]
fn clause_2_8_a_stored_coordinate_is_dropped_when_its_address_moved() {
    let config = Config::default();
    let place = |latitude| Point::from_degrees(latitude, 0.0).expect("on earth");
    let stored =
        Coordinate { height_ms: 3.0, updates: 40, ..Coordinate::at(place(1.0), 0, &config) };
    let now = |latitude| Known { address: Some(place(latitude)), country: None };
    let resume = |then, known| Placed::resume(stored, then, known, &config).coordinate().copied();
    assert_eq!(resume(Some(place(0.0)), now(4.0)), Some(stored));
    assert_eq!(resume(Some(place(0.0)), now(5.0)).map(|c| c.updates), Some(0));
    assert_eq!(resume(None, now(50.0)), Some(stored));
    let torn = Coordinate { height_ms: f64::NAN, ..stored };
    let placed = Placed::resume(torn, Some(place(0.0)), now(0.0), &config);
    assert_eq!(placed.coordinate().map(|c| c.updates), Some(0));
}

#[test]
fn parameters_out_of_range_are_named() {
    assert_eq!(Config::default().check(), Ok(()));
    let wrong = [
        (Config { move_gain: 0.0, ..Config::default() }, "move_gain"),
        (Config { error_gain: f64::NAN, ..Config::default() }, "error_gain"),
        (Config::with_line(Line { ms_per_km: 0.0, base_ms: 3.0 }), "ms_per_km"),
        (Config::with_line(Line { ms_per_km: 0.02, base_ms: -1.0 }), "base_ms"),
        (Config { error_start: 2.0, ..Config::default() }, "error_start"),
        (Config { move_gain_extra: 0.9, ..Config::default() }, "move_gain_extra"),
        (Config { step_max_ms: 0.0, ..Config::default() }, "step_max_ms"),
    ];
    for (config, field) in wrong {
        assert_eq!(config.check().map_err(|error| error.field), Err(field));
    }
}

#[test]
fn a_random_point_is_anywhere() {
    let mut rng = Stream::keyed(1, 0, Purpose::Test);
    let north = (0..10_000).filter(|_| Point::random(&mut rng).vector()[2] > 0.5).count();
    // A quarter of the sphere lies above a height of one half.
    assert!((2_350..2_650).contains(&north), "{north}");
}
