//! A whole cluster on this machine, a process for each node.

use crate::config::{Config, Delay, NodeConfig, Protocol, Shape, Storage};
use crate::{Fault, say, status, talk};
use clap::Args;
use std::net::SocketAddr;
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
    /// Up to so much more between regions.
    #[arg(long, default_value_t = 0.0, requires = "local")]
    pub jitter_ms: f64,
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
}

impl Drop for Local {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.end();
        }
    }
}

impl How {
    /// The cluster that is asked for.
    fn config(&self, shape: Shape) -> Result<Config, Fault> {
        let host = ["127.0.0.1".to_string()];
        let mut config = Config::of(shape, &[], &host, 10_000)?;
        if u32::from(self.port) + 20_000 + config.nodes.len() as u32 > 65_535 {
            return Err(Fault::input(format!("--port {} leaves no room above it", self.port)));
        }
        config.protocol = self.protocol;
        config.durable = self.durable;
        config.controls.history = self.versions;
        config.nodes.truncate(config.node_count() as usize);
        let port = self.port;
        let at =
            |offset: u16, id: u32| SocketAddr::from(([127, 0, 0, 1], port + offset + id as u16));
        for node in &mut config.nodes {
            let id = node.id;
            let clients = node.clients.map(|_| at(0, id));
            let status = Some(at(20_000, id));
            *node = NodeConfig { id, address: at(10_000, id), clients, status };
        }
        let (within_ms, across_ms) = (self.within_ms, self.across_ms);
        let jitter_ms = self.jitter_ms;
        config.delay = Some(Delay { within_ms, across_ms, jitter_ms });
        config.timing.fail_after_ms = self.fail_after_ms;
        config.timing.sync_ms = self.sync_ms;
        config.timing.est_ms = (2.0 * across_ms + jitter_ms - 4.0 * within_ms).max(2.0 * within_ms);
        config.controls.stretch = !self.without_stretch;
        config.controls.commit_via_steward = !self.direct_commit;
        config.cluster = format!("local-{}", std::process::id());
        // Written and read again, so that it is checked as any file is.
        Config::read(&config.text())
    }
}

impl Local {
    /// Starts the nodes. `above`: the words before the command's own.
    pub fn start(shape: Shape, how: &How, above: &[&str]) -> Result<Local, Fault> {
        let config = how.config(shape)?;
        let temporary = match &how.data {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(|e| Fault::new(format!("no folder: {e}")))?),
        };
        let folder: PathBuf = match (&how.data, &temporary) {
            (Some(folder), _) => folder.clone(),
            (None, Some(folder)) => folder.path().to_path_buf(),
            (None, None) => PathBuf::from("."),
        };
        if folder.join("node-0").exists() {
            // They would all ask each other for a state that none has.
            let text = format!("{} has nodes of a cluster that has ended", folder.display());
            return Err(Fault::input(text)
                .hint("replicas hold data in memory, so a new cluster begins in an empty folder"));
        }
        let file = folder.join("cluster.toml");
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&file, config.text()))
            .map_err(|error| Fault::new(format!("cannot write {}: {error}", file.display())))?;
        let nodes = Vec::new();
        let mut local = Local { config, file, folder, _temporary: temporary, nodes };
        for node in &local.config.nodes {
            let mut running = Running { id: node.id, lives: 0, child: None };
            running.start(&local.folder, &local.file, how, above)?;
            local.nodes.push(running);
        }
        Ok(local)
    }
}

pub(crate) fn local(shape: Shape, how: &How, above: &[&str]) -> Result<ExitCode, Fault> {
    let mut local = Local::start(shape, how, above)?;
    let ending = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ending);
    ctrlc::set_handler(move || told.store(true, Relaxed))
        .map_err(|error| Fault::new(format!("cannot hear signals: {error}")))?;
    local.introduce();
    if local.until_ready(&ending)? {
        say("ready");
    }
    local.watch(how, above, &ending)
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
        say(&format!("{} nodes{delay}; {}", self.nodes.len(), self.file.display()));
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
