//! The study of Homa between hosts: that all peers answer everything and all tables are there.
//! Needs root; skipped with a reason elsewhere. How fast anything is depends on the machine and is
//! tested nowhere.

mod cavy_live;
mod lab;

use cavy_live::{call, command};
use serde_json::Value;
use tempfile::TempDir;

fn table<'a>(report: &'a Value, id: &str) -> &'a Vec<Value> {
    let figures = report["figures"].as_array().expect("figures");
    let tables = figures.iter().flat_map(|figure| figure["tables"].as_array().expect("tables"));
    let table = tables.into_iter().find(|table| table["id"] == id);
    table.unwrap_or_else(|| panic!("{id}"))["rows"].as_array().expect("rows")
}

#[test]
fn all_peers_answer_everything() {
    let listed = call(&["testbed", "list"]);
    if !listed.status.success() {
        println!("SKIPPED: {}", String::from_utf8_lossy(&listed.stderr));
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_string_lossy().into_owned();
    let peers = "homa,no-levels,pool-cubic,quic,grpc";
    // Without these the study says so and compares the others.
    let rpc = cfg!(feature = "rpc");
    if !rpc {
        println!("SKIPPED: QUIC and gRPC beside Homa; `make live-test` has them");
    }
    let args = ["study", "homa", "--quick", "--seconds", "1", "--loads", "40", "--probe", "0s"];
    let rest = ["--transports", peers, "--json", "--out", &out];
    let output = command(&[&args[..], &rest].concat()).output().expect("the study runs");
    let said = String::from_utf8_lossy(&output.stderr);
    // Whether claims hold is not asked here; without a probe none can be published.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let short = table(&report, "short-w4-40");
    let ran = if rpc { 5 } else { 3 };
    assert_eq!(short.len(), ran, "{short:?}");
    for left_out in ["QUIC", "gRPC"] {
        let skipped = format!("SKIPPED: {left_out}: this program was built without it");
        assert_eq!(said.contains(&skipped), !rpc, "{said}");
    }
    for row in short {
        assert_eq!(row[2]["text"].as_str().or(row[2].as_str()), Some("0"), "{row}");
        assert_eq!(row[1], short[0][1], "the same messages for all");
    }
    assert_eq!(table(&report, "machine-w4-40").len(), ran);
    assert!(table(&report, "bridge-w4-40-homa").len() > 5);
    assert_eq!(table(&report, "incast").len(), 2);
    // The study's own plan in the lab: four transports at this load, and two of incast.
    assert_eq!(table(&report, "plan-in-the-lab-w4-40").len(), 4);
    assert_eq!(table(&report, "plan-in-the-lab-incast").len(), 2 * 3);
}

/// Between three hosts, two seconds at a sixth of slow links.
const OWN: &str = r#"
kind = "network"
world = "live"
title = "Three hosts"
load = 0.15
network = { topology = "star", hosts = 3, host_gbps = 0.02, buffer = { per_port_bytes = 800_000 } }
messages = { workload = "W3", min_bytes = 8, max_bytes = 200_000 }
transports = [{ transport = "homa", variant = "cavy", tick_us = 20_000 }]
[run]
warmup_ms = 200
duration_ms = 1_800
replications = 1
own_best = false
"#;

/// One file says what runs live and in the lab, and the report lays both beside each other.
#[test]
fn a_plan_of_messages_for_the_live_world_is_laid_beside_the_lab() {
    let listed = call(&["testbed", "list"]);
    if !listed.status.success() {
        println!("SKIPPED: {}", String::from_utf8_lossy(&listed.stderr));
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let (file, out) = (folder.path().join("own.toml"), folder.path().join("out"));
    std::fs::write(&file, OWN).expect("a file");
    let (name, out) = (file.to_string_lossy().into_owned(), out.to_string_lossy().into_owned());
    let args = ["study", "--plan", &name, "--transports", "homa", "--probe", "0s", "--json"];
    let output = command(&[&args[..], &["--out", &out]].concat()).output().expect("the study runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["figures"][0]["title"], "Three hosts, W3 at 15 %");
    assert_eq!(report["claims"].as_array().map(Vec::len), Some(0), "claims are of the own plan");
    let short = table(&report, "short-w3-15");
    assert_eq!(short.len(), 1, "{short:?}");
    assert_eq!(short[0][2]["text"].as_str().or(short[0][2].as_str()), Some("0"), "{short:?}");

    let point = &lab::points(OWN, &file)[0];
    let p50 = point["short"]["p50_slowdown"]["value"].as_f64().expect("a median");
    let row = &table(&report, "plan-in-the-lab-w3-15")[0];
    assert_eq!((row[0].as_str(), row[1].as_f64()), (Some("Homa"), Some(p50)), "{row}");
}
