//! What the command says: help that teaches, and mistakes with their cures.

mod cavy_live;

use cavy_live::call;
use std::fmt::Write as _;

fn transcript(calls: &[&[&str]]) -> String {
    let mut text = String::new();
    for args in calls {
        let output = call(args);
        let code = output.status.code().map_or("a signal".to_string(), |code| code.to_string());
        let _ = writeln!(text, "$ cavy-live {}", args.join(" "));
        text.push_str(&String::from_utf8_lossy(&output.stdout));
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let _ = writeln!(text, "[exit {code}]\n");
    }
    text
}

/// All must fail with 2, say `error:` once, and not panic.
fn check(name: &str, calls: &[&[&str]]) {
    for args in calls {
        let output = call(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.matches("error:").count(), 1, "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"may use, \[[0-9, ]+\]", "may use, [CORES]");
    settings.bind(|| insta::assert_snapshot!(name, transcript(calls)));
}

#[test]
fn help_teaches() {
    let calls: [&[&str]; 12] = [
        &["--help"],
        &["sched", "--help"],
        &["load", "--help"],
        &["study", "--help"],
        &["replay", "--help"],
        &["homa", "--help"],
        &["homa", "serve", "--help"],
        &["homa", "call", "--help"],
        &["homa", "echo", "--help"],
        &["doctor", "--help"],
        &["testbed", "--help"],
        &["testbed", "up", "--help"],
    ];
    insta::assert_snapshot!("help", transcript(&calls));
}

#[test]
fn mistakes_about_a_server() {
    let store = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert_eq!(call(&["sched", "--store", store]).status.code(), Some(2), "not a store");
    check(
        "server",
        &[
            &["sched", "--policy", "fifo"],
            &["sched", "--workers", "0"],
            &["sched", "--http", "8080"],
            &["sched", "--http", "off", "--resp", "off"],
            &["sched", "--http", "203.0.113.1:80", "--resp", "off"],
            &["sched", "--pin", "4096"],
            &["sched", "--policy", "darc-static", "--workers", "2", "--reserved", "2"],
            &["sched", "--policy", "c-fcfs", "--window", "10"],
            &["sched", "--sleep-service", "short"],
            &["sched", "--sleep-service", "short=1"],
            &["sched", "--sleep-service", "short=61s"],
            &["sched", "--sleep-service", "a=1ms", "--sleep-service", "a=2ms"],
            &["sched", "--sleep-service", "a=1ms", "--store", "x"],
            &["sched", "--patience", "0s"],
        ],
    );
}

#[test]
fn mistakes_about_load() {
    let url = "http://127.0.0.1:1";
    check(
        "load",
        &[
            &["load", url, "--type", "a=/"],
            &["load", url, "--rate", "10"],
            &["load", url, "--rate", "-5", "--type", "a=/"],
            &["load", url, "--rate", "10", "--type", "a"],
            &["load", url, "--rate", "10", "--type", "a@0=/"],
            &["load", url, "--rate", "10", "--type", "a b=/"],
            &["load", url, "--rate", "10", "--type", "a=/", "--type", "a=/b"],
            &["load", url, "--rate", "10", "--type", "a=path"],
            &["load", url, "--rate", "10", "--type", "a=get /x"],
            &["load", "redis://127.0.0.1:1", "--rate", "10", "--type", "a="],
            &["load", "127.0.0.1:1", "--rate", "10", "--type", "a=/"],
            &["load", "https://127.0.0.1:1", "--rate", "10", "--type", "a=/"],
            &["load", "ftp://127.0.0.1:1", "--rate", "10", "--type", "a=/"],
            &["load", "http://127.0.0.1:1/path", "--rate", "10", "--type", "a=/"],
            &["load", url, "--rate", "10", "--type", "a=/", "--duration", "10"],
            &["load", url, "--rate", "1000000", "--type", "a=/", "--duration", "1h"],
            &["load", url, "--rate", "0.001", "--type", "a=/", "--duration", "1ms"],
            &["load", url, "--rate", "10", "--type", "a=/", "--warmup", "1h"],
            &["load", url, "--rate", "10", "--type", "a=/", "--pipeline", "2"],
            &["load", url, "--rate", "10", "--type", "a=/", "--senders", "9", "-c", "8"],
            &["load", url, "--rate", "10", "--type", "a=/", "--closed", "1", "--senders", "2"],
            &["load", url, "--rate", "10", "--type", "a=/", "--link-mbps", "100"],
            &["load", "homa://127.0.0.1:1", "--rate", "10", "--type", "a=/"],
            &["load", "homa://127.0.0.1:1", "--rate", "10", "--type", "a=1000001"],
            &["load", "homa://127.0.0.1:1", "--rate", "10", "--type", "a=9", "--pipeline", "2"],
            &["load", url, "--schedule", "nothing", "--type", "a=/"],
            &["load", url, "--schedule", "x", "--rate", "1", "--type", "a=/"],
        ],
    );
}

#[test]
fn mistakes_about_homa() {
    let at = "127.0.0.1:1";
    check(
        "homa",
        &[
            &["homa", "serve", "--bind", "7000"],
            &["homa", "serve", "--port", "32768"],
            &["homa", "serve", "--link-mbps", "0"],
            &["homa", "serve", "--levels", "9"],
            &["homa", "serve", "--echo", "--answer-bytes", "10"],
            &["homa", "serve", "--answer-bytes", "1000001"],
            &["homa", "serve", "--service", "1"],
            &["homa", "serve", "--service", "2min"],
            &["homa", "serve", "--workers", "2"],
            &["homa", "serve", "--queue-limit", "0"],
            &["homa", "serve", "--drain", "0s"],
            &["homa", "serve", "--raw", "--bind", "[::1]:0"],
            &["homa", "serve", "--key-file", "no-such-file"],
            &["homa", "serve", "--key-file", "/dev/null"],
            &["homa", "call"],
            &["homa", "call", "localhost"],
            &["homa", "call", at, "--bytes", "0"],
            &["homa", "call", at, "--bytes", "5", "--file", "x"],
            &["homa", "call", at, "--file", "no-such-file"],
            &["homa", "call", at, "--file", "/dev/null"],
            &["homa", "call", at, "--file", "/dev/zero"],
            &["homa", "call", "[::1]:1", "--raw"],
            &["homa", "call", at, "--deadline", "5"],
            &["homa", "echo", "--sizes", "0"],
            &["homa", "echo", "--sizes", "10,x"],
            &["homa", "echo", "--count", "1"],
            &["homa", "echo", "--at-once", "0"],
        ],
    );
}
