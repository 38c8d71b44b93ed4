//! Endpoints recorded and replayed by the command: to their end, killed, and damaged.

mod cavy_live;

use cavy_live::{call, command, until};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

struct Server {
    child: Child,
    at: String,
}

impl Server {
    fn start(record: &Path) -> Server {
        let record = record.to_string_lossy();
        let args = ["homa", "serve", "--bind", "127.0.0.1:0", "--polling", "block", "--json"];
        let mut command = command(&[&args[..], &["--record", &record]].concat());
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = piped.spawn().expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("where it listens");
        Server { child, at: said["at"].as_str().expect("an address").to_string() }
    }

    fn end(&mut self, signal: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.expect("kill runs").success());
        until("the server has ended", || self.child.try_wait().expect("a child")).code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn echo(at: &str, count: &str, record: &Path) {
    let record = record.to_string_lossy();
    let args = ["homa", "echo", at, "--sizes", "100,50000", "--count", count, "--json"];
    let rest = ["--polling", "block", "--at-most", "1s", "--record", &record];
    let output = call(&[&args[..], &rest].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("recorded "), "{output:?}");
}

/// Exit code, report, and what was said.
fn replay(file: &Path) -> (Option<i32>, Value, String) {
    let output = call(&["replay", &file.to_string_lossy(), "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

fn fact(report: &Value, name: &str) -> String {
    let facts = report["facts"].as_array().expect("facts");
    let value = facts.iter().find(|fact| fact[0] == name).map(|fact| fact[1].clone());
    value.and_then(|value| value.as_str().map(str::to_string)).expect("the fact")
}

#[test]
fn both_ends_replay_to_the_same_digest_and_tell_what_happened() {
    let folder = tempfile::tempdir().expect("a folder");
    let (answers, asks) = (folder.path().join("server.jsonl"), folder.path().join("client.jsonl"));
    let mut server = Server::start(&answers);
    echo(&server.at, "200", &asks);
    assert_eq!(server.end("INT"), Some(0));
    for file in [&answers, &asks] {
        let (code, report, said) = replay(file);
        assert_eq!(code, Some(0), "{said}");
        assert!(fact(&report, "decisions").starts_with("identical (digest "), "{report}");
        let tables = report["figures"][0]["tables"].as_array().expect("tables");
        let ids: Vec<&str> = tables.iter().filter_map(|table| table["id"].as_str()).collect();
        assert_eq!(ids, ["packets", "levels", "waits"]);
    }
    let (_, client, _) = replay(&asks);
    let (_, server, _) = replay(&answers);
    let calls = fact(&client, "calls");
    let count = calls.split(' ').next().expect("a number");
    assert!(calls.contains(&format!("{count} answered")), "{calls}");
    assert!(fact(&server, "questions").starts_with(&format!("{count} came, {count} answered")));
    assert_eq!(fact(&client, "messages that failed"), "none");
    // As text, and as a report.
    let out = folder.path().join("report");
    let output = call(&["replay", &asks.to_string_lossy(), "--out", &out.to_string_lossy()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("call, question to answer") && said.contains("NEED_ACK"), "{said}");
    assert!(out.join("report.html").is_file());
}

#[test]
fn a_server_that_is_killed_leaves_a_recording_that_replays_as_far_as_it_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (answers, asks) = (folder.path().join("server.jsonl"), folder.path().join("client.jsonl"));
    let mut server = Server::start(&answers);
    echo(&server.at, "300", &asks);
    // An endpoint that rests hands over what it has within 50 ms.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(server.end("KILL"), None);
    let (code, report, said) = replay(&answers);
    assert_eq!(code, Some(0), "{said}");
    let decisions = fact(&report, "decisions");
    assert!(decisions.contains("identical in the first") && decisions.contains("cut off"));
    let (_, client, _) = replay(&asks);
    let calls = fact(&client, "calls");
    let count = calls.split(' ').next().expect("a number");
    assert!(fact(&report, "questions").starts_with(&format!("{count} came")), "nothing is missing");

    let text = std::fs::read_to_string(&answers).expect("a file");
    let file = folder.path().join("changed.jsonl");
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        std::fs::write(&file, text.replacen(from, to, 1)).expect("written");
        replay(&file)
    };
    let (code, _, said) = changed("\"data\",0,", "\"data\",1,");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("lines 1 to ") && said.contains("damaged"), "{said}");
    let (code, _, said) = changed("\"homa\"", "\"smtp\"");
    assert!(code == Some(2) && said.contains("line 1") && said.contains("smtp"), "{said}");
    let (code, _, said) = changed("\"cavy_recording\":1", "\"cavy_recording\":7");
    assert!(code == Some(2) && said.contains("format 7") && said.contains("hint:"), "{said}");
}

#[test]
fn a_call_is_recorded_whether_it_is_answered_or_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("call.jsonl");
    let name = file.to_string_lossy();
    let args = ["homa", "call", "127.0.0.1:9", "--bytes", "5", "--deadline", "50ms"];
    let output = call(&[&args[..], &["--record", &name]].concat());
    assert_eq!(output.status.code(), Some(1));
    let (code, report, said) = replay(&file);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fact(&report, "calls"), "1 asked, 0 answered, 1 cancelled");
    let output = call(&[&args[..], &["--record", "/nowhere/at/all"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot record to /nowhere/at/all"));
}
