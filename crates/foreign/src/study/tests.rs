use super::*;
use cavy_groups::rank::Observed;

#[test]
fn points_differ_from_their_base_in_their_tier_alone() {
    for quick in [false, true] {
        let points = Point::all(quick);
        assert_eq!(points.len(), if quick { 4 } else { 11 });
        for point in points {
            let (a, b) = (point.before, point.after);
            let php = a.php_burn != b.php_burn || a.opcache != b.opcache;
            let database = a.database_burn != b.database_burn || a.index != b.index;
            let web = a.gzip_level != b.gzip_level;
            let changed = [web, php, database];
            let wanted = Tier::ALL.map(|tier| tier == point.target);
            assert_eq!(changed, wanted, "{point:?}");
            assert_eq!(a.children, b.children);
            assert_eq!(a.next_request_meets(&b), !point.real, "burns alone");
        }
    }
}

#[test]
fn a_prediction_cannot_be_changed_after_the_truth_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("predictions.jsonl");
    let mut ledger = Ledger::begin(&path).expect("a file");
    let first = ledger.predicted(&json!({ "gain": 12.5 })).expect("written");
    ledger.line(&json!({ "of": first, "truth_percent": 11.0 })).expect("written");
    let second = ledger.predicted(&json!({ "gain": 12.5 })).expect("written");
    assert_ne!(first, second, "a digest covers what came before");
    assert_eq!(verify(&path), Ok(2));
    // A later piece of the study goes on with it.
    let mut later = Ledger::go_on(&path).expect("a file");
    later.predicted(&json!({ "gain": 12.5 })).expect("written");
    assert_eq!(verify(&path), Ok(3));
    let good = fs::read_to_string(&path).expect("text");
    fs::write(&path, good.replacen("12.5", "11.0", 1)).expect("written");
    assert!(verify(&path).expect_err("changed").contains("line 1: its digest"));
    assert!(Ledger::go_on(&path).err().is_some_and(|why| why.contains("line 1: its digest")));
    let truth_first: Vec<&str> = good.lines().skip(1).collect();
    fs::write(&path, truth_first.join("\n")).expect("written");
    assert!(verify(&path).expect_err("no prediction").contains("no prediction before"));
}

fn observed(per_s: f64, php_us: f64) -> Observed {
    Observed {
        answers: 100.0,
        per_s,
        cpu_us_per_request: vec![100.0, php_us, 100.0],
        own_us_per_request: 50.0,
        weather: Weather { busy_ratio: 0.95, ..Weather::default() },
        rates: None,
    }
}

/// True gain 25 %; predicted `gain`.
fn judged(gain: f64, base_per_s: f64) -> Judged {
    let row = Prediction {
        row: cavy_groups::rank::Row {
            service: "x".to_string(),
            gain_percent: Some(Estimate { value: gain, low: gain, high: gain }),
            gain_between_percent: None,
            predicted_per_s: None,
            law_percent: 0.0,
            cpu_us_per_request: 1.0,
            paused_ratio: 0.1,
            pause_ms: 2.0,
            delivered_percent: 20.0,
            pause_cost_percent: None,
            predicted_p50_ms: None,
            predicted_p99_ms: None,
            wall_p50_ms: None,
            wall_p99_ms: None,
            rounds: 2,
            weather: Weather::default(),
            doubts: Vec::new(),
        },
        faster_percent: 20.0,
        baseline_per_s: None,
        cpu_us_per_request: Vec::new(),
        busy_ratio: 1.0,
        windows: Vec::new(),
        failed: 0,
        overdue_ms: 0.0,
        interrupted: false,
    };
    let mut truth = Truth::new(0);
    for _ in 0..2 {
        let seen = Seen {
            without: vec![observed(8.0, 1_000.0), observed(8.0, 1_000.0)],
            with: vec![observed(10.0, 750.0), observed(10.0, 750.0)],
        };
        truth.rounds.push((Some(base_per_s), seen));
    }
    judge(Point::all(true).remove(0), 1, [2.0, 1.6], row, truth)
}

#[test]
fn errors_are_of_throughput() {
    // A tenth too much.
    let judged = judged(37.5, 8.0);
    assert!((judged.truth_percent.expect("a truth").value - 25.0).abs() < 1e-9);
    assert!((judged.error_percent.expect("an error") - 10.0).abs() < 1e-9);
    assert!((judged.no_change_error_percent.expect("an error") + 20.0).abs() < 1e-9);
    // 37.5 % save 0.2727 of the time by making PHP 20 % faster; under load it was 25 %.
    let as_loaded = 1.0 / (1.0 - (1.0 - 1.0 / 1.375) * 1.25) / 1.25 * 100.0 - 100.0;
    let found = judged.error_as_loaded_percent.expect("an error");
    assert!((found - as_loaded).abs() < 1e-9, "{found} {as_loaded}");
}

#[test]
fn a_study_is_held_to_itself() {
    let fine = judged(25.0, 8.0);
    // 1250 us become 1000, and 1000 of PHP become 750.
    assert!((fine.truth_by_cpu_percent.expect("CPU time").value - 25.0).abs() < 1e-9);
    assert!((fine.faster_loaded_percent.expect("a share") - 25.0).abs() < 1e-9);
    assert!(fine.base_percent.expect("bases").value.abs() < 1e-9);
    assert!(fine.doubts.len() == 1 && fine.doubts[0].contains("25 % faster under load"));
    let moved = judged(25.0, 10.0);
    assert!((moved.base_percent.expect("bases").value + 20.0).abs() < 1e-9);
    assert!(moved.doubts[0].contains("something else moved"), "{:?}", moved.doubts);
}

#[test]
fn a_machine_that_is_slower_with_the_change_is_taken_out() {
    use cavy_groups::speed::{Evening, Rates};
    let at = |per_s: f64, memory| Observed {
        rates: Some(Rates { core: 75_000.0, memory }),
        ..observed(per_s, 1_000.0)
    };
    let evening =
        Evening { even: Rates { core: 75_000.0, memory: 4_000.0 }, core: 0.0, memory: 0.5 };
    let mut truth = Truth::new(0);
    for _ in 0..2 {
        // 25 % more at a machine whose reads take 1.21 times as long: 37.5 % more at even speed.
        let with = vec![at(10.0, 4_000.0 / 1.21); 2];
        truth.rounds.push((None, Seen { without: vec![at(8.0, 4_000.0); 2], with }));
    }
    let evened = truth.evened(&evening).expect("all windows have rates");
    assert!((evened.value - 37.5).abs() < 1e-9, "{evened:?}");
    let seen = Seen { without: vec![observed(8.0, 1.0)], with: vec![at(10.0, 4_000.0)] };
    truth.rounds = vec![(None, seen)];
    assert_eq!(truth.evened(&evening), None, "nobody looked in one of the windows");
}

#[test]
fn windows_beside_busy_programs_tell_nothing_of_the_spread() {
    use super::unchanged::{Kind, Unchanged, bases};
    use cavy_groups::speed::Rates;
    let points = Point::all(false);
    let settings = bases(&points);
    assert_eq!(settings.len(), 5, "a burn in each of two tiers, opcache, index, gzip");
    let seen: Vec<Observed> = (0..8)
        .map(|index| {
            let mut one = observed(40.0 + f64::from(index % 2), 1_000.0);
            one.rates = Some(Rates { core: 75_000.0, memory: 4_000.0 });
            if index == 7 {
                (one.per_s, one.weather.others_ratio) = (10.0, 0.5);
            }
            one
        })
        .collect();
    let unchanged = Unchanged::of(vec![Kind { settings: settings[0], seen }]);
    let spread = unchanged.spread.expect("seven windows");
    assert_eq!(spread.windows, 7);
    assert!(spread.percent > 1.0 && spread.percent < 3.0, "{spread:?}");
}

#[test]
fn what_an_earlier_piece_has_measured_is_known_to_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(Outcome::left_in(folder.path()).expect("no file is no mistake").is_none());
    let mut outcome = Outcome::default();
    outcome.add(judged(25.0, 8.0));
    let other_point =
        NotMeasured { point: "gzip".to_string(), alone_us: [1.0, 1.0], why: "no gain".to_string() };
    outcome.not_measured.push(other_point);
    outcome.keep(folder.path()).expect("written");
    let mut known = Outcome::left_in(folder.path()).expect("read").expect("there");
    let point = outcome.points[0].point.clone();
    assert!(known.has(&point, 2) && !known.has(&point, 3), "it has two rounds");
    let other = Point { after: Settings { php_burn: 1, ..point.after }, ..point };
    assert!(!known.has(&other, 2), "another change of the same name");
    assert_eq!(serde_json::to_string(&known).ok(), serde_json::to_string(&outcome).ok());
    known.add(judged(30.0, 8.0));
    assert_eq!(known.points.len(), 1, "measured again, it is there once");
    assert_eq!(known.not_measured.len(), 1, "it is another point");
    let mut gzip = judged(5.0, 8.0);
    gzip.point.name = "gzip".to_string();
    known.add(gzip);
    assert!(known.not_measured.is_empty(), "measured after all");
    fs::write(folder.path().join("result.json"), "{}").expect("written");
    let why = Outcome::left_in(folder.path()).expect_err("no result");
    assert!(why.contains("begin without --resume"), "{why}");
}
