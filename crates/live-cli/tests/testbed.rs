//! Testbeds and the doctor, watched from outside. Parts that need root are skipped with a reason
//! elsewhere.

mod cavy_live;

use cavy_live::{call, command, until};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

/// Is this not the place for a testbed?
fn skipped() -> bool {
    let output = call(&["testbed", "list"]);
    let skipped = !output.status.success();
    if skipped {
        println!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
    }
    skipped
}

/// Starts a builder and waits until it has built; the names of its hosts.
fn builder() -> (Child, Vec<String>) {
    let mut child = command(&["testbed", "up", "--hosts", "2", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the builder starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let said: Value = serde_json::from_str(&line).expect("where the hosts are");
    let hosts = said["hosts"].as_array().expect("hosts");
    let names = hosts.iter().map(|host| host["name"].as_str().expect("a name").to_string());
    (child, names.collect())
}

fn stands(name: &str) -> bool {
    fs::exists(format!("/run/netns/{name}")).expect("a folder")
}

#[test]
fn what_a_killed_builder_leaves_is_removed() {
    if skipped() {
        return;
    }
    let (mut killed, left) = builder();
    killed.kill().expect("kill -9");
    killed.wait().expect("it ends");
    assert!(left.iter().all(|name| stands(name)), "nobody could clean up");
    // A builder that lives is left alone by whoever cleans up.
    let (mut alive, stays) = builder();
    assert!(!left.iter().any(|name| stands(name)), "the next builder removes leftovers");
    assert!(call(&["testbed", "down"]).status.success());
    assert!(stays.iter().all(|name| stands(name)));
    let id = alive.id().to_string();
    let sent = std::process::Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(sent.expect("kill runs").success());
    let status = until("the builder has ended", || alive.try_wait().expect("a child"));
    assert!(status.success());
    assert!(!stays.iter().any(|name| stands(name)), "Ctrl-C removes it");
}

#[test]
fn the_doctor_says_what_each_part_is_for() {
    let output = call(&["doctor", "--probe", "5ms", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 1)));
    let said: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let checks = said["checks"].as_array().expect("checks");
    for name in ["CAP_NET_RAW", "tc", "htb", "u32", "TCP bbr", "clock", "jitter", "cores"] {
        assert!(checks.iter().any(|check| check["name"] == name), "{name}");
    }
    let missing = checks.iter().filter(|check| check["state"] == "missing").count();
    assert_eq!(output.status.code(), Some(i32::from(missing > 0)));
    for check in checks {
        assert!(!check["needed_for"].as_str().expect("words").is_empty());
        assert_eq!(check["state"] == "ok", check["cure"].is_null(), "{check}");
    }
}
