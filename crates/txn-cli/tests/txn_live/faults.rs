//! What goes wrong while clients append to lists: nodes are killed, stand still, are cut off or
//! find their disks full, and clocks step. Then the checker judges the clients' history.
//!
//! With `CAVY_FAIL_AFTER_MS`, a node is taken for failed after another time than 1,000 ms, which
//! leaves room for a machine that is busy. With `CAVY_STALLS=1`, on a machine that does nothing
//! else, answers may take no longer than the specification allows; by itself it is only said how
//! long they took.

use super::cluster::Cluster;
use super::load::{Load, judged};
use super::resp::{Client, Reply};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What goes wrong.
#[derive(Clone, Debug)]
enum Fault {
    /// kill -9 of all these at one moment. They are started again when clients have gone on.
    Kill(Vec<u16>),
    /// The same with the steward that leads a region.
    Leader(u16),
    /// A node stands still for so many milliseconds.
    Still(u16, u64),
    /// The clock of a replica is stepped by so many milliseconds.
    Clock(u16, i64),
    /// Nothing passes between a region and the other one for so many milliseconds.
    CutOff(u16, u64),
    /// Nobody hears a replica, and as soon as it is out of the view its steward is killed.
    CutThenLeader(u16),
    /// kill -9 of all these at one moment; all are started again, and have what nobody else has.
    Power(Vec<u16>),
    /// Every node ends as it is told to and is started again, one after the other.
    Rolling,
    /// The disk of a node is full until the node has found so and others have gone on.
    Full(u16),
}

/// A cluster of the regions r0 and r1, and its clients.
struct Town {
    cluster: Cluster,
    load: Load,
    shards: u16,
    has_stewards: bool,
    /// How far the clocks of one region may be ahead of those of the other, in milliseconds: a
    /// transaction across regions waits for those that are behind.
    ahead: u64,
}

fn fail_after() -> u64 {
    std::env::var("CAVY_FAIL_AFTER_MS").map_or(1_000, |ms| ms.parse().expect("milliseconds"))
}

impl Town {
    fn start(shards: u16, clients: u64, more: &[&str]) -> Town {
        Town::start_in(tempfile::tempdir().unwrap(), shards, clients, more)
    }

    fn start_in(folder: tempfile::TempDir, shards: u16, clients: u64, more: &[&str]) -> Town {
        let has_stewards = !more.contains(&"two-phase");
        let nodes = 6 * shards + if has_stewards { 6 } else { 0 };
        let (shape, patience) = (format!("2x{shards}x3"), fail_after().to_string());
        let more =
            [&["--wan", "carrier", "--within-ms", "0.5", "--across-ms", "10"], more].concat();
        let more = [&["--fail-after-ms", &patience], &more[..]].concat();
        let cluster = Cluster::start_in(folder, &shape, nodes, &more);
        let replicas = (0..6 * shards).map(|node| (cluster.at(node), u64::from(node / shards / 3)));
        let load = Load::start(replicas.collect(), clients);
        load.more(40);
        Town { cluster, load, shards, has_stewards, ahead: 0 }
    }

    fn region_of(&self, node: u16) -> u16 {
        let replicas = 6 * self.shards;
        if node < replicas { node / (3 * self.shards) } else { (node - replicas) / 3 }
    }

    fn nodes_of(&self, region: u16) -> Vec<u16> {
        (0..self.cluster.pids.len() as u16).filter(|node| self.region_of(*node) == region).collect()
    }

    /// A replica of a region, and what it says of itself.
    fn first(&self, region: u16) -> usize {
        usize::from(region * self.shards * 3)
    }

    fn leader(&self, region: u16) -> u16 {
        let status = self.cluster.status();
        column(&status[self.first(region)], "steward").parse().expect("a number")
    }

    /// Waits until these nodes have their state and every replica is in its region's view.
    fn whole(&self, nodes: &[u16]) {
        for node in nodes {
            let ready = |line: &str| column(line, "ready") == "true";
            self.cluster.until("it has its state", usize::from(*node), ready);
        }
        for region in (0..2).filter(|_| self.has_stewards) {
            let all = (3 * self.shards).to_string();
            self.cluster.until("all are in", self.first(region), |l| column(l, "live") == all);
        }
    }

    /// Says `CUT` or `MEND` for all nodes of `to` to each of `from` that is a replica.
    fn ways(&self, word: &str, from: &[u16], to: &[u16]) {
        for node in from.iter().filter(|node| **node < 6 * self.shards) {
            let mut client = Client::connect(self.cluster.at(*node)).unwrap();
            for other in to.iter().filter(|other| *other != node) {
                let said = client.ask(&format!("CAVY {word} {other}")).unwrap();
                assert_eq!(said, Reply::Text("OK".into()));
            }
        }
    }

    fn restart(&mut self, nodes: &[u16]) {
        nodes.iter().for_each(|node| self.cluster.revive(usize::from(*node)));
        self.whole(nodes);
    }

    fn kill(&mut self, nodes: &[u16]) {
        nodes.iter().for_each(|node| self.cluster.kill(usize::from(*node)));
        self.load.more(30);
        self.restart(nodes);
    }

    /// Lets it happen, and waits until it is over and clients go on. Says how long the longest
    /// answers took.
    fn suffer(&mut self, fault: &Fault) {
        let since = Instant::now();
        match fault {
            Fault::Kill(nodes) => self.kill(nodes),
            Fault::Leader(region) => {
                let leader = self.leader(*region);
                self.kill(&[leader]);
            }
            Fault::Still(node, ms) => {
                self.cluster.stop_for(usize::from(*node), Duration::from_millis(*ms));
                self.load.more(20);
                // Whoever was taken out though it had not failed comes back.
                self.whole(&[*node]);
            }
            Fault::Clock(node, by) => {
                let mut client = Client::connect(self.cluster.at(*node)).unwrap();
                let said = client.ask(&format!("CAVY CLOCK {by}")).unwrap();
                assert_eq!(said, Reply::Text("OK".into()));
                self.ahead += by.unsigned_abs();
                self.load.more(20);
            }
            Fault::CutOff(region, ms) => self.cut_off(*region, Duration::from_millis(*ms)),
            Fault::CutThenLeader(replica) => self.cut_then_leader(*replica),
            Fault::Power(nodes) => {
                self.cluster.kill_at_once(nodes);
                self.restart(nodes);
            }
            Fault::Rolling => {
                for node in 0..self.cluster.pids.len() as u16 {
                    self.cluster.end_node(usize::from(node));
                    self.restart(&[node]);
                }
            }
            Fault::Full(node) => self.full(*node),
        }
        self.load.more(20);
        let (longest, lag) = (self.load.longest(since), self.load.lag(since));
        eprintln!(
            "  {fault:?}: longest answers {} ms within r0, {} within r1, {} others; a sleeper was \
             late by {} ms",
            longest[0].as_millis(),
            longest[1].as_millis(),
            longest[2].as_millis(),
            lag.as_millis()
        );
        // A sleeper is late by milliseconds where nodes wait for hundreds for a processor.
        if std::env::var_os("CAVY_STALLS").is_none() {
            return;
        }
        for (found, may) in longest.iter().zip(self.stalls(fault)) {
            // An answer takes some ten hops, and each of them may be as late as a sleeper.
            let may = may.map(|ms| Duration::from_millis(ms) + 20 * lag);
            assert!(may.is_none_or(|may| *found <= may), "{fault:?}: {found:?} of {may:?}");
        }
    }

    /// How long an answer within r0, within r1 and any other may take, in milliseconds `[dast E7]`.
    /// There a node has failed after 100 ms, and a transaction across regions is looked after when
    /// it is 500 ms old.
    fn stalls(&self, fault: &Fault) -> [Option<u64>; 3] {
        let patience = fail_after();
        let usual = Some(60);
        let (region, own, across) = match fault {
            _ if !self.has_stewards => return [None; 3],
            Fault::Kill(nodes) if nodes.len() == 1 && nodes[0] < 6 * self.shards => {
                (self.region_of(nodes[0]), Some(patience + 60), Some(patience + 730))
            }
            Fault::Leader(region) => (*region, Some(patience + 180), Some(patience + 430)),
            Fault::Still(node, ms) if *ms < patience => {
                (self.region_of(*node), Some(ms + 60), Some(ms + 730))
            }
            // The region itself goes on too; what crosses waits.
            Fault::CutOff(region, _) => (*region, usual, None),
            Fault::Clock(node, _) => (self.region_of(*node), usual, Some(60)),
            _ => return [None; 3],
        };
        let mut all = [usual, usual, across.map(|ms| ms + self.ahead)];
        all[usize::from(region)] = own;
        all
    }

    /// The region goes on by itself.
    fn cut_off(&mut self, region: u16, span: Duration) {
        let (these, those) = (self.nodes_of(region), self.nodes_of(1 - region));
        for (from, to) in [(&these, &those), (&those, &these)] {
            self.ways("CUT", from, to);
        }
        let until = Instant::now() + span;
        let mut own = Client::connect(self.cluster.at(self.first(region) as u16 + 1)).unwrap();
        let key = format!("{{r{region}}}:own");
        let Reply::Int(mut number) = own.ask(&format!("INCR {key}")).unwrap() else { panic!() };
        let first = number;
        while Instant::now() < until {
            number += 1;
            assert_eq!(own.ask(&format!("INCR {key}")).unwrap(), Reply::Int(number));
        }
        let answered = (number - first) as u64;
        assert!(answered > 4 * span.as_secs(), "it hardly goes on: {answered} in {span:?}");
        for (from, to) in [(&these, &those), (&those, &these)] {
            self.ways("MEND", from, to);
        }
        self.load.more(30);
    }

    fn cut_then_leader(&mut self, replica: u16) {
        let region = self.region_of(replica);
        let all: Vec<u16> = (0..self.cluster.pids.len() as u16).collect();
        let other = self.nodes_of(region).into_iter().find(|node| *node != replica).unwrap();
        self.ways("CUT", &[replica], &all);
        let left = (3 * self.shards - 1).to_string();
        self.cluster.until("it is out", usize::from(other), |line| column(line, "live") == left);
        let leader = column(&self.cluster.status()[usize::from(other)], "steward").parse().unwrap();
        self.cluster.kill(usize::from(leader));
        self.load.more(30);
        self.ways("MEND", &[replica], &all);
        self.cluster.revive(usize::from(leader));
        self.whole(&[replica, leader]);
    }

    /// A node waits for room when it cannot write what it must remember, and others go on. Replicas
    /// write all the time; a steward of DAST when the view changes, so a replica is killed until
    /// what is left of the last page of the log is used up.
    fn full(&mut self, node: u16) {
        let full = self.cluster.folder.path().join(format!("node-{node}")).join("filler");
        fill(&full);
        let replica = self.first(self.region_of(node)) as u16 + 1;
        let began = Instant::now();
        while self.cluster.metric(usize::from(node), "disk_full") == 0 {
            assert!(began.elapsed() < Duration::from_secs(300), "node {node} finds room");
            if node >= 6 * self.shards {
                self.kill(&[replica]);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.load.more(30);
        let region = self.region_of(node);
        let mut own = Client::connect(self.cluster.at(self.first(region) as u16 + 2)).unwrap();
        for number in 1..4 {
            let said = own.ask(&format!("INCR {{r{region}}}:full")).unwrap();
            assert_eq!(said, Reply::Int(number), "its region goes on");
        }
        std::fs::remove_file(full).unwrap();
        self.whole(&[node]);
    }

    /// The end: all of it was one history. `last` is who reads what is there in the end.
    fn judge(self, last: u16) -> Cluster {
        let history = self.load.end(&mut Client::connect(self.cluster.at(last)).unwrap());
        judged(&history);
        self.cluster
    }
}

/// Leaves no room on the disk of `path`.
fn fill(path: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    let mut piece = vec![0; 1 << 16];
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
}

/// A small disk, until this is dropped.
struct Small(PathBuf);

impl Small {
    /// `None`, with a reason, where none can be made.
    fn at(path: PathBuf) -> Option<Small> {
        std::fs::create_dir_all(&path).unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(&path)
            .output()
            .ok()?;
        if !done.status.success() {
            eprintln!("SKIPPED: no small disk: {}", String::from_utf8_lossy(&done.stderr));
            return None;
        }
        Some(Small(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn nothing_answered_is_lost_when_replicas_managers_and_coordinators_are_killed() {
    // Nodes 0 to 2 are region r0, 3 to 5 are r1; 6 to 8 and 9 to 11 are their stewards.
    let mut town = Town::start(1, 4, &["--record"]);
    town.suffer(&Fault::Kill(vec![1]));
    assert_eq!(column(&town.cluster.status()[1], "life"), "2");
    town.suffer(&Fault::Leader(1));
    town.suffer(&Fault::Still(3, 300));
    town.suffer(&Fault::Clock(4, 5_000));
    town.suffer(&Fault::Clock(4, -5_000));
    let cluster = town.judge(0);
    // A fresh machine decides what each node was told, those that were killed included.
    let files: Vec<_> =
        (0..12).map(|node| cluster.folder.path().join(format!("node-{node}.life-1.rec"))).collect();
    std::thread::sleep(Duration::from_millis(400));
    let out = Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
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

/// A region that is cut off for 5 s; a replica that is cut off before its steward fails; three
/// replicas of three shards that fail at one moment.
#[test]
fn cuts_and_three_failures_at_once_lose_nothing() {
    let mut town = Town::start(2, 6, &[]);
    town.suffer(&Fault::CutOff(1, 5_000));
    town.suffer(&Fault::CutThenLeader(2));
    town.suffer(&Fault::Kill(vec![1, 4, 7]));
    town.judge(5);
}

/// A region, a shard, and everything lose their power: the logs have what was answered.
#[test]
fn power_cuts_lose_nothing() {
    let mut town = Town::start(1, 4, &["--durable", "on"]);
    town.suffer(&Fault::Power(vec![0, 1, 2, 6, 7, 8]));
    town.suffer(&Fault::Power(vec![3, 4, 5]));
    town.suffer(&Fault::Power((0..12).collect()));
    town.judge(0);
}

/// Home regions forget results after 30 s, and decisions once did.
#[test]
#[ignore = "waits for 40 s"]
fn a_cut_that_is_longer_than_results_are_remembered_loses_nothing() {
    let mut town = Town::start(1, 6, &[]);
    town.suffer(&Fault::CutOff(1, 40_000));
    town.judge(5);
}

#[test]
fn a_rolling_restart_loses_nothing() {
    let mut town = Town::start(1, 4, &[]);
    town.suffer(&Fault::Rolling);
    town.judge(0);
}

#[test]
fn a_full_disk_is_waited_for_and_loses_nothing() {
    for (protocol, node) in [("dast", 7), ("dast", 1), ("two-phase", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let Some(disk) = Small::at(folder.path().join(format!("node-{node}"))) else { return };
        let mut town = Town::start_in(folder, 1, 4, &["--durable", "on", "--protocol", protocol]);
        town.suffer(&Fault::Full(node));
        drop(disk);
        town.judge(0);
    }
}

/// Faults drawn by a seed, one after the other, while clients run.
#[test]
fn schedules_of_faults_lose_nothing() {
    for seed in cavy_core::laws::seeds(|name| std::env::var(name).ok(), 1..4) {
        eprintln!("CAVY_SEED={seed} cargo test -p cavy-txn-cli --test txn_live schedules");
        let mut town = Town::start(1, 3, &[]);
        let mut draws = seed;
        let mut draw = |n: u64| {
            draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
            (draws >> 33) % n
        };
        for _ in 0..3 {
            let node = draw(12) as u16;
            town.suffer(&match draw(8) {
                0 | 1 => Fault::Kill(vec![node]),
                2 => Fault::Still(node, 300),
                3 => Fault::Leader(node % 2),
                4 => Fault::CutThenLeader(node % 6),
                5 => Fault::CutOff(node % 2, 1_000),
                6 => Fault::Power(town.nodes_of(node % 2)),
                _ => Fault::Clock(node % 6, if draw(2) == 0 { 5_000 } else { -5_000 }),
            });
        }
        town.judge(5);
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
