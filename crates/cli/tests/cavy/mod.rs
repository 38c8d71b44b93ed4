//! The built command in a folder of its own, for tests that watch it from outside.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder that goes away, and the command in it.
pub struct Cavy {
    folder: tempfile::TempDir,
}

#[allow(dead_code, reason = "each file of tests uses its part")]
impl Cavy {
    /// The command in an empty folder.
    pub fn new() -> Self {
        Cavy { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// The command beside a small plan, `plan.toml`.
    pub fn with_plan() -> Self {
        let cavy = Cavy::new();
        cavy.write("plan.toml", PLAN);
        cavy
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in the folder.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let file = self.path(name);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).expect("a folder in the temporary folder");
        }
        std::fs::write(file, bytes).expect("a file in the temporary folder");
    }

    /// A call of the command.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cavy"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_remove("NO_COLOR").env("COLUMNS", "100");
        command
    }

    /// Calls the command to its end.
    pub fn call(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the command starts")
    }

    /// Calls the command, which must succeed, and reads the object that it prints.
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let output = self.call(args);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?} ended with {:?}: {talk}", output.status);
        serde_json::from_slice(&output.stdout).expect("one JSON object on stdout")
    }

    /// What a reader sees of each call: the call, its exit code, stdout and stderr.
    pub fn transcript(&self, calls: &[&[&str]]) -> String {
        let mut text = String::new();
        for args in calls {
            let output = self.call(args);
            let code = output.status.code().map_or("a signal".to_string(), |c| c.to_string());
            let _ = writeln!(text, "$ cavy {}", args.join(" "));
            text.push_str(&String::from_utf8_lossy(&output.stdout));
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            let _ = writeln!(text, "[exit {code}]\n");
        }
        text
    }

    /// Files of a folder, the command's own lock left out.
    pub fn files(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = read(&self.path(folder));
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }
}

fn read(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Two types, two policies, four loads, small.
pub const PLAN: &str = r#"kind = "server"
title = "Small"
workers = 4
objectives = ["p99_slowdown <= 10"]

[[types]]
name = "get"
share = 0.9
service = { dist = "exponential", mean_us = 10 }

[[types]]
name = "scan"
share = 0.1
service = { dist = "constant", us = 100 }

[[policies]]
policy = "c_fcfs"

[[policies]]
policy = "darc"
window = 1000

[sweep]
load = [0.2, 0.4, 0.6, 0.8]

[run]
requests = 20_000
replications = 2
"#;
