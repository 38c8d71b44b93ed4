//! What always holds of coordinates, and that each of these properties notices a mistake.
//!
//! A property is a function of the rules it judges. The room's own rules keep all of them; a test
//! named `planted` breaks one rule on purpose and shows which property tells.

use cavy_coords::config::Planted;
use cavy_coords::map::Line;
use cavy_coords::{Config, Coordinate, Detours, Learnt, Point, predict_each, predict_ms, update};
use cavy_core::{Purpose, Stream};

type Predict = fn(&Coordinate, &Coordinate, &Config) -> f64;
type Update = fn(&mut Coordinate, &Coordinate, f64, &Config, &mut Stream) -> Learnt;

#[derive(Clone, Copy)]
struct Rules {
    predict: Predict,
    update: Update,
    angle: fn(Point, Point) -> f64,
}

const OURS: Rules = Rules { predict: predict_ms, update, angle: Point::angle };

fn draws(seed: u64) -> Stream {
    Stream::keyed(seed, 0, Purpose::Test)
}

fn config() -> Config {
    Config::with_line(Line { ms_per_km: 0.0192, base_ms: 18.2 })
}

fn random(rng: &mut Stream, config: &Config) -> Coordinate {
    let mut one = Coordinate::at(Point::random(rng), 0, config);
    one.height_ms = 0.1 + 40.0 * rng.unit();
    one.error = 0.01 + 0.99 * rng.unit();
    one
}

/// Round trips with detours: what no space can show.
///
/// They are small enough that nobody is pushed to the antipode of a peer. There a step has no
/// direction of its own, and rounding decides which it takes.
fn bent(a: &Coordinate, b: &Coordinate, config: &Config, rng: &mut Stream) -> f64 {
    predict_ms(a, b, config) * (0.9 + 0.2 * rng.unit())
}

/// A world of 40 machines that probe each other 2,000 times; what everybody predicts in the end.
fn learnt(rules: Rules, turn: impl Fn(Point) -> Point, seed: u64) -> Vec<f64> {
    let config = config();
    let mut rng = draws(seed);
    let mut places: Vec<Point> = (0..36).map(|_| Point::random(&mut rng)).collect();
    for (latitude, longitude) in [(90.0, 0.0), (-90.0, 17.0), (12.0, 180.0), (12.5, -179.9)] {
        places.push(Point::from_degrees(latitude, longitude).expect("on earth"));
    }
    let truth: Vec<Coordinate> = places
        .iter()
        .map(|&place| Coordinate {
            height_ms: 1.0 + 30.0 * rng.unit(),
            ..Coordinate::at(place, 0, &config)
        })
        .collect();
    // All begin somewhat beside the truth, so that there is something to learn.
    let beside = |place: Point, rng: &mut Stream| {
        let [x, y, z] = place.vector();
        let mut off = || 0.2 * (rng.unit() - 0.5);
        Point::from_vector([x + off(), y + off(), z + off()]).expect("near the sphere")
    };
    let starts: Vec<Point> = places.iter().map(|&place| beside(place, &mut rng)).collect();
    let mut all: Vec<Coordinate> =
        starts.iter().map(|&place| Coordinate::at(turn(place), 0, &config)).collect();
    let n = all.len() as u64;
    for _ in 0..2_000 {
        let i = rng.below(n) as usize;
        let j = (i + 1 + rng.below(n - 1) as usize) % all.len();
        let rtt_ms = bent(&truth[i], &truth[j], &config, &mut rng);
        let peer = all[j];
        (rules.update)(&mut all[i], &peer, rtt_ms, &config, &mut rng);
    }
    let pairs = (0..all.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    pairs.map(|(i, j)| (rules.predict)(&all[i], &all[j], &config)).collect()
}

/// A rotation by Euler angles.
fn turned([a, b, c]: [f64; 3], point: Point) -> Point {
    let [x, y, z] = point.vector();
    let (x, y) = (x * a.cos() - y * a.sin(), x * a.sin() + y * a.cos());
    let (y, z) = (y * b.cos() - z * b.sin(), y * b.sin() + z * b.cos());
    let (x, z) = (x * c.cos() - z * c.sin(), x * c.sin() + z * c.cos());
    Point::from_vector([x, y, z]).expect("a rotation keeps lengths")
}

/// Where north is does not matter.
fn rotation_changes_nothing(rules: Rules) -> Result<(), String> {
    for seed in 0..4 {
        let straight = learnt(rules, |place| place, seed);
        for angles in [[0.7, 0.0, 0.0], [0.0, 1.57, 0.0], [2.1, 0.4, 3.0]] {
            let turned = learnt(rules, |place| turned(angles, place), seed);
            for (a, b) in straight.iter().zip(&turned) {
                if (a - b).abs() > 1e-9 * a.max(1.0) {
                    return Err(format!("seed {seed}, turned by {angles:?}: {a} became {b}"));
                }
            }
        }
    }
    Ok(())
}

/// Both ends predict the same, to the bit.
fn both_ends_agree(rules: Rules) -> Result<(), String> {
    let (mut rng, config) = (draws(2), config());
    for _ in 0..10_000 {
        let (a, b) = (random(&mut rng, &config), random(&mut rng, &config));
        let (ab, ba) = ((rules.predict)(&a, &b, &config), (rules.predict)(&b, &a, &config));
        if ab.to_bits() != ba.to_bits() {
            return Err(format!("{ab} from one end, {ba} from the other"));
        }
    }
    Ok(())
}

/// Whatever is measured and whatever peers say, all parts of a coordinate stay in their ranges.
fn parts_stay_in_range(rules: Rules) -> Result<(), String> {
    for detours in [None, Some(Detours { over: 2.0, under: 0.3, after: 8 })] {
        let config = Config { detours, ..config() };
        let mut rng = draws(3);
        let mut own = random(&mut rng, &config);
        for step in 0..50_000 {
            let mut peer = random(&mut rng, &config);
            let mut rtt_ms = 300.0 * rng.unit();
            match rng.below(12) {
                0 => rtt_ms = [0.0, -1.0, f64::NAN, f64::INFINITY, 1e4, 1e-300, 10_001.0][step % 7],
                1 => peer.height_ms = [f64::NAN, -1.0, f64::INFINITY, 1e300, 1e4][step % 5],
                2 => peer.error = [f64::NAN, -1.0, 0.0, f64::INFINITY, 1e-300, 1e300][step % 6],
                3 => peer.position = own.position,
                4 => {
                    let opposite = own.position.vector().map(|part| -part);
                    peer.position = Point::from_vector(opposite).expect("a unit vector");
                }
                _ => {}
            }
            let before = own;
            let came = (rules.update)(&mut own, &peer, rtt_ms, &config, &mut rng);
            if came == Learnt::Refused && own != before {
                return Err(format!("step {step}: refused, and yet it moved"));
            }
            let length: f64 = own.position.vector().iter().map(|part| part * part).sum();
            if (length - 1.0).abs() > 4e-16 * 4.0 {
                return Err(format!("step {step}: the position's square is {length}"));
            }
            let error = (config.error_min..=config.error_max).contains(&own.error);
            if !error || !(config.height_min_ms..=config.rtt_max_ms).contains(&own.height_ms) {
                return Err(format!("step {step}: {own:?}"));
            }
        }
    }
    Ok(())
}

/// A world that the model made is learnt already: nobody moves.
fn a_world_of_its_own_is_a_fixed_point(rules: Rules) -> Result<(), String> {
    let (mut rng, config) = (draws(4), config());
    for _ in 0..5_000 {
        let (mut own, peer) = (random(&mut rng, &config), random(&mut rng, &config));
        let before = own;
        let rtt_ms = (rules.predict)(&own, &peer, &config);
        (rules.update)(&mut own, &peer, rtt_ms, &config, &mut rng);
        if own.position != before.position || own.height_ms != before.height_ms {
            return Err(format!("{before:?} moved to {own:?}"));
        }
        if own.error > before.error {
            return Err("a right prediction raised the error".to_string());
        }
    }
    Ok(())
}

/// After a step the estimate is nearer to what was measured, and not beyond it.
fn a_step_goes_the_right_way(rules: Rules) -> Result<(), String> {
    let (mut rng, config) = (draws(5), config());
    for _ in 0..5_000 {
        let (mut own, peer) = (random(&mut rng, &config), random(&mut rng, &config));
        let rtt_ms = bent(&own, &peer, &config, &mut rng);
        let before = predict_ms(&own, &peer, &config) - rtt_ms;
        (rules.update)(&mut own, &peer, rtt_ms, &config, &mut rng);
        let after = predict_ms(&own, &peer, &config) - rtt_ms;
        if after * before < 0.0 || after.abs() > before.abs() {
            return Err(format!("{before} ms off before, {after} ms after"));
        }
    }
    Ok(())
}

/// Angles are exact where they are tiny and where they are almost a half turn ([htrae 2.2]).
fn angles_keep_their_digits(rules: Rules) -> Result<(), String> {
    for exponent in 1..=12 {
        let tiny = 10f64.powi(-exponent);
        let equator = |longitude: f64| {
            let radians: f64 = longitude;
            Point::from_vector([radians.cos(), radians.sin(), 0.0]).expect("a unit vector")
        };
        let angle = (rules.angle)(equator(0.3), equator(0.3 + tiny));
        // The two points themselves are only known to the last bit of their coordinates.
        if (angle - tiny).abs() > 1e-15 {
            return Err(format!("{tiny} apart, measured {angle}"));
        }
        let half = std::f64::consts::PI;
        let angle = (rules.angle)(equator(0.3), equator(0.3 + half - tiny));
        if (half - angle - tiny).abs() > 2e-15 {
            return Err(format!("{tiny} short of a half turn, measured {angle}"));
        }
    }
    Ok(())
}

/// Within a system heights count four fifths, and the distance as much as elsewhere ([htrae 2.6]).
fn a_system_lowers_heights_only(rules: Rules) -> Result<(), String> {
    let (mut rng, config) = (draws(6), config());
    for _ in 0..2_000 {
        let (mut a, mut b) = (random(&mut rng, &config), random(&mut rng, &config));
        let apart = (rules.predict)(&a, &b, &config);
        (a.system, b.system) = (7, 8);
        let two = (rules.predict)(&a, &b, &config);
        b.system = 7;
        let saved = two - (rules.predict)(&a, &b, &config);
        let heights = a.height_ms + b.height_ms;
        if apart != two || (saved - 0.2 * heights).abs() > 1e-9 {
            return Err(format!("saved {saved} ms of heights of {heights} ms"));
        }
    }
    Ok(())
}

type Property = (&'static str, fn(Rules) -> Result<(), String>);

const PROPERTIES: [Property; 7] = [
    ("rotation_changes_nothing", rotation_changes_nothing),
    ("both_ends_agree", both_ends_agree),
    ("parts_stay_in_range", parts_stay_in_range),
    ("a_world_of_its_own_is_a_fixed_point", a_world_of_its_own_is_a_fixed_point),
    ("a_step_goes_the_right_way", a_step_goes_the_right_way),
    ("angles_keep_their_digits", angles_keep_their_digits),
    ("a_system_lowers_heights_only", a_system_lowers_heights_only),
];

#[test]
fn the_model_keeps_every_property() {
    for (name, property) in PROPERTIES {
        property(OURS).unwrap_or_else(|told| panic!("{name}: {told}"));
    }
}

fn caught_by(rules: Rules) -> Vec<&'static str> {
    let telling = PROPERTIES.iter().filter(|(_, property)| property(rules).is_err());
    telling.map(|(name, _)| *name).collect()
}

#[test]
fn planted_a_force_towards_the_peer_is_caught() {
    fn towards(
        own: &mut Coordinate,
        peer: &Coordinate,
        rtt_ms: f64,
        config: &Config,
        rng: &mut Stream,
    ) -> Learnt {
        let estimate = predict_ms(own, peer, config);
        update(own, peer, (2.0 * estimate - rtt_ms).max(1e-3), config, rng)
    }
    let caught = caught_by(Rules { update: towards, ..OURS });
    assert!(caught.contains(&"a_step_goes_the_right_way"), "{caught:?}");
}

#[test]
fn planted_the_factor_of_a_system_on_the_distance_is_caught() {
    fn on_all(a: &Coordinate, b: &Coordinate, config: &Config) -> f64 {
        let apart = predict_ms(&Coordinate { system: 0, ..*a }, b, config);
        if a.system != 0 && a.system == b.system { 0.8 * apart } else { apart }
    }
    assert_eq!(caught_by(Rules { predict: on_all, ..OURS }), ["a_system_lowers_heights_only"]);
}

#[test]
fn planted_an_arc_cosine_is_caught() {
    fn by_cosine(a: Point, b: Point) -> f64 {
        let dot: f64 = a.vector().iter().zip(b.vector()).map(|(x, y)| x * y).sum();
        dot.clamp(-1.0, 1.0).acos()
    }
    assert_eq!(caught_by(Rules { angle: by_cosine, ..OURS }), ["angles_keep_their_digits"]);
}

#[test]
fn planted_a_prediction_that_knows_who_asks_is_caught() {
    fn lopsided(a: &Coordinate, b: &Coordinate, config: &Config) -> f64 {
        predict_ms(a, b, config) + 1e-9 * a.height_ms
    }
    let caught = caught_by(Rules { predict: lopsided, ..OURS });
    assert!(caught.contains(&"both_ends_agree"), "{caught:?}");
}

/// The farthest that a place got from the sphere in 20,000 steps.
fn off_the_sphere(config: &Config) -> f64 {
    let mut rng = draws(11);
    let mut own = random(&mut rng, config);
    let mut off = 0f64;
    for _ in 0..20_000 {
        let peer = random(&mut rng, config);
        let rtt_ms = bent(&own, &peer, config, &mut rng);
        update(&mut own, &peer, rtt_ms, config, &mut rng);
        let square: f64 = own.position.vector().iter().map(|part| part * part).sum();
        off = off.max((square - 1.0).abs());
    }
    off
}

#[test]
fn planted_places_that_leave_the_sphere_are_caught() {
    let most = 4.0 * f64::EPSILON;
    assert!(off_the_sphere(&config()) <= most);
    let planted = Config { planted: Some(Planted::NotNormalized), ..config() };
    assert!(off_the_sphere(&planted) > 4.0 * most, "{}", off_the_sphere(&planted));
}

#[test]
fn a_detour_moves_height_and_error_but_not_the_position() {
    // [htrae 2.7], as its section 0 reads it.
    let (mut rng, config) = (draws(7), config());
    let config = Config { detours: Some(Detours::default()), ..config };
    let (mut own, peer) = (random(&mut rng, &config), random(&mut rng, &config));
    own.updates = 7;
    let estimate = predict_ms(&own, &peer, &config);
    let mut early = own;
    assert_eq!(update(&mut early, &peer, 2.5 * estimate, &config, &mut rng), Learnt::Moved);
    own.updates = 8;
    let before = own;
    assert_eq!(update(&mut own, &peer, 2.5 * estimate, &config, &mut rng), Learnt::Suspect);
    assert_eq!(own.position, before.position);
    assert!(own.height_ms > before.height_ms && own.updates == 9 && own.error != before.error);
}

#[test]
fn clause_2_4_a_step_worked_by_hand() {
    // Quarter of the equator; 10 ms a radian would be unhandy, so the line makes a radian 100 ms.
    let line = Line { ms_per_km: 100.0 / cavy_coords::sphere::EARTH_RADIUS_KM, base_ms: 20.0 };
    let config = Config::with_line(line);
    let place = |longitude| Point::from_degrees(0.0, longitude).expect("on earth");
    let mut own = Coordinate::at(place(0.0), 0, &config);
    let peer = Coordinate { error: 0.5, ..Coordinate::at(place(90.0), 0, &config) };
    let quarter = 50.0 * std::f64::consts::PI;
    let (estimate, rtt) = (quarter + 20.0, 200.0);
    assert!((predict_ms(&own, &peer, &config) - estimate).abs() < 1e-9);
    update(&mut own, &peer, rtt, &config, &mut draws(8));
    let weight = 1.0 / 1.5;
    let step = 0.25 * weight * (rtt - estimate);
    let (_, longitude) = own.position.degrees();
    assert!((longitude.to_radians() + step * quarter / estimate / 100.0).abs() < 1e-12);
    assert!((own.height_ms - (10.0 + step * 20.0 / estimate)).abs() < 1e-12);
    let wrong = (rtt - estimate) / rtt;
    assert!((own.error - (wrong * 0.25 * weight + (1.0 - 0.25 * weight))).abs() < 1e-12);
}

#[test]
fn degrees_are_what_they_were() {
    let mut rng = draws(9);
    for _ in 0..1_000 {
        let (latitude, longitude) = (180.0 * rng.unit() - 90.0, 360.0 * rng.unit() - 180.0);
        let (a, b) = Point::from_degrees(latitude, longitude).expect("on earth").degrees();
        assert!((a - latitude).abs() < 1e-9 && (b - longitude).abs() < 1e-9);
    }
    for (latitude, longitude) in
        [(90.1, 0.0), (0.0, 180.1), (f64::NAN, 0.0), (0.0, f64::INFINITY), (-91.0, 3.0)]
    {
        assert_eq!(Point::from_degrees(latitude, longitude), None);
    }
}

#[test]
fn predictions_asked_for_together_are_those_made_one_by_one() {
    let (mut rng, config) = (draws(12), config());
    let machines: Vec<Coordinate> = (0..50).map(|_| random(&mut rng, &config)).collect();
    for count in [0, 1, 15, 16, 17, 100] {
        let mut any = || rng.below(50) as u32;
        let pairs: Vec<(u32, u32)> = (0..count).map(|_| (any(), any())).collect();
        let one = |(a, b): &(u32, u32)| {
            predict_ms(&machines[*a as usize], &machines[*b as usize], &config)
        };
        let mut together = Vec::new();
        predict_each(&machines, &pairs, &config, |ms| together.push(ms));
        assert_eq!(together, pairs.iter().map(one).collect::<Vec<_>>());
    }
    predict_each(&[], &[], &config, |_| panic!("nothing was asked"));
}
