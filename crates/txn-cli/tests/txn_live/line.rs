//! A cluster whose regions are network namespaces with a line between them. It needs root, and is
//! skipped with a reason elsewhere.

use super::cluster::Cluster;
use cavy_testbed::owner;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn is_possible() -> bool {
    let no_tunnels =
        || (!Path::new("/dev/net/tun").exists()).then(|| "no tunnels here".to_string());
    let obstacle = cavy_testbed::obstacle().or_else(no_tunnels);
    if let Some(reason) = &obstacle {
        eprintln!("SKIPPED: {reason}");
    }
    obstacle.is_none()
}

fn spaces_of(process: u32) -> usize {
    let all = owner::all().expect("names of namespaces");
    all.iter().filter(|(_, owner)| owner.process() == process).count()
}

/// The median of transactions across regions, in milliseconds, and how many there were.
fn across(cluster: &Cluster) -> (f64, u64) {
    let out = Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
        .args(["measure", "--seconds", "3", "--warm-up", "0.5", "--json", "--config"])
        .arg(cluster.file())
        .args(["--across-percent", "100", "--clients", "5"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect(&said);
    assert_eq!(report["sum"], 0, "{report}");
    let kinds = report["kinds"].as_array().unwrap();
    let kind =
        kinds.iter().find(|kind| kind["reach"] == "across regions").expect("it is asked for");
    (kind["p50_ms"].as_f64().unwrap(), kind["count"].as_u64().unwrap())
}

/// A machine that does something else between two measurements is measured again.
#[test]
fn a_line_and_the_carrier_make_the_same_distance() {
    if !is_possible() {
        return;
    }
    let start = |wan| Cluster::start_as("2x1x3", 12, &["--wan", wan, "--fail-after-ms", "3000"]);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let medians = ["line", "carrier"].map(|wan| {
            let cluster = start(wan);
            let process = cluster.command();
            assert_eq!(spaces_of(process), if wan == "line" { 2 } else { 0 });
            let (median, count) = across(&cluster);
            assert!(median > 200.0 && count > 50, "{wan}: {median} ms, {count} transactions");
            cluster.end();
            assert_eq!(spaces_of(process), 0, "a namespace is left");
            median
        });
        let [line, carrier] = medians;
        seen.push(medians);
        if (line / carrier - 1.0).abs() <= 0.03 {
            return;
        }
    }
    panic!("medians are not within 3 %: {seen:?}");
}

#[test]
fn after_a_crash_of_the_command_nothing_runs_and_the_rest_can_be_removed() {
    if !is_possible() {
        return;
    }
    let cluster = Cluster::start_as("2x1x3", 12, &["--wan", "line"]);
    let (command, nodes) = cluster.kill_all();
    let began = Instant::now();
    let runs = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    while nodes.iter().any(runs) {
        assert!(began.elapsed() < Duration::from_secs(10), "a node outlives its cluster");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Whoever builds next does this first.
    owner::remove_leftovers().expect("what is left can be removed");
    assert_eq!(spaces_of(command), 0);
}

#[test]
fn without_root_it_says_what_to_do() {
    let command = |shape: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cavy-txn"));
        command.args(["--local", shape, "--wan", "line"]);
        command
    };
    let said = |out: std::process::Output| {
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, text) = said(command("1x1x3").output().unwrap());
    assert!(code == Some(2) && text.contains("needs two regions; there is one"), "{text}");
    // `nobody`, who may not be allowed to read the program.
    let Ok(out) = command("2x1x3").uid(65_534).gid(65_534).output() else {
        eprintln!("SKIPPED: another user cannot start the program");
        return;
    };
    let (code, text) = said(out);
    assert!(code == Some(1) && text.contains("making network namespaces needs root"), "{text}");
    assert!(text.contains("sudo") && text.contains("--wan carrier"), "{text}");
}
