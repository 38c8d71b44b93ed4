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

const BOTH: &str = "Htrae, both ends learn";

/// By how much the round trips of a run varied around what the line was told, the longest tenth
/// left out: what the machine did to them, in milliseconds. Round trips may be longer than told
/// only as far as the line says that it was late.
fn disturbed_ms(run: &Value) -> f64 {
    let (p50, p90, late_p99) = (number(&run[3]), number(&run[4]), number(&run[6]) / 1e3);
    // There and back through the line, and two hosts that may be as late as it is.
    assert!(0.0 <= p50 && p50 <= 1.0 + 4.0 * late_p99, "round trips are not those told: {run}");
    p90 - p50
}

/// Agents must be where the lab is after the same probes, within the 2 % and 0.3 ms of [htrae 7.3]
/// and what the machine did. At one mark of three they may not: an agent may learn between being
/// asked where it is and the reading of the clock, and the replay looks at the time that was read.
fn assert_alike(live: &[f64], lab: &[f64], disturbed_ms: f64, who: &str) {
    println!("{who}: {live:.2?} ms, the lab {lab:.2?}; trips vary by {disturbed_ms:.2} ms");
    let near = |(live, lab): (&f64, &f64)| (live - lab).abs() <= 0.02 * lab + 0.3 + disturbed_ms;
    let alike = live.iter().zip(lab).filter(|both| near(*both)).count();
    assert!(live.len() == 3 && alike >= 2, "{who}: {live:?}, the lab {lab:?}, {disturbed_ms} ms");
}

/// A run is one order of probes, since whom agents probe is drawn. How well anybody learns differs
/// much between orders: in 212 of 1,000 without a network the wrong row is not even half repaired
/// after 13 probes a node. So agents are held against the lab's replay of their own probes; what
/// learning does in many orders is a test beside the replay.
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
    let row = |id: &str, label: &str| {
        let rows = table(&report, "live.coords.errors", id);
        let found = rows.iter().find(|row| row[0] == label);
        found.unwrap_or_else(|| panic!("{label}: {rows:?}"))
    };
    let replay = "the lab's replay of both ends";
    let errors = |id: &str, label: &str| -> Vec<f64> {
        (1..=3).map(|mark| number(&row(id, label)[mark])).collect()
    };
    let disturbed = disturbed_ms(row("machine", BOTH));
    for id in ["p50", "p90"] {
        assert_alike(&errors(id, BOTH), &errors(id, replay), disturbed, BOTH);
    }
    let (live, geo) = (errors("p50", BOTH), number(&row("p50", "geolocation, never learns")[1]));
    // In each of 10,000 orders of probes in the lab.
    assert!(live.iter().any(|error| *error < geo), "{live:?}, {geo} by place alone");

    let repair = table(&report, "live.coords.repair", "repair");
    let column = |at: usize| repair.iter().map(|row| number(&row[at])).collect::<Vec<f64>>();
    let wrong = "Htrae, both ends learn, a wrong row";
    let disturbed = disturbed_ms(row("machine", wrong));
    for [live, lab] in [[1, 3], [2, 4]] {
        assert_alike(&column(live)[1..], &column(lab)[1..], disturbed, wrong);
    }
    // Who is probed is drawn, and some draws repair nothing: then the lab says so too.
    let repaired = |errors: &[f64]| errors[1..].iter().any(|error| *error < errors[0]);
    let (live, lab) = (column(1), column(3));
    assert!(repaired(&live) || !repaired(&lab), "{live:?}, the lab {lab:?}");
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
