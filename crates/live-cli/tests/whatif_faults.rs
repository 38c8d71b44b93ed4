//! Faults while services stand: whatever dies, nobody stays frozen and no request fails.
//!
//! `CAVY_FAULTS=300 cargo test -p cavy-live-cli --test whatif_faults -- --nocapture` prints the
//! table of so many faults; without it there is one of each kind. `CAVY_FAULTS_S=300` ends it after
//! so many seconds. Needs root, cgroup v2 and performance events; else it says SKIPPED.

mod cavy_live;

use cavy_groups::refuse::Mounts;
use cavy_live::{Server, call, command, now, parse, until};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Until when a group may stand.
const LEASE: Duration = Duration::from_millis(200);
/// What is asked for beyond it, on a quiet machine.
const AIM: Duration = Duration::from_millis(50);
/// The number after this one is the next that the kernel gives away.
const LAST_NUMBER: &str = "/proc/sys/kernel/ns_last_pid";
/// What no machine may need.
const MOST: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fault {
    GovernorKilled,
    GuardKilled,
    BothKilled,
    AllKilled,
    GovernorStopped,
    ServiceRestarts,
    ServiceForks,
    PidUsedAgain,
    TwoGovernors,
}

impl Fault {
    const ALL: [Fault; 9] = [
        Fault::GovernorKilled,
        Fault::GuardKilled,
        Fault::BothKilled,
        Fault::AllKilled,
        Fault::GovernorStopped,
        Fault::ServiceRestarts,
        Fault::ServiceForks,
        Fault::PidUsedAgain,
        Fault::TwoGovernors,
    ];
}

fn environment(name: &str) -> Option<u64> {
    std::env::var_os(name).and_then(|text| text.to_str()?.parse().ok())
}

fn kill(pid: &str, signal: &str) {
    let sent = std::process::Command::new("kill").args(["-s", signal, pid]).status();
    assert!(sent.expect("kill runs").success(), "kill -s {signal} {pid}");
}

/// Folders of all services on a stage.
fn stages(unified: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        dirs.map(|entry| entry.path()).collect()
    };
    let ours = |path: &PathBuf| {
        path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("cavy-whatif-"))
    };
    below(unified).into_iter().filter(ours).flat_map(|stage| below(&stage)).collect()
}

fn stands(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.events")).is_ok_and(|text| text.contains("frozen 1"))
}

/// Sees from outside how long groups stand.
struct Watcher {
    over: Arc<AtomicBool>,
    longest: Arc<Mutex<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    fn start(unified: PathBuf) -> Watcher {
        let over = Arc::new(AtomicBool::new(false));
        let longest = Arc::new(Mutex::new(Duration::ZERO));
        let (end, found) = (Arc::clone(&over), Arc::clone(&longest));
        let watch = move || {
            cavy_groups::go_first();
            let (mut dirs, mut looked) = (Vec::new(), now());
            let mut since = BTreeMap::new();
            while !end.load(Ordering::Relaxed) {
                if dirs.is_empty() || looked.elapsed() > Duration::from_millis(20) {
                    (dirs, looked) = (stages(&unified), now());
                }
                for dir in &dirs {
                    if stands(dir) {
                        let begun = *since.entry(dir.clone()).or_insert_with(now);
                        let mut longest = found.lock().expect("nobody panics with it");
                        *longest = begun.elapsed().max(*longest);
                    } else {
                        since.remove(dir);
                    }
                }
                std::thread::sleep(Duration::from_micros(500));
            }
        };
        Watcher { over, longest, thread: Some(std::thread::spawn(watch)) }
    }

    /// The longest freeze since it was last asked.
    fn take(&self) -> Duration {
        std::mem::take(&mut self.longest.lock().expect("nobody panics with it"))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A client of a service that nobody kills.
struct Client {
    over: Arc<AtomicBool>,
    counts: Arc<[AtomicU64; 2]>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    fn start(at: SocketAddr) -> Client {
        let over = Arc::new(AtomicBool::new(false));
        let counts: Arc<[AtomicU64; 2]> = Arc::default();
        let (end, count) = (Arc::clone(&over), Arc::clone(&counts));
        let ask = move || {
            while !end.load(Ordering::Relaxed) {
                let answered = get(at).is_ok_and(|status| status == 200);
                count[usize::from(answered)].fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(3));
            }
        };
        Client { over, counts, thread: Some(std::thread::spawn(ask)) }
    }

    fn failed(&self) -> u64 {
        self.counts[0].load(Ordering::Relaxed)
    }

    fn answered(&self) -> u64 {
        self.counts[1].load(Ordering::Relaxed)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn get(at: SocketAddr) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /get/key1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(parse(&answer).0)
}

struct Scene {
    unified: PathBuf,
    one: Server,
    other: Server,
}

impl Scene {
    fn governor(&self, more: &[String]) -> Child {
        let one = format!("--service=one=pid:{}", self.one.id());
        let other = format!("--service=other=pid:{}", self.other.id());
        let load = format!("--load=http://{}/get/key1", self.one.http);
        let mut args = vec!["whatif", &one, &other, &load, "--rounds=500", "--clients=4"];
        args.extend(["--faster=30%", "--window=200ms", "--settle=50ms"]);
        args.extend(more.iter().map(String::as_str));
        let mut command = command(&args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts")
    }

    /// Waits until a group stands.
    fn until_frozen(&self) {
        let begun = now();
        while !stages(&self.unified).iter().any(|dir| stands(dir)) {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody is stopped");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Waits until no stage is left; how long that took.
    fn until_free(&self) -> Duration {
        let begun = now();
        while !stages(&self.unified).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", stages(&self.unified));
            std::thread::sleep(Duration::from_millis(1));
        }
        begun.elapsed()
    }
}

/// The only child of `parent`.
fn child(parent: u32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next().map(str::to_string)
}

/// The same, waited for: the guard of a Governor, or the second one of a guard.
fn child_of(parent: u32) -> String {
    until("its child is there", || child(parent))
}

/// When a process started, in ticks since boot: with its number it is the process.
fn started(pid: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may hold anything; the start is the 20th word after it.
    text.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_string)
}

fn end(mut governor: Child) {
    let _ = std::process::Command::new("kill")
        .args(["-s", "INT", &governor.id().to_string()])
        .stderr(Stdio::null())
        .status();
    governor.wait().expect("it ends");
}

/// Makes one fault; how long until everybody was free.
fn fault(kind: Fault, scene: &mut Scene) -> Duration {
    match kind {
        Fault::GovernorKilled => {
            let mut governor = scene.governor(&[]);
            scene.until_frozen();
            governor.kill().expect("it runs");
            governor.wait().expect("it ends");
        }
        Fault::GuardKilled => {
            let mut governor = scene.governor(&[]);
            let guard = child_of(governor.id());
            scene.until_frozen();
            kill(&guard, "KILL");
            assert_eq!(governor.wait().expect("it ends").code(), Some(1));
        }
        Fault::BothKilled => {
            let mut governor = scene.governor(&[]);
            let guard = child_of(governor.id());
            child_of(guard.parse().expect("a number"));
            scene.until_frozen();
            // Stopped first, so that neither helps when the other is gone.
            kill(&governor.id().to_string(), "STOP");
            kill(&guard, "KILL");
            governor.kill().expect("it is there");
            governor.wait().expect("it ends");
        }
        Fault::AllKilled => {
            let mut governor = scene.governor(&[]);
            let guard = child_of(governor.id());
            let second = child_of(guard.parse().expect("a number"));
            scene.until_frozen();
            for pid in [&second, &governor.id().to_string()] {
                kill(pid, "STOP");
            }
            for pid in [&guard, &second] {
                kill(pid, "KILL");
            }
            governor.kill().expect("it is there");
            governor.wait().expect("it ends");
            let thawed = call(&["whatif", "thaw"]);
            assert!(thawed.status.success(), "{}", String::from_utf8_lossy(&thawed.stderr));
        }
        Fault::GovernorStopped => {
            let governor = scene.governor(&[]);
            scene.until_frozen();
            kill(&governor.id().to_string(), "STOP");
            std::thread::sleep(Duration::from_secs(1));
            let standing: Vec<PathBuf> =
                stages(&scene.unified).into_iter().filter(|dir| stands(dir)).collect();
            assert!(standing.is_empty(), "the guard let {standing:?} stand");
            kill(&governor.id().to_string(), "CONT");
            end(governor);
        }
        Fault::ServiceRestarts => {
            let governor = scene.governor(&[]);
            scene.until_frozen();
            scene.one.signal("KILL");
            let again = Server::start(&["--workers", "1"]);
            assert_eq!(get(again.http).expect("it answers"), 200, "nobody stops the new one");
            scene.one = again;
            end(governor);
        }
        Fault::ServiceForks => {
            let mut forks = std::process::Command::new("sh");
            forks.args(["-c", "while :; do sleep 0.005 & wait; done"]);
            let mut forks = forks.spawn().expect("sh runs");
            let mut governor = scene.governor(&[format!("--service=forks=pid:{}", forks.id())]);
            for _ in 0..3 {
                scene.until_frozen();
                std::thread::sleep(Duration::from_millis(20));
            }
            scene.until_frozen();
            governor.kill().expect("it runs");
            governor.wait().expect("it ends");
            let free = scene.until_free();
            forks.kill().expect("it runs");
            forks.wait().expect("it ends");
            return free;
        }
        Fault::PidUsedAgain => return pid_used_again(scene),
        Fault::TwoGovernors => {
            let governor = scene.governor(&[]);
            scene.until_frozen();
            let mut second = scene.governor(&[]);
            assert_eq!(second.wait().expect("it ends").code(), Some(2), "the second is refused");
            end(governor);
        }
    }
    scene.until_free()
}

/// A shell that buries its child and has the next one at once, and that child. The number of the
/// shell is the lower one, so that it counts as the first process of its service.
fn shell_with_child() -> (Child, String) {
    loop {
        let mut shell = std::process::Command::new("sh");
        let mut shell = shell.args(["-c", "while :; do sleep 60; done"]).spawn().expect("sh runs");
        let child = child_of(shell.id());
        if shell.id() < child.parse().expect("a number") {
            return (shell, child);
        }
        shell.kill().expect("it runs");
        shell.wait().expect("it ends");
        kill(&child, "KILL");
    }
}

/// A service's process ends while it stands, its number goes to another one of the service, and the
/// Governor is killed: whoever lets groups go on must not take the new process for the old one.
fn pid_used_again(scene: &Scene) -> Duration {
    // Where the first child comes from, and its heir does not.
    let home = scene.unified.join(format!("cavy-fault-{}", std::process::id()));
    fs::create_dir_all(&home).expect("a control group");
    for _ in 0..20 {
        let (mut parent, first) = shell_with_child();
        fs::write(home.join("cgroup.procs"), &first).expect("it moves");
        let mut governor = scene.governor(&[format!("--service=heirs=pid:{}", parent.id())]);
        let last = heir_of(scene, parent.id(), &first);
        let mut free = None;
        if last == first {
            scene.until_frozen();
            governor.kill().expect("it runs");
            governor.wait().expect("it ends");
            free = Some(scene.until_free());
            let group = fs::read_to_string(format!("/proc/{first}/cgroup")).expect("it lives");
            assert!(!group.contains("cavy-fault"), "the heir never was there: {group}");
        } else {
            end(governor);
        }
        parent.kill().expect("it runs");
        parent.wait().expect("it ends");
        kill(&last, "KILL");
        if let Some(free) = free {
            until("nobody is in it", || fs::remove_dir(&home).ok());
            return free;
        }
    }
    panic!("others took the number each time");
}

/// Ends children of `parent` while they stand until one has the number of the `first`, or others
/// keep it; the child that is there then.
fn heir_of(scene: &Scene, parent: u32, first: &str) -> String {
    let before = first.parse::<u32>().expect("a number") - 1;
    let mut one = first.to_string();
    for _ in 0..3 {
        // Two that start within a tick of the kernel, 10 ms, and have one number look the same.
        std::thread::sleep(Duration::from_millis(25));
        scene.until_frozen();
        let dead = started(&one).expect("it lives");
        kill(&one, "KILL");
        let begun = now();
        one = loop {
            // Anybody may take the number before the shell does: it is offered again and again.
            fs::write(LAST_NUMBER, before.to_string()).expect("root may");
            let other = |heir: &String| *heir != one || started(heir).is_some_and(|at| at != dead);
            if let Some(heir) = child(parent).filter(other) {
                break heir;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody follows {one}");
            std::thread::sleep(Duration::from_micros(100));
        };
        if one == first {
            break;
        }
    }
    one
}

#[derive(Default)]
struct Row {
    faults: u32,
    longest: Duration,
    beyond: Duration,
    free: Duration,
}

#[test]
fn nobody_stays_frozen_whatever_dies() {
    let one = Server::start(&["--workers", "1"]);
    let checked = call(&["whatif", "check", &format!("--service=s=pid:{}", one.id())]);
    if !checked.status.success() {
        println!("SKIPPED: {}", String::from_utf8_lossy(&checked.stderr));
        return;
    }
    let other = Server::start(&["--workers", "1"]);
    let client = Client::start(other.http);
    let unified = Mounts::find().expect("cgroup v2").unified;
    let watcher = Watcher::start(unified.clone());
    let mut scene = Scene { unified, one, other };
    let faults = environment("CAVY_FAULTS").unwrap_or(Fault::ALL.len() as u64);
    let seconds = environment("CAVY_FAULTS_S").unwrap_or(3_600);
    let begun = now();
    let mut table: BTreeMap<Fault, Row> = BTreeMap::new();
    for number in 0..faults {
        if begun.elapsed() > Duration::from_secs(seconds) {
            break;
        }
        let kind = Fault::ALL[number as usize % Fault::ALL.len()];
        watcher.take();
        let free = fault(kind, &mut scene);
        let row = table.entry(kind).or_default();
        row.faults += 1;
        row.free = row.free.max(free);
        row.longest = row.longest.max(watcher.take());
        row.beyond = row.longest.saturating_sub(LEASE);
        assert_eq!(get(scene.other.http).expect("it answers"), 200, "after {kind:?}");
    }
    println!("fault            faults  longest ms  beyond its lease ms  free after ms");
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    for (kind, row) in &table {
        let name = format!("{kind:?}");
        let (longest, beyond, free) = (ms(row.longest), ms(row.beyond), ms(row.free));
        println!("{name:<16} {:>6} {longest:>11.1} {beyond:>20.1} {free:>14.1}", row.faults);
    }
    let all: u32 = table.values().map(|row| row.faults).sum();
    println!("{all} faults; {} requests, {} failed", client.answered(), client.failed());
    for (kind, row) in &table {
        // When all are dead nobody keeps leases until the next start; with a number used again
        // they have been dead from the beginning.
        let kept = !matches!(kind, Fault::AllKilled | Fault::PidUsedAgain);
        if kept && row.beyond > AIM {
            println!("{kind:?}: beyond {AIM:?}; is the machine busy?");
        }
        assert!(row.beyond < MOST, "{kind:?}: {:?} beyond the lease", row.beyond);
    }
    assert_eq!(client.failed(), 0, "of {} requests", client.answered() + client.failed());
}
