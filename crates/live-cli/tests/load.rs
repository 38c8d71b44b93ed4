//! The load generator as a command: against our own server, and against no server.

mod cavy_live;

use cavy_live::{Server, call, command};
use serde_json::Value;
use std::net::TcpListener;
use std::process::{Output, Stdio};

/// Calls `load` with more arguments, on a machine that may be busy.
fn load(url: &str, args: &[&str]) -> Output {
    let fixed = ["load", url, "--probe", "0s", "--wait", "sleep", "--timeout", "5s"];
    call(&[&fixed[..], args].concat())
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn both_protocols_are_driven_and_counted() {
    let server = Server::start(&["--workers", "2"]);
    let kinds: [(String, [&str; 4]); 2] = [
        (
            format!("http://{}", server.http),
            ["--type", "get@0.9=/get/key1", "--type", "scan@0.1=GET /scan"],
        ),
        (
            format!("redis://{}", server.resp),
            ["--type", "get@0.9=GET key1", "--type", "scan@0.1=SCAN 0"],
        ),
    ];
    let mut digests = Vec::new();
    for (url, types) in kinds {
        let rest =
            ["--rate", "400", "--duration", "1s", "--seed", "7", "--json", "--force-publish"];
        let output = load(&url, &[&types[..], &rest].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let report = json(&output);
        for kind in report["types"].as_array().expect("a list") {
            assert_eq!(kind["sent"], kind["answered"], "{url}: {kind}");
        }
        let sent = report["sent"].as_u64().expect("a number");
        assert!((320..=480).contains(&sent), "{sent}");
        assert_eq!(report["model"]["name"], "open");
        assert!(report["lateness_us"]["max"].as_f64() > Some(0.0));
        digests.push(report["schedule_digest"].clone());
    }
    assert_eq!(digests[0], digests[1], "both met the same arrivals");
}

#[test]
fn a_stored_schedule_is_met_again() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_string();
    let url = format!("redis://{}", server.resp);
    let (schedule, lines, hlog) = (path("one.schedule"), path("lines.csv"), path("one.hlog"));
    let first = load(
        &url,
        &[
            "--rate",
            "500",
            "--duration",
            "1s",
            "--type",
            "get@3=GET key1",
            "--type",
            "ping=PING",
            "--save-schedule",
            &schedule,
            "--lines",
            &lines,
            "--hlog",
            &hlog,
            "--percentiles",
            &path("p"),
            "--json",
            "--force-publish",
        ],
    );
    let again = load(
        &url,
        &[
            "--schedule",
            &schedule,
            "--type",
            "get=GET key2",
            "--type",
            "ping=PING",
            "--json",
            "--force-publish",
        ],
    );
    let (first, again) = (json(&first), json(&again));
    assert_eq!(first["schedule_digest"], again["schedule_digest"]);
    assert_eq!(first["sent"], again["sent"]);
    let read = |name: &str| std::fs::read_to_string(name).expect("a file");
    assert_eq!(read(&lines).lines().count() as u64, first["sent"].as_u64().expect("a number") + 1);
    assert!(read(&hlog).contains("Tag=get,"));
    assert!(read(&path("p.ping.txt")).contains("#[Mean"));
}

#[test]
fn a_generator_that_was_late_publishes_nothing() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let hlog = folder.path().join("one.hlog");
    let url = format!("redis://{}", server.resp);
    let fixed = ["--rate", "500", "--duration", "1s", "--type", "get=GET key1"];
    // No sleeper wakes within a tenth of 10 ns.
    let strict = ["--shortest-service", "10ns", "--hlog", hlog.to_str().expect("a name")];
    let output = load(&url, &[&fixed[..], &strict].concat());
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("NO PERCENTILES") && text.contains("the generator was late"), "{text}");
    assert!(!text.contains("since due") && !hlog.exists(), "{text}");
    let output = load(&url, &[&fixed[..], &strict, &["--force-publish"]].concat());
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("NOT FOR PUBLICATION") && text.contains("get since due"), "{text}");
    let output = load(&url, &[&fixed[..], &strict, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(3));
    let report = json(&output);
    assert_eq!(report["verdict"], "refused");
    assert_eq!(report["types"][0]["response_us"], Value::Null);
}

#[test]
fn files_are_opened_before_anything_is_sent() {
    let server = Server::start(&[]);
    let url = format!("redis://{}", server.resp);
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing/out").to_str().expect("a name").to_string();
    let there = folder.path().join("out").to_str().expect("a name").to_string();
    let fixed = ["--rate", "100", "--duration", "60s", "--type", "get=GET key1"];
    for files in [
        ["--lines", &missing, "--hlog", &there],
        ["--lines", &there, "--percentiles", &missing],
        ["--hlog", &missing, "--save-schedule", &there],
        ["--lines", &there, "--hlog", &there],
    ] {
        let started = cavy_live::now();
        let output = load(&url, &[&fixed[..], &files].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{files:?}: {said}");
        assert!(said.contains("cannot write") || said.contains("two options write"), "{said}");
        assert!(started.elapsed().as_secs() < 10, "not after the run: {files:?}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(server.stats()["connections"]["connections"], 1, "nobody connected but for this");
}

#[test]
fn a_full_disk_costs_the_files_and_not_the_result() {
    let server = Server::start(&[]);
    let url = format!("redis://{}", server.resp);
    let args = ["--rate", "100", "--duration", "1s", "--type", "get=GET key1", "--json"];
    let output = load(&url, &[&args[..], &["--lines", "/dev/full"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write /dev/full"));
    assert!(json(&output)["sent"].as_u64() > Some(50), "the result is shown all the same");
}

#[test]
fn a_run_that_mostly_failed_says_why_and_does_not_end_well() {
    let server = Server::start(&[]);
    let url = format!("http://{}", server.http);
    let args = ["--rate", "200", "--duration", "1s", "--force-publish"];
    let types = ["--type", "get@0.8=/get/key1", "--type", "wrong@0.2=/get/no-such-key"];
    let all = [&args[..], &types].concat();
    let output = load(&url, &all);
    let (said, shown) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "one type of two failed: {said}");
    assert!(said.contains("of type wrong 0 were answered"), "{said}");
    assert!(said.contains("a p99 takes 10000 of a type"), "{said}");
    assert!(shown.contains("x 404 Not Found: {\"error\":\"no such key\"}"), "{shown}");
    let report = json(&load(&url, &[&all[..], &["--json"]].concat()));
    let wrong = &report["types"][1];
    assert_eq!(wrong["complaints"][0]["outcome"], "server_error", "{wrong}");
    assert_eq!(wrong["complaints"][0]["count"], wrong["sent"], "{wrong}");
    // A wrong port: the other door of the same server, in both directions.
    for (url, kind, words) in [
        (format!("http://{}", server.resp), "a=/get/key1", "no HTTP: `-ERR"),
        (format!("redis://{}", server.http), "a=GET key1", "no RESP: `HTTP/1.1 400"),
    ] {
        let output = load(&url, &[&args[..], &["--type", kind]].concat());
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{shown}");
        assert!(shown.contains(words), "{shown}");
    }
}

#[test]
fn expectations_decide_the_exit_code_and_a_page_shows_the_run() {
    let server = Server::start(&["--workers", "2"]);
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("run.html");
    let url = format!("http://{}", server.http);
    let fixed = ["--rate", "400", "--duration", "2s", "--force-publish", "--header", "x-run: 7"];
    let types = ["--type", "get@0.9=/get/key1", "--type", "scan@0.1=GET /scan"];
    let met = ["--expect", "p50 <= 60s for get", "--expect", "answered_ratio >= 100%"];
    let seen = ["--html", page.to_str().expect("a name"), "--progress"];
    let output = load(&url, &[&fixed[..], &types, &met, &seen].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said.contains(" of 2 s: ") && said.contains("requests sent, "), "{said}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("expected p50 <= 60s for get: met, get has "), "{shown}");
    let page = std::fs::read_to_string(&page).expect("a page");
    for part in ["The slowest of how many", "Median over time", "What was expected", &url] {
        assert!(page.contains(part), "{part}");
    }
    // One that is missed, and one that 80 requests cannot tell.
    let missed = ["--expect", "p50_us <= 0.001", "--expect", "p99 <= 60s for scan"];
    let output = load(&url, &[&fixed[..], &types, &missed, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: expected p50_us <= 0.001: MISSED, get has "), "{said}");
    assert!(said.contains("CANNOT BE TOLD, scan has no figure"), "{said}");
    let judged = &json(&output)["expectations"];
    assert_eq!((&judged[0]["holds"], &judged[1]["holds"]), (&false.into(), &Value::Null));
    // What is wrong is said before anything is sent.
    for (wrong, why) in [
        (["--expect", "p98_us <= 4"], "`p98_us` is not measured"),
        (["--expect", "p99 <= 4ms for gte"], "unknown type `gte`"),
        (["--header", "Content-Length: 3"], "cannot be given"),
    ] {
        let output = load(&url, &[&fixed[..], &types, &wrong].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
}

#[test]
fn the_closed_model_is_labelled() {
    let server = Server::start(&["--workers", "2", "--sleep-service", "only=5ms"]);
    let url = format!("http://{}", server.http);
    let args = ["--closed", "2", "--rate", "100", "--duration", "1s", "--type", "only=/timed/only"];
    let output = load(&url, &args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("CLOSED model, 2 clients"), "{text}");
    let report = json(&load(&url, &[&args[..], &["--json"]].concat()));
    assert_eq!(report["model"]["name"], "closed");
    // Two clients of at least 5 ms each.
    let sent = report["sent"].as_u64().expect("a number");
    assert!((50..=420).contains(&sent), "{sent}");
}

#[test]
fn refusals_of_the_server_are_counted_apart() {
    let server = Server::start(&[
        "--workers",
        "1",
        "--queue-limit",
        "1",
        "--policy",
        "c-fcfs",
        "--sleep-service",
        "only=50ms",
    ]);
    let url = format!("redis://{}", server.resp);
    let args = ["--rate", "200", "--duration", "1s", "--type", "only=TIMED only", "--json"];
    let report = json(&load(&url, &[&args[..], &["--force-publish"]].concat()));
    let only = &report["types"][0];
    let number = |field: &str| only[field].as_u64().expect("a number");
    assert!((5..=40).contains(&number("answered")), "{only}");
    assert_eq!(number("answered") + number("overloaded"), number("sent"), "{only}");
}

#[test]
fn an_interrupted_run_says_what_it_has() {
    let server = Server::start(&[]);
    let url = format!("redis://{}", server.resp);
    let mut child = command(&[
        "load",
        &url,
        "--rate",
        "100",
        "--duration",
        "60s",
        "--probe",
        "0s",
        "--type",
        "p=PING",
        "--json",
        "--force-publish",
    ]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    cavy_live::until("it sends", || {
        (server.stats()["connections"]["connections"].as_u64() >= Some(60)).then_some(())
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "INT", &id]).status().is_ok());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let report = json(&output);
    assert_eq!(report["interrupted"], true);
    assert!(report["sent"].as_u64() < Some(6_000));
}

#[test]
fn nobody_there_is_said_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    drop(listener);
    let output = load(&format!("http://{at}"), &["--rate", "10", "--type", "a=/"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot connect to") && said.contains("hint: is the server"), "{said}");
}

/// Clients of others, where they are installed; their absence is said and fails nothing.
#[test]
fn foreign_clients_work_unmodified() {
    let server = Server::start(&["--workers", "2"]);
    let port = server.resp.port().to_string();
    let http = format!("http://{}/get/key1", server.http);
    let calls: [(&str, &[&str], &str); 6] = [
        ("redis-cli", &["-p", &port, "GET", "key1"], "value"),
        ("redis-cli", &["-p", &port, "--scan"], "key4999"),
        ("redis-cli", &["-p", &port, "INFO"], "cavy_version"),
        (
            "redis-benchmark",
            &["-p", &port, "-t", "ping,get,set", "-n", "2000", "-c", "8", "-q"],
            "requests per second",
        ),
        ("ab", &["-n", "500", "-c", "4", "-k", &http], "Failed requests:        0"),
        ("wrk", &["-d", "1s", "-c", "4", "-t", "1", &http], "Requests/sec"),
    ];
    for (program, args, expected) in calls {
        let Ok(output) = std::process::Command::new(program).args(args).output() else {
            println!("SKIPPED: {program} is not installed");
            continue;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(expected), "{program} {args:?}: {said}");
        assert!(!said.contains("Non-2xx"), "{program}: {said}");
    }
}
