//! A cluster on one machine: every node is a process, which is started again when it ends.

use super::{Cluster, FrontEnd, Server};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that ended comes back after so long.
const REST: Duration = Duration::from_secs(2);

/// A cluster whose nodes are children of this process.
#[derive(Debug)]
pub struct Local {
    /// What they were given.
    pub cluster: Cluster,
    folder: PathBuf,
    program: PathBuf,
    nodes: BTreeMap<u32, Slot>,
    /// Nodes come back by themselves.
    pub comes_back: bool,
}

#[derive(Debug)]
struct Slot {
    child: Option<Child>,
    ended: Option<Instant>,
}

/// The system gives ports from here on to whoever connects: a node that comes back could find its
/// port taken.
const GIVEN: u16 = 32_768;
/// Ports below are those of well-known services.
const KNOWN: u16 = 10_240;

/// Ports of a loopback address that are free now, and that the system gives to nobody.
fn free(address: Ipv4Addr, count: usize) -> io::Result<Vec<SocketAddr>> {
    let mut listeners: Vec<TcpListener> = Vec::with_capacity(count);
    let mut fault = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..64 * count {
        if listeners.len() == count {
            break;
        }
        let mut number = [0; 2];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
        let port = KNOWN + u16::from_le_bytes(number) % (GIVEN - KNOWN);
        match TcpListener::bind((address, port)) {
            Ok(listener) => listeners.push(listener),
            Err(error) => fault = error,
        }
    }
    if listeners.len() < count {
        return Err(fault);
    }
    listeners.iter().map(TcpListener::local_addr).collect()
}

/// A loopback address that no other cluster has: between now and when a node listens, somebody else
/// could take its port.
fn own_address() -> io::Result<Ipv4Addr> {
    let mut parts = [0; 3];
    rustix::rand::getrandom(&mut parts, rustix::rand::GetRandomFlags::empty())?;
    Ok(Ipv4Addr::new(127, 1 + parts[0] % 250, parts[1], 1 + parts[2] % 250))
}

/// The share of a processor that copies of a server may have, in percent, where so many servers
/// share one machine: half of the usual share of what each of them has. When p falls all of them
/// copy at one time, and every query waits for processors behind all of them.
fn copy_percent(servers: u32) -> u32 {
    let usual = Cluster::default().copy_percent;
    let processors = std::thread::available_parallelism().map_or(1, |number| number.get() as u32);
    (usual * processors).div_ceil(2 * servers.max(1)).clamp(1, usual / 2)
}

impl Local {
    /// Describes a cluster of so many servers and front ends in `folder`; one that is described
    /// there already is that one. `http`: where the first front end hears clients.
    ///
    /// # Errors
    /// A sentence.
    pub fn new(
        program: &Path,
        folder: &Path,
        (servers, front_ends): (u32, u32),
        http: Option<SocketAddr>,
        change: impl FnOnce(&mut Cluster),
    ) -> Result<Local, String> {
        let text = |error: io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(text)?;
        let path = folder.join("cluster.toml");
        let cluster = match fs::read_to_string(&path) {
            Ok(known) => Cluster::read(&known)?,
            Err(_) => {
                let none = SocketAddr::from(([127, 0, 0, 1], 0));
                let count = (1 + servers + front_ends) as usize;
                let own = own_address().and_then(|own| free(own, count)).map_err(text)?;
                let https = free(Ipv4Addr::LOCALHOST, front_ends as usize).map_err(text)?;
                let (mut own, mut https) = (own.into_iter(), https.into_iter());
                let mut next = || own.next().unwrap_or(none);
                let directory = next();
                let mut front_end =
                    |_| FrontEnd { address: next(), http: https.next().unwrap_or(none) };
                let front_ends: Vec<FrontEnd> = (0..front_ends).map(&mut front_end).collect();
                let server = |_| Server { address: next(), speed: 1.0 };
                let copy_percent = copy_percent(servers);
                let servers = (0..servers).map(server).collect();
                let mut cluster =
                    Cluster { directory, front_ends, servers, copy_percent, ..Cluster::default() };
                change(&mut cluster);
                if let (Some(http), Some(first)) = (http, cluster.front_ends.first_mut()) {
                    first.http = http;
                }
                cluster.check()?;
                let written = toml::to_string(&cluster).map_err(|error| error.to_string())?;
                fs::write(&path, written).map_err(text)?;
                cluster
            }
        };
        let (program, folder) = (program.to_owned(), folder.to_owned());
        Ok(Local { cluster, folder, program, nodes: BTreeMap::new(), comes_back: true })
    }

    /// Starts a node.
    ///
    /// # Errors
    /// A sentence.
    pub fn start(&mut self, node: u32) -> Result<(), String> {
        let text = |error: io::Error| format!("cannot start node {node}: {error}");
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("node-{node}.log")))
            .map_err(text)?;
        let child = Command::new(&self.program)
            .arg("node")
            .arg("--config")
            .arg(self.folder.join("cluster.toml"))
            .args(["--node", &node.to_string(), "--parent", &std::process::id().to_string()])
            .arg("--folder")
            .arg(self.folder.join(format!("node-{node}")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(text)?;
        self.nodes.insert(node, Slot { child: Some(child), ended: None });
        Ok(())
    }

    /// Starts all nodes.
    ///
    /// # Errors
    /// A sentence.
    pub fn start_all(&mut self) -> Result<(), String> {
        (0..self.cluster.layout().nodes()).try_for_each(|node| self.start(node))
    }

    /// The process of a node.
    pub fn pid(&self, node: u32) -> Option<u32> {
        self.nodes.get(&node)?.child.as_ref().map(Child::id)
    }

    /// Kills a node as `kill -9` does.
    pub fn kill(&mut self, node: u32) {
        if let Some(child) = self.nodes.get_mut(&node).and_then(|slot| slot.child.as_mut()) {
            let _ = child.kill();
        }
    }

    /// Removes what a node has stored. Its process must have ended.
    ///
    /// # Errors
    /// When the folder cannot be removed.
    pub fn wipe(&mut self, node: u32) -> io::Result<()> {
        fs::remove_dir_all(self.folder.join(format!("node-{node}")))
    }

    /// Has a node stand still, or go on.
    pub fn pause(&self, node: u32, still: bool) {
        use rustix::process::Signal;
        if let Some(pid) = self.pid(node).and_then(|pid| rustix::process::Pid::from_raw(pid as i32))
        {
            let signal = if still { Signal::STOP } else { Signal::CONT };
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Looks at all nodes: those that ended are started again after a rest. Returns what to tell.
    pub fn look(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        let mut back = Vec::new();
        for (&node, slot) in &mut self.nodes {
            if let Some(child) = &mut slot.child {
                if let Ok(Some(status)) = child.try_wait() {
                    told.push(format!("node {node} ended: {status}"));
                    slot.child = None;
                    slot.ended = Some(Instant::now());
                }
            } else if slot.ended.is_some_and(|ended| ended.elapsed() >= REST) && self.comes_back {
                back.push(node);
            }
        }
        for node in back {
            match self.start(node) {
                Ok(()) => told.push(format!("node {node} is back")),
                Err(error) => told.push(error),
            }
        }
        told
    }

    /// Has a node hand over what it holds and end, as SIGTERM does.
    pub fn dismiss(&mut self, node: u32) {
        let child = self.nodes.get(&node).and_then(|slot| slot.child.as_ref());
        if let Some(pid) = child.and_then(|c| rustix::process::Pid::from_raw(c.id() as i32)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Ends all nodes: asks first, and kills after two seconds. Nothing is handed over.
    pub fn end(&mut self) {
        let children = self.nodes.values_mut().filter_map(|slot| slot.child.as_mut());
        for child in children {
            if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
            }
        }
        let until = Instant::now() + Duration::from_secs(2);
        for slot in self.nodes.values_mut() {
            let Some(child) = &mut slot.child else { continue };
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
            slot.child = None;
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_all_servers_have_a_tenth_of_the_processors() {
        let processors = std::thread::available_parallelism().map_or(1, |one| one.get() as u32);
        for servers in [1, 2, 3, 12, 64] {
            let all = copy_percent(servers) * servers;
            assert!(all <= 10 * processors + servers, "{servers} servers: {all} %");
            assert!((1..=10).contains(&copy_percent(servers)));
        }
    }

    #[test]
    fn ports_of_nodes_are_none_that_the_system_gives_away() {
        let all = free(Ipv4Addr::LOCALHOST, 20).expect("ports");
        assert!(all.iter().all(|address| (KNOWN..GIVEN).contains(&address.port())), "{all:?}");
        let different: std::collections::BTreeSet<u16> = all.iter().map(SocketAddr::port).collect();
        assert_eq!(different.len(), 20);
    }
}
