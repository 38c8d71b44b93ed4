//! The service: what it says of whom, what survives, what it refuses.

use cavy_agents::directory::log::Log;
use cavy_agents::directory::{Change, Directory, NodeChange, Outcome, ProbesChange, Source};
use cavy_agents::service::{Answer, Ask, Limits, Service};
use cavy_agents::wire::{Nat, Reach};
use cavy_coords::Config;
use cavy_core::{Purpose, Stream};
use cavy_places::Places;
use serde_json::{Value, json};
use std::path::Path;

fn asked(service: &Service, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let ask = Ask { method, path, query, body: body.as_bytes() };
    let answer: Answer = service.answer(&ask, 1_000_000);
    if let Some(refused) = service.wait(&answer) {
        panic!("{refused:?}");
    }
    let value = serde_json::from_str(&answer.body).unwrap_or(Value::String(answer.body));
    (answer.status, value)
}

fn get(service: &Service, path: &str) -> Value {
    let (status, value) = asked(service, "GET", path, &Value::Null);
    assert_eq!(status, 200, "{path}: {value}");
    value
}

fn empty() -> Service {
    let directory = Directory::new(Config::default());
    Service::new(directory, None, Places::default(), Limits::default(), true)
}

fn put(service: &Service, id: &str, (lat, lon): (f64, f64), class: &str) {
    let body = json!({ "id": id, "lat": lat, "lon": lon, "class": class });
    assert_eq!(asked(service, "POST", "/v1/nodes", &body).0, 201, "{id}");
}

const CITIES: [(&str, (f64, f64)); 5] = [
    ("frankfurt", (50.1, 8.7)),
    ("virginia", (38.9, -77.4)),
    ("tokyo", (35.7, 139.7)),
    ("sydney", (-33.9, 151.2)),
    ("sao paulo", (-23.5, -46.6)),
];

fn cities() -> Service {
    let service = empty();
    for (id, place) in CITIES {
        put(&service, id, place, "server");
    }
    put(&service, "alice", (48.9, 2.4), "player");
    service
}

#[test]
fn the_nearest_server_is_said_before_anybody_has_asked_it() {
    let service = cities();
    let near = get(&service, "/v1/nearest?from=alice&k=2&class=server");
    assert_eq!(near[0]["id"], "frankfurt");
    assert_eq!(near[1]["id"], "virginia");
    assert_eq!(near[0]["source"], "geo");
    let (rtt, p90) = (near[0]["rtt_ms"].as_f64().unwrap(), near[0]["p90_ms"].as_f64().unwrap());
    assert!((10.0..30.0).contains(&rtt) && p90 > rtt, "{near}");
    // A measurement is said as it was, and from then on coordinates have learnt.
    let probes = json!([{ "from": "alice", "to": "virginia", "rtt_ms": 5.0 }]);
    let (_, said) = asked(&service, "POST", "/v1/probes", &probes);
    assert_eq!(said, json!({ "taken": 1, "repeated": 0, "unknown": 0, "nonsense": 0 }));
    let near = get(&service, "/v1/nearest?from=alice&k=2&class=server");
    assert_eq!((&near[0]["id"], &near[0]["source"]), (&json!("virginia"), &json!("history")));
    assert_eq!(near[0]["rtt_ms"], 5.0);
    let said = get(&service, "/v1/rtt?from=alice&to=sao%20paulo,tokyo");
    assert_eq!((&said[0]["to"], &said[0]["source"]), (&json!("sao paulo"), &json!("coord")));
    assert!(said[1]["rtt_ms"].as_f64().unwrap() > said[0]["rtt_ms"].as_f64().unwrap() * 0.5);
}

#[test]
fn positions_are_published_roughly_and_kept_exactly() {
    let service = empty();
    put(&service, "a", (51.234_567, -0.123_4), "server");
    let node = get(&service, "/v1/nodes/a");
    assert_eq!((&node["coord"]["lat"], &node["coord"]["lon"]), (&json!(51.0), &json!(-0.0)));
    let directory = service.directory();
    let own = directory.entry(0).unwrap().coordinate().unwrap().position.degrees();
    assert!((own.0 - 51.234_567).abs() < 1e-9);
}

#[test]
fn who_cannot_be_reached_is_no_answer_and_has_no_milliseconds() {
    let service = cities();
    for (id, nat) in [("bob", "cone"), ("carol", "symmetric")] {
        let body = json!({ "id": id, "lat": 48.8, "lon": 2.3, "reach": { "nat": nat } });
        assert_eq!(asked(&service, "POST", "/v1/nodes", &body).0, 201);
    }
    let said = get(&service, "/v1/rtt?from=bob&to=carol,frankfurt");
    assert_eq!((&said[0]["reachable"], &said[0]["rtt_ms"]), (&json!(false), &Value::Null));
    assert!(said[1]["rtt_ms"].is_number() && said[1]["reachable"].is_null());
    let near = get(&service, "/v1/nearest?from=bob");
    assert!(near.as_array().unwrap().iter().all(|one| one["id"] != "carol"), "{near}");
}

#[test]
fn what_makes_no_sense_is_refused_by_field_value_and_cure() {
    let service = cities();
    let node = |more: Value| {
        let mut body = json!({ "id": "x" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (method, path, body, status, words) in [
        ("POST", "/v1/nodes", node(json!({ "lat": 91.0, "lon": 0.0 })), 400, "`lat` is 91"),
        ("POST", "/v1/nodes", node(json!({ "lat": 1.0, "lon": 181.0 })), 400, "`lon` is 181"),
        ("POST", "/v1/nodes", node(json!({ "lat": 1.0 })), 400, "`lat` needs a `lon`"),
        ("POST", "/v1/nodes", node(json!({ "lon": 1.0 })), 400, "`lon` needs a `lat`"),
        ("POST", "/v1/nodes", json!([]), 400, "an object with `id`"),
        ("PUT", "/v1/nodes/alice/coord", json!(7), 400, "an object with `lat`"),
        ("POST", "/v1/rtt", json!("alice"), 400, "an object with `from`"),
        ("POST", "/v1/nodes", node(json!({ "ip": "nowhere" })), 400, "the body"),
        ("POST", "/v1/nodes", node(json!({ "colour": "red" })), 400, "colour"),
        ("POST", "/v1/nodes", json!({ "id": "" }), 400, "`id` is \"\""),
        ("POST", "/v1/nodes", json!({ "id": "a".repeat(129) }), 400, "1 to 128"),
        (
            "PUT",
            "/v1/nodes/alice/coord",
            json!({ "lat": 0, "lon": 0, "height_ms": -1, "error": 1 }),
            400,
            "`height_ms` is -1",
        ),
        (
            "PUT",
            "/v1/nodes/nobody/coord",
            json!({ "lat": 0, "lon": 0, "height_ms": 1, "error": 1 }),
            404,
            "nobody",
        ),
        ("GET", "/v1/nearest?from=nobody", Value::Null, 404, "POST /v1/nodes"),
        ("GET", "/v1/nearest?from=alice&k=0", Value::Null, 400, "`k` is \"0\""),
        ("GET", "/v1/nearest?from=alice&colour=red", Value::Null, 400, "\"colour\" is no"),
        ("GET", "/v1/nearest", Value::Null, 400, "`from`"),
        ("GET", "/v1/rtt?from=alice", Value::Null, 400, "`to` is 0"),
        ("POST", "/v1/probes", json!({ "from": "a" }), 400, "{from, to, rtt_ms}"),
        ("POST", "/v1/nearest", Value::Null, 405, "POST /v1/nearest"),
        ("GET", "/v2/all", Value::Null, 404, "/v2/all"),
        ("DELETE", "/v1/nodes/nobody", Value::Null, 404, "nobody"),
    ] {
        let (got, said) = asked(&service, method, path, &body);
        let error = said["error"].as_str().unwrap_or_default();
        assert!(got == status && error.contains(words), "{method} {path}: {got} {said}");
    }
    let probes = json!([
        { "from": "alice", "to": "tokyo", "rtt_ms": -1.0 },
        { "from": "alice", "to": "tokyo", "rtt_ms": 1e9 },
        { "from": "alice", "to": "alice", "rtt_ms": 1.0 },
        { "from": "alice", "to": "nobody", "rtt_ms": 1.0 },
    ]);
    let (_, said) = asked(&service, "POST", "/v1/probes", &probes);
    assert_eq!(said, json!({ "taken": 0, "repeated": 0, "unknown": 1, "nonsense": 3 }));
    assert_eq!(service.directory().said(5, 2, 0).unwrap().source, Source::Geo);
}

/// A directory that has seen much: nodes in heaps, of several classes, moved and gone.
fn busy(seed: u64, count: u32) -> Directory {
    let mut rng = Stream::keyed(seed, 0, Purpose::Test);
    let mut directory = Directory::new(Config::default());
    let nat = [Nat::Unknown, Nat::Open, Nat::Cone, Nat::Symmetric];
    for node in 0..count {
        let middle = (rng.below(8) as f64 * 21.0 - 80.0, rng.below(12) as f64 * 30.0 - 170.0);
        let spread = if rng.below(3) == 0 { 40.0 } else { 0.5 };
        let lat = (middle.0 + spread * (rng.unit() - 0.5)).clamp(-90.0, 90.0);
        let lon = (middle.1 + spread * (rng.unit() - 0.5)).clamp(-180.0, 180.0);
        let said = NodeChange {
            id: format!("n{node:05}"),
            address: (rng.below(20) > 0).then_some((lat, lon)),
            system: rng.below(4) as u32,
            class: ["server", "player", "relay"][rng.below(3) as usize].to_string(),
            reach: Reach { nat: nat[rng.below(4) as usize], ..Reach::default() },
            ..NodeChange::default()
        };
        directory.apply(&Change::Node(said));
    }
    let mut probes = Vec::new();
    for _ in 0..6 * count {
        let any = |rng: &mut Stream| format!("n{:05}", rng.below(count.into()));
        let rtt_ms = 1.0 + 300.0 * rng.unit() * rng.unit();
        probes.push((any(&mut rng), any(&mut rng), rtt_ms));
    }
    let said = ProbesChange { source: None, first: 0, probes, at_s: 1_000 };
    directory.apply(&Change::Probes(said));
    for node in (0..count).step_by(17) {
        directory.apply(&Change::Gone { id: format!("n{node:05}") });
    }
    directory
}

#[test]
fn nearest_is_what_asking_everybody_says() {
    for seed in 0..8 {
        let directory = busy(seed, 700);
        let mut rng = Stream::keyed(seed, 1, Purpose::Test);
        for _ in 0..60 {
            let from = rng.below(700) as u32;
            let k = [1, 3, 10, 50][rng.below(4) as usize];
            let class = [None, Some("server"), Some("nobody")][rng.below(3) as usize];
            // Within the hour of the measurements, and after it.
            let now_s = [1_000, 10_000][rng.below(2) as usize];
            let (near, all) = (
                directory.nearest(from, k, class, now_s),
                directory.nearest_of_all(from, k, class, now_s),
            );
            assert_eq!(near, all, "seed {seed}, from {from}, k {k}, {class:?}, {now_s}");
        }
    }
}

#[test]
fn an_asker_says_what_is_said_of_each_pair() {
    let directory = busy(3, 400);
    for now_s in [1_000, 10_000] {
        for from in 0..400 {
            let asker = directory.asker(from, now_s);
            assert_eq!(asker.is_none(), directory.entry(from).is_none());
            let Some(asker) = asker else { continue };
            for to in (0..400).filter(|to| directory.entry(*to).is_some()) {
                assert_eq!(asker.said(to), directory.said(from, to, now_s), "{from} {to}");
                assert_eq!(asker.meets(to), directory.meets(from, to), "{from} {to}");
            }
        }
    }
}

#[test]
fn many_numbers_are_those_of_each_id() {
    let directory = busy(4, 400);
    // Some are gone, some never were, and some are asked for twice.
    let ids: Vec<String> = (0..500).map(|n| format!("n{:05}", n * 7 % 450)).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).chain(["", "n", "\u{fc}ber"]).collect();
    for count in [0, 1, 15, 16, 17, 400, ids.len()] {
        let each: Vec<Option<u32>> = ids[..count].iter().map(|id| directory.number(id)).collect();
        assert_eq!(directory.numbers(&ids[..count]), each);
        assert!(count < 400 || each.contains(&None) && each.iter().flatten().count() > 300);
    }
    assert_eq!(Directory::new(Config::default()).numbers(&["nobody"]), [None]);
}

#[test]
fn a_report_in_pieces_is_learnt_as_at_once() {
    let mut rng = Stream::keyed(8, 0, Purpose::Test);
    let (mut whole, mut parts) = (busy(8, 200), busy(8, 200));
    let any = |rng: &mut Stream| format!("n{:05}", rng.below(210));
    for first in [0, 300, 450, 900] {
        // Begins again in the middle of what was reported; some nodes are not there.
        let count = 300 + rng.below(200) as usize;
        let mut draw = || (any(&mut rng), any(&mut rng), 300.0 * rng.unit() - 3.0);
        let probes: Vec<_> = (0..count).map(|_| draw()).collect();
        let report = ProbesChange { source: Some("a".into()), first, probes, at_s: 2_000 };
        let at_once = whole.apply(&Change::Probes(report.clone()));
        let ends = [0, 1, 7, 64, 65, 250, count];
        let pieces = ends.windows(2).map(|ends| parts.learn(&report, ends[0]..ends[1]));
        let together = pieces.fold(Default::default(), Outcome::and);
        assert_eq!(at_once, together);
        assert!(first == 0 || at_once.repeated > 0);
    }
    for (from, to) in (0..200).flat_map(|from| (0..200).map(move |to| (from, to))) {
        assert_eq!(whole.said(from, to, 2_000), parts.said(from, to, 2_000));
    }
}

#[test]
fn numbers_of_nodes_that_are_gone_are_given_again_when_nothing_points_to_them() {
    let mut directory = Directory::new(Config::default());
    let come = |directory: &mut Directory, id: String| {
        let (address, class) = (Some((50.0, 8.0)), "player".to_string());
        directory.apply(&Change::Node(NodeChange { id, address, class, ..NodeChange::default() }));
    };
    come(&mut directory, "server".to_string());
    let mut most = 0;
    for round in 0..2_000_u64 {
        let (id, at_s) = (format!("p{round}"), 60 * round);
        come(&mut directory, id.clone());
        let node = directory.number(&id).expect("it came");
        most = most.max(node);
        // Nobody knows it yet, whoever had its number before.
        let said = directory.said(0, node, at_s).expect("places");
        assert_ne!(said.source, Source::History, "{id} has number {node}");
        let probes = vec![("server".to_string(), id.clone(), 20.0)];
        directory.apply(&Change::Probes(ProbesChange { source: None, first: 0, probes, at_s }));
        directory.apply(&Change::Gone { id });
    }
    assert!((60..64).contains(&most), "an hour of players, one a minute: {most}");
    assert_eq!(directory.len(), 1);
}

#[test]
fn nine_tenths_of_later_measurements_lie_below_the_p90() {
    let mut rng = Stream::keyed(5, 0, Purpose::Test);
    let mut directory = Directory::new(Config::default());
    let place = |rng: &mut Stream| (120.0 * rng.unit() - 60.0, 300.0 * rng.unit() - 150.0);
    let places: Vec<(f64, f64)> = (0..300).map(|_| place(&mut rng)).collect();
    for (node, address) in places.iter().enumerate() {
        let (id, class) = (format!("{node}"), "server".to_string());
        let address = Some(*address);
        directory.apply(&Change::Node(NodeChange { id, class, address, ..NodeChange::default() }));
    }
    // The truth is the model's, times a noise of which a tenth is far above.
    let fresh = Directory::new(Config::default());
    drop(fresh);
    let (mut below, mut count) = (0, 0);
    for round in 0..12_000_u64 {
        let (a, b) = (rng.below(300) as u32, rng.below(300) as u32);
        if a == b {
            continue;
        }
        let noise = if rng.below(10) == 0 { 1.5 + rng.unit() } else { 0.8 + 0.4 * rng.unit() };
        let km = {
            let at = |n: u32| {
                cavy_coords::Point::from_degrees(places[n as usize].0, places[n as usize].1)
            };
            at(a).unwrap().distance_km(at(b).unwrap())
        };
        let rtt_ms = (0.0188 * km + 8.8) * noise;
        // Two hours later each time: history has no say.
        let at_s = round * 7_200;
        if let Some(said) = directory.said(a, b, at_s).filter(|_| round > 6_000) {
            count += 1;
            below += u32::from(rtt_ms <= said.p90_ms);
        }
        let probes = vec![(format!("{a}"), format!("{b}"), rtt_ms)];
        directory.apply(&Change::Probes(ProbesChange { source: None, first: 0, probes, at_s }));
    }
    let share = f64::from(below) / f64::from(count);
    assert!((0.86..0.95).contains(&share), "{share}");
}

fn open(folder: &Path) -> (Service, u64, u64) {
    let (log, directory, loaded) = Log::open(folder, Config::default()).expect("a folder");
    let limits = Limits { log_bytes: 20_000, ..Limits::default() };
    let service = Service::new(directory, Some(log), Places::default(), limits, false);
    (service, loaded.changes, loaded.torn)
}

#[test]
fn what_was_answered_survives_and_a_torn_tail_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let (service, ..) = open(folder.path());
    for (id, place) in CITIES {
        put(&service, id, place, "server");
    }
    let report = json!({ "source": "agent-1", "first": 0, "probes": [
        { "from": "tokyo", "to": "sydney", "rtt_ms": 105.0 },
        { "from": "tokyo", "to": "virginia", "rtt_ms": 150.0 },
    ] });
    assert_eq!(asked(&service, "POST", "/v1/probes", &report).1["taken"], 2);
    asked(&service, "DELETE", "/v1/nodes/frankfurt", &Value::Null);
    let before = get(&service, "/v1/nearest?from=tokyo");
    // As after kill -9: what was written is there, and half of a line that was not answered.
    let log = folder.path().join("log-0");
    let whole = std::fs::read(&log).expect("a log");
    drop(service);
    for cut in [1, 5, 30, 70] {
        let torn = [&whole[..], &whole[..cut]].concat();
        std::fs::write(&log, torn).expect("torn");
        let (service, changes, left) = open(folder.path());
        assert_eq!((changes, left), (7, cut as u64));
        assert_eq!(get(&service, "/v1/nearest?from=tokyo"), before);
        // Reported again, it counts once.
        let (_, said) = asked(&service, "POST", "/v1/probes", &report);
        assert_eq!((&said["taken"], &said["repeated"]), (&json!(0), &json!(2)));
        drop(service);
        std::fs::write(&log, &whole).expect("as before");
    }
}

/// A change in the middle that was altered: whatever follows was answered, so nothing is cut off.
#[test]
fn a_log_that_was_altered_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (service, ..) = open(folder.path());
    for (id, place) in CITIES {
        put(&service, id, place, "server");
    }
    drop(service);
    let log = folder.path().join("log-0");
    let whole = std::fs::read(&log).expect("a log");
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines");
    for at in (0..last).step_by(7) {
        let mut altered = whole.clone();
        altered[at] ^= 1;
        std::fs::write(&log, &altered).expect("altered");
        let error = Log::open(folder.path(), Config::default()).expect_err("a damaged log");
        let said = error.to_string();
        assert!(said.contains("is damaged at byte") && said.contains("truncate"), "{said}");
        assert_eq!(std::fs::read(&log).expect("a log"), altered, "byte {at}");
    }
    // What is altered in the last change cannot be told from what a crash left.
    let mut altered = whole.clone();
    altered[last + 20] ^= 1;
    std::fs::write(&log, &altered).expect("altered");
    let (_, changes, left) = open(folder.path());
    assert_eq!((changes, left), (CITIES.len() as u64 - 1, (whole.len() - last - 1) as u64));
}

#[test]
fn a_snapshot_takes_the_place_of_a_long_log_and_says_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let (service, ..) = open(folder.path());
    let (mut rng, mut next) = (Stream::keyed(3, 0, Purpose::Test), 0);
    for node in 0..120 {
        let place = (160.0 * rng.unit() - 80.0, 360.0 * rng.unit() - 180.0);
        put(&service, &format!("{node}"), place, "server");
    }
    let mut snapshots = 0;
    for _ in 0..40 {
        let any = |rng: &mut Stream| rng.below(120).to_string();
        let probes: Vec<Value> = (0..20)
            .map(|_| {
                let (from, to) = (any(&mut rng), any(&mut rng));
                json!({ "from": from, "to": to, "rtt_ms": 5.0 + 200.0 * rng.unit() })
            })
            .collect();
        let report = json!({ "source": "a", "first": next, "probes": probes });
        next += 20;
        asked(&service, "POST", "/v1/probes", &report);
        service.tend();
        snapshots += u32::from(!folder.path().join("log-0").exists());
    }
    assert!(snapshots > 0, "no snapshot was taken");
    let paths: Vec<String> = (0..120).map(|n| format!("/v1/nearest?from={n}&k=5")).collect();
    let before: Vec<Value> = paths.iter().map(|path| get(&service, path)).collect();
    drop(service);
    let (service, ..) = open(folder.path());
    let after: Vec<Value> = paths.iter().map(|path| get(&service, path)).collect();
    let near = |a: &Value, b: &Value| {
        (a["rtt_ms"].as_f64().unwrap() - b["rtt_ms"].as_f64().unwrap()).abs() < 1e-9
    };
    for (a, b) in before.iter().zip(&after) {
        for (a, b) in a.as_array().unwrap().iter().zip(b.as_array().unwrap()) {
            assert!(a["id"] == b["id"] && near(a, b), "{a} {b}");
        }
    }
}

#[test]
fn consul_s_coordinates_give_our_round_trips_by_its_own_formula() {
    let service = cities();
    let nodes = get(&service, "/v1/coordinate/nodes");
    let nodes = nodes.as_array().unwrap();
    assert_eq!(nodes.len(), 6);
    let directory = service.directory();
    for a in nodes {
        for b in nodes {
            let of = |one: &Value, at: &str| one["Coord"][at].as_f64().unwrap();
            let square = |dimension: usize| {
                let part = |one: &Value| one["Coord"]["Vec"][dimension].as_f64().unwrap();
                (part(a) - part(b)).powi(2)
            };
            // serf's DistanceTo, in seconds.
            let flat = (0..8).map(square).sum::<f64>().sqrt();
            let said_ms = 1e3 * (flat + of(a, "Height") + of(b, "Height"));
            let number = |one: &Value| directory.number(one["Node"].as_str().unwrap()).unwrap();
            let ours_ms = directory.published_ms(number(a), number(b)).unwrap();
            let within =
                if flat * 1e3 < 0.0188 * 3_100.0 { 0.01 * ours_ms + 0.2 } else { 0.36 * ours_ms };
            assert!((said_ms - ours_ms).abs() <= within && said_ms <= ours_ms + 1e-6, "{a} {b}");
        }
    }
    let near = get(&service, "/v1/catalog/service/server?near=alice");
    let order: Vec<&str> =
        near.as_array().unwrap().iter().map(|one| one["Node"].as_str().unwrap()).collect();
    assert_eq!(order, ["frankfurt", "virginia", "sao paulo", "tokyo", "sydney"]);
    let one = get(&service, "/v1/coordinate/node/sao%20paulo");
    assert_eq!(one[0]["Node"], "sao paulo");
    assert_eq!(asked(&service, "GET", "/v1/coordinate/node/nobody", &Value::Null).0, 404);
}

#[test]
fn many_are_asked_for_in_a_body_as_in_a_path() {
    let service = cities();
    let path = get(&service, "/v1/rtt?from=alice&to=frankfurt,tokyo");
    let question = json!({ "from": "alice", "to": ["frankfurt", "tokyo"] });
    assert_eq!(asked(&service, "POST", "/v1/rtt", &question), (200, path));
    for (wrong, status) in [
        (json!({ "from": "alice" }), 400),
        (json!({ "from": "nobody", "to": ["tokyo"] }), 404),
        (json!({ "from": "alice", "to": [] }), 400),
    ] {
        assert_eq!(asked(&service, "POST", "/v1/rtt", &wrong).0, status, "{wrong}");
    }
}

/// Processor time of this thread, nanoseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[test]
#[ignore = "measures; run it with --release and --nocapture"]
fn cost() {
    let service = empty();
    let mut rng = Stream::keyed(9, 0, Purpose::Test);
    let start = cpu_ns();
    for node in 0..100_000 {
        // Half of them in a dozen cities, where many are near each other.
        let city = (rng.below(12) as f64 * 10.0 - 40.0, rng.below(12) as f64 * 25.0 - 140.0);
        let far = (140.0 * rng.unit() - 70.0, 340.0 * rng.unit() - 170.0);
        let at = if node % 2 == 0 { (city.0 + rng.unit(), city.1 + rng.unit()) } else { far };
        put(&service, &format!("n{node}"), at, if node % 4 == 0 { "server" } else { "player" });
    }
    println!("100,000 nodes: {:.1} us each", (cpu_ns() - start) as f64 / 1e8);
    for round in 0..100 {
        let any = |rng: &mut Stream| format!("n{}", rng.below(100_000));
        let probes: Vec<Value> = (0..2_000)
            .map(|_| {
                let (from, to, rtt_ms) = (any(&mut rng), any(&mut rng), 5.0 + 250.0 * rng.unit());
                json!({ "from": from, "to": to, "rtt_ms": rtt_ms })
            })
            .collect();
        let (status, _) = asked(&service, "POST", "/v1/probes", &Value::Array(probes));
        assert_eq!(status, 200, "{round}");
    }
    let mut time = |name: &str, count: usize, path: &mut dyn FnMut(&mut Stream) -> String| {
        let mut took: Vec<u64> = (0..count)
            .map(|_| {
                let path = path(&mut rng);
                let start = cpu_ns();
                get(&service, &path);
                cpu_ns() - start
            })
            .collect();
        took.sort_unstable();
        let at = |share: f64| took[(count as f64 * share) as usize] as f64 / 1e3;
        println!("{name}: p50 {:.0} us, p99 {:.0} us of processor", at(0.5), at(0.99));
    };
    for class in ["", "&class=server"] {
        time(&format!("nearest, k = 10{class}"), 10_000, &mut |rng| {
            format!("/v1/nearest?from=n{}&k=10{class}", rng.below(100_000))
        });
    }
    time("rtt over 1,000", 10_000, &mut |rng| {
        let to: Vec<String> = (0..1_000).map(|_| format!("n{}", rng.below(100_000))).collect();
        format!("/v1/rtt?from=n{}&to={}", rng.below(100_000), to.join(","))
    });
}
