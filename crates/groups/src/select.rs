//! Which processes are a service.

use procfs::process::{FDTarget, Process, all_processes};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// How a user names the processes of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A process and its descendants.
    Pid(i32),
    /// Whoever listens on this TCP port, with descendants.
    Port(u16),
    /// All whose command line contains this text, with descendants.
    Command(String),
    /// All in this control group and those below it; it is used where it is.
    Cgroup(PathBuf),
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` selects no processes: write pid:1234, port:8080, cmd:TEXT or \
                 cgroup:/sys/fs/cgroup/..."
            )
        };
        let (how, what) = text.split_once(':').ok_or_else(wrong)?;
        match how {
            "pid" => what.parse().ok().filter(|pid| *pid > 0).map(Selector::Pid).ok_or_else(wrong),
            "port" => {
                what.parse().ok().filter(|port| *port > 0).map(Selector::Port).ok_or_else(wrong)
            }
            "cmd" if !what.trim().is_empty() => Ok(Selector::Command(what.to_string())),
            "cgroup" if what.starts_with('/') => Ok(Selector::Cgroup(PathBuf::from(what))),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Pid(pid) => write!(f, "pid:{pid}"),
            Selector::Port(port) => write!(f, "port:{port}"),
            Selector::Command(text) => write!(f, "cmd:{text}"),
            Selector::Cgroup(path) => write!(f, "cgroup:{}", path.display()),
        }
    }
}

/// One process, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// When it started, in ticks since boot: with the number it names a process for ever.
    pub started: u64,
    /// Its command, or its name in parentheses for threads of the kernel.
    pub command: String,
}

/// All processes of this machine now, by number. Those that end meanwhile are left out.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn processes() -> Result<BTreeMap<i32, Seen>, String> {
    let all = all_processes().map_err(|error| format!("cannot read /proc: {error}"))?;
    let seen = all.filter_map(|process| seen(&process.ok()?));
    Ok(seen.map(|seen| (seen.pid, seen)).collect())
}

fn seen(process: &Process) -> Option<Seen> {
    let stat = process.stat().ok()?;
    let words = process.cmdline().unwrap_or_default();
    let command = if words.is_empty() { format!("({})", stat.comm) } else { words.join(" ") };
    Some(Seen { pid: stat.pid, parent: stat.ppid, started: stat.starttime, command })
}

/// `roots` and all that descend from them.
pub fn with_descendants(all: &BTreeMap<i32, Seen>, roots: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut found: BTreeSet<i32> = roots.clone();
    loop {
        let before = found.len();
        let born = all.values().filter(|seen| found.contains(&seen.parent)).map(|seen| seen.pid);
        let born: Vec<i32> = born.collect();
        found.extend(born);
        if found.len() == before {
            return found;
        }
    }
}

impl Selector {
    /// The processes that are selected now, descendants included.
    ///
    /// # Errors
    /// A sentence with a cure when nobody is selected.
    pub fn find(&self, all: &BTreeMap<i32, Seen>) -> Result<BTreeSet<i32>, String> {
        let roots: BTreeSet<i32> = match self {
            Selector::Pid(pid) => all.contains_key(pid).then_some(*pid).into_iter().collect(),
            Selector::Port(port) => listeners(*port)?,
            Selector::Command(text) => {
                let own = std::process::id() as i32;
                let fits = |seen: &&Seen| seen.pid != own && seen.command.contains(text.as_str());
                all.values().filter(fits).map(|seen| seen.pid).collect()
            }
            Selector::Cgroup(path) => members(path)?,
        };
        if roots.is_empty() {
            let why = match self {
                Selector::Pid(_) => "there is no such process",
                Selector::Port(_) => "nobody listens there; is the service up, on TCP?",
                Selector::Command(_) => "no command line contains this; `ps ax` lists them",
                Selector::Cgroup(_) => "it holds no process",
            };
            return Err(format!("{self}: {why}"));
        }
        match self {
            Selector::Cgroup(_) => Ok(roots),
            _ => Ok(with_descendants(all, &roots)),
        }
    }
}

/// Processes that have a socket open which listens on `port`.
fn listeners(port: u16) -> Result<BTreeSet<i32>, String> {
    let unread = |error: procfs::ProcError| format!("cannot read the table of sockets: {error}");
    let mut entries = procfs::net::tcp().map_err(unread)?;
    entries.extend(procfs::net::tcp6().unwrap_or_default());
    let listens = |entry: &procfs::net::TcpNetEntry| {
        entry.state == procfs::net::TcpState::Listen && entry.local_address.port() == port
    };
    let sockets: BTreeSet<u64> =
        entries.iter().filter(|entry| listens(entry)).map(|entry| entry.inode).collect();
    if sockets.is_empty() {
        return Ok(BTreeSet::new());
    }
    let has = |process: &Process| {
        let open = process.fd().ok()?;
        let mut targets = open.filter_map(|fd| fd.ok()).map(|fd| fd.target);
        targets
            .any(|target| matches!(target, FDTarget::Socket(inode) if sockets.contains(&inode)))
            .then_some(process.pid)
    };
    let all = all_processes().map_err(|error| format!("cannot read /proc: {error}"))?;
    Ok(all.filter_map(|process| has(&process.ok()?)).collect())
}

/// Processes of a control group and of those below it.
///
/// # Errors
/// When it is no control group.
pub fn members(path: &std::path::Path) -> Result<BTreeSet<i32>, String> {
    let file = path.join("cgroup.procs");
    let text = std::fs::read_to_string(&file)
        .map_err(|error| format!("{} is no control group: {error}", path.display()))?;
    let mut found: BTreeSet<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let below = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        found.extend(members(&entry.path())?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_and_written() {
        for text in ["pid:12", "port:80", "cmd:nginx: worker", "cgroup:/sys/fs/cgroup/x"] {
            assert_eq!(text.parse::<Selector>().map(|one| one.to_string()), Ok(text.to_string()));
        }
        for wrong in ["", "80", "pid:", "pid:0", "pid:-1", "port:70000", "cmd: ", "cgroup:x", "x:y"]
        {
            let said = wrong.parse::<Selector>().expect_err(wrong);
            assert!(said.contains("port:8080"), "{said}");
        }
    }

    #[test]
    fn descendants_are_found_however_deep() {
        let one = |pid, parent| (pid, Seen { pid, parent, started: 1, command: format!("p{pid}") });
        let all: BTreeMap<i32, Seen> =
            [one(1, 0), one(5, 1), one(9, 5), one(7, 9), one(8, 1)].into_iter().collect();
        let found = with_descendants(&all, &BTreeSet::from([5]));
        assert_eq!(found, BTreeSet::from([5, 7, 9]));
    }

    #[test]
    fn a_listener_is_found_by_its_port() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
        let port = socket.local_addr().expect("an address").port();
        let found = Selector::Port(port).find(&processes().expect("/proc")).expect("a process");
        assert!(found.contains(&(std::process::id() as i32)), "{found:?}");
        drop(socket);
        let said = Selector::Port(port).find(&processes().expect("/proc"));
        assert!(said.expect_err("nobody listens").contains("nobody listens"));
    }
}
