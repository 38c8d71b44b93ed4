//! The live study and replays: that they account for everything and say what they must. How fast
//! anything is depends on the machine and is tested nowhere.

mod cavy_live;
mod lab;

use cavy_live::{call, command};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Runs a study and gives its report.
fn study(folder: &Path, args: &[&str]) -> Value {
    let out = folder.to_string_lossy();
    let all = [&["study"], args, &["--probe", "0s", "--json", "--out", &out]].concat();
    let output = call(&all);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for name in ["report.html", "report.json", "claims.json", "series.csv", "tables.csv"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    serde_json::from_slice(&output.stdout).expect("a report")
}

fn figure<'a>(report: &'a Value, id: &str) -> &'a Value {
    let figures = report["figures"].as_array().expect("figures");
    figures.iter().find(|figure| figure["id"] == id).unwrap_or_else(|| panic!("{id}"))
}

fn tables(figure: &Value) -> impl Iterator<Item = &Value> {
    figure["tables"].as_array().expect("tables").iter()
}

fn table<'a>(figure: &'a Value, id: &str) -> &'a Value {
    tables(figure).find(|table| table["id"] == id).unwrap_or_else(|| panic!("{id}"))
}

fn rows(table: &Value) -> &Vec<Value> {
    let rows = table["rows"].as_array().expect("rows");
    let columns = table["columns"].as_array().expect("columns").len();
    assert!(rows.iter().all(|row| row.as_array().is_some_and(|row| row.len() == columns)));
    rows
}

fn number(cell: &Value) -> u64 {
    let digits: String =
        cell.as_str().expect("a count").chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Every peer answered as many requests as the first, and none is missing.
fn all_answered(table: &Value, peers: &[&str]) -> u64 {
    let rows = rows(table);
    let of = |peer: &str| {
        let row = rows.iter().find(|row| row[0] == peer);
        let row = row.unwrap_or_else(|| panic!("{peer} in {table}"));
        assert_eq!(number(&row[2]), 0, "{peer} left requests unanswered");
        number(&row[1])
    };
    let answered: Vec<u64> = peers.iter().map(|peer| of(peer)).collect();
    assert!(answered.iter().all(|&count| count == answered[0] && count > 0), "{answered:?}");
    answered[0]
}

fn verdict<'a>(report: &'a Value, id: &str) -> &'a str {
    let claims = report["claims"].as_array().expect("claims");
    let claim = claims.iter().find(|claim| claim["id"] == id).unwrap_or_else(|| panic!("{id}"));
    claim["verdict"].as_str().expect("a verdict")
}

/// In this process only one study runs at a time: pools of 14 threads beside each other test
/// nothing.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

const PEERS: [&str; 8] = [
    "DARC",
    "c-FCFS",
    "fixed priority",
    "tokio spawn_blocking",
    "rayon",
    "threads + channel",
    "two pools",
    "priority-queue pool",
];
const NAMES: &str =
    "darc,c-fcfs,fixed-priority,spawn-blocking,rayon,channel,two-pools,priority-pool";

fn timed_slots(folder: &Path) -> Value {
    study(folder, &["l1", "--seconds", "0.4", "--repetitions", "2", "--peers", NAMES])
}

#[test]
fn timed_slots_answer_everything_and_decide_identically() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let report = timed_slots(folder.path());
    let l1 = figure(&report, "live.l1");
    let labs = ["lab: DARC", "lab: c-FCFS", "lab: fixed priority"];
    for name in ["latency-short", "latency-long"] {
        all_answered(table(l1, name), &[&PEERS[..], &labs].concat());
    }
    assert_eq!(rows(table(l1, "machine")).len(), 2 * PEERS.len(), "a row for each run");
    assert_eq!(rows(table(figure(&report, "live.l5"), "floors")).len(), 2);
    assert_eq!(verdict(&report, "live.l5.identical"), "reproduced");
    // Without a jitter probe nothing that takes time can be published, and so few requests have no
    // 99th percentile.
    assert_eq!(verdict(&report, "live.l1.darc_short_p99"), "too_short");

    let recording = folder.path().join("l1-darc.jsonl");
    let name = recording.to_string_lossy().into_owned();
    let output = call(&["replay", &name, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let replayed: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(replayed["summary"].as_str().is_some_and(|text| text.contains("identical")));
    let agreement = table(figure(&replayed, "live.replay"), "replay");
    assert_eq!(rows(agreement).len(), 2 * 4, "two types, four percentiles");
    altered(&recording, folder.path());
}

/// A recording that says something else, and one that was cut off.
fn altered(recording: &Path, folder: &Path) {
    let text = std::fs::read_to_string(recording).expect("a recording");
    let lines: Vec<&str> = text.lines().collect();
    let replay = |name: &str, text: String| {
        let file: PathBuf = folder.join(name);
        std::fs::write(&file, text).expect("a file");
        let output = call(&["replay", &file.to_string_lossy()]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, said) = replay("cut", lines[..lines.len() - 1].join("\n"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("cut off"), "{said}");
    // One more request that nobody recorded changes what follows.
    let mut more: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
    more.insert(1, "[0,\"a\",4000000000,1]".to_string());
    let (code, said) = replay("more", more.join("\n"));
    assert!(code == Some(1) && said.contains("DIFFERENT") || code == Some(2), "{said}");
    // A digest of another run.
    let last = lines.len() - 1;
    let mut other: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
    let mut footer: Value = serde_json::from_str(&other[last]).expect("a footer");
    footer["digest"] = "0123456789abcdef".into();
    other[last] = footer.to_string();
    let (code, said) = replay("other", other.join("\n"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("DIFFERENT"), "{said}");
}

const OWN: &str = "kind = \"server\"
world = \"live\"
title = \"Two types on four workers\"
workers = 4
load = 0.3
types = [
  { name = \"quick\", share = 0.9, service = { dist = \"constant\", us = 1000 } },
  { name = \"slow\", share = 0.1, service = { dist = \"constant\", us = 8000 } },
]
policies = [{ policy = \"c_fcfs\" }, { policy = \"fixed_priority\" }]
run = { requests = 20000, replications = 2 }
";

/// One file: live by the study that its shape asks for, and in the lab, whose values stand beside.
#[test]
fn a_plan_for_the_live_world_is_laid_beside_the_lab() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("own.toml");
    std::fs::write(&file, OWN).expect("a file");
    let name = file.to_string_lossy().into_owned();
    let out = folder.path().join("out");
    let args = ["--plan", &name, "--seconds", "0.5", "-r", "1", "--peers", "c-fcfs"];
    let report = study(&out, &args);
    let l1 = figure(&report, "live.l1");
    assert_eq!(l1["title"], "Two types on four workers");
    for kind in ["latency-quick", "latency-slow"] {
        all_answered(table(l1, kind), &["c-FCFS", "lab: c-FCFS"]);
    }
    let points = lab::points(OWN, &file);
    let mut laid = 0;
    for row in rows(table(l1, "plan-in-the-lab")) {
        let point = points.as_array().expect("points").iter().find(|one| one["policy"] == row[0]);
        let types = point.expect("the policy")["types"].as_array().expect("types");
        let kind = types.iter().find(|one| one["name"] == row[1]).expect("the type");
        let ms = kind["p50_us"]["value"].as_f64().expect("a median") / 1e3;
        assert_eq!(row[2].as_f64(), Some(ms), "{row}");
        laid += 1;
    }
    assert_eq!(laid, 4, "two policies, two types");
    // A plan for the lab is not run live in silence.
    std::fs::write(&file, OWN.replace("world = \"live\"\n", "")).expect("a file");
    let output = call(&["study", "--plan", &name, "--out", &out.to_string_lossy()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the plan is for the lab") && said.contains("world = \"live\""),
        "{said}"
    );
}

#[test]
fn connections_answer_everything() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let report = study(folder.path(), &["l2", "--seconds", "0.4", "--repetitions", "2"]);
    let l2 = figure(&report, "live.l2");
    let peers = ["DARC", "c-FCFS", "fixed priority", "tokio semaphore", "two pools"];
    let labs = ["lab: DARC", "lab: c-FCFS", "lab: fixed priority"];
    for name in ["latency-get", "latency-report"] {
        all_answered(table(l2, name), &[&peers[..], &labs].concat());
    }
    assert_eq!(rows(table(l2, "machine")).len(), 2 * peers.len(), "a row for each run");
    assert_eq!(verdict(&report, "live.l2.darc_short_p99"), "too_short");
}

#[test]
fn a_study_without_a_peer_is_not_a_study() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_string_lossy();
    let output = call(&[
        "study",
        "l1",
        "l2",
        "--peers",
        "semaphore",
        "--seconds",
        "0.3",
        "-r",
        "1",
        "--probe",
        "0s",
        "--out",
        &out,
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("SKIPPED: l1"), "{said}");
    let output = call(&["study", "l2", "--peers", "rayon", "--out", &out]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("SKIPPED: l2") && said.contains("no peer is left"), "{said}");
}

#[test]
fn the_store_answers_everything_in_both_cases() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let args = ["l3", "--seconds", "0.4", "--repetitions", "1", "--wait", "sleep"];
    let report = study(folder.path(), &[&args[..], &["--peers", "darc,c-fcfs,rayon"]].concat());
    for id in ["live.l3", "live.l3_limit"] {
        let of = figure(&report, id);
        for name in ["latency-get", "latency-scan"] {
            let peers = ["DARC", "c-FCFS", "rayon"];
            let rows = rows(table(of, name));
            assert_eq!(rows.len(), peers.len());
            for row in rows {
                assert_eq!(number(&row[2]), 0, "{row}");
            }
        }
    }
    let facts = report["facts"].to_string();
    assert!(facts.contains("GETs") && facts.contains("SCANs"), "measured times: {facts}");
}

#[test]
fn phases_are_told_apart() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let args = ["l4", "--seconds", "0.3", "--repetitions", "1", "--peers", "darc,c-fcfs"];
    let report = study(folder.path(), &args);
    let l4 = figure(&report, "live.l4");
    let counts = |peer: &str| -> Vec<(String, u64)> {
        let rows = rows(table(l4, "latency-a")).iter().filter(|row| row[1] == peer);
        rows.map(|row| {
            assert_eq!(number(&row[3]), 0, "{row}");
            (row[0].as_str().unwrap_or_default().to_string(), number(&row[2]))
        })
        .collect()
    };
    assert_eq!(counts("DARC"), counts("c-FCFS"), "the same arrivals in each phase");
    assert_eq!(counts("DARC").len(), 4);
    assert_eq!(rows(table(l4, "reservations")).len(), 4, "a row for each phase of DARC's run");
    assert_eq!(verdict(&report, "live.l4.reserved_p1"), "too_short");
}

#[test]
fn costs_compare_both_drivers() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let report = study(folder.path(), &["costs", "--seconds", "0.3", "--repetitions", "1"]);
    let costs = figure(&report, "live.costs");
    let dispatch = rows(table(costs, "dispatch"));
    assert_eq!(dispatch.len(), 5);
    assert!(dispatch.iter().all(|row| number(&row[1]) > 0 && row[1] == dispatch[0][1]));
    assert_eq!(verdict(&report, "live.costs.inline"), "too_noisy", "no probe was taken");
}

#[test]
fn go_answers_everything_where_it_is_there() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_string_lossy();
    let args = ["study", "l1", "--seconds", "0.3", "-r", "1", "--peers", "go,c-fcfs"];
    let rest = ["--probe", "0s", "--json", "--out", &out];
    let output = call(&[&args[..], &rest].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let short = table(figure(&report, "live.l1"), "latency-short");
    if said.contains("SKIPPED: the Go runtime") {
        eprintln!("{said}");
        assert!(report["facts"].to_string().contains("skipped"));
        all_answered(short, &["c-FCFS"]);
    } else {
        all_answered(short, &["c-FCFS", "Go runtime"]);
    }
}

#[test]
fn go_that_is_missing_is_said() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_string_lossy();
    let args = ["study", "l1", "--seconds", "0.3", "-r", "1", "--peers", "go", "--out", &out];
    let output = command(&args).env("PATH", "/nowhere").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("SKIPPED: the Go runtime") && said.contains("no peer is left"), "{said}");
}

fn transcript(calls: &[&[&str]]) -> String {
    let mut text = String::new();
    for args in calls {
        let output = call(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.matches("error:").count(), 1, "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        let _ = writeln!(text, "$ cavy-live {}\n{said}", args.join(" "));
    }
    text
}

#[test]
fn mistakes_about_studies() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_string_lossy().into_owned();
    let calls: [&[&str]; 10] = [
        &["study", "l5"],
        &["study", "l1", "--seconds", "0"],
        &["study", "l1", "--seconds", "-3"],
        &["study", "l1", "--seconds", "2min"],
        &["study", "l1", "--seconds", "80000", "--peers", "darc", "--out", &out],
        &["study", "l1", "--seconds", "0.001", "--peers", "darc", "--out", &out],
        &["study", "l1", "--repetitions", "0"],
        &["study", "l1", "--peers", "darc,forkjoin"],
        &["study", "l1", "--probe", "200"],
        &["study", "l1", "--out", "/dev/null/x"],
    ];
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(&regex_of(&out), "[OUT]");
    settings.bind(|| insta::assert_snapshot!("study", transcript(&calls)));
}

#[test]
fn mistakes_about_recordings() {
    let folder = TempDir::new().expect("a folder");
    let header = r#"{"cavy_recording":1,"workers":2,"types":["a"],"hints":[[1000000,1.0]],"policy":"central_fcfs","queue_limit":4,"seed":1}"#;
    let texts = [
        ("empty", String::new()),
        ("text", "hello\n".to_string()),
        ("future", header.replace(":1,\"workers\"", ":2,\"workers\"")),
        ("crowd", header.replace("\"workers\":2", "\"workers\":5000")),
        ("letter", format!("{header}\n[1,\"q\",0,1]\n")),
        ("back", format!("{header}\n[5,\"a\",0,1]\n[4,\"a\",1,1]\n")),
        ("idle", format!("{header}\n[5,\"f\",0,0,1]\n")),
    ];
    let mut names = vec![folder.path().join("absent").to_string_lossy().into_owned()];
    for (name, text) in texts {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("a file");
        names.push(file.to_string_lossy().into_owned());
    }
    let calls: Vec<Vec<&str>> = names.iter().map(|name| vec!["replay", name]).collect();
    let calls: Vec<&[&str]> = calls.iter().map(Vec::as_slice).collect();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(&regex_of(&folder.path().to_string_lossy()), "[DIR]");
    settings.bind(|| insta::assert_snapshot!("replay", transcript(&calls)));
}

/// A pattern for exactly this text.
fn regex_of(text: &str) -> String {
    let quote = |c: char| if c.is_alphanumeric() { c.to_string() } else { format!("\\{c}") };
    text.chars().map(quote).collect()
}
