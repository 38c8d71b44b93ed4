//! `measure`: what it says, and that its histories stand.

use super::cluster::Cluster;
use cavy_check::{Model, Options, judge, read};
use std::process::{Command, Output};

fn measure(cluster: &Cluster, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
        .args(["measure", "--seconds", "2.5", "--warm-up", "0.3", "--clients", "3", "--config"])
        .arg(cluster.file())
        .args(["--keys", "20", "--across-percent", "30", "--two-shards-percent", "40"])
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn it_says_how_long_transactions_take_and_writes_histories_that_stand() {
    let cluster = Cluster::start("2x2x3", 18, &["--fail-after-ms", "2000"]);
    for work in ["register", "append"] {
        let history = cluster.folder.path().join(format!("{work}.jsonl"));
        let out = measure(&cluster, &["--work", work, "--history", history.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&out.stdout);
        // A busy machine puts it in doubt, and it says so.
        let doubt = if said.contains("in doubt: ") { 3 } else { 0 };
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(doubt), "{said}{errors}");
        for kind in ["one shard", "one region", "across regions"] {
            assert!(said.contains(kind), "{said}");
        }
        let text = std::fs::read(&history).unwrap();
        let history = read::read(text.as_slice(), None).expect("a history");
        let options = Options { model: Model::RegionalSerializable, shown: 5 };
        let verdict = judge(&history, options).expect("values are told apart");
        assert!(verdict.holds && verdict.committed > 0, "{work}: {verdict:#?}");
    }
    let out = measure(&cluster, &["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(report["sum"], 0, "{report}");
    let kinds = report["kinds"].as_array().unwrap();
    let least = |reach: &str| {
        let kind = kinds.iter().find(|kind| kind["reach"] == reach).expect("all kinds");
        kind["least_ms"].as_f64().unwrap()
    };
    // Four ways within a region of half a millisecond, the client's among them; two round trips of
    // 20 ms between regions. Machines are late, messages are never early.
    assert!(least("one shard") >= 2.0 && least("across regions") >= 40.0, "{report}");
    cluster.end();
}

#[test]
fn what_is_wrong_with_a_measurement_is_said() {
    for (more, said) in [
        (&["--clients", "0"][..], "--clients is 0; 1 to 1000"),
        (&["--keys", "1"], "--keys is 1; 2 to 1000000"),
        (&["--across-percent", "101"], "--across-percent is 101; 0 to 100"),
        (&["--seconds", "0"], "--seconds is 0; 0.1 to 86400"),
        (&["--hop-ms", "-1"], "--hop-ms is -1; 0 to 10000"),
        (&["--history", "x.jsonl"], "a history of transfers cannot be checked"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
            .args(["measure", "--local", "1x1x3"])
            .args(more)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{text}");
        assert!(text.contains(said), "{text}");
    }
}

/// TPC-C by every protocol that nodes run: no condition is broken, and the checker finds what the
/// protocol promises.
#[test]
fn tpcc_stands_by_every_protocol() {
    for (protocol, nodes, model) in [
        ("dast", 18, Model::RegionalSerializable),
        ("two-phase", 9, Model::StrictSerializable),
        ("slog", 18, Model::Serializable),
    ] {
        let more = ["--fail-after-ms", "2000", "--versions", "--protocol", protocol];
        let cluster = Cluster::start("3x1x3", nodes, &more);
        let path = cluster.folder.path().join("tpcc.jsonl");
        let history = ["--work", "tpcc", "--history", path.to_str().unwrap(), "--json"];
        let out = measure(&cluster, &history);
        let errors = String::from_utf8_lossy(&out.stderr);
        let report = serde_json::from_slice::<serde_json::Value>(&out.stdout);
        let report = report.unwrap_or_else(|error| panic!("{protocol}: {error}: {errors}"));
        assert_eq!(report["protocol"], protocol, "{report}");
        let books = &report["books"];
        let of = |what: &str| books[what].as_u64().expect("it says so");
        assert!(of("orders") > 10 && of("payments") > 10, "{protocol}: {report}");
        let text = std::fs::read(&path).unwrap();
        let history = read::read(text.as_slice(), None).expect("a history");
        let verdict =
            judge(&history, Options { model, shown: 5 }).expect("versions are told apart");
        assert!(verdict.holds && verdict.committed > 20, "{protocol}: {verdict:#?}");
        // A second run could not tell its orders from those of the first.
        let again = measure(&cluster, &["--work", "tpcc"]);
        let said = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.code() == Some(2) && said.contains("has had orders"), "{said}");
        cluster.end();
    }
}
