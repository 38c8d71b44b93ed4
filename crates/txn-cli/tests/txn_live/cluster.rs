//! A local cluster, started by the command itself.

use super::resp::{Client, Reply};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub struct Cluster {
    child: Child,
    pub port: u16,
    pub folder: TempDir,
    /// Process of each node, as the command says, or as it was started again.
    pub pids: Vec<i32>,
    revived: BTreeMap<usize, Child>,
}

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port below which nobody listens on any of those that a cluster takes. All of them are below
/// 32768: the kernel gives the ports from there on to whoever connects, so that one which was free
/// here might be taken when the node comes to it.
fn free_port(nodes: u16) -> u16 {
    let spread = (std::process::id() % 97) as u16 * 100;
    for turn in 0..200 {
        let port = 2_000 + (spread + NEXT.fetch_add(60, Relaxed) + turn * 60) % 10_000;
        let free = |at: u16| TcpListener::bind(("127.0.0.1", at)).is_ok();
        if (0..nodes)
            .all(|id| free(port + id) && free(port + 10_000 + id) && free(port + 20_000 + id))
        {
            return port;
        }
    }
    panic!("no ports are free");
}

impl Cluster {
    /// A cluster with short distances, which nodes make themselves.
    pub fn start(shape: &str, nodes: u16, more: &[&str]) -> Cluster {
        let distances = ["--within-ms", "0.5", "--across-ms", "10", "--wan", "carrier"];
        Cluster::start_as(shape, nodes, &[&distances, more].concat())
    }

    pub fn start_as(shape: &str, nodes: u16, more: &[&str]) -> Cluster {
        Cluster::start_in(tempfile::tempdir().unwrap(), shape, nodes, more)
    }

    /// The same in a folder that may have folders of nodes.
    pub fn start_in(folder: TempDir, shape: &str, nodes: u16, more: &[&str]) -> Cluster {
        Cluster::start_at(folder, free_port(nodes), shape, nodes, more)
    }

    fn start_at(folder: TempDir, port: u16, shape: &str, nodes: u16, more: &[&str]) -> Cluster {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
            .args(["--local", shape, "--port", &port.to_string()])
            .arg("--data")
            .arg(folder.path())
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut pids = Vec::new();
        loop {
            let line = lines.next().expect("the cluster ended before it was ready").unwrap();
            if line == "ready" {
                break;
            }
            if let Some((_, rest)) = line.split_once(" pid ") {
                pids.push(rest.split_whitespace().next().unwrap().parse().unwrap());
            }
        }
        assert_eq!(pids.len(), usize::from(nodes), "it says who runs");
        Cluster { child, port, folder, pids, revived: BTreeMap::new() }
    }

    /// Where clients of a node connect.
    pub fn at(&self, node: u16) -> u16 {
        self.port + node
    }

    /// kill -9 of the command itself.
    pub fn kill_all(mut self) -> (u32, Vec<i32>) {
        let command = self.child.id();
        let _ = self.child.kill();
        let _ = self.child.wait();
        (command, std::mem::take(&mut self.pids))
    }

    /// The process of the command.
    pub fn command(&self) -> u32 {
        self.child.id()
    }

    /// kill -9.
    pub fn kill(&mut self, node: usize) {
        signal(self.pids[node], "-KILL");
        self.wait_for_end(node);
    }

    /// kill -9 of several before any of them is waited for.
    pub fn kill_at_once(&mut self, nodes: &[u16]) {
        nodes.iter().for_each(|node| signal(self.pids[usize::from(*node)], "-KILL"));
        nodes.iter().for_each(|node| self.wait_for_end(usize::from(*node)));
    }

    /// Asks a node to end, and waits.
    pub fn end_node(&mut self, node: usize) {
        signal(self.pids[node], "-TERM");
        self.wait_for_end(node);
    }

    /// Waits until the process of a node is gone.
    pub fn wait_for_end(&mut self, node: usize) {
        if let Some(mut child) = self.revived.remove(&node) {
            let _ = child.wait();
            return;
        }
        let began = Instant::now();
        while !self.has_ended(node) {
            assert!(began.elapsed() < Duration::from_secs(60), "node {node} does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process of a node is gone.
    pub fn has_ended(&self, node: usize) -> bool {
        !std::path::Path::new("/proc").join(self.pids[node].to_string()).exists()
    }

    pub fn stop_for(&self, node: usize, span: Duration) {
        signal(self.pids[node], "-STOP");
        std::thread::sleep(span);
        signal(self.pids[node], "-CONT");
    }

    /// Starts a node again, as an operator would.
    pub fn revive(&mut self, node: usize) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
            .args(["node", "--with-parent", "--id", &node.to_string(), "--config"])
            .arg(self.file())
            .arg("--data")
            .arg(self.folder.path().join(format!("node-{node}")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with(&format!("node {node} ")), "{line}");
        self.pids[node] = child.id() as i32;
        self.revived.insert(node, child);
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("cluster.toml")
    }

    /// What `status` prints, a line a node.
    pub fn status(&self) -> Vec<String> {
        let out = Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
            .args(["status", "--config"])
            .arg(self.file())
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap().lines().skip(1).map(str::to_string).collect()
    }

    /// A count that a node has for Prometheus.
    pub fn metric(&self, node: usize, name: &str) -> u64 {
        let address = ("127.0.0.1", self.port + 20_000 + node as u16);
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let start = format!("cavy_txn_{name}");
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        let line = lines.into_iter().find(|line| line.starts_with(&start)).expect(name);
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until `status` says so of a node.
    pub fn until(&self, what: &str, node: usize, holds: impl Fn(&str) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.status();
            if holds(&status[node]) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "in vain: {what}: {status:#?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends it as a user does, and starts it on what it left.
    fn again(mut self, shape: &str, more: &[&str]) -> Cluster {
        signal(self.child.id() as i32, "-TERM");
        assert!(self.child.wait().unwrap().success());
        let (port, nodes) = (self.port, self.pids.len() as u16);
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Cluster::start_at(folder, port, shape, nodes, more)
    }

    /// Ends it as a user does, and sees that nothing is left, and that it is not begun again on
    /// what it left.
    pub fn end(mut self) {
        signal(self.child.id() as i32, "-TERM");
        assert!(self.child.wait().unwrap().success());
        for node in 0..self.pids.len() {
            assert!(self.has_ended(node), "the process of node {node} is left");
        }
        let again = Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
            .args(["--local", "1x1x3", "--port", &self.port.to_string(), "--data"])
            .arg(self.folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stderr);
        assert_eq!(again.status.code(), Some(2), "{said}");
        assert!(said.contains("has nodes of a cluster that has ended"), "{said}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in std::iter::once(&mut self.child).chain(self.revived.values_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// With logs a cluster goes on where it was; without them it says that nothing is left.
#[test]
fn a_cluster_that_ended_goes_on_where_it_was() {
    let more = ["--within-ms", "0.5", "--across-ms", "10", "--wan", "carrier"];
    let mut cluster = Cluster::start_as("1x2x3", 9, &more);
    for turn in 1..4 {
        let mut client = Client::connect(cluster.at(turn)).unwrap();
        for key in ["a", "b", "c"] {
            assert_eq!(client.ask(&format!("INCR {key}")).unwrap(), Reply::Int(i64::from(turn)));
        }
        cluster = cluster.again("1x2x3", &more);
    }
    let file = std::fs::read_to_string(cluster.file()).unwrap();
    assert!(!file.contains("replicated"), "{file}");
    cluster.end();
    let more = [&more[..], &["--durable", "replicated"]].concat();
    Cluster::start_as("1x2x3", 9, &more).end();
}

/// A cluster that cannot start ends and says why; it does not stand there half.
#[test]
fn a_cluster_whose_port_is_taken_ends() {
    let port = free_port(6);
    let taken = TcpListener::bind(("127.0.0.1", port + 1)).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_cavy-txn"))
        .args(["--local", "1x1x3", "--port", &port.to_string()])
        .output()
        .unwrap();
    drop(taken);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success(), "{said}");
    assert!(
        said.contains(&format!("cannot listen for clients on 127.0.0.1:{}", port + 1)),
        "{said}"
    );
    assert!(said.contains("node 1 ended before the cluster was ready"), "{said}");
}

fn signal(pid: i32, which: &str) {
    let sent = Command::new("kill").args([which, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}
