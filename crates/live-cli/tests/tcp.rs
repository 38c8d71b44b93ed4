//! `cavy-live tcp` between namespaces, with clients and servers that are not ours: curl, Python's
//! http.server. Skipped, with a reason, without root or without a program.

mod cavy_live;

use cavy_core::Span;
use cavy_live::{call, command, until};
use cavy_testbed::stalls::Stalls;
use cavy_testbed::{Plan, Testbed, obstacle, tools};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Testbeds bear the name of their process, which has one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Hosts that forward; host 0 is the client, which has 10.91.0.0/24 behind it, and the others
/// 10.90.N.0/24.
fn bed(hosts: u16) -> Option<(MutexGuard<'static, ()>, Testbed)> {
    if let Some(why) = obstacle().or_else(cavy_stack::obstacle) {
        println!("SKIPPED: {why}");
        return None;
    }
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = Plan { levels: false, level_bytes: 32_000, ..Plan::slow(hosts) };
    let testbed = Testbed::up(plan).unwrap_or_else(|error| panic!("{error}"));
    for (number, host) in (0..hosts).zip(testbed.hosts()) {
        let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("it forwards");
        host.within(forward).unwrap_or_else(|error| panic!("{error}"));
        for other in (0..hosts).filter(|&other| other != number) {
            let behind = if other == 0 { "10.91.0".to_string() } else { format!("10.90.{other}") };
            let line =
                format!("-n {} route add {behind}.0/24 via {}", host.name(), Plan::address(other));
            let words: Vec<&str> = line.split(' ').collect();
            tools::run("ip", &words).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    Some((one, testbed))
}

fn there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        println!("SKIPPED: {program} is not installed");
    }
    found
}

/// A program in a host, which ends with the test.
struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    fn start(bed: &Testbed, host: usize, mut command: Command) -> Program {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let spawned = bed.hosts()[host].within(|| command.spawn().expect("the program starts"));
        let mut child = spawned.unwrap_or_else(|error| panic!("{error}"));
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Program { child, stdout }
    }

    /// A command of ours: waits until it says where it stands.
    fn ours(bed: &Testbed, host: usize, args: &[&str]) -> Program {
        let mut program = Program::start(bed, host, command(args));
        let mut line = String::new();
        program.stdout.read_line(&mut line).expect("a line");
        let said: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{args:?}: {line}"));
        assert!(said["first_address"].is_string(), "{said}");
        program
    }

    /// Ctrl-C: what it says that it did.
    fn end(mut self) -> Value {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", "INT", &id]).status();
        assert!(sent.expect("kill runs").success());
        let status = until("the program has ended", || self.child.try_wait().expect("a child"));
        assert!(status.success());
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).expect("text");
        serde_json::from_str(&said).expect("one object")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program in a host says.
fn says(bed: &Testbed, host: usize, mut command: Command) -> (bool, Vec<u8>) {
    let output = bed.hosts()[host].within(|| command.output().expect("the program starts"));
    let output = output.unwrap_or_else(|error| panic!("{error}"));
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    (output.status.success(), output.stdout)
}

fn curl(args: &[&str]) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--max-time", "60"]).args(args);
    command
}

fn python_server(bed: &Testbed, host: usize, folder: &Path) -> Program {
    let mut python = Command::new("python3");
    // Python's own server knows no ranges; this one is curl's and ours's judge in one page.
    python.arg("-c").arg(RANGES).arg(folder);
    let mut program = Program::start(bed, host, python);
    let mut line = String::new();
    program.stdout.read_line(&mut line).expect("a line");
    assert_eq!(line.trim(), "ready");
    program
}

/// Python's http.server, taught ranges.
const RANGES: &str = r#"
import http.server, os, re, sys
os.chdir(sys.argv[1])
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        data = open(self.path.strip("/"), "rb").read()
        found = re.match(r"bytes=(\d+)-(\d+)$", self.headers.get("Range", ""))
        a, b = (int(found[1]), min(int(found[2]) + 1, len(data))) if found else (0, len(data))
        self.send_response(206 if found else 200)
        if found: self.send_header("Content-Range", "bytes %d-%d/%d" % (a, b - 1, len(data)))
        self.send_header("Content-Length", str(b - a))
        self.end_headers()
        self.wfile.write(data[a:b])
server = http.server.ThreadingHTTPServer(("0.0.0.0", 80), Handler)
print("ready", flush=True)
server.serve_forever()
"#;

fn file(folder: &Path, octets: usize) -> Vec<u8> {
    let mut word = 1_u64;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word as u8
    };
    let bytes: Vec<u8> = (0..octets).map(|_| next()).collect();
    std::fs::write(folder.join("big"), &bytes).expect("a file");
    bytes
}

#[test]
fn curl_takes_files_and_ranges_from_every_address_of_a_prefix() {
    let Some((_one, bed)) = bed(2) else { return };
    if !there("curl") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = file(folder.path(), 1_000_001);
    let root = folder.path().to_str().expect("a path");
    let args = [
        "tcp",
        "serve",
        "files",
        "--prefix",
        "10.90.1.0/24",
        "--port",
        "80",
        "--root",
        root,
        "--json",
    ];
    let server = Program::ours(&bed, 1, &args);
    for address in ["10.90.1.1", "10.90.1.77"] {
        let (good, found) = says(&bed, 0, curl(&[&format!("http://{address}/big")]));
        assert!(good && found == bytes, "{} octets", found.len());
    }
    let (good, found) = says(&bed, 0, curl(&["--range", "5-99", "http://10.90.1.1/big"]));
    assert!(good && found == bytes[5..100]);
    let twice = ["http://10.90.1.1/big", "--next", "--silent", "http://10.90.1.1/big"];
    let (good, found) = says(&bed, 0, curl(&twice));
    assert!(good && found == [&bytes[..], &bytes[..]].concat());
    let (good, _) = says(&bed, 0, curl(&["http://10.90.1.1/../secret"]));
    assert!(!good);
    let did = server.end();
    assert_eq!(did["addresses"], 2, "{did}");
    assert_eq!(did["accepted"], 5, "{did}");
}

/// What `fetch` says in host 0, and the packets that its port drops meanwhile.
fn fetched(bed: &Testbed, fetch: Command) -> (bool, Vec<u8>, u64) {
    let dropped = || bed.port(0).expect("counters").dropped();
    let before = dropped();
    let (good, said) = says(bed, 0, fetch);
    (good, said, dropped() - before)
}

#[test]
fn a_file_comes_in_turn_from_servers_that_nobody_changed() {
    let Some((_one, bed)) = bed(5) else { return };
    if !there("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = file(folder.path(), 3_000_000);
    let servers: Vec<Program> =
        (1..5).map(|host| python_server(&bed, host, folder.path())).collect();
    let out = folder.path().join("copy");
    let urls: Vec<String> =
        (1..5).map(|host| format!("http://{}/big", Plan::address(host))).collect();
    let mut fetch = command(&["tcp", "fetch", "--prefix", "10.91.0.0/24", "--json"]);
    fetch.args(["--port-bytes", "32000", "--out"]).arg(&out).args(&urls);
    let (good, said, dropped) = fetched(&bed, fetch);
    assert!(good);
    let said: Value = serde_json::from_slice(&said).expect("one object");
    println!("{said}; {dropped} dropped");
    assert!(std::fs::read(&out).expect("a file") == bytes, "all octets are in their places");
    assert_eq!((&said["servers"], &said["in_turn"]), (&4.into(), &true.into()));
    // Of 2,072 full packets. A server that a busy machine stops for 10 ms loses its turn, and what
    // it sends later is one too many: so it is held against the same without turns.
    let mut wild = command(&["tcp", "fetch", "--prefix", "10.91.0.0/24", "--json"]);
    wild.args(&urls);
    let (good, _, without) = fetched(&bed, wild);
    println!("{without} dropped without turns");
    assert!(good && without > 0);
    assert!(dropped < 40 || 3 * dropped < without, "{dropped} dropped, {without} without turns");
    drop(servers);
}

#[test]
fn programs_meet_servers_and_clients_through_the_gate() {
    let Some((_one, bed)) = bed(2) else { return };
    if !there("curl") || !there("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = file(folder.path(), 700_000);
    let _server = python_server(&bed, 1, folder.path());
    // Our receiver before curl, then our sender before Python.
    let map = format!("127.0.0.1:8081={}:80", Plan::address(1));
    let args = [
        "tcp",
        "gate",
        "--before",
        "clients",
        "--prefix",
        "10.91.0.0/24",
        "--port-bytes",
        "32000",
        "--map",
        &map,
        "--json",
    ];
    let _ = says(&bed, 0, {
        let mut ip = Command::new("ip");
        ip.args(["link", "set", "lo", "up"]);
        ip
    });
    let gate = Program::ours(&bed, 0, &args);
    let (good, found) = says(&bed, 0, curl(&["http://127.0.0.1:8081/big"]));
    assert!(good && found == bytes, "{} octets", found.len());
    let did = gate.end();
    assert_eq!(
        (&did["opened"], &did["octets_in"].as_u64().is_some_and(|n| n > 700_000)),
        (&1.into(), &true)
    );
    let map = format!("10.90.1.1:8080={}:80", Plan::address(1));
    let args =
        ["tcp", "gate", "--before", "servers", "--prefix", "10.90.1.0/24", "--map", &map, "--json"];
    let gate = Program::ours(&bed, 1, &args);
    let (good, found) = says(&bed, 0, curl(&["http://10.90.1.1:8080/big"]));
    assert!(good && found == bytes, "{} octets", found.len());
    let did = gate.end();
    assert_eq!(did["accepted"], 1, "{did}");
}

#[test]
fn bad_input_is_one_sentence_and_a_cure() {
    let fetch = ["tcp", "fetch", "--prefix", "10.91.0.0/24", "ftp://10.0.0.1/x"];
    let files = ["tcp", "serve", "files", "--prefix", "10.91.0.0/24", "--root", "/nowhere"];
    let cases: [(&[&str], &str); 7] = [
        (&["tcp", "serve", "echo", "--prefix", "10.77.2.1/24"], "did you mean 10.77.2.0/24?"),
        (&["tcp", "serve", "echo", "--prefix", "10.77.2.0/24", "--mtu", "60"], "88..=9000"),
        (
            &["tcp", "serve", "echo", "--prefix", "10.77.2.0/24", "--floor", "1ns"],
            "timers are late",
        ),
        (&["tcp", "serve", "echo", "--prefix", "127.0.0.0/8"], "10.0.0.0/8"),
        (&fetch, "no address of a file"),
        (&files, "is no folder"),
        (
            &["tcp", "gate", "--before", "clients", "--prefix", "10.77.2.0/24", "--map", "x"],
            "LISTEN=TARGET",
        ),
    ];
    for (args, wanted) in cases {
        let output = call(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(wanted) && !said.contains("panicked"), "{args:?}: {said}");
    }
}

/// A server that is silent for so long loses its turn.
const TURN: Span = Span::from_ms(10);

/// Cells of a table of a report: what `text` or `value` says, by row and column.
fn cells<'a>(report: &'a Value, id: &str) -> Vec<&'a Vec<Value>> {
    let figures = report["figures"].as_array().expect("figures");
    let tables = figures.iter().flat_map(|figure| figure["tables"].as_array().expect("tables"));
    let table =
        tables.into_iter().find(|table| table["id"] == id).unwrap_or_else(|| panic!("{id}"));
    table["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row.as_array().expect("cells"))
        .collect()
}

/// Collapse and cure once, by the study; what was missed.
fn collapse_and_cure() -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut study = command(&["tcp", "study", "--mbit", "200", "--port-bytes", "32000", "--json"]);
    study.args(["--servers", "1,8", "--ways", "reno,ours-quick,turns,no-turns"]);
    study.args(["--seconds", "1.5", "--repetitions", "1", "--probe", "0s", "--out"]);
    let output = study.arg(folder.path()).output().expect("the study runs");
    let said = String::from_utf8_lossy(&output.stderr);
    // Without a probe no claim can be published.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let goodput = cells(&report, "goodput");
    let lost = cells(&report, "lost");
    let of = |row: usize, column: usize| {
        let mbps = goodput[row][column]["value"].as_f64().expect("a number");
        let lost = lost[row][column].as_str().expect("two numbers");
        let (dropped, timeouts) = lost.split_once("; ").expect("two numbers");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        (mbps, number(dropped), number(timeouts))
    };
    // Rows are in the order in which the study knows them.
    let (stock, ours, turns, none) = (of(0, 2), of(1, 2), of(2, 2), of(3, 2));
    let alone = of(2, 1);
    println!("stock {stock:?}, ours {ours:?}, in turn {turns:?}, alone {alone:?}, none {none:?}");
    let hold = |holds: bool, what: &str| {
        let all = (stock, ours, turns, alone, none);
        if holds { Ok(()) } else { Err(format!("{what}: {all:?}")) }
    };
    for lost in [stock, none] {
        hold(lost.1 > 0 && lost.2 > 0, "no collapse")?;
        hold(lost.0 <= 0.7 * turns.0, "no cure")?;
    }
    hold(turns.2 == 0, "timeouts in turn")?;
    hold(turns.1 * 20 <= stock.1, "drops in turn")?;
    hold(turns.0 >= 0.9 * alone.0, "eight are slower than one")?;
    hold(ours.0 >= 1.3 * stock.0, "our senders")
}

/// The study's smoke: it tells a collapse from none. The aims, 95 % of one server and twelve times
/// the stock goodput, are claims of the whole study. A machine that stops a server for as long as
/// makes it lose its turn cannot tell even that: then it is tried again, and in the end said.
#[test]
fn the_study_sees_stock_kernels_collapse_and_our_senders_and_turns_not() {
    if let Some(why) = obstacle().or_else(cavy_stack::obstacle) {
        return println!("SKIPPED: {why}");
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stalls = Stalls::watch();
    let mut tries = Vec::new();
    while tries.len() < 3 {
        stalls.worst();
        let missed = collapse_and_cure();
        let worst = stalls.worst();
        let Err(why) = missed else { return };
        assert!(worst > TURN, "threads waited {worst} at most, and {why}");
        tries.push(format!("a thread waited {worst}: {why}"));
    }
    println!("SKIPPED: this machine is too busy: {tries:?}");
}
