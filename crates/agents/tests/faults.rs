//! An agent through loss, doubling, a cut, a peer that stands still, and one that is killed: no
//! round trip that was not. Two hosts, 60 ms apart, on the testbed's line; the peer is a process.
//! Needs root; skipped with a reason elsewhere.

use cavy_agents::{Agent, Options};
use cavy_core::Span;
use cavy_testbed::line::{Line, Plan};
use cavy_testbed::obstacle;
use cavy_testbed::stalls::Stalls;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const RTT_MS: f64 = 60.0;
/// What software may add on a machine that runs every thread at once; a peer that held a probe for
/// longer would show.
const ADDED_MS: f64 = 30.0;
/// Threads that a packet needs on its way there and back: four of the line, two of agents. Each may
/// have to wait as long as the test's own does.
const WAITS: f64 = 6.0;
const PLAN: &str = "seed = 3
[[site]]
name = 'a'
hosts = 1
[[site]]
name = 'b'
hosts = 1
[[path]]
one_way_ms = 30
";

fn options(at: SocketAddr, other: SocketAddr) -> Options {
    let mut options = Options::new(at).at(50.0, 8.0).seeds([other]);
    options.every = Some(Span::from_ms(100));
    options.gossip_every = 3;
    options.store_every = 1;
    options
}

fn words() -> Option<Vec<String>> {
    #[allow(clippy::disallowed_methods)] // the test that starts it says what
    let said = std::env::var("CAVY_PEER").ok()?;
    Some(said.split(' ').map(str::to_string).collect())
}

/// The peer, which the test starts as a process.
#[test]
#[ignore = "the peer of another test, which starts it as a process"]
fn peer_process() {
    let words = words().expect("what to be");
    let (at, other) = (words[0].parse().expect("it"), words[1].parse().expect("it"));
    let mut options = options(at, other).at(48.0, 2.0);
    options.kept = Some(words[2].clone().into());
    let agent = Agent::start(&options).expect("an agent");
    let place = agent.status().expect("it runs").place.expect("a place");
    println!("\nbegins {} {}", place.0, place.1);
    loop {
        let Ok(one) = agent.measurements().recv() else { return };
        println!("measured {}", one.rtt.ms());
    }
}

/// A running peer, what it measures, and where it began.
struct Peer {
    child: Child,
    measured: Receiver<f64>,
    began: (f64, f64),
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn peer(line: &Line, at: SocketAddr, other: SocketAddr, state: &Path) -> Peer {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["peer_process", "--exact", "--ignored", "--nocapture"]);
    command.env("CAVY_PEER", format!("{at} {other} {}", state.display()));
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let child = line.hosts()[1].within(|| command.spawn()).expect("a namespace");
    let mut child = child.expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let began = lines.find_map(|line| {
        let line = line.ok()?;
        let (latitude, longitude) = line.strip_prefix("begins ")?.split_once(' ')?;
        Some((latitude.parse().ok()?, longitude.parse().ok()?))
    });
    let (to, measured) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let ms = line.strip_prefix("measured ").and_then(|ms| ms.parse().ok());
            if ms.is_some_and(|ms| to.send(ms).is_err()) {
                return;
            }
        }
    });
    Peer { child, measured, began: began.expect("it begins") }
}

/// How long the two hosts are parted: `CAVY_PARTITION_S=60` for a minute.
fn cut_s() -> u64 {
    #[allow(clippy::disallowed_methods)] // how long a test may take is the caller's to say
    let asked = std::env::var("CAVY_PARTITION_S").ok().and_then(|seconds| seconds.parse().ok());
    asked.unwrap_or(3)
}

fn signal(peer: &Peer, name: &str) {
    let done = Command::new("kill").args([name, &peer.child.id().to_string()]).status();
    assert!(done.expect("kill is there").success());
}

#[test]
fn faults_give_no_round_trip_that_was_not() {
    if let Some(reason) = obstacle() {
        eprintln!("SKIPPED: {reason}");
        return;
    }
    let line = match Line::up(Plan::read(PLAN).expect("a plan")) {
        Ok(line) => line,
        Err(error) if error.message().contains("/dev/net/tun") => {
            eprintln!("SKIPPED: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let at = |host: usize| SocketAddr::from((line.plan().hosts[host].address, 7_946));
    let (a, b) = (at(0), at(1));
    let state = folder.path().join("coordinate");
    let mut other = peer(&line, b, a, &state);
    let started = line.hosts()[0].within(|| Agent::start(&options(a, b)));
    let agent = started.expect("a namespace").expect("an agent");
    let change = |words: &[&str]| {
        line.change(&line.plan().rule(words).expect("a rule")).expect("an order");
    };
    let stalls = Stalls::watch();
    let cut_s = cut_s();
    println!("fault: measured here, there; farthest from {RTT_MS} ms; longest wait of a thread");
    // For so long at least, and until so much was measured here.
    let look = |fault: &str, other: &Peer, ms: u64, least: usize| {
        let began = cavy_clock::now();
        let (mut here, mut there) = (Vec::new(), Vec::new());
        loop {
            std::thread::sleep(Duration::from_millis(20));
            here.extend(agent.measurements().try_iter().map(|one| one.rtt.ms()));
            there.extend(other.measured.try_iter());
            let passed = cavy_clock::now().since(began);
            if passed >= Span::from_ms(ms) && here.len() >= least {
                break;
            }
            assert!(passed < Span::from_ms(60_000), "{fault}: {} measured", here.len());
        }
        let apart = here.iter().chain(&there).map(|ms| (ms - RTT_MS).abs()).fold(0.0, f64::max);
        let waited = stalls.worst().as_us() / 1e3;
        println!("{fault}: {}, {}; {apart:.2} ms; {waited:.1} ms", here.len(), there.len());
        assert!(apart < ADDED_MS + WAITS * waited, "{fault}: {here:?} {there:?}");
    };
    look("none", &other, 2_000, 5);
    change(&["loss_ratio=0.3"]);
    look("loss of 30 %", &other, 3_000, 3);
    change(&["loss_ratio=0", "copy_ratio=0.5"]);
    look("half doubled", &other, 2_000, 5);
    change(&["copy_ratio=0", "cut=true"]);
    look(&format!("cut for {cut_s} s"), &other, cut_s * 1_000, 0);
    change(&["cut=false"]);
    look("after it", &other, 1_500, 3);
    signal(&other, "-STOP");
    std::thread::sleep(Duration::from_millis(5_000));
    signal(&other, "-CONT");
    look("peer stopped for 5 s", &other, 2_000, 3);
    let counted = agent.status().expect("it runs").counters;
    let refused = counted.malformed + counted.unproven;
    println!(
        "refused {refused}, repeated {}, late or doubled {}",
        counted.repeated, counted.unasked
    );
    other.child.kill().expect("killed");
    other.child.wait().expect("gone");
    let again = peer(&line, b, a, &state);
    let (from, to) = (other.began, again.began);
    assert!((from.0 - 48.0).abs() < 1e-3, "it began where it was told: {from:?}");
    assert!((to.0 - from.0).abs() + (to.1 - from.1).abs() > 0.01, "it goes on: {to:?}");
    while agent.measurements().try_recv().is_ok() {}
    look("peer killed and back", &again, 2_000, 3);
}
