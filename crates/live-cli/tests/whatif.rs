//! `cavy-live whatif` from outside: nobody stays frozen, and what must not be stopped is refused.
//!
//! Needs root, cgroup v2 and performance events; where they are missing it says SKIPPED.

mod cavy_live;

use cavy_live::{Server, call, command, now, until};
use std::io::Read as _;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One Governor at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> Option<MutexGuard<'static, ()>> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(&["--workers", "1"]);
    let service = format!("--service=s=pid:{}", server.id());
    let checked = call(&["whatif", "check", &service]);
    if checked.status.success() {
        return Some(guard);
    }
    println!("SKIPPED: {}", String::from_utf8_lossy(&checked.stderr));
    None
}

/// A ranking of two servers that runs for minutes.
fn start(one: &Server, other: &Server) -> Child {
    let services =
        [format!("--service=one=pid:{}", one.id()), format!("--service=other=pid:{}", other.id())];
    let load = format!("--load=http://{}/get/key1", one.http);
    let args =
        ["whatif", &services[0], &services[1], &load, "--rounds=50", "--clients=8", "--faster=60%"];
    let mut command = command(&args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")
}

fn group_of(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix("0::")).expect("cgroup v2");
    line.to_string()
}

/// Waits until the server is on the stage.
fn until_staged(server: &Server) {
    until("the server is taken over", || {
        group_of(server.id()).contains("cavy-whatif").then_some(())
    });
}

/// Waits until the server is where it came from and answers; how long that took.
fn until_free(server: &Server, home: &str) -> Duration {
    let begun = now();
    while group_of(server.id()) != home {
        assert!(begun.elapsed() < Duration::from_secs(10), "still in {}", group_of(server.id()));
        std::thread::sleep(Duration::from_millis(1));
    }
    let took = begun.elapsed();
    let (status, _) = server.ask("GET /get/key1", "");
    assert_eq!(status, 200, "it answers again");
    took
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-s", name, &id]).status();
    assert!(sent.expect("kill runs").success());
}

/// `CAVY_KILLS=300 cargo test -p cavy-live-cli --test whatif killed -- --nocapture` for the table.
#[test]
fn a_killed_governor_leaves_nobody_standing() {
    let Some(_alone) = alone() else { return };
    let kills = std::env::var_os("CAVY_KILLS").and_then(|text| text.to_str()?.parse().ok());
    let kills: u32 = kills.unwrap_or(6);
    let (one, other) = (Server::start(&["--workers", "1"]), Server::start(&["--workers", "1"]));
    let home = group_of(one.id());
    let mut longest = Duration::ZERO;
    for kill in 0..kills {
        let mut governor = start(&one, &other);
        until_staged(&other);
        // Pauses begin after the first baseline; where in them it dies is drawn by the machine.
        std::thread::sleep(Duration::from_millis(400 + u64::from(kill * 7919 % 2_300)));
        governor.kill().expect("it runs");
        governor.wait().expect("it ends");
        longest = longest.max(until_free(&one, &home)).max(until_free(&other, &home));
    }
    println!("{kills} kills, all free again after at most {longest:?}");
    assert!(longest < Duration::from_secs(2), "the guard took {longest:?}");
}

#[test]
fn a_stopped_governor_cannot_hold_anybody() {
    let Some(_alone) = alone() else { return };
    let (one, other) = (Server::start(&["--workers", "1"]), Server::start(&["--workers", "1"]));
    let home = group_of(one.id());
    let mut governor = start(&one, &other);
    until_staged(&other);
    std::thread::sleep(Duration::from_millis(1_700));
    signal(&governor, "STOP");
    std::thread::sleep(Duration::from_millis(600));
    for server in [&one, &other] {
        assert_eq!(server.ask("GET /get/key1", "").0, 200, "its lease has ended");
    }
    signal(&governor, "CONT");
    signal(&governor, "INT");
    let status = governor.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    until_free(&one, &home);
    until_free(&other, &home);
}

#[test]
fn without_its_guard_a_governor_stops_nobody() {
    let Some(_alone) = alone() else { return };
    let (one, other) = (Server::start(&["--workers", "1"]), Server::start(&["--workers", "1"]));
    let home = group_of(one.id());
    let mut governor = start(&one, &other);
    until_staged(&other);
    let children = format!("/proc/{0}/task/{0}/children", governor.id());
    let guard = until("the guard is there", || {
        std::fs::read_to_string(&children).ok()?.split_whitespace().next().map(str::to_string)
    });
    let sent = std::process::Command::new("kill").args(["-s", "KILL", &guard]).status();
    assert!(sent.expect("kill runs").success());
    let status = governor.wait().expect("it ends at its next pause");
    assert_eq!(status.code(), Some(1));
    let mut said = String::new();
    governor.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(said.contains("the guard is gone"), "{said}");
    until_free(&one, &home);
    until_free(&other, &home);
}

#[test]
fn a_second_governor_is_refused_and_an_interrupted_one_says_what_it_has() {
    let Some(_alone) = alone() else { return };
    let (one, other) = (Server::start(&["--workers", "1"]), Server::start(&["--workers", "1"]));
    let mut first = start(&one, &other);
    until_staged(&other);
    let second = call(&[
        "whatif",
        &format!("--service=x=pid:{}", one.id()),
        &format!("--load=http://{}/get/key1", one.http),
    ]);
    let said = String::from_utf8_lossy(&second.stderr).to_string();
    assert!(second.status.code() == Some(2) && said.contains("another"), "{said}");
    signal(&first, "INT");
    assert_eq!(first.wait().expect("it ends").code(), Some(130));
    let mut out = String::new();
    first.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    assert!(out.contains("interrupted"), "{out}");
}

#[test]
fn what_must_not_be_stopped_is_refused_with_a_reason() {
    let own = std::process::id();
    for (args, why) in [
        (vec!["whatif"], "no service is named"),
        (vec!["whatif", "--service=a=pid:1"], "no client would send"),
        (vec!["whatif", "check", "--service=a=pid:1"], "first process"),
        (vec!["whatif", "check", "--service=a=pid:999999999"], "no such process"),
        (vec!["whatif", "check", "--service=a=port:1"], "nobody listens"),
        (vec!["whatif", "check", "--service=a=cgroup:/nowhere"], "no control group"),
        (vec!["whatif", "--service=a=pid:2", "--load=ftp://x/"], "only http://"),
        (vec!["whatif", "--service=a=80", "--load=http://127.0.0.1/"], "port:8080"),
        (
            vec!["whatif", "--service=a=pid:2", "--load=http://127.0.0.1/", "--target=b"],
            "there is no such service",
        ),
        (
            vec!["whatif", "--service=a=pid:2", "--load=http://127.0.0.1/", "--rule=count"],
            "what a visit saves",
        ),
        (vec!["whatif", "--service=a=pid:2", "--until=0%"], "0.1% to 50%"),
        (vec!["whatif", "--service=a=pid:2", "--driver=a=pid:3", "--edge=80"], "of its own"),
        (vec!["whatif", "--service=a=pid:2", "--driver=b=pid:3"], "--edge PORT"),
        (vec!["whatif", "--service=a=pid:2", "--driver=b=pid:3", "--rate=5"], "cannot be used"),
        (
            vec![
                "whatif",
                "--service=a=pid:2",
                "--load=http://127.0.0.1/",
                "--target=a",
                "--less=1ms@/x",
            ],
            "clients send no request /x",
        ),
        (vec!["whatif", "--service=a=pid:2", "--target=a", "--cores=2:1"], "more than FROM"),
        (vec!["whatif", "--service=a=pid:2", "--replicas=1:2"], "--target"),
        (vec!["whatif", "--service=a=pid:2", "--think=1s", "--rate=5"], "cannot be used"),
        (
            vec![
                "whatif",
                "--service=a=pid:2",
                "--load=http://127.0.0.1/",
                "--target=a",
                "--together",
            ],
            "2 to 4 services",
        ),
    ] {
        let output = call(&args);
        let said = String::from_utf8_lossy(&output.stderr).to_string();
        assert!(output.status.code() == Some(2) && said.contains(why), "{args:?}: {said}");
    }
    let output = call(&["whatif", "check", &format!("--service=a=pid:{own}")]);
    let said = String::from_utf8_lossy(&output.stderr).to_string();
    assert!(said.contains("ancestor"), "{said}");
}

/// What a short measurement with these words prints.
fn measured(one: &Server, other: &Server, words: &[&str]) -> String {
    let services =
        [format!("--service=one=pid:{}", one.id()), format!("--service=other=pid:{}", other.id())];
    let load = format!("--load=http://{}/get/key1", one.http);
    let short = ["--rounds=2", "--window=150ms", "--settle=20ms", "--clients=8", "--no-control"];
    let args = ["whatif", &services[0], &services[1], &load];
    let output = call(&[&args[..], &short, words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn changes_are_asked_for_by_what_a_user_would_do() {
    let Some(_alone) = alone() else { return };
    let (one, other) = (Server::start(&["--workers", "1"]), Server::start(&["--workers", "1"]));
    let of = |words: &[&str]| measured(&one, &other, words);
    let said = of(&["--target=one", "--replicas=2:3"]);
    assert!(said.contains("one with 3 replicas for 2") && said.contains("33.3 %"), "{said}");
    assert!(of(&["--target=one", "--cores=1:2"]).contains("each service 50 % faster"));
    let said = of(&["--target=one", "--lock=5us"]);
    assert!(said.contains("holds a lock 5 us less"), "{said}");
    let said = of(&["--target=one", "--target=other", "--together", "--json"]);
    let both: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let rows = both["rows"].as_array().expect("rows");
    assert!(rows.len() == 1 && rows[0]["service"] == "one+other", "{said}");
    assert!(rows[0]["paused_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{said}");
    // Half of the requests save 20 us: as much as if all saved 10.
    let said = of(&[
        "--target=one",
        "--request=/get/key1",
        "--request=/get/key2",
        "--less=20us@/get/key2",
        "--json",
    ]);
    let half: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let (share, us) = (&half["faster_percent"], &half["rows"][0]["cpu_us_per_request"]);
    let saved_us = share.as_f64().expect("a share") / 100.0 * us.as_f64().expect("a time");
    assert!((3.0..30.0).contains(&saved_us), "{said}");
    // Requests that arrive wait for pauses on the wall, and not in virtual time.
    let rate = ["--target=one", "--rate=2000", "--faster=60%", "--json"];
    let open: serde_json::Value = serde_json::from_str(&of(&rate)).expect("JSON");
    let p50 = |which: &str| open["rows"][0][which].as_f64().expect("a latency");
    assert!(p50("wall_p50_ms") >= p50("predicted_p50_ms") - 0.05, "{open}");
    let folder = tempfile::tempdir().expect("a folder");
    let out = format!("--out={}", folder.path().join("report").display());
    let said = of(&[&rate[..3], &[out.as_str()]].concat());
    let report = std::fs::read_to_string(folder.path().join("report/report.html"));
    assert!(report.is_ok_and(|html| html.contains("on the wall") && html.contains("comes first")));
    assert!(said.contains("p50 ms on the wall") && said.contains("in latency"), "{said}");
    // Eight clients who think for 20 ms are answered 400 times a second at most.
    let said = of(&["--target=one", "--think=20ms", "--json"]);
    let thought: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let per_s = thought["baseline_per_s"]["value"].as_f64().expect("a rate");
    assert!((50.0..480.0).contains(&per_s), "{per_s}");
}

/// What `replay` says of a recording, as JSON.
fn replayed(file: &std::path::Path) -> serde_json::Value {
    let output = call(&["replay", &file.display().to_string(), "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The fact of this name in a document.
fn fact(document: &serde_json::Value, name: &str) -> String {
    let facts = document["facts"].as_array().expect("facts");
    let one = facts.iter().find(|fact| fact[0] == name).expect("the fact");
    one[1].as_str().expect("text").to_string()
}

#[test]
fn governors_are_recorded_and_decide_again_even_after_a_kill() {
    let Some(_alone) = alone() else { return };
    let (one, other) = (Server::start(&["--workers", "1"]), Server::start(&["--workers", "1"]));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("whatif.jsonl");
    let words = [format!("--record={}", file.display()), "--faster=60%".to_string()];
    measured(&one, &other, &[&words[0], &words[1]]);
    let whole = replayed(&file);
    let (said, text) = (fact(&whole, "decisions"), std::fs::read_to_string(&file).expect("a file"));
    let end = text.lines().last().expect("lines");
    let digest = whole["digest"].as_str().expect("a digest").to_string();
    assert!(said == format!("identical (digest {digest})") && end.contains(&digest), "{said}");
    // Two services in two rounds, each with a Governor of its own.
    assert_eq!(
        (fact(&whole, "Governors"), fact(&whole, "groups")),
        ("4".into(), "one, other, clients, clock".into())
    );
    assert_ne!(fact(&whole, "pauses"), "0", "{whole}");

    let services =
        [format!("--service=one=pid:{}", one.id()), format!("--service=other=pid:{}", other.id())];
    let load = format!("--load=http://{}/get/key1", one.http);
    let args = ["whatif", &services[0], &services[1], &load, &words[0], "--rounds=50"];
    let short = ["--window=150ms", "--settle=20ms", "--clients=8", "--faster=60%"];
    let mut governor = command(&[&args[..], &short].concat());
    let mut governor = governor.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
    until_staged(&other);
    std::thread::sleep(Duration::from_millis(2_000));
    governor.kill().expect("it runs");
    governor.wait().expect("it ends");
    let home = group_of(std::process::id());
    let _ = (until_free(&one, &home), until_free(&other, &home));
    let cut = replayed(&file);
    let said = fact(&cut, "decisions");
    assert!(said.contains("identical in the first") && said.contains("cut off after"), "{said}");
    let first = said.split(" steps").next().expect("words");
    let digits: String = first.chars().filter(char::is_ascii_digit).collect();
    assert!(digits.parse::<u64>().is_ok_and(|steps| steps >= 256), "{said}");
    // Half a line at the end is where it was killed.
    let bytes = std::fs::read(&file).expect("a file");
    std::fs::write(&file, &bytes[..bytes.len() - 3]).expect("written");
    assert!(fact(&replayed(&file), "decisions").contains("cut off after"));
}

#[test]
fn a_foreign_generator_is_stopped_with_the_rest_and_counted_where_it_asks() {
    let Some(_alone) = alone() else { return };
    let (one, other) = (Server::start(&["--workers", "1"]), Server::start(&["--workers", "1"]));
    let url = format!("http://{}/get/key1?[1-100000000]", one.http);
    let mut curl = std::process::Command::new("curl");
    curl.args(["--silent", "--parallel", "--parallel-max", "8", "--output", "/dev/null", &url]);
    let Ok(mut curl) = curl.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        println!("SKIPPED: there is no curl");
        return;
    };
    let services =
        [format!("--service=one=pid:{}", one.id()), format!("--service=other=pid:{}", other.id())];
    let driver = format!("--driver=curl=pid:{}", curl.id());
    let edge = format!("--edge={}", one.http.port());
    std::thread::sleep(Duration::from_millis(300));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("driven.jsonl");
    let record = format!("--record={}", file.display());
    let args = ["whatif", &services[0], &services[1], &driver, &edge, &record, "--target=one"];
    let short = ["--rounds=2", "--window=400ms", "--settle=50ms", "--faster=50%", "--json"];
    let output = call(&[&args[..], &short].concat());
    let ended = curl.try_wait().expect("it can be asked");
    let _ = (curl.kill(), curl.wait());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && ended.is_none(), "{said}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    println!("{found:#}");
    let base = found["baseline_per_s"]["value"].as_f64().expect("a rate");
    assert!(base > 100.0, "{base}");
    let row = &found["rows"][0];
    assert!(row["gain_percent"]["value"].is_f64(), "{row}");
    assert!(row["paused_ratio"].as_f64().is_some_and(|ratio| ratio > 0.02), "{row}");
    assert!(found["own_us_per_request"].as_f64().is_some_and(|us| us > 1.0), "curl computes too");
    let doubts = row["doubts"].as_array().expect("doubts");
    let miscounted = |doubt: &serde_json::Value| {
        doubt.as_str().is_some_and(|text| text.contains("segment") || text.contains("connections"))
    };
    assert!(!doubts.iter().any(miscounted), "{doubts:?}");
    let again = replayed(&file);
    assert!(fact(&again, "decisions").starts_with("identical ("), "{again}");
    assert_eq!(fact(&again, "groups"), "one, other, curl, clock");
}

#[test]
fn a_generator_that_connects_for_each_request_is_refused() {
    let Some(_alone) = alone() else { return };
    let one = Server::start(&["--workers", "1"]);
    let ask = format!("while :; do curl -s -o /dev/null http://{}/get/key1; done", one.http);
    let mut shell = std::process::Command::new("sh");
    let mut shell = shell.args(["-c", &ask]).spawn().expect("a shell");
    let service = format!("--service=one=pid:{}", one.id());
    let port = &one.http.port().to_string();
    let of = |driver: &str, port: &str| {
        let (driver, edge) = (format!("--driver={driver}"), format!("--edge={port}"));
        let output = call(&["whatif", &service, &driver, &edge]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let looping = format!("sh=pid:{}", shell.id());
    std::thread::sleep(Duration::from_millis(200));
    let said = of(&looping, port);
    let nobody = of(&looping, "1");
    let _ = (shell.kill(), shell.wait());
    assert!(said.contains("nobody is connected") || said.contains("connections ended"), "{said}");
    assert!(nobody.contains("nobody is connected"), "{nobody}");
}

#[test]
fn who_reads_what_is_printed_is_not_stopped() {
    let mut cat = std::process::Command::new("cat");
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat runs");
    let into = cat.stdin.take().expect("a pipe");
    let service = format!("--service=log=pid:{}", cat.id());
    let mut check = command(&["whatif", "check", &service]);
    let status = check.stdout(Stdio::null()).stderr(into).status().expect("it runs");
    // It holds the end into which it writes.
    drop(check);
    let mut said = String::new();
    cat.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
    cat.wait().expect("it ends");
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("reads what this program prints"), "{said}");
}
