//! The study of Homa between hosts: that all peers answer everything and all tables are there.
//! Needs root; skipped with a reason elsewhere. How fast anything is depends on the machine and is
//! tested nowhere.

mod cavy_live;

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
}
