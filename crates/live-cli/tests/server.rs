//! The server through real sockets: what it answers, and what clients cannot do to it.

mod cavy_live;

use cavy_live::{Server, command, now, parse, until};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::process::Stdio;
use std::time::Duration;

/// The figures of one type.
fn kind<'a>(stats: &'a Value, name: &str) -> &'a Value {
    let types = stats["types"].as_array().expect("a list");
    types.iter().find(|of| of["name"] == name).expect("a type of that name")
}

/// Sends bytes and reads as many as expected.
fn resp(server: &Server, send: &str, expect: &str) {
    let mut stream = server.resp();
    stream.write_all(send.as_bytes()).expect("the server reads");
    let mut found = vec![0; expect.len()];
    stream.read_exact(&mut found).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&found), expect, "{send:?}");
}

/// All that comes until the connection ends.
fn rest(stream: &mut std::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn http_serves_the_store() {
    let server = Server::start(&[]);
    assert_eq!(server.ask("GET /get/key4999", ""), (200, "value".to_string()));
    assert_eq!(server.ask("GET /get/nothing", "").0, 404);
    assert_eq!(server.ask("PUT /set/mine", "of my own").0, 200);
    assert_eq!(server.ask("GET /get/mine", ""), (200, "of my own".to_string()));
    let (status, body) = server.ask("GET /scan", "");
    let found: Value = serde_json::from_str(&body).expect("an object");
    assert_eq!((status, &found["keys"]), (200, &Value::from(5_001)));
    assert_eq!(server.ask("GET /elsewhere", "").0, 404);
    assert_eq!(server.ask("DELETE /scan", "").0, 405);
    assert_eq!(server.ask("GET /timed/short", "").0, 400);
    let stats = server.quiet();
    for (name, count) in [("get", 3), ("set", 1), ("scan", 1)] {
        assert_eq!(kind(&stats, name)["finished"], count, "{name}");
    }
    let (status, text) = server.ask("GET /metrics", "");
    assert_eq!(status, 200);
    assert!(text.contains("cavy_connections_total") && text.ends_with("# EOF\n"), "{text}");
    assert_eq!(text.matches("# EOF").count(), 1);
}

#[test]
fn resp_serves_the_store() {
    let server = Server::start(&[]);
    resp(&server, "PING\r\n", "+PONG\r\n");
    resp(&server, "*2\r\n$3\r\nget\r\n$4\r\nkey1\r\n", "$5\r\nvalue\r\n");
    resp(&server, "GET nothing\r\n", "$-1\r\n");
    resp(&server, "SET mine 5\r\nGET mine\r\nDBSIZE\r\n", "+OK\r\n$1\r\n5\r\n:5001\r\n");
    resp(&server, "SCAN 0 COUNT 10\r\n", "*2\r\n$1\r\n0\r\n*5001\r\n$4\r\nkey0\r\n");
    resp(&server, "KEYS *\r\n", "*5001\r\n$4\r\nkey0\r\n");
    resp(&server, "KEYS a*\r\n", "-ERR KEYS knows the pattern * only\r\n");
    resp(&server, "GET\r\n", "-ERR wrong number of arguments for 'GET' command\r\n");
    resp(&server, "FLUSHALL\r\n", "-ERR unknown command 'FLUSHALL'\r\n");
    resp(&server, "CONFIG GET save\r\nCOMMAND\r\n", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n*0\r\n");
    resp(&server, "HELLO 3\r\n", "-NOPROTO");
    resp(&server, "\r\nQUIT\r\n", "+OK\r\n");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(&["--workers", "4", "--pipeline", "8"]);
    let mut stream = server.resp();
    let (mut asked, mut expected) = (String::new(), String::new());
    for number in 0..200 {
        let long = if number % 10 == 0 { "DBSIZE\r\n" } else { "" };
        asked += &format!("GET key{number}\r\n{long}ECHO {number}\r\n");
        let long = if number % 10 == 0 { ":5000\r\n" } else { "" };
        let text = number.to_string();
        expected += &format!("$5\r\nvalue\r\n{long}${}\r\n{text}\r\n", text.len());
    }
    stream.write_all(asked.as_bytes()).expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("half is closed");
    assert_eq!(rest(&mut stream), expected, "half a connection still gets its answers");
}

#[test]
fn a_write_is_seen_by_the_requests_after_it_and_by_none_before() {
    let server = Server::start(&["--workers", "4"]);
    let mut stream = server.resp();
    let (mut asked, mut expected) = (String::new(), String::new());
    for number in 100..200 {
        asked += &format!("SET mine {number}\r\nGET mine\r\nGET mine\r\n");
        expected += &format!("+OK\r\n$3\r\n{number}\r\n$3\r\n{number}\r\n");
    }
    stream.write_all(asked.as_bytes()).expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("half is closed");
    assert_eq!(rest(&mut stream), expected);
}

#[test]
fn short_requests_pass_long_ones_under_darc_and_not_under_fcfs() {
    let wait_of_short = |policy: &[&str]| {
        let service = ["--workers", "2", "--sleep-service", "short=1ms"];
        let args = [&service[..], &["--sleep-service", "long=400ms"], policy].concat();
        let server = Server::start(&args);
        let mut longs = Vec::new();
        for _ in 0..4 {
            let mut stream = server.resp();
            stream.write_all(b"TIMED long\r\n").expect("the server reads");
            longs.push(stream);
        }
        until("the long ones are there", || (server.stats()["in_system"] == 4).then_some(()));
        let start = now();
        resp(&server, "TIMED short\r\n", "+OK\r\n");
        start.elapsed()
    };
    // Static, so that no window must pass: one of two workers is kept for the short ones.
    let kept = wait_of_short(&["--policy", "darc-static", "--reserved", "1"]);
    assert!(kept < Duration::from_millis(200), "{kept:?}");
    let queued = wait_of_short(&["--policy", "c-fcfs"]);
    assert!(queued > Duration::from_millis(300), "{queued:?}");
}

#[test]
fn a_full_queue_refuses_at_once() {
    let server = Server::start(&[
        "--policy",
        "c-fcfs",
        "--workers",
        "1",
        "--queue-limit",
        "2",
        "--sleep-service",
        "only=500ms",
    ]);
    let mut first: Vec<_> = (0..3).map(|_| server.resp()).collect();
    for (count, stream) in first.iter_mut().enumerate() {
        stream.write_all(b"TIMED only\r\n").expect("the server reads");
        until("it is there", || (server.stats()["in_system"] == count + 1).then_some(()));
    }
    let start = now();
    let (status, body) = server.ask("GET /timed/only", "");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("overloaded"), "{body}");
    resp(&server, "TIMED only\r\n", "-ERR overloaded: the queue of its type is full\r\n");
    assert!(start.elapsed() < Duration::from_millis(300), "{:?}", start.elapsed());
    for stream in &mut first {
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).expect("those before are served");
    }
    let stats = server.quiet();
    assert_eq!(
        (&kind(&stats, "only")["drops"], &kind(&stats, "only")["finished"]),
        (&2.into(), &3.into())
    );
}

#[test]
fn bad_requests_get_an_error_and_a_clean_end() {
    let server = Server::start(&["--value-bytes", "1000"]);
    for wrong in [
        "*1\r\n+PING\r\n".to_string(),
        "*99999999\r\n".to_string(),
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$99999999\r\n".to_string(),
        "x".repeat(10_000),
        "\0\u{1}\u{2}\n".to_string(),
        "*1\r\n$4\r\nPINGxx".to_string(),
    ] {
        let mut stream = server.resp();
        stream.write_all(wrong.as_bytes()).expect("the server reads");
        let _ = stream.shutdown(Shutdown::Write);
        let answer = rest(&mut stream);
        assert!(answer.starts_with("-ERR ") && answer.ends_with("\r\n"), "{wrong:?}: {answer:?}");
    }
    for wrong in ["nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET \0 HTTP/1.1\r\n\r\n"] {
        let mut stream = server.http();
        stream.write_all(wrong.as_bytes()).expect("the server reads");
        let answer = rest(&mut stream);
        assert_eq!(parse(answer.as_bytes()).0, 400, "{wrong:?}: {answer:?}");
    }
    let mut stream = server.http();
    let head = format!("GET /health HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(100_000));
    let _ = stream.write_all(head.as_bytes());
    assert_eq!(parse(rest(&mut stream).as_bytes()).0, 431, "a head that is too long");
    resp(&server, "PING\r\n", "+PONG\r\n");
}

#[test]
fn oversized_keys_and_values_are_refused_before_they_are_stored() {
    let server = Server::start(&["--value-bytes", "1000", "--keys", "5000"]);
    assert_eq!(server.ask("PUT /set/key1", &"x".repeat(1_000)).0, 200);
    assert_eq!(server.ask("PUT /set/key1", &"x".repeat(1_001)).0, 413);
    let mut stream = server.http();
    let head = "PUT /set/key1 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("the server reads");
    assert_eq!(parse(rest(&mut stream).as_bytes()).0, 413, "not read to its end");
    assert_eq!(server.ask(&format!("GET /get/{}", "k".repeat(1_025)), "").0, 400);
    assert_eq!(server.ask("PUT /set/one-more", "x").0, 400, "the store is full");
    resp(&server, &format!("GET {}\r\n", "k".repeat(1_025)), "-ERR the key has 1025 bytes");
    assert_eq!(server.quiet()["connections"]["held_bytes"], 0);
}

#[test]
fn slow_and_half_open_clients_are_closed() {
    let server = Server::start(&["--patience", "300ms"]);
    let mut waiting = Vec::new();
    for (door, begun) in [
        (server.resp(), ""),
        (server.resp(), "*2\r\n$3\r\nGET\r\n$4\r\nk"),
        (server.http(), ""),
        (server.http(), "GET /health HT"),
        (server.http(), "PUT /set/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"),
    ] {
        let mut stream = door;
        stream.write_all(begun.as_bytes()).expect("the server reads");
        waiting.push((begun, stream));
    }
    let start = now();
    for (begun, stream) in &mut waiting {
        let answer = rest(stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{begun:?}: {answer:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // A request a byte at a time does not hold its connection for longer either.
    let mut drip = server.resp();
    let closed = (0..40).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        drip.write_all(b"x").is_err()
    });
    assert!(closed, "two seconds of dripping");
    assert!(server.stats()["connections"]["too_slow"].as_u64() >= Some(3));
}

#[test]
fn answers_that_nobody_fetches_do_not_pile_up() {
    let server = Server::start(&["--patience", "500ms", "--pipeline", "16", "--workers", "2"]);
    let mut stream = server.resp();
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    // Each answer is 60 kB: these would be 300 MB.
    let asked = "SCAN 0\r\n".repeat(5_000);
    let _ = stream.write_all(asked.as_bytes());
    until("the client is given up", || {
        (server.stats()["connections"]["too_slow"].as_u64() >= Some(1)).then_some(())
    });
    let stats = server.quiet();
    let scans = kind(&stats, "scan")["arrivals"].as_u64().expect("a number");
    assert!(scans < 500, "{scans} scans were begun for a client that reads nothing");
    until("memory is given back", || {
        (server.stats()["connections"]["held_bytes"] == 0).then_some(())
    });
}

#[test]
fn more_connections_than_allowed_are_closed_and_room_comes_back() {
    let server = Server::start(&["--connections", "4"]);
    let mut held: Vec<_> = (0..4).map(|_| server.resp()).collect();
    for stream in &mut held {
        stream.write_all(b"PING\r\n").expect("the server reads");
        stream.read_exact(&mut [0; 7]).expect("an answer");
    }
    let mut fifth = server.resp();
    let _ = fifth.write_all(b"PING\r\n");
    assert_eq!(rest(&mut fifth), "", "closed without an answer");
    drop(held);
    until("room is back", || (server.ask("GET /health", "").0 == 200).then_some(()));
    assert!(server.stats()["connections"]["turned_away"].as_u64() >= Some(1));
}

#[test]
fn clients_that_vanish_cost_no_slot() {
    let server =
        Server::start(&["--workers", "2", "--policy", "c-fcfs", "--sleep-service", "only=20ms"]);
    for round in 0..40 {
        let begun: &[u8] = match round % 4 {
            0 => b"TIMED only\r\n",
            1 => b"TIMED only\r\nTIMED only\r\nTIMED on",
            2 => b"*2\r\n$5\r\nTIMED\r\n$4\r\non",
            _ => b"GET /timed/only HTTP/1.1\r\nHost: x\r\n\r\n",
        };
        let mut stream = if round % 4 == 3 { server.http() } else { server.resp() };
        stream.write_all(begun).expect("the server reads");
        // Dropped with the answer under way.
    }
    let stats = server.quiet();
    let only = kind(&stats, "only");
    let number = |field: &str| only[field].as_u64().expect("a number");
    // Those cancelled in the queue never ran.
    let ended = number("finished") + number("cancelled") + number("drops");
    assert_eq!(number("arrivals"), ended, "{only}");
    assert_eq!(number("drops"), 0);
    // Both workers are there: two requests take one service time.
    let start = now();
    let mut both: Vec<_> = (0..2).map(|_| server.resp()).collect();
    for stream in &mut both {
        stream.write_all(b"TIMED only\r\n").expect("the server reads");
    }
    for stream in &mut both {
        stream.read_exact(&mut [0; 5]).expect("an answer");
    }
    assert!(start.elapsed() < Duration::from_millis(1_000), "{:?}", start.elapsed());
}

#[test]
fn a_client_killed_in_the_middle_of_a_run_leaves_nothing_behind() {
    let server = Server::start(&["--workers", "2"]);
    let url = format!("redis://{}", server.resp);
    let mut client = command(&[
        "load",
        &url,
        "--rate",
        "2000",
        "--duration",
        "60s",
        "--probe",
        "0s",
        "--connections",
        "32",
        "--type",
        "get@0.9=GET key1",
        "--type",
        "scan@0.1=SCAN 0",
    ])
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .expect("the client starts");
    until("the run is under way", || {
        (kind(&server.stats(), "get")["finished"].as_u64() > Some(300)).then_some(())
    });
    // SIGKILL: the client has no say in it.
    client.kill().expect("it can be killed");
    client.wait().expect("it has ended");
    let stats = server.quiet();
    for name in ["get", "scan"] {
        let of = kind(&stats, name);
        let number = |field: &str| of[field].as_u64().expect("a number");
        assert_eq!(number("arrivals"), number("finished"), "{of}");
    }
    until("memory is given back", || {
        (server.stats()["connections"]["held_bytes"] == 0).then_some(())
    });
    resp(&server, "GET key1\r\n", "$5\r\nvalue\r\n");
}

#[test]
fn signals_finish_what_is_under_way() {
    for name in ["INT", "TERM"] {
        let server = Server::start(&["--workers", "1", "--sleep-service", "only=300ms"]);
        let (mut one, mut two) = (server.resp(), server.http());
        one.write_all(b"TIMED only\r\n").expect("the server reads");
        two.write_all(b"GET /timed/only HTTP/1.1\r\nHost: x\r\n\r\n").expect("the server reads");
        let idle = server.resp();
        until("both are there", || (server.stats()["in_system"] == 2).then_some(()));
        server.signal(name);
        assert_eq!(rest(&mut one), "+OK\r\n", "{name}");
        assert_eq!(parse(rest(&mut two).as_bytes()).0, 200, "{name}");
        drop(idle);
        let (status, said) = server.end();
        assert_eq!(status.code(), Some(0), "{name}: {said}");
    }
}

#[test]
fn a_store_of_ones_own_outlives_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine");
    let path = file.to_str().expect("a name");
    let server = Server::start(&["--store", path]);
    resp(&server, "SET mine kept\r\n", "+OK\r\n");
    server.signal("TERM");
    assert_eq!(server.end().0.code(), Some(0));
    let server = Server::start(&["--store", path]);
    resp(&server, "GET mine\r\n", "$4\r\nkept\r\n");
}

/// The reason why it is not ready, if it is not.
fn not_ready(server: &Server) -> Option<String> {
    let (status, body) = server.ask("GET /health", "");
    assert_eq!(server.ask("GET /ready", "").0, status, "two names of one thing");
    assert_eq!(server.ask("GET /live", ""), (200, "ok\n".to_string()), "it answers, so it lives");
    (status != 200).then_some(body)
}

#[test]
fn a_full_disk_is_told_by_health_and_writes_recover() {
    let limit = |server: &Server, bytes: &str| {
        let args = ["--pid", &server.id().to_string(), &format!("--fsize={bytes}:unlimited")];
        std::process::Command::new("prlimit").args(args).status().is_ok_and(|done| done.success())
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("store");
    let server = Server::start(&["--store", file.to_str().expect("a name")]);
    assert_eq!(not_ready(&server), None);
    // Files of this server may not grow: to the store that is a disk without room.
    let length = std::fs::metadata(&file).expect("the store").len();
    if !limit(&server, &length.to_string()) {
        println!("SKIPPED: prlimit is not installed");
        return;
    }
    let value = "x".repeat(60_000);
    let failed = (0..200).find_map(|n| {
        let (status, body) = server.ask(&format!("PUT /set/big{n}"), &value);
        (status != 200).then_some((n, status, body))
    });
    let (written, status, body) = failed.expect("the file cannot hold 12 MB");
    assert_eq!(status, 500, "{body}");
    let why = not_ready(&server).expect("not ready");
    assert!(why.contains("the store cannot be written"), "{why}");
    assert_eq!(server.stats()["ready"], false);
    assert!(limit(&server, "unlimited"));
    assert_eq!(not_ready(&server), None, "asking tries again");
    assert_eq!(server.ask("PUT /set/after", "written").0, 200);
    assert_eq!(server.ask("GET /get/after", "").1, "written");
    for n in 0..written {
        assert_eq!(server.ask(&format!("GET /get/big{n}"), "").1.len(), 60_000, "big{n} is lost");
    }
    assert_eq!(
        server.ask(&format!("GET /get/big{written}"), "").0,
        404,
        "what failed is not there"
    );
}

#[test]
fn a_recording_is_on_disk_soon_however_little_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.jsonl");
    let server = Server::start(&["--record", file.to_str().expect("a name")]);
    let lines = || std::fs::read_to_string(&file).expect("a recording").lines().count();
    for asked in 1..=3 {
        resp(&server, "GET key1\r\n", "$5\r\nvalue\r\n");
        // A header, and an arrival and an end for each request.
        until("the request is in the recording", || (lines() == 1 + 2 * asked).then_some(()));
    }
}

#[test]
fn half_a_connection_still_gets_its_answer_over_http() {
    let server = Server::start(&["--sleep-service", "only=100ms"]);
    let mut stream = server.http();
    stream.write_all(b"GET /timed/only HTTP/1.1\r\nHost: x\r\n\r\n").expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("half is closed");
    assert_eq!(parse(rest(&mut stream).as_bytes()).0, 200);
}

#[test]
fn idle_connections_are_not_called_slow() {
    let server = Server::start(&["--patience", "300ms"]);
    let (mut http, mut redis) = (server.http(), server.resp());
    http.write_all(b"GET /get/key1 HTTP/1.1\r\nHost: x\r\n\r\n").expect("the server reads");
    redis.write_all(b"PING\r\n").expect("the server reads");
    assert!(rest(&mut http).starts_with("HTTP/1.1 200"), "answered, then closed");
    assert_eq!(rest(&mut redis), "+PONG\r\n");
    let connections = &server.stats()["connections"];
    assert_eq!((&connections["idle"], &connections["too_slow"]), (&2.into(), &0.into()));
    let mut begun = server.http();
    begun.write_all(b"GET /get/key1 HT").expect("the server reads");
    rest(&mut begun);
    assert_eq!(server.stats()["connections"]["too_slow"], 1);
}
