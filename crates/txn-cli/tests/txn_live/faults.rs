//! kill -9, silence and wrong clocks while clients append to lists, and what the checker says.

use super::cluster::Cluster;
use super::resp::{Client, Reply};
use cavy_check::{Model, Options, judge, read};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Lists that are appended to and read, four in each region.
const KEYS: u64 = 8;

/// The history of clients that run until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    lines: Arc<Mutex<String>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

fn key(number: u64) -> String {
    format!("{{r{}}}:{number}", number % 2)
}

impl Load {
    /// `clients` clients, spread over `ports`; each turns to the next port when its node is gone.
    fn start(ports: Vec<u16>, clients: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let lines = Arc::new(Mutex::new(String::new()));
        let answered = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let start = |client: u64| {
            let (stop, lines, ports) = (stop.clone(), lines.clone(), ports.clone());
            let answered = answered.clone();
            std::thread::spawn(move || {
                // The first client asks at the first port, the second at the second.
                let mut at = client as usize + ports.len() - 2;
                let mut connection = None;
                let mut draws = client * 7_919 + 1;
                let mut draw = |n: u64| {
                    draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (draws >> 33) % n
                };
                let mut number = 0;
                while !stop.load(Relaxed) {
                    let port = ports[at % ports.len()];
                    let Some(talk) = connection.as_mut() else {
                        at += 1;
                        connection = Client::connect(ports[at % ports.len()]).ok();
                        std::thread::sleep(Duration::from_millis(20));
                        continue;
                    };
                    number += 1;
                    let home = u64::from(port % 2);
                    // Nine of ten stay within one region, which may be another one than the node's.
                    let across = draw(10) == 0;
                    let first = draw(KEYS / 2) * 2 + home;
                    let second = if across { (first + 1) % KEYS } else { (first + 2) % KEYS };
                    let value = client * 1_000_000 + number;
                    let invoke = began.elapsed().as_nanos();
                    let lines_of = [
                        format!("RPUSH {} {value}", key(first)),
                        format!("LRANGE {} 0 -1", key(second)),
                    ];
                    let done = talk.exec(&lines_of);
                    let complete = began.elapsed().as_nanos();
                    let mut line = String::new();
                    let mut regions = vec![first % 2, second % 2];
                    regions.dedup();
                    let head = format!(
                        "{{\"txn\":\"{client}:{number}\",\"client\":{client},\
                         \"regions\":{regions:?},\"invoke_ns\":{invoke},"
                    );
                    let append = format!("[\"append\",\"{}\",{value}]", key(first));
                    match done {
                        Ok(Reply::List(replies)) => {
                            let Some(Reply::List(items)) = replies.get(1) else {
                                panic!("{replies:?}")
                            };
                            let items: Vec<&str> = items
                                .iter()
                                .map(|item| match item {
                                    Reply::Text(text) => text.as_str(),
                                    other => panic!("{other:?}"),
                                })
                                .collect();
                            let read = format!("[\"r\",\"{}\",[{}]]", key(second), items.join(","));
                            let _ = writeln!(
                                line,
                                "{head}\"complete_ns\":{complete},\"ops\":[{append},{read}]}}"
                            );
                            answered.fetch_add(1, Relaxed);
                        }
                        other => {
                            // Nobody knows; the node is gone, or says that it does not know.
                            let _ = writeln!(
                                line,
                                "{head}\"outcome\":\"unknown\",\"ops\":[{append}]}}"
                            );
                            if other.is_err() {
                                connection = None;
                            }
                        }
                    }
                    lines.lock().unwrap().push_str(&line);
                    std::thread::sleep(Duration::from_millis(5));
                }
            })
        };
        let threads = (1..=clients).map(start).collect();
        Load { stop, answered, lines, threads }
    }

    /// Waits until so many more are answered.
    fn more(&self, many: u64) {
        let (began, before) = (Instant::now(), self.answered.load(Relaxed));
        while self.answered.load(Relaxed) < before + many {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is answered any more");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(self, last: &mut Client) -> String {
        self.stop.store(true, Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        // What is there in the end: nothing that was answered may be missing.
        let mut text = self.lines.lock().unwrap().clone();
        let reads: Vec<String> = (0..KEYS).map(|k| format!("LRANGE {} 0 -1", key(k))).collect();
        let Reply::List(lists) = last.exec(&reads).unwrap() else { panic!("no last read") };
        let mut ops = Vec::new();
        for (place, list) in lists.iter().enumerate() {
            let Reply::List(items) = list else { panic!("{list:?}") };
            let items: Vec<String> = items
                .iter()
                .map(|item| if let Reply::Text(text) = item { text.clone() } else { panic!() })
                .collect();
            ops.push(format!("[\"r\",\"{}\",[{}]]", key(place as u64), items.join(",")));
        }
        let _ =
            writeln!(text, "{{\"txn\":\"last\",\"regions\":[0,1],\"ops\":[{}]}}", ops.join(","));
        text
    }
}

#[track_caller]
fn judged(history: &str) {
    if let Ok(path) = std::env::var("CAVY_HISTORY") {
        std::fs::write(path, history).unwrap();
    }
    let history = read::read(history.as_bytes(), None).expect("a history");
    let options = Options { model: Model::Serializable, shown: 5 };
    let verdict = judge(&history, options).expect("values are told apart");
    assert!(verdict.holds, "{:#?}", verdict.counts);
    // In real time within one region, all but transactions across regions are in order.
    eprintln!(
        "{} committed, {} unknown, {} operations: serializable; {:?}",
        verdict.committed, verdict.unknown, verdict.operations, verdict.counts
    );
}

#[test]
fn nothing_answered_is_lost_when_replicas_managers_and_coordinators_are_killed() {
    let mut cluster = Cluster::start("2x1x3", 12, &["--fail-after-ms", "1000", "--record"]);
    // Nodes 0 to 2 are region r0, 3 to 5 are r1; 6 to 8 and 9 to 11 are their stewards.
    let load = Load::start((0..6).map(|node| cluster.at(node)).collect(), 4);
    load.more(50);
    // A replica that coordinates.
    cluster.kill(1);
    load.more(50);
    cluster.until("it is out of the view", 0, |line| column(line, "live") == "2");
    let revived = cluster.revive(1);
    cluster.until("it is back in", 0, |line| column(line, "live") == "3");
    cluster.until("it has its state", 1, |line| column(line, "ready") == "true");
    assert_eq!(column(&cluster.status()[1], "life"), "2");
    load.more(30);
    // The manager of the other region.
    cluster.kill(9);
    load.more(30);
    // Silence that is no death, and clocks that step.
    cluster.stop_for(3, Duration::from_millis(300));
    for by in ["5000", "-5000"] {
        let mut client = Client::connect(cluster.at(4)).unwrap();
        assert_eq!(client.ask(&format!("CAVY CLOCK {by}")).unwrap(), Reply::Text("OK".into()));
        load.more(20);
    }
    let history = load.end(&mut Client::connect(cluster.at(0)).unwrap());
    judged(&history);
    drop(revived);
    // A fresh machine decides what each node was told, those that were killed included.
    let files: Vec<_> =
        (0..12).map(|node| cluster.folder.path().join(format!("node-{node}.life-1.rec"))).collect();
    std::thread::sleep(Duration::from_millis(400));
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
        .arg("replay")
        .args(&files[..2])
        .args(&files[9..10])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        out.status.success() && text.lines().count() == 3,
        "{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(text.lines().nth(1).unwrap().contains("up to where it was killed"), "{text}");
}

/// Faults drawn by a seed, one after the other, while clients run. `CAVY_SEEDS=N` tries seeds 1 to
/// N; without it, three are tried.
#[test]
fn schedules_of_faults_lose_nothing() {
    let seeds = std::env::var("CAVY_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 1..=seeds.unwrap_or(3u64) {
        eprintln!("CAVY_SEEDS={seed} cargo test -p cavy-txn-cli --test txn_live schedules");
        let mut cluster = Cluster::start("2x1x3", 12, &["--fail-after-ms", "1000"]);
        let load = Load::start((0..6).map(|node| cluster.at(node)).collect(), 3);
        let mut draws = seed;
        let mut draw = |n: u64| {
            draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
            (draws >> 33) % n
        };
        let mut revived = Vec::new();
        let mut killed: Vec<usize> = Vec::new();
        for _ in 0..3 {
            let node = draw(12) as usize;
            let fault = if killed.contains(&node) { 2 } else { draw(4) };
            eprintln!(
                "  node {node}: {}",
                ["kill -9", "kill -9", "silence", "clock"][fault as usize]
            );
            match fault {
                0 | 1 => {
                    killed.push(node);
                    cluster.kill(node);
                    load.more(5);
                    revived.push(cluster.revive(node));
                    cluster.until("it is back", node, |line| column(line, "ready") == "true");
                }
                2 if !killed.contains(&node) => {
                    cluster.stop_for(node, Duration::from_millis(300));
                }
                _ => {
                    let by = if draw(2) == 0 { 5_000 } else { -5_000 };
                    let mut client = Client::connect(cluster.at(node as u16 % 6)).unwrap();
                    client.ask(&format!("CAVY CLOCK {by}")).unwrap();
                }
            }
            load.more(15);
        }
        let history = load.end(&mut Client::connect(cluster.at(5)).unwrap());
        judged(&history);
    }
}

/// A value of a line of `status`, by the name of its column.
fn column<'a>(line: &'a str, name: &str) -> &'a str {
    let names =
        ["ready", "life", "view", "live", "steward", "backlog", "coordinating", "peers_up", "late"];
    let place = names.iter().position(|known| *known == name).unwrap();
    let values: Vec<&str> = line.split_whitespace().collect();
    // A part has four words: r0 shard 0 replica 1; a steward's has three.
    let skipped = if line.contains("steward ") { 4 } else { 6 };
    values.get(skipped + place).copied().unwrap_or("")
}
