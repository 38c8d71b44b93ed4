//! `cavy live` and `cavy load` hand over to the program `cavy-live`.
#![cfg(unix)]

mod cavy;

use cavy::Cavy;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A copy of the command in a folder of its own, where no `cavy-live` was built beside it.
fn copied(cavy: &Cavy) -> PathBuf {
    let copy = cavy.path("cavy");
    std::fs::copy(env!("CARGO_BIN_EXE_cavy"), &copy).expect("a copy");
    copy
}

/// Writes a program that says what it was called with, and ends with code 42.
fn stand_in(path: PathBuf) {
    std::fs::write(&path, "#!/bin/sh\necho \"$0 $*\"\nexit 42\n").expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}

fn call(cavy: &Cavy, path: &str, args: &[&str]) -> Output {
    // A script that was just written may still be open in a child of another test.
    for _ in 0..50 {
        let output = Command::new(copied(cavy)).args(args).env("PATH", path).output();
        match output {
            Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("busy") => {
                return output;
            }
            _ => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    }
    panic!("the command does not start");
}

#[test]
fn it_is_said_how_to_build_what_is_missing() {
    let cavy = Cavy::new();
    for args in [&["live", "sched"][..], &["load", "--help"], &["live"]] {
        let output = call(&cavy, "/nowhere", args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("cavy-live is not built") && said.contains("make live"), "{said}");
    }
    let output = call(&cavy, "/nowhere", &["live", "search", "--local", "3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("make search"), "{said}");
}

#[test]
fn arguments_and_exit_code_are_those_of_the_other_program() {
    let cavy = Cavy::new();
    stand_in(cavy.path("cavy-live"));
    stand_in(cavy.path("cavy-search"));
    for (args, expected) in [
        (&["live", "sched", "--policy", "darc"][..], "cavy-live sched --policy darc\n"),
        (&["live", "--help"], "cavy-live --help\n"),
        (&["load", "-h"], "cavy-live load -h\n"),
        (&["live", "search", "--local", "12"], "cavy-search --local 12\n"),
        (&["replay", "run.jsonl"], "cavy-live replay run.jsonl\n"),
        (&["load", "http://x", "--json", "--", "y"], "cavy-live load http://x --json -- y\n"),
    ] {
        let output = call(&cavy, "/usr/bin:/bin", args);
        assert_eq!(output.status.code(), Some(42), "{args:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.ends_with(expected), "{args:?}: {said}");
    }
}

#[test]
fn the_path_is_looked_at_when_there_is_none_beside() {
    let cavy = Cavy::new();
    let folder = cavy.path("bin");
    std::fs::create_dir(&folder).expect("a folder");
    stand_in(folder.join("cavy-live"));
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let output = call(&cavy, &path, &["live", "sched"]);
    assert_eq!(output.status.code(), Some(42));
}
