//! A whole cluster on this machine, a process for each node.

use crate::config::{Config, Delay, NodeConfig, Protocol, Shape, Storage, Wan};
use crate::{Fault, line, say, status, talk};
use cavy_core::family::Node;
use cavy_testbed::line::Line;
use clap::Args;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How a local cluster is.
#[derive(Args, Debug)]
pub struct How {
    /// Who orders transactions.
    #[arg(long, value_enum, default_value_t, requires = "local")]
    pub protocol: Protocol,
    /// When what a node must remember counts as stored.
    #[arg(long, value_enum, default_value_t, requires = "local")]
    pub durable: Storage,
    /// One-way time between nodes of a region.
    #[arg(long, default_value_t = 2.5, requires = "local")]
    pub within_ms: f64,
    /// One-way time between regions.
    #[arg(long, default_value_t = 50.0, requires = "local")]
    pub across_ms: f64,
    /// Evenly so much less or more between regions.
    #[arg(long, default_value_t = 0.0, requires = "local")]
    pub jitter_ms: f64,
    /// Who makes the distance between regions; the line where one can stand, if this is absent.
    #[arg(long, value_enum, requires = "local")]
    pub wan: Option<Wan>,
    /// A silent node is taken out after so long; more on a machine that is busy.
    #[arg(long, default_value_t = 500.0, requires = "local")]
    pub fail_after_ms: f64,
    /// Time between two reports of a node's clock.
    #[arg(long, default_value_t = 5.0, requires = "local")]
    pub sync_ms: f64,
    /// Clocks do not stretch: what that is good for, by its absence.
    #[arg(long, requires = "local")]
    pub without_stretch: bool,
    /// Coordinators tell commits to replicas themselves, and not by way of the stewards.
    #[arg(long, requires = "local")]
    pub direct_commit: bool,
    /// Answers of TPC-C carry versions, for histories.
    #[arg(long, requires = "local")]
    pub versions: bool,
    /// The first port for clients; nodes use those 10,000 above, status pages 20,000 above.
    #[arg(long, default_value_t = 7_000, requires = "local")]
    pub port: u16,
    /// Where nodes keep what they must remember, and the cluster its file; a new folder otherwise.
    /// A cluster that ended goes on where it was, if it is started with the same options.
    #[arg(long, requires = "local")]
    pub data: Option<PathBuf>,
    /// Record every node in the folder.
    #[arg(long, requires = "local")]
    pub record: bool,
    /// Start a node again when it ends or is killed.
    #[arg(long, requires = "local")]
    pub restart: bool,
}

struct Running {
    id: u32,
    lives: u32,
    child: Option<Child>,
}

/// A cluster that runs on this machine. It ends when this is dropped.
pub(crate) struct Local {
    pub config: Config,
    /// The file of the cluster, and where its nodes keep what they must remember.
    file: PathBuf,
    folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
    nodes: Vec<Running>,
    /// What makes the distance between regions, if a line does. It goes after the nodes.
    pub line: Option<Arc<Line>>,
}

impl Drop for Local {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.end();
        }
    }
}

impl How {
    /// The line between regions, where one is asked for, or none is and it can stand.
    fn line(&self, shape: Shape) -> Result<Option<Line>, Fault> {
        match self.wan {
            Some(Wan::Line) => line::up(shape.regions, self.across_ms, self.jitter_ms).map(Some),
            Some(Wan::Carrier) => Ok(None),
            None => Ok(line::try_up(shape.regions, self.across_ms, self.jitter_ms)),
        }
    }

    /// The cluster that is asked for.
    fn config(&self, shape: Shape, line: Option<&Line>) -> Result<Config, Fault> {
        let host = ["127.0.0.1".to_string()];
        let mut config = Config::of(shape, &[], &host, 10_000)?;
        if u32::from(self.port) + 20_000 + config.nodes.len() as u32 > 65_535 {
            return Err(Fault::input(format!("--port {} leaves no room above it", self.port)));
        }
        config.protocol = self.protocol;
        config.durable = self.durable;
        config.controls.history = self.versions;
        config.nodes.truncate(config.node_count() as usize);
        let (port, layout) = (self.port, config.layout());
        let at = |host: IpAddr, offset: u16, id: u32| {
            SocketAddr::from((host, port + offset + id as u16))
        };
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for node in &mut config.nodes {
            let id = node.id;
            let region = usize::from(layout.region_of_node(Node(id)).0);
            let host = line.map(|line| IpAddr::V4(line.plan().hosts[region].address));
            *node = NodeConfig {
                id,
                address: at(host.unwrap_or(here), 10_000, id),
                clients: node.clients.map(|_| at(here, 0, id)),
                status: Some(at(here, 20_000, id)),
                space: line.map(|line| line.hosts()[region].name().to_string()),
            };
        }
        let (within_ms, across_ms) = (self.within_ms, self.across_ms);
        let jitter_ms = self.jitter_ms;
        let wan = if line.is_some() { Wan::Line } else { Wan::Carrier };
        config.delay = Some(Delay { within_ms, across_ms, jitter_ms, wan });
        config.timing.fail_after_ms = self.fail_after_ms;
        config.timing.sync_ms = self.sync_ms;
        config.timing.est_ms = (2.0 * across_ms - 4.0 * within_ms).max(2.0 * within_ms);
        config.controls.stretch = !self.without_stretch;
        config.controls.commit_via_steward = !self.direct_commit;
        config.cluster = format!("local-{}", std::process::id());
        // Written and read again, so that it is checked as any file is.
        Config::read(&config.text())
    }
}

/// The cluster is the one that has ended: the same but for its name, which it takes over, and where
/// a line puts its nodes.
fn goes_on(config: &mut Config, ended: &Config) -> bool {
    config.cluster.clone_from(&ended.cluster);
    let mut same = config.clone();
    for (node, old) in same.nodes.iter_mut().zip(&ended.nodes) {
        (node.address, node.space) = (old.address, old.space.clone());
    }
    same == *ended
}

impl Local {
    /// Starts the nodes. `above`: the words before the command's own.
    pub fn start(shape: Shape, how: &How, above: &[&str]) -> Result<Local, Fault> {
        let temporary = match &how.data {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(|e| Fault::new(format!("no folder: {e}")))?),
        };
        let folder: PathBuf = match (&how.data, &temporary) {
            (Some(folder), _) => folder.clone(),
            (None, Some(folder)) => folder.path().to_path_buf(),
            (None, None) => PathBuf::from("."),
        };
        let ended = folder.join("node-0").exists();
        let refused = |hint: &str| {
            let text = format!("{} has nodes of a cluster that has ended", folder.display());
            Err(Fault::input(text).hint(hint))
        };
        if ended && how.durable == Storage::Replicated {
            // They would all ask each other for a state that none has.
            return refused("its replicas held data in memory: begin in an empty folder");
        }
        let line = how.line(shape)?;
        let mut config = how.config(shape, line.as_ref())?;
        let file = folder.join("cluster.toml");
        if ended && !goes_on(&mut config, &Config::load(&file)?) {
            return refused("start it with the options that it had, or begin in an empty folder");
        }
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&file, config.text()))
            .map_err(|error| Fault::new(format!("cannot write {}: {error}", file.display())))?;
        let nodes = Vec::new();
        let line = line.map(Arc::new);
        let mut local = Local { config, file, folder, _temporary: temporary, nodes, line };
        for node in &local.config.nodes {
            let mut running = Running { id: node.id, lives: 0, child: None };
            running.start(&local.folder, &local.file, how, above)?;
            local.nodes.push(running);
        }
        Ok(local)
    }
}

pub(crate) fn local(shape: Shape, how: &How, above: &[&str]) -> Result<ExitCode, Fault> {
    // Before anything is made, so that an early Ctrl-C leaves as little behind as a late one.
    let ending = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ending);
    ctrlc::set_handler(move || told.store(true, Relaxed))
        .map_err(|error| Fault::new(format!("cannot hear signals: {error}")))?;
    let mut local = Local::start(shape, how, above)?;
    let control = match local.line.clone() {
        Some(line) => Some(line::listen(line, Arc::clone(&ending))?),
        None => None,
    };
    local.introduce();
    let ended = local.until_ready(&ending).and_then(|ready| {
        if ready {
            say("ready");
        }
        local.watch(how, above, &ending)
    });
    ending.store(true, Relaxed);
    if let Some(control) = control {
        let _ = control.join();
    }
    ended
}

impl Running {
    fn start(
        &mut self,
        folder: &Path,
        file: &Path,
        how: &How,
        above: &[&str],
    ) -> Result<(), Fault> {
        self.lives += 1;
        let program = std::env::current_exe()
            .map_err(|error| Fault::new(format!("this program cannot be found: {error}")))?;
        let mut command = Command::new(program);
        command.args(above).arg("node").arg("--with-parent").arg("--config").arg(file);
        command.args(["--id", &self.id.to_string()]);
        command.arg("--data").arg(folder.join(format!("node-{}", self.id)));
        if how.record {
            let name = format!("node-{}.life-{}.rec", self.id, self.lives);
            command.arg("--record").arg(folder.join(name));
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.map_err(|error| Fault::new(format!("cannot start a node: {error}")))?;
        self.child = Some(child);
        Ok(())
    }

    /// Asks the node to end, and waits.
    fn end(&mut self) {
        let Some(child) = &mut self.child else { return };
        if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        for _ in 0..100 {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Local {
    /// Says where each node is.
    fn introduce(&self) {
        let config = &self.config;
        let delay = config.delay.map_or(String::new(), |delay| {
            format!(", {} ms within a region and {} ms across", delay.within_ms, delay.across_ms)
        });
        let by =
            if self.line.is_some() { ", by a line that `cavy live line set` changes" } else { "" };
        say(&format!("{} nodes{delay}{by}; {}", self.nodes.len(), self.file.display()));
        for node in &self.nodes {
            let pid = node.child.as_ref().map_or(0, Child::id);
            let clients = config.node(node.id).and_then(|node| node.clients);
            let clients =
                clients.map_or(String::new(), |at| format!("  redis-cli -p {}", at.port()));
            let part = config.part(node.id);
            say(&format!("node {:>3}  pid {pid:>7}  {part:<26}{clients}", node.id));
        }
    }

    /// Waits until all nodes know each other; false when it is to end before.
    ///
    /// # Errors
    ///
    /// If a node ends before: the others would wait for it for ever, and so would who reads
    /// `ready`.
    pub fn until_ready(&mut self, ending: &AtomicBool) -> Result<bool, Fault> {
        for _ in 0..600 {
            if ending.load(Relaxed) {
                return Ok(false);
            }
            for node in &mut self.nodes {
                let Some(child) = &mut node.child else { continue };
                if let Ok(Some(code)) = child.try_wait() {
                    let text =
                        format!("node {} ended before the cluster was ready: {code}", node.id);
                    return Err(
                        Fault::new(text).hint("it says above why; --port takes other ports")
                    );
                }
            }
            let answers = |node: &NodeConfig| {
                let pairs = node.status.and_then(|at| status::ask(at).ok()).unwrap_or_default();
                let all = (self.config.nodes.len() - 1).to_string();
                pairs.iter().any(|(name, value)| name == "peers_up" && *value == all)
            };
            if self.config.nodes.iter().all(answers) {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(Fault::new("not all nodes have found each other within a minute"))
    }

    /// Waits for the end, and starts again what ended by itself where that is wanted.
    fn watch(&mut self, how: &How, above: &[&str], ending: &AtomicBool) -> Result<ExitCode, Fault> {
        while !ending.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
            for node in &mut self.nodes {
                let Some(child) = &mut node.child else { continue };
                if let Ok(Some(code)) = child.try_wait() {
                    talk(&format!("node {} ended: {code}", node.id));
                    node.child = None;
                    if how.restart {
                        node.start(&self.folder, &self.file, how, above)?;
                    }
                }
            }
            if self.nodes.iter().all(|node| node.child.is_none()) {
                return Err(Fault::new("all nodes have ended"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
