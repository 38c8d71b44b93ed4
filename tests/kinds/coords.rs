//! Predictors of round trips: the data are what they are said to be, nobody knows the future, and
//! mistakes are named.

use cavy_coords::predictors::{Predictor, Probe};
use cavy_coords::{Point, map::FLOOR_MS_PER_KM};
use cavy_core::{Instant, Purpose, Span, Stream};
use cavy_kinds::coords::contestant::{self, Given};
use cavy_kinds::coords::data::{self, pack};
use cavy_kinds::coords::kept::{Kept, Key, Made, Trace};
use cavy_kinds::coords::load;
use cavy_kinds::coords::players::Players;
use cavy_kinds::coords::replay::{self, Asked, Replayed};
use cavy_kinds::coords::world::{Machine, Matrix, Truth, World};
use cavy_kinds::coords::worst;
use cavy_kinds::coords::{
    CoordsPlan, DataPlan, FitName, FitPlan, HtraePlan, PicksPlan, PlayersPlan, PositionsPlan,
    PredictorPlan,
};
use cavy_places::write::{Row, database};
use cavy_study::plan::Files;
use cavy_study::plan::read::{Text, load};
use cavy_study::point::{self, Manner};
use std::cell::RefCell;

const PLAN: &str = r#"
kind = "coords"
title = "x"
data = { name = "ripe-2018" }
probes_per_node = 13
[[predictors]]
predictor = "htrae"
[run]
replications = 2
"#;

fn plan(data: DataPlan, predictors: &[PredictorPlan]) -> CoordsPlan {
    CoordsPlan {
        data,
        positions: PositionsPlan::Said,
        wrong_positions_ratio: 0.0,
        probes_per_node: 13,
        interval_s: 15.0,
        peers: None,
        covered_ratio: 1.0,
        picks: PicksPlan { candidates: vec![2, 5, 10], each: 5, ..PicksPlan::default() },
        worst_ratio: None,
        map: false,
        predictors: predictors.to_vec(),
        has_rivals: false,
    }
}

fn named(name: &str) -> World {
    data::named(name).expect("the program carries it")
}

fn of(table: &str) -> PredictorPlan {
    toml::from_str(table).expect("a predictor")
}

/// Everybody that a plan can name.
fn everybody() -> Vec<PredictorPlan> {
    let mut all = vec![
        of("predictor = \"htrae\""),
        of("predictor = \"htrae\"\nsymmetric = false\nhistory = false\ndetours = true"),
        of("predictor = \"htrae\"\nrandom_start = true"),
        of("predictor = \"survey\""),
        of("predictor = \"geolocation\""),
        of("predictor = \"serf\"\nsymmetric = true\nhistory = true"),
        of("predictor = \"composition\"\nguess = true"),
        of("predictor = \"located\"\nguess = true"),
        of("predictor = \"random\""),
        of("predictor = \"oracle\""),
    ];
    all.extend([2, 3, 8].map(|d| of(&format!("predictor = \"vivaldi\"\ndimensions = {d}"))));
    all.extend([2, 4].map(|d| of(&format!("predictor = \"pyxida\"\ndimensions = {d}"))));
    all
}

/// Lets the first predictor of `plan` go through `world`, with `take` of its probes.
fn run(world: &World, plan: &CoordsPlan, seed: u64, take: usize) -> Replayed {
    let given = contestant::given(world, plan, seed);
    let Given { systems, covered, .. } = &given;
    let detours = plan.worst_ratio.map_or(Vec::new(), |_| worst::detours(world));
    let asked = Asked {
        probes_per_node: plan.probes_per_node,
        interval: Span::from_ms(15_000),
        peers: plan.peers,
        covered,
        systems,
        picks: &plan.picks,
        said: &given.places,
        worst: plan.worst_ratio.map(|ratio| (ratio, detours.as_slice())),
        map: plan.map,
    };
    let probes = replay::probes(world, &asked, seed).take(take);
    let own = &plan.predictors[0];
    let line = contestant::fit(own).and_then(|fit| contestant::line(world, plan, fit));
    let mut predictor = contestant::build(world, own, &given, line, seed);
    replay::replay(world, predictor.as_mut(), probes, &asked, seed)
}

#[test]
fn the_anchors_of_ripe_are_those_of_the_source() {
    let raw = pack::decode_raw(include_bytes!("../../crates/kinds/src/coords/data/ripe-2018.rtt"))
        .unwrap();
    let directed = raw.rtt_us.iter().flatten().flatten().count();
    assert_eq!((raw.rows.len(), directed), (213, 44_600));
    let world = named("ripe-2018");
    let (mut same, mut below, mut pairs) = (0, 0, 0);
    for a in 0..213 {
        for b in a + 1..213 {
            let Some(rtt_ms) = world.rtt_ms(a, b) else { continue };
            let (one, other) = (&world.machines[a as usize], &world.machines[b as usize]);
            pairs += 1;
            same += usize::from(one.system == other.system);
            let km = one.place.unwrap().distance_km(other.place.unwrap());
            below += usize::from(rtt_ms < FLOOR_MS_PER_KM * km);
        }
    }
    assert_eq!((same, below), (36, 0), "pairs in one system, pairs that beat light");
    assert!(pairs > 22_300, "{pairs}");
    let errors = world.machines.iter().map(|m| m.place.unwrap().distance_km(m.said.unwrap()));
    let near = errors.filter(|km| *km <= 50.0).count() as f64 / 213.0;
    assert!((near - 0.78).abs() < 0.01, "{near} of the database's answers are within 50 km");
}

/// The lines that the specification fitted to the same data with a program of its own.
#[test]
fn clause_2_3_lines_fitted_to_the_data() {
    let (squares, absolute) =
        (FitPlan::Fitted(FitName::LeastSquares), FitPlan::Fitted(FitName::LeastAbsolute));
    let (said, truth) = (PositionsPlan::Said, PositionsPlan::True);
    let (ripe, aws) = (DataPlan::Ripe {}, DataPlan::Aws {});
    for (data, name, positions, fit, ms_per_km, base_ms) in [
        (&ripe, "ripe-2018", said, squares, 0.0192, 18.2),
        (&ripe, "ripe-2018", said, absolute, 0.0188, 8.8),
        (&ripe, "ripe-2018", truth, squares, 0.0195, 15.5),
        (&aws, "aws-2025", said, squares, 0.0155, 24.8),
    ] {
        let plan = CoordsPlan { positions, ..plan(data.clone(), &[]) };
        let line = contestant::line(&named(name), &plan, fit).unwrap();
        let off = ((line.ms_per_km - ms_per_km).abs(), (line.base_ms - base_ms).abs());
        // Both digits that the specification prints; sums of absolute deviations are flat about
        // their least, and its program stopped 0.07 ms beside ours.
        assert!(off.0 < 0.000_06 && off.1 < 0.1, "{name} {positions:?} {fit:?}: {line:?}");
    }
}

#[test]
fn earlier_predictions_do_not_change_when_later_probes_do() {
    let world = named("ripe-2018");
    for own in everybody() {
        let plan = plan(DataPlan::Ripe {}, std::slice::from_ref(&own));
        let (some, all) = (run(&world, &plan, 3, 1_000), run(&world, &plan, 3, usize::MAX));
        assert!(all.probes > 2_700, "{}", all.probes);
        let said = some.before.ms.len();
        assert_eq!(some.before.ms, all.before.ms[..said], "{}", own.label());
    }
}

#[test]
fn a_replay_repeats_and_another_seed_parts() {
    let world = named("ripe-2018");
    for own in everybody() {
        let plan = plan(DataPlan::Ripe {}, std::slice::from_ref(&own));
        let of = |seed| run(&world, &plan, seed, usize::MAX);
        assert_eq!(of(1).trail, of(1).trail, "{}", own.label());
        assert_ne!(of(1).trail, of(2).trail, "{}", own.label());
    }
}

#[test]
fn all_contestants_meet_the_same_probes_wrong_positions_and_candidates() {
    let world = named("ripe-2018");
    let mut ends = Vec::new();
    for own in everybody() {
        let plan = CoordsPlan {
            wrong_positions_ratio: 0.3,
            ..plan(DataPlan::Ripe {}, std::slice::from_ref(&own))
        };
        let given = contestant::given(&world, &plan, 5);
        let places: Vec<String> = given.places.iter().map(|p| format!("{p:?}")).collect();
        let replayed = run(&world, &plan, 5, usize::MAX);
        ends.push((places, replayed.end, replayed.probes, replayed.picks[1].choices));
    }
    assert!(ends.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn the_oracle_is_never_wrong_and_chance_is_right_by_chance() {
    let world = named("ripe-2018");
    let mut plan = plan(DataPlan::Ripe {}, &[of("predictor = \"oracle\"")]);
    plan.picks.each = 50;
    let oracle = run(&world, &plan, 1, usize::MAX);
    assert!(oracle.before.ms.iter().chain(&oracle.after.ms).all(|ms| *ms == 0.0));
    for picked in &oracle.picks {
        assert_eq!(picked.hits, picked.choices);
        assert!(picked.penalty_ms.iter().all(|ms| *ms == 0.0));
    }
    plan.predictors = vec![of("predictor = \"random\"")];
    let chance = run(&world, &plan, 1, usize::MAX);
    for (picked, candidates) in chance.picks.iter().zip([2.0, 5.0, 10.0]) {
        let share = picked.hits as f64 / picked.choices as f64;
        assert!((share - 1.0 / candidates).abs() < 0.02, "{share} of {candidates}");
    }
}

/// A predictor that remembers what it said. Where `early`, it is told each probe before it is
/// asked.
struct Watched<'w> {
    own: RefCell<Box<dyn Predictor + 'w>>,
    early: bool,
    probes: Vec<Probe>,
    said: RefCell<Vec<Option<f64>>>,
}

impl Predictor for Watched<'_> {
    fn predict_ms(&self, from: u32, to: u32, now: Instant) -> Option<f64> {
        let at = self.said.borrow().len();
        if let Some(probe) = self.probes.get(at).filter(|_| self.early) {
            self.own.borrow_mut().learn(probe, &mut Stream::keyed(1, 0, Purpose::Test));
        }
        let said = self.own.borrow().predict_ms(from, to, now);
        self.said.borrow_mut().push(said);
        said
    }
    fn learn(&mut self, probe: &Probe, rng: &mut Stream) {
        self.own.borrow_mut().learn(probe, rng);
    }
}

/// What is said of the probes of a replay, the last of which takes `last_ms`.
fn said_before(own: &PredictorPlan, early: bool, last_ms: f64) -> Vec<Option<f64>> {
    const PROBES: usize = 500;
    let world = named("aws-2025");
    let plan = plan(DataPlan::Aws {}, std::slice::from_ref(own));
    let given = contestant::given(&world, &plan, 1);
    let asked = Asked {
        probes_per_node: 16,
        interval: Span::from_ms(15_000),
        peers: None,
        covered: &given.covered,
        systems: &given.systems,
        picks: &plan.picks,
        said: &given.places,
        worst: None,
        map: false,
    };
    let mut probes: Vec<Probe> = replay::probes(&world, &asked, 1).take(PROBES).collect();
    probes[PROBES - 1].rtt_ms = last_ms;
    let line = contestant::fit(own).and_then(|fit| contestant::line(&world, &plan, fit));
    let predictor = contestant::build(&world, own, &given, line, 1);
    let (own, said) = (RefCell::new(predictor), RefCell::default());
    let mut watched = Watched { own, early, probes: probes.clone(), said };
    replay::replay(&world, &mut watched, probes, &asked, 1);
    let mut said = watched.said.into_inner();
    said.truncate(PROBES);
    said
}

/// What is said of a probe does not depend on how long it takes, whoever says it but the oracle.
/// The planted bug, a predictor that learns before it is asked, is caught by that.
#[test]
fn planted_learning_before_predicting_is_caught() {
    let blind = |own: &PredictorPlan, early| {
        said_before(own, early, 10.0) == said_before(own, early, 400.0)
    };
    for own in everybody() {
        assert!(blind(&own, false), "{}", own.label());
    }
    let learners = ["htrae", "survey", "vivaldi", "pyxida", "serf"];
    for own in learners.map(|name| of(&format!("predictor = \"{name}\""))) {
        assert!(!blind(&own, true), "{} learns first and nobody sees it", own.label());
    }
}

/// Predictors are given what a database says: where machines are in truth changes no prediction.
/// The planted bug, true positions for those of the database, is caught by that.
#[test]
fn planted_true_positions_for_those_of_a_database_are_caught() {
    let world = named("ripe-2018");
    let mut elsewhere = world.clone();
    let mut rng = Stream::keyed(4, 0, Purpose::Test);
    elsewhere.machines.iter_mut().for_each(|one| one.place = Some(Point::random(&mut rng)));
    for name in ["geolocation", "htrae", "survey", "located"] {
        let own = of(&format!("predictor = \"{name}\""));
        let with = |positions| {
            let plan =
                CoordsPlan { positions, ..plan(DataPlan::Ripe {}, std::slice::from_ref(&own)) };
            let of = |world: &World| run(world, &plan, 1, 600).trail;
            of(&world) == of(&elsewhere)
        };
        assert!(with(PositionsPlan::Said), "{name} knows where machines are");
        assert!(!with(PositionsPlan::True), "{name} is given the truth and nobody sees it");
    }
}

#[test]
fn players_are_as_the_plan_says() {
    let plan = PlayersPlan { count: 4_000, ..PlayersPlan::default() };
    let world = Players::world(&plan, 1);
    let Truth::Players(players) = &world.truth else { panic!("players") };
    let share = |of: &dyn Fn(usize) -> bool| (0..4_000).filter(|i| of(*i)).count() as f64 / 4_000.0;
    assert!(world.machines.is_empty(), "players say themselves what they are");
    let all: Vec<Machine> = world.all().map(|machine| machine.into_owned()).collect();
    let said_km = |i: usize| {
        let machine = &all[i];
        machine.place.unwrap().distance_km(machine.said.unwrap())
    };
    assert!((share(&|i| said_km(i) <= 50.0) - 0.78).abs() < 0.02);
    assert!((share(&|i| said_km(i) <= 1_600.0) - 0.96).abs() < 0.02);
    assert!((share(&|i| all[i].system <= 10) - 0.3).abs() < 0.03);
    let american = |i: usize| {
        let (lat, lon) = all[i].place.unwrap().degrees();
        lat > 24.0 && lon < -50.0
    };
    assert!((share(&american) - 0.6).abs() < 0.03, "{}", share(&american));
    let mut far = Vec::new();
    for a in 0..200 {
        for b in a + 1..200 {
            let rtt_ms = players.rtt_ms(a, b).unwrap();
            assert_eq!(players.rtt_ms(b, a), Some(rtt_ms));
            let place = |m: u32| all[m as usize].place.unwrap();
            let km = place(a).distance_km(place(b));
            assert!(rtt_ms >= FLOOR_MS_PER_KM * km);
            if (5_000.0..10_000.0).contains(&km) {
                far.push(rtt_ms);
            }
        }
    }
    far.sort_by(f64::total_cmp);
    let median = far[far.len() / 2];
    assert!((110.0..210.0).contains(&median), "anchors: 152 ms, players: {median}");
    let rng = || Stream::keyed(1, 0, cavy_core::Purpose::Test);
    let visits: Vec<_> = players.visits(13, 1, rng()).collect();
    assert_eq!(visits.len(), 13 * 4_000);
    assert!(visits.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert!(visits.iter().all(|visit| visit.from != visit.to));
    for parts in [0, 4, 7, 30, 99] {
        assert!(players.visits(13, parts, rng()).eq(visits.iter().copied()), "{parts}");
    }
}

#[test]
fn probes_of_players_are_the_same_drawn_at_once_in_parts_or_read_from_a_file() {
    let world = Players::world(&PlayersPlan { count: 2_000, ..PlayersPlan::default() }, 7);
    let Truth::Players(players) = &world.truth else { panic!("players") };
    let drawn: Vec<Probe> = replay::of_players(players, 13, 1_000_000, 3).collect();
    assert_eq!(drawn.len(), 26_000, "more than a block of the file");
    assert!(replay::of_players(players, 13, 5_000, 3).eq(drawn.iter().copied()));
    let trace = Trace::write(drawn.iter().copied()).expect("room for a file");
    // Two readers, one of them a thousand probes ahead.
    let (mut one, mut other) = (trace.read(), trace.read());
    assert!(one.by_ref().take(1_000).eq(drawn[..1_000].iter().copied()));
    for probe in &drawn[1_000..] {
        assert_eq!(one.next(), Some(*probe));
        other.next();
    }
    assert_eq!((one.next(), other.count()), (None, 1_000));
    assert!(!trace.has_failed());
    assert_eq!(Trace::write(std::iter::empty()).expect("room").read().count(), 0);
}

#[test]
fn players_are_made_once_for_all_predictors_of_a_plan() {
    let small = |count| Key {
        players: PlayersPlan { count, ..PlayersPlan::default() },
        probes_per_node: 13,
    };
    let (kept, made) = (Kept::new(), RefCell::new(Vec::new()));
    let ask = |key: &Key, seed: u64| {
        let new = |how: char| {
            made.borrow_mut().push((how, key.players.count, seed));
            Made::new(&PlayersPlan { count: 2, ..key.players.clone() }, seed)
        };
        kept.of(key, seed, || new('k'), || new('a'))
    };
    let (one, other, large) = (small(100), small(200), small(3_000_000));
    for (key, seed) in [(&one, 1), (&one, 2), (&one, 1), (&other, 1), (&one, 1), (&one, 1)] {
        ask(key, seed);
    }
    assert_eq!(made.take(), [('k', 100, 1), ('k', 100, 2), ('k', 200, 1), ('k', 100, 1)]);
    // Two of these are too much to keep.
    for seed in [1, 2, 1, 2] {
        ask(&large, seed);
    }
    assert_eq!(made.take(), [('k', 3_000_000, 1), ('a', 3_000_000, 2), ('a', 3_000_000, 2)]);
}

#[test]
fn no_result_depends_on_whether_players_were_kept() {
    let outcomes = |predictors: &str, twice: bool| {
        let text = format!(
            "kind = \"coords\"\ntitle = \"x\"\nprobes_per_node = 13\n{predictors}\n\
             data = {{ name = \"players\", count = 400 }}\nrun = {{ replications = 2 }}"
        );
        let manner = Manner { twice, ..Manner::default() };
        let files = &Files::NONE;
        let text = Text { text: &text, name: "x", files, overrides: &[], quick: false };
        let loaded = load::<CoordsPlan>(&text).expect("a plan");
        let run = |one| point::run(one, files, &manner).expect("it runs");
        let all: Vec<_> = loaded.points.iter().map(run).collect();
        all.into_iter().map(|one| (one.digest, one.data)).collect::<Vec<_>>()
    };
    let names = ["survey", "htrae", "serf", "geolocation"];
    let each = names.map(|name| format!("{{ predictor = \"{name}\" }}"));
    let together = outcomes(&format!("predictors = [{}]", each.join(", ")), false);
    assert_eq!(together, outcomes(&format!("predictors = [{}]", each.join(", ")), true));
    let alone = each.map(|one| outcomes(&format!("predictors = [{one}]"), false).remove(0));
    assert_eq!(together, alone);
}

#[test]
fn every_predictor_plays() {
    let own = PlayersPlan { count: 600, ..PlayersPlan::default() };
    let world = Players::world(&own, 2);
    let plan = plan(DataPlan::Players(own), &[]);
    let guess = 60.0;
    for own in everybody() {
        let plan = CoordsPlan { predictors: vec![own.clone()], ..plan.clone() };
        let mut ms = run(&world, &plan, 2, usize::MAX).after.ms;
        assert!(!ms.is_empty(), "{}", own.label());
        ms.sort_by(f32::total_cmp);
        let median = ms[ms.len() / 2];
        assert!(median.is_finite() && median < 2.0 * guess, "{}: {median} ms", own.label());
    }
}

fn read(plan: &str, overrides: &[&str], files: &Files) -> Result<(), String> {
    let overrides: Vec<String> = overrides.iter().map(|one| one.to_string()).collect();
    let text = Text { text: plan, name: "plan", files, overrides: &overrides, quick: false };
    let plan = load::<CoordsPlan>(&text);
    plan.map(drop).map_err(|error| {
        format!("{error}\n{}", error.hints.iter().map(|h| format!("  {h}\n")).collect::<String>())
    })
}

#[test]
fn mistakes_are_named_with_field_value_and_cure() {
    read(PLAN, &[], &Files::NONE).expect("the plan is good");
    for (key, found) in [
        ("probes_per_node=1000000000", "probes_per_node"),
        ("wrong_positions_ratio=30", "0 to 1"),
        ("picks.candidates=[5, 2]", "rising"),
        ("picks.candidates=[500]", "below the number of nodes, 213"),
        ("interval_s=0", "interval_s"),
        ("peers=0", "leave it out"),
        ("predictors.htrae.move_gain=2", "predictors.move_gain"),
        ("predictors.htrae.fit={ ms_per_km = -1, base_ms = 0 }", "predictors.fit.ms_per_km"),
        ("predictors.htrae.colour=1", "colour"),
        ("objectives=[\"p91_error_ms <= 3\"]", "p91_error_ms"),
        ("objectives=[\"hit_of_7 >= 0.5\"]", "7 candidates"),
        ("objectives=[\"below_50ms_of_5 >= 0.5\"]", "picks.below_ms"),
        ("data={ name = \"players\", count = 1 }", "data.count"),
        ("data={ name = \"players\", detour_ms = [9, 3] }", "data.detour_ms"),
        ("data={ name = \"king\" }", "ripe-2018"),
    ] {
        let error = read(PLAN, &[key], &Files::NONE).expect_err(key);
        assert!(error.contains(found), "{key}: {error}");
    }
    // Players probe whom they meet, when they meet them.
    for key in ["peers=4", "interval_s=30"] {
        let players = "data={ name = \"players\", count = 100 }";
        let error = read(PLAN, &[key, players], &Files::NONE).expect_err(key);
        assert!(error.contains("left out with the data `players`"), "{key}: {error}");
        read(PLAN, &[key], &Files::NONE).expect(key);
    }
}

const NODES: &str = "name,lat,lon\nlondon,51.5,-0.1\nparis,48.9,2.35\nrome,41.9,12.5\n\
                     oslo,59.9,10.7\nmadrid,40.4,-3.7\nathens,38.0,23.7\n";

/// Around the north pole, if one reads latitude for longitude.
const EXCHANGED: &str = "name,lat,lon\na,-75,85\nb,-45,85\nc,-15,85\nd,15,85\ne,45,85\nf,75,85\n";

/// A plan about files of one's own.
fn files(kind: &str, data: &'static str, nodes: &'static str) -> Result<(), String> {
    let carried: &'static [(&'static str, &'static str)] =
        Box::leak(Box::new([("data.csv", data), ("nodes.csv", nodes)]));
    let plan = format!(
        "kind = \"coords\"\ntitle = \"x\"\nprobes_per_node = 2\n\
         data = {{ name = \"{kind}\", file = \"data.csv\", nodes = \"nodes.csv\" }}\n\
         [picks]\ncandidates = [2]\n[[predictors]]\npredictor = \"htrae\"\n"
    );
    read(&plan, &[], &Files::Carried(carried))
}

#[test]
fn files_of_ones_own_are_read_and_what_is_wrong_is_said() {
    let square = |cell: &str| {
        let row = |i: usize| {
            let cells = (0..6).map(|j| if i == j { String::new() } else { cell.to_string() });
            cells.collect::<Vec<_>>().join(",")
        };
        let text: String = (0..6).map(|i| row(i) + "\n").collect();
        &*Box::leak(text.into_boxed_str())
    };
    files("matrix", square("40"), NODES).expect("a square");
    let semicolons = square("40").replace(',', ";");
    files("matrix", Box::leak(semicolons.into_boxed_str()), NODES).expect("as spreadsheets write");
    files("pairs", "from,to,rtt_ms\nlondon,paris,9\nparis,rome,22\n", NODES).expect("pairs");
    // One place of a database may be wrong.
    files("pairs", "from,to,rtt_ms\nlondon,paris,0.009\nparis,rome,22\n", NODES).expect("one");
    let swapped = "name,lat,lon\nsydney,151.2,-33.9\nparis,48.9,2.35\n";
    for (kind, data, nodes, found) in [
        ("matrix", square("0.02"), NODES, "are these seconds"),
        ("matrix", square("-1"), NODES, "-1 is no round trip"),
        ("matrix", square("0"), NODES, "leave out what was not measured"),
        ("matrix", square("NaN"), NODES, "NaN is no round trip"),
        ("matrix", square("40000"), NODES, "microseconds"),
        ("matrix", square("far"), NODES, "`far` is no number"),
        ("matrix", "1,2\n3,4\n", NODES, "there must be 6 rows of 6 columns"),
        ("matrix", ",1,1,1,1,1\n", NODES, "1 rows; there are 6 nodes"),
        ("matrix", square("40"), swapped, "look swapped"),
        ("matrix", square("15"), EXCHANGED, "exchange the columns `lat` and `lon`"),
        ("matrix", square("40"), "name,lat\na,1\n", "positions need both"),
        ("matrix", square("40"), "name\na\na\n", "a second node is called `a`"),
        ("matrix", square("40"), "place\na\n", "no column `name`"),
        ("pairs", "from,to,rtt_ms\nlondon,berlin,9\n", NODES, "no node is called `berlin`"),
        ("pairs", "from,to,rtt_ms\nrome,rome,9\n", NODES, "`rome` measured itself"),
        (
            "pairs",
            "from,to,rtt_ms\nlondon,paris,0.009\nparis,rome,0.022\n",
            NODES,
            "are these seconds",
        ),
        ("pairs", "from,to,rtt_ms\n", NODES, "no pair was measured"),
        (
            "pairs",
            "from,to,rtt_ms,time_s\nlondon,paris,9,5\nparis,rome,9,4\n",
            NODES,
            "not in order of time",
        ),
    ] {
        let error = files(kind, data, nodes).expect_err(found);
        assert!(error.contains(found), "{found}: {error}");
    }
}

#[test]
fn addresses_are_where_a_database_says_and_what_it_lacks_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |prefix: &str, place, country: Option<&str>| Row {
        prefix: prefix.to_string(),
        place,
        country: country.map(str::to_string),
        system: None,
    };
    let rows = [
        row("198.51.100.1/32", Some((50.0, 8.0)), Some("DE")),
        row("198.51.100.2/32", Some((35.0, 139.0)), None),
        row("203.0.113.0/24", None, Some("BR")),
    ];
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("written");
    };
    write("places.mmdb", &database(&rows).expect("a database"));
    write("broken.mmdb", b"no database");
    let nodes = "name,ip,lat,lon\na,198.51.100.1,,\nb,198.51.100.2,1,2\nc,203.0.113.9,,\n\
                 d,192.0.2.1,,\ne,,,\n";
    write("nodes.csv", nodes.as_bytes());
    write("pairs.csv", b"from,to,rtt_ms\na,b,200\nc,d,90\n");
    write("unknown.csv", b"name,ip\na,192.0.2.1\nb,192.0.2.2\n");
    write("words.csv", b"name,ip\na,nowhere\nb,192.0.2.2\n");
    write("bare.csv", b"name\na\nb\n");
    let read = |nodes: &str, mmdb: &str| {
        let (file, nodes) = ("pairs.csv".to_string(), nodes.to_string());
        let plan = DataPlan::Pairs { file, nodes, mmdb: Some(mmdb.to_string()) };
        load::world(&plan, &Files::Folder(folder.path().to_path_buf()), &mut |_, _, _| {})
    };
    let world = read("nodes.csv", "places.mmdb").expect("it is read").expect("a world");
    let at = |one: usize| {
        let said = world.machines[one].said?;
        let (latitude, longitude) = said.degrees();
        Some((latitude.round(), longitude.round()))
    };
    // What the file says comes first, then the database's position, then the country's middle.
    let expected = [Some((50.0, 8.0)), Some((1.0, 2.0)), Some((-10.0, -55.0)), None, None];
    assert_eq!([0, 1, 2, 3, 4].map(at), expected);
    assert!(world.note.contains("for 1 of 3 addresses only the country"), "{}", world.note);
    assert!(world.note.contains("for 1 of 3 addresses no place is known"), "{}", world.note);
    for (nodes, mmdb, found) in [
        ("nodes.csv", "missing.mmdb", "cannot read the database of places"),
        ("nodes.csv", "broken.mmdb", "it is no database of places"),
        ("unknown.csv", "places.mmdb", "it knows none of the 2 addresses"),
        ("words.csv", "places.mmdb", "`nowhere` is no IP address"),
        ("bare.csv", "places.mmdb", "no column `ip`"),
    ] {
        let error = read(nodes, mmdb).expect_err(found).to_string();
        assert!(error.contains(found), "{found}: {error}");
    }
}

#[test]
fn geographic_predictors_say_that_they_lack_positions_and_others_run() {
    let world = {
        let mut world = named("aws-2025");
        world.machines.iter_mut().for_each(|m| (m.place, m.said) = (None, None));
        world
    };
    let silent = run(&world, &plan(DataPlan::Aws {}, &[of("predictor = \"geolocation\"")]), 1, 99);
    assert_eq!((silent.after.ms.len(), silent.after.silent), (0, 496));
    let serf = run(&world, &plan(DataPlan::Aws {}, &[of("predictor = \"serf\"")]), 1, 99);
    assert_eq!(serf.after.ms.len(), 496);
}

/// A round trip that the model itself says is learnt from without moving anybody.
#[test]
fn a_matrix_made_by_the_model_is_a_fixed_point() {
    use cavy_coords::{Config, Coordinate, predict_ms};
    let mut world = named("ripe-2018");
    let line = cavy_coords::map::SERVERS;
    let config = Config::with_line(line);
    let at = |m: u32, world: &World| {
        Coordinate::at(world.machines[m as usize].said.unwrap(), 0, &config)
    };
    let mut matrix = cavy_kinds::coords::world::Matrix::empty(213);
    for a in 0..213 {
        for b in a + 1..213 {
            matrix.set(a, b, predict_ms(&at(a, &world), &at(b, &world), &config));
        }
    }
    world.truth = Truth::Matrix(matrix);
    let fit = FitPlan::Given(cavy_kinds::coords::LinePlan {
        ms_per_km: line.ms_per_km,
        base_ms: line.base_ms,
    });
    let own = PredictorPlan::Htrae(HtraePlan { fit, same_system: false, ..HtraePlan::default() });
    let replayed = run(&world, &plan(DataPlan::Ripe {}, &[own]), 1, usize::MAX);
    let worst = replayed.after.ms.iter().copied().fold(0.0, f32::max);
    assert!(worst < 1e-6, "{worst}");
    assert!(Point::from_degrees(0.0, 0.0).is_some());
}

#[test]
fn carried_squares_without_positions_are_those_of_the_source() {
    // Median and 99th percentile of pairs, as the data's own description has them: of medians over
    // all slices they differ a little from medians of slices.
    for (name, count, p50, p99) in [
        ("planetlab-490", 490, 125.0..145.0, 380.0..430.0),
        ("seattle-99", 99, 150.0..190.0, 500.0..2_200.0),
    ] {
        let world = named(name);
        assert_eq!(world.count(), count);
        assert!(world.machines.iter().all(|machine| machine.said.is_none()));
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
        let mut all: Vec<f64> = pairs.filter_map(|(a, b)| world.rtt_ms(a, b)).collect();
        assert_eq!(all.len() as u64, world.pairs(), "{name}");
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all[(all.len() as f64 * share) as usize];
        assert!(
            p50.contains(&at(0.5)) && p99.contains(&at(0.99)),
            "{name}: {} {}",
            at(0.5),
            at(0.99)
        );
    }
}

#[test]
fn the_worst_pairs_are_told_apart_by_facts_of_the_world() {
    // On a line of five, all 10 ms apart but the ends, which are 100 ms from each other; node 4 is
    // said to be on the other side of the world.
    let mut matrix = Matrix::empty(5);
    for a in 0..5u32 {
        (a + 1..5).for_each(|b| matrix.set(a, b, 10.0));
    }
    matrix.set(0, 3, 100.0);
    let at = |lon: f64| Point::from_degrees(0.0, lon);
    let machine = |index: u32| Machine {
        name: index.to_string(),
        place: at(0.0),
        said: at(if index == 4 { 179.0 } else { 0.0 }),
        system: 0,
    };
    let machines = (0..5).map(machine).collect();
    let truth = Truth::Matrix(matrix);
    let world = World { machines, truth, credits: &[], note: String::new() };
    let detours = worst::detours(&world);
    assert_eq!(detours.iter().filter(|found| **found).count(), 1);
    assert!(detours[2], "0 to 3, by rows of the upper triangle");
    let line = "predictor = \"geolocation\"\nfit = { ms_per_km = 0.0188, base_ms = 8.8 }";
    let mut plan = plan(DataPlan::Aws {}, &[of(line)]);
    (plan.worst_ratio, plan.probes_per_node, plan.map) = (Some(0.5), 0, true);
    plan.picks.candidates = vec![2];
    let replayed = run(&world, &plan, 1, 0);
    let found = replayed.worst.expect("asked for");
    // All pairs of node 4, and the detour, are worse than the others.
    assert_eq!((found.all.pairs, found.all.by_cause), (10, [1, 4, 5, 5]));
    assert_eq!((found.worst.pairs, found.worst.by_cause), (5, [1, 4, 5, 0]));
    let sketch = replayed.sketch.expect("geolocation thinks of places");
    assert_eq!((sketch.count, sketch.nodes.len()), (5, 5));
    let last = &sketch.nodes[4];
    assert_eq!(
        (last.said, last.now, last.place),
        (Some((0.0, 179.0)), (0.0, 179.0), Some((0.0, 0.0)))
    );
    assert!(last.after_ms > sketch.nodes[1].after_ms, "{sketch:?}");
}

#[test]
fn a_map_shows_a_wrong_row_and_where_its_coordinate_went() {
    let mut plan = plan(DataPlan::Ripe {}, &[of("predictor = \"htrae\"\nhistory = false")]);
    (plan.probes_per_node, plan.map) = (50, true);
    let replayed = run(&named("ripe-2018"), &plan, 1, usize::MAX);
    let sketch = replayed.sketch.expect("Htrae thinks of places");
    let far = |one: Option<(f64, f64)>, other: (f64, f64)| {
        let point = |(lat, lon): (f64, f64)| Point::from_degrees(lat, lon).expect("on Earth");
        one.map_or(0.0, |one| point(one).distance_km(point(other)))
    };
    let wrong = sketch.nodes.iter().filter(|n| n.place.is_some_and(|p| far(n.said, p) > 2_000.0));
    let (mut before, mut after, mut count) = (0.0, 0.0, 0);
    for node in wrong {
        before += node.before_ms.expect("pairs");
        after += node.after_ms.expect("pairs");
        count += 1;
    }
    assert!(count >= 5, "DB-IP has some far off: {count}");
    assert!(after < 0.5 * before, "their pairs are repaired: {before} to {after} ms, {count}");
    let oracle = of("predictor = \"oracle\"");
    plan.predictors = vec![oracle];
    assert!(run(&named("ripe-2018"), &plan, 1, 100).sketch.is_none(), "it thinks of no places");
}

#[test]
fn who_chooses_seldom_asks_everybody() {
    let picks = PicksPlan { probed: 3, ..PicksPlan::default() };
    // Sixteen probes and three each time, or ten each time: 22 or 20 for two choices, 25 or 30 for
    // three.
    let choices = picks.pays_from(16.0, 10).expect("seven are saved");
    assert!(choices > 2.0 && choices < 3.0, "{choices}");
    assert_eq!(picks.pays_from(16.0, 3), None, "the best three are all");
    assert_eq!(picks.pays_from(0.0, 10), Some(0.0), "geolocation needs no probes");
}
