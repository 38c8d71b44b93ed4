//! Homa as a command: server, client and load as processes of their own.

mod cavy_live;

use cavy_live::{call, command, until};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::time::Duration;

/// `cavy-live homa serve` on a free port, which ends with the test.
struct Homa {
    child: Child,
    stdout: BufReader<ChildStdout>,
    at: String,
}

impl Homa {
    fn start(args: &[&str]) -> Homa {
        let fixed = ["homa", "serve", "--bind", "127.0.0.1:0", "--polling", "block", "--json"];
        let mut command = command(&[&fixed[..], args].concat());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("where it listens");
        let at = said["at"].as_str().expect("an address").to_string();
        Homa { child, stdout, at }
    }

    fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Ctrl-C: how it ended, and what it says that it did.
    fn end(mut self) -> (ExitStatus, Value) {
        self.signal("INT");
        let status = until("the server has ended", || self.child.try_wait().expect("a child"));
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).expect("text");
        (status, serde_json::from_str(&said).expect("one object"))
    }
}

impl Drop for Homa {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-s", name, &id]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_file_is_asked_and_comes_back() {
    let server = Homa::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("question.json");
    let question: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&file, &question).expect("written");
    let output = call(&["homa", "call", &server.at, "--file", file.to_str().expect("a name")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout == question);
    let mut child = command(&["homa", "call", &server.at, "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"hello").expect("written");
    assert_eq!(child.wait_with_output().expect("it ends").stdout, b"hello");
    // The client ended before it was asked for an acknowledgement: its answer is kept for 10 s.
    std::thread::sleep(Duration::from_secs(13));
    let (status, said) = server.end();
    assert_eq!(status.code(), Some(0));
    assert_eq!((said["questions"].as_u64(), said["refused"].as_u64()), (Some(2), Some(0)));
    assert_eq!(said["exchanges_left"], 0, "{said}");
    assert_eq!(said["messages_left"], 0, "{said}");
}

#[test]
fn answers_of_a_fixed_length_and_another_port() {
    let server = Homa::start(&["--answer-bytes", "50000", "--port", "7"]);
    let args = ["homa", "call", &server.at, "--bytes", "10", "--json", "--port", "7"];
    let output = call(&args);
    let said: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(
        (said["question_bytes"].as_u64(), said["answer_bytes"].as_u64()),
        (Some(10), Some(50_000))
    );
    assert!(said["took_us"].as_f64() > Some(1.0));
    // At the port that nobody serves: an error, within about a second, that says what to look at.
    let output = call(&args[..args.len() - 2]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the server is silent") && said.contains("hint:"), "{said}");
}

#[test]
fn echo_gives_a_line_for_each_size() {
    let server = Homa::start(&[]);
    for address in [Some(server.at.as_str()), None] {
        let mut args = vec!["homa", "echo", "--sizes", "1,100,20000", "--count", "50", "--json"];
        args.extend(["--polling", "block", "--levels", "2", "--at-most", "1s"]);
        args.extend(address);
        let output = call(&args);
        let said: Value = serde_json::from_slice(&output.stdout).expect("a list");
        let lines = said.as_array().expect("a list");
        assert_eq!(lines.len(), 3, "{said}");
        for line in lines {
            let us = |name: &str| line[name].as_f64().expect("a number");
            assert!(1.0 < us("min_us") && us("min_us") <= us("p50_us"), "{line}");
            assert!(us("p50_us") <= us("p99_us") && us("at_once_per_s") > 1.0, "{line}");
        }
    }
}

#[test]
fn load_is_open_and_accounts_for_each_call() {
    let server = Homa::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_string();
    let (hlog, lines) = (path("one.hlog"), path("lines.csv"));
    let url = format!("homa://{}", server.at);
    let fixed = ["load", &url, "--probe", "0s", "--wait", "sleep", "--json", "--force-publish"];
    let rest = [
        "--rate",
        "400",
        "--duration",
        "1s",
        "--seed",
        "7",
        "--type",
        "small@0.9=100",
        "--type",
        "large@0.1=50000",
        "--hlog",
        &hlog,
        "--lines",
        &lines,
        "--senders",
        "2",
        "--polling",
        "block",
    ];
    let output = call(&[&fixed[..], &rest].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("an object");
    for kind in report["types"].as_array().expect("a list") {
        assert_eq!(kind["sent"], kind["answered"], "{kind}");
    }
    assert_eq!(report["model"]["name"], "open");
    assert!(report["lateness_us"]["max"].as_f64() > Some(0.0));
    let read = |name: &str| std::fs::read_to_string(name).expect("a file");
    let sent = report["sent"].as_u64().expect("a number");
    assert!((320..=480).contains(&sent), "{sent}");
    assert_eq!(read(&lines).lines().count() as u64, sent + 1);
    assert!(read(&hlog).contains("Tag=small,") && read(&hlog).contains("Tag=large,"));
    let (_, said) = server.end();
    assert_eq!(said["questions"].as_u64(), Some(sent));
}

#[test]
fn an_overloaded_server_refuses_and_load_counts_it() {
    // A hundredth of what is asked for can be done, and two questions may wait.
    let server = Homa::start(&["--service", "100ms", "--queue-limit", "2"]);
    let url = format!("homa://{}", server.at);
    let output = call(&[
        "load",
        &url,
        "--probe",
        "0s",
        "--wait",
        "sleep",
        "--json",
        "--force-publish",
        "--rate",
        "200",
        "--duration",
        "1s",
        "--type",
        "any=100",
        "--timeout",
        "8s",
    ]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let any = &report["types"][0];
    let number = |field: &str| any[field].as_u64().expect("a number");
    assert!((3..=40).contains(&number("answered")), "{any}");
    assert_eq!(number("answered") + number("overloaded"), number("sent"), "{any}");
    let (_, said) = server.end();
    assert_eq!(said["questions"].as_u64(), Some(number("answered")), "{said}");
    assert!(said["refused"].as_u64() > Some(100), "{said}");
}

#[test]
fn a_client_killed_in_the_middle_leaves_nothing_behind() {
    // The service takes longer than the client lives; its answer finds nobody.
    let server =
        Homa::start(&["--service", "1500ms", "--workers", "4", "--answer-bytes", "200000"]);
    let mut clients: Vec<Child> = (0..3)
        .map(|_| {
            let mut client = command(&["homa", "call", &server.at, "--bytes", "30000"]);
            client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
        })
        .collect();
    std::thread::sleep(Duration::from_millis(700));
    for client in &mut clients {
        signal(client, "KILL");
        let _ = client.wait();
    }
    // Others are served meanwhile.
    let output = call(&["homa", "call", &server.at, "--deadline", "15s", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // Answers that nobody takes are given up after 10 s of silence and what it takes to see it.
    std::thread::sleep(Duration::from_secs(14));
    let (status, said) = server.end();
    assert_eq!(status.code(), Some(0));
    assert_eq!(said["questions"], 4, "{said}");
    assert_eq!((&said["exchanges_left"], &said["messages_left"]), (&0.into(), &0.into()), "{said}");
}

#[test]
fn ctrl_c_lets_an_answer_under_way_arrive() {
    let server = Homa::start(&["--service", "500ms", "--drain", "10s"]);
    let at = server.at.clone();
    let mut asking = command(&["homa", "call", &at, "--deadline", "15s", "--json"]);
    let child = asking.stdout(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(300));
    let (status, said) = server.end();
    assert_eq!((status.code(), &said["questions"]), (Some(0), &1.into()), "{said}");
    assert_eq!(child.wait_with_output().expect("it ends").status.code(), Some(0));
}

#[test]
fn with_a_key_only_those_who_have_it_are_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = |name: &str, digit: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, format!("{}\n", digit.repeat(64))).expect("written");
        file.to_str().expect("a name").to_string()
    };
    let (right, wrong) = (key("right", "7"), key("wrong", "8"));
    let server = Homa::start(&["--key-file", &right]);
    let ask = |more: &[&str]| {
        let args = ["homa", "call", &server.at, "--json", "--bytes", "20000", "--deadline", "2s"];
        call(&[&args[..], more].concat()).status.code()
    };
    assert_eq!(ask(&["--key-file", &right]), Some(0));
    assert_eq!(ask(&["--key-file", &wrong]), Some(1));
    assert_eq!(ask(&[]), Some(1));
    let (_, said) = server.end();
    assert_eq!(said["questions"], 1, "{said}");
    assert!(said["unauthentic"].as_u64() > Some(1), "{said}");
}

/// A client that uses another port or key hears nothing, so the server must say what came.
#[test]
fn a_server_says_that_clients_name_another_port_or_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = |name: &str, digit: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, digit.repeat(64)).expect("a key");
        file.to_str().expect("a name").to_string()
    };
    let (mine, other) = (key("mine", "3"), key("other", "4"));
    let plain: &[&str] = &[];
    for (serve, ask, words) in [
        (plain, &["--port", "98"][..], "another port than 99"),
        (&["--key-file", &mine][..], &["--key-file", &other][..], "not sealed with this key"),
        (&["--key-file", &mine][..], plain, "packets come that are not"),
        (plain, &["--key-file", &mine][..], "packets come that are not Homa's"),
    ] {
        let fixed = ["homa", "serve", "--bind", "127.0.0.1:0", "--polling", "block", "--json"];
        let mut child = command(&[&fixed[..], serve].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("where it listens");
        let at = said["at"].as_str().expect("an address");
        let call = call(&[&["homa", "call", at, "--deadline", "300ms"][..], ask].concat());
        assert_eq!(call.status.code(), Some(1), "{call:?}");
        // It looks twice a second.
        std::thread::sleep(Duration::from_millis(1_200));
        signal(&child, "INT");
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(words), "{serve:?} {ask:?}: {said}");
    }
}
