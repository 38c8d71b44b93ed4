//! Data of coordinates that the program carries, and what a fit of them answers.

use cavy_core::{Purpose, Stream};
use cavy_kinds::coords::data;
use cavy_kinds::coords::data::pack::{Raw, Row, decode_raw, encode, encode_coarse, steps};
use cavy_kinds::coords::pictures::{fitted, placed};
use cavy_kinds::coords::space::{Fitted, Goal, Node, Space, Trip, fit};
use cavy_kinds::coords::world::{Matrix, Recorded, Truth};

#[test]
fn what_is_written_is_read() {
    let row = |name: &str, place| Row { name: name.into(), system: 7, place, said: None };
    let rows = vec![row("a", Some(steps(-89.5, 180.0))), row("", None), row("c", Some((0, -1)))];
    let mut rtt_us = vec![vec![None; 3]; 3];
    rtt_us[0][1] = Some(0);
    rtt_us[0][2] = Some(5_000_000);
    rtt_us[2][0] = Some(4_999_999);
    rtt_us[2][1] = Some(128);
    let raw = Raw { rows, rtt_us };
    let bytes = encode(&raw);
    assert_eq!(decode_raw(&bytes), Some(raw));
    for cut in 0..bytes.len() {
        assert_eq!(decode_raw(&bytes[..cut]), None, "{cut}");
    }
}

#[test]
fn coarse_files_have_one_number_for_both_directions() {
    let row = |name: &str| Row { name: name.into(), system: 0, place: None, said: None };
    let mut rtt_us = vec![vec![None; 3]; 3];
    (rtt_us[0][1], rtt_us[1][0]) = (Some(1_040), Some(1_100));
    rtt_us[2][0] = Some(20);
    let raw = Raw { rows: ["a", "b", "c"].map(row).to_vec(), rtt_us };
    let read = decode_raw(&encode_coarse(&raw, 100)).expect("a file");
    assert_eq!((read.rtt_us[0][1], read.rtt_us[1][0]), (Some(1_100), Some(1_100)));
    assert_eq!((read.rtt_us[0][2], read.rtt_us[1][2]), (Some(100), None));
}

fn aws() -> Fitted {
    fit(&data::named("aws-2025").expect("carried"), 1, &mut |_, _, _| {})
}

#[test]
fn a_fit_predicts_what_it_has_not_seen_and_comes_back_from_its_file() {
    let fitted = aws();
    assert!(fitted.nowhere.is_empty() && fitted.space.nodes.len() == 32);
    let p50 = fitted.hidden.p50_ms.expect("hidden pairs");
    assert!(p50 < 25.0 && fitted.hidden.samples > 100, "{:?}", fitted.hidden);
    let text = serde_json::to_string(&fitted.space).expect("a space is JSON");
    let again = Space::read(&text).expect("it was just written");
    let names = ["us-east-1", "eu-west-1"].map(|name| again.node(name).expect("a region"));
    let said = again.rtt(names[0], names[1]).rtt_ms;
    assert!((60.0..100.0).contains(&said), "{said}");
    assert_eq!(said, again.rtt(names[1], names[0]).rtt_ms, "the same from either end");
    for wrong in ["{", "{\"version\":2,\"ms_per_km\":1,\"base_ms\":1,\"nodes\":[]}"] {
        assert!(Space::read(wrong).is_err());
    }
}

#[test]
fn a_party_gets_the_server_whose_farthest_player_is_nearest() {
    let Fitted { space, .. } = aws();
    let node = |name: &str| space.node(name).expect("a region");
    let party = [node("eu-west-1"), node("us-east-1")];
    let servers = [node("ap-southeast-2"), node("eu-west-3"), node("us-west-2")];
    let ranked = space.rank(&party, &servers, None);
    assert_eq!(ranked[0].server, "eu-west-3");
    assert_eq!(ranked[2].server, "ap-southeast-2");
    assert!(ranked.iter().all(|one| one.mean_ms <= one.worst_ms));
}

/// Anchors of RIPE Atlas, of whose pairs an eighth was measured: chances of the others are
/// what they turn out to be.
#[test]
fn chances_are_as_often_right_as_they_say() {
    let mut world = data::named("ripe-2018").expect("carried");
    let count = world.count();
    let (mut recorded, mut others) = (Vec::new(), Vec::new());
    let mut rng = Stream::keyed(5, 0, Purpose::Test);
    for from in 0..count {
        for to in from + 1..count {
            let Some(rtt_ms) = world.rtt_ms(from, to) else { continue };
            match rng.below(8) {
                0 => recorded.push(Recorded { from, to, rtt_ms, time_s: 0.0 }),
                _ => others.push((from as usize, to as usize, rtt_ms)),
            }
        }
    }
    for at in 0..recorded.len() {
        let left = (recorded.len() - at) as u64;
        recorded.swap(at, at + rng.below(left) as usize);
        recorded[at].time_s = at as f64;
    }
    let mut matrix = Matrix::empty(count);
    recorded.iter().for_each(|one| matrix.set(one.from, one.to, one.rtt_ms));
    world.truth = Truth::Recorded(matrix, recorded);
    let Fitted { space, .. } = fit(&world, 1, &mut |_, _, _| {});
    assert_eq!(space.nodes.len(), count as usize, "all have positions");
    assert!(space.unseen.len() >= 300, "{}", space.unseen.len());
    for limit_ms in [40.0, 75.0, 150.0] {
        // By tenths of chance: pairs, the sum of chances, and how many were below.
        let mut tenths = [(0.0, 0.0, 0.0); 11];
        for (from, to, rtt_ms) in &others {
            let trip = space.rtt(&space.nodes[*from], &space.nodes[*to]);
            assert!(!trip.measured);
            let chance = space.chance(trip, limit_ms).expect("enough pairs were hidden");
            let tenth = &mut tenths[(chance * 10.0) as usize];
            *tenth = (
                tenth.0 + 1.0,
                tenth.1 + chance,
                tenth.2 + f64::from(u8::from(*rtt_ms < limit_ms)),
            );
        }
        let wrong: f64 = tenths.iter().map(|(_, said, was)| (said - was).abs()).sum();
        let wrong = wrong / others.len() as f64;
        println!("below {limit_ms} ms: chances are off by {:.1} % on average", 100.0 * wrong);
        assert!(wrong < 0.05, "{limit_ms}: {tenths:?}");
    }
}

#[test]
fn a_party_is_ranked_by_chance_where_a_limit_is_asked_for() {
    let fitted = fit(&data::named("ripe-2018").expect("carried"), 1, &mut |_, _, _| {});
    let space = fitted.space;
    // Two that are near each other, and all others.
    let one = &space.nodes[0];
    let mut servers: Vec<&Node> = space.nodes.iter().skip(1).collect();
    let rtt_ms = |to: &&Node| space.rtt(one, to).rtt_ms;
    servers.sort_by(|a, b| rtt_ms(a).total_cmp(&rtt_ms(b)));
    let party = [one, servers.remove(0)];
    // What a quarter of the servers keep below.
    let plain = space.rank(&party, &servers, None);
    let limit_ms = plain[plain.len() / 4].worst_ms;
    let ranked = space.rank(&party, &servers, Some(limit_ms));
    let chances: Vec<f64> = ranked.iter().map(|one| one.chance.expect("a chance")).collect();
    assert!(chances.is_sorted_by(|a, b| a >= b));
    assert!(chances[0] > chances[chances.len() - 1], "{chances:?}");
    let server = servers.iter().find(|node| node.name == ranked[0].server).expect("it is there");
    let alone = |one| space.chance(space.rtt(one, server), limit_ms).expect("a chance");
    assert!((alone(party[0]) * alone(party[1]) - chances[0]).abs() < 1e-12);
    assert_eq!(plain[0].chance, None);
    // Nobody is away from itself, and more is not measured of a few pairs.
    assert_eq!(space.rtt(party[0], party[0]).rtt_ms, 0.0);
    let few = Space { unseen: space.unseen[..9].to_vec(), ..space.clone() };
    let trip = Trip { rtt_ms: 60.0, measured: false };
    assert_eq!(few.chance(trip, 75.0), None);
    assert_eq!(few.chance(Trip { measured: true, ..trip }, 75.0), Some(1.0));
}

#[test]
fn sites_are_the_best_where_all_can_be_tried_and_near_it_elsewhere() {
    let Fitted { space, .. } = aws();
    let all: Vec<&Node> = space.nodes.iter().collect();
    for goal in [Goal::Mean, Goal::Worst, Goal::Majority] {
        let exact = space.place(&all, &all, 3, goal);
        assert!(exact.exact && exact.sites.len() == 3);
        assert!(exact.value_ms >= exact.bound_ms, "{exact:?}");
        let near = space.place_near(&all, &all, 3, goal);
        assert!(!near.exact && near.sites.len() == 3);
        let range = exact.value_ms - 1e-9..=1.1 * exact.value_ms;
        assert!(range.contains(&near.value_ms), "{goal:?}: {near:?} for {exact:?}");
    }
    // Ten million ways to choose eight of 32 are not all tried.
    assert!(!space.place(&all, &all, 8, Goal::Mean).exact);
}

#[test]
fn a_long_fit_says_how_far_it_is() {
    let mut world = data::named("planetlab-490").expect("carried");
    let recorded = (0..60_000).filter_map(|number: u32| {
        let (from, to) = (number % 490, number * 11 / 3 % 490);
        let rtt_ms = world.rtt_ms(from, to).filter(|_| from != to)?;
        Some(Recorded { from, to, rtt_ms, time_s: number.into() })
    });
    let recorded: Vec<Recorded> = recorded.collect();
    world.truth = Truth::Recorded(Matrix::empty(490), recorded);
    let mut heard = Vec::new();
    fit(&world, 1, &mut |doing, done, all| heard.push((doing, done, all)));
    assert!(heard.len() > 3 && heard.is_sorted_by_key(|one| one.1), "{heard:?}");
    assert!(heard.iter().all(|(doing, done, all)| *doing == "fitting" && done <= all));
    let (_, done, all) = heard[heard.len() - 1];
    assert!(done * 10 > all * 7, "{done} of {all} is where it ends");
}

#[test]
fn sites_stand_among_those_who_go_to_them() {
    let world = data::named("aws-2025").expect("carried");
    let space = fit(&world, 1, &mut |_, _, _| {}).space;
    let map = fitted(&world, &space);
    assert_eq!(map.layers[0].marks.len(), 32);
    assert_eq!(map.layers[1].marks.len(), map.layers[2].ways.len());
    let all: Vec<&Node> = space.nodes.iter().collect();
    let sites = space.place(&all, &all, 3, Goal::Mean);
    let map = placed(&space, &all, &sites);
    assert_eq!(map.layers.iter().map(|l| l.marks.len()).collect::<Vec<_>>(), [32, 0, 3]);
    // A site needs no line to itself.
    assert_eq!(map.layers[1].ways.len(), 29);
}
