//! `cavy-live tcp` between namespaces, with clients and servers that are not ours: curl, nginx,
//! iperf3, redis-benchmark, Python's http.server, and tshark as the judge of what was sent.
//! Skipped, with a reason, without root or without a program.

mod cavy_live;

use cavy_core::Span;
use cavy_live::{call, command, until};
use cavy_testbed::stalls::Stalls;
use cavy_testbed::{Plan, Testbed, obstacle, tools};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    there_by(program, "--version")
}

fn there_by(program: &str, option: &str) -> bool {
    let found = Command::new(program).arg(option).output().is_ok_and(|o| o.status.success());
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
    // Nobody says what the port keeps.
    let mut learns = command(&["tcp", "fetch", "--prefix", "10.91.0.0/24", "--json"]);
    learns.args(["--port-bytes", "learned"]).args(&urls);
    let (good, said, learned) = fetched(&bed, learns);
    let said: Value = serde_json::from_slice(&said).expect("one object");
    println!("{said}; {learned} dropped by who learns");
    assert!(good && said["in_turn"] == true);
    assert!(learned < 40 || 2 * learned < without, "{learned} dropped, {without} without turns");
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
    let cases: [(&[&str], &str); 8] = [
        (&["tcp", "serve", "echo", "--prefix", "10.77.2.1/24"], "did you mean 10.77.2.0/24?"),
        (&["tcp", "serve", "echo", "--prefix", "10.77.2.0/24", "--mtu", "60"], "88..=9000"),
        (
            &["tcp", "serve", "echo", "--prefix", "10.77.2.0/24", "--floor", "1ns"],
            "lateness of timers",
        ),
        (&["tcp", "serve", "echo", "--prefix", "10.77.2.0/24", "--backlog", "0"], "1..=65535"),
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

/// A server that is silent for 10 ms loses its turn. Who watches sleeps most of the time and gets a
/// core sooner than those who work, so half of that is enough.
const LATE: Span = Span::from_ms(5);

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
        assert!(worst > LATE, "threads waited {worst} at most, and {why}");
        tries.push(format!("a thread waited {worst}: {why}"));
    }
    println!("SKIPPED: this machine is too busy: {tries:?}");
}

/// Blocks of one's own, between fewer hosts than the study's.
const OWN_PLAN: &str = r#"
kind = "network"
world = "live"
title = "Blocks of our own"

[network]
topology = "star"
hosts = 6
host_gbps = 0.1
switch_latency_us = 0.0
buffer = { per_port_bytes = 24_000 }

[traffic]
pattern = "blocks"
servers = 3
block_bytes = 65_536
blocks = 9

[[transports]]
transport = "tcp"
label = "Linux, in turn"
like = "linux"
schedule_bytes = 24_000

[sweep]
"traffic.servers" = [1, 3]

[run]
replications = 2
own_best = false
tail_sources = false

[live]
seconds = 0.3

[[live.cells]]
ways = ["turns", "rto-4000-quick"]

[[live.cells]]
ways = ["turns"]
servers = [5]
block_bytes = 32_768
"#;

#[test]
fn a_plan_of_one_s_own_runs_live_with_its_own_cells_and_the_lab_beside_it() {
    if let Some(why) = obstacle().or_else(cavy_stack::obstacle) {
        return println!("SKIPPED: {why}");
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("own.toml");
    std::fs::write(&plan, OWN_PLAN).expect("a plan");
    let mut study = command(&["tcp", "study", "--json", "--probe", "0s", "--plan"]);
    study.arg(&plan).arg("--out").arg(folder.path().join("out"));
    let output = study.output().expect("the study runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["title"], "Blocks of our own");
    assert_eq!(report["claims"].as_array().map(Vec::len), Some(0), "no claim is about it");
    let goodput = cells(&report, "goodput");
    let labels: Vec<&str> = goodput.iter().filter_map(|row| row[0].as_str()).collect();
    assert_eq!(labels, ["kernel, 4 ms, quick ACKs", "kernel reno, in turn"]);
    for row in &goodput {
        for cell in &row[1..] {
            let mbps = cell["value"].as_f64().unwrap_or(0.0);
            assert!((1.0..100.0).contains(&mbps), "{row:?}");
        }
    }
    // Two repetitions of two numbers of servers; what has other blocks is a table of its own.
    assert_eq!(cells(&report, "machine").len(), 2 * (2 * 2 + 1));
    assert_eq!(cells(&report, "long").len(), 2);
    assert_eq!(cells(&report, "plan-in-the-lab-100-24").len(), 2);
}

/// A capture of a device in a host, which ends with [`Capture::judge`].
struct Capture {
    program: Program,
    file: PathBuf,
}

impl Capture {
    /// Begins; `None`, with a reason said, where tshark is not there.
    fn of(bed: &Testbed, host: usize, device: &str, folder: &Path) -> Option<Capture> {
        if !there("tshark") {
            return None;
        }
        let file = folder.join("capture.pcapng");
        let mut tshark = Command::new("tshark");
        tshark.args(["-q", "-i", device, "-w"]).arg(&file);
        let program = Program::start(bed, host, tshark);
        // The head of the file is written when packets are listened for.
        until("tshark listens", || {
            std::fs::metadata(&file).ok().filter(|meta| meta.len() > 0).map(drop)
        });
        Some(Capture { program, file })
    }

    /// What it says of each packet, in one reading: who sent it, checksums of both headers (0 is
    /// bad), and whether it is malformed, a repetition, or acknowledges what nobody saw.
    fn read(&self) -> Vec<[String; 6]> {
        let mut tshark = Command::new("tshark");
        tshark.args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
        tshark.args(["-Y", "tcp", "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"]);
        for field in [
            "ip.src",
            "ip.checksum.status",
            "tcp.checksum.status",
            "_ws.malformed",
            "tcp.analysis.retransmission",
            "tcp.analysis.ack_lost_segment",
        ] {
            tshark.args(["-e", field]);
        }
        let output = tshark.arg("-r").arg(&self.file).output().expect("tshark reads");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let row = |line: &str| {
            let cells: Vec<String> = line.split(',').map(str::to_string).collect();
            cells.try_into().unwrap_or_else(|_| panic!("six fields: {line}"))
        };
        text.lines().map(row).collect()
    }

    /// The dissector of another hand finds nothing wrong with what this address sent.
    fn judge(mut self, own: &str) {
        let id = self.program.child.id().to_string();
        let sent = Command::new("kill").args(["-s", "INT", &id]).status();
        assert!(sent.expect("kill runs").success());
        until("tshark has ended", || self.program.child.try_wait().expect("a child"));
        let all = self.read();
        let ours: Vec<&[String; 6]> = all.iter().filter(|row| row[0] == own).collect();
        let many = |of: usize| ours.iter().filter(|row| !row[of].is_empty()).count();
        println!("tshark: {} packets, {} of {own}, {} again", all.len(), ours.len(), many(4));
        assert!(ours.len() > 10, "{} packets were captured", ours.len());
        assert!(ours.iter().all(|row| row[1] == "1" && row[2] == "1"), "a checksum is wrong");
        assert!(all.iter().all(|row| row[3].is_empty()), "a packet is malformed");
        assert_eq!(many(5), 0, "what is acknowledged was seen");
    }
}

/// What an unmodified program serves; it ends with the test.
fn served(bed: &Testbed, host: usize, port: u16, mut command: Command) -> Program {
    let name = format!("{command:?}");
    command.stderr(Stdio::null());
    let program = Program::start(bed, host, command);
    let at = (Plan::address(host as u16), port);
    until(&name, || {
        let opens = || std::net::TcpStream::connect(at).is_ok();
        bed.hosts()[0].within(opens).ok().filter(|open| *open)
    });
    program
}

fn nginx(bed: &Testbed, host: usize, folder: &Path) -> Program {
    let own = folder.join(format!("nginx-{host}"));
    std::fs::create_dir_all(&own).expect("a folder");
    let (own, root) = (own.display(), folder.display());
    let text = format!(
        "daemon off; user root; pid {own}/pid; error_log {own}/error.log;\nevents {{}}\nhttp {{\n\
         access_log off; client_body_temp_path {own}/b; proxy_temp_path {own}/p;\n\
         fastcgi_temp_path {own}/f; uwsgi_temp_path {own}/u; scgi_temp_path {own}/s;\n\
         server {{ listen 80; root {root}; }}\n}}\n"
    );
    let file = folder.join(format!("nginx-{host}.conf"));
    std::fs::write(&file, text).expect("a file");
    let mut nginx = Command::new("nginx");
    nginx.arg("-c").arg(&file);
    served(bed, host, 80, nginx)
}

#[test]
fn nginx_answers_in_turn_and_tshark_finds_no_fault() {
    let Some((_one, bed)) = bed(4) else { return };
    if !there_by("nginx", "-v") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = file(folder.path(), 2_000_000);
    let _servers: Vec<Program> = (1..4).map(|host| nginx(&bed, host, folder.path())).collect();
    // The device is there before the stack, so that it can be listened to.
    let own = ["tuntap", "add", "cavy0", "mode", "tun"];
    for words in [&own[..], &["addr", "add", "10.91.0.254/24", "dev", "cavy0"]] {
        let all = [&["-n", bed.hosts()[0].name()], words].concat();
        tools::run("ip", &all).unwrap_or_else(|error| panic!("{error}"));
    }
    let up = ["-n", bed.hosts()[0].name(), "link", "set", "cavy0", "up"];
    tools::run("ip", &up).unwrap_or_else(|error| panic!("{error}"));
    let capture = Capture::of(&bed, 0, "cavy0", folder.path());
    let out = folder.path().join("copy");
    let mut fetch = command(&["tcp", "fetch", "--prefix", "10.91.0.0/24", "--device", "cavy0"]);
    fetch.args(["--json", "--port-bytes", "32000", "--out"]).arg(&out);
    fetch.args((1..4).map(|host| format!("http://{}/big", Plan::address(host))));
    let (good, _) = says(&bed, 0, fetch);
    assert!(good && std::fs::read(&out).expect("a file") == bytes);
    if let Some(capture) = capture {
        capture.judge("10.91.0.1");
    }
}

#[test]
fn iperf3_and_redis_benchmark_and_python_s_server_pass_the_gate() {
    let Some((_one, bed)) = bed(2) else { return };
    let server = Plan::address(1).to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let maps = [format!("127.0.0.1:6379={server}:6379"), format!("127.0.0.1:8000={server}:8000")];
    let args = ["tcp", "gate", "--before", "clients", "--prefix", "10.91.0.0/24", "--json"];
    let more = ["--port-bytes", "32000", "--map", &maps[0], "--map", &maps[1]];
    let before_clients = Program::ours(&bed, 0, &[&args[..], &more].concat());
    if there("redis-benchmark") && there("redis-server") {
        let mut redis = Command::new("redis-server");
        redis.args(["--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""]);
        redis.args(["--dir"]).arg(folder.path());
        let _redis = served(&bed, 1, 6379, redis);
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-h", "127.0.0.1", "-n", "2000", "-c", "20", "-P", "4", "-d", "2000"]);
        let (good, said) = says(&bed, 0, {
            benchmark.args(["-t", "set,get", "--csv"]);
            benchmark
        });
        let said = String::from_utf8_lossy(&said);
        println!("{said}");
        assert!(good && said.contains("\"SET\"") && said.contains("\"GET\""), "{said}");
    }
    if there("python3") && there("curl") {
        let bytes = file(folder.path(), 500_000);
        let mut python = Command::new("python3");
        python.args(["-m", "http.server", "8000", "--directory"]).arg(folder.path());
        let _python = served(&bed, 1, 8000, python);
        let (good, found) = says(&bed, 0, curl(&["http://127.0.0.1:8000/big"]));
        assert!(good && found == bytes, "{} octets", found.len());
    }
    nothing_was_damaged(&before_clients.end());
    if there("iperf3") {
        let map = format!("10.90.1.1:5201={server}:5201");
        let args = ["tcp", "gate", "--before", "servers", "--prefix", "10.90.1.0/24", "--json"];
        let gate = Program::ours(&bed, 1, &[&args[..], &["--map", &map]].concat());
        for reverse in [&[][..], &["-R"]] {
            // One at a time: it serves once.
            let mut iperf = Command::new("iperf3");
            iperf.args(["-s", "-1"]);
            let _server = Program::start(&bed, 1, iperf);
            let said = until("iperf3 has run", || {
                let mut iperf = Command::new("iperf3");
                iperf.args(["-c", "10.90.1.1", "-n", "4M", "--json"]).args(reverse);
                // Before its server listens it reports an error, and says that all is well.
                let (_, said) = says(&bed, 0, iperf);
                let said: Value = serde_json::from_slice(&said).ok()?;
                said["end"]["sum_received"].is_object().then_some(said)
            });
            let octets = said["end"]["sum_received"]["bytes"].as_u64().expect("a number");
            println!("iperf3 {reverse:?}: {}", said["end"]["sum_received"]);
            // What is under way when the sender says that it is done, iperf3 does not count.
            assert!(octets >= 2 << 20, "{octets}");
        }
        nothing_was_damaged(&gate.end());
    }
}

/// But the kernel's words in IPv6, which it says to every device.
fn nothing_was_damaged(did: &Value) {
    let damaged = did["damaged"].as_object().expect("counters");
    assert!(damaged.keys().all(|why| why == "version"), "{did}");
}

#[test]
fn who_is_stopped_goes_on_and_who_is_killed_is_told_or_missed() {
    let Some((_one, bed)) = bed(2) else { return };
    if !there("curl") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = file(folder.path(), 6_000_000);
    let root = folder.path().to_str().expect("a path");
    let args = ["tcp", "serve", "files", "--prefix", "10.90.1.0/24", "--port", "80", "--json"];
    let args = [&args[..], &["--root", root]].concat();
    let server = Program::ours(&bed, 1, &args);
    let signal = |of: &Program, name: &str| {
        let id = of.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill runs").success());
    };
    let begun = |name: &str| {
        let out = folder.path().join(name);
        let mut curl = curl(&["--limit-rate", "4M", "http://10.90.1.1/big", "--output"]);
        curl.args([out.as_os_str()]).args(["--speed-time", "5", "--speed-limit", "1"]);
        let program = Program::start(&bed, 0, curl);
        until("it has begun", || {
            std::fs::metadata(&out).ok().filter(|meta| meta.len() > 100_000).map(drop)
        });
        (program, out)
    };
    let ended = |of: &mut Program| until("curl has ended", || of.child.try_wait().expect("it"));
    // Stopped for a second: the server, then the client.
    for side in 0..2 {
        let (mut client, out) = begun("stopped");
        signal(if side == 0 { &server } else { &client }, "STOP");
        std::thread::sleep(Duration::from_millis(1_000));
        signal(if side == 0 { &server } else { &client }, "CONT");
        assert!(ended(&mut client).success());
        assert!(std::fs::read(&out).expect("a file") == bytes);
        std::fs::remove_file(out).expect("it is there");
    }
    // A client that is killed is forgotten.
    let (client, _) = begun("killed");
    signal(&client, "KILL");
    drop(client);
    let did = server.end();
    assert_eq!(did["accepted"], 3, "{did}");
    // A server that is killed is missed: the client ends by its own deadline, with nothing wrong
    // in what it has, and the next server has the prefix.
    let server = Program::ours(&bed, 1, &args);
    let (mut client, out) = begun("missed");
    signal(&server, "KILL");
    drop(server);
    let again = Program::ours(&bed, 1, &args);
    assert!(!ended(&mut client).success(), "half a file is no success");
    let found = std::fs::read(&out).expect("a file");
    assert!(found.len() < bytes.len() && bytes.starts_with(&found), "{} octets", found.len());
    let (good, found) = says(&bed, 0, curl(&["http://10.90.1.1/big"]));
    assert!(good && found == bytes, "{} octets", found.len());
    again.end();
}
