//! Data of coordinates that the program carries, and what a fit of them answers.

use cavy_kinds::coords::data;
use cavy_kinds::coords::data::pack::{Raw, Row, decode_raw, encode, encode_coarse, steps};
use cavy_kinds::coords::pictures::{fitted, placed};
use cavy_kinds::coords::space::{Fitted, Goal, Node, Space, fit};

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
    fit(&data::named("aws-2025").expect("carried"), 1)
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
    let ranked = space.rank(&party, &servers);
    assert_eq!(ranked[0].server, "eu-west-3");
    assert_eq!(ranked[2].server, "ap-southeast-2");
    assert!(ranked.iter().all(|one| one.mean_ms <= one.worst_ms));
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
fn sites_stand_among_those_who_go_to_them() {
    let world = data::named("aws-2025").expect("carried");
    let space = fit(&world, 1).space;
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
