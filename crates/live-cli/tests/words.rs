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

/// The commands of a text, each on one line.
fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.trim().trim_start_matches("target/release/"));
    let load = |line: &&str| line.starts_with("cavy load ") || line.starts_with("cavy-live load ");
    lines.filter(load).map(str::to_string).collect()
}

/// The value after an option.
fn value<'a>(words: &[&'a str], option: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == option)?;
    words.get(at + 1).copied()
}

fn seconds(span: &str) -> f64 {
    let digits = span.trim_end_matches(char::is_alphabetic);
    let unit = match &span[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        other => panic!("unit {other}"),
    };
    digits.parse::<f64>().expect("a number") * unit
}

/// What a reader copies must give what it shows: a p99 takes 10,000 requests of each type.
#[test]
fn examples_send_enough_for_a_p99_of_every_type() {
    let guides = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides");
    let mut texts: Vec<String> = [&["--help"][..], &["load", "--help"]]
        .map(|args| String::from_utf8_lossy(&call(args).stdout).into_owned())
        .to_vec();
    for guide in std::fs::read_dir(guides).expect("guides").flatten() {
        texts.push(std::fs::read_to_string(guide.path()).expect("a guide"));
    }
    let mut seen = 0;
    for line in texts.iter().flat_map(|text| commands(text)) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // A stored schedule is as long as the command that stored it.
        let Some(rate) = value(&words, "--rate") else { continue };
        let length = seconds(value(&words, "--duration").unwrap_or("10s"))
            - seconds(value(&words, "--warmup").unwrap_or("0s"));
        let shares = words.iter().zip(&words[1..]).filter(|(word, _)| **word == "--type");
        let shares: Vec<f64> = shares
            .map(|(_, kind)| kind.split_once('=').expect("a type").0)
            .map(|name| {
                name.split_once('@').map_or(1.0, |(_, share)| share.parse().expect("a share"))
            })
            .collect();
        let all: f64 = shares.iter().sum();
        for share in shares {
            let mean = rate.parse::<f64>().expect("a rate") * length * share / all;
            assert!(mean - 3.0 * mean.sqrt() >= 10_000.0, "{mean} requests: {line}");
            seen += 1;
        }
    }
    assert!(seen >= 12, "only {seen} types of examples were found");
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
            &["load", "http://127.0.0.1:1", "--rate", "10", "--type", "a=/", "--insecure"],
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
