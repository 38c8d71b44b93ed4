//! Clusters of real processes: clients, changes of p, kills, restarts.

mod town;

use cavy_search_live::study::{self, Load};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};
use town::{PATIENCE, Town};

#[test]
fn clause_7_2_a_session_with_curls_own_words() {
    let mut town = Town::new("session", 4, 1, 2);
    let (status, made) = town.ask("PUT", "/books/_doc/1?refresh=true", json!({"title": "A Ring"}));
    assert_eq!((status, &made["result"], &made["_version"]), (201, &json!("created"), &json!(1)));
    let (status, made) = town.ask("PUT", "/books/_doc/1?refresh=true", json!({"title": "Rings"}));
    assert_eq!((status, &made["result"], &made["_version"]), (200, &json!("updated"), &json!(2)));
    let (_, found) = town.ask("GET", "/books/_search?q=title:rings", Value::Null);
    assert_eq!(found["hits"]["total"], json!({"value": 1, "relation": "eq"}));
    assert_eq!(found["_shards"], json!({"total": 2, "successful": 2, "skipped": 0, "failed": 0}));
    // Errors in Elasticsearch's words.
    for (method, path, body, status, kind) in [
        ("GET", "/none/_search", Value::Null, 404, "index_not_found_exception"),
        ("GET", "/books/_search", json!({"query": {"mtch": {}}}), 400, "parsing_exception"),
        ("PUT", "/books/_create/1", json!({}), 409, "version_conflict_engine_exception"),
        ("PUT", "/books", json!({}), 400, "resource_already_exists_exception"),
        ("PUT", "/Books", json!({}), 400, "invalid_index_name_exception"),
        ("PUT", "/books/_settings", json!({"index.roar.p": 0}), 400, "illegal_argument_exception"),
        ("PUT", "/books/_settings", json!({"index.roar.p": 5}), 400, "illegal_argument_exception"),
        ("GET", "/books/_search?size=10001", Value::Null, 400, "illegal_argument_exception"),
        ("POST", "/books/_update/9", json!({"doc": {}}), 404, "document_missing_exception"),
        (
            "PUT",
            "/books/_doc/2?if_seq_no=3&if_primary_term=1",
            json!({}),
            409,
            "version_conflict_engine_exception",
        ),
    ] {
        let (got, answer) = town.ask(method, path, body);
        let of = &answer["error"]["root_cause"][0]["type"];
        assert_eq!((got, of), (status, &json!(kind)), "{method} {path}: {answer}");
        assert_eq!(answer["status"], json!(status));
    }
    let (status, answer) = town.ask("DELETE", "/books/_doc/1?refresh=true", Value::Null);
    assert_eq!((status, &answer["result"]), (200, &json!("deleted")));
    let (status, answer) = town.ask("GET", "/books/_doc/1", Value::Null);
    assert_eq!((status, &answer["found"]), (404, &json!(false)));
    // p at any value; the answer stays.
    let mut lines = String::new();
    for n in 0..300 {
        lines.push_str(&format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n"));
        lines.push_str(&format!("{{\"title\":\"ring {} of {n}\",\"n\":{n}}}\n", n % 7));
    }
    let (_, bulk) = town.client.ask("POST", "/books/_bulk?refresh=true", &lines).expect("bulk");
    assert_eq!(bulk["errors"], json!(false), "{bulk}");
    let asked = json!({
        "query": {"match": {"title": "ring 3"}}, "size": 50,
        "aggs": {"n": {"histogram": {"field": "n", "interval": 50}}},
    });
    let mut first = None;
    for p in [2, 4, 1, 3] {
        let (_, told) = town.ask("PUT", "/books/_settings", json!({"index": {"roar": {"p": p}}}));
        assert_eq!(told, json!({"acknowledged": true}));
        town.until_green();
        let (_, mut answer) = town.ask("POST", "/books/_search", asked.clone());
        assert_eq!(answer["_shards"]["total"], json!(p));
        answer["took"] = json!(0);
        answer["_shards"] = json!(null);
        assert_eq!(answer["hits"]["total"]["value"], json!(300));
        match &first {
            None => first = Some(answer.to_string()),
            Some(first) => assert_eq!(*first, answer.to_string(), "at p = {p}"),
        }
        let path = "/books/_search?q=title:ring&explain_plan=true";
        let (_, explained) = town.ask("GET", path, Value::Null);
        let asked = explained["roar"]["books"]["asked"].as_array().expect("parts");
        let slices: BTreeSet<&str> = asked.iter().filter_map(|one| one["slice"].as_str()).collect();
        let servers: BTreeSet<u64> =
            asked.iter().filter_map(|one| one["server"].as_u64()).collect();
        assert_eq!((slices.len(), servers.len()), (p, p), "{explained}");
        for one in asked {
            let ms = |key: &str| one[key].as_f64().expect("milliseconds");
            assert!(ms("predicted_ms") > 0.0 && ms("measured_ms") > 0.0, "{one}");
        }
    }
}

/// An answer has 65,535 buckets at most, those without documents and those within others included.
/// Beyond that there is an error, however many servers counted them, and no shorter answer.
#[test]
fn clause_7_2_an_answer_has_no_more_buckets_than_elasticsearch_lets_it_have() {
    let mut town = Town::new("buckets", 4, 1, 2);
    let mut lines = String::new();
    for n in (0..300).chain([65_534]) {
        lines.push_str(&format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"));
    }
    let (_, bulk) = town.client.ask("POST", "/many/_bulk?refresh=true", &lines).expect("bulk");
    assert_eq!(bulk["errors"], json!(false), "{bulk}");
    let by = |interval: f64| json!({"histogram": {"field": "n", "interval": interval}});
    let within = |what: Value| json!({"terms": {"field": "n", "size": 301}, "aggs": {"in": what}});
    let mut ask =
        |aggs: Value| town.ask("POST", "/many/_search", json!({"size": 0, "aggs": {"of": aggs}}));
    let (status, answer) = ask(by(1.0));
    let shown = answer["aggregations"]["of"]["buckets"].as_array().map(Vec::len);
    assert_eq!((status, shown), (200, Some(65_535)));
    assert_eq!(ask(within(by(1.0))).0, 200);
    let ranges: Vec<Value> = (0..220).map(|n| json!({"to": 299 - n % 2})).collect();
    let ranges = json!({"range": {"field": "n", "ranges": ranges}, "aggs": {"in": by(1.0)}});
    let first = json!({"range": {"field": "n", "ranges": [{"to": 9}]}, "aggs": {"in": by(1e-300)}});
    for aggs in [by(0.5), ranges, first] {
        let (status, answer) = ask(aggs);
        let error = &answer["error"];
        let kind = json!("too_many_buckets_exception");
        assert_eq!((status, &error["type"], &answer["status"]), (400, &kind, &json!(400)));
        let reason = error["reason"].as_str().unwrap_or_default();
        let begins =
            "Trying to create too many buckets. Must be less than or equal to: [65535] but";
        assert!(reason.starts_with(begins), "{reason}");
    }
}

/// A server that stands still is met by no deadline: the answer comes in time, says which share of
/// the ring was covered, and has what is there.
#[test]
fn clause_8_4_a_search_with_a_timeout_says_what_it_has_not_met() {
    let mut town = Town::new("deadline", 4, 1, 2);
    let mut lines = String::new();
    for n in 0..400 {
        lines.push_str(&format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"));
    }
    let (_, bulk) = town.client.ask("POST", "/many/_bulk?refresh=true", &lines).expect("bulk");
    assert_eq!(bulk["errors"], json!(false), "{bulk}");
    let (status, none) = town.ask("POST", "/many/_search", json!({"timeout": "0"}));
    assert_eq!((status, &none["timed_out"]), (200, &json!(true)));
    assert_eq!(
        (&none["hits"]["total"]["value"], &none["roar"]["covered"]),
        (&json!(0), &json!(0.0))
    );
    let (_, free) = town.ask("POST", "/many/_search", json!({"timeout": "-1"}));
    assert_eq!((&free["timed_out"], &free["hits"]["total"]["value"]), (&json!(false), &json!(400)));
    let (status, wrong) = town.ask("POST", "/many/_search", json!({"timeout": "soon"}));
    assert_eq!((status, &wrong["error"]["type"]), (400, &json!("illegal_argument_exception")));
    // A front end asks those that it takes for the fastest, and who is not asked stays as slow as
    // it seemed: on a busy machine a server may not be asked in any number of searches. So whoever
    // has just been asked stands still, until a search meets the one that does. What that was asked
    // for is not given to others within so little time.
    let until = Instant::now() + PATIENCE;
    let (still, took, answer) = loop {
        let (status, plan) = town.ask("GET", "/many/_search?size=0&explain_plan=true", Value::Null);
        let asked = plan["roar"]["many"]["asked"][0]["server"].as_u64();
        assert!(status == 200 && asked.is_some(), "{plan}");
        let still = town.local.cluster.layout().server(asked.unwrap_or_default() as u32).0;
        town.local.pause(still, true);
        let began = Instant::now();
        let (status, answer) = town.ask("GET", "/many/_search?timeout=60ms&size=0", Value::Null);
        assert_eq!(status, 200, "{answer}");
        if answer["timed_out"] == json!(true) {
            break (still, began.elapsed(), answer);
        }
        town.local.pause(still, false);
        assert!(Instant::now() < until, "nobody is asked twice: {plan}");
    };
    let strict = "/many/_search?timeout=0&allow_partial_search_results=false";
    let (status, refused) = town.ask("GET", strict, Value::Null);
    town.local.pause(still, false);
    assert_eq!((status, &refused["status"]), (503, &json!(503)), "{refused}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(answer["_shards"]["failed"].as_u64() > Some(0), "{answer}");
    let covered = answer["roar"]["covered"].as_f64().expect("a share");
    let met = answer["hits"]["total"]["value"].as_f64().expect("a number") / 400.0;
    // Four standard deviations of where so many documents are.
    assert!(covered < 1.0 && (met - covered).abs() < 0.1, "{covered} covered, {met} met");
    town.until_green();
    let (_, whole) = town.ask("GET", "/many/_search?timeout=20s", Value::Null);
    assert_eq!(
        (&whole["timed_out"], &whole["hits"]["total"]["value"]),
        (&json!(false), &json!(400))
    );
}

#[test]
fn clause_2_8_p_changes_and_servers_are_killed_under_load() {
    let mut town = Town::new("load", 6, 2, 3);
    let load =
        Load { keys: 200, queries_per_s: 20.0, writes_per_s: 10.0, bulk: 1, broad: false, seed: 7 };
    let done = study::change(&mut town.local, load, &[3, 5, 2], Duration::from_secs(1), |_| {})
        .expect("a study");
    let said = &done["checker"];
    assert_eq!((&said["faults"], &said["refused"]), (&json!(0), &json!(0)), "{said:#}");
    assert!(said["answers_checked"].as_u64() > Some(30), "{said:#}");
    // kill -9 of a server: whole answers, and it comes back with its log.
    let (_, before) = town.ask("GET", "/study/_count", Value::Null);
    let server = town.local.cluster.layout().server(2).0;
    town.local.kill(server);
    let (_, during) = town.ask("GET", "/study/_count", Value::Null);
    assert_eq!(before["count"], during["count"]);
    assert_eq!(during["_shards"]["failed"], json!(0));
    let until = Instant::now() + PATIENCE;
    while town.local.pid(server).is_none()
        || Instant::now() < until - PATIENCE + Duration::from_secs(4)
    {
        town.local.look();
        std::thread::sleep(Duration::from_millis(50));
        assert!(Instant::now() < until, "it does not come back");
    }
    town.until_green();
    // All of them at once: what was acknowledged is in the logs.
    let nodes = town.local.cluster.layout().nodes();
    (0..nodes).for_each(|node| town.local.kill(node));
    std::thread::sleep(Duration::from_millis(2_500));
    (0..40).for_each(|_| {
        town.local.look();
        std::thread::sleep(Duration::from_millis(50));
    });
    town.until_green();
    // Health is what every server answers, so that the next answer is whole.
    let (_, after) = town.ask("GET", "/study/_count", Value::Null);
    assert_eq!((&before["count"], &json!(0)), (&after["count"], &after["_shards"]["failed"]));
}

/// The description says that one of five servers is six times as fast as the others. It is not, and
/// ranges move to where load is less while queries and writes go on.
#[test]
fn clause_2_10_ranges_move_by_load_under_queries_and_writes() {
    let mut town = Town::with("balance", 5, 2, 3, |cluster| {
        cluster.servers[4].speed = 6.0;
        (cluster.balance_ms, cluster.balance_percent) = (1_000, 40);
    });
    let load =
        Load { keys: 300, queries_per_s: 20.0, writes_per_s: 10.0, bulk: 1, broad: false, seed: 3 };
    let fronts: Vec<_> = town.local.cluster.front_ends.iter().map(|one| one.http).collect();
    let running = study::Running::start(&fronts, load, 3).expect("clients");
    // What the server holds: its range and a third of the ring, give or take what is moving.
    let mut share = || {
        town.local.look();
        let (_, rows) = town.ask("GET", "/_cat/shards/study?format=json", Value::Null);
        let row = rows.as_array().and_then(|rows| rows.get(4)).expect("five rows");
        row["arc.share"].as_str().and_then(|share| share.parse::<f64>().ok()).expect("a share")
    };
    let first = share();
    assert!((first - 0.9333).abs() < 0.001, "six tenths and a third: {first}");
    let (until, mut last) = (Instant::now() + 3 * PATIENCE, first);
    while last > 0.7 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(200));
        last = share();
    }
    let said = running.end();
    assert!(last <= 0.7, "it holds {last} of the ring, and had {first}");
    assert_eq!((&said["faults"], &said["refused"]), (&json!(0), &json!(0)), "{said:#}");
    assert!(said["answers_checked"].as_u64() > Some(30), "{said:#}");
    town.until_green();
}

/// Two rings of three servers. All of one are killed at once and stay away for longer than their
/// leases; p changes meanwhile, and queries and writes go on.
#[test]
fn clause_2_6_4_a_ring_that_is_killed_takes_nothing_with_it() {
    let mut town = Town::with("rings", 6, 2, 3, |cluster| cluster.rings = 2);
    let (status, told) =
        town.ask("PUT", "/four", json!({"settings": {"index": {"roar": {"p": 4}}}}));
    assert_eq!(status, 400, "a ring has three servers: {told}");
    let load =
        Load { keys: 200, queries_per_s: 20.0, writes_per_s: 10.0, bulk: 1, broad: false, seed: 5 };
    let fronts: Vec<_> = town.local.cluster.front_ends.iter().map(|one| one.http).collect();
    let running = study::Running::start(&fronts, load, 3).expect("clients");
    town.until_green();
    town.local.comes_back = false;
    let layout = town.local.cluster.layout();
    let ring: Vec<u32> = (0..6).step_by(2).map(|server| layout.server(server).0).collect();
    ring.iter().for_each(|node| town.local.kill(*node));
    std::thread::sleep(Duration::from_secs(5));
    let (_, health) = town.ask("GET", "/_cluster/health", Value::Null);
    assert_eq!((&health["status"], &health["number_of_data_nodes"]), (&json!("yellow"), &json!(3)));
    let lower = json!({"index": {"roar": {"p": 2}}});
    let (_, told) = town.ask("PUT", "/study/_settings", lower);
    assert_eq!(told, json!({"acknowledged": true}));
    town.local.look();
    town.local.comes_back = true;
    ring.iter().for_each(|node| town.local.start(*node).expect("a process"));
    town.until_green();
    std::thread::sleep(Duration::from_secs(1));
    let (part, said) = (running.part(), running.end());
    assert_eq!((&said["faults"], &said["refused"]), (&json!(0), &json!(0)), "{said:#}");
    assert_eq!(part["partial"], json!(0), "{part:#}");
    assert!(said["answers_checked"].as_u64() > Some(100), "{said:#}");
}

/// Servers that have a millisecond before them refuse, and front ends ask others, or them again. A
/// part that was refused has no answer, and nothing else is asked for twice.
#[test]
fn clause_2_13_busy_servers_refuse_and_every_answer_is_whole() {
    for bounce_ms in [0, 1] {
        let mut town = Town::with("bounce", 4, 2, 2, |cluster| {
            (cluster.bounce_ms, cluster.margin_ms) = (bounce_ms, 20_000);
        });
        let (queries_per_s, writes_per_s) = (60.0, 0.0);
        let load = Load { keys: 8_000, queries_per_s, writes_per_s, bulk: 1, broad: true, seed: 4 };
        let fronts: Vec<_> = town.local.cluster.front_ends.iter().map(|one| one.http).collect();
        let running = study::Running::start(&fronts, load, 2).expect("clients");
        town.until_green();
        let (until, mut refused, mut asks) = (Instant::now() + Duration::from_secs(8), 0, 0);
        while Instant::now() < until {
            let path = "/study/_search?q=text:ring&explain_plan=true";
            let (_, answer) = town.ask("GET", path, Value::Null);
            assert_eq!(answer["_shards"]["failed"], json!(0), "{answer}");
            let asked = answer["roar"]["study"]["asked"].as_array().expect("parts");
            let open = asked.iter().filter(|one| one["measured_ms"].is_null()).count();
            assert!(open <= 2 && asked.len() >= open + 2, "{answer}");
            (refused, asks) = (refused + open, asks + 1);
        }
        let (part, said) = (running.part(), running.end());
        println!("{refused} parts of {asks} queries refused at {bounce_ms} ms: {said}");
        assert_eq!(refused > 0, bounce_ms > 0);
        assert_eq!((&said["faults"], &said["refused"]), (&json!(0), &json!(0)), "{said:#}");
        assert_eq!(part["partial"], json!(0), "{part:#}");
    }
}

/// A server whose folder is lost and that is back within its lease, one after the other until each
/// has lost its folder once: nothing is missing in any answer.
#[test]
fn clause_2_9_servers_that_lost_their_folders_are_filled_before_they_answer() {
    let mut town = Town::new("lost", 5, 1, 2);
    let mut lines = String::new();
    for n in 0..200 {
        lines.push_str(&format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"));
    }
    let (_, bulk) = town.client.ask("POST", "/books/_bulk?refresh=true", &lines).expect("bulk");
    assert_eq!(bulk["errors"], json!(false), "{bulk}");
    for number in 0..5 {
        let server = town.local.cluster.layout().server(number).0;
        town.local.kill(server);
        while town.local.pid(server).is_some() {
            town.local.look();
        }
        town.local.wipe(server).expect("its folder");
        // At once, and not after the rest that others have: its lease has not ended.
        town.local.start(server).expect("a process");
        let (since, mut asked) = (Instant::now(), 0);
        // Longer than the lease: until then it is in step and answers nothing.
        while since.elapsed() < Duration::from_secs(5) {
            let (_, found) = town.ask("GET", "/books/_count", Value::Null);
            assert_eq!(found["count"], json!(200), "server {number}: {found}");
            asked += 1;
        }
        assert!(asked > 10, "only {asked} answers");
        town.until_green();
    }
}

#[test]
fn clause_2_9_servers_that_are_told_to_end_hand_over_and_nothing_is_refused() {
    let mut town = Town::new("roll", 5, 2, 2);
    let load =
        Load { keys: 150, queries_per_s: 15.0, writes_per_s: 8.0, bulk: 3, broad: false, seed: 9 };
    let done = study::roll(&mut town.local, load, (2, 2), |_| {}).expect("a study");
    let said = &done["checker"];
    assert_eq!((&said["faults"], &said["refused"]), (&json!(0), &json!(0)), "{said:#}");
    let left = |row: &Value| row["left_s"].is_f64() && row["green_after_s"].is_f64();
    let rows = done["rows"].as_array().expect("rows");
    assert!(rows[1..].iter().all(left), "{done:#}");
    assert!(rows.iter().all(|row| row["partial"] == json!(0)), "{done:#}");
}

/// `CAVY_WRITES=100000 CAVY_CYCLES=50 cargo test --release --test cluster -- --ignored` is R4.
#[test]
#[ignore = "takes minutes: nodes are killed until so many writes were acknowledged"]
fn r4_no_acknowledged_write_is_lost_or_revived() {
    let of = |name: &str, usual: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let (writes, cycles) = (of("CAVY_WRITES", 2_000), of("CAVY_CYCLES", 5) as u32);
    let mut town = Town::new("kills", 12, 2, 4);
    // A cycle takes some seven seconds.
    let writes_per_s = (writes as f64 / (7.0 * f64::from(cycles))).max(10.0);
    let load =
        Load { keys: 2_000, queries_per_s: 15.0, writes_per_s, bulk: 8, broad: false, seed: 3 };
    let (mut acknowledged, mut round) = (0, 0);
    while acknowledged < writes {
        assert!(round < 20, "{acknowledged} of {writes} writes after {round} rounds");
        let load = Load { seed: load.seed + round, ..load };
        let done = study::kill(&mut town.local, load, (4, cycles), |_| {}).expect("a study");
        let said = &done["checker"];
        assert_eq!(said["faults"], json!(0), "{said:#}");
        acknowledged += said["writes_acknowledged"].as_u64().expect("a count");
        round += 1;
        println!(
            "{acknowledged} writes acknowledged after {} cycles: {said:#}",
            round * u64::from(cycles)
        );
        let _ = town.ask("DELETE", "/study", Value::Null);
    }
}

#[test]
fn foreign_clients_do_all_that_they_do_elsewhere() {
    // A virtual environment, say: clients are seldom installed for everybody.
    let named = std::env::var("CAVY_PYTHON").unwrap_or_default();
    let python = [named.as_str(), "python3"];
    let mut town = None;
    for (which, module) in [("elasticsearch", "elasticsearch"), ("opensearch", "opensearchpy")] {
        let has = |python: &&str| {
            let import = format!("import {module}");
            let asked = Command::new("timeout").args(["60", python, "-c", &import]).output();
            asked.is_ok_and(|output| output.status.success())
        };
        let Some(python) = python.iter().find(|python| has(python)) else {
            println!("SKIPPED {which}: Python has no module {module} (pip install)");
            continue;
        };
        let town = town.get_or_insert_with(|| Town::new("clients", 4, 1, 3));
        let url = format!("http://{}", town.local.cluster.front_ends[0].http);
        // Five minutes at most, on any machine: a client that waits for ever is a failure.
        let output = Command::new("timeout")
            .args(["300", python, "tests/clients.py", which, &url])
            .output()
            .expect("timeout of coreutils");
        let (said, wrong) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert!(output.status.success(), "{said}{wrong}");
        print!("{said}");
    }
}
