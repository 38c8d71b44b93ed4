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
    // Eight clients who think for 20 ms are answered 400 times a second at most.
    let said = of(&["--target=one", "--think=20ms", "--json"]);
    let thought: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let per_s = thought["baseline_per_s"]["value"].as_f64().expect("a rate");
    assert!((50.0..480.0).contains(&per_s), "{per_s}");
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
