//! The study of coordinates, as a user runs it: agents learn on real sockets what the lab's learn
//! from the same probes, and repair a wrong row. Needs root; skipped with a reason elsewhere.

mod cavy_live;

use cavy_live::call;
use serde_json::Value;

fn table<'a>(report: &'a Value, figure: &str, id: &str) -> &'a [Value] {
    let find = |list: &'a Value, id: &str| {
        let list = list.as_array().expect("a list");
        list.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("no {id}"))
    };
    let table = find(&find(&report["figures"], figure)["tables"], id);
    table["rows"].as_array().expect("rows")
}

fn number(cell: &Value) -> f64 {
    let inner = cell.as_f64();
    inner.or_else(|| cell["value"].as_f64()).unwrap_or_else(|| panic!("{cell}"))
}

#[test]
fn agents_learn_real_distances_as_the_lab_does_and_repair_a_wrong_row() {
    if let Some(reason) = cavy_testbed::obstacle() {
        eprintln!("SKIPPED: {reason}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("report");
    let out = out.to_str().expect("a path");
    let args = ["coords", "study", "--quick", "--anchors", "12", "--json", "--probe", "0s"];
    let done = call(&[&args[..], &["--out", out]].concat());
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("/dev/net/tun") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    // Nothing is judged without a jitter probe, so nothing is missed.
    assert!(done.status.success(), "{said}");
    assert!(said.contains("serf SKIPPED: --serf names no folder"), "{said}");
    let report: Value = serde_json::from_slice(&done.stdout).expect("an object");
    let row = |label: &str| {
        let rows = table(&report, "live.coords.errors", "p50");
        let found = rows.iter().find(|row| row[0].to_string().contains(label));
        found.unwrap_or_else(|| panic!("{label}: {rows:?}"))
    };
    let geo = number(&row("geolocation")[1]);
    let (both, lab) = (row("both ends learn"), row("replay"));
    println!("geolocation {geo}; both ends {both}; the lab {lab}; flagship {}", row("flagship"));
    assert!(number(&both[3]) < geo, "{both} after 13 probes, {geo} by place alone");
    let repair = table(&report, "live.coords.repair", "repair");
    println!("{repair:?}");
    let (before, after) = (number(&repair[0][1]), number(&repair[3][1]));
    assert!(after < before / 2.0, "{before} became {after}");
    for run in table(&report, "live.coords.errors", "machine") {
        assert!(!run.to_string().contains("refused"), "{run}");
    }
    let page = std::fs::read_to_string(folder.path().join("report/report.html")).expect("a page");
    assert!(page.contains("Before any probe") && page.contains("After 13 probes a node"));
}

#[test]
fn a_folder_without_serf_is_named() {
    if cavy_testbed::obstacle().is_some() {
        eprintln!("SKIPPED: no root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("a path");
    let done = call(&["coords", "study", "--quick", "--serf", folder, "--out", folder]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("has no program `coordinates`") && said.contains("README"), "{said}");
}
